/* Products of matrices, c = alpha a b + beta bias, for operands with any strides, in batches; and convolutions as such products.
 *
 * A group takes a tile of c.  It goes along k in slices: what a slice has of a and b is loaded into memory that the group shares, and each
 * work item multiplies PER_M elements of a's by PER_N of b's into sums that stay in its registers.  Where c has few tiles and k is long, groups share
 * k, too, and product_join adds their sums.
 *
 * Where an element lies is the sum of what its row and its column contribute (`part`), so that transposed operands need no copy.  With
 * GATHER, b are the columns of a convolution, which nobody writes down: element (tap, position) is read from the image at
 * the position's corner plus the tap's offset, and is 0 outside.  A tap is a channel and an element of the kernel.  Taps are k (forward,
 * and the gradient of the operand) or n (WEIGH: the gradient of the weights, summed over positions).
 *
 * A: the dtype; WIDE: whether it is float64.  Of complex numbers alpha and beta are 1. */
#include "kernels/device/group.ck"

#define PRODUCT_DIMS 6

/* Strides in elements.  alpha and beta: of integers themselves, else bits of the type that is computed in. */
typedef struct product_values {
    int64_t m, n, k, batch, splits, depth;      /* k is shared by `splits` groups, `depth` for each */
    int64_t a_row, a_column, b_row, b_column, c_row, c_column, c_batch, bias_row, bias_column, bias_batch;
    int64_t sizes[PRODUCT_DIMS], a_batch[PRODUCT_DIMS], b_batch[PRODUCT_DIMS];      /* innermost last; those in front are 1 */
    int64_t alpha, beta;
    int32_t has_bias, a_down, b_down, rows;     /* *_down: neighbours are in one column; rows: that a group of product_rows takes */
    /* Of positions: how many, where the image is read for the first one and for each further one, and where they lie outside of the image: in c, or in a. */
    int64_t position_image, position_channel, image_stride[3];      /* strides of what is gathered */
    int64_t total, count[3], step[3], start[3], size[3];
    int64_t other_image, other_first, other_stride[3];
    /* Of taps, the same. */
    int64_t taps, tap[3], skip[3], tap_channel, tap_first, tap_stride[3];
} product_values;

#ifndef TD_HOST
#if A_COMPLEX
#define FUSED(x, y, z) A_ADD(A_MUL(x, y), z)
#define FACTOR(x) 1
#elif !A_FLOATING
#define FUSED(x, y, z) ((x) * (y) + (z))
#define FACTOR(x) ((A_C)(x))
#elif WIDE
#define FUSED(x, y, z) td_fma_f64(x, y, z)
#define FACTOR NUMBER
#else
#define FUSED(x, y, z) td_fma_f32(x, y, z)
#define FACTOR NUMBER
#endif

#define PER_M (TILE_M / GRID_M)
#define PER_N (TILE_N / GRID_N)

/* What an index contributes: to where b is read; to where a is read (along k) or c is written (along n). */
typedef struct part {
    int64_t read, other;
#if GATHER
    int32_t d, h, w;
#endif
} part;

#if GATHER
static part position(product_values v, int64_t i)
{
    const int64_t image = i / v.total;
    const int32_t at = (int32_t)(i % v.total), w = at % (int32_t)v.count[2], high = at / (int32_t)v.count[2], h = high % (int32_t)v.count[1],
                  d = high / (int32_t)v.count[1];
    part p;
    p.read = image * v.position_image;
    p.other = image * v.other_image + v.other_first + d * v.other_stride[0] + h * v.other_stride[1] + w * v.other_stride[2];
    p.d = (int32_t)(d * v.step[0] + v.start[0]);
    p.h = (int32_t)(h * v.step[1] + v.start[1]);
    p.w = (int32_t)(w * v.step[2] + v.start[2]);
    return p;
}
static part tap(product_values v, int64_t i)
{
    const int64_t channel = i / v.taps;
    const int32_t at = (int32_t)(i % v.taps), w = at % (int32_t)v.tap[2], high = at / (int32_t)v.tap[2], h = high % (int32_t)v.tap[1],
                  d = high / (int32_t)v.tap[1];
    part p;
    p.read = channel * v.position_channel;
    p.other = channel * v.tap_channel + v.tap_first + d * v.tap_stride[0] + h * v.tap_stride[1] + w * v.tap_stride[2];
    p.d = (int32_t)(d * v.skip[0]);
    p.h = (int32_t)(h * v.skip[1]);
    p.w = (int32_t)(w * v.skip[2]);
    return p;
}
static A_C element(product_values v, GLOBAL const A *b, part p, part q)
{
    const int32_t d = p.d + q.d, h = p.h + q.h, w = p.w + q.w;
    if (d < 0 || h < 0 || w < 0 || d >= v.size[0] || h >= v.size[1] || w >= v.size[2])
        return A_ZERO;
    return A_LOAD(b[p.read + q.read + d * v.image_stride[0] + h * v.image_stride[1] + w * v.image_stride[2]]);
}
#if WEIGH
#define ALONG_K(v, i) position(v, i)
#define ALONG_N(v, i) tap(v, i)
#else
#define ALONG_K(v, i) tap(v, i)
#define ALONG_N(v, i) position(v, i)
#endif
#else
static part along_k(product_values v, int64_t i)
{
    part p;
    p.read = i * v.b_row, p.other = i * v.a_column;
    return p;
}
static part along_n(product_values v, int64_t i)
{
    part p;
    p.read = i * v.b_column, p.other = i * v.c_column;
    return p;
}
#define ALONG_K(v, i) along_k(v, i)
#define ALONG_N(v, i) along_n(v, i)
#define element(v, b, p, q) A_LOAD((b)[(p).read + (q).read])
#endif

static int64_t batch_offset(const int64_t sizes[PRODUCT_DIMS], const int64_t strides[PRODUCT_DIMS], int64_t i)
{
    int64_t at = 0;
    for (int d = PRODUCT_DIMS - 1; d >= 0 && i; d--) {
        at += i % sizes[d] * strides[d];
        i /= sizes[d];
    }
    return at;
}

/* The element of c that a sum is for, with what is added to it. */
static A finished(product_values v, A_C sum, GLOBAL const A *bias, int64_t batch, int64_t i, int64_t j)
{
    sum = A_SCALE(sum, FACTOR(v.alpha));
    if (v.has_bias)
        sum = A_ADD(sum, A_SCALE(A_LOAD(bias[batch * v.bias_batch + i * v.bias_row + j * v.bias_column]), FACTOR(v.beta)));
    return A_STORE(sum);
}

KERNEL product_tiles(BUFFER(a), BUFFER(b), BUFFER(c), BUFFER(bias), BUFFER(parts), VALUES(product_values, v))
{
    UNPACK(product_values, v)
    SHARED A_C of_a[TILE_K * (TILE_M + 1)];
    SHARED A_C of_b[TILE_K * (TILE_N + 1)];
    SHARED part slice[TILE_K];
    SHARED part columns[TILE_N];
    const int row = LANE / GRID_N, column = LANE % GRID_N;
    const int64_t down = (v.m + TILE_M - 1) / TILE_M, across = (v.n + TILE_N - 1) / TILE_N, tiles = down * across * v.splits * v.batch;
    for (int64_t t = GROUP; t < tiles; t += GROUPS) {
        const int64_t m0 = t % down * TILE_M, n0 = t / down % across * TILE_N, split = t / (down * across) % v.splits;
        const int64_t batch = t / (down * across * v.splits), first = split * v.depth, last = first + v.depth < v.k ? first + v.depth : v.k;
        GLOBAL const A *from_a = AT(const A, a) + batch_offset(v.sizes, v.a_batch, batch);
        GLOBAL const A *from_b = AT(const A, b) + batch_offset(v.sizes, v.b_batch, batch);
        A_C sums[PER_M][PER_N];
        for (int r = 0; r < PER_M; r++)
            for (int s = 0; s < PER_N; s++)
                sums[r][s] = A_ZERO;
        for (int j = LANE; j < TILE_N; j += LANES)
            if (n0 + j < v.n)
                columns[j] = ALONG_N(v, n0 + j);
        for (int64_t k0 = first; k0 < last; k0 += TILE_K) {
            for (int p = LANE; p < TILE_K; p += LANES)
                if (k0 + p < last)
                    slice[p] = ALONG_K(v, k0 + p);
            BARRIER;
            for (int e = LANE; e < TILE_M * TILE_K; e += LANES) {
                const int i = v.a_down ? e % TILE_M : e / TILE_K, p = v.a_down ? e / TILE_M : e % TILE_K;
                of_a[p * (TILE_M + 1) + i] = m0 + i < v.m && k0 + p < last ? A_LOAD(from_a[(m0 + i) * v.a_row + slice[p].other]) : A_ZERO;
            }
            for (int e = LANE; e < TILE_N * TILE_K; e += LANES) {
                const int j = v.b_down ? e / TILE_K : e % TILE_N, p = v.b_down ? e % TILE_K : e / TILE_N;
                of_b[p * (TILE_N + 1) + j] = n0 + j < v.n && k0 + p < last ? element(v, from_b, slice[p], columns[j]) : A_ZERO;
            }
            BARRIER;
            for (int p = 0; p < TILE_K; p++) {
                A_C x[PER_M], y[PER_N];
                for (int r = 0; r < PER_M; r++)
                    x[r] = of_a[p * (TILE_M + 1) + row + r * GRID_M];
                for (int s = 0; s < PER_N; s++)
                    y[s] = of_b[p * (TILE_N + 1) + column + s * GRID_N];
                for (int r = 0; r < PER_M; r++)
                    for (int s = 0; s < PER_N; s++)
                        sums[r][s] = FUSED(x[r], y[s], sums[r][s]);
            }
        }
        BARRIER;
        for (int r = 0; r < PER_M; r++)
            for (int s = 0; s < PER_N; s++) {
                const int64_t i = m0 + row + r * GRID_M, j = n0 + column + s * GRID_N;
                if (i >= v.m || j >= v.n)
                    continue;
                if (v.splits > 1)
                    AT(A_C, parts)[((split * v.batch + batch) * v.m + i) * v.n + j] = sums[r][s];
                else
                    AT(A, c)[batch * v.c_batch + i * v.c_row + columns[column + s * GRID_N].other] =
                        finished(v, sums[r][s], AT(const A, bias), batch, i, j);
            }
        BARRIER;
    }
}

/* What groups have summed of k, added in their order. */
KERNEL product_join(BUFFER(c), BUFFER(bias), BUFFER(parts), VALUES(product_values, v))
{
    UNPACK(product_values, v)
    const int64_t total = v.batch * v.m * v.n;
    for (int64_t at = ITEM; at < total; at += ITEMS) {
        const int64_t j = at % v.n, i = at / v.n % v.m, batch = at / v.n / v.m;
        A_C sum = A_ZERO;
        for (int64_t s = 0; s < v.splits; s++)
            sum = A_ADD(sum, AT(const A_C, parts)[s * total + at]);
        AT(A, c)[batch * v.c_batch + i * v.c_row + ALONG_N(v, j).other] = finished(v, sum, AT(const A, bias), batch, i, j);
    }
}

#if GATHER
/* Few kernels per group of channels, one for each channel say, would leave most of a tile empty: an element of c is then a work item's, or
 * a group's where positions are summed. */
#if !WEIGH
KERNEL product_elements(BUFFER(a), BUFFER(b), BUFFER(c), BUFFER(bias), VALUES(product_values, v))
{
    UNPACK(product_values, v)
    const int64_t total = v.batch * v.m * v.n;
    for (int64_t at = ITEM; at < total; at += ITEMS) {
        const int64_t j = at % v.n, i = at / v.n % v.m, batch = at / v.n / v.m;
        GLOBAL const A *from_a = AT(const A, a) + batch_offset(v.sizes, v.a_batch, batch) + i * v.a_row;
        GLOBAL const A *from_b = AT(const A, b) + batch_offset(v.sizes, v.b_batch, batch);
        const part here = position(v, j);
        A_C sum = A_ZERO;
        for (int64_t p = 0; p < v.k; p++) {
            const part q = tap(v, p);
            sum = FUSED(A_LOAD(from_a[q.other]), element(v, from_b, q, here), sum);
        }
        AT(A, c)[batch * v.c_batch + i * v.c_row + here.other] = finished(v, sum, AT(const A, bias), batch, i, j);
    }
}
#else
KERNEL product_sums(BUFFER(a), BUFFER(b), BUFFER(c), BUFFER(bias), VALUES(product_values, v))
{
    UNPACK(product_values, v)
    SHARED A_C room[WIDTH];
    for (int64_t at = GROUP; at < v.batch * v.m * v.n; at += GROUPS) {
        const int64_t j = at % v.n, i = at / v.n % v.m, batch = at / v.n / v.m;
        GLOBAL const A *from_a = AT(const A, a) + batch_offset(v.sizes, v.a_batch, batch) + i * v.a_row;
        GLOBAL const A *from_b = AT(const A, b) + batch_offset(v.sizes, v.b_batch, batch);
        const part here = tap(v, j);
        A_C sum = A_ZERO;
        for (int64_t p = LANE; p < v.k; p += LANES) {
            const part q = position(v, p);
            sum = FUSED(A_LOAD(from_a[q.other]), element(v, from_b, q, here), sum);
        }
        GROUP_FOLD(A_C, room, sum, A_ADD);
        if (LANE == 0)
            AT(A, c)[batch * v.c_batch + i * v.c_row + here.other] = finished(v, sum, AT(const A, bias), batch, i, j);
    }
}
#endif
#else
/* A matrix times one column: nothing is used twice, so all that counts is that neighbours read neighbours.  `rows` rows are a group's,
 * and as many work items as that leaves add up parts of a row. */
KERNEL product_rows(BUFFER(a), BUFFER(b), BUFFER(c), BUFFER(bias), BUFFER(parts), VALUES(product_values, v))
{
    UNPACK(product_values, v)
    SHARED A_C room[WIDTH];
    const int deep = WIDTH / v.rows, row = v.a_down ? LANE % v.rows : LANE / deep, mine = v.a_down ? LANE / v.rows : LANE % deep;
    const int64_t down = (v.m + v.rows - 1) / v.rows;
    for (int64_t t = GROUP; t < down * v.splits * v.batch; t += GROUPS) {
        const int64_t i = t % down * v.rows + row, split = t / down % v.splits, batch = t / (down * v.splits);
        const int64_t first = split * v.depth, last = first + v.depth < v.k ? first + v.depth : v.k;
        GLOBAL const A *from_a = AT(const A, a) + batch_offset(v.sizes, v.a_batch, batch) + i * v.a_row;
        GLOBAL const A *from_b = AT(const A, b) + batch_offset(v.sizes, v.b_batch, batch);
        A_C sum = A_ZERO;
        for (int64_t p = first + mine; p < last && i < v.m; p += deep)
            sum = FUSED(A_LOAD(from_a[p * v.a_column]), A_LOAD(from_b[p * v.b_row]), sum);
        room[LANE] = sum;
        for (int half_ = deep / 2; half_ > 0; half_ /= 2) {
            BARRIER;
            if (mine < half_)
                room[LANE] = A_ADD(room[LANE], room[LANE + (v.a_down ? half_ * v.rows : half_)]);
        }
        BARRIER;
        if (mine == 0 && i < v.m) {
            if (v.splits > 1)
                AT(A_C, parts)[(split * v.batch + batch) * v.m + i] = room[LANE];
            else
                AT(A, c)[batch * v.c_batch + i * v.c_row] = finished(v, room[LANE], AT(const A, bias), batch, i, 0);
        }
        BARRIER;
    }
}
#endif
#endif
