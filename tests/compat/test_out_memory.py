"""out= and resize_ where memory is shared: with an input, with another out, with a view made before."""
import warnings

import pytest


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')     # of outs that are resized
        yield


def test_an_out_that_is_an_operand_is_not_resized(lib):
    x = lib.ones(3, 1)
    with pytest.raises(RuntimeError, match=r"output with shape \[3, 1\] doesn't match the broadcast shape \[3, 4\]"):
        lib.add(x, lib.ones(1, 4), out=x)
    assert x.shape == (3, 1)


def test_cat_refuses_an_out_among_its_inputs(lib):
    empty, full = lib.zeros(0), lib.ones(40, 60)
    for out in empty, full:
        with pytest.raises(RuntimeError, match='unsupported operation'):
            lib.cat((empty, full, lib.ones(1, 60)), dim=0, out=out)


def test_results_in_an_out_that_overlaps_itself_are_refused(lib):
    wide = lib.zeros(3, 1).expand(3, 4)
    x = lib.ones(3, 4)
    for call in (lambda: lib.cumsum(x, 0, out=wide), lambda: lib.bernoulli(x, out=wide), wide.cumsum_,
                 lambda: lib.mm(lib.ones(3, 2), lib.ones(2, 4), out=wide)):
        with pytest.raises((RuntimeError, TypeError)):
            call()


def test_views_outlive_a_resize_of_what_they_look_at(lib):
    x = lib.arange(1000.)
    view = x[10:20]
    x.resize_(5000)
    assert view.tolist() == list(range(10, 20))
    assert view.storage_offset() == 10
    assert view.as_strided((3,), (1,)).tolist() == [10, 11, 12]
    view.resize_(4000)
    assert view[:12].tolist() == list(range(10, 22)) and view.shape == (4000,)
    view.fill_(1)
    assert bool((view == 1).all())


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('size', [0, 1])
def test_transforms_resize_an_out_to_contiguous_memory(lib, size):
    x = lib.arange(27.).reshape(3, 3, 3)
    for name, dim, shape in (('fft', 0, (3, 3, 3)), ('rfft', 0, (2, 3, 3)), ('fft2', (0, 1), (3, 3, 3)), ('rfftn', (0, 1), (3, 2, 3))):
        out = getattr(lib.fft, name)(x, dim=dim, out=lib.zeros(size, dtype=lib.complex64))
        assert out.shape == shape and out.is_contiguous(), name
        lib.testing.assert_close(out, getattr(lib.fft, name)(x, dim=dim).contiguous())
    solved = lib.cholesky_solve(x[0], lib.eye(3), out=lib.zeros(size))
    assert solved.is_contiguous() and solved.tolist() == x[0].tolist()


def test_an_out_of_the_right_shape_keeps_its_strides(lib):
    x, out = lib.arange(6.).reshape(2, 3), lib.zeros(3, 2, dtype=lib.complex64).t()
    assert lib.fft.fft(x, out=out) is out and out.stride() == (1, 2)
    lib.testing.assert_close(out.contiguous(), lib.fft.fft(x))


@pytest.mark.parametrize("place", [lambda lib: lib.zeros(5, 40), lambda lib: lib.zeros(40, 5).t(), lambda lib: lib.zeros(5, 80)[:, ::2],
                                   lambda lib: lib.zeros(5, 40, dtype=lib.float64), lambda lib: lib.zeros(40, 5, dtype=lib.float16).t()])
def test_random_numbers_are_drawn_as_out_lies_in_memory(lib, place):
    """With the same seed out= gets what filling it in place would give it; so does the next number."""
    shape, ones = (5, 40), lib.ones(5, 40)
    drawn = [
        (lambda out: lib.rand(shape, out=out), lambda out: out.uniform_()),
        (lambda out: lib.randn(shape, out=out), lambda out: out.normal_()),
        (lambda out: lib.randn(shape, out=out, generator=lib.default_generator), lambda out: out.normal_()),
        (lambda out: lib.randint(100, shape, out=out), lambda out: out.random_(0, 100)),
        (lambda out: lib.randint(3, 100, shape, out=out), lambda out: out.random_(3, 100)),
        (lambda out: lib.normal(1., 2., shape, out=out), lambda out: out.normal_(1., 2.)),
        (lambda out: lib.normal(ones, 2., out=out), lambda out: out.normal_(0., 2.).add_(ones)),
        (lambda out: lib.normal(1., ones * 2, out=out), lambda out: out.normal_().mul_(2.).add_(1.)),
        (lambda out: lib.normal(ones, ones * 2, out=out), lambda out: out.normal_().mul_(2.).add_(ones))]
    for given, filled in drawn:
        outs = []
        for draw in given, filled:
            lib.manual_seed(3)
            out = place(lib)
            draw(out)
            outs.append((out, lib.rand(1)))
        (out, after), (expected, next_number) = outs
        assert lib.equal(out, expected) and lib.equal(after, next_number) and out.stride() == place(lib).stride()


def test_normal_says_that_it_resizes_its_out(lib):
    mean, std = lib.zeros(2, 2), lib.ones(2, 2)
    for draw in (lambda out: lib.normal(mean, std, out=out), lambda out: lib.normal(0., std, out=out)):
        for shape in ((2, 5), (3, 2, 2), (2, 1)):
            with pytest.warns(UserWarning, match="outputs will not be resized unless they have zero elements"):
                assert draw(lib.empty(shape)).shape == (2, 2)
        assert draw(lib.empty(0)).shape == draw(lib.empty(2, 2)).shape == (2, 2)


def test_normal_of_a_mean_and_a_number_takes_outs_shape_for_the_deviation(lib):
    mean = lib.zeros(2, 2)
    with pytest.warns(UserWarning, match="outputs will not be resized unless they have zero elements"):
        assert lib.normal(mean, 1., out=lib.empty(2, 1)).shape == (2, 2)
    assert lib.normal(mean, 1., out=lib.empty(3, 2, 2)).shape == (3, 2, 2)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(5\)"):
        lib.normal(mean, 1., out=lib.empty(2, 5))
