/* ctc_loss: checks, the forms of its arguments, and the reduction.
 *
 * Targets are a matrix with a row per sample, or one after the other in a vector.
 *
 * Connectionist temporal classification (Graves et al., 2006); the recursion over states is in
 * src/kernels/cpu/nn/ctc.c. Lengths are read here, on the host, because shapes and checks depend on them. */
#include "calls_ops_nn_ctc.h"
#include <inttypes.h>
#include <math.h>
#include <tede/kernel.h>
#include "ops/compose.h"
#include "tensor/checked.h"
#include "tensor/device.h"

static const char *const where = "(while checking arguments for ctc_loss_allocate_outputs)";

/* log_probs is [steps, batch, classes]. *longest gets the longest target's length. Lengths of targets are added with
 * saturation: in a vector they must make up all of it. */
static int check(td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input, int64_t n_target,
                 const int64_t *target, int64_t blank, int64_t *longest)
{
    if (log_probs->numel == 0)
        return td_error(TD_E_RUNTIME, "log_probs tensor must not be empty");
    if (log_probs->ndim != 3)
        return td_error(TD_E_RUNTIME, "Expected 3-dimensional tensor, but got %d-dimensional tensor for argument #1 'log_probs' "
                        "%s", log_probs->ndim, where);
    if (targets->dtype != TD_I64 && targets->dtype != TD_I32)
        return td_error(TD_E_RUNTIME, "Expected tensor for argument #2 'targets' to have one of the following scalar types: "
                        "Long, Int; but got %s instead %s", td_dtype_title((td_dtype)targets->dtype), where);
    int64_t steps = log_probs->sizes[0], batch = log_probs->sizes[1], total = 0;
    if (blank < 0 || blank >= log_probs->sizes[2])
        return td_error(TD_E_RUNTIME, "blank must be in label range");
    if (n_input != batch)
        return td_error(TD_E_RUNTIME, "input_lengths must be of size batch_size");
    if (n_target != batch)
        return td_error(TD_E_RUNTIME, "target_lengths must be of size batch_size");
    if (targets->ndim != 1 && targets->ndim != 2)
        return td_error(TD_E_RUNTIME, "Expected 1 to 2 dimensions, but got %d-dimensional tensor for argument #2 'targets' %s",
                        targets->ndim, where);
    *longest = 0;
    for (int64_t i = 0; i < batch; i++) {
        if (target[i] < 0)
            return td_error(TD_E_RUNTIME, "Expected target_lengths to have value at least 0, but got value %" PRId64 " %s",
                            target[i], where);
        total = td_add_saturated(total, target[i]);
        *longest = target[i] > *longest ? target[i] : *longest;
    }
    int64_t wanted = targets->ndim == 1 ? total : batch;
    if (targets->sizes[0] != wanted)
        return td_error(TD_E_RUNTIME, "Expected tensor to have size %" PRId64 " at dimension 0, but got size %" PRId64 " for "
                        "argument #2 'targets' %s", wanted, targets->sizes[0], where);
    if (targets->ndim == 2 && targets->sizes[1] < *longest)
        return td_error(TD_E_RUNTIME, "Expected tensor to have size at least %" PRId64 " at dimension 1, but got size %" PRId64
                        " for argument #2 'targets' %s", *longest, targets->sizes[1], where);
    for (int64_t i = 0; i < batch; i++)
        if (input[i] < 0 || input[i] > steps)
            return td_error(TD_E_RUNTIME, "Expected input_lengths to have value at %s %" PRId64 ", but got value %" PRId64 " %s",
                            input[i] < 0 ? "least" : "most", input[i] < 0 ? 0 : steps, input[i], where);
    return log_probs->dtype == TD_F32 || log_probs->dtype == TD_F64 ? 0
        : td_error(TD_E_NOT_IMPLEMENTED, "\"ctc_loss_cpu\" not implemented for '%s'",
                   td_dtype_title((td_dtype)log_probs->dtype));
}

/* A target of n labels has 2 n + 1 states: a blank before, between and after them. The second result is log alpha for
 * each. */
int td_meta__ctc_loss(td_spec *specs, td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input,
                      int64_t n_target, const int64_t *target, int64_t blank, bool zero_infinity)
{
    (void)zero_infinity;
    int64_t longest = 0;
    if (check(log_probs, targets, n_input, input, n_target, target, blank, &longest))
        return -1;
    const int64_t batch = log_probs->sizes[1];
    td_spec_set(&specs[0], 1, &batch, (td_dtype)log_probs->dtype, log_probs->device);
    return td_spec_set(&specs[1], 3, (int64_t[]){batch, log_probs->sizes[0], 2 * longest + 1}, (td_dtype)log_probs->dtype,
                       log_probs->device);
}

int td_meta__ctc_loss_backward(td_spec *specs, td_tensor *grad, td_tensor *log_probs, td_tensor *targets, int64_t n_input,
                               const int64_t *input, int64_t n_target, const int64_t *target, td_tensor *nll,
                               td_tensor *log_alpha, int64_t blank, bool zero_infinity)
{
    td_spec made[2];
    if (td_meta__ctc_loss(made, log_probs, targets, n_input, input, n_target, target, blank, zero_infinity))
        return -1;
    const char *op = "_ctc_loss_backward";
    if (td_check_numel(op, "grad", grad, made[0].sizes[0]) || td_check_numel(op, "neg_log_likelihood", nll, made[0].sizes[0]) ||
        td_check_numel(op, "log_alpha", log_alpha, td_spec_numel(&made[1])))
        return -1;
    return td_spec_like(specs, log_probs);
}

/* The numbers of a tensor of lengths, contiguous, on the CPU. */
static td_tensor *lengths(const char *name, td_tensor *x)
{
    if (x->dtype == TD_BOOL || td_is_floating(x) || td_is_complex(x))
        return td_fail(TD_E_RUNTIME, "%s must be integral", name);
    if (x->device.type == TD_META)
        return td_fail(TD_E_NOT_IMPLEMENTED, "_ctc_loss: %s are read, so they can't be on meta", name);
    TD_AUTO td_tensor *numbers = td_as_contiguous(x, TD_I64);
    if (numbers && td_tensor_is_hollow(numbers))
        return td_fail(TD_E_RUNTIME, "_ctc_loss: %s are read: Cannot access data pointer of Tensor that doesn't have storage; pass them as "
                       "integers", name);
    return td_on_host(numbers);
}

int td_op__ctc_loss_tensor(td_tensor **results, td_tensor *log_probs, td_tensor *targets, td_tensor *input_lengths,
                           td_tensor *target_lengths, int64_t blank, bool zero_infinity)
{
    TD_AUTO td_tensor *input = lengths("input_lengths", input_lengths);
    TD_AUTO td_tensor *target = input ? lengths("target_lengths", target_lengths) : NULL;
    return !target ? -1
        : td__ctc_loss(results, log_probs, targets, input->numel, (int64_t *)input->data, target->numel,
                       (int64_t *)target->data, blank, zero_infinity);
}

/* [steps, classes] is a single sample. The mean divides each loss by its target's length (by 1 for an empty one) and
 * then averages over the batch, as PyTorch's does; on meta only its shape matters. zero_infinity replaces the losses
 * of targets that don't fit their inputs, and the kernel their gradients. */
td_tensor *td_op_ctc_loss_intlist(td_tensor *log_probs, td_tensor *targets, int64_t n_input, const int64_t *input,
                                  int64_t n_target, const int64_t *target, int64_t blank, int64_t reduction,
                                  bool zero_infinity)
{
    enum { NONE, MEAN, SUM };
    bool batched = log_probs->ndim == 3;
    TD_AUTO td_tensor *wide = batched ? td_ref(log_probs) : td_unsqueeze(log_probs, 1);
    TD_AUTO td_tensor *rows = batched || targets->ndim != 1 ? td_ref(targets) : td_unsqueeze(targets, 0);
    TD_AUTO td_tensor *labels = td_to_dtype(rows, TD_I64, false, false, TD_MEMORY_FORMAT_NONE);
    td_tensor *results[2];
    if (!wide || !labels ||
        td__ctc_loss(results, wide, labels, n_input, input, n_target, target, blank, zero_infinity))
        return NULL;
    td_tensor_release(results[1]);
    TD_AUTO td_tensor *each = results[0];
    if (zero_infinity) {
        TD_AUTO td_tensor *infinity = td_wrapped_number(td_float(INFINITY)), *zero = td_wrapped_number(td_int(0));
        TD_AUTO td_tensor *impossible = td_eq_tensor(each, infinity);
        td_tensor *finite = td_where_self(impossible, zero, each);
        td_tensor_release(each);
        each = finite;
    }
    if (reduction == SUM)
        return td_sum_all(each, TD_DTYPE_NONE);
    if (reduction != MEAN)
        return batched || !each ? td_ref(each) : td_squeeze_dim(each, 0);
    if (log_probs->device.type == TD_META)
        return td_mean_all(each, TD_DTYPE_NONE);
    TD_AUTO td_tensor *counts = td_tensor_new(1, &n_target, (td_dtype)log_probs->dtype, (td_device){TD_CPU, -1});
    if (!counts)
        return NULL;
    for (int64_t i = 0; i < n_target; i++) {
        double count = target[i] > 1 ? (double)target[i] : 1;
        if (counts->dtype == TD_F64)
            ((double *)counts->data)[i] = count;
        else
            ((float *)counts->data)[i] = (float)count;
    }
    TD_AUTO td_tensor *there = td_is_outside(log_probs->device) ? td_device_copy(counts, log_probs->device) : td_ref(counts);
    TD_AUTO td_tensor *per_label = td_div_tensor(each, there);
    return td_mean_all(per_label, TD_DTYPE_NONE);
}

td_tensor *td_op_ctc_loss_tensor(td_tensor *log_probs, td_tensor *targets, td_tensor *input_lengths,
                                 td_tensor *target_lengths, int64_t blank, int64_t reduction, bool zero_infinity)
{
    TD_AUTO td_tensor *input = lengths("input_lengths", input_lengths);
    TD_AUTO td_tensor *target = input ? lengths("target_lengths", target_lengths) : NULL;
    return !target ? NULL
        : td_op_ctc_loss_intlist(log_probs, targets, input->numel, (int64_t *)input->data, target->numel,
                                 (int64_t *)target->data, blank, reduction, zero_infinity);
}
