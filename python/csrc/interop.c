/* NumPy and buffer protocol: memory shared with arrays and other objects.
 *
 * NumPy isn't linked: arrays come in by their __array_interface__, and go out as numpy.asarray of a small object that
 * has one and holds the storage.  Strides may be negative in both directions. */
#include "calls_csrc_interop.h"
#include "binding.h"
#include <tede/layout.h>
#include <tede/transforms.h>

/* ---- NumPy's types, found once NumPy has been imported by somebody */

static PyTypeObject *array_type, *generic_type;

static bool find_numpy(PyTypeObject *type)
{
    if (array_type)
        return true;
    for (; type && type->tp_base && type->tp_base != &PyBaseObject_Type; type = type->tp_base)
        if (strncmp(type->tp_name, "numpy.", 6) == 0)
            break;
    if (!type || strncmp(type->tp_name, "numpy.", 6) != 0)
        return false;
    PyObject *name = PyUnicode_FromString("numpy"), *numpy = name ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    PyObject *array = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    PyObject *generic = numpy ? PyObject_GetAttrString(numpy, "generic") : NULL;
    Py_XDECREF(numpy);
    PyErr_Clear();
    if (!array || !generic || !PyType_Check(array) || !PyType_Check(generic)) {
        Py_XDECREF(array);
        Py_XDECREF(generic);
        return false;
    }
    array_type = (PyTypeObject *)array;
    generic_type = (PyTypeObject *)generic;
    return true;
}
bool td_py_is_numpy_array(PyObject *o)
{
    return find_numpy(Py_TYPE(o)) && PyObject_TypeCheck(o, array_type);
}
bool td_py_is_numpy_scalar(PyObject *o)
{
    return find_numpy(Py_TYPE(o)) && PyObject_TypeCheck(o, generic_type);
}
PyObject *td_py_numpy_item(PyObject *o)
{
    return PyObject_CallMethod(o, "item", NULL);
}

/* ---- dtypes as NumPy and the struct module spell them */

static const struct { td_dtype dtype; const char *numpy, *format; } spellings[] = {
    {TD_BOOL, "|b1", "?"}, {TD_U8, "|u1", "B"}, {TD_I8, "|i1", "b"}, {TD_I16, "<i2", "h"}, {TD_U16, "<u2", "H"},
    {TD_I32, "<i4", "i"}, {TD_U32, "<u4", "I"}, {TD_I64, "<i8", "q"}, {TD_U64, "<u8", "Q"}, {TD_F16, "<f2", "e"},
    {TD_F32, "<f4", "f"}, {TD_F64, "<f8", "d"}, {TD_C64, "<c8", "Zf"}, {TD_C128, "<c16", "Zd"},
};
static int spelling_of(td_dtype dtype)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (spellings[i].dtype == dtype)
            return (int)i;
    return -1;
}

/* ---- from NumPy */

static td_tensor *from_interface(PyObject *array, PyObject *interface, bool to_write)
{
    if (!PyDict_Check(interface))
        return PyErr_Format(PyExc_TypeError, "the object's __array_interface__ is no dict"), NULL;
    TD_PY_AUTO PyObject *text = Py_XNewRef(PyDict_GetItemString(interface, "typestr"));
    TD_PY_AUTO PyObject *shape = Py_XNewRef(PyDict_GetItemString(interface, "shape"));
    TD_PY_AUTO PyObject *data = Py_XNewRef(PyDict_GetItemString(interface, "data"));
    const char *name = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (!name || !shape || !PyTuple_Check(shape) || !data || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2) {
        PyErr_SetString(PyExc_TypeError, "the object's __array_interface__ isn't complete");
        return NULL;
    }
    if (name[0] == '>')
        return PyErr_Format(PyExc_ValueError, "given numpy array has byte order different from the native byte order. "
                            "Conversion between byte orders is currently not supported."), NULL;
    td_dtype dtype = TD_DTYPE_NONE;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (strcmp(spellings[i].numpy + 1, name + 1) == 0)
            dtype = spellings[i].dtype;
    if (dtype == TD_DTYPE_NONE) {
        PyObject *kind = PyObject_GetAttrString(array, "dtype"), *type = kind ? PyObject_GetAttrString(kind, "type") : NULL;
        if (!type)
            PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "can't convert np.ndarray of type %s. The only supported types are: float64, float32, "
                     "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.",
                     type && PyType_Check(type) ? ((PyTypeObject *)type)->tp_name : name);
        Py_XDECREF(kind);
        Py_XDECREF(type);
        return NULL;
    }
    Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    if (ndim > TD_MAX_DIMS)
        return PyErr_Format(PyExc_ValueError, "the array has too many dimensions (%zd)", ndim), NULL;
    int64_t sizes[TD_MAX_DIMS], steps[TD_MAX_DIMS], itemsize = (int64_t)td_dtype_size(dtype), n = 1;
    for (Py_ssize_t i = 0; i < ndim; i++) {
        sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        n *= sizes[i] != 0;
    }
    if (PyErr_Occurred())
        return NULL;
    /* The interface leaves strides out where NumPy calls the array contiguous, whatever they are: the array itself has them. */
    PyObject *strides = PyObject_GetAttrString(array, "strides");
    bool spaced = strides && PyTuple_Check(strides) && PyTuple_GET_SIZE(strides) == ndim, whole = true;
    for (Py_ssize_t i = 0; spaced && i < ndim; i++) {
        steps[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
        whole &= steps[i] % itemsize == 0;
        steps[i] /= itemsize;
        if (n == 0 && steps[i] < 0)
            steps[i] = -steps[i];
    }
    Py_XDECREF(strides);
    if (!strides || PyErr_Occurred())
        return NULL;
    if (!whole)
        return PyErr_Format(PyExc_ValueError, "given numpy array strides not a multiple of the element byte size. Copy "
                            "the numpy array to reallocate the memory."), NULL;
    void *memory = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
    if (PyErr_Occurred())
        return NULL;
    bool readonly = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 1;
    if (readonly && to_write && PyErr_WarnEx(PyExc_UserWarning, "The given NumPy array is not writable: the tensor is non-writable "
                                 "(read-only), too, and writing to it is an error. Copy the array to write.", 1) < 0)
        return NULL;
    Py_INCREF(array);
    td_tensor *x = td_tensor_from_memory(memory, ndim, sizes, spaced ? steps : NULL, dtype, (td_device){TD_CPU, -1},
                                         td_py_drop, array);
    if (!x) {
        Py_DECREF(array);
        return td_py_raise();
    }
    if (readonly)
        td_storage_set_readonly(td_tensor_storage(x));
    return x;
}

static td_tensor *over_array(PyObject *array, bool to_write)
{
    if (!td_py_is_numpy_array(array))
        return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(array)->tp_name), NULL;
    PyObject *interface = PyObject_GetAttrString(array, "__array_interface__");
    if (!interface)
        return NULL;
    td_tensor *x = from_interface(array, interface, to_write);
    Py_DECREF(interface);
    return x;
}
td_tensor *td_py_from_numpy(PyObject *array) { return over_array(array, true); }
td_tensor *td_py_read_numpy(PyObject *array) { return over_array(array, false); }

static PyObject *from_numpy(PyObject *m, PyObject *array)
{
    (void)m;
    td_tensor *x = td_py_from_numpy(array);
    if (x && !(x = td_py_lifted(x)))
        return td_py_raise();
    return x ? td_py_wrap(x) : NULL;
}

/* ---- to NumPy */

/* The storage, too: x may get another one while an array looks at this. */
typedef struct { PyObject_HEAD td_tensor *x; td_storage *s; } Lender;
static void lender_dealloc(PyObject *self)
{
    td_tensor_release(((Lender *)self)->x);
    td_storage_release(((Lender *)self)->s);
    PyObject_Free(self);
}
static PyObject *int_tuple(int n, const int64_t *values, int64_t factor)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n && tuple; i++) {
        PyObject *number = PyLong_FromLongLong(values[i] * factor);
        if (!number)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, number);
    }
    return tuple;
}
static PyObject *lender_interface(PyObject *self, void *unused)
{
    (void)unused;
    td_tensor *x = ((Lender *)self)->x;
    int ndim = td_tensor_ndim(x);
    bool readonly = td_tensor_is_read_only(x);
    void *address;
    if (td_py_address(x, &address))
        return NULL;
    return Py_BuildValue("{s:N,s:N,s:s,s:(NO),s:i}", "shape", int_tuple(ndim, td_tensor_sizes(x), 1), "strides",
                         int_tuple(ndim, td_tensor_strides(x), (int64_t)td_dtype_size(td_tensor_dtype(x))), "typestr",
                         spellings[spelling_of(td_tensor_dtype(x))].numpy, "data", PyLong_FromVoidPtr(address),
                         readonly ? Py_True : Py_False, "version", 3);
}
static PyGetSetDef lender_getset[] = {{"__array_interface__", lender_interface, NULL, NULL, NULL}, {NULL}};
static PyTypeObject lender_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._Lender",
    .tp_basicsize = sizeof(Lender),
    .tp_doc = "Holds a tensor's memory for an array.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = lender_dealloc,
    .tp_getset = lender_getset,
};

static td_tensor *plain_of(td_tensor *x, bool force)
{
    td_device device = td_tensor_device(x);
    if (device.type != TD_CPU && !force) {
        char text[32];
        return PyErr_Format(PyExc_TypeError, "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
                            "to host memory first.", td_device_str(device, text)), NULL;
    }
    if (td_requires_grad(x) && td_grad_enabled() && !force)
        return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                            "instead."), NULL;
    if (!force && (td_tensor_is_conj(x) || td_tensor_is_neg(x)))
        return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that has %s bit set. Use tensor.resolve_%s()."
                            "numpy() instead.", td_tensor_is_conj(x) ? "conjugate" : "negative",
                            td_tensor_is_conj(x) ? "conj" : "neg"), NULL;
    if (spelling_of(td_tensor_dtype(x)) < 0)
        return PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType %s", td_dtype_title(td_tensor_dtype(x))), NULL;
    td_tensor *plain = td_requires_grad(x) ? td_tensor_alias(x, false) : td_tensor_retain(x);
    if (plain && (td_tensor_is_conj(plain) || td_tensor_is_neg(plain))) {
        td_tensor *resolved = td_py_resolved(plain);
        td_tensor_release(plain);
        plain = resolved;
        if (!plain)
            return NULL;
    }
    if (plain && device.type != TD_CPU) {
        td_tensor *moved = td_py_to(plain, TD_DTYPE_NONE, (td_device){TD_CPU, -1}, false, false, TD_MEMORY_FORMAT_NONE);
        td_tensor_release(plain);
        return moved;
    }
    return plain ? plain : td_py_raise();
}

int td_py_item(td_tensor *x, td_scalar *value)
{
    const bool asks = td_tensor_is_hollow(x) || (td_tensor_device(x).type == TD_META && td_tensor_is_python(x));   /* its class knows the number */
    if (!td_py_seen() && !asks && (td_tensor_storage(x) || td_tensor_numel(x) != 1))
        return td_tensor_item(x, value);
    return td__local_scalar_dense(value, x);
}

/* Whether a tensor stands for others: a wrapper subclass, or the many of a vmap; with an error. */
bool td_py_without_data(td_tensor *x, const char *what)
{
    if (td_tensor_is_hollow(x))
        return PyErr_Format(PyExc_RuntimeError, "%s is not supported for tensor subclasses.", what), true;
    if (!td_wrapper_level(x) && (td_tensor_storage(x) || td_tensor_layout(x) == TD_STRIDED))
        return false;
    PyErr_SetString(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    return true;
}

PyObject *td_py_numpy(PyObject *self, bool force)
{
    static PyObject *asarray;
    const td_layout_kind *kind = td_layout_describe(td_tensor_layout(td_py_x(self)));
    if (kind)
        return PyErr_Format(PyExc_TypeError, "can't convert %s layout tensor to numpy. Use Tensor.to_dense() first.",
                            kind->title ? kind->title : kind->name);
    if (!asarray) {
        PyObject *numpy = PyImport_ImportModule("numpy");
        asarray = numpy ? PyObject_GetAttrString(numpy, "asarray") : NULL;
        Py_XDECREF(numpy);
        if (!asarray) {
            if (PyErr_ExceptionMatches(PyExc_ImportError)) {
                PyErr_Clear();
                PyErr_SetString(PyExc_RuntimeError, "Numpy is not available");
            }
            return NULL;
        }
    }
    if (td_py_without_data(td_py_x(self), ".numpy()"))
        return NULL;
    td_tensor *x = plain_of(td_py_x(self), force);
    if (!x)
        return NULL;
    Lender *lender = PyObject_New(Lender, &lender_type);
    if (!lender) {
        td_tensor_release(x);
        return NULL;
    }
    lender->x = x;
    lender->s = td_storage_retain(td_tensor_storage(x));
    if (td_tensor_storage(x))
        td_storage_fix_size(td_tensor_storage(x));
    PyObject *array = PyObject_CallOneArg(asarray, (PyObject *)lender);
    Py_DECREF(lender);
    return array;
}

PyObject *td_py_method_numpy(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"force", NULL};
    int force = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|$p:numpy", names, &force))
        return NULL;
    return td_py_numpy(self, force);
}

PyObject *td_py_method_array(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    PyObject *array = td_py_numpy(self, false);
    if (array && dtype != Py_None) {
        PyObject *other = PyObject_CallMethod(array, "astype", "OsssO", dtype, "K", "unsafe", "", Py_False);
        if (!other && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            other = PyObject_CallMethod(array, "astype", "O", dtype);
        }
        Py_SETREF(array, other);
    }
    if (array && copy == Py_True)
        Py_SETREF(array, PyObject_CallMethod(array, "copy", NULL));
    return array;
}

/* ---- buffers */

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    td_tensor *x = td_py_x(self);
    int spelling = spelling_of(td_tensor_dtype(x));
    view->obj = NULL;
    if (TD_UNLIKELY(td_py_taken_over(self)) || td_tensor_is_hollow(x))       /* NumPy goes on to __array__, which is overridden */
        return PyErr_Format(PyExc_BufferError, "a tensor of a class or under a mode that takes calls over has no buffer"), -1;
    if (td_requires_grad(x) || td_tensor_device(x).type != TD_CPU || spelling < 0 || td_tensor_is_conj(x) ||
        td_tensor_is_neg(x) || td_tensor_layout(x) != TD_STRIDED)
        return PyErr_Format(PyExc_BufferError, "this tensor has no buffer: it requires a gradient, isn't strided, isn't on the CPU or has "
                            "no native dtype"), -1;
    if (flags & PyBUF_WRITABLE && td_tensor_is_read_only(x))
        return PyErr_Format(PyExc_BufferError, "the tensor is read-only"), -1;
    int ndim = td_tensor_ndim(x);
    if (!(flags & PyBUF_STRIDES) && !td_tensor_is_contiguous(x))
        return PyErr_Format(PyExc_BufferError, "the tensor is not contiguous"), -1;
    void *address;
    if (td_py_address(x, &address))
        return -1;
    Py_ssize_t itemsize = (Py_ssize_t)td_dtype_size(td_tensor_dtype(x));
    Py_ssize_t *shape = PyMem_Malloc(sizeof *shape * (2 * (size_t)ndim + 1));
    if (!shape)
        return PyErr_NoMemory(), -1;
    for (int i = 0; i < ndim; i++) {
        shape[i] = td_tensor_sizes(x)[i];
        shape[ndim + i] = td_tensor_strides(x)[i] * itemsize;
    }
    view->obj = Py_NewRef(self);
    view->buf = address;
    view->len = td_tensor_numel(x) * itemsize;
    view->itemsize = itemsize;
    view->readonly = td_tensor_is_read_only(x);
    view->format = flags & PyBUF_FORMAT ? (char *)spellings[spelling].format : NULL;
    view->ndim = flags & PyBUF_ND ? ndim : 1;
    view->shape = flags & PyBUF_ND ? shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shape + ndim : NULL;
    view->suboffsets = NULL;
    view->internal = shape;
    return 0;
}
static void release_buffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    PyMem_Free(view->internal);
}
PyBufferProcs td_py_buffer = {get_buffer, release_buffer};

static void release_view(void *context)
{
    /* Py_buffer must be released with the GIL, so it is wrapped as a memoryview and dropped like any object. */
    td_py_drop(context);
}

static PyObject *frombuffer(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    static char *names[] = {"buffer", "dtype", "count", "offset", "requires_grad", NULL};
    PyObject *source, *type = NULL;
    Py_ssize_t count = -1, offset = 0;
    int requires_grad = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$Onnp:frombuffer", names, &source, &type, &count, &offset, &requires_grad))
        return NULL;
    if (!type)
        return PyErr_Format(PyExc_TypeError, "frombuffer() missing 1 required positional arguments: \"dtype\"");
    td_dtype dtype;
    if (!td_py_as_dtype(type, &dtype))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "frombuffer(): argument 'dtype' must be torch.dtype, not %s",
                            Py_TYPE(type)->tp_name);
    if (!PyObject_CheckBuffer(source))
        return PyErr_Format(PyExc_ValueError, "object does not implement Python buffer protocol.");
    PyObject *view = PyMemoryView_FromObject(source);
    if (!view)
        return NULL;
    Py_buffer *b = PyMemoryView_GET_BUFFER(view);
    Py_ssize_t size = (Py_ssize_t)td_dtype_size(dtype), length = b->len;
    if (length <= 0 || count == 0)
        PyErr_Format(PyExc_ValueError, "both buffer length (%zd) and count (%zd) must not be 0", length, count);
    else if (offset < 0 || offset >= length)
        PyErr_Format(PyExc_ValueError, "offset (%zd bytes) must be non-negative and no greater than buffer length (%zd bytes) "
                     "minus 1", offset, length);
    else if (count < 0 && (length - offset) % size)
        PyErr_Format(PyExc_ValueError, "buffer length (%zd bytes) after offset (%zd bytes) must be a multiple of element size "
                     "(%zd)", length - offset, offset, size);
    else if (count > 0 && count > (length - offset) / size)
        PyErr_Format(PyExc_ValueError, "requested buffer length (%zd * %zd bytes) after offset (%zd bytes) must not be greater "
                     "than actual buffer length (%zd bytes)", count, size, offset, length);
    else if (!PyBuffer_IsContiguous(b, 'C'))
        PyErr_SetString(PyExc_ValueError, "the buffer is not contiguous");
    if (PyErr_Occurred()) {
        Py_DECREF(view);
        return NULL;
    }
    if (b->readonly && PyErr_WarnEx(PyExc_UserWarning, "The given buffer is not writable: the tensor is read-only, and writing to "
                                    "it is an error. Copy the buffer to write.", 1) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    int64_t n = count < 0 ? (length - offset) / size : count;
    td_tensor *x = td_tensor_from_memory((char *)b->buf + offset, 1, &n, NULL, dtype, (td_device){TD_CPU, -1}, release_view,
                                         view);
    if (!x) {
        Py_DECREF(view);
        return td_py_raise();
    }
    if (b->readonly)
        td_storage_set_readonly(td_tensor_storage(x));
    if (requires_grad && td_set_requires_grad(x, true) < 0) {
        td_tensor_release(x);
        return td_py_raise();
    }
    return td_py_wrap(x);
}

static PyMethodDef functions[] = {
    {"from_numpy", from_numpy, METH_O, "from_numpy(ndarray)\n\nA tensor over an array's memory."},
    {"frombuffer", (PyCFunction)(void (*)(void))frombuffer, METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n\nA 1-D tensor over an object's buffer."},
    {NULL},
};

int td_py_interop_init(PyObject *module)
{
    if (PyType_Ready(&lender_type) < 0 || td_py_dlpack_init(module) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
