/* Results made after a td_spec (<tede/spec.h>), and the targets of out= forms. */
#ifndef TD_DISPATCH_SPEC_H
#define TD_DISPATCH_SPEC_H
#include <tede/spec.h>
#include "tensor/late.h"
#include "tensor/tensor.h"

static inline int64_t td_spec_numel(const td_spec *spec)
{
    int64_t n = 1;
    for (int i = 0; i < spec->ndim; i++)
        n *= spec->sizes[i];
    return n;
}

/* 0 if x has so many elements: a backward kernel iterates over what its forward kernel made, and over gradients of that. */
int td_check_numel(const char *op, const char *name, const td_tensor *x, int64_t numel);

/* Its matrices in columns, as LAPACK leaves them. */
int td_spec_columns(td_spec *spec);

td_tensor *td_spec_new(const td_spec *spec);
/* Make all results; on failure none is left. */
int td_specs_new(const td_spec *specs, int n, td_tensor **results);
/* The results that td_specs_new takes the next time on this thread, instead of making new ones: a call that was recorded is run so. */
extern _Thread_local td_tensor *const *td_results_given;
/* A tensor argument, or a list of them. */
typedef struct td_spec_inputs {
    int64_t           count;
    td_tensor *const *tensors;
} td_spec_inputs;
/* An error if tensors are on different devices; numbers on the CPU (no dimensions) go with any, as in PyTorch. */
int td_check_one_device(const td_op *op, int n, const td_spec_inputs *operands);
/* For out=: targets[i] is outs[i] itself, resized if need be, or a temporary if it can't be written directly (another
 * dtype, other strides, memory shared with an input or another out); an owned reference either way. */
int td_specs_target(const char *op, const td_spec *specs, int n, td_tensor *const *outs, int n_in,
                    const td_spec_inputs *inputs, td_tensor **targets);
/* An out= of an operator that can't compute into another dtype: `words` are PyTorch's, with {want} and {got} for the two dtypes.  Words that
 * begin with TD_CASTABLE are about one that can't hold the result. */
#define TD_CASTABLE "~"
#define TD_EXACT_OUT "Expected out tensor to have dtype {want_c}, but got {got_c} instead"
int td_check_exact(const char *words, td_dtype want, td_dtype got);
int td_specs_exact(const char *words, const td_spec *specs, int n, td_tensor *const *outs);
/* Whether an out has another shape than its result. */
bool td_specs_differ(const td_spec *specs, int n, td_tensor *const *outs);
int td_check_out_device(td_device from, td_device to);
/* Copy temporaries back, now that nobody reads the inputs any more, and release the targets. */
int td_specs_finish(int n, td_tensor *const *outs, td_tensor **targets);
/* Change the shape in place, growing the storage if need be: contiguous afterwards. */
int td_resize(td_tensor *x, int ndim, const int64_t *sizes);
/* Give out this shape: PyTorch warns if it had another one and elements. */
int td_resize_output(td_tensor *out, int ndim, const int64_t *sizes);
/* The same for a result that has strides (NULL: it is contiguous): another shape comes with them, what has its shape keeps its own. */
int td_resize_strided(td_tensor *out, int ndim, const int64_t *sizes, const int64_t *strides);
/* Whether a dtype holds a number: PyTorch lets unsigned ones wrap small negative numbers around. */
int td_scalar_check(td_scalar value, td_dtype dtype);
int td_scalar_check_computed(td_scalar value, td_dtype dtype);
/* The same of a factor like alpha, which must also be of the result's kind. */
int td_check_factor(const char *name, td_scalar factor, td_dtype result);
/* Whether `from` may be stored in `to` by an out= or in-place form. */
int td_check_cast(const char *op, td_dtype from, td_dtype to);

#endif
