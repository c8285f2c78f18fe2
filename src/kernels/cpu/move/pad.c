/* Reflection, replication and circular padding: a table per dimension says which element of the input each one comes from.
 *
 * Threads share the planes.  A plane is written by one thread, in order, so gradients have the same bits for any number of them. */
#include "calls_kernels_cpu_move_pad.h"
#include "base/base.h"
#include "kernels/cpu/loops/operands.h"
#include "tensor/checked.h"

typedef struct padding {
    td_pad_geometry g;
    int64_t *from[3];
    int64_t begin, end;         /* elements of a padded row that lie side by side where they come from */
    int64_t width;              /* of an element, in bytes forward, in numbers backward */
    const char *x;
    char *y;
} padding;

/* Where element i of padded dimension d comes from. */
static int64_t source(const td_pad_geometry *g, int d, int64_t i)
{
    const int64_t n = g->in[d], before = g->before[d], behind = g->behind[d];
    if (g->mode == TD_PAD_CIRCULAR) {       /* what negative padding leaves is what is repeated */
        int64_t first = before < 0 ? -before : 0, period = n - first + (behind < 0 ? behind : 0);
        int64_t at = (i - (before > 0 ? before : 0)) % period;
        return first + (at < 0 ? at + period : at);
    }
    i -= before;
    if (g->mode == TD_PAD_REPLICATE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
}

/* Elements [first, last) of a padded row, one by one. */
static void pick(char *y, const char *row, const int64_t *from, int64_t first, int64_t last, int64_t w)
{
    switch (w) {
    case 1:  for (int64_t i = first; i < last; i++) y[i] = row[from[i]]; break;
    case 2:  for (int64_t i = first; i < last; i++) ((int16_t *)y)[i] = ((const int16_t *)row)[from[i]]; break;
    case 4:  for (int64_t i = first; i < last; i++) ((int32_t *)y)[i] = ((const int32_t *)row)[from[i]]; break;
    case 8:  for (int64_t i = first; i < last; i++) ((int64_t *)y)[i] = ((const int64_t *)row)[from[i]]; break;
    default: for (int64_t i = first; i < last; i++) memcpy(y + i * w, row + from[i] * w, (size_t)w);
    }
}

/* Planes [first, last).  A row's longest run, mostly the input's row, is one memcpy; the edges go element by element.  Bound by
 * memory. */
static void forward(void *context, int64_t first, int64_t last)
{
    const padding *p = context;
    const int64_t w = p->width, ins = p->g.in_total * w, outs = p->g.out_total * w;
    for (int64_t plane = first; plane < last; plane++) {
        const char *x = p->x + plane * ins;
        char *y = p->y + plane * outs;
        for (int64_t d = 0; d < p->g.out[0]; d++)
            for (int64_t h = 0; h < p->g.out[1]; h++) {
                const char *row = x + (p->from[0][d] * p->g.in[1] + p->from[1][h]) * p->g.in[2] * w;
                pick(y, row, p->from[2], 0, p->begin, w);
                if (p->begin < p->end)
                    memcpy(y + p->begin * w, row + p->from[2][p->begin] * w, (size_t)((p->end - p->begin) * w));
                pick(y, row, p->from[2], p->end, p->g.out[2], w);
                y += p->g.out[2] * w;
            }
    }
}

/* The transpose of forward: every element of the gradient is added to the one it was copied from.  Complex numbers are w = 2
 * numbers each. */
#define BACKWARD(S, T)                                                                          \
    static void backward_##S(void *context, int64_t first, int64_t last)                        \
    {                                                                                           \
        const padding *p = context;                                                             \
        const int64_t w = p->width, ins = p->g.in_total * w, outs = p->g.out_total * w;         \
        for (int64_t plane = first; plane < last; plane++) {                                    \
            const T *g = (const T *)p->x + plane * outs;                                        \
            T *y = (T *)p->y + plane * ins;                                                     \
            memset(y, 0, (size_t)ins * sizeof(T));                                              \
            for (int64_t d = 0; d < p->g.out[0]; d++)                                           \
                for (int64_t h = 0; h < p->g.out[1]; h++) {                                     \
                    T *row = y + (p->from[0][d] * p->g.in[1] + p->from[1][h]) * p->g.in[2] * w; \
                    for (int64_t i = 0; i < p->g.out[2]; i++)                                   \
                        for (int64_t k = 0; k < w; k++)                                         \
                            row[p->from[2][i] * w + k] += *g++;                                 \
                }                                                                               \
        }                                                                                       \
    }
BACKWARD(f32, float)
BACKWARD(f64, double)

/* The tables and the longest run, then the loop. */
static int run(padding *p, td_loop_body *body)
{
    const td_pad_geometry *g = &p->g;
    const int64_t places = td_add_saturated(td_add_saturated(g->out[0], g->out[1]), g->out[2]);
    if (!g->planes)
        return 0;
    const size_t bytes = td_array_bytes(places ? places : 1, sizeof(int64_t));
    int64_t *block = td_mem_alloc(bytes), *at = block;
    if (!block)
        return -1;
    for (int i = 0; i < 3; i++) {
        p->from[i] = at;
        for (int64_t o = 0; o < g->out[i]; o++)
            *at++ = source(g, i, o);
    }
    /* The longest run. */
    for (int64_t i = 0, end; i < g->out[2]; i = end) {
        for (end = i + 1; end < g->out[2] && p->from[2][end] == p->from[2][end - 1] + 1;)
            end++;
        if (end - i > p->end - p->begin)
            p->begin = i, p->end = end;
    }
    td_parallel_for(0, g->planes, td_grain(td_add_saturated(g->in_total, g->out_total)), body, p);
    td_mem_free(block, bytes);
    return 0;
}

int td_cpu_pad_edges(td_tensor *self, const td_pad_geometry *g, td_tensor *out)
{
    TD_AUTO td_tensor *x = td_as_contiguous(self, (td_dtype)self->dtype);
    if (!x)
        return -1;
    padding p = {.g = *g, .width = td_itemsize(x), .x = (const char *)x->data, .y = (char *)out->data};
    return run(&p, forward);
}

int td_cpu_pad_edges_backward(td_tensor *grad, td_tensor *self, const td_pad_geometry *g, td_tensor *out)
{
    (void)self;
    bool pairs = td_dtype_is_complex((td_dtype)grad->dtype), wide = grad->dtype == TD_F64 || grad->dtype == TD_C128;
    td_dtype type = pairs ? (td_dtype)grad->dtype : td_compute_dtype(grad);
    TD_AUTO td_tensor *slopes = td_operand(grad, type), *y = td_target(out, type);
    if (!slopes || !y)
        return -1;
    padding p = {.g = *g, .width = pairs ? 2 : 1, .x = (const char *)slopes->data, .y = (char *)y->data};
    return run(&p, wide ? backward_f64 : backward_f32) ? -1 : td_finish(out, y);
}
