/* A few float32 operators with hand-made nodes, so that autograd's machinery is tested without the generated ones.
 * They also stand in for what the machinery calls (src/autograd/needs.h). */
#ifndef TD_TESTS_TOY_OPS_H
#define TD_TESTS_TOY_OPS_H
#include <math.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include "autograd/needs.h"
#include <tede/foreign.h>
#include "autograd/node.h"
#include "dispatch/outputs.h"
#include "dispatch/writes.h"

#define CPU ((td_device){TD_CPU, -1})

static inline td_tensor *made(td_tensor *like) { return td_tensor_new(like->ndim, like->sizes, TD_F32, CPU); }

/* Element i in logical order. */
static inline float *at(const td_tensor *x, int64_t i)
{
    int64_t offset = 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        offset += i % x->sizes[d] * x->strides[d];
        i /= x->sizes[d];
    }
    return (float *)x->data + offset;
}

/* a and b have one shape, or b has one element. */
#define EACH(result, expression)                                    \
    for (int64_t i = 0; i < (result)->numel; i++) {                 \
        *at(result, i) = (expression);                              \
    }
#define B(b) (*at(b, (b)->numel == 1 ? 0 : i))

/* Finish a recorded call: node may be NULL (failed). */
static inline td_tensor *recorded(td_node *node, td_tensor *result)
{
    if (!node || !result || td_set_history(result, node, 0) != 0) {
        td_node_release(node);
        td_tensor_release(result);
        return NULL;
    }
    td_node_release(node);
    return result;
}

/* ---- scale: x * factor */
static td_tensor *scale(td_tensor *x, double factor);
static int scale_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    results[0] = scale(grads[0], *(double *)node->state);
    return results[0] ? 0 : -1;
}
static const td_node_type scale_type = {.name = "ScaleBackward0", .apply = scale_apply};

static inline td_tensor *scale(td_tensor *x, double factor)
{
    td_tensor *y = x ? made(x) : NULL;
    if (!y)
        return NULL;
    EACH(y, *at(x, i) * (float)factor)
    if (!td_wants_grad(x))
        return y;
    td_node *node = td_node_new(&scale_type, 1, 1, 0, sizeof(double));
    if (node)
        *(double *)node->state = factor;
    if (node && td_node_connect(node, 0, x) != 0) {
        td_node_release(node);
        node = NULL;
    }
    return recorded(node, y);
}

/* In place. */
static inline int scale_(td_tensor *x, double factor)
{
    td_node *node = NULL;
    int status = 0;
    if (td_wants_grad(x)) {
        if (td_check_inplace(x, "scale_") != 0 || !(node = td_node_new(&scale_type, 1, 1, 0, sizeof(double))))
            return -1;
        *(double *)node->state = factor;
        status = td_node_connect(node, 0, x);
    }
    if (status == 0) {
        EACH(x, *at(x, i) * (float)factor)
        td_wrote(x, "scale_");
        if (node)
            status = td_rebase_history(x, node, 0);
    }
    td_node_release(node);
    return status;
}

/* ---- add */
static int add_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    for (int i = 0; i < 2; i++)
        if (td_node_wants(node, i))
            results[i] = td_tensor_retain(grads[0]);
    return 0;
}
static const td_node_type add_type = {.name = "AddBackward0", .apply = add_apply};

static inline td_tensor *add(td_tensor *a, td_tensor *b)
{
    td_tensor *y = a && b ? made(a) : NULL;
    if (!y)
        return NULL;
    EACH(y, *at(a, i) + B(b))
    if (!td_wants_grad(a) && !td_wants_grad(b))
        return y;
    td_node *node = td_node_new(&add_type, 2, 1, 0, 0);
    if (node && (td_node_connect(node, 0, a) != 0 || td_node_connect(node, 1, b) != 0)) {
        td_node_release(node);
        node = NULL;
    }
    return recorded(node, y);
}

/* ---- mul: saves both operands */
static td_tensor *mul(td_tensor *a, td_tensor *b);
static int mul_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    for (int i = 0; i < 2; i++)
        if (td_node_wants(node, i)) {
            TD_AUTO td_tensor *other = td_node_saved(node, 1 - i);
            if (!other || !(results[i] = mul(grads[0], other)))
                return -1;
        }
    return 0;
}
static const td_node_type mul_type = {.name = "MulBackward0", .apply = mul_apply};

/* `kept`: what to save for a. */
static inline td_node *mul_node(td_tensor *a, td_tensor *b, td_tensor *kept)
{
    td_node *node = td_node_new(&mul_type, 2, 1, 2, 0);
    if (node && (td_node_connect(node, 0, a) != 0 || td_node_connect(node, 1, b) != 0 ||
                 (td_node_wants(node, 0) && td_node_save(node, 1, b) != 0) ||
                 (td_node_wants(node, 1) && td_node_save(node, 0, kept) != 0))) {
        td_node_release(node);
        return NULL;
    }
    return node;
}

static inline td_tensor *mul(td_tensor *a, td_tensor *b)
{
    td_tensor *y = a && b ? made(a) : NULL;
    if (!y)
        return NULL;
    EACH(y, *at(a, i) * B(b))
    if (!td_wants_grad(a) && !td_wants_grad(b))
        return y;
    return recorded(mul_node(a, b, a), y);
}

static inline int mul_(td_tensor *a, td_tensor *b)
{
    td_node *node = NULL;
    int status = 0;
    if (td_wants_grad(a) || td_wants_grad(b)) {
        TD_AUTO td_tensor *old = td_need_copy_of(a, NULL);
        if (!old || td_check_inplace(a, "mul_") != 0 || !(node = mul_node(a, b, old)))
            return -1;
    }
    EACH(a, *at(a, i) * B(b))
    td_bump_version(a);
    if (node)
        status = td_rebase_history(a, node, 0);
    td_node_release(node);
    return status;
}

/* ---- exp: saves its result */
static int exp_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    TD_AUTO td_tensor *y = td_node_saved(node, 0);
    results[0] = y ? mul(grads[0], y) : NULL;
    return results[0] ? 0 : -1;
}
static const td_node_type exp_type = {.name = "ExpBackward0", .apply = exp_apply};

static inline td_tensor *exponential(td_tensor *x)
{
    td_tensor *y = x ? made(x) : NULL;
    if (!y)
        return NULL;
    EACH(y, expf(*at(x, i)))
    if (!td_wants_grad(x))
        return y;
    td_node *node = td_node_new(&exp_type, 1, 1, 1, 0);
    if (node && (td_node_connect(node, 0, x) != 0 || td_node_save_result(node, 0, y, 0) != 0)) {
        td_node_release(node);
        node = NULL;
    }
    return recorded(node, y);
}

/* ---- slice: a view of elements [from, from + n) of a 1-dim tensor */
typedef struct slice_state { int64_t size, from; } slice_state;
static int slice_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    const slice_state *s = node->state;
    td_tensor *whole = td_need_zeros(1, &s->size, NULL, TD_F32, CPU);
    if (!whole)
        return -1;
    for (int64_t i = 0; i < grads[0]->numel; i++)
        *at(whole, s->from + i) = *at(grads[0], i);
    results[0] = whole;
    return 0;
}
static const td_node_type slice_type = {.name = "SliceBackward0", .apply = slice_apply};

static inline td_tensor *slice(td_tensor *x, int64_t from, int64_t n)
{
    td_tensor *y = td_view_strided(x, 1, &n, x->strides, from * x->strides[0]);
    if (!y || !td_wants_grad(x))
        return y;
    td_node *node = td_node_new(&slice_type, 1, 1, 0, sizeof(slice_state));
    if (node) {
        *(slice_state *)node->state = (slice_state){x->sizes[0], from};
        if (td_node_connect(node, 0, x) != 0) {
            td_node_release(node);
            node = NULL;
        }
    }
    return recorded(node, y);
}

/* ---- sum of all elements, of shape [] */
typedef struct sum_state { int64_t size; } sum_state;
static int sum_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    const sum_state *s = node->state;
    TD_AUTO td_tensor *zeros = td_need_zeros(1, &s->size, NULL, TD_F32, CPU);
    results[0] = zeros ? add(zeros, grads[0]) : NULL;
    return results[0] ? 0 : -1;
}
static const td_node_type sum_type = {.name = "SumBackward0", .apply = sum_apply};

static inline td_tensor *total(td_tensor *x)
{
    td_tensor *y = x ? td_tensor_new(0, NULL, TD_F32, CPU) : NULL;
    if (!y)
        return NULL;
    float sum = 0;
    for (int64_t i = 0; i < x->numel; i++)
        sum += *at(x, i);
    *at(y, 0) = sum;
    if (!td_wants_grad(x))
        return y;
    td_node *node = td_node_new(&sum_type, 1, 1, 0, sizeof(sum_state));
    if (node) {
        ((sum_state *)node->state)->size = x->numel;
        if (td_node_connect(node, 0, x) != 0) {
            td_node_release(node);
            node = NULL;
        }
    }
    return recorded(node, y);
}

/* ---- making */
static inline td_tensor *vector(int n, const float *values, bool requires_grad)
{
    int64_t size = n;
    td_tensor *x = td_tensor_new(1, &size, TD_F32, CPU);
    for (int i = 0; x && i < n; i++)
        ((float *)x->data)[i] = values[i];
    if (x && requires_grad && td_set_requires_grad(x, true) != 0) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}
#define VECTOR(...) vector(TD_COUNT(((float[]){__VA_ARGS__})), (float[]){__VA_ARGS__}, false)
#define LEAF(...)   vector(TD_COUNT(((float[]){__VA_ARGS__})), (float[]){__VA_ARGS__}, true)

/* Whether x's elements are these. */
static inline bool is(const td_tensor *x, int n, const float *values)
{
    if (!x || x->numel != n)
        return false;
    for (int i = 0; i < n; i++)
        if (fabsf(*at(x, i) - values[i]) > 1e-5f * (1 + fabsf(values[i])))
            return false;
    return true;
}
#define CHECK_IS(x, ...) CHECK(is(x, TD_COUNT(((float[]){__VA_ARGS__})), (float[]){__VA_ARGS__}))

static inline int backward(td_tensor *root) { return td_backward(1, &root, NULL, false, false); }

/* ---- what the machinery calls */
td_tensor *td_need_add(td_tensor *a, td_tensor *b) { return add(a, b); }
int        td_need_add_(td_tensor *a, td_tensor *b)
{
    EACH(a, *at(a, i) + *at(b, i))
    td_bump_version(a);
    return 0;
}
td_tensor *td_need_zeros_beside(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides)
{
    return td_need_zeros(ndim, sizes, strides, x->dtype, CPU);
}
td_tensor *td_need_zeros(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype, td_device device)
{
    td_tensor *x = strides ? td_tensor_new_strided(ndim, sizes, strides, dtype, device) : td_tensor_new(ndim, sizes, dtype, device);
    if (x)
        memset(x->storage->data, 0, x->storage->nbytes);
    return x;
}
td_tensor *td_need_ones_like(td_tensor *x)
{
    td_tensor *y = made(x);
    for (int64_t i = 0; y && i < y->numel; i++)
        *at(y, i) = 1;
    return y;
}
td_tensor *td_need_copy_of(td_tensor *x, const int64_t *strides)
{
    td_tensor *y = td_tensor_new_strided(x->ndim, x->sizes, strides ? strides : x->strides, TD_F32, CPU);
    if (y)
        EACH(y, *at(x, i))
    return y;
}
td_tensor *td_need_clone(td_tensor *x) { return scale(x, 1); }
td_tensor *td_need_as_strided(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    return td_view_strided(x, ndim, sizes, strides, offset);
}
td_tensor *td_need_detach(td_tensor *x) { return td_tensor_alias(x, false); }
int        td_need_copy_(td_tensor *to, td_tensor *from)
{
    EACH(to, *at(from, i))
    td_bump_version(to);
    return 0;
}
td_tensor *td_need_sum_to_size(td_tensor *x, int ndim, const int64_t *sizes)
{
    td_tensor *y = td_need_zeros(ndim, sizes, NULL, TD_F32, CPU);
    for (int64_t i = 0; y && i < x->numel; i++)
        *at(y, y->numel == 1 ? 0 : i % y->numel) += *at(x, i);
    return y;
}
td_tensor *td_need_convert(td_tensor *x, td_dtype dtype)
{
    td_tensor *y = td_tensor_new(x->ndim, x->sizes, dtype, CPU);
    for (int64_t i = 0; y && i < x->numel; i++)
        *at(y, i) = (float)((double *)x->data)[i];
    return y;
}
td_tensor *td_need_real(td_tensor *x) { return td_tensor_retain(x); }
td_tensor *td_need_as_strided_backward(td_tensor *grad, int base_ndim, const int64_t *base_sizes, const int64_t *base_strides,
                                       int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    td_tensor *whole = td_need_zeros(base_ndim, base_sizes, base_strides, TD_F32, CPU);
    td_tensor *part = whole ? td_view_strided(whole, ndim, sizes, strides, offset) : NULL;
    for (int64_t i = 0; part && i < part->numel; i++)
        *at(part, i) += *at(grad, i);
    if (!part) {
        td_tensor_release(whole);
        return NULL;
    }
    td_tensor_release(part);
    return whole;
}
int td_need_has_nan(td_tensor *x)
{
    for (int64_t i = 0; i < x->numel; i++)
        if (isnan(*at(x, i)))
            return 1;
    return 0;
}

#endif
