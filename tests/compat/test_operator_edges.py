"""Corners of single operators: bounds that are tensors, sums in einsum, bytes interpolated, lists that may be None."""
import pytest


def test_gradients_of_clamp_between_tensors(lib):
    def grads(x, low, high):
        tensors = [lib.tensor(v, requires_grad=True) for v in (x, low, high)]
        lib.clamp(*tensors).sum().backward()
        return [t.grad.tolist() for t in tensors]
    assert grads([1., 2., 3., 4.], [2., 2., 4., 4.], [2., 2., 3., 4.]) == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]
    assert grads([0., 5., 1.], [1., 1., 1.], [2., 2., 2.]) == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize('dtype', ['int32', 'uint8', 'bool', 'int64'])
def test_einsum_sums_of_one_operand_are_int64(lib, dtype):
    x = lib.ones(3, 3).to(getattr(lib, dtype))
    assert lib.einsum('ij,kl->', x, x).dtype == lib.int64
    assert lib.einsum('ij,ij->ij', x, x).dtype == x.dtype
    if dtype != 'int64':
        with pytest.raises(RuntimeError, match='expected scalar type Long but found'):
            lib.einsum('ij,j->', x, x[0])


def test_einsum_promotes_where_nothing_is_summed(lib):
    assert lib.einsum('i,j->ij', lib.ones(2).int(), lib.ones(2)).dtype == lib.float32


@pytest.mark.parametrize('mode, antialias, size, want', [
    ('bilinear', True, (2, 3), [[40, 119, 198], [56, 135, 186]]),
    ('bilinear', False, (2, 3), [[31, 117, 203], [51, 137, 202]]),
    ('bicubic', True, (2, 3), [[34, 118, 205], [52, 139, 187]]),
    ('bicubic', False, (4, 3), [[22, 112, 202], [32, 122, 212], [42, 132, 230], [52, 142, 162]])])
def test_bytes_are_interpolated_with_whole_weights(lib, mode, antialias, size, want):
    x = (lib.arange(5 * 7) * 37 % 251).to(lib.uint8).reshape(1, 1, 5, 7)
    assert lib.nn.functional.interpolate(x, size=size, mode=mode, antialias=antialias)[0, 0].tolist() == want


def test_lists_that_are_empty_by_default_take_none(lib):
    x = lib.arange(6.).reshape(2, 3)
    assert lib.roll(x, 1, None).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert lib.amax(x, None) == 5 and x.amin(dim=None) == 0
    assert lib.max_pool2d(x[None, None], 2, None).shape == (1, 1, 1, 1)
    with pytest.raises(TypeError):
        lib.flip(x, None)


def test_unique_of_slices_without_elements(lib):
    for f in lib.unique, lib.unique_consecutive:
        assert f(lib.zeros(0, 3), dim=0).shape == (0, 3)
        with pytest.raises(RuntimeError, match='more than one'):
            f(lib.zeros(0, 0), dim=0)
        with pytest.raises(RuntimeError, match="aren't selected"):
            f(lib.zeros(3, 0), dim=0)
