/* The loops behind td_picking, see index.h. */
#include "kernels/cpu/index.h"

#include <tede/kernel.h>
#include "base/base.h"
#include "ops/iterator.h"

typedef struct { uint64_t half[2]; } bytes16;
typedef struct { float re, im; } c64;
typedef struct { double re, im; } c128;

typedef struct row {
    char          *far, *near;
    const int64_t *index;
    int64_t        far_step, near_step, index_step, reach, range, n;
} row;
typedef void row_loop(const row *r);

static inline int64_t wrapped(const row *r, int64_t i)
{
    int64_t at = r->index[i * r->index_step];
    return (at + (at < 0 ? r->range : 0)) * r->reach;
}

/* One row of copies.  An index that stays the same makes it a strided copy. */
#define COPIES(T, name)                                                                     \
    static void get_##name(const row *r)                                                    \
    {                                                                                       \
        for (int64_t i = 0; i < r->n; i++)                                                  \
            *(T *)(r->near + i * r->near_step) = *(const T *)(r->far + i * r->far_step + wrapped(r, i)); \
    }                                                                                       \
    static void set_##name(const row *r)                                                    \
    {                                                                                       \
        for (int64_t i = 0; i < r->n; i++)                                                  \
            *(T *)(r->far + i * r->far_step + wrapped(r, i)) = *(const T *)(r->near + i * r->near_step); \
    }
COPIES(uint8_t, 1)
COPIES(uint16_t, 2)
COPIES(uint32_t, 4)
COPIES(uint64_t, 8)
COPIES(bytes16, 16)

#define FOLD(T, name, op, a, b, result)                                                     \
    static void op##_##name(const row *r)                                                   \
    {                                                                                       \
        if (r->index_step == 0 && r->far_step == sizeof(T) && r->near_step == sizeof(T)) {  \
            T *to = (T *)(r->far + wrapped(r, 0));                                          \
            const T *from = (const T *)r->near;                                             \
            for (int64_t i = 0; i < r->n; i++) {                                            \
                T a = to[i], b = from[i];                                                   \
                to[i] = result;                                                             \
            }                                                                               \
            return;                                                                         \
        }                                                                                   \
        for (int64_t i = 0; i < r->n; i++) {                                                \
            T *to = (T *)(r->far + i * r->far_step + wrapped(r, i));                        \
            T a = *to, b = *(const T *)(r->near + i * r->near_step);                        \
            *to = result;                                                                   \
        }                                                                                   \
    }

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
static void get_block(const row *r) { memcpy(r->near, r->far + wrapped(r, 0), (size_t)(r->n * r->near_step)); }
static void set_block(const row *r) { memcpy(r->far + wrapped(r, 0), r->near, (size_t)(r->n * r->near_step)); }

static row_loop *const gets[] = {[1] = get_1, [2] = get_2, [4] = get_4, [8] = get_8, [16] = get_16};
static row_loop *const sets[] = {[1] = set_1, [2] = set_2, [4] = set_4, [8] = set_8, [16] = set_16};

#define EACH(op) {[TD_BOOL] = op##_u8, [TD_U8] = op##_u8, [TD_I8] = op##_i8, [TD_I16] = op##_i16, [TD_I32] = op##_i32,  \
    [TD_I64] = op##_i64, [TD_U16] = op##_u16, [TD_U32] = op##_u32, [TD_U64] = op##_u64, [TD_F16] = op##_f16,          \
    [TD_BF16] = op##_bf16, [TD_F32] = op##_f32, [TD_F64] = op##_f64}
static row_loop *const folds[][TD_DTYPES] = {
    [TD_PLACE_ADD] = {[TD_BOOL] = add_bool, [TD_U8] = add_u8, [TD_I8] = add_i8, [TD_I16] = add_i16, [TD_I32] = add_i32,
        [TD_I64] = add_i64, [TD_U16] = add_u16, [TD_U32] = add_u32, [TD_U64] = add_u64, [TD_F16] = add_f16,
        [TD_BF16] = add_bf16, [TD_F32] = add_f32, [TD_F64] = add_f64, [TD_C64] = add_c64, [TD_C128] = add_c128},
    [TD_PLACE_MUL] = {[TD_BOOL] = mul_bool, [TD_U8] = mul_u8, [TD_I8] = mul_i8, [TD_I16] = mul_i16, [TD_I32] = mul_i32,
        [TD_I64] = mul_i64, [TD_U16] = mul_u16, [TD_U32] = mul_u32, [TD_U64] = mul_u64, [TD_F16] = mul_f16,
        [TD_BF16] = mul_bf16, [TD_F32] = mul_f32, [TD_F64] = mul_f64, [TD_C64] = mul_c64, [TD_C128] = mul_c128},
    [TD_PLACE_MAX] = EACH(max),
    [TD_PLACE_MIN] = EACH(min),
};

static bool mergeable(const td_picking *p, int outer, int inner)
{
    int64_t n = p->sizes[inner];
    return p->far[outer] == p->far[inner] * n && p->near[outer] == p->near[inner] * n && p->along[outer] == p->along[inner] * n;
}

static void take_dim(td_picking *p, int to, int from)
{
    p->sizes[to] = p->sizes[from], p->far[to] = p->far[from], p->near[to] = p->near[from], p->along[to] = p->along[from];
}

/* Without dimensions of size 1, neighbours merged: at least one is left. */
static void simplify(td_picking *p)
{
    int kept = 0;
    for (int d = 0; d < p->ndim; d++)
        if (p->sizes[d] != 1)
            take_dim(p, kept++, d);
    int last = 0;
    for (int d = 1; d < kept; d++) {
        if (mergeable(p, last, d)) {
            int64_t n = p->sizes[last];
            take_dim(p, last, d);
            p->sizes[last] *= n;
        } else {
            take_dim(p, ++last, d);
        }
    }
    p->ndim = last + 1;
    if (kept == 0)
        p->sizes[0] = 1, p->far[0] = p->near[0] = p->along[0] = 0;
}

typedef struct pick_job { const td_picking *p; row_loop *loop; } pick_job;

static void rows(void *context, int64_t from, int64_t to)
{
    const pick_job *j = context;
    const td_picking *p = j->p;
    int last = p->ndim - 1;
    int64_t at[TD_MAX_DIMS], rest = from;
    row r = {.far = p->far_data, .near = p->near_data, .index = p->index, .far_step = p->far[last],
             .near_step = p->near[last], .index_step = p->along[last], .reach = p->reach, .range = p->range,
             .n = p->sizes[last]};
    for (int d = last; d-- > 0;) {
        at[d] = rest % p->sizes[d];
        rest /= p->sizes[d];
        r.far += at[d] * p->far[d], r.near += at[d] * p->near[d], r.index += at[d] * p->along[d];
    }
    for (int64_t i = from; i < to; i++) {
        j->loop(&r);
        for (int d = last; d-- > 0;) {
            r.far += p->far[d], r.near += p->near[d], r.index += p->along[d];
            if (++at[d] < p->sizes[d])
                break;
            at[d] = 0;
            r.far -= p->sizes[d] * p->far[d], r.near -= p->sizes[d] * p->near[d], r.index -= p->sizes[d] * p->along[d];
        }
    }
}

void td_pick_run(td_picking *p)
{
    int64_t size = td_itemsizes[p->dtype];
    simplify(p);
    int64_t count = 1, last = p->ndim - 1;
    for (int d = 0; d < last; d++)
        count *= p->sizes[d];
    if (count == 0 || p->sizes[last] == 0)
        return;
    bool block = p->along[last] == 0 && p->far[last] == size && p->near[last] == size;
    pick_job j = {p, NULL};
    if (p->what == TD_PLACE_GET)
        j.loop = block ? get_block : gets[size];
    else if (p->what == TD_PLACE_SET)
        j.loop = block ? set_block : sets[size];
    else
        j.loop = folds[p->what][p->dtype];
    int64_t grain = TD_THREAD_WORK / p->sizes[last] + 1;
    if (p->what == TD_PLACE_GET)
        td_parallel_for(0, count, grain, rows, &j);
    else
        rows(&j, 0, count);
}

void td_index_range(const int64_t *index, int64_t n, int64_t *low, int64_t *high)
{
    int64_t a = n ? index[0] : 0, b = n ? index[0] : -1;
    for (int64_t i = 0; i < n; i++) {
        a = index[i] < a ? index[i] : a;
        b = index[i] > b ? index[i] : b;
    }
    *low = a, *high = b;
}
