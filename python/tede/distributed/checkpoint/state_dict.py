"""State dicts whose names are the module's own, whatever wraps or shards it, and in which an optimizer's parameters have names.

Sharded values are DTensors. A full state dict has whole tensors, gathered by all ranks; loading one gives each rank its part again."""
from collections import namedtuple
from dataclasses import dataclass

import tede
import tede.distributed as dist
from tede import Tensor

__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict", "set_optimizer_state_dict",
           "set_state_dict"]

_Loaded = namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])
_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


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
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    if submodules:
        raise NotImplementedError("torch.distributed.checkpoint.state_dict: submodules isn't there")
    return options


def _sharded(x):
    return hasattr(x, "full_tensor") and hasattr(x, "_spec")


def _clean(name, model=None):
    """A name without what wrappers put in it."""
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    if isinstance(model, tede.nn.parallel.DistributedDataParallel) and parts and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


def _placed(value, options):
    """A value as the options want it: whole, on the CPU; None on ranks that keep nothing of it."""
    if isinstance(value, dict):
        return type(value)((key, _placed(inner, options)) for key, inner in value.items())
    if not isinstance(value, Tensor):
        return value
    value = value.detach()
    if options.full_state_dict and _sharded(value):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload else value


def _kept(state, options):
    """Of a full state dict on the CPU only rank 0 keeps what was gathered."""
    if options.full_state_dict and options.cpu_offload and dist.is_initialized() and dist.get_rank() > 0:
        return {}
    return state


def _names(model):
    return {parameter: _clean(name, model) for name, parameter in model.named_parameters()}


def get_model_state_dict(model, *, submodules=None, options=None):
    options = _checked(options, submodules)
    with _sharded_type(model):
        state = {_clean(name, model): value for name, value in model.state_dict().items()}
    if options.ignore_frozen_params:
        for parameter, name in _names(model).items():
            if not parameter.requires_grad:
                state.pop(name, None)
    return _kept(_placed(state, options), options)


def _sharded_type(model):
    """Within it FullyShardedDataParallel gives shards."""
    import contextlib
    import sys
    module = sys.modules.get("tede.distributed.fsdp.fully_sharded_data_parallel")
    if module is None or not any(isinstance(m, module.FullyShardedDataParallel) for m in model.modules()):
        return contextlib.nullcontext()
    return module.FullyShardedDataParallel.state_dict_type(model, module.StateDictType.SHARDED_STATE_DICT)


def _like(value, target, options):
    """A loaded value as part of what a DTensor holds, as the options say who has it."""
    if not _sharded(target) or (isinstance(value, Tensor) and _sharded(value)):
        if options.broadcast_from_rank0 and isinstance(target, Tensor) and dist.is_initialized() and dist.get_world_size() > 1:
            x = value.to(target.device).contiguous() if isinstance(value, Tensor) and dist.get_rank() == 0 else tede.empty_like(target).contiguous()
            dist.broadcast(x, src=0)
            return x
        return value
    from tede.distributed.tensor import distribute_tensor
    if options.broadcast_from_rank0 and dist.get_rank() != 0:
        value = tede.empty(target.shape, dtype=target.dtype, device=target.device)
    return distribute_tensor(value.detach().to(target.dtype), target.device_mesh, target.placements, src_data_rank=0 if options.broadcast_from_rank0 else None)


def set_model_state_dict(model, model_state_dict, *, options=None):
    options = _checked(options)
    if not model_state_dict and not options.broadcast_from_rank0:
        return _Loaded([], [])
    with _sharded_type(model):
        own = model.state_dict()
        theirs = {}
        for name, target in own.items():
            clean = _clean(name, model)
            if clean in model_state_dict or (options.broadcast_from_rank0 and isinstance(target, Tensor)):
                theirs[name] = _like(model_state_dict.get(clean), target, options)
        known = {_clean(name, model) for name in own}
        theirs.update((name, value) for name, value in model_state_dict.items() if name not in known)
        return model.load_state_dict(theirs, strict=options.strict)


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
            p.grad = tede.zeros_like(p)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def _flat(whole):
    """{"state.w.exp_avg": ..., "param_groups.w.lr": ...}."""
    flat = {f"state.{name}.{key}": value for name, state in whole["state"].items() for key, value in state.items()}
    for group in whole["param_groups"]:
        for name in group["params"]:
            flat.update((f"param_groups.{name}.{key}", value) for key, value in group.items() if key != "params")
    return flat


def _unflat(flat, optimizers, names):
    whole = {"state": {}, "param_groups": []}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            listed = [names[p] for p in group["params"]]
            new = {"params": listed}
            for name in listed:
                new.update((key, flat[f"param_groups.{name}.{key}"]) for key in group if key != "params" and f"param_groups.{name}.{key}" in flat)
                start = f"state.{name}."
                state = {key[len(start):]: value for key, value in flat.items() if key.startswith(start) and "." not in key[len(start):]}
                if state:
                    whole["state"][name] = state
            whole["param_groups"].append(new)
    return whole


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    options = _checked(options, submodules)
    names, whole = _names(model), {"state": {}, "param_groups": []}
    for optimizer in _optimizers(optimizers):
        _begin(optimizer)
        for group in optimizer.param_groups:
            whole["param_groups"].append({**group, "params": [names[p] for p in group["params"]]})
            for p in group["params"]:
                if p in optimizer.state:
                    whole["state"][names[p]] = _placed(dict(optimizer.state[p]), options)
    return _kept(_flat(whole) if options.flatten_optimizer_state_dict else whole, options)


def _counted(value):
    """Optimizers keep the number of steps that they load, and count on in it."""
    return value.clone() if isinstance(value, Tensor) and value.ndim == 0 else value


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    options = _checked(options)
    names, optimizers = _names(model), _optimizers(optimizers)
    if options.broadcast_from_rank0 and dist.is_initialized() and dist.get_world_size() > 1:
        optim_state_dict = _shape_of_rank0(optim_state_dict)
    if optim_state_dict and "param_groups" not in optim_state_dict:
        optim_state_dict = _unflat(optim_state_dict, optimizers, names)
    if not optim_state_dict:
        return
    groups = {name: group for group in optim_state_dict["param_groups"] for name in group["params"]}
    for optimizer in optimizers:
        _begin(optimizer)
        plain, at = {"state": {}, "param_groups": []}, 0
        for group in optimizer.param_groups:
            listed = [names[p] for p in group["params"]]
            saved = groups.get(listed[0], group) if listed else group
            numbers = list(range(at, at + len(listed)))
            at += len(listed)
            plain["param_groups"].append({**saved, "params": numbers})
            for n, name, p in zip(numbers, listed, group["params"]):
                if name in optim_state_dict["state"]:
                    own = optimizer.state.get(p, {})
                    plain["state"][n] = {key: _counted(_like(value, own.get(key), options)) for key, value in optim_state_dict["state"][name].items()}
        optimizer.load_state_dict(plain)


def _shape_of_rank0(state):
    """Rank 0's optimizer state dict with tensors only there; what isn't a tensor goes to all."""
    from tede.utils._pytree import tree_map_only
    box = [tree_map_only(Tensor, lambda x: None, state)]
    dist.broadcast_object_list(box, src=0)
    return state if dist.get_rank() == 0 else box[0]


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options))


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
