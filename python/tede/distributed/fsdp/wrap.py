"""Policies that say which submodules FullyShardedDataParallel wraps, and wrapping by them."""
import contextlib
import functools
from abc import ABC, abstractmethod

from tede import nn

__all__ = ["always_wrap_policy", "lambda_auto_wrap_policy", "transformer_auto_wrap_policy", "size_based_auto_wrap_policy", "enable_wrap", "wrap",
           "CustomPolicy", "ModuleWrapPolicy"]


def always_wrap_policy(*args, **kwargs):
    return True


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Wrap what the function says of."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Wrap modules of these classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


_module_wrap_policy = transformer_auto_wrap_policy


def size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None, exclude_wrap_modules=None):
    """Wrap what has so many parameters that no part of it has been wrapped for."""
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, tuple(leaves if recurse else excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {nn.ModuleList, nn.ModuleDict}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {nn.MultiheadAttention}


def _or_policy(module, recurse, nonwrapped_numel, policies):
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


class _Policy(ABC):
    @abstractmethod
    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """{module: the options that it is wrapped with}."""


class ModuleWrapPolicy(_Policy):
    """Wrap modules of these classes."""

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        return {m: dict(root_kwargs) for m in root_module.modules() if isinstance(m, tuple(self._module_classes)) and m not in ignored_modules}

    def __call__(self, module, recurse, *args, **kwargs):
        return transformer_auto_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self):
        return super().__repr__() + f"({self._module_classes})"


class CustomPolicy(_Policy):
    """Wrap what a function gives True or options for."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        found = {}
        for m in root_module.modules():
            if m not in ignored_modules:
                said = self._lambda_fn(m)
                if not isinstance(said, (dict, bool)):
                    raise ValueError(f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned {said}")
                if said:
                    found[m] = {**root_kwargs, **(said if isinstance(said, dict) else {})}
        return found


def _replaced(parent, name, child, wrapped):
    if wrapped is not child:
        setattr(parent, name, wrapped)


def _recursive_wrap(module, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, only_wrap_children=False, **kwargs):
    """(module, wrapped if the policy says so; how many elements of parameters have been wrapped), the parts first."""
    numel = sum(p.numel() for p in module.parameters() if p not in ignored_params)
    if not auto_wrap_policy(module=module, recurse=True, nonwrapped_numel=numel):
        return module, 0
    covered = 0
    for name, child in module.named_children():
        if child not in ignored_modules:
            wrapped, n = _recursive_wrap(child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs)
            _replaced(module, name, child, wrapped)
            covered += n
    if not only_wrap_children and auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=numel - covered):
        return wrapper_cls(module, **kwargs), numel
    return module, covered


def wrap_parts(root, policy, wrapper_cls, ignored_modules, ignored_params, options):
    """Wrap the submodules that a policy names, innermost first."""
    if not isinstance(policy, _Policy):
        _recursive_wrap(root, policy, wrapper_cls, ignored_modules, ignored_params, only_wrap_children=True, **options)
        return
    targets = policy._run_policy(root, ignored_modules, options)
    targets.pop(root, None)
    wrapped, seen = {}, set()               # a module may be in several places

    def visit(module):
        if module in seen:
            return
        seen.add(module)
        for name, child in list(module._modules.items()):
            if child is None or child in ignored_modules:
                continue
            visit(child)
            if child in targets:
                if child not in wrapped:
                    wrapped[child] = wrapper_cls(child, **targets[child])
                setattr(module, name, wrapped[child])
    visit(root)


_wrapping = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """Within it wrap(module) wraps with this class and these options."""
    _wrapping.append(functools.partial(wrapper_cls, **wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.pop()


def wrap(module, **wrap_overrides):
    return _wrapping[-1](module, **wrap_overrides) if _wrapping else module
