"""Not there: see _absent."""
from tede._absent import module as _module

__getattr__ = _module("onnx", "models can't be exported to ONNX; save the module's state_dict instead", ())
