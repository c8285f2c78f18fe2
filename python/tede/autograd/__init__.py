"""Gradients: backward and grad, Function, and the thread's modes."""
from tede import _C
from tede._C import Tensor, _Node as Node  # noqa: F401
from tede._recording import recording as _profiler_enabled  # noqa: F401
from tede._modes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from tede.autograd.function import Function, NestedIOFunction, once_differentiable  # noqa: F401
from tede.autograd._passes import Variable, _backward_of, backward, grad  # noqa: F401
from tede.autograd.gradcheck import gradcheck, gradgradcheck  # noqa: F401

__all__ = ["Function", "NestedIOFunction", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "grad_mode", "gradcheck",
           "gradgradcheck", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled"]


def _get_sequence_nr():
    """The number that the next node of this thread gets."""
    return _C._next_sequence()


def _record_function_with_args_enter(name, *args):
    """Begin a named part of the program that has operands; what it gives is for _record_function_with_args_exit."""
    from tede.profiler._listen import record_function_with_args_enter
    return record_function_with_args_enter(name, *args)


def _record_function_with_args_exit(handle):
    handle.__exit__()


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name in ("detect_anomaly", "set_detect_anomaly"):
        from tede.autograd import anomaly_mode
        return getattr(anomaly_mode, name)
    if name in ("set_multithreading_enabled", "_force_original_view_tracking", "_unsafe_preserve_version_counter"):
        from tede.autograd import grad_mode
        return getattr(grad_mode, name)
    if name in ("kineto_available", "_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks"):
        from tede.autograd import _extension
        return getattr(_extension, name)
    if name == "torch":
        import tede
        return tede
    if name == "SavedTensor":
        return _C._SavedTensor
    if name == "is_multithreading_enabled":
        return _C._multithreading_enabled
    if name == "_calculate_shape":
        from tede.autograd import _passes
        return _passes.shapes_of
    if name in ("functional", "graph", "profiler", "profiler_util", "forward_ad", "grad_mode", "anomaly_mode"):
        try:
            return __import__("tede.autograd." + name, fromlist=[name])
        except ModuleNotFoundError as error:
            if error.name != "tede.autograd." + name:
                raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
