/* __torch_function__: overrides of calls by classes and modes.
 *
 * Where an argument's class has a __torch_function__, that is called instead of the operator, with the function, the types
 * involved, and the arguments.  Plain Tensors and Parameters never get here; for them the protocol costs the compare
 * with their types that every call makes anyway. */
#include "calls_csrc_override.h"
#include "binding.h"
#include <tede/autograd_nodes.h>

_Thread_local int td_py_overrides_off;
_Thread_local int td_py_function_modes;
static _Thread_local ModeStack modes;
static _Thread_local int all_off;               /* DisableTorchFunction is entered so many times */
static _Thread_local bool hop;                  /* the next call is made as if nobody took calls over */
static PyObject *word, *disabled;      /* "__torch_function__"; what a class sets it to, to be left alone */

/* td_py_function_modes is how many modes there are to call: what every call looks at. */
static void see_modes(void) { td_py_function_modes = all_off ? 0 : td_py_modes_count(&modes); }

bool td_py_has_override(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    if (td_py_overrides_off || type == &td_py_Tensor || type == td_py_Parameter || type == &PyLong_Type ||
        type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyList_Type || type == &PyTuple_Type || o == Py_None)
        return false;
    PyObject *found = _PyType_Lookup(type, word);
    return found && found != disabled;
}

/* A class that takes operators over in its __torch_dispatch__ doesn't take functions over, too, unless it says so. */
int td_py_leave_functions_alone(PyTypeObject *cls)
{
    static PyObject *dispatch;
    if (!dispatch && !(dispatch = PyUnicode_InternFromString("__torch_dispatch__")))
        return -1;
    if (_PyType_Lookup(cls, dispatch) == _PyType_Lookup(&td_py_Tensor, dispatch) ||
        _PyType_Lookup(cls, word) != _PyType_Lookup(&td_py_Tensor, word))
        return 0;
    return PyObject_SetAttr((PyObject *)cls, word, disabled);
}

/* ---- the protocol */

typedef struct Involved { PyObject *objects[64]; int n; } Involved;     /* owned: they may be items of lists */

/* Each type once, a subclass before its bases, else from left to right. */
static void involve(Involved *list, PyObject *o)
{
    if (!td_py_has_override(o) || list->n == 64)
        return;
    int at = list->n;
    for (int i = 0; i < list->n; i++) {
        if (Py_TYPE(list->objects[i]) == Py_TYPE(o))
            return;
        if (at == list->n && PyType_IsSubtype(Py_TYPE(o), Py_TYPE(list->objects[i])))
            at = i;
    }
    memmove(list->objects + at + 1, list->objects + at, (size_t)(list->n - at) * sizeof *list->objects);
    list->objects[at] = Py_NewRef(o);
    list->n++;
}
static void involve_members(Involved *list, PyObject *o, int depth)
{
    involve(list, o);
    if (depth && (PyTuple_Check(o) || PyList_Check(o)))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            involve_members(list, PySequence_Fast_GET_ITEM(o, i), depth - 1);
}
static void release_all(Involved *list)
{
    while (list->n)
        Py_DECREF(list->objects[--list->n]);
}

/* The innermost mode is called first; what it calls is seen by the modes around it. */
static PyObject *call_mode(PyObject *function, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *mode = td_py_modes_top(&modes);
    ModeStack whole = td_py_modes_leave(&modes);
    see_modes();
    PyObject *method = PyObject_GetAttr(mode, word);
    if (method && PyMethod_Check(method) && PyMethod_GET_SELF(method) != mode) {
        PyErr_SetString(PyExc_RuntimeError, "Defining your mode's `__torch_function__` as a classmethod is not supported, please make "
                                            "it a plain method");
        Py_CLEAR(method);
    }
    PyObject *result = method ? PyObject_CallFunctionObjArgs(method, function, types, args, kwargs, NULL) : NULL;
    Py_XDECREF(method);
    td_py_modes_enter(&modes, whole);
    see_modes();
    return result;
}

static PyObject *call_handlers(PyObject *function, const Involved *list, PyObject *args, PyObject *kwargs)
{
    PyObject *types = PyTuple_New(list->n);
    if (!types)
        return NULL;
    for (int i = 0; i < list->n; i++)
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(list->objects[i])));
    PyObject *result = NULL;
    if (td_py_function_modes) {
        result = call_mode(function, types, args, kwargs);
        if (result != Py_NotImplemented) {
            Py_DECREF(types);
            return result;
        }
        Py_CLEAR(result);
    }
    for (int i = 0; i < list->n; i++) {
        PyObject *method = PyObject_GetAttr(list->objects[i], word);
        if (method && PyMethod_Check(method) && PyMethod_GET_SELF(method) == list->objects[i] &&
            PyErr_WarnEx(td_py_is_overridable(function) ? PyExc_DeprecationWarning : PyExc_UserWarning,
                         "Defining your `__torch_function__` as a plain method is deprecated and will be an error "
                         "in future, please define it as a classmethod.", 1) < 0)
            Py_CLEAR(method);
        result = method ? PyObject_CallFunctionObjArgs(method, function, types, args, kwargs, NULL) : NULL;
        Py_XDECREF(method);
        if (result != Py_NotImplemented)
            break;
        Py_CLEAR(result);
    }
    if (!result && !PyErr_Occurred()) {
        PyObject *name = PyObject_GetAttrString(function, "__name__");
        if (!name)
            PyErr_Clear();
        PyObject *text = PyUnicode_FromFormat("Multiple dispatch failed for 'torch.%S'; all __torch_function__ handlers "
                                              "returned NotImplemented:\n", name ? name : function);
        for (int i = 0; i < list->n && text; i++)
            Py_SETREF(text, PyUnicode_FromFormat("%U\n  - tensor subclass %R", text, Py_TYPE(list->objects[i])));
        if (text)
            PyErr_SetObject(PyExc_TypeError, text);
        Py_XDECREF(text);
        Py_XDECREF(name);
    }
    Py_DECREF(types);
    return result;
}

bool td_py_take_hop(void)
{
    bool was = hop;
    hop = false;
    return was;
}
static PyObject *call_plainly(PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    all_off++, td_py_overrides_off++;
    see_modes();
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)nargs, kwnames);
    all_off--, td_py_overrides_off--;
    see_modes();
    return result;
}

PyObject *td_py_override(PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (td_py_take_hop())
        return call_plainly(function, args, nargs, kwnames);
    Involved list = {.n = 0};
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < nargs + n_keywords; i++)
        involve_members(&list, args[i], 2);     /* lists in an index */
    PyObject *tuple = PyTuple_New(nargs), *dict = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; tuple && i < nargs; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t k = 0; dict && k < n_keywords; k++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, k), args[nargs + k]) < 0)
            Py_CLEAR(dict);
    if (tuple && dict)
        result = call_handlers(function, &list, tuple, dict);
    release_all(&list);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

PyObject *td_py_override_type(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dict = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *result = dict ? call_handlers((PyObject *)type, &(Involved){.n = 0}, args, dict) : NULL;
    Py_XDECREF(dict);
    return result;
}

static PyObject *attribute_of_tensor(const char *name)
{
    return PyObject_GetAttrString((PyObject *)&td_py_Tensor, name);
}
PyObject *td_py_override_method_call(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                     PyObject *kwnames)
{
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *function = attribute_of_tensor(name), **all = PyMem_Malloc((size_t)(total + 1) * sizeof *all), *result = NULL;
    if (function && all) {
        all[0] = self;
        memcpy(all + 1, args, (size_t)total * sizeof *all);
        result = td_py_override(function, all, nargs + 1, kwnames);
    } else if (function) {
        PyErr_NoMemory();
    }
    PyMem_Free(all);
    Py_XDECREF(function);
    return result;
}
PyObject *td_py_override_method(const char *name, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *function = attribute_of_tensor(name);
    PyObject *result = function ? td_py_override(function, args, nargs, NULL) : NULL;
    Py_XDECREF(function);
    return result;
}
PyObject *td_py_override_getter(const char *name, PyObject *self)
{
    PyObject *descriptor = attribute_of_tensor(name);
    PyObject *getter = descriptor ? PyObject_GetAttrString(descriptor, "__get__") : NULL;
    PyObject *result = getter ? td_py_override(getter, &self, 1, NULL) : NULL;
    Py_XDECREF(descriptor);
    Py_XDECREF(getter);
    return result;
}
int td_py_override_setter(const char *name, PyObject *self, PyObject *value)
{
    PyObject *descriptor = attribute_of_tensor(name), *all[] = {self, value};
    PyObject *setter = descriptor ? PyObject_GetAttrString(descriptor, value ? "__set__" : "__delete__") : NULL;
    PyObject *result = setter ? td_py_override(setter, all, value ? 2 : 1, NULL) : NULL;
    Py_XDECREF(descriptor);
    Py_XDECREF(setter);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* ---- for Python code that takes part */

static PyObject *push_mode(PyObject *m, PyObject *mode)
{
    (void)m;
    if (td_py_modes_push(&modes, mode) < 0)
        return NULL;
    see_modes();
    Py_RETURN_NONE;
}
static PyObject *pop_mode(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    PyObject *mode = td_py_modes_pop(&modes);
    see_modes();
    return mode;
}
static PyObject *mode_stack(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return td_py_modes_list(&modes);
}

static PyObject *mode_count(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLong(td_py_modes_count(&modes));
}
static PyObject *mode_at(PyObject *m, PyObject *i)
{
    (void)m;
    long at = PyLong_AsLong(i);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    if (at < 0 || at >= td_py_modes_count(&modes))
        return PyErr_Format(PyExc_IndexError, "mode %ld of %d", at, td_py_modes_count(&modes));
    PyObject *list = td_py_modes_list(&modes), *mode = list ? Py_NewRef(PyList_GET_ITEM(list, at)) : NULL;
    Py_XDECREF(list);
    return mode;
}

static PyObject *has_torch_function(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *list = PySequence_Fast(args, "expected a sequence");
    bool any = td_py_function_modes > 0;
    for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(list) && !any; i++)
        any = td_py_has_override(PySequence_Fast_GET_ITEM(list, i));
    Py_XDECREF(list);
    return list ? PyBool_FromLong(any && !td_py_take_hop()) : NULL;
}
static PyObject *has_torch_function_variadic(PyObject *m, PyObject *const *args, Py_ssize_t nargs)
{
    (void)m;
    bool any = td_py_function_modes > 0;
    for (Py_ssize_t i = 0; i < nargs && !any; i++)
        any = td_py_has_override(args[i]);
    return PyBool_FromLong(any && !td_py_take_hop());
}
/* _skip_one_hop_torch_function(function, types, args, kwargs): only the calls that the function makes are taken over. */
static PyObject *skip_one_hop(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function, *types, *arguments, *kwargs = NULL;
    if (!PyArg_ParseTuple(args, "OOO!|O", &function, &types, &PyTuple_Type, &arguments, &kwargs))
        return NULL;
    bool before = hop;
    hop = true;
    PyObject *result = PyObject_Call(function, arguments, kwargs == Py_None ? NULL : kwargs);
    hop = before;
    return result;
}
/* handle_torch_function(function, relevant_args, *args, **kwargs) */
static PyObject *handle_torch_function(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    if (PyTuple_GET_SIZE(args) < 2)
        return PyErr_Format(PyExc_TypeError, "handle_torch_function() needs a function and its relevant arguments");
    PyObject *relevant = PySequence_Fast(PyTuple_GET_ITEM(args, 1), "relevant_args must be a sequence");
    if (!relevant)
        return NULL;
    Involved list = {.n = 0};
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(relevant); i++)
        involve(&list, PySequence_Fast_GET_ITEM(relevant, i));
    PyObject *rest = PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args)), *empty = kw ? Py_NewRef(kw) : PyDict_New();
    PyObject *result = rest && empty ? call_handlers(PyTuple_GET_ITEM(args, 0), &list, rest, empty) : NULL;
    release_all(&list);
    Py_XDECREF(rest);
    Py_XDECREF(empty);
    Py_DECREF(relevant);
    return result;
}
/* The implementation of a class that doesn't want to take part. */
static PyObject *disabled_torch_function(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function, *types, *arguments, *kwargs = NULL;
    if (!PyArg_ParseTuple(args, "OOO!|O", &function, &types, &PyTuple_Type, &arguments, &kwargs))
        return NULL;
    td_py_overrides_off++;
    PyObject *result = PyObject_Call(function, arguments, kwargs == Py_None ? NULL : kwargs);
    td_py_overrides_off--;
    return result;
}
PyObject *td_py_not_subclass(void)
{
    return PyErr_Format(PyExc_TypeError, "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
                        "Make sure your class inherits from Tensor.");
}

static PyObject *as_subclass(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x, *cls;
    if (!PyArg_ParseTuple(args, "O!O!:as_subclass", &td_py_Tensor, &x, &PyType_Type, &cls))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)cls, &td_py_Tensor))
        return td_py_not_subclass();
    return td_py_wrap_as(td_alias(td_py_x(x)), (PyTypeObject *)cls);
}

/* Guards: DisableTorchFunctionSubclass disables the handlers of classes, DisableTorchFunction those of modes, too, and
 * _EnableTorchFunction, which holds from its making until it is left or dropped, undoes both. */
typedef struct { PyObject_HEAD int overrides, all; bool entered; } GuardObject;
static PyTypeObject guard_type, whole_guard_type, enabling_type;
static void guard_switch(GuardObject *g, int overrides, int all)
{
    g->overrides = td_py_overrides_off, g->all = all_off;
    td_py_overrides_off = overrides, all_off = all;
    g->entered = true;
    see_modes();
}
static PyObject *guard_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)args, (void)kw;
    GuardObject *self = (GuardObject *)type->tp_alloc(type, 0);
    if (self && type == &enabling_type)
        guard_switch(self, 0, 0);
    return (PyObject *)self;
}
static PyObject *guard_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (Py_TYPE(self) != &enabling_type)
        guard_switch((GuardObject *)self, td_py_overrides_off + 1, all_off + (Py_TYPE(self) == &whole_guard_type));
    return Py_NewRef(self);
}
static PyObject *guard_exit(PyObject *self, PyObject *unused)
{
    (void)unused;
    GuardObject *g = (GuardObject *)self;
    if (g->entered) {
        td_py_overrides_off = g->overrides, all_off = g->all;
        see_modes();
    }
    g->entered = false;
    Py_RETURN_NONE;
}
static void enabling_dealloc(PyObject *self)
{
    Py_DECREF(guard_exit(self, NULL));
    Py_TYPE(self)->tp_free(self);
}
static PyMethodDef guard_methods[] = {
    {"__enter__", guard_enter, METH_NOARGS, NULL},
    {"__exit__", guard_exit, METH_VARARGS, NULL},
    {NULL},
};
#define GUARD(variable, name, doc, ...)                                                                                      \
    static PyTypeObject variable = {                                                                                         \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C." name, .tp_basicsize = sizeof(GuardObject), .tp_doc = doc,        \
        .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = guard_new, .tp_methods = guard_methods, __VA_ARGS__                        \
    }
GUARD(guard_type, "DisableTorchFunctionSubclass", "Within it no class's __torch_function__ is called.", .tp_dealloc = NULL);
GUARD(whole_guard_type, "DisableTorchFunction", "Within it no __torch_function__ is called, of classes and of modes.",
      .tp_dealloc = NULL);
GUARD(enabling_type, "_EnableTorchFunction", "While it lives the handlers of classes and modes are called, whatever was disabled around it.",
      .tp_dealloc = enabling_dealloc);

/* Whether the handlers of neither classes nor modes are called. */
static PyObject *all_disabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(all_off > 0);
}
static PyObject *functions_enabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(!td_py_overrides_off);
}

/* The same as one value, which programs save and set again. */
static PyObject *state_type;
static PyObject *get_state(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyObject_CallFunction(state_type, "i", all_off ? 2 : td_py_overrides_off ? 1 : 0);
}
static PyObject *set_state(PyObject *m, PyObject *state)
{
    (void)m;
    if (!PyObject_TypeCheck(state, (PyTypeObject *)state_type))
        return PyErr_Format(PyExc_TypeError, "_set_torch_function_state(): expected a _TorchFunctionState, got %.200s", Py_TYPE(state)->tp_name);
    long value = PyLong_AsLong(state);
    td_py_overrides_off = value > 0, all_off = value > 1;
    see_modes();
    Py_RETURN_NONE;
}
static int add_state_type(PyObject *module)
{
    TD_PY_AUTO PyObject *enums = PyImport_ImportModule("enum");
    state_type = enums ? PyObject_CallMethod(enums, "IntEnum", "s{si,si,si}", "_TorchFunctionState", "ENABLED", 0, "SUBCLASSES_DISABLED", 1,
                                             "ALL_DISABLED", 2) : NULL;
    return state_type ? PyModule_AddObjectRef(module, "_TorchFunctionState", state_type) : -1;
}

/* What of this file, and of the default device, a backward pass takes to other threads. */
typedef struct State { ModeStack modes; int overrides_off, all_off; td_device default_device; } State;
static void swap_state(void *state)
{
    State *other = state, mine = {modes, td_py_overrides_off, all_off, td_py_default_device};
    modes = other->modes;
    td_py_overrides_off = other->overrides_off, all_off = other->all_off;
    td_py_default_device = other->default_device;
    see_modes();
    *other = mine;
}

static PyMethodDef functions[] = {
    {"_has_torch_function", has_torch_function, METH_O, NULL},
    {"_has_torch_function_variadic", (PyCFunction)(void (*)(void))has_torch_function_variadic, METH_FASTCALL, NULL},
    {"_handle_torch_function", (PyCFunction)(void (*)(void))handle_torch_function, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_disabled_torch_function_impl", disabled_torch_function, METH_VARARGS, NULL},
    {"_skip_one_hop_torch_function", skip_one_hop, METH_VARARGS, NULL},
    {"_as_subclass", as_subclass, METH_VARARGS, NULL},
    {"_push_on_torch_function_stack", push_mode, METH_O, NULL},
    {"_pop_torch_function_stack", pop_mode, METH_NOARGS, NULL},
    {"_torch_function_stack", mode_stack, METH_NOARGS, NULL},
    {"_len_torch_function_stack", mode_count, METH_NOARGS, NULL},
    {"_get_function_stack_at", mode_at, METH_O, NULL},
    {"_is_torch_function_all_disabled", all_disabled, METH_NOARGS, NULL},
    {"_is_torch_function_enabled", functions_enabled, METH_NOARGS, NULL},
    {"_get_torch_function_state", get_state, METH_NOARGS, NULL},
    {"_set_torch_function_state", set_state, METH_O, NULL},
    {NULL},
};

int td_py_override_init(PyObject *module)
{
    if (!(word = PyUnicode_InternFromString("__torch_function__")) || PyType_Ready(&guard_type) < 0 ||
        PyType_Ready(&whole_guard_type) < 0 || PyType_Ready(&enabling_type) < 0 ||
        PyModule_AddFunctions(module, functions) < 0 || add_state_type(module) < 0)
        return -1;
    disabled = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
    if (td_backward_carry(&(td_carried_state){sizeof(State), swap_state, td_py_modes_retain, td_py_modes_release}) < 0)
        return td_py_raise(), -1;
    if (!disabled || PyModule_AddObjectRef(module, "DisableTorchFunction", (PyObject *)&whole_guard_type) < 0 ||
        PyModule_AddObjectRef(module, "_EnableTorchFunction", (PyObject *)&enabling_type) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "DisableTorchFunctionSubclass", (PyObject *)&guard_type);
}
