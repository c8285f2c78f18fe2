/* Regions (<tede/region.h>), under tede/compiler.py. */
#include "binding.h"
#include <tede/region.h>

static PyObject *begin(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return td_region_begin() ? td_py_raise() : Py_NewRef(Py_None);
}

static PyObject *end(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return td_region_end() ? td_py_raise() : Py_NewRef(Py_None);
}

/* The pending error has the other one, which it gets, as its context. */
static void set_context(PyObject *kind, PyObject *value, PyObject *trace)
{
    PyObject *later, *of, *at;
    PyErr_Fetch(&later, &of, &at);
    PyErr_NormalizeException(&later, &of, &at);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    PyException_SetContext(of, value);          /* takes value */
    Py_XDECREF(kind);
    Py_XDECREF(trace);
    PyErr_Restore(later, of, at);
}

static PyObject *call(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    if (n != 5 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "_region_call() takes a function, a tuple, a dict, a tier and a compiler");
    td_region_options options = {.size = sizeof options, .tier = (int)PyLong_AsLong(args[3])};
    options.compiler = args[4] == Py_None ? NULL : PyUnicode_AsUTF8(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (td_region_begin_with(&options))
        return td_py_raise();
    PyObject *result = PyObject_Call(args[0], args[1], args[2]), *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    const int status = td_region_end();
    if (status) {
        Py_CLEAR(result);
        td_py_raise();
    }
    if (kind && status)
        set_context(kind, value, trace);
    else if (kind)
        PyErr_Restore(kind, value, trace);
    return result;
}

static PyObject *counts(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    const td_region_stats s = td_region_counts();
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "regions", s.regions, "recorded_calls", s.recorded_calls, "dropped_calls", s.dropped_calls, "fused_calls",
                         s.fused_calls, "early_flushes", s.early_flushes, "plans", s.plans, "compiled_plans", s.compiled_plans, "discarded_plans", s.discarded_plans,
                         "cache_hits", s.cache_hits, "compiled_groups", s.compiled_groups);
}

static PyObject *plans(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0);
    td_region_plan p;
    for (int i = 0; list && td_region_plan_at(i, &p); i++) {
        PyObject *plan = Py_BuildValue("(sssKK)", p.state, p.source, p.why, p.runs, p.compiled_runs);
        if (!plan || PyList_Append(list, plan))
            Py_CLEAR(list);
        Py_XDECREF(plan);
    }
    return list;
}

static PyObject *set_slab(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_ssize_t bytes, least;
    if (!PyArg_ParseTuple(args, "nn", &bytes, &least))
        return NULL;
    td_region_set_slab((size_t)bytes, (size_t)least);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_region_begin", begin, METH_NOARGS, "Record this thread's calls, and do them late."},
    {"_region_end", end, METH_NOARGS, "Do what is late."},
    {"_region_call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, "(function, args, kwargs, tier, compiler): the function's result, its calls in a region."},
    {"_region_counts", counts, METH_NOARGS, "What regions have recorded since the process began."},
    {"_region_plans", plans, METH_NOARGS, "[(state, source, why, runs, compiled runs)] of each plan."},
    {"_region_set_slab", set_slab, METH_VARARGS, "(bytes, least): what a part of joined calls takes, and what is worth joining; 0, 0: as at first."},
    {NULL},
};

int td_py_region_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
