"""A module's tensors and children by dotted path: read, put, taken out, swapped.

Unlike `setattr`, these put tensors that are no parameters where parameters stand: what `functional_call` needs.
"""
from .._native import T
from ..modules.module import Module

_MISSING = object()         # a tensor that isn't there: swapping it in takes the name out


def _check(module, name, kind):
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _check_tensor(value, what=""):
    if value is not None and not isinstance(value, T.Tensor):
        raise TypeError(f"{what}{value} is not an instance of torch.Tensor")


def set_tensor(module, name, tensor):
    """Put `tensor`, of whatever kind, where `module` has `name`."""
    _check(module, name, "tensor")
    _check_tensor(tensor)
    for members in (module._parameters, module._buffers):
        if name in members:
            members[name] = tensor
            return
    setattr(module, name, tensor)


def swap_tensor(module, name, tensor, allow_missing=False):
    """`set_tensor` that gives what was there before."""
    _check(module, name, "tensor")
    if tensor is not _MISSING:
        _check_tensor(tensor)
    for members in (module._parameters, module._buffers):
        if name in members:
            before = members[name]
            if tensor is _MISSING:
                del members[name]
            else:
                members[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    else:
        _check_tensor(before, f"attribute `{name}`: ")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module, name, submodule):
    """Put `submodule` in place of the child `name`, which is returned."""
    _check(module, name, "submodule")
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    def __init__(self, module):
        self.module, self.memo = module, {"": module}

    def get_submodule(self, name):
        if name not in self.memo:
            path, _, last = name.rpartition(".")
            parent = self.get_submodule(path)
            try:
                child = getattr(parent, last)
            except AttributeError:
                raise AttributeError(f"{parent._get_name()} has no attribute `{last}`") from None
            if not isinstance(child, Module):
                raise TypeError(f"submodule `{name}`: {child} is not an instance of torch.nn.Module")
            self.memo[name] = child
        return self.memo[name]

    def _place(self, path):
        parent, _, name = path.rpartition(".")
        return self.get_submodule(parent), name

    def swap_submodule(self, path, value):
        return swap_submodule(*self._place(path), value)

    def get_tensor(self, name):
        module, last = self._place(name)
        try:
            tensor = getattr(module, last)
        except AttributeError:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`") from None
        _check_tensor(tensor)
        return tensor

    def set_tensor(self, name, value):
        set_tensor(*self._place(name), value)

    def del_tensor(self, name):
        module, last = self._place(name)
        try:
            delattr(module, last)
        except AttributeError:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`") from None

    def swap_tensor(self, name, value, allow_missing=False):
        return swap_tensor(*self._place(name), value, allow_missing=allow_missing)

    def get_tensors(self, names):
        return [self.get_tensor(name) for name in names]

    @staticmethod
    def _pairs(names, values):
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise AssertionError("names and values must have the same length, "
                                 f"got {len(names)} names and {len(values)} values")
        return zip(names, values)

    def set_tensors(self, names, values):
        for name, value in self._pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors):
        self.set_tensors(named_tensors.keys(), named_tensors.values())

    def del_tensors(self, names):
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        return [self.swap_tensor(name, value, allow_missing) for name, value in self._pairs(names, values)]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """(what was there before, names that weren't there). An error leaves the module as it was."""
        before = {}
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
            missing = [name for name, tensor in before.items() if tensor is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys):
        """(names that `keys` lack, names that the module lacks)."""
        keys, names = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(names - keys), sorted(keys - names)

    def named_parameters(self, remove_duplicate=True):
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
