/* rnnt_loss_forward: the RNN transducer's loss (Graves, Sequence Transduction with Recurrent Neural Networks), with its gradient.
 *
 * A sequence is emitted along a path through a lattice of times x outputs: from (t, u) a blank leads to (t + 1, u), target u to (t, u + 1),
 * and a blank ends it in the last cell. alpha is the log of the likelihood of all paths to a cell, beta of all from it; both are kept in
 * float64 whatever the logits' dtype is. The gradient of a logit follows from the likelihood of paths through its step. */
#include "torchaudio.h"

typedef struct transducer {
    const void      *logits;            /* batch x times x outputs x classes */
    void            *costs, *grads;
    const td_tensor *targets, *times_of, *targets_of;
    int64_t          times, outputs, classes, blank;
    double           clamp;
    bool             softmax;
    double          *room;              /* five tables for each sequence */
} transducer;

typedef struct lattice {
    int64_t        times, outputs;
    const int32_t *targets;
    double        *norm, *skip, *emit, *alpha, *beta;
} lattice;

static lattice lattice_of(const transducer *r, int64_t n)
{
    const int64_t cells = r->times * r->outputs;
    double *room = r->room + n * 5 * cells;
    return (lattice){ta_entry(r->times_of, n), ta_entry(r->targets_of, n) + 1, (const int32_t *)td_tensor_data(r->targets) + n * (r->outputs - 1),
                     room, room + cells, room + 2 * cells, room + 3 * cells, room + 4 * cells};
}

static double log_add(double a, double b)
{
    const double most = a > b ? a : b, least = a > b ? b : a;
    return most == -INFINITY ? most : most + log1p(exp(least - most));
}

/* alpha and beta; the log of the likelihood. */
static double forward_backward(const transducer *r, const lattice *l)
{
    const int64_t across = r->outputs;
    for (int64_t t = 0; t < l->times; t++) {
        for (int64_t u = 0; u < l->outputs; u++) {
            const int64_t at = t * across + u;
            const double skipped = t ? l->alpha[at - across] + l->skip[at - across] : -INFINITY;
            const double emitted = u ? l->alpha[at - 1] + l->emit[at - 1] : -INFINITY;
            l->alpha[at] = at ? log_add(skipped, emitted) : 0;
        }
    }
    for (int64_t t = l->times - 1; t >= 0; t--) {
        for (int64_t u = l->outputs - 1; u >= 0; u--) {
            const int64_t at = t * across + u;
            const double skipped = t < l->times - 1 ? l->beta[at + across] + l->skip[at] : -INFINITY;
            const double emitted = u < l->outputs - 1 ? l->beta[at + 1] + l->emit[at] : -INFINITY;
            l->beta[at] = t == l->times - 1 && u == l->outputs - 1 ? l->skip[at] : log_add(skipped, emitted);
        }
    }
    return l->times ? l->beta[0] : 0;
}

#define T float
#define NAME(x) x##_f32
#include "transducer_loops.h"
#define T double
#define NAME(x) x##_f64
#include "transducer_loops.h"

static META(meta_transducer)
{
    (void)context;
    td_tensor *logits = arguments[0].tensor, *targets = arguments[1].tensor;
    if (td_check_ndim(op, 0, logits, 4) || td_check_dtype_of(op, 0, logits, TD_FLOATS))
        return -1;
    const int64_t batch = size_of(logits, 0), outputs = size_of(logits, 2), classes = size_of(logits, 3);
    if (td_check_argument(op, 0, outputs > 0, "have a place for the end of the targets") ||
        td_check_sizes_of(op, 1, targets, 2, (int64_t[]){batch, outputs - 1}) || td_check_sizes_of(op, 2, arguments[2].tensor, 1, &batch) ||
        td_check_sizes_of(op, 3, arguments[3].tensor, 1, &batch))
        return -1;
    for (int i = 1; i < 4; i++)
        if (td_check_dtype_of(op, i, arguments[i].tensor, TD_DTYPE_BIT(TD_I32)))
            return -1;
    if (arguments[4].integer < 0 || arguments[4].integer >= classes)
        return td_error(TD_E_RUNTIME, "rnnt_loss: blank must be within [0, logits.shape[-1])");
    return td_spec_set(specs, 1, &batch, td_tensor_dtype(logits), td_tensor_device(logits)) || td_spec_like(specs + 1, logits) ? -1 : 0;
}

static int check_values(const transducer *r, int64_t batch)
{
    if (batch && (ta_greatest(r->times_of) != r->times || ta_greatest(r->targets_of) != r->outputs - 1))
        return td_error(TD_E_RUNTIME, "rnnt_loss: %s length mismatch", ta_greatest(r->times_of) != r->times ? "input" : "output");
    for (int64_t n = 0; n < batch; n++) {
        const int64_t count = ta_entry(r->targets_of, n);
        if (ta_entry(r->times_of, n) < 1 || count < 0)
            return td_error(TD_E_RUNTIME, "rnnt_loss: sequence %" PRId64 " has a length of %" PRId64 ", and %" PRId64 " targets", n,
                            ta_entry(r->times_of, n), count);
        for (int64_t u = 0; u < count; u++) {
            const int64_t target = ta_entry(r->targets, n * (r->outputs - 1) + u);
            if (target < 0 || target >= r->classes)
                return td_error(TD_E_INDEX, "rnnt_loss: target %" PRId64 " is out of bounds for %" PRId64 " classes", target, r->classes);
        }
    }
    return 0;
}

static IMPL(loss)
{
    (void)op, (void)context;
    const td_dtype dtype = computed(td_tensor_dtype(arguments[0].tensor));
    const int64_t batch = size_of(arguments[0].tensor, 0);
    TD_AUTO td_tensor *logits = td_as_contiguous(arguments[0].tensor, dtype), *targets = td_make_contiguous(arguments[1].tensor);
    TD_AUTO td_tensor *times = td_make_contiguous(arguments[2].tensor), *counts = td_make_contiguous(arguments[3].tensor);
    TD_AUTO td_tensor *costs = td_zeros(1, &batch, dtype, td_tensor_device(arguments[0].tensor));
    TD_AUTO td_tensor *grads = td_zeros(4, td_tensor_sizes(arguments[0].tensor), dtype, td_tensor_device(arguments[0].tensor));
    if (!logits || !targets || !times || !counts || !costs || !grads)
        return -1;
    transducer r = {.logits = td_tensor_data(logits), .costs = td_tensor_data(costs), .grads = td_tensor_data(grads), .targets = targets,
                    .times_of = times, .targets_of = counts, .times = size_of(logits, 1), .outputs = size_of(logits, 2), .classes = size_of(logits, 3),
                    .blank = arguments[4].integer, .clamp = arguments[5].number, .softmax = arguments[6].integer != 0};
    TD_AUTO td_tensor *room = td_zeros(1, (int64_t[]){batch * 5 * r.times * r.outputs}, TD_F64, td_tensor_device(logits));
    if (!room || check_values(&r, batch))
        return -1;
    r.room = td_tensor_data(room);
    td_parallel_for(0, batch, 1, dtype == TD_F64 ? sequences_f64 : sequences_f32, &r);
    return td_copy_elements(results[0], costs) || td_copy_elements(results[1], grads) ? -1 : 0;
}

/* The second result is the gradient of the first. */
static int setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context, (void)arguments, (void)state;
    return td_custom_save(node, 1, &results[1].tensor, 1, &results[1].tensor);
}
static int backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)state, (void)n_grads, (void)n_results;
    TD_AUTO td_tensor *slope = td_node_saved_tensor(node, 0), *by_sequence = td_reshape(grads[0], 4, (int64_t[]){-1, 1, 1, 1});
    TD_AUTO td_tensor *known = slope ? td_detach(slope) : NULL;
    results[0] = known && by_sequence ? td_mul(known, by_sequence) : NULL;
    return results[0] ? 0 : -1;
}

int ta_define_transducer(void)
{
    static const operator_entry entries[] = {
        {"torchaudio::rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float clamp, "
         "bool fused_log_softmax) -> (Tensor, Tensor)", meta_transducer, loss, NULL}};
    static const td_op_gradient gradient = {.setup = setup, .backward = backward};
    return operators_define(1, entries) || td_register_gradient("torchaudio::rnnt_loss_forward", &gradient, NULL) ? -1 : 0;
}
