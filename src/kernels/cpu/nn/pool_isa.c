/* Pooling by vectors: as many neighbouring outputs as a vector has lanes go through their windows together.
 *
 * Elements come in the order of the window, so sums have the bits and maxima the positions that going through one
 * window after the other would give.  Where a window looks beyond its row, or a vector beyond the tensor, the rows are
 * copied with neutral numbers around them; elsewhere they are read where they lie, and what is behind a row is read in
 * vain. */
#ifndef S
#include "kernels/cpu/nn/pool.h"
#include "kernels/cpu/isa/vectors.h"


/* What a vector of outputs meets: rows[d][h], columns `skip` apart; seats are positions in the plane. */
typedef struct view {
    int64_t deep, high, wide;       /* elements of the window that are inside */
    int64_t plane, row, skip;       /* elements between them, in memory */
    int64_t seat, seat_plane, seat_row;
} view;

#define TD_BODY "kernels/cpu/nn/pool_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_pool_table TD_ISA_NAME(td_pool_table);
const td_pool_table TD_ISA_NAME(td_pool_table) = {
    .lanes = VBYTES / 4, .maximum = {maximum_f32, maximum_f64}, .average = {average_f32, average_f64},
};

#else
#define LANES ((int64_t)(VBYTES / sizeof(T)))
#define V     N(vec)
#define I     N(seats)
typedef T V __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));
typedef N(place) I __attribute__((vector_size(VBYTES)));

/* Every step-th element: strides of 1 and 2, which most models have, by whole vectors. */
INLINE V N(load)(const T *x, int64_t step)
{
    if (step == 1)
        return *(const V *)x;
    if (step == 2)
        return __builtin_shufflevector(*(const V *)x, *(const V *)(x + LANES), N(EVEN));
    V v;
    for (int64_t i = 0; i < LANES; i++)
        v[i] = x[i * step];
    return v;
}

INLINE V N(choose)(I which, V a, V b)
{
    return (V)((which & (I)a) | (~which & (I)b));
}

/* from, from + step, ... */
INLINE I N(every)(int64_t from, int64_t step)
{
    return (I){N(EVEN)} / 2 * (N(place))step + (N(place))from;
}

/* NaN wins over everything, the last one over others; where nothing is more than -inf, the first position counts. */
INLINE V N(largest)(const T *x, const view *v, int64_t step, bool seats, I *where)
{
    V best = -(T)__builtin_inf() - (V){0};
    for (int64_t d = 0; d < v->deep; d++)
        for (int64_t h = 0; h < v->high; h++) {
            const T *line = x + d * v->plane + h * v->row;
            I seat = N(every)(v->seat + d * v->seat_plane + h * v->seat_row, step);
            for (int64_t k = 0; k < v->wide; k++, line += v->skip) {
                const V value = N(load)(line, step);
                const I better = (value > best) | (value != value);
                best = N(choose)(better, value, best);
                if (seats)
                    *where = (better & seat) | (~better & *where), seat += (N(place))v->skip;
            }
        }
    return best;
}

INLINE V N(total)(const T *x, const view *v, int64_t step)
{
    V sum = {0};
    for (int64_t d = 0; d < v->deep; d++)
        for (int64_t h = 0; h < v->high; h++) {
            const T *line = x + d * v->plane + h * v->row;
            for (int64_t k = 0; k < v->wide; k++, line += v->skip)
                sum += N(load)(line, step);
        }
    return sum;
}

/* Where a part's windows can be read: in the tensor itself, or in `lines` after copying what `v` sees there. */
static __attribute__((noinline)) const T *N(lay)(const td_pooling *p, const T *x, view *v, int64_t o0, int64_t count, T neutral, T *lines)
{
    const td_pool_geometry *w = &p->w;
    const int64_t step = w->stride[2], first = o0 * step - w->padding[2], reach = (v->wide - 1) * v->skip;
    const T *from = x + v->seat, *end = (const T *)p->x + p->w.planes * p->w.in_total;
    const int64_t width = (count + LANES - 1) / LANES * LANES * step + reach;
    v->row = v->seat_row, v->plane = v->seat_plane;
    if (first >= 0 && first + (count - 1) * step + reach < w->in[2] &&
        (v->deep - 1) * v->plane + (v->high - 1) * v->row + width <= end - from)
        return from;
    const int64_t low = first < 0 ? -first < width ? -first : width : 0, left = w->in[2] - first;
    const int64_t high = left < low ? low : left < width ? left : width;
    v->row = width, v->plane = v->high * width;
    for (int64_t d = 0; d < v->deep; d++)
        for (int64_t h = 0; h < v->high; h++, lines += width) {
            const T *row = from + d * v->seat_plane + h * v->seat_row;
            for (int64_t i = 0; i < low; i++)
                lines[i] = neutral;
            memcpy(lines + low, row + low, (size_t)(high - low) * sizeof(T));
            for (int64_t i = high; i < width; i++)
                lines[i] = neutral;
        }
    return NULL;
}

/* A vector of results; what is behind a row's end belongs to what comes next and is written again, except at the end. */
INLINE void N(store)(V value, T *y, const T *end)
{
    if (end - y >= LANES)
        *(V *)y = value;
    else
        memcpy(y, &value, (size_t)(end - y) * sizeof(T));
}

INLINE void N(store_seats)(I where, int64_t *at, const int64_t *end)
{
    typedef int64_t wide __attribute__((vector_size(8 * VBYTES / sizeof(T)), aligned(8), may_alias));
    const wide all = __builtin_convertvector(where, wide);
    if (end - at >= LANES)
        *(wide *)at = all;
    else
        memcpy(at, &all, (size_t)(end - at) * sizeof(int64_t));
}

/* The first position inside, for windows that begin before their row. */
static __attribute__((noinline)) I N(begin)(const td_pool_geometry *w, const view *v, int64_t o, int64_t step)
{
    const int64_t top = v->seat - (o * step - w->padding[2]);
    I where = N(every)(v->seat, step);
    for (int64_t i = 0; i < LANES && v->seat + i * step < top; i++)
        while (where[i] < top)
            where[i] += (N(place))v->skip;
    return where;
}

/* Elements of a window, which mostly lie side by side: divisions take long. */
INLINE int64_t N(taps)(int64_t reach, int64_t dilation)
{
    return dilation == 1 ? reach : td_ceil_div(reach, dilation);
}

/* The body runs for every vector of outputs [o, o + LANES), with v and x placed at the first one's window; and with line, its
 * row's first output. */
#define EACH_VECTOR(NEUTRAL, ...)                                                                                 \
    T lines[TD_POOL_LINES];                                                                                       \
    const int64_t part = td_pool_part(w, LANES);                                                                  \
    for (int64_t plane = first; plane < last; plane++)                                                            \
        for (int64_t od = 0, line = plane * p->w.out_total; od < w->out[0]; od++)                                 \
            for (int64_t oh = 0; oh < w->out[1]; oh++, line += w->out[2]) {                                       \
                int64_t from[2], to[2];                                                                           \
                td_pool_window(w, 0, od, &from[0], &to[0]);                                                       \
                td_pool_window(w, 1, oh, &from[1], &to[1]);                                                       \
                view v = {.deep = N(taps)(to[0] - from[0], w->dilation[0]), .wide = w->kernel[2],                 \
                          .high = N(taps)(to[1] - from[1], w->dilation[1]), .skip = w->dilation[2],               \
                          .seat_row = w->dilation[1] * w->in[2],                                                  \
                          .seat_plane = w->dilation[0] * w->in[1] * w->in[2]};                                    \
                for (int64_t o0 = 0; o0 < w->out[2]; o0 += part) {                                                \
                    const int64_t count = w->out[2] - o0 < part ? w->out[2] - o0 : part;                          \
                    v.seat = (from[0] * w->in[1] + from[1]) * w->in[2] + o0 * step - w->padding[2];               \
                    const T *x = (const T *)p->x + plane * p->w.in_total;                                         \
                    x = N(lay)(p, x, &v, o0, count, NEUTRAL, lines);                                              \
                    const bool direct = x;                                                                        \
                    x = direct ? x : lines;                                                                       \
                    for (int64_t o = o0; o < o0 + count; o += LANES, x += LANES * step, v.seat += LANES * step) { \
                        __VA_ARGS__                                                                               \
                    }                                                                                             \
                }                                                                                                 \
            }

/* Comparisons with the best so far are a chain, one step per element of the window, but for all outputs of a vector at once; rows that
 * windows share are read again from the first cache. */
INLINE void N(maxima)(const td_pooling *p, int64_t first, int64_t last, int64_t step, bool seats)
{
    const td_pool_geometry *w = &p->w;
    T *y = p->y;
    const T *end = y + last * p->w.out_total;
    EACH_VECTOR(-(T)__builtin_inf(),
                I where = seats ? N(begin)(w, &v, o, step) : (I){0};
                N(store)(N(largest)(x, &v, step, seats, &where), y + line + o, end);
                if (seats)
                    N(store_seats)(where, p->at + line + o, p->at + last * p->w.out_total);
                (void)direct;)
}

/* Where windows look beyond their row, the divisor differs from output to output; else one serves the vector.  include_pad counts
 * padding as elements, but not what ceil_mode adds behind it. */
INLINE void N(means)(const td_pooling *p, int64_t first, int64_t last, int64_t step)
{
    const td_pool_geometry *w = &p->w;
    T *y = p->y;
    const T *end = y + last * p->w.out_total;
    EACH_VECTOR((T)0,
                const int64_t outside[2] = {od, oh};
                int64_t outer = 1;
                for (int i = 0; i < 2; i++) {
                    const int64_t start = outside[i] * w->stride[i] - w->padding[i], stop = start + w->kernel[i];
                    const int64_t most = w->in[i] + w->padding[i];
                    outer *= w->include_pad ? (stop < most ? stop : most) - start : to[i] - from[i];
                }
                V by = (T)(w->divisor ? w->divisor : outer * w->kernel[2]) - (V){0};
                for (int64_t i = 0; i < LANES && !direct && !w->divisor; i++) {
                    const int64_t pad = w->include_pad ? w->padding[2] : 0;
                    int64_t start = (o + i) * step - w->padding[2], stop = start + w->kernel[2];
                    start = start < -pad ? -pad : start, stop = stop > w->in[2] + pad ? w->in[2] + pad : stop;
                    by[i] = (T)(outer * (stop - start));
                }
                N(store)(N(total)(x, &v, step) / by, y + line + o, end);)
}

/* Steps of one and two have loops with constant steps. */
#define BY_STEP(step, CALL)   \
    if ((step) == 1) {        \
        CALL(1);              \
    } else if ((step) == 2) { \
        CALL(2);              \
    } else {                  \
        CALL(step);           \
    }

static void N(maximum)(void *context, int64_t first, int64_t last)
{
    const td_pooling *p = context;
    const int64_t step = p->w.stride[2];
#define WITH_SEATS(step) N(maxima)(p, first, last, step, true)
#define WITHOUT(step)    N(maxima)(p, first, last, step, false)
    if (p->at) {
        BY_STEP(step, WITH_SEATS)
    } else {
        BY_STEP(step, WITHOUT)
    }
}

static void N(average)(void *context, int64_t first, int64_t last)
{
    const td_pooling *p = context;
    const int64_t step = p->w.stride[2];
#define MEANS(step) N(means)(p, first, last, step)
    BY_STEP(step, MEANS)
}
#undef LANES
#undef V
#undef I
#undef EACH_VECTOR
#undef BY_STEP
#undef WITH_SEATS
#undef WITHOUT
#undef MEANS
#endif
