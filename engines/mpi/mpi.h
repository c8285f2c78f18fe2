/* MPI as its standard ABI has it (MPI 5.0, libmpi_abi): the handles, constants and functions that are used, by the names of the standard.  Nothing of an
 * MPI is needed to compile this; mpi_open() finds the library when the first group is made. */
#ifndef TEDE_MPI_MPI_H
#define TEDE_MPI_MPI_H
#include <stddef.h>
#include <stdint.h>
#include <tede/group.h>

typedef struct mpi_comm     *MPI_Comm;
typedef struct mpi_group    *MPI_Group;
typedef struct mpi_request  *MPI_Request;
typedef struct mpi_datatype *MPI_Datatype;
typedef struct mpi_op       *MPI_Op;
typedef struct mpi_handler  *MPI_Errhandler;
typedef int64_t  MPI_Count;
typedef intptr_t MPI_Aint;
typedef struct MPI_Status { int MPI_SOURCE, MPI_TAG, MPI_ERROR, reserved[5]; } MPI_Status;
typedef void MPI_User_function_c(void *from, void *to, MPI_Count *count, MPI_Datatype *datatype);

#define MPI_OP_NULL       ((MPI_Op)0x20)
#define MPI_SUM           ((MPI_Op)0x21)
#define MPI_MIN           ((MPI_Op)0x22)
#define MPI_MAX           ((MPI_Op)0x23)
#define MPI_PROD          ((MPI_Op)0x24)
#define MPI_BAND          ((MPI_Op)0x28)
#define MPI_BOR           ((MPI_Op)0x29)
#define MPI_BXOR          ((MPI_Op)0x2a)
#define MPI_COMM_WORLD    ((MPI_Comm)0x101)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL  ((MPI_Request)0x180)
#define MPI_FLOAT         ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX  ((MPI_Datatype)0x212)
#define MPI_DOUBLE        ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x216)
#define MPI_INT8_T        ((MPI_Datatype)0x240)
#define MPI_UINT8_T       ((MPI_Datatype)0x241)
#define MPI_BYTE          ((MPI_Datatype)0x247)
#define MPI_INT16_T       ((MPI_Datatype)0x248)
#define MPI_UINT16_T      ((MPI_Datatype)0x249)
#define MPI_INT32_T       ((MPI_Datatype)0x250)
#define MPI_UINT32_T      ((MPI_Datatype)0x251)
#define MPI_INT64_T       ((MPI_Datatype)0x258)
#define MPI_UINT64_T      ((MPI_Datatype)0x259)
#define MPI_IN_PLACE      ((void *)1)
enum { MPI_SUCCESS = 0, MPI_ANY_SOURCE = -1, MPI_THREAD_MULTIPLE = 4096, MPI_MAX_ERROR_STRING = 512 };

#define COUNTS const MPI_Count *
#define PLACES const MPI_Aint *
#define MPI_FUNCTIONS(F) \
    F(MPI_Init_thread, (int *argc, char ***argv, int required, int *provided)) \
    F(MPI_Finalize, (void)) \
    F(MPI_Initialized, (int *flag)) \
    F(MPI_Comm_rank, (MPI_Comm, int *rank)) \
    F(MPI_Comm_size, (MPI_Comm, int *size)) \
    F(MPI_Comm_group, (MPI_Comm, MPI_Group *)) \
    F(MPI_Comm_create_group, (MPI_Comm, MPI_Group, int tag, MPI_Comm *)) \
    F(MPI_Comm_set_errhandler, (MPI_Comm, MPI_Errhandler)) \
    F(MPI_Group_incl, (MPI_Group, int n, const int *ranks, MPI_Group *)) \
    F(MPI_Group_free, (MPI_Group *)) \
    F(MPI_Error_string, (int code, char *text, int *length)) \
    F(MPI_Reduce_local_c, (const void *, void *, MPI_Count, MPI_Datatype, MPI_Op)) \
    F(MPI_Op_create_c, (MPI_User_function_c *, int commute, MPI_Op *)) \
    F(MPI_Test, (MPI_Request *, int *flag, MPI_Status *)) \
    F(MPI_Cancel, (MPI_Request *)) \
    F(MPI_Request_free, (MPI_Request *)) \
    F(MPI_Allgather, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm)) \
    F(MPI_Ibarrier, (MPI_Comm, MPI_Request *)) \
    F(MPI_Isend_c, (const void *, MPI_Count, MPI_Datatype, int to, int tag, MPI_Comm, MPI_Request *)) \
    F(MPI_Irecv_c, (void *, MPI_Count, MPI_Datatype, int from, int tag, MPI_Comm, MPI_Request *)) \
    F(MPI_Ibcast_c, (void *, MPI_Count, MPI_Datatype, int root, MPI_Comm, MPI_Request *)) \
    F(MPI_Iallreduce_c, (const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *)) \
    F(MPI_Ireduce_c, (const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int root, MPI_Comm, MPI_Request *)) \
    F(MPI_Ireduce_scatter_c, (const void *, void *, COUNTS, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *)) \
    F(MPI_Iallgatherv_c, (const void *, MPI_Count, MPI_Datatype, void *, COUNTS, PLACES, MPI_Datatype, MPI_Comm, MPI_Request *)) \
    F(MPI_Igatherv_c, (const void *, MPI_Count, MPI_Datatype, void *, COUNTS, PLACES, MPI_Datatype, int root, MPI_Comm, MPI_Request *)) \
    F(MPI_Iscatterv_c, (const void *, COUNTS, PLACES, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int root, MPI_Comm, MPI_Request *)) \
    F(MPI_Ialltoallv_c, (const void *, COUNTS, PLACES, MPI_Datatype, void *, COUNTS, PLACES, MPI_Datatype, MPI_Comm, MPI_Request *))
#define DECLARE(name, arguments) extern int (*name) arguments;
MPI_FUNCTIONS(DECLARE)

/* Find the library and look its functions up, once: 0, or -1 with an error. */
int mpi_open(void);
/* 0, or -1 with an error of what MPI's code says. */
int mpi_check(int code, const char *what);
/* Begins to carry MPI's words to the PMI server at "host:port" and back: the descriptor for MPI's end, or -1 with an error. */
int relay_begin(const char *address, int rank);
/* Why MPI can't begin any more; NULL. */
const char *relay_lost(void);
/* The datatype and operation of a reduction; -1 with an error where there is none. `scaled`: what is read or written is multiplied besides. */
int  mpi_reduction(const td_engine_call *call, MPI_Datatype *datatype, MPI_Op *op);
/* Multiply n numbers by a factor, rounded as the dtype is. */
void mpi_scale(td_dtype dtype, void *data, int64_t n, double factor);

/* A call among ranks of one machine, by messages from each to each other.  `from`: by rank, what it is sent; NULL: `to` of this rank, as it is.  With an
 * operation what comes is added: `to` of this rank is its sum, `to` of the others their sums, if these are wanted, else empty.  Without one `to` is where what
 * comes goes, by rank.  `number`: the same on all ranks for a call, another one for each.  NULL with an error. */
typedef struct exchange exchange;
exchange *exchange_begin(MPI_Comm comm, int rank, int size, uint32_t number, int64_t element, const td_part *from, const td_part *to, MPI_Datatype type,
                         MPI_Op op);
/* Moves it on: 1 if it is done, and belongs to free(); 0; -1 with an error, after which MPI may still use its memory. */
int exchange_test(exchange *e);
#endif
