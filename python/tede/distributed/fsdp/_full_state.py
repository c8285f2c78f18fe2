"""State dicts of FullyShardedDataParallel: names without its wrappers, and parameters whole, as DTensors, or as the rank's part."""
import tede
import tede.distributed as dist
from tede import Tensor
from tede.distributed.fsdp.api import StateDictType
from tede.distributed.tensor import DTensor, Shard, distribute_tensor

_PREFIX = "_fsdp_wrapped_module."


def own_names(wrapper):
    """{path below the wrapped module: the parameter}"""
    paths = {m: path for path, m in wrapper.module.named_modules()}
    found = {}
    for p in wrapper._fsdp_state.group.parameters:
        for module, name in p.places:
            path = paths[module]
            found[f"{path}.{name}" if path else name] = p
    return found


def names_of(model):
    """[(parameter, name without wrappers)]"""
    return [(p, name.replace(_PREFIX, "")) for name, p in model.named_parameters()]


def placed(x, kind, cpu):
    """A value as the state dict's type has it."""
    if isinstance(x, DTensor):
        if kind is StateDictType.FULL_STATE_DICT:
            x = x.full_tensor()
        elif kind is StateDictType.LOCAL_STATE_DICT:
            x = x.to_local()
    return x.cpu() if cpu and isinstance(x, Tensor) else x


def _part(p, x):
    """The rank's part of a whole tensor."""
    if p.outer is not None:
        return distribute_tensor(x, p.sharded.device_mesh, p.sharded.placements, src_data_rank=None)
    return p.as_dtensor(Shard(p.dim)._part(x, p.n, p.rank).clone())


def _as_saved(p, x, kind):
    """What placed() gave, as a DTensor again."""
    if not isinstance(x, Tensor) or isinstance(x, DTensor) or x.ndim == 0:
        return x
    if kind is StateDictType.LOCAL_STATE_DICT:
        return p.as_dtensor(x)
    return _part(p, x) if tuple(x.shape) == tuple(p.sharded.shape) else x


def saved(wrapper, state_dict, prefix, local_metadata):
    """What comes after a wrapper's part of state_dict()."""
    kind, config, own = wrapper._state_dict_type, wrapper._state_dict_config, own_names(wrapper)
    drops = getattr(config, "rank0_only", False) and dist.get_rank() != 0
    for key in [key for key in state_dict if key.startswith(prefix + _PREFIX)]:
        value = state_dict.pop(key)
        path = key[len(prefix) + len(_PREFIX):]
        if path in own:
            value = placed(value, kind, config.offload_to_cpu)
        elif path in wrapper._fsdp_state.buffers and isinstance(value, Tensor):
            value = value.to(wrapper._fsdp_state.buffers[path])
        if not drops:
            state_dict[prefix + path] = value.cpu() if config.offload_to_cpu and isinstance(value, Tensor) else value
    return state_dict


def to_load(wrapper, state_dict, prefix, *unused):
    """What comes before a wrapper's part of load_state_dict()."""
    wrapper._fsdp_state.group.reshard()
    kind, own = wrapper._state_dict_type, own_names(wrapper)
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(prefix + _PREFIX)]:
        value, path = state_dict.pop(key), key[len(prefix):]
        state_dict[prefix + _PREFIX + path] = _as_saved(own[path], value, kind) if path in own else value


def write_back(p, values, grads):
    """Put a whole parameter, which may have been changed, and its gradient into the shards."""
    whole = p.whole
    local = whole._local_tensor if isinstance(whole, DTensor) else whole.detach()
    mine = p.sharded._local_tensor.detach()

    def part(x):
        return x.narrow(p.dim, min(p.chunk * p.rank, p.shape[p.dim]), mine.shape[p.dim])
    with tede.no_grad():
        if values:
            mine.copy_(part(local))
        if grads and whole.grad is not None:
            if values:
                p.sharded.grad = p.as_dtensor(part(whole.grad).to(p.dtype).clone())
            whole.grad = None


# ---- optimizers -----------------------------------------------------------------------------------------------------------------------

def _numbered(model, optim):
    """[(number in the optimizer's state dict, parameter, name)], and the numbers of each group."""
    names, listed, groups = dict(names_of(model)), [], []
    for group in optim.param_groups:
        groups.append([])
        for p in group["params"]:
            groups[-1].append(len(listed))
            listed.append((len(listed), p, names[p]))
    return listed, groups


def optimizer_saved(model, optim, state, settings):
    listed, groups = _numbered(model, optim)
    kind, config = settings.state_dict_type, settings.optim_state_dict_config
    found = {name: {key: placed(value.detach() if isinstance(value, Tensor) else value, kind, config.offload_to_cpu)
                    for key, value in state["state"][n].items()}
             for n, _, name in listed if n in state["state"]}
    if getattr(config, "rank0_only", False) and dist.get_rank() != 0:
        return {}
    listed = [name for _, _, name in listed]
    return {"state": found, "param_groups": [{**group, "params": [listed[n] for n in numbers]} for group, numbers in zip(state["param_groups"], groups)]}


def _own(value):
    """Optimizers keep the number of steps that they load, and count on in it."""
    return value.clone() if isinstance(value, Tensor) else value


def optimizer_to_load(model, optim, state, settings, from_rank0):
    if from_rank0 and dist.get_world_size() > 1:
        box = [state]
        dist.broadcast_object_list(box, src=0)
        state = box[0]
    listed, groups = _numbered(model, optim)
    sharded = {id(p.sharded): p for m in model.modules() if "_fsdp_state" in m.__dict__ for p in m.__dict__["_fsdp_state"].group.parameters}
    found = {}
    for n, p, name in listed:
        if name in state["state"]:
            mine = sharded.get(id(p))
            found[n] = {key: _own(value) if mine is None or not isinstance(value, Tensor) or value.ndim == 0 else
                        _as_saved(mine, value, settings.state_dict_type) for key, value in state["state"][name].items()}
    options = {name: group for group in state["param_groups"] for name in group["params"]}
    names = [name for _, _, name in listed]
    return {"state": found, "param_groups": [{**(options.get(names[numbers[0]], group) if numbers else group), "params": numbers}
                                             for group, numbers in zip(optim.param_groups, groups)]}
