/* Factorizations of matrices by cuSOLVER, where it is installed; without it the CPU computes them.
 *
 * Matrices of a batch are factored one after the other on the caller's stream.  The workspace comes from the core's allocator, once for all of them. */
#include "vendor.h"

#include <limits.h>

typedef int cusolverStatus_t;
typedef void *cusolverDnHandle_t;
#define H cusolverDnHandle_t
#define FUNCTIONS_OF(F, S, T) \
    F(cusolverStatus_t, cusolverDn##S##potrf_bufferSize, (H, int, int, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##potrf, (H, int, int, T *, int, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##getrf_bufferSize, (H, int, int, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##getrf, (H, int, int, T *, int, T *, int *, int *)) \
    F(cusolverStatus_t, cusolverDn##S##getrs, (H, int, int, int, const T *, int, const int *, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##geqrf_bufferSize, (H, int, int, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##geqrf, (H, int, int, T *, int, T *, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##orgqr_bufferSize, (H, int, int, int, const T *, int, const T *, int *)) \
    F(cusolverStatus_t, cusolverDn##S##orgqr, (H, int, int, int, T *, int, const T *, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##syevd_bufferSize, (H, int, int, int, const T *, int, const T *, int *)) \
    F(cusolverStatus_t, cusolverDn##S##syevd, (H, int, int, int, T *, int, T *, T *, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##gesvd_bufferSize, (H, int, int, int *)) \
    F(cusolverStatus_t, cusolverDn##S##gesvd, (H, signed char, signed char, int, int, T *, int, T *, T *, int, T *, int, T *, int, T *, int *))
#define CUSOLVER_FUNCTIONS(F) \
    F(cusolverStatus_t, cusolverDnCreate, (H *)) \
    F(cusolverStatus_t, cusolverDnDestroy, (H)) \
    F(cusolverStatus_t, cusolverDnSetStream, (H, CUstream)) \
    FUNCTIONS_OF(F, S, float) FUNCTIONS_OF(F, D, double)
enum { ALLOC_FAILED = 2, NOT_TRANSPOSED = 0 };      /* LOWER, UPPER and "no vectors", "vectors" are 0 and 1 */
#define POINTER(result, name, arguments) static result (*name) arguments;
CUSOLVER_FUNCTIONS(POINTER)


static int failed(const char *what, cusolverStatus_t status)
{
    return td_error(status == ALLOC_FAILED ? TD_E_MEMORY : TD_E_RUNTIME, "cuda: %s failed with cuSOLVER's error %d", what, (int)status);
}

/* Its versions are one less than CUDA's: 11 goes with CUDA 12. */
static const cuda_function functions[] = {CUSOLVER_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor library = {.name = "cusolver", .functions = functions, .lock = PTHREAD_MUTEX_INITIALIZER};
static cuda_handles handles = {.library = &library, .lock = PTHREAD_MUTEX_INITIALIZER, .create = &cusolverDnCreate, .set_stream = &cusolverDnSetStream,
                               .destroy = &cusolverDnDestroy, .failed = failed, .what = "a handle of cuSOLVER"};

/* What a call works with: numbers of its workspace, a scalar for each reflector, pivots; and its matrices' sizes as cuSOLVER has them. */
typedef struct room { int m, n, k, least, numbers; size_t reflectors, pivots, bytes; } room;

/* The numbers that cuSOLVER wants, and one matrix; memory is where `at` says. */
#define FACTOR(S, T)                                                                                                                         \
    static cusolverStatus_t size_##S(H h, const td_factor_call *c, room *r)                                                                  \
    {                                                                                                                                        \
        int more = 0;                                                                                                                        \
        cusolverStatus_t status = 0;                                                                                                         \
        switch (c->kind) {                                                                                                                   \
        case TD_FACTOR_CHOLESKY: return cusolverDn##S##potrf_bufferSize(h, c->upper, r->n, c->a, r->n, &r->numbers);                         \
        case TD_FACTOR_LU:                                                                                                                   \
        case TD_FACTOR_SOLVE: return cusolverDn##S##getrf_bufferSize(h, r->m, r->n, c->a, r->m, &r->numbers);                                \
        case TD_FACTOR_EIGH: return cusolverDn##S##syevd_bufferSize(h, c->vectors, c->upper, r->n, c->a, r->n, c->values, &r->numbers);      \
        case TD_FACTOR_SVD: return cusolverDn##S##gesvd_bufferSize(h, r->m, r->n, &r->numbers);                                              \
        default:                                                                                                                             \
            status = cusolverDn##S##geqrf_bufferSize(h, r->m, r->n, c->a, r->m, &r->numbers);                                                \
            if (status == 0 && r->k)                                                                                                         \
                status = cusolverDn##S##orgqr_bufferSize(h, r->m, r->k, r->least, c->b, r->m, c->a, &more);                                  \
            r->numbers = more > r->numbers ? more : r->numbers;                                                                              \
            return status;                                                                                                                   \
        }                                                                                                                                    \
    }                                                                                                                                        \
    static cusolverStatus_t factor_##S(H h, const td_factor_call *c, const room *r, int64_t i, char *at, CUstream stream)                    \
    {                                                                                                                                        \
        const size_t m = (size_t)r->m, n = (size_t)r->n, k = (size_t)r->k, least = (size_t)r->least, of = (size_t)i;                         \
        T *work = (T *)at, *reflectors = (T *)(at + r->reflectors), *a = (T *)c->a + of * m * n, *b = c->b;                                  \
        int *pivots = c->pivots ? c->pivots + of * least : (int *)(at + r->pivots), *info = c->info + i;                                     \
        const int job = c->full ? 'A' : 'S';                                                                                                 \
        cusolverStatus_t status;                                                                                                             \
        switch (c->kind) {                                                                                                                   \
        case TD_FACTOR_CHOLESKY: return cusolverDn##S##potrf(h, c->upper, r->n, a, r->n, work, r->numbers, info);                            \
        case TD_FACTOR_LU: return cusolverDn##S##getrf(h, r->m, r->n, a, r->m, work, pivots, info);                                          \
        case TD_FACTOR_SOLVE:                                                                                                                \
            status = cusolverDn##S##getrf(h, r->n, r->n, a, r->n, work, pivots, info);                                                       \
            return status ? status : cusolverDn##S##getrs(h, NOT_TRANSPOSED, r->n, r->k, a, r->n, pivots, b + of * n * k, r->n, (int *)(at + r->bytes) - 1);   \
        case TD_FACTOR_EIGH:                                                                                                                 \
            return cusolverDn##S##syevd(h, c->vectors, c->upper, r->n, a, r->n, (T *)c->values + of * n, work, r->numbers, info);            \
        case TD_FACTOR_SVD:                                                                                                                  \
            return cusolverDn##S##gesvd(h, (signed char)(c->vectors ? job : 'N'), (signed char)(c->vectors ? job : 'N'), r->m, r->n, a, r->m,                  \
                                        (T *)c->values + of * n, c->vectors ? b + of * m * (c->full ? m : n) : NULL, r->m,                   \
                                        c->vectors ? (T *)c->vt + of * n * n : NULL, r->n, work, r->numbers, NULL, info);                    \
        default:                                                                                                                             \
            status = cusolverDn##S##geqrf(h, r->m, r->n, a, r->m, reflectors, work, r->numbers, info);                                       \
            if (status || !k)                                                                                                                \
                return status;                                                                                                               \
            b += of * m * k;                                                                                                                 \
            if (cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)b, (CUdeviceptr)(uintptr_t)a, m * (k < n ? k : n) * sizeof(T), stream))         \
                return -1;                                                                                                                   \
            return cusolverDn##S##orgqr(h, r->m, r->k, r->least, b, r->m, reflectors, work, r->numbers, info);                               \
        }                                                                                                                                    \
    }
FACTOR(S, float)
FACTOR(D, double)

/* The workspace's parts; the last number of it is a place for an info that nobody reads. */
static void lay_out(const td_factor_call *c, size_t item, room *r)
{
    r->reflectors = (size_t)r->numbers * item;
    r->pivots = r->reflectors + (c->kind == TD_FACTOR_QR ? (size_t)r->least * item : 0);
    r->bytes = r->pivots + (c->kind == TD_FACTOR_SOLVE ? (size_t)r->n * sizeof(int) : 0) + sizeof(int);
}

int cuda_factor(td_device device, void *stream, const td_factor_call *c)
{
    const bool wide = c->dtype == TD_F64;
    room r = {.m = (int)c->m, .n = (int)c->n, .k = (int)c->k, .least = (int)(c->m < c->n ? c->m : c->n)};
    if ((!wide && c->dtype != TD_F32) || c->m > INT_MAX || c->n > INT_MAX || c->k > INT_MAX || (c->kind == TD_FACTOR_SVD && c->m < c->n))
        return 1;
    cuda_handle *h;
    const int begun = cuda_begin(&handles, device.index, stream, &h);
    if (begun)
        return begun;
    cusolverStatus_t status = wide ? size_D(h->of, c, &r) : size_S(h->of, c, &r);
    lay_out(c, wide ? sizeof(double) : sizeof(float), &r);
    td_storage *memory = status ? NULL : td_storage_new(device, r.bytes);
    for (int64_t i = 0; i < c->batch && memory && status == 0; i++)
        status = wide ? factor_D(h->of, c, &r, i, td_storage_data(memory), stream) : factor_S(h->of, c, &r, i, td_storage_data(memory), stream);
    cuda_put_handle(h);
    const int result = status ? failed("a factorization", status) : memory ? 0 : -1;
    td_storage_release(memory);
    return result;
}
