/* A recurrent layer over a sequence: per step one product with the hidden weights and one elementwise pass.  Several threads
 * share out blocks of units, product and pass together, so that they meet once a step.
 *
 * The products of the inputs come ready for all steps, and the hidden weights are packed once for all.  The backward pass
 * goes the other way; the gradients of the hidden weights and bias are one product and one sum over all steps at the end.  One thread gains nothing from
 * blocks of units, nor from going through them forwards and backwards in turn, so that half of the weights would still be in the second cache. */
#include "calls_kernels_cpu_nn_rnn.h"
#include "base/base.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/nn/rnn.h"

/* Step `step` of a contiguous [steps][...]. */
static char *at(const td_tensor *x, int64_t step)
{
    return x->data + step * x->strides[0] * td_itemsize(x);
}

/* The step before t in the layer's direction, or -1. */
static int64_t before(int64_t t, int64_t steps, bool reverse)
{
    return !reverse ? t - 1 : t + 1 < steps ? t + 1 : -1;
}

/* c = beta * c + a w + bias, again and again for one w of k x (gates * n), which is packed: blocks of units with all their
 * gates, for the threads.  Where a cell follows, it does a block's units while their gates are in the cache. */
enum { BLOCK = 384 };           /* columns */

/* The product of every step.  w is read again at each of them, so what is packed should stay in the caches: one pass over w per
 * step is what a small batch waits for. */
typedef struct repeated {
    td_dtype type;
    int64_t rows, gates, n, k, size, lanes;
    td_matrix w;
    int64_t block;              /* units; the last block may have fewer */
    char *packed;               /* NULL where td_gemm is as good */
    size_t bytes;
    char *gathered;             /* while packing: the weights with a block's gates side by side */
    const char *a, *bias;       /* with a cell, the bias is in the order of the blocks, too */
    char *c;
    bool add;
    const td_cell_job *cell;    /* or NULL.  With a cell, c has its blocks one behind the other */
} repeated;

/* Units of a block. */
static int64_t units(const repeated *r, int64_t block)
{
    const int64_t left = r->n - block * r->block;
    return left < r->block ? left : r->block;
}

/* Where a block's columns begin in what is packed. */
static void *packed_at(const repeated *r, int64_t block)
{
    return r->packed + block * td_gemm_packed_size(r->block * r->gates, r->k, r->lanes) * r->size;
}

/* What lies [gate][unit], k numbers each, with all gates of a block side by side. */
static void gather_gates(const repeated *r, const char *from, int64_t block, int64_t k, char *to)
{
    const int64_t n = units(r, block), bytes = k * r->size;
    for (int64_t gate = 0; gate < r->gates; gate++)
        memcpy(to + gate * n * bytes, from + (gate * r->n + block * r->block) * bytes, (size_t)(n * bytes));
}

/* Blocks [first, last) on threads, as later they are multiplied. */
static void pack_blocks(void *context, int64_t first, int64_t last)
{
    const repeated *r = context;
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    for (int64_t i = first; i < last; i++) {
        const int64_t unit = i * r->block, n = units(r, i) * r->gates;
        td_matrix w = {(const char *)r->w.data + unit * r->w.column * r->size, r->w.row, r->w.column};
        if (r->gates > 1) {
            char *own = r->gathered + unit * r->gates * r->k * r->size;
            gather_gates(r, r->w.data, i, r->k, own);
            w.data = own;
        }
        if (r->type == TD_F64)
            gemm->pack_f64(n, r->k, w, packed_at(r, i));
        else
            gemm->pack_f32(n, r->k, w, packed_at(r, i));
    }
}

/* Blocks [first, last) of a step, with their cells if r->cell: then a block's units are finished by the thread that has their gates
 * in its cache, and no thread waits for another between product and cells. */
static void multiply_blocks(void *context, int64_t first, int64_t last)
{
    const repeated *r = context;
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    const td_matrix a = {r->a, r->k, 1};
    for (int64_t i = first; i < last; i++) {
        const int64_t unit = i * r->block, n = units(r, i);
        const int64_t columns = n * r->gates, ldc = r->cell ? columns : r->n;
        char *c = r->c + (r->cell ? r->rows * r->gates : 1) * unit * r->size;
        const void *bias = r->bias ? r->bias + unit * r->gates * r->size : NULL;
        if (r->type == TD_F64)
            gemm->packed_f64(r->rows, columns, r->k, 1, a, packed_at(r, i), r->add, (void *)c, ldc, bias);
        else
            gemm->packed_f32(r->rows, columns, r->k, 1, a, packed_at(r, i), r->add, (void *)c, ldc, bias);
        if (r->cell) {
            td_cell_job job = *r->cell;
            job.gh = c, job.apart = n, job.first = unit, job.last = unit + n;
            TD_ISA_PICK(td_rnn_table)->forward[r->type == TD_F64](&job, 0, r->rows);
        }
    }
}

/* Packing pays where products are fused, for two rows or more and more than one step; else r->packed stays NULL.  About as many
 * blocks as threads, or a multiple, of about BLOCK columns, in whole vectors of units; all gates of a unit are in
 * one block. */
static int prepare(repeated *r, int64_t steps)
{
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    r->size = (int64_t)td_dtype_size(r->type), r->packed = NULL;
    r->lanes = gemm->bytes / r->size;
    if (!gemm->fused || r->rows < 2 || r->n < 2 || steps < 2)
        return 0;
    const int64_t threads = td_num_threads(), share = td_ceil_div(td_ceil_div(r->n * r->gates, BLOCK), threads) * threads;
    const int64_t unit = r->gates > 1 ? r->lanes : r->lanes * gemm->vectors;
    r->block = td_ceil_div(td_ceil_div(r->n, share), unit) * unit;
    const int64_t blocks = td_ceil_div(r->n, r->block), columns = r->n * r->gates;
    r->bytes = (size_t)(blocks * td_gemm_packed_size(r->block * r->gates, r->k, r->lanes) * r->size);
    const size_t bytes = r->gates > 1 ? (size_t)(columns * r->k * r->size) : 0;
    r->packed = td_mem_alloc(r->bytes);
    r->gathered = bytes ? td_mem_alloc(bytes) : NULL;
    const bool fine = r->packed && (!bytes || r->gathered);
    if (fine)
        td_parallel_for(0, blocks, 1, pack_blocks, r);
    td_mem_free(r->gathered, bytes);
    return fine ? 0 : -1;
}

/* A step: c = a w + bias, or c += a w. */
static int again(repeated *r, const void *a, const void *bias, void *c, bool add)
{
    const int64_t columns = r->gates * r->n;
    if (!r->packed && !add)
        return td_gemm_bias(r->type, r->rows, columns, r->k, (td_matrix){a, r->k, 1}, r->w, bias, c, columns);
    if (!r->packed)
        return td_gemm_strided(r->type, r->rows, columns, r->k, td_int(1), (td_matrix){a, r->k, 1}, r->w, td_int(1), c, columns);
    r->a = a, r->bias = bias, r->c = c, r->add = add;
    td_parallel_for(0, td_ceil_div(r->n, r->block), td_grain(r->rows * r->block * r->gates * r->k / 16), multiply_blocks, r);
    return 0;
}

/* gates: [steps][rows][width], the inputs' product and bias for all gates of all steps.  out0: the states of all steps; out1: an
 * LSTM's cells; out2: what the backward pass reads. */
int td_cpu_rnn_layer(td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *b_hh, const td_rnn_geometry *g,
                     td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    td_dtype type = td_compute_dtype(gates);
    TD_AUTO td_tensor *x = td_operand(gates, type), *h0 = td_operand(hx, type), *c0 = td_operand(cx, type),
    *w = td_operand(w_hh, type);
    TD_AUTO td_tensor *b = td_operand(b_hh, type), *y = td_target(out0, type), *c = td_target(out1, type),
    *s = td_target(out2, type);
    if (!x || !h0 || !c0 || !w || !b || !y || !c || !s)
        return -1;
    const int64_t steps = g->steps, rows = g->rows, n = g->width, width = g->gates * n;
    const size_t bytes = (size_t)(rows * width + width) * td_dtype_size(type);  /* the bias comes last */
    char *product = td_mem_alloc(bytes);
    if (!product)
        return -1;
    td_cell_job job = {.mode = g->mode, .n = n, .gh = product, .apart = n, .last = n};
    repeated hidden = {.type = type, .rows = rows, .gates = 1, .n = width, .k = n, .w = {w->data, 1, n}};
    /* One thread alone reads longer runs, and is faster, with the cells in a separate pass. */
    if (td_num_threads() > 1 && n > 0)
        hidden.gates = g->gates, hidden.n = n, hidden.cell = &job;
    int status = prepare(&hidden, steps);
    const char *bias = td_data_or_null(b);
    if (bias && hidden.packed && hidden.cell) {
        char *own = product + rows * width * hidden.size;
        for (int64_t i = 0; i * hidden.block < n; i++)
            gather_gates(&hidden, bias, i, 1, own + i * hidden.block * hidden.gates * hidden.size);
        bias = own;
    }
    for (int64_t i = 0; i < steps && !status; i++) {
        int64_t t = g->reverse ? steps - 1 - i : i, p = before(t, steps, g->reverse);
        job.gx = at(x, t), job.h = at(y, t), job.h_prev = p < 0 ? h0->data : at(y, p);
        job.c = g->mode == TD_RNN_LSTM ? at(c, t) : NULL,
        job.c_prev = g->mode != TD_RNN_LSTM ? NULL : p < 0 ? c0->data : at(c, p);
        job.saved = g->mode >= TD_RNN_LSTM ? at(s, t) : NULL;
        status = again(&hidden, job.h_prev, bias, product, false);
        if (!status && !(hidden.packed && hidden.cell))
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

/* Backpropagation through time: from the last step to the first, dh collects what comes from the step behind (dgh w) and from the
 * step's own result.  Of a GRU the hidden part of the gates has other gradients than the input's, so these are kept apart. */
int td_cpu_rnn_layer_backward(td_tensor *grad, td_tensor *grad_cells, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *result,
                              td_tensor *cells, td_tensor *saved, const td_rnn_geometry *geometry, td_tensor *out0, td_tensor *out1,
                              td_tensor *out2, td_tensor *out3, td_tensor *out4)
{
    const td_rnn_mode mode = geometry->mode;
    const bool reverse = geometry->reverse;
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
    const int64_t steps = geometry->steps, rows = geometry->rows, n = geometry->width, width = geometry->gates * n;
    const int64_t size = (int64_t)td_dtype_size(type);
    bool lstm = mode == TD_RNN_LSTM, gru = mode == TD_RNN_GRU;
    size_t bytes = gru ? (size_t)(steps * rows * width * size) : 0;
    char *hidden = gru ? td_mem_alloc(bytes) : NULL;
    if (gru && !hidden)
        return -1;
    td_tensor *zeroed[] = {dh, dc, dw, db};
    for (int i = 0; i < 4; i++)
        if (zeroed[i] != TD_NONE)
            memset(zeroed[i]->data, 0, (size_t)(zeroed[i]->numel * size));
    repeated back = {.type = type, .rows = rows, .gates = 1, .n = n, .k = width, .w = {w->data, n, 1}};
    int status = prepare(&back, steps);
    td_cell_job job = {.mode = mode, .n = n, .dh = dh->data, .dc = td_data_or_null(dc)};
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
