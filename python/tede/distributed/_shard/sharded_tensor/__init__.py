"""torch.distributed._shard.sharded_tensor: tensors in blocks, how they are made, and hooks by which state dicts have them."""
import functools

import tede
from tede.distributed._shard.metadata import ShardedTensorMetadata, ShardMetadata, TensorProperties  # noqa: F401
from tede.distributed._shard.sharded_tensor.api import ShardedTensor, ShardedTensorBase, _custom
from tede.distributed._shard.sharded_tensor.shard import Shard  # noqa: F401


def _made(sharding_spec, *size, fill, dtype=None, layout=tede.strided, requires_grad=False, pin_memory=False, memory_format=tede.contiguous_format,
          process_group=None, init_rrefs=False):
    """A ShardedTensor whose blocks fill(tensor) has written."""
    found = ShardedTensor(sharding_spec, *size, dtype=dtype, layout=layout, requires_grad=requires_grad, pin_memory=pin_memory, memory_format=memory_format,
                          process_group=process_group, init_rrefs=init_rrefs)
    with tede.no_grad():
        for shard in found.local_shards():
            fill(shard.tensor)
    return found


empty = functools.partial(_made, fill=lambda x: x)
zeros = functools.partial(_made, fill=lambda x: x.zero_())
ones = functools.partial(_made, fill=lambda x: x.fill_(1))
rand = functools.partial(_made, fill=lambda x: x.uniform_())
randn = functools.partial(_made, fill=lambda x: x.normal_())


def full(sharding_spec, size, fill_value, **kwargs):
    return _made(sharding_spec, size, fill=lambda x: x.fill_(fill_value), **kwargs)


def init_from_local_shards(local_shards, *global_size, process_group=None, init_rrefs=False):
    """A ShardedTensor of blocks that the ranks have."""
    return ShardedTensor._init_from_local_shards(local_shards, *global_size, process_group=process_group, init_rrefs=init_rrefs)


def custom_sharded_op_impl(func):
    """Register what is called in the place of a function of the library that is passed a ShardedTensor: of (types, args, kwargs, process_group)."""
    def register(own):
        _custom[func] = own
        return own
    return register


def _attributes(module, prefix):
    for name, submodule in module.named_modules():
        for key in list(vars(submodule)):
            yield submodule, key, ".".join(filter(None, (prefix.removesuffix("."), name, key)))


def state_dict_hook(module, destination, prefix, local_metadata):
    """For Module._register_state_dict_hook: ShardedTensors that are attributes are in the state dict."""
    for submodule, key, name in _attributes(module, prefix):
        if isinstance(getattr(submodule, key), ShardedTensorBase):
            destination[name] = getattr(submodule, key)


def pre_load_state_dict_hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    """For Module._register_load_state_dict_pre_hook: those of a state dict become attributes."""
    for submodule, key, name in _attributes(module, prefix):
        if isinstance(state_dict.get(name), ShardedTensorBase):
            setattr(submodule, key, state_dict[name])
