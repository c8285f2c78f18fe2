/* Levels and wrappers from inside.
 *
 * Note [Levels]
 * While a level is open the thread includes the Transforms key, so that every call, of wrappers or not, comes to the
 * front first.  The front hands it to the innermost level.
 * - A vmap level runs the operator's batching rule on what the wrappers wrap, below itself (batch.h).
 * - A grad or jvp level lifts all operands to its wrappers and goes on with the keys ForwardAD, Autograd and
 *   Unwrap.  The first two are the same kernels as outside, and leave tangents and histories on this level's wrappers;
 *   Unwrap is the level's lower end: it runs the operator below on what they wrap, and wraps the results.
 * - A functionalize level goes on with the key Functionalize alone.  Its kernel knows which tensors stand for values of this level, and
 *   makes calls below it that write nothing.
 * So each level has a separate graph, and derivatives of different levels can't be confused.
 *
 * A wrapper shares storage and version counter with what it wraps: a write is seen by all levels.  Sizes and strides
 * are those without the batch's dimension.  At a grad level its memory may even be read. */
#ifndef TD_TRANSFORMS_LEVEL_H
#define TD_TRANSFORMS_LEVEL_H
#include <tede/transforms.h>
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "tensor/masks.h"
#include "tensor/tensor.h"

typedef struct td_level td_level;
struct td_level {
    int64_t       refcount;
    td_level     *outer;          /* counted */
    int           number;
    uint8_t       kind;           /* td_transform */
    uint8_t       randomness;
    bool          alive;
    bool          grad_before, forward_before;   /* the modes outside; below the level they still hold if off */
    int64_t       size;
};

typedef struct td_wrapped {
    const td_extra_table *table;
    td_level             *level;  /* counted */
    td_tensor            *value;  /* counted */
    int                   dim;    /* the batch's in value; -1 at a grad or jvp level */
} td_wrapped;

extern const td_extra_table td_wrapped_table;
extern _Thread_local td_level *td_level_now;

/* x's wrapper record, or NULL. */
static inline td_wrapped *td_wrapped_of(const td_tensor *x)
{
    return x->extra && *(const td_extra_table **)x->extra == &td_wrapped_table ? x->extra : NULL;
}
/* Its record if it belongs to `level`. */
static inline td_wrapped *td_wrapped_at(const td_tensor *x, const td_level *level)
{
    td_wrapped *w = td_wrapped_of(x);
    return w && w->level == level ? w : NULL;
}

/* A wrapper of `value`, which is taken over (also after a failure; NULL gives NULL). */
td_tensor *td_wrap(td_level *level, td_tensor *value, int dim);
/* After a write: the wrapper looks like what it wraps again. */
int td_wrapper_refresh(td_tensor *x);

/* The call, with operands wrapped at a level, or plain, of a vmap level: batch.c. */
int td_vmap_call(const td_op *op, td_keyset keys, td_level *level, const td_value *arguments, td_value *results);

/* The kernel that casts, on the operator's Autocast key: autocast.c. */
int td_autocast_register(const td_op *op);

/* x has got a tangent by a write: see Note [Views of what becomes dual] in tangent.c. */
void td_dual_by_write(const td_tensor *x);

#endif
