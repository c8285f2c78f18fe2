/* Distances between rows: of two matrices, by a kernel or, where derivatives are wanted, made of norms; and of one, with a
 * kernel, whose checks and shapes are here.
 *
 * cdist compares all rows of one matrix with all of the other; pdist those of one among themselves, each pair i < j
 * once, in the order (0, 1), (0, 2), ... (n - 2, n - 1). */
#include "calls_ops_linalg_distance.h"
#include <float.h>
#include "ops/compose.h"
#include "tensor/checked.h"
#include "tensor/device.h"

static int check_rows(const td_tensor *x, const char *name)
{
    if (!td_is_floating(x))
        return td_error(TD_E_RUNTIME, "cdist only supports floating-point dtypes, %s got: %s", name, td_dtype_title((td_dtype)x->dtype));
    return x->dtype == TD_F32 || x->dtype == TD_F64 ? 0
        : td_error(TD_E_NOT_IMPLEMENTED, "\"cdist\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
}

int td_meta_pair_distances(td_spec *specs, td_tensor *x1, td_tensor *x2, double p)
{
    if (x1->ndim != 3 || x2->ndim != 3 || x1->sizes[0] != x2->sizes[0] || x1->sizes[2] != x2->sizes[2] || x1->dtype != x2->dtype ||
        (x1->dtype != TD_F32 && x1->dtype != TD_F64) || !(p == 1 || p == 2 || p > DBL_MAX))
        return td_error(TD_E_RUNTIME, "pair_distances: two batches of as many float32 or float64 matrices, and p of 1, 2 or inf");
    return td_spec_set(specs, 3, (int64_t[]){x1->sizes[0], x1->sizes[1], x2->sizes[1]}, (td_dtype)x1->dtype, x1->device);
}

/* By the kernel, which has no derivatives and a few norms; TD_NONE where it isn't for these.
 * The leading dimensions are broadcast and joined to one, which is what the kernel takes. */
static td_tensor *by_kernel(td_tensor *x1, td_tensor *x2, double p)
{
    const bool here = x1->device.type == TD_CPU || (td_has_programs(x1->device) && x1->device.index == x2->device.index);
    const bool plain = here && x1->device.type == x2->device.type && !x1->extra && !x2->extra && x1->dtype == x2->dtype;
    if (!plain || TD_RECORDS(x1, x2) || !(p == 1 || p == 2 || p > DBL_MAX))
        return TD_NONE;
    int64_t batch[TD_MAX_DIMS], shape[TD_MAX_DIMS], count = 1;
    const int n1 = x1->ndim - 2, n2 = x2->ndim - 2, n = n1 > n2 ? n1 : n2;
    for (int d = 0; d < n; d++) {
        const int64_t a = d < n - n1 ? 1 : x1->sizes[d - (n - n1)], b = d < n - n2 ? 1 : x2->sizes[d - (n - n2)];
        if (a != b && a != 1 && b != 1)
            return TD_NONE;                         /* the composed path reports it */
        count *= batch[d] = a == 1 ? b : a;
    }
    memcpy(shape, batch, sizeof *shape * (size_t)n);
    td_tensor *operands[2] = {x1, x2}, *matrices[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        const int64_t *own = operands[k]->sizes + operands[k]->ndim - 2;
        shape[n] = own[0], shape[n + 1] = own[1];
        TD_AUTO td_tensor *all = td_expand(operands[k], n + 2, shape);
        matrices[k] = td_reshape(all, 3, (int64_t[]){count, own[0], own[1]});
    }
    TD_AUTO td_tensor *a = matrices[0], *b = matrices[1];
    TD_AUTO td_tensor *y = td_pair_distances(a, b, p);
    shape[n] = x1->sizes[x1->ndim - 2], shape[n + 1] = x2->sizes[x2->ndim - 2];
    return td_reshape(y, n + 2, shape);
}

/* The norms of all differences.  Without columns there is nothing to take a norm of: the sums of nothing have the shape.
 * mode says when PyTorch may compute Euclidean distances as |a|^2 + |b|^2 - 2 a b by a product of matrices. It is
 * checked and then has no effect: subtracting first loses no digits for rows that are near each other. p = 0 counts
 * the elements that differ. */
td_tensor *td_op_cdist(td_tensor *x1, td_tensor *x2, double p, const int64_t *mode)
{
    int64_t last = -1;
    if (x1->ndim < 2 || x2->ndim < 2)
        return td_fail(TD_E_RUNTIME, "cdist only supports at least 2D tensors, X%d got: %dD", x1->ndim < 2 ? 1 : 2,
                       x1->ndim < 2 ? x1->ndim : x2->ndim);
    if (check_rows(x1, "X1") || check_rows(x2, "X2"))
        return NULL;
    if (x1->sizes[x1->ndim - 1] != x2->sizes[x2->ndim - 1])
        return td_fail(TD_E_RUNTIME, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                       (long long)x1->sizes[x1->ndim - 1], (long long)x2->sizes[x2->ndim - 1]);
    if (!(p >= 0))
        return td_fail(TD_E_RUNTIME, "cdist only supports non-negative p values");
    if (mode && (*mode < 0 || *mode > 2))
        return td_fail(TD_E_RUNTIME, "possible modes: 0, 1, 2, but was: %lld", (long long)*mode);
    if (x1->dtype != x2->dtype && (x1->dtype == TD_F32 || x1->dtype == TD_F64))
        return td_fail(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)x1->dtype), td_dtype_title((td_dtype)x2->dtype));
    td_tensor *done = by_kernel(x1, x2, p);
    if (done != TD_NONE)
        return done;
    TD_AUTO td_tensor *rows = td_unsqueeze(x1, -2);
    TD_AUTO td_tensor *columns = td_unsqueeze(x2, -3);
    TD_AUTO td_tensor *difference = td_minus(rows, columns);
    if (!x1->sizes[x1->ndim - 1])
        return td_sum_over(difference, 1, &last, false);
    TD_AUTO td_tensor *norms = td_linalg_vector_norm(difference, td_float(p), 1, &last, false, TD_DTYPE_NONE);
    if (p != 0)
        return norms ? td_ref(norms) : NULL;
    /* A count, whose gradient is zero, not absent: that of zeros which the differences were overwritten with.  NaN stays. */
    TD_AUTO td_tensor *numbers = td_eq_tensor(difference, difference);
    TD_AUTO td_tensor *zeros = td_masked_fill_scalar(difference, numbers, td_int(0));
    TD_AUTO td_tensor *nothing = td_sum_over(zeros, 1, &last, false);
    return td_add_tensor(norms, nothing, td_int(1));
}

td_tensor *td_op_pdist(td_tensor *self, double p)
{
    if (self->ndim != 2)
        return td_fail(TD_E_RUNTIME, "pdist only supports 2D tensors, got: %dD", self->ndim);
    if (!td_is_floating(self))
        return td_fail(TD_E_RUNTIME, "pdist only supports floating-point dtypes");
    if (!(p >= 0))
        return td_fail(TD_E_RUNTIME, "pdist only supports non-negative p values");
    return td__pdist_forward(self, p);
}

/* n (n - 1) / 2 pairs, of which the even factor is halved first: the product can't overflow without being too large
 * itself. */
int td_meta__pdist_forward(td_spec *specs, td_tensor *self, double p)
{
    (void)p;
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "_pdist_forward requires a matrix, got: %dD", self->ndim);
    if (self->dtype != TD_F32 && self->dtype != TD_F64 && self->sizes[0] > 1 && self->sizes[1] > 0)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"pdist\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    int64_t n = self->sizes[0], pairs = n % 2 ? td_mul_saturated(n, (n - 1) / 2) : td_mul_saturated(n / 2, n - 1);
    return td_spec_set(specs, 1, &pairs, (td_dtype)self->dtype, self->device);
}

int td_meta__pdist_backward(td_spec *specs, td_tensor *grad, td_tensor *self, double p, td_tensor *pdist)
{
    (void)p;
    int64_t n = self->ndim == 2 ? self->sizes[0] : 0, pairs = n * (n - 1) / 2;
    if (self->ndim != 2 || grad->numel != pairs || pdist->numel != pairs || self->dtype != grad->dtype ||
        self->dtype != pdist->dtype)
        return td_error(TD_E_RUNTIME, "_pdist_backward: grad and pdist must have an element for each pair of self's rows");
    if (self->dtype != TD_F32 && self->dtype != TD_F64 && pairs && self->sizes[1])
        return td_error(TD_E_NOT_IMPLEMENTED, "\"pdist_backward\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    return td_spec_like(specs, self);
}
