/* Cross entropy, nll_loss and margin losses on devices: loss.ck. */
#include "calls_kernels_device_loss.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/loss.ck"

TD_SOURCE(loss);

static td_dtype compute_of(const td_tensor *x) { return x->dtype == TD_F64 ? TD_F64 : TD_F32; }
static td_dtype dtype_of(const td_tensor *x, const td_tensor *otherwise) { return (td_dtype)(x == TD_NONE ? otherwise : x)->dtype; }
static td_tensor *contiguous(td_tensor *x) { return x == TD_NONE ? td_tensor_retain(x) : td_make_contiguous(x); }

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

/* Types W, T and G are those of x where an operand isn't there. */
static td_launch_of launch_of(const char *kernel, const loss_values *v, const td_tensor *x, td_tensor *weight, td_tensor *wide, td_tensor *grad)
{
    return (td_launch_of){.source = td_source_loss, .kernel = kernel, .values = v, .size = sizeof *v, .groups = td_launch_many(x->device, v->rows),
                          .types = {{"A", (td_dtype)x->dtype}, {"W", dtype_of(weight, x)}, {"T", dtype_of(wide, x)}, {"G", dtype_of(grad, x)},
                                    {"C", compute_of(x)}}};
}

/* A result and the sum of weights (or TD_NONE) from what samples have. */
static int sum_pairs(loss_values v, const td_tensor *x, td_tensor *pairs, td_tensor *out, td_tensor *total)
{
    const td_device_properties *device = td_device_known(x->device);
    if (!device || (v.each && total == TD_NONE))
        return device ? 0 : -1;
    int64_t parts = v.rows / (8 * (int64_t)device->lanes), most = (int64_t)device->units * 4;
    parts = parts < most ? parts : most;
    v.pairs = v.rows;
    TD_AUTO td_tensor *some = parts > 1 ? td_tensor_new(1, (int64_t[]){2 * parts}, compute_of(x), x->device) : td_tensor_retain(pairs);
    TD_AUTO td_tensor *y = v.each ? td_tensor_retain(TD_NONE) : td_writable(out, (td_dtype)out->dtype);
    if (!some || !y)
        return -1;
    td_launch_of launch = launch_of("loss_parts", &v, x, TD_NONE, total, TD_NONE);
    launch.buffers[0] = pairs, launch.buffers[1] = some, launch.groups = parts;
    if (parts > 1 && td_launch(&launch))
        return -1;
    v.pairs = parts > 1 ? parts : v.rows;
    launch.kernel = "loss_end", launch.groups = 1;
    launch.buffers[0] = some, launch.buffers[1] = y, launch.buffers[2] = total;
    if (some->numel == 0)
        launch.buffers[0] = v.each ? total : y;
    return td_launch(&launch) || (!v.each && td_write_back(out, y)) ? -1 : 0;
}
static td_tensor *new_pairs(const loss_values *v, const td_tensor *x)
{
    return td_tensor_new(1, (int64_t[]){2 * v->rows}, compute_of(x), x->device);
}

/* ---- cross entropy */

int td_on_device_cross_entropy_rows(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore, double smoothing,
                                    td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    v.smoothing = td_number(smoothing), v.ends = LOSS_TOTAL;
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *pairs = new_pairs(&v, self);
    TD_AUTO td_tensor *y = v.each ? td_writable(out0, (td_dtype)out0->dtype) : td_tensor_retain(TD_NONE);
    if (!x || !t || !w || !y || !pairs)
        return -1;
    td_launch_of launch = launch_of("loss_rows", &v, x, w, out1, TD_NONE);
    td_tensor *const buffers[] = {x, t, w, pairs, out1, y};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || (v.each && td_write_back(out0, y)) || sum_pairs(v, x, pairs, out0, out2) ? -1 : 0;
}

int td_on_device_cross_entropy_rows_backward(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight, td_tensor *lse, td_tensor *total,
                                             int64_t reduction, int64_t ignore, double smoothing, td_tensor *out)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    v.smoothing = td_number(smoothing);
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *g = td_make_contiguous(grad);
    TD_AUTO td_tensor *l = td_make_contiguous(lse), *all = td_as_contiguous(total, (td_dtype)lse->dtype), *dx = td_writable(out, (td_dtype)out->dtype);
    if (!x || !t || !w || !g || !l || !all || !dx)
        return -1;
    td_launch_of launch = launch_of("loss_rows_backward", &v, x, w, l, g);
    td_tensor *const buffers[] = {g, x, t, w, l, all, dx};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || td_write_back(out, dx) ? -1 : 0;
}

int td_on_device_cross_entropy_targets(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t ignore, double smoothing, td_tensor *out)
{
    loss_values v = layout_of(self, weight, LOSS_NONE, ignore);
    v.smoothing = td_number(smoothing);
    TD_AUTO td_tensor *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *y = td_writable(out, (td_dtype)out->dtype);
    if (!t || !w || !y)
        return -1;
    td_launch_of launch = launch_of("loss_targets", &v, y, w, TD_NONE, TD_NONE);
    launch.groups = td_launch_groups(y->device, y->numel);
    launch.buffers[0] = t, launch.buffers[1] = w, launch.buffers[2] = y;
    return td_launch(&launch) || td_write_back(out, y) ? -1 : 0;
}

/* ---- nll_loss */

int td_on_device_nll_loss_forward(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore, td_tensor *out0,
                                  td_tensor *out1)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    v.ends = reduction == LOSS_NONE ? LOSS_NO_TOTAL : LOSS_TOTAL;
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *pairs = new_pairs(&v, self);
    TD_AUTO td_tensor *y = v.each ? td_writable(out0, (td_dtype)out0->dtype) : td_tensor_retain(TD_NONE), *total = td_writable(out1, (td_dtype)out1->dtype);
    if (!x || !t || !w || !y || !pairs || !total)
        return -1;
    td_launch_of launch = launch_of("loss_nll", &v, x, w, total, TD_NONE);
    launch.groups = td_launch_groups(x->device, v.rows);
    td_tensor *const buffers[] = {x, t, w, pairs, y};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || (v.each && td_write_back(out0, y)) || sum_pairs(v, x, pairs, out0, total) || td_write_back(out1, total) ? -1 : 0;
}

int td_on_device_nll_loss_backward(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore,
                                   td_tensor *total, td_tensor *out)
{
    loss_values v = layout_of(self, weight, reduction, ignore);
    TD_AUTO td_tensor *g = td_make_contiguous(grad), *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *sum = td_make_contiguous(total);
    TD_AUTO td_tensor *dx = td_writable(out, (td_dtype)out->dtype);
    if (!g || !t || !w || !sum || !dx)
        return -1;
    td_launch_of launch = launch_of("loss_nll_backward", &v, dx, w, sum, g);
    launch.groups = td_launch_groups(dx->device, dx->numel);
    td_tensor *const buffers[] = {g, t, w, sum, dx};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || td_write_back(out, dx) ? -1 : 0;
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

int td_on_device_multi_margin_loss(td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin, td_tensor *weight, int64_t reduction,
                                   td_tensor *out)
{
    loss_values v = samples_of(self, weight, reduction);
    v.square = td_scalar_double(p) == 2, v.margin = td_number(td_scalar_double(margin));
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *pairs = new_pairs(&v, self);
    TD_AUTO td_tensor *y = v.each ? td_writable(out, (td_dtype)out->dtype) : td_tensor_retain(TD_NONE);
    if (!x || !t || !w || !y || !pairs)
        return -1;
    td_launch_of launch = launch_of("loss_margin", &v, x, w, TD_NONE, TD_NONE);
    td_tensor *const buffers[] = {x, t, w, pairs, y};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || (v.each && td_write_back(out, y)) || sum_pairs(v, x, pairs, out, TD_NONE) ? -1 : 0;
}

int td_on_device_multi_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin, td_tensor *weight,
                                            int64_t reduction, td_tensor *out)
{
    loss_values v = samples_of(self, weight, reduction);
    v.square = td_scalar_double(p) == 2, v.margin = td_number(td_scalar_double(margin));
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *w = contiguous(weight), *g = td_make_contiguous(grad_output);
    TD_AUTO td_tensor *dx = td_writable(out, (td_dtype)out->dtype);
    if (!x || !t || !w || !g || !dx)
        return -1;
    td_launch_of launch = launch_of("loss_margin_backward", &v, x, w, TD_NONE, g);
    td_tensor *const buffers[] = {g, x, t, w, dx};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || td_write_back(out, dx) ? -1 : 0;
}

/* Of dtypes that aren't float32 or float64 there is nothing: the CPU sees to that. */
static bool has_margins(const td_tensor *x) { return x->dtype == TD_F32 || x->dtype == TD_F64; }

int td_on_device_multilabel_margin_loss_forward(td_tensor *self, td_tensor *target, int64_t reduction, td_tensor *out0, td_tensor *out1)
{
    loss_values v = samples_of(self, TD_NONE, reduction);
    if (!has_margins(self))
        return td_leave_to_cpu("other dtypes than float32 and float64");
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *pairs = new_pairs(&v, self);
    TD_AUTO td_tensor *y = v.each ? td_writable(out0, (td_dtype)out0->dtype) : td_tensor_retain(TD_NONE), *is = td_writable(out1, (td_dtype)out1->dtype);
    if (!x || !t || !y || !pairs || !is)
        return -1;
    td_launch_of launch = launch_of("loss_labels", &v, x, TD_NONE, TD_NONE, TD_NONE);
    td_tensor *const buffers[] = {x, t, is, pairs, y};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || (v.each && td_write_back(out0, y)) || td_write_back(out1, is) || sum_pairs(v, x, pairs, out0, TD_NONE) ? -1 : 0;
}

int td_on_device_multilabel_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target, int64_t reduction, td_tensor *is_target,
                                                 td_tensor *out)
{
    loss_values v = samples_of(self, TD_NONE, reduction);
    if (!has_margins(self))
        return td_leave_to_cpu("other dtypes than float32 and float64");
    TD_AUTO td_tensor *x = td_make_contiguous(self), *t = td_as_contiguous(target, TD_I64), *g = td_make_contiguous(grad_output);
    TD_AUTO td_tensor *is = td_as_contiguous(is_target, (td_dtype)self->dtype), *dx = td_writable(out, (td_dtype)out->dtype);
    if (!x || !t || !g || !is || !dx)
        return -1;
    td_launch_of launch = launch_of("loss_labels_backward", &v, x, TD_NONE, TD_NONE, g);
    td_tensor *const buffers[] = {g, x, t, is, dx};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || td_write_back(out, dx) ? -1 : 0;
}
