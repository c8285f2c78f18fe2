/* The rows of picking and placing, see index.h: one element after another, by size for copies, by type for sums. */
#include "base/base.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/move/index.h"

/* Complex128, as bits. */
typedef struct { uint64_t half[2]; } bytes16;
typedef struct { float re, im; } c64;
typedef struct { double re, im; } c128;

/* A row's fields in locals: what is stored through char pointers could change them otherwise. */
#define LOCALS                                                                                          \
    char *far = r->far, *near = r->near;                                                                \
    const int64_t *index = r->index, far_step = r->far_step, near_step = r->near_step, n = r->n,        \
                  index_step = r->index_step, reach = r->reach, range = r->range, *places = r->places;  \
    (void)near_step, (void)far_step, (void)n, (void)places
/* The bytes that index i stands for.  A negative one counts from `range`, which is 0 where there are none. */
#define OFFSET(i) ((index[(i) * index_step] + (index[(i) * index_step] < 0 ? range : 0)) * reach)

/* While a row is copied, what the next one reads is fetched, so that its misses don't wait for each other. */
enum { FETCH = 64 };
static inline void fetch(const void *at, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch((const char *)at + line);
}

/* One row of copies, by the first of these loops that fits: packed rows; an index and a row that are both contiguous, where the
 * latency of memory is what counts; the same with another reach; any steps. */
#define COPIES(T, name)                                                                 \
    static void get_##name(const td_index_row *r)                                       \
    {                                                                                   \
        LOCALS;                                                                         \
        if (places) {                                                                   \
            for (int64_t i = 0; i < n; i++)                                             \
                ((T *)near)[i] = *(const T *)(far + places[i] + index[i] * reach);      \
            return;                                                                     \
        }                                                                               \
        if (index_step == 1 && far_step == 0 && near_step == sizeof(T) && range == 0 && reach == sizeof(T)) { \
            for (int64_t from = 0; from < n; from += FETCH) {                           \
                const int64_t to = n - from < FETCH ? n : from + FETCH;                 \
                fetch(r->next_index + from, FETCH * 8);                                 \
                fetch((const T *)r->next_far + from, FETCH * sizeof(T));                \
                fetch((const T *)near + from + 2 * FETCH, FETCH * sizeof(T));           \
                _Pragma("omp simd")                                                     \
                for (int64_t i = from; i < to; i++)                                     \
                    ((T *)near)[i] = ((const T *)far)[index[i]];                        \
            }                                                                           \
            return;                                                                     \
        }                                                                               \
        if (index_step == 1 && far_step == 0 && near_step == sizeof(T) && range == 0) { \
            for (int64_t i = 0; i < n; i++)                                             \
                ((T *)near)[i] = *(const T *)(far + index[i] * reach);                  \
            return;                                                                     \
        }                                                                               \
        for (int64_t i = 0; i < n; i++)                                                 \
            *(T *)(near + i * near_step) = *(const T *)(far + i * far_step + OFFSET(i)); \
    }                                                                                   \
    static void set_##name(const td_index_row *r)                                       \
    {                                                                                   \
        LOCALS;                                                                         \
        for (int64_t i = 0; i < n && places; i++)                                       \
            *(T *)(far + places[i] + index[i] * reach) = ((const T *)near)[i];          \
        for (int64_t i = 0; i < n && !places; i++)                                      \
            *(T *)(far + i * far_step + OFFSET(i)) = *(const T *)(near + i * near_step); \
    }
COPIES(uint8_t, 1)
COPIES(uint16_t, 2)
COPIES(uint32_t, 4)
COPIES(uint64_t, 8)
COPIES(bytes16, 16)

/* A row that is combined with what is there (index_add, scatter_add, scatter_reduce): one element after the other, since two
 * indices may be equal.  Only where one index stands for the whole row are its elements distinct; that loop vectorises. */
#define FOLD(T, name, op, a, b, result)                                                 \
    static void op##_##name(const td_index_row *r)                                      \
    {                                                                                   \
        LOCALS;                                                                         \
        if (index_step == 0 && far_step == sizeof(T) && near_step == sizeof(T)) {       \
            T *to = (T *)(far + OFFSET(0));                                             \
            const T *from = (const T *)near;                                            \
            for (int64_t i = 0; i < n; i++) {                                           \
                T a = to[i], b = from[i];                                               \
                to[i] = result;                                                         \
            }                                                                           \
            return;                                                                     \
        }                                                                               \
        for (int64_t i = 0; i < n; i++) {                                               \
            T *to = (T *)(far + (places ? places[i] + index[i] * reach : i * far_step + OFFSET(i))); \
            T a = *to, b = *(const T *)(near + i * near_step);                          \
            *to = result;                                                               \
        }                                                                               \
    }

/* Integers wrap.  max and min keep a NaN of either side: one in b by b != b, one in a since nothing compares larger or smaller. */
#define NUMBERS(T, name)                                            \
    FOLD(T, name, add, a, b, (T)(a + b))                            \
    FOLD(T, name, mul, a, b, (T)(a * b))                            \
    FOLD(T, name, max, a, b, ((b > a) | (b != b)) ? b : a)          \
    FOLD(T, name, min, a, b, ((b < a) | (b != b)) ? b : a)
NUMBERS(uint8_t, u8)
NUMBERS(int8_t, i8)
NUMBERS(int16_t, i16)
NUMBERS(int32_t, i32)
NUMBERS(int64_t, i64)
NUMBERS(uint16_t, u16)
NUMBERS(uint32_t, u32)
NUMBERS(uint64_t, u64)
NUMBERS(float, f32)
NUMBERS(double, f64)

FOLD(uint8_t, bool, add, a, b, a | b)
FOLD(uint8_t, bool, mul, a, b, a & b)

/* Halves are rounded after every element: the result lies in memory as a half between two of them. */
#define HALVES(name, up, down)                                                                                    \
    FOLD(uint16_t, name, add, a, b, down(up(a) + up(b)))                                                          \
    FOLD(uint16_t, name, mul, a, b, down(up(a) * up(b)))                                                          \
    FOLD(uint16_t, name, max, a, b, ((up(b) > up(a)) | (up(b) != up(b))) ? b : a)                                 \
    FOLD(uint16_t, name, min, a, b, ((up(b) < up(a)) | (up(b) != up(b))) ? b : a)
HALVES(f16, td_f16_to_f32, td_f32_to_f16)
HALVES(bf16, td_bf16_to_f32, td_f32_to_bf16)

#define COMPLEX(T, name)                                                                                          \
    FOLD(T, name, add, a, b, ((T){a.re + b.re, a.im + b.im}))                                                     \
    FOLD(T, name, mul, a, b, ((T){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}))
COMPLEX(c64, c64)
COMPLEX(c128, c128)

/* A whole row that lies together on both sides. */
static void get_block(const td_index_row *r)
{
    LOCALS;
    memcpy(near, far + OFFSET(0), (size_t)(n * near_step));
}
/* Scattering goes in the other direction: from near to far. */
static void set_block(const td_index_row *r)
{
    LOCALS;
    memcpy(far + OFFSET(0), near, (size_t)(n * near_step));
}

/* The smallest and largest of n > 0 indices. */
static void range_of(const int64_t *index, int64_t n, int64_t *low, int64_t *high)
{
    int64_t a = index[0], b = index[0];
#pragma omp simd reduction(min : a) reduction(max : b)
    for (int64_t i = 0; i < n; i++) {
        a = index[i] < a ? index[i] : a;
        b = index[i] > b ? index[i] : b;
    }
    *low = a, *high = b;
}

#define EACH(op) {[TD_BOOL] = op##_u8, [TD_U8] = op##_u8, [TD_I8] = op##_i8, [TD_I16] = op##_i16, [TD_I32] = op##_i32,  \
    [TD_I64] = op##_i64, [TD_U16] = op##_u16, [TD_U32] = op##_u32, [TD_U64] = op##_u64, [TD_F16] = op##_f16,          \
    [TD_BF16] = op##_bf16, [TD_F32] = op##_f32, [TD_F64] = op##_f64}
extern const td_index_table TD_ISA_NAME(td_index_table);
const td_index_table TD_ISA_NAME(td_index_table) = {
    .get = {[1] = get_1, [2] = get_2, [4] = get_4, [8] = get_8, [16] = get_16},
    .set = {[1] = set_1, [2] = set_2, [4] = set_4, [8] = set_8, [16] = set_16},
    .get_block = get_block, .set_block = set_block, .range = range_of,
    .fold = {[TD_PLACE_ADD] = {[TD_BOOL] = add_bool, [TD_U8] = add_u8, [TD_I8] = add_i8, [TD_I16] = add_i16, [TD_I32] = add_i32,
        [TD_I64] = add_i64, [TD_U16] = add_u16, [TD_U32] = add_u32, [TD_U64] = add_u64, [TD_F16] = add_f16,
        [TD_BF16] = add_bf16, [TD_F32] = add_f32, [TD_F64] = add_f64, [TD_C64] = add_c64, [TD_C128] = add_c128},
    [TD_PLACE_MUL] = {[TD_BOOL] = mul_bool, [TD_U8] = mul_u8, [TD_I8] = mul_i8, [TD_I16] = mul_i16, [TD_I32] = mul_i32,
        [TD_I64] = mul_i64, [TD_U16] = mul_u16, [TD_U32] = mul_u32, [TD_U64] = mul_u64, [TD_F16] = mul_f16,
        [TD_BF16] = mul_bf16, [TD_F32] = mul_f32, [TD_F64] = mul_f64, [TD_C64] = mul_c64, [TD_C128] = mul_c128},
    [TD_PLACE_MAX] = EACH(max),
    [TD_PLACE_MIN] = EACH(min),
    },
};
