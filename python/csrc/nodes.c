/* Nodes of the gradient graph as Python objects.
 *
 * An object holds its node; the node knows its object, weakly, so that the same one comes back.
 *
 * A hook that refers to its node is a cycle: the collector sees it once the node belongs to its object alone. */
#include "binding.h"
#include <tede/autograd_nodes.h>
#include <tede/layout.h>

typedef struct { PyObject_HEAD td_node *node; PyObject *dict; } NodeObject;
static PyTypeObject node_type;

static void node_dealloc(PyObject *self)
{
    NodeObject *n = (NodeObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (n->node && td_node_object(n->node) == self && td_node_set_object(n->node, NULL) < 0)
        td_error_clear();
    td_node_drop(n->node);
    Py_XDECREF(n->dict);
    type->tp_free(self);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
        Py_DECREF(type);
}

static int node_traverse(PyObject *self, visitproc visit, void *arg)
{
    NodeObject *n = (NodeObject *)self;
    Py_VISIT(n->dict);
    if (n->node && td_node_is_unshared(n->node)) {
        td_node_visit_hooks(n->node, td_py_drop, td_py_visit_hook, (void *[]){(void *)(uintptr_t)visit, arg});
        Py_VISIT(td_node_metadata(n->node));
        Py_VISIT(td_py_context_of(n->node));
    }
    return 0;
}
static int node_clear(PyObject *self)
{
    NodeObject *n = (NodeObject *)self;
    Py_CLEAR(n->dict);
    if (n->node && td_node_is_unshared(n->node)) {
        td_node_visit_hooks(n->node, td_py_drop, td_py_remove_hook, NULL);
        if (td_node_metadata(n->node) && td_node_set_metadata(n->node, NULL, NULL) < 0)
            td_error_clear();
    }
    return 0;
}

/* The class of nodes of this name: made when first met, so that type(x.grad_fn).__name__ is that name. */
static PyTypeObject *class_of(const char *name)
{
    static PyObject *classes;
    if (!classes && !(classes = PyDict_New()))
        return NULL;
    PyObject *known = PyDict_GetItemString(classes, name);
    if (known)
        return (PyTypeObject *)known;
    PyObject *made = PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){s:s,s:()}", name, &node_type, "__module__",
                                           "tede.autograd", "__slots__");
    if (!made || PyDict_SetItemString(classes, name, made) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    Py_DECREF(made);
    ((PyTypeObject *)made)->tp_dealloc = node_dealloc;
    return (PyTypeObject *)made;
}

/* Takes over the reference. */
PyObject *td_py_wrap_node(td_node *node)
{
    if (!node)
        Py_RETURN_NONE;
    PyObject *self = td_node_object(node);
    if (self) {
        td_node_drop(node);
        return Py_NewRef(self);
    }
    PyTypeObject *type = class_of(td_node_name(node));
    self = type ? type->tp_alloc(type, 0) : NULL;
    if (!self) {
        td_node_drop(node);
        return NULL;
    }
    ((NodeObject *)self)->node = node;
    if (td_node_set_object(node, self) < 0) {
        Py_DECREF(self);
        return td_py_raise();
    }
    return self;
}
td_node *td_py_node_of(PyObject *o)
{
    if (PyObject_TypeCheck(o, &node_type))
        return ((NodeObject *)o)->node;
    PyErr_Format(PyExc_TypeError, "expected a node of the gradient graph, not %s", Py_TYPE(o)->tp_name);
    return NULL;
}
PyObject *td_py_grad_fn(td_tensor *x)
{
    td_node *node = NULL;
    int output;
    if (td_history(x, &node, &output) < 0)
        return td_py_raise();
    return td_py_wrap_node(node);
}
bool td_py_retains_grad(td_tensor *x)
{
    return !td_is_leaf(x) && td_retains_grad(x);
}

static PyObject *node_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    const char *name = td_node_name(((NodeObject *)self)->node);
    static const char *const own_names[] = {"AccumulateGrad", "CopySlices", "CopyBackwards", "Error"};       /* not generated, in PyTorch */
    bool own = false;
    for (size_t i = 0; i < sizeof own_names / sizeof *own_names; i++)
        own |= !strcmp(name, own_names[i]);
    return PyUnicode_FromFormat("%s%s", own ? "torch::autograd::" : "", name);
}
static PyObject *node_sequence(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(td_node_sequence(((NodeObject *)self)->node));
}
static PyObject *node_set_sequence(PyObject *self, PyObject *number)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred())
        return NULL;
    td_node_set_sequence(((NodeObject *)self)->node, n);
    Py_RETURN_NONE;
}
static PyObject *node_next(PyObject *self, void *unused)
{
    (void)unused;
    td_node *node = ((NodeObject *)self)->node;
    PyObject *all = PyList_New(0), *context = td_py_context_of(node);
    for (int i = 0; i < td_node_edges(node) && all; i++) {
        int input = 0;
        td_node *to = td_node_edge(node, i, &input);
        if (context && !td_py_context_takes(context, i))        /* a Function has no edge for what is no tensor */
            continue;
        PyObject *pair = Py_BuildValue("(Ni)", td_py_wrap_node(td_node_hold(to)), to ? input : 0);
        if (!pair || PyList_Append(all, pair) < 0)
            Py_CLEAR(all);
        Py_XDECREF(pair);
    }
    PyObject *edges = all ? PyList_AsTuple(all) : NULL;
    Py_XDECREF(all);
    return edges;
}
static PyObject *node_variable(PyObject *self, void *unused)
{
    (void)unused;
    td_tensor *x = td_node_variable(((NodeObject *)self)->node);
    if (!x)
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", Py_TYPE(self)->tp_name);
    return td_py_wrap_borrowed(x);
}
/* What was kept of tensors, or what keeps it. */
static PyObject *saved_tensor(td_node *node, int index, bool raw)
{
    if (raw)
        return td_py_raw_saved(node, index);
    td_tensor *x = td_node_saved_tensor(node, index);
    if (x == TD_NONE)
        Py_RETURN_NONE;
    return td_py_wrap(x);
}
static PyObject *node_saved(PyObject *self, void *unused)
{
    (void)unused;
    td_node *node = ((NodeObject *)self)->node;
    int n = td_node_saved_count(node);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        PyObject *item = saved_tensor(node, i, false);
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
static PyObject *node_metadata(PyObject *self, void *unused)
{
    (void)unused;
    td_node *node = ((NodeObject *)self)->node;
    PyObject *dict = td_node_metadata(node);
    if (!dict) {
        if (!(dict = PyDict_New()))
            return NULL;
        if (td_node_set_metadata(node, dict, td_py_drop) < 0) {
            Py_DECREF(dict);
            return td_py_raise();
        }
    }
    return Py_NewRef(dict);
}
/* What was kept besides tensors; lists come as tuples. */
static PyObject *saved_value(const td_value *value)
{
    PyObject *object = td_py_object_of(value);
    if (object && PyList_Check(object))
        Py_SETREF(object, PyList_AsTuple(object));
    return object;
}
/* Shape, dtype and device of each result of the call; None for one that has no gradient. */
static PyTypeObject *input_meta_type;
static PyObject *node_input_metadata(PyObject *self, void *unused)
{
    (void)unused;
    static PyStructSequence_Field fields[] = {{"shape", NULL}, {"dtype", NULL}, {"device", NULL}, {"is_nested_tensor", NULL},
                                              {"is_cpp_nested_tensor", NULL}, {NULL, NULL}};
    static PyStructSequence_Desc desc = {"tede._C._InputMetadata", "What the gradient of a node's result looks like.", fields, 5};
    if (!input_meta_type && !(input_meta_type = PyStructSequence_NewType(&desc)))
        return NULL;
    td_node *node = ((NodeObject *)self)->node;
    PyObject *all = PyTuple_New(td_node_inputs(node));
    for (int i = 0; all && i < td_node_inputs(node); i++) {
        int ndim;
        const int64_t *sizes;
        td_dtype dtype;
        td_device device;
        bool defined = td_node_input_meta(node, i, &ndim, &sizes, &dtype, &device) == 0;
        PyObject *item = defined ? PyStructSequence_New(input_meta_type) : Py_NewRef(Py_None);
        PyObject *shape = item && defined ? td_py_size(ndim, sizes) : NULL, *where = shape ? td_py_device(device) : NULL;
        if (where) {
            PyStructSequence_SET_ITEM(item, 0, shape);
            PyStructSequence_SET_ITEM(item, 1, Py_NewRef(td_py_dtype(dtype)));
            PyStructSequence_SET_ITEM(item, 2, where);
            bool ragged = false, unnamed = false;           /* symbol 0 is a size that no one symbol can name */
            for (int d = 0; d < ndim; d++) {
                ragged |= td_size_is_symbol(sizes[d]);
                unnamed |= td_size_is_symbol(sizes[d]) && !td_symbol_id(sizes[d]);
            }
            PyStructSequence_SET_ITEM(item, 3, PyBool_FromLong(ragged));
            PyStructSequence_SET_ITEM(item, 4, PyBool_FromLong(unnamed));
        } else if (defined) {
            Py_XDECREF(shape);
            Py_CLEAR(item);
        }
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
/* A Function's context and its node are one object to programs: what a node doesn't know, its context does. */
static PyObject *node_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    td_node *node = ((NodeObject *)self)->node;
    PyObject *context = td_py_context_of(node);
    const char *text = context ? NULL : PyUnicode_AsUTF8(name);
    bool saved = text && !strncmp(text, "_saved_", 7), raw = text && !strncmp(text, "_raw_saved_", 11);
    int count = -1, index = saved || raw ? td_node_saved_index(node, text + (raw ? 11 : 7), &count) : -1;
    td_value value;
    bool plain = saved && index < 0 && td_node_saved_value(node, text + 7, &value);
    if (!context && index < 0 && !plain)
        return NULL;
    PyErr_Clear();
    if (plain)
        return saved_value(&value);
    if (context)
        return PyObject_GetAttr(context, name);
    if (count < 0)
        return saved_tensor(node, index, raw);
    PyObject *all = PyTuple_New(count);
    for (int i = 0; i < count && all; i++) {
        PyObject *item = saved_tensor(node, index + i, raw);
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
static int node_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    PyObject *context = td_py_context_of(((NodeObject *)self)->node);
    return context ? PyObject_SetAttr(context, name, value) : PyObject_GenericSetAttr(self, name, value);
}
static PyObject *node_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<%s object at %p>", td_node_name(((NodeObject *)self)->node), (void *)self);
}

static PyObject *node_register_hook(PyObject *self, PyObject *hook)
{
    return td_py_register_node_hook(((NodeObject *)self)->node, hook, false);
}
static PyObject *node_register_prehook(PyObject *self, PyObject *hook)
{
    return td_py_register_node_hook(((NodeObject *)self)->node, hook, true);
}

/* _node_class(name): what nodes of this name are instances of. */
static PyObject *node_class(PyObject *m, PyObject *name)
{
    (void)m;
    const char *text = PyUnicode_AsUTF8(name);
    return text ? Py_XNewRef((PyObject *)class_of(text)) : NULL;
}

static PyObject *node_hook_count(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(td_node_hook_count(((NodeObject *)self)->node));
}

static PyMethodDef node_methods[] = {
    {"_hook_count", node_hook_count, METH_NOARGS, "How many hooks wait at it; at a leaf's, the leaf's too."},
    {"name", node_name, METH_NOARGS, NULL},
    {"_sequence_nr", node_sequence, METH_NOARGS, NULL},
    {"_set_sequence_nr", node_set_sequence, METH_O, "Ready nodes with higher numbers run first."},
    {"register_hook", node_register_hook, METH_O, NULL},
    {"register_prehook", node_register_prehook, METH_O, NULL},
    {NULL},
};
static PyGetSetDef node_getset[] = {
    {"next_functions", node_next, NULL, "Where its gradients go: pairs of a node and a number.", NULL},
    {"variable", node_variable, NULL, "The leaf of an accumulator.", NULL},
    {"_saved_tensors", node_saved, NULL, "What the node saved.", NULL},
    {"metadata", node_metadata, NULL, NULL, NULL},
    {"_input_metadata", node_input_metadata, NULL, "Shape, dtype and device of the gradients it takes.", NULL},
    {NULL},
};
/* node(*grads): what the node makes of them, as a pass would. */
static PyObject *node_call(PyObject *self, PyObject *args, PyObject *kw)
{
    td_node *node = ((NodeObject *)self)->node;
    int n = td_node_inputs(node), m = td_node_edges(node);
    if (kw && PyDict_GET_SIZE(kw))
        return PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments", td_node_name(node));
    if (PyTuple_GET_SIZE(args) != n)
        return PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd instead", n, PyTuple_GET_SIZE(args));
    td_tensor **all = PyMem_Calloc((size_t)(n + m) + 1, sizeof *all);
    if (!all)
        return PyErr_NoMemory();
    for (int i = 0; i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (!td_py_is_tensor(item) && item != Py_None) {
            for (int k = 0; k < i; k++)
                td_tensor_release(all[k]);
            PyMem_Free(all);
            return PyErr_Format(PyExc_TypeError, "argument %d is not a Variable", i);
        }
        all[i] = item == Py_None ? NULL : td_tensor_retain(td_py_x(item));
    }
    int failed;
    TD_PY_WORK(true, failed = td_node_call(node, all, all + n));
    for (int i = 0; i < m && !failed; i++)
        if (!all[n + i])
            all[n + i] = td_tensor_retain(TD_NONE);
    PyObject *result = failed ? td_py_raise() : m == 1 ? td_py_wrap_borrowed(all[n]) : td_py_tensor_tuple(m, all + n);
    for (int i = 0; i < n + m; i++)
        td_tensor_release(all[i]);
    PyMem_Free(all);
    return result;
}

static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.autograd.Node",
    .tp_basicsize = sizeof(NodeObject),
    .tp_doc = "A call in the gradient graph.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = node_dealloc,
    .tp_traverse = node_traverse,
    .tp_clear = node_clear,
    .tp_free = PyObject_GC_Del,
    .tp_repr = node_repr,
    .tp_call = node_call,
    .tp_getattro = node_getattro,
    .tp_setattro = node_setattro,
    .tp_methods = node_methods,
    .tp_getset = node_getset,
    .tp_dictoffset = offsetof(NodeObject, dict),
};

static PyObject *has_context(PyObject *m, PyObject *node)
{
    (void)m;
    td_node *n = td_py_node_of(node);
    return n ? PyBool_FromLong(td_py_context_of(n) != NULL) : NULL;
}
static int add_leaf(void *set, td_tensor *leaf)
{
    TD_PY_AUTO PyObject *o = td_py_wrap_borrowed(leaf);
    TD_PY_AUTO PyObject *id = o ? PyLong_FromVoidPtr(o) : NULL;
    return !id || PySet_Add(set, id) < 0 ? td_py_capture() : 0;
}

/* By address, as tensors aren't compared: a wrapper that nobody else holds dies here, and is nobody's parameter. */
static PyObject *graph_leaves(PyObject *m, PyObject *outputs)
{
    (void)m;
    TD_PY_AUTO PyObject *list = PySequence_Fast(outputs, "a list of tensors was expected");
    TD_PY_AUTO PyObject *set = list ? PySet_New(NULL) : NULL;
    const Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    td_tensor **tensors = set ? PyMem_Malloc(sizeof *tensors * ((size_t)n + 1)) : NULL;
    if (!tensors)
        return set ? PyErr_NoMemory() : NULL;
    int status = 0;
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (td_py_is_tensor(o))
            tensors[i] = td_py_x(o);
        else
            status = (PyErr_Format(PyExc_TypeError, "a list of tensors was expected, not of %s", Py_TYPE(o)->tp_name), -1);
    }
    if (status == 0 && td_graph_leaves((int)n, tensors, add_leaf, set) != 0)
        status = (td_py_raise(), -1);
    PyMem_Free(tensors);
    return status ? NULL : Py_NewRef(set);
}

static PyMethodDef functions[] = {
    {"_node_class", node_class, METH_O, NULL},
    {"_graph_leaves", graph_leaves, METH_O, "The ids of the leaves that gradients of these tensors flow to."},
    {"_has_context", has_context, METH_O, "Whether a Function made this node."},
    {NULL},
};

int td_py_nodes_init(PyObject *module)
{
    if (PyType_Ready(&node_type) < 0 || td_py_hooks_init(module) < 0 || PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "_Node", (PyObject *)&node_type);
}
