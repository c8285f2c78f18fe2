/* tede.<name> and Tensor.<name>: one object per name, with the overloads of that name.
 *
 * All are made at import, from the operator table; what a call needs to know is worked out at the first call. */
#include "binding.h"
#include <tede/layout.h>

/* Overload a goes before b: the one with fewer arguments; tensors before numbers, one int or a dtype before a list. */
static bool goes_before(const Overload *a, const Overload *b)
{
    if (a->n_positional != b->n_positional)
        return a->n_positional < b->n_positional;
    int n = a->n_positional < b->n_positional ? a->n_positional : b->n_positional;
    bool earlier = false;
    for (int i = 0; i < n; i++) {
        int ka = a->info->arguments[a->positional[i]].kind, kb = b->info->arguments[b->positional[i]].kind;
        if (ka == kb)
            continue;
        if ((ka == TD_VALUE_TENSOR && kb == TD_VALUE_SCALAR) || ((ka == TD_VALUE_INT || ka == TD_VALUE_DTYPE) && kb == TD_VALUE_INTS))
            earlier = true;
        else
            return false;
    }
    return earlier;
}

/* What td_py_overload_init made, also if it failed half way. */
static void overload_clear(Overload *o)
{
    for (int k = 0; k < o->info->n_arguments; k++) {
        if (o->names)
            Py_XDECREF(o->names[k]);
        if (o->aliases) {
            Py_XDECREF(o->aliases[2 * k]);
            Py_XDECREF(o->aliases[2 * k + 1]);
        }
    }
    PyMem_Free(o->names);
    PyMem_Free(o->aliases);
    PyMem_Free(o->positional);
}
static void overloads_free(Overload *list, int count)
{
    for (int i = 0; i < count; i++)
        overload_clear(&list[i]);
    PyMem_Free(list);
}

static int prepare(OperatorObject *op)
{
    Overload *list = PyMem_Calloc((size_t)op->n_ops, sizeof *list);
    if (!list)
        return PyErr_NoMemory(), -1;
    int count = 0;
    for (int i = 0; i < op->n_ops; i++) {
        const td_op_info *info = td_op_describe(op->ops[i]);
        if (info->flags & TD_OP_TAKES_NUMBERS && !op->exact_names && strncmp(info->overload, "Scalar", 6) == 0 && op->n_ops > 1)
            continue;                   /* the overload for tensors takes numbers */
        Overload o;
        int made = td_py_overload_init(&o, op->ops[i], op->method, op->numbers);
        if (made <= 0)
            overload_clear(&o);
        if (made < 0) {
            overloads_free(list, count);
            return -1;
        }
        if (!made)
            continue;
        if (op->exact_names)
            o.hidden = false;
        o.words = op->exact_names;
        int at = count;
        while (at > 0 && ((goes_before(&o, &list[at - 1]) && !o.hidden) || (list[at - 1].hidden && !o.hidden)))
            at--;
        memmove(list + at + 1, list + at, (size_t)(count - at) * sizeof *list);
        list[at] = o;
        count++;
    }
    op->overloads = list;
    op->count = count;
    op->ready = true;
    return 0;
}

static bool is_long(const OperatorObject *op, const Overload *o, const Scratch *s)
{
    if (s->elements > (op->heavy ? TD_PY_LONG_HEAVY : TD_PY_LONG))
        return true;
    if (!(o->info->flags & TD_OP_FACTORY) || !o->info->n_arguments)
        return false;
    const td_value *v = &s->values[0];
    double n = 1;
    for (int i = 0; v->kind == TD_VALUE_INTS && i < v->count; i++)
        n *= (double)v->ints[i];
    return n > TD_PY_LONG;
}

/* Whether a factory's model, if it has one, is strided. */
static bool follows_strided(const td_op_info *info, const td_value *values)
{
    return !info->n_arguments || values[0].kind != TD_VALUE_TENSOR || td_tensor_layout(values[0].tensor) == TD_STRIDED;
}

int td_py_heeds;
static void keep(td_tensor *x) { td_tensor_retain(x); }
/* Retain the tensors of the arguments, or release them. */
static void hold(const td_op_info *info, const td_value *values, void (*change)(td_tensor *))
{
    for (int i = 0; i < info->n_arguments; i++) {
        if (values[i].kind == TD_VALUE_TENSOR)
            change(values[i].tensor);
        for (int k = 0; values[i].kind == TD_VALUE_TENSORS && k < values[i].count; k++)
            change(values[i].tensors[k]);
    }
}

static PyObject *invoke(OperatorObject *op, const Overload *o, Scratch *s)
{
    td_value results[8];
    int failed;
    if (TD_UNLIKELY(s->layout >= 0) && s->out && s->out != Py_None && td_py_is_tensor(s->out) &&
        s->layout != td_tensor_layout(td_py_x(s->out))) {
        PyErr_Format(PyExc_RuntimeError, "layout %S does not match layout of out parameter (%S)", td_py_layout(s->layout),
                     td_py_layout(td_tensor_layout(td_py_x(s->out))));
        td_py_scratch_drop(s);
        return NULL;
    }
    if (TD_UNLIKELY(s->layout >= 0) && (s->layout != TD_STRIDED || !follows_strided(o->info, s->values))) {
        td_tensor *made = td_py_of_layout(o->op, s->values, s->layout);
        bool wants = s->requires_grad;
        td_py_scratch_drop(s);
        return !made || (wants && td_py_require_grad(made) < 0) ? (td_tensor_release(made), NULL) : td_py_wrap(made);
    }
    const int way = td_py_way(is_long(op, o, s));
    if (TD_UNLIKELY(way))
        hold(o->info, s->values, keep);
    TD_PY_WORK_BY(way, failed = td_op_call(o->op, s->values, results));
    if (TD_UNLIKELY(way))
        hold(o->info, s->values, td_tensor_release);
    bool requires_grad = s->requires_grad, pinned = s->pinned;
    PyObject *out = s->out;
    if (s->temporaries || s->blocks || s->held)
        td_py_scratch_drop(s);
    if (TD_UNLIKELY(failed))
        return td_py_raise();
    if (TD_UNLIKELY(requires_grad | pinned) && results[0].kind == TD_VALUE_TENSOR &&
        ((pinned && td_py_pin_new((td_tensor **)&results[0].tensor) < 0) || (requires_grad && td_py_require_grad(results[0].tensor) < 0))) {
        td_values_release(results, o->info->n_results);
        return NULL;
    }
    if (TD_LIKELY(o->info->n_results == 1 && results[0].kind == TD_VALUE_TENSOR && !out))
        return td_py_wrap(results[0].tensor);
    return td_py_results(o->info, results, out);
}

static bool asks_out(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "out") == 0)
            return args[nargs + k] != Py_None;
    return false;
}

/* Whether a call by schema gives an output by its own name, as in sort.values(x, values=, indices=). */
static bool names_output(const OperatorObject *op, PyObject *kwnames)
{
    for (int i = 0; i < op->count; i++) {
        const Overload *o = &op->overloads[i];
        for (Py_ssize_t k = 0; o->n_out && k < PyTuple_GET_SIZE(kwnames); k++)
            for (int n = 0; n < o->n_out; n++)
                if (PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, k), o->names[o->first_out + n]) == 0)
                    return true;
    }
    return false;
}

/* In-place operators on lists return their list. */
static bool writes_list(const td_op_info *info)
{
    return info->n_arguments && info->arguments[0].kind == TD_VALUE_TENSORS && info->arguments[0].is_mutable;
}
static PyObject *first_argument(const Overload *o, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    for (Py_ssize_t k = 0; !nargs && k < PyTuple_GET_SIZE(kwnames); k++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, k), o->names[0]) == 0)
            return args[k];
    return args[0];
}

/* Most calls of short operators give each argument, tensors and ints as such: then there is nothing to look for. */
static bool take_plain(const Overload *o, PyObject *const *args, Scratch *s)
{
    for (int i = 0; i < o->info->n_arguments; i++) {
        td_value *v = &s->values[i];
        int overflow = 0;
        if (o->info->arguments[i].kind == TD_VALUE_TENSOR && td_py_is_exact(args[i])) {
            v->kind = TD_VALUE_TENSOR;
            v->tensor = td_py_x(args[i]);
            s->elements += td_tensor_numel(v->tensor);
        } else if (o->info->arguments[i].kind == TD_VALUE_INT && PyLong_CheckExact(args[i])) {
            v->kind = TD_VALUE_INT;
            v->integer = PyLong_AsLongLongAndOverflow(args[i], &overflow);
            if (overflow)
                goto other;
        } else {
            goto other;
        }
    }
    return true;
other:
    s->elements = 0;
    return false;
}

/* A tensor in a number's place may have no value, as at a vmap level has a member of a batch: that is an error of the form
 * that was tried, unless a later form takes the tensor itself.  Its index, with its arguments; -1 with the error. */
static int other_form(OperatorObject *op, int i, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool with_out, Scratch *s)
{
    if (!PyErr_ExceptionMatches(PyExc_RuntimeError))
        return -1;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    while (++i < op->count) {
        if (td_py_parse(&op->overloads[i], args, nargs, kwnames, with_out, s) > 0) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(trace);
            return i;
        }
        PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
    return -1;
}

static PyObject *operator_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    OperatorObject *op = (OperatorObject *)self;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (TD_UNLIKELY(!op->ready) && prepare(op) < 0)
        return NULL;
    if (op->method) {
        if (nargs < 1)
            return PyErr_Format(PyExc_TypeError, "unbound method TensorBase.%s() needs an argument", op->text);
        if (!td_py_is_tensor(args[0]))
            return PyErr_Format(PyExc_TypeError, "descriptor '%s' for 'torch._C.TensorBase' objects doesn't apply to a '%s' "
                                "object", op->text, Py_TYPE(args[0])->tp_name);
    }
    bool with_out = kwnames && (asks_out(args, nargs, kwnames) || (op->exact_names && names_output(op, kwnames)));
    Scratch s;
    td_py_scratch_begin(&s);
    for (int i = 0; i < op->count; i++) {
        const Overload *o = &op->overloads[i];
        int found = o->plain && !kwnames && nargs == o->info->n_arguments && take_plain(o, args, &s)
            ? 1 : td_py_parse(o, args, nargs, kwnames, with_out, &s);
        if (TD_UNLIKELY(found < 0) && (i = other_form(op, i, args, nargs, kwnames, with_out, &s)) >= 0)
            o = &op->overloads[i], found = 1;
        if (TD_LIKELY(found > 0)) {
            if (TD_UNLIKELY(s.overrides || td_py_function_modes)) {
                td_py_scratch_drop(&s);
                return td_py_override(op->shown ? op->shown : self, args, nargs, kwnames);
            }
            if (TD_UNLIKELY(o->hidden) && td_py_warn_deprecated(op, o) < 0) {
                td_py_scratch_drop(&s);
                return NULL;
            }
            PyObject *result = invoke(op, o, &s);
            if (TD_UNLIKELY(result == Py_None) && o->info->n_results == 0 && writes_list(o->info))
                return Py_NewRef(first_argument(o, args, nargs, kwnames));
            return result;
        }
        if (found < 0)
            return NULL;
    }
    PyObject *by_name = td_py_no_overload(op, args, nargs, kwnames);
    if (by_name)
        return by_name;
    if (op->exact_names && PyErr_ExceptionMatches(PyExc_TypeError)) {      /* calls by schema fail with this one */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyObject *text = value ? PyObject_Str(value) : NULL;
        if (text)
            PyErr_SetObject(PyExc_RuntimeError, text);
        Py_XDECREF(text);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    return NULL;
}

PyObject *td_py_operate(OperatorObject *op, PyObject *const *args, Py_ssize_t nargs)
{
    return operator_call((PyObject *)op, args, (size_t)nargs, NULL);
}

/* ---- the objects */

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((OperatorObject *)self)->name);
}
static PyObject *get_qualname(PyObject *self, void *unused)
{
    (void)unused;
    OperatorObject *op = (OperatorObject *)self;
    return op->method ? PyUnicode_FromFormat("Tensor.%U", op->name) : Py_NewRef(op->name);
}
/* Operators that aren't in the package itself are in one of these modules, where pickle finds them. */
static const struct { uint32_t flag; const char *name, *path; } spaces[] = {
    {TD_OP_NN, "_nn", "tede._C._nn"}, {TD_OP_LINALG, "_linalg", "tede._C._linalg"},
    {TD_OP_FFT, "_fft", "tede._C._fft"}, {TD_OP_SPECIAL, "_special", "tede._C._special"},
};
static PyObject *get_module(PyObject *self, void *unused)
{
    (void)unused;
    OperatorObject *op = (OperatorObject *)self;
    uint32_t flags = td_op_describe(op->ops[0])->flags;
    const char *path = "tede";
    for (int k = 0; k < 4 && !op->method && !(flags & TD_OP_FUNCTION); k++)
        if (flags & spaces[k].flag)
            path = spaces[k].path;
    return PyUnicode_FromFormat("%s%s", td_py_package, path + sizeof "tede" - 1);
}
/* Help and signatures are made in Python, when somebody asks. */
static PyObject *of_manual(PyObject *self, const char *what)
{
    TD_PY_AUTO PyObject *module = PyImport_ImportModule("tede._manual");
    return module ? PyObject_CallMethod(module, what, "O", self) : NULL;
}
static PyObject *get_doc(PyObject *self, void *unused) { (void)unused; return of_manual(self, "page"); }
static PyObject *get_signature(PyObject *self, void *unused) { (void)unused; return of_manual(self, "signature"); }

/* The line of the first overload that has one. */
static PyObject *get_line(PyObject *self, void *unused)
{
    (void)unused;
    OperatorObject *op = (OperatorObject *)self;
    for (int i = 0; i < op->n_ops; i++) {
        const td_op_info *info = td_op_describe(op->ops[i]);
        if (info->doc && *info->doc)
            return PyUnicode_FromString(info->doc);
    }
    return PyUnicode_FromString("");
}
static PyObject *get_full_name(PyObject *self, void *unused)
{
    (void)unused;
    return td_py_full_name(td_op_describe(((OperatorObject *)self)->ops[0]));
}

/* (name, keyword only, whether there is a default, the default) for each argument that isn't an out= of the schema. */
static PyObject *arguments_of(const Overload *o)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; i < o->info->n_arguments && list; i++) {
        const td_arg *a = &o->info->arguments[i];
        if (a->is_out)
            continue;
        PyObject *value = a->has_default ? td_py_object_of(&a->default_value) : Py_NewRef(Py_None);
        PyObject *name = i == o->receiver ? PyUnicode_FromString("self") : Py_NewRef(o->names[i]);
        PyObject *row = value && name ? Py_BuildValue("(OOOO)", name, a->keyword_only ? Py_True : Py_False,
                                                      a->has_default ? Py_True : Py_False, value) : NULL;
        Py_XDECREF(value);
        Py_XDECREF(name);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
/* (schema, name of the argument that takes the other ints, how many outputs, whether requires_grad= is taken, arguments) for each
 * form of a call that isn't deprecated, in the order in which they are tried. */
static PyObject *get_forms(PyObject *self, void *unused)
{
    (void)unused;
    OperatorObject *op = (OperatorObject *)self;
    if (!op->ready && prepare(op) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; i < op->count && list; i++) {
        const Overload *o = &op->overloads[i];
        if (o->hidden)
            continue;
        PyObject *arguments = arguments_of(o);
        PyObject *row = arguments ? Py_BuildValue("(sOiNN)", o->info->schema, o->varargs >= 0 ? o->names[o->varargs] : Py_None, (int)o->n_out,
                                                  PyBool_FromLong(o->factory), arguments) : NULL;
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
static PyObject *get_schemas(PyObject *self, void *unused)
{
    (void)unused;
    OperatorObject *op = (OperatorObject *)self;
    PyObject *list = PyList_New(op->n_ops);
    for (int i = 0; i < op->n_ops && list; i++) {
        PyObject *text = PyUnicode_FromString(td_op_describe(op->ops[i])->schema);
        if (!text)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, text);
    }
    return list;
}
static PyObject *operator_repr(PyObject *self)
{
    OperatorObject *op = (OperatorObject *)self;
    return op->method ? PyUnicode_FromFormat("<method '%U' of 'tede.Tensor' objects>", op->name)
                      : PyUnicode_FromFormat("<built-in function %U>", op->name);
}
static PyObject *operator_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    OperatorObject *op = (OperatorObject *)self;
    if (!op->method)
        return Py_NewRef(op->name);
    PyObject *builtins = PyEval_GetBuiltins();
    PyObject *getattr = builtins ? PyDict_GetItemString(builtins, "getattr") : NULL;
    return getattr ? Py_BuildValue("(O(OO))", getattr, &td_py_Tensor, op->name) : NULL;
}
static PyObject *method_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
static void operator_dealloc(PyObject *self)
{
    OperatorObject *op = (OperatorObject *)self;
    overloads_free(op->overloads, op->count);
    PyMem_Free(op->ops);
    Py_XDECREF(op->name);
    Py_XDECREF(op->shown);
    PyObject_Free(op);
}

/* What isinstance() and inspect see: the types by which programs tell PyTorch's functions in C from those in Python. */
static PyObject *get_class(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(Py_TYPE(self) == &td_py_Method ? &PyMethodDescr_Type : &PyCFunction_Type);
}
static PyGetSetDef operator_getset[] = {
    {"__class__", get_class, NULL, NULL, NULL},
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_qualname, NULL, NULL, NULL},
    {"__module__", get_module, NULL, NULL, NULL},
    {"__doc__", get_doc, NULL, NULL, NULL},
    {"__signature__", get_signature, NULL, NULL, NULL},
    {"_line", get_line, NULL, "What the table of operators says of it.", NULL},
    {"_full_name", get_full_name, NULL, "The first overload's name with its namespace.", NULL},
    {"_forms", get_forms, NULL, "How it is called, for tede._manual.", NULL},
    {"schemas", get_schemas, NULL, "The schemas of all overloads.", NULL},
    {NULL},
};
static PyMethodDef operator_methods[] = {
    {"__reduce__", operator_reduce, METH_NOARGS, NULL},
    {NULL},
};

PyTypeObject td_py_Function = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.builtin_operator",
    .tp_basicsize = sizeof(OperatorObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(OperatorObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = operator_dealloc,
    .tp_repr = operator_repr,
    .tp_getset = operator_getset,
    .tp_methods = operator_methods,
};
PyTypeObject td_py_Method = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C.operator_method",
    .tp_basicsize = sizeof(OperatorObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(OperatorObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = method_get,
    .tp_dealloc = operator_dealloc,
    .tp_repr = operator_repr,
    .tp_getset = operator_getset,
    .tp_methods = operator_methods,
};

/* ---- the table becomes attributes */

static PyObject *functions, *methods, *everything;      /* dicts: name -> object; the last with internal ones */

static OperatorObject *operator_of(PyObject *dict, const char *name, bool method)
{
    PyObject *key = PyUnicode_InternFromString(name);
    OperatorObject *op = key ? (OperatorObject *)PyDict_GetItemWithError(dict, key) : NULL;
    if (op || !key) {
        Py_XDECREF(key);
        return op;
    }
    op = PyObject_New(OperatorObject, method ? &td_py_Method : &td_py_Function);
    if (!op) {
        Py_DECREF(key);
        return NULL;
    }
    memset((char *)op + sizeof(PyObject), 0, sizeof *op - sizeof(PyObject));
    op->vectorcall = operator_call;
    op->name = key;
    op->text = PyUnicode_AsUTF8(key);
    op->method = method;
    int failed = PyDict_SetItem(dict, key, (PyObject *)op);
    Py_DECREF(op);
    return failed < 0 ? NULL : op;
}

static int add_to(PyObject *dict, const td_op *op, const char *name, bool method)
{
    OperatorObject *o = operator_of(dict, name, method);
    if (!o)
        return -1;
    const td_op **longer = PyMem_Realloc(o->ops, (size_t)(o->n_ops + 1) * sizeof *longer);
    if (!longer)
        return PyErr_NoMemory(), -1;
    o->ops = longer;
    o->ops[o->n_ops++] = op;
    const uint32_t flags = td_op_describe(op)->flags;
    o->numbers |= (flags & TD_OP_TAKES_NUMBERS) != 0;       /* their Scalar overloads are for C */
    o->heavy |= (flags & (TD_OP_HEAVY | TD_OP_LINALG)) != 0;
    return 0;
}

/* _operator_of(name, full names, shown): an object for these overloads only, which ops.<namespace> hands out. */
static PyObject *operator_from(PyObject *m, PyObject *args)
{
    (void)m;
    const char *name;
    PyObject *full, *shown;
    if (!PyArg_ParseTuple(args, "sO!O:_operator_of", &name, &PyTuple_Type, &full, &shown))
        return NULL;
    PyObject *alone = PyDict_New();
    OperatorObject *op = alone ? operator_of(alone, name, false) : NULL;
    for (Py_ssize_t i = 0; op && i < PyTuple_GET_SIZE(full); i++) {
        const char *text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(full, i));
        const td_op *row = text ? td_op_find(text) : NULL;
        if (!row && text)
            PyErr_Format(PyExc_RuntimeError, "no operator is named '%s'", text);
        if (!row || add_to(alone, row, name, false) < 0)
            op = NULL;
    }
    if (op) {
        op->numbers = true;
        op->exact_names = true;
        op->shown = shown == Py_None ? NULL : Py_NewRef(shown);
        Py_INCREF(op);
    }
    Py_XDECREF(alone);
    return (PyObject *)op;
}
static PyMethodDef module_functions[] = {{"_operator_of", operator_from, METH_VARARGS, NULL}, {NULL}};

OperatorObject *td_py_find_function(const char *name)
{
    return (OperatorObject *)PyDict_GetItemString(everything, name);
}
OperatorObject *td_py_find_method(const char *name)
{
    return (OperatorObject *)PyDict_GetItemString(methods, name);
}

int td_py_operator_init(PyObject *module)
{
    PyObject *space[4];
    if (PyType_Ready(&td_py_Function) < 0 || PyType_Ready(&td_py_Method) < 0)
        return -1;
    functions = PyDict_New(), methods = PyDict_New(), everything = PyDict_New();
    if (!functions || !methods || !everything)
        return -1;
    for (int k = 0; k < 4; k++) {
        if (!(space[k] = PyModule_New(spaces[k].path)) || PyModule_AddObjectRef(module, spaces[k].name, space[k]) < 0 ||
            PyDict_SetItemString(PyImport_GetModuleDict(), spaces[k].path, space[k]) < 0)
            return -1;
        Py_DECREF(space[k]);
    }
    for (int i = 0, n = td_op_count(); i < n; i++) {
        const td_op *op = td_op_at(i);
        const td_op_info *info = td_op_describe(op);
        if (add_to(everything, op, info->name, false) < 0)
            return -1;
        if ((info->flags & TD_OP_FUNCTION) && !(info->flags & TD_OP_INTERNAL) && add_to(functions, op, info->name, false) < 0)
            return -1;
        if ((info->flags & TD_OP_METHOD) && !(info->flags & TD_OP_OUT) && add_to(methods, op, info->name, true) < 0)
            return -1;
        for (int k = 0; k < 4; k++)
            if ((info->flags & spaces[k].flag) && add_to(PyModule_GetDict(space[k]), op, info->name, false) < 0)
                return -1;
    }
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(methods, &at, &name, &value);)
        if (!PyDict_GetItem(td_py_Tensor.tp_dict, name) && PyDict_SetItem(td_py_Tensor.tp_dict, name, value) < 0)
            return -1;
    PyType_Modified(&td_py_Tensor);
    if (PyModule_AddFunctions(module, module_functions) < 0)
        return -1;
    if (PyModule_AddObjectRef(module, "_functions", functions) < 0 || PyModule_AddObjectRef(module, "_methods", methods) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "_operators", everything);
}
