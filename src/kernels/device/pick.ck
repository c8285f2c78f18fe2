/* Gather, scatter and what else is a td_picking (ops/index/kernels.h): a work item for each element of the index space, or each pack of what lies
 * side by side.  And what bodies need to know of indices and masks: the range of indices, the positions of true elements.
 *
 * A: elements, of which those that are only moved (WHAT below 2) are integers, PACK of them at once.  WHAT: td_place; products of complex numbers, which
 * no atomic operation is wide enough for, are of runs of elements that are sorted by where they go. */
#include "kernels/device/group.ck"

/* Dimensions from the outermost; strides in bytes, of the index in elements. */
enum { PICK_DIMS = 8 };
typedef struct pick_values {
    int64_t n, ndim, reach, range, sizes[PICK_DIMS], far[PICK_DIMS], near[PICK_DIMS], along[PICK_DIMS];
    index_limits limits;
} pick_values;
typedef struct index_values { int64_t n, size, reach; index_limits limits; } index_values;
/* An offset that stands for an index outside of its limits: nothing is there. */
#define NOWHERE (-INT64_MAX)
/* Parts of `each` elements, a group's work; strides of the coordinates. */
typedef struct mask_values { int64_t n, parts, each; } mask_values;
typedef struct coordinate_values { int64_t n, ndim, step, across, sizes[PICK_DIMS]; } coordinate_values;

#ifndef TD_HOST
#ifdef WHAT
/* Addresses of element i, of which the far one is NULL where the index is outside of its limits. */
#define FIND(i, to, from)                                                               \
    do {                                                                                \
        int64_t there_ = 0, here_ = 0, at_ = 0, rest_ = (i);                            \
        for (int d_ = (int)v.ndim - 1; d_ >= 0; d_--) {                                 \
            const int64_t over_ = d_ ? divided(rest_, v.sizes[d_]) : 0, k_ = rest_ - over_ * v.sizes[d_];      \
            rest_ = over_;                                                              \
            there_ += k_ * v.far[d_], here_ += k_ * v.near[d_], at_ += k_ * v.along[d_]; \
        }                                                                               \
        const int64_t where_ = AT(const int64_t, index)[at_];                           \
        (from) = AT(char, near) + here_;                                                \
        if (IS_WITHIN(where_, v.limits)) {                                              \
            (to) = AT(char, far) + there_ + (where_ + (where_ < 0 ? v.range : 0)) * v.reach; \
        } else {                                                                        \
            (to) = 0;                                                                   \
            NOTE_INDEX(late, where_, v.limits);                                         \
        }                                                                               \
    } while (0)
#if WHAT < 2
PACK_TYPE(A, pack_of_a);
enum { AT_ONCE = 4 };           /* loads that a work item doesn't wait for */
KERNEL pick(BUFFER(far), BUFFER(near), BUFFER(index), BUFFER(late), VALUES(pick_values, v))
{
    UNPACK(pick_values, v)
    for (int64_t first = ITEM; first < v.n; first += AT_ONCE * ITEMS) {
        GLOBAL char *to[AT_ONCE];
        pack_of_a x[AT_ONCE];
        UNROLL for (int k = 0; k < AT_ONCE; k++)
            if (first + k * ITEMS < v.n) {
                GLOBAL char *from;
#if WHAT == 0
                FIND(first + k * ITEMS, from, to[k]);
                if (from)
                    x[k] = GET_PACK((GLOBAL const pack_of_a *)from);
                else
                    EACH_OF_PACK(j) x[k].at[j] = 0;
#else
                FIND(first + k * ITEMS, to[k], from);
                x[k] = GET_PACK((GLOBAL const pack_of_a *)from);
#endif
            }
        UNROLL for (int k = 0; k < AT_ONCE; k++)
            if (first + k * ITEMS < v.n && (WHAT == 0 || to[k]))
                SET_PACK((GLOBAL pack_of_a *)to[k], x[k]);
    }
}
#elif A_COMPLEX
/* Of each element where it goes and where it is: two rows of offsets in bytes. */
KERNEL pick_places(BUFFER(far), BUFFER(near), BUFFER(index), BUFFER(places), BUFFER(late), VALUES(pick_values, v))
{
    UNPACK(pick_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        GLOBAL char *to, *from;
        FIND(i, to, from);
        AT(int64_t, places)[i] = to ? to - AT(char, far) : NOWHERE;
        AT(int64_t, places)[v.n + i] = from - AT(char, near);
    }
}

KERNEL pick_runs(BUFFER(far), BUFFER(near), BUFFER(sorted), BUFFER(order), BUFFER(places), VALUES(pick_values, v))
{
    UNPACK(pick_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t at = AT(const int64_t, sorted)[i];
        if (at == NOWHERE || (i && AT(const int64_t, sorted)[i - 1] == at))
            continue;
        GLOBAL A *to = (GLOBAL A *)(AT(char, far) + at);
        A product = *to;
        for (int64_t j = i; j < v.n && AT(const int64_t, sorted)[j] == at; j++)
            product = A_MUL(product, *(GLOBAL const A *)(AT(char, near) + AT(const int64_t, places)[v.n + AT(const int64_t, order)[j]]));
        *to = product;
    }
}
#else
/* What an element becomes, as it is stored. */
static A joined(A stored, A placed)
{
    const A_C a = A_LOAD(stored), b = A_LOAD(placed);
#if WHAT == 2
    return A_STORE(a + b);
#elif WHAT == 3
    return A_STORE(a * b);
#elif WHAT == 4
    return A_STORE(a != a || a > b ? a : b);
#else
    return A_STORE(a != a || a < b ? a : b);
#endif
}
#if A_FLOATING && SIZE == 4
#define BITS_OF(x) td_f32_bits(x)
#define OF_BITS(x) td_bits_f32(x)
#elif A_FLOATING && SIZE == 8
#define BITS_OF(x) td_f64_bits(x)
#define OF_BITS(x) td_bits_f64(x)
#else
#define BITS_OF(x) (x)
#define OF_BITS(x) ((A)(x))
#endif
/* Several may meet at an element.  Small elements are changed with the word that they are in. */
static void place(GLOBAL A *to, A x)
{
#if SIZE == 8
    CHANGE(uint64_t, ATOMIC_SWAP64, to, now, (uint64_t)BITS_OF(joined(OF_BITS(now), x)));
#elif SIZE == 4
    CHANGE(uint32_t, ATOMIC_SWAP32, to, now, (uint32_t)BITS_OF(joined(OF_BITS(now), x)));
#else
    const int shift = (int)((size_t)to & 3) * 8;
    const uint32_t mask = SIZE == 1 ? 0xffu : 0xffffu;
    CHANGE(uint32_t, ATOMIC_SWAP32, (GLOBAL char *)to - shift / 8, now,
           (now & ~(mask << shift)) | ((uint32_t)joined((A)(now >> shift & mask), x) & mask) << shift);
#endif
}

KERNEL pick(BUFFER(far), BUFFER(near), BUFFER(index), BUFFER(late), VALUES(pick_values, v))
{
    UNPACK(pick_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        GLOBAL char *to, *from;
        FIND(i, to, from);
        if (!to)
            continue;
#if WHAT == 2 && A_FLOATING && SIZE == 4 && defined ATOMIC_ADD
        ATOMIC_ADD((GLOBAL A *)to, *(GLOBAL const A *)from);
#else
        place((GLOBAL A *)to, *(GLOBAL const A *)from);
#endif
    }
}
#endif
#else

/* The lowest and the highest index that each group has seen. */
KERNEL index_bounds(BUFFER(index), BUFFER(bounds), VALUES(index_values, v))
{
    UNPACK(index_values, v)
    SHARED int64_t room[WIDTH];
    int64_t low = INT64_MAX, high = -INT64_MAX;
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t x = AT(const int64_t, index)[i];
        low = LOWER(low, x), high = HIGHER(high, x);
    }
    GROUP_FOLD(int64_t, room, low, LOWER);
    GROUP_FOLD(int64_t, room, high, HIGHER);
    if (LANE == 0)
        AT(int64_t, bounds)[2 * GROUP] = low, AT(int64_t, bounds)[2 * GROUP + 1] = high;
}

KERNEL index_fold(BUFFER(offsets), BUFFER(index), BUFFER(late), VALUES(index_values, v))
{
    UNPACK(index_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t x = AT(const int64_t, index)[i], before = AT(const int64_t, offsets)[i];
        if (!IS_WITHIN(x, v.limits)) {
            AT(int64_t, offsets)[i] = NOWHERE;
            NOTE_INDEX(late, x, v.limits);
        } else if (before != NOWHERE) {
            AT(int64_t, offsets)[i] = before + (x + (x < 0 ? v.size : 0)) * v.reach;
        }
    }
}

KERNEL count_true(BUFFER(mask), BUFFER(counts), VALUES(mask_values, v))
{
    UNPACK(mask_values, v)
    SHARED int64_t room[WIDTH];
    for (int64_t part = GROUP; part < v.parts; part += GROUPS) {
        const int64_t start = part * v.each, end = LOWER(start + v.each, v.n);
        int64_t count = 0;
        for (int64_t i = start + LANE; i < end; i += LANES)
            count += AT(const uint8_t, mask)[i] != 0;
        GROUP_FOLD(int64_t, room, count, PLUS);
        if (LANE == 0)
            AT(int64_t, counts)[part] = count;
    }
}

/* Each part's from where `starts` says: as many elements as there are lanes at a time, numbered by a sum over the lanes before. */
KERNEL true_positions(BUFFER(mask), BUFFER(starts), BUFFER(positions), VALUES(mask_values, v))
{
    UNPACK(mask_values, v)
    SHARED int room[WIDTH];
    for (int64_t part = GROUP; part < v.parts; part += GROUPS) {
        const int64_t start = part * v.each, end = LOWER(start + v.each, v.n);
        int64_t next = AT(const int64_t, starts)[part];
        for (int64_t first = start; first < end; first += LANES) {
            const int64_t i = first + LANE;
            const int is = i < end && AT(const uint8_t, mask)[i] != 0;
            GROUP_SCAN(int, room, is, PLUS);
            if (is)
                AT(int64_t, positions)[next + room[LANE] - 1] = i;
            next += room[LANES - 1];
            BARRIER;
        }
    }
}

KERNEL coordinates(BUFFER(positions), BUFFER(out), VALUES(coordinate_values, v))
{
    UNPACK(coordinate_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        int64_t rest = AT(const int64_t, positions)[i];
        for (int d = (int)v.ndim - 1; d >= 0; d--) {
            AT(int64_t, out)[i * v.step + d * v.across] = d ? rest % v.sizes[d] : rest;
            rest /= v.sizes[d];
        }
    }
}
#endif
#endif
