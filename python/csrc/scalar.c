/* Conversion of numbers from and to Python's, NumPy's and 0-dim tensors; and tensors as nested lists. */
#include "binding.h"
#include <tede/kernel.h>

static bool gives_value(td_tensor *x)
{
    return td_tensor_ndim(x) == 0 && !td_requires_grad(x);
}

PyObject *td_py_number_behind(PyObject *symbolic)
{
    return PyObject_GetAttrString(symbolic, "_number");
}

int td_py_as_scalar(PyObject *o, td_scalar *value, bool tensors)
{
    if (PyFloat_Check(o)) {
        *value = td_float(PyFloat_AS_DOUBLE(o));
        return 1;
    }
    if (PyBool_Check(o)) {
        *value = td_bool(o == Py_True);
        return 1;
    }
    if (PyLong_Check(o)) {
        int overflow;
        int64_t n = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (!overflow) {
            *value = td_int(n);
            return 1;
        }
        uint64_t u = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
        if (overflow < 0 || PyErr_Occurred()) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_OverflowError, "int too big to convert");
            return -1;
        }
        value->kind = TD_SCALAR_UINT, value->u = u, value->imag = 0;
        return 1;
    }
    if (PyComplex_Check(o)) {
        Py_complex z = PyComplex_AsCComplex(o);
        *value = td_complex(z.real, z.imag);
        return 1;
    }
    if (tensors && td_py_is_tensor(o)) {
        if (!gives_value(td_py_x(o)))
            return 0;
        return td_py_item(td_py_x(o), value) < 0 ? (td_py_raise(), -1) : 1;
    }
    if (td_py_is_symbolic(o)) {
        TD_PY_AUTO PyObject *number = td_py_number_behind(o);
        return number ? td_py_as_scalar(number, value, false) : -1;
    }
    if (td_py_is_numpy_scalar(o)) {
        PyObject *number = td_py_numpy_item(o);
        if (!number)
            return -1;
        int found = Py_IS_TYPE(number, Py_TYPE(o)) ? 0 : td_py_as_scalar(number, value, false);
        Py_DECREF(number);
        return found;
    }
    return 0;
}

static int unpacked(PyObject *o, int64_t *value)
{
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    return overflow ? -1 : 1;
}
static int index_of(PyObject *o, int64_t *value)
{
    PyObject *index = PyNumber_Index(o);
    if (!index) {
        PyErr_Clear();      /* numpy.bool_ and such have the slot, but refuse */
        return 0;
    }
    int found = unpacked(index, value);
    Py_DECREF(index);
    return found;
}

int td_py_as_int(PyObject *o, int64_t *value, bool bools)
{
    if (PyLong_Check(o)) {
        if (PyBool_Check(o) && !bools)
            return 0;
        return unpacked(o, value);
    }
    if (td_py_is_symbolic(o)) {
        TD_PY_AUTO PyObject *number = td_py_number_behind(o);
        return !number ? -1 : PyLong_Check(number) ? td_py_as_int(number, value, bools) : 0;
    }
    if (td_py_is_tensor(o)) {
        td_scalar scalar;
        td_tensor *x = td_py_x(o);
        if (!td_dtype_is_integral(td_tensor_dtype(x)) || !gives_value(x))
            return 0;
        if (td_py_item(x, &scalar) < 0)
            return td_py_raise(), -1;
        *value = td_scalar_int(scalar);
        return 1;
    }
    return PyIndex_Check(o) && !td_py_is_numpy_array(o) ? index_of(o, value) : 0;
}

int td_py_as_size(PyObject *o, int64_t *value)
{
    if (td_py_is_tensor(o)) {
        td_scalar only;
        td_tensor *x = td_py_x(o);
        if (td_dtype_is_floating(td_tensor_dtype(x)) || td_dtype_is_complex(td_tensor_dtype(x)) || td_tensor_numel(x) != 1)
            return 0;
        return td_py_item(x, &only) < 0 ? (td_py_raise(), -1) : (*value = td_scalar_int(only), 1);
    }
    return td_py_is_numpy_array(o) && PyIndex_Check(o) ? index_of(o, value) : td_py_as_int(o, value, false);
}

PyObject *td_py_number_of(td_scalar value)
{
    switch (value.kind) {
    case TD_SCALAR_BOOL: return PyBool_FromLong(value.i != 0);
    case TD_SCALAR_INT: return PyLong_FromLongLong(value.i);
    case TD_SCALAR_FLOAT: return PyFloat_FromDouble(value.d);
    case TD_SCALAR_UINT: return PyLong_FromUnsignedLongLong(value.u);
    default: return PyComplex_FromDoubles(value.d, value.imag);
    }
}

/* ---- tolist */

static PyObject *element(td_dtype dtype, const char *at)
{
    double wide;
    _Alignas(16) char p[16];        /* elements may be unaligned */
    memcpy(p, at, td_dtype_size(dtype));
    switch (dtype) {
    case TD_BOOL: return PyBool_FromLong(*(const uint8_t *)p);
    case TD_U8: return PyLong_FromLong(*(const uint8_t *)p);
    case TD_I8: return PyLong_FromLong(*(const int8_t *)p);
    case TD_I16: return PyLong_FromLong(*(const int16_t *)p);
    case TD_U16: return PyLong_FromLong(*(const uint16_t *)p);
    case TD_I32: return PyLong_FromLong(*(const int32_t *)p);
    case TD_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)p);
    case TD_I64: return PyLong_FromLongLong(*(const int64_t *)p);
    case TD_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
    case TD_F32: return PyFloat_FromDouble(*(const float *)p);
    case TD_F64: return PyFloat_FromDouble(*(const double *)p);
    case TD_C64: return PyComplex_FromDoubles(((const float *)p)[0], ((const float *)p)[1]);
    case TD_C32: {
        float both[2];
        td_convert(TD_F32, both, 4, TD_F16, p, 2, 2);
        return PyComplex_FromDoubles(both[0], both[1]);
    }
    case TD_C128: return PyComplex_FromDoubles(((const double *)p)[0], ((const double *)p)[1]);
    default:
        td_convert(TD_F64, &wide, 0, dtype, p, 0, 1);
        return PyFloat_FromDouble(wide);
    }
}

static PyObject *nested(td_tensor *x, int dim, const char *p)
{
    td_dtype dtype = td_tensor_dtype(x);
    if (dim == td_tensor_ndim(x))
        return element(dtype, p);
    int64_t n = td_tensor_sizes(x)[dim], step = td_tensor_strides(x)[dim] * (int64_t)td_dtype_size(dtype);
    bool last = dim + 1 == td_tensor_ndim(x);
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; i < n && list; i++) {
        PyObject *item = last ? element(dtype, p + i * step) : nested(x, dim + 1, p + i * step);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

int td_py_address(td_tensor *x, void **address)
{
    *address = td_tensor_data(x);
    return *address || !td_tensor_numel(x) || td_tensor_device(x).type == TD_META ? 0 : (td_py_raise(), -1);
}

PyObject *td_py_tolist(td_tensor *x)
{
    td_tensor *plain = NULL;
    if (td_tensor_is_conj(x) || td_tensor_is_neg(x) || td_tensor_device(x).type != TD_CPU) {
        if (td_tensor_device(x).type == TD_META)
            return PyErr_Format(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
        if (!(x = plain = td_py_resolved(x)))
            return NULL;
    }
    const td_dtype dtype = td_tensor_dtype(x);
    const bool foreign = dtype >= TD_DTYPE_A;
    if (dtype >= TD_F4_E2M1FN_X2 && dtype <= TD_QU2X4)
        return PyErr_Format(PyExc_RuntimeError, "load_scalar: invalid type");
    if (td_tensor_device(x).type > TD_META || foreign || !td_tensor_storage(x)) {
        if (!td_tensor_storage(x)) {
            td_tensor_release(plain);
            return PyErr_Format(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage: tolist() needs a strided "
                                "one; use to_dense() first");
        }
        td_tensor *here = td_py_to(x, foreign ? TD_F32 : TD_DTYPE_NONE, (td_device){TD_CPU, -1}, false, false, TD_MEMORY_FORMAT_NONE);
        td_tensor_release(plain);
        if (!here)
            return NULL;
        plain = x = here;
    }
    void *data;
    PyObject *list = td_py_address(x, &data) ? NULL : nested(x, 0, data);
    td_tensor_release(plain);
    return list;
}
