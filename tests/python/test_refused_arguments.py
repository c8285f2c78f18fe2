"""Every operator answers arguments that it should refuse with an exception of the right type: a sample; `make fuzz-ops` tries
all under AddressSanitizer."""
import pathlib
import subprocess
import sys

import pytest
import tede

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_sample_of_operators_refuses_and_none_crashes():
    finished = subprocess.run([sys.executable, str(ROOT / 'tools' / 'fuzz_ops.py'), '--sample', '10'], capture_output=True, text=True,
                          timeout=300)
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-2000:]


def test_an_argument_that_nothing_is_known_of_fails_the_generation():
    sys.path.insert(0, str(ROOT))
    from codegen.entries import EntryError, expand
    entry = {'func': 'toy(Tensor self, int wibble) -> Tensor', 'kind': 'composite'}
    with pytest.raises(EntryError, match='nothing is known of what int wibble must be'):
        expand(dict(entry), 'toys')
    assert expand({**entry, 'requires': {'wibble': 'count'}}, 'toys')
    with pytest.raises(EntryError, match='none of the rules'):
        expand({**entry, 'requires': {'wibble': 'odd'}}, 'toys')


def test_what_fills_with_random_numbers_has_a_generator_and_floats():
    sys.path.insert(0, str(ROOT))
    from codegen.entries import EntryError, expand, fill_of
    text = 'toy_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)'
    assert fill_of(expand({'func': text, 'kind': 'native', 'fills': 'toy'}, 'toys')[0]) == (
        'int td_fill_toy(td_generator *g, td_dtype dtype, void *out, int64_t n, double p)')
    for wrong in (text.replace('float p', 'int p'), text.replace(', *, Generator? generator=None', ''),
                  text.replace('float p', 'float p, float q, float r')):
        with pytest.raises(EntryError, match='fills: a native operator of self, at most two floats and a generator'):
            expand({'func': wrong, 'kind': 'native', 'fills': 'toy'}, 'toys')


def test_operands_on_two_devices_are_refused():
    x, there = tede.ones(3, 4), tede.zeros(2, dtype=tede.int64, device='meta')
    for call in (lambda: tede.index_select(x, 0, there), lambda: tede.mm(x, tede.ones(4, 2, device='meta'))):
        with pytest.raises(RuntimeError, match='Expected all tensors to be on the same device'):
            call()


def test_what_would_be_read_beyond_an_operand_is_refused():
    """Each of these read or wrote outside of a tensor, divided by 0 or went on for hours, once."""
    aten, r = tede.ops.aten, tede.rand
    eye, pivots = tede.eye(3), tede.tensor([1, 2, 3], dtype=tede.int32)
    c = r(2, dtype=tede.complex64)
    classes, lengths = tede.tensor([0, 1, 0]), tede.tensor([1, 3])
    calls = {
        'at least one dimension': lambda: aten._fft_r2c(r(()), [0], 0, True),
        r'data points \(0\)': lambda: aten._fft_r2c(r(0, 3), [0], 0, True),
        'numbers are made of': lambda: aten._fft_c2r(c, [0], 0, 9),
        r'points \(0\) specified': lambda: aten._fft_c2r(c, [0], 0, 0),
        'differ in dtype': lambda: aten._linalg_lstsq(eye, eye.double(), 0.1, 1),
        'method must be 0 .gels., 1 .gelsy. or 2 .gelsd., not 3': lambda: aten._linalg_lstsq(eye, eye, 0.1, 3),
        'kernel needs at least one element': lambda: tede.conv2d(r(2, 3, 4, 4), r(2, 3, 0, 2)),
        'kernel needs at least': lambda: tede.conv_transpose1d(r(2, 3, 4), r(3, 2, 0)),
        'Number of pivots per batch': lambda: tede.linalg.lu_solve(eye, pivots[:2], r(3, 2)),
        'smaller or equal to LU': lambda: tede.linalg.lu_solve(eye, pivots + 1, r(3, 2)),
        'greater or equal to 1': lambda: tede.linalg.lu_solve(eye, pivots - 99, r(3, 2)),
        r'LD.shape\[:-1\] and pivots.shape': lambda: tede.linalg.ldl_solve(eye, pivots[:2], r(3, 2)),
        r'\|pivot\| <= LD.size': lambda: tede.linalg.ldl_solve(eye, pivots - 99, r(3, 2)),
        r'\|pivot\| >= 1': lambda: tede.linalg.ldl_solve(eye, pivots - 1, r(3, 2)),
        'come in pairs': lambda: tede.linalg.ldl_solve(eye, pivots * tede.tensor([1, 1, -1], dtype=tede.int32), r(3, 2)),
        "can't be on meta": lambda: aten._ctc_loss(r(5, 2, 4), tede.ones(2, 3, dtype=tede.int64), lengths.to('meta'), lengths),
        'no data': lambda: tede.segment_reduce(r(5), 'sum', offsets=tede.tensor([0, 2, 5], device='meta')),
        'aten::as_strided_scatter': lambda: tede.nested.nested_tensor([r(2, 3), r(1, 3)], layout=tede.jagged).as_strided_scatter(r(2), (2,), (1,)),
        'grad and output must have': lambda: aten._segment_reduce_backward(r(1, 3), r(2, 3), r(4, 3), 'sum', lengths=lengths),
        'fixed-size array of size 3': lambda: aten.convolution_backward(r(2, 2, 3), r(2, 2, 3), r(2, 2, 1), None, [1], [0], [1], False, [0], 1,
                                                                         [True]),
        'total_weight must have 1': lambda: aten.nll_loss_backward(r(()), r(3, 4), classes, None, 1, -100, r(0)),
        'grad_output must have 3': lambda: aten.nll_loss_backward(r(2), r(3, 4), classes, None, 0, -100, r(())),
        'mean must have 2': lambda: aten.native_layer_norm_backward(r(2, 3), r(2, 3), [3], r(1), r(2), None, None, [True] * 3),
        'rstd must have 3': lambda: aten.native_batch_norm_backward(r(2, 3), r(2, 3), None, None, None, r(3), r(2), True, 0.1, [True] * 3),
        'rstd is needed': lambda: aten.native_batch_norm_backward(r(2, 3), r(2, 3), None, None, None, r(3), None, True, 0.1, [True] * 3),
        'grad_out must have 12': lambda: aten.native_group_norm_backward(r(1, 6), r(2, 6), r(2, 3), r(2, 3), None, 2, 6, 1, 3, [True] * 3),
    }
    for words, call in calls.items():
        with pytest.raises((RuntimeError, NotImplementedError), match=words):
            call()


def test_helpers_called_by_name_refuse_what_does_not_fit():
    aten, r = tede.ops.aten, tede.rand
    calls = {
        "values don't fit together": lambda: aten.svd_backward(r(4, 3), r(2, 3, 3), r(4, 3), r(2, 2), r(4, 3), r(2, 3, 4, 4)),
        'no elements to pad with': lambda: aten.pad_edges(r(2, 0), [5, 2, -1, 100], 2),
        'numbers for 1 dimensions': lambda: aten.pad_taken_back(r(3), [0] * 400),
        'repeat_backward: 80 repetitions of 3 dimensions': lambda: aten.repeat_backward(r(2), [2] * 80, [1] * 3),
        'repeat_backward: 1 repetitions of 3 dimensions': lambda: aten.repeat_backward(r(2), [2], [1] * 3),
        'is not equal to len.dims. = 80': lambda: aten.permute_backward(r(2), list(range(80))),
        'tensorsolve: 80 dims': lambda: tede.linalg.tensorsolve(r(2, 2), r(2), [0] * 80),
        'fftshift: 80 dims': lambda: tede.fft.fftshift(r(2, 2), [0] * 80),
        'lu_factor_backward: The input tensor LU': lambda: aten.lu_factor_backward(r(2), r(2), r(2)),
        'linalg_det_backward: The input tensor A': lambda: aten.linalg_det_backward(r([]), r([]), r([])),
        'pinv_backward: The input tensor A': lambda: aten.pinv_backward(r([]), r([]), r([])),
        'not implemented for .Half': lambda: aten._pdist_backward(r(3).half(), r(3, 2).half(), 2.0, r(3).half()),
        'batch_norm_grad: mean is needed': lambda: aten.batch_norm_grad(r(2, 4).requires_grad_(), r(2, 4), None, None, None, None, None, False, 1e-5, [True] * 3),
        'batch_norm_grad: input must have at least 2': lambda: aten.batch_norm_grad(r(2).requires_grad_(), r(2), None, None, None, None, None, True,
                                                                                     1e-5, [True] * 3),
        'attention': lambda: aten.attention_grad(r(2, 3).requires_grad_(), r(2, 3), r(2, 3), r(2, 3), None, r(2, 3), r(2, 3), False, 1.0, [True] * 3),
        'roll_backward: 140 shifts': lambda: aten.roll_backward(r(2).requires_grad_(), [1] * 140, [0] * 140),
        'roll_backward: 3 shifts of 1 dims': lambda: aten.roll_backward(r(2), [1] * 3, [0]),
        'a number has no features': lambda: aten.linear_backward(r([]), r([]), r([]), [True] * 3),
        'Dimension out of range': lambda: aten.prod_backward(r(2, 1), r(2, 3) * 0, r(2, 1), 99, True),
        'dim is empty': lambda: aten.fft_r2c_backward(r(1), [], 0, True, [1]),
        'shape of the operand': lambda: aten.fft_r2c_backward(r(3, 2), [0], 0, True, [3]),
        'fft_r2c_backward: a gradient without dimensions': lambda: aten.fft_r2c_backward(r([]), [0], 0, True, []),
        'fft_c2r_backward: a gradient without dimensions': lambda: aten.fft_c2r_backward(r([]), [-1], 0),
        'num groups to be greater than 0': lambda: aten.group_norm_grad(r(2, 4), None, None, r(2, 4), r(2, 2), r(2, 2), None, 2, 4, 1, 0, 1e-5,
                                                                            [True] * 3),
        'no batch of groups': lambda: aten.group_norm_tangent(r(4), None, r(3), r(4, 3), r(4), r(4), r(2), -2 ** 62, 2, 2, 0, 0.0),
        'rnn_layer_backward': lambda: aten.rnn_layer_backward(r(3), r(2, 3, 3), r(3, 4), r(3, 4), r(3, 4), r(3, 4), r(3, 4), r(3, 4), 2, True,
                                                              [False] * 4 + [True]),
        'invalid maxIdx': lambda: aten.max_pool_backward(r(2, 2), r(2, 2), tede.full((2, 2), 90), 2),
    }
    for words, call in calls.items():
        with pytest.raises((RuntimeError, IndexError), match=words):
            call()


def test_pieces_of_eight_bytes_are_put_where_a_float32_begins():
    x, y = tede.ones(3, 1), tede.zeros(3, 2)        # under UndefinedBehaviorSanitizer: a store to where no uint64_t may be
    assert tede.cat([x, y], 1).tolist() == [[1, 0, 0]] * 3


@pytest.mark.parametrize('name, arguments', [
    ('cross_entropy_targets', lambda: (tede.ones(4), tede.zeros(2, 2, dtype=tede.int64), None, -1, 0.0)),
    ('linear_scan', lambda: (tede.ones(3, 3, 2), tede.ones(()), 1, True)),
    ('cumprod_backward', lambda: (tede.ones(3, 4), tede.zeros(4), tede.ones(2, 3, 4, 4), -1)),
    ('linalg_solve_backward', lambda: (tede.ones(3), tede.ones(3), tede.eye(3), [3], True, [])),
    ('permute_backward', lambda: (tede.ones(3, 3), [-2 ** 62])),
    ('resample', lambda: (tede.ones(2, 0), [2, 1], 0, False, -1.0, 1.0, -1.0)),
    ('resample', lambda: (tede.ones(2, 3), [2], 7, False, 0.0, 0.0, 0.0)),
    ('resample', lambda: (tede.ones(2, 3, 3, 3), [4, 6, 6, 6], 0, False, 0.0, 0.0, 0.0)),
    ('resample_backward', lambda: (tede.ones(2, 3, 3), [5, 2, 0], [3], 1, True, -1.0, 1.0, 0.5)),
    ('var_backward', lambda: (tede.ones(3), tede.ones(2, 3), [100], None, True)),
    ('restore_dims', lambda: (tede.ones(3), 100, [0], False)),
    ('group_norm_grad', lambda: (tede.ones(2, 2), None, None, tede.ones(2, 2), tede.ones(2), tede.ones(2), None, 2, 2, 1, 0, 1e-5, [True] * 3)),
])
def test_helpers_of_gradients_refuse_what_their_operator_would_not_give_them(name, arguments):
    with pytest.raises((RuntimeError, IndexError)):
        getattr(tede.ops.aten, name)(*arguments())


def test_a_paddings_gradient_is_read_by_the_paddings_sizes():
    x, grad = tede.ones(2, 3, 4), tede.arange(36.).reshape(2, 3, 6)
    want = tede.ops.aten.pad_edges_backward(grad, x, [1, 1], 0)
    assert tede.equal(tede.ops.aten.pad_edges_backward(grad.flatten(), x, [1, 1], 0), want)


@pytest.mark.parametrize("mode, share", [("sum", 1.0), ("mean", 0.5)])
def test_elements_behind_the_last_bag_have_no_gradient(mode, share):
    weight = tede.ones(4, 1, requires_grad=True)
    bags = tede.nn.functional.embedding_bag(tede.arange(4).repeat(50), weight, tede.tensor([0, 2]), mode=mode, include_last_offset=True)
    bags.sum().backward()
    assert weight.grad.flatten().tolist() == [share, share, 0, 0]


@pytest.mark.parametrize("pad, mode", [([-2, 3], 2), ([3, 0], 0), ([-5, 4], 0)])
def test_edges_that_are_not_there_are_no_padding(pad, mode):
    with pytest.raises(RuntimeError, match="has none for a padding"):
        tede.ops.aten.pad_edges(tede.ones(1, 2 if mode else 3), pad, mode)


def test_results_of_more_dimensions_than_there_are():
    """65 of them: refused before anything is written beyond an array of 64."""
    x = tede.ones((1,) * 64)
    for call in (lambda: tede.view_as_real(x.to(tede.complex64)), lambda: x.unsqueeze(0), lambda: x.unfold(0, 1, 1), lambda: tede._chunk_cat([x], 63, 1),
                 lambda: x.quantile(tede.tensor([.5]), keepdim=True)):
        with pytest.raises(RuntimeError, match='at most 64|64 dim'):
            call()


def test_layers_of_numbers_and_letters_of_a_locale():
    x, h = tede.ones(2, 1, 3), tede.ones(0, 1, 3)
    with pytest.raises(RuntimeError, match='greater than zero'):
        tede.rnn_tanh(x, h, [], True, 0, 0.0, False, False, False)
    with pytest.raises(IndexError, match='no dimensions'):
        tede.tensordot(tede.tensor(2.), tede.tensor(3.), dims=([0], [0]))
    with pytest.raises(RuntimeError, match='a-zA-Z'):
        tede.einsum('\u00e9,\u00e9', tede.ones(2), tede.ones(2))
    with pytest.raises(RuntimeError):
        tede.nn.functional.conv1d(tede.ones(1, 1, 4), tede.ones(1, 1, 3), padding='same', dilation=2**62)


@pytest.mark.parametrize('n', [3, 40])
def test_singular_values_of_what_is_not_finite(n):
    x = tede.eye(n)
    x[1, 2] = float('inf')
    assert tede.linalg.svdvals(x).isnan().all()
    x[1, 2] = float('nan')
    with pytest.raises(tede.linalg.LinAlgError, match='non-finite'):
        tede.linalg.svdvals(x)


@pytest.mark.parametrize('dtype', [tede.float16, tede.int64, tede.bool, tede.complex128])
def test_distances_of_rows_without_elements(dtype):
    """Of every dtype: the loops are of float32 and float64, and would write four bytes for each distance."""
    assert tede.ops.aten._pdist_forward(tede.ones(40, 0, dtype=dtype), 2.0).tolist() == [0] * 780
    alone = tede.ops.aten._pdist_backward(tede.ones(0, dtype=dtype), tede.ones(1, 40, dtype=dtype), 2.0, tede.ones(0, dtype=dtype))
    assert alone.tolist() == [[0] * 40]


def test_observed_ranges_have_as_many_ends_as_beginnings():
    one, on = tede.ones(1), tede.ones(1, dtype=tede.int64)
    with pytest.raises(RuntimeError, match='running_min has 3 elements and running_max 1'):
        tede.fused_moving_avg_obs_fake_quant(tede.rand(3), on, on, tede.zeros(3), one, one, tede.zeros(1, dtype=tede.int32), .5, 0, 255, 0)


def test_what_is_no_device_and_more_dimensions_than_a_tensor_has():
    import tede.func.dim
    for wrong in None, 1.5, [], tede.ones(2):
        with pytest.raises(TypeError, match="a device was expected"):
            tede._C._stream_is_recording(wrong)
    for make in tede.func.dim.dims, tede.func.dim.DimList:
        with pytest.raises(ValueError, match="at most 64"):
            make(2 ** 70)
