/* What meta functions and kernels of pooling share: the windows. */
#ifndef TD_OPS_NN_POOL_H
#define TD_OPS_NN_POOL_H
#include "tensor/tensor.h"

/* Always three dimensions; leading ones have size 1. So one loop in src/kernels/cpu/nn/pool.c serves all ranks. */
typedef struct td_windows {
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
    bool adaptive, include_pad;
    int64_t divisor;        /* 0: the window's size */
} td_windows;

/* 0, or -1 with PyTorch's error.  Empty lists stand for the default; one number for all dimensions. */
int td_pool_windows(td_windows *w, const char *op, int dims, int ndim, const int64_t *sizes, int64_t n_kernel,
                    const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding,
                    const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode);
void td_adaptive_windows(td_windows *w, int dims, int ndim, const int64_t *sizes, const int64_t *output);

/* 0, or -1 with the words of PyTorch's checkDimRange. */
int td_check_rank(const char *op, const td_tensor *x, int from, int to);
/* Two results without a dimension of size 1; takes over the references of `wide`. */
int td_squeeze_pair(td_tensor **results, td_tensor **wide, int64_t dim);

/* The elements of dimension d that output o covers: [from, to) in steps; from and to are inside. */
static inline void td_window(const td_windows *w, int d, int64_t o, int64_t *from, int64_t *to)
{
    if (w->adaptive) {
        *from = o * w->in[d] / w->out[d];
        *to = ((o + 1) * w->in[d] + w->out[d] - 1) / w->out[d];
        return;
    }
    int64_t start = o * w->stride[d] - w->pad[d], stop = start + (w->kernel[d] - 1) * w->dilation[d] + 1;
    if (start < 0)      /* the first step inside: padding of many dilations is skipped at once */
        start = w->dilation[d] == 1 ? 0 : start + (w->dilation[d] - 1 - start) / w->dilation[d] * w->dilation[d];
    *from = start, *to = stop < w->in[d] ? stop : w->in[d];
}

/* 0 if the gradient of adaptive pooling ("avg" or "max") has elements. */
int td_check_adaptive_grad(const char *kind, const td_tensor *grad, int dims);

#endif
