/* Running folds along a dimension.
 *
 * A contiguous operand is (outer, length, inner); tiles of inner columns go down the rows side by side, so all but
 * the last dimension vectorise.  Floating types are accumulated in double precision. */
#include "bodies.h"

#include <math.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"

enum { TILE = 128 };

typedef struct { double re, im; } c128;

typedef struct scan_job {
    const void *x, *c;
    void       *out;
    int64_t    *at;
    int64_t     length, inner, tiles;
    int         sign;       /* -1: from the end */
} scan_job;

#define WALK(T, A, SETUP, STEP)                                                                \
    const scan_job *w = context;                                                               \
    for (int64_t item = from; item < to; item++) {                                             \
        int64_t first = item % w->tiles * TILE, left = w->inner - first;                       \
        int64_t cols = left < TILE ? left : TILE;                                              \
        int64_t step = w->sign * w->inner;                                                     \
        int64_t place = item / w->tiles * w->length * w->inner + first;                        \
        if (w->sign < 0)                                                                       \
            place += (w->length - 1) * w->inner;                                               \
        const T *x = (const T *)w->x + place;                                                  \
        T *out = (T *)w->out + place;                                                          \
        A acc[TILE];                                                                           \
        for (int64_t i = 0; i < cols; i++) {                                                   \
            SETUP;                                                                             \
        }                                                                                      \
        for (int64_t r = 0; r < w->length; r++, x += step, out += step, place += step)         \
            for (int64_t i = 0; i < cols; i++) {                                               \
                STEP;                                                                          \
            }                                                                                  \
    }

#define REALS(T, name, A)                                                                               \
    static void cumsum_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        WALK(T, A, acc[i] = 0, out[i] = (T)(acc[i] += x[i]))                                            \
    }                                                                                                   \
    static void cumprod_##name(void *context, int64_t from, int64_t to)                                 \
    {                                                                                                   \
        WALK(T, A, acc[i] = 1, out[i] = (T)(acc[i] *= x[i]))                                            \
    }                                                                                                   \
    static void linear_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        WALK(T, A, acc[i] = 0, out[i] = (T)(acc[i] = x[i] + acc[i] * ((const T *)w->c)[place + i]))     \
    }                                                                                                   \
    static void cummax_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        int64_t where[TILE];                                                                            \
        WALK(T, T, (acc[i] = x[i], where[i] = 0),                                                       \
             int take = (x[i] >= acc[i]) | (x[i] != x[i]);                                              \
             out[i] = acc[i] = take ? x[i] : acc[i]; w->at[place + i] = where[i] = take ? r : where[i]) \
    }                                                                                                   \
    static void cummin_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        int64_t where[TILE];                                                                            \
        WALK(T, T, (acc[i] = x[i], where[i] = 0),                                                       \
             int take = (x[i] <= acc[i]) | (x[i] != x[i]);                                              \
             out[i] = acc[i] = take ? x[i] : acc[i]; w->at[place + i] = where[i] = take ? r : where[i]) \
    }

REALS(float, f32, double)
REALS(double, f64, double)
REALS(int64_t, i64, int64_t)

static inline double log_of_sum(double a, double b)
{
    double high = b > a || b != b ? b : a, low = b > a || b != b ? a : b;
    return high != high || low != low ? high + low : isinf(high) ? high : high + log1p(exp(low - high));
}
static void logcumsumexp_f32(void *context, int64_t from, int64_t to)
{
    WALK(float, double, acc[i] = -INFINITY, out[i] = (float)(acc[i] = log_of_sum(acc[i], x[i])))
}
static void logcumsumexp_f64(void *context, int64_t from, int64_t to)
{
    WALK(double, double, acc[i] = -INFINITY, out[i] = acc[i] = log_of_sum(acc[i], x[i]))
}

static inline c128 times(c128 a, c128 b) { return (c128){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static inline c128 plus(c128 a, c128 b) { return (c128){a.re + b.re, a.im + b.im}; }
static void cumsum_c128(void *context, int64_t from, int64_t to)
{
    WALK(c128, c128, acc[i] = ((c128){0, 0}), out[i] = acc[i] = plus(acc[i], x[i]))
}
static void cumprod_c128(void *context, int64_t from, int64_t to)
{
    WALK(c128, c128, acc[i] = ((c128){1, 0}), out[i] = acc[i] = times(acc[i], x[i]))
}
static void linear_c128(void *context, int64_t from, int64_t to)
{
    WALK(c128, c128, acc[i] = ((c128){0, 0}),
         out[i] = acc[i] = plus(x[i], times(acc[i], ((const c128 *)w->c)[place + i])))
}

typedef struct bodies { td_loop_body *f32, *f64, *i64, *c128; } bodies;

/* x in the result's dtype, then in the dtype that is computed in; the result goes back the same way. */
static int scan(bodies b, td_tensor *self, td_tensor *c, int64_t dim, bool reverse, td_tensor *out, td_tensor *at)
{
    td_dtype kind = (td_dtype)out->dtype;
    td_dtype compute = td_dtype_is_complex(kind) ? TD_C128 : kind == TD_F64 ? TD_F64 : td_dtype_is_floating(kind) ? TD_F32
                                                                                                                 : TD_I64;
    TD_AUTO td_tensor *own = self->dtype == (int8_t)kind || compute == kind ? td_tensor_retain(self)
                                                                            : td_as_contiguous(self, kind);
    TD_AUTO td_tensor *x = own ? td_as_contiguous(own, compute) : NULL;
    TD_AUTO td_tensor *y = compute == kind ? td_tensor_retain(out)
                                           : td_tensor_new(out->ndim, out->sizes, compute, out->device);
    TD_AUTO td_tensor *factor = c ? td_as_contiguous(c, compute) : td_tensor_retain(TD_NONE);
    int d = td_wrap_dim(dim, self->ndim);
    if (!x || !y || !factor || d < 0)
        return -1;
    if (out->numel == 0)
        return 0;
    scan_job w = {.x = x->data, .out = y->data, .c = c ? factor->data : NULL, .at = at ? (int64_t *)at->data : NULL,
                  .length = self->ndim ? self->sizes[d] : 1, .inner = 1, .sign = reverse ? -1 : 1};
    for (int k = d + 1; k < self->ndim; k++)
        w.inner *= self->sizes[k];
    w.tiles = (w.inner + TILE - 1) / TILE;
    int64_t outer = out->numel / (w.length * w.inner), work = w.length * (w.inner < TILE ? w.inner : TILE);
    td_loop_body *body = compute == TD_F32 ? b.f32 : compute == TD_F64 ? b.f64 : compute == TD_I64 ? b.i64 : b.c128;
    td_parallel_for(0, outer * w.tiles, 32768 / work + 1, body, &w);
    return y == out ? 0 : td_copy_elements(out, y);
}

int td_cpu_cumsum(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return scan((bodies){cumsum_f32, cumsum_f64, cumsum_i64, cumsum_c128}, self, NULL, dim, false, out0, NULL);
}
int td_cpu_cumsum_reverse(td_tensor *self, int64_t dim, td_tensor *out0)
{
    return scan((bodies){cumsum_f32, cumsum_f64, cumsum_i64, cumsum_c128}, self, NULL, dim, true, out0, NULL);
}
int td_cpu_cumprod(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return scan((bodies){cumprod_f32, cumprod_f64, cumprod_i64, cumprod_c128}, self, NULL, dim, false, out0, NULL);
}
int td_cpu_linear_scan(td_tensor *a, td_tensor *c, int64_t dim, bool reverse, td_tensor *out0)
{
    return scan((bodies){linear_f32, linear_f64, linear_i64, linear_c128}, a, c, dim, reverse, out0, NULL);
}
int td_cpu_cummax(td_tensor *self, int64_t dim, td_tensor *out0, td_tensor *out1)
{
    return scan((bodies){cummax_f32, cummax_f64, cummax_i64, NULL}, self, NULL, dim, false, out0, out1);
}
int td_cpu_cummin(td_tensor *self, int64_t dim, td_tensor *out0, td_tensor *out1)
{
    return scan((bodies){cummin_f32, cummin_f64, cummin_i64, NULL}, self, NULL, dim, false, out0, out1);
}
int td_cpu_logcumsumexp(td_tensor *self, int64_t dim, td_tensor *out0)
{
    return scan((bodies){logcumsumexp_f32, logcumsumexp_f64, NULL, NULL}, self, NULL, dim, false, out0, NULL);
}
