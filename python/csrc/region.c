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

static PyObject *counts(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    const td_region_stats s = td_region_counts();
    return Py_BuildValue("{sKsKsKsKsK}", "regions", s.regions, "recorded_calls", s.recorded_calls, "dropped_calls", s.dropped_calls, "fused_calls",
                         s.fused_calls, "early_flushes", s.early_flushes);
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
    {"_region_counts", counts, METH_NOARGS, "What regions have recorded since the process began."},
    {"_region_set_slab", set_slab, METH_VARARGS, "(bytes, least): what a part of joined calls takes, and what is worth joining; 0, 0: as at first."},
    {NULL},
};

int td_py_region_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
