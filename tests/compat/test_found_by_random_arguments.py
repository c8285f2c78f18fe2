"""What random arguments to every function, and random programs of modules, transforms and contexts, have found, on both libraries."""
import copy

import pytest


def refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_list_of_ints_may_be_a_tensor_of_one(lib):
    x, one = lib.arange(6.).reshape(2, 3), lib.tensor([1])
    assert lib.equal(x.roll(one, 1), x.roll(1, 1)) and lib.equal(x.sum(lib.tensor([[1]])), x.sum(1))
    assert lib.equal(x.sum((lib.tensor([0]), lib.tensor(1))), x.sum()) and lib.equal(x.flip(one), x.flip(1))
    assert x.reshape(lib.tensor([6])).shape == (6,) and lib.zeros(lib.tensor([3])).shape == (3,)
    assert x.expand(lib.tensor([2]), 3).shape == (2, 3) and lib.equal(x.roll(lib.tensor([True]), 1), x.roll(1, 1))
    assert lib.nn.functional.max_pool2d(lib.ones(1, 1, 4, 4), lib.tensor([2])).shape == (1, 1, 2, 2)
    for bad in lib.tensor([1, 0]), lib.tensor([1.]), lib.tensor([], dtype=lib.int64):
        refused(lambda: x.roll(bad, 1), TypeError, 'must be tuple of ints, not Tensor')     # noqa: B023
    refused(lambda: x.select(one, 0), TypeError, 'must be int, not Tensor')
    refused(lambda: x.cumsum(one), TypeError, 'must be int, not Tensor')


@pytest.mark.parametrize('name', ['float', 'half', 'byte', 'bool', 'cdouble'])
def test_conversions_look_at_the_memory_format(lib, name):
    for bad in 2.5, 1, 'x', lib.tensor(1):
        refused(lambda: getattr(lib.ones(2), name)(memory_format=bad), TypeError, "'memory_format' must be torch.memory_format, not ")  # noqa: B023
    assert getattr(lib.ones(2), name)(memory_format=None).shape == (2,)


@pytest.mark.parametrize('value', [1, None, 'x'])
def test_nonzero_takes_a_bool(lib, value):
    refused(lambda: lib.nonzero(lib.ones(2), as_tuple=value), TypeError, "'as_tuple' must be bool, not ")
    refused(lambda: lib.ones(2).nonzero(as_tuple=value), TypeError, "'as_tuple' must be bool, not ")


def test_padding_cuts_off_what_there_is(lib):
    pad = lib.nn.functional.pad
    for size, widths in ((0, [-1, 1]), (1, [-2, 2]), (3, [4, -4]), (3, [-2, -2]), (3, [-4, 1])):
        refused(lambda: pad(lib.ones(size), widths), RuntimeError, r'narrow\(\): length must be non-negative')     # noqa: B023
    assert pad(lib.ones(3), [-3, 4]).tolist() == [0] * 4 and pad(lib.ones(3), [-1, -2]).shape == (0,)
    x = lib.arange(12.).reshape(3, 2, 2).permute(2, 0, 1).requires_grad_()
    cut = pad(x, [0, -1])
    assert cut.stride() == (1, 2, 2) and pad(x, [0, 0]).stride() == (1, 4, 2) and pad(x, [0, 1]).stride() == (9, 3, 1)
    assert lib.equal(cut, x[..., :1]) and cut.data_ptr() != x.data_ptr()
    assert pad(lib.ones(1, 3), [0, -1]).stride() == (3, 1)
    cut.sum().backward()
    assert x.grad.sum() == 6


def test_windows_of_a_fractional_pool_that_has_none(lib):
    assert lib.nn.functional.fractional_max_pool2d(lib.ones(3, 2, 1), 2, output_size=(1, 0)).shape == (3, 1, 0)
    refused(lambda: lib.nn.functional.fractional_max_pool2d(lib.ones(3, 2, 1), 3, output_size=(1, 0)), RuntimeError, 'too large relative to input')


@pytest.mark.parametrize('ord', [1, 2, -1, 'nuc', float('inf')])
def test_matrix_norms_in_another_dtype(lib, ord):
    norm, x = lib.linalg.matrix_norm, lib.ones(2, 2)
    refused(lambda: norm(x, ord, dtype=lib.complex64), RuntimeError, 'dtype should be real for real inputs')
    refused(lambda: norm(x.to(lib.complex64), ord, dtype=lib.float32), RuntimeError, 'dtype should be complex for complex inputs')
    refused(lambda: norm(x.double(), ord, dtype=lib.float32), RuntimeError, 'convertible without narrowing')
    assert norm(x, ord, dtype=lib.float64).dtype is lib.float64


def test_results_that_are_new_and_that_are_not(lib):
    x, y = lib.ones(()), lib.ones(2, 3)
    assert x.sum_to_size([]).data_ptr() != x.data_ptr() and y.sum_to_size(2, 3).data_ptr() == y.data_ptr()
    first, second = lib.broadcast_tensors(y, lib.ones(3))
    assert first is y and second.shape == (2, 3)
    rows, columns = lib.unravel_index(lib.tensor([[0, 4, 11]]), (4, 3))
    assert rows.tolist() == [[0, 1, 3]] and columns.tolist() == [[0, 1, 2]] and rows.stride() == (6, 2)
    assert lib.unravel_index(lib.tensor([0]), ()) == ()


def test_numbers_on_other_devices_are_the_cpus(lib):
    number = lib.ones((), device='meta')
    for call in (lambda: lib.ones(3) + number, lambda: number + lib.ones(3), lambda: lib.prelu(lib.ones(3), number),
                 lambda: lib.where(lib.ones(3) > 0, number, 1.)):
        refused(call, RuntimeError, 'device')
    assert (lib.ones(3, device='meta') + lib.ones(())).device.type == 'meta' and (number + lib.ones(())).device.type == 'meta'


# ---- checkpoints

def checkpointed(lib, function):
    from importlib import import_module
    run = import_module(lib.__name__ + '.utils.checkpoint').checkpoint
    return lambda x: run(function, x, use_reentrant=False)


def test_a_checkpoint_that_fails_leaves_no_hooks(lib):
    def failing(x):
        x.sin()
        raise KeyError('failing')
    x = lib.ones(3, requires_grad=True)
    with pytest.raises(KeyError) as kept:       # with its traceback, and so the frames that it went through
        checkpointed(lib, failing)(x)
    y = (x * x).sum()
    saved = y.grad_fn.next_functions[0][0]._saved_self
    assert kept and (saved is x if lib.__name__ == 'tede' else saved.data_ptr() == x.data_ptr())
    assert lib.func.grad(lambda x: x.sin().sum())(copy.deepcopy(x).detach()).shape == (3,)


def test_checkpoints_under_transforms(lib):
    x, part = lib.arange(6.).reshape(2, 3), checkpointed(lib, lib.sin)
    assert lib.equal(lib.func.vmap(part)(x), x.sin())
    lib.testing.assert_close(lib.func.jvp(part, (x,), (lib.ones_like(x),))[1], x.cos())
    lib.testing.assert_close(lib.func.jacfwd(part)(x[0]), x[0].cos().diag())


CHECKED = {
    'inv': lambda lib, x: lib.linalg.inv(x), 'cholesky': lambda lib, x: lib.linalg.cholesky(x), 'lu_factor': lambda lib, x: lib.linalg.lu_factor(x)[0],
    'solve': lambda lib, x: lib.linalg.solve(x, x), 'cholesky_inverse': lambda lib, x: lib.cholesky_inverse(x),
    'quantile': lambda lib, x: lib.quantile(lib.ones(3), x[0, 0] / 4), 'cov': lambda lib, x: lib.cov(x, aweights=x.sum(0))}


@pytest.mark.parametrize('name', ['inv', 'cholesky', 'lu_factor', 'solve'])
def test_matrices_under_two_transforms_are_checked(lib, name):
    """A check of values meets a batch, or a level, of objects that have no elements of their own."""
    x = lib.eye(3).expand(2, 3, 3) * lib.tensor([2., 4.]).reshape(2, 1, 1)
    for transform in lib.func.vmap, lib.func.jacrev:
        inner = transform(lambda x: CHECKED[name](lib, x))
        lib.testing.assert_close(lib.func.functionalize(inner)(x), inner(x))


@pytest.mark.parametrize('name', ['quantile', 'cov', 'cholesky_inverse'])
def test_other_checks_of_values_under_two_transforms(name):
    """PyTorch has no batches of these, and a failed assertion for functional tensors of functional ones."""
    import tede
    x = tede.eye(3).expand(2, 3, 3) * tede.tensor([2., 4.]).reshape(2, 1, 1)
    inner = tede.func.vmap(lambda x: CHECKED[name](tede, x))
    outer = tede.func.functionalize(inner)
    tede.testing.assert_close(outer(x), inner(x))
    tede.testing.assert_close(tede.func.functionalize(outer)(x), inner(x))


def test_an_index_out_of_bounds_of_which_nothing_is_read(lib):
    x = lib.zeros(3, 2)
    assert x[:0, [5]].shape == (0, 1) and lib.zeros(0, 2)[:, [5]].shape == (0, 1)
    x[:0, None, [5]] = 1.
    assert not x.any()
    with pytest.raises(IndexError, match="out of bounds"):
        x[:0][lib.tensor([0])]
    with pytest.raises(IndexError, match="out of bounds"):
        x[:1, [5]]


@pytest.mark.parametrize("name", ["var_mean", "std_mean"])
def test_a_mean_beside_a_variance_of_one_element_has_its_gradient(lib, name):
    for used, wanted in ((1, False), (0, True)):
        x = lib.tensor([-1.75], requires_grad=True)
        getattr(lib, name)(x)[used].sum().backward()
        assert bool(x.grad.isnan()) == wanted
    x = lib.tensor([[1., 2., 4.], [0., 1., 0.]], dtype=lib.float64, requires_grad=True)
    assert lib.autograd.gradcheck(lambda x: getattr(lib, name)(x, 1), x)
    assert lib.autograd.gradgradcheck(lambda x: getattr(lib, name)(x, 1), x)


def test_counts_of_nothing_are_integers(lib):
    none = lib.tensor([], dtype=lib.int64)
    for minlength in 0, 3:
        counts = none.bincount(weights=lib.tensor([], dtype=lib.float64), minlength=minlength)
        assert counts.dtype is lib.int64 and counts.tolist() == [0] * minlength


def test_the_cloned_coefficient_has_the_batch_of_the_solution(lib):
    solution, clone = lib.triangular_solve(lib.ones(2, 1, 2, 3), lib.tensor([[1., 2.], [0., 4.]]).expand(5, 2, 2))
    assert solution.shape == (2, 5, 2, 3) and clone.shape == (2, 5, 2, 2) and clone[1, 4].tolist() == [[1., 2.], [0., 4.]]


def test_a_cross_product_is_not_written_over_its_operand(lib):
    for cross in lib.linalg.cross, lib.cross:
        x, y = lib.tensor([[1., 0., 0.]]), lib.tensor([[0., 1., 0.]])
        for out in x, y:
            refused(lambda: cross(x, y, out=out), RuntimeError, 'single memory location')       # noqa: B023
        assert cross(x, y, out=lib.empty(0)).tolist() == [[0., 0., 1.]]


@pytest.mark.parametrize("other", ["mean", None, [1]])
def test_result_type_takes_numbers(lib, other):
    with pytest.raises(TypeError, match=r"result_type\(\) received an invalid combination of arguments"):
        lib.result_type(lib.ones(2), other)


def test_logits_are_broadcast_to_targets_and_not_the_reverse(lib):
    """In the function of torch; that of torch.nn.functional wants equal shapes."""
    call = lib.binary_cross_entropy_with_logits
    for weight in (None, lib.ones(3)):
        for x, target in ((lib.ones(1), lib.tensor(1.)), (lib.ones(2, 3), lib.ones(3))):
            with pytest.raises(RuntimeError, match="output with shape .* doesn.t match the broadcast shape"):
                call(x, target, None, weight)
    assert lib.allclose(call(lib.tensor(1.), lib.ones(2, 3)), call(lib.ones(2, 3), lib.ones(2, 3)))


@pytest.mark.parametrize('shape, batch', [((5, 2, 1), ()), ((2, 0), (1,)), ((0, 2, 1), (1,)), ((4, 3, 2, 1), (3,)), ((4, 3, 2, 2), (3, ))])
def test_what_solve_ex_says_is_of_each_matrix_of_a(lib, shape, batch):
    singular = lib.tensor([[1., 0], [0, 0]])
    a = lib.stack([lib.eye(2), singular, lib.eye(2)]) if batch == (3,) else singular.expand(*batch, 2, 2)
    for dtype in lib.float32, lib.complex64:
        info = lib.linalg.solve_ex(a.to(dtype), lib.ones(shape, dtype=dtype)).info
        assert info.shape == batch and info.flatten().tolist() == ([0, 2, 0] if batch == (3,) else [2])
        refused(lambda: lib.linalg.solve(a, lib.ones(shape)), lib.linalg.LinAlgError, 'singular')
    each = lib.vmap(lambda b: lib.linalg.solve_ex(singular, b).info)(lib.ones(4, 2, 3))
    assert each.tolist() == [2] * 4


@pytest.mark.parametrize('kind', ['csr', 'csc', 'bsr', 'bsc'])
def test_compressed_tensors_have_no_strides(lib, kind):
    x = lib.eye(4).to_sparse(layout=getattr(lib, f'sparse_{kind}'), **({'blocksize': (2, 2)} if kind[0] == 'b' else {}))
    for what, call in (('strides', lambda: x.stride()), ('strides', lambda: x.stride(0)), ('is_contiguous', lambda: x.is_contiguous())):
        refused(call, RuntimeError, f'Sparse {kind.upper()} tensors do not have {what}')
    assert x.storage_offset() == 0 and x.values().is_contiguous() and not lib.eye(4).to_sparse().is_contiguous()


def test_factors_of_singular_matrices_for_older_programs(lib):
    for rows in [[0., 1], [0, 1]], [[0., 1]], [[0.], [0]], [[[1., 2], [3, 4]], [[0, 0], [0, 0]]]:
        a = lib.tensor(rows)
        factors, pivots = lib.lu(a)
        assert lib.equal(factors, a.lu()[0]) and pivots.dtype == lib.int32
        assert lib.lu(a, get_infos=True)[2].max() > 0 and lib._lu_with_info(a)[2].max() > 0
        refused(lambda: lib.linalg.lu_factor(a), RuntimeError, 'is zero and using it on lu_solve')        # noqa: B023


@pytest.mark.parametrize('number', [3, -1, 7])
def test_numbers_that_stand_for_no_reduction(lib, number):
    x, sign = lib.ones(2, 3) / 2, lib.ones(2)
    for name, operands in {'hinge_embedding_loss': (x, x), 'kl_div': (x, x), 'margin_ranking_loss': (x, x, x), 'cosine_embedding_loss': (x, x, sign),
                           'binary_cross_entropy': (x, x), 'binary_cross_entropy_with_logits': (x, x), 'l1_loss': (x, x), 'huber_loss': (x, x),
                           'triplet_margin_loss': (x, x, x), 'poisson_nll_loss': (x, x, True, False, 1e-8)}.items():
        loss = getattr(lib.ops.aten, name)
        assert lib.equal(loss(*operands, reduction=number), loss(*operands, reduction=0))
    assert lib.ops.aten.soft_margin_loss(x, x, reduction=number).shape == ()


def test_lists_written_by_keyword_are_returned(lib):
    for arguments in {'scalar': 2}, {'scalars': [2]}:
        values = [lib.ones(2)]
        assert lib._foreach_mul_(**arguments, self=values)[0] is values[0] and values[0].tolist() == [2, 2]


def test_nan_is_looked_for_wherever_anomalies_are(lib):
    assert lib.is_anomaly_check_nan_enabled() is True
    with lib.autograd.detect_anomaly(check_nan=False):
        assert lib.is_anomaly_check_nan_enabled() is False
    assert lib.is_anomaly_check_nan_enabled() is True


def test_what_is_not_quantized_is_converted_by_dequantize(lib):
    for dtype in lib.int64, lib.uint8, lib.bool, lib.float16, lib.float64:
        x = lib.ones(3, dtype=dtype)
        assert x.dequantize().dtype == lib.dequantize(x).dtype == lib.float32 and lib.equal(lib.dequantize(x), lib.ones(3))
