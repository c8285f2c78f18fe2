/* Pooling over two or three dimensions.
 *
 * max_pool2d and adaptive_avg_pool2d are made of others elsewhere; here they go by operators of the layout's own, whose backward
 * passes pool once more: oneDNN's note of where the largest elements were belongs to that run. */
#include <stdlib.h>
#include "mkldnn.h"
#include <tede/autograd_nodes.h>

#define COUNT(rows) ((int)(sizeof rows / sizeof *rows))

typedef struct window {
    int     dims, algorithm;
    int64_t kernel[3], stride[3], before[3], behind[3];
} window;
static const int64_t no_dilation[3], zeros[3], ones[3] = {1, 1, 1};

/* Padding behind is what makes the last window end there. */
static void end_windows(window *w, const int64_t *in, const int64_t *out)
{
    for (int d = 0; d < w->dims; d++)
        w->behind[d] = (out[d] - 1) * w->stride[d] + w->kernel[d] - in[d] - w->before[d];
}

static td_tensor *forward(const char *op, td_tensor *x, const window *w, const int64_t *sizes)
{
    const int ndim = td_tensor_ndim(x);
    MK_AUTO mk_memory src = {0}, dst = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    MK_AUTO_MD dnnl_memory_desc_t any = NULL;
    if (mk_of(&src, x) || mk_any(&any, ndim, sizes, td_tensor_dtype(x)) ||
        mk_status(op, dnnl_pooling_forward_primitive_desc_create(&pd, dnnl_engine, DNNL_FORWARD_INFERENCE, w->algorithm, src.desc, any, w->stride,
                                                                 w->kernel, no_dilation, w->before, w->behind, NULL)) ||
        mk_make(&dst, mk_query(pd, DNNL_DST_MD)) ||
        mk_run(op, pd, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DST, dst.memory}}))
        return NULL;
    return mk_tensor(&dst, ndim, sizes, td_tensor_dtype(x));
}

static td_tensor *backward(const char *op, td_tensor *grad, td_tensor *x, const window *w)
{
    MK_AUTO mk_memory src = {0}, given = {0}, diff = {0}, dst = {0}, workspace = {0}, out = {0};
    MK_AUTO_PD dnnl_primitive_desc_t again = NULL, pd = NULL;
    MK_AUTO_MD dnnl_memory_desc_t any = NULL;
    if (mk_of(&src, x) || mk_of(&given, grad) || mk_any(&any, td_tensor_ndim(grad), td_tensor_sizes(grad), td_tensor_dtype(x)) ||
        mk_status(op, dnnl_pooling_forward_primitive_desc_create(&again, dnnl_engine, DNNL_FORWARD_TRAINING, w->algorithm, src.desc, any, w->stride,
                                                                 w->kernel, no_dilation, w->before, w->behind, NULL)))
        return NULL;
    md order = mk_query(again, DNNL_DST_MD);
    if (mk_as(&diff, &given, order))
        return NULL;
    if (w->algorithm == DNNL_POOL_MAX &&
        (mk_make(&dst, order) || mk_make(&workspace, mk_query(again, DNNL_WORKSPACE_MD)) ||
         mk_run(op, again, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DST, dst.memory}, {DNNL_ARG_WORKSPACE, workspace.memory}})))
        return NULL;
    if (mk_status(op, dnnl_pooling_backward_primitive_desc_create(&pd, dnnl_engine, w->algorithm, src.desc, order, w->stride, w->kernel, no_dilation,
                                                                  w->before, w->behind, again, NULL)) ||
        mk_make(&out, mk_query(pd, DNNL_DIFF_SRC_MD)) ||
        mk_run(op, pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_DIFF_SRC, out.memory},
                                              {DNNL_ARG_WORKSPACE, workspace.memory}}))
        return NULL;
    return mk_tensor(&out, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x));
}

/* Kernel, stride and padding of the arguments from `at` on; and the sizes of the result, from the operator on strided tensors. */
static int describe(const td_op *op, const char *strided, int n, const td_value *arguments, int at, td_tensor *x, window *w, int64_t *sizes)
{
    int ndim;
    td_value spread[8];
    const int64_t *const lists[] = {w->kernel, w->stride, w->before};
    if (!mk_is(x) || td_tensor_ndim(x) != w->dims + 2)
        return td_error(TD_E_RUNTIME, "%s: a batch of images of the mkldnn layout, with %d dimensions, is expected", mk_name(op), w->dims + 2);
    if (mk_spread(op, &arguments[at], w->dims, NULL, w->kernel) || mk_spread(op, &arguments[at + 1], w->dims, w->kernel, w->stride) ||
        mk_spread(op, &arguments[at + 2], w->dims, zeros, w->before))
        return -1;
    for (int i = 0; i < n; i++) {
        spread[i] = arguments[i];
        if (i >= at && i < at + 3)
            spread[i] = (td_value){.kind = TD_VALUE_INTS, .count = w->dims, .ints = lists[i - at]};
    }
    if (n == 6)                         /* max_pool's dilation */
        spread[4] = (td_value){.kind = TD_VALUE_INTS, .count = w->dims, .ints = ones};
    if (mk_sizes_of(strided, n, spread, &ndim, sizes))
        return -1;
    end_windows(w, td_tensor_sizes(x) + 2, sizes + 2);
    return 0;
}

typedef struct pooling { int dims; const char *composite, *own; } pooling;
static const pooling max2 = {2, "aten::max_pool2d", "aten::mkldnn_max_pool2d"}, max3 = {3, "aten::max_pool3d", "aten::mkldnn_max_pool3d"},
                     adaptive = {2, "aten::adaptive_avg_pool2d", "aten::mkldnn_adaptive_avg_pool2d"}, average2 = {2, "aten::avg_pool2d", NULL},
                     average3 = {3, "aten::avg_pool3d", NULL};

static MK_KERNEL(composite)
{
    (void)op, (void)keys;
    return td_op_call(td_op_find(((const pooling *)context)->own), arguments, results);
}

static int max_window(const td_op *op, const pooling *p, const td_value *arguments, window *w, int64_t *sizes)
{
    int64_t dilation[3];
    *w = (window){.dims = p->dims, .algorithm = DNNL_POOL_MAX};
    if (mk_spread(op, &arguments[4], p->dims, ones, dilation))
        return -1;
    for (int d = 0; d < p->dims; d++)
        if (dilation[d] != 1)
            return td_error(TD_E_RUNTIME, "mkldnn_max_pool%dd does not support dilation case", p->dims);
    return describe(op, p->composite, 6, arguments, 1, arguments[0].tensor, w, sizes);
}

static int adaptive_window(const td_op *op, const pooling *p, const td_value *arguments, window *w, int64_t *sizes)
{
    td_tensor *x = arguments[0].tensor;
    int ndim;
    *w = (window){.dims = p->dims, .algorithm = DNNL_POOL_AVERAGE};
    if (!mk_is(x) || td_tensor_ndim(x) != p->dims + 2)
        return td_error(TD_E_RUNTIME, "%s: a batch of images of the mkldnn layout, with %d dimensions, is expected", mk_name(op), p->dims + 2);
    if (mk_sizes_of(p->composite, 2, arguments, &ndim, sizes))
        return -1;
    for (int d = 0; d < p->dims; d++) {
        const int64_t in = td_tensor_sizes(x)[d + 2], out = sizes[d + 2];
        if (out <= 0 || in % out)
            return td_error(TD_E_RUNTIME, "input size is not divisible by the output size is not supported yet");
        w->kernel[d] = w->stride[d] = in / out;
    }
    return 0;
}

static int own_window(const td_op *op, const pooling *p, const td_value *arguments, window *w, int64_t *sizes)
{
    return p == &adaptive ? adaptive_window(op, p, arguments, w, sizes) : max_window(op, p, arguments, w, sizes);
}

static MK_KERNEL(pool)
{
    (void)keys;
    window w;
    int64_t sizes[TD_MAX_DIMS];
    return own_window(op, context, arguments, &w, sizes) ? -1 : mk_give(results, forward(mk_name(op), arguments[0].tensor, &w, sizes));
}
/* The state is the window. */
static int setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)results;
    const pooling *p = context;
    int64_t sizes[TD_MAX_DIMS];
    window *w = *state = malloc(sizeof *w);
    if (!w)
        return td_error(TD_E_MEMORY, "%s: no memory for its backward pass", p->own);
    return own_window(td_op_find(p->own), p, arguments, w, sizes) || td_custom_save(node, 1, &arguments[0].tensor, 0, NULL) ? -1 : 0;
}
static int pool_backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)n_grads, (void)n_results;
    TD_AUTO td_tensor *x = td_node_saved_tensor(node, 0);
    results[0] = x ? backward(((const pooling *)context)->own, grads[0], x, state) : NULL;
    return results[0] ? 0 : -1;
}
static const td_op_gradient gradient = {setup, pool_backward, free};

/* avg_pool2d(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static int average_window(const td_op *op, const pooling *p, const td_value *arguments, int at, window *w, int64_t *sizes)
{
    *w = (window){.dims = p->dims, .algorithm = arguments[at + 4].integer ? DNNL_POOL_AVERAGE_PADDED : DNNL_POOL_AVERAGE};
    if (arguments[at + 5].kind != TD_VALUE_NONE)
        return td_error(TD_E_RUNTIME, "mkldnn_avg_pool%dd operator does not support divisor", p->dims);
    td_value forward[7];
    forward[0] = arguments[at - 1];
    for (int i = 1; i < 7; i++)
        forward[i] = arguments[at + i - 1];
    return describe(op, p->composite, 7, forward, 1, forward[0].tensor, w, sizes);
}
static MK_KERNEL(average)
{
    (void)keys;
    window w;
    int64_t sizes[TD_MAX_DIMS];
    return average_window(op, context, arguments, 1, &w, sizes) ? -1 : mk_give(results, forward(mk_name(op), arguments[0].tensor, &w, sizes));
}
static MK_KERNEL(average_backward)
{
    (void)keys;
    window w;
    int64_t sizes[TD_MAX_DIMS];
    return average_window(op, context, arguments, 2, &w, sizes) ? -1
           : mk_give(results, backward(mk_name(op), arguments[0].tensor, arguments[1].tensor, &w));
}

static int define(const char *schema, const pooling *p)
{
    return !td_op_define(schema) || td_register_default(p->own, pool, (void *)p) || td_register_gradient(p->own, &gradient, (void *)p) ? -1 : 0;
}

int mk_register_pool(void)
{
    static const mk_row rows[] = {
        {"aten::max_pool2d", composite, &max2}, {"aten::max_pool3d", composite, &max3}, {"aten::adaptive_avg_pool2d", composite, &adaptive},
        {"aten::avg_pool2d", average, &average2}, {"aten::avg_pool3d", average, &average3},
        {"aten::avg_pool2d_backward", average_backward, &average2}, {"aten::avg_pool3d_backward", average_backward, &average3},
    };
    return mk_register(rows, COUNT(rows)) ||
           define("aten::mkldnn_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor", &max2) ||
           define("aten::mkldnn_max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor", &max3) ||
           define("aten::mkldnn_adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor", &adaptive)
               ? -1 : 0;
}
