/* Runs and tiles of elements moved about: strided copy, fill, prefetched memcpy, blocked transposition.  The iterator (iterator.c),
 * copies and cat are made of them.  Only the size of an element counts, never its dtype: bytes are moved as they are. */
#include "calls_ops_iterate_runs.h"
#include "base/simd.h"
#include "ops/iterate/iterator.h"

/* Elements of which only the size is known: cat moves pieces of eight bytes to where a float32 begins. */
typedef uint8_t  any1;
typedef uint16_t any2 __attribute__((aligned(1)));
typedef uint32_t any4 __attribute__((aligned(1)));
typedef uint64_t any8 __attribute__((aligned(1)));
typedef struct { any8 half[2]; } any16;

/* One run, in a separate loop for each pattern that a compiler vectorizes: one element repeated, a run in reverse, every second
 * element (the real parts of complex numbers), a gather to contiguous memory, a scatter from it, and anything else. */
#define COPY_STRIDED(T)                                                             \
    do {                                                                            \
        if (to_stride == sizeof(T)) {                                               \
            if (from_stride == 0) {                                                 \
                T value = *(const T *)from;                                         \
                _Pragma("omp simd")                                                 \
                for (int64_t i = 0; i < n; i++)                                     \
                    ((T *)to)[i] = value;                                           \
            } else if (from_stride == -(int64_t)sizeof(T)) {                        \
                _Pragma("omp simd")                                                 \
                for (int64_t i = 0; i < n; i++)                                     \
                    ((T *)to)[i] = ((const T *)from)[-i];                           \
            } else if (from_stride == 2 * (int64_t)sizeof(T)) {                     \
                _Pragma("omp simd")                                                 \
                for (int64_t i = 0; i < n; i++)                                     \
                    ((T *)to)[i] = ((const T *)from)[2 * i];                        \
            } else {                                                                \
                for (int64_t i = 0; i < n; i++)                                     \
                    ((T *)to)[i] = *(const T *)(from + i * from_stride);            \
            }                                                                       \
        } else if (from_stride == sizeof(T)) {                                      \
            for (int64_t i = 0; i < n; i++)                                         \
                *(T *)(to + i * to_stride) = ((const T *)from)[i];                  \
        } else {                                                                    \
            for (int64_t i = 0; i < n; i++)                                         \
                *(T *)(to + i * to_stride) = *(const T *)(from + i * from_stride);  \
        }                                                                           \
    } while (0)

/* An element of 1, 2, 4 or 8 bytes, repeated until it fills eight: multiplied by a one in each position of its width. */
static inline uint64_t eight_of(size_t size, const char *element)
{
    switch (size) {
    case 1: return *(const any1 *)element * UINT64_C(0x0101010101010101);
    case 2: return *(const any2 *)element * UINT64_C(0x0001000100010001);
    case 4: return *(const any4 *)element * UINT64_C(0x0000000100000001);
    default: return *(const any8 *)element;
    }
}

/* From 64 bytes on the calls below pay off; shorter runs are mostly rows of small tensors, for which a loop in place is faster. */
void td_copy_run(size_t size, char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n)
{
    if (to_stride == (int64_t)size && from_stride == (int64_t)size && (size_t)n * size >= 64) {
        memmove(to, from, (size_t)n * size);
        return;
    }
    if (to_stride == (int64_t)size && from_stride == 0 && size <= 8 && (size_t)n * size >= 64) {
        td_fill_eight(to, eight_of(size, from), n * (int64_t)size);
        return;
    }
    switch (size) {
    case 1: COPY_STRIDED(any1); break;
    case 2: COPY_STRIDED(any2); break;
    case 4: COPY_STRIDED(any4); break;
    case 8: COPY_STRIDED(any8); break;
    default: COPY_STRIDED(any16); break;
    }
}

/* Bound by memory's latency: both sides are prefetched, the target's lines, too, since a store must read its line first.  The
 * start is aligned to the target's cache lines, so that each round completes one line. */
void td_copy_ahead(char *to, const char *from, int64_t bytes)
{
    enum { READ = 1024, WRITE = 512 };
    int64_t i = (int64_t)(-(uintptr_t)to & 63);
    if (i + 64 > bytes)
        i = 0;
    memcpy(to, from, (size_t)i);
    if (td_cpu_copies_strings()) {
        td_copy_string(to + i, from + i, bytes - i);
        return;
    }
    for (; i + 64 <= bytes; i += 64) {
        __builtin_prefetch(from + i + READ);
        __builtin_prefetch(to + i + WRITE);
        memcpy(to + i, from + i, 64);
    }
    memcpy(to + i, from + i, (size_t)(bytes - i));
}

void td_end_streaming(void)
{
    td_fence();
}

/* A few rows at a time, so that the prefetched lines (of what lies behind these columns, which the caller takes next) are not
 * more than the first cache holds next to the rows that are being transposed. */
void td_transpose_ahead(size_t size, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t columns)
{
    enum { STRIP = 32 };
    const int64_t bytes = columns * (int64_t)size;
    for (int64_t r = 0; r < rows; r += STRIP, from += STRIP * from_row) {
        const int64_t n = rows - r < STRIP ? rows - r : STRIP;
        for (int64_t i = 0; i < n; i++)
            for (int64_t line = 0; line < bytes; line += 64)
                __builtin_prefetch(from + i * from_row + bytes + line);
        td_transpose_block(size, to + r * (int64_t)size, to_row, from, from_row, n, columns);
    }
}
