"""autograd.grad_mode: no_grad, enable_grad, inference_mode and the other gradient modes of the thread."""
from tede import _C
from tede._modes import _Mode, enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class set_multithreading_enabled(_Mode):
    """Kept for PyTorch's signature: backward passes run the CPU's nodes on the calling thread anyway.

    >>> with tede.autograd.set_multithreading_enabled(False):
    ...     pass
    """

    def __init__(self, mode):
        self.before = _C._multithreading_enabled(mode)
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        _C._multithreading_enabled(self.before)

    def clone(self):
        """A new one with the same mode."""
        return type(self)(self.mode)


class _force_original_view_tracking(_Mode):
    """Remembered for compatibility: views are replayed by their geometry, or by the operator where that doesn't do."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass

    def clone(self):
        return type(self)(self.mode)


class _unsafe_preserve_version_counter:
    """Writes within it are not counted: what was saved before them is taken for unchanged."""

    def __init__(self, tensors):
        self.tensors = (tensors,) if isinstance(tensors, _C.Tensor) else tuple(tensors)
        self.versions = [x._version for x in self.tensors]

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        for x, version in zip(self.tensors, self.versions):
            _C._set_version(x, version)
