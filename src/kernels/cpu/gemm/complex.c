/* Complex matrix products by real ones.
 *
 * Rows of a and c are rows of twice as many real numbers, (re, im) after (re, im).  Each row x of b becomes two: alpha x, which
 * meets the real parts of a, and i alpha x, which meets the imaginary ones.  That is as much arithmetic as the complex product
 * has, done by the kernels that real numbers have. */
#include "base/base.h"
#include "kernels/cpu/gemm/gemm.h"

#include <tede/kernel.h>

enum { EXPANDED = 1 << 24 };    /* bytes of b at a time, if there are several */

typedef struct expanding {
    td_dtype dtype;
    int64_t n, k, size, step;   /* step: from one b to the next */
    double _Complex alpha;
    td_matrix b;
    char *to;
} expanding;

static void expand_rows(void *context, int64_t first, int64_t last)
{
    const expanding *e = context;
    const td_gemm_table *table = TD_ISA_PICK(td_gemm_table);
    for (int64_t row = first; row < last; row++) {
        const void *x = (const char *)e->b.data + (row / e->k * e->step + row % e->k * e->b.row) * e->size;
        (e->dtype == TD_C64 ? table->expand_c64 : table->expand_c128)(e->n, x, e->b.column, e->alpha,
                                                                      e->to + row * 2 * e->n * e->size);
    }
}

/* a's rows, each in one piece. */
typedef struct copying { td_dtype dtype; td_matrix a; int64_t k, size; char *to; } copying;

static void copy_rows(void *context, int64_t first, int64_t last)
{
    const copying *c = context;
    for (int64_t i = first; i < last; i++)
        td_convert(c->dtype, c->to + i * c->k * c->size, c->size, c->dtype,
                   (const char *)c->a.data + i * c->a.row * c->size, c->a.column * c->size, c->k);
}

/* m x 2k times 2k x 2n: the expanded b has two real rows per complex one, each of n (re, im) pairs.  It costs 4 k n reals of
 * memory traffic against 8 m n k operations, which is why few rows (TALL in gemm.c) keep the plain loops. */
int td_gemm_complex(td_dtype dtype, int64_t count, int64_t m, int64_t n, int64_t k, double _Complex alpha, td_matrix a,
                    int64_t step_a, td_matrix b, int64_t step_b, double beta, void *c, int64_t ldc, int64_t step_c)
{
    const td_dtype real = dtype == TD_C64 ? TD_F32 : TD_F64;
    const int64_t size = (int64_t)td_dtype_size(dtype), each = 2 * k * n * size;
    int64_t most = step_b == 0 ? 1 : EXPANDED / each;
    most = most < 1 ? 1 : most > count ? count : most;
    const size_t bytes = (size_t)(most * each), bytes_a = a.column == 1 ? 0 : (size_t)(m * k * size);
    char *own = td_mem_alloc(bytes), *rows = bytes_a ? td_mem_alloc(bytes_a) : NULL;
    int status = own && (rows || !bytes_a) ? 0 : -1;
    if (rows && !status) {
        td_parallel_for(0, m, 1 + 16384 / (k + 1), copy_rows, &(copying){dtype, a, k, size, rows});
        a = (td_matrix){rows, k, 1};
    }
    /* A b that stays the same serves all products at once. */
    for (int64_t first = 0, some; first < count && !status; first += some) {
        some = step_b == 0 ? count : count - first < most ? count - first : most;
        expanding job = {dtype, n, k, size, step_b, alpha, {(const char *)b.data + first * step_b * size, b.row, b.column}, own};
        td_parallel_for(0, (step_b == 0 ? 1 : some) * k, 1 + 16384 / (n + 1), expand_rows, &job);
        status = td_gemm_batched(real, some, m, 2 * n, 2 * k, td_int(1),
                                 (td_matrix){(const char *)a.data + first * step_a * size, 2 * a.row, 1}, 2 * step_a,
                                 (td_matrix){own, 2 * n, 1}, step_b == 0 ? 0 : 4 * k * n, td_float(beta),
                                 (char *)c + first * step_c * size, 2 * ldc, 2 * step_c);
    }
    td_mem_free(rows, bytes_a);
    td_mem_free(own, bytes);
    return status;
}
