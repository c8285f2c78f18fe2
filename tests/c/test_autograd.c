/* Gradients through the public API: operators' nodes, writes to views and their second derivatives, dtypes, hooks. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/autograd_nodes.h>
#include <tede/ops.h>

static td_tensor *filled(int ndim, const int64_t *sizes, td_dtype dtype, bool requires_grad, const double *values)
{
    td_tensor *x = td_tensor_new(ndim, sizes, dtype, CPU);
    if (!x)
        return NULL;
    for (int64_t i = 0; i < td_tensor_numel(x); i++)
        td_convert(dtype, (char *)td_tensor_data(x) + i * (int64_t)td_dtype_size(dtype), 0, TD_F64, values + i, 0, 1);
    if (requires_grad && td_set_requires_grad(x, true) != 0) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}
#define VECTOR(dtype, grad, ...)                                                                                          \
    filled(1, (int64_t[]){TD_COUNT(((double[]){__VA_ARGS__}))}, dtype, grad, (double[]){__VA_ARGS__})
#define LEAF(...) VECTOR(TD_F64, true, __VA_ARGS__)

static bool is(td_tensor *x, int n, const double *expected)
{
    TD_AUTO td_tensor *plain = x ? td_as_contiguous(x, TD_F64) : NULL;
    if (!plain || td_tensor_numel(plain) != n)
        return false;
    for (int i = 0; i < n; i++)
        if (fabs(((double *)td_tensor_data(plain))[i] - expected[i]) > 1e-6 * (1 + fabs(expected[i]))) {
            if (!td_test_excused())
                fprintf(stderr, "element %d is %g, not %g\n", i, ((double *)td_tensor_data(plain))[i], expected[i]);
            return false;
        }
    return true;
}
#define CHECK_IS(x, ...) CHECK(is(x, TD_COUNT(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__}))
#define AUTO TD_AUTO td_tensor *

/* The gradient of the sum of x. */
static int backward(td_tensor *x, bool keep)
{
    AUTO ones = td_ones_like(x);
    return ones ? td_backward(1, &x, &ones, keep, false) : -1;
}

static td_tensor *scaled(td_tensor *x, int64_t factor)
{
    AUTO number = td_wrapped_number(td_int(factor));
    return td_mul(x, number);
}

static int scale_(td_tensor *x, int64_t factor)
{
    AUTO number = td_wrapped_number(td_int(factor));
    return td_mul_tensor_(x, number);
}

static td_tensor *slice(td_tensor *x, int64_t from, int64_t n) { return td_narrow(x, 0, from, n); }

TD_TEST(operators_record_themselves)
{
    AUTO a = TRY(LEAF(1, 2, 3)), *b = TRY(LEAF(4, 5, 6));
    AUTO ab = TRY(td_mul(a, b));
    AUTO e = TRY(td_exp(a));
    AUTO y = TRY(td_div(ab, e));
    td_node *node;
    int output, slot;
    TRY(td_history(y, &node, &output));
    bool named = strcmp(td_node_name(node), "DivBackward0") == 0 && td_node_edges(node) == 2 &&
                 strcmp(td_node_name(td_node_edge(node, 1, &slot)), "ExpBackward0") == 0 && slot == 0;
    td_node_drop(node);
    CHECK(named);
    TRY(backward(y, false));
    CHECK_IS(td_grad(a), 0, -5 * exp(-2), -12 * exp(-3));
    CHECK_IS(td_grad(b), exp(-1), 2 * exp(-2), 3 * exp(-3));
}

TD_TEST(a_small_network_learns_what_it_should)
{
    double w[6] = {.1, -.2, .3, .4, -.5, .6}, x[4] = {1, 2, 3, 4}, h[6], loss = 0, dw[6] = {0};
    AUTO W = TRY(filled(2, (int64_t[]){2, 3}, TD_F64, true, w)), *X = TRY(filled(2, (int64_t[]){2, 2}, TD_F64, false, x));
    AUTO product = TRY(td_matmul(X, W));
    AUTO H = TRY(td_tanh(product));
    AUTO square = TRY(td_mul(H, H));
    TRY(backward(square, false));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++) {
            h[3 * i + j] = tanh(x[2 * i] * w[j] + x[2 * i + 1] * w[3 + j]);
            loss = 2 * h[3 * i + j] * (1 - h[3 * i + j] * h[3 * i + j]);
            dw[j] += loss * x[2 * i];
            dw[3 + j] += loss * x[2 * i + 1];
        }
    CHECK(is(td_grad(W), 6, dw));
}

TD_TEST(broadcasting_and_dtypes_are_undone)
{
    AUTO a = TRY(filled(2, (int64_t[]){2, 3}, TD_F64, true, (double[]){1, 2, 3, 4, 5, 6}));
    AUTO b = TRY(VECTOR(TD_F32, true, 1, 2, 3)), *c = TRY(filled(0, NULL, TD_BF16, true, (double[]){2}));
    AUTO ab = TRY(td_mul(a, b));
    AUTO abc = TRY(td_mul(ab, c));
    TRY(backward(abc, false));
    CHECK_IS(td_grad(b), 10, 14, 18);
    CHECK_IS(td_grad(a), 2, 4, 6, 2, 4, 6);
    CHECK_IS(td_grad(c), 46);
    CHECK_EQ(td_tensor_dtype(td_grad(b)), TD_F32);
    CHECK_EQ(td_tensor_dtype(td_grad(c)), TD_BF16);
}

TD_TEST(a_written_view_and_its_base)
{
    AUTO x = TRY(LEAF(1, 2, 3, 4)), *w = TRY(LEAF(5, 7));
    AUTO y = TRY(scaled(x, 10));
    AUTO v = TRY(slice(y, 1, 2));
    TRY(td_mul_tensor_(v, w));
    AUTO u = TRY(slice(y, 3, 1));
    AUTO first = TRY(slice(w, 0, 1));
    TRY(td_copy_(u, first));
    AUTO yy = TRY(td_mul(y, y));
    TRY(backward(yy, true));
    CHECK_IS(td_grad(x), 200, 2 * 100 * 50, 2 * 210 * 70, 0);
    CHECK_IS(td_grad(w), 2 * 100 * 20 + 10, 2 * 210 * 30);
    TRY(td_set_grad(x, NULL));
    AUTO vv = TRY(td_mul(v, v));
    TRY(backward(vv, false));
    CHECK_IS(td_grad(x), 0, 2 * 100 * 50, 2 * 210 * 70, 0);
}

TD_TEST(second_derivatives_through_a_written_view)
{
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO y = TRY(td_mul(x, x));
    AUTO left = TRY(slice(y, 0, 2)), *right = TRY(slice(x, 1, 2));
    TRY(td_mul_tensor_(left, right));
    AUTO yy = TRY(td_mul(y, y));
    AUTO ones = TRY(td_ones_like(yy));
    td_tensor *found;
    TRY(td_autograd_grad(1, &yy, &ones, 1, &x, &found, true, true, false));
    AUTO g = found;
    CHECK_IS(g, 16, 292, 204);
    AUTO gg = TRY(td_mul(g, g));
    TRY(backward(gg, false));
    CHECK_IS(td_grad(x), 2 * (48 * 16 + 16 * 292), 2 * (16 * 16 + 434 * 292 + 192 * 204), 2 * (192 * 292 + 140 * 204));
}

TD_TEST(an_overlapping_view_of_a_written_base)
{
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scaled(x, 1));
    AUTO wide = TRY(td_expand(y, 2, (int64_t[]){3, 2}));
    TRY(scale_(y, 2));
    AUTO squares = TRY(td_mul(wide, wide));
    TRY(backward(squares, false));
    CHECK_IS(td_grad(x), 24, 48);
}

TD_TEST(what_is_saved_is_watched)
{
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO y = TRY(td_exp(x));
    TRY(scale_(y, 2));
    CHECK_FAILS(backward(y, false), TD_E_RUNTIME, "one of the variables needed for gradient computation has been modified by "
                "an inplace operation: [torch.DoubleTensor [3]], which is output 0 of Exp, is at version 1; expected version 0");
    CHECK_FAILS(scale_(x, 2), TD_E_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    AUTO out = TRY(td_tensor_new(1, (int64_t[]){3}, TD_F64, CPU));
    CHECK_FAILS(td_exp_out(x, out), TD_E_RUNTIME, "functions with out=... arguments don't support automatic differentiation");
}

TD_TEST(one_of_several_views_is_not_written)
{
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO y = TRY(scaled(x, 1));
    TD_AUTO_LIST td_tensor_list parts = {0};
    TRY(td_unbind_int(&parts, y, 0));
    CHECK_FAILS(scale_(parts.items[1], 2), TD_E_RUNTIME, "Output 1 of Unbind is a view and is being modified inplace.");
    AUTO p = TRY(td_mul(parts.items[0], parts.items[2]));
    TRY(backward(p, false));
    CHECK_IS(td_grad(x), 3, 0, 1);
}

TD_TEST(gradients_of_views_of_every_kind)
{
    AUTO x = TRY(filled(2, (int64_t[]){2, 3}, TD_F64, true, (double[]){1, 2, 3, 4, 5, 6}));
    AUTO t = TRY(td_transpose(x, 0, 1));
    AUTO flat = TRY(td_reshape(t, 1, (int64_t[]){6}));
    AUTO weights = TRY(VECTOR(TD_F64, false, 1, 2, 3, 4, 5, 6));
    AUTO product = TRY(td_mul(flat, weights));
    TRY(backward(product, false));
    CHECK_IS(td_grad(x), 1, 3, 5, 2, 4, 6);
    CHECK(td_tensor_is_contiguous(td_grad(x)));
}

TD_TEST(a_leaf_s_gradient_has_its_strides)
{
    AUTO base = TRY(filled(2, (int64_t[]){2, 3}, TD_F64, false, (double[]){1, 2, 3, 4, 5, 6}));
    AUTO transposed = TRY(td_transpose(base, 0, 1));
    AUTO x = TRY(td_detach(transposed));
    TRY(td_set_requires_grad(x, true));
    AUTO y = TRY(td_mul(x, x));
    TRY(backward(y, false));
    CHECK_IS(td_grad(x), 2, 8, 4, 10, 6, 12);
    CHECK_EQ(td_tensor_strides(td_grad(x))[0], 1);
    CHECK_EQ(td_tensor_strides(td_grad(x))[1], 3);
}

/* ---- the leaves below some tensors */

static int count_leaf(void *context, td_tensor *leaf)
{
    td_tensor **wanted = context;
    for (int i = 0; i < 3; i++)
        if (wanted[i] == leaf) {
            wanted[i] = NULL;
            return 0;
        }
    return td_error(TD_E_RUNTIME, "a leaf that isn't there, or twice");
}

TD_TEST(the_leaves_of_a_graph_are_found_once)
{
    AUTO a = LEAF(1, 2);
    AUTO b = LEAF(3, 4);
    AUTO unused = LEAF(5, 6);
    AUTO plain = VECTOR(TD_F64, false, 7, 8);
    AUTO product = td_mul(a, a);
    AUTO sum = td_add(product, plain);
    AUTO other = td_mul(sum, a);
    td_tensor *wanted[] = {a, b, unused};
    CHECK_EQ(td_graph_leaves(5, (td_tensor *[]){sum, other, b, plain, TD_NONE}, count_leaf, wanted), 0);
    CHECK(!wanted[0] && !wanted[1] && wanted[2] == unused);
    CHECK_FAILS(td_graph_leaves(1, (td_tensor *[]){b}, count_leaf, wanted), TD_E_RUNTIME, "a leaf that isn't there");
    CHECK_EQ(td_graph_leaves(0, NULL, count_leaf, wanted), 0);
}
