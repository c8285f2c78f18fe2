/* Products and attention of nested tensors: by the values where one product serves all components, else one per component. */
#include "calls_layouts_nested_product.h"
#include "layouts/nested/nested.h"

#include <inttypes.h>
#include <math.h>

static td_tensor *refuse(const td_tensor *a, const td_tensor *b)
{
    td_shape_text one, two;
    return td_fail(TD_E_RUNTIME, "matmul(): not supported between inputs of shapes %s and %s", td_shape_str(a->ndim, a->sizes, one),
                   td_shape_str(b->ndim, b->sizes, two));
}

static int members(td_tensor_list *list, td_tensor *x) { return td_is_nested(x) ? td_nested_components(list, x) : td_unbind_int(list, x, 0); }

/* One product per component, in a list. */
static int products(td_tensor_list *list, td_tensor *a, td_tensor *b, int64_t count, bool shared)
{
    td_tensor_list left = {0}, right = {0};
    const bool one_left = shared && !td_is_nested(a), one_right = shared && !td_is_nested(b);
    int status = (one_left || members(&left, a) == 0) && (one_right || members(&right, b) == 0) ? td_tensor_list_new(list, count) : -1;
    const bool made = status == 0;
    for (int64_t i = 0; i < count && status == 0; i++) {
        td_tensor *x = one_left ? a : left.items[i], *y = one_right ? b : right.items[i];
        if (x->ndim == 2 && y->ndim == 2 && x->sizes[1] != y->sizes[0])
            status = td_error(TD_E_RUNTIME, "%" PRId64 "-th nested matrices in batch cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
                              i, x->sizes[0], x->sizes[1], y->sizes[0], y->sizes[1]);
        else
            status = (list->items[i] = td_matmul(x, y)) ? 0 : -1;
    }
    td_tensor_list_release(&left), td_tensor_list_release(&right);
    if (status && made)
        td_tensor_list_release(list);
    return status;
}

static td_tensor *jagged(td_tensor *a, td_tensor *b)
{
    td_tensor *like = td_is_nested(a) ? a : b, *other = like == a ? b : a;
    const int dim = td_nested_of(like)->dim, ndim = like->ndim;
    const bool both = td_is_nested(a) && td_is_nested(b), inner = like == a ? dim < ndim - 1 : dim == ndim - 1 || dim < ndim - 2;
    TD_AUTO td_tensor *x = td_is_nested(a) ? td_nested_unpacked(a) : td_ref(a), *y = td_is_nested(b) ? td_nested_unpacked(b) : td_ref(b);
    td_tensor_list list = {0};
    td_tensor *made = NULL;
    if (!both && other->ndim == 2 && ndim > 2 && inner) {       /* a matrix for all */
        TD_AUTO td_tensor *product = td_matmul(x, y);
        return td_nested_packed(product, like, dim);
    }
    if (both && ndim > 3 && b->ndim == ndim && dim < ndim - 2 && a->sizes[dim] == b->sizes[dim]) {      /* the ragged dimension is one of the batch's */
        TD_AUTO td_tensor *product = td_matmul(x, y);
        return td_nested_packed(product, a, dim);
    }
    if (!both && other->ndim == ndim && ndim > 2 && other->sizes[0] == like->sizes[0] && inner) {       /* a matrix for each */
        if (products(&list, a, b, td_nested_count(like), false))
            return NULL;
        made = td_nested_joined(&list, like, dim);
    } else if (both && a->ndim == b->ndim && dim == ndim - 1 && td_nested_of(b)->dim == ndim - 2 && a->sizes[dim] == b->sizes[ndim - 2]) {
        if (products(&list, a, b, td_nested_count(like), false))        /* the ragged dimension is summed over */
            return NULL;
        made = td_stack(list.count, list.items, 0);
    } else {
        return refuse(a, b);
    }
    td_tensor_list_release(&list);
    return made;
}

td_tensor *td_nested_matmul(td_tensor *self, td_tensor *other)
{
    if ((td_is_nested(self) && td_is_jagged(self)) || (td_is_nested(other) && td_is_jagged(other)))
        return td_is_nested(self) && td_is_nested(other) && td_is_jagged(self) != td_is_jagged(other) ? refuse(self, other) : jagged(self, other);
    const bool both = td_is_nested(self) && td_is_nested(other);
    td_tensor *like = td_is_nested(self) ? self : other, *strided = both ? NULL : like == self ? other : self;
    if (!both && strided->ndim != 2 && (strided->ndim != like->ndim || strided->sizes[0] != like->sizes[0]))
        return td_fail(TD_E_RUNTIME, "Expected both to be nested, but got a %s self and %s other", like == self ? "nested" : "non-nested",
                       like == self ? "non-nested" : "nested");
    if (like->ndim < 3 || (both && other->ndim != self->ndim))
        return td_fail(TD_E_RUNTIME, "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. 1st input has rank: %d, 2nd input has rank: %d",
                       self->ndim, other->ndim);
    if (both && td_nested_count(self) != td_nested_count(other))
        return td_fail(TD_E_RUNTIME, "matmul: Expected size for the 1st dimension of 2nd input tensor to be: %" PRId64 " but got: %" PRId64 ".",
                       td_nested_count(self), td_nested_count(other));
    td_tensor_list list = {0};
    if (products(&list, self, other, td_nested_count(like), !both && strided->ndim == 2))
        return NULL;
    td_tensor *made = td_nested_of_list(list.count, list.items);
    td_tensor_list_release(&list);
    return made;
}

td_tensor *td_nested_bmm(td_tensor *self, td_tensor *mat2)
{
    const bool is_jagged = (td_is_nested(self) && td_is_jagged(self)) || (td_is_nested(mat2) && td_is_jagged(mat2));
    if (self->ndim != 3)
        return td_fail(is_jagged ? TD_E_VALUE : TD_E_RUNTIME, is_jagged ? "bmm(): input must be 3D" : "batch1 must be a 3D tensor");
    if (mat2->ndim != 3)
        return td_fail(is_jagged ? TD_E_VALUE : TD_E_RUNTIME, is_jagged ? "bmm(): mat2 must be 3D" : "batch2 must be a 3D tensor");
    if (!is_jagged && self->sizes[0] != mat2->sizes[0])
        return td_fail(TD_E_RUNTIME, "Expected size for the 1st dimension of batch2 tensor to be: %" PRId64 " but got: %" PRId64 ".", self->sizes[0],
                       mat2->sizes[0]);
    return td_nested_matmul(self, mat2);
}

/* ---- attention, component by component: nothing is padded, and no query sees another component's keys */

static td_tensor *rows_first(td_tensor *x, int dim)
{
    return dim == 0 ? td_ref(x) : td_movedim_int(x, dim, 0);
}

td_tensor *td_nested_scaled_dot_product_attention(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, double dropout, bool causal,
                                                  const double *scale, bool enable_gqa)
{
    if (!td_is_nested(query) || !td_is_nested(key) || !td_is_nested(value))
        return td_fail(TD_E_RUNTIME, "scaled_dot_product_attention: Expected query, key, and value to all be nested or all be strided");
    if (td_is_some(mask) && !td_is_jagged(query))
        return td_fail(TD_E_RUNTIME, "scaled_dot_product_attention of nested tensors: not supported when an explicit attn_mask is set");
    const bool flat = !td_is_jagged(query) && query->ndim == 3 && key->ndim == 3 && value->ndim == 3;       /* without heads */
    if (!flat && (query->ndim != 4 || key->ndim != 4 || value->ndim != 4))
        return td_fail(TD_E_VALUE, "Expected query, key, and value to all be 4 dimensional, but got Query dim: %d, Key dim: %d and Value dim: %d instead.",
                       query->ndim, key->ndim, value->ndim);
    if (td_is_some(mask))
        return td_fail(TD_E_VALUE, "Masks are not yet supported!");
    const int64_t count = td_nested_count(query);
    if (td_nested_count(key) != count || td_nested_count(value) != count)
        return td_fail(TD_E_VALUE, "scaled_dot_product_attention: queries, keys and values of batches of %" PRId64 ", %" PRId64 " and %" PRId64, count,
                       td_nested_count(key), td_nested_count(value));
    const bool is_jagged = td_is_jagged(query);
    const int dim = td_nested_of(query)->dim, at = is_jagged ? td_inner_dim(dim) : 0;
    if (is_jagged && dim == query->ndim - 1)
        return td_fail(TD_E_RUNTIME, "scaled_dot_product_attention(): not supported for NestedTensor on ragged dim");
    td_tensor_list q = {0}, k = {0}, v = {0}, out = {0};
    td_tensor *made = NULL;
    int status = td_nested_components(&q, query) || td_nested_components(&k, key) || td_nested_components(&v, value) || td_tensor_list_new(&out, count);
    for (int64_t i = 0; i < count && status == 0; i++) {
        TD_AUTO td_tensor *one = td_scaled_dot_product_attention(q.items[i], k.items[i], v.items[i], TD_NONE, dropout, causal, scale, enable_gqa);
        status = one && (out.items[i] = is_jagged ? rows_first(one, at) : td_ref(one)) ? 0 : -1;
    }
    if (status == 0 && !is_jagged) {
        made = td_nested_of_list(count, out.items);
    } else if (status == 0 && count) {      /* in memory the rows come first, so that the heads of a row can be joined by a view */
        TD_AUTO td_tensor *packed = td_cat(count, out.items, 0), *values = at == 0 ? td_ref(packed) : td_movedim_int(packed, 0, at);
        if (!td_nested_of(query)->ragged->lengths) {
            made = td_nested_packed(values, query, dim);
        } else {
            td_ragged *r = values ? td_ragged_of_counts(count, td_nested_of(query)->ragged->counts, query->device) : NULL;
            made = r ? td__nested_of_jagged(values, r->offsets, TD_NONE, dim, NULL, NULL) : NULL;
            td_ragged_release(r);
        }
    } else if (status == 0) {
        made = td_clone(query);
    }
    td_tensor_list_release(&q), td_tensor_list_release(&k), td_tensor_list_release(&v), td_tensor_list_release(&out);
    return made;
}

/* ---- attention with its projections */

/* A jagged tensor of the rows of each component, packed; of the strided layout, over the same memory. */
static td_tensor *rows_of(td_tensor *x)
{
    if (td_is_jagged(x))
        return td_nested_contiguous_format(x, TD_CONTIGUOUS_FORMAT);
    const int64_t count = td_nested_count(x);
    const size_t room = sizeof(int64_t) * (size_t)(count + 1);
    int64_t *counts = td_mem_alloc(room);
    for (int64_t i = 0; counts && i < count; i++)
        counts[i] = td_nested_sizes(x, i)[0];
    TD_AUTO td_tensor *flat = td_nested_unpacked(x), *rows = td_view(flat, 2, (int64_t[]){-1, x->sizes[2]});
    td_ragged *r = counts && rows ? td_ragged_of_counts(count, counts, x->device) : NULL;
    td_mem_free(counts, room);
    td_tensor *made = r ? td__nested_of_jagged(rows, r->offsets, TD_NONE, 1, NULL, NULL) : NULL;
    td_ragged_release(r);
    return made;
}

/* (batch, rows, heads * width) as (batch, heads, rows, width). */
static td_tensor *heads_of(td_tensor *x, int64_t heads)
{
    if (!x)
        return NULL;
    TD_AUTO td_tensor *values = td_nested_unpacked(x), *split = td_unflatten_int(values, 1, 2, (int64_t[]){heads, x->sizes[2] / heads});
    TD_AUTO td_tensor *packed = td_nested_packed(split, x, 1);
    return td_transpose_int(packed, 1, 2);
}

static int projections(td_tensor_list *parts, td_tensor *const *inputs, int64_t heads, td_tensor *weight, td_tensor *bias)
{
    td_tensor_list weights = {0}, biases = {0}, flat = {0};
    const bool one = inputs[0] == inputs[1] && inputs[1] == inputs[2];
    TD_AUTO td_tensor *rows = one ? rows_of(inputs[0]) : NULL, *all = one ? td_linear(rows, weight, bias) : NULL;
    int status = td_tensor_list_new(parts, 3);
    if (status == 0 && one)
        status = all ? td_chunk(&flat, all, 3, 2) : -1;
    else if (status == 0)
        status = td_chunk(&weights, weight, 3, 0) || td_chunk(&biases, bias, 3, 0) ? -1 : td_tensor_list_new(&flat, 3);
    for (int i = 0; i < 3 && status == 0; i++) {
        TD_AUTO td_tensor *in = one ? NULL : rows_of(inputs[i]);
        if (!one)
            flat.items[i] = td_linear(in, weights.items[i], biases.items[i]);
        status = (parts->items[i] = heads_of(flat.items[i], heads)) ? 0 : -1;
    }
    td_tensor_list_release(&weights), td_tensor_list_release(&biases), td_tensor_list_release(&flat);
    return status;
}

/* Weights are padded with zeros, as in PyTorch: (batch, heads, longest, longest). */
static td_tensor *padded_weights(td_tensor *const *parts, bool average)
{
    td_tensor_list q = {0}, k = {0}, all = {0};
    int status = td_nested_components(&q, parts[0]) || td_nested_components(&k, parts[1]) ? -1 : td_tensor_list_new(&all, q.count);
    const int64_t rows = td_nested_of(parts[0])->ragged->longest, columns = td_nested_of(parts[1])->ragged->longest;
    const double scale = 1 / sqrt((double)parts[0]->sizes[3]);
    for (int64_t i = 0; i < q.count && status == 0; i++) {
        TD_AUTO td_tensor *scaled = td_times(q.items[i], td_float(scale)), *keys = td_transpose_int(k.items[i], -2, -1);
        TD_AUTO td_tensor *scores = td_matmul(scaled, keys), *weights = td_softmax(scores, -1);
        if (weights)
            all.items[i] = td_constant_pad_nd(weights, 4, (int64_t[]){0, columns - weights->sizes[2], 0, rows - weights->sizes[1]}, td_float(0));
        status = all.items[i] ? 0 : -1;
    }
    TD_AUTO td_tensor *stacked = status == 0 ? td_stack(all.count, all.items, 0) : NULL;
    td_tensor_list_release(&q), td_tensor_list_release(&k), td_tensor_list_release(&all);
    return average ? td_mean_dim(stacked, 1, (int64_t[]){1}, false) : td_ref(stacked);
}

int td_nested__native_multi_head_attention(td_tensor **results, td_tensor *query, td_tensor *key, td_tensor *value, int64_t embed_dim, int64_t num_head,
                                           td_tensor *qkv_weight, td_tensor *qkv_bias, td_tensor *proj_weight, td_tensor *proj_bias, td_tensor *mask,
                                           bool need_weights, bool average_attn_weights, const int64_t *mask_type)
{
    td_tensor *const inputs[] = {query, key, value};
    (void)mask_type;
    if (td_is_some(mask))
        return td_error(TD_E_RUNTIME, "NestedTensor with mask is not supported yet");
    for (int i = 0; i < 3; i++)
        if (!td_is_nested(inputs[i]) || inputs[i]->ndim != 3 || inputs[i]->sizes[2] != embed_dim || td_nested_count(inputs[i]) != td_nested_count(query) ||
            (td_is_jagged(inputs[i]) && td_nested_of(inputs[i])->dim != 1))
            return td_error(TD_E_RUNTIME, "_native_multi_head_attention: query, key and value are nested tensors of as many components of (rows, %" PRId64 ")",
                            embed_dim);
    if (num_head < 1 || embed_dim % num_head)
        return td_error(TD_E_RUNTIME, "`embed_dim` must divide evenly by `num_heads`");
    if (qkv_weight->ndim != 2 || qkv_weight->sizes[0] != 3 * embed_dim)
        return td_error(TD_E_RUNTIME, "`qkv_weight` first dim should be 3x embed_dim");
    td_tensor_list parts = {0};
    int status = projections(&parts, inputs, num_head, qkv_weight, qkv_bias);
    TD_AUTO td_tensor *out = status == 0 ? td_nested_scaled_dot_product_attention(parts.items[0], parts.items[1], parts.items[2], TD_NONE, 0., false, NULL,
                                                                                   false) : NULL;
    results[1] = status == 0 && need_weights ? padded_weights(parts.items, average_attn_weights) : status == 0 ? td_ref(TD_NONE) : NULL;
    td_tensor_list_release(&parts);
    TD_AUTO td_tensor *rows = td_transpose_int(out, 1, 2), *values = rows ? td_nested_unpacked(rows) : NULL;
    TD_AUTO td_tensor *flat = td_flatten_using_ints(values, 1, 2), *projected = td_linear(flat, proj_weight, proj_bias);
    if (td_is_jagged(query) && !td_nested_of(query)->ragged->lengths)
        results[0] = td_nested_packed(projected, query, 1);
    else if (td_is_jagged(query))
        results[0] = td_nested_packed(projected, rows, 1);
    else
        results[0] = td_nested_packed(projected, query, 0);
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]), td_tensor_release(results[1]);
    return -1;
}
