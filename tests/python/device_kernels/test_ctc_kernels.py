"""ctc.ck beside the CPU's kernels."""
import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def logits(steps=12, batch=4, classes=6, dtype=tede.float32):
    return tede.randn(steps, batch, classes).to(dtype).requires_grad_()


def labels(batch=4, longest=5, classes=6):
    return tede.randint(1, classes, (batch, longest))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [tede.float32, tede.float64])
def test_losses(agrees, reduction, dtype):
    def loss(x, targets, inputs, lengths):
        return F.ctc_loss(x.log_softmax(-1), targets, inputs, lengths, reduction=reduction)
    targets, inputs, lengths = labels(), tede.tensor([12, 9, 11, 12]), tede.tensor([5, 3, 1, 0])
    agrees(loss, logits(dtype=dtype), targets, inputs, lengths, **CLOSE)
    agrees(loss, logits(dtype=dtype), targets.int(), inputs.int(), lengths.int(), **CLOSE)
    agrees(loss, logits(dtype=dtype), targets.flatten()[:9], inputs, lengths, **CLOSE)
    agrees(lambda x, targets: loss(x, targets, (12, 9, 11, 12), (5, 3, 1, 0)), logits(dtype=dtype), targets, **CLOSE)


def test_repeated_labels_and_another_blank(agrees):
    targets = tede.tensor([[1, 1, 2, 2, 1], [3, 3, 3, 3, 3], [0, 1, 0, 1, 0], [2, 0, 0, -1, -1]])
    for blank in (5, 4):
        agrees(lambda x, t: F.ctc_loss(x.log_softmax(-1), t, (12,) * 4, (5, 5, 5, 3), blank=blank, reduction="none"), logits(), targets, **CLOSE)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_targets_that_do_not_fit(agrees, zero_infinity):
    agrees(lambda x, t: F.ctc_loss(x.log_softmax(-1), t, (12, 3, 0, 0), (5, 5, 2, 0), reduction="none", zero_infinity=zero_infinity), logits(), labels(),
           **CLOSE)


def test_many_states_and_classes(agrees):
    agrees(lambda x, t: F.ctc_loss(x.log_softmax(-1), t, (400, 350), (180, 150)), logits(400, 2, 300), labels(2, 180, 300), **CLOSE)


def test_one_sample_and_strides(agrees):
    agrees(lambda x, t: F.ctc_loss(x.log_softmax(-1), t, (12,), (3,)), tede.randn(12, 6).requires_grad_(), tede.tensor([1, 2, 1]), **CLOSE)
    agrees(lambda x, t: F.ctc_loss(x.transpose(0, 1), t.flip(1), (12,) * 4, (5,) * 4), logits(4, 12), labels(), **CLOSE)


def test_mistakes_of_labels(device):
    for on in ("cpu", device):
        x = tede.zeros(12, 1, 6, device=on)
        with pytest.raises(RuntimeError, match="label 6 is not one of the 6 classes"):
            F.ctc_loss(x, tede.tensor([[1, 6]], device=on), (12,), (2,))
        with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 12"):
            F.ctc_loss(x, tede.tensor([[1, 2]], device=on), (13,), (2,))
