/* autograd.Function: nodes whose forward and backward are Python.
 *
 * The context object that forward and backward get is a Python object; the node owns it, and it knows the node as long
 * as that lives. */
#include "binding.h"
#include <tede/autograd_nodes.h>
#include <tede/transforms.h>

typedef struct ContextObject {
    PyObject_HEAD
    PyObject *dict;
    td_node  *node;         /* borrowed; NULL before the call and after the node's end */
    PyObject *to_save, *for_forward, *dirty, *non_differentiable, *needs_input_grad, *function;
    bool      materialize, materialize_all, in_jvp;     /* all: of outputs marked as not differentiable, too */
    Py_ssize_t n_arguments;
    bool     *is_tensor;    /* of the arguments */
} ContextObject;
static PyTypeObject context_type;

static int apply_node(void *context, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)node;
    ContextObject *ctx = context;
    PyGILState_STATE state = PyGILState_Ensure();
    int failed = 0;
    PyObject *all = PyTuple_New(n_grads + 1), *method = PyObject_CallMethod(ctx->function, "_tede_pullback", NULL), *result = NULL;
    if (all) {
        PyTuple_SET_ITEM(all, 0, Py_NewRef((PyObject *)ctx));
        for (int i = 0; i < n_grads && all; i++) {
            PyObject *g = td_py_wrap_borrowed(grads[i]);
            if (!g)
                Py_CLEAR(all);
            else
                PyTuple_SET_ITEM(all, i + 1, g);
        }
    }
    result = all && method ? PyObject_Call(method, all, NULL) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(method);
    if (result && !PyTuple_Check(result) && !PyList_Check(result))
        Py_SETREF(result, PyTuple_Pack(1, result));
    if (!result) {
        failed = td_py_capture();
    } else {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
        PyObject **items = PySequence_Fast_ITEMS(result);
        while (n > n_results && items[n - 1] == Py_None)
            n--;
        if (n != n_results)
            failed = td_error(TD_E_RUNTIME, "function %s returned an incorrect number of gradients (expected %d, got %zd)",
                              td_node_name(node), n_results, n);
        for (Py_ssize_t i = 0; i < n_results && !failed; i++) {
            if (items[i] != Py_None && ctx->n_arguments > i && !ctx->is_tensor[i]) {
                failed = td_error(TD_E_RUNTIME, "function %s returned a gradient different than None at position %zd, but the "
                                  "corresponding forward input was not a Variable", td_node_name(node), i + 1);
            } else if (td_py_is_tensor(items[i])) {
                results[i] = td_tensor_retain(td_py_x(items[i]));
            } else if (items[i] != Py_None) {
                failed = td_error(TD_E_RUNTIME, "expected Variable or None (got %s)", Py_TYPE(items[i])->tp_name);
            }
        }
        Py_DECREF(result);
    }
    PyGILState_Release(state);
    return failed;
}
bool td_py_context_takes(PyObject *context, int argument)
{
    ContextObject *ctx = (ContextObject *)context;
    return argument >= ctx->n_arguments || ctx->is_tensor[argument];
}
PyObject *td_py_context_of(td_node *node)
{
    PyObject *context = td_custom_context(node);
    return context && Py_IS_TYPE(context, &context_type) ? context : NULL;
}
static void drop_context(void *context)
{
    ((ContextObject *)context)->node = NULL;
    td_py_drop(context);
}
static const td_custom custom = {apply_node, NULL, drop_context};

static int mark(uint8_t *marks, PyObject *listed, PyObject *outputs, uint8_t bit)
{
    for (Py_ssize_t k = 0; listed && k < PyTuple_GET_SIZE(listed); k++)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); i++)
            if (PyTuple_GET_ITEM(outputs, i) == PyTuple_GET_ITEM(listed, k))
                marks[i] |= bit;
    return 0;
}

/* What is marked as written must come back, and should have come in. */
static int check_dirty(PyObject *dirty, PyObject *outputs, Py_ssize_t n_operands, td_tensor **operands)
{
    for (Py_ssize_t i = 0; dirty && i < PyTuple_GET_SIZE(dirty); i++) {
        PyObject *x = PyTuple_GET_ITEM(dirty, i);
        Py_ssize_t k = 0, n = PyTuple_GET_SIZE(outputs);
        while (k < n && PyTuple_GET_ITEM(outputs, k) != x)
            k++;
        if (k == n)
            return PyErr_SetString(PyExc_RuntimeError, "Some elements marked as dirty during the forward method were not returned as "
                                   "output. The inputs that are modified inplace must all be outputs of the Function."), -1;
        for (k = 0; k < n_operands && operands[k] != td_py_x(x); k++) {}
        if (k == n_operands && PyErr_WarnEx(PyExc_UserWarning, "ctx.mark_dirty() received a tensor that was not an input. Only input "
                                            "Tensors that have been mutated should be passed to ctx.mark_dirty().", 1) < 0)
            return -1;
    }
    return 0;
}

/* An operand that comes back as it is gives another tensor; where its class has a say in calls, what that makes of a view. NULL with an error. */
static PyObject *as_returned(PyObject *x, uint8_t marks, Py_ssize_t n_operands, td_tensor **operands)
{
    Py_ssize_t k = 0;
    while (k < n_operands && operands[k] != td_py_x(x))
        k++;
    if (k == n_operands || marks & TD_OUTPUT_DIRTY || td_py_is_exact(x) || !td_py_has_override(x))
        return Py_NewRef(x);
    bool grad = td_set_grad_enabled(false);
    PyObject *view = PyObject_CallMethod(x, "view_as", "O", x);
    td_set_grad_enabled(grad);
    if (view && !td_py_is_tensor(view))
        Py_SETREF(view, Py_NewRef(x));
    return view;
}

/* What forward gave, connected to the node; a new tuple. */
static PyObject *connect(ContextObject *ctx, td_node *node, PyObject *outputs, Py_ssize_t n_operands, td_tensor **operands)
{
    Py_ssize_t n = PyTuple_GET_SIZE(outputs), n_save = ctx->to_save ? PyTuple_GET_SIZE(ctx->to_save) : 0;
    td_tensor **list = PyMem_Calloc((size_t)(n + n_save) + 1, sizeof *list), **save = list ? list + n : NULL;
    uint8_t *marks = PyMem_Calloc((size_t)n + 1, 1);
    PyObject *result = NULL;
    TD_PY_AUTO PyObject *returned = PyTuple_New(n);
    int failed = !list || !marks ? (PyErr_NoMemory(), -1) : check_dirty(ctx->dirty, outputs, n_operands, operands);
    if (!failed) {
        mark(marks, ctx->dirty, outputs, TD_OUTPUT_DIRTY);
        mark(marks, ctx->non_differentiable, outputs, TD_OUTPUT_NOT_DIFFERENTIABLE);
        for (Py_ssize_t i = 0; i < n && returned; i++) {
            PyObject *item = PyTuple_GET_ITEM(outputs, i);
            item = td_py_is_tensor(item) ? as_returned(item, marks[i], n_operands, operands) : Py_NewRef(item);
            if (!item) {
                Py_CLEAR(returned);
                break;
            }
            list[i] = td_py_is_tensor(item) ? td_tensor_retain(td_py_x(item)) : TD_NONE;
            PyTuple_SET_ITEM(returned, i, item);
        }
        failed = returned ? td_custom_outputs(node, (int)n, list, marks, (int)n_operands, operands) : -1;
        for (Py_ssize_t i = 0; i < n_save && !failed; i++) {
            PyObject *item = PyTuple_GET_ITEM(ctx->to_save, i);
            save[i] = TD_NONE;
            bool input = false;                     /* returned as it came: backward meets it with its own history */
            for (Py_ssize_t k = 0; k < n_operands && td_py_is_tensor(item); k++)
                input |= operands[k] == td_py_x(item);
            for (Py_ssize_t k = 0; k < n && !input; k++)        /* an output that was replaced is saved as what replaced it */
                if (PyTuple_GET_ITEM(outputs, k) == item && list[k] != TD_NONE)
                    save[i] = list[k];
            if (save[i] == TD_NONE && td_py_is_tensor(item))
                save[i] = td_py_x(item);
        }
        if (!failed && td_custom_wanted(node))
            failed = td_custom_save(node, (int)n_save, save, (int)n, list);
        for (Py_ssize_t i = 0; i < n && !failed && !ctx->materialize_all; i++)
            if (marks[i] & TD_OUTPUT_NOT_DIFFERENTIABLE)
                td_custom_leave_undefined(node, (int)i);
        if (failed && !PyErr_Occurred())
            td_py_raise();
        result = failed ? NULL : PyTuple_New(n);
        for (Py_ssize_t i = 0; i < n && result; i++) {
            PyObject *item = list[i] == TD_NONE ? Py_NewRef(PyTuple_GET_ITEM(outputs, i)) : td_py_wrap_borrowed(list[i]);
            if (!item) {
                Py_CLEAR(result);
                continue;
            }
            if (td_py_is_tensor(item) && !PyObject_GC_IsTracked(item))     /* the context may keep it: a cycle */
                PyObject_GC_Track(item);
            PyTuple_SET_ITEM(result, i, item);
        }
        for (Py_ssize_t i = 0; i < n; i++)
            td_tensor_release(list[i]);
    }
    PyMem_Free(list);
    PyMem_Free(marks);
    return result;
}

static void drop_operands(Py_ssize_t n, td_tensor **operands)
{
    for (Py_ssize_t i = 0; i < n; i++)
        td_tensor_release(operands[i]);
    PyMem_Free(operands);
}

/* _apply_function(cls, context, runner, *args): runner(context, *args) gives forward's outputs. */
static PyObject *apply_function(PyObject *m, PyObject *const *args, Py_ssize_t nargs)
{
    (void)m;
    if (nargs < 3 || !PyObject_TypeCheck(args[1], &context_type))
        return PyErr_Format(PyExc_TypeError, "_apply_function(cls, context, forward, *args)");
    ContextObject *ctx = (ContextObject *)args[1];
    PyObject *const *operand_objects = args + 3;
    Py_ssize_t n = nargs - 3;
    PyObject *name = PyObject_GetAttrString(args[0], "__name__"), *whole = PyObject_GetAttrString(args[0], "_tede_node_name");
    PyObject *outputs = NULL, *result = NULL;
    td_tensor **operands = PyMem_Calloc((size_t)n + 1, sizeof *operands);
    td_node *node = NULL;
    if (name && whole == Py_None)
        Py_SETREF(whole, PyUnicode_FromFormat("%UBackward", name));
    else if (!name)
        Py_CLEAR(whole);
    Py_XDECREF(name);
    if (!operands || !whole) {
        PyMem_Free(operands);
        Py_XDECREF(whole);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++)
        operands[i] = td_tensor_retain(td_py_is_tensor(operand_objects[i]) ? td_py_x(operand_objects[i]) : TD_NONE);
    Py_XSETREF(ctx->function, Py_NewRef(args[0]));
    PyMem_Free(ctx->is_tensor);
    ctx->is_tensor = PyMem_Calloc((size_t)n + 1, sizeof *ctx->is_tensor);
    ctx->n_arguments = ctx->is_tensor ? n : 0;
    for (Py_ssize_t i = 0; i < ctx->n_arguments; i++)
        ctx->is_tensor[i] = operands[i] != TD_NONE;
    node = td_node_custom(&custom, Py_NewRef((PyObject *)ctx), PyUnicode_AsUTF8(whole), (int)n, operands);
    Py_DECREF(whole);
    if (!node) {
        Py_DECREF(ctx);
        drop_operands(n, operands);
        return td_py_raise();
    }
    ctx->node = node;
    td_custom_set_materialize(node, ctx->materialize);
    PyObject *needs = PyTuple_New(n);
    for (Py_ssize_t i = 0; needs && i < n; i++)
        PyTuple_SET_ITEM(needs, i, PyBool_FromLong(td_custom_wanted(node) && td_custom_needs(node, (int)i)));
    Py_XSETREF(ctx->needs_input_grad, needs);
    bool alone = !td_transform_level(), forward = alone && td_set_forward_enabled(false), enabled = td_set_grad_enabled(false);
    PyObject **all = PyMem_Malloc((size_t)(n + 1) * sizeof *all);
    if (all) {
        all[0] = (PyObject *)ctx;
        memcpy(all + 1, operand_objects, (size_t)n * sizeof *all);
        outputs = PyObject_Vectorcall(args[2], all, (size_t)(n + 1), NULL);
        PyMem_Free(all);
    } else {
        PyErr_NoMemory();
    }
    td_set_grad_enabled(enabled);
    if (alone)
        td_set_forward_enabled(forward);
    if (outputs) {
        bool single = !PyTuple_Check(outputs);
        PyObject *tuple = single ? PyTuple_Pack(1, outputs) : Py_NewRef(outputs);
        td_custom_set_materialize(node, ctx->materialize);
        PyObject *made = tuple ? connect(ctx, node, tuple, n, operands) : NULL;
        if (made && single) {
            result = Py_NewRef(PyTuple_GET_ITEM(made, 0));
            Py_DECREF(made);
        } else {
            result = made;
        }
        Py_XDECREF(tuple);
        Py_DECREF(outputs);
    }
    drop_operands(n, operands);
    Py_CLEAR(ctx->to_save);
    Py_CLEAR(ctx->dirty);
    Py_CLEAR(ctx->non_differentiable);
    td_node_drop(node);
    return result;
}

static int set_tuple(PyObject **place, PyObject *args)
{
    Py_XSETREF(*place, Py_NewRef(args));
    return 0;
}
static PyObject *save_for_backward(PyObject *self, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (item != Py_None && !td_py_is_tensor(item))
            return PyErr_Format(PyExc_TypeError, "save_for_backward can only save variables, but argument %zd is of type %s", i,
                                Py_TYPE(item)->tp_name);
    }
    set_tuple(&((ContextObject *)self)->to_save, args);
    Py_RETURN_NONE;
}
/* What jvp finds in saved_tensors. */
static PyObject *save_for_forward(PyObject *self, PyObject *args)
{
    set_tuple(&((ContextObject *)self)->for_forward, args);
    Py_RETURN_NONE;
}
static bool holds(PyObject *listed, PyObject *x)
{
    for (Py_ssize_t i = 0; listed && i < PyTuple_GET_SIZE(listed); i++)
        if (PyTuple_GET_ITEM(listed, i) == x)
            return true;
    return false;
}
/* _check_kept(inputs, output): what setup_context kept can't be an input that came back as it is, which is another tensor then. */
static PyObject *check_kept(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    ContextObject *ctx = (ContextObject *)self;
    if (nargs != 2 || !PyTuple_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "_check_kept(inputs, output)");
    Py_ssize_t n = PyTuple_Check(args[1]) ? PyTuple_GET_SIZE(args[1]) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_Check(args[1]) ? PyTuple_GET_ITEM(args[1], i) : args[1];
        if (td_py_is_tensor(x) && holds(args[0], x) && !holds(ctx->dirty, x) && (holds(ctx->to_save, x) || holds(ctx->for_forward, x)))
            return PyErr_Format(PyExc_RuntimeError, "An input that has been returned as-is as output is being saved for backward. This is not "
                                "supported if you override setup_context. You should return and save a view of the input instead, e.g. with "
                                "x.view_as(x) or setup ctx inside the forward function itself.");
    }
    Py_RETURN_NONE;
}
/* _call_jvp(jvp, *tangents): jvp(context, *tangents), which sees what was saved for it. */
static PyObject *call_jvp(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    ContextObject *ctx = (ContextObject *)self;
    PyObject **all = nargs > 0 ? PyMem_Malloc((size_t)nargs * sizeof *all) : NULL;
    if (!all)
        return PyErr_Format(PyExc_TypeError, "_call_jvp(jvp, *tangents)");
    memcpy(all, args, (size_t)nargs * sizeof *all);
    all[0] = self;
    ctx->in_jvp = true;
    PyObject *result = PyObject_Vectorcall(args[0], all, (size_t)nargs, NULL);
    ctx->in_jvp = false;
    Py_CLEAR(ctx->for_forward);
    PyMem_Free(all);
    return result;
}
/* All are tensors (the error begins with `what`). */
static int only_tensors(PyObject *args, const char *what)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++)
        if (!td_py_is_tensor(PyTuple_GET_ITEM(args, i)))
            return PyErr_Format(PyExc_RuntimeError, "%s, but argument %zd is of type %s", what, i,
                                Py_TYPE(PyTuple_GET_ITEM(args, i))->tp_name), -1;
    return 0;
}
static PyObject *mark_dirty(PyObject *self, PyObject *args)
{
    if (only_tensors(args, "mark_dirty can only accept variables") < 0)
        return NULL;
    set_tuple(&((ContextObject *)self)->dirty, args);
    Py_RETURN_NONE;
}
static PyObject *mark_non_differentiable(PyObject *self, PyObject *args)
{
    if (only_tensors(args, "mark_non_differentiable only accepts variable arguments") < 0)
        return NULL;
    set_tuple(&((ContextObject *)self)->non_differentiable, args);
    Py_RETURN_NONE;
}
static PyObject *set_materialize_grads(PyObject *self, PyObject *on)
{
    if (!PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError, "set_materialize_grads received an invalid combination of arguments - got (%s), but expected "
                            "(bool)", Py_TYPE(on)->tp_name);
    ((ContextObject *)self)->materialize = on == Py_True;
    Py_RETURN_NONE;
}
static PyObject *saved_tensors(PyObject *self, void *unused)
{
    (void)unused;
    ContextObject *ctx = (ContextObject *)self;
    if (ctx->in_jvp)
        return ctx->for_forward ? Py_NewRef(ctx->for_forward) : PyTuple_New(0);
    if (ctx->to_save)
        return Py_NewRef(ctx->to_save);
    if (!ctx->node && ctx->function)
        return PyErr_Format(PyExc_RuntimeError, "Trying to backward through the graph a second time (or directly access saved tensors "
                            "after they have already been freed). The node that kept them is gone.");
    if (!ctx->node)
        return PyTuple_New(0);
    int n = td_node_saved_count(ctx->node);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        td_tensor *x = td_node_saved_tensor(ctx->node, i);
        PyObject *item = x == TD_NONE ? Py_NewRef(Py_None) : td_py_wrap(x);
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
static PyObject *raw_saved_tensors(PyObject *self, void *unused)
{
    (void)unused;
    td_node *node = ((ContextObject *)self)->node;
    int n = node ? td_node_saved_count(node) : 0;
    if (n && td_node_is_released(node) && !td_node_saved_tensor(node, 0))
        return td_py_raise();
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        PyObject *item = td_py_raw_saved(node, i);
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}
static PyObject *materialize_grads(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((ContextObject *)self)->materialize);
}
static PyObject *materialize_non_diff(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((ContextObject *)self)->materialize_all);
}
static int set_materialize_non_diff(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    int truth = value ? PyObject_IsTrue(value) : 1;
    if (truth >= 0)
        ((ContextObject *)self)->materialize_all = truth;
    return truth < 0 ? -1 : 0;
}
static PyObject *saved_variables(PyObject *self, void *unused)
{
    if (PyErr_WarnEx(PyExc_DeprecationWarning, "'saved_variables' is deprecated; use 'saved_tensors'", 0) < 0)
        return NULL;
    return saved_tensors(self, unused);
}
static PyObject *needs_input_grad(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *needs = ((ContextObject *)self)->needs_input_grad;
    return needs ? Py_NewRef(needs) : PyTuple_New(0);
}
/* The context stands for its node while that lives: name(), next_functions, metadata, register_hook, ... */
static PyObject *context_getattro(PyObject *self, PyObject *name)
{
    static const char *const of_node[] = {"name", "next_functions", "metadata", "register_hook", "register_prehook",
                                          "_sequence_nr", "_input_metadata"};
    PyObject *found = PyObject_GenericGetAttr(self, name);
    td_node *node = ((ContextObject *)self)->node;
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyObject *function = ((ContextObject *)self)->function;
    if (function)                       /* to programs its class is the node's */
        PyErr_Format(PyExc_AttributeError, "'%sBackward' object has no attribute '%U'", ((PyTypeObject *)function)->tp_name, name);
    if (!node)
        return NULL;
    bool known = false;
    for (size_t i = 0; i < sizeof of_node / sizeof *of_node; i++)
        known |= PyUnicode_CompareWithASCIIString(name, of_node[i]) == 0;
    if (!known)
        return NULL;
    PyErr_Clear();
    PyObject *object = td_py_wrap_node(td_node_hold(node)), *value = object ? PyObject_GetAttr(object, name) : NULL;
    Py_XDECREF(object);
    return value;
}
static int context_init(PyObject *self, PyObject *args, PyObject *kw)
{
    (void)args, (void)kw;
    ((ContextObject *)self)->materialize = ((ContextObject *)self)->materialize_all = true;
    return 0;
}
static int context_clear(PyObject *self)
{
    ContextObject *c = (ContextObject *)self;
    Py_CLEAR(c->dict);
    Py_CLEAR(c->to_save);
    Py_CLEAR(c->for_forward);
    Py_CLEAR(c->dirty);
    Py_CLEAR(c->non_differentiable);
    return 0;
}
static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    ContextObject *c = (ContextObject *)self;
    Py_VISIT(c->for_forward);
    Py_VISIT(c->dict);
    Py_VISIT(c->to_save);
    Py_VISIT(c->function);
    return 0;
}
static void context_dealloc(PyObject *self)
{
    ContextObject *c = (ContextObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    context_clear(self);
    Py_XDECREF(c->needs_input_grad);
    Py_XDECREF(c->function);
    PyMem_Free(c->is_tensor);
    type->tp_free(self);
}
static PyMethodDef context_methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS, "Keep tensors for backward, which finds them in saved_tensors."},
    {"save_for_forward", save_for_forward, METH_VARARGS, "Keep tensors for jvp, which finds them in saved_tensors."},
    {"_check_kept", (PyCFunction)(void (*)(void))check_kept, METH_FASTCALL, NULL},
    {"_call_jvp", (PyCFunction)(void (*)(void))call_jvp, METH_FASTCALL, NULL},
    {"mark_dirty", mark_dirty, METH_VARARGS, "These operands were written in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS, "These outputs have no gradient."},
    {"set_materialize_grads", set_materialize_grads, METH_O, "Whether absent gradients come as zeros (at first they do) or None."},
    {NULL},
};
static PyGetSetDef context_getset[] = {
    {"saved_tensors", saved_tensors, NULL, NULL, NULL},
    {"saved_variables", saved_variables, NULL, NULL, NULL},
    {"materialize_grads", materialize_grads, NULL, "Whether absent gradients come as zeros.", NULL},
    {"_materialize_non_diff_grads", materialize_non_diff, set_materialize_non_diff,
     "Whether those of outputs that are not differentiable do.", NULL},
    {"_raw_saved_tensors", raw_saved_tensors, NULL, "What saved_tensors unpacks, to put hooks on.", NULL},
    {"needs_input_grad", needs_input_grad, NULL, "Which arguments want a gradient.", NULL},
    {NULL},
};
static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._FunctionContext",
    .tp_basicsize = sizeof(ContextObject),
    .tp_doc = "What a Function's forward leaves for its backward.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = context_init,
    .tp_dealloc = context_dealloc,
    .tp_traverse = context_traverse,
    .tp_clear = context_clear,
    .tp_free = PyObject_GC_Del,
    .tp_getattro = context_getattro,
    .tp_methods = context_methods,
    .tp_getset = context_getset,
    .tp_dictoffset = offsetof(ContextObject, dict),
};

static PyMethodDef functions[] = {
    {"_apply_function", (PyCFunction)(void (*)(void))apply_function, METH_FASTCALL, NULL},
    {NULL},
};
int td_py_function_init(PyObject *module)
{
    if (PyType_Ready(&context_type) < 0 || PyModule_AddObjectRef(module, "_FunctionContext", (PyObject *)&context_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
