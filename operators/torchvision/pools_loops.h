/* The loops of pools.c, included once for T = float and once for T = double. */
#define SAMPLE NAME(sample)
#define AXIS   NAME(axis)

typedef struct SAMPLE { int64_t low, high; T above, below; } SAMPLE;     /* weights of `high` and of `low` */

/* The samples of one axis that lie in the plane, bin after bin: those of bin i begin at first[i]. */
typedef struct AXIS {
    SAMPLE *samples;
    int64_t      *first, room;
    T             grid;
} AXIS;

/* A box's extent along an axis in the plane, and how many samples there are in a bin. */
static void NAME(extent)(const pooling *p, T from, T to, int64_t bins, T *start, T *size, T *grid)
{
    *start = from * (T)p->scale - (T)p->shift;
    *size = to * (T)p->scale - (T)p->shift - *start;
    if (p->at_least_one && *size < 1)
        *size = 1;
    *size /= (T)bins;
    *grid = p->sampling > 0 ? (T)p->sampling : ceil(*size);
}

static int NAME(axis_of)(const pooling *p, T from, T to, int64_t bins, int64_t length, AXIS *a)
{
    T start, size;
    int64_t count = 0;
    NAME(extent)(p, from, to, bins, &start, &size, &a->grid);
    const int64_t per_bin = a->grid > 0 && a->grid < INT32_MAX && length ? (int64_t)a->grid : 0;
    for (int64_t b = 0; b < bins; b++) {
        int64_t i, end;
        a->first[b] = count;
        reached((double)start + (double)b * size, (double)size / (double)per_bin, per_bin, length, &i, &end);
        for (; i < end; i++) {
            T at = start + (T)b * size + ((T)i + (T).5) * size / (T)per_bin;
            if (!(at >= -1 && at <= (T)length))
                continue;
            if (count == a->room) {
                void *more = realloc(a->samples, sizeof *a->samples * (size_t)(2 * a->room + 64));
                if (!more)
                    return -1;
                a->samples = more, a->room = 2 * a->room + 64;
            }
            at = at < 0 ? 0 : at;
            int64_t low = (int64_t)at, high = low + 1;
            if (low >= length - 1)
                low = high = length - 1, at = (T)low;
            a->samples[count++] = (SAMPLE){low, high, at - (T)low, 1 - (at - (T)low)};
        }
    }
    a->first[bins] = count;
    return 0;
}

/* Both axes of box i; false without memory. */
static bool NAME(axes_of)(const pooling *p, int64_t i, AXIS *y, AXIS *x)
{
    const T *box = (const T *)p->rois + 5 * i;
    if (!y->first)
        y->first = malloc(sizeof *y->first * (size_t)(p->rows + 1)), x->first = malloc(sizeof *x->first * (size_t)(p->columns + 1));
    return y->first && x->first && NAME(axis_of)(p, box[2], box[4], p->rows, p->height, y) == 0 &&
           NAME(axis_of)(p, box[1], box[3], p->columns, p->width, x) == 0;
}
static void NAME(drop_axes)(AXIS *y, AXIS *x)
{
    free(y->samples), free(y->first), free(x->samples), free(x->first);
}
static T NAME(samples_in_bin)(const pooling *p, const AXIS *y, const AXIS *x)
{
    const T count = y->grid * x->grid;
    return p->at_least_one_sample && !(count > 1) ? 1 : count;
}
static const T *NAME(plane_of)(const pooling *p, int64_t roi, int64_t channel)
{
    const int64_t image = (int64_t)((const T *)p->rois)[5 * roi];
    return (const T *)p->planes + (image * p->channels + channel) * p->height * p->width;
}
/* The channel that a bin of result channel c is pooled from. */
static int64_t NAME(channel_of)(const pooling *p, int64_t c, int64_t row, int64_t column)
{
    return p->by_position ? (c * p->rows + row) * p->columns + column : c;
}

/* Averages of samples between elements, for boxes [begin, end). */
static void NAME(align)(void *context, int64_t begin, int64_t end)
{
    pooling *p = context;
    AXIS y = {0}, x = {0};
    const int64_t bins = p->rows * p->columns;
    for (int64_t i = begin; i < end; i++) {
        if (!NAME(axes_of)(p, i, &y, &x)) {
            __atomic_store_n(&p->failed, true, __ATOMIC_RELAXED);
            break;
        }
        const T count = NAME(samples_in_bin)(p, &y, &x);
        for (int64_t c = 0; c < p->pooled; c++) {
            for (int64_t bin = 0; bin < bins; bin++) {
                const int64_t row = bin / p->columns, column = bin % p->columns, at = (i * p->pooled + c) * bins + bin;
                const int64_t channel = NAME(channel_of)(p, c, row, column);
                const T *plane = NAME(plane_of)(p, i, channel);
                T sum = 0;
                for (const SAMPLE *s = y.samples + y.first[row]; s < y.samples + y.first[row + 1]; s++) {
                    const T *low = plane + s->low * p->width, *high = plane + s->high * p->width;
                    for (const SAMPLE *t = x.samples + x.first[column]; t < x.samples + x.first[column + 1]; t++)
                        sum += s->below * t->below * low[t->low] + s->below * t->above * low[t->high] + s->above * t->below * high[t->low] +
                               s->above * t->above * high[t->high];
                }
                ((T *)p->out)[at] = sum / count;
                if (p->by_position)
                    p->places[at] = (int32_t)channel;
            }
        }
    }
    NAME(drop_axes)(&y, &x);
}

/* The gradient of planes [begin, end) of each image: no two threads write to one. */
static void NAME(align_back)(void *context, int64_t begin, int64_t end)
{
    pooling *p = context;
    AXIS y = {0}, x = {0};
    const int64_t bins = p->rows * p->columns;
    for (int64_t i = 0; i < p->boxes; i++) {
        if (!NAME(axes_of)(p, i, &y, &x)) {
            __atomic_store_n(&p->failed, true, __ATOMIC_RELAXED);
            break;
        }
        const T count = NAME(samples_in_bin)(p, &y, &x);
        for (int64_t channel = begin; channel < end; channel++) {
            T *plane = (T *)NAME(plane_of)(p, i, channel);
            const int64_t c = p->by_position ? channel / bins : channel;
            for (int64_t bin = p->by_position ? channel % bins : 0; bin < bins; bin += p->by_position ? bins : 1) {
                const int64_t row = bin / p->columns, column = bin % p->columns;
                const T g = ((const T *)p->grad)[(i * p->pooled + c) * bins + bin];
                for (const SAMPLE *s = y.samples + y.first[row]; s < y.samples + y.first[row + 1]; s++) {
                    T *low = plane + s->low * p->width, *high = plane + s->high * p->width;
                    for (const SAMPLE *t = x.samples + x.first[column]; t < x.samples + x.first[column + 1]; t++) {
                        low[t->low] += g * (s->below * t->below) / count;
                        low[t->high] += g * (s->below * t->above) / count;
                        high[t->low] += g * (s->above * t->below) / count;
                        high[t->high] += g * (s->above * t->above) / count;
                    }
                }
            }
        }
    }
    NAME(drop_axes)(&y, &x);
}

/* ---- roi_pool and ps_roi_pool: bins of whole elements */

static int64_t NAME(whole)(T x, int64_t most)
{
    return x > 0 ? x < (T)most ? (int64_t)x : most : 0;       /* a NaN is 0 */
}

/* The elements [*begin, *end) of a bin along an axis. */
static void NAME(span)(const pooling *p, T from, T to, int64_t bins, int64_t bin, int64_t length, int64_t *begin, int64_t *end)
{
    const T start = round(from * (T)p->scale), last = round(to * (T)p->scale);
    T size = p->by_position ? last - start : last - start + 1;
    size = (size > 1 ? size : 1) / (T)bins;
    /* The last row and column of the plane are in no bin of ps_roi_pool, as in torchvision. */
    const int64_t most = p->by_position && length ? length - 1 : length;
    *begin = NAME(whole)(floor((T)bin * size) + start, most);
    *end = NAME(whole)(ceil((T)(bin + 1) * size) + start, most);
}

static void NAME(pool)(void *context, int64_t begin, int64_t end)
{
    pooling *p = context;
    const int64_t bins = p->rows * p->columns;
    for (int64_t i = begin; i < end; i++) {
        const T *box = (const T *)p->rois + 5 * i;
        for (int64_t bin = 0; bin < bins; bin++) {
            int64_t top, bottom, left, right;
            const int64_t row = bin / p->columns, column = bin % p->columns;
            NAME(span)(p, box[2], box[4], p->rows, row, p->height, &top, &bottom);
            NAME(span)(p, box[1], box[3], p->columns, column, p->width, &left, &right);
            const bool empty = bottom <= top || right <= left;
            for (int64_t c = 0; c < p->pooled; c++) {
                const int64_t at = (i * p->pooled + c) * bins + bin, channel = NAME(channel_of)(p, c, row, column);
                const T *plane = NAME(plane_of)(p, i, channel);
                T sum = 0, most = empty ? 0 : LEAST;
                int64_t place = -1;
                for (int64_t h = top; h < bottom; h++) {
                    for (int64_t w = left; w < right; w++) {
                        const T value = plane[h * p->width + w];
                        sum += value;
                        if (value > most)
                            most = value, place = h * p->width + w;
                    }
                }
                ((T *)p->out)[at] = !p->by_position ? most : empty ? 0 : sum / (T)((bottom - top) * (right - left));
                p->places[at] = (int32_t)(p->by_position ? channel : place);
            }
        }
    }
}

static void NAME(pool_back)(void *context, int64_t begin, int64_t end)
{
    pooling *p = context;
    const int64_t bins = p->rows * p->columns, area = p->height * p->width;
    for (int64_t i = 0; i < p->boxes; i++) {
        const T *box = (const T *)p->rois + 5 * i;
        for (int64_t channel = begin; channel < end; channel++) {
            T *plane = (T *)NAME(plane_of)(p, i, channel);
            for (int64_t bin = p->by_position ? channel % bins : 0; bin < bins; bin += p->by_position ? bins : 1) {
                const int64_t at = (i * p->pooled + (p->by_position ? channel / bins : channel)) * bins + bin;
                const T g = ((const T *)p->grad)[at];
                if (!p->by_position) {
                    if (p->places[at] >= 0 && p->places[at] < area)
                        plane[p->places[at]] += g;
                    continue;
                }
                int64_t top, bottom, left, right;
                NAME(span)(p, box[2], box[4], p->rows, bin / p->columns, p->height, &top, &bottom);
                NAME(span)(p, box[1], box[3], p->columns, bin % p->columns, p->width, &left, &right);
                for (int64_t h = top; h < bottom; h++)
                    for (int64_t w = left; w < right; w++)
                        plane[h * p->width + w] += g / (T)((bottom - top) * (right - left));
            }
        }
    }
}

#undef T
#undef NAME
#undef LEAST
#undef SAMPLE
#undef AXIS
