/* Stores for tede.distributed: Store, TCPStore, FileStore, HashStore, PrefixStore.
 *
 * An object of the last four holds a store of the core.  Classes that Python derives from Store hold none: they are a kind of store of
 * their own (python_kind), whose functions call the object's methods; td_py_store_of() makes such a store when the core is to use one. So
 * the object isn't kept alive by what it holds itself. */
#include "binding.h"
#include <datetime.h>
#include <tede/store.h>

typedef struct {
    PyObject_HEAD
    td_store *store;                /* NULL: of Python, or not initialized */
    PyObject *under, *prefix;       /* of a PrefixStore */
    PyObject *path;                 /* of a FileStore */
    PyObject *weakrefs;
    int64_t   timeout;              /* of one of Python's */
    bool      use_libuv;
} StoreObject;
static PyTypeObject store_type, tcp_type, file_type, hash_type, prefix_type;

static StoreObject *of(PyObject *self) { return (StoreObject *)self; }

/* ---- arguments */

/* A key: a str, or bytes. Borrowed from the object; NULL with an exception. */
static const char *key_of(PyObject *o)
{
    Py_ssize_t size = 0;
    const char *key = NULL;
    if (PyUnicode_Check(o))
        key = PyUnicode_AsUTF8AndSize(o, &size);
    else if (PyBytes_Check(o))
        key = PyBytes_AS_STRING(o), size = PyBytes_GET_SIZE(o);
    else
        PyErr_Format(PyExc_TypeError, "a store's key must be a str, not %s", Py_TYPE(o)->tp_name);
    if (key && strlen(key) != (size_t)size)
        return PyErr_Format(PyExc_ValueError, "a store's key can't contain a NUL character: %R", o), NULL;
    return key;
}

/* A value: a str or bytes, as a borrowed blob. 0, or -1 with an exception. */
static int value_of(PyObject *o, td_blob *value)
{
    Py_ssize_t size = 0;
    value->data = NULL;
    if (PyUnicode_Check(o))
        value->data = (void *)PyUnicode_AsUTF8AndSize(o, &size);
    else if (PyBytes_Check(o))
        value->data = PyBytes_AS_STRING(o), size = PyBytes_GET_SIZE(o);
    else
        PyErr_Format(PyExc_TypeError, "a store's value must be a str or bytes, not %s", Py_TYPE(o)->tp_name);
    value->size = (size_t)size;
    return value->data ? 0 : -1;
}

/* Milliseconds of a timedelta, or of seconds as a float: rounded up, so that a short time isn't none. -1 with an exception. */
static int64_t timeout_of(PyObject *o)
{
    double ms = 0;
    if (PyDelta_Check(o))
        ms = PyDateTime_DELTA_GET_DAYS(o) * 86400e3 + PyDateTime_DELTA_GET_SECONDS(o) * 1e3 + PyDateTime_DELTA_GET_MICROSECONDS(o) / 1e3;
    else if (PyFloat_Check(o))
        ms = PyFloat_AS_DOUBLE(o) * 1e3;
    else
        return PyErr_Format(PyExc_TypeError, "a timeout must be a datetime.timedelta, not %s", Py_TYPE(o)->tp_name), -1;
    if (!(ms >= 0))
        return PyErr_SetString(PyExc_ValueError, "a timeout must not be negative"), -1;
    return ms < 1e15 ? (int64_t)ms + (ms > (double)(int64_t)ms) : (int64_t)1e15;
}
static PyObject *timedelta_of(int64_t ms)
{
    return PyDelta_FromDSU((int)(ms / 86400000), (int)(ms / 1000 % 86400), (int)(ms % 1000 * 1000));
}

/* A sequence of keys, or of values, held until it is freed. */
typedef struct list { PyObject *items; Py_ssize_t count; const char **keys; td_blob *values; } list;

static void list_free(list *l)
{
    PyMem_Free(l->keys);
    PyMem_Free(l->values);
    Py_CLEAR(l->items);
}
static int list_of(PyObject *o, bool values, list *l)
{
    *l = (list){0};
    if (PyUnicode_Check(o) || PyBytes_Check(o))
        return PyErr_Format(PyExc_TypeError, "a list of str was expected, not a %s", Py_TYPE(o)->tp_name), -1;
    if (!(l->items = PySequence_Tuple(o)))
        return -1;
    l->count = PyTuple_GET_SIZE(l->items);
    l->keys = PyMem_Calloc((size_t)l->count + 1, sizeof *l->keys);
    l->values = PyMem_Calloc((size_t)l->count + 1, sizeof *l->values);
    int status = l->keys && l->values ? 0 : (PyErr_NoMemory(), -1);
    for (Py_ssize_t i = 0; i < l->count && status == 0; i++) {
        PyObject *item = PyTuple_GET_ITEM(l->items, i);
        status = values ? value_of(item, &l->values[i]) : (l->keys[i] = key_of(item)) ? 0 : -1;
    }
    if (status != 0)
        list_free(l);
    return status;
}

/* ---- results: what fails raises */

static PyObject *none(int status) { return status == 0 ? Py_NewRef(Py_None) : td_py_raise(); }
static PyObject *truth(int status) { return status < 0 ? td_py_raise() : PyBool_FromLong(status); }
static PyObject *number(int64_t n) { return n < 0 ? td_py_raise() : PyLong_FromLongLong(n); }
/* Takes the blob over. */
static PyObject *bytes_of(td_blob value)
{
    PyObject *bytes = value.data ? PyBytes_FromStringAndSize(value.data, (Py_ssize_t)value.size) : td_py_raise();
    td_blob_free(&value);
    return bytes;
}

/* ---- stores that Python implements */

/* The object's method, new; NULL without an exception if it has only Store's own. */
static PyObject *overridden(PyObject *self, const char *name)
{
    PyObject *own = PyObject_GetAttrString((PyObject *)Py_TYPE(self), name), *base = PyObject_GetAttrString((PyObject *)&store_type, name);
    PyObject *method = own && base && own != base ? PyObject_GetAttrString(self, name) : NULL;
    Py_XDECREF(own);
    Py_XDECREF(base);
    return method;
}

/* Calls it; NULL with the core's error, or, with *missing, if there is none. `arguments` is taken over. */
static PyObject *call_method(PyObject *self, const char *name, PyObject *arguments, bool *missing)
{
    PyObject *method = arguments ? overridden(self, name) : NULL, *result = NULL;
    *missing = arguments && !method && !PyErr_Occurred();
    if (method)
        result = PyObject_CallObject(method, arguments);
    if (!result && !*missing)
        td_py_capture();
    Py_XDECREF(method);
    Py_XDECREF(arguments);
    return result;
}
static int not_implemented(void) { return td_error(TD_E_RUNTIME, "Not implemented."); }

static int copy_bytes(PyObject *o, td_blob *value)
{
    td_blob borrowed;
    if (value_of(o, &borrowed) != 0)
        return td_py_capture();
    *value = td_blob_new(borrowed.data, borrowed.size);
    return value->data ? 0 : -1;
}
static int as_number(PyObject *o, int64_t *n)
{
    *n = PyLong_AsLongLong(o);
    return *n == -1 && PyErr_Occurred() ? td_py_capture() : 0;
}
static PyObject *key_list(int64_t n, const char *const *keys)
{
    PyObject *l = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; l && i < n; i++) {
        PyObject *key = PyUnicode_FromString(keys[i]);
        if (!key)
            Py_CLEAR(l);
        else
            PyList_SET_ITEM(l, i, key);
    }
    return l;
}

/* Calls self.NAME(ARGUMENTS), and does with `result` what follows; `absent` if there is no such method. */
#define CALL(name, absent, use, ...)                                                        \
    do {                                                                                    \
        PyGILState_STATE state_ = PyGILState_Ensure();                                      \
        bool missing_;                                                                      \
        PyObject *result = call_method(self, name, Py_BuildValue(__VA_ARGS__), &missing_);  \
        __typeof__(use) status_ = result ? (use) : -1;                                      \
        Py_XDECREF(result);                                                                 \
        PyGILState_Release(state_);                                                         \
        return missing_ ? (absent) : status_;                                               \
    } while (0)
#define BYTES(data, size) size ? (const char *)data : "", (Py_ssize_t)size

static int py_set(void *self, const char *key, const void *value, size_t size)
{
    CALL("set", not_implemented(), 0, "(sy#)", key, BYTES(value, size));
}
static int py_get(void *self, const char *key, int64_t timeout, td_blob *value)
{
    (void)timeout;
    CALL("get", not_implemented(), copy_bytes(result, value), "(s)", key);
}
static int py_add(void *self, const char *key, int64_t amount, int64_t *sum)
{
    CALL("add", not_implemented(), as_number(result, sum), "(sL)", key, (long long)amount);
}
static int py_wait(void *self, int64_t n, const char *const *keys, int64_t timeout)
{
    if (timeout == of(self)->timeout)
        CALL("wait", not_implemented(), 0, "(N)", key_list(n, keys));
    CALL("wait", not_implemented(), 0, "(NN)", key_list(n, keys), timedelta_of(timeout));
}
static int py_check(void *self, int64_t n, const char *const *keys)
{
    CALL("check", not_implemented(), PyObject_IsTrue(result), "(N)", key_list(n, keys));
}
static int py_compare_set(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now)
{
    CALL("compare_set", not_implemented(), copy_bytes(result, now), "(sy#y#)", key, BYTES(expected.data, expected.size),
         BYTES(desired.data, desired.size));
}
static int py_delete_key(void *self, const char *key) { CALL("delete_key", not_implemented(), PyObject_IsTrue(result), "(s)", key); }
static int64_t py_num_keys(void *self)
{
    int64_t n;
    CALL("num_keys", (int64_t)not_implemented(), as_number(result, &n) == 0 ? n : -1, "()");
}
static int py_append(void *self, const char *key, const void *value, size_t size)
{
    CALL("append", TD_STORE_OTHERWISE, 0, "(sy#)", key, BYTES(value, size));
}
static int blobs_of(PyObject *o, int64_t n, td_blobs *values)
{
    PyObject *items = PySequence_Tuple(o);
    if (!items)
        return td_py_capture();
    int status = PyTuple_GET_SIZE(items) == n ? 0 : td_error(TD_E_VALUE, "multi_get() of a store gave %zd values for %lld keys",
                                                             PyTuple_GET_SIZE(items), (long long)n);
    for (int64_t i = 0; i < n && status == 0; i++) {
        td_blob value;
        status = copy_bytes(PyTuple_GET_ITEM(items, i), &value) == 0 ? td_blobs_add(values, value) : -1;
    }
    Py_DECREF(items);
    return status;
}
static int py_multi_get(void *self, int64_t n, const char *const *keys, int64_t timeout, td_blobs *values)
{
    (void)timeout;
    CALL("multi_get", TD_STORE_OTHERWISE, blobs_of(result, n, values), "(N)", key_list(n, keys));
}
static PyObject *value_list(int64_t n, const td_blob *values)
{
    PyObject *l = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; l && i < n; i++) {
        PyObject *value = PyBytes_FromStringAndSize(values[i].data, (Py_ssize_t)values[i].size);
        if (!value)
            Py_CLEAR(l);
        else
            PyList_SET_ITEM(l, i, value);
    }
    return l;
}
static int py_multi_set(void *self, int64_t n, const char *const *keys, const td_blob *values)
{
    CALL("multi_set", TD_STORE_OTHERWISE, 0, "(NN)", key_list(n, keys), value_list(n, values));
}
static int py_queue_push(void *self, const char *key, const void *value, size_t size)
{
    CALL("queue_push", TD_STORE_OTHERWISE, 0, "(sy#)", key, BYTES(value, size));
}
static int py_queue_pop(void *self, const char *key, bool block, int64_t timeout, td_blob *value)
{
    (void)timeout;
    CALL("queue_pop", TD_STORE_OTHERWISE, copy_bytes(result, value), "(sO)", key, block ? Py_True : Py_False);
}
static int64_t py_queue_len(void *self, const char *key)
{
    int64_t n;
    CALL("queue_len", (int64_t)TD_STORE_OTHERWISE, as_number(result, &n) == 0 ? n : -1, "(s)", key);
}
static int add_keys(PyObject *o, td_blobs *keys)
{
    PyObject *items = PySequence_Tuple(o);
    int status = items ? 0 : td_py_capture();
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items) && status == 0; i++) {
        const char *key = key_of(PyTuple_GET_ITEM(items, i));
        status = key ? td_blobs_add(keys, td_blob_new(key, strlen(key))) : td_py_capture();
    }
    Py_XDECREF(items);
    return status;
}
static int py_list_keys(void *self, td_blobs *keys) { CALL("list_keys", TD_STORE_OTHERWISE, add_keys(result, keys), "()"); }
static int py_extended(void *self) { CALL("has_extended_api", 0, PyObject_IsTrue(result), "()"); }
static bool py_has_extended_api(void *self)
{
    int is = py_extended(self);
    if (is < 0)
        td_error_clear();           /* a test that can't fail */
    return is > 0;
}
static int py_store_clone(PyObject *o, td_store **store)
{
    *store = td_py_store_of(o);
    return *store ? 0 : td_py_capture();
}
static int py_cloned(void *self, td_store **store) { CALL("clone", not_implemented(), py_store_clone(result, store), "()"); }
static td_store *py_clone(void *self)
{
    td_store *store = NULL;
    return py_cloned(self, &store) == 0 ? store : NULL;
}
static int64_t py_timeout(void *self) { return of(self)->timeout; }
static void py_set_timeout(void *self, int64_t timeout) { of(self)->timeout = timeout; }

static const td_store_kind python_kind = {
    .name = "Store", .set = py_set, .get = py_get, .add = py_add, .wait = py_wait, .check = py_check, .compare_set = py_compare_set,
    .delete_key = py_delete_key, .num_keys = py_num_keys, .release = td_py_drop, .append = py_append, .multi_get = py_multi_get,
    .multi_set = py_multi_set, .queue_push = py_queue_push, .queue_pop = py_queue_pop, .queue_len = py_queue_len,
    .list_keys = py_list_keys, .has_extended_api = py_has_extended_api, .clone = py_clone, .timeout = py_timeout,
    .set_timeout = py_set_timeout,
};

td_store *td_py_store_of(PyObject *o)
{
    if (!PyObject_TypeCheck(o, &store_type))
        return PyErr_Format(PyExc_TypeError, "a Store was expected, not %s", Py_TYPE(o)->tp_name), NULL;
    if (of(o)->store)
        return td_store_retain(of(o)->store);
    PyTypeObject *const held[] = {&tcp_type, &file_type, &hash_type, &prefix_type};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (PyObject_TypeCheck(o, held[i]))
            return PyErr_Format(PyExc_RuntimeError, "%s.__init__() wasn't called", Py_TYPE(o)->tp_name), NULL;
    td_store *store = td_store_new(&python_kind, Py_NewRef(o));
    if (!store) {
        Py_DECREF(o);
        td_py_raise();
    }
    return store;
}

/* ---- methods */

/* Runs `call` on the store of `self`, without the lock. */
#define WITH_STORE(call)                        \
    td_store *store = td_py_store_of(self);     \
    if (!store)                                 \
        return NULL;                            \
    Py_BEGIN_ALLOW_THREADS                      \
    call;                                       \
    td_store_release(store);                    \
    Py_END_ALLOW_THREADS

static PyObject *set(PyObject *self, PyObject *args)
{
    PyObject *k, *v;
    td_blob value;
    const char *key;
    int status;
    if (!PyArg_ParseTuple(args, "OO:set", &k, &v) || !(key = key_of(k)) || value_of(v, &value) != 0)
        return NULL;
    WITH_STORE(status = td_store_set(store, key, value.data, value.size))
    return none(status);
}
static PyObject *append(PyObject *self, PyObject *args)
{
    PyObject *k, *v;
    td_blob value;
    const char *key;
    int status;
    if (!PyArg_ParseTuple(args, "OO:append", &k, &v) || !(key = key_of(k)) || value_of(v, &value) != 0)
        return NULL;
    WITH_STORE(status = td_store_append(store, key, value.data, value.size))
    return none(status);
}
static PyObject *get(PyObject *self, PyObject *o)
{
    const char *key = key_of(o);
    td_blob value;
    if (!key)
        return NULL;
    WITH_STORE(value = td_store_get(store, key))
    return bytes_of(value);
}
static PyObject *add(PyObject *self, PyObject *args)
{
    PyObject *k;
    const char *key;
    long long amount;
    int64_t sum;
    int status;
    if (!PyArg_ParseTuple(args, "OL:add", &k, &amount) || !(key = key_of(k)))
        return NULL;
    WITH_STORE(status = td_store_add(store, key, amount, &sum))
    return status == 0 ? PyLong_FromLongLong(sum) : td_py_raise();
}
static PyObject *compare_set(PyObject *self, PyObject *args)
{
    PyObject *k, *e, *d;
    const char *key;
    td_blob expected, desired, now;
    if (!PyArg_ParseTuple(args, "OOO:compare_set", &k, &e, &d) || !(key = key_of(k)) || value_of(e, &expected) != 0 ||
        value_of(d, &desired) != 0)
        return NULL;
    WITH_STORE(now = td_store_compare_set(store, key, expected, desired))
    return bytes_of(now);
}
static PyObject *check(PyObject *self, PyObject *o)
{
    list keys;
    int status;
    if (list_of(o, false, &keys) != 0)
        return NULL;
    td_store *store = td_py_store_of(self);
    if (store) {
        Py_BEGIN_ALLOW_THREADS
        status = td_store_check(store, keys.count, keys.keys);
        td_store_release(store);
        Py_END_ALLOW_THREADS
    }
    list_free(&keys);
    return store ? truth(status) : NULL;
}
static PyObject *wait_for(PyObject *self, PyObject *args)
{
    PyObject *o, *t = NULL;
    list keys;
    int status;
    if (!PyArg_ParseTuple(args, "O|O:wait", &o, &t))
        return NULL;
    int64_t timeout = t ? timeout_of(t) : -1;
    if ((t && timeout < 0) || list_of(o, false, &keys) != 0)
        return NULL;
    td_store *store = td_py_store_of(self);
    if (store) {
        Py_BEGIN_ALLOW_THREADS
        status = td_store_wait(store, keys.count, keys.keys, timeout);
        td_store_release(store);
        Py_END_ALLOW_THREADS
    }
    list_free(&keys);
    return store ? none(status) : NULL;
}
static PyObject *delete_key(PyObject *self, PyObject *o)
{
    const char *key = key_of(o);
    int status;
    if (!key)
        return NULL;
    WITH_STORE(status = td_store_delete_key(store, key))
    return truth(status);
}
static PyObject *num_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t n;
    WITH_STORE(n = td_store_num_keys(store))
    return number(n);
}
static PyObject *multi_get(PyObject *self, PyObject *o)
{
    list keys;
    td_blobs values = {0};
    int status;
    if (list_of(o, false, &keys) != 0)
        return NULL;
    td_store *store = td_py_store_of(self);
    if (store) {
        Py_BEGIN_ALLOW_THREADS
        status = td_store_multi_get(store, keys.count, keys.keys, &values);
        td_store_release(store);
        Py_END_ALLOW_THREADS
    }
    list_free(&keys);
    PyObject *l = !store ? NULL : status == 0 ? value_list(values.count, values.items) : td_py_raise();
    td_blobs_free(&values);
    return l;
}
static PyObject *multi_set(PyObject *self, PyObject *args)
{
    PyObject *k, *v;
    list keys, values;
    int status = -1;
    if (!PyArg_ParseTuple(args, "OO:multi_set", &k, &v) || list_of(k, false, &keys) != 0)
        return NULL;
    if (list_of(v, true, &values) != 0)
        return list_free(&keys), NULL;
    td_store *store = td_py_store_of(self);
    if (store) {
        Py_BEGIN_ALLOW_THREADS
        status = keys.count == values.count ? td_store_multi_set(store, keys.count, keys.keys, values.values) :
                 td_error(TD_E_DIST_STORE, "multi_set: keys and values must be of the same number, not %zd and %zd", keys.count, values.count);
        td_store_release(store);
        Py_END_ALLOW_THREADS
    }
    list_free(&keys), list_free(&values);
    return store ? none(status) : NULL;
}
static PyObject *queue_push(PyObject *self, PyObject *args)
{
    PyObject *k, *v;
    td_blob value;
    const char *key;
    int status;
    if (!PyArg_ParseTuple(args, "OO:queue_push", &k, &v) || !(key = key_of(k)) || value_of(v, &value) != 0)
        return NULL;
    WITH_STORE(status = td_store_queue_push(store, key, value.data, value.size))
    return none(status);
}
static PyObject *queue_pop(PyObject *self, PyObject *args, PyObject *kw)
{
    PyObject *k;
    const char *key;
    int block = true;
    td_blob value;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|p:queue_pop", (char *[]){"key", "block", NULL}, &k, &block) || !(key = key_of(k)))
        return NULL;
    WITH_STORE(value = td_store_queue_pop(store, key, block))
    return bytes_of(value);
}
static PyObject *queue_len(PyObject *self, PyObject *o)
{
    const char *key = key_of(o);
    int64_t n;
    if (!key)
        return NULL;
    WITH_STORE(n = td_store_queue_len(store, key))
    return number(n);
}
static PyObject *list_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_blobs keys;
    int status;
    WITH_STORE(status = td_store_list_keys(store, &keys))
    PyObject *l = status == 0 ? PyList_New((Py_ssize_t)keys.count) : td_py_raise();
    for (int64_t i = 0; l && i < keys.count; i++) {
        PyObject *key = PyUnicode_DecodeUTF8(keys.items[i].data, (Py_ssize_t)keys.items[i].size, "surrogateescape");
        if (!key)
            Py_CLEAR(l);
        else
            PyList_SET_ITEM(l, i, key);
    }
    td_blobs_free(&keys);
    return l;
}
static PyObject *has_extended_api(PyObject *self, PyObject *unused)
{
    (void)unused;
    bool has;
    WITH_STORE(has = td_store_has_extended_api(store))
    return PyBool_FromLong(has);
}
static PyObject *barrier(PyObject *self, PyObject *args, PyObject *kw)
{
    PyObject *k, *t = Py_None;
    long long world_size;
    const char *key;
    int status;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OL|O:barrier", (char *[]){"key", "world_size", "timeout", NULL}, &k, &world_size, &t) ||
        !(key = key_of(k)))
        return NULL;
    int64_t timeout = t == Py_None ? -1 : timeout_of(t);
    if (t != Py_None && timeout < 0)
        return NULL;
    WITH_STORE(status = td_store_barrier(store, key, world_size, timeout))
    return none(status);
}
static PyObject *set_timeout(PyObject *self, PyObject *o)
{
    int64_t timeout = timeout_of(o);
    td_store *store = timeout < 0 ? NULL : td_py_store_of(self);
    if (!store)
        return NULL;
    td_store_set_timeout(store, timeout);
    td_store_release(store);
    Py_RETURN_NONE;
}
static PyObject *get_timeout(PyObject *self, void *unused)
{
    (void)unused;
    td_store *store = td_py_store_of(self);
    if (!store)
        return NULL;
    int64_t timeout = td_store_timeout(store);
    td_store_release(store);
    return timedelta_of(timeout);
}

static PyObject *clone_store(PyObject *self, PyObject *unused)
{
    (void)unused;
    StoreObject *s = of(self);
    if (s->under) {
        PyObject *under = PyObject_CallMethod(s->under, "clone", NULL);
        PyObject *result = under ? PyObject_CallFunctionObjArgs((PyObject *)&prefix_type, s->prefix, under, NULL) : NULL;
        Py_XDECREF(under);
        return result;
    }
    if (!s->store)
        return PyErr_Format(PyExc_RuntimeError, "Not implemented.");
    td_store *copy;
    WITH_STORE(copy = td_store_clone(store))
    if (copy == s->store) {
        td_store_release(copy);
        return Py_NewRef(self);
    }
    StoreObject *o = copy ? of(Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0)) : td_py_raise();
    if (o)
        o->store = copy, o->use_libuv = s->use_libuv, o->path = Py_XNewRef(s->path);
    else
        td_store_release(copy);
    return (PyObject *)o;
}

/* ---- making them */

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    (void)args, (void)kw;
    PyObject *self = type->tp_alloc(type, 0);
    if (self)
        of(self)->timeout = TD_STORE_TIMEOUT_MS;
    return self;
}
static int init(PyObject *self, PyObject *args, PyObject *kw)
{
    (void)self;
    return PyArg_ParseTupleAndKeywords(args, kw, ":Store", (char *[]){NULL}) ? 0 : -1;
}
/* Takes over a store that was made; a second __init__ replaces the first one's. */
static int made(PyObject *self, td_store *store)
{
    if (!store)
        return td_py_raise(), -1;
    td_store *before = of(self)->store;
    of(self)->store = store;
    Py_BEGIN_ALLOW_THREADS
    td_store_release(before);
    Py_END_ALLOW_THREADS
    return 0;
}
static int64_t optional_number(PyObject *o, int64_t otherwise) { return o == Py_None ? otherwise : PyLong_AsLongLong(o); }

static int tcp_init(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *names[] = {"host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant",
                            "master_listen_fd", "use_libuv", NULL};
    td_store_tcp_options options = TD_STORE_TCP_OPTIONS;
    PyObject *timeout = NULL, *world_size = Py_None, *listen_fd = Py_None;
    const char *host;
    int port, is_master = false, wait = true, multi_tenant = false, use_libuv = true;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "si|OpOppOp:TCPStore", names, &host, &port, &world_size, &is_master, &timeout, &wait,
                                     &multi_tenant, &listen_fd, &use_libuv))
        return -1;
    options.world_size = optional_number(world_size, -1), options.listen_fd = (int)optional_number(listen_fd, -1);
    if (PyErr_Occurred() || (timeout && (options.timeout = timeout_of(timeout)) < 0))
        return -1;
    options.is_master = is_master, options.wait_for_workers = wait, options.multi_tenant = multi_tenant;
    of(self)->use_libuv = use_libuv;
    td_store *store;
    Py_BEGIN_ALLOW_THREADS
    store = td_store_tcp(host, port, &options);
    Py_END_ALLOW_THREADS
    return made(self, store);
}
static PyObject *tcp_repr(PyObject *self)
{
    char text[400];
    td_store *store = td_py_store_of(self);
    if (!store)
        return NULL;
    td_store_tcp_describe(store, text, sizeof text);
    td_store_release(store);
    return PyUnicode_FromString(text);
}
static PyObject *tcp_host(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(of(self)->store ? td_store_tcp_host(of(self)->store) : "");
}
static PyObject *tcp_port(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(of(self)->store ? td_store_tcp_port(of(self)->store) : 0);
}
static PyObject *tcp_libuv(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(of(self)->use_libuv);
}

static int file_init(PyObject *self, PyObject *args, PyObject *kw)
{
    PyObject *path;
    long long world_size = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O&|L:FileStore", (char *[]){"file_name", "world_size", NULL}, PyUnicode_FSConverter, &path,
                                     &world_size))
        return -1;
    td_store *store;
    Py_BEGIN_ALLOW_THREADS
    store = td_store_file(PyBytes_AS_STRING(path), world_size);
    Py_END_ALLOW_THREADS
    Py_XSETREF(of(self)->path, PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(path)));
    Py_DECREF(path);
    return made(self, store);
}
static int hash_init(PyObject *self, PyObject *args, PyObject *kw)
{
    return PyArg_ParseTupleAndKeywords(args, kw, ":HashStore", (char *[]){NULL}) ? made(self, td_store_hash()) : -1;
}
static int prefix_init(PyObject *self, PyObject *args, PyObject *kw)
{
    PyObject *prefix, *under;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "UO:PrefixStore", (char *[]){"prefix", "store", NULL}, &prefix, &under))
        return -1;
    if (under == Py_None)
        return PyErr_SetString(PyExc_ValueError, "PrefixStore: store can't be None"), -1;
    const char *text = key_of(prefix);
    td_store *below = text ? td_py_store_of(under) : NULL;
    if (!below)
        return -1;
    int status = made(self, td_store_prefix(text, below));
    td_store_release(below);
    if (status == 0) {
        Py_XSETREF(of(self)->under, Py_NewRef(under));
        Py_XSETREF(of(self)->prefix, Py_NewRef(prefix));
    }
    return status;
}
static PyObject *underlying(PyObject *self, void *deepest)
{
    PyObject *o = of(self)->under;
    while (o && deepest && PyObject_TypeCheck(o, &prefix_type) && of(o)->under)
        o = of(o)->under;
    return o ? Py_NewRef(o) : PyErr_Format(PyExc_RuntimeError, "PrefixStore.__init__() wasn't called");
}

static void dealloc(PyObject *self)
{
    StoreObject *s = of(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (s->weakrefs)
        PyObject_ClearWeakRefs(self);
    td_store *store = s->store;
    s->store = NULL;
    Py_BEGIN_ALLOW_THREADS
    td_store_release(store);            /* joins a server's thread, locks a file */
    Py_END_ALLOW_THREADS
    Py_CLEAR(s->under);
    Py_CLEAR(s->prefix);
    Py_CLEAR(s->path);
    type->tp_free(self);
}
static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(of(self)->under);
    return 0;
}

/* ---- types */

static PyMethodDef methods[] = {
    {"set", set, METH_VARARGS, "set(key, value)\n\nMakes ``value`` (a str or bytes) the key's, in place of one that is there."},
    {"get", get, METH_O, "get(key) -> bytes\n\nThe key's value. Waits for it; a DistStoreError when ``timeout`` is over."},
    {"add", add, METH_VARARGS,
     "add(key, amount) -> int\n\nAdds to a counter, which is 0 at first and written in decimal digits, and gives the sum.\n"
     "A ValueError if the key has a value that is no number."},
    {"wait", wait_for, METH_VARARGS,
     "wait(keys, timeout=None)\n\nReturns when all of the keys have values; a DistStoreError when the time (a timedelta; by default\n"
     "the store's ``timeout``) is over."},
    {"check", check, METH_O, "check(keys) -> bool\n\nWhether all of the keys have values. Doesn't wait."},
    {"compare_set", compare_set, METH_VARARGS,
     "compare_set(key, expected_value, desired_value) -> bytes\n\nSets the key if its value is the expected one, or if it has none and an\n"
     "empty one is expected. The value that it then has; the expected one if it has none."},
    {"delete_key", delete_key, METH_O, "delete_key(key) -> bool\n\nRemoves a key and its value; whether there was one."},
    {"num_keys", num_keys, METH_NOARGS, "num_keys() -> int\n\nHow many keys there are, with those that the store itself uses."},
    {"append", append, METH_VARARGS, "append(key, value)\n\nAdds bytes to the end of the key's value, which is empty at first."},
    {"multi_get", multi_get, METH_O, "multi_get(keys) -> list of bytes\n\nThe keys' values. Waits for all of them, as get() does."},
    {"multi_set", multi_set, METH_VARARGS, "multi_set(keys, values)\n\nSets several keys at once; a DistStoreError if the lists' lengths differ."},
    {"queue_push", queue_push, METH_VARARGS, "queue_push(key, value)\n\nAdds a value to the end of a queue; wait() and check() take queues for keys."},
    {"queue_pop", (PyCFunction)(void (*)(void))queue_pop, METH_VARARGS | METH_KEYWORDS,
     "queue_pop(key, block=True) -> bytes\n\nTakes the first value of a queue, which no other caller gets. Waits for one; a QueueEmptyError\n"
     "if there is none and ``block`` is False."},
    {"queue_len", queue_len, METH_O, "queue_len(key) -> int\n\nHow many values a queue has; 0 if there is no such queue."},
    {"list_keys", list_keys, METH_NOARGS, "list_keys() -> list of str\n\nThe keys that were set, in no order."},
    {"has_extended_api", has_extended_api, METH_NOARGS,
     "has_extended_api() -> bool\n\nWhether append(), multi_get() and multi_set() are operations of their own, not made of others."},
    {"barrier", (PyCFunction)(void (*)(void))barrier, METH_VARARGS | METH_KEYWORDS,
     "barrier(key, world_size, timeout=None)\n\nReturns when ``world_size`` callers have come here with the same key, which can't be used\n"
     "again; a DistStoreError when the time is over."},
    {"set_timeout", set_timeout, METH_O, "set_timeout(timeout)\n\nHow long get(), wait() and others wait: a timedelta; 0 is without an end."},
    {"clone", clone_store, METH_NOARGS, "clone() -> Store\n\nAnother object over the same keys, with connections of its own."},
    {NULL},
};
static PyGetSetDef getset[] = {{"timeout", get_timeout, NULL, "How long a call waits at most, a timedelta.", NULL}, {NULL}};
static PyGetSetDef tcp_getset[] = {
    {"host", tcp_host, NULL, "The name of the host that serves the store.", NULL},
    {"port", tcp_port, NULL, "The port there, also where the system has chosen it.", NULL},
    {"libuvBackend", tcp_libuv, NULL, "What use_libuv was; there is one kind of server.", NULL},
    {NULL},
};
static PyMemberDef file_members[] = {{"path", T_OBJECT, offsetof(StoreObject, path), READONLY, "The file's path."}, {NULL}};
static PyGetSetDef prefix_getset[] = {
    {"underlying_store", underlying, NULL, "The store that this is a view of.", NULL},
    {"_underlying_non_prefix_store", underlying, NULL, "The first one below that is no PrefixStore.", (void *)1},
    {NULL},
};

#define STORE_TYPE(name, ...)                                                                                                   \
    {                                                                                                                           \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.distributed." name, .tp_basicsize = sizeof(StoreObject),                 \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_new = new, .tp_dealloc = dealloc,        \
        .tp_traverse = traverse, .tp_weaklistoffset = offsetof(StoreObject, weakrefs), __VA_ARGS__                              \
    }
static PyTypeObject store_type = STORE_TYPE("Store", .tp_init = init, .tp_methods = methods, .tp_getset = getset, .tp_doc =
    "Keys and values that processes share. A class that derives from this and has set(), get(), add(), wait(), check(), compare_set(),\n"
    "delete_key() and num_keys() is a store, too; keys come to it as str, values as bytes.");
static PyTypeObject tcp_type = STORE_TYPE("TCPStore", .tp_base = &store_type, .tp_init = tcp_init, .tp_repr = tcp_repr, .tp_getset = tcp_getset, .tp_doc =
    "TCPStore(host_name, port, world_size=None, is_master=False, timeout=timedelta(seconds=300), wait_for_workers=True,\n"
    "         multi_tenant=False, master_listen_fd=None, use_libuv=True)\n\n"
    "A store that one process, the master, serves at host_name:port; port 0 in the master lets the system choose one. Constructing it waits\n"
    "for the master, and in the master for ``world_size`` stores if that is given. Masters of a process with ``multi_tenant`` share a server\n"
    "at the same port. ``master_listen_fd`` is a bound socket's descriptor, which is taken over.\n"
    "A DistNetworkError if nobody answers or the port is in use, a DistStoreError if others don't come in time.");
static PyTypeObject file_type = STORE_TYPE("FileStore", .tp_base = &store_type, .tp_init = file_init, .tp_members = file_members, .tp_doc =
    "FileStore(file_name, world_size=-1)\n\nA store in a file, which the last of ``world_size`` users removes; it stays if that is negative.");
static PyTypeObject hash_type = STORE_TYPE("HashStore", .tp_base = &store_type, .tp_init = hash_init, .tp_doc =
    "HashStore()\n\nA store in this process's memory, for its threads.");
static PyTypeObject prefix_type = STORE_TYPE("PrefixStore", .tp_base = &store_type, .tp_init = prefix_init, .tp_getset = prefix_getset, .tp_doc =
    "PrefixStore(prefix, store)\n\nA view of a store in which each key begins with ``prefix/``. It has that store's timeout.");

/* ---- the PMI server */

typedef struct { PyObject_HEAD td_pmi *server; } PmiObject;
static int pmi_init(PyObject *self, PyObject *args, PyObject *kw)
{
    int size;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "i:PMIServer", (char *[]){"size", NULL}, &size))
        return -1;
    td_pmi *server = td_pmi_serve(size), *before = ((PmiObject *)self)->server;
    if (!server)
        return td_py_raise(), -1;
    ((PmiObject *)self)->server = server;
    td_pmi_release(before);
    return 0;
}
static PyObject *pmi_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_pmi *server = ((PmiObject *)self)->server;
    ((PmiObject *)self)->server = NULL;
    Py_BEGIN_ALLOW_THREADS
    td_pmi_release(server);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static void pmi_dealloc(PyObject *self)
{
    Py_XDECREF(pmi_close(self, NULL));
    Py_TYPE(self)->tp_free(self);
}
static PyObject *pmi_port(PyObject *self, void *unused)
{
    (void)unused;
    td_pmi *server = ((PmiObject *)self)->server;
    return server ? PyLong_FromLong(td_pmi_port(server)) : PyErr_Format(PyExc_RuntimeError, "this PMI server is closed");
}
static PyMethodDef pmi_methods[] = {{"close", pmi_close, METH_NOARGS, "close()\n\nEnds the server."}, {NULL}};
static PyGetSetDef pmi_getset[] = {{"port", pmi_port, NULL, "The port that it listens at.", NULL}, {NULL}};
static PyTypeObject pmi_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede._C._PMIServer", .tp_basicsize = sizeof(PmiObject), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew, .tp_init = pmi_init, .tp_dealloc = pmi_dealloc, .tp_methods = pmi_methods, .tp_getset = pmi_getset,
    .tp_doc = "PMIServer(size)\n\nLets ``size`` processes that were started independently find one another in MPI_Init; see tede/store.h.",
};

int td_py_store_init(PyObject *module)
{
    PyDateTime_IMPORT;
    if (!PyDateTimeAPI)
        return -1;
    PyTypeObject *types[] = {&store_type, &tcp_type, &file_type, &hash_type, &prefix_type, &pmi_type};
    const char *names[] = {"Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "_PMIServer"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) < 0 || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i]) < 0)
            return -1;
    return 0;
}
