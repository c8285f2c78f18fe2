"""vmap of operators whose rule is easily got wrong: members must not see each other's memory, nested levels, 0-d members."""
import pytest


def test_a_strided_view_stays_within_its_member(lib):
    x = lib.arange(45.).reshape(3, 5, 3)
    assert lib.vmap(lambda a: a.as_strided((3,), (4,)))(x).tolist() == [[0, 4, 8], [15, 19, 23], [30, 34, 38]]
    assert lib.vmap(lambda a: a.as_strided((0,), (1,), 99))(x).shape == (3, 0)
    for size, stride, offset, reached in [((5, 3), (3, 1), 1, r"\[1, 16\]"), ((2, 15), (15, 1), 0, r"\[0, 30\]")]:
        with pytest.raises(RuntimeError, match=rf"`result` can access some memory in range {reached}, but `tensor` can only access some "
                                               r"memory in range \[0, 15\]. This is not supported inside of vmap"):
            lib.vmap(lambda a: a.as_strided(size, stride, offset))(x)
    with pytest.raises(RuntimeError, match="`tensor` has no storage"):
        lib.vmap(lambda a: a.as_strided((1,), (1,)))(lib.ones(3, 0))


@pytest.mark.parametrize("scatter, source", [
    (lambda lib, a, s: lib.diagonal_scatter(a, s), (2,)),
    (lambda lib, a, s: lib.select_scatter(a, s, 0, 1), (2,)),
    (lambda lib, a, s: lib.select_scatter(a, s, -1, 0), (2,)),
    (lambda lib, a, s: lib.slice_scatter(a, s, 1, 0, 1), (2, 1)),
])
def test_scatters_of_nested_batches(lib, scatter, source):
    """Whichever of the two has a batch, at either level."""
    a, s = lib.arange(16.).reshape(4, 2, 2), lib.arange(100., 104.).reshape(2, 2)[:, :1 if len(source) == 2 else 2]
    sources = lib.stack([s.reshape(source) if s.numel() == 2 else s[0].reshape(source), -lib.ones(source), 2 * lib.ones(source)])
    by_source = lib.vmap(lambda x: lib.vmap(lambda y: scatter(lib, x, y))(sources))(a)
    by_self = lib.vmap(lambda y: lib.vmap(lambda x: scatter(lib, x, y))(a))(sources)
    only_source = lib.vmap(lib.vmap(lambda y: scatter(lib, a[0], y)))(sources.expand(2, *sources.shape))
    for i in range(4):
        for k in range(3):
            expected = scatter(lib, a[i], sources[k]).tolist()
            assert by_source[i, k].tolist() == expected and by_self[k, i].tolist() == expected
            if i == 0:
                assert only_source[1, k].tolist() == expected


@pytest.mark.parametrize("call", [
    lambda lib, b: lib.float_power(b, 2), lambda lib, b: lib.float_power(2, b), lambda lib, b: lib.xlogy(b, 2),
    lambda lib, b: lib.xlogy(2., b), lambda lib, b: lib.special.zeta(b, 2), lambda lib, b: lib.remainder(b, 2),
    lambda lib, b: lib.pow(3, b), lambda lib, b: lib.special.xlog1py(b, 2.),
])
def test_members_without_dimensions_beside_numbers(lib, call):
    x = lib.tensor([1., 2., 3.])
    together = lib.vmap(lambda b: call(lib, b))(x)
    assert together.dtype == call(lib, x).dtype and together.tolist() == call(lib, x).tolist()


@pytest.mark.parametrize("call", [
    lambda x: x.squeeze_(0), lambda x: x.squeeze_(), lambda x: x.t_(), lambda x: x.transpose_(0, -1),
])
def test_shapes_of_members_without_dimensions_change_in_place(lib, call):
    assert lib.vmap(lambda x: call(x.clone()))(lib.ones(3)).shape == (3,)
    with pytest.raises(IndexError, match="Dimension out of range"):
        lib.vmap(lambda x: x.clone().transpose_(0, 1))(lib.ones(3))


def test_empty_members_with_strides(lib):
    made = lib.vmap(lambda x: x.new_empty_strided((2, 0), (5, 1)))(lib.ones(3))
    assert made.shape == (3, 2, 0) and made.stride() == (0, 5, 1)


def test_data_is_not_for_members_of_a_batch(lib):
    def replace(x):
        x.data = lib.ones(3)
        return x
    with pytest.raises(RuntimeError, match="accessing `data` under vmap transform is not allowed"):
        lib.vmap(lambda x: x.data)(lib.ones(2, 3))
    with pytest.raises(RuntimeError, match="mutating directly with `.data` under vmap"):
        lib.vmap(replace)(lib.ones(2, 3))


def test_lists_among_several_results_of_an_operator(lib):
    from typing import List, Tuple

    @lib.library.custom_op("tede_batches::halves", mutates_args=())
    def halves(x: lib.Tensor) -> Tuple[List[lib.Tensor], int]:
        return [x / 2, x / 2], 2
    halves.register_vmap(lambda info, dims, x: (halves(x), ([dims[0], dims[0]], None)))
    x = lib.ones(3, 2)
    assert type(halves(x)) is tuple and type(halves(x)[0]) is list and type(lib.ops.tede_batches.halves(x)[0]) is list
    first, second = lib.vmap(lambda x: tuple(halves(x)[0]))(x)
    assert first.tolist() == second.tolist() == [[0.5, 0.5]] * 3


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_one_row_have_the_shape_of_its_target(lib, reduction):
    F, x = lib.nn.functional, lib.arange(10.).reshape(2, 5)
    for target in (lib.tensor([[4], [2]]), lib.tensor([4, 2])):
        expected = lib.stack([F.multi_margin_loss(x[i], target[i], reduction=reduction) for i in range(2)])
        together = lib.vmap(lambda a, t: F.multi_margin_loss(a, t, reduction=reduction))(x, target)
        assert together.shape == expected.shape and together.tolist() == expected.tolist()
