/* Hooks on tensors and nodes: Python's functions called by backward passes.
 *
 * They run with the lock taken again, for passes give it up. */
#include "binding.h"
#include <tede/autograd_nodes.h>

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
static const char *hook_name(PyObject *hook, char name[100])
{
    PyObject *text = PyObject_GetAttrString(hook, "__name__");
    const char *chars = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    snprintf(name, 100, "%s", chars ? chars : "<unknown>");
    Py_XDECREF(text);
    PyErr_Clear();
    return name;
}
/* A replacement has the shape and dtype of what it replaces. */
static int check_alike(PyObject *hook, td_tensor *was, td_tensor *now)
{
    char name[100];
    if (was == TD_NONE)
        return 0;
    if (td_tensor_ndim(was) != td_tensor_ndim(now) ||
        memcmp(td_tensor_sizes(was), td_tensor_sizes(now), (size_t)td_tensor_ndim(was) * sizeof(int64_t)))
        return td_error(TD_E_RUNTIME, "hook '%s' has changed the size of value", hook_name(hook, name));
    if (td_tensor_dtype(was) != td_tensor_dtype(now))
        return td_error(TD_E_RUNTIME, "hook '%s' has changed the type of value (was torch.%sTensor got torch.%sTensor)",
                        hook_name(hook, name), td_dtype_title(td_tensor_dtype(was)), td_dtype_title(td_tensor_dtype(now)));
    return 0;
}
static int call_tensor_hook(void *context, td_tensor *grad, td_tensor **replacement)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *argument = td_py_wrap_borrowed(grad);
    int failed = argument ? answer(PyObject_CallOneArg(context, argument), replacement) : td_py_capture();
    if (!failed && *replacement && *replacement != TD_NONE && (failed = check_alike(context, grad, *replacement))) {
        td_tensor_release(*replacement);
        *replacement = NULL;
    }
    Py_XDECREF(argument);
    PyGILState_Release(state);
    return failed;
}
static int call_leaf_hook(void *context, td_tensor *leaf)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *argument = td_py_wrap_borrowed(leaf), *result = argument ? PyObject_CallOneArg(context, argument) : NULL;
    int failed = !result ? td_py_capture() : result == Py_None ? 0
               : td_error(TD_E_RUNTIME, "Tensor post accumulate grad hooks should return None.");
    Py_XDECREF(result);
    Py_XDECREF(argument);
    PyGILState_Release(state);
    return failed;
}

PyObject *td_py_tensor_tuple(int n, td_tensor *const *tensors)
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
/* A node hook's answer: None, or a tuple of tensors and None. */
static int answers(PyObject *hook, PyObject *result, int n, td_tensor *const *given, td_tensor **replacements)
{
    char name[100];
    if (!result)
        return td_py_capture();
    int failed = 0;
    if (PyTuple_Check(result)) {
        if (PyTuple_GET_SIZE(result) != n)
            failed = td_error(TD_E_RUNTIME, "hook '%s' has returned an incorrect number of values (got %zd, but expected %d)",
                              hook_name(hook, name), PyTuple_GET_SIZE(result), n);
        for (int i = 0; i < n && !failed; i++) {
            PyObject *item = PyTuple_GET_ITEM(result, i);
            if (td_py_is_tensor(item) && (!given[i] || given[i] == TD_NONE))
                failed = td_error(TD_E_RUNTIME, "can't replace a None gradient with a non-None value");
            else if (td_py_is_tensor(item) && !(failed = check_alike(hook, given[i], td_py_x(item))))
                replacements[i] = td_tensor_retain(td_py_x(item));
            else if (!failed && item != Py_None)
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
    PyObject *all = td_py_tensor_tuple(n, grads);
    int failed = all ? answers(context, PyObject_CallOneArg(context, all), n, grads, replacements) : td_py_capture();
    Py_XDECREF(all);
    PyGILState_Release(state);
    return failed;
}
static int call_post_hook(void *context, int n_results, td_tensor *const *results, int n_grads, td_tensor *const *grads,
                          td_tensor **replacements)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *gave = td_py_tensor_tuple(n_results, results), *took = td_py_tensor_tuple(n_grads, grads);
    int failed = gave && took ? answers(context, PyObject_CallFunctionObjArgs(context, gave, took, NULL), n_results, results,
                                        replacements)
                              : td_py_capture();
    Py_XDECREF(gave);
    Py_XDECREF(took);
    PyGILState_Release(state);
    return failed;
}

/* x._backward_hooks, if the program has set it: a mapping of hooks, which stand in x's dict. */
static const char set_hooks[] = "_hooks";
static int call_set_hooks(void *context, td_tensor *grad, td_tensor **replacement)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *hooks = PyMapping_Values(context);
    int failed = hooks ? 0 : td_py_capture();
    for (Py_ssize_t i = 0; hooks && !failed && i < PyList_GET_SIZE(hooks); i++) {
        td_tensor *next = NULL;
        TD_PY_AUTO PyObject *hook = td_py_item_at(hooks, i);
        failed = hook ? call_tensor_hook(hook, *replacement ? *replacement : grad, &next) : td_py_capture();
        if (next) {
            td_tensor_release(*replacement);
            *replacement = next;
        }
    }
    Py_XDECREF(hooks);
    PyGILState_Release(state);
    return failed;
}
PyObject *td_py_get_hooks(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *dict = ((TensorObject *)self)->dict, *hooks = dict ? PyDict_GetItemString(dict, set_hooks) : NULL;
    return Py_NewRef(hooks ? hooks : Py_None);
}
/* All hooks that the tensor had go, and these come; None: no others. */
int td_py_set_hooks(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    td_tensor *x = td_py_x(self);
    if (!value)
        return PyErr_SetString(PyExc_RuntimeError, "Deletion of _backwards_hooks not allowed!"), -1;
    if (value != Py_None && !PyMapping_Check(value))
        return PyErr_Format(PyExc_TypeError, "_backward_hooks must be a dictionary or None, not %s", Py_TYPE(value)->tp_name), -1;
    PyObject *dict = PyObject_GenericGetDict(self, NULL);
    int failed = dict ? PyDict_SetItemString(dict, set_hooks, value) : -1;
    Py_XDECREF(dict);
    if (failed)
        return -1;
    if (!PyObject_GC_IsTracked(self))
        PyObject_GC_Track(self);
    td_hook *hook = NULL;
    failed = td_tensor_remove_hooks(x, td_py_drop);
    if (!failed && value != Py_None && td_requires_grad(x)) {
        hook = td_tensor_add_hook(x, call_set_hooks, Py_NewRef(value), td_py_drop);
        if (!hook)
            Py_DECREF(value), failed = -1;
    }
    td_hook_release(hook);
    return failed ? (td_py_raise(), -1) : 0;
}
static PyObject *add_to_set(PyObject *hooks, PyObject *hook)
{
    PyObject *module = PyImport_ImportModule("tede.utils.hooks"), *id = NULL;
    PyObject *handle = module ? PyObject_CallMethod(module, "RemovableHandle", "O", hooks) : NULL;
    if (handle && (!(id = PyObject_GetAttrString(handle, "id")) || PyObject_SetItem(hooks, id, hook) < 0))
        Py_CLEAR(handle);
    Py_XDECREF(module);
    Py_XDECREF(id);
    return handle;
}

PyObject *td_py_register_hook(PyObject *self, PyObject *hook)
{
    if (!td_requires_grad(td_py_x(self)))
        return PyErr_Format(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    PyObject *dict = ((TensorObject *)self)->dict, *set = dict ? PyDict_GetItemString(dict, set_hooks) : NULL;
    if (set && set != Py_None)
        return add_to_set(set, hook);
    if (!PyObject_GC_IsTracked(self))
        PyObject_GC_Track(self);
    return wrap_handle(td_tensor_add_hook(td_py_x(self), call_tensor_hook, Py_NewRef(hook), td_py_drop), hook);
}
PyObject *td_py_register_leaf_hook(PyObject *self, PyObject *hook)
{
    td_tensor *x = td_py_x(self);
    if (!td_requires_grad(x))
        return PyErr_Format(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    if (!td_is_leaf(x))
        return PyErr_Format(PyExc_RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    if (!PyObject_GC_IsTracked(self))
        PyObject_GC_Track(self);
    return wrap_handle(td_leaf_add_hook(x, call_leaf_hook, Py_NewRef(hook), td_py_drop), hook);
}
PyObject *td_py_register_node_hook(td_node *node, PyObject *hook, bool before)
{
    Py_INCREF(hook);
    return wrap_handle(before ? td_node_add_pre_hook(node, call_pre_hook, hook, td_py_drop)
                              : td_node_add_post_hook(node, call_post_hook, hook, td_py_drop), hook);
}

int td_py_hooks_init(PyObject *module)
{
    return PyType_Ready(&handle_type) < 0 ? -1 : PyModule_AddObjectRef(module, "RemovableHandle", (PyObject *)&handle_type);
}
