/* Orders of rows: sort, topk, kthvalue, medians, mode.
 *
 * Elements become unsigned keys that sort as they do, NaN above everything, -0 equal to 0, the bits inverted for descending order.  Keys with their
 * indices are all different, so any correct order is stable.  A group sorts a block of BLOCK of them, or several short rows at a time, in
 * shared memory (a bitonic network); longer rows' blocks are merged in pairs, an item finding its position by bisection in the other run.
 * Rows of SORT_RADIX and more are sorted by digits of eight bits, the lowest first: how often each comes in a tile is counted, a scan of that says
 * where a tile's elements with it go, and each tile, in order of the digit, is written there in runs.
 * Where the first few alone are wanted, each block passes only so many on, until one block is left.
 *
 * A: of the elements; ORDER: how they are ordered; KEY64: whether keys have 64 bits. */
#include "kernels/device/group.ck"

#define ORDER_INT   0       /* computed in int32_t */
#define ORDER_U32   1
#define ORDER_I64   2
#define ORDER_U64   3
#define ORDER_FLOAT 4       /* computed in float */
#define ORDER_F64   5

#define SORT_BLOCK 1024
#define SORT_RADIX 32768
#define SORT_TILE  1024     /* elements of a tile with keys of 64 bits; of 32 bits: twice as many */
#define SORT_LANES 256      /* at most: shared memory has counters for each */
#define DIGITS     256

#define PICK_KTH       0
#define PICK_MEDIAN    1
#define PICK_NANMEDIAN 2

typedef struct sort_values {
    int64_t rows, n, blocks, size, together;        /* size: of a block, a power of two; rows that a group sorts together */
    int64_t kept, left;                             /* elements that a block passes on; of a row then */
    int64_t run, descending, first, k, what, indices;
    int64_t bit, bias;                              /* of a digit: where it begins, and what makes keys of few bits ones without a sign */
} sort_values;

#ifndef TD_HOST
#if KEY64
typedef uint64_t sort_key;
#define HIGHEST (~(uint64_t)0)
#define TOP ((uint64_t)1 << 63)
#else
typedef uint32_t sort_key;
#define HIGHEST (~(uint32_t)0)
#define TOP ((uint32_t)1 << 31)
#endif

static sort_key key_of(A raw, int descending)
{
    sort_key key;
#if ORDER >= ORDER_FLOAT
    const A_C x = A_LOAD(raw);
#if ORDER == ORDER_F64
    const sort_key bits = x == 0 ? 0 : td_f64_bits(x);
#else
    const sort_key bits = x == 0 ? 0 : td_f32_bits(x);
#endif
    key = x != x ? HIGHEST : bits & TOP ? ~bits : bits | TOP;
#elif ORDER == ORDER_INT || ORDER == ORDER_I64
    key = (sort_key)A_LOAD(raw) ^ TOP;
#else
    key = (sort_key)raw;
#endif
    return descending ? ~key : key;
}

/* Kernels that make one order of another have the same buffers, whether they read all of them or not. */
#define KEY_AT(i) (v.first ? key_of(AT(const A, x)[i], (int)v.descending) : AT(const sort_key, keys)[i])

KERNEL sort_blocks(BUFFER(x), BUFFER(keys), BUFFER(index), BUFFER(ends), BUFFER(to_keys), BUFFER(to_index), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    SHARED sort_key key[SORT_BLOCK];
    SHARED uint32_t at[SORT_BLOCK];
    const int size = (int)v.size, all = size * (int)v.together;
    for (int64_t unit = GROUP; unit < divided(v.rows * v.blocks + v.together - 1, v.together); unit += GROUPS) {
        for (int i = LANE; i < all; i += LANES) {
            const int64_t block = unit * v.together + i / size, row = divided(block, v.blocks), in = (block - row * v.blocks) * size + i % size;
            const int there = row < v.rows && in < v.n;
            key[i] = HIGHEST;
            at[i] = ~(uint32_t)0;
            if (there) {
                key[i] = KEY_AT(row * v.n + in);
                at[i] = v.first ? (uint32_t)in : AT(const uint32_t, index)[row * v.n + in];
            }
        }
        for (int span = 2; span <= size; span *= 2)
            for (int step = span / 2; step > 0; step /= 2) {
                BARRIER;
                for (int p = LANE; p < all / 2; p += LANES) {
                    const int i = (p & ~(step - 1)) * 2 + (p & (step - 1)), j = i + step, up = !(i & (size - 1) & span);
                    const sort_key a = key[i], b = key[j];
                    const uint32_t c = at[i], d = at[j];
                    if ((b < a || (b == a && d < c)) == up) {
                        key[i] = b, key[j] = a;
                        at[i] = d, at[j] = c;
                    }
                }
            }
        BARRIER;
        for (int i = LANE; i < all; i += LANES) {
            const int64_t block = unit * v.together + i / size, row = divided(block, v.blocks), own = block - row * v.blocks, in = i % size;
            if (row < v.rows && in < v.kept && own * size + in < v.n) {
                AT(sort_key, to_keys)[row * v.left + own * v.kept + in] = key[i];
                AT(uint32_t, to_index)[row * v.left + own * v.kept + in] = at[i];
            }
        }
        BARRIER;
    }
}

/* ---- by digits */

#define TILE ((2 - KEY64) * SORT_TILE)
#define EACH (TILE / WIDTH)
#define DIGIT(key) ((int)(((key) + (sort_key)v.bias) >> v.bit) & (DIGITS - 1))

/* counts: of each row by digits, of a digit by tiles. */
KERNEL sort_count(BUFFER(x), BUFFER(keys), BUFFER(counts), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    SHARED uint32_t count[DIGITS];
    for (int64_t unit = GROUP; unit < v.rows * v.blocks; unit += GROUPS) {
        const int64_t row = divided(unit, v.blocks), tile = unit - row * v.blocks;
        const int all = v.n - tile * TILE < TILE ? (int)(v.n - tile * TILE) : TILE;
        for (int d = LANE; d < DIGITS; d += LANES)
            count[d] = 0;
        BARRIER;
        for (int i = LANE; i < all; i += LANES) {
            const sort_key key = KEY_AT(row * v.n + tile * TILE + i);
            ATOMIC_COUNT_SHARED(count + DIGIT(key));
        }
        BARRIER;
        for (int d = LANE; d < DIGITS; d += LANES)
            AT(uint32_t, counts)[(row * DIGITS + d) * v.blocks + tile] = count[d];
        BARRIER;
    }
}

/* A tile is brought into the order of a digit by its lower and then its upper four bits: each lane counts those of its own neighbours, which a scan by
 * bits and lanes makes positions.  `ends`: running sums of counts. */
KERNEL sort_scatter(BUFFER(x), BUFFER(keys), BUFFER(index), BUFFER(ends), BUFFER(to_keys), BUFFER(to_index), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    SHARED sort_key key[TILE];
    SHARED uint32_t at[TILE], sums[WIDTH], base[DIGITS];
    SHARED uint16_t place[16 * WIDTH];
    for (int64_t unit = GROUP; unit < v.rows * v.blocks; unit += GROUPS) {
        const int64_t row = divided(unit, v.blocks), tile = unit - row * v.blocks, start = row * v.n + tile * TILE;
        const int all = v.n - tile * TILE < TILE ? (int)(v.n - tile * TILE) : TILE;
        for (int i = LANE; i < all; i += LANES) {
            key[i] = KEY_AT(start + i);
            at[i] = v.first ? (uint32_t)(tile * TILE + i) : AT(const uint32_t, index)[start + i];
        }
        for (int half_ = 0; half_ < 8; half_ += 4) {
            sort_key own[EACH];
            uint32_t from[EACH], sum = 0;
            BARRIER;
            for (int d = 0; d < 16; d++)
                place[d * WIDTH + LANE] = 0;
            UNROLL for (int e = 0; e < EACH; e++)
                if (LANE * EACH + e < all) {
                    own[e] = key[LANE * EACH + e], from[e] = at[LANE * EACH + e];
                    place[(DIGIT(own[e]) >> half_ & 15) * WIDTH + LANE]++;
                }
            BARRIER;
            for (int d = 0; d < 16; d++)
                sum += place[LANE * 16 + d];
            sums[LANE] = sum;
            for (int step = 1; step < WIDTH; step *= 2) {
                BARRIER;
                const uint32_t other = LANE >= step ? sums[LANE - step] : 0;
                BARRIER;
                sums[LANE] += other;
            }
            sum = sums[LANE] - sum;
            for (int d = 0; d < 16; d++) {
                const uint32_t here = place[LANE * 16 + d];
                place[LANE * 16 + d] = (uint16_t)sum;
                sum += here;
            }
            BARRIER;
            UNROLL for (int e = 0; e < EACH; e++)
                if (LANE * EACH + e < all) {
                    const int to = place[(DIGIT(own[e]) >> half_ & 15) * WIDTH + LANE]++;
                    key[to] = own[e], at[to] = from[e];
                }
        }
        BARRIER;
        for (int i = LANE; i < all; i += LANES)
            if (i == 0 || DIGIT(key[i]) != DIGIT(key[i - 1])) {
                const int64_t slot = (int64_t)DIGIT(key[i]) * v.blocks + tile;
                base[DIGIT(key[i])] = (slot ? AT(const uint32_t, ends)[row * DIGITS * v.blocks + slot - 1] : 0) - (uint32_t)i;
            }
        BARRIER;
        for (int i = LANE; i < all; i += LANES) {
            const int64_t to = row * v.n + (int64_t)(uint32_t)(base[DIGIT(key[i])] + (uint32_t)i);
            AT(sort_key, to_keys)[to] = key[i];
            AT(uint32_t, to_index)[to] = at[i];
        }
        BARRIER;
    }
}

/* How many of `keys` are below `key`, or not above it. */
static int64_t below(GLOBAL const sort_key *keys, int64_t n, sort_key key, int equal)
{
    int64_t low = 0;
    while (n > 0) {
        const int64_t half_ = n / 2;
        const sort_key other = keys[low + half_];
        if (other < key || (equal && other == key)) {
            low += half_ + 1;
            n -= half_ + 1;
        } else {
            n = half_;
        }
    }
    return low;
}

KERNEL sort_merge(BUFFER(x), BUFFER(keys), BUFFER(index), BUFFER(ends), BUFFER(to_keys), BUFFER(to_index), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    for (int64_t at = ITEM; at < v.rows * v.n; at += ITEMS) {
        const int64_t row = divided(at, v.n), i = at - row * v.n, first = divided(i, 2 * v.run) * 2 * v.run;
        const int64_t middle = first + v.run < v.n ? first + v.run : v.n, end = middle + v.run < v.n ? middle + v.run : v.n;
        GLOBAL const sort_key *from = AT(const sort_key, keys) + row * v.n;
        const sort_key key = from[i];
        const int64_t place = i < middle ? i + below(from + middle, end - middle, key, 0) : i - middle + first + below(from + first, middle - first, key, 1);
        AT(sort_key, to_keys)[row * v.n + place] = key;
        AT(uint32_t, to_index)[row * v.n + place] = AT(const uint32_t, index)[at];
    }
}

/* The first k of each row: n elements in x, `left` in the order. */
KERNEL sort_store(BUFFER(x), BUFFER(index), BUFFER(values), BUFFER(indices), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    for (int64_t at = ITEM; at < v.rows * v.k; at += ITEMS) {
        const int64_t row = divided(at, v.k), from = (int64_t)AT(const uint32_t, index)[row * v.left + at - row * v.k];
        AT(A, values)[at] = AT(const A, x)[row * v.n + from];
        if (v.indices)
            AT(int64_t, indices)[at] = from;
    }
}

/* One element of each row. */
KERNEL sort_pick(BUFFER(x), BUFFER(keys), BUFFER(index), BUFFER(values), BUFFER(indices), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    for (int64_t row = ITEM; row < v.rows; row += ITEMS) {
        int64_t place = v.k - 1, numbers = v.n;
#if ORDER >= ORDER_FLOAT
        numbers = below(AT(const sort_key, keys) + row * v.n, v.n, HIGHEST, 0);
#endif
        if (v.what == PICK_MEDIAN)
            place = numbers < v.n ? numbers : (v.n - 1) / 2;
        else if (v.what == PICK_NANMEDIAN)
            place = numbers ? (numbers - 1) / 2 : 0;
        const int64_t from = (int64_t)AT(const uint32_t, index)[row * v.n + place];
        AT(A, values)[row] = AT(const A, x)[row * v.n + from];
        if (v.indices)
            AT(int64_t, indices)[row] = from;
    }
}

/* The last of the longest run of equal elements, of equally long ones the first run. */
typedef struct run_of { int64_t length, end; } run_of;
static run_of longer(run_of a, run_of b)
{
    return b.length > a.length || (b.length == a.length && b.end < a.end) ? b : a;
}
KERNEL sort_mode(BUFFER(x), BUFFER(keys), BUFFER(index), BUFFER(values), BUFFER(indices), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    SHARED run_of room[WIDTH];
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const sort_key *from = AT(const sort_key, keys) + row * v.n;
        int64_t n = v.n;
#if ORDER >= ORDER_FLOAT
        n = below(from, n, HIGHEST, 0);
        n = n ? n : 1;
#endif
        run_of best = {0, 0};
        for (int64_t i = LANE; i < n; i += LANES)
            if (i + 1 == n || from[i] != from[i + 1]) {
                run_of own = {i + 1 - below(from, i + 1, from[i], 0), i};
                best = longer(best, own);
            }
        GROUP_FOLD(run_of, room, best, longer);
        if (LANE == 0) {
            const int64_t at = (int64_t)AT(const uint32_t, index)[row * v.n + best.end];
            AT(A, values)[row] = AT(const A, x)[row * v.n + at];
            AT(int64_t, indices)[row] = at;
        }
    }
}

/* ---- unique: what begins a run of equal elements, and then, where it is known how many have begun before, what each is */

#if ORDER >= ORDER_FLOAT
#define SAME(a, b) (A_LOAD(a) == A_LOAD(b))
#else
#define SAME(a, b) ((a) == (b))
#endif
KERNEL unique_starts(BUFFER(x), BUFFER(starts), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS)
        AT(int64_t, starts)[i] = i == 0 || !SAME(AT(const A, x)[i], AT(const A, x)[i - 1]);
}
/* `before`: running sums of starts; `begins`: where runs begin, with the end of the last one. */
KERNEL unique_store(BUFFER(x), BUFFER(order), BUFFER(before), BUFFER(values), BUFFER(inverse), BUFFER(begins), VALUES(sort_values, v))
{
    UNPACK(sort_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t own = AT(const int64_t, before)[i] - 1;
        if (i == 0 || AT(const int64_t, before)[i - 1] - 1 != own) {
            AT(A, values)[own] = AT(const A, x)[i];
            AT(int64_t, begins)[own] = i;
        }
        if (i + 1 == v.n)
            AT(int64_t, begins)[own + 1] = v.n;
        if (v.indices)
            AT(int64_t, inverse)[v.first ? AT(const int64_t, order)[i] : i] = own;
    }
}
#endif
