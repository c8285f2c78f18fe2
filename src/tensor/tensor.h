/* The tensor from inside.
 *
 * The head holds up to five dimensions; a longer shape has a separate block.  `data` is
 * the address of the first logical element, so kernels never add an offset.  The strides are signed: the
 * lowest address of a tensor may lie below `data`.
 *
 * Note [Version counters]
 * A version counts the writes to a group of tensors that share memory; autograd compares it with what it was
 * when an operand was saved.  The counter lives in the storage.  A tensor with `own_version` set (made by
 * x.data, or over a storage by hand) belongs to a separate group: writes through it are not seen by the others.
 * detach() and views stay in the group.
 *
 * x.data = y leaves x in the group that it was in, with other memory: then the counter moves out of the storage that x
 * looked at, to a block which x holds too, and a flag says so.  That is rare, so such blocks are found in a list.
 *
 * A block is three numbers: the count, the references to it, and the counter's name.  A counter gets its name, which no
 * other has had lately, when a write is first recorded for messages: an address can be used again, a name can't.
 *
 * Note [Small tensors]
 * A small CPU tensor is a single block: its head, then its storage's head, then the contents.  Either may outlive the
 * other; `parts` counts those that are left, and whoever goes last frees the block.
 *
 * Note [Views]
 * Every view made outside inference mode holds a counted pointer to its base, which is never itself a view.
 * Replaying it on another base of the same geometry is as_strided with its sizes, strides and offset, unless
 * `replay` says how (views that change the dtype).  A view carries the Autograd key even if nothing requires
 * a gradient yet: its base may get a history later, through another view. */
#ifndef TD_TENSOR_TENSOR_H
#define TD_TENSOR_TENSOR_H

#include <tede/dispatch.h>
#include <tede/tensor.h>
#include "base/base.h"

enum { TD_INLINE_DIMS = 5 };

struct td_storage {
    int64_t    refcount;
    void      *data;
    size_t     nbytes;
    size_t     capacity;                /* bytes to hand back to the allocator; 0 if inline or foreign */
    void     (*release)(void *context); /* for foreign memory */
    void      *context;
    uint32_t   version;
    uint32_t   block;                   /* bytes of the block that holds this head, inline data included */
    td_device  device;
    uint8_t    flags;                   /* TD_STORAGE_* */
    uint8_t    parts;                   /* see Note [Small tensors]; 0: a separate block */
    uint32_t   version_name;            /* see Note [Version counters]; 0: none yet */
    _Alignas(64) char inline_data[];    /* small contents follow the head */
};
enum { TD_STORAGE_FOREIGN = 1, TD_STORAGE_INLINE = 2, TD_STORAGE_READONLY = 4, TD_STORAGE_SHARED = 8,
       TD_STORAGE_COUNTED_APART = 16,     /* see Note [Version counters] */
       TD_STORAGE_FIXED = 32,             /* its address is known outside */
       TD_STORAGE_LATE = 64,              /* without memory yet; `context` is the region's: late.h */
       TD_STORAGE_AWAITED = 128 };        /* a call that a region has recorded writes it */

typedef struct td_autograd_meta td_autograd_meta;   /* src/autograd/meta.h */

/* How a view that as_strided can't express is made again from a base.  The layer above embeds this at the start of
 * its own record; td_view_strided passes the same record on to views of such a view. */
typedef struct td_replay {
    int64_t refcount;
    void  (*drop)(struct td_replay *replay);
} td_replay;

/* The table of a layout that is not strided: what `extra` points to begins with a pointer to one. */
typedef struct td_extra_table {
    void (*destroy)(void *extra);
    /* NULL for layouts without: what td_alias_detached and td_view_as_dtype give of such a tensor, and whether its
     * memory may be read as it lies (0, or -1 with an error). */
    struct td_tensor *(*alias)(struct td_tensor *x, bool own_version);
    struct td_tensor *(*view)(struct td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes,
                              const int64_t *strides, int64_t byte_offset);
    int  (*readable)(const struct td_tensor *x);
    /* Of what stands for another tensor: that (borrowed). */
    const struct td_tensor *(*inside)(const struct td_tensor *x);
    /* The number that the one element of a strided tensor stands for; NULL: its dtype says. */
    int  (*item)(const struct td_tensor *x, td_scalar *value);
} td_extra_table;
#define TD_EXTRA_TABLE(x) (*(const td_extra_table **)(x)->extra)

struct td_tensor {
    int64_t     refcount;
    td_keyset   keys;
    td_storage *storage;
    char       *data;
    int64_t     numel;
    int64_t    *sizes;                  /* inline_shape, or a block of 2 * ndim numbers */
    int64_t    *strides;                /* sizes + TD_INLINE_DIMS, or sizes + ndim */
    int8_t      dtype;
    uint8_t     ndim;
    uint16_t    flags;                  /* TD_FLAG_* */
    td_device   device;
    uint32_t    attr_version;           /* of a view: the version at which its gradient function was made */
    td_autograd_meta *autograd;         /* NULL until needed */
    td_tensor  *base;                   /* counted; what this is a view of */
    td_replay  *replay;
    uint32_t   *own_version;            /* counted block, see Note [Version counters] */
    void       *wrapper;                /* the Python object: weak, or owned while TD_FLAG_OWNS_WRAPPER */
    void       *extra;                  /* of a layout that is not strided; its table is extra's first member */
    int64_t     inline_shape[2 * TD_INLINE_DIMS];
};

enum {
    TD_FLAG_CONTIGUOUS = 1,
    TD_FLAG_WRAPPED_NUMBER = 2,
    TD_FLAG_INFERENCE = 4,          /* made in inference mode: no version counter, no base */
    TD_FLAG_OWNS_WRAPPER = 8,
    TD_FLAG_PYTHON = 16,            /* a Python subclass that wants to see dispatches */
    TD_FLAG_CONJ = 32, TD_FLAG_NEG = 64,
    TD_FLAG_NO_GRAD_VIEW = 128,     /* a view made under no_grad: writes with gradients to it are errors */
    TD_FLAG_MULTI_VIEW = 256,       /* one of several views from one call (unbind, split): same */
    TD_FLAG_REQUIRES_GRAD = 512,    /* a leaf that wants a gradient */
    TD_FLAG_REPLACED_DATA = 1024,
    TD_FLAG_WITH_STORAGE = 4096,    /* the head of one block with a storage, see Note [Small tensors] */
    TD_FLAG_NON_OVERLAPPING = 2048, /* dense in some order of dimensions, with strides above 0; known when made */
    TD_FLAG_READONLY = 8192,        /* writes through it are errors, whatever its storage allows */
    TD_FLAG_INFERENCE_VIEW = 16384, /* with NO_GRAD_VIEW: the view was made in inference mode, of a tensor that wasn't */
    TD_FLAG_PRIMAL = 32768,         /* the value of a dual number alone: its base's tangent isn't its own */
};
/* What views, and aliases like those of detach(), take over from the tensor they look at. */
enum {
    TD_FLAGS_OF_ALIASES = TD_FLAG_INFERENCE | TD_FLAG_CONJ | TD_FLAG_NEG | TD_FLAG_READONLY | TD_FLAG_PRIMAL,
    TD_FLAGS_OF_CREATION = TD_FLAG_NO_GRAD_VIEW | TD_FLAG_INFERENCE_VIEW | TD_FLAG_MULTI_VIEW,
    TD_FLAGS_OF_VIEWS = TD_FLAGS_OF_ALIASES | TD_FLAGS_OF_CREATION,
};

/* What runs when a tensor with a wrapper or autograd state goes away; set by the layers above. */
typedef struct td_tensor_hooks {
    void (*drop_autograd)(td_tensor *x);
    void (*drop_wrapper)(void *wrapper);
} td_tensor_hooks;
extern td_tensor_hooks td_tensor_hook;

static inline int64_t td_itemsize(const td_tensor *x) { return td_itemsizes[x->dtype]; }

/* The negative of an integer of 1, 2, 4 or 8 bytes, in place; it wraps, as `neg` does. */
static inline void td_negate_integer(void *element, int64_t bytes)
{
    switch (bytes) {
    case 1: { uint8_t v; memcpy(&v, element, 1); v = (uint8_t)-v; memcpy(element, &v, 1); return; }
    case 2: { uint16_t v; memcpy(&v, element, 2); v = (uint16_t)-v; memcpy(element, &v, 2); return; }
    case 4: { uint32_t v; memcpy(&v, element, 4); v = -v; memcpy(element, &v, 4); return; }
    default: { uint64_t v; memcpy(&v, element, 8); v = -v; memcpy(element, &v, 8); return; }
    }
}

/* ---- making views (src/tensor/view.c).  `offset` counts elements from self's first.  What would reach beyond the storage
 * is an error. */
td_tensor *td_view_strided(td_tensor *self, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
/* The same of the memory seen as another dtype (view_as_real, view(dtype)): the offset counts bytes. */
td_tensor *td_view_as_dtype(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides,
                            int64_t byte_offset);
/* Same, but no view relation and no gradient: shares storage and version counter (detach). */
td_tensor *td_alias_detached(td_tensor *self, bool own_version);
/* Same, read as another dtype or shape. */
/* The same without what `extra` has to say of views: for a table's own functions.  td_plain_view is a view in autograd's sense. */
td_tensor *td_plain_view(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t byte_offset);
td_tensor *td_plain_alias(td_tensor *self, td_dtype dtype, bool own_version);
/* Nor is it checked that the geometry stays within the storage. */
td_tensor *td_plain_alias_as(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides);
td_tensor *td_alias_as(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides);
/* Change the geometry of a tensor in place (resize_, set_, t_); the caller checks bounds and, where the first
 * element moves, sets `data`.  The tensor is unchanged after an error. */
int  td_tensor_set_geometry(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides);
/* Whether the geometry (offset in elements) stays within the storage; -1 with PyTorch's error. */
int  td_check_in_storage(const td_storage *s, int64_t offset, int ndim, const int64_t *sizes, const int64_t *strides,
                         td_dtype dtype);
/* 0, or -1 with PyTorch's error if a size is negative, there are too many, or their product doesn't fit. */
int  td_check_sizes(int64_t ndim, const int64_t *sizes);
/* The product of sizes that aren't negative; -1 with PyTorch's error if it doesn't fit. */
int64_t td_numel_checked(int ndim, const int64_t *sizes);
/* Contiguous strides for sizes; returns the number of elements, or -1 if it overflows. */
int64_t td_contiguous_strides(int ndim, const int64_t *sizes, int64_t *strides);
/* NULL, and the error of sizes (and strides, or NULL) that no memory could have. */
void *td_fail_overflow(int ndim, const int64_t *sizes, const int64_t *strides);
/* Strides with dimension 1, the channels, innermost. */
void    td_channels_last_strides(int ndim, const int64_t *sizes, int64_t *strides);
/* Elements reached below and above the first one: [*low, *high], low <= 0 <= high; false if it overflows. */
bool td_bounds(int ndim, const int64_t *sizes, const int64_t *strides, int64_t *low, int64_t *high);
/* Strides with which `self`'s elements can be seen as `sizes` without a copy; false if there are none. */
bool td_view_strides(const td_tensor *self, int ndim, const int64_t *sizes, int64_t *strides);
void td_tensor_update_flags(td_tensor *x);
/* A text that td_string_free frees; NULL with an error. */
char *td_string_copy(const char *text);

uint32_t *td_version_apart(const td_storage *s);
static inline uint32_t *td_version_of(const td_tensor *x)
{
    if (x->own_version)
        return x->own_version;
    return TD_UNLIKELY(x->storage->flags & TD_STORAGE_COUNTED_APART) ? td_version_apart(x->storage) : &x->storage->version;
}
/* The counter of x's group moves to a block (of a number and a count of holders), which x has as its own. */
int  td_version_move(td_tensor *x) TD_MUST_USE;
uint32_t *td_version_new(uint32_t count);
void td_version_release(uint32_t *version);
/* The name of the counter of x, which has one. */
uint32_t td_version_name(const td_tensor *x);
void td_version_forget(const td_storage *s);
/* Whether writes to x are errors: its own flag, or memory that was lent to be read. */
static inline bool td_readonly(const td_tensor *x)
{
    return x->flags & TD_FLAG_READONLY || (x->storage && x->storage->flags & TD_STORAGE_READONLY);
}
/* Whether it may be that x can't be written to: it is read-only, or was made in inference mode. */
static inline bool td_guarded(const td_tensor *x)
{
    return x->flags & (TD_FLAG_READONLY | TD_FLAG_INFERENCE) || (x->storage && x->storage->flags & TD_STORAGE_READONLY);
}
/* After a successful write. */
static inline void td_bump_version(td_tensor *x)
{
    if (!(x->flags & TD_FLAG_INFERENCE) && (x->storage || x->own_version))
        __atomic_fetch_add(td_version_of(x), 1, __ATOMIC_RELAXED);
}
static inline td_tensor *td_retain_fast(td_tensor *x)
{
    __atomic_fetch_add(&x->refcount, 1, __ATOMIC_RELAXED);
    return x;
}

/* "[2, 3]" into a buffer; long shapes are cut.  Returns the buffer. */
typedef char td_shape_text[256];
const char *td_shape_str(int ndim, const int64_t *sizes, td_shape_text buffer);

/* Several shapes under each other, for the end of an error's message: drawn.c.  `at` is the dimension that doesn't fit,
 * -1 for no mark; `aligned` at the right, as broadcasting aligns them.  "" where they wouldn't fit on lines. */
enum { TD_DRAWN = 1200 };
typedef char td_drawn_text[TD_DRAWN];
typedef struct td_drawn { const char *name; int ndim; const int64_t *sizes; int at; } td_drawn;
const char *td_draw_shapes(td_drawn_text text, bool aligned, int n, const td_drawn *shapes);

/* Wrap and check a dimension as PyTorch does; -1 with IndexError recorded. */
int td_wrap_dim(int64_t dim, int ndim);

#endif
