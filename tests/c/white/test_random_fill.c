/* Fills against PyTorch 2.13's results, as values or as hashes of the bytes; tools/check_random.py compares many more
 * where PyTorch is installed.  Hashes are only taken of what doesn't depend on the C library's functions. */
#include "../td_test.h"

#include "ops/random/fill.h"

/* Those that entries name (`fills`) are declared by generated headers. */
int td_fill_exponential(td_generator *g, td_dtype dtype, void *out, int64_t n, double lambd);
int td_fill_geometric(td_generator *g, td_dtype dtype, void *out, int64_t n, double p);

enum { N = 1003 };
static union { float f[N + 1]; double d[N + 1]; int64_t i[N + 1]; unsigned char bytes[8 * N + 8]; } room;

static uint64_t hash(size_t bytes)
{
    uint64_t value = UINT64_C(14695981039346656037);      /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ room.bytes[i]) * UINT64_C(1099511628211);
    return value;
}

TD_TEST(uniform_numbers_of_every_floating_dtype_are_pytorchs)
{
    const struct { td_dtype dtype; uint64_t hash; } expected[] = {
        {TD_F16, UINT64_C(0x15fd86b08d861849)}, {TD_BF16, UINT64_C(0xd8c579b14c5f500f)},
        {TD_F32, UINT64_C(0x21f014b0c07cd4b8)}, {TD_F64, UINT64_C(0x7803f971e5922a05)}};
    td_manual_seed(0);
    TRY(td_fill_uniform(NULL, TD_F32, &room, 3, 0, 1));
    CHECK(room.f[0] == 0x1.fc2abp-2f && room.f[1] == 0x1.89545ep-1f && room.f[2] == 0x1.6a675p-4f);
    for (int i = 0; i < 4; i++) {
        td_manual_seed(42);
        TRY(td_fill_uniform(NULL, expected[i].dtype, &room, 1000, -2, 3));
        CHECK(hash(1000 * td_dtype_size(expected[i].dtype)) == expected[i].hash);
    }
}

TD_TEST(normal_numbers_in_groups_are_pytorchs_with_their_last_bits)
{
    const struct { td_dtype dtype; uint64_t hash; } expected[] = {
        {TD_F16, UINT64_C(0xb231ab64b3b4913c)}, {TD_BF16, UINT64_C(0xad1ccae60526a48b)},
        {TD_F32, UINT64_C(0xe4073997044eef14)}};
    td_manual_seed(0);
    TRY(td_fill_normal(NULL, TD_F32, &room, 17, 0, 1));
    CHECK(room.f[14] == 0x1.e48138p-1f && room.f[15] == -0x1.aff666p-1f && room.f[16] == 0x1.dd186p-1f);
    for (int i = 0; i < 3; i++) {
        td_manual_seed(42);
        TRY(td_fill_normal(NULL, expected[i].dtype, &room, N, .5, 2));
        CHECK(hash(N * td_dtype_size(expected[i].dtype)) == expected[i].hash);
    }
}

TD_TEST(few_normal_numbers_come_in_pairs_and_the_second_one_is_kept)
{
    const double expected[] = {1.5409961082440433, -0.2934289057609464, -2.1787893820745574, 0.5684312772806678,
                               -1.084522342424021};
    td_manual_seed(0);
    TRY(td_fill_normal(NULL, TD_F64, &room, 3, 0, 1));
    TRY(td_fill_normal_elementwise(NULL, TD_F64, room.d + 3, 2, 0, 1));
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(room.d[i], expected[i], 1e-15);
}

TD_TEST(bernoulli_compares_53_bits)
{
    td_manual_seed(42);
    TRY(td_fill_bernoulli(NULL, TD_F32, &room, 1000, .3));
    CHECK(hash(4000) == UINT64_C(0x5d32e412ba19dca5));
    td_manual_seed(42);
    TRY(td_fill_bernoulli(NULL, TD_BOOL, &room, 1000, .3));
    CHECK(hash(1000) == UINT64_C(0x3cbfbd6525fe7b55));
    TRY(td_fill_bernoulli(NULL, TD_I64, &room, 1000, 1));
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(room.i[i], 1);
    TRY(td_fill_bernoulli(NULL, TD_I64, &room, 1000, 0));
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(room.i[i], 0);
}

TD_TEST(dropout_scales_what_it_keeps)
{
    td_manual_seed(3);
    TRY(td_fill_dropout(NULL, TD_F32, &room, 1000, .1));
    int kept = 0;
    for (int i = 0; i < 1000; i++) {
        CHECK(room.f[i] == 0 || room.f[i] == 1 / .9f);
        kept += room.f[i] != 0;
    }
    CHECK(kept > 850 && kept < 950);
}

TD_TEST(random_integers_are_pytorchs_in_short_and_long_ranges)
{
    const int64_t expected[] = {69, 19, 93, 25, 38, 4, 92, 68};
    td_manual_seed(0);
    TRY(td_fill_random_from_to(NULL, TD_I64, &room, 8, -5, 100));
    for (int i = 0; i < 8; i++)
        CHECK_EQ(room.i[i], expected[i]);
    td_manual_seed(42);
    TRY(td_fill_random_from_to(NULL, TD_I32, &room, 1000, 0, 1000003));
    CHECK(hash(4000) == UINT64_C(0xeb9235e81e906b3e));
    td_manual_seed(42);
    TRY(td_fill_random_from_to(NULL, TD_I64, &room, 1000, -7, INT64_C(1) << 40));
    CHECK(hash(8000) == UINT64_C(0x1f26a6756445fe4f));
    td_manual_seed(42);
    TRY(td_fill_random(NULL, TD_F16, &room, 1000));
    CHECK(hash(2000) == UINT64_C(0xa54628794f2f71e8));
}

TD_TEST(every_range_below_two_to_the_28th_gives_true_remainders)
{
    td_generator *g = td_default_generator();
    for (int64_t range = 1; range < 1 << 28; range = range * 9 / 7 + 1) {
        td_manual_seed((uint64_t)range);
        TRY(td_fill_random_from_to(NULL, TD_I64, &room, 100, 0, range));
        td_manual_seed((uint64_t)range);
        for (int i = 0; i < 100; i++)
            CHECK_EQ(room.i[i], td_generator_next32(g) % range);
    }
}

TD_TEST(a_random_permutation_is_pytorchs)
{
    const int64_t expected[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
    td_manual_seed(0);
    TRY(td_fill_randperm(NULL, TD_I64, &room, 10));
    for (int i = 0; i < 10; i++)
        CHECK_EQ(room.i[i], expected[i]);
    td_manual_seed(42);
    TRY(td_fill_randperm(NULL, TD_I64, &room, 1000));
    CHECK(hash(8000) == UINT64_C(0xac050cc352041a61));
    TRY(td_fill_randperm(NULL, TD_I64, &room, 0));
}

TD_TEST(samples_by_parameter_are_pytorchs)
{
    const float rates[] = {.5f, 3, 40, 1000}, counts[] = {10, 100, 1000}, p[] = {.5f, .01f, .3f};
    const double shapes[] = {.5, 3, 40, 1000};
    td_manual_seed(0);
    TRY(td_sample_poisson(NULL, TD_F32, &room, 4, rates));
    CHECK(room.f[0] == 2 && room.f[1] == 4 && room.f[2] == 41 && room.f[3] == 996);
    td_manual_seed(0);
    TRY(td_sample_binomial(NULL, TD_F32, &room, 3, counts, p));
    CHECK(room.f[0] == 7 && room.f[1] == 1 && room.f[2] == 298);
    td_manual_seed(0);
    TRY(td_sample_gamma(NULL, TD_F64, &room, 4, shapes));
    CHECK_NEAR(room.d[0], 0.0007893582063475732, 1e-18);
    CHECK_NEAR(room.d[3], 980.6145258710853, 1e-12);
    td_manual_seed(0);
    TRY(td_fill_exponential(NULL, TD_F64, &room, 3, 1));
    CHECK_NEAR(room.d[0], 3.508326186707642, 1e-15);
}

TD_TEST(multinomial_draws_with_and_without_replacement)
{
    const float weights[] = {.1f, 0, .2f, .7f};
    const int64_t again[] = {3, 3, 3, 3, 3, 3, 2, 3}, once[] = {2, 3, 0, 1};
    td_manual_seed(0);
    TRY(td_sample_multinomial(NULL, TD_F32, room.i, 1, 4, weights, 8, true, false));
    for (int i = 0; i < 8; i++)
        CHECK_EQ(room.i[i], again[i]);
    td_manual_seed(0);
    TRY(td_sample_multinomial(NULL, TD_F32, room.i, 1, 4, weights, 4, false, false));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(room.i[i], once[i]);
}

TD_TEST(an_empty_fill_draws_nothing)
{
    td_generator *g = td_default_generator();
    td_manual_seed(1);
    uint64_t first = td_generator_next64(g);
    td_manual_seed(1);
    TRY(td_fill_uniform(g, TD_F32, &room, 0, 0, 1));
    TRY(td_fill_normal(g, TD_F32, &room, 0, 0, 1));
    TRY(td_fill_bernoulli(g, TD_F32, &room, 0, .5));
    TRY(td_fill_random_from_to(g, TD_I64, &room, 0, 0, 10));
    TRY(td_fill_randperm(g, TD_I64, &room, 1));
    CHECK(td_generator_next64(g) == first);
}

TD_TEST(bad_parameters_are_refused_before_anything_is_drawn)
{
    const float outside[] = {.5f, 1.5f}, negative[] = {1, -1}, nothing[] = {0, 0};
    td_generator *g = td_default_generator();
    td_manual_seed(1);
    uint64_t first = td_generator_next64(g);
    td_manual_seed(1);
    CHECK_FAILS(td_fill_normal(g, TD_F32, &room, 4, 0, -1), TD_E_RUNTIME, "std >= 0.0, but found std -1");
    CHECK_FAILS(td_fill_normal(g, TD_I64, &room, 4, 0, 1), TD_E_NOT_IMPLEMENTED, "normal_kernel_cpu", "Long");
    CHECK_FAILS(td_fill_uniform(g, TD_F32, &room, 4, 1, 0), TD_E_RUNTIME, "from=1 > to=0");
    CHECK_FAILS(td_fill_uniform(g, TD_F16, &room, 4, 0, 1e6), TD_E_RUNTIME, "to is out of bounds for c10::Half");
    CHECK_FAILS(td_fill_uniform(g, TD_F32, &room, 4, -3e38, 3e38), TD_E_RUNTIME, "to-from");
    CHECK_FAILS(td_fill_uniform(g, TD_F32, &room, 4, NAN, 1), TD_E_RUNTIME, "from is out of bounds");
    CHECK_FAILS(td_fill_bernoulli(g, TD_F32, &room, 4, 1.5), TD_E_RUNTIME, "[0, 1]", "1.5");
    CHECK_FAILS(td_fill_bernoulli(g, TD_F32, &room, 4, NAN), TD_E_RUNTIME, "[0, 1]");
    CHECK_FAILS(td_fill_bernoulli(g, TD_U16, &room, 4, .5), TD_E_NOT_IMPLEMENTED, "UInt16");
    CHECK_FAILS(td_fill_bernoulli_each(g, TD_F32, &room, 2, TD_F32, outside), TD_E_RUNTIME, "1.5", "element 1");
    CHECK_FAILS(td_fill_exponential(g, TD_F32, &room, 4, 0), TD_E_RUNTIME, "lambda > 0.0");
    CHECK_FAILS(td_fill_geometric(g, TD_F32, &room, 4, 1), TD_E_RUNTIME, "(0, 1)");
    CHECK_FAILS(td_fill_random_from_to(g, TD_I64, &room, 4, 3, 3), TD_E_RUNTIME, "from=3 >= to=3");
    CHECK_FAILS(td_fill_random_from_to(g, TD_I8, &room, 4, 0, 129), TD_E_RUNTIME,
                "to - 1 is out of bounds for signed char");
    CHECK_FAILS(td_fill_random_from_to(g, TD_F16, &room, 4, 0, 70000), TD_E_RUNTIME, "out of bounds for c10::Half");
    CHECK_FAILS(td_fill_randperm(g, TD_F16, &room, 3000), TD_E_RUNTIME, "n cannot be greater than 2049 for Half type.");
    CHECK_FAILS(td_fill_randperm(g, TD_U8, &room, 258), TD_E_RUNTIME, "overflow");
    CHECK_FAILS(td_fill_randperm(g, TD_I64, &room, -1), TD_E_RUNTIME, "non-negative");
    CHECK_FAILS(td_sample_poisson(g, TD_F32, &room, 2, negative), TD_E_RUNTIME, "invalid Poisson rate", "-1");
    CHECK_FAILS(td_sample_multinomial(g, TD_F32, room.i, 1, 2, negative, 1, true, false), TD_E_RUNTIME, "element < 0");
    CHECK_FAILS(td_sample_multinomial(g, TD_F32, room.i, 1, 2, nothing, 1, true, false), TD_E_RUNTIME, "<= 0");
    CHECK_FAILS(td_sample_multinomial(g, TD_F32, room.i, 1, 2, outside, 3, false, false), TD_E_RUNTIME, "without replacement");
    CHECK_FAILS(td_sample_multinomial(g, TD_I64, room.i, 1, 2, outside, 1, false, false), TD_E_RUNTIME, "floating-point");
    CHECK(td_generator_next64(g) == first);
}
