/* Columns of images (im2col), images from columns, and sums of channels; convolutions themselves are products: product.ck.
 *
 * Columns that share an element of the image are added where the element is, so nothing is added by two work items.  A: the dtype. */
#include "kernels/device/group.ck"

typedef struct conv_values {
    int64_t batch, channels, taps, in_total, out_total;
    int64_t in[3], out[3], window[3], stride[3], padding[3], dilation[3];
} conv_values;

#ifndef TD_HOST
KERNEL conv_columns(BUFFER(x), BUFFER(y), VALUES(conv_values, v))
{
    UNPACK(conv_values, v)
    const int64_t total = v.batch * v.channels * v.taps * v.out_total;
    for (int64_t at = ITEM; at < total; at += ITEMS) {
        const int64_t o = at % v.out_total, t = at / v.out_total % v.taps, plane = at / v.out_total / v.taps;
        const int64_t w = o % v.out[2] * v.stride[2] - v.padding[2] + t % v.window[2] * v.dilation[2];
        const int64_t h = o / v.out[2] % v.out[1] * v.stride[1] - v.padding[1] + t / v.window[2] % v.window[1] * v.dilation[1];
        const int64_t d = o / v.out[2] / v.out[1] * v.stride[0] - v.padding[0] + t / v.window[2] / v.window[1] * v.dilation[0];
        const bool inside = w >= 0 && w < v.in[2] && h >= 0 && h < v.in[1] && d >= 0 && d < v.in[0];
        AT(A, y)[at] = inside ? AT(const A, x)[plane * v.in_total + (d * v.in[1] + h) * v.in[2] + w] : A_STORE(A_ZERO);
    }
}

/* The position whose tap t lies at i, along one dimension; -1 if there is none. */
static int64_t position_at(conv_values v, int d, int64_t i, int64_t t)
{
    const int64_t from = i + v.padding[d] - t * v.dilation[d];
    return from >= 0 && from % v.stride[d] == 0 && from / v.stride[d] < v.out[d] ? from / v.stride[d] : -1;
}

KERNEL conv_images(BUFFER(y), BUFFER(x), VALUES(conv_values, v))
{
    UNPACK(conv_values, v)
    const int64_t total = v.batch * v.channels * v.in_total;
    for (int64_t at = ITEM; at < total; at += ITEMS) {
        const int64_t i = at % v.in_total, w = i % v.in[2], h = i / v.in[2] % v.in[1], d = i / v.in[2] / v.in[1];
        GLOBAL const A *columns = AT(const A, y) + at / v.in_total * v.taps * v.out_total;
        A_C sum = A_ZERO;
        for (int64_t a = 0; a < v.window[0]; a++)
            for (int64_t b = 0; b < v.window[1]; b++)
                for (int64_t c = 0; c < v.window[2]; c++) {
                    const int64_t od = position_at(v, 0, d, a), oh = position_at(v, 1, h, b), ow = position_at(v, 2, w, c);
                    if (od >= 0 && oh >= 0 && ow >= 0)
                        sum = A_ADD(sum, A_LOAD(columns[((a * v.window[1] + b) * v.window[2] + c) * v.out_total + (od * v.out[1] + oh) * v.out[2] + ow]));
                }
        AT(A, x)[at] = A_STORE(sum);
    }
}

/* y += bias by channels: `taps` elements of a channel lie together in memory.  32 bits are enough (see by_library in conv.c). */
KERNEL conv_bias(BUFFER(bias), BUFFER(y), VALUES(conv_values, v))
{
    UNPACK(conv_values, v)
    const uint32_t total = (uint32_t)(v.batch * v.channels * v.out_total), together = (uint32_t)v.taps, channels = (uint32_t)v.channels;
    for (uint32_t at = (uint32_t)ITEM; at < total; at += (uint32_t)ITEMS)
        AT(A, y)[at] = A_STORE(A_ADD(A_LOAD(AT(const A, y)[at]), A_LOAD(AT(const A, bias)[at / together % channels])));
}

/* The gradient of a bias: y is [batch][channels][out_total]. */
KERNEL conv_channels(BUFFER(y), BUFFER(sums), VALUES(conv_values, v))
{
    UNPACK(conv_values, v)
    SHARED A_C room[WIDTH];
    for (int64_t c = GROUP; c < v.channels; c += GROUPS) {
        A_C sum = A_ZERO;
        for (int64_t at = LANE; at < v.batch * v.out_total; at += LANES)
            sum = A_ADD(sum, A_LOAD(AT(const A, y)[(at / v.out_total * v.channels + c) * v.out_total + at % v.out_total]));
        GROUP_FOLD(A_C, room, sum, A_ADD);
        if (LANE == 0)
            AT(A, sums)[c] = A_STORE(sum);
    }
}
#endif
