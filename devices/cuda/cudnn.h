/* What is used of cuDNN 9, declared here, as CUDA's is in api.h; a test compares it with cudnn.h where that is installed. */
#ifndef TEDE_CUDA_CUDNN_H
#define TEDE_CUDA_CUDNN_H
#include <stddef.h>

#define CUDNN_NUMBERS(NUMBER) \
    NUMBER(CUDNN_DATA_FLOAT, 0) NUMBER(CUDNN_DATA_DOUBLE, 1) NUMBER(CUDNN_DATA_HALF, 2) NUMBER(CUDNN_DATA_BFLOAT16, 9) \
    NUMBER(CUDNN_TENSOR_NCHW, 0) NUMBER(CUDNN_TENSOR_NHWC, 1) NUMBER(CUDNN_CROSS_CORRELATION, 1) NUMBER(CUDNN_DETERMINISTIC, 1) \
    NUMBER(CUDNN_DEFAULT_MATH, 0) NUMBER(CUDNN_TENSOR_OP_MATH, 1) NUMBER(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 2) NUMBER(CUDNN_FMA_MATH, 3) \
    NUMBER(CUDNN_STATUS_BAD_PARAM, 2000) NUMBER(CUDNN_STATUS_INTERNAL_ERROR, 4000) \
    NUMBER(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 4003) NUMBER(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 4004)

#define CUDNN_TENSOR const cudnnTensorDescriptor_t
#define CUDNN_FILTER const cudnnFilterDescriptor_t
#define CUDNN_CALL const cudnnConvolutionDescriptor_t
#define CUDNN_FUNCTIONS(F) \
    F(size_t, cudnnGetVersion, (void)) \
    F(const char *, cudnnGetErrorString, (cudnnStatus_t)) \
    F(void, cudnnGetLastErrorString, (char *, size_t)) \
    F(cudnnStatus_t, cudnnCreate, (cudnnHandle_t *)) \
    F(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t)) \
    F(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t, cudaStream_t)) \
    F(cudnnStatus_t, cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t *)) \
    F(cudnnStatus_t, cudnnSetTensorNdDescriptor, (cudnnTensorDescriptor_t, cudnnDataType_t, int, const int *, const int *)) \
    F(cudnnStatus_t, cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t)) \
    F(cudnnStatus_t, cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t)) \
    F(cudnnStatus_t, cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t)) \
    F(cudnnStatus_t, cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t *)) \
    F(cudnnStatus_t, cudnnSetFilterNdDescriptor, (cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int, const int *)) \
    F(cudnnStatus_t, cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t *)) \
    F(cudnnStatus_t, cudnnSetConvolutionNdDescriptor, \
      (cudnnConvolutionDescriptor_t, int, const int *, const int *, const int *, cudnnConvolutionMode_t, cudnnDataType_t)) \
    F(cudnnStatus_t, cudnnSetConvolutionGroupCount, (cudnnConvolutionDescriptor_t, int)) \
    F(cudnnStatus_t, cudnnSetConvolutionMathType, (cudnnConvolutionDescriptor_t, cudnnMathType_t)) \
    F(cudnnStatus_t, cudnnGetConvolutionForwardAlgorithm_v7, \
      (cudnnHandle_t, CUDNN_TENSOR, CUDNN_FILTER, CUDNN_CALL, CUDNN_TENSOR, int, int *, cudnnConvolutionFwdAlgoPerf_t *)) \
    F(cudnnStatus_t, cudnnGetConvolutionBackwardDataAlgorithm_v7, \
      (cudnnHandle_t, CUDNN_FILTER, CUDNN_TENSOR, CUDNN_CALL, CUDNN_TENSOR, int, int *, cudnnConvolutionBwdDataAlgoPerf_t *)) \
    F(cudnnStatus_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7, \
      (cudnnHandle_t, CUDNN_TENSOR, CUDNN_TENSOR, CUDNN_CALL, CUDNN_FILTER, int, int *, cudnnConvolutionBwdFilterAlgoPerf_t *)) \
    F(cudnnStatus_t, cudnnFindConvolutionForwardAlgorithmEx, \
      (cudnnHandle_t, CUDNN_TENSOR, const void *, CUDNN_FILTER, const void *, CUDNN_CALL, CUDNN_TENSOR, void *, int, int *, \
       cudnnConvolutionFwdAlgoPerf_t *, void *, size_t)) \
    F(cudnnStatus_t, cudnnFindConvolutionBackwardDataAlgorithmEx, \
      (cudnnHandle_t, CUDNN_FILTER, const void *, CUDNN_TENSOR, const void *, CUDNN_CALL, CUDNN_TENSOR, void *, int, int *, \
       cudnnConvolutionBwdDataAlgoPerf_t *, void *, size_t)) \
    F(cudnnStatus_t, cudnnFindConvolutionBackwardFilterAlgorithmEx, \
      (cudnnHandle_t, CUDNN_TENSOR, const void *, CUDNN_TENSOR, const void *, CUDNN_CALL, CUDNN_FILTER, void *, int, int *, \
       cudnnConvolutionBwdFilterAlgoPerf_t *, void *, size_t)) \
    F(cudnnStatus_t, cudnnGetConvolutionForwardWorkspaceSize, \
      (cudnnHandle_t, CUDNN_TENSOR, CUDNN_FILTER, CUDNN_CALL, CUDNN_TENSOR, cudnnConvolutionFwdAlgo_t, size_t *)) \
    F(cudnnStatus_t, cudnnGetConvolutionBackwardDataWorkspaceSize, \
      (cudnnHandle_t, CUDNN_FILTER, CUDNN_TENSOR, CUDNN_CALL, CUDNN_TENSOR, cudnnConvolutionBwdDataAlgo_t, size_t *)) \
    F(cudnnStatus_t, cudnnGetConvolutionBackwardFilterWorkspaceSize, \
      (cudnnHandle_t, CUDNN_TENSOR, CUDNN_TENSOR, CUDNN_CALL, CUDNN_FILTER, cudnnConvolutionBwdFilterAlgo_t, size_t *)) \
    F(cudnnStatus_t, cudnnConvolutionForward, \
      (cudnnHandle_t, const void *, CUDNN_TENSOR, const void *, CUDNN_FILTER, const void *, CUDNN_CALL, cudnnConvolutionFwdAlgo_t, void *, \
       size_t, const void *, CUDNN_TENSOR, void *)) \
    F(cudnnStatus_t, cudnnConvolutionBackwardData, \
      (cudnnHandle_t, const void *, CUDNN_FILTER, const void *, CUDNN_TENSOR, const void *, CUDNN_CALL, cudnnConvolutionBwdDataAlgo_t, void *, \
       size_t, const void *, CUDNN_TENSOR, void *)) \
    F(cudnnStatus_t, cudnnConvolutionBackwardFilter, \
      (cudnnHandle_t, const void *, CUDNN_TENSOR, const void *, CUDNN_TENSOR, const void *, CUDNN_CALL, cudnnConvolutionBwdFilterAlgo_t, void *, \
       size_t, const void *, CUDNN_FILTER, void *))

/* A way to compute a convolution: cudnnConvolutionFwdAlgoPerf_t and its two neighbours, which differ in the type of `algo`. */
typedef struct cudnn_way {
    int    algo, status;
    float  time;
    size_t memory;
    int    determinism, mathType, reserved[3];
} cudnn_way;
#define CUDNN_WAY_FIELDS(FIELD) FIELD(algo) FIELD(status) FIELD(time) FIELD(memory) FIELD(determinism) FIELD(mathType) FIELD(reserved)

#ifndef TEDE_CUDA_COMPARE                /* with the header, by a test */
typedef int cudnnStatus_t, cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t, cudnnMathType_t, cudnnConvolutionFwdAlgo_t,
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t;
typedef cudnn_way cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t;
typedef struct CUstream_st *cudaStream_t;
typedef void *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
#define CUDNN_NUMBER(name, number) name = number,
enum { CUDNN_NUMBERS(CUDNN_NUMBER) CUDNN_END };
#endif
#endif
