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
 * tensors have elements: those of an empty tensor stand at the end of the range.  Dimensions are always three; what an image or a
 * line lacks comes first, with sizes and steps of 1 and no padding.  So one loop serves all ranks. */
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

#ifdef __cplusplus
}
#endif
#endif
