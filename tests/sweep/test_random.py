"""Random operators: the same seed gives PyTorch's numbers bit for bit, whatever the operand's layout and dtype, and leaves the
generator as it does; on meta there are the same forms and errors. Without PyTorch the forms and errors are tested."""
import warnings

import pytest
import tede

try:
    import torch
except ImportError:
    torch = None

CALLS = {
    'uniform_': lambda lib, x: x.uniform_(-1, 2), 'normal_': lambda lib, x: x.normal_(1, 2), 'log_normal_': lambda lib, x: x.log_normal_(),
    'cauchy_': lambda lib, x: x.cauchy_(), 'exponential_': lambda lib, x: x.exponential_(2.0), 'geometric_': lambda lib, x: x.geometric_(0.3),
    'random_': lambda lib, x: x.random_(), 'random_.to': lambda lib, x: x.random_(100), 'random_.from': lambda lib, x: x.random_(1, 2),
    'bernoulli_': lambda lib, x: x.bernoulli_(0.3), 'bernoulli_.Tensor': lambda lib, x: x.bernoulli_(lib.full(x.shape, 0.3, device=x.device)),
    'bernoulli_.Tensor 0-d': lambda lib, x: x.bernoulli_(lib.tensor(0.4, device=x.device)),
    'bernoulli': lambda lib, x: lib.bernoulli(x), 'bernoulli.p': lambda lib, x: lib.bernoulli(x, 0.3), 'rand_like': lambda lib, x: lib.rand_like(x),
    'randn_like': lambda lib, x: lib.randn_like(x), 'randint_like': lambda lib, x: lib.randint_like(x, 100), 'poisson': lambda lib, x: lib.poisson(x * 9),
    'normal.Tensor_Tensor': lambda lib, x: lib.normal(x, x), 'normal.Tensor_float': lambda lib, x: lib.normal(x, 2.0),
    'normal.float_Tensor': lambda lib, x: lib.normal(2.0, x), 'multinomial': lambda lib, x: lib.multinomial(x, 2),
    'multinomial with replacement': lambda lib, x: lib.multinomial(x, 9, replacement=True), '_standard_gamma': lambda lib, x: lib._standard_gamma(x * 3),
    '_sample_dirichlet': lambda lib, x: lib._sample_dirichlet(x), 'binomial': lambda lib, x: lib.binomial((x * 20).round(), x / 2),
    'dropout': lambda lib, x: lib.dropout(x, 0.3, True), 'dropout_': lambda lib, x: lib.dropout_(x, 0.3, True),
    'feature_dropout': lambda lib, x: lib.feature_dropout(x, 0.3, True), 'alpha_dropout': lambda lib, x: lib.alpha_dropout(x, 0.3, True),
    'native_dropout': lambda lib, x: lib.native_dropout(x, 0.3, True), 'rrelu': lambda lib, x: lib.rrelu(x - 0.5, 0.1, 0.3, True),
    'fractional_max_pool2d': lambda lib, x: lib.nn.functional.fractional_max_pool2d(x, 2, output_size=2),
}
SHAPES = (3, 4), (4, 5, 6), (17,), (), (0, 3), (2, 3, 4, 5)
DTYPES = 'float32', 'float64', 'bfloat16', 'int64', 'bool'
LAYOUTS = {
    'contiguous': lambda make, shape: make(shape),
    'transposed': lambda make, shape: make(shape[::-1]).permute(*range(len(shape))[::-1]) if len(shape) > 1 else None,
    'turned': lambda make, shape: make((*shape[1:], shape[0])).permute(-1, *range(len(shape) - 1)) if len(shape) > 2 else None,
    'sliced': lambda make, shape: make([2 * n + 1 for n in shape])[(slice(1, None, 2),) * len(shape)] if shape else None,
    'expanded': lambda make, shape: make((1, *shape[1:])).expand(shape) if shape and shape[0] else None,
}


def operand(lib, layout, shape, dtype):
    def make(sizes):
        count = 1
        for n in sizes:
            count *= n
        return ((lib.arange(count) % 7 + 1) / 8).to(getattr(lib, dtype)).reshape(sizes)
    return LAYOUTS[layout](make, shape)


def outcome(lib, call, x):
    """(results, what is drawn next), or (the error's type, the words at its beginning)."""
    lib.manual_seed(7)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            result = call(lib, x)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return type(error), ' '.join(str(error).split()[:4])
    return list(result) if isinstance(result, tuple) else [result], lib.rand(2).tolist()


def seen(value):
    return [(str(x.dtype).rpartition('.')[2], tuple(x.shape), x.tolist()) for x in value] if isinstance(value, list) else value


def cases():
    for layout in LAYOUTS:
        for shape in SHAPES:
            for dtype in DTYPES:
                if operand(tede, layout, shape, dtype) is not None:
                    yield layout, shape, dtype


@pytest.mark.skipif(torch is None, reason='needs PyTorch')
@pytest.mark.parametrize('name', CALLS)
def test_the_numbers_are_pytorchs(name):
    for case in cases():
        want, then = outcome(torch, CALLS[name], operand(torch, *case))
        got, now = outcome(tede, CALLS[name], operand(tede, *case))
        if case[0] == 'expanded' and not isinstance(want, list):
            assert not isinstance(got, list), case      # of two reasons to refuse it either may be named
            continue
        assert (seen(got), now) == (seen(want), then), case
        if isinstance(got, list):
            assert [x.stride() for x in got if x.numel() > 1] == [x.stride() for x in want if x.numel() > 1], case


@pytest.mark.parametrize('name', CALLS)
def test_meta_gives_the_same_forms_and_errors(name):
    for case in cases():
        want, then = outcome(tede, CALLS[name], operand(tede, *case))
        x = operand(tede, *case)
        before = tede.memory.stats()['allocated']
        on_meta = tede.empty_strided(x.shape, x.stride(), dtype=x.dtype, device='meta')
        got, now = outcome(tede, CALLS[name], on_meta)
        if isinstance(got, list) and isinstance(want, list):
            assert all(y.is_meta for y in got) and tede.memory.stats()['allocated'] - before < 8192, case
            got, want = ([(y.shape, y.stride(), y.dtype) for y in ys] for ys in (got, want))
        elif want is NotImplementedError and isinstance(got, list):
            continue        # the CPU has no kernel for the dtype
        assert got == want, (case, now, then)
