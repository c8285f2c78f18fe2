"""Long short-term memory on quantized tensors."""
from tede.ao.nn import _steps
from tede.ao.nn.quantizable.modules import rnn as quantizable

__all__ = ["LSTM"]


class LSTM(quantizable.LSTM):
    """What `convert` makes of an observed `nn.quantizable.LSTM`."""
    _FLOAT_MODULE = quantizable.LSTM

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args, **kwargs):
        raise NotImplementedError("It looks like you are trying to convert a non-observed LSTM module. Please, see the examples on "
                                  "quantizable LSTMs.")

    @classmethod
    def from_observed(cls, other):
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        return _steps.convert_as(other, cls)
