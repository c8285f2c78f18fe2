"""torch._prims_common: comparisons of what tensors say of themselves, and of types, which tests and libraries take from there."""
import tede
from tede._subclasses.fake_tensor import MetadataMismatchError

_KINDS = {bool: tede.bool, int: tede.long, complex: tede.complex64}


def _strides(a, b, only_cuda, counts):
    if (not only_cuda or "cuda" in (a.device.type, b.device.type)) and a.numel() > 0:
        for i, (p, q, n) in enumerate(zip(a.stride(), b.stride(), a.shape)):
            if p != q and counts(n):
                return False, i
    return True, None


def check_all_strides(a, b, *, only_cuda=True):
    """(whether all strides are the same, the first dimension where not). With only_cuda tensors elsewhere aren't compared."""
    return _strides(a, b, only_cuda, lambda n: True)


def check_significant_strides(a, b, *, only_cuda=True, allow_rhs_unbacked=False):
    """The same for dimensions of more than one element."""
    return _strides(a, b, only_cuda, lambda n: n > 1)


def compare_tensor_meta(a, b, check_sizes=True, check_strides=False, *, allow_rhs_unbacked=False, check_conj=True):
    """MetadataMismatchError where two tensors differ in shape, dtype, device, conjugation or negation; if asked, in strides and offset."""
    for x in (a, b):
        if not isinstance(x, tede.Tensor):
            raise AssertionError(f"expected a tensor, got {type(x)}")
    if check_sizes and a.shape != b.shape:
        raise MetadataMismatchError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype != b.dtype:
        raise MetadataMismatchError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device and {str(a.device), str(b.device)} != {"cuda", "cuda:0"}:
        raise MetadataMismatchError(f"Devices {a.device} and {b.device} are not equal!")
    if check_strides:
        same, at = check_significant_strides(a, b, only_cuda=False)
        if not same:
            raise MetadataMismatchError(f"Stride mismatch! Strides are {a.stride()} and {b.stride()} (mismatched at {at})!")
        if a.storage_offset() != b.storage_offset():
            raise MetadataMismatchError(f"Storage offset mismatch! Storage offsets are {a.storage_offset()} and {b.storage_offset()}!")
    if check_conj and a.is_conj() != b.is_conj():
        raise MetadataMismatchError(f"Conj mismatch! is_conj is set to {a.is_conj()} and {b.is_conj()}")
    if a.is_neg() != b.is_neg():
        raise MetadataMismatchError(f"Neg mismatch! is_neg is set to {a.is_neg()} and {b.is_neg()}")


def suggest_memory_format(x):
    """The format in which a result like `x` would lie."""
    formats = {4: tede.channels_last, 5: tede.channels_last_3d}
    if x.layout != tede.strided or x.dim() not in formats:
        return tede.contiguous_format
    return formats[x.dim()] if x.is_contiguous(memory_format=formats[x.dim()]) and not x.is_contiguous() else tede.contiguous_format


def dtype_to_type(dtype):
    """The type of Python's numbers that a dtype's elements are."""
    return bool if dtype == tede.bool else complex if dtype.is_complex else float if dtype.is_floating_point else int


def type_to_dtype(kind):
    """The dtype of a type of Python's numbers."""
    return tede.get_default_dtype() if kind is float else _KINDS[kind]
