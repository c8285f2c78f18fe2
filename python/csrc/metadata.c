/* Metadata queries of tensor subclasses: sizes, strides, device and layout that __torch_dispatch__ answers for.
 *
 * Who makes an object with dispatch_sizes_strides_policy, dispatch_device or dispatch_layout wants its __torch_dispatch__ to
 * say what the attributes of the object are, as operators of aten and prim: sym_size, sym_stride, dim, is_contiguous, device, ...
 * An answer of None means: as it was made.  Queries are made for what Python reads and by contiguous(); the core, in what else operators
 * are made of (x[...]), goes by the geometry that the object was made with. */
#include "binding.h"
#include <tede/autocast.h>
#include <tede/layout.h>
#include <tede/transforms.h>

static PyObject *overload_of(const char *space, const char *name, const char *overload)
{
    PyObject *module = PyImport_ImportModule("tede._ops");
    PyObject *found = module ? PyObject_CallMethod(module, "_overload_of", "sss", space, name, overload) : NULL;
    Py_XDECREF(module);
    return found;
}
static PyObject *query(PyObject *self, const char *space, const char *name, const char *overload, PyObject *argument)
{
    PyObject *function = overload_of(space, name, overload);
    PyObject *answer = function ? td_py_dispatch_query(function, self, argument) : NULL;
    Py_XDECREF(function);
    return answer;
}

/* Where no __torch_dispatch__ is to be called, sizes and strides are as they were made. A place and a layout stand for others' everywhere, and
 * symbols for numbers: functionalize reads them below __torch_dispatch__, for a program that runs above it. */
bool td_py_answers_for_itself(int what)
{
    return what & (TD_PY_QUERIES_SYMBOLS | TD_PY_QUERIES_DEVICE | TD_PY_QUERIES_LAYOUT) || !(td_thread_masks().exclude & TD_KEYSET(TD_KEY_PYTHON));
}

/* An answer that is a number, or -2 with an error; *as_made if the object is as the tensor says. */
static int64_t number(PyObject *self, const char *name, bool *as_made)
{
    int64_t value = -2;
    PyObject *answer = query(self, "aten", name, "default", NULL);
    *as_made = answer == Py_None;
    if (answer && !*as_made && td_py_as_int(answer, &value, true) <= 0) {
        value = -2;
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_RuntimeError, "%s returned invalid type %s, expected int", name, Py_TYPE(answer)->tp_name);
    }
    Py_XDECREF(answer);
    return value;
}
int td_py_dim(PyObject *self)
{
    bool as_made;
    if (!td_py_queries(self, TD_PY_QUERIES_SIZES))
        return td_tensor_ndim(td_py_x(self));
    int64_t n = number(self, "dim", &as_made);
    if (as_made)
        PyErr_Format(PyExc_RuntimeError, "dim returned invalid type NoneType, expected int");
    return as_made || n < 0 ? -1 : (int)n;
}
int64_t td_py_numel(PyObject *self, const char *query_name)
{
    bool as_made = true;
    int64_t n = td_py_queries(self, TD_PY_QUERIES_SIZES) ? number(self, query_name, &as_made) : 0;
    return as_made ? td_tensor_numel(td_py_x(self)) : n;
}
int64_t td_py_offset(PyObject *self)
{
    bool as_made = true;
    int64_t n = td_py_queries(self, TD_PY_QUERIES_SIZES) ? number(self, "sym_storage_offset", &as_made) : 0;
    return as_made ? td_tensor_offset(td_py_x(self)) : n;
}

/* A tuple of what was answered, or of what the tensor has. */
static PyObject *numbers(PyObject *self, const char *name, const int64_t *made)
{
    td_tensor *x = td_py_x(self);
    PyObject *answer = query(self, "aten", name, "default", NULL), *tuple = NULL;
    if (answer && answer != Py_None) {
        tuple = PySequence_Tuple(answer);
    } else if (answer && (tuple = PyTuple_New(td_tensor_ndim(x)))) {
        for (int i = 0; i < td_tensor_ndim(x); i++)
            PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(made[i]));
    }
    Py_XDECREF(answer);
    return tuple;
}
/* Whose sizes are symbols: the object itself, or the tensor that transforms' levels have wrapped in it; borrowed, or NULL. Levels change which
 * sizes there are and make none of others, so that numbers within mean what they mean below. */
static bool ever_symbolic;
static PyObject *symbolic_object(PyObject *self)
{
    if (TD_LIKELY(!ever_symbolic))
        return NULL;
    if (td_py_queries(self, TD_PY_QUERIES_SYMBOLS))
        return self;
    int dim;
    for (td_tensor *x = td_py_x(self); x && td_wrapper_level(x);) {
        td_tensor *value = td_transform_unwrap(x, -1, &dim);
        td_tensor_release(value);               /* the wrapper has it */
        PyObject *object = value ? td_tensor_wrapper(value) : NULL;
        if (object && td_py_queries(object, TD_PY_QUERIES_SYMBOLS))
            return object;
        x = value;
    }
    return NULL;
}
/* The tuple as the object shows its sizes; takes over the reference. */
static PyObject *as_symbols(PyObject *self, PyObject *tuple)
{
    PyObject *shown = tuple ? PyObject_CallMethod(self, "_symbols", "(O)", tuple) : NULL;
    Py_XDECREF(tuple);
    if (shown && !PyTuple_Check(shown)) {
        Py_CLEAR(shown);
        PyErr_Format(PyExc_TypeError, "_symbols() of a '%s' gave no tuple", Py_TYPE(self)->tp_name);
    }
    return shown;
}
static PyObject *symbols_of(PyObject *self, int ndim, const int64_t *made)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (int i = 0; tuple && i < ndim; i++) {
        PyObject *n = PyLong_FromLongLong(made[i]);
        if (n)
            PyTuple_SET_ITEM(tuple, i, n);
        else
            Py_CLEAR(tuple);
    }
    return as_symbols(self, tuple);
}
bool td_py_shows_others(PyObject *self)
{
    return td_py_queries(self, TD_PY_QUERIES_SIZES) || symbolic_object(self);
}
PyObject *td_py_shown(PyObject *self, int64_t number)
{
    PyObject *symbolic = symbolic_object(self);
    PyObject *shown = symbolic ? as_symbols(symbolic, Py_BuildValue("(L)", (long long)number)) : NULL;
    PyObject *first = shown ? PySequence_GetItem(shown, 0) : NULL;
    Py_XDECREF(shown);
    return first || PyErr_Occurred() ? first : PyLong_FromLongLong(number);
}
/* Its members are of several shapes, which a layout that is shown as strided has no symbol for. */
static bool has_no_shape(const td_tensor *x)
{
    const int layout = td_tensor_layout(x);
    const td_layout_kind *kind = TD_UNLIKELY(layout != TD_STRIDED) ? td_layout_describe(layout) : NULL;
    return kind && kind->flags & TD_LAYOUT_SHOWN_STRIDED;
}
/* Whether x's layout refuses to tell `what`: then the error is set. */
static bool refuses(const td_tensor *x, const char *what)
{
    const int layout = td_tensor_layout(x);
    const td_layout_kind *kind = TD_UNLIKELY(layout != TD_STRIDED) ? td_layout_describe(layout) : NULL;
    if (!kind || !kind->without_strides)
        return false;
    PyErr_Format(PyExc_RuntimeError, "%s tensors do not have %s", kind->without_strides, what);
    return true;
}
PyObject *td_py_strides(PyObject *self)
{
    td_tensor *x = td_py_x(self);
    if (has_no_shape(x))
        return PyErr_Format(PyExc_RuntimeError, "Internal error: NestedTensorImpl doesn't support strides. Please file an issue."), NULL;
    if (refuses(x, "strides"))
        return NULL;
    if (td_py_queries(self, TD_PY_QUERIES_STRIDES))
        return numbers(self, "sym_stride", td_tensor_strides(x));
    PyObject *symbolic = symbolic_object(self);
    if (symbolic)
        return symbols_of(symbolic, td_tensor_ndim(x), td_tensor_strides(x));
    PyObject *all = PyTuple_New(td_tensor_ndim(x));
    for (int i = 0; i < td_tensor_ndim(x) && all; i++)
        PyTuple_SET_ITEM(all, i, td_py_long_of_size(td_tensor_strides(x)[i]));
    return all;
}
PyObject *td_py_shape(PyObject *self)
{
    td_tensor *x = td_py_x(self);
    if (has_no_shape(x))
        return PyErr_Format(PyExc_RuntimeError, "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."), NULL;
    PyObject *symbolic = symbolic_object(self);
    if (!symbolic && !td_py_queries(self, TD_PY_QUERIES_SIZES))
        return td_py_size(td_tensor_ndim(x), td_tensor_sizes(x));
    PyObject *all = symbolic ? symbols_of(symbolic, td_tensor_ndim(x), td_tensor_sizes(x)) : numbers(self, "sym_size", td_tensor_sizes(x));
    PyObject *size = all ? PyObject_CallOneArg((PyObject *)&td_py_Size, all) : NULL;
    Py_XDECREF(all);
    return size;
}

int td_py_contiguous(PyObject *self, PyObject *format)
{
    int code = format && format != Py_None ? ((EnumObject *)format)->code : TD_CONTIGUOUS_FORMAT;
    if (td_py_queries(self, TD_PY_QUERIES_STRIDES)) {
        bool plain = code == TD_CONTIGUOUS_FORMAT;
        PyObject *answer = query(self, "aten", "is_contiguous", plain ? "default" : "memory_format", plain ? NULL : format);
        int is = !answer ? -1 : answer == Py_None ? 2 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
        if (is != 2)
            return is;
    }
    td_tensor *x = td_py_x(self);
    const td_layout_kind *kind = td_layout_describe(td_tensor_layout(x));
    if (refuses(x, "is_contiguous"))
        return -1;
    if (kind && kind->contiguous)
        return kind->contiguous(td_tensor_fields(x));
    if (code != TD_CHANNELS_LAST && code != TD_CHANNELS_LAST_3D)
        return td_tensor_is_contiguous(x);
    int rank = code == TD_CHANNELS_LAST ? 4 : 5;
    if (td_tensor_ndim(x) != rank)
        return 0;
    const int64_t *sizes = td_tensor_sizes(x), *strides = td_tensor_strides(x);
    int64_t expected = 1;
    for (int k = 0; k < rank; k++) {
        int d = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
        if (sizes[d] != 1 && strides[d] != expected)
            return 0;
        expected *= sizes[d];
    }
    return 1;
}

int td_py_device_of(PyObject *self, td_device *device)
{
    *device = td_tensor_device(td_py_x(self));
    if (!td_py_queries(self, TD_PY_QUERIES_DEVICE))
        return 0;
    PyObject *answer = query(self, "prim", "device", "default", NULL);
    int found = !answer ? -1 : Py_IS_TYPE(answer, &td_py_device_type) ? td_py_as_device(answer, device) : 0;
    if (!found)
        PyErr_Format(PyExc_RuntimeError, "device returned invalid type %s, expected Device", Py_TYPE(answer)->tp_name);
    Py_XDECREF(answer);
    return found > 0 ? 0 : -1;
}
/* For autocast. Whose class doesn't answer is where it was made. */
static int type_of_object(const td_tensor *x)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = td_tensor_wrapper(x);
    td_device device = td_tensor_device(x);
    if (self && td_py_device_of(self, &device) < 0) {
        PyErr_Clear();
        device = td_tensor_device(x);
    }
    PyGILState_Release(state);
    return device.type;
}
/* For contiguous(), which composites call, too. */
static int contiguous_object(const td_tensor *x, int format)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = td_tensor_wrapper(x);
    int is = self && td_py_queries(self, TD_PY_QUERIES_STRIDES) ? td_py_contiguous(self, td_py_memory_format(format)) : 2;
    if (is < 0)
        td_py_capture();
    PyGILState_Release(state);
    return is;
}
/* _query_strides(overload, x[, argument]): what x's class says, None where x is as it was made */
static PyObject *query_strides(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function, *x, *argument = NULL;
    if (!PyArg_ParseTuple(args, "OO!|O:_query_strides", &function, &td_py_Tensor, &x, &argument))
        return NULL;
    return td_py_queries(x, TD_PY_QUERIES_STRIDES) ? td_py_dispatch_query(function, x, argument) : Py_NewRef(Py_None);
}
/* _dispatched(overload, x, argument): what x's __torch_dispatch__ makes of the call; NotImplemented where x has none, or none is to be called now */
static PyObject *dispatched(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function, *x, *argument;
    if (!PyArg_ParseTuple(args, "OO!O:_dispatched", &function, &td_py_Tensor, &x, &argument))
        return NULL;
    if (!td_tensor_is_python(td_py_x(x)) || td_thread_masks().exclude & TD_KEYSET(TD_KEY_PYTHON))
        Py_RETURN_NOTIMPLEMENTED;
    return td_py_dispatch_query(function, x, argument);
}
static PyMethodDef functions[] = {{"_query_strides", query_strides, METH_VARARGS, NULL}, {"_dispatched", dispatched, METH_VARARGS, NULL}, {NULL}};

int td_py_metadata_init(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) < 0)
        return -1;
    td_autocast_set_type_of(type_of_object);
    td_foreign_contiguous(contiguous_object);
    return 0;
}

static int shown_layout(const td_tensor *x)
{
    const int layout = td_tensor_shown_layout(x);
    const td_layout_kind *kind = layout == TD_STRIDED ? NULL : td_layout_describe(layout);
    return kind && kind->flags & TD_LAYOUT_SHOWN_STRIDED ? TD_STRIDED : layout;
}
int td_py_layout_of(PyObject *self)
{
    if (!td_py_queries(self, TD_PY_QUERIES_LAYOUT))
        return shown_layout(td_py_x(self));
    PyObject *answer = query(self, "prim", "layout", "default", NULL);
    int64_t code = -1;
    if (answer && !td_py_as_layout(answer, &code) && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "layout returned invalid type %s, expected Layout", Py_TYPE(answer)->tp_name);
    Py_XDECREF(answer);
    return PyErr_Occurred() ? -1 : (int)code;
}

int td_py_queries_of(PyObject *policy, bool device, bool layout)
{
    int queries = (device ? TD_PY_QUERIES_DEVICE : 0) | (layout ? TD_PY_QUERIES_LAYOUT : 0);
    if (!policy || policy == Py_None)
        return queries;
    const char *word = PyUnicode_Check(policy) ? PyUnicode_AsUTF8(policy) : NULL;
    if (word && !strcmp(word, "symbols"))
        return ever_symbolic = true, queries | TD_PY_QUERIES_SYMBOLS;
    if (word && !strcmp(word, "strides"))
        return queries | TD_PY_QUERIES_STRIDES;
    if (word && !strcmp(word, "sizes"))
        return queries | TD_PY_QUERIES_STRIDES | TD_PY_QUERIES_SIZES;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "Unknown sizes_strides_policy: %S; expected 'strides' or 'sizes'", policy);
    return -1;
}
