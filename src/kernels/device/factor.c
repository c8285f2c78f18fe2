/* Launches of factor.ck. */
#include "kernels/device/factor.h"
#include <string.h>
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
/* Where a group of work items takes longer for a matrix than the CPU does with its copies. */
enum { MOST_COLUMNS = 128, MOST_ROWS = 8192 };

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

static int reflections(const td_factor_call *c, td_tensor *a, td_tensor *taus, td_tensor *q, td_tensor *info, bool positive)
{
    const factor_values v = {.batch = c->batch, .m = c->m, .n = c->n, .k = q == TD_NONE ? 0 : c->k, .unit = positive};
    td_launch_of launch = launch_of("factor_qr", FACTOR_QR, &v, a, v.batch);
    launch.buffers[0] = a, launch.buffers[1] = taus, launch.buffers[2] = q, launch.buffers[3] = info;
    return td_launch(&launch);
}

int td_reflections_by_kernels(const td_factor_call *c, td_tensor *a, td_tensor *taus, td_tensor *q, td_tensor *info)
{
    return reflections(c, a, taus, q, info, false);
}

static int factor_lu(const td_factor_call *c, td_tensor *a, td_tensor *pivots, td_tensor *info)
{
    const factor_values v = {.batch = c->batch, .m = c->m, .n = c->n};
    td_launch_of launch = launch_of("factor_lu", FACTOR_LU, &v, a, v.batch);
    launch.buffers[0] = a, launch.buffers[1] = pivots, launch.buffers[2] = info;
    return td_launch(&launch);
}

/* U is the Q of what Jacobi's method leaves, columns that are orthogonal already: those that are 0 get a direction there. */
static int by_jacobi(const td_factor_call *c, const td_factor_tensors *x)
{
    const bool values_only = c->kind == TD_FACTOR_EIGH;
    const td_dtype dtype = (td_dtype)x->a->dtype;
    const int64_t squares = c->batch * c->n * c->n, columns = c->batch * c->n, numbers = c->batch * c->m * c->n;
    factor_values v = {.batch = c->batch, .m = c->m, .n = c->n, .backward = values_only, .upper = c->upper, .row = 1, .column = c->n};
    if (c->n > MOST_COLUMNS || c->m > MOST_ROWS)
        return td_leave_to_cpu("eigenvalues and singular values of large matrices, which the device has no library for");
    if (!values_only)
        v.row = c->n, v.column = 1, v.conjugate = true;
    const td_device device = x->a->device;
    TD_AUTO td_tensor *vectors = td_tensor_new(1, &squares, dtype, device);
    TD_AUTO td_tensor *lengths = td_tensor_new(1, &columns, (td_dtype)x->values->dtype, device);
    TD_AUTO td_tensor *sorted = values_only ? td_tensor_retain(x->a) : td_tensor_new(1, &numbers, dtype, device);
    TD_AUTO td_tensor *to = values_only ? td_tensor_retain(x->a) : x->vt ? td_tensor_retain(x->vt)
                                                                         : td_tensor_new(1, &squares, dtype, device);
    if (!vectors || !lengths || !sorted || !to)
        return -1;
    td_launch_of launch = launch_of("factor_jacobi", FACTOR_JACOBI, &v, x->a, v.batch);
    td_tensor *const buffers[] = {x->a, vectors, lengths, x->values, sorted, to, x->info};
    memcpy(launch.buffers, buffers, sizeof buffers);
    if (td_launch(&launch))
        return -1;
    if (values_only || !c->vectors)
        return 0;
    const int64_t least = c->batch * (c->m < c->n ? c->m : c->n);
    TD_AUTO td_tensor *taus = td_tensor_new(1, &least, dtype, device), *info = td_tensor_new(1, &c->batch, TD_I32, device);
    td_factor_call of_u = *c;
    of_u.k = c->full ? c->m : c->n;
    return taus && info ? reflections(&of_u, sorted, taus, x->b, info, true) : -1;
}

int td_factor_by_kernels(const td_factor_call *c, const td_factor_tensors *x)
{
    const int64_t least = c->batch * (c->m < c->n ? c->m : c->n);
    switch (c->kind) {
    case TD_FACTOR_EIGH:
    case TD_FACTOR_SVD:
        return by_jacobi(c, x);
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
    }
    return td_error(TD_E_RUNTIME, "there is no factorization %d", (int)c->kind);
}
