/* tede/dispatch.h: how a call finds its kernel.
 *
 * Every tensor carries a set of keys; a call's set is the union of its tensors' sets, with the thread's include
 * and exclude masks applied.  The highest key picks the kernel from the operator's row.  A kernel gets the set, so
 * that it can go on to the next lower key.  Device bits say where, functionality bits say what:
 *
 *   bits  0..11   devices: CPU, Meta, CUDA, OpenCL, then those that are loaded: <tede/device.h>
 *   bits 12..22   layouts: strided, then those that are registered: <tede/layout.h>; each has a slot per device
 *   bit  23       a dtype of a plug-in (td_dtype_register); as a layout
 *   bits 24..36   what happens around a kernel, innermost first */
#ifndef TEDE_DISPATCH_H
#define TEDE_DISPATCH_H
#include <tede/base.h>
#include <tede/tensor.h>
#include <tede/random.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t td_keyset;

typedef enum td_key {
    /* 0..11: td_device_type */
    TD_KEY_DENSE = 12,
    TD_KEY_SPARSE, TD_KEY_COMPRESSED,       /* COO; CSR, CSC, BSR and BSC */
    TD_KEY_NESTED,                          /* jagged, and nested tensors whose parts are strided */
    TD_KEY_QUANTIZED,                       /* strided, with a scale and a zero point */
    TD_KEY_PACKED,                          /* weights of few bits: <tede/packed.h> */
    TD_KEY_LAYOUTS,                         /* the first for layouts that are registered at run time: td_layout_key */
    TD_KEY_DTYPE = 23,                      /* formats (complex32, float8, ...) and all dtypes of plug-ins */
    /* Python's __torch_dispatch__ is the innermost: it sees what the others make of a call. */
    TD_KEY_PYTHON = 24,
    TD_KEY_UNWRAP,                  /* the lower end of a grad or jvp level: <tede/transforms.h> */
    TD_KEY_UNALIGNED,               /* elements lie where their type mustn't be read */
    TD_KEY_NEGATIVE, TD_KEY_CONJUGATE, TD_KEY_AUTOGRAD, TD_KEY_FORWARD_AD,
    TD_KEY_PARTS,                   /* a layout whose operators are calls on its parts, which record the gradients: TD_LAYOUT_BY_PARTS */
    TD_KEY_PROFILER, TD_KEY_TRACING,
    TD_KEY_AUTOCAST, TD_KEY_FUNCTIONALIZE, TD_KEY_TRANSFORMS,
    TD_KEYS = 40, TD_KEY_AROUND = TD_KEY_PYTHON,    /* the first of those that run around kernels */
} td_key;
#define TD_KEYSET(key) ((td_keyset)1 << (key))
#define TD_KEYS_DEVICES (((td_keyset)1 << TD_DEVICE_TYPES) - 1)
#define TD_KEYS_LAYOUTS (TD_KEYSET(TD_KEY_DTYPE) - TD_KEYSET(TD_KEY_DENSE + 1))    /* all but strided */
#define TD_KEYS_CPU    (TD_KEYSET(TD_KEY_DENSE) | TD_KEYSET(TD_CPU))

/* Slots of an operator's row: 16 for bits 24..39, then (layout or dtype) x device. */
enum { TD_SLOTS = 16 + (TD_KEY_AROUND - TD_KEY_DENSE) * TD_DEVICE_TYPES };
static inline int td_key_slot(int functionality, int device)
{
    return functionality >= TD_KEY_AROUND ? functionality - TD_KEY_AROUND
                                            : 16 + (functionality - TD_KEY_DENSE) * TD_DEVICE_TYPES + device;
}

/* ---- values: what a boxed call carries, one per argument of the schema ------------------------------------ */
typedef enum td_value_kind {
    TD_VALUE_NONE, TD_VALUE_TENSOR, TD_VALUE_TENSORS, TD_VALUE_BOOL, TD_VALUE_INT, TD_VALUE_FLOAT, TD_VALUE_SCALAR,
    TD_VALUE_INTS, TD_VALUE_FLOATS, TD_VALUE_BOOLS, TD_VALUE_SCALARS, TD_VALUE_STRING, TD_VALUE_DTYPE,
    TD_VALUE_DEVICE, TD_VALUE_LAYOUT, TD_VALUE_MEMORY_FORMAT, TD_VALUE_GENERATOR,
} td_value_kind;
typedef struct td_value {
    uint8_t kind;
    int32_t count;                   /* of a list */
    union {
        td_tensor        *tensor;    /* Tensor; Tensor? may be TD_NONE */
        td_tensor *const *tensors;   /* Tensor[], Tensor?[] (members may be TD_NONE) */
        int64_t           integer;   /* int, bool, dtype, layout, memory format */
        double            number;
        td_scalar         scalar;
        const int64_t    *ints;
        const double     *numbers;
        const bool       *bools;
        const td_scalar  *scalars;
        const char       *string;
        td_device         device;
        td_generator     *generator;
        void             *geometry;  /* behind the arguments of an implementation, see <tede/spec.h> */
    };
} td_value;
/* An argument that isn't there (int? = None, ...) has kind TD_VALUE_NONE. */

typedef enum td_layout { TD_STRIDED, TD_SPARSE_COO, TD_SPARSE_CSR, TD_SPARSE_CSC, TD_SPARSE_BSR, TD_SPARSE_BSC, TD_JAGGED, TD_PACKED,
                         TD_LAYOUTS_KNOWN,      /* numbers from here on are for those that are registered */
                         TD_LAYOUTS = 32 } td_layout;
typedef enum td_memory_format { TD_CONTIGUOUS_FORMAT, TD_PRESERVE_FORMAT, TD_CHANNELS_LAST, TD_CHANNELS_LAST_3D,
                                TD_MEMORY_FORMAT_NONE = -1 } td_memory_format;

/* ---- operators at run time --------------------------------------------------------------------------------- */
typedef struct td_op td_op;
typedef void (*td_kernel)(void);    /* cast to the operator's own type: result (*)(td_keyset, arguments...) */
/* A kernel for any operator: `arguments` as in the schema, `results` filled with owned references.  0 or -1. */
typedef int td_boxed_kernel(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results,
                            void *context);

/* One argument or result of a schema. */
typedef struct td_arg {
    const char *name;               /* results without one: NULL */
    uint8_t     kind;               /* td_value_kind */
    bool        optional;           /* Tensor?, int[]?, ... */
    bool        keyword_only;
    bool        is_out;             /* of an out= overload; filled by position or name, returned as the result */
    bool        is_mutable;         /* Tensor(a!): written; also results of in-place operators */
    bool        has_default;
    bool        is_updated;         /* written, too, though the type has no (a!): running statistics */
    bool        from_cpu;           /* may be on the CPU while the others are on a device: indices */
    int8_t      list_size;          /* of int[2]: one number stands for so many; else 0 */
    char        alias;              /* Tensor(a): arguments and results of one letter may share memory; else 0 */
    bool        optional_items;     /* Tensor?[]: members of the list may be TD_NONE */
    bool        word_default;       /* reduction=Mean: Python's functions take 0 for a default that is a word, as PyTorch's do */
    td_value    default_value;
} td_arg;

enum {
    TD_OP_FUNCTION = 1,             /* tede.<name> */
    TD_OP_METHOD = 2,               /* Tensor.<name> */
    TD_OP_NN = 4, TD_OP_LINALG = 8, TD_OP_FFT = 16, TD_OP_SPECIAL = 32,   /* where Python finds the function instead */
    TD_OP_INTERNAL = 64,            /* helpers of gradient formulas: only through td_op_find and ops.aten */
    TD_OP_FACTORY = 128,            /* no tensor operand decides the device: takes dtype, device, requires_grad */
    TD_OP_INPLACE = 256, TD_OP_OUT = 512, TD_OP_VIEW = 1024, TD_OP_DATA_DEPENDENT = 2048, TD_OP_DEPRECATED = 4096,
    TD_OP_POINTWISE = 8192,         /* elementwise, of operands that broadcast */
    TD_OP_COMPOSITE = 16384,        /* made of other operators */
    TD_OP_INPLACE_VIEW = 65536,     /* changes what self shows, writes no element: squeeze_, resize_ */
    TD_OP_LINEAR = 32768,           /* its tangent is what it gives of the operands' tangents */
    TD_OP_ANY_DEVICE = 131072,      /* its body allocates and copies, whatever the device: it reads no element itself */
    TD_OP_DETACHES = 524288,        /* a view that is cut off from its operand's history: detach */
    TD_OP_KNOWS_BITS = 1048576,     /* sees to operands whose conjugate or negative isn't computed yet itself: copies do */
    TD_OP_PROMOTES = 2097152,       /* its operands are brought to one dtype, as those of + are */
    TD_OP_MAKES_ZEROS = 4194304,    /* a factory whose elements are zeros, or may be: a layout makes it without elements */
    TD_OP_TAKES_NUMBERS = 8388608,  /* in Python a number may stand for a tensor, and stays one: x + 1 is add.Tensor */
    TD_OP_HEAVY = 16777216,         /* much work per element: a product, an order */
    TD_OP_COPIES = 33554432,        /* gives or writes its operand's elements as they are: clone, _to_copy, copy_ */
    TD_OP_UNINITIALIZED = 67108864, /* a factory that leaves its elements as it finds the memory: empty, empty_like, ... */
    TD_OP_CHECKS_ELEMENTS = 134217728,  /* its kernel refuses what some elements are (an index out of bounds): a region calls it at once */
    TD_OP_COUNTS_WRITES = 262144,   /* its kernel reports whether it counts as a write: resize_ to the same size doesn't */
    TD_OP_TRAITS = TD_OP_PROMOTES | TD_OP_LINEAR | TD_OP_KNOWS_BITS,        /* an operator from outside may have these */
};

/* What an operator does besides computing, where its schema doesn't say it: its entry does, or who defines it at run time. */
typedef enum td_autocast_policy {
    TD_AUTOCAST_AS_IT_IS, TD_AUTOCAST_LOWER_PRECISION, TD_AUTOCAST_FP32,
    TD_AUTOCAST_PROMOTE,            /* to the widest of its operands' dtypes */
    TD_AUTOCAST_NOT,                /* `autocast_devices` alone: as it is, whatever the CPU's policy */
    TD_AUTOCAST_UNSAFE,             /* refused: a loss of probabilities, which half types round to 0 and 1 */
} td_autocast_policy;
typedef struct td_op_traits {
    size_t             size;        /* sizeof(td_op_traits) where it was compiled: it may grow at the end */
    const char        *batch;       /* at vmap levels: "pointwise", "dims(absent_is_all)", ...: <tede/transforms.h>; NULL: a loop */
    td_autocast_policy autocast;
    const char        *tags;        /* words of PyTorch's torch.Tag, with spaces between them; or NULL */
    const char        *names;       /* what becomes of names of dimensions: "reduced", "product", ...; or NULL */
    const char        *flops;       /* how multiplications and additions are counted: "product(self, mat2)", ...; or NULL */
    const char        *shown;       /* what __torch_dispatch__ is passed instead where a tensor was written as a number, "self=rsub.Scalar",
                                       or an argument was left out, "dim=sum"; or NULL */
    const char        *spelled;     /* the name that an argument of the method has in Python, "src=other"; or NULL */
    const char        *decompose;   /* what __torch_dispatch__ sees of a composite: its parts (NULL), itself ("never"), a rule's calls */
    uint32_t           flags;       /* for td_op_set_traits: those of TD_OP_TRAITS that it has, which td_op_info's flags show */
    td_autocast_policy autocast_devices;    /* with operands on a device from outside, if another one than `autocast` */
    uint64_t           moved;       /* formats (a bit per dtype) of operands that kernels only move: called with integers of their size */
    const char        *moved_unless;        /* a bool argument with which they aren't only moved; or NULL */
    uint64_t           widened;     /* formats that it is called with in a wider dtype: complex32 in complex64, float8 in float32 */
    uint64_t           known;       /* formats that its kernels take as they are */
    const char        *undo;        /* of a view: its operand with `src` written through the view, "select_scatter(self, src, dim, index)", by
                                       which functionalize undoes it (i: which of several views); or NULL */
} td_op_traits;

typedef struct td_op_info {
    const char   *name;             /* "add" */
    const char   *overload;         /* "Tensor", or "" */
    const char   *schema;           /* "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" */
    const char   *doc;
    const td_arg *arguments;
    const td_arg *results;
    int16_t       n_arguments, n_results;
    uint32_t      flags;            /* TD_OP_* */
    const char   *alias_of;         /* "aten::mul.Tensor" for multiply.Tensor: the same row under another name; else NULL */
    const char   *space;            /* of td_op_define's: "toy" for toy::scale; NULL means aten */
    const td_op_traits *traits;     /* never NULL */
} td_op_info;

/* An operator by PyTorch's registered name, "aten::add.Tensor"; NULL if there is none. */
TD_API const td_op *td_op_find(const char *name);
TD_API const td_op_info *td_op_describe(const td_op *op);
TD_API int          td_op_count(void);
TD_API const td_op *td_op_at(int index);
/* Call by schema with boxed arguments, through the dispatcher.  Results are owned references.  0 or -1. */
TD_API int td_op_call(const td_op *op, const td_value *arguments, td_value *results) TD_MUST_USE;
/* Drop what results own. */
TD_API void td_values_release(td_value *values, int count);

/* ---- operators from outside ----------------------------------------------------------------------------------
 *
 * An operator that is not among the entries is defined by its schema, "toy::scale(Tensor x, float factor=2) -> Tensor",
 * and gets boxed kernels (below), called by td_op_call.  Types: Tensor, int, float, bool, Scalar, str, ScalarType, Device,
 * Layout, MemoryFormat, Generator, lists T[] and T[n], optional ones T?; Tensor(a!) is written. */

/* The new operator; NULL with an error if the schema can't be read or the name is taken. */
TD_API const td_op *td_op_define(const char *schema);
/* Traits of such an operator, in place of those that it has: none at first, so it shares none with one of aten's of its
 * name.  The struct and its texts are copied; without `batch` that, and the rule at vmap levels, stay what they are.  An error if a
 * word isn't known, or doesn't fit the schema. */
TD_API int  td_op_set_traits(const td_op *op, const td_op_traits *traits) TD_MUST_USE;
/* Take it away: it is no longer found.  Calls that run go on. */
TD_API int  td_op_remove(const td_op *op) TD_MUST_USE;
/* A boxed kernel for all devices and layouts without a specific kernel; NULL takes it away. */
TD_API int  td_register_default(const char *op, td_boxed_kernel *kernel, void *context) TD_MUST_USE;
/* Whether the operator has a specific kernel for a key (fallbacks and defaults don't count). */
TD_API bool td_op_has_kernel(const td_op *op, td_key key, int device);

/* Register an unboxed kernel for one key of one operator (device matters for layout keys only; else pass TD_CPU);
 * NULL takes it away.  Or a boxed one; or a boxed fallback for all operators on a key. */
TD_API int td_register_kernel(const char *op, td_key key, int device, td_kernel kernel) TD_MUST_USE;
TD_API int td_register_boxed(const char *op, td_key key, int device, td_boxed_kernel *kernel, void *context) TD_MUST_USE;
TD_API int td_register_fallback(td_key key, int device, td_boxed_kernel *kernel, void *context) TD_MUST_USE;
/* In a boxed kernel or fallback: go on with the keys below. */
TD_API int td_op_call_keys(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results) TD_MUST_USE;

/* The body of an operator that is made of others (TD_OP_COMPOSITE), whatever kernels it has; -1 with an error if there is
 * none. */
TD_API int td_op_call_composite(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results) TD_MUST_USE;

/* ---- the thread's masks */
typedef struct td_masks { td_keyset include, exclude; } td_masks;
TD_API td_masks td_thread_masks(void);
TD_API void     td_set_thread_masks(td_masks masks);
/* The keys of one tensor. */
TD_API td_keyset td_tensor_keys(const td_tensor *x);
/* Whether a call on x goes straight to a device's kernel: no gradient, transform, watcher or conjugation in between. */
TD_API bool      td_is_plain(const td_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
