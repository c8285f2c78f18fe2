"""torch.distributed.checkpoint.state_dict for one process: state dicts in which an optimizer's parameters have names.

Libraries load plain checkpoints by it. Nothing is sharded here, so a full state dict is any state dict.
"""
from collections import namedtuple
from dataclasses import dataclass

from tede import _C

_Loaded = namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])


@dataclass
class StateDictOptions:
    """How state dicts are made and loaded; see PyTorch's."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options, submodules=None):
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        raise RuntimeError("StateDictOptions: broadcast_from_rank0 needs a process group, and there are none here")
    if options.flatten_optimizer_state_dict or submodules:
        raise NotImplementedError("torch.distributed.checkpoint.state_dict: flatten_optimizer_state_dict and submodules aren't there")
    return options


def _placed(value, options):
    if isinstance(value, dict):
        return type(value)((key, _placed(inner, options)) for key, inner in value.items())
    return value.cpu() if options.cpu_offload and isinstance(value, _C.Tensor) else value


def _names(model):
    return {parameter: name for name, parameter in model.named_parameters()}


def get_model_state_dict(model, *, submodules=None, options=None):
    options = _checked(options, submodules)
    state = model.state_dict()
    if options.ignore_frozen_params:
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                state.pop(name, None)
    return _placed(state, options)


def set_model_state_dict(model, model_state_dict, *, options=None):
    options = _checked(options)
    if not model_state_dict:
        return _Loaded([], [])
    return model.load_state_dict(model_state_dict, strict=options.strict)


def _optimizers(optimizers):
    return list(optimizers) if isinstance(optimizers, (list, tuple, set)) else [optimizers]


def _begin(optimizer):
    """Let an optimizer that hasn't stepped yet make its state, by a step of nothing."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in parameters):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for p in parameters:
        if p.requires_grad:
            p.grad = _C._functions["zeros_like"](p)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    options = _checked(options, submodules)
    names, whole = _names(model), {"state": {}, "param_groups": []}
    for optimizer in _optimizers(optimizers):
        _begin(optimizer)
        for group in optimizer.param_groups:
            whole["param_groups"].append({**group, "params": [names[p] for p in group["params"]]})
        for parameter, state in optimizer.state.items():
            whole["state"][names[parameter]] = _placed(dict(state), options)
    return whole


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    _checked(options)
    names = _names(model)
    groups = {name: group for group in optim_state_dict["param_groups"] for name in group["params"]}
    for optimizer in _optimizers(optimizers):
        _begin(optimizer)
        plain, at = {"state": {}, "param_groups": []}, 0
        for group in optimizer.param_groups:
            listed = [names[p] for p in group["params"]]
            saved = groups.get(listed[0], group) if listed else group
            numbers = list(range(at, at + len(listed)))
            at += len(listed)
            plain["param_groups"].append({**saved, "params": numbers})
            plain["state"].update((n, optim_state_dict["state"][name]) for n, name in zip(numbers, listed)
                                  if name in optim_state_dict["state"])
        optimizer.load_state_dict(plain)


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options))


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
