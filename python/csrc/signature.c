/* Error messages of calls that no overload takes: PyTorch's TypeErrors.
 *
 * Three kinds: if only one signature can be meant, what is wrong with the first bad argument; else the types met and
 * all signatures. */
#include "binding.h"
#include <tede/modes.h>

static const char *kind_name(const td_arg *a)
{
    switch (a->kind) {
    case TD_VALUE_TENSOR: return "Tensor";
    case TD_VALUE_TENSORS: return "tuple of Tensors";
    case TD_VALUE_BOOL: return "bool";
    case TD_VALUE_INT: return "int";
    case TD_VALUE_FLOAT: return "float";
    case TD_VALUE_SCALAR: return "Number";
    case TD_VALUE_INTS: return "tuple of ints";
    case TD_VALUE_FLOATS: return "tuple of floats";
    case TD_VALUE_BOOLS: return "tuple of bools";
    case TD_VALUE_SCALARS: return "tuple of Scalars";
    case TD_VALUE_STRING: return "str";
    case TD_VALUE_DTYPE: return "torch.dtype";
    case TD_VALUE_DEVICE: return "torch.device";
    case TD_VALUE_LAYOUT: return "torch.layout";
    case TD_VALUE_MEMORY_FORMAT: return "torch.memory_format";
    case TD_VALUE_GENERATOR: return "torch.Generator";
    default: return "object";
    }
}

/* Append printf-style to a Python string, NULL-safe. */
static void add(PyObject **text, const char *format, ...)
{
    if (!*text)
        return;
    va_list list;
    va_start(list, format);
    PyObject *more = PyUnicode_FromFormatV(format, list);
    va_end(list);
    PyObject *whole = more ? PyUnicode_Concat(*text, more) : NULL;
    Py_XDECREF(more);
    Py_XSETREF(*text, whole);
}

static void add_default(PyObject **text, const td_arg *a)
{
    const td_value *v = &a->default_value;
    PyObject *number;
    switch (v->kind) {
    case TD_VALUE_NONE: add(text, " = None"); break;
    case TD_VALUE_BOOL: add(text, v->integer ? " = True" : " = False"); break;
    case TD_VALUE_INT: add(text, " = %lld", (long long)v->integer); break;
    case TD_VALUE_STRING: add(text, " = \"%s\"", v->string); break;
    case TD_VALUE_FLOAT:
    case TD_VALUE_SCALAR:
        number = v->kind == TD_VALUE_FLOAT ? PyFloat_FromDouble(v->number) : td_py_number_of(v->scalar);
        if (number)
            add(text, " = %R", number);
        Py_XDECREF(number);
        break;
    case TD_VALUE_INTS:
        if (a->list_size && v->count) {
            add(text, " = %lld", (long long)v->ints[0]);
        } else {
            add(text, " = {");
            for (int i = 0; i < v->count; i++)
                add(text, i ? ",%lld" : "%lld", (long long)v->ints[i]);
            add(text, "}");
        }
        break;
    default: add(text, " = None");
    }
}

static bool is_positional(const Overload *o, int index)
{
    return !o->info->arguments[index].keyword_only && !o->info->arguments[index].is_out;
}

/* One signature as the user sees it, "(Tensor input, int dim, *, Tensor out = None)". `pieces`: how many there are,
 * a lone star among them. */
static PyObject *signature(const Overload *o, bool with_out, int *pieces)
{
    PyObject *text = PyUnicode_FromString("(");
    int count = 0;
    bool star = false;
    for (int i = 0; i < o->info->n_arguments; i++) {
        const td_arg *a = &o->info->arguments[i];
        if (i == o->receiver || a->is_out)
            continue;
        if (!is_positional(o, i) && !star) {
            add(&text, count++ ? ", *" : "*");
            star = true;
        }
        add(&text, count++ ? ", %s %U" : "%s %U", kind_name(a), o->names[i]);
        if (a->has_default)
            add_default(&text, a);
    }
    if (with_out) {
        if (!star)
            add(&text, count++ ? ", *" : "*");
        count++;
        add(&text, ", %s out = None", with_out && o->info->n_results > 1 ? "tuple of Tensors" : "Tensor");
    }
    if (o->factory) {
        add(&text, count++ ? ", bool requires_grad = False" : "bool requires_grad = False");
    }
    add(&text, ")");
    *pieces = count ? count : 1;
    return text;
}

static bool has_out(const OperatorObject *op, const Overload *plain)
{
    for (int i = 0; i < op->count; i++) {
        const Overload *o = &op->overloads[i];
        if (o->n_out && o->n_positional == plain->n_positional) {
            bool same = true;
            for (int k = 0; k < o->n_positional && same; k++)
                same = o->info->arguments[o->positional[k]].kind == plain->info->arguments[plain->positional[k]].kind &&
                       o->names[o->positional[k]] == plain->names[plain->positional[k]];
            if (same)
                return true;
        }
    }
    return false;
}

/* ---- what was given */

static const char *type_name(PyObject *value)
{
    const char *name = Py_TYPE(value)->tp_name;
    return strncmp(name, "tede.", 5) == 0 || strncmp(name, "torch.", 6) == 0 ? strrchr(name, '.') + 1 : name;
}

/* A list with the types of its items, those of lists among them not: it may hold itself. */
static void add_type(PyObject **text, PyObject *value)
{
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        add(text, "%s", type_name(value));
        return;
    }
    bool tuple = PyTuple_Check(value);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    PyObject *names = PyList_New(0), *comma = PyUnicode_FromString(", "), *all = NULL;
    for (Py_ssize_t i = 0; names && i < n && i < PySequence_Fast_GET_SIZE(value); i++) {
        PyObject *name = PyUnicode_FromString(type_name(PySequence_Fast_GET_ITEM(value, i)));
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    if (names && comma && (all = PyUnicode_Join(comma, names)))
        add(text, tuple ? "tuple of (%U%s)" : "list of [%U%s]", all, tuple && n == 1 ? "," : "");
    else
        Py_CLEAR(*text);
    Py_XDECREF(names);
    Py_XDECREF(comma);
    Py_XDECREF(all);
}

/* Whether `value` is of the exact kind that a signature names, for the !marks!. */
static bool fits(const td_arg *a, PyObject *value)
{
    switch (a->kind) {
    case TD_VALUE_TENSOR: return td_py_is_tensor(value) || (value == Py_None && a->optional);
    case TD_VALUE_INT: return PyLong_Check(value) && !PyBool_Check(value);
    case TD_VALUE_BOOL: return PyBool_Check(value);
    case TD_VALUE_FLOAT: return PyFloat_Check(value);
    case TD_VALUE_STRING: return PyUnicode_Check(value);
    case TD_VALUE_DTYPE: return Py_IS_TYPE(value, &td_py_dtype_type);
    case TD_VALUE_SCALAR: return false;
    case TD_VALUE_TENSORS:
    case TD_VALUE_INTS: {
        if (!PyTuple_Check(value) && !PyList_Check(value))
            return false;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {
            PyObject *item = PySequence_Fast_GET_ITEM(value, i);
            if (a->kind == TD_VALUE_INTS ? !PyLong_Check(item) || PyBool_Check(item) : !td_py_is_tensor(item))
                return false;
        }
        return true;
    }
    default: return false;
    }
}

static int keyword_index(const Overload *o, PyObject *name)
{
    for (int i = 0; i < o->info->n_arguments; i++)
        for (int k = 0; k < 3; k++) {
            PyObject *known = k ? o->aliases[2 * i + k - 1] : o->names[i];
            if (i != o->receiver && known && PyUnicode_Compare(known, name) == 0)
                return i;
        }
    return -1;
}

/* "Tensor, !str!, dim=int": with marks against overload o if it is not NULL. */
static PyObject *given(const Overload *o, int skip, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *text = PyUnicode_FromString("");
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    for (Py_ssize_t i = skip; i < total; i++) {
        PyObject *name = i >= nargs ? PyTuple_GET_ITEM(kwnames, i - nargs) : NULL;
        int index = !o ? -1 : name ? keyword_index(o, name) : i < o->n_positional ? o->positional[i] : -1;
        bool marked = o && (index < 0 || !fits(&o->info->arguments[index], args[i]));
        if (i > skip)
            add(&text, ", ");
        if (name)
            add(&text, "%U=", name);
        if (marked)
            add(&text, "!");
        if (o)
            add_type(&text, args[i]);
        else
            add(&text, "%s", type_name(args[i]));
        if (marked)
            add(&text, "!");
    }
    return text;
}

/* ---- one signature only: the first thing that is wrong with it */

static PyObject *bad_argument(const OperatorObject *op, const Overload *o, int index, Py_ssize_t position, PyObject *value)
{
    const td_arg *a = &o->info->arguments[index];
    const char *name = PyUnicode_AsUTF8(o->names[index]);
    bool sequence = PyTuple_Check(value) || PyList_Check(value);
    if (sequence && (a->kind == TD_VALUE_INTS || a->kind == TD_VALUE_TENSORS || a->kind == TD_VALUE_FLOATS)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {
            TD_PY_AUTO PyObject *item = td_py_item_at(value, i);
            int64_t n;
            td_scalar scalar;
            if (!item)
                return NULL;
            if (a->kind == TD_VALUE_TENSORS) {
                if (!td_py_is_tensor(item))
                    return PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument %zd, but got %s", i,
                                        position > 0 ? position - 1 : 0, type_name(item));
                continue;
            }
            int found = a->kind == TD_VALUE_INTS ? td_py_as_size(item, &n) : td_py_as_scalar(item, &scalar, true);
            if (found < 0)
                return NULL;
            if (found)
                continue;
            if (i == 0 && position)
                return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %zd) must be %s, but found element of "
                                    "type %s at pos 0", op->text, name, position, kind_name(a), type_name(item));
            if (i == 0)
                return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, but found element of type %s at pos 0",
                                    op->text, name, kind_name(a), type_name(item));
            return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' failed to unpack the object at pos %zd with error "
                                "\"type must be %s,but got %s\"", op->text, name, i + 1, kind_name(a), type_name(item));
        }
    }
    if (position)
        return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %zd) must be %s, not %s", op->text, name,
                            position, kind_name(a), type_name(value));
    return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %s", op->text, name, kind_name(a),
                        type_name(value));
}

static bool converts(const Overload *o, int index, PyObject *value)
{
    /* Try the parser with a call that has this argument only: the others' absence doesn't matter as they come
     * after, so a copy of the overload with one positional argument will do. */
    int16_t only = (int16_t)index;
    td_op_info info = *o->info;
    Overload copy = *o;
    td_arg arguments[TD_PY_ARGS];
    memcpy(arguments, info.arguments, (size_t)info.n_arguments * sizeof *arguments);
    for (int i = 0; i < info.n_arguments; i++)
        if (!arguments[i].has_default)       /* absent is fine here, None is not */
            arguments[i].has_default = true, arguments[i].default_value.kind = TD_VALUE_BOOL;
    info.arguments = arguments;
    copy.info = &info;
    copy.positional = &only;
    copy.n_positional = 1;
    copy.varargs = -1;
    copy.n_out = 0;
    Scratch s;
    td_py_scratch_begin(&s);
    int found = td_py_parse(&copy, &value, 1, NULL, false, &s);
    if (found > 0)
        td_py_scratch_drop(&s);
    return found != 0;       /* another error is left as it is */
}

/* "Did you mean 'dim'?": for a keyword that no overload knows, if one of theirs is near. */
static void add_nearest(PyObject **text, const char *between, const OperatorObject *op, PyObject *keyword)
{
    const char *name = PyUnicode_AsUTF8(keyword), *best = NULL;
    for (int i = 0; name && i < op->count; i++) {
        const Overload *o = &op->overloads[i];
        if (keyword_index(o, keyword) >= 0)
            return;
        for (int k = 0; k < o->info->n_arguments; k++)
            best = td_py_nearer(name, PyUnicode_AsUTF8(o->names[k]), best);
        if (o->factory)
            best = td_py_nearer(name, "requires_grad", best);
    }
    if (best && strcmp(best, name) != 0)
        add(text, "%sDid you mean '%s'?", between, best);
}

static void fail_unexpected(const OperatorObject *op, PyObject *keyword)
{
    PyObject *text = PyUnicode_FromFormat("%s() got an unexpected keyword argument '%U'", op->text, keyword);
    add_nearest(&text, ". ", op, keyword);
    if (text)
        PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
}

static PyObject *explain(const OperatorObject *op, const Overload *o, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    int skip = o->receiver >= 0;
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *const *keywords = args + nargs;
    bool has[TD_PY_ARGS] = {false};
    if (o->varargs >= 0 && nargs > skip) {
        PyObject *first = args[skip];
        int64_t n;
        int found = PyTuple_Check(first) || PyList_Check(first) ? 0 : td_py_as_size(first, &n);
        if (found < 0)
            return NULL;
        if (found || (nargs > o->n_positional && !PyTuple_Check(first) && !PyList_Check(first))) {
            PyObject *all = PyTuple_New(nargs - skip);
            for (Py_ssize_t i = skip; all && i < nargs; i++)
                PyTuple_SET_ITEM(all, i - skip, Py_NewRef(args[i]));
            bool fine = all && converts(o, o->varargs, all);
            if (all && !fine)
                bad_argument(op, o, o->varargs, 1, all);
            Py_XDECREF(all);
            if (!fine || PyErr_Occurred())
                return NULL;
            nargs = skip;
            has[o->varargs] = true;
        }
    }
    if (nargs > o->n_positional) {
        int most = o->n_positional - skip, least = o->n_required - skip;
        Py_ssize_t had = nargs - skip;
        if (!most && skip)
            return PyErr_Format(PyExc_TypeError, "TensorBase.%s() takes no arguments (%zd given)", op->text, had);
        if (most != least)
            return PyErr_Format(PyExc_TypeError, "%s() takes from %d to %d positional arguments but %zd were given",
                                op->text, least < 0 ? 0 : least, most, had);
        return PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd %s given", op->text, most,
                            most == 1 ? "" : "s", had, had == 1 ? "was" : "were");
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        int index = o->positional[i];
        has[index] = true;
        if (!converts(o, index, args[i]))
            return bad_argument(op, o, index, i + 1 - skip, args[i]);
        if (PyErr_Occurred())
            return NULL;
    }
    PyObject *unexpected = NULL, *twice = NULL;
    for (Py_ssize_t k = 0; k < n_keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k), *value = keywords[k];
        if (PyUnicode_CompareWithASCIIString(name, "out") == 0 && o->plain_out < 0) {
            if (!has_out(op, o) && !unexpected)
                unexpected = name;
            else if (!td_py_is_tensor(value) && !PyTuple_Check(value) && !PyList_Check(value))
                return PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be %s, not %s", op->text,
                                    o->info->n_results > 1 ? "tuple of Tensors" : "Tensor", type_name(value));
            continue;
        }
        int index = keyword_index(o, name);
        bool grad = o->factory && PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0;
        if (index < 0 && grad && !PyBool_Check(value))
            return PyErr_Format(PyExc_TypeError, "%s(): argument 'requires_grad' must be bool, not %s", op->text, type_name(value));
        if (index < 0) {
            if (!grad && !unexpected)
                unexpected = name;
            continue;
        }
        if (has[index]) {
            twice = name;
            continue;
        }
        has[index] = true;
        if (!converts(o, index, value))
            return bad_argument(op, o, index, 0, value);
        if (PyErr_Occurred())
            return NULL;
    }
    PyObject *missing = PyUnicode_FromString("");
    int n_missing = 0;
    for (int i = 0; i < o->info->n_arguments; i++) {
        const td_arg *a = &o->info->arguments[i];
        if (!has[i] && !a->has_default && !a->is_out && i != o->receiver && i != o->varargs)
            add(&missing, n_missing++ ? ", \"%U\"" : "\"%U\"", o->names[i]);
    }
    if (o->varargs >= 0 && !has[o->varargs] && !o->info->arguments[o->varargs].has_default && !n_missing && nargs == skip &&
        !n_keywords)
        add(&missing, "\"%U\"", o->names[o->varargs]), n_missing = 1;
    if (n_missing && missing && unexpected)
        add_nearest(&missing, ". ", op, unexpected);
    if (n_missing && missing)
        PyErr_Format(PyExc_TypeError, "%s() missing %d required positional argument%s: %U", op->text, n_missing,
                     n_missing == 1 ? "s" : "", missing);
    else if (unexpected)
        fail_unexpected(op, unexpected);
    else if (twice)
        PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", op->text, twice);
    else if (missing)
        PyErr_Format(PyExc_TypeError, "%s(): these arguments can't be combined", op->text);
    Py_XDECREF(missing);
    return NULL;
}

/* Names of dimensions (tede._names): a factory's names=, and strings among the arguments of a tensor whose class takes calls over.
 * NULL without an error: there are none. */
static PyObject *with_names(OperatorObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    bool strings = false;
    for (Py_ssize_t i = 0; i < nargs + n_keywords; i++) {
        PyObject *a = args[i], *item = PyList_Check(a) || PyTuple_Check(a) ? (PySequence_Fast_GET_SIZE(a) ?
                                                                              PySequence_Fast_GET_ITEM(a, 0) : NULL) : a;
        strings |= item && PyUnicode_Check(item);
        if (i < nargs || !op->count || !op->overloads[0].factory ||
            PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i - nargs), "names") != 0)
            continue;
        PyObject *module = PyImport_ImportModule("tede._names"), *given = PyTuple_New(nargs), *words = PyDict_New(), *made = NULL;
        for (Py_ssize_t k = 0; given && k < nargs; k++)
            PyTuple_SET_ITEM(given, k, Py_NewRef(args[k]));
        bool ready = module && given && words;
        for (Py_ssize_t k = 0; ready && k < n_keywords; k++)
            ready = PyDict_SetItem(words, PyTuple_GET_ITEM(kwnames, k), args[nargs + k]) == 0;
        if (ready)
            made = PyObject_CallMethod(module, "factory", "OOO", (PyObject *)op, given, words);
        Py_XDECREF(module);
        Py_XDECREF(given);
        Py_XDECREF(words);
        return made;
    }
    if (!strings || !nargs || !td_py_is_tensor(args[0]) || td_py_is_exact(args[0]) || !td_py_has_override(args[0]))
        return NULL;
    PyObject *names = PyObject_GetAttrString(args[0], "_names");
    if (!names)
        return PyErr_Clear(), NULL;
    Py_DECREF(names);
    return td_py_override(op->shown ? op->shown : (PyObject *)op, args, nargs, kwnames);
}

/* Something that isn't a tensor and takes calls over (torch.fx's stand-ins for any value), where a number would be. */
static bool takes_over(PyObject *a)
{
    bool items = PyList_Check(a) || PyTuple_Check(a);
    for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(a); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(a, i);
        if (!td_py_is_tensor(item) && td_py_has_override(item))
            return true;
    }
    return !td_py_is_tensor(a) && td_py_has_override(a);
}

PyObject *td_py_no_overload(OperatorObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *named = with_names(op, args, nargs, kwnames);
    if (named || PyErr_Occurred())
        return named;
    for (Py_ssize_t i = 0; i < nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0); i++)
        if (takes_over(args[i]))
            return td_py_override(op->shown ? op->shown : (PyObject *)op, args, nargs, kwnames);
    int skip = op->method, plausible = 0, visible = 0, total = 0;
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, count = nargs + n_keywords;
    const Overload *only = NULL, *last = NULL;
    for (int i = 0; i < op->count; i++) {
        const Overload *o = &op->overloads[i];
        if (o->n_out)
            continue;
        total++;
        if (o->hidden)
            continue;
        visible++;
        last = o;
        int most = o->info->n_arguments + has_out(op, o) + o->factory, least = 0;
        for (int k = 0; k < o->info->n_arguments; k++)
            least += !o->info->arguments[k].has_default;
        if (count >= least && count <= most)
            plausible++, only = o;
    }
    if (total == 1 && last)
        return explain(op, last, args, nargs, kwnames);
    int64_t n;
    for (int i = 0; i < op->count; i++)      /* x.view(2, "a") can only mean a list of ints */
        if (op->overloads[i].varargs >= 0 && nargs > skip + 1 && PyLong_Check(args[skip]) &&
            td_py_as_size(args[skip], &n) > 0 && plausible == 0)
            return explain(op, &op->overloads[i], args, nargs, kwnames);
    if (plausible == 1)
        return explain(op, only, args, nargs, kwnames);
    if (!visible) {
        if (op->count == 0)
            return PyErr_Format(PyExc_TypeError, "%s() has no overload that can be called from Python", op->text);
        return explain(op, &op->overloads[0], args, nargs, kwnames);
    }
    PyObject *types = given(NULL, skip, args, nargs, kwnames), *text = NULL;
    int pieces;
    if (visible == 1) {
        PyObject *line = signature(last, has_out(op, last), &pieces);
        if (pieces == count - skip)
            Py_XSETREF(types, given(last, skip, args, nargs, kwnames));
        if (types && line)
            text = PyUnicode_FromFormat("%s() received an invalid combination of arguments - got (%U), but expected %U",
                                        op->text, types, line);
        Py_XDECREF(line);
    } else if (types) {
        text = PyUnicode_FromFormat("%s() received an invalid combination of arguments - got (%U), but expected one of:\n",
                                    op->text, types);
        for (int i = 0; i < op->count && text; i++) {
            const Overload *o = &op->overloads[i];
            if (o->hidden || o->n_out)
                continue;
            PyObject *line = signature(o, has_out(op, o), &pieces);
            if (!line)
                Py_CLEAR(text);
            add(&text, " * %U\n", line);
            Py_XDECREF(line);
            if (pieces != count - skip)
                continue;
            PyObject *wrong = PyUnicode_FromString("");
            int n_wrong = 0;
            for (Py_ssize_t k = 0; k < n_keywords; k++)
                if (keyword_index(o, PyTuple_GET_ITEM(kwnames, k)) < 0)
                    add(&wrong, n_wrong++ ? ", %U" : "%U", PyTuple_GET_ITEM(kwnames, k));
            if (n_wrong) {
                add(&text, "      didn't match because some of the keywords were incorrect: %U\n", wrong);
            } else {
                PyObject *marked = given(o, skip, args, nargs, kwnames);
                if (marked)
                    add(&text, "      didn't match because some of the arguments have invalid types: (%U)\n", marked);
                Py_XDECREF(marked);
            }
            Py_XDECREF(wrong);
        }
    }
    Py_XDECREF(types);
    for (Py_ssize_t k = 0; k < n_keywords; k++)
        add_nearest(&text, "", op, PyTuple_GET_ITEM(kwnames, k));
    if (text)
        PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return NULL;
}

/* PyTorch's words for a call that an older order of arguments fits; once for all operators, as there.  -1: it is an error. */
int td_py_warn_deprecated(OperatorObject *op, const Overload *called)
{
    static bool warned;
    if (warned && !td_warn_always())
        return 0;
    int pieces;
    PyObject *line = signature(called, has_out(op, called), &pieces), *text = NULL;
    if (line)
        text = PyUnicode_FromFormat("This overload of %s is deprecated:\n\t%s%U\nConsider using one of the following signatures instead:",
                                    op->text, op->text, line);
    Py_XDECREF(line);
    for (int i = 0; i < op->count && text; i++) {
        const Overload *o = &op->overloads[i];
        if (o->hidden || o->n_out || strcmp(o->info->overload, "Scalar") == 0)
            continue;
        if (!(line = signature(o, has_out(op, o), &pieces)))
            Py_CLEAR(text);
        else
            add(&text, "\n\t%s%U", op->text, line);
        Py_XDECREF(line);
    }
    warned = text != NULL;
    int failed = text ? PyErr_WarnEx(PyExc_UserWarning, PyUnicode_AsUTF8(text), 1) : -1;
    Py_XDECREF(text);
    return failed;
}
