"""assert_close: pairs are made from both values, containers entered, before anything is compared.

So what can't be compared at all (TypeError) is found first, and a failure says for which item it was.
"""
import cmath
import collections.abc
import sys

from tede import _C
from tede._C import Tensor

_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7),
               _C.complex64: (1.3e-6, 1e-5), _C.complex128: (1e-7, 1e-7)}
_NUMBERS = {int: _C.int64, float: _C.float64, complex: _C.complex128}


class _Failure(Exception):
    """What is to be raised, with the place in the containers."""

    def __init__(self, kind, text, place):
        super().__init__(text)
        self.kind, self.text, self.place = kind, text, place

    def error(self, msg):
        text = self.text
        if self.place:
            text += "\n\nThe failure occurred for item " + "".join(str([item]) for item in self.place)
        return self.kind(msg if isinstance(msg, str) else msg(text) if callable(msg) else text)


def default_tolerances(*inputs, dtype_precisions=None):
    """The loosest (rtol, atol) of tensors' dtypes."""
    for x in inputs:
        if not isinstance(x, (Tensor, _C.dtype)):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(x)} instead.")
    table = dtype_precisions or _TOLERANCES
    pairs = [table.get(x.dtype if isinstance(x, Tensor) else x, (0.0, 0.0)) for x in inputs]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _tolerances(dtypes, options, place):
    rtol, atol = options["rtol"], options["atol"]
    if (rtol is None) != (atol is None):
        raise _Failure(ValueError, "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                                   f"{'rtol' if rtol is None else 'atol'}.", place)
    return (rtol, atol) if rtol is not None else default_tolerances(*dtypes)


def _mismatch(what, extra, absolute, relative, at, rtol, atol):
    lines = [f"{what} are not {'equal' if rtol == atol == 0 else 'close'}!", "", extra]
    for kind, gap, place, tolerance in (("absolute", absolute, at[0], atol), ("relative", relative, at[1], rtol)):
        line = f"{kind.title()} difference: {gap}" if place is None else f"Greatest {kind} difference: {gap} at index {place}"
        lines.append(line + ("" if rtol == atol == 0 else f" (up to {tolerance} allowed)"))
    return "\n".join(lines)


# ---- kinds of pairs: each makes a comparison, or None where the values aren't of its kind ----------------------------

def _none(actual, expected, place, options):
    if actual is not None and expected is not None:
        return None

    def compare():
        if not (actual is None and expected is None):
            raise _Failure(AssertionError, f"None mismatch: {actual} is not {expected}", place)
    return compare


def _numpy():
    return sys.modules.get("numpy")


def _boolean(actual, expected, place, options):
    kinds = (bool,) + ((_numpy().bool_,) if _numpy() else ())
    if not isinstance(actual, kinds) or not isinstance(expected, kinds):
        return None

    def compare():
        if bool(actual) is not bool(expected):
            raise _Failure(AssertionError, f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", place)
    return compare


def _number(actual, expected, place, options):
    kinds = tuple(_NUMBERS) + ((_numpy().number,) if _numpy() else ())
    if not isinstance(actual, kinds) or not isinstance(expected, kinds):
        return None
    a, b = (x.item() if _numpy() and isinstance(x, _numpy().number) else x for x in (actual, expected))
    rtol, atol = _tolerances([_NUMBERS[int if isinstance(x, int) else type(x)] for x in (a, b)], options, place)

    def compare():
        if options["check_dtype"] and type(a) is not type(b):
            raise _Failure(AssertionError, f"The (d)types do not match: {type(a)} != {type(b)}.", place)
        if a == b or (options["equal_nan"] and cmath.isnan(a) and cmath.isnan(b)):
            return
        gap = abs(a - b)
        if cmath.isfinite(gap) and gap <= atol + rtol * abs(b):
            return
        relative = float("inf") if b == 0 else gap / abs(b)
        raise _Failure(AssertionError, _mismatch("Scalars", f"Expected {b} but got {a}.", gap, relative, (None, None), rtol,
                                                 atol), place)
    return compare


def _tensor(actual, expected, place, options):
    if not (isinstance(actual, type(expected)) or isinstance(expected, type(actual))):
        return None
    if not options["allow_subclasses"] and type(actual) is not type(expected):
        return None
    try:
        a, b = (x if isinstance(x, Tensor) else _C.as_tensor(x) for x in (actual, expected))
    except Exception:                   # whatever a foreign object does when it is asked for its elements
        return None
    rtol, atol = _tolerances((a, b), options, place)
    return lambda: _compare_tensors(a, b, rtol, atol, place, options)


def _compare_tensors(a, b, rtol, atol, place, options):
    def check(name, x, y):
        if x != y:
            raise _Failure(AssertionError, f"The values for attribute '{name}' do not match: {x} != {y}.", place)
    check("shape", a.shape, b.shape)
    if a.layout != b.layout:
        if options["check_layout"]:
            check("layout", a.layout, b.layout)
    elif a.layout is _C.strided and options["check_stride"]:
        check("stride()", a.stride(), b.stride())
    if options["check_device"]:
        check("device", a.device, b.device)
    if options["check_dtype"]:
        check("dtype", a.dtype, b.dtype)
    if a.is_meta or b.is_meta:
        return
    with _C.DisableTorchFunctionSubclass():
        a, b = a.detach(), b.detach()
        if a.device != b.device:
            a, b = a.cpu(), b.cpu()
        if a.layout is not _C.strided:
            a = a.to_dense()
        if b.layout is not _C.strided:
            b = b.to_dense()
        if a.dtype != b.dtype:
            dtype = _C.promote_types(*(_C.int64 if x.dtype in (_C.uint16, _C.uint32, _C.uint64) else x.dtype for x in (a, b)))
            a, b = a.to(dtype), b.to(dtype)
        _compare_values(a, b, rtol, atol, place, options["equal_nan"])


def _compare_values(a, b, rtol, atol, place, equal_nan):
    matches = a.isclose(b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if matches.all():
        return
    if not a.dim():
        x, y = a.item(), b.item()
        gap = abs(x - y)
        raise _Failure(AssertionError, _mismatch("Scalars", f"Expected {y} but got {x}.", gap,
                                                 float("inf") if y == 0 else gap / abs(y), (None, None), rtol, atol), place)
    total, shape = matches.numel(), matches.shape
    wrong = total - int(matches.sum())
    x, y, flat = a.reshape(-1), b.reshape(-1), matches.reshape(-1)
    if not (a.is_floating_point() or a.is_complex()):
        x, y = x.to(_C.int64), y.to(_C.int64)
    gap = (x - y).abs()
    gap[flat] = 0
    relative = gap / y.abs()
    relative[flat] = 0

    def place_of(k):
        index = []
        for n in reversed(shape):
            k, rest = divmod(k, n)
            index.insert(0, rest)
        return tuple(index)
    greatest, k = gap.max(0)
    greatest_relative, m = relative.max(0)
    raise _Failure(AssertionError, _mismatch("Tensor-likes", f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
                                             greatest.item(), greatest_relative.item(), (place_of(int(k)), place_of(int(m))),
                                             rtol, atol), place)


_KINDS = (_none, _boolean, _number, _tensor)


def _pairs(actual, expected, place, options):
    """Comparisons of everything in both values."""
    def is_sequence(x):
        return isinstance(x, collections.abc.Sequence) and not isinstance(x, str)
    if is_sequence(actual) and is_sequence(expected):
        if len(actual) != len(expected):
            raise _Failure(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        for i, (a, b) in enumerate(zip(actual, expected)):
            yield from _pairs(a, b, (*place, i), options)
        return
    if isinstance(actual, collections.abc.Mapping) and isinstance(expected, collections.abc.Mapping):
        missing, extra = set(expected) - set(actual), set(actual) - set(expected)
        if missing or extra:
            raise _Failure(AssertionError, "The keys of the mappings do not match:\nMissing keys in the actual mapping: "
                           f"{sorted(missing)}\nAdditional keys in the actual mapping: {sorted(extra)}", place)
        keys = list(actual)
        try:
            keys.sort()
        except TypeError:
            pass
        for key in keys:
            yield from _pairs(actual[key], expected[key], (*place, key), options)
        return
    for kind in _KINDS:
        compare = kind(actual, expected, place, options)
        if compare is not None:
            yield compare
            return
    raise _Failure(TypeError, "No comparison pair was able to handle inputs of type "
                              f"{type(actual)} and {type(expected)}.", place)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise an AssertionError unless both are close: tensors, numbers, and sequences and mappings of them."""
    options = dict(allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
                   check_dtype=check_dtype, check_layout=check_layout, check_stride=check_stride)
    error = None
    try:
        for compare in list(_pairs(actual, expected, (), options)):
            compare()
    except _Failure as failure:
        error = failure.error(msg)
    if error is not None:
        raise error


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The older assert_close: dtypes and devices may differ."""
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(*(x if isinstance(x, Tensor) else _C.as_tensor(x) for x in (actual, expected)))
    a, b = (x if isinstance(x, Tensor) else _C.as_tensor(x) for x in (actual, expected))
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False, check_stride=False,
                 msg=msg or None)
