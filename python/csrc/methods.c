/* Methods of tensors that are no operators, where they are short and often called; the others are Python's
 * (tede/_tensor.py). */
#include "calls_csrc_methods.h"
#include "binding.h"
#include <tede/layout.h>
#include <tede/transforms.h>
#include <tede/autograd_nodes.h>

#define OVERRIDDEN(name)                                                                     \
    if (TD_UNLIKELY(td_py_taken_over(self)))                                                  \
        return td_py_override_method(name, &self, 1)
#define OVERRIDDEN_CALL(name)                                                                 \
    if (TD_UNLIKELY(td_py_taken_over(self)))                                                  \
        return td_py_override_method_call(name, self, args, nargs, kwnames)

/* A method without arguments, which classes and modes may take over as Tensor.<name>. */
#define NAMED(f, name)                                                                                        \
    static PyObject *f##_itself(PyObject *self, PyObject *unused);                                            \
    static PyObject *f(PyObject *self, PyObject *unused) { OVERRIDDEN(name); return f##_itself(self, unused); } \
    static PyObject *f##_itself(PyObject *self, PyObject *unused)
#define NOARGS(f) NAMED(f, #f)

/* The same for a method with positional arguments and keywords. */
static PyObject *taken_over(const char *name, PyObject *self, PyObject *args, PyObject *kw)
{
    Py_ssize_t nargs = PyTuple_GET_SIZE(args), at = nargs;
    PyObject *kwnames = kw ? PySequence_Tuple(kw) : NULL, **all = NULL, *result = NULL;
    if ((kw && !kwnames) || !(all = PyMem_Malloc((size_t)(nargs + (kw ? PyDict_GET_SIZE(kw) : 0) + 1) * sizeof *all)))
        goto end;
    for (Py_ssize_t i = 0; i < nargs; i++)
        all[i] = PyTuple_GET_ITEM(args, i);
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        all[at++] = PyDict_GetItemWithError(kw, PyTuple_GET_ITEM(kwnames, i));
    result = td_py_override_method_call(name, self, all, nargs, kwnames);
end:
    PyMem_Free(all);
    Py_XDECREF(kwnames);
    return result ? result : PyErr_Occurred() ? NULL : PyErr_NoMemory();
}
#define WITH_WORDS(f, name, itself)                                                                           \
    static PyObject *f(PyObject *self, PyObject *args, PyObject *kw)                                          \
    { return TD_UNLIKELY(td_py_taken_over(self)) ? taken_over(name, self, args, kw) : itself(self, args, kw); }
#define WITH_HOOK(f, name, itself)                                                                            \
    static PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)            \
    {                                                                                                         \
        PyObject *hook = td_py_only(name, "hook", args, nargs, kwnames);                                      \
        if (hook && TD_UNLIKELY(td_py_taken_over(self)))                                                      \
            return td_py_override_method_call(name, self, &hook, 1, NULL);                                    \
        return hook ? itself(self, hook) : NULL;                                                              \
    }

/* The dimension that a caller names, wrapped: -1 with an error. `o` may be a keyword's value. */
static int dimension(const char *method, PyObject *o, int ndim)
{
    int64_t dim;
    int found = td_py_as_int(o, &dim, false);
    if (found < 0)
        return -1;
    if (!found)
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' (position 1) must be int, not %s", method,
                            Py_TYPE(o)->tp_name), -1;
    int limit = ndim ? ndim : 1;
    if (dim < -limit || dim >= limit || ndim == 0) {
        if (ndim == 0)
            PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
        else
            PyErr_Format(PyExc_IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -limit,
                         limit - 1, (long long)dim);
        return -1;
    }
    return (int)(dim < 0 ? dim + ndim : dim);
}
/* The only argument of size(dim) and stride(dim): NULL if there is none, with an error if there are others. */
static PyObject *only_argument(const char *method, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (n == 0)
        return NULL;
    if (n > 1)
        return PyErr_Format(PyExc_TypeError, "%s() takes at most 1 argument (%zd given)", method, n);
    if (kwnames && PyTuple_GET_SIZE(kwnames) && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "dim") != 0)
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method,
                            PyTuple_GET_ITEM(kwnames, 0));
    return args[0] == Py_None ? NULL : args[0];
}
/* Takes over a tuple, or NULL. */
static PyObject *item_of(PyObject *tuple, Py_ssize_t i)
{
    PyObject *item = tuple ? PySequence_GetItem(tuple, i) : NULL;
    Py_XDECREF(tuple);
    return item;
}
static PyObject *size_of(int64_t size, int dim)
{
    if (TD_UNLIKELY(td_size_is_symbol(size)) && !td_symbol_id(size))
        return PyErr_Format(PyExc_RuntimeError, "Given dimension %d is irregular and does not have a size.", dim), NULL;
    return td_py_long_of_size(size);
}
static PyObject *size(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    OVERRIDDEN_CALL("size");
    PyObject *which = only_argument("size", args, nargs, kwnames);
    if (!which)
        return PyErr_Occurred() ? NULL : td_py_shape(self);
    int ndim = td_py_dim(self), dim = ndim < 0 ? -1 : dimension("size", which, ndim);
    if (dim >= 0 && !td_py_shows_others(self))
        return size_of(td_tensor_sizes(td_py_x(self))[dim], dim);
    return dim < 0 ? NULL : item_of(td_py_shape(self), dim);
}
static PyObject *stride(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    OVERRIDDEN_CALL("stride");
    PyObject *which = only_argument("stride", args, nargs, kwnames), *all = PyErr_Occurred() ? NULL : td_py_strides(self);
    if (!which || !all)
        return all;
    int dim = dimension("stride", which, (int)PyTuple_GET_SIZE(all));
    if (dim < 0)
        Py_CLEAR(all);
    return item_of(all, dim);
}

NOARGS(dim)
{
    (void)unused;
    int n = td_py_dim(self);
    return n < 0 ? NULL : PyLong_FromLong(n);
}
NAMED(ndimension, "ndimension") { return dim_itself(self, unused); }
NOARGS(numel)
{
    (void)unused;
    int64_t n = td_py_numel(self, "sym_numel");
    return n < 0 ? NULL : td_py_shown(self, n);
}
NAMED(nelement, "nelement") { return numel_itself(self, unused); }
NOARGS(element_size) { (void)unused; return PyLong_FromSize_t(td_dtype_size(td_tensor_dtype(td_py_x(self)))); }
NOARGS(storage_offset)
{
    (void)unused;
    int64_t n = td_py_offset(self);
    return PyErr_Occurred() ? NULL : td_py_shown(self, n);
}
NOARGS(data_ptr)
{
    (void)unused;
    td_tensor *x = td_py_x(self);
    int64_t n = td_py_numel(self, "numel");
    if (n < 0)
        return NULL;
    if (td_tensor_is_hollow(x))
        return PyLong_FromLong(0);
    const td_layout_kind *kind = TD_UNLIKELY(td_tensor_layout(x) != TD_STRIDED) ? td_layout_describe(td_tensor_layout(x)) : NULL;
    td_layout_part parts[TD_LAYOUT_PARTS];
    if (kind && kind->flags & TD_LAYOUT_SHOWN_STRIDED && kind->parts(x, parts) > 0)      /* one block of memory */
        x = parts[0].tensor;
    if (td_py_without_data(x, "data_ptr()"))
        return NULL;
    void *address = NULL;
    return n && td_py_address(x, &address) ? NULL : PyLong_FromVoidPtr(address);
}
NOARGS(is_floating_point) { (void)unused; return PyBool_FromLong(td_dtype_is_floating(td_tensor_dtype(td_py_x(self)))); }
NOARGS(is_complex) { (void)unused; return PyBool_FromLong(td_dtype_is_complex(td_tensor_dtype(td_py_x(self)))); }
NOARGS(is_signed) { (void)unused; return PyBool_FromLong(td_dtype_is_signed(td_tensor_dtype(td_py_x(self)))); }
NOARGS(is_conj) { (void)unused; return PyBool_FromLong(td_wrapper_any(td_py_x(self), td_tensor_is_conj)); }
NOARGS(is_neg) { (void)unused; return PyBool_FromLong(td_wrapper_any(td_py_x(self), td_tensor_is_neg)); }
NOARGS(is_inference) { (void)unused; return PyBool_FromLong(td_tensor_is_inference(td_py_x(self))); }
NOARGS(is_read_only) { (void)unused; return PyBool_FromLong(td_tensor_is_read_only(td_py_x(self))); }
NOARGS(read_only)
{
    (void)unused;
    td_tensor *view = td_alias(td_py_x(self));
    if (!view)
        return td_py_raise();
    td_tensor_set_read_only(view);
    return td_py_wrap(view);
}
NOARGS(get_device)
{
    (void)unused;
    td_device device;
    return td_py_device_of(self, &device) < 0 ? NULL : PyLong_FromLong(device.type == TD_CPU || device.type == TD_META ? -1 : device.index);
}
NOARGS(untyped_storage) { (void)unused; return td_py_storage(td_py_x(self)); }

NOARGS(item)
{
    (void)unused;
    td_scalar value;
    td_tensor *x = td_py_x(self);
    if (td_tensor_numel(x) != 1)
        return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                            (long long)td_tensor_numel(x));
    return td_py_item(x, &value) < 0 ? td_py_raise() : td_py_number_of(value);
}
NOARGS(tolist)
{
    (void)unused;
    td_tensor *x = td_tensor_retain(td_py_x(self));
    while (td_wrapper_level(x) && !td_wrapper_is_batch(x)) {    /* of grad or jvp: its numbers are the value's */
        td_tensor *value = td_transform_unwrap(x, -1, NULL);
        td_tensor_release(x);
        x = value;
    }
    PyObject *list = td_py_without_data(x, ".tolist()") ? NULL : td_py_tolist(x);
    td_tensor_release(x);
    return list;
}
NAMED(number_complex, "__complex__")
{
    (void)unused;
    td_scalar value;
    td_tensor *x = td_py_x(self);
    if (td_tensor_numel(x) != 1)
        return PyErr_Format(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    if (td_py_item(x, &value) < 0)
        return td_py_raise();
    return PyComplex_FromDoubles(value.kind == TD_SCALAR_COMPLEX ? value.d : td_scalar_double(value), value.imag);
}

static PyObject *is_contiguous_itself(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"memory_format", NULL};
    PyObject *format = NULL;
    if ((kw || PyTuple_GET_SIZE(args)) &&
        !PyArg_ParseTupleAndKeywords(args, kw, "|$O!:is_contiguous", names, &td_py_memory_format_type, &format))
        return NULL;
    int is = td_py_contiguous(self, format);
    return is < 0 ? NULL : PyBool_FromLong(is);
}
WITH_WORDS(is_contiguous, "is_contiguous", is_contiguous_itself)

/* ---- conversions */

/* A call that reads x, which is kept where other code may run meanwhile: a hook may drop the program's last reference. */
#define READING(x, call)                                                                      \
    do {                                                                                      \
        const int way = td_py_way(td_tensor_numel(x) > TD_PY_LONG);                           \
        if (TD_UNLIKELY(way))                                                                 \
            td_tensor_retain(x);                                                              \
        TD_PY_WORK_BY(way, call);                                                             \
        if (TD_UNLIKELY(way))                                                                 \
            td_tensor_release(x);                                                             \
    } while (0)

td_tensor *td_py_to(td_tensor *x, td_dtype dtype, td_device device, bool non_blocking, bool copy, int format)
{
    td_tensor *made;
    READING(x, made = td_to_dtype_layout(x, dtype, device, non_blocking, copy, format));
    return made ? made : td_py_raise();
}
td_tensor *td_py_copy(td_tensor *x)
{
    td_tensor *made;
    READING(x, made = td_clone(x));
    return made ? made : td_py_raise();
}
td_tensor *td_py_resolved(td_tensor *x)
{
    td_tensor *plain = td_resolve_conj(x), *made = td_resolve_neg(plain);
    td_tensor_release(plain);
    return made ? made : td_py_raise();
}

static PyObject *bad_to(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (PyErr_Occurred())
        return NULL;
    PyObject *types = PyUnicode_FromString("");
    Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    for (Py_ssize_t i = 0; i < n && types; i++) {
        const char *type = Py_TYPE(args[i])->tp_name;
        if (strncmp(type, "tede.", 5) == 0 || strncmp(type, "torch.", 6) == 0)
            type = strchr(type, '.') + 1;
        PyObject *longer = i < nargs ? PyUnicode_FromFormat("%U%s%s", types, i ? ", " : "", type)
                                     : PyUnicode_FromFormat("%U%s%U=%s", types, i ? ", " : "",
                                                            PyTuple_GET_ITEM(kwnames, i - nargs), type);
        Py_SETREF(types, longer);
    }
    if (types)
        PyErr_Format(PyExc_TypeError, "to() received an invalid combination of arguments - got (%U), but expected one of:\n"
                     " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, "
                     "*, torch.memory_format memory_format = None)\n"
                     " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format "
                     "memory_format = None)\n"
                     " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format "
                     "= None)\n", types);
    Py_XDECREF(types);
    return NULL;
}

static PyObject *to(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (TD_UNLIKELY(td_py_taken_over(self)))
        return td_py_override_method_call("to", self, args, nargs, kwnames);
    td_dtype dtype = TD_DTYPE_NONE;
    td_device device = TD_DEVICE_NONE;
    PyObject *flags[2] = {NULL, NULL}, *format = NULL;
    Py_ssize_t at = 0;
    if (nargs && args[0] != Py_None) {
        int found;
        if (td_py_is_tensor(args[0])) {
            dtype = td_tensor_dtype(td_py_x(args[0])), device = td_tensor_device(td_py_x(args[0]));
            at = 1;
        } else if (td_py_as_dtype(args[0], &dtype)) {
            at = 1;
        } else if ((found = td_py_as_device(args[0], &device)) < 0) {
            return NULL;
        } else if (!found) {
            return bad_to(args, nargs, kwnames);
        } else {
            at = 1;
            if (nargs > 1 && (args[1] == Py_None || td_py_as_dtype(args[1], &dtype)))
                at = 2;
        }
    } else if (nargs) {
        at = 1;
        if (nargs > 1 && (args[1] == Py_None || td_py_as_dtype(args[1], &dtype)))
            at = 2;
    }
    if (nargs - at > 2)
        return bad_to(args, nargs, kwnames);
    for (int i = 0; at < nargs; at++, i++)
        flags[i] = args[at];
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        const char *keyword = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
        PyObject *value = args[nargs + k];
        bool fine = keyword != NULL;
        if (!keyword)
            return NULL;
        if (!strcmp(keyword, "dtype")) {
            fine = value == Py_None || td_py_as_dtype(value, &dtype);
        } else if (!strcmp(keyword, "device")) {
            int found = value == Py_None ? 1 : td_py_as_device(value, &device);
            if (found < 0)
                return NULL;
            fine = found;
        } else if (!strcmp(keyword, "other") || !strcmp(keyword, "tensor")) {
            fine = td_py_is_tensor(value);
            if (fine)
                dtype = td_tensor_dtype(td_py_x(value)), device = td_tensor_device(td_py_x(value));
        } else if (!strcmp(keyword, "non_blocking")) {
            flags[0] = value;
        } else if (!strcmp(keyword, "copy")) {
            flags[1] = value;
        } else if (!strcmp(keyword, "memory_format")) {
            fine = value == Py_None || Py_IS_TYPE(value, &td_py_memory_format_type);
            format = value == Py_None ? NULL : value;
        } else {
            fine = false;
        }
        if (!fine)
            return bad_to(args, nargs, kwnames);
    }
    for (int i = 0; i < 2; i++)
        if (flags[i] && !PyBool_Check(flags[i]))
            return bad_to(args, nargs, kwnames);
    td_tensor *x = td_py_x(self);
    return td_py_wrap(td_py_to(x, dtype, device, flags[0] == Py_True, flags[1] == Py_True,
                               format ? ((EnumObject *)format)->code : TD_MEMORY_FORMAT_NONE));
}

static PyObject *convert(PyObject *self, PyObject *args, PyObject *kw, td_dtype dtype, td_device device, const char *method)
{
    static char *names[] = {"memory_format", NULL};
    PyObject *format = Py_None;
    if ((kw || PyTuple_GET_SIZE(args)) && !PyArg_ParseTupleAndKeywords(args, kw, "|$O", names, &format))
        return NULL;
    if (TD_UNLIKELY(td_py_taken_over(self)))
        return taken_over(method, self, args, kw);
    if (format != Py_None && !Py_IS_TYPE(format, &td_py_memory_format_type))
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'memory_format' must be torch.memory_format, not %s", method, Py_TYPE(format)->tp_name);
    int code = Py_IS_TYPE(format, &td_py_memory_format_type) ? ((EnumObject *)format)->code : TD_MEMORY_FORMAT_NONE;
    td_tensor *made = td_py_to(td_py_x(self), dtype, device, false, false, code);
    return made ? td_py_wrap(made) : NULL;
}
#define CONVERSIONS(_)                                                                                              \
    _(float, TD_F32, "float32") _(double, TD_F64, "float64") _(half, TD_F16, "float16") _(bfloat16, TD_BF16, "bfloat16") \
    _(int, TD_I32, "int32") _(long, TD_I64, "int64") _(short, TD_I16, "int16") _(char, TD_I8, "int8") _(byte, TD_U8, "uint8") \
    _(bool, TD_BOOL, "bool") _(cfloat, TD_C64, "complex64") _(cdouble, TD_C128, "complex128") _(chalf, TD_C32, "complex32")
#define CONVERSION(name, dtype, word) \
    static PyObject *to_##name(PyObject *self, PyObject *args, PyObject *kw)                                        \
    { return convert(self, args, kw, dtype, TD_DEVICE_NONE, #name); }
CONVERSIONS(CONVERSION)

static PyObject *cpu(PyObject *self, PyObject *args, PyObject *kw)
{
    return convert(self, args, kw, TD_DTYPE_NONE, (td_device){TD_CPU, -1}, "cpu");
}

/* ---- gradients */

static PyObject *refuse_inside(const char *name, const char *perhaps)
{
    return PyErr_Format(PyExc_RuntimeError, "You are attempting to call Tensor.%s()%s inside of a function being transformed by a "
                        "functorch transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, "
                        "jacrev, jacfwd, hessian) or call %s() outside of a function being transformed instead.", name, perhaps, name);
}

static PyObject *requires_grad_(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    OVERRIDDEN_CALL("requires_grad_");
    PyObject *value = Py_True;
    Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (n > 1 || (kwnames && PyTuple_GET_SIZE(kwnames) &&
                  PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "requires_grad") != 0))
        return PyErr_Format(PyExc_TypeError, "requires_grad_() takes one argument, requires_grad");
    if (n)
        value = args[0];
    if (!PyBool_Check(value))
        return PyErr_Format(PyExc_TypeError, "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not %s",
                            Py_TYPE(value)->tp_name);
    if (value == Py_True && td_transform_level())
        return refuse_inside("requires_grad_", " (or perhaps using torch.autograd.functional.* APIs)");
    const td_dtype dtype = td_tensor_dtype(td_py_x(self));
    if (value == Py_True && !td_dtype_is_floating(dtype) && !td_dtype_is_complex(dtype))    /* in other words than the attribute's */
        return PyErr_Format(PyExc_RuntimeError, "only Tensors of floating point dtype can require gradients");
    if (td_set_requires_grad(td_py_x(self), value == Py_True) < 0)
        return td_py_raise();
    return Py_NewRef(self);
}
NOARGS(retain_grad)
{
    (void)unused;
    if (td_transform_level())
        return refuse_inside("retain_grad", "");
    if (td_retain_grad(td_py_x(self)) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}

NOARGS(detach_)
{
    (void)unused;
    if (td_inference_mode())                    /* no history is kept, so none is cut off, of a view either */
        return Py_NewRef(self);
    if (td_detach_history(td_py_x(self)) < 0)
        return td_py_raise();
    return Py_NewRef(self);
}

/* ---- iteration: a view at a time */

typedef struct { PyObject_HEAD td_tensor *x; const int64_t *sizes, *strides; int64_t i, n, offset; int ndim; } IterObject;
static void iter_dealloc(PyObject *self)
{
    td_tensor_release(((IterObject *)self)->x);
    PyObject_Free(self);
}
static PyObject *iter_next(PyObject *self)
{
    IterObject *it = (IterObject *)self;
    if (it->i >= it->n)
        return NULL;
    int64_t offset = it->offset;
    it->i++;
    it->offset += it->strides[-1];
    return td_py_wrap(td_tensor_view(it->x, it->ndim, it->sizes, it->strides, offset));
}
static PyObject *iter_length(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((IterObject *)self)->n - ((IterObject *)self)->i);
}
NAMED(is_view, "_is_view")
{
    (void)unused;
    return PyBool_FromLong(td_tensor_base(td_py_x(self)) != NULL);
}

static PyMethodDef iter_methods[] = {{"__length_hint__", iter_length, METH_NOARGS, NULL}, {NULL}};
PyTypeObject td_py_Iter = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._TensorIterator",
    .tp_basicsize = sizeof(IterObject),
    .tp_doc = "Iterates over the first dimension of a tensor.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = iter_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = iter_next,
    .tp_methods = iter_methods,
};

PyObject *td_py_iter(PyObject *self)
{
    td_tensor *x = td_py_x(self);
    if (td_tensor_ndim(x) == 0)
        return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
    if (!td_is_plain(x) || !td_py_is_exact(self) || td_py_function_modes > 0 || !td_tensor_storage(x)) {
        PyObject *parts = PyObject_CallMethod(self, "unbind", "i", 0), *it = parts ? PyObject_GetIter(parts) : NULL;
        Py_XDECREF(parts);
        return it;
    }
    IterObject *it = PyObject_New(IterObject, &td_py_Iter);
    if (it) {
        /* The geometry may change under way (x.data = ...): the iterator keeps a view of what x is now. */
        it->x = td_tensor_view(x, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_strides(x), 0);
        if (!it->x) {
            Py_DECREF(it);
            return td_py_raise();
        }
        it->i = it->offset = 0, it->n = td_tensor_sizes(x)[0];
        it->ndim = td_tensor_ndim(x) - 1, it->sizes = td_tensor_sizes(it->x) + 1, it->strides = td_tensor_strides(it->x) + 1;
    }
    return (PyObject *)it;
}

int td_py_contains(PyObject *self, PyObject *value)
{
    if (TD_UNLIKELY(td_py_taken_over(self))) {
        PyObject *answer = td_py_override_method("__contains__", (PyObject *[]){self, value}, 2);
        int is = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return is;
    }
    td_scalar scalar;
    int found = td_py_is_tensor(value) ? 1 : td_py_as_scalar(value, &scalar, false);
    if (found < 0)
        return -1;
    if (!found)
        return PyErr_Format(PyExc_RuntimeError, "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                            Py_TYPE(value)), -1;
    PyObject *same = PyObject_RichCompare(self, value, Py_EQ);
    PyObject *any = same && td_py_is_tensor(same) ? PyObject_CallMethod(same, "any", NULL) : Py_XNewRef(same);
    int result = any ? PyObject_IsTrue(any) : -1;
    Py_XDECREF(same);
    Py_XDECREF(any);
    return result;
}

WITH_HOOK(register_hook, "register_hook", td_py_register_hook)
WITH_HOOK(register_leaf_hook, "register_post_accumulate_grad_hook", td_py_register_leaf_hook)
WITH_WORDS(method_backward, "backward", td_py_backward_method)
WITH_WORDS(method_numpy, "numpy", td_py_method_numpy)
WITH_WORDS(method_array, "__array__", td_py_method_array)
WITH_WORDS(method_dlpack, "__dlpack__", td_py_method_dlpack)
NAMED(dlpack_device, "__dlpack_device__") { return td_py_method_dlpack_device(self, unused); }

#define FAST(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
#define WORDS(f) (PyCFunction)(void (*)(void))f, METH_VARARGS | METH_KEYWORDS
#define CONVERSION_ROW(name, dtype, word)                              \
    {#name, WORDS(to_##name), #name "($self, memory_format=None)\n--\n\n" \
     "``to(tede." word ")``: the tensor with its elements converted; itself where it has that dtype already."},
PyMethodDef td_py_methods[] = {
    {"size", FAST(size),
     "size($self, dim=None)\n--\n\nThe sizes of all dimensions, or of one.\n\n"
     "    >>> tede.ones(2, 3).size(), tede.ones(2, 3).size(-1)\n    (tede.Size([2, 3]), 3)"},
    {"stride", FAST(stride),
     "stride($self, dim=None)\n--\n\nHow many elements lie between neighbours of each dimension, or of one.\n\n"
     "    >>> tede.ones(2, 3).stride()\n    (3, 1)"},
    {"dim", dim, METH_NOARGS,
     "dim($self)\n--\n\nThe number of dimensions; ``ndim`` is the same.\n\n    >>> tede.ones(2, 3).dim()\n    2"},
    {"ndimension", ndimension, METH_NOARGS,
     "ndimension($self)\n--\n\nThe number of dimensions; ``dim()`` is the same.\n\n    >>> tede.ones(2, 3).ndimension()\n    2"},
    {"numel", numel, METH_NOARGS,
     "numel($self)\n--\n\nThe number of elements.\n\n    >>> tede.ones(2, 3).numel()\n    6"},
    {"nelement", nelement, METH_NOARGS,
     "nelement($self)\n--\n\nThe number of elements; ``numel()`` is the same.\n\n    >>> tede.ones(2, 3).nelement()\n    6"},
    {"element_size", element_size, METH_NOARGS,
     "element_size($self)\n--\n\nHow many bytes an element takes.\n\n    >>> tede.ones(2, dtype=tede.float64).element_size()\n"
     "    8"},
    {"storage_offset", storage_offset, METH_NOARGS,
     "storage_offset($self)\n--\n\nWhere in its storage the first element is, in elements.\n\n"
     "    >>> tede.arange(4)[2:].storage_offset()\n    2"},
    {"data_ptr", data_ptr, METH_NOARGS,
     "data_ptr($self)\n--\n\nThe address of the first element.\n\n    >>> x = tede.ones(2)\n"
     "    >>> x.view(2, 1).data_ptr() == x.data_ptr()\n    True"},
    {"is_floating_point", is_floating_point, METH_NOARGS,
     "is_floating_point($self)\n--\n\nWhether the dtype is one of floating point numbers; complex ones aren't.\n\n"
     "    >>> tede.ones(2).is_floating_point()\n    True"},
    {"is_complex", is_complex, METH_NOARGS,
     "is_complex($self)\n--\n\nWhether the dtype is complex.\n\n    >>> tede.ones(2).is_complex()\n    False"},
    {"is_signed", is_signed, METH_NOARGS,
     "is_signed($self)\n--\n\nWhether the dtype has negative numbers.\n\n    >>> tede.ones(2, dtype=tede.uint8).is_signed()\n"
     "    False"},
    {"is_conj", is_conj, METH_NOARGS,
     "is_conj($self)\n--\n\nWhether the tensor is a view whose elements are still to be conjugated: what ``conj()`` gives.\n\n"
     "    >>> tede.tensor([1j]).conj().is_conj()\n    True"},
    {"is_neg", is_neg, METH_NOARGS,
     "is_neg($self)\n--\n\n"
     "Whether the tensor is a view whose elements are still to be negated: what ``imag`` of a ``conj()`` gives.\n\n"
     "    >>> tede.tensor([1j]).conj().imag.is_neg()\n    True"},
    {"is_inference", is_inference, METH_NOARGS,
     "is_inference($self)\n--\n\nWhether it was made in ``inference_mode``, so that autograd can't record it.\n\n"
     "    >>> tede.ones(2).is_inference()\n    False"},
    {"is_read_only", is_read_only, METH_NOARGS, "Whether writing to the tensor is an error."},
    {"read_only", read_only, METH_NOARGS, "A view of the tensor through which, and through whose views, nothing can be written."},
    {"is_pinned", FAST(td_py_is_pinned),
     "is_pinned($self, device=None)\n--\n\nWhether the memory is locked, see ``pin_memory``."},
    {"pin_memory", (PyCFunction)(void (*)(void))td_py_pin_memory, METH_FASTCALL | METH_KEYWORDS,
     "pin_memory(device=None): the tensor in page-locked memory, from which an accelerator copies while the CPU goes on."},
    {"record_stream", td_py_record_stream, METH_O, "Its memory isn't reused before the work that is queued on the stream is done."},
    {"get_device", get_device, METH_NOARGS,
     "get_device($self)\n--\n\nThe number of the device that it lies on; -1 for the CPU.\n\n"
     "    >>> tede.ones(2).get_device()\n    -1"},
    {"untyped_storage", untyped_storage, METH_NOARGS, "The bytes beneath."},
    {"is_contiguous", WORDS(is_contiguous),
     "is_contiguous($self, *, memory_format=None)\n--\n\n"
     "Whether the elements lie row by row in memory, or in the order of another format.\n\n"
     "    >>> tede.ones(2, 3).t().is_contiguous()\n    False"},
    {"item", item, METH_NOARGS,
     "item($self)\n--\n\nThe value of a tensor with one element, as a Python number; a RuntimeError for others.\n\n"
     "    >>> tede.tensor([2.5]).item()\n    2.5"},
    {"tolist", tolist, METH_NOARGS,
     "tolist($self)\n--\n\nThe elements as nested lists, or a number.\n\n    >>> tede.tensor([[1, 2], [3, 4]]).tolist()\n"
     "    [[1, 2], [3, 4]]"},
    {"__complex__", number_complex, METH_NOARGS, NULL},
    {"to", FAST(to), "to(dtype), to(device, dtype=None), to(other): converted, or itself if nothing changes."},
    CONVERSIONS(CONVERSION_ROW)
    {"cpu", WORDS(cpu),
     "cpu($self, memory_format=None)\n--\n\nThe tensor on the CPU; itself where it lies there already.\n\n"
     "    >>> x = tede.ones(2)\n    >>> x.cpu() is x\n    True"},
    {"requires_grad_", FAST(requires_grad_),
     "requires_grad_($self, requires_grad=True)\n--\n\n"
     "Let autograd note what is done with the tensor from now on, or no longer; returns the tensor.\n\n"
     "    >>> tede.ones(2).requires_grad_()\n    tensor([1., 1.], requires_grad=True)"},
    {"retain_grad", retain_grad, METH_NOARGS,
     "retain_grad($self)\n--\n\nLet ``grad`` be filled in by a backward pass, though the tensor isn't a leaf.\n\n"
     "    >>> x = tede.ones(2, requires_grad=True)\n    >>> y = x * 3\n    >>> y.retain_grad()\n    >>> y.sum().backward()\n"
     "    >>> y.grad\n    tensor([1., 1.])"},
    {"_is_view", is_view, METH_NOARGS, "Whether it is a view of another tensor."},
    {"detach_", detach_, METH_NOARGS,
     "detach_($self)\n--\n\nForget the history, in place; returns the tensor.\n\n"
     "    >>> y = tede.ones(2, requires_grad=True) * 3\n    >>> y.detach_().requires_grad\n    False"},
    {"backward", WORDS(method_backward), "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
     "Add the gradients of this result to those of the leaves that it was computed from."},
    {"register_hook", FAST(register_hook), "register_hook($self, hook)\n--\n\nCall a function with the gradient when it is known; it may replace it."},
    {"register_post_accumulate_grad_hook", FAST(register_leaf_hook),
     "register_post_accumulate_grad_hook($self, hook)\n--\n\nCall a function with the leaf once its gradient has been added to."},
    {"new_tensor", FAST(td_py_new_tensor),
     "new_tensor($self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False)\n--\n\n"
     "``tede.tensor(data)`` of the same dtype and on the same device, unless said otherwise.\n\n"
     "    >>> tede.ones(1, dtype=tede.float64).new_tensor([1, 2])\n    tensor([1., 2.], dtype=torch.float64)"},
    {"numpy", WORDS(method_numpy), "A NumPy array over the same memory."},
    {"__array__", WORDS(method_array), NULL},
    {"__dlpack__", WORDS(method_dlpack), NULL},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, NULL},
    {NULL},
};
