/* tede/base.h: what every other header leans on: visibility, errors, dtypes, devices, scalars.
 *
 * The library never ends its caller's process and never throws.  A function that fails says so by
 * its result (NULL, or -1 where it returns int) and leaves a message and a code for the thread. */
#ifndef TEDE_BASE_H
#define TEDE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TD_API __attribute__((visibility("default")))
#define TD_MUST_USE __attribute__((warn_unused_result))
#define TD_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TD_API
#define TD_MUST_USE
#define TD_PRINTF(text, first)
#endif

/* ---- errors -------------------------------------------------------------------------------
 *
 * Codes are named after the Python exception that PyTorch raises for the same mistake. */
typedef enum td_code {
    TD_OK = 0,
    TD_E_RUNTIME,         /* RuntimeError: shapes that don't match, impossible requests */
    TD_E_VALUE,           /* ValueError */
    TD_E_TYPE,            /* TypeError */
    TD_E_INDEX,           /* IndexError: a dimension or an index out of range */
    TD_E_NOT_IMPLEMENTED, /* NotImplementedError */
    TD_E_MEMORY,          /* OutOfMemoryError, a RuntimeError */
    TD_E_OVERFLOW,        /* OverflowError */
    TD_E_IO,              /* OSError */
    TD_E_KEY,             /* KeyError */
    TD_E_FOREIGN,         /* a foreign object (a Python exception) travels with the error */
    TD_E_ASSERTION,       /* AssertionError: what PyTorch raises for devices that it isn't built for */
    TD_E_LINALG,          /* LinAlgError, a RuntimeError: a matrix that is singular, not positive-definite, ... */
} td_code;

/* Record an error for this thread, replacing a pending one; printf-style.  td_fail returns NULL and
 * td_error returns -1, so that a check fails in one line whatever the function returns. */
TD_API void *td_fail(td_code code, const char *format, ...) TD_PRINTF(2, 3);
TD_API int   td_error(td_code code, const char *format, ...) TD_PRINTF(2, 3);
/* The pending error of this thread: TD_OK and "" if there is none.  The message is borrowed and
 * valid until the thread's next error or td_error_clear. */
TD_API td_code     td_error_code(void);
TD_API const char *td_error_message(void);
TD_API void        td_error_clear(void);
/* Let a foreign object travel with an error: `drop` is called on it when the error is cleared or
 * replaced.  td_error_take_foreign hands it to the caller (NULL if there is none) and clears. */
TD_API int   td_error_foreign(void *object, void (*drop)(void *), const char *message);
TD_API void *td_error_take_foreign(void);

/* A warning (UserWarning in Python); printf-style.  A handler may turn it into an error: then -1, with the error
 * recorded.  Without a handler it is a line on stderr. */
typedef int td_warning_handler(const char *message, void *context);
TD_API int  td_warn(const char *format, ...) TD_PRINTF(1, 2);
TD_API void td_set_warning_handler(td_warning_handler *handler, void *context);

/* ---- dtypes ------------------------------------------------------------------------------- */

typedef enum td_dtype {
    TD_BOOL, TD_U8, TD_I8, TD_I16, TD_I32, TD_I64, TD_U16, TD_U32, TD_U64,
    TD_F16, TD_BF16, TD_F32, TD_F64, TD_C64, TD_C128,
    /* Formats: what the library stores, moves and converts, and mostly doesn't compute with (docs/formats.md). */
    TD_C32,                 /* complex numbers of two float16: computed as TD_C64 */
    TD_F8_E4M3FN, TD_F8_E5M2, TD_F8_E4M3FNUZ, TD_F8_E5M2FNUZ, TD_F8_E8M0FNU,
    TD_F4_E2M1FN_X2,        /* two in a byte */
    TD_BITS1X8, TD_BITS2X4, TD_BITS4X2, TD_BITS8, TD_BITS16,
    TD_QI8, TD_QU8, TD_QI32, TD_QU4X2, TD_QU2X4,         /* of quantized tensors */
    TD_DTYPE_A, TD_DTYPE_B, TD_DTYPE_C, TD_DTYPE_D,      /* room for those of plug-ins: td_dtype_register */
    TD_DTYPES,              /* how many there can be */
    TD_DTYPE_NONE = -1,     /* an absent optional dtype */
} td_dtype;

/* "float32": PyTorch's name.  Never NULL. */
TD_API const char *td_dtype_name(td_dtype dtype);
/* "Float": the name that PyTorch's error messages use. */
TD_API const char *td_dtype_title(td_dtype dtype);
TD_API size_t      td_dtype_size(td_dtype dtype);
TD_API bool        td_dtype_is_floating(td_dtype dtype);   /* float16 ... float64, float8_..., float4_... */
TD_API bool        td_dtype_is_complex(td_dtype dtype);
TD_API bool        td_dtype_is_integral(td_dtype dtype);   /* integers, without bool */
TD_API bool        td_dtype_is_signed(td_dtype dtype);
TD_API td_dtype    td_dtype_to_real(td_dtype dtype);       /* complex64 -> float32, complex32 -> float16; others as they are */
TD_API td_dtype    td_dtype_to_complex(td_dtype dtype);    /* float32 -> complex64, float16 -> complex32, bfloat16 -> complex64; no integers */
/* The dtype of a result of both, by PyTorch's lattice (torch.promote_types); TD_DTYPE_NONE with an error
 * where PyTorch has none (uint16 with int32, say). */
TD_API td_dtype    td_promote_types(td_dtype a, td_dtype b);
/* float32 unless td_set_default_dtype changed it (process wide, as in PyTorch). */
TD_API td_dtype    td_default_dtype(void);
TD_API int         td_set_default_dtype(td_dtype dtype);

/* A dtype of your own: elements of 1, 2, 4 or 8 bytes that stand for real numbers.  Pointwise operators compute on them in
 * float32, and results are stored in the dtype again; beside another floating dtype that one is the result's.  Copies,
 * conversions, views and printing know it; other operators need kernels of yours under TD_KEY_DTYPE, or say that there is
 * none. */
typedef struct td_dtype_kind {
    const char *name, *title;                           /* "scaled8" in repr, "Scaled8" in messages */
    size_t      size;
    /* Convert n neighbouring elements; called on any thread, and can't fail. */
    void      (*load)(float *to, const void *from, int64_t n);
    void      (*store)(void *to, const float *from, int64_t n);
} td_dtype_kind;
/* The new dtype; TD_DTYPE_NONE with an error if a name is taken, a member is missing or there is no room.  `kind` must
 * stay, there is no way back. */
TD_API td_dtype td_dtype_register(const td_dtype_kind *kind);

/* ---- devices ------------------------------------------------------------------------------ */

typedef enum td_device_type { TD_CPU = 0, TD_META = 1, TD_CUDA = 2, TD_OPENCL = 3, TD_XPU = 4, TD_MPS = 5,
                              TD_HPU = 6, TD_DEVICE_TYPES = 12 } td_device_type;
typedef struct td_device {
    int8_t type;     /* td_device_type, or a number that a loaded device was given; -1: none */
    int8_t index;    /* -1: the current one */
} td_device;
#define TD_DEVICE_NONE ((td_device){-1, -1})
/* "cpu", "cuda:1" into `buffer` (at least 32 bytes); returns it. */
TD_API const char *td_device_str(td_device device, char *buffer);
TD_API int         td_device_parse(td_device *device, const char *text);

/* ---- scalars: one number of Python's kind ----------------------------------------------------- */

typedef enum td_scalar_kind {
    TD_SCALAR_BOOL, TD_SCALAR_INT, TD_SCALAR_FLOAT, TD_SCALAR_COMPLEX, TD_SCALAR_UINT /* beyond int64 */
} td_scalar_kind;
typedef struct td_scalar {
    td_scalar_kind kind;
    union { int64_t i; uint64_t u; double d; };
    double imag;
} td_scalar;

static inline td_scalar td_int(int64_t i)
{
    td_scalar s;
    s.kind = TD_SCALAR_INT, s.i = i, s.imag = 0;
    return s;
}
static inline td_scalar td_float(double d)
{
    td_scalar s;
    s.kind = TD_SCALAR_FLOAT, s.d = d, s.imag = 0;
    return s;
}
static inline td_scalar td_bool(bool b)
{
    td_scalar s;
    s.kind = TD_SCALAR_BOOL, s.i = b, s.imag = 0;
    return s;
}
static inline td_scalar td_complex(double real, double imag)
{
    td_scalar s;
    s.kind = TD_SCALAR_COMPLEX, s.d = real, s.imag = imag;
    return s;
}
/* Conversions as C's: a float is truncated towards zero, a complex loses its imaginary part. */
TD_API double  td_scalar_double(td_scalar s);
TD_API int64_t td_scalar_int(td_scalar s);
TD_API bool    td_scalar_bool(td_scalar s);

/* ---- the processor and its threads ------------------------------------------------------------- */

/* The instruction-set level that kernels are taken from; 0 is the lowest that there are for this architecture.  TEDE_CPU=name forces
 * a lower one: on x86-64 v2, v3 and v4 are known. */
typedef int td_isa;
TD_API td_isa      td_cpu_isa(void);
/* "unknown" if there is no such level. */
TD_API const char *td_isa_name(td_isa isa);
/* How many threads td_parallel_for may use; at first TEDE_NUM_THREADS, OMP_NUM_THREADS or the cores. */
TD_API int  td_num_threads(void);
TD_API int  td_set_num_threads(int n);

/* Call body(context, from, to) over disjoint ranges that cover [begin, end), each a multiple of `grain` long
 * except the last.  The caller takes part; it returns when all are done.  Nested calls run in place.  For results
 * that don't depend on the number of threads, `body` must not depend on how the ranges are cut.  `body` can't
 * fail: what goes wrong in it is recorded in `context`. */
typedef void td_loop_body(void *context, int64_t from, int64_t to);
TD_API void td_parallel_for(int64_t begin, int64_t end, int64_t grain, td_loop_body *body, void *context);
TD_API bool td_in_parallel(void);      /* whether this thread runs a range of td_parallel_for */

#ifdef __cplusplus
}
#undef TD_DEVICE_NONE
#define TD_DEVICE_NONE (td_device{-1, -1})       /* C's compound literals are no C++ */
#endif
#endif
