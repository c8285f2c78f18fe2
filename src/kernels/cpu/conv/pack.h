/* Packing the input for panels.c, for a T named S: rows of the packed copies, with zeros where the padding is.
 *
 * Each number is read once per kernel column and kernel plane, and written once for each; in steps of 1 and 2 whole vectors are read and
 * masked, as long as that stays inside of the input's memory, else rows go one by one through pack_row(). */

/* One row of a packed copy. */
static void N(pack_row)(const T *from, int64_t step, int64_t low, int64_t high, int64_t width, T *to)
{
    for (int64_t o = 0; o < low; o++)
        to[o] = 0;
    if (step == 1)
        memcpy(to + low, from + low, (size_t)(high - low) * sizeof(T));
    else
        TD_ISA_PICK(td_conv_table)->N(every)(from + low * step, step, high - low, to + low);
    for (int64_t o = high; o < width; o++)
        to[o] = 0;
}

/* The packed copies of output rows [row, row + b->rows) of plane od; x: the channels of one image and group. */
static void N(pack)(const td_conv *c, const bands *b, const T *x, int64_t od, int64_t row, T *to)
{
    const int64_t width = b->width, step = c->g.stride[2], down = c->g.stride[1] * c->g.in[2];
    /* Where whole vectors can be read. */
    const T *begin = (const T *)c->x, *end = begin + c->g.batch * c->g.groups * c->g.cin * c->g.in_total - step * (width + b->vector);
    for (int64_t kw = 0; kw < b->copies; kw++) {
        const int64_t offset = kw * c->g.dilation[2] - c->g.padding[2], left = c->g.in[2] - offset;
        int64_t low = offset < 0 ? td_ceil_div(-offset, step) : 0, high = left > 0 ? td_ceil_div(left, step) : 0;
        low = low < width ? low : width, high = high < low ? low : high < width ? high : width;
        for (int64_t ch = 0; ch < c->g.cin; ch++)
            for (int64_t kd = 0; kd < c->g.kernel[0]; kd++)
                for (int64_t i = 0; i < b->phases; i++, to += b->lines * width) {
                    const int64_t id = od * c->g.stride[0] - c->g.padding[0] + kd * c->g.dilation[0];
                    const int64_t top = row * c->g.stride[1] - c->g.padding[1] + b->phase[i];
                    /* Lines [first, last) are inside. */
                    int64_t first = top < 0 ? td_ceil_div(-top, c->g.stride[1]) : 0;
                    int64_t last = top < c->g.in[1] ? (c->g.in[1] - 1 - top) / c->g.stride[1] + 1 : 0;
                    first = id < 0 || id >= c->g.in[0] || first > b->lines ? b->lines : first;
                    last = last < first ? first : last < b->lines ? last : b->lines;
                    memset(to, 0, (size_t)(first * width) * sizeof(T));
                    const T *from = x + ((ch * c->g.in[0] + id) * c->g.in[1] + top) * c->g.in[2] + offset;
                    int64_t r = first;
                    for (; r < last && (step > 2 || from + r * down < begin); r++)
                        N(pack_row)(from + r * down, step, low, high, width, to + r * width);
                    int64_t stop = last;
                    while (stop > r && from + (stop - 1) * down > end)
                        stop--;
                    if (stop > r)
                        (step == 1 ? TD_ISA_PICK(td_conv_table)->N(rows) : TD_ISA_PICK(td_conv_table)->N(rows_of_evens))(
                            from + r * down, down, stop - r, low, high, width, to + r * width);
                    for (r = stop > r ? stop : r; r < last; r++)
                        N(pack_row)(from + r * down, step, low, high, width, to + r * width);
                    memset(to + last * width, 0, (size_t)((b->lines - last) * width) * sizeof(T));
                }
    }
}
