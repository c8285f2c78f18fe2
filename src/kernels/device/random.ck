/* Random numbers of a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), in cuRAND's and PyTorch's
 * layout: Note [Streams of devices] in random.c.  A work item makes the numbers of one counter, four, or two of 53 or 64 bits.
 *
 * A: the result's dtype; P: of probabilities; U: float, or double if A or P is (WIDE).  KIND: td_filling.  LONG: integers of 64 bits.  PACK: how
 * many neighbours get numbers of one counter. */
#include "kernels/device/group.ck"

/* a and b as bits of U: NUMBER in group.ck. */
typedef struct random_values { int64_t seed, round, n, threads, units, from, range, a, b; } random_values;
typedef struct sample_values { int64_t seed, round, n, k, samples; } sample_values;

#ifndef TD_HOST
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
KERNEL fill_random(BUFFER(out), BUFFER(each), VALUES(random_values, v))
{
    UNPACK(random_values, v)
    for (int64_t at = ITEM; at < v.units; at += ITEMS) {
        const int64_t thread = at % v.threads, round = at / v.threads;
        uint32_t word[4];
        philox((uint64_t)v.seed, (uint64_t)(v.round + round), (uint64_t)thread, word);
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
#else

/* Whether each group has met a number that is no probability. */
#define EITHER(a, b) ((a) | (b))
KERNEL improbable(BUFFER(p), BUFFER(found), VALUES(random_values, v))
{
    UNPACK(random_values, v)
    SHARED int64_t room[WIDTH];
    int64_t is = 0;
    for (int64_t i = ITEM; i < v.n; i += ITEMS)
        is |= !(P_LOAD(AT(const P, p)[i]) >= 0 && P_LOAD(AT(const P, p)[i]) <= 1);
    GROUP_FOLD(int64_t, room, is, EITHER);
    if (LANE == 0)
        AT(int64_t, found)[GROUP] = is;
}

/* Indices of rows of k weights, by inverting the sums of the weights. */
KERNEL multinomial(BUFFER(out), BUFFER(weights), VALUES(sample_values, v))
{
    UNPACK(sample_values, v)
    for (int64_t at = ITEM; at < v.n; at += ITEMS) {
        GLOBAL const P *w = AT(const P, weights) + at / v.samples * v.k;
        uint32_t word[4];
        U sum = 0, part = 0;
        int64_t chosen = 0;
        philox((uint64_t)v.seed, (uint64_t)v.round, (uint64_t)at, word);
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
