/* What cudnn.c and cudnn_graph.c share: handles, errors, and what tells convolutions apart. */
#ifndef TEDE_CUDA_CUDNN_HANDLES_H
#define TEDE_CUDA_CUDNN_HANDLES_H
#include "cudnn.h"
#include "vendor.h"

/* One spatial dimension is made two. */
typedef struct cuda_dnn_shape {
    int index, type, kind, flags, last, n;                     /* n: all dimensions */
    int x[5], y[5], w[5], stride[3], padding[3], dilation[3], groups;
} cuda_dnn_shape;

extern cuda_handles cuda_dnn_handles;
int  cuda_dnn_failed(const char *what, cudnnStatus_t status);
/* cuDNN says so of what it has no way to compute, and of a shape that it takes for a mistake. */
bool cuda_dnn_declined(cudnnStatus_t status);
/* By a graph: 0; 1 where cuDNN has no plan of one, or where ways are to be measured; -1. */
int  cuda_graph_convolution(td_device device, cuda_handle *handle, const cuda_dnn_shape *shape, const td_convolution_call *call);

#endif
