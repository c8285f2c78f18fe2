"""The fake mode that is active, and what programs ask of torch.compile's state: nothing is traced."""


def _fake_modes():
    """Those that are entered, the innermost first."""
    from tede._subclasses.fake_tensor import FakeTensorMode
    from tede.utils._python_dispatch import _get_current_dispatch_mode_stack
    return [mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, FakeTensorMode)]


def active_fake_mode():
    """The innermost FakeTensorMode that is entered, or None."""
    return next(iter(_fake_modes()), None)


def detect_fake_mode(inputs=None):
    """The innermost FakeTensorMode that is entered, else that of the fake tensors among `inputs`, which must have one mode."""
    from tede._subclasses.fake_tensor import FakeTensor
    from tede.utils import _pytree
    modes = [(mode, "active fake mode", i) for i, mode in enumerate(_fake_modes())]
    modes += [(x.fake_mode, "fake tensor input", i) for i, x in enumerate(_pytree.tree_leaves(inputs)) if isinstance(x, FakeTensor)]
    for mode, what, i in modes:
        if mode is not modes[0][0]:
            raise AssertionError(f"fake mode ({modes[0][0]}) from {modes[0][1]} {modes[0][2]} doesn't match mode ({mode}) from {what} {i}")
    return modes[0][0] if modes else None


class TracingContext:
    """What is traced; nothing."""

    @staticmethod
    def try_get():
        return None
