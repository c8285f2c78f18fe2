/* softmax(scale q k^T + mask) v without ever writing the matrix of scores.
 *
 * After FlashAttention (Dao et al., 2022): a block of queries meets one block of keys after the other; the running maximum
 * and sum of each row rescale what was added up before.  The backward pass computes each tile of probabilities
 * again from the saved logsumexp.  Blocks beyond the diagonal of a causal mask are skipped. */
#ifndef S
#include "base/base.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/math/exp_run.h"
#include "kernels/cpu/nn/attention.h"
#include "kernels/cpu/isa/vectors.h"

/* The products of this file's own level. */
#define OWN (&TD_ISA_NAME(td_gemm_table))
/* Rows of a tile, and vectors of its rows at most: as in gemm/gemm_isa.c; bytes of such a row. */
#if VBYTES == 64
enum { TILE = 8, VECTORS = 3 };
#else
enum { TILE = 6, VECTORS = 2 };
#endif
enum { WIDEST = 3 * 64 };

/* a where it is larger than b; 0 instead of minus infinity. */
#define CHOICES(S, T, I)                                                                        \
    typedef I bits_##S __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));     \
    INLINE vec_##S larger_##S(vec_##S a, vec_##S b)                                             \
    {                                                                                           \
        const bits_##S is = (bits_##S)(a > b);                                                  \
        return (vec_##S)((is & (bits_##S)a) | (~is & (bits_##S)b));                             \
    }                                                                                           \
    INLINE vec_##S finite_or_zero_##S(vec_##S a)                                                \
    {                                                                                           \
        return (vec_##S)(~(bits_##S)(a == -(T)__builtin_inf() - (vec_##S){0}) & (bits_##S)a);   \
    }
CHOICES(f32, float, int32_t)
CHOICES(f64, double, int64_t)

#define TD_BODY "kernels/cpu/nn/attention_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_attention_table TD_ISA_NAME(td_attention_table);
const td_attention_table TD_ISA_NAME(td_attention_table) = {
    .forward = {forward_f32, forward_f64}, .backward = {backward_f32, backward_f64},
};

#else

#define AT(h, b, i, r) ((T *)(h).data + (b) * (h).batch + (i) * (h).head + (r) * (h).row)

/* Scores get the mask: -inf where it says no. */
static void N(mask)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0, int columns, T *s)
{
    int64_t at = b * job->mask_batch + h * job->mask_head + q0 * job->mask_row + k0 * job->mask_key;
    const int64_t step = job->mask_key;
    for (int r = 0; r < rows; r++, at += job->mask_row) {
        T *row = s + r * TD_KEY_TILE;
        if (job->masked_by_bool) {
            const uint8_t *m = (const uint8_t *)job->mask + at;
#pragma omp simd
            for (int c = 0; c < columns; c++)
                row[c] = m[c * step] ? row[c] : -(T)__builtin_inf();
        } else {
            const T *m = (const T *)job->mask + at;
#pragma omp simd
            for (int c = 0; c < columns; c++)
                row[c] += m[c * step];
        }
    }
}

/* Scores of `rows` queries from q0 on against `columns` keys from k0 on. */
static void N(scores)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0, int columns, T *s)
{
    const int64_t kv = h / (job->g.heads / job->g.kv_heads);
    N(td_gemm)(rows, columns, job->g.width, (T)job->g.scale, (td_matrix){AT(job->q, b, h, q0), job->q.row, 1},
               (td_matrix){AT(job->k, b, kv, k0), 1, job->k.row}, 0, s, TD_KEY_TILE);
    if (job->mask)
        N(mask)(job, b, h, q0, rows, k0, columns, s);
}

/* How many of a row's numbers are worth computing: those of the columns that the query may look at, the first ones, and as many
 * more as fill vectors.  Those get -inf, the rest of the row 0, which is what their exponentials are. */
static int N(trim)(const td_attention_job *job, int64_t query, int64_t k0, int columns, T *row)
{
    int64_t before = query - k0 + 1;
    int seen = !job->g.causal || before > columns ? columns : before < 0 ? 0 : (int)before, whole = (seen + 15) & ~15;
    for (int c = seen; c < whole; c++)
        row[c] = -(T)__builtin_inf();
    if (whole < columns)
        memset(row + whole, 0, (size_t)(columns - whole) * sizeof(T));
    return whole;
}

/* Keys that a block of queries may look at. */
static int64_t N(reach)(const td_attention_job *job, int64_t q0, int rows)
{
    return job->g.causal && q0 + rows < job->g.keys ? q0 + rows : job->g.keys;
}

/* A few queries, or a processor without fused products: queries in rows.
 *
 * top and sum are the maximum and the sum of exponentials so far.  Where a tile brings a larger maximum, result and sum are multiplied
 * with exp(old - new), so at the end both are as if the last maximum had been known from the start.  A query that may look at nothing
 * has sum 0, result 0 and an infinite logsumexp, below which all its probabilities are 0 in the backward pass. */
static void N(query_rows)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, T *s)
{
    const T none = -(T)__builtin_inf();
    T top[TD_QUERY_TILE], sum[TD_QUERY_TILE], most[TD_QUERY_TILE];
    const int64_t kv = h / (job->g.heads / job->g.kv_heads), end = N(reach)(job, q0, rows), width = job->g.value_width;
    T *out = AT(job->out, b, h, q0);
    for (int r = 0; r < rows; r++)
        top[r] = none, sum[r] = 0;
    for (int64_t k0 = 0; k0 < end; k0 += TD_KEY_TILE) {
        const int columns = (int)(end - k0 < TD_KEY_TILE ? end - k0 : TD_KEY_TILE);
        int seen[TD_QUERY_TILE];
        N(scores)(job, b, h, q0, rows, k0, columns, s);
        /* All maxima before the first exponential, so that no row waits for its own. */
        for (int r = 0; r < rows; r++) {
            T *row = s + r * TD_KEY_TILE, m = top[r];
            const int n = seen[r] = N(trim)(job, q0 + r, k0, columns, row);
#pragma omp simd reduction(max : m)
            for (int c = 0; c < n; c++)
                m = row[c] > m ? row[c] : m;
            most[r] = m;
        }
        for (int r = 0; r < rows; r++) {
            T *row = s + r * TD_KEY_TILE;
            const T shift = most[r] == none ? 0 : most[r];
            const T add = N(td_exp_less)(row, shift, row, seen[r]);
            if (most[r] != top[r] && k0) {
                T factor = N(td_exp)(top[r] - shift), *o = out + r * job->out.row;
#pragma omp simd
                for (int64_t c = 0; c < width; c++)
                    o[c] *= factor;
                sum[r] *= factor;
            }
            top[r] = most[r], sum[r] += add;
        }
        N(td_gemm)(rows, width, columns, 1, (td_matrix){s, TD_KEY_TILE, 1}, (td_matrix){AT(job->v, b, kv, k0), job->v.row, 1},
                   k0 ? 1 : 0, out, job->out.row);
    }
    T *lse = (T *)job->lse + (b * job->g.heads + h) * job->g.queries + q0;
    for (int r = 0; r < rows; r++) {
        T scale = sum[r] == 0 ? 0 : 1 / sum[r], *o = out + r * job->out.row;
        lse[r] = sum[r] == 0 ? (T)__builtin_inf() : top[r] + N(td_log)(sum[r]);
        if (end <= 0)
            memset(o, 0, (size_t)width * sizeof(T));
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            o[c] *= scale;
    }
}

/* Many queries: in columns, a panel of them as wide as products' tiles, so that neither keys nor values are packed, and maxima,
 * sums and factors are vectors.  scores = k q^T stay in the first cache until they are the second product's panel. */
typedef struct N(block) {
    T *q, *s, *out;                 /* [width][lanes], [TD_KEY_ROWS][lanes], [value_width][lanes], the result or its gradient */
    T *dq, *q_rows, *grad_rows;     /* [width][lanes]; in rows, panels for products */
    T *transposed;                  /* two tiles of a mask or of slopes, or a result in rows */
    T top[WIDEST / sizeof(T)], sum[WIDEST / sizeof(T)], factor[WIDEST / sizeof(T)];
    int lanes, rows;
} N(block);

/* `count` tiles of TILE rows of c, one behind the other: sums of a[i * row + p * column] b[p] over p < depth, added to what is
 * there if `add`.  `next`: from tile to tile of a.
 *
 * TILE x vectors sums (8 x 3 of 32 registers, or 6 x 2 of 16) leave room for a line of b and a number of a.  A step over the depth is
 * TILE x vectors fused products for `vectors` loads and TILE broadcasts, so the products are the bound as long as b, the panel, is in
 * the first cache; what comes next of a is fetched meanwhile. */
INLINE void N(tiles)(const int vectors, int64_t count, int64_t depth, const T *a, int64_t row, int64_t column, int64_t next,
                     const T *b, bool add, T *c)
{
    enum { LANES = VBYTES / sizeof(T) };
    typedef N(vec) V;
    for (; count > 0; count--, a += next, c += TILE * vectors * LANES) {
        V acc[TILE][VECTORS];
#pragma GCC unroll 8
        for (int i = 0; i < TILE; i++)
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                acc[i][v] = (V){0};
        const T *at[3] = {a, a + 3 * row, a + 6 * row}, *line = b;
#define STEP(u)                                                                   \
        {                                                                         \
            V lines[VECTORS];                                                     \
            _Pragma("GCC unroll 3")                                               \
            for (int v = 0; v < vectors; v++)                                     \
                lines[v] = *(const V *)(line + ((u) * vectors + v) * LANES);      \
            _Pragma("GCC unroll 8")                                               \
            for (int i = 0; i < TILE; i++) {                                      \
                const V x = at[i / 3][i % 3 * row + (u) * column] - (V){0};       \
                _Pragma("GCC unroll 3")                                           \
                for (int v = 0; v < vectors; v++)                                 \
                    N(add_product)(&acc[i][v], x, lines[v]);                      \
            }                                                                     \
        }
        int64_t left = depth;
        const T *fetch = a + (column == 1 ? next : 4 * column);
        for (; left >= 2; left -= 2) {
            __builtin_prefetch(fetch);
            fetch += column == 1 ? TILE * 2 : column;
            if (column != 1) {
                __builtin_prefetch(fetch);
                fetch += column;
            }
            STEP(0)
            STEP(1)
            line += 2 * vectors * LANES;
            for (int r = 0; r < 3; r++)
                at[r] += 2 * column;
        }
        if (left)
            STEP(0)
#undef STEP
        T *to = c;
        if (add)
#pragma GCC unroll 8
            for (int i = 0; i < TILE; i++)
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++, to += LANES)
                    *(V *)to += acc[i][v];
        else
#pragma GCC unroll 8
            for (int i = 0; i < TILE; i++)
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++, to += LANES)
                    *(V *)to = acc[i][v];
    }
}

/* Along k and across it; each a separate function, for the compiler's sake. */
#define TILES(v)                                                                                                          \
    static __attribute__((noinline)) void N(along_##v)(int64_t count, int64_t depth, const T *a, int64_t row, const T *b, \
                                                       bool add, T *c)                                                    \
    {                                                                                                                     \
        N(tiles)(v, count, depth, a, row, 1, TILE * row, b, add, c);                                                      \
    }                                                                                                                     \
    static __attribute__((noinline)) void N(across_##v)(int64_t count, int64_t depth, const T *a, int64_t column,         \
                                                        const T *b, bool add, T *c)                                       \
    {                                                                                                                     \
        N(tiles)(v, count, depth, a, 1, column, TILE, b, add, c);                                                         \
    }
TILES(1)
TILES(2)
#if VBYTES == 64
TILES(3)
#define NAMES(name) {N(name##_1), N(name##_2), N(name##_3)}
#else
#define NAMES(name) {N(name##_1), N(name##_2)}
#endif

/* c = a b, or c += a b: m rows of a, which lie along k or across it, meet a block's panel. */
static void N(multiply)(int64_t m, int64_t depth, td_matrix a, const T *b, int lanes, bool add, T *c)
{
    typedef void kernel(int64_t, int64_t, const T *, int64_t, const T *, bool, T *);
    static kernel *const along[] = NAMES(along), *const across[] = NAMES(across);
    const int which = lanes / (VBYTES / (int)sizeof(T)) - 1;
    const int64_t whole = m / TILE * TILE;
    if (a.column == 1)
        along[which](m / TILE, depth, a.data, a.row, b, add, c);
    else
        across[which](m / TILE, depth, a.data, a.column, b, add, c);
    if (m > whole)
        OWN->N(packed)(m - whole, lanes, depth, 1, (td_matrix){(const T *)a.data + whole * a.row, a.row, a.column}, b, add,
                       c + whole * lanes, lanes, NULL);
}
#undef TILES
#undef NAMES

/* A tile of the mask is transposed, as the scores are, and meets them.  A mask without a dimension for queries has one line, which
 * meets all of them. */
static void N(mask_columns)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int64_t k0, int keys,
                            N(block) *x)
{
    const T none = -(T)__builtin_inf();
    const int64_t at = b * job->mask_batch + h * job->mask_head + q0 * job->mask_row + k0 * job->mask_key;
    const int64_t step = job->mask_key, rows = job->mask_row ? x->rows : 1;
    T *line = x->transposed, *columns = line + (int64_t)TD_KEY_ROWS * (WIDEST / sizeof(T));
    for (int64_t r = 0; r < rows; r++, line += TD_KEY_ROWS)
        if (job->masked_by_bool) {
            const uint8_t *m = (const uint8_t *)job->mask + at + r * job->mask_row;
#pragma omp simd
            for (int c = 0; c < keys; c++)
                line[c] = m[c * step] ? 0 : none;
        } else {
            const T *m = (const T *)job->mask + at + r * job->mask_row;
#pragma omp simd
            for (int c = 0; c < keys; c++)
                line[c] = m[c * step];
        }
    if (rows > 1)
        OWN->N(pack)(rows, keys, (td_matrix){x->transposed, 1, TD_KEY_ROWS}, columns);
    for (int c = 0; c < keys; c++) {
        T *s = x->s + c * x->lanes;
        const T *m = columns + c * x->lanes, one = x->transposed[c];
        if (rows > 1 && job->masked_by_bool)
#pragma omp simd
            for (int l = 0; l < x->lanes; l++)
                s[l] = m[l] < 0 ? none : s[l];
        else if (rows > 1)
#pragma omp simd
            for (int l = 0; l < x->lanes; l++)
                s[l] += m[l];
        else
#pragma omp simd
            for (int l = 0; l < x->lanes; l++)
                s[l] = job->masked_by_bool && one < 0 ? none : s[l] + one;
    }
}

/* The scores of a tile become exponentials, after maxima that hold for all tiles so far; x->factor: what earlier sums are to be
 * multiplied with.  Whether one of them isn't 1. */
static bool N(exponentials)(N(block) *x, int keys)
{
    enum { LANES = VBYTES / sizeof(T) };
    typedef N(vec) V;
    bool changed = false;
    for (int v = 0; v < x->lanes; v += LANES) {
        T *s = x->s + v;
        const V old = *(const V *)(x->top + v);
        V most[4] = {old, old, old, old};
        int c = 0;
        for (; c + 4 <= keys; c += 4)
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                most[i] = N(larger)(*(const V *)(s + (c + i) * x->lanes), most[i]);
        for (; c < keys; c++)
            most[0] = N(larger)(*(const V *)(s + c * x->lanes), most[0]);
        most[0] = N(larger)(N(larger)(most[1], most[0]), N(larger)(most[3], most[2]));
        const V shift = N(finite_or_zero)(most[0]), less = old - shift;
        T parts[LANES], before[LANES];
        memcpy(before, &less, sizeof before);
        bool same = true;
        for (int l = 0; l < LANES; l++)
            same &= before[l] == 0;
        N(td_exp_columns)(s, x->lanes, keys, (const T *)&shift, parts);
        *(V *)(x->top + v) = most[0];
        if (same) {
            *(V *)(x->factor + v) = (V){0} + 1, *(V *)(x->sum + v) += *(const V *)parts;
            continue;
        }
        changed = true;
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            x->factor[v + l] = N(td_exp)(before[l]);
        *(V *)(x->sum + v) = *(const V *)(x->sum + v) * *(const V *)(x->factor + v) + *(const V *)parts;
    }
    return changed;
}

/* [width][lanes], times the block's factors, back to rows, panel by panel. */
static void N(to_rows)(td_heads rows, int64_t b, int64_t h, int64_t q0, int64_t width, const T *columns, N(block) *x)
{
    OWN->N(pack)(width, x->rows, (td_matrix){columns, 1, x->lanes}, x->transposed);
    const T *from = x->transposed;
    for (int64_t j = 0, step; j < width; j += step) {
        step = td_gemm_panel(width - j, VBYTES / sizeof(T), OWN->vectors);
        const int64_t n = width - j < step ? width - j : step;
        for (int r = 0; r < x->rows; r++, from += step) {
            T *to = AT(rows, b, h, q0 + r) + j;
            const T factor = x->factor[r];
#pragma omp simd
            for (int64_t c = 0; c < n; c++)
                to[c] = from[c] * factor;
        }
    }
}

/* The block's queries as a panel, times the scale. */
static void N(pack_queries)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, const N(block) *x)
{
    const T scale = (T)job->g.scale;
    const int64_t n = job->g.width * x->lanes;
    T *q = x->q;
    OWN->N(pack)(x->rows, job->g.width, (td_matrix){AT(job->q, b, h, q0), 1, job->q.row}, q);
    if (scale != 1)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            q[i] *= scale;
}

/* Scores of keys that not all queries see under a causal mask, where they don't. */
static void N(hide)(const td_attention_job *job, int64_t q0, int64_t k0, int keys, int lanes, T with, T *s)
{
    for (int64_t c = job->g.causal && q0 >= k0 ? q0 - k0 : 0; job->g.causal && c < keys; c++)
        for (int64_t l = 0; l < k0 + c - q0; l++)
            s[c * lanes + l] = with;
}

/* The forward pass of a block, tile of keys by tile of keys: s = k q^T; x->s = exp(s - running maximum); out = out factor + v^T
 * x->s.  At the end each query is divided by its sum. */
static void N(query_columns)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, N(block) *x)
{
    enum { LANES = VBYTES / sizeof(T) };
    const T none = -(T)__builtin_inf();
    const int64_t kv = h / (job->g.heads / job->g.kv_heads), end = N(reach)(job, q0, rows), width = job->g.value_width;
    const int lanes = x->lanes = (rows + LANES - 1) / LANES * LANES;
    x->rows = rows;
    N(pack_queries)(job, b, h, q0, x);
    for (int l = 0; l < lanes; l++)
        x->top[l] = none, x->sum[l] = 0;
    if (end <= 0)
        memset(x->out, 0, (size_t)(width * lanes) * sizeof(T));
    for (int64_t k0 = 0; k0 < end; k0 += TD_KEY_ROWS) {
        const int keys = (int)(end - k0 < TD_KEY_ROWS ? end - k0 : TD_KEY_ROWS);
        N(multiply)(keys, job->g.width, (td_matrix){AT(job->k, b, kv, k0), job->k.row, 1}, x->q, lanes, false, x->s);
        if (job->mask)
            N(mask_columns)(job, b, h, q0, k0, keys, x);
        N(hide)(job, q0, k0, keys, lanes, none, x->s);
        if (N(exponentials)(x, keys) && k0) {
            T *out = x->out;
            for (int64_t c = 0; c < width; c++, out += lanes)
#pragma omp simd
                for (int l = 0; l < lanes; l++)
                    out[l] *= x->factor[l];
        }
        N(multiply)(width, keys, (td_matrix){AT(job->v, b, kv, k0), 1, job->v.row}, x->s, lanes, k0 > 0, x->out);
    }
    T *lse = (T *)job->lse + (b * job->g.heads + h) * job->g.queries + q0;
    for (int r = 0; r < rows; r++) {
        lse[r] = x->sum[r] == 0 ? (T)__builtin_inf() : x->top[r] + N(td_log)(x->sum[r]);
        x->factor[r] = x->sum[r] == 0 ? 0 : 1 / x->sum[r];
    }
    N(to_rows)(job->out, b, h, q0, width, x->out, x);
}

/* One tile's part of all three gradients, with s = scale q k^T:
 *
 *     p = exp(s - lse)    dv += p^T g    dp = g v^T    ds = p (dp - delta) scale    dq += ds k    dk += ds^T q
 *
 * p and dp have room for a tile each; ds takes the memory of p. */
static void N(tile_backward)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0,
                             int columns,
                             const T *delta, T *p, T *dp)
{
    int64_t kv = h / (job->g.heads / job->g.kv_heads);
    const T *lse = (const T *)job->lse + (b * job->g.heads + h) * job->g.queries + q0;
    td_matrix grad = {AT(job->grad, b, h, q0), job->grad.row, 1}, tile = {p, TD_KEY_TILE, 1}, transposed = {p, 1,
        TD_KEY_TILE};
    N(scores)(job, b, h, q0, rows, k0, columns, p);
    for (int r = 0; r < rows; r++) {
        T *row = p + r * TD_KEY_TILE;
        const T shift = lse[r];
        const int seen = N(trim)(job, q0 + r, k0, columns, row);
        N(td_exp_less)(row, shift, row, seen);
    }
    N(td_gemm)(columns, job->g.value_width, rows, 1, transposed, grad, 1, AT(job->dv, b, kv, k0), job->dv.row);
    N(td_gemm)(rows, columns, job->g.value_width, 1, grad, (td_matrix){AT(job->v, b, kv, k0), 1, job->v.row}, 0, dp,
               TD_KEY_TILE);
    const T scale = (T)job->g.scale;
    for (int r = 0; r < rows; r++) {
        T *row = p + r * TD_KEY_TILE;
        const T *slope = dp + r * TD_KEY_TILE, centre = delta[r];
        const int64_t before = job->g.causal ? q0 + r - k0 + 1 : columns;
        const int seen = before > columns ? columns : before < 0 ? 0 : (int)before;
#pragma omp simd
        for (int c = 0; c < seen; c++)
            row[c] *= (slope[c] - centre) * scale;
    }
    N(td_gemm)(rows, job->g.width, columns, 1, tile, (td_matrix){AT(job->k, b, kv, k0), job->k.row, 1}, 1, AT(job->dq, b,
        h, q0),
               job->dq.row);
    N(td_gemm)(columns, job->g.width, rows, 1, transposed, (td_matrix){AT(job->q, b, h, q0), job->q.row, 1}, 1, AT(job->dk,
        b, kv, k0),
               job->dk.row);
}

/* delta, the sum over keys of p dp, is the product of the result with its gradient: no tile has to be computed for it. */
static T N(centre)(const td_attention_job *job, int64_t b, int64_t h, int64_t query)
{
    const T *o = AT(job->out, b, h, query), *g = AT(job->grad, b, h, query);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < job->g.value_width; c++)
        sum += o[c] * g[c];
    return sum;
}

/* Few queries, see query_rows. */
static void N(backward_rows)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, T *tiles)
{
    T delta[TD_QUERY_TILE];
    const int64_t end = N(reach)(job, q0, rows);
    for (int r = 0; r < rows; r++) {
        memset(AT(job->dq, b, h, q0 + r), 0, (size_t)job->g.width * sizeof(T));
        delta[r] = N(centre)(job, b, h, q0 + r);
    }
    for (int64_t k0 = 0; k0 < end; k0 += TD_KEY_TILE)
        N(tile_backward)(job, b, h, q0, rows, k0, (int)(end - k0 < TD_KEY_TILE ? end - k0 : TD_KEY_TILE), delta, tiles,
                         tiles + TD_QUERY_TILE * TD_KEY_TILE);
}

/* The product of a tile of scores with a panel of rows, to rows of a gradient: written, or added to those that some block of
 * queries has seen. */
static void N(gather)(const N(block) *x, int keys, int64_t width, const T *rows, int64_t seen, T *to, int64_t step)
{
    const int64_t old = seen <= 0 ? 0 : seen < keys ? seen : keys;
    if (old)
        OWN->N(packed)(old, width, x->rows, 1, (td_matrix){x->s, x->lanes, 1}, rows, 1, to, step, NULL);
    if (old < keys)
        OWN->N(packed)(keys - old, width, x->rows, 1, (td_matrix){x->s + old * x->lanes, x->lanes, 1}, rows, 0, to + old * step,
                       step, NULL);
}

/* Many, in columns, see query_columns: the slopes of the scores, ds = p (v g^T - delta), lie like these.  `seen`: keys whose
 * gradients were begun. */
static void N(backward_columns)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t seen,
                                N(block) *x)
{
    enum { LANES = VBYTES / sizeof(T) };
    const T scale = (T)job->g.scale;
    const int64_t kv = h / (job->g.heads / job->g.kv_heads), end = N(reach)(job, q0, rows);
    const int lanes = x->lanes = (rows + LANES - 1) / LANES * LANES;
    const T *lse = (const T *)job->lse + (b * job->g.heads + h) * job->g.queries + q0, *q = AT(job->q, b, h, q0), *g = AT(job->grad, b, h, q0);
    T delta[WIDEST / sizeof(T)];
    x->rows = rows;
    N(pack_queries)(job, b, h, q0, x);
    OWN->N(pack)(rows, job->g.value_width, (td_matrix){g, 1, job->grad.row}, x->out);
    OWN->N(pack)(job->g.width, rows, (td_matrix){q, job->q.row, 1}, x->q_rows);
    OWN->N(pack)(job->g.value_width, rows, (td_matrix){g, job->grad.row, 1}, x->grad_rows);
    for (int l = 0; l < lanes; l++) {
        x->top[l] = l < rows ? lse[l] : (T)__builtin_inf();
        delta[l] = l < rows ? N(centre)(job, b, h, q0 + l) : 0;
    }
    memset(x->dq, 0, (size_t)(job->g.width * lanes) * sizeof(T));
    for (int64_t k0 = 0; k0 < end; k0 += TD_KEY_ROWS) {
        const int keys = (int)(end - k0 < TD_KEY_ROWS ? end - k0 : TD_KEY_ROWS);
        const td_matrix k = {AT(job->k, b, kv, k0), job->k.row, 1};
        N(multiply)(keys, job->g.width, k, x->q, lanes, false, x->s);
        if (job->mask)
            N(mask_columns)(job, b, h, q0, k0, keys, x);
        N(hide)(job, q0, k0, keys, lanes, -(T)__builtin_inf(), x->s);
        for (int v = 0; v < lanes; v += LANES)
            N(td_exp_columns)(x->s + v, lanes, keys, x->top + v, x->sum + v);
        N(gather)(x, keys, job->g.value_width, x->grad_rows, seen - k0, AT(job->dv, b, kv, k0), job->dv.row);
        N(multiply)(keys, job->g.value_width, (td_matrix){AT(job->v, b, kv, k0), job->v.row, 1}, x->out, lanes, false,
                    x->transposed);
        T *p = x->s;
        const T *slope = x->transposed;
        for (int c = 0; c < keys; c++, p += lanes, slope += lanes)
#pragma omp simd
            for (int l = 0; l < lanes; l++)
                p[l] *= (slope[l] - delta[l]) * scale;
        N(hide)(job, q0, k0, keys, lanes, 0, x->s);
        N(gather)(x, keys, job->g.width, x->q_rows, seen - k0, AT(job->dk, b, kv, k0), job->dk.row);
        N(multiply)(job->g.width, keys, (td_matrix){k.data, 1, job->k.row}, x->s, lanes, true, x->dq);
    }
    for (int l = 0; l < lanes; l++)
        x->factor[l] = 1;
    N(to_rows)(job->dq, b, h, q0, job->g.width, x->dq, x);
}

/* Workspace for a block: of all parts, or of as many as the forward pass takes. */
static T *N(workspace)(const td_attention_job *job, bool back, N(block) *x, size_t *bytes)
{
    const int64_t most = WIDEST / sizeof(T), wide = job->g.width > job->g.value_width ? job->g.width : job->g.value_width;
    const int64_t width = job->g.width * most, values = job->g.value_width * most, tile = TD_KEY_ROWS * most;
    const int64_t transposed = (wide + 2 * most) * most > 2 * tile ? (wide + 2 * most) * most : 2 * tile;
    const int64_t rows = 2 * most * most;       /* panels of rows are filled up */
    const struct { T **part; int64_t size; } parts[] = {
        {&x->s, tile}, {&x->out, values}, {&x->q, width}, {&x->transposed, transposed},
        {&x->dq, width}, {&x->q_rows, width + rows}, {&x->grad_rows, values + rows},
    };
    const int n = back ? 7 : 4;
    int64_t total = 0;
    for (int i = 0; i < n; i++)
        total += parts[i].size;
    if (!job->columns)
        total = TD_QUERY_TILE * TD_KEY_TILE * (1 + back);
    *bytes = (size_t)total * sizeof(T);
    T *workspace = td_mem_alloc(*bytes), *at = workspace;
    for (int i = 0; workspace && i < n; at += parts[i++].size)
        *parts[i].part = at;
    return workspace;
}

/* Tasks [from, to): blocks of queries, head after head. */
static void N(forward)(void *context, int64_t from, int64_t to)
{
    td_attention_job *job = context;
    const int64_t tile = job->query_tile, blocks = td_ceil_div(job->g.queries, tile);
    N(block) x;
    size_t bytes;
    T *workspace = N(workspace)(job, false, &x, &bytes);
    if (!workspace) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t t = from; t < to; t++) {
        const int64_t b = t / blocks / job->g.heads, h = t / blocks % job->g.heads, q0 = t % blocks * tile;
        const int rows = (int)(job->g.queries - q0 < tile ? job->g.queries - q0 : tile);
        if (job->columns)
            N(query_columns)(job, b, h, q0, rows, &x);
        else
            N(query_rows)(job, b, h, q0, rows, workspace);
    }
    td_mem_free(workspace, bytes);
}

/* Tasks [from, to): heads of keys, each with all the heads of queries that share it.  Rows of dk and dv are written by the first
 * block that sees their keys, the later ones add; keys that none sees get zeros. */
static void N(backward)(void *context, int64_t from, int64_t to)
{
    td_attention_job *job = context;
    const int64_t group = job->g.heads / job->g.kv_heads, tile = job->query_tile;
    N(block) x;
    size_t bytes;
    T *workspace = N(workspace)(job, true, &x, &bytes);
    if (!workspace) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t t = from; t < to; t++) {
        const int64_t b = t / job->g.kv_heads, kv = t % job->g.kv_heads;
        int64_t seen = 0;
        for (int64_t h = kv * group; job->columns && h < (kv + 1) * group; h++)
            for (int64_t q0 = 0; q0 < job->g.queries; q0 += tile) {
                const int rows = (int)(job->g.queries - q0 < tile ? job->g.queries - q0 : tile);
                const int64_t end = N(reach)(job, q0, rows);
                N(backward_columns)(job, b, h, q0, rows, seen, &x);
                seen = end > seen ? end : seen;
            }
        for (int64_t r = seen; r < job->g.keys; r++) {
            memset(AT(job->dk, b, kv, r), 0, (size_t)job->g.width * sizeof(T));
            memset(AT(job->dv, b, kv, r), 0, (size_t)job->g.value_width * sizeof(T));
        }
        for (int64_t h = kv * group; !job->columns && h < (kv + 1) * group; h++)
            for (int64_t q0 = 0; q0 < job->g.queries; q0 += tile)
                N(backward_rows)(job, b, h, q0, (int)(job->g.queries - q0 < tile ? job->g.queries - q0 : tile), workspace);
    }
    td_mem_free(workspace, bytes);
}
#undef AT
#endif
