/* Interpolation that only copies: each element of the result is the nearest of the input, whatever its dtype is.
 *
 * Where channels come last for both, a pixel with all of its channels is what is copied. Lines of the result that have the same line of the input
 * are copied from the first of them. */
#include "kernels/cpu/nn/upsample.h"
#include "tensor/checked.h"

typedef struct copying {
    td_resize_axis axes[3];
    int64_t pixel;              /* bytes that are copied at once */
    const char *x;
    char *y;
} copying;

#define PIXELS(T)                                                   \
    for (int64_t o = 0; o < w->out; o++)                            \
        ((T *)to)[o] = ((const T *)from)[w->at[o]];
static void copy_line(const td_resize_axis *w, int64_t pixel, const char *from, char *to)
{
    switch (pixel) {
    case 1: PIXELS(uint8_t) break;
    case 2: PIXELS(uint16_t) break;
    case 4: PIXELS(uint32_t) break;
    case 8: PIXELS(uint64_t) break;
    default:
        for (int64_t o = 0; o < w->out; o++)
            memcpy(to + o * pixel, from + w->at[o] * pixel, (size_t)pixel);
    }
}

static void some_lines(void *context, int64_t first, int64_t last)
{
    const copying *c = context;
    const td_resize_axis *d = &c->axes[0], *h = &c->axes[1], *w = &c->axes[2];
    const int64_t bytes = w->out * c->pixel;
    const char *before = NULL;
    for (int64_t line = first; line < last; line++) {
        const int64_t plane = line / (d->out * h->out), od = line / h->out % d->out, oh = line % h->out;
        const char *from = c->x + ((plane * d->in + d->at[od]) * h->in + h->at[oh]) * w->in * c->pixel;
        char *to = c->y + line * bytes;
        if (from == before)
            memcpy(to, to - bytes, (size_t)bytes);
        else
            copy_line(w, c->pixel, from, to);
        before = from;
    }
}

int td_resize_nearest(td_tensor *self, const td_resize_geometry *g, td_tensor *out)
{
    const bool innermost = td_channels_innermost(self);
    const bool last = innermost && td_channels_innermost(out) && self->ndim - g->dims == 2;
    const td_dtype dtype = (td_dtype)out->dtype;
    TD_AUTO td_tensor *x = last ? td_tensor_retain(self) : td_make_contiguous(self), *y = last ? td_tensor_retain(out) : td_target(out, dtype);
    if (!x || !y)
        return -1;
    const int64_t channels = last ? self->sizes[1] : 1, lines = g->planes / channels * g->out[0] * g->out[1];
    copying c = {.pixel = channels * (int64_t)td_dtype_size(dtype), .x = x->data, .y = y->data};
    const int64_t count = td_add_saturated(td_add_saturated(g->out[0], g->out[1]), g->out[2]);
    const size_t bytes = td_array_bytes(count, sizeof(int64_t) + sizeof(double));
    int64_t *at = td_mem_alloc(bytes), *block = at;
    if (!block)
        return -1;
    double *weight = (double *)(block + count);
    for (int i = 0; i < 3; i++) {
        c.axes[i] = (td_resize_axis){.in = g->in[i], .out = g->out[i], .taps = 1, .at = at, .weight = weight};
        at += g->out[i], weight += g->out[i];
        td_resize_fill(&c.axes[i], g, i, innermost, false);
    }
    td_parallel_for(0, lines, td_grain(g->out[2] * channels), some_lines, &c);
    td_mem_free(block, bytes);
    return td_finish(out, y);
}
