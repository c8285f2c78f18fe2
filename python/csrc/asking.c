/* Python functions of the package whose calls a __torch_function__ may take over: torch.nn.functional's.
 *
 * A class or a mode is to be told of F.relu, not of the operator within.  The object asks the arguments and goes on to
 * the function it stands for, some 15 ns; asking in the function's own first line would take 40, a wrapper in Python
 * 100.  All that is looked up on it comes from the function, but for the module, where pickle finds the object again. */
#include "binding.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject      *function, *module, *weakrefs, *dict;
} AskingObject;

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
    AskingObject *self = (AskingObject *)o;
    Py_ssize_t nargs = PyVectorcall_NARGS(flags);
    if (TD_UNLIKELY(taken_over(args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0))) && !td_py_take_hop())
        return td_py_override(o, args, nargs, kwnames);
    return PyObject_Vectorcall(self->function, args, flags, kwnames);
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *function, *module;
    if (!td_py_no_keywords("asking", kw) || !PyArg_ParseTuple(args, "OU:asking", &function, &module))
        return NULL;
    AskingObject *self = (AskingObject *)type->tp_alloc(type, 0);
    if (self) {
        self->call = call;
        self->function = Py_NewRef(function);
        self->module = Py_NewRef(module);
    }
    return (PyObject *)self;
}
static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(((AskingObject *)o)->function);
    Py_VISIT(((AskingObject *)o)->dict);
    return 0;
}
/* Cycles can only go through what a program has set: the function is used until the end. */
static int clear(PyObject *o)
{
    Py_CLEAR(((AskingObject *)o)->dict);
    return 0;
}
static void dealloc(PyObject *o)
{
    AskingObject *self = (AskingObject *)o;
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
    return PyObject_GetAttr(((AskingObject *)o)->function, name);
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
    return PyObject_GetAttrString(((AskingObject *)o)->function, "__doc__");
}
static int set_doc(PyObject *o, PyObject *value, void *unused)
{
    (void)unused;
    return PyObject_SetAttrString(((AskingObject *)o)->function, "__doc__", value ? value : Py_None);
}

static PyObject *get_module(PyObject *o, void *unused)
{
    (void)unused;
    PyObject *module = ((AskingObject *)o)->module;
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
    {"__wrapped__", T_OBJECT, offsetof(AskingObject, function), READONLY, NULL},
    {NULL},
};
static PyTypeObject asking_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.asking",
    .tp_basicsize = sizeof(AskingObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(AskingObject, call),
    .tp_weaklistoffset = offsetof(AskingObject, weakrefs),
    .tp_dictoffset = offsetof(AskingObject, dict),
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

int td_py_asking_init(PyObject *module)
{
    return PyModule_AddType(module, &asking_type);
}
