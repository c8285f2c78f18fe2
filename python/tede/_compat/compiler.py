"""torch.compiler's names, most of which say that there is nothing to configure: compile itself is tede/_compile.py."""
import functools as _functools

from tede import _compile
from tede._compat import fill as _fill
from tede._compile import compile, list_backends, stats

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "explain", "get_default_backend",
           "is_compiling", "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe",
           "list_backends", "load_cache_artifacts", "load_compiled_function", "nested_compile_region", "reset", "save_cache_artifacts",
           "set_default_backend", "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe",
           "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
           "stats", "substitute_in_graph", "wrap_numpy"]


class set_stance:
    """Accepted for compatibility; a context manager and a decorator without an effect."""

    def __init__(self, stance="default", **kwargs):
        pass

    def __call__(self, fn):
        return fn

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass


class NestedCompileRegionOptions:
    """Accepted for compatibility: nested regions run as they are."""

    def __init__(self, **options):
        vars(self).update(options)


def explain(f, *, backend=None):
    """A function of f's arguments that calls f as compile would, and says what was computed when, and what ended that early, at which line.

    Its result prints that, and has it as `parts`, with PyTorch's names beside it (graph_break_count, break_reasons); f's own is `result`.

    Example:
        >>> print(tede.compiler.explain(lambda x: (x * 2).relu() + 1)(tede.ones(200, 200)))
        parts: 1, calls: 3, ended early: 0
        1: 3 calls, 3 of them fused, 0 dropped; ended by: the function returned
    """
    from tede._region_report import explain
    return explain(f, backend)


def set_default_backend(backend):
    """What compile() takes for a backend where none is given. None is PyTorch's default again."""
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _compile.default_backend = backend


def get_default_backend():
    return "inductor" if _compile.default_backend is None else _compile.default_backend


_collectives = False


def set_enable_guard_collectives(enabled):
    """Whether it was on before; there are no guards to agree about."""
    global _collectives
    before, _collectives = _collectives, bool(enabled)
    return before


def wrap_numpy(fn):
    """A function of NumPy's arrays as one of tensors: they are lent to it, and arrays among its results come back as tensors."""
    from tede import Tensor, as_tensor
    from tede.utils import _pytree as pytree

    @_functools.wraps(fn)
    def wrapped(*args, **kwargs):
        import numpy as np
        args, kwargs = pytree.tree_map_only(Tensor, lambda x: x.numpy(), (args, kwargs))
        return pytree.tree_map_only(np.ndarray, as_tensor, fn(*args, **kwargs))
    return wrapped


# ---- filters of guards, for entries as PyTorch's compiler makes them

def keep_portable_guards_unsafe(guard_entries):
    return [entry.guard_type in ("GLOBAL_STATE", "SHAPE_ENV") or (entry.guard_type == "TENSOR_MATCH" and not entry.is_global)
            for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    return [not entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    return [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    from tede.nn import Parameter
    return [entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, Parameter)) for entry in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    return [not entry.is_global for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries):
    return [False for _ in guard_entries]


_fill(globals())
