/* tede/geometry.h: what the implementation of a layer gets in place of the numbers it was called with.
 *
 * An entry with `geometry: pool` has a meta function that checks sizes, strides, padding and the like once and fills a
 * td_pool_geometry with what follows from them.  An implementation for a device (td_register_impl in <tede/spec.h>) has the operator's
 * tensors as parameters, then the geometry, then the results:
 *
 *     int max_pool(td_tensor *self, const td_pool_geometry *geometry, td_tensor *values, td_tensor *indices);
 *     td_register_impl("aten::max_pool2d_with_indices", my_device, (td_kernel)max_pool);
 *
 * Gradients have the geometry of the operator they are of.  Nothing in it is left to check, and no product of its sizes overflows if the
 * tensors have elements: those of an empty tensor stand at the end of the range.  Spatial dimensions are always three; what an
 * image or a line lacks comes first, with sizes and steps of 1 and no padding.  So one loop serves all ranks. */
#ifndef TEDE_GEOMETRY_H
#define TEDE_GEOMETRY_H
#include <tede/base.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- pooling: the windows that elements of a result are taken from */

typedef struct td_pool_geometry {
    int     dims;                           /* that are pooled: the tensors' last ones */
    int64_t planes;                         /* product of the sizes before those */
    int64_t in[3], out[3];                  /* where windows lie, and how many there are */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t in_total, out_total;            /* of a plane */
    bool    adaptive;                       /* windows follow from `in` and `out` */
    bool    include_pad;                    /* padding counts in an average */
    int64_t divisor;                        /* of an average; 0: how many elements the window has */
} td_pool_geometry;

/* The elements of dimension d that window o has: [from, to) in steps of the dilation; both are inside. */
static inline void td_pool_window(const td_pool_geometry *g, int d, int64_t o, int64_t *from, int64_t *to)
{
    if (g->adaptive) {
        *from = o * g->in[d] / g->out[d];
        *to = ((o + 1) * g->in[d] + g->out[d] - 1) / g->out[d];
        return;
    }
    const int64_t step = g->dilation[d], stop = o * g->stride[d] - g->padding[d] + (g->kernel[d] - 1) * step + 1;
    int64_t start = o * g->stride[d] - g->padding[d];
    if (start < 0)      /* the first step inside: padding of many dilations is skipped at once */
        start = step == 1 ? 0 : start + (step - 1 - start) / step * step;
    *from = start, *to = stop < g->in[d] ? stop : g->in[d];
}

/* ---- convolution: y = w * x, images correlated with kernels; or its transpose
 *
 * Of a transposed convolution the operand is y and the result x; all else is as of the convolution that it transposes.  Of im2col x are
 * the images and y the columns. */

typedef struct td_conv_geometry {
    int     dims;
    bool    transposed;
    bool    pointwise;                      /* kernels of one element in steps of 1: x is its own columns */
    int64_t batch, groups;
    int64_t cin, cout;                      /* channels of x and y per group */
    int64_t in[3], out[3];                  /* of x and y */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t in_total, out_total;            /* of a channel */
    int64_t k;                              /* products that an element of y is the sum of: cin times the kernel's elements */
} td_conv_geometry;

/* ---- resizing: every element of the result is a weighted sum of neighbours along each dimension */

/* NEAREST rounds down, NEAREST_EXACT to the middle; the antialiased ones (AA) stretch their filter where an image shrinks. */
typedef enum td_resize_mode {
    TD_RESIZE_NEAREST, TD_RESIZE_NEAREST_EXACT, TD_RESIZE_LINEAR, TD_RESIZE_CUBIC, TD_RESIZE_LINEAR_AA, TD_RESIZE_CUBIC_AA, TD_RESIZE_LANCZOS_AA
} td_resize_mode;

/* Of a gradient, `in` are still the sizes of the operand, which the gradient of the result is spread over. */
typedef struct td_resize_geometry {
    int            dims;
    td_resize_mode mode;
    bool           align_corners;           /* output o lies at o * scale in the input, else at (o + 0.5) * scale - 0.5 */
    td_dtype       dtype;                   /* that positions are computed in: float32 or float64 */
    int64_t        planes;                  /* product of the sizes before the resized ones */
    int64_t        in[3], out[3];
    int64_t        in_total, out_total;     /* of a plane */
    double         scale[3];                /* input positions per output position, as the dtype rounds it */
} td_resize_geometry;

/* ---- padding with elements of the tensor itself */

typedef enum td_padding_mode { TD_PAD_REFLECT, TD_PAD_REPLICATE, TD_PAD_CIRCULAR } td_padding_mode;

typedef struct td_pad_geometry {
    int             dims;
    td_padding_mode mode;
    int64_t         planes;                 /* product of the sizes before the padded ones */
    int64_t         in[3], out[3];
    int64_t         before[3], behind[3];   /* negative ones cut off */
    int64_t         in_total, out_total;    /* of a plane */
} td_pad_geometry;

/* ---- sampling: elements of the result are read at positions that a tensor of coordinates names */

typedef enum td_sample_mode { TD_SAMPLE_LINEAR, TD_SAMPLE_NEAREST, TD_SAMPLE_CUBIC } td_sample_mode;
typedef enum td_sample_outside { TD_OUTSIDE_ZEROS, TD_OUTSIDE_BORDER, TD_OUTSIDE_REFLECTION } td_sample_outside;

typedef struct td_sample_geometry {
    int               dims;
    td_sample_mode    mode;
    td_sample_outside outside;              /* what is read outside of an image */
    bool              align_corners;        /* -1 and 1 are the centres of the outermost elements, else their outer edges */
    td_dtype          dtype;                /* float64 where float32 doesn't do, as that has positions of 32 bits */
    int64_t           batch, channels;
    int64_t           in[3];
    int64_t           in_total, out_total;  /* elements and sampling positions of a channel */
} td_sample_geometry;

/* ---- attention: softmax(scale q k' + mask) v for [batch][heads][length][width] */

typedef struct td_attention_geometry {
    int64_t batch, heads, kv_heads;         /* heads / kv_heads heads of queries share the keys and values of one */
    int64_t queries, keys;
    int64_t width, value_width;             /* of a query and a key; of a value */
    double  scale;
    bool    causal;                         /* query i sees keys 0 to i */
    bool    mask_varies[4];                 /* along batch, heads, queries, keys; else it is the same for all of them */
} td_attention_geometry;

/* ---- recurrent layers: one layer in one direction */

/* The order of the gates' blocks in weights, biases and products is input, forget, cell, output of an LSTM; reset, update, new of a GRU. */
typedef enum td_rnn_mode { TD_RNN_RELU, TD_RNN_TANH, TD_RNN_LSTM, TD_RNN_GRU } td_rnn_mode;

typedef struct td_rnn_geometry {
    td_rnn_mode mode;                       /* from LSTM on, gates are saved for the backward pass */
    int         gates;                      /* 1, 1, 4 and 3 */
    bool        reverse;                    /* from the last step to the first */
    int64_t     steps, rows, width;         /* rows are samples; a state has `width` elements */
} td_rnn_geometry;

#ifdef __cplusplus
}
#endif
#endif
