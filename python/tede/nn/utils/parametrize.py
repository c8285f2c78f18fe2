"""Parametrizations: a parameter computed from another one each time that it is read.

`register_parametrization` moves the tensor into a `ParametrizationList` below ``module.parametrizations`` and puts a
property in its place, which runs the list. A property belongs to a class, so the module gets a class of its own,
derived from the one it had. Assigning to the property goes the way back, through each module's `right_inverse`.
"""
import copyreg
from collections.abc import Sequence
from contextlib import contextmanager
from copy import deepcopy
from types import SimpleNamespace

from ... import __future__ as _future
from .._native import T
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]

_cache_enabled, _cache = 0, {}


@contextmanager
def cached():
    """Compute each parametrized tensor once within the block, however often it is read.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> with nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled, _cache
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _become(tensor, value):
    """`tensor`, which stays the object that an optimizer may know, has the memory of `value`; where that is not enough, all of it."""
    from ...utils import swap_tensors
    from ...utils._python_dispatch import is_traceable_wrapper_subclass
    if not _future.get_swap_module_params_on_conversion() and not is_traceable_wrapper_subclass(tensor):
        tensor.set_(value)
    elif tensor is not value:
        swap_tensors(tensor, Parameter(value, tensor.requires_grad) if isinstance(tensor, Parameter) and not isinstance(value, Parameter) else value)


def _kind(value):
    return type(value).__name__


def _check_unchanged(what, tensor, before, name_before, name_after, flag="`unsafe`"):
    """Refuse a change of dtype or shape, naming both sides."""
    for attribute in ("dtype", "shape"):
        old, new = getattr(before, attribute), getattr(tensor, attribute)
        if old != new:
            raise ValueError(f"{what.format(attribute)}, unless {flag} flag is enabled.\n"
                             f"{name_before.format(attribute)}: {old}\n{name_after.format(attribute)}: {new}")


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, in order, with what it is computed from: `original`, or `original0`,
    `original1`, ... It is what ``module.parametrizations.name`` gives; `register_parametrization` makes it.

        modules: the parametrizations.
        original: the tensor's value.
        unsafe: allow dtypes and shapes to change.

    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 2), "weight", Positive())
    >>> layer.parametrizations.weight.original.shape
    tede.Size([2, 3])
    """

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = SimpleNamespace(dtype=original.dtype, shape=original.shape)     # `original` may be set to others
        with T.no_grad():
            new = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass                    # such a module starts from the tensor as it is
        self.is_tensor = isinstance(new, T.Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                             f"Got {_kind(new)}")
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            for attribute in ("dtype", "device"):
                if getattr(original, attribute) != getattr(new, attribute):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {attribute}.\n"
                        f"original.{attribute}: {getattr(original, attribute)}\n"
                        f"right_inverse(original).{attribute}: {getattr(new, attribute)}")
            with T.no_grad():
                _become(original, new)
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, T.Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {_kind(part)}.")
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", part)
        if not unsafe:
            after = self()
            if not isinstance(after, T.Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {_kind(after)}.")
            _check_unchanged("Registering a parametrization may not change the {} of the tensor", after, before,
                             "unparametrized {}", "parametrized {}")

    def right_inverse(self, value):
        """Set the originals so that they give `value`, as far as the modules' `right_inverse` can."""
        with T.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {_kind(module)} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, T.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {_kind(value)}")
                if value.dtype != self.original.dtype:
                    raise ValueError(f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` "
                                     f"has dtype {self.original.dtype}")
                _become(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {_kind(value)}.")
            if len(value) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                                 f"Got a sequence of length {len(value)}.")
            for i, part in enumerate(value):
                original = getattr(self, f"original{i}")
                if not isinstance(part, T.Tensor):
                    raise ValueError("'right_inverse' must return a sequence of tensors or reference-type opaques. "
                                     f"Got element {i} of type {_kind(part)}.")
                if original.dtype != part.dtype:
                    raise ValueError(f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while `original{i}` "
                                     f"has dtype {original.dtype}")
                _become(original, part)

    def forward(self):
        """The tensor: what the modules make of the originals."""
        originals = [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]
        first, *others = self
        value = first(*originals)
        for module in others:
            value = module(value)
        return value


def _give_own_class(module):
    cls = type(module)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = replica = self.__new__(type(self))
            replica.__dict__.update(deepcopy(self.__dict__, memo))
            for slot in copyreg._slotnames(type(self)):
                if hasattr(self, slot):
                    setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return memo[id(self)]

    def __getstate__(self):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                           "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
                           "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training")

    members = {"__getstate__": __getstate__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = __deepcopy__
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _add_property(module, name):
    if hasattr(module, name):
        raise AssertionError(f"Module already has an attribute named '{name}'")

    def get(self):
        computation = self.parametrizations[name]
        if not _cache_enabled:
            return computation()
        key = id(module), name
        if key not in _cache:
            _cache[key] = computation()
        return _cache[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Have `module`'s tensor of that name computed by `parametrization`, a module, from now on; more than one makes a
    chain. Gives the module.

        unsafe: allow it to change dtype or shape, and don't try it now.

    Its `right_inverse`, where it has one, says which original would give a value: it keeps the present one, and makes
    the tensor assignable. It may return several tensors if `forward` takes as many. ValueError if there is no such
    tensor.

    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> layer.weight.equal(layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_link(module, tensor_name, parametrization)
        chain = module.parametrizations[tensor_name]
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    return module


def _check_link(module, name, parametrization):
    """Whether `parametrization` may follow those that `module` has on `name`."""
    value = getattr(module, name)
    result = parametrization(value)
    if not isinstance(result, T.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {_kind(result)}.")
    _check_unchanged("Registering a parametrization may not change the {} of the tensor", result, value,
                     f"module.{name}.{{}}", f"parametrization(module.{name}).{{}}", "the `unsafe`")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, T.Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {_kind(back)}")
    _check_unchanged(f"The tensor returned by parametrization.right_inverse must have the same {{}} as module.{name}",
                     back, value, f"module.{name}.{{}}", "returned {}", "the `unsafe`")


def is_parametrized(module, tensor_name=None):
    """Whether `module` has parametrizations, of `tensor_name` if given.

    >>> nn.utils.parametrize.is_parametrized(nn.Linear(3, 2))
    False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make the tensor a plain one again, with its present value or, unless `leave_parametrized`, with its original;
    gives the module.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> sorted(nn.utils.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        tensor = chain.original
        if leave_parametrized:
            with T.no_grad():
                _become(tensor, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms "
                         "of a sequence of tensors.")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class that `module` had before it was parametrized: that makes a class of its own of it.

    >>> nn.utils.parametrize.type_before_parametrizations(nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Parametrize `to_module` as `from_module` is, sharing the originals; only `tensor_name` if given. Gives to_module.

    >>> source = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> target = nn.utils.parametrize.transfer_parametrizations_and_params(source, nn.Linear(3, 2))
    >>> sorted(target.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        chain = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in chain:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for original in ["original"] if chain.is_tensor else [f"original{i}" for i in range(chain.ntensors)]:
            setattr(target, original, getattr(chain, original))
    return to_module
