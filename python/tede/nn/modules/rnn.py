"""Recurrent layers: RNN, LSTM and GRU, of several layers and both directions, and their single steps."""
import math
import warnings

from .. import init
from .._functional import recurrent
from .._native import T
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module
from ..._docs import completed

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """``tensor.index_select(dim, permutation)``, by an old name."""
    warnings.warn("`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
                  FutureWarning, stacklevel=2)
    return _apply_permutation(tensor, permutation, dim)


class RNNBase(Module):
    """The weights of all layers and directions of `RNN`, `LSTM` and `GRU`, and the checks of what comes in.

        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".

    The other arguments are those of `LSTM`. Weights are named ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``,
    ``bias_hh_l0``, with the layer's number, and ``_reverse`` behind for the backward direction; they begin uniform
    within ``±1 / sqrt(hidden_size)``.

    >>> [name for name, _ in nn.RNNBase("GRU", 3, 4).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
                     "bidirectional", "proj_size"]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                          f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                          stacklevel=3)
        for name, value, kind in (("bias", bias, bool), ("batch_first", batch_first, bool),
                                  ("input_size", input_size, int), ("hidden_size", hidden_size, int)):
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._all_weights = []
        gates, width = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            below = input_size if layer == 0 else width * self._directions()
            for suffix in ("", "_reverse")[:self._directions()]:
                shapes = {"weight_ih": (gates, below), "weight_hh": (gates, width)}
                if bias:
                    shapes.update(bias_ih=(gates,), bias_hh=(gates,))
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for name, shape in shapes.items():
                    names.append(f"{name}_l{layer}{suffix}")
                    setattr(self, names[-1], Parameter(T.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    def _directions(self):
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self):
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name, None) for name in self._flat_weights_names]

    def flatten_parameters(self):
        """Put the weights side by side where a device profits from it; the CPU doesn't."""

    def reset_parameters(self) -> None:
        """Draw all weights uniformly from ``±1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input, batch_sizes):
        """Raise where the input's rank, last size or dtype doesn't fit; `batch_sizes` says that it is packed."""
        dtype = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype != dtype and not T.is_autocast_enabled(input.device.type):
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                             f"input.to({dtype}), or convert model: model.to({input.dtype})")
        rank = 2 if batch_sizes is not None else 3
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                               f"{input.size(-1)}")

    def _state_shape(self, input, batch_sizes, width):
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * self._directions(), batch, width

    def get_expected_hidden_size(self, input, batch_sizes):
        """The shape that the hidden state must have."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """Raise `msg`, filled with both, where `hx` hasn't the expected shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """`check_input`, and `check_hidden_size` of the state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The state with its batch in the order of `permutation`; None leaves it."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                              ("dropout", 0), ("bidirectional", False)):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    def __getstate__(self):
        """PyTorch's modules keep the lists of weights and look for them in what they load."""
        return {**self.__dict__, "_flat_weights_names": self._flat_weights_names, "_flat_weights": self._flat_weights}

    def __setstate__(self, state):
        super().__setstate__({name: value for name, value in state.items() if not name.startswith("_flat_weights")})
        self.__dict__.setdefault("proj_size", 0)

    # The part of a call that all kinds share. A state is a tensor, or for LSTM a pair; `_each` treats both alike.

    def _each(self, function, hx):
        return function(hx)

    def _zero_state(self, input, batch_sizes):
        return T.zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device)

    def _check_state_rank(self, hx, batched):
        rank = 3 if batched else 2
        if hx.dim() != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")

    def _run(self, input, batch_sizes, hx):
        """(output, state) from the native function."""
        function = getattr(recurrent, self.mode.lower())
        layers = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            output, *state = function(input, hx, *layers, self.batch_first)
        else:
            output, *state = function(input, batch_sizes, hx, *layers)
        return output, tuple(state) if self.mode == "LSTM" else state[0]

    def forward(self, input: T.Tensor, hx: T.Tensor | None = None):
        """(output, state) of a sequence: (length, batch, features), or with the batch first, or packed."""
        if isinstance(input, PackedSequence):
            data, batch_sizes, sorted_indices, unsorted_indices = input
            if hx is None:
                hx = self._zero_state(data, batch_sizes)
            else:
                hx = self.permute_hidden(hx, sorted_indices)
            self.check_forward_args(data, hx, batch_sizes)
            output, state = self._run(data, batch_sizes, hx)
            return (PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices),
                    self.permute_hidden(state, unsorted_indices))
        if input.dim() not in (2, 3):
            kind = self.mode.partition("_")[0]
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D "
                             f"{'tensor ' if kind == 'RNN' else ''}instead")
        batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        if hx is None:
            hx = self._zero_state(input, None)
        else:
            self._check_state_rank(hx, batched)
            if not batched:
                hx = self._each(lambda state: state.unsqueeze(1), hx)
        self.check_forward_args(input, hx, None)
        output, state = self._run(input, None, hx)
        if not batched:
            output, state = output.squeeze(batch_dim), self._each(lambda state: state.squeeze(1), state)
        return output, state


@completed
class RNN(RNNBase):
    """``h[t] = tanh(W_ih x[t] + b_ih + W_hh h[t-1] + b_hh)`` for each step of a sequence, or with relu (Elman, 1990,
    "Finding Structure in Time").

        input_size, hidden_size: features of a step, and of the state.
        num_layers: how many, each reading what the one below gave.
        nonlinearity: "tanh" or "relu", else a ValueError.
        bias: whether there are b_ih and b_hh.
        batch_first: sequences are (N, T, features) instead of (T, N, features). The state isn't changed by it.
        dropout: of what each layer but the last gives, while training.
        bidirectional: a second set of weights reads backwards; outputs are joined.
        <factory>

    Shape: input (T, N, input_size), (T, input_size), or a `PackedSequence`; state (num_layers * directions, N,
    hidden_size), zeros if not given -> output (T, N, directions * hidden_size) and the last state.

    >>> output, state = nn.RNN(3, 4, num_layers=2)(tede.randn(5, 1, 3))
    >>> output.shape, state.shape
    (tede.Size([5, 1, 4]), tede.Size([2, 1, 4]))
    """

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


@completed
class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997, "Long Short-Term Memory"). For each step, with gates
    from ``W_ih x + b_ih + W_hh h + b_hh``::

        i, f, o = sigmoid(...)      # input, forget, output
        g = tanh(...)
        c = f * c + i * g
        h = o * tanh(c)

    The rows of a weight hold i, f, g, o.

        input_size, hidden_size: features of a step, and of the state.
        num_layers: how many, each reading what the one below gave.
        bias: whether there are b_ih and b_hh.
        batch_first: sequences are (N, T, features) instead of (T, N, features). The state isn't changed by it.
        dropout: of what each layer but the last gives, while training.
        bidirectional: a second set of weights reads backwards; outputs are joined.
        proj_size: if above 0, h is multiplied by a matrix to this size, below hidden_size.
        <factory>

    Shape: input (T, N, input_size), (T, input_size), or a `PackedSequence`; state (h, c), zeros if not given: h
    (num_layers * directions, N, hidden_size, or proj_size), c with hidden_size -> output (T, N, directions * h's size),
    and the last (h, c).

    >>> output, (h, c) = nn.LSTM(3, 4, batch_first=True)(tede.randn(2, 5, 3))
    >>> output.shape, h.shape, c.shape
    (tede.Size([2, 5, 4]), tede.Size([1, 2, 4]), tede.Size([1, 2, 4]))
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes):
        """The shape that the cell state must have."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else (_apply_permutation(hx[0], permutation), _apply_permutation(hx[1], permutation))

    def _each(self, function, hx):
        return function(hx[0]), function(hx[1])

    def _zero_state(self, input, batch_sizes):
        return tuple(T.zeros(shape, dtype=input.dtype, device=input.device) for shape in
                     (self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)))

    def _check_state_rank(self, hx, batched):
        rank = 3 if batched else 2
        if hx[0].dim() != rank or hx[1].dim() != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx and cx should also be {rank}-D but got "
                               f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")


@completed
class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014, "Learning Phrase Representations using RNN Encoder-Decoder"). For each
    step::

        r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)       # reset, update
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h = (1 - z) * n + z * h

    The rows of a weight hold r, z, n. As in PyTorch, r multiplies after W_hn; the paper has it before.

        input_size, hidden_size: features of a step, and of the state.
        num_layers: how many, each reading what the one below gave.
        bias: whether there are b_ih and b_hh.
        batch_first: sequences are (N, T, features) instead of (T, N, features). The state isn't changed by it.
        dropout: of what each layer but the last gives, while training.
        bidirectional: a second set of weights reads backwards; outputs are joined.
        <factory>

    Shape: input (T, N, input_size), (T, input_size), or a `PackedSequence`; state (num_layers * directions, N,
    hidden_size), zeros if not given -> output (T, N, directions * hidden_size) and the last state.

    >>> output, state = nn.GRU(3, 4, bidirectional=True)(tede.randn(5, 2, 3))
    >>> output.shape, state.shape
    (tede.Size([5, 2, 8]), tede.Size([2, 2, 4]))
    """

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


@completed
class RNNCellBase(Module):
    """The weights of one step: `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`, for `num_chunks` gates.

        input_size, hidden_size, bias: as for the cells.
        num_chunks: 1, 3 (GRU) or 4 (LSTM).
        <factory>

    >>> nn.RNNCellBase(3, 4, bias=False, num_chunks=3).weight_ih.shape
    tede.Size([12, 3])
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: T.Tensor
    weight_hh: T.Tensor

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates, where = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(T.empty((gates, input_size), **where))
        self.weight_hh = Parameter(T.empty((gates, hidden_size), **where))
        self.register_parameter("bias_ih", Parameter(T.empty(gates, **where)) if bias else None)
        self.register_parameter("bias_hh", Parameter(T.empty(gates, **where)) if bias else None)
        self.reset_parameters()

    reset_parameters = RNNBase.reset_parameters

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check_rank(self, what, tensor):
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead")

    def _single(self, function, input, hx):
        """One step of a cell whose state is one tensor, with or without a batch."""
        self._check_rank("input", input)
        if hx is not None:
            self._check_rank("hidden", hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = T.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        elif hx.dim() == 1:
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden0 batch size {hx.size(0)}")
        result = function(input, hx, *self._weights())
        return result if batched else result.squeeze(0)


@completed
class RNNCell(RNNCellBase):
    """One step of `RNN`: ``tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with relu.

        input_size, hidden_size, bias, nonlinearity: as there.
        <factory>

    Shape: input (N, input_size) or (input_size), state (N, hidden_size) or (hidden_size), zeros if not given -> the new
    state.

    >>> nn.RNNCell(3, 4)(tede.randn(2, 3)).shape
    tede.Size([2, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: T.Tensor, hx: T.Tensor | None = None) -> T.Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._single(getattr(recurrent, f"rnn_{self.nonlinearity}_cell"), input, hx)


@completed
class LSTMCell(RNNCellBase):
    """One step of `LSTM`.

        input_size, hidden_size, bias: as there.
        <factory>

    Shape: input (N, input_size) or (input_size), state (h, c), each (N, hidden_size) or (hidden_size), zeros if not
    given -> the new (h, c).

    >>> h, c = nn.LSTMCell(3, 4)(tede.randn(2, 3))
    >>> h.shape, c.shape
    (tede.Size([2, 4]), tede.Size([2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: T.Tensor, hx: T.Tensor | None = None):
        self._check_rank("input", input)
        for i, state in enumerate(() if hx is None else hx):
            self._check_rank(f"hx[{i}]", state)
        if isinstance(hx, T.Tensor):
            raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = T.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = recurrent.lstm_cell(input, hx, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


@completed
class GRUCell(RNNCellBase):
    """One step of `GRU`.

        input_size, hidden_size, bias: as there.
        <factory>

    Shape: input (N, input_size) or (input_size), state (N, hidden_size) or (hidden_size), zeros if not given -> the new
    state.

    >>> nn.GRUCell(3, 4)(tede.randn(2, 3)).shape
    tede.Size([2, 4])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: T.Tensor, hx: T.Tensor | None = None) -> T.Tensor:
        return self._single(recurrent.gru_cell, input, hx)
