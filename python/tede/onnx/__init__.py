"""Export to ONNX isn't there. What packages do while they are imported works: they ask, and announce their operators."""
from tede._absent import module as _module

__getattr__ = _module("onnx", "models can't be exported to ONNX; save the module's state_dict instead")


def is_in_onnx_export():
    """False."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Accepted for compatibility: nothing is exported that would ask for it."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Accepted for compatibility."""
