/* Convolution's input gradient, and transposed convolution, as correlations of y instead of col2im: x += w^T y.
 *
 * With a step s, input i meets kernel elements of one remainder only: those k for which i + pad - k is a multiple of s.  So the
 * inputs i = r + s m of each remainder r are an image, which is the correlation of y with the kernel's elements of
 * that remainder, in reverse order.  With steps of 1 there is one such image, x itself.  A few channels are few rows of a product,
 * for which laying out its operand isn't worth it.
 *
 * No product is with a zero that a step put there, and nothing is scattered: each input is one sum. */
#include "base/base.h"
#include "kernels/cpu/conv/conv.h"

enum { MOST_PHASES = 16, FEW_CHANNELS = 8, POINTWISE_TILE = 4096 };

/* Along a dimension: the first kernel element of a remainder, how many there are, and how many inputs. */
typedef struct phase {
    int64_t first, count, inputs, pad;
} phase;

bool td_conv_has_phases(const td_conv *c)
{
    const bool depthwise = c->g.cin == 1 && c->g.cout == 1;
    bool plain = c->g.stride[0] * c->g.stride[1] * c->g.stride[2] <= MOST_PHASES && (c->g.cin >= FEW_CHANNELS || depthwise);
    for (int i = 0; i < 3; i++)
        plain = plain && (c->g.stride[i] == 1 || c->g.dilation[i] == 1);
    return plain;
}

/* Remainder r: kernel elements first, first + s, ..., and inputs r, r + s, ...  Input r + s m meets y at m + (r + pad - first) / s
 * minus the element's number (times the dilation, where s is 1), which as a correlation with reversed elements is padded by
 * what is returned; that may be negative: then y's first numbers meet none. */
static phase phase_of(const td_conv *c, int i, int64_t r)
{
    const int64_t s = c->g.stride[i], first = (r + c->g.padding[i]) % s;
    const int64_t count = first < c->g.kernel[i] ? (c->g.kernel[i] - 1 - first) / s + 1 : 0;
    return (phase){first, count, r < c->g.in[i] ? (c->g.in[i] - 1 - r) / s + 1 : 0, (count - 1) * c->g.dilation[i] - (r + c->g.padding[i] - first) / s};
}

/* The kernels' elements of a phase, reversed, channels exchanged.  Blocks of channels, since one of both is far apart. */
typedef struct reversal {
    const td_conv *c;
    const phase *p;
    char *to;
} reversal;

enum { CHANNELS = 16 };

#define REVERSE(name, T)                                                                                                    \
    static void name(void *context, int64_t first, int64_t last)                                                         \
    {                                                                                                                    \
        const reversal *t = context;                                                                                      \
        const td_conv *c = t->c;                                                                                         \
        const phase *p = t->p;                                                                                           \
        const int64_t blocks = td_ceil_div(c->g.cin, CHANNELS), taps = c->g.kernel[0] * c->g.kernel[1] * c->g.kernel[2]; \
        const int64_t some = p[0].count * p[1].count * p[2].count;                                                       \
        for (int64_t b = first; b < last; b++) {                                                                         \
            const int64_t g = b / blocks, from = b % blocks * CHANNELS;                                                  \
            const int64_t to = from + CHANNELS < c->g.cin ? from + CHANNELS : c->g.cin;                                  \
            for (int64_t o = 0; o < c->g.cout; o++)                                                                      \
                for (int64_t i = from; i < to; i++) {                                                                    \
                    const T *w = (const T *)c->w + ((g * c->g.cout + o) * c->g.cin + i) * taps;                          \
                    T *at = (T *)t->to + ((g * c->g.cin + i) * c->g.cout + o) * some + some;                             \
                    for (int64_t z = p[0].first; z < c->g.kernel[0]; z += c->g.stride[0])                                \
                        for (int64_t y = p[1].first; y < c->g.kernel[1]; y += c->g.stride[1])                            \
                            for (int64_t x = p[2].first; x < c->g.kernel[2]; x += c->g.stride[2])                        \
                                *--at = w[(z * c->g.kernel[1] + y) * c->g.kernel[2] + x];                                \
                }                                                                                                        \
        }                                                                                                                \
    }
REVERSE(reverse_f32, float)
REVERSE(reverse_f64, double)

/* One phase: [image][channel][its inputs]; w has room for the kernels. */
static int correlate_phase(const td_conv *c, const phase p[3], char *w, char *to)
{
    td_conv transposed = *c;
    transposed.x = c->y, transposed.w = w, transposed.y = to, transposed.g.cin = c->g.cout, transposed.g.cout = c->g.cin;
    transposed.g.in_total = c->g.out_total, transposed.g.out_total = 1, transposed.g.k = c->g.cout, transposed.g.pointwise = true;
    for (int i = 0; i < 3; i++) {
        transposed.g.in[i] = c->g.out[i], transposed.g.out[i] = p[i].inputs, transposed.g.kernel[i] = p[i].count;
        transposed.g.stride[i] = 1, transposed.g.padding[i] = p[i].pad;
        transposed.g.k *= p[i].count, transposed.g.out_total *= p[i].inputs;
        transposed.g.pointwise &= p[i].count == 1 && p[i].pad == 0 && transposed.g.in[i] == transposed.g.out[i];
    }
    transposed.tile = transposed.g.pointwise && transposed.g.out_total > POINTWISE_TILE ? POINTWISE_TILE : transposed.g.out_total;
    if (transposed.g.k > 0) {
        reversal t = {c, p, w};
        td_parallel_for(0, c->g.groups * td_ceil_div(c->g.cin, CHANNELS), td_grain(CHANNELS * transposed.g.k),
                        c->dtype == TD_F32 ? reverse_f32 : reverse_f64, &t);
        return td_conv_run_correlate(&transposed);
    }
    const int64_t channels = c->g.groups * c->g.cin, image = channels * transposed.g.out_total * c->size;
    memset(to, 0, (size_t)(c->g.batch * image));
    for (int64_t n = 0; n < c->g.batch; n++)
        td_conv_add_bias(c, 0, channels, to + n * image, transposed.g.out_total, transposed.g.out_total);
    return 0;
}

/* Rows of the phases along the width, side by side in turn. */
typedef struct rows {
    const td_conv *c;
    const phase *p;                 /* p[0], p[1]: of depth and height; p[2 ...]: of the width */
    int64_t depth, height;          /* their remainders */
    char *const *images;            /* of each phase of the width */
} rows;

#define WEAVE(name, T)                                                                                                                             \
    static void name(void *context, int64_t first, int64_t last)                                                                                   \
    {                                                                                                                                              \
        const rows *r = context;                                                                                                                   \
        const td_conv *c = r->c;                                                                                                                   \
        const int64_t step = c->g.stride[2], high = r->p[1].inputs, deep = r->p[0].inputs;                                                         \
        for (int64_t i = first; i < last; i++) {                                                                                                   \
            const int64_t h = i % high, d = i / high % deep, image = i / high / deep;                                                              \
            T *to = (T *)c->x + ((image * c->g.in[0] + r->depth + d * c->g.stride[0]) * c->g.in[1] + r->height + h * c->g.stride[1]) * c->g.in[2]; \
            const int64_t n = c->g.in[2] / step;                                                                                                   \
            if (step == 2) {                                                                                                                       \
                const T *even = (const T *)r->images[0] + i * r->p[2].inputs, *odd = (const T *)r->images[1] + i * r->p[3].inputs;                 \
                _Pragma("omp simd")                                                                                                                \
                for (int64_t w = 0; w < n; w++)                                                                                                    \
                    to[2 * w] = even[w], to[2 * w + 1] = odd[w];                                                                                   \
                if (c->g.in[2] % 2)                                                                                                                \
                    to[2 * n] = even[n];                                                                                                           \
                continue;                                                                                                                          \
            }                                                                                                                                      \
            for (int64_t q = 0; q < step; q++) {                                                                                                   \
                const T *from = (const T *)r->images[q] + i * r->p[2 + q].inputs;                                                                  \
                for (int64_t w = 0; w < r->p[2 + q].inputs; w++)                                                                                   \
                    to[q + w * step] = from[w];                                                                                                    \
            }                                                                                                                                      \
        }                                                                                                                                          \
    }
WEAVE(weave_f32, float)
WEAVE(weave_f64, double)

/* Phases of depth and height one after the other; those of the width go to blocks of their own and are then woven into whole rows,
 * since writing every s-th number of a row s times would move each line of it s times. */
static int spread_in_steps(td_conv *c, char *w)
{
    const int64_t images = c->g.batch * c->g.groups * c->g.cin, steps = c->g.stride[2];
    const int64_t most = td_ceil_div(c->g.in[0], c->g.stride[0]) * td_ceil_div(c->g.in[1], c->g.stride[1]) * td_ceil_div(c->g.in[2], steps);
    const size_t bytes = (size_t)(steps * images * most * c->size);
    char *block = td_mem_alloc(bytes), *phases[MOST_PHASES];
    int status = block ? 0 : -1;
    for (int64_t i = 0; i < c->g.stride[0] * c->g.stride[1] && !status; i++) {
        phase p[2 + MOST_PHASES] = {phase_of(c, 0, i / c->g.stride[1]), phase_of(c, 1, i % c->g.stride[1])};
        if (p[0].inputs * p[1].inputs == 0)
            continue;
        for (int64_t q = 0; q < steps && !status; q++) {
            p[2 + q] = phase_of(c, 2, q), phases[q] = block + q * images * most * c->size;
            status = correlate_phase(c, (phase[]){p[0], p[1], p[2 + q]}, w, phases[q]);
        }
        rows r = {c, p, i / c->g.stride[1], i % c->g.stride[1], phases};
        if (!status)
            td_parallel_for(0, images * p[0].inputs * p[1].inputs, td_grain(c->g.in[2]), c->dtype == TD_F32 ? weave_f32 : weave_f64, &r);
    }
    td_mem_free(block, bytes);
    return status;
}

/* `w` is as large as all kernels: a phase has at most all of their elements. */
int td_conv_spread(td_conv *c)
{
    const size_t bytes = (size_t)(c->g.groups * c->g.cout * c->g.k * c->size);
    char *w = td_mem_alloc(bytes);
    if (!w)
        return -1;
    const bool once = c->g.stride[0] * c->g.stride[1] * c->g.stride[2] == 1;
    int status = once ? correlate_phase(c, (phase[]){phase_of(c, 0, 0), phase_of(c, 1, 0), phase_of(c, 2, 0)}, w, c->x)
                      : spread_in_steps(c, w);
    td_mem_free(w, bytes);
    return status;
}
