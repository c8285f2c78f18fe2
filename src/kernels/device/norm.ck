/* Normalization: of rows (layer norm, rms norm, group norm) and of channels (batch norm).
 *
 * x is [outer][channels][inner].  A row is n elements that lie together: all channels of a sample, or a group of them.  A group of work items
 * takes a row, or, where rows are short (ALONE), a work item.  The sums per channel that gradients of weight and bias are, and batch norm's
 * gradient needs, are made in parts: over planes by groups of work items, down columns (inner is 1) by work items side by side.
 *
 * A: of the input, the result and their gradients; W: of weight and bias; S: of mean and rstd; R: of running statistics; C: computed in. */
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
#if ALONE
#define UNIT  ITEM
#define UNITS ITEMS
#define FIRST 0
#define STEP  1
#define ROOM(T)
#define FOLD(T, value, JOIN)
#else
#define UNIT  GROUP
#define UNITS GROUPS
#define FIRST LANE
#define STEP  LANES
#define ROOM(T) SHARED T room[WIDTH];
#define FOLD(T, value, JOIN) GROUP_FOLD(T, room, value, JOIN)
#endif
#define PLUS(a, b) ((a) + (b))
typedef struct two { C_C g, gx; } two;
static two both(two a, two b)
{
    a.g += b.g;
    a.gx += b.gx;
    return a;
}
#define CHANNEL(row, i) (v.groups == 1 && v.inner == 1 ? (i) : divided((row) % v.groups * v.n + (i), v.inner))
#define WEIGHT(c) (v.weight ? (C_C)W_LOAD(AT(const W, weight)[c]) : (C_C)1)
#define BIAS(c)   (v.bias ? (C_C)W_LOAD(AT(const W, bias)[c]) : (C_C)0)

KERNEL norm_rows(BUFFER(x), BUFFER(weight), BUFFER(bias), BUFFER(y), BUFFER(mean), BUFFER(rstd), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    ROOM(C_C)
    for (int64_t row = UNIT; row < v.rows; row += UNITS) {
        GLOBAL const A *from = AT(const A, x) + row * v.n;
        GLOBAL A *to = AT(A, y) + row * v.n;
        C_C m = 0, squares = 0;
        if (v.mean) {
            for (int64_t i = FIRST; i < v.n; i += STEP)
                m += (C_C)A_LOAD(from[i]);
            FOLD(C_C, m, PLUS);
            m /= (C_C)v.n;
        }
        for (int64_t i = FIRST; i < v.n; i += STEP) {
            const C_C off = (C_C)A_LOAD(from[i]) - m;
            squares += off * off;
        }
        FOLD(C_C, squares, PLUS);
        const C_C r = 1 / C_sqrt(squares / (C_C)v.n + C_NUMBER(v.eps));
        for (int64_t i = FIRST; i < v.n; i += STEP) {
            const int64_t c = CHANNEL(row, i);
            to[i] = A_STORE(((C_C)A_LOAD(from[i]) - m) * r * WEIGHT(c) + BIAS(c));
        }
        if (FIRST == 0) {
            if (v.mean)
                AT(S, mean)[row] = S_STORE(m);
            AT(S, rstd)[row] = S_STORE(r);
        }
    }
}

KERNEL norm_rows_backward(BUFFER(grad), BUFFER(x), BUFFER(weight), BUFFER(mean), BUFFER(rstd), BUFFER(dx), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    ROOM(two)
    for (int64_t row = UNIT; row < v.rows; row += UNITS) {
        GLOBAL const A *from = AT(const A, x) + row * v.n, *g = AT(const A, grad) + row * v.n;
        GLOBAL A *to = AT(A, dx) + row * v.n;
        const C_C m = v.mean ? (C_C)S_LOAD(AT(const S, mean)[row]) : (C_C)0, r = (C_C)S_LOAD(AT(const S, rstd)[row]);
        two sum = {0, 0};
        for (int64_t i = FIRST; i < v.n; i += STEP) {
            const C_C gw = (C_C)A_LOAD(g[i]) * WEIGHT(CHANNEL(row, i));
            sum.g += gw;
            sum.gx += gw * (((C_C)A_LOAD(from[i]) - m) * r);
        }
        FOLD(two, sum, both);
        const C_C even = v.mean ? sum.g / (C_C)v.n : (C_C)0, slope = sum.gx / (C_C)v.n;
        for (int64_t i = FIRST; i < v.n; i += STEP) {
            const C_C gw = (C_C)A_LOAD(g[i]) * WEIGHT(CHANNEL(row, i));
            to[i] = A_STORE(r * (gw - even - ((C_C)A_LOAD(from[i]) - m) * r * slope));
        }
    }
}

/* g and g (x - mean) rstd of one element. */
#define ADD_ELEMENT(sum, o, c, at)                                                      \
    do {                                                                                \
        const int64_t s_ = (o) * v.stat_step + divided(c, v.stat_channels);             \
        const C_C m_ = v.mean ? (C_C)S_LOAD(AT(const S, mean)[s_]) : (C_C)0;            \
        const C_C g_ = (C_C)A_LOAD(AT(const A, grad)[at]);                              \
        sum.g += g_;                                                                    \
        sum.gx += g_ * (((C_C)A_LOAD(AT(const A, x)[at]) - m_) * (C_C)S_LOAD(AT(const S, rstd)[s_])); \
    } while (0)

KERNEL norm_columns(BUFFER(grad), BUFFER(x), BUFFER(mean), BUFFER(rstd), BUFFER(partial), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    for (int64_t unit = ITEM; unit < v.channels * v.parts; unit += ITEMS) {
        const int64_t part = divided(unit, v.channels), c = unit - part * v.channels;
        two sum = {0, 0};
        for (int64_t o = part; o < v.outer; o += v.parts)
            ADD_ELEMENT(sum, o, c, o * v.channels + c);
        AT(two, partial)[unit] = sum;
    }
}

KERNEL norm_planes(BUFFER(grad), BUFFER(x), BUFFER(mean), BUFFER(rstd), BUFFER(partial), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    SHARED two room[WIDTH];
    for (int64_t unit = GROUP; unit < v.channels * v.parts; unit += GROUPS) {
        const int64_t part = divided(unit, v.channels), c = unit - part * v.channels;
        two sum = {0, 0};
        for (int64_t i = part * LANES + LANE; i < v.outer * v.inner; i += v.parts * LANES) {
            const int64_t o = divided(i, v.inner);
            ADD_ELEMENT(sum, o, c, (o * v.channels + c) * v.inner + (i - o * v.inner));
        }
        GROUP_FOLD(two, room, sum, both);
        if (LANE == 0)
            AT(two, partial)[unit] = sum;
    }
}

/* The parts of a channel, into the first of them and the gradients. */
KERNEL norm_sums(BUFFER(partial), BUFFER(dw), BUFFER(db), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    for (int64_t c = ITEM; c < v.channels; c += ITEMS) {
        two sum = {0, 0};
        for (int64_t part = 0; part < v.parts; part++)
            sum = both(sum, AT(const two, partial)[part * v.channels + c]);
        AT(two, partial)[c] = sum;
        if (v.dw)
            AT(W, dw)[c] = W_STORE(sum.gx);
        if (v.db)
            AT(W, db)[c] = W_STORE(sum.g);
    }
}

/* mean and rstd, which holds the variance in training, of the channels; what is kept for later. */
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

KERNEL norm_channels(BUFFER(x), BUFFER(weight), BUFFER(bias), BUFFER(mean), BUFFER(rstd), BUFFER(y), VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    for (int64_t i = ITEM; i < v.outer * v.channels * v.inner; i += ITEMS) {
        const int64_t plane = divided(i, v.inner), c = plane - divided(plane, v.channels) * v.channels;
        AT(A, y)[i] = A_STORE(((C_C)A_LOAD(AT(const A, x)[i]) - AT(const C, mean)[c]) * AT(const C, rstd)[c] * WEIGHT(c) + BIAS(c));
    }
}

KERNEL norm_channels_backward(BUFFER(grad), BUFFER(x), BUFFER(weight), BUFFER(mean), BUFFER(rstd), BUFFER(partial), BUFFER(dx),
                              VALUES(norm_values, v))
{
    UNPACK(norm_values, v)
    const C_C count = (C_C)(v.outer * v.inner);
    for (int64_t i = ITEM; i < v.outer * v.channels * v.inner; i += ITEMS) {
        const int64_t plane = divided(i, v.inner), c = plane - divided(plane, v.channels) * v.channels;
        const C_C r = AT(const C, rstd)[c];
        C_C g = (C_C)A_LOAD(AT(const A, grad)[i]);
        if (v.mode == NORM_SAVED) {
            const two sum = AT(const two, partial)[c];
            g -= (sum.g + ((C_C)A_LOAD(AT(const A, x)[i]) - AT(const C, mean)[c]) * r * sum.gx) / count;
        }
        AT(A, dx)[i] = A_STORE(g * r * WEIGHT(c));
    }
}
#endif
