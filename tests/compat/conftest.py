"""Tests that run unchanged on tede and on PyTorch: whatever holds for one must hold for the other.

`lib` is the library, once each. Where PyTorch itself has no kernel for what a test calls, its half of the test is skipped, with
the operator's name. tede's half isn't: a kernel that is missing there is a failure.
"""
import importlib

import pytest


def _libraries():
    found = []
    for name in ("tede", "torch"):
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            continue
    return found


LIBRARIES = _libraries()


@pytest.fixture(params=LIBRARIES, ids=lambda lib: lib.__name__)
def lib(request):
    request.param.manual_seed(0)
    return request.param


@pytest.fixture
def default_library():
    """What programs run on unless they say otherwise: tede, or PyTorch where that isn't built."""
    return LIBRARIES[0]


@pytest.fixture
def nn(lib):
    return lib.nn


@pytest.fixture
def F(lib):
    return lib.nn.functional


@pytest.fixture
def both():
    """(tede, torch), for comparisons; the test is skipped unless both are installed."""
    if len(LIBRARIES) < 2:
        pytest.skip("needs both tede and torch")
    return tuple(LIBRARIES)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    try:
        return (yield)
    except NotImplementedError as error:
        if getattr(pyfuncitem.funcargs.get("lib"), "__name__", None) != "torch":
            raise
        pytest.skip(f"PyTorch has no kernel: {str(error).splitlines()[0][:200]}")
