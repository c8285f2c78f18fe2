/* The older forms of a few operators, in which factors come first: add(x, 2, y), addmm(beta, x, alpha, a, b).
 *
 * They are tried when no overload fits, and are calls of today's form with alpha, beta and value as keywords. PyTorch
 * warns of the first of them in a process. */
#include "binding.h"

static bool is_number(PyObject *o)
{
    return !td_py_is_tensor(o) && (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) || PyIndex_Check(o) ||
                                   (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float));
}

PyObject *td_py_older_form(OperatorObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool *is_one)
{
    static bool warned;
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, length = (Py_ssize_t)strlen(op->text);
    *is_one = false;
    if (!op->older_form || nargs < 3 || nargs > 5 || n_keywords > 1 ||
        (n_keywords && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "out") != 0))
        return NULL;
    length -= op->text[length - 1] == '_';
    bool sum = length == 3, product = length == 7 && op->text[3] == 'c';            /* add, sub; addcmul, addcdiv */
    PyObject *tensors[3], *factors[2], *names[2] = {NULL, NULL};
    int n_tensors = 0, n_factors = 0;
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (td_py_is_tensor(args[i]) && n_tensors < 3)
            tensors[n_tensors++] = args[i];
        else if (is_number(args[i]) && n_factors < 2)
            factors[n_factors++] = args[i];
        else
            return NULL;
    Py_ssize_t first = sum || product || op->method ? 1 : 0;      /* where the first factor stands */
    if (n_tensors != (sum ? 2 : 3) || n_factors < 1 || ((sum || product) && n_factors != 1) ||
        td_py_is_tensor(args[first]) || (n_factors == 2 && td_py_is_tensor(args[2])))
        return NULL;
    *is_one = true;
    const char *shown = sum ? "(Tensor input, Number alpha, Tensor other, *, Tensor out = None)\nConsider using one of the following "
                              "signatures instead:\n\t%s(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)"
                            : "\nPass the factors by name instead, after the tensors: %s(...)";
    if (!warned) {
        PyObject *rest = PyUnicode_FromFormat(shown, op->text);
        PyObject *text = rest ? PyUnicode_FromFormat("This overload of %s is deprecated:\n\t%s%U", op->text, op->text, rest) : NULL;
        Py_XDECREF(rest);
        int failed = !text || PyErr_WarnEx(PyExc_UserWarning, PyUnicode_AsUTF8(text), 1) < 0;
        Py_XDECREF(text);
        if (failed)
            return NULL;
        warned = true;
    }
    names[0] = PyUnicode_InternFromString(sum ? "alpha" : product ? "value" : "beta");
    names[1] = PyUnicode_InternFromString("alpha");
    PyObject *all[6], *result = NULL, *keywords = PyTuple_New(n_factors + n_keywords);
    if (names[0] && names[1] && keywords) {
        for (int i = 0; i < n_tensors; i++)
            all[i] = tensors[i];
        for (int i = 0; i < n_factors; i++) {
            all[n_tensors + i] = factors[i];
            PyTuple_SET_ITEM(keywords, i, Py_NewRef(names[i]));
        }
        if (n_keywords) {
            all[n_tensors + n_factors] = args[nargs];
            PyTuple_SET_ITEM(keywords, n_factors, Py_NewRef(PyTuple_GET_ITEM(kwnames, 0)));
        }
        result = PyObject_Vectorcall((PyObject *)op, all, (size_t)n_tensors, keywords);
    }
    Py_XDECREF(keywords);
    Py_XDECREF(names[0]);
    Py_XDECREF(names[1]);
    return result;
}
