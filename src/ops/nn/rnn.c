/* Recurrent layers: cells, stacks of layers, both directions.
 *
 * A layer's products with the inputs are one linear call for all steps; rnn_layer does the rest.  When its backward pass is
 * itself recorded, the layer is run again step by step and differentiated by the engine.
 *
 * A sequence is [steps, rows, features] inside; batch_first transposes at both ends. Parameters come as a flat list:
 * for each layer and direction w_ih, w_hh, then b_ih, b_hh if there are biases, then w_hr if hidden states are
 * projected. */
#include "calls_ops_nn_rnn.h"
#include <inttypes.h>
#include <tede/geometry.h>
#include "ops/compose.h"
#include "ops/recorded.h"
#include "tensor/checked.h"

static int drop(int n, td_tensor **results)
{
    for (int i = 0; i < n; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* ---- one step ------------------------------------------------------------------------------------------------------- */

/* The block of gate `which`, n columns wide. */
static td_tensor *gate(td_tensor *x, int64_t which, int64_t n)
{
    return td_narrow(x, 1, which * n, n);
}

/* gx and gh with all biases; c and *c_out only for LSTM.
 * ReLU and tanh: h' = f(gx + gh).
 *
 * LSTM (Hochreiter and Schmidhuber, 1997, with forget gates): c' = f c + i g and h' = o tanh(c'), where i, f, o are
 * sigmoids and g is a tanh of the summed gates.
 *
 * GRU (Cho et al., 2014): h' = (1 - z) n + z h, with n = tanh(xn + r hn). The reset gate multiplies the product with
 * the hidden weights, bias included, not the state before it: so gx and gh can't be summed at first. */
static td_tensor *step(int mode, td_tensor *gx, td_tensor *gh, td_tensor *h, td_tensor *c, td_tensor **c_out)
{
    if (!gx || !gh || !h)
        return NULL;
    int64_t n = mode == TD_RNN_LSTM ? c->sizes[1] : h->sizes[1];
    if (mode == TD_RNN_GRU) {
        TD_AUTO td_tensor *xr = gate(gx, 0, n), *xz = gate(gx, 1, n), *xn = gate(gx, 2, n);
        TD_AUTO td_tensor *hr = gate(gh, 0, n), *hz = gate(gh, 1, n), *hn = gate(gh, 2, n);
        TD_AUTO td_tensor *sr = td_add_tensor(xr, hr, td_int(1)), *sz = td_add_tensor(xz, hz, td_int(1));
        TD_AUTO td_tensor *r = td_sigmoid(sr), *z = td_sigmoid(sz);
        TD_AUTO td_tensor *part = td_mul_tensor(r, hn);
        TD_AUTO td_tensor *sn = td_add_tensor(xn, part, td_int(1));
        TD_AUTO td_tensor *fresh = td_tanh(sn);
        TD_AUTO td_tensor *difference = td_minus(h, fresh);
        TD_AUTO td_tensor *kept = td_mul_tensor(difference, z);
        return td_add_tensor(kept, fresh, td_int(1));
    }
    TD_AUTO td_tensor *gates = td_add_tensor(gx, gh, td_int(1));
    if (mode != TD_RNN_LSTM)
        return mode == TD_RNN_TANH ? td_tanh(gates) : td_relu(gates);
    TD_AUTO td_tensor *si = gate(gates, 0, n), *sf = gate(gates, 1, n), *sg = gate(gates, 2, n), *so = gate(gates, 3,
        n);
    TD_AUTO td_tensor *i = td_sigmoid(si), *f = td_sigmoid(sf), *g = td_tanh(sg), *o = td_sigmoid(so);
    TD_AUTO td_tensor *old = td_mul_tensor(f, c), *fresh = td_mul_tensor(i, g);
    td_tensor *now = td_add_tensor(old, fresh, td_int(1));
    TD_AUTO td_tensor *t = td_tanh(now);
    td_tensor *out = td_mul_tensor(o, t);
    *c_out = now;
    return out;
}

static int gates_of(int64_t mode) { return mode == TD_RNN_LSTM ? 4 : mode == TD_RNN_GRU ? 3 : 1; }

/* A cell is made of operators whose own errors would name the parts (linear's matrices, a layer of one step): these are its users' words.
 * td_mul_saturated: a hidden size is the caller's number, and the product need not fit. */
static int check_cell(const char *op, td_tensor *input, td_tensor *h, td_tensor *w_ih, td_tensor *w_hh, int gates)
{
    if (input->ndim != 2 || h->ndim != 2 || w_ih->ndim != 2 || w_hh->ndim != 2)
        return td_error(TD_E_RUNTIME, "%s: input, hidden state and weights must be matrices, got %dD, %dD, %dD and %dD", op, input->ndim,
                        h->ndim, w_ih->ndim, w_hh->ndim);
    if (input->sizes[1] != w_ih->sizes[1])
        return td_error(TD_E_RUNTIME, "input has inconsistent input_size: got %" PRId64 " expected %" PRId64,
                        input->sizes[1], w_ih->sizes[1]);
    if (input->sizes[0] != h->sizes[0])
        return td_error(TD_E_RUNTIME, "Input batch size %" PRId64 " doesn't match hidden0 batch size %" PRId64,
                        input->sizes[0], h->sizes[0]);
    if (h->sizes[1] != w_hh->sizes[1] || w_hh->sizes[0] != td_mul_saturated(gates, h->sizes[1]) || w_ih->sizes[0] != w_hh->sizes[0])
        return td_error(TD_E_RUNTIME, "hidden0 has inconsistent hidden_size: got %" PRId64 ", expected %" PRId64,
                        h->sizes[1], w_hh->sizes[1]);
    return 0;
}

/* Whether the program may write to an output that the backward pass needs: it gets a copy then, as in PyTorch. */
static bool is_kept(td_tensor *output) { return td_requires_grad(output) && td_grad_enabled(); }

static td_tensor *cell(const char *op, int mode, td_tensor *input, td_tensor *h, td_tensor *c, td_tensor *w_ih,
                       td_tensor *w_hh,
                       td_tensor *b_ih, td_tensor *b_hh, td_tensor **c_out)
{
    if (check_cell(op, input, h, w_ih, w_hh, gates_of(mode)))
        return NULL;
    TD_AUTO td_tensor *x = td_linear(input, w_ih, b_ih);
    if (!x)
        return NULL;
    /* A layer of one step: the fused kernel, forward and backward. */
    TD_AUTO td_tensor *sequence = td_unsqueeze(x, 0);
    td_tensor *results[3];
    if (!sequence || td_rnn_layer(results, sequence, h, mode == TD_RNN_LSTM ? c : TD_NONE, w_hh, b_hh, mode, false))
        return NULL;
    /* Under autocast the layer computes in float32, and the products with the inputs are of 16 bits, as the states may be. */
    TD_AUTO td_tensor *out = td_select_int(results[0], 0, 0), *state = mode == TD_RNN_LSTM ? td_select_int(results[1], 0, 0) : NULL;
    drop(3, results);
    if (!out || (mode == TD_RNN_LSTM && !state))
        return NULL;
    const bool copied = mode >= TD_RNN_LSTM && is_kept(out);    /* of the others PyTorch, too, keeps what it gives */
    if (state)
        *c_out = td_to_dtype(state, td_promote_types(x->dtype, c->dtype), false, copied, TD_MEMORY_FORMAT_NONE);
    return td_to_dtype(out, td_promote_types(x->dtype, h->dtype), false, copied, TD_MEMORY_FORMAT_NONE);
}

int td_op_lstm_cell(td_tensor **results, td_tensor *input, int64_t n_hx, td_tensor *const *hx, td_tensor *w_ih,
                    td_tensor *w_hh,
                    td_tensor *b_ih, td_tensor *b_hh)
{
    if (n_hx != 2)
        return td_error(TD_E_RUNTIME, "lstm_cell expects two hidden states");
    results[1] = NULL;
    results[0] = cell("lstm_cell", TD_RNN_LSTM, input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh, &results[1]);
    return results[0] && results[1] ? 0 : drop(2, results);
}

#define CELL(name, mode)                                                                                               \
    td_tensor *td_op_##name(td_tensor *input, td_tensor *hx, td_tensor *w_ih, td_tensor *w_hh, td_tensor *b_ih, td_tensor *b_hh) \
    {                                                                                                                  \
        return cell(#name, mode, input, hx, TD_NONE, w_ih, w_hh, b_ih, b_hh, NULL);                                    \
    }
CELL(gru_cell, TD_RNN_GRU)
CELL(rnn_tanh_cell, TD_RNN_TANH)
CELL(rnn_relu_cell, TD_RNN_RELU)

/* ---- one layer in one direction --------------------------------------------------------------------------------------- */

/* The geometry of a layer over [steps, rows, ...]; false if there is none with such weights. */
static bool describe(td_rnn_geometry *g, const td_tensor *sequence, const td_tensor *w_hh, int64_t mode, bool reverse)
{
    if (mode < TD_RNN_RELU || mode > TD_RNN_GRU || sequence->ndim != 3 || w_hh->ndim != 2)
        return false;
    *g = (td_rnn_geometry){(td_rnn_mode)mode, gates_of(mode), reverse, sequence->sizes[0], sequence->sizes[1], w_hh->sizes[1]};
    return w_hh->sizes[0] == td_mul_saturated(g->gates, g->width);
}
static bool is_state(const td_tensor *x, int64_t rows, int64_t n)
{
    return x != TD_NONE && x->ndim == 2 && x->sizes[0] == rows && x->sizes[1] == n;
}
static bool is_layer(const td_tensor *x, int64_t steps, int64_t rows, int64_t n)
{
    return x->ndim == 3 && x->sizes[0] == steps && x->sizes[1] == rows && x->sizes[2] == n;
}

/* gates: the inputs' products with b_ih, [steps, rows, gates * n]. Results: outputs [steps, rows, n], cell states,
 * and what the backward pass needs, in float32 at least. That is four blocks of n for LSTM and GRU; of the other
 * modes the output says enough. */
int td_meta_rnn_layer(td_spec *specs, td_rnn_geometry *g, td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *b_hh,
                      int64_t mode, bool reverse)
{
    if (!describe(g, gates, w_hh, mode, reverse) || gates->sizes[2] != w_hh->sizes[0] || !is_state(hx, g->rows, g->width) ||
        (b_hh != TD_NONE && b_hh->numel != w_hh->sizes[0]) || (mode == TD_RNN_LSTM && !is_state(cx, g->rows, g->width)))
        return td_error(TD_E_RUNTIME, "rnn_layer: gates, hidden state and weights don't fit together");
    if (!td_is_floating(gates) || gates->dtype != w_hh->dtype || gates->dtype != hx->dtype)
        return td_error(TD_E_RUNTIME, "Input and hidden tensors are not the same dtype, found input tensor with %s and hidden tensor with %s",
                        td_dtype_title((td_dtype)gates->dtype), td_dtype_title((td_dtype)hx->dtype));
    const int64_t t = g->steps, b = g->rows, n = g->width;
    td_dtype type = (td_dtype)gates->dtype, wide = type == TD_F64 ? TD_F64 : TD_F32;
    /* The others have no cell states and save nothing. */
    td_spec_set(&specs[1], 3, (int64_t[]){mode == TD_RNN_LSTM ? t : 0, b, n}, type, gates->device);
    td_spec_set(&specs[2], 3, (int64_t[]){mode >= TD_RNN_LSTM ? t : 0, b, 4 * n}, wide, gates->device);
    return td_spec_set(&specs[0], 3, (int64_t[]){t, b, n}, type, gates->device);
}

/* Gradients of gates, hx, cx, w_hh and b_hh, in that order; the last two only where mask wants them. */
int td_meta_rnn_layer_backward(td_spec *specs, td_rnn_geometry *g, td_tensor *grad, td_tensor *grad_cells, td_tensor *hx, td_tensor *cx,
                               td_tensor *w_hh, td_tensor *result, td_tensor *cells, td_tensor *saved, int64_t mode, bool reverse,
                               int64_t n_mask, const bool *mask)
{
    (void)n_mask;
    const bool fits = describe(g, result, w_hh, mode, reverse);
    const int64_t t = fits ? g->steps : 0, b = fits ? g->rows : 0, n = fits ? g->width : 0;
    if (!fits || !is_state(hx, b, n) || !is_layer(result, t, b, n) || !is_layer(grad, t, b, n) ||
        (mode == TD_RNN_LSTM && !(is_state(cx, b, n) && is_layer(cells, t, b, n) && is_layer(grad_cells, t, b, n))) ||
        (mode >= TD_RNN_LSTM && !is_layer(saved, t, b, 4 * n)))
        return td_error(TD_E_RUNTIME, "rnn_layer_backward: gradients, states and weights don't fit together");
    if (!td_is_floating(grad) || !td_is_floating(w_hh))
        return td_error(TD_E_RUNTIME, "rnn_layer_backward: expected floating point gradients and weights");
    td_spec_set(&specs[0], 3, (int64_t[]){t, b, w_hh->sizes[0]}, (td_dtype)grad->dtype, grad->device);
    td_spec_like(&specs[1], hx);
    mode == TD_RNN_LSTM ? td_spec_like(&specs[2], cx) : td_spec_none(&specs[2]);
    mask[3] ? td_spec_like(&specs[3], w_hh) : td_spec_none(&specs[3]);
    return mask[4] ? td_spec_set(&specs[4], 1, w_hh->sizes, (td_dtype)w_hh->dtype,
                                 grad->device) : td_spec_none(&specs[4]);
}

/* The layer again in small operators: its outputs, and its cell states.
 * The states belong to hs and cs, so h and c are borrowed from there from the second step on. A reversed layer begins
 * with the last step and stores each state at its own step. */
static int unrolled(td_tensor **results, td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh,
                    td_tensor *b_hh, int mode,
                    bool reverse)
{
    int64_t steps = gates->sizes[0];
    td_tensor_list hs = {0}, cs = {0};
    if (td_tensor_list_new(&hs, steps))
        return -1;
    if (td_tensor_list_new(&cs, steps)) {
        td_tensor_list_release(&hs);
        return -1;
    }
    bool fine = true;
    td_tensor *h = hx, *c = cx;
    for (int64_t i = 0; i < steps && fine; i++) {
        int64_t t = reverse ? steps - 1 - i : i;
        TD_AUTO td_tensor *gx = td_select_int(gates, 0, t), *gh = td_linear(h, w_hh, b_hh);
        td_tensor *now = NULL;
        hs.items[t] = step(mode, gx, gh, h, c, &now);
        cs.items[t] = mode == TD_RNN_LSTM ? now : td_ref(TD_NONE);
        fine = hs.items[t] && cs.items[t];
        h = hs.items[t], c = cs.items[t];
    }
    results[0] = fine ? td_stack(steps, hs.items, 0) : NULL;
    results[1] = !fine ? NULL : mode == TD_RNN_LSTM ? td_stack(steps, cs.items, 0) : td_ref(TD_NONE);
    td_tensor_list_release(&hs);
    td_tensor_list_release(&cs);
    return results[0] && results[1] ? 0 : drop(2, results);
}

typedef struct layer { int mode; bool reverse; } layer;

/* How td_recorded_gradients runs the layer on operands that record. */
static int again(td_tensor **made, td_tensor *const *operands, const void *context)
{
    const layer *l = context;
    if (operands[0]->ndim != 3)
        return td_error(TD_E_RUNTIME, "rnn_layer_grad: gates of %d dimensions", operands[0]->ndim);
    return unrolled(made, operands[0], operands[1], operands[2], operands[3], operands[4], l->mode, l->reverse);
}

/* mode decides how many results have a gradient: cell states only for LSTM. The kernel's backward pass doesn't
 * record, so it is for the case that nothing here needs a derivative. */
int td_op_rnn_layer_grad(td_tensor **results, td_tensor *grad, td_tensor *grad_cells, td_tensor *gates, td_tensor *hx,
                         td_tensor *cx,
                         td_tensor *w_hh, td_tensor *b_hh, td_tensor *result, td_tensor *cells, td_tensor *saved,
                         int64_t mode, bool reverse,
                         int64_t n_wants, const bool *wants)
{
    for (int i = 0; i < 5; i++)
        results[i] = NULL;
    if (!TD_RECORDS(grad, grad_cells, gates, hx, cx, w_hh, b_hh))
        return td_rnn_layer_backward(results, grad, grad_cells, hx, cx, w_hh, result, cells, saved, mode, reverse, n_wants, wants);
    return td_recorded_gradients(again, &(layer){(int)mode, reverse}, mode == TD_RNN_LSTM ? 2 : 1, (td_tensor *[]){grad, grad_cells}, 5,
                                 (td_tensor *[]){gates, hx, cx, w_hh, b_hh}, wants, results);
}

/* ---- sequences --------------------------------------------------------------------------------------------------------- */

/* What all layers of a call share. directions is 1 or 2; dropout is 0 outside of training. */
typedef struct stack {
    const char *name;
    int mode, directions;
    int64_t layers;
    bool biases, projected;
    double dropout;
} stack;

/* LSTM whose hidden state is a product of the cell's output: step by step.
 * h' = w_hr (o tanh(c')) (Sak, Senior and Beaufays, 2014): the state is narrower than the cell, which the fused
 * kernel has no form for. These steps record themselves. */
static int projected_direction(td_tensor *gates, td_tensor *h0, td_tensor *c0, td_tensor *w_hh, td_tensor *b_hh,
                               td_tensor *w_hr, bool reverse,
                               td_tensor **y, td_tensor **h_last, td_tensor **c_last)
{
    int64_t steps = gates->sizes[0];
    TD_AUTO_LIST td_tensor_list hs = {0};
    TD_AUTO td_tensor *h = td_ref(h0), *c = td_ref(c0);
    if (td_tensor_list_new(&hs, steps))
        return -1;
    for (int64_t i = 0; i < steps; i++) {
        int64_t t = reverse ? steps - 1 - i : i;
        TD_AUTO td_tensor *gx = td_select_int(gates, 0, t), *gh = td_linear(h, w_hh, b_hh);
        td_tensor *now = NULL;
        TD_AUTO td_tensor *full = step(TD_RNN_LSTM, gx, gh, h, c, &now);
        td_tensor_release(c);
        c = now;
        td_tensor *next = td_linear(full, w_hr, TD_NONE);
        if (!next || !c) {
            td_tensor_release(next);
            return -1;
        }
        td_tensor_release(h);
        h = next;
        hs.items[t] = td_ref(h);
    }
    *y = td_stack(steps, hs.items, 0);
    *h_last = td_ref(h), *c_last = td_ref(c);
    return *y ? 0 : -1;
}

/* One direction of layer `index`: fills y and the last states.
 * The last state of a reversed direction is that of step 0. y, *h_last and *c_last are owned by the caller, after a
 * failure as well. */
static int one_direction(const stack *s, td_tensor *x, td_tensor *const *params, td_tensor *h0, td_tensor *c0,
                         int64_t index, bool reverse,
                         td_tensor **y, td_tensor **h_last, td_tensor **c_last)
{
    td_tensor *w_ih = params[0], *w_hh = params[1], *b_ih = s->biases ? params[2] : TD_NONE,
    *b_hh = s->biases ? params[3] : TD_NONE;
    TD_AUTO td_tensor *h = td_select_int(h0, 0, index), *c = s->mode == TD_RNN_LSTM ? td_select_int(c0, 0,
        index) : td_ref(TD_NONE);
    TD_AUTO td_tensor *gates = td_linear(x, w_ih, b_ih);
    td_tensor *results[3];
    if (s->projected && h && c && gates)
        return projected_direction(gates, h, c, w_hh, b_hh, params[s->biases ? 4 : 2], reverse, y, h_last, c_last);
    if (!h || !c || !gates || td_rnn_layer(results, gates, h, c, w_hh, b_hh, s->mode, reverse))
        return -1;
    int64_t end = reverse ? 0 : x->sizes[0] - 1;
    *y = results[0];
    *h_last = td_select_int(results[0], 0, end);
    *c_last = s->mode == TD_RNN_LSTM ? td_select_int(results[1], 0, end) : td_ref(TD_NONE);
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    return *h_last && *c_last ? 0 : -1;
}

/* Both directions read the same x; their outputs lie side by side and are the next layer's input. Dropout is between
 * layers, not behind the last. y is released on every path, the states by the lists that own them. */
static int run_layers(const stack *s, td_tensor *input, td_tensor *h0, td_tensor *c0, td_tensor *const *params,
                      td_tensor **out,
                      td_tensor_list *hs, td_tensor_list *cs)
{
    TD_AUTO td_tensor *x = td_ref(input);
    int per = (s->biases ? 4 : 2) + s->projected;
    for (int64_t l = 0; l < s->layers; l++) {
        td_tensor *y[2] = {NULL, NULL};
        int status = 0;
        for (int d = 0; d < s->directions && !status; d++) {
            int64_t i = l * s->directions + d;
            status = one_direction(s, x, params + i * per, h0, c0, i, d == 1, &y[d], &hs->items[i], &cs->items[i]);
        }
        const bool copied = !status && s->directions == 1 && s->mode != TD_RNN_LSTM && l + 1 == s->layers && is_kept(y[0]);
        td_tensor *next = status ? NULL : s->directions == 2 ? td_cat(2, y, 2) : copied ? td_clone(y[0]) : td_ref(y[0]);
        if (next && s->dropout > 0 && l + 1 < s->layers) {
            td_tensor *thinned = td_dropout(next, s->dropout, true);
            td_tensor_release(next);
            next = thinned;
        }
        td_tensor_release(y[0]);
        td_tensor_release(y[1]);
        if (!next)
            return -1;
        td_tensor_release(x);
        x = next;
    }
    *out = td_ref(x);
    return 0;
}

/* Only the first layer's input weights are checked here; what follows is checked by linear and rnn_layer. */
static int check_stack(const stack *s, td_tensor *input, td_tensor *h0, int64_t n_params, td_tensor *const *params)
{
    int64_t expected = td_mul_saturated(td_mul_saturated(s->layers, s->directions), (s->biases ? 4 : 2) + s->projected);
    if (n_params != expected)
        return td_error(TD_E_RUNTIME, "%s: expected %" PRId64 " parameters, got %" PRId64, s->name, expected, n_params);
    if (s->layers <= 0)
        return td_error(TD_E_RUNTIME, "%s: num_layers must be greater than zero, got %" PRId64, s->name, s->layers);
    if (input->ndim != 3 || h0->ndim != 3)
        return td_error(TD_E_RUNTIME, "%s: input and hidden state must have three dimensions, got %d and %d", s->name,
                        input->ndim, h0->ndim);
    if (input->sizes[0] == 0)
        return td_error(TD_E_RUNTIME, "Expected sequence length to be larger than 0 in RNN");
    if (h0->sizes[0] != s->layers * s->directions || h0->sizes[1] != input->sizes[1])
        return td_error(TD_E_RUNTIME, "Expected hidden size (%" PRId64 ", %" PRId64 ", ...), got [%" PRId64 ", %" PRId64 ", %" PRId64 "]",
                        s->layers * s->directions, input->sizes[1], h0->sizes[0], h0->sizes[1], h0->sizes[2]);
    if (params[0]->ndim != 2 || params[0]->sizes[1] != input->sizes[2])
        return td_error(TD_E_RUNTIME, "input.size(-1) must be equal to input_size. Expected %" PRId64 ", got %" PRId64,
                        params[0]->ndim == 2 ? params[0]->sizes[1] : 0, input->sizes[2]);
    return 0;
}

/* Results: output, last hidden states, and for LSTM last cell states.
 * The states of all layers and directions are stacked, direction fastest. */
static int sequence(td_tensor **results, const stack *s, td_tensor *input, td_tensor *h0, td_tensor *c0,
                    int64_t n_params,
                    td_tensor *const *params, bool batch_first)
{
    TD_AUTO td_tensor *x = batch_first && input->ndim == 3 ? td_transpose_int(input, 0, 1) : td_ref(input);
    if (!x || check_stack(s, x, h0, n_params, params))
        return -1;
    int64_t n = s->layers * s->directions;
    int outs = s->mode == TD_RNN_LSTM ? 3 : 2;
    TD_AUTO_LIST td_tensor_list hs = {0};
    TD_AUTO_LIST td_tensor_list cs = {0};
    TD_AUTO td_tensor *y = NULL;
    if (td_tensor_list_new(&hs, n) || td_tensor_list_new(&cs, n) || run_layers(s, x, h0, c0, params, &y, &hs, &cs))
        return -1;
    results[0] = batch_first ? td_transpose_int(y, 0, 1) : td_ref(y);
    results[1] = td_stack(n, hs.items, 0);
    if (outs == 3)
        results[2] = td_stack(n, cs.items, 0);
    return results[0] && results[1] && (outs == 2 || results[2]) ? 0 : drop(outs, results);
}

/* A projection is recognized by the number of parameters: one more for each layer and direction. */
int td_op_lstm_input(td_tensor **results, td_tensor *input, int64_t n_hx, td_tensor *const *hx, int64_t n_params,
                     td_tensor *const *params,
                     bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first)
{
    if (n_hx != 2)
        return td_error(TD_E_RUNTIME, "lstm expects two hidden states");
    bool projected = n_params > 0 && n_params == td_mul_saturated(layers, (1 + bidirectional) * (biases ? 5 : 3));
    stack s = {"lstm", TD_RNN_LSTM, 1 + bidirectional, layers, biases, projected, train ? dropout : 0};
    return sequence(results, &s, input, hx[0], hx[1], n_params, params, batch_first);
}

#define SEQUENCE(name, mode)                                                                                           \
    int td_op_##name##_input(td_tensor **results, td_tensor *input, td_tensor *hx, int64_t n_params, td_tensor *const *params, \
                             bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) \
    {                                                                                                                  \
        stack s = {#name, mode, 1 + bidirectional, layers, biases, false, train ? dropout : 0};                        \
        return sequence(results, &s, input, hx, TD_NONE, n_params, params, batch_first);                               \
    }
SEQUENCE(gru, TD_RNN_GRU)
SEQUENCE(rnn_tanh, TD_RNN_TANH)
SEQUENCE(rnn_relu, TD_RNN_RELU)
