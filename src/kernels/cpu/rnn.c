/* A recurrent layer over a sequence: per step one product with the hidden weights and one elementwise pass.
 *
 * The products of the inputs come ready for all steps.  The backward pass goes the other way; the gradient of the hidden
 * weights is added up over the steps. */
#include "calls_kernels_cpu_rnn.h"
#include "base/base.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rnn.h"

static char *at(const td_tensor *x, int64_t step)
{
    return x->data + step * x->strides[0] * td_itemsize(x);
}

/* The step before t in the layer's direction, or -1. */
static int64_t before(int64_t t, int64_t steps, bool reverse)
{
    return !reverse ? t - 1 : t + 1 < steps ? t + 1 : -1;
}

int td_cpu_rnn_layer(td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *b_hh, int64_t mode,
                     bool reverse,
                     td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    td_dtype type = td_compute_dtype(gates);
    TD_AUTO td_tensor *x = td_operand(gates, type), *h0 = td_operand(hx, type), *c0 = td_operand(cx, type),
    *w = td_operand(w_hh, type);
    TD_AUTO td_tensor *b = td_operand(b_hh, type), *y = td_target(out0, type), *c = td_target(out1, type),
    *s = td_target(out2, type);
    if (!x || !h0 || !c0 || !w || !b || !y || !c || !s)
        return -1;
    int64_t steps = x->sizes[0], rows = x->sizes[1], width = x->sizes[2], n = w->sizes[1];
    size_t bytes = (size_t)(rows * width) * td_dtype_size(type);
    void *product = td_mem_alloc(bytes);
    if (!product)
        return -1;
    int status = 0;
    td_cell_job job = {.mode = (int)mode, .n = n, .gh = product};
    for (int64_t i = 0; i < steps && !status; i++) {
        int64_t t = reverse ? steps - 1 - i : i, p = before(t, steps, reverse);
        job.gx = at(x, t), job.h = at(y, t), job.h_prev = p < 0 ? h0->data : at(y, p);
        job.c = mode == TD_RNN_LSTM ? at(c, t) : NULL,
        job.c_prev = mode != TD_RNN_LSTM ? NULL : p < 0 ? c0->data : at(c, p);
        job.saved = mode >= TD_RNN_LSTM ? at(s, t) : NULL;
        status = td_gemm_bias(type, rows, width, n, (td_matrix){job.h_prev, n, 1}, (td_matrix){w->data, 1, n},
                              td_data_or_null(b), product,
                              width);
        if (!status)
            td_parallel_for(0, rows, td_grain(30 * width), TD_ISA_PICK(td_rnn_table)->forward[type == TD_F64], &job);
    }
    td_mem_free(product, bytes);
    return status || td_finish(out0, y) || td_finish(out1, c) || td_finish(out2, s) ? -1 : 0;
}

/* Sums of the rows of dgh, for the bias. */
static void add_rows(td_dtype type, const void *from, int64_t rows, int64_t width, void *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            if (type == TD_F64)
                ((double *)to)[i] += ((const double *)from)[r * width + i];
            else
                ((float *)to)[i] += ((const float *)from)[r * width + i];
}

int td_cpu_rnn_layer_backward(td_tensor *grad, td_tensor *grad_cells, td_tensor *hx, td_tensor *cx, td_tensor *w_hh,
                              td_tensor *result,
                              td_tensor *cells, td_tensor *saved, int64_t mode, bool reverse, int64_t n_mask,
                              const bool *mask,
                              td_tensor *out0, td_tensor *out1, td_tensor *out2, td_tensor *out3, td_tensor *out4)
{
    (void)n_mask, (void)mask;
    td_dtype type = td_compute_dtype(grad);
    TD_AUTO td_tensor *g = td_operand(grad, type), *gc = td_operand(grad_cells, type), *h0 = td_operand(hx, type),
    *c0 = td_operand(cx, type);
    TD_AUTO td_tensor *w = td_operand(w_hh, type), *y = td_operand(result, type), *c = td_operand(cells, type),
    *s = td_operand(saved, type);
    TD_AUTO td_tensor *dx = td_target(out0, type), *dh = td_target(out1, type), *dc = td_target(out2, type),
    *dw = td_target(out3, type);
    TD_AUTO td_tensor *db = td_target(out4, type);
    if (!g || !gc || !h0 || !c0 || !w || !y || !c || !s || !dx || !dh || !dc || !dw || !db)
        return -1;
    int64_t steps = dx->sizes[0], rows = dx->sizes[1], width = dx->sizes[2], n = w->sizes[1],
    size = (int64_t)td_dtype_size(type);
    bool lstm = mode == TD_RNN_LSTM, gru = mode == TD_RNN_GRU;
    size_t bytes = gru ? (size_t)(rows * width * size) : 0;
    void *hidden = gru ? td_mem_alloc(bytes) : NULL;
    if (gru && !hidden)
        return -1;
    td_tensor *zeroed[] = {dh, dc, dw, db};
    for (int i = 0; i < 4; i++)
        if (zeroed[i] != TD_NONE)
            memset(zeroed[i]->data, 0, (size_t)(zeroed[i]->numel * size));
    int status = 0;
    td_cell_job job = {.mode = (int)mode, .n = n, .dh = dh->data, .dc = td_data_or_null(dc)};
    for (int64_t i = 0; i < steps && !status; i++) {
        int64_t t = reverse ? i : steps - 1 - i, p = before(t, steps, reverse);
        job.grad_h = at(g, t), job.h = at(y, t), job.h_prev = p < 0 ? h0->data : at(y, p);
        job.grad_c = lstm ? at(gc, t) : NULL, job.c = lstm ? at(c, t) : NULL;
        job.c_prev = !lstm ? NULL : p < 0 ? c0->data : at(c, p), job.saved = mode >= TD_RNN_LSTM ? at(s, t) : NULL;
        job.dgx = at(dx, t), job.dgh = gru ? hidden : job.dgx;
        td_parallel_for(0, rows, td_grain(20 * width), TD_ISA_PICK(td_rnn_table)->backward[type == TD_F64], &job);
        td_matrix down = {job.dgh, width, 1}, turned = {job.dgh, 1, width};
        status = td_gemm_strided(type, rows, n, width, td_int(1), down, (td_matrix){w->data, n, 1}, td_int(1),
                                 dh->data, n);
        if (!status && dw != TD_NONE)
            status = td_gemm_strided(type, width, n, rows, td_int(1), turned, (td_matrix){job.h_prev, n, 1}, td_int(1),
                                     dw->data, n);
        if (!status && db != TD_NONE)
            add_rows(type, job.dgh, rows, width, db->data);
    }
    td_mem_free(hidden, bytes);
    return status || td_finish(out0, dx) || td_finish(out1, dh) || td_finish(out2, dc) || td_finish(out3,
        dw) || td_finish(out4, db) ? -1 : 0;
}
