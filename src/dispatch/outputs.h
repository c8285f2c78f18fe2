/* In-place and out= forms made of functional results.
 *
 * A structured operator has a meta function that fills in a td_spec per result, and an implementation per
 * device that fills tensors made after them.  From these two the functional, in-place and out= forms follow.
 * An implementation always gets contiguous outputs (or of the strides that its meta function described) of the
 * described dtype that share no memory with inputs. */
#ifndef TD_DISPATCH_OUTPUTS_H
#define TD_DISPATCH_OUTPUTS_H
#include <tede/auto.h>
#include <tede/kernel.h>
#include "dispatch/op.h"
#include "dispatch/spec.h"

/* Copy `result` (released) into self for an in-place form: the shape must be self's.  NULL result: -1. */
int td_finish_inplace(const char *op, td_tensor *self, td_tensor *result);
/* Copy `result` (released) into out, resizing it: PyTorch's dtype rule. */
int td_finish_out(const char *op, td_tensor *out, td_tensor *result);
/* The same where an out of another shape becomes contiguous, whatever the result's strides are (flags: [contiguous_out]). */
int td_finish_contiguous_out(const char *op, td_tensor *out, td_tensor *result);
/* The same for a vector made of a rule: an out with as many elements keeps its shape and takes them in order.  Without
 * a name another shape is no warning. */
int td_fill_in_order(const char *op, td_tensor *out, td_tensor *result);
/* Same for several. */
int td_finish_outs(const char *op, int n, td_tensor *const *outs, td_tensor **results);
/* Same for a list, whose number of tensors must be that of `outs`. */
int td_finish_out_list(const char *op, int64_t n, td_tensor *const *outs, td_tensor_list *results);
/* Same for tensors that keep their shapes and dtypes, as with copy_. */
int td_fill_out_list(const char *op, int64_t n, td_tensor *const *outs, td_tensor_list *results);
/* Between them: results whose dtype an out= must have, see td_check_exact.  They are released where it has another one. */
td_tensor *td_exact(const char *words, const td_tensor *out, td_tensor *result);
int        td_results_exact(const char *words, int n, td_tensor *const *outs, td_tensor **results);
int        td_list_exact(const char *words, int64_t n, td_tensor *const *outs, td_tensor_list *results);
/* A dtype= of an in-place form can only be self's. */
int td_check_own_dtype(const td_tensor *self, td_dtype dtype);
/* The out= of what makes tensors of no others: it says dtype and device, and gets its shape without a warning. */
int td_factory_out(td_dtype *dtype, td_device *device, const td_tensor *out);
int td_finish_factory(td_tensor *out, td_tensor *result);
/* An error if a result can't be stored in self by an in-place form: another shape, or a dtype that doesn't cast. */
int td_check_inplace_result(const char *op, td_tensor *self, td_tensor *result);
/* The error about a dtype that an operator doesn't take: PyTorch's name of the kernel that lacks it, or a sentence, in which {}
 * stands for the dtype. -1 */
int td_refuse(const td_tensor *x, const char *text);
int td_results_drop(int n, td_tensor **results);
/* "functions with out=... arguments don't support automatic differentiation" */
int td_fail_out_grad(const char *op);
/* The same of forward mode, and whether copying elements from result to out would lose a tangent. */
int  td_fail_out_tangent(const char *op);
bool td_loses_tangent(const td_tensor *out, const td_tensor *result);
int td_refuse_grad(const char *op, const char *argument);
int td_refuse_complex_grad(const char *op);
int td_check_layout(const td_value *value);
int td_values_from_tensors(td_value *values, int n, td_tensor *const *tensors);

/* ---- layouts other than strided: "Could not run 'aten::op' with arguments from the 'SparseCPU' backend.", NULL; and what the two
 * forms above do where one of the tensors has such a layout: `to` becomes what `result` (released) is, in its own dtype and layout */
void *td_layout_refuse(const char *op, const td_tensor *x);
int   td_layout_finish(const char *op, td_tensor *to, td_tensor *result);

/* ---- composites that count as one call: parts that nobody could tell from a kernel's loops (plain operands, no graph, no
 * transform) aren't visible as calls.  The first returns the state that the second restores. */
td_keyset td_parts_begin(int n, td_tensor *const *tensors);
void      td_parts_end(td_keyset include);

/* ---- where elements lie, and what new memory holds */
/* Strides of a dense tensor in the order of x's dimensions; false where x has gaps or overlaps. */
bool td_dense_order_strides(const td_tensor *x, int64_t *strides);
/* The strides of empty_like(x); false if they are those of a new tensor. */
bool td_strides_like(const td_tensor *x, int64_t *strides);
/* Whether channels lie innermost, as PyTorch derives it from strides (of one channel or one place that is a matter of opinion). */
bool td_has_channels_last(const td_tensor *x);
/* Results that are still to be made have channels innermost if those of one of the operands are, for implementations that write tensors of any
 * strides. Generated code declares it where it is called. */
void td_lay_results(int n_results, td_spec *specs, int64_t n, td_tensor *const *of);
int  td_fill_value(td_tensor *self, td_scalar value);
/* Fill memory that nothing has been written to, if the process wants that (td_fill_uninitialized). */
int  td_fill_new_memory(td_tensor *self);

/* ---- lists */
/* Put contiguous copies in the place of a list's tensors; released on failure. */
int td_copy_list(td_tensor_list *list);
/* What the operators on lists check: lists that aren't empty and equally long, as many numbers, a number in a tensor. */
int td_check_lists(int count, const int64_t *lengths);
int td_check_numbers(int64_t tensors, int64_t numbers);
int td_check_number(const td_tensor *number);

#endif
