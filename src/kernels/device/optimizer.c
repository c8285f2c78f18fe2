/* Fused optimizer steps on devices: optimizer.ck.  Nothing is read back: the step, an overflow and the rest stay on the device. */
#include "calls_kernels_device_optimizer.h"
#include <inttypes.h>
#include <math.h>
#include "kernels/device/kernel.h"
#include "ops/nn/fused.h"
#define TD_HOST
#include "kernels/device/optimizer.ck"

TD_SOURCE(optimizer);

enum { STATES = 3 };

/* A call: numbers for all parameters, in double. */
typedef struct call {
    const char *op, *kernel;
    int         has, takes;                 /* takes: a bit for each of parameter, gradient and states that the kernel has an argument for */
    double      lr, decay, eps, one, two;
    td_tensor  *rate, *scale, *found;       /* TD_NONE: not there */
} call;

static int check_lists(const char *op, int64_t n, const int64_t *counts, int lists)
{
    for (int i = 0; i < lists; i++)
        if (counts[i] != n)
            return td_error(TD_E_RUNTIME, "%s: got %" PRId64 " parameters but a list of %" PRId64 " tensors with them", op, n, counts[i]);
    return 0;
}

/* A model has hundreds of small parameters, for which a launch costs more than the step (some microseconds against less than one): so many
 * are one launch, whose work items find their parameter by bisection.  Their addresses travel as values, which is why they must stay.
 *
 * Steps that wait to be launched together: with the same numbers, but for the size, the same dtype, on one device. */
typedef struct waiting { many_steps v; int64_t groups; td_dtype dtype; td_tensor *some; } waiting;

static td_launch_of launch_of(const call *c, td_dtype dtype, bool many)
{
    const bool wide = dtype == TD_F64;
    return (td_launch_of){.source = td_source_optimizer, .kernel = c->kernel, .types = {{"A", dtype}, {"U", wide ? TD_F64 : TD_F32}},
                          .numbers = {{"WIDE", wide}, {"MANY", many}}};
}

static int flush(const call *c, waiting *w)
{
    if (!w->v.count)
        return 0;
    td_launch_of launch = launch_of(c, w->dtype, true);
    td_tensor *const buffers[] = {w->some, c->rate, c->scale, c->found};
    memcpy(launch.buffers, buffers, sizeof buffers);
    launch.values = &w->v, launch.size = sizeof w->v, launch.groups = w->groups;
    w->v.starts[w->v.count] = w->groups;
    const int status = td_launch(&launch);
    w->v.count = w->groups = 0;
    return status;
}

/* Nothing of what is added goes away before it is launched: they are the caller's tensors. */
static int add(const call *c, waiting *w, const step_values *v, td_dtype dtype, int n, td_tensor *const *buffers)
{
    step_values all = *v;
    all.n = 0;
    if ((w->v.count == STEP_MANY || (w->v.count && (w->dtype != dtype || w->some->device.index != buffers[0]->device.index ||
                                                                memcmp(&all, &w->v.all, sizeof all)))) && flush(c, w))
        return -1;
    const int64_t i = w->v.count++, groups = td_launch_groups(buffers[0]->device, v->n);
    w->dtype = dtype, w->v.all = all, w->some = buffers[0];
    for (int k = 0; k < n; k++)
        w->v.address[k][i] = (uint64_t)(uintptr_t)buffers[k]->data;
    w->v.starts[i] = w->groups, w->v.n[i] = v->n;
    w->groups += groups;
    return 0;
}

/* A number for a kernel: float32 on the device; a new reference.  NULL, what is on the CPU having been stored in *value. */
static int number_for(td_tensor *x, td_tensor **there, double *value)
{
    td_scalar s;
    *there = NULL;
    if (x->device.type == TD_CPU) {
        if (td_tensor_item(x, &s))
            return -1;
        *value = td_scalar_double(s);
        return 0;
    }
    if (x->numel != 1)
        return td_error(TD_E_RUNTIME, "a Tensor with %" PRId64 " elements cannot be converted to Scalar", x->numel);
    *there = td_as_contiguous(x, TD_F32);
    return *there ? 0 : -1;
}

/* One parameter: state[0] momentum or average, [1] average or sum of squares, [2] the largest; NULL where unused. */
static int step(const call *c, waiting *w, td_tensor *param, td_tensor *grad, td_tensor *const *state, td_tensor *count)
{
    const td_dtype dtype = (td_dtype)param->dtype;
    td_tensor *all[2 + STATES] = {param, grad, state[0], state[1], state[2]}, *used[2 + STATES] = {0};
    if (!td_dtype_is_floating(dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", c->op, td_dtype_title(dtype));
    for (int i = 1; i < 2 + STATES; i++) {
        if (!all[i])
            continue;
        if (all[i]->numel != param->numel)
            return td_error(TD_E_RUNTIME, "%s: parameter, gradient and state must have the same number of elements, got %" PRId64 " and %" PRId64, c->op,
                            param->numel, all[i]->numel);
        if (all[i]->device.type != param->device.type || all[i]->device.index != param->device.index)
            return td_error(TD_E_RUNTIME, "%s: Expected all tensors to be on the same device, but found at least two devices, %s and %s!", c->op,
                            td_device_str(param->device, (char[32]){0}), td_device_str(all[i]->device, (char[32]){0}));
    }
    /* Logarithms of the betas are taken in double and rounded once: of a beta in float32, near 1, they would have few digits. */
    const bool wide = dtype == TD_F64;
    double t = 0;
    TD_AUTO td_tensor *counted = NULL;
    if (count && number_for(count, &counted, &t))
        return -1;
    step_values v = {
        .n = param->numel, .has = c->has | (counted ? HAS_STEP : 0), .lr = td_number_bits(c->lr, wide), .decay = td_number_bits(c->decay, wide),
        .eps = td_number_bits(c->eps, wide), .one = td_number_bits(c->one, wide), .two = td_number_bits(c->two, wide),
        .log_one = td_number_bits(log(c->one), wide), .log_two = td_number_bits(log(c->two), wide),
        .rest_one = td_number_bits(1 - c->one, wide), .rest_two = td_number_bits(1 - c->two, wide), .step = td_number_bits(t, wide),
    };
    td_launch_of launch = launch_of(c, dtype, false);
    launch.values = &v, launch.size = sizeof v, launch.groups = td_launch_groups(param->device, v.n);
    const td_device_properties *device = td_device_known(param->device);
    /* Only CUDA's addresses mean the same in all kernels; other devices are passed buffers by handle, and get a launch for each parameter. */
    bool together = device && device->dialect == TD_DIALECT_CUDA && v.n && (!counted || counted == count);
    int status = device ? 0 : -1, n = 0;
    for (int i = 0; i < 2 + STATES && !status; i++) {
        if (!(c->takes >> i & 1))
            continue;
        if (all[i] && !(used[i] = td_writable(all[i], dtype)))
            status = -1;
        together = together && used[i] == all[i];
        launch.buffers[n++] = all[i] ? used[i] : TD_NONE;
    }
    if (count)
        launch.buffers[n++] = counted ? counted : TD_NONE;
    if (!status && together)
        status = add(c, w, &v, dtype, n, launch.buffers);
    launch.buffers[n++] = c->rate, launch.buffers[n++] = c->scale, launch.buffers[n++] = c->found;
    if (!status && !together)
        status = td_launch(&launch);
    for (int i = 0; i < 2 + STATES; i++) {
        if (!status && used[i] && used[i] != all[i] && (i != 1 || c->has & HAS_SCALE))
            status = td_write_back(all[i], used[i]);
        td_tensor_release(used[i]);
    }
    return status;
}

/* What is on the CPU of rate, scale and found_inf is a number of the call; a found overflow there ends it, *skip. */
static int prepare(call *c, td_tensor *rate, td_tensor *scale, td_tensor *found, td_device device, td_tensor **held, bool *skip)
{
    double value = 0;
    *skip = false;
    c->rate = c->scale = c->found = TD_NONE;
    if (rate) {
        if (number_for(rate, &held[0], &c->lr))
            return -1;
        if (held[0])
            c->rate = held[0], c->has |= HAS_RATE;
    }
    if (scale != TD_NONE) {
        if (number_for(scale, &held[1], &value))
            return -1;
        if (!held[1]) {                     /* a number that every element needs */
            TD_AUTO td_tensor *one = td_full(0, NULL, td_float(value), TD_F32, device);
            if (!(held[1] = td_tensor_retain(one)))
                return -1;
        }
        c->scale = held[1], c->has |= HAS_SCALE;
    }
    if (found != TD_NONE) {
        if (number_for(found, &held[2], &value))
            return -1;
        if (held[2])
            c->found = held[2], c->has |= HAS_FOUND;
        else
            *skip = value == 1;
    }
    return 0;
}

/* states: up to three lists, NULL where unused. */
static int run(call *c, int64_t n, td_tensor *const *self, td_tensor *const *grads, td_tensor *const *const *states, td_tensor *const *steps, td_tensor *rate,
               td_tensor *scale, td_tensor *found)
{
    td_tensor *held[3] = {0};
    waiting w = {.groups = 0};
    bool skip = false;
    int status = n ? prepare(c, rate, scale, found, self[0]->device, held, &skip) : 0;
    for (int64_t i = 0; i < n && !status && !skip; i++) {
        td_tensor *state[STATES];
        for (int k = 0; k < STATES; k++)
            state[k] = states[k] ? states[k][i] : NULL;
        status = step(c, &w, self[i], grads[i], state, steps ? steps[i] : NULL);
    }
    status = status || flush(c, &w) ? -1 : 0;
    for (int k = 0; k < 3; k++)
        td_tensor_release(held[k]);
    return status;
}

static int sgd(td_tensor *rate, TD_SGD_PARAMETERS(double))
{
    const bool state = n_buffers > 0;
    call c = {.op = "_fused_sgd_", .kernel = "sgd_step", .takes = 7, .lr = lr, .decay = weight_decay, .one = momentum, .two = 1 - dampening,
              .has = (state ? HAS_FIRST : 0) | (nesterov ? IS_NESTEROV : 0) | (maximize ? IS_MAXIMIZED : 0) | (is_first_step ? IS_FIRST_STEP : 0)};
    if (check_lists(c.op, n_self, (int64_t[]){n_grads, n_buffers}, 1 + state))
        return -1;
    return run(&c, n_self, self, grads, (td_tensor *const *[STATES]){state ? buffers : NULL}, NULL, rate, grad_scale, found_inf);
}
int td_on_device__fused_sgd_(TD_SGD_PARAMETERS(double)) { return sgd(NULL, TD_SGD_ARGUMENTS(lr)); }
int td_on_device__fused_sgd_tensor_lr_(TD_SGD_PARAMETERS(td_tensor *)) { return sgd(lr, TD_SGD_ARGUMENTS(0)); }

static int adam(const char *op, bool decoupled, td_tensor *rate, TD_ADAM_PARAMETERS(double))
{
    call c = {.op = op, .kernel = "adam_step", .takes = 31, .lr = lr, .decay = weight_decay, .eps = eps, .one = beta1, .two = beta2,
              .has = HAS_FIRST | (amsgrad ? HAS_LARGEST : 0) | (decoupled ? IS_DECOUPLED : 0) | (maximize ? IS_MAXIMIZED : 0)};
    if (check_lists(op, n_self, (int64_t[]){n_grads, n_averages, n_squares, n_steps, n_largest}, 4 + amsgrad))
        return -1;
    return run(&c, n_self, self, grads, (td_tensor *const *[STATES]){averages, squares, amsgrad ? largest : NULL}, steps, rate, grad_scale, found_inf);
}
int td_on_device__fused_adam_(TD_ADAM_PARAMETERS(double)) { return adam("_fused_adam_", false, NULL, TD_ADAM_ARGUMENTS(lr)); }
int td_on_device__fused_adam_tensor_lr_(TD_ADAM_PARAMETERS(td_tensor *)) { return adam("_fused_adam_", false, lr, TD_ADAM_ARGUMENTS(0)); }
int td_on_device__fused_adamw_(TD_ADAM_PARAMETERS(double)) { return adam("_fused_adamw_", true, NULL, TD_ADAM_ARGUMENTS(lr)); }
int td_on_device__fused_adamw_tensor_lr_(TD_ADAM_PARAMETERS(td_tensor *)) { return adam("_fused_adamw_", true, lr, TD_ADAM_ARGUMENTS(0)); }

int td_on_device__fused_adagrad_(int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads, int64_t n_sums, td_tensor *const *sums,
                                 int64_t n_steps, td_tensor *const *steps, double lr, double lr_decay, double weight_decay, double eps, bool maximize,
                                 td_tensor *grad_scale, td_tensor *found_inf)
{
    call c = {.op = "_fused_adagrad_", .kernel = "adagrad_step", .takes = 11, .lr = lr, .decay = weight_decay, .eps = eps, .one = lr_decay, .two = 1,
              .has = maximize ? IS_MAXIMIZED : 0};
    if (check_lists(c.op, n_self, (int64_t[]){n_grads, n_sums, n_steps}, 3))
        return -1;
    return run(&c, n_self, self, grads, (td_tensor *const *[STATES]){NULL, sums, NULL}, steps, NULL, grad_scale, found_inf);
}
