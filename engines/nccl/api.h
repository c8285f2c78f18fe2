/* What is used of NCCL, declared here: nothing of it need be there to compile this, and it is opened at run time.
 *
 * Names, types and numbers are those of NVIDIA's documentation; a test compares them with nccl.h where that is installed. A function is a pointer of
 * its own name. */
#ifndef TEDE_NCCL_API_H
#define TEDE_NCCL_API_H
#include <stddef.h>

#define NCCL_NUMBERS(NUMBER) \
    NUMBER(ncclSuccess, 0) NUMBER(ncclInProgress, 7) \
    NUMBER(ncclInt8, 0) NUMBER(ncclUint8, 1) NUMBER(ncclInt32, 2) NUMBER(ncclUint32, 3) NUMBER(ncclInt64, 4) NUMBER(ncclUint64, 5) \
    NUMBER(ncclFloat16, 6) NUMBER(ncclFloat32, 7) NUMBER(ncclFloat64, 8) NUMBER(ncclBfloat16, 9) \
    NUMBER(ncclSum, 0) NUMBER(ncclProd, 1) NUMBER(ncclMax, 2) NUMBER(ncclMin, 3) NUMBER(ncclAvg, 4) \
    NUMBER(ncclScalarHostImmediate, 1) NUMBER(NCCL_UNIQUE_ID_BYTES, 128)

#define NCCL_FUNCTIONS(F) \
    F(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *)) \
    F(ncclResult_t, ncclCommInitRank, (ncclComm_t *, int, ncclUniqueId, int)) \
    F(ncclResult_t, ncclCommDestroy, (ncclComm_t)) \
    F(ncclResult_t, ncclCommAbort, (ncclComm_t)) \
    F(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *)) \
    F(const char *, ncclGetErrorString, (ncclResult_t)) \
    F(ncclResult_t, ncclRedOpCreatePreMulSum, (ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t)) \
    F(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t, ncclComm_t)) \
    F(ncclResult_t, ncclAllReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclBroadcast, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclAllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclReduceScatter, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclSend, (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclRecv, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)) \
    F(ncclResult_t, ncclGroupStart, (void)) \
    F(ncclResult_t, ncclGroupEnd, (void))

#ifndef TEDE_NCCL_COMPARE               /* with the header, by a test */
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t, ncclScalarResidence_t;
typedef struct ncclComm *ncclComm_t;
typedef struct CUstream_st *cudaStream_t;
#define NCCL_NUMBER(name, number) name = number,
enum { NCCL_NUMBERS(NCCL_NUMBER) NCCL_END };
typedef struct ncclUniqueId { char internal[NCCL_UNIQUE_ID_BYTES]; } ncclUniqueId;
#define NCCL_POINTER(result, name, arguments) extern result (*name) arguments;
NCCL_FUNCTIONS(NCCL_POINTER)
#endif
#endif
