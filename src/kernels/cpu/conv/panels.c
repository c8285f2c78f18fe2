/* Convolution of floats as products whose operand is never laid out as a whole.
 *
 * For a band of output rows, each kernel column kw gets a packed copy of the input: the input's rows, shifted by kw, spread
 * by the stride and padded, exactly as wide as the output.  In it, what a kernel element at (kd, kh, kw) meets for all
 * positions of the band is one contiguous run: a whole number of rows down.  So
 *
 *     correlate   packs panels of positions by copying from these runs, a pass of k at a time, and multiplies
 *     weigh       reads them as they are: per kernel element one product [channels][positions] * [positions][out],
 *                 with the gradient packed once
 *
 * With a stride, rows of one remainder lie together.  The columns as a whole would be kernel size times the input; a band's
 * copies are only kernel width times its rows, at most BAND_BYTES unless 128 positions need more, and stay in the second cache
 * while products read them.  Bands depend on the shape only.  Kernels of one channel need no
 * panels: they read one input, wider than the output, at all shifts; so do those whose output has but one row. */
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/gemm/gemm.h"

enum {
    BAND_BYTES = 384 << 10, COLUMNS = 320,      /* of the packed copies; positions per product */
    PANEL = 48, PAIR_SUMS = 1 << 16,            /* columns of a panel of pairs; numbers that are summed up before they're rounded */
};

/* Where things are in the packed copies of a band: [kw][channel][kd][phase][row][column]. */
typedef struct bands {
    int64_t rows, count;            /* output rows per band; bands per output plane */
    int64_t phases, lines;          /* remainders of rows in use; rows of each */
    int64_t copies, width;        /* one per kernel column, as wide as the output; or one for all, wider */
    int64_t phase[16];              /* what they are */
    int64_t pitch, total;           /* elements per channel; of all, and a vector's are behind them */
    int64_t vector;
    int64_t *offsets;               /* of each row of the columns: [channel][kd][kh][kw] */
} bands;

/* The remainder of the input rows that kernel row kh meets: kh * dilation modulo the stride. */
static int64_t phase_of(const td_conv *c, int64_t kh)
{
    return kh * c->g.dilation[1] % c->g.stride[1];
}

/* Of no channels there is a sum, too, which is zero. */
static size_t size_of_offsets(const td_conv *c) { return (size_t)(c->g.k ? c->g.k : 1) * sizeof(int64_t); }

/* How the output is cut into bands, and where each row of the columns begins in their copies; `shared`: one copy for all kernel
 * columns.  Bands aim at 128 positions or more, else products would be too narrow, and are as equal as can be.  16 phases
 * are enough: callers take strides of up to 16 rows, see conv_floats.  False without memory. */
static bool plan(const td_conv *c, bands *b, bool shared)
{
    b->vector = TD_ISA_PICK(td_gemm_table)->bytes / c->size;
    b->phases = 0, b->copies = shared ? 1 : c->g.kernel[2];
    b->width = c->g.out[2] + (shared ? (c->g.kernel[2] - 1) * c->g.dilation[2] : 0);
    for (int64_t kh = 0; kh < c->g.kernel[1]; kh++) {
        int64_t p = phase_of(c, kh), i = 0;
        while (i < b->phases && b->phase[i] != p)
            i++;
        if (i == b->phases && i < 16)
            b->phase[b->phases++] = p;
    }
    int64_t shift = (c->g.kernel[1] - 1) * c->g.dilation[1] / c->g.stride[1];
    int64_t line = b->copies * c->g.cin * c->g.kernel[0] * b->phases * b->width * c->size;
    int64_t rows = BAND_BYTES / (line ? line : 1) - shift, least = td_ceil_div(128, c->g.out[2]);
    rows = rows < least ? least : rows;
    b->count = td_ceil_div(c->g.out[1], rows);
    b->rows = td_ceil_div(c->g.out[1], b->count), b->lines = b->rows + shift;
    b->pitch = c->g.kernel[0] * b->phases * b->lines * b->width;
    b->total = b->copies * c->g.cin * b->pitch;
    b->offsets = td_mem_alloc(size_of_offsets(c));
    if (!b->offsets)
        return false;
    int64_t *o = b->offsets;
    for (int64_t ch = 0; ch < c->g.cin; ch++)
        for (int64_t kd = 0; kd < c->g.kernel[0]; kd++)
            for (int64_t kh = 0; kh < c->g.kernel[1]; kh++)
                for (int64_t kw = 0; kw < c->g.kernel[2]; kw++) {
                    int64_t i = 0, down = kh * c->g.dilation[1] / c->g.stride[1];
                    while (b->phase[i] != phase_of(c, kh))
                        i++;
                    *o++ = ((shared ? 0 : kw * c->g.cin) + ch) * b->pitch + (shared ? kw * c->g.dilation[2] : 0) +
                           ((kd * b->phases + i) * b->lines + down) * b->width;
                }
    return true;
}

#define TD_BODY "kernels/cpu/conv/pack.h"
#include "kernels/cpu/isa/both_reals.h"
#define TD_BODY "kernels/cpu/conv/panels.h"
#include "kernels/cpu/isa/both_reals.h"
#define T uint16_t
#define S b16
#include "kernels/cpu/conv/pack.h"
#undef T
#undef S

typedef struct job {
    td_conv *c;
    bands b;
} job;

/* Tasks: (image, group, plane, band), as correlate() in panels.h, for bfloat16: two rows of the columns make one of pairs, and sums
 * are floats in a block of at most PAIR_SUMS (256 KiB) unless channels are many, rounded when all of k has been added. */
static void correlate_pairs(void *context, int64_t first, int64_t last)
{
    job *j = context;
    td_conv *c = j->c;
    const bands *b = &j->b;
    const td_conv_table *table = TD_ISA_PICK(td_conv_table);
    const int64_t pairs = (c->g.k + 1) / 2, step = td_gemm_depth(pairs, 4), area = c->g.out[1] * c->g.out[2];
    const int64_t most = PAIR_SUMS / c->g.cout > PANEL ? PAIR_SUMS / c->g.cout / PANEL * PANEL : PANEL;
    const int64_t across = most < COLUMNS ? most : COLUMNS, padded = (b->total + 2 * PANEL + 63) / 64 * 64;
    const size_t bytes = (size_t)padded * 2 + (size_t)((step + c->g.cout) * (across + PANEL)) * 4;
    uint16_t *input = td_mem_alloc(bytes);
    float *columns = (float *)(input + padded), *sums = columns + step * (across + PANEL);
    if (!input) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    memset(input + b->total, 0, (size_t)(padded - b->total) * 2);       /* what the last panel reads too far */
    for (int64_t t = first; t < last; t++) {
        const int64_t row = t % b->count * b->rows, od = t / b->count % c->g.out[0], image = t / b->count / c->g.out[0];
        const int64_t rows = c->g.out[1] - row < b->rows ? c->g.out[1] - row : b->rows, n = rows * c->g.out[2];
        const float *w = (const float *)c->w + image % c->g.groups * c->g.cout * pairs;
        const float *bias = c->bias ? (const float *)c->bias + image % c->g.groups * c->g.cout : NULL;
        uint16_t *y = (uint16_t *)c->y + (image * c->g.cout * c->g.out[0] + od) * area + row * c->g.out[2];
        if (rows <= 0)
            continue;
        pack_b16(c, b, (const uint16_t *)c->x + image * c->g.cin * c->g.in_total, od, row, input);
        for (int64_t q = 0; q < n; q += across) {
            const int64_t width = n - q < across ? n - q : across;
            if (bias)
                table->fill_f32(bias, c->g.cout, width, sums, width);
            for (int64_t p = 0; p < pairs; p += step) {
                const int64_t depth = pairs - p < step ? pairs - p : step;
                table->panels_pairs(input + q, b->offsets + 2 * p, c->g.k - 2 * p, depth, width, columns);
                TD_ISA_PICK(td_gemm_pairs_table)->packed(c->g.cout, width, depth, 1, (td_matrix){w + p, pairs, 1}, columns, p > 0 || bias, sums,
                                              width, NULL);
            }
            for (int64_t o = 0; o < c->g.cout; o++)
                td_convert(TD_BF16, y + o * c->g.out_total + q, 2, TD_F32, sums + o * width, 4, width);
        }
    }
    td_mem_free(input, bytes);
}

static void correlate(void *context, int64_t first, int64_t last)
{
    job *j = context;
    (j->c->dtype == TD_F32 ? correlate_f32 : correlate_f64)(j->c, &j->b, first, last);
}

static void depthwise(void *context, int64_t first, int64_t last)
{
    job *j = context;
    (j->c->dtype == TD_F32 ? depthwise_f32 : depthwise_f64)(j->c, &j->b, first, last);
}

static void fail(td_conv *c)
{
    __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
}

static void run(td_conv *c, td_loop_body *body, bool shared)
{
    job j = {.c = c};
    if (!plan(c, &j.b, shared)) {
        fail(c);
        return;
    }
    int64_t cost = c->g.cout * j.b.rows * c->g.out[2] * c->g.k / 16;
    td_parallel_for(0, c->g.batch * c->g.groups * c->g.out[0] * j.b.count, td_grain(cost), body, &j);
    td_mem_free(j.b.offsets, size_of_offsets(c));
}

/* A single row is one run in a wider input, too. */
void td_conv_correlate(td_conv *c) { run(c, correlate, c->g.out[1] == 1 && c->g.stride[2] == 1); }
/* An odd k gives each kernel half a pair more, a zero, so that rows of weights begin with whole pairs. */
bool td_conv_pairs(td_conv *c)
{
    const int64_t pairs = (c->g.k + 1) / 2, rows = c->g.groups * c->g.cout;
    const size_t bytes = c->g.k % 2 ? (size_t)(rows * pairs) * 4 : 0;
    td_conv own = *c;
    uint16_t *w = bytes ? td_mem_alloc(bytes) : NULL;
    if (bytes && !w)
        return false;
    for (int64_t o = 0; w && o < rows; o++) {
        memcpy(w + o * 2 * pairs, (const uint16_t *)c->w + o * c->g.k, (size_t)c->g.k * 2);
        w[o * 2 * pairs + c->g.k] = 0;
    }
    own.w = w ? (char *)w : c->w;
    run(&own, correlate_pairs, c->g.out[1] == 1 && c->g.stride[2] == 1);
    td_mem_free(w, bytes);
    return !own.failed;
}

/* One input, read at all shifts, row by row, where rows are long enough for that. */
void td_conv_depthwise(td_conv *c) { run(c, depthwise, c->g.stride[2] == 1 && c->g.out[2] >= 24); }

/* The gradient of one group's kernels over images [from, to), on the calling thread: conv.c has a task per chunk of images. */
void td_conv_weigh(td_conv *c, int64_t from, int64_t to, int64_t group, void *sum)
{
    bands b;
    if (!plan(c, &b, false)) {
        fail(c);
        return;
    }
    const bool plane = c->g.cin == 1 && c->g.cout == 1;
    bool done = c->dtype == TD_F32 ? (plane ? weigh_plane_f32 : weigh_f32)(c, &b, from, to, group, sum)
                                   : (plane ? weigh_plane_f64 : weigh_f64)(c, &b, from, to, group, sum);
    if (!done)
        fail(c);
    td_mem_free(b.offsets, size_of_offsets(c));
}
