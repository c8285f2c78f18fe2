"""Lists of tensors sorted into groups of one device and dtype, for operators that take whole lists."""
import sys


def _loaded(known):
    """The names of devices that were loaded, besides those."""
    devices = sys.modules.get("tede._devices")
    return [name for name in devices.loaded if name not in known] if devices else []


def _get_foreach_kernels_supported_devices():
    known = ["cuda", "xpu", "mtia"]
    return known + _loaded(known)


def _get_fused_kernels_supported_devices():
    known = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia"]
    return known + _loaded(known)


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype): (the lists' parts, indices)}, by the first list's tensors."""
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        parts, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(parts, tensorlistlist):
            if whole:
                part.append(whole[i])
        if with_indices:
            indices.append(i)
    return groups


def _device_has_foreach_support(device):
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device):
    return _device_has_foreach_support(device) and all(t is None or type(t).__name__ == "Tensor" for t in tensors)
