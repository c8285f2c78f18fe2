/* Stacks of modes, one per thread and protocol: see ModeStack in binding.h.
 *
 * A stack is a list whose links never change, so that threads which work for a backward pass share the one of the thread
 * that began it; each holds a reference to its top. */
#include "binding.h"

enum { MOST_DEPTH = 1000 };     /* a program that enters modes and leaves none gets an error before memory is gone */

typedef struct Mode { int64_t refcount; PyObject *object; struct Mode *outer; int depth; } Mode;

static void release(Mode *m)
{
    while (m && __atomic_sub_fetch(&m->refcount, 1, __ATOMIC_ACQ_REL) == 0) {
        Mode *outer = m->outer;
        td_py_drop(m->object);
        free(m);
        m = outer;
    }
}
static Mode *retain(Mode *m)
{
    if (m)
        __atomic_fetch_add(&m->refcount, 1, __ATOMIC_RELAXED);
    return m;
}
int  td_py_modes_retain(void *stack) { return retain(((ModeStack *)stack)->top), 0; }
void td_py_modes_release(void *stack) { release(((ModeStack *)stack)->top); }

int td_py_modes_count(const ModeStack *s) { return s->top ? s->top->depth : 0; }
PyObject *td_py_modes_top(const ModeStack *s) { return s->top->object; }

int td_py_modes_push(ModeStack *s, PyObject *object)
{
    if (td_py_modes_count(s) == MOST_DEPTH)
        return PyErr_Format(PyExc_RuntimeError, "too many modes within each other"), -1;
    Mode *m = malloc(sizeof *m);
    if (!m)
        return PyErr_NoMemory(), -1;
    *m = (Mode){1, Py_NewRef(object), s->top, td_py_modes_count(s) + 1};
    s->top = m;
    return 0;
}
PyObject *td_py_modes_pop(ModeStack *s)
{
    Mode *m = s->top;
    if (!m)
        return PyErr_Format(PyExc_RuntimeError, "there is no mode to leave");
    PyObject *object = Py_NewRef(m->object);
    s->top = retain(m->outer);
    release(m);
    return object;
}
ModeStack td_py_modes_leave(ModeStack *s)
{
    ModeStack whole = *s;
    s->top = retain(s->top->outer);
    return whole;
}
void td_py_modes_enter(ModeStack *s, ModeStack whole)
{
    release(s->top);
    *s = whole;
}
PyObject *td_py_modes_list(const ModeStack *s)
{
    PyObject *list = PyList_New(td_py_modes_count(s));
    for (const Mode *m = s->top; list && m; m = m->outer)
        PyList_SET_ITEM(list, m->depth - 1, Py_NewRef(m->object));
    return list;
}
