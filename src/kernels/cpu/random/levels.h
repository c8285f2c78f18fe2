/* How the random fills get one body per instruction set from a single compilation.
 *
 * This family is compiled once, not once per level: what differs is the width of a few loops and whether a fused
 * multiply-add is an instruction.  A loop is written as an inline body whose last parameter says so; TD_LEVELS makes
 * a copy for x86-64-v2 and one for AVX2 with FMA, TD_LEVEL calls the one that fits.  Both give the same bits. */
#ifndef TD_KERNELS_RANDOM_LEVELS_H
#define TD_KERNELS_RANDOM_LEVELS_H

#include "base/base.h"
#include "base/random.h"
#include "base/simd.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pairs of random words are read as little-endian 64-bit words"
#endif

#define TD_BODY static inline __attribute__((always_inline))

#ifdef TD_FUSED
#define TD_FUSED_HERE true
#else
#define TD_FUSED_HERE false
#endif

#ifdef TD_FOR_V3
#define TD_LEVELS(body, parameters, ...)                                                                     \
    TD_FOR_ANY static void body##_any parameters { body(__VA_ARGS__, TD_FUSED_HERE); } \
    TD_FOR_V3 static void body##_avx2 parameters { body(__VA_ARGS__, true); }
#define TD_LEVEL(body, ...) (td_cpu_isa() >= TD_V3 ? body##_avx2(__VA_ARGS__) : body##_any(__VA_ARGS__))
#else
#define TD_LEVELS(body, parameters, ...) static void body##_any parameters { body(__VA_ARGS__, TD_FUSED_HERE); }
#define TD_LEVEL(body, ...) body##_any(__VA_ARGS__)
#endif

TD_BODY int64_t td_bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}
TD_BODY double td_of_bits(int64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* a * b + c with one rounding.  Without the instruction: the product is exact in double precision; the sum is
 * rounded to odd there (Boldo and Melquiond, 2008), so that rounding it again to single precision is right. */
TD_BODY float td_fma32(float a, float b, float c, bool fused)
{
    if (fused)
        return __builtin_fmaf(a, b, c);
    double product = (double)a * b, sum = product + c;
    double part = sum - product, error = (product - (sum - part)) + (c - part), side = error * sum;
    int64_t beyond = side < 0 ? -1 : 0, short_of = side > 0 ? -1 : 0;
    /* towards zero; and if anything was lost, the last bit is one */
    return (float)td_of_bits((td_bits_of(sum) + beyond) | ((beyond | short_of) & 1));
}

/* Words are drawn this many at a time: a multiple of 16 that leaves the first-level cache room for results. */
enum { TD_RANDOM_BLOCK = 1024 };

/* Store values of one kind as `dtype`, from element `at` on, converting as C does; 0 if the dtype isn't known. */
bool td_random_store_f32(td_dtype dtype, void *out, int64_t at, const float *values, int64_t n);
bool td_random_store_f64(td_dtype dtype, void *out, int64_t at, const double *values, int64_t n);
bool td_random_store_i64(td_dtype dtype, void *out, int64_t at, const int64_t *values, int64_t n);

int td_random_no_kernel(const char *kernel, td_dtype dtype);
/* A dtype by the C++ name that PyTorch's messages use. */
const char *td_random_type_name(td_dtype dtype);

#endif
