/* Devices from outside: loading them, getting and setting the current one, waiting for it.  tede/_devices.py makes of this
 * what programs see. */
#include "calls_csrc_device.h"
#include "binding.h"
#include <tede/device.h>
#include <tede/library.h>

/* An argument that may be a device, a name or, for the type `type`, an index. */
static int device_of(PyObject *o, td_device *device)
{
    int found = td_py_as_device(o, device);
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "a device was expected, not %s", Py_TYPE(o)->tp_name);
    return found > 0 ? 0 : -1;
}

static int accelerator = TD_CPU;
td_device td_py_accelerator(void) { return (td_device){(int8_t)accelerator, -1}; }

/* Of a device that was loaded, perhaps by its first use on some thread: its module and its methods of tensors. */
static void loaded(int type)
{
    PyGILState_STATE state = PyGILState_Ensure();
    accelerator = accelerator == TD_CPU ? type : accelerator;
    char name[32];
    PyObject *home = PyImport_ImportModule("tede._devices");
    PyObject *module = home ? PyObject_CallMethod(home, "add_module", "s", td_device_str((td_device){(int8_t)type, -1}, name)) : NULL;
    if (!module)
        PyErr_WriteUnraisable(home);
    Py_XDECREF(module);
    Py_XDECREF(home);
    PyGILState_Release(state);
}

static PyObject *load(PyObject *m, PyObject *o)
{
    (void)m;
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(o, &path))
        return NULL;
    int type;
    Py_BEGIN_ALLOW_THREADS
    type = td_device_load(PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    char name[32];
    return type < 0 ? td_py_raise() : PyUnicode_FromString(td_device_str((td_device){(int8_t)type, -1}, name));
}
static PyObject *load_library(PyObject *m, PyObject *o)
{
    (void)m;
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(o, &path))
        return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = td_library_load(PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *count(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    return device_of(o, &device) ? NULL : PyLong_FromLong(td_device_count(device.type));
}
static PyObject *type(PyObject *m, PyObject *o)
{
    (void)m;
    const char *name = PyUnicode_AsUTF8(o);
    return name ? PyLong_FromLong(td_device_find(name)) : NULL;
}
static PyObject *current(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    return device_of(o, &device) ? NULL : PyLong_FromLong(td_device_current(device.type));
}
/* f(device) for a function that gives a status; waiting releases the interpreter's lock. */
static PyObject *call_with(PyObject *o, int (*f)(td_device device), bool waits)
{
    td_device device;
    if (device_of(o, &device))
        return NULL;
    PyThreadState *state = waits ? PyEval_SaveThread() : NULL;
    int status = f(device);
    if (waits)
        PyEval_RestoreThread(state);
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *set_current(PyObject *m, PyObject *o) { return (void)m, call_with(o, td_device_set_current, false); }
static PyObject *synchronize(PyObject *m, PyObject *o) { return (void)m, call_with(o, td_device_synchronize, true); }
static PyObject *memory_reset_peak(PyObject *m, PyObject *o) { return (void)m, call_with(o, td_device_memory_reset_peak, false); }
static PyObject *empty_cache(PyObject *m, PyObject *o) { return (void)m, call_with(o, td_device_empty_cache, true); }
static PyObject *generator(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    if (device_of(o, &device))
        return NULL;
    if (td_device_resolve(&device) < 0)
        return td_py_raise();
    return td_py_generator_on(td_generator_retain(td_device_generator(device)), device);
}
/* ---- what there is, and memory */

static PyObject *properties(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    td_device_properties p;
    if (device_of(o, &device))
        return NULL;
    if (td_device_properties_of(device, &p))
        return td_py_raise();
    return Py_BuildValue("{sssssKsisisnsOsOsisi}", "name", p.name, "driver", p.driver, "total_memory", (unsigned long long)p.memory, "multi_processor_count",
                         p.units, "lanes", p.lanes, "shared_memory_per_block", (Py_ssize_t)p.shared, "has_float64", p.doubles ? Py_True : Py_False,
                         "is_integrated", p.unified ? Py_True : Py_False, "major", p.major, "minor", p.minor);
}
static PyObject *memory(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    td_device_memory s;
    if (device_of(o, &device))
        return NULL;
    if (td_device_memory_stats(device, &s))
        return td_py_raise();
    const struct { const char *name; uint64_t value; } fields[] = {
        {"allocated", s.allocated}, {"peak_allocated", s.peak_allocated}, {"reserved", s.reserved}, {"peak_reserved", s.peak_reserved},
        {"total_allocated", s.total_allocated}, {"total_freed", s.total_freed}, {"blocks", s.blocks}, {"segments", s.segments},
        {"allocations", s.allocations}, {"device_allocations", s.device_allocations}, {"retries", s.retries}, {"failures", s.failures},
        {"limit", s.limit}, {"peak_blocks", s.peak_blocks}, {"peak_segments", s.peak_segments}, {"frees", s.frees}, {"device_frees", s.device_frees},
        {"total_reserved", s.total_reserved}, {"total_returned", s.total_returned}};
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof fields / sizeof *fields; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(fields[i].value);
        if (!value || PyDict_SetItemString(dict, fields[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}
static PyObject *empty_pinned(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    td_pinned_empty_cache();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static PyObject *set_memory_limit(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *o;
    td_device device;
    unsigned long long bytes;
    if (!PyArg_ParseTuple(args, "OK", &o, &bytes) || device_of(o, &device))
        return NULL;
    if (td_device_set_memory_limit(device, bytes))
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *memory_info(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    size_t unused, total;
    if (device_of(o, &device))
        return NULL;
    return td_device_memory_info(device, &unused, &total) ? td_py_raise() : Py_BuildValue("nn", (Py_ssize_t)unused, (Py_ssize_t)total);
}

/* ---- page-locked memory */

/* The accelerator that memory is locked for: the one that was named, else the first that was loaded. */
static int pinning_device(PyObject *o, td_device *device)
{
    *device = td_py_accelerator();
    if (o && o != Py_None && device_of(o, device))
        return -1;
    if (device->type > TD_META)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "Cannot access accelerator device when none is available.");
    return -1;
}

/* A tensor of x's elements and layout, in page-locked memory; x itself, if it is in such. */
td_tensor *td_py_pinned(td_tensor *x, td_device device)
{
    td_storage *from = td_tensor_storage(x);
    if (td_tensor_device(x).type != TD_CPU || !from) {
        char name[32];
        return td_fail(TD_E_RUNTIME, "cannot pin '%s' only dense CPU tensors can be pinned", td_device_str(td_tensor_device(x), name));
    }
    if (td_storage_is_pinned(from))
        return td_tensor_retain(x);
    td_tensor *like = td_empty_like(x, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_PRESERVE_FORMAT);
    td_storage *storage = like ? td_storage_pinned(device, td_storage_nbytes(td_tensor_storage(like))) : NULL;
    td_tensor *made = storage ? td_tensor_over(storage, 0, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_strides(like), td_tensor_dtype(x)) : NULL;
    td_storage_release(storage);
    td_tensor_release(like);
    if (made && td_copy_from_(made, x, false)) {
        td_tensor_release(made);
        return NULL;
    }
    return made;
}
int td_py_pin_new(td_tensor **x)
{
    td_device device = td_py_accelerator();
    if (device.type <= TD_META) {
        PyErr_SetString(PyExc_RuntimeError, "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system.");
        return -1;
    }
    if (td_tensor_device(*x).type != TD_CPU) {
        PyErr_SetString(PyExc_RuntimeError, "Only dense CPU tensors can be pinned");
        return -1;
    }
    td_tensor *made = td_py_pinned(*x, device);
    if (!made)
        return td_py_raise(), -1;
    td_tensor_release(*x);
    *x = made;
    return 0;
}
PyObject *td_py_pin_memory(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (td_py_taken_over(self))
        return td_py_override_method_call("pin_memory", self, args, nargs, kwnames);
    td_device device;
    Py_ssize_t n_words = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs + n_words > 1 || (n_words && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "device") != 0))
        return PyErr_Format(PyExc_TypeError, "pin_memory() takes one argument, device");
    return pinning_device(nargs + n_words ? args[0] : NULL, &device) < 0 ? NULL : td_py_wrap(td_py_pinned(td_py_x(self), device));
}
PyObject *td_py_is_pinned(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (td_py_taken_over(self))
        return td_py_override_method_call("is_pinned", self, args, nargs, kwnames);
    if (nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0) > 1)
        return PyErr_Format(PyExc_TypeError, "is_pinned() takes one argument, device");
    td_storage *storage = td_tensor_storage(td_py_x(self));
    return PyBool_FromLong(storage && td_storage_is_pinned(storage));
}

static PyObject *fallbacks(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLongLong(td_cpu_fallback_count());
}

static PyObject *library_calls(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLongLong(td_library_calls());
}
static PyObject *library_declined(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLongLong(td_library_declined());
}
static PyObject *library_flags(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromUnsignedLong(td_library_flags());
}
static PyObject *set_library_flags(PyObject *m, PyObject *flags)
{
    (void)m;
    unsigned long bits = PyLong_AsUnsignedLong(flags);
    if (PyErr_Occurred())
        return NULL;
    td_set_library_flags((uint32_t)bits);
    Py_RETURN_NONE;
}
static PyObject *library_version(PyObject *m, PyObject *args)
{
    const char *device, *library;
    (void)m;
    if (!PyArg_ParseTuple(args, "ss", &device, &library))
        return NULL;
    const int type = td_device_find(device);
    return PyLong_FromLongLong(type < 0 ? 0 : td_device_library_version(type, library));
}
static PyObject *set_search_path(PyObject *m, PyObject *folders)
{
    (void)m;
    const char *text = PyUnicode_AsUTF8(folders);
    return !text ? NULL : td_set_search_path(text) ? td_py_raise() : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"_device_load", load, METH_O, NULL},
    {"_library_load", load_library, METH_O, NULL},
    {"_device_type", type, METH_O, "The number of a device's name, or -1."},
    {"_device_count", count, METH_O, NULL},
    {"_device_current", current, METH_O, NULL},
    {"_device_set_current", set_current, METH_O, NULL},
    {"_device_synchronize", synchronize, METH_O, NULL},
    {"_device_generator", generator, METH_O, NULL},
    {"_device_properties", properties, METH_O, NULL},
    {"_device_memory", memory, METH_O, "The allocator's statistics."},
    {"_device_memory_reset_peak", memory_reset_peak, METH_O, NULL},
    {"_device_empty_cache", empty_cache, METH_O, NULL},
    {"_device_set_memory_limit", set_memory_limit, METH_VARARGS, "(device, bytes); 0: none."},
    {"_device_memory_info", memory_info, METH_O, "(free, total) bytes."},
    {"_pinned_empty_cache", empty_pinned, METH_NOARGS, NULL},
    {"_library_calls", library_calls, METH_NOARGS, "Products, convolutions and the like that vendors' libraries have taken."},
    {"_library_declined", library_declined, METH_NOARGS, "Those that they declined."},
    {"_library_flags", library_flags, METH_NOARGS, "What vendors' libraries may do: td_library_flag."},
    {"_set_library_flags", set_library_flags, METH_O, NULL},
    {"_library_version", library_version, METH_VARARGS, "(device, library): its version, or 0."},
    {"_set_search_path", set_search_path, METH_O, "Folders with : between them that may have vendors' libraries as packages."},
    {"_cpu_fallback_count", fallbacks, METH_NOARGS, "Calls that devices from outside have left to the CPU."},
    {NULL},
};
int td_py_device_init(PyObject *module)
{
    td_device_notify(loaded);
    return PyModule_AddFunctions(module, functions);
}
