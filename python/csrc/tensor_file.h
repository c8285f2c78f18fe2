/* What Python has of a file of tensors, by the C API of its format: included once each by safetensors.c and gguf.c, which define
 * FORMAT_STRUCT and FORMAT(name) (`td_gguf`, `td_gguf_##name`), TYPE_OF (the function that names what a tensor's elements are) and WRITER
 * (whose errors those of writing are) before. */

typedef struct { PyObject_HEAD FORMAT_STRUCT *file; } FileObject;
static PyTypeObject file_type;

static FORMAT_STRUCT *file_of(PyObject *self) { return ((FileObject *)self)->file; }

/* Takes over `file`. */
static PyObject *wrap(FORMAT_STRUCT *file)
{
    FileObject *self = file ? PyObject_New(FileObject, &file_type) : td_py_raise();
    if (self)
        self->file = file;
    else
        FORMAT(release)(file);
    return (PyObject *)self;
}
static void file_dealloc(PyObject *self)
{
    FORMAT(release)(file_of(self));
    PyObject_Free(self);
}

static PyObject *open_file(PyObject *m, PyObject *o)
{
    (void)m;
    PyObject *path;
    if (!PyUnicode_FSConverter(o, &path))
        return NULL;
    FORMAT_STRUCT *f;
    Py_BEGIN_ALLOW_THREADS
    f = FORMAT(open)(PyBytes_AS_STRING(path));
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
    FORMAT_STRUCT *f = NULL;
    if (copy) {
        memcpy(td_storage_data(copy), bytes.buf, (size_t)bytes.len);
        f = FORMAT(parse)(td_storage_data(copy), (size_t)bytes.len, drop_storage, copy);
        if (!f)
            td_storage_release(copy);
    }
    PyBuffer_Release(&bytes);
    return wrap(f);
}

/* ---- its tensors */

static PyObject *names(PyObject *self, PyObject *unused)
{
    (void)unused;
    FORMAT_STRUCT *f = file_of(self);
    PyObject *list = PyList_New((Py_ssize_t)FORMAT(count)(f));
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *name = PyUnicode_FromString(FORMAT(name)(f, i));
        if (!name)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, name);
    }
    return list;
}

/* The index of a tensor by name; -1 with KeyError. */
static int64_t find(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    int64_t i = text ? FORMAT(find)(file_of(self), text) : -1;
    if (text && i < 0)
        PyErr_SetObject(PyExc_KeyError, name);
    return i;
}
static PyObject *get(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    if (i < 0)
        return NULL;
    td_tensor *x = FORMAT(at)(file_of(self), i);
    return x ? td_py_wrap(x) : td_py_raise();
}
static PyObject *type_of(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    return i < 0 ? NULL : PyUnicode_FromString(TYPE_OF(file_of(self), i));
}
static PyObject *shape(PyObject *self, PyObject *name)
{
    int64_t i = find(self, name);
    return i < 0 ? NULL : td_py_size(FORMAT(ndim)(file_of(self), i), FORMAT(sizes)(file_of(self), i));
}

/* ---- writing */

/* What is written as a string that ends with NUL. */
static const char *text_of(PyObject *o, const char *what)
{
    if (!PyUnicode_Check(o))
        return PyErr_Format(PyExc_TypeError, WRITER ": a %s must be a str, not %s", what, Py_TYPE(o)->tp_name), NULL;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(o, &length);
    if (text && strlen(text) != (size_t)length)
        return PyErr_Format(PyExc_ValueError, WRITER ": NUL characters can't be in a %s: %R", what, o), NULL;
    return text;
}
