"""Layers of a model that are named in their order become one."""
import copy

from tede import nn
from tede.nn.utils.parametrize import type_before_parametrizations

from .fuser_method_mappings import get_fuser_method

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def _parent(model, name):
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else ():
        model = getattr(model, part)
    return model, last


def _get_module(model, submodule_key):
    parent, name = _parent(model, submodule_key)
    return getattr(parent, name)


def _set_module(model, submodule_key, module):
    parent, name = _parent(model, submodule_key)
    setattr(parent, name, module)


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """The fused layer first, with hooks of the first and the last; an Identity in place of each other."""
    types = tuple(type_before_parametrizations(module) for module in mod_list)
    fuse = get_fuser_method(types, additional_fuser_method_mapping)
    if fuse is None:
        raise NotImplementedError(f"Cannot fuse modules: {types}")
    fused = fuse(is_qat, *mod_list)
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    made = [fused]
    for _ in mod_list[1:]:
        identity = nn.Identity()
        identity.training = mod_list[0].training
        made.append(identity)
    return made


def _fuse_modules(model, modules_to_fuse, is_qat, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    if not inplace:
        model = copy.deepcopy(model)
    groups = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    additional = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    for names in groups:
        for name, module in zip(names, fuser_func([_get_module(model, name) for name in names], is_qat, additional)):
            _set_module(model, name, module)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """``fuse_modules(model, [["conv1", "bn1", "relu1"], ["linear", "relu"]])``: of a model in evaluation, batch norms are folded in."""
    return _fuse_modules(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """The same of a model that is trained: batch norms stay, beside their convolutions."""
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
