"""torch._tensor_str: the options of printing, and the elements by themselves."""
from importlib import import_module

import pytest


@pytest.fixture
def printing(lib):
    return import_module(lib.__name__ + "._tensor_str")


def test_options_are_read_and_come_back(lib, printing):
    before = printing.PRINT_OPTS.precision
    with printing.printoptions(precision=2):
        assert printing.PRINT_OPTS.precision == 2 and str(lib.tensor(1.23456)) == "tensor(1.23)"
    assert printing.PRINT_OPTS.precision == before == printing.get_printoptions()["precision"]


def test_elements_by_themselves(lib, printing):
    x = lib.arange(6.0, dtype=lib.float64).reshape(2, 3)
    assert printing._tensor_str(x, indent=0) == "[[0., 1., 2.],\n [3., 4., 5.]]"
    assert printing._tensor_str(lib.tensor(3), indent=0) == "3"
    assert printing._tensor_str(lib.tensor([True, False], requires_grad=False), 0) == "[ True, False]"
