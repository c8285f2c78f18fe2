/* Connectionist temporal classification: src/kernels/cpu/nn/ctc.c says what is computed.  A group has a sample, step after step, and its lanes the
 * states; betas are alphas of the sample in reverse (BACK), of which all are kept, so that slopes have a group for each step.
 *
 * A: logarithms and sums. */
#include "kernels/device/group.ck"

/* steps and states: the most that a sample has. */
typedef struct ctc_values { int64_t steps, batch, classes, states, blank, zero_infinity; } ctc_values;

#ifndef TD_HOST
/* Of sample b: where its labels begin, how many steps and states it has. */
#define SAMPLE(b)                                                                       \
    const int64_t begin = AT(const int64_t, sizes)[b], steps = AT(const int64_t, sizes)[v.batch + (b)];                  \
    const int64_t states = 2 * AT(const int64_t, sizes)[2 * v.batch + (b)] + 1
#define CLASS(s) ((s) & 1 ? AT(const int64_t, labels)[begin + (s) / 2] : v.blank)

/* The logarithm of a sum of exponentials. */
static A_C sum3(A_C a, A_C b, A_C c)
{
    A_C most = a > b ? a : b;
    most = most > c ? most : c;
    return most == A_LOWEST ? most : A_log(A_exp(a - most) + A_exp(b - most) + A_exp(c - most)) + most;
}

#ifdef BACK
KERNEL ctc_paths(BUFFER(lp), BUFFER(labels), BUFFER(sizes), BUFFER(paths), BUFFER(nll), VALUES(ctc_values, v))
{
    UNPACK(ctc_values, v)
    for (int64_t b = GROUP; b < v.batch; b += GROUPS) {
        SAMPLE(b);
        GLOBAL const A *p = AT(const A, lp) + b * v.classes;
        GLOBAL A *rows = AT(A, paths) + b * v.steps * v.states;
        const int by = BACK ? 1 : -1;
        for (int64_t k = 0; k < v.steps; k++) {
            for (int64_t i = LANE; i < v.states; i += LANES) {
                const bool there = k < steps && i < states;
                const int64_t t = BACK && there ? steps - 1 - k : k, s = BACK && there ? states - 1 - i : i;
                A_C value = A_LOWEST;
                if (there && (k || i < 2)) {
                    GLOBAL const A *from = rows + (t + by) * v.states + s;
                    value = k ? sum3(from[0], i > 0 ? from[by] : A_LOWEST, i > 1 && CLASS(s + 2 * by) != CLASS(s) ? from[2 * by] : A_LOWEST) : 0;
                    value += p[t * v.batch * v.classes + CLASS(s)];
                }
                if (there || !BACK)
                    rows[t * v.states + s] = value;
            }
            BARRIER;
        }
#if !BACK
        GLOBAL const A *end = rows + (steps - 1) * v.states + states - 1;
        if (LANE == 0)
            AT(A, nll)[b] = steps == 0 ? (states == 1 ? 0 : A_HIGHEST) : -sum3(end[0], states > 1 ? end[-1] : A_LOWEST, A_LOWEST);
#endif
    }
}
#else
/* The first state of a class adds all of that class up. */
KERNEL ctc_slopes(BUFFER(lp), BUFFER(labels), BUFFER(sizes), BUFFER(alpha), BUFFER(beta), BUFFER(nll), BUFFER(grad), BUFFER(out), VALUES(ctc_values, v))
{
    UNPACK(ctc_values, v)
    for (int64_t row = GROUP; row < v.steps * v.batch; row += GROUPS) {
        const int64_t t = row / v.batch, b = row - t * v.batch, at = (b * v.steps + t) * v.states;
        SAMPLE(b);
        GLOBAL const A *now = AT(const A, lp) + row * v.classes;
        GLOBAL A *to = AT(A, out) + row * v.classes;
        const A_C loss = AT(const A, nll)[b];
        const bool counts = t < steps && !(v.zero_infinity && loss == A_HIGHEST);
        for (int64_t k = LANE; k < v.classes; k += LANES)
            to[k] = A_LOWEST;
        BARRIER;
        for (int64_t s = LANE; counts && s < states; s += LANES) {
            const int64_t own = CLASS(s);
            A_C sum = A_LOWEST;
            int64_t first = 0;
            while (CLASS(first) != own)
                first++;
            for (int64_t i = s; first == s && i < states; i++)
                if (CLASS(i) == own)
                    sum = sum3(sum, AT(const A, alpha)[at + i] + AT(const A, beta)[at + i], A_LOWEST);
            if (first == s)
                to[own] = sum;
        }
        BARRIER;
        for (int64_t k = LANE; k < v.classes; k += LANES)
            to[k] = counts ? (A_exp(now[k]) - A_exp(to[k] + loss - now[k])) * AT(const A, grad)[b] : 0;
    }
}
#endif
#endif
