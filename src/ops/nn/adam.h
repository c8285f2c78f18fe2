/* The parameters that the four fused steps of Adam have (_fused_adam_, _fused_adamw_, each with a learning rate that is a number or a tensor). */
#ifndef TD_OPS_NN_ADAM_H
#define TD_OPS_NN_ADAM_H

#define TD_ADAM_PARAMETERS(LR)                                                                                                  \
    int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads, int64_t n_averages,                       \
    td_tensor *const *averages, int64_t n_squares, td_tensor *const *squares, int64_t n_largest, td_tensor *const *largest,     \
    int64_t n_steps, td_tensor *const *steps, LR lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad, \
    bool maximize, td_tensor *grad_scale, td_tensor *found_inf

/* The same as arguments: how many of each list, and the lists; and what follows the learning rate. */
#define TD_ADAM_LISTS (int64_t[]){n_self, n_grads, n_averages, n_squares, n_steps, n_largest}, self, grads, averages, squares, largest, steps
#define TD_ADAM_NUMBERS beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf

#endif
