/* Initialization of the extension module tede._C. */
#include "binding.h"
#include <dlfcn.h>
#include <tede/library.h>
#include <tede/memory.h>

static PyObject *get_num_threads(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyLong_FromLong(td_num_threads());
}
static PyObject *set_num_threads(PyObject *m, PyObject *o)
{
    (void)m;
    int64_t n;
    int found = td_py_as_int(o, &n, false);
    if (found < 0) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return NULL;
    }
    if (!found)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects an int, but got %s", Py_TYPE(o)->tp_name);
    if (n <= 0 || n > 4096)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects a positive integer");
    if (td_set_num_threads((int)n) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *cpu_capability(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyUnicode_FromString(td_isa_name(td_cpu_isa()));
}
static PyObject *memory_stats(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    struct td_memory_stats s;
    td_memory_stats(&s);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "allocated", s.allocated, "peak", s.peak, "reserved", s.reserved,
                         "kept", s.kept, "live_blocks", s.live_blocks, "allocations", s.allocations, "failures", s.failures,
                         "limit", s.limit);
}
static PyObject *empty_cache(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_empty_cache();
    Py_RETURN_NONE;
}
static PyObject *reset_peak(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    td_memory_reset_peak();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"get_num_threads", get_num_threads, METH_NOARGS, "How many threads an operator may use."},
    {"set_num_threads", set_num_threads, METH_O, NULL},
    {"_cpu_capability", cpu_capability, METH_NOARGS, NULL},
    {"memory_stats", memory_stats, METH_NOARGS, "What the allocator holds, as a dict."},
    {"reset_peak_memory_stats", reset_peak, METH_NOARGS, NULL},
    {"empty_cache", empty_cache, METH_NOARGS, "Give free memory back to the system."},
    {NULL},
};
/* In this order: the later ones use the types of the earlier ones. */
static int (*const parts[])(PyObject *module) = {
    td_py_errors_init, td_py_types_init, td_py_size_init, td_py_storage_init, td_py_override_init, td_py_overridable_init,
    td_py_tensor_init, td_py_generator_init, td_py_interop_init, td_py_factory_init, td_py_grad_init, td_py_transforms_init,
    td_py_results_init, td_py_operator_init, td_py_boxed_init, td_py_dispatch_init, td_py_metadata_init, td_py_safetensors_init,
    td_py_gguf_init, td_py_archive_init, td_py_store_init,
    td_py_nnmodule_init, td_py_watch_init, td_py_layouts_init, td_py_number_init, td_py_environment_init, td_py_device_init, td_py_stream_init, td_py_graph_init,
    td_py_record_init,
    td_py_group_init, td_py_region_init,
};

/* Another libtede may have been loaded before, by a program or another extension: of this SONAME, in place of ours, or of another one. */
static int check_version(void)
{
    if (td_library_check()) {
        PyErr_SetString(PyExc_ImportError, td_error_message());
        return td_error_clear(), -1;
    }
    if (!strcmp(td_version(), TD_VERSION))
        return 0;
    Dl_info core = {0};
    const char *(*function)(void) = td_version;
    dladdr(*(void **)&function, &core);
    PyErr_Format(PyExc_ImportError, "tede._C was compiled for libtede " TD_VERSION ", but the process has loaded libtede %s (%s)",
                 td_version(), core.dli_fname ? core.dli_fname : "of an unknown file");
    return -1;
}

/* Types and tables are the process's, and hold objects of the interpreter that made them: another one can't use them, and they would
 * dangle once it is gone. So only the main interpreter may import this, once; what it imports again gets the same members. */
static int execute(PyObject *module)
{
    static PyObject *made;
    if (PyInterpreterState_Get() != PyInterpreterState_Main())
        return PyErr_Format(PyExc_ImportError, "tede can be imported by the main interpreter only, not by a subinterpreter"), -1;
    PyObject *dict = PyModule_GetDict(module);
    if (check_version())
        return -1;
    if (made)
        return PyDict_Merge(dict, made, false);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module) < 0)
            return -1;
    return (made = PyDict_Copy(dict)) ? 0 : -1;
}
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "tede._C", .m_doc = "The binding of libtede.", .m_methods = functions, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__C(void)
{
    return PyModuleDef_Init(&definition);
}
