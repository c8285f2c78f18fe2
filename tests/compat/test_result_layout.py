"""How results lie in memory: channels innermost where the input's are, transformed dimensions innermost, matrices in columns."""
import pytest

POOLED = {
    'conv2d': lambda lib, x: lib.nn.functional.conv2d(x, lib.ones(4, 4, 3, 3)),
    'conv_transpose2d': lambda lib, x: lib.nn.functional.conv_transpose2d(x, lib.ones(4, 2, 3, 3)),
    'avg_pool2d': lambda lib, x: lib.nn.functional.avg_pool2d(x, 2),
    'adaptive_avg_pool2d': lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 2),
    'adaptive_max_pool2d': lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 2),
    'max_pool2d': lambda lib, x: lib.nn.functional.max_pool2d(x, 2),
    'batch_norm': lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    'group_norm': lambda lib, x: lib.nn.functional.group_norm(x, 2),
    'interpolate': lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2, mode='bilinear'),
    'pad': lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), mode='reflect'),
    'pixel_shuffle': lambda lib, x: lib.nn.functional.pixel_shuffle(lib.cat([x, x], 1), 2),
    'cat': lambda lib, x: lib.cat([x, x], 1),
    'relu': lambda lib, x: x.relu(),
}


@pytest.mark.parametrize('name', POOLED)
def test_channels_stay_last(lib, name):
    plain = lib.arange(2 * 4 * 6 * 6.).reshape(2, 4, 6, 6)
    x = plain.to(memory_format=lib.channels_last).requires_grad_()
    result = POOLED[name](lib, x)
    assert result.is_contiguous(memory_format=lib.channels_last) and not result.is_contiguous()
    assert lib.allclose(result, POOLED[name](lib, plain), atol=1e-5)
    assert POOLED[name](lib, plain).is_contiguous()
    result.sum().backward()
    assert x.grad.shape == x.shape


def test_weights_with_channels_last_are_enough_for_a_convolution(lib):
    weight = lib.ones(4, 3, 3, 3).to(memory_format=lib.channels_last)
    assert lib.nn.functional.conv2d(lib.ones(2, 3, 6, 6), weight).is_contiguous(memory_format=lib.channels_last)


def test_tensors_joined_lie_in_the_format_that_they_share(lib):
    plain = lib.ones(2, 4, 6, 6)
    assert lib.cat([plain.to(memory_format=lib.channels_last), plain]).is_contiguous()


def test_transformed_dimensions_are_innermost(lib):
    x = lib.arange(60.).reshape(3, 4, 5)
    assert lib.fft.fft(x, dim=1).stride() == (20, 1, 4)
    assert lib.fft.fft(x, dim=0).stride() == (1, 15, 3)
    assert lib.fft.rfftn(x, dim=(0, 1)).stride() == (3, 1, 9)
    assert lib.fft.irfftn(lib.fft.rfftn(x, dim=(1, 0)), dim=(1, 0), s=(4, 3)).shape == (3, 4, 5)
    for dims in ((0,), (1,), (0, 1), (2, 0), (1, 0, 2)):
        assert lib.allclose(lib.fft.ifftn(lib.fft.fftn(x, dim=dims), dim=dims).real, x, atol=1e-5)
        assert lib.allclose(lib.fft.irfftn(lib.fft.rfftn(x, dim=dims), dim=dims, s=[x.shape[d] for d in dims]), x, atol=1e-5)


def test_an_order_of_dimensions_is_kept(lib):
    x = lib.arange(15.).reshape(3, 5).t()
    for result in (x.flip(0), x.sort(0).values, x.sort(0).indices, x.index_fill(0, lib.tensor([1]), 1.), x.put(lib.tensor([1]), lib.ones(1))):
        assert result.stride() == (1, 5)
    assert x.ravel().stride() == (1,)
    assert x.flip(0).tolist() == x.contiguous().flip(0).tolist()


def test_solutions_lie_as_lapack_leaves_them(lib):
    A = lib.eye(3).repeat(2, 1, 1)
    assert lib.linalg.solve(A, lib.ones(2, 3)).stride() == (1, 2)
    assert lib.linalg.solve(A, lib.ones(2, 3, 4)).stride() == (12, 1, 3)
    found = lib.linalg.lstsq(lib.eye(4, 3).repeat(2, 1, 1), lib.arange(16.).reshape(2, 4, 2)).solution
    assert found.stride() == (8, 1, 4)
    assert lib.allclose(found, lib.arange(16.).reshape(2, 4, 2)[:, :3], atol=1e-5)


def test_attention_lies_as_its_queries(lib):
    attend = lib.nn.functional.scaled_dot_product_attention
    heads = lib.ones(2, 6, 4, 8).transpose(1, 2)
    assert attend(heads, heads, heads).stride() == (192, 8, 32, 1)
    assert attend(heads.contiguous(), heads, heads).stride() == (192, 48, 8, 1)


def test_empty_arrays_bring_their_strides(lib):
    numpy = pytest.importorskip('numpy')
    empty = numpy.lib.stride_tricks.as_strided(numpy.zeros(1, 'f4'), (5, 0, 3), (0, 12, 4))
    assert lib.from_numpy(empty).stride() == lib.from_numpy(empty).clone().stride() == (0, 3, 1)


LAYOUTS = {
    'a column': lambda lib, dtype: lib.ones(1, 3).to(dtype).t(), 'a row': lambda lib, dtype: lib.ones(4, 1).to(dtype).t(),
    'one of two': lambda lib, dtype: lib.ones(2).to(dtype)[::2], 'nothing, turned': lambda lib, dtype: lib.ones(3, 0).to(dtype).t(),
    'nothing with gaps': lambda lib, dtype: lib.ones(0, 6).to(dtype)[:, ::2], 'reversed': lambda lib, dtype: lib.ones(1, 2, 2).to(dtype).permute(2, 1, 0),
    'four, reversed': lambda lib, dtype: lib.ones(3, 3, 2, 2).to(dtype).permute(3, 2, 1, 0), 'gaps': lambda lib, dtype: lib.ones(3, 6).to(dtype)[:, ::2],
    'expanded': lambda lib, dtype: lib.ones(1, 3).to(dtype).expand(2, 3),
    'channels last': lambda lib, dtype: lib.ones(2, 3, 2, 2).to(dtype).contiguous(memory_format=lib.channels_last),
}
PLACED = {
    'abs': lambda lib, x: x.abs(), 'angle': lambda lib, x: x.angle(), 'conj_physical': lambda lib, x: x.conj_physical(), 'deg2rad': lambda lib, x: x.deg2rad(),
    'rad2deg': lambda lib, x: x.rad2deg(), 'hardtanh': lambda lib, x: lib.nn.functional.hardtanh(x), 'relu6': lambda lib, x: lib.nn.functional.relu6(x),
    'nan_to_num': lambda lib, x: x.nan_to_num(), 'frexp': lambda lib, x: x.frexp().exponent, 'isfinite': lambda lib, x: x.isfinite(),
    'flip': lambda lib, x: x.flip(0), 'sort': lambda lib, x: x.sort(-1).indices, 'argsort': lambda lib, x: x.argsort(), 'msort': lambda lib, x: x.msort(),
    'x ** 0': lambda lib, x: x ** 0, 'x ** 1': lambda lib, x: x ** 1, '2 ** x': lambda lib, x: 2 ** x, '1 ** x': lambda lib, x: 1 ** x,
    'igamma': lambda lib, x: lib.igamma(x, x), 'rrelu': lambda lib, x: lib.rrelu(x), 'logsigmoid': lambda lib, x: lib.nn.functional.logsigmoid(x),
    'masked_fill': lambda lib, x: x.masked_fill(x == 1, 2), 'index_fill': lambda lib, x: x.index_fill(0, lib.tensor([], dtype=lib.int64), 2),
    'put': lambda lib, x: x.put(lib.tensor([], dtype=lib.int64), x[:0].flatten()), 'index_put': lambda lib, x: x.index_put((x == 2,), x[:0].flatten()),
    'roll': lambda lib, x: x.roll(1, 0), 'normal': lambda lib, x: lib.normal(x), 'pixel_shuffle': lambda lib, x: lib.pixel_shuffle(x, 1),
    'pixel_unshuffle': lambda lib, x: lib.pixel_unshuffle(x, 1), 'channel_shuffle': lambda lib, x: lib.channel_shuffle(x, 1),
    'fft': lambda lib, x: lib.fft.fft(x, 2, 0), 'matrix_power': lambda lib, x: lib.linalg.matrix_power(x, 1), 'prelu': lambda lib, x: lib.prelu(x, lib.ones(1)),
}


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', PLACED)
def test_results_lie_as_their_operands_in_both(both, name):
    compared = 0
    for dtype in ('float32', 'complex64', 'int64'):
        for where, layout in LAYOUTS.items():
            found = []
            for lib in both:
                try:
                    found.append(PLACED[name](lib, layout(lib, getattr(lib, dtype))).stride())
                except (RuntimeError, IndexError, NotImplementedError, ValueError):
                    found.append(None)
            assert found[0] == found[1], (dtype, where)
            compared += found[1] is not None
    assert compared


def test_what_is_resized_for_factors_has_their_columns(lib):
    a = lib.tensor([[4., 1., 0.], [1., 3., 1.], [0., 1., 2.]])

    def empty():
        return lib.empty(0)
    assert lib.linalg.inv(a, out=empty()).stride() == (1, 3)
    assert lib.geqrf(a, out=(empty(), empty()))[0].stride() == (1, 3)
    assert lib.linalg.qr(a, out=(empty(), empty()))[0].stride() == (1, 3)
    assert lib.linalg.lu_factor(a, out=(empty(), lib.empty(0, dtype=lib.int32)))[0].stride() == (1, 3)
    assert lib.linalg.cholesky_ex(a, out=(empty(), lib.empty(0, dtype=lib.int32)))[0].stride() == (1, 3)
    assert lib.linalg.solve(a, a, out=empty()).stride() == (1, 3)
    kept = lib.empty(3, 3)
    assert lib.linalg.inv(a, out=kept).stride() == (3, 1) and lib.allclose(kept @ a, lib.eye(3), atol=1e-5)


@pytest.mark.parametrize('format', ['channels_last', 'contiguous_format'])
def test_to_goes_by_the_format_that_strides_suggest(both, format):
    made = {'plain': lambda lib, n, c, h, w: lib.zeros(n, c, h, w),
            'last': lambda lib, n, c, h, w: lib.zeros(n, h, w, c).permute(0, 3, 1, 2),
            'turned': lambda lib, n, c, h, w: lib.zeros(w, h, c, n).permute(3, 2, 1, 0),
            'expanded': lambda lib, n, c, h, w: lib.zeros(n, c, 1, 1).expand(n, c, h, w)}
    for sizes in ((10, 2, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1), (2, 1, 3, 1), (2, 3, 1, 2), (1, 3, 2, 2), (2, 3, 2, 2), (0, 3, 2, 2)):
        for way, make in made.items():
            found = []
            for lib in both:
                x = make(lib, *sizes)
                y = x.to(memory_format=getattr(lib, format))
                found.append((y.stride(), y is x))
            assert found[0] == found[1], (sizes, way)


@pytest.mark.parametrize("name", ["AvgPool2d", "LPPool2d", "BatchNorm2d", "BatchNorm2d.eval", "GroupNorm", "RMSNorm", "ReflectionPad2d", "ReplicationPad2d",
                                  "BatchNorm3d", "GroupNorm3d", "ReflectionPad3d", "ReplicationPad3d"])
@pytest.mark.parametrize("dense", [True, False])
def test_gradients_of_layers_lie_as_their_input(lib, name, dense):
    nn, dims = lib.nn, 3 if "3d" in name else 2
    layer = {"AvgPool2d": lambda: nn.AvgPool2d(2), "LPPool2d": lambda: nn.LPPool2d(2, 2), "GroupNorm": lambda: nn.GroupNorm(2, 4),
             "GroupNorm3d": lambda: nn.GroupNorm(2, 4), "RMSNorm": lambda: nn.RMSNorm([4, 6, 6]), "BatchNorm2d": lambda: nn.BatchNorm2d(4),
             "BatchNorm2d.eval": lambda: nn.BatchNorm2d(4).eval(), "BatchNorm3d": lambda: nn.BatchNorm3d(4)}.get(name, lambda: getattr(nn, name)(1))()
    format = lib.channels_last if dims == 2 else lib.channels_last_3d
    plain = lib.rand(2, 4, *[6] * dims, requires_grad=True)
    x = plain.detach().contiguous(memory_format=format).requires_grad_()
    y, z = layer(x), layer(plain)
    assert y.is_contiguous(memory_format=format) and lib.allclose(y, z, atol=1e-6)
    weights = lib.rand(y.shape)
    given = lib.empty_like(y).copy_(weights) if dense else weights
    grad, = lib.autograd.grad(y, x, given)
    follows = dense or name != "RMSNorm"
    assert grad.is_contiguous(memory_format=format) == follows and (follows or grad.is_contiguous())
    assert lib.allclose(grad, lib.autograd.grad(z, plain, weights)[0], atol=1e-5)


RESIZED = {
    'avg_pool2d': lambda lib, x, out: lib._C._nn.avg_pool2d(x, 2, out=out),
    'adaptive_avg_pool2d': lambda lib, x, out: lib._C._nn.adaptive_avg_pool2d(x, 2, out=out),
    'adaptive_max_pool2d': lambda lib, x, out: lib._C._nn.adaptive_max_pool2d(x, 2, out=(out, out.new_zeros(0, dtype=lib.int64)))[0],
    'reflection_pad2d': lambda lib, x, out: lib._C._nn.reflection_pad2d(x, 1, out=out),
    'replication_pad2d': lambda lib, x, out: lib._C._nn.replication_pad2d(x, 1, out=out),
    'cat': lambda lib, x, out: lib.cat([x, x], out=out),
    'sort': lambda lib, x, out: lib.sort(x, out=(out, out.new_zeros(0, dtype=lib.int64)))[0],
    'frexp': lambda lib, x, out: lib.frexp(x, out=(out, out.new_zeros(0, dtype=lib.int32)))[0],
    'relu': lambda lib, x, out: lib.clamp(x, 0, out=out),
}
CONTIGUOUS = {
    'stack': lambda lib, x, out: lib.stack([x, x], out=out),
    'kron': lambda lib, x, out: lib.kron(x, x, out=out),
    'ndtr': lambda lib, x, out: lib.special.ndtr(x, out=out),
    'log_sigmoid': lambda lib, x, out: lib._C._nn.log_sigmoid(x, out=out),
    'slice_scatter': lambda lib, x, out: lib.slice_scatter(x, x, out=out),
    'cross': lambda lib, x, out: lib.linalg.cross(x[..., :3], x[..., :3], out=out),
}


@pytest.mark.parametrize('name', [*RESIZED, *CONTIGUOUS])
def test_an_out_of_another_shape_lies_as_a_new_result(lib, name):
    x = lib.arange(2 * 4 * 6 * 6.).reshape(2, 4, 6, 6).to(memory_format=lib.channels_last)
    call = {**RESIZED, **CONTIGUOUS}[name]
    result = call(lib, x, lib.zeros(0))
    assert result.is_contiguous() == (name in CONTIGUOUS)
    assert name in CONTIGUOUS or result.is_contiguous(memory_format=lib.channels_last)
    fits = call(lib, x, lib.zeros(result.shape))
    assert lib.equal(fits, result)


def test_an_operand_of_another_dtype_is_dense_when_strides_are_compared(lib):
    rows, same, turned = lib.arange(3).expand(3, 3), lib.arange(3.).expand(3, 3), lib.ones(3, 3, 3).permute(2, 1, 0)
    for call in lib.lt, lib.add, lib.div, lib.atan2, lib.maximum, lib.xlogy, lib.fmod, lib.pow:
        assert call(rows, turned).stride() == (1, 9, 3) and call(same, turned).stride() == (1, 3, 9)
        assert call(rows, turned, out=lib.zeros(0)).stride() == (1, 9, 3)


def test_strides_of_renorm_and_ldexp_where_a_dimension_has_one_element(lib):
    row, column = lib.rand(3, 1).mT, lib.rand(1, 3).mT
    assert row.renorm(2, 0, 1.).stride() == (3, 1) and column.renorm(2, 0, 1.).stride() == (1, 1)
    assert lib.ldexp(row, row.int()).stride() == (1, 1) and lib.ldexp(column, column.int()).stride() == (1, 3)
    turned = lib.ones(3, 3, 3, dtype=lib.int32).permute(2, 1, 0)
    assert lib.ldexp(lib.rand(3).expand(3, 3), turned).stride() == (1, 3, 9)


@pytest.mark.parametrize('training', [False, True])
@pytest.mark.parametrize('sizes, order', [((1, 3, 2, 1), (0, 2, 1, 3)), ((1, 3, 2, 1, 2), (0, 2, 1, 3, 4)), ((2, 3, 1, 2), (0, 2, 3, 1)),
                                          ((1, 3, 1, 2), (0, 3, 1, 2)), ((2, 3, 4, 2), (0, 3, 2, 1))])
def test_batch_norm_looks_past_dimensions_of_size_1(both, training, sizes, order):
    seen = []
    for lib in both:
        x = lib.arange(float(lib.Size(sizes).numel())).reshape(sizes).permute(order)
        channels = x.shape[1]
        y = lib.nn.functional.batch_norm(x, lib.zeros(channels), lib.ones(channels), training=training)
        seen.append((y.stride(), [round(v, 5) for v in y.flatten().tolist()]))
    assert seen[0] == seen[1]
