"""Function: operators of one's own, with a backward written in Python."""
from tede import _C


class _FunctionMeta(type):
    """`instance of BackwardCFunction` is asked of contexts."""

    def __instancecheck__(cls, x):
        return type.__instancecheck__(cls, x) or (cls in (FunctionCtx, BackwardCFunction) and isinstance(x, _C._FunctionContext))


class FunctionCtx(metaclass=_FunctionMeta):
    """What forward leaves for backward; here for isinstance and for annotations."""

    save_for_backward = _C._FunctionContext.save_for_backward
    mark_dirty = _C._FunctionContext.mark_dirty
    mark_non_differentiable = _C._FunctionContext.mark_non_differentiable
    set_materialize_grads = _C._FunctionContext.set_materialize_grads


class BackwardCFunction(FunctionCtx):
    """What contexts are instances of."""


class Function(FunctionCtx):
    """Subclasses give forward(ctx, *args) and backward(ctx, *grads), both static; call them by apply(*args).

    Or forward(*args) without ctx, and setup_context(ctx, inputs, output) beside it.
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        import warnings
        warnings.warn(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
                      "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
                      "version of PyTorch.", DeprecationWarning, stacklevel=2)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
                           "function with static forward method. (Example: "
                           "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use "
                                  "it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode "
                                  "AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
                                  "generate_vmap_rule=True.")

    @classmethod
    def _backward(cls):
        """The method that goes backward: backward or vjp, whichever the class has of its own."""
        backward, vjp = cls.backward, cls.vjp
        if vjp is Function.vjp:
            return backward
        if backward is not Function.backward:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                               "implement one of them.")
        return vjp

    @classmethod
    def apply(cls, *args, **kwargs):
        split = cls.setup_context is not Function.setup_context
        if split:
            args, kwargs = _bind(cls.forward, args, kwargs)
        if _C._transform_level() and not getattr(cls, "_lowered", False):
            from tede.func import _function
            return _function.apply(cls, args)
        if _dual_levels and any(isinstance(x, _C.Tensor) and _C._unpack_dual(x)[1] is not None for x in args):
            return _apply_dual(cls, args, kwargs, split)
        return cls._record(_C._FunctionContext(), args, kwargs, split)

    @classmethod
    def _record(cls, context, args, kwargs, split):
        if not split:
            if not kwargs:
                return _C._apply_function(cls, context, cls.forward, *args)
            return _C._apply_function(cls, context, lambda ctx, *inputs: cls.forward(ctx, *inputs, **kwargs), *args)

        def forward(ctx, *inputs):
            output = cls.forward(*inputs, **kwargs)
            cls.setup_context(ctx, inputs, output)
            return output
        return _C._apply_function(cls, context, forward, *args)


_dual_levels = []       # of autograd.forward_ad


def _apply_dual(cls, args, kwargs, split):
    """apply of dual numbers: forward sees the plain ones, and jvp makes the results' tangents."""
    pairs = [_C._unpack_dual(x) if isinstance(x, _C.Tensor) else (x, None) for x in args]
    context = _C._FunctionContext()
    results = cls._record(context, [plain for plain, _ in pairs], kwargs, split)
    zeros = _C._functions["zeros_like"]
    given = [zeros(x) if t is None and isinstance(x, _C.Tensor) and x.is_floating_point() else t for x, t in pairs]
    tangents = cls.jvp(context, *given)
    context.save_for_forward(...)
    several = isinstance(results, tuple)
    listed = results if several else (results,)
    tangents = tangents if isinstance(tangents, tuple) else (tangents,)
    if len(tangents) != len(listed):
        raise RuntimeError(f"{cls.__name__}.jvp returned {len(tangents)} tangents for {len(listed)} results")
    for i, (x, t) in enumerate(zip(listed, tangents)):
        if t is not None and not (x.is_floating_point() or x.is_complex()):
            raise RuntimeError(f"Function's jvp returned a gradient at position {i}, but the corresponding forward output is not a "
                               "differentiable Tensor. You should return None at that position instead.")
    duals = tuple(x if t is None else _C._make_dual(x, t) for x, t in zip(listed, tangents))
    return duals if several else duals[0]


def _bind(forward, args, kwargs):
    """Arguments in their places, with defaults: those by position, and those by keyword only."""
    import inspect
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


class InplaceFunction(Function):
    """Here for its name."""

    def __init__(self, inplace=False):
        self.inplace = inplace


class NestedIOFunction(Function):
    """Here for its name: arguments must not be nested."""


def once_differentiable(function):
    """A backward whose own gradient is an error: it runs without recording."""
    import functools

    @functools.wraps(function)
    def wrapped(ctx, *grads):
        from tede._modes import no_grad
        recording = _C.is_grad_enabled()
        with no_grad():
            outputs = function(ctx, *grads)
        if not recording or not any(isinstance(g, _C.Tensor) and g.requires_grad for g in grads):
            return outputs
        tensors = [g for g in grads if isinstance(g, _C.Tensor) and g.requires_grad]
        several = isinstance(outputs, tuple)
        results = tuple(_Once.apply(len(tensors), *tensors, x) if isinstance(x, _C.Tensor) else x
                        for x in (outputs if several else (outputs,)))
        return results if several else results[0]
    return wrapped


class _Once(Function):
    """Hands its last argument on; going back through it is the error."""

    @staticmethod
    def forward(ctx, n, *tensors):
        return tensors[n].clone()

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
