/* panels.c for a T named S: correlation, depthwise correlation and the weights' gradient on packed copies of a band.
 *
 * Products bound correlate(): a panel is copied once per COLUMNS positions and pass of k, and meets cout rows.  The depthwise
 * loops have little to use twice, and loads bound them: one for every product or, in slide(), for up to four. */

/* Tasks: (image, group, plane, band).  With a bias, rows of y are filled with it and products added; without one, the first pass of k
 * overwrites what is there. */
static void N(correlate)(td_conv *c, const bands *b, int64_t first, int64_t last)
{
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    const int64_t lanes = gemm->bytes / (int64_t)sizeof(T), panel = lanes * gemm->vectors;
    const int64_t step = td_gemm_depth(c->g.k, sizeof(T));
    const int64_t area = c->g.out[1] * c->g.out[2];
    const size_t bytes = (size_t)(b->total + panel + step * COLUMNS) * sizeof(T);
    T *input = td_mem_alloc(bytes), *columns = input + b->total + panel;
    if (!input) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    memset(input + b->total, 0, (size_t)panel * sizeof(T));   /* what the last panel reads too far */
    for (int64_t t = first; t < last; t++) {
        const int64_t row = t % b->count * b->rows, od = t / b->count % c->g.out[0], image = t / b->count / c->g.out[0];
        const int64_t rows = c->g.out[1] - row < b->rows ? c->g.out[1] - row : b->rows, n = rows * c->g.out[2];
        const T *w = (const T *)c->w + image % c->g.groups * c->g.cout * c->g.k;
        const T *bias = c->bias ? (const T *)c->bias + image % c->g.groups * c->g.cout : NULL;
        T *y = (T *)c->y + (image * c->g.cout * c->g.out[0] + od) * area + row * c->g.out[2];
        if (rows <= 0)
            continue;
        N(pack)(c, b, (const T *)c->x + image * c->g.cin * c->g.in_total, od, row, input);
        for (int64_t q = 0; q < n; q += COLUMNS) {
            const int64_t width = n - q < COLUMNS ? n - q : COLUMNS;
            if (bias)
                TD_ISA_PICK(td_conv_table)->N(fill)(bias, c->g.cout, width, y + q, c->g.out_total);
            for (int64_t p = 0; p < c->g.k; p += step) {
                const int64_t depth = c->g.k - p < step ? c->g.k - p : step;
                TD_ISA_PICK(td_conv_table)->N(panels)(input + q, b->offsets + p, depth, width, columns);
                gemm->N(packed)(c->g.cout, width, depth, 1, (td_matrix){w + p, c->g.k, 1}, columns, p > 0 || bias, y + q,
                                c->g.out_total, NULL);
            }
        }
    }
    td_mem_free(input, bytes);
}

/* The same with one channel and one kernel per group: sums of shifted runs, four output rows at a time where rows and kernel rows
 * are neighbours, since an input row then serves up to four sums while it is in a register. */
static void N(depthwise)(td_conv *c, const bands *b, int64_t first, int64_t last)
{
    const int64_t slack = 4 * TD_ISA_PICK(td_gemm_table)->bytes / (int64_t)sizeof(T), area = c->g.out[1] * c->g.out[2];
    const size_t bytes = (size_t)(b->total + slack) * sizeof(T);
    T *input = td_mem_alloc(bytes);
    if (!input) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    memset(input + b->total, 0, (size_t)slack * sizeof(T));
    for (int64_t t = first; t < last; t++) {
        const int64_t row = t % b->count * b->rows, od = t / b->count % c->g.out[0], image = t / b->count / c->g.out[0];
        const int64_t rows = c->g.out[1] - row < b->rows ? c->g.out[1] - row : b->rows, g = image % c->g.groups;
        if (rows <= 0)
            continue;
        const T *x = (const T *)c->x + image * c->g.in_total, *w = (const T *)c->w + g * c->g.k;
        const T start = c->bias ? ((const T *)c->bias)[g] : 0;
        N(pack)(c, b, x, od, row, input);
        const bool rowwise = b->width != c->g.out[2];
        const int64_t n = rowwise ? c->g.out[2] : rows * c->g.out[2], end = rows * c->g.out[2];
        T *y = (T *)c->y + (image * c->g.out[0] + od) * area + row * c->g.out[2];
        if (rowwise && c->g.stride[1] == 1 && c->g.dilation[1] == 1) {
            /* Of the next plane as much is fetched at a time as is read on average. */
            const int64_t share = t + 1 < last ? 4 * c->g.in_total / (c->g.out[0] * c->g.out[1]) : 0, line = 64 / (int64_t)sizeof(T);
            const td_slide s = {.kernel = {c->g.kernel[0], c->g.kernel[1], c->g.kernel[2]}, .line = b->width,
                                .plane = b->lines * b->width, .apart = c->g.dilation[2], .width = n};
            for (int64_t r = 0; r < rows; r += 4) {
                for (int64_t i = 0; i < share; i += line)
                    __builtin_prefetch(x + c->g.in_total + r / 4 * share + i, 0, 2);
                TD_ISA_PICK(td_conv_table)->N(slide)(&s, input + r * b->width, w, start, rows - r < 4 ? rows - r : 4,
                                                     y + r * n, end - r * n);
            }
            continue;
        }
        for (int64_t q = 0, r = 0; q < end; q += n, r++)
            TD_ISA_PICK(td_conv_table)->N(taps)(input + r * b->width, b->offsets, w, c->g.k, start, n, end - q, y + q);
    }
    td_mem_free(input, bytes);
}

/* sum[o][k] over images [from, to).  Kernel elements come one by one, each for all channels; with few channels, each for
 * a row of the kernel instead, so that products have rows.  The gradient is packed as b once per band and meets all of them. */
static bool N(weigh)(td_conv *c, const bands *b, int64_t from, int64_t to, int64_t group, T *sum)
{
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    const int64_t taps = c->g.kernel[0] * c->g.kernel[1] * c->g.kernel[2], size = b->rows * c->g.out[2];
    const bool few = c->g.cin < c->g.kernel[2];
    const int64_t packed_size = td_gemm_packed_size(c->g.cout, size, gemm->bytes / (int64_t)sizeof(T));
    const size_t bytes = (size_t)(b->total + b->vector + packed_size + c->g.k * c->g.cout) * sizeof(T);
    T *input = td_mem_alloc(bytes), *packed = input + b->total + b->vector, *transposed = packed + packed_size;
    if (!input)
        return false;
    memset(transposed, 0, (size_t)(c->g.k * c->g.cout) * sizeof(T));    /* [k][out] */
    for (int64_t n = from; n < to; n++)
        for (int64_t t = 0; t < c->g.out[0] * b->count; t++) {
            const int64_t row = t % b->count * b->rows, od = t / b->count, image = n * c->g.groups + group;
            const int64_t rows = c->g.out[1] - row < b->rows ? c->g.out[1] - row : b->rows, depth = rows * c->g.out[2];
            const T *y = (const T *)c->y + (image * c->g.cout * c->g.out[0] + od) * c->g.out[1] * c->g.out[2] + row * c->g.out[2];
            if (rows <= 0)
                continue;
            N(pack)(c, b, (const T *)c->x + image * c->g.cin * c->g.in_total, od, row, input);
            gemm->N(pack)(c->g.cout, depth, (td_matrix){y, 1, c->g.out_total}, packed);
            if (few) {
                for (int64_t i = 0; i < c->g.k; i += c->g.kernel[2])
                    gemm->N(packed)(c->g.kernel[2], c->g.cout, depth, 1,
                                    (td_matrix){input + b->offsets[i], c->g.cin * b->pitch, 1}, packed, 1,
                                    transposed + i * c->g.cout, c->g.cout, NULL);
            } else {
                for (int64_t i = 0; i < taps; i++)
                    gemm->N(packed)(c->g.cin, c->g.cout, depth, 1, (td_matrix){input + b->offsets[i], b->pitch, 1},
                                    packed, 1, transposed + i * c->g.cout, taps * c->g.cout, NULL);
            }
        }
    for (int64_t o = 0; o < c->g.cout; o++)
        for (int64_t k = 0; k < c->g.k; k++)
            sum[o * c->g.k + k] = transposed[k * c->g.cout + o];
    td_mem_free(input, bytes);
    return true;
}

/* The same of one channel and one kernel: each kernel element's sum is a dot product, added up in double over the bands. */
static bool N(weigh_plane)(td_conv *c, const bands *b, int64_t from, int64_t to, int64_t group, T *sum)
{
    const size_t numbers = (size_t)(b->total + b->vector) * sizeof(T), bytes = numbers + (size_t)c->g.k * sizeof(double);
    double *sums = td_mem_alloc(bytes);
    T *input = (T *)(sums + c->g.k);
    if (!sums)
        return false;
    memset(sums, 0, (size_t)c->g.k * sizeof(double));
    for (int64_t t = from * c->g.out[0] * b->count; t < to * c->g.out[0] * b->count; t++) {
        const int64_t row = t % b->count * b->rows, od = t / b->count % c->g.out[0], image = t / b->count / c->g.out[0] * c->g.groups + group;
        const int64_t rows = c->g.out[1] - row < b->rows ? c->g.out[1] - row : b->rows;
        if (rows <= 0)
            continue;
        N(pack)(c, b, (const T *)c->x + image * c->g.in_total, od, row, input);
        TD_ISA_PICK(td_conv_table)->N(dots)((const T *)c->y + (image * c->g.out[0] + od) * c->g.out[1] * c->g.out[2] + row * c->g.out[2],
                                            input, b->offsets, c->g.k, rows * c->g.out[2], sums);
    }
    for (int64_t k = 0; k < c->g.k; k++)
        sum[k] = (T)sums[k];
    td_mem_free(sums, bytes);
    return true;
}
