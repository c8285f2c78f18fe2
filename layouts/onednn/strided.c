/* Products and convolutions of strided tensors of bfloat16, which oneDNN computes by the processor's matrix units: offered to the core as
 * its CPU's library (<tede/cpu_library.h>) while mkldnn::_use says so. What oneDNN has no primitive for is left to the core. */
#include <tede/cpu_library.h>
#include "mkldnn.h"

/* A memory over somebody's elements. */
static int over(mk_memory *m, int ndim, const int64_t *sizes, int dtype, const int64_t *strides, void *data)
{
    if (dnnl_memory_desc_create_with_strides(&m->desc, ndim, sizes, dtype, strides) != DNNL_SUCCESS)
        return 1;
    return dnnl_memory_create(&m->memory, m->desc, dnnl_engine, data) != DNNL_SUCCESS;
}

/* Below these sizes the core is as fast: so little work doesn't pay for a primitive. */
enum { FEWEST_COLUMNS = 16, LEAST_WORK = 1 << 20 };

/* An operand of a product, or of each of a batch of them. */
static int matrix(mk_memory *m, const td_product *p, const td_product_operand *o, int64_t rows, int64_t columns)
{
    const int64_t sizes[] = {o->batch_stride ? p->batch : 1, rows, columns};
    const int64_t strides[] = {o->batch_stride ? o->batch_stride : rows * columns, o->row_stride, o->column_stride};
    const int skipped = p->batch == 1;
    if (o->row_stride < 1 || o->column_stride < 1 || o->batch_stride < 0 || (o->row_stride != 1 && o->column_stride != 1))
        return 1;
    return over(m, 3 - skipped, sizes + skipped, DNNL_BF16, strides + skipped, o->data);
}

static int product(const td_product *p, const float *bias)
{
    MK_AUTO mk_memory a = {0}, b = {0}, c = {0}, d = {0};
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (p->dtype != TD_BF16 || p->alpha != 1 || p->beta != 0 || p->n < FEWEST_COLUMNS || p->m * p->n * p->k < LEAST_WORK)
        return 1;
    const int64_t bias_sizes[] = {1, 1, p->n}, bias_strides[] = {p->n, p->n, 1};
    const int skipped = p->batch == 1;
    if (matrix(&a, p, &p->a, p->m, p->k) || matrix(&b, p, &p->b, p->k, p->n) || matrix(&c, p, &p->c, p->m, p->n) ||
        (bias && over(&d, 3 - skipped, bias_sizes + skipped, DNNL_F32, bias_strides + skipped, (void *)bias)) ||
        dnnl_matmul_primitive_desc_create(&pd, dnnl_engine, a.desc, b.desc, d.desc, c.desc, NULL) != DNNL_SUCCESS)
        return 1;
    return mk_run("matmul", pd, 4, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, a.memory}, {DNNL_ARG_WEIGHTS, b.memory}, {DNNL_ARG_BIAS, d.memory},
                                                       {DNNL_ARG_DST, c.memory}});
}

/* Strides of [lead...][channels][spatial...], packed with the channels before the spatial dimensions or behind them; `at` is theirs. */
static void packed_strides(int ndim, int at, const int64_t *sizes, bool last, int64_t *strides)
{
    int64_t step = 1;
    if (last)
        strides[at] = 1, step = sizes[at];
    for (int d = ndim - 1; d >= 0; d--)
        if (!last || d != at) {
            strides[d] = step;
            step *= sizes[d];
        }
}

static int convolution(const td_convolution_call *c, const float *bias)
{
    const int ndim = c->dims + 2, grouped = c->groups > 1;
    int64_t x[5] = {c->batch, c->in_channels}, y[5] = {c->batch, c->out_channels}, w[6] = {c->groups}, behind[3], dilation[3], strides[6];
    MK_AUTO mk_memory of_x = {0}, of_y = {0}, of_w = {0}, of_bias = {0};
    w[grouped] = c->out_channels / c->groups, w[grouped + 1] = c->in_channels / c->groups;
    int64_t work = c->batch * c->out_channels * w[grouped + 1];
    for (int d = 0; d < c->dims; d++) {
        x[d + 2] = c->in[d], y[d + 2] = c->out[d], w[grouped + 2 + d] = c->window[d];
        behind[d] = (c->out[d] - 1) * c->stride[d] + (c->window[d] - 1) * c->dilation[d] + 1 - c->in[d] - c->padding[d];
        dilation[d] = c->dilation[d] - 1;
        work *= c->out[d] * c->window[d];
    }
    if (c->dtype != TD_BF16 || work < LEAST_WORK || w[grouped + 1] == 1)
        return 1;
    packed_strides(ndim, 1, x, c->channels_last, strides);
    if (over(&of_x, ndim, x, DNNL_BF16, strides, c->x))
        return 1;
    packed_strides(ndim, 1, y, c->channels_last, strides);
    if (over(&of_y, ndim, y, DNNL_BF16, strides, c->y))
        return 1;
    packed_strides(ndim + grouped, grouped + 1, w, c->channels_last, strides);
    if (over(&of_w, ndim + grouped, w, DNNL_BF16, strides, c->w) || (bias && over(&of_bias, 1, &c->out_channels, DNNL_F32, (int64_t[]){1}, (void *)bias)))
        return 1;
    MK_AUTO_MD dnnl_memory_desc_t any_x = NULL, any_y = NULL, any_w = NULL;
    MK_AUTO_PD dnnl_primitive_desc_t forward = NULL, pd = NULL;
    if (mk_any(&any_x, ndim, x, TD_BF16) || mk_any(&any_y, ndim, y, TD_BF16) || mk_any(&any_w, ndim + grouped, w, TD_BF16))
        return -1;
    if (dnnl_convolution_forward_primitive_desc_create(&forward, dnnl_engine, DNNL_FORWARD_TRAINING, DNNL_CONVOLUTION_DIRECT, any_x, any_w, of_bias.desc,
                                                       any_y, c->stride, dilation, c->padding, behind, NULL) != DNNL_SUCCESS)
        return 1;
    int status = DNNL_SUCCESS;
    if (c->kind == TD_CONVOLUTION_GRAD_INPUT)
        status = dnnl_convolution_backward_data_primitive_desc_create(&pd, dnnl_engine, DNNL_CONVOLUTION_DIRECT, any_x, any_w, any_y, c->stride, dilation,
                                                                      c->padding, behind, forward, NULL);
    else if (c->kind == TD_CONVOLUTION_GRAD_WEIGHT)
        status = dnnl_convolution_backward_weights_primitive_desc_create(&pd, dnnl_engine, DNNL_CONVOLUTION_DIRECT, any_x, any_w, NULL, any_y, c->stride,
                                                                         dilation, c->padding, behind, forward, NULL);
    else
        pd = forward, forward = NULL;
    if (status != DNNL_SUCCESS)
        return 1;
    /* Operands in the order that the primitive wants; the result in its own, and from there to where it belongs. */
    static const struct { int query, argument; } roles[3][3] = {        /* of y, x and w, by kind */
        [TD_CONVOLUTION_FORWARD] = {{DNNL_DST_MD, DNNL_ARG_DST}, {DNNL_SRC_MD, DNNL_ARG_SRC}, {DNNL_WEIGHTS_MD, DNNL_ARG_WEIGHTS}},
        [TD_CONVOLUTION_GRAD_INPUT] = {{DNNL_DIFF_DST_MD, DNNL_ARG_DIFF_DST}, {DNNL_DIFF_SRC_MD, DNNL_ARG_DIFF_SRC}, {DNNL_WEIGHTS_MD, DNNL_ARG_WEIGHTS}},
        [TD_CONVOLUTION_GRAD_WEIGHT] = {{DNNL_DIFF_DST_MD, DNNL_ARG_DIFF_DST}, {DNNL_SRC_MD, DNNL_ARG_SRC}, {DNNL_DIFF_WEIGHTS_MD, DNNL_ARG_DIFF_WEIGHTS}},
    };
    mk_memory *given[] = {&of_y, &of_x, &of_w};
    MK_AUTO mk_memory first = {0}, second = {0}, third = {0};
    mk_memory *brought[] = {&first, &second, &third};
    dnnl_exec_arg_t arguments[4] = {[3] = {DNNL_ARG_BIAS, of_bias.memory}};
    bool in_place = false;
    for (int i = 0; i < 3; i++) {
        md want = mk_query(pd, roles[c->kind][i].query);
        const bool computed = i == (int)c->kind, fits = dnnl_memory_desc_equal(given[i]->desc, want);
        in_place |= computed && fits;
        if (computed && !fits ? mk_make(brought[i], want) : !fits && mk_as(brought[i], given[i], want))
            return -1;
        arguments[i] = (dnnl_exec_arg_t){roles[c->kind][i].argument, fits ? given[i]->memory : brought[i]->memory};
    }
    if (mk_run("convolution", pd, 4, arguments))
        return -1;
    return in_place ? 0 : mk_write(given[c->kind], brought[c->kind]);
}

static const td_cpu_library library = {sizeof library, product, convolution};

static MK_KERNEL(use)
{
    (void)op, (void)keys, (void)results, (void)context;
    return arguments[0].integer ? dnnl_open() || td_set_cpu_library(&library) ? -1 : 0 : td_set_cpu_library(NULL);
}

int mk_register_strided(void)
{
    return !td_op_define("mkldnn::_use(bool on) -> ()") || td_register_default("mkldnn::_use", use, NULL) ? -1 : 0;
}
