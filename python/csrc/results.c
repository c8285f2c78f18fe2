/* Conversion of operators' results to Python objects: one, a tuple, or a named tuple tede.return_types.<name>. */
#include "binding.h"

static PyObject *return_types;      /* the module of the named tuples' types */

static PyObject *object_of(td_value *v)
{
    PyObject *list;
    switch (v->kind) {
    case TD_VALUE_TENSOR: {
        td_tensor *x = v->tensor;
        v->kind = TD_VALUE_NONE;        /* td_py_wrap takes it over */
        if (x == TD_NONE)
            Py_RETURN_NONE;
        return td_py_wrap(x);
    }
    case TD_VALUE_TENSORS:
        list = PyTuple_New(v->count);
        for (int i = 0; i < v->count && list; i++) {
            PyObject *item = td_py_wrap_borrowed(v->tensors[i]);
            if (!item)
                Py_CLEAR(list);
            else
                PyTuple_SET_ITEM(list, i, item);
        }
        return list;
    default: return td_py_object_of(v);
    }
}

/* "torch.return_types.max(\nvalues=tensor(3.),\nindices=tensor(2))" */
static PyObject *named_repr(PyObject *self)
{
    PyObject *text = PyUnicode_FromFormat("%s.%s(", td_py_package, strchr(Py_TYPE(self)->tp_name, '.') + 1);
    PyMemberDef *m = Py_TYPE(self)->tp_members;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self) && text; i++) {
        PyObject *item = PyObject_Repr(PyTuple_GET_ITEM(self, i));
        PyObject *longer = item ? PyUnicode_FromFormat("%U%s%s=%U", text, i ? ",\n" : "\n", m[i].name, item) : NULL;
        Py_XDECREF(item);
        Py_SETREF(text, longer);
    }
    if (text) {
        PyObject *longer = PyUnicode_FromFormat("%U)", text);
        Py_SETREF(text, longer);
    }
    return text;
}

enum { MOST_FIELDS = 8 };

/* The type of that name, made for n fields (with room for the end of their list) if there is none yet. */
static PyTypeObject *type_of(const char *name, int n, PyStructSequence_Field *fields)
{
    PyObject *known = PyDict_GetItemString(PyModule_GetDict(return_types), name);
    if (known)
        return (PyTypeObject *)known;
    char *whole = PyMem_Malloc(strlen(name) + 32);      /* stays with the type */
    if (!whole)
        return (PyTypeObject *)PyErr_NoMemory();
    sprintf(whole, "%s.return_types.%s", td_py_package, name);
    PyStructSequence_Desc desc = {whole, NULL, fields, n};
    PyTypeObject *type = PyStructSequence_NewType(&desc);
    if (!type)
        return NULL;
    type->tp_repr = named_repr;
    type->tp_str = named_repr;
    PyType_Modified(type);
    int failed = PyModule_AddObjectRef(return_types, name, (PyObject *)type);
    Py_DECREF(type);
    return failed < 0 ? NULL : type;
}

static PyTypeObject *named_type(const td_op_info *info)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", info->name, info->flags & TD_OP_OUT ? "_out" : "");
    PyStructSequence_Field fields[MOST_FIELDS + 1] = {{NULL, NULL}};
    for (int i = 0; i < info->n_results && i < MOST_FIELDS; i++)
        fields[i].name = info->results[i].name;
    return type_of(name, info->n_results, fields);
}

/* _named_results("histogramdd", hist=..., bin_edges=...): of functions in Python whose results have names as an operator's have. */
static PyObject *named_results(PyObject *module, PyObject *args, PyObject *members)
{
    (void)module;
    const char *name;
    PyStructSequence_Field fields[MOST_FIELDS + 1] = {{NULL, NULL}};
    Py_ssize_t n = members ? PyDict_GET_SIZE(members) : 0, at = 0;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    if (n < 1 || n > MOST_FIELDS)
        return PyErr_Format(PyExc_ValueError, "_named_results: %zd members", n);
    PyObject *key, *item;
    const bool known = PyDict_GetItemString(PyModule_GetDict(return_types), name) != NULL;
    for (int i = 0; !known && PyDict_Next(members, &at, &key, &item); i++)
        if (!(fields[i].name = PyUnicode_AsUTF8(Py_NewRef(key))))       /* stays with the type */
            return NULL;
    PyTypeObject *type = type_of(name, (int)n, fields);
    PyObject *whole = type ? PyStructSequence_New(type) : NULL;
    at = 0;
    for (int i = 0; whole && PyDict_Next(members, &at, &key, &item); i++)
        PyStructSequence_SET_ITEM(whole, i, Py_NewRef(item));
    return whole;
}

PyObject *td_py_results(const td_op_info *info, td_value *results, PyObject *out)
{
    int n = info->n_results;
    PyObject *whole;
    if (out && n == 1) {
        td_values_release(results, n);
        return Py_NewRef(out);
    }
    if (n == 0)
        Py_RETURN_NONE;
    if (n == 1) {
        whole = object_of(&results[0]);
        td_values_release(results, n);
        return whole;
    }
    PyTypeObject *type = info->results[0].name ? named_type(info) : NULL;
    whole = type ? PyStructSequence_New(type) : PyErr_Occurred() ? NULL : PyTuple_New(n);
    for (int i = 0; i < n && whole; i++) {
        PyObject *item = out ? td_py_item_at(out, i) : object_of(&results[i]);
        if (!item)
            Py_CLEAR(whole);
        else if (type)
            PyStructSequence_SET_ITEM(whole, i, item);
        else
            PyTuple_SET_ITEM(whole, i, item);
    }
    td_values_release(results, n);
    return whole;
}

/* return_types.max, before anybody called max */
static PyObject *type_by_name(PyObject *module, PyObject *name)
{
    (void)module;
    const char *wanted = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    for (int i = 0; wanted && i < td_op_count(); i++) {
        const td_op_info *info = td_op_describe(td_op_at(i));
        size_t length = strlen(info->name);
        if (strncmp(wanted, info->name, length) || strcmp(wanted + length, info->flags & TD_OP_OUT ? "_out" : "") ||
            info->n_results < 2 || !info->results[0].name)
            continue;
        return Py_XNewRef((PyObject *)named_type(info));
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "module 'torch.return_types' has no attribute %R", name);
    return NULL;
}

static PyMethodDef functions[] = {
    {"__getattr__", type_by_name, METH_O, NULL},
    {NULL},
};

int td_py_results_init(PyObject *module)
{
    return_types = PyModule_New("tede.return_types");
    if (!return_types || PyModule_AddFunctions(return_types, functions))
        return -1;
    static PyMethodDef named[] = {
        {"_named_results", (PyCFunction)(void (*)(void))named_results, METH_VARARGS | METH_KEYWORDS, NULL},
        {NULL},
    };
    if (PyModule_AddFunctions(module, named))
        return -1;
    return PyModule_AddObjectRef(module, "return_types", return_types);
}
