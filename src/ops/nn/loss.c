/* Losses: an elementwise formula, then a reduction.
 *
 * Several formulas are pointwise operators (squared_error, binary_entropy, ...), whose derivatives are in their
 * entries. The others, and those of operands of several dtypes, are composed as PyTorch composes them, for the same
 * promotion. The losses of class numbers have kernels. reduction is PyTorch's number: 0 none, 1 mean, 2 sum. */
#include "calls_ops_nn_loss.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/nn/loss.h"

enum { NONE, MEAN, SUM };

/* The mean over nothing is 0 / 0, NaN, as in PyTorch; a number that stands for no reduction is none. */
static td_tensor *reduce(td_tensor *x, int64_t reduction)
{
    if (!x)
        return NULL;
    if (reduction == SUM)
        return td_sum_all(x, TD_DTYPE_NONE);
    if (reduction != MEAN)
        return td_ref(x);
    if (td_dtype_is_integral((td_dtype)x->dtype))
        return td_fail(TD_E_RUNTIME, "mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
                       "dtype. Got: %s", td_dtype_title((td_dtype)x->dtype));
    /* The sum of half types may be beyond their range, the mean isn't. */
    bool half = x->dtype == TD_F16 || x->dtype == TD_BF16;
    TD_AUTO td_tensor *sum = td_sum_all(x, half ? TD_F32 : TD_DTYPE_NONE);
    TD_AUTO td_tensor *count = td_wrapped_number(td_float((double)x->numel));
    TD_AUTO td_tensor *mean = td_div_tensor(sum, count);
    return half ? td_to_dtype(mean, (td_dtype)x->dtype, false, false, TD_MEMORY_FORMAT_NONE) : td_ref(mean);
}

td_tensor *td_op_mse_loss(td_tensor *self, td_tensor *target, int64_t reduction)
{
    TD_AUTO td_tensor *error = td_squared_error(self, target);
    return reduce(error, reduction);
}

td_tensor *td_op_l1_loss(td_tensor *self, td_tensor *target, int64_t reduction)
{
    TD_AUTO td_tensor *difference = td_minus(self, target);
    TD_AUTO td_tensor *error = td_abs(difference);
    return reduce(error, reduction);
}

/* e^2 / (2 beta) for |e| < beta, else |e| - beta / 2; without a curved part it is the absolute error. */
td_tensor *td_op_smooth_l1_loss(td_tensor *self, td_tensor *target, int64_t reduction, double beta)
{
    if (!(beta >= 0))
        return td_fail(TD_E_RUNTIME, "smooth_l1_loss does not support negative values for beta.");
    if (beta == 0)
        return td_op_l1_loss(self, target, reduction);
    TD_AUTO td_tensor *error = td_smooth_error(self, target, beta);
    return reduce(error, reduction);
}

/* smooth_l1_loss times delta, as a separate formula. The dtype is self's, to which a wider target's result is cast
 * if that is possible. */
td_tensor *td_op_huber_loss(td_tensor *self, td_tensor *target, int64_t reduction, double delta)
{
    if (!(delta > 0))
        return td_fail(TD_E_RUNTIME, "huber_loss does not support non-positive values for delta.");
    const td_dtype common = td_result_type(2, (td_tensor *[]){self, target});
    if (common == TD_DTYPE_NONE || td_check_cast("huber_loss", common, (td_dtype)self->dtype))
        return NULL;
    TD_AUTO td_tensor *error = td_huber_error(self, target, delta);
    if (!error)
        return NULL;
    TD_AUTO td_tensor *own = td_to(error, (td_dtype)self->dtype);      /* as if it had been written to a tensor like self */
    return reduce(own, reduction);
}

/* Probabilities outside [0, 1] are an error, and NaN, which equals nothing: one look at all elements, those of all members
 * of a batch. */
static int check_probabilities(td_tensor *x)
{
    if (x->device.type != TD_CPU || !td_is_floating(x))
        return 0;
    TD_AUTO td_tensor *still = td_detach(x);
    TD_AUTO td_tensor *inside = td_clamp(still, &(td_scalar){TD_SCALAR_INT, {.i = 0}, 0}, &(td_scalar){TD_SCALAR_INT, {.i = 1}, 0});
    TD_AUTO td_tensor *same = td_eq(still, inside);
    TD_AUTO td_tensor *all = td__is_all_true(same);
    td_scalar fine;
    if (!all || td_tensor_item(all, &fine))
        return -1;
    return td_scalar_bool(fine) ? 0 : td_error(TD_E_RUNTIME, "all elements of input should be between 0 and 1");
}

/* Operands of a composite that PyTorch has no derivative for, though their parts have one.
 * PyTorch leaves them out of its derivatives and raises where one is asked for. */
static int refuse_grad(const char *op, const char *argument, td_tensor *x)
{
    return x != TD_NONE && td_grad_enabled() && td_requires_grad(x) ? td_refuse_grad(op, argument) : 0;
}

td_tensor *td_op_binary_cross_entropy(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction)
{
    if (refuse_grad("binary_cross_entropy", "weight", weight))
        return NULL;
    const td_tensor *others[] = {target, weight};
    for (int i = 0; i < 2; i++)
        if (others[i] != TD_NONE && others[i]->dtype != self->dtype)
            return td_fail(TD_E_RUNTIME, "Found dtype %s but expected %s", td_dtype_title((td_dtype)others[i]->dtype),
                           td_dtype_title((td_dtype)self->dtype));
    if (!td_is_floating(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"binary_cross_entropy\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    if (check_probabilities(self))
        return NULL;
    TD_AUTO td_tensor *entropy = td_binary_entropy(self, target);
    TD_AUTO td_tensor *weighted = weight == TD_NONE ? td_ref(entropy) : td_mul_tensor(entropy, weight);
    return reduce(weighted, reduction);
}

/* Of several dtypes: in that of target, step by step.
 * (1 - t) x - (1 + (pos_weight - 1) t) log(sigmoid(x)): finite for logits of any size. */
static td_tensor *entropy_of_target(td_tensor *self, td_tensor *target, td_tensor *pos_weight)
{
    TD_AUTO td_tensor *logs = td_log_sigmoid(self);
    if (pos_weight != TD_NONE) {
        TD_AUTO td_tensor *more = td_plus(pos_weight, td_int(-1));
        TD_AUTO td_tensor *product = td_mul_tensor(more, target);
        TD_AUTO td_tensor *factor = td_plus(product, td_int(1));
        TD_AUTO td_tensor *plain = td_ref(logs);
        td_tensor_release(logs);
        logs = td_mul_tensor(plain, factor);
    }
    TD_AUTO td_tensor *loss = logs ? td_rsub_scalar(target, td_int(1), td_int(1)) : NULL;
    if (!loss || td_mul_tensor_(loss, self) || td_sub_tensor_(loss, logs, td_int(1)))
        return NULL;
    return td_ref(loss);
}

td_tensor *td_op_binary_cross_entropy_with_logits(td_tensor *self, td_tensor *target, td_tensor *weight,
                                                  td_tensor *pos_weight,
                                                  int64_t reduction)
{
    if (refuse_grad("binary_cross_entropy_with_logits", "weight", weight) ||
        refuse_grad("binary_cross_entropy_with_logits", "pos_weight", pos_weight))
        return NULL;
    const bool same = self->dtype == target->dtype && td_is_floating(self) &&
                      (pos_weight == TD_NONE || pos_weight->dtype == self->dtype);
    TD_AUTO td_tensor *entropy = !same ? entropy_of_target(self, target, pos_weight)
        : pos_weight == TD_NONE ? td_logit_entropy(self, target)
        : td_weighted_logit_entropy(self, target, pos_weight);
    if (!entropy || td_check_inplace_result("binary_cross_entropy_with_logits", target, entropy))      /* target isn't broadcast */
        return NULL;
    TD_AUTO td_tensor *weighted = weight == TD_NONE ? td_ref(entropy) : td_mul_tensor(entropy, weight);
    return reduce(weighted, reduction);
}

/* t (log t - x), where t log t is 0 at 0 (xlogy); with log_target exp(t) (t - x). self holds log probabilities.
 * "batchmean" is done in Python. */
td_tensor *td_op_kl_div(td_tensor *self, td_tensor *target, int64_t reduction, bool log_target)
{
    if (!td_is_floating(target))
        return td_fail(TD_E_RUNTIME, "kl_div: %s inputs not supported.", td_is_complex(target) ? "Complex" : "Integral");
    if (self->dtype == target->dtype) {
        TD_AUTO td_tensor *error = log_target ? td_log_divergence(self, target) : td_divergence(self, target);
        return reduce(error, reduction);
    }
    TD_AUTO td_tensor *first = log_target ? td_exp(target) : td_xlogy_tensor(target, target);
    TD_AUTO td_tensor *second = log_target ? td_minus(target, self) : td_mul_tensor(target, self);
    TD_AUTO td_tensor *error = log_target ? td_mul_tensor(first, second) : td_minus(first, second);
    return reduce(error, reduction);
}

/* log(1 + exp(-t x)). The composed form overflows to infinity for large ones, and has PyTorch's dtypes; the pointwise
 * one is used where dtypes agree. */
td_tensor *td_op_soft_margin_loss(td_tensor *self, td_tensor *target, int64_t reduction)
{
    if (refuse_grad("soft_margin_loss", "target", target))
        return NULL;
    if (reduction != NONE && reduction != SUM)      /* any other number is a mean here */
        reduction = MEAN;
    if (self->dtype == target->dtype && td_is_floating(self)) {
        TD_AUTO td_tensor *error = td_margin_error(self, target);
        return reduce(error, reduction);
    }
    TD_AUTO td_tensor *x = td_neg(self);        /* in self's dtype, whatever target's is */
    if (!x || td_mul_tensor_(x, target))
        return NULL;
    TD_AUTO td_tensor *power = td_exp(x);
    TD_AUTO td_tensor *error = td_log1p(power);
    return reduce(error, reduction);
}

/* a where target is `at`, else 0 Of a target that is neither 1 nor -1 the losses keep no term with where_target, both
 * with unless_target. */
static td_tensor *where_target(td_tensor *target, double at, td_tensor *a)
{
    TD_AUTO td_tensor *value = td_wrapped_number(td_float(at)), *zero = a ? td_zeros_like(a) : NULL;
    TD_AUTO td_tensor *is = td_eq_tensor(target, value);
    return td_where_self(is, a, zero);
}

/* a where target is anything else, else 0 */
static td_tensor *unless_target(td_tensor *target, double at, td_tensor *a)
{
    TD_AUTO td_tensor *value = td_wrapped_number(td_float(at)), *zero = a ? td_zeros_like(a) : NULL;
    TD_AUTO td_tensor *is = td_eq_tensor(target, value);
    return td_where_self(is, zero, a);
}

/* x where t is 1, max(0, margin - x) where it is -1. For other targets both arms count, which is how PyTorch writes
 * it. */
td_tensor *td_op_hinge_embedding_loss(td_tensor *self, td_tensor *target, double margin, int64_t reduction)
{
    TD_AUTO td_tensor *shifted = td_full_like(self, td_float(margin), TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);      /* in self's dtype */
    if (!shifted || td_sub_tensor_(shifted, self, td_int(1)))
        return NULL;
    TD_AUTO td_tensor *clamped = td_clamp_min(shifted, td_int(0));
    TD_AUTO td_tensor *negative = unless_target(target, 1, clamped), *positive = unless_target(target, -1, self);
    TD_AUTO td_tensor *error = td_add_tensor(negative, positive, td_int(1));
    return reduce(error, reduction);
}

/* max(0, -t (x1 - x2) + margin) */
td_tensor *td_op_margin_ranking_loss(td_tensor *input1, td_tensor *input2, td_tensor *target, double margin,
                                     int64_t reduction)
{
    TD_AUTO td_tensor *opposite = td_neg(target), *difference = td_minus(input1, input2);
    TD_AUTO td_tensor *product = td_mul_tensor(opposite, difference);
    TD_AUTO td_tensor *shifted = td_plus(product, td_float(margin));
    TD_AUTO td_tensor *error = td_clamp_min(shifted, td_int(0));
    return reduce(error, reduction);
}

static td_tensor *dot_last(td_tensor *a, td_tensor *b, int64_t dim)
{
    TD_AUTO td_tensor *product = td_mul_tensor(a, b);
    return td_sum_over(product, 1, &dim, false);
}

/* 1 - cos where t is 1, max(0, cos - margin) where it is -1, else 0. eps is added to the squares, as in PyTorch, so
 * vectors of zeros have the cosine 0. */
td_tensor *td_op_cosine_embedding_loss(td_tensor *input1, td_tensor *input2, td_tensor *target, double margin,
                                       int64_t reduction)
{
    const double eps = 1e-12;
    if (target->ndim > 1)
        return td_fail(TD_E_RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
    if (target->ndim == 1 && (input1->ndim != 2 || input2->ndim != 2))
        return td_fail(TD_E_RUNTIME, "1D target tensor expects 2D input tensors, but found inputs with sizes of %d and %d dimensions.",
                       input1->ndim, input2->ndim);
    if (target->ndim == 0 && (input1->ndim != 1 || input2->ndim != 1))
        return td_fail(TD_E_RUNTIME, "0D target tensor expects 1D input tensors, but found inputs with sizes of %d and %d dimensions.",
                       input1->ndim, input2->ndim);
    int64_t dim = target->ndim;
    TD_AUTO td_tensor *product = dot_last(input1, input2, dim);
    TD_AUTO td_tensor *square1 = dot_last(input1, input1, dim), *square2 = dot_last(input2, input2, dim);
    TD_AUTO td_tensor *s1 = td_plus(square1, td_float(eps)), *s2 = td_plus(square2, td_float(eps));
    TD_AUTO td_tensor *denominator = td_mul_tensor(s1, s2);
    TD_AUTO td_tensor *scale = td_rsqrt(denominator);
    TD_AUTO td_tensor *cosine = td_mul_tensor(product, scale);
    TD_AUTO td_tensor *opposite = td_neg(cosine);
    TD_AUTO td_tensor *distance = td_plus(opposite, td_float(1)), *over = td_plus(cosine, td_float(-margin));
    TD_AUTO td_tensor *clamped = td_clamp_min(over, td_int(0));
    TD_AUTO td_tensor *positive = where_target(target, 1, distance), *negative = where_target(target, -1, clamped);
    TD_AUTO td_tensor *error = td_add_tensor(positive, negative, td_int(1));
    return reduce(error, reduction);
}

/* max(0, |a - p| - |a - n| + margin) (Schroff et al., FaceNet, 2015). swap takes the nearer one of anchor and
 * positive to the negative (Balntas et al., 2016). */
td_tensor *td_op_triplet_margin_loss(td_tensor *anchor, td_tensor *positive, td_tensor *negative, double margin,
                                     double p, double eps,
                                     bool swap, int64_t reduction)
{
    if (anchor->ndim != positive->ndim || positive->ndim != negative->ndim)
        return td_fail(TD_E_RUNTIME, "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
                       "but got: anchor %dD, positive %dD, and negative %dD inputs", anchor->ndim, positive->ndim,
                       negative->ndim);
    TD_AUTO td_tensor *near = td_pairwise_distance(anchor, positive, p, eps, false);
    TD_AUTO td_tensor *far = td_pairwise_distance(anchor, negative, p, eps, false);
    TD_AUTO td_tensor *other = swap ? td_pairwise_distance(positive, negative, p, eps, false) : td_ref(far);
    TD_AUTO td_tensor *least = swap ? td_minimum(far, other) : td_ref(far);
    TD_AUTO td_tensor *difference = td_minus(near, least);
    TD_AUTO td_tensor *shifted = td_plus(difference, td_float(margin));
    TD_AUTO td_tensor *error = td_clamp_min(shifted, td_int(0));
    return reduce(error, reduction);
}

/* exp(x) - t x, or x - t log(x + eps) if x is the rate itself; `full` adds the term that depends on the target alone. */
td_tensor *td_op_poisson_nll_loss(td_tensor *input, td_tensor *target, bool log_input, bool full, double eps,
                                  int64_t reduction)
{
    TD_AUTO td_tensor *rate = log_input ? td_exp(input) : td_ref(input);
    TD_AUTO td_tensor *safe = log_input ? td_ref(TD_NONE) : td_plus(input, td_float(eps));
    TD_AUTO td_tensor *logs = log_input ? td_ref(input) : td_log(safe);
    TD_AUTO td_tensor *product = td_mul_tensor(target, logs);
    TD_AUTO td_tensor *error = td_minus(rate, product);
    if (!full)
        return reduce(error, reduction);
    /* Stirling's approximation of log(target!), where it matters. */
    TD_AUTO td_tensor *log_t = td_log(target);
    TD_AUTO td_tensor *t_log_t = td_mul_tensor(target, log_t), *scaled = td_times(target, td_float(6.283185307179586));
    TD_AUTO td_tensor *log_scaled = td_log(scaled);
    TD_AUTO td_tensor *half = td_times(log_scaled, td_float(0.5)), *first = td_minus(t_log_t, target);
    TD_AUTO td_tensor *stirling = td_add_tensor(first, half, td_int(1)),
    *zero = stirling ? td_zeros_like(stirling) : NULL;
    TD_AUTO td_tensor *one = td_wrapped_number(td_int(1));
    TD_AUTO td_tensor *small = td_le_tensor(target, one);
    TD_AUTO td_tensor *term = td_where_self(small, zero, stirling);
    if (!error || !term || td_add_tensor_(error, term, td_int(1)))
        return NULL;
    return reduce(error, reduction);
}

/* The length of x, at least eps; the gradient is the length's own, 0 where x is 0.
 * lift is detached from the graph: it raises the value to eps and leaves the derivative as it is, where a clamp would
 * cut it off. */
static td_tensor *safe_norm(td_tensor *x, int64_t dim, double eps)
{
    TD_AUTO td_tensor *norm = td_linalg_vector_norm(x, td_float(2), 1, &dim, true, TD_DTYPE_NONE), *plain = td_detach(norm);
    TD_AUTO td_tensor *least = td_clamp_min(plain, td_float(eps)), *lift = td_minus(least, plain);
    return td_add_tensor(norm, lift, td_int(1));
}

/* Each vector is divided by its own length, which keeps the product within [-1, 1] up to rounding; PyTorch does it in
 * this order, too. */
td_tensor *td_op_cosine_similarity(td_tensor *x1, td_tensor *x2, int64_t dim, double eps)
{
    td_dtype type = td_promote_types((td_dtype)x1->dtype, (td_dtype)x2->dtype);
    if (type == TD_DTYPE_NONE)
        return NULL;
    if (!td_dtype_is_floating(type))
        return td_fail(TD_E_RUNTIME, "expected common dtype to be floating point, yet common dtype is %s",
                       td_dtype_title(type));
    if (!(eps >= 0))
        return td_fail(TD_E_RUNTIME, "cosine_similarity: eps must be non-negative, got: %g", eps);
    TD_AUTO td_tensor *a = td_to_dtype(x1, type, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *b = td_to_dtype(x2, type, false, false, TD_MEMORY_FORMAT_NONE);
    int64_t sizes[TD_MAX_DIMS];
    if (!a || !b)
        return NULL;
    int ndim = td_broadcast_shape("cosine_similarity", 2, (td_tensor *[]){a, b}, sizes);
    if (ndim < 0)
        return NULL;
    TD_AUTO td_tensor *wide_a = td_expand(a, ndim, sizes), *wide_b = td_expand(b, ndim, sizes);
    TD_AUTO td_tensor *norm_a = safe_norm(wide_a, dim, eps), *norm_b = safe_norm(wide_b, dim, eps);
    TD_AUTO td_tensor *unit_a = td_div_tensor(wide_a, norm_a), *unit_b = td_div_tensor(wide_b, norm_b);
    return dot_last(unit_a, unit_b, dim);
}

td_tensor *td_op_pairwise_distance(td_tensor *x1, td_tensor *x2, double p, double eps, bool keepdim)
{
    /* eps keeps the gradient finite where the two are equal; it is added before the norm. */
    TD_AUTO td_tensor *difference = td_minus(x1, x2);
    TD_AUTO td_tensor *shifted = td_plus(difference, td_float(eps));
    if (!shifted || shifted->ndim == 0)
        return shifted ? td_abs(shifted) : NULL;
    return td_linalg_vector_norm(shifted, td_float(p), 1, (int64_t[]){-1}, keepdim, TD_DTYPE_NONE);
}

/* ---- losses of class numbers ------------------------------------------------------------------------------------- */

/* self is [N, C, d1, ...] and target [N, d1, ...], or [C] and one number. The values of target are checked by the
 * kernel, which also knows the index to ignore. */
int td_check_classes(td_tensor *self, td_tensor *target, td_tensor *weight)
{
    td_shape_text a, b;
    int class_dim = self->ndim == 1 ? 0 : 1;
    if (self->ndim < 1)
        return td_error(TD_E_VALUE, "Expected 1 or more dimensions (got 0)");
    if (self->ndim != 1 && (target->ndim < 1 || self->sizes[0] != target->sizes[0]))
        return td_error(TD_E_VALUE, "Expected input batch_size (%" PRId64 ") to match target batch_size (%" PRId64 ").", self->sizes[0],
                        target->ndim ? target->sizes[0] : 1);
    if (self->ndim == 1 && target->ndim == 1 && target->sizes[0] != 1)
        return td_error(TD_E_VALUE, "For 1D input, 1D target must have size 1, but got target size: %" PRId64, target->sizes[0]);
    bool same = self->ndim == 1 ? target->ndim <= 1 && target->numel == 1 : target->ndim == self->ndim - 1;
    for (int i = 2; same && i < self->ndim; i++)
        same = self->sizes[i] == target->sizes[i - 1];
    if (!same && self->ndim <= 2)
        return td_error(TD_E_RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
    if (!same)
        return td_error(TD_E_RUNTIME, "Expected target size %s to match input %s without its classes",
                        td_shape_str(target->ndim, target->sizes, a), td_shape_str(self->ndim, self->sizes, b));
    if (target->dtype != TD_I64 && target->dtype != TD_U8)
        return td_error(TD_E_RUNTIME, "expected target dtype to be Long or Byte, but got %s",
                        td_dtype_title((td_dtype)target->dtype));
    if (weight != TD_NONE && (weight->ndim != 1 || weight->numel != self->sizes[class_dim]))
        return td_error(TD_E_RUNTIME, "weight tensor should be defined either for all %" PRId64 " classes or no classes but got weight "
                        "tensor of shape: %s", self->sizes[class_dim], td_shape_str(weight->ndim, weight->sizes, a));
    if (weight != TD_NONE && weight->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)self->dtype),
                        td_dtype_title((td_dtype)weight->dtype));
    if (!td_is_floating(self))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"nll_loss_out_frame\" not implemented for '%s'",
                        td_dtype_title((td_dtype)self->dtype));
    return 0;
}

/* The second result is the sum of the weights that a mean divides by, which the backward pass needs again. */
int td_meta_nll_loss_forward(td_spec *specs, td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
                             int64_t ignore)
{
    (void)ignore;
    if (td_check_classes(self, target, weight))
        return -1;
    td_spec_set(&specs[1], 0, NULL, (td_dtype)self->dtype, self->device);
    if (reduction == NONE && self->ndim > 1)
        return td_spec_set(&specs[0], target->ndim, target->sizes, (td_dtype)self->dtype, self->device);
    return td_spec_set(&specs[0], 0, NULL, (td_dtype)self->dtype, self->device);
}

int td_meta_nll_loss_backward(td_spec *specs, td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight,
                              int64_t reduction, int64_t ignore, td_tensor *total)
{
    const char *op = "nll_loss_backward";
    td_spec made[2];
    if (td_meta_nll_loss_forward(made, self, target, weight, reduction, ignore) || td_check_numel(op, "total_weight", total, 1) ||
        td_check_numel(op, "grad_output", grad, td_spec_numel(made)))
        return -1;
    return td_spec_like(specs, self);
}

td_tensor *td_op_nll_loss_nd(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction, int64_t ignore)
{
    td_tensor *results[2];
    if (td_nll_loss_forward(results, self, target, weight, reduction, ignore))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}

/* log_softmax and nll_loss in one pass over each row. The second result is each row's logarithm of the sum of
 * exponentials, the third the mean's divisor; both in float32 at least, as the backward pass starts from them. */
int td_meta_cross_entropy_rows(td_spec *specs, td_tensor *self, td_tensor *target, td_tensor *weight,
                               int64_t reduction, int64_t ignore,
                               double smoothing)
{
    (void)ignore, (void)smoothing;
    if (td_check_classes(self, target, weight))
        return -1;
    td_dtype wide = self->dtype == TD_F64 ? TD_F64 : TD_F32;
    td_spec_set(&specs[1], 1, self->sizes, wide, self->device);
    td_spec_set(&specs[2], 0, NULL, wide, self->device);
    return td_spec_set(&specs[0], reduction == NONE, self->sizes, (td_dtype)self->dtype, self->device);
}

int td_meta_cross_entropy_rows_backward(td_spec *specs, td_tensor *grad, td_tensor *self, td_tensor *target,
                                        td_tensor *weight,
                                        td_tensor *lse, td_tensor *total, int64_t reduction, int64_t ignore,
                                        double smoothing)
{
    const char *op = "cross_entropy_rows_backward";
    td_spec made[3];
    if (td_meta_cross_entropy_rows(made, self, target, weight, reduction, ignore, smoothing) || td_check_numel(op, "total", total, 1) ||
        td_check_numel(op, "lse", lse, td_spec_numel(&made[1])) || td_check_numel(op, "grad", grad, td_spec_numel(made)))
        return -1;
    return td_spec_like(specs, self);
}

int td_meta_cross_entropy_targets(td_spec *specs, td_tensor *self, td_tensor *target, td_tensor *weight,
                                  int64_t ignore, double smoothing)
{
    td_spec made[3];
    return td_meta_cross_entropy_rows(made, self, target, weight, NONE, ignore, smoothing) ? -1 : td_spec_like(specs, self);
}

/* cross_entropy_targets gives the row that smoothing makes of each class number, weights included and 0 where the
 * number is to be ignored; that row doesn't depend on self. */
td_tensor *td_op_cross_entropy_grad(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight,
                                    td_tensor *lse,
                                    td_tensor *total, int64_t reduction, int64_t ignore, double smoothing)
{
    if (!TD_RECORDS(grad, self, lse))
        return td_cross_entropy_rows_backward(grad, self, target, weight, lse, total, reduction, ignore, smoothing);
    /* d loss / d x = p * (sum of the row's target weights) - (target weights) */
    TD_AUTO td_tensor *weights = td_cross_entropy_targets(self, target, weight, ignore, smoothing);
    TD_AUTO td_tensor *rows = td_sum_over(weights, 1, (int64_t[]){1}, true);
    TD_AUTO td_tensor *p = td_softmax_int(self, 1, TD_DTYPE_NONE);
    TD_AUTO td_tensor *scaled = td_mul_tensor(p, rows);
    TD_AUTO td_tensor *slope = td_minus(scaled, weights);
    TD_AUTO td_tensor *g = reduction == NONE ? td_unsqueeze(grad, 1) : td_ref(grad);
    TD_AUTO td_tensor *dx = td_mul_tensor(slope, g);
    return reduction == MEAN ? td_div_tensor(dx, total) : td_ref(dx);
}

/* The loss's slope times t, summed over what the loss was summed over: a mean's divisor is in the slope. */
td_tensor *td_op_cross_entropy_tangent(td_tensor *t, td_tensor *self, td_tensor *target, td_tensor *weight, td_tensor *result,
                                       td_tensor *lse, td_tensor *total, int64_t reduction, int64_t ignore, double smoothing)
{
    TD_AUTO td_tensor *ones = td_ones_like(result);
    TD_AUTO td_tensor *slope = ones ? td_cross_entropy_grad(ones, self, target, weight, lse, total, reduction, ignore, smoothing) : NULL;
    TD_AUTO td_tensor *product = td_mul_tensor(t, slope);
    return reduction == NONE ? td_sum_over(product, 1, (int64_t[]){-1}, false) : td_sum_all(product, TD_DTYPE_NONE);
}

/* -sum(w t log_softmax(x)) over classes. A mean divides by the number of samples, not by weights, as in PyTorch. */
static td_tensor *entropy_of_probabilities(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
                                           double smoothing)
{
    int64_t dim = self->ndim == 1 ? 0 : 1, n = self->sizes[dim], shape[TD_MAX_DIMS];
    if (weight != TD_NONE && (weight->ndim != 1 || weight->numel != n))
        return td_fail(TD_E_RUNTIME, "cross_entropy: weight tensor should be defined either for all %" PRId64 " classes or no classes", n);
    TD_AUTO td_tensor *logs = td_log_softmax_int(self, dim, TD_DTYPE_NONE);
    TD_AUTO td_tensor *shrunk = smoothing > 0 ? td_times(target, td_float(1 - smoothing)) : td_ref(target);
    TD_AUTO td_tensor *smooth = smoothing > 0 ? td_plus(shrunk, td_float(smoothing / (double)n)) : td_ref(target);
    TD_AUTO td_tensor *product = td_mul_tensor(logs, smooth);
    for (int i = 0; i < self->ndim; i++)
        shape[i] = i == dim ? n : 1;
    TD_AUTO td_tensor *w = weight == TD_NONE ? td_ref(TD_NONE) : td_reshape(weight, self->ndim, shape);
    TD_AUTO td_tensor *weighted = w == TD_NONE ? td_ref(product) : td_mul_tensor(product, w);
    TD_AUTO td_tensor *sum = reduction == NONE ? td_sum_over(weighted, 1, &dim, false) : td_sum_all(weighted,
        TD_DTYPE_NONE);
    TD_AUTO td_tensor *loss = td_neg(sum);
    if (reduction != MEAN)
        return td_ref(loss);
    TD_AUTO td_tensor *count = td_wrapped_number(td_float((double)self->numel / (double)n));
    return td_div_tensor(loss, count);
}

/* A target of self's shape holds probabilities, else class numbers. PyTorch's derivative leaves out weight, whose
 * error is nll_loss's. */
td_tensor *td_op_cross_entropy_loss(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
                                    int64_t ignore,
                                    double smoothing)
{
    if (self->ndim < 1)
        return td_fail(TD_E_VALUE, "Expected 1 or more dimensions (got 0)");
    bool same = self->ndim == target->ndim;
    for (int i = 0; same && i < self->ndim; i++)
        same = self->sizes[i] == target->sizes[i];
    if (!(smoothing >= 0 && smoothing <= 1))
        return td_fail(TD_E_RUNTIME, "label_smoothing must be between 0.0 and 1.0. Got: %g", smoothing);
    if (same) {
        if (!td_is_floating(target))
            return td_fail(TD_E_RUNTIME, "Expected floating point type for target with class probabilities, got %s",
                           td_dtype_title((td_dtype)target->dtype));
        if (ignore >= 0)
            return td_fail(TD_E_RUNTIME, "ignore_index is not supported for floating point target");
        return entropy_of_probabilities(self, target, weight, reduction, smoothing);
    }
    if (td_check_classes(self, target, weight) || refuse_grad("nll_loss_forward", "weight", weight))
        return NULL;
    /* Classes between other dimensions: what is beside them goes through the vectors' lanes. */
    if (self->ndim > 2 && smoothing == 0) {
        TD_AUTO td_tensor *logs = td_log_softmax(self, 1);
        return td_nll_loss_nd(logs, target, weight, reduction, ignore);
    }
    /* Rows of logits: classes go last. */
    int64_t n = self->sizes[self->ndim == 1 ? 0 : 1], order[TD_MAX_DIMS], rows = n ? self->numel / n : target->numel;
    order[0] = 0;
    for (int i = 2; i < self->ndim; i++)
        order[i - 1] = i;
    if (self->ndim > 1)
        order[self->ndim - 1] = 1;
    TD_AUTO td_tensor *classes_last = self->ndim > 2 ? td_permute(self, self->ndim, order) : td_ref(self);
    TD_AUTO td_tensor *x = self->ndim == 2 ? td_ref(self) : td_reshape(classes_last, 2, (int64_t[]){rows, n});
    TD_AUTO td_tensor *t = target->ndim == 1 ? td_ref(target) : td_reshape(target, 1, &rows);
    td_tensor *results[3];
    if (!x || !t || td_cross_entropy_rows(results, x, t, weight, reduction, ignore, smoothing))
        return NULL;
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    if (reduction != NONE || target->ndim == 1)
        return results[0];
    TD_AUTO td_tensor *flat = results[0];
    return td_reshape(flat, target->ndim, target->sizes);
}
