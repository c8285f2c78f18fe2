/* Reductions that call functions of mathematics per element: logsumexp, and sums of powers.  Apart, so that a sum's program doesn't bring
 * them along; types and KIND are those of reduce.ck. */
#include "kernels/device/reduce_kinds.ck"

#ifndef TD_HOST
#define TAKEN(a, x, at) taken(a, (x), at, C_NUMBER(v.p))
#if KIND == REDUCE_LSE
typedef struct state { C_C most, sum; } state;
#define START_ {C_LOWEST, 0}
/* Where the largest is infinite or NaN it is the result, so its sum is 1, or 0 where all was -inf. */
static state joined(state a, state b)
{
    state c;
    c.most = b.most > a.most || b.most != b.most ? b.most : a.most;
    if (c.most - c.most != 0)
        c.sum = c.most == C_LOWEST ? 0 : 1;
    else
        c.sum = (a.most == C_LOWEST ? 0 : a.sum * C_exp(a.most - c.most)) + (b.most == C_LOWEST ? 0 : b.sum * C_exp(b.most - c.most));
    return c;
}
static state taken(state a, A raw, int64_t at, C_C p)
{
    const C_C x = (C_C)A_LOAD(raw);
    if (x <= a.most) {
        if (a.most - a.most == 0)
            a.sum += C_exp(x - a.most);
    } else if (a.most == a.most) {
        a.sum = x - x != 0 ? 1 : a.most == C_LOWEST ? 1 : a.sum * C_exp(a.most - x) + 1;
        a.most = x;
    }
    return a;
}
#define FINISH(a, to, to2) *(to) = B_STORE((a).most + C_log((a).sum))
#else
typedef C_C state;
#define START_ 0
static state joined(state a, state b) { return a + b; }
static state taken(state a, A raw, int64_t at, C_C p)
{
    const C_C x = (C_C)A_LOAD(raw);
    return a + C_pow(x < 0 ? -x : x, p);
}
#define FINISH(a, to, to2) *(to) = B_STORE(C_pow(a, 1 / C_NUMBER(v.p)))
#endif
#endif
#include "kernels/device/reduce_engine.ck"
