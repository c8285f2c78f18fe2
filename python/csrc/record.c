/* Recordings of calls (<tede/trace.h>), under tede/tracer.py. */
#include "binding.h"
#include <tede/trace.h>

typedef struct { PyObject_HEAD td_recording *r; } RecordingObject;
static PyTypeObject recording_type;
static td_recording *of(PyObject *self) { return ((RecordingObject *)self)->r; }

static void free_tensors(td_tensor **list, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; list && i < n; i++)
        td_tensor_release(list[i]);
    PyMem_Free(list);
}
/* The tensors of a sequence, for free_tensors(); NULL with an exception. */
static td_tensor **tensors_of(PyObject *o, Py_ssize_t *n)
{
    PyObject *fast = PySequence_Fast(o, "a list of tensors was expected");
    if (!fast)
        return NULL;
    *n = PySequence_Fast_GET_SIZE(fast);
    td_tensor **list = PyMem_Malloc((size_t)(*n + 1) * sizeof *list);
    for (Py_ssize_t i = 0; list && i < *n; i++) {
        TD_PY_AUTO PyObject *item = td_py_item_at(fast, i);
        if (!item || !td_py_is_tensor(item)) {
            if (item)
                PyErr_Format(PyExc_TypeError, "tensor %zd is %s", i, Py_TYPE(item)->tp_name);
            free_tensors(list, i);
            list = NULL;
            break;
        }
        list[i] = td_tensor_retain(td_py_x(item));
    }
    if (!list && !PyErr_Occurred())
        PyErr_NoMemory();
    Py_DECREF(fast);
    return list;
}

static PyObject *begin(PyObject *m, PyObject *o)
{
    (void)m;
    Py_ssize_t n;
    td_tensor **inputs = tensors_of(o, &n);
    if (!inputs)
        return NULL;
    RecordingObject *self = PyObject_New(RecordingObject, &recording_type);
    if (self && !(self->r = td_record_begin((int)n, inputs))) {
        Py_CLEAR(self);
        td_py_raise();
    }
    free_tensors(inputs, n);
    return (PyObject *)self;
}
static PyObject *end(PyObject *self, PyObject *o)
{
    Py_ssize_t n;
    td_tensor **outputs = tensors_of(o, &n);
    if (!outputs)
        return NULL;
    int status = td_record_end(of(self), (int)n, outputs);
    free_tensors(outputs, n);
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *play(PyObject *self, PyObject *o)
{
    Py_ssize_t n;
    td_tensor **inputs = tensors_of(o, &n);
    if (!inputs)
        return NULL;
    int n_out = td_recording_outputs(of(self));
    td_tensor **outputs = NULL;
    PyObject *result = NULL;
    if (n != td_recording_inputs(of(self))) {
        PyErr_Format(PyExc_TypeError, "%d inputs were recorded, but %zd are given", td_recording_inputs(of(self)), n);
    } else if (!(outputs = PyMem_Calloc((size_t)n_out + 1, sizeof *outputs))) {
        PyErr_NoMemory();
    } else if (td_recording_play(of(self), inputs, outputs) < 0) {
        td_py_raise();
    } else if ((result = PyTuple_New(n_out))) {
        for (int i = 0; i < n_out; i++) {
            PyObject *x = td_py_wrap(outputs[i]);
            if (!x)
                Py_CLEAR(result);
            else if (result)
                PyTuple_SET_ITEM(result, i, x);
            else
                Py_DECREF(x);
        }
    }
    PyMem_Free(outputs);
    free_tensors(inputs, n);
    return result;
}
static PyObject *abandon(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_recording_release(of(self));
    ((RecordingObject *)self)->r = NULL;
    Py_RETURN_NONE;
}
static PyObject *calls(PyObject *self, PyObject *unused)
{
    (void)unused;
    int n = td_recording_calls(of(self));
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        const td_op_info *info = td_op_describe(td_recording_call(of(self), i));
        PyObject *name = td_py_full_name(info);
        if (!name)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, name);
    }
    return list;
}
static PyObject *text(PyObject *self)
{
    char *text = td_recording_str(of(self));
    if (!text)
        return td_py_raise();
    PyObject *result = PyUnicode_FromString(text);
    td_string_free(text);
    return result;
}
static void dealloc(PyObject *self)
{
    td_recording_release(of(self));
    PyObject_Free(self);
}

static PyMethodDef methods[] = {
    {"end", end, METH_O, NULL},
    {"play", play, METH_O, NULL},
    {"abandon", abandon, METH_NOARGS, NULL},
    {"calls", calls, METH_NOARGS, NULL},
    {NULL},
};
static PyTypeObject recording_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.Recording",
    .tp_basicsize = sizeof(RecordingObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = dealloc,
    .tp_str = text,
    .tp_methods = methods,
};
static PyMethodDef functions[] = {{"_record", begin, METH_O, NULL}, {NULL}};
int td_py_record_init(PyObject *module)
{
    return PyType_Ready(&recording_type) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
