/* Errors of the core become Python exceptions, and Python exceptions travel through the core.
 *
 * A Python exception that is raised below C code (a hook, a Function, a subclass) is normalised, with its traceback,
 * and hung on the core's error as its foreign object. When the core gives up, it comes out again as it was. */
#include "binding.h"
#include <stdatomic.h>
#include <tede/wait.h>

PyObject *td_py_OutOfMemoryError;
static PyObject *lin_alg_error;
/* tede.distributed's errors, by code from TD_E_DIST on. */
enum { DIST_ERRORS = TD_E_DIST_QUEUE - TD_E_DIST + 1 };
static PyObject *dist_errors[DIST_ERRORS];

static PyObject *class_of(td_code code)
{
    if (code >= TD_E_DIST && code <= TD_E_DIST_QUEUE)
        return dist_errors[code - TD_E_DIST];
    switch (code) {
    case TD_E_VALUE: return PyExc_ValueError;
    case TD_E_TYPE: return PyExc_TypeError;
    case TD_E_INDEX: return PyExc_IndexError;
    case TD_E_NOT_IMPLEMENTED: return PyExc_NotImplementedError;
    case TD_E_MEMORY: return td_py_OutOfMemoryError;
    case TD_E_OVERFLOW: return PyExc_OverflowError;
    case TD_E_IO: return PyExc_OSError;
    case TD_E_KEY: return PyExc_KeyError;
    case TD_E_ASSERTION: return PyExc_AssertionError;
    case TD_E_LINALG: return lin_alg_error;
    default: return PyExc_RuntimeError;
    }
}

void *td_py_raise(void)
{
    td_code code = td_error_code();
    if (code == TD_E_FOREIGN) {
        PyObject *value = td_error_take_foreign();
        if (value) {
            PyErr_SetObject((PyObject *)Py_TYPE(value), value);
            Py_DECREF(value);
            return NULL;
        }
    }
    if (!PyErr_Occurred()) {
        if (code == TD_OK)
            PyErr_SetString(PyExc_SystemError, "an operator failed without saying why");
        else
            PyErr_SetString(class_of(code), td_error_message());
    }
    td_error_clear();
    return NULL;
}

typedef struct Drop { struct Drop *next; PyObject *object; } Drop;
static _Atomic(Drop *) queue;

static int drop_queued(void *unused)
{
    (void)unused;
    for (Drop *next, *d = atomic_exchange(&queue, NULL); d; d = next) {
        next = d->next;
        Py_DECREF(d->object);
        free(d);
    }
    return 0;
}

void td_py_drop(void *object)
{
    if (!object || !Py_IsInitialized())
        return;
    if (PyGILState_Check()) {
        Py_DECREF((PyObject *)object);
        return;
    }
    Drop *d = malloc(sizeof *d);
    if (!d)
        return;                               /* it stays for good; nothing better is left to do */
    d->object = object;
    d->next = atomic_load(&queue);
    while (!atomic_compare_exchange_weak(&queue, &d->next, d))
        ;
    Py_AddPendingCall(drop_queued, NULL);     /* if there is no room, one that waits there will see ours */
}

int td_py_capture(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!type)
        return td_error(TD_E_RUNTIME, "a Python callback failed without an exception");
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    PyObject *text = PyObject_Str(value);
    const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
    PyErr_Clear();
    td_error_foreign(value, td_py_drop, message ? message : "a Python exception");
    Py_XDECREF(text);
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return -1;
}

/* The core's warnings are Python's: filters and catch_warnings() see them, and may make them errors. */
static int warn(const char *message, void *context)
{
    (void)context;
    if (!Py_IsInitialized())
        return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    int status = PyErr_WarnEx(PyExc_UserWarning, message, 1) ? td_py_capture() : 0;
    PyGILState_Release(state);
    return status;
}

/* Ctrl-C, and signal handlers that raise. They run on the main thread; on others this finds nothing. */
static int interrupted(void *context)
{
    (void)context;
    if (!Py_IsInitialized())
        return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    int status = PyErr_CheckSignals() ? td_py_capture() : 0;
    PyGILState_Release(state);
    return status;
}

static int make_dist_errors(PyObject *module)
{
    static const struct { const char *name, *doc; int base; } made[DIST_ERRORS] = {
        {"tede.distributed.DistError", "What goes wrong between processes.", -1},
        {"tede.distributed.DistBackendError", "An engine of process groups reports an error.", 0},
        {"tede.distributed.DistNetworkError", "A connection can't be made, or breaks.", 0},
        {"tede.distributed.DistStoreError", "A store reports an error: a wait took too long, say.", 0},
        {"tede.distributed.QueueEmptyError", "A store's queue is empty.", TD_E_DIST_STORE - TD_E_DIST},
    };
    for (int i = 0; i < DIST_ERRORS; i++) {
        PyObject *base = made[i].base < 0 ? PyExc_RuntimeError : dist_errors[made[i].base];
        dist_errors[i] = PyErr_NewExceptionWithDoc(made[i].name, made[i].doc, base, NULL);
        const char *name = strrchr(made[i].name, '.') + 1;
        char internal[32];                                  /* torch._C._DistError */
        snprintf(internal, sizeof internal, "_%s", name);
        if (!dist_errors[i] || PyModule_AddObjectRef(module, name, dist_errors[i]) < 0 || PyModule_AddObjectRef(module, internal, dist_errors[i]) < 0)
            return -1;
    }
    return 0;
}

int td_py_errors_init(PyObject *module)
{
    td_set_warning_handler(warn, NULL);
    td_set_interrupt_handler(interrupted, NULL);
    if (make_dist_errors(module) != 0)
        return -1;
    td_py_OutOfMemoryError = PyErr_NewExceptionWithDoc(
        "tede.OutOfMemoryError", "There is no memory for a tensor's elements.", PyExc_RuntimeError, NULL);
    lin_alg_error = PyErr_NewExceptionWithDoc("torch._C._LinAlgError", "A matrix is singular, not positive-definite, or an algorithm "
                                              "didn't converge.", PyExc_RuntimeError, NULL);
    if (!td_py_OutOfMemoryError || !lin_alg_error || PyModule_AddObjectRef(module, "_LinAlgError", lin_alg_error))
        return -1;
    return PyModule_AddObjectRef(module, "OutOfMemoryError", td_py_OutOfMemoryError);
}

bool td_py_no_keywords(const char *function, PyObject *kw)
{
    if (!kw || !PyDict_GET_SIZE(kw))
        return true;
    PyErr_Format(PyExc_TypeError, "%s() takes no keyword arguments", function);
    return false;
}

PyObject *td_py_only(const char *function, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs + named == 0)
        return PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional argument: '%s'", function, name);
    if (nargs + named > 1)
        return PyErr_Format(PyExc_TypeError, "%s() takes 1 positional argument but %zd were given", function, nargs + named);
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name))
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, PyTuple_GET_ITEM(kwnames, 0));
    return args[0];
}
