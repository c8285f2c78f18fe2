/* A layout: diagonal matrices, which keep n numbers in the place of n * n.
 *
 *     make diagonal && ./diagonal          or make diagonal.so, and in Python tede.ops.load_library("./diagonal.so")
 *
 * The fields of such a tensor are the tensor of its diagonal. The layout lists that as its one part, and is made of it: so printing,
 * pickling, copies, other devices and dtypes, zeros(n, n, layout=), x.to_sparse(layout=), and functions that keep zeros (abs, sin, neg,
 * ...) need nothing more. Kernels on the layout's key do the rest of what sparse tensors do: arithmetic, products, sums, transposes,
 * new tensors like another one, writes. They are made of operators on the diagonals, so the same kernels are right for each device, and
 * for meta; one kernel serves several operators, by its context, and all forms of an operator (td_layout_register_forms). Operators whose
 * results aren't diagonal but have few elements (a row, two matrices one below the other) run on a COO tensor of the same elements.
 * What is written gets new fields (td_layout_store), so that aliases keep theirs. toy::from_diagonal makes a matrix, and is
 * differentiable by a node that this file registers. Other operators say that they have no kernel for the layout, and so do views. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include <tede/foreign.h>
#include <tede/kernel.h>
#include <tede/layout.h>
#include <tede/tede.h>

static int diagonal_layout;

static void destroy(void *fields) { td_tensor_release(fields); }
static td_tensor *to_dense(td_tensor *x) { return td_diag_embed(td_tensor_fields(x), 0, -2, -1); }

/* Takes over `diagonal`. */
static td_tensor *over(td_tensor *diagonal)
{
    if (!diagonal)
        return NULL;
    int64_t n = td_tensor_numel(diagonal);
    td_tensor *x = td_tensor_with_layout(diagonal_layout, diagonal, 2, (int64_t[]){n, n}, td_tensor_dtype(diagonal),
                                         td_tensor_device(diagonal));
    if (!x)
        td_tensor_release(diagonal);
    return x;
}

static int is_square(int64_t ndim, const int64_t *sizes)
{
    return ndim == 2 && sizes[0] == sizes[1] ? 0 : td_error(TD_E_VALUE, "a diagonal matrix has as many rows as columns");
}
static td_tensor *from_dense(int layout, td_tensor *x)
{
    (void)layout;
    return is_square(td_tensor_ndim(x), td_tensor_sizes(x)) ? NULL : over(td_diagonal_copy(x, 0, 0, 1));
}
static int parts(const td_tensor *x, td_layout_part *parts)
{
    parts[0] = (td_layout_part){.name = "diagonal", .tensor = td_tensor_fields(x), .values = true};
    return 1;
}
static td_tensor *from_parts(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts)
{
    (void)layout;
    if (is_square(ndim, sizes))
        return NULL;
    if (n != 1 || !parts[0].tensor || td_tensor_ndim(parts[0].tensor) != 1 || td_tensor_numel(parts[0].tensor) != sizes[0]) {
        td_error(TD_E_VALUE, "a diagonal matrix is made of a vector as long as it has rows");
        return NULL;
    }
    return over(td_tensor_alias(parts[0].tensor, false));
}
static td_tensor *zeros(int layout, const td_op *op, td_tensor *like, int64_t ndim, const int64_t *sizes, td_dtype dtype,
                        td_device device)
{
    (void)layout, (void)op, (void)like;
    return is_square(ndim, sizes) ? NULL : over(td_zeros(1, sizes, dtype, device));
}
static const td_layout_kind kind = {
    .size = sizeof kind, .name = "diagonal_matrix", .flags = TD_LAYOUT_ZEROS, .destroy = destroy, .to_dense = to_dense,
    .from_dense = from_dense, .parts = parts, .from_parts = from_parts, .zeros = zeros,
};

static bool is_diagonal(const td_tensor *x) { return x != TD_NONE && td_tensor_layout(x) == diagonal_layout; }

static int give(td_value *result, td_tensor *x)
{
    *result = (td_value){.kind = x ? TD_VALUE_TENSOR : TD_VALUE_NONE, .tensor = x};
    return x ? 0 : -1;
}

static int from_diagonal(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    return td_check_ndim(op, 0, x, 1) ? -1 : give(results, over(td_clone(x)));
}
static int from_backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results,
                         td_tensor **results)
{
    (void)context, (void)state, (void)node, (void)n_grads, (void)n_results;
    results[0] = is_diagonal(grads[0]) ? td_clone(td_tensor_fields(grads[0])) : td_diagonal_copy(grads[0], 0, 0, 1);
    return results[0] ? 0 : -1;
}
static const td_op_gradient gradient = {NULL, from_backward, NULL};

static int refuse(const td_op *op)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "%s of a diagonal matrix and one of another layout: use to_dense()", td_op_describe(op)->name);
}

/* `op` of other tensors: results are what the call gives. */
static int call(const td_op *op, const td_value *arguments, int at, td_tensor *x, td_value *results)
{
    enum { MOST = 16 };
    td_value changed[MOST];
    const int n = td_op_describe(op)->n_arguments;
    if (!x || n > MOST)
        return x ? td_error(TD_E_RUNTIME, "%s: too many arguments", td_op_describe(op)->name) : -1;
    memcpy(changed, arguments, sizeof *changed * (size_t)n);
    changed[at].tensor = x;
    return td_op_call(op, changed, results);
}

/* ---- products: diag(a) diag(b) = diag(a b); diag(a) B scales B's rows, A diag(b) A's columns */

static td_tensor *product(const td_op *op, int first, const td_value *arguments)
{
    td_tensor *a = arguments[first].tensor, *b = arguments[first + 1].tensor;
    const int64_t n = td_tensor_sizes(is_diagonal(a) ? a : b)[0], d = td_tensor_ndim(is_diagonal(a) ? b : a);
    const int64_t *other = td_tensor_sizes(is_diagonal(a) ? b : a);
    const int64_t inner = d == 0 ? -1 : is_diagonal(a) && d > 1 ? other[d - 2] : other[d - 1];
    if (td_check_argument(op, first + is_diagonal(a), inner == n, "have %lld elements in the dimension that is summed", (long long)n))
        return NULL;
    if (is_diagonal(a) && is_diagonal(b))
        return over(td_mul(td_tensor_fields(a), td_tensor_fields(b)));
    TD_AUTO td_tensor *scale = is_diagonal(a) && d > 1 ? td_unsqueeze(td_tensor_fields(a), 1)
                                                       : td_tensor_retain(td_tensor_fields(is_diagonal(a) ? a : b));
    return td_mul(is_diagonal(a) ? b : a, scale);
}

static int matmul(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys;
    const int *ndims = context;                         /* of mm and mv, which don't take others */
    if (ndims && (td_check_ndim(op, 0, arguments[0].tensor, ndims[0]) || td_check_ndim(op, 1, arguments[1].tensor, ndims[1])))
        return -1;
    return give(results, product(op, 0, arguments));
}

/* linear(x, w, bias) = x w^T + bias: a diagonal w is its own transpose. */
static int linear(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    if (!is_diagonal(arguments[1].tensor))
        return refuse(op);
    TD_AUTO td_tensor *x = product(op, 0, arguments);
    td_tensor *bias = arguments[2].kind == TD_VALUE_TENSOR && arguments[2].tensor != TD_NONE ? arguments[2].tensor : NULL;
    return give(results, bias ? td_add(x, bias) : x ? td_tensor_retain(x) : NULL);
}

/* addmm and addmv: beta self + alpha a b, where beta = 0 leaves self's NaNs away. */
static int addmm(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    if (!is_diagonal(arguments[1].tensor) && !is_diagonal(arguments[2].tensor))
        return refuse(op);
    TD_AUTO td_tensor *made = product(op, 1, arguments);
    TD_AUTO td_tensor *scaled = td_mul_scalar(made, arguments[4].scalar);
    if (!td_scalar_bool(arguments[3].scalar))
        return give(results, scaled ? td_tensor_retain(scaled) : NULL);
    TD_AUTO td_tensor *self = td_mul_scalar(arguments[0].tensor, arguments[3].scalar);
    return give(results, td_add(self, scaled));
}

/* ---- by element.  Of two diagonal matrices an operator for which zero and zero give zero is the operator on their diagonals. */

enum { ADDED, MULTIPLIED, DIVIDED };                    /* what the other operand may be besides a diagonal matrix or instead of one */
static const int added = ADDED, multiplied = MULTIPLIED, divided = DIVIDED;

static int elementwise(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys;
    const int kind = *(const int *)context, at = is_diagonal(arguments[0].tensor) ? 0 : 1;
    td_tensor *self = arguments[at].tensor, *other = arguments[1 - at].tensor;
    const bool number = !td_tensor_ndim(other);
    td_value made;
    if (!number && td_check_sizes_of(op, 1, arguments[1].tensor, 2, td_tensor_sizes(arguments[0].tensor)))
        return -1;
    if (number ? kind == ADDED || (kind == DIVIDED && at) : kind == DIVIDED)
        return refuse(op);
    if (kind == ADDED && !is_diagonal(other)) {         /* a sum with a strided matrix is strided */
        TD_AUTO td_tensor *dense = to_dense(self);
        return call(op, arguments, at, dense, results);
    }
    TD_AUTO td_tensor *line = number ? td_tensor_retain(other) : is_diagonal(other) ? td_tensor_retain(td_tensor_fields(other))
                                                                                    : td_diagonal(other, 0, 0, 1);
    td_value operands[3] = {arguments[0], arguments[1]};
    if (td_op_describe(op)->n_arguments == 3)           /* alpha, rounding_mode */
        operands[2] = arguments[2];
    operands[1 - at].tensor = line;
    return !line || call(op, operands, at, td_tensor_fields(self), &made) ? -1 : give(results, over(made.tensor));
}

static int power(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_value made;
    if (td_check_argument(op, 1, td_scalar_double(arguments[1].scalar) > 0, "be above 0, for zeros to stay zeros"))
        return -1;
    return call(op, arguments, 0, td_tensor_fields(arguments[0].tensor), &made) ? -1 : give(results, over(made.tensor));
}

/* Gradients of functions of the values: of a matrix of any layout and a diagonal one. */
static int function_backward(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_value operands[3] = {arguments[0], arguments[1], {0}}, made;
    if (td_op_describe(op)->n_arguments == 3)
        operands[2] = arguments[2];
    TD_AUTO td_tensor *grad = is_diagonal(arguments[0].tensor) ? td_tensor_retain(td_tensor_fields(arguments[0].tensor))
                                                               : td_diagonal_copy(arguments[0].tensor, 0, 0, 1);
    TD_AUTO td_tensor *x = is_diagonal(arguments[1].tensor) ? td_tensor_retain(td_tensor_fields(arguments[1].tensor))
                                                            : td_diagonal_copy(arguments[1].tensor, 0, 0, 1);
    operands[1].tensor = x;
    return !grad || !x || call(op, operands, 0, grad, &made) ? -1 : give(results, over(made.tensor));
}

/* ---- reductions.  Of each row and each column one element counts: a reduction that passes zeros over is that of the diagonal as a row, or
 * as a column, in the same dimensions. */

static int reduce(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    int64_t dim = 0;
    for (int i = 1; i < td_op_describe(op)->n_arguments; i++) {
        const char *name = td_op_describe(op)->arguments[i].name;
        if (!strcmp(name, "ord") && td_check_argument(op, i, td_scalar_double(arguments[i].scalar) >= 0, "be 0 or more"))
            return -1;
        if (!strcmp(name, "dim") && arguments[i].kind == TD_VALUE_INTS && arguments[i].count == 1)
            dim = arguments[i].ints[0];
        else if (!strcmp(name, "dim") && arguments[i].kind == TD_VALUE_INT)
            dim = arguments[i].integer;
    }
    TD_AUTO td_tensor *line = td_unsqueeze(td_tensor_fields(arguments[0].tensor), dim == 1 || dim == -1);
    return call(op, arguments, 0, line, results);
}

/* trace; item() and bool() of a matrix of one element */
static int trace(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    return give(results, td_sum(td_tensor_fields(arguments[0].tensor)));
}
static int of_one(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    return call(op, arguments, 0, td_tensor_fields(arguments[0].tensor), results);
}

/* ---- new tensors, and what is written */

static int copy_(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor, *from = arguments[1].tensor;
    if (!is_diagonal(x)) {
        TD_AUTO td_tensor *dense = to_dense(from);
        return !dense || td_copy_(x, dense) ? -1 : give(results, td_tensor_retain(x));
    }
    if (!is_diagonal(from))
        return refuse(op);
    if (td_check_sizes_of(op, 1, from, 2, td_tensor_sizes(x)))
        return -1;
    TD_AUTO td_tensor *copy = over(td__to_copy(td_tensor_fields(from), td_tensor_dtype(x), td_tensor_device(x), false, TD_PRESERVE_FORMAT));
    return !copy || td_layout_store(op, x, copy) ? -1 : give(results, td_tensor_retain(x));
}

/* zeros_like, empty_like, new_zeros, new_empty, zero_; with another layout= the call doesn't come here. */
static int like(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    const int64_t *sizes = td_tensor_sizes(x);
    td_dtype dtype = td_tensor_dtype(x);
    td_device device = td_tensor_device(x);
    for (int i = 1; i < td_op_describe(op)->n_arguments; i++)
        if (arguments[i].kind == TD_VALUE_DTYPE)
            dtype = (td_dtype)arguments[i].integer;
        else if (arguments[i].kind == TD_VALUE_DEVICE)
            device = arguments[i].device;
        else if (arguments[i].kind == TD_VALUE_INTS && is_square(arguments[i].count, sizes = arguments[i].ints))
            return -1;
    TD_AUTO td_tensor *made = over(td_zeros(1, sizes, dtype, device));
    if (!(td_op_describe(op)->flags & TD_OP_INPLACE))
        return give(results, made ? td_tensor_retain(made) : NULL);
    return !made || td_layout_store(op, x, made) ? -1 : give(results, td_tensor_retain(x));
}

/* alias; and the transpose of a diagonal matrix, which is itself: a view in the only sense that the layout has. */
static int alias(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    for (int i = 1; i < td_op_describe(op)->n_arguments; i++) {
        const bool list = arguments[i].kind == TD_VALUE_INTS;
        for (int k = 0; k < (list ? arguments[i].count : 1); k++) {
            const int64_t dim = list ? arguments[i].ints[k] : arguments[i].integer;
            if (td_check_argument(op, i, dim >= -2 && dim < 2, "name dimensions of a matrix"))
                return -1;
        }
        if (list && td_check_argument(op, i, arguments[i].count == 2 && (arguments[i].ints[0] + arguments[i].ints[1]) & 1, "name each dimension once"))
            return -1;
    }
    td_tensor *x = arguments[0].tensor;
    return give(results, td_op_describe(op)->flags & TD_OP_INPLACE_VIEW ? td_tensor_retain(x) : td_tensor_alias(x, false));
}

/* ---- by way of COO, which keeps as few elements and has results of any shape */

static td_tensor *coo(td_tensor *x)
{
    if (!is_diagonal(x))
        return td_tensor_retain(x);
    const int64_t *sizes = td_tensor_sizes(x);
    TD_AUTO td_tensor *line = td_arange(td_int(sizes[0]), TD_I64, td_tensor_device(x));
    TD_AUTO td_tensor *indices = td_expand(line, 2, (int64_t[]){2, sizes[0]});
    const bool coalesced = true;
    return td__sparse_coo_tensor_with_dims_and_tensors(2, 0, 2, sizes, indices, td_tensor_fields(x), TD_DTYPE_NONE, TD_DEVICE_NONE, &coalesced);
}

static int by_coo(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    if (arguments[0].kind == TD_VALUE_TENSOR) {
        TD_AUTO td_tensor *x = coo(arguments[0].tensor);
        return call(op, arguments, 0, x, results);
    }
    const int n = arguments[0].count;                   /* cat(tensors, dim) */
    td_tensor **list = calloc((size_t)n, sizeof *list);
    if (!list)
        return td_error(TD_E_MEMORY, "%s: no memory for %d tensors", td_op_describe(op)->name, n);
    int made = 0, status = 0;
    for (; made < n && status == 0; made++)
        status = (list[made] = coo(arguments[0].tensors[made])) ? 0 : -1;
    td_value changed[2] = {arguments[0], arguments[1]};
    changed[0].tensors = list;
    if (status == 0)
        status = td_op_call(op, changed, results);
    for (int i = 0; i < made; i++)
        td_tensor_release(list[i]);
    free(list);
    return status;
}

static const int of_mm[] = {2, 2}, of_mv[] = {2, 1};
typedef struct kernel { const char *op; td_boxed_kernel *run; const void *context; } kernel;
/* Registered with the forms in place and with out= of each */
static const kernel makers[] = {
    {"aten::add.Tensor", elementwise, &added}, {"aten::sub.Tensor", elementwise, &added}, {"aten::mul.Tensor", elementwise, &multiplied},
    {"aten::div.Tensor", elementwise, &divided}, {"aten::div.Tensor_mode", elementwise, &divided}, {"aten::floor_divide", elementwise, &divided},
    {"aten::pow.Tensor_Scalar", power, NULL}, {"aten::mm", matmul, of_mm}, {"aten::mv", matmul, of_mv}, {"aten::matmul", matmul, NULL},
    {"aten::addmm", addmm, NULL}, {"aten::addmv", addmm, NULL}, {"aten::linear", linear, NULL}, {"aten::sum", reduce, NULL},
    {"aten::sum.dim_IntList", reduce, NULL}, {"aten::any", reduce, NULL}, {"aten::any.dim", reduce, NULL}, {"aten::any.dims", reduce, NULL},
    {"aten::linalg_vector_norm", reduce, NULL}, {"aten::cat", by_coo, NULL}, {"aten::index_select", by_coo, NULL},
    {"aten::narrow_copy", by_coo, NULL},
};
static const kernel others[] = {
    {"aten::copy_", copy_, NULL}, {"aten::zero_", like, NULL}, {"aten::zeros_like", like, NULL}, {"aten::empty_like", like, NULL},
    {"aten::new_zeros", like, NULL}, {"aten::new_empty", like, NULL}, {"aten::alias", alias, NULL}, {"aten::transpose.int", alias, NULL},
    {"aten::transpose_", alias, NULL}, {"aten::permute", alias, NULL}, {"aten::select.int", by_coo, NULL}, {"aten::unsqueeze", by_coo, NULL},
    {"aten::squeeze.dim", by_coo, NULL}, {"aten::unbind.int", by_coo, NULL}, {"aten::to_sparse_csr", by_coo, NULL},
    {"aten::to_sparse_csc", by_coo, NULL}, {"aten::to_sparse_bsr", by_coo, NULL}, {"aten::to_sparse_bsc", by_coo, NULL},
    {"aten::trace", trace, NULL}, {"aten::_local_scalar_dense", of_one, NULL}, {"aten::is_nonzero", of_one, NULL},
    {"aten::log1p_backward", function_backward, NULL}, {"aten::threshold_backward", function_backward, NULL},
};

int diagonal_register(void)
{
    diagonal_layout = td_layout_register(&kind);
    if (diagonal_layout < 0)
        return -1;
    td_key key = td_layout_key(diagonal_layout);
    for (int device = 0; device < TD_DEVICE_TYPES; device++) {
        for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
            if (td_layout_register_forms(makers[i].op, key, device, makers[i].run, (void *)makers[i].context))
                return -1;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (td_register_boxed(others[i].op, key, device, others[i].run, (void *)others[i].context))
                return -1;
    }
    return !td_op_define("toy::from_diagonal(Tensor diagonal) -> Tensor") ||
           td_register_default("toy::from_diagonal", from_diagonal, NULL) ||
           td_register_gradient("toy::from_diagonal", &gradient, NULL)
               ? -1 : 0;
}

#ifdef DIAGONAL_LIBRARY
/* An error that it leaves is load_library's. */
__attribute__((constructor)) static void loaded(void) { diagonal_register(); }
#else
static void check(bool good)
{
    if (good)
        return;
    fprintf(stderr, "diagonal: %s\n", td_error_message());
    exit(1);
}

static td_tensor *from(td_tensor *diagonal)
{
    td_value argument = {.kind = TD_VALUE_TENSOR, .tensor = diagonal}, result;
    return td_op_call(td_op_find("toy::from_diagonal"), &argument, &result) == 0 ? result.tensor : NULL;
}

int main(void)
{
    check(diagonal_register() == 0);
    TD_AUTO td_tensor *line = td_arange(td_int(4), TD_F32, TD_DEVICE_NONE);
    check(line && td_set_requires_grad(line, true) == 0);
    TD_AUTO td_tensor *d = from(line);
    TD_AUTO td_tensor *ones = td_ones(2, (int64_t[]){4, 3}, TD_F32, TD_DEVICE_NONE);
    TD_AUTO td_tensor *scaled = td_mm(d, ones);
    TD_AUTO td_tensor *squared = td_mm(d, d);
    TD_AUTO td_tensor *sum = td_sum(scaled);
    check(squared && sum && td_backward(1, &sum, NULL, false, false) == 0);
    char *text = td_tensor_str(squared), *gradient_text = td_tensor_str(td_grad(line));
    check(text && gradient_text);
    printf("%s\n%s\n", text, gradient_text);
    td_string_free(text), td_string_free(gradient_text);
    TD_AUTO td_tensor *no = td_exp(d);
    puts(no ? "?" : td_error_message());
    return 0;
}
#endif
