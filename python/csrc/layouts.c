/* zeros(3, layout=sparse_coo) and its like: factories asked for another layout than that of their kernels. */
#include "binding.h"
#include <tede/layout.h>

static const td_value *argument(const td_op_info *info, const td_value *values, const char *name)
{
    for (int i = 0; i < info->n_arguments; i++)
        if (!strcmp(info->arguments[i].name, name))
            return values[i].kind == TD_VALUE_NONE ? NULL : &values[i];
    return NULL;
}

/* Without elements, of a size and dtype, in COO, and then the layout. */
static td_tensor *empty(int layout, int32_t count, const int64_t *sizes, int64_t dtype)
{
    static const td_op *make, *convert;
    td_value values[] = {{.kind = TD_VALUE_INT, .integer = count}, {.kind = TD_VALUE_INT, .integer = 0},
                         {.kind = TD_VALUE_INTS, .count = count, .ints = sizes}, {.kind = TD_VALUE_DTYPE, .integer = dtype}, {0}, {0}, {0}};
    td_tensor *coo = td_py_call(&make, "aten::_sparse_coo_tensor_with_dims", values);
    if (!coo || layout == TD_SPARSE_COO)
        return coo;
    td_value into[] = {{.kind = TD_VALUE_TENSOR, .tensor = coo}, {.kind = TD_VALUE_LAYOUT, .integer = layout}, {0}, {0}};
    td_tensor *made = td_py_call(&convert, "aten::to_sparse", into);
    td_tensor_release(coo);
    return made;
}

/* On a strided model instead of a sparse one. */
static td_tensor *strided(const td_op *op, const td_op_info *info, const td_value *values, int64_t dtype)
{
    static const td_op *zeros;
    const td_tensor *like = values[0].tensor;
    td_value size[] = {{.kind = TD_VALUE_INTS, .count = td_tensor_ndim(like), .ints = td_tensor_sizes(like)},
                       {.kind = TD_VALUE_DTYPE, .integer = dtype}, {0}, {0}, {0}};
    td_value copy[TD_PY_ARGS], result;
    memcpy(copy, values, sizeof *values * (size_t)info->n_arguments);
    copy[0].tensor = td_py_call(&zeros, "aten::zeros", size);
    if (!copy[0].tensor)
        return NULL;
    int failed = td_op_call(op, copy, &result);
    td_tensor_release(copy[0].tensor);
    return failed ? td_py_raise() : result.tensor;
}

td_tensor *td_py_of_layout(const td_op *op, const td_value *values, int layout)
{
    static const char *const of_zeros[] = {"zeros", "empty", "zeros_like", "empty_like", "new_zeros", "new_empty"};
    const td_op_info *info = td_op_describe(op);
    const td_value *like = argument(info, values, "self"), *size = argument(info, values, "size"), *dtype = argument(info, values, "dtype");
    int64_t kind = dtype ? dtype->integer : like ? (int64_t)td_tensor_dtype(like->tensor) : (int64_t)td_default_dtype();
    bool known = false;
    if (layout == TD_STRIDED)
        return strided(op, info, values, kind);
    for (size_t i = 0; i < sizeof of_zeros / sizeof *of_zeros && !info->space; i++)
        known |= !strcmp(info->name, of_zeros[i]);
    if (!known || (!like && !size))
        return PyErr_Format(PyExc_RuntimeError, "%s(...) is not implemented for sparse layout", info->name), NULL;
    return empty(layout, size ? size->count : td_tensor_ndim(like->tensor), size ? size->ints : td_tensor_sizes(like->tensor), kind);
}
