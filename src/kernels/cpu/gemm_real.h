/* Products of real matrices, for a T named SUFFIX: included by gemm_isa.c for float and double.
 *
 * The inner kernel holds MR x NR numbers of c in registers and walks over `depth` steps of k: each step broadcasts MR
 * numbers of a and multiplies them with NR of b.  Around it, as in every fast product since Goto's:
 *
 *     for each pass over k (at most KC steps, so that an MR x KC panel of a stays in the first cache)
 *         for each NC columns of b: packed into panels of NR columns, which stay in the second cache
 *             for each MR rows of a: packed if many panels of b will use them or if their lines fall on each other
 *                 for each panel of b: the inner kernel
 *
 * The passes depend on k alone and the order of the additions within one on nothing, so how c is cut into tiles never
 * shows in the result.
 *
 * The last rows of c are computed by the smallest kernel that covers them, moved up to end where c ends; the rows
 * that it has in common with the one before are computed twice and stored once. */

#define V     N(vec)
#define LANES ((int)(VBYTES / sizeof(T)))
#define NR    (2 * LANES)
#define KC    ((int)(TD_GEMM_PASS / sizeof(T)))
#define NC    512

/* What stays the same for all tiles of a panel of a. */
typedef struct N(tile) {
    int64_t depth, row, column;     /* steps of k; a's steps */
    T alpha, beta;
    int64_t ldc;
    int skip;                       /* rows at the top that aren't stored */
} N(tile);

/* rows x (vectors * LANES) sums of products, with a row of `add` added to each; c is where they will go in the end, to have
 * it come nearer meanwhile.  Whole vectors of b and `add` are read and whole vectors are written. */
INLINE void N(micro)(const int rows, const int vectors, const bool packed, const N(tile) *t, const T *a, const T *b, int64_t step_b,
                     const T *c, const T *add, int64_t step_add, T *to, int64_t step_to)
{
    V acc[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
        acc[i][0] = acc[i][1] = (V){0};
    /* In place, three rows per pointer: as far as an address can reach without arithmetic. */
    const int64_t row = t->row * (int64_t)sizeof(T), column = (packed ? MR : t->column) * (int64_t)sizeof(T);
    const int64_t down = step_b * (int64_t)sizeof(T), ahead = 8 * down;
    const char *at[4], *line = (const char *)b;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        at[i] = (const char *)a + 3 * i * row;
    for (int i = t->skip; i < rows; i++)
        __builtin_prefetch(c + i * t->ldc), __builtin_prefetch(c + i * t->ldc + vectors * LANES - 1);
    for (int64_t p = t->depth; p > 0; p--) {
        const V b0 = *(const V *)line, b1 = vectors > 1 ? *(const V *)(line + VBYTES) : b0;
        __builtin_prefetch(line + ahead);
        if (vectors > 1 && VBYTES == 64)
            __builtin_prefetch(line + ahead + VBYTES);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const char *from = packed ? at[0] + i * (int64_t)sizeof(T) : at[i / 3] + i % 3 * row;
            const V x = *(const T *)from - (V){0};      /* minus 0: what changes nothing */
            acc[i][0] = N(fma)(x, b0, acc[i][0]);
            if (vectors > 1)
                acc[i][1] = N(fma)(x, b1, acc[i][1]);
        }
        line += down;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            at[i] += packed && i ? 0 : column;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, to += step_to, add += step_add) {
        *(V *)to = acc[i][0] + *(const V *)add;
        if (vectors > 1)
            *(V *)(to + LANES) = acc[i][1] + *(const V *)(add + LANES);
    }
}

/* What the inner kernel has added up, to where it belongs. */
static void N(finish)(int rows, int width, const N(tile) *t, const T *block, const T *bias, T *c)
{
    const V alpha = (V){0} + t->alpha, beta = (V){0} + t->beta;
    const bool old = t->beta != 0, plain = t->alpha == 1;
    const int first = width < LANES ? width : LANES, second = width - first;
    for (int i = t->skip; i < rows; i++) {
        T *to = c + i * t->ldc;
        V x = *(const V *)(block + i * NR);
        if (!plain)
            x = alpha * x;
        if (old)
            x = N(fma)(beta, N(load_part)(to, first), x);
        if (bias)
            x += N(load_part)(bias, first);
        N(store_part)(to, x, first);
        if (second > 0) {
            V y = *(const V *)(block + i * NR + LANES);
            if (!plain)
                y = alpha * y;
            if (old)
                y = N(fma)(beta, N(load_part)(to + LANES, second), y);
            if (bias)
                y += N(load_part)(bias + LANES, second);
            N(store_part)(to + LANES, y, second);
        }
    }
}

/* Each a function of its own: together they would be too much for the compiler's allocation of registers. */
#define ARGUMENTS const N(tile) *t, const T *a, const T *b, int64_t step_b, const T *c, const T *add, int64_t step_add, \
                  T *to, int64_t step_to
#define MICRO(r)                                                                \
    static NOINLINE void N(micro_##r##_2)(ARGUMENTS)                            \
    {                                                                           \
        N(micro)(r, 2, false, t, a, b, step_b, c, add, step_add, to, step_to);  \
    }                                                                           \
    static NOINLINE void N(micro_##r##_1)(ARGUMENTS)                            \
    {                                                                           \
        N(micro)(r, 1, false, t, a, b, step_b, c, add, step_add, to, step_to);  \
    }
MICRO(1)
MICRO(2)
MICRO(4)
#if MR >= 6
MICRO(6)
#endif
#if MR >= 12
MICRO(8)
MICRO(12)
#endif
#undef MICRO
static NOINLINE void N(micro_packed)(ARGUMENTS)
{
    N(micro)(MR, 2, true, t, a, b, step_b, c, add, step_add, to, step_to);
}
#undef ARGUMENTS

#define MICRO(r)                                                           \
    case r:                                                                \
        if (width > LANES)                                                 \
            N(micro_##r##_2)(t, a, b, step_b, c, add, step_add, to, step); \
        else                                                               \
            N(micro_##r##_1)(t, a, b, step_b, c, add, step_add, to, step); \
        break;
static void N(strip)(int rows, int width, const N(tile) *t, const T *a, const T *b, int64_t step_b, const T *bias, T *c)
{
    static const T zeros[NR];
    /* Without factors and parts of vectors, the sums are written, or added to what is there, where they belong; rows that were
     * computed before get the same numbers again, but must not be added to twice. */
    const bool plain = width == NR && t->alpha == 1, more = plain && t->beta == 1 && !t->skip && !bias;
    const bool direct = more || (plain && t->beta == 0);
    const T *add = more ? c : direct && bias ? bias : zeros;
    T block[MR * NR], *to = direct ? c : block;
    const int64_t step = direct ? t->ldc : NR, step_add = more ? t->ldc : 0;
    if (rows == MR && width > LANES && t->row == 1 && t->column == MR)
        N(micro_packed)(t, a, b, step_b, c, add, step_add, to, step);
    else switch (rows) {
        MICRO(1)
        MICRO(2)
        MICRO(4)
#if MR >= 6
        MICRO(6)
#endif
#if MR >= 12
        MICRO(8)
        MICRO(12)
#endif
    }
    if (!direct)
        N(finish)(rows, width, t, block, bias, c);
}
#undef MICRO

/* The rows that the next kernel computes, of `left` (at most `above` + left of which exist). */
INLINE int N(rows)(int64_t above, int64_t left)
{
    static const int sizes[] = {MR, MR >= 12 ? 8 : 4, MR >= 12 ? 6 : 2, MR >= 12 ? 4 : 1, MR >= 12 ? 2 : 1, 1};
    int best = MR;
    if (left >= MR)     /* two of 8 are faster than one of 12 and one of 4 */
        return MR >= 12 && left > MR && left <= 16 ? 8 : MR;
    for (int i = 1; i < 6 && sizes[i] >= left; i++)
        best = sizes[i];
    if (best <= above + left)
        return best;
    for (int i = 0; i < 6; i++)
        if (sizes[i] <= left)
            return sizes[i];
    return 1;
}

/* LANES vectors as rows become columns: each stage zips the first half of the rows with the second. */
INLINE void N(turn)(V *x)
{
#pragma GCC unroll 4
    for (int stage = 1; stage < LANES; stage *= 2) {
        V y[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++)
            y[2 * i] = N(zip_low)(x[i], x[i + LANES / 2]), y[2 * i + 1] = N(zip_high)(x[i], x[i + LANES / 2]);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            x[i] = y[i];
    }
}

/* to[p * step + i] = from[i * row + p], for i < count <= LANES and p < n.  Writes whole vectors: up to LANES - count
 * numbers behind each row, which the next row overwrites, so the caller leaves room behind the last. */
static void N(turn_rows)(int count, int64_t n, const T *from, int64_t row, T *to, int64_t step)
{
    int64_t p = 0;
    for (; p + LANES <= n; p += LANES, to += LANES * step) {
        V x[LANES];
        if (count == LANES) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                x[i] = *(const V *)(from + i * row + p);
        } else {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                x[i] = i < count ? *(const V *)(from + i * row + p) : (V){0};
        }
        N(turn)(x);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            *(V *)(to + i * step) = x[i];
    }
    for (; p < n; p++, to += step)
        for (int i = 0; i < LANES; i++)
            to[i] = i < count ? from[i * row + p] : 0;
}

/* depth x width of b, to depth x NR with zeros behind. */
static void N(pack_panel)(int64_t depth, int64_t width, const T *b, int64_t row, int64_t column, T *to)
{
    if (column == 1) {
        for (int64_t p = 0; p < depth; p++, to += NR, b += row) {
            memcpy(to, b, (size_t)width * sizeof(T));
            memset(to + width, 0, (size_t)(NR - width) * sizeof(T));
        }
    } else if (row == 1) {
        /* The second half first: what the first writes too far is its own. */
        for (int half = 1; half >= 0; half--) {
            int64_t count = width - half * LANES;
            N(turn_rows)((int)(count < 0 ? 0 : count < LANES ? count : LANES), depth, b + half * LANES * column, column,
                         to + half * LANES, NR);
        }
    } else {
        for (int64_t p = 0; p < depth; p++, to += NR)
            for (int64_t j = 0; j < NR; j++)
                to[j] = j < width ? b[p * row + j * column] : 0;
    }
}

/* The panels of depth x width numbers of b, one behind the other.  Rows are read as they lie, across the panels: that is
 * what processors fetch ahead. */
static void N(pack_panels)(int64_t depth, int64_t width, const T *b, int64_t row, int64_t column, T *to)
{
    int64_t j = 0;
    if (column == 1) {
        j = width / NR * NR;
        for (int64_t p = 0; p < depth; p++)
            for (int64_t x = 0; x < j; x += NR) {
                const V *from = (const V *)(b + p * row + x);
                V *at = (V *)(to + x * depth + p * NR), first = from[0], second = from[1];
                at[0] = first, at[1] = second;
            }
    }
    for (; j < width; j += NR)
        N(pack_panel)(depth, width - j < NR ? width - j : NR, b + j * column, row, column, to + j * depth);
}

/* rows x depth of a, to depth x MR. */
static void N(pack_rows)(int rows, int64_t depth, const T *a, int64_t row, int64_t column, T *to)
{
    if (column == 1) {
        /* The last rows first: what these write too far is the others'. */
        for (int i = (rows - 1) / LANES * LANES; i >= 0; i -= LANES)
            N(turn_rows)(rows - i < LANES ? rows - i : LANES, depth, a + i * row, row, to + i, MR);
    } else if (row == 1 && rows == MR) {
        for (int64_t p = 0; p < depth; p++)
            memcpy(to + p * MR, a + p * column, MR * sizeof(T));
    } else {
        for (int64_t p = 0; p < depth; p++)
            for (int i = 0; i < rows; i++)
                to[p * MR + i] = a[i * row + p * column];
    }
}

/* Some columns of one pass: b is `b`, with panels side by side or (step NR) behind each other. */
typedef struct N(columns) {
    const T *b, *tail;              /* tail: the panel for the last columns, if they don't fill one */
    int64_t width, panel, step, step_tail;
} N(columns);

static void N(run)(int64_t m, int64_t depth, T alpha, T beta, const T *a, int64_t row, int64_t column,
                   const N(columns) *b, const T *bias, T *c, int64_t ldc)
{
    /* Lines of a that are a multiple of half a page apart fall on few places of the first cache. */
    const bool clash = column == 1 && row * (int64_t)sizeof(T) % 2048 == 0;
    const bool pack = b->width > (clash || column != 1 ? 1 : 6) * NR;
    _Alignas(64) T packed[(KC + 8) * MR + LANES];
    for (int64_t i = 0; i < m;) {
        int rows = N(rows)(i, m - i), skip = (int)(m - i < rows ? rows - (m - i) : 0);
        i -= skip;
        N(tile) t = {depth, row, column, alpha, beta, ldc, skip};
        const T *from = a + i * row;
        if (pack) {
            N(pack_rows)(rows, depth, from, row, column, packed);
            from = packed, t.row = 1, t.column = MR;
        }
        int64_t j = 0;
        for (; j + NR <= b->width; j += NR)
            N(strip)(rows, NR, &t, from, b->b + j / NR * b->panel, b->step, bias ? bias + j : NULL, c + i * ldc + j);
        if (j < b->width)
            N(strip)(rows, (int)(b->width - j), &t, from, b->tail, b->step_tail, bias ? bias + j : NULL, c + i * ldc + j);
        i += rows;
    }
}

/* b in panels, pass after pass: [pass][panel][depth][NR], which is what packed() reads. */
static void N(pack)(int64_t n, int64_t k, td_matrix mb, T *to)
{
    const int64_t step = td_gemm_depth(k, sizeof(T));
    for (int64_t p = 0; p < k; p += step) {
        int64_t depth = k - p < step ? k - p : step;
        N(pack_panels)(depth, n, (const T *)mb.data + p * mb.row, mb.row, mb.column, to);
        to += (n + NR - 1) / NR * NR * depth;
    }
}

static void N(packed)(int64_t m, int64_t n, int64_t k, T alpha, td_matrix ma, const T *b, T beta, T *c, int64_t ldc,
                      const T *bias)
{
    const int64_t step = td_gemm_depth(k, sizeof(T)), whole = n / NR;
    int64_t p = 0;
    do {    /* once even if k is 0, to scale c */
        int64_t depth = k - p < step ? k - p : step;
        N(columns) columns = {b, b + whole * depth * NR, n, depth * NR, NR, NR};
        N(run)(m, depth, alpha, p ? 1 : beta, (const T *)ma.data + p * ma.column, ma.row, ma.column, &columns,
               p + depth >= k ? bias : NULL, c, ldc);
        b += (n + NR - 1) / NR * depth * NR;
        p += depth;
    } while (p < k);
}

static void N(gemm)(int64_t m, int64_t n, int64_t k, T alpha, td_matrix ma, td_matrix mb, T beta, T *c, int64_t ldc,
                    const T *bias)
{
    const T *a = ma.data, *b = mb.data;
    const int64_t step = td_gemm_depth(k, sizeof(T));
    /* Few rows don't pay for packing b, unless its lines lie on many pages. */
    const int64_t span = step * mb.row * (int64_t)sizeof(T);
    const bool pack = mb.column != 1 || (m > 8 * MR && span > 1 << 14) || (m >= 8 && span > 1 << 19);
    _Alignas(64) T panel[KC * NR];
    int64_t across = pack ? NC : n;
    size_t bytes = 0;
    T *packed = panel;
    if (pack && n > NR) {
        bytes = (size_t)(step * (n < NC ? (n + NR - 1) / NR * NR : NC)) * sizeof(T);
        packed = td_mem_alloc(bytes);
        if (!packed)    /* panel by panel, then */
            packed = panel, across = NR;
    }
    int64_t p = 0;
    do {    /* once even if k is 0, to scale c */
        int64_t depth = k - p < step ? k - p : step;
        for (int64_t j = 0; j < n; j += across) {
            int64_t width = n - j < across ? n - j : across, whole = width / NR * NR;
            const T *from = b + p * mb.row + j * mb.column;
            N(columns) columns = {from, from + whole, width, NR, mb.row, mb.row};
            if (pack) {
                N(pack_panels)(depth, width, from, mb.row, mb.column, packed);
                columns = (N(columns)){packed, packed + whole * depth, width, depth * NR, NR, NR};
            } else if (width % NR % LANES) {
                N(pack_panel)(depth, width - whole, from + whole, mb.row, 1, panel);
                columns.tail = panel, columns.step_tail = NR;
            }
            N(run)(m, depth, alpha, p ? 1 : beta, a + p * ma.column, ma.row, ma.column, &columns,
                   bias && p + depth >= k ? bias + j : NULL, c + j, ldc);
        }
        p += depth;
    } while (p < k);
    if (packed != panel)
        td_mem_free(packed, bytes);
}

static T N(dot)(int64_t n, const T *x, const T *y)
{
    V acc[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int r = 0; r < 4; r++)
            acc[r] = N(fma)(*(const V *)(x + i + r * LANES), *(const V *)(y + i + r * LANES), acc[r]);
    for (; i + LANES <= n; i += LANES)
        acc[0] = N(fma)(*(const V *)(x + i), *(const V *)(y + i), acc[0]);
    V sum = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    T total = 0;
    for (int r = 0; r < LANES; r++)
        total += sum[r];
    for (; i < n; i++)
        total += x[i] * y[i];
    return total;
}

static void N(gemv)(int64_t m, int64_t k, T alpha, td_matrix ma, const T *x, int64_t step_x, T beta, T *y,
                    int64_t step_y)
{
    const T *a = ma.data;
    if (ma.row == 1 && step_y == 1 && m > 1) {     /* columns lie side by side: add them up, a block of y at a time */
        T sum[16 * LANES];
        for (int64_t i = 0; i < m; i += 16 * LANES) {
            int64_t width = m - i < 16 * LANES ? m - i : 16 * LANES;
            if (width == 16 * LANES) {
                V acc[16];
#pragma GCC unroll 16
                for (int r = 0; r < 16; r++)
                    acc[r] = (V){0};
                for (int64_t p = 0; p < k; p++) {
                    const V s = (V){0} + x[p * step_x];
                    const T *from = a + i + p * ma.column;
#pragma GCC unroll 16
                    for (int r = 0; r < 16; r++)
                        acc[r] = N(fma)(s, *(const V *)(from + r * LANES), acc[r]);
                }
                memcpy(sum, acc, sizeof sum);
            } else {
                memset(sum, 0, sizeof sum);
                for (int64_t p = 0; p < k; p++)
                    for (int64_t r = 0; r < width; r++)
                        sum[r] += x[p * step_x] * a[i + r + p * ma.column];
            }
            for (int64_t r = 0; r < width; r++)
                y[i + r] = beta == 0 ? alpha * sum[r] : alpha * sum[r] + beta * y[i + r];
        }
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        const T *row = a + i * ma.row;
        T total = 0;
        if (ma.column == 1 && step_x == 1)
            total = N(dot)(k, row, x);
        else
            for (int64_t p = 0; p < k; p++)
                total += row[p * ma.column] * x[p * step_x];
        T *to = y + i * step_y;
        *to = beta == 0 ? alpha * total : alpha * total + beta * *to;
    }
}

#undef V
#undef LANES
#undef NR
#undef KC
#undef NC
