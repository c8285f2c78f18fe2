"""Modules made of modules: sequences, lists and dicts of layers, and lists and dicts of parameters."""
import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from .._native import T, typename
from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """The oldest container, whose modules are keyword arguments; it warns. Use `Module`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     nn.Container(first=nn.ReLU())
    Container(
      (first): ReLU()
    )
    """

    def __init__(self, **kwargs) -> None:
        super().__init__()
        warnings.warn("nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass "
                      "that instead.", stacklevel=2)
        for key, value in kwargs.items():
            self.add_module(key, value)


class Sequential(Module):
    """Layers one behind the other: each gets what the one before gave.

        args: modules, or one OrderedDict that names them.

    Indexing with a number gives a layer, with a slice a `Sequential` of the same layers; `+` and `*` join and repeat.
    Layers of more than one argument don't fit: write a `Module`.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> model(tede.randn(5, 3)).shape
    tede.Size([5, 1])
    >>> model[:2]
    Sequential(
      (0): Linear(in_features=3, out_features=4, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def _key_at(self, idx):
        size, idx = len(self), operator.index(idx)
        if not -size <= idx < size:
            raise IndexError(f"index {idx} is out of range")
        return next(islice(self._modules, idx % size, None))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key_at(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key_at(idx), module)

    def __delitem__(self, idx):
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key_at(idx)]
        for key in keys:
            delattr(self, key)
        self._renumber()

    def _renumber(self):
        modules = list(self._modules.values())
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __add__(self, other):
        self._check_other(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._check_other(other)
        return self.extend(list(other))

    @staticmethod
    def _check_other(other):
        if not isinstance(other, Sequential):
            raise ValueError("add operator supports only objects of Sequential class, but "
                             f"{type(other)} is given.")

    def __mul__(self, other):
        self._check_factor(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other):
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def _check_factor(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def forward(self, input: T.Tensor):
        for module in self._modules.values():
            input = module(input)
        return input

    def append(self, module):
        """Add `module` at the end; gives the sequence.

        >>> len(nn.Sequential(nn.ReLU()).append(nn.Tanh()))
        2
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Add `module` in front of the one at `index`; gives the sequence. An IndexError beyond the ends.

        >>> nn.Sequential(nn.ReLU()).insert(0, nn.Tanh())
        Sequential(
          (0): Tanh()
          (1): ReLU()
        )
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        count = len(self._modules)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        if index < 0:
            index += count
        for i in range(count, index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module
        return self

    def extend(self, sequential):
        """Add all modules of `sequential`, any iterable, at the end; gives the sequence.

        >>> len(nn.Sequential().extend([nn.ReLU(), nn.Tanh()]))
        2
        """
        for module in sequential:
            self.append(module)
        return self

    def pop(self, key):
        """Take the module at `key`, a number or a slice, out, and give it.

        >>> nn.Sequential(nn.ReLU(), nn.Tanh()).pop(0)
        ReLU()
        """
        module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """A list whose modules belong to the model: they are saved, moved and trained with it, which those of a plain list
    aren't. It has no `forward`: the model's own calls them.

        modules: an iterable of modules.

    Indexing, slices, `len`, iteration, `+`, `+=` and `del` are those of lists.

    >>> class Stack(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    ...     def forward(self, x):
    ...         for layer in self.layers:
    ...             x = x + layer(x)
    ...         return x
    >>> Stack()(tede.randn(2, 4)).shape
    tede.Size([2, 4])
    >>> len(list(Stack().parameters()))
    6
    """

    def __init__(self, modules=None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _key_at(self, idx):
        idx = operator.index(idx)
        if not -len(self) <= idx < len(self):
            raise IndexError(f"index {idx} is out of range")
        return str(idx + len(self) if idx < 0 else idx)

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._key_at(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key_at(idx), module)

    def __delitem__(self, idx):
        if isinstance(idx, slice):
            for i in range(len(self))[idx]:
                delattr(self, str(i))
        else:
            delattr(self, self._key_at(idx))
        Sequential._renumber(self)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        combined = ModuleList()
        for i, module in enumerate(chain(self, other)):
            combined.add_module(str(i), module)
        return combined

    def __repr__(self):
        """Runs of children that print the same are printed once, as ``(0-5): 6 x ...``."""
        runs = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [_addindent(f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}", 2)
                 for first, last, text in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index, module):
        """Add `module` in front of the one at `index`."""
        for i in range(len(self._modules), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module

    def append(self, module):
        """Add `module` at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Take the module at `key` out, and give it."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules):
        """Add all of `modules` at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self


def _pairs(name, items):
    """Key and value of each element, checked to be pairs."""
    for j, item in enumerate(items):
        if not isinstance(item, Iterable):
            raise TypeError(f"{name} update sequence element #{j} should be Iterable; is{type(item).__name__}")
        item = tuple(item)
        if len(item) != 2:
            raise ValueError(f"{name} update sequence element #{j} has length {len(item)}; 2 is required")
        yield item


class ModuleDict(Module):
    """A dict whose modules belong to the model: they are saved, moved and trained with it, which those of a plain dict
    aren't.

        modules: a mapping, or an iterable of (name, module). Names are strings without dots (KeyError).

    >>> heads = nn.ModuleDict({"class": nn.Linear(4, 10), "box": nn.Linear(4, 4)})
    >>> heads["box"](tede.randn(2, 4)).shape
    tede.Size([2, 4])
    >>> list(heads)
    ['class', 'box']
    """

    def __init__(self, modules=None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key):
        """Take the module under `key` out, and give it."""
        module = self[key]
        del self[key]
        return module

    def keys(self):
        """The keys."""
        return self._modules.keys()

    def items(self):
        """The (key, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Add the modules of a mapping, or of (key, module) pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleDict.update should be called with an iterable of key/value pairs, but got "
                            f"{type(modules).__name__}")
        if isinstance(modules, (Mapping, ModuleDict)):
            modules = modules.items()
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, T.Tensor) and not isinstance(value, Parameter) else value


def _describe(value, spelling):
    """A line for `repr`: what kind of value, of which dtype (as `spelling` gives it) and size."""
    if not isinstance(value, T.Tensor):
        return f"Object of type: {type(value).__name__}"
    place = "" if value.device.type in ("cpu", "meta") else f" ({value.device})"
    size = "x".join(str(n) for n in value.size())
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{spelling(value)} of size {size}{place}]"


class ParameterList(Module):
    """A list whose tensors become parameters of the model, so that they are saved, moved and trained with it. Other
    values are kept as they are.

        values: an iterable.

    >>> weights = nn.ParameterList([tede.zeros(2), tede.ones(3, 2)])
    >>> weights[1].requires_grad, len(weights)
    (True, 2)
    """

    def __init__(self, values=None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    _key_at = ModuleList._key_at

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__([self[i] for i in range(len(self))[idx]])
        return getattr(self, self._key_at(idx))

    def __setitem__(self, idx, param):
        setattr(self, self._key_at(idx), _as_parameter(param))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def append(self, value):
        """Add `value` at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Add all of `values` at the end."""
        if not isinstance(values, Iterable) or isinstance(values, T.Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value, lambda t: t.dtype)}" for i, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors become parameters of the model, so that they are saved, moved and trained with it. Other
    values are kept as they are.

        parameters: a mapping, or an iterable of (name, value). Names are strings (TypeError).

    >>> scales = nn.ParameterDict({"left": tede.ones(2), "right": tede.zeros(2)})
    >>> [name for name, _ in scales.named_parameters()]
    ['left', 'right']
    """

    def __init__(self, parameters=None) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _check_key(self, key):
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys.")
        return key

    def __getitem__(self, key):
        return getattr(self, self._check_key(key))

    def __setitem__(self, key, value):
        self._keys[self._check_key(key)] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._check_key(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """Another dict with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key, default=None):
        """The value under `key`; `default` is put there if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Take everything out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Take the value under `key` out, and give it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Take the last (key, value) out, and give it."""
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key, default=None):
        """The value under `key`, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A new dict with `default` under each of `keys`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self):
        """The (key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters):
        """Add the values of a mapping (a plain dict in the order of its keys), or of (key, value) pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError("ParametersDict.update should be called with an iterable of key/value pairs, but got "
                            f"{type(parameters).__name__}")
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            parameters = list(parameters.items())
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items())
        for key, value in _pairs("ParameterDict", parameters):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value, typename)}" for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        combined = self.copy()
        combined.update(other)
        return combined

    def __ror__(self, other):
        combined = other.copy()
        combined.update(self)
        return combined

    def __ior__(self, other):
        self.update(other)
        return self
