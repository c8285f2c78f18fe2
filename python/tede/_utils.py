"""Functions that rebuild tensors when they are unpickled. Checkpoints name these functions, so their names and arguments are fixed."""
from collections import OrderedDict

from tede import _C
from tede._C import Tensor
from tede._parameter import Parameter
from tede._titles import STORAGES, short


def _get_available_device_type():
    """The kind of accelerator that is there, if any."""
    from tede.accelerator import current_accelerator
    device = current_accelerator()
    return device.type if device else None


def _get_device_module(device_type):
    """The module that speaks for a kind of device: torch.cpu."""
    import tede
    module = getattr(tede, device_type, None)
    if module is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'.")
    return module


def _element_size(dtype):
    """The bytes of one element."""
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_device_index(device, optional=False, allow_cpu=False):
    """A device's index: of a number, a name or a device; of None, the current one's, if `optional`."""
    if isinstance(device, str):
        device = _C.device(device)
    index = None
    if isinstance(device, _C.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    if isinstance(device, int):
        index = device
    if index is not None:
        return index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    from tede.accelerator import current_device_index
    return current_device_index()


def is_compiling():
    """Whether a compiler traces the program: torch.compiler.is_compiling."""
    import warnings
    from tede._tracing import is_compiling
    warnings.warn("`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.", stacklevel=2)
    return is_compiling()


def _flatten_dense_tensors(tensors):
    """The elements of the tensors, one after the other, in a vector."""
    return _C._functions["cat"]([x.contiguous().view(-1) for x in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of the vector with the tensors' sizes."""
    views, start = [], 0
    for x in tensors:
        n = x.numel()
        views.append(flat.narrow(0, start, n).view(x.size()) if n else _C._functions["empty"](x.size(), dtype=flat.dtype))
        start += n
    return tuple(views)


def _flatten_sparse_tensors(tensors):
    """The vectors of the tensors' indices and of their values."""
    tensors = list(tensors)
    return _flatten_dense_tensors([x._indices() for x in tensors]), _flatten_dense_tensors([x._values() for x in tensors])


def _unflatten_sparse_tensors(flat, tensors):
    """Sparse tensors of the given ones' sizes, over the two vectors."""
    import tede
    tensors = list(tensors)
    indices = _unflatten_dense_tensors(flat[0], [x._indices() for x in tensors])
    values = _unflatten_dense_tensors(flat[1], [x._values() for x in tensors])
    return tuple(tede.sparse_coo_tensor(i, v, x.size()) for x, i, v in zip(tensors, indices, values))


def _take_tensors(tensors, size_limit):
    """Groups of tensors of one type, of at most some bytes each."""
    groups = {}
    for x in tensors:
        kind = x.type()
        size = (x._indices().nbytes + x._values().nbytes) if x.is_sparse else x.numel() * x.element_size()
        group, held = groups.setdefault(kind, ([], [0]))
        if held[0] + size > size_limit and held[0] > 0:
            yield group
            group, held = groups[kind] = ([], [0])
        group.append(x)
        held[0] += size
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(tensors, ordered_tensors):
    """The tensors in an order in which their types come as in the other list."""
    by_kind = {}
    for x in tensors:
        by_kind.setdefault(x.type(), []).append(x)
    iterators = {kind: iter(group) for kind, group in by_kind.items()}
    return tuple(next(iterators[x.type()]) for x in ordered_tensors)


def _over(storage, dtype, offset, size, stride):
    untyped = getattr(storage, "_untyped_storage", storage)
    if untyped.device.type == "meta":
        return _C._functions["empty_strided"](tuple(size), tuple(stride), dtype=dtype, device="meta")
    x = _C._tensor_over(untyped, offset, tuple(size), tuple(stride), dtype)
    for mode in reversed(_C._torch_dispatch_stack()):
        if hasattr(mode, "_of_file"):       # FakeTensorMode, within which what a file has is fake, too
            return mode._of_file(x)
    return x


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _over(storage, storage.dtype, storage_offset, size, stride)


def _finish(x, requires_grad, metadata):
    if requires_grad:
        x.requires_grad_()
    if metadata:
        if metadata.get("conj"):
            x = x.conj()
        if metadata.get("neg"):
            x = x._neg_view()
    return x


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    return _finish(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    return _finish(_over(storage, dtype, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    from tede._quantized import rebuild
    return rebuild(storage, storage_offset, size, stride, quantizer_params)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return _C._functions["empty_strided"](tuple(size), tuple(stride), dtype=dtype, device="meta",
                                          requires_grad=requires_grad)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    return _set_obj_state(parameter, state)


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    return _C.from_numpy(data).to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    return data.to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _rebuild_sparse_tensor(layout, data):
    import tede
    name = str(layout).rpartition(".")[2]
    if name == "sparse_coo":
        indices, values, size, coalesced = data if len(data) == 4 else (*data, None)
        return tede.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced)
    return tede.sparse_compressed_tensor(*data, layout=layout)


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    """A nested tensor of the strided layout: of components that lie anywhere in the buffer."""
    parts = [buffer.as_strided(tuple(size), tuple(step), int(at)) for size, step, at in zip(sizes.tolist(), strides.tolist(), storage_offsets)]
    if parts:
        return _C._operators["_nested_tensor_from_tensor_list"](parts)
    return _C._operators["_nested_of_sizes"](buffer, sizes)


def _rebuild_layout_tensor(layout, size, parts, requires_grad):
    """A tensor of a layout from outside, of its parts."""
    kind = _C._registered(layout)
    if kind is None:
        raise RuntimeError(f"there is no layout named {layout!r}: load the library that registers it first, with tede.ops.load_library")
    return _C._from_layout_parts(kind, size, parts).requires_grad_(requires_grad)


def _rebuild_mkldnn_tensor(dense, requires_grad):
    return dense.to_mkldnn().requires_grad_(requires_grad)


def _get_obj_state(obj):
    """What an object's pickle holds beside what it is: what its class says, or its dict and its slots."""
    import copyreg
    own = getattr(type(obj), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        return own(obj)
    state = getattr(obj, "__dict__", None)
    slots = copyreg._slotnames(type(obj))
    found = {name: getattr(obj, name) for name in slots if hasattr(obj, name)} if slots else None
    return (state, found) if found else state


def _set_obj_state(obj, state):
    if isinstance(state, tuple):
        if len(state) != 2:
            raise RuntimeError(f"Invalid serialized state: {state}")
        state, slots = state
        for name, value in (slots or {}).items():
            setattr(obj, name, value)
    if state:
        obj.__dict__.update(state)
    return obj


def is_wrapper(x):
    """Whether x is of a class that keeps its elements elsewhere (_make_wrapper_subclass)."""
    return type(x) is not Tensor and x.data_ptr() == 0


def _reduce_tensor(x):
    """(function, arguments) that make the tensor again; the storage inside them is shared between tensors that share."""
    if is_wrapper(x) and type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return _rebuild_wrapper_subclass, (type(x), x.dtype, tuple(x.size()), x.stride(), x.storage_offset(), x.layout, x.device,
                                           x.requires_grad)
    if x.is_nested:
        if x.layout is _C.strided:
            return _rebuild_nested_tensor, (x.detach().values(), x._nested_tensor_size(), x._nested_tensor_strides(), x._nested_tensor_storage_offsets())
        from tede.nested._internal.nested_tensor import reduce
        return reduce(x)
    if x.layout is not _C.strided:
        if x.is_mkldnn:                     # whose order in memory is the machine's affair
            return _rebuild_mkldnn_tensor, (x.detach().to_dense(), x.requires_grad)
        if x.layout not in (_C.sparse_coo, _C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc):
            parts = tuple((name, part) for name, part, _ in _C._layout_parts(x))
            return _rebuild_layout_tensor, (str(x.layout).rpartition(".")[2], tuple(x.size()), parts, x.requires_grad)
        if str(x.layout).endswith("sparse_coo"):
            return _rebuild_sparse_tensor, (x.layout, (x._indices(), x._values(), x.size(), x.is_coalesced()))
        rows = "crow_indices" if hasattr(x, "crow_indices") and str(x.layout).rpartition(".")[2] in (
            "sparse_csr", "sparse_bsr") else "ccol_indices"
        columns = "col_indices" if rows == "crow_indices" else "row_indices"
        return _rebuild_sparse_tensor, (x.layout, (getattr(x, rows)(), getattr(x, columns)(), x.values(), x.size()))
    if x.is_quantized:
        from tede._quantized import reduce_quantized
        return reduce_quantized(x, _rebuild_qtensor)
    if x.is_meta:
        return _rebuild_meta_tensor_no_storage, (x.dtype, tuple(x.size()), x.stride(), x.requires_grad)
    return reduce_strided(x)


def reduce_strided(x):
    """(function, arguments) for a tensor whose storage a file has, or has room for."""
    from tede._storage import TypedStorage
    plain = x                               # which no operator reads: a mode that is on has no part in it
    if any(step < 0 for step in plain.stride()):
        plain = plain.detach().contiguous() # PyTorch's files can't say it
    bits = {name: True for name, is_set in (("conj", plain.is_conj()), ("neg", plain.is_neg())) if is_set}
    metadata = (bits,) if bits else ()
    storage, place = plain.untyped_storage(), (plain.storage_offset(), tuple(plain.size()), plain.stride())
    if short(x.dtype) in STORAGES.values():
        typed = TypedStorage(wrap_storage=storage, dtype=x.dtype, _internal=True)
        return _rebuild_tensor_v2, (typed, *place, x.requires_grad, OrderedDict(), *metadata)
    return _rebuild_tensor_v3, (storage, *place, x.requires_grad, OrderedDict(), x.dtype, *metadata)


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    return Tensor._make_wrapper_subclass(cls, size, strides=stride, dtype=dtype, storage_offset=storage_offset, layout=layout,
                                         device=device, requires_grad=requires_grad)


def _rebuild_from_type_v2(func, new_type, args, state):
    x = func(*args)
    if not issubclass(new_type, Tensor):        # a class that PyTorch has for a layout
        return x
    if type(x) is not new_type:
        x = x.as_subclass(new_type)
    if getattr(type(x), "__setstate__", Tensor.__setstate__) is not Tensor.__setstate__:
        x.__setstate__(state)
    else:
        x = _set_obj_state(x, state)
    return x


def reduce_ex(x, protocol, rebuild):
    """Tensor.__reduce_ex__: PyTorch's reduction, so that each reads what the other wrote. `rebuild` is the function that files
    name for a tensor of another class."""
    state = _get_obj_state(x)
    with _C.DisableTorchFunctionSubclass():
        func, args = _reduce_tensor(x)
    if type(x) is Tensor and not state:
        return func, args
    return rebuild, (func, type(x), args, state)


def reduce_parameter(x, protocol):
    state = _get_obj_state(x)
    if not state:
        return _rebuild_parameter, (x.data, x.requires_grad, OrderedDict())
    return _rebuild_parameter_with_state, (x.data, x.requires_grad, OrderedDict(), state)


# ---- errors from elsewhere -----------------------------------------------------------------------------------------

class KeyErrorMessage(str):
    """A string whose repr is itself: KeyError shows the repr of what it is given."""

    def __repr__(self):
        return self


class ExceptionWrapper:
    """An exception with its traceback as text, to be raised in another thread or process."""

    def __init__(self, exc_info=None, where="in background"):
        import sys
        import traceback
        exc_info = exc_info or sys.exc_info()
        self.exc_type, self.where = exc_info[0], where
        self.exc_msg = "".join(traceback.format_exception(*exc_info))

    def reraise(self):
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error
