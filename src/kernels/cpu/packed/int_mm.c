/* Products of matrices of bytes in int32, where the processor multiplies bytes (bytes.h); elsewhere they are products of int32.
 *
 * The second matrix is packed as it is met: some panels, which stay in the second cache while all rows of the first one meet them, block by
 * block. The first one is copied with whole steps. Of its bytes with a sign the copy has bytes without, 128 more each; what that adds is subtracted
 * from the sums. */
#include "calls_kernels_cpu_packed_int_mm.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/packed/bytes.h"

enum {
    PANEL = TD_BYTES_PANEL, STEP = TD_BYTES_STEP,
    ROOM = 1 << 20,                 /* bytes of panels that a thread packs at once */
    ROWS_ROOM = 1 << 18,            /* bytes of rows that meet a panel before the next one comes */
    FEW = 4,                        /* rows for which tiles aren't worth it */
};

typedef struct job {
    const int8_t  *x, *w;
    int64_t        m, n, k, ldx, row, column;       /* strides of w; ldx: of the copy */
    uint8_t       *copy;
    int32_t       *y;
    int64_t        steps, panels, block;            /* panels: packed at once; rows that meet one after the other */
    uint8_t        flip;                            /* the bit that makes bytes with a sign ones without */
    int            at_once, failed;
    const td_bytes_table *f;
    td_bytes_step *step;
} job;

static void copy_rows(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    for (int64_t i = first; i < last; i++) {
        const uint8_t *from = (const uint8_t *)j->x + i * j->k;
        uint8_t *to = j->copy + i * j->ldx;
        for (int64_t p = 0; p < j->k; p++)
            to[p] = from[p] ^ j->flip;
        memset(to + j->k, 0, (size_t)(j->ldx - j->k));
    }
}

/* Some rows times one panel. */
static void multiply_rows(const job *j, int64_t i, int64_t p, const int8_t *panel, const int32_t *less)
{
    _Alignas(64) int32_t sums[TD_BYTES_TILES * PANEL];
    const int64_t columns = td_least_of(PANEL, j->n - p * PANEL);
    const int rows = (int)td_least_of(j->at_once, j->m - i);
    (j->at_once == TD_BYTES_TILES ? j->f->tiles : j->f->dots_bytes)(rows, j->steps, j->step, j->copy + i * j->ldx, j->ldx, panel, sums);
    for (int r = 0; r < rows; r++)
        j->f->subtract(columns, sums + r * PANEL, less, j->y + (i + r) * j->n + p * PANEL);
}

static void multiply_panels(const job *j, int64_t first, int64_t last, int8_t *packed)
{
    enum { MANY = ROOM / (STEP * PANEL) };
    int32_t less[MANY][PANEL];
    const int64_t bytes = j->steps * TD_BYTES_STEP_OF_PANEL;
    for (int64_t p = first; p < last; p++) {
        const int8_t *from = j->w + p * PANEL * j->column;
        const int64_t columns = td_least_of(PANEL, j->n - p * PANEL);
        int8_t *to = packed + (p - first) * bytes;
        if (j->row == 1)
            j->f->pack_columns(columns, j->k, from, j->column, to, less[p - first]);
        else
            j->f->pack_rows(columns, j->k, from, j->row, to, less[p - first]);
        if (!j->flip)
            memset(less[p - first], 0, sizeof less[0]);
    }
    for (int64_t top = 0; top < j->m; top += j->block)
        for (int64_t p = first; p < last; p++)
            for (int64_t i = top; i < td_least_of(j->m, top + j->block); i += j->at_once)
                multiply_rows(j, i, p, packed + (p - first) * bytes, less[p - first]);
}

static void some_panels(void *context, int64_t first, int64_t last)
{
    job *j = context;
    const int64_t all = (j->n + PANEL - 1) / PANEL;
    const size_t bytes = (size_t)(j->panels * j->steps * TD_BYTES_STEP_OF_PANEL);
    int8_t *packed = td_mem_alloc(bytes);
    if (!packed) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    if (j->at_once == TD_BYTES_TILES)
        j->f->begin_tiles();
    for (int64_t at = first; at < last; at++)
        multiply_panels(j, at * j->panels, td_least_of(all, (at + 1) * j->panels), packed);
    if (j->at_once == TD_BYTES_TILES)
        j->f->end_tiles();
    td_mem_free(packed, bytes);
}

/* -1: no memory */
static int multiply(job *j)
{
    const int64_t count = (j->n + PANEL - 1) / PANEL, threads = td_num_threads();
    const int64_t rows = (j->m + j->at_once - 1) / j->at_once * j->at_once;
    j->steps = td_most_of(1, (j->k + STEP - 1) / STEP);
    j->ldx = j->steps * STEP + (j->steps % 4 ? 0 : STEP);       /* rows multiples of 256 bytes apart share few sets of the first cache */
    j->panels = td_most_of(1, td_least_of(ROOM / (j->steps * TD_BYTES_STEP_OF_PANEL), (count + threads - 1) / threads));
    j->block = td_most_of(j->at_once, ROWS_ROOM / j->ldx / j->at_once * j->at_once);
    const size_t bytes = (size_t)(rows * j->ldx), more = sizeof *j->step * (size_t)j->steps;
    j->copy = td_mem_alloc(bytes), j->step = td_mem_alloc(more);
    j->failed = !j->copy || !j->step;
    if (!j->failed) {
        for (int64_t s = 0; s < j->steps; s++)
            j->step[s] = (td_bytes_step){s * STEP, STEP / 4};
        td_parallel_for(0, j->m, (1 << 16) / j->ldx + 1, copy_rows, j);
        const int64_t work = (j->m + 8) * j->ldx * j->panels * PANEL, grain = 1 << 21;
        td_parallel_for(0, (count + j->panels - 1) / j->panels, work > grain ? 1 : grain / work + 1, some_panels, j);
    }
    if (j->copy)
        td_mem_free(j->copy, bytes);
    if (j->step)
        td_mem_free(j->step, more);
    return j->failed ? -1 : 0;
}

int td_cpu__int_mm(td_tensor *self, td_tensor *mat2, td_tensor *out)
{
    const td_bytes_table *f = TD_ISA_PICK(td_bytes_table);
    if (!out->numel)
        return 0;
    if (!td_packed_multiplies_bytes() || !f->pack_rows) {
        TD_AUTO td_tensor *a = td_to(self, TD_I32), *b = td_to(mat2, TD_I32), *product = td_mm(a, b);
        return product ? td_write_back(out, product) : -1;
    }
    const bool lies = mat2->strides[0] == 1 || mat2->strides[1] == 1;
    TD_AUTO td_tensor *x = td_make_contiguous(self), *w = lies ? td_tensor_retain(mat2) : td_make_contiguous(mat2), *to = td_writable(out, TD_I32);
    if (!x || !w || !to)
        return -1;
    job j = {.x = (const int8_t *)x->data, .w = (const int8_t *)w->data, .m = self->sizes[0], .n = mat2->sizes[1], .k = self->sizes[1],
             .row = w->strides[0], .column = w->strides[1], .y = (int32_t *)to->data, .flip = self->dtype == TD_I8 ? 0x80 : 0, .f = f};
    j.at_once = td_packed_multiplies_tiles() && f->tiles && j.m >= FEW ? TD_BYTES_TILES : TD_BYTES_ROWS;
    if (multiply(&j))
        return td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a product of bytes");
    return td_write_back(out, to);
}
