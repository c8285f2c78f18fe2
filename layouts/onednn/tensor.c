/* Tensors of the layout: made, converted, copied, and written.
 *
 * Aliases share bytes, and what is written in place is written into them: reshape of a tensor in plain order is an alias as in PyTorch.
 * Nothing else is a view: elements in blocks have no strides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/autograd_nodes.h>
#include "mkldnn.h"

int mk_layout = -1;

static void destroy(void *fields)
{
    mk_memory_drop(fields);
    free(fields);
}

td_tensor *mk_tensor(mk_memory *m, int64_t ndim, const int64_t *sizes, td_dtype dtype)
{
    mk_memory *own = malloc(sizeof *own);
    if (!own)
        return td_fail(TD_E_MEMORY, "to_mkldnn: no memory for a tensor");
    *own = *m;
    td_tensor *x = td_tensor_with_layout(mk_layout, own, ndim, sizes, dtype, (td_device){TD_CPU, -1});
    if (x)
        *m = (mk_memory){0};
    else
        free(own);
    return x;
}

/* Of new bytes: x's may be written later. */
td_tensor *mk_from_strided(td_tensor *x)
{
    MK_AUTO mk_memory m = {0};
    if (dnnl_open() || mk_dtype("dense_to_mkldnn", td_tensor_dtype(x)) < 0)
        return NULL;
    if (td_tensor_device(x).type != TD_CPU)
        return td_fail(TD_E_NOT_IMPLEMENTED, "to_mkldnn: a strided tensor on the CPU is expected");
    MK_AUTO_MD dnnl_memory_desc_t desc = NULL;
    if (mk_plain(&desc, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x)) || mk_make(&m, desc))
        return NULL;
    if (td_tensor_numel(x)) {
        TD_AUTO td_tensor *to = td_tensor_from_memory(td_tensor_data(m.bytes), td_tensor_ndim(x), td_tensor_sizes(x), NULL, td_tensor_dtype(x),
                                                      TD_DEVICE_NONE, NULL, NULL);
        if (!to || td_copy_elements(to, x))
            return NULL;
    }
    return mk_tensor(&m, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x));
}

static td_tensor *to_dense(td_tensor *x)
{
    MK_AUTO mk_memory plain = {0};
    if (mk_of_sizes(&plain, x, td_tensor_ndim(x), td_tensor_sizes(x)))
        return NULL;
    TD_AUTO td_tensor *made = td_tensor_new(td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x), TD_DEVICE_NONE);
    if (!made)
        return NULL;
    memcpy(td_tensor_data(made), td_tensor_data(plain.bytes), (size_t)td_tensor_numel(x) * td_dtype_size(td_tensor_dtype(x)));
    return td_tensor_retain(made);
}
static td_tensor *from_dense(int layout, td_tensor *x)
{
    (void)layout;
    return mk_from_strided(x);
}

static td_tensor *zeros(int layout, const td_op *op, td_tensor *like, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    (void)layout, (void)like;
    MK_AUTO mk_memory m = {0};
    MK_AUTO_MD dnnl_memory_desc_t desc = NULL;
    if (dnnl_open())
        return NULL;
    if (device.type > TD_CPU)
        return td_fail(TD_E_NOT_IMPLEMENTED, "%s: tensors of the mkldnn layout are on the CPU", mk_name(op));
    if (mk_plain(&desc, ndim, sizes, dtype) || mk_make(&m, desc))
        return NULL;
    if (!(td_op_describe(op)->flags & TD_OP_UNINITIALIZED))
        memset(td_tensor_data(m.bytes), 0, (size_t)td_tensor_numel(m.bytes));
    return mk_tensor(&m, ndim, sizes, dtype);
}
static bool contiguous(const void *fields)
{
    (void)fields;
    return true;
}

static const td_layout_kind kind = {
    .size = sizeof kind, .name = "_mkldnn", .title = "Mkldnn", .flags = TD_LAYOUT_RECORDS, .destroy = destroy, .to_dense = to_dense, .from_dense = from_dense, .zeros = zeros,
    .contiguous = contiguous,
};

/* ---- operators */

static MK_KERNEL(to_mkldnn)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    const td_dtype dtype = arguments[1].kind == TD_VALUE_NONE ? TD_DTYPE_NONE : (td_dtype)arguments[1].integer;
    if (td_tensor_layout(x) != TD_STRIDED)
        return td_error(TD_E_NOT_IMPLEMENTED, "%s: a strided tensor is expected, this one is of layout %s", mk_name(op),
                        td_layout_name(td_tensor_layout(x)));
    if (mk_dtype("dense_to_mkldnn", td_tensor_dtype(x)) < 0 || (dtype >= 0 && mk_dtype("dense_to_mkldnn", dtype) < 0))
        return -1;
    TD_AUTO td_tensor *cast = dtype < 0 || dtype == td_tensor_dtype(x) ? td_tensor_retain(x) : td_to(x, dtype);
    return mk_give(results, cast ? mk_from_strided(cast) : NULL);
}
static int to_mkldnn_backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)node, (void)n_grads, (void)n_results;
    const td_dtype dtype = (td_dtype)((intptr_t)state - 1);
    TD_AUTO td_tensor *dense = mk_is(grads[0]) ? td_to_dense(grads[0], TD_DTYPE_NONE, NULL) : td_tensor_retain(grads[0]);
    results[0] = !dense || td_tensor_dtype(dense) == dtype ? td_tensor_retain(dense) : td_to(dense, dtype);
    return results[0] ? 0 : -1;
}
static int to_mkldnn_setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context, (void)node, (void)results;
    *state = (void *)(intptr_t)(td_tensor_dtype(arguments[0].tensor) + 1);
    return 0;
}
static const td_op_gradient to_mkldnn_gradient = {to_mkldnn_setup, to_mkldnn_backward, NULL};

static MK_KERNEL(clone)
{
    (void)op, (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    MK_AUTO mk_memory from = {0}, to = {0};
    if (mk_kept(&from, x) || mk_make(&to, from.desc))
        return -1;
    to.groups = from.groups;
    memcpy(td_tensor_data(to.bytes), td_tensor_data(from.bytes), (size_t)td_tensor_numel(to.bytes));
    return mk_give(results, mk_tensor(&to, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x)));
}

/* Another dtype, in the same layout; and other devices, on which the layout isn't. */
static MK_KERNEL(to_copy)
{
    td_tensor *x = arguments[0].tensor;
    const td_dtype dtype = arguments[1].kind == TD_VALUE_NONE ? td_tensor_dtype(x) : (td_dtype)arguments[1].integer;
    if (arguments[3].kind == TD_VALUE_DEVICE && arguments[3].device.type > TD_CPU)
        return td_error(TD_E_NOT_IMPLEMENTED, "Unsupported device type for mkldnn layout: it is on the CPU alone; use to_dense()");
    if (dtype == td_tensor_dtype(x))
        return clone(op, keys, arguments, results, context);
    TD_AUTO td_tensor *dense = to_dense(x), *cast = dense ? td_to(dense, dtype) : NULL;
    return mk_give(results, cast ? mk_from_strided(cast) : NULL);
}

/* x takes other's elements; shapes are the same. */
static int write_to(td_tensor *x, td_tensor *other)
{
    MK_AUTO mk_memory to = {0}, from = {0};
    int64_t sizes[DNNL_MAX_NDIMS + 1];
    if (mk_kept(&to, x) || (to.groups ? mk_of_sizes(&from, other, mk_grouped(x, to.groups, sizes), sizes) : mk_of(&from, other)))
        return -1;
    return mk_write(&to, &from);
}
static bool same_sizes(const td_tensor *a, const td_tensor *b)
{
    return td_tensor_ndim(a) == td_tensor_ndim(b) &&
           !memcmp(td_tensor_sizes(a), td_tensor_sizes(b), sizeof(int64_t) * (size_t)td_tensor_ndim(a));
}

static MK_KERNEL(copy_)
{
    (void)op, (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor, *from = arguments[1].tensor;
    if (!same_sizes(x, from))
        return td_error(TD_E_RUNTIME, "copy_mkldnn_: only support same size tensor.");
    if (!mk_is(x) || !mk_is(from))
        return td_error(TD_E_RUNTIME, "copy_mkldnn_: between mkldnn layout and dense Tensors is not implemented! Found self type = %storch.%sTensor "
                        "and src type = %storch.%sTensor", mk_is(x) ? "Mkldnn" : "", td_dtype_title(td_tensor_dtype(x)),
                        mk_is(from) ? "Mkldnn" : "", td_dtype_title(td_tensor_dtype(from)));
    return x != from && write_to(x, from) ? -1 : mk_give(results, td_tensor_retain(x));
}

static MK_KERNEL(zero_)
{
    (void)op, (void)keys, (void)context;
    const mk_memory *m = td_tensor_fields(arguments[0].tensor);
    memset(td_tensor_data(m->bytes), 0, (size_t)td_tensor_numel(m->bytes));
    return mk_give(results, td_tensor_retain(arguments[0].tensor));
}

/* zeros_like, empty_like, new_zeros, new_empty; with another layout= the call doesn't come here. */
static MK_KERNEL(like)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    const int64_t *sizes = td_tensor_sizes(x);
    int64_t ndim = td_tensor_ndim(x);
    td_dtype dtype = td_tensor_dtype(x);
    td_device device = TD_DEVICE_NONE;
    for (int i = 1; i < td_op_describe(op)->n_arguments; i++)
        if (arguments[i].kind == TD_VALUE_DTYPE)
            dtype = (td_dtype)arguments[i].integer;
        else if (arguments[i].kind == TD_VALUE_DEVICE)
            device = arguments[i].device;
        else if (arguments[i].kind == TD_VALUE_INTS)
            sizes = arguments[i].ints, ndim = arguments[i].count;
    return mk_give(results, zeros(mk_layout, op, x, ndim, sizes, dtype, device));
}

static MK_KERNEL(alias)
{
    (void)op, (void)keys, (void)context;
    return mk_give(results, td_tensor_alias(arguments[0].tensor, false));
}

static MK_KERNEL(view)
{
    (void)op, (void)keys, (void)arguments, (void)results, (void)context;
    return td_error(TD_E_RUNTIME, "Currently Mkldnn tensor does not support view. Change to use reshape instead");
}

/* reshape has a gradient of its own where it isn't made of others: it goes by this operator. */
static MK_KERNEL(mkldnn_reshape)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    MK_AUTO mk_memory m = {0};
    int ndim;
    int64_t sizes[TD_MAX_DIMS];
    if (!mk_is(x))
        return td_error(TD_E_RUNTIME, "%s: a tensor of the mkldnn layout is expected", mk_name(op));
    if (mk_sizes_of("aten::reshape", 2, arguments, &ndim, sizes))
        return -1;
    if (ndim == td_tensor_ndim(x) && !memcmp(sizes, td_tensor_sizes(x), sizeof *sizes * (size_t)ndim))
        return mk_give(results, td_tensor_alias(x, false));
    return mk_of_sizes(&m, x, ndim, sizes) ? -1 : mk_give(results, mk_tensor(&m, ndim, sizes, td_tensor_dtype(x)));
}
/* The gradient has the shape of the operand: the node keeps that by saving it. */
static int save_operand(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context, (void)results, (void)state;
    return td_custom_save(node, 1, &arguments[0].tensor, 0, NULL);
}
static int reshape_backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)state, (void)n_grads, (void)n_results;
    TD_AUTO td_tensor *x = td_node_saved_tensor(node, 0);
    results[0] = x ? td_reshape(grads[0], td_tensor_ndim(x), td_tensor_sizes(x)) : NULL;
    return results[0] ? 0 : -1;
}
static const td_op_gradient reshape_gradient = {save_operand, reshape_backward, NULL};

static MK_KERNEL(reshape)
{
    (void)op, (void)keys, (void)context;
    return td_op_call(td_op_find("aten::_mkldnn_reshape"), arguments, results);
}

static MK_KERNEL(transpose)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    const int ndim = td_tensor_ndim(x);
    int order[DNNL_MAX_NDIMS], dims[2];
    int64_t sizes[DNNL_MAX_NDIMS];
    if (!mk_is(x))
        return td_error(TD_E_RUNTIME, "%s: a tensor of the mkldnn layout is expected", mk_name(op));
    for (int i = 0; i < 2; i++) {
        int64_t dim = arguments[i + 1].integer;
        if (dim < -ndim || dim >= ndim)
            return td_error(TD_E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -ndim, ndim - 1, (long long)dim);
        dims[i] = (int)(dim < 0 ? dim + ndim : dim);
    }
    for (int d = 0; d < ndim; d++)
        order[d] = d, sizes[d] = td_tensor_sizes(x)[d];
    order[dims[0]] = dims[1], order[dims[1]] = dims[0];
    sizes[dims[0]] = td_tensor_sizes(x)[dims[1]], sizes[dims[1]] = td_tensor_sizes(x)[dims[0]];
    MK_AUTO mk_memory from = {0}, whole = {0}, to = {0};
    MK_AUTO_MD dnnl_memory_desc_t turned = NULL;
    /* Of weights in groups the description has a dimension more than the tensor: contiguous ones don't. */
    if (mk_of_sizes(&whole, x, ndim, td_tensor_sizes(x)) || mk_status(mk_name(op), dnnl_memory_desc_permute_axes(&turned, whole.desc, order)))
        return -1;
    from.desc = turned, turned = NULL;
    from.bytes = td_tensor_retain(whole.bytes);
    if (mk_status(mk_name(op), dnnl_memory_create(&from.memory, from.desc, dnnl_engine, td_tensor_data(from.bytes))))
        return -1;
    MK_AUTO_MD dnnl_memory_desc_t plain = NULL;
    if (mk_plain(&plain, ndim, sizes, td_tensor_dtype(x)) || mk_as(&to, &from, plain))
        return -1;
    TD_AUTO td_tensor *made = mk_tensor(&to, ndim, sizes, td_tensor_dtype(x));
    if (!(td_op_describe(op)->flags & TD_OP_INPLACE) && !(td_op_describe(op)->flags & TD_OP_INPLACE_VIEW) && !td_op_describe(op)->arguments[0].is_mutable)
        return mk_give(results, made ? td_tensor_retain(made) : NULL);
    return !made || td_layout_take(x, made) ? -1 : mk_give(results, td_tensor_retain(x));
}
static int transpose_setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context, (void)node, (void)results;
    *state = (void *)(intptr_t)(((arguments[1].integer + TD_MAX_DIMS) << 8) | (arguments[2].integer + TD_MAX_DIMS));
    return 0;
}
static int transpose_backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)node, (void)n_grads, (void)n_results;
    const intptr_t dims = (intptr_t)state;
    results[0] = td_transpose(grads[0], (dims >> 8) - TD_MAX_DIMS, (dims & 255) - TD_MAX_DIMS);
    return results[0] ? 0 : -1;
}
static const td_op_gradient transpose_gradient = {transpose_setup, transpose_backward, NULL};

/* ---- what there is: mkldnn::_look_in(folder), mkldnn::_version(), and which dtypes this CPU computes on */

static MK_KERNEL(look_in)
{
    (void)op, (void)keys, (void)results, (void)context;
    return dnnl_look_in(arguments[0].string);
}
static MK_KERNEL(version)
{
    (void)op, (void)keys, (void)arguments, (void)context;
    if (dnnl_open())
        return -1;
    const dnnl_version_t *v = dnnl_version();
    results[0] = (td_value){.kind = TD_VALUE_INT, .integer = (v->major * 1000 + v->minor) * 1000 + v->patch};
    return 0;
}
static MK_KERNEL(computes)
{
    (void)op, (void)keys, (void)arguments;
    const int bits = *(const int *)context;
    results[0] = (td_value){.kind = TD_VALUE_BOOL, .integer = dnnl_open() == 0 && (dnnl_get_effective_cpu_isa() & bits) == bits};
    return 0;
}

/* ---- registering */

int mk_register(const mk_row *rows, int n)
{
    for (int i = 0; i < n; i++)
        if (td_register_boxed(rows[i].op, td_layout_key(mk_layout), TD_CPU, rows[i].kernel, (void *)rows[i].context))
            return -1;
    return 0;
}

typedef struct form { const mk_row *row; const td_op *makes; } form;

/* The form in place writes into the bytes of its operand, so do those with out= of the right shape. */
static MK_KERNEL(run_form)
{
    const form *f = context;
    const bool inplace = td_op_describe(op)->flags & TD_OP_INPLACE;
    td_tensor *to = arguments[inplace ? 0 : td_op_describe(op)->n_arguments - 1].tensor;
    td_value made = {0};
    if (!mk_is(arguments[0].tensor) && !mk_is(arguments[1].tensor))
        return td_error(TD_E_NOT_IMPLEMENTED, "%s: out is of the mkldnn layout, and no operand is", mk_name(op));
    if (f->row->kernel(f->makes, keys, arguments, &made, (void *)f->row->context))
        return -1;
    const int status = mk_is(to) && same_sizes(to, made.tensor) ? write_to(to, made.tensor) : td_layout_store(op, to, made.tensor);
    td_values_release(&made, 1);
    return status ? -1 : mk_give(results, td_tensor_retain(to));
}

int mk_register_forms(const mk_row *rows, int n)
{
    for (int i = 0; i < n; i++) {
        const td_op *makes = td_op_find(rows[i].op);
        const td_op_info *info = makes ? td_op_describe(makes) : NULL;
        if (!info || mk_register(&rows[i], 1))
            return info ? -1 : td_error(TD_E_RUNTIME, "there is no operator %s", rows[i].op);
        for (int out = 0; out < 2; out++) {
            char name[128];
            if (out)
                snprintf(name, sizeof name, "aten::%s.out", info->name);
            else
                snprintf(name, sizeof name, "aten::%s_%s%s", info->name, *info->overload ? "." : "", info->overload);
            form *f = td_op_find(name) ? malloc(sizeof *f) : NULL;       /* stays, as what is registered does */
            if (!f)
                continue;
            *f = (form){&rows[i], makes};
            if (td_register_boxed(name, td_layout_key(mk_layout), TD_CPU, run_form, f))
                return -1;
        }
    }
    return 0;
}

int mk_register_tensor(void)
{
    static const mk_row rows[] = {
        {"aten::clone", clone, NULL}, {"aten::_to_copy", to_copy, NULL}, {"aten::copy_", copy_, NULL}, {"aten::zero_", zero_, NULL},
        {"aten::zeros_like", like, NULL}, {"aten::empty_like", like, NULL}, {"aten::new_zeros", like, NULL}, {"aten::new_empty", like, NULL},
        {"aten::alias", alias, NULL}, {"aten::view", view, NULL}, {"aten::reshape", reshape, NULL}, {"aten::transpose.int", transpose, NULL},
        {"aten::transpose_", transpose, NULL},
    };
    static const int bf16 = DNNL_ISA_BF16, f16 = DNNL_ISA_F16, never = -1;
    mk_layout = td_layout_register(&kind);
    return mk_layout < 0 || mk_register(rows, sizeof rows / sizeof *rows) ||
           !td_op_define("aten::to_mkldnn(Tensor self, ScalarType? dtype=None) -> Tensor") ||
           td_register_default("aten::to_mkldnn", to_mkldnn, NULL) || td_register_gradient("aten::to_mkldnn", &to_mkldnn_gradient, NULL) ||
           !td_op_define("aten::_mkldnn_reshape(Tensor self, int[] shape) -> Tensor") ||
           td_register_default("aten::_mkldnn_reshape", mkldnn_reshape, NULL) ||
           td_register_gradient("aten::_mkldnn_reshape", &reshape_gradient, NULL) ||
           !td_op_define("aten::_mkldnn_transpose(Tensor self, int dim0, int dim1) -> Tensor") ||
           td_register_default("aten::_mkldnn_transpose", transpose, NULL) ||
           td_register_gradient("aten::_mkldnn_transpose", &transpose_gradient, NULL) ||
           !td_op_define("aten::_mkldnn_transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)") ||
           td_register_default("aten::_mkldnn_transpose_", transpose, NULL) ||
           !td_op_define("mkldnn::_look_in(str folder) -> ()") || td_register_default("mkldnn::_look_in", look_in, NULL) ||
           !td_op_define("mkldnn::_version() -> int") || td_register_default("mkldnn::_version", version, NULL) ||
           !td_op_define("mkldnn::_is_mkldnn_bf16_supported() -> bool") ||
           td_register_default("mkldnn::_is_mkldnn_bf16_supported", computes, (void *)&bf16) ||
           !td_op_define("mkldnn::_is_mkldnn_fp16_supported() -> bool") ||
           td_register_default("mkldnn::_is_mkldnn_fp16_supported", computes, (void *)&f16) ||
           !td_op_define("mkldnn::_is_mkldnn_acl_supported() -> bool") ||
           td_register_default("mkldnn::_is_mkldnn_acl_supported", computes, (void *)&never)
               ? -1 : 0;
}

/* An error that it leaves is load_library's. */
__attribute__((constructor)) static void loaded(void)
{
    if (mk_register_tensor() || mk_register_pointwise() || mk_register_pool() || mk_register_convolution() || mk_register_strided())
        return;
}
