/* The tangent of a recurrent layer: the recurrence again, with a tangent beside each value.
 *
 * A pair is a value and its tangent.  Each function here is the product or chain rule of one operator; the steps read as they do
 * in rnn.c. */
#include "calls_ops_nn_rnn_tangent.h"
#include <tede/geometry.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"

/* Owns both; a failure makes them NULL, which passes through all that follows. */
typedef struct pair { td_tensor *x, *t; } pair;

static void pair_free(pair *p)
{
    td_tensor_release(p->x);
    td_tensor_release(p->t);
}
#define PAIR __attribute__((cleanup(pair_free))) pair

/* An absent tangent is zeros from the start: after one step all states have a tangent anyway. */
static pair pair_of(td_tensor *x, td_tensor *t) { return (pair){td_ref(x), t == TD_NONE ? td_zeros_like(x) : td_ref(t)}; }
static pair copy(pair a) { return (pair){a.x ? td_ref(a.x) : NULL, a.t ? td_ref(a.t) : NULL}; }
static pair plus(pair a, pair b) { return (pair){td_add_tensor(a.x, b.x, td_int(1)), td_add_tensor(a.t, b.t, td_int(1))}; }
static pair minus(pair a, pair b) { return (pair){td_minus(a.x, b.x), td_minus(a.t, b.t)}; }
/* (a b)' = a' b + a b' */
static pair times(pair a, pair b)
{
    TD_AUTO td_tensor *left = td_mul_tensor(a.t, b.x), *right = td_mul_tensor(a.x, b.t);
    return (pair){td_mul_tensor(a.x, b.x), td_add_tensor(left, right, td_int(1))};
}
/* y = sigmoid(a) has the slope y (1 - y): t y - t y y. */
static pair sigmoid(pair a)
{
    td_tensor *y = td_sigmoid(a.x);
    TD_AUTO td_tensor *slope = td_mul_tensor(a.t, y);
    return (pair){y, td_addcmul(slope, slope, y, td_int(-1))};
}
/* y = tanh(a) has the slope 1 - y^2. */
static pair hyperbolic(pair a)
{
    td_tensor *y = td_tanh(a.x);
    TD_AUTO td_tensor *part = td_mul_tensor(a.t, y);
    return (pair){y, td_addcmul(a.t, part, y, td_int(-1))};
}
static pair rectified(pair a) { return (pair){td_relu(a.x), td_threshold_backward(a.t, a.x, td_int(0))}; }
static pair gate(pair a, int64_t which, int64_t n) { return (pair){td_narrow(a.x, 1, which * n, n), td_narrow(a.t, 1, which * n, n)}; }
static pair at_step(pair a, int64_t i) { return (pair){td_select_int(a.x, 0, i), td_select_int(a.t, 0, i)}; }
/* h w^T + bias, bilinear in h and w; the bias's tangent goes along with the first product. */
static pair linear(pair h, pair w, td_tensor *bias, td_tensor *t_bias)
{
    TD_AUTO td_tensor *by_h = td_linear(h.t, w.x, t_bias), *by_w = td_linear(h.x, w.t, TD_NONE);
    return (pair){td_linear(h.x, w.x, bias), td_add_tensor(by_h, by_w, td_int(1))};
}

static pair gru_step(pair gx, pair gh, pair h, int64_t n)
{
    PAIR xr = gate(gx, 0, n), xz = gate(gx, 1, n), xn = gate(gx, 2, n);
    PAIR hr = gate(gh, 0, n), hz = gate(gh, 1, n), hn = gate(gh, 2, n);
    PAIR sr = plus(xr, hr), sz = plus(xz, hz), r = sigmoid(sr), z = sigmoid(sz);
    PAIR part = times(r, hn), sn = plus(xn, part), fresh = hyperbolic(sn);
    PAIR difference = minus(h, fresh), kept = times(difference, z);
    return plus(kept, fresh);
}

/* *c becomes the new cell state. */
static pair lstm_step(pair gates, pair *c, int64_t n)
{
    PAIR si = gate(gates, 0, n), sf = gate(gates, 1, n), sg = gate(gates, 2, n), so = gate(gates, 3, n);
    PAIR i = sigmoid(si), f = sigmoid(sf), g = hyperbolic(sg), o = sigmoid(so);
    PAIR old = times(f, *c), fresh = times(i, g);
    pair now = plus(old, fresh);
    pair_free(c);
    *c = now;
    PAIR bent = hyperbolic(now);
    return times(o, bent);
}

/* The third result, what the backward pass saves, has no tangent. GRU uses gx and gh apart, the others their sum; see
 * step() in rnn.c. */
int td_op_rnn_layer_tangent(td_tensor **results, td_tensor *t_gates, td_tensor *t_hx, td_tensor *t_cx, td_tensor *t_w, td_tensor *t_b,
                            td_tensor *gates_in, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *b_hh, int64_t mode,
                            bool reverse)
{
    if (gates_in->ndim != 3 || hx->ndim != 2 || w_hh->ndim != 2 || mode < TD_RNN_RELU || mode > TD_RNN_GRU || (mode == TD_RNN_LSTM && cx == TD_NONE))
        return td_error(TD_E_RUNTIME, "rnn_layer_tangent: gates, hidden state and weights don't fit together");
    int64_t steps = gates_in->sizes[0], n = hx->sizes[1];
    PAIR gates = pair_of(gates_in, t_gates), h = pair_of(hx, t_hx), w = pair_of(w_hh, t_w), c = {NULL, NULL};
    TD_AUTO_LIST td_tensor_list hs = {0};
    TD_AUTO_LIST td_tensor_list cs = {0};
    if (td_tensor_list_new(&hs, steps) || td_tensor_list_new(&cs, steps))
        return -1;
    if (mode == TD_RNN_LSTM)
        c = pair_of(cx, t_cx);
    for (int64_t i = 0; i < steps; i++) {
        int64_t at = reverse ? steps - 1 - i : i;
        PAIR gx = at_step(gates, at), gh = linear(h, w, b_hh, t_b);
        PAIR sum = mode == TD_RNN_GRU ? copy(gx) : plus(gx, gh);
        pair next = mode == TD_RNN_GRU ? gru_step(gx, gh, h, n) : mode == TD_RNN_LSTM ? lstm_step(sum, &c, n) : mode == TD_RNN_TANH ? hyperbolic(sum)
                                                                                                  : rectified(sum);
        pair_free(&h);
        h = next;
        if (!h.x || !h.t || (mode == TD_RNN_LSTM && (!c.x || !c.t)))
            return -1;
        hs.items[at] = td_ref(h.t);
        cs.items[at] = mode == TD_RNN_LSTM ? td_ref(c.t) : td_ref(TD_NONE);
    }
    results[0] = td_stack(steps, hs.items, 0);
    results[1] = mode == TD_RNN_LSTM ? td_stack(steps, cs.items, 0) : td_ref(TD_NONE);
    results[2] = td_ref(TD_NONE);
    return results[0] && results[1] ? 0 : (td_results_drop(3, results), -1);
}
