/* tede/foreign.h: what a language binding needs beside the operators.
 *
 * A binding wraps each tensor that it shows in an object of its language.  The same tensor must always come back
 * as the same object, or attributes that a program hung on it would be lost.  So the core keeps a pointer to the
 * wrapper.  Who owns whom flips with use:
 *
 *   - while the program can reach the wrapper, the wrapper holds a reference to the tensor and the tensor's pointer
 *     is weak;
 *   - when the program drops the last reference to the wrapper but the core still holds the tensor (it is saved for
 *     a gradient, say), the tensor takes over: it owns the wrapper, and the wrapper only borrows the tensor.
 *
 * All of this is called with the binding's own lock held (Python's GIL); only drop_wrapper may be called without. */
#ifndef TEDE_FOREIGN_H
#define TEDE_FOREIGN_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The wrapper, or NULL.  Borrowed. */
TD_API void *td_tensor_wrapper(const td_tensor *x);
/* Tie x and its wrapper together (weakly); NULL cuts the tie. */
TD_API void  td_tensor_set_wrapper(td_tensor *x, void *wrapper);
/* The end of a wrapper that held a reference to x: cut the tie, if x has one to it, and release x. */
TD_API void  td_tensor_unwrap(td_tensor *x, void *wrapper);
/* Whether x owns its wrapper, and a change of that. Counting references is up to the binding. */
TD_API bool  td_tensor_owns_wrapper(const td_tensor *x);
TD_API void  td_tensor_own_wrapper(td_tensor *x, bool owns);
/* How many references x has: 1 means that the asking binding is the only holder. */
TD_API int64_t td_tensor_use_count(const td_tensor *x);
/* drop_wrapper(w) is called, on any thread, when a tensor that owns its wrapper goes away. */
TD_API void  td_foreign_hooks(void (*drop_wrapper)(void *wrapper));

/* A view of x with any geometry inside x's storage, as basic indexing makes them: signed strides, offset in elements
 * from x's first. It is a view with x's base, but no gradient flows through it: for operands without one. */
TD_API td_tensor *td_tensor_view(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
/* The view x[index[0], ..., index[n - 1]] of a contiguous tensor without a gradient: the fast path to what basic indexing
 * mostly is. NULL where it isn't so simple, or an index is out of range: then td_tensor_view and its errors. */
TD_API td_tensor *td_tensor_at(td_tensor *x, int n, const int64_t *index);
/* The same elements under a new head, apart from x's history.  With `own_version`, writes through it are
 * not seen by what x was saved for (x.data); without, they are (detach). */
TD_API td_tensor *td_tensor_alias(td_tensor *x, bool own_version);
/* How many hooks wait at a node of the gradient graph; at a leaf's, those of the leaf, too. */
struct td_node;
TD_API int td_node_hook_count(struct td_node *node);
/* Count a write to x, as an operator that writes it does; and set the count by hand. */
TD_API void td_tensor_count_write(td_tensor *x);
TD_API void td_tensor_set_version(td_tensor *x, uint32_t version);
/* Let x look at what `source` looks at: storage, geometry, dtype; x stays the same object (x.data = source). */
/* x's version is counted apart from those it shares memory with, from what it is now: what x.data gives. */
TD_API int td_tensor_count_apart(td_tensor *x) TD_MUST_USE;
TD_API int td_tensor_replace(td_tensor *x, td_tensor *source) TD_MUST_USE;
/* Memory that was lent to be read: operators that would write a tensor over it fail (TD_E_RUNTIME). */
TD_API void td_storage_set_readonly(td_storage *s);
TD_API bool td_storage_is_readonly(const td_storage *s);

/* Let a storage on the CPU have the memory of `source`, of the same size, to which its bytes have been copied. `holders`: n different tensors, all
 * that look at the storage, which follow; `others`: how many more references to it there are, whose holders know no address. An error, and nothing
 * is done, if there are more. */
TD_API int td_storage_take(td_storage *s, td_storage *source, td_tensor *const *holders, int64_t n, int64_t others) TD_MUST_USE;

/* A storage that goes on while a program drops its wrapper keeps the wrapper (for its attributes): `drop(kept)` is called, on any thread, when the
 * storage goes away. NULL: nothing is kept any more, without a call. -1 without memory. */
TD_API int td_storage_keep(td_storage *s, void *kept, void (*drop)(void *kept)) TD_MUST_USE;

/* From now on a larger size is refused: someone outside (a NumPy array) reads the memory at its present address. */
TD_API void td_storage_fix_size(td_storage *s);
TD_API bool td_storage_is_resizable(const td_storage *s);
/* The same of x alone, and of what views of x are made from now on; others may still write what it looks at. */
TD_API void td_tensor_set_read_only(td_tensor *x);
/* Whether operators that write x fail, for either reason. */
TD_API bool td_tensor_is_read_only(const td_tensor *x);

/* Mark x as one whose calls go to the Python key, below autograd: an instance of a class with __torch_dispatch__. */
TD_API void td_tensor_set_python(td_tensor *x, bool on);
TD_API bool td_tensor_is_python(const td_tensor *x);
/* Such a tensor that has geometry (strides NULL: contiguous), dtype and device, but no memory. */
TD_API td_tensor *td_tensor_hollow(int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset, td_dtype dtype,
                                   td_device device);
/* contiguous(x) of such a tensor goes by says(x, memory format): 1 and 0 for yes and no, 2 as x was made, -1 with an error. */
TD_API void td_foreign_contiguous(int (*says)(const td_tensor *x, int format));
/* What a handler gave for a view of such a tensor: results are tied to arguments[0] as views are to their base. */
struct td_op;
struct td_value;
TD_API int td_results_as_views(const struct td_op *op, const struct td_value *arguments, struct td_value *results) TD_MUST_USE;
/* Whether x's elements can't be read here: it has some, and no memory. */
TD_API bool td_tensor_is_hollow(const td_tensor *x);

TD_API bool td_tensor_is_inference(const td_tensor *x);
TD_API bool td_tensor_is_conj(const td_tensor *x);
TD_API bool td_tensor_is_neg(const td_tensor *x);
/* td_wrapped_number for an operand beside tensors of float32 or float64 (`dtype`): the number as it will be computed with
 * in any case, so that all operands have one dtype.  Other dtypes give what td_wrapped_number gives. */
TD_API td_tensor *td_wrapped_number_as(td_scalar value, td_dtype dtype);
/* Marked by td_wrapped_number. */
TD_API bool td_tensor_is_wrapped_number(const td_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
