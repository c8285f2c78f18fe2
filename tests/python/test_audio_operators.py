"""torchaudio's operators, as tede has them (operators/torchaudio/), beside their definitions, in plain Python."""
import itertools
import math

import pytest
import tede

audio = tede.ops.torchaudio
WORDS = (RuntimeError, IndexError, TypeError, ValueError)


@pytest.fixture(autouse=True)
def seed():
    tede.manual_seed(0)


# ---- filters ---------------------------------------------------------------------------------------------------------

def filtered(windows, a):
    out = tede.zeros(*windows.shape[:2], windows.shape[2] + a.shape[1] - 1, dtype=windows.dtype)
    return audio._lfilter_core_loop(windows, a, out)


def test_lfilter_subtracts_what_it_gave_before():
    for dtype in tede.float64, tede.float32:
        windows, a = tede.randn(2, 3, 20, dtype=dtype), tede.randn(3, 4, dtype=dtype) * .3
        expected = [[[0.] * 3 for _ in range(3)] for _ in range(2)]
        for n, c, i in itertools.product(range(2), range(3), range(20)):
            past = expected[n][c][-3:]
            expected[n][c].append(windows[n, c, i].item() - sum(a[c, k].item() * past[k] for k in range(3)))
        tede.testing.assert_close(filtered(windows, a), tede.tensor(expected, dtype=dtype))


def test_lfilter_writes_into_its_operand():
    windows, a, out = tede.randn(2, 3, 20), tede.randn(3, 4), tede.zeros(2, 3, 23)
    assert audio._lfilter_core_loop(windows, a, out) is out and out.any()
    strided, version = tede.zeros(2, 3, 46)[..., ::2], out._version
    audio._lfilter_core_loop(windows.transpose(0, 1).contiguous().transpose(0, 1), a.t().contiguous().t(), strided)
    assert tede.equal(strided, out)
    audio._lfilter_core_loop(windows, a, out.zero_())
    assert out._version > version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x = tede.randn(1, 1, 3, requires_grad=True)
        kept = (x * 2).exp()
        audio._lfilter_core_loop(tede.zeros(1, 1, 3), tede.ones(1, 1), kept.detach())
        kept.sum().backward()


def test_halves_are_filtered_in_float32():
    windows, a = tede.randn(2, 3, 20).half(), (tede.randn(3, 4) * .2).half()
    tede.testing.assert_close(filtered(windows, a), filtered(windows.float(), a.float()).half())


def test_overdrive():
    wave, bent = tede.randn(2, 10, dtype=tede.float64), tede.randn(2, 10, dtype=tede.float64)
    before, after, out = tede.randn(2, dtype=tede.float64), tede.randn(2, dtype=tede.float64), tede.zeros(2, 10, dtype=tede.float64)
    last, value, expected = before.clone(), after.clone(), tede.zeros(2, 10, dtype=tede.float64)
    for i in range(10):
        value = bent[:, i] - last + .995 * value
        last = bent[:, i]
        expected[:, i] = .5 * wave[:, i] + .75 * value
    audio._overdrive_core_loop(wave, bent, before, after, out)
    for found, wanted in zip((before, after, out), (last, value, expected), strict=True):
        tede.testing.assert_close(found, wanted)


def test_meta_tensors():
    windows, a, out = (tede.empty(sizes, device="meta") for sizes in ((2, 3, 20), (3, 4), (2, 3, 23)))
    assert audio._lfilter_core_loop(windows, a, out) is out
    assert audio.rnnt_loss_forward(tede.empty(2, 5, 3, 4, device="meta"), *(x.to("meta") for x in LENGTHS), 0, -1., True)[1].shape == (2, 5, 3, 4)


# ---- the transducer's loss -------------------------------------------------------------------------------------------

LENGTHS = (tede.tensor([[1, 3], [2, 0]], dtype=tede.int32), tede.tensor([5, 4], dtype=tede.int32), tede.tensor([2, 1], dtype=tede.int32))


def loss(logits, targets, times, counts, blank, fused):
    """By all paths: each orders its blanks and targets in another way, and ends with a blank."""
    logs = logits.log_softmax(-1) if fused else logits
    costs = []
    for n in range(len(logits)):
        t_end, u_end = times[n].item(), counts[n].item()
        paths = []
        for emits in itertools.combinations(range(t_end - 1 + u_end), u_end):
            t = u = 0
            total = 0.
            for step in range(t_end - 1 + u_end):
                if step in emits:
                    total, u = total + logs[n, t, u, targets[n, u]], u + 1
                else:
                    total, t = total + logs[n, t, u, blank], t + 1
            paths.append(total + logs[n, t, u, blank])
        costs.append(-tede.stack(paths).logsumexp(0))
    return tede.stack(costs)


@pytest.mark.parametrize("fused", [True, False])
def test_rnnt_loss_and_its_gradient(fused):
    logits = tede.randn(2, 5, 3, 4, dtype=tede.float64)
    logits = (logits if fused else logits.log_softmax(-1)).requires_grad_()
    costs, _ = audio.rnnt_loss_forward(logits, *LENGTHS, 0, -1., fused)
    expected = loss(logits, *LENGTHS, 0, fused)
    tede.testing.assert_close(costs, expected)
    weight = tede.tensor([1., 3.], dtype=tede.float64)
    found, = tede.autograd.grad((costs * weight).sum(), logits)
    wanted, = tede.autograd.grad((expected * weight).sum(), logits)
    tede.testing.assert_close(found, wanted)
    assert tede.autograd.gradcheck(lambda x: audio.rnnt_loss_forward(x, *LENGTHS, 0, -1., fused)[0], logits, fast_mode=True)
    clamped = audio.rnnt_loss_forward(logits, *LENGTHS, 0, .05, fused)[1]
    tede.testing.assert_close(clamped, audio.rnnt_loss_forward(logits, *LENGTHS, 0, -1., fused)[1].clamp(-.05, .05))


def test_rnnt_loss_of_halves_and_of_what_is_impossible():
    logits = tede.randn(2, 5, 3, 4).half()
    half, grads = audio.rnnt_loss_forward(logits, *LENGTHS, 0, -1., True)
    exact, _ = audio.rnnt_loss_forward(logits.float(), *LENGTHS, 0, -1., True)
    assert half.dtype == grads.dtype == tede.float16
    tede.testing.assert_close(half, exact.half())
    for value in math.nan, math.inf, -math.inf:
        audio.rnnt_loss_forward(tede.full((2, 5, 3, 4), value), *LENGTHS, 0, -1., True)


# ---- forced alignment ------------------------------------------------------------------------------------------------

def collapse(path, blank):
    return [label for label, _ in itertools.groupby(path) if label != blank]


@pytest.mark.parametrize("dtype", [tede.float64, tede.float32, tede.float16])
@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [2], [1, 2, 1]])
def test_forced_align_finds_the_likeliest_path(labels, dtype):
    scores = tede.randn(1, 6, 3).log_softmax(-1).to(dtype)
    paths, also = audio.forced_align(scores, tede.tensor([labels]), tede.tensor([6]), tede.tensor([len(labels)]), 0)
    best = max((path for path in itertools.product(range(3), repeat=6) if collapse(path, 0) == labels),
               key=lambda path: sum(scores[0, t, label].item() for t, label in enumerate(path)))
    assert tuple(paths[0].tolist()) == best and paths.dtype == tede.int64 and tede.equal(also, scores)


def test_forced_align_passes_a_gradient_to_the_scores():
    scores = tede.randn(1, 6, 3, requires_grad=True)
    _, also = audio.forced_align(scores, tede.tensor([[1, 2]], dtype=tede.int32), tede.tensor([6]), tede.tensor([2]), 0)
    also.square().sum().backward()
    tede.testing.assert_close(scores.grad, 2 * scores.detach())


# ---- what isn't right ------------------------------------------------------------------------------------------------

W, A, O = tede.zeros(2, 3, 20), tede.zeros(3, 4), tede.zeros(2, 3, 23)
LOGITS, (TARGETS, TIMES, COUNTS) = tede.zeros(2, 5, 3, 4), LENGTHS
SCORES, LABELS, SIX, TWO = tede.zeros(1, 6, 3), tede.tensor([[1, 2]]), tede.tensor([6]), tede.tensor([2])


@pytest.mark.parametrize("windows, a, out", [
    (W[0], A, O), (W, A[0], O), (W, A, O[0]), (W, A[:2], O), (W, A, O[..., 1:]), (W, A[:, :0], O), (W, A.double(), O), (W, A, O.double()),
    (W.long(), A.long(), O.long()), (W.to(tede.complex64), A.to(tede.complex64), O.to(tede.complex64)), (W, A, O[:1])])
def test_lfilter_refuses(windows, a, out):
    with pytest.raises(WORDS, match="_lfilter_core_loop"):
        audio._lfilter_core_loop(windows, a, out)


@pytest.mark.parametrize("at, value", [(0, tede.zeros(2)), (1, tede.zeros(2, 9)), (2, tede.zeros(3)), (3, tede.zeros(2, 1)), (4, tede.zeros(2, 11)),
                                       (4, tede.zeros(2, 10, dtype=tede.int64)), (3, tede.zeros(2, dtype=tede.float64))])
def test_overdrive_refuses(at, value):
    arguments = [tede.zeros(2, 10), tede.zeros(2, 10), tede.zeros(2), tede.zeros(2), tede.zeros(2, 10)]
    arguments[at] = value
    with pytest.raises(WORDS, match="_overdrive_core_loop"):
        audio._overdrive_core_loop(*arguments)


@pytest.mark.parametrize("at, value, words", [
    (0, LOGITS[0], "dim"), (0, LOGITS.long(), "Long|dtype|float"), (0, LOGITS[:, :, :0], "end of the targets"), (0, LOGITS[:, :4], "input length mismatch"),
    (1, TARGETS.long(), "int32|Int|Long"), (1, TARGETS[:1], "size"), (1, TARGETS + 2, "out of bounds for 4"), (1, TARGETS - 4, "target -3 is out of bounds"),
    (2, TIMES + 1, "input length mismatch"), (2, tede.tensor([5, 0], dtype=tede.int32), "length of 0"),
    (2, tede.tensor([5, -2**31], dtype=tede.int32), "length of -"),
    (3, COUNTS + 1, "output length mismatch"), (3, tede.tensor([2, -1], dtype=tede.int32), "-1 targets"),
    (4, -1, "blank must be within"), (4, 4, "blank must be within"),
    (4, 2**63 - 1, "blank must be within")])
def test_rnnt_loss_refuses(at, value, words):
    arguments = [LOGITS, TARGETS, TIMES, COUNTS, 0, -1., True]
    arguments[at] = value
    with pytest.raises(WORDS, match=words):
        audio.rnnt_loss_forward(*arguments)


@pytest.mark.parametrize("at, value, words", [
    (0, SCORES[0], "dim"), (0, SCORES.expand(2, 6, 3), "must be 1 at the current version"), (0, SCORES.long(), "Long|float"), (0, SCORES[:, :1], "mismatch"),
    (1, LABELS[0], "dim"), (1, LABELS + 1, "target 3 is out of bounds for 3 classes"), (1, LABELS - 2, "target -1 is out of bounds"),
    (1, LABELS.float(), "Float|int"),
    (1, tede.ones(1, 4, dtype=tede.int64), "target length mismatch"), (2, SIX + 1, "input length mismatch"), (3, TWO + 1, "target length mismatch"),
    (4, 3, "blank must be within"), (4, -2**63, "blank must be within")])
def test_forced_align_refuses(at, value, words):
    arguments = [SCORES, LABELS, SIX, TWO, 0]
    arguments[at] = value
    with pytest.raises(WORDS, match=words):
        audio.forced_align(*arguments)


def test_labels_that_dont_fit():
    ones = tede.ones(1, 4, dtype=tede.int64)
    with pytest.raises(RuntimeError, match="too long for CTC. Found targets length: 4, log_probs length: 6, and number of repeats: 3"):
        audio.forced_align(SCORES, ones, SIX, tede.tensor([4]), 0)


def test_nothing():
    assert filtered(W[..., :0], A).shape == (2, 3, 3) and filtered(W[:0], A).shape == (0, 3, 23)
    audio._overdrive_core_loop(tede.zeros(0, 10), tede.zeros(0, 10), tede.zeros(0), tede.zeros(0), tede.zeros(0, 10))
    none = tede.zeros(0, dtype=tede.int32)
    assert audio.rnnt_loss_forward(LOGITS[:0], TARGETS[:0], none, none, 0, -1., True)[0].shape == (0,)
    paths, _ = audio.forced_align(SCORES, LABELS[:, :0], SIX, tede.tensor([0]), 0)
    assert paths.tolist() == [[0] * 6]
    assert audio.forced_align(SCORES[:, :0], LABELS[:, :0], tede.tensor([0]), tede.tensor([0]), 0)[0].shape == (1, 0)


def test_scores_of_any_numbers():
    for value in math.nan, math.inf, -math.inf:
        paths, _ = audio.forced_align(tede.full((1, 6, 3), value), LABELS, SIX, TWO, 0)
        assert 0 <= paths.min() and paths.max() < 3


def test_what_it_can_is_asked_under_torchaudios_name():
    assert tede.ops._torchaudio.is_align_available() is True and tede.ops._torchaudio.cuda_version() is None
