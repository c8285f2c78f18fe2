/* Depthwise convolution: every kernel element is multiplied with a shifted row of the input and added to a row of the result. */
#ifndef S
#include "kernels/cpu/conv.h"
#if defined(__AVX512F__)
enum { PANEL = 128 };       /* bytes of a panel's row: as in gemm_isa.c */
#elif defined(__AVX2__)
enum { PANEL = 64 };
#else
enum { PANEL = 32 };
#endif

#define T float
#define S f32
#include "conv_isa.c"
#undef T
#undef S
#define T double
#define S f64
#include "conv_isa.c"
#undef T
#undef S

extern const td_conv_table TD_ISA_NAME(td_conv_table);
const td_conv_table TD_ISA_NAME(td_conv_table) = {
    .depthwise = {depthwise_f32, depthwise_f64}, .panels_f32 = panels_f32, .panels_f64 = panels_f64,
};

#else

static void N(depthwise)(void *context, int64_t first, int64_t last)
{
    const td_depthwise_job *job = context;
    const int64_t *in = job->in, *out = job->out, *kernel = job->kernel, *stride = job->stride;
    int64_t in_total = in[0] * in[1] * in[2], out_total = out[0] * out[1] * out[2],
    k = kernel[0] * kernel[1] * kernel[2];
    for (int64_t t = first; t < last; t++) {
        int64_t channel = t % job->groups;
        const T *x = (const T *)job->x + t * in_total, *w = (const T *)job->w + channel * k;
        T start = job->bias ? ((const T *)job->bias)[channel] : 0;
        for (int64_t line = 0; line < out[0] * out[1]; line++) {
            T *y = (T *)job->y + t * out_total + line * out[2];
#pragma omp simd
            for (int64_t o = 0; o < out[2]; o++)
                y[o] = start;
        }
        for (int64_t i = 0; i < k; i++) {
            int64_t kw = i % kernel[2], kh = i / kernel[2] % kernel[1], kd = i / (kernel[2] * kernel[1]);
            int64_t offset = kw * job->dilation[2] - job->pad[2], s = stride[2];
            int64_t from = offset >= 0 ? 0 : (-offset + s - 1) / s,
            to = offset >= in[2] ? 0 : (in[2] - 1 - offset) / s + 1;
            to = to > out[2] ? out[2] : to;
            const T f = w[i];
            for (int64_t od = 0; od < out[0]; od++) {
                int64_t id = od * stride[0] - job->pad[0] + kd * job->dilation[0];
                for (int64_t oh = 0; oh < out[1] && id >= 0 && id < in[0]; oh++) {
                    int64_t ih = oh * stride[1] - job->pad[1] + kh * job->dilation[1];
                    if (ih < 0 || ih >= in[1])
                        continue;
                    const T *row = x + (id * in[1] + ih) * in[2] + offset;
                    T *y = (T *)job->y + t * out_total + (od * out[1] + oh) * out[2];
                    if (s == 1) {
#pragma omp simd
                        for (int64_t o = from; o < to; o++)
                            y[o] += f * row[o];
                    } else {
                        for (int64_t o = from; o < to; o++)
                            y[o] += f * row[o * s];
                    }
                }
            }
        }
    }
}

static void N(panels)(const T *x, const int64_t *offsets, int64_t depth, int64_t width, T *to)
{
    for (int64_t j = 0; j < width; j += PANEL / (int64_t)sizeof(T), x += PANEL / sizeof(T))
        for (int64_t p = 0; p < depth; p++, to += PANEL / sizeof(T))
            memcpy(to, x + offsets[p], PANEL);
}
#endif
