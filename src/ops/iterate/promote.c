/* What must agree before an elementwise operator runs: broadcasting of shapes, type promotion of dtypes (torch.result_type), and
 * memory overlap of what is written with what is read. */
#include "calls_ops_iterate_promote.h"
#include "ops/index/index.h"
#include "ops/iterate/iterator.h"
#include "tensor/layout.h"
#include <stdio.h>
#include <inttypes.h>

/* ---- shapes */

/* NumPy's rule: shapes are aligned at their last dimension, sizes must be the same or 1.  A size of 0 is one like any other: it
 * agrees with 1 and 0.  The message names dimension and sizes as PyTorch does, which compares the operands pairwise: tensor a is
 * what the operands before k broadcast to. */
int td_broadcast_shape(const char *op, int n, td_tensor *const *tensors, int64_t *sizes)
{
    int ndim = 0;
    for (int k = 0; k < n; k++) {
        if (!tensors[k])
            return -1;
        if (tensors[k] != TD_NONE && tensors[k]->ndim > ndim)
            ndim = tensors[k]->ndim;
    }
    for (int d = 0; d < ndim; d++)
        sizes[d] = 1;
    for (int k = 0; k < n; k++) {
        const td_tensor *x = tensors[k];
        for (int d = x->ndim - 1, to = ndim - 1; d >= 0; d--, to--) {
            if (sizes[to] == x->sizes[d] || x->sizes[d] == 1)
                continue;
            if (sizes[to] != 1) {
                td_shape_text a, b;
                td_drawn_text drawn;
                int first = ndim;   /* the dimensions that the operands before have given it */
                for (int before = 0; before < k; before++)
                    if (ndim - tensors[before]->ndim < first)
                        first = ndim - tensors[before]->ndim;
                int at = to - (first < ndim - x->ndim ? first : ndim - x->ndim);
                return td_error(TD_E_RUNTIME, "%s%sThe size of tensor a (%" PRId64 ") must match the size of tensor b (%"
                                PRId64 ") at non-singleton dimension %d (sizes %s and %s)%s", op ? op : "", op ? ": " : "",
                                sizes[to], x->sizes[d], at, td_shape_str(ndim - first, sizes + first, a),
                                td_shape_str(x->ndim, x->sizes, b),
                                td_draw_shapes(drawn, true, 2, (td_drawn[]){{"a", ndim - first, sizes + first, -1},
                                                                            {"b", x->ndim, x->sizes, d}}));
            }
            sizes[to] = x->sizes[d];
        }
    }
    return ndim;
}

/* ---- dtypes */

/* A later category only counts where it raises the kind: a float tensor with dimensions stays as it is, whatever
 * float a number has; an integer one gives way to it. */
static td_dtype combine(td_dtype higher, td_dtype lower)
{
    if (higher == TD_DTYPE_NONE)
        return lower;
    if (lower == TD_DTYPE_NONE || td_dtype_is_complex(higher))
        return higher;
    if (td_is_foreign_dtype(higher))
        return td_dtype_is_complex(lower) ? TD_C64 : higher;
    if (td_dtype_is_floating(higher))
        return td_dtype_is_complex(lower) ? td_dtype_to_complex(higher) : higher;
    if (td_dtype_is_complex(lower))
        return lower;
    if (higher == TD_BOOL || td_dtype_is_floating(lower) || td_is_foreign_dtype(lower))
        return td_promote_types(higher, lower);
    return higher;
}

/* Three categories, each promoted within itself: tensors with dimensions, those without, numbers (wrapped, as PyTorch calls them).
 * A number's own dtype is double or complex double; the default dtype stands for it, so that x * 2.5 of integers becomes float. */
td_dtype td_result_type(int n, td_tensor *const *tensors)
{
    enum { WITH_DIMS, ZERO_DIM, WRAPPED, CATEGORIES };
    td_dtype found[CATEGORIES] = {TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE};
    for (int k = 0; k < n; k++) {
        const td_tensor *x = tensors[k];
        if (!x)
            return TD_DTYPE_NONE;
        if (x == TD_NONE)
            continue;
        td_dtype dtype = x->dtype;
        bool wrapped = x->flags & TD_FLAG_WRAPPED_NUMBER;
        if (wrapped && td_dtype_is_complex(dtype))
            dtype = td_dtype_to_complex(td_default_dtype());
        else if (wrapped && td_dtype_is_floating(dtype))
            dtype = td_default_dtype();
        td_dtype *category = &found[x->ndim > 0 ? WITH_DIMS : wrapped ? WRAPPED : ZERO_DIM];
        if (*category == TD_DTYPE_NONE)
            *category = dtype;
        else if (*category != dtype && (*category = td_promote_types(*category, dtype)) == TD_DTYPE_NONE)
            return TD_DTYPE_NONE;
    }
    if (found[WITH_DIMS] == found[ZERO_DIM] && found[ZERO_DIM] == found[WRAPPED] && found[WRAPPED] == TD_DTYPE_NONE)
        return td_error(TD_E_RUNTIME, "result_type: expected at least one tensor"), TD_DTYPE_NONE;
    return combine(found[WITH_DIMS], combine(found[ZERO_DIM], found[WRAPPED]));
}

/* ---- memory */

/* Whether the elements fill their stretch of memory without gaps and each once.  The flag says so of positive strides; tensors
 * with negative ones, which PyTorch doesn't have, are checked here. */
bool td_is_dense(const td_tensor *x)
{
    if (x->flags & TD_FLAG_NON_OVERLAPPING)
        return true;
    bool negative = false;
    for (int d = 0; d < x->ndim; d++)
        negative |= x->strides[d] < 0;
    if (!negative)
        return false;
    int64_t step = 1, seen = 0;
    for (;;) {      /* take the dimension whose step is the span of those taken */
        int found = -1;
        bool left = false;
        for (int d = 0; d < x->ndim; d++) {
            if (x->sizes[d] == 1 || seen >> d & 1)
                continue;
            left = true;
            if (x->strides[d] == step || x->strides[d] == -step)
                found = d;
        }
        if (!left)
            return true;
        if (found < 0)
            return false;
        seen |= (int64_t)1 << found;
        step *= x->sizes[found];
    }
}

/* Only what stride 0 shows, as PyTorch does: to decide overlap of arbitrary strides is a diophantine problem. */
static int overlap_with_itself(const td_tensor *out)
{
    for (int d = 0; d < out->ndim; d++) {
        if (out->sizes[d] > 1 && out->strides[d] == 0)
            return td_error(TD_E_RUNTIME, "unsupported operation: more than one element of the written-to tensor refers "
                            "to a single memory location. Please clone() the tensor before performing the operation.");
    }
    return 0;
}

/* As PyTorch compares them: dimensions of one element count. */
static bool same_strides(const td_tensor *a, const td_tensor *b)
{
    return a->ndim == b->ndim && !memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)a->ndim);
}

/* Refused is what certainly overlaps in part.  An input that is the same view as the output is fine, since a loop reads an element
 * before it writes it; operands with gaps are let through, as in PyTorch (MemOverlapStatus TooHard). */
int td_check_overlap(const char *op, td_tensor *out, int n, td_tensor *const *inputs)
{
    if (TD_UNLIKELY(td_has_layout(out)))
        return td_layout_refuse(op, out), -1;
    if (!(out->flags & TD_FLAG_NON_OVERLAPPING) && out->numel > 0 && overlap_with_itself(out) != 0)
        return -1;
    for (int k = 0; k < n; k++) {
        const td_tensor *in = inputs[k];
        if (!in)
            return -1;
        if (in == out || in == TD_NONE || in->storage != out->storage || !in->storage || !in->numel || !out->numel)
            continue;
        if (!td_is_dense(out) || !td_is_dense(in))
            continue;
        int64_t low, high;
        td_bounds(out->ndim, out->sizes, out->strides, &low, &high);
        intptr_t out_from = (intptr_t)out->data + low * td_itemsize(out);
        intptr_t out_to = (intptr_t)out->data + (high + 1) * td_itemsize(out);
        td_bounds(in->ndim, in->sizes, in->strides, &low, &high);
        intptr_t from = (intptr_t)in->data + low * td_itemsize(in), to = (intptr_t)in->data + (high + 1) * td_itemsize(in);
        if (from >= out_to || out_from >= to)
            continue;
        if (from == out_from && to == out_to && in->dtype == out->dtype && same_strides(in, out))
            continue;
        return td_error(TD_E_RUNTIME, "unsupported operation: some elements of the input tensor and the written-to tensor "
                        "refer to a single memory location. Please clone() the tensor before performing the operation.");
    }
    return 0;
}
