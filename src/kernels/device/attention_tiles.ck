/* attention.ck for float16 and bfloat16 by matrix units (tiles.ck), as in FlashAttention-2 (Dao, 2023): each warp has 16 rows in registers, of
 * queries, or of keys for the gradients of keys and values, and a group goes along tiles of COLUMNS rows of the others, of which the next
 * ones are fetched while it multiplies.  Scores never leave the registers.  Probabilities are rounded to A before they are multiplied; their sums
 * are of what they were before.
 *
 * D: the widths, rounded up to 64 or 128, on which the depth of the loops over registers depends; rows lie at multiples of 16 bytes.  BLOCKS: groups that a multiprocessor should hold. */
#include "kernels/device/group.ck"
#include "kernels/device/attention_values.ck"
#include "kernels/device/tiles.ck"

#ifndef TD_HOST
#define ROWS (WIDTH / 2)                /* 16 for each warp */
#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

/* In the room of four tiles: two each of the two tensors that the group goes along. */
#define TILE_OF(tensor, i) (room + (2 * ((i) & 1) + (tensor)) * COLUMNS * D)

#define HEAD(x, s, b, h) (AT(const A, x) + (b) * (s).batch + (h) * (s).head)

/* This warp's rows, through the room; all of the group come here, and may use it afterwards. */
#define FETCH_LEFT(left, x, s, x0, n, width)        \
    do {                                            \
        FETCH(room, ROWS, x, (s).row, x0, n, width) \
        FETCHED;                                    \
        AWAIT(0);                                   \
        BARRIER;                                    \
        LOAD_LEFT(left, room, LANE / 32 * 16);      \
        BARRIER;                                    \
    } while (0)

/* Scores are kept as they are multiplied, with UNIT to make them powers of 2 of, which is positive; with numbers for a mask, in that unit. */
#if MASK == 2
#define UNIT 1.0f
#else
#define UNIT scale_2
#endif

/* Scores s[COLUMNS / 8] become minus infinity where a query doesn't see a key; QUERY and KEY say which of the two is `row_`, and where `column_`
 * begins.  `look`: whether there may be such. */
#define MASK_TILES(s, look, QUERY, KEY)                                                                                         \
    if (MASK || (look))                                                                                                         \
        UNROLLED for (int n_ = 0; n_ < COLUMNS / 8; n_++)                                                                       \
            UNROLLED for (int e_ = 0; e_ < 4; e_++) {                                                                           \
                const int row_ = row + 8 * (e_ / 2), column_ = 8 * n_ + LANE % 4 * 2 + e_ % 2, query_ = QUERY, key_ = KEY;      \
                (s)[n_][e_] = query_ >= queries || key_ >= keys || (causal && key_ > query_) ? A_LOWEST : MASKED((s)[n_][e_]);  \
            }
#if MASK
#define AT_MASK AT(const M, mask)[b * v.mask[0] + h * v.mask[1] + query_ * v.mask[2] + key_ * v.mask[3]]
#endif
#if MASK == 0
#define MASKED(x) (x)
#elif MASK == 1
#define MASKED(x) (AT_MASK ? (x) : A_LOWEST)
#else
#define MASKED(x) td_fma_f32(x, scale_2, (float)M_LOAD(AT_MASK) * LOG2_E)
#endif
/* Whether a tile has pairs that don't see each other, but for those of a mask. */
#define ANY_HIDDEN(q0, nq, k0, nk) ((q0) + (nq) > queries || (k0) + (nk) > keys || (causal && (k0) + (nk) - 1 > (q0)))

/* The maximum of a row is known after its last tile, so sums and total are of the largest score so far, and `factor` brings them to a new
 * one's scale.  A row lies in four lanes, as the matrix unit leaves it: the maximum is exchanged in every tile, since all four must use one;
 * the total only at the end.  Where all keys so far are hidden the shift is 0, for infinity less itself is NaN.
 *
 * Bound by the matrix units for long rows of keys: queries stay in registers, a tile of keys and values is read from memory once for all
 * rows of a group, and arrives (AWAIT(1): all but the copies begun last) while the one before it is multiplied. */
KERNEL AT_ONCE(BLOCKS) attention_forward(BUFFER(q), BUFFER(k), BUFFER(value), BUFFER(mask), BUFFER(out), BUFFER(lse), VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    TILE_STORAGE A room[4 * COLUMNS * D];
    const float scale_2 = NUMBER(v.scale) * LOG2_E;
    const int queries = (int)v.queries, keys = (int)v.keys, causal = (int)v.causal, blocks = (queries + ROWS - 1) / ROWS;
    for (int64_t t = GROUP; t < v.batch * v.heads * blocks; t += GROUPS) {
        /* The last queries have most keys where attention is causal: they come first. */
        const int64_t h = t % v.heads, b = t / v.heads % v.batch, kv = h / (v.heads / v.kv_heads);
        const int q0 = (blocks - 1 - (int)(t / (v.batch * v.heads))) * ROWS, end = causal && q0 + ROWS < keys ? q0 + ROWS : keys;
        const int n_tiles = (end + COLUMNS - 1) / COLUMNS;
        GLOBAL const A *qs = HEAD(q, v.q, b, h), *ks = HEAD(k, v.k, b, kv), *vs = HEAD(value, v.v, b, kv);
        const int row = q0 + LANE / 32 * 16 + LANE % 32 / 4;        /* and 8 further */
        uint32_t left[D / 16][4];
        float sums[D / 8][4], top[2] = {A_LOWEST, A_LOWEST}, total[2] = {0, 0};
        CLEAR_TILES(sums, D / 8);
        FETCH_LEFT(left, qs, v.q, q0, v.queries, v.width);
        if (n_tiles > 0) {
            FETCH(TILE_OF(0, 0), COLUMNS, ks, v.k.row, 0, v.keys, v.width)
            FETCH(TILE_OF(1, 0), COLUMNS, vs, v.v.row, 0, v.keys, v.value_width)
        }
        FETCHED;
        for (int i = 0; i < n_tiles; i++) {
            const int k0 = i * COLUMNS;
            if (i + 1 < n_tiles) {
                FETCH(TILE_OF(0, i + 1), COLUMNS, ks, v.k.row, k0 + COLUMNS, v.keys, v.width)
                FETCH(TILE_OF(1, i + 1), COLUMNS, vs, v.v.row, k0 + COLUMNS, v.keys, v.value_width)
            }
            FETCHED;
            AWAIT(1);
            BARRIER;
            float s[COLUMNS / 8][4];
            uint32_t p[COLUMNS / 16][4];
            CLEAR_TILES(s, COLUMNS / 8);
            MULTIPLY_ROWS(s, left, TILE_OF(0, i))
            MASK_TILES(s, ANY_HIDDEN(q0, ROWS, k0, COLUMNS), row_, k0 + column_)
            UNROLLED for (int half = 0; half < 2; half++) {
                float most = top[half];
                UNROLLED for (int n = 0; n < COLUMNS / 8; n++) {
                    most = s[n][2 * half] > most ? s[n][2 * half] : most;
                    most = s[n][2 * half + 1] > most ? s[n][2 * half + 1] : most;
                }
                for (int m = 1; m < 4; m *= 2) {
                    const float other = EXCHANGED(most, m);
                    most = other > most ? other : most;
                }
                const float shift = most == A_LOWEST ? 0 : most * UNIT, factor = exp2_of(td_fma_f32(top[half], UNIT, -shift));
                float sum = 0;
                UNROLLED for (int n = 0; n < COLUMNS / 8; n++)
                    UNROLLED for (int e = 2 * half; e < 2 * half + 2; e++) {
                        s[n][e] = exp2_of(td_fma_f32(s[n][e], UNIT, -shift));
                        sum += s[n][e];
                    }
                top[half] = most;
                total[half] = total[half] * factor + sum;
                UNROLLED for (int n = 0; n < D / 8; n++)
                    sums[n][2 * half] *= factor, sums[n][2 * half + 1] *= factor;
            }
            AS_LEFT(p, s)
            MULTIPLY(sums, p, TILE_OF(1, i))
            BARRIER;
        }
        float factors[2];
        UNROLLED for (int half = 0; half < 2; half++) {
            for (int m = 1; m < 4; m *= 2)
                total[half] += EXCHANGED(total[half], m);
            factors[half] = total[half] == 0 ? 0 : 1 / total[half];
            /* A query that sees no key has sum 0, result 0 and an infinite logsumexp, below which its probabilities are 0. */
            if (LANE % 4 == 0 && row + 8 * half < v.queries)
                AT(float, lse)[(b * v.heads + h) * v.queries + row + 8 * half] = total[half] == 0 ? A_HIGHEST : top[half] * UNIT * LN_2 + A_log(total[half]);
        }
        STORE_TILES(AT(A, out) + b * v.out.batch + h * v.out.head, v.out.row, q0 + LANE / 32 * 16, v.queries, v.value_width, sums, factors)
    }
}

/* What each query's slopes are lessened by: sum of grad * result, by 8 work items of a warp for a row. */
KERNEL attention_delta(BUFFER(grad), BUFFER(out), BUFFER(delta), VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    const int64_t rows = v.batch * v.heads * v.queries, each = WIDTH / 8, rounded = (rows + each - 1) / each * each;
    for (int64_t at = ITEM / 8; at < rounded; at += ITEMS / 8) {
        const int64_t row = at < rows ? at : rows - 1, i = row % v.queries, h = row / v.queries % v.heads, b = row / v.queries / v.heads;
        GLOBAL const A *g = HEAD(grad, v.grad, b, h) + i * v.grad.row, *o = HEAD(out, v.out, b, h) + i * v.out.row;
        float sum = 0;
        for (int64_t d = LANE % 8 * 2; d < v.value_width; d += 16)
            sum = td_fma_f32(A_LOAD(g[d]), A_LOAD(o[d]), td_fma_f32(A_LOAD(g[d + 1]), A_LOAD(o[d + 1]), sum));
        for (int m = 1; m < 8; m *= 2)
            sum += EXCHANGED(sum, m);
        if (LANE % 8 == 0 && at < rows)
            AT(float, delta)[at] = sum;
    }
}

/* Slopes of scores are p (dp - delta), with p made again of the row's logsumexp, so that neither a maximum nor a sum is looked for, and
 * delta = sum of p dp, which is the sum of grad * result, computed once per row (Dao et al., 2022).
 *
 * Gradients of queries and of keys are sums along different sides of the scores.  Two kernels multiply the scores twice, but each owns what it
 * writes; one for both would add to one side by atomic operations, in an order that changes from run to run. */
KERNEL AT_ONCE(BLOCKS) attention_queries(BUFFER(q), BUFFER(k), BUFFER(value), BUFFER(mask), BUFFER(grad), BUFFER(lse), BUFFER(delta), BUFFER(dq),
                         VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    TILE_STORAGE A room[4 * COLUMNS * D];
    const float scale = NUMBER(v.scale), scale_2 = scale * LOG2_E, factors[2] = {1, 1};
    const int queries = (int)v.queries, keys = (int)v.keys, causal = (int)v.causal, blocks = (queries + ROWS - 1) / ROWS;
    for (int64_t t = GROUP; t < v.batch * v.heads * blocks; t += GROUPS) {
        const int64_t h = t % v.heads, b = t / v.heads % v.batch, kv = h / (v.heads / v.kv_heads);
        const int q0 = (blocks - 1 - (int)(t / (v.batch * v.heads))) * ROWS, end = causal && q0 + ROWS < keys ? q0 + ROWS : keys;
        const int n_tiles = (end + COLUMNS - 1) / COLUMNS;
        GLOBAL const A *qs = HEAD(q, v.q, b, h), *gs = HEAD(grad, v.grad, b, h), *ks = HEAD(k, v.k, b, kv), *vs = HEAD(value, v.v, b, kv);
        const int row = q0 + LANE / 32 * 16 + LANE % 32 / 4;
        uint32_t own[D / 16][4], slopes[D / 16][4];
        float sums[D / 8][4], less[2], below[2];
        for (int half = 0; half < 2; half++) {
            const int64_t at = (b * v.heads + h) * v.queries + row + 8 * half;
            const bool in = row + 8 * half < v.queries;
            below[half] = in ? AT(const float, lse)[at] * LOG2_E : A_HIGHEST;
            less[half] = in ? AT(const float, delta)[at] : 0;
        }
        CLEAR_TILES(sums, D / 8);
        FETCH_LEFT(own, qs, v.q, q0, v.queries, v.width);
        FETCH_LEFT(slopes, gs, v.grad, q0, v.queries, v.value_width);
        if (n_tiles > 0) {
            FETCH(TILE_OF(0, 0), COLUMNS, ks, v.k.row, 0, v.keys, v.width)
            FETCH(TILE_OF(1, 0), COLUMNS, vs, v.v.row, 0, v.keys, v.value_width)
        }
        FETCHED;
        for (int i = 0; i < n_tiles; i++) {
            const int k0 = i * COLUMNS;
            if (i + 1 < n_tiles) {
                FETCH(TILE_OF(0, i + 1), COLUMNS, ks, v.k.row, k0 + COLUMNS, v.keys, v.width)
                FETCH(TILE_OF(1, i + 1), COLUMNS, vs, v.v.row, k0 + COLUMNS, v.keys, v.value_width)
            }
            FETCHED;
            AWAIT(1);
            BARRIER;
            float s[COLUMNS / 8][4], d[COLUMNS / 8][4];
            uint32_t left[COLUMNS / 16][4];
            CLEAR_TILES(s, COLUMNS / 8);
            CLEAR_TILES(d, COLUMNS / 8);
            MULTIPLY_ROWS(s, own, TILE_OF(0, i))
            MULTIPLY_ROWS(d, slopes, TILE_OF(1, i))
            MASK_TILES(s, ANY_HIDDEN(q0, ROWS, k0, COLUMNS), row_, k0 + column_)
            UNROLLED for (int n = 0; n < COLUMNS / 8; n++)
                UNROLLED for (int e = 0; e < 4; e++)
                    s[n][e] = exp2_of(td_fma_f32(s[n][e], UNIT, -below[e / 2])) * (d[n][e] - less[e / 2]) * scale;
            AS_LEFT(left, s)
            MULTIPLY(sums, left, TILE_OF(0, i))
            BARRIER;
        }
        STORE_TILES(AT(A, dq) + b * v.dq.batch + h * v.dq.head, v.dq.row, q0 + LANE / 32 * 16, v.queries, v.width, sums, factors)
    }
}

/* Tile i of what the keys' group goes along: queries of each of the heads that share the keys. */
#define FETCH_QUERIES(i)                                                                                                \
    do {                                                                                                                \
        const int64_t h_ = kv * shared + (i) / per_head, from_ = first + (i) % per_head * COLUMNS;            \
        GLOBAL const A *qs_ = HEAD(q, v.q, b, h_), *gs_ = HEAD(grad, v.grad, b, h_);                                    \
        FETCH(TILE_OF(0, i), COLUMNS, qs_, v.q.row, from_, v.queries, v.width)                                          \
        FETCH(TILE_OF(1, i), COLUMNS, gs_, v.grad.row, from_, v.queries, v.value_width)                                 \
        for (int r_ = LANE; r_ < COLUMNS; r_ += WIDTH) {                                                                \
            const int64_t at_ = (b * v.heads + h_) * v.queries + from_ + r_;                                            \
            const bool in_ = from_ + r_ < v.queries;                                                                    \
            below[(i) & 1][r_] = in_ ? AT(const float, lse)[at_] * LOG2_E : A_HIGHEST;                                  \
            less[(i) & 1][r_] = in_ ? AT(const float, delta)[at_] : 0;                                                  \
        }                                                                                                               \
    } while (0)

/* The scores transposed: a warp's rows are keys, so that both gradients are sums over what passes by.  Heads that share keys come one after
 * the other to the same group, and their gradients are added in registers. */
KERNEL AT_ONCE(BLOCKS) attention_keys(BUFFER(q), BUFFER(k), BUFFER(value), BUFFER(mask), BUFFER(grad), BUFFER(lse), BUFFER(delta), BUFFER(dk), BUFFER(dv),
                      VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    TILE_STORAGE A room[4 * COLUMNS * D];
    SHARED float below[2][COLUMNS];
    SHARED float less[2][COLUMNS];
    const float scale = NUMBER(v.scale), scale_2 = scale * LOG2_E, factors[2] = {1, 1};
    const int queries = (int)v.queries, keys = (int)v.keys, causal = (int)v.causal, blocks = (keys + ROWS - 1) / ROWS;
    const int shared = (int)(v.heads / v.kv_heads);
    for (int64_t t = GROUP; t < v.batch * v.kv_heads * blocks; t += GROUPS) {
        const int64_t kv = t % v.kv_heads, b = t / v.kv_heads % v.batch;
        const int k0 = (int)(t / (v.batch * v.kv_heads)) * ROWS;
        /* Queries before a key don't see it where attention is causal. */
        const int first = causal ? k0 / COLUMNS * COLUMNS : 0;
        const int per_head = first < queries ? (queries - first + COLUMNS - 1) / COLUMNS : 0, n_tiles = shared * per_head;
        GLOBAL const A *ks = HEAD(k, v.k, b, kv), *vs = HEAD(value, v.v, b, kv);
        const int row = k0 + LANE / 32 * 16 + LANE % 32 / 4;
        uint32_t own[D / 16][4], values[D / 16][4];
        float of_keys[D / 8][4], of_values[D / 8][4];
        CLEAR_TILES(of_keys, D / 8);
        CLEAR_TILES(of_values, D / 8);
        FETCH_LEFT(own, ks, v.k, k0, v.keys, v.width);
        FETCH_LEFT(values, vs, v.v, k0, v.keys, v.value_width);
        if (n_tiles > 0)
            FETCH_QUERIES(0);
        FETCHED;
        for (int i = 0; i < n_tiles; i++) {
            const int64_t h = kv * shared + i / per_head;
            const int q0 = first + i % per_head * COLUMNS;
            if (i + 1 < n_tiles)
                FETCH_QUERIES(i + 1);
            FETCHED;
            AWAIT(1);
            BARRIER;
            float s[COLUMNS / 8][4], d[COLUMNS / 8][4];
            uint32_t left[COLUMNS / 16][4];
            CLEAR_TILES(s, COLUMNS / 8);
            MULTIPLY_ROWS(s, own, TILE_OF(0, i))
            MASK_TILES(s, ANY_HIDDEN(q0, COLUMNS, k0, ROWS), q0 + column_, row_)
            UNROLLED for (int n = 0; n < COLUMNS / 8; n++)
                UNROLLED for (int e = 0; e < 4; e++)
                    s[n][e] = exp2_of(td_fma_f32(s[n][e], UNIT, -below[i & 1][8 * n + LANE % 4 * 2 + e % 2]));
            AS_LEFT(left, s)
            MULTIPLY(of_values, left, TILE_OF(1, i))
            CLEAR_TILES(d, COLUMNS / 8);
            MULTIPLY_ROWS(d, values, TILE_OF(1, i))
            UNROLLED for (int n = 0; n < COLUMNS / 8; n++)
                UNROLLED for (int e = 0; e < 4; e++)
                    s[n][e] *= (d[n][e] - less[i & 1][8 * n + LANE % 4 * 2 + e % 2]) * scale;
            AS_LEFT(left, s)
            MULTIPLY(of_keys, left, TILE_OF(0, i))
            BARRIER;
        }
        STORE_TILES(AT(A, dk) + b * v.dk.batch + kv * v.dk.head, v.dk.row, k0 + LANE / 32 * 16, v.keys, v.width, of_keys, factors)
        STORE_TILES(AT(A, dv) + b * v.dv.batch + kv * v.dv.head, v.dv.row, k0 + LANE / 32 * 16, v.keys, v.value_width, of_values, factors)
    }
}
#endif
