/* Reductions that need no exponentials: sums and what is summed of other things, products, extremes with and without where they are,
 * variances.
 *
 * Order and NaN are the CPU's: of equal extremes the first,
 * a NaN before anything. */
#include "kernels/device/reduce_kinds.ck"

#ifndef TD_HOST
#define TAKEN(a, x, at) taken(a, (x), at)

#if KIND <= REDUCE_PROD
typedef C_C state;
#if KIND == REDUCE_PROD
#define START_ {1}
#define FOLDED(a, b) C_MUL(a, b)
#else
#define START_ {0}
#define FOLDED(a, b) C_ADD(a, b)
#endif
static state joined(state a, state b) { return FOLDED(a, b); }
static state taken(state a, A raw, int64_t at)
{
#if KIND == REDUCE_COUNT
    return a + A_TRUTH(A_LOAD(raw));
#else
    const C_C x = C_OF(A_LOAD(raw));
#if KIND == REDUCE_NANSUM
    return x != x ? a : a + x;
#elif KIND == REDUCE_ABSSUM
    return a + (x < 0 ? -x : x);
#elif KIND == REDUCE_SQUARES
    return a + x * x;
#else
    return FOLDED(a, x);
#endif
#endif
}
#if C_COMPLEX
#define FINISH(a, to, to2) *(to) = B_STORE(v.after == AFTER_MEAN ? C_div_real(a, v.reduced.count) : (a))
#elif C_FLOATING
#define FINISH(a, to, to2) *(to) = B_STORE(v.after == AFTER_MEAN ? (a) / (C_C)v.reduced.count : v.after == AFTER_ROOT ? C_sqrt(a) : (a))
#else
#define FINISH(a, to, to2) *(to) = B_STORE(v.after == AFTER_ANY ? (a) > 0 : v.after == AFTER_ALL ? (a) == v.reduced.count : (a))
#endif

#elif KIND <= REDUCE_MINMAX || KIND == REDUCE_ABSMAX || KIND == REDUCE_ABSMIN
/* A NaN replaces whatever there was and stays, since nothing compares above it. */
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#if KIND == REDUCE_MINMAX
typedef struct state { C_C least, most; } state;
#define START_ {C_HIGHEST, C_LOWEST}
static state taken(state a, A raw, int64_t at)
{
    const C_C x = (C_C)A_LOAD(raw);
    a.least = SMALLER(a.least, x);
    a.most = LARGER(a.most, x);
    return a;
}
static state joined(state a, state b)
{
    a.least = SMALLER(a.least, b.least);
    a.most = LARGER(a.most, b.most);
    return a;
}
#define FINISH(a, to, to2) (*(to) = B_STORE((a).least), *(to2) = D_STORE((a).most))
#else
typedef C_C state;
static state joined(state a, state b)
{
#if KIND == REDUCE_MAX || KIND == REDUCE_ABSMAX
    return LARGER(a, b);
#else
    return SMALLER(a, b);
#endif
}
static state taken(state a, A raw, int64_t at)
{
    const C_C x = (C_C)A_LOAD(raw);
#if KIND >= REDUCE_ABSMAX
    return joined(a, x < 0 ? -x : x);
#else
    return joined(a, x);
#endif
}
#if KIND == REDUCE_ABSMAX
#define START_ 0
#elif KIND == REDUCE_MAX
#define START_ C_LOWEST
#else
#define START_ C_HIGHEST
#endif
#define FINISH(a, to, to2) *(to) = B_STORE(a)
#endif

#elif KIND <= REDUCE_ARGMIN
typedef struct state { C_C value; int64_t at; } state;
#define START_ {0, -1}
/* Lanes and groups join in the order of a tree, not of elements: so the position decides between equal values and between NaNs, and the
 * result is the same for any number of groups. */
#if KIND == REDUCE_ARGMAX
#define BEFORE(x, y) ((x) > (y))
#else
#define BEFORE(x, y) ((x) < (y))
#endif
static state joined(state a, state b)
{
    if (b.at < 0)
        return a;
    if (a.at < 0 || BEFORE(b.value, a.value) || (b.value != b.value && a.value == a.value))
        return b;
    return b.at < a.at && (b.value == a.value || b.value != b.value) ? b : a;
}
static state taken(state a, A raw, int64_t at)
{
    state b;
    b.value = (C_C)A_LOAD(raw);
    b.at = at;
    return joined(a, b);
}
#define FINISH(a, to, to2)              \
    do {                                \
        if (v.first)                    \
            *(to) = B_STORE((a).value); \
        *(to2) = D_STORE((a).at);       \
    } while (0)

#else
/* Count, mean, sum of squared differences: Welford's way, and parts by the formula of Chan, Golub and LeVeque. */
typedef struct state { C_C count, mean, squares; } state;
#define START_ {0, 0, 0}
static state taken(state a, A raw, int64_t at)
{
    const C_C x = (C_C)A_LOAD(raw), off = x - a.mean;
    a.count += 1;
    a.mean += off / a.count + (a.count > 1 ? off - off : (C_C)0);       /* no mean beside infinity */
    a.squares += off * (x - a.mean);
    return a;
}
/* Several at once: their own mean first, which costs a division for all of them. */
#define TAKE_ALL(a, n, m, raw, at)                                                                      \
    do {                                                                                                \
        state b_ = {(n) * (m), 0, 0};                                                                   \
        UNROLL for (int k_ = 0; k_ < (n); k_++)                                                         \
            UNROLL for (int j_ = 0; j_ < (m); j_++)                                                     \
                b_.mean += (C_C)A_LOAD(raw);                                                            \
        b_.mean /= (n) * (m);                                                                           \
        b_.mean += (n) * (m) > 1 ? b_.mean - b_.mean : (C_C)0;                                                  \
        UNROLL for (int k_ = 0; k_ < (n); k_++)                                                         \
            UNROLL for (int j_ = 0; j_ < (m); j_++)                                                     \
                b_.squares += ((C_C)A_LOAD(raw) - b_.mean) * ((C_C)A_LOAD(raw) - b_.mean);              \
        a = joined(a, b_);                                                                              \
    } while (0)
static state joined(state a, state b)
{
    const C_C both = a.count + b.count, off = b.mean - a.mean, share = b.count / (both > 0 ? both : 1);
    a.squares += b.squares + off * off * a.count * share;
    a.mean += off * share + (a.count > 0 && b.count > 0 ? off - off : (C_C)0);      /* no mean beside infinity */
    a.count = both;
    return a;
}
/* The correction may reach or exceed the count: there the variance is infinite or NaN, as a division by 0 gives it, not negative. */
#define FINISH(a, to, to2)                                                                              \
    do {                                                                                                \
        const C_C degrees_ = (C_C)v.reduced.count - C_NUMBER(v.p);                                      \
        const C_C nothing_ = 0, var_ = v.reduced.count ? (a).squares / (degrees_ > 0 ? degrees_ : nothing_) : nothing_ / nothing_; \
        *(to) = B_STORE(v.after == AFTER_ROOT ? C_sqrt(var_) : var_);                                   \
        if (v.second)                                                                                   \
            *(to2) = D_STORE(v.reduced.count ? (a).mean : nothing_ / nothing_);                         \
    } while (0)
#endif
#endif
#include "kernels/device/reduce_engine.ck"
