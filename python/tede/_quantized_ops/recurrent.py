"""Recurrent layers whose weights are quantized: products by linear_dynamic, gates in floats.

The gates of the inputs of all steps are one product, so that activations are quantized to the range of the whole sequence, as in PyTorch."""
from tede import _C
from tede._quantized_ops.define import operator
from tede._quantized_ops.packed import CellParamsBase
from tede._quantized_ops.products import linear_dynamic, linear_dynamic_fp16
from tede._quantized_ops.rounding import functions


@operator("make_quantized_cell_params_dynamic(LinearParams w_ih, LinearParams w_hh, Tensor bias_ih, Tensor bias_hh, bool reduce_range=False) -> CellParams")
def make_quantized_cell_params_dynamic(w_ih, w_hh, bias_ih, bias_hh, reduce_range=False):
    return CellParamsBase("quantized_dynamic", w_ih, w_hh, (bias_ih, bias_hh), reduce_range)


@operator("make_quantized_cell_params_fp16(LinearParams w_ih, LinearParams w_hh) -> CellParams")
def make_quantized_cell_params_fp16(w_ih, w_hh):
    return CellParamsBase("quantized_fp16", w_ih, w_hh)


def _product(x, weights, params):
    return linear_dynamic(x, weights, params.reduce_range) if weights.w.is_quantized else linear_dynamic_fp16(x, weights)


# ---- one step: (gates of the input, hidden state, parameters) -> hidden state ------------------------------------------

def _lstm_step(gates, state, params):
    h, c = state
    i, f, g, o = (_product(h, params.hh, params) + gates).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(gates, state, params):
    h, = state
    of_input, of_hidden = gates.chunk(3, -1), _product(h, params.hh, params).chunk(3, -1)
    reset, update = (of_hidden[0] + of_input[0]).sigmoid(), (of_hidden[1] + of_input[1]).sigmoid()
    new = (of_input[2] + of_hidden[2] * reset).tanh()
    return (h - new) * update + new,


def _simple_step(activation):
    def step(gates, state, params):
        return getattr(_product(state[0], params.hh, params) + gates, activation)(),
    return step


def _cell(name, step, many):
    hx = "Tensor[] hx" if many else "Tensor hx"
    bias = ("bias_ih", "bias_hh") if many else ("b_ih", "b_hh")

    @operator(f"{name}(Tensor input, {hx}, LinearParams w_ih, LinearParams w_hh, Tensor {bias[0]}, Tensor {bias[1]}) -> "
              + ("(Tensor, Tensor)" if many else "Tensor"))
    def cell(input, hx, w_ih, w_hh, b_ih, b_hh):
        params = CellParamsBase("quantized_dynamic", w_ih, w_hh, (b_ih, b_hh), True)
        made = step(_product(input, w_ih, params), hx if many else (hx,), params)
        return made if many else made[0]


_cell("quantized_lstm_cell_dynamic", _lstm_step, True)
_cell("quantized_gru_cell_dynamic", _gru_step, False)
_cell("quantized_rnn_tanh_cell_dynamic", _simple_step("tanh"), False)
_cell("quantized_rnn_relu_cell_dynamic", _simple_step("relu"), False)


# ---- sequences -------------------------------------------------------------------------------------------------------

def _over_steps(step, x, state, params, reverse):
    """x: (steps, batch, features)."""
    gates = _product(x, params.ih, params).unbind(0)
    outputs = [None] * len(gates)
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        state = step(gates[t], state, params)
        outputs[t] = state[0]
    return functions["stack"](outputs, 0), state


def _over_packed(step, data, sizes, state, params, reverse):
    """The steps of a PackedSequence: rows of the longest sequences come first in each."""
    gates = _product(data, params.ih, params).split(sizes)
    outputs, whole = [None] * len(sizes), state
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        n = sizes[t]
        made = step(gates[t], tuple(part[:n] for part in whole), params)
        whole = tuple(functions["cat"]([new, part[n:]], 0) for new, part in zip(made, whole))
        outputs[t] = made[0]
    return functions["cat"](outputs, 0), whole


def _layers(step, x, states, params, layers, dropout, train, bidirectional, sizes):
    """states: of all layers and directions, for each kind of state."""
    directions = 2 if bidirectional else 1
    last = [[] for _ in states]
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            state = tuple(kind[at] for kind in states)
            run = _over_steps if sizes is None else _over_packed
            made, state = run(step, x, *(() if sizes is None else (sizes,)), state, params[at], direction == 1)
            outputs.append(made)
            for kept, part in zip(last, state):
                kept.append(part)
        x = outputs[0] if directions == 1 else functions["cat"](outputs, -1)
        if dropout and train and layer < layers - 1:
            x = functions["dropout"](x, dropout, True)
    return x, [functions["stack"](kept, 0) for kept in last]


def _network(step, hidden, args, batched):
    """What quantized_lstm and quantized_gru do of their positional arguments."""
    if batched:
        data, sizes, hx, params, _, layers, dropout, train, bidirectional = args
        return _layers(step, data, hidden(hx), params, layers, dropout, train, bidirectional, sizes.tolist())
    input, hx, params, _, layers, dropout, train, bidirectional, batch_first = args
    x, states = _layers(step, input.transpose(0, 1) if batch_first else input, hidden(hx), params, layers, dropout, train, bidirectional, None)
    return x.transpose(0, 1) if batch_first else x, states


def quantized_lstm(*args, dtype=None, use_dynamic=False):
    """``quantized_lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)``, or with a packed sequence's
    data and batch sizes in place of the input: outputs, and the last hidden and cell states."""
    batched = isinstance(args[1], _C.Tensor)
    x, (h, c) = _network(_lstm_step, list, args, batched)
    return x, h, c


def quantized_gru(*args):
    """The same with one hidden state."""
    batched = isinstance(args[2], _C.Tensor)
    x, (h,) = _network(_gru_step, lambda hx: [hx], args, batched)
    return x, h
