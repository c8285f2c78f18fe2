/* Pooling: a work item for each element of the result, whose window it reads.  Gradients of averages are read, too: an element adds the
 * shares of the windows that it lies in.
 *
 * What goes to positions that indices name (the gradient of a maximum, max_unpool) is a group's work, plane by plane: of the
 * work items that have one position in hand the first adds for all of them, so that sums come in one order, and the last one writes where the last counts.
 * Positions outside of a plane are skipped, and are errors that kernels note (NOTE_INDEX in group.ck).
 *
 * A: the elements' dtype; B: that of sums by position, in which they are computed. */
#include "kernels/device/group.ck"

typedef struct pool_values {
    int64_t planes, in_total, out_total;
    int64_t in[3], out[3], window[3], stride[3], padding[3], dilation[3];
    int64_t divisor;
    int32_t adaptive, include_pad, dims;
    index_limits limits;
} pool_values;

#ifndef TD_HOST
/* td_pool_window of <tede/geometry.h>. */
typedef struct range { int64_t from, to; } range;
static range window_of(pool_values v, int d, int64_t o)
{
    range r;
    if (v.adaptive) {
        r.from = o * v.in[d] / v.out[d];
        r.to = ((o + 1) * v.in[d] + v.out[d] - 1) / v.out[d];
        return r;
    }
    const int64_t stop = o * v.stride[d] - v.padding[d] + (v.window[d] - 1) * v.dilation[d] + 1;
    r.from = o * v.stride[d] - v.padding[d];
    if (r.from < 0)
        r.from += (v.dilation[d] - 1 - r.from) / v.dilation[d] * v.dilation[d];
    r.to = stop < v.in[d] ? stop : v.in[d];
    return r;
}

KERNEL pool_maxima(BUFFER(x), BUFFER(y), BUFFER(indices), VALUES(pool_values, v))
{
    UNPACK(pool_values, v)
    for (int64_t at = ITEM; at < v.planes * v.out_total; at += ITEMS) {
        const int64_t o = at % v.out_total;
        GLOBAL const A *from = AT(const A, x) + at / v.out_total * v.in_total;
        const range ds = window_of(v, 0, o / v.out[2] / v.out[1]), hs = window_of(v, 1, o / v.out[2] % v.out[1]), ws = window_of(v, 2, o % v.out[2]);
        int64_t where = (ds.from * v.in[1] + hs.from) * v.in[2] + ws.from;
        A_C best = A_LOWEST;
        for (int64_t d = ds.from; d < ds.to; d += v.dilation[0])
            for (int64_t h = hs.from; h < hs.to; h += v.dilation[1])
                for (int64_t w = ws.from; w < ws.to; w += v.dilation[2]) {
                    const int64_t i = (d * v.in[1] + h) * v.in[2] + w;
                    const A_C value = A_LOAD(from[i]);
                    if (value > best || value != value)
                        best = value, where = i;
                }
        AT(A, y)[at] = A_STORE(best);
        AT(int64_t, indices)[at] = where;
    }
}

/* What a window's sum is divided by: src/kernels/cpu/nn/pool.c. */
static int64_t length_of(pool_values v, int d, int64_t o, range r)
{
    if (v.adaptive || !v.include_pad)
        return r.to - r.from;
    const int64_t start = o * v.stride[d] - v.padding[d], stop = start + v.window[d], most = v.in[d] + v.padding[d];
    return (stop < most ? stop : most) - start;
}

KERNEL pool_averages(BUFFER(x), BUFFER(y), VALUES(pool_values, v))
{
    UNPACK(pool_values, v)
    for (int64_t at = ITEM; at < v.planes * v.out_total; at += ITEMS) {
        const int64_t o = at % v.out_total, od = o / v.out[2] / v.out[1], oh = o / v.out[2] % v.out[1], ow = o % v.out[2];
        GLOBAL const A *from = AT(const A, x) + at / v.out_total * v.in_total;
        const range ds = window_of(v, 0, od), hs = window_of(v, 1, oh), ws = window_of(v, 2, ow);
        A_C sum = 0;
        for (int64_t d = ds.from; d < ds.to; d++)
            for (int64_t h = hs.from; h < hs.to; h++)
                for (int64_t w = ws.from; w < ws.to; w++)
                    sum += A_LOAD(from[(d * v.in[1] + h) * v.in[2] + w]);
        const int64_t count = v.divisor ? v.divisor : length_of(v, 0, od, ds) * length_of(v, 1, oh, hs) * length_of(v, 2, ow, ws);
        AT(A, y)[at] = A_STORE(sum / (A_C)count);
    }
}

/* The windows that element i lies in. */
static range windows_at(pool_values v, int d, int64_t i)
{
    range r;
    if (v.adaptive) {
        r.from = i * v.out[d] / v.in[d];
        r.to = ((i + 1) * v.out[d] + v.in[d] - 1) / v.in[d];
        return r;
    }
    const int64_t first = i + v.padding[d] - v.window[d] + 1, last = (i + v.padding[d]) / v.stride[d] + 1;
    r.from = first <= 0 ? 0 : (first + v.stride[d] - 1) / v.stride[d];
    r.to = last < v.out[d] ? last : v.out[d];
    return r;
}

KERNEL pool_shares(BUFFER(grad), BUFFER(y), VALUES(pool_values, v))
{
    UNPACK(pool_values, v)
    for (int64_t at = ITEM; at < v.planes * v.in_total; at += ITEMS) {
        const int64_t i = at % v.in_total;
        GLOBAL const A *from = AT(const A, grad) + at / v.in_total * v.out_total;
        const range ds = windows_at(v, 0, i / v.in[2] / v.in[1]), hs = windows_at(v, 1, i / v.in[2] % v.in[1]), ws = windows_at(v, 2, i % v.in[2]);
        A_C sum = 0;
        for (int64_t d = ds.from; d < ds.to; d++)
            for (int64_t h = hs.from; h < hs.to; h++)
                for (int64_t w = ws.from; w < ws.to; w++) {
                    int64_t count = v.divisor;
                    if (!count)
                        count = length_of(v, 0, d, window_of(v, 0, d)) * length_of(v, 1, h, window_of(v, 1, h)) * length_of(v, 2, w, window_of(v, 2, w));
                    sum += A_LOAD(from[(d * v.out[1] + h) * v.out[2] + w]) / (A_C)count;
                }
        AT(A, y)[at] = A_STORE(sum);
    }
}

/* Elements at the positions. */
KERNEL pool_pick(BUFFER(x), BUFFER(indices), BUFFER(y), BUFFER(late), VALUES(pool_values, v))
{
    UNPACK(pool_values, v)
    for (int64_t at = ITEM; at < v.planes * v.out_total; at += ITEMS) {
        const int64_t i = AT(const int64_t, indices)[at];
        AT(A, y)[at] = IS_WITHIN(i, v.limits) ? AT(const A, x)[at / v.out_total * v.in_total + i] : A_STORE(0);
        if (!IS_WITHIN(i, v.limits))
            NOTE_INDEX(late, i, v.limits);
    }
}

/* `out_total` elements of each plane go to positions in planes of `in_total`. */
KERNEL pool_put(BUFFER(x), BUFFER(indices), BUFFER(y), BUFFER(late), VALUES(pool_values, v))
{
    UNPACK(pool_values, v)
    SHARED int64_t where[WIDTH];
    SHARED B_C what[WIDTH];
    for (int64_t plane = GROUP; plane < v.planes; plane += GROUPS) {
        GLOBAL B *to = AT(B, y) + plane * v.in_total;
        for (int64_t i = LANE; i < v.in_total; i += LANES)
            to[i] = B_STORE(0);
        for (int64_t o = 0; o < v.out_total; o += LANES) {
            const int64_t at = plane * v.out_total + o + LANE, i = o + LANE < v.out_total ? AT(const int64_t, indices)[at] : -1;
            where[LANE] = i;
            what[LANE] = o + LANE < v.out_total ? (B_C)A_LOAD(AT(const A, x)[at]) : 0;
            BARRIER;
            bool mine = IS_WITHIN(i, v.limits);
            if (!mine && o + LANE < v.out_total)
                NOTE_INDEX(late, i, v.limits);
#if LAST_COUNTS
            for (int l = LANE + 1; l < LANES && mine; l++)
                mine = where[l] != i;
            if (mine)
                to[i] = B_STORE(what[LANE]);
#else
            for (int l = 0; l < LANE && mine; l++)
                mine = where[l] != i;
            if (mine) {
                B_C sum = B_LOAD(to[i]);
                for (int l = LANE; l < LANES; l++)
                    if (where[l] == i)
                        sum += what[l];
                to[i] = B_STORE(sum);
            }
#endif
            BARRIER;
        }
    }
}

#if A_FLOATING
/* Windows begin at random: src/kernels/cpu/nn/unpool.c.  Products are rounded to the dtype. */
#define ROUNDED(x) A_LOAD(A_STORE(x))
static int64_t begin_of(pool_values v, int d, A_C u, int64_t o)
{
    const int64_t room = v.in[d] - v.window[d], n = v.out[d];
    if (o == n - 1)
        return room;
    const A_C alpha = ROUNDED((A_C)room / (A_C)(n - 1)), sum = ROUNDED((A_C)o + u);
    return (int64_t)ROUNDED(sum * alpha) - (int64_t)ROUNDED(u * alpha);
}

KERNEL pool_fractional(BUFFER(x), BUFFER(samples), BUFFER(y), BUFFER(indices), VALUES(pool_values, v))
{
    UNPACK(pool_values, v)
    for (int64_t at = ITEM; at < v.planes * v.out_total; at += ITEMS) {
        const int64_t plane = at / v.out_total, o = at % v.out_total;
        GLOBAL const A *from = AT(const A, x) + plane * v.in_total, *u = AT(const A, samples) + plane * v.dims;
        /* Width first of two, depth first of three, as in PyTorch. */
        const int64_t d0 = v.dims == 2 ? 0 : begin_of(v, 0, A_LOAD(u[0]), o / v.out[2] / v.out[1]);
        const int64_t h0 = begin_of(v, 1, A_LOAD(u[1]), o / v.out[2] % v.out[1]);
        const int64_t w0 = begin_of(v, 2, A_LOAD(u[v.dims == 2 ? 0 : 2]), o % v.out[2]);
        int64_t where = (d0 * v.in[1] + h0) * v.in[2] + w0;
        A_C best = A_LOWEST;
        for (int64_t d = d0; d < d0 + v.window[0]; d++)
            for (int64_t h = h0; h < h0 + v.window[1]; h++)
                for (int64_t w = w0; w < w0 + v.window[2]; w++) {
                    const int64_t i = (d * v.in[1] + h) * v.in[2] + w;
                    const A_C value = A_LOAD(from[i]);
                    if (value > best || value != value)
                        best = value, where = i;
                }
        AT(A, y)[at] = A_STORE(best);
        AT(int64_t, indices)[at] = where;
    }
}
#endif
#endif
