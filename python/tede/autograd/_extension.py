"""Names that PyTorch's extension has under `torch._C._autograd`, for the libraries that use them."""
from tede import _C

SavedTensor = _C._SavedTensor
_push_saved_tensors_default_hooks = _C._push_saved_hooks
_pop_saved_tensors_default_hooks = _C._pop_saved_hooks
_get_current_graph_task_keep_graph = _C._graph_task_keeps_graph


def kineto_available():
    """Yes: the profiler, one of its own, records what that library would."""
    return True


def _saved_tensors_hooks_is_enabled():
    return _saved_tensors_hooks_get_disabled_error_message() is None


def _saved_tensors_hooks_get_disabled_error_message():
    return _C._saved_hooks_disabled()


def _saved_tensors_hooks_disable(message, fail_if_non_empty=True):
    _C._disable_saved_hooks(message)


def _saved_tensors_hooks_enable():
    _C._disable_saved_hooks(None)


def _get_autograd_fallback_mode():
    """Whether operators without a kernel on the Autograd key warn when a gradient comes by: "warn" or "nothing"."""
    return "warn" if _C._warn_without_gradient() else "nothing"


def _set_autograd_fallback_mode(mode):
    if mode not in ("warn", "nothing"):
        raise RuntimeError(f"NYI: mode='{mode}'" if mode == "error" else "mode should be one of {\"nothing\", \"warn\", \"error\"}")
    _C._warn_without_gradient(mode == "warn")


def _unsafe_set_version_counter(tensors, versions):
    for x, version in zip((tensors,) if isinstance(tensors, _C.Tensor) else tensors,
                          (versions,) if isinstance(versions, int) else versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        _C._set_version(x, version)
