/* Quantized tensors through the public API: made, read, computed with, viewed, copied; each also with allocations that fail. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/ops.h>
#include <tede/print.h>

#define AUTO TD_AUTO td_tensor *

static td_tensor *numbers(void)
{
    AUTO whole = td_arange(td_int(6), TD_F32, CPU);
    return whole ? td_reshape(whole, 2, (int64_t[]){2, 3}) : NULL;
}
static td_tensor *sample(bool per_channel)
{
    AUTO x = numbers();
    if (!per_channel)
        return x ? td_quantize_per_tensor(x, .5, 3, TD_QU8) : NULL;
    AUTO scales = td_ones(1, (int64_t[]){2}, TD_F64, CPU);
    AUTO zero_points = td_zeros(1, (int64_t[]){2}, TD_I64, CPU);
    return x && scales && zero_points ? td_quantize_per_channel(x, scales, zero_points, 0, TD_QI8) : NULL;
}
static bool holds(td_tensor *x, int n, const float *expected)
{
    AUTO dense = x ? td_dequantize_self(x) : NULL;
    AUTO line = dense ? td_contiguous(dense) : NULL;
    return line && td_tensor_numel(line) == n && !memcmp(td_tensor_data(line), expected, sizeof(float) * (size_t)n);
}

TD_TEST(integers_stand_for_numbers)
{
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        AUTO q = sample(per_channel);
        CHECK(holds(q, 6, (float[]){0, 1, 2, 3, 4, 5}));
        AUTO integers = q ? td_int_repr(q) : NULL;
        CHECK(integers && ((uint8_t *)td_tensor_data(integers))[1] == (per_channel ? 1 : 5));
        char *text = q ? td_tensor_str(q) : NULL;
        CHECK(text != NULL);
        td_string_free(text);
    }
}

TD_TEST(elements_of_four_bits_share_bytes)
{
    AUTO x = numbers();
    AUTO scales = td_ones(1, (int64_t[]){2}, TD_F32, CPU);
    AUTO zero_points = td_zeros(1, (int64_t[]){2}, TD_F32, CPU);
    AUTO q = x && scales && zero_points ? td_quantize_per_channel(x, scales, zero_points, 0, TD_QU4X2) : NULL;
    CHECK(holds(q, 6, (float[]){0, 1, 2, 3, 4, 5}));
    AUTO bytes = q ? td_int_repr(q) : NULL;
    CHECK(bytes && td_tensor_numel(bytes) == 3 && !memcmp(td_tensor_data(bytes), (uint8_t[]){0x10, 0x32, 0x54}, 3));
    AUTO copy = q ? td_clone(q) : NULL;
    bool same = false;
    CHECK(copy && td_equal(&same, q, copy) == 0 && same);
    CHECK(!q || td_select_int(q, 0, 1) == NULL);
    CHECK(td_error_code() != TD_OK);
    td_error_clear();
}

TD_TEST(views_and_copies_share_a_quantizer)
{
    AUTO q = sample(false);
    AUTO t = q ? td_t(q) : NULL;
    CHECK(holds(t, 6, (float[]){0, 3, 1, 4, 2, 5}));
    AUTO row = q ? td_select_int(q, 0, 1) : NULL;
    AUTO copy = row ? td_clone(row) : NULL;
    CHECK(holds(copy, 3, (float[]){3, 4, 5}));
    AUTO channel = sample(true);
    AUTO part = channel ? td_narrow(channel, 1, 1, 2) : NULL;
    CHECK(holds(part, 4, (float[]){1, 2, 4, 5}));
}

TD_TEST(seen_in_another_dtype_they_are_bytes)
{
    AUTO q = sample(false);
    AUTO bytes = q ? td_view_dtype(q, TD_U8) : NULL;
    CHECK(bytes && td_tensor_dtype(bytes) == TD_U8 && ((uint8_t *)td_tensor_data(bytes))[5] == 13);
    char *text = bytes ? td_tensor_str(bytes) : NULL;
    CHECK(text != NULL);
    td_string_free(text);
}

TD_TEST(order_is_that_of_the_integers)
{
    AUTO q = sample(false);
    td_tensor *pair[2];
    CHECK(q && td_sort_dim(pair, q, 1, true) == 0);
    AUTO sorted = pair[0];
    AUTO places = pair[1];
    CHECK(holds(sorted, 6, (float[]){2, 1, 0, 5, 4, 3}) && td_tensor_dtype(places) == TD_I64);
    AUTO channel = sample(true);
    CHECK(!channel || td_sort_dim(pair, channel, 1, true) == -1);
    CHECK(td_error_code() != TD_OK);
    td_error_clear();
}

TD_TEST(functions_are_computed_and_quantized_again)
{
    AUTO q = sample(false);
    AUTO high = q ? td_relu(q) : NULL;
    CHECK(holds(high, 6, (float[]){0, 1, 2, 3, 4, 5}));
    AUTO chance = q ? td_sigmoid(q) : NULL;
    CHECK(chance && td_tensor_dtype(chance) == TD_QU8);
    AUTO joined = q ? td_cat(2, (td_tensor *[]){q, q}, 0) : NULL;
    CHECK(joined && td_tensor_numel(joined) == 12);
}

TD_TEST(integers_are_not_read_as_numbers)
{
    AUTO q = sample(false);
    AUTO plain = numbers();
    CHECK(!q || !plain || td_copy_from_(plain, q, false) == -1);
    td_error_clear();
    CHECK(!q || !td_to_dtype(q, TD_F32, false, false, TD_MEMORY_FORMAT_NONE));
    td_error_clear();
}

/* The third matrix is the transpose of one that lies column by column, so both ways of packing are met. */
TD_TEST(products_of_bytes_are_exact)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        AUTO a = td_full(2, (int64_t[]){5, 70}, td_int(-3), TD_I8, CPU);
        AUTO b = transposed ? td_full(2, (int64_t[]){66, 70}, td_int(7), TD_I8, CPU) : td_full(2, (int64_t[]){70, 66}, td_int(7), TD_I8, CPU);
        AUTO w = transposed && b ? td_t(b) : td_tensor_retain(b);
        AUTO product = a && w ? td__int_mm(a, w) : NULL;
        const int32_t *y = product ? td_tensor_data(product) : NULL;
        CHECK(y && td_tensor_numel(product) == 5 * 66);
        bool right = y != NULL;
        for (int i = 0; y && i < 5 * 66; i++)
            right &= y[i] == 70 * -21;
        CHECK(right);
    }
}

TD_TEST(images_are_pooled_as_bytes)
{
    AUTO line = td_arange(td_int(32), TD_F32, CPU);
    AUTO x = line ? td_reshape(line, 4, (int64_t[]){1, 2, 4, 4}) : NULL;
    AUTO q = x ? td_quantize_per_tensor(x, 1, 3, TD_QI8) : NULL;
    const int64_t two = 2, one = 1, zero = 0;
    AUTO largest = q ? td_max_pool2d(q, 1, &two, 0, NULL, 1, &zero, 1, &one, false) : NULL;
    CHECK(holds(largest, 8, (float[]){5, 7, 13, 15, 21, 23, 29, 31}));
    AUTO mean = q ? td_adaptive_avg_pool2d(q, 2, (int64_t[]){1, 1}) : NULL;
    CHECK(holds(mean, 2, (float[]){7, 23}));                /* 7.5 and 23.5 with the zero point, to even */
    AUTO means = q ? td_avg_pool2d(q, 1, &two, 0, NULL, 1, &zero, false, true, NULL) : NULL;
    CHECK(holds(means, 8, (float[]){3, 5, 11, 13, 19, 21, 27, 29}));        /* 2.5 and 3, to even: 5.5 is 6 */
}
