/* softmax, log_softmax and their backward passes: operands made contiguous, slices shared out to threads.
 *
 * Shapes and dtypes were checked in src/ops/nn/softmax.c.  Forward, half types go through float32 some rows at a time; a whole copy
 * would cost more than the exponentials.  Results written past the caches: 5 to 20 % faster on one thread, slower on two. */
#include "calls_kernels_cpu_nn_softmax.h"
#include <tede/modes.h>
#include "kernels/cpu/loops/half_rows.h"
#include "kernels/cpu/nn/softmax.h"

/* Tasks of a slice of `outer`. */
static int64_t blocks_of(const td_softmax_job *job) { return td_ceil_div(job->inner, TD_SOFTMAX_COLUMNS); }

/* Rows of halves that became floats: a row is a slice of `outer`, all its blocks of columns. */
static void forward_floats(const void *job, float *block, int64_t from, int64_t to)
{
    td_softmax_job own = *(const td_softmax_job *)job;
    own.x = own.y = block;
    const int64_t blocks = blocks_of(&own);
    TD_ISA_PICK(td_softmax_table)->forward[0](&own, from * blocks, to * blocks);
}

/* x as [outer][n][inner] around the dimension.  Tasks are blocks of columns of a slice, a whole row where inner is 1; what one
 * computes depends on its own numbers only.  Backward, x is the result. */
static int run(bool backward, bool log, int64_t dim, td_tensor *x, td_tensor *grad, td_tensor *out)
{
    td_dtype type = td_compute_dtype(x);
    int d = td_wrap_dim(dim, x->ndim ? x->ndim : 1);
    if (d < 0)
        return -1;
    if (out->numel == 0)
        return 0;
    td_softmax_job job = {.n = x->ndim ? x->sizes[d] : 1, .inner = 1, .log = log};
    int64_t outer = 1;
    for (int i = 0; i < x->ndim; i++)
        if (i < d)
            outer *= x->sizes[i];
        else if (i > d)
            job.inner *= x->sizes[i];
    job.columns = job.inner != 1 || (d + 1 < x->ndim && td_batch_invariant());
    if (!backward && td_takes_half_rows(x, out, job.n * job.inner))
        return td_run_half_rows(x, out, job.n * job.inner, 8, forward_floats, &job);
    TD_AUTO td_tensor *from = td_operand(x, type), *slopes = td_operand(grad, type), *to = td_target(out, type);
    if (!from || !slopes || !to)
        return -1;
    job.x = from->data, job.grad = td_data_or_null(slopes), job.y = to->data;
    const td_softmax_table *table = TD_ISA_PICK(td_softmax_table);
    td_loop_body *body = (backward ? table->backward : table->forward)[type == TD_F64];
    const int64_t wide = job.inner < TD_SOFTMAX_COLUMNS ? job.inner : TD_SOFTMAX_COLUMNS;
    td_parallel_for(0, outer * blocks_of(&job), td_grain(8 * job.n * wide), body, &job);
    return td_finish(out, to);
}

int td_cpu__softmax(td_tensor *self, int64_t dim, bool half_to_float, td_tensor *out)
{
    (void)half_to_float;
    return run(false, false, dim, self, TD_NONE, out);
}

int td_cpu__log_softmax(td_tensor *self, int64_t dim, bool half_to_float, td_tensor *out)
{
    (void)half_to_float;
    return run(false, true, dim, self, TD_NONE, out);
}

int td_cpu__softmax_backward_data(td_tensor *grad, td_tensor *output, int64_t dim, td_dtype input_dtype, td_tensor *out)
{
    (void)input_dtype;
    return run(true, false, dim, output, grad, out);
}

int td_cpu__log_softmax_backward_data(td_tensor *grad, td_tensor *output, int64_t dim, td_dtype input_dtype,
                                      td_tensor *out)
{
    (void)input_dtype;
    return run(true, true, dim, output, grad, out);
}
