/* Python functions of the package whose calls a __torch_function__ may take over: torch.nn.functional's.
 *
 * A __torch_function__ must be passed F.relu, not the operator within.  The object checks the arguments for overrides and calls
 * the function that it wraps, which takes some 15 ns; the check in the function's first line would take 40, a wrapper in Python
 * 100.  All that is looked up on it comes from the function, but for the module, where pickle finds the object again. */
#include "binding.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject      *function, *module, *weakrefs, *dict;
} OverridableObject;

static bool taken_over(PyObject *const *args, Py_ssize_t n)
{
    if (TD_UNLIKELY(td_py_function_modes > 0))
        return true;
    for (Py_ssize_t i = 0; i < n; i++)
        if (td_py_has_override(args[i]))
            return true;
    return false;
}
static PyObject *call(PyObject *o, PyObject *const *args, size_t flags, PyObject *kwnames)
{
    OverridableObject *self = (OverridableObject *)o;
    Py_ssize_t nargs = PyVectorcall_NARGS(flags);
    if (TD_UNLIKELY(taken_over(args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0))) && !td_py_take_hop())
        return td_py_override(o, args, nargs, kwnames);
    return PyObject_Vectorcall(self->function, args, flags, kwnames);
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *function, *module;
    if (!td_py_no_keywords("overridable", kw) || !PyArg_ParseTuple(args, "OU:overridable", &function, &module))
        return NULL;
    OverridableObject *self = (OverridableObject *)type->tp_alloc(type, 0);
    if (self) {
        self->call = call;
        self->function = Py_NewRef(function);
        self->module = Py_NewRef(module);
    }
    return (PyObject *)self;
}
static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(((OverridableObject *)o)->function);
    Py_VISIT(((OverridableObject *)o)->dict);
    return 0;
}
/* Cycles can only go through what a program has set: the function is used until the end. */
static int clear(PyObject *o)
{
    Py_CLEAR(((OverridableObject *)o)->dict);
    return 0;
}
static void dealloc(PyObject *o)
{
    OverridableObject *self = (OverridableObject *)o;
    PyObject_GC_UnTrack(o);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(o);
    Py_XDECREF(self->function);
    Py_XDECREF(self->module);
    Py_XDECREF(self->dict);
    Py_TYPE(o)->tp_free(o);
}

static PyObject *getattro(PyObject *o, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(o, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(((OverridableObject *)o)->function, name);
}
static PyObject *repr(PyObject *o)
{
    PyObject *name = PyObject_GetAttrString(o, "__qualname__");
    PyObject *text = name ? PyUnicode_FromFormat("<function %U at %p>", name, (void *)o) : NULL;
    Py_XDECREF(name);
    return text;
}
static PyObject *reduce(PyObject *o, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(o, "__qualname__");
}
static PyObject *get_doc(PyObject *o, void *unused)
{
    (void)unused;
    return PyObject_GetAttrString(((OverridableObject *)o)->function, "__doc__");
}
static int set_doc(PyObject *o, PyObject *value, void *unused)
{
    (void)unused;
    return PyObject_SetAttrString(((OverridableObject *)o)->function, "__doc__", value ? value : Py_None);
}

static PyObject *get_module(PyObject *o, void *unused)
{
    (void)unused;
    PyObject *module = ((OverridableObject *)o)->module;
    const char *name = PyUnicode_AsUTF8(module);
    if (name && strncmp(name, "tede.", 5) == 0)
        return PyUnicode_FromFormat("%s%s", td_py_package, name + 4);
    return name ? Py_NewRef(module) : NULL;
}

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL},
};
static PyGetSetDef properties[] = {
    {.name = "__doc__", .get = get_doc, .set = set_doc}, {.name = "__module__", .get = get_module},
    {.name = "__dict__", .get = PyObject_GenericGetDict, .set = PyObject_GenericSetDict},
    {NULL},
};
static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(OverridableObject, function), READONLY, NULL},
    {NULL},
};
static PyTypeObject overridable_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.overridable",
    .tp_basicsize = sizeof(OverridableObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(OverridableObject, call),
    .tp_weaklistoffset = offsetof(OverridableObject, weakrefs),
    .tp_dictoffset = offsetof(OverridableObject, dict),
    .tp_call = PyVectorcall_Call,
    .tp_new = new,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_getattro = getattro,
    .tp_repr = repr,
    .tp_methods = methods,
    .tp_getset = properties,
    .tp_members = members,
};
bool td_py_is_overridable(PyObject *o) { return Py_IS_TYPE(o, &overridable_type); }

int td_py_overridable_init(PyObject *module)
{
    return PyModule_AddType(module, &overridable_type);
}
