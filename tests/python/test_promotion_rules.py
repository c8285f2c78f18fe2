"""Beyond PyTorch: numbers that don't fit an integer result are warned of, and the array API's rules of promotion."""
import itertools
import threading
import warnings

import pytest
import tede


@pytest.mark.parametrize('call', [
    lambda x: x + 300, lambda x: x * -1, lambda x: 1000 - x, lambda x: x == 256, lambda x: x.add_(300),
    lambda x: x + tede.tensor(70000), lambda x: tede.mul(x, 300, out=x.clone()), lambda x: tede.maximum(x, tede.tensor(-1)),
])
def test_a_number_that_wraps_around_is_told_of(call):
    with pytest.warns(UserWarning, match="doesn't fit uint8 and wraps around"):
        call(tede.tensor([1, 2], dtype=tede.uint8))


@pytest.mark.parametrize('call', [
    lambda x: x + 255, lambda x: x + 2.5, lambda x: x + tede.tensor([300]), lambda x: x.to(tede.int16) + 300, lambda x: x & 0xff,
    lambda x: x.to(tede.int8) + -128, lambda x: x.to(tede.uint64) + (2 ** 64 - 1), lambda x: x.float() + 2 ** 40,
    lambda x: x + tede.tensor(255), lambda x: x > 3, lambda x: tede.where(x > 1, x, 0),
])
def test_numbers_that_fit_are_not(call):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        call(tede.tensor([1, 2], dtype=tede.uint8))


def test_the_array_apis_table():
    bits = {'int': (8, 16, 32, 64), 'uint': (8, 16, 32, 64), 'float': (32, 64), 'complex': (64, 128)}
    dtypes = ['bool', *(f'{kind}{n}' for kind, sizes in bits.items() for n in sizes)]

    def split(name):
        kind = name.rstrip('0123456789')
        return kind, int(name[len(kind):] or 0)

    def expected(a, b):
        (ka, na), (kb, nb) = split(a), split(b)
        if ka == kb:
            return max((a, b), key=lambda name: split(name)[1])
        if {ka, kb} == {'int', 'uint'}:
            signed, unsigned = (na, nb) if ka == 'int' else (nb, na)
            wide = signed if signed > unsigned else 2 * unsigned
            return f'int{wide}' if wide <= 64 else None
        if {ka, kb} == {'float', 'complex'}:
            real, both = (na, nb) if ka == 'float' else (nb, na)
            return f'complex{max(2 * real, both)}'

    mask = tede.tensor([True, False])
    with tede.promotion('array_api'):
        for a, b in itertools.product(dtypes, dtypes):
            for x, y in ((tede.ones(2, dtype=getattr(tede, a)), tede.ones((), dtype=getattr(tede, b))),
                         (tede.ones(2, dtype=getattr(tede, a)), tede.ones(2, dtype=getattr(tede, b)))):
                for call in (lambda: tede.multiply(x, y), lambda: tede.cat([x, y.reshape(-1)]), lambda: tede.where(mask, x, y)):
                    if expected(a, b) is None:
                        with pytest.raises(TypeError, match=f"doesn't promote {a} with {b}"):
                            call()
                    else:
                        assert call().dtype == getattr(tede, expected(a, b)), (a, b)


def test_numbers_take_the_tensors_dtype_or_are_refused():
    with tede.promotion('array_api'):
        assert (tede.ones(2, dtype=tede.int8) + 3).dtype == tede.int8 and (tede.ones(2) * 3).dtype == tede.float32
        assert (tede.ones(2, dtype=tede.float64) + 1j).dtype == tede.complex128 and (2 ** tede.ones(2)).dtype == tede.float32
        assert (tede.tensor([True]) & True).dtype == tede.bool and tede.clamp(tede.ones(2), 0, 1).dtype == tede.float32
        for call in (lambda: tede.ones(2, dtype=tede.int64) + 2.5, lambda: tede.ones(2) + True, lambda: tede.tensor([True]) + 1,
                     lambda: tede.ones(2, dtype=tede.int8).add_(1.5), lambda: tede.ones(2, dtype=tede.int64) ** 0.5):
            with pytest.raises(TypeError, match="the array API doesn't promote"):
                call()
        with pytest.raises(RuntimeError, match='without overflow'):
            tede.ones(2, dtype=tede.int8) + 300
        with pytest.raises(TypeError, match='what is written stays float32'):
            tede.ones(2).add_(tede.ones(2, dtype=tede.float64))
        assert tede.ones(2, dtype=tede.float64).add_(tede.ones(2)).dtype == tede.float64


def test_the_rules_are_the_threads_and_end_with_the_block():
    seen = []
    with tede.promotion('array_api'):
        assert tede.get_promotion() == 'array_api'
        thread = threading.Thread(target=lambda: seen.append(tede.get_promotion()))
        thread.start(), thread.join()
        with tede.promotion('pytorch'):
            assert (tede.ones(2) + tede.ones(2, dtype=tede.int64)).dtype == tede.float32
        assert tede.get_promotion() == 'array_api'
    assert seen == ['pytorch'] and tede.get_promotion() == 'pytorch'
    with pytest.raises(ValueError):
        tede.set_promotion('numpy')


def test_gradients_and_composites_are_computed_as_ever():
    with tede.promotion('array_api'):
        x = tede.tensor([0.5, 2.0], requires_grad=True)
        loss = (tede.nn.functional.gelu(x).var() * x.clamp(0, 1).sum() + (x ** 2).mean() + tede.nansum(x))
        loss.backward()
    y = tede.tensor([0.5, 2.0], requires_grad=True)
    (tede.nn.functional.gelu(y).var() * y.clamp(0, 1).sum() + (y ** 2).mean() + tede.nansum(y)).backward()
    assert x.grad.tolist() == y.grad.tolist()
