/* Joining and splitting by NumPy's names (hstack, vstack, dstack, hsplit, tensor_split), grids (meshgrid, cartesian_prod), block_diag,
 * and combinations of elements.  All are made of cat, views and index_select, through which autograd goes. */

#include "calls_ops_shape_stack.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "tensor/checked.h"

/* ---- a few dimensions at least */

/* As NumPy's: a vector becomes a row [1, n] in two dimensions and [1, n, 1] in three; a matrix [m, n] becomes [m, n, 1]. */
td_tensor *td_op_atleast_1d(td_tensor *self) { return self->ndim ? td_ref(self) : td_reshape(self, 1, (int64_t[]){1}); }
td_tensor *td_op_atleast_2d(td_tensor *self)
{
    return self->ndim == 0 ? td_reshape(self, 2, (int64_t[]){1, 1}) : self->ndim == 1 ? td_unsqueeze(self, 0) : td_ref(self);
}
td_tensor *td_op_atleast_3d(td_tensor *self)
{
    if (self->ndim == 1) {
        TD_AUTO td_tensor *row = td_unsqueeze(self, 0);
        return td_unsqueeze(row, -1);
    }
    return self->ndim == 0 ? td_reshape(self, 3, (int64_t[]){1, 1, 1}) : self->ndim == 2 ? td_unsqueeze(self, -1) : td_ref(self);
}

/* A function of each tensor; a list that can't be completed is released. */
typedef td_tensor *each(td_tensor *x);
static int map(td_tensor_list *results, int64_t n, td_tensor *const *tensors, each *function)
{
    if (td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (!(results->items[i] = function(tensors[i]))) {
            td_tensor_list_release(results);
            return -1;
        }
    return 0;
}
int td_op_atleast_1d_sequence(td_tensor_list *results, int64_t n, td_tensor *const *x) { return map(results, n, x, td_atleast_1d); }
int td_op_atleast_2d_sequence(td_tensor_list *results, int64_t n, td_tensor *const *x) { return map(results, n, x, td_atleast_2d); }
int td_op_atleast_3d_sequence(td_tensor_list *results, int64_t n, td_tensor *const *x) { return map(results, n, x, td_atleast_3d); }

/* cat of the tensors after `function`; dim -1 is hstack's rule: vectors along their only dimension, all others along the second. */
static td_tensor *join(const char *op, int64_t n, td_tensor *const *tensors, each *function, int64_t dim)
{
    if (!n)
        return td_fail(TD_E_RUNTIME, "%s expects a non-empty TensorList", op);
    TD_AUTO_LIST td_tensor_list parts = {0};
    if (map(&parts, n, tensors, function))
        return NULL;
    return td_cat(n, parts.items, dim >= 0 ? dim : parts.items[0]->ndim == 1 ? 0 : 1);
}
td_tensor *td_op_hstack(int64_t n, td_tensor *const *x) { return join("hstack", n, x, td_atleast_1d, -1); }
td_tensor *td_op_vstack(int64_t n, td_tensor *const *x) { return join("vstack", n, x, td_atleast_2d, 0); }
td_tensor *td_op_dstack(int64_t n, td_tensor *const *x) { return join("dstack", n, x, td_atleast_3d, 2); }
static td_tensor *as_column(td_tensor *x) { return x->ndim < 2 ? td_reshape(x, 2, (int64_t[]){x->numel, 1}) : td_ref(x); }
td_tensor *td_op_column_stack(int64_t n, td_tensor *const *x) { return join("column_stack", n, x, as_column, 1); }

/* A matrix of bands, one below the other: each block padded to the width of all of them. */
td_tensor *td_op_block_diag(int64_t n, td_tensor *const *tensors)
{
    int64_t columns = 0;        /* of the result: those of all blocks, a number counting as one */
    td_dtype dtype = n ? (td_dtype)tensors[0]->dtype : td_default_dtype();
    for (int64_t i = 0; i < n; i++) {
        const td_tensor *x = tensors[i];
        if (x->ndim > 2)
            return td_fail(TD_E_RUNTIME, "block_diag: Input tensors must have 2 or fewer dimensions. Input %" PRId64 " has %d dimensions", i, x->ndim);
        if (td_add_checked(columns, x->ndim ? x->sizes[x->ndim - 1] : 1, &columns))
            return NULL;
        if ((dtype = td_promote_types(dtype, (td_dtype)x->dtype)) == TD_DTYPE_NONE)
            return NULL;
    }
    if (!n)
        return td_zeros(2, (int64_t[]){1, 0}, dtype, TD_DEVICE_NONE);
    TD_AUTO_LIST td_tensor_list bands = {0};
    if (td_tensor_list_new(&bands, n))
        return NULL;
    for (int64_t i = 0, column = 0; i < n; i++) {           /* each block with the zeros beside it */
        TD_AUTO td_tensor *block = td_atleast_2d(tensors[i]);
        TD_AUTO td_tensor *cast = block ? td_to(block, dtype) : NULL;
        const int64_t width = cast ? cast->sizes[1] : 0;
        if (!cast || !(bands.items[i] = td_constant_pad_nd(cast, 2, (int64_t[]){column, columns - column - width}, td_int(0))))
            return NULL;
        column += width;
    }
    return td_cat(n, bands.items, 0);
}

/* ---- grids */

/* Each tensor expanded to the shape of their broadcast: a view, or the tensor if that is its shape. */
int td_op_broadcast_tensors(td_tensor_list *results, int64_t n, td_tensor *const *tensors)
{
    int64_t sizes[TD_MAX_DIMS];
    int ndim = td_broadcast_shape(NULL, (int)n, tensors, sizes);
    if (ndim < 0 || td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        bool same = tensors[i]->ndim == ndim && !memcmp(tensors[i]->sizes, sizes, sizeof *sizes * (size_t)ndim);
        if (!(results->items[i] = same ? td_tensor_retain(tensors[i]) : td_expand(tensors[i], ndim, sizes))) {
            td_tensor_list_release(results);
            return -1;
        }
    }
    return 0;
}

/* Vector i along axis i, expanded to the grid: views without a copy.  "xy" (Cartesian indexing, NumPy's default) exchanges the first
 * two axes, "ij" is matrix indexing. */
int td_op_meshgrid_indexing(td_tensor_list *results, int64_t n, td_tensor *const *tensors, const char *indexing)
{
    bool swap = !strcmp(indexing, "xy") && n >= 2;
    if (!n)
        return td_error(TD_E_RUNTIME, "meshgrid expects a non-empty TensorList");
    if (strcmp(indexing, "xy") && strcmp(indexing, "ij"))
        return td_error(TD_E_RUNTIME, "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s", indexing);
    if (n > TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "meshgrid: a tensor has at most %d dimensions", TD_MAX_DIMS);
    int64_t sizes[TD_MAX_DIMS];
    for (int64_t i = 0; i < n; i++) {
        if (tensors[i]->ndim > 1)
            return td_error(TD_E_RUNTIME, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor with %d dimensions",
                            tensors[i]->ndim);
        if (tensors[i]->dtype != tensors[0]->dtype)
            return td_error(TD_E_RUNTIME, "torch.meshgrid expects all tensors to have the same dtype");
        if (tensors[i]->device.type != tensors[0]->device.type)
            return td_error(TD_E_RUNTIME, "meshgrid expects all tensors to have the same device");
        sizes[i] = tensors[i]->numel;
    }
    if (swap)
        sizes[0] = tensors[1]->numel, sizes[1] = tensors[0]->numel;
    if (td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t shape[TD_MAX_DIMS], axis = swap && i < 2 ? 1 - i : i;
        for (int64_t d = 0; d < n; d++)
            shape[d] = d == axis ? tensors[i]->numel : 1;
        TD_AUTO td_tensor *line = td_reshape(tensors[i], n, shape);
        if (!(results->items[i] = td_expand(line, n, sizes))) {
            td_tensor_list_release(results);
            return -1;
        }
    }
    return 0;
}
int td_op_meshgrid(td_tensor_list *results, int64_t n, td_tensor *const *tensors)
{
    return td_meshgrid_indexing(results, n, tensors, "ij");
}

/* The points of a grid as rows, in which the last coordinate runs fastest. */
td_tensor *td_op_cartesian_prod(int64_t n, td_tensor *const *tensors)
{
    for (int64_t i = 0; i < n; i++)
        if (tensors[i]->ndim != 1)
            return td_fail(TD_E_RUNTIME, "Expect a 1D vector, but got shape of %d dimensions", tensors[i]->ndim);
    if (n == 1)
        return td_ref(tensors[0]);
    TD_AUTO_LIST td_tensor_list grids = {0};
    if (td_meshgrid(&grids, n, tensors))
        return NULL;
    /* "ij" grids, so that the reshape below counts through the last axis first. */
    TD_AUTO td_tensor *stacked = td_stack(n, grids.items, -1);
    return td_reshape(stacked, 2, (int64_t[]){-1, n});
}

/* n over r; INT64_MAX if it doesn't fit.  Each step's division is exact, since k factors in a row have a multiple of k! as product.
 * 128 bits hold the product of a count below 2^63 and the next factor. */
static int64_t binomial(int64_t n, int64_t r)
{
    unsigned __int128 count = 1;
    if (r > n)
        return 0;
    r = r < n - r ? r : n - r;
    for (int64_t k = 1; k <= r && count <= INT64_MAX; k++)
        count = count * (unsigned __int128)(n - r + k) / (unsigned __int128)k;
    return count < INT64_MAX ? (int64_t)count : INT64_MAX;
}

/* Of n elements, n over r; with replacement n + r - 1 over r, by stars and bars.  `gap` is how far apart positions in a row must be. */
td_tensor *td_op_combinations(td_tensor *self, int64_t r, bool with_replacement)
{
    if (self->ndim != 1)
        return td_fail(TD_E_RUNTIME, "Expect a 1D vector, but got shape of %d dimensions", self->ndim);
    if (r < 0)
        return td_fail(TD_E_RUNTIME, "Expect a non-negative number, but got %" PRId64, r);
    if (r == 0)
        return td_empty_memory_format(1, (int64_t[]){0}, (td_dtype)self->dtype, self->device, TD_MEMORY_FORMAT_NONE);
    const int64_t n = self->sizes[0], gap = with_replacement ? 0 : 1;
    const int64_t count = n == 0 ? 0 : binomial(with_replacement ? td_add_saturated(n, r - 1) : n, r);
    int64_t length;
    if (td_mul_checked(count, r, &length))
        return NULL;
    /* The positions in lexicographic order: the last one that can still go up does, those behind it follow. */
    TD_AUTO td_tensor *rows = td_empty(2, (int64_t[]){count, r}, TD_I64), *row = td_empty(1, &r, TD_I64);
    if (!rows || !row)
        return NULL;
    int64_t *at = (int64_t *)row->data, *out = (int64_t *)rows->data;
    for (int64_t k = 0; count && k < r; k++)
        at[k] = k * gap;
    for (int64_t i = 0; i < count; i++, out += r) {
        memcpy(out, at, sizeof *at * (size_t)r);
        int64_t k = r - 1;
        /* Position k can't exceed what leaves room for those behind it. */
        while (k >= 0 && at[k] == n - 1 - (r - 1 - k) * gap)
            k--;
        for (int64_t value = k >= 0 ? at[k] + 1 : 0; k >= 0 && k < r; k++, value += gap)
            at[k] = value;
    }
    /* One gather of all rows, through which gradients go; the positions have none. */
    TD_AUTO td_tensor *there = td__to_copy(rows, TD_DTYPE_NONE, self->device, false, TD_MEMORY_FORMAT_NONE);
    return td_index_tensor(self, 1, (td_tensor *[]){there});
}

/* The Vandermonde matrix, columns x^0, x^1, ..., x^(N-1): a cumulative product of x beside ones.  Integers and bool count in int64. */
td_tensor *td_op_linalg_vander(td_tensor *x, const int64_t *N)
{
    int64_t n = N ? *N : x->ndim ? x->sizes[x->ndim - 1] : 1;
    if (n < 2)
        return td_fail(TD_E_RUNTIME, "N must be greater than 1.");
    int64_t sizes[TD_MAX_DIMS + 1];
    TD_AUTO td_tensor *vectors = td_atleast_1d(x);
    TD_AUTO td_tensor *base = x->dtype == TD_BOOL || td_dtype_is_integral((td_dtype)x->dtype) ? td_to(vectors, TD_I64) : vectors ? td_ref(vectors) : NULL;
    TD_AUTO td_tensor *column = td_unsqueeze(base, -1);
    if (!column)
        return NULL;
    memcpy(sizes, column->sizes, sizeof *sizes * column->ndim);
    sizes[column->ndim - 1] = n - 1;
    /* x repeated N - 1 times along a new dimension, whose cumulative products are the powers from 1 on. */
    TD_AUTO td_tensor *wide = td_expand(column, column->ndim, sizes);
    TD_AUTO td_tensor *powers = td_cumprod(wide, -1, TD_DTYPE_NONE);
    sizes[column->ndim - 1] = 1;
    TD_AUTO td_tensor *ones = td_ones(column->ndim, sizes, (td_dtype)base->dtype, x->device);
    return td_cat(2, (td_tensor *[]){ones, powers}, -1);
}

/* ---- splitting */

/* Slices between one index and the next, by Python's rules: they clip, and may overlap or be empty if indices go down. */
int td_op_tensor_split_indices(td_tensor_list *results, td_tensor *self, int64_t n, const int64_t *indices, int64_t dim)
{
    if (!self->ndim)
        return td_error(TD_E_RUNTIME, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0 || td_tensor_list_new(results, n + 1))
        return -1;
    int64_t from = 0;
    for (int64_t i = 0; i <= n; i++) {
        int64_t to = i < n ? indices[i] : self->sizes[d];
        if (!(results->items[i] = td_slice_tensor(self, d, &from, &to, 1))) {
            td_tensor_list_release(results);
            return -1;
        }
        from = to;
    }
    return 0;
}
/* size % sections ranges that are longer by one, then the others, as NumPy's array_split. */
int td_op_tensor_split_sections(td_tensor_list *results, td_tensor *self, int64_t sections, int64_t dim)
{
    if (!self->ndim)
        return td_error(TD_E_RUNTIME, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    if (sections <= 0)
        return td_error(TD_E_RUNTIME, "number of sections must be larger than 0, got %" PRId64, sections);
    if (td_tensor_list_new(results, sections))
        return -1;
    int64_t size = self->sizes[d], from = 0;
    for (int64_t i = 0; i < sections; i++) {
        /* Within the dimension: the lengths of all sections add up to its size. */
        int64_t to = from + size / sections + (i < size % sections);
        if (!(results->items[i] = td_slice_tensor(self, d, &from, &to, 1))) {
            td_tensor_list_release(results);
            return -1;
        }
        from = to;
    }
    return 0;
}
/* A number means sections, a vector means indices; both are read on the CPU. */
int td_op_tensor_split_tensor_indices_or_sections(td_tensor_list *results, td_tensor *self, td_tensor *where, int64_t dim)
{
    if (where->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "tensor_split expected tensor_indices_or_sections to have dtype of long, but got %s",
                        td_dtype_title((td_dtype)where->dtype));
    if (where->ndim > 1)
        return td_error(TD_E_RUNTIME, "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                        "but got a tensor with %d dims", where->ndim);
    if (where->device.type != TD_CPU)
        return td_error(TD_E_RUNTIME, "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on %s",
                        td_device_name(where->device.type));
    if (td_check_readable(where))
        return -1;
    TD_AUTO td_tensor *numbers = td_make_contiguous(where);
    if (!numbers)
        return -1;
    const int64_t *items = (const int64_t *)numbers->data;
    return where->ndim ? td_tensor_split_indices(results, self, numbers->numel, items, dim) : td_tensor_split_sections(results, self, items[0], dim);
}

/* The dimension that hsplit, vsplit and dsplit cut: `dim`, but the only one where there is but one; -1 with an error.  Without sections
 * indices were given. */
static int numpy_dim(const char *op, td_tensor *self, int least, int dim, const int64_t *sections)
{
    if (self->ndim < least)      /* "dimension": PyTorch's words */
        return td_error(TD_E_RUNTIME, "torch.%s requires a tensor with at least %d dimension, but got a tensor with %d dimensions!", op, least,
                        self->ndim);
    dim = dim < self->ndim ? dim : 0;
    if (sections && (*sections == 0 || self->sizes[dim] % *sections))
        return td_error(TD_E_RUNTIME, "torch.%s attempted to split along dimension %d, but the size of the dimension %" PRId64
                        " is not divisible by the split_size %" PRId64 "!", op, dim, self->sizes[dim], *sections);
    return dim;
}
/* Both overloads of each: by a number of sections, which must divide the dimension evenly (tensor_split takes any), or by indices. */
#define SPLIT(name, least, along) \
    int td_op_##name##_int(td_tensor_list *results, td_tensor *self, int64_t sections) \
    { \
        int dim = numpy_dim(#name, self, least, along, &sections); \
        return dim < 0 ? -1 : td_tensor_split_sections(results, self, sections, dim); \
    } \
    int td_op_##name##_array(td_tensor_list *results, td_tensor *self, int64_t n, const int64_t *indices) \
    { \
        int dim = numpy_dim(#name, self, least, along, NULL); \
        return dim < 0 ? -1 : td_tensor_split_indices(results, self, n, indices, dim); \
    }
SPLIT(hsplit, 1, 1)
SPLIT(vsplit, 2, 0)
SPLIT(dsplit, 3, 2)

/* unsafe_split and its like: results that share memory, but are no views to autograd, each with a separate version counter.  Safe as
 * long as only self or only the results are written to in place. */
int td_op_unsafe_split_with_sizes(td_tensor_list *results, td_tensor *self, int64_t n, const int64_t *sizes, int64_t dim)
{
    if (td_split_with_sizes(results, self, n, sizes, dim) != 0)
        return -1;
    for (int64_t i = 0; i < results->count; i++) {
        td_tensor *alone = td_alias_detached(results->items[i], true);
        if (!alone) {
            td_tensor_list_release(results);
            return -1;
        }
        td_tensor_release(results->items[i]);
        results->items[i] = alone;
    }
    return 0;
}
/* The same of ranges that another splitting found: `status` is what that returned, `results` its views, which are replaced.  Only their
 * sizes are of use. */
static int unsafely(td_tensor_list *results, td_tensor *self, int64_t dim, int status)
{
    int d = status == 0 ? td_wrap_dim(dim, self->ndim) : -1;
    int64_t n = results->count, *sizes = d < 0 ? NULL : td_mem_alloc((size_t)(n + 1) * sizeof *sizes);
    if (d < 0)
        return -1;
    for (int64_t i = 0; i < n && sizes; i++)
        sizes[i] = results->items[i]->sizes[d];
    td_tensor_list_release(results);
    status = sizes ? td_unsafe_split_with_sizes(results, self, n, sizes, dim) : -1;
    td_mem_free(sizes, (size_t)(n + 1) * sizeof *sizes);
    return status;
}

int td_op_unsafe_split_tensor(td_tensor_list *results, td_tensor *self, int64_t size, int64_t dim)
{
    return unsafely(results, self, dim, td_split_tensor(results, self, size, dim));
}
int td_op_unsafe_chunk(td_tensor_list *results, td_tensor *self, int64_t chunks, int64_t dim)
{
    return unsafely(results, self, dim, td_chunk(results, self, chunks, dim));
}
