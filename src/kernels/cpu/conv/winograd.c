/* Convolution with 3 x 3 kernels in steps of 1, four results from 16 multiplications instead of 36.
 *
 * After Winograd (1980) and Lavin and Gray (2016), F(2 x 2, 3 x 3): tiles of 4 x 4 inputs, two apart, and the kernels are
 * transformed by sums and differences; there, each of 16 numbers of a tile's result is the sum over channels of a product, so
 * there are 16 matrix products; and back.  Transformed tiles of a band of rows stay in the second cache.
 *
 * 36 multiplications become 16, 2.25 times fewer; the transformations cost additions and a pass through memory, which many channels
 * pay for (CHANNELS): an input tile is transformed once for all output channels, a result once for all input channels.
 *
 * A result depends on the inputs that it depends on by definition, no others, with a rounding error two to three times as
 * large as by summing up.  Sums of infinite numbers would be no numbers, though, and very large ones overflow: such operands
 * aren't taken.  Larger tiles would save more and lose more digits. */
#include "base/base.h"
#include "kernels/cpu/conv/winograd.h"
#include "kernels/cpu/gemm/gemm.h"
#include <tede/modes.h>

/* Transformed tiles of a band; what is worth the effort: channels, and tiles, which are the width of a product. */
enum { BAND_BYTES = 960 << 10, CHANNELS = 16, TILES = 48, LANES = TD_WINOGRAD_LANES };

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

/* What shape and operand are taken; the second operand's magnitude is up to the caller.  One NaN or infinity refuses the whole batch. */
static bool fits(const td_conv *c)
{
    bool shape = c->dtype == TD_F32 && c->g.cin >= CHANNELS && c->g.cout >= CHANNELS && c->g.in[0] == 1 && c->g.out[0] == 1;
    shape = shape && c->g.kernel[0] == 1 && c->g.padding[0] == 0 && c->g.kernel[1] == 3 && c->g.kernel[2] == 3;
    for (int i = 0; i < 3; i++)
        shape = shape && c->g.stride[i] == 1 && c->g.dilation[i] == 1 && c->g.padding[i] >= 0;
    /* The operands' sizes are a matter of the whole batch. */
    return shape && !td_batch_invariant() && ((c->g.out[1] + 1) / 2) * ((c->g.out[2] + 1) / 2) >= TILES &&
           kernels()->magnitude((const float *)c->x, c->g.batch * c->g.groups * c->g.cin * c->g.in_total) < LARGE;
}

bool td_winograd_takes(const td_conv *c)
{
    return fits(c) && kernels()->magnitude((const float *)c->w, c->g.groups * c->g.cout * c->g.k) < LARGE;
}

bool td_winograd_weighs(const td_conv *c)
{
    return fits(c) && kernels()->magnitude((const float *)c->y, c->g.batch * c->g.groups * c->g.cout * c->g.out_total) < LARGE;
}

/* G g G' for all kernels. */
static void transform(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    const td_conv *c = j->c;
    const int64_t plane = c->g.cout * c->g.cin;
    for (int64_t t = first; t < last; t++) {        /* (group, output channel) */
        const float *g = (const float *)c->w + t * c->g.cin * 9;
        kernels()->kernel(g, c->g.cin, j->kernels + t / c->g.cout * 16 * plane + t % c->g.cout * c->g.cin, plane);
    }
}

/* The lines that `rows` rows of tiles from `top` on see of one channel, even and odd numbers apart, with zeros around. */
static void pack_lines(const job *j, const float *x, int64_t top, int64_t rows, float *lines)
{
    const td_conv *c = j->c;
    const int64_t count = j->across + 1, width = c->g.in[2], left = c->g.padding[2];
    void (*split)(const float *x, int64_t n, float *even, float *odd) = kernels()->split;
    /* Pairs of numbers that are both there are [low, high), at most one that is half there on either side. */
    const int64_t begin = (left + 1) / 2, low = begin < count ? begin : count;
    const int64_t end = (width + left) / 2, high = end > count ? count : end < low ? low : end;
    for (int64_t i = 0; i < 2 * rows + 2; i++, lines += 2 * count) {
        const int64_t row = 2 * top + i - c->g.padding[1];
        if (row < 0 || row >= c->g.in[1]) {
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

/* Numbers from row to row of tiles, and from plane to plane: rows have room behind them; they and planes don't fall on each
 * other in the first cache. */
static int64_t pitch_of(const job *j)
{
    const int64_t most = whole_lanes(j->rows * j->across);
    return (most + LANES) % 64 ? most + LANES : most + 2 * LANES;
}

/* B' d B for a band, [16][channel][tile]. */
static void transform_input(const job *j, const float *x, int64_t top, int64_t rows, float *lines, float *tiles, int64_t pitch)
{
    const td_conv *c = j->c;
    const int64_t width = 2 * (j->across + 1), plane = c->g.cin * pitch + LANES;
    for (int64_t i = 0; i < c->g.cin; i++, x += c->g.in_total) {
        pack_lines(j, x, top, rows, lines);
        for (int64_t r = 0; r < rows; r++)
            kernels()->input(lines + 2 * r * width, width, j->across, tiles + i * pitch + r * j->across, plane);
    }
}

/* Products and output() take whole vectors of tiles.  Behind a band's last one would be what memory held before: no result depends on
 * it, but denormals among it take a hundred cycles each. */
static void clear_behind(int64_t channels, float *planes, int64_t pitch, int64_t from)
{
    for (int64_t i = 0; from < pitch && i < 16; i++, planes += LANES)
        for (int64_t channel = 0; channel < channels; channel++, planes += pitch)
            memset(planes + from, 0, (size_t)(pitch - from) * sizeof(float));
}

/* Tasks: (image, group, band). */
static void bands(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    td_conv *c = j->c;
    const td_winograd_table *table = kernels();
    const int64_t width = 2 * (j->across + 1), pitch = pitch_of(j);
    const int64_t plane = c->g.cin * pitch + LANES, plane_out = c->g.cout * pitch + LANES;
    const size_t bytes = (size_t)(16 * (plane + plane_out) + (2 * j->rows + 4) * (width + 2 * LANES)) * sizeof(float);
    float *tiles = td_mem_alloc(bytes), *sums = tiles + 16 * plane, *lines = sums + 16 * plane_out;
    if (!tiles) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    memset(lines, 0, bytes - (size_t)(lines - tiles) * sizeof(float));
    const int64_t least = j->down - (j->bands - 1) * j->rows;       /* rows of the last band */
    clear_behind(c->g.cin, tiles, pitch, (least - 1) * j->across + whole_lanes(j->across));
    clear_behind(c->g.cout, sums, pitch, whole_lanes(least * j->across));
    for (int64_t t = first; t < last; t++) {
        const int64_t image = t / j->bands, group = image % c->g.groups, top = t % j->bands * j->rows;
        const int64_t rows = j->down - top < j->rows ? j->down - top : j->rows, n = whole_lanes(rows * j->across);
        const float *x = (const float *)c->x + image * c->g.cin * c->g.in_total;
        const float *bias = c->bias ? (const float *)c->bias + group * c->g.cout : NULL;
        float *y = (float *)c->y + image * c->g.cout * c->g.out_total;
        transform_input(j, x, top, rows, lines, tiles, pitch);
        for (int64_t i = 0; i < 16; i++)
            TD_ISA_PICK(td_gemm_table)->f32(c->g.cout, n, c->g.cin, 1,
                                            (td_matrix){j->kernels + (group * 16 + i) * c->g.cout * c->g.cin, c->g.cin, 1},
                                            (td_matrix){tiles + i * plane, pitch, 1}, 0, sums + i * plane_out, pitch, NULL);
        for (int64_t o = 0; o < c->g.cout; o++, y += c->g.out_total)
            for (int64_t r = 0; r < rows; r++) {
                const int64_t row = 2 * (top + r), step = width + 2 * LANES;
                table->output(sums + o * pitch + r * j->across, plane_out, j->across, bias ? bias[o] : 0, lines, lines + step);
                for (int64_t i = 0; i < 2 && row + i < c->g.out[1]; i++)
                    memcpy(y + (row + i) * c->g.out[2], lines + i * step, (size_t)c->g.out[2] * sizeof(float));
            }
    }
    td_mem_free(tiles, bytes);
}

/* Bands of whole rows of tiles, as equal as can be.  They aim at TILES tiles or more, the width of a panel of b. */
static job plan(td_conv *c)
{
    job j = {.c = c, .across = (c->g.out[2] + 1) / 2, .down = (c->g.out[1] + 1) / 2};
    const int64_t row = 16 * (c->g.cin + c->g.cout) * j.across * (int64_t)sizeof(float);
    int64_t rows = BAND_BYTES / row, least = td_ceil_div(TILES, j.across);
    rows = rows < least ? least : rows;
    j.bands = td_ceil_div(j.down, rows), j.rows = td_ceil_div(j.down, j.bands), j.bands = td_ceil_div(j.down, j.rows);
    return j;
}

void td_winograd(td_conv *c)
{
    job j = plan(c);
    const size_t bytes = (size_t)(16 * c->g.groups * c->g.cout * c->g.cin) * sizeof(float);
    j.kernels = td_mem_alloc(bytes);
    if (!j.kernels) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    td_parallel_for(0, c->g.groups * c->g.cout, td_grain(c->g.cin * 64), transform, &j);
    td_parallel_for(0, c->g.batch * c->g.groups * j.bands, 1, bands, &j);
    td_mem_free(j.kernels, bytes);
}

/* A y A' for a band of a gradient, [16][channel][tile]; behind the last row and column are zeros. */
static void transform_gradient(const job *j, const float *y, int64_t top, int64_t rows, float *lines, float *tiles, int64_t pitch)
{
    const td_conv *c = j->c;
    const int64_t width = c->g.out[2], n = j->across, step = 2 * (n + LANES), plane = c->g.cout * pitch + LANES;
    for (int64_t o = 0; o < c->g.cout; o++, y += c->g.out_total)
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < 2; i++) {
                const int64_t row = 2 * (top + r) + i;
                float *even = lines + i * step, *odd = even + n;
                if (row >= c->g.out[1]) {
                    memset(even, 0, (size_t)(2 * n) * sizeof(float));
                    continue;
                }
                kernels()->split(y + row * width, width / 2, even, odd);
                if (width % 2)
                    even[n - 1] = y[row * width + width - 1], odd[n - 1] = 0;
            }
            kernels()->gradient(lines, step, n, tiles + o * pitch + r * n, plane);
        }
}

/* The gradient of the kernels: for each of 16 positions, products of transformed gradients and inputs, summed up over all tiles; then
 * G' m G. */
bool td_winograd_weigh(td_conv *c, int64_t from, int64_t to, int64_t group, float *sum)
{
    const job j = plan(c);
    const int64_t pitch = pitch_of(&j), plane = c->g.cin * pitch + LANES, plane_out = c->g.cout * pitch + LANES;
    const int64_t width = 2 * (j.across + 1), cells = c->g.cout * c->g.cin;
    const size_t bytes = (size_t)(16 * (plane + plane_out + cells) + (2 * j.rows + 8) * (width + 2 * LANES)) * sizeof(float);
    float *tiles = td_mem_alloc(bytes), *slopes = tiles + 16 * plane, *m = slopes + 16 * plane_out, *lines = m + 16 * cells;
    if (!tiles)
        return false;
    memset(m, 0, bytes - (size_t)(m - tiles) * sizeof(float));
    for (int64_t t = from * j.bands; t < to * j.bands; t++) {
        const int64_t image = t / j.bands * c->g.groups + group, top = t % j.bands * j.rows;
        const int64_t rows = j.down - top < j.rows ? j.down - top : j.rows;
        transform_input(&j, (const float *)c->x + image * c->g.cin * c->g.in_total, top, rows, lines, tiles, pitch);
        transform_gradient(&j, (const float *)c->y + image * c->g.cout * c->g.out_total, top, rows, lines, slopes, pitch);
        for (int64_t i = 0; i < 16; i++)
            TD_ISA_PICK(td_gemm_table)->f32(c->g.cout, c->g.cin, rows * j.across, 1, (td_matrix){slopes + i * plane_out, pitch, 1},
                                            (td_matrix){tiles + i * plane, 1, pitch}, 1, m + i * cells, c->g.cin, NULL);
    }
    for (int64_t i = 0; i < cells; i++, sum += 9) {
        float s[3][4];
        for (int x = 0; x < 4; x++) {
            const float *at = m + x * cells + i, both = at[4 * cells] + at[8 * cells];
            s[0][x] = at[0] + both / 2, s[1][x] = (at[4 * cells] - at[8 * cells]) / 2, s[2][x] = both / 2 + at[12 * cells];
        }
        for (int y = 0; y < 3; y++) {
            const float both = s[y][1] + s[y][2];
            sum[3 * y] = s[y][0] + both / 2, sum[3 * y + 1] = (s[y][1] - s[y][2]) / 2, sum[3 * y + 2] = both / 2 + s[y][3];
        }
    }
    td_mem_free(tiles, bytes);
    return true;
}
