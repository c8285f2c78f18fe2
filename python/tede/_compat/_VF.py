"""Operators by their plain names, without what tede.functional adds to some of them."""
import tede
from tede import _C

_ELSEWHERE = ("can_cast", "detach_", "from_file", "histogramdd", "is_complex", "is_conj", "is_distributed", "is_floating_point",
              "is_inference", "is_neg", "quantized_lstm", "quantized_gru", "quantized_batch_norm", "quantized_max_pool1d",
              "quantized_max_pool2d", "quantized_max_pool3d", "is_same_size", "is_signed", "is_vulkan_available", "isreal", "promote_types", "result_type",
              "mkldnn_convolution", "mkldnn_max_pool2d", "mkldnn_max_pool3d", "mkldnn_adaptive_avg_pool2d", "_mkldnn_reshape",
              "_mkldnn_transpose", "_mkldnn_transpose_")


def __getattr__(name):
    found = _C._functions.get(name)
    if found is None and name in _C._operators and hasattr(tede, name):     # written in Python, over an operator of the name
        found = _C._operators.get(name)
    if found is None and name in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"):
        found = getattr(_C.Tensor, name)
    if found is None and name in _ELSEWHERE:
        found = getattr(tede, name)         # not operators of the core
    if found is None and not name.startswith("__"):
        from tede._compat import stand_in
        found = stand_in("_VF", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__():
    return sorted({*_C._functions, *(name for name in dir(tede) if name in _C._operators)})
