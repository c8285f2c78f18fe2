"""torch._custom_ops: operators made in steps, the older form of library.custom_op."""
from importlib import import_module
from typing import Optional, Sequence, Tuple

import pytest


def module(lib):
    if lib.__name__ == "tede":
        return import_module("tede._custom_ops")
    return import_module("torch._custom_ops")


def declared(lib, name, prototype, kernel):
    ops = module(lib)
    prototype.__name__ = name
    ops.custom_op(f"tede_steps::{name}", prototype)
    ops.impl(f"tede_steps::{name}", device_types="cpu", func=kernel)
    return getattr(lib.ops.tede_steps, name), f"tede_steps::{name}", ops


def test_an_operator_in_steps(lib):
    def prototype(x: lib.Tensor, dim: int) -> lib.Tensor:
        raise NotImplementedError
    op, name, ops = declared(lib, "in_steps", prototype, lambda x, dim: x.sin() + dim)
    x = lib.tensor([1., 2.], requires_grad=True)
    assert op(x.detach(), 1).tolist() == (x.sin() + 1).tolist()
    with pytest.raises(RuntimeError, match="Autograd has not been implemented for operator"):
        op(x, 1)
    ops.impl_backward(name, func=lambda ctx, saved, grad: {"x": grad * saved["x"].cos() * saved["factor"]})
    with pytest.raises(RuntimeError, match="unable to find a 'save_for_backward'"):
        op(x, 1)
    ops.impl_save_for_backward(name, func=lambda inputs, output: {"x": inputs.x, "factor": inputs.dim})
    op(x, 2).sum().backward()
    assert lib.allclose(x.grad, 2 * x.detach().cos())


def test_lists_and_absent_operands(lib):
    def prototype(xs: Sequence[lib.Tensor], y: Optional[lib.Tensor]) -> lib.Tensor:
        raise NotImplementedError
    op, name, ops = declared(lib, "of_lists", prototype, lambda xs, y: sum(xs) * 2)
    ops.impl_save_for_backward(name, func=lambda inputs, output: len(inputs.xs))
    answer = []
    ops.impl_backward(name, func=lambda ctx, saved, grad: answer[-1](saved, grad))
    xs = [lib.ones(2, requires_grad=True) for _ in range(3)]
    answer.append(lambda n, grad: {"xs": [2 * grad] * n, "y": None})
    for g in lib.autograd.grad(op(xs, None).sum(), xs):
        assert g.tolist() == [2, 2]
    for wrong, says in ((lambda n, g: {"xs": [g] * n}, "to have keys {.*'y'.*}"), (lambda n, g: [g] * n, "to be a dict"),
                        (lambda n, g: {"xs": [g], "y": None}, "3 gradients but got 1"), (lambda n, g: {"xs": None, "y": None}, "list of gradients"),
                        (lambda n, g: {"xs": [g, None, 3], "y": None}, "None or Tensor"),
                        (lambda n, g: {"xs": [g] * n, "y": 3}, "either None or a Tensor"),
                        (lambda n, g: {"xs": [g] * n, "y": g}, "was not a Tensor")):
        answer.append(wrong)
        with pytest.raises(RuntimeError, match=says):
            op(xs, None).sum().backward()


def test_some_results_have_no_gradient(lib):
    def prototype(x: lib.Tensor) -> Tuple[lib.Tensor, lib.Tensor]:
        raise NotImplementedError
    op, name, ops = declared(lib, "two_results", prototype, lambda x: (x * 3, x + 1))
    ops.impl_save_for_backward(name, func=lambda inputs, output: None)
    ops.impl_backward(name, output_differentiability=[True, False], func=lambda ctx, saved, grad, other: {"x": 3 * grad})
    x = lib.ones(2, requires_grad=True)
    first, second = op(x)
    assert first.requires_grad and not second.requires_grad
    assert lib.autograd.grad(first.sum(), x)[0].tolist() == [3, 3]


def test_what_is_refused(lib):
    ops = module(lib)
    with pytest.raises(ValueError, match="only supports functional operators"):
        ops.custom_op("tede_steps::writes", "(Tensor(a!) x) -> Tensor")
    with pytest.raises(ValueError, match="expected `func` to have name 'named' but got"):
        def other(x: lib.Tensor) -> lib.Tensor:
            raise NotImplementedError
        ops.custom_op("tede_steps::named", other)
    with pytest.raises(ValueError, match="do not handle overloads"):
        ops.custom_op("tede_steps::with.overload", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="we only support device_type"):
        def refused(x: lib.Tensor) -> lib.Tensor:
            raise NotImplementedError
        op, name, _ = declared(lib, "refused", refused, lambda x: x)
        ops.impl(name, device_types="warp", func=lambda x: x)
    library = lib.library.Library("tede_steps", "FRAGMENT")
    library.define("composed(Tensor x) -> Tensor")
    library.impl("composed", lambda x: x.sin(), "CompositeImplicitAutograd")
    with pytest.raises(RuntimeError, match="CompositeImplicitAutograd"):
        ops.impl_backward("tede_steps::composed", func=lambda ctx, saved, grad: {})


def test_a_gradient_made_within_a_devices_kernel_is_found_by_opcheck(lib):
    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    library = lib.library.Library("tede_steps", "FRAGMENT")
    library.define("at_the_device(Tensor x) -> Tensor")
    library.impl("at_the_device", Doubled.apply, "CPU")
    with pytest.raises(Exception, match="(?i)autograd"):
        lib.library.opcheck(lib.ops.tede_steps.at_the_device.default, (lib.ones(2, requires_grad=True),),
                            test_utils="test_autograd_registration")


def test_any_sequence_is_taken_for_a_list(lib):
    import collections.abc

    class Three(collections.abc.Sequence):
        def __init__(self, *items):
            self.items = items

        def __getitem__(self, i):
            return self.items[i]

        def __len__(self):
            return len(self.items)
    library = lib.library.Library("tede_steps", "FRAGMENT")
    library.define("sequences(Tensor x, int[] sizes, float[] factors, Tensor[] more) -> Tensor")
    seen = []
    library.impl("sequences", lambda x, *lists: seen.extend(lists) or x.clone(), "CPU")
    x = lib.ones(2)
    lib.ops.tede_steps.sequences(x, Three(1, 2, 3), Three(.5, 2.), Three(x, x))
    assert seen[:2] == [[1, 2, 3], [.5, 2.]] and [t.tolist() for t in seen[2]] == [[1., 1.]] * 2
    with pytest.raises((TypeError, RuntimeError)):
        lib.ops.tede_steps.sequences(x, "123", [], [])


def test_opcheck_refuses_a_result_that_looks_at_an_operand(lib):
    library = lib.library.Library("tede_steps", "FRAGMENT")
    library.define("returns_its_operand(Tensor(a!) x) -> Tensor(a!)")
    library.impl("returns_its_operand", lambda x: x.sin_(), "CPU")
    library.impl("returns_its_operand", lambda x: x, "Meta")
    with pytest.raises(Exception, match="We only support functionalizing operators whose outputs do not have alias annotations"):
        lib.library.opcheck(lib.ops.tede_steps.returns_its_operand.default, (lib.ones(2),))


def test_an_operator_without_fake_kernel_is_named_with_its_overload(lib):
    library = lib.library.Library("tede_steps", "FRAGMENT")
    library.define("only_real(Tensor x) -> Tensor")
    library.impl("only_real", lambda x: x.clone(), "CPU")
    with pytest.raises(Exception, match=r"tede_steps\.only_real\.default"):
        lib.library.opcheck(lib.ops.tede_steps.only_real.default, (lib.ones(2),))
    cross = import_module(f"{lib.__name__}._subclasses.fake_utils").CrossRefFakeMode
    with pytest.raises(Exception, match="only_real"), cross():
        lib.ops.tede_steps.only_real(lib.ones(2))
