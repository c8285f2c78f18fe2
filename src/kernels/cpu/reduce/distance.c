/* Distances of rows of two matrices (distance_isa.c).
 *
 * pdist: p-norms of the differences of all pairs of rows.  Threads share the first rows of the pairs forward, the rows
 * that gradients belong to backward, so that each result is written by one thread. */
#include "calls_kernels_cpu_reduce_distance.h"
#include <math.h>
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/reduce/distance.h"

/* cdist for p of 1, 2 and infinity: tasks are blocks of 64 x 64 distances. */
int td_cpu_pair_distances(td_tensor *x1, td_tensor *x2, double p, td_tensor *out)
{
    const td_distance_table *table = TD_ISA_PICK(td_distance_table);
    const td_dtype type = (td_dtype)x1->dtype;
    TD_AUTO td_tensor *a = td_as_contiguous(x1, type), *b = td_as_contiguous(x2, type);
    if (!a || !b)
        return -1;
    td_distance_job job = {.kind = p == 1 ? TD_DISTANCE_ABSOLUTE : p == 2 ? TD_DISTANCE_EUCLIDEAN : TD_DISTANCE_LARGEST,
                           .rows = a->sizes[1], .columns = b->sizes[1], .width = a->sizes[2],
                           .down = td_ceil_div(a->sizes[1], TD_DISTANCE_ROWS), .across = td_ceil_div(b->sizes[1], TD_DISTANCE_ROWS),
                           .x1 = a->data, .x2 = b->data, .y = out->data};
    td_parallel_for(0, a->sizes[0] * job.down * job.across, td_grain(TD_DISTANCE_ROWS * TD_DISTANCE_ROWS * job.width),
                    table->tasks[type == TD_F64], &job);
    return job.failed ? td_error(TD_E_MEMORY, "cdist: no memory for a block of rows") : 0;
}

/* What the loops of pdist need: n rows of `width` numbers; y: distances, or gradients of the rows. */
typedef struct pairs {
    int64_t n, width;
    double p;
    const void *x, *grad, *distance;
    void *y;
} pairs;

/* The place of pair (i, j), i < j, in the result. */
static int64_t place(const pairs *c, int64_t i, int64_t j) { return i * c->n - i * (i + 1) / 2 + j - i - 1; }

/* The p-norm of a row of differences, and its derivative by one of them: sign(d) (|d| / r)^(p - 1), where r is the distance.  0
 * where it has none. */
#define LOOPS(S, T, FABS, POW, SQRT)                                                                                  \
    static T distance_##S(const T *a, const T *b, int64_t n, double p)                                                \
    {                                                                                                                 \
        T sum = 0;                                                                                                    \
        if (p == 0)                                                                                                   \
            for (int64_t k = 0; k < n; k++)                                                                           \
                sum += a[k] != b[k];                                                                                  \
        else if (p == 1)                                                                                              \
            for (int64_t k = 0; k < n; k++)                                                                           \
                sum += FABS(a[k] - b[k]);                                                                             \
        else if (p == 2) {                                                                                            \
            for (int64_t k = 0; k < n; k++)                                                                           \
                sum += (a[k] - b[k]) * (a[k] - b[k]);                                                                 \
            sum = SQRT(sum);                                                                                          \
        } else if (isinf(p)) {                                                                                        \
            for (int64_t k = 0; k < n; k++)                                                                           \
                sum = FABS(a[k] - b[k]) > sum || isnan(a[k] - b[k]) ? FABS(a[k] - b[k]) : sum;                        \
        } else {                                                                                                      \
            for (int64_t k = 0; k < n; k++)                                                                           \
                sum += POW(FABS(a[k] - b[k]), (T)p);                                                                  \
            sum = POW(sum, (T)(1 / p));                                                                               \
        }                                                                                                             \
        return sum;                                                                                                   \
    }                                                                                                                 \
    static void forward_##S(void *context, int64_t first, int64_t last)                                               \
    {                                                                                                                 \
        const pairs *c = context;                                                                                     \
        const T *x = c->x;                                                                                            \
        for (int64_t i = first; i < last; i++)                                                                        \
            for (int64_t j = i + 1; j < c->n; j++)                                                                    \
                ((T *)c->y)[place(c, i, j)] = distance_##S(x + i * c->width, x + j * c->width, c->width, c->p);       \
    }                                                                                                                 \
    /* The derivative of the distance `r` in one difference d, times grad. */                                         \
    static inline T slope_##S(T d, T grad, T r, double p)                                                             \
    {                                                                                                                 \
        const T sign = (T)((d > 0) - (d < 0));                                                                        \
        if (p == 1)                                                                                                   \
            return grad * sign;                                                                                       \
        if (isinf(p))                                                                                                 \
            return FABS(d) == r ? grad * sign : 0;                                                                    \
        if (r == 0 || (d == 0 && p < 2))                                                                              \
            return 0;                                                                                                 \
        return p == 2 ? grad * d / r : sign * POW(FABS(d), (T)(p - 1)) * grad / POW(r, (T)(p - 1));                   \
    }                                                                                                                 \
    static void backward_##S(void *context, int64_t first, int64_t last)                                              \
    {                                                                                                                 \
        const pairs *c = context;                                                                                     \
        for (int64_t i = first; i < last; i++) {                                                                      \
            const T *x = (const T *)c->x + i * c->width;                                                              \
            T *y = (T *)c->y + i * c->width;                                                                          \
            memset(y, 0, (size_t)c->width * sizeof(T));                                                               \
            for (int64_t j = 0; c->p != 0 && j < c->n; j++) {                                                         \
                if (i == j)                                                                                           \
                    continue;                                                                                         \
                const int64_t at = i < j ? place(c, i, j) : place(c, j, i);                                           \
                const T grad = ((const T *)c->grad)[at], r = ((const T *)c->distance)[at];                            \
                const T *other = (const T *)c->x + j * c->width;                                                      \
                for (int64_t k = 0; k < c->width; k++)                                                                \
                    y[k] += slope_##S(x[k] - other[k], grad, r, c->p);                                                \
            }                                                                                                         \
        }                                                                                                             \
    }
LOOPS(f32, float, fabsf, powf, sqrtf)
LOOPS(f64, double, fabs, pow, sqrt)

/* Rows without elements, of whatever dtype, are all equal, and a row alone has no distance: the loops, of float32 and float64, have nothing
 * to do there. */
static bool is_trivial(const td_tensor *x) { return x->sizes[0] < 2 || x->sizes[1] == 0; }

int td_cpu__pdist_forward(td_tensor *self, double p, td_tensor *out)
{
    if (is_trivial(self))
        return memset(out->data, 0, (size_t)(out->numel * td_itemsize(out))), 0;
    TD_AUTO td_tensor *x = td_as_contiguous(self, (td_dtype)self->dtype);
    if (!x)
        return -1;
    pairs c = {.n = x->sizes[0], .width = x->sizes[1], .p = p, .x = x->data, .y = out->data};
    td_parallel_for(0, c.n, td_grain(c.n * c.width), x->dtype == TD_F64 ? forward_f64 : forward_f32, &c);
    return 0;
}

/* Each row goes over all of its pairs, so both ends of a pair compute its slope; in return no two threads write to one row. */
int td_cpu__pdist_backward(td_tensor *grad, td_tensor *self, double p, td_tensor *pdist, td_tensor *out)
{
    td_dtype type = (td_dtype)self->dtype;
    if (is_trivial(self))
        return memset(out->data, 0, (size_t)(out->numel * td_itemsize(out))), 0;
    TD_AUTO td_tensor *x = td_as_contiguous(self, type), *g = td_as_contiguous(grad, type);
    TD_AUTO td_tensor *r = td_as_contiguous(pdist, type);
    if (!x || !g || !r)
        return -1;
    pairs c = {.n = x->sizes[0], .width = x->sizes[1], .p = p, .x = x->data, .grad = g->data, .distance = r->data,
               .y = out->data};
    td_parallel_for(0, c.n, td_grain(2 * c.n * c.width), type == TD_F64 ? backward_f64 : backward_f32, &c);
    return 0;
}
