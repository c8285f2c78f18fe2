"""tede.compile: what is computed late is what is computed at once, to the bit, and everything that a program can observe is as without."""
import threading
import warnings

import pytest
import tede
from tede import _C, nn
import tede.nn.functional as F


@pytest.fixture(params=[(0, 0), (2048, 0)], ids=["slabs", "small slabs"])
def slabs(request):
    _C._region_set_slab(*request.param)
    yield
    _C._region_set_slab(0, 0)


def rand(*sizes, **options):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes)), **options) * 2 - 1


def norm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    return d / ((d * d).mean(-1, keepdim=True) + 1e-5).sqrt() * w + b


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def views(x):
    y = x * 2
    z = y[3:, 1].exp()
    y.add_(1)
    y[0] = 5
    return (z + y.t()[1, 3:]), y, y.sum(0), (x + 1)[:, None].expand(-1, 2, -1).contiguous()


def in_place(x):
    y = x + 1
    z = y.view(-1)
    y.mul_(3)
    w = z * 2
    z.zero_()
    return y, w, z


def shifted(x):
    y = x.sin()
    y[1:] += 1
    z = y[1:] * y[:-1]
    y[:-1].copy_(z)
    return y, z


def without_keepdim(x):
    s = (x * x).sum(-1)
    return x / s[:, None], s.sqrt(), x - s.unsqueeze(1) * 2


def several_dims(x):
    x = x.view(4, -1, 10, 5)
    m = x.mean((2, 3), keepdim=True)
    return (x - m) * x.std((2, 3), keepdim=True), (x * 2).cumsum(-1).log_softmax(1)


def columns(x):
    m = x.mean(0)
    return (x - m) / (x.std(0) + 1), (x + 1).amax(0) * 2


def dtypes(x):
    h = x.half()
    i = (x * 100).int()
    return h * 2 + 1, (i + 3) // 2, i.float() * x, (x > 0) & (i < 5), tede.where(x > 0, x, -1.), x.double() * x, x.bfloat16().exp()


def layers(x):
    return F.layer_norm(F.gelu(x * 2), (x.shape[-1],)) * 3, F.softmax(x + 1, -1).log(), F.rms_norm(x - 1, (x.shape[-1],))


def branch(x):
    y = x * 2
    return y + 1 if (y.sum() > 0).item() else y - 1


def transposed(x):
    return (x.t() * 2 + x.t().exp()).relu(), x.t().contiguous() + 1


def side_by_side(x):
    a, b = x[:, ::2] * 2, x[:, 1::2] + 1
    y = tede.cat((a - b, a + b, x.exp()), -1) * 2
    z = tede.stack((a, b), 1).relu() + 1
    return y, z, tede.cat((y.half(), z[:, 0]), 1).exp(), tede.cat((a, b + 1)) * 3, tede.cat([x + 1] * 20, 1) - 1


def empty_parts(x):
    y = x * 2
    return F.pixel_shuffle(y[None, :0, :0, None], 1), y[:0].clone(), y[:, :0].half(), y[:0].t().contiguous() + 1, y + 1


def along_rows(x):
    y = x + 1
    c = tede.complex(y, x)
    return (y.flip(-1) * 2, F.rms_norm(y, (x.shape[-1],)) * 2, tede.fft.irfft(c, n=2 * x.shape[-1], dim=-1) + 1, tede.fft.fft(c, dim=-1).abs() * 2,
            y.topk(1, -1)[0] + 1, y.sort(-1)[0] * 2, y.cummax(-1)[0] + 1, tede.cat((y, tede.empty(0), x * 2), -1) * 3)


def dead(x):
    for _ in range(3):
        y = x.exp() * 2     # noqa: F841
    return x + 1


PROGRAMS = [softmax, views, in_place, shifted, without_keepdim, several_dims, columns, dtypes, layers, branch, transposed, side_by_side, empty_parts, along_rows,
            dead]


def same(a, b):
    a, b = [x if isinstance(x, tuple) else (x,) for x in (a, b)]
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.stride() == y.stride()
        assert tede.equal(x.isnan(), y.isnan()) and tede.equal(x.nan_to_num(), y.nan_to_num())


@pytest.mark.parametrize("shape", [(300, 100), (7, 50), (1, 20000), (2000, 10)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_results_are_those_without(program, shape, slabs):
    if program is several_dims and shape[0] * shape[1] % 200:
        pytest.skip("the shape doesn't fit")
    x = rand(*shape)
    same(tede.compile(program)(x), program(x))


@pytest.mark.parametrize("threads", [1, 2])
def test_with_threads(threads):
    before = tede.get_num_threads()
    tede.set_num_threads(threads)
    try:
        x, w = rand(1000, 300), rand(300)
        same(tede.compile(norm)(x, w, w), norm(x, w, w))
    finally:
        tede.set_num_threads(before)


def test_calls_are_joined_and_dead_ones_dropped():
    x, w = rand(500, 200), rand(200)
    before = tede.compiler.stats()
    tede.compile(norm)(x, w, w)
    tede.compile(dead)(x)
    of = "regions", "recorded_calls", "dropped_calls", "fused_calls", "early_flushes"
    now = {key: value - before[key] for key, value in tede.compiler.stats().items() if key in of}
    assert now == {"regions": 2, "recorded_calls": 9 + 7, "dropped_calls": 6, "fused_calls": 9, "early_flushes": 0}


ALONG_ROWS = {
    "dims of the pattern": lambda x: F.softmax(x, -1), "several dims": lambda x: x.sum((-1, -2)), "dims by another name": lambda x: x.flip(-1),
    "dims of a list of tensors": lambda x: tede.cat((x, x), -1), "a shape": lambda x: F.layer_norm(x, x.shape[1:]),
    "a shape and two results": lambda x: F.rms_norm(x, x.shape[-1:]),
}


@pytest.mark.parametrize("call", ALONG_ROWS)
def test_what_an_entry_says_of_rows_joins_calls(call):
    x = rand(50, 20, 100)

    def fused(f):
        before = tede.compiler.stats()["fused_calls"]
        tede.compile(f)(x)
        return tede.compiler.stats()["fused_calls"] - before
    assert fused(lambda x: ALONG_ROWS[call](x + 1)) >= 2
    assert fused(lambda x: (x + 1).cumsum(0)) == 0


JOINS = {
    "the last dimension": lambda x: tede.cat((x + 1, x * 2), -1).exp(), "the first": lambda x: tede.cat((x + 1, x[:1], x * 2)) * 2,
    "several dtypes": lambda x: tede.cat((x > 0, x * 2, (x * 9).to(tede.int16), x.double()), 1) + 1,
    "old empty ones": lambda x: tede.cat((tede.empty(0), x + 1, tede.empty(0, dtype=tede.float64), x[:0])),
    "many": lambda x: tede.cat([x + i for i in range(20)], 2), "nothing": lambda x: tede.cat((x[:0], x[:0] + 1), 1),
    "channels last": lambda x: tede.cat([(x.view(5, 10, 20, 100) * i).to(memory_format=tede.channels_last) for i in (1, 2)], 1).relu(),
    "what is written afterwards": lambda x: (lambda y: (tede.cat((y, x + 1), 1), y.add_(1)))(x * 2),
    "joined ones, written in part": lambda x: (lambda y: (y[:, 5:30].mul_(2), y, y + 1))(tede.cat((x * 2, x + 1), 1)),
    "itself, in turn": lambda x: tede.cat((tede.cat((x + 1, x), 1), tede.cat((x * 2, x), 1)), 0).sum(0),
}


@pytest.mark.parametrize("joins", JOINS)
def test_what_is_joined(joins, slabs):
    x = rand(50, 20, 100)
    wanted, result = JOINS[joins](x), tede.compile(JOINS[joins])(x)
    same(result, wanted)
    if tede.is_tensor(wanted):
        assert result.stride() == wanted.stride() and result.dtype == wanted.dtype


def test_what_is_computed_is_joined_in_the_same_pass():
    x = rand(4, 8, 512, 64)
    before = tede.compiler.stats()["fused_calls"]
    tede.compile(lambda x: tede.cat((x[..., :32] * 2 - x[..., 32:], x[..., 32:] + x[..., :32] * 3), -1))(x)
    assert tede.compiler.stats()["fused_calls"] - before == 6


def test_a_warning_comes_where_the_call_is(slabs):
    """Rows are computed on threads that can't run the program's handler while it waits for them."""
    def f(x):
        with pytest.warns(UserWarning, match="degrees of freedom") as seen:
            y = (x + 1).var(-1)
        assert len(seen) == 1
        return y + 1
    x = rand(200, 300, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")      # no second one when it is computed
        assert tede.compile(f)(x).isnan().all()


def test_what_reads_nothing_late_leaves_the_others_late():
    x, w = rand(200, 200), rand(200, 200)

    def f(x):
        y = x + 1
        ordered = w.mode(-1)[0]         # at once: elements may be an error
        return y * 2, ordered
    before = tede.compiler.stats()["early_flushes"]
    same(tede.compile(f)(x), f(x))
    assert tede.compiler.stats()["early_flushes"] == before


def test_gradients(slabs):
    def step(x, w):
        loss = (norm(x, w, w).tanh() * x).mean() + F.cross_entropy(x, tede.zeros(len(x), dtype=tede.int64))
        return tede.autograd.grad(loss, (x, w), create_graph=True)
    x, w = rand(300, 100).requires_grad_(), rand(100).requires_grad_()
    same(tede.compile(step)(x, w), step(x, w))


def write_everywhere(p, m, row, x):
    """Writes to memory that was there before: whole, through views, broadcast, transposed, by out=, by copies of another dtype."""
    y = x + 1
    y.mul_(2)
    m.mul_(0.9).add_(y, alpha=0.1)
    p.addcdiv_(m, y.sqrt().add_(1e-8), value=-0.1)
    p[10:20].add_(5)
    m.t().mul_(2)
    z = p + m
    row.add_(1)
    q = z * row
    row.mul_(p[0])
    out = tede.empty_like(p)
    tede.add(q, x, out=out)
    wide = tede.ones(len(x), x.shape[1], dtype=tede.float64)
    wide.mul_(x)
    low = tede.zeros_like(x, dtype=tede.bfloat16)
    low.copy_(out).sub_(row)
    flat = tede.ones(x.numel() + 1)
    flat[1:].add_(x.reshape(-1))
    shifted = flat[1:] + flat[:-1]
    y[::2].copy_(tede.zeros(x.shape[1]))
    y.sub_(1)
    return y.pow(2), z, q, out, wide, low, shifted, flat, y.clone().mul_(3), y.t().contiguous(), (out.to(tede.int32) + 1).float()


def test_writes_to_memory_that_was_there(slabs):
    def run(wrap):
        p, m, row, x = tede.ones(200, 150), tede.zeros(200, 150), tede.ones(150), tede.arange(30000.).reshape(200, 150)
        return *wrap(write_everywhere)(p, m, row, x), *wrap(write_everywhere)(p, m, row, x * 0.5), p, m, row, tede.tensor([a._version for a in (p, m, row, x)])
    before = tede.compiler.stats()["recorded_calls"]
    late = run(tede.compile)
    assert tede.compiler.stats()["recorded_calls"] > before + 20
    same(late, run(lambda f: f))


def test_what_is_awaited_is_there_for_whoever_reads_it():
    p, array = rand(300, 100), None
    view, small = p[3], p[:2, 1]

    def f():
        nonlocal array
        seen = []
        p.mul_(2)
        seen.append(p[0, 0].item())
        p.add_(1)
        seen.append(view.tolist())
        p.add_(1)
        seen.append(small.sum().item() + float(small[0]))
        p.mul_(3)
        seen.append((small + small).tolist())
        p.sub_(1)
        seen.append(repr(p[:2, :2]))
        p.mul_(2)
        small.fill_(7)
        view.copy_(small.repeat(50))
        p.add_(1)
        seen.append(tede.stack([p[0, :2], p[1, :2]]).tolist())
        p.mul_(0.5)
        array = p.numpy()
        seen.append(array[4].tolist())
        p.add_(1)
        seen.append(array[4].tolist())
        return seen
    start = p.clone()
    late = tede.compile(f)()
    after = p.clone()
    p.copy_(start)
    assert late == f() and tede.equal(p, after)


OPTIMIZERS = {
    "SGD": lambda p: tede.optim.SGD(p, 0.1, momentum=0.9),
    "plain": lambda p: tede.optim.Adam(p, foreach=False),
    "foreach": lambda p: tede.optim.Adam(p, 0.01, foreach=True),
    "fused": lambda p: tede.optim.AdamW(p, fused=True),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_whole_step_is_one_region(make, slabs):
    def train(wrap):
        tede.manual_seed(3)
        model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 8))
        optimizer = make(model.parameters())
        x, y = rand(256, 64), tede.arange(256) % 8

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.)
            optimizer.step()
            return loss
        step = wrap(step)
        return [step().item() for _ in range(5)] + [p.detach().clone() for p in model.parameters()]
    late, now = train(tede.compile), train(lambda f: f)
    assert late[:5] == now[:5]
    same(tuple(late[5:]), tuple(now[5:]))


def test_errors_are_raised_at_the_call():
    seen = []

    def f(x):
        y = x * 2
        try:
            y @ tede.ones(3, 3)
        except RuntimeError as error:
            seen.append(str(error))
        y + tede.ones(7)
    with pytest.raises(RuntimeError, match="must match"):
        tede.compile(f)(rand(300, 100))
    assert len(seen) == 1 and "mat1 and mat2" in seen[0]
    assert tede.equal(tede.compile(softmax)(rand(300, 100)), softmax(rand(300, 100)))


def test_an_exception_leaves_tensors_as_eager_would():
    kept = rand(300, 100)

    def f(x):
        kept.add_(x.exp())
        x * 2
        raise KeyError("in the middle")
    want = kept + rand(300, 100).exp()
    with pytest.raises(KeyError):
        tede.compile(f)(rand(300, 100))
    assert tede.equal(kept, want)


def test_values_that_are_needed_early():
    def f(x):
        y = x * 2
        values = [y.sum().item(), float(y[0, 0]), y[1].tolist(), y.numpy()[2, 3], str(y[:2, :2]), y.data_ptr() != 0, bool((y > 5).any())]
        y += 1
        return values, y
    x = rand(300, 100)
    (a, y), (b, z) = tede.compile(f)(x), f(x)
    assert a == b and tede.equal(y, z)


def test_printing_needs_the_values():
    x = rand(300, 100)
    assert tede.compile(lambda x: repr(x * 2))(x) == repr(x * 2)
    assert tede.compile(lambda x: str((x * 2)[0, 0]))(x) == str((x * 2)[0, 0])


def test_memory_that_others_have_is_written_at_once():
    array = rand(300, 100).numpy()
    x = tede.from_numpy(array)

    def f(w):
        y = w * x
        array[:] = 0
        z = w + x
        x.add_(w)
        return y, z, tede.from_numpy(array.copy())
    w = rand(300, 100).exp()
    before = array.copy()
    late = tede.compile(f)(w)
    array[:] = before
    same(late, f(w))


def test_what_changes_about_a_tensor_comes_after_what_reads_it():
    def f(x, other):
        a = x * 2
        x.t_()
        b = x + 1
        x.data = other
        c = x.exp()
        x.resize_(10)
        e = other * 3
        d = e + tede.add(rand(3), 1, out=other).sum()
        other.untyped_storage().resize_(0)
        return a, b, c, d
    same(tede.compile(f)(rand(300, 100), rand(200, 200)), f(rand(300, 100), rand(200, 200)))


@pytest.mark.parametrize("early", [True, False])
def test_memory_that_numpy_sees_is_read_at_the_call(early):
    x = rand(300, 100)
    want = x * 2
    arrays = [x.numpy()] if early else []

    def f():
        y = x * 2
        array = arrays[0] if early else x.numpy()
        array[:] = 0
        return y
    assert tede.equal(tede.compile(f)(), want)


def test_modules_hooks_and_state():
    model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.BatchNorm1d(512))
    compiled = tede.compile(model)
    shapes = []
    model[1].register_forward_hook(lambda module, args, result: shapes.append(result.sum().item()))
    x = rand(64, 32)
    y = compiled(x)
    assert shapes and list(compiled.state_dict())[0] == "_orig_mod.0.weight" and compiled[0] is model[0]
    assert compiled._orig_mod is model and isinstance(compiled, nn.Module) and len(list(compiled.parameters())) == 4
    compiled.eval()
    assert not model.training and not model[2].training
    compiled.train()
    again = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.BatchNorm1d(512))
    again.load_state_dict({key: value for key, value in model.state_dict().items()})
    again[2].reset_running_stats()
    again.compile()
    assert tede.equal(again(x), y) and list(again.state_dict()) == list(model.state_dict())


def test_regions_nest_and_are_per_thread():
    x = rand(300, 100)
    inner = tede.compile(softmax)
    outer = tede.compile(lambda x: inner(x * 2) + 1)
    results = []

    def work():
        results.append(outer(x))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4 and all(tede.equal(r, softmax(x * 2) + 1) for r in results)


def test_random_numbers_are_eagers():
    def f(x):
        return F.dropout(x, 0.5) + tede.rand(300, 100), tede.randperm(5), (x * 2).normal_()
    x = rand(300, 100)
    tede.manual_seed(1)
    late = tede.compile(f)(x)
    tede.manual_seed(1)
    same(late, f(x))


def test_fullgraph_refuses_an_early_value():
    x = rand(300, 100)
    with pytest.raises(RuntimeError, match="fullgraph"):
        tede.compile(branch, fullgraph=True)(x)
    same(tede.compile(softmax, fullgraph=True)(x), softmax(x))


def test_transforms_and_modes():
    def f(x):
        return tede.vmap(lambda row: (row * 2).softmax(0) + row.sum())(x), tede.func.grad(lambda x: (x.exp() * x).sum())(x)
    x = rand(300, 100)
    same(tede.compile(f)(x), f(x))
    with tede.autocast("cpu"):
        same(tede.compile(lambda x: (x @ x.t()) * 2)(x), (x @ x.t()) * 2)
    with tede.inference_mode():
        same(tede.compile(softmax)(x), softmax(x))


def test_an_error_at_the_end_has_the_functions_own_as_context():
    def fails():
        _C._region_end()            # what the call is to end isn't there any more
        raise KeyError("own")
    with pytest.raises(RuntimeError, match="in no region") as raised:
        tede.compile(fails)()
    assert isinstance(raised.value.__context__, KeyError)


def test_convolutions_of_channels_last(slabs):
    x = rand(4, 8, 20, 20).contiguous(memory_format=tede.channels_last)
    w, b = rand(6, 8, 3, 3).requires_grad_(), rand(6).requires_grad_()

    def step(x):
        y = F.conv2d(x * 2, w, b, padding=1)
        return y, *tede.autograd.grad((y * y).sum(), (w, b))
    for got, wanted in zip(tede.compile(step)(x), step(x), strict=True):
        same(got, wanted)
        assert got.stride() == wanted.stride()


def late(f, *args):
    """The function's results in a region, and what its calls counted."""
    before = tede.compiler.stats()
    results = tede.compile(f, options={"tier": 1})(*args)
    return results, {name: n - before[name] for name, n in tede.compiler.stats().items()}


LOOK_UPS = {
    "index": lambda x, i: (x * 2)[i], "index of two": lambda x, i: (x * 2)[i, i.flip(0)], "behind a slice": lambda x, i: (x * 2)[3:, ::2][:, i % 60],
    "gather": lambda x, i: (x * 2).gather(1, i.expand(120, -1)), "gather of int32": lambda x, i: (x * 2).gather(0, i.to(tede.int32)[None]),
    "index_select": lambda x, i: (x * 2).index_select(1, i), "none": lambda x, i: (x * 2)[i[:0]], "transposed": lambda x, i: (x * 2).t()[i]}


@pytest.mark.parametrize("call", LOOK_UPS.values(), ids=LOOK_UPS)
def test_look_ups_are_late(call):
    x, i = rand(120, 120), tede.arange(50) * 7 % 119
    result, counts = late(lambda x, i: call(x, i) + 1, x, i)
    wanted = call(x, i) + 1
    same(result, wanted)
    assert result.stride() == wanted.stride() and counts["early_flushes"] == 0


def test_indices_are_read_at_the_call():
    x = rand(120, 120)

    def f(x, i):
        y = (x * 2)[i]
        i.zero_()                       # nothing late has it
        return y
    same(late(f, x, tede.arange(50))[0], (x * 2)[:50])

    def by_late(x):
        return (x * 2)[(x.flatten() * 100).to(tede.int64).abs() % 120]
    result, counts = late(by_late, x)
    same(result, by_late(x))
    assert counts["early_flushes"] == 1


@pytest.mark.parametrize("call, kind", [(lambda x, i: x[i + 120], IndexError), (lambda x, i: x.gather(1, i[:, None] + 120), RuntimeError),
                                        (lambda x, i: x.index_select(0, i + 120), IndexError), (lambda x, i: x[i, i, i], IndexError)])
def test_look_ups_are_refused_at_the_call(call, kind):
    def f(x, i):
        with pytest.raises(kind) as later:
            call(x * 2, i)
        return str(later.value)
    x, i = rand(120, 120), tede.arange(3)
    assert late(f, x, i)[0] == f(x, i)


def test_a_call_between_others_comes_behind_them(slabs):
    def cross_entropy(logits, target):
        shifted = logits - logits.amax(-1, keepdim=True)
        picked = shifted[tede.arange(len(target)), target]
        return shifted.exp().sum(-1).log() - picked
    x, target = rand(200, 300), tede.arange(200) * 7 % 300
    result, counts = late(cross_entropy, x, target)
    same(result, cross_entropy(x, target))
    assert counts["fused_calls"] >= 5 and counts["early_flushes"] == 0

    def writes(x, w):
        y = x * 2
        s = y.sum()                     # of all elements: not along rows
        z = (y + 1).mul_(3)
        y.add_(1)                       # which the sum reads
        t = z[:, 0].sum() + w.sum()
        w.mul_(y)                       # and this one
        return y, s, z.relu() + 1, t, w * 1
    arguments = lambda: (rand(200, 300), rand(200, 300) + 1)
    for got, wanted in zip(late(writes, *arguments())[0], writes(*arguments()), strict=True):
        same(got, wanted)
