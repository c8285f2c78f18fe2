/* Unstable sorting and selecting in the order that PyTorch has it: included by sort.c like keys.h.
 *
 * Which of several equal elements topk, median and mode point at follows from the algorithms of C++'s standard library
 * as GNU has them (introsort, introselect and heaps, by Musser's design): these make the same comparisons and moves.
 * Names of their originals in libstdc++ are beside them. */

#define BEFORE(x, y) (KEY(x) < KEY(y))
#define SWAP(i, j) do { P kept_ = a[i]; a[i] = a[j]; a[j] = kept_; } while (0)

/* __adjust_heap: the hole goes down to a leaf along the larger children, and the value up from there (__push_heap). */
static void NAME(heap_down)(P *a, int64_t hole, int64_t n, P value)
{
    int64_t top = hole, child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (BEFORE(a[child], a[child - 1]))
            child--;
        a[hole] = a[child];
        hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) {
        child = 2 * (child + 1);
        a[hole] = a[child - 1];
        hole = child - 1;
    }
    for (int64_t parent = (hole - 1) / 2; hole > top && BEFORE(a[parent], value); parent = (hole - 1) / 2) {
        a[hole] = a[parent];
        hole = parent;
    }
    a[hole] = value;
}

/* __heap_select: the first k positions become a heap of the k first elements. */
static void NAME(heap_select)(P *a, int64_t n, int64_t k)
{
    for (int64_t parent = (k - 2) / 2; k > 1 && parent >= 0; parent--)
        NAME(heap_down)(a, parent, k, a[parent]);
    for (int64_t i = k; i < n; i++)
        if (BEFORE(a[i], a[0])) {
            P value = a[i];
            a[i] = a[0];
            NAME(heap_down)(a, 0, k, value);
        }
}

/* __sort_heap */
static void NAME(sort_heap)(P *a, int64_t k)
{
    for (int64_t last = k - 1; last > 0; last--) {
        P value = a[last];
        a[last] = a[0];
        NAME(heap_down)(a, 0, last, value);
    }
}

static void NAME(partial_sort)(P *a, int64_t n, int64_t k)
{
    NAME(heap_select)(a, n, k);
    NAME(sort_heap)(a, k);
}

/* __unguarded_partition_pivot: around the median of the second, middle and last element, which goes to position 0; where the upper
 * part begins.  The loops need no bounds, since the other two of the three stop them. */
static int64_t NAME(partition)(P *a, int64_t n)
{
    int64_t x = 1, y = n / 2, z = n - 1;
    int64_t median = BEFORE(a[x], a[y]) ? BEFORE(a[y], a[z]) ? y : BEFORE(a[x], a[z]) ? z : x
                                        : BEFORE(a[x], a[z]) ? x : BEFORE(a[y], a[z]) ? z : y;
    SWAP(0, median);
    P pivot = a[0];
    int64_t low = 1, high = n;
    for (;;) {
        while (BEFORE(a[low], pivot))
            low++;
        high--;
        while (BEFORE(pivot, a[high]))
            high--;
        if (low >= high)
            return low;
        SWAP(low, high);
        low++;
    }
}

/* __insertion_sort, and the unguarded one behind the first 16, which moves the same. */
static void NAME(insert)(P *a, int64_t n, int64_t from)
{
    for (int64_t i = from; i < n; i++) {
        P value = a[i];
        int64_t k = i;
        for (; k > 0 && BEFORE(value, a[k - 1]); k--)
            a[k] = a[k - 1];
        a[k] = value;
    }
}

/* 2 log2(n) splits at most, then a heap: that bounds the time by n log n. */
static int NAME(depth)(int64_t n) { return n > 0 ? 2 * (63 - __builtin_clzll((unsigned long long)n)) : 0; }

/* __introsort_loop: down to runs of 16, which the insertion finishes. */
static void NAME(intro)(P *a, int64_t n, int depth)
{
    while (n > 16) {
        if (depth-- == 0) {
            NAME(partial_sort)(a, n, n);
            return;
        }
        int64_t cut = NAME(partition)(a, n);
        NAME(intro)(a + cut, n - cut, depth);
        n = cut;
    }
}

static void NAME(intro_sort)(P *a, int64_t n)
{
    NAME(intro)(a, n, NAME(depth)(n));
    NAME(insert)(a, n, 1);
}

/* __introselect (nth_element) */
static void NAME(intro_select)(P *a, int64_t n, int64_t k)
{
    int depth = NAME(depth)(n);
    while (n > 3) {
        if (depth-- == 0) {
            NAME(heap_select)(a, n, k + 1);
            SWAP(0, k);
            return;
        }
        int64_t cut = NAME(partition)(a, n);
        if (cut <= k)
            a += cut, n -= cut, k -= cut;
        else
            n = cut;
    }
    NAME(insert)(a, n, 1);
}

#undef BEFORE
#undef SWAP
