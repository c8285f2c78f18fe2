"""Recurrent networks: the native functions where the extension has them, else the same from smaller operators.

Signatures are PyTorch's native ones. Without `batch_sizes`: `lstm(input, hx, weights, bias, layers, dropout, training,
bidirectional, batch_first)`; for packed sequences `lstm(data, batch_sizes, hx, weights, ...)`. The plain versions compute
the input's part of all gates in one product for the whole sequence, and only the hidden part step by step.
"""
from ...overrides import handle_torch_function, has_torch_function
from .._native import N, T
from .norm import dropout as drop


def _native(name):
    return N.find(name)


def _choose(name, plain):
    """A function that calls the native one; `plain` where there is none, or none for packed sequences or projections."""
    def call(*args):
        native = _native(name)
        if native is not None:
            try:
                return native(*args)
            except NotImplementedError:
                pass
            except TypeError:
                if not is_packed(args):
                    raise
        tensors = args[:4] if is_packed(args) else args[:3]
        tensors = [x for place in tensors for x in (place if isinstance(place, (list, tuple)) else (place,))]
        if has_torch_function(tensors):
            return handle_torch_function(call, tensors, *args)
        return plain(*args)
    call.__name__ = name
    return call


def is_packed(args):
    """Whether these are a packed sequence's arguments."""
    return isinstance(args[3], (list, tuple))   # the weights, which come one argument later


# One step: `part` is W_ih x + b_ih, computed before; gives the new state.

def _simple_step(activation):
    def step(part, state, w_hh, b_hh):
        return (activation(part + N.linear(state[0], w_hh, b_hh)),)
    return step


def _lstm_step(part, state, w_hh, b_hh):
    i, f, g, o = (part + N.linear(state[0], w_hh, b_hh)).chunk(4, -1)
    cell = T.sigmoid(f) * state[1] + T.sigmoid(i) * T.tanh(g)
    return T.sigmoid(o) * T.tanh(cell), cell


def _gru_step(part, state, w_hh, b_hh):
    r, z, n = part.chunk(3, -1)
    hr, hz, hn = N.linear(state[0], w_hh, b_hh).chunk(3, -1)
    r, z = T.sigmoid(r + hr), T.sigmoid(z + hz)
    n = T.tanh(n + r * hn)
    return ((state[0] - n) * z + n,)


_STEPS = {"rnn_tanh": _simple_step(lambda x: T.tanh(x)), "rnn_relu": _simple_step(lambda x: T.relu(x)),
          "lstm": _lstm_step, "gru": _gru_step}
KINDS = tuple(_STEPS)


def _scan(step, parts, state, weights, reverse):
    """Run over `parts`, one (batch, gates) tensor per time; batches may shrink (packed sequences)."""
    _, w_hh, _, b_hh, w_hr = weights
    outputs, full = [None] * len(parts), [s for s in state]
    for t in (range(len(parts) - 1, -1, -1) if reverse else range(len(parts))):
        n = parts[t].size(0)
        now = tuple(s if s.size(0) == n else s[:n] for s in full)
        new = step(parts[t], now, w_hh, b_hh)
        if w_hr is not None:
            new = (N.linear(new[0], w_hr), *new[1:])
        # Sequences that have ended (or not begun, in reverse) keep their state.
        full = [a if a.size(0) == s.size(0) else T.cat([a, s[n:]]) for a, s in zip(new, full)]
        outputs[t] = new[0]
    return outputs, full


def plain(kind, by_steps=False):
    """A network from smaller operators. by_steps: also the input's part of the gates is computed for each time alone, so that
    the batch is the first dimension of all operators' operands."""
    def run(*args):
        packed = is_packed(args)
        if packed:
            data, batch_sizes, hx, weights, bias, layers, dropout, training, bidirectional = args
            sizes = batch_sizes.tolist()
        else:
            data, hx, weights, bias, layers, dropout, training, bidirectional, batch_first = args
            data = data.transpose(0, 1) if batch_first else data
        states = hx if kind == "lstm" else (hx,)
        directions = 2 if bidirectional else 1
        count = len(weights) // (layers * directions)
        step, finals = _STEPS[kind], []
        for layer in range(layers):
            outputs = []
            for direction in range(directions):
                index = layer * directions + direction
                w_ih, w_hh, *rest = weights[index * count:(index + 1) * count]
                b_ih, b_hh, *rest = rest if bias else (None, None, *rest)
                row = (w_ih, w_hh, b_ih, b_hh, rest[0] if rest else None)
                if by_steps:
                    parts = [N.linear(x, w_ih, b_ih) for x in (data.split(sizes) if packed else data.unbind(0))]
                else:
                    parts = N.linear(data, w_ih, b_ih)
                    parts = parts.split(sizes) if packed else parts.unbind(0)
                hidden, last = _scan(step, parts, [s[index] for s in states], row, direction == 1)
                outputs.append(T.cat(hidden) if packed else T.stack(hidden))
                finals.append(last)
            data = outputs[0] if directions == 1 else T.cat(outputs, -1)
            if dropout and training and layer < layers - 1:
                data = drop(data, dropout, True)
        if not packed and batch_first:
            data = data.transpose(0, 1)
        return (data, *(T.stack(rows) for rows in zip(*finals)))
    return run


def _plain_cell(kind):
    def cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        new = _STEPS[kind](N.linear(input, w_ih, b_ih), hx if kind == "lstm" else (hx,), w_hh, b_hh)
        return new if kind == "lstm" else new[0]
    return cell


lstm, gru = _choose("lstm", plain("lstm")), _choose("gru", plain("gru"))
rnn_tanh, rnn_relu = _choose("rnn_tanh", plain("rnn_tanh")), _choose("rnn_relu", plain("rnn_relu"))
lstm_cell, gru_cell = _choose("lstm_cell", _plain_cell("lstm")), _choose("gru_cell", _plain_cell("gru"))
rnn_tanh_cell = _choose("rnn_tanh_cell", _plain_cell("rnn_tanh"))
rnn_relu_cell = _choose("rnn_relu_cell", _plain_cell("rnn_relu"))
