/* A layout: diagonal matrices, which keep n numbers in the place of n * n.
 *
 *     make diagonal && ./diagonal          or make diagonal.so, and in Python tede.ops.load_library("./diagonal.so")
 *
 * The fields of such a tensor are the tensor of its diagonal. The layout lists that as its one part, and is made of it: so printing,
 * pickling, copies, other devices and dtypes, zeros(n, n, layout=), x.to_sparse(layout=), and functions that keep zeros (abs, sin, neg,
 * ...) need nothing more. Kernels on the layout's key multiply diagonal matrices with each other and with strided ones, add, subtract,
 * transpose and overwrite them; what they make of it are operators on the diagonals. One kernel serves several operators, by its context.
 * What is written gets new fields (td_layout_take), so that aliases keep theirs. toy::from_diagonal makes a matrix, and is differentiable by
 * a node that this file registers. Other operators say that they have no kernel for the layout, and so do views. */
#include <stdio.h>
#include <stdlib.h>
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

/* diag(a) diag(b) = diag(a b); diag(a) B scales B's rows, A diag(b) A's columns. */
static int mm(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *a = arguments[0].tensor, *b = arguments[1].tensor;
    if (td_check_ndim(op, 0, a, 2) || td_check_ndim(op, 1, b, 2) ||
        td_check_sizes_of(op, 1, b, 2, (int64_t[]){td_tensor_sizes(a)[1], TD_ANY}))
        return -1;
    if (is_diagonal(a) && is_diagonal(b))
        return give(results, over(td_mul(td_tensor_fields(a), td_tensor_fields(b))));
    TD_AUTO td_tensor *column = is_diagonal(a) ? td_unsqueeze(td_tensor_fields(a), 1) : td_tensor_retain(td_tensor_fields(b));
    return give(results, td_mul(is_diagonal(a) ? b : a, column));
}

static int refuse(const td_op *op)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "%s of a diagonal matrix and one of another layout: use to_dense()", td_op_describe(op)->name);
}

/* Operators for which zero and zero give zero, of two diagonal matrices: the operator on their diagonals.  A factor may be a number, too. */
typedef struct elementwise { const char *name, *inplace; bool numbers; } elementwise;
static const elementwise operators[] = {
    {"aten::add.Tensor", "aten::add_.Tensor", false},
    {"aten::sub.Tensor", "aten::sub_.Tensor", false},
    {"aten::mul.Tensor", "aten::mul_.Tensor", true},
};
static int compute(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys;
    const elementwise *e = context;
    td_value on_diagonals[3];
    const int n = td_op_describe(op)->n_arguments;
    for (int i = 0; i < n; i++) {
        on_diagonals[i] = arguments[i];
        if (i > 1)
            continue;                                   /* alpha */
        if (is_diagonal(arguments[i].tensor))
            on_diagonals[i].tensor = td_tensor_fields(arguments[i].tensor);
        else if (!e->numbers || td_tensor_ndim(arguments[i].tensor))
            return refuse(op);
    }
    if (is_diagonal(arguments[0].tensor) && is_diagonal(arguments[1].tensor) &&
        td_check_sizes_of(op, 1, arguments[1].tensor, 2, td_tensor_sizes(arguments[0].tensor)))
        return -1;
    td_value made;
    return td_op_call(td_op_find(e->name), on_diagonals, &made) ? -1 : give(results, over(made.tensor));
}

/* The result of an operator that wrote x. */
static int written(td_tensor *x, const td_tensor *from, td_value *results)
{
    return !from || td_layout_take(x, from) ? -1 : give(results, td_tensor_retain(x));
}
static int compute_(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    td_tensor *x = arguments[0].tensor;
    if (!is_diagonal(x))
        return refuse(op);
    td_value made;
    if (compute(op, keys, arguments, &made, context))
        return -1;
    TD_AUTO td_tensor *changed = made.tensor;
    if (td_tensor_dtype(changed) != td_tensor_dtype(x))
        return td_error(TD_E_RUNTIME, "%s: the result has another dtype than what is written", td_op_describe(op)->name);
    return written(x, changed, results);
}

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
    return written(x, copy, results);
}

/* zeros_like and empty_like; with another layout= the call doesn't come here. */
static int like(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    td_dtype dtype = td_tensor_dtype(x);
    td_device device = td_tensor_device(x);
    for (int i = 1; i < td_op_describe(op)->n_arguments; i++)
        if (arguments[i].kind == TD_VALUE_DTYPE)
            dtype = (td_dtype)arguments[i].integer;
        else if (arguments[i].kind == TD_VALUE_DEVICE)
            device = arguments[i].device;
    return give(results, over(td_zeros(1, td_tensor_sizes(x), dtype, device)));
}

static int trace(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    return give(results, td_sum(td_tensor_fields(arguments[0].tensor)));
}

/* alias; and the transpose of a diagonal matrix, which is itself: a view in the only sense that the layout has. */
static int alias(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    return give(results, td_tensor_alias(arguments[0].tensor, false));
}

int diagonal_register(void)
{
    diagonal_layout = td_layout_register(&kind);
    if (diagonal_layout < 0)
        return -1;
    td_key key = td_layout_key(diagonal_layout);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (td_register_boxed(operators[i].name, key, TD_CPU, compute, (void *)&operators[i]) ||
            td_register_boxed(operators[i].inplace, key, TD_CPU, compute_, (void *)&operators[i]))
            return -1;
    return !td_op_define("toy::from_diagonal(Tensor diagonal) -> Tensor") ||
           td_register_default("toy::from_diagonal", from_diagonal, NULL) ||
           td_register_gradient("toy::from_diagonal", &gradient, NULL) ||
           td_register_boxed("aten::mm", key, TD_CPU, mm, NULL) ||
           td_register_boxed("aten::copy_", key, TD_CPU, copy_, NULL) ||
           td_register_boxed("aten::zeros_like", key, TD_CPU, like, NULL) || td_register_boxed("aten::empty_like", key, TD_CPU, like, NULL) ||
           td_register_boxed("aten::alias", key, TD_CPU, alias, NULL) || td_register_boxed("aten::transpose.int", key, TD_CPU, alias, NULL) ||
           td_register_boxed("aten::sum", key, TD_CPU, trace, NULL) || td_register_boxed("aten::trace", key, TD_CPU, trace, NULL)
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
