"""Checkpointing: the same values and gradients, less kept, and what goes wrong said so."""
import warnings

import pytest


def checkpoint(lib, *args, **kwargs):
    from importlib import import_module
    return import_module(lib.__name__ + ".utils.checkpoint").checkpoint(*args, **kwargs)


def module(lib):
    from importlib import import_module
    return import_module(lib.__name__ + ".utils.checkpoint")


@pytest.fixture(params=[True, False], ids=["reentrant", "direct"])
def reentrant(request):
    return request.param


def test_the_same_gradients(lib, reentrant):
    w = lib.randn(4, 4, dtype=lib.float64, requires_grad=True)
    x = lib.randn(2, 4, dtype=lib.float64, requires_grad=True)

    def part(x):
        return lib.tanh(x @ w) @ w
    expected = lib.autograd.grad(part(x).sum(), [x, w])
    checkpoint(lib, part, x, use_reentrant=reentrant).sum().backward()
    assert lib.allclose(x.grad, expected[0]) and lib.allclose(w.grad, expected[1])


def test_the_part_runs_twice(lib, reentrant):
    calls = []

    def part(x):
        calls.append(lib.is_grad_enabled())
        return x.exp()
    x = lib.ones(2, requires_grad=True)
    y = checkpoint(lib, part, x, use_reentrant=reentrant)
    assert len(calls) == 1
    y.sum().backward()
    assert calls == [not reentrant, True]


def test_random_numbers_come_again(lib, reentrant):
    seen = []

    def part(x):
        noise = lib.rand(3)
        seen.append(noise.tolist())
        return (x * noise).exp()
    x = lib.ones(3, requires_grad=True)
    y = checkpoint(lib, part, x, use_reentrant=reentrant)
    after = lib.rand(1).item()
    y.sum().backward()
    assert seen[0] == seen[1]
    lib.manual_seed(0)
    checkpoint(lib, part, x, use_reentrant=reentrant)
    assert lib.rand(1).item() == after
    y = checkpoint(lib, part, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    assert seen[-1] != seen[-2]


def test_several_values_and_keywords(lib):
    def part(x, y, *, scale, none=None):
        return x * y * scale, x + y
    x, y = (lib.ones(2, requires_grad=True) for _ in range(2))
    a, b = checkpoint(lib, part, x, y, use_reentrant=False, scale=3.0)
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_grad_works_without_reentrance_only(lib):
    x = lib.ones(2, requires_grad=True)
    g, = lib.autograd.grad(checkpoint(lib, lambda x: x.exp().sin(), x, use_reentrant=False).sum(), x)
    assert g.shape == (2,)
    y = checkpoint(lib, lambda x: x.exp(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad\(\)"):
        lib.autograd.grad(y.sum(), x)


def test_parts_within_parts(lib):
    def inner(x):
        return x.exp().sin()

    def outer(x):
        return checkpoint(lib, inner, x.cos(), use_reentrant=False).tanh()
    x = lib.linspace(0, 1, 5, dtype=lib.float64).requires_grad_()
    expected, = lib.autograd.grad(inner(x.cos()).tanh().sum(), x)
    checkpoint(lib, outer, x, use_reentrant=False).sum().backward()
    assert lib.allclose(x.grad, expected)


def test_a_graph_is_kept(lib):
    x = lib.ones(2, requires_grad=True)
    y = checkpoint(lib, lambda x: x.exp().sin(), x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    single, = lib.autograd.grad(x.exp().sin().sum(), x)
    assert lib.allclose(x.grad, 2 * single)


def test_it_stops_when_all_is_there(lib):
    ran = []

    def part(x):
        y = x.exp()
        ran.append(1)
        z = y.sin()
        ran.append(2)
        return z + 1 - 1
    x = lib.ones(2, requires_grad=True)
    y = checkpoint(lib, part, x, use_reentrant=False)
    y.sum().backward()
    assert ran == [1, 2, 1]
    ran.clear()
    with module(lib).set_checkpoint_early_stop(False):
        y = checkpoint(lib, part, x, use_reentrant=False)
    y.sum().backward()
    assert ran == [1, 2, 1, 2]


def test_a_different_second_run(lib):
    count = [0]

    def fewer(x):
        count[0] += 1
        return x.exp().sin() if count[0] == 1 else x.exp()
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(module(lib).CheckpointError, match="A different number of tensors was saved during the original forward"):
        checkpoint(lib, fewer, x, use_reentrant=False).sum().backward()
    count[0] = 0

    def other(x):
        count[0] += 1
        return x.exp() if count[0] == 1 else lib.cat([x, x]).exp()
    with pytest.raises(module(lib).CheckpointError, match="have different metadata than during the forward pass"):
        checkpoint(lib, other, x, use_reentrant=False).sum().backward()


def test_debug_lists_the_operators(lib):
    count = [0]

    def part(x):
        count[0] += 1
        return x.exp().sin() if count[0] == 1 else x.exp()
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(module(lib).CheckpointError, match="Operations executed during the original forward"):
        checkpoint(lib, part, x, use_reentrant=False, debug=True).sum().backward()


def test_warnings_and_errors(lib):
    x = lib.ones(2)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lib, lambda x: x * 2, x, use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(lib, lambda x, scale: x, x, use_reentrant=True, scale=2)


def test_an_exception_leaves_no_hooks(lib):
    def part(x):
        x.exp()
        raise KeyError("mine")
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        checkpoint(lib, part, x, use_reentrant=False)
    x.exp().sum().backward()


def test_in_sequence(lib, nn, reentrant):
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    x = lib.randn(2, 3, requires_grad=True)
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = module(lib).checkpoint_sequential(model, 2, x, use_reentrant=reentrant)
    y.sum().backward()
    assert all(lib.allclose(p.grad, e) for p, e in zip(model.parameters(), expected))


def test_choosing_what_to_keep(lib):
    ops, m = lib.ops.aten, module(lib)
    ran = []

    def policy(ctx, op, *args, **kwargs):
        ran.append((ctx.is_recompute, op))
        return m.CheckpointPolicy.MUST_SAVE if op == ops.mm.default else m.CheckpointPolicy.PREFER_RECOMPUTE

    def part(x, w):
        return lib.sigmoid(lib.matmul(x, w)).sin()
    x, w = (lib.randn(3, 3, dtype=lib.float64, requires_grad=True) for _ in range(2))
    expected = lib.autograd.grad(part(x, w).sum(), [x, w])
    y = checkpoint(lib, part, x, w, use_reentrant=False, context_fn=lambda: m.create_selective_checkpoint_contexts(policy))
    got = lib.autograd.grad(y.sum(), [x, w])
    assert all(lib.allclose(a, b) for a, b in zip(got, expected))
    assert (False, ops.mm.default) in ran


def test_what_is_saved_comes_back_as_it_was_or_the_error_says_why(lib):
    checkpoint = lib.utils.checkpoint
    seen = []

    class Kept(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append(ctx.saved_tensors[0] is plain)
            with pytest.raises(RuntimeError, match="a tensor that was already unpacked once"):
                ctx.saved_tensors
            return gradient * 2, None
    a, plain = lib.ones(2, requires_grad=True), lib.ones(2)
    checkpoint.checkpoint(Kept.apply, a, plain, use_reentrant=False).sum().backward()
    assert seen == [True]
    runs = [lambda x: x.sin().exp(), lambda x: x.sin().exp().sin()]
    with checkpoint.set_checkpoint_early_stop(False), pytest.raises(RuntimeError, match="trying to save more tensors during recomputation"):
        checkpoint.checkpoint(lambda x: runs.pop(0)(x), a, use_reentrant=False).sum().backward()


def test_a_checkpointed_function_may_give_back_its_input(lib):
    import importlib
    checkpoint = importlib.import_module(lib.__name__ + ".utils.checkpoint").checkpoint
    for reentrant in (True, False):
        x = lib.ones(2, requires_grad=True)
        checkpoint(lambda a, b: a, x, None, use_reentrant=reentrant).sum().backward()
        same, twice = checkpoint(lambda a: (a, a * 2), x, use_reentrant=reentrant)
        (same + twice).sum().backward()
        assert x.grad.tolist() == [4, 4]


def test_a_function_that_gives_back_its_input_saves_it_with_its_history(lib):
    seen = []

    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            saved, = ctx.saved_tensors
            seen.append((saved.requires_grad, saved.is_leaf))
            return g * saved
    x = lib.tensor([3.0], requires_grad=True)
    Same.apply(x).backward()
    y = x * 2
    slope, = lib.autograd.grad(Same.apply(y), y, create_graph=True)
    assert seen == [(True, True), (True, False)] and lib.autograd.grad(slope, x)[0].item() == 2
