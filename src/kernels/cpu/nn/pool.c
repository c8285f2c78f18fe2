/* Pooling on contiguous planes of up to three dimensions; threads share the planes.
 *
 * Windows come from src/ops/nn/pool.c.  A plane is done by one thread, so the number of threads changes no bits. */
#include "calls_kernels_cpu_nn_pool.h"
#include <inttypes.h>
#include <math.h>
#include "kernels/cpu/nn/pool.h"
#include "tensor/checked.h"

typedef td_pooling pooling;

/* Integers are pooled as int64: a maximum has to be exact. */
static td_dtype compute_dtype(const td_tensor *x)
{
    return td_dtype_is_floating((td_dtype)x->dtype) ? td_compute_dtype(x) : TD_I64;
}

/* Portable loops, for integers, adaptive windows, very large planes and what td_pool_part() finds no room for; pool_isa.c has the others.
 * For every output of a plane: its window as from[3], to[3]. */
#define EACH_WINDOW(...)                                      \
    for (int64_t od = 0, o = 0; od < w->out[0]; od++)         \
        for (int64_t oh = 0; oh < w->out[1]; oh++)            \
            for (int64_t ow = 0; ow < w->out[2]; ow++, o++) { \
                int64_t from[3], to[3];                       \
                td_pool_window(w, 0, od, &from[0], &to[0]);        \
                td_pool_window(w, 1, oh, &from[1], &to[1]);        \
                td_pool_window(w, 2, ow, &from[2], &to[2]);        \
                __VA_ARGS__                                   \
            }
#define EACH_ELEMENT(...)                                                \
    for (int64_t d = from[0]; d < to[0]; d += w->dilation[0])            \
        for (int64_t h = from[1]; h < to[1]; h += w->dilation[1])        \
            for (int64_t i = from[2]; i < to[2]; i += w->dilation[2]) {  \
                const int64_t place = (d * w->in[1] + h) * w->in[2] + i; \
                __VA_ARGS__                                              \
            }

/* NaN wins over everything, and of equal numbers the first; a window of -inf alone has the place of its first element. */
#define MAXIMUM(name, T, LEAST, IS_NAN)                                              \
    static void name(void *context, int64_t first, int64_t last)                     \
    {                                                                                \
        const pooling *p = context;                                                  \
        const td_pool_geometry *w = &p->w;                                                 \
        for (int64_t plane = first; plane < last; plane++) {                         \
            const T *x = (const T *)p->x + plane * p->w.in_total;                      \
            T *y = (T *)p->y + plane * p->w.out_total;                                 \
            int64_t *at = p->at + plane * p->w.out_total;                              \
            EACH_WINDOW(                                                             \
                T best = LEAST;                                                      \
                int64_t where = (from[0] * w->in[1] + from[1]) * w->in[2] + from[2]; \
                EACH_ELEMENT(                                                        \
                    T value = x[place];                                              \
                    if (value > best || IS_NAN(value))                               \
                        best = value, where = place;)                                \
                y[o] = best, at[o] = where;)                                         \
        }                                                                            \
    }
#define NOT_NAN(x) 0
MAXIMUM(maximum_f32, float, -INFINITY, isnan)
MAXIMUM(maximum_f64, double, -(double)INFINITY, isnan)
MAXIMUM(maximum_i64, int64_t, INT64_MIN, NOT_NAN)

/* The loops by vectors, where they serve: positions count in 32 bits there. */
static const td_pool_table *by_vectors(const pooling *p, td_dtype type)
{
    const td_pool_table *table = TD_ISA_PICK(td_pool_table);
    bool small = p->w.in_total < INT32_MAX / 2 && p->w.stride[2] < INT32_MAX / 64;
    return type != TD_I64 && !p->w.adaptive && small && td_pool_part(&p->w, table->lanes) ? table : NULL;
}

/* Planes are independent, so threads share them. */
int td_cpu_max_pool(td_tensor *self, const td_pool_geometry *g, td_tensor *out, td_tensor *indices)
{
    td_dtype type = compute_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *y = td_target(out, type), *at = td_target(indices, TD_I64);
    if (!x || !y || !at)
        return -1;
    pooling p = {*g, x->data, y->data, (int64_t *)at->data};
    const td_pool_table *vectors = by_vectors(&p, type);
    td_loop_body *body = vectors ? vectors->maximum[type == TD_F64] : type == TD_F32 ? maximum_f32
        : type == TD_F64 ? maximum_f64 : maximum_i64;
    if (g->in_total && g->out_total)
        td_parallel_for(0, g->planes, td_grain(td_mul_saturated(4, g->in_total)), body, &p);
    return td_finish(out, y) || td_finish(indices, at) ? -1 : 0;
}

/* Numbers between planes and positions in them: of one task's planes, one after the other. */
typedef struct places {
    td_dtype type;
    int64_t in, n;              /* of a plane; positions in it */
    const int64_t *at;
    const void *from;
    void *to;
    const int64_t *outside;     /* one that lies in no plane; they may come from anywhere */
} places;

/* Whether the n indices from `at` lie in a plane.  The first loop vectorises; which one it is, is looked for only if there is one. */
static bool within(places *s, const int64_t *at)
{
    bool out = false;
    for (int64_t i = 0; i < s->n; i++)
        out |= (uint64_t)at[i] >= (uint64_t)s->in;
    for (int64_t i = 0; out && i < s->n; i++)
        if ((uint64_t)at[i] >= (uint64_t)s->in)
            __atomic_store_n(&s->outside, at + i, __ATOMIC_RELAXED);
    return !out;
}

/* max_pool backward: each gradient is added to the element that was the largest; windows that overlap may share one. */
#define PUT(T)                                                  \
    for (int64_t p = first; p < last; p++) {                    \
        const int64_t *at = s->at + p * s->n;                   \
        const T *from = (const T *)s->from + p * s->n;          \
        T *to = (T *)s->to + p * s->in;                         \
        memset(to, 0, (size_t)s->in * sizeof(T));               \
        const int64_t n = within(s, at) ? s->n : 0;             \
        for (int64_t i = 0; i < n; i++)                         \
            to[at[i]] += from[i];                               \
    }
static void put(void *context, int64_t first, int64_t last)
{
    places *s = context;
    if (s->type == TD_F64)
        PUT(double)
    else
        PUT(float)
}

/* The reverse: the elements at the indices. */
#define PICK(T)                                                                                \
    for (int64_t p = first; p < last; p++)                                                     \
        for (int64_t i = p * s->n, end = within(s, s->at + i) ? i + s->n : i; i < end; i++)    \
            ((T *)s->to)[i] = ((const T *)s->from)[p * s->in + s->at[i]];
static void pick(void *context, int64_t first, int64_t last)
{
    places *s = context;
    if (s->type == TD_F64)
        PICK(double)
    else
        PICK(float)
}

/* The numbers of `from` go to out's elements of those indices; a plane of out has `each` of them. */
static int by_places(td_loop_body *body, int64_t each, td_tensor *from, td_tensor *indices, const td_pool_geometry *g, td_tensor *out)
{
    td_dtype type = td_compute_dtype(out);
    TD_AUTO td_tensor *x = td_operand(from, type), *at = td_as_contiguous(indices, TD_I64), *y = td_target(out, type);
    if (!x || !at || !y)
        return -1;
    places s = {type, g->in_total, g->out_total, (const int64_t *)at->data, x->data, y->data, NULL};
    td_parallel_for(0, each ? g->planes : 0, td_grain(td_mul_saturated(4, each)), body, &s);
    return s.outside ? td_error(TD_E_RUNTIME, "invalid maxIdx %" PRId64 ", image of %" PRId64 " elements", *s.outside, s.in)
                     : td_finish(out, y);
}

int td_cpu_max_pool_backward(td_tensor *grad, td_tensor *self, td_tensor *indices, const td_pool_geometry *g, td_tensor *out)
{
    (void)self;
    return by_places(put, g->in_total, grad, indices, g, out);
}

int td_cpu_max_pool_pick(td_tensor *self, td_tensor *indices, const td_pool_geometry *g, td_tensor *out)
{
    return by_places(pick, g->out_total, self, indices, g, out);
}

/* Sums are divided in float; of integers they are cut off. */
#define AVERAGE(name, T)                                                 \
    static void name(void *context, int64_t first, int64_t last)         \
    {                                                                    \
        const pooling *p = context;                                      \
        const td_pool_geometry *w = &p->w;                                     \
        for (int64_t plane = first; plane < last; plane++) {             \
            const T *x = (const T *)p->x + plane * p->w.in_total;          \
            T *y = (T *)p->y + plane * p->w.out_total;                     \
            EACH_WINDOW(                                                 \
                T sum = 0;                                               \
                EACH_ELEMENT(sum += x[place];)                           \
                y[o] = sum / (T)td_pool_divisor(w, od, oh, ow, from, to);)    \
        }                                                                \
    }                                                                    \
    static void name##_back(void *context, int64_t first, int64_t last)  \
    {                                                                    \
        const pooling *p = context;                                      \
        const td_pool_geometry *w = &p->w;                                     \
        for (int64_t plane = first; plane < last; plane++) {             \
            const T *g = (const T *)p->x + plane * p->w.out_total;         \
            T *y = (T *)p->y + plane * p->w.in_total;                      \
            memset(y, 0, (size_t)p->w.in_total * sizeof(T));               \
            EACH_WINDOW(                                                 \
                T share = g[o] / (T)td_pool_divisor(w, od, oh, ow, from, to); \
                EACH_ELEMENT(y[place] += share;))                        \
        }                                                                \
    }
AVERAGE(average_f32, float)
AVERAGE(average_f64, double)
AVERAGE(average_i64, int64_t)

/* The sum of each window over its divisor; `back` spreads each gradient over its window in the same way, plane by plane, window by
 * window, so gradients are added in one order. */
static int average(td_tensor *from, const td_pool_geometry *g, td_tensor *out, bool back)
{
    td_dtype type = compute_dtype(from);
    TD_AUTO td_tensor *x = td_operand(from, type), *y = td_target(out, type);
    if (!x || !y)
        return -1;
    pooling p = {*g, x->data, y->data, NULL};
    td_loop_body *body = type == TD_F32 ? (back ? average_f32_back : average_f32) : type == TD_F64 ? (back ? average_f64_back : average_f64)
        : (back ? average_i64_back : average_i64);
    const td_pool_table *vectors = back ? NULL : by_vectors(&p, type);
    body = vectors ? vectors->average[type == TD_F64] : body;
    if (g->out_total == 0 && back)
        memset(y->data, 0, (size_t)(y->numel * td_itemsize(y)));
    else if (g->in_total && g->out_total)
        td_parallel_for(0, g->planes, td_grain(td_mul_saturated(4, g->in_total)), body, &p);
    return td_finish(out, y);
}

int td_cpu_avg_pool(td_tensor *self, const td_pool_geometry *g, td_tensor *out) { return average(self, g, out, false); }
int td_cpu_avg_pool_backward(td_tensor *grad, td_tensor *self, const td_pool_geometry *g, td_tensor *out)
{
    (void)self;
    return average(grad, g, out, true);
}
