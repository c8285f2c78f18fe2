/* Factories from Python's data: tensor(), as_tensor(), asarray().
 *
 * Nested sequences are traversed twice: once for shape and dtype, once to store.  Lists and tuples go without
 * iterators; anything else that is a sequence goes by its protocol. */
#include "calls_csrc_factory.h"
#include "binding.h"
#include <tede/kernel.h>

/* ---- shape and dtype of nested data */

static bool is_sequence(PyObject *o)
{
    if (PyList_Check(o) || PyTuple_Check(o))
        return true;
    return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o);
}

/* Lists in lists, beyond which nobody looks: what is within one another may be within itself.  */
enum { DEEPEST = 128 };

/* A list or tuple of a sequence's items: as many as it says that it has. (An iterator could go on for ever.) */
static PyObject *items_of(PyObject *data)
{
    if (PyList_Check(data) || PyTuple_Check(data))
        return Py_NewRef(data);
    Py_ssize_t n = PySequence_Size(data);
    PyObject *items = n < 0 ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item = PySequence_GetItem(data, i);
        if (!item || PyList_Append(items, item) < 0)
            Py_CLEAR(items);
        Py_XDECREF(item);
    }
    return items;
}

static int shape_of(PyObject *data, int64_t *sizes)
{
    int ndim = 0;
    PyObject *at = Py_NewRef(data);
    while (at) {
        if (td_py_is_tensor(at)) {      /* within a sequence it stands for its number */
            if (ndim || td_tensor_ndim(td_py_x(at)) == 0)
                break;
        } else if (PyUnicode_Check(at) || PyBytes_Check(at)) {
            if (ndim)           /* a string of strings of strings ... */
                PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(at)->tp_name);
            break;
        } else if (!is_sequence(at)) {
            break;
        } else if (td_py_is_numpy_array(at)) {
            PyObject *n = PyObject_GetAttrString(at, "ndim");
            long rank = n ? PyLong_AsLong(n) : -1;
            Py_XDECREF(n);
            if (rank <= 0)
                break;
        }
        Py_ssize_t n = PySequence_Size(at);
        if (n < 0) {
            Py_DECREF(at);
            return -1;
        }
        if (ndim == DEEPEST) {
            PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(at)->tp_name);
            Py_DECREF(at);
            return -1;
        }
        if (ndim < TD_MAX_DIMS)
            sizes[ndim] = n;
        ndim++;
        if (n == 0)
            break;
        PyObject *first = PySequence_GetItem(at, 0);
        if (!first) {
            PyErr_Format(PyExc_ValueError, "could not determine the shape of object type '%s'", Py_TYPE(at)->tp_name);
            Py_DECREF(at);
            return -1;
        }
        Py_SETREF(at, first);
    }
    Py_XDECREF(at);
    if (PyErr_Occurred())
        return -1;
    if (ndim > TD_MAX_DIMS) {
        PyErr_Format(PyExc_RuntimeError, "only tensors with up to %d dims are supported, got %d", TD_MAX_DIMS, ndim);
        return -1;
    }
    return ndim;
}

/* The dtype of all of it: *dtype starts as TD_DTYPE_NONE. Sequences below dimension `ndim`, or where the length is another, are no part
 * of a tensor: fill() says so. They aren't read, since lists that share lists may stand for any number of items. */
static int dtype_of(PyObject *data, td_dtype *dtype, int depth, int ndim, const int64_t *sizes)
{
    td_dtype found;
    /* NumPy's double and complex128 are Python numbers by inheritance, but come with a dtype of their own. */
    if (PyFloat_CheckExact(data) || (PyFloat_Check(data) && !td_py_is_numpy_scalar(data))) {
        found = td_default_dtype();
    } else if (PyBool_Check(data)) {
        found = TD_BOOL;
    } else if (PyLong_Check(data)) {
        found = TD_I64;
    } else if (PyComplex_CheckExact(data) || (PyComplex_Check(data) && !td_py_is_numpy_scalar(data))) {
        found = td_dtype_to_complex(td_default_dtype());
    } else if (td_py_is_tensor(data)) {
        found = td_tensor_dtype(td_py_x(data));
    } else if (td_py_is_numpy_array(data) || td_py_is_numpy_scalar(data)) {
        PyObject *array = td_py_is_numpy_array(data) ? Py_NewRef(data) : PyObject_CallMethod(data, "__array__", NULL);
        td_tensor *x = array ? td_py_read_numpy(array) : NULL;
        Py_XDECREF(array);
        if (!x)
            return -1;
        found = td_tensor_dtype(x);
        td_tensor_release(x);
    } else if (PyUnicode_Check(data) || PyBytes_Check(data)) {
        PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(data)->tp_name);
        return -1;
    } else if (is_sequence(data)) {
        if (depth >= ndim)
            return 0;
        PyObject *items = items_of(data);
        if (!items)
            return -1;
        Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
        int failed = 0, below = n == sizes[depth] ? depth + 1 : ndim;
        if (n == 0 && *dtype == TD_DTYPE_NONE)
            *dtype = td_default_dtype();
        for (Py_ssize_t i = 0; i < n && !failed; i++) {
            TD_PY_AUTO PyObject *item = td_py_item_at(items, i);
            if (item == data)
                PyErr_SetString(PyExc_TypeError, "new(): self-referential lists are incompatible");
            if (!item || item == data) {
                failed = -1;
                break;
            }
            if (PyFloat_CheckExact(item) && *dtype == td_default_dtype())
                continue;
            failed = dtype_of(item, dtype, below, ndim, sizes);
        }
        Py_DECREF(items);
        return failed;
    } else {
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(data)->tp_name);
        return -1;
    }
    if (*dtype == TD_DTYPE_NONE || *dtype == found) {
        *dtype = found;
        return 0;
    }
    *dtype = td_promote_types(*dtype, found);
    return *dtype == TD_DTYPE_NONE ? (td_py_raise(), -1) : 0;
}

/* ---- storing */

static int store_int(td_dtype dtype, char *p, PyObject *o)
{
    int64_t n;
    uint64_t u = 0;
    int bits = 8 * (int)td_dtype_size(dtype);
    if (PyFloat_Check(o)) {
        double d = PyFloat_AS_DOUBLE(o), high = ldexp(1, bits - td_dtype_is_signed(dtype));
        if (!(d >= (td_dtype_is_signed(dtype) ? -high : 0) && d < high))
            return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                                td_dtype_name(dtype)), -1;
        n = dtype == TD_U64 ? (int64_t)(uint64_t)d : (int64_t)d;
    } else {
        PyObject *index = PyNumber_Index(o);
        if (!index)
            return -1;
        int overflow;
        n = PyLong_AsLongLongAndOverflow(index, &overflow);
        if (overflow > 0 && dtype == TD_U64) {
            u = PyLong_AsUnsignedLongLong(index);
            overflow = PyErr_Occurred() != NULL;
            PyErr_Clear();
            n = (int64_t)u;
        }
        Py_DECREF(index);
        if (overflow)
            return PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long"), -1;
    }
    if (bits < 64) {
        int64_t low = -(INT64_C(1) << (bits - 1)), high = INT64_C(1) << (bits - 1);
        if (!td_dtype_is_signed(dtype))
            low = 1 - 2 * high, high *= 2;      /* negative numbers wrap around, as in PyTorch */
        if (n < low || n >= high)
            return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                                td_dtype_name(dtype)), -1;
    }
    switch (td_dtype_size(dtype)) {
    case 1: *(uint8_t *)p = (uint8_t)n; break;
    case 2: *(uint16_t *)p = (uint16_t)n; break;
    case 4: *(uint32_t *)p = (uint32_t)n; break;
    default: *(int64_t *)p = n;
    }
    return 0;
}

static int store(td_dtype dtype, char *p, PyObject *o)
{
    const bool plain = td_py_is_tensor(o) && !td_py_taken_over(o);      /* else it is a number like others */
    if (TD_UNLIKELY(plain || (!PyNumber_Check(o)) || PyList_Check(o) || PyTuple_Check(o))) {
        if (plain) {
            td_scalar scalar;
            if (td_tensor_numel(td_py_x(o)) != 1)
                return PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars"), -1;
            if (td_tensor_item(td_py_x(o), &scalar) < 0)
                return td_py_raise(), -1;
            PyObject *number = td_py_number_of(scalar);
            int failed = number ? store(dtype, p, number) : -1;
            Py_XDECREF(number);
            return failed;
        }
        if (td_dtype_is_floating(dtype))
            return PyErr_Format(PyExc_TypeError, "must be real number, not %s", Py_TYPE(o)->tp_name), -1;
        return PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as an integer", Py_TYPE(o)->tp_name), -1;
    }
    double d;
    switch (dtype) {
    case TD_F4_E2M1FN_X2: case TD_BITS1X8: case TD_BITS2X4: case TD_BITS4X2: case TD_BITS8: case TD_BITS16: case TD_QI8: case TD_QU8: case TD_QI32:
    case TD_QU4X2: case TD_QU2X4:
        return PyErr_Format(PyExc_RuntimeError, "store_scalar: invalid type"), -1;
    case TD_BOOL: {
        int truth = PyObject_IsTrue(o);
        *(uint8_t *)p = (uint8_t)truth;
        return truth < 0 ? -1 : 0;
    }
    case TD_F16: case TD_BF16: case TD_F32: case TD_F64: case TD_F8_E4M3FN: case TD_F8_E5M2: case TD_F8_E4M3FNUZ: case TD_F8_E5M2FNUZ:
    case TD_F8_E8M0FNU:
        d = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : PyFloat_AsDouble(o);
        if (d == -1 && PyErr_Occurred()) {
            if (PyComplex_Check(o)) {
                PyErr_Clear();
                PyErr_Format(PyExc_TypeError, "must be real number, not complex");
            }
            return -1;
        }
        if (dtype == TD_F32)
            *(float *)p = (float)d;
        else if (dtype == TD_F64)
            *(double *)p = d;
        else
            td_convert(dtype, p, 0, TD_F64, &d, 0, 1);
        return 0;
    case TD_C64: case TD_C128: case TD_C32: {
        Py_complex z = PyComplex_AsCComplex(o);
        if (z.real == -1 && PyErr_Occurred())
            return -1;
        if (dtype == TD_C32)
            td_convert(TD_F16, p, 2, TD_F64, &z, 8, 2);
        else if (dtype == TD_C64)
            ((float *)p)[0] = (float)z.real, ((float *)p)[1] = (float)z.imag;
        else
            ((double *)p)[0] = z.real, ((double *)p)[1] = z.imag;
        return 0;
    }
    default: return store_int(dtype, p, o);
    }
}

static int fill(PyObject *data, int dim, int ndim, const int64_t *sizes, const int64_t *steps, td_dtype dtype, char *p)
{
    if (dim == ndim)
        return store(dtype, p, data);
    if (!is_sequence(data))
        return PyErr_SetString(PyExc_TypeError, "not a sequence"), -1;
    PyObject *items = items_of(data);
    if (!items)
        return -1;
    int failed = 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    if (n != sizes[dim]) {
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)", (long long)sizes[dim], dim, n);
        failed = -1;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++, p += steps[dim]) {
        TD_PY_AUTO PyObject *item = td_py_item_at(items, i);
        if (!item)
            failed = -1;
        else if (dim + 1 < ndim)
            failed = fill(item, dim + 1, ndim, sizes, steps, dtype, p);
        else if (dtype == TD_F32 && PyFloat_CheckExact(item))
            *(float *)p = (float)PyFloat_AS_DOUBLE(item);
        else
            failed = store(dtype, p, item);
    }
    Py_DECREF(items);
    return failed;
}

static td_tensor *copy_as(td_tensor *x, td_dtype dtype)
{
    td_tensor *copy = td_tensor_new(td_tensor_ndim(x), td_tensor_sizes(x), dtype, (td_device){TD_CPU, -1});
    if (!copy || td_copy_elements(copy, x) < 0) {
        td_tensor_release(copy);
        return td_py_raise();
    }
    return copy;
}

td_tensor *td_py_tensor_from_data(PyObject *data, td_dtype dtype, td_device device)
{
    td_tensor *x = NULL;
    if (td_py_is_numpy_array(data)) {
        td_tensor *shared = td_py_read_numpy(data);
        x = shared ? copy_as(shared, dtype == TD_DTYPE_NONE ? td_tensor_dtype(shared) : dtype) : NULL;
        td_tensor_release(shared);
    } else {
        if (PyUnicode_Check(data) || PyBytes_Check(data))
            return PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(data)->tp_name), NULL;
        if (PyList_Check(data) && PyList_GET_SIZE(data) && td_py_is_numpy_array(PyList_GET_ITEM(data, 0)) &&
            PyErr_WarnEx(PyExc_UserWarning, "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
                         "converting the list to a single numpy.ndarray with numpy.array() before converting to a tensor.", 1) < 0)
            return NULL;
        int64_t sizes[TD_MAX_DIMS], steps[TD_MAX_DIMS];
        int ndim = shape_of(data, sizes);
        if (ndim < 0)
            return NULL;
        double count = 1;
        for (int i = 0; i < ndim; i++)
            count *= (double)sizes[i];
        if (count > UINT32_MAX) {       /* whether there is room for so many, before each of them is looked at */
            x = td_tensor_new(ndim, sizes, TD_BOOL, (td_device){TD_CPU, -1});
            if (!x)
                return td_py_raise();
            td_tensor_release(x);
        }
        if (dtype == TD_DTYPE_NONE && dtype_of(data, &dtype, 0, ndim, sizes) < 0)
            return NULL;
        x = td_tensor_new(ndim, sizes, dtype, (td_device){TD_CPU, -1});
        if (!x)
            return td_py_raise();
        for (int i = 0; i < ndim; i++)
            steps[i] = td_tensor_strides(x)[i] * (int64_t)td_dtype_size(dtype);
        if (fill(data, 0, ndim, sizes, steps, dtype, td_tensor_data(x)) < 0) {
            td_tensor_release(x);
            return NULL;
        }
    }
    if (x && device.type > TD_CPU) {
        td_tensor *moved = td_py_to(x, TD_DTYPE_NONE, device, false, false, TD_MEMORY_FORMAT_NONE);
        td_tensor_release(x);
        return moved;
    }
    return x;
}

/* ---- the functions */

typedef struct Options { PyObject *data; td_dtype dtype; td_device device; int requires_grad, copy; bool grad_given, pinned; } Options;

/* Parse data and the keywords of all constructors; `positional` of dtype and device may follow data. `device` where none is given. */
static int options(const char *name, const char *first, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                   int positional, td_device device, Options *o)
{
    *o = (Options){NULL, TD_DTYPE_NONE, device, 0, -1, false, false};
    static const char *const words[] = {NULL, "dtype", "device", "requires_grad", "pin_memory", "copy"};
    PyObject *values[6] = {NULL};
    if (nargs > 1 + positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", name, 1 + positional,
                     positional ? "s" : "", nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        values[i] = args[i];
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *word = PyTuple_GET_ITEM(kwnames, k);
        int at = 0;
        while (at < 6 && PyUnicode_CompareWithASCIIString(word, at ? words[at] : first) != 0)
            at++;
        if (at == 6) {
            const char *near = NULL;
            for (int i = 0; i < 6 && PyUnicode_AsUTF8(word); i++)
                near = td_py_nearer(PyUnicode_AsUTF8(word), i ? words[i] : first, near);
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'%s%s%s", name, word,
                         near ? ". Did you mean '" : "", near ? near : "", near ? "'?" : "");
            return -1;
        }
        values[at] = args[nargs + k];
    }
    if (!(o->data = values[0]))
        return PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%s\"", name, first), -1;
    if (values[1] && values[1] != Py_None && !td_py_as_dtype(values[1], &o->dtype))
        return PyErr_Occurred() ? -1 : (PyErr_Format(PyExc_TypeError, "%s(): argument 'dtype' must be torch.dtype, not %s", name,
                            Py_TYPE(values[1])->tp_name), -1);
    if (values[2] && values[2] != Py_None) {
        int found = td_py_as_device(values[2], &o->device);
        if (!found)
            PyErr_Format(PyExc_TypeError, "%s(): argument 'device' must be torch.device, not %s", name,
                         Py_TYPE(values[2])->tp_name);
        if (found <= 0)
            return -1;
    }
    for (int i = 3; i < 6; i++)
        if (values[i] && values[i] != Py_None && !PyBool_Check(values[i]))
            return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be bool, not %s", name, words[i],
                                Py_TYPE(values[i])->tp_name), -1;
    o->requires_grad = values[3] == Py_True;
    o->pinned = values[4] == Py_True;
    o->grad_given = values[3] && values[3] != Py_None;
    if (values[5] && values[5] != Py_None)
        o->copy = values[5] == Py_True;
    return 0;
}

int td_py_require_grad(td_tensor *x)
{
    if (!td_dtype_is_floating(td_tensor_dtype(x)) && !td_dtype_is_complex(td_tensor_dtype(x)))
        return PyErr_Format(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients"), -1;
    return td_set_requires_grad(x, true) < 0 ? (td_py_raise(), -1) : 0;
}

td_tensor *td_py_lifted(td_tensor *x)
{
    if (!x || !td_py_seen())
        return x;
    td_tensor *y = td_lift_fresh(x);
    td_tensor_release(x);
    return y;
}

static PyObject *finish(td_tensor *x, const Options *o)
{
    if (!x)
        return PyErr_Occurred() ? NULL : td_py_raise();
    if ((o->pinned && td_py_pin_new(&x) < 0) || (o->requires_grad && td_py_require_grad(x) < 0)) {
        td_tensor_release(x);
        return NULL;
    }
    return td_py_wrap(x);
}

/* A copy of a tensor's values as a leaf. */
static td_tensor *copy_of(td_tensor *source, td_dtype dtype, td_device device)
{
    td_tensor *plain = td_detach(source), *copy = NULL;
    if (!plain)
        return td_py_raise();
    copy = td_py_to(plain, dtype, device, false, true, TD_MEMORY_FORMAT_NONE);
    td_tensor_release(plain);
    return copy;
}

/* Another library's array, which says so by DLPack's protocol. */
static bool lends_memory(PyObject *data)
{
    return !PyList_Check(data) && !PyTuple_Check(data) && !PyNumber_Check(data) && !td_py_is_numpy_array(data) &&
           PyObject_HasAttrString(data, "__dlpack__");
}

/* Whether the data are a storage; a typed one becomes the bytes beneath it, and its dtype the one asked for.  -1 with an error
 * if that is another. */
static int from_storage(Options *o)
{
    if (PyObject_TypeCheck(o->data, &td_py_Storage))
        return 1;
    if (PyList_Check(o->data) || PyTuple_Check(o->data) || PyNumber_Check(o->data) || td_py_is_numpy_array(o->data))
        return 0;
    PyObject *untyped = PyObject_GetAttrString(o->data, "_untyped_storage"), *dtype = untyped ? PyObject_GetAttrString(o->data, "_dtype") : NULL;
    td_dtype own;
    bool found = dtype && PyObject_TypeCheck(untyped, &td_py_Storage) && Py_REFCNT(untyped) > 1 && td_py_as_dtype(dtype, &own);
    Py_XDECREF(dtype);
    Py_XDECREF(untyped);            /* the typed storage holds it */
    if (!found)
        return PyErr_Clear(), 0;
    if (o->dtype != TD_DTYPE_NONE && o->dtype != own)
        return PyErr_Format(PyExc_RuntimeError, "Expected a Storage of type %s or an UntypedStorage, but got %s", td_dtype_title(o->dtype),
                            td_dtype_title(own)), -1;
    o->dtype = own;
    o->data = untyped;
    return 1;
}
/* The elements of a storage of bytes: of the dtype asked for, else of integers. */
static PyObject *elements(const Options *o)
{
    return td_py_storage_as_tensor(o->data, o->dtype == TD_DTYPE_NONE ? TD_I64 : o->dtype);
}
/* What a mode with a __torch_function__ makes of a call of this module's function. */
static PyObject *overridden(PyObject *m, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *function = PyObject_GetAttrString(m, name);
    PyObject *result = function ? td_py_override(function, args, nargs, kwnames) : NULL;
    Py_XDECREF(function);
    return result;
}
#define MODES_FIRST(name)                                  \
    if (TD_UNLIKELY(td_py_function_modes > 0))      \
        return overridden(m, name, args, nargs, kwnames)

static PyObject *tensor(PyObject *m, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    MODES_FIRST("tensor");
    Options o;
    if (nargs == 1 && !kwnames)
        o = (Options){args[0], TD_DTYPE_NONE, td_py_default_device, 0, -1, false, false};
    else if (options("tensor", "data", args, nargs, kwnames, 0, td_py_default_device, &o) < 0)
        return NULL;
    if (td_py_is_tensor(o.data)) {
        if (PyErr_WarnEx(PyExc_UserWarning, "To copy construct from a tensor, it is recommended to use "
                         "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather "
                         "than torch.tensor(sourceTensor).", 1) < 0)
            return NULL;
        return finish(copy_of(td_py_x(o.data), o.dtype, o.device), &o);
    }
    int stored = from_storage(&o);
    if (stored < 0)
        return NULL;
    if (stored) {           /* the one argument that isn't copied */
        PyObject *shared = elements(&o);
        td_tensor *x = shared ? td_py_to(td_py_x(shared), o.dtype, o.device, false, false, TD_MEMORY_FORMAT_NONE) : NULL;
        Py_XDECREF(shared);
        return x ? finish(x, &o) : NULL;
    }
    if (lends_memory(o.data)) {
        td_tensor *shared = td_py_from_dlpack(o.data), *copy = shared ? copy_of(shared, o.dtype, o.device) : NULL;
        td_tensor_release(shared);
        return copy ? finish(copy, &o) : NULL;
    }
    return finish(td_py_lifted(td_py_tensor_from_data(o.data, o.dtype, o.device)), &o);
}

PyObject *td_py_new_tensor(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (TD_UNLIKELY(td_py_taken_over(self)))
        return td_py_override_method_call("new_tensor", self, args, nargs, kwnames);
    Options o;
    if (options("new_tensor", "data", args, nargs, kwnames, 0, TD_DEVICE_NONE, &o) < 0)
        return NULL;
    td_tensor *like = td_py_x(self);
    if (o.dtype == TD_DTYPE_NONE)
        o.dtype = td_tensor_dtype(like);
    if (o.device.type < 0)
        o.device = td_tensor_device(like);
    int stored = from_storage(&o);
    if (stored < 0)
        return NULL;
    if (stored) {
        PyObject *shared = elements(&o), *made = shared ? finish(copy_of(td_py_x(shared), o.dtype, o.device), &o) : NULL;
        Py_XDECREF(shared);
        return made;
    }
    if (td_py_is_tensor(o.data))
        return finish(copy_of(td_py_x(o.data), o.dtype, o.device), &o);
    return finish(td_py_lifted(td_py_tensor_from_data(o.data, o.dtype, o.device)), &o);
}

/* Without a copy where that is possible; o->copy: 1 always, 0 never, -1 as needed. */
static PyObject *share(const Options *o)
{
    PyObject *data = o->data;
    if (td_py_is_tensor(data)) {
        td_tensor *x = td_py_x(data);
        bool same = (o->dtype == TD_DTYPE_NONE || o->dtype == td_tensor_dtype(x)) &&
                    (o->device.type < 0 || o->device.type == td_tensor_device(x).type);
        if (same && o->copy != 1)
            return Py_NewRef(data);
        td_tensor *made = same ? td_py_copy(x) : td_py_to(x, o->dtype, o->device, false, o->copy == 1, TD_MEMORY_FORMAT_NONE);
        return made ? td_py_wrap(made) : NULL;
    }
    Options of = *o;
    int stored = from_storage(&of);
    if (stored < 0)
        return NULL;
    if (stored) {
        PyObject *shared = of.data = elements(&of), *made = shared ? share(&of) : NULL;
        Py_XDECREF(shared);
        return made;
    }
    td_tensor *x = NULL;
    if (td_py_is_numpy_array(data)) {
        x = td_py_from_numpy(data);
    } else if (lends_memory(data)) {
        x = td_py_from_dlpack(data);
    } else if (!PyList_Check(data) && !PyTuple_Check(data) && PyObject_HasAttrString(data, "__array__") &&
               !td_py_is_numpy_scalar(data)) {
        PyObject *array = PyObject_CallMethod(data, "__array__", NULL);
        x = array ? td_py_from_numpy(array) : NULL;
        Py_XDECREF(array);
    } else {
        if (o->copy == 0)
            return PyErr_Format(PyExc_ValueError, "can't alias arbitrary sequence into a tensor.");
        return finish(td_py_tensor_from_data(data, o->dtype, o->device), o);
    }
    if (!x)
        return NULL;
    td_tensor *made = td_py_to(x, o->dtype, o->device, false, o->copy == 1, TD_MEMORY_FORMAT_NONE);
    td_tensor_release(x);
    return finish(made, o);
}

static PyObject *as_tensor(PyObject *m, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    MODES_FIRST("as_tensor");
    Options o;
    return options("as_tensor", "data", args, nargs, kwnames, 2, td_py_default_device, &o) < 0 ? NULL : share(&o);
}
/* The bytes of a buffer as elements of a dtype, whatever the buffer says they are. */
static PyObject *from_buffer(PyObject *m, PyObject *data, td_dtype dtype)
{
    PyObject *none = PyTuple_Pack(1, data), *function = PyObject_GetAttrString(m, "frombuffer");
    PyObject *kw = Py_BuildValue("{s:O}", "dtype", td_py_dtype(dtype == TD_DTYPE_NONE ? td_default_dtype() : dtype));
    PyObject *x = none && function && kw ? PyObject_Call(function, none, kw) : NULL;
    Py_XDECREF(none);
    Py_XDECREF(function);
    Py_XDECREF(kw);
    return x;
}

static PyObject *as_array(const Options *given)
{
    Options o = *given;
    bool tensor = td_py_is_tensor(o.data);
    if (o.copy == 0 && td_py_is_numpy_scalar(o.data))
        return PyErr_Format(PyExc_RuntimeError, "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ");
    if (o.copy == 0 && tensor) {
        td_tensor *x = td_py_x(o.data);
        char have[32], want[32];
        if (o.device.type >= 0 && o.device.type != td_tensor_device(x).type)
            return PyErr_Format(PyExc_ValueError, "can't alias tensor from device '%s' to '%s'.",
                                td_device_str(td_tensor_device(x), have), td_device_str(o.device, want));
        if (o.dtype != TD_DTYPE_NONE && o.dtype != td_tensor_dtype(x))
            return PyErr_Format(PyExc_ValueError, "can't alias tensor with dtype '%s' into dtype '%s'.",
                                td_dtype_title(td_tensor_dtype(x)), td_dtype_title(o.dtype));
    }
    if (tensor && !o.grad_given && td_requires_grad(td_py_x(o.data))) {
        if (PyErr_WarnEx(PyExc_UserWarning, "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
                         "False. Pass requires_grad=False explicitly to get the old behavior.", 1) < 0)
            return NULL;
        o.requires_grad = true;
    }
    if (tensor) {
        PyObject *x = share(&o);
        if (x && td_requires_grad(td_py_x(x)) != (bool)o.requires_grad) {
            td_tensor *detached = td_tensor_alias(td_py_x(x), false);
            Py_DECREF(x);
            return finish(detached, &o);
        }
        return x;
    }
    return share(&o);
}
static PyObject *asarray(PyObject *m, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    MODES_FIRST("asarray");
    Options o;
    if (options("asarray", "obj", args, nargs, kwnames, 0, td_py_default_device, &o) < 0)
        return NULL;
    PyObject *source = NULL;
    int stored;
    if (PyCapsule_CheckExact(o.data) || td_py_is_numpy_array(o.data)) {
        td_tensor *x = td_py_is_numpy_array(o.data) ? td_py_from_numpy(o.data) : td_py_from_dlpack(o.data);
        source = x ? td_py_wrap(x) : NULL;
    } else if ((stored = from_storage(&o))) {
        source = stored < 0 ? NULL : elements(&o);
    } else if (PyObject_CheckBuffer(o.data) && !td_py_is_tensor(o.data) && !td_py_is_numpy_scalar(o.data)) {
        source = from_buffer(m, o.data, o.dtype);
    } else {
        source = Py_NewRef(o.data);
    }
    if (!source)
        return NULL;
    o.data = source;
    PyObject *result = as_array(&o);
    Py_DECREF(source);
    return result;
}

#define FAST(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"tensor", FAST(tensor), "tensor(data, *, dtype=None, device=None, requires_grad=False)\n\n"
     "A new tensor with a copy of `data`: a number, nested sequences, an array."},
    {"as_tensor", FAST(as_tensor), "as_tensor(data, dtype=None, device=None)\n\n"
     "`data` as a tensor, over the same memory where that is possible."},
    {"asarray", FAST(asarray), "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n\n"
     "`obj` as a tensor; `copy` says whether memory may or must be shared."},
    {NULL},
};

int td_py_factory_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
