"""Formulas at run time: all of them, printed as C, compiled and compared with the built-in loops; printed as OpenCL C and CUDA C
and compiled where there is a compiler, run where there is a device."""
import functools
import itertools
import operator
import random
import shutil
import subprocess

import formula_kernels as fk
import pytest

import tede

FLOATS = "float32", "float64", "float16", "bfloat16"
INTEGERS = "uint8", "int8", "int16", "int32", "int64", "uint64"
OTHERS = "complex64", "complex128", "bool"
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 20.0, -700.0, 1e-30, 1e30, 3e38, -1e300, float("inf"), -float("inf"), float("nan")]
# What a number is where the operator doesn't take any.
NUMBERS = {"n": 2, "decimals": 1, "min": -0.5, "max": 0.75, "min_val": -1.5, "lambd": 0.25, "threshold": 0.5}
CLOSE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 4e-6, "float64": 1e-13, "complex64": 1e-5, "complex128": 1e-13}
# Sums that cancel, and roots and products of two roundings, where a loop for whole runs may round another way.
LEAST = {"float16": 1e-5, "bfloat16": 1e-5, "float32": 1e-5, "float64": 1e-14, "complex64": 2e-6, "complex128": 1e-14}

OPERATORS = fk.operators()
EVERY = [(op, choice) for op in OPERATORS for choice in fk.choices(op.name)]


def gradients(op):
    """(which, operand, formula), each formula once."""
    seen = set()
    for operand, which in itertools.product(op.arguments, (fk.gradient, fk.tangent)):
        formula = which(op.name, operand)
        if formula and formula.pointer not in seen:
            seen.add(formula.pointer)
            yield which.__name__, operand, formula


def all_kernels():
    kernels = {}
    for op, choice in EVERY:
        formula = fk.value(op.name, choice)
        for dtype in FLOATS + INTEGERS + OTHERS:
            if formula.accepts(dtype):
                kernels[op.name, choice, dtype] = fk.of_formula(fk.c_name(f"value_{op.name}_{choice}_{dtype}"), formula, dtype)
    for op in OPERATORS:
        for which, operand, formula in gradients(op):
            for dtype in ("float32", "float64"):
                kernels[op.name, which, operand, dtype] = fk.of_formula(fk.c_name(f"{which}_{op.name}_{operand}_{dtype}"), formula, dtype)
    return kernels


KERNELS = all_kernels()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return fk.compiled(list(KERNELS.values()), tmp_path_factory.mktemp("formulas"))


def numbers_of(dtype, count):
    """Special values in all pairs, then random ones."""
    chance = random.Random(count)
    special = SPECIAL if dtype in FLOATS + OTHERS else [0, 1, 2, 3, -1, 7, 100, -128]
    first = [a for a, _ in itertools.product(special, special)]
    second = [b for _, b in itertools.product(special, special)]
    third = [special[(i * 7 + 3) % len(special)] for i in range(len(first))]
    columns = [first, second, third][:count]
    for column in columns:
        if dtype in FLOATS:
            column += [chance.gauss(0, 3) for _ in range(200)] + [10 ** chance.uniform(-6, 4) * chance.choice((-1, 1)) for _ in range(100)]
        elif dtype in INTEGERS:
            bits = 8 * getattr(tede, dtype).itemsize
            low, high = (0, 2 ** min(bits, 63) - 1) if dtype.startswith("u") else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
            column += [chance.randint(low, high) for _ in range(200)] + [chance.randint(0, 9) for _ in range(100)] + [low, high]
            column[:] = [min(max(x, low), high) for x in column]
        elif dtype == "bool":
            column[:] = [bool(chance.getrandbits(1)) for _ in range(200)]
        else:
            other = column[::-1]
            column[:] = [complex(x, y) for x, y in zip(column, other)] + [complex(chance.gauss(0, 3), chance.gauss(0, 3)) for _ in range(200)]
    return [tede.tensor(column, dtype=getattr(tede, dtype)) for column in columns]


def tensors_for(formula, dtype, finite=False):
    values = dict(zip(formula.operands, numbers_of(dtype, len(formula.operands))))
    if finite:
        values = {name: tede.where(x.abs() < 1e15, x, 1) for name, x in values.items()}
    return {name: x.real > 0 if name in formula.masks and x.is_complex() else x > 0 if name in formula.masks else x for name, x in values.items()}


def numbers_for(op, dtype):
    """What stands for arguments that are no tensors."""
    def number(name, kind):
        if kind == "bool" or dtype == "bool":
            return True
        x = NUMBERS.get(name, 2 if kind == "int" else 1.25)
        return abs(int(x)) if dtype in INTEGERS else x
    return {name: number(name, kind) for name, kind in op.arguments.items() if kind not in ("Tensor", "str")}


def assert_same(got, wanted, dtype, what):
    assert got.dtype == wanted.dtype, what
    if dtype in INTEGERS + ("bool",) or got.dtype == tede.bool:
        assert got.tolist() == wanted.tolist(), what
        return
    if got.is_complex():
        assert_same(tede.view_as_real(got).flatten(), tede.view_as_real(wanted).flatten(), dtype, what)
        return
    got, wanted = got.double(), wanted.double()
    same = (got == wanted) | (got.isnan() & wanted.isnan()) | ((got - wanted).abs() <= CLOSE[dtype] * wanted.abs() + LEAST[dtype])
    assert same.all(), f"{what}: {[(i, a, b) for i, (a, b, s) in enumerate(zip(got.tolist(), wanted.tolist(), same.tolist())) if not s][:5]}"


def show(x):
    return x.name if isinstance(x, fk.Operator) else x if isinstance(x, str) else None


@pytest.mark.parametrize("op, choice", EVERY, ids=show)
def test_a_printed_formula_gives_what_the_loop_gives(library, op, choice):
    formula = fk.value(op.name, choice)
    for dtype in (d for d in FLOATS + INTEGERS + OTHERS if formula.accepts(d)):
        # A product of complex numbers in a longer formula is fused in some loops (gcc forms fmaddsub in spite of -ffp-contract=off),
        # which shows where infinities meet.
        finite = dtype.startswith("complex") and formula.text(fk.COMPLEX).count("*") > 1
        inputs, numbers = tensors_for(formula, dtype, finite), numbers_for(op, dtype)
        try:
            wanted = op(inputs | numbers, choice)
        except RuntimeError as error:
            assert "ZeroDivisionError" in str(error)
            inputs["other"] = tede.where(inputs["other"] == 0, tede.ones_like(inputs["other"]), inputs["other"])
            wanted = op(inputs | numbers, choice)
        got, = fk.run(library, KERNELS[op.name, choice, dtype], list(inputs.values()), [numbers[p] for p in formula.parameters])
        assert_same(got, wanted, dtype, f"{op.name} {choice} {dtype}")


WITH_GRADIENTS = [op for op in OPERATORS if any(gradients(op))]


@pytest.mark.parametrize("op", WITH_GRADIENTS, ids=show)
def test_a_printed_gradient_gives_what_the_backward_pass_gives(library, op):
    for (which, operand, formula), dtype in itertools.product(gradients(op), ("float32", "float64")):
        value = fk.value(op.name)
        inputs, numbers = tensors_for(value, dtype), numbers_for(op, dtype)
        x, others = inputs.pop(operand), inputs
        flow = tede.randn(x.shape, dtype=x.dtype, generator=tede.Generator().manual_seed(1))

        def function(x):
            return op(others | numbers | {operand: x}, None)
        if which == "gradient":
            x.requires_grad_()
            wanted, = tede.autograd.grad(function(x), x, flow)
            x = x.detach()
        else:
            _, wanted = tede.func.jvp(function, (x,), (flow,))
        known = others | {operand: x, "grad": flow, "result": function(x)}
        kernel = KERNELS[op.name, which, operand, dtype]
        got, = fk.run(library, kernel, [known[o] for o in formula.operands], [numbers[p] for p in formula.parameters], size=x.numel())
        assert_same(got, wanted, dtype, f"{which} of {op.name} for {operand}, {dtype}: {formula.text()}")


# ---- what a formula is

def test_a_formula_reads_as_in_its_entry():
    assert fk.value("silu").text() == "self / (1 + exp(-self))"
    assert fk.value("add.Tensor").text() == "self + alpha * other"
    assert fk.value("clamp_between").text() == "minimum(maximum(self, min), max)"
    assert fk.value("trunc_divide").text() == "trunc(self / other)"
    assert fk.value("trunc_divide").text(fk.INT) == "trunc_div(self, other)"
    assert fk.value("isposinf").text() == "self == INF" and fk.value("isposinf").text(fk.BOOL) == "self != self"
    assert fk.value("logical_xor").text().count("truth") == 2
    assert fk.gradient("sigmoid", "self").text() == "grad * conj((1 - result) * result)"


def test_brackets_stand_where_the_signs_alone_would_say_something_else():
    assert fk.gradient("div.Tensor", "other").text() == "-grad * conj(self / (other * other))"
    assert fk.gradient("pow.Tensor_Tensor", "self").text() == "grad * conj(where(exponent == 0, 0, exponent * pow(self, exponent - 1)))"


def test_choices_have_a_formula_each():
    assert fk.choices("gelu") == ["none", "tanh"] and fk.choices("exp") == [None]
    assert "erf" in fk.value("gelu", "none").text() and "tanh" in fk.value("gelu", "tanh").text()
    assert fk.value("gelu", "none").pointer == fk.value("gelu").pointer and fk.value("gelu", "other") is None


def test_what_is_not_pointwise_has_no_formula():
    assert fk.value("sum.dim_IntList") is None and fk.value("matmul") is None
    assert fk.gradient("exp", "self") and fk.gradient("gelu", "self") is None       # it calls gelu_backward, which has one of its own
    assert fk.gradient("exp", "other") is None


def test_variants_share_the_formula():
    assert fk.value("exp_").pointer == fk.value("exp.out").pointer == fk.value("exp").pointer


def test_equal_formulas_of_an_operator_are_one():
    assert fk.tangent("cos", "self").pointer == fk.gradient("cos", "self").pointer


# ---- several joined

def joined():
    """(a + 2 b), its exponential, and whether a is smaller: the sum in float16 is what the exponential reads."""
    add, exp, lt = fk.value("add.Tensor"), fk.value("exp"), fk.value("lt.Tensor")
    return fk.Kernel("joined", ["float32", "float16"], [(add, "float16", [0, 1]), (exp, "float32", [-1]), (lt, "float32", [0, -2])],
                     [(1, "float32"), (0, "float16"), (2, "bool"), (1, "int8")])


def joined_inputs():
    return tede.linspace(-3, 3, 1000), tede.linspace(1, -2, 1000).half()


def joined_results(a, b):
    total = tede.add(a.half(), b, alpha=2)
    return [total.float().exp(), total, a < total.float().exp(), total.float().exp().to(tede.int8)]


def test_a_producer_feeds_a_consumer_and_both_are_stored(tmp_path):
    kernel, inputs = joined(), joined_inputs()
    library = fk.compiled([kernel], tmp_path, "-O2")
    # The operand is promoted as it is loaded, so it isn't rounded to float16 first.
    inputs = inputs[0].half().float(), inputs[1]
    for got, wanted in zip(fk.run(library, kernel, inputs, [2]), joined_results(*inputs)):
        assert_same(got, wanted, str(got.dtype).removeprefix("tede."), "joined")


def strided():
    mul, tanh = fk.value("mul.Tensor"), fk.value("tanh")
    return fk.Kernel("strided", ["float32", "int64"], [(mul, "float32", [0, 1]), (tanh, "float32", [-1])], [(1, "float32"), (0, "float64")], ndim=3)


def strided_case():
    a, b = tede.randn(5, 7, 4).permute(2, 0, 1), tede.arange(-3, 4).expand(4, 5, 7)
    strides = [(35, 7, 1), (35, 7, 1), a.stride(), b.stride()]
    return a, b, [4, 5, 7, *itertools.chain(*strides)], [(a * b).tanh().flatten(), (a * b).double().flatten()]


def test_a_kernel_with_strides_broadcasts(tmp_path):
    kernel, (a, b, geometry, wanted) = strided(), strided_case()
    got = fk.run(fk.compiled([kernel], tmp_path, "-O2"), kernel, [a, b], geometry=geometry, size=a.numel())
    for x, y in zip(got, wanted):
        assert_same(x, y, str(x.dtype).removeprefix("tede."), "strided")


def test_kernels_that_cannot_be_are_refused():
    exp = fk.value("exp")
    for wrong in ([(exp, "float32", [1])], [(exp, "float32", [-1])], [(exp, "int64", [0])]):
        with pytest.raises(NotImplementedError, match="kernel wrong: "):
            fk.source(fk.C, [fk.Kernel("wrong", ["float32"], wrong, [(0, "float32")])])
    with pytest.raises(NotImplementedError, match="a formula needs long double, which CUDA C hasn't"):
        fk.source(fk.CUDA, [fk.of_formula("wrong", fk.value("special_airy_ai"), "float64")])


def test_a_kernel_brings_along_what_it_calls_and_nothing_else():
    text = fk.source(fk.OPENCL, [fk.of_formula("f", fk.value("exp"), "float32")])
    assert "td_exp_f32(float x)" in text and "tanh" not in text and "double x" not in text and "cl_khr_fp64" not in text
    assert "cl_khr_fp64" in fk.source(fk.OPENCL, [fk.of_formula("f", fk.value("exp"), "float64")])


def test_an_operator_shows_its_formulas():
    assert tede.ops.aten.silu.default.formulas == {
        "value": "self / (1 + exp(-self))", "grad self": "grad * conj(sigmoid(self) * (1 + self * (1 - sigmoid(self))))",
        "jvp self": "grad * conj(sigmoid(self) * (1 + self * (1 - sigmoid(self))))"}
    assert set(tede.ops.aten.gelu.default.formulas) == {"value none", "value tanh"}
    assert tede.ops.aten.floor.default.formulas["value_int"] == "self"
    assert tede.ops.aten.mm.default.formulas == {}


def test_explain_shows_the_formula_of_what_it_saw():
    with tede.explain(show=False) as explanation:
        tede.nn.functional.silu(tede.randn(3))
        tede.nn.functional.gelu(tede.randn(3), approximate="tanh")
        tede.floor(tede.randn(3))
    lines = [line.split(maxsplit=1)[1] for line in explanation.text().split("\n") if line.split()[0] == "formula"]
    assert lines == ["self / (1 + exp(-self))", fk.value("gelu", "tanh").text()]


# ---- devices

REFUSED = {fk.OPENCL: {"special_airy_ai", "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1",
                       "special_laguerre_polynomial_l", "special_legendre_polynomial_p"},
           fk.CUDA: {"special_airy_ai"}}
COMPILERS = {fk.OPENCL: ("kernels.cl", ["clang", "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19"],
                         ["-x", "cl", "-cl-std=CL1.2", "-fsyntax-only", "-Xclang", "-finclude-default-header", "-Wno-tautological-compare"]),
             fk.CUDA: ("kernels.cu", ["nvcc"], ["-ptx", "-arch=sm_90", "--fmad=false", "-diag-suppress", "177", "-Xcicc", "-O0", "-o", "kernels.ptx"])}


@pytest.mark.parametrize("dialect", COMPILERS, ids=["OpenCL C", "CUDA C"])
def test_a_device_has_all_but_a_few_special_functions(dialect):
    said = {id(kernel) for kernel in fk.device_source(dialect, list(KERNELS.values()))[1]}
    refused = {key[0] for key, kernel in KERNELS.items() if id(kernel) not in said}
    assert refused == REFUSED[dialect]


@pytest.mark.parametrize("dialect", COMPILERS, ids=["OpenCL C", "CUDA C"])
def test_printed_formulas_compile_for_a_device(dialect, tmp_path):
    name, compilers, options = COMPILERS[dialect]
    compiler = next(filter(None, map(shutil.which, compilers)), None)
    if not compiler:
        pytest.skip(f"there is no {compilers[0]}")
    (tmp_path / name).write_text(fk.device_source(dialect, [*KERNELS.values(), joined(), strided()])[0])
    done = subprocess.run([compiler, *options, name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "error" not in done.stderr, done.stderr[:3000]


def usual_parts(x):
    """Where both parts are numbers within a range that the C library's functions, and ours of a struct, don't leave in between."""
    parts = tede.view_as_real(x).abs()
    return ((parts < 1e4) & ((parts == 0) | (parts > 1e-6))).all(-1)


@pytest.fixture(scope="module")
def device():
    import opencl_kernels
    try:
        return opencl_kernels.Device()
    except LookupError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("n_operands, dtype", [(1, "float32"), (1, "float64"), (2, "float32"), (2, "int32"), (3, "float32"), (1, "complex64"),
                                                (1, "complex128"), (2, "complex64"), (2, "complex128"), (3, "complex64")])
def test_a_device_gives_what_the_loops_give(device, n_operands, dtype):
    """All formulas of so many operands in one kernel, which compiles in a fraction of the time."""
    chosen = [(op, choice, fk.value(op.name, choice)) for op, choice in EVERY]
    chosen = [(op, choice, f) for op, choice, f in chosen if len(f.operands) == n_operands and f.accepts(dtype) and not f.masks
              and op.name not in REFUSED[fk.OPENCL]]
    calls = [(f, dtype, list(range(n_operands))) for *_, f in chosen]
    kernel = fk.Kernel("many", [dtype] * n_operands, calls, [(i, f.result(dtype)) for i, (*_, f) in enumerate(chosen)])
    inputs = numbers_of(dtype, n_operands)
    if dtype in INTEGERS:
        inputs[1] = tede.where(inputs[1] == 0, 1, inputs[1])
    numbers = [(numbers_for(op, dtype)[p], dtype) for op, _, f in chosen for p in f.parameters]
    results = device.run(device.build(fk.source(fk.OPENCL, [kernel])), kernel, inputs, numbers)
    for (op, choice, formula), got in zip(chosen, results):
        wanted = op(dict(zip(formula.operands, inputs)) | numbers_for(op, dtype), choice)
        if "polynomial" in op.name:     # cosines of as many times an angle, of which the last bit counts
            low = inputs[1].abs() < 1e4
            got, wanted = got[low], wanted[low]
        if dtype.startswith("complex"):
            usual = functools.reduce(operator.and_, (usual_parts(x) for x in inputs))
            got, wanted = got[usual], wanted[usual]
        if got.is_complex():                # of which one part may be what is left of the other's rounding
            good = (got - wanted).abs() <= CLOSE[dtype] * wanted.abs() + LEAST[dtype]
            good |= (got == wanted) | (tede.view_as_real(wanted).isfinite().all(-1).logical_not() & tede.view_as_real(got).isfinite().all(-1).logical_not())
            assert good.all(), (op.name, [(x[~good][:3], got[~good][:3], wanted[~good][:3]) for x in (z[usual] for z in inputs)])
            continue
        assert_same(got, wanted, dtype, f"{op.name} {choice} {dtype}")


def test_a_device_runs_joined_kernels_and_strides(device):
    kernels = joined(), strided()
    program = device.build(fk.source(fk.OPENCL, kernels))
    a, b = joined_inputs()
    a = a.half().float()
    for got, wanted in zip(device.run(program, kernels[0], [a, b], [(2, "float16")]), joined_results(a, b)):
        assert_same(got, wanted, str(got.dtype).removeprefix("tede."), "joined")
    a, b, geometry, wanted = strided_case()
    # Memory as it lies: what is permuted is contiguous before, what is expanded has the elements of one row.
    for x, y in zip(device.run(program, kernels[1], [a.permute(1, 2, 0), b[0, 0]], geometry=geometry, size=a.numel()), wanted):
        assert_same(x, y, str(x.dtype).removeprefix("tede."), "strided")
