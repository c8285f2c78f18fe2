"""Every layer beside PyTorch's: the same text, the same initial values, the same outputs and gradients."""
import copy
import importlib
import pickle
import subprocess
import sys
import warnings

import numpy
import pytest


def ids(*shape, high=5):
    return ("ids", shape, high)


def positive(*shape):
    return ("positive", shape)


def sign(*shape):
    return ("sign", shape)


# (layer, constructor's arguments, keyword arguments, shapes of the inputs)
CASES = [
    ("Identity", (), {}, [(2, 3)]), ("Linear", (4, 5), {}, [(2, 4)]), ("Linear", (4, 5), {"bias": False}, [(2, 3, 4)]),
    ("Bilinear", (3, 4, 5), {}, [(2, 3), (2, 4)]),
    ("Conv1d", (2, 4, 3), {}, [(2, 2, 9)]), ("Conv1d", (2, 4, 3), {"padding": "same"}, [(2, 2, 9)]),
    ("Conv2d", (2, 4, 3), {}, [(2, 2, 8, 9)]), ("Conv2d", (2, 4, 3), {}, [(2, 8, 9)]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 2), "dilation": (1, 2), "groups": 2, "bias": False},
     [(2, 4, 8, 9)]),
    ("Conv2d", (2, 4, 3), {"padding": 1, "padding_mode": "circular"}, [(2, 2, 8, 9)]),
    ("Conv2d", (2, 4, 3), {"padding": "same", "padding_mode": "reflect"}, [(2, 2, 8, 9)]),
    ("Conv3d", (2, 3, 2), {}, [(1, 2, 4, 5, 6)]),
    ("ConvTranspose1d", (2, 4, 3), {"stride": 2}, [(2, 2, 9)]),
    ("ConvTranspose2d", (4, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, [(2, 4, 5, 6)]),
    ("ConvTranspose3d", (2, 3, 2), {}, [(1, 2, 3, 4, 5)]),
    ("MaxPool1d", (2,), {}, [(2, 3, 8)]), ("MaxPool2d", (2,), {}, [(2, 3, 8, 8)]),
    ("MaxPool2d", ((3, 2),), {"stride": (2, 1), "padding": (1, 1), "dilation": (1, 1), "ceil_mode": True},
     [(2, 3, 9, 9)]),
    ("MaxPool3d", (2,), {}, [(2, 3, 4, 4, 4)]), ("AvgPool1d", (2,), {}, [(2, 3, 8)]),
    ("AvgPool2d", (2,), {"padding": 1, "count_include_pad": False}, [(2, 3, 8, 8)]),
    ("AvgPool2d", (3, 2), {"divisor_override": 5}, [(2, 3, 8, 8)]), ("AvgPool3d", (2,), {}, [(2, 3, 4, 4, 4)]),
    ("LPPool1d", (2, 3), {}, [positive(2, 3, 9)]), ("LPPool2d", (2, 2), {"stride": 1}, [positive(2, 3, 6, 6)]),
    ("AdaptiveAvgPool1d", (3,), {}, [(2, 3, 8)]), ("AdaptiveAvgPool2d", ((3, None),), {}, [(2, 3, 8, 7)]),
    ("AdaptiveAvgPool3d", (2,), {}, [(2, 3, 4, 5, 6)]), ("AdaptiveMaxPool1d", (3,), {}, [(2, 3, 8)]),
    ("AdaptiveMaxPool2d", ((3, 2),), {}, [(2, 3, 8, 7)]), ("AdaptiveMaxPool3d", (2,), {}, [(2, 3, 4, 5, 6)]),
    ("CircularPad1d", (2,), {}, [(2, 3, 4)]), ("CircularPad2d", ((1, 2, 0, 1),), {}, [(2, 3, 4, 5)]),
    ("CircularPad3d", (1,), {}, [(2, 3, 4, 5, 6)]),
    ("ConstantPad1d", (2, 1.5), {}, [(2, 3, 4)]), ("ConstantPad2d", (2, 1.5), {}, [(2, 3, 4, 4)]),
    ("ConstantPad3d", (1, 0.5), {}, [(1, 2, 3, 4, 4)]), ("ReflectionPad1d", (2,), {}, [(2, 3, 4)]),
    ("ReflectionPad2d", (2,), {}, [(2, 3, 4, 5)]), ("ReflectionPad3d", (1,), {}, [(1, 2, 3, 4, 5)]),
    ("ReplicationPad1d", (2,), {}, [(2, 3, 4)]), ("ReplicationPad2d", (2,), {}, [(2, 3, 4, 5)]),
    ("ReplicationPad3d", (1,), {}, [(1, 2, 3, 4, 5)]), ("ZeroPad1d", (2,), {}, [(2, 3, 4)]),
    ("ZeroPad2d", ((1, 0, 2, 1),), {}, [(2, 3, 4, 5)]), ("ZeroPad3d", (1,), {}, [(1, 2, 3, 4, 5)]),
    ("ReLU", (), {}, [(3, 4)]), ("ReLU", (), {"inplace": True}, []), ("ReLU6", (), {}, [(3, 4)]),
    ("RReLU", (), {}, [(3, 4)]), ("Hardtanh", (-0.5, 0.5), {}, [(3, 4)]), ("Sigmoid", (), {}, [(3, 4)]),
    ("Hardsigmoid", (), {}, [(3, 4)]), ("Tanh", (), {}, [(3, 4)]), ("SiLU", (), {}, [(3, 4)]),
    ("Mish", (), {}, [(3, 4)]), ("Hardswish", (), {}, [(3, 4)]), ("ELU", (0.7,), {}, [(3, 4)]),
    ("CELU", (), {}, [(3, 4)]), ("SELU", (), {}, [(3, 4)]), ("GLU", (), {}, [(3, 4)]), ("GELU", (), {}, [(3, 4)]),
    ("GELU", ("tanh",), {}, [(3, 4)]), ("Hardshrink", (), {}, [(3, 4)]), ("Softshrink", (), {}, [(3, 4)]),
    ("LeakyReLU", (0.2,), {"inplace": True}, []), ("LeakyReLU", (0.2,), {}, [(3, 4)]),
    ("LogSigmoid", (), {}, [(3, 4)]), ("Softplus", (2.0,), {}, [(3, 4)]), ("PReLU", (3,), {}, [(2, 3, 4)]),
    ("Softsign", (), {}, [(3, 4)]), ("Tanhshrink", (), {}, [(3, 4)]), ("Softmin", (1,), {}, [(3, 4)]),
    ("Softmax", (-1,), {}, [(3, 4)]), ("Softmax2d", (), {}, [(2, 3, 4, 4)]), ("LogSoftmax", (0,), {}, [(3, 4)]),
    ("Threshold", (0.1, 20.0), {}, [(3, 4)]),
    ("BatchNorm1d", (3,), {}, [(4, 3)]), ("BatchNorm1d", (3,), {"momentum": None}, [(4, 3, 5)]),
    ("BatchNorm2d", (3,), {"affine": False}, [(4, 3, 5, 5)]),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, [(4, 3, 5, 5)]), ("BatchNorm3d", (2,), {}, [(2, 2, 3, 4, 5)]),
    ("InstanceNorm1d", (3,), {"affine": True}, [(4, 3, 5)]),
    ("InstanceNorm2d", (3,), {"track_running_stats": True}, [(4, 3, 5, 5)]),
    ("InstanceNorm3d", (2,), {}, [(2, 2, 3, 4, 5)]),
    ("SyncBatchNorm", (3,), {}, [(4, 3, 5)]),
    ("LayerNorm", (4,), {}, [(3, 4)]), ("LayerNorm", ((3, 4),), {"bias": False}, [(2, 3, 4)]),
    ("LayerNorm", ([4],), {"elementwise_affine": False, "eps": 1e-3}, [(3, 4)]),
    ("RMSNorm", (4,), {}, [(3, 4)]), ("RMSNorm", ((3, 4),), {"eps": 1e-5, "elementwise_affine": False}, [(2, 3, 4)]),
    ("GroupNorm", (2, 4), {}, [(2, 4, 3)]), ("GroupNorm", (2, 4), {"affine": False}, [(2, 4, 3, 3)]),
    ("LocalResponseNorm", (2,), {}, [(2, 4, 3)]), ("CrossMapLRN2d", (2,), {}, []),
    ("LocalResponseNorm", (3,), {"k": 2.0}, [(2, 4, 3, 3)]),
    ("Embedding", (5, 3), {}, [ids(2, 4)]), ("Embedding", (5, 3), {"padding_idx": -1, "max_norm": 1.0}, [ids(6)]),
    ("Embedding", (5, 3), {"scale_grad_by_freq": True, "norm_type": 1.0}, [ids(6)]),
    ("Embedding", (5, 3), {"sparse": True}, []),
    ("EmbeddingBag", (5, 3), {}, [ids(2, 4)]), ("EmbeddingBag", (5, 3), {"mode": "sum", "padding_idx": 1}, [ids(2, 4)]),
    ("EmbeddingBag", (5, 3), {"mode": "max"}, [ids(2, 4)]),
    ("Dropout", (0.3,), {}, [(4, 5)]), ("Dropout1d", (), {}, [(4, 5, 3)]), ("Dropout2d", (), {}, [(4, 5, 3, 3)]),
    ("Dropout3d", (), {}, [(2, 5, 3, 3, 2)]), ("AlphaDropout", (), {}, [(4, 5)]),
    ("FeatureAlphaDropout", (), {"inplace": True}, [(4, 5, 2)]),
    ("Flatten", (), {}, [(2, 3, 4)]), ("Flatten", (0, 1), {}, [(2, 3, 4)]), ("Unflatten", (1, (2, 3)), {}, [(2, 6)]),
    ("Fold", ((4, 5), (2, 2)), {}, [(2, 12, 12)]), ("Unfold", (2,), {"padding": 1}, [(2, 3, 4, 5)]),
    ("PixelShuffle", (2,), {}, [(1, 8, 3, 3)]), ("PixelUnshuffle", (2,), {}, [(1, 2, 4, 4)]),
    ("ChannelShuffle", (2,), {}, [(1, 4, 3, 3)]),
    ("Upsample", (), {"scale_factor": 2}, [(1, 2, 3, 3)]),
    ("Upsample", ((5, 6),), {"mode": "bilinear"}, [(1, 2, 3, 3)]),
    ("Upsample", (), {"scale_factor": (2, 1.5), "mode": "bicubic", "align_corners": True}, [(1, 2, 3, 4)]),
    ("Upsample", (7,), {"mode": "linear"}, [(1, 2, 3)]),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, [(1, 2, 3, 3)]),
    ("UpsamplingBilinear2d", (), {"size": 5}, [(1, 2, 3, 3)]),
    ("PairwiseDistance", (), {}, [(3, 4), (3, 4)]), ("CosineSimilarity", (), {}, [(3, 4), (3, 4)]),
    ("RNN", (3, 4), {}, [(5, 2, 3)]), ("RNN", (3, 4, 2, "relu"), {"bias": False}, [(5, 2, 3)]),
    ("LSTM", (3, 4), {"num_layers": 2, "bidirectional": True, "batch_first": True}, [(5, 2, 3)]),
    ("LSTM", (3, 4), {"proj_size": 2}, [(5, 3)]),
    ("LSTM", (3, 4), {"bidirectional": True}, [(5, 2, 3), [(2, 2, 4), (2, 2, 4)]]),
    ("GRU", (3, 4), {}, [(5, 2, 3), (1, 2, 4)]), ("GRU", (3, 4, 2), {"dropout": 0.5}, []),
    ("RNNCell", (3, 4), {}, [(2, 3)]), ("RNNCell", (3, 4), {"nonlinearity": "relu", "bias": False}, [(3,), (4,)]),
    ("LSTMCell", (3, 4), {}, [(2, 3)]), ("LSTMCell", (3, 4), {}, [(3,), [(4,), (4,)]]),
    ("GRUCell", (3, 4), {}, [(2, 3), (2, 4)]),
    ("MultiheadAttention", (8, 2), {}, [(5, 2, 8), (6, 2, 8), (6, 2, 8)]),
    ("MultiheadAttention", (8, 2), {"kdim": 4, "vdim": 3, "batch_first": True}, [(2, 5, 8), (2, 6, 4), (2, 6, 3)]),
    ("MultiheadAttention", (8, 4), {"bias": False, "add_bias_kv": True, "add_zero_attn": True}, [(5, 8), (6, 8),
    (6, 8)]),
    ("TransformerEncoderLayer", (8, 2, 16), {"dropout": 0.0}, [(5, 2, 8)]),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0, "gelu"), {"batch_first": True, "norm_first": True}, [(2, 5, 8)]),
    ("TransformerDecoderLayer", (8, 2, 16), {"dropout": 0.0}, [(5, 2, 8), (6, 2, 8)]),
    ("Transformer", (8, 2, 1, 2, 16, 0.0), {}, [(5, 2, 8), (4, 2, 8)]),
    ("L1Loss", (), {}, [(3, 4), (3, 4)]), ("MSELoss", (), {"reduction": "sum"}, [(3, 4), (3, 4)]),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1}, [(3, 5), ids(3)]),
    ("NLLLoss", (), {"ignore_index": 1}, [(3, 5), ids(3)]),
    ("CrossEntropyLoss", (), {"reduction": "none"}, [(2, 5, 3), ids(2, 3)]),
    ("PoissonNLLLoss", (), {"full": True}, [(3, 4), positive(3, 4)]),
    ("GaussianNLLLoss", (), {"full": True}, [(3, 4), (3, 4), positive(3, 4)]),
    ("KLDivLoss", (), {"reduction": "batchmean"}, [(3, 4), positive(3, 4)]),
    ("BCEWithLogitsLoss", (), {}, [(3, 4), positive(3, 4)]),
    ("HingeEmbeddingLoss", (), {}, [(3, 4), sign(3, 4)]), ("SmoothL1Loss", (), {"beta": 0.5}, [(3, 4), (3, 4)]),
    ("HuberLoss", (), {"delta": 0.5}, [(3, 4), (3, 4)]), ("SoftMarginLoss", (), {}, [(3, 4), sign(3, 4)]),
    ("MultiLabelSoftMarginLoss", (), {}, [(3, 4), positive(3, 4)]),
    ("CosineEmbeddingLoss", (), {}, [(3, 4), (3, 4), sign(3)]),
    ("MarginRankingLoss", (0.5,), {}, [(3,), (3,), (3,)]), ("MultiMarginLoss", (), {"p": 2}, [(3, 5), ids(3)]),
    ("MultiLabelMarginLoss", (), {}, [(3, 5), ids(3, 5)]), ("TripletMarginLoss", (), {"swap": True}, [(3, 4)] * 3),
    ("TripletMarginWithDistanceLoss", (), {}, [(3, 4)] * 3), ("LinearCrossEntropyLoss", (4, 5), {}, [(3, 4), ids(3)]),
    ("CTCLoss", (), {}, []), ("BCELoss", (), {}, []), ("NLLLoss2d", (), {}, []),
    ("Sequential", (), {}, [(2, 2)]), ("AdaptiveLogSoftmaxWithLoss", (8, 10, [3, 6]), {}, [(4, 8), ids(4, high=10)]),
]


def make_inputs(lib, spec, seed=1):
    """The same numbers for either library, from NumPy."""
    generator = numpy.random.default_rng(seed)

    def make(shape):
        if isinstance(shape, list):
            return tuple(make(part) for part in shape)
        if shape and shape[0] == "ids":
            return lib.tensor(generator.integers(0, shape[2], shape[1]).tolist(), dtype=lib.int64)
        if shape and shape[0] == "sign":
            return lib.tensor((generator.integers(0, 2, shape[1]) * 2.0 - 1).tolist())
        if shape and shape[0] == "positive":
            return lib.tensor((generator.random(shape[1]) + 0.1).tolist())
        return lib.tensor(generator.standard_normal(shape).tolist()).requires_grad_()

    return [make(shape) for shape in spec]


def flatten(value):
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flatten(part)]
    return [value]


def array(tensor):
    return numpy.array(tensor.detach().tolist())


def run(lib, name, args, kwargs, spec):
    """Everything that is compared, as (text, names of the state, arrays)."""
    lib.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = getattr(lib.nn, name)(*args, **kwargs)
        state = layer.state_dict()
        arrays = [array(value) for value in state.values()]
        if spec:
            inputs = make_inputs(lib, spec)
            outputs = [leaf for leaf in flatten(layer(*inputs)) if leaf is not None]
            arrays += [array(leaf) for leaf in outputs]
            total = sum((leaf * leaf).sum() for leaf in outputs if leaf.requires_grad)
            if isinstance(total, lib.Tensor):
                total.backward()
            arrays += [array(x.grad) for x in flatten(inputs) if x.is_floating_point() and x.grad is not None]
            arrays += [array(p.grad) for p in layer.parameters() if p.grad is not None]
            arrays += [array(value) for value in layer.eval().state_dict().values()]
            arrays += [array(leaf) for leaf in flatten(layer(*make_inputs(lib, spec))) if leaf is not None]
    return repr(layer), list(state), arrays


@pytest.mark.parametrize("name,args,kwargs,spec", CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_a_layer_is_pytorchs(both, name, args, kwargs, spec):
    (text, names, got), (wanted_text, wanted_names, wanted) = [run(lib, name, args, kwargs, spec) for lib in both]
    assert text == wanted_text
    assert names == wanted_names
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == b.shape
        numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_no_layer_is_left_out(both):
    tede, torch = both
    absent = {"DataParallel", "LinearCrossEntropyOptions"}
    assert {name for name in vars(torch.nn) if name[0].isupper()} - set(dir(tede.nn)) <= absent


RECURRENT = [case for case in CASES if case[0] in ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell") and case[3]]


@pytest.mark.parametrize("name,args,kwargs,spec", RECURRENT, ids=[f"{c[0]}-{i}" for i, c in enumerate(RECURRENT)])
def test_recurrent_layers_need_no_kernel_of_their_own(both, monkeypatch, name, args, kwargs, spec):
    tede, torch = both
    monkeypatch.setattr(importlib.import_module("tede.nn._functional.recurrent"), "_native", lambda name: None)
    for a, b in zip(run(tede, name, args, kwargs, spec)[2], run(torch, name, args, kwargs, spec)[2]):
        numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


MARGINS = [("MultiMarginLoss", (), {"p": 2, "reduction": "none"}, [(3, 5), ids(3)]),
("MultiMarginLoss", (), {}, [(5,), ids()]),
           ("MultiLabelMarginLoss", (), {}, [(3, 5), ids(3, 5)]),
           ("MultiLabelMarginLoss", (), {"reduction": "none"}, [(5,), ids(5)])]


@pytest.mark.parametrize("name,args,kwargs,spec", MARGINS, ids=[f"{c[0]}-{i}" for i, c in enumerate(MARGINS)])
def test_margin_losses_need_no_kernel_of_their_own(both, monkeypatch, name, args, kwargs, spec):
    from tede.nn._native import N
    monkeypatch.setattr(type(N), "find", lambda self, name: None)
    for a, b in zip(*[run(lib, name, args, kwargs, spec)[2] for lib in both]):
        numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    tede, torch = both
    labels = [[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3]]
    rows = numpy.random.default_rng(0).standard_normal((3, 4)).tolist()
    a, b = [float(lib.nn.functional.multilabel_margin_loss(lib.tensor(rows), lib.tensor(labels))) for lib in both]
    assert a == pytest.approx(b, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, given, shape", [
    ("RNN", {}, (5, 2, 3)), ("RNN", {"nonlinearity": "relu", "num_layers": 2}, (5, 2, 3)), ("RNN", {"batch_first": True, "bidirectional": True}, (5, 2, 3)),
    ("GRU", {}, (5, 2, 3)), ("GRU", {"num_layers": 2, "batch_first": True}, (5, 2, 3)), ("GRUCell", {}, (2, 3)), ("LSTMCell", {}, (2, 3))])
def test_outputs_of_recurrent_layers_may_be_written_to(lib, name, given, shape, dtype):
    """Backward keeps values of its own."""
    layer = getattr(lib.nn, name)(3, 4, **given).to(getattr(lib, dtype))
    x = lib.rand(shape, dtype=getattr(lib, dtype), requires_grad=True)
    out = layer(x)
    expected = lib.autograd.grad(sum(o.sum() * 2 for o in (out if isinstance(out, tuple) else (out,))), x)[0]
    out = layer(x)
    for o in out if isinstance(out, tuple) else (out,):
        o.mul_(2)
    assert lib.allclose(lib.autograd.grad(sum(o.sum() for o in (out if isinstance(out, tuple) else (out,))), x)[0], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["RNNCell", "LSTM"])
def test_what_is_written_over_outputs_that_backward_needs(lib, name):
    out = getattr(lib.nn, name)(3, 4)(lib.rand(2, 3) if name == "RNNCell" else lib.rand(5, 2, 3))
    out = out if name == "RNNCell" else out[0]
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_copies_of_recurrent_layers_have_weights_of_their_own(lib, name):
    layer, x = getattr(lib.nn, name)(4, 5, 2, bidirectional=True), lib.randn(3, 2, 4)
    y = layer(x)[0]
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert lib.equal(twin(x)[0], y)
        assert all(a is getattr(twin, n) for a, n in zip(twin._flat_weights, twin._flat_weights_names, strict=True))
        with lib.no_grad():
            twin.weight_ih_l0.zero_()
        assert not lib.equal(twin(x)[0], y) and lib.equal(layer(x)[0], y)
    layer.weight_hh_l1 = lib.nn.Parameter(lib.zeros_like(layer.weight_hh_l1))
    assert any(weight is layer.weight_hh_l1 for weight in layer._flat_weights) and not lib.equal(layer(x)[0], y)


def test_recurrent_layers_of_one_library_run_in_the_other(both, tmp_path):
    """Whole modules, as programs that run on tede in PyTorch's place save them."""
    script = """
import sys, torch
if sys.argv[1] == "save":
    layer, x = torch.nn.LSTM(4, 5, 2), torch.randn(3, 2, 4)
    torch.save((layer, x, layer(x)[0].detach()), sys.argv[2])
else:
    layer, x, y = torch.load(sys.argv[2], weights_only=False)
    assert torch.allclose(layer(x)[0], y, atol=1e-6)
"""
    (tmp_path / "script.py").write_text(script)
    ways = [], ["-m", "tede.as_torch"]
    for writer, reader in (ways, ways[::-1]):
        for way, what in ((writer, "save"), (reader, "load")):
            subprocess.run([sys.executable, *way, str(tmp_path / "script.py"), what, str(tmp_path / "layer.pt")], check=True)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_after_attention_draws_as_pytorch_does(both, norm_first):
    found = []
    for lib in both:
        lib.manual_seed(0)
        layer = lib.nn.TransformerDecoderLayer(12, 3, 24, 0.3, batch_first=True, norm_first=norm_first)
        x = lib.randn(4, 5, 12)
        attended = layer.self_attn(x, x, x, need_weights=False)[0]
        found.append((attended.stride(), layer(x, lib.randn(4, 6, 12)).tolist()))
    assert found[0][0] == found[1][0]
    numpy.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-5)


RANKED = [(name.format(n), arguments) for name, arguments in (
    ("Conv{}d", (2, 4, 3)), ("ConvTranspose{}d", (2, 4, 3)), ("LazyConv{}d", (4, 3)), ("LazyConvTranspose{}d", (4, 3)), ("MaxPool{}d", (2,)),
    ("MaxUnpool{}d", (2,)), ("AvgPool{}d", (2,)), ("LPPool{}d", (2, 3)), ("AdaptiveMaxPool{}d", (2,)), ("AdaptiveAvgPool{}d", (2,)),
    ("CircularPad{}d", (1,)), ("ConstantPad{}d", (1, 2.5)), ("ReflectionPad{}d", (1,)), ("ReplicationPad{}d", (1,)), ("ZeroPad{}d", (1,)))
    for n in (1, 2, 3)]


@pytest.mark.parametrize(("name", "arguments"), RANKED)
def test_the_classes_of_all_ranks_are_plain_classes(lib, name, arguments):
    cls = getattr(lib.nn, name)
    layer = cls(*arguments)
    assert cls.__name__ == cls.__qualname__ == name and cls.__doc__ and repr(layer).startswith(name + "(")
    assert type(pickle.loads(pickle.dumps(layer))) is type(copy.deepcopy(layer)) is cls
    if "Unpool" not in name:
        rank = int(name[-2])
        derived = type("Derived", (cls,), {})(*arguments)
        assert derived(lib.arange(4. * 8 ** rank).reshape(2, 2, *[8] * rank)).dim() == rank + 2
    if "Lazy" not in name and "Pad" not in name and name[:2] != "LP":       # PyTorch's share these
        with pytest.raises(TypeError, match=rf"^{name}\.forward\(\) missing"):
            layer()


def test_an_instance_norm_says_how_many_dimensions_a_sample_has(lib):
    for rank, kind in enumerate((lib.nn.InstanceNorm1d, lib.nn.InstanceNorm2d, lib.nn.InstanceNorm3d), 1):
        assert kind(4)._get_no_batch_dim() == rank + 1

    class Pixels(lib.nn.InstanceNorm2d):
        def _get_no_batch_dim(self):
            return 2

        def _check_input_dim(self, input):
            pass

    assert Pixels(4, affine=True)(lib.ones(4, 3)).shape == (4, 3)
