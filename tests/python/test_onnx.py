"""torch.onnx.export: each operator's ONNX, and six models, give in onnxruntime what they give here."""
import io

import pytest
import tede
import tede.nn.functional as F
from exported_models import MODELS
from tede import nn
from tede.onnx._entries import ONNX

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def tensors(result):
    return [x for x in tede.utils._pytree.tree_leaves(result) if isinstance(x, tede.Tensor)]


def run(proto, inputs):
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    return [tede.from_numpy(x) if hasattr(x, "shape") and x.shape else tede.tensor(x)
            for x in session.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})]


def compare(function, args, opset=18, **options):
    program = tede.onnx.export(function, args, opset_version=opset, **options)
    with tede.no_grad():
        expected = tensors(function(*args))
    got = run(program.model_proto, tensors(args))
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        tede.testing.assert_close(a, b, rtol=1e-2 if a.dtype == tede.float16 else 1e-4, atol=1e-5, equal_nan=True)
    return program


def rand(*sizes):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes) + len(sizes))) * 2 - 1


X, Y, P = rand(2, 3, 4), rand(2, 3, 4).flip(0), rand(2, 3, 4).abs() + 0.5
SQUARE, IMAGE = rand(4, 4), rand(2, 4, 8, 8)
I = tede.tensor([[3, -7, 5], [2, 9, -4]])
B = tede.tensor([[True, False, True], [False, False, True]])



def writes_to_parts(x, y):
    x = x.clone()
    x[0] = 3
    x[:, 1:2] = y[:, :1]
    x[:, :, -1].mul_(2)
    return x, x.sum()


# ---- operators of which the entry says what they are

RULES = {
    "relu": (F.relu, X), "sigmoid": (tede.sigmoid, X), "silu": (F.silu, X), "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), X),
    "view": (lambda x: x.view(6, -1), X), "expand": (lambda x: x[:, :1].expand(-1, 5, -1) + 1, X), "matmul": (lambda x, y: x @ y.mT, X, Y),
    "t": (lambda x: x.t() + 1, SQUARE[:3]), "transpose": (lambda x: x.transpose(-1, 0) * 2, X), "permute": (lambda x: x.permute(2, -3, 1) * 2, X),
    "unsqueeze": (lambda x: (x.unsqueeze(-1), x.unsqueeze(1)), X), "squeeze": (lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(1), x.squeeze((0, 2))),
                                                                                rand(1, 3, 1)),
    "slice": (lambda x: (x[:, 1:], x[..., -3:-1], x[::2, ::2]), X), "select": (lambda x: (x[1], x[:, -1], x[..., 2]), X),
    "split": (lambda x: x.split(3, 2), X), "split sizes": (lambda x: x.split([1, 3], 2), X), "chunk": (lambda x: x.chunk(2, -1), X),
    "unbind": (lambda x: x.unbind(1), X), "cat": (lambda x, y: tede.cat([x, y, x], -1), X, Y), "cat dtypes": (lambda x: tede.cat([x, x.long()]), X),
    "stack": (lambda x, y: (tede.stack([x, y]), tede.stack([x, y], -1)), X, Y),
    "embedding": (lambda w, i: F.embedding(i, w), rand(10, 3), I.abs()), "index_select": (lambda x: x.index_select(2, tede.tensor([3, 0])), X),
    "gather": (lambda x, i: x.gather(1, i), rand(2, 10), I.abs()), "index": (lambda x, i: (x[i], x[:, i.clamp(max=3)]), rand(10, 4), I.abs()),
    "index pairs": (lambda x, i: x[i, i[:1] - 1], rand(10, 10), I.abs()), "scatter": (lambda x, i, s: x.scatter(1, i, s), rand(2, 10), I.abs(), rand(2, 3)),
    "mm": (tede.mm, SQUARE, SQUARE[:, :2]), "bmm": (tede.bmm, X, X.mT.contiguous()), "mv": (tede.mv, SQUARE, SQUARE[0]),
    "dot": (tede.dot, SQUARE[0], SQUARE[1]),
    "addmm": (lambda a, b, c: tede.addmm(a, b, c, beta=0.5, alpha=2), SQUARE, SQUARE, SQUARE), "linear": (F.linear, X, rand(5, 4), rand(5)),
    "mean": (lambda x: (x.mean(), x.mean(1), x.mean((0, -1), keepdim=True)), X), "sum": (lambda x, i: (x.sum(), x.sum(-1), i.sum(0), (x > 0).sum(1)), X, I),
    "prod": (lambda x: (x.prod(), x.prod(1)), X), "amax": (lambda x: (x.amax(), x.amax(1), x.amin((0, 1)), x.max(), x.min()), X),
    "max": (lambda x: (*x.max(1), *x.min(-1, keepdim=True)), X), "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True)), X),
    "logsumexp": (lambda x: x.logsumexp((0, 1)), X), "var": (lambda x: (x.var(1), x.std((0, 2), keepdim=True), x.var(0, unbiased=False), x.std()), X),
    "cumsum": (lambda x: x.cumsum(1), X), "topk": (lambda x: (*x.topk(2, 1), *x.topk(3, largest=False)), X),
    "softmax": (lambda x: (x.softmax(1), F.log_softmax(x, -1)), X),
    "layer_norm": (lambda x, w: (F.layer_norm(x, (4,)), F.layer_norm(x, (3, 4), w, w - 1)), X, rand(3, 4)),
    "group_norm": (lambda x, w: (F.group_norm(x, 2, w, w * 2), F.group_norm(x, 4)), IMAGE, rand(4)), "batch_norm": (nn.BatchNorm2d(4).eval(), IMAGE),
    "batch_norm by the batch": (lambda x: F.batch_norm(x, None, None, training=True), IMAGE),
    "instance_norm": (lambda x: F.instance_norm(x), IMAGE), "rms_norm": (lambda x, w: (F.rms_norm(x, (4,)), F.rms_norm(x, (3, 4), w, 1e-3)), X, rand(3, 4)),
    "conv1d": (nn.Conv1d(3, 4, 3, 2, 1), X), "conv2d": (nn.Conv2d(4, 6, (3, 2), (1, 2), 1, dilation=2, groups=2), IMAGE),
    "conv3d": (nn.Conv3d(2, 3, 2), rand(1, 2, 4, 4, 4)),
    "conv unbatched": (nn.Conv2d(4, 6, 3), IMAGE[0]), "conv_transpose": (nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), IMAGE),
    "max_pool": (lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.max_pool1d(x[0], 2)), IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), rand(1, 2, 4, 4, 4)), "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), rand(1, 2, 4, 4, 4)),
    "avg_pool": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool1d(x[0], 2)), IMAGE),
    "adaptive": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 2)), F.adaptive_avg_pool1d(x[0], 2)), IMAGE),
    "nearest": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 12))), IMAGE),
    "bilinear": (lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, (5, 12), mode="bilinear"),
                            F.interpolate(x, (5, 12), mode="bilinear", align_corners=True)), IMAGE),
    "bicubic": (lambda x: (F.interpolate(x, (5, 12), mode="bicubic"), F.interpolate(x, (5, 12), mode="bicubic", align_corners=True)), IMAGE),
    "attention": (lambda q, k, m, b: (F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, is_causal=True),
                                      F.scaled_dot_product_attention(q, k, k, m), F.scaled_dot_product_attention(q, k, k, b)),
                  rand(2, 3, 5, 4), rand(2, 3, 5, 4) + 0.1, rand(5, 5), tede.eye(5).roll(1, 0).bool() & (tede.arange(5)[:, None] > 1)),
    "rnn": (nn.RNN(4, 5, 2, nonlinearity="relu"), X), "rnn tanh": (nn.RNN(4, 5, batch_first=True), X), "gru": (nn.GRU(4, 5, 2, bidirectional=True), X),
    "lstm": (nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True), X), "lstm with a state": (nn.LSTM(4, 5), X, (rand(1, 3, 5), rand(1, 3, 5))),
    "lstm without biases": (nn.LSTM(4, 5, bias=False), X),
    "factories": (lambda x: (x + tede.arange(4), tede.zeros(3) + 1, tede.full((2,), 2.5), x.new_ones(2, 1, 1) + x, tede.empty_like(x).zero_()), X),
    "like": (lambda x: (tede.zeros_like(x), tede.ones_like(x), tede.full_like(x, 3)), X),
    "copies": (lambda x: (x.clone(), x.detach() + 1, x.contiguous() * 2, x.long(), x.double(), x.to(tede.int32)), X),
    "clamp": (lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=y)), X, Y), "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-1)), SQUARE),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 1))), X),
    "pad as": (lambda x: (F.pad(x, (1, 2, 3, 1), "reflect"), F.pad(x, (1, 2, 0, 1), "replicate"),
                          F.pad(x[0], (1, 1), "reflect"), F.pad(x[0], (1, 1), "replicate")), IMAGE),
    "repeat": (lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1)), X), "flip": (lambda x: x.flip(0, 2), X), "roll": (lambda x: x.roll((1, -2), (0, 2)), X),
    "any": (lambda b: (b.any(), b.any(0), b.all(), b.all(1, keepdim=True)), B), "copy_": (lambda x, y: x.clone().copy_(y[0]), X, Y),
    "in place": (lambda x: x.clone().mul_(2).add_(1).relu_(), X), "writes to parts": (writes_to_parts, X, Y),
}
RULES["celu"], RULES["rsub"] = (lambda x: F.celu(x, 0.7), X), (lambda x, i: (2 - x, tede.rsub(x, 1, alpha=3), 5 - i, 2.5 - i), X, I)


RULES |= {
    "baddbmm": (lambda a, b, c: (tede.baddbmm(a, b, c), tede.baddbmm(a, b, c, beta=0.5, alpha=2)), rand(2, 3, 3), X, X.mT.contiguous()),
    "norms": (lambda x: (x.norm(), x.norm(dim=1), tede.linalg.vector_norm(x, 1, -1), tede.linalg.vector_norm(x, 3, (0, 1), True), F.normalize(x, dim=-1),
                         tede.linalg.vector_norm(x, float("inf"), 1), tede.linalg.vector_norm(x, -float("inf"))), X),
    "var_mean": (lambda x: tede.var_mean(x, 1), X), "sort": (lambda x: (*x.sort(-1), *x.sort(1, descending=True), x.argsort(0)), X),
    "scatter value": (lambda x, i: x.scatter(1, i, 2.0), rand(2, 10), I.abs()),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), rand(2, 10), I.abs(), rand(2, 3)),
    "index_put": (lambda x, i, v: (tede.index_put(x, (i,), v),
                                   tede.index_put(x, (i[0], i[1] % 4), v[0, :3, 0], accumulate=True)), rand(10, 4), I.abs(), rand(2, 3, 4)),
    "index_add": (lambda x, i, s: (x.index_add(0, i, s), x.index_add(1, i, s.reshape(10, 2)[:4], alpha=2)), rand(4, 10), tede.tensor([1, 3]), rand(2, 10)),
    "grid_sample": (lambda x, g: (F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g, "nearest", "border", align_corners=True)), IMAGE, rand(2, 5, 5, 2)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), IMAGE), "glu": (lambda x: (F.glu(x), F.glu(x[:, :2], 1)), X),
    "nan_to_num": (lambda x: (tede.sqrt(x) / x.relu()).nan_to_num(0.5, neginf=-2.0), X), "one_hot": (lambda i: F.one_hot(i.abs(), 10), I),
}


def made_by_sizes(x):
    n = x.shape[0]
    return (tede.zeros(n, 2) + 1, tede.ones(2, n) * 2, tede.full((n,), 3.5), tede.arange(n), tede.arange(1, n + 1), tede.arange(0, 2 * n, 2), x.new_ones(n),
            tede.arange(n).float() + x[:, 0], x.reshape(-1), x.expand(3, n, -1), x[: n - 1], x.unsqueeze(0).repeat(n, 1, 1))


@pytest.mark.parametrize("name", [name for name in RULES])
def test_an_operator_gives_what_it_gives_here(name):
    function, *args = RULES[name]
    compare(function, tuple(args))


def test_what_is_made_by_sizes_that_vary():
    program = tede.onnx.export(made_by_sizes, (rand(3, 4),), dynamic_shapes=({0: "n"},))
    for x in (rand(3, 4), rand(6, 4), rand(1, 4)):
        for a, b in zip(run(program.model_proto, [x]), made_by_sizes(x), strict=True):
            assert a.dtype == b.dtype and tede.equal(a, b)


def test_a_recurrent_layer_is_one_node_and_its_weights():
    for module, kind in ((nn.LSTM(4, 5), "LSTM"), (nn.GRU(4, 5, bias=False), "GRU"), (nn.RNN(4, 5, batch_first=True), "RNN")):
        program = compare(module, (X,), dynamic_shapes=({0: "a", 1: "b"},))
        kinds = [node.op_type for node in program.model_proto.graph.node]
        assert kinds.count(kind) == 1 and "MatMul" not in kinds

    def gates_of_its_own(g, h, w):
        return tede.ops.aten.rnn_layer(g * 2, h, None, w, None, 1, False)[0]
    compare(gates_of_its_own, (X, rand(3, 4), SQUARE))


def test_nothing_is_written_that_nobody_needs():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.other = nn.Linear(4, 2), nn.Parameter(rand(3))

        def forward(self, x):
            x.exp() + 1
            return self.linear(x)
    graph = tede.onnx.export(Unused(), (X,)).model_proto.graph
    assert {"linear.weight", "linear.bias"} <= {x.name for x in graph.initializer} and "other" not in {x.name for x in graph.initializer}
    assert "Exp" not in [node.op_type for node in graph.node]


# ---- operators whose ONNX is their formula

UNARY = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor",
         "isfinite", "isinf", "isnan",
         "log", "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
         "square", "tan", "tanh", "trunc"]
ACTIVATIONS = ["celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu6", "selu",
               "softplus", "softsign", "tanhshrink"]
BINARY = ["add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "remainder", "floor_divide",
          "logical_and", "logical_or",
          "logical_xor", "fmod", "hypot"]


@pytest.mark.parametrize("name", UNARY)
def test_a_formula_of_one_operand(name):
    x = P if name in ("log", "log10", "log2", "rsqrt", "sqrt", "acosh", "reciprocal", "log1p") else X * 0.99
    x = x + 1 if name == "acosh" else x
    compare(getattr(tede, name), (x,))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation(name):
    compare(getattr(F, name), (X * 8,))
    if name == "gelu":
        compare(lambda x: F.gelu(x, approximate="tanh"), (X * 3,))


@pytest.mark.parametrize("name", BINARY)
def test_a_formula_of_two_operands(name):
    if name in ("atan2", "hypot", "fmod"):
        with pytest.raises(NotImplementedError, match=name):
            compare(getattr(tede, name), (X, Y))
        return
    function = getattr(tede, name)
    compare(function, (P, Y))
    if name not in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor"):
        compare(lambda x: function(x, 2), (P,))
    compare(function, (X, Y[:, :1, :1]))
    if name not in ("atan2", "hypot", "pow"):
        compare(function, (I, I.flip(0)))
        compare(function, (I, rand(2, 3)))
    if name in ("eq", "ne", "add", "mul"):
        compare(lambda b, x: (function(b, ~b), function(b, x)), (B, rand(2, 3)))


def test_other_formulas():
    compare(lambda x, y: (tede.where(x > 0, x, y), tede.lerp(x, y, 0.3), tede.addcmul(x, x, y, value=2),
                          x.masked_fill(y > 0, -1.0), tede.clamp_min(x, 0.1), 2 - x, 1 / y, 2 ** x), (X, Y))
    compare(lambda i, b: (i & 3, i | i.flip(0), ~i, b & ~b, b | b.flip(0), b ^ b.flip(0), i.sum() > 3, i // 2, i % 3, -i, i.abs(), i / 2,
                          i << 2, i >> 1), (I, B))


def test_every_entry_is_tried(monkeypatch):
    """Nothing in `onnx:` of an entry is there that no case above uses."""
    from tede.onnx import _export
    used = set()
    monkeypatch.setattr(_export, "ONNX", type("Noting", (dict,), {"get": lambda self, key: (used.add(key), dict.get(self, key))[1]})(ONNX))
    for function, *args in RULES.values():
        tede.onnx.export(function, tuple(args))
    tede.onnx.export(made_by_sizes, (rand(3, 4),), dynamic_shapes=({0: "n"},))
    assert not set(ONNX) - used


# ---- models

@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("varies", [False, True], ids=["fixed sizes", "sizes that vary"])
def test_a_model(name, varies):
    tede.manual_seed(0)
    kind, example, other, dynamic = MODELS[name]
    model = kind()
    program = tede.onnx.export(model, example(), dynamic_shapes=dynamic if varies else None)
    assert model.training
    model.eval()
    for args in (example(), other()) if varies else (example(),):
        with tede.no_grad():
            expected = tensors(model(*args))
        for a, b in zip(run(program.model_proto, args), expected, strict=True):
            tede.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    names = {x.name for x in program.model_proto.graph.initializer}
    assert {name for name, _ in model.named_parameters()} <= names


# ---- the call

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, scale, *, shift=None):
        y = self.linear(x) * scale
        return {"y": y if shift is None else y + shift, "z": y.sum()}


def names_of(values):
    return [(v.name, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values]


def test_names_and_axes(tmp_path):
    path = tmp_path / "two.onnx"
    tede.onnx.export(Two(), (rand(2, 4), rand(3)), str(path), input_names=["a", "b"], output_names=["c", "d"], dynamic_axes={"a": {0: "n"}, "c": [0]},
                     opset_version=20, dynamo=False)
    model = onnx.load(path)
    assert names_of(model.graph.input) == [("a", ["n", 4]), ("b", [3])] and names_of(model.graph.output) == [("c", ["c_dynamic_axes_1", 3]), ("d", [])]
    assert model.opset_import[0].version == 20 and model.producer_name == "tede"
    assert run(model, [rand(7, 4), rand(3)])[0].shape == (7, 3)


def test_keyword_arguments_constants_and_files():
    file, model = io.BytesIO(), Two()
    program = tede.onnx.export(model, (rand(2, 4), 2.0), file, kwargs={"shift": rand(3)}, dynamic_shapes={"x": {0: tede.export.Dim.DYNAMIC}, "scale": None})
    assert onnx.load_from_string(file.getvalue()) == program.model_proto and [n for n, _ in names_of(program.model_proto.graph.input)] == ["x", "shift"]
    x, shift = rand(5, 4), rand(3).flip(0)
    got = run(program.model_proto, [x, shift])
    tede.testing.assert_close(got[0], model(x, 2.0, shift=shift)["y"].detach())
    tede.testing.assert_close(program(x, shift)[1], model(x, 2.0, shift=shift)["z"].detach())
    tede.onnx.export(Two(), (rand(2, 4), rand(3)), verify=True)


def test_weights_beside_the_model(tmp_path):
    model = nn.Linear(64, 64)
    tede.onnx.export(model, (rand(2, 64),), tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 64 * 4
    session = ort.InferenceSession(str(tmp_path / "m.onnx"))
    tede.testing.assert_close(tede.from_numpy(session.run(None, {"input": rand(2, 64).numpy()})[0]), model(rand(2, 64)).detach())


@pytest.mark.parametrize("opset", [18, 19, 20, 21, 22, 23])
def test_opsets(opset):
    compare(lambda x, w: F.layer_norm(F.gelu(F.interpolate(F.conv2d(x, w), scale_factor=2, mode="bilinear")), (12,)).mean((1, 2)), (IMAGE, rand(3, 4, 3, 3)), opset)


def test_dtypes():
    for dtype in (tede.float64, tede.float16):
        compare(lambda x: (x * 2 + 1).relu().mean(-1), (X.to(dtype),))
    compare(lambda x: x.bfloat16().float() * 2, (X,))


def test_an_operator_may_be_added_by_a_table():
    def atan2(builder, y, x):
        return builder.op("Atan", builder.op("Div", y, x))
    compare(tede.atan2, (Y, P), custom_translation_table={tede.ops.aten.atan2.default: atan2})


def test_what_cannot_be_exported_says_so():
    with pytest.raises(NotImplementedError, match=r"aten.lgamma.*\n.*aten.erfinv|'lgamma'.*\n.*'erfinv'"):
        tede.onnx.export(lambda x: x.lgamma() + x.erfinv(), (X,))
    with pytest.raises(NotImplementedError, match="random"):
        tede.onnx.export(lambda x: x + tede.rand_like(x), (X,))
    with pytest.raises(RuntimeError, match=r"needs a value.*test_onnx.py:\d+: .*x.sum\(\) > 0"):
        tede.onnx.export(lambda x: x + 1 if x.sum() > 0 else x, (X,))
    with pytest.raises(RuntimeError, match="dimension 'n'.*depends on the size"):
        tede.onnx.export(lambda x: x.relu() if len(x) == 2 else x, (X,), dynamic_shapes=({0: "n"},))
    with pytest.raises(ValueError, match="opset_version is 9"):
        tede.onnx.export(F.relu, (X,), opset_version=9)
    with pytest.raises(NotImplementedError, match="updates its statistics"):
        tede.onnx.export(lambda x, m: F.batch_norm(x, m, m + 1, training=True), (IMAGE, rand(4)))


def test_the_query_of_libraries():
    seen = []
    tede.onnx.export(lambda x: (seen.append((tede.onnx.is_in_onnx_export(), tede.compiler.is_exporting())), x + 1)[1], (X,))
    assert seen[0] == (True, True) and not tede.onnx.is_in_onnx_export()
