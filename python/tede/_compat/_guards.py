"""The fake mode that is active, and what programs ask of torch.compile's state: nothing is traced but what they say they trace."""
import contextlib
import threading

_tracing = threading.local()


def _fake_modes():
    """Those that are entered, the innermost first."""
    from tede._subclasses.fake_tensor import FakeTensorMode
    from tede.utils._python_dispatch import _get_current_dispatch_mode_stack
    return [mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, FakeTensorMode)]


def active_fake_mode():
    """The innermost FakeTensorMode that is entered, or None."""
    return next(iter(_fake_modes()), None)


def detect_fake_mode(inputs=None):
    """The innermost FakeTensorMode that is entered, after that of what is traced, else that of the fake tensors among `inputs`: all must be
    one mode."""
    from tede._subclasses.fake_tensor import FakeTensor
    from tede.utils import _pytree
    context = TracingContext.try_get()
    modes = [(context.fake_mode, "tracing context", 0)] if context is not None and context.fake_mode is not None else []
    modes += [(mode, "active fake mode", i) for i, mode in enumerate(_fake_modes())]
    modes += [(x.fake_mode, "fake tensor input", i) for i, x in enumerate(_pytree.tree_leaves(inputs)) if isinstance(x, FakeTensor)]
    for mode, what, i in modes:
        if mode is not modes[0][0]:
            raise AssertionError(f"fake mode ({modes[0][0]}) from {modes[0][1]} {modes[0][2]} doesn't match mode ({mode}) from {what} {i}")
    return modes[0][0] if modes else None


class TracingContext:
    """What a program that traces keeps: the fake mode of its tensors."""

    def __init__(self, fake_mode=None):
        self.fake_mode = fake_mode

    @staticmethod
    def try_get():
        """The innermost that was entered with `tracing` on this thread, or None."""
        return getattr(_tracing, "context", None)

    @staticmethod
    def get():
        context = TracingContext.try_get()
        if context is None:
            raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")
        return context


@contextlib.contextmanager
def tracing(context):
    """Within it `context` is TracingContext.get(); None stands for none."""
    before, _tracing.context = TracingContext.try_get(), context
    try:
        yield context
    finally:
        _tracing.context = before
