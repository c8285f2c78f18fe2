"""Jagged tensors by the names of torch.nested._internal.nested_tensor: what checkpoints are made of, and what programs look at with isinstance."""
import tede
from tede import _C
from tede.nested import nested_tensor_from_jagged


class _IsJagged(type):
    def __instancecheck__(cls, x):
        return isinstance(x, _C.Tensor) and x.is_nested and x.layout is _C.jagged


class NestedTensor(metaclass=_IsJagged):
    """What jagged tensors are instances of. Here they are plain tensors, whose layout is jagged."""

    def __new__(cls, values, offsets, *, lengths=None, **kwargs):
        return _rebuild_njt({"values": values, "offsets": offsets, "lengths": lengths, **kwargs})


def _known(cache):
    """The least and the greatest length, of what a checkpoint says of them: tensors, whose sizes PyTorch makes them of, or numbers."""
    for name in ("min_seqlen", "max_seqlen"):
        length = cache.get(name)
        yield int(length) if isinstance(length, _C.Tensor) and length.dim() == 0 else length.shape[0] if isinstance(length, _C.Tensor) else length


def _rebuild_njt(constructor_kwargs):
    """The tensor of what a checkpoint says of it."""
    values, offsets, lengths = (constructor_kwargs.get(name) for name in ("values", "offsets", "lengths"))
    x = nested_tensor_from_jagged(values.detach() if constructor_kwargs.get("requires_grad") else values, offsets, lengths,
                                  constructor_kwargs.get("_ragged_idx", 1), *_known(constructor_kwargs.get("_metadata_cache") or {}))
    return x.requires_grad_() if constructor_kwargs.get("requires_grad") else x


def reduce(x):
    """(function, arguments) that make a jagged tensor again."""
    return _rebuild_njt, ({"values": x.detach().values(), "offsets": x.offsets(), "lengths": x.lengths(),
                           "_ragged_idx": _C._operators["_nested_get_ragged_idx"](x), "_metadata_cache": x._metadata_cache, "requires_grad": x.requires_grad},)


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """A jagged tensor of copies of tensors, and its offsets; over given offsets, if they are not None."""
    made = tede.nested.as_nested_tensor(tensors, dtype=dtype, device=device, layout=_C.jagged)
    if offsets is not None:
        made = nested_tensor_from_jagged(made.values(), offsets, jagged_dim=_C._operators["_nested_get_ragged_idx"](made))
    return made, made.offsets()


def nested_view_from_values_offsets(values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over values whose components follow each other."""
    return nested_tensor_from_jagged(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(values, offsets, lengths, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over values, of which those between components are left out."""
    return nested_tensor_from_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def nested_from_padded(padded, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None, sum_S=None):
    """The jagged tensor of the first rows of each member of a padded tensor, as many as offsets say."""
    return _C._operators["_nested_from_padded_tensor"](padded, offsets, padded, ragged_idx)


def buffer_from_jagged(jagged):
    """A jagged tensor's values."""
    return jagged.values()
