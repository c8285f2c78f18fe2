/* unique, unique_consecutive and unique_dim: which elements or slices occur, where each went (inverse) and how often it
 * occurs (counts).
 *
 * Three methods: int64 in a narrow range are counted in a table; other elements are sorted as keys
 * (ops/index/sort_kernels.h); slices are compared lexicographically. The last two then look for positions where something new
 * starts, which is all that the consecutive forms do. Results of the others are sorted, whatever `sorted` says. */

#include "calls_ops_index_unique.h"
#include "ops/index/kernels.h"
#include <stdlib.h>
#include <string.h>
#include <tede/kernel.h>
#include "device/device.h"
#include "ops/index/sort_kernels.h"
#include "ops/reduce/reduce.h"


static bool is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }
static td_tensor *new_i64(int ndim, const int64_t *sizes, td_device device)
{
    return td_tensor_new(ndim, sizes, TD_I64, device);
}

/* ---- unique elements: equal neighbours after sorting, or as they stand */

/* Which elements of n are not equal to the one before. Floating dtypes are compared as numbers, so that NaN differ from
 * each other and -0 equals 0; for all others equal bits are equal numbers, and a width serves several dtypes. */
#define STARTS(T, expression)                               \
    for (int64_t i = 1; i < n; i++) {                       \
        const T a = ((const T *)data)[i - 1], b = ((const T *)data)[i]; \
        starts[i] = (expression);                           \
    }                                                       \
    break
static void find_starts(td_dtype dtype, const void *data, int64_t n, bool *starts)
{
    if (n)
        starts[0] = true;
    switch (dtype) {
    case TD_F64:  STARTS(double, a != b);
    case TD_F32:  STARTS(float, a != b);
    case TD_F16:  STARTS(td_f16, td_f16_to_f32(a) != td_f16_to_f32(b));
    case TD_BF16: STARTS(td_bf16, td_bf16_to_f32(a) != td_bf16_to_f32(b));
    default:
        switch (td_itemsizes[dtype]) {
        case 8: STARTS(int64_t, a != b);
        case 4: STARTS(int32_t, a != b);
        case 2: STARTS(int16_t, a != b);
        case 1: STARTS(int8_t, a != b);
        }
    }
}

/* The first element of each group, written one after the other. From the end: each element overwrites what its group has so
 * far, until the group starts and the position moves on; without a branch, for starts follow no pattern. */
#define PACK(T)                                             \
    for (int64_t i = n - 1; i >= 0; i--) {                  \
        ((T *)to)[groups - 1] = ((const T *)from)[i];       \
        groups -= starts[i];                                \
    }                                                       \
    break
static void pack_starts(int64_t item, const void *from, int64_t n, const bool *starts, int64_t groups, void *to)
{
    switch (item) {
    case 8: PACK(int64_t);
    case 4: PACK(int32_t);
    case 2: PACK(int16_t);
    case 1: PACK(int8_t);
    }
}

/* The three results from an order (NULL: as they stand) and where in it something new starts: `items` are n blocks of
 * `block` elements, the inverse has inverse_like's shape or is a vector. Single elements lie in that order already
 * (arranged). Unrequested results are empty tensors, as in PyTorch. */
static int collect(td_tensor **results, td_tensor *items, int64_t n, const int64_t *order, const bool *starts,
                   bool arranged, int64_t block, int ndim, const int64_t *shape, td_tensor *inverse_like, bool inverse, bool counts)
{
    int64_t groups = 0, sizes[TD_MAX_DIMS];
    for (int64_t i = 0; i < n; i++)
        groups += starts[i];
    memcpy(sizes, shape, sizeof(int64_t) * ndim);
    sizes[0] = groups;
    int64_t zero = 0, item = td_itemsize(items) * block;
    results[0] = td_tensor_new(ndim, sizes, (td_dtype)items->dtype, items->device);
    results[1] = !inverse ? new_i64(1, &zero, items->device)
               : inverse_like ? new_i64(inverse_like->ndim, inverse_like->sizes, items->device) : new_i64(1, &n, items->device);
    results[2] = new_i64(1, counts ? &groups : &zero, items->device);
    if (!results[0] || !results[1] || !results[2]) {
        for (int k = 0; k < 3; k++)
            td_tensor_release(results[k]);
        return -1;
    }
    int64_t *to = (int64_t *)results[1]->data, *count = (int64_t *)results[2]->data, group = -1;
    if (counts)
        memset(count, 0, sizeof(int64_t) * (size_t)groups);
    if (arranged)
        pack_starts(item, items->data, n, starts, groups, results[0]->data);
    for (int64_t i = 0; i < n && (!arranged || inverse || counts); i++) {
        int64_t from = order ? order[i] : i;
        group += starts[i];
        if (starts[i] && !arranged)
            memcpy(results[0]->data + group * item, items->data + from * item, (size_t)item);
        if (inverse)
            to[from] = group;
        if (counts)
            count[group]++;
    }
    return 0;
}

/* int64 within a range no wider than their number need no sorting: a table says for each that could be how often it is.
 * O(n), and the table is no larger than the input; afterwards it holds each number's position in the result, for the inverse. */
static int unique_of_table(td_tensor **results, td_tensor *self, const int64_t *x, int64_t n, int64_t low, int64_t high,
                           bool inverse, bool counts)
{
    const int64_t span = high - low + 1;
    const size_t bytes = (size_t)span * sizeof(int64_t);
    int64_t *times = td_mem_alloc(bytes), groups = 0, zero = 0;
    if (!times)
        return -1;
    memset(times, 0, bytes);
    for (int64_t i = 0; i < n; i++)
        times[x[i] - low]++;
    for (int64_t k = 0; k < span; k++)
        groups += times[k] != 0;
    results[0] = td_tensor_new(1, &groups, (td_dtype)self->dtype, self->device);
    results[1] = inverse ? new_i64(self->ndim, self->sizes, self->device) : new_i64(1, &zero, self->device);
    results[2] = new_i64(1, counts ? &groups : &zero, self->device);
    int status = results[0] && results[1] && results[2] ? 0 : -1;
    for (int64_t k = 0, group = 0; k < span && !status; k++) {
        if (!times[k])
            continue;
        int64_t value = low + k;
        td_convert((td_dtype)self->dtype, results[0]->data + group * td_itemsize(self), td_itemsize(self), TD_I64, &value, 8, 1);
        if (counts)
            ((int64_t *)results[2]->data)[group] = times[k];
        times[k] = group++;     /* from here on: which it is */
    }
    for (int64_t i = 0; inverse && i < n && !status; i++)
        ((int64_t *)results[1]->data)[i] = times[x[i] - low];
    td_mem_free(times, bytes);
    for (int k = 0; k < 3 && status; k++)
        td_tensor_release(results[k]);
    return status;
}

/* The range is compared in uint64, where high - low of any two int64 is right. With `sort`, items are sorted into x and
 * `order` says where they were; else x is items. */
static int unique_flat(td_tensor **results, td_tensor *self, bool sort, bool inverse, bool counts)
{
    if (is_complex(self))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"unique\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    TD_AUTO td_tensor *items = td_make_contiguous(self);
    int64_t low = 0, high = INT64_MAX;
    if (sort && items && items->dtype == TD_I64 && items->numel) {
        td_index_range((const int64_t *)items->data, items->numel, &low, &high);
        if ((uint64_t)high - (uint64_t)low < (uint64_t)items->numel)
            return unique_of_table(results, self, (const int64_t *)items->data, items->numel, low, high, inverse, counts);
    }
    TD_AUTO td_tensor *x = sort && items ? td_tensor_new(1, &items->numel, (td_dtype)items->dtype, items->device)
                                         : td_tensor_retain(items);
    if (!x)
        return -1;
    int64_t n = x->numel;
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *order = td_mem_alloc(bytes);
    bool *starts = order ? td_mem_alloc((size_t)n) : NULL;
    int status = -1;
    td_sorter s;
    if (!starts)
        goto done;
    if (sort) {
        if (td_sorter_make(&s, (td_dtype)x->dtype, n, false))
            goto done;
        td_sorter_sort(&s, items->data, x->data, order);
        td_sorter_free(&s);
    }
    find_starts((td_dtype)x->dtype, x->data, n, starts);
    status = collect(results, x, n, sort ? order : NULL, starts, true, 1, 1, &n, self, inverse, counts);
done:
    td_mem_free(starts, (size_t)n);
    td_mem_free(order, bytes);
    return status;
}

int td_op__unique2(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse, bool return_counts)
{
    (void)sorted;
    return unique_flat(results, self, true, return_inverse, return_counts);
}
int td_op__unique(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse)
{
    (void)sorted;
    td_tensor *three[3];
    if (unique_flat(three, self, true, return_inverse, false))
        return -1;
    td_tensor_release(three[2]);
    results[0] = three[0], results[1] = three[1];
    return 0;
}

/* ---- unique slices */

typedef struct slices { const char *data; int64_t block, item; td_dtype dtype; } slices;

/* Lexicographic order of two slices, given by their indices (qsort_r's interface). NaN comes after all numbers; two NaN in
 * the same position are ordered by the slices' indices, so that slices which contain NaN equal no other and the order stays
 * total. */
static int compare_slices(const void *a, const void *b, void *context)
{
    const slices *s = context;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const char *p = s->data + i * s->block * s->item, *q = s->data + j * s->block * s->item;
    for (int64_t k = 0; k < s->block; k++, p += s->item, q += s->item) {
        if (s->dtype == TD_F64) {
            double u = *(const double *)p, v = *(const double *)q;
            if (u < v || (v != v && u == u))
                return -1;
            if (u > v || u != u)            /* NaN comes last, and no two are equal */
                return v == v ? 1 : i < j ? -1 : 1;
        } else {
            int64_t x = *(const int64_t *)p, y = *(const int64_t *)q;
            if (x != y)
                return (s->dtype == TD_U64 ? (uint64_t)x < (uint64_t)y : x < y) ? -1 : 1;
        }
    }
    return 0;
}

/* The results with the dimension where it was; takes over what was found. */
static int arranged(td_tensor **results, td_tensor *const *found, int ndim, const int64_t *back)
{
    TD_AUTO td_tensor *values = found[0], *permuted = td_permute(values, ndim, back);
    results[0] = td_alias_detached(permuted, false);        /* the one tensor of its memory, which may be written to */
    results[1] = found[1], results[2] = found[2];
    if (results[0])
        return 0;
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    return -1;
}

/* Slices along dim are brought to the front and made contiguous, so that each is one block of memory; comparisons use a
 * copy as double, int64 or uint64, results are copied from the dtype itself. The permutation is undone at the end. */
static int unique_slices(td_tensor **results, td_tensor *self, int64_t dim, bool sort, bool inverse, bool counts)
{
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    if (self->ndim == 0)
        return td_error(TD_E_INDEX, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    if (is_complex(self))
        return unique_flat(results, self, sort, inverse, counts);
    int64_t to_front[TD_MAX_DIMS], back[TD_MAX_DIMS];
    for (int k = 0; k < self->ndim; k++)
        to_front[k] = k == 0 ? d : k <= d ? k - 1 : k, back[to_front[k]] = k;
    TD_AUTO td_tensor *front = td_permute(self, self->ndim, to_front);
    TD_AUTO td_tensor *x = front ? td_make_contiguous(front) : NULL;
    const bool there = td_is_outside(self->device);
    TD_AUTO td_tensor *keys = !x ? NULL : there ? td_tensor_retain(x) : td_as_contiguous(x, td_dtype_is_floating((td_dtype)x->dtype) ? TD_F64 : x->dtype == TD_U64 ? TD_U64 : TD_I64);
    if (!keys)
        return -1;
    int64_t n = x->sizes[0], block = n ? x->numel / n : 0;
    int empty = 0;
    for (int d = 0; d < x->ndim; d++)
        empty += x->sizes[d] == 0;
    if (empty > 1)
        return td_error(TD_E_RUNTIME, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    if (n && block == 0)
        return td_error(TD_E_RUNTIME, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    if (there) {
        td_tensor *three[3];
        return td_unique_slices_on_device(three, x, sort, inverse, counts) ? -1 : arranged(results, three, self->ndim, back);
    }
    slices s = {keys->data, block, 8, (td_dtype)keys->dtype};
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *order = td_mem_alloc(bytes);
    bool *starts = order ? td_mem_alloc((size_t)n) : NULL;
    int status = -1;
    if (starts) {
        for (int64_t i = 0; i < n; i++)
            order[i] = i;
        if (sort)
            qsort_r(order, (size_t)n, sizeof *order, compare_slices, &s);
        for (int64_t i = 0; i < n; i++)
            starts[i] = i == 0 || compare_slices(&order[i], &order[i - 1], &s) != 0;
        td_tensor *three[3];
        status = collect(three, x, n, order, starts, false, block, x->ndim, x->sizes, NULL, inverse, counts);
        status = status ? status : arranged(results, three, self->ndim, back);
    }
    td_mem_free(starts, (size_t)n);
    td_mem_free(order, bytes);
    return status;
}

int td_op_unique_dim(td_tensor **results, td_tensor *self, int64_t dim, bool sorted, bool return_inverse, bool return_counts)
{
    (void)sorted;
    return unique_slices(results, self, dim, true, return_inverse, return_counts);
}
int td_op_unique_dim_consecutive(td_tensor **results, td_tensor *self, int64_t dim, bool return_inverse, bool return_counts)
{
    return unique_slices(results, self, dim, false, return_inverse, return_counts);
}
int td_op_unique_consecutive(td_tensor **results, td_tensor *self, bool return_inverse, bool return_counts, const int64_t *dim)
{
    return dim ? unique_slices(results, self, *dim, false, return_inverse, return_counts)
               : unique_flat(results, self, false, return_inverse, return_counts);
}
