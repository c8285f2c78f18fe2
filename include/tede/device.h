/* tede/device.h: devices from outside.
 *
 * A device is a table of functions under a name.  How much of it a library fills in decides what the core does for it:
 *
 * - memory and copies (`count alloc free copy`): every operator works, through the CPU: operands are copied there, results are
 *   copied back (td_cpu_fallback, which the device registers for itself if it wants that);
 * - streams and events: work is ordered on streams that programs can make and wait for, and memory is kept for
 *   reuse in the order of the streams, counted and limited;
 * - programs (`build kernel launch`): the core's own kernels for accelerators, written once in a common dialect of C, run on it, and
 *   operators that have no such kernel come to the CPU without being registered;
 * - `product`, `fused_product`, `convolution`, `attention`, `fft`, `factor`: a vendor's library computes them where that is faster.
 *
 * What is worth it gets native kernels, by td_register_impl, td_register_kernel and td_register_boxed for (TD_KEY_DENSE, type).
 *
 * A loadable library exports the table as a symbol:
 *
 *     TD_EXPORT_DEVICE = {
 *         .abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = "toy", .count = count, .start = start,
 *         .alloc = alloc, .free = release, .copy = copy, .synchronize = synchronize,
 *     };
 *
 * td_device_load opens it; from then on "toy:1" names a device.  A library stays loaded until the process ends.  A
 * pointer to a device's memory is only ever handed to the device's own functions; it may be one that nobody can read, but
 * addresses within a block follow its start, as in memory.
 *
 * A device may run its kernels later, in the order of the calls, as long as nobody can tell: copy waits when one end is
 * the CPU, free must not take memory away from what is still to run, synchronize waits for all of it.  An error of
 * a kernel that has run late is reported by the next call that waits. */
#ifndef TEDE_DEVICE_H
#define TEDE_DEVICE_H
#include <stdbool.h>
#include <tede/dispatch.h>
#include <tede/random.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TD_DEVICE_ABI 1
#define TD_DEVICE_SYMBOL "tede_device"
#ifdef __cplusplus
#define TD_EXPORT_DEVICE extern "C" TD_API const td_device_library tede_device
#else
#define TD_EXPORT_DEVICE TD_API const td_device_library tede_device
#endif

/* What a device is.  The core clears it before the device fills it in; 0 stands for "not known". */
typedef struct td_device_properties {
    uint32_t size;                       /* sizeof(td_device_properties): it may grow at the end */
    char     name[128], driver[64];      /* for people; `driver` also tells which built programs still fit */
    uint64_t memory;                     /* bytes in all */
    int      units;                      /* groups of work items that can run at a time */
    int      lanes;                      /* work items that a group should have: a power of two */
    size_t   shared;                     /* bytes of memory that a group has */
    int      dialect;                    /* td_dialect (<tede/formula.h>): what `build` takes */
    bool     doubles;                    /* computes in float64 */
    bool     unified;                    /* shares the CPU's memory */
    int      major, minor;               /* its compute capability, where devices have one */
} td_device_properties;

/* A kernel's argument: `data` points to `size` bytes that are passed by value; or, where size is 0, is an address of the device's.  A kernel
 * has addresses first, then one struct. */
typedef struct td_kernel_argument {
    const void *data;
    size_t      size;
} td_kernel_argument;
/* What `build` makes of a source, for another process: `data` of malloc's, NULL if there is none.  `build` is called with what an earlier
 * call left, of the same source, device and driver, and returns NULL without an error if that doesn't fit. */
typedef struct td_binary {
    void  *data;
    size_t size;
} td_binary;

/* A batch of matrix products, c = alpha * a @ b + beta * c with a of m x k, b of k x n and c of m x n elements of one dtype, float16, bfloat16,
 * float32 or float64.  Strides are in elements; that of the batch may be 0 for a and b.  Sums are at least float32, and so are alpha and beta.
 * Where beta is 0, c isn't read. */
typedef struct td_product_operand {
    void   *data;
    int64_t batch_stride, row_stride, column_stride;
} td_product_operand;
typedef struct td_product {
    uint32_t           size;            /* sizeof(td_product): it may grow at the end */
    td_dtype           dtype;
    int64_t            batch, m, n, k;  /* none is 0 */
    td_product_operand a, b, c;
    double             alpha, beta;
    uint32_t           flags;           /* td_library_flag */
} td_product;

/* Such products with what follows them: c = epilogue(alpha * a @ b + beta * c + bias), where `bias` is NULL or n elements one behind the other, of the same
 * dtype, that are added to each row.  Nothing is rounded in between.  GELU is the one with tanh. */
typedef enum td_epilogue { TD_EPILOGUE_NONE, TD_EPILOGUE_RELU, TD_EPILOGUE_GELU_TANH } td_epilogue;
typedef struct td_fused_product {
    uint32_t    size;                   /* sizeof(td_fused_product): it may grow at the end, as `product` may */
    td_epilogue epilogue;
    const void *bias;
    td_product  product;
} td_fused_product;

/* A convolution of one dtype: y, correlated with w, from x; or one of its gradients, which are also what transposed convolutions are.  All of x is
 * packed, and so are w and y, in one layout: x as [batch][in_channels][in...], y as [batch][out_channels][out...], w as
 * [out_channels][in_channels / groups][window...]; or, channels_last, with the channels (of w: the second dimension) behind the others.  None has 2^31
 * elements, none is empty.  What is computed is overwritten.  Sums are at least float32. */
typedef enum td_convolution_kind { TD_CONVOLUTION_FORWARD, TD_CONVOLUTION_GRAD_INPUT, TD_CONVOLUTION_GRAD_WEIGHT } td_convolution_kind;
typedef struct td_convolution_call {
    uint32_t            size;           /* sizeof(td_convolution_call): it may grow at the end */
    td_dtype            dtype;
    td_convolution_kind kind;           /* y, x or w is computed */
    uint32_t            flags;          /* td_library_flag */
    int                 dims;           /* spatial dimensions, 1 to 3 */
    bool                channels_last;
    int64_t             batch, groups, in_channels, out_channels;
    int64_t             in[3], out[3], window[3], stride[3], padding[3], dilation[3];      /* as far as dims */
    void               *x, *y, *w;
} td_convolution_call;

/* Attention without a mask: out = softmax(scale * q k') v, of float16 or bfloat16 numbers, for each of batch x heads; heads / kv_heads neighbours share keys
 * and values.  q, out and their gradients are [batch][heads][queries][width or value_width], k, v and theirs [batch][kv_heads][keys][...], with the strides of
 * four dimensions, in elements.  lse: float32, [batch][heads][queries] one behind the other, the logarithms of the sums, which are computed forward and read
 * `backward`, where grad is that of out, and dq, dk and dv are computed.  Nothing is empty.  Sums are at least float32. */
typedef struct td_attention_operand {
    void   *data;
    int64_t strides[4];
} td_attention_operand;
typedef struct td_attention_call {
    uint32_t             size;          /* sizeof(td_attention_call): it may grow at the end */
    td_dtype             dtype;
    uint32_t             flags;         /* td_library_flag */
    bool                 backward;
    int64_t              batch, heads, kv_heads, queries, keys, width, value_width;
    double               scale;
    td_attention_operand q, k, v, out, grad, dq, dk, dv;
    float               *lse;
} td_attention_call;

/* Discrete Fourier transforms of `batch` blocks that lie one behind the other, with dimensions of these sizes, none of them 0: of complex numbers (pairs of
 * `dtype`, float32 or float64), of real ones, of which the last dimension's first half (size / 2 + 1 numbers) comes out, or from that to real ones, backward.
 * Nothing is scaled.  C2R may overwrite x; else x and y don't share memory and x stays. */
typedef enum td_fft_kind { TD_FFT_C2C, TD_FFT_R2C, TD_FFT_C2R } td_fft_kind;
typedef struct td_fft_call {
    uint32_t    size;                   /* sizeof(td_fft_call): it may grow at the end */
    td_dtype    dtype;
    td_fft_kind kind;
    bool        forward;                /* the exponent's sign is negative; R2C is always, C2R never */
    int         dims;                   /* 1 to 3 */
    int64_t     sizes[3], batch;
    void       *x, *y;
} td_fft_call;

/* Factorizations of `batch` matrices of m x n numbers, float32 or float64, one behind the other in columns (leading dimension m), none empty.
 *
 *   CHOLESKY  a, whose triangle `upper` or lower is read, becomes that factor; the other triangle may hold anything
 *   LU        a becomes both factors, pivots rows from 1 on, min(m, n) of them
 *   SOLVE     b, n x k, becomes the solution x of a x = b; a is overwritten
 *   QR        a becomes R, in its upper triangle; b, m x k, becomes Q, of which no more than min(m, n) or all m columns are made; k may be 0
 *   EIGH      values become the eigenvalues of a, of which one triangle is read, in ascending order; a the vectors if there are to be `vectors`
 *   SVD       values become the singular values, n of them (m >= n), in descending order; with `vectors` b is U, of m x n or, `full`, m x m, and vt V'
 *
 * info: an int for each matrix, on the device: 0, or which pivot is 0 or not positive, or that it didn't converge. */
typedef enum td_factor_kind { TD_FACTOR_CHOLESKY, TD_FACTOR_LU, TD_FACTOR_SOLVE, TD_FACTOR_QR, TD_FACTOR_EIGH, TD_FACTOR_SVD } td_factor_kind;
typedef struct td_factor_call {
    uint32_t       size;                /* sizeof(td_factor_call): it may grow at the end */
    td_dtype       dtype;
    td_factor_kind kind;
    int64_t        batch, m, n, k;
    bool           upper, vectors, full;
    void          *a, *b, *values, *vt;
    int32_t       *pivots, *info;
} td_factor_call;

/* What programs say about vendors' libraries, for the whole process. */
typedef enum td_library_flag {
    TD_PRODUCT_TF32 = 1,                /* operands of float32 may be rounded to 11 bits before they are multiplied */
    TD_PRODUCT_F16_SUMS = 2,            /* parts of a sum may be added in the operands' dtype: float16 */
    TD_PRODUCT_BF16_SUMS = 4,           /* bfloat16 */
    TD_CONVOLUTION_TF32 = 8,
    TD_CONVOLUTION_OFF = 16,            /* no library: the core's kernels convolve, and attend */
    TD_CONVOLUTION_MEASURE = 32,        /* the first call of a shape tries which way is the fastest */
    TD_CONVOLUTION_DETERMINISTIC = 64,  /* results don't differ from one call to the next */
    TD_LIBRARY_DETERMINISTIC = 128,     /* the same of everything */
    TD_LIBRARY_DEFAULT = TD_PRODUCT_F16_SUMS | TD_PRODUCT_BF16_SUMS | TD_CONVOLUTION_TF32,
} td_library_flag;

/* Which calls of other threads, that would wait or ask, spoil what a stream is recording: of all, of the recording thread alone, or none. */
typedef enum td_graph_mode { TD_GRAPH_GLOBAL, TD_GRAPH_THREAD_LOCAL, TD_GRAPH_RELAXED } td_graph_mode;

/* Functions that fail record an error (td_error, td_fail).  `device` always has an index below count().  Any thread may
 * call any of them, also two at once. */
typedef struct td_device_library {
    uint32_t    abi;                     /* TD_DEVICE_ABI */
    uint32_t    size;                    /* sizeof(td_device_library): what the table that you were built with has */
    const char *name;                    /* letters, digits and underscores, at most 15: "toy" */
    int       (*count)(void);            /* how many there are, 1 to 127 */
    /* Called once, with the number that stands for the device in td_device.type and in registrations; 0 or -1.  NULL:
     * nothing to do. */
    int       (*start)(int type);
    /* `nbytes` (not 0) of memory, aligned for any element; NULL with an error. */
    void     *(*alloc)(td_device device, size_t nbytes);
    void      (*free)(td_device device, void *block, size_t nbytes);
    /* Copy bytes between this device and the CPU, in either direction, or within it, from one index to another too.  When it
     * returns the CPU's memory may be used again. 0 or -1. */
    int       (*copy)(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes);
    /* Wait for all that was asked of one index; 0, or -1 with what went wrong meanwhile.  NULL: nothing is ever late. */
    int       (*synchronize)(int index);

    /* ---- what there is.  From here on all may be NULL, and the table may end at any field. */
    int       (*properties)(int index, td_device_properties *properties);
    int       (*memory_info)(int index, size_t *unused, size_t *total);

    /* ---- memory of the CPU that the device copies from and to by itself (page-locked) */
    void     *(*host_alloc)(size_t nbytes);
    void      (*host_free)(void *block, size_t nbytes);

    /* ---- streams: all three or none.  What is asked of a stream runs in order; NULL stands for the first stream, which an
     * index has from the start.  A device with streams waits in `free` for nothing: the core asks for it when nothing uses the block. */
    void     *(*stream_new)(td_device device, int priority);
    void      (*stream_free)(td_device device, void *stream);
    int       (*stream_synchronize)(td_device device, void *stream);
    /* As `copy`, on a stream of `device`.  `later`: the CPU's end is of host_alloc, or there is none, and the call needn't wait. */
    int       (*transfer)(td_device device, void *stream, td_device to_device, void *to, td_device from_device, const void *from,
                          size_t nbytes, bool later);
    int       (*fill)(td_device device, void *stream, void *to, uint8_t byte, size_t nbytes);

    /* ---- events: places in a stream.  All of them or none. */
    void     *(*event_new)(td_device device, bool timed);
    void      (*event_free)(td_device device, void *event);
    int       (*event_record)(td_device device, void *event, void *stream);
    int       (*event_wait)(td_device device, void *event, void *stream);       /* what the stream is asked for later waits for it */
    int       (*event_synchronize)(td_device device, void *event);              /* the CPU waits */
    int       (*event_query)(td_device device, void *event);                    /* 1: it has happened, 0: not yet, -1 */
    int       (*event_time)(td_device device, void *from, void *to, double *milliseconds);

    /* ---- programs: all of them or none.  See td_kernel_argument. */
    void     *(*build)(td_device device, const char *source, const char *options, td_binary *binary);
    void     *(*kernel)(td_device device, void *program, const char *name);     /* belongs to the program */
    int       (*launch)(td_device device, void *stream, void *kernel, int64_t groups, int lanes, int n_arguments,
                        const td_kernel_argument *arguments);
    void      (*program_free)(td_device device, void *program);

    /* ---- what a vendor's library does faster than the core's kernels; each may be NULL */
    /* 0; 1, with no error recorded and nothing done, where there is no such library or it doesn't take these strides or this dtype: the core's
     * kernel is launched then, or the CPU computes; -1. */
    int       (*product)(td_device device, void *stream, const td_product *product);
    int       (*convolution)(td_device device, void *stream, const td_convolution_call *convolution);
    /* The version of a vendor's library by its name, as the library counts; 0, with no error recorded, if it isn't there. */
    int64_t   (*library_version)(const char *name);
    int       (*fft)(td_device device, void *stream, const td_fft_call *fft);
    int       (*factor)(td_device device, void *stream, const td_factor_call *factor);

    /* ---- graphs: all of them or none */
    /* What a stream is asked for from now on, and what others are that come to wait for an event of it, is recorded and not done, until graph_end
     * returns it (NULL with an error).  Memory may be allocated meanwhile. */
    int       (*graph_begin)(td_device device, void *stream, td_graph_mode mode);
    void     *(*graph_end)(td_device device, void *stream);
    int       (*graph_launch)(td_device device, void *stream, void *graph);
    void      (*graph_free)(td_device device, void *graph);

    /* ---- more of a vendor's library, as `product`; where it isn't there or declines, the core asks for the product alone */
    int       (*fused_product)(td_device device, void *stream, const td_fused_product *product);
    int       (*attention)(td_device device, void *stream, const td_attention_call *attention);
} td_device_library;

/* Load a device from a shared library; its type, or -1 with an error that says what is wrong with it.  A path, or a device's name: the
 * library is then <name>.so in a folder of TEDE_DEVICE_PATH or in the folder tede/ beside this library, where opencl.so and cuda.so are; a device of that
 * name that is loaded already is found again.  PyTorch's names need no call: the first use of "opencl" or "cuda" loads them. */
TD_API int td_device_load(const char *path);
/* The same of a table in this program; it must stay. */
TD_API int td_device_register(const td_device_library *library);

/* Call a function after a device was loaded, by the thread that loaded it; NULL: none any more. */
TD_API void td_device_notify(void (*loaded)(int type));

/* The type of a device by name: 0 for "cpu", ...; -1 if nobody has that name, no error recorded. */
TD_API int td_device_find(const char *name);
/* How many of a type there are: 1 for the CPU, 0 for what isn't loaded. */
TD_API int td_device_count(int type);
/* The index that stands for "no index" on this thread, 0 at first. */
TD_API int td_device_current(int type);
TD_API int td_device_set_current(td_device device) TD_MUST_USE;
/* Give the device an index if it has none; -1 with an error if there is no such device. */
TD_API int td_device_resolve(td_device *device) TD_MUST_USE;
/* Wait for all that was asked of it (index -1: the current one).  Devices that are never late have nothing to wait for.  A program waits before it ends:
 * drivers' threads need what their libraries' destructors take away. */
TD_API int td_device_synchronize(td_device device) TD_MUST_USE;
/* The generator that random operators take on a device when none is given; for the CPU td_default_generator().  Borrowed. */
TD_API td_generator *td_device_generator(td_device device);

/* td_library_flag's, at first TD_LIBRARY_DEFAULT. */
TD_API uint32_t td_library_flags(void);
TD_API void     td_set_library_flags(uint32_t flags);
/* Products, convolutions, transforms and factorizations that vendors' libraries have taken, since the process began. */
TD_API int64_t  td_library_calls(void);
/* Calls that they declined, or that a table's function had no library for: each was then made in another way. */
TD_API int64_t  td_library_declined(void);
/* Folders with `:` between them, for devices that look for vendors' libraries among Python's packages: sys.path.  "" at first; copied. */
TD_API const char *td_search_path(void);
TD_API int         td_set_search_path(const char *folders) TD_MUST_USE;
/* See td_device_library; 0 for a type without vendors' libraries. */
TD_API int64_t  td_device_library_version(int type, const char *name);

/* Of a device that is loaded: what its library says, or what follows from what it has. */
TD_API int td_device_properties_of(td_device device, td_device_properties *properties) TD_MUST_USE;

/* ---- memory
 *
 * Of devices with streams.  Freed blocks are kept and reused on the stream that they were used on: what is asked of it later comes
 * after what used them.  A block that another stream uses must be named to td_stream_uses before it is freed. */
typedef struct td_device_memory {
    uint64_t allocated, peak_allocated;          /* bytes in live blocks */
    uint64_t reserved, peak_reserved;            /* bytes that the device has given */
    uint64_t total_allocated, total_freed;
    uint64_t blocks, segments;                   /* live blocks; pieces of memory that the device has given */
    uint64_t allocations, device_allocations;    /* calls so far */
    uint64_t retries, failures;                  /* requests that had to empty the cache; that failed all the same */
    uint64_t limit;                              /* of `reserved`; 0: none */
    uint64_t peak_blocks, peak_segments, frees, device_frees;
    uint64_t total_reserved, total_returned;     /* bytes that the device has given and got back so far */
} td_device_memory;
TD_API int  td_device_memory_stats(td_device device, td_device_memory *stats) TD_MUST_USE;
TD_API int  td_device_memory_reset_peak(td_device device) TD_MUST_USE;
/* Return blocks that nobody uses to the device. */
TD_API int  td_device_empty_cache(td_device device) TD_MUST_USE;
TD_API int  td_device_set_memory_limit(td_device device, uint64_t bytes) TD_MUST_USE;
TD_API int  td_device_memory_info(td_device device, size_t *unused, size_t *total) TD_MUST_USE;

/* ---- streams and events.  Of devices that have none there is one stream, on which all that is asked is done. */
typedef struct td_stream td_stream;
TD_API td_stream *td_stream_new(td_device device, int priority);
TD_API td_stream *td_stream_retain(td_stream *stream);
/* Its work goes on. */
TD_API void       td_stream_release(td_stream *stream);
/* Borrowed: the one that this thread's calls go to, at first the device's first one. */
TD_API td_stream *td_stream_current(td_device device);
TD_API td_stream *td_stream_first(td_device device);
/* Borrowed: the one that was made after it on its device; NULL behind the last. */
TD_API td_stream *td_stream_next(const td_stream *stream);
/* Where this thread's calls go from now on; not held. */
TD_API int        td_stream_set_current(td_stream *stream) TD_MUST_USE;
TD_API td_device  td_stream_device(const td_stream *stream);
TD_API int64_t    td_stream_id(const td_stream *stream);                        /* 0 for the first one */
TD_API int        td_stream_priority(const td_stream *stream);
TD_API void      *td_stream_handle(const td_stream *stream);                    /* the device's own */
TD_API int        td_stream_synchronize(td_stream *stream) TD_MUST_USE;
TD_API int        td_stream_query(td_stream *stream);                           /* 1: all is done, 0: not yet, -1 */
/* What `stream` is asked for later waits for what `other` has been asked for. */
TD_API int        td_stream_wait(td_stream *stream, td_stream *other) TD_MUST_USE;
/* The tensor's memory is used on the stream, too: when it is freed, it is reused after that. */
TD_API int        td_stream_uses(td_stream *stream, const td_tensor *x) TD_MUST_USE;

typedef struct td_event td_event;
/* `timed`: td_event_time may be asked of it.  It belongs to the index whose stream it is first recorded on. */
TD_API td_event *td_event_new(td_device device, bool timed);
TD_API void      td_event_release(td_event *event);
TD_API int       td_event_record(td_event *event, td_stream *stream) TD_MUST_USE;
/* An event that was never recorded has happened. */
TD_API int       td_event_wait(td_event *event, td_stream *stream) TD_MUST_USE;
TD_API int       td_event_synchronize(td_event *event) TD_MUST_USE;
TD_API int       td_event_query(td_event *event);
TD_API int       td_event_time(td_event *from, td_event *to, double *milliseconds) TD_MUST_USE;

/* ---- graphs: what a stream is asked for, recorded once and launched many times.  Memory that is allocated meanwhile is of a pool of the graph's, at the
 * same addresses at each launch; operands from before must stay where they are.  Random numbers are new ones at each launch.  Nothing may be waited for
 * while a stream records. */
typedef struct td_graph td_graph;
TD_API td_graph *td_graph_new(void);
TD_API void      td_graph_release(td_graph *graph);
/* A number for a pool that several graphs share, which are launched in the order of recording. */
TD_API uint64_t  td_graph_pool_new(void);
/* On the current stream of the device, not its first one.  `pool`: 0, or that of another graph. */
TD_API int       td_graph_begin(td_graph *graph, td_device device, uint64_t pool, td_graph_mode mode) TD_MUST_USE;
TD_API int       td_graph_end(td_graph *graph) TD_MUST_USE;
/* On the current stream of its device. */
TD_API int       td_graph_launch(td_graph *graph) TD_MUST_USE;
/* As new; what it had allocated and nobody holds is used by others. */
TD_API int       td_graph_reset(td_graph *graph) TD_MUST_USE;
TD_API uint64_t  td_graph_pool(const td_graph *graph);                         /* 0 before it recorded */
TD_API bool      td_stream_is_recording(td_stream *stream);

/* ---- the CPU's memory for asynchronous copies.  A storage of it; like any other where the device has no host_alloc. */
TD_API td_storage *td_storage_pinned(td_device device, size_t nbytes);
TD_API bool        td_storage_is_pinned(const td_storage *storage);
/* Return unused page-locked memory to the devices. */
TD_API void        td_pinned_empty_cache(void);

/* A boxed fallback for a device: copies operands to the CPU, calls the operator there, copies back what it wrote and what it
 * gives.  Register it with td_register_fallback(TD_KEY_DENSE, type, td_cpu_fallback, NULL).  Views, allocations and
 * operators that are made of others don't come here: they work on any device. */
TD_API int td_cpu_fallback(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context) TD_MUST_USE;
/* How many calls it has taken, since the process began. */
TD_API int64_t td_cpu_fallback_count(void);

#ifdef __cplusplus
}
#endif
#endif
