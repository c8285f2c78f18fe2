/* sort, topk, kthvalue, medians, mode and unique on devices: sort.ck. */
#include "calls_kernels_device_sort.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/sort.ck"
#include "ops/index/sort_kernels.h"

TD_SOURCE(sort);

static int order_of(td_dtype dtype)
{
    switch (dtype) {
    case TD_U32: return ORDER_U32;
    case TD_I64: return ORDER_I64;
    case TD_U64: return ORDER_U64;
    case TD_F64: return ORDER_F64;
    default:     return td_dtype_is_floating(dtype) ? ORDER_FLOAT : ORDER_INT;
    }
}
static bool wide(td_dtype dtype) { return dtype == TD_I64 || dtype == TD_U64 || dtype == TD_F64; }

static td_launch_of launch_of(const char *kernel, const sort_values *v, const td_tensor *x)
{
    const td_dtype dtype = (td_dtype)x->dtype;
    return (td_launch_of){.source = td_source_sort, .kernel = kernel, .values = v, .size = sizeof *v, .types = {{"A", dtype}},
                          .numbers = {{"ORDER", order_of(dtype)}, {"KEY64", wide(dtype)}}};
}

/* Keys and indices of rows in order, `left` of each. */
typedef struct order { td_tensor *keys, *index; int64_t left; } order;
static void drop(order *o) { td_tensor_release(o->keys), td_tensor_release(o->index); }
static int make(order *o, const td_tensor *x, int64_t rows, int64_t left)
{
    const int64_t n = rows * left;
    *o = (order){td_tensor_new(1, &n, wide((td_dtype)x->dtype) ? TD_I64 : TD_I32, x->device), td_tensor_new(1, &n, TD_I32, x->device), left};
    return o->keys && o->index ? 0 : -1;
}

/* From an order to the next one, from x to the first. */
static int pass(order *o, td_tensor *x, const sort_values *v, const char *kernel, int64_t groups, int lanes, td_tensor *ends, int64_t left)
{
    order next;
    td_launch_of launch = launch_of(kernel, v, x);
    td_tensor *const keys = v->first ? TD_NONE : o->keys, *const index = v->first ? TD_NONE : o->index;
    launch.groups = groups, launch.lanes = lanes;
    const int status = make(&next, x, v->rows, left) || TD_LAUNCH_ON(launch, TD_READS(x), TD_READS(keys), TD_READS(index), TD_READS(ends),
                                                                     TD_WRITES(next.keys), TD_WRITES(next.index));
    drop(o);
    *o = next;
    return status ? -1 : 0;
}

/* Least significant digit first (Knuth, volume 3, section 5.2.5): counting a digit, summing up the counts, and a scatter that keeps the
 * order of equal digits.  Digits have 8 bits: their counts fit the memory of a group, and a float32 takes four passes, each bound by reading
 * and writing keys and indices once. */
/* A pass for each digit that tells elements apart: integers of few bits have few, and halves nothing in the lower bits of a float32. */
static int sort_by_digits(order *o, td_tensor *x, sort_values v)
{
    const td_dtype dtype = (td_dtype)x->dtype;
    const int size = (int)td_dtype_size(dtype), lanes = td_launch_lanes(x->device), tile = wide(dtype) ? SORT_TILE : 2 * SORT_TILE;
    /* Halves are sorted as float32, whose lowest bits, 16 of bfloat16's and at least 8 of float16's, are zeros in all of them. */
    const int end = td_dtype_is_floating(dtype) && size < 4 ? 32 : 8 * size;
    v.blocks = (v.n + tile - 1) / tile;
    v.bias = dtype == TD_I8 || dtype == TD_I16 ? (int64_t)1 << (8 * size - 1) : 0;
    TD_AUTO td_tensor *counts = td_tensor_new(2, (int64_t[]){v.rows, DIGITS * v.blocks}, TD_I32, x->device);
    if (lanes < 0 || !counts)
        return -1;
    for (v.bit = dtype == TD_BF16 ? 16 : dtype == TD_F16 ? 8 : 0; v.bit < end; v.bit += 8) {
        td_tensor *const keys = v.first ? TD_NONE : o->keys;
        td_launch_of count = launch_of("sort_count", &v, x);
        count.lanes = lanes < SORT_LANES ? lanes : SORT_LANES, count.groups = td_launch_many(x->device, v.rows * v.blocks);
        TD_AUTO td_tensor *ends = TD_LAUNCH_ON(count, TD_READS(x), TD_READS(keys), TD_WRITES(counts)) ? NULL : td_cumsum(counts, 1, TD_I32);
        if (!ends || pass(o, x, &v, "sort_scatter", count.groups, count.lanes, ends, v.n))
            return -1;
        v.first = false;
    }
    return 0;
}

/* Rows of n elements; at least the first k are in order then.
 *
 * A bitonic network (Batcher, 1968) makes the same comparisons whatever the data are, so that all of a group go in step; it needs n log^2 n of them,
 * which is why blocks end at SORT_BLOCK and merges go on.  A merge where each element bisects the other run has as many work items as
 * elements, and no two of them write one position. */
static int sort_rows(order *o, td_tensor *x, int64_t n, int64_t k, bool descending)
{
    sort_values v = {.rows = x->numel / n, .n = n, .descending = descending, .first = true};
    *o = (order){NULL, NULL, 0};
    if (n > INT32_MAX)
        return td_leave_to_cpu("rows of 2^31 elements");
    if (!td_device_computes(x->device, (td_dtype)x->dtype))
        return td_leave_to_cpu(td_dtype_name((td_dtype)x->dtype));
    if (n >= SORT_RADIX && k > SORT_BLOCK / 2)
        return sort_by_digits(o, x, v);
    do {        /* short rows share a block's group (together), a long row has several blocks */
        for (v.size = 2; v.size < v.n && v.size < SORT_BLOCK; v.size *= 2) {}
        v.blocks = (v.n + v.size - 1) / v.size;
        v.together = v.blocks == 1 ? SORT_BLOCK / v.size : 1;
        v.kept = v.blocks > 1 && k <= SORT_BLOCK / 2 ? k : v.size;
        const int64_t last = v.n - (v.blocks - 1) * v.size;
        v.left = (v.blocks - 1) * v.kept + (last < v.kept ? last : v.kept);
        if (pass(o, x, &v, "sort_blocks", td_launch_many(x->device, (v.rows * v.blocks + v.together - 1) / v.together), 0, TD_NONE, v.left))
            return -1;
        v.first = false, v.n = v.left;
    } while (v.blocks > 1 && v.kept < v.size);
    for (v.run = v.size; v.run < v.n; v.run *= 2)
        if (pass(o, x, &v, "sort_merge", td_launch_groups(x->device, v.rows * v.n), 0, TD_NONE, v.n))
            return -1;
    return 0;
}

/* A row along `dim` for each; results in separate rows if they keep the dimension and it isn't the last. */
static int first_of_rows(td_tensor *self, int64_t dim, int64_t k, bool descending, td_tensor *values, td_tensor *indices)
{
    const int d = td_wrap_dim(dim, self->ndim ? self->ndim : 1);
    sort_values v = {.n = self->ndim ? self->sizes[d] : 1, .k = k, .indices = true};
    TD_AUTO td_tensor *x = td_rows_of(self, d);
    if (!x || v.n == 0 || values->numel == 0)
        return x ? 0 : -1;
    if (k > v.n)
        return td_error(TD_E_RUNTIME, "unsupported operation: the written-to tensor is the input. Please clone() the tensor before performing the "
                        "operation.");
    const bool straight = self->ndim == 0 || d == self->ndim - 1;
    int64_t sizes[TD_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < values->ndim; i++)
        if (i != d)
            sizes[n++] = values->sizes[i];
    if (values->ndim)
        sizes[n++] = values->sizes[d];
    TD_AUTO td_tensor *y = straight ? td_tensor_retain(values) : td_tensor_new(n, sizes, (td_dtype)values->dtype, x->device);
    TD_AUTO td_tensor *at = straight ? td_tensor_retain(indices) : td_tensor_new(n, sizes, TD_I64, x->device);
    __attribute__((cleanup(drop))) order o = {NULL, NULL, 0};
    if (!y || !at || sort_rows(&o, x, v.n, k, descending))
        return -1;
    v.rows = x->numel / v.n, v.left = o.left;
    td_launch_of launch = launch_of("sort_store", &v, x);
    launch.groups = td_launch_groups(x->device, v.rows * k);
    if (TD_LAUNCH_ON(launch, TD_READS(x), TD_READS(o.index), TD_WRITES(y), {at, TD_I64, TD_WRITTEN}))
        return -1;
    return !straight && (td_rows_to(values, d, y) || td_rows_to(indices, d, at)) ? -1 : 0;
}

int td_on_device_sort_dim(td_tensor *self, int64_t dim, bool descending, td_tensor *out0, td_tensor *out1)
{
    const int d = td_wrap_dim(dim, self->ndim ? self->ndim : 1);
    return first_of_rows(self, dim, self->ndim ? self->sizes[d] : 1, descending, out0, out1);
}
int td_on_device_sort_stable(td_tensor *self, const bool *stable, int64_t dim, bool descending, td_tensor *out0, td_tensor *out1)
{
    (void)stable;
    return td_on_device_sort_dim(self, dim, descending, out0, out1);
}
int td_on_device_topk(td_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted, td_tensor *out0, td_tensor *out1)
{
    (void)sorted;
    return first_of_rows(self, dim, self->ndim ? k : 1, largest, out0, out1);
}

/* By sorting the whole row, where a selection of expected O(n) would do: its steps depend on each other and on the data, so that lanes wait,
 * and rows long enough for the difference to show are sorted by digits in O(n). */
/* One element of each row, which a work item finds (td_launch_groups) or a group (td_launch_many); `indices` may be TD_NONE. */
static int one_of_rows(const char *kernel, int64_t (*groups)(td_device device, int64_t n), int what, int64_t k, td_tensor *self, int64_t dim,
                       td_tensor *values, td_tensor *indices)
{
    const int d = td_wrap_dim(dim, self->ndim ? self->ndim : 1);
    sort_values v = {.n = self->ndim ? self->sizes[d] : 1, .k = k, .what = what, .indices = indices != TD_NONE};
    TD_AUTO td_tensor *x = td_rows_of(self, d);
    __attribute__((cleanup(drop))) order o = {NULL, NULL, 0};
    if (!x || v.n == 0 || values->numel == 0)
        return x ? 0 : -1;
    if (sort_rows(&o, x, v.n, v.n, false))
        return -1;
    v.rows = x->numel / v.n;
    td_launch_of launch = launch_of(kernel, &v, x);
    launch.groups = groups(x->device, v.rows);
    return TD_LAUNCH_ON(launch, TD_READS(x), TD_READS(o.keys), TD_READS(o.index), TD_WRITES(values), {indices, TD_I64, TD_WRITTEN});
}
int td_on_device_kthvalue(td_tensor *self, int64_t k, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return one_of_rows("sort_pick", td_launch_groups, PICK_KTH, k, self, dim, out0, out1);
}
int td_on_device_median_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return one_of_rows("sort_pick", td_launch_groups, PICK_MEDIAN, 0, self, dim, out0, out1);
}
int td_on_device_nanmedian_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return one_of_rows("sort_pick", td_launch_groups, PICK_NANMEDIAN, 0, self, dim, out0, out1);
}
int td_on_device_mode(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return one_of_rows("sort_mode", td_launch_many, 0, 0, self, dim, out0, out1);
}

/* Over all elements, as one row; of none it is left to the CPU. */
static int of_all(int what, td_tensor *self, td_tensor *out)
{
    const int64_t one = 1;
    if (self->numel == 0)
        return td_leave_to_cpu("no elements");
    TD_AUTO td_tensor *whole = td_make_contiguous(self);
    TD_AUTO td_tensor *flat = whole ? td_view_strided(whole, 1, &whole->numel, &one, 0) : NULL;
    return flat ? one_of_rows("sort_pick", td_launch_groups, what, 0, flat, 0, out, TD_NONE) : -1;
}
int td_on_device_median_all(td_tensor *self, td_tensor *out0) { return of_all(PICK_MEDIAN, self, out0); }
int td_on_device_nanmedian_all(td_tensor *self, td_tensor *out0) { return of_all(PICK_NANMEDIAN, self, out0); }

/* ---- unique elements: runs of equal neighbours, after sorting or as they stand */

static int unique(td_tensor **results, td_tensor *self, bool sort, bool inverse, bool counts)
{
    const int64_t none = 0;
    td_scalar found = td_int(0);
    td_tensor *pair[2] = {NULL, NULL};
    if (self->numel == 0 || !td_device_computes(self->device, (td_dtype)self->dtype))
        return td_leave_to_cpu("no elements or an unknown dtype");
    TD_AUTO td_tensor *flat = td_reshape(self, 1, (int64_t[]){-1}), *whole = flat ? td_make_contiguous(flat) : NULL;
    if (!whole || (sort && td_sort_dim(pair, whole, 0, false)))
        return -1;
    TD_AUTO td_tensor *x = sort ? pair[0] : td_tensor_retain(whole), *order = sort ? pair[1] : td_tensor_retain(TD_NONE);
    sort_values v = {.n = self->numel, .first = sort, .indices = inverse};
    TD_AUTO td_tensor *starts = td_tensor_new(1, &v.n, TD_I64, x->device);
    if (!starts)
        return -1;
    td_launch_of launch = launch_of("unique_starts", &v, x);
    launch.groups = td_launch_groups(x->device, v.n);
    if (TD_LAUNCH_ON(launch, TD_READS(x), TD_WRITES(starts)))
        return -1;
    TD_AUTO td_tensor *before = td_cumsum(starts, 0, TD_DTYPE_NONE);
    /* The one wait for the device: how many elements differ is the result's shape, which the host must know. */
    TD_AUTO td_tensor *last = before ? td_select_int(before, 0, -1) : NULL;
    if (!last || td_tensor_item(last, &found))
        return -1;
    TD_AUTO td_tensor *values = td_tensor_new(1, &found.i, (td_dtype)x->dtype, x->device);
    TD_AUTO td_tensor *to = inverse ? td_tensor_new(self->ndim, self->sizes, TD_I64, x->device) : td_tensor_new(1, &none, TD_I64, x->device);
    TD_AUTO td_tensor *begins = td_tensor_new(1, (int64_t[]){found.i + 1}, TD_I64, x->device);
    if (!values || !to || !begins)
        return -1;
    launch.kernel = "unique_store";
    if (TD_LAUNCH_ON(launch, TD_READS(x), TD_READS(order), TD_READS(before), TD_WRITES(values), TD_WRITES(to), TD_WRITES(begins)))
        return -1;
    TD_AUTO td_tensor *how_many = counts ? td_diff(begins, 1, 0, TD_NONE, TD_NONE) : td_tensor_new(1, &none, TD_I64, x->device);
    if (!how_many)
        return -1;
    results[0] = td_tensor_retain(values), results[1] = td_tensor_retain(to), results[2] = td_tensor_retain(how_many);
    return 0;
}
int td_on_device__unique2(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse, bool return_counts)
{
    (void)sorted;
    return unique(results, self, true, return_inverse, return_counts);
}
int td_on_device__unique(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse)
{
    (void)sorted;
    td_tensor *three[3];
    if (unique(three, self, true, return_inverse, false))
        return -1;
    results[0] = three[0], results[1] = three[1];
    td_tensor_release(three[2]);
    return 0;
}
int td_on_device_unique_consecutive(td_tensor **results, td_tensor *self, bool return_inverse, bool return_counts, const int64_t *dim)
{
    return dim ? td_unique_dim_consecutive(results, self, *dim, return_inverse, return_counts) : unique(results, self, false, return_inverse, return_counts);
}
