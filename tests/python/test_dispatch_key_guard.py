"""torch._C._ExcludeDispatchKeyGuard: calls pass by keys of PyTorch's that stand for something here."""
import pytest
import tede

C = tede._C
KEYS = C.DispatchKey


def guard(*names):
    keys = C.DispatchKeySet()
    for name in names:
        keys = keys | C.DispatchKeySet(KEYS[name])
    return C._ExcludeDispatchKeyGuard(keys)


def test_autocast_is_passed_by():
    x = tede.randn(3, 3)
    with tede.autocast("cpu", tede.bfloat16):
        with guard("AutocastCPU", "AutocastCUDA", "AutocastXPU"):
            assert (x @ x).dtype == tede.float32
            with tede.autocast("cpu", tede.float16):
                assert (x @ x).dtype == tede.float16
        assert (x @ x).dtype == tede.bfloat16
        with guard("AutocastXPU"):
            assert (x @ x).dtype == tede.bfloat16
        with pytest.raises(KeyError), guard("AutocastCPU"):
            raise KeyError
        assert (x @ x).dtype == tede.bfloat16
    assert (x @ x).dtype == tede.float32


def test_autograd_is_passed_by():
    x = tede.ones(3, requires_grad=True)
    with guard("AutogradCPU", "ADInplaceOrView"):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_a_key_that_isnt_here_is_refused():
    with pytest.raises(NotImplementedError, match="CPU, Meta: PyTorch's dispatch keys don't exist here"):
        guard("CPU", "Meta", "AutocastCPU")
