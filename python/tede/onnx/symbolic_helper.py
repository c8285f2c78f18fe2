"""The decorators of functions that would write ONNX: they leave the functions as they are."""
from tede._absent import module as _module

__getattr__ = _module("onnx.symbolic_helper", "models can't be exported to ONNX")


def parse_args(*arg_descriptors):
    return lambda fn: fn


quantized_args = parse_args
