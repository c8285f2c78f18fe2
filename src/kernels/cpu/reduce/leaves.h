/* The innermost loops of reductions (sums, products, extremes, norms, ...) of one floating type: included by reduce_isa.c with T, I (an integer
 * as wide), SUFFIX, EXP and POW set.
 *
 * Long runs are bound by memory, for which AHEAD fetches; short ones by the latency of joining lanes, hence four at a time.  LANES is how
 * many numbers 64 bytes hold, ONE how many the machine's vectors do, PARTS how many of these make 64 bytes.  The order in which a run
 * is added up follows from its length alone, for every instruction set and any number of threads. */

#define V  NAME(vec)
#define VI NAME(veci)
#define LANES ((int64_t)(64 / sizeof(T)))
#define ONE   ((int64_t)(VBYTES / sizeof(T)))
#define ABS(x) (sizeof(T) == 4 ? (T)__builtin_fabsf((float)(x)) : (T)__builtin_fabs((double)(x)))
#define VABS(x) ((V)((VI)(x) & ((VI){0} + NAME(abs_mask))))
#define VPICK(mask, a, b) ((V)(((VI)(mask) & (VI)(a)) | (~(VI)(mask) & (VI)(b))))

typedef T V __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));
typedef I VI __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));
/* From its nth element on, a mask that picks the last n lanes. */
static const I NAME(last)[2 * 64 / sizeof(T)] = {[64 / sizeof(T) ... 2 * 64 / sizeof(T) - 1] = -1};
static const I NAME(abs_mask) = sizeof(I) == 4 ? (I)INT32_MAX : (I)INT64_MAX;

/* How an element enters an accumulator, three times: v_ for vectors of a run, s_ for numbers of a tile of columns, fold_ in double
 * for what a run has left over.  max and min keep a NaN. */
static inline V NAME(v_add)(V a, V x)     { return a + x; }
static inline V NAME(v_mul)(V a, V x)     { return a * x; }
static inline V NAME(v_nanadd)(V a, V x)  { return a + (V)((VI)x & (x == x)); }
static inline V NAME(v_absadd)(V a, V x)  { return a + VABS(x); }
static inline V NAME(v_squares)(V a, V x) { return a + x * x; }
static inline V NAME(v_max)(V a, V x)     { return NAME(max_vector)(a, x); }
static inline V NAME(v_min)(V a, V x)     { return NAME(min_vector)(a, x); }
static inline V NAME(v_absmax)(V a, V x)  { return NAME(v_max)(a, VABS(x)); }
static inline V NAME(v_absmin)(V a, V x)  { return NAME(v_min)(a, VABS(x)); }

static inline T NAME(s_add)(T a, T x)     { return a + x; }
static inline T NAME(s_mul)(T a, T x)     { return a * x; }
static inline T NAME(s_nanadd)(T a, T x)  { return a + (x == x ? x : 0); }
static inline T NAME(s_absadd)(T a, T x)  { return a + ABS(x); }
static inline T NAME(s_squares)(T a, T x) { return a + x * x; }
static inline T NAME(s_max)(T a, T x)     { return ((x > a) | (x != x)) ? x : a; }
static inline T NAME(s_min)(T a, T x)     { return ((x < a) | (x != x)) ? x : a; }
static inline T NAME(s_absmax)(T a, T x)  { return NAME(s_max)(a, ABS(x)); }
static inline T NAME(s_absmin)(T a, T x)  { return NAME(s_min)(a, ABS(x)); }

static inline double NAME(fold_add)(double a, T x)     { return a + x; }
static inline double NAME(fold_mul)(double a, T x)     { return a * x; }
static inline double NAME(fold_nanadd)(double a, T x)  { return a + (x == x ? x : 0); }
static inline double NAME(fold_absadd)(double a, T x)  { return a + ABS(x); }
static inline double NAME(fold_squares)(double a, T x) { return a + (double)x * x; }
static inline double NAME(fold_max)(double a, T x)     { return merge_max(a, x); }
static inline double NAME(fold_min)(double a, T x)     { return merge_min(a, x); }
static inline double NAME(fold_absmax)(double a, T x)  { return merge_max(a, ABS(x)); }
static inline double NAME(fold_absmin)(double a, T x)  { return merge_min(a, ABS(x)); }

/* 64 bytes of accumulators as one. */
#define FOLD(join)                                      \
    static __attribute__((noinline)) double NAME(join##_lanes)(const V *a) \
    {                                                   \
        double lane[LANES];                             \
        for (int64_t k = 0; k < LANES; k++)             \
            lane[k] = ((const T *)a)[k];                \
        _Pragma("GCC unroll 4")                         \
        for (int64_t w = LANES / 2; w > 0; w /= 2)      \
            for (int64_t k = 0; k < w; k++)             \
                lane[k] = join(lane[k], lane[k + w]);   \
        return lane[0];                                 \
    }
FOLD(merge_sum)
FOLD(merge_prod)
FOLD(merge_max)
FOLD(merge_min)

/* The same of four at once: lanes are joined in the same order. */
#define FOLD_FOUR(join)                                                                                                    \
    static __attribute__((noinline)) void NAME(join##_four)(V (*a)[PARTS], double *to)                                     \
    {                                                                                                                      \
        four_f64 part[4][LANES / 4];                                                                                       \
        _Pragma("GCC unroll 4")                                                                                            \
        for (int64_t r = 0; r < 4; r++) {                                                                                  \
            _Pragma("GCC unroll 4")                                                                                        \
            for (int64_t k = 0; k < LANES / 4; k++)                                                                        \
                NAME(four_from)(&part[r][k], (const T *)a[r] + 4 * k);                                                     \
            _Pragma("GCC unroll 4")                                                                                        \
            for (int64_t w = LANES / 8; w > 0; w /= 2)                                                                     \
                for (int64_t k = 0; k < w; k++)                                                                            \
                    part[r][k] = four_##join(part[r][k], part[r][k + w]);                                                  \
        }                                                                                                                  \
        const four_f64 ab = four_##join(FOUR(part[0][0], part[1][0], 0, 1, 4, 5), FOUR(part[0][0], part[1][0], 2, 3, 6, 7));\
        const four_f64 cd = four_##join(FOUR(part[2][0], part[3][0], 0, 1, 4, 5), FOUR(part[2][0], part[3][0], 2, 3, 6, 7));\
        *(four_f64 *)to = four_##join(FOUR(ab, cd, 0, 2, 4, 6), FOUR(ab, cd, 1, 3, 5, 7));                                 \
    }
FOLD_FOUR(merge_sum)
FOLD_FOUR(merge_prod)
FOLD_FOUR(merge_max)
FOLD_FOUR(merge_min)

/* Folds of one word.  step: how an element enters; join: how two accumulators become one; vjoin: the same for vectors of T.  What is
 * left of a block after whole steps of 64 bytes is its last 64 bytes once more, of which a mask lets the new ones in; so only runs
 * shorter than 64 bytes are folded number by number. */
#define REAL(op, start, step, join, vjoin)                                                                            \
    static void NAME(op##_init)(td_word *acc, int64_t cols)                                                           \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            acc[i].d = start;                                                                                         \
    }                                                                                                                 \
    static void NAME(op##_merge)(td_word *acc, const td_word *other, int64_t cols)                                    \
    {                                                                                                                 \
        double *a = &acc->d;                                                                                          \
        const double *b = &other->d;                                                                                  \
        _Pragma("omp simd")                                                                                           \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            a[i] = join(a[i], b[i]);                                                                                  \
    }                                                                                                                 \
    /* LANES to BLOCK elements, folded into the lanes of `to`; how many they were. */                                 \
    INLINE int64_t NAME(op##_block)(V *to, const T *x, int64_t n)                                                     \
    {                                                                                                                 \
        int64_t m = n < BLOCK ? n : BLOCK, i = 0;                                                                     \
        V a[4 * PARTS];                                                                                               \
        EACH_PART(4, k) a[k] = (V){0} + (T)(start);                                                                   \
        for (; i + 4 * LANES <= m; i += 4 * LANES) {                                                                  \
            for (int64_t line = 0; line < 256; line += 64)                                                            \
                __builtin_prefetch((const char *)(x + i) + AHEAD + line);                                             \
            EACH_PART(4, k) a[k] = NAME(v_##step)(a[k], *(const V *)(x + i + k * ONE));                               \
        }                                                                                                             \
        for (; i + LANES <= m; i += LANES)                                                                            \
            EACH_PART(1, k) a[k] = NAME(v_##step)(a[k], *(const V *)(x + i + k * ONE));                               \
        if (n - i < LANES && n > i) {                                                                                 \
            EACH_PART(1, k) {                                                                                         \
                VI mask = *(const VI *)(NAME(last) + (n - i) + k * ONE);                                              \
                V last = VPICK(mask, *(const V *)(x + n - LANES + k * ONE), (V){0} + (T)(start));                     \
                a[PARTS + k] = NAME(v_##step)(a[PARTS + k], last);                                                    \
            }                                                                                                         \
            i = n;                                                                                                    \
        }                                                                                                             \
        EACH_PART(1, k)                                                                                               \
            to[k] = NAME(vjoin)(NAME(vjoin)(a[k], a[PARTS + k]), NAME(vjoin)(a[2 * PARTS + k], a[3 * PARTS + k]));    \
        return i;                                                                                                     \
    }                                                                                                                 \
    static void NAME(op##_run)(td_word *acc, const void *from, int64_t n, int64_t base, double p)                     \
    {                                                                                                                 \
        (void)base, (void)p;                                                                                          \
        double total = acc->d;                                                                                        \
        const T *x = from;                                                                                            \
        while (n >= LANES) {                                                                                          \
            V a[PARTS];                                                                                               \
            int64_t i = NAME(op##_block)(a, x, n);                                                                    \
            total = join(total, NAME(join##_lanes)(a));                                                               \
            x += i, n -= i;                                                                                           \
        }                                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                               \
            total = NAME(fold_##step)(total, x[i]);                                                                   \
        acc->d = total;                                                                                               \
    }                                                                                                                 \
    static void NAME(op##_runs)(td_word *acc, int64_t count, const void *from, int64_t n, int64_t stride)             \
    {                                                                                                                 \
        const T *x = from;                                                                                            \
        for (int64_t r = 0; r < count; r += 4, acc += 4, x += 4 * stride) {                                           \
            const int64_t rows = count - r < 4 ? count - r : 4;                                                       \
            V a[4][PARTS];                                                                                            \
            for (int64_t k = 0; k < rows; k++)                                                                        \
                NAME(op##_block)(a[k], x + k * stride, n);                                                            \
            if (rows == 4)                                                                                            \
                NAME(join##_four)(a, &acc->d);                                                                        \
            for (int64_t k = 0; k < rows && rows < 4; k++)                                                            \
                acc[k].d = NAME(join##_lanes)(a[k]);                                                                  \
        }                                                                                                             \
    }                                                                                                                 \
    static void NAME(op##_rows)(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride,           \
                                int64_t base, double p)                                                               \
    {                                                                                                                 \
        (void)base, (void)p;                                                                                          \
        T tile[TD_RED_TILE];                                                                                          \
        const T *x = from;                                                                                            \
        double *all = &acc->d;                                                                                        \
        for (; rows > 0; rows -= ROWS) {                                                                              \
            int64_t m = rows < ROWS ? rows : ROWS, r = 0;                                                             \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                tile[i] = (T)(start);                                                                                 \
            for (; r + 4 <= m; r += 4, x += 4 * stride)                                                               \
                for (int64_t i = 0; i < cols; i++) {                                                                  \
                    T t = NAME(s_##step)(NAME(s_##step)(tile[i], x[i]), x[i + stride]);                               \
                    tile[i] = NAME(s_##step)(NAME(s_##step)(t, x[i + 2 * stride]), x[i + 3 * stride]);                \
                }                                                                                                     \
            for (; r < m; r++, x += stride)                                                                           \
                for (int64_t i = 0; i < cols; i++)                                                                    \
                    tile[i] = NAME(s_##step)(tile[i], x[i]);                                                          \
            _Pragma("omp simd")                                                                                       \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                all[i] = join(all[i], (double)tile[i]);                                                               \
        }                                                                                                             \
    }

REAL(sum, 0, add, merge_sum, v_add)
REAL(prod, 1, mul, merge_prod, v_mul)
REAL(max, -INF, max, merge_max, v_max)
REAL(min, INF, min, merge_min, v_min)
REAL(nansum, 0, nanadd, merge_sum, v_add)
REAL(abssum, 0, absadd, merge_sum, v_add)
REAL(squares, 0, squares, merge_sum, v_add)
REAL(absmax, 0, absmax, merge_max, v_max)
REAL(absmin, INF, absmin, merge_min, v_min)

/* ---- |x|^p */

/* Powers pass through a block of 256, which is summed like any run. */
static void NAME(powers_init)(td_word *acc, int64_t cols) { NAME(sum_init)(acc, cols); }
static void NAME(powers_merge)(td_word *acc, const td_word *other, int64_t cols) { NAME(sum_merge)(acc, other, cols); }
static void NAME(powers_run)(td_word *acc, const void *from, int64_t n, int64_t base, double p)
{
    T block[256];
    const T *x = from;
    for (int64_t i = 0; i < n; i += 256) {
        int64_t m = n - i < 256 ? n - i : 256;
        for (int64_t k = 0; k < m; k++)
            block[k] = POW(ABS(x[i + k]), (T)p);
        NAME(sum_run)(acc, block, m, base, p);
    }
}
/* Sums of columns are kept in double: the power is what takes the time. */
static void NAME(powers_rows)(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride, int64_t base,
                              double p)
{
    (void)base;
    for (int64_t r = 0; r < rows; r++) {
        const T *x = (const T *)from + r * stride;
        for (int64_t i = 0; i < cols; i++)
            acc[i].d += POW(ABS(x[i]), (T)p);
    }
}

/* ---- how many aren't 0 */

static void NAME(count_init)(td_word *acc, int64_t cols) { memset(acc, 0, sizeof *acc * (size_t)cols); }
/* Counts are int64 for every type. */
static void NAME(count_merge)(td_word *acc, const td_word *other, int64_t cols)
{
    for (int64_t i = 0; i < cols; i++)
        acc[i].i += other[i].i;
}
/* Found elements are counted in as many bits as T has, for vectors; a block is too short for them to overflow. */
static void NAME(count_run)(td_word *acc, const void *from, int64_t n, int64_t base, double p)
{
    (void)base, (void)p;
    const T *x = from;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        I found = 0;
        for (int64_t k = 0; k < m; k++)
            found += x[i + k] != 0;
        acc->i += found;
    }
}
/* Columns count into the accumulators at once. */
static void NAME(count_rows)(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride, int64_t base,
                             double p)
{
    (void)base, (void)p;
    for (int64_t r = 0; r < rows; r++) {
        const T *x = (const T *)from + r * stride;
        for (int64_t i = 0; i < cols; i++)
            acc[i].i += x[i] != 0;
    }
}

/* ---- where the largest (smallest) one is: the first of several, the first NaN before anything */

/* Where `value` is, which is among x's first; NaN for the first NaN.  In stretches, so that there is little to guess. */
static int64_t NAME(place_of)(const T *x, int64_t n, T value)
{
    const I nan = value != value;
    int64_t k = 0;
    for (I found = 0; k + 64 <= n; k += 64) {
        for (int j = 0; j < 64; j++)
            found |= (x[k + j] == value) | (nan & (x[k + j] != x[k + j]));
        if (found)
            break;
    }
    while (nan ? x[k] == x[k] : x[k] != value)
        k++;
    return k;
}

/* The extreme of a stretch of 1024 comes first, by vectors; only if it beats what there is, it is looked for in the stretch, which
 * is in the first cache.  Columns keep value and position side by side, positions being as wide as values so that both are vectors. */
#define ARG(op, extreme, start, better)                                                                               \
    static void NAME(op##_init)(td_word *acc, int64_t cols)                                                           \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            acc[i].d = start, acc[cols + i].i = -1;                                                                   \
    }                                                                                                                 \
    static inline bool NAME(op##_takes)(double value, int64_t at, double other)                                       \
    {                                                                                                                 \
        return (at < 0) | (other better value) | ((other != other) & (value == value));                               \
    }                                                                                                                 \
    static void NAME(op##_merge)(td_word *acc, const td_word *other, int64_t cols)                                    \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            if (other[cols + i].i >= 0 && NAME(op##_takes)(acc[i].d, acc[cols + i].i, other[i].d))                    \
                acc[i] = other[i], acc[cols + i] = other[cols + i];                                                   \
    }                                                                                                                 \
    static void NAME(op##_run)(td_word *acc, const void *from, int64_t n, int64_t base, double p)                     \
    {                                                                                                                 \
        const T *x = from;                                                                                            \
        for (int64_t i = 0; i < n; i += 1024) {                                                                       \
            int64_t m = n - i < 1024 ? n - i : 1024;                                                                  \
            td_word top = {.d = start};                                                                               \
            NAME(extreme##_run)(&top, x + i, m, base, p);                                                             \
            if (!NAME(op##_takes)(acc[0].d, acc[1].i, top.d))                                                         \
                continue;                                                                                             \
            acc[0].d = top.d, acc[1].i = base + i + NAME(place_of)(x + i, m, (T)top.d);                               \
        }                                                                                                             \
    }                                                                                                                 \
    static void NAME(op##_rows)(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride,           \
                                int64_t base, double p)                                                               \
    {                                                                                                                 \
        (void)p;                                                                                                      \
        T value[TD_RED_TILE];                                                                                         \
        I at[TD_RED_TILE];                                                                                            \
        for (int64_t r = 0; r < rows; r += 1024) {                                                                    \
            int64_t m = rows - r < 1024 ? rows - r : 1024;                                                            \
            const T *x = (const T *)from + r * stride;                                                                \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                value[i] = x[i], at[i] = 0;                                                                           \
            for (int64_t k = 1; k < m; k++) {                                                                         \
                x += stride;                                                                                          \
                for (int64_t i = 0; i < cols; i++) {                                                                  \
                    T v = value[i];                                                                                   \
                    int take = (x[i] better v) | ((x[i] != x[i]) & (v == v));                                         \
                    value[i] = take ? x[i] : v;                                                                       \
                    at[i] = take ? (I)k : at[i];                                                                      \
                }                                                                                                     \
            }                                                                                                         \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                if (NAME(op##_takes)(acc[i].d, acc[cols + i].i, value[i]))                                            \
                    acc[i].d = value[i], acc[cols + i].i = base + r + at[i];                                          \
        }                                                                                                             \
    }
ARG(argmax, max, -INF, >)
ARG(argmin, min, INF, <)

/* ---- count, mean, squared differences: each block twice (the second time from the cache), blocks merged by Chan's
 * formula */

/* Three words each: count, mean, and sum of squared differences from it (M2). */
static void NAME(var_init)(td_word *acc, int64_t cols) { memset(acc, 0, sizeof *acc * 3 * (size_t)cols); }
/* Two parts become one: means differ by delta, which adds delta^2 n n2 / (n + n2) to the squares (Chan, Golub and LeVeque, 1979). */
static inline void NAME(var_join)(double *n, double *mean, double *squares, double n2, double mean2, double squares2)
{
    double both = *n + n2, delta = mean2 - *mean, part = n2 / (both > 0 ? both : 1);
    *squares += squares2 + delta * delta * *n * part;
    *mean += delta * part;
    *n = both;
}
static void NAME(var_merge)(td_word *acc, const td_word *other, int64_t cols)
{
    for (int64_t i = 0; i < cols; i++)
        NAME(var_join)(&acc[i].d, &acc[cols + i].d, &acc[2 * cols + i].d, other[i].d, other[cols + i].d,
                       other[2 * cols + i].d);
}
/* A block with an infinity, or whose sums leave T's range: one element after another (Welford, 1962), so that the mean is infinite where the
 * infinity comes last, and NaN from the element on that follows it. */
static __attribute__((noinline)) void NAME(var_serial)(double *n, double *mean, double *squares, const T *x, int64_t count, int64_t stride)
{
    double m = 0, s = 0;
    for (int64_t k = 0; k < count && m == m; k++) {
        double off = x[k * stride] - m;
        m += off / (double)(k + 1);
        s += off * (x[k * stride] - m);
    }
    NAME(var_join)(n, mean, squares, (double)count, m, s);
}
/* Differences are from a mean that was rounded to T; their own sum, which would be 0, corrects both results for that. */
static void NAME(var_run)(td_word *acc, const void *from, int64_t n, int64_t base, double p)
{
    const T *x = from;
    for (int64_t i = 0; i < n; i += 2048) {
        int64_t m = n - i < 2048 ? n - i : 2048, k = 0;
        td_word sum = {.d = 0};
        NAME(sum_run)(&sum, x + i, m, base, p);
        T mean = (T)(sum.d / (double)m);
        V off[2 * PARTS] = {{0}}, square[2 * PARTS] = {{0}};
        for (; k + 2 * LANES <= m; k += 2 * LANES)
            EACH_PART(2, l) {
                V d = *(const V *)(x + i + k + l * ONE) - mean;
                off[l] += d, square[l] += d * d;
            }
        for (; m >= LANES && k < m; k += LANES) {      /* the last vector begins early, and counts what is new */
            const int64_t at = k + LANES <= m ? k : m - LANES;
            EACH_PART(1, l) {
                const VI fresh = *(const VI *)(NAME(last) + LANES - (k - at) + l * ONE);
                const V d = (V)(fresh & (VI)(*(const V *)(x + i + at + l * ONE) - mean));
                off[l] += d, square[l] += d * d;
            }
        }
        EACH_PART(1, l) off[l] += off[PARTS + l], square[l] += square[PARTS + l];
        double difference = NAME(merge_sum_lanes)(off), squares = NAME(merge_sum_lanes)(square);
        for (; k < m; k++) {
            double d = x[i + k] - mean;
            difference += d, squares += d * d;
        }
        squares -= difference * difference / (double)m;
        if (__builtin_expect(squares - squares != 0, 0))
            NAME(var_serial)(&acc[0].d, &acc[1].d, &acc[2].d, x + i, m, 1);
        else
            NAME(var_join)(&acc[0].d, &acc[1].d, &acc[2].d, (double)m, mean + difference / (double)m, squares > 0 ? squares : 0);
    }
}
/* The same for columns, ROWS rows at a time. */
static void NAME(var_rows)(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride, int64_t base,
                           double p)
{
    (void)base, (void)p;
    T mean[TD_RED_TILE], off[TD_RED_TILE], square[TD_RED_TILE];
    for (int64_t r = 0; r < rows; r += ROWS) {
        int64_t m = rows - r < ROWS ? rows - r : ROWS;
        const T *x = (const T *)from + r * stride;
        for (int64_t i = 0; i < cols; i++)
            mean[i] = x[i];
        for (int64_t k = 1; k < m; k++)
            for (int64_t i = 0; i < cols; i++)
                mean[i] += x[k * stride + i];
        for (int64_t i = 0; i < cols; i++)
            mean[i] /= (T)m, off[i] = square[i] = 0;
        for (int64_t k = 0; k < m; k++)
            for (int64_t i = 0; i < cols; i++) {
                T d = x[k * stride + i] - mean[i];
                off[i] += d, square[i] += d * d;
            }
        for (int64_t i = 0; i < cols; i++) {
            double difference = off[i], squares = square[i] - difference * difference / (double)m;
            if (__builtin_expect(squares - squares != 0, 0))
                NAME(var_serial)(&acc[i].d, &acc[cols + i].d, &acc[2 * cols + i].d, x + i, m, stride);
            else
                NAME(var_join)(&acc[i].d, &acc[cols + i].d, &acc[2 * cols + i].d, (double)m, mean[i] + difference / (double)m,
                               squares < 0 ? 0 : squares);
        }
    }
}

/* ---- log of a sum of exponentials: the largest goes out front */

/* Of nothing: maximum -inf and sum 0, whose logarithms add up to -inf. */
static void NAME(lse_init)(td_word *acc, int64_t cols)
{
    for (int64_t i = 0; i < cols; i++)
        acc[i].d = -INF, acc[cols + i].d = 0;
}
/* Two words each: the maximum and the sum of exponentials below it. */
static void NAME(lse_merge)(td_word *acc, const td_word *other, int64_t cols)
{
    for (int64_t i = 0; i < cols; i++)
        acc[cols + i].d = merge_lse(&acc[i].d, acc[cols + i].d, other[i].d, other[cols + i].d);
}
/* n numbers, at most 512: the largest, and the sum of exponentials. */
INLINE T NAME(lse_block)(const T *x, int64_t n, T top)
{
    return top - top == 0 ? NAME(td_exp_less)(x, top, NULL, n) : top == -INF ? 0 : 1;
}
/* Stretches short enough for the first cache: the maximum, then the exponentials below it, then the merge. */
static void NAME(lse_run)(td_word *acc, const void *from, int64_t n, int64_t base, double p)
{
    const T *x = from;
    for (int64_t i = 0; i < n; i += TD_RED_RUN) {
        const int64_t m = n - i < TD_RED_RUN ? n - i : TD_RED_RUN;
        td_word top = {.d = -INF};
        NAME(max_run)(&top, x + i, m, base, p);
        acc[1].d = merge_lse(&acc[0].d, acc[1].d, top.d, NAME(lse_block)(x + i, m, (T)top.d));
    }
}
/* Short runs: all maxima first, then the exponentials of each, as lse_run() does with one stretch. */
static void NAME(lse_runs)(td_word *acc, int64_t count, const void *from, int64_t n, int64_t stride)
{
    NAME(max_runs)(acc, count, from, n, stride);
    for (int64_t r = 0; r < count; r++)
        acc[count + r].d = NAME(lse_block)((const T *)from + r * stride, n, (T)acc[r].d);
}
/* A column whose largest number is infinite or NaN is not shifted; merge_lse() sees that it was one. */
static void NAME(lse_rows)(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride, int64_t base,
                           double p)
{
    (void)base, (void)p;
    T top[TD_RED_TILE], sum[TD_RED_TILE];
    for (int64_t r = 0; r < rows; r += ROWS) {
        int64_t m = rows - r < ROWS ? rows - r : ROWS;
        const T *x = (const T *)from + r * stride;
        for (int64_t i = 0; i < cols; i++)
            top[i] = x[i], sum[i] = 0;
        for (int64_t k = 1; k < m; k++)
            for (int64_t i = 0; i < cols; i++)
                top[i] = NAME(s_max)(top[i], x[k * stride + i]);
        for (int64_t k = 0; k < m; k++)
            for (int64_t i = 0; i < cols; i++)
                sum[i] += EXP(x[k * stride + i] - (top[i] - top[i] == 0 ? top[i] : 0));
        for (int64_t i = 0; i < cols; i++)
            acc[cols + i].d = merge_lse(&acc[i].d, acc[cols + i].d, top[i], sum[i]);
    }
}

#undef FOLD
#undef FOLD_FOUR
#undef REAL
#undef ARG
#undef V
#undef VI
#undef LANES
#undef ONE
#undef ABS
#undef VABS
#undef VPICK
