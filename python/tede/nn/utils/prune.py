"""Pruning: elements of a parameter held at zero by a mask.

A pruned parameter ``weight`` becomes the parameter ``weight_orig``, the buffer ``weight_mask`` and a plain attribute
``weight``, their product, which a hook computes before each forward. Pruning again works on what is left: the methods
gather in a `PruningContainer`, which hands each of them the elements that the mask before it keeps.
"""
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

from .._native import T
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """Base of all kinds of pruning: a hook before forward that computes a parameter as ``name_orig * name_mask``. A
    subclass has `PRUNING_TYPE` ("unstructured", "structured" or "global") and writes `compute_mask`.

    >>> class Odd(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[1::2] = 0
    ...         return mask
    >>> layer = nn.Linear(3, 2)
    >>> _ = Odd.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[1., 0., 1.],
            [0., 1., 0.]])
    """

    _tensor_name = None

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for `t`, of which `default_mask` says what was kept so far."""

    def apply_mask(self, module):
        """The parameter with pruned elements zero."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune `module`'s parameter `name` by a method made from the other arguments."""
        found = {number: hook for number, hook in module._forward_pre_hooks.items()
                 if isinstance(hook, BasePruningMethod) and hook._tensor_name == name}
        if len(found) > 1:
            raise AssertionError(f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                                 "Use a PruningContainer.")
        method = cls(*args, **kwargs)
        method._tensor_name = name
        for number, old in found.items():
            del module._forward_pre_hooks[number]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}, "
                                 f"got {importance_scores.shape} vs {original.shape}")
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            mask = T.ones_like(original)
        else:
            mask = getattr(module, name + "_mask").detach().clone()
        try:
            with T.no_grad():
                mask = method.compute_mask(importance_scores, default_mask=mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of `t`, which belongs to no module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t, "
                                 f"got {importance_scores.shape} vs {t.shape}")
        default_mask = T.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module):
        """Make the pruned value the parameter's own."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter, one after the other; made when one that is pruned already is pruned again.

    >>> layer = nn.Linear(3, 2)
    >>> for _ in range(2):
    ...     _ = nn.utils.prune.random_unstructured(layer, "weight", amount=1)
    >>> int((layer.weight_mask == 0).sum())
    2
    """

    def __init__(self, *args):
        self._pruning_methods = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Add a method for the same parameter (ValueError for another; TypeError unless it is one)."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The last method's mask for what `default_mask` keeps, put into it."""
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "unstructured":
            kept = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` '
                                     "defined.")
            n = t.dim()
            dim = method.dim + n if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {n}")
            channels = default_mask.sum(dim=[d for d in range(n) if d != dim]) != 0
            kept = tuple(channels if d == dim else slice(None) for d in range(n))
        elif method.PRUNING_TYPE == "global":
            kept = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        partial = method.compute_mask(t[kept], default_mask=default_mask[kept])
        mask = default_mask.to(dtype=t.dtype)
        mask[kept] = partial.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing: makes the parameter look pruned, with a mask of ones.

    >>> _ = nn.utils.prune.Identity.apply(nn.Linear(3, 2), "weight")
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        count = _compute_nparams_toprune(self.amount, t.nelement())
        _validate_pruning_amount(count, t.nelement())
        mask = default_mask.clone(memory_format=T.contiguous_format)
        if count != 0:
            mask.view(-1)[self._choose(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes random elements: `amount` of them (an int), or that part (a float from 0 to 1).

    >>> _ = nn.utils.prune.RandomUnstructured.apply(nn.Linear(3, 2), "weight", amount=0.5)
    """

    def _choose(self, t, count):
        return T.topk(T.rand_like(t).view(-1), k=count).indices

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the elements of least absolute value: `amount` of them (an int), or that part (a float from 0 to 1).

    >>> _ = nn.utils.prune.L1Unstructured.apply(nn.Linear(3, 2), "weight", amount=2)
    """

    def _choose(self, t, count):
        return T.topk(T.abs(t).view(-1), k=count, largest=False).indices

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def compute_mask(self, t, default_mask):
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, channels)
        _validate_pruning_amount(count, channels)
        keep = self._keep(t, channels, count)
        if count == 0:
            return default_mask
        mask, places = T.zeros_like(t), [slice(None)] * t.dim()
        places[self.dim] = keep
        mask[tuple(places)] = 1
        return mask.mul_(default_mask.to(dtype=mask.dtype))


class RandomStructured(_Structured):
    """Prunes random slices along `dim`: `amount` of them (an int), or that part (a float from 0 to 1).

    >>> _ = nn.utils.prune.RandomStructured.apply(nn.Linear(3, 2), "weight", amount=1, dim=0)
    """

    def __init__(self, amount, dim=-1):
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def _keep(self, t, channels, count):
        if count == 0:
            return None
        chance = T.rand(channels)
        return chance > T.kthvalue(chance, k=count).values

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the slices along `dim` of least `n`-norm: `amount` of them (an int), or that part (a float from 0 to 1).

    >>> _ = nn.utils.prune.LnStructured.apply(nn.Linear(3, 2), "weight", amount=1, n=2, dim=0)
    """

    def __init__(self, amount, n, dim=-1):
        _validate_pruning_amount_init(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def _keep(self, t, channels, count):
        return T.topk(_compute_norm(t, self.n, self.dim), k=channels - count, largest=True).indices

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says: where it is zero.

    >>> _ = nn.utils.prune.CustomFromMask.apply(nn.Linear(3, 2), "bias", tede.tensor([1, 0]))
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Make the parameter `name` look pruned, with a mask of ones; gives the module.

    >>> sorted(nn.utils.prune.identity(nn.Linear(3, 2), "weight").state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune random elements of the parameter `name`; gives the module.

        amount: how many (an int), or which part (a float from 0 to 1).

    >>> nn.utils.prune.random_unstructured(nn.Linear(3, 2), "weight", amount=2).weight_mask.sum()
    tensor(4.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the elements of the parameter `name` of least absolute value; gives the module.

        amount: how many (an int), or which part (a float from 0 to 1).
        importance_scores: of the parameter's shape, to go by instead.

    >>> layer = nn.Linear(3, 1)
    >>> _ = layer.weight.data.copy_(tede.tensor([[0.1, -2, 1]]))
    >>> nn.utils.prune.l1_unstructured(layer, "weight", amount=1).weight
    tensor([[ 0., -2.,  1.]], grad_fn=<MulBackward0>)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune random slices along `dim` of the parameter `name`; gives the module.

        amount: how many (an int), or which part (a float from 0 to 1).

    >>> nn.utils.prune.random_structured(nn.Linear(3, 2), "weight", amount=1, dim=0).weight_mask.sum()
    tensor(3.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the slices along `dim` of the parameter `name` of least `n`-norm; gives the module.

        amount: how many (an int), or which part (a float from 0 to 1).
        importance_scores: of the parameter's shape, to go by instead.

    >>> nn.utils.prune.ln_structured(nn.Linear(3, 2), "weight", amount=1, n=2, dim=0).weight_mask.sum()
    tensor(3.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prune the parameter `name` where `mask` is zero; gives the module.

    >>> nn.utils.prune.custom_from_mask(nn.Linear(3, 2), "bias", tede.tensor([0, 1])).bias_mask
    tensor([0., 1.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune parameters as if they were one vector: a layer may lose more than another.

        parameters: (module, name) pairs.
        pruning_method: a class such as `L1Unstructured`.
        importance_scores: {(module, name): tensor} to go by instead.
        kwargs: of the method: amount.

    >>> first, second = nn.Linear(3, 2), nn.Linear(2, 1)
    >>> nn.utils.prune.global_unstructured([(first, "weight"), (second, "weight")], nn.utils.prune.L1Unstructured, amount=4)
    >>> int(first.weight_mask.sum() + second.weight_mask.sum())
    4
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    vector = parameters_to_vector([scores.get((module, name), getattr(module, name)) for module, name in parameters])
    mask = parameters_to_vector([getattr(module, name + "_mask", T.ones_like(getattr(module, name)))
                                 for module, name in parameters])
    container, method = PruningContainer(), pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    container.add_pruning_method(method)
    with T.no_grad():
        mask, start = container.compute_mask(vector, mask), 0
    for module, name in parameters:
        parameter = getattr(module, name)
        custom_from_mask(module, name, mask=mask[start:start + parameter.numel()].view_as(parameter))
        start += parameter.numel()


def remove(module, name):
    """Make the pruning permanent: a plain parameter again, with zeros in it; gives the module. ValueError if it isn't
    pruned.

    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(3, 2), "weight", amount=2)
    >>> sorted(nn.utils.prune.remove(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module):
    """Whether `module` or one below it has a pruned parameter.

    >>> nn.utils.prune.is_pruned(nn.Linear(3, 2))
    False
    """
    return any(isinstance(hook, BasePruningMethod) for part in module.modules()
               for hook in part._forward_pre_hooks.values())


def _validate_pruning_amount_init(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if whole and amount < 0 or not whole and not 0.0 <= float(amount) <= 1.0:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t):
    if t.dim() <= 1:
        raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                         f"{t.shape} with {t.dim()} dims")


def _validate_pruning_dim(t, dim):
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount, tensor_size):
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _compute_norm(t, n, dim):
    dims = list(range(t.dim()))
    del dims[dim]
    return T.norm(t, p=n, dim=dims)
