"""assert_close, and the pairs that it is made of.

Pairs are originated from both values, containers entered, before anything is compared. So what can't be compared at all (TypeError) is
found first, and a failure names the item. A test suite adds its own kinds of pairs: a class of Pair whose constructor raises
UnsupportedInputs (by _inputs_not_supported) unless the values are of its kind, and whose compare() calls _fail().
"""
import cmath
import collections.abc
import sys

from tede import _C
from tede._C import Tensor

_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7),
               _C.complex64: (1.3e-6, 1e-5), _C.complex128: (1e-7, 1e-7)}


class ErrorMeta(Exception):
    """An error to be raised later: its type, its text, and the item of the containers."""

    def __init__(self, type, msg, *, id=()):
        super().__init__("If you are a user and see this message during normal operation please file an issue. If you are a developer "
                         "and working on the comparison functions, please `raise ErrorMeta.to_error()` for user facing errors.")
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg=None):
        """The error; `msg` replaces its text, or makes another one of it."""
        text = self.msg
        if self.id:
            text += "\n\nThe failure occurred for item " + "".join(str([item]) for item in self.id)
        return self.type(msg if isinstance(msg, str) else msg(text) if callable(msg) else text)


class UnsupportedInputs(Exception):
    """Raised by the constructor of a Pair whose kind the values aren't of."""


def default_tolerances(*inputs, dtype_precisions=None):
    """The loosest (rtol, atol) of tensors' dtypes."""
    for x in inputs:
        if not isinstance(x, (Tensor, _C.dtype)):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(x)} instead.")
    table = dtype_precisions or _TOLERANCES
    pairs = [table.get(x.dtype if isinstance(x, Tensor) else x, (0.0, 0.0)) for x in inputs]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def get_tolerances(*inputs, rtol, atol, id=()):
    """(rtol, atol): both as given, or both the defaults of the inputs' dtypes."""
    if (rtol is None) != (atol is None):
        raise ErrorMeta(ValueError, "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                                    f"{'rtol' if rtol is None else 'atol'}.", id=id)
    return (rtol, atol) if rtol is not None else default_tolerances(*inputs)


def _mismatch(what, extra, absolute, relative, at, rtol, atol):
    lines = [f"{what} are not {'equal' if rtol == atol == 0 else 'close'}!", "", extra]
    for kind, gap, place, tolerance in (("absolute", absolute, at[0], atol), ("relative", relative, at[1], rtol)):
        line = f"{kind.title()} difference: {gap}" if place is None else f"Greatest {kind} difference: {gap} at index {place}"
        lines.append(line + ("" if rtol == atol == 0 else f" (up to {tolerance} allowed)"))
    return "\n".join(lines)


def make_scalar_mismatch_msg(actual, expected, *, rtol, atol, identifier=None):
    """What is said of two numbers that aren't close."""
    gap = abs(actual - expected)
    relative = float("inf") if expected == 0 else gap / abs(expected)
    return _mismatch(_named(identifier, "Scalars"), f"Expected {expected} but got {actual}.", gap, relative, (None, None), rtol, atol)


def make_tensor_mismatch_msg(actual, expected, matches, *, rtol, atol, identifier=None):
    """What is said of two tensors of one shape of which not all elements match: how many, and where they differ most."""
    def place_of(k):
        index = []
        for n in reversed(shape):
            k, rest = divmod(k, n)
            index.insert(0, rest)
        return tuple(index)
    total, shape = matches.numel(), matches.shape
    wrong = total - int(matches.sum())
    x, y, flat = actual.reshape(-1), expected.reshape(-1), matches.reshape(-1)
    if not (x.is_floating_point() or x.is_complex()):
        x, y = x.to(_C.int64), y.to(_C.int64)
    gap = (x - y).abs()
    gap[flat] = 0
    relative = gap / y.abs()
    relative[flat] = 0
    greatest, k = gap.max(0)
    greatest_relative, m = relative.max(0)
    return _mismatch(_named(identifier, "Tensor-likes"), f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
                     greatest.item(), greatest_relative.item(), (place_of(int(k)), place_of(int(m))), rtol, atol)


def _named(identifier, default):
    return default if identifier is None else identifier(default) if callable(identifier) else identifier


# ---- kinds of pairs --------------------------------------------------------------------------------------------------

class Pair:
    """Two values that compare() compares. `id` are the indices and keys that lead to them; other options are taken by the
    kinds that know them."""

    def __init__(self, actual, expected, *, id=(), **unknown_parameters):
        self.actual, self.expected, self.id, self._unknown_parameters = actual, expected, id, unknown_parameters

    @staticmethod
    def _inputs_not_supported():
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs, cls):
        if not all(isinstance(value, cls) for value in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type, msg, *, id=()):
        """Report an error; `id` is given while the constructor hasn't kept it yet."""
        raise ErrorMeta(type, msg, id=id or getattr(self, "id", ()))

    def compare(self):
        """Return if both are close, else _fail()."""
        raise NotImplementedError

    def extra_repr(self):
        """Names of attributes, or (name, value), for repr()."""
        return ()

    def __repr__(self):
        rows = [(name, getattr(self, name)) if isinstance(name, str) else name
                for name in ("id", "actual", "expected", *self.extra_repr())]
        return f"{type(self).__name__}(\n" + "".join(f"    {name}={value!r},\n" for name, value in rows) + ")"


class ObjectPair(Pair):
    """Anything, by ``==``."""

    def compare(self):
        try:
            equal = self.actual == self.expected
        except Exception as error:
            raise ErrorMeta(ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.", id=self.id) from error
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Of which at least one is None."""

    def __init__(self, actual, expected, **other_parameters):
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self):
        if not (self.actual is None and self.expected is None):
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


def _with_numpys(types, name):
    numpy = sys.modules.get("numpy")
    return types + ((getattr(numpy, name),) if numpy else ())


class BooleanPair(Pair):
    """Two bools, NumPy's among them."""

    def __init__(self, actual, expected, *, id=(), **other_parameters):
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)

    @property
    def _supported_types(self):
        return _with_numpys((bool,), "bool_")

    def _process_inputs(self, actual, expected, *, id):
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return tuple(self._to_bool(value, id=id) for value in (actual, expected))

    def _to_bool(self, bool_like, *, id):
        if not isinstance(bool_like, self._supported_types):
            raise ErrorMeta(TypeError, f"Unknown boolean type {type(bool_like)}.", id=id)
        return bool(bool_like)

    def compare(self):
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Two numbers, NumPy's among them; tolerances are those of the dtype that a tensor of such a number has."""

    _TYPE_TO_DTYPE = {int: _C.int64, float: _C.float64, complex: _C.complex128}
    _NUMBER_TYPES = tuple(_TYPE_TO_DTYPE)

    def __init__(self, actual, expected, *, id=(), rtol=None, atol=None, equal_nan=False, check_dtype=False, **other_parameters):
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(*(self._dtype_of(value) for value in (actual, expected)), rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    def _dtype_of(self, number):
        return next(dtype for kind, dtype in self._TYPE_TO_DTYPE.items() if isinstance(number, kind))

    @property
    def _supported_types(self):
        return _with_numpys(self._NUMBER_TYPES, "number")

    def _process_inputs(self, actual, expected, *, id):
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return tuple(self._to_number(value, id=id) for value in (actual, expected))

    def _to_number(self, number_like, *, id):
        numpy = sys.modules.get("numpy")
        if numpy and isinstance(number_like, numpy.number):
            return number_like.item()
        if not isinstance(number_like, self._NUMBER_TYPES):
            raise ErrorMeta(TypeError, f"Unknown number type {type(number_like)}.", id=id)
        return number_like

    def compare(self):
        a, b = self.actual, self.expected
        if self.check_dtype and type(a) is not type(b):
            self._fail(AssertionError, f"The (d)types do not match: {type(a)} != {type(b)}.")
        if a == b or (self.equal_nan and cmath.isnan(a) and cmath.isnan(b)):
            return
        gap = abs(a - b)
        if not (cmath.isfinite(gap) and gap <= self.atol + self.rtol * abs(b)):
            self._fail(AssertionError, make_scalar_mismatch_msg(a, b, rtol=self.rtol, atol=self.atol))

    def extra_repr(self):
        return "rtol", "atol", "equal_nan", "check_dtype"


class TensorLikePair(Pair):
    """Two tensors, or what tensors can be made of, one's class a subclass of the other's."""

    def __init__(self, actual, expected, *, id=(), allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, **other_parameters):
        actual, expected = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(actual, expected, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_device, self.check_dtype = equal_nan, check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def _process_inputs(self, actual, expected, *, id, allow_subclasses):
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not allow_subclasses and type(actual) is not type(expected)):
            self._inputs_not_supported()
        return tuple(self._to_tensor(value) for value in (actual, expected))

    def _to_tensor(self, tensor_like):
        if isinstance(tensor_like, Tensor):
            return tensor_like
        try:
            return _C.as_tensor(tensor_like)
        except Exception:               # whatever a foreign object does when its elements are read
            self._inputs_not_supported()

    def compare(self):
        self._compare_attributes(self.actual, self.expected)
        if self.actual.is_meta or self.expected.is_meta:
            return
        with _C.DisableTorchFunctionSubclass():
            actual, expected = self._equalize_attributes(self.actual.detach(), self.expected.detach())
            self._compare_values(actual, expected)

    def _compare_attributes(self, actual, expected):
        def check(name, x, y):
            if x != y:
                self._fail(AssertionError, f"The values for attribute '{name}' do not match: {x} != {y}.")
        check("shape", actual.shape, expected.shape)
        check("is_quantized", actual.is_quantized, expected.is_quantized)
        if actual.is_quantized:
            check("qscheme()", actual.qscheme(), expected.qscheme())
        if actual.layout != expected.layout:
            if self.check_layout:
                check("layout", actual.layout, expected.layout)
        elif actual.layout is _C.strided and self.check_stride:
            check("stride()", actual.stride(), expected.stride())
        if self.check_device:
            check("device", actual.device, expected.device)
        if self.check_dtype:
            check("dtype", actual.dtype, expected.dtype)

    def _equalize_attributes(self, actual, expected):
        """Both on one device, of one dtype and layout."""
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.layout != expected.layout:
            actual, expected = (x if x.layout is _C.strided else x.to_dense() for x in (actual, expected))
        actual, expected = (x.dequantize() if x.is_quantized else x for x in (actual, expected))
        if actual.dtype != expected.dtype:
            dtype = _C.promote_types(*(_C.int64 if x.dtype in (_C.uint16, _C.uint32, _C.uint64) else x.dtype for x in (actual, expected)))
            actual, expected = actual.to(dtype), expected.to(dtype)
        return actual, expected

    def _compare_values(self, actual, expected):
        """Tensors without strides are compared by their parts: elements that are stored differ from zeros that aren't."""
        if actual.layout is _C.strided:
            self._compare_elements(actual, expected, self.rtol, self.atol)
        elif actual.layout is _C.jagged:
            self._compare_elements(actual.values(), expected.values(), self.rtol, self.atol)
        elif actual.layout is _C.sparse_coo:
            self._compare_counts("sparse dimensions", "COO", actual.sparse_dim(), expected.sparse_dim())
            self._compare_counts("specified values", "COO", actual._nnz(), expected._nnz())
            self._compare_elements(actual._indices(), expected._indices(), 0, 0, "Sparse COO indices")
            self._compare_elements(actual._values(), expected._values(), self.rtol, self.atol, "Sparse COO values")
        else:
            kind = str(actual.layout).rpartition("_")[2].upper()
            self._compare_counts("specified values", kind, actual._nnz(), expected._nnz())
            for part in ("crow_indices", "col_indices") if kind in ("CSR", "BSR") else ("ccol_indices", "row_indices"):
                a, b = (getattr(x, part)().to(_C.int64) for x in (actual, expected))
                self._compare_elements(a, b, 0, 0, f"Sparse {kind} {part}")
            self._compare_elements(actual.values(), expected.values(), self.rtol, self.atol, f"Sparse {kind} values")

    def _compare_counts(self, what, kind, actual, expected):
        if actual != expected:
            self._fail(AssertionError, f"The number of {what} in sparse {kind} tensors does not match: {actual} != {expected}")

    def _compare_elements(self, actual, expected, rtol, atol, identifier=None):
        matches = actual.isclose(expected, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if matches.all():
            return
        if not actual.dim():
            self._fail(AssertionError, make_scalar_mismatch_msg(actual.item(), expected.item(), rtol=rtol, atol=atol, identifier=identifier))
        self._fail(AssertionError, make_tensor_mismatch_msg(actual, expected, matches, rtol=rtol, atol=atol, identifier=identifier))

    def extra_repr(self):
        return "rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout", "check_stride"


# ---- comparing -------------------------------------------------------------------------------------------------------

def originate_pairs(actual, expected, *, pair_types, sequence_types=(collections.abc.Sequence,),
                    mapping_types=(collections.abc.Mapping,), id=(), **options):
    """The pairs of everything in both values: each of the first of `pair_types` that takes the two. An ErrorMeta where lengths or keys
    differ, or none takes them."""
    options.update(pair_types=pair_types, sequence_types=sequence_types, mapping_types=mapping_types)

    def all_are(types):
        return isinstance(actual, types) and isinstance(expected, types)
    if all_are(sequence_types) and not isinstance(actual, str) and not isinstance(expected, str):
        if len(actual) != len(expected):
            raise ErrorMeta(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", id=id)
        return [pair for i in range(len(actual)) for pair in originate_pairs(actual[i], expected[i], id=(*id, i), **options)]
    if all_are(mapping_types):
        missing, extra = set(expected.keys()) - set(actual.keys()), set(actual.keys()) - set(expected.keys())
        if missing or extra:
            raise ErrorMeta(AssertionError, "The keys of the mappings do not match:\nMissing keys in the actual mapping: "
                            f"{sorted(missing)}\nAdditional keys in the actual mapping: {sorted(extra)}", id=id)
        keys = list(actual.keys())
        try:
            keys.sort()
        except Exception:               # of keys that have no order
            pass
        return [pair for key in keys for pair in originate_pairs(actual[key], expected[key], id=(*id, key), **options)]
    values = {name: value for name, value in options.items() if name not in ("pair_types", "sequence_types", "mapping_types")}
    for kind in pair_types:
        try:
            return [kind(actual, expected, id=id, **values)]
        except UnsupportedInputs:
            continue
        except ErrorMeta:
            raise
        except Exception as error:
            raise RuntimeError(f"{kind.__name__} of the values at item {''.join(str([item]) for item in id) or '[]'} could not be made because of the "
                               f"unexpected exception above: {type(actual)} and {type(expected)}") from error
    raise ErrorMeta(TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", id=id)


def not_close_error_metas(actual, expected, *, pair_types=(ObjectPair,), sequence_types=(collections.abc.Sequence,),
                          mapping_types=(collections.abc.Mapping,), **options):
    """An ErrorMeta for each pair of both values that isn't close; an error at once if they can't be compared at all."""
    try:
        pairs = originate_pairs(actual, expected, pair_types=pair_types, sequence_types=sequence_types, mapping_types=mapping_types,
                                **options)
    except ErrorMeta as meta:
        raise meta.to_error() from None
    metas = []
    for pair in pairs:
        try:
            _compare(pair)
        except ErrorMeta as meta:
            metas.append(meta)
    return metas


def _compare(pair):
    """pair.compare(); what it raises but reports is an error of the pair itself, which the values' texts help to find."""
    try:
        pair.compare()
    except ErrorMeta:
        raise
    except Exception as error:
        raise RuntimeError(f"the unexpected exception above came from comparing\n\n{pair}") from error


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise an AssertionError unless both are close: tensors, numbers, and sequences and mappings of them."""
    error = None            # raised outside of the handler, without the ErrorMeta as its context
    try:
        for pair in originate_pairs(actual, expected, pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair),
                                    allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan,
                                    check_device=check_device, check_dtype=check_dtype, check_layout=check_layout,
                                    check_stride=check_stride):
            _compare(pair)
    except ErrorMeta as meta:
        error = meta.to_error(msg)
    if error is not None:
        raise error


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The older assert_close: dtypes and devices may differ."""
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(*(x if isinstance(x, Tensor) else _C.as_tensor(x) for x in (actual, expected)))
    a, b = (x if isinstance(x, Tensor) else _C.as_tensor(x) for x in (actual, expected))
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False, check_stride=False,
                 msg=msg or None)
