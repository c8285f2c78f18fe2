/* The parameters of fused steps, whose learning rate is a number or a tensor, and the same as arguments. */
#ifndef TD_OPS_NN_FUSED_H
#define TD_OPS_NN_FUSED_H

#define TD_SGD_PARAMETERS(LR)                                                                                                         \
    int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads, int64_t n_buffers, td_tensor *const *buffers,   \
    double weight_decay, double momentum, LR lr, double dampening, bool nesterov, bool maximize, bool is_first_step,                  \
    td_tensor *grad_scale, td_tensor *found_inf
#define TD_SGD_ARGUMENTS(LR)                                                                                                          \
    n_self, self, n_grads, grads, n_buffers, buffers, weight_decay, momentum, LR, dampening, nesterov, maximize, is_first_step, grad_scale, found_inf

/* Of _fused_adam_ and _fused_adamw_. */
#define TD_ADAM_PARAMETERS(LR)                                                                                                        \
    int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads, int64_t n_averages,                             \
    td_tensor *const *averages, int64_t n_squares, td_tensor *const *squares, int64_t n_largest, td_tensor *const *largest,           \
    int64_t n_steps, td_tensor *const *steps, LR lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,       \
    bool maximize, td_tensor *grad_scale, td_tensor *found_inf
#define TD_ADAM_ARGUMENTS(LR)                                                                                                         \
    n_self, self, n_grads, grads, n_averages, averages, n_squares, squares, n_largest, largest, n_steps, steps, LR, beta1, beta2,     \
    weight_decay, eps, amsgrad, maximize, grad_scale, found_inf

#endif
