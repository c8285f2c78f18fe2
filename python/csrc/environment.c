/* Settings for all calls: the default device, autocast, and the name that the package goes by.
 *
 * A device is a context manager: entering it puts the default aside on a stack of the thread's, leaving takes it back. */
#include "binding.h"
#include <tede/autocast.h>
#include <tede/device.h>
#include <tede/modes.h>

const char *td_py_package = "tede";
_Thread_local td_device td_py_default_device = {-1, -1};

enum { MOST_NESTED = 256 };
static _Thread_local td_device nested[MOST_NESTED];
static _Thread_local int depth;

PyObject *td_py_device_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (depth == MOST_NESTED)
        return PyErr_Format(PyExc_RuntimeError, "torch.device: more than %d nested contexts", MOST_NESTED);
    nested[depth++] = td_py_default_device;
    td_py_default_device = ((DeviceObject *)self)->device;
    return Py_NewRef(self);
}
PyObject *td_py_device_exit(PyObject *self, PyObject *exception)
{
    (void)self, (void)exception;
    if (depth)
        td_py_default_device = nested[--depth];
    Py_RETURN_NONE;
}

static PyObject *set_default_device(PyObject *m, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)m;
    PyObject *o = td_py_only("set_default_device", "device", args, nargs, kwnames);
    if (!o)
        return NULL;
    td_device device = {-1, -1};
    if (o != Py_None) {
        PyObject *made = Py_IS_TYPE(o, &td_py_device_type) ? Py_NewRef(o) : PyObject_CallOneArg((PyObject *)&td_py_device_type, o);
        if (!made)
            return NULL;
        device = ((DeviceObject *)made)->device;
        Py_DECREF(made);
    }
    td_py_default_device = device;
    Py_RETURN_NONE;
}
static PyObject *get_default_device(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return td_py_device(td_py_default_device.type >= 0 ? td_py_default_device : (td_device){TD_CPU, -1});
}

static PyObject *set_warn_always(PyObject *m, PyObject *o)
{
    (void)m;
    td_set_warn_always(o == Py_True);
    Py_RETURN_NONE;
}

static PyObject *warns_always(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_warn_always());
}

/* Static types know their module by the beginning of their name only. */
static PyObject *set_package(PyObject *m, PyObject *o)
{
    const char *name = PyUnicode_AsUTF8(o);
    if (!name)
        return NULL;
    bool torch = strcmp(name, "torch") == 0;
    td_py_package = torch ? "torch" : "tede";
    static const char *const types[][3] = {
        {"dtype", "tede.dtype", "torch.dtype"}, {"device", "tede.device", "torch.device"},
        {"layout", "tede.layout", "torch.layout"}, {"memory_format", "tede.memory_format", "torch.memory_format"},
        {"Size", "tede.Size", "torch.Size"}, {"finfo", "tede.finfo", "torch.finfo"}, {"iinfo", "tede.iinfo", "torch.iinfo"},
        {"Generator", "tede._C.Generator", "torch._C.Generator"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *whole = types[i][torch ? 2 : 1];
        PyObject *type = PyObject_GetAttrString(m, types[i][0]);
        PyObject *module = PyUnicode_FromStringAndSize(whole, strrchr(whole, '.') - whole);
        if (!type || !module || PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, "__module__", module) < 0) {
            Py_XDECREF(type);
            Py_XDECREF(module);
            return NULL;
        }
        ((PyTypeObject *)type)->tp_name = whole;
        PyType_Modified((PyTypeObject *)type);
        Py_DECREF(type);
        Py_DECREF(module);
    }
    Py_RETURN_NONE;
}

/* _set_batch_invariant(on): one caller more, or fewer, that wants it. */
static PyObject *set_batch_invariant(PyObject *m, PyObject *on)
{
    (void)m;
    int begins = PyObject_IsTrue(on);
    if (begins >= 0)
        (begins ? td_batch_invariant_begin : td_batch_invariant_end)();
    return begins < 0 ? NULL : Py_NewRef(Py_None);
}
static PyObject *is_batch_invariant(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_batch_invariant());
}

/* use_deterministic_algorithms, and the choice whether new memory is filled then. */
static bool deterministic, filling = true;
static PyObject *set_deterministic(PyObject *m, PyObject *on)
{
    (void)m;
    const uint32_t flags = td_library_flags();
    deterministic = on == Py_True;
    td_set_fill_uninitialized(deterministic && filling);
    td_set_library_flags(deterministic ? flags | TD_LIBRARY_DETERMINISTIC : flags & ~(uint32_t)TD_LIBRARY_DETERMINISTIC);
    Py_RETURN_NONE;
}
static PyObject *set_filling(PyObject *m, PyObject *on)
{
    (void)m;
    if (!PyBool_Check(on))
        return PyErr_Format(PyExc_RuntimeError, "expected a bool, but got %s", Py_TYPE(on)->tp_name);
    filling = on == Py_True;
    td_set_fill_uninitialized(deterministic && filling);
    Py_RETURN_NONE;
}
static PyObject *is_filling(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(filling);
}

static PyObject *set_autocast(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *dtype;
    td_autocast state = {TD_DTYPE_NONE, true, TD_CPU};
    int cached;
    const char *device = "cpu";
    if (!PyArg_ParseTuple(args, "Op|s", &dtype, &cached, &device))
        return NULL;
    state.device_type = td_device_find(device);
    if (dtype != Py_None && !td_py_as_dtype(dtype, &state.dtype))
        return PyErr_Format(PyExc_TypeError, "_set_autocast takes a dtype or None");
    state.cached = cached;
    if (td_autocast_set(state) != 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *autocast_dtype(PyObject *m, PyObject *args)
{
    (void)m;
    const char *device = "cpu";
    if (!PyArg_ParseTuple(args, "|s", &device))
        return NULL;
    td_autocast now = td_autocast_now_on(td_device_find(device));
    return Py_NewRef(now.dtype == TD_DTYPE_NONE ? Py_None : td_py_dtype(now.dtype));
}
static PyObject *autocast_deeper(PyObject *m, PyObject *by)
{
    (void)m;
    long n = PyLong_AsLong(by);
    return n == -1 && PyErr_Occurred() ? NULL : PyLong_FromLong(td_autocast_deeper((int)n));
}
static PyObject *clear_autocast_cache(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_autocast_clear_cache();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_default_device", (PyCFunction)(void (*)(void))set_default_device, METH_FASTCALL | METH_KEYWORDS,
     "set_default_device($module, device)\n--\n\nWhere new tensors are made if nothing else is said."},
    {"get_default_device", get_default_device, METH_NOARGS, "get_default_device($module)\n--\n\nWhere new tensors are made if nothing else is said."},
    {"_set_batch_invariant", set_batch_invariant, METH_O, NULL},
    {"is_batch_invariant", is_batch_invariant, METH_NOARGS, "Whether a batch_invariant context is open, in any thread."},
    {"_set_deterministic", set_deterministic, METH_O, "Whether the process wants deterministic algorithms."},
    {"_set_deterministic_fill_uninitialized_memory", set_filling, METH_O, "Whether new memory is filled while it does."},
    {"_get_deterministic_fill_uninitialized_memory", is_filling, METH_NOARGS, "Whether new memory is filled while it does."},
    {"_set_autocast", set_autocast, METH_VARARGS, "The dtype that products compute in, or None, and whether casts are kept: this thread's."},
    {"_autocast_dtype", autocast_dtype, METH_VARARGS, "The dtype that products compute in, or None: this thread's."},
    {"_autocast_deeper", autocast_deeper, METH_O, "Count the contexts; how deep the thread is."},
    {"clear_autocast_cache", clear_autocast_cache, METH_NOARGS, "Drop the casts of weights that autocast keeps."},
    {"_set_warn_always", set_warn_always, METH_O, "Whether warnings given once per process are given each time."},
    {"_warns_always", warns_always, METH_NOARGS, "Whether warnings given once per process are given each time."},
    {"_set_package", set_package, METH_O, "The name that reprs use: tede or torch."},
    {NULL},
};
int td_py_environment_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
