/* Products with weights of few bits as torchao passes them: blocks of rows of weights are shared out, all of x meets each of them. */
#include "calls_kernels_cpu_packed_weights.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/packed/weights.h"

enum { BLOCK = TD_WEIGHTS_BLOCK };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
/* Tasks of so much work that are worth a thread. */
static int64_t grain(int64_t work) { return work > 1 << 15 ? 1 : (1 << 15) / (work + 1) + 1; }

/* ---- codes of four bits: of 64 rows and one column 32 bytes, row j in the low nibble of byte j and row j + 32 in the high one; of
 * the rows that are left over neighbours share a byte */

typedef struct packing {
    const int32_t *from;
    uint8_t       *to;
    int64_t        n, k;
} packing;

static void pack_blocks(void *context, int64_t first, int64_t last)
{
    const packing *p = context;
    for (int64_t b = first; b < last; b++) {
        const int64_t rows = least(p->n - b * BLOCK, BLOCK), half = rows / 2;
        const int64_t apart = rows == BLOCK ? half : 1, step = rows == BLOCK ? 1 : 2;
        const int32_t *from = p->from + b * BLOCK * p->k;
        uint8_t *to = p->to + b * (BLOCK / 2) * p->k;
        for (int64_t c = 0; c < p->k; c++)
            for (int64_t j = 0; j < half; j++)
                to[c * half + j] = (uint8_t)((uint32_t)from[j * step * p->k + c] | (uint32_t)from[(j * step + apart) * p->k + c] << 4);
    }
}

int td_cpu__convert_weight_to_int4pack_for_cpu(td_tensor *self, int64_t innerKTiles, td_tensor *out)
{
    (void)innerKTiles;
    TD_AUTO td_tensor *from = td_make_contiguous(self), *to = td_writable(out, TD_U8);
    if (!from || !to)
        return -1;
    packing p = {(const int32_t *)from->data, (uint8_t *)to->data, self->sizes[0], self->sizes[1]};
    td_parallel_for(0, (p.n + BLOCK - 1) / BLOCK, grain(BLOCK * p.k), pack_blocks, &p);
    return td_write_back(out, to);
}

/* ---- products */

typedef struct job {
    int64_t      m, n, k, group;
    const float *x, *scales;
    const void  *w;
    float       *y;
    /* of rows that are quantized on the way */
    const int16_t *q;
    const float   *by, *bias;
} job;

static void int4_blocks(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    for (int64_t b = first; b < last; b++)
        TD_ISA_PICK(td_weights_table)->int4(j->m, least(j->n - b * BLOCK, BLOCK), j->k, j->group, j->x,
                                            (const uint8_t *)j->w + b * (BLOCK / 2) * j->k, j->scales + 2 * b * BLOCK, 2 * j->n,
                                            j->y + b * BLOCK, j->n);
}
static void int8_blocks(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    for (int64_t b = first; b < last; b++)
        TD_ISA_PICK(td_weights_table)->int8(j->m, least(j->n - b * BLOCK, BLOCK), j->k, j->x, (const int8_t *)j->w + b * BLOCK * j->k,
                                            j->scales + b * BLOCK, j->y + b * BLOCK, j->n);
}

/* Runs `blocks` over all rows of weights, with x, scales and results of floats. */
static int product(job *j, td_loop_body *blocks, td_tensor *x, td_tensor *scales, td_tensor *out)
{
    TD_AUTO td_tensor *floats = td_as_contiguous(x, TD_F32), *numbers = td_as_contiguous(scales, TD_F32), *to = td_writable(out, TD_F32);
    if (!floats || !numbers || !to)
        return -1;
    j->x = (const float *)floats->data, j->scales = (const float *)numbers->data, j->y = (float *)to->data;
    td_parallel_for(0, (j->n + BLOCK - 1) / BLOCK, grain(j->m * BLOCK * j->k), blocks, j);
    return td_write_back(out, to);
}

int td_cpu__weight_int4pack_mm_for_cpu(td_tensor *self, td_tensor *mat2, int64_t qGroupSize, td_tensor *qScaleAndZeros, td_tensor *out)
{
    job j = {.m = self->sizes[0], .n = mat2->sizes[0], .k = self->sizes[1], .group = qGroupSize, .w = mat2->data};
    return product(&j, int4_blocks, self, qScaleAndZeros, out);
}

int td_cpu__weight_int8pack_mm(td_tensor *self, td_tensor *mat2, td_tensor *scales, td_tensor *out)
{
    job j = {.m = self->sizes[0], .n = mat2->sizes[0], .k = self->sizes[1], .w = mat2->data};
    return product(&j, int8_blocks, self, scales, out);
}

static void dynamic_rows(void *context, int64_t first, int64_t last)
{
    const job *j = context;
    for (int64_t r = first; r < last; r++)
        TD_ISA_PICK(td_weights_table)->dynamic(j->m, j->k, j->group, j->q, j->by, (const uint8_t *)j->w + r * (j->k / 2),
                                               j->scales + r * (j->k / j->group), j->bias ? j->bias[r] : 0, j->y + r, j->n);
}

int td_cpu__dyn_quant_matmul_4bit(td_tensor *inp, td_tensor *packed_weights, int64_t block_size, int64_t in_features, int64_t out_features,
                                  td_tensor *out)
{
    const int64_t m = inp->sizes[0], k = in_features, n = out_features, bytes = n * (k / 2), scales = n * (k / block_size);
    TD_AUTO td_tensor *x = td_as_contiguous(inp, TD_F32), *packed = td_make_contiguous(packed_weights), *to = td_writable(out, TD_F32);
    const size_t room = (size_t)m * ((size_t)k * 2 + 4) + (size_t)bytes;
    char *block = x && packed && to ? td_mem_alloc(room + 1) : NULL;
    if (!block)
        return x && packed && to ? td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a product of packed weights") : -1;
    float *by = (float *)block;
    int16_t *q = (int16_t *)(by + m);
    uint8_t *codes = (uint8_t *)(q + m * k);
    const float *floats = (const float *)packed->data;
    for (int64_t i = 0; i < m; i++)
        by[i] = TD_ISA_PICK(td_weights_table)->quantize(k, (const float *)x->data + i * k, q + i * k);
    for (int64_t i = 0; i < bytes; i++)         /* they come as floats, which any number may be */
        codes[i] = floats[i] >= 0 && floats[i] <= 255 ? (uint8_t)floats[i] : 0;
    job j = {.m = m, .n = n, .k = k, .group = block_size, .w = codes, .scales = floats + bytes, .y = (float *)to->data, .q = q, .by = by,
             .bias = packed->numel > bytes + scales ? floats + bytes + scales : NULL};
    td_parallel_for(0, n, grain(m * k), dynamic_rows, &j);
    td_mem_free(block, room + 1);
    return td_write_back(out, to);
}
