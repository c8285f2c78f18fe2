"""What tensors look like in print, the same in both libraries to the last blank."""
import math

import pytest

INF, NAN = math.inf, math.nan
NUMBERS = [[1, 2, 3], [1.5, 2, 3], [1e-5, 1, 2], [1e5, 1, .5], [1e8, 1, 0], [1e9, 2e9], [INF, 1, 2], [NAN, 1.5],
           [-INF, NAN, 1e-7], [0, 0, 0], [-0.0, 1], [1e-10, 1e10], [100000, 1], [123456.5, 1], [0.1, 0.22, 0.333],
           [1000.5, .001], [-1, -2.5], [999, 1e6]]
SHAPES = [(), (0,), (0, 3), (3, 0), (1,), (2, 3), (2, 2, 2), (1000,), (1001,), (40, 40), (4, 300),
          (2, 20, 30), (1, 1, 1), (2, 0, 2)]
FLOATS, INTEGERS = ["float32", "float64", "float16", "bfloat16"], ["int8", "int16", "int32", "int64", "uint8", "bool"]
COMPLEX = ["complex64", "complex128"]


def same(both, make):
    tede, torch = (repr(make(lib)).replace("tede.", "torch.") for lib in both)
    assert tede == torch


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_numbers(both, dtype):
    for numbers in NUMBERS:
        same(both, lambda lib: lib.tensor(numbers, dtype=lib.float64).to(getattr(lib, dtype)))
        if dtype in COMPLEX:
            same(both, lambda lib: lib.complex(*[lib.tensor(part, dtype=lib.float32) for part in (numbers, numbers[::-1])]))
        for number in numbers:
            same(both, lambda lib: lib.tensor(number, dtype=lib.float64).to(getattr(lib, dtype)))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX)
def test_shapes(both, dtype):
    for shape in SHAPES:
        same(both, lambda lib: (lib.arange(math.prod(shape)).reshape(shape) % 17).to(getattr(lib, dtype)))


@pytest.mark.parametrize("options", [
    {"precision": 2}, {"threshold": 5}, {"edgeitems": 1, "threshold": 3}, {"linewidth": 30}, {"profile": "short"},
    {"profile": "full"}, {"sci_mode": True}, {"sci_mode": False}], ids=str)
def test_print_options(both, options):
    def shown(lib):
        lib.manual_seed(0)
        lib.set_printoptions(**options)
        try:
            return [repr(x) for x in (lib.randn(7), lib.randn(7, 7) * 1e5, lib.arange(20), lib.randn(2, 9, 9),
                                      lib.tensor([1e-9, 1]), lib.randn(6, dtype=lib.complex64), lib.tensor(1.2345678))]
        finally:
            lib.set_printoptions(profile="default", sci_mode=None)
    assert shown(both[0]) == shown(both[1])


def test_what_a_tensor_belongs_to(both):
    for make in (lambda lib: lib.ones(3, requires_grad=True), lambda lib: lib.ones(3, requires_grad=True) * 2,
                 lambda lib: lib.nn.Parameter(lib.ones(2).half()), lambda lib: lib.tensor(3.5, requires_grad=True),
                 lambda lib: lib.ones(2, 3, requires_grad=True).sum(), lambda lib: lib.ones(3, requires_grad=True).view(3, 1),
                 lambda lib: lib.empty(3, device="meta"), lambda lib: lib.ones(2, device="meta", dtype=lib.int8),
                 lambda lib: lib.tensor([1 + 2j]).conj(), lambda lib: lib.arange(6.0).view(2, 3).expand(2, 2, 3),
                 lambda lib: lib.arange(10000.0).view(100, 100).t(), lambda lib: lib.tensor([2**63 - 1, -2**63])):
        same(both, make)
