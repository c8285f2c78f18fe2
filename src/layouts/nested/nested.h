/* What the operators on nested tensors share. */
#ifndef TD_LAYOUTS_NESTED_NESTED_H
#define TD_LAYOUTS_NESTED_NESTED_H
#include "dispatch/outputs.h"
#include "layouts/nested/object.h"
#include "ops/compose.h"

/* x's values, with its history; NULL of NULL. */
td_tensor *td_nested_unpacked(td_tensor *x);
/* A tensor of like's structure over other values, whose history it has; `dim` is the ragged dimension of the result (strided: 0). */
td_tensor *td_nested_packed(td_tensor *values, td_tensor *like, int dim);
/* x's components, views with its history. */
int        td_nested_components(td_tensor_list *list, td_tensor *x);
td_tensor *td_nested_component(td_tensor *x, int64_t i);
/* A tensor of components: of the layout of `like`; a jagged one has its structure, with the ragged dimension `dim`.  Releases nothing. */
td_tensor *td_nested_joined(const td_tensor_list *list, td_tensor *like, int dim);
/* Of any tensors of one rank, of the strided layout. */
td_tensor *td_nested_of_list(int64_t n, td_tensor *const *list);
/* Of tensors that differ in one dimension at most. */
td_tensor *td_jagged_of_list(int64_t n, td_tensor *const *list);
/* A dimension of x's values for one of x. */
static inline int td_inner_dim(int dim) { return dim - 1; }

/* One call on each component. */
typedef td_tensor *td_each(td_tensor *component, void *context);
int td_nested_each(td_tensor_list *list, td_tensor *x, td_each *each, void *context);

/* "NestedTensor does not support op", as PyTorch says it: NULL. */
void *td_nested_refuse(const td_op *op, const td_tensor *x);
#endif
