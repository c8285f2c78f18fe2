/* tede.Size: a tuple of ints that knows the number of elements.  Slices, sums and products stay Sizes. */
#include "binding.h"
#include <tede/layout.h>

/* A size of a nested tensor that is a symbol (<tede/layout.h>) is an int to whoever passes it on, and shows, and multiplies, as the symbol. */
static PyObject *symbol_repr(PyObject *self)
{
    td_symbol_text text;
    const long long size = PyLong_AsLongLong(self);
    if (size == -1 && PyErr_Occurred())
        return NULL;
    return td_size_is_symbol(size) ? PyUnicode_FromString(td_symbol_str(size, text)) : PyLong_Type.tp_repr(self);
}
static PyObject *symbol_multiply(PyObject *a, PyObject *b)
{
    PyObject *symbol = Py_IS_TYPE(a, &td_py_SymInt) ? a : b, *factor = symbol == a ? b : a;
    int overflow;
    if (!PyLong_Check(factor))
        Py_RETURN_NOTIMPLEMENTED;
    const long long size = PyLong_AsLongLong(symbol), times = PyLong_AsLongLongAndOverflow(factor, &overflow);
    if ((size == -1 || times == -1) && PyErr_Occurred())
        return NULL;
    if (!td_size_is_symbol(size) || overflow || times < 1 || td_size_is_symbol(times) || times > (1 << 20) / td_symbol_factor(size))
        return PyErr_Format(PyExc_RuntimeError, "%R * %R: a symbolic size is multiplied with small positive numbers only", a, b), NULL;
    return td_py_long_of_size(td_symbol(td_symbol_id(size), td_symbol_factor(size) * times));
}
static PyNumberMethods symbol_number = {.nb_multiply = symbol_multiply};
PyTypeObject td_py_SymInt = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.SymInt",
    .tp_doc = "A size that differs between the members of a batch, of a nested tensor: j1.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_repr = symbol_repr,
    .tp_str = symbol_repr,
    .tp_as_number = &symbol_number,
};
PyObject *td_py_long_of_size(int64_t size)
{
    return TD_LIKELY(!td_size_is_symbol(size)) ? PyLong_FromLongLong(size) : PyObject_CallFunction((PyObject *)&td_py_SymInt, "L", (long long)size);
}

/* Sizes come and go with every x.shape, so a few short ones of each length are kept. */
enum { KEPT_NDIM = 6, KEPT = 16 };
static PyTupleObject *kept[KEPT_NDIM + 1][KEPT];
static int            kept_count[KEPT_NDIM + 1];

static void size_free(void *o)
{
    Py_ssize_t n = Py_SIZE(o);
    if (Py_TYPE(o) == &td_py_Size && n <= KEPT_NDIM && kept_count[n] < KEPT)
        kept[n][kept_count[n]++] = o;
    else
        PyObject_GC_Del(o);
}

/* Ints make no cycles, so the collector need not know. */
PyObject *td_py_size(int ndim, const int64_t *sizes)
{
    PyObject *size;
    if (TD_LIKELY(ndim <= KEPT_NDIM && kept_count[ndim])) {
        size = (PyObject *)kept[ndim][--kept_count[ndim]];
        td_py_revive(size, &td_py_Size);
    } else {
        size = (PyObject *)PyObject_GC_NewVar(PyTupleObject, &td_py_Size, ndim);
    }
    for (int i = 0; size && i < ndim; i++) {
        PyObject *n = td_py_long_of_size(sizes[i]);
        PyTuple_SET_ITEM(size, i, n);
        if (!n) {
            while (++i < ndim)
                PyTuple_SET_ITEM(size, i, NULL);
            Py_CLEAR(size);
        }
    }
    return size;
}

/* A tuple's result as a Size; takes over the reference. */
static PyObject *again(PyObject *tuple)
{
    if (!tuple || !PyTuple_CheckExact(tuple))
        return tuple;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *size = td_py_Size.tp_alloc(&td_py_Size, n);
    for (Py_ssize_t i = 0; size && i < n; i++)
        PyTuple_SET_ITEM(size, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(tuple);
    return size;
}

static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *size = PyTuple_Type.tp_new(type, args, kw);
    for (Py_ssize_t i = 0; size && i < PyTuple_GET_SIZE(size); i++) {
        PyObject *item = PyTuple_GET_ITEM(size, i);
        if (PyLong_Check(item) || td_py_is_symbolic(item))
            continue;
        PyObject *n = PyIndex_Check(item) ? PyNumber_Index(item) : NULL;
        if (!n) {
            PyErr_Format(PyExc_TypeError, "tede.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                         Py_TYPE(item)->tp_name);
            Py_CLEAR(size);
            break;
        }
        PyTuple_SET_ITEM(size, i, n);
        Py_DECREF(item);
    }
    return size;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyObject_Repr(list) : NULL;
    Py_XDECREF(list);
    PyObject *whole = text ? PyUnicode_FromFormat("%s.Size(%U)", td_py_package, text) : NULL;
    Py_XDECREF(text);
    return whole;
}

static PyObject *symbolic_numel(PyObject *self)
{
    PyObject *product = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); i++)
        Py_SETREF(product, PyNumber_Multiply(product, PyTuple_GET_ITEM(self, i)));
    return product;
}
static PyObject *size_numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t product = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); i++) {
        if (td_py_is_symbolic(PyTuple_GET_ITEM(self, i)))
            return symbolic_numel(self);
        int64_t n = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
        if (n == -1 && PyErr_Occurred())
            return NULL;
        if (__builtin_mul_overflow(product, n, &product))
            return PyErr_Format(PyExc_OverflowError, "numel: the product of the sizes overflows"), NULL;
    }
    return PyLong_FromLongLong(product);
}

static PyObject *size_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PySequence_List(self);
    PyObject *plain = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return plain ? Py_BuildValue("(O(N))", &td_py_Size, plain) : NULL;
}

static PyObject *size_concat(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(a) || !PyTuple_Check(b))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *sum = PyTuple_Type.tp_as_sequence->sq_concat(a, b);
    /* With one side empty, tuple hands back the other one as it is. */
    if (sum && Py_TYPE(sum) == &td_py_Size)
        return sum;
    return again(sum);
}
static PyObject *size_repeat(PyObject *a, Py_ssize_t n)
{
    return again(PyTuple_Type.tp_as_sequence->sq_repeat(a, n));
}
static PyObject *size_subscript(PyObject *a, PyObject *key)
{
    return PySlice_Check(key) ? again(PyTuple_Type.tp_as_mapping->mp_subscript(a, key))
                              : PyTuple_Type.tp_as_mapping->mp_subscript(a, key);
}

static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size."},
    {"__reduce__", size_reduce, METH_NOARGS, NULL},
    {NULL},
};
static PyNumberMethods size_number = {.nb_add = size_concat};
static PySequenceMethods size_sequence = {.sq_concat = NULL, .sq_repeat = size_repeat};
static PyMappingMethods size_mapping = {.mp_subscript = size_subscript};

PyTypeObject td_py_SymNumber = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._SymNumber",
    .tp_doc = "A number that stays an expression while a program is traced; what the core computes with is its _number.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
};

PyTypeObject td_py_Size = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.Size",
    .tp_doc = "The shape of a tensor: a tuple of ints.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = size_new,
    .tp_repr = size_repr,
    .tp_methods = size_methods,
    .tp_as_number = &size_number,
    .tp_as_sequence = &size_sequence,
    .tp_as_mapping = &size_mapping,
};

int td_py_size_init(PyObject *module)
{
    td_py_SymInt.tp_base = &PyLong_Type;
    if (PyType_Ready(&td_py_SymInt) < 0 || PyModule_AddObjectRef(module, "_RaggedSize", (PyObject *)&td_py_SymInt) < 0)
        return -1;
    if (PyType_Ready(&td_py_SymNumber) < 0 || PyModule_AddObjectRef(module, "_SymNumber", (PyObject *)&td_py_SymNumber) < 0)
        return -1;
    td_py_Size.tp_base = &PyTuple_Type;
    td_py_Size.tp_free = size_free;
    size_sequence.sq_item = PyTuple_Type.tp_as_sequence->sq_item;
    size_sequence.sq_length = PyTuple_Type.tp_as_sequence->sq_length;
    size_mapping.mp_length = PyTuple_Type.tp_as_mapping->mp_length;
    if (PyType_Ready(&td_py_Size) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Size", (PyObject *)&td_py_Size);
}
