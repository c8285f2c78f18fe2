/* The part of oneDNN's C API that is used: types, numbers and functions as oneDNN 3 has had them since 3.0, by the names that its
 * documentation has.  Nothing of oneDNN is needed to compile this; dnnl_open() finds the library when it is first needed. */
#ifndef TEDE_ONEDNN_DNNL_H
#define TEDE_ONEDNN_DNNL_H
#include <stddef.h>
#include <stdint.h>

typedef struct dnnl_engine         *dnnl_engine_t;
typedef struct dnnl_stream         *dnnl_stream_t;
typedef struct dnnl_memory_desc    *dnnl_memory_desc_t;
typedef struct dnnl_memory         *dnnl_memory_t;
typedef struct dnnl_primitive_desc *dnnl_primitive_desc_t;
typedef struct dnnl_primitive      *dnnl_primitive_t;
typedef const struct dnnl_memory_desc *md;              /* lent */

typedef struct dnnl_version_t { int major, minor, patch; const char *hash; unsigned cpu_runtime, gpu_runtime; } dnnl_version_t;
typedef struct dnnl_exec_arg_t { int arg; dnnl_memory_t memory; } dnnl_exec_arg_t;

enum { DNNL_MAX_NDIMS = 12 };
enum { DNNL_SUCCESS, DNNL_OUT_OF_MEMORY, DNNL_INVALID_ARGUMENTS, DNNL_UNIMPLEMENTED };
enum { DNNL_CPU = 1, DNNL_IN_ORDER = 1, DNNL_RUNTIME_SYCL = 512 };
enum { DNNL_F16 = 1, DNNL_BF16, DNNL_F32, DNNL_S32, DNNL_S8, DNNL_U8 };
enum { DNNL_FORMAT_ANY = 1 };
enum { DNNL_FORWARD_TRAINING = 64, DNNL_FORWARD_INFERENCE = 96, DNNL_BACKWARD = 128, DNNL_BACKWARD_DATA = 160 };
enum {
    DNNL_CONVOLUTION_DIRECT = 1, DNNL_DECONVOLUTION_DIRECT = 0xa,
    DNNL_RELU = 0x20, DNNL_TANH = 0x21, DNNL_LINEAR = 0x26, DNNL_LOGISTIC = 0x29, DNNL_GELU_ERF = 0x31,
    DNNL_TANH_BY_RESULT = 0x101, DNNL_LOGISTIC_BY_RESULT = 0x104,
    DNNL_POOL_MAX = 0x1ff, DNNL_POOL_AVERAGE_PADDED = 0x2ff, DNNL_POOL_AVERAGE = 0x3ff,
    DNNL_ADD = 0x1fff0, DNNL_MUL = 0x1fff1, DNNL_SOFTMAX = 0x30000,
};
enum { DNNL_ISA_BF16 = 0x27, DNNL_ISA_F16 = 0x1ef };           /* bits that a CPU has for bfloat16, and for float16 */
enum { DNNL_GLOBAL_STATS = 1, DNNL_SCALE = 2, DNNL_SHIFT = 4 };
enum { DNNL_SRC_MD = 129, DNNL_DIFF_SRC_MD, DNNL_WEIGHTS_MD, DNNL_DIFF_WEIGHTS_MD, DNNL_DST_MD, DNNL_DIFF_DST_MD, DNNL_WORKSPACE_MD };
enum {
    DNNL_ARG_SRC = 1, DNNL_ARG_SRC_1 = 2, DNNL_ARG_DST = 17, DNNL_ARG_WEIGHTS = 33, DNNL_ARG_BIAS = 41, DNNL_ARG_MEAN = 49,
    DNNL_ARG_VARIANCE = 50, DNNL_ARG_SCALE = 51, DNNL_ARG_SHIFT = 52, DNNL_ARG_WORKSPACE = 64, DNNL_ARG_DIFF_SRC = 129,
    DNNL_ARG_DIFF_DST = 145, DNNL_ARG_DIFF_WEIGHTS = 161, DNNL_ARG_DIFF_BIAS = 169, DNNL_ARG_DIFF_SCALE = 255, DNNL_ARG_DIFF_SHIFT = 256,
    DNNL_ARG_MULTIPLE_SRC = 1024,
};

/* Those that make a primitive's description have a NULL for attributes as their last argument, and before it, where they are of
 * a backward pass, the description of the forward pass. */
#define PD dnnl_primitive_desc_t *pd, dnnl_engine_t engine
#define DIMS const int64_t *
#define HINT const struct dnnl_primitive_desc *hint, const void *attributes
#define DNNL_FUNCTIONS(F) \
    F(const dnnl_version_t *, dnnl_version, (void)) \
    F(int, dnnl_get_effective_cpu_isa, (void)) \
    F(int, dnnl_engine_create, (dnnl_engine_t *, int kind, size_t index)) \
    F(int, dnnl_stream_create, (dnnl_stream_t *, dnnl_engine_t, unsigned flags)) \
    F(int, dnnl_stream_wait, (dnnl_stream_t)) \
    F(int, dnnl_stream_destroy, (dnnl_stream_t)) \
    F(int, dnnl_memory_desc_create_with_strides, (dnnl_memory_desc_t *, int ndims, DIMS dims, int dtype, DIMS strides)) \
    F(int, dnnl_memory_desc_create_with_tag, (dnnl_memory_desc_t *, int ndims, DIMS dims, int dtype, int tag)) \
    F(int, dnnl_memory_desc_clone, (dnnl_memory_desc_t *, md)) \
    F(int, dnnl_memory_desc_permute_axes, (dnnl_memory_desc_t *, md, const int *permutation)) \
    F(int, dnnl_memory_desc_destroy, (dnnl_memory_desc_t)) \
    F(int, dnnl_memory_desc_equal, (md, md)) \
    F(size_t, dnnl_memory_desc_get_size, (md)) \
    F(int, dnnl_memory_create, (dnnl_memory_t *, md, dnnl_engine_t, void *data)) \
    F(int, dnnl_memory_destroy, (dnnl_memory_t)) \
    F(md, dnnl_primitive_desc_query_md, (const struct dnnl_primitive_desc *, int what, int index)) \
    F(int, dnnl_primitive_desc_destroy, (dnnl_primitive_desc_t)) \
    F(int, dnnl_primitive_create, (dnnl_primitive_t *, const struct dnnl_primitive_desc *)) \
    F(int, dnnl_primitive_execute, (const struct dnnl_primitive *, dnnl_stream_t, int n, const dnnl_exec_arg_t *)) \
    F(int, dnnl_primitive_destroy, (dnnl_primitive_t)) \
    F(int, dnnl_reorder_primitive_desc_create, (dnnl_primitive_desc_t *, md src, dnnl_engine_t, md dst, dnnl_engine_t, const void *attributes)) \
    F(int, dnnl_sum_primitive_desc_create, (PD, md dst, int n, const float *scales, const md *srcs, const void *attributes)) \
    F(int, dnnl_binary_primitive_desc_create, (PD, int algorithm, md, md, md dst, const void *attributes)) \
    F(int, dnnl_eltwise_forward_primitive_desc_create, (PD, int kind, int algorithm, md src, md dst, float, float, const void *attributes)) \
    F(int, dnnl_eltwise_backward_primitive_desc_create, (PD, int algorithm, md diff_src, md diff_dst, md data, float, float, HINT)) \
    F(int, dnnl_softmax_forward_primitive_desc_create, (PD, int kind, int algorithm, md src, md dst, int axis, const void *attributes)) \
    F(int, dnnl_softmax_backward_primitive_desc_create, (PD, int algorithm, md diff_src, md diff_dst, md dst, int axis, HINT)) \
    F(int, dnnl_prelu_forward_primitive_desc_create, (PD, int kind, md src, md weights, md dst, const void *attributes)) \
    F(int, dnnl_prelu_backward_primitive_desc_create, (PD, md src, md weights, md diff_src, md diff_weights, md diff_dst, HINT)) \
    F(int, dnnl_batch_normalization_forward_primitive_desc_create, (PD, int kind, md src, md dst, float epsilon, unsigned flags, \
                                                                    const void *attributes)) \
    F(int, dnnl_batch_normalization_backward_primitive_desc_create, (PD, int kind, md diff_src, md diff_dst, md src, float epsilon, \
                                                                     unsigned flags, HINT)) \
    F(int, dnnl_matmul_primitive_desc_create, (PD, md src, md weights, md bias, md dst, const void *attributes)) \
    F(int, dnnl_pooling_forward_primitive_desc_create, (PD, int kind, int algorithm, md src, md dst, DIMS strides, DIMS kernel, DIMS dilation, \
                                                        DIMS before, DIMS behind, const void *attributes)) \
    F(int, dnnl_pooling_backward_primitive_desc_create, (PD, int algorithm, md diff_src, md diff_dst, DIMS strides, DIMS kernel, DIMS dilation, \
                                                         DIMS before, DIMS behind, HINT)) \
    F(int, dnnl_inner_product_forward_primitive_desc_create, (PD, int kind, md src, md weights, md bias, md dst, const void *attributes)) \
    F(int, dnnl_inner_product_backward_data_primitive_desc_create, (PD, md diff_src, md weights, md diff_dst, HINT)) \
    F(int, dnnl_inner_product_backward_weights_primitive_desc_create, (PD, md src, md diff_weights, md diff_bias, md diff_dst, HINT)) \
    F(int, dnnl_convolution_forward_primitive_desc_create, (PD, int kind, int algorithm, md src, md weights, md bias, md dst, DIMS strides, \
                                                            DIMS dilation, DIMS before, DIMS behind, const void *attributes)) \
    F(int, dnnl_convolution_backward_data_primitive_desc_create, (PD, int algorithm, md diff_src, md weights, md diff_dst, DIMS strides, \
                                                                  DIMS dilation, DIMS before, DIMS behind, HINT)) \
    F(int, dnnl_convolution_backward_weights_primitive_desc_create, (PD, int algorithm, md src, md diff_weights, md diff_bias, md diff_dst, \
                                                                     DIMS strides, DIMS dilation, DIMS before, DIMS behind, HINT)) \
    F(int, dnnl_deconvolution_forward_primitive_desc_create, (PD, int kind, int algorithm, md src, md weights, md bias, md dst, DIMS strides, \
                                                              DIMS dilation, DIMS before, DIMS behind, const void *attributes)) \
    F(int, dnnl_deconvolution_backward_data_primitive_desc_create, (PD, int algorithm, md diff_src, md weights, md diff_dst, DIMS strides, \
                                                                    DIMS dilation, DIMS before, DIMS behind, HINT)) \
    F(int, dnnl_deconvolution_backward_weights_primitive_desc_create, (PD, int algorithm, md src, md diff_weights, md diff_bias, md diff_dst, \
                                                                       DIMS strides, DIMS dilation, DIMS before, DIMS behind, HINT))

/* Hidden: oneDNN calls its own functions by these names, which mustn't find the pointers. */
#define DECLARE(result, name, arguments) extern __attribute__((visibility("hidden"))) result (*name) arguments;
DNNL_FUNCTIONS(DECLARE)
#undef DECLARE
extern dnnl_engine_t dnnl_engine;       /* the CPU */

/* Find oneDNN, once it has been found for good.  0, or -1 with an error that says what to install. */
int dnnl_open(void);
/* Look in a folder, before where the loader looks: NULL, or kept. */
int dnnl_look_in(const char *folder);
/* How many threads oneDNN takes follows tede's setting: before a primitive runs. */
void dnnl_set_threads(int n);
#endif
