/* Stream and Event: queues of a device's work and positions in them, as torch.Stream and torch.Event.
 *
 * The CPU has one stream, on which everything is done when a call returns, so that programs needn't ask where they run: its objects hold NULL. */
#include "binding.h"
#include <tede/device.h>

typedef struct { PyObject_HEAD td_stream *stream; PyObject *entered, *weakrefs; } StreamObject;
typedef struct { PyObject_HEAD td_event *event; td_device device; PyObject *weakrefs; } EventObject;
static PyTypeObject stream_type, event_type;
static const td_device cpu = {TD_CPU, -1};

/* A call that may wait: `status` is set without the GIL. */
#define WAITING(status, call)          \
    do {                               \
        Py_BEGIN_ALLOW_THREADS         \
        status = (call);               \
        Py_END_ALLOW_THREADS           \
    } while (0)

static td_device device_of(const StreamObject *s) { return s->stream ? td_stream_device(s->stream) : cpu; }

/* The device that an argument names: a device, a name, an index of the accelerator; the accelerator if there is no argument, else the CPU. */
static int which_device(PyObject *o, td_device *device)
{
    *device = td_py_accelerator();
    if (!o || o == Py_None)
        return 0;
    int found = td_py_as_device(o, device);
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "a device was expected, not %s", Py_TYPE(o)->tp_name);
    return found > 0 ? 0 : -1;
}

/* Takes over `stream`, NULL with an error pending unless it is the CPU's. */
static PyObject *stream_object(PyTypeObject *type, td_stream *stream, bool of_cpu)
{
    if (!stream && !of_cpu)
        return td_py_raise();
    StreamObject *self = (StreamObject *)type->tp_alloc(type, 0);
    if (self)
        self->stream = stream;
    else
        td_stream_release(stream);
    return (PyObject *)self;
}

/* Streams that are known by numbers (stream_id, device_index, device_type) are found among those that are there: a stream is never freed. */
static td_stream *stream_with_id(td_device device, int64_t id)
{
    td_stream *s = td_stream_first(device);
    while (s && td_stream_id(s) != id)
        s = td_stream_next(s);
    return s ? td_stream_retain(s) : td_error_code() != TD_OK ? NULL : td_fail(TD_E_RUNTIME, "there is no stream of this number: %lld", (long long)id);
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"device", "priority", "stream_id", "device_index", "device_type", NULL};
    PyObject *o = NULL;
    int priority = 0, index = -1, kind = -1;
    long long id = -1;
    td_device device;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O$iLii:Stream", names, &o, &priority, &id, &index, &kind))
        return NULL;
    if (kind >= 0)
        device = (td_device){(int8_t)kind, (int8_t)index};
    else if (which_device(o, &device) < 0)
        return NULL;
    if (device.type == TD_CPU)
        return stream_object(type, NULL, true);
    return stream_object(type, kind >= 0 ? stream_with_id(device, id) : td_stream_new(device, priority), false);
}
static void stream_dealloc(PyObject *o)
{
    StreamObject *self = (StreamObject *)o;
    if (self->weakrefs)
        PyObject_ClearWeakRefs(o);
    Py_CLEAR(self->entered);
    td_stream_release(self->stream);
    Py_TYPE(o)->tp_free(o);
}

static int need_stream(PyObject *o)
{
    if (PyObject_TypeCheck(o, &stream_type))
        return 0;
    PyErr_Format(PyExc_TypeError, "a Stream was expected, not %s", Py_TYPE(o)->tp_name);
    return -1;
}
static int need_event(PyObject *o)
{
    if (PyObject_TypeCheck(o, &event_type))
        return 0;
    PyErr_Format(PyExc_TypeError, "an Event was expected, not %s", Py_TYPE(o)->tp_name);
    return -1;
}

static PyObject *stream_query(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_stream *s = ((StreamObject *)self)->stream;
    int done = s ? td_stream_query(s) : 1;
    return done < 0 ? td_py_raise() : PyBool_FromLong(done);
}
static PyObject *stream_synchronize(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_stream *s = ((StreamObject *)self)->stream;
    int status = 0;
    if (s)
        WAITING(status, td_stream_synchronize(s));
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *stream_wait_stream(PyObject *self, PyObject *o)
{
    if (need_stream(o) < 0)
        return NULL;
    td_stream *s = ((StreamObject *)self)->stream, *other = ((StreamObject *)o)->stream;
    int status = 0;
    if (other)
        WAITING(status, s ? td_stream_wait(s, other) : td_stream_synchronize(other));
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *event_record(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
static PyObject *stream_wait_event(PyObject *self, PyObject *o)
{
    if (need_event(o) < 0)
        return NULL;
    td_stream *s = ((StreamObject *)self)->stream;
    td_event *event = ((EventObject *)o)->event;
    int status = 0;
    if (event)
        WAITING(status, s ? td_event_wait(event, s) : td_event_synchronize(event));
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *stream_record_event(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0) > 1 ||
        (kwnames && PyTuple_GET_SIZE(kwnames) && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "event") != 0))
        return PyErr_Format(PyExc_TypeError, "record_event() takes one argument, event");
    PyObject *event = nargs || kwnames ? args[0] : Py_None;
    TD_PY_AUTO PyObject *device = td_py_device(device_of((StreamObject *)self));
    TD_PY_AUTO PyObject *made = event != Py_None ? Py_NewRef(event) : device ? PyObject_CallOneArg((PyObject *)&event_type, device) : NULL;
    if (!made || need_event(made) < 0)
        return NULL;
    TD_PY_AUTO PyObject *nothing = event_record(made, &self, 1, NULL);
    return nothing ? Py_NewRef(made) : NULL;
}

/* Within `with stream:` this thread's calls go to it, and its device is the current one. What was current is kept in a list, since blocks nest. */
static PyObject *stream_enter(PyObject *o, PyObject *unused)
{
    (void)unused;
    StreamObject *self = (StreamObject *)o;
    if (!self->stream)
        return Py_NewRef(o);
    td_device device = td_stream_device(self->stream), before = {device.type, (int8_t)td_device_current(device.type)};
    if (!self->entered && !(self->entered = PyList_New(0)))
        return NULL;
    TD_PY_AUTO PyObject *outer = stream_object(&stream_type, td_stream_retain(td_stream_current(device)), false);
    TD_PY_AUTO PyObject *record = outer ? Py_BuildValue("(Oi)", outer, (int)before.index) : NULL;
    if (!record || PyList_Append(self->entered, record) < 0)
        return NULL;
    if (td_device_set_current(device) || td_stream_set_current(self->stream))
        return td_py_raise();
    return Py_NewRef(o);
}
static PyObject *stream_exit(PyObject *o, PyObject *unused)
{
    (void)unused;
    StreamObject *self = (StreamObject *)o;
    Py_ssize_t depth = self->entered ? PyList_GET_SIZE(self->entered) : 0;
    if (!self->stream)
        Py_RETURN_FALSE;
    if (!depth)
        return PyErr_Format(PyExc_RuntimeError, "Stream.__exit__: the stream wasn't entered");
    TD_PY_AUTO PyObject *record = Py_NewRef(PyList_GET_ITEM(self->entered, depth - 1));
    if (PyList_SetSlice(self->entered, depth - 1, depth, NULL) < 0)
        return NULL;
    StreamObject *outer = (StreamObject *)PyTuple_GET_ITEM(record, 0);
    td_device device = td_stream_device(self->stream);
    device.index = (int8_t)PyLong_AsLong(PyTuple_GET_ITEM(record, 1));
    if (td_stream_set_current(outer->stream) || td_device_set_current(device))
        return td_py_raise();
    Py_RETURN_FALSE;
}

static PyObject *stream_device(PyObject *self, void *closure) { return (void)closure, td_py_device(device_of((StreamObject *)self)); }
static PyObject *stream_device_index(PyObject *self, void *closure) { return (void)closure, PyLong_FromLong(device_of((StreamObject *)self).index); }
static PyObject *stream_device_type(PyObject *self, void *closure) { return (void)closure, PyLong_FromLong(device_of((StreamObject *)self).type); }
static PyObject *stream_id(PyObject *self, void *closure)
{
    (void)closure;
    td_stream *s = ((StreamObject *)self)->stream;
    return PyLong_FromLongLong(s ? td_stream_id(s) : 0);
}
static PyObject *stream_priority(PyObject *self, void *closure)
{
    (void)closure;
    td_stream *s = ((StreamObject *)self)->stream;
    return PyLong_FromLong(s ? td_stream_priority(s) : 0);
}
static PyObject *stream_native_handle(PyObject *self, void *closure)
{
    (void)closure;
    td_stream *s = ((StreamObject *)self)->stream;
    return PyLong_FromVoidPtr(s ? td_stream_handle(s) : NULL);
}
static PyObject *stream_repr(PyObject *self)
{
    char name[32];
    td_stream *s = ((StreamObject *)self)->stream;
    td_device device = device_of((StreamObject *)self);
    return PyUnicode_FromFormat("torch.Stream device_type=%s, device_index=%d, stream_id=%lld", td_device_str((td_device){device.type, -1}, name),
                                (int)device.index, (long long)(s ? td_stream_id(s) : 0));
}
static PyObject *stream_compare(PyObject *a, PyObject *b, int how)
{
    if ((how != Py_EQ && how != Py_NE) || !PyObject_TypeCheck(b, &stream_type))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((StreamObject *)a)->stream == ((StreamObject *)b)->stream) == (how == Py_EQ));
}
static Py_hash_t stream_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)((StreamObject *)self)->stream >> 4); }

static PyGetSetDef stream_getset[] = {
    {"device", stream_device, NULL, NULL, NULL},
    {"device_index", stream_device_index, NULL, NULL, NULL},
    {"device_type", stream_device_type, NULL, NULL, NULL},
    {"stream_id", stream_id, NULL, "0 for the stream that a device has from the start.", NULL},
    {"priority", stream_priority, NULL, NULL, NULL},
    {"native_handle", stream_native_handle, NULL, "The device's own handle, a number.", NULL},
    {NULL},
};
static PyMethodDef stream_methods[] = {
    {"query", stream_query, METH_NOARGS, "Whether all work that was queued on it is done."},
    {"synchronize", stream_synchronize, METH_NOARGS, "Wait for all work that was queued on it."},
    {"wait_stream", stream_wait_stream, METH_O, "Work that is queued on it later waits for what is queued on the other stream now."},
    {"wait_event", stream_wait_event, METH_O, "Work that is queued on it later waits for the event."},
    {"record_event", (PyCFunction)(void (*)(void))stream_record_event, METH_FASTCALL | METH_KEYWORDS, "An event, recorded on it."},
    {"__enter__", stream_enter, METH_NOARGS, NULL},
    {"__exit__", stream_exit, METH_VARARGS, NULL},
    {NULL},
};
static PyTypeObject stream_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.Stream", .tp_basicsize = sizeof(StreamObject), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Stream(device=None, *, priority=0): a queue of a device's work, in order. Within `with stream:` calls go to it.",
    .tp_new = stream_new, .tp_dealloc = stream_dealloc, .tp_methods = stream_methods, .tp_getset = stream_getset, .tp_repr = stream_repr,
    .tp_richcompare = stream_compare, .tp_hash = stream_hash, .tp_weaklistoffset = offsetof(StreamObject, weakrefs),
};

/* ---- events */

static PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"device", "enable_timing", "blocking", "interprocess", NULL};
    PyObject *o = NULL;
    int timed = 0, blocking = 0, shared = 0;
    td_device device;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O$ppp:Event", names, &o, &timed, &blocking, &shared) || which_device(o, &device) < 0)
        return NULL;
    if (td_device_resolve(&device))
        return td_py_raise();
    td_event *event = device.type == TD_CPU ? NULL : td_event_new(device, timed);
    if (!event && device.type != TD_CPU)
        return td_py_raise();
    EventObject *self = (EventObject *)type->tp_alloc(type, 0);
    if (self)
        self->event = event, self->device = device;
    else
        td_event_release(event);
    return (PyObject *)self;
}
static void event_dealloc(PyObject *o)
{
    if (((EventObject *)o)->weakrefs)
        PyObject_ClearWeakRefs(o);
    td_event_release(((EventObject *)o)->event);
    Py_TYPE(o)->tp_free(o);
}

/* The stream of an optional argument; the current one of the event's kind of device else.  NULL with *failed for an error, NULL for the CPU's. */
static td_stream *stream_of(const EventObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool *failed)
{
    *failed = true;
    if (nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0) > 1 ||
        (kwnames && PyTuple_GET_SIZE(kwnames) && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "stream") != 0))
        return PyErr_Format(PyExc_TypeError, "one argument was expected, stream"), NULL;
    PyObject *o = nargs || (kwnames && PyTuple_GET_SIZE(kwnames)) ? args[0] : Py_None;
    if (o != Py_None && need_stream(o) < 0)
        return NULL;
    td_stream *s = o != Py_None ? ((StreamObject *)o)->stream : self->event ? td_stream_current((td_device){self->device.type, -1}) : NULL;
    *failed = false;
    return s;
}
static PyObject *event_record(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    bool failed;
    EventObject *e = (EventObject *)self;
    td_stream *s = stream_of(e, args, nargs, kwnames, &failed);
    if (failed)
        return NULL;
    if (!s != !e->event)
        return PyErr_Format(PyExc_RuntimeError, "Event device type does not match recording stream's device type.");
    if (s && td_event_record(e->event, s))
        return td_py_raise();
    if (s)
        e->device = td_stream_device(s);
    Py_RETURN_NONE;
}
static PyObject *event_wait(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    bool failed;
    td_event *event = ((EventObject *)self)->event;
    td_stream *s = stream_of((EventObject *)self, args, nargs, kwnames, &failed);
    if (failed)
        return NULL;
    int status = 0;
    if (event)
        WAITING(status, s ? td_event_wait(event, s) : td_event_synchronize(event));
    if (status)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *event_query(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_event *event = ((EventObject *)self)->event;
    int done = event ? td_event_query(event) : 1;
    return done < 0 ? td_py_raise() : PyBool_FromLong(done);
}
static PyObject *event_synchronize(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_event *event = ((EventObject *)self)->event;
    int status = 0;
    if (event)
        WAITING(status, td_event_synchronize(event));
    if (status < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *event_elapsed_time(PyObject *self, PyObject *end)
{
    double milliseconds = 0;
    if (need_event(end) < 0)
        return NULL;
    td_event *from = ((EventObject *)self)->event, *to = ((EventObject *)end)->event;
    if (!from || !to)
        return PyErr_Format(PyExc_RuntimeError, "Backend doesn't support event timing.");
    return td_event_time(from, to, &milliseconds) ? td_py_raise() : PyFloat_FromDouble(milliseconds);
}
static PyObject *event_device(PyObject *self, void *closure) { return (void)closure, td_py_device(((EventObject *)self)->device); }
static PyObject *event_id(PyObject *self, void *closure) { return (void)closure, PyLong_FromVoidPtr(((EventObject *)self)->event); }
static PyObject *event_repr(PyObject *self)
{
    char name[32];
    EventObject *e = (EventObject *)self;
    return PyUnicode_FromFormat("torch.Event device_type=%s, device_index=%d, event_id=%llu", td_device_str((td_device){e->device.type, -1}, name),
                                (int)e->device.index, (unsigned long long)(uintptr_t)e->event);
}

static PyGetSetDef event_getset[] = {{"device", event_device, NULL, NULL, NULL}, {"event_id", event_id, NULL, NULL, NULL}, {NULL}};
static PyMethodDef event_methods[] = {
    {"record", (PyCFunction)(void (*)(void))event_record, METH_FASTCALL | METH_KEYWORDS, "record(stream=None): it happens when the stream gets here."},
    {"wait", (PyCFunction)(void (*)(void))event_wait, METH_FASTCALL | METH_KEYWORDS, "wait(stream=None): the stream's later work waits for it."},
    {"query", event_query, METH_NOARGS, "Whether it has happened; one that was never recorded has."},
    {"synchronize", event_synchronize, METH_NOARGS, "Wait for it."},
    {"elapsed_time", event_elapsed_time, METH_O, "elapsed_time(end): milliseconds from this event to the other one."},
    {NULL},
};
static PyTypeObject event_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.Event", .tp_basicsize = sizeof(EventObject), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Event(device=None, *, enable_timing=False): a position in a stream, which can be waited for.", .tp_new = event_new,
    .tp_dealloc = event_dealloc, .tp_methods = event_methods, .tp_getset = event_getset, .tp_repr = event_repr,
    .tp_weaklistoffset = offsetof(EventObject, weakrefs),
};

/* ---- current streams */

/* Which class: that of a device's module, or Stream. */
static PyObject *get_stream(PyObject *args, td_stream *(*get)(td_device))
{
    PyObject *o = NULL, *type = (PyObject *)&stream_type;
    td_device device;
    if (!PyArg_ParseTuple(args, "|OO!", &o, &PyType_Type, &type) || which_device(o, &device) < 0)
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, &stream_type))
        return PyErr_Format(PyExc_TypeError, "a class of streams was expected");
    const bool of_cpu = device.type == TD_CPU;
    return stream_object((PyTypeObject *)type, of_cpu ? NULL : td_stream_retain(get(device)), of_cpu);
}
static PyObject *current_stream(PyObject *m, PyObject *args) { return (void)m, get_stream(args, td_stream_current); }
static PyObject *first_stream(PyObject *m, PyObject *args) { return (void)m, get_stream(args, td_stream_first); }
static PyObject *set_stream(PyObject *m, PyObject *o)
{
    (void)m;
    if (need_stream(o) < 0)
        return NULL;
    td_stream *s = ((StreamObject *)o)->stream;
    if (s && (td_device_set_current(td_stream_device(s)) || td_stream_set_current(s)))
        return td_py_raise();
    Py_RETURN_NONE;
}

/* record_stream: the method of tensors. */
PyObject *td_py_record_stream(PyObject *self, PyObject *o)
{
    if (td_py_taken_over(self))
        return td_py_override_method_call("record_stream", self, &o, 1, NULL);
    if (need_stream(o) < 0)
        return NULL;
    td_stream *s = ((StreamObject *)o)->stream;
    if (s && td_stream_uses(s, td_py_x(self)))
        return td_py_raise();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_stream_current", current_stream, METH_VARARGS, "_stream_current(device=None, class=Stream): where this thread's calls go."},
    {"_stream_first", first_stream, METH_VARARGS, "The stream that the device has from the start."},
    {"_stream_set", set_stream, METH_O, NULL},
    {NULL},
};

int td_py_stream_init(PyObject *module)
{
    if (PyType_Ready(&stream_type) < 0 || PyType_Ready(&event_type) < 0 || PyModule_AddObjectRef(module, "Stream", (PyObject *)&stream_type) < 0 ||
        PyModule_AddObjectRef(module, "Event", (PyObject *)&event_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
