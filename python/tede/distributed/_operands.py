"""What calls of groups are passed: checks of tensors, complex numbers as pairs of real ones, options."""
import itertools

import tede
from tede.distributed._work import RedOpType, _reduction
from tede.distributed._world import _group_or_default


def _check_single_tensor(tensor, name):
    if not isinstance(tensor, tede.Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(tensor)} instead.")


def _check_tensor_list(tensors, name):
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(tensors)} instead.")
    if not all(isinstance(tensor, tede.Tensor) for tensor in tensors):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
                        f"             but got {type(tensors)} with elements of type {[type(tensor) for tensor in tensors]}.")


def _ensure_all_tensors_same_dtype(*tensors):
    last = None
    for some in tensors:
        for tensor in itertools.chain([some] if isinstance(some, tede.Tensor) else some):
            dtype = tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype
            last = dtype if last is None else last
            if dtype is not last:
                raise ValueError("Invalid usage of tensors with different dtypes"
                                 f"Found {last} and  {tensor.dtype}")


def supports_complex(reduceOp):
    """Whether a reduction is one of complex numbers."""
    number = _reduction(reduceOp)[0]
    return number in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)


def _real(tensor):
    return tede.view_as_real(tensor) if tensor.is_complex() else tensor


def _check_complex(name, tensors, op, error=ValueError):
    if any(tensor.is_complex() for tensor in tensors) and not supports_complex(op):
        raise error(f"{name} does not support {op} on complex tensors")


def _device_of_objects(group=None):
    pg = _group_or_default(group)
    devices = pg._device_types
    return devices[0] if devices and tede.device("cpu") not in devices else tede.device("cpu")


_get_object_coll_device = _get_pg_default_device = _device_of_objects


def _options(kind, async_op, op=None):
    opts = kind()
    opts.asyncOp = async_op
    if op is not None:
        opts.reduceOp = op
    return opts


def _finish(work, async_op):
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None
