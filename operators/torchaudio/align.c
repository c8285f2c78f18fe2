/* forced_align: the likeliest path by which CTC emits a sequence of labels.
 *
 * States are the labels with a blank before, between and behind them: state 2i is a blank, 2i + 1 label i. A step stays, goes to the next
 * state, or from a label to the next one, unless they are equal. The best score of each state is kept per time, and how far the step to
 * it went; ties go to the shortest step. */
#include "torchaudio.h"

static int check(const td_op *op, const td_value *arguments)
{
    const uint64_t whole = TD_DTYPE_BIT(TD_I32) | TD_DTYPE_BIT(TD_I64);
    td_tensor *scores = arguments[0].tensor, *targets = arguments[1].tensor;
    if (td_check_ndim(op, 0, scores, 3) || td_check_ndim(op, 1, targets, 2) || td_check_dtype_of(op, 0, scores, TD_FLOATS) ||
        td_check_dtype_of(op, 1, targets, whole))
        return -1;
    const int64_t batch = size_of(scores, 0);
    if (batch != 1)
        return td_error(TD_E_RUNTIME, "forced_align: The batch dimension for log_probs must be 1 at the current version. (got %" PRId64 ")", batch);
    if (td_check_sizes_of(op, 1, targets, 2, (int64_t[]){batch, TD_ANY}))
        return -1;
    for (int i = 2; i < 4; i++)
        if (td_check_sizes_of(op, i, arguments[i].tensor, 1, &batch) || td_check_dtype_of(op, i, arguments[i].tensor, whole))
            return -1;
    const int64_t blank = arguments[4].integer;
    return blank >= 0 && blank < size_of(scores, 2) ? 0 : td_error(TD_E_RUNTIME, "forced_align: blank must be within [0, log_probs.shape[-1])");
}

static META(meta_align)
{
    (void)context;
    td_tensor *scores = arguments[0].tensor, *targets = arguments[1].tensor;
    if (check(op, arguments))
        return -1;
    return td_spec_set(specs, 2, td_tensor_sizes(scores), td_tensor_dtype(targets), td_tensor_device(scores)) || td_spec_like(specs + 1, scores) ? -1 : 0;
}

typedef struct trellis {
    const double *scores;           /* times x classes */
    const td_tensor *targets;
    int64_t times, classes, labels, blank;
    double  *best[2];               /* of states, for the time before and the one at hand */
    uint8_t *steps;                 /* times x states */
} trellis;

static int64_t label_of(const trellis *t, int64_t state) { return state % 2 ? ta_entry(t->targets, state / 2) : t->blank; }

/* The path's labels, into path[times]. */
static void align(const trellis *t, int64_t *path)
{
    const int64_t states = 2 * t->labels + 1;
    for (int64_t s = 0; s < states; s++)
        t->best[0][s] = s < 2 ? t->scores[label_of(t, s)] : -INFINITY;
    for (int64_t time = 1; time < t->times; time++) {
        const double *before = t->best[(time - 1) % 2], *row = t->scores + time * t->classes;
        for (int64_t s = 0; s < states; s++) {
            double best = before[s];
            uint8_t step = 0;
            if (s > 0 && before[s - 1] > best)
                best = before[s - 1], step = 1;
            if (s > 2 && s % 2 && label_of(t, s) != label_of(t, s - 2) && before[s - 2] > best)
                best = before[s - 2], step = 2;
            t->best[time % 2][s] = best + row[label_of(t, s)];
            t->steps[time * states + s] = step;
        }
    }
    const double *last = t->best[(t->times - 1) % 2];
    int64_t state = states == 1 || last[states - 1] > last[states - 2] ? states - 1 : states - 2;
    for (int64_t time = t->times - 1; time >= 0; time--) {
        path[time] = label_of(t, state);
        state -= time ? t->steps[time * states + state] : 0;
    }
}

static int check_values(td_tensor *scores, td_tensor *targets, td_tensor *input_lengths, td_tensor *target_lengths)
{
    const int64_t times = size_of(scores, 1), labels = size_of(targets, 1);
    int64_t repeats = 0;
    if (ta_greatest(input_lengths) != times)
        return td_error(TD_E_RUNTIME, "forced_align: input length mismatch (%" PRId64 " times, a length of %" PRId64 ")", times, ta_greatest(input_lengths));
    if (ta_greatest(target_lengths) != labels)
        return td_error(TD_E_RUNTIME, "forced_align: target length mismatch (%" PRId64 " targets, a length of %" PRId64 ")", labels,
                        ta_greatest(target_lengths));
    for (int64_t i = 0; i < labels; i++) {
        const int64_t label = ta_entry(targets, i);
        if (label < 0 || label >= size_of(scores, 2))
            return td_error(TD_E_INDEX, "forced_align: target %" PRId64 " is out of bounds for %" PRId64 " classes", label, size_of(scores, 2));
        repeats += i && label == ta_entry(targets, i - 1);
    }
    if (times < labels + repeats)
        return td_error(TD_E_RUNTIME, "forced_align: targets length is too long for CTC. Found targets length: %" PRId64 ", log_probs length: %" PRId64
                        ", and number of repeats: %" PRId64, labels, times, repeats);
    return 0;
}

static IMPL(forced_align)
{
    (void)op, (void)context;
    TD_AUTO td_tensor *scores = td_as_contiguous(arguments[0].tensor, TD_F64), *targets = td_make_contiguous(arguments[1].tensor);
    TD_AUTO td_tensor *input_lengths = td_make_contiguous(arguments[2].tensor), *target_lengths = td_make_contiguous(arguments[3].tensor);
    TD_AUTO td_tensor *paths = td_writable(results[0], TD_I64);
    if (!scores || !targets || !input_lengths || !target_lengths || !paths || check_values(scores, targets, input_lengths, target_lengths))
        return -1;
    trellis t = {.scores = td_tensor_data(scores), .targets = targets, .times = size_of(scores, 1), .classes = size_of(scores, 2),
                 .labels = size_of(targets, 1), .blank = arguments[4].integer};
    const int64_t states = 2 * t.labels + 1, best[] = {2, states}, steps[] = {t.times, states};
    TD_AUTO td_tensor *kept = td_zeros(2, best, TD_F64, td_tensor_device(scores)), *taken = td_zeros(2, steps, TD_U8, td_tensor_device(scores));
    if (!kept || !taken)
        return -1;
    t.best[0] = td_tensor_data(kept), t.best[1] = t.best[0] + states, t.steps = td_tensor_data(taken);
    if (t.times)
        align(&t, td_tensor_data(paths));
    return td_write_back(results[0], paths) || td_copy_elements(results[1], arguments[0].tensor) ? -1 : 0;
}

/* The second result is log_probs, as in torchaudio: so is its gradient. */
static int backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)context, (void)state, (void)node, (void)n_grads, (void)n_results;
    results[0] = td_tensor_retain(grads[1]);
    return 0;
}

int ta_define_align(void)
{
    static const operator_entry entries[] = {
        {"torchaudio::forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> (Tensor, Tensor)",
         meta_align, forced_align, NULL}};
    static const td_op_gradient gradient = {.backward = backward};
    return operators_define(1, entries) || td_register_gradient("torchaudio::forced_align", &gradient, NULL) ? -1 : 0;
}
