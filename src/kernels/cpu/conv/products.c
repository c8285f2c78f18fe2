/* Convolutions that are matrix products as their operands lie.
 *
 *     a kernel that meets the whole image     one position: images are rows, which kernels are multiplied with
 *     one row of one channel, a long kernel    column p begins p steps further: a matrix whose columns overlap
 *
 * And those of small images with many weights: one image has too few positions for a product that is worth reading all weights
 * for, so columns of many images lie side by side. */
#include "base/base.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/gemm/gemm.h"

/* Columns of many images at most, unless one image has more; positions up to which they pay; kernel
 * elements from which a row is worth a product with overlapping columns. */
enum { COLUMNS_BYTES = 8 << 20, SMALL_IMAGE = 256, LONG_KERNEL = 32 };

/* The kernel covers the image exactly: its one patch is the image as it lies, channels and all. */
bool td_conv_is_whole(const td_conv *c)
{
    bool whole = c->g.out_total == 1 && c->g.k > 0;
    for (int i = 0; i < 3; i++)
        whole = whole && c->g.padding[i] == 0 && c->g.in[i] == c->g.kernel[i] && (c->g.kernel[i] == 1 || c->g.dilation[i] == 1);
    return whole;
}

bool td_conv_is_product(const td_conv *c)
{
    const bool row = c->g.cin == 1 && c->g.in[0] * c->g.in[1] * c->g.kernel[0] * c->g.kernel[1] == 1 && c->g.padding[0] + c->g.padding[1] + c->g.padding[2] == 0;
    return td_conv_is_whole(c) || (row && c->g.stride[2] > 1 && c->g.kernel[2] >= LONG_KERNEL && c->g.out_total > 1);
}

/* [batch][k] x [k][cout]: images are rows `groups * k` apart, kernels are read as columns, and c's rows are y's images. */
static int product_whole(td_conv *c, int64_t g)
{
    const td_matrix x = {td_conv_x(c, 0, g), c->g.groups * c->g.k, 1}, w = {td_conv_w(c, g), 1, c->g.k};
    char *y = td_conv_y(c, 0, g);
    const char *bias = c->bias ? c->bias + g * c->g.cout * (c->dtype == TD_BF16 ? (int64_t)sizeof(float) : c->size) : NULL;
    if (c->dtype == TD_F32 || c->dtype == TD_F64 || c->dtype == TD_BF16)
        return td_gemm_bias(c->dtype, c->g.batch, c->g.cout, c->g.k, x, w, bias, y, c->g.groups * c->g.cout);
    if (td_gemm_strided(c->dtype, c->g.batch, c->g.cout, c->g.k, td_int(1), x, w, td_int(0), y, c->g.groups * c->g.cout))
        return -1;
    for (int64_t n = 0; n < c->g.batch; n++)
        td_conv_add_bias(c, g, c->g.cout, td_conv_y(c, n, g), 1, 1);
    return 0;
}

/* [cout][k] x [k][positions] per image: a step along k is the dilation, one along positions the stride, so columns share memory. */
static int product_row(td_conv *c, int64_t g)
{
    const td_matrix w = {td_conv_w(c, g), c->g.k, 1}, x = {td_conv_x(c, 0, g), c->g.dilation[2], c->g.stride[2]};
    if (td_gemm_batched(c->dtype, c->g.batch, c->g.cout, c->g.out_total, c->g.k, td_int(1), w, 0, x, c->g.groups * c->g.in_total, td_int(0),
                        td_conv_y(c, 0, g), c->g.out_total, c->g.groups * c->g.cout * c->g.out_total))
        return -1;
    for (int64_t n = 0; n < c->g.batch; n++)
        td_conv_add_bias(c, g, c->g.cout, td_conv_y(c, n, g), c->g.out_total, c->g.out_total);
    return 0;
}

int td_conv_product(td_conv *c)
{
    for (int64_t g = 0; g < c->g.groups; g++)
        if (td_conv_is_whole(c) ? product_whole(c, g) : product_row(c, g))
            return -1;
    return 0;
}

/* The input's gradient of the first kind: [batch][cout] x [cout][k]. */
int td_conv_spread_whole(td_conv *c)
{
    for (int64_t g = 0; g < c->g.groups; g++) {
        const td_matrix y = {td_conv_y(c, 0, g), c->g.groups * c->g.cout, 1}, w = {td_conv_w(c, g), c->g.k, 1};
        if (td_gemm_strided(c->dtype, c->g.batch, c->g.k, c->g.cout, td_int(1), y, w, td_int(0), td_conv_x(c, 0, g), c->g.groups * c->g.k))
            return -1;
        for (int64_t n = 0; n < c->g.batch; n++)
            td_conv_add_bias(c, g, c->g.cin, td_conv_x(c, n, g), c->g.in_total, c->g.in_total);
    }
    return 0;
}

/* The weights' gradient: one product over the batch, or one per image that adds to the sum of those before. */
int td_conv_weigh_product(td_conv *c)
{
    for (int64_t g = 0; g < c->g.groups; g++) {
        char *w = td_conv_w(c, g);
        if (td_conv_is_whole(c)) {
            const td_matrix y = {td_conv_y(c, 0, g), 1, c->g.groups * c->g.cout}, x = {td_conv_x(c, 0, g), c->g.groups * c->g.k, 1};
            if (td_gemm_strided(c->dtype, c->g.cout, c->g.k, c->g.batch, td_int(1), y, x, td_int(0), w, c->g.k))
                return -1;
            continue;
        }
        if (c->g.batch == 0)
            memset(w, 0, (size_t)(c->g.cout * c->g.k * c->size));
        for (int64_t n = 0; n < c->g.batch; n++) {
            const td_matrix y = {td_conv_y(c, n, g), c->g.out_total, 1}, x = {td_conv_x(c, n, g), c->g.stride[2], c->g.dilation[2]};
            if (td_gemm_strided(c->dtype, c->g.cout, c->g.k, c->g.out_total, td_int(1), y, x, td_int(n > 0), w, c->g.k))
                return -1;
        }
    }
    return 0;
}

bool td_conv_has_columns(const td_conv *c, int64_t weights)
{
    return c->g.batch > 0 && c->g.out_total > 0 && c->g.out_total <= SMALL_IMAGE && c->g.cout * c->g.k >= weights;
}

/* y = w columns, columns = w' y, or w = y columns'. */
typedef enum pass { CORRELATE, SPREAD, WEIGH } pass;

/* Images [image, image + count) of a group: [k] and [cout] rows of `length` numbers, one image's positions after the other's. */
typedef struct side_by_side {
    const td_conv *c;
    int64_t image, group, count, length;
    pass pass;
    char *columns, *y;
} side_by_side;

static void lay_out(void *context, int64_t first, int64_t last)
{
    const side_by_side *s = context;
    const td_conv *c = s->c;
    const int64_t row = c->g.out_total * c->size;
    for (int64_t i = first; i < last; i++) {
        if (s->pass != SPREAD)
            td_conv_gather(c, td_conv_x(c, s->image + i, s->group), 0, c->g.out_total, s->columns + i * row, s->length);
        for (int64_t o = 0; s->pass != CORRELATE && o < c->g.cout; o++)
            memcpy(s->y + o * s->length * c->size + i * row, td_conv_y(c, s->image + i, s->group) + o * row, (size_t)row);
    }
}

static void take_out(void *context, int64_t first, int64_t last)
{
    const side_by_side *s = context;
    const td_conv *c = s->c;
    const int64_t row = c->g.out_total * c->size;
    for (int64_t i = first; i < last; i++) {
        if (s->pass == SPREAD) {
            char *x = td_conv_x(c, s->image + i, s->group);
            memset(x, 0, (size_t)(c->g.cin * c->g.in_total * c->size));
            td_conv_scatter(c, x, 0, c->g.out_total, s->columns + i * row, s->length);
            td_conv_add_bias(c, s->group, c->g.cin, x, c->g.in_total, c->g.in_total);
            continue;
        }
        char *y = td_conv_y(c, s->image + i, s->group);
        for (int64_t o = 0; o < c->g.cout; o++)
            memcpy(y + o * row, s->y + o * s->length * c->size + i * row, (size_t)row);
        td_conv_add_bias(c, s->group, c->g.cout, y, c->g.out_total, c->g.out_total);
    }
}

/* For as many images at a time as COLUMNS_BYTES hold.  The product shares its work between threads itself, so it is called from here, not
 * from a task. */
static int by_columns(td_conv *c, pass pass)
{
    const int64_t image = (c->g.k + c->g.cout) * c->g.out_total * c->size, grain = td_grain(c->g.k * c->g.out_total);
    const int64_t most = COLUMNS_BYTES / image > 0 ? COLUMNS_BYTES / image : 1, together = most < c->g.batch ? most : c->g.batch;
    const size_t bytes = (size_t)(together * image);
    char *columns = td_mem_alloc(bytes);
    int status = columns ? 0 : -1;
    for (int64_t g = 0; g < c->g.groups && !status; g++)
        for (int64_t n = 0; n < c->g.batch && !status; n += together) {
            const int64_t count = c->g.batch - n < together ? c->g.batch - n : together, length = count * c->g.out_total;
            side_by_side s = {c, n, g, count, length, pass, columns, columns + c->g.k * length * c->size};
            const td_matrix y = {s.y, length, 1}, w = {td_conv_w(c, g), c->g.k, 1}, x = {columns, length, 1};
            const td_matrix w_transposed = {w.data, 1, c->g.k}, x_transposed = {columns, 1, length};
            td_parallel_for(0, count, grain, lay_out, &s);
            status = pass == WEIGH ? td_gemm_strided(c->dtype, c->g.cout, c->g.k, length, td_int(1), y, x_transposed, td_int(n > 0), td_conv_w(c, g), c->g.k)
                : pass == SPREAD ? td_gemm_strided(c->dtype, c->g.k, length, c->g.cout, td_int(1), w_transposed, y, td_int(0), columns, length)
                : td_gemm_strided(c->dtype, c->g.cout, length, c->g.k, td_int(1), w, x, td_int(0), s.y, length);
            if (pass != WEIGH && !status)
                td_parallel_for(0, count, grain, take_out, &s);
        }
    td_mem_free(columns, bytes);
    return status;
}

int td_conv_columns(td_conv *c) { return by_columns(c, CORRELATE); }
int td_conv_spread_columns(td_conv *c) { return by_columns(c, SPREAD); }
int td_conv_weigh_columns(td_conv *c) { return by_columns(c, WEIGH); }
