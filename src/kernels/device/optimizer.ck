/* Steps of SGD, Adam, AdamW and Adagrad: one pass over a parameter, its gradient and its state.
 *
 * A: all of these; U: what numbers are computed in (WIDE: double).  Numbers that are on the device stay there: the step, the rate, the scale of
 * the gradients, and whether one of them overflowed, float32 each. */
#include "kernels/device/group.ck"

/* Numbers are bits of U.  HAS_... of `has` say which numbers are buffers, and what the step does. */
enum {
    HAS_RATE = 1, HAS_SCALE = 2, HAS_FOUND = 4, HAS_FIRST = 8, HAS_LARGEST = 16, IS_DECOUPLED = 32, IS_MAXIMIZED = 64, IS_NESTEROV = 128,
    IS_FIRST_STEP = 256, HAS_STEP = 512
};
typedef struct step_values { int64_t n, has, lr, decay, eps, one, two, log_one, log_two, step; } step_values;

#ifndef TD_HOST
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
    UNPACK(step_values, v)                                                                                                     \
    const int has = (int)v.has;                                                                                                \
    const U scale = has & HAS_SCALE ? (U)*AT(const float, scale_of) : (U)1;                                                    \
    const U lr = has & HAS_RATE ? (U)*AT(const float, rate) : NUMBER(v.lr), decay = NUMBER(v.decay), eps = NUMBER(v.eps);      \
    const U one = NUMBER(v.one), two = NUMBER(v.two);                                                                          \
    if (has & HAS_FOUND && *AT(const float, found) == 1)                                                                       \
        return;

/* one: momentum; two: 1 - dampening. */
KERNEL sgd_step(BUFFER(param), BUFFER(grad), BUFFER(first), BUFFER(rate), BUFFER(scale_of), BUFFER(found), VALUES(step_values, v))
{
    BEGIN
    (void)eps;
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
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

/* one, two: the betas, whose powers are taken through their logarithms, so that 1 - beta^t keeps its digits in float. */
KERNEL adam_step(BUFFER(param), BUFFER(grad), BUFFER(first), BUFFER(second), BUFFER(largest), BUFFER(step), BUFFER(rate), BUFFER(scale_of),
                 BUFFER(found), VALUES(step_values, v))
{
    BEGIN
    const U t = has & HAS_STEP ? (U)*AT(const float, step) : NUMBER(v.step);
    const U size = lr / -U_expm1(t * NUMBER(v.log_one)), root = U_sqrt(-U_expm1(t * NUMBER(v.log_two)));
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        U p = A_LOAD(AT(A, param)[i]), g = unscaled(AT(A, grad), i, has, scale);
        if (has & IS_DECOUPLED)
            p *= 1 - lr * decay;
        else
            g += decay * p;
        U m = A_LOAD(AT(A, first)[i]), s = two * A_LOAD(AT(A, second)[i]) + (1 - two) * g * g;
        m = 1 - one < (U)0.5f ? m + (1 - one) * (g - m) : g - (g - m) * one;
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
KERNEL adagrad_step(BUFFER(param), BUFFER(grad), BUFFER(second), BUFFER(step), BUFFER(rate), BUFFER(scale_of), BUFFER(found), VALUES(step_values, v))
{
    BEGIN
    (void)two;
    const U t = has & HAS_STEP ? (U)*AT(const float, step) : NUMBER(v.step);
    const U size = lr / (1 + (t - 1) * one);
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const U p = A_LOAD(AT(A, param)[i]), g = unscaled(AT(A, grad), i, has, scale) + decay * p;
        const U sum = A_LOAD(AT(A, second)[i]) + g * g;
        AT(A, second)[i] = A_STORE((A_C)sum);
        AT(A, param)[i] = A_STORE((A_C)(p - size * g / (U_sqrt(sum) + eps)));
    }
}
#endif
