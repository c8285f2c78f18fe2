"""Packed weights: what PyTorch's operators of linear and convolutional layers take in place of a weight and a bias.

PyTorch has classes of C++ for them, whose objects are all ScriptObjects to Python. Here they keep the quantized weight as it is, under the
same names and with the same pickles, so that checkpoints are exchanged."""
import copyreg

from tede import _C
from tede._quantized import per_tensor_affine, scheme_of
from tede._script import ScriptObject

_CLASSES = {}


class _Packed(ScriptObject):
    # Pickles name the class that PyTorch knows; pickle insists that it is the object's.
    __class__ = property(lambda self: ScriptObject)

    def __init_subclass__(cls, space="quantized"):
        cls._qualified = f"__torch__.torch.classes.{space}.{cls.__name__}"
        _CLASSES[cls._qualified] = cls

    def _type(self):
        return self._qualified

    def _has_method(self, name):
        return hasattr(self, name)

    def __reduce_ex__(self, protocol):
        return copyreg.__newobj__, (ScriptObject,), self.__getstate__()

    def __getstate__(self):
        return self._fields(), self._qualified

    def __repr__(self):
        return f"ScriptObject <{self._qualified}>"


def _restore(self, state):
    fields, name = state
    found = _CLASSES.get(name)
    if found is None:
        raise RuntimeError(f"there is no class {name} here")
    self.__class__ = found
    found._set_fields(self, fields)


ScriptObject.__setstate__ = _restore


class LinearPackedParamsBase(_Packed):
    """Of a linear layer: the weight is quantized, or float32 that is rounded to float16."""

    def __init__(self, weight, bias):
        self.w, self.b = weight, bias

    def _fields(self):
        return self.w, self.b

    def _set_fields(self, fields):
        self.__init__(*fields)

    def unpack(self):
        return self.w, self.b

    def bias(self):
        return self.b

    def set_bias(self, bias):
        self.b = bias


class _Convolution(_Packed):
    dims = 0

    def __init__(self, weight, bias, stride, padding, output_padding, dilation, groups, transpose):
        self.w, self.b = weight, bias
        self._stride, self._padding, self._output_padding, self._dilation = map(tuple, (stride, padding, output_padding, dilation))
        self._groups, self._transpose = groups, bool(transpose)

    def _fields(self):
        """The version of the format, tensors that are there, and tensors that may be None."""
        numbers = [self.dims, *self._stride, *self._padding, *self._dilation, *self._output_padding, self._groups, int(self._transpose)]
        return "2", [_C.tensor(numbers, dtype=_C.int16), self.w], [self.b]

    def _set_fields(self, fields):
        version, (numbers, weight), (bias,) = fields
        if version != "2":
            raise RuntimeError(f"packed weights of a convolution in version {version} of their format, not 2")
        dims, *rest = numbers.tolist()
        runs = [rest[i * dims:(i + 1) * dims] for i in range(4)]
        self.__init__(weight, bias, runs[0], runs[1], runs[3], runs[2], rest[4 * dims], rest[4 * dims + 1])

    def unpack(self):
        return self.w, self.b

    def run(self):
        """How many bytes of a window lie beside each other where channels come last: a line's, or a pixel's if lines have gaps."""
        return self.w.size(1) * (self.w.size(-1) if self._dilation[-1] == 1 else 1)

    def stride(self):
        return list(self._stride)

    def padding(self):
        return list(self._padding)

    def output_padding(self):
        return list(self._output_padding)

    def dilation(self):
        return list(self._dilation)

    def groups(self):
        return self._groups

    def transpose(self):
        return self._transpose


class Conv2dPackedParamsBase(_Convolution):
    """Of a convolution in one or two dimensions; in one, the height is 1."""
    dims = 2


class Conv3dPackedParamsBase(_Convolution):
    """Of a convolution in three dimensions."""
    dims = 3


class EmbeddingPackedParamsBase(_Packed):
    """Of an embedding: rows of 8 or 4 bits, each with a scale and a zero point."""

    def __init__(self, weight):
        self.w = weight

    def _fields(self):
        return 1, [self.w], [], [self.bit_rate()]

    def _set_fields(self, fields):
        version, (weight,), _, _ = fields
        self.__init__(weight)

    def bit_rate(self):
        return 4 if self.w.dtype is _C.quint4x2 else 8

    def unpack(self):
        return self.w

    def version(self):
        return 1


class CellParamsBase(_Packed, space="rnn"):
    """Of one layer and direction of a recurrent network: the packed weights of the input and of the hidden state.

    kind: "quantized_dynamic" multiplies quantized activations and has its biases apart; "quantized_fp16" floats."""

    def __init__(self, kind, ih, hh, biases=(), reduce_range=False):
        self.kind, self.ih, self.hh, self.biases, self.reduce_range = kind, ih, hh, list(biases), bool(reduce_range)

    def _fields(self):
        return self.kind, self.biases, [], [int(self.reduce_range)] if self.kind == "quantized_dynamic" else [], [self.ih, self.hh]

    def _set_fields(self, fields):
        kind, biases, _, numbers, (ih, hh) = fields
        if kind not in ("quantized_dynamic", "quantized_fp16"):
            raise RuntimeError(f"cells of kind {kind!r} aren't there: quantized_dynamic and quantized_fp16 are")
        self.__init__(kind, ih, hh, biases, numbers[0] if numbers else False)

    def unpack(self):
        return self.ih.unpack()[0], self.hh.unpack()[0]


def is_per_tensor(x):
    return scheme_of(x) is per_tensor_affine
