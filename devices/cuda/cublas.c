/* Products of matrices by cuBLAS and cuBLASLt, where they are installed; without them the core's kernel multiplies.
 *
 * cuBLAS is column-major: what is a matrix in rows here is its transpose there, so c = a @ b is asked for as c' = b' @ a'. */
#include "vendor.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* c' = b' @ a', of which c' lies in columns; false if cuBLAS doesn't take that.  `exchanged`: a product of transposes is asked for, since c lies so. */
typedef struct placed { td_product p; stored a, b, c; int type, compute; bool exchanged, half_sums; } placed;
static bool place(const td_product *given, placed *x)
{
    td_product *p = &x->p;
    *x = (placed){.p = *given, .type = data_type(given->dtype)};
    bool takes = x->type >= 0 && store(&p->c, p->m, p->n, &x->c);
    if (takes && x->c.op == OP_T) {
        const td_product_operand left = transposed(p->b), right = transposed(p->a);
        const int64_t m = p->m;
        p->a = left, p->b = right, p->c = transposed(p->c), p->m = p->n, p->n = m;
        takes = store(&p->c, p->m, p->n, &x->c) && x->c.op == OP_N;
        x->exchanged = true;
    }
    x->half_sums = p->flags & (p->dtype == TD_F16 ? TD_PRODUCT_F16_SUMS : p->dtype == TD_BF16 ? TD_PRODUCT_BF16_SUMS : 0);
    x->compute = p->dtype == TD_F64 ? COMPUTE_64F : p->dtype == TD_F32 && p->flags & TD_PRODUCT_TF32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
    return takes && store(&p->a, p->m, p->k, &x->a) && store(&p->b, p->k, p->n, &x->b) && p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX &&
           p->batch <= INT_MAX;
}
/* Factors as the dtype of sums has them. */
typedef union factor { float f; double d; } factor;
static factor factor_of(const placed *x, double value) { return x->p.dtype == TD_F64 ? (factor){.d = value} : (factor){.f = (float)value}; }

int cuda_product(td_device device, void *stream, const td_product *given)
{
    placed x;
    if (!place(given, &x))
        return 1;
    cuda_handle *h;
    const int begun = cuda_begin(&handles, device.index, stream, &h);
    if (begun)
        return begun;
    const td_product *p = &x.p;
    const factor alpha = factor_of(&x, p->alpha), beta = factor_of(&x, p->beta);
    cublasStatus_t status = cublasSetMathMode(h->of, x.half_sums ? DEFAULT_MATH : DISALLOW_REDUCED_PRECISION_REDUCTION);
    status = status ? status : cublasGemmStridedBatchedEx(
        h->of, x.b.op, x.a.op, (int)p->n, (int)p->m, (int)p->k, &alpha, p->b.data, x.type, (int)x.b.leading, p->b.batch_stride, p->a.data, x.type,
        (int)x.a.leading, p->a.batch_stride, &beta, p->c.data, x.type, (int)x.c.leading, p->c.batch_stride, (int)p->batch, x.compute, DEFAULT_ALGORITHM);
    cuda_put_handle(h);
    return status ? failed("a product", status) : 0;
}

/* ---- cuBLASLt: products with what follows them
 *
 * Which algorithm it takes for a shape is asked for once and kept; descriptors hold a call's addresses, so each call makes its own. */

typedef void *cublasLtHandle_t, *cublasLtMatmulDesc_t, *cublasLtMatrixLayout_t, *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t { cublasLtMatmulAlgo_t algo; size_t workspace; cublasStatus_t state; float waves; int reserved[4]; } cublasLtMatmulHeuristicResult_t;

#define CUBLASLT_FUNCTIONS(F) \
    F(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *)) \
    F(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t)) \
    F(cublasStatus_t, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType)) \
    F(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t)) \
    F(cublasStatus_t, cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t, int, const void *, size_t)) \
    F(cublasStatus_t, cublasLtMatrixLayoutCreate, (cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t)) \
    F(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t)) \
    F(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, (cublasLtMatrixLayout_t, int, const void *, size_t)) \
    F(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *)) \
    F(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t)) \
    F(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, (cublasLtMatmulPreference_t, int, const void *, size_t)) \
    F(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
       cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *, int *)) \
    F(cublasStatus_t, cublasLtMatmul, \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t, const void *, \
       const void *, cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, CUstream))
enum { OF_A_OP = 3, OF_B_OP = 4, OF_EPILOGUE = 7, OF_BIAS = 8, OF_BATCH = 5, OF_BATCH_STRIDE = 6, OF_WORKSPACE = 1, OF_SCHEMES = 3, OF_ALIGNMENT = 5,
       EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32, ANY_SCHEME = 7, SCHEME_OF_SUMS = 2,
       NOT_SUPPORTED = 15, MOST_WORKSPACE = 32 << 20, MOST_ALIGNMENT = 256, BUCKETS = 256 };
CUBLASLT_FUNCTIONS(POINTER)

static cublasStatus_t ignore_stream(void *handle, CUstream stream) { return (void)handle, (void)stream, 0; }
static cublasStatus_t (*no_stream)(void *, CUstream) = ignore_stream;       /* a call has it */
static const cuda_function light_functions[] = {CUBLASLT_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor light = {.name = "cublasLt", .functions = light_functions, .lock = PTHREAD_MUTEX_INITIALIZER};
static cuda_handles light_handles = {.library = &light, .lock = PTHREAD_MUTEX_INITIALIZER, .create = &cublasLtCreate, .set_stream = &no_stream,
                                     .destroy = &cublasLtDestroy, .failed = failed, .what = "a handle"};

/* What tells algorithms apart. */
typedef struct shape {
    int64_t m, n, k, batch, leading[3], strides[3];
    int     index, type, compute, schemes, epilogue, ops[2], alignments[3];
} shape;
typedef struct plan { struct plan *next; shape shape; bool taken; cublasLtMatmulAlgo_t algorithm; size_t workspace; } plan;
static plan *plans[BUCKETS];
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

/* The power of two that an address is a multiple of. */
static int alignment_of(const void *p)
{
    int alignment = MOST_ALIGNMENT;
    while ((uintptr_t)p % (unsigned)alignment)
        alignment /= 2;
    return alignment;
}

static shape shape_of(int index, const placed *x, const td_fused_product *f)
{
    const td_product *p = &x->p;
    shape s;
    memset(&s, 0, sizeof s);
    s.m = p->m, s.n = p->n, s.k = p->k, s.batch = p->batch, s.index = index, s.type = x->type, s.compute = x->compute;
    s.schemes = x->half_sums ? ANY_SCHEME : SCHEME_OF_SUMS;
    s.epilogue = (f->bias ? EPILOGUE_BIAS : 0) | (f->epilogue == TD_EPILOGUE_RELU ? EPILOGUE_RELU : f->epilogue == TD_EPILOGUE_GELU_TANH ? EPILOGUE_GELU : 0);
    s.epilogue = s.epilogue ? s.epilogue : EPILOGUE_DEFAULT;
    s.ops[0] = x->b.op, s.ops[1] = x->a.op;
    for (int i = 0; i < 3; i++) {
        const td_product_operand *o = i == 0 ? &p->b : i == 1 ? &p->a : &p->c;
        s.leading[i] = (i == 0 ? x->b : i == 1 ? x->a : x->c).leading, s.strides[i] = p->batch > 1 ? o->batch_stride : 0, s.alignments[i] = alignment_of(o->data);
    }
    return s;
}

/* b', a' and c' of a call, as cuBLASLt's first, second and third matrix. */
typedef struct described { cublasLtMatmulDesc_t product; cublasLtMatrixLayout_t matrices[3]; } described;
#define THEN(call) status = status ? status : (call)

static cublasStatus_t describe(const shape *s, const void *bias, described *d)
{
    const int32_t ops[2] = {s->ops[0], s->ops[1]}, batch = (int32_t)s->batch;
    const uint32_t epilogue = (uint32_t)s->epilogue;
    cublasStatus_t status = cublasLtMatmulDescCreate(&d->product, s->compute, s->type == R_64F ? R_64F : R_32F);
    THEN(cublasLtMatmulDescSetAttribute(d->product, OF_A_OP, &ops[0], sizeof ops[0]));
    THEN(cublasLtMatmulDescSetAttribute(d->product, OF_B_OP, &ops[1], sizeof ops[1]));
    THEN(cublasLtMatmulDescSetAttribute(d->product, OF_EPILOGUE, &epilogue, sizeof epilogue));
    if (bias)
        THEN(cublasLtMatmulDescSetAttribute(d->product, OF_BIAS, &bias, sizeof bias));
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 1 ? s->k : s->n, columns = i == 0 ? s->k : s->m;
        const bool turned = i < 2 && s->ops[i] == OP_T;
        THEN(cublasLtMatrixLayoutCreate(&d->matrices[i], s->type, (uint64_t)(turned ? columns : rows), (uint64_t)(turned ? rows : columns), s->leading[i]));
        THEN(cublasLtMatrixLayoutSetAttribute(d->matrices[i], OF_BATCH, &batch, sizeof batch));
        THEN(cublasLtMatrixLayoutSetAttribute(d->matrices[i], OF_BATCH_STRIDE, &s->strides[i], sizeof s->strides[i]));
    }
    return status;
}

static void forget(described *d)
{
    for (int i = 0; i < 3; i++)
        if (d->matrices[i])
            cublasLtMatrixLayoutDestroy(d->matrices[i]);
    if (d->product)
        cublasLtMatmulDescDestroy(d->product);
}

static cublasStatus_t choose(cublasLtHandle_t h, const described *d, plan *p)
{
    const size_t workspace = MOST_WORKSPACE;
    const uint32_t schemes = (uint32_t)p->shape.schemes;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    THEN(cublasLtMatmulPreferenceSetAttribute(preference, OF_WORKSPACE, &workspace, sizeof workspace));
    THEN(cublasLtMatmulPreferenceSetAttribute(preference, OF_SCHEMES, &schemes, sizeof schemes));
    for (int i = 0; i < 4; i++) {           /* of the three, and of what is added to, which is the third */
        const uint32_t alignment = (uint32_t)p->shape.alignments[i < 3 ? i : 2];
        THEN(cublasLtMatmulPreferenceSetAttribute(preference, OF_ALIGNMENT + i, &alignment, sizeof alignment));
    }
    THEN(cublasLtMatmulAlgoGetHeuristic(h, d->product, d->matrices[0], d->matrices[1], d->matrices[2], d->matrices[2], preference, 1, &found, &n));
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference);
    p->taken = status == 0 && n > 0 && found.state == 0;
    if (p->taken)
        p->algorithm = found.algo, p->workspace = found.workspace;
    return status == NOT_SUPPORTED ? 0 : status;
}

/* NULL with an error. */
static const plan *plan_of(cublasLtHandle_t h, const shape *s, const described *d)
{
    plan **bucket = &plans[cuda_bucket(s, sizeof *s, BUCKETS)], *p = *bucket;
    while (p && memcmp(&p->shape, s, sizeof *s))
        p = p->next;
    if (p)
        return p;
    if (!(p = calloc(1, sizeof *p)))
        return td_fail(TD_E_MEMORY, "cuda: no memory for a product's plan");
    p->shape = *s;
    const cublasStatus_t status = choose(h, d, p);
    if (status) {
        failed("a product's plan", status);
        free(p);
        return NULL;
    }
    p->next = *bucket;
    return *bucket = p;
}

static int multiply(cuda_handle *h, td_device device, CUstream stream, const placed *x, const shape *s, const described *d)
{
    const factor alpha = factor_of(x, x->p.alpha), beta = factor_of(x, x->p.beta);
    pthread_mutex_lock(&plans_lock);
    const plan *p = plan_of(h->of, s, d);
    pthread_mutex_unlock(&plans_lock);
    td_storage *room = p && p->taken && p->workspace ? td_storage_new(device, p->workspace) : NULL;
    if (p && p->taken && p->workspace && !room) {
        td_error_clear();
        return 1;
    }
    if (!p || !p->taken)
        return p ? 1 : -1;
    const cublasStatus_t status = cublasLtMatmul(h->of, d->product, &alpha, x->p.b.data, d->matrices[0], x->p.a.data, d->matrices[1], &beta, x->p.c.data,
                                                 d->matrices[2], x->p.c.data, d->matrices[2], &p->algorithm, room ? td_storage_data(room) : NULL, p->workspace,
                                                 stream);
    td_storage_release(room);
    return status == NOT_SUPPORTED ? 1 : status ? failed("a product", status) : 0;
}

/* The bias is along the columns' length, so that of a product of transposes isn't taken. */
int cuda_fused_product(td_device device, void *stream, const td_fused_product *f)
{
    placed x;
    if (!place(&f->product, &x) || (x.exchanged && f->bias))
        return 1;
    cuda_handle *h;
    const int begun = cuda_begin(&light_handles, device.index, stream, &h);
    if (begun)
        return begun;
    const shape s = shape_of(device.index, &x, f);
    described d = {0};
    const cublasStatus_t status = describe(&s, f->bias, &d);
    const int result = status ? failed("a product's description", status) : multiply(h, device, stream, &x, &s, &d);
    forget(&d);
    cuda_put_handle(h);
    return result;
}
