/* Products of quantized activations and weights: rows of bytes, or windows of an image whose pixels are rows.
 *
 * Blocks of rows are shared out, and of an image bands of lines. A band is copied with what is around it, which stays in the second cache while
 * all panels of weights meet it; windows are read where they overlap in it. Where windows move by one pixel, those of a whole band are rows the
 * same distance apart, as if each line had windows that reach over its end: these few are computed as well, and left out. */
#include "calls_kernels_cpu_packed_bytes.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/packed/bytes.h"

enum {
    PANEL = TD_BYTES_PANEL, STEP = TD_BYTES_STEP,
    BLOCK = 8 * TD_BYTES_TILES,     /* rows of a matrix, at most */
    ROOM = 1 << 18,                 /* bytes that a block or a band should have */
    FEW = 4,                        /* rows for which tiles aren't worth it */
};

/* ---- weights */

typedef struct packing {
    const int8_t *from;
    int8_t       *to;
    int64_t       n, k, run;
} packing;

static void pack_panels(void *context, int64_t first, int64_t last)
{
    const packing *p = context;
    const int64_t steps = (p->run + STEP - 1) / STEP, bytes = p->k / p->run * steps * TD_BYTES_STEP_OF_PANEL;
    for (int64_t at = first; at < last; at++) {
        int8_t *to = p->to + at * bytes;
        memset(to, 0, (size_t)bytes);
        for (int64_t j = 0; j < td_least_of(PANEL, p->n - at * PANEL); j++)
            for (int64_t c = 0; c < p->k; c++) {
                const int64_t place = c / p->run * steps * STEP + c % p->run;
                to[place / 4 * PANEL * 4 + 4 * j + place % 4] = p->from[(at * PANEL + j) * p->k + c];
            }
    }
}

/* How many pixels' channels are multiplied at once, apart. */
static int64_t pixels_of(int64_t channels) { return td_most_of(PANEL / td_most_of(channels, 1), 1); }

static void pack_apart(int64_t channels, int64_t taps, const int8_t *from, int8_t *to)
{
    const int64_t quads = (taps + 3) / 4;
    memset(to, 0, (size_t)((channels + PANEL - 1) / PANEL * quads * TD_BYTES_QUAD));
    for (int64_t c = 0; c < channels * pixels_of(channels); c++)
        for (int64_t t = 0; t < taps; t++)
            to[(c / PANEL * quads + t / 4) * TD_BYTES_QUAD + c / 4 % 4 * 64 + c % PANEL / 16 * 16 + c % 4 * 4 + t % 4] = from[c % channels * taps + t];
}

int td_cpu__bytes_pack(td_tensor *weight, int64_t run, td_tensor *out)
{
    TD_AUTO td_tensor *from = td_make_contiguous(weight), *to = td_writable(out, TD_I8);
    if (!from || !to)
        return -1;
    if (!run) {
        pack_apart(weight->sizes[0], weight->sizes[1], (const int8_t *)from->data, (int8_t *)to->data);
        return td_write_back(out, to);
    }
    packing p = {(const int8_t *)from->data, (int8_t *)to->data, weight->sizes[0], weight->sizes[1], run};
    td_parallel_for(0, (p.n + PANEL - 1) / PANEL, 1, pack_panels, &p);
    return td_write_back(out, to);
}

/* ---- products */

/* What a product of windows is: images of height x width pixels of `channels` bytes. */
typedef struct windows {
    int64_t height, width, channels, to_height, to_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t wide;                   /* pixels of a line with its padding */
    int64_t lines, bands;           /* lines of the result in a band, and bands in an image */
    int64_t blocks;                 /* of channels; each meets as many blocks of columns, of whole panels */
} windows;

typedef struct job {
    const uint8_t *x;
    const int8_t  *panels;
    const int32_t *less;
    const float   *more, *by;
    void          *y;
    int64_t        m, n, k, block, n_steps, chunks, items, pixels;     /* pixels: at once, apart */
    td_bytes_step *steps;
    bool           floats, of_windows, apart, copied;       /* copied: rows aren't whole steps, or whole quads */
    size_t         room;                            /* bytes for a block or band */
    windows        w;
    int            fill, failed;
    float          least, zero;
    const td_bytes_table *f;
    void         (*of_apart)(int64_t n, const td_bytes_step *steps, const uint8_t *x, const int8_t *quads, int32_t *sums);
    void         (*dots)(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums);
    int            at_once;
} job;

static void store(const job *j, int64_t column, int64_t n, const int32_t *sums, int64_t at)
{
    if (j->floats)
        j->f->scale(n, sums, j->less + column, j->more + column, j->by + column, (float *)j->y + at);
    else
        j->f->round(n, sums, j->less + column, j->more + column, j->by + column, j->least, j->zero, (uint8_t *)j->y + at);
}

/* Rows of the result that lie `wide` apart in lines of which the first `across` are there; y counts rows from the first one. */
static void multiply_rows(const job *j, const uint8_t *x, int64_t ldx, int64_t m, int64_t wide, int64_t across, int64_t y, int64_t panel, int32_t *sums)
{
    const int64_t column = panel * PANEL, n = td_least_of(PANEL, j->n - column);
    const int8_t *weights = j->panels + panel * j->n_steps * TD_BYTES_STEP_OF_PANEL;
    for (int64_t i = 0; i < m; i += j->at_once) {
        const int some = (int)td_least_of(j->at_once, m - i);
        j->dots(some, j->n_steps, j->steps, x + i * ldx, ldx, weights, sums);
        for (int r = 0; r < some; r++) {
            const int64_t line = (i + r) / wide, place = (i + r) % wide, at = (y + line * across + place) * j->n + column;
            if (place < across)
                store(j, column, n, sums + r * PANEL, at);
        }
    }
}

/* A band of an image with its padding, for the lines of the result from `top` on. */
static void copy_band(const job *j, int64_t image, int64_t top, int64_t lines, uint8_t *to)
{
    const windows *w = &j->w;
    const int64_t line = w->wide * w->channels, before = w->padding[1] * w->channels, all = w->width * w->channels;
    const int64_t first = top * w->stride[0] - w->padding[0], count = (lines - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
    for (int64_t h = first; h < first + count; h++, to += line) {
        if (h < 0 || h >= w->height) {
            memset(to, j->fill, (size_t)line);
            continue;
        }
        memset(to, j->fill, (size_t)before);
        memcpy(to + before, j->x + (image * w->height + h) * all, (size_t)all);
        memset(to + before + all, j->fill, (size_t)(line - before - all));
    }
}

/* 64 channels, each with its own window. */
static void multiply_apart(const job *j, const uint8_t *room, int64_t lines, int64_t y, int64_t panel, int32_t *sums)
{
    const windows *w = &j->w;
    const int64_t column = panel * PANEL, n = td_least_of(PANEL, j->n - column), quads = j->n_steps / 4;
    for (int64_t h = 0; h < lines; h++)
        for (int64_t i = 0; i < w->to_width; i += j->pixels) {
            const uint8_t *x = room + (h * w->stride[0] * w->wide + i * w->stride[1]) * w->channels + column;
            j->of_apart(quads, j->steps, x, j->panels + panel * quads * TD_BYTES_QUAD, sums);
            store(j, column, td_least_of(j->pixels, w->to_width - i) * n, sums, (y + h * w->to_width + i) * j->n + column);
        }
}

static void multiply_band(const job *j, int64_t item, int64_t first, int64_t last, uint8_t *room, int32_t *sums)
{
    const windows *w = &j->w;
    const int64_t image = item / w->bands, top = item % w->bands * w->lines, lines = td_least_of(w->lines, w->to_height - top);
    const int64_t y = (image * w->to_height + top) * w->to_width;
    copy_band(j, image, top, lines, room);
    for (int64_t p = first; p < last; p++) {
        if (j->apart) {
            multiply_apart(j, room, lines, y, p, sums);
            continue;
        }
        const uint8_t *x = room + p * PANEL / (j->n / w->blocks) * (w->channels / w->blocks);
        if (w->stride[0] == 1 && w->stride[1] == 1) {
            multiply_rows(j, x, w->channels, (lines - 1) * w->wide + w->to_width, w->wide, w->to_width, y, p, sums);
            continue;
        }
        for (int64_t h = 0; h < lines; h++)
            multiply_rows(j, x + h * w->stride[0] * w->wide * w->channels, w->stride[1] * w->channels, w->to_width, w->to_width, w->to_width,
                          y + h * w->to_width, p, sums);
    }
}

/* A block is read where it is if what is read beyond its rows is still the matrix. */
static void multiply_block(const job *j, int64_t item, int64_t first, int64_t last, uint8_t *room, int32_t *sums)
{
    const int64_t at = item * j->block, m = td_least_of(j->block, j->m - at), ldx = j->n_steps * STEP;
    const uint8_t *x = j->x + at * j->k;
    const int64_t reached = (m + j->at_once - 1) / j->at_once * j->at_once;
    const bool inside = !j->copied && (at + reached) * j->k <= j->m * j->k;
    for (int64_t i = 0; i < m && !inside; i++) {
        memcpy(room + i * ldx, x + i * j->k, (size_t)j->k);
        memset(room + i * ldx + j->k, 0, (size_t)(ldx - j->k));
    }
    for (int64_t p = first; p < last; p++)
        multiply_rows(j, inside ? x : room, inside ? j->k : ldx, m, m, m, at, p, sums);
}

static void some_items(void *context, int64_t first, int64_t last)
{
    job *j = context;
    const int64_t panels = (j->n + PANEL - 1) / PANEL;
    const bool tiles = j->at_once == TD_BYTES_TILES;
    uint8_t *room = td_mem_alloc(j->room);
    if (!room) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    _Alignas(64) int32_t sums[TD_BYTES_TILES * PANEL];
    if (tiles)
        j->f->begin_tiles();
    for (int64_t at = first; at < last; at++) {
        const int64_t chunk = at % j->chunks;
        (j->of_windows ? multiply_band : multiply_block)(j, at / j->chunks, panels * chunk / j->chunks, panels * (chunk + 1) / j->chunks, room, sums);
    }
    if (tiles)
        j->f->end_tiles();
    td_mem_free(room, j->room);
}

/* The steps of `taps[0]` x `taps[1]` runs; false: no memory. */
static bool make_steps(job *j, int64_t run, const int64_t *taps, const int64_t *apart)
{
    const int64_t each = (run + STEP - 1) / STEP;
    j->n_steps = taps[0] * taps[1] * each;
    if (!(j->steps = td_mem_alloc(sizeof *j->steps * (size_t)(j->n_steps + 1))))
        return false;
    td_bytes_step *step = j->steps;
    for (int64_t a = 0; a < taps[0]; a++)
        for (int64_t b = 0; b < taps[1]; b++)
            for (int64_t i = 0; i < each; i++)
                *step++ = (td_bytes_step){a * apart[0] + b * apart[1] + i * STEP, (int)(td_least_of(STEP, run - i * STEP) + 3) / 4};
    return true;
}

/* A step for each tap, up to whole quads: what is beyond the taps meets weights of zero. */
static bool make_taps(job *j)
{
    const windows *w = &j->w;
    const int64_t taps = w->kernel[0] * w->kernel[1];
    j->n_steps = (taps + 3) / 4 * 4;
    if (!(j->steps = td_mem_alloc(sizeof *j->steps * (size_t)(j->n_steps + 1))))
        return false;
    for (int64_t t = 0; t < j->n_steps; t++) {
        const int64_t a = t / w->kernel[1] * w->dilation[0], b = t % w->kernel[1] * w->dilation[1];
        j->steps[t] = (td_bytes_step){t < taps ? (a * w->wide + b) * w->channels : 0, 1};
    }
    return true;
}

static bool plan_windows(job *j, td_tensor *x, td_tensor *y, const int64_t *window)
{
    windows *w = &j->w;
    *w = (windows){.height = x->sizes[1], .width = x->sizes[2], .channels = x->sizes[3], .to_height = y->sizes[1], .to_width = y->sizes[2],
                   .blocks = window[8]};
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = window[i], w->stride[i] = window[2 + i];
        w->padding[i] = window[4 + i], w->dilation[i] = window[6 + i];
    }
    w->wide = w->width + 2 * w->padding[1];
    const int64_t line = w->wide * w->channels, more = (w->kernel[0] - 1) * w->dilation[0];
    w->lines = td_least_of(w->to_height, td_most_of(1, (ROOM / td_most_of(line, 1) - more) / w->stride[0]));
    w->bands = (w->to_height + w->lines - 1) / w->lines;
    j->items = x->sizes[0] * w->bands;
    /* behind the last row are those that tiles read as well, and the rest of their steps */
    j->room = (size_t)(((w->lines - 1) * w->stride[0] + more + 1) * line + TD_BYTES_TILES * w->stride[1] * w->channels + STEP);
    if (j->apart)
        return make_taps(j);
    const bool lines = w->dilation[1] == 1 && w->blocks == 1;
    return make_steps(j, lines ? w->kernel[1] * w->channels : w->channels / w->blocks, (int64_t[]){w->kernel[0], lines ? 1 : w->kernel[1]},
                      (int64_t[]){w->dilation[0] * line, w->dilation[1] * w->channels});
}

static bool plan_rows(job *j)
{
    j->copied = j->k % (j->at_once == TD_BYTES_TILES ? STEP : 4);
    if (!make_steps(j, j->k, (int64_t[]){1, 1}, (int64_t[]){0, 0}))
        return false;
    const int64_t fit = ROOM / td_most_of(j->n_steps * STEP, 1) / TD_BYTES_TILES * TD_BYTES_TILES;
    j->block = td_least_of(BLOCK, td_most_of(TD_BYTES_TILES, fit));
    j->items = (j->m + j->block - 1) / j->block;
    j->room = (size_t)(td_least_of((j->m + TD_BYTES_TILES - 1) / TD_BYTES_TILES * TD_BYTES_TILES, j->block) * j->n_steps * STEP + STEP);
    return true;
}

int td_cpu__bytes_product(td_tensor *x, td_tensor *panels, int64_t columns, td_tensor *less, td_tensor *more, td_tensor *by, int64_t n_window,
                          const int64_t *window, bool apart, int64_t fill, int64_t least, double scale, int64_t zero_point, td_dtype dtype, td_tensor *out)
{
    (void)scale;
    TD_AUTO td_tensor *from = td_make_contiguous(x), *weights = td_make_contiguous(panels), *to = td_writable(out, dtype);
    TD_AUTO td_tensor *off = td_make_contiguous(less), *added = td_make_contiguous(more), *factors = td_make_contiguous(by);
    if (!from || !weights || !to || !off || !added || !factors)
        return -1;
    /* Windows of single pixels are a matrix as they lie. */
    const bool alone = n_window && window[0] == 1 && window[1] == 1 && window[2] == 1 && window[3] == 1 && !window[4] && !window[5] && window[8] == 1;
    job j = {.x = (const uint8_t *)from->data, .panels = (const int8_t *)weights->data, .less = (const int32_t *)off->data,
             .more = (const float *)added->data, .by = (const float *)factors->data, .y = to->data, .n = columns, .k = x->sizes[x->ndim - 1],
             .m = columns ? to->numel / columns : 0, .chunks = 1, .floats = dtype == TD_F32, .of_windows = n_window && !(alone && !apart), .apart = apart, .fill = (int)fill,
             .least = (float)least, .zero = (float)zero_point, .f = TD_ISA_PICK(td_bytes_table)};
    int32_t less_of[PANEL];
    float more_of[PANEL], by_of[PANEL];
    if (!to->numel)
        return td_write_back(out, to);
    const bool tiles = td_packed_multiplies_tiles() && j.f->tiles && j.m >= FEW, dots = td_packed_multiplies_bytes() && j.f->dots_bytes;
    j.dots = tiles ? j.f->tiles : dots ? j.f->dots_bytes : j.f->dots;
    j.pixels = apart && window[3] == 1 ? pixels_of(columns) : 1;
    if (j.pixels > 1) {                     /* their columns' numbers beside each other as often */
        for (int64_t c = 0; c < columns * j.pixels; c++)
            less_of[c] = j.less[c % columns], more_of[c] = j.more[c % columns], by_of[c] = j.by[c % columns];
        j.less = less_of, j.more = more_of, j.by = by_of;
    }
    j.of_apart = dots ? j.f->apart_bytes : j.f->apart;
    j.at_once = tiles && !apart ? TD_BYTES_TILES : TD_BYTES_ROWS;
    if (j.of_windows ? plan_windows(&j, x, to, window) : plan_rows(&j)) {
        const int64_t count = (j.n + PANEL - 1) / PANEL, threads = td_num_threads();
        if (j.items < 2 * threads)              /* few rows: the panels are shared out, too */
            j.chunks = td_least_of(count, (2 * threads + j.items - 1) / j.items);
        const int64_t work = j.m / j.items * j.n_steps * STEP * ((j.n + j.chunks - 1) / j.chunks), grain = 1 << (tiles ? 21 : 18);
        td_parallel_for(0, j.items * j.chunks, work > grain ? 1 : grain / (work + 1) + 1, some_items, &j);
        td_mem_free(j.steps, sizeof *j.steps * (size_t)(j.n_steps + 1));
    } else {
        j.failed = 1;
    }
    if (j.failed)
        return td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a product of quantized operands");
    return td_write_back(out, to);
}
