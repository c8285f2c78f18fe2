/* Rows of pictures, for a T named S: included by conv_isa.c. */

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
 * later. What is between is read row by row, as it lies. */
static void N(rows)(const T *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, T *to)
{
    enum { LANES = BYTES / sizeof(T) };
    typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    typedef N(place) I __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    const int64_t begin = (low + LANES - 1) / LANES * LANES, end = high / LANES * LANES;
    for (int64_t i = (width - 1) / LANES * LANES; i >= 0; i -= LANES) {
        if (i >= begin && i < end)
            continue;
        I inside;
        for (int64_t lane = 0; lane < LANES; lane++)
            inside[lane] = i + lane >= low && i + lane < high ? -1 : 0;
        for (int64_t r = 0; r < rows; r++)
            *(I *)(to + r * width + i) = inside & *(const I *)(from + r * step + i);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = begin; i < end; i += LANES)
            *(V *)(to + r * width + i) = *(const V *)(from + r * step + i);
}
