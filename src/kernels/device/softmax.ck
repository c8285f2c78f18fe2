/* softmax and log_softmax over the middle of [outer][n][inner], and their gradients.
 *
 * A team takes a line of n elements, whose lanes keep them in registers: a line is read once.  Longer ones are read twice: the sum is corrected
 * as the maximum grows (Milakov and Gimelshein, 2018).  Lines whose elements are far apart (inner > 1) and many are taken by teams of one, so
 * that neighbours read neighbours.
 *
 * A: the operand's dtype, backward the gradient's; R: of the result that backward reads; B: what is written, and computed in.  LOG: the
 * logarithm. */
#include "kernels/device/group.ck"

typedef struct softmax_values { int64_t lines, n, inner; } softmax_values;

#ifndef TD_HOST
PACK_TYPE(A, pack_of_a);
PACK_TYPE(B, pack_of_b);
PACK_TYPE(R, pack_of_r);
/* Where pack i of the line is: packs are of one element unless inner is 1. */
#define LINE(T, x, i) ((GLOBAL T *)(x + (i) * v.inner * PACK))
#define BEGIN                                                                                           \
    const int64_t at = first + OWN_TEAM, packs = at < v.lines ? v.n / PACK : 0, outer = divided(at, v.inner); \
    const int64_t start = (outer * v.n - outer) * v.inner + at;
#if LOG
#define LOG_OF(x) B_log(x)
#else
#define LOG_OF(x) (1 / (x))
#endif

#if !HELD
/* The maximum so far, and the sum of exponentials below it. */
typedef struct line { B_C most, sum; } line;

static line seen(line a, B_C x)
{
    if (x <= a.most || x != x) {
        a.sum += a.most == B_LOWEST && x == x ? (B_C)0 : B_exp(x - a.most);
    } else {
        a.sum = a.sum * B_exp(a.most - x) + ((x - x) + 1);      /* infinity makes no number of it, as on the CPU */
        a.most = x;
    }
    return a;
}
static line joined(line a, line b)
{
    line c;
    c.most = a.most > b.most ? a.most : b.most;
    c.sum = (a.most == c.most ? a.sum : a.sum * B_exp(a.most - c.most)) + (b.most == c.most ? b.sum : b.sum * B_exp(b.most - c.most));
    return c;
}
#endif

KERNEL softmax(BUFFER(x), BUFFER(y), VALUES(softmax_values, v))
{
    UNPACK(softmax_values, v)
#if HELD
    SHARED B_C room[WIDTH];
#else
    SHARED line room[WIDTH];
#endif
    for (int64_t first = GROUP * TEAMS; first < v.lines; first += GROUPS * TEAMS) {
        BEGIN
        GLOBAL const A *from = AT(const A, x) + start;
        GLOBAL B *to = AT(B, y) + start;
#if HELD
        B_C held[HELD * PACK], most = B_LOWEST, sum = 0;
        EACH_PACK(k, i, packs) {
            const pack_of_a p = GET_PACK(LINE(const pack_of_a, from, i));
            EACH_OF_PACK(j)
                held[k * PACK + j] = A_LOAD(p.at[j]);
        }
        EACH_PACK(k, i, packs)
            EACH_OF_PACK(j)
                most = HIGHER(held[k * PACK + j], most);
        TEAM_FOLD(room, most, HIGHER);
        EACH_PACK(k, i, packs)
            EACH_OF_PACK(j) {
                const B_C e = B_exp(held[k * PACK + j] - most);
                sum += e;
#if LOG
                held[k * PACK + j] -= most;
#else
                held[k * PACK + j] = e;
#endif
            }
        TEAM_FOLD(room, sum, PLUS);
        const B_C of_sum = LOG_OF(sum);
#else
        line a = {B_LOWEST, 0};
        EACH_PACK(k, i, packs) {
            const pack_of_a p = GET_PACK(LINE(const pack_of_a, from, i));
            EACH_OF_PACK(j)
                a = seen(a, A_LOAD(p.at[j]));
        }
        TEAM_FOLD(room, a, joined);
        const B_C of_sum = LOG_OF(a.sum);
#endif
        EACH_PACK(k, i, packs) {
            pack_of_b q;
#if HELD && LOG
            EACH_OF_PACK(j)
                q.at[j] = B_STORE(held[k * PACK + j] - of_sum);
#elif HELD
            EACH_OF_PACK(j)
                q.at[j] = B_STORE(held[k * PACK + j] * of_sum);
#else
            const pack_of_a p = GET_PACK(LINE(const pack_of_a, from, i));
            EACH_OF_PACK(j)
#if LOG
                q.at[j] = B_STORE(A_LOAD(p.at[j]) - a.most - of_sum);
#else
                q.at[j] = B_STORE(B_exp(A_LOAD(p.at[j]) - a.most) * of_sum);
#endif
#endif
            SET_PACK(LINE(pack_of_b, to, i), q);
        }
    }
}

/* The gradient is y (g - sum(g y)), of the logarithm g - exp(y) sum(g). */
#if LOG
#define SUMMAND(g, y) (g)
#define GRADIENT(g, y, sum) ((g) - B_exp(y) * (sum))
#else
#define SUMMAND(g, y) ((g) * (y))
#define GRADIENT(g, y, sum) ((y) * ((g) - (sum)))
#endif

KERNEL softmax_gradient(BUFFER(grad), BUFFER(y), BUFFER(out), VALUES(softmax_values, v))
{
    UNPACK(softmax_values, v)
    SHARED B_C room[WIDTH];
    for (int64_t first = GROUP * TEAMS; first < v.lines; first += GROUPS * TEAMS) {
        BEGIN
        GLOBAL const A *g = AT(const A, grad) + start;
        GLOBAL const R *r = AT(const R, y) + start;
        GLOBAL B *to = AT(B, out) + start;
        B_C sum = 0;
#if HELD
        pack_of_a p[HELD];
        pack_of_r q[HELD];
        EACH_PACK(k, i, packs) {
            p[k] = GET_PACK(LINE(const pack_of_a, g, i));
            q[k] = GET_PACK(LINE(const pack_of_r, r, i));
        }
#define READ(k, i)
#define OF_PACK(p, k) p[k]
#else
#define READ(k, i) const pack_of_a p = GET_PACK(LINE(const pack_of_a, g, i)); const pack_of_r q = GET_PACK(LINE(const pack_of_r, r, i));
#define OF_PACK(p, k) p
#endif
        EACH_PACK(k, i, packs) {
            READ(k, i)
            EACH_OF_PACK(j)
                sum += SUMMAND((B_C)A_LOAD(OF_PACK(p, k).at[j]), (B_C)R_LOAD(OF_PACK(q, k).at[j]));
        }
        TEAM_FOLD(room, sum, PLUS);
        EACH_PACK(k, i, packs) {
            READ(k, i)
            pack_of_b s;
            EACH_OF_PACK(j)
                s.at[j] = B_STORE(GRADIENT((B_C)A_LOAD(OF_PACK(p, k).at[j]), (B_C)R_LOAD(OF_PACK(q, k).at[j]), sum));
            SET_PACK(LINE(pack_of_b, to, i), s);
        }
    }
}
#endif
