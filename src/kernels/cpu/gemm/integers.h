/* Products of integers, which wrap: signed and unsigned ones of a width are the same.  Included by gemm_isa.c.
 *
 * A panel of b, as wide as INT_VECTORS of the machine's vectors and at most INT_DEPTH deep, is packed into the first cache; tiles
 * of INT_ROWS rows of c stay in registers while they meet it.  Few rows or columns go by plain loops.  Sums are exact modulo the
 * width, so their order is free; the types are unsigned, since signed overflow would be undefined.  A tile has 4 x 3 = 12
 * vectors of sums and needs 3 of b and one of a beside them, which is all 16 registers of AVX2. */
enum { INT_ROWS = 4, INT_VECTORS = 3, INT_DEPTH = 128 };

#define INTEGER_TILES(name, T)                                                                                         \
    typedef T name##_vec __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));                          \
    enum { name##_lanes = VBYTES / sizeof(T), name##_wide = INT_VECTORS * name##_lanes };                              \
    /* c[rows][wide] += alpha a[rows][k] panel[k][wide] */                                                             \
    INLINE void name##_tile(int64_t rows, int64_t k, const T *a, td_matrix ma, const T *panel, T alpha, T *c, int64_t ldc)\
    {                                                                                                                  \
        name##_vec sum[INT_ROWS][INT_VECTORS] = {0};                                                                   \
        for (int64_t p = 0; p < k; p++, panel += name##_wide, a += ma.column)                                          \
            _Pragma("GCC unroll 8")                                                                                    \
            for (int64_t i = 0; i < rows; i++)                                                                         \
                _Pragma("GCC unroll 8")                                                                                \
                for (int v = 0; v < INT_VECTORS; v++)                                                                  \
                    sum[i][v] += ((const name##_vec *)panel)[v] * a[i * ma.row];                                       \
        for (int64_t i = 0; i < rows; i++)                                                                             \
            for (int v = 0; v < INT_VECTORS; v++)                                                                      \
                ((name##_vec *)(c + i * ldc))[v] += sum[i][v] * alpha;                                                 \
    }                                                                                                                  \
    /* A panel of b with zeros to its full width; where c ends before it does, its tiles go by way of a block. */      \
    static void name##_panel(int64_t m, int64_t n, int64_t k, T alpha, const T *a, td_matrix ma, const T *b, td_matrix mb, T *c, int64_t ldc)\
    {                                                                                                                  \
        T panel[INT_DEPTH * name##_wide], block[INT_ROWS * name##_wide];                                               \
        if (n < name##_wide)                                                                                           \
            memset(panel, 0, sizeof panel), memset(block, 0, sizeof block);                                            \
        for (int64_t p = 0; p < k; p++)                                                                                \
            for (int64_t j = 0; j < n; j++)                                                                            \
                panel[p * name##_wide + j] = b[p * mb.row + j * mb.column];                                            \
        for (int64_t i = 0; i < m; i += INT_ROWS) {                                                                    \
            const int64_t rows = m - i < INT_ROWS ? m - i : INT_ROWS, step = n < name##_wide ? name##_wide : ldc;      \
            const T *from = a + i * ma.row;                                                                            \
            T *to = n < name##_wide ? block : c + i * ldc;                                                             \
            for (int64_t r = 0; r < rows && to == block; r++)                                                          \
                memcpy(block + r * step, c + (i + r) * ldc, (size_t)n * sizeof(T));                                    \
            if (rows == INT_ROWS)                                                                                      \
                name##_tile(INT_ROWS, k, from, ma, panel, alpha, to, step);                                            \
            for (int64_t r = 0; r < rows && rows < INT_ROWS; r++)                                                      \
                name##_tile(1, k, from + r * ma.row, ma, panel, alpha, to + r * step, step);                           \
            for (int64_t r = 0; r < rows && to == block; r++)                                                          \
                memcpy(c + (i + r) * ldc, block + r * step, (size_t)n * sizeof(T));                                    \
        }                                                                                                              \
    }

/* A whole product on the calling thread: c = beta c first, then alpha a b is added, by panels or by the loop that reads its
 * operands along their rows.  Panels pay from two tiles of rows on, since packing b costs a read and a write of all of it. */
#define ROWS(name, T, S)                                                                                               \
    static void name(int64_t m, int64_t n, int64_t k, S alpha, td_matrix ma, td_matrix mb, S beta, void *mc, int64_t ldc)\
    {                                                                                                                  \
        const T *a = ma.data, *b = mb.data;                                                                            \
        T *c = mc;                                                                                                     \
        for (int64_t i = 0; i < m; i++)                                                                                \
            for (int64_t j = 0; j < n; j++)                                                                            \
                c[i * ldc + j] = beta == 0 ? 0 : (T)((T)beta * c[i * ldc + j]);                                        \
        if (m >= 2 * INT_ROWS && n >= name##_lanes) {                                                                  \
            for (int64_t p = 0; p < k; p += INT_DEPTH)                                                                 \
                for (int64_t j = 0; j < n; j += name##_wide)                                                           \
                    name##_panel(m, n - j < name##_wide ? n - j : name##_wide, k - p < INT_DEPTH ? k - p : INT_DEPTH,  \
                                 (T)alpha, a + p * ma.column, ma, b + p * mb.row + j * mb.column, mb, c + j, ldc);     \
            return;                                                                                                    \
        }                                                                                                              \
        if (ma.column == 1 && mb.row == 1) {                                                                           \
            DOTS(T, a, ma, b, mb, T sum = 0;, sum = (T)(sum + x[p] * y[p]);,                                           \
                 c[i * ldc + j] = (T)(c[i * ldc + j] + (T)alpha * sum);)                                               \
            return;                                                                                                    \
        }                                                                                                              \
        if (n == 1 && ma.row == 1 && ldc == 1) {                                                                       \
            for (int64_t p = 0; p < k; p++) {                                                                          \
                const T x = (T)((T)alpha * b[p * mb.row]), *column = a + p * ma.column;                                \
                for (int64_t i = 0; i < m; i++)                                                                        \
                    c[i] = (T)(c[i] + x * column[i]);                                                                  \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < m; i++, c += ldc) {                                                                    \
            const T *row = a + i * ma.row;                                                                             \
            int64_t p = 0;                                                                                             \
            /* Four rows of b at a time, so that c is read and written for a fourth of the products. */                \
            for (; mb.column == 1 && p + 4 <= k; p += 4) {                                                             \
                const T x0 = (T)((T)alpha * row[p * ma.column]), x1 = (T)((T)alpha * row[(p + 1) * ma.column]);        \
                const T x2 = (T)((T)alpha * row[(p + 2) * ma.column]), x3 = (T)((T)alpha * row[(p + 3) * ma.column]);  \
                const T *b0 = b + p * mb.row, *b1 = b0 + mb.row, *b2 = b1 + mb.row, *b3 = b2 + mb.row;                 \
                for (int64_t j = 0; j < n; j++)                                                                        \
                    c[j] = (T)(c[j] + x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j]);                              \
            }                                                                                                          \
            for (; p < k; p++) {                                                                                       \
                const T x = (T)((T)alpha * row[p * ma.column]), *from = b + p * mb.row;                                \
                for (int64_t j = 0; j < n; j++)                                                                        \
                    c[j] = (T)(c[j] + x * from[j * mb.column]);                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
#define INTEGERS(name, T) INTEGER_TILES(name, T) ROWS(name, T, int64_t)
INTEGERS(integers_1, uint8_t)
INTEGERS(integers_2, uint16_t)
INTEGERS(integers_4, uint32_t)
INTEGERS(integers_8, uint64_t)
#undef INTEGERS
#undef INTEGER_TILES
#undef ROWS
