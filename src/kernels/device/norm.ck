/* Normalization: of rows (layer norm, rms norm, group norm) and of channels (batch norm).
 *
 * x is [outer][channels][inner].  A row is n elements that lie together: all channels of a sample, or a group of them.  A team takes a row,
 * whose lanes keep what they read.  The sums per channel that gradients of weight and bias are, and batch norm's gradient needs, are made in
 * parts: over planes by groups of work items, down columns (inner is 1) by teams of a group that take samples by turns.
 *
 * A: of the input, the result and their gradients; W: of weight and bias; S: of mean and rstd; R: of running statistics; C: computed in.
 * SPREAD: each element of a row is a channel (layer norm). */
#include "kernels/device/group.ck"

typedef struct norm_values {
    int64_t outer, channels, inner, rows, n;
    int64_t groups;                         /* rows of a sample */
    int64_t stat_step, stat_channels;       /* the statistics of channel c of sample o: o * stat_step + c / stat_channels */
    int64_t parts, mode;
    int64_t weight, bias, mean, running_mean, running_var, saved, dw, db;       /* whether there are such */
    number  eps, momentum, unbiased;
} norm_values;

/* Where batch norm's statistics come from. */
#define NORM_TRAINING 0
#define NORM_RUNNING  1
#define NORM_SAVED    2

#ifndef TD_HOST
PACK_TYPE(A, pack_of_a);
PACK_TYPE(W, pack_of_w);
typedef struct two { C_C g, gx; } two;
static two both(two a, two b)
{
    a.g += b.g;
    a.gx += b.gx;
    return a;
}
#define WEIGHT(c) (v.weight ? (C_C)W_LOAD(AT(const W, weight)[c]) : (C_C)1)
#define BIAS(c)   (v.bias ? (C_C)W_LOAD(AT(const W, bias)[c]) : (C_C)0)
/* Weights or biases of pack i of a row. */
#if SPREAD
#define OF_CHANNELS(w, buffer, is, otherwise)                                                                   \
    C_C w[PACK];                                                                                                \
    EACH_OF_PACK(j_)                                                                                            \
        w[j_] = otherwise;                                                                                      \
    if (is) {                                                                                                   \
        const pack_of_w p_ = GET_PACK(AT(const pack_of_w, buffer) + i);                                                    \
        EACH_OF_PACK(j_)                                                                                        \
            w[j_] = W_LOAD(p_.at[j_]);                                                                          \
    }
#else
#define OF_CHANNELS(w, buffer, is, otherwise)                                                                   \
    C_C w[PACK];                                                                                                \
    EACH_OF_PACK(j_)                                                                                            \
        w[j_] = (is) ? (C_C)W_LOAD(AT(const W, buffer)[divided(row % v.groups * v.n + (int64_t)i * PACK, v.inner)]) : (C_C)otherwise;
#endif
/* Elements of pack i of a row: kept, or read again. */
#if HELD
#define KEPT(x) C_C x[HELD * PACK];
#define KEEP(x, from)                                                                                           \
    EACH_PACK(k, i, packs) {                                                                                    \
        const pack_of_a p_ = GET_PACK((GLOBAL const pack_of_a *)(from) + i);                                             \
        EACH_OF_PACK(j)                                                                                         \
            x[k * PACK + j] = A_LOAD(p_.at[j]);                                                                 \
    }
#define READ(x, from)
#define OF(x) x[k * PACK + j]
#else
#define KEPT(x)
#define KEEP(x, from)
#define READ(x, from) const pack_of_a x = GET_PACK((GLOBAL const pack_of_a *)(from) + i);
#define OF(x) (C_C)A_LOAD(x.at[j])
#endif

/* Two passes, the mean first: the sum of squares less the square of the sum cancels where the mean is large beside the deviation, and
 * Welford's way divides once per element.  Passes over what lanes hold cost no memory traffic, so the kernel is bound by reading x once
 * and writing y once; rows too long to hold are read three times, of which the cache serves most.  Lanes beyond the last row take part
 * in the folds with nothing, for a barrier that not all of a group reach would hang. */
KERNEL norm_rows(BUFFER(x), BUFFER(weight), BUFFER(bias), BUFFER(y), BUFFER(mean), BUFFER(rstd), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    SHARED C_C room[WIDTH];
    for (int64_t first = GROUP * TEAMS; first < v.rows; first += GROUPS * TEAMS) {
        const int64_t row = first + OWN_TEAM, packs = row < v.rows ? v.n / PACK : 0;
        GLOBAL const A *from = AT(const A, x) + row * v.n;
        GLOBAL A *to = AT(A, y) + row * v.n;
        C_C m = 0, squares = 0;
        KEPT(e)
        KEEP(e, from)
        EACH_PACK(k, i, packs) {
            READ(e, from)
            EACH_OF_PACK(j)
                m += OF(e);
        }
        TEAM_FOLD(room, m, PLUS);
        m = v.mean ? m / (C_C)v.n : (C_C)0;
        EACH_PACK(k, i, packs) {
            READ(e, from)
            EACH_OF_PACK(j)
                squares += (OF(e) - m) * (OF(e) - m);
        }
        TEAM_FOLD(room, squares, PLUS);
        const C_C r = 1 / C_sqrt(squares / (C_C)v.n + C_NUMBER(v.eps));
        EACH_PACK(k, i, packs) {
            READ(e, from)
            OF_CHANNELS(w, weight, v.weight, 1)
            OF_CHANNELS(b, bias, v.bias, 0)
            pack_of_a q;
            EACH_OF_PACK(j)
                q.at[j] = A_STORE((OF(e) - m) * r * w[j] + b[j]);
            SET_PACK((GLOBAL pack_of_a *)to + i, q);
        }
        if (IN_TEAM == 0 && row < v.rows) {
            if (v.mean)
                AT(S, mean)[row] = S_STORE(m);
            AT(S, rstd)[row] = S_STORE(r);
        }
    }
}

/* With x' = (x - mean) rstd and g = grad w, dx = rstd (g - mean(g) - x' mean(g x')): both means come of one pass and one fold of pairs, and
 * what is held is replaced by g and x', which the second pass needs instead.  rms norm has no mean(g): its mean is 0 whatever x is. */
KERNEL norm_rows_backward(BUFFER(grad), BUFFER(x), BUFFER(weight), BUFFER(mean), BUFFER(rstd), BUFFER(dx), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    SHARED two room[WIDTH];
    for (int64_t first = GROUP * TEAMS; first < v.rows; first += GROUPS * TEAMS) {
        const int64_t row = first + OWN_TEAM, packs = row < v.rows ? v.n / PACK : 0;
        GLOBAL const A *from = AT(const A, x) + row * v.n, *slopes = AT(const A, grad) + row * v.n;
        GLOBAL A *to = AT(A, dx) + row * v.n;
        C_C m = 0, r = 0;
        if (row < v.rows) {
            m = v.mean ? (C_C)S_LOAD(AT(const S, mean)[row]) : (C_C)0;
            r = (C_C)S_LOAD(AT(const S, rstd)[row]);
        }
        KEPT(e)
        KEPT(g)
        KEEP(e, from)
        KEEP(g, slopes)
        two sum = {0, 0};
        EACH_PACK(k, i, packs) {
            READ(e, from)
            READ(g, slopes)
            OF_CHANNELS(w, weight, v.weight, 1)
            EACH_OF_PACK(j) {
                const C_C gw = OF(g) * w[j], centred = (OF(e) - m) * r;
                sum.g += gw;
                sum.gx += gw * centred;
#if HELD
                OF(g) = gw, OF(e) = centred;
#endif
            }
        }
        TEAM_FOLD(room, sum, both);
        const C_C even = v.mean ? sum.g / (C_C)v.n : (C_C)0, slope = sum.gx / (C_C)v.n;
        EACH_PACK(k, i, packs) {
            pack_of_a q;
#if HELD
            EACH_OF_PACK(j)
                q.at[j] = A_STORE(r * (OF(g) - even - OF(e) * slope));
#else
            READ(e, from)
            READ(g, slopes)
            OF_CHANNELS(w, weight, v.weight, 1)
            EACH_OF_PACK(j)
                q.at[j] = A_STORE(r * (OF(g) * w[j] - even - (OF(e) - m) * r * slope));
#endif
            SET_PACK((GLOBAL pack_of_a *)to + i, q);
        }
    }
}

/* g and g (x - mean) rstd of a pack, which begins with channel c of sample o; `own`: whether each of it is a channel. */
#define ADD_PACK(sum, o, c, place, own)                                                                                 \
    do {                                                                                                                \
        const pack_of_a g_ = GET_PACK((GLOBAL const pack_of_a *)(AT(const A, grad) + (place)));                               \
        const pack_of_a x_ = GET_PACK((GLOBAL const pack_of_a *)(AT(const A, x) + (place)));                                  \
        EACH_OF_PACK(j_) {                                                                                              \
            const int64_t s_ = SPREAD ? (o) : (o) * v.stat_step + divided((c) + ((own) ? j_ : 0), v.stat_channels);     \
            const C_C m_ = v.mean ? (C_C)S_LOAD(AT(const S, mean)[s_]) : (C_C)0;                                        \
            sum[(own) ? j_ : 0].g += (C_C)A_LOAD(g_.at[j_]);                                                            \
            sum[(own) ? j_ : 0].gx += (C_C)A_LOAD(g_.at[j_]) * (((C_C)A_LOAD(x_.at[j_]) - m_) * (C_C)S_LOAD(AT(const S, rstd)[s_])); \
        }                                                                                                               \
    } while (0)

/* Down columns: neighbouring lanes read neighbouring channels, so that each read is a whole line of memory though the elements of a channel
 * lie `channels` apart.  Samples are divided into parts until there are groups enough, and norm_sums adds the parts in their order: atomic
 * additions would spare the second kernel, but give other digits in each run. */
/* A group's tile is a pack of channels for each lane of a team. */
KERNEL norm_columns(BUFFER(grad), BUFFER(x), BUFFER(mean), BUFFER(rstd), BUFFER(partial), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    SHARED two room[WIDTH];
    const int64_t tiles = divided(v.channels / PACK + TEAM - 1, TEAM);
    for (int64_t unit = GROUP; unit < tiles * v.parts; unit += GROUPS) {
        const int64_t part = divided(unit, tiles), c = ((unit - part * tiles) * TEAM + IN_TEAM) * PACK;
        const two nothing = {0, 0};
        two sum[PACK];
        EACH_OF_PACK(j)
            sum[j] = nothing;
        if (c < v.channels) {
            UNROLL_BY(4) for (int64_t o = part * TEAMS + OWN_TEAM; o < v.outer; o += v.parts * TEAMS)
                ADD_PACK(sum, o, c, o * v.channels + c, 1);
        }
        EACH_OF_PACK(j) {
            FOLD_LANES(room, sum[j], both, WIDTH, TEAM);
            if (OWN_TEAM == 0 && c < v.channels)
                AT(two, partial)[part * v.channels + c + j] = sum[j];
        }
    }
}

/* Where planes lie between the channels: the elements of a channel's plane lie together, so a group reads along them. */
KERNEL norm_planes(BUFFER(grad), BUFFER(x), BUFFER(mean), BUFFER(rstd), BUFFER(partial), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    SHARED two room[WIDTH];
    for (int64_t unit = GROUP; unit < v.channels * v.parts; unit += GROUPS) {
        const int64_t part = divided(unit, v.channels), c = unit - part * v.channels;
        two sum[1] = {{0, 0}};
        UNROLL_BY(4) for (int64_t i = (part * WIDTH + LANE) * PACK; i < v.outer * v.inner; i += v.parts * WIDTH * PACK) {
            const int64_t o = divided(i, v.inner);
            ADD_PACK(sum, o, c, (o * v.channels + c) * v.inner + (i - o * v.inner), 0);
        }
        GROUP_FOLD(two, room, sum[0], both);
        if (LANE == 0)
            AT(two, partial)[unit] = sum[0];
    }
}

/* The parts of a channel, into the first of them and the gradients. */
KERNEL norm_sums(BUFFER(partial), BUFFER(dw), BUFFER(db), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    SHARED two room[WIDTH];
    for (int64_t first = GROUP * TEAM; first < v.channels; first += GROUPS * TEAM) {
        const int64_t c = first + IN_TEAM;
        two sum = {0, 0};
        if (c < v.channels) {
            UNROLL_BY(4) for (int64_t part = OWN_TEAM; part < v.parts; part += TEAMS)
                sum = both(sum, AT(const two, partial)[part * v.channels + c]);
        }
        FOLD_LANES(room, sum, both, WIDTH, TEAM);
        if (OWN_TEAM == 0 && c < v.channels) {
            AT(two, partial)[c] = sum;
            if (v.dw)
                AT(W, dw)[c] = W_STORE(sum.gx);
            if (v.db)
                AT(W, db)[c] = W_STORE(sum.g);
        }
    }
}

/* Apart from norm_channels, though a channel's numbers could be made where they are used: each element would pay for the root and the
 * division, and running statistics must be written once.
 *
 * mean and rstd, which holds the variance in training, of the channels; what is kept for later. */
KERNEL norm_statistics(BUFFER(mean), BUFFER(rstd), BUFFER(running_mean), BUFFER(running_var), BUFFER(saved_mean), BUFFER(saved_rstd),
                       VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    for (int64_t c = ITEM; c < v.channels; c += ITEMS) {
        C_C m, r;
        if (v.mode == NORM_SAVED) {
            m = (C_C)S_LOAD(AT(const S, saved_mean)[c]);
            r = (C_C)S_LOAD(AT(const S, saved_rstd)[c]);
        } else if (v.mode == NORM_RUNNING) {
            m = (C_C)R_LOAD(AT(const R, running_mean)[c]);
            r = 1 / C_sqrt((C_C)R_LOAD(AT(const R, running_var)[c]) + C_NUMBER(v.eps));
        } else {
            const int nothing = v.outer * v.inner == 0;
            const C_C some = C_NUMBER(v.momentum);
            const C_C var = nothing ? (C_C)0 : AT(const C, rstd)[c];
            m = nothing ? (C_C)0 : AT(const C, mean)[c];
            if (v.running_mean && !nothing)
                AT(R, running_mean)[c] = R_STORE(some * m + (1 - some) * (C_C)R_LOAD(AT(const R, running_mean)[c]));
            if (v.running_var && !nothing)
                AT(R, running_var)[c] = R_STORE(some * var * C_NUMBER(v.unbiased) + (1 - some) * (C_C)R_LOAD(AT(const R, running_var)[c]));
            r = 1 / C_sqrt(var + C_NUMBER(v.eps));
            if (v.saved) {
                AT(S, saved_mean)[c] = S_STORE(m);
                AT(S, saved_rstd)[c] = S_STORE(r);
            }
        }
        AT(C, mean)[c] = m;
        AT(C, rstd)[c] = r;
    }
}

/* Bound by memory: each element is read and written once.  What belongs to the channel is fetched once per pack, from the cache, since
 * neighbouring packs ask for the same channel. */
/* Packs lie in a channel, or, where inner is 1, are of one element. */
#define EACH_CHANNEL_PACK                                                                                       \
    for (int64_t i = ITEM; i < v.outer * v.channels * (v.inner / PACK); i += ITEMS) {                           \
        const int64_t plane = divided(i, v.inner / PACK), c = plane - divided(plane, v.channels) * v.channels;  \
        const C_C m = AT(const C, mean)[c], r = AT(const C, rstd)[c], w = WEIGHT(c);

KERNEL norm_channels(BUFFER(x), BUFFER(weight), BUFFER(bias), BUFFER(mean), BUFFER(rstd), BUFFER(y), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    EACH_CHANNEL_PACK
        const pack_of_a p = GET_PACK(AT(const pack_of_a, x) + i);
        const C_C b = BIAS(c);
        pack_of_a q;
        EACH_OF_PACK(j)
            q.at[j] = A_STORE(((C_C)A_LOAD(p.at[j]) - m) * r * w + b);
        SET_PACK(AT(pack_of_a, y) + i, q);
    }
}

KERNEL norm_channels_backward(BUFFER(grad), BUFFER(x), BUFFER(weight), BUFFER(mean), BUFFER(rstd), BUFFER(partial), BUFFER(dx),
                              VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    const C_C count = (C_C)(v.outer * v.inner);
    EACH_CHANNEL_PACK
        const pack_of_a g = GET_PACK(AT(const pack_of_a, grad) + i);
        pack_of_a p = g, q;
        two sum = {0, 0};
        if (v.mode == NORM_SAVED) {
            p = GET_PACK(AT(const pack_of_a, x) + i);
            sum = AT(const two, partial)[c];
        }
        const C_C even = sum.g / count, slope = sum.gx / count * r;
        EACH_OF_PACK(j)
            q.at[j] = A_STORE(((C_C)A_LOAD(g.at[j]) - (v.mode == NORM_SAVED ? even + ((C_C)A_LOAD(p.at[j]) - m) * slope : (C_C)0)) * r * w);
        SET_PACK(AT(pack_of_a, dx) + i, q);
    }
}
#endif
