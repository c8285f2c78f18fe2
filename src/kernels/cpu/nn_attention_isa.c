/* softmax(scale q k^T + mask) v without ever writing the matrix of scores.
 *
 * After FlashAttention (Dao et al., 2022): a block of queries meets one block of keys after the other; the running maximum
 * and sum of each row rescale what was added up before.  The backward pass computes each tile of probabilities
 * again from the saved logsumexp.  Blocks beyond the diagonal of a causal mask are skipped. */
#ifndef S
#include "base/base.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/exp_run.h"
#include "kernels/cpu/nn_attention.h"

/* The products of this file's own level. */
#define OWN (&TD_ISA_NAME(td_gemm_table))
/* Rows of tiles in a strip of queries; queries that are too few to pack keys and values for. */
enum { STRIP = 2, FEW = 24 };

#define TD_BODY "nn_attention_isa.c"
#include "kernels/cpu/both_reals.h"

extern const td_attention_table TD_ISA_NAME(td_attention_table);
const td_attention_table TD_ISA_NAME(td_attention_table) = {
    .forward = {forward_f32, forward_f64}, .backward = {backward_f32, backward_f64},
};

#else

#define AT(h, b, i, r) ((T *)(h).data + (b) * (h).batch + (i) * (h).head + (r) * (h).row)

/* Keys and values of one head in the panels that products read, a tile of keys behind the other: packed when the first
 * queries meet them, and then there for all queries that the thread goes through. */
typedef struct N(panels) {
    T *keys, *values;
    int64_t head, tiles;            /* whose they are, and how many are packed */
    int64_t key_step, value_step;   /* from tile to tile */
} N(panels);

static void N(pack_tile)(const td_attention_job *job, int64_t b, int64_t kv, int64_t k0, int columns, N(panels) *to)
{
    const int64_t head = b * job->kv_heads + kv, tile = k0 / TD_KEY_TILE;
    if (to->head != head)
        to->head = head, to->tiles = 0;
    if (tile < to->tiles)
        return;
    to->tiles = tile + 1;
    OWN->N(pack)(columns, job->width, (td_matrix){AT(job->k, b, kv, k0), 1, job->k.row}, to->keys + tile * to->key_step);
    OWN->N(pack)(job->value_width, columns, (td_matrix){AT(job->v, b, kv, k0), job->v.row, 1},
                 to->values + tile * to->value_step);
}

/* Scores get the mask: -inf where it says no. */
static void N(mask)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0, int columns, T *s)
{
    int64_t at = b * job->mask_batch + h * job->mask_head + q0 * job->mask_row + k0 * job->mask_key;
    const int64_t step = job->mask_key;
    for (int r = 0; r < rows; r++, at += job->mask_row) {
        T *row = s + r * TD_KEY_TILE;
        if (job->truths) {
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
static void N(scores)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0, int columns,
                      const N(panels) *packed, T *s)
{
    const int64_t kv = h / (job->heads / job->kv_heads);
    const td_matrix q = {AT(job->q, b, h, q0), job->q.row, 1}, k = {AT(job->k, b, kv, k0), 1, job->k.row};
    if (packed) {
        /* Whole panels, of which the last in a tile may be narrower, and of one pass: the next begins behind all of this one's. */
        const int tile = (int)(job->keys - k0 < TD_KEY_TILE ? job->keys - k0 : TD_KEY_TILE), lanes = OWN->bytes / (int)sizeof(T);
        const int panel = lanes * OWN->vectors, whole = (columns + panel - 1) / panel * panel;
        const bool wide = job->width <= TD_GEMM_PASS((int)sizeof(T)) && whole <= tile &&
                          td_gemm_panel(tile - whole + panel, lanes, OWN->vectors) == panel;
        OWN->N(packed)(rows, wide ? whole : tile, job->width, (T)job->scale, q,
                       packed->keys + k0 / TD_KEY_TILE * packed->key_step, 0, s, TD_KEY_TILE, NULL);
    } else {
        N(td_gemm)(rows, columns, job->width, (T)job->scale, q, k, 0, s, TD_KEY_TILE);
    }
    if (job->mask)
        N(mask)(job, b, h, q0, rows, k0, columns, s);
}

/* out = factor * out + s v, for `columns` keys from k0 on. */
static void N(values)(const td_attention_job *job, int64_t b, int64_t kv, int rows, int64_t k0, int columns,
                      const N(panels) *packed, const T *s, T factor, T *out)
{
    const td_matrix a = {s, TD_KEY_TILE, 1};
    if (!packed) {
        N(td_gemm)(rows, job->value_width, columns, 1, a, (td_matrix){AT(job->v, b, kv, k0), job->v.row, 1}, factor, out,
                   job->out.row);
        return;
    }
    const int64_t tile = job->keys - k0 < TD_KEY_TILE ? job->keys - k0 : TD_KEY_TILE;
    const T *v = packed->values + k0 / TD_KEY_TILE * packed->value_step;
    /* Of a tile's first keys each panel has the first rows. */
    for (int64_t j = 0, step; j < job->value_width; j += step) {
        const int64_t left = job->value_width - j;
        step = columns == tile ? left : td_gemm_panel(left, OWN->bytes / (int64_t)sizeof(T), OWN->vectors);
        OWN->N(packed)(rows, step < left ? step : left, columns, 1, a, v + j * tile, factor, out + j, job->out.row, NULL);
    }
}

/* How many of a row's numbers are worth computing: those of the columns that the query may look at, the first ones, and as many
 * more as fill vectors.  Those get -inf, the rest of the row 0, which is what their exponentials are. */
static int N(trim)(const td_attention_job *job, int64_t query, int64_t k0, int columns, T *row)
{
    int64_t before = query - k0 + 1;
    int seen = !job->causal || before > columns ? columns : before < 0 ? 0 : (int)before, whole = (seen + 15) & ~15;
    for (int c = seen; c < whole; c++)
        row[c] = -(T)__builtin_inf();
    if (whole < columns)
        memset(row + whole, 0, (size_t)(columns - whole) * sizeof(T));
    return whole;
}

/* Keys that a block of queries may look at. */
static int64_t N(reach)(const td_attention_job *job, int64_t q0, int rows)
{
    return job->causal && q0 + rows < job->keys ? q0 + rows : job->keys;
}

/* A strip of queries, whose scores stay in the first cache, meets a tile of keys. */
static void N(strip)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0, int columns,
                     const N(panels) *packed, T *s, T *top, T *sum)
{
    const T none = -(T)__builtin_inf();
    T *out = AT(job->out, b, h, q0), most[TD_QUERY_TILE];
    int seen[TD_QUERY_TILE];
    N(scores)(job, b, h, q0, rows, k0, columns, packed, s);
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
            for (int64_t c = 0; c < job->value_width; c++)
                o[c] *= factor;
            sum[r] *= factor;
        }
        top[r] = most[r], sum[r] += add;
    }
    N(values)(job, b, h / (job->heads / job->kv_heads), rows, k0, columns, packed, s, k0 ? 1 : 0, out);
}

static void N(query_block)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, N(panels) *packed, T *s)
{
    T top[TD_QUERY_TILE], sum[TD_QUERY_TILE];
    const int64_t kv = h / (job->heads / job->kv_heads), end = N(reach)(job, q0, rows), width = job->value_width;
    const int strip = packed ? STRIP * OWN->rows : rows;
    T *out = AT(job->out, b, h, q0);
    for (int r = 0; r < rows; r++)
        top[r] = -(T)__builtin_inf(), sum[r] = 0;
    for (int64_t k0 = 0; k0 < end; k0 += TD_KEY_TILE) {
        const int columns = (int)(end - k0 < TD_KEY_TILE ? end - k0 : TD_KEY_TILE);
        if (packed)
            N(pack_tile)(job, b, kv, k0, (int)(job->keys - k0 < TD_KEY_TILE ? job->keys - k0 : TD_KEY_TILE), packed);
        for (int r = 0; r < rows; r += strip)
            N(strip)(job, b, h, q0 + r, rows - r < strip ? rows - r : strip, k0, columns, packed, s, top + r, sum + r);
    }
    T *lse = (T *)job->lse + (b * job->heads + h) * job->queries + q0;
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

static void N(forward)(void *context, int64_t from, int64_t to)
{
    td_attention_job *job = context;
    const int64_t tile = td_query_tile(job), blocks = td_ceil_div(job->queries, tile), lanes = OWN->bytes / (int64_t)sizeof(T);
    const int64_t tiles = td_ceil_div(job->keys, TD_KEY_TILE);
    N(panels) packed = {.head = -1, .key_step = td_gemm_packed_size(TD_KEY_TILE, job->width, lanes),
                        .value_step = td_gemm_packed_size(job->value_width, TD_KEY_TILE, lanes)};
    const bool pack = OWN->fused && job->queries * (job->heads / job->kv_heads) > FEW;
    const size_t scores = (size_t)TD_QUERY_TILE * TD_KEY_TILE * sizeof(T);
    const size_t bytes = scores + (pack ? (size_t)(tiles * (packed.key_step + packed.value_step)) * sizeof(T) : 0);
    T *s = td_mem_alloc(bytes);
    if (!s) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    packed.keys = s + TD_QUERY_TILE * TD_KEY_TILE, packed.values = packed.keys + tiles * packed.key_step;
    for (int64_t t = from; t < to; t++) {
        int64_t bh = t / blocks, q0 = t % blocks * tile;
        int rows = (int)(job->queries - q0 < tile ? job->queries - q0 : tile);
        N(query_block)(job, bh / job->heads, bh % job->heads, q0, rows, pack ? &packed : NULL, s);
    }
    td_mem_free(s, bytes);
}

/* One tile's part of all three gradients.  p and dp have room for a tile each. */
static void N(tile_backward)(const td_attention_job *job, int64_t b, int64_t h, int64_t q0, int rows, int64_t k0,
                             int columns,
                             const T *delta, T *p, T *dp)
{
    int64_t kv = h / (job->heads / job->kv_heads);
    const T *lse = (const T *)job->lse + (b * job->heads + h) * job->queries + q0;
    td_matrix grad = {AT(job->grad, b, h, q0), job->grad.row, 1}, tile = {p, TD_KEY_TILE, 1}, turned = {p, 1,
        TD_KEY_TILE};
    N(scores)(job, b, h, q0, rows, k0, columns, NULL, p);
    for (int r = 0; r < rows; r++) {
        T *row = p + r * TD_KEY_TILE;
        const T shift = lse[r];
        const int seen = N(trim)(job, q0 + r, k0, columns, row);
        N(td_exp_less)(row, shift, row, seen);
    }
    N(td_gemm)(columns, job->value_width, rows, 1, turned, grad, 1, AT(job->dv, b, kv, k0), job->dv.row);
    N(td_gemm)(rows, columns, job->value_width, 1, grad, (td_matrix){AT(job->v, b, kv, k0), 1, job->v.row}, 0, dp,
               TD_KEY_TILE);
    const T scale = (T)job->scale;
    for (int r = 0; r < rows; r++) {
        T *row = p + r * TD_KEY_TILE;
        const T *slope = dp + r * TD_KEY_TILE, centre = delta[r];
        const int64_t before = job->causal ? q0 + r - k0 + 1 : columns;
        const int seen = before > columns ? columns : before < 0 ? 0 : (int)before;
#pragma omp simd
        for (int c = 0; c < seen; c++)
            row[c] *= (slope[c] - centre) * scale;
    }
    N(td_gemm)(rows, job->width, columns, 1, tile, (td_matrix){AT(job->k, b, kv, k0), job->k.row, 1}, 1, AT(job->dq, b,
        h, q0),
               job->dq.row);
    N(td_gemm)(columns, job->width, rows, 1, turned, (td_matrix){AT(job->q, b, h, q0), job->q.row, 1}, 1, AT(job->dk,
        b, kv, k0),
               job->dk.row);
}

static void N(clear)(td_heads x, int64_t b, int64_t h, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        memset(AT(x, b, h, r), 0, (size_t)width * sizeof(T));
}

static void N(backward)(void *context, int64_t from, int64_t to)
{
    td_attention_job *job = context;
    size_t bytes = (size_t)(2 * TD_QUERY_TILE * TD_KEY_TILE) * sizeof(T);
    T *tiles = td_mem_alloc(bytes), delta[TD_QUERY_TILE];
    if (!tiles) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    int64_t group = job->heads / job->kv_heads, tile = td_query_tile(job);
    for (int64_t t = from; t < to; t++) {
        int64_t b = t / job->kv_heads, kv = t % job->kv_heads;
        N(clear)(job->dk, b, kv, job->keys, job->width);
        N(clear)(job->dv, b, kv, job->keys, job->value_width);
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            N(clear)(job->dq, b, h, job->queries, job->width);
            for (int64_t q0 = 0; q0 < job->queries; q0 += tile) {
                int rows = (int)(job->queries - q0 < tile ? job->queries - q0 : tile);
                /* The sum over keys of p dp is the product of the result with its gradient. */
                for (int r = 0; r < rows; r++) {
                    const T *o = AT(job->out, b, h, q0 + r), *g = AT(job->grad, b, h, q0 + r);
                    T sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int64_t c = 0; c < job->value_width; c++)
                        sum += o[c] * g[c];
                    delta[r] = sum;
                }
                int64_t end = N(reach)(job, q0, rows);
                for (int64_t k0 = 0; k0 < end; k0 += TD_KEY_TILE)
                    N(tile_backward)(job, b, h, q0, rows, k0, (int)(end - k0 < TD_KEY_TILE ? end - k0 : TD_KEY_TILE),
                                     delta, tiles,
                                     tiles + TD_QUERY_TILE * TD_KEY_TILE);
            }
        }
    }
    td_mem_free(tiles, bytes);
}
#undef AT
#endif
