/* Functions of elements, sums and products of two tensors, softmax, PReLU and batch normalisation. */
#include <math.h>
#include <string.h>
#include <tede/autograd_nodes.h>
#include "mkldnn.h"

#define COUNT(rows) ((int)(sizeof rows / sizeof *rows))

/* By their own values, or by their results where the number is above 255. */
typedef struct algorithm { int forward, backward; } algorithm;

static td_tensor *like(mk_memory *m, const td_tensor *x) { return mk_tensor(m, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x)); }

/* ---- functions of one tensor */

static td_tensor *function_of(const char *op, td_tensor *x, int algorithm, double alpha, double beta)
{
    MK_AUTO mk_memory src = {0}, dst = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (mk_of(&src, x) || mk_make(&dst, src.desc))
        return NULL;
    if (td_tensor_numel(x) &&
        (mk_status(op, dnnl_eltwise_forward_primitive_desc_create(&pd, dnnl_engine, DNNL_FORWARD_TRAINING, algorithm, src.desc, src.desc,
                                                                  (float)alpha, (float)beta, NULL)) ||
         mk_run(op, pd, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DST, dst.memory}})))
        return NULL;
    return like(&dst, x);
}

static int gelu_checked(const td_op *op, const td_value *arguments)
{
    for (int i = 0; i < td_op_describe(op)->n_arguments; i++)
        if (arguments[i].kind == TD_VALUE_STRING && strcmp(arguments[i].string, "none"))
            return td_error(TD_E_RUNTIME, "mkldnn_%s: fast, approximate gelu is not supported", mk_name(op));
    return 0;
}

static MK_KERNEL(eltwise)
{
    (void)keys;
    const algorithm *a = context;
    return gelu_checked(op, arguments) ? -1 : mk_give(results, function_of(mk_name(op), arguments[0].tensor, a->forward, 0, 0));
}

static MK_KERNEL(neg)
{
    (void)keys, (void)context;
    return mk_give(results, function_of(mk_name(op), arguments[0].tensor, DNNL_LINEAR, -1, 0));
}

/* threshold_backward(grad, result, 0), gelu_backward(grad, x), and those of sigmoid and tanh, by their results. */
static MK_KERNEL(eltwise_backward)
{
    (void)keys;
    const algorithm *a = context;
    td_tensor *grad = arguments[0].tensor, *x = arguments[1].tensor;
    MK_AUTO mk_memory given = {0}, diff = {0}, data = {0}, out = {0};
    MK_AUTO_PD dnnl_primitive_desc_t forward = NULL, pd = NULL;
    if (gelu_checked(op, arguments))
        return -1;
    for (int i = 0; i < td_op_describe(op)->n_arguments; i++)
        if (arguments[i].kind == TD_VALUE_SCALAR && td_scalar_double(arguments[i].scalar) != 0)
            return td_error(TD_E_RUNTIME, "%s: a threshold other than 0 isn't supported for the mkldnn layout", mk_name(op));
    if (mk_of(&data, x) || mk_of(&given, grad) || mk_as(&diff, &given, data.desc) || mk_make(&out, data.desc))
        return -1;
    if (td_tensor_numel(x) &&
        (mk_status(mk_name(op), dnnl_eltwise_forward_primitive_desc_create(&forward, dnnl_engine, DNNL_FORWARD_TRAINING, a->forward, data.desc,
                                                                           data.desc, 0, 0, NULL)) ||
         mk_status(mk_name(op), dnnl_eltwise_backward_primitive_desc_create(&pd, dnnl_engine, a->backward, data.desc, data.desc, data.desc, 0, 0,
                                                                            forward, NULL)) ||
         mk_run(mk_name(op), pd, 3, (dnnl_exec_arg_t[]){{a->backward > 0xff ? DNNL_ARG_DST : DNNL_ARG_SRC, data.memory},
                                                        {DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_DIFF_SRC, out.memory}})))
        return -1;
    return mk_give(results, like(&out, x));
}

/* ---- sums and products */

/* A number that stands for a tensor. */
static bool is_number(td_tensor *x, double *value)
{
    td_scalar s;
    if (mk_is(x) || td_tensor_layout(x) != TD_STRIDED || td_tensor_ndim(x) || td_tensor_item(x, &s))
        return false;
    *value = td_scalar_double(s);
    return true;
}

static int both(const td_op *op, td_tensor *a, td_tensor *b)
{
    return mk_is(a) && mk_is(b) ? 0
           : td_error(TD_E_RUNTIME, "%s: an operand of the mkldnn layout takes another one, or a number; use to_mkldnn() or to_dense()", mk_name(op));
}

/* Of other sizes, or with a result without elements: as many ones come before the sizes of the smaller. */
static td_tensor *broadcast(const td_op *op, td_tensor *a, td_tensor *b, int algorithm)
{
    int64_t sizes[TD_MAX_DIMS], own[2][DNNL_MAX_NDIMS];
    td_tensor *given[] = {a, b};
    const int ndim = td_broadcast_shape(mk_name(op), 2, given, sizes);
    MK_AUTO mk_memory first = {0}, second = {0}, dst = {0};
    mk_memory *src[] = {&first, &second};
    MK_AUTO_MD dnnl_memory_desc_t plain = NULL;
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (ndim < 0 || mk_plain(&plain, ndim, sizes, td_tensor_dtype(a)) || mk_make(&dst, plain))
        return NULL;
    int64_t numel = 1;
    for (int d = 0; d < ndim; d++)
        numel *= sizes[d];
    int status = 0;
    for (int i = 0; i < 2 && numel && status == 0; i++) {
        const int gap = ndim - td_tensor_ndim(given[i]);
        for (int d = 0; d < ndim; d++)
            own[i][d] = d < gap ? 1 : td_tensor_sizes(given[i])[d - gap];
        status = mk_of_sizes(src[i], given[i], ndim, own[i]);
    }
    if (numel && memcmp(own[0], sizes, sizeof *sizes * (size_t)ndim))            /* the one that has all elements comes first, if one has */
        src[0] = &second, src[1] = &first;
    if (status == 0 && numel)
        status = mk_status(mk_name(op), dnnl_binary_primitive_desc_create(&pd, dnnl_engine, algorithm, src[0]->desc, src[1]->desc, dst.desc,
                                                                          NULL)) ||
                 mk_run(mk_name(op), pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src[0]->memory}, {DNNL_ARG_SRC_1, src[1]->memory},
                                                                {DNNL_ARG_DST, dst.memory}});
    return status ? NULL : mk_tensor(&dst, ndim, sizes, td_tensor_dtype(a));
}

static bool same(const td_tensor *a, const td_tensor *b)
{
    return td_tensor_numel(a) && td_tensor_dtype(a) == td_tensor_dtype(b) && td_tensor_ndim(a) == td_tensor_ndim(b) &&
           !memcmp(td_tensor_sizes(a), td_tensor_sizes(b), sizeof(int64_t) * (size_t)td_tensor_ndim(a));
}

/* add(a, b, alpha), and sub(a, b, alpha) */
static MK_KERNEL(add)
{
    (void)keys;
    td_tensor *a = arguments[0].tensor, *b = arguments[1].tensor;
    const double alpha = td_scalar_double(arguments[2].scalar) * *(const int *)context;
    double number;
    if (is_number(b, &number))
        return mk_give(results, function_of(mk_name(op), a, DNNL_LINEAR, 1, alpha * number));
    if (is_number(a, &number))
        return mk_give(results, function_of(mk_name(op), b, DNNL_LINEAR, alpha, number));
    if (both(op, a, b))
        return -1;
    if (!same(a, b)) {
        TD_AUTO td_tensor *scaled = alpha == 1 ? td_tensor_retain(b) : function_of(mk_name(op), b, DNNL_LINEAR, alpha, 0);
        return mk_give(results, scaled ? broadcast(op, a, scaled, DNNL_ADD) : NULL);
    }
    MK_AUTO mk_memory x = {0}, y = {0}, dst = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (mk_of(&x, a) || mk_of(&y, b) || mk_make(&dst, x.desc) ||
        mk_status(mk_name(op), dnnl_sum_primitive_desc_create(&pd, dnnl_engine, dst.desc, 2, (float[]){1, (float)alpha}, (md[]){x.desc, y.desc}, NULL)) ||
        mk_run(mk_name(op), pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_MULTIPLE_SRC, x.memory}, {DNNL_ARG_MULTIPLE_SRC + 1, y.memory},
                                                       {DNNL_ARG_DST, dst.memory}}))
        return -1;
    return mk_give(results, like(&dst, a));
}

static MK_KERNEL(mul)
{
    (void)keys, (void)context;
    td_tensor *a = arguments[0].tensor, *b = arguments[1].tensor;
    double number;
    if (is_number(b, &number))
        return mk_give(results, function_of(mk_name(op), a, DNNL_LINEAR, number, 0));
    if (is_number(a, &number))
        return mk_give(results, function_of(mk_name(op), b, DNNL_LINEAR, number, 0));
    if (both(op, a, b))
        return -1;
    if (!same(a, b))
        return mk_give(results, broadcast(op, a, b, DNNL_MUL));
    MK_AUTO mk_memory x = {0}, given = {0}, y = {0}, dst = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (mk_of(&x, a) || mk_of(&given, b) || mk_as(&y, &given, x.desc) || mk_make(&dst, x.desc) ||
        mk_status(mk_name(op), dnnl_binary_primitive_desc_create(&pd, dnnl_engine, DNNL_MUL, x.desc, y.desc, dst.desc, NULL)) ||
        mk_run(mk_name(op), pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, x.memory}, {DNNL_ARG_SRC_1, y.memory}, {DNNL_ARG_DST, dst.memory}}))
        return -1;
    return mk_give(results, like(&dst, a));
}

/* ---- softmax */

static int axis_of(const td_op *op, const td_tensor *x, int64_t dim)
{
    const int ndim = td_tensor_ndim(x);
    return dim >= -ndim && dim < ndim ? (int)(dim < 0 ? dim + ndim : dim)
           : td_error(TD_E_INDEX, "%s: Dimension out of range (expected to be in range of [%d, %d], but got %lld)", mk_name(op), -ndim, ndim - 1,
                      (long long)dim);
}

static MK_KERNEL(softmax)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    const int axis = axis_of(op, x, arguments[1].integer);
    MK_AUTO mk_memory src = {0}, dst = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (axis < 0 || mk_of(&src, x) || mk_make(&dst, src.desc))
        return -1;
    if (arguments[2].integer)
        return td_error(TD_E_RUNTIME, "%s: half to float conversion is not supported on Mkldnn", mk_name(op));
    if (td_tensor_numel(x) &&
        (mk_status(mk_name(op), dnnl_softmax_forward_primitive_desc_create(&pd, dnnl_engine, DNNL_FORWARD_TRAINING, DNNL_SOFTMAX, src.desc, src.desc,
                                                                           axis, NULL)) ||
         mk_run(mk_name(op), pd, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DST, dst.memory}})))
        return -1;
    return mk_give(results, like(&dst, x));
}

static MK_KERNEL(softmax_backward)
{
    (void)keys, (void)context;
    td_tensor *y = arguments[1].tensor;
    const int axis = axis_of(op, y, arguments[2].integer);
    MK_AUTO mk_memory given = {0}, diff = {0}, dst = {0}, out = {0};
    MK_AUTO_PD dnnl_primitive_desc_t forward = NULL, pd = NULL;
    if (axis < 0 || mk_of(&dst, y) || mk_of(&given, arguments[0].tensor) || mk_as(&diff, &given, dst.desc) || mk_make(&out, dst.desc))
        return -1;
    if (td_tensor_numel(y) &&
        (mk_status(mk_name(op), dnnl_softmax_forward_primitive_desc_create(&forward, dnnl_engine, DNNL_FORWARD_TRAINING, DNNL_SOFTMAX, dst.desc,
                                                                           dst.desc, axis, NULL)) ||
         mk_status(mk_name(op), dnnl_softmax_backward_primitive_desc_create(&pd, dnnl_engine, DNNL_SOFTMAX, dst.desc, dst.desc, dst.desc, axis, forward,
                                                                            NULL)) ||
         mk_run(mk_name(op), pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_DST, dst.memory}, {DNNL_ARG_DIFF_DST, diff.memory},
                                                        {DNNL_ARG_DIFF_SRC, out.memory}})))
        return -1;
    return mk_give(results, like(&out, y));
}

/* ---- PReLU: a slope, or one per channel */

/* The weight with a dimension for each of x's. */
static int slopes(const td_op *op, mk_memory *m, td_tensor *x, td_tensor *weight)
{
    int64_t sizes[DNNL_MAX_NDIMS];
    const int ndim = td_tensor_ndim(x);
    const int64_t n = td_tensor_numel(weight), channels = ndim > 1 ? td_tensor_sizes(x)[1] : 1;
    MK_AUTO mk_memory given = {0};
    MK_AUTO_MD dnnl_memory_desc_t plain = NULL;
    if (n != 1 && n != channels)
        return td_error(TD_E_RUNTIME, "%s: Mismatch of parameter numbers and input channel size. Found parameter numbers = %lld and channel size = %lld.",
                        mk_name(op), (long long)n, (long long)channels);
    for (int d = 0; d < ndim; d++)
        sizes[d] = d == 1 ? n : 1;
    return mk_of_sizes(&given, weight, ndim, sizes) || mk_plain(&plain, ndim, sizes, td_tensor_dtype(x)) || mk_as(m, &given, plain) ? -1 : 0;
}

static MK_KERNEL(prelu)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    MK_AUTO mk_memory src = {0}, weight = {0}, dst = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (!mk_is(x))
        return td_error(TD_E_RUNTIME, "%s: a tensor of the mkldnn layout is expected", mk_name(op));
    if (mk_of(&src, x) || slopes(op, &weight, x, arguments[1].tensor) || mk_make(&dst, src.desc))
        return -1;
    if (td_tensor_numel(x) &&
        (mk_status(mk_name(op), dnnl_prelu_forward_primitive_desc_create(&pd, dnnl_engine, DNNL_FORWARD_TRAINING, src.desc, weight.desc, src.desc, NULL)) ||
         mk_run(mk_name(op), pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_WEIGHTS, weight.memory}, {DNNL_ARG_DST, dst.memory}})))
        return -1;
    return mk_give(results, like(&dst, x));
}

static int save_both(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context, (void)results, (void)state;
    return td_custom_save(node, 2, (td_tensor *[]){arguments[0].tensor, arguments[1].tensor}, 0, NULL);
}
static int prelu_backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)state, (void)n_grads, (void)n_results;
    const td_op *op = td_op_find("mkldnn::prelu");
    TD_AUTO td_tensor *x = td_node_saved_tensor(node, 0), *w = td_node_saved_tensor(node, 1);
    MK_AUTO mk_memory src = {0}, weight = {0}, given = {0}, diff = {0}, out = {0}, slope = {0};
    MK_AUTO_PD dnnl_primitive_desc_t forward = NULL, pd = NULL;
    if (!x || !w || mk_of(&src, x) || slopes(op, &weight, x, w) || mk_of(&given, grads[0]) || mk_as(&diff, &given, src.desc) ||
        mk_make(&out, src.desc) || mk_make(&slope, weight.desc) ||
        mk_status("prelu", dnnl_prelu_forward_primitive_desc_create(&forward, dnnl_engine, DNNL_FORWARD_TRAINING, src.desc, weight.desc, src.desc, NULL)) ||
        mk_status("prelu", dnnl_prelu_backward_primitive_desc_create(&pd, dnnl_engine, src.desc, weight.desc, src.desc, weight.desc, src.desc, forward,
                                                                     NULL)) ||
        mk_run("prelu", pd, 5, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_WEIGHTS, weight.memory}, {DNNL_ARG_DIFF_DST, diff.memory},
                                                   {DNNL_ARG_DIFF_SRC, out.memory}, {DNNL_ARG_DIFF_WEIGHTS, slope.memory}}))
        return -1;
    int64_t sizes[DNNL_MAX_NDIMS];
    for (int d = 0; d < td_tensor_ndim(x); d++)
        sizes[d] = d == 1 ? td_tensor_numel(w) : 1;
    TD_AUTO td_tensor *flat = mk_strided(&slope, td_tensor_ndim(x), sizes, td_tensor_dtype(x));
    TD_AUTO td_tensor *shaped = flat ? td_reshape(flat, td_tensor_ndim(w), td_tensor_sizes(w)) : NULL;
    TD_AUTO td_tensor *cast = shaped ? td_to(shaped, td_tensor_dtype(w)) : NULL;
    results[0] = like(&out, x);
    results[1] = !cast ? NULL : mk_is(w) ? mk_from_strided(cast) : td_tensor_retain(cast);
    return results[0] && results[1] ? 0 : -1;
}
static const td_op_gradient prelu_gradient = {save_both, prelu_backward, NULL};

static MK_KERNEL(composite_prelu)
{
    (void)op, (void)keys, (void)context;
    return td_op_call(td_op_find("mkldnn::prelu"), arguments, results);
}

/* ---- batch normalisation */

/* A number per channel, as float32: a memory, or an empty one where there is none. */
static int per_channel(mk_memory *m, td_tensor *x, int64_t channels)
{
    MK_AUTO mk_memory given = {0};
    MK_AUTO_MD dnnl_memory_desc_t plain = NULL;
    if (!x || x == TD_NONE)
        return 0;
    if (td_tensor_numel(x) != channels)
        return td_error(TD_E_RUNTIME, "batch_norm: %lld numbers for %lld channels", (long long)td_tensor_numel(x), (long long)channels);
    return mk_of_sizes(&given, x, 1, &channels) || mk_plain(&plain, 1, &channels, TD_F32) || mk_as(m, &given, plain) ? -1 : 0;
}
static int new_per_channel(mk_memory *m, int64_t channels)
{
    MK_AUTO_MD dnnl_memory_desc_t plain = NULL;
    return mk_plain(&plain, 1, &channels, TD_F32) || mk_make(m, plain) ? -1 : 0;
}

/* running = (1 - momentum) running + momentum now */
static int mix(td_tensor *running, const float *now, double scale, double momentum, int64_t channels)
{
    if (!running || running == TD_NONE)
        return 0;
    MK_AUTO mk_memory before = {0}, to = {0};
    if (per_channel(&before, running, channels))
        return -1;
    TD_AUTO td_tensor *mixed = td_tensor_new(1, &channels, TD_F32, TD_DEVICE_NONE);
    if (!mixed)
        return -1;
    const float *old = td_tensor_data(before.bytes);
    float *out = td_tensor_data(mixed);
    for (int64_t i = 0; i < channels; i++)
        out[i] = (float)((1 - momentum) * old[i] + momentum * scale * now[i]);
    if (!mk_is(running))
        return td_copy_elements(running, mixed);
    MK_AUTO mk_memory from = {0};
    return mk_of(&to, running) || mk_of(&from, mixed) || mk_write(&to, &from) ? -1 : 0;
}

static unsigned norm_flags(const mk_memory *weight, const mk_memory *bias, bool training)
{
    return (training ? 0u : (unsigned)DNNL_GLOBAL_STATS) | (weight->memory ? (unsigned)DNNL_SCALE : 0u) | (bias->memory ? (unsigned)DNNL_SHIFT : 0u);
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps) -> (out, mean, 1 / deviation) */
static MK_KERNEL(batch_norm)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    const bool training = arguments[5].integer;
    const double momentum = arguments[6].number, eps = arguments[7].number;
    const int ndim = td_tensor_ndim(x);
    int checked_ndim;
    int64_t checked[TD_MAX_DIMS];
    if (!mk_is(x))
        return td_error(TD_E_RUNTIME, "%s: of its operands the input must be of the mkldnn layout", mk_name(op));
    if (mk_sizes_of("aten::native_batch_norm", 8, arguments, &checked_ndim, checked))
        return -1;
    const int64_t channels = td_tensor_sizes(x)[1], each = channels ? td_tensor_numel(x) / channels : 0;
    MK_AUTO mk_memory src = {0}, dst = {0}, weight = {0}, bias = {0}, mean = {0}, variance = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (mk_of(&src, x) || per_channel(&weight, mk_optional(&arguments[1]), channels) || per_channel(&bias, mk_optional(&arguments[2]), channels) ||
        mk_make(&dst, src.desc))
        return -1;
    if (training ? new_per_channel(&mean, channels) || new_per_channel(&variance, channels)
                 : per_channel(&mean, mk_optional(&arguments[3]), channels) || per_channel(&variance, mk_optional(&arguments[4]), channels))
        return -1;
    if (mk_status(mk_name(op), dnnl_batch_normalization_forward_primitive_desc_create(
                                   &pd, dnnl_engine, training ? DNNL_FORWARD_TRAINING : DNNL_FORWARD_INFERENCE, src.desc, src.desc, (float)eps,
                                   norm_flags(&weight, &bias, training), NULL)) ||
        mk_run(mk_name(op), pd, 6, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_DST, dst.memory}, {DNNL_ARG_MEAN, mean.memory},
                                                       {DNNL_ARG_VARIANCE, variance.memory}, {DNNL_ARG_SCALE, weight.memory},
                                                       {DNNL_ARG_SHIFT, bias.memory}}))
        return -1;
    const int64_t kept = training ? channels : 0;
    TD_AUTO td_tensor *saved = td_tensor_new(1, &kept, TD_F32, TD_DEVICE_NONE);
    TD_AUTO td_tensor *deviation = td_tensor_new(1, &kept, TD_F32, TD_DEVICE_NONE);
    if (!saved || !deviation)
        return -1;
    if (training) {
        const float *m = td_tensor_data(mean.bytes), *v = td_tensor_data(variance.bytes);
        float *s = td_tensor_data(deviation);
        memcpy(td_tensor_data(saved), m, sizeof *m * (size_t)channels);
        for (int64_t i = 0; i < channels; i++)
            s[i] = (float)(1 / sqrt((double)v[i] + eps));
        if (mix(mk_optional(&arguments[3]), m, 1, momentum, channels) ||
            mix(mk_optional(&arguments[4]), v, each > 1 ? (double)each / (double)(each - 1) : 1, momentum, channels))
            return -1;
    }
    td_tensor *made = mk_tensor(&dst, ndim, td_tensor_sizes(x), td_tensor_dtype(x));
    if (mk_give(&results[0], made))
        return -1;
    return mk_give(&results[1], td_tensor_retain(saved)) || mk_give(&results[2], td_tensor_retain(deviation)) ? -1 : 0;
}

/* A gradient per channel, in the layout of what it is the gradient of. */
static td_tensor *channel_grad(mk_memory *m, td_tensor *of, int64_t channels)
{
    TD_AUTO td_tensor *x = mk_strided(m, 1, &channels, of ? td_tensor_dtype(of) : TD_F32);
    return x && of && mk_is(of) ? mk_from_strided(x) : td_tensor_retain(x);
}

/* native_batch_norm_backward(grad, input, weight, running_mean, running_var, mean, 1 / deviation, train, eps, mask) */
static MK_KERNEL(batch_norm_backward)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[1].tensor, *w = mk_optional(&arguments[2]);
    const bool training = arguments[7].integer;
    const double eps = arguments[8].number;
    const bool *mask = arguments[9].bools;
    const int64_t channels = td_tensor_sizes(x)[1];
    MK_AUTO mk_memory src = {0}, given = {0}, diff = {0}, out = {0}, weight = {0}, mean = {0}, variance = {0}, dw = {0}, db = {0};
    MK_AUTO_PD dnnl_primitive_desc_t forward = NULL, pd = NULL;
    if (mk_of(&src, x) || mk_of(&given, arguments[0].tensor) || mk_as(&diff, &given, src.desc) || mk_make(&out, src.desc) ||
        per_channel(&weight, w, channels) || new_per_channel(&dw, channels) || new_per_channel(&db, channels))
        return -1;
    if (training) {
        MK_AUTO mk_memory deviation = {0};
        if (per_channel(&mean, mk_optional(&arguments[5]), channels) || per_channel(&deviation, mk_optional(&arguments[6]), channels) ||
            new_per_channel(&variance, channels))
            return -1;
        const float *s = td_tensor_data(deviation.bytes);
        float *v = td_tensor_data(variance.bytes);
        for (int64_t i = 0; i < channels; i++)
            v[i] = (float)fmax(1 / ((double)s[i] * s[i]) - eps, 0);
    } else if (per_channel(&mean, mk_optional(&arguments[3]), channels) || per_channel(&variance, mk_optional(&arguments[4]), channels))
        return -1;
    if (!weight.memory) {               /* ones: the gradient in a shift is asked for together with that in a scale */
        if (new_per_channel(&weight, channels))
            return -1;
        for (int64_t i = 0; i < channels; i++)
            ((float *)td_tensor_data(weight.bytes))[i] = 1;
    }
    const unsigned flags = (training ? 0u : (unsigned)DNNL_GLOBAL_STATS) | DNNL_SCALE | DNNL_SHIFT;
    if (mk_status(mk_name(op), dnnl_batch_normalization_forward_primitive_desc_create(&forward, dnnl_engine, DNNL_FORWARD_TRAINING, src.desc, src.desc,
                                                                                      (float)eps, flags, NULL)) ||
        mk_status(mk_name(op), dnnl_batch_normalization_backward_primitive_desc_create(&pd, dnnl_engine, DNNL_BACKWARD, src.desc, src.desc, src.desc,
                                                                                       (float)eps, flags, forward, NULL)) ||
        mk_run(mk_name(op), pd, 8, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, src.memory}, {DNNL_ARG_MEAN, mean.memory}, {DNNL_ARG_VARIANCE, variance.memory},
                                                       {DNNL_ARG_DIFF_DST, diff.memory}, {DNNL_ARG_SCALE, weight.memory},
                                                       {DNNL_ARG_DIFF_SRC, out.memory}, {DNNL_ARG_DIFF_SCALE, dw.memory},
                                                       {DNNL_ARG_DIFF_SHIFT, db.memory}}))
        return -1;
    td_tensor *made[3] = {mask[0] ? like(&out, x) : TD_NONE, mask[1] ? channel_grad(&dw, w, channels) : TD_NONE,
                          mask[2] ? channel_grad(&db, w, channels) : TD_NONE};
    int status = 0;
    for (int i = 0; i < 3; i++)
        status |= mk_give(&results[i], made[i]);
    if (status)
        td_values_release(results, 3);
    return status;
}

int mk_register_pointwise(void)
{
    static const algorithm relu = {DNNL_RELU, DNNL_RELU}, gelu = {DNNL_GELU_ERF, DNNL_GELU_ERF}, sigmoid = {DNNL_LOGISTIC, DNNL_LOGISTIC_BY_RESULT},
                              tanh = {DNNL_TANH, DNNL_TANH_BY_RESULT};
    static const int plus = 1, minus = -1;
    static const mk_row forms[] = {
        {"aten::relu", eltwise, &relu}, {"aten::gelu", eltwise, &gelu}, {"aten::sigmoid", eltwise, &sigmoid},
        {"aten::tanh", eltwise, &tanh}, {"aten::add.Tensor", add, &plus}, {"aten::sub.Tensor", add, &minus}, {"aten::mul.Tensor", mul, NULL},
        {"aten::_softmax", softmax, NULL}, {"aten::neg", neg, NULL},
    };
    static const mk_row rows[] = {
        {"aten::threshold_backward", eltwise_backward, &relu}, {"aten::gelu_backward", eltwise_backward, &gelu},
        {"aten::_softmax_backward_data", softmax_backward, NULL}, {"aten::prelu", composite_prelu, NULL},
        {"aten::native_batch_norm", batch_norm, NULL}, {"aten::native_batch_norm_backward", batch_norm_backward, NULL},
    };
    return mk_register_forms(forms, COUNT(forms)) || mk_register(rows, COUNT(rows)) ||
           !td_op_define("mkldnn::prelu(Tensor self, Tensor weight) -> Tensor") || td_register_default("mkldnn::prelu", prelu, NULL) ||
           td_register_gradient("mkldnn::prelu", &prelu_gradient, NULL)
               ? -1 : 0;
}
