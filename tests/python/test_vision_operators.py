"""torchvision's operators, as tede has them (operators/torchvision/), beside the formulas of their documentation, in plain Python."""
import itertools
import math

import pytest
import tede

vision = tede.ops.torchvision
WORDS = (RuntimeError, IndexError, TypeError, ValueError, MemoryError, NotImplementedError)


@pytest.fixture(autouse=True)
def seed():
    tede.manual_seed(0)


def boxes(n, dtype=tede.float64, images=2):
    corner = tede.rand(n, 2, dtype=dtype) * 20 - 2
    of = tede.arange(n, dtype=dtype).remainder(images)
    return tede.cat([of[:, None], corner, corner + tede.rand(n, 2, dtype=dtype) * 14 - 1], 1)


# ---- formulas --------------------------------------------------------------------------------------------------------

def read(plane, y, x):
    """Between four elements; beyond the border, within one element of it, as on it."""
    h, w = len(plane), len(plane[0])
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    i, k = min(int(y), h - 1), min(int(x), w - 1)
    up, right = min(i + 1, h - 1), min(k + 1, w - 1)
    v, u = y - i, x - k
    return (1 - v) * ((1 - u) * plane[i][k] + u * plane[i][right]) + v * ((1 - u) * plane[up][k] + u * plane[up][right])


def align(x, rois, scale, rows, columns, ratio, aligned, by_position=False):
    shift = .5 if aligned or by_position else 0
    out = []
    for image, *box in rois.tolist():
        left, top, right, bottom = (value * scale - shift for value in box)
        height, width = bottom - top, right - left
        if not (aligned or by_position):
            height, width = max(height, 1), max(width, 1)
        height, width = height / rows, width / columns
        grid = [ratio or max(math.ceil(size), 0) for size in (height, width)]
        for c, r, k in itertools.product(range(x.shape[1] // (rows * columns if by_position else 1)), range(rows), range(columns)):
            plane = x[int(image), (c * rows + r) * columns + k if by_position else c].tolist()
            samples = [read(plane, top + (r + (i + .5) / grid[0]) * height, left + (k + (j + .5) / grid[1]) * width)
                       for i in range(grid[0]) for j in range(grid[1])]
            out.append(sum(samples) / len(samples) if samples else math.nan if by_position else 0.)
    return tede.tensor(out, dtype=x.dtype).reshape(len(rois), -1, rows, columns)


def away_from_zero(x):
    return math.floor(abs(x) + .5) * (1 if x > 0 else -1)


def pool(x, rois, scale, rows, columns, by_position=False):
    out = []
    for image, *box in rois.tolist():
        left, top, right, bottom = (away_from_zero(value * scale) for value in box)
        more = 0 if by_position else 1
        height, width = max(bottom - top + more, 1) / rows, max(right - left + more, 1) / columns
        most = [size - (1 if by_position else 0) for size in x.shape[2:]]

        def span(start, size, bin, most):
            return slice(*(min(max(start + end, 0), most) for end in (math.floor(bin * size), math.ceil((bin + 1) * size))))
        for c, r, k in itertools.product(range(x.shape[1] // (rows * columns if by_position else 1)), range(rows), range(columns)):
            cut = x[int(image), (c * rows + r) * columns + k if by_position else c, span(top, height, r, most[0]), span(left, width, k, most[1])]
            out.append((cut.mean() if by_position else cut.max()).item() if cut.numel() else 0.)
    return tede.tensor(out, dtype=x.dtype).reshape(len(rois), -1, rows, columns)


def convolve(x, weight, offset, mask, bias, stride, pad, dilation, groups, offset_groups):
    n, channels, height, width = x.shape
    kernel = weight.shape[2:]
    taps = kernel[0] * kernel[1]
    sizes = [(x.shape[2 + i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    out = tede.zeros(n, len(weight), *sizes, dtype=x.dtype)

    def at(plane, y, x):
        i, k = math.floor(y), math.floor(x)
        return sum(plane[a, b].item() * (1 - abs(y - a)) * (1 - abs(x - b)) for a in (i, i + 1) for b in (k, k + 1)
                   if 0 <= a < height and 0 <= b < width)
    for image, o, r, c in itertools.product(*map(range, out.shape)):
        total = bias[o].item()
        per = channels // groups
        first = o // (len(weight) // groups) * per
        for i, tap in itertools.product(range(per), range(taps)):
            group = (first + i) // (channels // offset_groups)
            place = group * taps + tap
            y = r * stride[0] - pad[0] + tap // kernel[1] * dilation[0] + offset[image, 2 * place, r, c].item()
            z = c * stride[1] - pad[1] + tap % kernel[1] * dilation[1] + offset[image, 2 * place + 1, r, c].item()
            m = mask[image, place, r, c].item() if mask is not None else 1
            total += weight[o, i, tap // kernel[1], tap % kernel[1]].item() * m * at(x[image, first + i], y, z)
        out[image, o, r, c] = total
    return out


def keep(dets, scores, threshold):
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        a = dets[i].tolist()
        for k in kept:
            b = dets[k].tolist()
            sides = [max(min(a[j + 2], b[j + 2]) - max(a[j], b[j]), 0) for j in range(2)]
            both = sides[0] * sides[1]
            if both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both) > threshold:
                break
        else:
            kept.append(i)
    return kept


# ---- values ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("ratio, aligned", [(0, True), (0, False), (2, True), (3, False)])
def test_roi_align(ratio, aligned):
    x, rois = tede.randn(2, 3, 7, 9, dtype=tede.float64), boxes(6)
    tede.testing.assert_close(vision.roi_align(x, rois, .5, 3, 2, ratio, aligned), align(x, rois, .5, 3, 2, ratio, aligned))


@pytest.mark.parametrize("ratio", [0, 2])
def test_ps_roi_align(ratio):
    x, rois = tede.randn(2, 12, 7, 9, dtype=tede.float64), boxes(6)
    out, channels = vision.ps_roi_align(x, rois, .5, 3, 2, ratio)
    tede.testing.assert_close(out, align(x, rois, .5, 3, 2, ratio, True, by_position=True), equal_nan=True)
    assert channels.dtype == tede.int32 and (channels == tede.arange(12).reshape(2, 3, 2)).all()


def test_roi_pool_and_ps_roi_pool():
    x, rois = tede.randn(2, 12, 7, 9, dtype=tede.float64), boxes(6)
    out, places = vision.roi_pool(x, rois, .5, 3, 2)
    tede.testing.assert_close(out, pool(x, rois, .5, 3, 2))
    flat = x[rois[:, 0].long()].flatten(2)
    found = flat.gather(2, places.flatten(2).clamp(min=0).long()).reshape(out.shape)
    assert tede.equal(tede.where(places >= 0, found, 0), out)
    out, channels = vision.ps_roi_pool(x, rois, .5, 3, 2)
    tede.testing.assert_close(out, pool(x, rois, .5, 3, 2, by_position=True))
    assert (channels == tede.arange(12).reshape(2, 3, 2)).all()


CASES = [((1, 1), (0, 0), (1, 1), 1, 1, True), ((2, 1), (1, 2), (1, 2), 2, 1, False), ((1, 2), (1, 0), (2, 1), 2, 2, True)]


def operands(case, dtype=tede.float64):
    stride, pad, dilation, groups, offset_groups, masked = case
    x, weight = tede.randn(2, 4, 5, 6, dtype=dtype), tede.randn(4, 4 // groups, 3, 2, dtype=dtype)
    sizes = [(x.shape[2 + i] + 2 * pad[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    offset = tede.randn(2, offset_groups * 12, *sizes, dtype=dtype)
    mask = tede.rand(2, offset_groups * 6, *sizes, dtype=dtype) if masked else tede.zeros(2, 1, dtype=dtype)
    return (x, weight, offset, mask, tede.randn(4, dtype=dtype)), (*stride, *pad, *dilation, groups, offset_groups, masked)


@pytest.mark.parametrize("case", CASES)
def test_deform_conv2d(case):
    tensors, numbers = operands(case)
    x, weight, offset, mask, bias = tensors
    expected = convolve(x, weight, offset, mask if case[5] else None, bias, *case[:5])
    tede.testing.assert_close(vision.deform_conv2d(*tensors, *numbers), expected)


def test_nms():
    for dtype in tede.float64, tede.float32, tede.float16:
        dets = boxes(40, dtype)[:, 1:]
        dets[:, 2:] = dets[:, :2] + (dets[:, 2:] - dets[:, :2]).abs() + 1
        scores = tede.randn(40, dtype=dtype).round(decimals=1)          # with ties
        assert vision.nms(dets, scores, .3).tolist() == keep(dets, scores, .3)
    whole = (dets * 4 + 8).clamp(min=0).to(tede.uint8)
    assert vision.qnms(whole, (scores * 9 + 40).to(tede.uint8), .3).tolist() == keep(whole, (scores * 9 + 40).to(tede.uint8), .3)


def test_box_iou_rotated():
    plain = tede.tensor([[2., 2, 6, 2, 0], [3, 2, 6, 2, 0], [2, 2, 2, 6, 90], [2, 2, 6, 2, 180], [2, 2, 6, 2, 45], [9, 9, 1, 1, 0], [2, 2, 0, 2, 0]])
    found = vision.box_iou_rotated(plain, plain[:1])[:, 0]
    crossed = 4 * math.sqrt(2)          # a rhombus: 2 * 2 / sin(45 degrees)
    tede.testing.assert_close(found, tede.tensor([1, 10 / 14, 1, 1, crossed / (24 - crossed), 0, 0]))
    assert vision.box_iou_rotated(plain.double(), plain.double()).dtype == tede.float32         # as torchvision's
    far = plain.double() + tede.tensor([1e9, -1e9, 0, 0, 0], dtype=tede.float64)
    tede.testing.assert_close(vision.box_iou_rotated(far, far[:1])[:, 0], found)


def test_qroi_align_is_roi_align_of_what_integers_stand_for():
    x, rois = tede.randint(0, 255, (1, 3, 7, 9), dtype=tede.uint8), tede.tensor([[3, 4, 6, 20, 18], [3, 3, 5, 13, 30]], dtype=tede.uint8)
    plain = vision.roi_align((x.double() - 10) * .1, (rois.double() - 3) * .5, .5, 3, 2, 2, True)
    found = vision.qroi_align(x, rois, .1, 10, .5, 3, .5, 3, 2, 2, True)
    assert found.dtype == tede.uint8 and ((found.double() - 10) * .1 - plain).abs().max() <= .05 + 1e-5


# ---- dtypes, layouts, transforms -------------------------------------------------------------------------------------

def calls():
    """Of each operator: its function of tensors, and the tensors."""
    x, rois = tede.randn(2, 12, 7, 9), boxes(5, tede.float32)
    deform, numbers = operands(CASES[0], tede.float32)
    yield "roi_align", lambda *a: vision.roi_align(*a, .5, 3, 2, 2, True), (x, rois)
    yield "ps_roi_align", lambda *a: vision.ps_roi_align(*a, .5, 3, 2, 2), (x, rois)
    yield "roi_pool", lambda *a: vision.roi_pool(*a, .5, 3, 2), (x, rois)
    yield "ps_roi_pool", lambda *a: vision.ps_roi_pool(*a, .5, 3, 2), (x, rois)
    yield "deform_conv2d", lambda *a: vision.deform_conv2d(*a, *numbers), deform


NAMES = ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d"]


@pytest.fixture(params=NAMES)
def call(request):
    return next((run, tensors) for name, run, tensors in calls() if name == request.param)


def both(out):
    return out if isinstance(out, tuple) else (out,)


def test_halves_are_computed_in_float32_and_rounded_once(call):
    run, tensors = call
    for dtype in tede.float16, tede.bfloat16:
        rounded = [x.to(dtype) for x in tensors]
        for out, exact in zip(both(run(*rounded)), both(run(*(x.float() for x in rounded))), strict=True):
            assert out.dtype == (dtype if exact.dtype == tede.float32 else exact.dtype)
            tede.testing.assert_close(out, exact.to(out.dtype))


def test_operands_may_be_strided(call):
    run, tensors = call
    strided = [tede.stack([x, x], -1)[..., 1] for x in tensors]
    reversed_ = [x.permute(*range(x.ndim)[::-1]).contiguous().permute(*range(x.ndim)[::-1]) for x in tensors]
    for out, also, exact in zip(both(run(*strided)), both(run(*reversed_)), both(run(*tensors)), strict=True):
        assert tede.equal(out, exact) and tede.equal(also, exact)


def test_meta_tensors_have_the_shapes(call):
    run, tensors = call
    for out, exact in zip(both(run(*(x.to("meta") for x in tensors))), both(run(*tensors)), strict=True):
        assert out.device.type == "meta" and out.shape == exact.shape and out.dtype == exact.dtype
    from tede._subclasses import FakeTensorMode
    with FakeTensorMode() as mode:
        fake = both(run(*map(mode.from_tensor, tensors)))[0]
    assert fake.shape == both(run(*tensors))[0].shape and fake.device.type == "cpu"


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_calls_them_once_per_member(call):
    run, tensors = call
    members = [tede.stack([x, x + 1 if i != 1 else x]) for i, x in enumerate(tensors)]
    together = both(tede.vmap(run)(*members))
    for k in range(2):
        for out, alone in zip(together, both(run(*(x[k] for x in members))), strict=True):
            assert tede.equal(out[k], alone)


def test_gradients(call):
    run, tensors = call
    # Away from places where a sample passes an element, a bin's edge or another maximum.
    tensors = [x.double().requires_grad_(i != 1 or len(tensors) > 2) for i, x in enumerate(tensors)]
    if len(tensors) > 2:
        tensors = [x[:1, :, :3, :3] if i in (0, 2, 3) else x for i, x in enumerate(tensors)]
        with tede.no_grad():
            tensors = [x.clone().requires_grad_() for x in tensors]
        tensors[2], tensors[3] = tensors[2][..., :1, :2], tensors[3][..., :1, :2]
    assert tede.autograd.gradcheck(lambda *a: both(run(*a))[0], tensors, fast_mode=True)
    out = both(run(*tensors))[0]
    first, = tede.autograd.grad(out.square().sum(), tensors[0], create_graph=True)
    with pytest.raises(RuntimeError, match="double backwards on .* not supported"):
        first.sum().backward()


def test_boxes_have_no_gradient():
    x, rois = tede.randn(1, 2, 5, 5, requires_grad=True), boxes(3, tede.float32, images=1).requires_grad_()
    vision.roi_align(x, rois, 1., 2, 2, 2, True).sum().backward()
    assert x.grad is not None and rois.grad is None
    assert vision.nms(rois[:, 1:], tede.rand(3), .5).requires_grad is False


# ---- what isn't right ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("image", [-1, 2, 2**40, math.inf, -math.inf, math.nan])
def test_a_box_of_an_image_that_isnt_there(image):
    x, rois = tede.randn(2, 12, 7, 9), boxes(3, tede.float32)
    rois[1, 0] = image
    for run in (lambda: vision.roi_align(x, rois, 1., 3, 2, 2, True), lambda: vision.roi_pool(x, rois, 1., 3, 2),
                lambda: vision.ps_roi_align(x, rois, 1., 3, 2, 2), lambda: vision.ps_roi_pool(x, rois, 1., 3, 2),
                lambda: vision._roi_align_backward(tede.ones(3, 12, 3, 2), rois, 1., 3, 2, 2, 12, 7, 9, 2, True)):
        with pytest.raises(IndexError, match=r"rois\[1\] is a box of image"):
            run()


STRANGE = [math.nan, math.inf, -math.inf, 3e38, -3e38, 1e9, -1e9, -.0]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_boxes_of_any_numbers_read_nothing_outside(place):
    x, rois = tede.randn(2, 12, 7, 9), boxes(len(STRANGE), tede.float32)
    rois[:, place] = tede.tensor(STRANGE)
    rois = tede.cat([rois, rois[:2]])
    rois[-2:, 1:] = tede.tensor([[-math.inf, -math.inf, math.inf, math.inf], [-3e38, -3e38, 3e38, 3e38]])
    for dtype in tede.float32, tede.float64, tede.float16:
        y, at = x.to(dtype), rois.to(dtype)
        for ratio in 0, 2:
            out = vision.roi_align(y, at, 1., 3, 2, ratio, True)
            vision._roi_align_backward(out, at, 1., 3, 2, 2, 12, 7, 9, ratio, True)
            out, channels = vision.ps_roi_align(y, at, 1., 3, 2, ratio)
            vision._ps_roi_align_backward(out, at, channels, 1., 3, 2, ratio, 2, 12, 7, 9)
        out, places = vision.roi_pool(y, at, 1., 3, 2)
        assert places.max() < 63
        vision._roi_pool_backward(out, at, places * 2**20, 1., 3, 2, 2, 12, 7, 9)
        out, channels = vision.ps_roi_pool(y, at, 1., 3, 2)
        vision._ps_roi_pool_backward(out, at, channels + 2**20, 1., 3, 2, 2, 12, 7, 9)
        vision.box_iou_rotated(at * 1e30, at)
        assert len(vision.nms(at[:, 1:], at[:, 1], .5)) <= len(at)


def test_offsets_of_any_numbers_read_nothing_outside():
    tensors, numbers = operands(CASES[2], tede.float32)
    tensors[2].flatten()[:len(STRANGE)] = tede.tensor(STRANGE)
    tensors[2][-1].flatten()[-9:] = tede.arange(-4., 5) * 2**31
    out = vision.deform_conv2d(*tensors, *numbers)
    assert all(g.shape == x.shape for g, x in zip(vision._deform_conv2d_backward(out, *tensors, *numbers), tensors, strict=True))


def test_nothing():
    x = tede.randn(2, 12, 7, 9)
    none = tede.zeros(0, 5)
    assert vision.roi_align(x, none, 1., 3, 2, 2, True).shape == (0, 12, 3, 2)
    assert vision.ps_roi_pool(x, none, 1., 3, 2)[0].shape == (0, 2, 3, 2)
    assert vision._roi_pool_backward(tede.zeros(0, 12, 3, 2), none, tede.zeros(0, 12, 3, 2, dtype=tede.int32), 1., 3, 2, 2, 12, 7, 9).abs().sum() == 0
    assert vision.nms(tede.zeros(0, 4), tede.zeros(0), .5).tolist() == []
    assert vision.box_iou_rotated(none, none).shape == (0, 0)
    for sizes in (2, 12, 0, 9), (2, 12, 7, 0):        # torchvision reads before these planes
        empty, rois = tede.zeros(sizes), boxes(3, tede.float32)
        for out in (vision.roi_align(empty, rois, 1., 3, 2, 2, True), vision.roi_pool(empty, rois, 1., 3, 2)[0],
                    vision.ps_roi_align(empty, rois, 1., 3, 2, 2)[0], vision.ps_roi_pool(empty, rois, 1., 3, 2)[0]):
            assert not out.any()
        assert vision._roi_align_backward(tede.ones(3, 12, 3, 2), rois, 1., 3, 2, *sizes, 2, True).shape == sizes
    with pytest.raises(IndexError):
        vision.roi_align(x[:0], boxes(1, tede.float32), 1., 3, 2, 2, True)


X, ROIS = tede.zeros(2, 12, 7, 9), tede.zeros(3, 5)
WRONG = [
    (lambda: vision.roi_align(X[0], ROIS, 1., 3, 2, 2, True), "4 dimensions|has 3"),
    (lambda: vision.roi_align(X, ROIS[0], 1., 3, 2, 2, True), r"Tensor\[K, 5\]"),
    (lambda: vision.roi_align(X, ROIS[:, :4], 1., 3, 2, 2, True), r"Tensor\[K, 5\]"),
    (lambda: vision.roi_align(X, ROIS.double(), 1., 3, 2, 2, True), "same type"),
    (lambda: vision.roi_align(X.long(), ROIS.long(), 1., 3, 2, 2, True), "not implemented for 'Long'"),
    (lambda: vision.roi_align(X.to(tede.complex64), ROIS.to(tede.complex64), 1., 3, 2, 2, True), "not implemented for 'ComplexFloat'"),
    (lambda: vision.roi_align(X, ROIS, 1., 0, 2, 2, True), "must be positive, not 0 and 2"),
    (lambda: vision.roi_align(X, ROIS, 1., 3, 2, 2**31, True), "sampling_ratio must be at most"),
    (lambda: vision.ps_roi_align(X, ROIS, 1., 5, 2, 2), "multiple of pooling height"),
    (lambda: vision._roi_align_backward(tede.ones(3, 12, 3, 3), ROIS, 1., 3, 2, 2, 12, 7, 9, 2, True), "size"),
    (lambda: vision._roi_pool_backward(tede.ones(3, 12, 3, 2), ROIS, tede.zeros(1, dtype=tede.int32), 1., 3, 2, 2, 12, 7, 9), "grad's shape"),
    (lambda: vision.nms(tede.zeros(3, 4, 1), tede.zeros(3), .5), "boxes should be a 2d tensor, got 3D"),
    (lambda: vision.nms(tede.zeros(3, 5), tede.zeros(3), .5), "boxes should have 4 elements in dimension 1, got 5"),
    (lambda: vision.nms(tede.zeros(3, 4), tede.zeros(3, 1), .5), "scores should be a 1d tensor, got 2D"),
    (lambda: vision.nms(tede.zeros(3, 4), tede.zeros(4), .5), "same number of elements in dimension 0, got 3 and 4"),
    (lambda: vision.nms(tede.zeros(3, 4), tede.zeros(3).double(), .5), "same type"),
    (lambda: vision.nms(tede.zeros(3, 4, device="meta"), tede.zeros(3, device="meta"), .5), "meta|Meta"),
    (lambda: vision.box_iou_rotated(tede.zeros(3, 4), tede.zeros(3, 5)), "size"),
    (lambda: vision.box_iou_rotated(tede.zeros(5), tede.zeros(3, 5)), "dim|size"),
    (lambda: vision.qroi_align(X, ROIS, 1., 0, 1., 0, 1., 3, 2, 2, True), "not implemented for 'Float'"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments_say_what_is_wrong(case):
    run, words = WRONG[case]
    with pytest.raises(WORDS, match=words):
        run()


@pytest.mark.parametrize("at, value, words", [
    (0, tede.zeros(4, 5, 6), "input must have 4 dimensions"), (1, tede.zeros(4, 3, 3, 2), "4 input channels"), (1, tede.zeros(4, 4, 0, 2), "weight_h: 0"),
    (2, tede.zeros(2, 12, 3, 6), "offset output dims"), (2, tede.zeros(1, 12, 3, 5), "invalid batch size of offset"), (2, tede.zeros(2, 6, 3, 5), "offset.shape"),
    (3, tede.zeros(2, 1), "mask must have 4 dimensions"), (3, tede.zeros(2, 12, 3, 5), "mask.shape"), (4, tede.zeros(3), "size"),
    (4, tede.zeros(4).double(), "same type"), (5, 0, "stride_h: 0"), (7, -1, "pad_h: -1"), (9, 0, "dil_h: 0"), (11, 0, "0 groups"), (12, 3, "3 groups of offsets")])
def test_wrong_arguments_of_deform_conv2d(at, value, words):
    tensors, numbers = operands(CASES[0], tede.float32)
    arguments = [*tensors, *numbers]
    arguments[at] = value
    with pytest.raises(RuntimeError, match=words):
        vision.deform_conv2d(*arguments)


@pytest.mark.parametrize("huge", [-2**63, -1, 0, 2**31, 2**32, 2**62, 2**63 - 1])
def test_huge_integers_are_refused_or_change_nothing(huge):
    grad, mapping = tede.ones(3, 12, 3, 2), tede.zeros(3, 2, 3, 2, dtype=tede.int32)
    tensors, numbers = operands(CASES[0], tede.float32)
    calls = [(vision.roi_align, (X, ROIS, 1., 3, 2, 2, True)), (vision.ps_roi_align, (X, ROIS, 1., 3, 2, 2)), (vision.roi_pool, (X, ROIS, 1., 3, 2)),
             (vision._roi_align_backward, (grad, ROIS, 1., 3, 2, 2, 12, 7, 9, 2, True)),
             (vision._ps_roi_pool_backward, (mapping.float(), ROIS, mapping, 1., 3, 2, 2, 12, 7, 9)),
             (vision.deform_conv2d, (*tensors, *numbers)), (vision._deform_conv2d_backward, (tede.ones(2, 4, 3, 5), *tensors, *numbers))]
    for run, arguments in calls:
        for i, argument in enumerate(arguments):
            if type(argument) is int:
                try:
                    out = run(*arguments[:i], huge, *arguments[i + 1:])
                except WORDS:
                    continue
                assert huge <= 0 and both(out)[0].numel() < 10**4, (run, i)         # sampling_ratio, padding of 0


def test_a_library_of_torchvisions_needs_not_be_loaded(tmp_path):
    """What is linked with PyTorch's library can't be; its operators are here, or the error says which aren't."""
    def library(*schemas):
        path = tmp_path / "_C.so"
        path.write_bytes(b"\x7fELF\0\0libc10.so\0" + b"".join(schema.encode() + b"\0" for schema in schemas))
        return str(path)
    tede.ops.load_library(library("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"))
    with pytest.raises(OSError, match="tede has no sort_boxes.*docs/extending.md"):
        tede.ops.load_library(library("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", "sort_boxes(Tensor x) -> Tensor"))
    with pytest.raises(OSError, match="can't be seen"):
        tede.ops.load_library(library())
    with pytest.raises(AttributeError):
        vision.sort_boxes
