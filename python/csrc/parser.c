/* Argument parsing: Python arguments become boxed values, for any operator, by its schema.
 *
 * Overloads are tried in order; a try that fails leaves nothing behind, so the next one can follow.  Values that must
 * outlive the conversion (lists, numbers that became tensors) live in the call's scratch: no tuple, dict or string is
 * built.  What went wrong is found out again, slowly, by signature.c when no overload fits. */
#include "binding.h"

/* ---- the scratch */

static void *arena(Scratch *s, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (TD_LIKELY(s->used + bytes <= sizeof s->arena)) {
        void *p = s->arena + s->used;
        s->used += (uint32_t)bytes;
        return p;
    }
    void **block = PyMem_Malloc(16 + bytes);
    if (!block)
        return PyErr_NoMemory();
    block[0] = s->blocks;
    s->blocks = block;
    return (char *)block + 16;
}

/* The items of a list that the parser read. A tuple keeps its own, and the caller keeps the tuple. */
typedef struct HeldItems {
    struct HeldItems *next;
    Py_ssize_t        n;
    PyObject         *items[];
} HeldItems;

void td_py_scratch_drop(Scratch *s)
{
    for (HeldItems *held = s->held; held; held = held->next)
        while (held->n)
            Py_DECREF(held->items[--held->n]);
    s->held = NULL;
    for (int i = 0; i < s->temporaries; i++)
        td_tensor_release(s->temporary[i]);
    while (s->blocks) {
        void **block = s->blocks;
        s->blocks = block[0];
        PyMem_Free(block);
    }
    s->temporaries = 0, s->used = 0, s->elements = 0;
    s->overrides = s->requires_grad = s->pinned = false;
    s->layout = -1;
}

/* ---- one argument: 1 if it fits, 0 if not, -1 with an error */

static int to_tensor(const Overload *o, const td_arg *a, PyObject *value, td_value *v, Scratch *s)
{
    if (TD_LIKELY(td_py_is_exact(value))) {
        v->kind = TD_VALUE_TENSOR;
        v->tensor = td_py_x(value);
        s->elements += td_tensor_numel(v->tensor);
        return 1;
    }
    if (value == Py_None) {
        if (!a->optional)
            return 0;
        v->kind = TD_VALUE_TENSOR;
        v->tensor = TD_NONE;
        return 1;
    }
    if (td_py_is_tensor(value)) {
        v->kind = TD_VALUE_TENSOR;
        v->tensor = td_py_x(value);
        s->elements += td_tensor_numel(v->tensor);
        s->overrides |= td_py_has_override(value);
        return 1;
    }
    if (o->numbers && (a->name[0] != 'c' || strcmp(a->name, "condition") != 0)) {
        td_scalar scalar;
        int found = td_py_as_scalar(value, &scalar, false);
        if (found < 0)
            return -1;
        if (found) {
            td_tensor *x = td_wrapped_number(scalar);
            if (!x)
                return td_py_raise(), -1;
            s->temporary[s->temporaries++] = x;
            v->kind = TD_VALUE_TENSOR;
            v->tensor = x;
            return 1;
        }
    }
    if (td_py_has_override(value)) {
        s->overrides = true;
        v->kind = TD_VALUE_TENSOR;
        v->tensor = TD_NONE;
        return 1;
    }
    return 0;
}

static int to_tensors(const td_arg *a, PyObject *value, td_value *v, Scratch *s)
{
    if (!PyTuple_Check(value) && !PyList_Check(value))
        return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    td_tensor **list = arena(s, (size_t)n * sizeof *list + 1);
    HeldItems *held = NULL;
    if (!list)
        return -1;
    if (PyList_Check(value)) {
        if (!(held = arena(s, sizeof *held + (size_t)n * sizeof *held->items)))
            return -1;
        *held = (HeldItems){.next = s->held};
        s->held = held;
    }
    for (Py_ssize_t i = 0; i < n; i++) {        /* nothing here runs Python code, which could change the list */
        PyObject *item = PySequence_Fast_GET_ITEM(value, i);
        if (held)
            held->items[held->n++] = Py_NewRef(item);
        if (td_py_is_tensor(item)) {
            list[i] = td_py_x(item);
            s->elements += td_tensor_numel(list[i]);
            if (!td_py_is_exact(item))
                s->overrides |= td_py_has_override(item);
        } else if (item == Py_None && a->optional_items) {
            list[i] = TD_NONE;
        } else if (td_py_has_override(item)) {
            list[i] = TD_NONE;
            s->overrides = true;
        } else {
            return 0;
        }
    }
    v->kind = TD_VALUE_TENSORS;
    v->count = (int32_t)n;
    v->tensors = list;
    return 1;
}

/* Whether it is a list of ints shows at its first member; a later one that isn't is an error, not another overload. */
static int bad_member(const Overload *o, int index, Py_ssize_t i, PyObject *item)
{
    PyErr_Format(PyExc_TypeError, "%s(): argument '%U' failed to unpack the object at pos %zd with error \"type must be tuple "
                 "of ints,but got %s\"", o->info->name, o->names[index], i + 1, Py_TYPE(item)->tp_name);
    return -1;
}

static int too_large(const Overload *o, int index, Py_ssize_t i)
{
    PyErr_Format(PyExc_TypeError, "%s(): argument '%U' failed to unpack the object at pos %zd with error \"Overflow when unpacking long long\"",
                 o->info->name, o->names[index], i + 1);
    return -1;
}

/* The ints of a sequence, or, where that is NULL, n arguments: those may be meant for another overload. */
static int ints_of(const Overload *o, int index, PyObject *sequence, PyObject *const *args, Py_ssize_t n, td_value *v, Scratch *s)
{
    int64_t *list = arena(s, (size_t)n * sizeof *list + 1);
    if (!list)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        TD_PY_AUTO PyObject *item = sequence ? td_py_item_at(sequence, i) : Py_NewRef(args[i]);
        if (!item)
            return -1;
        if (TD_LIKELY(PyLong_CheckExact(item))) {
            int overflow;
            list[i] = PyLong_AsLongLongAndOverflow(item, &overflow);
            if (TD_UNLIKELY(overflow))
                return too_large(o, index, i);
            continue;
        }
        int found = td_py_as_size(item, &list[i]);
        if (found == 0 && td_py_has_override(item)) {       /* its class takes the call over, whatever it is to be */
            s->overrides = true;
            list[i] = 0;
            continue;
        }
        if (found <= 0)
            return found == 0 && i > 0 && sequence ? bad_member(o, index, i, item) : found;
    }
    v->kind = TD_VALUE_INTS;
    v->count = (int32_t)n;
    v->ints = list;
    return 1;
}

/* An int where one is wanted, or a list that takes a single one. PyTorch's rules for what isn't an int: a list takes any tensor of
 * one element, and no array of NumPy; one int takes tensors and arrays without dimensions. */
static int one_int(PyObject *value, bool as_list, int64_t *n)
{
    return td_py_is_tensor(value) == as_list ? td_py_as_size(value, n) : td_py_as_int(value, n, false);
}

static int to_ints(const Overload *o, int index, PyObject *value, td_value *v, Scratch *s)
{
    const td_arg *a = &o->info->arguments[index];
    if (PyTuple_Check(value) || PyList_Check(value))
        return ints_of(o, index, value, NULL, PySequence_Fast_GET_SIZE(value), v, s);
    if (!a->list_size)
        return 0;
    int64_t n;
    const int found = one_int(value, true, &n);
    if (found <= 0)
        return found;
    int64_t *list = arena(s, (size_t)a->list_size * sizeof *list);
    if (!list)
        return -1;
    for (int i = 0; i < a->list_size; i++)
        list[i] = n;
    v->kind = TD_VALUE_INTS;
    v->count = a->list_size;
    v->ints = list;
    return 1;
}

static int to_numbers(const td_arg *a, PyObject *value, td_value *v, Scratch *s)
{
    bool single = !PyTuple_Check(value) && !PyList_Check(value);
    if (single && !a->list_size)
        return 0;
    Py_ssize_t n = single ? a->list_size : PySequence_Fast_GET_SIZE(value);
    size_t size = a->kind == TD_VALUE_FLOATS ? sizeof(double) : a->kind == TD_VALUE_BOOLS ? sizeof(bool)
                                                                                         : sizeof(td_scalar);
    void *list = arena(s, (size_t)n * size + 1);
    if (!list)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        TD_PY_AUTO PyObject *item = single ? Py_NewRef(value) : td_py_item_at(value, i);
        td_scalar scalar;
        if (!item)
            return -1;
        if (a->kind == TD_VALUE_BOOLS && !PyBool_Check(item))
            return 0;
        int found = td_py_as_scalar(item, &scalar, true);
        if (found <= 0)
            return found;
        if (a->kind == TD_VALUE_FLOATS) {
            if (scalar.kind == TD_SCALAR_COMPLEX)
                return 0;
            ((double *)list)[i] = td_scalar_double(scalar);
        } else if (a->kind == TD_VALUE_BOOLS) {
            ((bool *)list)[i] = item == Py_True;
        } else {
            ((td_scalar *)list)[i] = scalar;
        }
    }
    v->kind = a->kind;
    v->count = (int32_t)n;
    v->numbers = list;
    return 1;
}

static bool takes_list(td_value_kind kind)
{
    return kind == TD_VALUE_TENSORS || kind == TD_VALUE_INTS || kind == TD_VALUE_FLOATS || kind == TD_VALUE_BOOLS || kind == TD_VALUE_SCALARS;
}
/* Operators from outside, whose functions may be annotated with Sequence[int], take any sequence for a list. */
static bool other_sequence(const Overload *o, td_value_kind kind, PyObject *value)
{
    return o->info->space && takes_list(kind) && PySequence_Check(value) && !PyTuple_Check(value) && !PyList_Check(value) &&
           !PyUnicode_Check(value) && !PyBytes_Check(value) && !td_py_is_tensor(value);
}
/* Of ops.<namespace>, a tensor stands for the list of its rows where the list may have absent members: one tensor of all indices. */
static bool is_of_rows(const Overload *o, const td_arg *a, PyObject *value)
{
    return o->words && a->kind == TD_VALUE_TENSORS && a->optional_items && td_py_is_tensor(value);
}

static int convert(const Overload *o, int index, PyObject *value, Scratch *s)
{
    const td_arg *a = &o->info->arguments[index];
    td_value *v = &s->values[index];
    if (a->kind == TD_VALUE_TENSOR)
        return to_tensor(o, a, value, v, s);
    if (TD_UNLIKELY(other_sequence(o, a->kind, value) || is_of_rows(o, a, value))) {
        TD_PY_AUTO PyObject *list = PySequence_List(value);
        return list ? convert(o, index, list, s) : -1;
    }
    if (value == Py_None && (a->optional || (a->has_default && a->default_value.kind == TD_VALUE_NONE))) {
        *v = (td_value){.kind = TD_VALUE_NONE};         /* a list that is absent has no members */
        return 1;
    }
    if (value == Py_None && a->kind == TD_VALUE_INTS && a->has_default && !a->default_value.count) {
        *v = a->default_value;          /* None is what PyTorch writes for a list that is empty by default */
        return 1;
    }
    int found;
    td_scalar scalar;
    td_dtype dtype;
    switch (a->kind) {
    case TD_VALUE_TENSORS: return to_tensors(a, value, v, s);
    case TD_VALUE_INTS: return to_ints(o, index, value, v, s);
    case TD_VALUE_FLOATS:
    case TD_VALUE_BOOLS:
    case TD_VALUE_SCALARS: return to_numbers(a, value, v, s);
    case TD_VALUE_INT:
        if ((found = one_int(value, false, &v->integer)) <= 0)
            return found;
        break;
    case TD_VALUE_BOOL:
        if (PyBool_Check(value)) {
            v->integer = value == Py_True;
        } else if (td_py_is_numpy_scalar(value) && (found = td_py_as_scalar(value, &scalar, false)) > 0 &&
                   scalar.kind == TD_SCALAR_BOOL) {
            v->integer = scalar.i;
        } else {
            return 0;
        }
        break;
    case TD_VALUE_FLOAT:
        if (PyFloat_CheckExact(value)) {
            v->number = PyFloat_AS_DOUBLE(value);
        } else {
            if ((found = td_py_as_scalar(value, &scalar, true)) <= 0)
                return found;
            if (scalar.kind == TD_SCALAR_COMPLEX)
                return 0;
            v->number = td_scalar_double(scalar);
        }
        break;
    case TD_VALUE_SCALAR:
        if ((found = td_py_as_scalar(value, &v->scalar, true)) <= 0)
            return found;
        break;
    case TD_VALUE_STRING:
        if (!PyUnicode_Check(value))
            return 0;
        if (!(v->string = PyUnicode_AsUTF8(value)))
            return -1;
        break;
    case TD_VALUE_DTYPE:
        if (!td_py_as_dtype(value, &dtype))
            return PyErr_Occurred() ? -1 : 0;
        v->integer = dtype;
        break;
    case TD_VALUE_DEVICE:
        if ((found = td_py_as_device(value, &v->device)) <= 0)
            return found;
        break;
    case TD_VALUE_LAYOUT:
        if (!td_py_as_layout(value, &v->integer))
            return PyErr_Occurred() ? -1 : 0;
        if (o->factory)
            s->layout = (int8_t)v->integer;
        break;
    case TD_VALUE_MEMORY_FORMAT:
        if (!Py_IS_TYPE(value, &td_py_memory_format_type))
            return 0;
        v->integer = ((EnumObject *)value)->code;
        break;
    case TD_VALUE_GENERATOR:
        if (!PyObject_TypeCheck(value, &td_py_Generator))
            return 0;
        v->generator = ((GeneratorObject *)value)->g;
        break;
    default: return 0;
    }
    v->kind = a->kind;
    return 1;
}

/* ---- keywords */

static bool same_name(PyObject *a, PyObject *b)
{
    return a == b || (a && PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0);
}

/* The argument that `name` means: its index, -1 if there is none. */
static int find_keyword(const Overload *o, PyObject *name, int self)
{
    int n = o->info->n_arguments;
    for (int i = 0; i < n; i++)
        if (o->names[i] == name && i != self)
            return i;
    for (int i = 0; i < n; i++)
        if (i != self && (same_name(o->names[i], name) || same_name(o->aliases[2 * i], name) ||
                          same_name(o->aliases[2 * i + 1], name)))
            return i;
    for (int i = 0; i < n; i++)             /* "self", as schemas have it */
        if (i != self && PyUnicode_CompareWithASCIIString(name, o->info->arguments[i].name) == 0)
            return i;
    return -1;
}

/* What factories take beside their schemas. */
static int factory_keyword(PyObject *name, PyObject *value, Scratch *s)
{
    if (PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0) {
        if (!PyBool_Check(value))
            return 0;
        s->requires_grad = value == Py_True;
        return 1;
    }
    if (PyUnicode_CompareWithASCIIString(name, "pin_memory") == 0) {
        s->pinned = value == Py_True;
        return PyBool_Check(value) || value == Py_None;
    }
    if (PyUnicode_CompareWithASCIIString(name, "layout") == 0) {
        int64_t layout = -1;
        if (value != Py_None && !td_py_as_layout(value, &layout))
            return PyErr_Occurred() ? -1 : 0;
        s->layout = (int8_t)layout;
        return 1;
    }
    return 0;
}

static int take_out(const Overload *o, PyObject *value, uint64_t *seen, Scratch *s)
{
    s->out = value;
    if (o->n_out == 1) {
        *seen |= UINT64_C(1) << o->first_out;
        if (!td_py_is_tensor(value) && o->info->arguments[o->first_out].kind != TD_VALUE_TENSORS && !td_py_has_override(value))
            return 0;
        return convert(o, o->first_out, value, s);
    }
    if ((!PyTuple_Check(value) && !PyList_Check(value)) || PySequence_Fast_GET_SIZE(value) != o->n_out)
        return 0;
    for (int i = 0; i < o->n_out; i++) {
        TD_PY_AUTO PyObject *item = td_py_item_at(value, i);
        int found = !item ? -1 : td_py_is_tensor(item) ? convert(o, o->first_out + i, item, s) : 0;
        if (found <= 0)
            return found;
        *seen |= UINT64_C(1) << (o->first_out + i);
    }
    return 1;
}

/* The default device, for functions that make a tensor of none. */
static void place(const td_op_info *info, Scratch *s)
{
    int at = -1;
    for (int i = 0; i < info->n_arguments; i++) {
        if (info->arguments[i].kind == TD_VALUE_TENSOR)
            return;
        if (info->arguments[i].kind == TD_VALUE_DEVICE)
            at = i;
    }
    if (at >= 0 && (s->values[at].kind != TD_VALUE_DEVICE || s->values[at].device.type < 0)) {
        s->values[at].kind = TD_VALUE_DEVICE;
        s->values[at].device = td_py_default_device;
    }
}

int td_py_parse(const Overload *o, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool with_out, Scratch *s)
{
    const td_op_info *info = o->info;
    if (with_out != (o->n_out > 0 || (with_out && o->plain_out >= 0)))
        return 0;
    uint64_t seen = 0, swaps = td_py_swaps;
    int found = 1, self = o->receiver >= 0;
    if (TD_UNLIKELY(o->varargs >= 0 && nargs > self && !PyTuple_Check(args[self]) && !PyList_Check(args[self]) &&
                    (args[self] != Py_None || nargs == self + 1))) {
        /* x.view(2, 3): the numbers are the list.  None is one argument, which others may follow: x.std(None, False) */
        if (self) {
            if ((found = convert(o, o->receiver, args[0], s)) <= 0)
                goto failed;
            seen = UINT64_C(1) << o->receiver;
        }
        if (args[self] == Py_None)
            found = convert(o, o->varargs, args[self], s);
        else
            found = ints_of(o, o->varargs, NULL, args + self, nargs - self, &s->values[o->varargs], s);
        if (found <= 0)
            goto failed;
        seen |= UINT64_C(1) << o->varargs;
    } else {
        if (nargs > o->n_positional)
            return 0;
        for (Py_ssize_t i = 0; i < nargs; i++) {
            int index = o->positional[i];
            if (TD_UNLIKELY((found = convert(o, index, args[i], s)) <= 0))
                goto failed;
            seen |= UINT64_C(1) << index;
        }
    }
    if (TD_UNLIKELY(kwnames != NULL)) {
        Py_ssize_t n = PyTuple_GET_SIZE(kwnames);
        for (Py_ssize_t k = 0; k < n; k++) {
            PyObject *name = PyTuple_GET_ITEM(kwnames, k), *value = args[nargs + k];
            if (PyUnicode_CompareWithASCIIString(name, "out") == 0 && o->plain_out < 0) {
                if (value == Py_None)
                    continue;
                found = take_out(o, value, &seen, s);
            } else {
                int index = find_keyword(o, name, o->receiver);
                if (index < 0)
                    found = o->factory ? factory_keyword(name, value, s) : 0;
                else if (seen >> index & 1)
                    found = 0;
                else
                    found = convert(o, index, value, s), seen |= UINT64_C(1) << index;
                if (o->factory && value == Py_True && PyUnicode_CompareWithASCIIString(name, "pin_memory") == 0)
                    s->pinned = true;
            }
            if (found <= 0)
                goto failed;
        }
    }
    uint64_t all = info->n_arguments == 64 ? ~UINT64_C(0) : (UINT64_C(1) << info->n_arguments) - 1;
    for (uint64_t missing = all & ~seen; missing; missing &= missing - 1) {
        int index = __builtin_ctzll(missing);
        const td_arg *a = &info->arguments[index];
        if (a->has_default) {
            s->values[index] = a->default_value;
            if (a->word_default && !o->words)
                s->values[index].integer = 0;
        } else {
            found = 0;
            goto failed;
        }
    }
    if (TD_UNLIKELY(swaps != td_py_swaps)) {      /* the values lend tensors of objects that may have others now */
        PyErr_Format(PyExc_RuntimeError, "%s(): an argument called swap_tensors() while it was read", info->name);
        found = -1;
        goto failed;
    }
    if (TD_UNLIKELY(td_py_default_device.type >= 0) && o->factory)
        place(info, s);
    return 1;
failed:
    td_py_scratch_drop(s);
    s->out = NULL;
    return found;
}

/* ---- what a call needs to know of an overload, worked out once */

int td_py_overload_init(Overload *o, const td_op *op, bool method, bool numbers)
{
    const td_op_info *info = td_op_describe(op);
    int n = info->n_arguments;
    *o = (Overload){.op = op, .info = info, .varargs = -1, .dtype_arg = -1, .plain_out = -1, .first_out = -1, .receiver = -1};
    if (n > TD_PY_ARGS)
        return 0;              /* no schema has so many; such a one is left to ops.aten */
    o->names = PyMem_Calloc((size_t)n + 1, sizeof *o->names);
    o->aliases = PyMem_Calloc(2 * (size_t)n + 1, sizeof *o->aliases);
    o->positional = PyMem_Calloc((size_t)n + 1, sizeof *o->positional);
    if (!o->names || !o->aliases || !o->positional)
        return PyErr_NoMemory(), -1;
    o->numbers = numbers;
    o->hidden = info->flags & TD_OP_DEPRECATED;
    int self = -1;
    for (int i = 0; i < n; i++)
        if (strcmp(info->arguments[i].name, "self") == 0)
            self = i;
    if (method) {
        if (self < 0)
            return 0;
        o->receiver = (int16_t)self;
        o->positional[o->n_positional++] = (int16_t)self;
        o->n_required = 1;
    }
    int visible = 0, last_ints = -1;
    const char *spelled = info->traits->spelled;
    const size_t length = spelled ? strcspn(spelled, "=") : 0;
    for (int i = 0; i < n; i++) {
        const td_arg *a = &info->arguments[i];
        const char *name = a->name;
        if (i == self && a->kind == TD_VALUE_TENSOR)
            name = "input";
        else if (method && spelled && strncmp(spelled, name, length) == 0 && !name[length])
            name = spelled + length + 1;
        static const char *const also[][3] = {
            {"dim", "axis"}, {"keepdim", "keepdims"}, {"input", "x", "x1"}, {"other", "x2"},
        };
        if (!(o->names[i] = PyUnicode_InternFromString(name)))
            return -1;
        for (size_t k = 0; k < sizeof also / sizeof *also; k++)
            for (int j = 1; j < 3 && strcmp(name, also[k][0]) == 0; j++)
                if (also[k][j] && !(o->aliases[2 * i + j - 1] = PyUnicode_InternFromString(also[k][j])))
                    return -1;
        if (a->is_out) {
            if (o->first_out < 0)
                o->first_out = (int16_t)i;
            o->n_out++;
            continue;
        }
        if (a->kind == TD_VALUE_DTYPE)
            o->dtype_arg = (int16_t)i;
        if (!strcmp(name, "out"))
            o->plain_out = (int16_t)i;
        if (a->keyword_only || (method && i == self))
            continue;
        visible++;
        last_ints = a->kind == TD_VALUE_INTS ? i : -1;
        o->positional[o->n_positional++] = (int16_t)i;
        if (!a->has_default)
            o->n_required = o->n_positional;
    }
    if (visible == 1 && last_ints >= 0)
        o->varargs = (int16_t)last_ints;
    o->factory = info->flags & TD_OP_FACTORY;
    o->plain = !o->factory && o->n_positional == n;
    for (int i = 0; i < n && o->plain; i++)
        o->plain = o->positional[i] == i && (info->arguments[i].kind == TD_VALUE_TENSOR || info->arguments[i].kind == TD_VALUE_INT);
    return 1;
}
