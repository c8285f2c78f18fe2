/* Which kernel a pointwise call on a device takes: packs, their alignment, and 32-bit offsets as long as they reach.  Tensors of the meta device
 * have shapes without memory. */
#include "../td_test.h"
#include "../tensor_helpers.h"

#include <tede/ops.h>
#include "kernels/device/sweep.h"

#define AUTO TD_AUTO td_tensor *

static td_tensor *shaped(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype)
{
    return td_tensor_new_strided(ndim, sizes, strides, dtype, (td_device){TD_META, -1});
}
#define SHAPED(dtype, sizes, strides) TRY(shaped((int)(sizeof(sizes) / sizeof(int64_t)), sizes, strides, dtype))
#define LIST(...) ((const int64_t[]){__VA_ARGS__})

static td_sweep of(int n, td_tensor *const *runs)
{
    td_sweep s;
    td_sweep_of(&s, n, runs);
    return s;
}
#define SWEEP(...) of((int)(sizeof((td_tensor *[]){__VA_ARGS__}) / sizeof(td_tensor *)), (td_tensor *[]){__VA_ARGS__})

TD_TEST(contiguous_runs_are_taken_by_packs_of_16_bytes)
{
    static const struct { td_dtype dtype; int pack; } of_dtype[] = {{TD_F64, 2}, {TD_F32, 4}, {TD_BF16, 8}, {TD_F16, 8}, {TD_BOOL, 16}, {TD_I64, 2}};
    for (size_t i = 0; i < sizeof of_dtype / sizeof *of_dtype; i++) {
        AUTO x = SHAPED(of_dtype[i].dtype, LIST(3, 5), LIST(5, 1));
        const td_sweep s = SWEEP(x, x);
        CHECK(s.ndim == 0 && s.pack == of_dtype[i].pack && s.narrow && s.n == 15 && s.packs == (15 + s.pack - 1) / s.pack);
    }
}

TD_TEST(packs_of_several_dtypes_are_those_of_the_widest_unless_the_narrowest_has_few_bytes_then)
{
    AUTO b = SHAPED(TD_BOOL, LIST(64), LIST(1)), *h = SHAPED(TD_BF16, LIST(64), LIST(1)), *f = SHAPED(TD_F32, LIST(64), LIST(1));
    AUTO d = SHAPED(TD_F64, LIST(64), LIST(1));
    CHECK(SWEEP(f, h).pack == 4 && SWEEP(b, f, f).pack == 4 && SWEEP(b, d).pack == 4 && SWEEP(d, f).pack == 2 && SWEEP(h, b, h, h).pack == 8);
}

TD_TEST(a_run_that_begins_at_an_odd_place_takes_shorter_packs_or_none)
{
    AUTO x = TRY(td_tensor_new_strided(1, LIST(64), LIST(1), TD_F32, (td_device){TD_CPU, -1}));
    static const int packs[] = {4, 1, 2, 1};
    for (int64_t from = 0; from < 4; from++) {
        AUTO part = TRY(td_as_strided(x, 1, LIST(40), 1, LIST(1), &from));
        CHECK(SWEEP(part, part).pack == packs[from]);
        CHECK(SWEEP(x, part).pack == packs[from]);
    }
}

TD_TEST(rows_and_columns_are_broadcast_without_losing_packs)
{
    AUTO x = SHAPED(TD_F32, LIST(6, 8), LIST(8, 1)), *row = SHAPED(TD_F32, LIST(8), LIST(1)), *column = SHAPED(TD_F32, LIST(6, 1), LIST(1, 1));
    td_sweep s = SWEEP(x, x, row);
    CHECK(s.ndim == 2 && s.pack == 4 && s.constants == 0 && s.sizes[0] == 6 && s.sizes[1] == 2 && s.strides[2][0] == 0 && s.strides[2][1] == 4);
    s = SWEEP(x, column, x);
    CHECK(s.ndim == 2 && s.pack == 4 && s.constants == 2 && s.strides[1][0] == 1 && s.strides[1][1] == 0);
    AUTO t = SHAPED(TD_F32, LIST(6, 8), LIST(1, 6)), *odd = SHAPED(TD_F32, LIST(6, 7), LIST(7, 1)), *wide = SHAPED(TD_F32, LIST(6, 6), LIST(9, 1));
    CHECK(SWEEP(x, t).pack == 1 && SWEEP(x, t).ndim == 2);
    CHECK(SWEEP(t, t).pack == 4 && SWEEP(t, t).ndim == 0);
    AUTO seven = SHAPED(TD_F32, LIST(7), LIST(1));
    CHECK(SWEEP(odd, odd, seven).pack == 1);
    CHECK(SWEEP(wide, wide).pack == 1);             /* rows of 36 bytes */
}

TD_TEST(offsets_are_32_bits_wide_as_far_as_they_reach)
{
    const int64_t most = INT32_MAX;
    AUTO below = SHAPED(TD_U8, LIST(most), LIST(1)), *above = SHAPED(TD_U8, LIST(most + 1), LIST(1));
    CHECK(SWEEP(below, below).narrow && !SWEEP(above, above).narrow);
    AUTO far = SHAPED(TD_F32, LIST(3, 5), LIST(most / 2 - 2, 1)), *farther = SHAPED(TD_F32, LIST(3, 5), LIST(most / 2, 1));
    AUTO near = SHAPED(TD_F32, LIST(3, 5), LIST(5, 1));
    CHECK(SWEEP(near, far).narrow && !SWEEP(near, farther).narrow && !SWEEP(farther, near).narrow);
    AUTO vast = SHAPED(TD_F32, LIST(3, 5), LIST((int64_t)1 << 58, 1));
    CHECK(!SWEEP(near, vast).narrow);
}

TD_TEST(a_product_with_the_reciprocal_divides)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 7, 8, 10, 641, 65535, 65536, 65537, 1000003, 0x3FFFFFFF, 0x40000000, 0x40000001, 0x7FFFFFFE, 0x7FFFFFFF};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint32_t size = sizes[i];
        uint32_t multiplier;
        int32_t shift;
        td_sweep_reciprocal(size, &multiplier, &shift);
        for (uint32_t k = 0; k < 4000; k++) {
            const uint32_t around = (uint32_t)((uint64_t)k * 0x7FFFFFFF / 3999 / size * size);
            for (int64_t rest = (int64_t)around - 1; rest <= (int64_t)around + 1; rest++)
                if (rest >= 0 && rest <= INT32_MAX)
                    CHECK(((uint32_t)((uint64_t)rest * multiplier >> 32) + (uint32_t)rest) >> shift == (uint32_t)rest / size);
        }
    }
}
