/* x[index] and x[index] = value, by NumPy's rules as PyTorch has them.
 *
 * One pass over the items does all that is basic (ints, slices, None, Ellipsis) and collects what is not (masks, index
 * tensors, lists).  Where no gradient has to flow, the pass only computes a geometry and one view is made at its end;
 * otherwise each item is an operator, so that each leaves its node.  What was collected then goes to index or
 * index_put_.  Negative steps are views too: strides are signed. */
#include "calls_csrc_indexing.h"
#include "binding.h"
#include <tede/layout.h>
#include <math.h>

typedef struct IndexState {
    PyObject  *index;                    /* plain: see plain_index() (owned) */
    td_tensor *x;                        /* recording: the tensor so far (owned); else the one that is indexed */
    bool       record, changed, advanced;
    int        from, ndim;               /* the next of x's dimensions; how many the view has so far */
    int64_t    sizes[TD_MAX_DIMS + 8], strides[TD_MAX_DIMS + 8], offset;
    td_tensor *indices[TD_MAX_DIMS + 8]; /* per entry of index(): TD_NONE or an owned index tensor */
    int        entries;
    const int64_t *x_sizes, *x_strides;
    int        x_ndim;
} IndexState;

/* ---- items made plain
 *
 * An __index__, an __array__ or a sequence's __getitem__ may run any Python code, which may change the tensor that is indexed, or the
 * index. So all of that is done first: what is left is None, Ellipsis, bools, ints, slices of ints, and tensors. */

static void *bad_item(PyObject *item)
{
    return PyErr_Format(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
                        "indices (got %s)", Py_TYPE(item)->tp_name);
}

static bool is_plain_bound(PyObject *bound) { return bound == Py_None || PyLong_Check(bound); }
static bool is_plain(PyObject *item)
{
    if (PySlice_Check(item)) {
        PySliceObject *slice = (PySliceObject *)item;
        return is_plain_bound(slice->start) && is_plain_bound(slice->stop) && is_plain_bound(slice->step);
    }
    return PyLong_Check(item) || item == Py_None || item == Py_Ellipsis || td_py_is_tensor(item);
}

static PyObject *plain_bound(PyObject *bound)
{
    return td_py_is_symbolic(bound) ? td_py_number_behind(bound) : Py_NewRef(bound);
}
static PyObject *plain_slice(PyObject *given)
{
    Py_ssize_t bounds[3];
    TD_PY_AUTO PyObject *from = plain_bound(((PySliceObject *)given)->start);
    TD_PY_AUTO PyObject *to = from ? plain_bound(((PySliceObject *)given)->stop) : NULL;
    TD_PY_AUTO PyObject *by = to ? plain_bound(((PySliceObject *)given)->step) : NULL;
    TD_PY_AUTO PyObject *slice = by ? PySlice_New(from, to, by) : NULL;
    if (!slice)
        return NULL;
    if (PySlice_Unpack(slice, &bounds[0], &bounds[1], &bounds[2]) < 0)
        return NULL;
    TD_PY_AUTO PyObject *start = PyLong_FromSsize_t(bounds[0]);
    TD_PY_AUTO PyObject *stop = PyLong_FromSsize_t(bounds[1]);
    TD_PY_AUTO PyObject *step = PyLong_FromSsize_t(bounds[2]);
    return start && stop && step ? PySlice_New(start, stop, step) : NULL;
}

/* An index tensor of a list or an array: a mask where it holds bool or uint8, integers of 64 bits made of any other numbers. */
static PyObject *plain_sequence(PyObject *item)
{
    td_device cpu = {TD_CPU, -1};
    bool array = td_py_is_numpy_array(item);
    td_tensor *index = array ? td_py_from_numpy(item) : td_py_tensor_from_data(item, TD_DTYPE_NONE, cpu);
    td_dtype dtype = index ? td_tensor_dtype(index) : TD_I64;
    if (dtype != TD_I64 && dtype != TD_BOOL && dtype != TD_U8) {
        td_tensor *inferred = index;
        index = array ? td_to(inferred, TD_I64) : td_py_tensor_from_data(item, TD_I64, cpu);
        td_tensor_release(inferred);
    }
    index = td_py_lifted(index);        /* a mode that takes over the call takes numbers that the program wrote down by their own operator */
    return index ? td_py_wrap(index) : PyErr_Occurred() ? NULL : td_py_raise();
}

static PyObject *plain_item(PyObject *item)
{
    if (PySlice_Check(item) && !is_plain(item))
        return plain_slice(item);
    if (is_plain(item))
        return Py_NewRef(item);
    if (td_py_is_numpy_scalar(item)) {
        PyObject *number = td_py_numpy_item(item);
        if (!number || (PyLong_Check(number) && !PyBool_Check(number)))
            return number;
        Py_DECREF(number);
    } else if (PySequence_Check(item)) {
        return plain_sequence(item);
    }
    int64_t i;
    int found = PyFloat_Check(item) ? 0 : td_py_as_int(item, &i, false);
    return found > 0 ? PyLong_FromLongLong(i) : found < 0 ? NULL : bad_item(item);
}

/* Lists that hold sequences, slices and the like mean what tuples mean (an old rule of NumPy). */
static bool like_tuple(PyObject *index)
{
    if (PyTuple_Check(index))
        return true;
    if (!PyList_Check(index) || PyList_GET_SIZE(index) >= 32)
        return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(index); i++) {
        PyObject *item = PyList_GET_ITEM(index, i);
        if (td_py_is_tensor(item) || PyList_Check(item) || PyTuple_Check(item) || PySlice_Check(item) ||
            item == Py_Ellipsis || item == Py_None || td_py_is_numpy_array(item))
            return true;
    }
    return false;
}

/* The index with plain items, in a tuple if it is one or means one: a new reference. */
static PyObject *plain_index(PyObject *index)
{
    if (!like_tuple(index))
        return plain_item(index);
    PyObject *tuple = PyList_Check(index) ? PyList_AsTuple(index) : Py_NewRef(index);
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(tuple) : 0, known = 0;
    while (known < n && is_plain(PyTuple_GET_ITEM(tuple, known)))
        known++;
    if (known == n)
        return tuple;
    PyObject *plain = PyTuple_New(n);
    for (Py_ssize_t i = 0; plain && i < n; i++) {
        PyObject *item = plain_item(PyTuple_GET_ITEM(tuple, i));
        if (item)
            PyTuple_SET_ITEM(plain, i, item);
        else
            Py_CLEAR(plain);
    }
    Py_DECREF(tuple);
    return plain;
}

/* ---- one pass over the items */

static void index_end(IndexState *w)
{
    for (int i = 0; i < w->entries; i++)
        td_tensor_release(w->indices[i]);
    if (w->record)
        td_tensor_release(w->x);
    Py_XDECREF(w->index);
}

/* Recording: go on with the next tensor. */
static int next(IndexState *w, td_tensor *made)
{
    if (!made)
        return td_py_raise(), -1;
    td_tensor_release(w->x);
    w->x = made;
    w->x_sizes = td_tensor_sizes(made), w->x_strides = td_tensor_strides(made);
    w->x_ndim = td_tensor_ndim(made);
    return 0;
}

static bool full(const IndexState *w, int more)
{
    if (w->ndim + more <= TD_MAX_DIMS && w->entries + more <= TD_MAX_DIMS)
        return false;
    PyErr_SetString(PyExc_IndexError, "too many dimensions in the result of indexing");
    return true;
}

/* A dimension that stays as it is. When recording, `ndim` is also where we are in x. */
static void keep(IndexState *w)
{
    int d = w->record ? w->ndim : w->from;
    w->sizes[w->ndim] = w->x_sizes[d], w->strides[w->ndim] = w->x_strides[d];
    w->ndim++, w->from++;
    w->indices[w->entries++] = TD_NONE;
}
static int64_t size_here(const IndexState *w)
{
    return w->x_sizes[w->record ? w->ndim : w->from];
}

static int take_int(IndexState *w, int64_t i)
{
    if (TD_UNLIKELY((w->record ? w->ndim : w->from) >= w->x_ndim))
        return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", w->x_ndim), -1;
    int64_t n = size_here(w);
    if (TD_UNLIKELY(i < -n || i >= n)) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, w->from,
                     (long long)n);
        return -1;
    }
    w->changed = true;
    if (w->record) {
        w->from++;
        return next(w, td_select_int(w->x, w->ndim, i));
    }
    w->offset += (i < 0 ? i + n : i) * w->x_strides[w->from++];
    return 0;
}

static int take_slice(IndexState *w, PyObject *slice)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return -1;
    const int64_t first = start, end = stop;
    int64_t n = size_here(w);
    int64_t count = PySlice_AdjustIndices(n, &start, &stop, step);
    const bool seen = w->record && td_py_seen();        /* as it is written: a graph may be called with other sizes */
    if (start == 0 && step == 1 && count == n && !seen) {
        keep(w);
        return 0;
    }
    w->changed = true;
    if (w->record) {
        td_tensor *made;
        if (step > 0) {
            int64_t from = seen ? first : start, to = seen ? end : stop < start ? start : stop;
            made = td_slice_tensor(w->x, w->ndim, &from, &to, step);
        } else {
            /* Backwards: an as_strided of the same geometry, which autograd can replay. */
            int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS], offset = td_tensor_offset(w->x);
            memcpy(sizes, w->x_sizes, (size_t)w->x_ndim * sizeof *sizes);
            memcpy(strides, w->x_strides, (size_t)w->x_ndim * sizeof *strides);
            if (count)
                offset += start * strides[w->ndim];
            sizes[w->ndim] = count, strides[w->ndim] *= step;
            made = td_as_strided(w->x, w->x_ndim, sizes, w->x_ndim, strides, &offset);
        }
        if (next(w, made) < 0)
            return -1;
        keep(w);
        return 0;
    }
    if (count)
        w->offset += start * w->x_strides[w->from];
    w->sizes[w->ndim] = count, w->strides[w->ndim] = w->x_strides[w->from] * step;
    w->ndim++, w->from++;
    w->indices[w->entries++] = TD_NONE;
    return 0;
}

/* A new dimension of one element. */
static int take_none(IndexState *w)
{
    if (full(w, 1))
        return -1;
    w->changed = true;
    if (w->record) {
        if (next(w, td_unsqueeze(w->x, w->ndim)) < 0)
            return -1;
    }
    int here = w->record ? w->ndim + 1 : w->from;
    w->sizes[w->ndim] = 1;
    w->strides[w->ndim] = here < w->x_ndim ? w->x_sizes[here] * w->x_strides[here] : 1;
    w->ndim++;
    w->indices[w->entries++] = TD_NONE;
    return 0;
}

/* True or False: a new dimension that is kept or emptied. */
static int take_bool(IndexState *w, bool on)
{
    if (take_none(w) < 0)
        return -1;
    td_tensor *index = td_tensor_new(1, (int64_t[]){on}, TD_I64, (td_device){TD_CPU, -1});
    if (!index)
        return td_py_raise(), -1;
    if (on)
        *(int64_t *)td_tensor_data(index) = 0;
    w->indices[w->entries - 1] = index;
    w->advanced = true;
    return 0;
}

/* Takes over the index tensor. */
static int take_tensor(IndexState *w, td_tensor *index)
{
    td_dtype dtype = td_tensor_dtype(index);
    int ndim = td_tensor_ndim(index);
    bool mask = dtype == TD_BOOL || dtype == TD_U8;
    if (ndim == 0 && (mask || td_dtype_is_integral(dtype))) {
        td_scalar value;
        int failed = td_py_item(index, &value);
        td_tensor_release(index);
        if (failed)
            return td_py_raise(), -1;
        return mask ? take_bool(w, td_scalar_bool(value)) : take_int(w, td_scalar_int(value));
    }
    if (!mask && !td_dtype_is_integral(dtype)) {
        td_tensor_release(index);
        PyErr_SetString(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors");
        return -1;
    }
    int consumed = mask ? ndim : 1, left = (w->record ? w->x_ndim - w->ndim : w->x_ndim - w->from);
    if (consumed > left) {
        td_tensor_release(index);
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", w->x_ndim);
        return -1;
    }
    for (int i = 0; i < consumed; i++)
        keep(w);
    w->entries -= consumed;
    w->indices[w->entries++] = index;
    w->advanced = true;
    return 0;
}

static int take(IndexState *w, PyObject *item, int specified)
{
    if (item == Py_None)
        return take_none(w);
    if (item == Py_Ellipsis) {
        int here = w->record ? w->ndim : w->from;
        for (int rest = w->x_ndim - here - specified; rest > 0; rest--)
            keep(w);
        return 0;
    }
    if (PyBool_Check(item))
        return take_bool(w, item == Py_True);
    bool needs_dimension = PyLong_Check(item) || PySlice_Check(item);
    if (needs_dimension) {
        int here = w->record ? w->ndim : w->from;
        if (w->x_ndim == 0 && PySlice_Check(item))
            return PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor."), -1;
        if (here >= w->x_ndim)
            return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", w->x_ndim), -1;
        if (PySlice_Check(item))
            return take_slice(w, item);
        int64_t i;
        return td_py_as_int(item, &i, true) < 0 ? -1 : take_int(w, i);
    }
    return take_tensor(w, td_tensor_retain(td_py_x(item)));
}

/* How many of x's dimensions a plain item stands for. */
static int dimensions(PyObject *item)
{
    if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item))
        return 0;
    if (td_py_is_tensor(item)) {
        td_dtype dtype = td_tensor_dtype(td_py_x(item));
        return dtype == TD_BOOL || dtype == TD_U8 ? td_tensor_ndim(td_py_x(item)) : 1;
    }
    return 1;
}

static int apply_items(IndexState *w, PyObject *self, PyObject *index)
{
    if (!(w->index = index = plain_index(index)))
        return -1;
    td_tensor *x = td_py_x(self);
    w->record = !td_is_plain(x) || !td_tensor_storage(x);
    w->x = w->record ? td_tensor_retain(x) : x;
    w->changed = w->advanced = false;
    w->from = w->ndim = w->entries = 0;
    w->offset = 0;
    w->x_sizes = td_tensor_sizes(x), w->x_strides = td_tensor_strides(x);
    w->x_ndim = td_tensor_ndim(x);
    int failed = 0, original = w->x_ndim;
    if (PyTuple_Check(index)) {
        Py_ssize_t n = PyTuple_GET_SIZE(index);
        PyObject **items = ((PyTupleObject *)index)->ob_item;
        int specified = 0;
        for (Py_ssize_t i = 0; i < n; i++)
            specified += PyLong_CheckExact(items[i]) || PySlice_Check(items[i]) ? 1 : dimensions(items[i]);
        if (specified > original) {
            PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", original);
            failed = -1;
        }
        bool had_ellipsis = false;
        for (Py_ssize_t i = 0; i < n && !failed; i++) {
            PyObject *item = items[i];
            if (item == Py_Ellipsis) {
                int after = 0;
                for (Py_ssize_t k = i + 1; k < n; k++)
                    after += dimensions(items[k]);
                if (!had_ellipsis)
                    failed = take(w, item, after);
                had_ellipsis = true;
            } else {
                failed = take(w, item, 0);
            }
        }
    } else if (PyLong_Check(index) && !PyBool_Check(index) && original == 0) {
        PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                        "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
        failed = -1;
    } else {
        failed = take(w, index, 0);
    }
    if (failed) {
        index_end(w);
        return -1;
    }
    while ((w->record ? w->ndim : w->from) < w->x_ndim)
        keep(w);
    return 0;
}

/* The view that the basic part describes: a new reference. */
static td_tensor *view_of(IndexState *w)
{
    if (w->record)
        return w->changed || w->advanced ? td_tensor_retain(w->x) : td_alias(w->x);
    if (!w->changed && w->advanced)
        return td_tensor_retain(w->x);
    return td_tensor_view(w->x, w->ndim, w->sizes, w->strides, w->offset);
}

static int64_t elements_of(const IndexState *w)
{
    int64_t n = 0;
    for (int i = 0; i < w->entries; i++)
        n += w->indices[i] == TD_NONE ? 0 : td_tensor_numel(w->indices[i]);
    return n;
}
static td_tensor *look_up(IndexState *w, td_tensor *view)
{
    int n = w->entries;
    while (n && w->indices[n - 1] == TD_NONE)
        n--;
    td_tensor *found;
    TD_PY_WORK(td_tensor_numel(view) + elements_of(w) > TD_PY_LONG, found = td_index_tensor(view, n, w->indices));
    return found;
}

enum { MOST_INTS = 8 };

/* x[i] and x[i, j, ...] with nothing but ints; false leaves everything else, and the errors, to apply_items(). */
static inline bool ints_only(PyObject *const *items, Py_ssize_t n, int64_t *ints)
{
    if (n < 1 || n > MOST_INTS)
        return false;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (!PyLong_CheckExact(items[k]))
            return false;
#if PY_VERSION_HEX < 0x030c0000
        Py_ssize_t size = Py_SIZE(items[k]);        /* of one digit, mostly: read without a call */
        if (TD_LIKELY(size >= -1 && size <= 1)) {
            ints[k] = size * (int64_t)((PyLongObject *)items[k])->ob_digit[0];
            continue;
        }
#endif
        int overflow;
        ints[k] = PyLong_AsLongLongAndOverflow(items[k], &overflow);
        if (overflow)
            return false;
    }
    return true;
}

static bool any_takes_over(PyObject *index, int depth)
{
    bool takes = td_py_has_override(index), several = depth && (PyTuple_Check(index) || PyList_Check(index));
    for (Py_ssize_t i = 0; several && i < PySequence_Fast_GET_SIZE(index) && !takes; i++)
        takes = any_takes_over(PySequence_Fast_GET_ITEM(index, i), depth - 1);
    return takes;
}

/* Whether an index, or one of several, or one in a list among those (a dimension of several first-class ones), takes the call over. */
static bool index_takes_over(PyObject *index) { return any_takes_over(index, 2); }

PyObject *td_py_getitem(PyObject *self, PyObject *index)
{
    if (TD_UNLIKELY(td_py_taken_over(self)))
        return td_py_override_method("__getitem__", (PyObject *[]){self, index}, 2);
    td_tensor *x = td_py_x(self);
    bool tuple = PyTuple_CheckExact(index);
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(index) : 1;
    int64_t ints[MOST_INTS];
    if (ints_only(tuple ? ((PyTupleObject *)index)->ob_item : &index, n, ints)) {
        td_tensor *at = td_tensor_at(x, (int)n, ints);
        if (TD_LIKELY(at != NULL))
            return td_py_wrap(at);
    }
    if (TD_UNLIKELY(index_takes_over(index)))
        return td_py_override_method("__getitem__", (PyObject *[]){self, index}, 2);
    IndexState w;
    if (apply_items(&w, self, index) < 0)
        return NULL;
    td_tensor *view = view_of(&w), *result = view;
    if (TD_UNLIKELY(w.advanced) && view) {
        result = look_up(&w, view);
        td_tensor_release(view);
        index_end(&w);
        return td_py_wrap(result);
    }
    index_end(&w);
    return td_py_wrap(result);
}

PyObject *td_py_getitem_int(PyObject *self, Py_ssize_t i)
{
    PyObject *index = PyLong_FromSsize_t(i), *result = index ? td_py_getitem(self, index) : NULL;
    Py_XDECREF(index);
    return result;
}

/* Leading dimensions of one element don't count in an assignment. */
static td_tensor *without_leading_ones(td_tensor *value, int ndim)
{
    int n = td_tensor_ndim(value), drop = 0;
    const int64_t *sizes = td_tensor_sizes(value);
    while (drop < n && n - drop > ndim && sizes[drop] == 1)
        drop++;
    return drop ? td_view(value, n - drop, sizes + drop) : td_tensor_retain(value);
}

/* Whether a number becomes infinite in a half: assigned, as in PyTorch, it isn't refused. */
static bool is_large(td_dtype dtype, td_scalar number)
{
    return (dtype == TD_F16 || dtype == TD_BF16) && number.kind != TD_SCALAR_COMPLEX && fabs(td_scalar_double(number)) > 65504;
}

/* Whether elements of x share memory; a number is written to such a tensor as a tensor is, which is refused. */
static bool is_expanded(const td_tensor *x)
{
    for (int d = 0; d < td_tensor_ndim(x); d++)
        if (td_tensor_sizes(x)[d] > 1 && td_tensor_strides(x)[d] == 0)
            return td_tensor_numel(x) > 0;
    return false;
}

/* What is assigned: a tensor, or a number that needs none (*operand NULL).  0, or -1. */
static int assigned(td_tensor *x, PyObject *value, td_tensor **operand, td_scalar *number)
{
    *operand = NULL;
    if (td_py_is_tensor(value))
        return *operand = td_tensor_retain(td_py_x(value)), 0;
    int found = td_py_as_scalar(value, number, false);
    if (!found)
        PyErr_Format(PyExc_TypeError, "can't assign a %s to a torch.%sTensor", Py_TYPE(value)->tp_name, td_dtype_title(td_tensor_dtype(x)));
    if (found <= 0 || !is_large(td_tensor_dtype(x), *number))
        return found > 0 ? 0 : -1;
    td_tensor *wide = td_full(0, NULL, *number, TD_F64, (td_device){TD_CPU, -1});
    *operand = wide ? td_to(wide, td_tensor_dtype(x)) : NULL;
    td_tensor_release(wide);
    return *operand ? 0 : (td_py_raise(), -1);
}

/* Indices that make a view: a copy to it, or a fill. */
static int write_view(td_tensor *view, td_tensor *operand, td_scalar number)
{
    const bool is_long = td_tensor_numel(view) > TD_PY_LONG;
    const int n = td_tensor_ndim(view);
    int failed;
    if (!operand) {
        TD_PY_WORK(is_long, failed = td_fill_scalar_(view, number));
        return failed;
    }
    td_tensor *shaped = without_leading_ones(operand, n);
    if (shaped && (td_tensor_ndim(shaped) != n || memcmp(td_tensor_sizes(shaped), td_tensor_sizes(view), sizeof(int64_t) * (size_t)n))) {
        td_tensor *wide = td_expand(shaped, n, td_tensor_sizes(view));      /* it may be the view itself */
        td_tensor_release(shaped);
        shaped = wide;
    }
    TD_PY_WORK(is_long, failed = td_copy_from_(view, shaped, false));
    td_tensor_release(shaped);
    return failed;
}

/* Masks and index tensors, after what is basic has made a view. */
static int write_indexed(const IndexState *w, td_tensor *view, td_tensor *operand)
{
    int n = w->entries, failed;
    while (n && w->indices[n - 1] == TD_NONE)
        n--;
    td_tensor *shaped = without_leading_ones(operand, 0);
    TD_PY_WORK(td_tensor_numel(view) + elements_of(w) > TD_PY_LONG, failed = td_index_put_(view, n, w->indices, shaped, false));
    td_tensor_release(shaped);
    return failed;
}

/* x[i, ...] = value of a nested tensor: a component is a view of its memory. */
static int assign_to_component(PyObject *self, PyObject *index, PyObject *value)
{
    const bool several = PyTuple_CheckExact(index) && PyTuple_GET_SIZE(index) > 0;
    PyObject *first = several ? PyTuple_GET_ITEM(index, 0) : index;
    if (!PyIndex_Check(first) || PyBool_Check(first))
        return PyErr_Format(PyExc_NotImplementedError, "a nested tensor is assigned to by component: the first index is a number"), -1;
    if (td_grad_enabled() && td_requires_grad(td_py_x(self)))
        return PyErr_Format(PyExc_NotImplementedError, "a component of a nested tensor that requires a gradient isn't assigned to"), -1;
    PyObject *component = PyObject_GetItem(self, first);
    PyObject *rest = several ? PyTuple_GetSlice(index, 1, PyTuple_GET_SIZE(index)) : PyTuple_New(0);
    const int status = component && rest ? PyObject_SetItem(component, rest, value) : -1;
    Py_XDECREF(component);
    Py_XDECREF(rest);
    return status;
}

int td_py_setitem(PyObject *self, PyObject *index, PyObject *value)
{
    if (!value)
        return PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items"), -1;
    if (td_py_taken_over(self) || (TD_UNLIKELY(!td_py_is_exact(value)) && td_py_has_override(value)) || index_takes_over(index)) {
        PyObject *done = td_py_override_method("__setitem__", (PyObject *[]){self, index, value}, 3);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    td_tensor *operand;
    td_scalar number = {0};
    const int layout = td_tensor_layout(td_py_x(self));
    const td_layout_kind *kind = TD_UNLIKELY(layout != TD_STRIDED) ? td_layout_describe(layout) : NULL;
    if (kind && td_tensor_keys(td_py_x(self)) & TD_KEYSET(TD_KEY_NESTED))
        return assign_to_component(self, index, value);
    if (kind)
        return PyErr_Format(PyExc_TypeError, kind->flags & TD_LAYOUT_ZEROS ? "Cannot assign to a sparse tensor" :
                            "Cannot assign to a tensor of layout %s", kind->name), -1;
    if (assigned(td_py_x(self), value, &operand, &number) < 0)
        return -1;
    IndexState w;
    if (index == Py_False || apply_items(&w, self, index == Py_True ? Py_None : index) < 0) {
        td_tensor_release(operand);
        return index == Py_False ? 0 : -1;      /* False selects nothing, whatever the value's shape */
    }
    td_tensor *x = td_py_x(self);               /* converting the index may have replaced it */
    td_tensor *view = !w.changed && !w.advanced ? td_tensor_retain(x) : view_of(&w);
    if (view && !operand && (w.advanced || is_expanded(view) || td_tensor_numel(view) == 0) &&
        !(operand = td_full(0, NULL, number, td_tensor_dtype(x), (td_device){TD_CPU, -1}))) {
        td_tensor_release(view);
        view = NULL;
    }
    int failed = !view ? -1 : w.advanced ? write_indexed(&w, view, operand) : write_view(view, operand, number);
    if (failed)
        td_py_raise();
    td_tensor_release(view);
    td_tensor_release(operand);
    index_end(&w);
    return failed ? -1 : 0;
}
