/* Connectionist temporal classification (Graves et al., 2006), in logarithms.
 *
 * The labels of a sample with blanks around them are states 0 ... 2 * length.  alpha[t][s] is the log probability of all
 * paths to state s at step t, this step included; beta[t][s] that of all paths from there on, this step
 * included as well, so each product counts the step twice.  A state follows itself, the one before, and the one before
 * that if it is a label other than its own.  Threads share the samples.
 *
 * Shapes were checked in src/ops/nn/ctc.c, labels are here.  Each sample has its part of alpha and two rows of beta, and is computed by one thread, so their number changes no bits. */
#include "calls_kernels_cpu_nn_ctc.h"
#include <inttypes.h>
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/loops/operands.h"
#include "ops/nn/ctc.h"

typedef struct ctc {
    int64_t steps, batch, classes, states, blank;     /* states: of the longest target */
    const int64_t *labels, *input, *target, *begins;  /* begins: where each sample's labels are */
    const void *lp, *grad;
    void *alpha, *nll, *out, *beta;                   /* beta: two rows per sample */
    bool zero_infinity;
} ctc;

/* The class that state s emits: odd states are labels, even ones blanks. */
static int64_t state_class(const ctc *c, const int64_t *labels, int64_t s) { return s & 1 ? labels[s / 2] : c->blank; }
/* Whether the state between two may be left out: not between equal labels, which only a blank keeps apart, nor between blanks. */
static bool may_skip(const ctc *c, const int64_t *labels, int64_t from, int64_t to)
{
    return state_class(c, labels, from) != state_class(c, labels, to);
}

/* Forward: alpha[t][s] = lp[t][class of s] + log of what exp(alpha[t - 1]) is together for the states that s may follow; the loss
 * is minus the log of the last two states' sum.  Backward: exp(lp) - exp(log of the sum over a class's states of exp(alpha + beta)
 * + nll - lp), which is the gradient for log probabilities that come from log_softmax, as in PyTorch.  Both are bound by the
 * exponentials. */
#define LOOPS(S, T, EXP, LOG)                                                                                         \
    /* The logarithm of a sum of exponentials. */                                                                     \
    static inline T sum3_##S(T a, T b, T c)                                                                           \
    {                                                                                                                 \
        T most = a > b ? a : b;                                                                                       \
        most = most > c ? most : c;                                                                                   \
        if (most == -(T)INFINITY)                                                                                     \
            return most;                                                                                              \
        return LOG(EXP(a - most) + EXP(b - most) + EXP(c - most)) + most;                                             \
    }                                                                                                                 \
    static void forward_##S(void *context, int64_t first, int64_t last)                                               \
    {                                                                                                                 \
        const ctc *c = context;                                                                                       \
        const T none = -(T)INFINITY;                                                                                  \
        for (int64_t b = first; b < last; b++) {                                                                      \
            const int64_t *labels = c->labels + c->begins[b], steps = c->input[b], states = 2 * c->target[b] + 1;     \
            const T *lp = (const T *)c->lp + b * c->classes;                                                          \
            T *alpha = (T *)c->alpha + b * c->steps * c->states;                                                      \
            for (int64_t i = 0; i < c->steps * c->states; i++)                                                        \
                alpha[i] = none;                                                                                      \
            T *nll = (T *)c->nll + b;                                                                                 \
            if (steps == 0) {                                                                                         \
                *nll = states == 1 ? 0 : (T)INFINITY;                                                                 \
                continue;                                                                                             \
            }                                                                                                         \
            alpha[0] = lp[c->blank];                                                                                  \
            if (states > 1)                                                                                           \
                alpha[1] = lp[labels[0]];                                                                             \
            for (int64_t t = 1; t < steps; t++) {                                                                     \
                const T *now = lp + t * c->batch * c->classes, *from = alpha + (t - 1) * c->states;                   \
                T *to = alpha + t * c->states;                                                                        \
                for (int64_t s = 0; s < states; s++)                                                                  \
                    to[s] = sum3_##S(from[s], s > 0 ? from[s - 1] : none,                                             \
                                     s > 1 && may_skip(c, labels, s - 2, s) ? from[s - 2] : none) +                   \
                            now[state_class(c, labels, s)];                                                           \
            }                                                                                                         \
            const T *end = alpha + (steps - 1) * c->states;                                                           \
            *nll = -sum3_##S(end[states - 1], states > 1 ? end[states - 2] : none, none);                             \
        }                                                                                                             \
    }                                                                                                                 \
    static void backward_##S(void *context, int64_t first, int64_t last)                                              \
    {                                                                                                                 \
        const ctc *c = context;                                                                                       \
        const T none = -(T)INFINITY;                                                                                  \
        for (int64_t b = first; b < last; b++) {                                                                      \
            const int64_t *labels = c->labels + c->begins[b], steps = c->input[b], states = 2 * c->target[b] + 1;     \
            const T *lp = (const T *)c->lp + b * c->classes, *alpha = (const T *)c->alpha + b * c->steps * c->states; \
            T *out = (T *)c->out + b * c->classes, *beta = (T *)c->beta + 2 * b * c->states, *ahead = beta + c->states; \
            const T nll = ((const T *)c->nll)[b], grad = ((const T *)c->grad)[b];                                     \
            const bool skip = c->zero_infinity && nll == (T)INFINITY;                                                 \
            for (int64_t t = c->steps - 1; t >= 0; t--) {                                                             \
                const int64_t at = t * c->batch * c->classes;                                                         \
                const T *now = lp + at;                                                                               \
                T *to = out + at;                                                                                     \
                if (t >= steps || skip) {                                                                             \
                    for (int64_t k = 0; k < c->classes; k++)                                                          \
                        to[k] = 0;                                                                                    \
                    continue;                                                                                         \
                }                                                                                                     \
                for (int64_t s = 0; s < states; s++) {                                                                \
                    const T own = now[state_class(c, labels, s)];                                                     \
                    if (t == steps - 1)                                                                               \
                        beta[s] = s >= states - 2 ? own : none;                                                       \
                    else                                                                                              \
                        beta[s] = own + sum3_##S(ahead[s], s + 1 < states ? ahead[s + 1] : none,                      \
                                                 s + 2 < states && may_skip(c, labels, s + 2, s) ? ahead[s + 2] : none); \
                }                                                                                                     \
                for (int64_t k = 0; k < c->classes; k++)                                                              \
                    to[k] = none;                                                                                     \
                for (int64_t s = 0; s < states; s++) {                                                                \
                    T *sum = to + state_class(c, labels, s);                                                          \
                    *sum = sum3_##S(*sum, alpha[t * c->states + s] + beta[s], none);                                  \
                }                                                                                                     \
                for (int64_t k = 0; k < c->classes; k++)                                                              \
                    to[k] = (EXP(now[k]) - EXP(to[k] + nll - now[k])) * grad;                                         \
                T *swap = beta;                                                                                       \
                beta = ahead, ahead = swap;                                                                           \
            }                                                                                                         \
        }                                                                                                             \
    }
LOOPS(f32, float, expf, logf)
LOOPS(f64, double, exp, log)

int td_ctc_begins(const td_tensor *targets, int64_t batch, int64_t classes, const int64_t *target, int64_t *begins)
{
    const int64_t *labels = (const int64_t *)targets->data;
    int64_t at = 0;
    for (int64_t b = 0; b < batch; b++) {
        begins[b] = targets->ndim == 2 ? b * targets->sizes[1] : at;
        at += target[b];
        for (int64_t i = 0; i < target[b]; i++)
            if (labels[begins[b] + i] < 0 || labels[begins[b] + i] >= classes)
                return td_error(TD_E_RUNTIME, "ctc_loss: label %" PRId64 " is not one of the %" PRId64 " classes", labels[begins[b] + i], classes);
    }
    return 0;
}

static int find_labels(ctc *c, const td_tensor *labels, int64_t *begins)
{
    c->labels = (const int64_t *)labels->data, c->begins = begins;
    return td_ctc_begins(labels, c->batch, c->classes, c->target, begins);
}

static ctc describe(td_tensor *lp, td_tensor *log_alpha, const int64_t *input, const int64_t *target, int64_t blank,
                    bool zero_infinity)
{
    return (ctc){.steps = lp->sizes[0], .batch = lp->sizes[1], .classes = lp->sizes[2], .states = log_alpha->sizes[2],
                 .blank = blank, .input = input, .target = target, .lp = lp->data, .zero_infinity = zero_infinity};
}

int td_cpu__ctc_loss(td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input, int64_t n_target,
                     const int64_t *target, int64_t blank, bool zero_infinity, td_tensor *out0, td_tensor *out1)
{
    (void)n_input, (void)n_target;
    td_dtype type = (td_dtype)log_probs->dtype;
    TD_AUTO td_tensor *lp = td_as_contiguous(log_probs, type), *labels = td_as_contiguous(targets, TD_I64);
    if (!lp || !labels)
        return -1;
    ctc c = describe(lp, out1, input, target, blank, zero_infinity);
    c.alpha = out1->data, c.nll = out0->data;
    size_t bytes = (size_t)c.batch * sizeof(int64_t);
    int64_t *begins = td_mem_alloc(bytes);
    if (!begins)
        return -1;
    int status = find_labels(&c, labels, begins);
    if (!status)
        td_parallel_for(0, c.batch, td_grain(20 * c.steps * c.states), type == TD_F64 ? forward_f64 : forward_f32, &c);
    td_mem_free(begins, bytes);
    return status;
}

int td_cpu__ctc_loss_backward(td_tensor *grad, td_tensor *log_probs, td_tensor *targets, int64_t n_input,
                              const int64_t *input, int64_t n_target, const int64_t *target, td_tensor *nll,
                              td_tensor *log_alpha, int64_t blank, bool zero_infinity, td_tensor *out)
{
    (void)n_input, (void)n_target;
    td_dtype type = (td_dtype)log_probs->dtype;
    TD_AUTO td_tensor *lp = td_as_contiguous(log_probs, type), *labels = td_as_contiguous(targets, TD_I64);
    TD_AUTO td_tensor *g = td_as_contiguous(grad, type), *alpha = td_as_contiguous(log_alpha, type);
    TD_AUTO td_tensor *losses = td_as_contiguous(nll, type);
    if (!lp || !labels || !g || !alpha || !losses)
        return -1;
    ctc c = describe(lp, alpha, input, target, blank, zero_infinity);
    c.alpha = alpha->data, c.nll = losses->data, c.grad = g->data, c.out = out->data;
    size_t rows = (size_t)(2 * c.batch * c.states) * (size_t)td_itemsize(lp), bytes = (size_t)c.batch * sizeof(int64_t);
    char *block = td_mem_alloc(bytes + rows);
    if (!block)
        return -1;
    c.beta = block + bytes;
    int status = find_labels(&c, labels, (int64_t *)block);
    if (!status)
        td_parallel_for(0, c.batch, td_grain(40 * c.steps * c.states), type == TD_F64 ? backward_f64 : backward_f32, &c);
    td_mem_free(block, bytes + rows);
    return status;
}
