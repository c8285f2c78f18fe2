/* Convolution with 3 x 3 kernels in steps of 1, four results from 16 multiplications instead of 36.
 *
 * After Winograd (1980) and Lavin and Gray (2016), F(2 x 2, 3 x 3): tiles of 4 x 4 inputs, two apart, and the kernels are
 * transformed by sums and differences; there, each of 16 numbers of a tile's result is the sum over channels of a product, so
 * there are 16 matrix products; and back.  Transformed tiles of a band of rows stay in the second cache.
 *
 * A result depends on the inputs that it depends on by definition, no others, with a rounding error two to three times as
 * large as by summing up.  Sums of infinite numbers would be no numbers, though, and very large ones overflow: such operands
 * aren't taken.  Larger tiles would save more and lose more digits. */
#include "base/base.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/winograd.h"
#include <tede/modes.h>

/* Transformed tiles of a band; what is worth the effort: channels, and tiles, which are the width of a product. */
enum { BAND_BYTES = 960 << 10, CHANNELS = 16, TILES = 64, LANES = TD_WINOGRAD_LANES };

static const uint32_t LARGE = (127 + 60) << 23;        /* the bits of 2 to the 60 */

typedef struct job {
    td_conv *c;
    float *kernels;                 /* [group][16][out][in] */
    int64_t across, down;           /* tiles of an image */
    int64_t rows, bands;            /* rows of tiles per band */
} job;

static int64_t whole_lanes(int64_t n) { return td_ceil_div(n, LANES) * LANES; }

static const td_winograd_table *kernels(void)
{
    return TD_ISA_PICK(td_winograd_table);
}

bool td_winograd_takes(const td_conv *c)
{
    bool shape = c->dtype == TD_F32 && c->cin >= CHANNELS && c->cout >= CHANNELS && c->in[0] == 1 && c->out[0] == 1;
    shape = shape && c->kernel[0] == 1 && c->pad[0] == 0 && c->kernel[1] == 3 && c->kernel[2] == 3;
    for (int i = 0; i < 3; i++)
        shape = shape && c->stride[i] == 1 && c->dilation[i] == 1 && c->pad[i] >= 0;
    /* The operands' sizes are a matter of the whole batch. */
    return shape && !td_batch_invariant() && ((c->out[1] + 1) / 2) * ((c->out[2] + 1) / 2) >= TILES &&
           kernels()->magnitude((const float *)c->x, c->batch * c->groups * c->cin * c->in_total) < LARGE &&
           kernels()->magnitude((const float *)c->w, c->groups * c->cout * c->k) < LARGE;
}

/* G g G' for all kernels. */
static void transform(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    const td_conv *c = j->c;
    const int64_t plane = c->cout * c->cin;
    for (int64_t t = first; t < last; t++) {        /* (group, output channel) */
        const float *g = (const float *)c->w + t * c->cin * 9;
        float *to = j->kernels + t / c->cout * 16 * plane + t % c->cout * c->cin;
        for (int64_t i = 0; i < c->cin; i++, g += 9) {
            float s[4][3];
            for (int x = 0; x < 3; x++) {
                s[0][x] = g[x], s[3][x] = g[6 + x];
                s[1][x] = (g[x] + g[6 + x] + g[3 + x]) / 2, s[2][x] = (g[x] + g[6 + x] - g[3 + x]) / 2;
            }
            for (int y = 0; y < 4; y++) {
                const float sum = s[y][0] + s[y][2];
                to[(4 * y) * plane + i] = s[y][0], to[(4 * y + 3) * plane + i] = s[y][2];
                to[(4 * y + 1) * plane + i] = (sum + s[y][1]) / 2, to[(4 * y + 2) * plane + i] = (sum - s[y][1]) / 2;
            }
        }
    }
}

/* The lines that `rows` rows of tiles from `top` on see of one channel, even and odd numbers apart, with zeros around. */
static void draw(const job *j, const float *x, int64_t top, int64_t rows, float *lines)
{
    const td_conv *c = j->c;
    const int64_t count = j->across + 1, width = c->in[2], left = c->pad[2];
    void (*split)(const float *x, int64_t n, float *even, float *odd) = kernels()->split;
    /* Pairs of numbers that are both there are [low, high), at most one that is half there on either side. */
    const int64_t begin = (left + 1) / 2, low = begin < count ? begin : count;
    const int64_t end = (width + left) / 2, high = end > count ? count : end < low ? low : end;
    for (int64_t i = 0; i < 2 * rows + 2; i++, lines += 2 * count) {
        const int64_t row = 2 * top + i - c->pad[1];
        if (row < 0 || row >= c->in[1]) {
            memset(lines, 0, (size_t)(2 * count) * sizeof(float));
            continue;
        }
        const float *from = x + row * width - left;
        float *even = lines, *odd = lines + count;
        for (int64_t q = 0; q < low; q++)
            even[q] = odd[q] = 0;
        for (int64_t q = high; q < count; q++)
            even[q] = odd[q] = 0;
        if (left % 2 && begin <= count)
            odd[begin - 1] = from[left];
        if ((width + left) % 2 && end < count)
            even[end] = from[left + width - 1];
        split(from + 2 * low, high - low, even + low, odd + low);
    }
}

/* Tasks: (image, group, band). */
static void bands(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    td_conv *c = j->c;
    const td_winograd_table *table = kernels();
    const int64_t width = 2 * (j->across + 1), most = whole_lanes(j->rows * j->across);
    /* Rows of tiles have room behind them; they and planes don't fall on each other in the first cache. */
    const int64_t pitch = (most + LANES) % 64 ? most + LANES : most + 2 * LANES;
    const int64_t plane = c->cin * pitch + LANES, plane_out = c->cout * pitch + LANES;
    const size_t bytes = (size_t)(16 * (plane + plane_out) + (2 * j->rows + 4) * (width + 2 * LANES)) * sizeof(float);
    float *tiles = td_mem_alloc(bytes), *sums = tiles + 16 * plane, *lines = sums + 16 * plane_out;
    if (!tiles) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    memset(lines, 0, bytes - (size_t)(lines - tiles) * sizeof(float));
    for (int64_t t = first; t < last; t++) {
        const int64_t image = t / j->bands, group = image % c->groups, top = t % j->bands * j->rows;
        const int64_t rows = j->down - top < j->rows ? j->down - top : j->rows, n = whole_lanes(rows * j->across);
        const float *x = (const float *)c->x + image * c->cin * c->in_total;
        const float *bias = c->bias ? (const float *)c->bias + group * c->cout : NULL;
        float *y = (float *)c->y + image * c->cout * c->out_total;
        for (int64_t i = 0; i < c->cin; i++, x += c->in_total) {
            draw(j, x, top, rows, lines);
            for (int64_t r = 0; r < rows; r++)
                table->input(lines + 2 * r * width, width, j->across, tiles + i * pitch + r * j->across, plane);
        }
        for (int64_t i = 0; i < 16; i++)
            TD_ISA_PICK(td_gemm_table)->f32(c->cout, n, c->cin, 1,
                                            (td_matrix){j->kernels + (group * 16 + i) * c->cout * c->cin, c->cin, 1},
                                            (td_matrix){tiles + i * plane, pitch, 1}, 0, sums + i * plane_out, pitch, NULL);
        for (int64_t o = 0; o < c->cout; o++, y += c->out_total)
            for (int64_t r = 0; r < rows; r++) {
                const int64_t row = 2 * (top + r), step = width + 2 * LANES;
                table->output(sums + o * pitch + r * j->across, plane_out, j->across, bias ? bias[o] : 0, lines, lines + step);
                for (int64_t i = 0; i < 2 && row + i < c->out[1]; i++)
                    memcpy(y + (row + i) * c->out[2], lines + i * step, (size_t)c->out[2] * sizeof(float));
            }
    }
    td_mem_free(tiles, bytes);
}

void td_winograd(td_conv *c)
{
    job j = {.c = c, .across = (c->out[2] + 1) / 2, .down = (c->out[1] + 1) / 2};
    const int64_t row = 16 * (c->cin + c->cout) * j.across * (int64_t)sizeof(float);
    int64_t rows = BAND_BYTES / row, least = td_ceil_div(TILES, j.across);
    rows = rows < least ? least : rows;
    j.bands = td_ceil_div(j.down, rows), j.rows = td_ceil_div(j.down, j.bands), j.bands = td_ceil_div(j.down, j.rows);
    const size_t bytes = (size_t)(16 * c->groups * c->cout * c->cin) * sizeof(float);
    j.kernels = td_mem_alloc(bytes);
    if (!j.kernels) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    td_parallel_for(0, c->groups * c->cout, td_grain(c->cin * 64), transform, &j);
    td_parallel_for(0, c->batch * c->groups * j.bands, 1, bands, &j);
    td_mem_free(j.kernels, bytes);
}
