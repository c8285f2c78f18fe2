/* Products of quantized activations and weights: rows of bytes, or windows of an image whose pixels are rows.
 *
 * Blocks of rows are shared out.  The windows of a block are gathered into rows that stay in the second cache while all panels of weights
 * meet them, so no matrix of all windows is made. */
#include "calls_kernels_cpu_packed_bytes.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/packed/bytes.h"

enum { PANEL = TD_BYTES_PANEL, BLOCK = 8 * TD_BYTES_ROWS };

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct packing {
    const int8_t *from;
    int8_t       *to;
    int64_t       n, k;
} packing;

static void pack_panels(void *context, int64_t first, int64_t last)
{
    const packing *p = context;
    const int64_t quads = (p->k + 3) / 4;
    for (int64_t at = first; at < last; at++) {
        int8_t *to = p->to + at * quads * PANEL * 4;
        memset(to, 0, (size_t)(quads * PANEL * 4));
        for (int64_t j = 0; j < least_of(PANEL, p->n - at * PANEL); j++)
            for (int64_t c = 0; c < p->k; c++)
                to[c / 4 * PANEL * 4 + 4 * j + c % 4] = p->from[(at * PANEL + j) * p->k + c];
    }
}

int td_cpu__bytes_pack(td_tensor *weight, td_tensor *out)
{
    TD_AUTO td_tensor *from = td_make_contiguous(weight), *to = td_writable(out, TD_I8);
    if (!from || !to)
        return -1;
    packing p = {(const int8_t *)from->data, (int8_t *)to->data, weight->sizes[0], weight->sizes[1]};
    td_parallel_for(0, (p.n + PANEL - 1) / PANEL, 1, pack_panels, &p);
    return td_write_back(out, to);
}

/* What a product of windows is: the image has b x height x width pixels of `channels` bytes. */
typedef struct windows {
    int64_t height, width, channels, to_height, to_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
} windows;

typedef struct job {
    const uint8_t *x;
    const int8_t  *panels;
    const int32_t *less;
    const float   *more, *by;
    void          *y;
    int64_t        m, n, k, quads, chunks;
    bool           floats, copied, of_windows;
    windows        w;
    int            fill, failed;
    float          least, zero;
} job;

static void gather_window(const job *j, int64_t row, uint8_t *to)
{
    const windows *w = &j->w;
    const int64_t b = row / (w->to_height * w->to_width), at = row % (w->to_height * w->to_width), line = w->kernel[1] * w->channels;
    const int64_t top = at / w->to_width * w->stride[0] - w->padding[0], left = at % w->to_width * w->stride[1] - w->padding[1];
    for (int64_t i = 0; i < w->kernel[0]; i++, to += line) {
        const int64_t h = top + i * w->dilation[0];
        if (h < 0 || h >= w->height) {
            memset(to, j->fill, (size_t)line);
            continue;
        }
        const uint8_t *from = j->x + (b * w->height + h) * w->width * w->channels;
        if (w->dilation[1] == 1 && left >= 0 && left + w->kernel[1] <= w->width) {
            memcpy(to, from + left * w->channels, (size_t)line);
            continue;
        }
        for (int64_t c = 0; c < w->kernel[1]; c++) {
            const int64_t column = left + c * w->dilation[1];
            if (column < 0 || column >= w->width)
                memset(to + c * w->channels, j->fill, (size_t)w->channels);
            else
                memcpy(to + c * w->channels, from + column * w->channels, (size_t)w->channels);
        }
    }
}

static void some_blocks(void *context, int64_t first, int64_t last)
{
    job *j = context;
    const td_bytes_table *f = TD_ISA_PICK(td_bytes_table);
    const bool instruction = td_packed_multiplies_bytes() && f->dots_bytes;
    const int64_t panels = (j->n + PANEL - 1) / PANEL, ldx = j->copied ? j->quads * 4 : j->k;
    const size_t bytes = (size_t)(BLOCK * j->quads * 4) + 1;
    uint8_t *rows = j->copied ? td_mem_alloc(bytes) : NULL;
    if (j->copied && !rows) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    int32_t sums[TD_BYTES_ROWS * PANEL];
    for (int64_t item = first; item < last; item++) {
        const int64_t block = item / j->chunks * BLOCK, m = least_of(BLOCK, j->m - block), chunk = item % j->chunks;
        const uint8_t *x = j->x + block * j->k;
        for (int64_t i = 0; i < m && rows; i++) {
            uint8_t *to = rows + i * ldx;
            if (j->of_windows)
                gather_window(j, block + i, to);
            else
                memcpy(to, x + i * j->k, (size_t)j->k);
            memset(to + j->k, 0, (size_t)(ldx - j->k));
        }
        x = rows ? rows : x;
        for (int64_t p = panels * chunk / j->chunks; p < panels * (chunk + 1) / j->chunks; p++) {
            const int64_t column = p * PANEL, n = least_of(PANEL, j->n - column);
            for (int64_t i = 0; i < m; i += TD_BYTES_ROWS) {
                const int some = (int)least_of(TD_BYTES_ROWS, m - i);
                (instruction ? f->dots_bytes : f->dots)(some, j->quads, x + i * ldx, ldx, j->panels + p * j->quads * PANEL * 4, sums);
                for (int r = 0; r < some; r++) {
                    const int64_t at = (block + i + r) * j->n + column;
                    if (j->floats)
                        f->scale(n, sums + r * PANEL, j->less + column, j->more + column, j->by + column, (float *)j->y + at);
                    else
                        f->round(n, sums + r * PANEL, j->less + column, j->more + column, j->by + column, j->least, j->zero, (uint8_t *)j->y + at);
                }
            }
        }
    }
    if (rows)
        td_mem_free(rows, bytes);
}

int td_cpu__bytes_product(td_tensor *x, td_tensor *panels, int64_t columns, td_tensor *less, td_tensor *more, td_tensor *by, int64_t n_window,
                          const int64_t *window, int64_t fill, int64_t least, double scale, int64_t zero_point, td_dtype dtype, td_tensor *out)
{
    (void)scale;
    TD_AUTO td_tensor *from = td_make_contiguous(x), *weights = td_make_contiguous(panels), *to = td_writable(out, dtype);
    TD_AUTO td_tensor *off = td_make_contiguous(less), *added = td_make_contiguous(more), *factors = td_make_contiguous(by);
    if (!from || !weights || !to || !off || !added || !factors)
        return -1;
    const bool of_windows = n_window > 0;
    const int64_t depth = x->sizes[x->ndim - 1], k = of_windows ? depth * window[0] * window[1] : depth;
    job j = {.x = (const uint8_t *)from->data, .panels = (const int8_t *)weights->data, .less = (const int32_t *)off->data,
             .more = (const float *)added->data, .by = (const float *)factors->data, .y = to->data, .n = columns, .k = k, .quads = (k + 3) / 4,
             .m = columns ? to->numel / columns : 0, .chunks = 1, .floats = dtype == TD_F32, .of_windows = of_windows, .fill = (int)fill,
             .least = (float)least, .zero = (float)zero_point};
    j.copied = of_windows || k % 4;
    if (of_windows) {
        j.w = (windows){.height = x->sizes[1], .width = x->sizes[2], .channels = depth, .to_height = to->sizes[1], .to_width = to->sizes[2]};
        for (int i = 0; i < 2; i++) {
            j.w.kernel[i] = window[i], j.w.stride[i] = window[2 + i];
            j.w.padding[i] = window[4 + i], j.w.dilation[i] = window[6 + i];
        }
    }
    if (!to->numel)
        return td_write_back(out, to);
    const int64_t blocks = (j.m + BLOCK - 1) / BLOCK, count = (j.n + PANEL - 1) / PANEL, threads = td_num_threads();
    if (blocks < 2 * threads)               /* few rows: the panels are shared out, too */
        j.chunks = least_of(count, (2 * threads + blocks - 1) / blocks);
    const int64_t work = least_of(j.m, BLOCK) * j.k * ((j.n + j.chunks - 1) / j.chunks);
    td_parallel_for(0, blocks * j.chunks, work > 1 << 18 ? 1 : (1 << 18) / (work + 1) + 1, some_blocks, &j);
    if (j.failed)
        return td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a product of quantized operands");
    return td_write_back(out, to);
}
