"""TorchScript's names. trace records a graph (tede/_traced.py), which can be saved and loaded. Nothing is compiled: script returns what it was passed,
and says so once; a program that scripts its model runs as it is."""
from builtins import isinstance as _builtin_isinstance
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

from tede._compat import fill as _fill
from tede._notice import once as _once
from tede._script import ScriptFunction, ScriptModule, ScriptObject, TracerWarning, TracingCheckError  # noqa: F401

__all__ = ["Attribute", "CompilationUnit", "Error", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion", "export", "fork",
           "freeze", "ignore", "interface", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "save", "script",
           "script_if_tracing", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait"]


def _identity(what):
    _once("torch.jit", f"torch.jit.{what}: tede runs Python as it is; the function or module is returned unchanged.")


def script(obj=None, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The object, unchanged."""
    _identity("script")
    return obj


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
          _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """The function or module as the graph of operators that it calls on the example inputs: `graph`, `code`, `save`, and itself to be called.

    Sizes that the calls don't depend on stay open. A program that needs a value, in an `if` say, is refused with its line. check_trace: compare
    results with the program's, and warn (TracerWarning) where they differ. strict: lists and dicts among the results are an error (RuntimeError)."""
    from tede._traced import trace
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError("example_inputs and example_kwarg_inputs: one of them is needed")
    args = example_inputs if _builtin_isinstance(example_inputs, (tuple, list)) else () if example_inputs is None else (example_inputs,)
    checks = None if check_inputs is None else [x if _builtin_isinstance(x, (tuple, list)) else (x,) for x in check_inputs]
    return trace(func, tuple(args), dict(example_kwarg_inputs or {}), check_trace, check_tolerance, checks, strict=strict)


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True, **options):
    """trace() of a module's forward, which is the only method that can be traced: inputs is {"forward": the example inputs}."""
    if list(inputs) != ["forward"]:
        raise NotImplementedError(f"torch.jit.trace_module: methods {list(inputs)}; only forward can be traced")
    return trace(mod, inputs["forward"], check_trace=check_trace, check_tolerance=check_tolerance, strict=strict,
                 check_inputs=None if check_inputs is None else [x["forward"] for x in check_inputs])


def save(m, f, _extra_files=None):
    """Write a traced module or function: a zip archive of its graph as text and its tensors. Read by tede alone."""
    if not _builtin_isinstance(m, (ScriptModule, ScriptFunction)):
        raise NotImplementedError("torch.jit.save: there is no TorchScript here; trace the module, or save its state_dict with torch.save")
    m.save(f, _extra_files)


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """What save wrote. Archives of TorchScript can't be run."""
    from tede._traced import load
    return load(f, map_location, _extra_files)


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


_fill(globals())
RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule
