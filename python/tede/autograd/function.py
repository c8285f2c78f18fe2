"""autograd.Function: custom operators with a backward written in Python."""
from tede import _C

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class _FunctionMeta(type):
    """`isinstance(x, BackwardCFunction)` holds for contexts, and for their nodes."""

    def __instancecheck__(cls, x):
        return type.__instancecheck__(cls, x) or (cls in (FunctionCtx, BackwardCFunction) and (
            isinstance(x, _C._FunctionContext) or isinstance(x, _C._Node) and _C._has_context(x)))

    @property
    def _backward_cls(cls):
        """The class of the nodes that apply makes."""
        return _C._node_class(cls.__name__ + "Backward")


class FunctionCtx(metaclass=_FunctionMeta):
    """What forward leaves for backward; here for isinstance and for annotations."""

    save_for_backward = _C._FunctionContext.save_for_backward
    mark_dirty = _C._FunctionContext.mark_dirty
    mark_non_differentiable = _C._FunctionContext.mark_non_differentiable
    set_materialize_grads = _C._FunctionContext.set_materialize_grads


class BackwardCFunction(FunctionCtx):
    """What contexts are instances of."""


class Function(FunctionCtx):
    """An operation with a gradient of your own. Subclasses write two static methods, ``forward(ctx, *args)`` and
    ``backward(ctx, *grads)``, and are called by ``apply(*args)``.

    Or ``forward(*args)`` without ctx, and ``setup_context(ctx, inputs, output)`` beside it, which `func`'s transforms
    need; `vmap` needs a static method `vmap`, or ``generate_vmap_rule = True``. `ctx` keeps tensors by
    `save_for_backward`, anything else as attributes; `mark_dirty` names inputs that were written to,
    `mark_non_differentiable` outputs without a gradient; `needs_input_grad` is a tuple of bools.

    >>> class Cube(tede.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x ** 3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         x, = ctx.saved_tensors
    ...         return 3 * x ** 2 * grad
    >>> x = tede.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    generate_vmap_rule = False
    _tede_node_name = None      # of its nodes, where it isn't the class's with "Backward"

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
        """What the operation computes; static. Its first argument is ctx unless there is a `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep in ctx what `backward` needs, where `forward` has no ctx; static."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """The gradients of forward's arguments, one each, None where there is none, from those of its results; static."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use "
                                  "it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The results' tangents from those of the arguments, for forward mode; static."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode "
                                  "AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        """What `func.vmap` calls: ``vmap(info, in_dims, *args)`` gives (results, out_dims); static."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
                                  "generate_vmap_rule=True.")

    @classmethod
    def _tede_pullback(cls):
        """The method that goes backward: backward or vjp, whichever the class defines."""
        backward, vjp = cls.backward, cls.vjp
        if vjp is Function.vjp:
            return backward
        if backward is not Function.backward:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                               "implement one of them.")
        return vjp

    @classmethod
    def apply(cls, *args, **kwargs):
        """Call the operation, recording it for gradients."""
        if around is not None and (context := around()) is not None:
            with context:
                return cls.apply(*args, **kwargs)
        split = cls.setup_context is not Function.setup_context
        if split:
            args, kwargs = _bind(cls.forward, args, kwargs)
        elif kwargs:
            args, kwargs = _place(cls.forward, args, kwargs)
        level = _C._transform_level()
        if level and level not in older_levels and not getattr(cls, "_tede_lowered", False):
            return at_level(cls, args, kwargs)
        if _dual_levels or level:
            unpack, make = older_duals if level in older_levels else (_C._unpack_dual, _C._make_dual)
            if any(isinstance(x, _C.Tensor) and unpack(x)[1] is not None for x in args):
                return _apply_dual(cls, args, kwargs, split, unpack, make)
        return cls._tede_record(_C._FunctionContext(), args, kwargs, split)

    @classmethod
    def _tede_record(cls, context, args, kwargs, split):
        if not split:
            if not kwargs:
                return _C._apply_function(cls, context, cls.forward, *args)
            return _C._apply_function(cls, context, lambda ctx, *inputs: cls.forward(ctx, *inputs, **kwargs), *args)

        def forward(ctx, *inputs):
            output = cls.forward(*inputs, **kwargs)
            cls.setup_context(ctx, inputs, output)
            ctx._check_kept(inputs, output)
            return output
        return _C._apply_function(cls, context, forward, *args)


_dual_levels = []       # of autograd.forward_ad
older_levels = set()    # of tede._vmap_internals, whose members a Function takes as they are
older_duals = None      # unpack_dual and make_dual of autograd.forward_ad, which know of members' tangents
around = None           # gives the context that apply enters first, or None; tede._graphs, which records calls, puts it here
at_level = None         # apply inside transformed functions; tede.func, which alone makes levels, puts it here


def _apply_dual(cls, args, kwargs, split, unpack, make):
    """apply of dual numbers: forward sees them without their tangents, and jvp makes the results' tangents.

    At a level these are what they were made of, for forward mode stays on for levels further out."""
    context = _C._FunctionContext()
    tangents = [unpack(x)[1] if isinstance(x, _C.Tensor) else None for x in args]
    at_level, originals = bool(_C._transform_level()), args
    if at_level:
        args = tuple(x if t is None else unpack(x)[0] for x, t in zip(args, tangents))
    before = _C._set_forward_enabled(at_level)
    try:
        results = cls._tede_record(context, args, kwargs, split)
        zeros = _C._functions["zeros_like"]
        given = [zeros(x) if t is None and context.materialize_grads and isinstance(x, _C.Tensor) and x.is_floating_point() else t
                 for x, t in zip(args, tangents)]
        versions = [None if t is None else t._version for t in given]
        made = context._call_jvp(cls.jvp, *given)
    finally:
        _C._set_forward_enabled(before)
    several = isinstance(results, tuple)
    listed, made = results if several else (results,), made if isinstance(made, tuple) else (made,)
    if len(made) != len(listed):
        raise RuntimeError(f"{cls.__name__}.jvp returned {len(made)} tangents for {len(listed)} results")
    for i, (x, t) in enumerate(zip(listed, made)):
        if t is not None:
            if not isinstance(x, _C.Tensor) or not (x.is_floating_point() or x.is_complex()):
                raise RuntimeError(f"Function's jvp returned a gradient at position {i}, but the corresponding forward output is not a "
                                   "differentiable Tensor. You should return None at that position instead.")
            _check_tangent(x, t, args, given, versions)
    duals = tuple(_dual(x, t, args, originals, make) for x, t in zip(listed, made))
    return duals if several else duals[0]


def _dual(result, tangent, args, originals, make):
    """A result with its tangent; one that is an operand, written to, is the operand itself."""
    for x, original in zip(args, originals):
        if result is x and isinstance(x, _C.Tensor):
            if tangent is not None:
                _C._set_tangent(original, tangent)
            return original
    return result if tangent is None else make(result, tangent)


def _check_tangent(result, tangent, args, given, versions):
    """What forward wrote or looked at, jvp must write or look at too."""
    for x, t, version in zip(args, given, versions):
        if not isinstance(x, _C.Tensor) or t is None:
            continue
        if result is x:
            if t._version == version:
                raise RuntimeError("An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                                   "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace.")
            if tangent is not t:
                raise RuntimeError("An inplace custom Function is not returning the forward mode gradients as-is. If the forward is "
                                   "modifying an input inplace, then the jvp function must modify the gradient inplace and return it "
                                   "as-is.")
        elif result._is_view() and (result._base is x or result._base is x._base):
            if not tangent._is_view():
                raise RuntimeError("A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a "
                                   "view.")
            if tangent._base is not (t._base if t._is_view() else t):
                raise RuntimeError("A custom Function is returning a view but the jvp is not returning a view of the "
                                   f"{'same base as the ' if t._is_view() else ''}given grad input.")


def _bind(forward, args, kwargs):
    """Arguments in their places, with defaults: those by position, and those by keyword only."""
    import inspect
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _place(forward, args, kwargs):
    """Arguments given by keyword in their places, so that tensors among them are operands; what has no place stays."""
    import inspect
    try:
        bound = inspect.signature(forward).bind(None, *args, **kwargs)
    except (TypeError, ValueError):         # forward says what is wrong
        return args, kwargs
    return bound.args[1:], bound.kwargs


class InplaceFunction(Function):
    """Here for its name."""

    def __init__(self, inplace=False):
        self.inplace = inplace


class NestedIOFunction(Function):
    """PyTorch's older base for nested arguments; here for its name: arguments must not be nested.

    >>> issubclass(tede.autograd.NestedIOFunction, tede.autograd.Function)
    True
    """


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
        listed = outputs if isinstance(outputs, tuple) else (outputs,)
        results = Error.apply("trying to differentiate twice a function that was marked with @once_differentiable",
                              *(x.detach().requires_grad_() if isinstance(x, _C.Tensor) else _C.tensor(0.) for x in listed))
        results = tuple(x if isinstance(before, _C.Tensor) else before for x, before in zip(results, listed))
        return results if isinstance(outputs, tuple) else results[0]
    return wrapped


class Error(Function):
    """Hands on the tensors that it is given; going back through it is the error. Each has its place among the node's edges."""
    _tede_node_name = "Error"

    @staticmethod
    def forward(ctx, message, *inputs):
        ctx.message = message
        return tuple(x.view_as(x) for x in inputs)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)
