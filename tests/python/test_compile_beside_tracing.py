"""Programs that a recording made once, and replayed, gets wrong, as frameworks that trace a function at its first call do: control flow, hooks,
schedules and state. tede.compile runs Python at each call, and gives what the program gives without it, to the bit."""
import random

import pytest
import tede
from tede import nn
from tede.fx.experimental.proxy_tensor import make_fx


def tensor(*sizes):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes))) * 2 - 1


def traced(function):
    """What the function calls at its first call, on the arguments of each call."""
    graphs = []

    def replay(*args):
        if not graphs:
            graphs.append(make_fx(function)(*args))
        return graphs[0](*args)
    return replay


def branch_on_a_value(wrap):
    f = wrap(lambda x: x.exp() if x.sum() > 0 else x - 1)
    x = tensor(300, 100)
    return [f(x + 1), f(x - 1), f(x + 1)]


def loop_until_it_is_small(wrap):
    def f(x):
        while x.abs().max() > 1:
            x = x * 0.5
        return x
    f = wrap(f)
    return [f(tensor(300, 100) * scale) for scale in (0.5, 3, 90)]


def warm_up_by_a_counter(wrap):
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x * min(1, calls / 3) + 1
    f = wrap(f)
    return [f(tensor(300, 100)) for _ in range(4)]


def scheduled_learning_rate(wrap):
    w, x = tensor(100, 50).requires_grad_(), tensor(200, 100)
    optimizer = tede.optim.SGD([w], lr=0.5)
    scheduler = tede.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)

    def f(x):
        optimizer.zero_grad()
        ((x @ w).tanh() ** 2).mean().backward()
        optimizer.step()
        scheduler.step()
        return w.detach() * 1
    f = wrap(f)
    return [f(x) for _ in range(5)]


def hook_that_comes_later(wrap):
    layer, x = nn.Linear(100, 50), tensor(200, 100)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    f = wrap(lambda x: layer(x).relu().detach())
    results = [f(x)]
    hook = layer.register_forward_hook(lambda module, inputs, output: output * 2 + 1)
    results.append(f(x))
    hook.remove()
    return [*results, f(x)]


def gradients_clipped_every_other_call(wrap):
    calls = []

    def clip(grad):
        calls.append(len(calls))
        return grad.clamp(-0.1, 0.1) if len(calls) % 2 else grad

    def f(x):
        leaf = x.detach().requires_grad_()
        leaf.register_hook(clip)
        (leaf ** 3).sum().backward()
        return leaf.grad * 1
    f = wrap(f)
    return [f(tensor(200, 100)) for _ in range(3)]


def average_of_all_batches(wrap):
    norm = nn.BatchNorm1d(100, momentum=None)
    f = wrap(lambda x: norm(x).detach())
    return [*[f(tensor(300, 100) + i) for i in range(3)], norm.running_mean.clone(), norm.num_batches_tracked.clone()]


def layers_left_out_at_random(wrap):
    rng = random.Random(3)

    def f(x):
        for i in range(6):
            if rng.random() < 0.5:
                x = (x + i).sin()
        return x
    f = wrap(f)
    return [f(tensor(300, 100)) for _ in range(4)]


def training_and_evaluation(wrap):
    model = nn.Sequential(nn.BatchNorm1d(100), nn.Tanh())
    f = wrap(lambda x: model(x).detach())
    results = []
    for training in True, False, True, False:
        model.train(training)
        results.append(f(tensor(300, 100) * 3))
    return results


def cache_that_grows(wrap):
    keys = []

    def f(x):
        keys.append(x)
        return tede.softmax(x @ tede.cat(keys).t(), -1)
    f = wrap(f)
    return [f(tensor(100, 64) + i) for i in range(3)]


def losses_as_numbers(wrap):
    seen = []

    def f(x):
        seen.append((x * x).mean().item())
        return x / (1 + seen[-1])
    f = wrap(f)
    return [*[f(tensor(300, 100) * i) for i in range(1, 4)], tede.tensor(seen)]


def layers_that_are_replaced(wrap):
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    f = wrap(lambda x: model(x))
    results = [f(tensor(300, 100))]
    model[1] = nn.Sigmoid()
    model.append(nn.LeakyReLU())
    return [*results, f(tensor(300, 100))]


def skips_what_is_no_number(wrap):
    total = tede.zeros(300, 100)

    def f(x):
        y = x.log()
        if y.isnan().any():
            return total * 1
        total.add_(y)
        return total * 1
    f = wrap(f)
    return [f(tensor(300, 100) + shift) for shift in (2, 0, 3)]


# What a recording does with them: it can't be made or replayed, or gives other results without a word.
REFUSED = [branch_on_a_value, loop_until_it_is_small, scheduled_learning_rate, losses_as_numbers, skips_what_is_no_number]
WRONG = [warm_up_by_a_counter, hook_that_comes_later, gradients_clipped_every_other_call, average_of_all_batches, layers_left_out_at_random,
         training_and_evaluation, cache_that_grows, layers_that_are_replaced]


def agree(some, others):
    return len(some) == len(others) and all(tede.equal(a, b) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("tier", [0, 1])
@pytest.mark.parametrize("program", REFUSED + WRONG, ids=lambda program: program.__name__)
def test_compile_runs_the_program(program, tier):
    assert agree(program(lambda f: tede.compile(f, options={"tier": tier})), program(lambda f: f))


@pytest.mark.parametrize("program", REFUSED + WRONG, ids=lambda program: program.__name__)
def test_a_recording_does_not(program):
    if program in REFUSED:
        with pytest.raises(RuntimeError):
            program(traced)
    else:
        assert not agree(program(traced), program(lambda f: f))
