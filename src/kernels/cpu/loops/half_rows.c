/* Rows of halves become floats a block at a time, instead of a whole tensor that goes through memory. */
#include "kernels/cpu/loops/half_rows.h"

enum { BLOCK = 8192, WIDEST = 1 << 17 };       /* numbers of a block, at least a row; of a row, at most */

typedef struct half_rows {
    td_dtype type;
    int64_t width;
    const char *x;
    char *y;
    td_floats_body *body;
    const void *job;
    int failed;
} half_rows;

/* Rows [from, to), BLOCK floats at a time: 32 KB, which stay in the caches between the two conversions and the kernel.  Longer rows
 * have a block from the heap.  Kernels count rows from the first of all, hence block - r * width. */
static void some(void *context, int64_t from, int64_t to)
{
    half_rows *h = context;
    const int64_t width = h->width, most = BLOCK / width > 0 ? BLOCK / width : 1;
    float short_block[BLOCK], *block = width <= BLOCK ? short_block : td_mem_alloc((size_t)width * sizeof(float));
    if (!block) {
        __atomic_store_n(&h->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t r = from, n; r < to; r += n) {
        n = to - r < most ? to - r : most;
        td_convert(TD_F32, block, 4, h->type, h->x + r * width * 2, 2, n * width);
        h->body(h->job, block - r * width, r, r + n);
        td_convert(h->type, h->y + r * width * 2, 2, TD_F32, block, 4, n * width);
    }
    if (block != short_block)
        td_mem_free(block, (size_t)width * sizeof(float));
}

bool td_takes_half_rows(const td_tensor *x, const td_tensor *out, int64_t width)
{
    return (x->dtype == TD_F16 || x->dtype == TD_BF16) && out->dtype == x->dtype && (x->flags & out->flags & TD_FLAG_CONTIGUOUS) &&
           !(x->flags & TD_FLAG_NEG) && width > 0 && width <= WIDEST;
}

int td_run_half_rows(const td_tensor *x, td_tensor *out, int64_t width, int64_t cost, td_floats_body *body, const void *job)
{
    half_rows h = {(td_dtype)x->dtype, width, x->data, out->data, body, job, 0};
    td_parallel_for(0, x->numel / width, td_grain((cost + 2) * width), some, &h);
    return h.failed ? td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a row of %lld numbers", (long long)width) : 0;
}
