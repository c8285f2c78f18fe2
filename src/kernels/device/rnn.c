/* Recurrent layers on devices: a product with the hidden weights and a kernel of rnn.ck for each step; the gradients of the weights and the bias are
 * products over all steps.  Halves are computed in float32. */
#include "calls_kernels_device_rnn.h"
#include <tede/foreign.h>
#include "kernels/device/product.h"
#define TD_HOST
#include "kernels/device/rnn.ck"

TD_SOURCE(rnn);

/* Rows from step `step` of a contiguous [steps][rows][...] on, as a matrix. */
static td_tensor *rows_at(td_tensor *x, int64_t step, int64_t steps)
{
    if (x == TD_NONE || !x->numel)
        return td_tensor_retain(x);
    const int64_t width = x->sizes[2], sizes[2] = {steps * x->sizes[1], width}, strides[2] = {width, 1};
    return td_tensor_view(x, 2, sizes, strides, step * x->sizes[1] * width);
}

/* The step before t in the layer's direction; the state that the layer begins with lies before the first. */
static td_tensor *before(const td_rnn_geometry *g, td_tensor *states, td_tensor *first, int64_t t)
{
    const int64_t p = !g->reverse ? t - 1 : t + 1 < g->steps ? t + 1 : -1;
    return p < 0 ? td_tensor_retain(first) : rows_at(states, p, 1);
}

/* c = a b, or c += a b: contiguous c, matrices by their strides. */
static int multiply(int64_t m, int64_t n, int64_t k, td_tensor *a, int64_t a_row, int64_t a_column, td_tensor *b, int64_t b_row, int64_t b_column,
                    td_tensor *c, bool add)
{
    product_values v = td_product_of((td_dtype)c->dtype, m, n, k);
    v.a_row = a_row, v.a_column = a_column, v.b_row = b_row, v.b_column = b_column, v.c_row = n, v.c_column = 1, v.c_batch = m * n;
    const int status = td_product_by_library(&v, 1, 1, a, b, c, add ? c : TD_NONE);
    if (status <= 0)
        return status;
    if (add)
        v.has_bias = true, v.beta = v.alpha, v.bias_row = n, v.bias_column = 1;
    return td_product_launch(TD_PRODUCT_PLAIN, &v, a, b, c, add ? c : TD_NONE);
}

static int launch(const char *kernel, const td_rnn_geometry *g, td_tensor *bias, td_launch_of with)
{
    const cell_values v = {g->rows, g->width, bias != TD_NONE};
    with.source = td_source_rnn, with.kernel = kernel, with.values = &v, with.size = sizeof v;
    with.types[0] = (td_source_type){"A", (td_dtype)with.buffers[0]->dtype}, with.numbers[0] = (td_source_number){"MODE", g->mode};
    with.groups = td_launch_groups(with.buffers[0]->device, g->rows * g->width);
    return td_launch(&with);
}

int td_on_device_rnn_layer(td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *b_hh, const td_rnn_geometry *g, td_tensor *out0,
                           td_tensor *out1, td_tensor *out2)
{
    const td_dtype type = td_compute_dtype(gates);
    const int64_t n = g->width, width = g->gates * n;
    TD_AUTO td_tensor *x = td_operand(gates, type), *h0 = td_operand(hx, type), *c0 = td_operand(cx, type), *w = td_operand(w_hh, type), *b = td_operand(b_hh, type);
    TD_AUTO td_tensor *y = td_target(out0, type), *c = td_target(out1, type), *s = td_target(out2, type);
    TD_AUTO td_tensor *product = td_tensor_new(2, (int64_t[]){g->rows, width}, type, gates->device);
    if (!x || !h0 || !c0 || !w || !b || !y || !c || !s || !product)
        return -1;
    for (int64_t i = 0; i < g->steps; i++) {
        const int64_t t = g->reverse ? g->steps - 1 - i : i;
        TD_AUTO td_tensor *now = rows_at(y, t, 1), *gx = rows_at(x, t, 1), *hp = before(g, y, h0, t), *cp = before(g, c, c0, t);
        TD_AUTO td_tensor *cells = rows_at(c, t, 1), *kept = rows_at(s, t, 1);
        if (!now || !gx || !hp || !cp || !cells || !kept || multiply(g->rows, width, n, hp, n, 1, w, 1, n, product, false) ||
            launch("cell_forward", g, b, (td_launch_of){.buffers = {now, gx, product, b, hp, cp, cells, kept}}))
            return -1;
    }
    return td_finish(out0, y) || td_finish(out1, c) || td_finish(out2, s) ? -1 : 0;
}

int td_on_device_rnn_layer_backward(td_tensor *grad, td_tensor *grad_cells, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *result,
                                    td_tensor *cells, td_tensor *saved, const td_rnn_geometry *g, td_tensor *out0, td_tensor *out1, td_tensor *out2,
                                    td_tensor *out3, td_tensor *out4)
{
    const td_dtype type = td_compute_dtype(grad);
    const int64_t steps = g->steps, rows = g->rows, n = g->width, width = g->gates * n;
    TD_AUTO td_tensor *slopes = td_operand(grad, type), *slopes_c = td_operand(grad_cells, type), *h0 = td_operand(hx, type), *c0 = td_operand(cx, type);
    TD_AUTO td_tensor *w = td_operand(w_hh, type), *y = td_operand(result, type), *c = td_operand(cells, type), *s = td_operand(saved, type);
    TD_AUTO td_tensor *dx = td_target(out0, type), *dh = td_target(out1, type), *dc = td_target(out2, type), *dw = td_target(out3, type), *db = td_target(out4, type);
    if (!slopes || !slopes_c || !h0 || !c0 || !w || !y || !c || !s || !dx || !dh || !dc || !dw || !db)
        return -1;
    TD_AUTO td_tensor *hidden = g->mode == TD_RNN_GRU ? td_tensor_new(3, dx->sizes, type, dx->device) : td_tensor_retain(dx);
    td_tensor *const zeroed[] = {dh, dc, dw, db};
    for (int i = 0; i < 4; i++)
        if (!hidden || (zeroed[i] != TD_NONE && td_zero_(zeroed[i])))
            return -1;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t t = g->reverse ? i : steps - 1 - i;
        TD_AUTO td_tensor *to_x = rows_at(dx, t, 1), *to_h = rows_at(hidden, t, 1), *gh = rows_at(slopes, t, 1), *gc = rows_at(slopes_c, t, 1);
        TD_AUTO td_tensor *h = rows_at(y, t, 1), *hp = before(g, y, h0, t), *now = rows_at(c, t, 1), *cp = before(g, c, c0, t), *kept = rows_at(s, t, 1);
        if (!to_x || !to_h || !gh || !gc || !h || !hp || !now || !cp || !kept ||
            launch("cell_backward", g, TD_NONE, (td_launch_of){.buffers = {dh, dc, to_x, to_h, gh, gc, h, hp, now, cp, kept}}) ||
            multiply(rows, n, width, to_h, width, 1, w, n, 1, dh, true))
            return -1;
    }
    /* Every step's gates meet the state before them: h0, and the states' own sequence, one step behind. */
    if (dw != TD_NONE && steps > 0) {
        TD_AUTO td_tensor *first = rows_at(hidden, g->reverse ? steps - 1 : 0, 1), *others = rows_at(hidden, g->reverse ? 0 : steps > 1, steps - 1);
        TD_AUTO td_tensor *states = rows_at(y, g->reverse && steps > 1, steps - 1);
        if (!first || !others || !states || multiply(width, n, rows, first, 1, width, h0, n, 1, dw, false) ||
            (steps > 1 && multiply(width, n, (steps - 1) * rows, others, 1, width, states, n, 1, dw, true)))
            return -1;
    }
    if (db != TD_NONE) {
        TD_AUTO td_tensor *ones = td_ones(1, (int64_t[]){steps * rows}, type, dx->device);
        if (!ones || multiply(1, width, steps * rows, ones, steps * rows, 1, hidden, width, 1, db, false))
            return -1;
    }
    return td_finish(out0, dx) || td_finish(out1, dh) || td_finish(out2, dc) || td_finish(out3, dw) || td_finish(out4, db) ? -1 : 0;
}
