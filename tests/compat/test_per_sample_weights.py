"""Weights whose gradients are kept by sample: their functions, what they refuse, and modules called with them."""
import importlib

import pytest


@pytest.fixture
def weight(lib):
    kind = importlib.import_module(f"{lib.__name__}.nn.utils._expanded_weights").ExpandedWeight
    return lambda x, n=3, reduction="sum": kind(x, n, reduction)


@pytest.fixture
def per_sample(lib):
    return importlib.import_module(f"{lib.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads


@pytest.fixture
def utilities(lib):
    return importlib.import_module(f"{lib.__name__}.nn.utils._expanded_weights.expanded_weights_utils")


def _functions(lib, F):
    """Name: (function of input and parameters, input, parameters)."""
    x = lib.randn
    return {"linear": (F.linear, x(3, 2, 4), [x(5, 4), x(5)]),
            "conv": (lambda x, w, b: F.conv2d(x, w, b, padding="same"), x(3, 2, 4, 4), [x(2, 2, 3, 3), x(2)]),
            "groups": (lambda x, w, b: F.conv1d(x, w, b, stride=2, groups=2), x(3, 4, 5), [x(2, 2, 3), x(2)]),
            "layer norm": (lambda x, w, b: F.layer_norm(x, (4,), weight=w, bias=b), x(3, 2, 4), [x(4), x(4)]),
            "group norm": (lambda x, w, b: F.group_norm(x, 2, weight=w, bias=b), x(3, 4, 2), [x(4), x(4)]),
            "instance norm": (lambda x, w, b: F.instance_norm(x, lib.zeros(2), lib.ones(2), weight=w, bias=b), x(3, 2, 4), [x(2), x(2)]),
            # PyTorch's gradients by sample include the padding's
            "embedding": (lambda i, w: F.embedding(i, w, padding_idx=1 if lib.__name__ == "tede" else None), lib.tensor([[0, 1], [2, 2], [4, 0]]), [x(5, 3)]),
            "norms limited": (lambda i, w: F.embedding(i, w, None, 0.5), lib.tensor([[0, 1], [2, 2], [4, 0]]), [x(5, 3)])}


@pytest.mark.parametrize("name", ["linear", "conv", "groups", "layer norm", "group norm", "instance norm", "embedding", "norms limited"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_function_leaves_the_gradients_of_each_sample(lib, weight, name, reduction):
    lib.manual_seed(0)
    function, x, parameters = _functions(lib, lib.nn.functional)[name]
    parameters = [p.requires_grad_() for p in parameters]
    if x.is_floating_point():
        x.requires_grad_()
    result = function(x, *[weight(p, 3, reduction) for p in parameters])
    loss = getattr(result.square().flatten(1).sum(1), reduction)()
    loss.backward()
    assert all(p.grad is None for p in parameters)
    for i in range(3):
        alone = function(x[i:i + 1], *parameters)
        lib.testing.assert_close(result[i:i + 1], alone)
        wanted = lib.autograd.grad(alone.square().sum(), [*parameters, *([x] if x.requires_grad else [])])
        for p, grad in zip(parameters, wanted):
            lib.testing.assert_close(p.grad_sample[i], grad, rtol=1e-4, atol=1e-4)
        if x.requires_grad:
            lib.testing.assert_close(x.grad[i], wanted[-1][i] / (3 if reduction == "mean" else 1), rtol=1e-4, atol=1e-4)


def test_two_calls_add_up(lib, weight):
    x, w = lib.randn(3, 4), lib.randn(2, 4, requires_grad=True)
    F = lib.nn.functional
    (F.linear(x, weight(w)) + F.linear(2 * x, weight(w))).sum().backward()
    lib.testing.assert_close(w.grad_sample, 3 * x.unsqueeze(1).expand(3, 2, 4))


def test_what_expanded_weights_refuse(lib, weight):
    F, w = lib.nn.functional, lib.ones(2, 4, requires_grad=True)
    for match, call in {
            "cannot handle function": lambda: weight(w) + 1,
            "batch size matching input": lambda: F.linear(lib.ones(5, 4), weight(w)),
            "0 is not a valid batch size": lambda: F.linear(lib.ones(0, 4), weight(w, 1)),
            "Expanded Weights": lambda: F.linear(lib.ones(4), weight(w, 1)),
            "tensors that requires_grad": lambda: weight(lib.ones(2)),
            "same loss_reduction": lambda: F.linear(lib.ones(3, 4), weight(w), weight(lib.ones(2, requires_grad=True), 3, "mean")),
            "mixture": lambda: F.linear(lib.ones(3, 4), weight(w), lib.ones(2, requires_grad=True)).sum().backward()}.items():
        with pytest.raises(RuntimeError, match=match):
            call()


def test_helpers_of_functions(lib, weight, utilities):
    x = lib.randn(2, 3, 4, 5)
    lib.testing.assert_close(utilities.sum_over_all_but_batch_and_last_n(x, 1), x.sum((1, 2)))
    assert utilities.sum_over_all_but_batch_and_last_n(x, 3).shape == x.shape
    args, kwargs = utilities.standard_kwargs(("bias",), (1, 2, 3))
    assert (tuple(args), kwargs) == ((1, 2), {"bias": 3})
    w = lib.ones(2, 5, requires_grad=True)
    assert utilities.unpack_expanded_weight_or_tensor(weight(w)) is w and utilities.unpack_expanded_weight_or_tensor(4) is None
    assert utilities.forward_helper(lib.nn.functional.linear, (lib.ones(3, 5), weight(w)), {}).tolist() == [[5, 5]] * 3


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
def test_a_packed_sequence_leaves_gradients_per_sample(lib, per_sample, kind):
    """PyTorch's LSTM has no formula for one on its own."""
    class First(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = getattr(lib.nn, kind)(3, 4, bidirectional=True)

        def forward(self, x):
            return self.layer(x)[0]
    module, rows = First(), [lib.randn(4, 3), lib.randn(2, 3), lib.randn(1, 3)]
    per_sample(module, batch_size=3)(lib.nn.utils.rnn.pack_sequence(rows)).data.square().sum().backward()
    for i, row in enumerate(rows):
        wanted = lib.autograd.grad(module(row.unsqueeze(1)).square().sum(), list(module.parameters()))
        for p, grad in zip(module.parameters(), wanted):
            lib.testing.assert_close(p.grad_sample[i], grad, rtol=1e-4, atol=1e-5)


def test_a_modules_dropout_is_drawn_once(lib, per_sample):
    module = lib.nn.Sequential(lib.nn.Dropout(0.5), lib.nn.Linear(8, 1, bias=False))
    y = per_sample(module)(lib.ones(6, 8))
    y.sum().backward()
    lib.testing.assert_close(module[1].weight.grad_sample.squeeze(1) @ module[1].weight.detach().t(), y.detach())


def test_modules_without_parameters_and_arguments_that_hide_tensors(lib, per_sample):
    x = lib.randn(2, 3, requires_grad=True)
    per_sample(lib.nn.LayerNorm(3, elementwise_affine=False))(x).square().sum().backward()
    assert x.grad.shape == (2, 3)

    class Holder:
        tensor = lib.randn(4, 3)

    class Module(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = lib.nn.Linear(3, 2)

        def forward(self, holder, other):
            return self.linear(holder.tensor)
    module = Module()
    per_sample(module, batch_size=4)(Holder(), lib.ones(5)).sum().backward()
    assert module.linear.weight.grad_sample.shape == (4, 2, 3)
    with pytest.raises(RuntimeError, match="batch size matching input"):
        per_sample(Module())(Holder(), lib.ones(5))
