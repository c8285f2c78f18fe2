/* Products of matrices by cuBLAS, where it is installed; without it the core's kernel multiplies.
 *
 * cuBLAS is column-major: what is a matrix in rows here is its transpose there, so c = a @ b is asked for as c' = b' @ a'. */
#include "vendor.h"

#include <limits.h>

typedef int cublasStatus_t, cublasOperation_t, cublasComputeType_t, cublasGemmAlgo_t, cublasMath_t, cudaDataType;
typedef void *cublasHandle_t;

#define CUBLAS_FUNCTIONS(F) \
    F(cublasStatus_t, cublasCreate_v2, (cublasHandle_t *)) \
    F(cublasStatus_t, cublasDestroy_v2, (cublasHandle_t)) \
    F(cublasStatus_t, cublasSetStream_v2, (cublasHandle_t, CUstream)) \
    F(cublasStatus_t, cublasSetMathMode, (cublasHandle_t, cublasMath_t)) \
    F(cublasStatus_t, cublasGemmStridedBatchedEx, \
      (cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *, cudaDataType, int, long long, const void *, \
       cudaDataType, int, long long, const void *, void *, cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t))
enum { OP_N = 0, OP_T = 1, COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32F_FAST_TF32 = 77, R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, DEFAULT_ALGORITHM = -1,
       /* The second: parts of a sum are added in float32, whatever the dtype. */
       DEFAULT_MATH = 0, DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };

#define POINTER(result, name, arguments) static result (*name) arguments;
CUBLAS_FUNCTIONS(POINTER)


static int failed(const char *what, cublasStatus_t status)
{
    return td_error(status == 3 ? TD_E_MEMORY : TD_E_RUNTIME, "cuda: %s failed with cuBLAS's error %d", what, (int)status);
}

static const cuda_function functions[] = {CUBLAS_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor library = {.name = "cublas", .functions = functions, .lock = PTHREAD_MUTEX_INITIALIZER};
static cuda_handles handles = {.library = &library, .lock = PTHREAD_MUTEX_INITIALIZER, .create = &cublasCreate_v2, .set_stream = &cublasSetStream_v2,
                               .destroy = &cublasDestroy_v2, .failed = failed, .what = "a handle"};

/* A matrix as cuBLAS takes it. */
typedef struct stored { cublasOperation_t op; int64_t leading; } stored;

/* Of rows x columns elements; false if neither is contiguous.  A stride along one element means nothing. */
static bool store(const td_product_operand *x, int64_t rows, int64_t columns, stored *s)
{
    const int64_t row = rows == 1 ? columns : x->row_stride, column = columns == 1 ? rows : x->column_stride;
    if ((column == 1 || columns == 1) && row >= columns)
        *s = (stored){OP_N, row};
    else if ((row == 1 || rows == 1) && column >= rows)
        *s = (stored){OP_T, column};
    else
        return false;
    return s->leading <= INT_MAX;
}

static td_product_operand transposed(td_product_operand x) { return (td_product_operand){x.data, x.batch_stride, x.column_stride, x.row_stride}; }

static int data_type(td_dtype dtype)
{
    return dtype == TD_F32 ? R_32F : dtype == TD_F64 ? R_64F : dtype == TD_F16 ? R_16F : dtype == TD_BF16 ? R_16BF : -1;
}

int cuda_product(td_device device, void *stream, const td_product *given)
{
    td_product p = *given;
    stored a, b, c;
    const int type = data_type(p.dtype);
    const float alpha = (float)p.alpha, beta = (float)p.beta;
    const bool doubles = p.dtype == TD_F64;
    bool takes = type >= 0 && store(&p.c, p.m, p.n, &c);
    if (takes && c.op == OP_T) {        /* c' = b' @ a' */
        const td_product_operand left = transposed(p.b), right = transposed(p.a);
        const int64_t m = p.m;
        p.a = left, p.b = right, p.c = transposed(p.c), p.m = p.n, p.n = m;
        takes = store(&p.c, p.m, p.n, &c) && c.op == OP_N;
    }
    if (!takes || !store(&p.a, p.m, p.k, &a) || !store(&p.b, p.k, p.n, &b) || p.m > INT_MAX || p.n > INT_MAX || p.k > INT_MAX || p.batch > INT_MAX)
        return 1;
    cuda_handle *h;
    const int begun = cuda_begin(&handles, device.index, stream, &h);
    if (begun)
        return begun;
    const bool half_sums = p.flags & (p.dtype == TD_F16 ? TD_PRODUCT_F16_SUMS : p.dtype == TD_BF16 ? TD_PRODUCT_BF16_SUMS : 0);
    const int compute = doubles ? COMPUTE_64F : p.dtype == TD_F32 && p.flags & TD_PRODUCT_TF32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
    cublasStatus_t status = cublasSetMathMode(h->of, half_sums ? DEFAULT_MATH : DISALLOW_REDUCED_PRECISION_REDUCTION);
    status = status ? status : cublasGemmStridedBatchedEx(
        h->of, b.op, a.op, (int)p.n, (int)p.m, (int)p.k, doubles ? (const void *)&p.alpha : &alpha, p.b.data, type, (int)b.leading, p.b.batch_stride,
        p.a.data, type, (int)a.leading, p.a.batch_stride, doubles ? (const void *)&p.beta : &beta, p.c.data, type, (int)c.leading, p.c.batch_stride,
        (int)p.batch, compute, DEFAULT_ALGORITHM);
    cuda_put_handle(h);
    return status ? failed("a product", status) : 0;
}
