"""Second gradients that are zeros, none, or go through odd geometries."""
import pytest


@pytest.mark.parametrize('name', ['reflect', 'replicate'])
def test_padding_has_a_second_gradient_of_zeros(lib, name):
    x = lib.arange(1., 7.).reshape(1, 6).requires_grad_()
    y = lib.nn.functional.pad(x, (2, 1), mode=name)
    weights = lib.ones(1, 9, requires_grad=True)
    first, = lib.autograd.grad(y, x, weights, create_graph=True)
    assert lib.autograd.grad(first.sum(), x)[0].tolist() == [[0] * 6]


def test_circular_padding_repeats_what_is_left(lib):
    x = lib.arange(4.).reshape(1, 1, 4)
    pad = lib.nn.functional.pad
    assert pad(x, (-1, 2), mode='circular').tolist() == [[[1, 2, 3, 1, 2]]]
    assert pad(x, (2, -1), mode='circular').tolist() == [[[1, 2, 0, 1, 2]]]


def test_a_view_by_strides_of_a_part_differentiates_twice(lib):
    base = lib.arange(10.).requires_grad_()
    part = base[1:]
    view = part.as_strided((2, 2), (1, 2), 0)
    weights = lib.ones(2, 2, requires_grad=True)
    first, = lib.autograd.grad(view, base, weights, create_graph=True)
    back, = lib.autograd.grad((first * lib.arange(10.)).sum(), weights)
    assert back.tolist() == (first.detach() * lib.arange(10.)).as_strided((2, 2), (1, 2), 0).tolist()


def test_complex_logsumexp_and_its_gradient(lib):
    x = lib.tensor([[1 + 2j, -3 + 1j], [0.5j, 100 + 0j]], requires_grad=True)
    y = lib.logsumexp(x, 1)
    want = lib.log(lib.exp(x.detach()).sum(1))
    assert lib.allclose(y[:1], want[:1]) and lib.allclose(y[1:].detach(), lib.tensor([100 + 0j]))
    g, = lib.autograd.grad(y, x, lib.ones(2, dtype=x.dtype))
    assert lib.allclose(g, lib.exp(x.detach() - y.detach()[:, None]).conj())


def test_scatter_with_reduce_has_no_gradient(lib):
    x = lib.zeros(3, requires_grad=True)
    y = lib.scatter(x, 0, lib.tensor([0, 0]), lib.ones(2), reduce='add')
    assert y.tolist() == [2, 0, 0]
    with pytest.raises(RuntimeError, match='derivative for aten::scatter is not implemented'):
        y.sum().backward()
    with pytest.raises(RuntimeError, match='derivative for aten::scatter_ is not implemented'):
        x.clone().scatter_(0, lib.tensor([0]), 2., reduce='multiply').sum().backward()


def test_complex_gradients_are_conjugated(lib):
    x = lib.tensor([1 + 2j, 0.3 - 0.5j, 0j], dtype=lib.complex128, requires_grad=True)
    assert lib.autograd.gradcheck(lib.sinc, (x.detach()[:2].clone().requires_grad_(),))
    lib.sinc(x).real.sum().backward()
    assert complex(x.grad[2]) == 0


def test_gradients_at_the_origin_are_finite(lib):
    f = lib.nn.functional
    a, b = lib.tensor([[3.0, 4.0]], requires_grad=True), lib.zeros(1, 2, requires_grad=True)
    f.cosine_similarity(a, b).backward()
    assert a.grad.tolist() == [[0, 0]] and lib.allclose(b.grad, lib.tensor([[0.6, 0.8]]) * 1e8)
    y, x = lib.tensor([0.0, 1.0], requires_grad=True), lib.tensor([0.0, 2.0], requires_grad=True)
    lib.atan2(y, x).sum().backward()
    assert lib.allclose(y.grad, lib.tensor([0.0, 0.4])) and lib.allclose(x.grad, lib.tensor([0.0, -0.2]))


def test_layer_norm_with_a_bias_alone(lib):
    x = lib.linspace(-1, 1, 12, dtype=lib.float64).reshape(2, 2, 3) ** 2
    bias = lib.ones(2, 3, dtype=lib.float64)

    def f(x, bias):
        return lib.native_layer_norm(x, (2, 3), None, bias, 0.5)[0].sin().sum()
    first = lib.func.grad(f, argnums=(0, 1))(x, bias)
    each = lib.vmap(lib.func.grad(f, argnums=(0, 1)), in_dims=(0, None))(x[:, None], bias)
    assert lib.allclose(each[0].squeeze(1), first[0]) and lib.allclose(each[1].sum(0), first[1])
    leaf = bias.clone().requires_grad_()
    grad = lib.autograd.grad(f(x.requires_grad_(), leaf), leaf, create_graph=True)[0]
    assert grad.shape == (2, 3)


@pytest.mark.parametrize('reduce', ['scatter_reduce', 'index_reduce'])
def test_several_zeros_of_a_product_have_a_gradient_but_no_second_one(lib, reduce):
    index, values = lib.tensor([0, 0, 1, 1]), 'source' if reduce == 'index_reduce' else 'src'

    def gradients(numbers):
        start, x = lib.ones(2, requires_grad=True), lib.tensor(numbers, requires_grad=True)
        return x, lib.autograd.grad(getattr(start, reduce)(0, index, x, 'prod').sum(), (x, start), create_graph=True)
    x, (of_x, of_start) = gradients([0., 0., 2., 3.])
    assert of_x.tolist() == [0, 0, 3, 2]
    with pytest.raises(RuntimeError, match=f'Double backward is unsupported for {values} when >1 zeros in {values}'):
        lib.autograd.grad(of_x.sum(), x, retain_graph=True)
    assert lib.autograd.grad(of_start.sum(), x)[0].tolist() == [0, 0, 3, 2]
    x, (of_x, _) = gradients([0., 5., 2., 4.])
    assert of_x.tolist() == [5, 0, 4, 2] and lib.autograd.grad(of_x.sum(), x)[0].tolist() == [1, 1, 1, 1]
