/* Rows of packed copies, for a T named S: included by conv_isa.c.  All of it is loads and stores; there is no branch per number, since
 * rows are short (an image's width) and their edges would be guessed wrong. */

static void N(every)(const T *from, int64_t step, int64_t n, T *to)
{
    if (step == 2)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = from[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

/* Vectors at the edges come first, the last of all rows before the first: what they write too far belongs to rows that come
 * later. What is between is read row by row, as it lies.  READ(at) is the vector of numbers from `at` on. */
#define ROWS(name, by, READ)                                                                                             \
    static void N(name)(const T *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, T *to)      \
    {                                                                                                                    \
        const int64_t begin = (low + N(LANES) - 1) / N(LANES) * N(LANES), end = high / N(LANES) * N(LANES);              \
        for (int64_t i = (width - 1) / N(LANES) * N(LANES); i >= 0; i -= N(LANES)) {                                     \
            if (i >= begin && i < end)                                                                                   \
                continue;                                                                                                \
            N(lane_mask) inside;                                                                                            \
            for (int64_t lane = 0; lane < N(LANES); lane++)                                                              \
                inside[lane] = i + lane >= low && i + lane < high ? -1 : 0;                                              \
            for (int64_t r = 0; r < rows; r++)                                                                           \
                *(N(lane_mask) *)(to + r * width + i) = inside & (N(lane_mask))READ(from + r * step + by * i);                 \
        }                                                                                                                \
        for (int64_t r = 0; r < rows; r++)                                                                               \
            for (int64_t i = begin; i < end; i += N(LANES))                                                              \
                *(N(numbers) *)(to + r * width + i) = READ(from + r * step + by * i);                                    \
    }
enum { N(LANES) = BYTES / sizeof(T) };
typedef T N(numbers) __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
typedef N(place) N(lane_mask) __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
static inline N(numbers) N(next_ones)(const T *at) { return *(const N(numbers) *)at; }
static inline N(numbers) N(next_evens)(const T *at)
{
    return __builtin_shufflevector(N(next_ones)(at), N(next_ones)(at + N(LANES)), N(EVEN));
}
ROWS(rows, 1, N(next_ones))
ROWS(rows_of_evens, 2, N(next_evens))
#undef ROWS
