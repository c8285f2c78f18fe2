"""Long short-term memory, step by step: linear layers, gates and products that are observed one by one."""
import numbers
import warnings

import tede
from tede import nn
from tede.ao.nn import _steps
from tede.ao.nn.quantized.modules.functional_modules import FloatFunctional

__all__ = ["LSTMCell", "LSTM"]

_GATES = ("input", "forget", "cell", "output")


def _of_gates(make, split):
    """One layer for all gates, or one for each."""
    return nn.ModuleDict({gate: make(1) for gate in _GATES}) if split else make(4)


def _weigh(layers, weight, bias, split):
    """Give the layer of all gates, or those of each, their rows."""
    each = layers.values() if split else [layers]
    biases = [None] * len(each) if bias is None else bias.chunk(len(each))
    for layer, rows, shift in zip(each, weight.chunk(len(each)), biases, strict=True):
        layer.weight = nn.Parameter(rows)
        if shift is not None:
            layer.bias = nn.Parameter(shift)


class LSTMCell(nn.Module):
    """One step. ``split_gates``: a linear layer for each gate in place of one for all."""
    _FLOAT_MODULE = nn.LSTMCell
    __constants__ = ["split_gates"]

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.split_gates = input_dim, hidden_dim, bias, split_gates

        def linear(inputs):
            return _of_gates(lambda n: nn.Linear(inputs, n * hidden_dim, bias=bias, device=device, dtype=dtype), split_gates)
        self.igates, self.hgates = linear(input_dim), linear(hidden_dim)
        self.gates = _of_gates(lambda n: FloatFunctional(), split_gates)
        self.input_gate, self.forget_gate, self.cell_gate, self.output_gate = nn.Sigmoid(), nn.Sigmoid(), nn.Tanh(), nn.Sigmoid()
        self.fgate_cx, self.igate_cgate, self.fgate_cx_igate_cgate, self.ogate_cy = (FloatFunctional() for _ in range(4))
        # How a state that isn't passed is quantized.
        self.initial_hidden_state_qparams = self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = tede.quint8

    def _sums(self, x, h):
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(h)).chunk(4, 1)
        return [self.gates[gate].add(self.igates[gate](x), self.hgates[gate](h)) for gate in _GATES]

    def forward(self, x, hidden=None):
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        h, c = hidden
        i, f, g, o = self._sums(x, h)
        i, f, g, o = self.input_gate(i), self.forget_gate(f), self.cell_gate(g), self.output_gate(o)
        c = self.fgate_cx_igate_cgate.add(self.fgate_cx.mul(f, c), self.igate_cgate.mul(i, g))
        return self.ogate_cy.mul(o, tede.tanh(c)), c

    def initialize_hidden(self, batch_size, is_quantized=False):
        h, c = tede.zeros(batch_size, self.hidden_size), tede.zeros(batch_size, self.hidden_size)
        if not is_quantized:
            return h, c
        return (tede.quantize_per_tensor(h, *self.initial_hidden_state_qparams, self.hidden_state_dtype),
                tede.quantize_per_tensor(c, *self.initial_cell_state_qparams, self.cell_state_dtype))

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(cls, wi, wh, bi=None, bh=None, split_gates=False):
        """A cell with these weights and biases, in the order of nn.LSTMCell's."""
        if (bi is None) != (bh is None):
            raise AssertionError("bi and bh must both be None or both have values")
        cell = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        _weigh(cell.igates, wi, bi, split_gates)
        _weigh(cell.hgates, wh, bh, split_gates)
        return cell

    @classmethod
    def from_float(cls, other, use_precomputed_fake_quant=False, split_gates=False):
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        observed = cls.from_params(other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates=split_gates)
        for layers in (observed.igates, observed.hgates):
            for layer in layers.values() if split_gates else ():
                layer.qconfig = other.qconfig
            layers.qconfig = other.qconfig
        observed.qconfig = other.qconfig
        return observed


class _LSTMSingleLayer(nn.Module):
    """A cell over the steps of a sequence."""

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        self.cell = LSTMCell(input_dim, hidden_dim, bias=bias, device=device, dtype=dtype, split_gates=split_gates)

    def forward(self, x, hidden=None):
        outputs = []
        for step in x:
            hidden = self.cell(step, hidden)
            outputs.append(hidden[0])
        return tede.stack(outputs, 0), hidden

    @classmethod
    def from_params(cls, *args, **kwargs):
        cell = LSTMCell.from_params(*args, **kwargs)
        layer = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        layer.cell = cell
        return layer


class _LSTMLayer(nn.Module):
    """One layer, in one direction or both."""

    def __init__(self, input_dim, hidden_dim, bias=True, batch_first=False, bidirectional=False, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        self.batch_first, self.bidirectional = batch_first, bidirectional
        make = {"bias": bias, "device": device, "dtype": dtype, "split_gates": split_gates}
        self.layer_fw = _LSTMSingleLayer(input_dim, hidden_dim, **make)
        if bidirectional:
            self.layer_bw = _LSTMSingleLayer(input_dim, hidden_dim, **make)

    def forward(self, x, hidden=None):
        if self.batch_first:
            x = x.transpose(0, 1)
        h, c = (None, None) if hidden is None else hidden
        if not self.bidirectional:
            made, state = self.layer_fw(x, None if h is None and c is None else (h, c))
        else:
            forth, back = (None if h is None or c is None else (h[at], c[at]) for at in (0, 1))
            made, forth = self.layer_fw(x, forth)
            made_back, back = self.layer_bw(x.flip(0), back)
            made = tede.cat([made, made_back.flip(0)], -1)
            state = tuple(tede.stack(pair, 0) for pair in zip(forth, back, strict=True))
        return made.transpose(0, 1) if self.batch_first else made, tuple(state)

    @classmethod
    def from_float(cls, other, layer_idx=0, qconfig=None, **kwargs):
        """Layer `layer_idx` of nn.LSTM; kwargs say what isn't as there."""
        if not hasattr(other, "qconfig") and qconfig is None:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        split = kwargs.get("split_gates", False)
        sizes = [kwargs.get(name, getattr(other, name)) for name in ("input_size", "hidden_size", "bias", "batch_first", "bidirectional")]
        layer = cls(*sizes, split_gates=split)
        layer.qconfig = getattr(other, "qconfig", qconfig)
        for name, suffix in (("layer_fw", ""), ("layer_bw", "_reverse"))[:1 + other.bidirectional]:
            numbers_of = [getattr(other, f"{part}_l{layer_idx}{suffix}", None) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            setattr(layer, name, _LSTMSingleLayer.from_params(*numbers_of, split_gates=split))
        return layer


class LSTM(nn.Module):
    """nn.LSTM of layers that can be observed: ``layers[0].layer_fw.cell.igates`` and so on. Dropout is left out."""
    _FLOAT_MODULE = nn.LSTM

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None,
                 dtype=None, *, split_gates=False):
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.training = False               # until somebody trains it
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0:
            warnings.warn("dropout option for quantizable LSTM is ignored. If you are training, please, use nn.LSTM version followed by "
                          "`prepare` step.", stacklevel=2)
            if num_layers == 1:
                warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
                              f"than 1, but got dropout={dropout} and num_layers={num_layers}", stacklevel=2)
        # A layer takes what the one before makes; PyTorch gives all after the first one `hidden_size` inputs, which two directions don't fit.
        made = hidden_size * (2 if bidirectional else 1)
        self.layers = nn.ModuleList(
            _LSTMLayer(made if i else input_size, hidden_size, bias, False, bidirectional, device, dtype, split_gates=split_gates)
            for i in range(num_layers))

    def forward(self, x, hidden=None):
        if self.batch_first:
            x = x.transpose(0, 1)
        directions, batch = 2 if self.bidirectional else 1, x.size(1)
        if hidden is None:
            zeros = tede.zeros(directions, batch, self.hidden_size, dtype=tede.float, device=x.device).squeeze(0)
            if x.is_quantized:
                zeros = tede.quantize_per_tensor(zeros, scale=1.0, zero_point=0, dtype=x.dtype)
            states = [(zeros, zeros)] * self.num_layers
        elif isinstance(hidden[0], tede.Tensor):
            h, c = (part.reshape(self.num_layers, directions, batch, self.hidden_size) for part in hidden)
            states = [(h[i].squeeze(0), c[i].squeeze(0)) for i in range(self.num_layers)]
        else:
            states = hidden
        made = []
        for layer, state in zip(self.layers, states, strict=True):
            x, state = layer(x, state)
            made.append(state)
        h, c = (tede.stack(parts) for parts in zip(*made, strict=True))
        last = tuple(part.reshape(-1, part.shape[-2], part.shape[-1]) for part in (h, c))
        return x.transpose(0, 1) if self.batch_first else x, last

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other, qconfig=None, split_gates=False):
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        observed = cls(other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first, other.dropout, other.bidirectional,
                       split_gates=split_gates)
        observed.qconfig = getattr(other, "qconfig", qconfig)
        for i in range(other.num_layers):
            observed.layers[i] = _LSTMLayer.from_float(other, i, qconfig, batch_first=False, split_gates=split_gates)
        return _steps.prepare_as(observed, other.training)

    @classmethod
    def from_observed(cls, other):
        raise NotImplementedError("It looks like you are trying to convert a non-quantizable LSTM module. Please, see the examples on "
                                  "quantizable LSTMs.")
