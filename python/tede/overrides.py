"""torch.overrides: helpers for classes and modes that override calls by __torch_function__.

A call with an argument whose class has a __torch_function__ goes to that instead: it gets the function, the types
involved and the arguments.  While a mode is entered, all calls go to the innermost one first."""
import functools
from types import FunctionType

from tede import _C
from tede._override import PLAIN_GETTERS, handle_torch_function, has_torch_function, has_torch_function_unary, has_torch_function_variadic

__all__ = ["get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
           "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "resolve_name", "is_tensor_like",
           "is_tensor_method_or_property", "wrap_torch_function", "enable_reentrant_dispatch", "TorchFunctionMode",
           "BaseTorchFunctionMode", "redispatch_function"]


def get_default_nowrap_functions():
    """Getters whose results stay what they are: the default __torch_function__ makes no subclass of them."""
    return {getter.__get__ for getter in PLAIN_GETTERS}


def is_tensor_like(inp):
    """A Tensor, or an instance of a class with a __torch_function__."""
    return type(inp) is _C.Tensor or hasattr(inp, "__torch_function__")


def wrap_torch_function(dispatcher):
    """A decorator for user-defined functions: dispatcher(*args) names the arguments that may take the call over."""
    def inner(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)
        return wrapped
    return inner


def _get_overloaded_args(relevant_args, get_type_fn=type):
    """The arguments whose overrides are tried, in that order."""
    if not _C._is_torch_function_enabled():
        return []
    found, types = [], set()
    for x in relevant_args:
        kind = get_type_fn(x)
        if kind not in types and hasattr(kind, "__torch_function__") and \
                kind.__torch_function__ != _C._disabled_torch_function_impl and kind not in (_C.Tensor,):
            types.add(kind)
            at = next((i for i, old in enumerate(found) if issubclass(kind, get_type_fn(old))), len(found))
            found.insert(at, x)
    return found


# ---- modes -----------------------------------------------------------------------------------------------------------

class TorchFunctionMode:
    """Within it, its __torch_function__(func, types, args, kwargs) is called for every call; calls that it makes itself
    are seen by the modes around it."""

    inner = None

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_on_torch_function_stack(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_torch_function_stack()

    @classmethod
    def push(cls, *args, **kwargs):
        import warnings
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    stack = _C._torch_function_stack()
    return stack[-1] if stack else None


def _get_current_function_mode_stack():
    return _C._torch_function_stack()


class _LeaveMode:
    def __enter__(self):
        self.mode = _C._pop_torch_function_stack()
        return self.mode

    def __exit__(self, *exception):
        _C._push_on_torch_function_stack(self.mode)


_len_torch_function_stack = _C._len_torch_function_stack
_pop_mode, _push_mode = _C._pop_torch_function_stack, _C._push_on_torch_function_stack


class _enable_torch_function:
    """Within it overrides of classes and modes are on, whatever was disabled around it."""

    def __enter__(self):
        self._guard = _C._EnableTorchFunction()

    def __exit__(self, *exception):
        del self._guard


def _pop_mode_temporarily():
    return _LeaveMode()


class enable_reentrant_dispatch:
    """Within it, calls from a __torch_dispatch__ go to classes and modes again."""

    def __enter__(self):
        self.before = _C._set_python_excluded(False), _C._set_below_autograd(False)

    def __exit__(self, *exception):
        _C._set_below_autograd(self.before[1])
        _C._set_python_excluded(self.before[0])


def redispatch_function(func, types, args, kwargs):
    """func(*args, **kwargs) itself, in a __torch_function__; the calls that it makes are taken over as ever."""
    return _C._skip_one_hop_torch_function(func, types, args, kwargs)


# ---- what can be taken over ------------------------------------------------------------------------------------------

_PLAIN = frozenset(("__class__", "__init__", "__new__", "__subclasshook__", "__init_subclass__", "__torch_function__",
                    "__torch_dispatch__", "__getattribute__", "__setattr__", "__delattr__", "__dict__", "__weakref__", "__doc__",
                    "__module__", "__slots__", "__dir__", "__sizeof__", "__getstate__", "__hash__", "_make_subclass",
                    "_make_wrapper_subclass", "as_subclass", "__cuda_array_interface__", "new", "_as_subclass"))
_NOT_OVER_TENSORS = frozenset((
    "tensor", "as_tensor", "from_numpy", "arange", "eye", "empty", "empty_strided", "full", "linspace", "logspace", "ones", "zeros",
    "rand", "randn", "randint", "randperm", "range", "tril_indices", "triu_indices", "scalar_tensor", "from_file", "frombuffer",
    "asarray", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "is_tensor", "is_storage", "typename",
    "set_default_dtype", "get_default_dtype", "set_default_device", "get_default_device", "set_default_tensor_type",
    "set_printoptions", "save", "load", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled",
    "is_inference_mode_enabled", "compile", "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window",
    "get_num_threads", "set_num_threads", "use_deterministic_algorithms", "are_deterministic_algorithms_enabled",
    "set_flush_denormal", "set_num_interop_threads", "get_num_interop_threads", "set_float32_matmul_precision",
    "get_float32_matmul_precision", "can_cast", "promote_types", "finfo", "iinfo", "broadcast_shapes", "fork_rng", "memory_stats",
    "reset_peak_memory_stats", "empty_cache", "explain", "from_dlpack", "vmap", "is_distributed", "graph", "load_device",
    "set_promotion", "get_promotion", "cond", "while_loop", "get_file_path", "get_device_module", "get_deterministic_debug_mode",
    "set_deterministic_debug_mode", "compiled_with_cxx11_abi", "is_vulkan_available", "is_warn_always_enabled", "set_warn_always",
    "is_deterministic_algorithms_warn_only_enabled", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csr_tensor",
    "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "normal", "empty_permuted", "result_type"))

_IN_INIT = frozenset(("uniform_", "normal_", "constant_", "kaiming_uniform_"))
# Members of Tensor that answer for any class without an override check.
_DIRECT = frozenset(("__array_priority__", "__delitem__", "_backward_hooks", "_cdata", "_grad", "volatile", "show"))


def _may_be_taken_over(function):
    """Whether a function checks for classes and modes: an operator does, one written in Python if it is made to."""
    if not isinstance(function, FunctionType) or function.__module__.endswith(".functional"):     # these pass on to operators
        return True
    return any("torch_function" in name for name in function.__code__.co_names)


@functools.cache
def _overridable():
    import tede
    import tede.nn.functional
    import tede.nn.init
    import tede.linalg
    import tede.fft
    import tede.special
    found, names, plain = {}, {}, type(_C._has_torch_function)

    def add(namespace, prefix, name, function, asks=True):
        """A function of several namespaces is called by its name in the last, listed with those of the first."""
        try:
            known = function in names
            names[function] = f"{prefix}.{name}"
        except TypeError:
            return
        if asks and not known:
            found.setdefault(namespace, []).append(function)
    for namespace, prefix, skip in ((tede, "torch", _NOT_OVER_TENSORS), (tede.functional, "torch.functional", ("overridable", "overridable_members")),
                                    (tede.nn.functional, "torch.nn.functional", ()), (tede.nn.init, "torch.nn.init", ()),
                                    (tede.linalg, "torch.linalg", ()), (tede.fft, "torch.fft", ("fftfreq", "rfftfreq")),
                                    (tede.special, "torch.special", ())):
        for name in dir(namespace):
            if name.startswith("_"):
                continue
            try:
                function = getattr(namespace, name)
            except (AttributeError, NotImplementedError):
                continue
            home = getattr(function, "__module__", "") or ""
            if callable(function) and not isinstance(function, type) and home.startswith(("tede", "torch")):
                if namespace is tede.nn.init:
                    asks = name in _IN_INIT
                elif home in ("tede._namespace", "torch._namespace"):
                    continue
                else:
                    asks = name not in skip and not name.endswith("_") and type(function) is not plain
                if namespace in (tede, tede.functional):
                    asks = asks and _may_be_taken_over(function)
                add(namespace, prefix, name, function, asks)
    for name in dir(_C.Tensor):
        if name in _PLAIN or name in ("__instancecheck__", "__class_getitem__", "__reduce__"):
            continue
        value = _C.Tensor.__dict__.get(name)
        if value is None:
            continue
        if name in _DIRECT or callable(value) and not _may_be_taken_over(value):
            if callable(value):
                add(_C.Tensor, "torch.Tensor", name, value, asks=False)
            continue
        if callable(getattr(_C.Tensor, name)):
            value = getattr(_C.Tensor, name)            # a method behind a descriptor
        if not callable(value) and hasattr(value, "__get__"):
            add(_C.Tensor, "torch.Tensor", name + ".__get__", value.__get__)
            if hasattr(value, "__set__") and not name.startswith("__"):
                names[value.__set__] = f"torch.Tensor.{name}.__set__"
        elif callable(value):
            add(_C.Tensor, "torch.Tensor", name, value)
    return found, names


def get_overridable_functions():
    """Namespaces, with lists of the functions in them that a __torch_function__ can take over."""
    found = _overridable()[0]
    from collections import defaultdict
    return defaultdict(list, {namespace: list(functions) for namespace, functions in found.items()})


@functools.cache
def get_ignored_functions():
    """Functions of the package that never ask a __torch_function__."""
    import tede
    import tede.nn.init
    names = [getattr(tede, name, None) for name in sorted(_NOT_OVER_TENSORS)]
    names += [function for name, function in vars(tede.nn.init).items() if callable(function) and name not in _IN_INIT
              and not name.startswith("_")]
    names += [getattr(tede, name, None) for name in dir(tede) if not name.startswith("_") and isinstance(
        getattr(tede, name, None), FunctionType) and not _may_be_taken_over(getattr(tede, name))]
    names += [getattr(_C.Tensor, name, None) for name in sorted(_PLAIN) if callable(getattr(_C.Tensor, name, None))]
    return {function for function in names if function is not None}


def _signature(function):
    """Of any of them: what Python knows, else that of the operator's first overload, else one operand."""
    import inspect

    import tede
    Parameter = inspect.Parameter
    if getattr(function, "__name__", "") == "__get__":
        return inspect.Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)])
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        packet = getattr(tede.ops.aten, function.__name__, None)
        if packet is None:
            return inspect.Signature([Parameter("input", Parameter.POSITIONAL_OR_KEYWORD)])
        known = [Parameter(a.name if a.name.isidentifier() and a.name not in ("from", "lambda") else a.name + "_",
                           Parameter.KEYWORD_ONLY if a.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD,
                           default=a.default_value if a.has_default_value() else Parameter.empty)
                 for a in getattr(packet, packet.overloads()[0])._schema.arguments]
    return inspect.Signature([p.replace(annotation=Parameter.empty) for p in known])


@functools.cache
def get_testing_overrides():
    """For each function that can be taken over, one with its parameters that gives -1."""
    def override(function):
        def stand_in(*args, **kwargs):
            return -1
        stand_in.__name__ = getattr(function, "__name__", "stand_in")
        stand_in.__signature__ = _signature(function)
        return stand_in
    return {function: override(function) for functions in _overridable()[0].values() for function in functions}


def resolve_name(f):
    """A name as PyTorch's documentation has it, "torch.Tensor.add"; None if f isn't one of these."""
    try:
        name = _overridable()[1].get(f)
    except TypeError:
        return None
    return str(f) if name is None and type(f).__name__ in ("OpOverload", "OpOverloadPacket") else name


@functools.cache
def _tensor_methods():
    return set(_overridable()[0].get(_C.Tensor, ()))


def is_tensor_method_or_property(func):
    """Whether a function is a method or an attribute's getter of Tensor."""
    return func in _tensor_methods() or getattr(func, "__name__", None) == "__get__"
