"""What random programs (tools/fuzz_programs.py) have found: corners that a call meets as it comes, each on both libraries."""
import pytest


def test_a_comparison_may_be_written_to_what_needs_a_gradient(lib):
    for compare in (lib.eq, lib.ne, lib.lt, lib.le, lib.gt, lib.ge, lib.logical_and, lib.logical_xor):
        leaf = lib.zeros(2, requires_grad=True)
        assert compare(lib.tensor([1., 0.]), lib.tensor([1., 2.]), out=leaf) is leaf
        assert leaf.requires_grad and leaf.is_leaf
    leaf = lib.zeros(2, requires_grad=True)
    lib.special.bessel_j0(lib.zeros(2), out=leaf)
    assert leaf.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match='automatic differentiation'):
        lib.mul(lib.ones(2), lib.ones(2), out=leaf)


def test_dimensions_of_one_element_keep_their_strides(lib):
    x = lib.ones(1, 3).t()                           # 3 x 1, strides (1, 3): contiguous all the same
    assert (x + 0).stride() == (x * 1).stride() == (x == 1).stride() == x.clone().stride() == lib.empty_like(x).stride() == (1, 3)
    assert x.sin().stride() == (x * x).stride() == (1, 1)
    y = lib.ones(1, 2, 2).permute(2, 1, 0)
    assert (y == 1).stride() == (y + lib.ones(())).stride() == (1, 2, 4)
    assert lib.ones(2)[::2].clone().stride() == (2,)
    empty = lib.ones(3, 0).t()
    assert (empty + 1).stride() == empty.mul(2).stride() == (1, 0)
    assert empty.clone().stride() == (1, 1)


def test_tensors_given_one_by_one_may_not_be_a_list(lib):
    for function in (lib.broadcast_tensors, lib.block_diag, lib.cartesian_prod, lib.chain_matmul):
        with pytest.raises(TypeError, match='expected Tensor as element 0 in argument 0, but got list'):
            function([lib.ones(2)])
        with pytest.raises(TypeError, match='but got NoneType'):
            function(None)


def test_a_divergence_from_integers_is_refused(lib):
    for dtype in (lib.int64, lib.bool, lib.uint8):
        with pytest.raises(RuntimeError, match='Integral inputs not supported'):
            lib.nn.functional.kl_div(lib.ones(2), lib.ones(2, dtype=dtype), reduction='sum')


def test_a_shift_along_no_dimension_is_refused(lib):
    for shift in (lib.fft.fftshift, lib.fft.ifftshift):
        with pytest.raises(RuntimeError, match='`shifts` required'):
            shift(lib.ones(()))
        with pytest.raises(RuntimeError, match='`shifts` required'):
            shift(lib.ones(3), [])


@pytest.mark.filterwarnings('ignore')
def test_a_number_is_its_own_transpose(lib):
    x = lib.tensor(1.)
    assert x.mT.shape == x.mH.shape == x.T.shape == x.H.shape == ()
    assert lib.tensor(1 + 2j).mH.item() == 1 - 2j
    with pytest.raises(RuntimeError, match='1-D'):
        lib.ones(3).mT


def test_contiguous_takes_the_format_that_there_is(lib):
    x = lib.ones(2, 3)
    assert x.contiguous(memory_format=lib.preserve_format) is x
    with pytest.raises(RuntimeError, match='preserve memory format is unsupported'):
        x.t().contiguous(memory_format=lib.preserve_format)


def test_two_numbers_make_a_tensor_of_the_default_dtype(lib):
    for function in (lib.add, lib.sub, lib.mul, lib.div, lib.multiply, lib.true_divide, lib.floor_divide):
        assert function(2., 3.).dtype == function(2, 3.).dtype == lib.float32
    assert lib.mul(2, 3).dtype == lib.int64
    assert lib.mul(lib.tensor(2., dtype=lib.float64), 3.).dtype == lib.float64


def test_a_number_assigned_to_all_of_an_expanded_tensor_is_refused(lib):
    x = lib.zeros(1, 1).expand(3, 1)
    for index in (slice(None), ..., (slice(None), 0)):
        with pytest.raises(RuntimeError, match='more than one element of the written-to tensor'):
            x[index] = 2
    x[0] = 2
    assert x.tolist() == [[2], [2], [2]]
    assert x.copy_(x) is x and x.copy_(x[:]) is x           # the same elements


def test_indices_along_a_dimension_go_round(lib):
    x = lib.arange(4.).reshape(2, 2)
    assert lib.take_along_dim(x, lib.tensor([[2, 0]]), 0).tolist() == [[0, 1]]
    assert lib.take_along_dim(x, lib.tensor([[-1, -3]]), 0).tolist() == [[2, 3]]
    with pytest.raises(RuntimeError, match='out of bounds'):
        lib.take_along_dim(x, lib.tensor([-1]))
    with pytest.raises(RuntimeError, match='view size is not compatible'):
        lib.take_along_dim(x.t(), lib.tensor([1]))


REFUSED = {
    'float_power_ of what can not hold it': (RuntimeError, 'requires dtype Double', lambda lib: lib.ones(2).float_power_(2)),
    'vander of one column': (RuntimeError, 'N must be greater than 1', lambda lib: lib.linalg.vander(lib.ones(1))),
    'cross of two dtypes': (RuntimeError, 'expected scalar type', lambda lib: lib.linalg.cross(lib.ones(3), lib.ones(3, dtype=lib.int64))),
    'a source with another rank': (RuntimeError, 'source tensor shape must match',
                                   lambda lib: lib.ones(()).index_add(0, lib.tensor([0]), lib.ones(1))),
    'a mask of nothing as indices': (RuntimeError, 'index_select.*Expected dtype int32',
                                     lambda lib: lib.ones(3).index_select(0, lib.tensor([], dtype=lib.bool))),
    'a mean in integers': (RuntimeError, 'could not infer output dtype', lambda lib: lib.ones(2).nanmean(dtype=lib.int64)),
    'alpha beyond float32': (RuntimeError, 'without overflow', lambda lib: lib.nn.functional.elu(lib.ones(2), 1e40)),
    'a slope beyond float32': (RuntimeError, 'without overflow', lambda lib: lib.nn.functional.leaky_relu(lib.ones(2), 1e40)),
    'beta beyond float32': (RuntimeError, 'without overflow', lambda lib: lib.nn.functional.softplus(lib.ones(2), 1e40)),
    'a complex step': (RuntimeError, 'dx as a real number', lambda lib: lib.trapezoid(lib.ones(2), dx=1j)),
    'a complex order': (RuntimeError, 'non-complex scalar', lambda lib: lib.linalg.vector_norm(lib.ones(2), 1j)),
    'a complex end': (RuntimeError, 'without overflow', lambda lib: lib.arange(1j)),
    'a tolerance that is NaN': (RuntimeError, 'greater than or equal to zero', lambda lib: lib.allclose(lib.ones(2), lib.ones(2), float('nan'))),
    'probabilities that are bools': (NotImplementedError, 'bernoulli_tensor', lambda lib: lib.ones(2).bernoulli_(lib.ones(2).bool())),
    'tau of another dtype': (RuntimeError, 'tau dtype', lambda lib: lib.linalg.householder_product(lib.ones(2, 2), lib.ones(2).double())),
    'an order that is no integer': (RuntimeError, 'sorter must be', lambda lib: lib.searchsorted(lib.ones(2), lib.ones(2), sorter=lib.ones(2))),
    'weights of another dtype': (RuntimeError, 'mixed dtype', lambda lib: lib.group_norm(lib.ones(2, 2), 1, lib.ones(2).double())),
    'statistics of another dtype': (RuntimeError, 'mixed dtype', lambda lib: lib.nn.functional.batch_norm(
        lib.ones(2, 2), lib.ones(2).double(), lib.ones(2).double())),
    'one of two statistics': (ValueError, 'must either both be None', lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 4), lib.ones(3))),
    'a bool target': (RuntimeError, 'Negation', lambda lib: lib.nn.functional.margin_ranking_loss(lib.ones(2), lib.ones(2), lib.ones(2).bool())),
    'the mean of whole losses': (RuntimeError, 'could not infer output dtype', lambda lib: lib.nn.functional.hinge_embedding_loss(
        lib.ones(2, dtype=lib.int64), lib.ones(2, dtype=lib.int64))),
    'in place in another dtype': (RuntimeError, 'Bad in-place call', lambda lib: lib.ones(2).cumsum_(0, dtype=lib.float64)),
    'nothing filled with too much': (RuntimeError, 'without overflow', lambda lib: lib.ones(0, dtype=lib.int8).fill_(1e10)),
    'a complex number into no integers': (RuntimeError, 'without overflow', lambda lib: lib.ones(0, dtype=lib.int32).__setitem__(..., 1 + 2j)),
    'a factory into a leaf': (RuntimeError, 'automatic differentiation', lambda lib: lib.zeros(2, out=lib.ones(2, requires_grad=True))),
    'a range into a leaf': (RuntimeError, 'automatic differentiation', lambda lib: lib.arange(2, out=lib.ones(2, requires_grad=True))),
}


@pytest.mark.parametrize('what', REFUSED)
def test_it_is_refused(lib, what):
    error, words, call = REFUSED[what]
    with pytest.raises(error, match=words):
        call(lib)


def test_what_there_is_nothing_of_may_lie_anywhere(lib):
    assert lib.ones(0, 3).index_add(0, lib.tensor([0]), lib.ones(1, 3)).shape == (0, 3)
    assert lib.ones(3, 0).index_copy(0, lib.tensor([5]), lib.ones(1, 0)).shape == (3, 0)
    with pytest.raises((RuntimeError, IndexError)):
        lib.ones(0, 3).index_copy(0, lib.tensor([0]), lib.ones(1, 3))
    assert lib.ones(0).repeat(-1).shape == lib.ones(0).tile([-1]).shape == (0,)


@pytest.mark.filterwarnings('ignore')
def test_the_factor_of_nothing_is_nothing(lib):
    assert lib.cholesky(lib.ones(0, 3)).shape == (0, 3)
    with pytest.raises(RuntimeError):
        lib.cholesky(lib.ones(1))


def test_a_limit_above_a_half_meets_small_numbers_first(lib):
    assert lib.logit(lib.tensor([2., -1., .5]), .7).round(decimals=3).tolist() == pytest.approx([-.847, .847, .847])
    assert lib.logit(lib.tensor([2., -1.]), 1.).tolist() == [float('-inf'), float('inf')]


def test_a_tensor_may_be_filled_with_itself(lib):
    x = lib.tensor(True)
    assert x.index_fill_(0, lib.tensor([0]), x).item() is True


def test_a_bias_broadcasts_over_a_bilinear_form(lib):
    assert lib.bilinear(lib.ones(2, 2), lib.ones(2, 1), lib.ones(2, 2, 1), lib.ones(2, 2)).tolist() == [[3, 3], [3, 3]]
    with pytest.raises(RuntimeError, match='bias size'):
        lib.bilinear(lib.ones(2, 2), lib.ones(2, 1), lib.ones(2, 2, 1), lib.ones(3))


def test_losses_of_integers_are_integers(lib):
    x = lib.ones(2, dtype=lib.int64)
    assert lib.nn.functional.hinge_embedding_loss(x, x, reduction='none').dtype == lib.int64
    assert lib.nn.functional.hinge_embedding_loss(x, x, reduction='sum').item() == 2


def test_alpha_stands_behind_a_number(lib):
    assert lib.rsub(lib.ones(2), 1, 2).tolist() == [-1, -1]


def test_the_same_memory_seen_otherwise_is_an_overlap(lib):
    x = lib.ones(4)
    for call in (lambda: x[None].add_(x), lambda: x[None].copy_(x), lambda: lib.add(x, x[None], out=x[None])):
        with pytest.raises(RuntimeError, match='single memory location'):
            call()
    assert x.add_(x).tolist() == [2, 2, 2, 2] and x[:].add_(x).tolist() == [4, 4, 4, 4]
    none, at = lib.ones(0), lib.tensor([], dtype=lib.int64)
    for call in (lambda: none.index_put_((at,), none), lambda: none.index_add_(0, at, none), lambda: none.scatter_(0, at, none),
                 lambda: lib.gather(at, 0, at, out=at)):
        with pytest.raises(RuntimeError, match='single memory location'):
            call()


def test_products_of_vectors_want_one_dtype(lib):
    with pytest.raises(RuntimeError, match='same dtype'):
        lib.linalg.vecdot(lib.ones(2), lib.ones(2, dtype=lib.int64))
    with pytest.raises(RuntimeError, match='nonzero_static'):
        lib.nonzero_static(lib.ones(2), size=2, out=lib.zeros(2, 1))


def test_nothing_is_drawn_with_probabilities_of_any_dtype(lib):
    assert lib.empty(0).bernoulli_(lib.zeros(0, dtype=lib.int64)).shape == (0,)


def test_no_grad_means_no_history_for_what_is_written_by_index(lib):
    x, index = lib.ones(3, 1, requires_grad=True) * 1, lib.tensor([0])
    with lib.no_grad():
        results = [x.index_copy(0, index, x[:1]), x.index_add(0, index, x[:1]), x.index_fill(0, index, 2), x.put(index, x[0]),
                   x.scatter(0, index[:, None], 2.), x.scatter(0, index[:, None], x), x.scatter_add(0, index[:, None], x),
                   x.scatter_reduce(0, index[:, None], x, 'amax'), x.index_put((index,), x[0]), x.masked_scatter(x > 0, x)]
    assert not any(r.requires_grad for r in results)
    assert x.index_copy(0, index, x[:1]).requires_grad


def test_a_gradient_has_the_strides_of_its_leaf(lib):
    for leaf in (lib.zeros(0, 3), lib.zeros(1), lib.zeros(2, 3).t(), lib.zeros(2)[::2], lib.zeros(1, 3).t(), lib.zeros(2, 3, 4).permute(2, 0, 1)):
        for graph in (False, True):
            x = leaf.detach().requires_grad_()
            x.sum().backward(create_graph=graph)
            assert x.grad.stride() == x.stride(), (x.shape, graph)
    x = lib.ones(2, 4)[:, ::2].requires_grad_()              # with gaps: contiguous
    (x.t() ** 3).sum().backward(create_graph=True)
    assert x.grad.stride() == (2, 1)
    assert lib.autograd.grad(x.grad.sum(), x)[0].tolist() == [[6, 6], [6, 6]]


def test_empty_matrices_have_factors_of_any_dtype(lib):
    for dtype in (lib.int64, lib.bool, lib.float16):
        x = lib.zeros(0, 3, dtype=dtype)
        assert [f.shape for f in lib.linalg.lu(x)] == [(0, 0), (0, 0), (0, 3)]
        assert lib.linalg.lu_factor(x)[0].shape == (0, 3)
    assert lib.linalg.lu_factor_ex(lib.zeros(2, 0), pivot=False)[0].shape == (2, 0)
    assert lib.zeros(0, dtype=lib.complex64).cummax(0).values.shape == (0,)
    assert lib.zeros(0, dtype=lib.bool).median().numel() == 1 and lib.zeros(2, 0, dtype=lib.complex64).amax(0).shape == (0,)
    with pytest.raises(NotImplementedError, match='lu_cpu.*Long'):
        lib.linalg.lu(lib.zeros(2, 2, dtype=lib.int64))
    with pytest.raises(NotImplementedError, match='median_cpu.*Bool'):
        lib.zeros(1, dtype=lib.bool).median()


def test_which_indices_a_write_takes(lib):
    x, short = lib.zeros(3), lib.tensor([0], dtype=lib.int32)
    assert x.index_add(0, short, lib.ones(1)).tolist() == [1, 0, 0]
    with pytest.raises(RuntimeError, match='Expected a long tensor for index, but got Int'):
        x.index_copy(0, short, lib.ones(1))
    with pytest.raises(IndexError, match='Expected dtype int64 for index'):
        x.index_fill(0, short, 1)
    assert lib.take_along_dim(lib.arange(3), short).tolist() == [0]
    assert lib.take_along_dim(lib.zeros(0), lib.zeros(0, dtype=lib.uint8)).shape == (0,)
    with pytest.raises(IndexError, match='index out of range in self'):
        lib.zeros(0).index_add(0, lib.tensor([0]), lib.ones(1))
    assert lib.zeros(2, 0).index_add(1, lib.tensor([0]), lib.ones(2, 1)).shape == (2, 0)


def test_trapezoids_over_nothing_are_zeros(lib):
    y = lib.zeros(2, 0, requires_grad=True)
    assert lib.trapezoid(y).tolist() == [0, 0] and not lib.trapezoid(y).requires_grad
    assert lib.trapz(lib.zeros(0, dtype=lib.uint8)).dtype == lib.uint8
    assert lib.trapezoid(lib.zeros(0, dtype=lib.bool)).dtype == lib.bool
    with pytest.raises(RuntimeError, match='bool is not supported'):
        lib.trapezoid(lib.ones(2, dtype=lib.bool))
    with pytest.raises(RuntimeError, match='one `x` value for each sample point'):
        lib.cumulative_trapezoid(lib.ones(1), lib.ones(2))
    assert lib.trapezoid(lib.tensor([[1., 2., 4.]]), lib.tensor([0., 1., 3.])).tolist() == [7.5]
    assert lib.cumulative_trapezoid(lib.tensor([[1.], [2.], [4.]]), dx=2., dim=0).tolist() == [[3], [9]]
    assert lib.trapezoid(lib.tensor([float('inf'), 1, 1])).isnan()


def test_powers_of_two_by_bools(lib):
    assert lib.ldexp(lib.tensor([1, 3]), lib.tensor([True, False])).tolist() == [2, 3]
    assert lib.ldexp(lib.tensor([1, 3], dtype=lib.uint64), lib.tensor([1, -1])).tolist() == [2, 1.5]
    with pytest.raises(NotImplementedError, match='ldexp_cpu_exp'):
        lib.ldexp(lib.ones(2), lib.tensor([True, False]))


def test_the_inverse_transform_of_real_numbers_is_conjugated_lazily(lib):
    x = lib.arange(6., dtype=lib.float64).reshape(2, 3).requires_grad_()
    y = lib.fft.ifft(x, 4)
    assert y.is_conj() and lib.allclose(y, lib.fft.ifft(x + 0j, 4))
    g, = lib.autograd.grad((y.abs() ** 2).sum(), x, create_graph=True)
    assert lib.allclose(g, x / 2) and lib.allclose(lib.autograd.grad(g.sum(), x)[0], lib.full((2, 3), .5, dtype=lib.float64))


def test_factors_without_a_derivative_say_so(lib):
    a = lib.eye(2, requires_grad=True)
    for y in (lib.linalg.ldl_factor(a * 1)[0], lib.linalg.ldl_factor_ex(a * 1)[0], lib.bernoulli(a * 1, 0.5)):
        assert y.requires_grad
        with pytest.raises(RuntimeError, match='derivative for aten::.* is not implemented'):
            y.sum().backward()


def test_norms_of_old_and_what_they_refuse(lib):
    x = lib.arange(6.).reshape(2, 3)
    assert lib.norm_except_dim(x, 2, 0).shape == (2, 1) and lib.norm_except_dim(x, 1, 1).tolist() == [[3, 5, 7]]
    assert lib.norm_except_dim(x[:, None], 1, 1).tolist() == [[[15]]] and lib.norm_except_dim(x, 1, -1).item() == 15
    with pytest.raises(IndexError, match='tensor has no dimensions'):
        lib.norm_except_dim(lib.tensor(2.))
    with pytest.raises(RuntimeError, match='ambiguous'):
        lib.norm_except_dim(lib.zeros(0))
    with pytest.raises(RuntimeError, match='Expected at most 2 dimensions'):
        lib.frobenius_norm(lib.ones(1, 2, 2), [0, 1, 2])
    with pytest.raises(RuntimeError, match='must be of length 1 or 2. Got \\[\\]'):
        lib.linalg.norm(x, dim=[])
    with pytest.raises(RuntimeError, match='convertible without narrowing'):
        x.double().norm(2, 0, dtype=lib.float32)


def test_results_of_another_dtype_are_refused(lib):
    x, wide = lib.eye(2), lib.empty(2, 2, dtype=lib.float64)
    for call in (lib.inverse, lib.linalg.matmul, lib.linalg.matrix_power, lib.matrix_power):
        with pytest.raises(RuntimeError, match='Expected out tensor to have dtype float, but got double'):
            call(x, *([x] if call is lib.linalg.matmul else [] if call is lib.inverse else [3]), out=wide)
    with pytest.raises(RuntimeError, match='Expected out tensor to have dtype long int, but got double'):
        lib.argsort(x, stable=True, out=wide)


def test_dropout_in_place_that_does_nothing_writes_nothing(lib):
    for drop in (lib.dropout_, lib.feature_dropout_, lib.alpha_dropout_, lib.feature_alpha_dropout_):
        x = lib.ones(2, 3)
        for p, train in ((0., True), (0.5, False)):
            assert drop(x, p, train) is x and x._version == 0
        assert drop(lib.ones(2, 0), 0.5, True)._version == 0
        drop(x, 0.5, True)
        assert x._version == (2 if 'alpha' in drop.__name__ else 1)


def test_parts_that_lu_unpack_leaves_away_are_tensors_of_their_own(lib):
    P, L, U = lib.lu_unpack(lib.ones(2, 2), lib.tensor([1, 2], dtype=lib.int32), unpack_data=False, unpack_pivots=False)
    assert P is not L and L is not U and P.shape == U.shape == (0,)


@pytest.mark.parametrize('name', ['clamp_', 'clip_', 'ldexp_', 'xlogy_', 'hypot_', 'lerp_', 'atan2_'])
def test_what_is_overwritten_may_be_what_another_gradient_needs(lib, name):
    for layout in (lambda x: x, lambda x: x[:, ::2]):
        x = layout(lib.tensor([[1., .5, 3., .25], [.3, .7, .2, .9]]))
        limit = lib.tensor(.5, requires_grad=True)
        others = {'clamp_': (None, limit * 1), 'clip_': (limit * 1,), 'lerp_': (x.clone(), limit * 1)}.get(name, (limit * 1,))
        before = x.clone()
        getattr(x, name)(*others)
        x.sum().backward()
        other = lib.tensor(.5, requires_grad=True)
        others = {'clamp_': (None, other * 1), 'clip_': (other * 1,), 'lerp_': (before.clone(), other * 1)}.get(name, (other * 1,))
        getattr(lib.Tensor, name[:-1])(before, *others).sum().backward()
        assert lib.allclose(limit.grad, other.grad)


def test_one_value_under_one_mask_has_any_dtype(lib):
    x, mask = lib.zeros(2, 2), lib.tensor([True, False])
    x[mask] = lib.tensor(1.5, dtype=lib.float64)
    assert x.tolist() == [[1.5, 1.5], [0, 0]]
    x[:, mask] = lib.tensor([[2]])
    assert x.tolist() == [[2, 1.5], [2, 0]]
    assert x.index_put((mask,), lib.tensor(3)).tolist() == [[3, 3], [2, 0]]
    with pytest.raises(RuntimeError, match='without overflow'):
        lib.zeros(2, dtype=lib.uint8)[mask] = lib.tensor(300)
    for index in ((mask, mask), (lib.tensor([0]),)):
        with pytest.raises((RuntimeError, IndexError), match='source and destination dtypes match'):
            x[index] = lib.tensor(1.5, dtype=lib.float64)
    with pytest.raises((RuntimeError, IndexError), match='source and destination dtypes match'):
        x.index_put((mask,), lib.tensor(3), accumulate=True)


def test_a_tensor_may_be_assigned_to_itself(lib):
    x = lib.arange(6).reshape(2, 3)
    x[None] = x
    x[None, -2:] = x
    x[...] = x[None]
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_factors_that_have_no_inverse(lib):
    with pytest.raises(RuntimeError, match='cholesky_inverse: The diagonal element 2 is zero'):
        lib.cholesky_inverse(lib.tensor([[1., 0.], [1., 0.]]))
    with pytest.raises(RuntimeError, match='cholesky_inverse: .Batch element 1.: The diagonal element 1 is zero'):
        lib.cholesky_inverse(lib.stack([lib.eye(2), lib.zeros(2, 2)]))
    assert lib.cholesky_inverse(lib.tensor([[2., 0.], [0., 1.]])).tolist() == [[.25, 0], [0, 1]]


def test_a_result_that_overlaps_itself_is_refused_before_it_is_resized(lib):
    for call in (lambda out: lib.special.exp2(lib.ones(3), out=out), lambda out: lib.add(lib.ones(3), 1, out=out)):
        with pytest.raises(RuntimeError, match='more than one element of the written-to tensor'):
            call(lib.ones(1, 3, 2).expand(2, 3, 2))


MORE = {
    'a number without dimensions to unflatten': (RuntimeError, 'unflatten got an unexpected error', lambda lib: lib.tensor(1.).unflatten(0, [1])),
    'rows of nothing': (RuntimeError, 'ambiguous', lambda lib: lib.bilinear(lib.ones(2, 0), lib.ones(2, 3), lib.ones(3, 0, 3), None)),
    'operands of two dtypes': (RuntimeError, 'must have the same dtype', lambda lib: lib.bilinear(lib.ones(1, 2), lib.ones(1, 2).double(), lib.ones(1, 2, 2), None)),
    'a bool among bytes': (RuntimeError, 'Unsupported input type', lambda lib: lib.isin(lib.ones(2, dtype=lib.uint8), True)),
    'slices of a number': (IndexError, 'tensor has no dimensions', lambda lib: lib.unique_consecutive(lib.tensor(1.), dim=-1)),
    'unique slices of a number': (IndexError, 'tensor has no dimensions', lambda lib: lib.unique(lib.tensor(1.), dim=0)),
    'norms of integers': (RuntimeError, 'norm.*floating point or complex', lambda lib: lib.embedding_renorm_(
        lib.ones(2, 2, dtype=lib.int64), lib.tensor([0]), 1., 2.)),
    'rows by floats': (RuntimeError, 'scalar types: Long, Int', lambda lib: lib.embedding_renorm_(lib.ones(2, 2), lib.tensor([]), 1., 2.)),
    'weights that are NaN': (RuntimeError, 'aweights cannot be negative', lambda lib: lib.cov(lib.ones(2, 2), aweights=lib.tensor([1., float('nan')]))),
}


@pytest.mark.parametrize('name', MORE)
def test_more_that_is_refused(lib, name):
    kind, words, call = MORE[name]
    with pytest.raises(kind, match=words):
        call(lib)


def test_incomplete_gamma_of_large_numbers(lib):
    a = lib.tensor([3e4, 1e6, 1e6, 1e10, 1e10], dtype=lib.float64)
    x = lib.tensor([3.01e4, 1e6, 1.001e6, 1e10, 1.00001e10], dtype=lib.float64)
    upper = lib.special.gammaincc(a, x)
    expected = lib.tensor([0.28118, 0.49986702, 0.15866, 0.4999986702, 0.15866], dtype=lib.float64)
    assert lib.allclose(upper[[1, 3]], expected[[1, 3]], rtol=1e-8) and lib.allclose(upper, expected, rtol=5e-3)
    assert lib.allclose(upper + lib.special.gammainc(a, x), lib.ones(5, dtype=lib.float64))


def test_the_exponential_of_one_number(lib):
    assert lib.matrix_exp(lib.tensor([[float('-inf')]])).item() == 0


@pytest.mark.parametrize('grad', [False, True])
def test_tensors_of_inference_mode_are_not_written_outside_of_it(lib, grad):
    def made():
        with lib.inference_mode():
            return lib.ones(2, 3).add_(1)
    writes = (lambda x: x.add_(1), lambda x: x.logical_xor_(x), lambda x: x.zero_(), lambda x: x.nan_to_num_(), lambda x: x.t_(), lambda x: x.unsqueeze_(0),
              lambda x: x.copy_(lib.ones(2, 3)), lambda x: lib.add(lib.ones(2, 3), 1, out=x), lambda x: x.__setitem__(0, 2), lambda x: lib.dropout_(x, .5, True))
    with lib.set_grad_enabled(grad):
        for write in writes:
            with pytest.raises(RuntimeError, match='Inplace update to inference tensor outside InferenceMode'):
                write(made())
        x = made()
        assert x.detach_() is x


def test_slices_are_reduced_in_more_dtypes_than_elements(lib):
    x, index = lib.tensor([[1 + 1j], [2j]]), lib.tensor([0, 0])
    assert x.index_reduce(0, index, x, 'prod').tolist() == [[(1 + 1j) * (1 + 1j) * 2j], [2j]]
    assert lib.tensor([[True], [False]]).index_reduce(0, index, lib.tensor([[True], [False]]), 'prod').tolist() == [[False], [False]]
    with pytest.raises(NotImplementedError, match='index_func_'):
        x[:, 0].index_reduce(0, index, x[:, 0], 'prod')


@pytest.mark.parametrize('reduce, kernel', [('amax', 'maximum_cpu'), ('amin', 'minimum_cpu')])
@pytest.mark.parametrize('rows', [0, 2])
def test_complex_slices_have_no_largest_one(lib, reduce, kernel, rows):
    x = lib.zeros(rows, 3, dtype=lib.complex64)
    with pytest.raises(NotImplementedError, match=f'"{kernel}" not implemented for \'ComplexFloat\''):
        x.index_reduce(-1, lib.tensor([0]), x[:, :1], reduce)
    assert lib.equal(x.index_reduce(-1, lib.tensor([], dtype=lib.int64), x[:, :0], reduce), x)


def test_a_number_in_inner_gives_a_product_whose_out_has_no_history(lib):
    w = lib.tensor(2., requires_grad=True)
    with pytest.raises(RuntimeError, match=r'mul\(\): functions with out=... arguments don.t support automatic differentiation'):
        lib.inner(lib.ones(3), w, out=lib.zeros(3))
    out = lib.zeros(())
    assert lib.inner(lib.ones(3, requires_grad=True), lib.ones(3), out=out) is out and out.requires_grad


NUMBERS = {
    'rrelu': lambda lib: lib.rrelu(lib.ones(2), 1j, 2), 'std': lambda lib: lib.ones(2).std([-1], correction=1j),
    'var_mean': lambda lib: lib.var_mean(lib.ones(2), 0, correction=1j),
}


@pytest.mark.parametrize('name', NUMBERS)
def test_numbers_that_must_be_real(lib, name):
    with pytest.raises(RuntimeError, match='without overflow'):
        NUMBERS[name](lib)


def test_bounds_that_are_nan(lib):
    with pytest.raises(RuntimeError, match='eps must be non-negative'):
        lib.cosine_similarity(lib.ones(2, 2), lib.ones(2, 2), eps=float('nan'))
    with pytest.raises(RuntimeError, match='maxnorm to be >= 0'):
        lib.ones(2, 2).renorm(2, 0, float('nan'))


def test_dropout_that_does_nothing_may_be_of_a_tensor_of_inference_mode(lib):
    with lib.inference_mode():
        x = lib.ones(2)
    assert lib.dropout_(x, 0., True) is x
    for dtype in (lib.int8, lib.complex64, lib.float16):
        assert lib.nn.functional.multilabel_margin_loss(lib.zeros(0, 3, dtype=dtype), lib.zeros(0, 3, dtype=lib.int64)).shape == ()


def test_embedding_renorm_is_a_write_without_a_derivative(lib):
    rows = lib.tensor([0, 1])
    with pytest.raises(RuntimeError, match='a leaf Variable that requires grad is being used'):
        lib.embedding_renorm_(lib.ones(4, 3, requires_grad=True), rows, .5, 2.)
    x = lib.ones(4, 3, requires_grad=True) * 1
    lib.embedding_renorm_(x, rows, .5, 2.)
    assert x._version == 1 and x.grad_fn.name() == 'EmbeddingRenormBackward0'
    with pytest.raises(NotImplementedError, match='embedding_renorm'):
        x.sum().backward()
    part = lib.ones(4, 3)[1:]
    lib.embedding_renorm_(part, rows, .5, 2.)
    assert part._version == 1


def test_a_view_of_a_tensor_of_inference_mode_needs_no_gradient(lib):
    with lib.inference_mode():
        x = lib.ones(2, 2, requires_grad=True)
    for view in (x[0], x.mT, x.unsqueeze(0), x.view(4), x.split(1)[0], x.unbind()[1], x.squeeze(), x.detach()):
        assert view.is_inference() and not view.requires_grad


def test_split_copy_fills_its_out(lib):
    x = lib.arange(12.).reshape(4, 3)
    wide = [lib.zeros(2, 2, 3, dtype=lib.float64), lib.zeros(2, 3, dtype=lib.int64)]
    lib.split_copy(x, 2, out=wide)
    assert wide[0].tolist() == [x[:2].tolist()] * 2 and wide[1].tolist() == x[2:].tolist()
    assert [y._version for y in wide] == [1, 1]
    for shape in ((7,), (0,), (1,), (3, 2)):
        with pytest.raises(RuntimeError, match='must match the size|match the broadcast shape'):
            lib.split_copy(x, 2, out=[lib.zeros(shape), lib.zeros(2, 3)])


def test_assignments_by_true_and_false(lib):
    x = lib.arange(4.).reshape(2, 2)
    x[True] = x
    x[False] = lib.ones(7)
    assert x.tolist() == [[0, 1], [2, 3]] and x._version == 1
    x[True] = x[1]
    assert x.tolist() == [[2, 3], [2, 3]]
    with pytest.raises(RuntimeError, match=r'The expanded size of the tensor \(2\) must match the existing size \(7\)'):
        x[True] = lib.ones(7)
    with pytest.raises(RuntimeError, match='the number of sizes provided'):
        x[0] = x


def test_a_graph_made_before_a_swap_has_no_backward_pass(lib):
    a, b = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.zeros(2))
    y = (a * 2).sum()
    lib.utils.swap_tensors(a, b)
    with pytest.raises(RuntimeError, match='poisoned by swap_tensors'):
        y.backward()
    del y
    (a * 3 + b).sum().backward()
    assert a.grad.tolist() == [3, 3] and b.grad.tolist() == [1, 1]


def test_the_jagged_layout_is_there_to_compare_with(lib):
    assert lib.ones(2).layout is not lib.jagged and repr(lib.jagged).endswith('.jagged')
    assert isinstance(lib.__config__._cxx_flags(), str)


@pytest.mark.parametrize('shape', [(), (1,), (3,), (1, 3), (2, 3), (2, 1), (4, 2, 3)])
def test_the_gradient_of_a_bias_of_any_shape(lib, shape):
    x, weight, bias = lib.ones(4, 2, 5), lib.ones(3, 5), lib.zeros(shape, requires_grad=True)
    if shape == (2, 1):
        x = x[0]
    y = lib.nn.functional.linear(x, weight, bias)
    (y * lib.arange(3.)).sum().backward()
    assert bias.grad.shape == bias.shape and lib.equal(bias.grad, (lib.zeros_like(y) + lib.arange(3.)).sum_to_size(shape))


def test_what_a_backward_pass_does_not_read_may_be_overwritten(lib):
    x = lib.full((3,), .3, requires_grad=True)
    lib.special.erfinv(x).add_(1).sum().backward()
    expected = lib.full((3,), .5 * lib.pi ** .5 * float(lib.exp(lib.special.erfinv(lib.tensor(.3)) ** 2)))
    assert lib.allclose(x.grad, expected)
    for scatter in (lambda x, y: lib.slice_scatter(x, y, 0, 0, 2), lambda x, y: lib.select_scatter(x, y[0], 0, 1),
                    lambda x, y: lib.diagonal_scatter(x, y[:, 0])):
        x, y = lib.zeros(2, 3, requires_grad=True), lib.ones(2, 3, requires_grad=True).clone()
        z = scatter(x, y)
        y.mul_(2)
        z.sum().backward()
        assert x.grad is not None


def test_the_mask_of_a_dropout_has_no_history(lib):
    kept, mask = lib.native_dropout(lib.ones(2, 0, requires_grad=True), .5, True)
    assert kept.requires_grad and not mask.requires_grad
    assert not lib.native_dropout(lib.ones(3, requires_grad=True), .5, False)[1].requires_grad


@pytest.mark.parametrize('name', ['chebyshev_polynomial_t', 'chebyshev_polynomial_w', 'hermite_polynomial_h', 'laguerre_polynomial_l', 'legendre_polynomial_p',
                                  'shifted_chebyshev_polynomial_u'])
def test_a_degree_that_no_integer_holds_has_no_polynomial(lib, name):
    for degree in (float('inf'), float('nan'), 1e19, -1.):
        assert getattr(lib.special, name)(lib.tensor([.3, 1.]), degree).tolist() == [0, 0]


def test_exponential_units_at_zero_whatever_their_parameters(lib):
    """0 took the exponential's side, where the parameter made it a NaN."""
    x = lib.tensor([0., -0., 2.])
    for y in (lib.celu(x, float("inf")), lib.nn.functional.elu(x, float("inf")), lib.celu_(x.half().clone(), float("inf")).float()):
        assert y.tolist() == [0, 0, 2]
    assert lib.nn.functional.elu(lib.tensor([float("nan")])).isnan().all()


def test_gradients_at_nan(lib):
    """Both operands of a maximum that is NaN get all of the gradient, and so does an exponential unit's."""
    nan = float("nan")
    for f in (lib.maximum, lib.minimum, lib.max, lib.min):
        x, y = lib.tensor([1., nan, 2.], requires_grad=True), lib.tensor([nan, 2., 2.], requires_grad=True)
        f(x, y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [1, 1, .5]
    x = lib.tensor([nan, 0., -1., 2.], requires_grad=True)
    lib.nn.functional.elu(x).sum().backward()
    assert x.grad[[0, 1, 3]].tolist() == [1, 1, 1] and abs(x.grad[2].item() - 0.36787945) < 1e-6
