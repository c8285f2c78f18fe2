"""For tests of formulas: the C API of <tede/formula.h> by ctypes, and kernels compiled from what it prints."""
import ctypes
import pathlib
import re
import shlex
import shutil
import subprocess

import tede

LIB = ctypes.CDLL(str(pathlib.Path(tede.__file__).parent / "lib/libtede.so.0"))
C, OPENCL, CUDA = range(3)
CODES = {name: i for i, name in enumerate(
    ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128"])}
DEFAULT, INT, COMPLEX, BOOL = range(4)


class OpInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "overload", "schema", "doc")] + [
        ("arguments", ctypes.c_void_p), ("results", ctypes.c_void_p), ("counts", ctypes.c_int16 * 2), ("flags", ctypes.c_uint32)]


class FormulaData(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("dtypes", ctypes.c_uint32), ("starts", ctypes.c_uint16 * 4), ("masks", ctypes.c_uint16),
                *((name, ctypes.c_uint8) for name in ("n_operands", "n_parameters", "n_numbers", "promotion", "result", "own_halves"))]


class Call(ctypes.Structure):
    _fields_ = [("formula", ctypes.c_void_p), ("dtype", ctypes.c_int), ("operands", ctypes.POINTER(ctypes.c_int))]


class Output(ctypes.Structure):
    _fields_ = [("call", ctypes.c_int), ("dtype", ctypes.c_int)]


class KernelData(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("n_inputs", ctypes.c_int), ("n_calls", ctypes.c_int), ("n_outputs", ctypes.c_int),
                ("inputs", ctypes.POINTER(ctypes.c_int)), ("calls", ctypes.POINTER(Call)), ("outputs", ctypes.POINTER(Output)),
                ("ndim", ctypes.c_int), ("numbers", ctypes.c_uint32), ("pack", ctypes.c_int), ("depth", ctypes.c_int), ("constants", ctypes.c_uint32),
                ("narrow", ctypes.c_bool)]


class Scalar(ctypes.Structure):
    class Number(ctypes.Union):
        _fields_ = [("i", ctypes.c_int64), ("d", ctypes.c_double)]
    _fields_ = [("kind", ctypes.c_int), ("number", Number), ("imag", ctypes.c_double)]

    @classmethod
    def of(cls, value):
        if isinstance(value, complex):
            return cls(3, cls.Number(d=value.real), value.imag)
        return cls(2, cls.Number(d=value), 0) if isinstance(value, float) else cls(int(not isinstance(value, bool)), cls.Number(i=value), 0)


def _declare(name, result, *arguments):
    function = getattr(LIB, name)
    function.restype, function.argtypes = result, arguments
    return function


_find = _declare("td_op_find", ctypes.c_void_p, ctypes.c_char_p)
_count = _declare("td_op_count", ctypes.c_int)
_at = _declare("td_op_at", ctypes.c_void_p, ctypes.c_int)
_describe = _declare("td_op_describe", ctypes.POINTER(OpInfo), ctypes.c_void_p)
_of = _declare("td_formula_of", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_choices = _declare("td_formula_choices", ctypes.c_char_p, ctypes.c_void_p)
_gradient = _declare("td_formula_gradient", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_tangent = _declare("td_formula_tangent", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_text = _declare("td_formula_text", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_print = _declare("td_formula_print", ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_name = _declare("td_formula_name", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_free = _declare("td_formula_text_free", None, ctypes.c_void_p)
_error = _declare("td_error_message", ctypes.c_char_p)
_options = _declare("td_dialect_options", ctypes.c_char_p, ctypes.c_int)


def _taken(text):
    if not text:
        raise NotImplementedError(_error().decode())
    try:
        return ctypes.string_at(text).decode()
    finally:
        _free(text)


class Formula:
    def __init__(self, pointer):
        self.pointer, self.data = pointer, FormulaData.from_address(pointer)
        count, n, length = self.data.n_operands + self.data.n_parameters, self.data.n_operands, ctypes.c_int()
        names = [_name(pointer, i, ctypes.byref(length))[:length.value].decode() for i in range(count)]
        self.operands, self.parameters = names[:n], names[n:]
        self.masks = [o for i, o in enumerate(self.operands) if self.data.masks >> i & 1]

    def accepts(self, dtype):
        return bool(self.data.dtypes >> CODES[dtype] & 1)

    def text(self, kind=DEFAULT):
        return _taken(_text(self.pointer, kind))

    def result(self, dtype):
        return ("bool" if self.data.result == 1 else {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
                if self.data.result == 2 else dtype)


def _formula(pointer):
    return Formula(pointer) if pointer else None


def value(op, choice=None):
    return _formula(_of(_find(f"aten::{op}".encode()), choice and choice.encode()))


def choices(op):
    words = _choices(_find(f"aten::{op}".encode()))
    return words.decode().split() if words else [None]


def gradient(op, operand):
    return _formula(_gradient(_find(f"aten::{op}".encode()), operand.encode()))


def tangent(op, operand):
    return _formula(_tangent(_find(f"aten::{op}".encode()), operand.encode()))


class Operator:
    """A functional operator with a formula: its full name without aten::, and the names of its arguments."""

    def __init__(self, info):
        self.name = info.name.decode() + ("." + info.overload.decode() if info.overload else "")
        self.schema = info.schema.decode()
        inside = self.schema[self.schema.index("(") + 1:self.schema.rindex(") ->")]
        parts = [part.partition("=")[0].split() for part in inside.split(", ") if part != "*"]
        self.arguments = {name: kind for kind, name in parts}
        self.keywords = {p.partition("=")[0].split()[1] for p in inside.partition("*, ")[2].split(", ") if p}

    def __call__(self, values, choice):
        function = getattr(getattr(tede.ops.aten, self.name.partition(".")[0]), self.name.partition(".")[2] or "default")
        values = {name: choice if kind == "str" else values[name] for name, kind in self.arguments.items()}
        return function(*(v for n, v in values.items() if n not in self.keywords), **{n: v for n, v in values.items() if n in self.keywords})


def operators():
    found = []
    for i in range(_count()):
        info = _describe(_at(i)).contents
        variant = info.name.endswith(b"_") or b"out" in info.overload.lower() or b"!)" in info.schema
        if not variant and _of(_at(i), None):
            found.append(Operator(info))
    return found


class Kernel:
    """`calls`: (formula, dtype, operands), where an operand i is an input and -1 - i an earlier call's result; `outputs`: (call, dtype)."""

    def __init__(self, name, inputs, calls, outputs, ndim=0, pack=0, depth=0, constants=0, narrow=False):
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self._kept = [(ctypes.c_int * max(1, len(operands)))(*operands) for *_, operands in calls]
        self._calls = (Call * len(calls))(*(Call(f.pointer, CODES[dtype], kept) for (f, dtype, _), kept in zip(calls, self._kept)))
        self.data = KernelData(name.encode(), len(inputs), len(calls), len(outputs), (ctypes.c_int * len(inputs))(*(CODES[d] for d in inputs)),
                               self._calls, (Output * len(outputs))(*(Output(c, CODES[d]) for c, d in outputs)), ndim, 0, pack, depth, constants, narrow)


def source(dialect, kernels, more=None):
    """The text of kernels, a list; NotImplementedError for what the dialect can't say."""
    return _taken(_print(dialect, len(kernels), (KernelData * len(kernels))(*(k.data for k in kernels)), more and more.encode()))


def of_formula(name, formula, dtype, **how):
    """The kernel that is one formula over operands of one dtype."""
    inputs = ["bool" if o in formula.masks else dtype for o in formula.operands]
    return Kernel(name, inputs, [(formula, dtype, list(range(len(inputs))))], [(0, formula.result(dtype))], **how)


def compiled(kernels, folder, *options):
    """A C library with the kernels."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    path = folder / "kernels.c"
    path.write_text(source(C, kernels))
    flags = shlex.split(_options(C).decode())
    subprocess.run([compiler, *flags, "-O0", "-march=native", "-shared", "-fPIC", *options, str(path), "-o", str(folder / "kernels.so"),
                    "-lm"], check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def run(library, kernel, inputs, parameters=(), geometry=None, size=None):
    """What a compiled kernel makes of tensors."""
    n = inputs[0].numel() if size is None else size
    outputs = [tede.empty(n, dtype=getattr(tede, dtype)) for _, dtype in kernel.outputs]
    runs = (ctypes.c_void_p * (len(outputs) + len(inputs)))(*(t.data_ptr() for t in [*outputs, *inputs]))
    numbers = (Scalar * max(1, len(parameters)))(*map(Scalar.of, parameters))
    places = (ctypes.c_int64 * len(geometry))(*geometry) if geometry else None
    getattr(library, kernel.name)(ctypes.c_int64(n), runs, numbers, places)
    return outputs


def device_source(dialect, kernels):
    """The text of those kernels that the dialect can say, and the names of the others."""
    said, refused = [], []
    for kernel in kernels:
        try:
            source(dialect, [kernel])
            said.append(kernel)
        except NotImplementedError:
            refused.append(kernel.name)
    return source(dialect, said), said, refused


def c_name(text):
    return re.sub(r"\W", "_", text)
