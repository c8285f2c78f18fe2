/* Many small matrices at once, a lane each: factored and solved as lu_isa.c does it, operation by operation, so that a matrix
 * gives the same numbers either way.  Included by lu_isa.c for each type.
 *
 * Matrices of up to 8 rows are too small for a vector each and for a branch per pivot.  With a matrix per lane, vectors
 * are full, exchanges of rows are masked, and divisions serve LANES matrices: 16 floats at AVX-512.  All rows of a block,
 * 8 x 16 vectors at most (8 KiB), stay in the first cache. */

enum { N(LANES) = VBYTES / sizeof(T) };
typedef N(vec) N(lane);
typedef N(vec_int) N(mask);

/* Where the mask is set, one of the operands trades places with the other. */
static inline void N(trade)(N(mask) mask, N(lane) *a, N(lane) *b)
{
    const N(mask) both = ((N(mask))*a ^ (N(mask))*b) & mask;
    *a = (N(lane))((N(mask))*a ^ both), *b = (N(lane))((N(mask))*b ^ both);
}

/* rows[n][wide] of lanes: the matrices, then the k columns that they meet.  pivots[n] and info in lanes. */
static void N(factor_lanes)(int64_t n, int64_t wide, N(lane) *rows, N(mask) *pivots, N(mask) *info)
{
    const N(mask) magnitude = sizeof(T) == 4 ? (N(mask)){0} + (N(int))INT32_MAX : (N(mask)){0} + (N(int))INT64_MAX;
    *info = (N(mask)){0};
    for (int64_t j = 0; j < n; j++) {
        N(lane) *const at = rows + j * wide;
        N(lane) most = (N(lane))((N(mask))at[j] & magnitude);
        N(mask) largest = (N(mask)){0} + (N(int))j;
        for (int64_t i = j + 1; i < n; i++) {
            const N(lane) size = (N(lane))((N(mask))rows[i * wide + j] & magnitude);
            const N(mask) more = size > most;
            most = (N(lane))(((N(mask))size & more) | ((N(mask))most & ~more));
            largest = (((N(mask)){0} + (N(int))i) & more) | (largest & ~more);
        }
        pivots[j] = largest + 1;
        for (int64_t i = j + 1; i < n; i++) {
            const N(mask) mask = largest == (N(int))i;
            for (int64_t c = 0; c < wide; c++)
                N(trade)(mask, at + c, rows + i * wide + c);
        }
        const N(lane) first = at[j];
        const N(mask) none = first == 0;    /* the largest of them: there is nothing to take */
        *info |= none & (*info == 0) & (N(int))(j + 1);
        for (int64_t i = j + 1; i < n; i++) {
            N(lane) *const to = rows + i * wide, quotient = to[j] / first;
            const N(lane) factor = (N(lane))(((N(mask))to[j] & none) | ((N(mask))quotient & ~none));
            to[j] = factor;
            for (int64_t c = j + 1; c < wide; c++)
                to[c] -= factor * at[c];
        }
    }
}

/* The k columns, for which factoring did what l's inverse does: u's is left. */
static void N(back_lanes)(int64_t n, int64_t wide, N(lane) *rows)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        N(lane) *const to = rows + i * wide;
        for (int64_t r = i + 1; r < n; r++)
            for (int64_t c = n; c < wide; c++)
                to[c] -= to[r] * rows[r * wide + c];
        for (int64_t c = n; c < wide; c++)
            to[c] /= to[i];
    }
}

/* LANES matrices at a time are transposed into lanes and back; lanes without a matrix are zeros, whose results nobody reads. */
static void N(many)(int64_t count, int64_t n, int64_t k, T *a, T *x, int *pivots, int *info)
{
    enum { LANES = N(LANES), BYTES = VBYTES, SIZE = sizeof(T) };
    N(lane) rows[TD_LU_SMALL * (TD_LU_SMALL + TD_LU_COLUMNS)];
    N(mask) places[TD_LU_SMALL], bad;
    const int64_t wide = n + k;
    for (int64_t m; count > 0; count -= m, a += m * n * n, x += m * n * k, info += m) {
        m = count < LANES ? count : LANES;
        if (m < LANES)
            memset(rows, 0, (size_t)(n * wide) * sizeof *rows);
        for (int64_t i = 0; i < n; i++) {
            td_transpose_block(SIZE, (char *)(rows + i * wide), BYTES, (const char *)(a + i * n), n * n * SIZE, m, n);
            if (k)
                td_transpose_block(SIZE, (char *)(rows + i * wide + n), BYTES, (const char *)(x + i * k), n * k * SIZE, m, k);
        }
        N(factor_lanes)(n, wide, rows, places, &bad);
        N(back_lanes)(n, wide, rows);
        for (int64_t r = 0; r < m; r++) {
            info[r] = (int)bad[r];
            for (int64_t j = 0; pivots && j < n; j++)
                *pivots++ = (int)places[j][r];
        }
        for (int64_t i = 0; i < n; i++) {
            td_transpose_block(SIZE, (char *)(a + i * n), n * n * SIZE, (const char *)(rows + i * wide), BYTES, n, m);
            for (int64_t r = 0; r < m && k; r++)
                for (int64_t c = 0; c < k && !bad[r]; c++)      /* one without a solution keeps its columns */
                    x[r * n * k + i * k + c] = rows[i * wide + n + c][r];
        }
    }
}
