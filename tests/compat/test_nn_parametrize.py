"""Tensors computed from others: parametrizations, the older norms by hooks, pruning, calls with other tensors."""
import copy
import pickle

import numpy
import pytest


def array(tensor):
    return numpy.array(tensor.detach().tolist())


def test_a_parametrized_weight_is_computed_when_read(lib, nn):
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

    m = nn.Linear(3, 3)
    original = m.weight
    P = nn.utils.parametrize
    P.register_parametrization(m, "weight", Symmetric())
    assert P.is_parametrized(m, "weight") and not P.is_parametrized(m, "bias")
    assert type(m).__name__ == "ParametrizedLinear" and P.type_before_parametrizations(m) is nn.Linear
    assert m.parametrizations.weight.original is original
    assert (array(m.weight) == array(m.weight).T).all()
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original"]
    with pytest.raises(RuntimeError, match="parametrization Symmetric does not implement right_inverse"):
        m.weight = lib.eye(3)
    with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"):
        pickle.dumps(m)
    twin = copy.deepcopy(m)
    assert array(twin.weight).tolist() == array(m.weight).tolist()
    with P.cached():
        assert m.weight is m.weight
    assert m.weight is not m.weight
    P.remove_parametrizations(m, "weight", leave_parametrized=False)
    assert type(m) is nn.Linear and m.weight is original


def test_a_parametrization_of_two_tensors(lib, nn):
    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x / 4, 3 * x / 4

    m = nn.Linear(2, 2)
    before = array(m.weight)
    nn.utils.parametrize.register_parametrization(m, "weight", Sum())
    assert [name for name, _ in m.named_parameters()] == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    numpy.testing.assert_allclose(array(m.weight), before, rtol=1e-6)
    m.weight = lib.eye(2)
    numpy.testing.assert_allclose(array(m.parametrizations.weight.original1), 0.75 * numpy.eye(2))
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        nn.utils.parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    nn.utils.parametrize.remove_parametrizations(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and array(m.weight).tolist() == [[1, 0], [0, 1]]


def test_parametrizations_may_not_change_shape_or_dtype(lib, nn):
    class Rows(nn.Module):
        def forward(self, x):
            return x[:1]

    class Halves(nn.Module):
        def forward(self, x):
            return x.half()

    m, register = nn.Linear(2, 2), nn.utils.parametrize.register_parametrization
    with pytest.raises(ValueError, match="may not change the shape of the tensor, unless `unsafe` flag"):
        register(m, "weight", Rows())
    with pytest.raises(ValueError, match="may not change the dtype of the tensor"):
        register(m, "weight", Halves())
    register(m, "weight", Rows(), unsafe=True)
    assert m.weight.shape == (1, 2)
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'x'"):
        register(m, "x", Rows())


@pytest.mark.parametrize("shape", [(4, 6), (4, 4), (6, 4)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal(lib, nn, shape, kind):
    m = nn.utils.parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind)
    w = array(m.weight)
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    numpy.testing.assert_allclose(product, numpy.eye(len(product)), atol=1e-5)
    m(lib.ones(1, shape[0])).sum().backward()
    assert m.parametrizations.weight.original.grad.shape == m.weight.shape


def test_weight_norm_reads_older_states(lib, nn):
    old = nn.Linear(3, 2)
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        nn.utils.weight_norm(old)
    new = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    x = lib.randn(4, 3)
    numpy.testing.assert_allclose(array(new(x)), array(old(x)), rtol=1e-5)
    assert new.parametrizations.weight.original0.shape == (2, 1)
    nn.utils.remove_weight_norm(old)
    assert sorted(old.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("kind", ["hook", "parametrization"])
def test_spectral_norm_makes_the_largest_singular_value_one(lib, nn, kind):
    apply = nn.utils.spectral_norm if kind == "hook" else nn.utils.parametrizations.spectral_norm
    m = apply(nn.Linear(5, 4), n_power_iterations=60)
    m(lib.ones(1, 5)).sum().backward()
    assert numpy.linalg.svd(array(m.weight))[1][0] == pytest.approx(1, abs=1e-3)
    m.eval()
    if kind == "hook":
        assert m.state_dict()._metadata[""] == {"version": 1, "spectral_norm": {"weight.version": 1}}
        nn.utils.remove_spectral_norm(m)
        assert not m._forward_pre_hooks and not m._state_dict_hooks
    else:
        nn.utils.parametrize.remove_parametrizations(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and numpy.linalg.svd(array(m.weight))[1][0] == pytest.approx(1, abs=1e-3)


def test_pruning_twice_prunes_what_is_left(lib, nn):
    from importlib import import_module
    prune = import_module(nn.__name__ + ".utils.prune")
    m = nn.Linear(4, 5)
    prune.l1_unstructured(m, "weight", 0.5)
    assert (m.weight == 0).sum() == 10 and sorted(m.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    prune.ln_structured(m, "weight", amount=2, n=2, dim=0)
    assert len(m._forward_pre_hooks) == 1 and len(next(iter(m._forward_pre_hooks.values()))) == 2
    assert (array(m.weight_mask).sum(1) == 0).sum() >= 2
    m(lib.ones(1, 4)).sum().backward()
    assert (array(m.weight_orig.grad)[array(m.weight_mask) == 0] == 0).all()
    kept = array(m.weight)
    prune.remove(m, "weight")
    assert array(m.weight).tolist() == kept.tolist() and not prune.is_pruned(m)
    for amount, error in ((-1, ValueError), (1.5, ValueError), ("x", TypeError)):
        with pytest.raises(error):
            prune.random_unstructured(m, "weight", amount)
    with pytest.raises(ValueError, match="should be smaller than the number of parameters to prune"):
        prune.random_unstructured(m, "weight", 21)
    assert list(m._parameters) == ["bias", "weight"]


def test_global_pruning_counts_over_all(lib, nn):
    from importlib import import_module
    prune = import_module(nn.__name__ + ".utils.prune")
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    with lib.no_grad():
        a.weight.copy_(lib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        b.weight.copy_(lib.tensor([[5.0, 6.0], [7.0, 0.5]]))
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=3)
    assert array(a.weight).tolist() == [[0, 0], [3, 4]] and array(b.weight).tolist() == [[5, 6], [7, 0]]


def test_calls_with_other_tensors(lib, nn):
    from importlib import import_module
    call = import_module(nn.__name__ + ".utils.stateless")._functional_call
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    m[1].weight = m[0].weight
    own = array(m[0].weight)
    given = {"0.weight": lib.eye(2), "0.bias": lib.zeros(2), "1.bias": lib.ones(2)}
    assert array(call(m, given, lib.ones(1, 2))).tolist() == [[2, 2]]       # the tied weight too
    assert array(m[0].weight).tolist() == own.tolist() and isinstance(m[1].weight, nn.Parameter)
    with pytest.raises(ValueError, match="functional_call got multiple values for keys"):
        call(m, {"0.weight": lib.eye(2), "1.weight": lib.ones(2, 2)}, lib.ones(1, 2))
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'x'.\n\tMissing key\(s\): '0.bias'"):
        call(m, {"0.weight": lib.eye(2), "x": lib.ones(1)}, lib.ones(1, 2), strict=True)
    n = nn.BatchNorm1d(2)
    buffers = {"running_mean": lib.zeros(2), "num_batches_tracked": lib.tensor(0)}
    call(n, buffers, lib.ones(3, 2))
    assert buffers["num_batches_tracked"] == 1 and n.num_batches_tracked == 0


def test_fused_batch_norm_gives_the_same(lib, nn):
    conv, bn = nn.Conv2d(2, 3, 2).eval(), nn.BatchNorm2d(3)
    bn(lib.randn(8, 3, 2, 2))
    bn.eval()
    x = lib.randn(2, 2, 4, 4)
    fused = nn.utils.fuse_conv_bn_eval(conv, bn)
    numpy.testing.assert_allclose(array(fused(x)), array(bn(conv(x))), atol=1e-5)
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        nn.utils.fuse_conv_bn_eval(conv.train(), bn)


def test_skip_init(lib, nn):
    m = nn.utils.skip_init(nn.Linear, 3, 2, dtype=lib.float64)
    assert m.weight.shape == (2, 3) and m.weight.dtype == lib.float64 and m.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(int)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("leave", [False, True])
def test_tensors_of_a_subclass_are_parametrized_and_left(lib, nn, swap, leave):
    """Of a parameter that becomes or was a wrapper; it stays the same object, with the class that it has to have."""
    parametrize = nn.utils.parametrize

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)

        def __init__(self, inner):
            self.inner = inner

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(inner, meta, size, stride):
            return Wrapper(inner["inner"])

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            result = function(*[x.inner if isinstance(x, Wrapper) else x for x in args], **(kwargs or {}))
            return Wrapper(result) if isinstance(result, lib.Tensor) else result

    class Wrap(nn.Module):
        def forward(self, x):
            return x if isinstance(x, Wrapper) else Wrapper(x)

    class WrapBefore(Wrap):
        def right_inverse(self, x):
            return Wrapper(x)

    class Unwrap(nn.Module):
        def forward(self, x):
            return x.inner

    def removed(rule, wrapped):
        module = nn.Linear(2, 2, bias=False)
        if wrapped:
            module.weight = nn.Parameter(Wrapper(module.weight.detach()))
        there = module.weight
        parametrize.register_parametrization(module, "weight", rule)
        original, computed = type(module.parametrizations.weight.original), type(module.weight)
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=leave)
        assert module.weight is there and isinstance(there, nn.Parameter) and there.requires_grad
        return original, computed, type(there)

    lib.__future__.set_swap_module_params_on_conversion(swap)
    try:
        assert removed(Unwrap(), True) == (Wrapper, lib.Tensor, nn.Parameter if leave else Wrapper)
        if swap:
            assert removed(Wrap(), False) == (nn.Parameter, Wrapper, Wrapper if leave else nn.Parameter)
            assert removed(WrapBefore(), False) == (Wrapper, Wrapper, Wrapper)
    finally:
        lib.__future__.set_swap_module_params_on_conversion(False)
