"""What functions under transforms must not do, in PyTorch's words; and how their tensors are printed."""
import pytest


def x_of(lib):
    return lib.tensor([1., 2., 3.])


DATA = {
    "nonzero": (lambda lib, x: x.nonzero(), "can output dynamic shape. Attempted to vmap over aten::nonzero"),
    "unique": (lambda lib, x: x.unique(), "Attempted to vmap over aten::_unique2"),
    "where": (lambda lib, x: lib.where(x), "Attempted to vmap over aten::where"),
    "masked_select": (lambda lib, x: x.masked_select(x > 0), "Attempted to vmap over `mask` in torch.masked_select"),
    "mask": (lambda lib, x: x[x > 0], "Attempting to batch over indexing with a boolean mask"),
    "bincount": (lambda lib, x: lib.bincount(x.long()), "stack expects each tensor to be equal size"),
    "item": (lambda lib, x: x[0].item(), r"calling .item\(\) on a Tensor"),
    "if": (lambda lib, x: 1 if x[0] > 0 else 2, "data-dependent control flow"),
    "equal": (lambda lib, x: lib.equal(x, x), "Batching rule not implemented for aten::equal"),
    "allclose": (lambda lib, x: lib.allclose(x, x), "vmap over torch.allclose isn't supported yet"),
    "out": (lambda lib, x: lib.add(x, x, out=lib.zeros(2)), "Batching rule not implemented for aten::add.out"),
    "captured": (lambda lib, x: lib.zeros(2).copy_(x), r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DATA)
def test_members_of_different_shapes_and_values(lib, name):
    function, words = DATA[name]
    with pytest.raises(RuntimeError, match=words):
        lib.func.vmap(lambda x: function(lib, x))(lib.tensor([[1., 0.], [2., 2.]]))


@pytest.mark.parametrize("api", ["grad", "vjp", "jvp"])
@pytest.mark.parametrize("write", ["copy_", "add_"])
def test_a_captured_tensor_is_not_written(lib, api, write):
    captured, x = lib.zeros(3), x_of(lib)

    def function(x):
        getattr(captured, write)(x)
        return (x * captured).sum()
    with pytest.raises(RuntimeError, match=rf"in-place operation \(aten::{write}.*that would mutate a captured Tensor"):
        {"grad": lambda: lib.func.grad(function)(x), "vjp": lambda: lib.func.vjp(function, x),
         "jvp": lambda: lib.func.jvp(function, (x,), (x,))}[api]()

    def own(x):
        made = lib.zeros(3)
        made.copy_(x)
        made[lib.tensor([0, 1])] = 1
        return (x * made).sum()
    assert lib.func.grad(own)(x).tolist() == [1, 1, 6]


@pytest.mark.parametrize("aux", [1, "a", None])
def test_what_comes_beside_is_tensors(lib, aux):
    x, func = x_of(lib), lib.func
    for call in (lambda: func.grad(lambda x: (x.sum(), [x, aux]), has_aux=True)(x), lambda: func.vjp(lambda x: (x, aux), x, has_aux=True),
                 lambda: func.jvp(lambda x: (x, aux), (x,), (x,), has_aux=True), lambda: func.jacrev(lambda x: (x, aux), has_aux=True)(x),
                 lambda: func.jacfwd(lambda x: (x, aux), has_aux=True)(x)):
        with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type"):
            call()


def test_structures_of_tangents(lib):
    x = x_of(lib)
    for tangents in (x, [x]):
        with pytest.raises(RuntimeError, match="same python structure"):
            lib.func.jvp(lib.sin, (x,), tangents)
    with pytest.raises(RuntimeError, match="be a tuple"):
        lib.func.jvp(lib.sin, x, (x,))


def test_jacobians_of_numbers(lib):
    x = lib.tensor(2.)
    for jacobian in lib.func.jacrev, lib.func.jacfwd:
        assert jacobian(lambda x: x ** 3)(x).item() == 12 and jacobian(lambda x: x ** 3)(x).shape == ()


def test_no_hooks_for_saved_tensors(lib):
    x = x_of(lib)

    def function(x):
        with lib.autograd.graph.save_on_cpu():
            return x.sin().sum()
    for transform in "grad", "jacrev", "grad_and_value", "hessian":
        with pytest.raises(RuntimeError, match="saved tensor hooks"):
            getattr(lib.func, transform)(function)(x)
        with pytest.raises(RuntimeError, match="saved tensor hooks"), lib.autograd.graph.save_on_cpu():
            getattr(lib.func, transform)(lambda x: x.sin().sum())(x)
    assert lib.allclose(lib.func.jvp(function, (x,), (x,))[1], (x * x.cos()).sum())


def test_retain_grad_inside(lib):
    def function(x):
        x.sin().retain_grad()
        return x.sum()
    with pytest.raises(RuntimeError, match=r"Tensor.retain_grad\(\)"):
        lib.func.grad(function)(x_of(lib))


def test_tensors_of_a_level_are_printed_with_it(lib):
    seen, func = [], lib.func

    def look(x):
        seen.append(repr(x))
        return x.sum()
    func.grad(look)(lib.ones(2))
    func.vmap(look)(lib.ones(2, 1))
    func.vmap(func.grad(look))(lib.ones(2, 1))
    assert seen == [
        "GradTrackingTensor(lvl=1, value=\n    tensor([1., 1.])\n)",
        "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1.],\n            [1.]])\n)",
        "GradTrackingTensor(lvl=2, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[1.],\n                [1.]])\n    )\n)"]


def test_lists_are_written_to_under_grad(lib):
    """Lists of tensors are written to freely under a derivative."""
    def product(z):
        parts = [z * 2, z * 3]
        lib._foreach_mul_(parts, 2.0)
        return (parts[0] * parts[1]).sum()
    assert lib.func.grad(product)(lib.ones(2)).tolist() == [48.0, 48.0]
    assert lib.func.jvp(product, (lib.ones(2),), (lib.ones(2),))[1].item() == 96


@pytest.mark.parametrize("name", ["eigvalsh", "inv", "svdvals", "cholesky", "matrix_exp", "slogdet", "det", "qr", "lu_factor"])
def test_a_batch_of_vectors_is_no_matrix(lib, name):
    with pytest.raises(RuntimeError, match="2( or more)? dimensions"):
        lib.func.vmap(getattr(lib.linalg, name))(lib.eye(3))
    with pytest.raises(RuntimeError):
        lib.func.vmap(lambda x: lib.nn.functional.pad(x, (1, 1, 1, 1)))(lib.eye(3))
    with pytest.raises(RuntimeError):
        lib.func.vmap(lib.view_as_complex)(lib.ones(2))


@pytest.mark.parametrize("name", ["pinv", "matrix_rank"])
def test_singular_values_of_a_batch_of_vectors(lib, name):
    with pytest.raises(RuntimeError):
        lib.func.vmap(getattr(lib.linalg, name))(lib.eye(3))


def test_products_of_a_batch_are_refused_as_those_of_a_member(lib):
    vectors, matrices = lib.ones(2, 3), lib.ones(2, 3, 3)
    for call in (lambda: lib.func.vmap(lib.addmm)(vectors, vectors, matrices), lambda: lib.func.vmap(lib.addmv)(vectors, vectors, matrices),
                 lambda: lib.func.vmap(lib.baddbmm)(vectors, vectors, matrices), lambda: lib.func.vmap(lib.matmul)(lib.ones(2), lib.ones(2, 1, 3)),
                 lambda: lib.func.vmap(lambda x: x.unbind())(lib.ones(2)), lambda: lib.func.vmap(lib.bucketize)(vectors, lib.ones(2)),
                 lambda: lib.func.vmap(lambda x, y: x.clone().eq_(y))(vectors, lib.ones(2, 1, 3))):
        with pytest.raises((RuntimeError, IndexError)):
            call()


REFUSED_IN_A_MEMBER = {
    "take": (lambda lib: lib.func.vmap(lib.take)(rows_of(lib), lib.tensor([[1], [3]])), "out of range|tried to access index 3"),
    "take from the end": (lambda lib: lib.func.vmap(lib.take)(rows_of(lib), lib.tensor([[1], [-4]])), "tried to access index -4"),
    "put": (lambda lib: lib.func.vmap(lambda x, i: x.put(i, lib.ones(1)))(rows_of(lib), lib.tensor([[3], [1]])), "tried to access index 3"),
    "masked_scatter": (lambda lib: lib.func.vmap(lambda x, s: x.masked_scatter(x >= 0, s))(rows_of(lib), lib.ones(2, 2)), "Number of elements of source"),
    "embedding": (lambda lib: lib.func.vmap(lib.nn.functional.embedding)(lib.tensor([[0], [3]]), lib.ones(2, 3, 2)), "index out of range in self"),
    "index_add": (lambda lib: lib.func.vmap(lambda x, i: x.index_add(0, i, lib.ones(1)))(rows_of(lib), lib.tensor([[0], [-1]])), "index out of range"),
    "probabilities": (lambda lib: lib.func.vmap(lib.nn.functional.binary_cross_entropy)(lib.tensor([[.5], [1.5]]), lib.ones(2, 1)), "between 0 and 1"),
    "quantile": (lambda lib: lib.func.vmap(lambda x, q: lib.quantile(x, q))(rows_of(lib), lib.tensor([.5, -.5])), "in the range \\[0, 1\\]"),
    "inv": (lambda lib: lib.func.vmap(lib.linalg.inv)(lib.stack([lib.eye(2), lib.zeros(2, 2)])), "Batch element 1.*singular"),
    "cholesky": (lambda lib: lib.func.vmap(lib.linalg.cholesky)(lib.stack([lib.eye(2), -lib.eye(2)])), "Batch element 1.*positive-definite"),
    "solve": (lambda lib: lib.func.vmap(lib.linalg.solve)(lib.stack([lib.eye(2), lib.zeros(2, 2)]), lib.ones(2, 2)), "Batch element 1.*singular"),
    "eig": (lambda lib: lib.func.vmap(lib.linalg.eigvals)(lib.stack([lib.eye(2), lib.full((2, 2), float("inf"))])), "infs or NaNs"),
}


def rows_of(lib):
    return lib.arange(6.).reshape(2, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED_IN_A_MEMBER)
def test_values_of_each_member_are_checked(lib, name):
    call, words = REFUSED_IN_A_MEMBER[name]
    if lib.__name__ == "torch" and name == "embedding":
        pytest.skip("finds the row in the next member's table, except in the last")
    with pytest.raises((RuntimeError, IndexError), match=words):
        call(lib)


def test_checks_of_members_keep_what_is_right(lib):
    vmap, x = lib.func.vmap, rows_of(lib)
    assert vmap(lib.take)(x, lib.tensor([[-1, 0], [1, -3]])).tolist() == [[2, 0], [4, 3]]
    assert vmap(lambda x, i: x.put(i, lib.tensor([9.])))(x, lib.tensor([[-1], [1]])).tolist() == [[0, 1, 9], [3, 9, 5]]
    assert vmap(lib.nn.functional.embedding)(lib.tensor([[0], [2]]), lib.arange(6.).reshape(2, 3, 1)).tolist() == [[[0]], [[5]]]
    assert vmap(lib.linalg.inv)(lib.stack([lib.eye(2), 2 * lib.eye(2)])).tolist() == [[[1, 0], [0, 1]], [[.5, 0], [0, .5]]]
    p, t = lib.tensor([[.5], [.25]]), lib.ones(2, 1)
    assert vmap(lib.nn.functional.binary_cross_entropy)(p, t).tolist() == (-p.log()).flatten().tolist()


@pytest.mark.filterwarnings("ignore")
def test_lengths_of_each_member_are_used(lib):
    steps, labels = lib.zeros(2, 5, 2, 4).log_softmax(-1), lib.ones(2, 2, 2, dtype=lib.long)
    inputs, targets = lib.tensor([[5, 5], [4, 4]]), lib.tensor([[2, 2], [1, 1]])
    found = lib.func.vmap(lib.nn.functional.ctc_loss)(steps, labels, inputs, targets)
    each = [lib.nn.functional.ctc_loss(*row) for row in zip(steps, labels, inputs, targets)]
    lib.testing.assert_close(found, lib.stack(each))


def test_ranks_of_all_members_decide_about_residuals(lib):
    full, less = lib.tensor([[1., 0], [0, 1], [1, 1]]), lib.ones(3, 2)
    b = lib.arange(6.).reshape(2, 3, 1)
    def residuals(a):
        return lib.func.vmap(lambda a, b: lib.linalg.lstsq(a, b, driver="gelsd").residuals)(a, b)
    assert residuals(lib.stack([full, less])).numel() == 0
    assert residuals(lib.stack([full, full])).shape == (2, 1)


def test_positions_of_a_split_are_no_batch(lib):
    with pytest.raises(RuntimeError):
        lib.func.vmap(lambda x, i: x.tensor_split(i)[0])(rows_of(lib), lib.tensor([[1], [2]]))


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
def test_random_numbers_into_what_is_given(lib, randomness):
    given = lib.zeros(3)
    calls = (lambda x: lib.randn(3, out=given), lambda x: lib.normal(given, given, out=given), lambda x: lib.normal(0., 1., (3,), out=given),
             lambda x: lib.bernoulli(given, out=given), lambda x: lib.randperm(3, out=lib.zeros(3, dtype=lib.int64)))
    for call in calls:
        with pytest.raises(RuntimeError, match="vmap: We do not support calling out variants of random operations inside of vmap"):
            lib.func.vmap(call, randomness=randomness)(lib.zeros(2, 3))
    assert given.tolist() == [0, 0, 0]
