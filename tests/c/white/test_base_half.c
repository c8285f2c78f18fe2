/* The half types' conversions, against the compiler's own _Float16 and against arithmetic. */
#include "../td_test.h"

#include "base/base.h"

/* Round to nearest even by exact arithmetic: halfway cases are seen because a double holds them exactly. */
static td_bf16 bf16_by_search(float x)
{
    uint32_t bits = td_f32_bits(x), low = bits & 0xffff, up = bits >> 16;
    return (td_bf16)(low > 0x8000 || (low == 0x8000 && (up & 1)) ? up + 1 : up);
}

TD_TEST(every_half_comes_back_as_it_was)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = td_f16_to_f32((td_f16)h), y = td_bf16_to_f32((td_bf16)h);
        if ((h & 0x7fff) > 0x7c00)
            CHECK(x != x && td_f32_to_f16(x) == (0x7e00 | (h & 0x8000)));
        else
            CHECK_EQ(td_f32_to_f16(x), h);
        if ((h & 0x7fff) > 0x7f80)
            CHECK(y != y && td_bf16_to_f32(td_f32_to_bf16(y)) != 0 && (td_f32_to_bf16(y) & 0x7fff) > 0x7f80);
        else
            CHECK_EQ(td_f32_to_bf16(y), h);
    }
}

#if defined(__FLT16_MAX__)
TD_TEST(float16_converts_as_the_compilers_does)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        _Float16 half;
        td_f16 bits = (td_f16)h;
        memcpy(&half, &bits, 2);
        float x = td_f16_to_f32(bits), y = (float)half;
        CHECK((x != x && y != y) || td_f32_bits(x) == td_f32_bits(y));
    }
    /* A prime stride through all floats, and the neighbourhood of every half and of every halfway point. */
    for (uint64_t i = 0; i < UINT64_C(1) << 32; i += 977) {
        float x = td_bits_f32((uint32_t)i);
        _Float16 half = (_Float16)x;
        td_f16 bits;
        memcpy(&bits, &half, 2);
        CHECK(x != x || td_f32_to_f16(x) == bits);
    }
    for (uint32_t h = 0; h < 0x10000; h++)
        for (int step = -3; step <= 3; step++)
            for (int half_way = 0; half_way < 2; half_way++) {
                float x = td_bits_f32(td_f32_bits(td_f16_to_f32((td_f16)h)) + (uint32_t)(half_way << 12) + (uint32_t)step);
                _Float16 half = (_Float16)x;
                td_f16 bits;
                memcpy(&bits, &half, 2);
                CHECK(x != x || td_f32_to_f16(x) == bits);
            }
}
#endif

TD_TEST(bfloat16_rounds_to_nearest_even)
{
    for (uint64_t i = 0; i < UINT64_C(1) << 32; i += 977) {
        float x = td_bits_f32((uint32_t)i);
        CHECK(x != x || td_f32_to_bf16(x) == bf16_by_search(x));
    }
    CHECK_EQ(td_f32_to_bf16(3.4028235e38f), 0x7f80);
    CHECK_EQ(td_f32_to_bf16(-INFINITY), 0xff80);
    CHECK_EQ(td_f32_to_bf16(1e-45f), 0);
}
