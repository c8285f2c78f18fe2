/* CUDA's driver, NVRTC, cuBLAS, cuDNN, cuFFT and cuSOLVER as far as devices/cuda uses them, NCCL as far as engines/nccl does, on the CPU, for tests where there is no GPU: two devices.
 *
 * The compiler is cc: CUDA C is C here.  What is preprocessed is searched for kernels; each gets a function that takes its arguments as
 * cuLaunchKernel has them, and a string that says which are addresses.  A cubin is a shared library behind a head.  FAKE_CUDA_NVRTC names a
 * real NVRTC, which must compile each text, too.
 *
 * The threads of a block are contexts that run in turn, each up to the next barrier, in both directions alternately, so that a barrier that is
 * missing or isn't reached by all is noticed.
 *
 * Work is done as late as can be: a stream is a queue of operations that run when somebody waits, or asks whether an event has happened.
 * Memory of a device can't be read or written except by operations.  Handles, contexts, addresses and sizes are checked, and
 * errors are made on request: fake_cuda_fail. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int CUresult, CUdevice, nvrtcResult;
typedef unsigned long long CUdeviceptr;
enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100, INVALID_DEVICE, INVALID_IMAGE = 200, INVALID_CONTEXT, NO_BINARY_FOR_GPU = 209,
       INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, PEER_ALREADY = 704, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED,
       CAPTURE_UNJOINED = 904, CAPTURED_EVENT = 907 };
enum { DEVICES = 2, PAGE = 4096, MOST_ARGUMENTS = 64, MOST_LANES = 1024, STACK = 64 << 10 };

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

typedef struct CUgraph_st *CUgraph;

typedef struct operation {
    struct operation *next;
    enum { COPY, FILL, LAUNCH, RECORD, WAIT, PRODUCT, CONVOLUTION, CALL, OTHER, EXCHANGE } kind;
    char             *to, *from, *snapshot;
    size_t            bytes;
    uint8_t           byte;
    CUevent           event;
    uint64_t          serial;
    CUfunction        function;
    unsigned          groups, lanes;
    void             *values[MOST_ARGUMENTS];
    struct { int ta, tb, type, lda, ldb, ldc, m, n, k, batch; long long sa, sb, sc; double alpha, beta; char *a, *b, *c, *bias, *room; int epilogue; size_t bytes; } product;
    struct convolution *convolution;
    void            (*work)(void *), *context;      /* of CALL the context is so many bytes, which are the operation's */
    bool            (*step)(void *);        /* of an exchange with other processes: whether it is over */
} operation;

struct CUctx_st { int device; bool retained, peers[DEVICES], dead, doomed; struct CUstream_st *first; };
/* `capture`: what it records; `joined`: the beginning stream waits for an event behind all that this one was asked for. */
struct CUstream_st { CUstream next; CUcontext context; operation *head, **tail; bool live, joined; CUgraph capture; };
/* Operations in the order of asking.  One that is executable is the same thing. */
struct CUgraph_st { CUstream origin; operation *head, **tail; bool invalid; int mode; pthread_t thread; };
struct CUevent_st { CUcontext context; CUstream stream; uint64_t recorded, done; struct timespec when; bool timed, live; int uses; CUgraph capture; };
struct CUmod_st { CUmodule next; CUcontext context; void *library; bool live; };
struct CUfunc_st { CUfunction next; CUmodule module; void (*call)(void **); void (*set)(unsigned, unsigned, unsigned, unsigned); void (**barrier)(void); const char *kinds; const unsigned *sizes; };

typedef struct block { struct block *next; char *start; size_t bytes, mapped; int device; } block;

/* ---- work.c: memory, and queues of work */

extern pthread_mutex_t fake_lock;       /* recursive */
extern struct CUctx_st fake_contexts[DEVICES];
extern block          *fake_blocks, *fake_pinned;
extern CUstream        fake_streams;
extern size_t          fake_limit;      /* bytes that a device has */
extern _Thread_local CUcontext fake_current;

/* What tests count. */
enum { MEMORY, HOST, STREAMS, EVENTS, MODULES, LAUNCHES, PRODUCTS, COMPILED, HANDLES, MATH, COMPUTE, CONVOLUTIONS, PLANS, MEASURED, DESCRIPTORS, ALGORITHM,
       CONVOLUTION_MATH, TRANSFORMS, TRANSFORM_PLANS, FACTORS, COLLECTIVES, COMMUNICATORS, GRAPHS, GRAPH_LAUNCHES, GRAPH_KERNELS, EPILOGUES, ALGORITHMS, GRAPH_CONVOLUTIONS, ATTENTIONS, COUNTS };
extern long fake_counts[];

/* What each function of the driver begins with: the lock, and the error that it returns at once. */
int  fake_check(const char *function, bool context);
void fake_unlock(int *unused);
#define ENTER(context) \
    __attribute__((cleanup(fake_unlock))) int status = (pthread_mutex_lock(&fake_lock), fake_check(__func__, context)); \
    if (status) \
        return status

block   *fake_block_of(block *list, const void *at, size_t bytes);
CUresult fake_take(block **list, char **start, size_t bytes, int which);
CUresult fake_drop(block **list, const void *start, int which);
/* The address if so many bytes there are a device's (-1: any). */
char    *fake_place(CUdeviceptr p, size_t bytes, int device);

CUstream   fake_add_stream(CUcontext context, CUstream s);
/* The stream that a handle stands for, if it may be used in this context. */
CUstream   fake_stream_of(CUstream s);
operation *fake_ask(CUstream s, int kind);
void       fake_free_operation(operation *o);
/* While a stream records, an error of a call that the driver refuses then, which spoils the graph: of the stream's own, or (NULL) of any that isn't declared
 * harmless. */
CUresult   fake_refused(CUstream s);
void       fake_run_one(CUstream s);
void       fake_run_all(CUstream s);
void       fake_run_context(CUcontext context);
void       fake_drop_event(CUevent event);

double fake_load(int type, const char *p, long long i);
void   fake_store(int type, char *p, long long i, double x);

/* ---- cudnn.c */

/* Sizes and strides of x, y and w: images, channels and up to three dimensions in space. */
typedef struct convolution {
    int   type, kind, groups, sizes[3][5], strides[3][5], padding[3], stride[3], dilation[3];
    char *data[3], *room;
    size_t bytes;
} convolution;
void fake_convolve(const convolution *c);

/* ---- nvrtc.c, driver.c */

/* What a compiled program begins with; the bytes of a shared library follow. */
typedef struct head { char magic[8]; int architecture, ptx; size_t bytes; } head;
char *fake_temporary(const char *end, char *path, size_t size);

#endif
