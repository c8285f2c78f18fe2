/* Reading and writing safetensors files, for tede.safetensors.
 *
 * _safetensors_open(path) and _safetensors_parse(bytes) give a SafetensorsFile, which lends what the C API knows of
 * the file; _safetensors_save(path, tensors, metadata) writes two dicts. */
#include "binding.h"
#include <tede/safetensors.h>
#define FORMAT_STRUCT td_safetensors
#define FORMAT(name)  td_safetensors_##name
#define TYPE_OF       td_safetensors_dtype
#define WRITER        "save_file"
#include "tensor_file.h"

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

static PyMethodDef file_methods[] = {
    {"names", names, METH_NOARGS, "The tensors' names, in the order of their bytes."},
    {"metadata", metadata, METH_NOARGS, "The strings that came with the tensors, as a dict; None if there are none."},
    {"get", get, METH_O, "A tensor over the file's bytes."},
    {"dtype", type_of, METH_O, "The format's name for a tensor's dtype."},
    {"shape", shape, METH_O, "A tensor's shape."},
    {NULL},
};
static PyTypeObject file_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.SafetensorsFile", .tp_basicsize = sizeof(FileObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .tp_dealloc = file_dealloc,
    .tp_methods = file_methods,
};

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
