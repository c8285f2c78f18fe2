"""Recurrent layers with quantized weights; the gates are floats."""
import numbers
import warnings

import tede
from tede import nn
from tede.ao.nn.quantized.modules.utils import _quantize_weight
from tede.ao.quantization.qconfig import default_dynamic_qconfig
from tede.nn.utils.rnn import PackedSequence

__all__ = ["pack_weight_bias", "PackedParameter", "RNNBase", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell",
           "apply_permutation"]

_GATES = {"LSTM": 4, "LSTMCell": 4, "GRU": 3, "GRUCell": 3, "RNNCell": 1}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """Deprecated: tensor.index_select."""
    warnings.warn("apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead", FutureWarning, stacklevel=2)
    return _apply_permutation(tensor, permutation, dim)


def pack_weight_bias(qweight, bias, dtype):
    """A weight and a bias, packed for the operators."""
    if dtype is tede.qint8:
        return tede.ops.quantized.linear_prepack(qweight, bias)
    return tede.ops.quantized.linear_prepack_fp16(qweight, bias)


def _weight_observer(mod):
    """Of a float layer's qconfig, or 8 bits."""
    qconfig = getattr(mod, "qconfig", None)
    observer = (qconfig if qconfig is not None and qconfig.weight is not None else default_dynamic_qconfig).weight()
    if observer.dtype not in (tede.qint8, tede.float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {observer.dtype}")
    return observer


def _quantized(weight, observer):
    if observer.dtype is tede.float16:
        return weight.float()
    observer(weight)
    return _quantize_weight(weight.float(), observer)


class PackedParameter(nn.Module):
    """Packed weights as a module, for state dicts."""

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)


def _cell_params(w_ih, w_hh, b_ih, b_hh, dtype):
    """Packed weights of a layer and direction. Activations are quantized to 7 bits."""
    ih, hh = pack_weight_bias(w_ih, b_ih, dtype), pack_weight_bias(w_hh, b_hh, dtype)
    if dtype is tede.float16:
        return tede.ops.quantized.make_quantized_cell_params_fp16(ih, hh)
    return tede.ops.quantized.make_quantized_cell_params_dynamic(ih, hh, b_ih, b_hh, True)


class RNNBase(nn.Module):
    _version = 2
    _FLOAT_MODULE = nn.RNNBase

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 dtype=tede.qint8):
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = mode, input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional, self.dtype, self.version = batch_first, float(dropout), bidirectional, dtype, 2
        self.training = False
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
                          f"than 1, but got dropout={dropout} and num_layers={num_layers}", stacklevel=2)
        if mode not in ("LSTM", "GRU"):
            raise ValueError("Unrecognized RNN mode: " + mode)
        gates, directions, made = _GATES[mode] * hidden_size, 2 if bidirectional else 1, []
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * directions
            for _ in range(directions):
                weights = [tede.randn(gates, n).float() for n in (inputs, hidden_size)]
                if dtype is tede.qint8:
                    weights = [tede.quantize_per_tensor(w, scale=0.1, zero_point=0, dtype=tede.qint8) for w in weights]
                elif dtype is not tede.float16:
                    raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {dtype}")
                made.append(PackedParameter(_cell_params(*weights, tede.randn(gates).float(), tede.randn(gates).float(), dtype)))
        self._all_weight_values = nn.ModuleList(made)

    def _get_name(self):
        return "DynamicQuantizedRNN"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0), ("bidirectional", False)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    # ---- checks

    def check_input(self, input, batch_sizes):
        dims = 2 if batch_sizes is not None else 3
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def get_expected_hidden_size(self, input, batch_sizes):
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes), msg="Expected hidden size {}, got {}")

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else _apply_permutation(hx, permutation)

    # ---- the layer

    def _zeros(self, input, batch):
        return tede.zeros(self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size, dtype=input.dtype, device=input.device)

    def _run(self, input, hx, batch_sizes):
        """(outputs, hidden states)"""
        raise NotImplementedError

    def forward_impl(self, input, hx, batch_sizes, max_batch_size, sorted_indices):
        hx = self._initial(input, max_batch_size) if hx is None else self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        return self._run(input, hx, batch_sizes)

    def forward_tensor(self, input, hx=None):
        output, hidden = self.forward_impl(input, hx, None, input.size(0 if self.batch_first else 1), None)
        return output, self.permute_hidden(hidden, None)

    def forward_packed(self, input, hx=None):
        data, batch_sizes, sorted_indices, unsorted_indices = input
        output, hidden = self.forward_impl(data, hx, batch_sizes, int(batch_sizes[0]), sorted_indices)
        return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), self.permute_hidden(hidden, unsorted_indices)

    def forward(self, input, hx=None):
        return self.forward_packed(input, hx) if isinstance(input, PackedSequence) else self.forward_tensor(input, hx)

    def _parameters_of_cells(self):
        return [module.param for module in self._all_weight_values]

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    # ---- weights by their names in float layers

    def _names(self):
        """(names of the weights, names of the biases, packed weights) of each layer and direction."""
        directions = 2 if self.bidirectional else 1
        for at, module in enumerate(self._all_weight_values):
            suffix = f"l{at // directions}" + ("_reverse" if at % directions else "")
            yield [f"weight_ih_{suffix}", f"weight_hh_{suffix}"], [f"bias_ih_{suffix}", f"bias_hh_{suffix}"], module.param

    def get_weight(self):
        return {name: packed.unpack()[0] for names, _, cell in self._names() for name, packed in zip(names, (cell.ih, cell.hh))}

    def get_bias(self):
        return {name: packed.unpack()[1] for _, names, cell in self._names() for name, packed in zip(names, (cell.ih, cell.hh))}

    def _weight_bias(self):
        return {"weight": self.get_weight(), "bias": self.get_bias()}

    def set_weight_bias(self, weight_bias_dict):
        cells = [_cell_params(*(weight_bias_dict[name] for name in (*weights, *biases)), self.dtype) for weights, biases, _ in self._names()]
        self._all_weight_values = nn.ModuleList(map(PackedParameter, cells))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer with its weights quantized."""
        if type(mod) not in (nn.LSTM, nn.GRU):
            raise AssertionError("nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.bias:
            raise AssertionError(f"nn.quantized.dynamic.{cls.__name__}: a layer without biases isn't there")
        dtype = _weight_observer(mod).dtype
        made = cls(mod.mode, mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional, dtype) \
            if cls is RNNBase else cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional,
                                       dtype=dtype)
        given = {}
        for weights, biases, _ in made._names():
            given.update({name: _quantized(getattr(mod, name), _weight_observer(mod)) for name in weights})
            given.update({name: getattr(mod, name).float() for name in biases})
        made.set_weight_bias(given)
        return made


class LSTM(RNNBase):
    """nn.LSTM with quantized weights."""
    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTM"

    def _initial(self, input, batch):
        return self._zeros(input, batch), self._zeros(input, batch)

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else tuple(_apply_permutation(x, permutation) for x in hx)

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def _run(self, input, hx, batch_sizes):
        with_sizes = () if batch_sizes is None else (batch_sizes,)
        last = (self.batch_first,) if batch_sizes is None else ()
        output, h, c = tede.quantized_lstm(input, *with_sizes, list(hx), self._parameters_of_cells(), self.bias, self.num_layers, self.dropout,
                                           self.training, self.bidirectional, *last, dtype=self.dtype, use_dynamic=True)
        return output, (h, c)


class GRU(RNNBase):
    """nn.GRU with quantized weights."""
    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedGRU"

    def _initial(self, input, batch):
        return self._zeros(input, batch)

    def _run(self, input, hx, batch_sizes):
        with_sizes = () if batch_sizes is None else (batch_sizes,)
        last = (self.batch_first,) if batch_sizes is None else ()
        return tede.quantized_gru(input, *with_sizes, hx, self._parameters_of_cells(), self.bias, self.num_layers, self.dropout, self.training,
                                  self.bidirectional, *last)


class RNNCellBase(nn.Module):
    """One step; the weights are packed, the biases are tensors beside them."""

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=tede.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        gates = num_chunks * hidden_size
        self.bias_ih, self.bias_hh = (tede.randn(gates), tede.randn(gates)) if bias else (None, None)
        weights = [tede.randn(gates, n) for n in (input_size, hidden_size)]
        if dtype is tede.qint8:
            weights = [tede.quantize_per_tensor(w, scale=1, zero_point=0, dtype=tede.qint8) for w in weights]
        elif dtype is not tede.float16:
            raise RuntimeError(f"Unsupported dtype specified for quantized {self._get_name()}!")
        self._packed_weight_ih = pack_weight_bias(weights[0], self.bias_ih, dtype)
        self._packed_weight_hh = pack_weight_bias(weights[1], self.bias_hh, dtype)

    def _get_name(self):
        return "DynamicQuantizedRNNBase"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def check_forward_input(self, input):
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}")

    def check_forward_hidden(self, input, hx, hidden_label=""):
        if input.size(0) != hx.size(0):
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size {hx.size(0)}")
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected {self.hidden_size}")

    def _zeros(self, input):
        return tede.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _weights(self):
        return self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh

    def get_weight(self):
        return {"weight_ih": self._packed_weight_ih.unpack()[0], "weight_hh": self._packed_weight_hh.unpack()[0]}

    def get_bias(self):
        return {"bias_ih": self._packed_weight_ih.unpack()[1], "bias_hh": self._packed_weight_hh.unpack()[1]}

    def _weight_bias(self):
        return {"weight": self.get_weight(), "bias": self.get_bias()}

    def set_weight_bias(self, weight_bias_dict):
        self._packed_weight_ih = pack_weight_bias(weight_bias_dict["weight_ih"], weight_bias_dict["bias_ih"], self.weight_dtype)
        self._packed_weight_hh = pack_weight_bias(weight_bias_dict["weight_hh"], weight_bias_dict["bias_hh"], self.weight_dtype)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        if type(mod) not in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
            raise AssertionError("nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, nn.GRUCell and nn.RNNCell")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        dtype = _weight_observer(mod).dtype
        options = {"nonlinearity": mod.nonlinearity} if type(mod) is nn.RNNCell else {}
        made = cls(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **options)
        made.bias_ih, made.bias_hh = mod.bias_ih, mod.bias_hh
        made.set_weight_bias({"bias_ih": mod.bias_ih, "bias_hh": mod.bias_hh,
                              **{name: _quantized(getattr(mod, name), _weight_observer(mod)) for name in ("weight_ih", "weight_hh")}})
        return made


class RNNCell(RNNCellBase):
    """nn.RNNCell with quantized weights."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=tede.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self):
        return "DynamicQuantizedRNNCell"

    def forward(self, input, hx=None):
        self.check_forward_input(input)
        hx = self._zeros(input) if hx is None else hx
        self.check_forward_hidden(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return getattr(tede.ops.quantized, f"quantized_rnn_{self.nonlinearity}_cell_dynamic")(input, hx, *self._weights())


class LSTMCell(RNNCellBase):
    """nn.LSTMCell with quantized weights."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTMCell"

    def forward(self, input, hx=None):
        self.check_forward_input(input)
        hx = (self._zeros(input),) * 2 if hx is None else hx
        self.check_forward_hidden(input, hx[0], "[0]")
        self.check_forward_hidden(input, hx[1], "[1]")
        return tede.ops.quantized.quantized_lstm_cell_dynamic(input, list(hx), *self._weights())


class GRUCell(RNNCellBase):
    """nn.GRUCell with quantized weights."""

    def __init__(self, input_size, hidden_size, bias=True, dtype=tede.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self):
        return "DynamicQuantizedGRUCell"

    def forward(self, input, hx=None):
        self.check_forward_input(input)
        hx = self._zeros(input) if hx is None else hx
        self.check_forward_hidden(input, hx)
        return tede.ops.quantized.quantized_gru_cell_dynamic(input, hx, *self._weights())
