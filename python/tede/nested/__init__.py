"""Nested tensors (torch.nested): batches of tensors that differ in their sizes.

The tensors themselves, and operators on them, are the core's (src/layouts/nested/); here they are made of lists, offsets and masks."""
import tede
from tede import _C
from tede._override import overridable

__all__ = ["to_padded_tensor", "as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "narrow", "masked_select"]

_OP = _C._operators


def _of_list(tensors, layout, dtype, device):
    tensors = [x.to(device=device, dtype=dtype) for x in tensors]
    if layout is _C.jagged:
        if len({x.dtype for x in tensors}) > 1:
            raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dtype")
        if len({x.device for x in tensors}) > 1:
            raise RuntimeError("When constructing a nested tensor, all tensors in list must be on the same device")
        return _OP["_jagged_of_list"](tensors)
    return _OP["_nested_tensor_from_tensor_list"](tensors)


def _layout_of(layout):
    if layout is None or layout is _C.strided:
        return _C.strided
    if layout is not _C.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor, a leaf, of copies of tensors, or of what makes tensors, of one rank. Of layout ``tede.strided``, the default, or ``tede.jagged``,
    whose components differ in one dimension."""
    layout = _layout_of(layout)
    if isinstance(tensor_list, _C.Tensor):
        raise TypeError(f"nested_tensor(): Expected a list of tensors, got {type(tensor_list).__name__}") if tensor_list.dim() == 0 else None
        tensor_list = tensor_list.unbind()
    tensors = [x.detach() if isinstance(x, _C.Tensor) else tede.as_tensor(x) for x in tensor_list]
    if not tensors and layout is _C.strided:
        made = _OP["_nested_tensor_from_tensor_list"]([]).to(dtype=dtype or _C.get_default_dtype(), device=device)
    else:
        if dtype is None and layout is _C.strided:
            dtype = tensors[0].dtype
        made = _of_list(tensors, layout, dtype, device)
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_(requires_grad)


@overridable
def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of copies of tensors of one rank, which gradients lead back to; or of the rows of one tensor."""
    if not isinstance(ts, _C.Tensor) and not (isinstance(ts, (list, tuple)) and all(isinstance(x, _C.Tensor) for x in ts)):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    if isinstance(ts, _C.Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        if ts.is_nested:
            if layout is not ts.layout:
                raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
            return ts.to(device=device, dtype=dtype)
        ts = ts.unbind()
    return _of_list(ts, _layout_of(layout), dtype, device)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over ``values``, whose component i begins at ``offsets[i]`` and ends at the next offset, or has ``lengths[i]`` rows; a view.
    Without offsets the components follow each other."""
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = tede.nn.functional.pad(lengths.cumsum(0), (1, 0)), None
    return _OP["_nested_of_jagged"](values, offsets, lengths, 1 if jagged_dim is None else jagged_dim, min_seqlen, max_seqlen)


def narrow(tensor, dim, start, length, layout=_C.strided):
    """The nested tensor of ``length`` positions from ``start`` on, along a dimension of each row of a strided tensor. With layout jagged it is a view, and
    start and length may be tensors, a number for each row."""
    for name, x in (("start", start), ("length", length)):
        if not isinstance(x, (int, _C.Tensor)):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if layout is _C.strided:
        if isinstance(start, _C.Tensor) or isinstance(length, _C.Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(tensor.unbind(), layout=layout).narrow(dim, start, length)
    if layout is not _C.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    return _narrowed(tensor, *(x if isinstance(x, _C.Tensor) else tede.tensor([x], device=tensor.device) for x in (start, length)))


def _narrowed(tensor, starts, lengths):
    rows, width = tensor.shape[:2]
    if any(x.dim() > 1 or (x.dim() and x.shape[0] not in (1, rows)) for x in (starts, lengths)):
        raise RuntimeError("When constructing a jagged nested tensor using narrow(), your start and length must be Tensors that broadcast to input.shape[0]")
    starts = starts.expand(rows) + width * tede.arange(rows, device=tensor.device)
    lengths = lengths.expand(rows).contiguous()
    offsets = tede.cat([starts, (starts[-1:] + lengths[-1:])])
    values = tensor.flatten(0, 1)
    if tede.equal(offsets.diff(), lengths):         # nothing is left out between them
        first, last = int(offsets[0]), int(offsets[-1])
        return nested_tensor_from_jagged(values[first:last], offsets - first)
    return nested_tensor_from_jagged(values, offsets, lengths)


def masked_select(tensor, mask):
    """The jagged tensor of the elements of each row, along the last dimension, of a strided tensor for which the mask is true."""
    if tensor.layout is not _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}")
    if mask.layout is not _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, given: {mask.layout}")
    values = tensor.masked_select(mask)
    mask = mask.expand(tede.broadcast_shapes(tensor.shape, mask.shape))
    return nested_tensor_from_jagged(values, lengths=mask.sum(dim=-1).reshape(-1))


def to_padded_tensor(input, padding, output_size=None, out=None):
    """The components in a strided tensor, filled up with ``padding`` at their ends; as large as the largest of them, or of a given size."""
    made = input.to_padded_tensor(padding, output_size)
    return made if out is None else out.resize_(made.shape).copy_(made)
