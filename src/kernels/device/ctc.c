/* ctc_loss on devices: ctc.ck. */
#include "calls_kernels_device_ctc.h"
#include "kernels/device/kernel.h"
#include "ops/nn/ctc.h"
#define TD_HOST
#include "kernels/device/ctc.ck"

TD_SOURCE(ctc);

/* Operands in order, and sizes of samples.  Labels are checked by the CPU, and lengths come from there. */
typedef struct operands { td_tensor *lp, *labels, *sizes; ctc_values v; } operands;

static void drop(operands *o) { td_tensor_release(o->lp), td_tensor_release(o->labels), td_tensor_release(o->sizes); }

static int prepare(operands *o, td_tensor *lp, td_tensor *targets, const int64_t *input, const int64_t *target, td_tensor *alpha, int64_t blank,
                   bool zero_infinity)
{
    const int64_t batch = lp->sizes[1], shape[2] = {3, batch};
    o->v = (ctc_values){lp->sizes[0], batch, lp->sizes[2], alpha->sizes[2], blank, zero_infinity};
    o->lp = td_make_contiguous(lp), o->labels = td_as_contiguous(targets, TD_I64);
    TD_AUTO td_tensor *labels = o->labels ? td_host_copy(o->labels) : NULL, *sizes = td_tensor_new(2, shape, TD_I64, (td_device){TD_CPU, -1});
    if (!o->lp || !labels || !sizes || td_ctc_begins(labels, batch, o->v.classes, target, (int64_t *)sizes->data))
        return -1;
    for (int64_t b = 0; b < batch; b++)
        ((int64_t *)sizes->data)[batch + b] = input[b], ((int64_t *)sizes->data)[2 * batch + b] = target[b];
    return (o->sizes = td_device_copy(sizes, lp->device)) ? 0 : -1;
}

static int paths(const operands *o, bool back, td_tensor *to, td_tensor *nll)
{
    return td_launch(&(td_launch_of){.source = td_source_ctc, .kernel = "ctc_paths", .values = &o->v, .size = sizeof o->v, .numbers = {{"BACK", back}},
                                     .types = {{"A", (td_dtype)o->lp->dtype}}, .buffers = {o->lp, o->labels, o->sizes, to, nll},
                                     .groups = td_launch_many(to->device, o->v.batch)});
}

int td_on_device__ctc_loss(td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input, int64_t n_target, const int64_t *target,
                           int64_t blank, bool zero_infinity, td_tensor *out0, td_tensor *out1)
{
    (void)n_input, (void)n_target;
    operands o = {0};
    const int status = prepare(&o, log_probs, targets, input, target, out1, blank, zero_infinity) || paths(&o, false, out1, out0) ? -1 : 0;
    drop(&o);
    return status;
}

int td_on_device__ctc_loss_backward(td_tensor *grad, td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input, int64_t n_target,
                                    const int64_t *target, td_tensor *nll, td_tensor *log_alpha, int64_t blank, bool zero_infinity, td_tensor *out0)
{
    (void)n_input, (void)n_target;
    operands o = {0};
    TD_AUTO td_tensor *g = td_make_contiguous(grad), *loss = td_make_contiguous(nll), *alpha = td_make_contiguous(log_alpha);
    TD_AUTO td_tensor *beta = alpha ? td_tensor_new(3, alpha->sizes, (td_dtype)alpha->dtype, alpha->device) : NULL;
    TD_AUTO td_tensor *y = td_writable(out0, (td_dtype)out0->dtype);
    int status = !g || !loss || !beta || !y || prepare(&o, log_probs, targets, input, target, alpha, blank, zero_infinity) || paths(&o, true, beta, beta);
    td_launch_of slopes = {.source = td_source_ctc, .kernel = "ctc_slopes", TD_VALUES(o.v), .types = {{"A", (td_dtype)log_probs->dtype}},
                           .buffers = {o.lp, o.labels, o.sizes, alpha, beta, loss, g, y}};
    slopes.groups = td_launch_many(log_probs->device, o.v.steps * o.v.batch);
    status = status || td_launch(&slopes);
    drop(&o);
    return status || td_write_back(out0, y) ? -1 : 0;
}
