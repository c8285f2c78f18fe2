"""pick.ck beside the CPU's kernels: gather, scatter, the index_ family, advanced indexing, masks."""
import pytest

tede = pytest.importorskip("tede")

DTYPES = [tede.float32, tede.float64, tede.float16, tede.bfloat16, tede.int8, tede.uint8, tede.int16, tede.int32, tede.int64, tede.bool]


def filled(shape, dtype=tede.float32, low=-5, high=6):
    return tede.randint(low, high, shape).to(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, tede.complex64, tede.complex128])
def test_elements_of_any_size_are_moved(agrees, dtype):
    x = filled((6, 5), dtype)
    i = tede.tensor([[3, 0, 5, 5, 1], [0, 0, 2, 4, 1]])
    agrees(lambda x, i: [x.gather(0, i), x.gather(1, i[1:, 1:2].expand(4, 3)), x.index_select(0, i[0]), x[i[0]], x[:, i[1]], x.take(i)], x, i)
    apart = tede.tensor([[3, 0, 5, 4, 1], [2, 3, 0, 1, 4]])
    agrees(lambda x, i: [x.scatter(0, i, x[:2]), x.index_copy(0, i[0, :3], x[3:]), x.scatter(1, i.t()[:2, :1], True)], x, apart)


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.float16, tede.int64, tede.uint8, tede.bool])
def test_what_meets_at_an_element_is_joined(agrees, dtype):
    x, src, i = filled((6, 5), dtype), filled((40, 5), dtype), tede.randint(0, 6, (40, 5))
    agrees(lambda x, s, i: [x.scatter_add(0, i, s), x.index_add(0, i[:, 0], s), x.index_put((i[:, 0],), s, accumulate=True)], x, src, i)
    agrees(lambda x, s, i: [x.scatter_reduce(0, i, s, r, include_self=own) for r in ("amax", "amin", "sum") for own in (True, False)], x, src, i)
    few = filled((7, 5), dtype, 1, 3)
    agrees(lambda x, s, i: [x.scatter_reduce(0, i[:7], s, "prod"), x.index_reduce(0, i[:7, 0], s, "prod", include_self=False)], x, few, i)
    if dtype != tede.bool:
        agrees(lambda x, s, i: [x.scatter_reduce(0, i, s, "mean"), x.index_reduce(0, i[:, 0], s, "amin"), x.put(i[:, 0] % 3, s[:, 0], accumulate=True)],
               x, src, i)


@pytest.mark.parametrize("dtype", [tede.complex64, tede.complex128])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_complex_products_meet_at_an_element(agrees, device, dtype):
    x, s, i = tede.randn(6, 5, dtype=dtype), tede.randn(40, 5, dtype=dtype), tede.randint(0, 5, (40, 5))
    for how in ("prod", "mean"):
        for own in (True, False):
            agrees(lambda x, s, i: [x.scatter_reduce(0, i, s, how, include_self=own), x.index_reduce(0, i[:, 0], s, how, include_self=own)], x, s, i)
    agrees(lambda x, s, i: x.t().index_reduce(1, i[:, 0], s.t(), "prod"), x, s, i)
    y = x.detach().to(device)
    y.index_reduce_(0, tede.tensor([1, 6], device=device), x[:2].to(device), "prod")
    with pytest.raises(IndexError, match="out of"):
        y.cpu()
    assert tede.equal(y.cpu()[2:], x.detach()[2:]) and y.cpu()[1] not in x


def test_gradients(agrees):
    x, i, m = tede.randn(6, 5, requires_grad=True), tede.randint(0, 6, (9,)), tede.rand(6, 5) > 0.5
    agrees(lambda x, i: [x[i], x.index_select(0, i), x.gather(0, i[:, None].expand(9, 5)), x.take(i)], x, i)
    agrees(lambda x, m: [x[m], x.masked_select(m), tede.zeros(6, 5, device=x.device).masked_scatter(m, x), x.masked_fill(m, 2.0)], x, m)
    src = tede.randn(9, 5, requires_grad=True)
    agrees(lambda x, s, i: [x.index_add(0, i, s, alpha=2), x.scatter_add(0, i[:, None].expand(9, 5), s),
                            x.scatter_reduce(0, i[:, None].expand(9, 5), s, "amax"), x.index_put((i,), s, accumulate=True)], x, src, i)


@pytest.mark.parametrize("n", [0, 1, 3, 1000, 70000])
def test_masks(agrees, n):
    m = tede.rand(n) > 0.7
    agrees(lambda m: [m.nonzero(), tede.nonzero_static(m, size=50), *m.nonzero(as_tuple=True), m.masked_select(m)], m)
    agrees(lambda m: [m.reshape(1, -1).nonzero(), m[:n // 6 * 6].reshape(2, -1, 3).transpose(0, 2).nonzero()], m)
    agrees(lambda m: m.clone().index_put_((m,), tede.zeros((), dtype=tede.bool, device=m.device)), m)


def test_shapes_and_strides(agrees):
    x, i, j = tede.randn(4, 5, 6), tede.tensor([[1, -1], [0, 2]]), tede.tensor([3, 0])
    agrees(lambda x, i, j: [x[i], x[:, i], x[:, i[1], j], x[i[1], :, j], x[..., i], x.permute(2, 0, 1)[i], x[None, i], x[i[1], j, i], x.expand(2, 4, 5, 6)[:, i]],
           x, i, j)
    y = tede.randn(5, 6)
    agrees(lambda y, i: [y.flip(0).gather(1, i), y.t().gather(0, i), y[:, ::2].index_select(1, i[1]), y.expand(3, 5, 6).index_select(2, i[1]),
                         y[0, 0].gather(0, i[1, 0]), y.t().take(i)], y, tede.tensor([[1, 2], [0, 2]]))
    agrees(lambda x, none: [x.index_select(1, none), x[none]], x, tede.tensor([], dtype=tede.int64))
    agrees(lambda x, i: [x.scatter(1, i, 7.5), x.index_fill(2, i[0, 0], 3.0), x.index_fill(2, i[0, 0] - 1, tede.tensor(3.0))], x, tede.tensor([[[2]]]))


def test_writing_in_place(agrees):
    def write(x, i):
        y = x.clone()
        y[i] = 1.5
        y[:, 2] = y[:, 0]
        y[y > 1] = -1
        y[i, i] += 2
        y.t().index_add_(0, i, x.t()[:3])
        empty = [tede.empty(0, device=x.device) for _ in range(2)]
        return y, tede.gather(x, 0, i[:, None], out=empty[0]), tede.index_select(x, 1, i, out=empty[1])
    agrees(write, tede.randn(5, 5), tede.tensor([4, 0, 2]))


def test_indices_on_the_cpu_are_taken_by_advanced_indexing_alone(device):
    x = tede.randn(4, 4)
    y = x.to(device)
    i = tede.tensor([3, 1])
    tede.testing.assert_close(y[i].cpu(), x[i])
    tede.testing.assert_close(y[[0, 1], [2, 3]].cpu(), x[[0, 1], [2, 3]])
    tede.testing.assert_close(y[x[:, 0] > 0].cpu(), x[x[:, 0] > 0])
    for call in (lambda: y.index_select(0, i), lambda: y.gather(0, i[:, None]), lambda: y.scatter_add(0, i[:, None], y), lambda: y.take(i)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            call()


def late(kind, words, call, wait):
    """The call raises nothing; what waits next raises it, once."""
    result = call()
    with pytest.raises(kind, match=words):
        wait()
    wait()
    return result


def test_an_index_out_of_bounds_is_raised_by_what_waits_next(device):
    x, i = tede.ones(4, 4, device=device), tede.tensor([1, 4], device=device)

    def sync():
        return tede.accelerator.synchronize(device)
    said = rf" \(in %s, which {device}:0 ran before this call\)"
    y = late(IndexError, "index 4 is out of bounds for dimension 0 with size 4" + said % "index", lambda: x[i], x.tolist)
    assert y.tolist() == [[1] * 4, [0] * 4]                         # zeros where nothing is
    assert late(IndexError, "index 4 is out of bounds for dimension 1 with size 4", lambda: x[i - 1, i], sync).tolist() == [1, 0]
    assert late(IndexError, "index -5 is out of bounds", lambda: x[-i - 1, 0], sync).tolist() == [1, 0]
    late(IndexError, "index out of range in self" + said % "index_select", lambda: x.index_select(0, i), sync)
    late(RuntimeError, "index 4 is out of bounds for dimension 1 with size 4" + said % "gather", lambda: x.gather(1, i[:, None]), sync)
    assert late(IndexError, "out of range: tried to access index 16 on a tensor of 16 elements\\." + said % "take", lambda: x.take(i * 4), sync).tolist() == [1, 0]
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[tede.ones(3, dtype=tede.bool, device=device)]
    assert x.eq(1).all()


def test_what_an_index_out_of_bounds_stands_for_is_not_written(device):
    x, i = tede.zeros(4, 4, device=device), tede.tensor([1, 4], device=device)

    def put():
        x[i] = 1
    calls = [put, lambda: x.scatter_(0, i[:, None], 1.0), lambda: x.scatter_add_(0, i[:, None].expand(2, 4), x + 1), lambda: x.index_add_(0, i, x[:2] + 1),
             lambda: x.index_copy_(0, i, x[:2] + 1), lambda: x.index_fill_(0, i, 1), lambda: x.put_(i * 4, x[0, :2] + 1),
             lambda: x.index_put_((i, i - 1), x[0, 0] + 1, accumulate=True), lambda: x.half().scatter_add_(0, i[:, None], x[:2, :1].half() + 1)]
    for call in calls:
        x.zero_()
        late((IndexError, RuntimeError), "index", call, x.cpu)
        assert x[[0, 2, 3]].eq(0).all()


def test_what_is_empty_is_checked_at_the_call(device):
    i = tede.tensor([0], device=device)
    for call in (lambda: tede.ones(0, 3, device=device)[i], lambda: tede.ones(0, device=device).gather(0, i), lambda: tede.ones(0, device=device).take(i),
                 lambda: tede.ones(0, 3, device=device).index_select(0, i), lambda: tede.ones(0, device=device).scatter_(0, i, 1.0)):
        with pytest.raises((IndexError, RuntimeError)):
            call()


def test_only_the_first_error_is_raised_and_by_its_stream(device):
    x, i = tede.ones(4, device=device), tede.tensor([9], device=device)
    x[i], x[i + 1]
    with pytest.raises(IndexError, match="index 9 "):
        tede.accelerator.synchronize(device)
    tede.accelerator.synchronize(device)
    stream = tede.Stream(device)
    with stream:
        x[i + 2]
    tede.accelerator.current_stream(device).synchronize()           # this one has met nothing
    with pytest.raises(IndexError, match="index 11 "):
        stream.synchronize()
    stream.synchronize()
    tede.accelerator.synchronize(device)


def test_events_raise_what_came_before_them(device):
    x, i = tede.ones(4, device=device), tede.tensor([9], device=device)
    before, behind = tede.Event(device), tede.Event(device)
    before.record()
    x[i]
    behind.record()
    before.synchronize()
    with pytest.raises(IndexError, match="index 9 "):
        behind.synchronize()
    behind.synchronize()
    x[i + 1]
    behind.record()
    with pytest.raises(IndexError, match="index 10 "):
        x.cpu()
    behind.synchronize()                                            # it was raised


def test_a_sorter_that_leads_outside(device):
    x, i = tede.arange(4.0, device=device), tede.tensor([0, 1, 9, 3], device=device)
    late(RuntimeError, "sorter index out of range", lambda: tede.searchsorted(x, x, sorter=i), x.cpu)


def test_places_of_any_alignment(agrees):
    """Offsets of indices are counted in units that divide all of them: rows of 16, 8, 4 and 2 bytes, reversed, expanded."""
    x, i, j = tede.randn(50, 256), tede.randint(-50, 50, (30,)), tede.randint(0, 256, (30,))
    for pick in (lambda x, i, j: x[i], lambda x, i, j: x[i, j], lambda x, i, j: x[:, j], lambda x, i, j: x.half()[i, 1:], lambda x, i, j: x.t()[j],
                 lambda x, i, j: x[:1].expand(50, 256)[i], lambda x, i, j: x.flip(0)[i], lambda x, i, j: x[1:, 1:255][i % 49],
                 lambda x, i, j: x.index_put((i, j), x[:30, 0], accumulate=True), lambda x, i, j: x.index_put((tede.arange(30, device=x.device),), x[-30:])):
        agrees(pick, x, i, j)
