/* What the files of this folder share: the operators that torchvision's compiled part has, under its names.
 *
 * Their backward passes are operators with names, too. Which of them an operator has, and what it is passed, is said by its schema:
 * the arguments of `_roi_align_backward` have the names of roi_align's (gradients.c). */
#ifndef TEDE_TORCHVISION_H
#define TEDE_TORCHVISION_H
#include "../operators.h"

/* Each defines the operators of its file: 0, or -1 with an error. */
int tv_define_boxes(void);
int tv_define_pools(void);
int tv_define_deform(void);

/* `name` ("roi_align") has a gradient, the operator _roi_align_backward, which has none itself. */
int tv_gradient(const char *name);

/* Argument i must have x's dtype, argument k's: PyTorch's words. */
static inline int tv_same_dtype(const td_op *op, const td_value *arguments, int i, int k)
{
    const td_dtype a = td_tensor_dtype(arguments[i].tensor), b = td_tensor_dtype(arguments[k].tensor);
    const td_arg *names = td_op_describe(op)->arguments;
    return a == b ? 0 : td_error(TD_E_RUNTIME, "%s: Expected tensor for %s to have the same type as tensor for %s; but type %s does not equal %s",
                                 operator_title(op), names[i].name, names[k].name, td_dtype_title(a), td_dtype_title(b));
}
static inline int tv_floats(const td_op *op, const td_tensor *x)
{
    const td_dtype dtype = td_tensor_dtype(x);
    return TD_DTYPE_BIT(dtype) & TD_FLOATS ? 0 : td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", operator_title(op),
                                                          td_dtype_title(dtype));
}

#endif
