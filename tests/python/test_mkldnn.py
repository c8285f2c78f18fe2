"""The mkldnn layout: what oneDNN computes is what the strided operators compute. Without oneDNN (`make onednn-test PIP=1` installs it) only
what tede says about that is tested."""
import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import tede
from tede import nn
from tede.nn import functional as F
from test_c_examples import CC

needs_onednn = pytest.mark.skipif(not tede.backends.mkldnn.is_available(), reason="oneDNN isn't installed: make onednn-test PIP=1")


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


def close(made, wanted, tolerance=2e-5):
    assert made.is_mkldnn and made.shape == wanted.shape and made.dtype == wanted.dtype
    tede.testing.assert_close(made.to_dense(), wanted, rtol=tolerance, atol=tolerance)


def pair(*size, seed=0):
    tede.manual_seed(seed)
    x = tede.randn(*size)
    return x.clone().requires_grad_(), x.to_mkldnn().requires_grad_()


# ---- without oneDNN

def test_without_onednn_it_says_what_to_install():
    done = python("import tede\nassert not tede.backends.mkldnn.is_available()\nassert not tede.ones(1).is_mkldnn\n"
                  "assert str(tede._mkldnn) == 'tede._mkldnn'\ntede.ones(2).to_mkldnn()", TEDE_ONEDNN="/there/is/none.so")
    assert done.returncode == 1 and "RuntimeError: to_mkldnn: oneDNN 3 isn't installed" in done.stderr
    assert "pip install 'tede[onednn]'" in done.stderr


@pytest.mark.skipif(not CC, reason="no C compiler")
@pytest.mark.parametrize("version, says", [("2, 6, 3, 0, 2", "is oneDNN 2.6.3, and only those of version 3 can be used"),
                                           ("3, 0, 0, 0, 2", "has no function dnnl_")])
def test_another_version_is_refused(tmp_path, version, says):
    source = tmp_path / "fake.c"
    source.write_text(f"static struct {{int major, minor, patch; const char *hash; unsigned a, b;}} v = {{{version}}};\n"
                      "const void *dnnl_version(void) { return &v; }\n")
    subprocess.run([CC, "-shared", "-fPIC", str(source), "-o", str(tmp_path / "fake.so")], check=True)
    done = python("import tede; tede.ones(2).to_mkldnn()", TEDE_ONEDNN=str(tmp_path / "fake.so"))
    assert done.returncode == 1 and says in done.stderr


# ---- tensors

@needs_onednn
@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16, tede.float16, tede.int8, tede.uint8])
@pytest.mark.parametrize("size", [(3,), (0, 4), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_there_and_back(dtype, size):
    x = (tede.randn(*size) * 10).abs().to(dtype)
    m = x.to_mkldnn()
    assert m.layout is tede._mkldnn and m.is_mkldnn and not x.is_mkldnn and m.dtype is dtype
    assert m.shape == x.shape and m.numel() == x.numel() and m.is_contiguous() and m.device == x.device
    assert tede.equal(m.to_dense(), x) and tede.equal(m.clone().to_dense(), x) and tede.equal(m.detach().to_dense(), x)
    x.add_(1)
    assert not x.numel() or not tede.equal(m.to_dense(), x)         # the elements are copies


@needs_onednn
def test_other_dtypes_and_orders():
    x = tede.randn(4, 6).t()
    assert tede.equal(x.to_mkldnn(tede.bfloat16).to_dense(), x.bfloat16())
    assert tede.equal(x.to_mkldnn().to(tede.bfloat16).to_dense(tede.float32), x.bfloat16().float())
    for refused in tede.ones(2, dtype=tede.float64), tede.ones(2, dtype=tede.int64), tede.ones(2, dtype=tede.bool):
        with pytest.raises(RuntimeError, match="expects float, bfloat16, half, uint8, int8 tensor input"):
            refused.to_mkldnn()
    with pytest.raises(RuntimeError, match="1 to 12 dimensions, not 0"):
        tede.tensor(1.).to_mkldnn()
    with pytest.raises(NotImplementedError, match="strided tensor is expected"):
        tede.eye(2).to_sparse().to_mkldnn()
    with pytest.raises(NotImplementedError, match="mkldnn"):
        tede.ones(2).to_mkldnn().to("meta")


@needs_onednn
def test_printing_pickling_and_copies():
    m = tede.ones(2).to_mkldnn()
    assert repr(m) == "tensor([1., 1.], layout=torch._mkldnn)"
    file = io.BytesIO()
    tede.save(m, file)
    file.seek(0)
    for other in pickle.loads(pickle.dumps(m)), tede.load(file), copy.deepcopy(m), copy.copy(m):
        close(other, tede.ones(2))
    leaf = pickle.loads(pickle.dumps(m.clone().requires_grad_()))
    assert leaf.requires_grad and leaf.is_leaf


@needs_onednn
def test_factories():
    assert tede.zeros(2, 3, layout=tede._mkldnn).to_dense().tolist() == [[0.] * 3] * 2
    m = tede.empty(2, 3, layout=tede._mkldnn, dtype=tede.bfloat16)
    assert m.is_mkldnn and m.dtype is tede.bfloat16 and m.shape == (2, 3)
    close(tede.zeros_like(tede.ones(2, 3).to_mkldnn()), tede.zeros(2, 3))
    assert m.new_zeros(4).to_dense().tolist() == [0.] * 4 and m.new_zeros(4).is_mkldnn
    with pytest.raises(RuntimeError):
        tede.ones(2, 3, layout=tede._mkldnn)
    with pytest.raises(RuntimeError):
        m.new(3)


@needs_onednn
def test_what_is_no_view_and_what_has_no_kernel():
    m = tede.ones(2, 3).to_mkldnn()
    with pytest.raises(RuntimeError, match="Change to use reshape instead"):
        m.view(6)
    for call in lambda: m.exp(), lambda: m.sum(), lambda: m[0], lambda: tede.cat([m, m]), lambda: m.item():
        with pytest.raises(RuntimeError):
            call()
    for call in lambda: m + tede.ones(2, 3), lambda: tede.ones(2, 3) * m, lambda: m + tede.ones(4).to_mkldnn(), lambda: m.copy_(tede.ones(2, 3)):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError, match="to_dense"):
        m.numpy()


@needs_onednn
def test_writes_are_seen_by_aliases():
    m = tede.arange(6.).reshape(2, 3).to_mkldnn()
    row = m.reshape(6)
    row.add_(row)
    assert m.to_dense().tolist() == [[0., 2., 4.], [6., 8., 10.]]
    m.detach().zero_()
    assert row.to_dense().tolist() == [0.] * 6
    m.copy_(tede.ones(2, 3).to_mkldnn())
    assert row.to_dense().tolist() == [1.] * 6
    out = tede.empty(2, 3, layout=tede._mkldnn)
    assert tede.add(m, m, alpha=2, out=out) is out and out.to_dense().tolist() == [[3.] * 3] * 2
    assert m.mul_(3).to_dense().tolist() == [[3.] * 3] * 2


# ---- operators

UNARY = {
    "relu": tede.relu, "gelu": F.gelu, "sigmoid": tede.sigmoid, "tanh": tede.tanh, "softmax": lambda x: x.softmax(1), "times": lambda x: x * 2.5,
    "from the left": lambda x: 2 * x, "plus": lambda x: x + 1.5, "minus": lambda x: 1 - x, "square": lambda x: x * x, "sum": lambda x: tede.add(x, x, alpha=-3),
    "broadcast": lambda x: x * x.reshape(2, 6, 64).softmax(2).reshape(2, 6, 8, 8),
    "transpose": lambda x: x.transpose(1, -1), "reshape": lambda x: x.reshape(6, -1), "flatten": lambda x: x.flatten(1), "clone": lambda x: x.clone(),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1), "max_pool2d, ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool2d": lambda x: F.avg_pool2d(x, (3, 2), padding=1), "avg_pool2d, without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (4, 2)),
    "max_pool3d": lambda x: F.max_pool3d(x.reshape(2, 3, 2, 8, 8), 2), "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(2, 3, 2, 8, 8), (1, 2, 3)),
    "batch_norm": lambda x: F.batch_norm(x, tede.arange(6.), tede.arange(1., 7.), tede.ones(6) * 2, tede.arange(6.)),
    "batch_norm, training": lambda x: F.batch_norm(x, None, None, tede.arange(1., 7.), training=True),
    "batch_norm, no weight": lambda x: F.batch_norm(x, None, None, training=True),
    "prelu": lambda x: F.prelu(x, tede.arange(6.) / 4), "prelu, one": lambda x: F.prelu(x, tede.tensor([0.25])),
    "linear": lambda x: F.linear(x, tede.arange(24.).reshape(3, 8) / 10, tede.arange(3.)),
    "conv2d, then relu": lambda x: tede.relu(F.conv2d(x, tede.arange(4. * 6 * 9).reshape(4, 6, 3, 3).cos(), padding=1)) * 0.5,
}


@needs_onednn
@pytest.mark.parametrize("name", UNARY)
def test_operators_and_their_gradients(name):
    x, m = pair(2, 6, 8, 8)
    wanted, made = UNARY[name](x), UNARY[name](m)
    close(made.detach(), wanted.detach())
    seeds = tede.randn(*wanted.shape)
    wanted.backward(seeds)
    made.to_dense().backward(seeds)
    assert m.grad.is_mkldnn
    close(m.grad, x.grad, 2e-4)


@needs_onednn
@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "gelu"])
def test_forms_in_place(name):
    x, m = pair(3, 5)
    for tensor in x, m:
        y = tensor.detach().clone()
        same = F.gelu(y) if name == "gelu" else getattr(y, name + "_")()
        assert name == "gelu" or same is y
        same = same.to_dense() if same.is_mkldnn else same
        tede.testing.assert_close(same, F.gelu(x.detach()) if name == "gelu" else getattr(x.detach(), name)(), rtol=2e-5, atol=2e-5)


CONVOLUTIONS = {
    "1d": ((2, 4, 9), (6, 4, 3), {"stride": 2, "padding": 1}), "2d": ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": (1, 2)}),
    "groups": ((2, 8, 9, 8), (12, 2, 3, 3), {"groups": 4, "stride": (2, 1)}), "depthwise": ((2, 8, 9, 8), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
    "dilation": ((1, 4, 9, 9), (5, 4, 3, 3), {"dilation": 2, "padding": 2}), "3d": ((1, 2, 5, 6, 7), (4, 2, 2, 3, 3), {"padding": 1, "stride": 2}),
    "1 x 1": ((2, 16, 5, 5), (32, 16, 1, 1), {}),
    "transposed 1d": ((2, 4, 9), (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "transposed 2d": ((2, 4, 5, 6), (4, 6, 3, 3), {"stride": 2, "padding": 1}),
    "transposed, groups": ((2, 8, 5, 6), (8, 3, 3, 2), {"groups": 4, "dilation": 2}),
}


@needs_onednn
@pytest.mark.parametrize("of_weight", [False, True], ids=["strided weight", "mkldnn weight"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients(name, of_weight):
    size, weight_size, options = CONVOLUTIONS[name]
    function = getattr(F, f"conv{'_transpose' if 'transposed' in name else ''}{len(size) - 2}d")
    x, m = pair(*size)
    w, mw = pair(*weight_size, seed=1)
    b, mb = pair(weight_size[1] * options.get("groups", 1) if "transposed" in name else weight_size[0], seed=2)
    if not of_weight:
        mw, mb = w.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
    wanted, made = function(x, w, b, **options), function(m, mw, mb, **options)
    close(made.detach(), wanted.detach(), 1e-4)
    seeds = tede.randn(*wanted.shape)
    wanted.backward(seeds)
    made.to_dense().backward(seeds)
    close(m.grad, x.grad, 1e-4)
    for mine, theirs in (mw, w), (mb, b):
        assert mine.grad.is_mkldnn == of_weight
        tede.testing.assert_close(mine.grad.to_dense(), theirs.grad, rtol=2e-4, atol=2e-4)


@needs_onednn
def test_linear_with_gradients():
    for lead in (), (5,), (2, 3):
        x, m = pair(*lead, 8)
        w, b = tede.randn(4, 8, requires_grad=True), tede.randn(4, requires_grad=True)
        other = [t.detach().clone().requires_grad_() for t in (w, b)]
        F.linear(x, w, b).square().sum().backward()
        F.linear(m, *other).to_dense().square().sum().backward()
        close(m.grad, x.grad, 1e-4)
        tede.testing.assert_close(other[0].grad, w.grad, rtol=1e-4, atol=1e-4)
        tede.testing.assert_close(other[1].grad, b.grad, rtol=1e-4, atol=1e-4)
    m = tede.ones(2, 8).to_mkldnn()
    for refused in lambda: F.linear(m, tede.ones(4, 7)), lambda: F.linear(m, tede.ones(8)), lambda: F.linear(m, tede.ones(4, 8), tede.ones(3)):
        with pytest.raises(RuntimeError):
            refused()


@needs_onednn
def test_running_statistics_and_gradients_of_batch_norm():
    x, m = pair(4, 5, 3, 3)
    norms = nn.BatchNorm2d(5), nn.BatchNorm2d(5)
    norms[0](x).square().sum().backward()
    norms[1](m).to_dense().square().sum().backward()
    for name in "running_mean", "running_var":
        tede.testing.assert_close(getattr(norms[1], name), getattr(norms[0], name))
    close(m.grad, x.grad, 1e-3)
    tede.testing.assert_close(norms[1].weight.grad, norms[0].weight.grad, rtol=1e-4, atol=1e-4)
    tede.testing.assert_close(norms[1].bias.grad, norms[0].bias.grad, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_gradients_through_conversions():
    x = tede.randn(3, 4, requires_grad=True)
    x.to_mkldnn(tede.bfloat16).to_dense(tede.float32).sum().backward()
    assert x.grad.dtype is tede.float32 and x.grad.tolist() == [[1.] * 4] * 3
    m = tede.randn(3, 4).to_mkldnn().requires_grad_()
    m.to_dense().sum().backward()
    m.to_dense().sum().backward()
    close(m.grad, tede.full((3, 4), 2.))


@needs_onednn
def test_gradcheck_of_the_layout():
    m = tede.randn(3, 4).to_mkldnn().requires_grad_()
    assert tede.autograd.gradcheck(lambda m: (m * m).to_dense(), [m], atol=4e-2, rtol=1e-2, eps=1e-3)
    with pytest.raises(ValueError, match="MKLDNN output is not supported at gradcheck yet"):
        tede.autograd.gradcheck(lambda m: m * m, [m])


@needs_onednn
def test_weights_in_groups_are_tensors_as_others():
    grouped = tede.randn(8, 2, 3, 3)
    ordered = tede._C._nn.mkldnn_reorder_conv2d_weight(grouped.to_mkldnn(), 1, 1, 1, 2)
    for made, wanted in ((ordered.relu(), grouped.relu()), (ordered.transpose(0, 1), grouped.transpose(0, 1)), (ordered * 2, grouped * 2),
                         (ordered.reshape(4, -1), grouped.reshape(4, -1)), (ordered.bfloat16().float(), grouped.bfloat16().float())):
        close(made, wanted)
    ordered.copy_((grouped + 1).to_mkldnn())
    close(ordered, grouped + 1)
    close(ordered.mul_(2), (grouped + 1) * 2)


@needs_onednn
def test_what_layers_refuse():
    x = tede.ones(1, 2, 7, 7).to_mkldnn()
    for call, words in (
            (lambda: F.max_pool2d(x, 3, dilation=2), "mkldnn_max_pool2d does not support dilation case"),
            (lambda: F.adaptive_avg_pool2d(x, 3), "not divisible"), (lambda: F.avg_pool2d(x, 2, divisor_override=3), "does not support divisor"),
            (lambda: F.gelu(x, approximate="tanh"), "approximate gelu is not supported"),
            (lambda: F.conv2d(x, tede.ones(4, 3, 3, 3)), "expected input"),
            (lambda: F.conv2d(tede.ones(1, 2, 7, 7), tede.ones(4, 2, 3, 3).to_mkldnn()), "should be the same"),
            (lambda: tede._mkldnn_transpose(x, 0, 4), "Dimension out of range"), (lambda: F.prelu(x, tede.ones(3)), "Mismatch")):
        with pytest.raises((RuntimeError, IndexError), match=words):
            call()


@needs_onednn
def test_functions_by_pytorchs_names():
    x, w, b = tede.randn(1, 4, 6, 6), tede.randn(8, 4, 3, 3, requires_grad=True), tede.randn(8)
    wanted = F.conv2d(x, w, b, padding=1)
    made = tede.mkldnn_convolution(x, w, b, (1, 1), (1, 1), (1, 1), 1)          # of strided tensors it is strided
    assert not made.is_mkldnn
    tede.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
    tede.testing.assert_close(tede.autograd.grad(made.sum(), w), tede.autograd.grad(wanted.sum(), w), rtol=1e-4, atol=1e-4)
    m = x.to_mkldnn()
    close(tede.mkldnn_max_pool2d(m, [2]), F.max_pool2d(x, 2))
    close(tede.mkldnn_adaptive_avg_pool2d(m, [3, 2]), F.adaptive_avg_pool2d(x, (3, 2)))
    close(tede._mkldnn_reshape(m, [4, 36]), x.reshape(4, 36))
    close(tede._mkldnn_transpose_(m.clone(), 0, 1), x.transpose(0, 1))
    close(tede._C._nn.mkldnn_linear(m, tede.ones(2, 6)), F.linear(x, tede.ones(2, 6)))
    grouped = tede.randn(8, 2, 3, 3)
    for weight, groups in (w.detach(), 1), (grouped, 2):
        ordered = tede._C._nn.mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), 1, 1, 1, groups)
        close(ordered, weight)                                                  # another order, the same elements
        close(ordered.clone(), weight)
        close(tede.mkldnn_convolution(m, ordered, b, (1, 1), (1, 1), (1, 1), groups), F.conv2d(x, weight, b, padding=1, groups=groups), 1e-4)


# ---- modules

@needs_onednn
@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16])
def test_modules(dtype):
    from tede.utils import mkldnn
    tede.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2), nn.PReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(8 * 9, 4)).eval()
    x = tede.randn(2, 3, 8, 8)
    converted = mkldnn.to_mkldnn(model, dtype)
    assert isinstance(converted[0], mkldnn.MkldnnConv2d) and isinstance(converted[7], mkldnn.MkldnnLinear) and isinstance(model[0], nn.Conv2d)
    with tede.no_grad():
        wanted = model(x)
        for one in converted, pickle.loads(pickle.dumps(converted)), copy.deepcopy(converted):
            made = one(x.to_mkldnn(dtype)).to_dense(tede.float32)
            tede.testing.assert_close(made, wanted, rtol=1e-4 if dtype is tede.float32 else 0.1, atol=1e-4 if dtype is tede.float32 else 0.05)
    assert tede.equal(converted[0](x), converted[0](x.to_mkldnn()).to_dense()) if dtype is tede.float32 else True
    state = converted.state_dict()
    assert not any(value.is_mkldnn for value in state.values()) and tede.equal(state["0.weight"].float(), model[0].weight.detach().to(dtype).float())
    converted.load_state_dict({name: value * 0 for name, value in state.items()})
    assert converted[7].weight.is_mkldnn and not converted[7].weight.to_dense().any()
    with pytest.raises(ValueError):
        mkldnn.to_mkldnn(model, tede.float64)
    with pytest.raises(ValueError):
        mkldnn.to_mkldnn(nn.BatchNorm2d(3))


@needs_onednn
def test_threads_follow_tedes():
    before = tede.get_num_threads()
    x, w = tede.randn(2, 8, 16, 16), tede.randn(8, 8, 3, 3)
    results = []
    try:
        for n in 1, 2:
            tede.set_num_threads(n)
            results.append(F.conv2d(x.to_mkldnn(), w).to_dense())
    finally:
        tede.set_num_threads(before)
    tede.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


# ---- strided tensors of bfloat16

PRODUCTS = {
    "mm": ((64, 200), (200, 96), lambda a, b: a @ b), "transposed": ((64, 200), (96, 200), lambda a, b: a @ b.t()),
    "left transposed": ((200, 64), (200, 96), lambda a, b: a.t() @ b), "batches": ((3, 64, 128), (3, 128, 96), lambda a, b: a @ b),
    "one matrix": ((3, 64, 128), (128, 96), lambda a, b: a @ b), "linear": ((2, 64, 128), (96, 128), lambda a, b: F.linear(a, b, tede.arange(96.).bfloat16())),
    "addmm": ((64, 200), (200, 96), lambda a, b: tede.addmm(tede.ones(96).bfloat16(), a, b, beta=2, alpha=3)),
    "few rows": ((2, 2000), (2000, 900), lambda a, b: a @ b),
    "conv2d": ((2, 16, 17, 16), (32, 16, 3, 3), lambda a, b: F.conv2d(a, b, tede.arange(32.).bfloat16(), 2, 1)),
    "conv2d, groups": ((2, 32, 17, 16), (64, 8, 3, 3), lambda a, b: F.conv2d(a, b, groups=4, padding=1)),
    "conv2d, depthwise": ((2, 64, 17, 16), (64, 1, 3, 3), lambda a, b: F.conv2d(a, b, groups=64)),
    "conv1d, dilation": ((2, 64, 200), (64, 64, 3), lambda a, b: F.conv1d(a, b, dilation=2)),
    "conv3d": ((1, 8, 9, 10, 11), (16, 8, 3, 3, 3), lambda a, b: F.conv3d(a, b, padding=1)),
    "conv_transpose2d": ((2, 32, 9, 8), (32, 16, 3, 3), lambda a, b: F.conv_transpose2d(a, b, stride=2)),
}


@needs_onednn
@pytest.mark.parametrize("name", PRODUCTS)
def test_strided_operands_while_it_is_enabled(name):
    a_size, b_size, call = PRODUCTS[name]
    tede.manual_seed(0)
    a, b = tede.randn(*a_size).bfloat16().requires_grad_(), tede.randn(*b_size).bfloat16().requires_grad_()
    results = []
    for enabled in False, True:
        with tede.backends.mkldnn.flags(enabled=enabled):
            y = call(a, b)
            results.append((y, *tede.autograd.grad(y, [a, b], tede.cos(tede.arange(y.numel())).reshape(y.shape).bfloat16())))
    for own, library in zip(*results):
        assert not library.is_mkldnn and library.dtype is tede.bfloat16 and library.stride() == own.stride()
        scale = own.float().abs().max()
        tede.testing.assert_close(library.float() / scale, own.float() / scale, rtol=1.6e-2, atol=4e-3)     # sums in another order, rounded once


@needs_onednn
def test_it_is_asked_while_it_is_enabled_and_not_for_invariant_batches():
    a, b = tede.randn(64, 4096).bfloat16(), tede.randn(4096, 64).bfloat16()

    def product(enabled):
        with tede.backends.mkldnn.flags(enabled=enabled):
            return a @ b
    own = product(False)
    assert tede.backends.mkldnn.enabled is False
    with tede.batch_invariant():
        assert tede.equal(product(True), product(False))
    assert tede.equal(product(False), own)
    code = ("import tede; tede.backends.mkldnn.enabled = True; a = tede.ones(64, 64).bfloat16(); assert (a @ a).sum() == 64**3; "
            "assert not tede.backends.mkldnn.is_available()")
    done = python(code, TEDE_ONEDNN="/there/is/none.so")
    assert done.returncode == 0, done.stderr
    done = python("import tede; tede.backends.mkldnn.enabled = True; a = tede.ones(256, 256).bfloat16(); a @ a", ONEDNN_VERBOSE="1")
    assert done.returncode == 0 and "matmul" in done.stdout, done.stderr


def test_views_of_strided_tensors_keep_their_tangents_when_the_layout_is_there():
    """Its registration takes short cuts of operators away, not the bodies of views, which link tangents."""
    assert tede._mkldnn is not None
    x, t = tede.arange(32.).reshape(2, 4, 2, 2), tede.arange(16.).reshape(4, 2, 2)
    for call in (lambda x: x.reshape(2, 2, 4), lambda x: x.view(16), lambda x: x.transpose(0, 1), lambda x: tede.nn.functional.pixel_shuffle(x, 2)):
        _, tangent = tede.vmap(lambda x, t: tede.func.jvp(lambda x: call(x * 1), (x,), (t,)), (0, None))(x, t)
        assert tede.equal(tangent, tede.stack([call(t)] * 2))
