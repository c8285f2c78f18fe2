/* A recurrent layer over a sequence: per step one product with the hidden weights and one elementwise pass.
 *
 * The products of the inputs come ready for all steps, and the hidden weights are packed once for all.  The backward pass
 * goes the other way; the gradients of the hidden weights and bias are one product and one sum over all steps at the end. */
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

/* c = beta * c + a w + bias, again and again for one w of k x n, which is packed: blocks of columns, for the threads. */
enum { BLOCK = 384 };

typedef struct repeated {
    td_dtype type;
    int64_t rows, n, k, size, lanes;
    td_matrix w;
    char *packed;               /* NULL where td_gemm is as good */
    size_t bytes;
    const char *a, *bias;
    char *c;
    bool add;
} repeated;

static int64_t block_at(const repeated *r, int64_t block)
{
    return block * td_gemm_packed_size(BLOCK, r->k, r->lanes) * r->size;
}

static void pack_blocks(void *context, int64_t first, int64_t last)
{
    const repeated *r = context;
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    for (int64_t i = first; i < last; i++) {
        int64_t n = r->n - i * BLOCK < BLOCK ? r->n - i * BLOCK : BLOCK;
        td_matrix w = {(const char *)r->w.data + i * BLOCK * r->w.column * r->size, r->w.row, r->w.column};
        void *to = r->packed + block_at(r, i);
        if (r->type == TD_F64)
            gemm->pack_f64(n, r->k, w, to);
        else
            gemm->pack_f32(n, r->k, w, to);
    }
}

static void multiply_blocks(void *context, int64_t first, int64_t last)
{
    const repeated *r = context;
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    td_matrix a = {r->a, r->k, 1};
    for (int64_t i = first; i < last; i++) {
        int64_t n = r->n - i * BLOCK < BLOCK ? r->n - i * BLOCK : BLOCK;
        const void *bias = r->bias ? r->bias + i * BLOCK * r->size : NULL, *b = r->packed + block_at(r, i);
        void *c = r->c + i * BLOCK * r->size;
        if (r->type == TD_F64)
            gemm->packed_f64(r->rows, n, r->k, 1, a, b, r->add, c, r->n, bias);
        else
            gemm->packed_f32(r->rows, n, r->k, 1, a, b, r->add, c, r->n, bias);
    }
}

static int prepare(repeated *r, int64_t steps)
{
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    r->size = (int64_t)td_dtype_size(r->type), r->packed = NULL;
    r->lanes = gemm->bytes / r->size;
    if (!gemm->fused || r->rows < 2 || r->n < 2 || steps < 2)
        return 0;
    int64_t blocks = td_ceil_div(r->n, BLOCK);
    r->bytes = (size_t)block_at(r, blocks);
    if (!(r->packed = td_mem_alloc(r->bytes)))
        return -1;
    td_parallel_for(0, blocks, 1, pack_blocks, r);
    return 0;
}

static int again(repeated *r, const void *a, const void *bias, void *c, bool add)
{
    if (!r->packed && !add)
        return td_gemm_bias(r->type, r->rows, r->n, r->k, (td_matrix){a, r->k, 1}, r->w, bias, c, r->n);
    if (!r->packed)
        return td_gemm_strided(r->type, r->rows, r->n, r->k, td_int(1), (td_matrix){a, r->k, 1}, r->w, td_int(1), c, r->n);
    r->a = a, r->bias = bias, r->c = c, r->add = add;
    td_parallel_for(0, td_ceil_div(r->n, BLOCK), td_grain(r->rows * BLOCK * r->k / 16), multiply_blocks, r);
    return 0;
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
    repeated hidden = {.type = type, .rows = rows, .n = width, .k = n, .w = {w->data, 1, n}};
    int status = prepare(&hidden, steps);
    td_cell_job job = {.mode = (int)mode, .n = n, .gh = product};
    for (int64_t i = 0; i < steps && !status; i++) {
        int64_t t = reverse ? steps - 1 - i : i, p = before(t, steps, reverse);
        job.gx = at(x, t), job.h = at(y, t), job.h_prev = p < 0 ? h0->data : at(y, p);
        job.c = mode == TD_RNN_LSTM ? at(c, t) : NULL,
        job.c_prev = mode != TD_RNN_LSTM ? NULL : p < 0 ? c0->data : at(c, p);
        job.saved = mode >= TD_RNN_LSTM ? at(s, t) : NULL;
        status = again(&hidden, job.h_prev, td_data_or_null(b), product, false);
        if (!status)
            td_parallel_for(0, rows, td_grain(30 * width), TD_ISA_PICK(td_rnn_table)->forward[type == TD_F64], &job);
    }
    td_mem_free(hidden.packed, hidden.bytes);
    td_mem_free(product, bytes);
    return status || td_finish(out0, y) || td_finish(out1, c) || td_finish(out2, s) ? -1 : 0;
}

/* Sums of the rows of dgh, for the bias: threads share the columns. */
typedef struct adding {
    td_dtype type;
    const void *from;
    int64_t rows, width;
    void *to;
} adding;

static void add_rows(void *context, int64_t first, int64_t last)
{
    const adding *a = context;
    const td_rnn_table *table = TD_ISA_PICK(td_rnn_table);
    for (int64_t i = first, end; i < last; i = end) {
        end = last - i < BLOCK ? last : i + BLOCK;
        if (a->type == TD_F64)
            table->sum_f64(a->from, a->rows, a->width, i, end, a->to);
        else
            table->sum_f32(a->from, a->rows, a->width, i, end, a->to);
    }
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
    size_t bytes = gru ? (size_t)(steps * rows * width * size) : 0;
    char *hidden = gru ? td_mem_alloc(bytes) : NULL;
    if (gru && !hidden)
        return -1;
    td_tensor *zeroed[] = {dh, dc, dw, db};
    for (int i = 0; i < 4; i++)
        if (zeroed[i] != TD_NONE)
            memset(zeroed[i]->data, 0, (size_t)(zeroed[i]->numel * size));
    repeated back = {.type = type, .rows = rows, .n = n, .k = width, .w = {w->data, n, 1}};
    int status = prepare(&back, steps);
    td_cell_job job = {.mode = (int)mode, .n = n, .dh = dh->data, .dc = td_data_or_null(dc)};
    for (int64_t i = 0; i < steps && !status; i++) {
        int64_t t = reverse ? i : steps - 1 - i, p = before(t, steps, reverse);
        job.grad_h = at(g, t), job.h = at(y, t), job.h_prev = p < 0 ? h0->data : at(y, p);
        job.grad_c = lstm ? at(gc, t) : NULL, job.c = lstm ? at(c, t) : NULL;
        job.c_prev = !lstm ? NULL : p < 0 ? c0->data : at(c, p), job.saved = mode >= TD_RNN_LSTM ? at(s, t) : NULL;
        job.dgx = at(dx, t), job.dgh = gru ? hidden + t * rows * width * size : job.dgx;
        td_parallel_for(0, rows, td_grain(20 * width), TD_ISA_PICK(td_rnn_table)->backward[type == TD_F64], &job);
        status = again(&back, job.dgh, NULL, dh->data, true);
    }
    /* Every step's gates meet the state before them: the states' own sequence, one step behind, and h0. */
    char *slopes = gru ? hidden : dx->data;
    int64_t step = rows * width * size, first = reverse ? (steps - 1) * step : 0;
    if (!status && dw != TD_NONE && steps > 0)
        status = td_gemm_strided(type, width, n, rows, td_int(1), (td_matrix){slopes + first, 1, width},
                                 (td_matrix){h0->data, n, 1}, td_int(0), dw->data, n);
    if (!status && dw != TD_NONE && steps > 1)
        status = td_gemm_strided(type, width, n, (steps - 1) * rows, td_int(1),
                                 (td_matrix){slopes + (reverse ? 0 : step), 1, width},
                                 (td_matrix){reverse ? at(y, 1) : y->data, n, 1}, td_int(1), dw->data, n);
    if (!status && db != TD_NONE) {
        adding sums = {type, slopes, steps * rows, width, db->data};
        td_parallel_for(0, width, td_grain(steps * rows), add_rows, &sums);
    }
    td_mem_free(back.packed, back.bytes);
    td_mem_free(hidden, bytes);
    return status || td_finish(out0, dx) || td_finish(out1, dh) || td_finish(out2, dc) || td_finish(out3,
        dw) || td_finish(out4, db) ? -1 : 0;
}
