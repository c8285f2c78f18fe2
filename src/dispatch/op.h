/* An operator's row, and how a stub picks from it.
 *
 * A row is written by the generator beside the operator's stub, and filled in at run time by those who register
 * kernels.  A stub computes the call's key set, takes the highest key's slot and jumps.  An empty slot is the
 * slow path: a boxed kernel, a fallback, a composite body, or, for what runs around kernels, the next key.
 *
 * Note [Registering while others call]
 * A slot is a pointer, read and written atomically; a boxed kernel and its context are a record that is made before its
 * pointer is shown and never freed.  So calls take no lock, and see the old or the new one. */
#ifndef TD_DISPATCH_OP_H
#define TD_DISPATCH_OP_H
#include <tede/list.h>
#include <tede/spec.h>
#include "base/base.h"
#include "dispatch/batching.h"
#include "tensor/masks.h"
#include "tensor/tensor.h"

/* See Note [Registering while others call]. */
typedef struct td_boxed_entry {
    td_boxed_kernel *kernel;
    void            *context;
    td_kernel        below;          /* the unboxed kernel that it covers, or NULL */
    const struct td_boxed_entry *under;     /* what comes back when this is taken away; or NULL */
    struct td_boxed_entry *before;   /* what was registered before; keeps all of them reachable */
} td_boxed_entry;

/* Calls `kernel` with the arguments unpacked. */
typedef int td_unboxer(td_kernel kernel, td_keyset keys, const td_value *arguments, td_value *results);

/* Of a row: what runs around kernels, strided tensors by device, and one slot, always empty, for all other layouts.  Theirs
 * are numbered as in td_key_slot and live in a separate table, once there are any. */
enum { TD_ROW_SLOTS = 16 + TD_DEVICE_TYPES + 1 };

/* `jvp:` of the entry, where it is a word and not a formula: how src/transforms/forward.c gets the results' tangents. */
typedef enum td_tangents {
    TD_TANGENTS_TRANSPOSED,         /* by the gradient of the gradient */
    TD_TANGENTS_LINEAR,             /* by the operator of the tangents */
    TD_TANGENTS_LINEAR_LAID_OUT,    /* ... which must lie in memory as their tensors do */
    TD_TANGENTS_LINEAR_RESOLVED,    /* ... and have their conjugate computed if those have */
    TD_TANGENTS_PICKED,             /* (values, indices) along `dim`: gathered by the indices */
    TD_TANGENTS_COPIED,             /* in place: the second operand's */
} td_tangents;

/* `late:` of the entry: what a region may do with the operator beyond what follows from its kind. Numbers are those of arguments. */
typedef struct td_late_rule {
    bool    leaves_work;            /* its kernel checks its arguments at once and leaves the rest for later (tensor/late.h) */
    bool    joins;                  /* its result is what its first argument lists, one behind another along the second */
    bool    checks;                 /* elements of `index` must be at least 0 and below a size of `below`, that of `dim`, or the number `below` is; */
    uint8_t index, below, but;      /*   or else be the number `but`, if that isn't 0 */
    int8_t  dim;
} td_late_rule;

/* What an operator does for a layout other than strided, from `layouts:` of its entry. */
typedef enum td_layout_pattern {
    TD_LAYOUT_KERNEL,               /* a kernel on the CPU */
    TD_LAYOUT_KERNEL_ANYWHERE,      /* a kernel that calls operators: on any device */
    TD_LAYOUT_VALUES,               /* itself, on the values of a tensor that is settled (sums of functions aren't functions of sums) */
    TD_LAYOUT_ELEMENTS,             /* ... of any tensor: it is linear */
    TD_LAYOUT_EACH_PART,            /* itself, on each part; a dtype is for the values alone */
    /* Of layouts on TD_KEY_PARTS, whose fallback acts on them. */
    TD_LAYOUT_ROWS,                 /* itself, on the values, of which other operands are no part */
    TD_LAYOUT_DIMS,                 /* itself, on the values, whose dimensions are numbered otherwise */
    TD_LAYOUT_REDUCED,              /* ... and a dimension that is named goes, or becomes 1 */
    TD_LAYOUT_OWN,                  /* what the layout's `call` makes of the word */
} td_layout_pattern;
typedef struct td_layout_kernel {
    uint8_t   key;                  /* of one layout, or TD_KEY_DENSE for what holds for all */
    uint8_t   pattern;
    td_kernel kernel;
    const td_op *makes;             /* of a pattern, for a form in place or with out=: the operator that makes a new tensor; else NULL */
    const char *word;               /* of TD_LAYOUT_OWN */
} td_layout_kernel;

/* An implementation of a structured operator on a device (<tede/spec.h>): one of the two functions. */
typedef struct td_impl {
    td_kernel             typed;
    td_boxed_impl        *boxed;
    void                 *context;
    const struct td_impl *under;     /* what comes back when this is taken away; or NULL */
    const struct td_impl *before;    /* what was registered before, for any operator; keeps all of them reachable */
} td_impl;

/* What the forms of a structured operator share.  An implementation is a record that is made before it is shown, and never freed:
 * Note [Registering while others call]. */
typedef struct td_structured {
    const td_impl *impls[TD_DEVICE_TYPES];      /* none for meta */
    td_op         *forms[4];                    /* functional, then those in place and with out=, as far as there are any; NULL */
} td_structured;

struct td_op {
    td_op_info      info;
    td_unboxer     *unbox;               /* NULL: all kernels are boxed (define.c) */
    td_kernel       from_boxed;          /* an unboxed kernel that boxes its arguments and goes to td_call_boxed */
    td_kernel       composite;           /* device-neutral body, or NULL */
    td_boxed_entry **boxed;              /* TD_SLOTS of them and the default, or NULL */
    td_kernel      *layouts;             /* TD_SLOTS, of which those from TD_ROW_SLOTS - 1 on are used; or NULL */
    const td_layout_kernel *of_layouts;  /* `layouts:` of the entry, ends with a key of 0; or NULL */
    const td_batching *batching;         /* its rule at vmap levels; NULL: of an operator that was defined without one */
    const char     *functional;          /* of aten's in-place operators: the full name of the one that gives a new tensor */
    td_tangents     tangents;
    td_late_rule    late;
    td_structured  *structured;          /* with its kernel for strided tensors of any device, which calls the device's implementation; */
    td_kernel       on_strided;          /*   or both NULL */
    td_kernel       kernels[TD_ROW_SLOTS];
};

/* The implementation for a call's device; NULL on meta, where there is nothing to compute. */
static inline const td_impl *td_impl_of(const td_structured *of, td_keyset keys)
{
    return __atomic_load_n(&of->impls[63 - __builtin_clzll((keys & TD_KEYS_DEVICES) | 1)], __ATOMIC_ACQUIRE);
}
/* Where there is none: 0 on meta, or -1 with an error. */
int td_no_impl(const td_op *op, td_keyset keys);
/* Of a call without a typed implementation: by its boxed one or, of a typed one that has failed, by the CPU if it left the call to it. */
int td_run_other_impl(const td_impl *impl, const td_op *op, td_keyset keys, const td_value *arguments, td_tensor *const *results);

/* What devices with programs have of the core's (src/kernels/device/), written by the generator: implementations of structured operators and kernels
 * of others, which leave to the CPU what they can't do. */
typedef struct td_accelerated { const char *op; td_kernel kernel; bool structured; td_op **row; } td_accelerated;
extern const td_accelerated td_accelerated_ops[];      /* ended by NULL */
/* Whether what has just failed on a device is left to the CPU; the error is cleared then. */
bool td_is_left_to_cpu(td_keyset keys);
/* Calls the elementwise operator's implementation for out's device. */
int td_call_elementwise(const td_op *op, const char *choice, td_tensor *const *in, const td_scalar *params, td_tensor *out);

/* Operands that kernels can't read as they lie (src/ops/iterate/lazy.c), and a call that goes on from there. */
#define TD_KEYS_LAZY     (TD_KEYSET(TD_KEY_CONJUGATE) | TD_KEYSET(TD_KEY_NEGATIVE) | TD_KEYSET(TD_KEY_UNALIGNED))
#define TD_KEYS_TO_LAZY  ((TD_KEYSET(TD_KEY_CONJUGATE) << 1) - 1)

enum { TD_SLOT_AUTOGRAD = TD_KEY_AUTOGRAD - TD_KEY_AROUND, TD_SLOT_FORWARD = TD_KEY_FORWARD_AD - TD_KEY_AROUND,
       TD_SLOT_CPU = 16 + TD_CPU, TD_SLOT_META = 16 + TD_META, TD_SLOT_LATE = 16 + TD_DEVICE_TYPES - 1 };

/* Operators that were defined at run time: by name; the number and the i-th of those that are still there. */
/* Of a namespace that is a part of a text: nothing is allocated. */
const td_op *td_op_find_parts(const char *space, size_t space_length, const char *name, const char *overload);
td_op *td_defined_find(const char *space, size_t space_length, const char *name, const char *overload);
int    td_defined_count(void);
td_op *td_defined_at(int i);

/* The chunks of generated rows. */
typedef struct td_op_rows { td_op *const *rows; const int *count; } td_op_rows;
extern const td_op_rows td_op_chunks[];
extern const int        td_op_chunk_count;

/* The operator's namespace: "aten", or that of td_op_define. */
static inline const char *td_op_space(const td_op *op) { return op->info.space ? op->info.space : "aten"; }
static inline int td_argument_index(const td_op *op, const char *name) { return td_argument_named(&op->info, name); }
/* Whether it is made of others: a kernel for all keys was registered. */
bool      td_op_has_default(const td_op *op);
td_kernel td_pick_slow(const td_op *op, td_keyset *keys);
/* Of keys that name a kernel's: "SparseCPU".  Returns the buffer. */
const char *td_backend_title(td_keyset keys, char *buffer, size_t size);
/* Shows a kernel in a slot of td_key_slot's; NULL takes it away. */
int       td_op_set_kernel(td_op *op, int slot, td_kernel kernel);
int       td_op_set_boxed(td_op *op, int slot, td_boxed_kernel *kernel, void *context);
/* Gives a device what its programs can do.  The other takes away all that is registered for one. */
int       td_accelerate(int device);
void      td_forget_device(int device);

static inline int td_top_slot(td_keyset keys)
{
    int top = 63 - __builtin_clzll(keys | 1);
    return top >= TD_KEY_AROUND ? top - TD_KEY_AROUND
         : top >= TD_KEY_DENSE ? 16 + (top - TD_KEY_DENSE) * TD_DEVICE_TYPES + (63 - __builtin_clzll((keys & TD_KEYS_DEVICES) | 1))
                               : TD_SLOT_CPU;
}
static inline int td_row_slot(td_keyset keys)
{
    int top = 63 - __builtin_clzll(keys | 1);
    return top >= TD_KEY_AROUND ? top - TD_KEY_AROUND
         : top == TD_KEY_DENSE ? 16 + (63 - __builtin_clzll((keys & TD_KEYS_DEVICES) | 1))
         : top > TD_KEY_DENSE ? TD_ROW_SLOTS - 1 : TD_SLOT_CPU;
}

/* The kernel for these keys; on return `keys` may have lost keys that have nothing to say.  NULL with an error. */
static inline td_kernel td_pick(const td_op *op, td_keyset *keys)
{
    td_kernel kernel = __atomic_load_n(&op->kernels[td_row_slot(*keys)], __ATOMIC_ACQUIRE);
    return TD_LIKELY(kernel != NULL) ? kernel : td_pick_slow(op, keys);
}

static inline td_keyset td_mask(td_keyset keys)
{
    return (keys | td_masks_now.include) & ~td_masks_now.exclude;
}
/* Keys of a call that makes a tensor on a device (none: the CPU). */
static inline td_keyset td_device_keys(td_device device)
{
    return TD_KEYSET(TD_KEY_DENSE) | TD_KEYSET(device.type < 0 ? TD_CPU : device.type);
}
static inline td_keyset td_keys_of(const td_tensor *x) { return x->keys; }
static inline td_keyset td_keys_of_list(int64_t n, td_tensor *const *list)
{
    td_keyset keys = 0;
    for (int64_t i = 0; i < n; i++)
        keys |= list[i]->keys;
    return keys;
}
static inline bool td_is_backend(td_keyset keys) { return td_top_slot(keys) >= 16; }

/* Why a stub was handed NULL: keeps a pending error, or says which argument it was. */
void *td_null_argument(const char *op, const char *argument);
/* Whether a list has a NULL member. */
static inline bool td_list_has_null(int64_t n, td_tensor *const *list)
{
    for (int64_t i = 0; i < n; i++)
        if (!list[i])
            return true;
    return false;
}
int td_call_boxed(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results);
/* The pattern that the operator's entry names for the layout of a slot (src/dispatch/layouts.c); NULL where it names none, or
 * the layout doesn't list its parts. */
const td_layout_kernel *td_layout_pattern_of(const td_op *op, int slot);
/* What an operator does with operands of formats and of dtypes from outside, on TD_KEY_DTYPE: see formats.c. */
enum { TD_OPS_OF_ANY_DTYPE = TD_OP_POINTWISE | TD_OP_COMPOSITE | TD_OP_VIEW | TD_OP_INPLACE_VIEW | TD_OP_ANY_DEVICE };
int td_call_with_formats(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results);
int td_call_by_pattern(const td_op *op, const td_layout_kernel *pattern, const td_value *arguments, td_value *results);

#endif
