/* __torch_dispatch__: classes and modes that see every operator below autograd.
 *
 * An instance of a class with a __torch_dispatch__ carries the Python key, the innermost of those that run around
 * kernels: so calls arrive here after autograd has recorded them, and operators that are made of others as those
 * others.  While a mode is entered, the key is in the thread's include mask, and all calls arrive.
 *
 * What a handler calls is not recorded: it implements the operator.  While a mode's handler runs, that mode is left. */
#include "binding.h"
#include <tede/autograd_nodes.h>
#include <tede/spec.h>
#include <tede/transforms.h>

static _Thread_local ModeStack modes;
static PyObject *word, *disabled;           /* "__torch_dispatch__"; what Tensor has there */

/* ---- operators as Python sees them */

static PyObject *overloads;                 /* dict: address of a td_op -> (object, body in Python or None, is it made of others) */

/* A new reference: a handler that runs may register another entry. */
static PyObject *entry_of(const td_op *op)
{
    PyObject *key = PyLong_FromVoidPtr((void *)op), *entry = key ? PyDict_GetItemWithError(overloads, key) : NULL;
    if (!entry && key && !PyErr_Occurred()) {
        const td_op_info *info = td_op_describe(op);
        PyObject *module = PyImport_ImportModule("tede._decompositions");
        entry = module ? PyObject_CallMethod(module, "entry", "sssI", info->space ? info->space : "aten", info->name,
                                             info->overload, (unsigned)info->flags) : NULL;
        Py_XDECREF(module);
        if (entry && PyDict_SetItem(overloads, key, entry) < 0)
            Py_CLEAR(entry);
    } else {
        Py_XINCREF(entry);
    }
    Py_XDECREF(key);
    return entry;
}
PyObject *td_py_overload(const td_op *op)
{
    TD_PY_AUTO PyObject *entry = entry_of(op);
    return entry ? PyTuple_GET_ITEM(entry, 0) : NULL;       /* overloads live as long as the process */
}

/* ---- whose handlers are called */

static bool has_dispatch(PyTypeObject *type)
{
    PyObject *found = type == &td_py_Tensor || type == td_py_Parameter ? NULL : _PyType_Lookup(type, word);
    return found && found != disabled;
}
void td_py_mark(td_tensor *x, PyTypeObject *type)
{
    if (has_dispatch(type)) {
        td_py_heeds |= TD_PY_CALLS_BACK;
        td_tensor_set_python(x, true);
    }
}

typedef struct Involved { PyObject *objects[64]; int n; } Involved;     /* owned */

static PyObject *first;                     /* "_dispatches_first" */

/* Each class once, a subclass before its bases, one that says so before all, else from left to right. */
static int involve(Involved *list, td_tensor *x)
{
    if (!x || x == TD_NONE || !td_tensor_is_python(x) || list->n == 64)
        return 0;
    PyObject *o = td_py_wrap_borrowed(x);
    if (!o)
        return -1;
    int at = list->n && _PyType_Lookup(Py_TYPE(o), first) ? 0 : list->n;
    for (int i = 0; i < list->n; i++) {
        if (Py_TYPE(list->objects[i]) == Py_TYPE(o))
            at = -1;
        else if (at == list->n && PyType_IsSubtype(Py_TYPE(o), Py_TYPE(list->objects[i])))
            at = i;
        if (at < 0)
            break;
    }
    if (at < 0 || !has_dispatch(Py_TYPE(o))) {
        Py_DECREF(o);
        return 0;
    }
    memmove(list->objects + at + 1, list->objects + at, (size_t)(list->n - at) * sizeof *list->objects);
    list->objects[at] = o;
    list->n++;
    return 0;
}

static void include_key(void)
{
    td_masks masks = td_thread_masks();
    td_keyset key = TD_KEYSET(TD_KEY_PYTHON);
    masks.include = modes.top ? masks.include | key : masks.include & ~key;
    td_set_thread_masks(masks);
}

static PyObject *registered;                /* dict: overload -> {class: handler}, for classes whose own handler is not called */

/* What `owner`, a mode or an operand, makes of a call: the handler that was registered for the operator and its type, else its own. */
static PyObject *ask_one(PyObject *owner, PyObject *type, PyObject *function, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *of_classes = PyDict_GET_SIZE(registered) ? PyDict_GetItemWithError(registered, function) : NULL;
    PyObject *handler = of_classes ? PyDict_GetItemWithError(of_classes, type) : NULL;
    PyObject *first = PyType_IsSubtype((PyTypeObject *)type, &td_py_Tensor) ? type : owner;
    if (handler) {
        Py_INCREF(handler);             /* the call may register another */
        PyObject *answer = PyObject_CallFunctionObjArgs(handler, first, function, types, args, kwargs, NULL);
        Py_DECREF(handler);
        return answer;
    }
    PyObject *method = PyErr_Occurred() ? NULL : PyObject_GetAttr(owner, word);
    if (method && !PyType_IsSubtype((PyTypeObject *)type, &td_py_Tensor) && PyMethod_Check(method) && PyMethod_GET_SELF(method) != owner) {
        PyErr_SetString(PyExc_RuntimeError, "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it "
                                            "a plain method");
        Py_CLEAR(method);
    }
    PyObject *result = method ? PyObject_CallFunctionObjArgs(method, function, types, args, kwargs, NULL) : NULL;
    Py_XDECREF(method);
    return result;
}

static PyObject *call_mode(PyObject *function, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *mode = td_py_modes_top(&modes);
    ModeStack whole = td_py_modes_leave(&modes);
    include_key();
    PyObject *result = ask_one(mode, (PyObject *)Py_TYPE(mode), function, types, args, kwargs);
    td_py_modes_enter(&modes, whole);
    include_key();
    return result;
}

/* Nobody wanted to answer. */
static void fail_multiple(PyObject *name, const Involved *list)
{
    PyObject *text = name ? PyUnicode_FromFormat("Multiple dispatch failed for '%S'; all __torch_dispatch__ handlers returned "
                                                 "NotImplemented:\n", name) : NULL;
    if (modes.top && text)
        Py_SETREF(text, PyUnicode_FromFormat("%U\n  - mode object %R", text, td_py_modes_top(&modes)));
    for (int i = 0; i < list->n && text; i++)
        Py_SETREF(text, PyUnicode_FromFormat("%U\n  - tensor subclass %R", text, Py_TYPE(list->objects[i])));
    if (text)
        PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
}
/* The first answer of the innermost mode, else of the operands' classes; NotImplemented if there is none. */
static PyObject *call_handlers(PyObject *function, const Involved *list, PyObject *args, PyObject *kwargs)
{
    PyObject *types = PyTuple_New(list->n), *result = NULL;
    if (!types)
        return NULL;
    for (int i = 0; i < list->n; i++)
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(list->objects[i])));
    if (modes.top)
        result = call_mode(function, types, args, kwargs);
    for (int i = 0; i < list->n && (!result ? !PyErr_Occurred() : result == Py_NotImplemented); i++) {
        Py_CLEAR(result);
        PyObject *type = (PyObject *)Py_TYPE(list->objects[i]);
        result = ask_one(list->objects[i], type, function, types, args, kwargs);
    }
    Py_DECREF(types);
    return result;
}

PyObject *td_py_dispatch_query(PyObject *function, PyObject *self, PyObject *argument)
{
    Involved list = {.objects = {self}, .n = has_dispatch(Py_TYPE(self))};
    PyObject *args = argument ? PyTuple_Pack(2, self, argument) : PyTuple_Pack(1, self), *kwargs = PyDict_New();
    td_masks masks = td_thread_masks();
    PyObject *answer = args && kwargs ? call_handlers(function, &list, args, kwargs) : NULL;
    td_set_thread_masks(masks);
    if (answer == Py_NotImplemented) {
        Py_CLEAR(answer);
        PyObject *packet = PyObject_GetAttrString(function, "overloadpacket");
        PyObject *name = packet ? PyUnicode_FromFormat("torch.ops.%S", packet) : NULL;
        fail_multiple(name, &list);
        Py_XDECREF(name);
        Py_XDECREF(packet);
    }
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return answer;
}

/* ---- the kernel of the key */

static int involve_all(Involved *list, const td_op_info *info, const td_value *arguments)
{
    for (int i = 0; i < info->n_arguments; i++) {
        const td_value *v = &arguments[i];
        if (v->kind == TD_VALUE_TENSOR && involve(list, v->tensor) < 0)
            return -1;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (involve(list, v->tensors[k]) < 0)
                return -1;
    }
    return 0;
}

/* Writes through a wrapper count as writes to it. */
static void count_writes(const td_op_info *info, const td_value *arguments)
{
    for (int i = 0; i < info->n_arguments; i++)
        if (info->arguments[i].is_mutable && arguments[i].kind == TD_VALUE_TENSOR && arguments[i].tensor != TD_NONE &&
            td_tensor_is_python(arguments[i].tensor))
            td_tensor_count_write(arguments[i].tensor);
}

/* ---- calls as PyTorch's parser makes them: x > 0 is gt.Scalar, not gt.Tensor of a number that was made a tensor, and
 * x.sum() is sum.default */

static bool is_number(const td_value *v)
{
    return v->kind == TD_VALUE_TENSOR && v->tensor && v->tensor != TD_NONE && td_tensor_is_wrapped_number(v->tensor);
}
/* The overload of an operator's name, or another operator, whose arguments this one has; NULL if there is none. */
static const td_op *relative(const td_op_info *info, const char *name, const char *overload)
{
    TD_PY_AUTO PyObject *full = PyUnicode_FromFormat("%s::%s%s%s", info->space ? info->space : "aten", name ? name : info->name,
                                                     overload ? "." : "", overload ? overload : "");
    const char *text = full ? PyUnicode_AsUTF8(full) : NULL;
    const td_op *other = text ? td_op_find(text) : NULL;
    PyErr_Clear();
    const td_op_info *to = other ? td_op_describe(other) : NULL;
    for (int i = 0; to && i < to->n_arguments; i++)
        if (td_argument_named(info, to->arguments[i].name) < 0)
            return NULL;
    return other;
}
/* Whether all that `to` doesn't take has its default, or is argument `besides`. */
static bool says_all(const td_op_info *to, const td_op_info *from, const td_value *arguments, int besides)
{
    for (int i = 0; i < from->n_arguments; i++)
        if (i != besides && td_argument_named(to, from->arguments[i].name) < 0 && !td_py_is_default(&from->arguments[i], &arguments[i]))
            return false;
    return true;
}
/* What the entry says first (`shown`); else, of a number beside a tensor, the overload that takes one. */
static const td_op *shown_as(const td_op *op, const td_value *arguments)
{
    const td_op_info *info = td_op_describe(op);
    const char *shown = info->traits->shown;
    const td_op *other = NULL;
    if (shown) {
        const size_t length = strcspn(shown, "=");
        int i = 0;                          /* it is there: td_op_set_traits has looked */
        while (i < info->n_arguments - 1 && (strncmp(info->arguments[i].name, shown, length) || info->arguments[i].name[length]))
            i++;
        const td_value *v = &arguments[i];
        const bool left_out = v->kind == TD_VALUE_NONE || (v->kind == TD_VALUE_INTS && v->count <= 0);
        if ((left_out || is_number(v)) && (other = relative(info, strchr(shown, '=') + 1, NULL)) &&
            (!left_out || says_all(td_op_describe(other), info, arguments, i)))
            return other;
    }
    if (info->flags & TD_OP_TAKES_NUMBERS || info->n_arguments < 2 || is_number(&arguments[0]) == is_number(&arguments[1]))
        return op;
    if (is_number(&arguments[0]))
        other = relative(info, NULL, "Scalar_Tensor");
    else if (!(other = relative(info, NULL, "Scalar")) || td_op_describe(other)->arguments[1].kind != TD_VALUE_SCALAR)     /* pow.Scalar's is the first */
        other = relative(info, NULL, "Tensor_Scalar");
    return other ? other : op;
}
/* The arguments of one operator for another that has some of them.  A number that the other takes second was the first operand. */
static int arguments_for(const td_op_info *to, const td_op_info *from, const td_value *arguments, td_value *values)
{
    const bool swapped = is_number(&arguments[0]) && to->n_arguments > 1 && to->arguments[1].kind == TD_VALUE_SCALAR;
    for (int i = 0; i < to->n_arguments; i++) {
        int k = swapped && i < 2 ? 1 - i : td_argument_named(from, to->arguments[i].name);
        values[i] = arguments[k];
        if (to->arguments[i].kind == TD_VALUE_SCALAR && is_number(&arguments[k])) {
            values[i] = (td_value){.kind = TD_VALUE_SCALAR};
            if (td_tensor_item(arguments[k].tensor, &values[i].scalar) != 0)
                return -1;
        }
    }
    return 0;
}
/* PyTorch says where a new tensor shall be, even if the program didn't. */
static int say_where(const td_op_info *info, PyObject *kwargs)
{
    if (!(info->flags & TD_OP_FACTORY) || td_argument_named(info, "pin_memory") < 0)
        return 0;
    bool of_tensor = info->n_arguments && info->arguments[0].kind == TD_VALUE_TENSOR;
    int failed = 0;
    if (!of_tensor && !PyDict_GetItemString(kwargs, "device")) {
        PyObject *cpu = td_py_device((td_device){TD_CPU, -1});
        failed = cpu ? PyDict_SetItemString(kwargs, "device", cpu) : -1;
        Py_XDECREF(cpu);
    }
    return failed || PyDict_GetItemString(kwargs, "pin_memory") ? failed : PyDict_SetItemString(kwargs, "pin_memory", Py_False);
}

/* Who is called: modes and classes; nothing is recorded of what they call, for that has been done. */
static PyObject *ask_handlers(PyObject *function, const Involved *list, PyObject *args, PyObject *kwargs)
{
    td_masks masks = td_thread_masks();
    bool below = td_set_below_autograd(true), grad = td_grad_enabled();
    PyObject *result = call_handlers(function, list, args, kwargs);
    if (result == Py_NotImplemented) {
        Py_CLEAR(result);
        PyObject *name = PyUnicode_FromFormat("torch._ops.%S", function);
        fail_multiple(name, list);
        Py_XDECREF(name);
    }
    td_set_grad_enabled(grad);
    td_set_below_autograd(below);
    td_set_thread_masks(masks);
    return result;
}

static PyObject *functionalizer;            /* tede._subclasses.functional_tensor.call */

/* Or, at a functionalize level, the function that makes a call below it of one that may write. */
static PyObject *ask_functionalizer(PyObject *function, PyObject *args, PyObject *kwargs)
{
    if (!functionalizer) {
        PyObject *module = PyImport_ImportModule("tede._subclasses.functional_tensor");
        functionalizer = module ? PyObject_GetAttrString(module, "call") : NULL;
        Py_XDECREF(module);
    }
    PyObject *level = functionalizer ? PyLong_FromLong(td_transform_level()) : NULL;
    if (!level)
        return NULL;
    td_lowered before = td_transform_lower();
    PyObject *result = PyObject_CallFunctionObjArgs(functionalizer, level, function, args, kwargs, NULL);
    td_transform_raise(before);
    Py_DECREF(level);
    return result;
}

/* `list` NULL: for the functionalizer. */
static int handle(const td_op *op, PyObject *entry, const Involved *list, const td_value *arguments, td_value *results)
{
    const td_op_info *info = td_op_describe(op);
    PyObject *args, *kwargs, *result = NULL, *body = PyTuple_GET_ITEM(entry, 1);
    TD_PY_AUTO PyObject *other_entry = NULL;
    const td_op *shown = shown_as(op, arguments);
    td_value values[8];
    bool other = shown != op && body == Py_None && td_op_describe(shown)->n_arguments <= 8;
    if (other && (arguments_for(td_op_describe(shown), info, arguments, values) < 0 || !(entry = other_entry = entry_of(shown))))
        return PyErr_Occurred() ? td_py_capture() : -1;
    const td_op_info *said = other ? td_op_describe(shown) : info;
    if (td_py_boxed_arguments(said, other ? values : arguments, &args, &kwargs) < 0)
        return td_py_capture();
    if (say_where(said, kwargs) < 0) {
        Py_DECREF(args);
        Py_DECREF(kwargs);
        return td_py_capture();
    }
    if (body != Py_None)
        result = PyObject_Call(body, args, kwargs);
    if (body == Py_None || result == Py_NotImplemented) {
        Py_XDECREF(result);
        PyObject *function = PyTuple_GET_ITEM(entry, 0);
        result = list ? ask_handlers(function, list, args, kwargs) : ask_functionalizer(function, args, kwargs);
        count_writes(info, arguments);
    }
    Py_DECREF(args);
    Py_DECREF(kwargs);
    if (!result)
        return td_py_capture();
    int failed = td_py_boxed_results(info, arguments, result, results);
    Py_DECREF(result);
    if (!failed && list && td_results_as_views(op, arguments, results) < 0) {
        td_values_release(results, info->n_results);
        failed = -1;
    }
    return failed;
}

static int python_key(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    PyGILState_STATE state = PyGILState_Ensure();
    Involved list = {.n = 0};
    PyObject *entry = entry_of(op);
    int failed = entry && involve_all(&list, td_op_describe(op), arguments) == 0 ? 0 : td_py_capture();
    bool composite = !failed && PyTuple_GET_ITEM(entry, 2) == Py_True, nobody = !failed && !modes.top && !list.n;
    if (!failed && !composite && !nobody)
        failed = handle(op, entry, &list, arguments, results);
    for (int i = 0; i < list.n; i++)
        Py_DECREF(list.objects[i]);
    Py_XDECREF(entry);
    PyGILState_Release(state);
    return composite ? td_op_call_composite(op, keys, arguments, results)
           : nobody  ? td_op_call_keys(op, keys & ~TD_KEYSET(TD_KEY_PYTHON), arguments, results) : failed;
}

/* The kernel of TD_KEY_FUNCTIONALIZE, which calls have at a functionalize level. The parts of a composite come back one by one. */
static int functionalize_key(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *entry = entry_of(op);
    bool composite = entry && PyTuple_GET_ITEM(entry, 2) == Py_True;
    int failed = !entry ? td_py_capture() : composite ? 0 : handle(op, entry, NULL, arguments, results);
    Py_XDECREF(entry);
    PyGILState_Release(state);
    return composite ? td_op_call_composite(op, keys, arguments, results) : failed;
}

/* ---- for Python */

static PyObject *push_mode(PyObject *m, PyObject *mode)
{
    (void)m;
    td_py_heeds |= TD_PY_CALLS_BACK;
    if (td_py_modes_push(&modes, mode) < 0)
        return NULL;
    include_key();
    Py_RETURN_NONE;
}
static PyObject *pop_mode(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    PyObject *mode = td_py_modes_pop(&modes);
    include_key();
    return mode;
}
static PyObject *mode_stack(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return td_py_modes_list(&modes);
}
static void swap_modes(void *state)
{
    ModeStack *other = state, mine = modes;
    modes = *other;
    *other = mine;
}
static PyObject *set_below(PyObject *m, PyObject *on)
{
    (void)m;
    return td_py_switch(td_set_below_autograd, on);
}
/* Keep calls from these keys; returns what was. */
static bool exclude(td_keyset keys, bool on)
{
    td_masks masks = td_thread_masks();
    bool before = masks.exclude & keys;
    masks.exclude = on ? masks.exclude | keys : masks.exclude & ~keys;
    td_set_thread_masks(masks);
    return before;
}
static bool exclude_python(bool on) { return exclude(TD_KEYSET(TD_KEY_PYTHON), on); }
static bool exclude_transforms(bool on) { return exclude(TD_KEYSET(TD_KEY_TRANSFORMS) | TD_KEYSET(TD_KEY_UNWRAP), on); }
/* _set_python_excluded(on), _set_transforms_excluded(on) */
static PyObject *set_excluded(PyObject *m, PyObject *on)
{
    (void)m;
    return td_py_switch(exclude_python, on);
}
static PyObject *set_transforms_excluded(PyObject *m, PyObject *on)
{
    (void)m;
    return td_py_switch(exclude_transforms, on);
}
static PyObject *is_excluded(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong((td_thread_masks().exclude & TD_KEYSET(TD_KEY_PYTHON)) != 0);
}
/* Whether x is of a class with a __torch_dispatch__. */
static PyObject *is_python(PyObject *m, PyObject *x)
{
    (void)m;
    return PyBool_FromLong(td_py_is_tensor(x) && has_dispatch(Py_TYPE(x)));
}
/* _is_watched(list): whether a mode is on, or one of the tensors is of a class with a __torch_dispatch__.  What is faster in one
 * call of many tensors is done in single operators then, as PyTorch does it. */
static PyObject *is_watched(PyObject *m, PyObject *list)
{
    (void)m;
    bool watched = modes.top || td_py_function_modes > 0;
    PyObject *items = PySequence_Fast(list, "a list of tensors is needed");
    for (Py_ssize_t i = 0; items && !watched && i < PySequence_Fast_GET_SIZE(items); i++) {
        TD_PY_AUTO PyObject *x = td_py_item_at(items, i);
        watched = td_py_is_tensor(x) && td_tensor_is_python(td_py_x(x));
    }
    Py_XDECREF(items);
    return items ? PyBool_FromLong(watched) : NULL;
}
static PyObject *disabled_dispatch(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function, *types, *arguments, *kwargs = NULL;
    if (!PyArg_ParseTuple(args, "OOO|O", &function, &types, &arguments, &kwargs) || !(arguments = PySequence_Tuple(arguments)))
        return NULL;
    PyObject *before = set_excluded(NULL, Py_True);
    PyObject *result = PyObject_Call(function, arguments, kwargs == Py_None ? NULL : kwargs);
    Py_DECREF(arguments);
    Py_XDECREF(set_excluded(NULL, before));
    Py_XDECREF(before);
    return result;
}

static Py_ssize_t numbers_of(PyObject *o, int64_t *list)
{
    PyObject *items = PySequence_Fast(o, "a sequence of ints is needed");
    Py_ssize_t n = items ? PySequence_Fast_GET_SIZE(items) : -1;
    if (n > TD_MAX_DIMS)
        PyErr_Format(PyExc_RuntimeError, "too many dimensions (%zd)", n), n = -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        TD_PY_AUTO PyObject *item = td_py_item_at(items, i);
        if (!item || td_py_as_int(item, &list[i], false) <= 0) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "sizes and strides must be ints");
            n = -1;
        }
    }
    Py_XDECREF(items);
    return n;
}
/* A tensor of a class that has geometry, dtype and device, but no memory: all calls go to its __torch_dispatch__. */
static PyObject *make_wrapper_subclass(PyObject *unused, PyObject *args, PyObject *kw)
{
    (void)unused;
    static char *names[] = {"cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory",
                            "requires_grad", "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout",
                            "_extra_dispatch_keys", "storage_size", NULL};
    PyObject *cls, *size, *strides = Py_None, *offset = Py_None, *format = Py_None, *dtype = Py_None, *layout = Py_None;
    PyObject *device = Py_None, *policy = Py_None, *extra = Py_None, *bytes = Py_None;
    int pin = 0, requires_grad = 0, of_device = 0, of_layout = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OO|OOOOOOppOppOO:_make_wrapper_subclass", names, &cls, &size, &strides, &offset,
                                     &format, &dtype, &layout, &device, &pin, &requires_grad, &policy, &of_device, &of_layout,
                                     &extra, &bytes))
        return NULL;
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, &td_py_Tensor))
        return td_py_not_subclass();
    if (!has_dispatch((PyTypeObject *)cls))
        return PyErr_Format(PyExc_TypeError, "%s must define __torch_dispatch__", ((PyTypeObject *)cls)->tp_name);
    int queries = td_py_queries_of(policy, of_device, of_layout);
    if (queries < 0)
        return NULL;
    int64_t sizes[TD_MAX_DIMS], steps[TD_MAX_DIMS], start = 0;
    td_dtype type = td_default_dtype();
    td_device where = {TD_CPU, -1};
    Py_ssize_t n = numbers_of(size, sizes);
    if (n < 0 || (strides != Py_None && numbers_of(strides, steps) != n)) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_RuntimeError, "sizes and strides must have the same length");
        return NULL;
    }
    if ((offset != Py_None && td_py_as_int(offset, &start, false) < 0) || (device != Py_None && td_py_as_device(device, &where) < 0))
        return NULL;
    if (dtype != Py_None && !td_py_as_dtype(dtype, &type))
        return PyErr_Format(PyExc_TypeError, "dtype must be a torch.dtype, not %s", Py_TYPE(dtype)->tp_name);
    td_tensor *x = td_tensor_hollow(n, sizes, strides == Py_None ? NULL : steps, start, type, where);
    return td_py_wrap_subclass(x, cls, requires_grad, queries);
}
static PyMethodDef make_wrapper_def = {
    "_make_wrapper_subclass", (PyCFunction)(void (*)(void))make_wrapper_subclass, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
    "A tensor of class `cls` without memory."};

static PyMethodDef functions[] = {
    {"_push_on_torch_dispatch_stack", push_mode, METH_O, NULL},
    {"_pop_torch_dispatch_stack", pop_mode, METH_NOARGS, NULL},
    {"_torch_dispatch_stack", mode_stack, METH_NOARGS, NULL},
    {"_set_below_autograd", set_below, METH_O, NULL},
    {"_set_python_excluded", set_excluded, METH_O, NULL},
    {"_set_transforms_excluded", set_transforms_excluded, METH_O, NULL},
    {"_is_python_excluded", is_excluded, METH_NOARGS, NULL},
    {"_is_python", is_python, METH_O, NULL},
    {"_is_watched", is_watched, METH_O, NULL},
    {"_disabled_torch_dispatch_impl", disabled_dispatch, METH_VARARGS, NULL},
    {NULL},
};
int td_py_dispatch_init(PyObject *module)
{
    if (!(overloads = PyDict_New()) || !(registered = PyDict_New()) ||
        PyModule_AddObjectRef(module, "_torch_dispatch_rules", registered) < 0 || !(word = PyUnicode_InternFromString("__torch_dispatch__")) ||
        !(first = PyUnicode_InternFromString("_dispatches_first")) ||
        PyModule_AddFunctions(module, functions) < 0 ||
        !(disabled = PyObject_GetAttrString(module, "_disabled_torch_dispatch_impl")))
        return -1;
    if (PyObject_SetAttr((PyObject *)&td_py_Tensor, word, disabled) < 0)
        return -1;
    PyObject *function = PyCFunction_New(&make_wrapper_def, NULL);
    PyObject *fixed = function ? PyStaticMethod_New(function) : NULL;
    Py_XDECREF(function);
    if (!fixed || PyObject_SetAttrString((PyObject *)&td_py_Tensor, "_make_wrapper_subclass", fixed) < 0)
        return -1;
    Py_DECREF(fixed);
    if (td_register_fallback(TD_KEY_PYTHON, TD_CPU, python_key, NULL) < 0 ||
        td_register_fallback(TD_KEY_FUNCTIONALIZE, TD_CPU, functionalize_key, NULL) < 0 ||
        td_backward_carry(&(td_carried_state){sizeof modes, swap_modes, td_py_modes_retain, td_py_modes_release}) < 0)
        return td_py_raise(), -1;
    return 0;
}
