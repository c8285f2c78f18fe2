/* Losses of class numbers: nll_loss picks one element per sample; cross entropy goes over each row of logits once.
 *
 * Targets are checked before anything is written.  The sum over samples is one loop in order, in double precision.
 *
 * Shapes and dtypes were checked in src/ops/nn/loss.c. */
#include "calls_kernels_cpu_nn_loss.h"
#include <inttypes.h>
#include "base/base.h"
#include "kernels/cpu/nn/softmax.h"

enum { NONE, MEAN, SUM };

/* Class numbers but for `ignore`, which need not be one. */
static int check_targets(const int64_t *t, int64_t count, int64_t classes, int64_t ignore)
{
    for (int64_t i = 0; i < count; i++)
        if (t[i] != ignore && (t[i] < 0 || t[i] >= classes))
            return td_error(TD_E_INDEX, "Target %" PRId64 " is out of bounds.", t[i]);
    return 0;
}

/* x[i] of any type that a loss is given in. */
static double get(td_dtype type, const void *x, int64_t i)
{
    switch (type) {
    case TD_F64: return ((const double *)x)[i];
    case TD_F16: return td_f16_to_f32(((const uint16_t *)x)[i]);
    case TD_BF16: return td_bf16_to_f32(((const uint16_t *)x)[i]);
    default: return ((const float *)x)[i];
    }
}

/* x[i] = value, float32 or float64: what losses are computed in. */
static void put(td_dtype type, void *x, int64_t i, double value)
{
    if (type == TD_F64)
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

typedef struct layout { int64_t outer, classes, inner; } layout;

/* Logits are [classes], [outer][classes] or [outer][classes][inner...]. */
static layout layout_of(const td_tensor *self)
{
    layout l = {1, self->sizes[self->ndim == 1 ? 0 : 1], 1};
    if (self->ndim > 1)
        l.outer = self->sizes[0];
    for (int i = 2; i < self->ndim; i++)
        l.inner *= self->sizes[i];
    return l;
}

/* -sum of w[t] x[t], over the sum of w[t] for the mean; targets equal to `ignore` count in neither.  out1: the sum of weights,
 * which the backward pass divides by. */
int td_cpu_nll_loss_forward(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore,
                            td_tensor *out0,
                            td_tensor *out1)
{
    td_dtype type = td_compute_dtype(self);
    layout l = layout_of(self);
    /* Of halves only the elements that are picked are converted. */
    TD_AUTO td_tensor *x = td_dtype_is_floating((td_dtype)self->dtype) ? td_make_contiguous(self) : td_operand(self, type);
    TD_AUTO td_tensor *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type);
    TD_AUTO td_tensor *y = td_target(out0, type), *total = td_target(out1, type);
    if (!x || !t || !w || !y || !total)
        return -1;
    const int64_t *at = (const int64_t *)t->data;
    if (check_targets(at, l.outer * l.inner, l.classes, ignore))
        return -1;
    bool each = reduction == NONE && self->ndim > 1;
    double sum = 0, weights = 0;
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t row = o * l.inner + i, c = at[row];
            double loss = 0, own = 0;
            if (c != ignore) {
                own = w == TD_NONE ? 1 : get(type, w->data, c);
                loss = -own * get((td_dtype)x->dtype, x->data, (o * l.classes + c) * l.inner + i);
            }
            sum += loss, weights += own;
            if (each)
                put(type, y->data, row, loss);
        }
    if (!each)
        put(type, y->data, 0, reduction == MEAN ? sum / weights : sum);
    put(type, total->data, 0, reduction == NONE ? 0 : weights);
    return td_finish(out0, y) || td_finish(out1, total) ? -1 : 0;
}

/* One element of each sample has a gradient: -w[t] g, over the sum of weights for the mean. */
int td_cpu_nll_loss_backward(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
                             int64_t ignore,
                             td_tensor *total, td_tensor *out)
{
    td_dtype type = td_compute_dtype(self);
    layout l = layout_of(self);
    TD_AUTO td_tensor *g = td_operand(grad, type), *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type);
    TD_AUTO td_tensor *sum = td_operand(total, type), *dx = td_target(out, type);
    if (!g || !t || !w || !sum || !dx)
        return -1;
    const int64_t *at = (const int64_t *)t->data;
    if (check_targets(at, l.outer * l.inner, l.classes, ignore))
        return -1;
    memset(dx->data, 0, (size_t)(dx->numel * td_itemsize(dx)));
    bool each = reduction == NONE && self->ndim > 1;
    double scale = reduction == MEAN ? 1 / get(type, sum->data, 0) : 1;
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t row = o * l.inner + i, c = at[row];
            if (c != ignore)
                put(type, dx->data, (o * l.classes + c) * l.inner + i,
                    -get(type, g->data, each ? row : 0) * scale * (w == TD_NONE ? 1 : get(type, w->data, c)));
        }
    return td_finish(out, dx);
}

/* Log-softmax and nll_loss in one pass over the logits (softmax_isa.c), without a matrix of probabilities.  Rows are shared by
 * threads; their losses are added up afterwards, in order.  out1: logsumexp of each row; out2: the sum of weights. */
int td_cpu_cross_entropy_rows(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore,
                              double smoothing,
                              td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    td_dtype type = td_compute_dtype(self);
    int64_t rows = self->sizes[0], n = self->sizes[1];
    TD_AUTO td_tensor *x = td_operand(self, type), *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type);
    TD_AUTO td_tensor *losses = td_tensor_new(1, &rows, type, self->device);
    if (!x || !t || !w || !losses)
        return -1;
    const int64_t *at = (const int64_t *)t->data;
    if (check_targets(at, rows, n, ignore))
        return -1;
    td_entropy_job job = {.n = n, .ignore = ignore, .x = x->data, .weight = td_data_or_null(w), .target = at,
                          .smoothing = smoothing,
                          .loss = losses->data, .lse = out1->data};
    td_parallel_for(0, rows, td_grain(10 * n), TD_ISA_PICK(td_softmax_table)->entropy[type == TD_F64], &job);
    double sum = 0, weights = 0;
    for (int64_t i = 0; i < rows; i++) {
        sum += get(type, losses->data, i);
        weights += at[i] == ignore ? 0 : w == TD_NONE ? 1 : get(type, w->data, at[i]);
    }
    put(type, out2->data, 0, weights);
    if (reduction == NONE)
        return td_copy_elements(out0, losses);
    TD_AUTO td_tensor *y = td_target(out0, type);
    if (!y)
        return -1;
    put(type, y->data, 0, reduction == MEAN ? sum / weights : sum);
    return td_finish(out0, y);
}

/* Probabilities are computed again from the logits and their logsumexp: one pass, bound by memory and exponentials. */
int td_cpu_cross_entropy_rows_backward(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight,
                                       td_tensor *lse,
                                       td_tensor *total, int64_t reduction, int64_t ignore, double smoothing,
                                       td_tensor *out)
{
    td_dtype type = td_compute_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type);
    TD_AUTO td_tensor *g = td_operand(grad, type), *dx = td_target(out, type), *l = td_operand(lse, type);
    TD_AUTO td_tensor *all = td_operand(total, type);
    if (!x || !t || !w || !g || !dx || !l || !all)
        return -1;
    td_entropy_job job = {.n = self->sizes[1], .ignore = ignore, .x = x->data, .weight = td_data_or_null(w),
                          .target = (const int64_t *)t->data, .smoothing = smoothing, .grad = g->data, .lse = l->data,
                          .grad_rows = reduction == NONE, .dx = dx->data,
                          .grad_scale = reduction == MEAN ? 1 / get(type, all->data, 0) : 1};
    td_parallel_for(0, self->sizes[0], td_grain(8 * job.n),
                    TD_ISA_PICK(td_softmax_table)->entropy_backward[type == TD_F64], &job);
    return td_finish(out, dx);
}

/* The smoothed and weighted one-hot rows that class numbers stand for: 0 for rows that are ignored. */
int td_cpu_cross_entropy_targets(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t ignore,
                                 double smoothing, td_tensor *out)
{
    td_dtype type = td_compute_dtype(self);
    TD_AUTO td_tensor *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type), *y = td_target(out, type);
    if (!t || !w || !y)
        return -1;
    int64_t n = self->sizes[1];
    for (int64_t r = 0; r < self->sizes[0]; r++) {
        int64_t at = ((const int64_t *)t->data)[r];
        for (int64_t c = 0; c < n; c++) {
            double own = w == TD_NONE ? 1 : get(type, w->data, c);
            put(type, y->data, r * n + c, at == ignore ? 0 : own * (smoothing / (double)n + (c == at ? 1 - smoothing : 0)));
        }
    }
    return td_finish(out, y);
}
