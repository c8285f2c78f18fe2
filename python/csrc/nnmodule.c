/* The base type of nn.Module: what every forward pass does with a module, without Python code.
 *
 * A module keeps parameters, buffers and children in three dicts inside its __dict__, so `module.weight` misses the
 * ordinary lookup, and `module(x)` looks for hooks before it calls `forward`.  Both are here; everything else about
 * modules is Python, in tede/nn/modules/module.py.
 *
 * The type adds no fields: instances are laid out as Python's own classes are, so that a subclass may have any other
 * base, pickle and assign __class__.  Attributes have a trap: a type with a __getattr__ method gets a slot that first
 * fails as in Python, with an exception made and thrown away, before it calls the method.  So __init_subclass__ puts
 * `getattro` into the slot of each new class, unless the class defines __getattr__ or __getattribute__; if one
 * is hung on a class later, the interpreter resets the slot, which is right too.  __setattr__ must stay a method: with a
 * slot of our own, object.__setattr__(module, ...) would be refused. */
#include "binding.h"

static struct {
    PyObject *parameters, *buffers, *modules, *forward, *call_impl, *call_with_hooks, *assign, *getattr, *getattribute,
        *init_subclass, *hooks[4];
} word;
static PyTypeObject *base;
static PyObject *own_getattr, *plain_getattribute, *own_call_impl;
static PyObject *global_hooks[4];       /* dicts of hooks on all modules; NULL before nn is imported */

/* The instance's __dict__, borrowed; NULL if it has none yet. */
static PyObject *dict_of(PyObject *self)
{
    PyObject **place = _PyObject_GetDictPtr(self);
    return place ? *place : NULL;
}

/* members[name], borrowed; NULL with or without an error.  Programs put dicts of their own classes there. */
static PyObject *find(PyObject *members, PyObject *name, PyObject **owned)
{
    *owned = NULL;
    if (!members)
        return NULL;
    if (PyDict_CheckExact(members) || Py_IS_TYPE(members, &PyODict_Type))
        return PyDict_GetItemWithError(members, name);
    int there = PySequence_Contains(members, name);
    return there > 0 ? (*owned = PyObject_GetItem(members, name)) : NULL;
}

static PyObject *member(PyObject *self, PyObject *name)
{
    PyObject *dict = dict_of(self);
    PyObject *groups[] = {word.parameters, word.modules, word.buffers};
    for (int i = 0; dict && i < 3; i++) {
        PyObject *owned;
        TD_PY_AUTO PyObject *group = Py_XNewRef(PyDict_GetItemWithError(dict, groups[i]));
        PyObject *value = find(group, name, &owned);
        if (value)
            return owned ? owned : Py_NewRef(value);
        if (PyErr_Occurred())
            return NULL;
    }
    return PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%S'", Py_TYPE(self)->tp_name, name);
}

static PyObject *getattro(PyObject *self, PyObject *name)
{
    if (_PyType_Lookup(Py_TYPE(self), name)) {
        PyObject *value = PyObject_GenericGetAttr(self, name);
        if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
            return value;
        PyErr_Clear();                  /* a property that failed: Python asks __getattr__ then */
        return member(self, name);
    }
    PyObject *dict = dict_of(self), *value = dict ? PyDict_GetItemWithError(dict, name) : NULL;
    return value ? Py_NewRef(value) : PyErr_Occurred() ? NULL : member(self, name);
}

/* Class creation; other bases may have an __init_subclass__ too. */
static PyObject *init_subclass(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    PyObject *above = PyObject_CallFunctionObjArgs((PyObject *)&PySuper_Type, (PyObject *)base, cls, NULL);
    PyObject *next = above ? PyObject_GetAttr(above, word.init_subclass) : NULL;
    PyObject *result = next ? PyObject_Call(next, args, kwargs) : NULL;
    Py_XDECREF(above), Py_XDECREF(next);
    PyTypeObject *type = (PyTypeObject *)cls;
    if (result && _PyType_Lookup(type, word.getattr) == own_getattr &&
        _PyType_Lookup(type, word.getattribute) == plain_getattribute)
        type->tp_getattro = getattro;
    return result;
}

/* ---- calling */

static bool has_hooks(PyObject *dict)
{
    for (int i = 0; i < 4; i++) {
        PyObject *own = PyDict_GetItemWithError(dict, word.hooks[i]);
        if (!own || !PyDict_Check(own) || PyDict_GET_SIZE(own) || (global_hooks[i] && PyDict_GET_SIZE(global_hooks[i])))
            return true;                /* a module without its dicts, too: Python says what is wrong */
    }
    return false;
}

static PyObject *forward(PyObject *self, PyObject *dict, PyObject *args, PyObject *kwargs)
{
    PyObject *function = _PyType_Lookup(Py_TYPE(self), word.forward), *stack[8];
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (!function || !PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_METHOD_DESCRIPTOR) || n >= 8 ||
        PyDict_GetItemWithError(dict, word.forward)) {
        if (PyErr_Occurred() || !(function = PyObject_GetAttr(self, word.forward)))
            return NULL;
        PyObject *result = PyObject_Call(function, args, kwargs);
        Py_DECREF(function);
        return result;
    }
    stack[0] = self;
    for (Py_ssize_t i = 0; i < n; i++)
        stack[i + 1] = PyTuple_GET_ITEM(args, i);
    Py_INCREF(function);
    PyObject *result = PyObject_VectorcallDict(function, stack, n + 1, kwargs);
    Py_DECREF(function);
    return result;
}

static PyObject *call_by_name(PyObject *self, PyObject *name, PyObject *args, PyObject *kwargs)
{
    PyObject *method = PyObject_GetAttr(self, name);
    PyObject *result = method ? PyObject_Call(method, args, kwargs) : NULL;
    Py_XDECREF(method);
    return result;
}

static PyObject *call_impl(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *dict = dict_of(self);
    if (dict && !has_hooks(dict))
        return forward(self, dict, args, kwargs);
    if (PyErr_Occurred())
        return NULL;
    PyObject *all = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *pair = all ? PyTuple_Pack(2, args, all) : NULL;
    PyObject *result = pair ? call_by_name(self, word.call_with_hooks, pair, NULL) : NULL;
    Py_XDECREF(all), Py_XDECREF(pair);
    return result;
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (TD_LIKELY(_PyType_Lookup(Py_TYPE(self), word.call_impl) == own_call_impl))
        return call_impl(self, args, kwargs);
    return call_by_name(self, word.call_impl, args, kwargs);
}

/* ---- assigning */

/* Whether a value can't be a parameter, child or marked buffer, whatever the name. */
static bool is_plain(PyObject *value)
{
    if (PyObject_TypeCheck(value, base))
        return false;
    if (!td_py_is_tensor(value))
        return true;
    return Py_IS_TYPE(value, &td_py_Tensor) && !((TensorObject *)value)->dict;    /* marks are attributes */
}

static PyObject *set_attribute(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "expected 2 arguments, got %zd", nargs);
    PyObject *name = args[0], *value = args[1], *dict = dict_of(self);
    bool plain = is_plain(value);
    PyObject *groups[] = {word.parameters, word.modules, word.buffers};
    for (int i = 0; plain && dict && i < 3; i++) {
        TD_PY_AUTO PyObject *group = Py_XNewRef(PyDict_GetItemWithError(dict, groups[i]));
        int there = group ? PyDict_CheckExact(group) ? PyDict_Contains(group, name) : PySequence_Contains(group, name) : 0;
        if (there < 0 || PyErr_Occurred())
            return NULL;
        plain = !there;
    }
    if (!plain)
        return PyObject_CallMethodObjArgs(self, word.assign, name, value, NULL);
    if (PyObject_GenericSetAttr(self, name, value) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the type */

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f)
static PyMethodDef methods[] = {
    {"__getattr__", member, METH_O, "A parameter, child or buffer by name."},
    {"__setattr__", KEYWORDS(set_attribute), METH_FASTCALL, "Parameters, children and buffers go to their dicts."},
    {"__init_subclass__", KEYWORDS(init_subclass), METH_CLASS | METH_VARARGS | METH_KEYWORDS, NULL},
    {"_call_impl", KEYWORDS(call_impl), METH_VARARGS | METH_KEYWORDS, "What a call does: forward with the hooks around it."},
    {NULL},
};
static PyType_Slot slots[] = {{Py_tp_call, call}, {Py_tp_methods, methods}, {0}};
static PyType_Spec spec = {
    .name = "tede._C._ModuleBase",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

static PyObject *set_global_hooks(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *d[4];
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyDict_Type, d, &PyDict_Type, d + 1, &PyDict_Type, d + 2, &PyDict_Type, d + 3))
        return NULL;
    for (int i = 0; i < 4; i++)
        Py_XSETREF(global_hooks[i], Py_NewRef(d[i]));
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"_set_module_hooks", set_global_hooks, METH_VARARGS, "The dicts of hooks that every module's call looks at."},
    {NULL},
};

int td_py_nnmodule_init(PyObject *module)
{
    static const struct { PyObject **place; const char *text; } words[] = {
        {&word.parameters, "_parameters"}, {&word.buffers, "_buffers"}, {&word.modules, "_modules"},
        {&word.forward, "forward"}, {&word.call_impl, "_call_impl"}, {&word.call_with_hooks, "_call_with_hooks"},
        {&word.assign, "_assign"}, {&word.getattr, "__getattr__"}, {&word.getattribute, "__getattribute__"},
        {&word.init_subclass, "__init_subclass__"}, {word.hooks, "_backward_hooks"}, {word.hooks + 1, "_backward_pre_hooks"},
        {word.hooks + 2, "_forward_hooks"}, {word.hooks + 3, "_forward_pre_hooks"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!(*words[i].place = PyUnicode_InternFromString(words[i].text)))
            return -1;
    if (!(base = (PyTypeObject *)PyType_FromSpec(&spec)))
        return -1;
    own_getattr = _PyType_Lookup(base, word.getattr);
    own_call_impl = _PyType_Lookup(base, word.call_impl);
    plain_getattribute = _PyType_Lookup(base, word.getattribute);
    if (PyModule_AddObjectRef(module, "_ModuleBase", (PyObject *)base) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
