/* Reading and writing GGUF files, for tede.gguf.
 *
 * _gguf_open(path) and _gguf_parse(bytes) give a GGUFFile, which lends what the C API knows of the file, metadata as Python's own values;
 * _gguf_save(path, names, tensors, types, keys, values) writes values that Python has encoded. */
#include "binding.h"
#include <tede/gguf.h>
#define FORMAT_STRUCT td_gguf
#define FORMAT(name)  td_gguf_##name
#define TYPE_OF       td_gguf_type
#define WRITER        "gguf"
#include "tensor_file.h"

/* ---- values */

static const char *const kinds[TD_GGUF_KINDS] = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
                                                 "uint64", "int64", "float64"};

/* Strings should be UTF-8; other bytes are kept as surrogates, as in names of files. */
static PyObject *value_of(const td_gguf_value *v)
{
    td_scalar x;
    if (v->kind == TD_GGUF_STRING)
        return PyUnicode_DecodeUTF8(v->data, (Py_ssize_t)v->size, "surrogateescape");
    if (v->kind != TD_GGUF_ARRAY) {
        if (td_gguf_number(v, &x) != 0)
            return td_py_raise();
        return x.kind == TD_SCALAR_FLOAT ? PyFloat_FromDouble(x.d) : x.kind == TD_SCALAR_BOOL ? PyBool_FromLong((long)x.i)
               : x.kind == TD_SCALAR_UINT ? PyLong_FromUnsignedLongLong(x.u) : PyLong_FromLongLong(x.i);
    }
    PyObject *list = PyList_New(0);
    td_gguf_value element;
    for (size_t at = 0; list && td_gguf_next(v, &at, &element);) {
        PyObject *item = value_of(&element);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* "int32", "[int32]" of an array, a list of them of an array of arrays. */
static PyObject *kind_of(const td_gguf_value *v)
{
    if (v->kind != TD_GGUF_ARRAY)
        return PyUnicode_FromString(kinds[v->kind]);
    if (v->element != TD_GGUF_ARRAY)
        return PyUnicode_FromFormat("[%s]", kinds[v->element]);
    PyObject *list = PyList_New(0);
    td_gguf_value element;
    for (size_t at = 0; list && td_gguf_next(v, &at, &element);) {
        PyObject *item = kind_of(&element);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *dict_of(PyObject *self, PyObject *(*made)(const td_gguf_value *value))
{
    td_gguf *f = file_of(self);
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < td_gguf_metadata_count(f); i++) {
        PyObject *value = made(td_gguf_metadata_value(f, i));
        if (!value || PyDict_SetItemString(dict, td_gguf_metadata_key(f, i), value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}
static PyObject *metadata(PyObject *self, PyObject *unused) { return (void)unused, dict_of(self, value_of); }
static PyObject *metadata_kinds(PyObject *self, PyObject *unused) { return (void)unused, dict_of(self, kind_of); }

static PyObject *blocks(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    if (i < 0)
        return NULL;
    td_tensor *x = td_gguf_blocks(file_of(self), i);
    return x ? td_py_wrap(x) : td_py_raise();
}
static PyMethodDef file_methods[] = {
    {"names", names, METH_NOARGS, "The tensors' names, in the order of the file."},
    {"metadata", metadata, METH_NOARGS, "The metadata, as a dict."},
    {"kinds", metadata_kinds, METH_NOARGS, "The format's kinds of the metadata, as a dict."},
    {"get", get, METH_O, "A tensor over the file's bytes."},
    {"blocks", blocks, METH_O, "A tensor's bytes."},
    {"type", type_of, METH_O, "The format's name for a tensor's type."},
    {"shape", shape, METH_O, "A tensor's shape."},
    {NULL},
};
static PyTypeObject file_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.GGUFFile", .tp_basicsize = sizeof(FileObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .tp_dealloc = file_dealloc,
    .tp_methods = file_methods,
};

/* ---- writing */

/* A value from (kind, element, count, bytes). */
static int value_from(PyObject *o, td_gguf_value *v)
{
    int kind, element;
    unsigned long long count;
    const char *bytes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(o, "iiKy#", &kind, &element, &count, &bytes, &size))
        return -1;
    *v = (td_gguf_value){(td_gguf_kind)kind, (td_gguf_kind)element, count, bytes, (size_t)size};
    return 0;
}

/* Tuples, which nobody changes meanwhile: names, tensors, a type or None for each, keys, values. */
static PyObject *save(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *path, *names, *tensors, *types, *keys, *values, *done = NULL;
    if (!PyArg_ParseTuple(args, "O&O!O!O!O!O!:_gguf_save", PyUnicode_FSConverter, &path, &PyTuple_Type, &names, &PyTuple_Type, &tensors,
                          &PyTuple_Type, &types, &PyTuple_Type, &keys, &PyTuple_Type, &values))
        return NULL;
    const Py_ssize_t n = PyTuple_GET_SIZE(names), n_pairs = PyTuple_GET_SIZE(keys);
    const char **texts = PyMem_Calloc((size_t)(2 * n + n_pairs) + 1, sizeof *texts);
    td_tensor **xs = PyMem_Calloc((size_t)n + 1, sizeof *xs);
    td_gguf_value *vs = PyMem_Calloc((size_t)n_pairs + 1, sizeof *vs);
    if (!texts || !xs || !vs) {
        PyErr_NoMemory();
        goto end;
    }
    if (PyTuple_GET_SIZE(tensors) != n || PyTuple_GET_SIZE(types) != n || PyTuple_GET_SIZE(values) != n_pairs) {
        PyErr_SetString(PyExc_ValueError, "gguf: as many tensors and types as names, and as many values as keys");
        goto end;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(tensors, i), *type = PyTuple_GET_ITEM(types, i);
        if (!(texts[i] = text_of(PyTuple_GET_ITEM(names, i), "name")) || (type != Py_None && !(texts[n + i] = text_of(type, "type"))))
            goto end;
        if (!td_py_is_tensor(x)) {
            PyErr_Format(PyExc_TypeError, "gguf: '%U' is no tensor but a %s", PyTuple_GET_ITEM(names, i), Py_TYPE(x)->tp_name);
            goto end;
        }
        xs[i] = td_tensor_retain(td_py_x(x));
    }
    for (Py_ssize_t i = 0; i < n_pairs; i++)
        if (!(texts[2 * n + i] = text_of(PyTuple_GET_ITEM(keys, i), "key of the metadata")) || value_from(PyTuple_GET_ITEM(values, i), &vs[i]) != 0)
            goto end;
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = td_gguf_save_typed(PyBytes_AS_STRING(path), n, texts, xs, texts + n, n_pairs, texts + 2 * n, vs);
    Py_END_ALLOW_THREADS
    done = status == 0 ? Py_NewRef(Py_None) : td_py_raise();
end:
    for (Py_ssize_t k = 0; xs && k < n; k++)
        td_tensor_release(xs[k]);
    PyMem_Free(texts);
    PyMem_Free(xs);
    PyMem_Free(vs);
    Py_DECREF(path);
    return done;
}

static PyMethodDef functions[] = {
    {"_gguf_open", open_file, METH_O, NULL},
    {"_gguf_parse", parse_bytes, METH_O, NULL},
    {"_gguf_save", save, METH_VARARGS, NULL},
    {NULL},
};
int td_py_gguf_init(PyObject *module)
{
    return PyType_Ready(&file_type) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
