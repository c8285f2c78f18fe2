/* Random numbers of a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), in cuRAND's and PyTorch's
 * layout: Note [Streams of devices] in random.c.  A work item makes the numbers of one counter, four, or two of 53 or 64 bits.
 *
 * RECORDED: within a graph, whose launches write the seed and the round that `state` has; those of the values are added to them.
 *
 * A: the result's dtype; P: of probabilities; U: float, or double if A or P is (WIDE).  KIND: td_filling; LAW: td_law.  LONG: integers of 64 bits.  PACK: how
 * many neighbours get numbers of one counter. */
#include "kernels/device/group.ck"

/* a and b as bits of U: NUMBER in group.ck. */
typedef struct random_values { int64_t seed, round, n, threads, units, from, range, a, b; } random_values;
typedef struct sample_values { int64_t seed, round, n, k, samples; } sample_values;
typedef struct range_values { int64_t n, above, a, b; index_limits limits; } range_values;

#ifndef TD_HOST
#if RECORDED
#define STATE BUFFER(state),
#define SEED ((uint64_t)v.seed + (uint64_t)AT(const int64_t, state)[0])
#define ROUND ((uint64_t)v.round + (uint64_t)AT(const int64_t, state)[1])
#else
#define STATE
#define SEED ((uint64_t)v.seed)
#define ROUND ((uint64_t)v.round)
#endif

static void philox(uint64_t seed, uint64_t round, uint64_t thread, uint32_t *word)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    word[0] = (uint32_t)round, word[1] = (uint32_t)(round >> 32), word[2] = (uint32_t)thread, word[3] = (uint32_t)(thread >> 32);
    for (int i = 0; i < 10; i++) {
        const uint64_t p = (uint64_t)0xd2511f53u * word[0], q = (uint64_t)0xcd9e8d57u * word[2];
        word[0] = (uint32_t)(q >> 32) ^ word[1] ^ key0, word[1] = (uint32_t)q;
        word[2] = (uint32_t)(p >> 32) ^ word[3] ^ key1, word[3] = (uint32_t)p;
        key0 += 0x9e3779b9u, key1 += 0xbb67ae85u;
    }
}
/* The k-th in (0, 1]. */
static U unit(const uint32_t *word, int k)
{
#if WIDE
    return (U)((uint64_t)word[2 * k] ^ (uint64_t)word[2 * k + 1] << 21) * (U)0x1p-53 + (U)0x1p-54;
#else
    return (U)word[k] * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
#endif
}
#if WIDE
#define EPSILON 2.220446049250313e-16
#define PI 3.141592653589793
#else
#define EPSILON 1.1920928955078125e-7f
#define PI 3.14159265358979f
#endif

#ifdef KIND
/* Box and Muller's pairs. */
static U normal(const uint32_t *word, int k)
{
#if WIDE
    const U u = unit(word, 0), v = unit(word, 1) * (U)2 * PI;
    const U size = U_sqrt((U)-2 * U_log(u));
    return k ? size * U_cos(v) : size * U_sin(v);
#else
    const int first = k & 2;
    const U v = (U)word[first + 1] * 1.4629180792671596e-9f + 7.314590396335798e-10f;
    const U size = U_sqrt((U)-2 * U_log(unit(word, first)));
    return k & 1 ? size * U_cos(v) : size * U_sin(v);
#endif
}

#if KIND < 8
static A made(const uint32_t *word, int k, U a, U b)
{
#if KIND == 0
    const A x = A_STORE(unit(word, k) * (b - a) + a);
    return A_LOAD(x) == A_LOAD(A_STORE(b)) ? A_STORE(a) : x;
#elif KIND == 1
    return A_STORE(normal(word, k) * b + a);
#elif KIND == 2
    return A_STORE(U_exp(normal(word, k) * b + a));
#elif KIND == 3
    U x = unit(word, k);
    x = x > 1 - EPSILON ? 1 - EPSILON : x < EPSILON ? EPSILON : x;
    return A_STORE(a + b * U_tan(PI * (x - 0.5f)));
#elif KIND == 4
    const U x = unit(word, k);
    return A_STORE((x >= 1 - EPSILON / 2 ? -EPSILON / 2 : U_log(x)) / -a);
#elif KIND == 5
    return A_STORE((A_C)U_ceil(U_log(unit(word, k)) / a));
#else
    return unit(word, k) < a ? A_STORE((A_C)b) : A_STORE((A_C)0);
#endif
}
#endif

#if WIDE || LONG
#define EACH 2
#else
#define EACH 4
#endif
KERNEL fill_random(BUFFER(out), BUFFER(each), STATE VALUES(random_values, v))
{
    UNPACK(random_values, v)
    for (int64_t at = ITEM; at < v.units; at += ITEMS) {
        const int64_t thread = at % v.threads, round = at / v.threads;
        uint32_t word[4];
        philox(SEED, ROUND + (uint64_t)round, (uint64_t)thread, word);
        for (int k = 0; k < EACH; k++) {
            const int64_t i = ((round * (EACH / PACK) + k / PACK) * v.threads + thread) * PACK + k % PACK;
            if (i >= v.n)
                break;
#if KIND == 8
#if LONG
            const uint64_t bits = (uint64_t)word[2 * k] << 32 | word[2 * k + 1];
#else
            const uint64_t bits = word[k];
#endif
            AT(A, out)[i] = A_STORE((A_C)(int64_t)((v.range ? bits % (uint64_t)v.range : bits) + (uint64_t)v.from));
#elif KIND == 9
            AT(A, out)[i] = A_STORE((A_C)(unit(word, k) <= (U)P_LOAD(AT(const P, each)[i])));
#else
            AT(A, out)[i] = made(word, k, NUMBER(v.a), NUMBER(v.b));
#endif
        }
    }
}
#elif defined LAW

/* Numbers of an element, one after the other: as many counters as rejections take, which differ in the upper bits of the thread's number, so that
 * no call meets another's. */
typedef struct draws { uint64_t seed, round, thread; int left; uint32_t word[4]; } draws;
static U draw(draws *d)
{
    if (!d->left) {
        philox(d->seed, d->round, d->thread, d->word);
        d->thread += (uint64_t)1 << 40, d->left = WIDE ? 2 : 4;
    }
    return unit(d->word, --d->left);
}

/* The methods are those of src/kernels/cpu/random/sample.c. */
#if LAW == 0
/* Products of uniform numbers for small rates, else Hoermann's PTRS. */
static U sample_of(draws *d, U rate, U unused)
{
    if (!(rate >= 0) || rate - rate != 0)
        return rate;
    if (rate < 10) {
        const U least = U_exp(-rate);
        U product = 1, k = 0;
        while (rate > 0 && (product *= draw(d)) > least)
            k += 1;
        return k;
    }
    const U log_rate = U_log(rate), b = 0.931 + 2.53 * U_sqrt(rate), a = -0.059 + 0.02483 * b, inverse = U_log(1.1239 + 1.1328 / (b - 3.4));
    for (;;) {
        const U u = draw(d) - 0.5, v = draw(d), us = 0.5 - (u < 0 ? -u : u), k = U_floor((2 * a / us + b) * u + rate + 0.43);
        if ((us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) ||
            (k >= 0 && !(us < 0.013 && v > us) && U_log(v) + inverse - U_log(a / (us * us) + b) <= k * log_rate - rate - U_lgamma(k + 1)))
            return k;
    }
}
#elif LAW == 1
/* Marsaglia and Tsang; below 1 a number for alpha + 1, times a power of a uniform number. */
static U sample_of(draws *d, U alpha, U least)
{
    const U scale = alpha < 1 ? U_pow(draw(d), 1 / alpha) : 1, e = (alpha < 1 ? alpha + 1 : alpha) - 1 / (U)3, c = 1 / U_sqrt(9 * e);
    for (;;) {
        const U size = U_sqrt(-2 * U_log(draw(d))), x = size * U_cos(2 * PI * draw(d)), y = 1 + c * x;
        if (y <= 0)
            continue;
        const U v = y * y * y, u = draw(d), xx = x * x;
        if (u < 1 - 0.0331f * xx * xx || U_log(u) < xx / 2 + e * (1 - v + U_log(v)))
            return alpha != 0 && scale * e * v > least ? scale * e * v : least;
    }
}
#else
/* The remainder of Stirling's series for log k!. */
static U stirling_rest(U k)
{
    TD_LOCAL_TABLE U small[10] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
                                  0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
    const U square = (k + 1) * (k + 1);
    return k < 10 ? small[k > 0 ? (int)k : 0] : (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}
/* Of a success up to 1/2, else of a failure: geometric gaps for small means, else Hoermann's BTRS. */
static U sample_of(draws *d, U count, U p)
{
    const bool failures = p > 0.5;
    const U q = failures ? p : 1 - p, own = failures ? 1 - p : p, mean = count * own;
    if (count <= 0 || p <= 0 || p >= 1 || p != p)
        return p != p ? p : count <= 0 || p <= 0 ? 0 : count;
    U k = 0;
    if (!(mean >= 10)) {
        for (U sum = 0, log_q = U_log1p(-own); (sum += U_ceil(U_log(draw(d)) / log_q)) <= count;)
            k += 1;
        return failures ? count - k : k;
    }
    const U deviation = U_sqrt(mean * q), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * own, odds = own / q;
    const U alpha = (2.83 + 5.1 / b) * deviation, mode = U_floor((count + 1) * own), rest = count - mode + 1;
    for (;;) {
        const U u = draw(d) - 0.5, v = draw(d), us = 0.5 - (u < 0 ? -u : u);
        k = U_floor((2 * a / us + b) * u + mean + 0.5);
        if (k < 0 || k > count)
            continue;
        if ((us >= 0.07 && v <= 0.92 - 4.2 / b) ||
            U_log(v * alpha / (a / (us * us) + b)) <=
                (mode + 0.5) * U_log((mode + 1) / (odds * rest)) + (count + 1) * U_log(rest / (count - k + 1)) +
                (k + 0.5) * U_log(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) + stirling_rest(count - mode) - stirling_rest(k) -
                stirling_rest(count - k))
            return failures ? count - k : k;
    }
}
#endif

/* least: of gamma, the smallest number above 0. */
KERNEL sample(BUFFER(out), BUFFER(a), BUFFER(b), STATE VALUES(random_values, v))
{
    UNPACK(random_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        draws d = {SEED, ROUND, (uint64_t)i, 0, {0, 0, 0, 0}};
        const U second = LAW == 2 ? (U)P_LOAD(AT(const P, b)[i]) : NUMBER(v.b);
        AT(A, out)[i] = A_STORE((A_C)sample_of(&d, (U)P_LOAD(AT(const P, a)[i]), second));
    }
}
#else

/* Notes an element that doesn't lie between a and b, or, where it must be above, is a. */
KERNEL check_range(BUFFER(x), BUFFER(late), VALUES(range_values, v))
{
    UNPACK(range_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const U x = (U)P_LOAD(AT(const P, x)[i]);
        if (!(x >= NUMBER(v.a) && x <= NUMBER(v.b)) || (v.above && x == NUMBER(v.a)))
            NOTE_INDEX(late, i, v.limits);
    }
}

/* Indices of rows of k weights, by inverting the sums of the weights. */
KERNEL multinomial(BUFFER(out), BUFFER(weights), STATE VALUES(sample_values, v))
{
    UNPACK(sample_values, v)
    for (int64_t at = ITEM; at < v.n; at += ITEMS) {
        GLOBAL const P *w = AT(const P, weights) + at / v.samples * v.k;
        uint32_t word[4];
        U sum = 0, part = 0;
        int64_t chosen = 0;
        philox(SEED, ROUND, (uint64_t)at, word);
        for (int64_t i = 0; i < v.k; i++)
            sum += (U)P_LOAD(w[i]);
        const U target = unit(word, 0) * sum;
        for (int64_t i = 0; i < v.k && part < target; i++) {
            const U x = (U)P_LOAD(w[i]);
            part += x;
            chosen = x > 0 ? i : chosen;
        }
        AT(int64_t, out)[at] = chosen;
    }
}
#endif
#endif
