/* One pass over parameter, gradient and state per step.  The choices are the same for all elements, so each loop is
 * compiled for every combination that changes what is read or written; maximizing is a gradient times -1.
 *
 * Bound by memory: two to five arrays are read and one to four written, for a few operations on each element.  Elements are independent,
 * so any partition among threads has the same result. */
#ifndef S
#include <math.h>
#include "kernels/cpu/nn/optimizer.h"
#define INLINE static inline __attribute__((always_inline))

#define T float
#define S f32
#define SQRT __builtin_sqrtf
#include "kernels/cpu/nn/optimizer_isa.c"
#undef T
#undef S
#undef SQRT
#define T double
#define S f64
#define SQRT __builtin_sqrt
#include "kernels/cpu/nn/optimizer_isa.c"
#undef T
#undef S
#undef SQRT

extern const td_step_table TD_ISA_NAME(td_step_table);
const td_step_table TD_ISA_NAME(td_step_table) = {
    .sgd = {sgd_f32, sgd_f64}, .adam = {adam_f32, adam_f64}, .adagrad = {adagrad_f32, adagrad_f64},
};

#else

/* Gradients that came scaled are brought back first, in a separate pass: few steps have them. */
static void N(unscale)(const td_step_job *job, int64_t from, int64_t to)
{
    T *grad = job->grad;
    const T scale = (T)job->scale;
    if (job->scaled)
#pragma omp simd
        for (int64_t i = from; i < to; i++)
            grad[i] /= scale;
}

/* b = m b + (1 - dampening) g, the first time g itself; p -= lr b, or with Nesterov's momentum lr (g + m b). */
INLINE void N(sgd_loop)(const td_step_job *job, int64_t from, int64_t to, const bool momentum)
{
    T *param = job->param, *grad = job->grad, *buffer = job->first;
    const T lr = (T)job->lr, decay = (T)job->weight_decay, m = (T)job->momentum, fresh = (T)(1 - job->dampening);
    const T sign = job->maximize ? -1 : 1;
    const bool first = job->first_step, nesterov = job->nesterov;
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        T p = param[i], g = sign * grad[i] + decay * p;
        if (momentum) {
            T b = first ? g : m * buffer[i] + fresh * g;
            buffer[i] = b;
            g = nesterov ? g + m * b : b;
        }
        param[i] = p - lr * g;
    }
}

static void N(sgd)(void *context, int64_t from, int64_t to)
{
    const td_step_job *job = context;
    N(unscale)(job, from, to);
    if (job->first)
        N(sgd_loop)(job, from, to, true);
    else
        N(sgd_loop)(job, from, to, false);
}

/* Adam (Kingma and Ba, 2015), or with `decoupled` AdamW (Loshchilov and Hutter, 2019): m and v are averages of g and g^2, p -= size
 * m / (sqrt(v) / root + eps), where size and root hold the corrections of the bias.  With AMSGrad (Reddi et al., 2018) v is the
 * largest so far.  m follows PyTorch's lerp, which takes the form that starts from the nearer end. */
INLINE void N(adam_loop)(const td_step_job *job, int64_t from, int64_t to, const bool amsgrad)
{
    T *param = job->param, *grad = job->grad, *average = job->first, *square = job->second, *largest = job->largest;
    const T decay = (T)job->weight_decay, keep = (T)(1 - job->lr * job->weight_decay), sign = job->maximize ? -1 : 1;
    const T b1 = (T)job->beta1, w = (T)(1 - job->beta1), b2 = (T)job->beta2, w2 = (T)(1 - job->beta2),
    eps = (T)job->eps;
    const T size = (T)job->step_size, root = (T)job->root_correction;
    const bool decoupled = job->decoupled, small = 1 - job->beta1 < 0.5;
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        T p = param[i], g = sign * grad[i];
        p = decoupled ? p * keep : p;
        g = decoupled ? g : g + decay * p;
        T m = average[i], v = b2 * square[i] + w2 * g * g;
        m = small ? m + w * (g - m) : g - (g - m) * b1;
        average[i] = m, square[i] = v;
        if (amsgrad) {
            v = largest[i] > v ? largest[i] : v;
            largest[i] = v;
        }
        param[i] = p - size * m / (SQRT(v) / root + eps);
    }
}

static void N(adam)(void *context, int64_t from, int64_t to)
{
    const td_step_job *job = context;
    N(unscale)(job, from, to);
    if (job->largest)
        N(adam_loop)(job, from, to, true);
    else
        N(adam_loop)(job, from, to, false);
}

/* Adagrad (Duchi et al., 2011): each element's rate falls with the root of the sum of its squared gradients. */
static void N(adagrad)(void *context, int64_t from, int64_t to)
{
    const td_step_job *job = context;
    T *param = job->param, *grad = job->grad, *sum = job->second;
    const T decay = (T)job->weight_decay, eps = (T)job->eps, size = (T)job->step_size, sign = job->maximize ? -1 : 1;
    N(unscale)(job, from, to);
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        T p = param[i], g = sign * grad[i] + decay * p;
        T s = sum[i] + g * g;
        sum[i] = s;
        param[i] = p - size * g / (SQRT(s) + eps);
    }
}
#endif
