/* Launches of factor.ck. */
#include "kernels/device/factor.h"
#define TD_HOST
#include "kernels/device/factor.ck"

TD_SOURCE(factor);

static td_launch_of launch_of(const char *kernel, int kind, const factor_values *v, const td_tensor *a, int64_t units)
{
    const td_dtype dtype = (td_dtype)a->dtype;
    return (td_launch_of){.source = td_source_factor, .kernel = kernel, TD_VALUES(*v), .types = {{"A", dtype}, {"R", td_dtype_is_complex(dtype) ? td_dtype_to_real(dtype) : dtype}},
                          .numbers = {{"KIND", kind}}, .complex = true, .groups = td_launch_many(a->device, units)};
}

/* Matrices in front of the last two dimensions. */
static int64_t count_of(const td_tensor *x)
{
    int64_t count = 1;
    for (int d = 0; d < x->ndim - 2; d++)
        count *= x->sizes[d];
    return count;
}

enum { COLUMNS = 16 };      /* of a right side, for a group */

/* x lies in columns, which are the rows of the tensor. */
static factor_values sides_of(const td_tensor *x)
{
    return (factor_values){.batch = count_of(x), .n = x->sizes[x->ndim - 1], .k = x->sizes[x->ndim - 2], .block = COLUMNS};
}

int td_solve_triangles(const td_triangle *t, td_tensor *x)
{
    factor_values v = sides_of(x);
    v.row = t->transposed ? v.n : 1, v.column = t->transposed ? 1 : v.n;
    v.upper = t->upper != t->transposed, v.unit = t->unit, v.conjugate = t->conjugate;
    if (!x->numel)
        return 0;
    td_launch_of launch = launch_of("factor_triangle", FACTOR_TRIANGLE, &v, x, v.batch * ((v.k + COLUMNS - 1) / COLUMNS));
    launch.buffers[0] = t->matrices, launch.buffers[1] = x;
    return td_launch(&launch);
}

int td_exchange_rows(td_tensor *pivots, td_tensor *x, bool back)
{
    factor_values v = sides_of(x);
    v.m = v.batch ? pivots->numel / v.batch : 0, v.backward = back;
    if (!x->numel)
        return 0;
    td_launch_of launch = launch_of("factor_rows", FACTOR_ROWS, &v, x, 0);
    launch.groups = td_launch_groups(x->device, v.batch * v.k);
    launch.buffers[0] = pivots, launch.buffers[1] = x;
    return td_launch(&launch);
}

int td_reflections_by_kernels(const td_factor_call *c, td_tensor *a, td_tensor *taus, td_tensor *q, td_tensor *info)
{
    const factor_values v = {.batch = c->batch, .m = c->m, .n = c->n, .k = q == TD_NONE ? 0 : c->k};
    td_launch_of launch = launch_of("factor_qr", FACTOR_QR, &v, a, v.batch);
    launch.buffers[0] = a, launch.buffers[1] = taus, launch.buffers[2] = q, launch.buffers[3] = info;
    return td_launch(&launch);
}

static int factor_lu(const td_factor_call *c, td_tensor *a, td_tensor *pivots, td_tensor *info)
{
    const factor_values v = {.batch = c->batch, .m = c->m, .n = c->n};
    td_launch_of launch = launch_of("factor_lu", FACTOR_LU, &v, a, v.batch);
    launch.buffers[0] = a, launch.buffers[1] = pivots, launch.buffers[2] = info;
    return td_launch(&launch);
}

int td_factor_by_kernels(const td_factor_call *c, const td_factor_tensors *x)
{
    const int64_t least = c->batch * (c->m < c->n ? c->m : c->n);
    switch (c->kind) {
    case TD_FACTOR_CHOLESKY: {
        const factor_values v = {.batch = c->batch, .m = c->m, .n = c->n, .upper = c->upper};
        td_launch_of launch = launch_of("factor_cholesky", FACTOR_CHOLESKY, &v, x->a, v.batch);
        launch.buffers[0] = x->a, launch.buffers[1] = x->info;
        return td_launch(&launch);
    }
    case TD_FACTOR_LU:
        return factor_lu(c, x->a, x->pivots, x->info);
    case TD_FACTOR_SOLVE: {
        TD_AUTO td_tensor *pivots = td_tensor_new(1, &least, TD_I32, x->a->device);
        return !pivots || factor_lu(c, x->a, pivots, x->info) || td_exchange_rows(pivots, x->b, false) ||
               td_solve_triangles(&(td_triangle){.matrices = x->a, .unit = true}, x->b) ||
               td_solve_triangles(&(td_triangle){.matrices = x->a, .upper = true}, x->b) ? -1 : 0;
    }
    case TD_FACTOR_QR: {
        TD_AUTO td_tensor *taus = td_tensor_new(1, &least, (td_dtype)x->a->dtype, x->a->device);
        return taus ? td_reflections_by_kernels(c, x->a, taus, x->b, x->info) : -1;
    }
    default:
        return td_leave_to_cpu("eigenvalues and singular values, which the device has no library for");
    }
}
