/* Checkpoints' archives, PyTorchFileReader and PyTorchFileWriter, in files and in Python's file objects; and NumPy's files.
 *
 * A file object may keep what it is passed. So it is passed parts of a memoryview, whose owner stays with it, and bytes. */
#include "binding.h"
#include <tede/npy.h>

/* What is wrong with an archive, in PyTorch's words. */
static void *raise_failed(void)
{
    static const char ours[] = "zip: ";
    const char *message = td_error_message();
    if (td_error_code() == TD_E_RUNTIME && strncmp(message, ours, strlen(ours)) == 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "PytorchStreamReader failed reading zip archive: %s", message + strlen(ours));
    return td_py_raise();
}

static bool is_path(PyObject *o) { return PyUnicode_Check(o) || PyObject_HasAttrString(o, "__fspath__"); }

/* ---- file objects */

enum { MOST = 1 << 30 };        /* systems read and write less than 2 GB at a time */

static int seek(PyObject *file, uint64_t at, int whence)
{
    TD_PY_AUTO PyObject *done = PyObject_CallMethod(file, "seek", "Ki", (unsigned long long)at, whence);
    return done ? 0 : -1;
}

static int tell(PyObject *file, uint64_t *at)
{
    TD_PY_AUTO PyObject *n = PyObject_CallMethod(file, "tell", NULL);
    *at = n ? PyLong_AsUnsignedLongLong(n) : 0;
    return PyErr_Occurred() ? -1 : 0;
}

/* How many of n bytes a method says that it has read or written: all, if it says nothing. -1 with an error. */
static Py_ssize_t count_of(PyObject *said, Py_ssize_t n)
{
    Py_ssize_t count = !said ? -1 : PyLong_Check(said) ? PyLong_AsSsize_t(said) : n;
    Py_XDECREF(said);
    if ((count < 0 || count > n) && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "a file object says that it moved %zd bytes of %zd", count, n);
    return PyErr_Occurred() ? -1 : count;
}

static Py_ssize_t read_part(PyObject *file, bool into, PyObject *view, Py_ssize_t at, Py_ssize_t n)
{
    if (into) {
        TD_PY_AUTO PyObject *part = PySequence_GetSlice(view, at, at + n);
        return part ? count_of(PyObject_CallMethod(file, "readinto", "O", part), n) : -1;
    }
    TD_PY_AUTO PyObject *data = PyObject_CallMethod(file, "read", "n", n);
    Py_ssize_t got = data ? PyObject_Size(data) : -1;
    return got < 0 || PySequence_SetSlice(view, at, at + got, data) < 0 ? -1 : got;
}

/* Read exactly as many bytes as a memoryview has. */
static int fill(PyObject *file, PyObject *view)
{
    Py_ssize_t size = PyObject_Size(view), n = 0;
    bool into = PyObject_HasAttrString(file, "readinto");
    for (Py_ssize_t at = 0; at < size; at += n) {
        n = read_part(file, into, view, at, size - at < MOST ? size - at : MOST);
        if (n == 0)
            PyErr_Format(PyExc_EOFError, "the file ends %zd bytes early", size - at);
        if (n <= 0)
            return -1;
    }
    return size < 0 ? -1 : 0;
}

static PyObject *fill_buffer(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *file, *buffer;
    if (!PyArg_ParseTuple(args, "OO:_fill", &file, &buffer))
        return NULL;
    TD_PY_AUTO PyObject *view = PyMemoryView_FromObject(buffer);
    if (!view || fill(file, view) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- reading */

/* file: the object that the archive begins in at `start`; NULL if it was opened by its path. */
typedef struct { PyObject_HEAD td_zip *zip; PyObject *file; uint64_t start; } ReaderObject;
static PyTypeObject reader_type, writer_type;

static td_zip *zip_of(PyObject *self) { return ((ReaderObject *)self)->zip; }

static int read_object(void *context, uint64_t offset, void *to, size_t n)
{
    ReaderObject *self = context;
    Py_buffer bytes;
    TD_PY_AUTO PyObject *data = seek(self->file, self->start + offset, SEEK_SET) < 0 ? NULL :
                                PyObject_CallMethod(self->file, "read", "n", (Py_ssize_t)n);
    if (!data || PyObject_GetBuffer(data, &bytes, PyBUF_SIMPLE) < 0)
        return td_py_capture();
    bool whole = (size_t)bytes.len == n;
    if (whole)
        memcpy(to, bytes.buf, n);
    PyBuffer_Release(&bytes);
    return whole ? 0 : td_error(TD_E_RUNTIME, "zip: invalid header or archive is corrupted");
}

static td_zip *open_object(ReaderObject *self, PyObject *file)
{
    uint64_t end;
    self->file = Py_NewRef(file);
    if (tell(file, &self->start) < 0 || seek(file, 0, SEEK_END) < 0 || tell(file, &end) < 0)
        return NULL;
    return td_zip_over(end > self->start ? end - self->start : 0, read_object, NULL, self);
}

static td_zip *open_path(PyObject *o)
{
    PyObject *path;
    if (!PyUnicode_FSConverter(o, &path))
        return NULL;
    td_zip *z;
    Py_BEGIN_ALLOW_THREADS
    z = td_zip_open(PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return z;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"name_or_buffer", NULL};
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O:PyTorchFileReader", names, &o))
        return NULL;
    ReaderObject *self = (ReaderObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->zip = is_path(o) ? open_path(o) : open_object(self, o);
    if (self->zip && td_zip_enter(self->zip) == 0)
        return (PyObject *)self;
    raise_failed();
    Py_DECREF(self);
    return NULL;
}

static void reader_dealloc(PyObject *self)
{
    td_zip_release(zip_of(self));
    Py_XDECREF(((ReaderObject *)self)->file);
    Py_TYPE(self)->tp_free(self);
}

/* The number of a record; -1 with an error. */
static int64_t record_of(PyObject *self, PyObject *name)
{
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "the name of a record must be a str, not %s", Py_TYPE(name)->tp_name), -1;
    const char *text = PyUnicode_AsUTF8(name);
    int64_t i = text ? td_zip_find(zip_of(self), text) : -1;
    if (text && i < 0)
        PyErr_Format(PyExc_RuntimeError, "PytorchStreamReader failed locating file %U: file not found", name);
    return i;
}

/* The first n bytes of a record into memory of ours. */
static int read_record(PyObject *self, int64_t i, void *to, size_t n)
{
    int status;
    if (((ReaderObject *)self)->file)
        return td_zip_read(zip_of(self), i, to, n);
    Py_BEGIN_ALLOW_THREADS
    status = td_zip_read(zip_of(self), i, to, n);
    Py_END_ALLOW_THREADS
    return status;
}

static PyObject *get_record(PyObject *self, PyObject *name)
{
    int64_t i = record_of(self, name);
    if (i < 0)
        return NULL;
    uint64_t n = td_zip_size(zip_of(self), i);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, n > PY_SSIZE_T_MAX ? PY_SSIZE_T_MAX : (Py_ssize_t)n);
    if (!bytes || read_record(self, i, PyBytes_AS_STRING(bytes), (size_t)n) == 0)
        return bytes;
    Py_DECREF(bytes);
    return raise_failed();
}

static PyObject *has_record(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    return text ? PyBool_FromLong(td_zip_find(zip_of(self), text) >= 0) : NULL;
}

static PyObject *get_all_records(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New((Py_ssize_t)td_zip_count(zip_of(self)));
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        const char *text = td_zip_name(zip_of(self), i);
        PyObject *name = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!name)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, name);
    }
    return list;
}

static PyObject *get_record_size(PyObject *self, PyObject *name)
{
    int64_t i = record_of(self, name);
    return i < 0 ? NULL : PyLong_FromUnsignedLongLong(td_zip_size(zip_of(self), i));
}

static PyObject *get_record_offset(PyObject *self, PyObject *name)
{
    int64_t i = record_of(self, name), at = i < 0 ? -1 : td_zip_offset(zip_of(self), i);
    return i < 0 ? NULL : at < 0 ? raise_failed() : PyLong_FromLongLong(at);
}

static PyObject *is_packed(PyObject *self, PyObject *name)
{
    int64_t i = record_of(self, name);
    return i < 0 ? NULL : PyBool_FromLong(td_zip_is_packed(zip_of(self), i));
}

/* Fill a writable buffer with the beginning of a record; a file object reads stored bytes straight into it. */
static PyObject *read_into(PyObject *self, PyObject *args)
{
    PyObject *name, *target, *file = ((ReaderObject *)self)->file;
    if (!PyArg_ParseTuple(args, "OO:_read_into", &name, &target))
        return NULL;
    int64_t i = record_of(self, name), at;
    Py_buffer buffer;
    if (i < 0 || PyObject_GetBuffer(target, &buffer, PyBUF_WRITABLE) < 0)
        return NULL;
    int status;
    if (file && !td_zip_is_packed(zip_of(self), i) && (uint64_t)buffer.len <= td_zip_size(zip_of(self), i)) {
        TD_PY_AUTO PyObject *view = PyMemoryView_FromObject(target);
        at = td_zip_offset(zip_of(self), i);
        status = at < 0 || !view || seek(file, ((ReaderObject *)self)->start + (uint64_t)at, SEEK_SET) < 0 || fill(file, view) < 0 ? -1 : 0;
    } else {
        status = read_record(self, i, buffer.buf, (size_t)buffer.len);
    }
    PyBuffer_Release(&buffer);
    if (status != 0)
        return raise_failed();
    Py_RETURN_NONE;
}

static PyObject *get_storage(PyObject *self, PyObject *args)
{
    PyObject *name, *dtype;
    long long numel;
    if (!PyArg_ParseTuple(args, "OLO!:get_storage_from_record", &name, &numel, &td_py_dtype_type, &dtype))
        return NULL;
    int64_t i = record_of(self, name);
    if (i < 0)
        return NULL;
    td_tensor *x = td_tensor_new(1, (int64_t[]){numel}, (td_dtype)((EnumObject *)dtype)->code, (td_device){TD_CPU, -1});
    if (x && read_record(self, i, td_tensor_data(x), td_storage_nbytes(td_tensor_storage(x))) == 0)
        return td_py_wrap(x);
    td_tensor_release(x);
    return raise_failed();
}

static PyObject *text_record(PyObject *self, const char *name)
{
    TD_PY_AUTO PyObject *key = PyUnicode_FromString(name);
    TD_PY_AUTO PyObject *bytes = key ? get_record(self, key) : NULL;
    return bytes ? PyUnicode_DecodeUTF8(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), "replace") : NULL;
}

static PyObject *version(PyObject *self, PyObject *unused)
{
    (void)unused;
    TD_PY_AUTO PyObject *text = text_record(self, td_zip_find(zip_of(self), "version") < 0 ? ".data/version" : "version");
    return text ? PyLong_FromUnicodeObject(text, 10) : NULL;
}

static PyObject *serialization_id(PyObject *self, PyObject *unused)
{
    (void)unused;
    static const char name[] = ".data/serialization_id";
    return td_zip_find(zip_of(self), name) < 0 ? PyUnicode_FromString("") : text_record(self, name);
}

static PyMethodDef reader_methods[] = {
    {"get_record", get_record, METH_O, "A record's bytes."},
    {"has_record", has_record, METH_O, "Whether there is a record of that name."},
    {"get_all_records", get_all_records, METH_NOARGS, "The names of all records, in the archive's order."},
    {"get_record_size", get_record_size, METH_O, "How many bytes a record has, unpacked."},
    {"get_record_offset", get_record_offset, METH_O, "Where a record's bytes begin in the archive."},
    {"get_storage_from_record", get_storage, METH_VARARGS, "A tensor of the first elements of a record: (name, numel, dtype)."},
    {"version", version, METH_NOARGS, "The version that the archive says it is of."},
    {"serialization_id", serialization_id, METH_NOARGS, "What the writer called this archive; an empty string if it didn't."},
    {"_is_packed", is_packed, METH_O, "Whether a record is compressed."},
    {"_read_into", read_into, METH_VARARGS, "Fill a writable buffer with the beginning of a record: (name, buffer)."},
    {NULL},
};
static PyTypeObject reader_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.PyTorchFileReader", .tp_basicsize = sizeof(ReaderObject),
    .tp_doc = "PyTorchFileReader(name_or_buffer): the records of a checkpoint.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = reader_new, .tp_dealloc = reader_dealloc, .tp_methods = reader_methods,
};

/* ---- writing */

typedef struct {
    PyObject_HEAD
    td_zip_writer *zip;
    PyObject *file, *folder, *names;    /* names: a set of what was written */
    PyObject *data;                     /* while a record is written, its memoryview; its bytes are at `begin` */
    const char *begin;
    bool own, check_sums, busy, finished;
} WriterObject;

static int write_held(WriterObject *self, const void *bytes, Py_ssize_t size)
{
    Py_ssize_t done = 0;
    TD_PY_AUTO PyObject *data = self->data && bytes == self->begin ? Py_NewRef(self->data) : PyBytes_FromStringAndSize(bytes, size);
    for (Py_ssize_t at = 0; data && done >= 0 && at < size; at += done) {
        Py_ssize_t rest = size - at < MOST ? size - at : MOST;
        TD_PY_AUTO PyObject *part = PySequence_GetSlice(data, at, at + rest);
        done = part ? count_of(PyObject_CallMethod(self->file, "write", "O", part), rest) : -1;
        if (done == 0)
            done = (PyErr_SetString(PyExc_RuntimeError, "PytorchStreamWriter failed writing file: file write failed"), -1);
    }
    return data && done >= 0 ? 0 : td_py_capture();
}

/* td_zip_writer_add calls it without the interpreter's lock; references are dropped before the lock is given up again. */
static int write_object(void *context, const void *bytes, size_t n)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int status = write_held(context, bytes, (Py_ssize_t)n);
    PyGILState_Release(state);
    return status;
}

/* What a path names, without its folders and its ending. */
static PyObject *stem_of(PyObject *o)
{
    TD_PY_AUTO PyObject *path = PyImport_ImportModule("os.path");
    TD_PY_AUTO PyObject *base = path ? PyObject_CallMethod(path, "basename", "O", o) : NULL;
    TD_PY_AUTO PyObject *pair = base ? PyObject_CallMethod(path, "splitext", "O", base) : NULL;
    PyObject *stem = pair ? PySequence_GetItem(pair, 0) : NULL;
    if (stem && PyUnicode_Check(stem) && PyUnicode_GET_LENGTH(stem) == 0)
        Py_SETREF(stem, PyUnicode_FromString("archive"));
    return stem;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"name_or_buffer", "compute_crc32", "alignment", "_folder", NULL};
    PyObject *o, *folder = NULL;
    int check_sums = true, alignment = 64;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|piU:PyTorchFileWriter", names, &o, &check_sums, &alignment, &folder))
        return NULL;
    WriterObject *self = (WriterObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->own = is_path(o), self->check_sums = check_sums;
    self->names = PySet_New(NULL);
    self->folder = folder ? Py_NewRef(folder) : self->own ? stem_of(o) : PyUnicode_FromString("archive");
    const char *text = self->names && self->folder ? PyUnicode_AsUTF8(self->folder) : NULL;
    if (text && self->own) {
        TD_PY_AUTO PyObject *io = PyImport_ImportModule("io");
        self->file = io ? PyObject_CallMethod(io, "open", "Os", o, "wb") : NULL;
    } else if (text) {
        self->file = Py_NewRef(o);
    }
    if (self->file && (self->zip = td_zip_writer_new(write_object, self, text, alignment)))
        return (PyObject *)self;
    if (self->file)
        td_py_raise();
    Py_DECREF(self);
    return NULL;
}

static void writer_dealloc(PyObject *o)
{
    WriterObject *self = (WriterObject *)o;
    td_zip_writer_release(self->zip);
    Py_XDECREF(self->file);
    Py_XDECREF(self->folder);
    Py_XDECREF(self->names);
    Py_XDECREF(self->data);
    Py_TYPE(o)->tp_free(o);
}

/* Add a record, of `data` (or of zeros, if it is NULL). */
static int add(WriterObject *self, PyObject *name, PyObject *data, size_t n)
{
    if (self->busy || self->finished)
        return PyErr_Format(PyExc_RuntimeError, "PytorchStreamWriter failed writing file %U: %s", name,
                            self->busy ? "another record is being written" : "the archive is finished"), -1;
    const char *text = PyUnicode_AsUTF8(name);
    int there = text ? PySet_Contains(self->names, name) : -1;
    if (there > 0)
        PyErr_Format(PyExc_RuntimeError, "Tried to serialize file twice: %U", name);
    if (there != 0 || PySet_Add(self->names, name) < 0)
        return -1;
    int status;
    self->busy = true;
    self->data = Py_XNewRef(data), self->begin = data ? PyMemoryView_GET_BUFFER(data)->buf : NULL;
    Py_BEGIN_ALLOW_THREADS
    status = td_zip_writer_add(self->zip, text, self->begin, n, self->check_sums);
    Py_END_ALLOW_THREADS
    self->busy = false;
    Py_CLEAR(self->data);
    return status == 0 ? 0 : (td_py_raise(), -1);
}

/* A memoryview of bytes of what write_record takes: text, a buffer, a storage. */
static PyObject *bytes_of(PyObject *o)
{
    TD_PY_AUTO PyObject *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8String(o) : NULL;
    if (PyUnicode_Check(o) && !text)
        return NULL;
    TD_PY_AUTO PyObject *untyped = text || PyObject_CheckBuffer(o) ? Py_NewRef(text ? text : o) : PyObject_GetAttrString(o, "_untyped_storage");
    TD_PY_AUTO PyObject *view = untyped ? PyMemoryView_FromObject(untyped) : NULL;
    if (view && PyMemoryView_GET_BUFFER(view)->len == 0)
        return PyMemoryView_FromMemory("", 0, PyBUF_READ);      /* some empty buffers can't be cast */
    return view ? PyObject_CallMethod(view, "cast", "s", "B") : NULL;
}

static PyObject *write_record(PyObject *self, PyObject *args)
{
    PyObject *name, *o, *size = Py_None;
    if (!PyArg_ParseTuple(args, "UO|O:write_record", &name, &o, &size))
        return NULL;
    TD_PY_AUTO PyObject *data = bytes_of(o);
    if (!data)
        return NULL;
    Py_ssize_t length = PyMemoryView_GET_BUFFER(data)->len, n = size == Py_None ? length : PyNumber_AsSsize_t(size, PyExc_OverflowError);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < 0 || n > length)
        return PyErr_Format(PyExc_ValueError, "write_record: %zd bytes of '%U', which has %zd", n, name, length);
    if (add((WriterObject *)self, name, data, (size_t)n) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *write_record_metadata(PyObject *self, PyObject *args)
{
    PyObject *name;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "Un:write_record_metadata", &name, &n))
        return NULL;
    if (n < 0)
        return PyErr_Format(PyExc_ValueError, "write_record_metadata: %zd bytes", n);
    if (add((WriterObject *)self, name, NULL, (size_t)n) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *write_end_of_file(PyObject *o, PyObject *unused)
{
    (void)unused;
    WriterObject *self = (WriterObject *)o;
    if (self->finished)
        Py_RETURN_NONE;
    TD_PY_AUTO PyObject *name = PyUnicode_FromString("version"), *packaged = PyUnicode_FromString(".data/version");
    TD_PY_AUTO PyObject *bytes = PyBytes_FromString("3\n");
    TD_PY_AUTO PyObject *data = bytes ? PyMemoryView_FromObject(bytes) : NULL;
    int there = name && packaged && data ? PySet_Contains(self->names, name) : -1;
    if (there == 0)
        there = PySet_Contains(self->names, packaged);
    if (there < 0 || (!there && add(self, name, data, 2) < 0))
        return NULL;
    if (self->busy)
        return PyErr_Format(PyExc_RuntimeError, "PytorchStreamWriter: a record is being written");
    self->finished = true;
    if (td_zip_writer_finish(self->zip) != 0)
        return td_py_raise();
    TD_PY_AUTO PyObject *closed = self->own ? PyObject_CallMethod(self->file, "close", NULL) : Py_NewRef(Py_None);
    return closed ? Py_NewRef(Py_None) : NULL;
}

static PyObject *get_all_written_records(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PySet_New(((WriterObject *)self)->names);
}

static PyObject *archive_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(((WriterObject *)self)->folder);
}

static PyMethodDef writer_methods[] = {
    {"write_record", write_record, METH_VARARGS, "Write a record of a text, a buffer or a storage: (name, data[, bytes])."},
    {"write_record_metadata", write_record_metadata, METH_VARARGS, "Write a record of zeros, to be written over: (name, bytes)."},
    {"write_end_of_file", write_end_of_file, METH_NOARGS, "Write the directory of the records; the last call."},
    {"get_all_written_records", get_all_written_records, METH_NOARGS, "The names of the records so far, as a set."},
    {"archive_name", archive_name, METH_NOARGS, "The folder that the records are in."},
    {NULL},
};
static PyTypeObject writer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.PyTorchFileWriter", .tp_basicsize = sizeof(WriterObject),
    .tp_doc = "PyTorchFileWriter(name_or_buffer, compute_crc32=True, alignment=64): writes a checkpoint record by record.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = writer_new, .tp_dealloc = writer_dealloc, .tp_methods = writer_methods,
};

/* ---- NumPy's files */

static PyObject *npy_load(PyObject *m, PyObject *o)
{
    (void)m;
    PyObject *path;
    if (!PyUnicode_FSConverter(o, &path))
        return NULL;
    td_tensor *x;
    Py_BEGIN_ALLOW_THREADS
    x = td_npy_load(PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return x ? td_py_wrap(x) : td_py_raise();
}

/* A dict of what an archive has. */
static PyObject *npz_load(PyObject *m, PyObject *o)
{
    (void)m;
    static const char ending[] = ".npy";
    td_zip *z = open_path(o);
    PyObject *dict = z ? PyDict_New() : td_py_raise();
    for (int64_t i = 0; dict && i < td_zip_count(z); i++) {
        const char *text = td_zip_name(z, i);
        size_t length = strlen(text);
        if (length < strlen(ending) || strcmp(text + length - strlen(ending), ending) != 0)
            continue;
        TD_PY_AUTO PyObject *name = PyUnicode_FromStringAndSize(text, (Py_ssize_t)(length - strlen(ending)));
        const char *wanted = name ? PyUnicode_AsUTF8(name) : NULL;
        td_tensor *x = wanted ? td_npz_get(z, wanted) : NULL;
        TD_PY_AUTO PyObject *value = x ? td_py_wrap(x) : td_py_raise();
        if (!value || PyDict_SetItem(dict, name, value) < 0)
            Py_CLEAR(dict);
    }
    td_zip_release(z);
    return dict;
}

static PyMethodDef functions[] = {
    {"_fill", fill_buffer, METH_VARARGS, "Read exactly as many bytes as a buffer has: (file, buffer)."},
    {"_npy_load", npy_load, METH_O, NULL},
    {"_npz_load", npz_load, METH_O, NULL},
    {NULL},
};
int td_py_archive_init(PyObject *module)
{
    return PyType_Ready(&reader_type) < 0 || PyType_Ready(&writer_type) < 0 || PyModule_AddFunctions(module, functions) < 0 ||
           PyModule_AddObjectRef(module, "PyTorchFileReader", (PyObject *)&reader_type) < 0 ||
           PyModule_AddObjectRef(module, "PyTorchFileWriter", (PyObject *)&writer_type) < 0 ? -1 : 0;
}
