/* Groups of processes and their work.  tede/distributed/ makes of these what programs see.
 *
 * Waiting gives the interpreter's lock up after the first test, and takes it every few milliseconds to let signals through. */
#include "binding.h"
#include <tede/group.h>

typedef struct { PyObject_HEAD td_group *group; PyObject *weakrefs; } GroupObject;
typedef struct { PyObject_HEAD td_work *work; PyObject *weakrefs; } WorkObject;
static PyTypeObject group_type, work_type;
enum { MOST_ON_STACK = 32, LONG_CALL = 1 << 16 };

/* ---- work */

static PyObject *work_object(td_work *work)
{
    if (!work)
        return td_py_raise();
    WorkObject *self = (WorkObject *)work_type.tp_alloc(&work_type, 0);
    if (self)
        self->work = work;
    else
        td_work_release(work);
    return (PyObject *)self;
}
static void work_dealloc(PyObject *o)
{
    if (((WorkObject *)o)->weakrefs)
        PyObject_ClearWeakRefs(o);
    td_work_release(((WorkObject *)o)->work);
    Py_TYPE(o)->tp_free(o);
}

/* Signals, while a wait has given the lock up. The error that a handler raises stays with the thread's state. */
static int let_signals_through(void *context)
{
    PyThreadState **state = context;
    PyEval_RestoreThread(*state);
    const int raised = PyErr_CheckSignals();
    *state = PyEval_SaveThread();
    return raised;
}
static int wait_for(td_work *work, double seconds)
{
    int done = td_work_test(work);
    if (done == 0) {
        PyThreadState *state = PyEval_SaveThread();
        done = td_work_wait(work, seconds, let_signals_through, &state) ? -1 : 1;
        PyEval_RestoreThread(state);
    }
    if (done < 0)
        return td_py_raise(), -1;
    return 0;
}

static PyObject *work_wait(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    const double seconds = nargs ? PyFloat_AsDouble(args[0]) : 0;
    if (nargs > 1 || (seconds == -1 && PyErr_Occurred()))
        return nargs > 1 ? PyErr_Format(PyExc_TypeError, "wait() takes at most one argument, the seconds") : NULL;
    return wait_for(((WorkObject *)self)->work, seconds) ? NULL : Py_NewRef(Py_None);
}
static PyObject *work_test(PyObject *self, PyObject *unused)
{
    (void)unused;
    const int done = td_work_test(((WorkObject *)self)->work);
    return done < 0 ? td_py_raise() : PyBool_FromLong(done);
}
static PyObject *work_source(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(td_work_source(((WorkObject *)self)->work));
}

/* A callback is called on whichever thread sees the end. */
static void call_back(void *context)
{
    if (!Py_IsInitialized())
        return;                 /* the program is over, and so are its objects */
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *function = context, *pending_type, *pending, *trace;
    PyErr_Fetch(&pending_type, &pending, &trace);
    PyObject *result = PyObject_CallNoArgs(function);
    if (!result)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    Py_DECREF(function);
    PyErr_Restore(pending_type, pending, trace);
    PyGILState_Release(state);
}
static PyObject *work_then(PyObject *self, PyObject *function)
{
    if (!PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "then() takes a function, not %s", Py_TYPE(function)->tp_name);
    if (td_work_then(((WorkObject *)self)->work, call_back, Py_NewRef(function))) {
        Py_DECREF(function);
        return td_py_raise();
    }
    Py_RETURN_NONE;
}

static PyMethodDef work_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))work_wait, METH_FASTCALL, "Wait for its end, at most so many seconds (0: up to its own deadline)."},
    {"test", work_test, METH_NOARGS, "Whether it is done; its error if it has failed."},
    {"source", work_source, METH_NOARGS, "Of a receive that is done, the rank that has sent."},
    {"then", work_then, METH_O, "Call a function once it is done or has failed."},
    {NULL},
};
static PyTypeObject work_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._Work", .tp_basicsize = sizeof(WorkObject), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A call of a group that goes on by itself.", .tp_dealloc = work_dealloc, .tp_methods = work_methods,
    .tp_weaklistoffset = offsetof(WorkObject, weakrefs),
};

/* ---- groups */

static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"engine", "name", "rank", "size", "ranks", "world_rank", "world_size", "address", "timeout", NULL};
    const char *engine, *name = NULL, *address = NULL;
    td_group_options options = {.size = sizeof options, .rank = -1};
    PyObject *ranks = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "s|ziiOiizd:_Group", names, &engine, &name, &options.rank, &options.n_ranks, &ranks, &options.world_rank,
                                     &options.world_size, &address, &options.timeout))
        return NULL;
    TD_PY_AUTO PyObject *members = ranks == Py_None ? NULL : PySequence_Tuple(ranks);
    int *numbers = NULL;
    if (ranks != Py_None && (!members || PyTuple_GET_SIZE(members) != options.n_ranks))
        return members ? PyErr_Format(PyExc_ValueError, "a group of %d has as many ranks", options.n_ranks) : NULL;
    if (members && !(numbers = PyMem_Malloc(sizeof *numbers * ((size_t)options.n_ranks + 1))))
        return PyErr_NoMemory();
    for (int i = 0; members && i < options.n_ranks; i++)
        numbers[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(members, i));
    td_group *group = NULL;
    if (!PyErr_Occurred()) {
        options.name = name, options.address = address, options.ranks = numbers;
        Py_BEGIN_ALLOW_THREADS
        group = td_group_new(engine, &options);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(numbers);
    if (!group)
        return td_py_raise();
    GroupObject *self = (GroupObject *)type->tp_alloc(type, 0);
    if (self)
        self->group = group;
    else
        td_group_release(group);
    return (PyObject *)self;
}
static void group_dealloc(PyObject *o)
{
    if (((GroupObject *)o)->weakrefs)
        PyObject_ClearWeakRefs(o);
    td_group_release(((GroupObject *)o)->group);
    Py_TYPE(o)->tp_free(o);
}

/* The tensors of a list or tuple, each retained; n, or -1 with an exception. */
static Py_ssize_t tensors_of(PyObject *list, td_tensor **to, Py_ssize_t room)
{
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < n && i < room; i++) {
        TD_PY_AUTO PyObject *o = td_py_item_at(list, i);
        const bool good = o && td_py_is_tensor(o);
        if (o && !good)
            PyErr_Format(PyExc_TypeError, "a tensor was expected, not %s", Py_TYPE(o)->tp_name);
        if (!good) {
            while (i--)
                td_tensor_release(to[i]);
            return -1;
        }
        to[i] = td_tensor_retain(td_py_x(o));
    }
    return n < room ? n : room;
}

/* kind, from, to, reduction, factor, root, tag, timeout, later. */
static td_work *start(td_group *group, PyObject *const *args, Py_ssize_t nargs)
{
    static const double defaults[] = {0, 1, 0, 0, 0, 0};
    double numbers[6];
    if (nargs < 3 || nargs > 9)
        return PyErr_Format(PyExc_TypeError, "a call takes a kind, lists of tensors that are read and written, and at most six numbers"), NULL;
    memcpy(numbers, defaults, sizeof numbers);
    const long kind = PyLong_AsLong(args[0]);
    for (Py_ssize_t i = 3; i < nargs; i++)
        numbers[i - 3] = PyFloat_AsDouble(args[i]);
    if (PyErr_Occurred())
        return NULL;
    for (int i = 1; i < 3; i++)
        if (!PyList_Check(args[i]) && !PyTuple_Check(args[i]))
            return PyErr_Format(PyExc_TypeError, "a list of tensors was expected, not %s", Py_TYPE(args[i])->tp_name), NULL;
    const Py_ssize_t room_from = PySequence_Fast_GET_SIZE(args[1]), room_to = PySequence_Fast_GET_SIZE(args[2]);
    td_tensor *space[MOST_ON_STACK], **tensors = space;
    if (room_from + room_to > MOST_ON_STACK && !(tensors = PyMem_Malloc(sizeof *tensors * (size_t)(room_from + room_to))))
        return PyErr_NoMemory(), NULL;
    td_work *work = NULL;
    const Py_ssize_t n_from = tensors_of(args[1], tensors, room_from), n_to = n_from < 0 ? -1 : tensors_of(args[2], tensors + n_from, room_to);
    if (n_to >= 0) {
        const td_group_call call = {.size = sizeof call, .kind = (td_collective)kind, .n_from = (int)n_from, .n_to = (int)n_to, .from = tensors,
                                    .to = tensors + n_from, .reduction = (td_reduction)numbers[0], .factor = numbers[1], .root = (int)numbers[2],
                                    .tag = (int)numbers[3], .timeout = numbers[4], .later = numbers[5] != 0};
        const bool is_long = n_from + n_to && td_tensor_numel(tensors[0]) >= LONG_CALL;
        TD_PY_WORK(is_long, work = td_group_start(group, &call));
    }
    for (Py_ssize_t i = 0; i < (n_from > 0 ? n_from : 0) + (n_to > 0 ? n_to : 0); i++)
        td_tensor_release(tensors[i]);
    if (tensors != space)
        PyMem_Free(tensors);
    if (!work && !PyErr_Occurred())
        td_py_raise();
    return work;
}
static PyObject *group_start(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    td_work *work = start(((GroupObject *)self)->group, args, nargs);
    return work ? work_object(work) : NULL;
}
static PyObject *group_run(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    td_work *work = start(((GroupObject *)self)->group, args, nargs);
    const int status = work ? wait_for(work, 0) : -1;
    td_work_release(work);
    return status ? NULL : Py_NewRef(Py_None);
}
static PyObject *group_abort(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_group_abort(((GroupObject *)self)->group);
    Py_RETURN_NONE;
}
static PyObject *get_rank(PyObject *self, void *closure) { return (void)closure, PyLong_FromLong(td_group_rank(((GroupObject *)self)->group)); }
static PyObject *get_size(PyObject *self, void *closure) { return (void)closure, PyLong_FromLong(td_group_size(((GroupObject *)self)->group)); }
static PyObject *get_name(PyObject *self, void *closure) { return (void)closure, PyUnicode_FromString(td_group_name(((GroupObject *)self)->group)); }
static PyObject *get_timeout(PyObject *self, void *closure) { return (void)closure, PyFloat_FromDouble(td_group_timeout(((GroupObject *)self)->group)); }
static int set_timeout(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    const double seconds = value ? PyFloat_AsDouble(value) : 0;
    if (PyErr_Occurred())
        return -1;
    td_group_set_timeout(((GroupObject *)self)->group, seconds);
    return 0;
}

static PyGetSetDef group_getset[] = {
    {"rank", get_rank, NULL, NULL, NULL},
    {"size", get_size, NULL, NULL, NULL},
    {"name", get_name, NULL, NULL, NULL},
    {"timeout", get_timeout, set_timeout, "Seconds that work may take.", NULL},
    {NULL},
};
static PyMethodDef group_methods[] = {
    {"start", (PyCFunction)(void (*)(void))group_start, METH_FASTCALL, "(kind, from, to, reduction, factor, root, tag, timeout, later): begin a call; its work."},
    {"run", (PyCFunction)(void (*)(void))group_run, METH_FASTCALL, "The same, waited for."},
    {"abort", group_abort, METH_NOARGS, "All of its work fails from now on."},
    {NULL},
};
static PyTypeObject group_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._Group", .tp_basicsize = sizeof(GroupObject), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "_Group(engine, name, rank, size, ranks, world_rank, world_size, address, timeout): processes that call together.", .tp_new = group_new,
    .tp_dealloc = group_dealloc, .tp_methods = group_methods, .tp_getset = group_getset, .tp_weaklistoffset = offsetof(GroupObject, weakrefs),
};

static PyObject *engine_there(PyObject *m, PyObject *o)
{
    (void)m;
    const char *name = PyUnicode_AsUTF8(o);
    return name ? PyBool_FromLong(td_group_engine_there(name)) : NULL;
}
static PyObject *end(PyObject *m, PyObject *o)
{
    (void)m;
    const int failed = PyObject_IsTrue(o);
    if (failed < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    td_group_end(failed);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"_group_engine_there", engine_there, METH_O, "Whether there is an engine of a name, which moves numbers between processes."},
    {"_group_end", end, METH_O, "End all engines, without waiting for the others if this process has failed: what a program does last."},
    {NULL},
};
int td_py_group_init(PyObject *module)
{
    if (PyType_Ready(&work_type) < 0 || PyType_Ready(&group_type) < 0 || PyModule_AddObjectRef(module, "_Group", (PyObject *)&group_type) < 0 ||
        PyModule_AddObjectRef(module, "_Work", (PyObject *)&work_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
