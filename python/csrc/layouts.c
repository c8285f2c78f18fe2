/* zeros(3, layout=sparse_coo) and its like: factories with another layout than that of their kernels. */
#include "calls_csrc_layouts.h"
#include "binding.h"
#include <tede/layout.h>
#include <tede/spec.h>

static const td_value *argument(const td_op_info *info, const td_value *values, const char *name)
{
    const int i = td_argument_named(info, name);
    return i < 0 || values[i].kind == TD_VALUE_NONE ? NULL : &values[i];
}

/* On a strided model instead of a sparse one. */
static td_tensor *strided(const td_op *op, const td_op_info *info, const td_value *values, td_dtype dtype)
{
    const td_tensor *like = values[0].tensor;
    td_value copy[TD_PY_ARGS], result;
    memcpy(copy, values, sizeof *values * (size_t)info->n_arguments);
    copy[0].tensor = td_zeros(td_tensor_ndim(like), td_tensor_sizes(like), dtype, TD_DEVICE_NONE);
    if (!copy[0].tensor)
        return td_py_raise();
    int failed = td_op_call(op, copy, &result);
    td_tensor_release(copy[0].tensor);
    return failed ? td_py_raise() : result.tensor;
}

td_tensor *td_py_of_layout(const td_op *op, const td_value *values, int layout)
{
    const td_op_info *info = td_op_describe(op);
    const td_layout_kind *kind = td_layout_describe(layout);
    const td_value *like = argument(info, values, "self"), *size = argument(info, values, "size"), *dtype = argument(info, values, "dtype"),
                   *device = argument(info, values, "device");
    td_dtype of = dtype ? (td_dtype)dtype->integer : like ? td_tensor_dtype(like->tensor) : td_default_dtype();
    if (layout == TD_STRIDED)
        return strided(op, info, values, of);
    if (!size && like && td_tensor_layout(like->tensor) == layout) {    /* kernels follow their model */
        td_value copy[TD_PY_ARGS], result;
        memcpy(copy, values, sizeof *values * (size_t)info->n_arguments);
        for (int i = 0; i < info->n_arguments; i++)
            if (copy[i].kind == TD_VALUE_LAYOUT)
                copy[i].kind = TD_VALUE_NONE;
        return td_op_call(op, copy, &result) ? td_py_raise() : result.tensor;
    }
    if (!(info->flags & TD_OP_MAKES_ZEROS) || (!like && !size) || !kind || !kind->zeros)
        return PyErr_Format(PyExc_RuntimeError, "%s(...) is not implemented for %s layout", info->name,
                            kind && kind->flags & TD_LAYOUT_ZEROS && layout < TD_LAYOUTS_KNOWN ? "sparse" : td_layout_name(layout)), NULL;
    td_tensor *made = kind->zeros(layout, op, size ? NULL : like->tensor, size ? size->count : td_tensor_ndim(like->tensor),
                                  size ? size->ints : td_tensor_sizes(like->tensor), of,
                                  device ? device->device : like ? td_tensor_device(like->tensor) : TD_DEVICE_NONE);
    return made ? made : td_py_raise();
}

/* ---- parts, for pickling and showing */

/* ((name, a tensor or a number, whether it holds the values), ...) */
static PyObject *layout_parts(PyObject *m, PyObject *o)
{
    (void)m;
    td_layout_part parts[TD_LAYOUT_PARTS];
    if (!td_py_is_tensor(o))
        return PyErr_Format(PyExc_TypeError, "_layout_parts(): a tensor is expected, not %s", Py_TYPE(o)->tp_name);
    int n = td_layout_parts(td_py_x(o), parts);
    PyObject *list = n < 0 ? td_py_raise() : PyTuple_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *part = parts[i].tensor ? td_py_wrap(td_tensor_alias(parts[i].tensor, false)) : PyLong_FromLongLong(parts[i].number);
        PyObject *entry = part ? Py_BuildValue("(sNO)", parts[i].name, part, parts[i].values ? Py_True : Py_False) : NULL;
        if (!entry)
            Py_CLEAR(list);
        else
            PyTuple_SET_ITEM(list, i, entry);
    }
    return list;
}

/* (layout, size, ((name, a tensor or a number), ...)) */
static PyObject *from_layout_parts(PyObject *m, PyObject *arguments)
{
    (void)m;
    PyObject *layout, *size, *list;
    td_layout_part parts[TD_LAYOUT_PARTS] = {{0}};
    int64_t sizes[TD_MAX_DIMS];
    if (!PyArg_ParseTuple(arguments, "OO!O!", &layout, &PyTuple_Type, &size, &PyTuple_Type, &list))
        return NULL;
    const td_layout_kind *kind = Py_IS_TYPE(layout, &td_py_layout_type) ? td_layout_describe(((EnumObject *)layout)->code) : NULL;
    const Py_ssize_t n = PyTuple_GET_SIZE(list), ndim = PyTuple_GET_SIZE(size);
    if (!kind || !kind->from_parts || n > TD_LAYOUT_PARTS || ndim > TD_MAX_DIMS)
        return PyErr_Format(PyExc_ValueError, "_from_layout_parts(): not a layout that is made of parts, or too many of them");
    for (Py_ssize_t i = 0; i < ndim; i++)
        if ((sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(size, i))) == -1 && PyErr_Occurred())
            return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *part;
        if (!PyTuple_Check(PyTuple_GET_ITEM(list, i)) || !PyArg_ParseTuple(PyTuple_GET_ITEM(list, i), "sO", &parts[i].name, &part))
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_from_layout_parts(): parts are (name, tensor or number)");
        if (td_py_is_tensor(part))
            parts[i].tensor = td_py_x(part);
        else if ((parts[i].number = PyLong_AsLongLong(part)) == -1 && PyErr_Occurred())
            return NULL;
    }
    td_tensor *x = kind->from_parts(((EnumObject *)layout)->code, ndim, sizes, (int)n, parts);
    return x ? td_py_wrap(x) : td_py_raise();
}

static PyMethodDef functions[] = {
    {"_layout_parts", layout_parts, METH_O, "What a tensor of another layout than strided is made of: (name, tensor or number, whether it holds the values)."},
    {"_from_layout_parts", from_layout_parts, METH_VARARGS, "A tensor of a layout, a size and parts."},
    {NULL},
};

int td_py_layouts_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
