/* cat (concatenate) and stack: several tensors into one.
 *
 * The result is a matrix of rows, one for each index in the dimensions before dim; each tensor contributes a contiguous piece to each
 * row.  Long rows are copied tensor by tensor, which moves long runs; short ones row by row (interleave), so that each cache
 * line of the result is written once and not once for each tensor.  Either way the speed is memory's. */

#include "calls_ops_shape_join.h"
#include <inttypes.h>
#include <stdio.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/index/index.h"
#include "ops/iterate/iterator.h"
#include "tensor/checked.h"
#include "tensor/layout.h"

/* PyTorch's old rule, which programs rely on: a 1-d tensor without elements joins anything. */
static bool is_skipped(const td_tensor *x) { return x->ndim == 1 && x->sizes[0] == 0; }

/* Shape and dtype: the dtypes of all tensors are promoted, those of skipped ones, too.  The sum of sizes is checked for overflow. */
int td_meta_cat(td_spec *specs, int64_t n_tensors, td_tensor *const *tensors, int64_t dim)
{
    if (!n_tensors)
        return td_error(TD_E_VALUE, "torch.cat(): expected a non-empty list of Tensors");
    const td_tensor *first = NULL;
    for (int64_t i = 0; i < n_tensors; i++) {
        if (!tensors[i]->ndim)
            return td_error(TD_E_RUNTIME, "zero-dimensional tensor (at position %" PRId64 ") cannot be concatenated", i);
        if (!first && !is_skipped(tensors[i]))
            first = tensors[i];
    }
    td_dtype dtype = tensors[0]->dtype;
    for (int64_t i = 1; i < n_tensors; i++)
        if ((dtype = td_promote_types(dtype, tensors[i]->dtype)) == TD_DTYPE_NONE)
            return -1;
    if (!first)     /* all are skipped: nothing joined to nothing */
        return td_spec_set(specs, 1, (int64_t[]){0}, dtype, tensors[0]->device);
    int d = td_wrap_dim(dim, first->ndim);
    if (d < 0)
        return -1;
    td_spec_set(specs, first->ndim, first->sizes, dtype, first->device);
    specs->sizes[d] = 0;
    for (int64_t i = 0; i < n_tensors; i++) {
        const td_tensor *x = tensors[i];
        if (is_skipped(x))
            continue;
        if (x->ndim != first->ndim)
            return td_error(TD_E_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", first->ndim, x->ndim);
        if (x->device.type != first->device.type)
            return td_error(TD_E_RUNTIME, "torch.cat(): all input tensors must be on the same device");
        for (int k = 0; k < x->ndim; k++)
            if (k != d && x->sizes[k] != first->sizes[k]) {
                char name[32];
                td_drawn_text drawn;
                snprintf(name, sizeof name, "tensors[%" PRId64 "]", i);
                return td_error(TD_E_RUNTIME, "Sizes of tensors must match except in dimension %d. Expected size %" PRId64 " but got size %" PRId64
                                " for tensor number %" PRId64 " in the list.%s", d, first->sizes[k], x->sizes[k], i,
                                td_draw_shapes(drawn, true, 2, (td_drawn[]){{"before", first->ndim, first->sizes, -1},
                                                                            {name, x->ndim, x->sizes, k}}));
            }
        if (td_add_checked(specs->sizes[d], x->sizes[d], &specs->sizes[d]))
            return -1;
    }
    return 0;
}

/* What interleave needs; positions along dim are all elements behind dim that share an index in it. */
typedef struct pieces {
    int64_t           n_tensors;
    td_tensor *const *tensors;
    int               dim;
    int64_t           inner, row;       /* bytes per position along dim, and of a whole row of the result */
    char             *to;
    size_t            single;           /* bytes of every piece, if those are elements as td_transpose_block takes them; else 0 */
    bool              stream;           /* past the caches */
} pieces;

/* Short pieces of contiguous tensors in turn, rows [first, last), a stretch of the result at a time that stays in the first cache.
 * Elements one by one (all pieces of one size of 1, 2, 4 or 8 bytes) are a transposed matrix: they are collected tensor by tensor,
 * then transposed in registers.  Rows are independent, so threads share them without regard to the result. */
enum { STRETCH = 16 << 10 };

static void interleave(void *context, int64_t first, int64_t last)
{
    const pieces *p = context;
    _Alignas(64) char together[STRETCH], block[STRETCH];
    const int64_t rows = STRETCH / p->row;
    for (int64_t k = first; k < last; k += rows) {
        char *to = p->stream ? block : p->to + k * p->row;
        int64_t n = last - k < rows ? last - k : rows, at = 0;
        for (int64_t i = 0; i < p->n_tensors; i++) {
            const td_tensor *x = p->tensors[i];
            if (is_skipped(x) || !x->numel)
                continue;
            int64_t bytes = p->inner * x->sizes[p->dim];
            const char *from = x->data + k * bytes;
            /* Collected to be transposed below; pieces of a power of two by moves of that width; else whole pieces. */
            if (p->single)
                memcpy(together + i * n * bytes, from, (size_t)(n * bytes));
            else if (bytes <= 16 && (bytes & (bytes - 1)) == 0)
                td_copy_run((size_t)bytes, to + at, p->row, from, bytes, n);
            else
                for (int64_t r = 0; r < n; r++)
                    memcpy(to + at + r * p->row, from + r * bytes, (size_t)bytes);
            at += bytes;
        }
        if (p->single)
            td_transpose_block(p->single, to, p->row, together, n * (int64_t)p->single, p->n_tensors, n);
        if (p->stream)
            td_copy_streaming(p->to + k * p->row, block, n * p->row);
    }
    if (p->stream)
        td_end_streaming();
}

/* out= may share no memory with an input, which would be overwritten before it is read, and must be able to hold the promoted dtype.
 * `out` itself among the inputs is an error only if there are elements to read. */
int td_out_check_cat(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, td_tensor *out)
{
    (void)dim;
    td_dtype dtype = n_tensors ? (td_dtype)tensors[0]->dtype : TD_BOOL;
    bool any = false;
    for (int64_t i = 0; i < n_tensors; i++)
        any |= tensors[i]->numel > 0;
    for (int64_t i = 0; i < n_tensors; i++) {
        if (any && tensors[i] == out)
            return td_error(TD_E_RUNTIME, "unsupported operation: some elements of the input tensor and the written-to tensor refer "
                            "to a single memory location: tensor %" PRId64 " is out itself.", i);
        if (td_check_apart(out, tensors[i]))
            return -1;
        if ((dtype = td_promote_types(dtype, (td_dtype)tensors[i]->dtype)) == TD_DTYPE_NONE)
            return -1;
    }
    if (td_check_cast("cat", dtype, (td_dtype)out->dtype))
        return td_error(TD_E_TYPE, "torch.cat(): input types can't be cast to the desired output type %s",
                        td_dtype_title((td_dtype)out->dtype));
    return 0;
}

/* stack and its like end in cat, and so share its checks of out=. */
#define JOINS(name, ...)                                                                                                    \
    int td_out_check_##name(int64_t n_tensors, td_tensor *const *tensors, __VA_ARGS__)                                      \
    {                                                                                                                       \
        return td_out_check_cat(n_tensors, tensors, 0, out);                                                                \
    }
JOINS(stack, __attribute__((unused)) int64_t dim, td_tensor *out)
JOINS(hstack, td_tensor *out)
JOINS(vstack, td_tensor *out)
JOINS(dstack, td_tensor *out)
JOINS(column_stack, td_tensor *out)
JOINS(_chunk_cat, __attribute__((unused)) int64_t dim, __attribute__((unused)) int64_t num_chunks, td_tensor *out)

/* `row` below 4096 bytes: four rows and more fit a stretch.  The pieces of other tensors are copied by the general copy, which
 * converts, into views of `out`; `at` counts bytes within a row. */
int td_cpu_cat(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, td_tensor *out)
{
    if (!out->numel)
        return 0;
    int d = td_wrap_dim(dim, out->ndim);
    int64_t outer = 1, inner = (int64_t)td_dtype_size(out->dtype), at = 0;
    for (int k = 0; k < d; k++)
        outer *= out->sizes[k];
    for (int k = d + 1; k < out->ndim; k++)
        inner *= out->sizes[k];
    int64_t row = inner * out->sizes[d];
    bool small = out->device.type == TD_CPU;      /* contiguous and of the result's dtype: pieces are plain bytes */
    for (int64_t i = 0; i < n_tensors; i++)
        small &= tensors[i]->dtype == out->dtype && tensors[i]->flags & TD_FLAG_CONTIGUOUS;
    if (small && row < 4096) {
        pieces all = {n_tensors, tensors, d, inner, row, out->data, 0, 2 * outer * row > TD_STREAM_BYTES};
        const int64_t bytes = row / n_tensors;      /* of a piece, if all are of one size; transposing pays from four tensors on */
        bool even = bytes <= 8 && (bytes & (bytes - 1)) == 0 && n_tensors >= 4;
        for (int64_t i = 0; i < n_tensors; i++)
            even &= !is_skipped(tensors[i]) && inner * tensors[i]->sizes[d] == bytes;
        all.single = even ? (size_t)bytes : 0;
        td_parallel_for(0, outer, (256 << 10) / row, interleave, &all);
        return 0;
    }
    for (int64_t i = 0; i < n_tensors; i++) {
        td_tensor *x = tensors[i];
        if (is_skipped(x) || !x->numel)
            continue;
        /* x's shape at its offset in `out`, with out's strides: the rows that follow are as far apart as the result's. */
        TD_AUTO td_tensor *part = td_view_strided(out, x->ndim, x->sizes, out->strides, at / (int64_t)td_dtype_size(out->dtype));
        if (!part || td_copy_elements(part, x))
            return -1;
        at += inner * x->sizes[d];
    }
    return 0;
}

/* The gradient of each tensor is a slice of grad: views, so nothing is copied.  `shapes` holds all shapes one after the other, with
 * ranks[i] sizes each; a skipped tensor gets zeros. */
int td_op_cat_backward(td_tensor_list *results, td_tensor *grad, int64_t n_ranks, const int64_t *ranks, int64_t n_shapes,
                       const int64_t *shapes, int64_t dim)
{
    const int64_t all = n_shapes;
    for (int64_t i = 0; i < n_ranks; n_shapes -= ranks[i++])
        if (ranks[i] < 0 || ranks[i] > n_shapes)
            return td_error(TD_E_RUNTIME, "cat_backward: %" PRId64 " sizes are too few for these ranks", all);
    if (td_tensor_list_new(results, n_ranks))
        return -1;
    int64_t at = 0;
    for (int64_t i = 0; i < n_ranks; shapes += ranks[i], i++) {
        if (ranks[i] == 1 && shapes[0] == 0) {      /* is_skipped, of a shape */
            results->items[i] = td_zeros(1, shapes, grad->dtype, grad->device);
        } else {
            const int d = td_wrap_dim(dim, grad->ndim);
            if (d < 0 || d >= ranks[i]) {
                td_tensor_list_release(results);
                return d < 0 ? -1 : td_error(TD_E_RUNTIME, "cat_backward: a shape of %" PRId64 " dimensions has no dimension %d", ranks[i], d);
            }
            results->items[i] = td_has_layout(grad) ? td_narrow_copy(grad, d, at, shapes[d]) : td_narrow(grad, d, at, shapes[d]);
            at += shapes[d];
        }
        if (!results->items[i]) {
            td_tensor_list_release(results);
            return -1;
        }
    }
    return 0;
}

/* Each tensor gets a new dimension of size 1, along which they are joined.  Those whose channels may lie last are joined along the
 * dimension that stands there already, which is then split in two: so channels stay last, as PyTorch's do. */
td_tensor *td_op_stack(int64_t n_tensors, td_tensor *const *tensors, int64_t dim)
{
    if (!n_tensors)
        return td_fail(TD_E_RUNTIME, "stack expects a non-empty TensorList");
    const td_tensor *first = tensors[0];
    td_shape_text a, b;
    int d = td_wrap_dim(dim, first->ndim + 1);
    if (d < 0)
        return NULL;
    for (int64_t i = 1; i < n_tensors; i++) {
        const td_tensor *x = tensors[i];
        if (x->ndim != first->ndim || memcmp(x->sizes, first->sizes, sizeof *x->sizes * x->ndim))
            return td_fail(TD_E_RUNTIME, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %" PRId64,
                           td_shape_str(first->ndim, first->sizes, a), td_shape_str(x->ndim, x->sizes, b), i);
    }
    if (d < first->ndim && first->numel && !(first->flags & TD_FLAG_CONTIGUOUS) && !td_has_layout(first)) {
        int64_t sizes[TD_MAX_DIMS + 1];
        memcpy(sizes, first->sizes, sizeof *sizes * (size_t)d);
        sizes[d] = n_tensors;
        memcpy(sizes + d + 1, first->sizes + d, sizeof *sizes * (size_t)(first->ndim - d));
        TD_AUTO td_tensor *joined = td_cat(n_tensors, tensors, d);
        return td_view(joined, first->ndim + 1, sizes);
    }
    td_tensor_list parts;
    if (td_tensor_list_new(&parts, n_tensors))
        return NULL;
    bool fine = true;
    for (int64_t i = 0; i < n_tensors && fine; i++)
        fine = (parts.items[i] = td_unsqueeze(tensors[i], d)) != NULL;
    td_tensor *result = fine ? td_cat(n_tensors, parts.items, d) : NULL;
    td_tensor_list_release(&parts);
    return result;
}
