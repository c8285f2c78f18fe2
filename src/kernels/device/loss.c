/* Cross entropy, nll_loss and margin losses on devices: loss.ck. */
#include "calls_kernels_device_loss.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/loss.ck"

TD_SOURCE(loss);

static td_dtype dtype_of(const td_tensor *x, const td_tensor *otherwise) { return (td_dtype)(x == TD_NONE ? otherwise : x)->dtype; }

/* [classes], [outer][classes] or [outer][classes][inner...]. */
static loss_values layout_of(const td_tensor *x, const td_tensor *weight, int64_t reduction, int64_t ignore)
{
    loss_values v = {.outer = x->ndim > 1 ? x->sizes[0] : 1, .classes = x->ndim ? x->sizes[x->ndim > 1] : 1, .inner = 1, .ignore = ignore,
                     .reduction = reduction, .weight = weight != TD_NONE, .each = reduction == LOSS_NONE && x->ndim > 1};
    for (int d = 2; d < x->ndim; d++)
        v.inner *= x->sizes[d];
    v.rows = v.outer * v.inner;
    return v;
}

/* The kernel notes a target that is no class, as the CPU reports it. */
static index_limits classes_of(const loss_values *v, const char *op) { return td_index_limits(0, v->classes, TD_E_INDEX, op, "Target %lld is out of bounds.", 0); }

/* Types W, T and G are those of x where an operand isn't there. */
static td_launch_of launch_of(const char *kernel, const loss_values *v, const td_tensor *x, td_tensor *weight, td_tensor *wide, td_tensor *grad)
{
    return (td_launch_of){.source = td_source_loss, .kernel = kernel, .values = v, .size = sizeof *v, .groups = td_launch_many(x->device, v->rows),
                          .types = {{"A", (td_dtype)x->dtype}, {"W", dtype_of(weight, x)}, {"T", dtype_of(wide, x)}, {"G", dtype_of(grad, x)},
                                    {"C", td_compute_dtype(x)}},
                          .late = v->limits.kind != 0};
}

static td_launch_of by_elements(td_launch_of launch, const td_tensor *out)
{
    launch.groups = td_launch_groups(out->device, out->numel);
    return launch;
}

static td_tensor *new_pairs(const loss_values *v, const td_tensor *x)
{
    return td_tensor_new(1, (int64_t[]){2 * v->rows}, td_compute_dtype(x), x->device);
}
/* The result, where each sample's loss is one. */
static td_tensor *each_of(const loss_values *v, td_tensor *out) { return v->each ? out : TD_NONE; }

/* A result and the sum of weights (or TD_NONE) from what samples have. */
static int sum_pairs(loss_values v, const td_tensor *x, td_tensor *pairs, td_tensor *out, td_tensor *total)
{
    const td_device_properties *device = td_device_known(x->device);
    if (!device || (v.each && total == TD_NONE))
        return device ? 0 : -1;
    int64_t parts = v.rows / (8 * (int64_t)device->lanes), most = (int64_t)device->units * 4;
    parts = parts < most ? parts : most;
    v.pairs = v.rows, v.limits.kind = 0;
    TD_AUTO td_tensor *some = parts > 1 ? td_tensor_new(1, (int64_t[]){2 * parts}, td_compute_dtype(x), x->device) : td_tensor_retain(pairs);
    td_launch_of launch = launch_of("loss_parts", &v, x, TD_NONE, total, TD_NONE);
    launch.groups = parts;
    if (!some || (parts > 1 && TD_LAUNCH_ON(launch, TD_READS(pairs), TD_WRITES(some))))
        return -1;
    v.pairs = parts > 1 ? parts : v.rows;
    launch.kernel = "loss_end", launch.groups = 1;
    return TD_LAUNCH_ON(launch, TD_READS(some), TD_WRITES(v.each ? TD_NONE : out), TD_WRITES(total));
}

/* ---- cross entropy */

int td_on_device_cross_entropy_rows(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore, double smoothing,
                                    td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    v.smoothing = td_number(smoothing), v.ends = LOSS_TOTAL, v.limits = classes_of(&v, "cross_entropy");
    TD_AUTO td_tensor *pairs = new_pairs(&v, self);
    return TD_LAUNCH_ON(launch_of("loss_rows", &v, self, weight, out1, TD_NONE), TD_READS(self), TD_READS_AS(target, TD_I64), TD_READS(weight),
                        TD_WRITES(pairs), TD_WRITES(out1), TD_WRITES(each_of(&v, out0))) || sum_pairs(v, self, pairs, out0, out2) ? -1 : 0;
}

int td_on_device_cross_entropy_rows_backward(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight, td_tensor *lse, td_tensor *total,
                                             int64_t reduction, int64_t ignore, double smoothing, td_tensor *out)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    v.smoothing = td_number(smoothing);
    return TD_LAUNCH_ON(launch_of("loss_rows_backward", &v, self, weight, lse, grad), TD_READS(grad), TD_READS(self), TD_READS_AS(target, TD_I64),
                        TD_READS(weight), TD_READS(lse), TD_READS_AS(total, (td_dtype)lse->dtype), TD_WRITES(out));
}

int td_on_device_cross_entropy_targets(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t ignore, double smoothing, td_tensor *out)
{
    loss_values v = layout_of(self, weight, LOSS_NONE, ignore);
    v.smoothing = td_number(smoothing), v.limits = classes_of(&v, "cross_entropy");
    return TD_LAUNCH_ON(by_elements(launch_of("loss_targets", &v, out, weight, TD_NONE, TD_NONE), out), TD_READS_AS(target, TD_I64), TD_READS(weight),
                        TD_WRITES(out));
}

/* ---- nll_loss */

int td_on_device_nll_loss_forward(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore, td_tensor *out0,
                                  td_tensor *out1)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    v.ends = reduction == LOSS_NONE ? LOSS_NO_TOTAL : LOSS_TOTAL, v.limits = classes_of(&v, "nll_loss");
    TD_AUTO td_tensor *pairs = new_pairs(&v, self);
    td_launch_of launch = launch_of("loss_nll", &v, self, weight, out1, TD_NONE);
    launch.groups = td_launch_groups(self->device, v.rows);
    return TD_LAUNCH_ON(launch, TD_READS(self), TD_READS_AS(target, TD_I64), TD_READS(weight), TD_WRITES(pairs), TD_WRITES(each_of(&v, out0))) ||
           sum_pairs(v, self, pairs, out0, out1) ? -1 : 0;
}

int td_on_device_nll_loss_backward(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore,
                                   td_tensor *total, td_tensor *out)
{
    const loss_values v = layout_of(self, weight, reduction, ignore);
    return TD_LAUNCH_ON(by_elements(launch_of("loss_nll_backward", &v, out, weight, total, grad), out), TD_READS(grad), TD_READS_AS(target, TD_I64),
                        TD_READS(weight), TD_READS(total), TD_WRITES(out));
}

/* ---- margins */

/* A vector is one sample. */
static loss_values samples_of(const td_tensor *x, const td_tensor *weight, int64_t reduction)
{
    loss_values v = {.outer = x->ndim == 2 ? x->sizes[0] : 1, .classes = x->ndim ? x->sizes[x->ndim - 1] : 1, .inner = 1, .weight = weight != TD_NONE};
    v.rows = v.outer;
    v.reduction = reduction == LOSS_MEAN && v.rows == 0 ? LOSS_SUM : reduction;
    v.each = reduction == LOSS_NONE;
    return v;
}
static loss_values margins_of(const td_tensor *x, const td_tensor *weight, int64_t reduction, td_scalar p, td_scalar margin)
{
    loss_values v = samples_of(x, weight, reduction);
    v.square = td_scalar_double(p) == 2, v.margin = td_number(td_scalar_double(margin));
    return v;
}

int td_on_device_multi_margin_loss(td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin, td_tensor *weight, int64_t reduction,
                                   td_tensor *out)
{
    loss_values v = margins_of(self, weight, reduction, p, margin);
    v.limits = td_index_limits(0, v.classes, TD_E_RUNTIME, "multi_margin_loss", "target out of range", 0);
    TD_AUTO td_tensor *pairs = new_pairs(&v, self);
    return TD_LAUNCH_ON(launch_of("loss_margin", &v, self, weight, TD_NONE, TD_NONE), TD_READS(self), TD_READS_AS(target, TD_I64), TD_READS(weight),
                        TD_WRITES(pairs), TD_WRITES(each_of(&v, out))) || sum_pairs(v, self, pairs, out, TD_NONE) ? -1 : 0;
}

int td_on_device_multi_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin, td_tensor *weight,
                                            int64_t reduction, td_tensor *out)
{
    const loss_values v = margins_of(self, weight, reduction, p, margin);
    return TD_LAUNCH_ON(launch_of("loss_margin_backward", &v, self, weight, TD_NONE, grad_output), TD_READS(grad_output), TD_READS(self),
                        TD_READS_AS(target, TD_I64), TD_READS(weight), TD_WRITES(out));
}

/* Of dtypes that aren't float32 or float64 there is nothing: the CPU sees to that. */
static bool has_margins(const td_tensor *x) { return x->dtype == TD_F32 || x->dtype == TD_F64; }

int td_on_device_multilabel_margin_loss_forward(td_tensor *self, td_tensor *target, int64_t reduction, td_tensor *out0, td_tensor *out1)
{
    loss_values v = samples_of(self, TD_NONE, reduction);
    if (!has_margins(self))
        return td_leave_to_cpu("other dtypes than float32 and float64");
    v.limits = td_index_limits(-1, v.classes, TD_E_RUNTIME, "multilabel_margin_loss", "argument #2 'target' is out of range", 0);
    TD_AUTO td_tensor *pairs = new_pairs(&v, self);
    return TD_LAUNCH_ON(launch_of("loss_labels", &v, self, TD_NONE, TD_NONE, TD_NONE), TD_READS(self), TD_READS_AS(target, TD_I64), TD_WRITES(out1),
                        TD_WRITES(pairs), TD_WRITES(each_of(&v, out0))) || sum_pairs(v, self, pairs, out0, TD_NONE) ? -1 : 0;
}

int td_on_device_multilabel_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target, int64_t reduction, td_tensor *is_target,
                                                 td_tensor *out)
{
    const loss_values v = samples_of(self, TD_NONE, reduction);
    if (!has_margins(self))
        return td_leave_to_cpu("other dtypes than float32 and float64");
    return TD_LAUNCH_ON(launch_of("loss_labels_backward", &v, self, TD_NONE, TD_NONE, grad_output), TD_READS(grad_output), TD_READS(self),
                        TD_READS_AS(target, TD_I64), TD_READS_AS(is_target, (td_dtype)self->dtype), TD_WRITES(out));
}
