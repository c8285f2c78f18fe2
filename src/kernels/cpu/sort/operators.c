/* sort, topk, kthvalue, median, nanmedian and mode along a dimension: each row through a td_sorter, rows on threads.
 *
 * The dimension is brought to the end by a copy, unless it is there.  A task has one sorter, whose two blocks of pairs serve all of
 * its rows.  Which index is returned among equal elements is PyTorch's where its algorithms are followed: in topk, kthvalue, mode
 * and medians of shorter rows. */

#include "calls_kernels_cpu_sort_operators.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/sort/order.h"
#include "ops/index/sort_kernels.h"

typedef enum wanted { WANT_SORT, WANT_TOP, WANT_KTH, WANT_MEDIAN, WANT_NANMEDIAN, WANT_MODE } wanted;

enum { SHORT = 8, TOGETHER = 512 };     /* elements of a short row, at most; of as many rows as have their keys made at a time */

typedef struct sort_job {
    wanted      what;
    td_dtype    dtype;
    const char *rows;
    char       *values;
    int64_t    *indices;
    int64_t     n, k;           /* elements of a row; of its result */
    bool        descending, sorted;
    int         failed;
} sort_job;

/* The position in sorted order of what a selection wants; for medians, NaN are the last ones.  A median with a NaN in its row is the
 * first NaN, whose index goes with it; of an even number it is the lower one of the two in the middle. */
static int64_t place_of(const sort_job *w, const td_sorter *s)
{
    if (w->what == WANT_KTH)
        return w->k - 1;
    int64_t first, nans = td_sorter_nans(s, &first);
    if (w->what == WANT_MEDIAN)
        return nans ? -1 - first : (w->n - 1) / 2;
    return nans == w->n ? -1 : (w->n - nans - 1) / 2;
}

/* Of the first n in sorted order: the place of the last one of the longest run, the first of those that are equally long. */
static int64_t most_frequent(const td_sorter *s, int64_t n)
{
    int64_t best = 0, most = 0, run = 0;
    for (int64_t i = 0; i < n; i++) {
        run = i && td_sorter_same(s, i, i - 1) ? run + 1 : 1;
        bool end = i + 1 == n || !td_sorter_same(s, i, i + 1);
        if (end && run > most)
            best = i, most = run;
    }
    return best;
}

enum { FEW = 16 };      /* elements that PyTorch's sort inserts one by one */

/* The mode of a few numbers with NaN among them, which differ from everything and stay where they are: what is equal but on two
 * sides of a NaN isn't found together.  Its index. */
static int64_t mode_around_nans(td_dtype dtype, const char *row, int64_t n)
{
    double x[FEW];
    int64_t at[FEW], best = 0, most = 0, run = 0;
    td_convert(TD_F64, x, sizeof *x, dtype, row, td_itemsizes[dtype], n);
    for (int64_t i = 0; i < n; i++) {
        const bool lowest = x[i] < x[i ? at[0] : 0];
        int64_t k = i;
        for (; k > 0 && (lowest || x[i] < x[at[k - 1]]); k--)
            at[k] = at[k - 1];
        at[k] = i;
    }
    for (int64_t i = 0; i < n; i++) {
        run++;
        if (i + 1 < n && x[at[i]] == x[at[i + 1]])
            continue;
        if (run > most)
            best = at[i], most = run;
        run = 0;
    }
    return best;
}

/* Brings what is wanted of a loaded row to where it belongs; the place of a single element, or -1 - its index. */
static int64_t choose(const sort_job *w, td_sorter *s, const char *row)
{
    if (w->what == WANT_MODE) {
        int64_t first, nans = td_sorter_nans(s, &first);
        if (nans && w->n <= FEW)
            return -1 - mode_around_nans(w->dtype, row, w->n);
        td_sorter_sort_unstable(s);
        return most_frequent(s, nans < w->n ? w->n - nans : 1);
    }
    int64_t place = place_of(w, s);
    if (w->what == WANT_KTH)
        td_sorter_select_first(s, place);
    else if (place >= 0 && w->n < 65536)
        td_sorter_nth(s, place);
    else if (place >= 0)
        td_sorter_select(s, place);
    return place;
}

/* Where each of a few keys goes: as many are before it as are below it, or equal and to its left.  No branch that could be guessed
 * wrong. */
static inline void places_of(const uint64_t *keys, int64_t n, int64_t *places)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t k = 0; k < i; k++) {
            const bool below = keys[i] < keys[k];
            places[k] += below, before += !below;
        }
        places[i] = before;
    }
}

/* Short rows [from, to): their keys are made many at a time, since a call per row would cost more than the row.  Up to 8 keys need at
 * most 28 comparisons, which don't depend on each other. */
static void short_rows(const sort_job *w, int64_t from, int64_t to)
{
    uint64_t keys[TOGETHER];
    const int64_t n = w->n, most = TOGETHER / n;
    for (int64_t rows; from < to; from += rows) {
        rows = to - from < most ? to - from : most;
        const int64_t item = td_itemsizes[w->dtype];
        const char *in = w->rows + from * n * item;
        TD_ISA_PICK(td_order_table)->keys(w->dtype, in, rows * n, w->descending, keys);
        for (int64_t r = 0; r < rows; r++) {
            int64_t places[SHORT], at = (from + r) * n, *indices = w->indices ? w->indices + at : NULL;
            places_of(keys + r * n, n, places);
            for (int64_t i = 0; i < n && indices; i++)
                indices[places[i]] = i;
#define PLACE(T)                                                                \
    for (int64_t i = 0; i < n; i++)                                             \
        ((T *)w->values)[at + places[i]] = ((const T *)in)[r * n + i];          \
    break
            switch (item) {
            case 1: PLACE(uint8_t);
            case 2: PLACE(uint16_t);
            case 4: PLACE(uint32_t);
            default: PLACE(uint64_t);
            }
        }
    }
}

/* Rows [from, to), through one sorter but for short rows to sort. */
static void rows_body(void *context, int64_t from, int64_t to)
{
    sort_job *w = context;
    td_sorter s;
    if (w->what == WANT_SORT && w->n > 0 && w->n <= SHORT) {
        short_rows(w, from, to);
        return;
    }
    bool many = w->what == WANT_SORT || w->what == WANT_TOP;
    int64_t item = td_itemsizes[w->dtype], out = many ? w->k : 1;
    if (td_sorter_make(&s, w->dtype, w->n, w->descending)) {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t r = from; r < to; r++) {
        const char *row = w->rows + r * w->n * item;
        char *values = w->values + r * out * item;
        int64_t *indices = w->indices ? w->indices + r * out : NULL, place = 0;
        if (w->what == WANT_SORT) {
            td_sorter_sort(&s, row, values, indices);
            continue;
        } else if (w->what == WANT_TOP) {
            td_sorter_top(&s, row, w->k, w->sorted);
        } else {
            td_sorter_load(&s, row);
            place = choose(w, &s, row);
        }
        if (place < 0 || !many) {
            int64_t at = place < 0 ? -1 - place : td_sorter_index(&s, place);
            memcpy(values, row + at * item, (size_t)item);
            if (indices)
                *indices = at;
        } else {
            td_sorter_take(&s, row, out, values, indices);
        }
    }
    td_sorter_free(&s);
}

/* The common frame: rows in one piece, results in separate rows if the dimension isn't the last, and back. */
static int run(sort_job w, td_tensor *self, int64_t dim, td_tensor *values, td_tensor *indices)
{
    if (td_dtype_is_complex((td_dtype)self->dtype)) {       /* one number, which needs no order, or none */
        if (!self->numel)
            return 0;
        *(int64_t *)indices->data = 0;
        return td_copy_elements(values, self);
    }
    int d = td_wrap_dim(dim, self->ndim);
    TD_AUTO td_tensor *rows = td_rows_of(self, d);
    if (!rows)
        return -1;
    bool many = w.what == WANT_SORT || w.what == WANT_TOP, straight = !many || self->ndim == 0 || d == self->ndim - 1;
    int64_t sizes[TD_MAX_DIMS];
    int n = 0;
    for (int k = 0; k < values->ndim; k++)
        if (k != d)
            sizes[n++] = values->sizes[k];
    if (many && values->ndim)
        sizes[n++] = values->sizes[d];
    TD_AUTO td_tensor *v = straight ? td_tensor_retain(values)
                                    : td_tensor_new(n, sizes, (td_dtype)self->dtype, self->device);
    TD_AUTO td_tensor *at = straight || !indices ? td_tensor_retain(indices) : td_tensor_new(n, sizes, TD_I64, self->device);
    if (!v || (indices && !at))
        return -1;
    w.n = self->ndim ? self->sizes[d] : 1;
    w.dtype = (td_dtype)self->dtype;
    w.rows = rows->data, w.values = v->data, w.indices = indices ? (int64_t *)at->data : NULL;
    if (w.n == 0 || values->numel == 0)
        return 0;
    if (w.k > w.n)      /* an out that is the input itself was resized */
        return td_error(TD_E_RUNTIME, "unsupported operation: the written-to tensor is the input. Please clone() the tensor "
                        "before performing the operation.");
    td_parallel_for(0, self->numel / w.n, 4096 / w.n + 1, rows_body, &w);
    if (w.failed)
        return td_error(TD_E_MEMORY, "sort: no memory for rows of %lld elements", (long long)w.n);
    if (straight)
        return 0;
    return td_rows_to(values, d, v) || (indices && td_rows_to(indices, d, at)) ? -1 : 0;
}

/* Always stable.  Without stable=True, PyTorch's order of equal elements is what its introsort leaves; nobody can rely on
 * it, and to imitate it would take five times as long. */
int td_cpu_sort_dim(td_tensor *self, int64_t dim, bool descending, td_tensor *out0, td_tensor *out1)
{
    sort_job w = {.what = WANT_SORT, .descending = descending};
    w.k = self->ndim ? self->sizes[td_wrap_dim(dim, self->ndim)] : 1;
    return run(w, self, dim, out0, out1);
}
int td_cpu_sort_stable(td_tensor *self, const bool *stable, int64_t dim, bool descending, td_tensor *out0, td_tensor *out1)
{
    (void)stable;
    return td_cpu_sort_dim(self, dim, descending, out0, out1);
}
/* The largest are the first in descending order. */
int td_cpu_topk(td_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted, td_tensor *out0, td_tensor *out1)
{
    k = self->ndim ? k : 1;     /* the one element of a scalar is its top, also of none */
    return run((sort_job){.what = WANT_TOP, .k = k, .descending = largest, .sorted = sorted}, self, dim, out0, out1);
}
int td_cpu_kthvalue(td_tensor *self, int64_t k, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return run((sort_job){.what = WANT_KTH, .k = k}, self, dim, out0, out1);
}
int td_cpu_median_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return run((sort_job){.what = WANT_MEDIAN}, self, dim, out0, out1);
}
int td_cpu_nanmedian_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return run((sort_job){.what = WANT_NANMEDIAN}, self, dim, out0, out1);
}
int td_cpu_mode(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return run((sort_job){.what = WANT_MODE}, self, dim, out0, out1);
}

/* Over all elements, as one row; of none it is NaN. */
static int of_all(wanted what, td_tensor *self, td_tensor *out)
{
    if (self->numel == 0) {
        double nan = __builtin_nan("");
        td_convert((td_dtype)out->dtype, out->data, td_itemsize(out), TD_F64, &nan, 8, 1);
        return 0;
    }
    TD_AUTO td_tensor *whole = td_make_contiguous(self);
    int64_t one = 1;
    TD_AUTO td_tensor *flat = whole ? td_view_strided(whole, 1, &whole->numel, &one, 0) : NULL;
    return flat ? run((sort_job){.what = what}, flat, 0, out, NULL) : -1;
}
int td_cpu_median_all(td_tensor *self, td_tensor *out0) { return of_all(WANT_MEDIAN, self, out0); }
int td_cpu_nanmedian_all(td_tensor *self, td_tensor *out0) { return of_all(WANT_NANMEDIAN, self, out0); }
