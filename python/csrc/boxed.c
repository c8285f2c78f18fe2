/* Kernels written in Python: boxed values become a call's arguments, what it returns becomes the operator's results. */
#include "binding.h"
#include <tede/autocast.h>
#include <tede/formula.h>
#include <tede/autograd_nodes.h>
#include <tede/transforms.h>
#include <math.h>
#include <tede/list.h>

/* ---- values as objects */

static PyObject *list_of(const td_value *v)
{
    PyObject *list = PyList_New(v->count);
    for (int i = 0; i < v->count && list; i++) {
        PyObject *item = v->kind == TD_VALUE_TENSORS ? td_py_wrap_borrowed(v->tensors[i])
                       : v->kind == TD_VALUE_INTS    ? PyLong_FromLongLong(v->ints[i])
                       : v->kind == TD_VALUE_FLOATS  ? PyFloat_FromDouble(v->numbers[i])
                       : v->kind == TD_VALUE_BOOLS   ? PyBool_FromLong(v->bools[i])
                                                     : td_py_number_of(v->scalars[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

PyObject *td_py_object_of(const td_value *v)
{
    switch (v->kind) {
    case TD_VALUE_TENSOR:
        /* A number that was made a tensor for an operator's sake is a number again. */
        if (v->tensor && v->tensor != TD_NONE && td_tensor_is_wrapped_number(v->tensor))
            return td_py_tolist(v->tensor);
        return td_py_wrap_borrowed(v->tensor);
    case TD_VALUE_TENSORS: case TD_VALUE_INTS: case TD_VALUE_FLOATS: case TD_VALUE_BOOLS: case TD_VALUE_SCALARS:
        return list_of(v);
    case TD_VALUE_BOOL: return PyBool_FromLong(v->integer != 0);
    case TD_VALUE_INT: return PyLong_FromLongLong(v->integer);
    case TD_VALUE_FLOAT: return PyFloat_FromDouble(v->number);
    case TD_VALUE_SCALAR: return td_py_number_of(v->scalar);
    case TD_VALUE_STRING: return PyUnicode_FromString(v->string);
    case TD_VALUE_DTYPE: return Py_NewRef(td_py_dtype((td_dtype)v->integer));
    case TD_VALUE_DEVICE: return td_py_device(v->device);
    case TD_VALUE_LAYOUT: return Py_NewRef(td_py_layout((int)v->integer));
    case TD_VALUE_MEMORY_FORMAT: return Py_NewRef(td_py_memory_format((int)v->integer));
    case TD_VALUE_GENERATOR: return td_py_generator_of(v->generator);
    default: Py_RETURN_NONE;
    }
}

bool td_py_is_default(const td_arg *a, const td_value *v)
{
    const td_value *d = &a->default_value;
    if (!a->has_default || v->kind != d->kind)
        return false;
    size_t size = v->kind == TD_VALUE_BOOLS ? sizeof(bool) : v->kind == TD_VALUE_SCALARS ? sizeof(td_scalar) : 8;
    switch (v->kind) {
    case TD_VALUE_NONE: return true;
    case TD_VALUE_TENSOR: return v->tensor == d->tensor;
    case TD_VALUE_TENSORS: return v->count == 0 && d->count == 0;
    case TD_VALUE_FLOAT: return v->number == d->number || (isnan(v->number) && isnan(d->number));
    case TD_VALUE_SCALAR: return v->scalar.kind == d->scalar.kind && td_scalar_double(v->scalar) == td_scalar_double(d->scalar);
    case TD_VALUE_STRING: return strcmp(v->string, d->string) == 0;
    case TD_VALUE_DEVICE: return v->device.type == d->device.type && v->device.index == d->device.index;
    case TD_VALUE_GENERATOR: return v->generator == d->generator;
    case TD_VALUE_INTS: case TD_VALUE_FLOATS: case TD_VALUE_BOOLS: case TD_VALUE_SCALARS:
        return v->count == d->count && (!v->count || memcmp(v->ints, d->ints, (size_t)v->count * size) == 0);
    default: return v->integer == d->integer;
    }
}

int td_py_boxed_arguments(const td_op_info *info, const td_value *arguments, PyObject **args, PyObject **kwargs)
{
    int n = 0;              /* positional ones, up to the last that is no default */
    for (int i = 0; i < info->n_arguments; i++)
        if (!info->arguments[i].keyword_only && !td_py_is_default(&info->arguments[i], &arguments[i]))
            n = i + 1;
    *args = PyTuple_New(n);
    *kwargs = PyDict_New();
    for (int i = 0; i < info->n_arguments && *args && *kwargs; i++) {
        const td_arg *a = &info->arguments[i];
        if (a->keyword_only ? td_py_is_default(a, &arguments[i]) || (arguments[i].kind == TD_VALUE_NONE && a->optional) : i >= n)
            continue;
        PyObject *object = td_py_object_of(&arguments[i]);
        if (!object)
            break;
        if (!a->keyword_only) {
            PyTuple_SET_ITEM(*args, i, object);
            continue;
        }
        int failed = PyDict_SetItemString(*kwargs, a->name, object);
        Py_DECREF(object);
        if (failed)
            break;
    }
    if (!PyErr_Occurred())
        return 0;
    Py_CLEAR(*args);
    Py_CLEAR(*kwargs);
    return -1;
}

/* ---- objects as results */

static int bad_result(const td_op_info *info, PyObject *object, const char *expected)
{
    return td_error(TD_E_RUNTIME, "Unable to cast what a Python kernel of %s::%s returned: %s, where %s was expected",
                    info->space ? info->space : "aten", info->name, Py_TYPE(object)->tp_name, expected);
}

static int list_result(const td_op_info *info, PyObject *object, td_value *v)
{
    td_tensor_list list;
    PyObject *items = PySequence_Fast(object, "");
    if (!items) {
        PyErr_Clear();
        return bad_result(info, object, "a list of tensors");
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    int failed = td_tensor_list_new(&list, n);
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        TD_PY_AUTO PyObject *item = td_py_item_at(items, i);
        if (!item)
            failed = td_py_capture();
        else if (td_py_is_tensor(item))
            list.items[i] = td_tensor_retain(td_py_x(item));
        else
            failed = bad_result(info, item, "a tensor");
    }
    Py_DECREF(items);
    if (failed) {
        td_tensor_list_release(&list);
        return -1;
    }
    *v = (td_value){.kind = TD_VALUE_TENSORS, .count = (int32_t)n, .tensors = list.items};
    return 0;
}

static int one_result(const td_op_info *info, const td_arg *r, PyObject *object, td_value *v)
{
    td_scalar scalar;
    *v = (td_value){.kind = r->kind};
    switch (r->kind) {
    case TD_VALUE_TENSOR:
        if (td_py_is_tensor(object))
            v->tensor = td_tensor_retain(td_py_x(object));
        else if (object == Py_None)
            v->tensor = TD_NONE;
        else
            return bad_result(info, object, "a tensor");
        return 0;
    case TD_VALUE_TENSORS: return list_result(info, object, v);
    case TD_VALUE_BOOL: case TD_VALUE_INT: case TD_VALUE_FLOAT: case TD_VALUE_SCALAR:
        if (td_py_as_scalar(object, &scalar, true) <= 0) {
            PyErr_Clear();
            return bad_result(info, object, "a number");
        }
        if (r->kind == TD_VALUE_SCALAR)
            v->scalar = scalar;
        else if (r->kind == TD_VALUE_FLOAT)
            v->number = td_scalar_double(scalar);
        else
            v->integer = td_scalar_int(scalar);
        return 0;
    default: return bad_result(info, object, "what tensors and numbers are made of");
    }
}

int td_py_boxed_results(const td_op_info *info, const td_value *arguments, PyObject *object, td_value *results)
{
    int n = info->n_results;
    if (n == 0)
        return 0;
    /* What writes its operands gives those back, whatever the kernel returned. */
    int written = 0;
    for (int i = 0; i < info->n_arguments && written < n; i++)
        if (info->arguments[i].is_mutable && arguments[i].kind == TD_VALUE_TENSOR && info->results[written].is_mutable)
            results[written++] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(arguments[i].tensor)};
    if (written == n)
        return 0;
    if (n == 1)
        return one_result(info, &info->results[0], object, &results[0]);
    PyObject *items = PySequence_Fast(object, "");
    int failed = 0, made = written;
    if (!items || PySequence_Fast_GET_SIZE(items) != n) {
        PyErr_Clear();
        failed = td_error(TD_E_RUNTIME, "%s: a Python kernel must return %d values", info->name, n);
    }
    for (; made < n && !failed; made++) {
        TD_PY_AUTO PyObject *item = td_py_item_at(items, made);
        failed = item ? one_result(info, &info->results[made], item, &results[made]) : td_py_capture();
    }
    Py_XDECREF(items);
    if (failed)
        td_values_release(results, made > 0 ? made - 1 : 0);
    return failed;
}

/* ---- kernels.  The context is the callable; `_register_boxed` keeps those that are in use. */

static int python_kernel(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys;
    const td_op_info *info = td_op_describe(op);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args, *kwargs, *result = NULL;
    int failed = 0;
    if (td_py_boxed_arguments(info, arguments, &args, &kwargs) == 0)
        result = PyObject_Call(context, args, kwargs);
    failed = result ? td_py_boxed_results(info, arguments, result, results) : td_py_capture();
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return failed;
}
/* A fallback gets the operator first. */
static int python_fallback(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys;
    const td_op_info *info = td_op_describe(op);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *shown = td_py_overload(op), *args = NULL, *kwargs = NULL, *result = NULL;
    if (shown && td_py_boxed_arguments(info, arguments, &args, &kwargs) == 0) {
        PyObject *first = PyTuple_Pack(1, shown), *all = first ? PySequence_Concat(first, args) : NULL;
        result = all ? PyObject_Call(context, all, kwargs) : NULL;
        Py_XDECREF(first);
        Py_XDECREF(all);
    }
    int failed = result ? td_py_boxed_results(info, arguments, result, results) : td_py_capture();
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return failed;
}

static PyObject *kept;      /* callables that kernels are: those of a slot that was filled again may still run */

/* _register_boxed(operator or None, key, device, callable or None): key -1 is the default for all devices, None a fallback. */
/* Autocast's own kernels come first, so that they are there again when a program's go. */
static int autocast_first(int key)
{
    td_autocast before;
    if (key != TD_KEY_AUTOCAST)
        return 0;
    if (td_autocast_begin(&before, TD_BF16, true) < 0)
        return -1;
    td_autocast_end(before);
    return 0;
}
static PyObject *register_boxed(PyObject *m, PyObject *args)
{
    (void)m;
    const char *name;
    int key, device;
    PyObject *callable;
    if (!PyArg_ParseTuple(args, "ziiO:_register_boxed", &name, &key, &device, &callable))
        return NULL;
    if (callable != Py_None && (PyList_Append(kept, callable) < 0))
        return NULL;
    td_py_heeds |= callable != Py_None ? TD_PY_CALLS_BACK : 0;
    td_boxed_kernel *kernel = callable == Py_None ? NULL : name ? python_kernel : python_fallback;
    int failed = autocast_first(key) < 0 ? -1 : !name ? td_register_fallback((td_key)key, device, kernel, callable)
               : key < 0  ? td_register_default(name, kernel, callable)
                          : td_register_boxed(name, (td_key)key, device, kernel, callable);
    if (failed)
        return td_py_raise();
    Py_RETURN_NONE;
}
static int fall_through(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *key)
{
    return td_op_call_keys(op, keys & ~TD_KEYSET((intptr_t)key), arguments, results);
}
/* _register_fallthrough(operator, key): the key has nothing to say about it, whatever holds for others. */
static PyObject *register_fallthrough(PyObject *m, PyObject *args)
{
    (void)m;
    const char *name;
    int key;
    if (!PyArg_ParseTuple(args, "si:_register_fallthrough", &name, &key))
        return NULL;
    if (autocast_first(key) < 0 || td_register_boxed(name, (td_key)key, TD_CPU, fall_through, (void *)(intptr_t)key) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
/* _register_batching(operator, callable): its rule at vmap levels. */
static PyObject *register_batching(PyObject *m, PyObject *args)
{
    (void)m;
    const char *name;
    PyObject *callable;
    if (!PyArg_ParseTuple(args, "sO:_register_batching", &name, &callable) || PyList_Append(kept, callable) < 0)
        return NULL;
    if (td_vmap_register(name, python_kernel, callable) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *define(PyObject *m, PyObject *text)
{
    (void)m;
    const char *schema = PyUnicode_AsUTF8(text);
    TD_PY_AUTO PyObject *full = schema ? PyUnicode_FromStringAndSize(schema, (Py_ssize_t)strcspn(schema, "(")) : NULL;
    const char *name = full ? PyUnicode_AsUTF8(full) : NULL;
    if (!name)
        return NULL;
    if (!td_op_define(schema) || td_register_no_gradient(name) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *undefine(PyObject *m, PyObject *text)
{
    (void)m;
    const char *name = PyUnicode_AsUTF8(text);
    const td_op *op = name ? td_op_find(name) : NULL;
    if (!name)
        return NULL;
    if (op && td_op_remove(op) < 0)
        return td_py_raise();
    return PyBool_FromLong(op != NULL);
}
/* _op_info(full name) -> (schema, flags) or None. */
static PyObject *op_info(PyObject *m, PyObject *text)
{
    (void)m;
    const char *name = PyUnicode_AsUTF8(text);
    const td_op *op = name ? td_op_find(name) : NULL;
    if (!name)
        return NULL;
    if (!op)
        Py_RETURN_NONE;
    const td_op_info *info = td_op_describe(op);
    return Py_BuildValue("(sI)", info->schema, (unsigned)info->flags);
}
static const char *const policies[] = {[TD_AUTOCAST_LOWER_PRECISION] = "lower_precision", [TD_AUTOCAST_FP32] = "fp32",
                                       [TD_AUTOCAST_PROMOTE] = "promote", [TD_AUTOCAST_NOT] = "not", [TD_AUTOCAST_UNSAFE] = "unsafe"};
/* "fp32", or "fp32, devices: not" where devices from outside have another policy: into `text`. NULL if there is none. */
static const char *autocast_text(const td_op_traits *t, char *text, size_t size)
{
    if (!t->autocast_devices)
        return policies[t->autocast];
    snprintf(text, size, "%s%sdevices: %s", t->autocast ? policies[t->autocast] : "", t->autocast ? ", " : "", policies[t->autocast_devices]);
    return text;
}
/* An operator by its full name; NULL with an error. */
static const td_op *op_named(PyObject *text)
{
    const char *name = PyUnicode_AsUTF8(text);
    const td_op *op = name ? td_op_find(name) : NULL;
    if (name && !op)
        PyErr_Format(PyExc_ValueError, "there is no operator %s", name);
    return op;
}
/* Traits that are flags of an operator's row, not words: TD_OP_TRAITS. */
static const struct { const char *name; uint32_t flag; } trait_flags[] = {
    {"promotes", TD_OP_PROMOTES}, {"linear", TD_OP_LINEAR}, {"knows_bits", TD_OP_KNOWS_BITS},
};
/* _op_traits(full name) -> its traits as a dict, with None or False for what it has not. */
static PyObject *op_traits(PyObject *m, PyObject *text)
{
    (void)m;
    const td_op *op = op_named(text);
    if (!op)
        return NULL;
    const td_op_traits *t = td_op_describe(op)->traits;
    char autocast[80];
    PyObject *dict = Py_BuildValue("{szszszszszszszszsz}", "batch", t->batch, "autocast", autocast_text(t, autocast, sizeof autocast), "tags", t->tags, "names", t->names,
                                   "flops", t->flops, "shown", t->shown, "spelled", t->spelled, "decompose", t->decompose, "undo", t->undo);
    for (size_t i = 0; i < sizeof trait_flags / sizeof *trait_flags && dict; i++)
        if (PyDict_SetItemString(dict, trait_flags[i].name, td_op_describe(op)->flags & trait_flags[i].flag ? Py_True : Py_False) < 0)
            Py_CLEAR(dict);
    return dict;
}
/* Sets dict[key] to a formula's text, if there is one. */
static int put_formula(PyObject *dict, const char *key, const td_formula *formula, td_formula_kind kind)
{
    if (!formula)
        return 0;
    char *text = td_formula_text(formula, kind);
    PyObject *string = text ? PyUnicode_FromString(text) : td_py_raise();
    td_formula_text_free(text);
    int status = string ? PyDict_SetItemString(dict, key, string) : -1;
    Py_XDECREF(string);
    return status;
}
/* What a pointwise operator computes: "value" (for integers, complex numbers and bool "value_int", ... if another), or of a string
 * parameter's words "value none", ...; "grad self", ... and "jvp self", ... of the operands. */
static int put_formulas(PyObject *dict, const td_op *op)
{
    static const char *const names[] = {"value", "value_int", "value_complex", "value_bool"};
    const char *choices = td_formula_choices(op);
    const td_formula *value = td_formula_of(op, NULL);
    char key[80], word[64];
    for (int kind = 0; value && !choices && kind < TD_FORMULA_KINDS; kind++)
        if ((!kind || value->starts[kind]) && put_formula(dict, names[kind], value, (td_formula_kind)kind))
            return -1;
    for (int length; choices && (length = (int)strcspn(choices, " ")) != 0; choices += length + (choices[length] == ' ')) {
        snprintf(word, sizeof word, "%.*s", length, choices);
        snprintf(key, sizeof key, "value %s", word);
        if (put_formula(dict, key, td_formula_of(op, word), TD_FORMULA_DEFAULT))
            return -1;
    }
    const td_op_info *info = td_op_describe(op);
    for (int i = 0; i < info->n_arguments; i++) {
        const char *name = info->arguments[i].name;
        snprintf(key, sizeof key, "grad %s", name);
        if (put_formula(dict, key, td_formula_gradient(op, name), TD_FORMULA_DEFAULT))
            return -1;
        snprintf(key, sizeof key, "jvp %s", name);
        if (put_formula(dict, key, td_formula_tangent(op, name), TD_FORMULA_DEFAULT))
            return -1;
    }
    return 0;
}
/* _op_formulas(full name) -> {what: text}, empty for what is not pointwise. */
static PyObject *op_formulas(PyObject *m, PyObject *text)
{
    (void)m;
    const td_op *op = op_named(text);
    if (!op)
        return NULL;
    PyObject *dict = PyDict_New();
    if (dict && put_formulas(dict, op))
        Py_CLEAR(dict);
    return dict;
}
PyObject *td_py_full_name(const td_op_info *info)
{
    return PyUnicode_FromFormat("%s::%s%s%s", info->space ? info->space : "aten", info->name, *info->overload ? "." : "", info->overload);
}
/* _flops_of_all() -> (full name, text) of all operators that say how they are counted. */
static PyObject *flops_of_all(PyObject *m, PyObject *nothing)
{
    (void)m, (void)nothing;
    PyObject *list = PyList_New(0);
    for (int i = 0, n = td_op_count(); i < n && list; i++) {
        const td_op *op = td_op_at(i);
        const td_op_info *info = op ? td_op_describe(op) : NULL;
        if (!info || !info->traits->flops)
            continue;
        PyObject *pair = Py_BuildValue("(Ns)", td_py_full_name(info), info->traits->flops);
        if (!pair || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}
/* _set_op_traits(full name, batch=, autocast=, tags=, names=, flops=, shown=, spelled=, decompose=, undo=, promotes=, linear=, knows_bits=):
 * strings, the last three bools; what is None stays as it is. */
static PyObject *set_op_traits(PyObject *m, PyObject *args, PyObject *kwargs)
{
    (void)m;
    static char *keywords[] = {"", "batch", "autocast", "tags", "names", "flops", "shown", "spelled", "decompose", "undo", "promotes",
                               "linear", "knows_bits", NULL};
    const char *name, *autocast = NULL;
    td_op_traits given = {0};
    PyObject *on[] = {Py_None, Py_None, Py_None};       /* as trait_flags */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$zzzzzzzzzOOO:_set_op_traits", keywords, &name, &given.batch, &autocast, &given.tags,
                                     &given.names, &given.flops, &given.shown, &given.spelled, &given.decompose, &given.undo, &on[0], &on[1], &on[2]))
        return NULL;
    const td_op *op = td_op_find(name);
    if (!op)
        return PyErr_Format(PyExc_ValueError, "there is no operator %s", name);
    td_op_traits traits = *td_op_describe(op)->traits;
    traits.size = sizeof traits, traits.batch = given.batch;
    traits.tags = given.tags ? given.tags : traits.tags;
    traits.names = given.names ? given.names : traits.names;
    traits.flops = given.flops ? given.flops : traits.flops;
    traits.shown = given.shown ? given.shown : traits.shown;
    traits.spelled = given.spelled ? given.spelled : traits.spelled;
    traits.decompose = given.decompose ? given.decompose : traits.decompose;
    traits.undo = given.undo ? given.undo : traits.undo;
    traits.flags = td_op_describe(op)->flags & TD_OP_TRAITS;
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        int yes = on[i] == Py_None ? (traits.flags & trait_flags[i].flag) != 0 : PyObject_IsTrue(on[i]);
        if (yes < 0)
            return NULL;
        traits.flags = yes ? traits.flags | trait_flags[i].flag : traits.flags & ~trait_flags[i].flag;
    }
    traits.autocast = autocast ? TD_AUTOCAST_AS_IT_IS : traits.autocast;
    for (int i = TD_AUTOCAST_LOWER_PRECISION; i <= TD_AUTOCAST_PROMOTE && autocast; i++)
        if (!strcmp(policies[i], autocast))
            traits.autocast = (td_autocast_policy)i, traits.autocast_devices = TD_AUTOCAST_AS_IT_IS;
    if (autocast && !traits.autocast)
        return PyErr_Format(PyExc_ValueError, "autocast: %s is not lower_precision, fp32 or promote", autocast);
    if (td_op_set_traits(op, &traits) != 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
/* _overloads(namespace, name) -> full names of all overloads; of all operators where these are None. */
static PyObject *overloads(PyObject *m, PyObject *args)
{
    (void)m;
    const char *space, *name;
    if (!PyArg_ParseTuple(args, "zz:_overloads", &space, &name))
        return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0, n = td_op_count(); i < n && list; i++) {
        const td_op *op = td_op_at(i);
        const td_op_info *info = op ? td_op_describe(op) : NULL;
        if (!info || (name && strcmp(info->name, name)) || (space && strcmp(info->space ? info->space : "aten", space)))
            continue;
        PyObject *full = td_py_full_name(info);
        if (!full || PyList_Append(list, full) < 0)
            Py_CLEAR(list);
        Py_XDECREF(full);
    }
    return list;
}
static PyObject *has_kernel(PyObject *m, PyObject *args)
{
    (void)m;
    const char *name;
    int key, device;
    if (!PyArg_ParseTuple(args, "sii:_has_kernel", &name, &key, &device))
        return NULL;
    const td_op *op = td_op_find(name);
    return PyBool_FromLong(op && td_op_has_kernel(op, (td_key)key, device));
}
static PyObject *warn_without_gradient(PyObject *m, PyObject *args)
{
    (void)m;
    int on = td_warns_without_gradient(), before = on;
    if (!PyArg_ParseTuple(args, "|p", &on))
        return NULL;
    td_warn_without_gradient(on);
    return PyBool_FromLong(before);
}

static PyMethodDef functions[] = {
    {"_op_traits", op_traits, METH_O, NULL},
    {"_op_formulas", op_formulas, METH_O, NULL},
    {"_flops_of_all", flops_of_all, METH_NOARGS, NULL},
    {"_set_op_traits", (PyCFunction)(void (*)(void))set_op_traits, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_register_fallthrough", register_fallthrough, METH_VARARGS, NULL},
    {"_warn_without_gradient", warn_without_gradient, METH_VARARGS, "Whether operators without a gradient warn: was it so until now?"},
    {"_register_boxed", register_boxed, METH_VARARGS, NULL},
    {"_register_batching", register_batching, METH_VARARGS, NULL},
    {"_define", define, METH_O, NULL},
    {"_undefine", undefine, METH_O, NULL},
    {"_op_info", op_info, METH_O, NULL},
    {"_overloads", overloads, METH_VARARGS, NULL},
    {"_has_kernel", has_kernel, METH_VARARGS, NULL},
    {NULL},
};
int td_py_boxed_init(PyObject *module)
{
    if (!(kept = PyList_New(0)))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
