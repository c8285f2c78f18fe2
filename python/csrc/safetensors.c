/* Reading and writing safetensors files, for tede.safetensors.
 *
 * _safetensors_open(path) and _safetensors_parse(bytes) give a SafetensorsFile, which lends what the C API knows of
 * the file; _safetensors_save(path, tensors, metadata) writes two dicts. */
#include "binding.h"
#include <tede/safetensors.h>

typedef struct { PyObject_HEAD td_safetensors *file; } FileObject;
static PyTypeObject file_type;

static td_safetensors *file_of(PyObject *self) { return ((FileObject *)self)->file; }

/* Takes over `file`. */
static PyObject *wrap(td_safetensors *file)
{
    FileObject *self = file ? PyObject_New(FileObject, &file_type) : td_py_raise();
    if (self)
        self->file = file;
    else
        td_safetensors_release(file);
    return (PyObject *)self;
}
static void file_dealloc(PyObject *self)
{
    td_safetensors_release(file_of(self));
    PyObject_Free(self);
}

static PyObject *names(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_safetensors *f = file_of(self);
    PyObject *list = PyList_New((Py_ssize_t)td_safetensors_count(f));
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *name = PyUnicode_FromString(td_safetensors_name(f, i));
        if (!name)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, name);
    }
    return list;
}
static PyObject *metadata(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_safetensors *f = file_of(self);
    int64_t n = td_safetensors_metadata_count(f);
    if (!n)
        Py_RETURN_NONE;
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < n; i++) {
        PyObject *value = PyUnicode_FromString(td_safetensors_metadata_value(f, i));
        if (!value || PyDict_SetItemString(dict, td_safetensors_metadata_key(f, i), value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* The index of a tensor by name; -1 with KeyError. */
static int64_t find(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    int64_t i = text ? td_safetensors_find(file_of(self), text) : -1;
    if (text && i < 0)
        PyErr_SetObject(PyExc_KeyError, name);
    return i;
}
static PyObject *get(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    if (i < 0)
        return NULL;
    td_tensor *x = td_safetensors_at(file_of(self), i);
    return x ? td_py_wrap(x) : td_py_raise();
}
static PyObject *dtype(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    return i < 0 ? NULL : PyUnicode_FromString(td_safetensors_dtype(file_of(self), i));
}
static PyObject *shape(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    return i < 0 ? NULL : td_py_size(td_safetensors_ndim(file_of(self), i), td_safetensors_sizes(file_of(self), i));
}

static PyMethodDef file_methods[] = {
    {"names", names, METH_NOARGS, "The tensors' names, in the order of their bytes."},
    {"metadata", metadata, METH_NOARGS, "The strings that came with the tensors, as a dict; None if there are none."},
    {"get", get, METH_O, "A tensor over the file's bytes."},
    {"dtype", dtype, METH_O, "The format's name for a tensor's dtype."},
    {"shape", shape, METH_O, "A tensor's shape."},
    {NULL},
};
static PyTypeObject file_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.SafetensorsFile", .tp_basicsize = sizeof(FileObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .tp_dealloc = file_dealloc,
    .tp_methods = file_methods,
};

static PyObject *open_file(PyObject *m, PyObject *o)
{
    (void)m;
    PyObject *path;
    if (!PyUnicode_FSConverter(o, &path))
        return NULL;
    td_safetensors *f;
    Py_BEGIN_ALLOW_THREADS
    f = td_safetensors_open(PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return wrap(f);
}

static void drop_storage(void *storage) { td_storage_release(storage); }

/* Over a copy: bytes don't change, tensors may. */
static PyObject *parse_bytes(PyObject *m, PyObject *o)
{
    (void)m;
    Py_buffer bytes;
    if (PyObject_GetBuffer(o, &bytes, PyBUF_SIMPLE) < 0)
        return NULL;
    td_storage *copy = td_storage_new((td_device){TD_CPU, -1}, (size_t)bytes.len);
    td_safetensors *f = NULL;
    if (copy) {
        memcpy(td_storage_data(copy), bytes.buf, (size_t)bytes.len);
        f = td_safetensors_parse(td_storage_data(copy), (size_t)bytes.len, drop_storage, copy);
        if (!f)
            td_storage_release(copy);
    }
    PyBuffer_Release(&bytes);
    return wrap(f);
}

static const char *text_of(PyObject *o, const char *what)
{
    if (PyUnicode_Check(o)) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(o, &length);
        if (text && strlen(text) != (size_t)length)
            return PyErr_Format(PyExc_ValueError, "save_file: NUL characters can't be in a %s: %R", what, o), NULL;
        return text;
    }
    return PyErr_Format(PyExc_TypeError, "save_file: a %s must be a str, not %s", what, Py_TYPE(o)->tp_name), NULL;
}

static PyObject *save(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *path, *tensors, *pairs, *done = NULL, *key, *value;
    if (!PyArg_ParseTuple(args, "O&O!O:_safetensors_save", PyUnicode_FSConverter, &path, &PyDict_Type, &tensors, &pairs))
        return NULL;
    if (pairs != Py_None && !PyDict_Check(pairs)) {
        Py_DECREF(path);
        return PyErr_Format(PyExc_TypeError, "save_file: metadata must be a dict of str, not %s", Py_TYPE(pairs)->tp_name);
    }
    Py_ssize_t n = PyDict_GET_SIZE(tensors), n_pairs = pairs == Py_None ? 0 : PyDict_GET_SIZE(pairs), i = 0, at = 0;
    const char **texts = PyMem_Calloc((size_t)(n + 2 * n_pairs) + 1, sizeof *texts);
    td_tensor **xs = PyMem_Calloc((size_t)n + 1, sizeof *xs);
    PyObject *held = PyList_New(0);           /* other threads may change the dicts meanwhile */
    if (!texts || !xs || !held) {
        PyErr_NoMemory();
        goto end;
    }
    for (; PyDict_Next(tensors, &at, &key, &value); i++) {
        if (!(texts[i] = text_of(key, "name")) || PyList_Append(held, key) < 0)
            goto end;
        if (!td_py_is_tensor(value)) {
            PyErr_Format(PyExc_ValueError, "save_file: '%U' is no tensor but a %s", key, Py_TYPE(value)->tp_name);
            goto end;
        }
        xs[i] = td_tensor_retain(td_py_x(value));
    }
    at = 0, i = n;
    while (n_pairs && PyDict_Next(pairs, &at, &key, &value)) {
        if (!(texts[i] = text_of(key, "key of the metadata")) || !(texts[i + n_pairs] = text_of(value, "value of the metadata")) ||
            PyList_Append(held, key) < 0 || PyList_Append(held, value) < 0)
            goto end;
        i++;
    }
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = td_safetensors_save(PyBytes_AS_STRING(path), n, texts, xs, n_pairs, texts + n, texts + n + n_pairs);
    Py_END_ALLOW_THREADS
    done = status == 0 ? Py_NewRef(Py_None) : td_py_raise();
end:
    for (Py_ssize_t k = 0; xs && k < n; k++)
        td_tensor_release(xs[k]);
    PyMem_Free(texts);
    PyMem_Free(xs);
    Py_XDECREF(held);
    Py_DECREF(path);
    return done;
}

static PyMethodDef functions[] = {
    {"_safetensors_open", open_file, METH_O, NULL},
    {"_safetensors_parse", parse_bytes, METH_O, NULL},
    {"_safetensors_save", save, METH_VARARGS, NULL},
    {NULL},
};
int td_py_safetensors_init(PyObject *module)
{
    return PyType_Ready(&file_type) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
