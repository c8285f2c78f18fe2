/* Edges of the gradient graph, version counters, and queries of the running backward pass. */
#include "binding.h"
#include <tede/autograd_nodes.h>

/* _gradient_edge(x) -> (node, which of its results x is); of a leaf its accumulator. */
static PyObject *gradient_edge(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(x)->tp_name);
    td_node *node = NULL;
    int input = 0;
    if (td_gradient_target(td_py_x(x), &node, &input) < 0)
        return td_py_raise();
    PyObject *object = td_py_wrap_node(node);
    return object ? Py_BuildValue("(Ni)", object, input) : NULL;
}
/* _edge_tensor(node, number): a tensor that stands for that result of the node. */
static PyObject *edge_tensor(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *object;
    int input;
    if (!PyArg_ParseTuple(args, "Oi:_edge_tensor", &object, &input))
        return NULL;
    td_node *node = td_py_node_of(object);
    return node ? td_py_wrap(td_node_stand_in(node, input)) : NULL;
}

/* _renew_accumulator(leaf): graphs that are made from now on end at another one. */
static PyObject *renew_accumulator(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(x)->tp_name);
    td_renew_accumulator(td_py_x(x));
    Py_RETURN_NONE;
}

static PyObject *increment_version(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "increment_version expects each element of the input to be a tensor");
    td_tensor_count_write(td_py_x(x));          /* nothing to count on inference tensors */
    Py_RETURN_NONE;
}
static PyObject *set_version(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x;
    unsigned version;
    if (!PyArg_ParseTuple(args, "O!I:_set_version", &td_py_Tensor, &x, &version))
        return NULL;
    td_tensor_set_version(td_py_x(x), version);
    Py_RETURN_NONE;
}

/* ---- the running pass */

static PyObject *task_id(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLongLong(td_backward_id());
}
static PyObject *will_run(PyObject *m, PyObject *object)
{
    (void)m;
    td_node *node = td_py_node_of(object);
    if (!node)
        return PyErr_Format(PyExc_RuntimeError, "_will_engine_execute_node expects an grad_fn, but got %s", Py_TYPE(object)->tp_name);
    int found = td_backward_will_run(node);
    if (found < 0)
        return td_py_raise();
    return PyBool_FromLong(found);
}
static PyObject *keeps_graph(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_backward_keeps_graph());
}
static PyObject *has_inputs(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_backward_has_inputs());
}
static PyObject *next_sequence(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromUnsignedLongLong(td_node_next_sequence());
}

static PyObject *current_node(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return td_py_wrap_node(td_node_hold(td_backward_node()));
}

static bool multithreading = true;
/* _multithreading_enabled(on=None): what it was. */
static PyObject *multithreading_enabled(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *on = Py_None;
    bool before = multithreading;
    if (!PyArg_ParseTuple(args, "|O:_multithreading_enabled", &on))
        return NULL;
    int is = on == Py_None ? before : PyObject_IsTrue(on);
    if (is < 0)
        return NULL;
    multithreading = is;
    return PyBool_FromLong(before);
}

/* Control-C during a pass: Python's handlers run on the main thread only, and elsewhere this finds nothing to do. */
static int interrupted(void)
{
    if (!Py_IsInitialized())
        return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    int failed = PyErr_CheckSignals() < 0 ? td_py_capture() : 0;
    PyGILState_Release(state);
    return failed;
}

static PyMethodDef functions[] = {
    {"_gradient_edge", gradient_edge, METH_O, NULL},
    {"_renew_accumulator", renew_accumulator, METH_O, NULL},
    {"_edge_tensor", edge_tensor, METH_VARARGS, NULL},
    {"_increment_version", increment_version, METH_O, NULL},
    {"_set_version", set_version, METH_VARARGS, NULL},
    {"_current_graph_task_id", task_id, METH_NOARGS, "The number of the running backward pass; -1 outside of one."},
    {"_will_engine_execute_node", will_run, METH_O, "Whether the running pass runs this node."},
    {"_graph_task_has_inputs", has_inputs, METH_NOARGS, "Whether the running pass is for given inputs only."},
    {"_graph_task_keeps_graph", keeps_graph, METH_NOARGS, NULL},
    {"_next_sequence", next_sequence, METH_NOARGS, "The number that the next node of this thread gets."},
    {"_current_autograd_node", current_node, METH_NOARGS, "The node that is being run, or None."},
    {"_multithreading_enabled", multithreading_enabled, METH_VARARGS, NULL},
    {NULL},
};
int td_py_edges_init(PyObject *module)
{
    td_backward_set_interrupt(interrupted);
    return PyModule_AddFunctions(module, functions);
}
