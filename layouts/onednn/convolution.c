/* Convolutions, their transposes, and linear layers, with gradients.
 *
 * Weights may be strided or of the layout; gradients come back in the layout of what they are the gradient of. Of weights in groups oneDNN's
 * description has a dimension more, the groups; mkldnn_reorder_conv2d_weight keeps weights in the order that a convolution wants. */
#include <stdlib.h>
#include <string.h>
#include <tede/autograd_nodes.h>
#include "mkldnn.h"

#define COUNT(rows) ((int)(sizeof rows / sizeof *rows))

typedef struct geometry {
    int     dims;                               /* of the images: 1 to 3 */
    bool    transposed;
    int64_t groups, stride[3], before[3], behind[3], dilation[3];        /* dilation - 1 */
    int64_t weight[DNNL_MAX_NDIMS];             /* [groups,] out, in, kernel */
    int     weight_ndim;
} geometry;

/* The descriptions from which a primitive chooses its orders. */
typedef struct orders { dnnl_memory_desc_t src, weight, bias, dst; } orders;
static void drop_orders(orders *o)
{
    mk_drop_md(&o->src), mk_drop_md(&o->weight), mk_drop_md(&o->bias), mk_drop_md(&o->dst);
}
#define AUTO_ORDERS __attribute__((cleanup(drop_orders)))

static td_dtype bias_dtype(td_dtype x, td_dtype bias) { return bias == TD_F32 ? TD_F32 : x; }

/* Where stride, padding and dilation are lists of as many numbers as there are dimensions. */
static int describe(const td_op *op, geometry *g, td_tensor *weight, const int64_t *in, const int64_t *out, const td_value *stride, const td_value *padding,
                    const td_value *dilation, bool transposed, int64_t groups)
{
    const int64_t *sizes = td_tensor_sizes(weight);
    const int ndim = td_tensor_ndim(weight);
    *g = (geometry){.dims = ndim - 2, .transposed = transposed, .groups = groups};
    if (g->dims < 1 || g->dims > 3)
        return td_error(TD_E_RUNTIME, "%s: images of one to three dimensions are expected", mk_name(op));
    if (mk_spread(op, stride, g->dims, NULL, g->stride) || mk_spread(op, padding, g->dims, NULL, g->before) ||
        mk_spread(op, dilation, g->dims, NULL, g->dilation))
        return -1;
    for (int d = 0; d < g->dims; d++) {
        const int64_t *from = transposed ? out : in, *to = transposed ? in : out;
        g->behind[d] = (to[d + 2] - 1) * g->stride[d] + (sizes[d + 2] - 1) * g->dilation[d] + 1 - from[d + 2] - g->before[d];
        g->dilation[d]--;
    }
    int at = 0;
    if (groups > 1)
        g->weight[at++] = groups;
    g->weight[at++] = transposed ? sizes[1] : sizes[0] / groups;
    g->weight[at++] = transposed ? sizes[0] / groups : sizes[1];
    for (int d = 2; d < ndim; d++)
        g->weight[at++] = sizes[d];
    g->weight_ndim = at;
    return 0;
}

/* The weight as oneDNN describes it. A strided one's memory is the tensor's own, if it is contiguous. */
static int weight_of(mk_memory *m, td_tensor *weight, const geometry *g)
{
    const mk_memory *own = mk_is(weight) ? td_tensor_fields(weight) : NULL;
    if (!g->transposed && own && (own->groups ? own->groups : 1) == g->groups)
        return mk_kept(m, weight);
    int64_t sizes[DNNL_MAX_NDIMS];
    memcpy(sizes, g->weight, sizeof sizes);
    const int first = g->groups > 1;
    if (!g->transposed)
        return mk_of_sizes(m, weight, g->weight_ndim, sizes);
    sizes[first] = g->weight[first + 1], sizes[first + 1] = g->weight[first];
    MK_AUTO mk_memory whole = {0};
    int order[DNNL_MAX_NDIMS];
    for (int d = 0; d < g->weight_ndim; d++)
        order[d] = d;
    order[first] = first + 1, order[first + 1] = first;
    if (mk_of_sizes(&whole, weight, g->weight_ndim, sizes) || mk_status("conv_transpose", dnnl_memory_desc_permute_axes(&m->desc, whole.desc, order)))
        return -1;
    m->bytes = td_tensor_retain(whole.bytes);
    return mk_status("conv_transpose", dnnl_memory_create(&m->memory, m->desc, dnnl_engine, td_tensor_data(m->bytes)));
}

static int choose(orders *o, const geometry *g, int64_t ndim, const int64_t *in, const int64_t *out, td_dtype dtype, bool bias, td_dtype of_bias)
{
    return mk_any(&o->src, ndim, in, dtype) || mk_any(&o->dst, ndim, out, dtype) || mk_any(&o->weight, g->weight_ndim, g->weight, dtype) ||
           (bias && mk_plain(&o->bias, 1, &out[1], of_bias))
               ? -1 : 0;
}

static int forward_pd(const char *op, dnnl_primitive_desc_t *pd, const geometry *g, const orders *o)
{
    return mk_status(op, (g->transposed ? dnnl_deconvolution_forward_primitive_desc_create : dnnl_convolution_forward_primitive_desc_create)(
                             pd, dnnl_engine, DNNL_FORWARD_TRAINING, g->transposed ? DNNL_DECONVOLUTION_DIRECT : DNNL_CONVOLUTION_DIRECT, o->src,
                             o->weight, o->bias, o->dst, g->stride, g->dilation, g->before, g->behind, NULL));
}

/* x in the order that pd wants. */
static int brought(mk_memory *m, td_tensor *x, dnnl_primitive_desc_t pd, int what)
{
    MK_AUTO mk_memory given = {0};
    return mk_of(&given, x) || mk_as(m, &given, mk_query(pd, what)) ? -1 : 0;
}

static int bias_of(mk_memory *m, td_tensor *bias, md want)
{
    MK_AUTO mk_memory given = {0};
    return bias ? mk_of(&given, bias) || mk_as(m, &given, want) ? -1 : 0 : 0;
}

static td_tensor *in_layout_of(mk_memory *m, td_tensor *like, int64_t ndim, const int64_t *sizes)
{
    return mk_is(like) ? mk_tensor(m, ndim, sizes, td_tensor_dtype(like)) : mk_strided(m, ndim, sizes, td_tensor_dtype(like));
}

static td_tensor *forward(const char *op, td_tensor *x, td_tensor *weight, td_tensor *bias, const geometry *g, const int64_t *out)
{
    const int ndim = td_tensor_ndim(x);
    const td_dtype dtype = td_tensor_dtype(x);
    AUTO_ORDERS orders o = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    MK_AUTO mk_memory src = {0}, own = {0}, w = {0}, b = {0}, dst = {0};
    if (!td_tensor_numel(x)) {          /* an empty batch */
        MK_AUTO_MD dnnl_memory_desc_t plain = NULL;
        return mk_plain(&plain, ndim, out, dtype) || mk_make(&dst, plain) ? NULL : in_layout_of(&dst, x, ndim, out);
    }
    if (choose(&o, g, ndim, td_tensor_sizes(x), out, dtype, bias, bias ? bias_dtype(dtype, td_tensor_dtype(bias)) : dtype) || forward_pd(op, &pd, g, &o) ||
        brought(&src, x, pd, DNNL_SRC_MD) || weight_of(&own, weight, g) || mk_as(&w, &own, mk_query(pd, DNNL_WEIGHTS_MD)) || bias_of(&b, bias, o.bias) ||
        mk_make(&dst, mk_query(pd, DNNL_DST_MD)) ||
        mk_run(op, pd, 4, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_WEIGHTS, w.memory}, {DNNL_ARG_BIAS, b.memory},
                                              {DNNL_ARG_DST, dst.memory}}))
        return NULL;
    return in_layout_of(&dst, x, ndim, out);
}

static td_tensor *input_gradient(const char *op, td_tensor *grad, td_tensor *x, td_tensor *weight, const geometry *g, const orders *o,
                                 dnnl_primitive_desc_t hint)
{
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    MK_AUTO mk_memory diff = {0}, own = {0}, w = {0}, out = {0};
    if (mk_status(op, (g->transposed ? dnnl_deconvolution_backward_data_primitive_desc_create : dnnl_convolution_backward_data_primitive_desc_create)(
                          &pd, dnnl_engine, g->transposed ? DNNL_DECONVOLUTION_DIRECT : DNNL_CONVOLUTION_DIRECT, o->src, o->weight, o->dst, g->stride,
                          g->dilation, g->before, g->behind, hint, NULL)) ||
        brought(&diff, grad, pd, DNNL_DIFF_DST_MD) || weight_of(&own, weight, g) || mk_as(&w, &own, mk_query(pd, DNNL_WEIGHTS_MD)) ||
        mk_make(&out, mk_query(pd, DNNL_DIFF_SRC_MD)) ||
        mk_run(op, pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_WEIGHTS, w.memory}, {DNNL_ARG_DIFF_SRC, out.memory}}))
        return NULL;
    return in_layout_of(&out, x, td_tensor_ndim(x), td_tensor_sizes(x));
}

/* Of the weight and, with a place for it, the bias. */
static int weight_gradient(const char *op, td_tensor *grad, td_tensor *x, td_tensor *weight, const geometry *g, const orders *o,
                           dnnl_primitive_desc_t hint, td_tensor **of_weight, td_tensor **of_bias)
{
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    MK_AUTO mk_memory diff = {0}, src = {0}, dw = {0}, db = {0}, to = {0};
    TD_AUTO td_tensor *made = NULL;
    if (mk_status(op, (g->transposed ? dnnl_deconvolution_backward_weights_primitive_desc_create : dnnl_convolution_backward_weights_primitive_desc_create)(
                          &pd, dnnl_engine, g->transposed ? DNNL_DECONVOLUTION_DIRECT : DNNL_CONVOLUTION_DIRECT, o->src, o->weight, o->bias, o->dst,
                          g->stride, g->dilation, g->before, g->behind, hint, NULL)) ||
        brought(&diff, grad, pd, DNNL_DIFF_DST_MD) || brought(&src, x, pd, DNNL_SRC_MD) || mk_make(&dw, mk_query(pd, DNNL_DIFF_WEIGHTS_MD)) ||
        (o->bias && mk_make(&db, o->bias)) ||
        mk_run(op, pd, 4, (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DIFF_WEIGHTS, dw.memory},
                                              {DNNL_ARG_DIFF_BIAS, db.memory}}))
        return -1;
    if (of_weight) {
        made = td_tensor_new(td_tensor_ndim(weight), td_tensor_sizes(weight), td_tensor_dtype(weight), TD_DEVICE_NONE);
        if (!made || weight_of(&to, made, g) || mk_write(&to, &dw))
            return -1;
        *of_weight = mk_is(weight) ? mk_from_strided(made) : td_tensor_retain(made);
        if (!*of_weight)
            return -1;
    }
    if (of_bias) {
        TD_AUTO td_tensor *b = mk_strided(&db, 1, &td_tensor_sizes(grad)[1], td_tensor_dtype(weight));
        *of_bias = b && mk_is(weight) ? mk_from_strided(b) : td_tensor_retain(b);
        if (!*of_bias)
            return -1;
    }
    return 0;
}

static int operands(const td_op *op, td_tensor *x, td_tensor *weight)
{
    if (td_tensor_layout(x) != TD_STRIDED && !mk_is(x))
        return td_error(TD_E_RUNTIME, "%s: an input of the mkldnn layout or a strided one is expected", mk_name(op));
    return mk_is(x) || !mk_is(weight) ? 0
           : td_error(TD_E_RUNTIME, "Input type (torch.%sTensor) and weight type (Mkldnntorch.%sTensor) should be the same or input should be a "
                      "MKLDNN tensor and weight is a dense tensor", td_dtype_title(td_tensor_dtype(x)), td_dtype_title(td_tensor_dtype(weight)));
}

/* convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
static MK_KERNEL(convolution)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor, *weight = arguments[1].tensor;
    geometry g;
    int ndim;
    int64_t out[TD_MAX_DIMS];
    if (operands(op, x, weight) || mk_sizes_of("aten::convolution", 9, arguments, &ndim, out) ||
        describe(op, &g, weight, td_tensor_sizes(x), out, &arguments[3], &arguments[4], &arguments[5], arguments[6].integer, arguments[8].integer))
        return -1;
    return mk_give(results, forward(mk_name(op), x, weight, mk_optional(&arguments[2]), &g, out));
}

/* convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask) */
static MK_KERNEL(convolution_backward)
{
    (void)keys, (void)context;
    td_tensor *grad = arguments[0].tensor, *x = arguments[1].tensor, *weight = arguments[2].tensor;
    const bool *mask = arguments[10].bools;
    const char *name = mk_name(op);
    geometry g;
    AUTO_ORDERS orders o = {0};
    MK_AUTO_PD dnnl_primitive_desc_t hint = NULL;
    td_tensor *made[3] = {TD_NONE, TD_NONE, TD_NONE};
    if (operands(op, x, weight) || td_tensor_ndim(grad) != td_tensor_ndim(x) ||
        describe(op, &g, weight, td_tensor_sizes(x), td_tensor_sizes(grad), &arguments[4], &arguments[5], &arguments[6], arguments[7].integer,
                 arguments[9].integer) ||
        choose(&o, &g, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_sizes(grad), td_tensor_dtype(x), mask[2],
               bias_dtype(td_tensor_dtype(x), td_tensor_dtype(weight))) ||
        forward_pd(name, &hint, &g, &o))
        return -1;
    int status = 0;
    if (mask[0])
        status = (made[0] = input_gradient(name, grad, x, weight, &g, &o, hint)) ? 0 : -1;
    if (status == 0 && (mask[1] || mask[2]))
        status = weight_gradient(name, grad, x, weight, &g, &o, hint, mask[1] ? &made[1] : NULL, mask[2] ? &made[2] : NULL);
    if (status) {
        for (int i = 0; i < 3; i++)
            td_tensor_release(made[i]);
        return -1;
    }
    return mk_give(&results[0], made[0]) || mk_give(&results[1], made[1]) || mk_give(&results[2], made[2]) ? -1 : 0;
}

/* mkldnn_convolution(self, weight, bias, padding, stride, dilation, groups): of strided operands, too. */
static MK_KERNEL(mkldnn_convolution)
{
    static const int64_t none[3];
    td_value all[9] = {arguments[0], arguments[1], arguments[2], arguments[4], arguments[3], arguments[5], {.kind = TD_VALUE_BOOL},
                       {.kind = TD_VALUE_INTS, .ints = none}, arguments[6]};
    all[7].count = td_tensor_ndim(arguments[1].tensor) > 2 && td_tensor_ndim(arguments[1].tensor) < 6 ? td_tensor_ndim(arguments[1].tensor) - 2 : 0;
    return dnnl_open() ? -1 : convolution(op, keys, all, results, context);
}
typedef struct saved_convolution { int n; int64_t padding[3], stride[3], dilation[3], groups; bool bias; } saved_convolution;
static int convolution_setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context, (void)results;
    const td_op *op = td_op_find("aten::mkldnn_convolution");
    saved_convolution *s = *state = calloc(1, sizeof *s);
    if (!s)
        return td_error(TD_E_MEMORY, "%s: no memory for its backward pass", mk_name(op));
    s->n = td_tensor_ndim(arguments[1].tensor) - 2;
    s->groups = arguments[6].integer;
    s->bias = mk_optional(&arguments[2]);
    return mk_spread(op, &arguments[3], s->n, NULL, s->padding) || mk_spread(op, &arguments[4], s->n, NULL, s->stride) ||
           mk_spread(op, &arguments[5], s->n, NULL, s->dilation) ||
           td_custom_save(node, 2, (td_tensor *[]){arguments[0].tensor, arguments[1].tensor}, 0, NULL)
               ? -1 : 0;
}
static int convolution_gradient(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)n_grads, (void)n_results;
    const saved_convolution *s = state;
    static const int64_t none[3];
    const bool wants[3] = {td_custom_needs(node, 0), td_custom_needs(node, 1), s->bias && td_custom_needs(node, 2)};
    TD_AUTO td_tensor *x = td_node_saved_tensor(node, 0), *weight = td_node_saved_tensor(node, 1);
    return !x || !weight ? -1
           : td_convolution_backward(results, grads[0], x, weight, -1, NULL, s->n, s->stride, s->n, s->padding, s->n, s->dilation, false, s->n, none,
                                     s->groups, 3, wants);
}
static const td_op_gradient mkldnn_gradient = {convolution_setup, convolution_gradient, free};

/* mkldnn_reorder_conv2d_weight(self, padding, stride, dilation, groups, input_size): the weight in the order that a convolution of images of
 * that size, or of middling ones, wants. */
static MK_KERNEL(reorder_weight)
{
    (void)keys, (void)context;
    td_tensor *weight = arguments[0].tensor;
    const int ndim = td_tensor_ndim(weight), dims = *(const int *)context;
    const int64_t groups = arguments[4].integer, *sizes = td_tensor_sizes(weight);
    geometry g;
    int64_t in[5], out[5], padding[3], stride[3], dilation[3];
    if (!mk_is(weight))
        return td_error(TD_E_RUNTIME, "%s: a weight of the mkldnn layout is expected", mk_name(op));
    if (ndim == dims + 3)               /* one with groups as a dimension, from an old file */
        return mk_give(results, td_tensor_alias(weight, false));
    if (ndim != dims + 2 || groups < 1 || sizes[0] % groups)
        return td_error(TD_E_RUNTIME, "%s: a weight of %d dimensions, and a number of groups that divides its rows, are expected", mk_name(op), dims + 2);
    if (mk_spread(op, &arguments[1], dims, NULL, padding) || mk_spread(op, &arguments[2], dims, NULL, stride) ||
        mk_spread(op, &arguments[3], dims, NULL, dilation))
        return -1;
    const bool given = arguments[5].kind == TD_VALUE_INTS && arguments[5].count == ndim;
    in[0] = given ? arguments[5].ints[0] : 1, in[1] = sizes[1] * groups, out[0] = in[0], out[1] = sizes[0];
    for (int d = 0; d < dims; d++) {
        const int64_t reach = (sizes[d + 2] - 1) * dilation[d] + 1;
        in[d + 2] = given ? arguments[5].ints[d + 2] : 14 * sizes[d + 2];
        if (stride[d] < 1 || dilation[d] < 1 || padding[d] < 0 || in[d + 2] + 2 * padding[d] < reach)
            return td_error(TD_E_RUNTIME, "%s: no image of such a size, stride, padding and dilation has a window", mk_name(op));
        out[d + 2] = (in[d + 2] + 2 * padding[d] - reach) / stride[d] + 1;
    }
    AUTO_ORDERS orders o = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    MK_AUTO mk_memory own = {0}, w = {0};
    if (describe(op, &g, weight, in, out, &arguments[2], &arguments[1], &arguments[3], false, groups) ||
        choose(&o, &g, ndim, in, out, td_tensor_dtype(weight), false, TD_F32) || forward_pd(mk_name(op), &pd, &g, &o) || weight_of(&own, weight, &g) ||
        mk_as(&w, &own, mk_query(pd, DNNL_WEIGHTS_MD)))
        return -1;
    w.groups = groups > 1 ? groups : 0;
    return mk_give(results, mk_tensor(&w, ndim, sizes, td_tensor_dtype(weight)));
}

/* ---- linear: rows of x times rows of the weight */

typedef struct rows { int64_t x[2], y[2]; } rows;

static int rows_of(const td_op *op, rows *r, td_tensor *x, td_tensor *weight)
{
    const int ndim = td_tensor_ndim(x);
    if (!mk_is(x))
        return td_error(TD_E_RUNTIME, "%s: of its operands the input must be of the mkldnn layout", mk_name(op));
    if (td_tensor_ndim(weight) != 2 || td_tensor_sizes(x)[ndim - 1] != td_tensor_sizes(weight)[1])
        return td_error(TD_E_RUNTIME, "%s: mat1 and mat2 shapes cannot be multiplied: the weight must have two dimensions, and rows of %lld elements",
                        mk_name(op), (long long)td_tensor_sizes(x)[ndim - 1]);
    r->x[0] = 1;
    for (int d = 0; d < ndim - 1; d++)
        r->x[0] *= td_tensor_sizes(x)[d];
    r->x[1] = td_tensor_sizes(weight)[1];
    r->y[0] = r->x[0], r->y[1] = td_tensor_sizes(weight)[0];
    return 0;
}

static int linear_orders(orders *o, const rows *r, td_tensor *weight, td_dtype dtype, bool bias, td_dtype of_bias)
{
    return mk_plain(&o->src, 2, r->x, dtype) || mk_plain(&o->dst, 2, r->y, dtype) || mk_any(&o->weight, 2, td_tensor_sizes(weight), dtype) ||
           (bias && mk_plain(&o->bias, 1, &r->y[1], of_bias))
               ? -1 : 0;
}
static int linear_pd(const char *op, dnnl_primitive_desc_t *pd, const orders *o)
{
    return mk_status(op, dnnl_inner_product_forward_primitive_desc_create(pd, dnnl_engine, DNNL_FORWARD_TRAINING, o->src, o->weight, o->bias, o->dst, NULL));
}

/* x's rows in x's dtype; a gradient in another one is converted. */
static int matrix(mk_memory *m, td_tensor *x, const int64_t *sizes, md want)
{
    MK_AUTO mk_memory given = {0};
    return mk_of_sizes(&given, x, 2, sizes) || mk_as(m, &given, want) ? -1 : 0;
}

static MK_KERNEL(linear)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor, *weight = arguments[1].tensor, *bias = mk_optional(&arguments[2]);
    const td_dtype dtype = td_tensor_dtype(x);
    const int ndim = td_tensor_ndim(x);
    rows r;
    int64_t sizes[TD_MAX_DIMS];
    AUTO_ORDERS orders o = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    MK_AUTO mk_memory src = {0}, w = {0}, b = {0}, dst = {0};
    if (rows_of(op, &r, x, weight))
        return -1;
    if (bias && (td_tensor_ndim(bias) != 1 || td_tensor_sizes(bias)[0] != r.y[1]))
        return td_error(TD_E_RUNTIME, "%s: the bias must be a vector of %lld elements, one for each row of the weight", mk_name(op), (long long)r.y[1]);
    for (int d = 0; d < ndim; d++)
        sizes[d] = d < ndim - 1 ? td_tensor_sizes(x)[d] : r.y[1];
    if (linear_orders(&o, &r, weight, dtype, bias, bias ? bias_dtype(dtype, td_tensor_dtype(bias)) : dtype) || linear_pd(mk_name(op), &pd, &o) ||
        matrix(&src, x, r.x, o.src) || brought(&w, weight, pd, DNNL_WEIGHTS_MD) || bias_of(&b, bias, o.bias) || mk_make(&dst, o.dst) ||
        mk_run(mk_name(op), pd, 4, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_WEIGHTS, w.memory}, {DNNL_ARG_BIAS, b.memory},
                                                       {DNNL_ARG_DST, dst.memory}}))
        return -1;
    MK_AUTO mk_memory shaped = {0};
    if (mk_plain(&shaped.desc, ndim, sizes, dtype))
        return -1;
    shaped.bytes = td_tensor_retain(dst.bytes);
    return mk_give(results, mk_tensor(&shaped, ndim, sizes, dtype));
}

/* linear_backward(input, grad, weight, mask) */
static MK_KERNEL(linear_backward)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor, *grad = arguments[1].tensor, *weight = arguments[2].tensor;
    const bool *mask = arguments[3].bools;
    const char *name = mk_name(op);
    const td_dtype dtype = td_tensor_dtype(x);
    rows r;
    AUTO_ORDERS orders o = {0};
    MK_AUTO_PD dnnl_primitive_desc_t hint = NULL;
    td_tensor *made[3] = {TD_NONE, TD_NONE, TD_NONE};
    MK_AUTO mk_memory diff = {0};
    if (rows_of(op, &r, x, weight) || linear_orders(&o, &r, weight, dtype, mask[2], bias_dtype(dtype, td_tensor_dtype(weight))) ||
        linear_pd(name, &hint, &o) || matrix(&diff, grad, r.y, o.dst))
        return -1;
    int status = 0;
    if (mask[0]) {
        MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
        MK_AUTO mk_memory w = {0}, out = {0}, shaped = {0};
        status = mk_status(name, dnnl_inner_product_backward_data_primitive_desc_create(&pd, dnnl_engine, o.src, o.weight, o.dst, hint, NULL)) ||
                 brought(&w, weight, pd, DNNL_WEIGHTS_MD) || mk_make(&out, o.src) ||
                 mk_run(name, pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_WEIGHTS, w.memory},
                                                         {DNNL_ARG_DIFF_SRC, out.memory}}) ||
                 mk_plain(&shaped.desc, td_tensor_ndim(x), td_tensor_sizes(x), dtype);
        shaped.bytes = status ? NULL : td_tensor_retain(out.bytes);
        if (status == 0)
            status = (made[0] = mk_tensor(&shaped, td_tensor_ndim(x), td_tensor_sizes(x), dtype)) ? 0 : -1;
    }
    if (status == 0 && (mask[1] || mask[2])) {
        MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
        MK_AUTO mk_memory src = {0}, dw = {0}, db = {0};
        status = mk_status(name, dnnl_inner_product_backward_weights_primitive_desc_create(&pd, dnnl_engine, o.src, o.weight, o.bias, o.dst, hint, NULL)) ||
                 matrix(&src, x, r.x, o.src) || mk_make(&dw, mk_query(pd, DNNL_DIFF_WEIGHTS_MD)) || (o.bias && mk_make(&db, o.bias)) ||
                 mk_run(name, pd, 4, (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DIFF_WEIGHTS, dw.memory},
                                                         {DNNL_ARG_DIFF_BIAS, db.memory}});
        if (status == 0 && mask[1])
            status = (made[1] = in_layout_of(&dw, weight, 2, td_tensor_sizes(weight))) ? 0 : -1;
        if (status == 0 && mask[2])
            status = (made[2] = in_layout_of(&db, weight, 1, &r.y[1])) ? 0 : -1;
    }
    if (status) {
        for (int i = 0; i < 3; i++)
            td_tensor_release(made[i]);
        return -1;
    }
    return mk_give(&results[0], made[0]) || mk_give(&results[1], made[1]) || mk_give(&results[2], made[2]) ? -1 : 0;
}

/* mkldnn_linear: linear of an input of the layout, with its gradient. */
static MK_KERNEL(mkldnn_linear)
{
    (void)keys, (void)context;
    if (!mk_is(arguments[0].tensor))
        return td_error(TD_E_RUNTIME, "%s: input needs to be mkldnn layout", mk_name(op));
    return mk_give(results, td_linear(arguments[0].tensor, arguments[1].tensor, arguments[2].kind == TD_VALUE_TENSOR ? arguments[2].tensor : TD_NONE));
}

int mk_register_convolution(void)
{
    static const int two = 2, three = 3;
    static const mk_row rows[] = {
        {"aten::convolution", convolution, NULL}, {"aten::convolution_backward", convolution_backward, NULL}, {"aten::linear", linear, NULL},
        {"aten::linear_backward", linear_backward, NULL},
    };
    return mk_register(rows, COUNT(rows)) ||
           !td_op_define("aten::mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, int[] padding, int[] stride, int[] dilation, int groups) -> Tensor") ||
           td_register_default("aten::mkldnn_convolution", mkldnn_convolution, NULL) ||
           td_register_gradient("aten::mkldnn_convolution", &mkldnn_gradient, NULL) ||
           !td_op_define("aten::mkldnn_linear(Tensor self, Tensor weight, Tensor? bias=None) -> Tensor") ||
           td_register_default("aten::mkldnn_linear", mkldnn_linear, NULL) ||
           !td_op_define("aten::mkldnn_reorder_conv2d_weight(Tensor self, int[2] padding=0, int[2] stride=1, int[2] dilation=1, int groups=1, int[]? input_size=None) -> Tensor") ||
           td_register_default("aten::mkldnn_reorder_conv2d_weight", reorder_weight, (void *)&two) ||
           !td_op_define("aten::mkldnn_reorder_conv3d_weight(Tensor self, int[3] padding=0, int[3] stride=1, int[3] dilation=1, int groups=1, int[]? input_size=None) -> Tensor") ||
           td_register_default("aten::mkldnn_reorder_conv3d_weight", reorder_weight, (void *)&three)
               ? -1 : 0;
}
