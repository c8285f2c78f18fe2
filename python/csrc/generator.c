/* Generators of random numbers, and the functions that seed the default one. */
#include "binding.h"
#include <tede/counter.h>
#include <tede/device.h>

static PyObject *default_object;

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"device", NULL};
    PyObject *device = NULL;
    td_device where = {TD_CPU, -1};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:Generator", names, &device))
        return NULL;
    if (device && td_py_as_device(device, &where) < 0)
        return NULL;
    if (td_device_resolve(&where) < 0)
        return td_py_raise();
    GeneratorObject *self = (GeneratorObject *)type->tp_alloc(type, 0);
    if (self && !(self->g = td_device_generator_new(where))) {
        Py_DECREF(self);
        return td_py_raise();
    }
    if (self)
        self->device = where;
    return (PyObject *)self;
}
static void generator_dealloc(PyObject *self)
{
    if (((GeneratorObject *)self)->weakrefs)
        PyObject_ClearWeakRefs(self);
    td_generator_release(((GeneratorObject *)self)->g);
    Py_TYPE(self)->tp_free(self);
}

/* A seed: any int of 64 bits, negative ones wrapping around. */
static int seed_of(PyObject *o, uint64_t *seed)
{
    PyObject *n = PyNumber_Long(o);
    if (!n)
        return -1;
    int overflow;
    int64_t value = PyLong_AsLongLongAndOverflow(n, &overflow);
    *seed = overflow > 0 ? PyLong_AsUnsignedLongLong(n) : (uint64_t)value;
    Py_DECREF(n);
    if (overflow < 0 || PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    return 0;
}
static PyObject *manual_seed(PyObject *self, PyObject *o)
{
    uint64_t seed;
    if (seed_of(o, &seed) < 0)
        return NULL;
    td_generator_seed(((GeneratorObject *)self)->g, seed);
    return Py_NewRef(self);
}
static PyObject *initial_seed(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(td_generator_initial_seed(((GeneratorObject *)self)->g));
}
static PyObject *seed(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(td_generator_seed_random(((GeneratorObject *)self)->g));
}
static PyObject *get_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_generator *g = ((GeneratorObject *)self)->g;
    td_tensor *x = td_tensor_new(1, (int64_t[]){(int64_t)td_generator_state_size(g)}, TD_U8, (td_device){TD_CPU, -1});
    if (x)
        td_generator_get_state(g, td_tensor_data(x));
    return td_py_wrap(x);
}
static PyObject *set_state(PyObject *self, PyObject *o)
{
    if (!td_py_is_tensor(o))
        return PyErr_Format(PyExc_TypeError, "expected a torch.ByteTensor, but got %s", Py_TYPE(o)->tp_name);
    td_tensor *x = td_py_x(o);
    if (td_tensor_dtype(x) != TD_U8 || !td_tensor_is_contiguous(x) || td_tensor_device(x).type != TD_CPU)
        return PyErr_Format(PyExc_TypeError, "RNG state must be a torch.ByteTensor");
    void *state;
    if (td_py_address(x, &state))
        return NULL;
    if (td_generator_set_state(((GeneratorObject *)self)->g, state, (size_t)td_tensor_numel(x)) < 0)
        return td_py_raise();
    return Py_NewRef(self);
}
PyObject *td_py_generator_on(td_generator *g, td_device device)
{
    GeneratorObject *self = g ? (GeneratorObject *)td_py_Generator.tp_alloc(&td_py_Generator, 0) : td_py_raise();
    if (self)
        self->g = g, self->device = device;
    else
        td_generator_release(g);
    return (PyObject *)self;
}
static PyObject *generator_of(td_generator *g) { return td_py_generator_on(g, (td_device){TD_CPU, -1}); }
PyObject *td_py_generator_of(td_generator *g)
{
    if (!g)
        Py_RETURN_NONE;
    return generator_of(td_generator_retain(g));
}
static PyObject *clone_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    return td_py_generator_on(td_generator_clone(((GeneratorObject *)self)->g), ((GeneratorObject *)self)->device);
}
/* Generators that count have an offset into their stream; states that a captured graph shares nobody has, and programs find that out by
 * these errors. */
static PyObject *get_offset(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_generator *g = ((GeneratorObject *)self)->g;
    const uint64_t offset = td_generator_offset(g);
    return td_generator_counts(g) ? PyLong_FromUnsignedLongLong(offset) : td_py_raise();
}
static PyObject *set_offset(PyObject *self, PyObject *o)
{
    uint64_t offset;
    if (seed_of(o, &offset) < 0)
        return NULL;
    return td_generator_set_offset(((GeneratorObject *)self)->g, offset) ? td_py_raise() : Py_NewRef(self);
}
static PyObject *no_graph_get_state(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyErr_Format(PyExc_NotImplementedError, "graphsafe_get_state is not supported in this Generator");
}
static PyObject *no_graph_set_state(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyErr_Format(PyExc_NotImplementedError, "graphsafe_set_state is not supported in this Generator");
}
/* As PyTorch's: (the class, (device,), (seed, offset, state)); the seed is in the state, too, and a CPU's stream has no offset. */
static PyObject *generator_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(O(N)(NON))", Py_TYPE(self), td_py_device(((GeneratorObject *)self)->device), initial_seed(self, NULL),
                         Py_None, get_state(self, NULL));
}
static PyObject *generator_setstate(PyObject *self, PyObject *o)
{
    if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != 3) {
        PyErr_SetString(PyExc_TypeError, "Generator.__setstate__() takes (seed, offset, state)");
        return NULL;
    }
    PyObject *done = set_state(self, PyTuple_GET_ITEM(o, 2));
    Py_XDECREF(done);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}
static PyObject *generator_device(PyObject *self, void *unused)
{
    (void)unused;
    return td_py_device(((GeneratorObject *)self)->device);
}
static PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "Begin the stream of this seed; returns the generator."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed that the stream began with."},
    {"seed", seed, METH_NOARGS, "Seed it by chance; returns the seed."},
    {"get_state", get_state, METH_NOARGS, "The state, as a tensor of bytes."},
    {"set_state", set_state, METH_O, "Go on from a state."},
    {"clone_state", clone_state, METH_NOARGS, "Another generator in the same state."},
    {"get_offset", get_offset, METH_NOARGS, "The offset into the stream of a device's generator; the CPU's has none."},
    {"set_offset", set_offset, METH_O, "Go on from an offset of a device's generator, a multiple of 4."},
    {"graphsafe_get_state", no_graph_get_state, METH_NOARGS, "The state for a captured graph: an error on the processor."},
    {"graphsafe_set_state", no_graph_set_state, METH_O, "Share the state of a captured graph: an error on the processor."},
    {"__reduce__", generator_reduce, METH_NOARGS, NULL},
    {"__setstate__", generator_setstate, METH_O, NULL},
    {NULL},
};
static PyGetSetDef getset[] = {{"device", generator_device, NULL, NULL, NULL}, {NULL}};
PyTypeObject td_py_Generator = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.Generator",
    .tp_basicsize = sizeof(GeneratorObject),
    .tp_doc = "Generator(device='cpu'): a stream of random numbers, the same as PyTorch's for the same seed.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = generator_new,
    .tp_dealloc = generator_dealloc,
    .tp_weaklistoffset = offsetof(GeneratorObject, weakrefs),
    .tp_methods = methods,
    .tp_getset = getset,
};

static PyObject *module_manual_seed(PyObject *m, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)m;
    PyObject *o = td_py_only("manual_seed", "seed", args, nargs, kwnames);
    if (!o)
        return NULL;
    uint64_t seed;
    if (seed_of(o, &seed) < 0)
        return NULL;
    for (int type = TD_META + 1; type < TD_DEVICE_TYPES; type++)
        for (int i = td_device_count(type) - 1; i >= 0; i--)
            td_generator_seed(td_device_generator((td_device){(int8_t)type, (int8_t)i}), seed);
    return manual_seed(default_object, o);
}
static PyObject *module_seed(PyObject *m, PyObject *unused)
{
    (void)m;
    return seed(default_object, unused);
}
static PyObject *module_initial_seed(PyObject *m, PyObject *unused)
{
    (void)m;
    return initial_seed(default_object, unused);
}
static PyObject *get_rng_state(PyObject *m, PyObject *unused)
{
    (void)m;
    return get_state(default_object, unused);
}
static PyObject *set_rng_state(PyObject *m, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)m;
    PyObject *o = td_py_only("set_rng_state", "new_state", args, nargs, kwnames);
    if (!o)
        return NULL;
    PyObject *done = set_state(default_object, o);
    Py_XDECREF(done);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"manual_seed", (PyCFunction)(void (*)(void))module_manual_seed, METH_FASTCALL | METH_KEYWORDS,
     "manual_seed($module, seed)\n--\n\nSeed the generator that is used when none is given."},
    {"seed", module_seed, METH_NOARGS, "seed($module)\n--\n\nSeed the default generator by chance; returns the seed."},
    {"initial_seed", module_initial_seed, METH_NOARGS, "initial_seed($module)\n--\n\nThe default generator's seed."},
    {"get_rng_state", get_rng_state, METH_NOARGS, "get_rng_state($module)\n--\n\nThe default generator's state, as a tensor of bytes."},
    {"set_rng_state", (PyCFunction)(void (*)(void))set_rng_state, METH_FASTCALL | METH_KEYWORDS,
     "set_rng_state($module, new_state)\n--\n\nThe default generator goes on from this state."},
    {NULL},
};

int td_py_generator_init(PyObject *module)
{
    if (PyType_Ready(&td_py_Generator) < 0)
        return -1;
    default_object = generator_of(td_generator_retain(td_default_generator()));
    if (!default_object || PyModule_AddObjectRef(module, "default_generator", default_object) < 0 ||
        PyModule_AddObjectRef(module, "Generator", (PyObject *)&td_py_Generator) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
