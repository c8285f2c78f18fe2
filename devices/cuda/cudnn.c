/* Convolutions by cuDNN, where it is installed; without it the core's kernels convolve.
 *
 * A graph is asked for first (cudnn_graph.c); what it has no plan for, and what is to be measured, goes by the calls of this file, which cuDNN has had
 * since long before its graphs, and still has.  What they are told of a convolution (descriptors), and which of
 * cuDNN's ways is taken, is a plan, made when a shape is first met and kept: a call is a look in a table.  A shape that cuDNN says it doesn't take has
 * a plan, too, which says so.  Memory that a way needs is the core's, of the current stream, on which the call is made: when it is freed, it is reused
 * after what is asked for here. */
#include "cudnn_handles.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>

#define POINTER(result, name, arguments) static result (*name) arguments;
CUDNN_FUNCTIONS(POINTER)

enum { WAYS = 16, BUCKETS = 1024, MOST_MEASURED = 1 << 30 };

typedef cuda_dnn_shape shape;          /* what tells plans apart */
typedef struct plan {
    struct plan                 *next;
    shape                        shape;
    bool                         taken;
    cudnnTensorDescriptor_t      x, y;
    cudnnFilterDescriptor_t      w;
    cudnnConvolutionDescriptor_t convolution;
    int                          algorithm;
    size_t                       workspace;
} plan;

static plan *plans[BUCKETS];
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

int cuda_dnn_failed(const char *what, cudnnStatus_t status)
{
    char more[300] = "";
    cudnnGetLastErrorString(more, sizeof more);
    return td_error(status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED || status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ? TD_E_MEMORY : TD_E_RUNTIME, "cuda: %s failed: %s (%d) %s",
                    what, cudnnGetErrorString(status), (int)status, more);
}

static const cuda_function functions[] = {CUDNN_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor library = {.name = "cudnn", .before = "cublasLt", .major = 9, .functions = functions, .lock = PTHREAD_MUTEX_INITIALIZER};

int64_t cuda_library_version(const char *name)
{
    if (strcmp(name, "cufft") == 0)
        return cuda_fft_version();
    if (strcmp(name, "cudnn") != 0)
        return 0;
    return cuda_has(&library) ? (int64_t)cudnnGetVersion() : 0;
}

cuda_handles cuda_dnn_handles = {.library = &library, .lock = PTHREAD_MUTEX_INITIALIZER, .create = &cudnnCreate, .set_stream = &cudnnSetStream, .destroy = &cudnnDestroy,
                               .failed = cuda_dnn_failed, .what = "a handle of cuDNN (torch.backends.cudnn.enabled = False does without)"};

/* ---- shapes */

static int type_of(td_dtype dtype)
{
    return dtype == TD_F32 ? CUDNN_DATA_FLOAT : dtype == TD_F64 ? CUDNN_DATA_DOUBLE : dtype == TD_F16 ? CUDNN_DATA_HALF : dtype == TD_BF16 ? CUDNN_DATA_BFLOAT16 : -1;
}

static bool shape_of(int index, const td_convolution_call *c, shape *s)
{
    const int more = c->dims < 2;
    const uint32_t flags = TD_CONVOLUTION_MEASURE | TD_CONVOLUTION_DETERMINISTIC | TD_LIBRARY_DETERMINISTIC | (c->dtype == TD_F32 ? TD_CONVOLUTION_TF32 : 0);
    bool fit = c->groups <= INT_MAX;
    memset(s, 0, sizeof *s);
    s->index = index, s->type = type_of(c->dtype), s->kind = c->kind, s->flags = (int)(c->flags & flags), s->last = c->channels_last, s->n = c->dims + more + 2;
    s->x[0] = (int)c->batch, s->x[1] = (int)c->in_channels, s->y[0] = (int)c->batch, s->y[1] = (int)c->out_channels;
    s->w[0] = (int)c->out_channels, s->w[1] = (int)(c->in_channels / c->groups), s->groups = (int)c->groups;
    s->x[2] = s->y[2] = s->w[2] = s->stride[0] = s->dilation[0] = 1;
    for (int d = 0; d < c->dims; d++) {
        fit &= c->stride[d] <= INT_MAX && c->padding[d] >= 0 && c->padding[d] <= INT_MAX && c->dilation[d] <= INT_MAX;
        s->x[2 + more + d] = (int)c->in[d], s->y[2 + more + d] = (int)c->out[d], s->w[2 + more + d] = (int)c->window[d];
        s->stride[more + d] = (int)c->stride[d], s->padding[more + d] = (int)c->padding[d], s->dilation[more + d] = (int)c->dilation[d];
    }
    return fit && s->type >= 0;
}

static cudnnStatus_t describe_tensor(const shape *s, const int *sizes, cudnnTensorDescriptor_t *made)
{
    int strides[5], n = s->last ? sizes[1] : 1;
    strides[1] = 1;
    for (int d = s->n - 1; d >= 0; d--)
        if (!s->last || d != 1)
            strides[d] = n, n *= sizes[d];
    cudnnStatus_t status = cudnnCreateTensorDescriptor(made);
    return status ? status : cudnnSetTensorNdDescriptor(*made, s->type, s->n, sizes, strides);
}

static bool may_round(const shape *s) { return s->type != CUDNN_DATA_FLOAT || s->flags & TD_CONVOLUTION_TF32; }

static cudnnStatus_t describe(plan *p)
{
    const shape *s = &p->shape;
    const int computed = s->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    cudnnStatus_t status = describe_tensor(s, s->x, &p->x);
#define THEN(call) status = status ? status : (call)
    THEN(describe_tensor(s, s->y, &p->y));
    THEN(cudnnCreateFilterDescriptor(&p->w));
    THEN(cudnnSetFilterNdDescriptor(p->w, s->type, s->last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, s->n, s->w));
    THEN(cudnnCreateConvolutionDescriptor(&p->convolution));
    THEN(cudnnSetConvolutionNdDescriptor(p->convolution, s->n - 2, s->padding, s->stride, s->dilation, CUDNN_CROSS_CORRELATION, computed));
    THEN(cudnnSetConvolutionGroupCount(p->convolution, s->groups));
    THEN(cudnnSetConvolutionMathType(p->convolution, s->type == CUDNN_DATA_HALF || s->type == CUDNN_DATA_BFLOAT16 ? CUDNN_TENSOR_OP_MATH
                                                     : may_round(s) ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
    return status;
}

static void forget(plan *p)
{
    if (p->x)
        cudnnDestroyTensorDescriptor(p->x);
    if (p->y)
        cudnnDestroyTensorDescriptor(p->y);
    if (p->w)
        cudnnDestroyFilterDescriptor(p->w);
    if (p->convolution)
        cudnnDestroyConvolutionDescriptor(p->convolution);
}

/* ---- ways to compute a shape */

static cudnnStatus_t ask_for_ways(cudnnHandle_t h, const plan *p, int *n, cudnn_way *ways)
{
    return p->shape.kind == TD_CONVOLUTION_FORWARD ? cudnnGetConvolutionForwardAlgorithm_v7(h, p->x, p->w, p->convolution, p->y, WAYS, n, ways)
         : p->shape.kind == TD_CONVOLUTION_GRAD_INPUT ? cudnnGetConvolutionBackwardDataAlgorithm_v7(h, p->w, p->y, p->convolution, p->x, WAYS, n, ways)
         : cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, p->x, p->y, p->convolution, p->w, WAYS, n, ways);
}
static cudnnStatus_t measure_ways(cudnnHandle_t h, const plan *p, const td_convolution_call *c, int *n, cudnn_way *ways, void *room, size_t bytes)
{
    return c->kind == TD_CONVOLUTION_FORWARD
         ? cudnnFindConvolutionForwardAlgorithmEx(h, p->x, c->x, p->w, c->w, p->convolution, p->y, c->y, WAYS, n, ways, room, bytes)
         : c->kind == TD_CONVOLUTION_GRAD_INPUT
         ? cudnnFindConvolutionBackwardDataAlgorithmEx(h, p->w, c->w, p->y, c->y, p->convolution, p->x, c->x, WAYS, n, ways, room, bytes)
         : cudnnFindConvolutionBackwardFilterAlgorithmEx(h, p->x, c->x, p->y, c->y, p->convolution, p->w, c->w, WAYS, n, ways, room, bytes);
}
static cudnnStatus_t workspace_of(cudnnHandle_t h, const plan *p, int algorithm, size_t *bytes)
{
    return p->shape.kind == TD_CONVOLUTION_FORWARD ? cudnnGetConvolutionForwardWorkspaceSize(h, p->x, p->w, p->convolution, p->y, algorithm, bytes)
         : p->shape.kind == TD_CONVOLUTION_GRAD_INPUT ? cudnnGetConvolutionBackwardDataWorkspaceSize(h, p->w, p->y, p->convolution, p->x, algorithm, bytes)
         : cudnnGetConvolutionBackwardFilterWorkspaceSize(h, p->x, p->y, p->convolution, p->w, algorithm, bytes);
}
static cudnnStatus_t convolve(cudnnHandle_t h, const plan *p, const td_convolution_call *c, void *room)
{
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const void *alpha = c->dtype == TD_F64 ? (const void *)&wide_one : &one, *beta = c->dtype == TD_F64 ? (const void *)&wide_zero : &zero;
    return c->kind == TD_CONVOLUTION_FORWARD
         ? cudnnConvolutionForward(h, alpha, p->x, c->x, p->w, c->w, p->convolution, p->algorithm, room, p->workspace, beta, p->y, c->y)
         : c->kind == TD_CONVOLUTION_GRAD_INPUT
         ? cudnnConvolutionBackwardData(h, alpha, p->w, c->w, p->y, c->y, p->convolution, p->algorithm, room, p->workspace, beta, p->x, c->x)
         : cudnnConvolutionBackwardFilter(h, alpha, p->x, c->x, p->y, c->y, p->convolution, p->algorithm, room, p->workspace, beta, p->w, c->w);
}

/* The ways in the order of the times that they take, each with as much memory as is there up to MOST_MEASURED; as they were if that fails. */
static void measure(cudnnHandle_t h, const plan *p, const td_convolution_call *c, td_device device, int *n, cudnn_way *ways)
{
    size_t bytes = 0;
    cudnn_way measured[WAYS];
    int found = 0;
    for (int i = 0; i < *n; i++)
        if (ways[i].status == 0 && ways[i].memory > bytes && ways[i].memory <= MOST_MEASURED)
            bytes = ways[i].memory;
    td_storage *room = bytes ? td_storage_new(device, bytes) : NULL;
    if (bytes && !room)
        td_error_clear(), bytes = 0;
    if (measure_ways(h, p, c, &found, measured, room ? td_storage_data(room) : NULL, bytes) == 0 && found > 0) {
        memcpy(ways, measured, (size_t)found * sizeof *ways);
        *n = found;
    }
    td_storage_release(room);
}

static cudnnStatus_t choose(cudnnHandle_t h, plan *p, const td_convolution_call *c, td_device device)
{
    cudnn_way ways[WAYS];
    int n = 0;
    const shape *s = &p->shape;
    cudnnStatus_t status = ask_for_ways(h, p, &n, ways);
    if (status == 0 && s->flags & TD_CONVOLUTION_MEASURE)
        measure(h, p, c, device, &n, ways);
    for (int i = 0; i < n && status == 0 && !p->taken; i++) {
        const int math = may_round(s) ? ways[i].mathType : CUDNN_FMA_MATH;
        if (ways[i].status || (s->flags & (TD_CONVOLUTION_DETERMINISTIC | TD_LIBRARY_DETERMINISTIC) && ways[i].determinism != CUDNN_DETERMINISTIC) ||
            (math == CUDNN_FMA_MATH && (ways[i].mathType == CUDNN_TENSOR_OP_MATH || ways[i].mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)))
            continue;
        p->algorithm = ways[i].algo;
        p->taken = cudnnSetConvolutionMathType(p->convolution, math) == 0 && workspace_of(h, p, p->algorithm, &p->workspace) == 0;
    }
    return status;
}

bool cuda_dnn_declined(cudnnStatus_t status) { return status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_INTERNAL_ERROR; }

static plan *plan_of(cudnnHandle_t h, const shape *s, const td_convolution_call *c, td_device device)
{
    plan **bucket = &plans[cuda_bucket(s, sizeof *s, BUCKETS)], *p = *bucket;
    while (p && memcmp(&p->shape, s, sizeof *s))
        p = p->next;
    if (p)
        return p;
    if (!(p = calloc(1, sizeof *p)))
        return td_fail(TD_E_MEMORY, "cuda: no memory for a convolution's plan");
    p->shape = *s;
    cudnnStatus_t status = describe(p);
    status = status ? status : choose(h, p, c, device);
    if (!p->taken)
        forget(p);
    if (status && !cuda_dnn_declined(status)) {
        cuda_dnn_failed("a convolution's plan", status);
        free(p);
        return NULL;
    }
    p->next = *bucket;
    return *bucket = p;
}

static bool aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

/* A product of matrices, which cuBLAS does better where elements are halves: 64 x 256 channels of 32 x 56 x 56 in bfloat16 take 22 us on an H200,
 * and 140 by cuDNN's older calls. */
static bool is_product(const td_convolution_call *c)
{
    bool is = c->groups == 1 && (c->dtype == TD_F16 || c->dtype == TD_BF16);
    for (int d = 0; d < c->dims; d++)
        is &= c->window[d] == 1 && c->stride[d] == 1 && c->padding[d] == 0;
    return is;
}

int cuda_convolution(td_device device, void *stream, const td_convolution_call *c)
{
    shape s;
    if (is_product(c) || !shape_of(device.index, c, &s) || !aligned(c->x) || !aligned(c->y) || !aligned(c->w))
        return 1;
    cuda_handle *h;
    const int begun = cuda_begin(&cuda_dnn_handles, device.index, stream, &h);
    if (begun)
        return begun;
    const int by_graph = cuda_graph_convolution(device, h, &s, c);
    if (by_graph <= 0) {
        cuda_put_handle(h);
        return by_graph;
    }
    pthread_mutex_lock(&plans_lock);
    plan *p = plan_of(h->of, &s, c, device);
    pthread_mutex_unlock(&plans_lock);
    td_storage *room = p && p->taken && p->workspace ? td_storage_new(device, p->workspace) : NULL;
    int result = !p ? -1 : !p->taken ? 1 : 0;
    if (result == 0 && p->workspace && !room) {             /* the core's kernels need none */
        td_error_clear();
        result = 1;
    }
    if (result == 0) {
        cudnnStatus_t status = convolve(h->of, p, c, room ? td_storage_data(room) : NULL);
        result = status == 0 ? 0 : cuda_dnn_declined(status) ? 1 : cuda_dnn_failed("a convolution", status);
    }
    td_storage_release(room);
    cuda_put_handle(h);
    return result;
}
