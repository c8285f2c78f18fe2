"""The message about a saved value that was overwritten names the operator that did it, or none."""
import random
import re

import pytest

WRITES = {
    "add_": lambda x: x.add_(1), "mul_": lambda x: x.mul_(2), "zero_": lambda x: x.zero_(), "copy_": lambda x: x.copy_(x * 1), "exp_": lambda x: x.exp_(),
    "sub_": lambda x: x.sub_(1), "div_": lambda x: x.div_(2), "fill_": lambda x: x.fill_(3), "relu_": lambda x: x.relu_(), "tanh_": lambda x: x.tanh_(),
    "clamp_": lambda x: x.clamp_(-1, 1), "fmod_": lambda x: x.fmod_(2), "neg_": lambda x: x.neg_(), "sqrt_": lambda x: x.abs_().sqrt_(),
}


def message_of(lib, write, detached, shape):
    w = lib.ones(shape, requires_grad=True)
    x = lib.rand(shape)
    y = w * x
    write(x.view(-1) if detached == "view" else x.detach() if detached == "detached" else x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
        y.sum().backward()
    return str(raised.value)


def test_the_writer_is_named_although_memory_is_used_again(lib):
    if lib.__name__ != "tede":
        pytest.skip("PyTorch doesn't name it")
    choose = random.Random(0)
    named = 0
    for _ in range(400):
        for _ in range(choose.randrange(4)):            # others, which are gone when their memory is used again
            other = lib.rand(3)
            WRITES[choose.choice(sorted(WRITES))](other)
            WRITES[choose.choice(sorted(WRITES))](other.data)
            del other
        name = choose.choice(sorted(WRITES))
        found = re.search(r", and (\w+) wrote over it", message_of(lib, WRITES[name], choose.choice(["", "view", "detached"]), 3))
        if found:
            named += 1
            assert found.group(1) == ("abs_" if name == "sqrt_" else name)
    assert named > 390


def test_a_write_that_nothing_is_known_of_is_not_given_to_another(lib):
    if lib.__name__ != "tede":
        pytest.skip("PyTorch doesn't name it")
    w, x = lib.ones(3, requires_grad=True), lib.rand(3)
    y = w * x
    x.add_(1)
    other = lib.ones(3)
    for _ in range(300):                                # more than are remembered
        other.mul_(1)
    x.sub_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
        y.sum().backward()
    assert "wrote over it" not in str(raised.value)
    y = w * x.data
    x.data.add_(1)                                      # counted apart
    x.mul_(1)
    y.sum().backward()
