/* Conversions between any two dtypes.  What C converts has loops, from one macro; halves and complex numbers, which are rarer,
 * mostly go through float or double: a loop for each of the 15 x 15 pairs would take twice as long to compile.
 *
 * What C leaves undefined is what the processor does, as in PyTorch.  On x86-64: a float beyond a narrow integer's range is converted to 32
 * bits (64 for double to uint8) and cut off; NaN and what doesn't fit there become the lowest number.
 * (On aarch64 what doesn't fit becomes the nearest number, and NaN 0.)
 * Half types go through float both ways.  A complex number that becomes real loses its imaginary part, but is
 * true as a bool if either part is not 0.
 *
 * Compiled once per instruction-set level, see isa/isa.h. */
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/loops/convert.h"

#define T_BOOL uint8_t
#define T_U8   uint8_t
#define T_I8   int8_t
#define T_I16  int16_t
#define T_I32  int32_t
#define T_I64  int64_t
#define T_U16  uint16_t
#define T_U32  uint32_t
#define T_U64  uint64_t
#define T_F16  td_f16
#define T_BF16 td_bf16
#define T_F32  float
#define T_F64  double
typedef struct { float re, im; } T_C64;
typedef struct { double re, im; } T_C128;

/* ---- taking a value out: RE_ in a type of C's, IM_ its imaginary part */
#define RE_BOOL(x) ((uint8_t)((x) != 0))
#define RE_U8(x)   (x)
#define RE_I8(x)   (x)
#define RE_I16(x)  (x)
#define RE_I32(x)  (x)
#define RE_I64(x)  (x)
#define RE_U16(x)  (x)
#define RE_U32(x)  (x)
#define RE_U64(x)  (x)
#define RE_F16(x)  td_f16_to_f32(x)
#define RE_BF16(x) td_bf16_to_f32(x)
#define RE_F32(x)  (x)
#define RE_F64(x)  (x)
#define RE_C64(x)  ((x).re)
#define RE_C128(x) ((x).re)

#define IM_BOOL(x) 0
#define IM_U8(x)   0
#define IM_I8(x)   0
#define IM_I16(x)  0
#define IM_I32(x)  0
#define IM_I64(x)  0
#define IM_U16(x)  0
#define IM_U32(x)  0
#define IM_U64(x)  0
#define IM_F16(x)  0
#define IM_BF16(x) 0
#define IM_F32(x)  0
#define IM_F64(x)  0
#define IM_C64(x)  ((x).im)
#define IM_C128(x) ((x).im)

/* ---- putting it in */
/* Narrow integers: real numbers stop at int32 (or at int64) on the way. */
#define BY_32(x) _Generic((x), float: (int32_t)(x), double: (int32_t)(x), default: (x))
/* float to uint8 is defined through int64, but from 2^31 on a float's last eight bits are 0 anyway. */
#define BY_32_OR_64(x) _Generic((x), float: (int32_t)(x), double: (int64_t)(x), default: (x))

/* The upper half of an unsigned range is reached by taking half of it away and putting it back as the top bit. */
static inline uint32_t f64_to_u32(double x)
{
    return x >= 0x1p31 ? (uint32_t)(int32_t)(x - 0x1p31) ^ (uint32_t)1 << 31 : (uint32_t)(int32_t)x;
}
static inline uint32_t f32_to_u32(float x)
{
    return x >= 0x1p31f ? (uint32_t)(int32_t)(x - 0x1p31f) ^ (uint32_t)1 << 31 : (uint32_t)(int32_t)x;
}
static inline uint64_t f64_to_u64(double x)
{
    return x >= 0x1p63 ? (uint64_t)(int64_t)(x - 0x1p63) ^ (uint64_t)1 << 63 : (uint64_t)(int64_t)x;
}
#define BY_U32(x) _Generic((x), float: f32_to_u32((float)(x)), double: f64_to_u32((double)(x)), default: (x))
#define BY_U64(x) _Generic((x), float: f64_to_u64((double)(x)), double: f64_to_u64((double)(x)), default: (x))

#define TO_BOOL(re, im) ((uint8_t)(((re) != 0) | ((im) != 0)))
#define TO_U8(re, im)   ((uint8_t)BY_32_OR_64(re))
#define TO_I8(re, im)   ((int8_t)BY_32(re))
#define TO_I16(re, im)  ((int16_t)BY_32(re))
#define TO_I32(re, im)  ((int32_t)(re))
#define TO_I64(re, im)  ((int64_t)(re))
#define TO_U16(re, im)  ((uint16_t)BY_32(re))
#define TO_U32(re, im)  ((uint32_t)BY_U32(re))
#define TO_U64(re, im)  ((uint64_t)BY_U64(re))
#define TO_F16(re, im)  td_f32_to_f16((float)(re))
#define TO_BF16(re, im) td_f32_to_bf16((float)(re))
#define TO_F32(re, im)  ((float)(re))
#define TO_F64(re, im)  ((double)(re))
#define TO_C64(re, im)  ((T_C64){(float)(re), (float)(im)})
#define TO_C128(re, im) ((T_C128){(double)(re), (double)(im)})

/* Loops are compiled once, not into each of their callers. */
#define ONCE __attribute__((noinline))

/* dst and src may be the same memory only where the sizes agree, so a run never overtakes itself; but they are of
 * different types, `restrict` says to the compiler that lanes don't depend on each other. */
#define RUN(TO, FROM)                                                                          \
    static ONCE void run_##TO##_##FROM(void *restrict to, const void *restrict from, int64_t n) \
    {                                                                                          \
        T_##TO *restrict dst = to;                                                             \
        const T_##FROM *restrict src = from;                                                   \
        for (int64_t i = 0; i < n; i++)                                                        \
            dst[i] = TO_##TO(RE_##FROM(src[i]), IM_##FROM(src[i]));                            \
    }

/* Unsigned integers take the bits that the signed ones take. */
#define FROM_INTEGERS(TO)                                                                      \
    RUN(TO, BOOL) RUN(TO, U8) RUN(TO, I8) RUN(TO, I16) RUN(TO, I32) RUN(TO, I64) RUN(TO, U16) RUN(TO, U32) RUN(TO, U64)
FROM_INTEGERS(BOOL)
FROM_INTEGERS(I8)
FROM_INTEGERS(I16)
FROM_INTEGERS(I32)
FROM_INTEGERS(I64)
FROM_INTEGERS(F32)
FROM_INTEGERS(F64)

#define FROM_REALS(TO) RUN(TO, F32) RUN(TO, F64)
FROM_REALS(BOOL)
FROM_REALS(U8)
FROM_REALS(I8)
FROM_REALS(I16)
FROM_REALS(I32)
FROM_REALS(I64)
FROM_REALS(U16)
FROM_REALS(U32)
FROM_REALS(U64)
FROM_REALS(F32)
FROM_REALS(F64)

RUN(F16, F16)
RUN(F16, F32)
RUN(F32, F16)
RUN(BF16, BF16)
RUN(BF16, F32)
RUN(F32, BF16)
RUN(C64, F32)
RUN(F32, C64)
RUN(C128, F64)
RUN(F64, C128)
RUN(C64, C64)
RUN(C64, C128)
RUN(C128, C64)
RUN(C128, C128)
RUN(BOOL, C64)
RUN(BOOL, C128)

#ifdef TD_CONVERTS_HALVES
#ifdef TD_AVX512
enum { HALVES = 16 };
#define WIDEN(at)     _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(at)))
#define PUT(at, x)    _mm512_storeu_ps(at, x)
#define TAKE(at)      _mm512_loadu_ps(at)
#define HAS_NAN(x)    _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)
#define NARROW(at, x) _mm256_storeu_si256((__m256i *)(at), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT))
typedef __m512 floats;
#else
enum { HALVES = 8 };
#define WIDEN(at)     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(at)))
#define PUT(at, x)    _mm256_storeu_ps(at, x)
#define TAKE(at)      _mm256_loadu_ps(at)
#define HAS_NAN(x)    _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))
#define NARROW(at, x) _mm_storeu_si128((__m128i *)(at), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT))
typedef __m256 floats;
#endif

static ONCE void widen_f16(void *restrict to, const void *restrict from, int64_t n)
{
    float *dst = to;
    const td_f16 *src = from;
    int64_t i = 0;
    for (; i + HALVES <= n; i += HALVES)
        PUT(dst + i, WIDEN(src + i));
    run_F32_F16(dst + i, src + i, n - i);
}
static ONCE void narrow_f16(void *restrict to, const void *restrict from, int64_t n)
{
    td_f16 *dst = to;
    const float *src = from;
    int64_t i = 0;
    for (; i + HALVES <= n; i += HALVES) {
        const floats x = TAKE(src + i);
        if (__builtin_expect(HAS_NAN(x), 0))    /* the processor would keep its payload; the portable loop doesn't */
            run_F16_F32(dst + i, src + i, HALVES);
        else
            NARROW(dst + i, x);
    }
    run_F16_F32(dst + i, src + i, n - i);
}
#define run_F32_F16 widen_f16
#define run_F16_F32 narrow_f16
#endif

/* A pair without a direct loop goes through a type that holds what either end makes of a number. */
#define WAY(TO, FROM, BY)                                                                       \
    static ONCE void run_##TO##_##FROM(void *restrict to, const void *restrict from, int64_t n) \
    {                                                                                           \
        T_##BY block[256];                                                                      \
        for (int64_t i = 0, m; i < n; i += m) {                                                 \
            m = n - i < 256 ? n - i : 256;                                                      \
            run_##BY##_##FROM(block, (const T_##FROM *)from + i, m);                            \
            run_##TO##_##BY((T_##TO *)to + i, block, m);                                        \
        }                                                                                       \
    }

#define HALVES_TO(TO)  WAY(TO, F16, F32) WAY(TO, BF16, F32)
#define COMPLEX_TO(TO) WAY(TO, C64, F32) WAY(TO, C128, F64)
#define OTHERS_TO(TO)  HALVES_TO(TO) COMPLEX_TO(TO)
#define INTEGERS_BY(TO, BY)                                                                     \
    WAY(TO, BOOL, BY) WAY(TO, U8, BY) WAY(TO, I8, BY) WAY(TO, I16, BY) WAY(TO, I32, BY) WAY(TO, I64, BY) WAY(TO, U16, BY) \
    WAY(TO, U32, BY) WAY(TO, U64, BY)
HALVES_TO(BOOL)
OTHERS_TO(U8)
OTHERS_TO(I8)
OTHERS_TO(I16)
OTHERS_TO(I32)
OTHERS_TO(I64)
OTHERS_TO(U16)
OTHERS_TO(U32)
OTHERS_TO(U64)
HALVES_TO(F64)
WAY(F64, C64, F32)
WAY(F32, C128, F64)
INTEGERS_BY(F16, F32)
WAY(F16, BF16, F32)
WAY(F16, F64, F32)
COMPLEX_TO(F16)
INTEGERS_BY(BF16, F32)
WAY(BF16, F16, F32)
WAY(BF16, F64, F32)
COMPLEX_TO(BF16)
INTEGERS_BY(C64, F32)
HALVES_TO(C64)
WAY(C64, F64, F32)
INTEGERS_BY(C128, F64)
WAY(C128, F16, F64)
WAY(C128, BF16, F64)
WAY(C128, F32, F64)

/* WHOLE: the type whose runs from integers it shares. */
#define ROW(TO, WHOLE)                                                                                                  \
    [TD_##TO] = {run_##WHOLE##_BOOL, run_##WHOLE##_U8, run_##WHOLE##_I8, run_##WHOLE##_I16, run_##WHOLE##_I32,          \
                 run_##WHOLE##_I64, run_##WHOLE##_U16, run_##WHOLE##_U32, run_##WHOLE##_U64, run_##TO##_F16,            \
                 run_##TO##_BF16, run_##TO##_F32, run_##TO##_F64, run_##TO##_C64, run_##TO##_C128}

static inline void fill(void *to, uint64_t eight, int64_t bytes)
{
    typedef uint64_t wide __attribute__((vector_size(64), aligned(1), may_alias));
    const wide pattern = (wide){0} + eight;
    char *at = to, *end = at + bytes;
    for (; at + 64 <= end; at += 64)
        *(wide *)at = pattern;
    if (bytes >= 64)                    /* whole elements, so they look the same wherever the pattern begins */
        *(wide *)(end - 64) = pattern;
    else
        memcpy(at, &pattern, (size_t)bytes);
}

static inline void fill_row(char *to, uint64_t eight, int64_t bytes)
{
    typedef uint64_t narrow __attribute__((vector_size(16), aligned(1), may_alias));
    if (bytes >= 64)
        fill(to, eight, bytes);
    else
        for (int64_t i = 0; i < bytes; i += 16)
            *(narrow *)(to + i) = (narrow){eight, eight};
}
/* UINT64_MAX / (T)-1 is a one at the beginning of each T in eight bytes, so the product has the element in each. */
#define FILL_ROWS(T)                                                                            \
    for (int64_t r = 0; r < rows; r++)                                                          \
        fill_row(to + r * bytes, *(const T *)(from + r * step) * (UINT64_MAX / (T)-1), bytes)
static void fill_rows(size_t size, char *to, const char *from, int64_t step, int64_t bytes, int64_t rows)
{
    switch (size) {
    case 1: FILL_ROWS(uint8_t); break;
    case 2: FILL_ROWS(uint16_t); break;
    case 4: FILL_ROWS(uint32_t); break;
    default: FILL_ROWS(uint64_t);
    }
}

/* A row of at least `size` bytes in pieces of that size, of which the last may overlap the one before. */
#define COPY_PIECES(size)                                       \
    for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step) { \
        char last[size];                                        \
        memcpy(last, from + bytes - size, size);                \
        for (int64_t i = 0; i < bytes - size; i += size)        \
            memcpy(to + i, from + i, size);                     \
        memcpy(to + bytes - size, last, size);                  \
    }
/* Pieces are of constant size, so that memcpy becomes instructions; a row that is at least as long as one has no odd end.  A last
 * piece that overlaps the one before is read before that is written. */
static void copy_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t rows)
{
    if (bytes >= 64)
        COPY_PIECES(64)
    else if (bytes >= 32)
        COPY_PIECES(32)
    else if (bytes >= 16)
        COPY_PIECES(16)
    else if (bytes >= 8)
        COPY_PIECES(8)
    else if (bytes >= 4)
        COPY_PIECES(4)
    else
        COPY_PIECES(1)
}

/* n elements in reverse: vectors, of which the last may overlap the one before, then of half the size where there are few. */
#define REVERSE_PIECES(T, bytes, ...)                                                           \
    {                                                                                           \
        typedef T piece __attribute__((vector_size(bytes), aligned(1), may_alias));             \
        const int64_t m = bytes / sizeof(T);                                                    \
        for (int64_t i = 0; n >= m; i = i + m < n - m ? i + m : n - m) {                        \
            const piece x = *(const piece *)(from - (i + m - 1) * (int64_t)sizeof(T));          \
            *(piece *)(to + i * (int64_t)sizeof(T)) = __builtin_shufflevector(x, x, __VA_ARGS__); \
            if (i == n - m)                                                                     \
                return;                                                                         \
        }                                                                                       \
    }
#define DOWN_4 3, 2, 1, 0
#define DOWN_8 7, 6, 5, 4, DOWN_4
#define DOWN_16 15, 14, 13, 12, 11, 10, 9, 8, DOWN_8
#define DOWN_32 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, DOWN_16
#define REVERSE(T, whole, half)                                                 \
    static inline void reverse_##T(char *to, const char *from, int64_t n)       \
    {                                                                           \
        REVERSE_PIECES(T, 32, whole)                                            \
        REVERSE_PIECES(T, 16, half)                                             \
        for (int64_t i = 0; i < n; i++)                                         \
            memcpy(to + i * (int64_t)sizeof(T), from - i * (int64_t)sizeof(T), sizeof(T)); \
    }
#define DOWN_2 1, 0
REVERSE(uint8_t, DOWN_32, DOWN_16)
REVERSE(uint16_t, DOWN_16, DOWN_8)
REVERSE(uint32_t, DOWN_8, DOWN_4)
REVERSE(uint64_t, DOWN_4, DOWN_2)
#define REVERSE_ROWS(T)                                                         \
    for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step)        \
        reverse_##T(to, from, bytes / (int64_t)sizeof(T))
static void reverse_rows(size_t size, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t rows)
{
    switch (size) {
    case 1: REVERSE_ROWS(uint8_t); break;
    case 2: REVERSE_ROWS(uint16_t); break;
    case 4: REVERSE_ROWS(uint32_t); break;
    default: REVERSE_ROWS(uint64_t);
    }
}

/* Only whole cache lines go around the caches: parts of lines would be written to memory twice.  Each with as few stores as
 * there can be: a line that waits for its rest in a buffer may be written without it. */
static void stream(char *to, const char *from, int64_t bytes)
{
    int64_t i = 0;
#ifdef TD_STREAMS
    const int64_t begin = (int64_t)(-(uintptr_t)to & 63);
    if (begin + 64 <= bytes) {
        if (begin)
            memcpy(to, from, (size_t)begin);
        for (i = begin; i + 64 <= bytes; i += 64) {
#ifdef TD_AVX512
            _mm512_stream_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
#elif defined(TD_AVX2)
            const __m256i low = _mm256_loadu_si256((const __m256i *)(from + i)), high = _mm256_loadu_si256((const __m256i *)(from + i + 32));
            _mm256_stream_si256((__m256i *)(to + i), low);
            _mm256_stream_si256((__m256i *)(to + i + 32), high);
#else
            for (int k = 0; k < 64; k += 16)
                _mm_stream_si128((__m128i *)(to + i + k), _mm_loadu_si128((const __m128i *)(from + i + k)));
#endif
        }
    }
#endif
    if (i < bytes)
        memcpy(to + i, from + i, (size_t)(bytes - i));
}

const td_convert_table TD_ISA_NAME(td_convert_table) = {
    .run = {ROW(BOOL, BOOL), ROW(U8, I8), ROW(I8, I8), ROW(I16, I16), ROW(I32, I32), ROW(I64, I64), ROW(U16, I16), ROW(U32, I32),
            ROW(U64, I64), ROW(F16, F16), ROW(BF16, BF16), ROW(F32, F32), ROW(F64, F64), ROW(C64, C64), ROW(C128, C128)},
    .fill = fill,
    .fill_rows = fill_rows,
    .copy_rows = copy_rows,
    .reverse_rows = reverse_rows,
    .stream = stream,
};
