/* Hooks on saved tensors, and anomaly mode: where a node remembers the Python lines that made it. */
#include "binding.h"
#include <tede/autograd_nodes.h>

/* ---- saved tensors.  The context is a pair (pack, unpack); a handle is what pack returned. */

static int pack(void *context, td_tensor *x, void **handle)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tensor = td_py_wrap_borrowed(x);
    PyObject *packed = tensor ? PyObject_CallOneArg(PyTuple_GET_ITEM((PyObject *)context, 0), tensor) : NULL;
    int failed = packed ? 0 : td_py_capture();
    *handle = packed;
    Py_XDECREF(tensor);
    PyGILState_Release(state);
    return failed;
}
static td_tensor *unpack(void *context, void *handle)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallOneArg(PyTuple_GET_ITEM((PyObject *)context, 1), handle);
    td_tensor *x = NULL;
    if (!result)
        td_py_capture();
    else if (td_py_is_tensor(result))
        x = td_tensor_retain(td_py_x(result));
    else
        td_error(TD_E_TYPE, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
                 Py_TYPE(result)->tp_name);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return x;
}
static const td_saved_hooks saved_hooks = {pack, unpack, td_py_drop, td_py_drop};

static PyObject *push_hooks(PyObject *m, PyObject *args)
{
    (void)m;
    if (PyTuple_GET_SIZE(args) != 2)
        return PyErr_Format(PyExc_TypeError, "_push_saved_hooks(pack, unpack)");
    Py_INCREF(args);
    td_py_heeds |= TD_PY_CALLS_BACK;
    if (td_saved_hooks_push(&saved_hooks, args) < 0) {
        Py_DECREF(args);
        return td_py_raise();
    }
    Py_RETURN_NONE;
}
static PyObject *pop_hooks(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_saved_hooks_pop();
    Py_RETURN_NONE;
}
static PyObject *disable_hooks(PyObject *m, PyObject *message)
{
    (void)m;
    const char *text = message == Py_None ? NULL : PyUnicode_AsUTF8(message);
    if (PyErr_Occurred())
        return NULL;
    const char *before = td_saved_hooks_disabled();
    PyObject *was = before ? PyUnicode_FromString(before) : Py_NewRef(Py_None);
    if (td_saved_hooks_disable(text) < 0) {
        Py_XDECREF(was);
        return td_py_raise();
    }
    return was;
}

static PyObject *hooks_disabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    const char *message = td_saved_hooks_disabled();
    return message ? PyUnicode_FromString(message) : Py_NewRef(Py_None);
}

/* ---- what a node has saved, as it is kept */

typedef struct { PyObject_HEAD td_node *node; int index; } SavedObject;
static void saved_dealloc(PyObject *self)
{
    td_node_drop(((SavedObject *)self)->node);
    PyObject_Free(self);
}
static PyObject *register_hooks(PyObject *self, PyObject *args)
{
    SavedObject *s = (SavedObject *)self;
    if (PyTuple_GET_SIZE(args) != 2 || !PyCallable_Check(PyTuple_GET_ITEM(args, 0)) || !PyCallable_Check(PyTuple_GET_ITEM(args, 1)))
        return PyErr_Format(PyExc_TypeError, "register_hooks(): incompatible function arguments: it takes two functions, pack_hook and "
                            "unpack_hook");
    Py_INCREF(args);
    if (td_node_saved_hooks(s->node, s->index, &saved_hooks, args) < 0) {
        Py_DECREF(args);
        return td_py_raise();
    }
    Py_RETURN_NONE;
}
static PyObject *saved_value(PyObject *self, void *unused)
{
    (void)unused;
    td_tensor *x = td_node_saved_tensor(((SavedObject *)self)->node, ((SavedObject *)self)->index);
    if (x == TD_NONE)
        Py_RETURN_NONE;
    return td_py_wrap(x);
}
static PyMethodDef saved_methods[] = {
    {"register_hooks", register_hooks, METH_VARARGS, "Keep pack_hook(x) in place of x; unpack_hook gives a tensor back."},
    {NULL},
};
static PyGetSetDef saved_getset[] = {{"data", saved_value, NULL, "The tensor.", NULL}, {NULL}};
static PyObject *saved_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)type, (void)args, (void)kw;
    return PyErr_Format(PyExc_RuntimeError, "Trying to create a SavedTensor object from Python is forbidden.");
}
static PyTypeObject saved_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._autograd.SavedTensor",
    .tp_basicsize = sizeof(SavedObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = saved_new,
    .tp_dealloc = saved_dealloc,
    .tp_methods = saved_methods,
    .tp_getset = saved_getset,
};
PyObject *td_py_raw_saved(td_node *node, int index)
{
    SavedObject *self = PyObject_New(SavedObject, &saved_type);
    if (self) {
        self->node = td_node_hold(node);
        self->index = index;
    }
    return (PyObject *)self;
}

/* ---- anomaly mode.  A record is the list of lines of the stack at the call. */

static void *record(td_node *node)
{
    (void)node;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("traceback");
    PyObject *lines = module ? PyObject_CallMethod(module, "format_stack", NULL) : NULL;
    Py_XDECREF(module);
    PyErr_Clear();
    PyGILState_Release(state);
    return lines;
}
static void report(td_node *node, void *lines, bool is_parent)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *none = lines ? PyUnicode_FromString("") : NULL, *text = none ? PyUnicode_Join(none, lines) : NULL;
    const char *name = td_node_name(node);
    if (!text)
        PyErr_WarnFormat(PyExc_UserWarning, 1, "Error detected in %s. No forward pass information available. Enable detect "
                         "anomaly during forward pass for more information.", name);
    else if (is_parent)
        PyErr_WarnFormat(PyExc_UserWarning, 1, "\n\nPrevious calculation was induced by %s. Traceback of forward call that "
                         "induced the previous calculation:\n%U", name, text);
    else
        PyErr_WarnFormat(PyExc_UserWarning, 1, "Error detected in %s. Traceback of forward call that caused the error:\n%U",
                         name, text);
    if (PyErr_Occurred())                   /* warnings are errors: it is still to be seen, beside the pass's own error */
        PyErr_Print();
    Py_XDECREF(none);
    Py_XDECREF(text);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(state);
}
/* The innermost line of the stack: 'File "train.py", line 3, in step: y.add_(1)'. */
static void line(void *lines, char text[200])
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_ssize_t n = lines && PyList_Check((PyObject *)lines) ? PyList_GET_SIZE((PyObject *)lines) : 0;
    const char *from = n ? PyUnicode_AsUTF8(PyList_GET_ITEM((PyObject *)lines, n - 1)) : NULL;
    int at = 0;
    for (from += from ? strspn(from, " \n") : 0; from && *from && at < 198; from++) {
        if (*from != '\n')
            text[at++] = *from;
        else if (from[1]) {
            text[at++] = ':';
            text[at++] = ' ';
            from += strspn(from + 1, " \n");
        }
    }
    text[at] = 0;
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(state);
}
static const td_anomaly_hooks anomaly_hooks = {record, report, td_py_drop, line};

static PyObject *set_anomaly(PyObject *m, PyObject *args)
{
    (void)m;
    int on, check_nan = 1;
    if (!PyArg_ParseTuple(args, "p|p:set_anomaly_enabled", &on, &check_nan))
        return NULL;
    td_set_anomaly(on, check_nan, on ? &anomaly_hooks : NULL);
    Py_RETURN_NONE;
}
static PyObject *is_anomaly(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    bool check_nan;
    return PyBool_FromLong(td_anomaly(&check_nan));
}
static PyObject *is_anomaly_nan(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    bool check_nan = false;
    td_anomaly(&check_nan);
    return PyBool_FromLong(check_nan);
}

/* ---- what may be done at the end of a backward pass */

static int call_at_end(void *callback)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallNoArgs(callback);
    int failed = result ? 0 : td_py_capture();
    Py_XDECREF(result);
    PyGILState_Release(state);
    return failed;
}
static PyObject *queue_callback(PyObject *m, PyObject *callback)
{
    (void)m;
    Py_INCREF(callback);
    if (td_backward_at_end(call_at_end, callback, td_py_drop) < 0) {
        Py_DECREF(callback);
        return td_py_raise();
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_push_saved_hooks", push_hooks, METH_VARARGS, NULL},
    {"_pop_saved_hooks", pop_hooks, METH_NOARGS, NULL},
    {"_disable_saved_hooks", disable_hooks, METH_O, NULL},
    {"_saved_hooks_disabled", hooks_disabled, METH_NOARGS, NULL},
    {"set_anomaly_enabled", set_anomaly, METH_VARARGS, "set_anomaly_enabled(mode, check_nan=True)"},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS, NULL},
    {"is_anomaly_check_nan_enabled", is_anomaly_nan, METH_NOARGS, NULL},
    {"_queue_callback", queue_callback, METH_O, "Call something at the end of the running backward pass."},
    {NULL},
};
int td_py_saved_init(PyObject *module)
{
    if (PyType_Ready(&saved_type) < 0 || PyModule_AddObjectRef(module, "_SavedTensor", (PyObject *)&saved_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
