/* vmap, grad and jvp levels, and tangents, for tede.func and tede.autograd.forward_ad, which are written in Python over these. */
#include "binding.h"
#include <tede/transforms.h>

static PyObject *enter(PyObject *m, PyObject *args)
{
    (void)m;
    int kind, randomness = 0;
    long long size = 0;
    if (!PyArg_ParseTuple(args, "i|Li:_transform_enter", &kind, &size, &randomness))
        return NULL;
    int level = td_transform_enter((td_transform)kind, size, (td_randomness)randomness);
    return level < 0 ? td_py_raise() : PyLong_FromLong(level);
}
static PyObject *leave(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_transform_leave();
    Py_RETURN_NONE;
}
static PyObject *level(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLong(td_transform_level());
}
/* (kind, batch's size, randomness) of the innermost level */
static PyObject *now(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return Py_BuildValue("(iLi)", (int)td_transform_kind(), (long long)td_transform_size(), (int)td_transform_randomness());
}
/* _transform_wrap(x, dim=-1) */
static PyObject *wrap(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x;
    int dim = -1;
    if (!PyArg_ParseTuple(args, "O!|i:_transform_wrap", &td_py_Tensor, &x, &dim))
        return NULL;
    td_tensor *made = td_transform_wrap(td_py_x(x), dim);
    return made ? td_py_wrap(made) : td_py_raise();
}
/* _transform_unwrap(x, level=0) -> (value, dim) */
static PyObject *unwrap(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x;
    int which = 0, dim;
    if (!PyArg_ParseTuple(args, "O!|i:_transform_unwrap", &td_py_Tensor, &x, &which))
        return NULL;
    td_tensor *value = td_transform_unwrap(td_py_x(x), which, &dim);
    if (value == td_py_x(x)) {
        td_tensor_release(value);
        return Py_BuildValue("(Oi)", x, dim);
    }
    PyObject *o = value ? td_py_wrap(value) : td_py_raise();
    return o ? Py_BuildValue("(Ni)", o, dim) : NULL;
}
static PyObject *wrapper_level(PyObject *m, PyObject *x)
{
    (void)m;
    return PyLong_FromLong(td_py_is_tensor(x) ? td_wrapper_level(td_py_x(x)) : 0);
}
static PyObject *is_batched(PyObject *m, PyObject *x)
{
    (void)m;
    return PyBool_FromLong(td_py_is_tensor(x) && td_wrapper_is_batch(td_py_x(x)));
}

/* A call below the innermost level: what runs a Function's own vmap rule. */
static PyObject *below(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *function = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    PyObject *rest = function ? PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)) : NULL;
    if (!rest)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_transform_below() needs a function");
    td_lowered before = td_transform_lower();
    PyObject *result = PyObject_Call(function, rest, NULL);
    td_transform_raise(before);
    Py_DECREF(rest);
    return result;
}

/* ---- the fallback loop notifies Python, which warns */

static PyObject *warn_about;
static void on_fallback(const char *op)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *result = warn_about ? PyObject_CallFunction(warn_about, "s", op) : NULL;
    if (!result)
        td_py_capture();        /* the loop doesn't begin then */
    Py_XDECREF(result);
    PyErr_Restore(kind, value, trace);
    PyGILState_Release(state);
}
static PyObject *set_fallback_hook(PyObject *m, PyObject *hook)
{
    (void)m;
    Py_XSETREF(warn_about, hook == Py_None ? NULL : Py_NewRef(hook));
    td_vmap_on_fallback(warn_about ? on_fallback : NULL);
    Py_RETURN_NONE;
}
static PyObject *fallback_count(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLongLong(td_vmap_fallback_count());
}

/* ---- forward mode */

static PyObject *make_dual(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x, *tangent;
    if (!PyArg_ParseTuple(args, "O!O!:_make_dual", &td_py_Tensor, &x, &td_py_Tensor, &tangent))
        return NULL;
    td_tensor *dual = td_make_dual(td_py_x(x), td_py_x(tangent));
    return dual ? td_py_wrap(dual) : td_py_raise();
}
/* _unpack_dual(x) -> (primal, tangent or None) */
static PyObject *unpack_dual(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "unpack_dual(): a Tensor is needed, not %s", Py_TYPE(x)->tp_name);
    td_error_clear();
    td_tensor *tangent = td_tangent(td_py_x(x));
    if (!tangent)           /* none, or an error on the way to a view's */
        return td_error_code() != TD_OK ? td_py_raise() : Py_BuildValue("(OO)", x, Py_None);
    td_tensor *primal = td_primal(td_py_x(x));
    PyObject *p = primal ? td_py_wrap(primal) : td_py_raise();
    return p ? Py_BuildValue("(NN)", p, td_py_wrap(td_tensor_retain(tangent))) : NULL;
}
/* _set_tangent(x, tangent or None) */
static PyObject *set_tangent(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *x, *tangent;
    if (!PyArg_ParseTuple(args, "O!O:_set_tangent", &td_py_Tensor, &x, &tangent))
        return NULL;
    if (td_set_tangent(td_py_x(x), td_py_is_tensor(tangent) ? td_py_x(tangent) : NULL) != 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *tangent_of(PyObject *m, PyObject *x)
{
    (void)m;
    td_error_clear();
    td_tensor *tangent = td_py_is_tensor(x) ? td_tangent(td_py_x(x)) : NULL;
    if (!tangent)
        return td_error_code() != TD_OK ? td_py_raise() : Py_NewRef(Py_None);
    return td_py_wrap(td_tensor_retain(tangent));
}

static PyObject *end_dual_level(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_end_dual_level();
    Py_RETURN_NONE;
}
static PyObject *is_forward_enabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_forward_enabled());
}
static PyObject *set_forward_enabled(PyObject *m, PyObject *on)
{
    (void)m;
    return td_py_switch(td_set_forward_enabled, on);
}
/* requires_grad_ for the inputs of a level, where programs themselves may not call it. */
static PyObject *require_grad(PyObject *m, PyObject *x)
{
    (void)m;
    if (!td_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "a Tensor is needed, not %s", Py_TYPE(x)->tp_name);
    if (td_set_requires_grad(td_py_x(x), true) != 0)
        return td_py_raise();
    return Py_NewRef(x);
}

static PyMethodDef functions[] = {
    {"_transform_enter", enter, METH_VARARGS, NULL},
    {"_transform_leave", leave, METH_NOARGS, NULL},
    {"_transform_level", level, METH_NOARGS, NULL},
    {"_transform_now", now, METH_NOARGS, NULL},
    {"_transform_wrap", wrap, METH_VARARGS, NULL},
    {"_transform_unwrap", unwrap, METH_VARARGS, NULL},
    {"_transform_below", below, METH_VARARGS, NULL},
    {"_wrapper_level", wrapper_level, METH_O, NULL},
    {"_is_batched", is_batched, METH_O, NULL},
    {"_vmap_fallback_hook", set_fallback_hook, METH_O, NULL},
    {"_vmap_fallback_count", fallback_count, METH_NOARGS, NULL},
    {"_make_dual", make_dual, METH_VARARGS, NULL},
    {"_unpack_dual", unpack_dual, METH_O, NULL},
    {"_set_tangent", set_tangent, METH_VARARGS, NULL},
    {"_end_dual_level", end_dual_level, METH_NOARGS, NULL},
    {"_is_forward_enabled", is_forward_enabled, METH_NOARGS, NULL},
    {"_set_forward_enabled", set_forward_enabled, METH_O, NULL},
    {"_require_grad", require_grad, METH_O, NULL},
    {"_tangent", tangent_of, METH_O, NULL},
    {NULL},
};
int td_py_transforms_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
