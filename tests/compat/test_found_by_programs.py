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
