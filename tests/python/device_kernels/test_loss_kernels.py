"""loss.ck beside the CPU's kernels."""
import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
REDUCTIONS = ["none", "mean", "sum"]


def logits(*shape):
    return tede.randn(shape).requires_grad_()


@pytest.mark.parametrize("rows, n", [(5, 7), (1, 1), (40, 300), (9000, 3), (0, 4)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(agrees, rows, n, reduction):
    t = tede.randint(0, n, (rows,))
    t[::3] = -100
    for weight in (None, tede.rand(n) + 0.1):
        for smoothing in (0.0, 0.2):
            agrees(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction, label_smoothing=smoothing), logits(rows, n), t, weight,
                   rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll(agrees, reduction):
    for shape, target in [((6, 5), (6,)), ((5,), ()), ((3, 4, 7, 5), (3, 7, 5)), ((2, 3, 9000), (2, 9000))]:
        n = shape[1] if len(shape) > 1 else shape[0]
        t = tede.randint(0, n, target)
        for weight in (None, tede.rand(n)):
            agrees(lambda x, t, w: F.nll_loss(x, t, w, reduction=reduction, ignore_index=1), logits(*shape), t, weight, rtol=1e-4, atol=1e-4)
            if len(shape) > 2:
                agrees(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction), logits(*shape), t, weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(agrees, reduction):
    for shape in ((6, 5), (5,), (3, 200), (0, 4)):
        n, samples = shape[-1], shape[:-1]
        t = tede.randint(0, n, samples)
        for p in (1, 2):
            for weight in (None, tede.rand(n)):
                agrees(lambda x, t, w: F.multi_margin_loss(x, t, p, 0.7, w, reduction=reduction), logits(*shape), t, weight)
        if 0 not in shape:
            labels = tede.stack([tede.randperm(n) for _ in range(max(1, len(t) if samples else 1))]).reshape(shape)
            labels[..., n // 2] = -1
            agrees(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), logits(*shape), labels)


def test_dtypes(agrees):
    t = tede.randint(0, 9, (20,))
    for dtype in (tede.float16, tede.bfloat16, tede.float64):
        x = tede.randn(20, 9).to(dtype).requires_grad_()
        loose = {} if dtype == tede.float64 else {"rtol": 3e-2, "atol": 3e-2}
        for reduction in REDUCTIONS:
            agrees(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, t, **loose)
            agrees(lambda x, t: F.nll_loss(x, t, reduction=reduction), x, t, **loose)


def test_a_target_that_is_no_class_is_raised_later(device):
    x = tede.randn(4, 3, device=device, requires_grad=True)
    t = tede.tensor([0, 3, 1, 2], device=device)
    for loss, kind, words in ((F.cross_entropy, IndexError, r"Target 3 is out of bounds\. \(in cross_entropy, which"),
                              (F.nll_loss, IndexError, r"Target 3 is out of bounds\. \(in nll_loss, which"),
                              (F.multi_margin_loss, RuntimeError, "target out of range")):
        for reduction in REDUCTIONS:
            y = loss(x, t, reduction=reduction)
            grad, = tede.autograd.grad(y.sum(), x)
            with pytest.raises(kind, match=words):
                y.sum().item()
            assert y.isnan().tolist() == ([False, True, False, False] if reduction == "none" else True)
            assert grad[1].isnan().any() and (reduction == "mean" or not grad[0].isnan().any())
    labels = tede.tensor([[0, -1, 3]], device=device)
    y = F.multilabel_margin_loss(x[:1].detach(), labels)
    with pytest.raises(RuntimeError, match="'target' is out of range"):
        y.item()
    assert y.isnan()
