/* Packed weights: products of all formats beside those of what they unpack to, at this machine's level. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <math.h>
#include <tede/ops.h>
#include <tede/packed.h>

#define INTS(...) TD_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}

/* Whole numbers that int8 holds, so that nothing is lost on the way: the first of each 32 has the largest size. */
static td_tensor *whole_numbers(int64_t m, int64_t k)
{
    td_tensor *x = td_zeros(INTS(m, k), TD_F32, CPU);
    uint32_t state = 1;
    for (int64_t i = 0; x && i < m * k; i++) {
        state = state * 1664525u + 1013904223u;
        ((float *)td_tensor_data(x))[i] = i % 32 ? (float)(state >> 24) - 128 + (state >> 24 == 0) : 127;
    }
    return x;
}

static float distance(td_tensor *x, td_tensor *y)
{
    const float *a = td_tensor_data(x), *b = td_tensor_data(y);
    float most = 0;
    for (int64_t i = 0; i < td_tensor_numel(x); i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

/* Many rows may meet weights that are rounded to bfloat16. */
TD_TEST(products_are_those_of_unpacked_weights)
{
    for (int format = 0; format < TD_PACKED_FORMATS; format++) {
        const char *name = td_packed_describe(format)->name;
        TD_AUTO td_tensor *numbers = TRY(whole_numbers(7, 768)), *w = TRY(td_to_packed(numbers, name));
        TD_AUTO td_tensor *dense = TRY(td_to_dense(w, TD_DTYPE_NONE, NULL));
        TD_AUTO td_tensor *half = TRY(td_to_dtype(dense, TD_BF16, false, false, TD_MEMORY_FORMAT_NONE));
        TD_AUTO td_tensor *rounded = TRY(td_to_dtype(half, TD_F32, false, false, TD_MEMORY_FORMAT_NONE));
        for (int64_t m = 1; m < 20; m += m < 5 ? 1 : 13) {
            TD_AUTO td_tensor *x = TRY(whole_numbers(m, 768)), *y = TRY(td_linear(x, w, TD_NONE));
            TD_AUTO td_tensor *right = TRY(td_linear(x, dense, TD_NONE));
            TD_AUTO td_tensor *of_rounded = TRY(td_linear(x, rounded, TD_NONE));
            CHECK(distance(y, right) <= 1e-5f * 127 * 127 * 768 || (m > 15 && distance(y, of_rounded) <= 1e-5f * 127 * 127 * 768));
        }
    }
}
