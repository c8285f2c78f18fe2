/* autograd.backward and grad, and the thread's gradient modes (no_grad, enable_grad, inference_mode).
 *
 * Backward passes give up the lock; hooks and Python Functions take it again. */
#include "binding.h"
#include <tede/transforms.h>

/* ---- modes */

static PyObject *is_grad_enabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_grad_enabled());
}
static PyObject *set_grad_enabled(PyObject *m, PyObject *on)
{
    (void)m;
    if (!PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s",
                            Py_TYPE(on)->tp_name);
    return PyBool_FromLong(td_set_grad_enabled(on == Py_True));
}
static PyObject *is_inference_mode_enabled(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyBool_FromLong(td_inference_mode());
}
static PyObject *set_inference_mode(PyObject *m, PyObject *on)
{
    (void)m;
    return td_py_switch(td_set_inference_mode, on);
}

/* ---- backward and grad */

/* A sequence of tensors (None: allowed if `none`) into a new array; the count, or -1. */
static Py_ssize_t list_of(PyObject *o, const char *what, bool none, td_tensor ***list)
{
    *list = NULL;
    if (!PyTuple_Check(o) && !PyList_Check(o))
        return PyErr_Format(PyExc_TypeError, "%s: a tuple or list of tensors is needed, not %s", what, Py_TYPE(o)->tp_name), -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    td_tensor **made = PyMem_Calloc((size_t)n + 1, sizeof *made);
    if (!made)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        TD_PY_AUTO PyObject *item = td_py_item_at(o, i);
        if (item && td_py_is_tensor(item)) {
            made[i] = td_tensor_retain(td_py_x(item));
        } else if (!none || item != Py_None) {
            if (item)
                PyErr_Format(PyExc_TypeError, "element %zd of %s is not a Tensor but %s", i, what, Py_TYPE(item)->tp_name);
            for (Py_ssize_t k = 0; k < i; k++)
                td_tensor_release(made[k]);
            PyMem_Free(made);
            return -1;
        }
    }
    *list = made;
    return n;
}
static void list_free(td_tensor **list, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; list && i < n; i++)
        td_tensor_release(list[i]);
    PyMem_Free(list);
}

/* What the engine would find out too, but in PyTorch's words. */
static int check_roots(Py_ssize_t n, td_tensor **roots, td_tensor **grads)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!td_requires_grad(roots[i]))
            return PyErr_Format(PyExc_RuntimeError, "element %zd of tensors does not require grad and does not have a grad_fn",
                                i), -1;
        if (!grads[i] && td_tensor_numel(roots[i]) != 1)
            return PyErr_SetString(PyExc_RuntimeError, "grad can be implicitly created only for scalar outputs"), -1;
        if (!grads[i] && !td_dtype_is_floating(td_tensor_dtype(roots[i])))
            return PyErr_Format(PyExc_RuntimeError, "grad can be implicitly created only for real scalar outputs but got "
                                "torch.%s", td_dtype_name(td_tensor_dtype(roots[i]))), -1;
        if (!grads[i])
            continue;
        int ndim = td_tensor_ndim(roots[i]);
        bool same = td_tensor_ndim(grads[i]) == ndim &&
                    memcmp(td_tensor_sizes(grads[i]), td_tensor_sizes(roots[i]), (size_t)ndim * sizeof(int64_t)) == 0;
        if (!same) {
            PyObject *a = td_py_size(td_tensor_ndim(grads[i]), td_tensor_sizes(grads[i]));
            PyObject *b = td_py_size(ndim, td_tensor_sizes(roots[i]));
            if (a && b)
                PyErr_Format(PyExc_RuntimeError, "Mismatch in shape: grad_output[%zd] has a shape of %S and output[%zd] has a "
                             "shape of %S.", i, a, i, b);
            Py_XDECREF(a);
            Py_XDECREF(b);
            return -1;
        }
        if (td_dtype_is_complex(td_tensor_dtype(grads[i])) != td_dtype_is_complex(td_tensor_dtype(roots[i])))
            return PyErr_Format(PyExc_RuntimeError, "For complex Tensors, both grad_output and output are required to have the "
                                "same dtype. Mismatch in dtype: grad_output[%zd] has a dtype of torch.%s and output[%zd] has a "
                                "dtype of torch.%s.", i, td_dtype_name(td_tensor_dtype(grads[i])), i,
                                td_dtype_name(td_tensor_dtype(roots[i]))), -1;
    }
    return 0;
}

static int backward_all(Py_ssize_t n, td_tensor **roots, td_tensor **grads, bool retain, bool create)
{
    int failed;
    TD_PY_WORK(true, failed = td_backward((int)n, roots, grads, retain, create));
    return failed ? (td_py_raise(), -1) : 0;
}

static int backward_inputs(Py_ssize_t n, td_tensor **roots, td_tensor **grads, Py_ssize_t n_in, td_tensor **inputs,
                           bool retain, bool create)
{
    int failed;
    TD_PY_WORK(true, failed = td_backward_inputs((int)n, roots, grads, (int)n_in, inputs, retain, create));
    return failed ? (td_py_raise(), -1) : 0;
}

/* _backward(roots, grads, retain_graph, create_graph, inputs=None) */
static PyObject *backward(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *roots, *grads, *inputs = Py_None;
    int retain, create;
    if (td_transform_level())
        return PyErr_Format(PyExc_RuntimeError, "backward() called inside a functorch transform. This is not supported, please use "
                            "functorch.grad or functorch.vjp instead or call backward() outside of functorch transforms.");
    if (!PyArg_ParseTuple(args, "OOpp|O:_backward", &roots, &grads, &retain, &create, &inputs))
        return NULL;
    td_tensor **r, **g, **in = NULL;
    Py_ssize_t n_in = 0;
    Py_ssize_t n = list_of(roots, "tensors", false, &r);
    if (n < 0)
        return NULL;
    Py_ssize_t k = list_of(grads, "gradients", true, &g);
    int failed = k < 0 ? -1 : 0;
    if (!failed && k != n)
        failed = (PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", n, k), -1);
    if (!failed && inputs != Py_None)
        failed = (n_in = list_of(inputs, "inputs", false, &in)) < 0 ? -1 : 0;
    for (Py_ssize_t i = 0; i < n_in && !failed; i++)
        if (!td_requires_grad(in[i]))
            failed = (PyErr_Format(PyExc_RuntimeError, "One of the differentiated Tensors does not require grad"), -1);
    if (!failed)
        failed = check_roots(n, r, g);
    if (!failed)
        failed = in ? backward_inputs(n, r, g, n_in, in, retain, create) : backward_all(n, r, g, retain, create);
    list_free(in, n_in);
    list_free(r, n);
    if (k >= 0)
        list_free(g, k);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* _grad(outputs, grads, inputs, retain_graph, create_graph, allow_unused) -> tuple */
static PyObject *grad(PyObject *m, PyObject *args)
{
    (void)m;
    PyObject *outputs, *grads, *inputs;
    int retain, create, allow_unused;
    if (!PyArg_ParseTuple(args, "OOOppp:_grad", &outputs, &grads, &inputs, &retain, &create, &allow_unused))
        return NULL;
    td_tensor **o = NULL, **g = NULL, **in = NULL;
    Py_ssize_t n = list_of(outputs, "outputs", false, &o), k = n < 0 ? -1 : list_of(grads, "grad_outputs", true, &g);
    Py_ssize_t n_in = k < 0 ? -1 : list_of(inputs, "inputs", false, &in);
    PyObject *all = NULL;
    if (n_in >= 0 && n != k) {
        PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", n, k);
    } else if (n_in >= 0 && check_roots(n, o, g) == 0) {
        td_tensor **results = PyMem_Calloc((size_t)n_in + 1, sizeof *results);
        int failed = results ? 0 : -1;
        for (Py_ssize_t i = 0; i < n_in && !failed; i++)
            if (!td_requires_grad(in[i]))
                failed = (PyErr_Format(PyExc_RuntimeError, "One of the differentiated Tensors does not require grad"), -1);
        if (!failed) {
            TD_PY_WORK(true, failed = td_autograd_grad((int)n, o, g, (int)n_in, in, results, retain, create, allow_unused));
            if (failed)
                td_py_raise();
        } else if (!results) {
            PyErr_NoMemory();
        }
        if (!failed) {
            all = td_py_tensor_tuple((int)n_in, results);
            list_free(results, n_in);
        } else {
            PyMem_Free(results);
        }
    }
    list_free(o, n);
    list_free(g, k);
    list_free(in, n_in);
    return all;
}

/* x.backward(): the plain case here, the others in tede.autograd. */
PyObject *td_py_backward_method(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"gradient", "retain_graph", "create_graph", "inputs", NULL};
    PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None;
    int create = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OOpO:backward", names, &gradient, &retain, &create, &inputs))
        return NULL;
    bool tensor = td_py_is_tensor(gradient);
    if (inputs != Py_None || create || td_transform_level() || (gradient != Py_None && !tensor)) {
        PyObject *module = PyImport_ImportModule("tede.autograd");
        PyObject *result = module ? PyObject_CallMethod(module, "_backward_of", "OOOiO", self, gradient, retain, create, inputs) : NULL;
        Py_XDECREF(module);
        return result;
    }
    int keep = retain == Py_None ? 0 : PyObject_IsTrue(retain);
    if (keep < 0)
        return NULL;
    td_tensor *root = td_tensor_retain(td_py_x(self)), *g = tensor ? td_tensor_retain(td_py_x(gradient)) : NULL;
    int failed = check_roots(1, &root, &g) < 0 ? -1 : backward_all(1, &root, &g, keep, false);
    td_tensor_release(root);
    td_tensor_release(g);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether calls are recorded for gradients on this thread."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, NULL},
    {"is_inference_mode_enabled", is_inference_mode_enabled, METH_NOARGS, NULL},
    {"_set_inference_mode", set_inference_mode, METH_O, NULL},
    {"_backward", backward, METH_VARARGS, NULL},
    {"_grad", grad, METH_VARARGS, NULL},
    {NULL},
};
int td_py_grad_init(PyObject *module)
{
    if (td_py_nodes_init(module) < 0 || td_py_function_init(module) < 0 || td_py_saved_init(module) < 0 ||
        td_py_edges_init(module) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
