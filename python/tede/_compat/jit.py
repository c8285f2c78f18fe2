"""TorchScript's names. Nothing is compiled: script and trace return what they were passed, and say so once.

A program that scripts its model runs as it is. Saving a scripted module, and loading one, is not there.
"""
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

from tede._compat import fill as _fill
from tede._notice import once as _once

__all__ = ["Attribute", "CompilationUnit", "Error", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion", "export", "fork",
           "freeze", "ignore", "interface", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "save", "script",
           "script_if_tracing", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait"]


class TracerWarning(Warning):
    """What a tracer that can't follow Python says; for filters."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore: there is no tracer."""


def _identity(what):
    _once("torch.jit", f"torch.jit.{what}: tede runs Python as it is; the function or module is returned unchanged.")


def script(obj=None, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The object, unchanged."""
    _identity("script")
    return obj


def trace(func, example_inputs=None, *args, **kwargs):
    """The function or module, unchanged."""
    _identity("trace")
    return func


def trace_module(mod, inputs, *args, **kwargs):
    _identity("trace_module")
    return mod


def isinstance(obj, target_type):
    import builtins
    return builtins.isinstance(obj, target_type)


def annotate(the_type, the_value):
    return the_value


class _Broadcasting:
    """BroadcastingList2[float]: an annotation that says a list, or one value for all its elements."""

    def __getitem__(self, types):
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _Broadcasting()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = _Broadcasting()


class Attribute:
    def __new__(cls, value, type):
        return value


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls `if_true` or `if_false` by the truth of its argument `arg_name`, which is the `arg_index`-th."""
    def fn(*args, **kwargs):
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if chosen else if_false)(*args, **kwargs)
    fn.__doc__ = if_true.__doc__ if if_false.__doc__ is None else if_false.__doc__
    fn.__module__, fn.__name__ = module_name or fn.__module__, func_name or fn.__name__
    return fn


def fork(func, *args, **kwargs):
    """The result of a call, at once, behind wait()."""
    from tede.futures import Future
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The value of a future."""
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


class ScriptFunction:
    """No function is an instance."""


class ScriptObject:
    """Packed weights of quantized layers (torch.ops.quantized) are its only instances."""
    __module__ = "tede"


ScriptMethod, RecursiveScriptClass = ScriptFunction, ScriptObject


class Error(RuntimeError):
    pass


class _Nothing:
    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass


strict_fusion = fuser = optimized_execution = _Nothing


class ScriptWarning(Warning):
    pass


class TracingCheckError(Exception):
    pass


_fill(globals())
RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule  # noqa: F821
