"""Conjugates and negatives are views with a bit set, which no operator may overlook."""
import copy
import io
import pickle

import pytest


@pytest.fixture
def x(lib):
    return lib.arange(6.).reshape(3, 2) * (1 + 2j)


def test_conj_is_a_view_and_resolves_to_its_values(lib, x):
    c = x.conj()
    assert c.is_conj() and not c.is_neg() and c.data_ptr() == x.data_ptr() and c._base is x
    assert not c.resolve_conj().is_conj() and c.resolve_conj().tolist() == c.tolist() == [[0, 1 - 2j], [2 - 4j, 3 - 6j], [4 - 8j, 5 - 10j]]
    assert not c.conj().is_conj() and c.conj().tolist() == x.tolist()
    assert x.resolve_conj() is x and lib.ones(2).conj().is_conj() is False
    assert c.imag.is_neg() and not c.real.is_neg() and c.imag.tolist() == [[0, -2], [-4, -6], [-8, -10]]
    for same in c[0], c.T, c.reshape(-1), c.detach(), c.contiguous(), x.mH, x.H, x.adjoint(), c.unbind()[1], c.data:
        assert same.is_conj()
    for fresh in c.clone(), c + 1, c.to(lib.complex128), c[[0]], lib.cat([c, c]), lib._conj_physical(c), copy.deepcopy(c), x.mH.mH:
        assert not fresh.is_conj()
    assert c[1, 1].item() == 3 - 6j and c.imag[1, 1].item() == -6
    assert repr(c[1]) == 'tensor([2.-4.j, 3.-6.j])' and repr(c.imag[1]) == 'tensor([-4., -6.])'


def test_what_reads_memory_refuses_the_bits(lib, x):
    c, n = x.conj(), x.conj().imag
    with pytest.raises(RuntimeError, match=r"numpy\(\) on Tensor that has conjugate bit set. Use tensor.resolve_conj\(\).numpy\(\)"):
        c.numpy()
    with pytest.raises(RuntimeError, match=r"numpy\(\) on Tensor that has negative bit set. Use tensor.resolve_neg\(\).numpy\(\)"):
        n.numpy()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        lib.view_as_real(c)
    with pytest.raises(RuntimeError, match="view is not supported for conjugate view tensors when converting to a different dtype"):
        c.view(lib.float32)
    with pytest.raises(RuntimeError, match="view is not supported for tensors with negative bit set"):
        n.view(lib.int32)


@pytest.mark.parametrize('write, values', [
    (lambda lib, c, x: c.mul_(2j), [[0, 4 - 2j], [8 - 4j, 12 - 6j], [16 - 8j, 20 - 10j]]),
    (lambda lib, c, x: lib.add(x, 1j, out=c), [[-1j, 1 - 3j], [2 - 5j, 3 - 7j], [4 - 9j, 5 - 11j]]),
    (lambda lib, c, x: c.copy_(x), [[0, 1 - 2j], [2 - 4j, 3 - 6j], [4 - 8j, 5 - 10j]]),
    (lambda lib, c, x: x.copy_(c), [[0, 1 - 2j], [2 - 4j, 3 - 6j], [4 - 8j, 5 - 10j]]),
    (lambda lib, c, x: c[0].fill_(3j), [[-3j, -3j], [2 + 4j, 3 + 6j], [4 + 8j, 5 + 10j]]),
    (lambda lib, c, x: c.imag.add_(1), [[-1j, 1 + 1j], [2 + 3j, 3 + 5j], [4 + 7j, 5 + 9j]]),
    (lambda lib, c, x: c.__setitem__(slice(0, 2), c[1:].clone()), [[2 + 4j, 3 + 6j], [4 + 8j, 5 + 10j], [4 + 8j, 5 + 10j]]),
    (lambda lib, c, x: c.masked_fill_(c.real > 2, 1j), [[0, 1 + 2j], [2 + 4j, -1j], [-1j, -1j]]),
    (lambda lib, c, x: c.index_put_((lib.tensor([0]),), lib.tensor(3j)), [[-3j, -3j], [2 + 4j, 3 + 6j], [4 + 8j, 5 + 10j]]),
    (lambda lib, c, x: setattr(c, 'imag', lib.ones(3, 2)), [[-1j, 1 - 1j], [2 - 1j, 3 - 1j], [4 - 1j, 5 - 1j]]),
])
def test_what_is_written_through_a_bit_lands_as_its_value(lib, x, write, values):
    c = x.conj()
    result = write(lib, c, x)
    assert x.tolist() == values and c.is_conj()
    assert result is None or result is x or result.is_conj() or result.is_neg()


def test_gradients_go_through_the_bits(lib):
    def gradient(f):
        x = lib.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=lib.complex128, requires_grad=True)
        f(x).abs().pow(2).sum().backward()
        return x.grad.resolve_conj().tolist()

    def written(part):
        def f(x):
            y = x * 1
            z = part(y)
            z.mul_(2)
            return y * z.sum()
        return f
    w = lib.tensor([2 + 1j, 1 - 1j, 3 + 0.5j], dtype=lib.complex128)
    assert gradient(lambda x: x.conj() * w) == [10 + 20j, 12 - 4j, 9.25j]
    assert gradient(lambda x: x.conj().imag * 2) == [16j, -8j, 4j]
    assert gradient(lambda x: x.conj()[1:].resolve_conj() * w[1:]) == [0, 12 - 4j, 9.25j]
    for part in (lambda y: y.conj(), lambda y: y[1:].conj(), lambda y: y.conj().imag, lambda y: y[1:].real):
        lib.autograd.gradcheck(written(part), lib.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=lib.complex128, requires_grad=True))
    point = lib.tensor([1 + 2j, 3 - 1j], dtype=lib.complex128, requires_grad=True)
    assert lib.autograd.gradgradcheck(lambda x: (x.conj() * x * x).conj(), point)


def test_the_bits_are_stored(lib, x):
    file = io.BytesIO()
    lib.save([x, x.conj()], file)
    file.seek(0)
    plain, turned = lib.load(file)
    assert turned.is_conj() and turned.tolist() == x.conj().tolist() and turned.data_ptr() == plain.data_ptr()
    negative = pickle.loads(pickle.dumps(x.conj().imag))
    assert negative.is_neg() and negative.tolist() == x.conj().imag.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_negatives_of_integers_are_read_as_such(lib, dtype):
    x = lib.arange(3).to(getattr(lib, dtype))
    y, want = x._neg_view(), -x
    assert y.is_neg() and y.tolist() == want.tolist() and y[1].item() == int(y[1]) == want[1].item() and repr(y) == repr(want)
    assert f"{y[2]}" == f"{want[2]}"


def test_negative_indices_split_where_they_say(lib):
    if lib.__name__ == "torch":
        pytest.skip("it splits at what lies in memory")
    parts = lib.tensor_split(lib.arange(8), lib.tensor([-2, -5])._neg_view())
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert lib.tensor_split(lib.arange(4), lib.tensor(-2)._neg_view())[1].tolist() == [2, 3]


def test_data_that_is_conjugated_lazily_stays_so(lib):
    x = lib.tensor([1 + 2j, 3 - 1j])
    y, p = x.clone(), lib.nn.Parameter(lib.ones(2, dtype=lib.complex64))
    y.data = x.conj()
    p.data = y
    for t in (y, p):
        assert t.is_conj() and t.tolist() == [1 - 2j, 3 + 1j] and (t * 1).tolist() == [1 - 2j, 3 + 1j]
    y.data = x
    assert not y.is_conj() and y.tolist() == [1 + 2j, 3 - 1j]
    z = lib.zeros(2)
    z.data = lib._neg_view(lib.ones(2))
    assert z.is_neg() and z.tolist() == [-1, -1]
    z.data = lib.ones(2)
    assert not z.is_neg() and z.tolist() == [1, 1]
