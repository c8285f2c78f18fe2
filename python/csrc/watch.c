/* _C._watch(function, kinds, details): this thread's events (tede/trace.h), passed to a Python function one by one, as
 *
 *     (kind, time, name, keys, pointer, numbers, details)
 *
 * for the kinds of events whose bits are set; details, which are None if they aren't asked for, are the values of a call, the sizes
 * and strides of an iteration, or the tensor of a copy.  Tensors are described by tuples: an object would keep its tensor alive, and
 * so change what is watched. */
#include "binding.h"
#include <tede/device.h>
#include <tede/layout.h>
#include <tede/autograd_nodes.h>
#include <tede/trace.h>

static _Thread_local PyObject *listener;
static _Thread_local unsigned long wanted;
static _Thread_local int detailed;

/* (data pointer, storage pointer, storage bytes, dtype, sizes, strides, offset, device, requires_grad, node name) */
static PyObject *described_tensor(const td_tensor *x)
{
    if (!x || x == TD_NONE)
        Py_RETURN_NONE;
    int ndim = td_tensor_ndim(x);
    PyObject *sizes = td_py_size(ndim, td_tensor_sizes(x)), *strides = PyTuple_New(ndim);
    for (int d = 0; strides && d < ndim; d++)
        PyTuple_SET_ITEM(strides, d, PyLong_FromLongLong(td_tensor_strides(x)[d]));
    td_storage *storage = td_tensor_storage(x);
    td_node *node = NULL;
    int output;
    const char *name = NULL;
    if (td_requires_grad((td_tensor *)x) && td_history((td_tensor *)x, &node, &output) == 0 && node)
        name = td_node_name(node);
    PyObject *result = sizes && strides ? Py_BuildValue("(KKKONNLNOz)", (unsigned long long)(uintptr_t)(storage ? td_tensor_data(x) : NULL),
                                                        (unsigned long long)(uintptr_t)(storage ? td_storage_data(storage) : NULL),
                                                        (unsigned long long)(storage ? td_storage_nbytes(storage) : 0),
                                                        td_py_dtype(td_tensor_dtype(x)), sizes, strides,
                                                        (long long)td_tensor_offset(x), td_py_device(td_tensor_device(x)),
                                                        td_requires_grad((td_tensor *)x) ? Py_True : Py_False, name) : NULL;
    td_node_drop(node);
    return result;
}

static PyObject *described_value(const td_value *v)
{
    PyObject *list;
    switch (v->kind) {
    case TD_VALUE_TENSOR:
        return described_tensor(v->tensor);
    case TD_VALUE_TENSORS:
        list = PyList_New(0);
        for (int i = 0; list && i < v->count; i++) {
            PyObject *item = described_tensor(v->tensors[i]);
            if (!item || PyList_Append(list, item) < 0)
                Py_CLEAR(list);
            Py_XDECREF(item);
        }
        return list;
    case TD_VALUE_INTS:
        list = PyList_New(v->count);
        for (int i = 0; list && i < v->count; i++)
            PyList_SET_ITEM(list, i, PyLong_FromLongLong(v->ints[i]));
        return list;
    case TD_VALUE_BOOL:
        return PyBool_FromLong(v->integer != 0);
    case TD_VALUE_INT:
        return PyLong_FromLongLong(v->integer);
    case TD_VALUE_FLOAT:
        return PyFloat_FromDouble(v->number);
    case TD_VALUE_SCALAR:
        return td_py_number_of(v->scalar);
    case TD_VALUE_STRING:
        return PyUnicode_FromString(v->string ? v->string : "");
    case TD_VALUE_DTYPE:
        return Py_NewRef(td_py_dtype((td_dtype)v->integer));
    case TD_VALUE_DEVICE:
        return td_py_device(v->device);
    default:
        Py_RETURN_NONE;
    }
}

static PyObject *details(const td_trace_event *e)
{
    PyObject *result = NULL;
    if (e->kind == TD_EVENT_CALL || e->kind == TD_EVENT_RETURN) {
        result = PyTuple_New(e->n);
        for (int i = 0; result && i < e->n; i++) {
            PyObject *value = described_value(&e->values[i]);
            if (!value)
                Py_CLEAR(result);
            else
                PyTuple_SET_ITEM(result, i, value);
        }
        const td_op_info *info = td_op_describe(e->op);
        return result ? Py_BuildValue("(sNI)", info->schema, result, (unsigned)info->flags) : NULL;
    }
    if (e->tensor)
        return described_tensor(e->tensor);
    if (!e->sizes)
        Py_RETURN_NONE;
    PyObject *sizes = PyTuple_New(e->n), *strides = PyList_New(0);
    for (int d = 0; sizes && d < e->n; d++)
        PyTuple_SET_ITEM(sizes, d, PyLong_FromLongLong(e->sizes[d]));
    for (int k = 0; strides && e->strides && k < e->numbers[0]; k++) {
        PyObject *row = PyTuple_New(e->n);
        for (int d = 0; row && d < e->n; d++)
            PyTuple_SET_ITEM(row, d, PyLong_FromLongLong(e->strides[k * TD_TRACE_DIMS + d]));
        if (!row || PyList_Append(strides, row) < 0)
            Py_CLEAR(strides);
        Py_XDECREF(row);
    }
    if (sizes && strides)
        return Py_BuildValue("(NN)", sizes, strides);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return NULL;
}

static void on_event(const td_trace_event *e, void *context)
{
    (void)context;
    if (!(wanted >> e->kind & 1))
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *more = detailed ? details(e) : Py_NewRef(Py_None);
    PyObject *args = more ? Py_BuildValue("(iLsKK(LLLL)N)", e->kind, (long long)e->time, e->name ? e->name : "",
                                          (unsigned long long)e->keys, (unsigned long long)(uintptr_t)e->pointer,
                                          (long long)e->numbers[0], (long long)e->numbers[1], (long long)e->numbers[2],
                                          (long long)e->numbers[3], more) : NULL;
    PyObject *result = args && listener ? PyObject_Call(listener, args, NULL) : NULL;
    if (!result)
        PyErr_WriteUnraisable(listener);
    Py_XDECREF(result);
    Py_XDECREF(args);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

static PyObject *watch(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function;
    unsigned long kinds = ~0ul;
    int more = 1;
    if (!PyArg_ParseTuple(args, "O|kp", &function, &kinds, &more))
        return NULL;
    if (function != Py_None && !PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "_watch: a function or None is needed, not %s", Py_TYPE(function)->tp_name);
    if (td_watch(function == Py_None ? NULL : on_event, NULL) < 0)
        return td_py_raise();
    wanted = kinds, detailed = more;
    Py_XSETREF(listener, function == Py_None ? NULL : Py_NewRef(function));
    Py_RETURN_NONE;
}

/* The address of the library's own code, by which a kernel's address becomes an offset in the file. */
static PyObject *anchor(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)td_watch);
}

static int name_key(PyObject *names, int bit, const char *name)
{
    PyObject *key = PyLong_FromLong(bit), *value = PyUnicode_FromString(name);
    int status = key && value ? PyDict_SetItem(names, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return status;
}

/* {bit of a key set: the key's name}. */
static PyObject *key_names(PyObject *m, PyObject *unused)
{
    static const struct { int bit; const char *name; } keys[] = {
        {TD_CPU, "CPU"}, {TD_META, "Meta"}, {TD_CUDA, "CUDA"}, {TD_OPENCL, "OpenCL"}, {TD_KEY_DENSE, "Dense"},
        {TD_KEY_UNWRAP, "Unwrap"}, {TD_KEY_UNALIGNED, "Unaligned"}, {TD_KEY_NEGATIVE, "Negative"},
        {TD_KEY_CONJUGATE, "Conjugate"}, {TD_KEY_AUTOGRAD, "Autograd"}, {TD_KEY_FORWARD_AD, "ForwardAD"}, {TD_KEY_PARTS, "Parts"},
        {TD_KEY_PROFILER, "Profiler"}, {TD_KEY_TRACING, "Tracing"}, {TD_KEY_AUTOCAST, "Autocast"}, {TD_KEY_FUNCTIONALIZE, "Functionalize"}, {TD_KEY_TRANSFORMS, "Transforms"},
        {TD_KEY_PYTHON, "Python"},
    };
    (void)m, (void)unused;
    PyObject *names = PyDict_New();
    for (size_t i = 0; names && i < sizeof keys / sizeof *keys; i++)
        if (name_key(names, keys[i].bit, keys[i].name) < 0)
            Py_CLEAR(names);
    for (int type = TD_META + 1; names && type < TD_DEVICE_TYPES; type++) {
        char name[32];
        if (td_device_count(type) && name_key(names, type, td_device_str((td_device){(int8_t)type, -1}, name)) < 0)
            Py_CLEAR(names);
    }
    for (int layout = TD_STRIDED + 1; names && layout < TD_LAYOUTS; layout++) {
        const td_layout_kind *kind = td_layout_describe(layout);
        if (kind && !kind->family && name_key(names, td_layout_key(layout), kind->title ? kind->title : kind->name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

static PyObject *set_strict_views(PyObject *m, PyObject *on)
{
    (void)m;
    int strict = PyObject_IsTrue(on);
    return strict < 0 ? NULL : PyBool_FromLong(td_set_strict_views(strict));
}

static PyMethodDef functions[] = {
    {"_key_names", key_names, METH_NOARGS, NULL},
    {"_set_strict_views", set_strict_views, METH_O, NULL},
    {"_watch", watch, METH_VARARGS, "Tell a function what happens on this thread; None ends that."},
    {"_anchor", anchor, METH_NOARGS, NULL},
    {NULL},
};

int td_py_watch_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
