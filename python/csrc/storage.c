/* StorageBase: the bytes beneath tensors.  Python's tede.storage makes UntypedStorage of it.
 *
 * Note [One object per storage]
 * Pickling and `is` want the same Python object for the same storage, so `live` maps a storage's address to the object
 * that holds it, without a count; the object takes itself out when it goes. An object that a program can tell from a new one, by
 * attributes, its class or weak references, isn't dropped before its storage: as with tensors (see Note [Resurrection] in tensor.c)
 * the storage keeps it, and it only borrows the storage meanwhile. */
#include "calls_csrc_storage.h"
#include "binding.h"
#include <tede/foreign.h>
#include <tede/layout.h>
#include <tede/weak.h>

typedef struct {
    PyObject_HEAD
    td_storage *s;
    void       *key;                    /* in `live` */
    PyObject   *dict, *weakrefs;
    bool        hollow, kept;           /* of a wrapper that has no memory; the storage keeps it */
} StorageObject;

static td_storage *storage(PyObject *self) { return ((StorageObject *)self)->s; }

static PyObject   *live, *storage_class;
static td_storage *gone;                /* what objects look at whose storage went away first */

/* The class that tensors' storages are instances of. Its module has more to say of it: how it is pickled. */
static PyTypeObject *python_class(void)
{
    if (!storage_class) {
        PyObject *module = PyImport_ImportModule("tede.storage");
        storage_class = module ? PyObject_GetAttrString(module, "UntypedStorage") : NULL;
        Py_XDECREF(module);
    }
    return (PyTypeObject *)storage_class;
}
/* Takes over s. */
static PyObject *wrap_as(PyTypeObject *type, td_storage *s)
{
    PyObject *key = s ? PyLong_FromVoidPtr(s) : td_py_raise();
    StorageObject *self = key && type ? (StorageObject *)type->tp_alloc(type, 0) : NULL;
    PyObject *address = self ? PyLong_FromVoidPtr(self) : NULL;
    if (address && PyDict_SetItem(live, key, address) == 0) {
        self->s = self->key = s;
    } else {
        td_storage_release(s);
        Py_CLEAR(self);
    }
    Py_XDECREF(address);
    Py_XDECREF(key);
    return (PyObject *)self;
}
static PyObject *wrap(td_storage *s)
{
    return wrap_as(python_class(), s);
}
/* An object that its storage keeps is wanted again: it holds the storage, and not the storage it. For one who has a reference. */
static void hold_again(PyObject *self)
{
    if (!((StorageObject *)self)->kept)
        return;
    if (td_storage_keep(storage(self), NULL, NULL)) {               /* kept and borrowed as before */
        td_error_clear();
        return;
    }
    ((StorageObject *)self)->kept = false;
    td_storage_retain(storage(self));
    Py_DECREF(self);
}
/* A new reference to the object that holds s, or NULL without an error. */
static PyObject *known(td_storage *s)
{
    PyObject *key = PyLong_FromVoidPtr(s), *address = key ? PyDict_GetItemWithError(live, key) : NULL;
    PyObject *self = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(key);
    PyErr_Clear();
    if (!self || Py_REFCNT(self) <= 0 || storage(self) != s)        /* one whose storage is gone waits for its end */
        return NULL;
    Py_INCREF(self);
    hold_again(self);
    return self;
}
PyObject *td_py_storage(td_tensor *x)
{
    td_storage *s = td_tensor_storage(x);
    const td_layout_kind *kind = s ? NULL : td_layout_describe(td_tensor_layout(x));
    if (!s)
        return PyErr_Format(PyExc_NotImplementedError, "Cannot access storage of %s%s", kind && kind->title ? kind->title : "this tensor",
                            kind && kind->title ? "TensorImpl" : ": it has none");
    PyObject *self = known(s);
    if (!self && (self = wrap(td_storage_retain(s))))
        ((StorageObject *)self)->hollow = td_tensor_is_hollow(x);
    return self;
}

/* The bytes of one storage to another of the same size, wherever they are. */
static int copy_bytes(td_storage *to, td_storage *from)
{
    int64_t n = (int64_t)td_storage_nbytes(from), step = 1;
    td_tensor *target = td_tensor_over(to, 0, 1, &n, &step, TD_U8), *source = td_tensor_over(from, 0, 1, &n, &step, TD_U8);
    int status = td_copy_from_(target, source, false);
    td_tensor_release(target);
    td_tensor_release(source);
    return status;
}
static PyObject *unknown_device(PyObject *device)
{
    if (!PyErr_ExceptionMatches(PyExc_RuntimeError))
        return NULL;
    PyObject *type, *why, *trace;
    PyErr_Fetch(&type, &why, &trace);
    PyErr_Format(PyExc_RuntimeError, "torch.UntypedStorage(): Storage device not recognized: %S (%S)", device, why);
    Py_XDECREF(type);
    Py_XDECREF(why);
    Py_XDECREF(trace);
    return NULL;
}
static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"size", "device", NULL};
    PyObject *what = NULL, *device = NULL;
    td_device where = {TD_CPU, -1};
    if (type == &td_py_Storage)
        return PyErr_Format(PyExc_RuntimeError, "Cannot directly construct StorageBase; subclass it and then construct that");
    if (!python_class())
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:UntypedStorage", names, &what, &device))
        return NULL;
    if (device && device != Py_None && td_py_as_device(device, &where) < 0)
        return unknown_device(device);
    int64_t n = 0;
    Py_buffer bytes = {.buf = NULL};
    if (what && !PyLong_Check(what)) {
        if (PyObject_GetBuffer(what, &bytes, PyBUF_SIMPLE) < 0)
            return NULL;
        n = bytes.len;
    } else if (what && td_py_as_int(what, &n, false) < 0) {
        return NULL;
    }
    if (n < 0)
        return PyErr_Format(PyExc_RuntimeError, "UntypedStorage: a size of %lld bytes is negative", (long long)n);
    td_storage *s = td_storage_new(where, (size_t)n);
    if (s && bytes.buf && n) {
        td_storage *from = td_storage_from_memory(bytes.buf, (size_t)n, (td_device){TD_CPU, -1}, NULL, NULL);
        if (!from || (td_storage_data(s) && copy_bytes(s, from))) {
            td_storage_release(s);
            s = NULL;
        }
        td_storage_release(from);
    }
    if (bytes.buf)
        PyBuffer_Release(&bytes);
    return wrap_as(type, s);
}
/* Its storage is gone; perhaps without the GIL. */
static void drop_kept(void *kept)
{
    StorageObject *self = kept;
    self->s = td_storage_retain(gone);
    self->kept = false;
    td_py_drop(kept);
}
/* Whether the storage goes on without the object, and a program can tell it from another one. */
static bool survives(PyObject *o)
{
    StorageObject *self = (StorageObject *)o;
    return self->s && !self->kept && self->s != gone && td_storage_use_count(self->s) > 1 &&
           (self->weakrefs || (self->dict && PyDict_GET_SIZE(self->dict)) || (PyObject *)Py_TYPE(o) != storage_class);
}
static void storage_dealloc(PyObject *o)
{
    StorageObject *self = (StorageObject *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (survives(o)) {
        Py_SET_REFCNT(o, 1);
        self->kept = true;
        if (td_storage_keep(self->s, self, drop_kept) == 0) {
            td_storage_release(self->s);        /* perhaps the last one by now: then this ends in drop_kept */
            return;
        }
        td_error_clear();
        self->kept = false;
        Py_SET_REFCNT(o, 0);
    }
    if (type->tp_finalize && PyObject_CallFinalizerFromDealloc(o) < 0)
        return;
    PyObject_GC_UnTrack(o);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(o);
    td_py_clear_slots(o, &td_py_Storage);
    PyObject *key = PyLong_FromVoidPtr(self->key), *address = key ? PyDict_GetItemWithError(live, key) : NULL;
    if (address && PyLong_AsVoidPtr(address) == self && PyDict_DelItem(live, key) < 0)
        PyErr_Clear();
    Py_XDECREF(key);
    Py_CLEAR(self->dict);
    td_storage_release(self->s);
    type->tp_free(o);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
        Py_DECREF(type);
}
static int storage_traverse(PyObject *self, visitproc visit, void *arg)
{
    if (!survives(self))
        Py_VISIT(((StorageObject *)self)->dict);
    return 0;
}
static int storage_clear(PyObject *self)
{
    if (!survives(self))
        Py_CLEAR(((StorageObject *)self)->dict);
    return 0;
}
static PyObject *fix_weakref(PyObject *self, PyObject *unused)
{
    (void)unused;
    hold_again(self);
    Py_RETURN_NONE;
}
/* Classes of Python would get a tp_dealloc that clears the object before it asks. */
static int meta_init(PyObject *cls, PyObject *args, PyObject *kw)
{
    if (PyType_Type.tp_init(cls, args, kw) < 0)
        return -1;
    ((PyTypeObject *)cls)->tp_dealloc = storage_dealloc;
    return 0;
}
static PyTypeObject meta_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._StorageMeta",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_TYPE_SUBCLASS,
    .tp_doc = "The class of storages' classes.",
    .tp_init = meta_init,
};
static PyObject *use_count(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(td_storage_use_count(storage(self)));
}
static PyObject *resizable(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(td_storage_is_resizable(storage(self)));
}
static PyObject *nbytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromSize_t(td_storage_nbytes(storage(self)));
}
/* A wrapper's storage has a size and no bytes. */
static bool refused(PyObject *self, const char *what)
{
    if (((StorageObject *)self)->hollow)
        PyErr_Format(PyExc_RuntimeError, "Attempted to %s on an invalid python storage.", what);
    return ((StorageObject *)self)->hollow;
}
static PyObject *check_bytes(PyObject *self, PyObject *what)
{
    const char *text = PyUnicode_AsUTF8(what);
    if (!text || refused(self, text))
        return NULL;
    Py_RETURN_NONE;
}
static PyObject *data_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (refused(self, "access the data pointer"))
        return NULL;
    return PyLong_FromVoidPtr(td_storage_data(storage(self)));
}
static PyObject *resize_(PyObject *self, PyObject *o)
{
    int64_t n;
    int found = td_py_as_int(o, &n, false);
    if (found < 0)
        return NULL;
    if (!found || n < 0)
        return PyErr_Format(PyExc_TypeError, "resize_(): a number of bytes is needed");
    if (refused(self, "call resize_()"))
        return NULL;
    if (td_storage_resize(storage(self), (size_t)n) < 0)
        return td_py_raise();
    return Py_NewRef(self);
}
static PyObject *clone_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (refused(self, "call clone()"))
        return NULL;
    td_storage *s = storage(self), *copy = td_storage_new(td_storage_device(s), td_storage_nbytes(s));
    if (copy && td_storage_nbytes(s) && td_storage_data(s) && copy_bytes(copy, s)) {
        td_storage_release(copy);
        copy = NULL;
    }
    return wrap(copy);
}
static PyObject *same(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(storage(self));
}
static PyObject *tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    char name[32];
    if (td_storage_device(storage(self)).type != TD_CPU)
        return PyErr_Format(PyExc_NotImplementedError, "Not available for '%s' device type",
                            td_device_str((td_device){td_storage_device(storage(self)).type, -1}, name));
    PyObject *bytes = PyBytes_FromStringAndSize(td_storage_data(storage(self)), (Py_ssize_t)td_storage_nbytes(storage(self)));
    PyObject *list = bytes ? PySequence_List(bytes) : NULL;
    Py_XDECREF(bytes);
    return list;
}
static PyObject *device(PyObject *self, void *unused)
{
    (void)unused;
    return td_py_device(td_storage_device(storage(self)));
}
static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)td_storage_nbytes(storage(self));
}
static PyObject *item(PyObject *self, Py_ssize_t i)
{
    char name[32];
    if (td_storage_device(storage(self)).type != TD_CPU)
        return PyErr_Format(PyExc_NotImplementedError, "Not available for '%s' device type",
                            td_device_str((td_device){td_storage_device(storage(self)).type, -1}, name));
    if (i < 0 || i >= length(self))
        return PyErr_Format(PyExc_IndexError, "storage index out of range");
    return PyLong_FromLong(((uint8_t *)td_storage_data(storage(self)))[i]);
}
static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    if (!PyObject_TypeCheck(b, &td_py_Storage) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((storage(a) == storage(b)) == (how == Py_EQ));
}
static Py_hash_t hash(PyObject *self)
{
    return _Py_HashPointer(storage(self));
}
static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    td_storage *s = storage(self);
    if (td_storage_device(s).type != TD_CPU)
        return PyErr_Format(PyExc_BufferError, "only a storage on the CPU has a buffer"), -1;
    if (PyBuffer_FillInfo(view, self, td_storage_data(s), (Py_ssize_t)td_storage_nbytes(s), td_storage_is_readonly(s), flags) != 0)
        return -1;
    view->internal = td_storage_retain(s);      /* with a second owner a resize keeps the old block */
    return 0;
}
static void release_buffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    td_storage_release(view->internal);
}
/* A tensor over a storage: what unpickling and set_ need. */
static PyObject *tensor_over(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *s, *sizes, *strides, *dtype;
    Py_ssize_t offset;
    if (!PyArg_ParseTuple(args, "O!nO!O!O!:_tensor_over", &td_py_Storage, &s, &offset, &PyTuple_Type, &sizes, &PyTuple_Type,
                          &strides, &td_py_dtype_type, &dtype))
        return NULL;
    int64_t n[TD_MAX_DIMS], step[TD_MAX_DIMS];
    Py_ssize_t ndim = PyTuple_GET_SIZE(sizes);
    if (ndim > TD_MAX_DIMS || ndim != PyTuple_GET_SIZE(strides))
        return PyErr_Format(PyExc_RuntimeError, "mismatch in length of strides and shape");
    for (Py_ssize_t i = 0; i < ndim; i++) {
        n[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
        step[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
    }
    if (PyErr_Occurred())
        return NULL;
    return td_py_wrap(td_tensor_over(storage(s), offset, ndim, n, step, ((EnumObject *)dtype)->code));
}

PyObject *td_py_storage_as_tensor(PyObject *self, td_dtype dtype)
{
    int64_t n = (int64_t)(td_storage_nbytes(storage(self)) / td_dtype_size(dtype)), step = 1;
    return td_py_wrap(td_tensor_over(storage(self), 0, 1, &n, &step, dtype));
}

static PyMethodDef methods[] = {
    {"nbytes", nbytes, METH_NOARGS, NULL},   {"size", nbytes, METH_NOARGS, NULL},
    {"_check_bytes", check_bytes, METH_O, "An error if there are none: what was attempted."},
    {"data_ptr", data_ptr, METH_NOARGS, NULL}, {"resize_", resize_, METH_O, NULL},
    {"clone", clone_of, METH_NOARGS, NULL},     {"tolist", tolist, METH_NOARGS, NULL},
    {"_fix_weakref", fix_weakref, METH_NOARGS, "For an object that a weak reference brought back: let it hold its storage."},
    {"_resizable", resizable, METH_NOARGS, NULL}, {"_use_count", use_count, METH_NOARGS, NULL}, {NULL},
};
static PyGetSetDef getset[] = {{"device", device, NULL, NULL, NULL}, {"_cdata", same, NULL, NULL, NULL},
                                {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL}};
static PySequenceMethods sequence = {.sq_length = length, .sq_item = item};
static PyBufferProcs buffer = {get_buffer, release_buffer};
PyTypeObject td_py_Storage = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.StorageBase",
    .tp_basicsize = sizeof(StorageObject),
    .tp_doc = "StorageBase(size or bytes): a block of bytes that tensors look at.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = storage_new,
    .tp_dealloc = storage_dealloc,
    .tp_traverse = storage_traverse,
    .tp_clear = storage_clear,
    .tp_free = PyObject_GC_Del,
    .tp_dictoffset = offsetof(StorageObject, dict),
    .tp_weaklistoffset = offsetof(StorageObject, weakrefs),
    .tp_methods = methods,
    .tp_getset = getset,
    .tp_as_sequence = &sequence,
    .tp_as_buffer = &buffer,
    .tp_richcompare = compare,
    .tp_hash = hash,
};
static PyObject *replace(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x, *source;
    if (!PyArg_ParseTuple(args, "O!O!:_replace", &td_py_Tensor, &x, &td_py_Tensor, &source))
        return NULL;
    if (td_tensor_dtype(td_py_x(x)) != td_tensor_dtype(td_py_x(source)))
        return PyErr_Format(PyExc_RuntimeError, "Could not set tensor of type %s to a tensor of type %s",
                            td_dtype_name(td_tensor_dtype(td_py_x(source))), td_dtype_name(td_tensor_dtype(td_py_x(x))));
    if (td_check_write(td_py_x(x)) < 0)
        return td_py_raise();
    td_tensor_count_write(td_py_x(x));
    if (td_tensor_replace(td_py_x(x), td_py_x(source)) < 0)
        return td_py_raise();
    td_renew_accumulator(td_py_x(x));
    Py_RETURN_NONE;
}

/* Put a tensor, and those that it is a view of, among the different ones over s. */
static size_t note_holders(td_tensor *x, td_storage *s, td_tensor **found, size_t n)
{
    for (; x && td_tensor_storage(x) == s; x = td_tensor_base(x)) {
        size_t i = 0;
        while (i < n && found[i] != x)
            i++;
        if (i < n)
            return n;
        found[n++] = x;
    }
    return n;
}
/* False where the storage has other holders, which would keep the old memory. */
static PyObject *take(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *s, *source, *list;
    if (!PyArg_ParseTuple(args, "O!O!O!:_take", &td_py_Storage, &s, &td_py_Storage, &source, &PyList_Type, &list))
        return NULL;
    size_t n = 0, most = (size_t)td_storage_use_count(storage(s));
    td_tensor **found = PyMem_Calloc(most + 1, sizeof *found);
    if (!found)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *x = PyList_GET_ITEM(list, i);
        if (PyObject_TypeCheck(x, &td_py_Tensor))
            n = note_holders(td_py_x(x), storage(s), found, n);
    }
    bool all = (int64_t)n + 1 == td_storage_use_count(storage(s));
    if (all && (copy_bytes(storage(source), storage(s)) || td_storage_take(storage(s), storage(source), found, (int64_t)n, 1) < 0)) {
        PyMem_Free(found);
        return td_py_raise();
    }
    PyMem_Free(found);
    return PyBool_FromLong(all);
}

/* _C._WeakStorage(storage): a weak reference to the bytes, not to the Python object, which comes and goes. */
typedef struct { PyObject_HEAD td_weak_storage *weak; } WeakObject;

static PyObject *weak_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *s;
    if (!td_py_no_keywords("_WeakStorage", kw) || !PyArg_ParseTuple(args, "O!:_WeakStorage", &td_py_Storage, &s))
        return NULL;
    td_weak_storage *weak = td_weak_storage_new(storage(s));
    WeakObject *self = weak ? (WeakObject *)type->tp_alloc(type, 0) : td_py_raise();
    if (self)
        self->weak = weak;
    else
        td_weak_storage_release(weak);
    return (PyObject *)self;
}
static void weak_dealloc(PyObject *self)
{
    td_weak_storage_release(((WeakObject *)self)->weak);
    Py_TYPE(self)->tp_free(self);
}
static PyObject *weak_expired(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(td_weak_storage_expired(((WeakObject *)self)->weak));
}
static PyObject *weak_cdata(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((WeakObject *)self)->weak);
}
static PyMethodDef weak_methods[] = {{"expired", weak_expired, METH_NOARGS, "Whether the storage is gone."}, {NULL}};
static PyGetSetDef weak_getset[] = {{"cdata", weak_cdata, NULL, "The same number for the same storage.", NULL}, {NULL}};
static PyTypeObject weak_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._WeakStorage",
    .tp_basicsize = sizeof(WeakObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = weak_new,
    .tp_dealloc = weak_dealloc,
    .tp_methods = weak_methods,
    .tp_getset = weak_getset,
};

static PyObject *is_hollow(PyObject *m, PyObject *x)
{
    (void)m;
    return PyBool_FromLong(td_py_is_tensor(x) && td_tensor_is_hollow(td_py_x(x)));
}

static PyMethodDef functions[] = {
    {"_is_hollow", is_hollow, METH_O, "Whether a tensor is of a class that keeps its elements elsewhere."},
    {"_take", take, METH_VARARGS, "_take(storage, source, tensors): move the storage to the memory of another one, with all tensors that look at it; False if "
                                  "those in the list and their bases aren't all"},
    {"_replace", replace, METH_VARARGS, "_replace(x, source): let x look at what source looks at; counts as a write"},
    {"_tensor_over", tensor_over, METH_VARARGS, "_tensor_over(storage, offset, sizes, strides, dtype)"},
    {NULL},
};
int td_py_storage_init(PyObject *module)
{
    meta_type.tp_base = &PyType_Type;
    Py_SET_TYPE(&td_py_Storage, &meta_type);
    if (!(gone = td_storage_new((td_device){TD_CPU, -1}, 0)))
        return td_py_raise(), -1;
    if (!(live = PyDict_New()) || PyType_Ready(&meta_type) < 0 || PyType_Ready(&td_py_Storage) < 0 || PyModule_AddFunctions(module, functions) < 0 ||
        PyModule_AddType(module, &weak_type) < 0 || PyModule_AddObjectRef(module, "_StorageMeta", (PyObject *)&meta_type) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "StorageBase", (PyObject *)&td_py_Storage);
}
