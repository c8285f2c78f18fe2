/* Layouts other than strided.  The fields hang on the tensor's `extra`, in a record that its aliases share; there is no
 * storage, so what would read strided memory refuses. */
#include "base/once.h"
#include "tensor/layout.h"

#include <pthread.h>
#include <tede/library.h>
#include "tensor/head.h"
#include "tensor/masks.h"

/* Names that are known before somebody registers them, with the numbers of td_layout. */
static const char *const known[TD_LAYOUTS_KNOWN] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc",
                                                  "jagged", "packed"};

static const td_layout_kind *kinds[TD_LAYOUTS];
static uint8_t               keys_of[TD_LAYOUTS];            /* set before the kind is shown */
static const td_layout_kind *of_key[TD_KEY_DTYPE];
static pthread_mutex_t       lock = PTHREAD_MUTEX_INITIALIZER;
static td_once               builtin_once;

static int find(const char *name)
{
    for (int layout = 0; layout < TD_LAYOUTS; layout++) {
        const td_layout_kind *kind = __atomic_load_n(&kinds[layout], __ATOMIC_ACQUIRE);
        if (layout < TD_LAYOUTS_KNOWN ? !strcmp(known[layout], name) : kind && !strcmp(kind->name, name))
            return layout;
    }
    return -1;
}

/* Under the lock: a row of the table and a key. */
static int place(const td_layout_kind *kind)
{
    int layout = find(kind->name), family = kind->family ? find(kind->family) : -1, key = TD_KEY_DENSE + 1;
    if (layout == TD_STRIDED || (layout > 0 && kinds[layout]))
        return td_error(TD_E_VALUE, "there is a layout '%s' already", kind->name);
    for (int i = TD_LAYOUTS_KNOWN; layout < 0 && i < TD_LAYOUTS; i++)
        if (!kinds[i])
            layout = i;
    if (kind->family && (family <= 0 || !kinds[family]))
        return td_error(TD_E_VALUE, "layout '%s' is of the family of '%s', which isn't registered", kind->name, kind->family);
    while (key < TD_KEY_DTYPE && of_key[key])
        key++;
    if (layout < 0 || (family < 0 && key == TD_KEY_DTYPE))
        return td_error(TD_E_RUNTIME, "no room for layout '%s': %d have keys of their own already", kind->name, TD_KEY_DTYPE - TD_KEY_DENSE - 1);
    keys_of[layout] = family < 0 ? (uint8_t)key : keys_of[family];
    if (family < 0)
        __atomic_store_n(&of_key[key], kind, __ATOMIC_RELEASE);
    __atomic_store_n(&kinds[layout], kind, __ATOMIC_RELEASE);
    return layout;
}

static int place_builtin(void)
{
    for (int i = 0; i < td_builtin_layout_count; i++)
        place(td_builtin_layouts[i]);
    return 0;
}

static const td_layout_kind *kind_of(int layout)
{
    td_once_run(&builtin_once, place_builtin);
    return (unsigned)layout < TD_LAYOUTS ? __atomic_load_n(&kinds[layout], __ATOMIC_ACQUIRE) : NULL;
}

const td_layout_kind *td_layout_describe(int layout) { return kind_of(layout); }

const char *td_layout_name(int layout)
{
    const td_layout_kind *kind = kind_of(layout);
    return (unsigned)layout < TD_LAYOUTS_KNOWN ? known[layout] : kind ? kind->name : NULL;
}

int td_layout_find(const char *name)
{
    td_once_run(&builtin_once, place_builtin);
    return name ? find(name) : -1;
}

td_key td_layout_key(int layout) { return kind_of(layout) ? (td_key)keys_of[layout] : TD_KEY_DENSE; }

const td_layout_kind *td_layout_of_key(int key)
{
    if (key <= TD_KEY_DENSE || key >= TD_KEY_DTYPE)
        return NULL;
    td_once_run(&builtin_once, place_builtin);
    return __atomic_load_n(&of_key[key], __ATOMIC_ACQUIRE);
}

const td_layout_kind *td_layout_with_strides(const td_tensor *x)
{
    const td_layout_kind *kind = x->storage && td_has_layout(x) ? td_layout_of_key(63 - __builtin_clzll(x->keys & TD_KEYS_LAYOUTS)) : NULL;
    return kind && kind->flags & TD_LAYOUT_STRIDES ? kind : NULL;
}

const char *td_layout_title(int number)
{
    const td_layout_kind *kind = td_layout_of_key(TD_KEY_DENSE + number);
    return number == 0 ? "" : kind ? kind->title ? kind->title : kind->name : "?";
}

int td_layout_register(const td_layout_kind *kind)
{
    if (td_library_check())
        return -1;
    if (!kind || kind->size < sizeof *kind)
        return td_error(TD_E_VALUE, "td_layout_kind: its size member is too small: set it to sizeof(td_layout_kind)");
    if (!kind->name || !*kind->name || strlen(kind->name) > 31)
        return td_error(TD_E_VALUE, "a layout needs a name of 1 to 31 letters");
    if (!kind->parts != !kind->from_parts)
        return td_error(TD_E_VALUE, "layout '%s': parts and from_parts go together", kind->name);
    td_once_run(&builtin_once, place_builtin);
    pthread_mutex_lock(&lock);
    int layout = place(kind);
    pthread_mutex_unlock(&lock);
    return layout;
}

/* ---- tensors */

static void destroy(void *extra)
{
    td_layout_record *record = extra;
    if (!td_drop_count(&record->refcount))
        return;
    if (record->kind->destroy)
        record->kind->destroy(record->own);
    td_mem_free(record, sizeof *record);
}

/* A head over a record, whose reference it takes over unless this fails. */
static td_tensor *over(td_layout_record *record, int ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    const bool inference = td_masks_now.inference;
    td_keyset keys = TD_KEYSET(keys_of[record->layout]) | TD_KEYSET(device.type) |
                     (record->kind->flags & TD_LAYOUT_BY_PARTS ? TD_KEYSET(TD_KEY_PARTS) : 0);
    td_tensor *x = td_head_new(ndim, dtype, device, keys | (inference ? TD_KEYSET(TD_KEY_AUTOGRAD) : 0),
                               inference ? TD_FLAG_INFERENCE : 0);
    uint32_t *version = x ? td_version_new(0) : NULL;      /* there is no storage to keep it */
    if (!version) {
        td_tensor_release(x);
        return NULL;
    }
    x->own_version = version;
    x->extra = record;
    x->numel = record->kind->numel ? record->kind->numel(record->own) : td_numel_checked(ndim, sizes);
    for (int d = 0; d < ndim; d++) {
        x->sizes[d] = sizes[d];
        x->strides[d] = 0;
    }
    return x;
}

static td_tensor *alias(td_tensor *x, bool own_version)
{
    td_layout_record *record = x->extra;
    td_tensor *other = over(record, x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
    if (!other)
        return NULL;
    __atomic_fetch_add(&record->refcount, 1, __ATOMIC_RELAXED);
    if (!own_version && x->own_version && !(other->flags & TD_FLAG_INFERENCE)) {
        td_version_release(other->own_version);
        __atomic_fetch_add(&x->own_version[1], 1, __ATOMIC_RELAXED);
        other->own_version = x->own_version;
    }
    return other;
}
static td_tensor *no_view(td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t at)
{
    (void)dtype, (void)ndim, (void)sizes, (void)strides, (void)at;
    return td_fail(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s has no strided views", td_layout_name(td_tensor_layout(x)));
}
static int not_readable(const td_tensor *x)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s has no strided memory", td_layout_name(td_tensor_layout(x)));
}
static const td_extra_table table = {destroy, alias, no_view, not_readable, NULL, NULL};

td_tensor *td_tensor_with_layout(int layout, void *own, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    const td_layout_kind *kind = kind_of(layout);
    if (!kind)
        return td_fail(TD_E_VALUE, "%d is no layout that was registered", layout);
    if ((unsigned)dtype >= TD_DTYPES || (!kind->numel && td_check_sizes(ndim, sizes)))
        return td_fail(TD_E_VALUE, "a tensor of layout %s: not a dtype, or not sizes", kind->name);
    if (!kind->numel && td_numel_checked((int)ndim, sizes) < 0)
        return td_fail(TD_E_RUNTIME, "a tensor of layout %s: the number of elements overflows", kind->name);
    td_layout_record *record = td_mem_alloc(sizeof *record);
    if (!record)
        return NULL;
    *record = (td_layout_record){&table, 1, kind, layout, own};
    td_tensor *x = over(record, (int)ndim, sizes, dtype, device.type < 0 ? (td_device){TD_CPU, -1} : device);
    if (!x)
        td_mem_free(record, sizeof *record);
    return x;
}

static const td_layout_record *record_of(const td_tensor *x)
{
    return td_has_layout(x) && x->extra && TD_EXTRA_TABLE(x) == &table ? x->extra : NULL;
}

int td_tensor_layout(const td_tensor *x)
{
    const td_layout_record *record = record_of(x);
    return record ? record->layout : TD_STRIDED;
}

int td_tensor_shown_layout(const td_tensor *x)
{
    while (x->extra && TD_EXTRA_TABLE(x)->inside)
        x = TD_EXTRA_TABLE(x)->inside(x);
    return td_tensor_layout(x);
}

void *td_tensor_fields(const td_tensor *x)
{
    const td_layout_record *record = record_of(x);
    return record ? record->own : NULL;
}

td_tensor *td_layout_to_dense(td_tensor *x)
{
    const td_layout_record *record = record_of(x);
    const td_layout_kind *kind = record ? NULL : td_layout_with_strides(x);
    if (kind)
        return kind->to_dense(x);
    if (!record)
        return td_tensor_retain(x);
    return record->kind->to_dense ? record->kind->to_dense(x)
           : td_fail(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s doesn't say what it is as a strided one", record->kind->name);
}

td_tensor *td_layout_from_dense(int layout, td_tensor *x)
{
    const td_layout_kind *kind = kind_of(layout);
    if (!x || td_tensor_layout(x) == layout)
        return x ? td_tensor_retain(x) : NULL;
    if (td_has_layout(x))
        return td_fail(TD_E_VALUE, "a tensor of layout %s isn't strided: convert it first, with to_dense()", td_layout_name(td_tensor_layout(x)));
    return kind && kind->from_dense ? kind->from_dense(layout, x)
           : td_fail(TD_E_NOT_IMPLEMENTED, "a strided tensor can't be made one of layout %s", kind ? kind->name : td_layout_name(layout) ? td_layout_name(layout) : "?");
}

int td_layout_take(td_tensor *x, const td_tensor *from)
{
    const td_layout_record *now = record_of(x), *next = record_of(from);
    int64_t none[TD_MAX_DIMS] = {0};
    if (!now || !next || now->layout != next->layout)
        return td_error(TD_E_RUNTIME, "a tensor of layout %s can't become one of layout %s", td_layout_name(td_tensor_layout(x)),
                        td_layout_name(td_tensor_layout(from)));
    if (x->ndim != from->ndim || memcmp(x->sizes, from->sizes, sizeof *x->sizes * x->ndim)) {
        if (td_tensor_set_geometry(x, from->ndim, from->sizes, none))
            return -1;
        x->numel = from->numel;
    }
    x->flags &= ~(unsigned)(TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING);
    x->dtype = from->dtype;
    __atomic_fetch_add(&((td_layout_record *)next)->refcount, 1, __ATOMIC_RELAXED);
    x->extra = (void *)next;
    destroy((void *)now);
    return 0;
}

int td_layout_parts(const td_tensor *x, td_layout_part *parts)
{
    const td_layout_record *record = record_of(x);
    return record && record->kind->parts ? record->kind->parts(x, parts)
           : td_error(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s doesn't list its parts", td_layout_name(td_tensor_layout(x)));
}

td_tensor *td_layout_from_parts(const td_tensor *x, int n, const td_layout_part *parts)
{
    const td_layout_record *record = record_of(x);
    return record && record->kind->from_parts ? record->kind->from_parts(record->layout, x->ndim, x->sizes, n, parts)
           : td_fail(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s can't be made of parts", td_layout_name(td_tensor_layout(x)));
}
