/* tede/transforms.h: levels, which turn a function of tensors into another one.
 *
 * A transform is entered, the function runs on wrapped tensors, and the transform is left.  Levels nest: a call is
 * handled by the innermost level first, each passing on to the next what it makes of the call, and what comes out
 * below the outermost one are calls on plain tensors.  At a vmap level a wrapper stands for a batch of tensors and
 * hides one dimension; at a grad or jvp level it is a tensor with a history, or a tangent, of its own.  At a functionalize level calls
 * go to the kernel of TD_KEY_FUNCTIONALIZE, and nothing is wrapped here: what stands for values is that kernel's.  See docs/transforms.md. */
#ifndef TEDE_TRANSFORMS_H
#define TEDE_TRANSFORMS_H
#include <tede/dispatch.h>
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_transform { TD_TRANSFORM_VMAP, TD_TRANSFORM_GRAD, TD_TRANSFORM_JVP, TD_TRANSFORM_FUNCTIONALIZE } td_transform;
/* What random operators do at a vmap level; UNSUPPORTED: an error that names no way to allow it, for the older entry to vmap. */
typedef enum td_randomness { TD_RANDOM_ERROR, TD_RANDOM_DIFFERENT, TD_RANDOM_SAME, TD_RANDOM_UNSUPPORTED } td_randomness;

/* Enter a level on this thread; its number (1, 2, ...), or -1.  `size` is the batch's at a vmap level. */
TD_API int td_transform_enter(td_transform kind, int64_t size, td_randomness randomness);
/* Leave the innermost level.  Wrappers that outlive it stand for what they wrap. */
TD_API void td_transform_leave(void);
/* The innermost level's number; 0 outside. */
TD_API int td_transform_level(void);
TD_API td_transform td_transform_kind(void);
TD_API int64_t td_transform_size(void);
/* Whether a level of this kind is open on this thread. */
TD_API bool td_transform_is_open(td_transform kind);
TD_API td_randomness td_transform_randomness(void);
/* Go on below the innermost level for a while, and come back: what a rule written outside needs. */
typedef struct td_lowered { void *level; uint64_t include, exclude; bool grad_disabled; } td_lowered;
TD_API td_lowered td_transform_lower(void);
TD_API void       td_transform_raise(td_lowered before);

/* x as a wrapper of the innermost level: `dim` (of x) becomes the batch at a vmap level, and is -1 elsewhere. */
TD_API td_tensor *td_transform_wrap(td_tensor *x, int dim);
/* What x wraps, if it is a wrapper of level number `level` (0: of the innermost, -1: of any): a new reference, with the
 * batch's dimension in *dim, or -1.  Anything else comes back itself. */
TD_API td_tensor *td_transform_unwrap(td_tensor *x, int level, int *dim);
/* The level of a wrapper, 0 for another tensor; and whether it hides a batch dimension. */
TD_API int  td_wrapper_level(const td_tensor *x);
TD_API bool td_wrapper_is_batch(const td_tensor *x);
/* Whether x is so, or what it stands for is, at any level. */
TD_API bool td_wrapper_any(const td_tensor *x, bool (*is)(const td_tensor *x));

/* Patterns of rules, for `batch` of td_op_traits; words in brackets change them, "dims(absent_is_all, keeps_0d)".
 *
 *   pointwise   operands broadcast (own_dtypes: without promotion)
 *   leading     any number of dimensions may stand before those that are computed on (expand: operands without a batch are
 *               expanded to one, and ranks made equal; own_ranks: but for the ranks; checked: the operator's meta function is
 *               called with tensors of the members' shapes first, and refuses what it would refuse of one member)
 *   dims        the first operand's dimensions are numbered by arguments of names like dim and axis, which shift
 *               (absent_is_all: no dimension means all; keeps_0d: an operand without dimensions stays so; of_result: they are
 *               counted in a result with one more; all_operands: the other tensors are of the first one's shape)
 *   fold        the first dimension is a batch of the operator's own, of all operands: members become more of it
 *   loop        once per member of the batch */

/* A rule for an operator at vmap levels, in place of the loop over the members or of what was there.  It gets the call as it
 * came, wrappers among the operands: it unwraps them, works below the level, and wraps what it gives. */
TD_API int td_vmap_register(const char *op, td_boxed_kernel *rule, void *context) TD_MUST_USE;
/* Calls that ran once per member of a batch, since the process began. */
TD_API int64_t td_vmap_fallback_count(void);
/* Is called with an operator's full name ("aten::histogram.bin_ct") before it runs once per member, and refuses that by
 * leaving an error; NULL: no function is called. */
TD_API void td_vmap_on_fallback(void (*warn)(const char *op));

/* ---- forward mode: a tensor may have a tangent, its derivative along the one direction that is asked for. */
/* A view of x with a tangent of x's shape and dtype. */
TD_API td_tensor *td_make_dual(td_tensor *x, td_tensor *tangent);
/* Borrowed; NULL where there is none. */
TD_API td_tensor *td_tangent(const td_tensor *x);
/* Give x a tangent in place, or take it away (NULL). */
TD_API int td_set_tangent(td_tensor *x, td_tensor *tangent) TD_MUST_USE;
/* A view of x without its tangent. */
TD_API td_tensor *td_primal(td_tensor *x);
/* From here on, tangents of tensors that are no wrappers count no more. */
TD_API void td_end_dual_level(void);
TD_API bool td_forward_enabled(void);
TD_API bool td_set_forward_enabled(bool on);

#ifdef __cplusplus
}
#endif
#endif
