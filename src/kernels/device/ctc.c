/* ctc_loss on devices: ctc.ck. */
#include "calls_kernels_device_ctc.h"
#include "kernels/device/kernel.h"
#include "ops/nn/ctc.h"
#define TD_HOST
#include "kernels/device/ctc.ck"

TD_SOURCE(ctc);

/* Where each sample's labels begin, its steps and its labels, on the device.  Labels are checked by the CPU, and lengths come from there. */
static td_tensor *sizes_of(td_tensor *lp, td_tensor *targets, const int64_t *input, const int64_t *target)
{
    const int64_t batch = lp->sizes[1], shape[2] = {3, batch};
    TD_AUTO td_tensor *own = td_as_contiguous(targets, TD_I64), *labels = own ? td_host_copy(own) : NULL;
    TD_AUTO td_tensor *sizes = td_tensor_new(2, shape, TD_I64, (td_device){TD_CPU, -1});
    if (!labels || !sizes || td_ctc_begins(labels, batch, lp->sizes[2], target, (int64_t *)sizes->data))
        return NULL;
    for (int64_t b = 0; b < batch; b++)
        ((int64_t *)sizes->data)[batch + b] = input[b], ((int64_t *)sizes->data)[2 * batch + b] = target[b];
    return td_device_copy(sizes, lp->device);
}

static td_launch_of launch_of(const char *kernel, const ctc_values *v, const td_tensor *lp, int64_t groups)
{
    return (td_launch_of){.source = td_source_ctc, .kernel = kernel, .values = v, .size = sizeof *v, .types = {{"A", (td_dtype)lp->dtype}},
                          .groups = td_launch_many(lp->device, groups)};
}

int td_on_device__ctc_loss(td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input, int64_t n_target, const int64_t *target,
                           int64_t blank, bool zero_infinity, td_tensor *out0, td_tensor *out1)
{
    (void)n_input, (void)n_target;
    const ctc_values v = {log_probs->sizes[0], log_probs->sizes[1], log_probs->sizes[2], out1->sizes[2], blank, zero_infinity};
    TD_AUTO td_tensor *sizes = sizes_of(log_probs, targets, input, target);
    td_launch_of launch = launch_of("ctc_paths", &v, log_probs, v.batch);
    launch.numbers[0] = (td_source_number){"BACK", 0};
    return TD_LAUNCH_ON(launch, TD_READS(log_probs), TD_READS_AS(targets, TD_I64), TD_READS(sizes), TD_WRITES(out1), TD_WRITES(out0));
}

int td_on_device__ctc_loss_backward(td_tensor *grad, td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input, int64_t n_target,
                                    const int64_t *target, td_tensor *nll, td_tensor *log_alpha, int64_t blank, bool zero_infinity, td_tensor *out0)
{
    (void)n_input, (void)n_target;
    const ctc_values v = {log_probs->sizes[0], log_probs->sizes[1], log_probs->sizes[2], log_alpha->sizes[2], blank, zero_infinity};
    TD_AUTO td_tensor *sizes = sizes_of(log_probs, targets, input, target);
    TD_AUTO td_tensor *beta = td_tensor_new(3, log_alpha->sizes, (td_dtype)log_alpha->dtype, log_alpha->device);
    td_launch_of launch = launch_of("ctc_paths", &v, log_probs, v.batch);
    launch.numbers[0] = (td_source_number){"BACK", 1};
    if (!sizes || !beta || TD_LAUNCH_ON(launch, TD_READS(log_probs), TD_READS_AS(targets, TD_I64), TD_READS(sizes), TD_WRITES(beta), TD_READS(beta)))
        return -1;
    return TD_LAUNCH_ON(launch_of("ctc_slopes", &v, log_probs, v.steps * v.batch), TD_READS(log_probs), TD_READS_AS(targets, TD_I64), TD_READS(sizes),
                        TD_READS(log_alpha), TD_READS(beta), TD_READS(nll), TD_READS(grad), TD_WRITES(out0));
}
