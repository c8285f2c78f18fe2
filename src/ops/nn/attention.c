/* Attention: the fused kernel where it applies, else the same in matrix products.
 *
 * The products are for what the kernel leaves out: dropout, masks that need a gradient, and backward passes that are
 * differentiated themselves.
 *
 * The kernel keeps no matrix of scores: it goes over blocks of keys with a running maximum and sum (online softmax;
 * Dao et al., FlashAttention, 2022) and returns, besides the result, the logarithm of each query's sum of
 * exponentials, `lse`, from which the backward pass makes the probabilities again. The products here hold all
 * [queries, keys] scores. */
#include "calls_ops_nn_attention.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "autograd/tangent.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"

/* Results lie as their operand does: [batch][length][heads][features] where that is a view of such, so that joining the heads is a
 * view, too; else contiguous. */
static void heads_spec(td_spec *spec, td_tensor *like, int64_t width)
{
    int64_t b = like->sizes[0], h = like->sizes[1], l = like->sizes[2];
    td_spec_set(spec, 4, (int64_t[]){b, h, l, width}, (td_dtype)like->dtype, like->device);
    if (h == 1 || like->strides[1] >= like->strides[2] || like->strides[3] != 1 || like->sizes[3] != width)
        return;
    spec->strided = true;
    spec->strides[0] = l * h * width, spec->strides[1] = width, spec->strides[2] = h * width, spec->strides[3] = 1;
}

static bool is_shape(const td_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return x->ndim == 4 && x->sizes[0] == a && x->sizes[1] == b && x->sizes[2] == c && x->sizes[3] == d;
}

/* [batch, heads, length, features] each, keys and values with the heads or a divisor of them; the mask broadcastable to
 * [batch, heads, queries, keys]. */
static int describe(td_attention_geometry *g, const td_tensor *query, const td_tensor *key, const td_tensor *value, const td_tensor *mask,
                    bool causal, double scale)
{
    bool fit = query->ndim == 4 && key->ndim == 4 && value->ndim == 4;
    if (fit) {
        const int64_t *q = query->sizes, *k = key->sizes, scores[4] = {q[0], q[1], q[2], k[2]};
        *g = (td_attention_geometry){.batch = q[0], .heads = q[1], .kv_heads = k[1], .queries = q[2], .keys = k[2], .width = q[3],
                                     .value_width = value->sizes[3], .scale = scale, .causal = causal};
        fit = is_shape(key, q[0], k[1], k[2], q[3]) && is_shape(value, q[0], k[1], k[2], g->value_width) &&
              (q[1] == k[1] || (k[1] && q[1] % k[1] == 0)) && (mask == TD_NONE || mask->ndim <= 4);
        for (int d = 0; fit && mask != TD_NONE && d < mask->ndim; d++) {
            const int at = 4 - mask->ndim + d;
            g->mask_varies[at] = mask->sizes[d] != 1;
            fit = mask->sizes[d] == 1 || mask->sizes[d] == scores[at];
        }
    }
    return fit ? 0 : td_error(TD_E_RUNTIME, "attention: the shapes of query, key, value and mask don't fit");
}

/* lse is in float32 at least, for half types too. */
int td_meta_attention(td_spec *specs, td_attention_geometry *g, td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask,
                      bool causal, double scale)
{
    if (describe(g, query, key, value, mask, causal, scale))
        return -1;
    heads_spec(&specs[0], query, g->value_width);
    return td_spec_set(&specs[1], 3, query->sizes, query->dtype == TD_F64 ? TD_F64 : TD_F32, query->device);
}

/* lse belongs to exactly one query each, and grad and result have the same shape; the kernel indexes them by that. */
int td_meta_attention_backward(td_spec *specs, td_attention_geometry *g, td_tensor *grad, td_tensor *query, td_tensor *key,
                               td_tensor *value, td_tensor *mask, td_tensor *result, td_tensor *lse, bool causal, double scale)
{
    if (describe(g, query, key, value, mask, causal, scale))
        return -1;
    if (!is_shape(grad, g->batch, g->heads, g->queries, g->value_width) || !is_shape(result, g->batch, g->heads, g->queries, g->value_width) ||
        lse->ndim != 3 || memcmp(lse->sizes, query->sizes, 3 * sizeof(int64_t)))
        return td_error(TD_E_RUNTIME, "attention_backward: grad, result and lse don't have the shapes of attention's results");
    heads_spec(&specs[0], query, query->sizes[3]);
    heads_spec(&specs[1], key, key->sizes[3]);
    heads_spec(&specs[2], value, value->sizes[3]);
    return 0;
}

/* True below and on the diagonal: [queries, keys].
 * As in PyTorch the diagonal starts at the first query and the first key, whatever the lengths: the last query
 * doesn't see all keys if there are more of those. */
static td_tensor *causal_mask(int64_t queries, int64_t keys, td_device device)
{
    TD_AUTO td_tensor *every = td_ones(2, (int64_t[]){queries, keys}, TD_BOOL, device);
    return td_tril(every, 0);
}

/* The probabilities: rows that are masked throughout are 0.
 * A masked score is -inf. Of a row without any other, softmax would make NaN: its scores are replaced by 0 first, its
 * probabilities by 0 afterwards, and as where() passes no gradient to what it didn't select, none is NaN. Without a
 * mask no row can be so: the diagonal has at least the first key. */
static td_tensor *probabilities(td_tensor *query, td_tensor *key, td_tensor *mask, bool causal, double scale)
{
    TD_AUTO td_tensor *transposed = td_transpose_int(key, -2, -1);
    TD_AUTO td_tensor *products = td_matmul(query, transposed);
    TD_AUTO td_tensor *scores = !products ? NULL : scale == 1 ? td_ref(products) : td_times(products, td_float(scale));
    if (!scores || (mask == TD_NONE && !causal))
        return td_softmax_int(scores, -1, TD_DTYPE_NONE);
    TD_AUTO td_tensor *none = td_wrapped_number(td_float(-(double)INFINITY)), *zero = td_wrapped_number(td_float(0));
    TD_AUTO td_tensor *triangle = causal ? causal_mask(query->sizes[query->ndim - 2], key->sizes[key->ndim - 2],
                                                       query->device)
        : td_ref(TD_NONE);
    TD_AUTO td_tensor *below = causal ? td_where_self(triangle, scores, none) : td_ref(scores);
    TD_AUTO td_tensor *masked = mask == TD_NONE ? td_ref(below) : !mask ? NULL : mask->dtype == TD_BOOL ? td_where_self(mask, below, none)
        : td_add_tensor(below, mask, td_int(1));
    if (mask == TD_NONE)
        return td_softmax_int(masked, -1, TD_DTYPE_NONE);
    TD_AUTO td_tensor *top = td_amax(masked, 1, (int64_t[]){-1}, true);
    TD_AUTO td_tensor *empty = td_eq_tensor(top, none);
    TD_AUTO td_tensor *safe = td_where_self(empty, zero, masked);
    TD_AUTO td_tensor *p = td_softmax_int(safe, -1, TD_DTYPE_NONE);
    return td_where_self(empty, zero, p);
}

/* Each key head as often as query heads share it.
 * Grouped queries (Ainslie et al., "GQA", 2023): query heads h * times to (h + 1) * times - 1 share key head h.
 * expand repeats without a copy, the reshape makes one. */
static td_tensor *repeat_heads(td_tensor *x, int64_t times)
{
    if (!x || times == 1)
        return x ? td_ref(x) : NULL;
    int n = x->ndim;
    int64_t sizes[TD_MAX_DIMS + 1];
    for (int i = 0, at = 0; i < n; i++) {
        sizes[at++] = x->sizes[i];
        if (i == n - 3)
            sizes[at++] = times;
    }
    TD_AUTO td_tensor *apart = td_unsqueeze(x, n - 2);
    TD_AUTO td_tensor *wide = td_expand(apart, n + 1, sizes);
    int64_t joined[TD_MAX_DIMS];
    for (int i = 0; i < n; i++)
        joined[i] = x->sizes[i] * (i == n - 3 ? times : 1);
    return td_reshape(wide, n, joined);
}

static td_tensor *converted(td_tensor *x, td_dtype dtype)
{
    return !x ? NULL : x->dtype == dtype ? td_ref(x) : td_to_dtype(x, dtype, false, false, TD_MEMORY_FORMAT_NONE);
}

static td_tensor *dropped(td_tensor *p, double dropout)
{
    if (!p || dropout == 0)
        return p ? td_ref(p) : NULL;
    return td_dropout(p, dropout, true);
}

/* Both factors get the root of the scale, as in PyTorch: the products round as its do.
 * A negative scale is on the query's factor alone. */
static td_tensor *by_products(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, double dropout,
                              bool causal,
                              double scale)
{
    double root = sqrt(fabs(scale));
    TD_AUTO td_tensor *q = td_times(query, td_float(scale < 0 ? -root : root)), *k = td_times(key, td_float(root));
    TD_AUTO td_tensor *p = q && k ? probabilities(q, k, mask, causal, 1) : NULL;
    TD_AUTO td_tensor *kept = dropped(p, dropout);
    return td_matmul(kept, value);
}

/* With P the probabilities and O = P V: dV = P^T g, dP = g V^T, dS = P (dP - sum(P dP)) scale, dQ = dS K and dK =
 * dS^T Q. Key heads that several query heads share add up those heads' gradients: the 5th dimension is theirs.
 *
 * All three are computed whatever is wanted: the scores are most of the work. */
int td_op_attention_grad(td_tensor **results, td_tensor *grad, td_tensor *query, td_tensor *key, td_tensor *value,
                         td_tensor *mask,
                         td_tensor *result, td_tensor *lse, bool causal, double scale, int64_t n_wants,
                         const bool *wants)
{
    (void)n_wants, (void)wants;
    if (!TD_RECORDS(grad, query, key, value))
        return td_attention_backward(results, grad, query, key, value, mask, result, lse, causal, scale);
    td_attention_geometry shapes;
    if (describe(&shapes, query, key, value, mask, causal, scale))
        return -1;
    td_dtype type = (td_dtype)query->dtype;
    if (type == TD_F16 || type == TD_BF16) {    /* in float32 throughout */
        TD_AUTO td_tensor *g = converted(grad, TD_F32), *q = converted(query, TD_F32), *wide_k = converted(key, TD_F32);
        TD_AUTO td_tensor *wide_v = converted(value, TD_F32),
        *m = mask == TD_NONE || mask->dtype == TD_BOOL ? td_ref(mask)
            : converted(mask, TD_F32);
        td_tensor *wide[3];
        if (!g || !q || !wide_k || !wide_v || !m ||
            td_op_attention_grad(wide, g, q, wide_k, wide_v, m, result, lse, causal, scale, n_wants, wants))
            return -1;
        bool fine = true;
        for (int i = 0; i < 3; i++) {
            results[i] = converted(wide[i], type);
            td_tensor_release(wide[i]);
            fine &= results[i] != NULL;
        }
        for (int i = 0; i < 3 && !fine; i++)
            td_tensor_release(results[i]);
        return fine ? 0 : -1;
    }
    int64_t times = key->sizes[1] ? query->sizes[1] / key->sizes[1] : 1;
    TD_AUTO td_tensor *k = repeat_heads(key, times), *v = repeat_heads(value, times);
    TD_AUTO td_tensor *p = probabilities(query, k, mask, causal, scale);
    TD_AUTO td_tensor *p_transposed = td_transpose_int(p, -2, -1), *v_transposed = td_transpose_int(v, -2, -1);
    TD_AUTO td_tensor *dv = td_matmul(p_transposed, grad), *dp = td_matmul(grad, v_transposed);
    TD_AUTO td_tensor *weighted = td_mul_tensor(dp, p);
    TD_AUTO td_tensor *sum = td_sum_over(weighted, 1, (int64_t[]){-1}, true);
    TD_AUTO td_tensor *centred = td_minus(dp, sum);
    TD_AUTO td_tensor *unscaled = td_mul_tensor(p, centred);
    TD_AUTO td_tensor *ds = td_times(unscaled, td_float(scale));
    TD_AUTO td_tensor *ds_transposed = td_transpose_int(ds, -2, -1);
    TD_AUTO td_tensor *dk = td_matmul(ds_transposed, query);
    results[0] = td_matmul(ds, k);
    td_tensor *wide[2] = {dk, dv}, *like[2] = {key, value};
    for (int i = 0; i < 2; i++) {
        const int64_t *s = like[i]->sizes;
        TD_AUTO td_tensor *grouped = td_reshape(wide[i], 5, (int64_t[]){s[0], s[1], times, s[2], s[3]});
        results[1 + i] = times == 1 ? (wide[i] ? td_ref(wide[i]) : NULL) : td_sum_over(grouped, 1, (int64_t[]){2},
            false);
    }
    if (results[0] && results[1] && results[2])
        return 0;
    for (int i = 0; i < 3; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* With P the probabilities and s the scores' tangent: P (s - sum(P s)) value + P t_value.
 * P (s - sum(P s)) is softmax's tangent, which is what its backward kernel computes, the derivative being symmetric.
 * scores is NULL while neither query nor key has a tangent. */
td_tensor *td_op_attention_tangent(td_tensor *t_query, td_tensor *t_key, td_tensor *t_value, td_tensor *query, td_tensor *key,
                                   td_tensor *value, td_tensor *mask, bool causal, double scale)
{
    td_attention_geometry g;
    if (describe(&g, query, key, value, mask, causal, scale))
        return NULL;
    const td_tensor *operands[3][2] = {{t_query, query}, {t_key, key}, {t_value, value}};
    for (int i = 0; i < 3; i++)
        if (operands[i][0] != TD_NONE && (operands[i][0]->ndim != 4 || memcmp(operands[i][0]->sizes, operands[i][1]->sizes,
                                                                            4 * sizeof(int64_t))))
            return td_fail(TD_E_RUNTIME, "attention_tangent: tangents have the shapes of their operands");
    const int64_t times = g.kv_heads ? g.heads / g.kv_heads : 1;
    TD_AUTO td_tensor *k = repeat_heads(key, times);
    TD_AUTO td_tensor *p = probabilities(query, k, mask, causal, scale);
    TD_AUTO td_tensor *scores = NULL, *result = NULL;
    if (t_query != TD_NONE) {
        TD_AUTO td_tensor *transposed = td_transpose_int(k, -2, -1);
        if (!(scores = td_matmul(t_query, transposed)))
            return NULL;
    }
    if (t_key != TD_NONE) {
        TD_AUTO td_tensor *tangent = repeat_heads(t_key, times), *transposed = td_transpose_int(tangent, -2, -1);
        TD_AUTO td_tensor *more = td_matmul(query, transposed), *before = scores;
        if (!(scores = before ? td_add_tensor(before, more, td_int(1)) : more ? td_ref(more) : NULL))
            return NULL;
    }
    if (scores) {
        TD_AUTO td_tensor *slopes = td__softmax_backward_data(scores, p, -1, (td_dtype)p->dtype);
        TD_AUTO td_tensor *scaled = td_times(slopes, td_float(scale));
        TD_AUTO td_tensor *v = repeat_heads(value, times);
        if (!(result = td_matmul(scaled, v)) || t_value == TD_NONE)
            return result ? td_ref(result) : NULL;
    }
    TD_AUTO td_tensor *v = repeat_heads(t_value, times);
    TD_AUTO td_tensor *more = td_matmul(p, v);
    return result ? td_add_tensor(result, more, td_int(1)) : more ? td_ref(more) : NULL;
}

/* In PyTorch's words, two spaces and all. */
static int check(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, bool causal)
{
    if (query->dtype != key->dtype || query->dtype != value->dtype)
        return td_error(TD_E_RUNTIME, "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s and "
                        "value.dtype: %s instead.", td_cpp_name(query->dtype), td_cpp_name(key->dtype), td_cpp_name(value->dtype));
    if (query->ndim < 2 || key->ndim < 2 || value->ndim < 2)
        return td_error(TD_E_RUNTIME, "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: %d key.dim: %d "
                        "and value.dim: %d instead.", query->ndim, key->ndim, value->ndim);
    if (mask != TD_NONE && mask->dtype != TD_BOOL && mask->dtype != query->dtype && mask->dtype != TD_F32)
        return td_error(TD_E_RUNTIME, "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: %s "
                        "and  query.dtype: %s instead.", td_cpp_name(mask->dtype), td_cpp_name(query->dtype));
    if (mask != TD_NONE && causal)
        return td_error(TD_E_RUNTIME, "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
    return 0;
}

/* Whether the kernel takes these: equal leading dimensions, matching lengths, a mask that broadcasts.
 * Empty operands go to the products, whose results' shapes and zeros are right already. A mask that needs a gradient
 * goes there, too: the kernel computes none for it. Shared heads are taken with four dimensions only. */
static bool fused(td_tensor *q, td_tensor *k, td_tensor *v, td_tensor *mask, bool gqa)
{
    if (!td_is_floating(q) || q->ndim != k->ndim || q->ndim != v->ndim || q->numel == 0 || k->numel == 0 || v->numel == 0)
        return false;
    int n = q->ndim;
    for (int i = 0; i < n - 2; i++) {
        bool shared = gqa && i == n - 3 && n == 4 && q->sizes[i] % k->sizes[i] == 0;
        if (k->sizes[i] != v->sizes[i] || (q->sizes[i] != k->sizes[i] && !shared))
            return false;
    }
    if (q->sizes[n - 1] != k->sizes[n - 1] || k->sizes[n - 2] != v->sizes[n - 2])
        return false;
    if (mask == TD_NONE)
        return true;
    if (td_requires_grad(mask) || td_tangent(mask) || mask->ndim > n || n > 4)
        return false;
    int64_t expected[4];
    for (int i = 0; i < n; i++)
        expected[i] = i == n - 1 ? k->sizes[n - 2] : q->sizes[i];
    for (int i = 0; i < mask->ndim; i++) {
        int64_t size = mask->sizes[i], full = expected[n - mask->ndim + i];
        if (size != 1 && size != full)
            return false;
    }
    return true;
}

/* Four dimensions: leading ones are put in front, more than two are joined. */
static td_tensor *as_four(td_tensor *x)
{
    if (x->ndim == 4)
        return td_ref(x);
    int64_t sizes[4] = {1, 1, x->sizes[x->ndim - 2], x->sizes[x->ndim - 1]};
    for (int i = 0; i < x->ndim - 3; i++)
        sizes[0] *= x->sizes[i];
    if (x->ndim > 2)
        sizes[1] = x->sizes[x->ndim - 3];
    return td_reshape(x, 4, sizes);
}

/* softmax(query key^T scale + mask) value over the last two dimensions; scale is 1 / sqrt(features) if it isn't
 * given. A boolean mask is true where a key takes part, a floating point one is added. */
td_tensor *td_op_scaled_dot_product_attention(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask,
                                              double dropout,
                                              bool causal, const double *scale, bool gqa)
{
    if (check(query, key, value, mask, causal))
        return NULL;
    int n = query->ndim;
    double factor = scale ? *scale : 1 / sqrt((double)query->sizes[n - 1]);
    if (dropout == 0 && fused(query, key, value, mask, gqa)) {
        TD_AUTO td_tensor *q = as_four(query), *k = as_four(key), *v = as_four(value);
        td_tensor *results[2];
        if (!q || !k || !v || td_attention(results, q, k, v, mask, causal, factor))
            return NULL;
        td_tensor_release(results[1]);
        if (n == 4)
            return results[0];
        TD_AUTO td_tensor *lying = results[0], *out = td_contiguous(lying);
        if (!out)
            return NULL;
        int64_t sizes[TD_MAX_DIMS];
        for (int i = 0; i < n - 1; i++)
            sizes[i] = query->sizes[i];
        sizes[n - 1] = value->sizes[n - 1];
        return td_reshape(out, n, sizes);
    }
    int64_t times = 1, value_times = 1;
    if (gqa) {
        int64_t shared = n > 2 && key->ndim > 2 ? key->sizes[key->ndim - 3] : 0;
        int64_t shared_values = n > 2 && value->ndim > 2 ? value->sizes[value->ndim - 3] : 0;
        if (shared == 0 || query->sizes[n - 3] % shared || value->ndim != key->ndim || !shared_values || query->sizes[n - 3] % shared_values)
            return td_fail(TD_E_RUNTIME, "scaled_dot_product_attention: Number of heads in key and value must divide the number of heads in "
                           "query for enable_gqa=True");
        times = query->sizes[n - 3] / shared, value_times = query->sizes[n - 3] / shared_values;
    }
    /* Half types are computed in float32 throughout. */
    td_dtype type = (td_dtype)query->dtype, wide = type == TD_F16 || type == TD_BF16 ? TD_F32 : type;
    TD_AUTO td_tensor *q = converted(query, wide), *narrow_k = converted(key, wide), *narrow_v = converted(value, wide);
    TD_AUTO td_tensor *k = repeat_heads(narrow_k, times), *v = repeat_heads(narrow_v, value_times);
    TD_AUTO td_tensor *m = mask == TD_NONE || mask->dtype == TD_BOOL ? td_ref(mask) : converted(mask, wide);
    if (!q || !k || !v || !m)
        return NULL;
    TD_AUTO td_tensor *out = by_products(q, k, v, m, dropout, causal, factor);
    return converted(out, type);
}

/* ---- operators that PyTorch has for GPUs only ---------------------------------------------------------------------- */

/* These are registered for CUDA only in PyTorch, so a CPU tensor gets its dispatcher's error. */
static int not_here(const char *name, const td_tensor *x)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend.", name,
                    x->device.type == TD_META ? "Meta" : "CPU");
}

int td_op__flash_attention_forward(td_tensor **results, td_tensor *query, td_tensor *key, td_tensor *value,
                                   td_tensor *cum_seq_q, td_tensor *cum_seq_k, int64_t max_q, int64_t max_k,
                                   double dropout_p, bool is_causal, bool return_debug_mask, const double *scale,
                                   const int64_t *window_left, const int64_t *window_right, td_tensor *seqused_k,
                                   td_tensor *alibi_slopes)
{
    (void)results, (void)key, (void)value, (void)cum_seq_q, (void)cum_seq_k, (void)max_q, (void)max_k, (void)dropout_p;
    (void)is_causal, (void)return_debug_mask, (void)scale, (void)window_left, (void)window_right, (void)seqused_k;
    (void)alibi_slopes;
    return not_here("_flash_attention_forward", query);
}

int td_op__efficient_attention_forward(td_tensor **results, td_tensor *query, td_tensor *key, td_tensor *value,
                                       td_tensor *bias, td_tensor *cu_seqlens_q, td_tensor *cu_seqlens_k,
                                       const int64_t *max_seqlen_q, const int64_t *max_seqlen_k, double dropout_p,
                                       int64_t custom_mask_type, bool compute_log_sumexp, const double *scale,
                                       td_tensor *seqlen_k, const int64_t *window_size)
{
    (void)results, (void)key, (void)value, (void)bias, (void)cu_seqlens_q, (void)cu_seqlens_k, (void)max_seqlen_q;
    (void)max_seqlen_k, (void)dropout_p, (void)custom_mask_type, (void)compute_log_sumexp, (void)scale, (void)seqlen_k;
    (void)window_size;
    return not_here("_efficient_attention_forward", query);
}
