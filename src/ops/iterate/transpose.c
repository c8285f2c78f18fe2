/* td_transpose_block: blocks of a matrix transposed in vector registers.
 *
 * N rows of 16 bytes, N elements each, become N columns in log2(N) rounds, each of which puts element by element of row i
 * between those of row i + N / 2 (a perfect shuffle; log2(N) of them transpose).  Wider registers do so for two blocks that lie
 * below each other (four gained nothing).  The last block of rows or columns overlaps the one before.
 *
 * Each load and store moves a whole register; one element at a time would need N times as many. */
#include "calls_ops_iterate_transpose.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "ops/iterate/iterator.h"

typedef struct { uint64_t half[2]; } any16;

/* Without vector instructions, for matrices smaller than a block, and for elements of 16 bytes. */
#define TRANSPOSE(T)                                                                    \
    for (int64_t r = 0; r < rows; r++)                                                  \
        for (int64_t c = 0; c < columns; c++)                                           \
            *(T *)(to + c * to_row + r * (int64_t)sizeof(T)) = ((const T *)(from + r * from_row))[c]

#ifdef TD_FOR_V3
/* Row k of a block; with LOAD2 also that of the block N rows below, in the register's upper half. */
#define ROW(k) _mm_loadu_si128((const __m128i *)(at + (k) * from_row))
#define LOAD1(k) ROW(k)
#define LOAD2(k) _mm256_inserti128_si256(_mm256_castsi128_si256(ROW(k)), ROW((k) + N), 1)

/* The whole matrix, of at least N * LANES x N elements. */
#define IN_REGISTERS(SIZE, BITS, LANES, ATTRIBUTE, V, PREFIX, STORE)                                                          \
    ATTRIBUTE static void transpose_##SIZE##_##LANES(char *to, int64_t to_row, const char *from,  \
                                                                      int64_t from_row, int64_t rows, int64_t columns) \
    {                                                                                                              \
        enum { N = 16 / SIZE, TALL = N * LANES };                                                                  \
        for (int64_t r = 0; r < rows; r += TALL) {                                                                 \
            r = r < rows - TALL ? r : rows - TALL;                                                                 \
            for (int64_t c = 0; c < columns; c += N) {                                                             \
                c = c < columns - N ? c : columns - N;                                                             \
                const char *at = from + r * from_row + c * SIZE;                                                   \
                V a[N], b[N];                                                                                      \
                _Pragma("GCC unroll 16")                                                                           \
                for (int k = 0; k < N; k++)                                                                        \
                    a[k] = LOAD##LANES(k);                                                                         \
                _Pragma("GCC unroll 4")                                                                            \
                for (int round = 1; round < N; round *= 2) {                                                       \
                    _Pragma("GCC unroll 8")                                                                        \
                    for (int k = 0; k < N / 2; k++) {                                                              \
                        b[2 * k] = PREFIX##_unpacklo_epi##BITS(a[k], a[k + N / 2]);                                \
                        b[2 * k + 1] = PREFIX##_unpackhi_epi##BITS(a[k], a[k + N / 2]);                            \
                    }                                                                                              \
                    _Pragma("GCC unroll 16")                                                                       \
                    for (int k = 0; k < N; k++)                                                                    \
                        a[k] = b[k];                                                                               \
                }                                                                                                  \
                _Pragma("GCC unroll 16")                                                                           \
                for (int k = 0; k < N; k++)                                                                        \
                    STORE((void *)(to + (c + k) * to_row + r * SIZE), a[k]);                                       \
            }                                                                                                      \
        }                                                                                                          \
    }
#define TRANSPOSITIONS(SIZE, BITS)                                                  \
    IN_REGISTERS(SIZE, BITS, 1, TD_FOR_ANY, __m128i, _mm, _mm_storeu_si128)   \
    IN_REGISTERS(SIZE, BITS, 2, TD_FOR_V3, __m256i, _mm256, _mm256_storeu_si256)                    
TRANSPOSITIONS(1, 8)
TRANSPOSITIONS(2, 16)
TRANSPOSITIONS(4, 32)
TRANSPOSITIONS(8, 64)

typedef void transposition(char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t columns);
static transposition *const transpositions[4][2] = {{transpose_1_1, transpose_1_2}, {transpose_2_1, transpose_2_2}, {transpose_4_1, transpose_4_2}, {transpose_8_1, transpose_8_2}};
#endif

/* `transpositions` has a row for each size, by its logarithm; the wide form needs rows for both of its blocks. */
void td_transpose_block(size_t size, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t columns)
{
#ifdef TD_FOR_V3
    int64_t n = 16 / (int64_t)size;
    if (size <= 8 && rows >= n && columns >= n) {
        bool wide = td_cpu_isa() >= TD_V3 && rows >= 2 * n;
        transpositions[__builtin_ctzll(size)][wide](to, to_row, from, from_row, rows, columns);
        return;
    }
#endif
    switch (size) {
    case 1: TRANSPOSE(uint8_t); break;
    case 2: TRANSPOSE(uint16_t); break;
    case 4: TRANSPOSE(uint32_t); break;
    case 8: TRANSPOSE(uint64_t); break;
    default: TRANSPOSE(any16); break;
    }
}
