/* The Tensor type: how wrappers are made, come back, and go.
 *
 * A wrapper is small: the core's tensor, a dict and weak references, both of them NULL until somebody uses them.
 * Exact Tensors are kept in a free list, and one is tracked by the garbage collector only once it has a dict: without it
 * a wrapper refers to no Python object and can't be part of a cycle.
 *
 * Note [Resurrection]
 * When Python drops a wrapper whose tensor the core still holds, the wrapper must survive, with its attributes.
 * tp_dealloc then gives it one reference again, which from now on the tensor owns (see tede/foreign.h), and gives up
 * the wrapper's reference to the tensor.  td_py_wrap turns this around.  If the tensor goes away while it owns the
 * wrapper, drop_wrapper is called, perhaps without the GIL; then the drop is queued.
 *
 * Python classes made from Tensor would get a tp_dealloc that can't do that (subtype_dealloc clears slots
 * before it asks the base), so the metaclass gives them ours. */
#include "calls_csrc_tensor.h"
#include "binding.h"
#include <tede/autograd_nodes.h>
#include <tede/print.h>

PyTypeObject *td_py_Parameter = &td_py_Tensor;

enum { FREE_LIST = 256 };
static TensorObject *free_list[FREE_LIST];
static int           free_count;
static td_tensor    *gone;        /* what wrappers look at whose tensor went away first */

static PyObject *known(td_tensor *x, PyObject *self)
{
    if (td_tensor_owns_wrapper(x)) {
        td_tensor_own_wrapper(x, false);     /* its reference to the wrapper goes to our caller, ours to the wrapper */
        return self;
    }
    Py_INCREF(self);
    td_tensor_release(x);
    return self;
}

PyObject *td_py_wrap(td_tensor *x)
{
    if (TD_UNLIKELY(!x))
        return td_py_raise();
    TensorObject *self = td_tensor_wrapper(x);
    if (self)
        return known(x, (PyObject *)self);
    if (TD_UNLIKELY(x == TD_NONE))           /* a __torch_dispatch__ gave None */
        Py_RETURN_NONE;
    if (TD_LIKELY(free_count)) {
        self = free_list[--free_count];
        td_py_revive((PyObject *)self, &td_py_Tensor);
    } else {
        self = PyObject_GC_New(TensorObject, &td_py_Tensor);
        if (!self) {
            td_tensor_release(x);
            return NULL;
        }
    }
    self->x = x;
    self->dict = self->weakrefs = NULL;
    self->queries = 0;
    td_tensor_set_wrapper(x, self);
    return (PyObject *)self;
}

PyObject *td_py_wrap_as(td_tensor *x, PyTypeObject *type)
{
    if (!x)
        return td_py_raise();
    PyObject *self = td_tensor_wrapper(x);
    if (self && !PyType_IsSubtype(Py_TYPE(self), type)) {       /* a __torch_dispatch__ gave an object of its class */
        PyErr_Format(PyExc_RuntimeError, "Creating a new Tensor subclass %s but the raw Tensor object is already associated to a python "
                     "object of type %s which is not a subclass of the requested type", type->tp_name, Py_TYPE(self)->tp_name);
        td_tensor_release(x);
        return NULL;
    }
    if (self)
        return known(x, self);
    if (type == &td_py_Tensor)
        return td_py_wrap(x);
    self = type->tp_alloc(type, 0);
    if (!self) {
        td_tensor_release(x);
        return NULL;
    }
    ((TensorObject *)self)->x = x;
    td_tensor_set_wrapper(x, self);
    td_py_mark(x, type);
    return self;
}

PyObject *td_py_wrap_borrowed(td_tensor *x)
{
    if (!x || x == TD_NONE)
        Py_RETURN_NONE;
    return td_py_wrap(td_tensor_retain(x));
}

/* ---- the end of a wrapper */

/* Slots of Python subclasses (__slots__), which subtype_dealloc would clear. */
void td_py_clear_slots(PyObject *self, PyTypeObject *base)
{
    for (PyTypeObject *type = Py_TYPE(self); type && type != base; type = type->tp_base)
        for (PyMemberDef *m = type->tp_members; m && m->name; m++)
            if (m->type == T_OBJECT_EX && !(m->flags & READONLY)) {
                PyObject **slot = (PyObject **)((char *)self + m->offset);
                Py_CLEAR(*slot);
            }
}

/* Whether the core goes on holding the tensor when Python drops the wrapper, which then survives. */
static bool survives(PyObject *o)
{
    td_tensor *x = td_py_x(o);
    return x && td_tensor_wrapper(x) == o && !td_tensor_owns_wrapper(x) && td_tensor_use_count(x) > 1;
}
static void tensor_dealloc(PyObject *o)
{
    TensorObject *self = (TensorObject *)o;
    PyTypeObject *type = Py_TYPE(o);
    td_tensor *x = self->x;
    if (TD_LIKELY(type == &td_py_Tensor && !self->dict && !self->weakrefs && !(self->queries & TD_PY_STAYS) && !PyObject_GC_IsTracked(o))) {
        td_tensor_unwrap(x, o);              /* nobody can tell whether it is this object that comes back */
        if (free_count < FREE_LIST)
            free_list[free_count++] = self;
        else
            PyObject_GC_Del(o);
        return;
    }
    if (survives(o)) {
        Py_SET_REFCNT(o, 1);                 /* see Note [Resurrection] */
        td_tensor_own_wrapper(x, true);
        td_tensor_release(x);                /* perhaps the last one by now: then this ends in drop_wrapper */
        return;
    }
    if (type->tp_finalize && PyObject_CallFinalizerFromDealloc(o) < 0)
        return;
    PyObject_GC_UnTrack(o);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(o);
    if (type != &td_py_Tensor)
        td_py_clear_slots(o, &td_py_Tensor);
    if (x && td_tensor_wrapper(x) == o)
        td_tensor_set_wrapper(x, NULL);
    self->x = NULL;
    Py_CLEAR(self->dict);
    td_tensor_release(x);
    if (type == &td_py_Tensor && free_count < FREE_LIST) {
        free_list[free_count++] = self;
        return;
    }
    type->tp_free(o);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
        Py_DECREF(type);
}

static void drop_wrapper(void *wrapper)
{
    ((TensorObject *)wrapper)->x = td_tensor_retain(gone);
    td_py_drop(wrapper);
}

/* A hook that refers to its tensor is a cycle, which the collector sees while nobody else holds the tensor. */
void td_py_visit_hook(td_hook *hook, void *context, void *arg)
{
    (void)hook;
    visitproc visit;
    memcpy(&visit, arg, sizeof visit);
    visit(context, ((void **)arg)[1]);
}
void td_py_remove_hook(td_hook *hook, void *context, void *arg)
{
    (void)context, (void)arg;
    td_hook_remove(hook);
}
/* What a wrapper that survives refers to is held by the core, too: the collector doesn't take it for a cycle, and clears nothing. */
static int tensor_traverse(PyObject *o, visitproc visit, void *arg)
{
    if (survives(o))
        return 0;
    Py_VISIT(((TensorObject *)o)->dict);
    if (td_py_x(o)) {
        td_tensor_visit_hooks(td_py_x(o), td_py_drop, td_py_visit_hook, (void *[]){(void *)(uintptr_t)visit, arg});
        td_node *node = td_tensor_sole_node(td_py_x(o));
        Py_VISIT(node ? td_py_context_of(node) : NULL);
    }
    return 0;
}
static int tensor_clear(PyObject *o)
{
    if (survives(o))
        return 0;
    Py_CLEAR(((TensorObject *)o)->dict);
    if (td_py_x(o))
        td_tensor_visit_hooks(td_py_x(o), td_py_drop, td_py_remove_hook, NULL);
    return 0;
}

static int tensor_setattro(PyObject *o, PyObject *name, PyObject *value)
{
    int failed = PyObject_GenericSetAttr(o, name, value);
    if (((TensorObject *)o)->dict && !PyObject_GC_IsTracked(o))
        PyObject_GC_Track(o);
    return failed;
}
static PyObject *get_dict(PyObject *o, void *unused)
{
    (void)unused;
    TensorObject *self = (TensorObject *)o;
    if (!self->dict && !(self->dict = PyDict_New()))
        return NULL;
    if (!PyObject_GC_IsTracked(o))
        PyObject_GC_Track(o);
    return Py_NewRef(self->dict);
}
static int set_dict(PyObject *o, PyObject *dict, void *unused)
{
    (void)unused;
    if (!dict || !PyDict_Check(dict))
        return PyErr_Format(PyExc_TypeError, "__dict__ must be set to a dictionary"), -1;
    Py_XSETREF(((TensorObject *)o)->dict, Py_NewRef(dict));
    if (!PyObject_GC_IsTracked(o))
        PyObject_GC_Track(o);
    return 0;
}

/* ---- making them by name */

/* Tensor(), Tensor(2, 3), Tensor(list), Tensor(tensor): PyTorch's old constructor, always of the default dtype. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    if (kw && PyDict_GetItemString(kw, "device") && PyTuple_GET_SIZE(args) == 1 && td_py_is_tensor(PyTuple_GET_ITEM(args, 0)))
        return PyErr_Format(PyExc_RuntimeError, "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not "
                            "supported.  Use torch.tensor(...) or torch.as_tensor(...) instead.");
    if (kw && PyDict_Size(kw) && type == &td_py_Tensor)
        for (Py_ssize_t at = 0;;) {
            PyObject *name, *value;
            if (!PyDict_Next(kw, &at, &name, &value))
                break;
            td_device device;
            if (PyUnicode_CompareWithASCIIString(name, "device") != 0)
                return PyErr_Format(PyExc_TypeError, "new() got an unexpected keyword argument '%U'", name);
            if (td_py_as_device(value, &device) < 0)
                return NULL;
            char type[32];
            if (device.type > TD_CPU)
                return PyErr_Format(PyExc_RuntimeError, "legacy constructor expects device type: cpu but device type: %s was passed",
                                    td_device_str((td_device){device.type, -1}, type));
        }
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *first = n ? PyTuple_GET_ITEM(args, 0) : NULL;
    td_tensor *x = NULL;
    td_dtype dtype = td_default_dtype();
    td_device cpu = {TD_CPU, -1};
    if (n == 0) {
        x = td_tensor_new(1, (int64_t[]){0}, dtype, cpu);
    } else if (n == 1 && td_py_is_tensor(first)) {
        x = td_alias(td_py_x(first));
    } else if ((n == 1 && PySequence_Check(first) && !PyObject_TypeCheck(first, &td_py_Size)) ||
               (n == 1 && td_py_is_numpy_array(first))) {
        x = td_py_tensor_from_data(first, dtype, cpu);
        if (!x)
            return NULL;
        if (type == &td_py_Tensor && td_py_seen())
            return (x = td_py_lifted(x)) ? td_py_wrap(x) : td_py_raise();
    } else {
        PyObject *sizes = n == 1 && PyTuple_Check(first) ? first : args;
        int64_t shape[TD_MAX_DIMS];
        n = PyTuple_GET_SIZE(sizes);
        if (n > TD_MAX_DIMS)
            return PyErr_Format(PyExc_RuntimeError, "new(): too many dimensions (%zd)", n);
        for (Py_ssize_t i = 0; i < n; i++) {
            PyObject *item = PyTuple_GET_ITEM(sizes, i);
            int found = td_py_as_int(item, &shape[i], false);
            if (found < 0)
                return NULL;
            if (!found)
                return PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)", Py_TYPE(item)->tp_name);
        }
        if (type == &td_py_Tensor && td_py_seen())      /* modes note it as what makes such tensors otherwise */
            return (x = td_empty_memory_format(n, shape, dtype, cpu, TD_MEMORY_FORMAT_NONE)) ? td_py_wrap(x) : td_py_raise();
        x = td_tensor_new(n, shape, dtype, cpu);
    }
    return td_py_wrap_as(x, type);
}

/* An object of a class over a new tensor (taken over; NULL: an error is set), with the queries that it answers itself. */
PyObject *td_py_wrap_subclass(td_tensor *x, PyObject *cls, bool requires_grad, int queries)
{
    if (x && requires_grad && td_set_requires_grad(x, true) < 0) {
        td_tensor_release(x);
        x = NULL;
    }
    PyObject *made = td_py_wrap_as(x, (PyTypeObject *)cls);
    if (made)
        ((TensorObject *)made)->queries = (uint8_t)queries;
    return made;
}

static PyObject *make_subclass(PyObject *unused, PyObject *args, PyObject *kw)
{
    (void)unused;
    static char *names[] = {"cls", "data", "require_grad", "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", NULL};
    PyObject *cls, *data, *policy = NULL;
    int requires_grad = 0, of_device = 0, of_layout = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OO|pOpp:_make_subclass", names, &cls, &data, &requires_grad, &policy, &of_device, &of_layout))
        return NULL;
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, &td_py_Tensor))
        return td_py_not_subclass();
    int queries = td_py_queries_of(policy, of_device, of_layout);
    if (queries < 0)
        return NULL;
    if (!td_py_is_tensor(data))
        return PyErr_Format(PyExc_TypeError, "_make_subclass(): argument 'data' (position 2) must be Tensor, not %s",
                            Py_TYPE(data)->tp_name);
    td_tensor *x = td_tensor_is_python(td_py_x(data)) ? td_detach(td_py_x(data)) : td_tensor_alias(td_py_x(data), true);
    return td_py_wrap_subclass(x, cls, requires_grad, queries);
}
static PyMethodDef make_subclass_def = {
    "_make_subclass", (PyCFunction)(void (*)(void))make_subclass, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
    "A tensor of class `cls` over the memory of `data`."};

/* ---- the metaclass */

static int meta_init(PyObject *cls, PyObject *args, PyObject *kw)
{
    if (PyType_Type.tp_init(cls, args, kw) < 0)
        return -1;
    ((PyTypeObject *)cls)->tp_dealloc = tensor_dealloc;
    return td_py_leave_functions_alone((PyTypeObject *)cls);
}
static PyObject *meta_module(PyObject *cls, void *unused)
{
    (void)unused;
    if (cls == (PyObject *)&td_py_Tensor)
        return PyUnicode_FromString(td_py_package);
    PyObject *name = PyDict_GetItemString(((PyTypeObject *)cls)->tp_dict, "__module__");
    return name ? Py_NewRef(name) : PyUnicode_FromString("tede");
}
static int meta_set_module(PyObject *cls, PyObject *value, void *unused)
{
    (void)unused;
    int failed = PyDict_SetItemString(((PyTypeObject *)cls)->tp_dict, "__module__", value);
    PyType_Modified((PyTypeObject *)cls);
    return failed;
}
static PyObject *meta_repr(PyObject *cls)
{
    return cls == (PyObject *)&td_py_Tensor ? PyUnicode_FromFormat("<class '%s.Tensor'>", td_py_package) : PyType_Type.tp_repr(cls);
}
static PyGetSetDef meta_getset[] = {{"__module__", meta_module, meta_set_module, NULL, NULL}, {NULL}};
PyTypeObject td_py_TensorMeta = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._TensorMeta",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_TYPE_SUBCLASS,
    .tp_doc = "The class of Tensor and of classes made from it.",
    .tp_init = meta_init,
    .tp_repr = meta_repr,
    .tp_getset = meta_getset,
};

static PySequenceMethods as_sequence;
static PyMappingMethods as_mapping;
static Py_ssize_t tensor_length(PyObject *o)
{
    if (TD_UNLIKELY(td_py_taken_over(o))) {
        PyObject *answer = td_py_override_method("__len__", &o, 1);
        Py_ssize_t n = answer ? PyNumber_AsSsize_t(answer, PyExc_OverflowError) : -1;
        Py_XDECREF(answer);
        if (n < 0 && !PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
        return n;
    }
    int n = td_py_dim(o);
    if (n == 0)
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    if (n > 0 && td_py_shows_others(o)) {
        PyObject *shape = td_py_shape(o), *first = shape ? PySequence_GetItem(shape, 0) : NULL;
        Py_ssize_t length = first ? PyNumber_AsSsize_t(first, PyExc_OverflowError) : -1;
        Py_XDECREF(first);
        Py_XDECREF(shape);
        return length;
    }
    return n > 0 ? td_tensor_sizes(td_py_x(o))[0] : -1;
}
static Py_hash_t tensor_hash(PyObject *o)
{
    Py_hash_t hash = (Py_hash_t)(uintptr_t)o;      /* hash(x) == id(x), as PyTorch's */
    return hash == -1 ? -2 : hash;
}

static PyObject *text_of(char *text)
{
    if (!text)
        return td_py_raise();
    PyObject *string = PyUnicode_FromString(text);
    td_string_free(text);
    return string;
}
static PyObject *repr_with(PyObject *self, const char *contents)
{
    PyTypeObject *type = Py_TYPE(self);
    const char *dot = strrchr(type->tp_name, '.'), *name = dot ? dot + 1 : type->tp_name;
    bool plain = type == &td_py_Tensor || type == td_py_Parameter;
    return text_of(td_tensor_str_as(td_py_x(self), plain ? "tensor" : name, contents));
}
static PyObject *tensor_repr(PyObject *self) { return repr_with(self, NULL); }
/* _repr_with(x, contents): repr(x) with other contents between the brackets. */
static PyObject *tensor_repr_with(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x;
    const char *contents;
    return PyArg_ParseTuple(args, "O!s", &td_py_Tensor, &x, &contents) ? repr_with(x, contents) : NULL;
}

/* What stands behind the elements: what made the tensor, or that it is a leaf with a gradient. */
static void history_text(td_tensor *x, char *text, size_t size)
{
    td_node *node = NULL;
    int output;
    *text = 0;
    if (!td_requires_grad(x))
        return;
    if (td_is_leaf(x)) {
        snprintf(text, size, "requires_grad=True");
        return;
    }
    if (td_history(x, &node, &output) < 0)
        td_error_clear();
    snprintf(text, size, "grad_fn=<%s>", node ? td_node_name(node) : "Invalid");
    td_node_drop(node);
}

/* set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode), all of them optional. */
static PyObject *set_printoptions(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    static char *names[] = {"precision", "threshold", "edgeitems", "linewidth", "profile", "sci_mode", NULL};
    PyObject *value[6] = {NULL};
    td_print_options o;
    td_print_get_options(&o);
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OOOOOO:set_printoptions", names, &value[0], &value[1], &value[2], &value[3],
                                     &value[4], &value[5]))
        return NULL;
    for (int i = 0; i < 6; i++)
        if (value[i] == Py_None)
            value[i] = NULL;
    if (value[4]) {
        const char *profile = PyUnicode_AsUTF8(value[4]);
        if (!profile)
            return NULL;
        if (td_print_profile(&o, profile) < 0)
            return td_py_raise();
    }
    if (value[0])
        o.precision = (int)PyLong_AsLong(value[0]);
    if (value[1])
        o.threshold = PyFloat_AsDouble(value[1]);
    if (value[2])
        o.edgeitems = (int)PyLong_AsLong(value[2]);
    if (value[3])
        o.linewidth = (int)PyLong_AsLong(value[3]);
    o.sci_mode = value[5] ? PyObject_IsTrue(value[5]) : -1;
    if (PyErr_Occurred())
        return NULL;
    if (td_print_set_options(&o) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}

static PyObject *get_printoptions(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_print_options o;
    td_print_get_options(&o);
    return Py_BuildValue("{s:i,s:d,s:i,s:i,s:O}", "precision", o.precision, "threshold", o.threshold, "edgeitems", o.edgeitems,
                         "linewidth", o.linewidth, "sci_mode", o.sci_mode < 0 ? Py_None : o.sci_mode ? Py_True : Py_False);
}

PyTypeObject td_py_Tensor = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Tensor",      /* as error messages have it; the metaclass adds the module */
    .tp_basicsize = sizeof(TensorObject),
    .tp_doc = "A multi-dimensional array of elements of one dtype, with gradients.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = tensor_new,
    .tp_dealloc = tensor_dealloc,
    .tp_traverse = tensor_traverse,
    .tp_clear = tensor_clear,
    .tp_free = PyObject_GC_Del,
    .tp_dictoffset = offsetof(TensorObject, dict),
    .tp_weaklistoffset = offsetof(TensorObject, weakrefs),
    .tp_setattro = tensor_setattro,
    .tp_repr = tensor_repr,
    .tp_hash = tensor_hash,
    .tp_richcompare = td_py_richcompare,
    .tp_iter = td_py_iter,
    .tp_as_number = &td_py_number,
    .tp_as_sequence = &as_sequence,
    .tp_as_mapping = &as_mapping,
    .tp_as_buffer = &td_py_buffer,
    .tp_getset = td_py_getset,
    .tp_methods = td_py_methods,
};

static PyObject *register_parameter(PyObject *m, PyObject *type)
{
    (void)m;
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &td_py_Tensor))
        return PyErr_Format(PyExc_TypeError, "a subclass of Tensor is needed");
    Py_INCREF(type);
    td_py_Parameter = (PyTypeObject *)type;
    Py_RETURN_NONE;
}
uint64_t td_py_swaps;
/* _swap_tensors(a, b): each object becomes that of the other's tensor; classes and attributes are the caller's. */
static PyObject *swap_tensors(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != 2 || !td_py_is_tensor(args[0]) || !td_py_is_tensor(args[1]))
        return PyErr_Format(PyExc_TypeError, "_swap_tensors() takes two tensors");
    TensorObject *a = (TensorObject *)args[0], *b = (TensorObject *)args[1];
    td_tensor *x = a->x;
    a->x = b->x, b->x = x;
    td_py_swaps++;
    uint8_t queries = a->queries;
    a->queries = b->queries, b->queries = queries;
    td_tensor_set_wrapper(a->x, a);
    td_tensor_set_wrapper(b->x, b);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_repr_with", tensor_repr_with, METH_VARARGS, NULL},
    {"_swap_tensors", (PyCFunction)(void (*)(void))swap_tensors, METH_FASTCALL, NULL},
    {"set_printoptions", (PyCFunction)(void (*)(void))set_printoptions, METH_VARARGS | METH_KEYWORDS,
     "set_printoptions($module, precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None)\n--\n\n"},
    {"_get_printoptions", get_printoptions, METH_NOARGS, NULL},
    {"_register_parameter", register_parameter, METH_O, "Name the class that counts as an exact Tensor too."},
    {NULL},
};

int td_py_tensor_init(PyObject *module)
{
    as_sequence.sq_length = as_mapping.mp_length = tensor_length;
    as_sequence.sq_item = td_py_getitem_int;
    as_sequence.sq_contains = td_py_contains;
    as_mapping.mp_subscript = td_py_getitem;
    as_mapping.mp_ass_subscript = td_py_setitem;
    td_py_TensorMeta.tp_base = &PyType_Type;
    if (PyType_Ready(&td_py_TensorMeta) < 0 || PyType_Ready(&td_py_Iter) < 0)
        return -1;
    Py_SET_TYPE(&td_py_Tensor, &td_py_TensorMeta);
    if (PyType_Ready(&td_py_Tensor) < 0)
        return -1;
    td_py_Tensor.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;    /* programs add methods to Tensor */
    static PyGetSetDef dict_def = {"__dict__", get_dict, set_dict, NULL, NULL};
    PyObject *descriptor = PyDescr_NewGetSet(&td_py_Tensor, &dict_def);
    if (!descriptor || PyDict_SetItemString(td_py_Tensor.tp_dict, "__dict__", descriptor) < 0)
        return -1;
    Py_DECREF(descriptor);
    PyObject *function = PyCFunction_New(&make_subclass_def, NULL);
    PyObject *fixed = function ? PyStaticMethod_New(function) : NULL;
    Py_XDECREF(function);
    if (!fixed || PyObject_SetAttrString((PyObject *)&td_py_Tensor, "_make_subclass", fixed) < 0)
        return -1;
    Py_DECREF(fixed);
    gone = td_tensor_new(1, (int64_t[]){0}, TD_F32, (td_device){TD_CPU, -1});
    if (!gone)
        return td_py_raise(), -1;
    td_foreign_hooks(drop_wrapper);
    td_print_set_suffix(history_text);
    if (PyModule_AddObjectRef(module, "_TensorMeta", (PyObject *)&td_py_TensorMeta) < 0 ||
        PyModule_AddObjectRef(module, "Tensor", (PyObject *)&td_py_Tensor) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
