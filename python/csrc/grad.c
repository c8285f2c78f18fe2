/* backward, grad, the thread's modes, nodes of the graph as objects, and hooks.
 *
 * Backward passes give up the lock; hooks and Python Functions take it again. */
#include "binding.h"
#include <tede/autograd_nodes.h>

/* ---- modes */

static PyObject *is_grad_enabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_grad_enabled());
}
static PyObject *set_grad_enabled(PyObject *m, PyObject *on)
{
    (void)m;
    if (!PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s",
                            Py_TYPE(on)->tp_name);
    return PyBool_FromLong(td_set_grad_enabled(on == Py_True));
}
static PyObject *is_inference_mode_enabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_inference_mode());
}
static PyObject *set_inference_mode(PyObject *m, PyObject *on)
{
    (void)m;
    return PyBool_FromLong(td_set_inference_mode(PyObject_IsTrue(on)));
}

/* ---- nodes */

typedef struct { PyObject_HEAD td_node *node; PyObject *dict; } NodeObject;
static PyTypeObject node_type;

static void node_dealloc(PyObject *self)
{
    NodeObject *n = (NodeObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (n->node && td_node_object(n->node) == self && td_node_set_object(n->node, NULL) < 0)
        td_error_clear();
    td_node_drop(n->node);
    Py_XDECREF(n->dict);
    type->tp_free(self);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
        Py_DECREF(type);
}

/* The class of nodes of this name: made when first met, so that type(x.grad_fn).__name__ tells. */
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
static PyObject *wrap_node(td_node *node)
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
PyObject *td_py_grad_fn(td_tensor *x)
{
    td_node *node = NULL;
    int output;
    if (td_history(x, &node, &output) < 0)
        return td_py_raise();
    return wrap_node(node);
}
bool td_py_retains_grad(td_tensor *x)
{
    return !td_is_leaf(x) && td_retains_grad(x);
}

static PyObject *node_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(td_node_name(((NodeObject *)self)->node));
}
static PyObject *node_sequence(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(td_node_sequence(((NodeObject *)self)->node));
}
static PyObject *node_next(PyObject *self, void *unused)
{
    (void)unused;
    td_node *node = ((NodeObject *)self)->node;
    int n = td_node_edges(node);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        int input = 0;
        td_node *to = td_node_edge(node, i, &input);
        PyObject *pair = Py_BuildValue("(Ni)", wrap_node(td_node_hold(to)), to ? input : 0);
        if (!pair)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, pair);
    }
    return all;
}
static PyObject *node_variable(PyObject *self, void *unused)
{
    (void)unused;
    td_tensor *x = td_node_variable(((NodeObject *)self)->node);
    if (!x)
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", Py_TYPE(self)->tp_name);
    return td_py_wrap_borrowed(x);
}
static PyObject *node_saved(PyObject *self, void *unused)
{
    (void)unused;
    td_node *node = ((NodeObject *)self)->node;
    int n = td_node_saved_count(node);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        td_tensor *x = td_node_saved_tensor(node, i);
        PyObject *item = x == TD_NONE ? Py_NewRef(Py_None) : td_py_wrap(x);
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
static PyObject *node_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<%s object at %p>", td_node_name(((NodeObject *)self)->node), (void *)self);
}

/* ---- hooks */

typedef struct { PyObject_HEAD td_hook *hook; } HandleObject;
static void handle_dealloc(PyObject *self)
{
    td_hook_release(((HandleObject *)self)->hook);
    PyObject_Free(self);
}
static PyObject *handle_remove(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_hook_remove(((HandleObject *)self)->hook);
    Py_RETURN_NONE;
}
static PyObject *handle_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}
static PyMethodDef handle_methods[] = {
    {"remove", handle_remove, METH_NOARGS, "From now on the hook isn't called."},
    {"__enter__", handle_enter, METH_NOARGS, NULL},
    {"__exit__", handle_remove, METH_VARARGS, NULL},
    {NULL},
};
static PyTypeObject handle_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.RemovableHandle",
    .tp_basicsize = sizeof(HandleObject),
    .tp_doc = "What register_hook gives: remove() takes the hook away.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = handle_dealloc,
    .tp_methods = handle_methods,
};
/* Takes over the handle; `kept` is what the hook's context holds: dropped here if there was none. */
static PyObject *wrap_handle(td_hook *hook, PyObject *kept)
{
    if (!hook) {
        Py_DECREF(kept);
        return td_py_raise();
    }
    HandleObject *self = PyObject_New(HandleObject, &handle_type);
    if (!self)
        td_hook_release(hook);
    else
        self->hook = hook;
    return (PyObject *)self;
}

/* A hook's answer: None, or a tensor that replaces. 0 or -1. */
static int answer(PyObject *result, td_tensor **replacement)
{
    if (!result)
        return td_py_capture();
    int failed = 0;
    if (td_py_is_tensor(result))
        *replacement = td_tensor_retain(td_py_x(result));
    else if (result != Py_None)
        failed = td_error(TD_E_TYPE, "expected Variable, but hook returned '%s'", Py_TYPE(result)->tp_name);
    Py_DECREF(result);
    return failed;
}
static int call_tensor_hook(void *context, td_tensor *grad, td_tensor **replacement)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *argument = td_py_wrap_borrowed(grad);
    int failed = argument ? answer(PyObject_CallOneArg(context, argument), replacement) : td_py_capture();
    Py_XDECREF(argument);
    PyGILState_Release(state);
    return failed;
}
static int call_leaf_hook(void *context, td_tensor *leaf)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *argument = td_py_wrap_borrowed(leaf), *result = argument ? PyObject_CallOneArg(context, argument) : NULL;
    int failed = result ? 0 : td_py_capture();
    Py_XDECREF(result);
    Py_XDECREF(argument);
    PyGILState_Release(state);
    return failed;
}

static PyObject *tuple_of(int n, td_tensor *const *tensors)
{
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        PyObject *item = td_py_wrap_borrowed(tensors[i]);
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
/* A node hook's answer: None, a tensor or a tuple of them and None. */
static int answers(PyObject *result, int n, td_tensor **replacements)
{
    if (!result)
        return td_py_capture();
    int failed = 0;
    if (td_py_is_tensor(result) && n == 1) {
        replacements[0] = td_tensor_retain(td_py_x(result));
    } else if (PyTuple_Check(result)) {
        if (PyTuple_GET_SIZE(result) != n)
            failed = td_error(TD_E_RUNTIME, "hook has returned an incorrect number of values (got %zd, but expected %d)",
                              PyTuple_GET_SIZE(result), n);
        for (int i = 0; i < n && !failed; i++) {
            PyObject *item = PyTuple_GET_ITEM(result, i);
            if (td_py_is_tensor(item))
                replacements[i] = td_tensor_retain(td_py_x(item));
            else if (item != Py_None)
                failed = td_error(TD_E_TYPE, "expected Variable, but hook returned '%s'", Py_TYPE(item)->tp_name);
        }
    } else if (result != Py_None) {
        failed = td_error(TD_E_TYPE, "expected tuple, but hook returned '%s'", Py_TYPE(result)->tp_name);
    }
    Py_DECREF(result);
    return failed;
}
static int call_pre_hook(void *context, int n, td_tensor *const *grads, td_tensor **replacements)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *all = tuple_of(n, grads);
    int failed = all ? answers(PyObject_CallOneArg(context, all), n, replacements) : td_py_capture();
    Py_XDECREF(all);
    PyGILState_Release(state);
    return failed;
}
static int call_post_hook(void *context, int n_results, td_tensor *const *results, int n_grads, td_tensor *const *grads,
                          td_tensor **replacements)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *gave = tuple_of(n_results, results), *took = tuple_of(n_grads, grads);
    int failed = gave && took ? answers(PyObject_CallFunctionObjArgs(context, gave, took, NULL), n_results, replacements)
                              : td_py_capture();
    Py_XDECREF(gave);
    Py_XDECREF(took);
    PyGILState_Release(state);
    return failed;
}

PyObject *td_py_register_hook(PyObject *self, PyObject *hook)
{
    if (!td_requires_grad(td_py_x(self)))
        return PyErr_Format(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    return wrap_handle(td_tensor_add_hook(td_py_x(self), call_tensor_hook, Py_NewRef(hook), td_py_drop), hook);
}
PyObject *td_py_register_leaf_hook(PyObject *self, PyObject *hook)
{
    td_tensor *x = td_py_x(self);
    if (!td_requires_grad(x))
        return PyErr_Format(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    if (!td_is_leaf(x))
        return PyErr_Format(PyExc_RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    return wrap_handle(td_leaf_add_hook(x, call_leaf_hook, Py_NewRef(hook), td_py_drop), hook);
}
static PyObject *node_register_hook(PyObject *self, PyObject *hook)
{
    return wrap_handle(td_node_add_post_hook(((NodeObject *)self)->node, call_post_hook, Py_NewRef(hook), td_py_drop), hook);
}
static PyObject *node_register_prehook(PyObject *self, PyObject *hook)
{
    return wrap_handle(td_node_add_pre_hook(((NodeObject *)self)->node, call_pre_hook, Py_NewRef(hook), td_py_drop), hook);
}

static PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, NULL},
    {"_sequence_nr", node_sequence, METH_NOARGS, NULL},
    {"register_hook", node_register_hook, METH_O, NULL},
    {"register_prehook", node_register_prehook, METH_O, NULL},
    {NULL},
};
static PyGetSetDef node_getset[] = {
    {"next_functions", node_next, NULL, "Where its gradients go: pairs of a node and a number.", NULL},
    {"variable", node_variable, NULL, "The leaf of an accumulator.", NULL},
    {"_saved_tensors", node_saved, NULL, "What the node saved.", NULL},
    {"metadata", node_metadata, NULL, NULL, NULL},
    {NULL},
};
static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.autograd.Node",
    .tp_basicsize = sizeof(NodeObject),
    .tp_doc = "A call in the gradient graph.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_dealloc = node_dealloc,
    .tp_repr = node_repr,
    .tp_methods = node_methods,
    .tp_getset = node_getset,
    .tp_dictoffset = offsetof(NodeObject, dict),
};

/* ---- backward and grad */

/* A sequence of tensors (None: allowed if `none`) into a new array; the count, or -1. */
static Py_ssize_t list_of(PyObject *o, const char *what, bool none, td_tensor ***list)
{
    *list = NULL;
    if (!PyTuple_Check(o) && !PyList_Check(o))
        return PyErr_Format(PyExc_TypeError, "%s: a tuple or list of tensors is needed, not %s", what, Py_TYPE(o)->tp_name), -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    td_tensor **made = PyMem_Calloc((size_t)n + 1, sizeof *made);
    if (!made)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_ITEMS(o)[i];
        if (td_py_is_tensor(item)) {
            made[i] = td_tensor_retain(td_py_x(item));
        } else if (!none || item != Py_None) {
            PyErr_Format(PyExc_TypeError, "element %zd of %s is not a Tensor but %s", i, what, Py_TYPE(item)->tp_name);
            for (Py_ssize_t k = 0; k < i; k++)
                td_tensor_release(made[k]);
            PyMem_Free(made);
            return -1;
        }
    }
    *list = made;
    return n;
}
static void list_free(td_tensor **list, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; list && i < n; i++)
        td_tensor_release(list[i]);
    PyMem_Free(list);
}

/* What the engine would find out too, but in PyTorch's words. */
static int check_roots(Py_ssize_t n, td_tensor **roots, td_tensor **grads)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!td_requires_grad(roots[i]))
            return PyErr_Format(PyExc_RuntimeError, "element %zd of tensors does not require grad and does not have a grad_fn",
                                i), -1;
        if (!grads[i] && td_tensor_numel(roots[i]) != 1)
            return PyErr_SetString(PyExc_RuntimeError, "grad can be implicitly created only for scalar outputs"), -1;
        if (!grads[i] && !td_dtype_is_floating(td_tensor_dtype(roots[i])))
            return PyErr_Format(PyExc_RuntimeError, "grad can be implicitly created only for real scalar outputs but got "
                                "torch.%s", td_dtype_name(td_tensor_dtype(roots[i]))), -1;
        if (!grads[i])
            continue;
        int ndim = td_tensor_ndim(roots[i]);
        bool same = td_tensor_ndim(grads[i]) == ndim &&
                    memcmp(td_tensor_sizes(grads[i]), td_tensor_sizes(roots[i]), (size_t)ndim * sizeof(int64_t)) == 0;
        if (!same) {
            PyObject *a = td_py_size(td_tensor_ndim(grads[i]), td_tensor_sizes(grads[i]));
            PyObject *b = td_py_size(ndim, td_tensor_sizes(roots[i]));
            if (a && b)
                PyErr_Format(PyExc_RuntimeError, "Mismatch in shape: grad_output[%zd] has a shape of %S and output[%zd] has a "
                             "shape of %S.", i, a, i, b);
            Py_XDECREF(a);
            Py_XDECREF(b);
            return -1;
        }
        if (td_dtype_is_complex(td_tensor_dtype(grads[i])) != td_dtype_is_complex(td_tensor_dtype(roots[i])))
            return PyErr_Format(PyExc_RuntimeError, "For complex Tensors, both grad_output and output are required to have the "
                                "same dtype. Mismatch in dtype: grad_output[%zd] has a dtype of %s and output[%zd] has a dtype "
                                "of %s.", i, td_dtype_name(td_tensor_dtype(grads[i])), i,
                                td_dtype_name(td_tensor_dtype(roots[i]))), -1;
    }
    return 0;
}

static int backward_all(Py_ssize_t n, td_tensor **roots, td_tensor **grads, bool retain, bool create)
{
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = td_backward((int)n, roots, grads, retain, create);
    Py_END_ALLOW_THREADS
    return failed ? (td_py_raise(), -1) : 0;
}

/* _backward(roots, grads, retain_graph, create_graph) */
static PyObject *backward(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *roots, *grads;
    int retain, create;
    if (!PyArg_ParseTuple(args, "OOpp:_backward", &roots, &grads, &retain, &create))
        return NULL;
    td_tensor **r, **g;
    Py_ssize_t n = list_of(roots, "tensors", false, &r);
    if (n < 0)
        return NULL;
    Py_ssize_t k = list_of(grads, "gradients", true, &g);
    int failed = k < 0 ? -1 : 0;
    if (!failed && k != n)
        failed = (PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", n, k), -1);
    if (!failed)
        failed = check_roots(n, r, g) < 0 ? -1 : backward_all(n, r, g, retain, create);
    list_free(r, n);
    if (k >= 0)
        list_free(g, k);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* _grad(outputs, grads, inputs, retain_graph, create_graph, allow_unused) -> tuple */
static PyObject *grad(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *outputs, *grads, *inputs;
    int retain, create, allow_unused;
    if (!PyArg_ParseTuple(args, "OOOppp:_grad", &outputs, &grads, &inputs, &retain, &create, &allow_unused))
        return NULL;
    td_tensor **o = NULL, **g = NULL, **in = NULL;
    Py_ssize_t n = list_of(outputs, "outputs", false, &o), k = n < 0 ? -1 : list_of(grads, "grad_outputs", true, &g);
    Py_ssize_t n_in = k < 0 ? -1 : list_of(inputs, "inputs", false, &in);
    PyObject *all = NULL;
    if (n_in >= 0 && n != k) {
        PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", n, k);
    } else if (n_in >= 0 && check_roots(n, o, g) == 0) {
        td_tensor **results = PyMem_Calloc((size_t)n_in + 1, sizeof *results);
        int failed = results ? 0 : -1;
        for (Py_ssize_t i = 0; i < n_in && !failed; i++)
            if (!td_requires_grad(in[i]))
                failed = (PyErr_Format(PyExc_RuntimeError, "One of the differentiated Tensors does not require grad"), -1);
        if (!failed) {
            Py_BEGIN_ALLOW_THREADS
            failed = td_autograd_grad((int)n, o, g, (int)n_in, in, results, retain, create, allow_unused);
            Py_END_ALLOW_THREADS
            if (failed)
                td_py_raise();
        } else if (!results) {
            PyErr_NoMemory();
        }
        if (!failed) {
            all = tuple_of((int)n_in, results);
            list_free(results, n_in);
        } else {
            PyMem_Free(results);
        }
    }
    list_free(o, n);
    list_free(g, k);
    list_free(in, n_in);
    return all;
}

/* x.backward(): the plain case here, the others in tede.autograd. */
PyObject *td_py_backward_method(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"gradient", "retain_graph", "create_graph", "inputs", NULL};
    PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None;
    int create = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OOpO:backward", names, &gradient, &retain, &create, &inputs))
        return NULL;
    if (!td_py_is_exact(self) && td_py_has_override(self))
        return td_py_override_method("backward", &self, 1);
    bool tensor = td_py_is_tensor(gradient);
    if (inputs != Py_None || (gradient != Py_None && !tensor)) {
        PyObject *module = PyImport_ImportModule("tede.autograd");
        PyObject *result = module ? PyObject_CallMethod(module, "_backward_of", "OOOiO", self, gradient, retain, create, inputs) : NULL;
        Py_XDECREF(module);
        return result;
    }
    int keep = retain == Py_None ? create : PyObject_IsTrue(retain);
    if (keep < 0)
        return NULL;
    td_tensor *root = td_py_x(self), *g = tensor ? td_py_x(gradient) : NULL;
    if (check_roots(1, &root, &g) < 0 || backward_all(1, &root, &g, keep, create) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- autograd.Function
 *
 * The context object that forward and backward get is a Python object; the node owns it, and it knows the node as long as that lives. */

typedef struct ContextObject {
    PyObject_HEAD
    PyObject *dict;
    td_node  *node;         /* borrowed; NULL before the call and after the node's end */
    PyObject *to_save, *dirty, *non_differentiable, *needs_input_grad, *function;
    bool      materialize;
} ContextObject;
static PyTypeObject context_type;

static int apply_node(void *context, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)node;
    ContextObject *ctx = context;
    PyGILState_STATE state = PyGILState_Ensure();
    int failed = 0;
    PyObject *all = PyTuple_New(n_grads + 1), *method = PyObject_GetAttrString(ctx->function, "backward"), *result = NULL;
    if (all) {
        PyTuple_SET_ITEM(all, 0, Py_NewRef((PyObject *)ctx));
        for (int i = 0; i < n_grads && all; i++) {
            PyObject *g = td_py_wrap_borrowed(grads[i]);
            if (!g)
                Py_CLEAR(all);
            else
                PyTuple_SET_ITEM(all, i + 1, g);
        }
    }
    result = all && method ? PyObject_Call(method, all, NULL) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(method);
    if (result && !PyTuple_Check(result) && !PyList_Check(result))
        Py_SETREF(result, PyTuple_Pack(1, result));
    if (!result) {
        failed = td_py_capture();
    } else {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
        PyObject **items = PySequence_Fast_ITEMS(result);
        while (n > n_results && items[n - 1] == Py_None)
            n--;
        if (n != n_results)
            failed = td_error(TD_E_RUNTIME, "function %s returned an incorrect number of gradients (expected %d, got %zd)",
                              td_node_name(node), n_results, n);
        for (Py_ssize_t i = 0; i < n_results && !failed; i++) {
            if (td_py_is_tensor(items[i])) {
                results[i] = td_tensor_retain(td_py_x(items[i]));
            } else if (items[i] != Py_None) {
                failed = td_error(TD_E_TYPE, "function %s returned a gradient of type %s at position %zd: tensors and None are "
                                  "possible", td_node_name(node), Py_TYPE(items[i])->tp_name, i);
            }
        }
        Py_DECREF(result);
    }
    PyGILState_Release(state);
    return failed;
}
static void drop_context(void *context)
{
    ((ContextObject *)context)->node = NULL;
    td_py_drop(context);
}
static const td_custom custom = {apply_node, NULL, drop_context};

static int mark(uint8_t *marks, PyObject *listed, PyObject *outputs, uint8_t bit)
{
    for (Py_ssize_t k = 0; listed && k < PyTuple_GET_SIZE(listed); k++)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); i++)
            if (PyTuple_GET_ITEM(outputs, i) == PyTuple_GET_ITEM(listed, k))
                marks[i] |= bit;
    return 0;
}

/* What forward gave, connected to the node; a new tuple. */
static PyObject *connect(ContextObject *ctx, td_node *node, PyObject *outputs, Py_ssize_t n_operands, td_tensor **operands)
{
    Py_ssize_t n = PyTuple_GET_SIZE(outputs), n_save = ctx->to_save ? PyTuple_GET_SIZE(ctx->to_save) : 0;
    td_tensor **list = PyMem_Calloc((size_t)(n + n_save) + 1, sizeof *list), **save = list ? list + n : NULL;
    uint8_t *marks = PyMem_Calloc((size_t)n + 1, 1);
    PyObject *result = NULL;
    int failed = list && marks ? 0 : (PyErr_NoMemory(), -1);
    if (!failed) {
        for (Py_ssize_t i = 0; i < n; i++) {
            PyObject *item = PyTuple_GET_ITEM(outputs, i);
            list[i] = td_py_is_tensor(item) ? td_tensor_retain(td_py_x(item)) : TD_NONE;
        }
        mark(marks, ctx->dirty, outputs, TD_OUTPUT_DIRTY);
        mark(marks, ctx->non_differentiable, outputs, TD_OUTPUT_NOT_DIFFERENTIABLE);
        failed = td_custom_outputs(node, (int)n, list, marks, (int)n_operands, operands);
        for (Py_ssize_t i = 0; i < n_save && !failed; i++) {
            PyObject *item = PyTuple_GET_ITEM(ctx->to_save, i);
            save[i] = TD_NONE;
            for (Py_ssize_t k = 0; k < n; k++)      /* an output that was replaced is saved as what replaced it */
                if (PyTuple_GET_ITEM(outputs, k) == item && list[k] != TD_NONE)
                    save[i] = list[k];
            if (save[i] == TD_NONE && td_py_is_tensor(item))
                save[i] = td_py_x(item);
        }
        if (!failed && td_custom_wanted(node))
            failed = td_custom_save(node, (int)n_save, save, (int)n, list);
        if (failed)
            td_py_raise();
        result = failed ? NULL : PyTuple_New(n);
        for (Py_ssize_t i = 0; i < n && result; i++) {
            PyObject *item = list[i] == TD_NONE ? Py_NewRef(PyTuple_GET_ITEM(outputs, i)) : td_py_wrap_borrowed(list[i]);
            if (!item)
                Py_CLEAR(result);
            else
                PyTuple_SET_ITEM(result, i, item);
        }
        for (Py_ssize_t i = 0; i < n; i++)
            td_tensor_release(list[i]);
    }
    PyMem_Free(list);
    PyMem_Free(marks);
    return result;
}

/* _apply_function(cls, context, runner, *args): runner(context, *args) gives forward's outputs. */
static PyObject *apply_function(PyObject *m, PyObject *const *args, Py_ssize_t nargs)
{
    (void)m;
    if (nargs < 3 || !PyObject_TypeCheck(args[1], &context_type))
        return PyErr_Format(PyExc_TypeError, "_apply_function(cls, context, forward, *args)");
    ContextObject *ctx = (ContextObject *)args[1];
    PyObject *const *operand_objects = args + 3;
    Py_ssize_t n = nargs - 3;
    PyObject *name = PyObject_GetAttrString(args[0], "__name__"), *whole = NULL, *outputs = NULL, *result = NULL;
    td_tensor **operands = PyMem_Calloc((size_t)n + 1, sizeof *operands);
    td_node *node = NULL;
    if (name)
        whole = PyUnicode_FromFormat("%UBackward", name);
    Py_XDECREF(name);
    if (!operands || !whole) {
        PyMem_Free(operands);
        Py_XDECREF(whole);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++)
        operands[i] = td_py_is_tensor(operand_objects[i]) ? td_py_x(operand_objects[i]) : TD_NONE;
    Py_XSETREF(ctx->function, Py_NewRef(args[0]));
    node = td_node_custom(&custom, Py_NewRef((PyObject *)ctx), PyUnicode_AsUTF8(whole), (int)n, operands);
    Py_DECREF(whole);
    if (!node) {
        Py_DECREF(ctx);
        PyMem_Free(operands);
        return td_py_raise();
    }
    ctx->node = node;
    td_custom_set_materialize(node, ctx->materialize);
    PyObject *needs = PyTuple_New(n);
    for (Py_ssize_t i = 0; needs && i < n; i++)
        PyTuple_SET_ITEM(needs, i, PyBool_FromLong(td_custom_wanted(node) && td_custom_needs(node, (int)i)));
    Py_XSETREF(ctx->needs_input_grad, needs);
    bool enabled = td_set_grad_enabled(false);
    PyObject **all = PyMem_Malloc((size_t)(n + 1) * sizeof *all);
    if (all) {
        all[0] = (PyObject *)ctx;
        memcpy(all + 1, operand_objects, (size_t)n * sizeof *all);
        outputs = PyObject_Vectorcall(args[2], all, (size_t)(n + 1), NULL);
        PyMem_Free(all);
    } else {
        PyErr_NoMemory();
    }
    td_set_grad_enabled(enabled);
    if (outputs) {
        bool single = !PyTuple_Check(outputs);
        PyObject *tuple = single ? PyTuple_Pack(1, outputs) : Py_NewRef(outputs);
        td_custom_set_materialize(node, ctx->materialize);
        PyObject *made = tuple ? connect(ctx, node, tuple, n, operands) : NULL;
        if (made && single) {
            result = Py_NewRef(PyTuple_GET_ITEM(made, 0));
            Py_DECREF(made);
        } else {
            result = made;
        }
        Py_XDECREF(tuple);
        Py_DECREF(outputs);
    }
    PyMem_Free(operands);
    Py_CLEAR(ctx->to_save);
    Py_CLEAR(ctx->dirty);
    Py_CLEAR(ctx->non_differentiable);
    td_node_drop(node);
    return result;
}

static int set_tuple(PyObject **place, PyObject *args)
{
    Py_XSETREF(*place, Py_NewRef(args));
    return 0;
}
static PyObject *save_for_backward(PyObject *self, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (item != Py_None && !td_py_is_tensor(item))
            return PyErr_Format(PyExc_TypeError, "save_for_backward can only save variables, but argument %zd is of type %s", i,
                                Py_TYPE(item)->tp_name);
    }
    set_tuple(&((ContextObject *)self)->to_save, args);
    Py_RETURN_NONE;
}
static PyObject *mark_dirty(PyObject *self, PyObject *args)
{
    set_tuple(&((ContextObject *)self)->dirty, args);
    Py_RETURN_NONE;
}
static PyObject *mark_non_differentiable(PyObject *self, PyObject *args)
{
    set_tuple(&((ContextObject *)self)->non_differentiable, args);
    Py_RETURN_NONE;
}
static PyObject *set_materialize_grads(PyObject *self, PyObject *on)
{
    int truth = PyObject_IsTrue(on);
    if (truth < 0)
        return NULL;
    ((ContextObject *)self)->materialize = truth;
    Py_RETURN_NONE;
}
static PyObject *saved_tensors(PyObject *self, void *unused)
{
    (void)unused;
    ContextObject *ctx = (ContextObject *)self;
    if (ctx->to_save)
        return Py_NewRef(ctx->to_save);
    if (!ctx->node)
        return PyTuple_New(0);
    int n = td_node_saved_count(ctx->node);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        td_tensor *x = td_node_saved_tensor(ctx->node, i);
        PyObject *item = x == TD_NONE ? Py_NewRef(Py_None) : td_py_wrap(x);
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
static PyObject *needs_input_grad(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *needs = ((ContextObject *)self)->needs_input_grad;
    return needs ? Py_NewRef(needs) : PyTuple_New(0);
}
static int context_init(PyObject *self, PyObject *args, PyObject *kw)
{
    (void)args, (void)kw;
    ((ContextObject *)self)->materialize = true;
    return 0;
}
static int context_clear(PyObject *self)
{
    ContextObject *c = (ContextObject *)self;
    Py_CLEAR(c->dict);
    Py_CLEAR(c->to_save);
    Py_CLEAR(c->dirty);
    Py_CLEAR(c->non_differentiable);
    return 0;
}
static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    ContextObject *c = (ContextObject *)self;
    Py_VISIT(c->dict);
    Py_VISIT(c->to_save);
    Py_VISIT(c->function);
    return 0;
}
static void context_dealloc(PyObject *self)
{
    ContextObject *c = (ContextObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    context_clear(self);
    Py_XDECREF(c->needs_input_grad);
    Py_XDECREF(c->function);
    type->tp_free(self);
}
static PyMethodDef context_methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS, "Keep tensors for backward, which finds them in saved_tensors."},
    {"mark_dirty", mark_dirty, METH_VARARGS, "These operands were written in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS, "These outputs have no gradient."},
    {"set_materialize_grads", set_materialize_grads, METH_O, "Whether absent gradients come as zeros (at first they do) or None."},
    {NULL},
};
static PyGetSetDef context_getset[] = {
    {"saved_tensors", saved_tensors, NULL, NULL, NULL},
    {"saved_variables", saved_tensors, NULL, NULL, NULL},
    {"needs_input_grad", needs_input_grad, NULL, "Which arguments want a gradient.", NULL},
    {NULL},
};
static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._FunctionContext",
    .tp_basicsize = sizeof(ContextObject),
    .tp_doc = "What a Function's forward leaves for its backward.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = context_init,
    .tp_dealloc = context_dealloc,
    .tp_traverse = context_traverse,
    .tp_clear = context_clear,
    .tp_free = PyObject_GC_Del,
    .tp_methods = context_methods,
    .tp_getset = context_getset,
    .tp_dictoffset = offsetof(ContextObject, dict),
};

static PyMethodDef functions[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether calls are recorded for gradients on this thread."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, NULL},
    {"is_inference_mode_enabled", is_inference_mode_enabled, METH_NOARGS, NULL},
    {"_set_inference_mode", set_inference_mode, METH_O, NULL},
    {"_backward", backward, METH_VARARGS, NULL},
    {"_grad", grad, METH_VARARGS, NULL},
    {"_apply_function", (PyCFunction)(void (*)(void))apply_function, METH_FASTCALL, NULL},
    {NULL},
};
int td_py_grad_init(PyObject *module)
{
    if (PyType_Ready(&node_type) < 0 || PyType_Ready(&handle_type) < 0 || PyType_Ready(&context_type) < 0)
        return -1;
    if (PyModule_AddObjectRef(module, "_Node", (PyObject *)&node_type) < 0 ||
        PyModule_AddObjectRef(module, "_FunctionContext", (PyObject *)&context_type) < 0 ||
        PyModule_AddObjectRef(module, "RemovableHandle", (PyObject *)&handle_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
