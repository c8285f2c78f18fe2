/* The iterator, copies and conversions against loops that do one element after another. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/kernel.h>

/* ---- random operands */

/* A view that broadcasts to `sizes`: some dimensions are steps, reversed, transposed, expanded, missing in front. */
static td_tensor *random_operand(int ndim, const int64_t *sizes, td_dtype dtype, bool output)
{
    int lead = output ? 0 : draw(4) == 0 ? draw(ndim + 1) : 0;
    int64_t own[TD_MAX_DIMS], strides[TD_MAX_DIMS], padded = 1;
    int order[TD_MAX_DIMS], n = ndim - lead;
    for (int d = 0; d < n; d++) {
        own[d] = !output && draw(5) == 0 ? 1 : sizes[d + lead];
        order[d] = d;
    }
    for (int d = n - 1; d > 0; d--) {
        int other = draw(3) == 0 ? draw(d + 1) : d, t = order[d];
        order[d] = order[other], order[other] = t;
    }
    int64_t low = 0;
    for (int d = n - 1; d >= 0; d--) {
        int at = order[d];
        int64_t step = draw(4) == 0 ? 1 + draw(3) : 1;
        strides[at] = padded * step;
        padded *= (own[at] > 0 ? own[at] : 1) * step + (draw(4) == 0 ? draw(3) : 0);
        if (!output && own[at] > 1 && draw(8) == 0)
            strides[at] = 0;
        if (draw(5) == 0 && own[at] > 0) {
            strides[at] = -strides[at];
            low += (own[at] - 1) * strides[at];
        }
    }
    TD_AUTO td_tensor *whole = td_tensor_new(1, &padded, dtype, CPU);
    if (!whole)
        return NULL;
    fill_random(whole);
    return td_tensor_over(td_tensor_storage(whole), -low, n, own, strides, dtype);
}

/* The address of the element of `x` at an index of a shape that x broadcasts to. */
static char *address(td_tensor *x, int ndim, const int64_t *index)
{
    int64_t at = 0;
    int lead = ndim - td_tensor_ndim(x);
    for (int d = 0; d < td_tensor_ndim(x); d++)
        at += td_tensor_sizes(x)[d] == 1 ? 0 : index[d + lead] * td_tensor_strides(x)[d];
    return (char *)td_tensor_data(x) + at * (int64_t)td_dtype_size(td_tensor_dtype(x));
}

static bool next(int ndim, const int64_t *sizes, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < sizes[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static int random_shape(int64_t *sizes)
{
    static const int small[] = {1, 2, 3, 5, 8, 17};
    int ndim = draw(6);
    for (int d = 0; d < ndim; d++)
        sizes[d] = small[draw(TD_COUNT(small))];
    if (ndim > 0 && draw(3) == 0)
        sizes[draw(ndim)] = 100 + draw(3000) / ndim;
    if (ndim > 0 && draw(20) == 0)
        sizes[draw(ndim)] = 0;
    int64_t numel = 1;
    for (int d = 0; d < ndim; d++)
        numel *= sizes[d];
    if (numel > 200000)
        sizes[0] = sizes[ndim - 1] = 2;
    return ndim;
}

static void muladd(int64_t n, char *const *ptrs, const void *params)
{
    float *out = (float *)ptrs[0];
    const float *a = (const float *)ptrs[1], *b = (const float *)ptrs[2];
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i] * *(const float *)params + b[i];
}

static const td_dtype stored_types[] = {TD_F32, TD_F32, TD_F32, TD_F64, TD_I16, TD_BF16, TD_U8};

static td_dtype random_type(void) { return stored_types[draw(TD_COUNT(stored_types))]; }

TD_TEST(a_loop_over_any_operands_gives_what_one_element_after_another_gives)
{
    static const td_dtype compute[] = {TD_F32, TD_F32, TD_F32};
    float factor = 3;
    for (int round = 0; round < (td_test_failing ? 4 : 1500); round++) {
        int64_t sizes[TD_MAX_DIMS], index[TD_MAX_DIMS] = {0};
        int ndim = random_shape(sizes);
        TD_AUTO td_tensor *out = TRY(random_operand(ndim, sizes, random_type(), true));
        TD_AUTO td_tensor *a = TRY(random_operand(ndim, sizes, random_type(), false));
        TD_AUTO td_tensor *b = TRY(random_operand(ndim, sizes, random_type(), false));
        CHECK_EQ(td_iterate(1, 2, (td_tensor *[]){out, a, b}, compute, muladd, &factor, 1), 0);
        if (td_tensor_numel(out) == 0)
            continue;
        do {
            float x, y, wanted;
            char expected[16];
            td_convert(TD_F32, &x, 4, td_tensor_dtype(a), address(a, ndim, index), 0, 1);
            td_convert(TD_F32, &y, 4, td_tensor_dtype(b), address(b, ndim, index), 0, 1);
            wanted = x * factor + y;
            td_convert(td_tensor_dtype(out), expected, 16, TD_F32, &wanted, 0, 1);
            CHECK(memcmp(address(out, ndim, index), expected, td_dtype_size(td_tensor_dtype(out))) == 0);
        } while (next(ndim, sizes, index));
    }
}

TD_TEST(a_loop_that_writes_its_input_reads_it_first)
{
    static const td_dtype compute[] = {TD_F32, TD_F32, TD_F32};
    float factor = 2;
    for (int round = 0; round < (td_test_failing ? 4 : 300); round++) {
        int64_t sizes[TD_MAX_DIMS], index[TD_MAX_DIMS] = {0};
        int ndim = random_shape(sizes);
        TD_AUTO td_tensor *x = TRY(random_operand(ndim, sizes, random_type(), true));
        TD_AUTO td_tensor *b = TRY(random_operand(ndim, sizes, random_type(), false));
        TD_AUTO td_tensor *out = TRY(td_tensor_new(ndim, sizes, td_tensor_dtype(x), CPU));
        CHECK_EQ(td_iterate(1, 2, (td_tensor *[]){out, x, b}, compute, muladd, &factor, 1), 0);
        CHECK_EQ(td_iterate(1, 2, (td_tensor *[]){x, x, b}, compute, muladd, &factor, 1), 0);
        if (td_tensor_numel(out) == 0)
            continue;
        do {
            CHECK(memcmp(address(x, ndim, index), address(out, ndim, index), td_dtype_size(td_tensor_dtype(x))) == 0);
        } while (next(ndim, sizes, index));
    }
}

static void two_results(int64_t n, char *const *ptrs, const void *params)
{
    (void)params;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = ((int64_t *)ptrs[2])[i];
        ((double *)ptrs[0])[i] = (double)x / 2;
        ((uint8_t *)ptrs[1])[i] = x > 0;
    }
}

TD_TEST(outputs_may_have_dtypes_of_their_own)
{
    static const td_dtype compute[] = {TD_F64, TD_BOOL, TD_I64};
    TD_AUTO td_tensor *half = TRY(td_tensor_new(2, (int64_t[]){70, 50}, TD_F32, CPU));
    TD_AUTO td_tensor *positive = TRY(td_tensor_new_strided(2, (int64_t[]){70, 50}, (int64_t[]){1, 70}, TD_BOOL, CPU));
    TD_AUTO td_tensor *x = TRY(td_tensor_new(2, (int64_t[]){70, 50}, TD_I32, CPU));
    for (int i = 0; i < 3500; i++)
        ((int32_t *)td_tensor_data(x))[i] = i - 1700;
    CHECK_EQ(td_iterate(2, 1, (td_tensor *[]){half, positive, x}, compute, two_results, NULL, 1), 0);
    for (int i = 0; i < 70; i++) {
        for (int j = 0; j < 50; j++) {
            CHECK_NEAR(((float *)td_tensor_data(half))[i * 50 + j], (i * 50 + j - 1700) / 2.0, 0);
            CHECK_EQ(((uint8_t *)td_tensor_data(positive))[j * 70 + i], i * 50 + j > 1700);
        }
    }
}

TD_TEST(large_work_is_shared_without_changing_results)
{
    static const td_dtype compute[] = {TD_F32, TD_F32, TD_F32};
    float factor = 0.37f;
    int64_t sizes[] = {700, 900};
    int threads = td_num_threads();
    for (int round = 0; round < (td_test_failing ? 1 : 8); round++) {
        TD_AUTO td_tensor *a = TRY(random_operand(2, sizes, TD_F32, false));
        TD_AUTO td_tensor *b = TRY(random_operand(2, sizes, TD_BF16, false));
        TD_AUTO td_tensor *one = TRY(td_tensor_new(2, sizes, TD_F32, CPU));
        TD_AUTO td_tensor *many = TRY(td_tensor_new(2, sizes, TD_F32, CPU));
        CHECK_EQ(td_set_num_threads(1), 0);
        CHECK_EQ(td_iterate(1, 2, (td_tensor *[]){one, a, b}, compute, muladd, &factor, 1), 0);
        CHECK_EQ(td_set_num_threads(4), 0);
        CHECK_EQ(td_iterate(1, 2, (td_tensor *[]){many, a, b}, compute, muladd, &factor, 1), 0);
        CHECK_EQ(td_set_num_threads(threads), 0);
        CHECK(memcmp(td_tensor_data(one), td_tensor_data(many), 700 * 900 * 4) == 0);
    }
}

TD_TEST(results_larger_than_the_caches_are_right)
{
    if (td_test_failing)
        return;     /* slow, and nothing that others don't allocate */
    static const td_dtype compute[] = {TD_F32, TD_F32, TD_F32};
    float factor = 1;
    int64_t n = 5000003;
    TD_AUTO td_tensor *a = TRY(td_tensor_new(1, &n, TD_F32, CPU));
    TD_AUTO td_tensor *out = TRY(td_tensor_new(1, &n, TD_F32, CPU));
    for (int64_t i = 0; i < n; i++)
        ((float *)td_tensor_data(a))[i] = (float)(i % 1000);
    CHECK_EQ(td_iterate(1, 2, (td_tensor *[]){out, a, a}, compute, muladd, &factor, 1), 0);
    for (int64_t i = 0; i < n; i++)
        CHECK(((float *)td_tensor_data(out))[i] == 2 * (float)(i % 1000));
    int64_t rows = 2500, columns = 4000;
    TD_AUTO td_tensor *matrix = TRY(td_tensor_new(2, (int64_t[]){rows, columns}, TD_I32, CPU));
    TD_AUTO td_tensor *transposed = TRY(td_tensor_new(2, (int64_t[]){columns, rows}, TD_I32, CPU));
    TD_AUTO td_tensor *view = TRY(td_tensor_over(td_tensor_storage(matrix), 0, 2, (int64_t[]){columns, rows},
                                                 (int64_t[]){1, columns}, TD_I32));
    int32_t *m = td_tensor_data(matrix), *t = td_tensor_data(transposed);
    for (int64_t i = 0; i < rows * columns; i++)
        m[i] = (int32_t)i;
    CHECK_EQ(td_copy_elements(transposed, view), 0);
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j < rows; j++)
            CHECK(t[i * rows + j] == m[j * columns + i]);
}

TD_TEST(operands_that_do_not_fit_are_errors)
{
    static const td_dtype compute[] = {TD_F32, TD_F32};
    float factor = 1;
    TD_AUTO td_tensor *a = TRY(td_tensor_new(1, (int64_t[]){3}, TD_F32, CPU));
    TD_AUTO td_tensor *b = TRY(td_tensor_new(1, (int64_t[]){4}, TD_F32, CPU));
    CHECK_FAILS(td_iterate(1, 1, (td_tensor *[]){a, b}, compute, muladd, &factor, 1), TD_E_RUNTIME, "[4]", "[3]");
    CHECK_FAILS(td_copy_elements(a, b), TD_E_RUNTIME,
                "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0");
}

/* ---- copies */

TD_TEST(copies_between_any_strides_and_dtypes_are_right)
{
    for (int round = 0; round < (td_test_failing ? 4 : 2000); round++) {
        int64_t sizes[TD_MAX_DIMS], index[TD_MAX_DIMS] = {0};
        int ndim = random_shape(sizes);
        td_dtype to = draw(TD_C32), from = draw(2) ? to : (td_dtype)draw(TD_C32);
        TD_AUTO td_tensor *dst = TRY(random_operand(ndim, sizes, to, true));
        TD_AUTO td_tensor *src = TRY(random_operand(ndim, sizes, from, false));
        CHECK_EQ(td_copy_elements(dst, src), 0);
        if (td_tensor_numel(dst) == 0)
            continue;
        do {
            char expected[16];
            td_convert(to, expected, 16, from, address(src, ndim, index), 16, 1);
            CHECK(memcmp(address(dst, ndim, index), expected, td_dtype_size(to)) == 0);
        } while (next(ndim, sizes, index));
    }
}

TD_TEST(a_contiguous_tensor_is_its_own_contiguous_copy)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(2, (int64_t[]){3, 4}, TD_F32, CPU));
    fill_random(x);
    TD_AUTO td_tensor *same = TRY(td_make_contiguous(x));
    CHECK(same == x);
    TD_AUTO td_tensor *transposed = TRY(td_tensor_over(td_tensor_storage(x), 0, 2, (int64_t[]){4, 3}, (int64_t[]){1, 4},
                                                   TD_F32));
    TD_AUTO td_tensor *copy = TRY(td_writable(transposed, TD_F64));
    CHECK(copy != transposed && td_tensor_is_contiguous(copy));
    CHECK_NEAR(((double *)td_tensor_data(copy))[1], ((float *)td_tensor_data(x))[4], 0);
    ((double *)td_tensor_data(copy))[1] = 7;
    CHECK_EQ(td_write_back(transposed, copy), 0);
    CHECK_NEAR(((float *)td_tensor_data(x))[4], 7, 0);
}

TD_TEST(conversions_of_odd_values_are_what_the_processor_gives)
{
    float odd[] = {NAN, INFINITY, -INFINITY, 3e9f, -1, 300, -1e20f, 0.99f, -0.5f};
    uint8_t bytes[9], truth[9], all[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    int32_t ints[9];
    int64_t longs[9];
    td_convert(TD_U8, bytes, 1, TD_F32, odd, 4, 9);
    td_convert(TD_I32, ints, 4, TD_F32, odd, 4, 9);
    td_convert(TD_I64, longs, 8, TD_F32, odd, 4, 9);
    td_convert(TD_BOOL, truth, 1, TD_F32, odd, 4, 9);
    CHECK(memcmp(truth, all, 9) == 0);
    CHECK_EQ(bytes[4], 255);
    CHECK_EQ(bytes[5], 44);
#if defined(__aarch64__)            /* the nearest number that there is, and 0 for NaN */
    CHECK_EQ(ints[0], 0);
    CHECK_EQ(ints[3], INT32_MAX);
#else
    CHECK_EQ(ints[0], INT32_MIN);
    CHECK_EQ(ints[3], INT32_MIN);
#endif
    CHECK_EQ(longs[3], 3000000000);
    CHECK_EQ(longs[6], INT64_MIN);
    CHECK_EQ(ints[8], 0);
}
