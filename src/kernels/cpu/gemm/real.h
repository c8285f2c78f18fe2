/* Products of real matrices as they lie: packing b, and what goes without (small products, vectors), for a T named SUFFIX whose
 * tiles are in tiles.h.
 *
 *     gemm        any product: packs b, and a where that pays, or reads them as they lie
 *     narrow      many small ones, c no wider than a tile: no packing, no tails through memory
 *     gemv        a matrix and a vector: each number of the matrix is read once, so memory bounds it
 */

/* depth x width of b, to depth x step with zeros behind. */
static void N(pack_panel)(int64_t depth, int64_t width, const T *b, int64_t row, int64_t column, T *to, int64_t step)
{
    if (column == 1) {
        for (int64_t p = 0; p < depth; p++, to += step, b += row) {
            memcpy(to, b, (size_t)width * sizeof(T));
            memset(to + width, 0, (size_t)(step - width) * sizeof(T));
        }
    } else if (row == 1) {
        for (int64_t j = 0; j < step; j += LANES) {
            const int count = width - j < LANES ? (int)(width - j) : LANES;
            if (count == LANES)
                N(transpose_rows)(LANES, LANES, depth, b + j * column, column, to + j, step);
            else
                N(transpose_rows)(LANES, count, depth, b + j * column, column, to + j, step);
        }
    } else {
        for (int64_t p = 0; p < depth; p++, to += step)
            for (int64_t j = 0; j < step; j++)
                to[j] = j < width ? b[p * row + j * column] : 0;
    }
}

/* The panels of depth x width numbers of b, one behind the other.  Rows are read as they lie, across the panels: that is
 * what processors fetch ahead. */
static void N(pack_panels)(int64_t depth, int64_t width, const T *b, int64_t row, int64_t column, T *to)
{
    int64_t j = 0;
    if (column == 1) {
        while (td_gemm_panel(width - j, LANES, VECTORS) == NR && width - j >= NR)
            j += NR;
        for (int64_t p = 0; p < depth; p++)
            for (int64_t x = 0; x < j; x += NR) {
                const T *from = b + p * row + x;
                T *at = to + x * depth + p * NR;
#pragma GCC unroll 3
                for (int v = 0; v < NR; v += LANES) {
                    *(V *)(at + v) = *(const V *)(from + v);
                    __builtin_prefetch(from + 2 * row + v);
                }
            }
    }
    for (int64_t step; j < width; j += step) {
        step = td_gemm_panel(width - j, LANES, VECTORS);
        N(pack_panel)(depth, width - j < step ? width - j : step, b + j * column, row, column, to + j * depth, step);
    }
}

/* b in panels, pass after pass: [pass][panel][depth][columns], which is what packed() reads. */
static void N(pack_some)(int64_t n, int64_t k, td_matrix mb, int64_t first, int64_t end, T *to)
{
    const int64_t step = td_gemm_depth(k, sizeof(T));
    for (int64_t p = 0; p < k; p += step) {
        int64_t depth = k - p < step ? k - p : step;
        N(pack_panels)(depth, end - first, (const T *)mb.data + p * mb.row + first * mb.column, mb.row, mb.column,
                       to + first * depth);
        to += td_gemm_packed_size(n, depth, LANES);
    }
}

/* The whole of b, by one thread. */
static void N(pack)(int64_t n, int64_t k, td_matrix mb, T *to)
{
    N(pack_some)(n, k, mb, 0, n, to);
}

/* rows x (up to vectors * LANES) numbers of c, straight from where a and b lie; `last` numbers of the last vector are read
 * and written. */
INLINE void N(direct)(const int rows, const int vectors, const N(tiles) *t, int last, const T *a, const T *b, T *c)
{
    const int64_t row = t->row, column = t->column;
    V acc[MR][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            acc[i][v] = (V){0};
    const T *at[3] = {a, a + 3 * row, a + 6 * row};
    for (int64_t left = t->depth; left > 0; left--, b += t->step_b) {
        V line[VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            line[v] = v < vectors - 1 ? *(const V *)(b + v * LANES) : N(load_part)(b + v * LANES, last);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const V x = at[i / 3][i % 3 * row] - (V){0};
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                N(add_product)(&acc[i][v], x, line[v]);
        }
        for (int r = 0; r < 3; r++)
            at[r] += column;
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++, c += t->ldc)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) {
            const int count = v < vectors - 1 ? LANES : last;
            V x = acc[i][v];
            if (t->alpha != 1)
                x *= (V){0} + t->alpha;
            if (t->beta != 0)
                x = N(fma)((V){0} + t->beta, N(load_part)(c + v * LANES, count), x);
            N(store_part)(c + v * LANES, x, count);
        }
}

#define ARGUMENTS const N(tiles) *t, int last, const T *a, const T *b, T *c
#define DIRECT(r, v)                                      \
    static NOINLINE void N(direct_##r##_##v)(ARGUMENTS)   \
    {                                                     \
        N(direct)(r, v, t, last, a, b, c);                \
    }
#if VECTORS == 3
#define DIRECTS(r) DIRECT(r, 1) DIRECT(r, 2) DIRECT(r, 3)
#define NAMES(r) {N(direct_##r##_1), N(direct_##r##_2), N(direct_##r##_3)}
#else
#define DIRECTS(r) DIRECT(r, 1) DIRECT(r, 2)
#define NAMES(r) {N(direct_##r##_1), N(direct_##r##_2)}
#endif
DIRECTS(1)
DIRECTS(2)
DIRECTS(4)
#if MR >= 6
DIRECTS(6)
#endif
#if MR >= 8
DIRECTS(8)
#endif

/* One function per number of rows and vectors, as in tiles.h: sums must stay in registers, so both are constants. */
typedef void N(direct_kernel)(ARGUMENTS);
/* By rows / 2 and vectors - 1. */
static N(direct_kernel) *const N(directs)[][VECTORS] = {
    NAMES(1), NAMES(2), NAMES(4),
#if MR >= 6
    NAMES(6),
#endif
#if MR >= 8
    NAMES(8),
#endif
};
#undef ARGUMENTS
#undef DIRECT
#undef DIRECTS
#undef NAMES

/* The order of additions is that of gemm(), so which of the two computes a product doesn't show: k is at most one pass, and each
 * sum takes its products one after the other.  b spans at most 16 KiB, half of a first cache of 32 KiB, since every tile reads all of it. */
static bool N(narrow)(int64_t count, int64_t m, int64_t n, int64_t k, T alpha, td_matrix a, int64_t step_a, td_matrix b,
                      int64_t step_b, T beta, T *c, int64_t ldc, int64_t step_c)
{
    const int64_t span = k * b.row * (int64_t)sizeof(T);
    if (n > NR || k > KC || b.column != 1 || span > 1 << 14 || span < -(1 << 14) || (!PARTS && n % LANES))
        return false;
    const int vectors = (int)((n + LANES - 1) / LANES), last = (int)(n - (vectors - 1) * LANES);
    const N(tiles) t = {.depth = k, .row = a.row, .column = a.column, .alpha = alpha, .beta = beta, .ldc = ldc,
                        .step_b = b.row};
    for (int64_t which = 0; which < count; which++) {
        const T *from = (const T *)a.data + which * step_a, *with = (const T *)b.data + which * step_b;
        T *to = c + which * step_c;
        for (int64_t i = 0, some; i < m; i += some) {
            const int64_t left = m - i;
            some = left >= MR ? MR : left == 1 ? 1 : left / 2 * 2;
            N(directs)[some / 2][vectors - 1](&t, last, from + i * a.row, with, to + i * ldc);
        }
    }
    return true;
}

/* c = alpha a b + beta c, and the bias, on the calling thread.  It can't fail: without memory for a block of panels it packs one
 * panel at a time, on the stack (KC x NR floats are 96 KiB with AVX-512, 32 KiB with AVX2; doubles half of that). */
static void N(gemm)(int64_t m, int64_t n, int64_t k, T alpha, td_matrix ma, td_matrix mb, T beta, T *c, int64_t ldc,
                    const T *bias)
{
    const T *a = ma.data, *b = mb.data;
    const int64_t step = td_gemm_depth(k, sizeof(T)), span = step * mb.row * (int64_t)sizeof(T);
    /* b needn't be packed for few rows, unless it streams by from afar; or for some, if it stays in the second cache as it is,
     * or its panels in the first, where rows a page apart get in each other's way; unless it is transposed, or its rows are
     * one and the same (a step of 0 is that of panels one behind the other). */
    const int64_t down_b = mb.row * (int64_t)sizeof(T);
    const bool small = m <= 128 && step * NR * (int64_t)sizeof(T) <= 24 << 10 && down_b % 4096 != 0;
    const bool near = down_b % 64 == 0 && m <= 128 && span <= (m <= 64 ? 1 << 19 : 1 << 18);
    const bool few = m <= 24 && (m < 8 || span <= 4 << 20);
    const bool pack = mb.column != 1 || mb.row == 0 || !(few || small || near || span <= 1 << 14);
    const bool pack_a = N(packs)(n, ma.column, pack && n > NC);
    _Alignas(64) T b_panel[KC * NR], a_panel[KC * MR + LANES];
    N(packing) packing = {.panels = pack_a ? a_panel : NULL, .block = pack_a ? MR : m};
    T *packed = b_panel;
    /* Blocks of columns for the second cache; of rows, if these stay packed for all columns.  What is read across is packed
     * some panels at a time, to use up the lines that were fetched. */
    int64_t across = pack ? N(pieces)(n, NC, NR) : n, down = pack_a && across < n ? N(pieces)(m, MC, MR) : m;
    const int64_t size_b = pack && across > NR ? td_gemm_packed_size(across, step, LANES) : 0;
    int64_t rows_a = across < n || !pack ? down : ma.row == 1 ? 8 * MR : MR;
    rows_a = pack_a && rows_a > MR ? (rows_a + MR - 1) / MR * MR : 0;
    const size_t bytes = (size_t)(size_b + rows_a * step + LANES) * sizeof(T);
    T *block = size_b + rows_a ? td_mem_alloc(bytes) : NULL;
    if (block) {
        packed = size_b ? block : packed;
        if (rows_a)
            packing = (N(packing)){block + size_b, rows_a, false};
    } else if (size_b + rows_a) {   /* no memory: panel by panel, then */
        across = pack ? NR : n;
    }
    int64_t p = 0;
    do {    /* once even if k is 0, to scale c */
        const int64_t depth = k - p < step ? k - p : step;
        for (int64_t i = 0; i < m; i += down) {
            packing.filled = false;
            for (int64_t j = 0; j < n; j += across) {
                const int64_t width = n - j < across ? n - j : across;
                const T *from = b + p * mb.row + j * mb.column;
                N(columns) columns = {.b = from, .width = width, .step = mb.row};
                if (pack) {
                    N(pack_panels)(depth, width, from, mb.row, mb.column, packed);
                    columns = (N(columns)){.b = packed, .width = width};
                } else if (width % LANES) {
                    int64_t last = 0, end;
                    while ((end = last + td_gemm_panel(width - last, LANES, VECTORS)) < width)
                        last = end;
                    N(pack_panel)(depth, width - last, from + last, mb.row, 1, b_panel, end - last);
                    columns.tail = b_panel;
                }
                N(run)(m - i < down ? m - i : down, depth, alpha, p ? 1 : beta, a + i * ma.row + p * ma.column, ma.row,
                       ma.column, &packing, &columns, bias && p + depth >= k ? bias + j : NULL, c + i * ldc + j, ldc);
            }
        }
        p += depth;
    } while (p < k);
    td_mem_free(block, bytes);
}

/* The products of BESIDE rows with x, or of one: each is added up in the same order in both cases.  Four vectors of sums per row hide
 * the latency of a multiply-add.  Loads from memory are what this waits for, and the processor's own prefetching begins anew at each page,
 * of which a row has few: so the same places of the rows that come next are fetched, into the second cache. */
INLINE void N(dots)(const int rows, int64_t n, const T *a, int64_t row, const T *x, T *to)
{
    V sum[BESIDE][4];
#pragma GCC unroll 4
    for (int i = 0; i < BESIDE; i++)
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            sum[i][r] = (V){0};
    int64_t p = 0;
    for (; p + 4 * LANES <= n; p += 4 * LANES)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                __builtin_prefetch(a + (i + rows) * row + p + r * LANES, 0, 2);
                N(add_product)(&sum[i][r], *(const V *)(a + i * row + p + r * LANES), *(const V *)(x + p + r * LANES));
            }
    for (; p < n; p += LANES) {
        const int count = n - p < LANES ? (int)(n - p) : LANES;
        const V part = N(load_part)(x + p, count);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            N(add_product)(&sum[i][0], N(load_part)(a + i * row + p, count), part);
    }
    V all[4] = {{0}};
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        all[i] = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
    N(totals)(all[0], all[1], all[2], all[3], to);
}

/* Where columns lie side by side they are added up, four at a time, in a block of sums (8 KiB) that stays in the first cache: with
 * four columns per load and store of the sums, reading the matrix bounds the loop.  Every sum takes the columns in order, so
 * where blocks begin doesn't show. */
static void N(gemv_columns)(int64_t m, int64_t k, T alpha, td_matrix ma, const T *x, int64_t step_x, T beta, T *y,
                            int64_t step_y)
{
    enum { BLOCK = 8192 / sizeof(T) };
    T sum[BLOCK];
    for (int64_t i = 0; i < m; i += BLOCK) {
        const int64_t width = m - i < BLOCK ? m - i : BLOCK;
        const T *a = (const T *)ma.data + i;
        memset(sum, 0, (size_t)((width + LANES - 1) / LANES * LANES) * sizeof(T));
        int64_t p = 0;
        for (; p + 4 <= k; p += 4, a += 4 * ma.column) {
            const V none = {0}, x0 = none + x[p * step_x], x1 = none + x[(p + 1) * step_x];
            const V x2 = none + x[(p + 2) * step_x], x3 = none + x[(p + 3) * step_x];
            int64_t r = 0;
            for (; r + LANES <= width; r += LANES) {
                V s = *(const V *)(sum + r);
                N(add_product)(&s, *(const V *)(a + r), x0);
                N(add_product)(&s, *(const V *)(a + ma.column + r), x1);
                N(add_product)(&s, *(const V *)(a + 2 * ma.column + r), x2);
                N(add_product)(&s, *(const V *)(a + 3 * ma.column + r), x3);
                *(V *)(sum + r) = s;
            }
            if (r < width)
                for (int q = 0; q < 4; q++)
                    N(add_product)((V *)(sum + r), N(load_part)(a + q * ma.column + r, (int)(width - r)),
                                   none + x[(p + q) * step_x]);
        }
        for (; p < k; p++, a += ma.column)
            for (int64_t r = 0; r < width; r += LANES)
                N(add_product)((V *)(sum + r), N(load_part)(a + r, width - r < LANES ? (int)(width - r) : LANES),
                               (V){0} + x[p * step_x]);
        for (int64_t r = 0; r < width; r++) {
            T *to = y + (i + r) * step_y;
            *to = beta == 0 ? alpha * sum[r] : alpha * sum[r] + beta * *to;
        }
    }
}

/* y = alpha a x + beta y, by rows or by columns, whichever are read as they lie; else number by number. */
static void N(gemv)(int64_t m, int64_t k, T alpha, td_matrix ma, const T *x, int64_t step_x, T beta, T *y,
                    int64_t step_y)
{
    const bool along = ma.column == 1 && step_x == 1;
    if (ma.row == 1 && (m > 1 || !along)) {
        N(gemv_columns)(m, k, alpha, ma, x, step_x, beta, y, step_y);
        return;
    }
    const T *a = ma.data;
    for (int64_t i = 0, some; i < m; i += some) {
        const T *row = a + i * ma.row;
        T totals[4] = {0};
        some = along && m - i >= BESIDE ? BESIDE : 1;
        if (some == BESIDE)
            N(dots)(BESIDE, k, row, ma.row, x, totals);
        else if (along)
            N(dots)(1, k, row, 0, x, totals);
        else
            for (int64_t p = 0; p < k; p++)
                totals[0] += row[p * ma.column] * x[p * step_x];
        for (int64_t r = 0; r < some; r++) {
            T *to = y + (i + r) * step_y;
            *to = beta == 0 ? alpha * totals[r] : alpha * totals[r] + beta * *to;
        }
    }
}

#undef V
#undef LANES
#undef NR
#undef KC
#undef NC
#undef MC
#undef FAR
#undef UNROLL
