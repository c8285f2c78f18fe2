"""Comparing results: assert_close, with the tolerances that fit a dtype."""
from tede import _C
from tede._C import Tensor

_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7),
               _C.complex64: (1.3e-6, 1e-5), _C.complex128: (1e-7, 1e-7)}


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise an AssertionError unless both are close: tensors, numbers, and sequences or mappings of them."""
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or unspecified, but got no "
                         f"{'rtol' if rtol is None else 'atol'} instead.")
    _compare(actual, expected, "", rtol, atol, equal_nan, check_device, check_dtype, check_stride, msg)


def _fail(text, place, msg):
    if place:
        text += f"\n\nThe failure occurred for item {place}"
    raise AssertionError(msg(text) if callable(msg) else msg or text)


def _compare(actual, expected, place, *options):
    msg = options[-1]
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place, msg)
        for i, pair in enumerate(zip(actual, expected)):
            _compare(*pair, f"{place}[{i}]", *options)
    elif isinstance(actual, dict) and isinstance(expected, dict):
        if actual.keys() != expected.keys():
            _fail(f"The keys of the mappings do not match: {sorted(actual.keys() ^ expected.keys())}", place, msg)
        for key in actual:
            _compare(actual[key], expected[key], f"{place}[{key!r}]", *options)
    else:
        _compare_tensors(actual, expected, place, *options)


def _compare_tensors(actual, expected, place, rtol, atol, equal_nan, check_device, check_dtype, check_stride, msg):
    if isinstance(actual, Tensor) != isinstance(expected, Tensor) and not (
            isinstance(actual, (int, float, complex)) or isinstance(expected, (int, float, complex))):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    a, b = (x if isinstance(x, Tensor) else _C.as_tensor(x) for x in (actual, expected))
    numbers = not isinstance(actual, Tensor)
    kind = "Scalars" if numbers else "Tensor-likes"
    if a.shape != b.shape:
        _fail(f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.", place, msg)
    if check_device and a.device != b.device:
        _fail(f"The values for attribute 'device' do not match: {a.device} != {b.device}.", place, msg)
    if check_dtype and a.dtype != b.dtype and not numbers:
        _fail(f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}.", place, msg)
    if check_stride and a.stride() != b.stride():
        _fail(f"The values for attribute 'stride()' do not match: {a.stride()} != {b.stride()}.", place, msg)
    if rtol is None:
        pairs = [_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (a, b)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    if a.is_meta:
        return
    dtype = _C.promote_types(a.dtype, b.dtype)
    a, b = a.detach().to(dtype), b.detach().to(dtype)
    close = a.isclose(b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all():
        return
    wrong = int((~close).sum())
    wide = _C.complex128 if dtype.is_complex else _C.float64
    gap = (a.to(wide) - b.to(wide)).abs().reshape(-1)
    gap[close.reshape(-1)] = 0
    at = int(gap.argmax())
    total = max(a.numel(), 1)
    lines = [f"{kind} are not {'equal' if rtol == atol == 0 else 'close'}!", "",
             f"Mismatched elements: {wrong} / {total} ({100 * wrong / total:.1f}%)",
             f"Greatest absolute difference: {float(gap[at])} at flat index {at} (up to {atol} allowed, relative {rtol})"]
    _fail("\n".join(lines), place, msg)
