"""torch._check and its kin, which libraries use in place of assert."""
import pytest


@pytest.mark.parametrize("name, error", [("_check", RuntimeError), ("_check_index", IndexError), ("_check_value", ValueError),
                                         ("_check_type", TypeError), ("_check_not_implemented", NotImplementedError)])
def test_a_check_raises_its_error(lib, name, error):
    check = getattr(lib, name)
    check(True)
    try:
        check(False, lambda: "three is two")
    except error as raised:
        assert str(raised) == "three is two"
    else:
        pytest.fail("nothing was raised")
    with pytest.raises(TypeError, match="cond must be a bool"):
        check(1)


def test_checks_of_tensors(lib):
    lib._check_tensor_all(lib.ones(2) > 0)
    with pytest.raises(RuntimeError, match="no"):
        lib._check_tensor_all(lib.zeros(2) > 0, lambda: "no")
    with pytest.raises(AssertionError, match="sizes"):
        lib._assert(2 == 3, "sizes")
