/* What generated operators lean on: outputs described by meta functions, allocated or checked, and written back.
 *
 * A structured operator has a meta function that fills in a td_spec per result, and an implementation per
 * device that fills tensors made after them.  From these two the functional, in-place and out= forms follow.
 * An implementation always gets contiguous outputs (or of the strides that its meta function asked for) of the
 * described dtype that share no memory with inputs. */
#ifndef TD_DISPATCH_GLUE_H
#define TD_DISPATCH_GLUE_H
#include <tede/auto.h>
#include <tede/kernel.h>
#include "autograd/node.h"
#include "dispatch/op.h"
#include "ops/pointwise.h"
#include "tensor/sparse.h"
#include "ops/spec.h"

/* ---- forms derived from functional results */
/* Copy `result` (released) into self for an in-place form: the shape must be self's.  NULL result: -1. */
int td_finish_inplace(const char *op, td_tensor *self, td_tensor *result);
/* What a composite operator takes for self in its in-place form, and how it stores its result (released): both so that the
 * gradient follows. */
td_tensor *td_original(td_tensor *self);
int td_record_inplace(const char *op, td_tensor *self, td_tensor *result);
/* Copy `result` (released) into out, resizing it: PyTorch's dtype rule. */
int td_finish_out(const char *op, td_tensor *out, td_tensor *result);
/* The same for a vector made of a rule: an out with as many elements keeps its shape and takes them in order.  Without
 * a name another shape is no warning. */
int td_fill_in_order(const char *op, td_tensor *out, td_tensor *result);
/* Same for several. */
int td_finish_outs(const char *op, int n, td_tensor *const *outs, td_tensor **results);
/* Same for a list, whose number of tensors must be that of `outs`. */
int td_finish_out_list(const char *op, int64_t n, td_tensor *const *outs, td_tensor_list *results);
/* Between them: results whose dtype an out= must have, see td_check_exact.  They are released where it has another one. */
td_tensor *td_exact(const char *words, const td_tensor *out, td_tensor *result);
int        td_results_exact(const char *words, int n, td_tensor *const *outs, td_tensor **results);
int        td_list_exact(const char *words, int64_t n, td_tensor *const *outs, td_tensor_list *results);
/* A dtype= of an in-place form can only be self's. */
int td_check_own_dtype(const td_tensor *self, td_dtype dtype);
/* The out= of what makes tensors of no others: it says dtype and device, and gets its shape without a warning. */
int td_factory_out(td_dtype *dtype, td_device *device, const td_tensor *out);
int td_finish_factory(td_tensor *out, td_tensor *result);
/* The error about a dtype that an operator doesn't take: PyTorch's name of the kernel that lacks it, or a sentence, in which {}
 * stands for the dtype. -1 */
int td_refuse(const td_tensor *x, const char *text);
int td_results_drop(int n, td_tensor **results);
/* "functions with out=... arguments don't support automatic differentiation" */
int td_fail_out_grad(const char *op);
int td_refuse_grad(const char *op, const char *argument);
int td_refuse_complex_grad(const char *op);
int td_fail_readonly(const char *op, const char *argument, const td_tensor *x);
/* An error if x, which td_guarded names, can't be written to now. */
int td_check_guarded(const char *op, const char *argument, const td_tensor *x);
/* The same of a tensor made in inference mode. */
int td_check_sealed(const td_tensor *x);
int td_check_layout(const td_value *value);
int td_values_from_tensors(td_value *values, int n, td_tensor *const *tensors);

/* ---- gradients of pointwise operators */
/* An operand's shape and dtype where they differ from the result's; NULL where they don't. */
typedef struct td_fit { int32_t ndim, dtype; int64_t sizes[]; } td_fit;
int        td_fit_save(td_fit **fit, const td_tensor *operand, const td_tensor *result);
td_tensor *td_fit_apply(td_tensor *grad, const td_fit *fit);
void       td_fit_free(td_fit *fit);

/* ---- sparse tensors (src/ops/sparse.c): x coalesced if it is COO, else x; and the COO forms of td_finish_inplace and _out */
td_tensor *td_sparse_settled(td_tensor *x);
/* "Could not run 'aten::op' with arguments from the 'SparseCPU' backend.", NULL */
void      *td_sparse_refuse(const char *op, const td_tensor *x);
int        td_check_coalesced(const char *op, const td_tensor *x);
int        td_sparse_finish(const char *op, td_tensor *to, td_tensor *result);

/* ---- writes: a new version, and who made it, for the message about a saved value that was overwritten (Note [Saved variables]).
 * Nobody asks before something was saved. */
extern bool td_values_saved;
void        td_note_write(td_tensor *x, const char *op, uint32_t version);
static inline void td_wrote(td_tensor *x, const char *op)
{
    td_bump_version(x);
    if (__atomic_load_n(&td_values_saved, __ATOMIC_RELAXED))
        td_note_write(x, op, td_tensor_version(x));
}
/* Of an operator whose body may call others that write, and count, to the same tensors: what they had been before, and one write
 * counted if none was. */
typedef struct td_write_mark { const td_storage *storage; uint64_t versions; } td_write_mark;
td_write_mark td_before_write(int64_t n, td_tensor *const *written);
void          td_wrote_since(td_write_mark before, int64_t n, td_tensor *const *written, const char *op);

/* ---- tangents: forward mode's kernels, see src/transforms/forward.c */
td_tensor *td_tangent(const td_tensor *x);
/* The thread's ForwardAD key is excluded while formulas run. */
td_keyset  td_forward_begin(void);
/* The result with the tangent `sum` (taken over, may be NULL), or NULL after dropping both. */
td_tensor *td_forward_end(td_keyset before, int status, td_tensor *result, td_tensor *sum, bool conjugated);
/* An operand's tangent, conjugated for formulas that are gradients of complex operands. */
td_tensor *td_forward_operand(td_tensor *x, bool conjugated);
int        td_forward_add(td_tensor **sum, td_tensor *term);
/* Of operators with several results: tangents of the first n of them are added, and taken over. */
int        td_forward_take(td_tensor **sums, int n, td_tensor **terms);
int        td_forward_end_all(td_keyset before, int status, int n_results, td_tensor **results, int n, td_tensor **sums);

/* ---- composites that count as one call: parts that nobody could tell from a kernel's loops (plain operands, no graph, no
 * transform) aren't calls of their own.  The first gives what the second takes back. */
td_keyset td_parts_begin(int n, td_tensor *const *tensors);
void      td_parts_end(td_keyset include);

/* ---- what nodes keep besides tensors */
typedef struct td_ints { int64_t n; int64_t *items; } td_ints;
int  td_ints_save(td_ints *ints, int64_t n, const int64_t *items);
int  td_ints_save_shapes(td_ints *ranks, td_ints *shapes, int64_t n, td_tensor *const *tensors);
void td_ints_free(td_ints *ints);

/* *place = value, retained; TD_NONE leaves NULL (no gradient).  -1 if value is NULL. */
/* Strides of a dense tensor in the order of x's dimensions; false where x has gaps or overlaps. */
bool td_dense_order_strides(const td_tensor *x, int64_t *strides);
/* The strides of empty_like(x); false if they are those of a new tensor. */
bool td_strides_like(const td_tensor *x, int64_t *strides);
int td_fill_value(td_tensor *self, td_scalar value);
/* Fill memory that nothing has been written to, if the process wants that (td_fill_uninitialized). */
int td_fill_new_memory(td_tensor *self);
int td_give(td_tensor **place, td_tensor *value);
/* All gradients of a node's results, zeros where undefined. */
int td_node_all_grads(td_node *node, td_tensor *const *grads, td_tensor_list *list);
int td_node_saved_list(td_node *node, int first, int64_t n, td_tensor_list *list);
/* A copy with the history that x has now: what an in-place operator overwrites but its gradient needs. */
td_tensor *td_clone_detached(td_tensor *x);

/* Put contiguous copies in the place of a list's tensors; released on failure. */
int td_copy_list(td_tensor_list *list);
/* What the operators on lists ask: lists that aren't empty and equally long, as many numbers, a number in a tensor. */
int td_check_lists(int count, const int64_t *lengths);
int td_check_numbers(int64_t tensors, int64_t numbers);
int td_check_number(const td_tensor *number);

td_scalar td_scalar_conj(td_scalar a);
td_scalar td_scalar_neg(td_scalar a);
td_scalar td_scalar_add(td_scalar a, td_scalar b);
td_scalar td_scalar_sub(td_scalar a, td_scalar b);
td_scalar td_scalar_mul(td_scalar a, td_scalar b);
td_scalar td_scalar_div(td_scalar a, td_scalar b);
td_scalar td_scalar_pow(td_scalar a, td_scalar b);

/* Whether a fused gradient may run: no graph is being made, dense real floats on the CPU. */
bool td_fusable(int n, td_tensor *const *tensors);
/* The same for tangents: nothing is recorded, and who counts calls doesn't mind. */
bool td_forward_fusable(int n, td_tensor *const *tensors);

/* Whether channels lie innermost, as PyTorch tells it from strides (of one channel or one place that is a matter of opinion). */
bool td_has_channels_last(const td_tensor *x);

#endif
