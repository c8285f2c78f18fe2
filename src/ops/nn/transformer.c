/* Attention with its projections, and a layer of an encoder, as one call each: what nn.MultiheadAttention and nn.TransformerEncoderLayer run by in
 * evaluation.  They are made of operators; a layer is made of ones that nested tensors have, too, which go through it packed. */
#include "calls_ops_nn_transformer.h"
#include "ops/compose.h"
#include "tensor/layout.h"

#include <inttypes.h>
#include <math.h>

static int check(td_tensor *query, td_tensor *key, td_tensor *value, int64_t embed_dim, int64_t num_head, td_tensor *weight)
{
    const td_tensor *const all[] = {query, key, value};
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++)
        if (all[i]->ndim != 3)
            return td_error(TD_E_RUNTIME, "expected 3-D `%s`, got %d-D tensor", names[i], all[i]->ndim);
    if (query->sizes[2] != embed_dim)
        return td_error(TD_E_RUNTIME, "passed-in embed_dim %" PRId64 " didn't match last dim of query %" PRId64, embed_dim, query->sizes[2]);
    if (num_head < 1 || embed_dim % num_head)
        return td_error(TD_E_RUNTIME, "`embed_dim` must divide evenly by `num_heads`");
    if (weight->ndim != 2 || weight->sizes[0] != 3 * embed_dim)
        return td_error(TD_E_RUNTIME, "`qkv_weight` first dim should be 3x embed_dim");
    return 0;
}

/* (batch, length, parts * width) as (parts, batch, heads, length, width / heads). */
static td_tensor *by_heads(td_tensor *x, int64_t parts, int64_t heads)
{
    if (!x)
        return NULL;
    TD_AUTO td_tensor *split = td_unflatten_int(x, 2, 3, (int64_t[]){parts, heads, x->sizes[2] / (parts * heads)});
    return td_permute(split, 5, (int64_t[]){2, 0, 3, 1, 4});
}

/* The three projections, by heads: in one product where the inputs are one tensor. */
static int project(td_tensor_list *parts, td_tensor *const *inputs, int64_t heads, td_tensor *weight, td_tensor *bias)
{
    if (inputs[0] == inputs[1] && inputs[1] == inputs[2]) {
        TD_AUTO td_tensor *all = td_linear(inputs[0], weight, bias), *split = by_heads(all, 3, heads);
        return split ? td_unbind_int(parts, split, 0) : -1;
    }
    td_tensor_list weights = {0}, biases = {0};
    int status = td_chunk(&weights, weight, 3, 0) == 0 && td_chunk(&biases, bias, 3, 0) == 0 ? td_tensor_list_new(parts, 3) : -1;
    for (int i = 0; i < 3 && status == 0; i++) {
        TD_AUTO td_tensor *one = td_linear(inputs[i], weights.items[i], biases.items[i]), *split = by_heads(one, 1, heads);
        status = split && (parts->items[i] = td_squeeze_dim(split, 0)) ? 0 : -1;
    }
    td_tensor_list_release(&weights), td_tensor_list_release(&biases);
    return status;
}

/* A mask of one of the three kinds, true where nobody looks, as it broadcasts against (batch, heads, length, source). */
static td_tensor *hidden_by(td_tensor *mask, const int64_t *type, const td_tensor *query, int64_t heads, int64_t source)
{
    const int64_t batch = query->sizes[0], length = query->sizes[1];
    const int64_t seen[3][4] = {{1, 1, length, source}, {batch, 1, 1, source}, {batch, heads, length, source}};
    static const char *const shapes[] = {"(L, L)", "(B, L)", "(B, num_heads, L, L)"};
    if (!type)
        return td_fail(TD_E_RUNTIME, "Mask Type should be defined");
    if (*type < 0 || *type > 2)
        return td_fail(TD_E_RUNTIME, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
    const int ndim = *type == 2 ? 4 : 2;
    const int64_t wanted[4] = {*type == 0 ? length : batch, *type == 2 ? heads : source, length, source};
    bool fits = mask->ndim == ndim;
    for (int d = 0; d < ndim && fits; d++)
        fits = mask->sizes[d] == wanted[d];
    if (!fits)
        return td_fail(TD_E_RUNTIME, "For mask_type == %" PRId64 " mask shape should be %s", *type, shapes[*type]);
    TD_AUTO td_tensor *hidden = td_to_dtype(mask, TD_BOOL, false, false, TD_MEMORY_FORMAT_NONE);
    return td_reshape(hidden, 4, seen[*type]);
}

/* A row that sees nothing is NaN here, as it is in PyTorch. */
static td_tensor *attend(td_tensor *const *parts, td_tensor *hidden)
{
    if (hidden == TD_NONE)
        return td_scaled_dot_product_attention(parts[0], parts[1], parts[2], TD_NONE, 0., false, NULL, false);
    TD_AUTO td_tensor *shown = td_logical_not(hidden), *blind = td_all_dim(hidden, -1, true);
    TD_AUTO td_tensor *out = td_scaled_dot_product_attention(parts[0], parts[1], parts[2], shown, 0., false, NULL, false);
    return td_masked_fill_scalar(out, blind, td_float(NAN));
}

int td_op__native_multi_head_attention(td_tensor **results, td_tensor *query, td_tensor *key, td_tensor *value, int64_t embed_dim, int64_t num_head,
                                       td_tensor *qkv_weight, td_tensor *qkv_bias, td_tensor *proj_weight, td_tensor *proj_bias, td_tensor *mask,
                                       bool need_weights, bool average_attn_weights, const int64_t *mask_type)
{
    if (check(query, key, value, embed_dim, num_head, qkv_weight))
        return -1;
    TD_AUTO td_tensor *hidden = mask == TD_NONE ? td_ref(TD_NONE) : hidden_by(mask, mask_type, query, num_head, key->sizes[1]);
    td_tensor_list parts = {0};
    if (!hidden || project(&parts, (td_tensor *[]){query, key, value}, num_head, qkv_weight, qkv_bias))
        return -1;
    td_tensor *out, *seen = td_ref(TD_NONE);
    if (!need_weights) {
        out = attend(parts.items, hidden);
    } else {
        TD_AUTO td_tensor *scaled = td_times(parts.items[0], td_float(1 / sqrt((double)(embed_dim / num_head))));
        TD_AUTO td_tensor *keys = td_transpose_int(parts.items[1], -2, -1), *scores = td_matmul(scaled, keys);
        TD_AUTO td_tensor *left = hidden == TD_NONE ? td_ref(scores) : td_masked_fill_scalar(scores, hidden, td_float(-INFINITY));
        TD_AUTO td_tensor *weights = td_softmax(left, -1);
        out = td_matmul(weights, parts.items[2]);
        seen = !weights ? NULL : average_attn_weights ? td_mean_dim(weights, 1, (int64_t[]){1}, false) : td_ref(weights);
    }
    td_tensor_list_release(&parts);
    TD_AUTO td_tensor *found = out, *rows = td_transpose_int(found, 1, 2), *joined = td_flatten_using_ints(rows, 2, 3);
    results[0] = td_linear(joined, proj_weight, proj_bias);
    results[1] = results[0] ? seen : NULL;
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]), td_tensor_release(seen);
    return -1;
}

static td_tensor *normed(td_tensor *x, int64_t width, td_tensor *weight, td_tensor *bias, double eps)
{
    return td_layer_norm(x, 1, &width, weight, bias, eps, true);
}

td_tensor *td_op__transformer_encoder_layer_fwd(td_tensor *src, int64_t embed_dim, int64_t num_heads, td_tensor *qkv_weight, td_tensor *qkv_bias,
                                                td_tensor *proj_weight, td_tensor *proj_bias, bool use_gelu, bool norm_first, double eps,
                                                td_tensor *norm_weight_1, td_tensor *norm_bias_1, td_tensor *norm_weight_2, td_tensor *norm_bias_2,
                                                td_tensor *ffn_weight_1, td_tensor *ffn_bias_1, td_tensor *ffn_weight_2, td_tensor *ffn_bias_2,
                                                td_tensor *mask, const int64_t *mask_type)
{
    td_tensor *attention[2];
    TD_AUTO td_tensor *x = norm_first ? normed(src, embed_dim, norm_weight_1, norm_bias_1, eps) : td_ref(src);
    if (!x || td__native_multi_head_attention(attention, x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, false, true,
                                              mask_type))
        return NULL;
    td_tensor_release(attention[1]);
    TD_AUTO td_tensor *looked = attention[0], *sum = td_sum_of(src, looked);
    TD_AUTO td_tensor *y = norm_first ? td_ref(sum) : normed(sum, embed_dim, norm_weight_1, norm_bias_1, eps);
    TD_AUTO td_tensor *in = norm_first ? normed(y, embed_dim, norm_weight_2, norm_bias_2, eps) : td_ref(y);
    TD_AUTO td_tensor *inner = td_linear(in, ffn_weight_1, ffn_bias_1), *active = use_gelu ? td_gelu(inner, "none") : td_relu(inner);
    TD_AUTO td_tensor *outer = td_linear(active, ffn_weight_2, ffn_bias_2), *z = td_sum_of(y, outer);
    return norm_first ? td_ref(z) : normed(z, embed_dim, norm_weight_2, norm_bias_2, eps);
}

/* A nested tensor is padded with zeros first, so that rows that it lacks are the bias. */
int td_op__transform_bias_rescale_qkv(td_tensor **results, td_tensor *qkv, td_tensor *qkv_bias, int64_t num_heads)
{
    if (qkv->ndim != 3 || num_heads < 1 || td_size_is_symbol(qkv->sizes[2]) || qkv->sizes[2] % (3 * num_heads))
        return td_error(TD_E_RUNTIME, "_transform_bias_rescale_qkv: expected (batch, length, 3 * heads * width), and heads that divide it");
    TD_AUTO td_tensor *dense = td_has_layout(qkv) ? td_to_padded_tensor(qkv, 0., 0, NULL) : td_ref(qkv), *sum = td_sum_of(dense, qkv_bias);
    TD_AUTO td_tensor *split = by_heads(sum, 3, num_heads);
    td_tensor_list parts = {0};
    if (!split || td_unbind_int(&parts, split, 0))
        return -1;
    results[0] = td_times(parts.items[0], td_float(1 / sqrt((double)(qkv->sizes[2] / (3 * num_heads)))));
    results[1] = td_ref(parts.items[1]), results[2] = td_ref(parts.items[2]);
    td_tensor_list_release(&parts);
    if (results[0])
        return 0;
    td_tensor_release(results[1]), td_tensor_release(results[2]);
    return -1;
}
