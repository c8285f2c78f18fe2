/* Layouts from outside.  The fields hang on the tensor's `extra`, behind a table that destroys them; there is no storage,
 * so what would read strided memory refuses. */
#include "tensor/layout.h"

#include <pthread.h>
#include <tede/library.h>
#include "dispatch/masks.h"
#include "tensor/head.h"
#include "tensor/sparse.h"

static const td_layout_kind *kinds[TD_LAYOUTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Shared by a tensor and its aliases. */
typedef struct fields {
    const td_extra_table *table;
    int64_t               refcount;
    const td_layout_kind *kind;
    void                 *own;
} fields;

static const td_layout_kind *kind_of(int layout)
{
    return (unsigned)layout < TD_LAYOUTS ? __atomic_load_n(&kinds[layout], __ATOMIC_ACQUIRE) : NULL;
}

const char *td_layout_name(int layout)
{
    static const char *const own[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"};
    const td_layout_kind *kind = kind_of(layout);
    return (unsigned)layout < (unsigned)TD_COUNT(own) ? own[layout] : kind ? kind->name : NULL;
}

td_key td_layout_key(int layout)
{
    return layout >= TD_LAYOUT_A && layout < TD_LAYOUTS ? (td_key)(TD_KEY_LAYOUT_A + layout - TD_LAYOUT_A)
           : layout == TD_STRIDED ? TD_KEY_DENSE : layout == TD_SPARSE_COO ? TD_KEY_SPARSE : TD_KEY_COMPRESSED;
}

const char *td_layout_title(int number)
{
    const td_layout_kind *kind = kind_of(TD_LAYOUT_A + TD_KEY_DENSE + number - TD_KEY_LAYOUT_A);
    return kind ? kind->name : "?";
}

int td_layout_register(const td_layout_kind *kind)
{
    if (td_library_check())
        return -1;
    if (!kind || !kind->name || !*kind->name || strlen(kind->name) > 31)
        return td_error(TD_E_VALUE, "a layout needs a name of 1 to 31 letters");
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int layout = TD_LAYOUTS - 1; layout >= 0; layout--) {
        const char *name = td_layout_name(layout);
        if (name && !strcmp(name, kind->name))
            found = -2;
        else if (!name && found != -2)
            found = layout;
    }
    if (found >= 0)
        __atomic_store_n(&kinds[found], kind, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    if (found == -2)
        return td_error(TD_E_VALUE, "there is a layout '%s' already", kind->name);
    return found >= 0 ? found : td_error(TD_E_RUNTIME, "no room for layout '%s': there are %d from outside already", kind->name,
                                         TD_LAYOUTS - TD_LAYOUT_A);
}

static void destroy(void *extra)
{
    fields *f = extra;
    if (!td_drop_count(&f->refcount))
        return;
    if (f->kind->destroy)
        f->kind->destroy(f->own);
    td_mem_free(f, sizeof *f);
}

/* A head over fields, whose reference it takes over unless this fails. */
static td_tensor *over(fields *f, int layout, int ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    bool inference = td_masks_now.inference;
    td_keyset keys = TD_KEYSET(td_layout_key(layout)) | TD_KEYSET(device.type);
    td_tensor *x = td_head_new(ndim, dtype, device, keys | (inference ? TD_KEYSET(TD_KEY_AUTOGRAD) : 0),
                               inference ? TD_FLAG_INFERENCE : 0);
    uint32_t *version = x ? td_version_new(0) : NULL;      /* there is no storage to keep it */
    if (!version) {
        td_tensor_release(x);
        return NULL;
    }
    x->own_version = version;
    x->extra = f;
    memcpy(x->sizes, sizes, (size_t)ndim * sizeof *sizes);
    x->numel = td_contiguous_strides(ndim, x->sizes, x->strides);
    return x;
}

static td_tensor *alias(td_tensor *x, bool own_version)
{
    (void)own_version;
    fields *f = x->extra;
    td_tensor *other = over(f, td_tensor_layout(x), x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
    if (other)
        __atomic_fetch_add(&f->refcount, 1, __ATOMIC_RELAXED);
    return other;
}
td_tensor *td_layout_no_view(td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t at)
{
    (void)dtype, (void)ndim, (void)sizes, (void)strides, (void)at;
    return td_fail(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s has no strided views", td_layout_name(td_tensor_layout(x)));
}
int td_layout_not_readable(const td_tensor *x)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s has no strided memory", td_layout_name(td_tensor_layout(x)));
}
static const td_extra_table table = {destroy, alias, td_layout_no_view, td_layout_not_readable};

td_tensor *td_tensor_with_layout(int layout, void *own, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    const td_layout_kind *kind = kind_of(layout);
    int64_t strides[TD_MAX_DIMS];
    if (!kind)
        return td_fail(TD_E_VALUE, "%d is no layout that was registered", layout);
    if ((unsigned)dtype >= TD_DTYPES || td_check_sizes(ndim, sizes))
        return td_fail(TD_E_VALUE, "a tensor of layout %s: not a dtype, or not sizes", kind->name);
    int64_t numel = td_contiguous_strides((int)ndim, sizes, strides);
    if (numel < 0)
        return td_fail(TD_E_RUNTIME, "a tensor of layout %s: the number of elements overflows", kind->name);
    fields *f = td_mem_alloc(sizeof *f);
    if (!f)
        return NULL;
    *f = (fields){&table, 1, kind, own};
    td_tensor *x = over(f, layout, (int)ndim, sizes, dtype, device.type < 0 ? (td_device){TD_CPU, -1} : device);
    if (!x)
        td_mem_free(f, sizeof *f);
    return x;
}

int td_tensor_layout(const td_tensor *x)
{
    td_keyset layouts = x->keys >> TD_KEY_LAYOUT_A & 3;
    return layouts ? TD_LAYOUT_A + __builtin_ctzll(layouts) : td_is_sparse(x) ? td_sparse_of(x)->layout : TD_STRIDED;
}

void *td_tensor_fields(const td_tensor *x) { return td_tensor_layout(x) >= TD_LAYOUT_A ? ((fields *)x->extra)->own : NULL; }

td_tensor *td_layout_to_dense(td_tensor *x)
{
    int layout = td_tensor_layout(x);
    const td_layout_kind *kind = kind_of(layout);
    if (layout == TD_STRIDED)
        return td_tensor_retain(x);
    return kind && kind->to_dense ? kind->to_dense(x)
           : td_fail(TD_E_NOT_IMPLEMENTED, "a tensor of layout %s doesn't say what it is as a strided one", td_layout_name(layout));
}
