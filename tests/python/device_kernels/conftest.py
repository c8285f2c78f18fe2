"""Kernels of the common dialect, family by family: what a device computes is what the CPU computes, and nothing comes to the CPU."""
import os

import pytest

tede = pytest.importorskip("tede")


@pytest.fixture(scope="session")
def device():
    """The name of a device with programs: TEDE_TEST_DEVICE, or opencl. See tools/device_test.py."""
    name = os.environ.get("TEDE_TEST_DEVICE", "opencl")
    try:
        tede.load_device(name)
    except RuntimeError as error:
        if "there is no" not in str(error) or "TEDE_TEST_DEVICE" in os.environ:
            raise
        pytest.skip(str(error))
    return name


@pytest.fixture(autouse=True)
def seeded():
    """The same numbers in any order of the tests."""
    tede.manual_seed(0)


def to(x, device):
    return tede.utils._pytree.tree_map(lambda t: t.detach().to(device).requires_grad_(t.requires_grad) if isinstance(t, tede.Tensor) else t, x)


@pytest.fixture
def agrees(device):
    """agrees(call, *arguments): the results of call, and the gradients of what requires one, are the CPU's; without a fallback, unless
    `fallbacks` says that there are some."""
    def check(call, *arguments, rtol=1e-5, atol=1e-6, fallbacks=False):
        leaves = tede.utils._pytree.tree_leaves
        there = to(arguments, device)
        here_result = leaves(call(*arguments))
        before = tede._C._cpu_fallback_count()
        there_result = leaves(call(*there))
        taken = tede._C._cpu_fallback_count() - before
        assert len(here_result) == len(there_result)
        for a, b in zip(here_result, there_result):
            if not isinstance(a, tede.Tensor):
                assert a == b
                continue
            assert b.device.type == device and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            tede.testing.assert_close(b.detach().cpu(), a.detach(), rtol=rtol, atol=atol, equal_nan=True)
        differentiable = [(a, b) for a, b in zip(here_result, there_result) if isinstance(a, tede.Tensor) and a.requires_grad]
        if differentiable:
            inputs = [t for t in leaves(arguments) if isinstance(t, tede.Tensor) and t.requires_grad]
            twins = [t for t in leaves(there) if isinstance(t, tede.Tensor) and t.requires_grad]
            slopes = [tede.randn_like(a) for a, _ in differentiable]
            far_slopes = to(slopes, device)
            expected = tede.autograd.grad([a for a, _ in differentiable], inputs, slopes, allow_unused=True)
            before = tede._C._cpu_fallback_count()
            got = tede.autograd.grad([b for _, b in differentiable], twins, far_slopes, allow_unused=True)
            taken += tede._C._cpu_fallback_count() - before
            for a, b in zip(expected, got):
                assert (a is None) == (b is None)
                if a is not None:
                    tede.testing.assert_close(b.cpu(), a, rtol=rtol, atol=atol, equal_nan=True)
        assert bool(taken) == fallbacks
    return check
