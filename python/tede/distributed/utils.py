"""What wrappers of modules over process groups share: arguments on other devices and in other dtypes, states that begin alike."""
import dataclasses

import tede
import tede.distributed as dist
from tede.nn.utils.rnn import PackedSequence

__all__ = []


def _pack_kwargs(*args, **kwargs):
    """All arguments in one tuple, and the names of the last of them."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args, kwarg_keys):
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    at = len(flat_args) - len(kwarg_keys)
    return flat_args[:at], dict(zip(kwarg_keys, flat_args[at:]))


def _apply_to_tensors(fn, container):
    """The container with fn(x) in the place of each tensor x."""
    def apply(x):
        if isinstance(x, tede.Tensor):
            return fn(x)
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            changed = {field.name: apply(getattr(x, field.name)) for field in dataclasses.fields(x) if field.init}
            return dataclasses.replace(x, **changed)
        if isinstance(x, PackedSequence):
            apply(x.data)
            return x
        if isinstance(x, dict):
            changed = {key: apply(value) for key, value in x.items()}
            return changed if type(x) is dict else type(x)(changed) if not hasattr(x, "default_factory") else type(x)(x.default_factory, changed)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*map(apply, x))
        if isinstance(x, (list, tuple, set)):
            return type(x)(map(apply, x))
        return x
    return apply(container)


def _cast_forward_inputs(dtype, *args, **kwargs):
    """Arguments with their floating-point tensors in another dtype."""
    if dtype is None:
        return args, kwargs

    def cast(x):
        return x.to(dtype) if x.is_floating_point() and x.dtype != dtype else x
    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies):
    """[inputs with their tensors on the device]"""
    return [_apply_to_tensors(lambda x: x if x.device == target_device else x.to(target_device), inputs)]


def _to_kwargs(inputs, kwargs, target_device, use_side_stream_for_tensor_copies):
    moved = _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies) if inputs else []
    named = _recursive_to(kwargs, target_device, use_side_stream_for_tensor_copies) if kwargs else []
    count = max(len(moved), len(named))
    return tuple(moved + [()] * (count - len(moved))), tuple(named + [{}] * (count - len(named)))


def _p_assert(cond, s, raise_assertion_error=True):
    if not cond and raise_assertion_error:
        raise AssertionError(s)


def _alloc_storage(tensor, size):
    """Memory for a tensor of this size whose storage has been freed."""
    with tede.no_grad():
        if tensor.untyped_storage().size() != size.numel() * tensor.itemsize:
            tensor.untyped_storage().resize_(size.numel() * tensor.itemsize)


def _free_storage(tensor):
    with tede.no_grad():
        if tensor.untyped_storage().size() > 0:
            _p_assert(tensor.storage_offset() == 0, "Freeing a tensor's storage is unsafe when it is not the sole occupant")
            tensor.untyped_storage().resize_(0)


def _data_ptr_allocated(tensor):
    return tensor.untyped_storage().data_ptr() > 0


def _verify_param_shape_across_processes(process_group, tensors, logger=None):
    return dist._verify_params_across_processes(process_group, tensors, logger)


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore, broadcast_buffers=True):
    """Rank src's parameters and buffers in the modules of all ranks."""
    states = [p.detach() for name, p in module.named_parameters() if name not in params_and_buffers_to_ignore]
    if broadcast_buffers:
        states += [buffer.detach() for name, buffer in module.named_buffers() if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(process_group, module_states, broadcast_bucket_size, src):
    if module_states:
        dist._broadcast_coalesced(process_group, module_states, broadcast_bucket_size, src)


def _replace_by_prefix(state_dict, old_prefix, new_prefix):
    """In place: keys that begin with the old prefix begin with the new one."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix):]] = state_dict.pop(key)


def _get_root_modules(modules):
    """The modules that are below none of the others."""
    below = {child for module in modules for child in module.modules() if child is not module}
    return [module for module in modules if module not in below]
