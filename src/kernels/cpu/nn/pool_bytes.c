/* Pooling of quantized images, whose channels come last, on their bytes; threads share the lines of the result. */
#include "calls_kernels_cpu_nn_pool_bytes.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/nn/pool_bytes.h"
#include "tensor/checked.h"

typedef struct job {
    td_pool_bytes       p;
    td_pool_bytes_line *line;
} job;

static void some_lines(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    for (int64_t line = first; line < last; line++)
        j->line(&j->p, line);
}

int td_cpu__bytes_pool(td_tensor *x, int64_t n_size, const int64_t *size, int64_t n_window, const int64_t *window, bool maximum, bool include_pad,
                       int64_t divisor, int64_t zero_point, td_tensor *out)
{
    (void)n_size;
    TD_AUTO td_tensor *from = td_make_contiguous(x), *to = td_writable(out, (td_dtype)x->dtype);
    if (!from || !to)
        return -1;
    const bool with_sign = x->dtype == TD_I8;
    const td_pool_bytes_table *table = TD_ISA_PICK(td_pool_bytes_table);
    job j = {{.channels = x->sizes[3], .x = (const uint8_t *)from->data, .y = (uint8_t *)to->data, .flip = with_sign ? 0x80 : 0,
              .zero = (int32_t)zero_point + (with_sign ? 128 : 0)}, maximum ? table->maximum : table->average};
    td_pool_geometry *g = &j.p.g;
    *g = (td_pool_geometry){.dims = 2, .planes = x->sizes[0], .in = {1, x->sizes[1], x->sizes[2]}, .out = {1, size[0], size[1]},
                            .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .in_total = x->sizes[1] * x->sizes[2],
                            .out_total = size[0] * size[1], .adaptive = !n_window, .include_pad = include_pad, .divisor = divisor};
    for (int i = 0; i < 2 && n_window; i++) {
        g->kernel[1 + i] = window[i], g->stride[1 + i] = window[2 + i];
        g->padding[1 + i] = window[4 + i], g->dilation[1 + i] = window[6 + i];
    }
    const int64_t lines = g->planes * size[0], work = lines ? td_mul_saturated(2, x->numel) / lines : 0;
    td_parallel_for(0, to->numel ? lines : 0, td_grain(work + 1), some_lines, &j);
    return td_write_back(out, to);
}
