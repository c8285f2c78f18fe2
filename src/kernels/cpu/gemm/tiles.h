/* Tiles of products of real matrices, for a T named SUFFIX: included by gemm_isa.c for float and double, and by
 * pairs_isa.c for pairs of bfloat16 in the place of a float.
 *
 * The inner kernel holds MR rows of VECTORS vectors of c in registers and goes through `depth` steps of k: each step
 * broadcasts MR numbers of a and multiplies them with a row of b.  Around it, as in every fast product since Goto's:
 *
 *     for each pass over k (at most KC steps, so that an MR x KC panel of a stays in the first cache)
 *         for each MC rows of a
 *             for each NC columns of b: packed into panels, which stay in the second cache
 *                 for each MR rows of a: packed where N(packs) says so
 *                     for each panel of b: the inner kernel
 *
 * (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.)  With AVX-512 a panel of a has 512 x 8 floats
 * or 256 x 8 doubles, 16 KiB, and a block of b 512 x 288 floats, 576 KiB; NR, KC, NC and MC below count numbers.
 *
 * A wide tile needs few broadcasts: 8 x 48 take 11 loads for 24 products, 12 x 32 would take 14.  With two loads and two products
 * a cycle, products bound the loop: 12 cycles of them against 5.5 of loads.  Panels of b are VECTORS vectors wide, but for
 * the last ones, see td_gemm_panel.
 *
 * The passes depend on k alone and the order of the additions within one on nothing, so how c is cut into tiles never
 * shows in the result.
 *
 * Rows of c are fetched one by one while the sums are made, a whole one every four steps (all at once held up b). Measured: eight steps at a time 5 to
 * 10 % slower, since GCC spills addresses; b fetched twelve steps ahead, nothing; for k = 64, packing b 5 to 8 % slower, c fetched a tile ahead
 * slower, the next rows of a fetched into the first cache, nothing. */

#define V     N(vec)
#define LANES ((int)(VBYTES / sizeof(T)))
#define NR    (VECTORS * LANES)
#define KC    TD_GEMM_PASS(sizeof(T))
#define NC    (288 / NR * NR)
#define MC    (1024 / MR * MR)
#define FAR   (1 << 18)
#define UNROLL 4     /* steps of k without a branch */

/* What the inner kernel is passed about a row of tiles: how many, and steps from each of them to the next. */
typedef struct N(tiles) {
    int64_t depth, row, column;     /* steps of k; a's steps */
    T alpha, beta;
    int64_t ldc;
    int64_t step_b, step_add, step_to;      /* from row to row */
    int64_t count, next_a, next_b, next_add, next_to;
    /* What is needed soon, fetched every few steps: a line here and one `fetch_more` further; NULL: nothing.  After
     * `fetch_turn` tiles it goes on somewhere else. */
    const T *fetch;
    int64_t fetch_step, fetch_more, fetch_turn, fetch_wrap;
} N(tiles);

/* One step of k, the u-th from where the pointers are. */
INLINE void N(step)(const int rows, const int vectors, const int layout, const int u, const char *const *at, int64_t row,
                    const char *line, int64_t down, V (*acc)[VECTORS])
{
    V b[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++)
        b[v] = *(const V *)(line + u * down + v * VBYTES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        const char *from = layout == PACKED ? at[0] + (u * MR + i) * (int64_t)sizeof(T)
                                            : at[i / 3] + i % 3 * row + u * (int64_t)sizeof(T);
        const V x = N(spread)((const T *)from);
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            N(add_product)(&acc[i][v], x, b[v]);
    }
}

/* rows x (vectors * LANES) sums of products times t->alpha, with a row of `add` added to each (or none, if NULL): t->count
 * times.  Where they will go comes nearer meanwhile, a row at a time, as all at once would hold up b.  Whole vectors of b
 * and `add` are read and whole vectors are written. */
INLINE void N(micro)(const int rows, const int vectors, const int layout, const N(tiles) *t, const T *a, const T *b,
                     const T *add, T *to)
{
    /* Three rows per pointer: as far as an address can reach without arithmetic. */
    const int64_t row = t->row * (int64_t)sizeof(T), down = t->step_b * (int64_t)sizeof(T);
    const int64_t column = (layout == PACKED ? MR : layout == ALONG ? 1 : t->column) * (int64_t)sizeof(T);
    const char *fetch = (const char *)(t->fetch ? t->fetch : a);
    const int64_t fetch_step = t->fetch_step * (int64_t)sizeof(T), fetch_more = t->fetch_more * (int64_t)sizeof(T);
    const int64_t step_c = t->step_to * (int64_t)sizeof(T);
    int64_t turn = t->fetch_turn;
    for (int64_t n = t->count; n > 0; n--) {
        V acc[MR][VECTORS];
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                acc[i][v] = (V){0};
        const char *line = (const char *)b;
        const char *at[3] = {(const char *)a, (const char *)a + 3 * row, (const char *)a + 6 * row};
        int64_t left = t->depth;
        T *c = to;
        /* Loops without loops inside: their ends are guessed right.  What they do beside products is little enough for
         * processors that decode four instructions a cycle. */
#define STEPS(count)                                                \
    for (int u = 0; u < count; u++)                                 \
        N(step)(rows, vectors, layout, u, at, row, line, down, acc);\
    line += (count) * down, left -= count;                          \
    for (int r = 0; r < 3; r++)                                     \
        at[r] += (count) * column;
#define FETCH()                                    \
    __builtin_prefetch(fetch, 0, 2);               \
    __builtin_prefetch(fetch + fetch_more, 0, 2);  \
    fetch += fetch_step;
        if (layout != STRIDED) {
            const int lines = vectors * VBYTES > 64 ? vectors * VBYTES / 64 : 1;
            const char *soon = (const char *)c + 63, *const end = soon + rows * step_c;
            for (; soon != end && left >= UNROLL; soon += step_c) {
#pragma GCC unroll 3
                for (int l = 0; l < lines; l++)
                    __builtin_prefetch(soon + l * 64);
                FETCH()
                STEPS(UNROLL)
            }
            while (left >= UNROLL) {
                FETCH()
                STEPS(UNROLL)
            }
        }
        while (left > 0) {
            STEPS(1)
        }
#undef STEPS
#undef FETCH
        if (t->alpha != 1) {
            const V alpha = (V){0} + t->alpha;
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++)
                    acc[i][v] *= alpha;
        }
        c = to;
        if (add) {
            const T *from = add;
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++, c += t->step_to, from += t->step_add)
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++)
                    *(V *)(c + v * LANES) = acc[i][v] + *(const V *)(from + v * LANES);
            add += t->next_add;
        } else {
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++, c += t->step_to)
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++)
                    *(V *)(c + v * LANES) = acc[i][v];
        }
        a += t->next_a, b += t->next_b, to += t->next_to;
        if (--turn == 0)
            turn = t->fetch_turn, fetch += t->fetch_wrap * (int64_t)sizeof(T);
    }
}

/* What the inner kernel has added up, to where it belongs. */
static void N(finish)(int rows, int width, const N(tiles) *t, const T *block, const T *bias, T *c)
{
    const V beta = (V){0} + t->beta;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j += LANES) {
            const int count = width - j < LANES ? width - j : LANES;
            T *to = c + i * t->ldc + j;
            V x = *(const V *)(block + i * NR + j);
            if (t->beta != 0)
                x = N(fma)(beta, N(load_part)(to, count), x);
            if (bias)
                x += N(load_part)(bias + j, count);
            N(store_part)(to, x, count);
        }
}

/* Separate functions: together they would be too much for the compiler's allocation of registers. */
#define ARGUMENTS const N(tiles) *t, const T *a, const T *b, const T *add, T *to
#define MICRO(name, r, v, layout)                 \
    static NOINLINE void N(name##_##v)(ARGUMENTS) \
    {                                             \
        N(micro)(r, v, layout, t, a, b, add, to); \
    }
#if VECTORS == 3
#define MICROS(name, r, layout) MICRO(name, r, 1, layout) MICRO(name, r, 2, layout) MICRO(name, r, 3, layout)
#define NAMES(name) {N(name##_1), N(name##_2), N(name##_3)}
#else
#define MICROS(name, r, layout) MICRO(name, r, 1, layout) MICRO(name, r, 2, layout)
#define NAMES(name) {N(name##_1), N(name##_2)}
#endif
MICROS(rows_1, 1, STRIDED)
MICROS(rows_2, 2, STRIDED)
MICROS(rows_4, 4, STRIDED)
#if MR >= 6
MICROS(rows_6, 6, STRIDED)
#endif
#if MR >= 8
MICROS(rows_8, 8, STRIDED)
#endif
MICROS(along, MR, ALONG)
MICROS(packed, MR, PACKED)

typedef void N(kernel)(ARGUMENTS);
/* By rows / 2 and vectors - 1. */
static N(kernel) *const N(kernels)[][VECTORS] = {
    NAMES(rows_1), NAMES(rows_2), NAMES(rows_4),
#if MR >= 6
    NAMES(rows_6),
#endif
#if MR >= 8
    NAMES(rows_8),
#endif
};
static N(kernel) *const N(kernels_along)[VECTORS] = NAMES(along), *const N(kernels_packed)[VECTORS] = NAMES(packed);
#undef ARGUMENTS
#undef MICRO
#undef MICROS
#undef NAMES

/* The smallest kernel for so many rows; they are 1, 2, 4, ... */
INLINE int N(covering)(int rows)
{
    return rows == 1 ? 1 : rows + rows % 2;
}

/* t->count times `rows` x `width` numbers of c, from as many rows of a or, if a is packed, from panels that are filled up;
 * the tiles lie side by side if t->next_b is a step (not 0), else below each other. */
static void N(strip)(int rows, int width, N(tiles) *t, const T *a, bool packed, const T *b, const T *bias, T *c)
{
    /* But for parts of vectors and other factors of c, they are written, or added to what is there, where they belong. */
    const int all = N(covering)(rows), vectors = (width + LANES - 1) / LANES;
    const bool whole = all == rows && width == vectors * LANES, more = whole && t->beta == 1 && !bias;
    const bool direct = more || (whole && t->beta == 0);
    N(kernel) *kernel = all == MR && packed           ? N(kernels_packed)[vectors - 1]
                        : all == MR && t->column == 1 ? N(kernels_along)[vectors - 1]
                                                      : N(kernels)[all / 2][vectors - 1];
    const int64_t next_to = t->next_b ? width : MR * t->ldc, next_bias = t->next_b ? width : 0;
    if (direct) {
        t->next_to = next_to, t->step_to = t->ldc;
        t->next_add = more ? next_to : next_bias, t->step_add = more ? t->ldc : 0;
        kernel(t, a, b, more ? c : bias, c);
        return;
    }
    T block[MR * NR];
    N(tiles) one = *t;
    one.count = 1, one.step_to = NR;
    for (int64_t i = 0; i < t->count; i++) {
        kernel(&one, a + i * t->next_a, b + i * t->next_b, NULL, block);
        N(finish)(rows, width, t, block, bias ? bias + i * next_bias : NULL, c + i * next_to);
        if (t->fetch)       /* what the kernel does from tile to tile */
            one.fetch += t->depth / UNROLL * t->fetch_step + ((i + 1) % t->fetch_turn ? 0 : t->fetch_wrap);
    }
}

/* `count` vectors as rows become columns: each stage zips the first half of the rows with the second. */
INLINE void N(transpose)(const int count, V *x)
{
#pragma GCC unroll 4
    for (int stage = 1; stage < count; stage *= 2) {
        V y[LANES > 8 ? LANES : 8];
#pragma GCC unroll 16
        for (int i = 0; i < count / 2; i++)
            y[2 * i] = N(zip_low)(x[i], x[i + count / 2]), y[2 * i + 1] = N(zip_high)(x[i], x[i + count / 2]);
#pragma GCC unroll 16
        for (int i = 0; i < count; i++)
            x[i] = y[i];
    }
}

/* to[p * step + i] = from[i * row + p], for i < count and p < n, and 0 for count <= i < lines.  Where step < lines, numbers
 * behind those of a step are overwritten by the next, so the caller leaves room behind the last. */
INLINE void N(transpose_rows)(const int lines, int count, int64_t n, const T *from, int64_t row, T *to, int64_t step)
{
    const int each = lines < LANES ? 1 : lines / LANES;     /* vectors of a step, or steps of a vector */
    int64_t p = 0;
    for (; p + LANES <= n; p += LANES, to += LANES * step) {
        V x[LANES > 8 ? LANES : 8];
#pragma GCC unroll 16
        for (int i = 0; i < lines; i++)
            x[i] = i < count ? *(const V *)(from + i * row + p) : (V){0};
        N(transpose)(lines, x);
#pragma GCC unroll 16
        for (int i = 0; i < lines; i++)
            *(V *)(lines < LANES ? to + i * LANES : to + i / each * step + i % each * LANES) = x[i];
    }
    for (; p < n; p++, to += step)
        for (int i = 0; i < lines && i < step; i++)
            to[i] = i < count ? from[i * row + p] : 0;
}

/* rows x depth of a, to panels of depth x MR, the last one with zeros behind. */
static void N(pack_rows)(int64_t rows, int64_t depth, const T *a, int64_t row, int64_t column, T *to)
{
    int64_t i = 0;
    if (row == 1) {
        for (int64_t end; (end = rows - i < 8 * MR ? rows / MR * MR : i + 8 * MR) > i; i = end)
            for (int64_t p = 0; p < depth; p++)
                for (int64_t x = i; x < end; x += MR)
                    memcpy(to + x * depth + p * MR, a + p * column + x, MR * sizeof(T));
    } else if (column == 1) {
        for (; i + MR <= rows; i += MR)
            N(transpose_rows)(LINES, MR, depth, a + i * row, row, to + i * depth, MR);
    }
    for (; i < rows; i += MR) {
        const int count = rows - i < MR ? (int)(rows - i) : MR;
        for (int64_t p = 0; p < depth; p++)
            for (int r = 0; r < MR; r++)
                to[i * depth + p * MR + r] = r < count ? a[(i + r) * row + p * column] : 0;
    }
}

/* Some columns of one pass: panels of b one behind the other or, with a step, side by side. */
typedef struct N(columns) {
    const T *b, *tail;              /* tail: the last panel, if b lacks numbers to fill it */
    int64_t width, step;
    bool far;                       /* whether the panels are too many for the second cache, and a isn't */
} N(columns);

/* Where a is packed, `block` rows at a time; if these are all, they may be in it already. */
typedef struct N(packing) {
    T *panels;                      /* NULL: a is read as it lies */
    int64_t block;
    bool filled;
} N(packing);

/* How rows of tiles fetch the next panel, and how many of them do: processors don't see what comes after a panel's pieces of
 * rows, and are late with what lies in one piece.  All rows of tiles take a share, if they are enough: one alone would request
 * lines faster than memory brings them.  A share is a part of the panel's rows, one line of each.  If `beside` isn't NULL,
 * then what is there is fetched in the same way, where a line at a time is enough for the panel. */
INLINE int64_t N(fetch_next)(N(tiles) *t, int64_t step, const T *next, const T *beside, int64_t width, int64_t tiles)
{
    const int line = 64 / (int)sizeof(T), lines = width > line ? (int)width / line : 1;
    const int each = tiles >= lines * UNROLL ? 1 : 2;       /* lines that are requested at a time */
    const int64_t down = step ? step : line;
    t->fetch_turn = UNROLL / each;
    /* A piece of a row may end in a line more: that's the one which wasn't fetched for the panel before. */
    t->fetch = next + (step ? line - 1 : 0);
    t->fetch_more = each > 1 ? down : beside ? beside - next : 0, t->fetch_step = each * down;
    t->fetch_wrap = (step ? line : t->depth * line) - t->depth / UNROLL * UNROLL * down;
    return lines * t->fetch_turn;
}

/* c = alpha a b + beta c for one pass of k and some columns: the loops over blocks of a's rows, rows of tiles and panels of b that the
 * head describes.  `next`, `behind` and `beside` are only fetched ahead and never read, so they may lie behind the operands. */
static void N(run)(int64_t m, int64_t depth, T alpha, T beta, const T *a, int64_t row, int64_t column, N(packing) *packing,
                   const N(columns) *b, const T *bias, T *c, int64_t ldc)
{
    const bool packed = packing->panels;
    N(tiles) t = {.depth = depth, .row = packed ? 1 : row, .column = packed ? MR : column, .alpha = alpha, .beta = beta,
                  .ldc = ldc};
    const int64_t block = packing->block < m ? packing->block : m;
    /* Behind a's rows come those of the next a, if there is one: fetched along with b, if that is as much. */
    const T *const behind = !packed && column == 1 && row == depth && b->step > 0 && b->step <= m ? a + m * row : NULL;
    int64_t wide = 0, width;        /* panels that are filled */
    while (b->width - wide * NR >= NR && td_gemm_panel(b->width - wide * NR, LANES, VECTORS) == NR)
        wide++;
    for (int64_t i0 = 0; i0 < m; i0 += block) {
        const int64_t end = i0 + block < m ? i0 + block : m;
        if (packed && !packing->filled)
            N(pack_rows)(end - i0, depth, a + i0 * row, row, column, packing->panels);
        /* Where b isn't packed, all rows meet one panel of it after the other, which stays in the first cache; else MR rows
         * at a time meet all panels. */
        const bool by_panels = b->step || b->far;
        const int64_t rows = by_panels ? end - i0 : MR;
        for (int64_t i1 = i0; i1 < end; i1 += rows)
            for (int64_t j = 0, across; j < b->width; j += across) {
                const int64_t more = b->width - j;
                width = td_gemm_panel(more, LANES, VECTORS);
                const bool last = width >= more && b->tail;
                const T *panel = last ? b->tail : b->b + j * (b->step ? 1 : depth);
                /* Behind b's last columns come the first ones of the rows below, or of the next b. */
                const T *next = !b->step ? panel + width * depth : width < more ? panel + width : b->b + depth * b->step;
                t.step_b = b->step && !last ? b->step : width;
                t.next_b = !by_panels && j == 0 && wide > 1 ? width * depth : 0;
                across = t.next_b ? wide * NR : width;
                const T *beside = behind ? behind + (width < more ? j + width : 0) : NULL;
                int64_t down, fetching = by_panels ? N(fetch_next)(&t, b->step, next, beside, width, (end - i1) / MR) : 0;
                for (int64_t i = i1; i < i1 + rows && i < end; i += down) {
                    const int64_t left = end - i, some = left >= MR ? MR : packed || left == 1 ? left : left / 2 * 2;
                    const T *from = packed ? packing->panels + (i - i0) * depth : a + i * row;
                    if (fetching <= 0)
                        t.fetch = NULL, t.fetch_step = t.fetch_more = t.fetch_wrap = 0;
                    t.count = t.next_b ? wide : !by_panels || left < MR ? 1 : left / MR;
                    if (fetching > 0 && t.count > fetching)
                        t.count = fetching;
                    fetching -= t.count;
                    t.next_a = t.next_b ? 0 : MR * (packed ? depth : row);
                    down = by_panels && left >= MR ? t.count * MR : some;
                    N(strip)((int)some, (int)(width < more ? width : more), &t, from, packed, panel, bias ? bias + j : NULL,
                             c + i * ldc + j);
                }
            }
    }
    packing->filled = block == m;
}

/* Whether a, which meets n columns of b, is to be packed: MR rows at a time, or all of them if they meet several blocks of
 * columns, which only pays if these are more. */
INLINE bool N(packs)(int64_t n, int64_t column, bool several)
{
    return n > (column != 1 ? 1 : several ? 12 : 4) * NR;
}

/* How to cut `whole` into nearly equal pieces of at most `most`, multiples of `unit`. */
INLINE int64_t N(pieces)(int64_t whole, int64_t most, int64_t unit)
{
    const int64_t count = (whole + most - 1) / most;
    return count < 2 ? whole : ((whole + count - 1) / count + unit - 1) / unit * unit;
}

/* A whole product with b in the panels of gemm.h, which real.h packs and convolution writes itself.  Without memory for a's
 * panels, a is read as it lies: slower, not wrong. */
static void N(packed)(int64_t m, int64_t n, int64_t k, T alpha, td_matrix ma, const T *b, T beta, T *c, int64_t ldc,
                      const T *bias)
{
    const int64_t step = td_gemm_depth(k, sizeof(T));
    _Alignas(64) T panel[KC * MR + LANES];
    int64_t p = 0;
    do {    /* once even if k is 0, to scale c */
        int64_t depth = k - p < step ? k - p : step;
        /* What is more than the second cache should hold streams by once, while rows of a stay there; a few rows meet b only
         * once or twice, and wait for it. */
        const bool far = td_gemm_packed_size(n, depth, LANES) * (int64_t)sizeof(T) > 2 * FAR;
        N(columns) columns = {.b = b, .width = n, .far = far};
        const int64_t rows = far ? N(pieces)(m, FAR / (depth * (int64_t)sizeof(T)) + MR, MR) : m;
        const bool pack = N(packs)(n, ma.column, far);
        const size_t bytes = pack && far ? (size_t)((rows + MR - 1) / MR * MR * depth + LANES) * sizeof(T) : 0;
        T *block = bytes ? td_mem_alloc(bytes) : NULL;
        N(packing) packing = {.panels = block ? block : pack && !far ? panel : NULL, .block = pack && !far ? MR : rows};
        N(run)(m, depth, alpha, p ? 1 : beta, (const T *)ma.data + p * ma.column, ma.row, ma.column, &packing, &columns,
               p + depth >= k ? bias : NULL, c, ldc);
        td_mem_free(block, bytes);
        b += td_gemm_packed_size(n, depth, LANES);
        p += depth;
    } while (p < k);
}
