/* softmax, log_softmax and their gradients on devices: softmax.ck. */
#include "calls_kernels_device_softmax.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/softmax.ck"

TD_SOURCE(softmax);

/* Forward without `result`. */
static int run(bool log, int64_t dim, td_tensor *x, td_tensor *result, td_tensor *out)
{
    const int d = td_wrap_dim(dim, x->ndim ? x->ndim : 1), lanes = td_launch_lanes(x->device);
    softmax_values v = {.n = x->ndim ? x->sizes[d] : 1, .inner = 1};
    if (d < 0 || lanes < 0)
        return -1;
    if (out->numel == 0)
        return 0;
    for (int i = d + 1; i < x->ndim; i++)
        v.inner *= x->sizes[i];
    v.lines = x->numel / v.n;
    td_tensor *const tensors[] = {x, result ? result : out, result ? out : NULL, NULL};
    td_rows rows = td_launch_rows(x->device, v.lines, v.n, 32, v.inner > 1 ? NULL : tensors);
    if (v.inner >= lanes && v.lines >= 8 * lanes)
        rows = (td_rows){1, 1, v.n <= 32 ? (int)td_power_from(v.n) : 0, td_launch_groups(x->device, v.lines)};
    td_launch_of launch = {
        .source = td_source_softmax, TD_VALUES(v), .groups = rows.groups, .kernel = result ? "softmax_gradient" : "softmax",
        .types = {{"A", (td_dtype)x->dtype}, {"B", (td_dtype)out->dtype}, {"R", (td_dtype)(result ? result : out)->dtype}},
        .numbers = {{"LOG", log}, {"PACK", rows.pack}, {"TEAM", rows.team}, {"HELD", rows.held}},
    };
    return result ? TD_LAUNCH_ON(launch, TD_READS(x), TD_READS(result), TD_WRITES(out)) : TD_LAUNCH_ON(launch, TD_READS(x), TD_WRITES(out));
}

int td_on_device__softmax(td_tensor *self, int64_t dim, bool half_to_float, td_tensor *out0)
{
    (void)half_to_float;
    return run(false, dim, self, NULL, out0);
}
int td_on_device__log_softmax(td_tensor *self, int64_t dim, bool half_to_float, td_tensor *out0)
{
    (void)half_to_float;
    return run(true, dim, self, NULL, out0);
}
int td_on_device__softmax_backward_data(td_tensor *grad_output, td_tensor *output, int64_t dim, td_dtype input_dtype, td_tensor *out0)
{
    (void)input_dtype;
    return run(false, dim, grad_output, output, out0);
}
int td_on_device__log_softmax_backward_data(td_tensor *grad_output, td_tensor *output, int64_t dim, td_dtype input_dtype, td_tensor *out0)
{
    (void)input_dtype;
    return run(true, dim, grad_output, output, out0);
}
