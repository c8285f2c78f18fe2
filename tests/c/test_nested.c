/* Nested tensors through the public API: both layouts, their parts, what is computed on them, gradients; each also with allocations that
 * fail. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/autograd.h>
#include <tede/ops.h>
#include <tede/print.h>

#define AUTO TD_AUTO td_tensor *

static td_tensor *filled(int64_t rows, int64_t columns)
{
    td_tensor *x = td_empty(2, (int64_t[]){rows, columns}, TD_F32);
    for (int64_t i = 0; x && i < rows * columns; i++)
        ((float *)td_tensor_data(x))[i] = (float)(i + 1);
    return x;
}
static td_tensor *sample(bool jagged)
{
    AUTO a = filled(2, 3);
    AUTO b = filled(1, 3);
    td_tensor *list[] = {a, b};
    return !a || !b ? NULL : jagged ? td__jagged_of_list(2, list) : td__nested_tensor_from_tensor_list(2, list, TD_DTYPE_NONE, TD_DEVICE_NONE);
}
/* Whether the components, filled up with zeros, are these 12 numbers. */
static bool holds(td_tensor *x, const float *numbers)
{
    AUTO padded = x ? td_to_padded_tensor(x, 0, -1, NULL) : NULL;
    AUTO line = padded ? td_contiguous(padded) : NULL;
    return line && td_tensor_numel(line) == 12 && !memcmp(td_tensor_data(line), numbers, 12 * sizeof(float));
}

TD_TEST(components_are_padded)
{
    for (int jagged = 0; jagged < 2; jagged++) {
        AUTO x = sample(jagged);
        CHECK(holds(x, (float[]){1, 2, 3, 4, 5, 6, 1, 2, 3, 0, 0, 0}));
        char *text = x ? td_tensor_str(x) : NULL;
        CHECK(text != NULL);
        td_string_free(text);
    }
}

TD_TEST(elementwise_operators_run_on_the_values)
{
    for (int jagged = 0; jagged < 2; jagged++) {
        AUTO x = sample(jagged);
        AUTO negative = x ? td_neg(x) : NULL;
        AUTO product = negative ? td_mul(x, negative) : NULL;
        CHECK(holds(product, (float[]){-1, -4, -9, -16, -25, -36, -1, -4, -9, 0, 0, 0}));
        CHECK(product && td_neg_(product) == 0 && holds(product, (float[]){1, 4, 9, 16, 25, 36, 1, 4, 9, 0, 0, 0}));
    }
}

TD_TEST(in_place_operators_take_lists)
{
    AUTO x = sample(true);
    AUTO y = x ? td_clone(x) : NULL;
    CHECK(y && td__foreach_neg_(2, (td_tensor *[]){x, y}) == 0);
    CHECK(holds(x, (float[]){-1, -2, -3, -4, -5, -6, -1, -2, -3, 0, 0, 0}));
}

TD_TEST(matrices_multiply_what_lies_behind)
{
    AUTO x = sample(true);
    AUTO w = filled(3, 3);
    AUTO product = x && w ? td_matmul(x, w) : NULL;
    CHECK(holds(product, (float[]){30, 36, 42, 66, 81, 96, 30, 36, 42, 0, 0, 0}));
}

TD_TEST(gradients_are_nested)
{
    for (int jagged = 0; jagged < 2; jagged++) {
        AUTO x = sample(jagged);
        CHECK(x && td_set_requires_grad(x, true) == 0);
        AUTO square = x ? td_mul(x, x) : NULL;
        AUTO padded = square ? td_to_padded_tensor(square, 0, -1, NULL) : NULL;
        AUTO total = padded ? td_sum_all(padded, TD_DTYPE_NONE) : NULL;
        CHECK(total && td_backward(1, &total, NULL, false, false) == 0);
        CHECK(x && holds(td_grad(x), (float[]){2, 4, 6, 8, 10, 12, 2, 4, 6, 0, 0, 0}));
    }
}

TD_TEST(what_is_wrong_is_refused)
{
    AUTO values = filled(3, 3);
    AUTO other = filled(2, 2);
    CHECK(!values || !other || !td__nested_of_jagged(values, other, TD_NONE, 1, NULL, NULL));
    td_error_clear();
    AUTO x = sample(true);
    CHECK(!x || !td_add(x, other));
    td_error_clear();
    CHECK(!x || !td_t(x));
    td_error_clear();
}
