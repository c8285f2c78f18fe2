/* Interpolation, padding with elements of the tensor itself, and their gradients: an element of the result is a weighted sum over the elements
 * that a list for each dimension names.  A gradient has the lists the other way round, so nothing is added by several at once.
 *
 * Lists of interpolation are made on the CPU by what makes the CPU's (td_resize_fill) and lie in `lists`, in words: for each dimension where the
 * list of a position begins, and pairs of a position and a weight.  Those of padding (PADDING) follow from the sizes.
 *
 * A: elements; W: of weights and sums.  WHOLE: bytes, which have whole weights.  BACK: gradients of padding by mode MODE. */
#include "kernels/device/group.ck"

/* in and out: of what is read and written.  width: elements that lie behind the dimensions and go along. */
typedef struct resample_values {
    int64_t n, width, in[3], out[3];
    int64_t before[3], behind[3];
    int64_t starts[3], pairs[3], bits;
} resample_values;

#ifndef TD_HOST
#if PADDING
/* td_padding_mode: 0 reflect, 1 replicate, 2 circular. */
#if BACK
/* Where the elements went that came from i: the first, how far apart, how many; of mirrors the k-th. */
typedef struct places { int64_t first, step, count; } places;
static places places_of(resample_values v, int d, int64_t i)
{
    const int64_t n = v.out[d], padded = v.in[d], before = v.before[d];
    places p = {0, 1, 3};
#if MODE == 1
    p.first = i == 0 || i + before < 0 ? 0 : i + before;
    p.count = (i == n - 1 || i + before >= padded ? padded : i + before + 1) - p.first;
#elif MODE == 2
    const int64_t start = before < 0 ? -before : 0;
    p.step = n - start + (v.behind[d] < 0 ? v.behind[d] : 0);
    p.first = i - start + (before > 0 ? before : 0);
    p.count = 0;
    if (i >= start && i < start + p.step)
        p.first %= p.step, p.count = p.first < padded ? (padded - 1 - p.first) / p.step + 1 : 0;
#endif
    return p;
}
static int64_t place_of(resample_values v, int d, int64_t i, places p, int64_t k)
{
#if MODE == 0
    const int64_t n = v.out[d], at = v.before[d] + (k == 0 ? i : k == 1 ? -i : 2 * (n - 1) - i);
    return at >= v.in[d] || (k == 1 && i == 0) || (k == 2 && i == n - 1) ? -1 : at;
#else
    return p.first + k * p.step;
#endif
}
#define EACH(k, d, i) const places k##_ = places_of(v, d, i); for (int64_t k = 0; k < k##_.count; k++)
#define PLACE(k, d, i) place_of(v, d, i, k##_, k)
#else
static int64_t place_of(resample_values v, int d, int64_t i)
{
    const int64_t n = v.in[d], before = v.before[d];
#if MODE == 2
    const int64_t start = before < 0 ? -before : 0, period = n - start + (v.behind[d] < 0 ? v.behind[d] : 0);
    const int64_t at = (i - (before > 0 ? before : 0)) % period;
    return start + (at < 0 ? at + period : at);
#else
    i -= before;
    return i < 0 ? (MODE == 0 ? -i : 0) : i < n ? i : MODE == 0 ? 2 * (n - 1) - i : n - 1;
#endif
}
#define EACH(k, d, i) for (int k = 0; k < 1; k++)
#define PLACE(k, d, i) place_of(v, d, i)
#endif
#define WEIGHT(k, d) ((W)1)
#else
#define EACH(k, d, i) for (int64_t k = list[v.starts[d] + (i)]; k < list[v.starts[d] + (i) + 1]; k++)
#define PLACE(k, d, i) list[v.pairs[d] + 2 * k]
#if WHOLE
#define WEIGHT(k, d) list[v.pairs[d] + 2 * k + 1]
#else
#define WEIGHT(k, d) NUMBER(list[v.pairs[d] + 2 * k + 1])
#endif
#endif

KERNEL resample(BUFFER(x), BUFFER(lists), BUFFER(y), VALUES(resample_values, v))
{
    UNPACK(resample_values, v)
#if !PADDING
    GLOBAL const int64_t *list = AT(const int64_t, lists);
#endif
    for (int64_t at = ITEM; at < v.n; at += ITEMS) {
        const int64_t o = divided(at, v.width), rows = divided(o, v.out[2]), planes = divided(rows, v.out[1]), plane = divided(planes, v.out[0]);
        const int64_t od = planes - plane * v.out[0], oh = rows - planes * v.out[1], ow = o - rows * v.out[2];
        GLOBAL const A *from = AT(const A, x) + plane * v.in[0] * v.in[1] * v.in[2] * v.width + (at - o * v.width);
        W sum = -(W)0;          /* a sum of one element is that one, -0 too */
        EACH(a, 0, od) {
            const int64_t d = PLACE(a, 0, od);
            if (d < 0)
                continue;
            EACH(b, 1, oh) {
                const int64_t h = PLACE(b, 1, oh);
                if (h < 0)
                    continue;
                const W outer = WEIGHT(a, 0) * WEIGHT(b, 1);
                EACH(c, 2, ow) {
                    const int64_t w = PLACE(c, 2, ow);
                    if (w >= 0)
                        sum += outer * WEIGHT(c, 2) * (W)A_LOAD(from[((d * v.in[1] + h) * v.in[2] + w) * v.width]);
                }
            }
        }
#if WHOLE
        sum = v.bits ? (sum + ((int64_t)1 << (v.bits - 1))) >> v.bits : sum;
        sum = sum < 0 ? 0 : sum > 255 ? 255 : sum;
#endif
        AT(A, y)[at] = A_STORE((A_C)sum);
    }
}
#endif
