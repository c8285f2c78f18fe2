/* Regions (<tede/region.h>), under tede/_compile.py. */
#include "binding.h"
#include <tede/region.h>
#include <tede/replay.h>
#include <time.h>

/* ---- threads: see Note [Other threads] in src/region/region.c */

static void *take(void) { return (void *)(intptr_t)PyGILState_Ensure(); }
static void give_back(void *taken) { PyGILState_Release((PyGILState_STATE)(intptr_t)taken); }
static void *let_go(void) { return PyEval_SaveThread(); }
static void take_again(void *state) { PyEval_RestoreThread(state); }

int td_py_heed(bool is_long)
{
    if (TD_UNLIKELY(td_py_heeds & TD_PY_REGIONS)) {
        td_region_settle_others();
        is_long &= !td_region_on();
    }
    return is_long ? TD_PY_OWN | TD_PY_RELEASE : td_py_heeds & TD_PY_CALLS_BACK ? TD_PY_OWN : 0;
}

static int begun;               /* regions, nested ones among them */

static int begin_region(const td_region_options *options)
{
    if (td_region_begin_with(options))
        return -1;
    begun++;
    td_py_heeds |= TD_PY_REGIONS;
    return 0;
}

static int end_region(void)
{
    begun -= td_region_on();
    const int status = td_region_end();
    if (!begun)
        td_py_heeds &= ~TD_PY_REGIONS;
    return status;
}

static PyObject *begin(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return begin_region(&(td_region_options){.size = sizeof(td_region_options)}) ? td_py_raise() : Py_NewRef(Py_None);
}

static PyObject *end(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return end_region() ? td_py_raise() : Py_NewRef(Py_None);
}

/* The pending error has the other one, which it gets, as its context. */
static void set_context(PyObject *kind, PyObject *value, PyObject *trace)
{
    PyObject *later, *of, *at;
    PyErr_Fetch(&later, &of, &at);
    PyErr_NormalizeException(&later, &of, &at);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    PyException_SetContext(of, value);          /* takes value */
    Py_XDECREF(kind);
    Py_XDECREF(trace);
    PyErr_Restore(later, of, at);
}

/* ---- compiled functions
 *
 * Note [Measured calls]
 * To record and plan takes microseconds, which calls on small tensors don't win back. So calls on arguments of one kind (types, and of tensors the
 * dtype, rank and size to half a power of two) are measured both ways once they are many, in a region and as they are, and the quicker way stays.
 * The order is Thue's and Morse's (r e e r e r r e ...): shapes that come in turn meet both. A call counts when nothing of its region is
 * compiled or measured any more. Functions of which the program says how they are computed (a tier, fullgraph) are always called in a region. */
enum { KINDS = 32, WARM = 32, RUNS = 16, IN_REGION = 0, AS_IT_IS = 1 };

typedef struct kind_of_call {
    uint64_t key;               /* 0: none */
    int      calls, runs;       /* the first ones; and then those that were measured */
    double   best[2];           /* seconds per unit of size */
} kind_of_call;

typedef struct CompiledObject {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject      *function, *compiler, *weakrefs, *dict;
    int            tier;
    bool           measures;
    td_replay     *replay;      /* of what devices are asked for; NULL */
    kind_of_call   kinds[KINDS];
} CompiledObject;

static uint64_t direct_calls;   /* of all compiled functions: those that measuring let be made as they are */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 0 with a tensor elsewhere than on the CPU: the time of a call says nothing of work that comes later. *size: of the arguments, so that calls of one kind can be compared: their elements, and as many as what a call costs whatever its size. */
static uint64_t key_of(PyObject *const *args, Py_ssize_t n, double *size)
{
    *size = 8192;
    uint64_t key = td_grad_enabled() ? 1 : 2;
    for (Py_ssize_t i = 0; i < n; i++) {
        uint64_t word = (uintptr_t)Py_TYPE(args[i]);
        if (td_py_is_tensor(args[i])) {
            td_tensor *x = td_py_x(args[i]);
            const uint64_t numel = 2 * (uint64_t)td_tensor_numel(x) + 2;
            if (td_tensor_device(x).type != TD_CPU)
                return 0;
            *size += (double)td_tensor_numel(x);
            const int octave = 63 - __builtin_clzll(numel);
            word += (uint64_t)td_tensor_dtype(x) + ((uint64_t)td_tensor_ndim(x) << 8) + ((uint64_t)td_requires_grad(x) << 16) +
                    ((2 * (uint64_t)octave + (numel >> (octave - 1) & 1)) << 24);
        }
        key = (key ^ word) * 0x9E3779B97F4A7C15u;
        key ^= key >> 29;
    }
    return key ? key : 1;
}

/* The record of such calls: where there are too many kinds, a new one takes the place of another. */
static kind_of_call *find_kind(CompiledObject *self, uint64_t key)
{
    kind_of_call *k = &self->kinds[key % KINDS];
    for (int i = 0; i < KINDS; i++) {
        kind_of_call *at = &self->kinds[(key + (uint64_t)i) % KINDS];
        if (at->key == key)
            return at;
        if (!at->key) {
            k = at;
            break;
        }
    }
    *k = (kind_of_call){.key = key};
    return k;
}

static int choose(const kind_of_call *k)
{
    return k->calls < WARM ? IN_REGION : k->runs < RUNS ? __builtin_popcount((unsigned)k->runs) & 1 : k->best[AS_IT_IS] < k->best[IN_REGION];
}

static void note(kind_of_call *k, int way, double time)
{
    k->best[way] = k->runs < 2 || time < k->best[way] ? time : k->best[way];
    k->runs++;
}

/* The function's result, or its error, which becomes the context of an error of `end`. */
static PyObject *end_call(CompiledObject *self, PyObject *result, int (*end)(CompiledObject *self))
{
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    if (!end(self)) {
        PyErr_Restore(kind, value, trace);
        return result;
    }
    Py_CLEAR(result);
    td_py_raise();
    if (kind)
        set_context(kind, value, trace);
    return NULL;
}

static int end_of_call(CompiledObject *Py_UNUSED(self)) { return end_region(); }
static int end_replay(CompiledObject *self) { return td_replay_end(self->replay); }

static PyObject *call_in_region(CompiledObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    td_region_options options = {.size = sizeof options, .tier = self->tier};
    if (self->compiler != Py_None && !(options.compiler = PyUnicode_AsUTF8(self->compiler)))
        return NULL;
    if (begin_region(&options))
        return td_py_raise();
    return end_call(self, PyObject_Vectorcall(self->function, args, flags, names), end_of_call);
}

static PyObject *call(PyObject *o, PyObject *const *args, size_t flags, PyObject *names)
{
    CompiledObject *self = (CompiledObject *)o;
    if (!self->measures || td_region_on())
        return call_in_region(self, args, flags, names);
    double size;
    const uint64_t key = key_of(args, PyVectorcall_NARGS(flags) + (names ? PyTuple_GET_SIZE(names) : 0), &size);
    if (!key)
        return call_in_region(self, args, flags, names);
    kind_of_call *before = find_kind(self, key);
    const int way = choose(before);
    const bool measured = before->calls == WARM && before->runs < RUNS;
    before->calls += before->calls < WARM;
    const double begin = measured ? seconds() : 0;
    PyObject *result = way == IN_REGION ? call_in_region(self, args, flags, names) : PyObject_Vectorcall(self->function, args, flags, names);
    direct_calls += way == AS_IT_IS;
    /* The record may be another one by now, or have been noted in by a call within this one. */
    kind_of_call *now = measured ? find_kind(self, key) : NULL;
    if (now && result && now->calls == WARM && now->runs < RUNS && choose(now) == way && (way == AS_IT_IS || td_region_settled()))
        note(now, way, (seconds() - begin) / size);
    return result;
}

/* What devices are asked for meanwhile is launched as graphs where it comes again. */
static PyObject *call_followed(PyObject *o, PyObject *const *args, size_t flags, PyObject *names)
{
    CompiledObject *self = (CompiledObject *)o;
    const int begun = td_replay_begin(self->replay);
    if (begun < 0)
        return td_py_raise();
    PyObject *result = call(o, args, flags, names);
    return begun ? result : end_call(self, result, end_replay);
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *function, *compiler;
    int tier, always, graphs = 0;
    if (!td_py_no_keywords("Compiled", kw) || !PyArg_ParseTuple(args, "OiOp|p:Compiled", &function, &tier, &compiler, &always, &graphs))
        return NULL;
    CompiledObject *self = (CompiledObject *)type->tp_alloc(type, 0);
    if (self) {
        self->call = call;
        self->function = Py_NewRef(function), self->compiler = Py_NewRef(compiler);
        self->tier = tier, self->measures = !tier && !always;
    }
    if (self && graphs) {
        self->call = call_followed;
        if (!(self->replay = td_replay_new())) {
            Py_DECREF(self);
            return td_py_raise();
        }
    }
    return (PyObject *)self;
}

static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(((CompiledObject *)o)->function);
    Py_VISIT(((CompiledObject *)o)->dict);
    return 0;
}

static int clear(PyObject *o)
{
    Py_CLEAR(((CompiledObject *)o)->dict);      /* the function stays: who is called at the end of a cycle needs it */
    return 0;
}

static void dealloc(PyObject *o)
{
    CompiledObject *self = (CompiledObject *)o;
    PyObject_GC_UnTrack(o);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(o);
    Py_XDECREF(self->function);
    Py_XDECREF(self->compiler);
    Py_XDECREF(self->dict);
    td_replay_release(self->replay);
    Py_TYPE(o)->tp_free(o);
}

static PyObject *bind(PyObject *o, PyObject *instance, PyObject *Py_UNUSED(type))
{
    return instance && instance != Py_None ? PyMethod_New(o, instance) : Py_NewRef(o);
}

static PyObject *repr(PyObject *o) { return PyUnicode_FromFormat("<compiled %R>", ((CompiledObject *)o)->function); }

/* As functions, by name: copies are the object itself. */
static PyObject *reduce(PyObject *o, PyObject *Py_UNUSED(none)) { return PyObject_GetAttrString(o, "__qualname__"); }

static PyMethodDef compiled_methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL},
};
static PyGetSetDef compiled_properties[] = {
    {.name = "__dict__", .get = PyObject_GenericGetDict, .set = PyObject_GenericSetDict},
    {NULL},
};
static PyTypeObject compiled_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.Compiled",
    .tp_basicsize = sizeof(CompiledObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(CompiledObject, call),
    .tp_weaklistoffset = offsetof(CompiledObject, weakrefs),
    .tp_dictoffset = offsetof(CompiledObject, dict),
    .tp_call = PyVectorcall_Call,
    .tp_new = new,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_repr = repr,
    .tp_descr_get = bind,
    .tp_methods = compiled_methods,
    .tp_getset = compiled_properties,
};

/* ---- what regions did */

static PyObject *counts(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    const td_region_stats s = td_region_counts();
    const td_replay_stats r = td_replay_counts();
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "regions", s.regions, "recorded_calls", s.recorded_calls, "dropped_calls", s.dropped_calls, "fused_calls",
                         s.fused_calls, "early_flushes", s.early_flushes, "plans", s.plans, "compiled_plans", s.compiled_plans, "discarded_plans", s.discarded_plans,
                         "cache_hits", s.cache_hits, "compiled_groups", s.compiled_groups, "direct_calls", (unsigned long long)direct_calls, "graphs", r.graphs,
                         "graph_launches", r.launches, "graph_calls", r.calls);
}

static PyObject *plans(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0);
    td_region_plan p;
    for (int i = 0; list && td_region_plan_at(i, &p); i++) {
        PyObject *plan = Py_BuildValue("(sssKK)", p.state, p.source, p.why, p.runs, p.compiled_runs);
        if (!plan || PyList_Append(list, plan))
            Py_CLEAR(list);
        Py_XDECREF(plan);
    }
    return list;
}

static PyObject *set_slab(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_ssize_t bytes, least;
    if (!PyArg_ParseTuple(args, "nn", &bytes, &least))
        return NULL;
    td_region_set_slab((size_t)bytes, (size_t)least);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_region_begin", begin, METH_NOARGS, "Record this thread's calls, and do them late."},
    {"_region_end", end, METH_NOARGS, "Do what is late."},
    {"_region_counts", counts, METH_NOARGS, "What regions have recorded since the process began."},
    {"_region_plans", plans, METH_NOARGS, "[(state, source, why, runs, compiled runs)] of each plan."},
    {"_region_set_slab", set_slab, METH_VARARGS, "(bytes, least): what a part of joined calls takes, and what is worth joining; 0, 0: as at first."},
    {NULL},
};

int td_py_region_init(PyObject *module)
{
    td_region_set_lock(&(td_region_lock){take, give_back, let_go, take_again});
    return PyModule_AddType(module, &compiled_type) ? -1 : PyModule_AddFunctions(module, methods);
}
