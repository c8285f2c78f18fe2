/* Embeddings: shapes and gradients.
 *
 * embedding copies rows of a table; embedding_bag reduces the rows of each bag (sum, mean or max) without making
 * them. Indices are checked by the kernels, when they read them. */
#include "calls_ops_nn_embedding.h"
#include <inttypes.h>
#include "ops/compose.h"
#include "tensor/checked.h"

static int check_indices_of(const char *op, int argument, td_tensor *indices)
{
    if (indices->dtype == TD_I64 || indices->dtype == TD_I32)
        return 0;
    return td_error(TD_E_RUNTIME, "Expected tensor for argument #%d 'indices' to have one of the following scalar types: Long, Int; but got "
                    "torch.%sTensor instead (while checking arguments for %s)", argument, td_dtype_title((td_dtype)indices->dtype), op);
}
static int check_indices(const char *op, td_tensor *indices) { return check_indices_of(op, 1, indices); }

/* padding_idx, by_freq and sparse matter to the gradient only. */
int td_meta_embedding(td_spec *specs, td_tensor *weight, td_tensor *indices, int64_t padding_idx, bool by_freq,
                      bool sparse)
{
    (void)padding_idx, (void)by_freq, (void)sparse;
    if (weight->ndim != 2)
        return td_error(TD_E_RUNTIME, "'weight' must be 2-D");
    if (check_indices("embedding", indices))
        return -1;
    if (indices->ndim >= TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "embedding: too many dimensions");
    td_spec_set(specs, indices->ndim, indices->sizes, (td_dtype)weight->dtype, weight->device);
    specs->sizes[specs->ndim++] = weight->sizes[1];
    return 0;
}

/* sparse: a gradient that holds just the rows that were read. by_freq: each divided by how often it was. */
td_tensor *td_op_embedding_backward(td_tensor *grad, td_tensor *indices, int64_t rows, int64_t padding_idx,
                                    bool by_freq, bool sparse)
{
    if (sparse)
        return td_embedding_sparse_backward(grad, indices, rows, padding_idx, by_freq);
    return td_embedding_dense_backward(grad, indices, rows, padding_idx, by_freq);
}

int td_meta_embedding_dense_backward(td_spec *specs, td_tensor *grad, td_tensor *indices, int64_t rows,
                                     int64_t padding_idx, bool by_freq)
{
    (void)padding_idx, (void)by_freq;
    if (check_indices("embedding_dense_backward", indices))
        return -1;
    if (grad->ndim < 1 || rows < 0)
        return td_error(TD_E_RUNTIME, "embedding_dense_backward: the gradient must have a last dimension, num_weights must not be negative");
    if (grad->numel != td_mul_saturated(indices->numel, grad->sizes[grad->ndim - 1]))
        return td_error(TD_E_RUNTIME, "embedding_dense_backward: the gradient must have a row for each index");
    return td_spec_set(specs, 2, (int64_t[]){rows, grad->sizes[grad->ndim - 1]}, (td_dtype)grad->dtype, grad->device);
}

/* The dense backward pass is linear in grad, and its derivative picks rows, as embedding itself. */
td_tensor *td_op_embedding_grad_grad(td_tensor *grad, td_tensor *indices, int64_t padding_idx)
{
    TD_AUTO td_tensor *picked = td_embedding(grad, indices, padding_idx, false, false);
    if (padding_idx < 0)
        return td_ref(picked);
    /* The padding row passed nothing on. */
    TD_AUTO td_tensor *number = td_wrapped_number(td_int(padding_idx));
    TD_AUTO td_tensor *is = td_eq_tensor(indices, number);
    TD_AUTO td_tensor *mask = td_unsqueeze(is, -1), *zero = picked ? td_zeros_like(picked) : NULL;
    return td_where_self(mask, zero, picked);
}

/* offsets says where each bag begins in indices; with last_offset its last element is the end instead of a bag.
 * Results: the bags, the bag of each index, the bags' sizes, and for max the row that each element came from. */
int td_meta__embedding_bag(td_spec *specs, td_tensor *weight, td_tensor *indices, td_tensor *offsets, bool by_freq,
                           int64_t mode,
                           bool sparse, td_tensor *per_sample, bool last_offset, int64_t padding_idx)
{
    (void)by_freq, (void)sparse, (void)padding_idx;
    if (check_indices("embedding_bag", indices) || check_indices("embedding_bag", offsets))
        return -1;
    if (indices->ndim != 1)
        return td_error(TD_E_RUNTIME, "input has to be a 1D or 2D Tensor, but got Tensor of dimension %d", indices->ndim);
    if (offsets->ndim != 1)
        return td_error(TD_E_RUNTIME, "offsets has to be a 1D Tensor, but got Tensor of dimension %d", offsets->ndim);
    if (weight->ndim != 2)
        return td_error(TD_E_RUNTIME, "weight has to be a 2D Tensor, but got Tensor of dimension %d", weight->ndim);
    if (mode < 0 || mode > 2)
        return td_error(TD_E_RUNTIME, "embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got %" PRId64, mode);
    if (per_sample != TD_NONE && mode != 0)
        return td_error(TD_E_RUNTIME, "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'");
    if (per_sample != TD_NONE && (per_sample->ndim != 1 || per_sample->numel != indices->numel))
        return td_error(TD_E_RUNTIME, "embedding_bag: per_sample_weights must have as many elements as indices");
    if (per_sample != TD_NONE && per_sample->dtype != weight->dtype)
        return td_error(TD_E_RUNTIME, "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
                        "'per_sample_weights'; but type torch.%sTensor does not equal torch.%sTensor (while checking arguments for "
                        "embedding_bag)", td_dtype_title((td_dtype)weight->dtype), td_dtype_title((td_dtype)per_sample->dtype));
    if (last_offset && offsets->numel < 1)
        return td_error(TD_E_RUNTIME, "include_last_offset: number of offset should be at least 1");
    if (!td_is_floating(weight))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"embedding_bag\" not implemented for '%s'",
                        td_dtype_title((td_dtype)weight->dtype));
    int64_t bags = offsets->numel - last_offset, width = weight->sizes[1];
    td_spec_set(&specs[1], 1, indices->sizes, TD_I64, weight->device);
    td_spec_set(&specs[2], 1, &bags, TD_I64, weight->device);
    td_spec_set(&specs[3], mode == 2 ? 2 : 1, (int64_t[]){bags, width}, TD_I64, weight->device);
    return td_spec_set(&specs[0], 2, (int64_t[]){bags, width}, (td_dtype)weight->dtype, weight->device);
}

/* A negative padding_idx counts from the end and is wrapped here: to _embedding_bag -1 means that there is none. */
int td_op_embedding_bag_padding_idx(td_tensor **results, td_tensor *weight, td_tensor *indices, td_tensor *offsets,
                                    bool by_freq,
                                    int64_t mode, bool sparse, td_tensor *per_sample, bool last_offset,
                                    const int64_t *padding_idx)
{
    int64_t padding = -1, rows = weight->ndim ? weight->sizes[0] : 0;
    if (padding_idx) {
        if (*padding_idx < -rows || *padding_idx >= rows)
            return td_error(TD_E_RUNTIME, "padding_idx must be within the number of embeddings, -%" PRId64 " through %" PRId64 ", but got %"
                            PRId64, rows, rows - 1, *padding_idx);
        padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
    }
    return td__embedding_bag(results, weight, indices, offsets, by_freq, mode, sparse, per_sample, last_offset,
                             padding);
}

int td_op_embedding_bag(td_tensor **results, td_tensor *weight, td_tensor *indices, td_tensor *offsets, bool by_freq,
                        int64_t mode,
                        bool sparse, td_tensor *per_sample, bool last_offset)
{
    return td_op_embedding_bag_padding_idx(results, weight, indices, offsets, by_freq, mode, sparse, per_sample,
                                           last_offset, NULL);
}

/* The bags' gradients, and a row of zeros for elements that are in none, which have the number behind the last.
 * offset2bag rises, so its last element shows whether there are such; where it can't be read the row is added in any
 * case. */
static td_tensor *shares_of_all(td_tensor *share, td_tensor *offset2bag)
{
    if (!share || (!td_hides_values(offset2bag) && offset2bag->device.type == TD_CPU && offset2bag->dtype == TD_I64 &&
                   (!offset2bag->numel || ((const int64_t *)offset2bag->data)[(offset2bag->numel - 1) * offset2bag->strides[0]] < share->sizes[0])))
        return td_ref(share);
    return td_constant_pad_nd(share, 4, (int64_t[]){0, 0, 0, 1}, td_int(0));
}

/* Each index's share of its bag's gradient, then added up by index.  For per_sample weights it is the product of that share
 * with the index's row. */
int td_op_embedding_bag_grad(td_tensor **results, td_tensor *grad, td_tensor *weight, td_tensor *indices,
                             td_tensor *offset2bag,
                             td_tensor *bag_size, td_tensor *max_indices, int64_t mode, bool by_freq, bool sparse,
                             td_tensor *per_sample, int64_t padding_idx, int64_t n_mask, const bool *mask)
{
    (void)n_mask;
    if (weight->ndim != 2 || grad->ndim != 2 || indices->ndim != 1 || (mode != 2 && offset2bag->ndim != 1))
        return td_error(TD_E_RUNTIME, "embedding_bag_grad: weight and grad must be matrices, indices and offset2bag vectors");
    int64_t rows = weight->sizes[0], width = weight->sizes[1];
    results[0] = results[1] = NULL;
    if (mode == 2) {
        /* No two elements share a row: add up as for an embedding of single numbers. */
        int64_t bags = grad->sizes[0];
        TD_AUTO td_tensor *sources = td_reshape(max_indices, 2, (int64_t[]){bags, width});
        TD_AUTO td_tensor *none = td_wrapped_number(td_int(0));
        TD_AUTO td_tensor *empty = td_lt_tensor(sources, none), *clamped = td_maximum(sources, none);
        TD_AUTO td_tensor *nothing = td_zeros_like(grad), *columns = td_arange(td_int(width), TD_I64, grad->device);
        TD_AUTO td_tensor *kept = td_where_self(empty, nothing, grad), *starts = td_times(clamped, td_int(width));
        TD_AUTO td_tensor *places = td_add_tensor(starts, columns, td_int(1));
        TD_AUTO td_tensor *flat = td_reshape(places, 1, (int64_t[]){bags * width});
        TD_AUTO td_tensor *values = td_reshape(kept, 2, (int64_t[]){bags * width, 1});
        TD_AUTO td_tensor *sums = td_embedding_dense_backward(values, flat, rows * width, -1, false);
        results[0] = td_reshape(sums, 2, weight->sizes);
        results[1] = td_ref(TD_NONE);
    } else {
        TD_AUTO td_tensor *share = td_ref(grad);
        if (mode == 1) {
            TD_AUTO td_tensor *one = td_wrapped_number(td_int(1));
            TD_AUTO td_tensor *least = td_maximum(bag_size, one);
            TD_AUTO td_tensor *column = td_unsqueeze(least, 1);
            td_tensor_release(share);
            share = td_div_tensor(grad, column);
        }
        TD_AUTO td_tensor *all = shares_of_all(share, offset2bag);
        TD_AUTO td_tensor *spread = td_embedding(all, offset2bag, -1, false, false);
        TD_AUTO td_tensor *factors = per_sample == TD_NONE ? td_ref(TD_NONE) : td_unsqueeze(per_sample, 1);
        TD_AUTO td_tensor *weighted = per_sample == TD_NONE ? td_ref(spread) : td_mul_tensor(spread, factors);
        results[0] = mask[0] ? td_embedding_backward(weighted, indices, rows, padding_idx, by_freq, sparse) : td_ref(TD_NONE);
        if (mask[1]) {
            TD_AUTO td_tensor *picked = td_embedding(weight, indices, -1, false, false);
            TD_AUTO td_tensor *products = td_mul_tensor(picked, spread);
            TD_AUTO td_tensor *sums = td_sum_over(products, 1, (int64_t[]){1}, false);
            if (padding_idx >= 0) {
                TD_AUTO td_tensor *number = td_wrapped_number(td_int(padding_idx));
                TD_AUTO td_tensor *is = td_eq_tensor(indices, number), *zero = sums ? td_zeros_like(sums) : NULL;
                results[1] = td_where_self(is, zero, sums);
            } else {
                results[1] = td_ref(sums);
            }
        } else {
            results[1] = td_ref(TD_NONE);
        }
    }
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]);
    td_tensor_release(results[1]);
    return -1;
}

/* ---- tables whose rows are kept short */

/* Rows that are looked up and longer than max_norm are shortened to it, in place: by max_norm / (norm + 1e-7), PyTorch's constant. The
 * norm and the factor are rounded to the table's dtype. A row that is named twice is shortened once, for both copies are of what
 * it was. */
int td_op_embedding_renorm_(td_tensor *self, td_tensor *indices, double max_norm, double norm_type)
{
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "Expected 2-dimensional tensor for argument #1 'self' of embedding_renorm_, but got %d dimensions",
                        self->ndim);
    if (check_indices_of("embedding_renorm_", 2, indices))
        return -1;
    if (!indices->numel)
        return 0;
    if (!td_is_floating(self) && !td_is_complex(self))
        return td_error(TD_E_RUNTIME, "norm(): input dtype should be either floating point or complex. Got %s instead.",
                        td_dtype_title((td_dtype)self->dtype));
    TD_AUTO td_tensor *flat = td_reshape(indices, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *at = flat ? td_to(flat, TD_I64) : NULL;
    TD_AUTO td_tensor *rows = td_index_select(self, 0, at);
    TD_AUTO td_tensor *norm = td_linalg_vector_norm(rows, td_float(norm_type), 1, (int64_t[]){1}, true, TD_DTYPE_NONE);
    TD_AUTO td_tensor *exact = norm ? td_to(norm, TD_F64) : NULL;
    TD_AUTO td_tensor *limit = td_wrapped_number(td_float(max_norm)), *one = td_wrapped_number(td_float(1));
    TD_AUTO td_tensor *above = td_gt(exact, limit);
    TD_AUTO td_tensor *apart = td_plus(exact, td_float(1e-7));
    TD_AUTO td_tensor *factor = td_div(limit, apart);
    TD_AUTO td_tensor *chosen = td_where(above, factor, one);
    TD_AUTO td_tensor *scale = chosen ? td_to(chosen, td_dtype_to_real((td_dtype)self->dtype)) : NULL;
    TD_AUTO td_tensor *scaled = td_mul(rows, scale);
    return scaled ? td_index_copy_(self, 0, at, scaled) : -1;
}
