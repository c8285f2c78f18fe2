/* Autograd's machinery with hand-made nodes: graphs, saved variables, views written in place, hooks, custom nodes. */
#include "../td_test.h"
#include "toy_ops.h"
#include "autograd/meta.h"
#include <pthread.h>

#define AUTO TD_AUTO td_tensor *

TD_TEST(a_product_gives_each_operand_the_other)
{
    AUTO a = TRY(LEAF(1, 2, 3)), *b = TRY(LEAF(4, 5, 6));
    AUTO y = TRY(mul(a, b));
    AUTO s = TRY(total(y));
    CHECK(!td_is_leaf(y) && td_is_leaf(a));
    CHECK_STR(td_node_name(TRY(td_grad_fn(y))), "MulBackward0");
    TRY(backward(s));
    CHECK_IS(td_grad(a), 4, 5, 6);
    CHECK_IS(td_grad(b), 1, 2, 3);
    CHECK(!td_grad(y));
}

TD_TEST(gradients_add_up_over_uses_and_passes)
{
    AUTO x = TRY(LEAF(1, 2));
    for (int pass = 1; pass <= 3; pass++) {
        AUTO y = TRY(mul(x, x));
        AUTO z = TRY(add(y, x));
        AUTO s = TRY(total(z));
        TRY(backward(s));
        CHECK_IS(td_grad(x), 3.0f * (float)pass, 5.0f * (float)pass);
    }
    TRY(td_set_grad(x, NULL));
    CHECK(!td_grad(x));
}

TD_TEST(what_needs_no_gradient_makes_no_node)
{
    AUTO a = TRY(VECTOR(1, 2)), *b = TRY(LEAF(1, 2));
    AUTO y = TRY(mul(a, a));
    CHECK(!td_requires_grad(y) && !td_grad_fn(y));
    td_set_grad_enabled(false);
    TD_AUTO td_tensor *z = mul(a, b);
    td_set_grad_enabled(true);
    CHECK(z && !td_requires_grad(z));
    CHECK_FAILS(backward(z), TD_E_RUNTIME, "element 0 of tensors does not require grad and does not have a grad_fn");
}

TD_TEST(a_root_needs_one_element_or_a_gradient)
{
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO y = TRY(scale(x, 2));
    CHECK_FAILS(backward(y), TD_E_RUNTIME, "grad can be implicitly created only for scalar outputs");
    AUTO wrong = TRY(VECTOR(1, 2)), *right = TRY(VECTOR(1, 10, 100));
    CHECK_FAILS(td_backward(1, &y, &wrong, false, false), TD_E_RUNTIME,
                "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([3]).");
    TRY(td_backward(1, &y, &right, false, false));
    CHECK_IS(td_grad(x), 2, 20, 200);
    CHECK(td_grad(x) != right);
    TRY(td_backward(1, &y, &right, false, false));      /* nothing was saved, so again is fine */
    CHECK_IS(td_grad(x), 4, 40, 400);
    CHECK_IS(right, 1, 10, 100);
}

TD_TEST(a_leaf_may_be_a_root)
{
    AUTO x = TRY(LEAF(5));
    TRY(backward(x));
    CHECK_IS(td_grad(x), 1);
}

TD_TEST(a_second_pass_needs_retain_graph)
{
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(exponential(x));
    AUTO s = TRY(total(y));
    TRY(td_backward(1, &s, NULL, true, false));
    TRY(backward(s));
    CHECK_IS(td_grad(x), 2 * expf(1), 2 * expf(2));
    CHECK_FAILS(backward(s), TD_E_RUNTIME, "Trying to backward through the graph a second time");
}

TD_TEST(overwriting_a_saved_value_is_an_error_that_names_both_sides)
{
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO y = TRY(exponential(x));
    TRY(scale_(y, 2));
    AUTO s = TRY(total(y));
    CHECK_FAILS(backward(s), TD_E_RUNTIME, "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "[torch.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0 instead.",
                "ExpBackward0 had saved it", "scale_ wrote over it");
    CHECK(!td_grad(x));
    AUTO w = TRY(VECTOR(1, 1, 1));
    AUTO z = TRY(mul(x, w));
    TRY(scale_(w, 2));
    AUTO t = TRY(total(z));
    CHECK_FAILS(backward(t), TD_E_RUNTIME, "[torch.FloatTensor [3]] is at version 1; expected version 0", "MulBackward0 had saved it");
}

TD_TEST(a_pass_that_failed_leaves_the_graph_usable)
{
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 3));
    AUTO z = TRY(mul(y, y));
    AUTO s = TRY(total(z));
    AUTO half = TRY(VECTOR(1, 2, 3));
    CHECK_FAILS(td_backward(1, &s, &half, true, false), TD_E_RUNTIME, "Mismatch in shape");
    TRY(td_backward(1, &s, NULL, true, false));
    CHECK_IS(td_grad(x), 18, 36);
    TRY(backward(s));
    CHECK_IS(td_grad(x), 36, 72);
}

static int wrong_shape(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    (void)node, (void)grads;
    results[0] = VECTOR(1, 2);
    return results[0] ? 0 : -1;
}

TD_TEST(a_gradient_of_the_wrong_shape_is_refused)
{
    static const td_node_type type = {.name = "MulBackward0", .apply = wrong_shape};
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO y = TRY(VECTOR(1));
    td_node *node = TRY(td_node_new(&type, 1, 1, 0, 0));
    int status = td_node_connect(node, 0, x) == 0 ? td_set_history(y, node, 0) : -1;
    td_node_release(node);
    TRY(status);
    CHECK_FAILS(backward(y), TD_E_RUNTIME,
                "Function MulBackward0 returned an invalid gradient at index 0 - got [2] but expected shape compatible with [3]");
}

TD_TEST(a_gradient_that_was_broadcast_is_summed)
{
    AUTO x = TRY(LEAF(7));
    AUTO y = TRY(VECTOR(1, 2, 3));
    AUTO z = TRY(add(y, x));
    AUTO s = TRY(total(z));
    TRY(backward(s));
    CHECK_IS(td_grad(x), 3);
}

TD_TEST(gradients_of_given_inputs_only)
{
    AUTO a = TRY(LEAF(1, 2)), *b = TRY(LEAF(3, 4)), *c = TRY(LEAF(1, 1));
    AUTO ab = TRY(mul(a, b));
    AUTO y = TRY(exponential(a));
    AUTO z = TRY(mul(ab, y));
    AUTO s = TRY(total(z));
    td_tensor *inputs[] = {b, ab, c}, *results[3];
    CHECK_FAILS(td_autograd_grad(1, &s, NULL, 3, inputs, results, true, false, false), TD_E_RUNTIME,
                "appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.");
    CHECK(!results[0] && !results[1] && !results[2]);
    TRY(td_autograd_grad(1, &s, NULL, 3, inputs, results, false, false, true));
    bool right = is(results[0], 2, (float[]){expf(1), 2 * expf(2)}) && is(results[1], 2, (float[]){expf(1), expf(2)}) && !results[2];
    for (int i = 0; i < 3; i++)
        td_tensor_release(results[i]);
    CHECK(right);
    CHECK(!td_grad(a) && !td_grad(b));
    /* The node of y was not needed, so what it saved is still there. */
    AUTO t = TRY(total(y));
    TRY(backward(t));
    CHECK_IS(td_grad(a), expf(1), expf(2));
    AUTO plain = TRY(VECTOR(1));
    td_tensor *none[] = {plain};
    CHECK_FAILS(td_autograd_grad(1, &s, NULL, 1, none, results, true, false, false), TD_E_RUNTIME,
                "One of the differentiated Tensors does not require grad");
}

TD_TEST(a_pass_accumulates_into_given_inputs_only)
{
    AUTO a = TRY(LEAF(1, 2)), *b = TRY(LEAF(3, 4));
    AUTO ab = TRY(mul(a, b));
    AUTO y = TRY(scale(ab, 2));
    AUTO s = TRY(total(y));
    td_tensor *inputs[] = {b, ab};
    TRY(td_backward_inputs(1, &s, NULL, 2, inputs, false, false));
    CHECK_IS(td_grad(b), 2, 4);
    CHECK_IS(td_grad(ab), 2, 2);
    CHECK(!td_grad(a));
}

TD_TEST(the_second_derivative_of_a_cube)
{
    AUTO x = TRY(LEAF(2, 3));
    AUTO xx = TRY(mul(x, x));
    AUTO xxx = TRY(mul(xx, x));
    AUTO s = TRY(total(xxx));
    td_tensor *first;
    TRY(td_autograd_grad(1, &s, NULL, 1, &x, &first, true, true, false));
    AUTO g = first;
    CHECK_IS(g, 12, 27);
    CHECK(td_requires_grad(g));
    AUTO t = TRY(total(g));
    TRY(backward(t));
    CHECK_IS(td_grad(x), 12, 18);
}

TD_TEST(a_saved_result_gets_its_history_back)
{
    AUTO x = TRY(LEAF(1));
    AUTO y = TRY(exponential(x));
    td_tensor *first, *second, *third;
    TRY(td_autograd_grad(1, &y, NULL, 1, &x, &first, true, true, false));
    AUTO g = first;
    TRY(td_autograd_grad(1, &g, NULL, 1, &x, &second, true, true, false));
    AUTO h = second;
    TRY(td_autograd_grad(1, &h, NULL, 1, &x, &third, false, false, false));
    AUTO k = third;
    CHECK_IS(k, expf(1));
}

/* ---- leaves and flags */

TD_TEST(the_rules_of_requires_grad)
{
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 2));
    CHECK_FAILS(td_set_requires_grad(y, false), TD_E_RUNTIME, "you can only change requires_grad flags of leaf variables.");
    AUTO i = TRY(td_tensor_new(0, NULL, TD_I64, CPU));
    CHECK_FAILS(td_set_requires_grad(i, true), TD_E_RUNTIME, "only Tensors of floating point and complex dtype can require gradients");
    CHECK_FAILS(scale_(x, 2), TD_E_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    td_set_grad_enabled(false);
    int status = scale_(x, 2);
    td_set_grad_enabled(true);
    TRY(status);
    CHECK_IS(x, 2, 4);
    TRY(td_set_requires_grad(x, false));
    CHECK(!td_requires_grad(x));
    AUTO z = TRY(scale(y, 1));
    TRY(td_detach_history(z));
    CHECK(td_is_leaf(z) && !td_requires_grad(z));
}

TD_TEST(a_gradient_is_checked_when_it_is_set)
{
    AUTO x = TRY(LEAF(1, 2, 3)), *two = TRY(VECTOR(1, 2)), *three = TRY(VECTOR(1, 2, 3));
    AUTO wide = TRY(td_tensor_new(1, (int64_t[]){3}, TD_F64, CPU));
    CHECK_FAILS(td_set_grad(x, two), TD_E_RUNTIME, "attempting to assign a gradient of size '[2]' to a tensor of size '[3]'");
    CHECK_FAILS(td_set_grad(x, wide), TD_E_RUNTIME, "attempting to assign a gradient with dtype 'float64'");
    CHECK_FAILS(td_set_grad(x, x), TD_E_RUNTIME, "can't assign Variable as its own grad");
    TRY(td_set_grad(x, three));
    CHECK(td_grad(x) == three);
    AUTO s = TRY(total(x));
    TRY(backward(s));
    CHECK(td_grad(x) == three);
    CHECK_IS(three, 2, 3, 4);
}

TD_TEST(a_result_keeps_its_gradient_on_request)
{
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 2));
    TRY(td_retain_grad(y));
    AUTO z = TRY(mul(y, y));
    AUTO s = TRY(total(z));
    {
        AUTO gone = TRY(scale(x, 2));
        TRY(td_retain_grad(gone));
    }
    TRY(td_backward(1, &s, NULL, true, false));
    CHECK_IS(td_grad(y), 4, 8);
    TRY(backward(s));
    CHECK_IS(td_grad(y), 8, 16);
    CHECK_IS(td_grad(x), 16, 32);
}

/* ---- views */

TD_TEST(writing_to_a_view_changes_its_base_s_history)
{
    AUTO x = TRY(LEAF(1, 2, 3, 4));
    AUTO y = TRY(scale(x, 10));
    AUTO v = TRY(slice(y, 1, 2));
    AUTO w = TRY(VECTOR(5, 7));
    TRY(td_set_requires_grad(w, true));
    TRY(mul_(v, w));
    CHECK_STR(td_node_name(TRY(td_grad_fn(y))), "CopySlices");
    CHECK_STR(td_node_name(TRY(td_grad_fn(v))), "AsStridedBackward0");
    AUTO s = TRY(total(y));
    TRY(backward(s));
    CHECK_IS(td_grad(x), 10, 50, 70, 10);
}

TD_TEST(views_follow_a_base_that_is_written)
{
    AUTO x = TRY(LEAF(1, 2, 3, 4));
    AUTO y = TRY(scale(x, 10));
    AUTO v = TRY(slice(y, 1, 2));
    TRY(scale_(y, 3));
    AUTO a = TRY(slice(v, 1, 1));
    TRY(scale_(a, 2));
    AUTO s = TRY(total(v));
    TRY(backward(s));
    CHECK_IS(td_grad(x), 0, 30, 60, 0);
}

TD_TEST(a_buffer_gets_a_history_through_a_view)
{
    AUTO x = TRY(LEAF(3, 4));
    AUTO buffer = TRY(VECTOR(1, 1, 1, 1));
    AUTO left = TRY(slice(buffer, 0, 2)), *right = TRY(slice(buffer, 2, 2));
    CHECK(!td_requires_grad(right));
    TRY(mul_(left, x));
    CHECK(td_requires_grad(buffer) && td_requires_grad(right));
    AUTO p = TRY(mul(left, left));
    AUTO s = TRY(total(p));
    TRY(td_backward(1, &s, NULL, true, false));
    CHECK_IS(td_grad(x), 6, 8);
    AUTO t = TRY(total(right));
    TRY(backward(t));
    CHECK_IS(td_grad(x), 6, 8);
}

TD_TEST(views_of_leaves_and_views_under_no_grad_are_not_written)
{
    AUTO x = TRY(LEAF(1, 2, 3));
    AUTO v = TRY(slice(x, 0, 2));
    CHECK_FAILS(scale_(v, 2), TD_E_RUNTIME, "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    AUTO y = TRY(scale(x, 1));
    td_set_grad_enabled(false);
    AUTO u = slice(y, 0, 2);
    td_set_grad_enabled(true);
    CHECK(u);
    CHECK(td_requires_grad(u) && td_is_leaf(u));
    CHECK_FAILS(scale_(u, 2), TD_E_RUNTIME, "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
    TRY(scale_(y, 2));
    CHECK_FAILS(scale(u, 2), TD_E_RUNTIME, "A view was created in no_grad mode and its base or another view of its base has been modified");
    AUTO z = TRY(scale(x, 1));
    AUTO m = TRY(slice(z, 0, 2));
    m->flags |= TD_FLAG_MULTI_VIEW;
    CHECK_FAILS(scale_(m, 2), TD_E_RUNTIME, "Output 0 of Slice is a view and is being modified inplace. This view is the output of a "
                "function that returns multiple views.");
}

TD_TEST(an_operand_that_its_own_call_overwrites_leaks_nothing)
{
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 2));
    TRY(mul_(y, y));
    AUTO s = TRY(total(y));
    CHECK_FAILS(backward(s), TD_E_RUNTIME, "modified by an inplace operation");
}

/* ---- hooks */

static int times_ten(void *context, td_tensor *grad, td_tensor **replacement)
{
    *(int *)context += 1;
    *replacement = scale(grad, 10);
    return *replacement ? 0 : -1;
}

static int fails(void *context, td_tensor *grad, td_tensor **replacement)
{
    (void)context, (void)grad, (void)replacement;
    return td_error(TD_E_VALUE, "no");
}

static int grows(void *context, td_tensor *grad, td_tensor **replacement)
{
    (void)context, (void)grad;
    *replacement = VECTOR(1, 2, 3, 4, 5);
    return *replacement ? 0 : -1;
}

static void count_drop(void *context) { *(int *)context += 1000; }

TD_TEST(hooks_change_gradients_and_can_be_removed)
{
    int calls = 0, leaf_calls = 0;
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 2));
    TRY(td_retain_grad(y));
    td_hook *hook = TRY(td_tensor_add_hook(y, times_ten, &calls, count_drop));
    td_hook *leaf = td_tensor_add_hook(x, times_ten, &leaf_calls, count_drop);
    AUTO s = leaf ? total(y) : NULL;
    int status = s ? td_backward(1, &s, NULL, true, false) : -1;
    td_hook_remove(hook);
    td_hook_remove(hook);
    td_hook_release(hook);
    td_hook_release(leaf);
    TRY(status);
    CHECK_EQ(calls, 1001);
    CHECK_EQ(leaf_calls, 1);
    CHECK_IS(td_grad(y), 10, 10);
    CHECK_IS(td_grad(x), 200, 200);
    TRY(backward(s));
    CHECK_EQ(calls, 1001);
    CHECK_IS(td_grad(x), 220, 220);
    td_tensor_release(x);
    x = NULL;
    td_tensor_release(y);
    y = NULL;
    td_tensor_release(s);
    s = NULL;
    CHECK_EQ(leaf_calls, 1002);
}

TD_TEST(a_hook_that_fails_ends_the_pass)
{
    AUTO x = TRY(LEAF(1, 2)), *plain = TRY(VECTOR(1));
    AUTO y = TRY(scale(x, 2));
    AUTO s = TRY(total(y));
    td_hook *hook = TRY(td_tensor_add_hook(y, fails, NULL, NULL));
    td_hook_release(hook);
    CHECK_FAILS(td_backward(1, &s, NULL, true, false), TD_E_VALUE, "no");
    CHECK(!td_grad(x));
    td_hook_remove(hook);        /* the list still holds it */
    hook = TRY(td_tensor_add_hook(y, grows, NULL, NULL));
    td_hook_release(hook);
    CHECK_FAILS(td_backward(1, &s, NULL, true, false), TD_E_RUNTIME, "hook has changed the size of value");
    td_hook_remove(hook);
    TRY(backward(s));
    CHECK_IS(td_grad(x), 2, 2);
    CHECK_FAILS(td_tensor_add_hook(plain, fails, NULL, NULL), TD_E_RUNTIME,
                "cannot register a hook on a tensor that doesn't require gradient");
    CHECK_FAILS(td_leaf_add_hook(y, NULL, NULL, NULL), TD_E_RUNTIME,
                "post accumulate grad hooks cannot be registered on non-leaf tensors");
}

static int pre_double(void *context, int n, td_tensor *const *grads, td_tensor **replacements)
{
    (void)context;
    for (int i = 0; i < n; i++)
        if (grads[i] != TD_NONE && !(replacements[i] = scale(grads[i], 2)))
            return -1;
    return 0;
}

static int post_note(void *context, int n_results, td_tensor *const *results, int n_grads, td_tensor *const *grads, td_tensor **replacements)
{
    float *seen = context;
    if (n_results == 1 && n_grads == 1) {
        seen[0] = *at(results[0], 0);
        seen[1] = *at(grads[0], 0);
        replacements[0] = scale(results[0], -1);
    }
    return replacements[0] ? 0 : -1;
}

static int leaf_note(void *context, td_tensor *leaf)
{
    *(float *)context = *at(td_grad(leaf), 0);
    return td_set_grad(leaf, NULL);
}

TD_TEST(hooks_of_nodes_and_of_finished_leaves)
{
    float seen[3] = {0};
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 3));
    AUTO s = TRY(total(y));
    td_hook *hooks[3] = {td_node_add_pre_hook(td_grad_fn(y), pre_double, NULL, NULL),
                         td_node_add_post_hook(td_grad_fn(y), post_note, seen, NULL), td_leaf_add_hook(x, leaf_note, seen + 2, NULL)};
    bool all = hooks[0] && hooks[1] && hooks[2];
    for (int i = 0; i < 3; i++)
        td_hook_release(hooks[i]);
    CHECK(all);
    TRY(backward(s));
    CHECK_NEAR(seen[0], 6, 0);
    CHECK_NEAR(seen[1], 2, 0);
    CHECK_NEAR(seen[2], -6, 0);
    CHECK(!td_grad(x));
}

/* ---- saved-tensor hooks */

static int live_handles;
static int pack_copy(void *context, td_tensor *x, void **handle)
{
    *(int *)context += 1;
    *handle = td_need_copy_of(x, NULL);
    live_handles += *handle != NULL;
    return *handle ? 0 : -1;
}
static td_tensor *unpack_copy(void *context, void *handle)
{
    *(int *)context += 100;
    return td_tensor_retain(handle);
}
static void drop_handle(void *handle)
{
    live_handles--;
    td_tensor_release(handle);
}

TD_TEST(saved_tensors_can_be_packed)
{
    static const td_saved_hooks hooks = {pack_copy, unpack_copy, drop_handle, NULL};
    int count = 0;
    AUTO x = TRY(LEAF(1, 2));
    TRY(td_saved_hooks_push(&hooks, &count));
    AUTO xx = mul(x, x);
    AUTO y = exponential(xx);
    td_saved_hooks_pop();
    AUTO s = TRY(total(y));
    CHECK_EQ(count, 3);
    CHECK_EQ(live_handles, 3);
    td_tensor *first;
    TRY(td_autograd_grad(1, &s, NULL, 1, &x, &first, true, true, false));
    AUTO g = first;
    CHECK_IS(g, 2 * expf(1), 4 * expf(4));
    AUTO t = TRY(total(g));
    TRY(backward(t));
    CHECK_IS(td_grad(x), (2 + 4) * expf(1), (2 + 16) * expf(4));
    CHECK_EQ(count, 603);
    CHECK_EQ(live_handles, 0);
    TRY(td_saved_hooks_disable("not here"));
    bool failed = td_saved_hooks_push(&hooks, &count) != 0;
    bool said = strcmp(td_error_message(), "not here") == 0 || td_error_code() == TD_E_MEMORY;
    TRY(td_saved_hooks_disable(NULL));
    CHECK(failed && said);
}

/* ---- custom nodes */

static int custom_square(void *context, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    *(int *)context += n_grads + 10 * n_results;
    AUTO x = td_node_saved(node, 0);
    AUTO twice = x ? scale(x, 2) : NULL;
    results[0] = twice ? mul(grads[0], twice) : NULL;
    return results[0] ? 0 : -1;
}
static void custom_drop(void *context) { *(int *)context += 1000; }
static const td_custom square_custom = {custom_square, NULL, custom_drop};

/* x * x by a custom node, and x itself as a second result. */
static int custom_forward(td_tensor *x, int *context, uint8_t mark, td_tensor **outputs)
{
    td_node *node = td_node_custom(&square_custom, context, "SquareBackward", 1, &x);
    if (!node)
        return -1;
    td_set_grad_enabled(false);
    outputs[0] = mul(x, x);
    td_set_grad_enabled(true);
    outputs[1] = td_tensor_retain(x);
    int status = outputs[0] ? td_custom_outputs(node, 2, outputs, (uint8_t[]){mark, 0}, 1, &x) : -1;
    if (status == 0)
        status = td_custom_save(node, 1, &x, 2, outputs);
    td_node_release(node);
    if (status != 0)
        for (int i = 0; i < 2; i++) {
            td_tensor_release(outputs[i]);
            outputs[i] = NULL;
        }
    return status;
}

TD_TEST(a_custom_node_computes_gradients)
{
    int context = 0;
    td_tensor *outputs[2] = {NULL};
    {
        AUTO x = TRY(LEAF(3, 4));
        AUTO y = TRY(scale(x, 1));
        TRY(custom_forward(y, &context, 0, outputs));
        AUTO square = outputs[0], *same = outputs[1];
        CHECK(same != y && same->storage == y->storage && td_grad_fn(same) == td_grad_fn(square));
        CHECK_STR(td_node_name(TRY(td_grad_fn(square))), "SquareBackward");
        CHECK_FAILS(scale_(same, 2), TD_E_RUNTIME, "Output 1 of Square is a view and is being modified inplace. This view is the "
                    "output of a function that returns multiple views.");
        AUTO s = TRY(total(square));
        TRY(backward(s));
        CHECK_IS(td_grad(x), 6, 8);
        CHECK_EQ(context, 12);
        CHECK_FAILS(backward(s), TD_E_RUNTIME, "a second time");
    }
    CHECK_EQ(context, 1024);
}

TD_TEST(a_custom_output_without_gradient)
{
    int context = 0;
    td_tensor *outputs[2] = {NULL};
    AUTO x = TRY(LEAF(3, 4));
    TRY(custom_forward(x, &context, TD_OUTPUT_NOT_DIFFERENTIABLE, outputs));
    AUTO square = outputs[0], *same = outputs[1];
    CHECK(!td_requires_grad(square) && td_requires_grad(same));
}

/* ---- the engine */

TD_TEST(a_chain_of_a_million_nodes)
{
    enum { N = 1000000 };
    if (td_test_failing)
        return;
    AUTO x = TRY(LEAF(1));
    td_tensor *y = td_tensor_retain(x);
    for (int i = 0; i < N && y; i++) {
        td_tensor *next = i % 2 ? scale(y, 1) : add(y, y);
        if (i % 2 == 0 && next)
            scale_(next, 0.5);
        td_tensor_release(y);
        y = next;
    }
    TRY(y);
    int status = backward(y);
    td_tensor_release(y);
    TRY(status);
    CHECK_IS(td_grad(x), 1);
}

static td_tensor *nested_leaf;
static int nested_levels;
static int nested_apply(td_node *node, td_tensor *const *grads, td_tensor **results);
static const td_node_type nested_type = {.name = "NestedBackward", .apply = nested_apply};

static td_tensor *nested(td_tensor *x)
{
    td_node *node = td_node_new(&nested_type, 1, 1, 0, 0);
    td_tensor *y = node ? td_need_copy_of(x, NULL) : NULL;
    if (node && td_node_connect(node, 0, x) != 0) {
        td_node_release(node);
        node = NULL;
    }
    return recorded(node, y);
}

static int nested_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    (void)node;
    results[0] = td_tensor_retain(grads[0]);
    if (nested_levels-- == 0)
        return 0;
    bool before = td_set_grad_enabled(true);
    AUTO y = nested(nested_leaf);
    td_set_grad_enabled(before);
    return y ? backward(y) : -1;
}

TD_TEST(passes_within_passes)
{
    nested_leaf = TRY(LEAF(1));
    nested_levels = td_test_failing ? 3 : 500;
    int levels = nested_levels + 1;
    AUTO y = nested(nested_leaf);
    int status = y ? backward(y) : -1;
    AUTO leaf = nested_leaf;
    TRY(status);
    CHECK_IS(td_grad(leaf), (float)levels);
}

enum { THREADS = 4, ROUNDS = 500 };
static void *many_passes(void *leaf)
{
    for (int i = 0; i < ROUNDS; i++) {
        AUTO y = scale(leaf, 2);
        AUTO z = mul(y, leaf);
        AUTO s = total(z);
        if (!s || backward(s) != 0)
            return leaf;
    }
    return NULL;
}

TD_TEST(threads_share_a_leaf)
{
    if (td_test_failing)
        return;
    AUTO x = TRY(LEAF(1, 2));
    pthread_t threads[THREADS];
    void *failed[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, many_passes, x);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &failed[i]);
    for (int i = 0; i < THREADS; i++)
        CHECK(!failed[i]);
    CHECK_IS(td_grad(x), 4.0f * THREADS * ROUNDS, 8.0f * THREADS * ROUNDS);
}

static void *one_graph(void *root)
{
    for (int i = 0; i < ROUNDS; i++)
        if (td_backward(1, (td_tensor *const *)&root, NULL, true, false) != 0)
            return root;
    return NULL;
}

TD_TEST(threads_share_a_graph_that_is_kept)
{
    if (td_test_failing)
        return;
    AUTO x = TRY(LEAF(1, 2));
    AUTO y = TRY(scale(x, 2));
    AUTO z = TRY(mul(y, x));
    AUTO s = TRY(total(z));
    pthread_t threads[THREADS];
    void *failed[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, one_graph, s);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &failed[i]);
    for (int i = 0; i < THREADS; i++)
        CHECK(!failed[i]);
    CHECK_IS(td_grad(x), 4.0f * THREADS * ROUNDS, 8.0f * THREADS * ROUNDS);
}

static int at_end(void *context)
{
    *(int *)context += td_backward_running() ? 1 : 100;
    return 0;
}
static int queue(void *context, td_tensor *grad, td_tensor **replacement)
{
    (void)grad, (void)replacement;
    if (!td_backward_node() || td_backward_will_run(td_backward_node()) != 1)
        return td_error(TD_E_RUNTIME, "which node?");
    return td_backward_at_end(at_end, context, NULL);
}

TD_TEST(callbacks_run_at_the_end_of_the_pass)
{
    int ended = 0;
    AUTO x = TRY(LEAF(1));
    AUTO y = TRY(scale(x, 2));
    td_hook *hook = TRY(td_tensor_add_hook(y, queue, &ended, NULL));
    td_hook_release(hook);
    CHECK_FAILS(td_backward_at_end(at_end, &ended, NULL), TD_E_RUNTIME, "only be installed during backward pass");
    TRY(backward(y));
    CHECK_EQ(ended, 1);
    CHECK_EQ(td_backward_id(), -1);
}

/* ---- anomaly mode */

static char reported[200];
static void *record(td_node *node) { return (void *)(uintptr_t)td_node_name(node); }
static void report(td_node *node, void *made, bool is_parent)
{
    snprintf(reported + strlen(reported), sizeof reported - strlen(reported), "%s%s(%s) ", is_parent ? "in " : "", td_node_name(node), (char *)made);
}

TD_TEST(anomaly_mode_finds_the_node_that_made_nans)
{
    static const td_anomaly_hooks hooks = {.record = record, .report = report};
    reported[0] = 0;
    td_set_anomaly(true, true, &hooks);
    AUTO x = LEAF(1, 2);
    AUTO y = x ? scale(x, NAN) : NULL;
    AUTO s = total(y);
    int status = s ? backward(s) : -1;
    td_set_anomaly(false, false, NULL);
    if (td_test_excused())
        return;
    CHECK_EQ(status, -1);
    CHECK_STR(td_error_message(), "Function 'ScaleBackward0' returned nan values in its 0th output.");
    CHECK_STR(reported, "ScaleBackward0(ScaleBackward0) ");
    td_error_clear();
}
