"""tede.compile's functions as functions, and which of their calls are made in a region: Note [Measured calls] in python/csrc/region.c."""
import copy
import gc
import inspect
import pickle
import weakref

import pytest
import tede
from tede import nn

MANY = 60       # calls of a kind, after which the way is chosen


@tede.compile
def scaled(x, by=2.):
    """Scaled."""
    return x * by + 1


class Layer:
    @tede.compile
    def forward(self, x):
        return x + self.bias

    bias = 3


def counted(function, *args, calls=MANY, **kwargs):
    """How many of the calls were in a region, and how many not."""
    before = tede.compiler.stats()
    for _ in range(calls):
        function(*args, **kwargs)
    after = tede.compiler.stats()
    return [after[name] - before[name] for name in ("regions", "direct_calls")]


def chain(x):
    for _ in range(6):
        x = (x * 1.01 + 0.1).relu() - 0.05
    return x


def test_it_looks_like_the_function():
    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Scaled." and scaled.__module__ == __name__
    assert list(inspect.signature(scaled).parameters) == ["x", "by"] and inspect.unwrap(scaled).__qualname__ == "scaled"
    assert repr(scaled) == f"<compiled {scaled.__wrapped__!r}>"
    scaled.mark = 5
    assert scaled.mark == 5 and weakref.ref(scaled)() is scaled
    del scaled.mark
    for same in copy.copy(scaled), copy.deepcopy(scaled), pickle.loads(pickle.dumps(scaled)):
        assert same is scaled


def test_it_becomes_a_method():
    layer = Layer()
    assert layer.forward(tede.tensor([1.])).item() == 4 and Layer.forward(layer, tede.tensor([2.])).item() == 5
    assert layer.forward.__self__ is layer


def test_arguments():
    x = tede.tensor([1.])
    assert scaled(x).item() == 3 and scaled(x, 4).item() == 5 and scaled(x=x, by=5).item() == 6
    for wrong in (), (x, 1, 2):
        with pytest.raises(TypeError, match="scaled"):
            scaled(*wrong)


def test_it_is_released_with_what_refers_to_it():
    def make():
        def f(x):
            return g(x) if x.numel() < 0 else x + 1
        g = tede.compile(f)
        g(tede.ones(3))
        return weakref.ref(g)
    alive = make()
    gc.collect()
    assert alive() is None


def test_small_calls_are_made_as_they_are():
    f = tede.compile(lambda x: x + 1)
    counted(f, tede.ones(2))
    assert counted(f, tede.ones(2)) == [0, MANY]
    regions, direct = counted(f, tede.ones(300), calls=10)          # another kind is measured again
    assert regions == 10 and not direct


def test_calls_that_a_region_makes_quicker_stay_there():
    f, x = tede.compile(chain), tede.rand(1000, 1000)
    regions, direct = counted(f, x)
    assert direct == 8 and regions == MANY - 8                      # measured, eight times as it is
    assert counted(f, x, calls=5) == [5, 0]


def test_ways_that_the_program_names_stay():
    for f in tede.compile(lambda x: x + 1, options={"tier": 1}), tede.compile(lambda x: x + 1, fullgraph=True):
        assert counted(f, tede.ones(2), calls=2 * MANY) == [2 * MANY, 0]


def test_all_calls_have_the_results_of_eager():
    def losses(wrap):
        tede.manual_seed(1)
        model = nn.Sequential(nn.Linear(40, 300), nn.GELU(), nn.Dropout(0.2), nn.Linear(300, 1))
        optimizer, x = tede.optim.AdamW(model.parameters()), tede.rand(64, 40)

        def step(x):
            optimizer.zero_grad()
            loss = (chain(model(x)) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss
        step = wrap(step)
        return [step(x).item() for _ in range(MANY)]
    assert losses(tede.compile) == losses(lambda f: f)


def test_an_error_is_no_measurement():
    def fails(x):
        if fail:
            raise ValueError("told to")
        return x + 1
    f, x = tede.compile(fails), tede.ones(2)
    for turn in range(2 * MANY):
        fail = turn % 2
        if fail:
            with pytest.raises(ValueError, match="told to"):
                f(x)
        else:
            assert f(x)[0].item() == 2


def test_calls_within_calls():
    @tede.compile
    def f(x, depth):
        return f(x, depth - 1) + 1 if depth else g(x) * 2

    g = tede.compile(lambda x: x - 1)
    for _ in range(MANY):
        for n in 3, 20_000:
            assert f(tede.full((n,), 5.), 3)[n - 1].item() == 11 and g(tede.ones(n)).sum().item() == 0
