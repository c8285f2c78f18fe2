/* Products of 16 x 8 tiles by the matrix units of a CUDA device of capability 8.0 on (the PTX manual: mma.m16n8k16, ldmatrix, cp.async),
 * with sums in float32.  BRAIN: whether A is bfloat16, else it is float16.
 *
 * A warp, 32 work items, has a tile in registers, spread as the instruction wants it.  Of a 16 x 8 tile of sums (float [4]) work item l has, in
 * element e, row l / 4 + 8 * (e / 2) and column l % 4 * 2 + e % 2.  Of a 16 x 16 tile on the left (uint32_t [4], two elements each) it has the
 * same rows and columns of its four quarters, upper left, lower left, upper right and lower right: so two neighbouring tiles of sums become one
 * on the left without any exchange (AS_LEFT).  Tiles on the right are read from shared memory.
 *
 * In shared memory a row has D elements, in chunks of 8 (16 bytes).  Chunks are permuted in groups of 8 by the row's number, so that those
 * that are read together, of 8 rows, lie in different banks. */
#ifndef TD_HOST
#define CHUNKS (D / 8)
#define CHUNK(row, chunk) (((row) * CHUNKS + ((chunk) ^ ((row) & 7))) * 8)
#define TILE_STORAGE SHARED __attribute__((aligned(16)))

#ifdef __CUDACC_RTC__
#define UNROLLED _Pragma("unroll")
/* n groups at a time on a multiprocessor: bounds the registers of a work item. */
#define AT_ONCE(n) __launch_bounds__(WIDTH, n)
static void multiply_tiles(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
#if BRAIN
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#endif
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Four 8 x 8 tiles; work item l has the place of row l % 8 of tile l / 8. */
static void load_tiles(uint32_t *r, const A *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
static void load_tiles_transposed(uint32_t *r, const A *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
/* 16 bytes, later; zeros if not `in`. */
static void fetch_chunk(A *to, const A *from, bool in)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(in ? 16 : 0) : "memory");
}
#define FETCHED asm volatile("cp.async.commit_group;" ::: "memory")
/* All but the last n of what was FETCHED are there. */
#define AWAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
static uint32_t pair(float low, float high)
{
    uint32_t both;
#if BRAIN
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
    return both;
}
static float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define EXCHANGED(x, mask) __shfl_xor_sync(0xffffffffu, x, mask)
#else
/* On the driver that the tests have, each function does what the manual says of its instruction. */
#define UNROLLED
#define AT_ONCE(n)
#define multiply_tiles(c, a, b0, b1) fake_multiply_tiles(c, a, b0, b1, BRAIN)
#define load_tiles(r, row) fake_load_tiles(r, row, 0)
#define load_tiles_transposed(r, row) fake_load_tiles(r, row, 1)
#define fetch_chunk(to, from, in) fake_fetch(to, from, in)
#define FETCHED ((void)0)
#define AWAIT(n) ((void)0)
#define pair(low, high) ((uint32_t)(A_STORE(low)) | (uint32_t)(A_STORE(high)) << 16)
#define exp2_of(x) exp2f(x)
#define EXCHANGED(x, mask) fake_exchange(x, mask)
#endif

/* Rows x0 to x0 + rows of a tensor of n rows and `width` columns into a tile, later: zeros beyond. */
#define FETCH(tile, rows, x, row_stride, x0, n, width)                                              \
    for (int e_ = LANE; e_ < (rows) * CHUNKS; e_ += WIDTH) {                                        \
        const int row_ = e_ / CHUNKS, chunk_ = e_ % CHUNKS;                                         \
        const bool in_ = (x0) + row_ < (n) && chunk_ * 8 < (width);                                 \
        fetch_chunk(&(tile)[CHUNK(row_, chunk_)], in_ ? (x) + ((x0) + row_) * (row_stride) + chunk_ * 8 : (x), in_); \
    }

/* left[D / 16]: the 16 rows of a tile from r0 on. */
#define LOAD_LEFT(left, tile, r0)                                                                   \
    UNROLLED for (int k_ = 0; k_ < D / 16; k_++)                                                    \
        load_tiles((left)[k_], &(tile)[CHUNK((r0) + LANE % 16, 2 * k_ + LANE % 32 / 16)])

/* to[COLUMNS / 8] += left times the tile's rows, as columns: sums over the width. */
#define MULTIPLY_ROWS(to, left, tile)                                                               \
    UNROLLED for (int k_ = 0; k_ < D / 16; k_++)                                                    \
        UNROLLED for (int n_ = 0; n_ < COLUMNS / 16; n_++) {                                        \
            uint32_t b_[4];                                                                         \
            load_tiles(b_, &(tile)[CHUNK(16 * n_ + LANE % 8 + LANE % 32 / 16 * 8, 2 * k_ + LANE / 8 % 2)]); \
            multiply_tiles((to)[2 * n_], (left)[k_], b_[0], b_[1]);                                 \
            multiply_tiles((to)[2 * n_ + 1], (left)[k_], b_[2], b_[3]);                             \
        }

/* to[D / 8] += left[COLUMNS / 16] times the tile: sums over its rows. */
#define MULTIPLY(to, left, tile)                                                                    \
    UNROLLED for (int k_ = 0; k_ < COLUMNS / 16; k_++)                                              \
        UNROLLED for (int n_ = 0; n_ < D / 16; n_++) {                                              \
            uint32_t b_[4];                                                                         \
            load_tiles_transposed(b_, &(tile)[CHUNK(16 * k_ + LANE % 16, 2 * n_ + LANE % 32 / 16)]); \
            multiply_tiles((to)[2 * n_], (left)[k_], b_[0], b_[1]);                                 \
            multiply_tiles((to)[2 * n_ + 1], (left)[k_], b_[2], b_[3]);                             \
        }

#define AS_LEFT(left, sums)                                                                         \
    UNROLLED for (int k_ = 0; k_ < COLUMNS / 16; k_++) {                                            \
        (left)[k_][0] = pair((sums)[2 * k_][0], (sums)[2 * k_][1]);                                 \
        (left)[k_][1] = pair((sums)[2 * k_][2], (sums)[2 * k_][3]);                                 \
        (left)[k_][2] = pair((sums)[2 * k_ + 1][0], (sums)[2 * k_ + 1][1]);                         \
        (left)[k_][3] = pair((sums)[2 * k_ + 1][2], (sums)[2 * k_ + 1][3]);                         \
    }

#define CLEAR_TILES(sums, n)                                                                        \
    UNROLLED for (int n_ = 0; n_ < (n); n_++)                                                       \
        (sums)[n_][0] = (sums)[n_][1] = (sums)[n_][2] = (sums)[n_][3] = 0

/* Row r0 + l / 4 + 8 * half of sums[D / 8], times factors[half], to rows of a tensor: two elements at a time. */
#define STORE_TILES(y, row_stride, r0, n, width, sums, factors)                                     \
    UNROLLED for (int half_ = 0; half_ < 2; half_++) {                                              \
        const int64_t row_ = (r0) + LANE % 32 / 4 + 8 * half_;                                      \
        if (row_ < (n))                                                                             \
            UNROLLED for (int n_ = 0; n_ < D / 8; n_++) {                                           \
                const int column_ = 8 * n_ + LANE % 4 * 2;                                          \
                if (column_ < (width))                                                              \
                    *(GLOBAL uint32_t *)((y) + row_ * (row_stride) + column_) =                     \
                        pair((sums)[n_][2 * half_] * (factors)[half_], (sums)[n_][2 * half_ + 1] * (factors)[half_]); \
            }                                                                                       \
    }
#endif
