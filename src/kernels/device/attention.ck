/* softmax(scale q k' + mask) v without ever writing the matrix of scores (FlashAttention: Dao et al., 2022).
 *
 * A group takes ROWS queries of a head, and goes along the keys, as many at a time.  A tile of scores is made from slices of queries and keys, in
 * memory that the group shares; the running maximum and sum of each row correct what was added up before, which stays in registers.  Backward
 * each tile of probabilities is made again from the saved logsumexp: by groups that have ROWS queries and sum over keys, then by groups that
 * have ROWS keys and sum over queries and over the heads that share them, so that no two groups add to one element.
 *
 * A: the dtype; M: the mask's, if MASK is 1 (bool) or 2 (added); D: the widths, rounded up to a power of two; SLICE: rows of D elements that are loaded
 * at a time; WIDE: whether A is float64. */
#include "kernels/device/group.ck"
#include "kernels/device/attention_values.ck"

#ifndef TD_HOST
#if WIDE
#define FUSED(x, y, z) td_fma_f64(x, y, z)
#else
#define FUSED(x, y, z) td_fma_f32(x, y, z)
#endif
#define PITCH (ROWS + 1)
#define PER_I (ROWS / GRID_M)
#define PER_J (ROWS / GRID_N)
/* Of sums over rows: LANES_R x LANES_C work items. */
#if WIDTH >= 32
#define LANES_C 32
#else
#define LANES_C WIDTH
#endif
#define LANES_R (WIDTH / LANES_C)
#define PER_R (ROWS / LANES_R)
#define PER_C (D / LANES_C)

#define HEAD(x, s, b, h) (AT(const A, x) + (b) * (s).batch + (h) * (s).head)

/* to[i][j] = sum over w of x[x0 + i][w] y[y0 + j][w]; rows from nx and ny on are zeros. */
#define SCORES(to, x, xs, x0, nx, y, ys, y0, ny, depth)                                                                         \
    do {                                                                                                                        \
        A_C sum_[PER_I][PER_J];                                                                                                 \
        for (int i = 0; i < PER_I; i++)                                                                                         \
            for (int j = 0; j < PER_J; j++)                                                                                     \
                sum_[i][j] = 0;                                                                                                 \
        for (int64_t w0 = 0; w0 < (depth); w0 += ROWS) {                                                                        \
            BARRIER;                                                                                                            \
            for (int e = LANE; e < ROWS * ROWS; e += LANES) {                                                                   \
                const int i = e / ROWS, w = e % ROWS;                                                                           \
                const bool in = w0 + w < (depth);                                                                               \
                slices[w * PITCH + i] = in && (x0) + i < (nx) ? A_LOAD((x)[((x0) + i) * (xs).row + (w0 + w) * (xs).column]) : 0; \
                slices[ROWS * PITCH + w * PITCH + i] =                                                                          \
                    in && (y0) + i < (ny) ? A_LOAD((y)[((y0) + i) * (ys).row + (w0 + w) * (ys).column]) : 0;                    \
            }                                                                                                                   \
            BARRIER;                                                                                                            \
            for (int w = 0; w < ROWS; w++)                                                                                      \
                for (int i = 0; i < PER_I; i++)                                                                                 \
                    for (int j = 0; j < PER_J; j++)                                                                             \
                        sum_[i][j] = FUSED(slices[w * PITCH + LANE / GRID_N + i * GRID_M],                                      \
                                           slices[ROWS * PITCH + w * PITCH + LANE % GRID_N + j * GRID_N], sum_[i][j]);          \
        }                                                                                                                       \
        BARRIER;                                                                                                                \
        for (int i = 0; i < PER_I; i++)                                                                                         \
            for (int j = 0; j < PER_J; j++)                                                                                     \
                (to)[(LANE / GRID_N + i * GRID_M) * PITCH + LANE % GRID_N + j * GRID_N] = sum_[i][j];                           \
        BARRIER;                                                                                                                \
    } while (0)

/* sums[i][d] += sum over k of p(i, k) y[y0 + k][d], where p(i, k) is p[i * by_row + k * by_key].  The bound of a loop isn't a constant: with one
 * PoCL 3.1 gives zeros here, where the other dialects don't, and neither more barriers nor a loop that is kept from being unrolled help. */
#define ACCUMULATE(sums, p, by_row, by_key, y, ys, y0, ny, depth)                                                               \
    for (int k0_ = 0; k0_ < ROWS && (SLICE == ROWS || (y0) + k0_ < (ny)); k0_ += SLICE) {                                       \
        BARRIER;                                                                                                                \
        for (int e = LANE; e < SLICE * D; e += LANES) {                                                                         \
            const int64_t row = (y0) + k0_ + e / D, d = e % D;                                                                  \
            slices[e] = row < (ny) && d < (depth) ? A_LOAD((y)[row * (ys).row + d * (ys).column]) : 0;                          \
        }                                                                                                                       \
        BARRIER;                                                                                                                \
        for (int k = 0; k < SLICE; k++)                                                                                         \
            for (int i = 0; i < PER_R; i++)                                                                                     \
                for (int j = 0; j < PER_C; j++)                                                                                 \
                    (sums)[i][j] = FUSED((p)[(LANE / LANES_C + i * LANES_R) * (by_row) + (k0_ + k) * (by_key)],                 \
                                         slices[k * D + LANE % LANES_C + j * LANES_C], (sums)[i][j]);                           \
    }

#define CLEAR(sums)                         \
    for (int i = 0; i < PER_R; i++)         \
        for (int j = 0; j < PER_C; j++)     \
            (sums)[i][j] = 0

/* Sums to rows y0 + i of a tensor, times `factor`, which may depend on i. */
#define FINISH(y, ys, y0, ny, depth, sums, factor)                                                                              \
    for (int i_ = 0; i_ < PER_R; i_++) {                                                                                        \
        const int i = LANE / LANES_C + i_ * LANES_R;                                                                            \
        for (int j = 0; j < PER_C; j++) {                                                                                       \
            const int64_t d = LANE % LANES_C + j * LANES_C;                                                                     \
            if ((y0) + i < (ny) && d < (depth))                                                                                 \
                (y)[((y0) + i) * (ys).row + d * (ys).column] = A_STORE((sums)[i_][j] * (factor));                               \
        }                                                                                                                       \
    }

/* A score with its factor and the mask; minus infinity where the query doesn't see the key. */
static A_C masked(attention_values v, A_C score, GLOBAL const M *mask, int64_t b, int64_t h, int64_t query, int64_t key)
{
    if (query >= v.queries || key >= v.keys || (v.causal && key > query))
        return A_LOWEST;
    score *= NUMBER(v.scale);
#if MASK
    const M m = mask[b * v.mask[0] + h * v.mask[1] + query * v.mask[2] + key * v.mask[3]];
#if MASK == 1
    score = m ? score : A_LOWEST;
#else
    score += (A_C)M_LOAD(m);
#endif
#endif
    return score;
}

KERNEL attention_forward(BUFFER(q), BUFFER(k), BUFFER(value), BUFFER(mask), BUFFER(out), BUFFER(lse), VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    SHARED A_C slices[2 * ROWS * PITCH];
    SHARED A_C scores[ROWS * PITCH];
    SHARED A_C top[ROWS];
    SHARED A_C total[ROWS];
    SHARED A_C shift[ROWS];
    SHARED A_C factor[ROWS];
    const int64_t blocks = (v.queries + ROWS - 1) / ROWS;
    for (int64_t t = GROUP; t < v.batch * v.heads * blocks; t += GROUPS) {
        const int64_t q0 = t % blocks * ROWS, h = t / blocks % v.heads, b = t / blocks / v.heads, kv = h / (v.heads / v.kv_heads);
        const int64_t end = v.causal && q0 + ROWS < v.keys ? q0 + ROWS : v.keys;
        GLOBAL const A *qs = HEAD(q, v.q, b, h), *ks = HEAD(k, v.k, b, kv), *vs = HEAD(value, v.v, b, kv);
        A_C sums[PER_R][PER_C];
        CLEAR(sums);
        for (int r = LANE; r < ROWS; r += LANES)
            top[r] = A_LOWEST, total[r] = 0;
        for (int64_t k0 = 0; k0 < end; k0 += ROWS) {
            SCORES(scores, qs, v.q, q0, v.queries, ks, v.k, k0, v.keys, v.width);
            for (int e = LANE; e < ROWS * ROWS; e += LANES) {
                const int i = e / ROWS, j = e % ROWS;
                scores[i * PITCH + j] = masked(v, scores[i * PITCH + j], AT(const M, mask), b, h, q0 + i, k0 + j);
            }
            BARRIER;
            for (int r = LANE; r < ROWS; r += LANES) {
                A_C most = top[r];
                for (int j = 0; j < ROWS; j++)
                    most = scores[r * PITCH + j] > most ? scores[r * PITCH + j] : most;
                shift[r] = most == A_LOWEST ? 0 : most;
                factor[r] = most == top[r] ? (A_C)1 : A_exp(top[r] - shift[r]);
                top[r] = most;
            }
            BARRIER;
            for (int e = LANE; e < ROWS * ROWS; e += LANES)
                scores[e / ROWS * PITCH + e % ROWS] = A_exp(scores[e / ROWS * PITCH + e % ROWS] - shift[e / ROWS]);
            BARRIER;
            for (int r = LANE; r < ROWS; r += LANES) {
                A_C sum = 0;
                for (int j = 0; j < ROWS; j++)
                    sum += scores[r * PITCH + j];
                total[r] = total[r] * factor[r] + sum;
            }
            for (int i = 0; i < PER_R; i++)
                for (int j = 0; j < PER_C; j++)
                    sums[i][j] *= factor[LANE / LANES_C + i * LANES_R];
            ACCUMULATE(sums, scores, PITCH, 1, vs, v.v, k0, v.keys, v.value_width);
        }
        BARRIER;
        /* A query that sees no key has sum 0, result 0 and an infinite logsumexp, below which its probabilities are 0. */
        FINISH(AT(A, out) + b * v.out.batch + h * v.out.head, v.out, q0, v.queries, v.value_width, sums, total[i] == 0 ? 0 : 1 / total[i]);
        for (int r = LANE; r < ROWS; r += LANES)
            if (q0 + r < v.queries)
                AT(A_C, lse)[(b * v.heads + h) * v.queries + q0 + r] = total[r] == 0 ? A_HIGHEST : top[r] + A_log(total[r]);
        BARRIER;
    }
}

/* What each query's slopes are lessened by: sum of grad * result. */
KERNEL attention_delta(BUFFER(grad), BUFFER(out), BUFFER(delta), VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    for (int64_t at = ITEM; at < v.batch * v.heads * v.queries; at += ITEMS) {
        const int64_t i = at % v.queries, h = at / v.queries % v.heads, b = at / v.queries / v.heads;
        GLOBAL const A *g = HEAD(grad, v.grad, b, h) + i * v.grad.row, *o = HEAD(out, v.out, b, h) + i * v.out.row;
        A_C sum = 0;
        for (int64_t d = 0; d < v.value_width; d++)
            sum = FUSED(A_LOAD(g[d * v.grad.column]), A_LOAD(o[d * v.out.column]), sum);
        AT(A_C, delta)[at] = sum;
    }
}

/* The tile of queries from q0 and keys from k0: probabilities in `scores`, slopes of the scores in `slopes`. */
#define TILE(b, h, q0, k0)                                                                                                      \
    SCORES(scores, HEAD(q, v.q, b, h), v.q, q0, v.queries, ks, v.k, k0, v.keys, v.width);                                       \
    SCORES(slopes, HEAD(grad, v.grad, b, h), v.grad, q0, v.queries, vs, v.v, k0, v.keys, v.value_width);                        \
    for (int e = LANE; e < ROWS * ROWS; e += LANES) {                                                                           \
        const int i = e / ROWS, at = i * PITCH + e % ROWS;                                                                      \
        const int64_t row = ((b) * v.heads + (h)) * v.queries + (q0) + i;                                                       \
        const A_C s = masked(v, scores[at], AT(const M, mask), b, h, (q0) + i, (k0) + e % ROWS);                                \
        const A_C p = (q0) + i < v.queries ? A_exp(s - AT(const A_C, lse)[row]) : 0;                                            \
        scores[at] = p;                                                                                                         \
        slopes[at] = (q0) + i < v.queries ? p * (slopes[at] - AT(const A_C, delta)[row]) * NUMBER(v.scale) : 0;                 \
    }

KERNEL attention_queries(BUFFER(q), BUFFER(k), BUFFER(value), BUFFER(mask), BUFFER(grad), BUFFER(lse), BUFFER(delta), BUFFER(dq),
                         VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    SHARED A_C slices[2 * ROWS * PITCH];
    SHARED A_C scores[ROWS * PITCH];
    SHARED A_C slopes[ROWS * PITCH];
    const int64_t blocks = (v.queries + ROWS - 1) / ROWS;
    for (int64_t t = GROUP; t < v.batch * v.heads * blocks; t += GROUPS) {
        const int64_t q0 = t % blocks * ROWS, h = t / blocks % v.heads, b = t / blocks / v.heads, kv = h / (v.heads / v.kv_heads);
        const int64_t end = v.causal && q0 + ROWS < v.keys ? q0 + ROWS : v.keys;
        GLOBAL const A *ks = HEAD(k, v.k, b, kv), *vs = HEAD(value, v.v, b, kv);
        A_C sums[PER_R][PER_C];
        CLEAR(sums);
        for (int64_t k0 = 0; k0 < end; k0 += ROWS) {
            TILE(b, h, q0, k0)
            ACCUMULATE(sums, slopes, PITCH, 1, ks, v.k, k0, v.keys, v.width);
        }
        FINISH(AT(A, dq) + b * v.dq.batch + h * v.dq.head, v.dq, q0, v.queries, v.width, sums, 1);
        BARRIER;
    }
}

KERNEL attention_keys(BUFFER(q), BUFFER(k), BUFFER(value), BUFFER(mask), BUFFER(grad), BUFFER(lse), BUFFER(delta), BUFFER(dk), BUFFER(dv),
                      VALUES(attention_values, v))
{
    UNPACK(attention_values, v)
    SHARED A_C slices[2 * ROWS * PITCH];
    SHARED A_C scores[ROWS * PITCH];
    SHARED A_C slopes[ROWS * PITCH];
    const int64_t blocks = (v.keys + ROWS - 1) / ROWS, shared = v.heads / v.kv_heads;
    for (int64_t t = GROUP; t < v.batch * v.kv_heads * blocks; t += GROUPS) {
        const int64_t k0 = t % blocks * ROWS, kv = t / blocks % v.kv_heads, b = t / blocks / v.kv_heads;
        GLOBAL const A *ks = HEAD(k, v.k, b, kv), *vs = HEAD(value, v.v, b, kv);
        A_C of_keys[PER_R][PER_C], of_values[PER_R][PER_C];
        CLEAR(of_keys);
        CLEAR(of_values);
        for (int64_t h = kv * shared; h < (kv + 1) * shared; h++)
            for (int64_t q0 = v.causal ? k0 : 0; q0 < v.queries; q0 += ROWS) {
                TILE(b, h, q0, k0)
                ACCUMULATE(of_values, scores, 1, PITCH, HEAD(grad, v.grad, b, h), v.grad, q0, v.queries, v.value_width);
                ACCUMULATE(of_keys, slopes, 1, PITCH, HEAD(q, v.q, b, h), v.q, q0, v.queries, v.width);
            }
        FINISH(AT(A, dk) + b * v.dk.batch + kv * v.dk.head, v.dk, k0, v.keys, v.width, of_keys, 1);
        FINISH(AT(A, dv) + b * v.dv.batch + kv * v.dv.head, v.dv, k0, v.keys, v.value_width, of_values, 1);
        BARRIER;
    }
}
#endif
