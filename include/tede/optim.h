/* tede/optim.h: optimizers, for programs that train without Python.
 *
 *     td_adamw_options options = td_adamw_defaults();
 *     options.lr = 3e-3;
 *     td_optimizer *optimizer = td_adamw_new(n, parameters, &options);
 *     for (...) {
 *         ... a loss ...
 *         td_optimizer_zero_grad(optimizer);
 *         td_backward(1, &loss, NULL, false, false);
 *         td_optimizer_step(optimizer);
 *     }
 *
 * An optimizer holds references to its parameters (leaves) and what it remembers of each.  Formulas, defaults and
 * names of what is remembered are PyTorch's, and the steps run on the kernels that tede.optim runs on. */
#ifndef TEDE_OPTIM_H
#define TEDE_OPTIM_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_optimizer td_optimizer;

/* p -= lr * v, where v = momentum * v + (1 - dampening) * (grad + weight_decay * p); with `nesterov` one look further. */
typedef struct td_sgd_options {
    double lr, momentum, dampening, weight_decay;
    bool   nesterov, maximize;
} td_sgd_options;

/* p -= lr * m / (sqrt(v) + eps), where m and v are running means of the gradient and of its square, corrected for
 * having begun at zero.  Weight decay shrinks p itself (AdamW) or is added to the gradient (Adam).  With `amsgrad`, v
 * is the largest so far. */
typedef struct td_adam_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool   amsgrad, maximize;
} td_adam_options, td_adamw_options;

static inline td_sgd_options td_sgd_defaults(void)
{
    td_sgd_options options = {1e-3, 0, 0, 0, false, false};
    return options;
}
static inline td_adam_options td_adam_defaults(void)
{
    td_adam_options options = {1e-3, 0.9, 0.999, 1e-8, 0, false, false};
    return options;
}
static inline td_adamw_options td_adamw_defaults(void)
{
    td_adamw_options options = {1e-3, 0.9, 0.999, 1e-8, 1e-2, false, false};
    return options;
}

/* New optimizers of n parameters; `options` are copied, NULL means the defaults.  A NULL among the parameters makes the
 * result NULL and keeps the pending error. */
TD_API td_optimizer *td_sgd_new(int64_t n, td_tensor *const *parameters, const td_sgd_options *options);
TD_API td_optimizer *td_adam_new(int64_t n, td_tensor *const *parameters, const td_adam_options *options);
TD_API td_optimizer *td_adamw_new(int64_t n, td_tensor *const *parameters, const td_adamw_options *options);
/* Accepts NULL. */
TD_API void td_optimizer_release(td_optimizer *optimizer);

/* Update every parameter that has a gradient. */
TD_API int td_optimizer_step(td_optimizer *optimizer) TD_MUST_USE;
/* Take the gradients away. */
TD_API int td_optimizer_zero_grad(td_optimizer *optimizer) TD_MUST_USE;
/* The learning rate, which a schedule may change between steps. */
TD_API double td_optimizer_lr(const td_optimizer *optimizer);
TD_API int    td_optimizer_set_lr(td_optimizer *optimizer, double lr) TD_MUST_USE;

/* What is remembered of parameter i, for checkpoints: "momentum_buffer", or "step", "exp_avg", "exp_avg_sq",
 * "max_exp_avg_sq".  Borrowed; NULL while there is none, or for other names. */
TD_API td_tensor *td_optimizer_state(const td_optimizer *optimizer, int64_t i, const char *name);
/* Replace it by a copy of `value`. */
TD_API int td_optimizer_set_state(td_optimizer *optimizer, int64_t i, const char *name, td_tensor *value) TD_MUST_USE;

/* If the gradients of n parameters, taken for one long vector, are longer than `max_norm`, scale them down to it.  The
 * length before goes to *norm unless that is NULL. */
TD_API int td_clip_grad_norm_(int64_t n, td_tensor *const *parameters, double max_norm, double *norm) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
