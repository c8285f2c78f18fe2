/* Devices from outside: loading them, getting and setting the current one, waiting for it.  tede/_devices.py makes of this
 * what programs see. */
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

/* Of a device that was loaded, perhaps by its first use on some thread: its module and its methods of tensors. */
static void loaded(int type)
{
    PyGILState_STATE state = PyGILState_Ensure();
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
static PyObject *set_current(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    if (device_of(o, &device))
        return NULL;
    if (td_device_set_current(device) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *synchronize(PyObject *m, PyObject *o)
{
    (void)m;
    td_device device;
    int status;
    if (device_of(o, &device))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = td_device_synchronize(device);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
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
static PyObject *fallbacks(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLongLong(td_cpu_fallback_count());
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
    {"_cpu_fallback_count", fallbacks, METH_NOARGS, "Calls that devices from outside have left to the CPU."},
    {NULL},
};
int td_py_device_init(PyObject *module)
{
    td_device_notify(loaded);
    return PyModule_AddFunctions(module, functions);
}
