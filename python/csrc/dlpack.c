/* The DLPack protocol: capsules around what tede/dlpack.h gives and takes.
 *
 * A capsule is named "dltensor" or "dltensor_versioned" until somebody takes the tensor out, who renames it to
 * "used_..." and calls its deleter at the end. */
#include "calls_csrc_dlpack.h"
#include "binding.h"
#include <tede/device.h>
#include <tede/dlpack.h>

static void capsule_dropped(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        td_dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        td_dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
}

/* Work on the consumer's stream comes after what was queued on ours.  It names its stream by the device's handle: None, 0 and 1 stand for the first
 * one, -1 for no order; one that isn't ours can't be made to wait, so the CPU does. */
static int order_streams(td_device device, PyObject *stream)
{
    td_stream *current = device.type > TD_META ? td_stream_current(device) : NULL, *other = current ? td_stream_first(device) : NULL;
    if (!current)
        return device.type > TD_META ? -1 : 0;
    if (stream != Py_None) {
        void *handle = PyLong_AsVoidPtr(stream);
        PyErr_Clear();
        if (handle == (void *)-1)
            return 0;
        while (other && handle > (void *)1 && td_stream_handle(other) != handle)
            other = td_stream_next(other);
    }
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = other ? td_stream_wait(other, current) : td_stream_synchronize(current);
    Py_END_ALLOW_THREADS
    return status;
}

PyObject *td_py_method_dlpack(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (stream != Py_None && !PyLong_Check(stream))
        return PyErr_Format(PyExc_TypeError, "stream must be ``int`` or ``none``");
    td_tensor *x = td_py_x(self);
    if (stream != Py_None && td_tensor_device(x).type == TD_CPU && PyLong_AsLong(stream) != -1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_AssertionError, "stream should be None on cpu.");
    if (order_streams(td_tensor_device(x), stream))
        return td_py_raise();
    if (td_requires_grad(x))
        return PyErr_Format(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
    if (td_tensor_is_conj(x))
        return PyErr_Format(PyExc_BufferError, "Can't export tensors with the conjugate bit set");
    int64_t major = 0;
    if (version != Py_None && PyTuple_Check(version) && PyTuple_GET_SIZE(version) &&
        td_py_as_int(PyTuple_GET_ITEM(version, 0), &major, false) < 0)
        return NULL;
    td_dl_copy how = copy == Py_True ? TD_DL_COPY_ALWAYS : copy == Py_False ? TD_DL_COPY_NEVER : TD_DL_COPY_IF_NEEDED;
    PyObject *capsule;
    if (major >= 1) {
        td_dl_versioned *m = td_dlpack_export_versioned(x, how);
        if (!m)
            return td_py_raise();
        if (!(capsule = PyCapsule_New(m, "dltensor_versioned", capsule_dropped)))
            m->deleter(m);
    } else {
        td_dl_managed *m = td_dlpack_export(x, how);
        if (!m)
            return td_py_raise();
        if (!(capsule = PyCapsule_New(m, "dltensor", capsule_dropped)))
            m->deleter(m);
    }
    return capsule;
}

PyObject *td_py_method_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    int32_t type, id;
    if (td_dlpack_device(td_tensor_device(td_py_x(self)), &type, &id) < 0)
        return td_py_raise();
    return Py_BuildValue("(ii)", (int)type, (int)id);
}

td_tensor *td_py_from_dlpack(PyObject *o)
{
    PyObject *capsule = NULL;
    if (PyCapsule_CheckExact(o)) {
        capsule = Py_NewRef(o);
    } else {
        PyObject *method = PyObject_GetAttrString(o, "__dlpack__");
        if (!method) {
            PyErr_Format(PyExc_RuntimeError, "from_dlpack: '%s' has no __dlpack__", Py_TYPE(o)->tp_name);
            return NULL;
        }
        PyObject *none = PyTuple_New(0), *kw = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
        if (none && kw)
            capsule = PyObject_Call(method, none, kw);
        if (!capsule && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();          /* an older producer */
            capsule = PyObject_CallNoArgs(method);
        }
        Py_XDECREF(none);
        Py_XDECREF(kw);
        Py_DECREF(method);
    }
    td_tensor *x = NULL;
    if (!capsule)
        return NULL;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        if ((x = td_dlpack_import_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"))))
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
        else
            td_py_raise();
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        if ((x = td_dlpack_import(PyCapsule_GetPointer(capsule, "dltensor"))))
            PyCapsule_SetName(capsule, "used_dltensor");
        else
            td_py_raise();
    } else {
        PyErr_SetString(PyExc_RuntimeError, "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
                        "consumed only once, so you might have already constructed a tensor from it once.");
    }
    Py_DECREF(capsule);
    return x;
}

static PyObject *from_dlpack(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    static char *names[] = {"ext_tensor", "device", "copy", NULL};
    PyObject *source, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$OO:from_dlpack", names, &source, &device, &copy))
        return NULL;
    td_tensor *x = td_py_from_dlpack(source);
    td_device where = TD_DEVICE_NONE;
    if (x && device != Py_None && td_py_as_device(device, &where) < 0) {
        td_tensor_release(x);
        return NULL;
    }
    const bool moves = x && device != Py_None && (where.type != td_tensor_device(x).type || (where.index >= 0 && where.index != td_tensor_device(x).index));
    if (moves && copy == Py_False) {
        td_tensor_release(x);
        return PyErr_Format(PyExc_ValueError, "cannot move DLTensor from its device to another one without a copy");
    }
    if (x && (copy == Py_True || moves)) {
        td_tensor *copy = moves ? td_py_to(x, td_tensor_dtype(x), where, false, true, TD_MEMORY_FORMAT_NONE) : td_py_copy(x);
        td_tensor_release(x);
        return copy ? td_py_wrap(copy) : td_py_raise();
    }
    return x ? td_py_wrap(x) : NULL;
}
static PyObject *to_dlpack(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "to_dlpack(): argument must be Tensor, not %s", Py_TYPE(x)->tp_name);
    PyObject *none = PyTuple_New(0), *capsule = none ? td_py_method_dlpack(x, none, NULL) : NULL;
    Py_XDECREF(none);
    return capsule;
}
static PyMethodDef functions[] = {
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack($module, ext_tensor, *, device=None, copy=None)\n--\n\nA tensor over the memory of another library's."},
    {"to_dlpack", to_dlpack, METH_O, "A DLPack capsule of a tensor."},
    {NULL},
};
int td_py_dlpack_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
