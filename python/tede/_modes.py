"""Gradient modes (no_grad, enable_grad, inference_mode and others): context managers and decorators."""
from tede import _C
from tede._C import (_set_below_autograd, _set_grad_enabled, _set_inference_mode, _set_promotion, _set_python_excluded,
                     is_grad_enabled, is_inference_mode_enabled)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar
    _F = TypeVar("_F", bound=Callable[..., Any])


def _wrap(function, make):
    """`function`, run within make(). A generator's body runs within it too, but not what it yields to."""
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x20:
        def wrapped(*args, **kwargs):
            generator = function(*args, **kwargs)
            value, error = None, None
            try:
                while True:
                    with make():
                        value = generator.throw(error) if error else generator.send(value)
                    error = None
                    try:
                        value = yield value
                    except GeneratorExit:
                        with make():
                            generator.close()
                        raise
                    except BaseException as raised:
                        error = raised
            except StopIteration as stop:
                return stop.value
    else:
        def wrapped(*args, **kwargs):
            with make():
                return function(*args, **kwargs)
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        try:
            setattr(wrapped, name, getattr(function, name))
        except (AttributeError, TypeError):
            pass
    wrapped.__dict__.update(getattr(function, "__dict__", ()))      # a copy: __wrapped__ below is the wrapper's own
    wrapped.__wrapped__ = function
    return wrapped


class _Mode:
    """Entering sets a mode; leaving sets back what was."""

    def __call__(self, function: "_F") -> "_F":
        if isinstance(function, type):
            import warnings
            warnings.warn("Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or "
                          "methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` method "
                          "and nothing else.", FutureWarning, stacklevel=2)
            function.__init__ = _wrap(function.__init__, self.clone)
            return function
        return _wrap(function, self.clone)

    def clone(self):
        return type(self)()


class promotion(_Mode):
    """Within it operands of different dtypes are promoted by ``rules``: "pytorch", or "array_api", the array API
    standard's, by which mixtures of kinds are an error. For this thread; also a decorator.

    >>> with tede.promotion("array_api"):
    ...     (tede.ones(1, dtype=tede.float32) + tede.ones(1, dtype=tede.float64)).dtype
    tede.float64
    """

    def __init__(self, rules):
        if rules not in ("pytorch", "array_api"):
            raise ValueError(f"promotion rules are 'pytorch' or 'array_api', not {rules!r}")
        self.rules, self.before = rules, []

    def clone(self):
        """A new one with the same rules."""
        return type(self)(self.rules)

    def __enter__(self):
        self.before.append(_set_promotion(self.rules))

    def __exit__(self, *error):
        _set_promotion(self.before.pop())


def set_promotion(rules):
    """Promote operands of different dtypes by ``rules``, "pytorch" or "array_api" (the array API standard's, which
    refuses mixtures of kinds), on this thread from now on.

    >>> tede.set_promotion("pytorch")
    """
    _set_promotion(rules)


class no_grad(_Mode):
    """Within it nothing is recorded for gradients: results don't require them, whatever the operands do. For
    evaluation, and for changing parameters in place. Also a decorator, with or without parentheses.

    >>> w = tede.ones(2, requires_grad=True)
    >>> with tede.no_grad():
    ...     (w * 2).requires_grad
    False
    >>> @tede.no_grad()
    ... def evaluate(x):
    ...     return x * w
    >>> evaluate(tede.ones(2)).requires_grad
    False
    """

    def __new__(cls, function: "Any" = None) -> "no_grad":
        return object.__new__(cls) if function is None else _wrap(function, cls)

    def __init__(self, function: "Any" = None) -> None:
        self.before = False

    def __enter__(self) -> None:
        self.before = _set_grad_enabled(False)

    def __exit__(self, *exception: "Any") -> None:
        _set_grad_enabled(self.before)


class enable_grad(no_grad):
    """Within it calls are recorded for gradients, a `no_grad` around it notwithstanding. Also a decorator.

    >>> w = tede.ones(2, requires_grad=True)
    >>> with tede.no_grad(), tede.enable_grad():
    ...     (w * 2).requires_grad
    True
    """

    def __enter__(self) -> None:
        self.before = _set_grad_enabled(True)


class set_grad_enabled(_Mode):
    """``set_grad_enabled(mode)`` switches at once whether calls are recorded for gradients; as a context manager it
    switches back at the end.

    >>> w = tede.ones(2, requires_grad=True)
    >>> with tede.set_grad_enabled(False):
    ...     (w * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.before = is_grad_enabled()
        self.mode = mode
        _set_grad_enabled(mode)

    def __call__(self, function):
        _set_grad_enabled(self.before)
        return super().__call__(function)

    def __enter__(self) -> None:
        _set_grad_enabled(self.mode)

    def __exit__(self, *exception: "Any") -> None:
        _set_grad_enabled(self.before)

    def clone(self):
        """A new one with the same mode."""
        return type(self)(self.mode)

    def __repr__(self):
        return f"set_grad_enabled({self.mode})"


class _Guard:
    """One of the core's switches, on within it."""

    def __enter__(self):
        self.before = self.switch(True)

    def __exit__(self, *exception):
        self.switch(self.before)


class _DisableTorchDispatch(_Guard):
    """Within it no __torch_dispatch__ is called."""

    switch = staticmethod(_set_python_excluded)


class _AutoDispatchBelowAutograd(_Guard):
    """Within it nothing is recorded: for what implements an operator."""

    switch = staticmethod(_set_below_autograd)


class _DisableFuncTorch(_Guard):
    """Within it no level of vmap, grad or jvp takes calls: for what must not be part of the function that is transformed."""

    switch = staticmethod(_C._set_transforms_excluded)


class inference_mode(_Mode):
    """As `no_grad`, and new tensors never take part in gradients: they keep no version and no base, which is faster. A
    RuntimeError if one is needed for a gradient later: clone it outside. Also a decorator.

    >>> w = tede.ones(2, requires_grad=True)
    >>> with tede.inference_mode():
    ...     y = w * 2
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: "bool | Any" = True) -> "inference_mode":
        return object.__new__(cls) if isinstance(mode, bool) else _wrap(mode, cls)

    def __init__(self, mode: "bool | Any" = True) -> None:
        self.mode = mode
        self.before = None

    def __enter__(self) -> None:
        self.before = is_inference_mode_enabled(), is_grad_enabled()
        _set_inference_mode(self.mode)
        _set_grad_enabled(not self.mode)

    def __exit__(self, *exception: "Any") -> None:
        inference, grad = self.before
        _set_inference_mode(inference)
        _set_grad_enabled(grad)

    def clone(self):
        """A new one with the same mode."""
        return type(self)(self.mode)


class batch_invariant(_Mode):
    """Within it what products, reductions, norms and attention give for a row doesn't depend, to the last bit, on the
    batch that the row is in. Otherwise the fastest kernel for each batch is taken, and sums may be rounded in another
    order. For all threads; also a decorator. PyTorch has nothing of the kind.

    >>> x, w = tede.randn(5, 8), tede.randn(8, 3)
    >>> with tede.batch_invariant():
    ...     (x @ w)[:1].equal(x[:1] @ w)
    True
    """

    def __new__(cls, function=None):
        return object.__new__(cls) if function is None else _wrap(function, cls)

    def __init__(self, function=None):
        pass

    def __enter__(self):
        _C._set_batch_invariant(True)

    def __exit__(self, *exception):
        _C._set_batch_invariant(False)


for _guard in _DisableTorchDispatch, _AutoDispatchBelowAutograd, _DisableFuncTorch:
    setattr(_C, _guard.__name__, _guard)
_C._is_multithreading_enabled = _C._multithreading_enabled
