/* Operators on lists of tensors (torch._foreach_*, which optimizers call): those that ops/foreach.yaml can't say as another operator
 * on the tensors at each position. */

#include "calls_ops_pointwise_foreach.h"
#include <inttypes.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"

int td_op__foreach_zero_(int64_t n, td_tensor *const *self)
{
    if (td_check_lists(1, &n))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (td_zero_(self[i]))
            return -1;
    return 0;
}

int td_op__foreach_copy_(int64_t n, td_tensor *const *self, int64_t n_src, td_tensor *const *src, bool non_blocking)
{
    if (td_check_lists(2, (int64_t[]){n, n_src}))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (td_copy_from_(self[i], src[i], non_blocking))
            return -1;
    return 0;
}

/* A vector's elements as numbers, one for each tensor of the lists; to be freed.  NULL with an error.  Room is made for one even if
 * there are none, so that NULL always means an error. */
static td_scalar *unpack(td_tensor *vector, int64_t n)
{
    if (vector->device.type != TD_CPU)
        return td_error(TD_E_RUNTIME, "Expected scalars to be on CPU."), NULL;
    if (vector->ndim != 1)
        return td_error(TD_E_RUNTIME, "Expected packed scalar Tensor to be of dimension 1. Got %d instead.", vector->ndim), NULL;
    if (!td_tensor_is_contiguous(vector))
        return td_error(TD_E_RUNTIME, "Expected scalars to be contiguous."), NULL;
    if (vector->numel != n)
        return td_error(TD_E_RUNTIME, "Expected length of scalars to match input of length %" PRId64 " but got %" PRId64 " instead.", n,
                        vector->numel), NULL;
    td_scalar *numbers = td_mem_alloc(sizeof *numbers * (size_t)(n ? n : 1));
    for (int64_t i = 0; numbers && i < n; i++) {
        TD_AUTO td_tensor *one = td_select_int(vector, 0, i);
        if (!one || td_item(&numbers[i], one)) {
            td_mem_free(numbers, sizeof *numbers * (size_t)(n ? n : 1));
            return NULL;
        }
    }
    return numbers;
}
/* _foreach_addcdiv and _foreach_addcmul with the numbers in a tensor: they are those with a list of numbers, once these are read. */
#define WITH_VECTOR(op) \
    int td_op__foreach_##op##_tensor(td_tensor_list *results, int64_t n, td_tensor *const *self, int64_t n1, td_tensor *const *tensor1, \
                                     int64_t n2, td_tensor *const *tensor2, td_tensor *scalars) \
    { \
        td_scalar *numbers = unpack(scalars, n); \
        int status = numbers ? td__foreach_##op##_scalarlist(results, n, self, n1, tensor1, n2, tensor2, n, numbers) : -1; \
        td_mem_free(numbers, numbers ? sizeof *numbers * (size_t)(n ? n : 1) : 0); \
        return status; \
    } \
    int td_op__foreach_##op##_tensor_(int64_t n, td_tensor *const *self, int64_t n1, td_tensor *const *tensor1, int64_t n2, \
                                      td_tensor *const *tensor2, td_tensor *scalars) \
    { \
        td_scalar *numbers = unpack(scalars, n); \
        int status = numbers ? td__foreach_##op##_scalarlist_(n, self, n1, tensor1, n2, tensor2, n, numbers) : -1; \
        td_mem_free(numbers, numbers ? sizeof *numbers * (size_t)(n ? n : 1) : 0); \
        return status; \
    }
WITH_VECTOR(addcdiv)
WITH_VECTOR(addcmul)
