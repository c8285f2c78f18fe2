/* What the tests of tensors share: a small random stream and tensors filled from it. */
#ifndef TD_TESTS_TENSOR_HELPERS_H
#define TD_TESTS_TENSOR_HELPERS_H
#include <tede/auto.h>
#include <tede/kernel.h>

#define CPU ((td_device){TD_CPU, -1})
#ifndef TD_COUNT
#define TD_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#endif

/* 0 <= draw(n) < n, the same stream in each run (Marsaglia's xorshift). */
__attribute__((unused)) static int draw(int n)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int)((state >> 20) % (uint64_t)n);
}

/* Small whole numbers, which every dtype holds; x is contiguous. */
__attribute__((unused)) static void fill_random(td_tensor *x)
{
    td_dtype dtype = td_tensor_dtype(x);
    size_t size = td_dtype_size(dtype);
    for (int64_t i = 0; i < td_tensor_numel(x); i++) {
        float value = (float)draw(dtype == TD_BOOL ? 2 : 60);
        td_convert(dtype, (char *)td_tensor_data(x) + (size_t)i * size, (int64_t)size, TD_F32, &value, 4, 1);
    }
}

#endif
