/* Tensors from and to other libraries by the DLPack protocol (dlpack.h, version 1; the old capsule too).
 *
 * The structures below are the protocol's layout.  A capsule is named "dltensor" or "dltensor_versioned" until somebody
 * takes the tensor out, who renames it to "used_..." and calls its deleter at the end. */
#include "binding.h"
#include <tede/ops.h>

typedef struct { int32_t type, id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
    void      *data;
    DLDevice   device;
    int32_t    ndim;
    DLDataType dtype;
    int64_t   *shape, *strides;
    uint64_t   byte_offset;
} DLTensor;
typedef struct DLManaged {
    DLTensor tensor;
    void    *context;
    void   (*deleter)(struct DLManaged *);
} DLManaged;
typedef struct DLVersioned {
    struct { uint32_t major, minor; } version;
    void    *context;
    void   (*deleter)(struct DLVersioned *);
    uint64_t flags;
    DLTensor tensor;
} DLVersioned;
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_COMPLEX, DL_BOOL };
enum { DL_READ_ONLY = 1, DL_COPIED = 2, DL_CPU = 1 };

/* What an exported capsule points to. */
typedef struct Export {
    union { DLManaged old; DLVersioned versioned; };
    td_tensor *x;
    int64_t    shape[];
} Export;

static void delete_old(DLManaged *m)
{
    td_tensor_release(((Export *)m)->x);
    free(m);
}
static void delete_versioned(DLVersioned *m)
{
    td_tensor_release(((Export *)m)->x);
    free(m);
}
static void capsule_dropped(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        DLManaged *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
}

static bool has_negative_stride(td_tensor *x)
{
    for (int i = 0; i < td_tensor_ndim(x); i++)
        if (td_tensor_strides(x)[i] < 0)
            return true;
    return false;
}

PyObject *td_py_method_dlpack(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    td_tensor *x = td_py_x(self);
    if (td_requires_grad(x))
        return PyErr_Format(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
    if (td_tensor_is_conj(x))
        return PyErr_Format(PyExc_BufferError, "Can't export tensors with the conjugate bit set");
    if (td_tensor_device(x).type != TD_CPU)
        return PyErr_Format(PyExc_BufferError, "Can't export tensors that are not on the CPU");
    bool copied = copy == Py_True || (has_negative_stride(x) && copy != Py_False);
    if (!copied && has_negative_stride(x))
        return PyErr_Format(PyExc_BufferError, "a tensor with negative strides can't be exported without a copy");
    int64_t major = 0;
    if (version != Py_None && PyTuple_Check(version) && PyTuple_GET_SIZE(version) &&
        td_py_as_int(PyTuple_GET_ITEM(version, 0), &major, false) < 0)
        return NULL;
    td_tensor *held = copied ? td_clone_format(x, TD_CONTIGUOUS_FORMAT) : td_tensor_retain(x);
    int ndim = td_tensor_ndim(x);
    Export *e = held ? malloc(sizeof *e + 2 * (size_t)ndim * sizeof *e->shape + 1) : NULL;
    if (!e) {
        td_tensor_release(held);
        return held ? PyErr_NoMemory() : td_py_raise();
    }
    td_dtype dtype = td_tensor_dtype(held);
    uint8_t code = dtype == TD_BOOL ? DL_BOOL : dtype == TD_BF16 ? DL_BFLOAT : td_dtype_is_floating(dtype) ? DL_FLOAT
                 : td_dtype_is_complex(dtype) ? DL_COMPLEX : td_dtype_is_signed(dtype) ? DL_INT : DL_UINT;
    memcpy(e->shape, td_tensor_sizes(held), (size_t)ndim * sizeof *e->shape);
    for (int i = 0; i < ndim; i++)
        e->shape[ndim + i] = e->shape[i] < 2 ? 1 : td_tensor_strides(held)[i];
    DLTensor t = {td_tensor_data(held), {DL_CPU, 0}, ndim, {code, (uint8_t)(8 * td_dtype_size(dtype)), 1}, e->shape,
                  e->shape + ndim, 0};
    e->x = held;
    PyObject *capsule;
    if (major >= 1) {
        e->versioned = (DLVersioned){{1, 0}, NULL, delete_versioned, copied ? DL_COPIED : 0, t};
        capsule = PyCapsule_New(&e->versioned, "dltensor_versioned", capsule_dropped);
    } else {
        e->old = (DLManaged){t, NULL, delete_old};
        capsule = PyCapsule_New(&e->old, "dltensor", capsule_dropped);
    }
    if (!capsule) {
        td_tensor_release(held);
        free(e);
    }
    return capsule;
}

PyObject *td_py_method_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (td_tensor_device(td_py_x(self)).type != TD_CPU)
        return PyErr_Format(PyExc_ValueError, "only tensors on the CPU can be exported");
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static void release_old(void *context)
{
    DLManaged *m = context;
    if (m->deleter)
        m->deleter(m);
}
static void release_versioned(void *context)
{
    DLVersioned *m = context;
    if (m->deleter)
        m->deleter(m);
}
/* The producer may be Python code in disguise, so its deleter runs with the GIL: as the end of a capsule. */
static void capsule_old(PyObject *c) { release_old(PyCapsule_GetPointer(c, NULL)); }
static void capsule_versioned(PyObject *c) { release_versioned(PyCapsule_GetPointer(c, NULL)); }

static td_tensor *import(const DLTensor *t, void *managed, bool versioned)
{
    static const td_dtype ints[] = {TD_I8, TD_I16, TD_I32, TD_I64}, uints[] = {TD_U8, TD_U16, TD_U32, TD_U64};
    td_dtype dtype = TD_DTYPE_NONE;
    int bits = t->dtype.bits, log = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : -1;
    if (t->dtype.lanes == 1)
        switch (t->dtype.code) {
        case DL_INT: dtype = log >= 0 ? ints[log] : TD_DTYPE_NONE; break;
        case DL_UINT: dtype = log >= 0 ? uints[log] : TD_DTYPE_NONE; break;
        case DL_FLOAT: dtype = log == 1 ? TD_F16 : log == 2 ? TD_F32 : log == 3 ? TD_F64 : TD_DTYPE_NONE; break;
        case DL_BFLOAT: dtype = bits == 16 ? TD_BF16 : TD_DTYPE_NONE; break;
        case DL_COMPLEX: dtype = bits == 64 ? TD_C64 : bits == 128 ? TD_C128 : TD_DTYPE_NONE; break;
        case DL_BOOL: dtype = bits == 8 ? TD_BOOL : TD_DTYPE_NONE; break;
        }
    if (dtype == TD_DTYPE_NONE)
        return PyErr_Format(PyExc_BufferError, "from_dlpack: no dtype for code %d with %d bits", t->dtype.code, bits), NULL;
    if (t->device.type != DL_CPU)
        return PyErr_Format(PyExc_BufferError, "from_dlpack: device type %d is not known here", t->device.type), NULL;
    if (t->ndim > TD_MAX_DIMS)
        return PyErr_Format(PyExc_BufferError, "from_dlpack: too many dimensions (%d)", t->ndim), NULL;
    PyObject *owner = PyCapsule_New(managed, NULL, versioned ? capsule_versioned : capsule_old);
    if (!owner)
        return NULL;
    td_tensor *x = td_tensor_from_memory((char *)t->data + t->byte_offset, t->ndim, t->shape, t->strides, dtype,
                                         (td_device){TD_CPU, -1}, td_py_drop, owner);
    if (!x) {
        PyCapsule_SetDestructor(owner, NULL);
        Py_DECREF(owner);
        return td_py_raise();
    }
    return x;
}

td_tensor *td_py_from_dlpack(PyObject *o)
{
    PyObject *capsule = NULL;
    if (PyCapsule_CheckExact(o)) {
        capsule = Py_NewRef(o);
    } else {
        PyObject *method = PyObject_GetAttrString(o, "__dlpack__");
        if (!method) {
            PyErr_Format(PyExc_RuntimeError, "from_dlpack: '%s' has no __dlpack__", Py_TYPE(o)->tp_name);
            return NULL;
        }
        PyObject *none = PyTuple_New(0), *kw = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
        if (none && kw)
            capsule = PyObject_Call(method, none, kw);
        if (!capsule && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyObject_CallNoArgs(method);
        }
        Py_XDECREF(none);
        Py_XDECREF(kw);
        Py_DECREF(method);
    }
    td_tensor *x = NULL;
    if (!capsule)
        return NULL;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (m->version.major > 1)
            PyErr_Format(PyExc_BufferError, "from_dlpack: version %u of the protocol is not known here", m->version.major);
        else if ((x = import(&m->tensor, m, true)))
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
        if (x && (m->flags & DL_READ_ONLY))
            td_storage_set_readonly(td_tensor_storage(x));
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        DLManaged *m = PyCapsule_GetPointer(capsule, "dltensor");
        if ((x = import(&m->tensor, m, false)))
            PyCapsule_SetName(capsule, "used_dltensor");
    } else {
        PyErr_SetString(PyExc_RuntimeError, "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
                        "consumed only once, so you might have already constructed a tensor from it once.");
    }
    Py_DECREF(capsule);
    return x;
}

static PyObject *from_dlpack(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    static char *names[] = {"ext_tensor", "device", "copy", NULL};
    PyObject *source, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$OO:from_dlpack", names, &source, &device, &copy))
        return NULL;
    td_tensor *x = td_py_from_dlpack(source);
    if (x && copy == Py_True) {
        td_tensor *clone = td_clone_format(x, TD_MEMORY_FORMAT_NONE);
        td_tensor_release(x);
        return td_py_wrap(clone);
    }
    return x ? td_py_wrap(x) : NULL;
}
static PyObject *to_dlpack(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "to_dlpack(): argument must be Tensor, not %s", Py_TYPE(x)->tp_name);
    PyObject *none = PyTuple_New(0), *capsule = none ? td_py_method_dlpack(x, none, NULL) : NULL;
    Py_XDECREF(none);
    return capsule;
}
static PyMethodDef functions[] = {
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(ext_tensor, *, device=None, copy=None)\n\nA tensor over the memory of another library's."},
    {"to_dlpack", to_dlpack, METH_O, "A DLPack capsule of a tensor."},
    {NULL},
};
int td_py_dlpack_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
