"""Objects of classes whose elements are elsewhere, made by a mode of all that operators give: what operators are made of mustn't look into them."""
import importlib

import pytest


def wrapping(lib):
    """A class whose objects hold a tensor, and a mode under which all results are such."""
    dispatch = importlib.import_module(lib.__name__ + ".utils._python_dispatch")
    tree = importlib.import_module(lib.__name__ + ".utils._pytree")

    class Held(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device, strides=inner.stride(),
                                                     storage_offset=inner.storage_offset(), requires_grad=inner.requires_grad)
            made._held = inner.detach()
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with Mode():
                return func(*args, **(kwargs or {}))

    class Mode(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            args, kwargs = tree.tree_map_only(Held, lambda x: x._held, (args, kwargs or {}))
            return tree.tree_map_only(lib.Tensor, Held, func(*args, **kwargs))
    return Held, Mode


def plain(x):
    return x._held if hasattr(x, "_held") else x


@pytest.mark.parametrize("name", ["inv", "cholesky", "lu_factor", "solve"])
def test_factorizations_are_checked_by_an_operator(lib, name):
    Held, Mode = wrapping(lib)
    x = lib.rand(3, 3) @ lib.rand(3, 3).t() + 3 * lib.eye(3)
    x = (x + x.t()) / 2
    function = getattr(lib.linalg, name)
    operands = (x, x) if name == "solve" else (x,)
    with Mode():
        made = function(*operands)
    expected = function(*operands)
    for got, want in zip(made, expected) if name == "lu_factor" else [(made, expected)]:
        lib.testing.assert_close(plain(got), want)
    singular = lib.ones(3, 3) if name != "cholesky" else -lib.eye(3)
    if name != "lu_factor":
        with Mode(), pytest.raises(RuntimeError, match="singular|not positive-definite"):
            function(*((singular, x) if name == "solve" else (singular,)))


def test_what_failed_is_said_in_the_name_of_the_function(lib):
    info = lib.tensor([0, 2], dtype=lib.int32)
    check = lib.ops.aten._linalg_check_errors.default
    check(lib.zeros(2, dtype=lib.int32), "linalg.inv", is_matrix=False)
    for name, words in [("linalg.inv", "linalg.inv: .Batch element 1.: The diagonal element 2 is zero"),
                        ("linalg.cholesky", "linalg.cholesky: .Batch element 1.: The factorization could not be completed"),
                        ("torch.linalg.solve", "torch.linalg.solve: .Batch element 1.: The solver failed")]:
        with pytest.raises(RuntimeError, match=words):
            check(info, name, is_matrix=False)


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout"])
def test_what_is_dropped_is_drawn_by_operators(lib, name):
    Held, Mode = wrapping(lib)
    function = getattr(lib.nn.functional, name)
    with Mode():
        made = function(lib.ones(40, 5), 0.5, True)
    assert isinstance(made, Held) and len(plain(made).unique()) == 2
    x = Held(lib.ones(40, 5).requires_grad_())
    function(x, 0.5, True).sum().backward()
    assert plain(x.grad).shape == (40, 5)


def test_gradients_of_bags_of_embeddings(lib):
    Held, _ = wrapping(lib)
    indices, weight = lib.tensor([[0, 1], [1, 1]]), lib.rand(3, 2)
    grads = []
    for made in (Held(weight.clone().requires_grad_()), weight.clone().requires_grad_()):
        lib.nn.functional.embedding_bag(indices, made).sum().backward()
        grads.append(plain(made.grad))
    lib.testing.assert_close(*grads)


def test_quantiles(lib):
    _, Mode = wrapping(lib)
    x = lib.rand(7)
    for function in (lib.quantile, lib.nanquantile):
        with Mode():
            made = function(x, 0.3)
        lib.testing.assert_close(plain(made), function(x, 0.3))


def test_saved_results_without_elements_are_unchanged(lib):
    """A class that puts its views where their operand lies counts no write of what is saved, empty or not."""
    dispatch = importlib.import_module(lib.__name__ + ".utils._python_dispatch")
    tree = importlib.import_module(lib.__name__ + ".utils._pytree")

    class Held(lib.Tensor):
        @staticmethod
        def __new__(cls, inner, requires_grad=False):
            made = lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride(), requires_grad=requires_grad)
            made._held = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = tree.tree_map_only(Held, lambda x: x._held, (args, kwargs or {}))
            made = tree.tree_map_only(lib.Tensor, Held, func(*inner[0], **inner[1]))
            if func is lib.ops.aten.detach.default:
                with dispatch.no_dispatch() if hasattr(dispatch, "no_dispatch") else lib._C._DisableTorchDispatch():
                    made.set_(func(*args, **(kwargs or {})))
            return made
    for shape in [(2, 3), (5, 0, 0), (0,)]:
        x = Held(lib.rand(shape), requires_grad=True)
        x.exp().sum().backward()
        lib.testing.assert_close(x.grad._held, x._held.exp())


def test_gradients_that_meet(lib):
    Held, _ = wrapping(lib)
    x = lib.rand(3, requires_grad=True)
    first, second = x * 2, x * 3
    grads = lib.autograd.grad([first, second], x, [lib.ones(3), Held(lib.ones(3))])
    assert plain(grads[0]).tolist() == [5, 5, 5]


def test_bits(lib):
    Held, _ = wrapping(lib)
    if lib.__name__ == "tede":
        extension = importlib.import_module("tede._extension")
        set_conj, set_neg = extension.find("_set_conj"), extension.find("_set_neg")
    else:
        set_conj, set_neg = lib._C._set_conj, lib._C._set_neg
    for x in (Held(lib.rand(2, dtype=lib.cfloat)), lib.rand(2, dtype=lib.cfloat)):
        for on in (True, True, False):
            set_conj(x, on)
            set_neg(x, on)
            assert x.is_conj() is on and x.is_neg() is on


def test_padding_keeps_the_class(lib):
    Held, _ = wrapping(lib)
    made = lib.nn.functional.pad(Held(lib.ones(2)), (1, 0))
    assert isinstance(made, Held) and plain(made).tolist() == [0, 1, 1]


def test_tangents_keep_the_class(lib):
    """Where what is written to has none yet."""
    Held, _ = wrapping(lib)
    forward = importlib.import_module(lib.__name__ + ".autograd.forward_ad")
    with forward.dual_level():
        x = forward.make_dual(lib.ones(3, 3), Held(lib.ones(3, 3)))
        for made in (lib.nn.functional.pad(x, (1, 1)), lib.zeros(3, 3).copy_(x)):
            tangent = forward.unpack_dual(made).tangent
            assert isinstance(tangent, Held) and plain(tangent).sum() == 9


def test_inverses_from_factors(lib):
    Held, Mode = wrapping(lib)
    factor = lib.tensor([[2., 0, 0], [1, 1, 0], [0, 1, 4]])
    with Mode():
        lib.testing.assert_close(plain(lib.cholesky_inverse(Held(factor))), factor.cholesky_inverse())
        with pytest.raises(RuntimeError, match="The diagonal element 2 is zero"):
            lib.cholesky_inverse(Held(factor * lib.tensor([1., 0, 1])))


def test_lengths_of_sequences_are_read(lib):
    Held, Mode = wrapping(lib)
    x, targets = lib.rand(5, 2, 4).log_softmax(-1), lib.tensor([[1, 2], [1, 2]])
    if lib.__name__ == "torch":
        pytest.skip("there is an operator that takes tensors there")
    with Mode(), pytest.raises(RuntimeError, match="pass them as integers"):
        lib.nn.functional.ctc_loss(x, targets, Held(lib.tensor([5, 5])), Held(lib.tensor([2, 2])))
    with Mode():
        made = lib.nn.functional.ctc_loss(x, targets, [5, 5], [2, 2])
    lib.testing.assert_close(plain(made), lib.nn.functional.ctc_loss(x, targets, [5, 5], [2, 2]))


def test_powers_within_operators(lib):
    """pow.Scalar is of a number to the power of a tensor, so a tensor to the power of a number is pow.Tensor_Scalar."""
    Held, _ = wrapping(lib)
    x, y = lib.rand(3, 2), lib.rand(3, 2)
    grads = []
    for made in (Held(x.clone().requires_grad_()), x.clone().requires_grad_()):
        lib.dist(made, y, 4).backward()
        lib.cdist(made, y, 3.0).sum().backward()
        grads.append(plain(made.grad))
    lib.testing.assert_close(*grads)
