/* Selection and sorting as GNU's C++ library does them: heaps (Williams, Floyd), quickselect and quicksort with the
 * median of three and a limit on depth (Musser's introsort, 1997), insertion sort for short runs.  Every comparison
 * and move is made in its order, because the order of equal entries depends on it. */
#include "kernels/cpu/random/select.h"

#include <stdbool.h>

enum { SHORT_RUN = 16, PARTIAL_RATIO = 64 };

/* Whether a comes before b. */
static bool before(td_scored a, td_scored b)
{
    return (a.score != a.score && b.score == b.score) || a.score > b.score;
}
static void swap(td_scored *a, td_scored *b)
{
    td_scored kept = *a;
    *a = *b;
    *b = kept;
}

/* ---- heaps: the entry that comes last is on top */

/* Put `value` at `hole`, which is below `top`: first let the hole sink to a leaf, then let the value rise. */
static void settle(td_scored *heap, int64_t hole, int64_t n, td_scored value)
{
    int64_t top = hole, child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        child -= before(heap[child], heap[child - 1]);
        heap[hole] = heap[child];
        hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) {
        child = 2 * child + 1;
        heap[hole] = heap[child];
        hole = child;
    }
    while (hole > top && before(heap[(hole - 1) / 2], value)) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = value;
}

/* Move the top of a heap to `to` and what was there into the heap. */
static void exchange_top(td_scored *heap, int64_t n, td_scored *to)
{
    td_scored value = *to;
    *to = heap[0];
    settle(heap, 0, n, value);
}

/* The k first of n, as a heap. */
static void heap_select(td_scored *x, int64_t k, int64_t n)
{
    for (int64_t i = (k - 2) / 2; k > 1 && i >= 0; i--)
        settle(x, i, k, x[i]);
    for (int64_t i = k; i < n; i++)
        if (before(x[i], x[0]))
            exchange_top(x, k, &x[i]);
}

static void partial_sort(td_scored *x, int64_t k, int64_t n)
{
    heap_select(x, k, n);
    for (int64_t last = k - 1; last > 0; last--)
        exchange_top(x, last, &x[last]);
}

/* ---- partition */

/* Exchanges the one in the middle of *a, *b and *c with *to. */
static void median_to_front(td_scored *to, td_scored *a, td_scored *b, td_scored *c)
{
    if (before(*a, *b))
        swap(to, before(*b, *c) ? b : before(*a, *c) ? c : a);
    else
        swap(to, before(*a, *c) ? a : before(*b, *c) ? c : b);
}

/* Cut [first, last) around the median of three; the median itself stays at the front. */
static td_scored *partition(td_scored *first, td_scored *last)
{
    td_scored *pivot = first;
    median_to_front(pivot, first + 1, first + (last - first) / 2, last - 1);
    for (first++;; first++) {
        while (before(*first, *pivot))
            first++;
        last--;
        while (before(*pivot, *last))
            last--;
        if (first >= last)
            return first;
        swap(first, last);
    }
}

/* ---- insertion */

static void insert(td_scored *x)
{
    td_scored value = *x;
    for (; before(value, x[-1]); x--)
        x[0] = x[-1];
    *x = value;
}
static void insertion_sort(td_scored *first, td_scored *last)
{
    for (td_scored *i = first + 1; i < last; i++) {
        if (!before(*i, *first)) {
            insert(i);
            continue;
        }
        td_scored value = *i;
        for (td_scored *j = i; j > first; j--)
            j[0] = j[-1];
        *first = value;
    }
}

/* Twice the logarithm: deeper than that, heaps take over. */
static int depth_limit(int64_t n) { return 2 * (63 - __builtin_clzll((uint64_t)n)); }

static void nth_element(td_scored *first, td_scored *nth, td_scored *last)
{
    for (int depth = depth_limit(last - first); last - first > 3; depth--) {
        if (depth == 0) {
            heap_select(first, nth + 1 - first, last - first);
            swap(first, nth);
            return;
        }
        td_scored *cut = partition(first, last);
        if (cut <= nth)
            first = cut;
        else
            last = cut;
    }
    insertion_sort(first, last);
}

/* Recursion goes as deep as `depth` allows, about twice the logarithm. */
static void quicksort_runs(td_scored *first, td_scored *last, int depth)
{
    while (last - first > SHORT_RUN) {
        if (depth-- == 0) {
            partial_sort(first, last - first, last - first);
            return;
        }
        td_scored *cut = partition(first, last);
        quicksort_runs(cut, last, depth);
        last = cut;
    }
}
/* Quicksort leaves runs of 16 or fewer, which insertion finishes.  The first entry of all is in the first run, so later insertions
 * stop before the beginning without looking for it. */
static void sort(td_scored *first, td_scored *last)
{
    if (first == last)
        return;
    quicksort_runs(first, last, depth_limit(last - first));
    if (last - first <= SHORT_RUN) {
        insertion_sort(first, last);
        return;
    }
    insertion_sort(first, first + SHORT_RUN);
    for (td_scored *i = first + SHORT_RUN; i < last; i++)
        insert(i);
}

/* The choice of PyTorch's topk: partial_sort for at most a 64th, else nth_element and a sort of those before it. */
void td_select_largest(td_scored *x, int64_t n, int64_t k)
{
    if (k <= 0 || n <= 0)
        return;
    if (k * PARTIAL_RATIO <= n) {
        partial_sort(x, k, n);
        return;
    }
    nth_element(x, x + k - 1, x + n);
    sort(x, x + k - 1);
}
