/* The loops of deform.c, included once for T = float and once for T = double.  An image at a time. */

/* The element at (y, x); zero outside. */
static T NAME(at)(const deformed *d, const T *plane, int64_t y, int64_t x)
{
    return y >= 0 && y < d->height && x >= 0 && x < d->width ? plane[y * d->width + x] : 0;
}
static bool NAME(inside)(const deformed *d, T y, T x) { return y > -1 && y < (T)d->height && x > -1 && x < (T)d->width; }

/* The bilinear interpolation of a plane. */
static T NAME(between)(const deformed *d, const T *plane, T y, T x)
{
    if (!NAME(inside)(d, y, x))
        return 0;
    const T top = NAME(floor)(y), left = NAME(floor)(x), v = y - top, h = x - left;
    const int64_t i = (int64_t)top, k = (int64_t)left;
    return (1 - v) * (1 - h) * NAME(at)(d, plane, i, k) + (1 - v) * h * NAME(at)(d, plane, i, k + 1) +
           v * (1 - h) * NAME(at)(d, plane, i + 1, k) + v * h * NAME(at)(d, plane, i + 1, k + 1);
}

/* Where tap `tap` of a window reads, by the offsets of its group. */
static void NAME(place)(const deformed *d, int64_t group, int64_t tap, int64_t row, int64_t column, T *y, T *x)
{
    const int64_t taps = d->kernel[0] * d->kernel[1], area = d->out[0] * d->out[1], at = row * d->out[1] + column;
    const T *offset = (const T *)d->offset + (group * taps + tap) * 2 * area + at;
    *y = (T)(row * d->stride[0] - d->pad[0] + tap / d->kernel[1] * d->dilation[0]) + offset[0];
    *x = (T)(column * d->stride[1] - d->pad[1] + tap % d->kernel[1] * d->dilation[1]) + offset[area];
}

/* Rows [begin, end) of the columns: row c * taps + tap holds what that tap reads of channel c for each place of the result. */
static void NAME(columns)(void *context, int64_t begin, int64_t end)
{
    const deformed *d = context;
    const int64_t taps = d->kernel[0] * d->kernel[1], area = d->out[0] * d->out[1], per_group = d->channels / d->groups;
    for (int64_t i = begin; i < end; i++) {
        const int64_t channel = i / taps, tap = i % taps, group = channel / per_group;
        const T *plane = (const T *)d->image + channel * d->height * d->width;
        const T *mask = d->mask ? (const T *)d->mask + (group * taps + tap) * area : NULL;
        T *to = (T *)d->columns + i * area;
        for (int64_t row = 0; row < d->out[0]; row++) {
            for (int64_t column = 0; column < d->out[1]; column++) {
                T y, x;
                const int64_t at = row * d->out[1] + column;
                NAME(place)(d, group, tap, row, column, &y, &x);
                to[at] = NAME(between)(d, plane, y, x) * (mask ? mask[at] : 1);
            }
        }
    }
}

/* The gradient of the image's channels [begin, end), of the gradient of the columns. */
static void NAME(image_back)(void *context, int64_t begin, int64_t end)
{
    const deformed *d = context;
    const int64_t taps = d->kernel[0] * d->kernel[1], area = d->out[0] * d->out[1], per_group = d->channels / d->groups;
    for (int64_t i = begin * taps; i < end * taps; i++) {
        const int64_t channel = i / taps, tap = i % taps, group = channel / per_group;
        const T *mask = d->mask ? (const T *)d->mask + (group * taps + tap) * area : NULL, *from = (const T *)d->columns + i * area;
        T *plane = (T *)d->grad_image + channel * d->height * d->width;
        for (int64_t at = 0; at < area; at++) {
            T y, x;
            NAME(place)(d, group, tap, at / d->out[1], at % d->out[1], &y, &x);
            if (!NAME(inside)(d, y, x))
                continue;
            const T top = NAME(floor)(y), left = NAME(floor)(x), v = y - top, h = x - left, g = from[at] * (mask ? mask[at] : 1);
            const int64_t i0 = (int64_t)top, k0 = (int64_t)left;
            for (int corner = 0; corner < 4; corner++) {
                const int64_t row = i0 + corner / 2, column = k0 + corner % 2;
                if (row >= 0 && row < d->height && column >= 0 && column < d->width)
                    plane[row * d->width + column] += g * (corner / 2 ? v : 1 - v) * (corner % 2 ? h : 1 - h);
            }
        }
    }
}

/* The gradients of offsets and mask of (group, tap) pairs [begin, end). */
static void NAME(places_back)(void *context, int64_t begin, int64_t end)
{
    const deformed *d = context;
    const int64_t taps = d->kernel[0] * d->kernel[1], area = d->out[0] * d->out[1], per_group = d->channels / d->groups;
    for (int64_t i = begin; i < end; i++) {
        const int64_t group = i / taps, tap = i % taps;
        const T *mask = d->mask ? (const T *)d->mask + i * area : NULL;
        T *grad_y = (T *)d->grad_offset + 2 * i * area, *grad_x = grad_y + area, *grad_mask = d->mask ? (T *)d->grad_mask + i * area : NULL;
        for (int64_t at = 0; at < area; at++) {
            T y, x, by_y = 0, by_x = 0, by_mask = 0;
            NAME(place)(d, group, tap, at / d->out[1], at % d->out[1], &y, &x);
            if (NAME(inside)(d, y, x)) {
                const T top = NAME(floor)(y), left = NAME(floor)(x), v = y - top, h = x - left;
                const int64_t r = (int64_t)top, c = (int64_t)left;
                for (int64_t channel = group * per_group; channel < (group + 1) * per_group; channel++) {
                    const T *plane = (const T *)d->image + channel * d->height * d->width;
                    const T g = ((const T *)d->columns)[(channel * taps + tap) * area + at];
                    const T a = NAME(at)(d, plane, r, c), b = NAME(at)(d, plane, r, c + 1), e = NAME(at)(d, plane, r + 1, c),
                            f = NAME(at)(d, plane, r + 1, c + 1);
                    by_y += g * ((1 - h) * (e - a) + h * (f - b));
                    by_x += g * ((1 - v) * (b - a) + v * (f - e));
                    by_mask += g * ((1 - v) * ((1 - h) * a + h * b) + v * ((1 - h) * e + h * f));
                }
            }
            grad_y[at] = by_y * (mask ? mask[at] : 1), grad_x[at] = by_x * (mask ? mask[at] : 1);
            if (grad_mask)
                grad_mask[at] = by_mask;
        }
    }
}

#undef T
#undef NAME
