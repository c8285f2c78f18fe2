/* Fused optimizer steps over lists of parameters.
 *
 * Parameters that are contiguous float32 or float64 are updated where they lie; float16, bfloat16 and other strides go
 * through copies in the compute type.
 *
 * One operator takes a whole list; each parameter is one loop on threads.  Where an overflow was found in scaled gradients
 * (found_inf), nothing is changed, as in PyTorch's GradScaler. */
#include "calls_kernels_cpu_nn_optimizer.h"
#include <inttypes.h>
#include <math.h>
#include "kernels/cpu/nn/optimizer.h"
#include "ops/nn/fused.h"
#include "tensor/recorded.h"

enum { MOST = 5 };      /* tensors per parameter: itself, gradient, up to three of state */

/* The value of a tensor with one element. */
static int number(td_tensor *x, double *value)
{
    td_scalar s;
    if (td_tensor_item(x, &s))
        return -1;
    *value = td_scalar_double(s);
    return 0;
}

/* Sets *skip where an overflow was found in the scaled gradients: found_inf is 1 then. */
static int scaling(td_step_job *job, td_tensor *grad_scale, td_tensor *found_inf, bool *skip)
{
    double found = 0;
    job->scale = 1, job->scaled = grad_scale != TD_NONE;
    if (job->scaled && number(grad_scale, &job->scale))
        return -1;
    if (found_inf != TD_NONE && number(found_inf, &found))
        return -1;
    *skip = found == 1;
    return 0;
}

/* Lists have a tensor for each parameter. */
static int check_lists(const char *op, int64_t n, const int64_t *counts, int lists)
{
    for (int i = 0; i < lists; i++)
        if (counts[i] != n)
            return td_error(TD_E_RUNTIME, "%s: got %" PRId64 " parameters but a list of %" PRId64 " tensors with them",
                            op, n, counts[i]);
    return 0;
}

/* A parameter's step once its tensors have been checked. */
typedef struct checked_step {
    td_step_job   job;
    td_loop_body *body;
    td_dtype      type;                 /* that it computes in */
} checked_step;

static int run(const void *context, td_tensor *const *tensors)
{
    const checked_step *s = context;
    td_step_job job = s->job;
    td_tensor *used[MOST] = {0};
    int status = 0;
    for (int i = 0; i < MOST && !status; i++)
        if (tensors[i] && !(used[i] = i == 1 && !job.scaled ? td_as_contiguous(tensors[i], s->type) : td_writable(tensors[i], s->type)))
            status = -1;
    if (!status) {
        job.param = used[0]->data, job.grad = used[1]->data;
        job.first = used[2] ? used[2]->data : NULL, job.second = used[3] ? used[3]->data : NULL;
        job.largest = used[4] ? used[4]->data : NULL;
        td_parallel_for(0, tensors[0]->numel, 16384, s->body, &job);
        for (int i = 0; i < MOST && !status; i++)
            if (used[i] && used[i] != tensors[i] && !(i == 1 && !job.scaled))
                status = td_write_back(tensors[i], used[i]);
    }
    for (int i = 0; i < MOST; i++)
        td_tensor_release(used[i]);
    return status;
}

/* One parameter: tensors[0] the parameter, [1] the gradient, then first, second, largest (NULL where unused). On meta
 * there is nothing to compute. Within a region the work is left for later. */
static int step(const char *op, td_step_job *job, td_loop_body *const *bodies, td_tensor *const *tensors)
{
    td_tensor *param = tensors[0];
    td_dtype type = td_compute_dtype(param);
    if (!td_dtype_is_floating((td_dtype)param->dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op,
                        td_dtype_title((td_dtype)param->dtype));
    for (int i = 0; i < MOST; i++) {
        if (!tensors[i])
            continue;
        if (tensors[i]->numel != param->numel)
            return td_error(TD_E_RUNTIME,
                            "%s: parameter, gradient and state must have the same number of elements, got %" PRId64
                            " and %" PRId64, op, param->numel, tensors[i]->numel);
        if (tensors[i]->device.type != param->device.type)
            return td_error(TD_E_RUNTIME, "%s: Expected all tensors to be on the same device, but found at least two "
                            "devices, %s and %s!", op, td_device_str(param->device, (char[32]){0}),
                            td_device_str(tensors[i]->device, (char[32]){0}));
    }
    if (param->device.type == TD_META || !param->numel)
        return 0;
    const checked_step s = {*job, bodies[type == TD_F64], type};
    const uint32_t written = 1 | 4 | 8 | 16 | (job->scaled ? 2 : 0);
    if (td_is_recorded(tensors[0], MOST, tensors))
        return td_regions.work(&(td_late_work){run, &s, sizeof s, MOST, written}, tensors);
    for (int i = 0; i < MOST; i++)
        if (tensors[i] && (written >> i & 1 ? td_settle_to_write(tensors[i]) : td_settle(tensors[i])))
            return -1;
    return run(&s, tensors);
}

/* Without a list of buffers there is no momentum. */
int td_op__fused_sgd_(TD_SGD_PARAMETERS(double))
{
    td_step_job job = {.lr = lr, .weight_decay = weight_decay, .momentum = momentum, .dampening = dampening,
                       .nesterov = nesterov,
                       .maximize = maximize, .first_step = is_first_step};
    bool skip, state = n_buffers > 0;
    if (check_lists("_fused_sgd_", n_self, (int64_t[]){n_grads, state ? n_buffers : n_self}, 2) ||
        scaling(&job, grad_scale, found_inf, &skip))
        return -1;
    for (int64_t i = 0; i < n_self && !skip; i++)
        if (step("_fused_sgd_", &job, TD_ISA_PICK(td_step_table)->sgd,
                 (td_tensor *[MOST]){self[i], grads[i], state ? buffers[i] : NULL}))
            return -1;
    return 0;
}

/* The powers of beta1 and beta2 are taken once per parameter, in double. */
static int adam(const char *op, bool decoupled, TD_ADAM_PARAMETERS(double))
{
    td_step_job job = {.lr = lr, .weight_decay = weight_decay, .beta1 = beta1, .beta2 = beta2, .eps = eps,
                       .maximize = maximize,
                       .decoupled = decoupled};
    bool skip;
    if (check_lists(op, n_self, (int64_t[]){n_grads, n_averages, n_squares, n_steps, n_largest}, 4 + amsgrad) ||
        scaling(&job, grad_scale, found_inf, &skip))
        return -1;
    for (int64_t i = 0; i < n_self && !skip; i++) {
        double t;
        if (number(steps[i], &t))
            return -1;
        job.step_size = lr / (1 - pow(beta1, t));
        job.root_correction = sqrt(1 - pow(beta2, t));
        if (step(op, &job, TD_ISA_PICK(td_step_table)->adam,
                 (td_tensor *[MOST]){self[i], grads[i], averages[i], squares[i], amsgrad ? largest[i] : NULL}))
            return -1;
    }
    return 0;
}

int td_op__fused_adam_(TD_ADAM_PARAMETERS(double)) { return adam("_fused_adam_", false, TD_ADAM_ARGUMENTS(lr)); }
int td_op__fused_adamw_(TD_ADAM_PARAMETERS(double)) { return adam("_fused_adamw_", true, TD_ADAM_ARGUMENTS(lr)); }
int td_op__fused_adam_tensor_lr_(TD_ADAM_PARAMETERS(td_tensor *))
{
    double rate;
    return number(lr, &rate) ? -1 : adam("_fused_adam_", false, TD_ADAM_ARGUMENTS(rate));
}
int td_op__fused_adamw_tensor_lr_(TD_ADAM_PARAMETERS(td_tensor *))
{
    double rate;
    return number(lr, &rate) ? -1 : adam("_fused_adamw_", true, TD_ADAM_ARGUMENTS(rate));
}
int td_op__fused_sgd_tensor_lr_(TD_SGD_PARAMETERS(td_tensor *))
{
    double rate;
    return number(lr, &rate) ? -1 : td_op__fused_sgd_(TD_SGD_ARGUMENTS(rate));
}

/* size = lr / (1 + (t - 1) lr_decay). */
int td_op__fused_adagrad_(int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads,
                          int64_t n_sums,
                          td_tensor *const *sums, int64_t n_steps, td_tensor *const *steps, double lr, double lr_decay,
                          double weight_decay, double eps, bool maximize, td_tensor *grad_scale, td_tensor *found_inf)
{
    td_step_job job = {.weight_decay = weight_decay, .eps = eps, .maximize = maximize};
    bool skip;
    if (check_lists("_fused_adagrad_", n_self, (int64_t[]){n_grads, n_sums, n_steps}, 3) || scaling(&job, grad_scale,
        found_inf, &skip))
        return -1;
    for (int64_t i = 0; i < n_self && !skip; i++) {
        double t;
        if (number(steps[i], &t))
            return -1;
        job.step_size = lr / (1 + (t - 1) * lr_decay);
        if (step("_fused_adagrad_", &job, TD_ISA_PICK(td_step_table)->adagrad, (td_tensor *[MOST]){self[i], grads[i],
            NULL, sums[i]}))
            return -1;
    }
    return 0;
}
