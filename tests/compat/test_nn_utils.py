"""Clipping gradients, parameters as vectors, sequences of different lengths, and functions beyond the layers."""
import importlib

import numpy
import pytest


def array(tensor):
    return numpy.array(tensor.detach().tolist())


def parameters(lib, *gradients):
    rows = []
    for gradient in gradients:
        p = lib.nn.Parameter(lib.zeros(len(gradient)))
        p.grad = lib.tensor(gradient)
        rows.append(p)
    return rows


def test_clipping_scales_to_the_norm(lib):
    a, b = parameters(lib, [3.0], [4.0])
    total = lib.nn.utils.clip_grad_norm_([a, b], 1.0)
    assert total.item() == pytest.approx(5.0) and a.grad.item() == pytest.approx(0.6) and b.grad.item() == pytest.approx(0.8)
    assert lib.nn.utils.clip_grad_norm_([a, b], 10.0).item() == pytest.approx(1.0)
    assert a.grad.item() == pytest.approx(0.6)
    assert lib.nn.utils.clip_grad_norm_(a, 0.1, norm_type=float("inf")).item() == pytest.approx(0.6)
    lib.nn.utils.clip_grad_value_([a, b], 0.05)
    assert a.grad.item() == pytest.approx(0.05)


def test_nothing_to_clip(lib):
    p = lib.nn.Parameter(lib.ones(1))
    assert lib.nn.utils.clip_grad_norm_([p], 1.0).item() == 0
    with pytest.warns(UserWarning, match="empty generator"):
        lib.nn.utils.clip_grad_norm_((p for p in ()), 1.0)


def test_parameters_as_a_vector(lib):
    m = lib.nn.Linear(2, 3)
    vector = lib.nn.utils.parameters_to_vector(m.parameters())
    assert vector.shape == (9,)
    lib.nn.utils.vector_to_parameters(lib.arange(9.0), m.parameters())
    assert m.weight[2, 1].item() == 5 and m.bias[2].item() == 8


def test_padding_sequences(lib):
    pad = lib.nn.utils.rnn.pad_sequence
    rows = [lib.ones(2), lib.ones(3)]
    assert pad(rows).shape == (3, 2) and pad(rows, batch_first=True).tolist() == [[1, 1, 0], [1, 1, 1]]
    assert pad(rows, True, 5.0, "left").tolist() == [[5, 1, 1], [1, 1, 1]]
    assert pad([lib.ones(2, 3), lib.ones(1, 3)]).shape == (2, 2, 3)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_back(lib, batch_first):
    rnn = lib.nn.utils.rnn
    rows = [lib.arange(3.0), lib.arange(5.0) + 10, lib.arange(2.0) + 20]
    padded = rnn.pad_sequence(rows, batch_first)
    packed = rnn.pack_padded_sequence(padded, [3, 5, 2], batch_first, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1, 1] and packed.sorted_indices.tolist() == [1, 0, 2]
    assert packed.data.tolist() == [10, 0, 20, 11, 1, 21, 12, 2, 13, 14]
    again, lengths = rnn.pad_packed_sequence(packed, batch_first)
    assert again.tolist() == padded.tolist() and lengths.tolist() == [3, 5, 2]
    longer, _ = rnn.pad_packed_sequence(packed, batch_first, padding_value=-1.0, total_length=7)
    assert longer.shape[1 if batch_first else 0] == 7
    assert [row.tolist() for row in rnn.unpack_sequence(packed)] == [row.tolist() for row in rows]


@pytest.mark.parametrize("kind,options", [("RNN", {}), ("LSTM", {"bidirectional": True, "num_layers": 2}),
                                          ("GRU", {"bidirectional": True}),
                                          ("LSTM", {"proj_size": 2})])
def test_packed_sequences_go_through_recurrent_layers(both, kind, options):
    results = []
    for lib in both:
        lib.manual_seed(1)
        layer = getattr(lib.nn, kind)(3, 4, **options)
        rows = [lib.tensor(numpy.random.default_rng(i).standard_normal((n, 3)).tolist()) for i, n in enumerate((2, 4, 3))]
        packed = lib.nn.utils.rnn.pack_sequence([row.requires_grad_() for row in rows], enforce_sorted=False)
        output, state = layer(packed)
        padded, _ = lib.nn.utils.rnn.pad_packed_sequence(output)
        states = state if isinstance(state, tuple) else (state,)
        sum((value * value).sum() for value in (padded, *states)).backward()
        results.append([array(v) for v in (padded, *states, *(row.grad for row in rows),
                        *(p.grad for p in layer.parameters()))])
    for a, b in zip(*results):
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_packed_layers_without_a_kernel(both, monkeypatch):
    import importlib
    monkeypatch.setattr(importlib.import_module("tede.nn._functional.recurrent"), "_native", lambda name: None)
    for kind, options in (("RNN", {}), ("LSTM", {"bidirectional": True, "num_layers": 2}),
                          ("GRU", {"bidirectional": True})):
        test_packed_sequences_go_through_recurrent_layers(both, kind, options)


# Attention's masks ----------------------------------------------------------------------------------------------

def attend(lib, **options):
    lib.manual_seed(2)
    layer = lib.nn.MultiheadAttention(8, 2)
    x = lib.tensor(numpy.random.default_rng(0).standard_normal((4, 3, 8)).tolist())
    make = {"attn_mask": lambda: lib.ones(4, 4, dtype=lib.bool).triu(1), "float": lambda: lib.ones(4, 4).triu(1) * -5.0,
            "heads": lambda: lib.ones(6, 4, 4, dtype=lib.bool).triu(1),
            "padding": lambda: lib.tensor([[False] * 4, [False, False, True, True], [False, False, False, True]])}
    arguments = {key: make[value]() if isinstance(value, str) else value for key, value in options.items()}
    return [array(value) for value in layer(x, x, x, **arguments) if value is not None]


@pytest.mark.parametrize("options", [
    {"attn_mask": "attn_mask"}, {"attn_mask": "float"}, {"attn_mask": "heads"}, {"key_padding_mask": "padding"},
    {"key_padding_mask": "padding", "attn_mask": "attn_mask", "need_weights": False},
    {"attn_mask": "attn_mask", "is_causal": True, "need_weights": False},
    {"average_attn_weights": False}, {"need_weights": False},
], ids=str)
def test_attention_masks(both, options):
    for a, b in zip(*[attend(lib, **options) for lib in both]):
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_an_encoder_with_padding(both, training):
    results = []
    for lib in both:
        lib.manual_seed(2)
        layer = lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        encoder = lib.nn.TransformerEncoder(layer, 2, lib.nn.LayerNorm(8)).train(training)
        x = lib.tensor(numpy.random.default_rng(0).standard_normal((2, 4, 8)).tolist())
        padding = lib.tensor([[False] * 4, [False, False, True, True]])
        with lib.no_grad():
            results.append(array(encoder(x, src_key_padding_mask=padding)))
        causal = lib.nn.Transformer.generate_square_subsequent_mask(4)
        results.append(array(encoder(x, mask=causal)))
    numpy.testing.assert_allclose(results[0], results[2], rtol=1e-4, atol=1e-5)
    numpy.testing.assert_allclose(results[1], results[3], rtol=1e-4, atol=1e-5)


# Functions that no layer calls ----------------------------------------------------------------------------------

FUNCTIONS = {
    "normalize": lambda lib, F, x: F.normalize(x, dim=-1), "gumbel": lambda lib, F, x: F.gumbel_softmax(x, hard=True),
    "one_hot": lambda lib, F, x: F.one_hot(lib.tensor([0, 2, 1]), 4),
    "pad": lambda lib, F, x: F.pad(x, (1, 2), value=3.0),
    "affine": lambda lib, F, x: F.affine_grid(x[:, :6].reshape(-1, 2, 3), [4, 1, 3, 3], align_corners=False),
    "grid": lambda lib, F, x: F.grid_sample(x.reshape(1, 1, 4, 6), lib.zeros(1, 2, 2, 2), align_corners=True),
    "weighted": lambda lib, F, x: F.mse_loss(x, x * 0, weight=lib.ones(4, 6) * 2),
    "old": lambda lib, F, x: F.mse_loss(x, x * 0, size_average=False),
    "bag": lambda lib, F, x: F.embedding_bag(lib.tensor([0, 1, 2, 3]), x, lib.tensor([0, 2]),
                                                mode="sum", per_sample_weights=lib.ones(4)),
    "unpool": lambda lib, F, x: F.max_unpool1d(*F.max_pool1d(x.unsqueeze(0), 2, return_indices=True), 2),
    "pool2d indices": lambda lib, F, x: F.max_pool2d(x.unsqueeze(0), 2, return_indices=True)[1],
    "softmax dim": lambda lib, F, x: F.softmax(x),
    "softmax dtype": lambda lib, F, x: F.log_softmax(x, 0, dtype=lib.float64),
    "logsigmoid": lambda lib, F, x: F.logsigmoid(x), "pdist": lambda lib, F, x: F.pdist(x),
    "attention": lambda lib, F, x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "inplace": lambda lib, F, x: F.leaky_relu(F.elu(F.relu(x.clone() - 0.2, inplace=True) - 0.5, inplace=True),
                                                inplace=True),
    "area": lambda lib, F, x: F.interpolate(x.reshape(1, 1, 4, 6), scale_factor=0.5, mode="area"),
    "nearest-exact": lambda lib, F, x: F.interpolate(x.reshape(1, 1, 4, 6), (5, 3), mode="nearest-exact"),
    "antialias": lambda lib, F, x: F.interpolate(x.reshape(1, 1, 4, 6), (2, 3), mode="bilinear", antialias=True),
    "fractional": lambda lib, F, x: F.fractional_max_pool2d(x.reshape(1, 4, 6), 2, output_ratio=(0.5, 0.5)),
    "rrelu": lambda lib, F, x: F.rrelu(x, training=True),
    "feature dropout": lambda lib, F, x: F.dropout2d(x.reshape(1, 4, 2, 3)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_pytorchs(both, name):
    results = []
    for lib in both:
        lib.manual_seed(4)
        x = lib.tensor(numpy.random.default_rng(0).standard_normal((4, 6)).tolist())
        results.append(array(FUNCTIONS[name](lib, lib.nn.functional, x)))
    numpy.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_no_function_is_left_out(both):
    tede, torch = both
    wanted = {name for name in dir(torch.nn.functional) if name[0] not in "_" and name[0].islower()
              and type(getattr(torch.nn.functional, name)).__name__ in ("function", "builtin_function_or_method")}
    absent = {"assert_int_or_pair", "boolean_dispatch", "handle_torch_function", "has_torch_function",
              "has_torch_function_unary", "has_torch_function_variadic", "scaled_mm", "scaled_grouped_mm", "grouped_mm"}
    assert wanted - absent <= set(dir(tede.nn.functional))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode,shape", [("bilinear", (4, 5)), ("nearest", (4, 5)), ("bicubic", (4, 5)),
                                        ("bilinear", (3, 4, 5)),
                                        ("nearest", (3, 4, 5)), ("bilinear", (1, 5))])
def test_reading_between_pixels(both, monkeypatch, mode, shape, padding, align):
    from tede.nn._native import N
    monkeypatch.setattr(type(N), "find", lambda self, name: None)
    n, results = len(shape), []
    for lib in both:
        generator = numpy.random.default_rng(5)
        image = lib.tensor(generator.standard_normal((2, 3, *shape)).tolist()).requires_grad_()
        grid = lib.tensor((generator.standard_normal((2, *[3] * n, n)) * 1.3).tolist()).requires_grad_()
        out = lib.nn.functional.grid_sample(image, grid, mode, padding, align)
        (out * out).sum().backward()
        theta = lib.tensor(generator.standard_normal((2, n, n + 1)).tolist()).requires_grad_()
        places = lib.nn.functional.affine_grid(theta, [2, 3, *[max(2, s) for s in shape]], align_corners=align)
        (places * places).sum().backward()
        results.append([array(v) for v in (out, image.grad, grid.grad, places, theta.grad) if v is not None])
    for a, b in zip(*results):
        numpy.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_of_each_sample(lib, reduction):
    per_sample = importlib.import_module(f"{lib.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads
    nn = lib.nn
    m = nn.Sequential(nn.Conv1d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)).double()
    m[3].bias.requires_grad_(False)
    x = lib.randn(4, 2, 4, dtype=lib.float64, requires_grad=True)
    y = per_sample(m, loss_reduction=reduction)(x)
    assert lib.allclose(y, m(x))
    getattr(y.pow(2).sum(1), reduction)().backward()
    found = x.grad.clone()
    for i in range(4):
        m.zero_grad()
        m(x[i:i + 1]).pow(2).sum().backward()
        for p in m.parameters():
            assert p.grad is None or lib.allclose(p.grad_sample[i], p.grad)
    assert getattr(m[3].bias, "grad_sample", None) is None and m[0].weight.grad_sample.shape == (4, 3, 2, 2)
    x.grad = None
    getattr(m(x).pow(2).sum(1), reduction)().backward()
    assert lib.allclose(found, x.grad)
    with pytest.raises(RuntimeError, match="Please clear out the grad_sample parameter"):
        per_sample(m)
    with pytest.raises(RuntimeError, match="Expected loss_reduction argument to be sum or mean, got none"):
        per_sample(nn.Linear(1, 1), loss_reduction="none")
    with pytest.raises(RuntimeError, match="found at least one input with batch size"):
        per_sample(nn.Bilinear(1, 1, 1))(lib.ones(2, 1), lib.ones(3, 1))
    with pytest.raises(RuntimeError, match="Module passed must be nn.Module, got int"):
        per_sample(3)


def test_gradients_of_each_sample_with_indices_and_a_later_batch_dimension(lib):
    per_sample = importlib.import_module(f"{lib.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads
    m = lib.nn.Embedding(5, 3)
    per_sample(m)(lib.tensor([[0, 1], [2, 2], [4, 0]])).sum().backward()
    assert m.weight.grad_sample.shape == (3, 5, 3) and m.weight.grad_sample[1].sum(1).tolist() == [0, 0, 6, 0, 0]
    if lib.__name__ == "torch":
        return              # there only recurrent layers may have the batch second
    m, x = lib.nn.Linear(3, 2), lib.randn(5, 4, 3)
    per_sample(m, batch_first=False)(x).sum().backward()
    lib.testing.assert_close(m.weight.grad_sample, x.sum(0).unsqueeze(1).expand(4, 2, 3))
