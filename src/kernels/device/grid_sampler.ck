/* Images and volumes read at given positions, and the gradients: along each dimension a position is a few taps, elements and their weights, as
 * src/kernels/cpu/nn/grid_sampler_isa.c has them.  A work item has a position; forward, of `each` channels, so that a few positions occupy a
 * device, too.  Gradients of images are added by compare-and-swap, in no fixed order: any two positions may share elements.
 *
 * A: elements; P: of positions, weights and sums.  DIMS; TAPS along each of them: 1 the nearest, 2 linear, 4 cubic. */
#include "kernels/device/group.ck"

/* outside: td_sample_outside.  align: -1 and 1 are the centres of the outermost elements. */
typedef struct sample_values { int64_t n, parts, channels, each, in[3], in_total, out_total; int32_t outside, align; } sample_values;

#ifndef TD_HOST
typedef struct taps { int64_t at[TAPS]; P weight[TAPS], slope[TAPS]; } taps;       /* at -1: outside, where all is zero */

/* x thrown back between low / 2 and high / 2; *slope changes its sign with every throw. */
static P reflected(P x, int64_t low, int64_t high, P *slope)
{
    const P least = (P)low / 2, span = (P)(high - low) / 2, signed_away = x - least, away = signed_away < 0 ? -signed_away : signed_away;
    const P rest = away - P_floor(away / (2 * span)) * (2 * span);
    const bool back = rest >= span;
    *slope = low == high ? 0 : (signed_away < 0) == back ? *slope : -*slope;
    return low == high ? 0 : (back ? 2 * span - rest : rest) + least;
}
/* A coordinate as the padding has it; *slope becomes 0 where it is clamped. */
static P inside(sample_values v, P x, int64_t size, P *slope)
{
    const P last = (P)(size - 1);
    if (v.outside == 0)
        return x;
    if (v.outside == 2)
        x = v.align ? reflected(x, 0, 2 * (size - 1), slope) : reflected(x, -1, 2 * size - 1, slope);
    *slope = x > 0 && x < last ? *slope : 0;
    x = x > 0 ? x : 0;              /* NaN, too */
    return x < last ? x : last;
}
static int64_t element(P x, int64_t size) { return x >= 0 && x <= (P)(size - 1) ? (int64_t)x : -1; }

static taps find(sample_values v, P place, int64_t size)
{
    taps t;
    P slope = v.align ? (P)(size - 1) / 2 : (P)size / 2, unused = 1;
    const P x = v.align ? (place + 1) / 2 * (P)(size - 1) : ((place + 1) * (P)size - 1) / 2;
#if TAPS == 1
    t.at[0] = element(P_round(inside(v, x, size, &unused)), size), t.weight[0] = 1, t.slope[0] = 0;
#elif TAPS == 2
    const P within = inside(v, x, size, &slope), base = P_floor(within), part = within - base;
    t.at[0] = element(base, size), t.weight[0] = 1 - part, t.slope[0] = -slope;
    t.at[1] = element(base + 1, size), t.weight[1] = part, t.slope[1] = slope;
#else
    const P a = (P)-0.75f, base = P_floor(x), part = x - base;
    UNROLL for (int k = 0; k < 4; k++) {
        const bool near = k == 1 || k == 2;
        const P d = k == 0 ? part + 1 : k == 1 ? part : k == 2 ? 1 - part : 2 - part;
        t.at[k] = element(inside(v, base + (P)(k - 1), size, &unused), size);
        t.weight[k] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
        t.slope[k] = (k < 2 ? slope : -slope) * (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
    }
#endif
    return t;
}

/* All combinations of taps of the position at `grid`: at, an element of a channel, and the weight.  NaN positions give NaN in images, zero in
 * volumes, as in PyTorch. */
#if DIMS == 3
#define FIND(grid)                                                                      \
    const taps td = find(v, (P)A_LOAD((grid)[2]), v.in[0]), th = find(v, (P)A_LOAD((grid)[1]), v.in[1]), tw = find(v, (P)A_LOAD((grid)[0]), v.in[2])
#define WEIGHT(d, h, w) (at < 0 ? 0 : td.weight[d] * th.weight[h] * tw.weight[w])
#define EACH_TAP(d, h, w) UNROLL for (int d = 0; d < TAPS; d++) UNROLL for (int h = 0; h < TAPS; h++) UNROLL for (int w = 0; w < TAPS; w++)
#define PLACE(d, h, w) ((td.at[d] | th.at[h] | tw.at[w]) < 0 ? -1 : (td.at[d] * v.in[1] + th.at[h]) * v.in[2] + tw.at[w])
#else
#define FIND(grid) const taps th = find(v, (P)A_LOAD((grid)[1]), v.in[1]), tw = find(v, (P)A_LOAD((grid)[0]), v.in[2])
#define WEIGHT(d, h, w) (th.weight[h] * tw.weight[w])
#define EACH_TAP(d, h, w) UNROLL for (int h = 0; h < TAPS; h++) UNROLL for (int w = 0; w < TAPS; w++)
#define PLACE(d, h, w) ((th.at[h] | tw.at[w]) < 0 ? -1 : th.at[h] * v.in[2] + tw.at[w])
#endif

KERNEL sample(BUFFER(x), BUFFER(grid), BUFFER(y), VALUES(sample_values, v))
{
    UNPACK(sample_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t rest = divided(i, v.out_total), p = i - rest * v.out_total, n = divided(rest, v.parts), first = (rest - n * v.parts) * v.each;
        const int64_t end = first + v.each < v.channels ? first + v.each : v.channels;
        FIND(AT(const A, grid) + (n * v.out_total + p) * DIMS);
        for (int64_t c = first; c < end; c++) {
            GLOBAL const A *from = AT(const A, x) + (n * v.channels + c) * v.in_total;
            P sum = 0;
            EACH_TAP(d, h, w) {
                const int64_t at = PLACE(d, h, w);
                sum += (at < 0 ? 0 : (P)A_LOAD(from[at])) * WEIGHT(d, h, w);
            }
            AT(A, y)[(n * v.channels + c) * v.out_total + p] = A_STORE((A_C)sum);
        }
    }
}

#ifdef WANTS_X
static void add(GLOBAL P *to, P x)
{
#if WIDE
    CHANGE(uint64_t, ATOMIC_SWAP64, to, now, td_f64_bits(td_bits_f64(now) + x));
#elif defined ATOMIC_ADD
    ATOMIC_ADD(to, x);
#else
    CHANGE(uint32_t, ATOMIC_SWAP32, to, now, td_f32_bits(td_bits_f32(now) + x));
#endif
}

/* dx, in P, has been cleared.  The coordinates' gradients take a dimension's slopes for its weights. */
KERNEL sample_back(BUFFER(grad), BUFFER(x), BUFFER(grid), BUFFER(dx), BUFFER(dgrid), VALUES(sample_values, v))
{
    UNPACK(sample_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t n = divided(i, v.out_total), image = n * v.channels * v.in_total;
        GLOBAL const A *slopes = AT(const A, grad) + n * v.channels * v.out_total + (i - n * v.out_total);
        P sums[3] = {0, 0, 0};
        FIND(AT(const A, grid) + i * DIMS);
        EACH_TAP(d, h, w) {
            const int64_t at = PLACE(d, h, w);
            const P weight = WEIGHT(d, h, w);
            P dot = 0;
            for (int64_t c = 0; c < v.channels && at >= 0; c++) {
                const P g = (P)A_LOAD(slopes[c * v.out_total]);
#if WANTS_GRID
                dot += g * (P)A_LOAD(AT(const A, x)[image + c * v.in_total + at]);
#endif
#if WANTS_X
                add(AT(P, dx) + image + c * v.in_total + at, weight * g);
#endif
            }
#if DIMS == 3
            sums[2] += at < 0 ? 0 : dot * td.slope[d] * th.weight[h] * tw.weight[w];
            sums[1] += at < 0 ? 0 : dot * td.weight[d] * th.slope[h] * tw.weight[w];
            sums[0] += at < 0 ? 0 : dot * td.weight[d] * th.weight[h] * tw.slope[w];
#else
            sums[1] += dot * th.slope[h] * tw.weight[w];
            sums[0] += dot * th.weight[h] * tw.slope[w];
#endif
        }
#if WANTS_GRID
        for (int d = 0; d < DIMS; d++)
            AT(A, dgrid)[i * DIMS + d] = A_STORE((A_C)sums[d]);
#endif
    }
}
#endif
#endif
