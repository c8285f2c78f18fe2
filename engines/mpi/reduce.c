/* Reductions by dtype.  MPI has those of its own types; the standard has no halves, which are added as floats by functions of ours, and no averages, which
 * are sums that are divided afterwards. */
#include <pthread.h>
#include <tede/kernel.h>
#include "mpi.h"

enum { BLOCK = 256 };

/* to = from OP to, in blocks that are converted to floats and rounded once. */
#define HALF(name, dtype, expression)                                                                                        \
    static void name(void *from, void *to, MPI_Count *count, MPI_Datatype *datatype)                                         \
    {                                                                                                                        \
        float a[BLOCK], b[BLOCK];                                                                                            \
        (void)datatype;                                                                                                      \
        for (MPI_Count at = 0; at < *count; at += BLOCK) {                                                                   \
            const int64_t n = *count - at < BLOCK ? *count - at : BLOCK;                                                     \
            td_convert(TD_F32, a, 4, dtype, (uint16_t *)from + at, 2, n);                                                    \
            td_convert(TD_F32, b, 4, dtype, (uint16_t *)to + at, 2, n);                                                      \
            for (int64_t i = 0; i < n; i++)                                                                                  \
                b[i] = (expression);                                                                                         \
            td_convert(dtype, (uint16_t *)to + at, 2, TD_F32, b, 4, n);                                                      \
        }                                                                                                                    \
    }
#define HALVES(suffix, dtype)                                                          \
    HALF(sum_##suffix, dtype, a[i] + b[i])                                             \
    HALF(product_##suffix, dtype, a[i] * b[i])                                         \
    HALF(min_##suffix, dtype, a[i] < b[i] || a[i] != a[i] ? a[i] : b[i])               \
    HALF(max_##suffix, dtype, a[i] > b[i] || a[i] != a[i] ? a[i] : b[i])
HALVES(f16, TD_F16)
HALVES(bf16, TD_BF16)

/* Made at their first use. */
static MPI_Op made[2][4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int half_op(bool bf16, int which, MPI_Op *op)
{
    static MPI_User_function_c *const functions[2][4] = {{sum_f16, product_f16, min_f16, max_f16}, {sum_bf16, product_bf16, min_bf16, max_bf16}};
    pthread_mutex_lock(&lock);
    int status = 0;
    if (!made[bf16][which])
        status = mpi_check(MPI_Op_create_c(functions[bf16][which], 1, &made[bf16][which]), "a reduction of halves");
    *op = made[bf16][which];
    pthread_mutex_unlock(&lock);
    return status;
}

int mpi_reduction(const td_engine_call *call, MPI_Datatype *datatype, MPI_Op *op)
{
    static const MPI_Datatype types[] = {
        [TD_BOOL] = MPI_UINT8_T, [TD_U8] = MPI_UINT8_T, [TD_I8] = MPI_INT8_T, [TD_I16] = MPI_INT16_T, [TD_I32] = MPI_INT32_T, [TD_I64] = MPI_INT64_T,
        [TD_U16] = MPI_UINT16_T, [TD_U32] = MPI_UINT32_T, [TD_U64] = MPI_UINT64_T, [TD_F16] = MPI_UINT16_T, [TD_BF16] = MPI_UINT16_T,
        [TD_F32] = MPI_FLOAT, [TD_F64] = MPI_DOUBLE, [TD_C64] = MPI_C_FLOAT_COMPLEX, [TD_C128] = MPI_C_DOUBLE_COMPLEX};
    static const MPI_Op ops[TD_REDUCTIONS] = {MPI_SUM, MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_SUM};
    static const char *const names[TD_REDUCTIONS] = {"sum", "average", "product", "minimum", "maximum", "bitwise and", "bitwise or", "bitwise xor",
                                                     "multiplied sum"};
    const td_dtype dtype = call->dtype;
    const td_reduction reduction = call->reduction;
    const bool order = reduction == TD_REDUCE_MIN || reduction == TD_REDUCE_MAX;
    if (dtype > TD_C128 || (order && td_dtype_is_complex(dtype)))       /* bitwise ones of other numbers don't come here */
        return td_error(TD_E_TYPE, "%s of %s: there is no such reduction", names[reduction], td_dtype_name(dtype));
    *datatype = types[dtype];
    *op = ops[reduction];
    if (dtype == TD_BOOL)       /* bytes of 0 and 1: a sum is true where one of them is, a product where all are */
        *op = reduction == TD_REDUCE_SUM || reduction == TD_REDUCE_AVG ? MPI_MAX : reduction == TD_REDUCE_PRODUCT ? MPI_MIN : *op;
    if (dtype != TD_F16 && dtype != TD_BF16)
        return 0;
    return half_op(dtype == TD_BF16, reduction == TD_REDUCE_PRODUCT ? 1 : reduction == TD_REDUCE_MIN ? 2 : reduction == TD_REDUCE_MAX ? 3 : 0, op);
}

void mpi_scale(td_dtype dtype, void *data, int64_t n, double factor)
{
    double block[BLOCK];
    if (td_dtype_is_complex(dtype))
        dtype = td_dtype_to_real(dtype), n *= 2;
    const int64_t size = (int64_t)td_dtype_size(dtype);
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t some = n - at < BLOCK ? n - at : BLOCK;
        char *place = (char *)data + at * size;
        td_convert(TD_F64, block, 8, dtype, place, size, some);
        for (int64_t i = 0; i < some; i++)
            block[i] *= factor;
        td_convert(dtype, place, size, TD_F64, block, 8, some);
    }
}
