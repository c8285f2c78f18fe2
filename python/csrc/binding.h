/* Declarations that the files of the extension tede._C share.
 *
 * The binding is driven by tables: dispatch.h describes every operator at run time, and one parser (parser.c) fills
 * the boxed arguments of any of them.  Nothing here is generated.
 *
 *   tensor.c         the Tensor type: wrappers and who owns whom        properties.c   its attributes
 *   methods.c        methods that are no operators                      number.c       + - * ... and comparisons
 *   indexing.c       x[...] and x[...] = v                              parser.c       arguments of operators
 *   operator.c       tede.<name> and Tensor.<name> as objects           results.c      from results to objects
 *   types.c          dtype, device, layout, memory_format, finfo        size.c         Size
 *   factory.c        tensor(), as_tensor()                              interop.c      NumPy, buffers, DLPack
 *   override.c       __torch_function__                                 grad.c         backward, grad, modes
 *   overridable.c    Python functions whose calls it may take over
 *   nodes.c          the graph and hooks                                function.c     autograd.Function
 *   dispatch.c       __torch_dispatch__ and its modes                   boxed.c        kernels in Python
 *   metadata.c       attributes that __torch_dispatch__ is queried for
 *   saved.c          hooks on saved tensors, anomaly mode               edges.c        edges, the running pass
 *   errors.c         errors in both directions
 *   scalar.c         number conversion                                 signature.c    PyTorch's TypeErrors
 *   nnmodule.c       the base of nn.Module                               watch.c        what happens on a thread
 *   environment.c    default device, autocast, the package's name      archive.c      checkpoints' archives, NumPy's files
 *   store.c          stores of tede.distributed
 *   dlpack.c, generator.c, storage.c, module.c  */
#ifndef TEDE_BINDING_H
#define TEDE_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <tede/autograd.h>
#include <tede/autograd_nodes.h>
#include <tede/base.h>
#include <tede/dispatch.h>
#include <tede/foreign.h>
#include <tede/random.h>
#include <tede/tensor.h>
#include <tede/transforms.h>

#define TD_LIKELY(x)   __builtin_expect(!!(x), 1)
#define TD_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- errors.c */
/* Turn the thread's pending error into a Python exception; returns NULL.  Keeps a Python error that is already set. */
void *td_py_raise(void);
/* In the other direction, for callbacks: take the Python error into the core's, with its traceback.  Returns -1. */
int   td_py_capture(void);
/* Drop a reference on any thread: queued where the GIL isn't held. */
void  td_py_drop(void *object);
extern PyObject *td_py_OutOfMemoryError;
int   td_py_errors_init(PyObject *module);

/* ---- items of lists and tuples
 * Python code may run between any two items that are read (an __index__, a property, a destructor), and may change the list. So
 * nothing keeps a pointer into one: an item is taken by its index, which is checked each time, and owned while it is in use. */
static inline void td_py_clear(PyObject **o) { Py_CLEAR(*o); }
#define TD_PY_AUTO __attribute__((cleanup(td_py_clear)))
/* Item i, a new reference; an IndexError if the list is shorter by now. */
static inline PyObject *td_py_item_at(PyObject *list, Py_ssize_t i)
{
    if (TD_UNLIKELY(i >= PySequence_Fast_GET_SIZE(list)))
        return PyErr_Format(PyExc_IndexError, "a list became shorter while it was read");
    return Py_NewRef(PySequence_Fast_GET_ITEM(list, i));
}

/* Sets what `on` is the truth of, and returns what it was. */
typedef bool td_py_switch_function(bool on);
static inline PyObject *td_py_switch(td_py_switch_function *set, PyObject *on)
{
    int is = PyObject_IsTrue(on);
    return is < 0 ? NULL : PyBool_FromLong(set(is));
}

/* ---- tensor.c */
typedef struct TensorObject {
    PyObject_HEAD
    td_tensor *x;             /* counted, or borrowed while x owns the wrapper */
    PyObject  *dict, *weakrefs;
    uint8_t    queries;       /* metadata that its class is queried for instead of x, see metadata.c */
} TensorObject;
void td_py_clear_slots(PyObject *self, PyTypeObject *base);     /* those of classes between the object's and `base` */
extern PyTypeObject td_py_Tensor, td_py_TensorMeta;
extern PyTypeObject *td_py_Parameter;      /* a second exact type; set by tede.nn, until then Tensor itself */

static inline bool td_py_is_exact(PyObject *o)
{
    return Py_TYPE(o) == &td_py_Tensor || Py_TYPE(o) == td_py_Parameter;
}
static inline bool td_py_is_tensor(PyObject *o)
{
    return td_py_is_exact(o) || PyObject_TypeCheck(o, &td_py_Tensor);
}
static inline td_tensor *td_py_x(PyObject *o) { return ((TensorObject *)o)->x; }
/* An object that its class kept when it ended is what it was, but for its count. */
static inline void td_py_revive(PyObject *o, PyTypeObject *type)
{
#if defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
    PyObject_Init(o, type);
#else
    (void)type;
    Py_SET_REFCNT(o, 1);
#endif
}
/* The object of x, whose reference it takes over; NULL raises what is pending. */
PyObject *td_py_wrap(td_tensor *x);
/* Same, made as an instance of `type` if it has no object yet. */
PyObject *td_py_wrap_as(td_tensor *x, PyTypeObject *type);
/* The same of a subclass, with the queries that its objects answer themselves. */
PyObject *td_py_wrap_subclass(td_tensor *x, PyObject *cls, bool requires_grad, int queries);
/* NULL: the TypeError of making a tensor an instance of a class that isn't a Tensor's. */
PyObject *td_py_not_subclass(void);
/* The object of a borrowed x; None if x is NULL or TD_NONE. */
PyObject *td_py_wrap_borrowed(td_tensor *x);
int td_py_tensor_init(PyObject *module);

extern PyGetSetDef     td_py_getset[];     /* properties.c */
extern PyMethodDef     td_py_methods[];    /* methods.c */
extern PyNumberMethods td_py_number;       /* number.c */
extern PyBufferProcs   td_py_buffer;       /* interop.c */
extern PyTypeObject    td_py_Iter;
PyObject *td_py_iter(PyObject *self);
int       td_py_contains(PyObject *self, PyObject *value);
PyObject *td_py_richcompare(PyObject *a, PyObject *b, int how);
int       td_py_number_init(PyObject *module);

/* ---- types.c, size.c */
typedef struct { PyObject_HEAD int code; } EnumObject;      /* dtype, layout, memory_format */
typedef struct { PyObject_HEAD td_device device; } DeviceObject;
extern PyTypeObject td_py_dtype_type, td_py_layout_type, td_py_memory_format_type, td_py_device_type, td_py_Size;
PyObject *td_py_dtype(td_dtype dtype);                      /* borrowed */
PyObject *td_py_layout(int layout);                         /* borrowed */
PyObject *td_py_memory_format(int format);                  /* borrowed */
PyObject *td_py_device(td_device device);                   /* new */
PyObject *td_py_size(int ndim, const int64_t *sizes);       /* new */
PyObject *td_py_long_of_size(int64_t size);                 /* new: an int, or a SymInt */
extern PyTypeObject td_py_SymInt;
/* The base of numbers that stay expressions while a program is traced (tede.fx.experimental.sym_node). The core computes with `_number`. */
extern PyTypeObject td_py_SymNumber;
static inline bool td_py_is_symbolic(PyObject *o) { return TD_UNLIKELY(PyObject_TypeCheck(o, &td_py_SymNumber)); }
PyObject *td_py_number_behind(PyObject *symbolic);
/* A dtype object, or one of Python's types float, int, bool, complex; false if it is neither (no error set). */
bool td_py_as_dtype(PyObject *o, td_dtype *dtype);
bool td_py_as_layout(PyObject *o, int64_t *layout);         /* false: it is none, or, with an exception, one that no tensor has */
/* A device object, a string or a number: 1, 0 if it is none of these, -1 with an error set. */
int  td_py_as_device(PyObject *o, td_device *device);
int  td_py_types_init(PyObject *module);

/* ---- device.c, stream.c */
td_device  td_py_accelerator(void);                         /* the type of the first device that was loaded; the CPU if there is none */
td_tensor *td_py_pinned(td_tensor *x, td_device device);    /* x in page-locked memory of the CPU */
int        td_py_pin_new(td_tensor **x);                    /* the same for what a factory has made, of pin_memory=True; -1 with an exception */
PyObject  *td_py_pin_memory(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);      /* methods of tensors */
PyObject  *td_py_is_pinned(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject  *td_py_record_stream(PyObject *self, PyObject *stream);
int        td_py_stream_init(PyObject *module);
int        td_py_graph_init(PyObject *module);             /* graph.c */
int        td_py_group_init(PyObject *module);             /* group.c */
int  td_py_size_init(PyObject *module);

/* ---- generator.c, storage.c */
typedef struct { PyObject_HEAD td_generator *g; td_device device; PyObject *weakrefs; } GeneratorObject;
extern PyTypeObject td_py_Generator, td_py_Storage;
PyObject *td_py_storage(td_tensor *x);
/* A new vector over a storage's bytes, as far as they make whole elements. */
PyObject *td_py_storage_as_tensor(PyObject *storage, td_dtype dtype);
PyObject *td_py_generator_of(td_generator *g);            /* new; None for NULL */
int td_py_generator_init(PyObject *module);
int td_py_storage_init(PyObject *module);
int td_py_safetensors_init(PyObject *module);             /* safetensors.c */
int td_py_gguf_init(PyObject *module);                    /* gguf.c */
int td_py_archive_init(PyObject *module);                 /* archive.c */
int td_py_store_init(PyObject *module);                   /* store.c */
/* The store of a Store object, which may be one that Python implements: a new reference, NULL with an exception. */
struct td_store *td_py_store_of(PyObject *o);
int td_py_nnmodule_init(PyObject *module);                /* nnmodule.c */
int td_py_watch_init(PyObject *module);                   /* watch.c */

/* ---- interop.c: NumPy without its headers */
bool td_py_is_numpy_array(PyObject *o);
/* A NumPy scalar (numpy.float32(1), numpy.bool_(True), ...), but none that is a Python number too. */
bool td_py_is_numpy_scalar(PyObject *o);
PyObject *td_py_numpy_item(PyObject *o);                    /* the Python number in it */
td_tensor *td_py_from_numpy(PyObject *array);               /* shares memory; warns if that is read-only */
td_tensor *td_py_read_numpy(PyObject *array);               /* shares memory, to be copied from */
td_tensor *td_py_from_dlpack(PyObject *o);
PyObject  *td_py_numpy(PyObject *self, bool force);
/* Whether somebody sees all calls on this thread: a mode by its __torch_dispatch__, or a functionalize level. */
static inline bool td_py_seen(void)
{
    const td_masks masks = td_thread_masks();
    const td_keyset on = masks.include & ~masks.exclude;
    return on & TD_KEYSET(TD_KEY_PYTHON) || (on & TD_KEYSET(TD_KEY_TRANSFORMS) && td_transform_is_open(TD_TRANSFORM_FUNCTIONALIZE));
}
/* A new tensor of a program's numbers (taken over; NULL is passed on), made by an operator if somebody sees calls. */
td_tensor *td_py_lifted(td_tensor *x);
/* td_tensor_item, also of a wrapper subclass: __torch_dispatch__ is passed _local_scalar_dense then. */
int        td_py_item(td_tensor *x, td_scalar *value);
bool       td_py_without_data(td_tensor *x, const char *what);                /* with an error if there is none to read */
int  td_py_interop_init(PyObject *module);
int  td_py_dlpack_init(PyObject *module);
/* Methods that methods.c lists. */
PyObject *td_py_method_numpy(PyObject *self, PyObject *args, PyObject *kw);
PyObject *td_py_method_array(PyObject *self, PyObject *args, PyObject *kw);
PyObject *td_py_method_dlpack(PyObject *self, PyObject *args, PyObject *kw);
PyObject *td_py_method_dlpack_device(PyObject *self, PyObject *unused);

/* ---- environment.c */
extern const char *td_py_package;                       /* what reprs call the package: "tede" or "torch" */
extern _Thread_local td_device td_py_default_device;    /* of new tensors; its type is -1 while there is none */
PyObject *td_py_device_enter(PyObject *self, PyObject *unused);
PyObject *td_py_device_exit(PyObject *self, PyObject *exception);
int td_py_environment_init(PyObject *module);
/* ---- scalar.c, factory.c, methods.c */
/* x with another dtype or on another device (TD_DTYPE_NONE, TD_DEVICE_NONE: as it is), recorded by autograd. */
td_tensor *td_py_to(td_tensor *x, td_dtype dtype, td_device device, bool non_blocking, bool copy, int format);
td_tensor *td_py_copy(td_tensor *x);
/* x with its elements as they lie in memory: itself, or a copy if it is a conjugate or negative one; NULL with an exception. */
td_tensor *td_py_resolved(td_tensor *x);
/* A Python or NumPy number (with bool), or a 0-dim tensor without gradient if `tensors`: 1, 0 if it is none, -1. */
int td_py_as_scalar(PyObject *o, td_scalar *value, bool tensors);
/* An int or what has __index__ (no bool unless `bools`, no array), or a 0-dim integer tensor: 1, 0, -1. */
int td_py_as_int(PyObject *o, int64_t *value, bool bools);
/* The same of an operator's argument or a member of a list, which may be a 0-dim array of NumPy's, or any tensor of one integer, too. */
int td_py_as_size(PyObject *o, int64_t *value);
PyObject *td_py_number_of(td_scalar value);                 /* new Python number */
int td_py_factory_init(PyObject *module);
PyObject *td_py_tolist(td_tensor *x);
/* Where the elements of x are, once they are computed; -1 with an exception set where that fails. */
int td_py_address(td_tensor *x, void **address);
/* tensor(data): new memory always. */
td_tensor *td_py_tensor_from_data(PyObject *data, td_dtype dtype, td_device device);
int td_py_require_grad(td_tensor *x);      /* as a factory's keyword; -1 with an exception set */
PyObject *td_py_new_tensor(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* ---- operators called from here
 * One that is known when this is compiled is called by its typed function (calls_csrc_<file>.h declares it), one that is only known
 * when the program runs by operator.c with boxed values.  Both kinds of calls go through the dispatcher, and both release the lock for long
 * work: other threads may then exchange what objects have, so tensors that the call reads are owned by who makes it.  They are owned in
 * short calls, too, once code of the program's may run inside of operators (saved-tensor hooks, modes, subclasses with their own dispatch,
 * kernels in Python): it may do the same. */
enum { TD_PY_CALLS_BACK = 1, TD_PY_REGIONS = 2 };               /* some of that may run; some thread is in a region */
extern int td_py_heeds;                                         /* what calls heed beside: zero in the normal case */
enum { TD_PY_LONG = 1 << 16, TD_PY_LONG_HEAVY = 1 << 11 };      /* elements, for light work per element and for heavy */
/* How a call is made: its tensors owned, the lock released, which implies the former. Not released in a region, whose calls are recorded; what other
 * threads' regions have recorded is computed before. */
enum { TD_PY_OWN = 1, TD_PY_RELEASE = 2 };
int td_py_heed(bool is_long);
static inline int td_py_way(bool is_long) { return TD_UNLIKELY(is_long | td_py_heeds) ? td_py_heed(is_long) : 0; }
#define TD_PY_WORK(is_long, call) TD_PY_WORK_BY(td_py_way(is_long), call)
#define TD_PY_WORK_BY(way, call)                                                                   \
    do {                                                                                           \
        if (TD_UNLIKELY((way) & TD_PY_RELEASE)) {                                                  \
            Py_BEGIN_ALLOW_THREADS call;                                                           \
            Py_END_ALLOW_THREADS                                                                   \
        } else {                                                                                   \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

/* ---- parser.c, operator.c */
enum { TD_PY_ARGS = 40 };
typedef struct Overload Overload;
typedef struct OperatorObject {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject      *name;               /* interned */
    const char    *text;               /* the same in UTF-8 */
    const td_op  **ops;                /* in the table's order; overloads are worked out at the first call */
    Overload      *overloads;
    int            n_ops, count;
    bool           method, ready;
    bool           numbers;            /* Python numbers are taken for tensors */
    bool           exact_names;        /* of ops.<namespace>: arguments have their schema's names, all overloads count */
    bool           heavy;              /* worth giving up the lock for smaller operands */
    PyObject      *shown;              /* what __torch_function__ is passed, if not this object itself */
} OperatorObject;
extern PyTypeObject td_py_Function, td_py_Method;
/* Call an operator object with positional arguments. */
PyObject *td_py_operate(OperatorObject *op, PyObject *const *args, Py_ssize_t nargs);
/* One of the operator objects by name, borrowed; NULL if there is none (no error set). */
OperatorObject *td_py_find_function(const char *name);
OperatorObject *td_py_find_method(const char *name);
/* What a factory gives in a layout that was asked for; NULL with a Python exception. */
td_tensor *td_py_of_layout(const td_op *op, const td_value *values, int layout);
int td_py_layouts_init(PyObject *module);                 /* layouts.c */
int td_py_operator_init(PyObject *module);

/* What one call of the parser needs: values, and what must be dropped afterwards. */
typedef struct Scratch {
    td_value    values[TD_PY_ARGS];
    td_tensor  *temporary[TD_PY_ARGS];
    int         temporaries;
    uint32_t    used;                   /* bytes of arena */
    void       *blocks;                 /* chained, where the arena doesn't suffice */
    struct HeldItems *held;             /* items of lists, whose tensors the values lend */
    PyObject   *out;                    /* what out= was: returned (borrowed) */
    int64_t     elements;               /* of all operands: decides about the lock */
    bool        overrides;              /* an argument is of a type with its own __torch_function__ */
    bool        requires_grad, pinned;  /* of a factory */
    int8_t      layout;                 /* that a factory is asked for, -1 if none */
    _Alignas(16) char arena[512];
} Scratch;

struct Overload {
    const td_op      *op;
    const td_op_info *info;
    PyObject        **names;            /* interned Python names, as users say them */
    PyObject        **aliases;          /* NumPy's name for it, or NULL; two per argument */
    int16_t          *positional;       /* positional index -> argument */
    int16_t           n_positional, n_required, first_out, n_out;
    int16_t           varargs;          /* the argument that takes the rest as its ints, or -1 */
    int16_t           receiver;         /* of a method: index of self, or -1 */
    bool              factory;          /* takes requires_grad= */
    bool              hidden;           /* deprecated: tried last, not named in errors */
    bool              numbers;
    bool              plain;            /* takes tensors and ints only, in the schema's order */
    bool              words;            /* defaults that are words have their value (ops.<namespace>) */
    int16_t           dtype_arg;        /* index of dtype, or -1 */
    int16_t           plain_out;        /* index of an argument called out that schemas of libraries have among the others, or -1 */
};
/* 1: matched, 0: not this overload, -1: a Python error is set.  On 0 and -1 the scratch is clean again. */
int  td_py_parse(const Overload *o, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool with_out,
                 Scratch *s);
void td_py_scratch_drop(Scratch *s);
static inline void td_py_scratch_begin(Scratch *s)
{
    s->temporaries = 0, s->used = 0, s->blocks = NULL, s->held = NULL, s->out = NULL, s->elements = 0;
    s->overrides = s->requires_grad = s->pinned = false;
    s->layout = -1;
}
/* The one of `candidate` and `best` that is nearer to `name`; `best`, which may be NULL, if the other isn't near at all. */
const char *td_py_nearer(const char *name, const char *candidate, const char *best);
/* PyTorch's warning of an older order of arguments; -1 if it is an error. */
int       td_py_warn_deprecated(OperatorObject *op, const Overload *called);
/* Raise PyTorch's TypeError for a call that no overload takes; returns NULL. */
PyObject *td_py_no_overload(OperatorObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
int  td_py_overload_init(Overload *o, const td_op *op, bool method, bool numbers);

/* ---- boxed.c: boxed values as Python's arguments and results */
PyObject *td_py_full_name(const td_op_info *info);          /* "aten::add.Tensor" */
/* A new object of a lent value. */
PyObject *td_py_object_of(const td_value *v);
bool td_py_is_default(const td_arg *a, const td_value *v);
/* The arguments of a call as Python would write it: a tuple, and a dict; defaults are left out.  0 or -1. */
int td_py_boxed_arguments(const td_op_info *info, const td_value *arguments, PyObject **args, PyObject **kwargs);
/* What Python returned, as an operator's results.  0, or -1 with the error captured for the core. */
int td_py_boxed_results(const td_op_info *info, const td_value *arguments, PyObject *object, td_value *results);
int td_py_boxed_init(PyObject *module);

/* ---- dispatch.c: the Python key */
/* Tell x whether its class has a __torch_dispatch__. */
void td_py_mark(td_tensor *x, PyTypeObject *type);
/* The object that stands for an operator in Python, ops.<namespace>.<name>.<overload>: borrowed, NULL with an error. */
PyObject *td_py_overload(const td_op *op);
int td_py_dispatch_init(PyObject *module);
/* A metadata query, passed to self's class and to a mode as an operator: function(self[, argument]). */
PyObject *td_py_dispatch_query(PyObject *function, PyObject *self, PyObject *argument);

/* ---- metadata.c */
enum { TD_PY_QUERIES_STRIDES = 1, TD_PY_QUERIES_SIZES = 2, TD_PY_QUERIES_DEVICE = 4, TD_PY_QUERIES_LAYOUT = 8,
       TD_PY_QUERIES_SYMBOLS = 16,      /* sizes are as made, and shown as what they stand for: cls._symbols(numbers) */
       TD_PY_STAYS = 128                /* no query: the object is kept while the core holds the tensor, as a gradient's, whose id() programs compare */
};
bool td_py_answers_for_itself(int what);        /* unless no __torch_dispatch__ is to be called now */
static inline bool td_py_queries(PyObject *self, int what)
{
    return TD_UNLIKELY(((TensorObject *)self)->queries & what) && td_py_answers_for_itself(what);
}
/* Which metadata a new object's class is queried for, from its constructor's arguments (policy may be NULL or None); -1 with an error. */
int td_py_queries_of(PyObject *policy, bool device, bool layout);
/* Attributes of self, or what its class says that they are.  Those that are numbers are -1 with an error; offsets, which may be
 * negative, -2. */
PyObject *td_py_shape(PyObject *self);
PyObject *td_py_strides(PyObject *self);
int       td_py_dim(PyObject *self);
int64_t   td_py_numel(PyObject *self, const char *query_name);
/* Whether sizes are shown that aren't x's own. */
bool      td_py_shows_others(PyObject *self);
/* A number of the geometry, as it is shown: a new reference. */
PyObject *td_py_shown(PyObject *self, int64_t number);
int64_t   td_py_offset(PyObject *self);
int       td_py_contiguous(PyObject *self, PyObject *format);
int       td_py_device_of(PyObject *self, td_device *device);
int       td_py_metadata_init(PyObject *module);
int       td_py_layout_of(PyObject *self);

/* ---- results.c */
PyObject *td_py_results(const td_op_info *info, td_value *results, PyObject *out);
int td_py_results_init(PyObject *module);

/* ---- errors.c */
/* Whether a type's constructor was passed no keywords (an empty dict is none); with a TypeError if it was. */
bool td_py_no_keywords(const char *function, PyObject *kw);
/* The one argument of a function, given by position or by name: borrowed; NULL with an error. */
PyObject *td_py_only(const char *function, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* ---- modes.c: stacks of modes */
typedef struct ModeStack { struct Mode *top; } ModeStack;
int       td_py_modes_count(const ModeStack *s);
PyObject *td_py_modes_top(const ModeStack *s);                  /* borrowed; there is one */
PyObject *td_py_modes_list(const ModeStack *s);                 /* a new list, the outermost first */
int       td_py_modes_push(ModeStack *s, PyObject *mode);
PyObject *td_py_modes_pop(ModeStack *s);                        /* owned; NULL with an exception if there is none */
/* Leave the innermost mode for a while; td_py_modes_enter gets what this returned, and undoes what happened in between. */
ModeStack td_py_modes_leave(ModeStack *s);
void      td_py_modes_enter(ModeStack *s, ModeStack whole);
/* Of a copy of a stack that another thread takes over. */
int       td_py_modes_retain(void *stack);
void      td_py_modes_release(void *stack);

/* ---- override.c */
/* How often two tensors have exchanged their objects: whoever reads tensors of objects, runs Python code and goes on compares. */
extern uint64_t td_py_swaps;
extern _Thread_local int td_py_overrides_off, td_py_function_modes;
/* Whether o (no exact Tensor) overrides __torch_function__, with overrides enabled. */
bool td_py_has_override(PyObject *o);
/* For what takes calls of self over: its class, or a mode. */
static inline bool td_py_taken_over(PyObject *self);
/* Call the protocol; args as of vectorcall.  NULL with an error set. */
PyObject *td_py_override(PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
bool      td_py_is_overridable(PyObject *o);               /* a function of Python's that handlers take over: overridable.c */
PyObject *td_py_override_type(PyTypeObject *type, PyObject *args, PyObject *kwargs);      /* a constructor without tensors: modes take it over */
/* For slots and methods in C: the same with Tensor.<name>, and with the getter or setter of Tensor.<name>. */
PyObject *td_py_override_method(const char *name, PyObject *const *args, Py_ssize_t nargs);
PyObject *td_py_override_method_call(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                     PyObject *kwnames);
PyObject *td_py_override_getter(const char *name, PyObject *self);
int       td_py_override_setter(const char *name, PyObject *self, PyObject *value);
/* Whether this call, for once, is made as if nobody took calls over (_skip_one_hop_torch_function). */
bool td_py_take_hop(void);
int  td_py_override_init(PyObject *module);
static inline bool td_py_taken_over(PyObject *self)
{
    return TD_UNLIKELY(td_py_function_modes > 0) || (TD_UNLIKELY(!td_py_is_exact(self)) && td_py_has_override(self));
}

/* ---- overridable.c */
int td_py_overridable_init(PyObject *module);

/* ---- indexing.c */
PyObject *td_py_getitem(PyObject *self, PyObject *index);
int       td_py_setitem(PyObject *self, PyObject *index, PyObject *value);
PyObject *td_py_getitem_int(PyObject *self, Py_ssize_t i);

/* ---- device.c, record.c */
int td_py_device_init(PyObject *module);
int td_py_record_init(PyObject *module);
int td_py_region_init(PyObject *module);                  /* region.c */
PyObject *td_py_generator_on(td_generator *g, td_device device);      /* takes over g */

/* ---- grad.c, nodes.c, hooks.c, function.c, saved.c */
PyObject *td_py_tensor_tuple(int n, td_tensor *const *tensors);     /* NULL and TD_NONE become None */
/* The object of a node, whose reference it takes over; None for NULL.  And back: NULL with an error if it is none. */
PyObject *td_py_wrap_node(td_node *node);
PyObject *td_py_get_hooks(PyObject *self, void *unused);             /* of x._backward_hooks */
int       td_py_set_hooks(PyObject *self, PyObject *value, void *unused);
/* For traverse and clear of what owns hooks: arg is a pair of the collector's function and its argument. */
void td_py_visit_hook(td_hook *hook, void *context, void *arg);
void td_py_remove_hook(td_hook *hook, void *context, void *arg);
td_node  *td_py_node_of(PyObject *o);
/* Attributes that autograd.Function's context has: of the context of a node made by one (borrowed), else NULL. */
PyObject *td_py_context_of(td_node *node);
bool      td_py_context_takes(PyObject *context, int argument);      /* whether that was a tensor */
int       td_py_leave_functions_alone(PyTypeObject *cls);
/* What stands for a saved variable as it is kept: register_hooks() packs it. */
PyObject *td_py_raw_saved(td_node *node, int index);
int td_py_edges_init(PyObject *module);
int td_py_hooks_init(PyObject *module);
int td_py_nodes_init(PyObject *module);
int td_py_function_init(PyObject *module);
int td_py_saved_init(PyObject *module);
int td_py_grad_init(PyObject *module);
int td_py_transforms_init(PyObject *module);
PyObject *td_py_grad_fn(td_tensor *x);
bool      td_py_retains_grad(td_tensor *x);
PyObject *td_py_backward_method(PyObject *self, PyObject *args, PyObject *kw);
PyObject *td_py_register_hook(PyObject *self, PyObject *hook);
PyObject *td_py_register_leaf_hook(PyObject *self, PyObject *hook);
PyObject *td_py_register_node_hook(td_node *node, PyObject *hook, bool before);

#endif
