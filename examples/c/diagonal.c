/* A layout: diagonal matrices, which keep n numbers in the place of n * n.
 *
 *     make diagonal && ./diagonal          or make diagonal.so, and in Python tede.ops.load_library("./diagonal.so")
 *
 * The fields of such a tensor are the tensor of its diagonal. Kernels on the layout's key multiply diagonal matrices with each
 * other and with strided ones; what they make of it are operators on the diagonals. toy::from_diagonal makes one, and is
 * differentiable by a node of its own. Other operators say that they have no kernel for the layout. */
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include <tede/kernel.h>
#include <tede/layout.h>
#include <tede/tede.h>

static int diagonal_layout;

static void destroy(void *fields) { td_tensor_release(fields); }
static td_tensor *to_dense(td_tensor *x) { return td_diag_embed(td_tensor_fields(x), 0, -2, -1); }
static const td_layout_kind kind = {"diagonal_matrix", destroy, to_dense};

static bool is_diagonal(const td_tensor *x) { return x != TD_NONE && td_tensor_layout(x) == diagonal_layout; }

/* Takes over `diagonal`. */
static int give(td_value *result, td_tensor *diagonal)
{
    if (!diagonal)
        return -1;
    int64_t n = td_tensor_numel(diagonal);
    td_tensor *x = td_tensor_with_layout(diagonal_layout, diagonal, 2, (int64_t[]){n, n}, td_tensor_dtype(diagonal),
                                         td_tensor_device(diagonal));
    if (!x)
        td_tensor_release(diagonal);
    *result = (td_value){.kind = x ? TD_VALUE_TENSOR : TD_VALUE_NONE, .tensor = x};
    return x ? 0 : -1;
}

static int from_diagonal(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    return td_check_ndim(op, 0, x, 1) ? -1 : give(results, td_clone(x));
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
        return give(results, td_mul(td_tensor_fields(a), td_tensor_fields(b)));
    TD_AUTO td_tensor *column = is_diagonal(a) ? td_unsqueeze(td_tensor_fields(a), 1) : td_tensor_retain(td_tensor_fields(b));
    td_tensor *product = td_mul(is_diagonal(a) ? b : a, column);
    *results = (td_value){.kind = product ? TD_VALUE_TENSOR : TD_VALUE_NONE, .tensor = product};
    return product ? 0 : -1;
}

typedef td_tensor *of_two(td_tensor *a, td_tensor *b);

static int pointwise(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *of_fields)
{
    (void)keys;
    td_tensor *a = arguments[0].tensor, *b = arguments[1].tensor;
    if (!is_diagonal(a) || !is_diagonal(b))
        return td_error(TD_E_NOT_IMPLEMENTED, "%s of a diagonal matrix and one of another layout: use to_dense()",
                        td_op_describe(op)->name);
    of_two *f = *(of_two **)of_fields;
    return give(results, f(td_tensor_fields(a), td_tensor_fields(b)));
}

static int trace(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    td_tensor *sum = td_sum(td_tensor_fields(arguments[0].tensor));
    *results = (td_value){.kind = sum ? TD_VALUE_TENSOR : TD_VALUE_NONE, .tensor = sum};
    return sum ? 0 : -1;
}

int diagonal_register(void)
{
    static td_tensor *(*add)(td_tensor *, td_tensor *) = td_add, *(*mul)(td_tensor *, td_tensor *) = td_mul;
    diagonal_layout = td_layout_register(&kind);
    if (diagonal_layout < 0)
        return -1;
    td_key key = td_layout_key(diagonal_layout);
    return !td_op_define("toy::from_diagonal(Tensor diagonal) -> Tensor") ||
           td_register_default("toy::from_diagonal", from_diagonal, NULL) ||
           td_register_gradient("toy::from_diagonal", &gradient, NULL) ||
           td_register_boxed("aten::mm", key, TD_CPU, mm, NULL) ||
           td_register_boxed("aten::add.Tensor", key, TD_CPU, pointwise, &add) ||
           td_register_boxed("aten::mul.Tensor", key, TD_CPU, pointwise, &mul) ||
           td_register_boxed("aten::trace", key, TD_CPU, trace, NULL) ? -1 : 0;
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
