"""The wrapper tensors under examples/: what they claim holds, and each stays a page long."""
import importlib.util
import pathlib

import pytest
import tede

FOLDER = pathlib.Path(__file__).parents[2] / "examples"


def example(name):
    path = FOLDER / f"{name}.py"
    assert len(path.read_text().splitlines()) < 100
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_logging_tensor_tells_of_gradients_too():
    module = example("logging_tensor")
    forward, backward, grad = module.main()
    assert [line.split(" = ")[1].split("(")[0] for line in forward] == ["mm.default", "tanh.default", "sum.default"] or \
        any("tanh" in line for line in forward)
    assert backward and isinstance(grad, module.LoggingTensor)
    x = tede.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (x @ x).tanh().sum().backward()
    assert tede.allclose(grad.value, x.grad)


def test_a_masked_tensor_is_added_without_being_read():
    module = example("masked_tensor")
    wages, total, weighted = module.main()
    assert module.reveal(total).tolist() == sum(wages).tolist()
    assert module.reveal(weighted).tolist() == (wages[0] + 2 * wages[1] - wages[2]).tolist()
    assert not tede.equal(total.masked, (sum(wages).double() * module.SCALE).long())
    again = module.hide(wages[0]) + module.hide(wages[1])
    assert not tede.equal(again.masked, (module.hide(wages[0]) + module.hide(wages[1])).masked)
    for operation in (lambda: total.mul(total), lambda: total.mul(0.5), lambda: total.exp(), lambda: total.gt(0)):
        with pytest.raises(TypeError, match="masked numbers"):
            operation()


def test_a_batched_tensor_runs_once_for_all():
    module = example("batched_tensor")
    together, apart = module.main()
    assert tede.allclose(together, apart, atol=1e-6)
    assert all("cumsum" in name or "select" in name for name in module.loops)
    x = tede.randn(6, 2, 3)
    assert tede.allclose(module.vmap(lambda a: (a @ a.t()).sum(0).relu() * 2 + 1)(x),
                         tede.stack([(a @ a.t()).sum(0).relu() * 2 + 1 for a in x]), atol=1e-5)
