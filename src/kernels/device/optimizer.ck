/* Steps of SGD, Adam, AdamW and Adagrad: one pass over a parameter, its gradient and its state.
 *
 * Where memory has addresses that can be passed as numbers (MANY), a launch is for many parameters: groups are shared among them.
 *
 * A: all of these; U: what numbers are computed in (WIDE: double).  Numbers that are on the device stay there: the step, the rate, the scale of
 * the gradients, and whether one of them overflowed, float32 each. */
#include "kernels/device/group.ck"

/* Numbers are bits of U.  HAS_... of `has` say which numbers are buffers, and what the step does. */
enum {
    HAS_RATE = 1, HAS_SCALE = 2, HAS_FOUND = 4, HAS_FIRST = 8, HAS_LARGEST = 16, IS_DECOUPLED = 32, IS_MAXIMIZED = 64, IS_NESTEROV = 128,
    IS_FIRST_STEP = 256, HAS_STEP = 512
};
typedef struct step_values { int64_t n, has, lr, decay, eps, one, two, log_one, log_two, rest_one, rest_two, step; } step_values;

/* Parameters of a launch, with groups from starts[i] to starts[i + 1]: 4 KB are what CUDA passes by value.  Addresses in the order of the
 * kernels' buffers, up to the step. */
enum { STEP_BUFFERS = 6, STEP_MANY = 56 };
typedef struct many_steps { step_values all; int64_t count, starts[STEP_MANY + 1], n[STEP_MANY]; uint64_t address[STEP_BUFFERS][STEP_MANY]; } many_steps;

#ifndef TD_HOST
#if MANY
#define KERNEL_OF(name, ...) KERNEL name(BUFFER(some), BUFFER(rate), BUFFER(scale_of), BUFFER(found), VALUES(many_steps, many))
#define OWN(k, x) char *const x##_base = (char *)(size_t)many.address[k][own_];
/* The own parameter by bisection. */
#define UNPACK_STEP                                                     \
    UNPACK(many_steps, many)                                           \
    int own_ = 0;                                                       \
    for (int end_ = (int)many.count; end_ - own_ > 1;) {                \
        const int middle_ = (own_ + end_) / 2;                          \
        if (many.starts[middle_] <= GROUP)                              \
            own_ = middle_;                                             \
        else                                                            \
            end_ = middle_;                                             \
    }                                                                   \
    const int64_t n = many.n[own_], first_ = (GROUP - many.starts[own_]) * LANES + LANE;        \
    const int64_t step_ = (many.starts[own_ + 1] - many.starts[own_]) * LANES;
#define v many.all
#else
#define KERNEL_OF(name, ...) KERNEL name(__VA_ARGS__, BUFFER(rate), BUFFER(scale_of), BUFFER(found), VALUES(step_values, v))
#define OWN(k, x)
#define UNPACK_STEP                                                     \
    UNPACK(step_values, v)                                              \
    const int64_t n = v.n, first_ = ITEM, step_ = ITEMS;
#endif
#define EACH_ELEMENT(i) for (int64_t i = first_; i < n; i += step_)
/* The gradient as it is used; one that came scaled is brought back in memory, too. */
static U unscaled(GLOBAL A *grad, int64_t i, int has, U scale)
{
    U g = A_LOAD(grad[i]);
    if (has & HAS_SCALE) {
        g /= scale;
        grad[i] = A_STORE((A_C)g);
    }
    return has & IS_MAXIMIZED ? -g : g;
}
#define BEGIN                                                                                                                  \
    UNPACK_STEP                                                                                                                \
    const int has = (int)v.has;                                                                                                \
    const U scale = has & HAS_SCALE ? (U)*AT(const float, scale_of) : (U)1;                                                    \
    const U lr = has & HAS_RATE ? (U)*AT(const float, rate) : NUMBER(v.lr), decay = NUMBER(v.decay), eps = NUMBER(v.eps);      \
    const U one = NUMBER(v.one), two = NUMBER(v.two);                                                                          \
    if (has & HAS_FOUND && *AT(const float, found) == 1)                                                                       \
        return;

/* one: momentum; two: 1 - dampening. */
KERNEL_OF(sgd_step, BUFFER(param), BUFFER(grad), BUFFER(first))
{
    BEGIN
    OWN(0, param) OWN(1, grad) OWN(2, first)
    (void)eps;
    EACH_ELEMENT(i) {
        const U p = A_LOAD(AT(A, param)[i]);
        U g = unscaled(AT(A, grad), i, has, scale) + decay * p;
        if (has & HAS_FIRST) {
            const U b = has & IS_FIRST_STEP ? g : one * A_LOAD(AT(A, first)[i]) + two * g;
            AT(A, first)[i] = A_STORE((A_C)b);
            g = has & IS_NESTEROV ? g + one * b : b;
        }
        AT(A, param)[i] = A_STORE((A_C)(p - lr * g));
    }
}

/* one, two: the betas, whose powers are taken through their logarithms, so that 1 - beta^t keeps its digits in float; rest: 1 - beta, which in
 * float has an error of 1e-5 for 0.999 where it is made of a beta that is rounded. */
KERNEL_OF(adam_step, BUFFER(param), BUFFER(grad), BUFFER(first), BUFFER(second), BUFFER(largest), BUFFER(step))
{
    BEGIN
    OWN(0, param) OWN(1, grad) OWN(2, first) OWN(3, second) OWN(4, largest) OWN(5, step)
    const U t = has & HAS_STEP ? (U)*AT(const float, step) : NUMBER(v.step);
    const U size = lr / -U_expm1(t * NUMBER(v.log_one)), root = U_sqrt(-U_expm1(t * NUMBER(v.log_two)));
    const U rest_one = NUMBER(v.rest_one), rest_two = NUMBER(v.rest_two);
    EACH_ELEMENT(i) {
        U p = A_LOAD(AT(A, param)[i]), g = unscaled(AT(A, grad), i, has, scale);
        if (has & IS_DECOUPLED)
            p *= 1 - lr * decay;
        else
            g += decay * p;
        U m = A_LOAD(AT(A, first)[i]), s = two * A_LOAD(AT(A, second)[i]) + rest_two * g * g;
        m = rest_one < (U)0.5f ? m + rest_one * (g - m) : g - (g - m) * one;
        AT(A, first)[i] = A_STORE((A_C)m);
        AT(A, second)[i] = A_STORE((A_C)s);
        if (has & HAS_LARGEST) {
            const U most = A_LOAD(AT(A, largest)[i]);
            s = most > s ? most : s;
            AT(A, largest)[i] = A_STORE((A_C)s);
        }
        AT(A, param)[i] = A_STORE((A_C)(p - size * m / (U_sqrt(s) / root + eps)));
    }
}

/* one: the decay of the rate. */
KERNEL_OF(adagrad_step, BUFFER(param), BUFFER(grad), BUFFER(second), BUFFER(step))
{
    BEGIN
    OWN(0, param) OWN(1, grad) OWN(2, second) OWN(3, step)
    (void)two;
    const U t = has & HAS_STEP ? (U)*AT(const float, step) : NUMBER(v.step);
    const U size = lr / (1 + (t - 1) * one);
    EACH_ELEMENT(i) {
        const U p = A_LOAD(AT(A, param)[i]), g = unscaled(AT(A, grad), i, has, scale) + decay * p;
        const U sum = A_LOAD(AT(A, second)[i]) + g * g;
        AT(A, second)[i] = A_STORE((A_C)sum);
        AT(A, param)[i] = A_STORE((A_C)(p - size * g / (U_sqrt(sum) + eps)));
    }
}
#endif
