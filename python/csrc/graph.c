/* _Graph: what a device's stream has recorded, under what tede.cuda.CUDAGraph is. */
#include "binding.h"
#include <tede/device.h>

typedef struct { PyObject_HEAD td_graph *graph; } GraphObject;

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)args, (void)kw;       /* a subclass has arguments of its own */
    GraphObject *self = (GraphObject *)type->tp_alloc(type, 0);
    if (self && !(self->graph = td_graph_new())) {
        Py_DECREF(self);
        return td_py_raise();
    }
    return (PyObject *)self;
}
static void graph_dealloc(PyObject *self)
{
    td_graph_release(((GraphObject *)self)->graph);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *done(int status)
{
    if (status)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *graph_begin(PyObject *self, PyObject *args)
{
    static const char *const modes[] = {"global", "thread_local", "relaxed"};
    PyObject *o;
    unsigned long long pool;
    const char *mode;
    td_device device;
    if (!PyArg_ParseTuple(args, "OKs:begin", &o, &pool, &mode))
        return NULL;
    const int found = td_py_as_device(o, &device);
    for (int i = 0; i < 3 && found > 0; i++)
        if (!strcmp(mode, modes[i]))
            return done(td_graph_begin(((GraphObject *)self)->graph, device, pool, (td_graph_mode)i));
    if (found >= 0)
        PyErr_Format(PyExc_RuntimeError, "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got %s", found ? mode : "no device");
    return NULL;
}
static PyObject *graph_end(PyObject *self, PyObject *unused) { return (void)unused, done(td_graph_end(((GraphObject *)self)->graph)); }
static PyObject *graph_launch(PyObject *self, PyObject *unused) { return (void)unused, done(td_graph_launch(((GraphObject *)self)->graph)); }
static PyObject *graph_reset(PyObject *self, PyObject *unused)
{
    int status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    status = td_graph_reset(((GraphObject *)self)->graph);
    Py_END_ALLOW_THREADS
    return done(status);
}
static PyObject *graph_pool(PyObject *self, PyObject *unused) { return (void)unused, PyLong_FromUnsignedLongLong(td_graph_pool(((GraphObject *)self)->graph)); }

static PyMethodDef graph_methods[] = {
    {"_begin", graph_begin, METH_VARARGS, "_begin(device, pool, mode): its current stream records from now on."},
    {"_end", graph_end, METH_NOARGS, NULL},
    {"_launch", graph_launch, METH_NOARGS, NULL},
    {"_reset", graph_reset, METH_NOARGS, NULL},
    {"_pool", graph_pool, METH_NOARGS, "The number of its pool of memory; 0 before it recorded."},
    {NULL},
};
static PyTypeObject graph_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._Graph", .tp_basicsize = sizeof(GraphObject), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "What a device's stream has recorded, to be launched many times.", .tp_new = graph_new, .tp_dealloc = graph_dealloc, .tp_methods = graph_methods,
};

static PyObject *pool_new(PyObject *m, PyObject *unused) { return (void)m, (void)unused, PyLong_FromUnsignedLongLong(td_graph_pool_new()); }
static PyObject *is_recording(PyObject *m, PyObject *o)
{
    td_device device;
    (void)m;
    const int found = td_py_as_device(o, &device);
    if (found <= 0)
        return found < 0 ? NULL : PyErr_Format(PyExc_TypeError, "a device was expected, not %.100s", Py_TYPE(o)->tp_name);
    td_stream *stream = td_stream_current(device);
    return stream ? PyBool_FromLong(td_stream_is_recording(stream)) : td_py_raise();
}
static PyMethodDef functions[] = {
    {"_graph_pool_new", pool_new, METH_NOARGS, "A number for a pool of memory that graphs share."},
    {"_stream_is_recording", is_recording, METH_O, "Whether a device's current stream records a graph."},
    {NULL},
};

int td_py_graph_init(PyObject *module)
{
    if (PyType_Ready(&graph_type) < 0 || PyModule_AddObjectRef(module, "_Graph", (PyObject *)&graph_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
