"""Fake quantization with a learned scale and zero point: PyTorch's results, gradients and switches."""
import pytest
import tede
from tede.ao import quantization as Q
from tede.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

torch = pytest.importorskip("torch")
from quantized_pairs import here, numbers  # noqa: E402
from torch.ao import quantization as TQ  # noqa: E402
from torch.ao.quantization import _learnable_fake_quantize as theirs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def close(mine, expected):
    assert tuple(mine.shape) == tuple(expected.shape)
    assert torch.allclose(torch.tensor(mine.tolist()), expected, rtol=1e-5, atol=1e-5)


def both(name, x, scale, zero, *args):
    """The result and the gradients of both libraries."""
    found = []
    for lib, of in ((torch, lambda v: v.clone()), (tede, here)):
        operands = [of(v).requires_grad_() for v in (x, scale, zero)]
        y = getattr(lib, name)(*operands, *args)
        y.backward(of(numbers(*x.shape, seed=9)))
        found.append([y.detach(), *(v.grad for v in operands)])
    for expected, made in zip(*found, strict=True):
        close(made, expected)


@pytest.mark.parametrize("shape", [(3, 4, 5), (7,), ()])
@pytest.mark.parametrize("zero", [3.2, 300., -4.])
@pytest.mark.parametrize("factor", [1., 0.1])
def test_per_tensor(shape, zero, factor):
    both("_fake_quantize_learnable_per_tensor_affine", numbers(*shape) * 3, torch.tensor([0.07]), torch.tensor([zero]), 0, 31, factor)


@pytest.mark.parametrize("shape, axis", [((3, 4, 5), 0), ((3, 4, 5), 2), ((6, 1), 0), ((2, 1), 1)])
def test_per_channel(shape, axis):
    n = shape[axis]
    both("_fake_quantize_learnable_per_channel_affine", numbers(*shape) * 3, numbers(n, seed=1).abs() * .1 + .02, numbers(n, seed=2) * 20, axis, 0, 31, 0.5)


def test_an_element_for_each_channel():
    """PyTorch sums up all of them, and fails."""
    found = []
    for shape in ((6,), (6, 1)):
        operands = [here(v).requires_grad_() for v in (numbers(*shape) * 3, numbers(6, seed=1).abs() * .1 + .02, numbers(6, seed=2) * 20)]
        tede._fake_quantize_learnable_per_channel_affine(*operands, 0, 0, 31).pow(2).sum().backward()
        found.append([v.grad.flatten() for v in operands])
    for a, b in zip(*found, strict=True):
        assert a.shape == (6,) and a.equal(b)


def test_nothing_has_no_part_in_the_gradients():
    """PyTorch takes the scale itself for its gradient."""
    scale, zero = tede.tensor([0.5], requires_grad=True), tede.tensor([3.], requires_grad=True)
    tede._fake_quantize_learnable_per_tensor_affine(tede.ones(0, 3), scale, zero, 0, 31).sum().backward()
    assert scale.grad.tolist() == zero.grad.tolist() == [0.]


def test_what_does_not_fit():
    x = tede.ones(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="one element"):
        tede._fake_quantize_learnable_per_tensor_affine(x, tede.ones(2), tede.zeros(1), 0, 255)
    with pytest.raises(RuntimeError, match="not consistent"):
        tede._fake_quantize_learnable_per_channel_affine_backward(x, x, tede.ones(2), tede.zeros(2), 1, 0, 255)
    with pytest.raises(RuntimeError, match="`quant_min`"):
        tede._fake_quantize_learnable_per_tensor_affine_backward(x, x, tede.ones(1), tede.zeros(1), 1, 255)


@pytest.mark.parametrize("scheme, dtype, least, most", [("per_tensor_affine", "quint8", 0, 255), ("per_tensor_symmetric", "qint8", -128, 127),
                                                        ("per_channel_symmetric", "qint8", -128, 127)])
def test_the_module(scheme, dtype, least, most):
    found = []
    for lib, q, kind, of in ((torch, TQ, theirs._LearnableFakeQuantize, lambda v: v.clone()), (tede, Q, _LearnableFakeQuantize, here)):
        channels = "channel" in scheme
        observer = q.MovingAveragePerChannelMinMaxObserver if channels else q.MovingAverageMinMaxObserver
        module = kind(observer, least, most, channel_len=3 if channels else -1, use_grad_scaling=True, dtype=getattr(lib, dtype), qscheme=getattr(lib, scheme),
                      **({"ch_axis": 0} if channels else {}))
        x, seen = of(numbers(3, 4)), []
        module.enable_static_estimate()
        seen += [module(x), module.scale, module.zero_point]
        module.enable_static_observation()
        seen.append(module(x * 2))
        module.enable_param_learning()
        y = module(x * 3)
        y.sum().backward()
        seen += [y, module.scale.grad, *module.calculate_qparams()]
        found.append(([v.detach() for v in seen], list(module.state_dict()), module.bitwidth))
    (expected, their_names, their_bits), (made, names, bits) = found
    for a, b in zip(made, expected, strict=True):
        close(a.float(), b.float())
    assert bits == their_bits and set(their_names) == set(names)


def test_ranges_of_the_module():
    with pytest.raises(AssertionError, match="strictly less"):
        _LearnableFakeQuantize(Q.MinMaxObserver, 3, 3)
    with pytest.raises(AssertionError, match="positive integer"):
        _LearnableFakeQuantize(Q.MinMaxObserver, 0, 3, channel_len=0)


def test_zero_points_of_channels_are_in_range():
    x, scale = tede.ones(2, 3), tede.ones(3)
    for zero in (-1, 256):
        with pytest.raises(RuntimeError, match="`zero_point` must be between `quant_min` and `quant_max`."):
            tede.fake_quantize_per_channel_affine(x, scale, tede.full((3,), zero, dtype=tede.int32), 1, 0, 255)
        tede.fake_quantize_per_channel_affine(x, scale, tede.full((3,), float(zero)), 1, 0, 255)
    assert tede.fake_quantize_per_channel_affine(x, scale, tede.zeros(3, dtype=tede.int32), 1, 0, 255).equal(x)
