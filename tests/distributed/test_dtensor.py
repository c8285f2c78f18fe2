"""DTensors: what goes in comes out, operators give what they give of whole tensors, and so do gradients."""
import io
from importlib import import_module

import pytest
import ranks


def _parts(lib):
    return import_module(f"{lib.__name__}.distributed.tensor"), import_module(f"{lib.__name__}.nn.functional")


def ways(lib, rank, size):
    T, _ = _parts(lib)
    m = T.init_device_mesh("cpu", (size,))
    x = lib.arange(15.).view(5, 3)
    found = {}
    places = {"s0": T.Shard(0), "s1": T.Shard(-1), "r": T.Replicate()}
    for a, p in places.items():
        d = T.distribute_tensor(x, m, [p])
        found[a] = [list(d.to_local().shape), repr(d.placements), list(d.shape)]
        for b, q in places.items():
            e = d.redistribute(m, [q])
            found[a + b] = [list(e.to_local().shape), bool((e.full_tensor() == x).all())]
    part = T.DTensor.from_local(lib.ones(2, 2) * (rank + 1), m, [T.Partial()])
    found["partial"] = [part.full_tensor().tolist(), part.redistribute(m, [T.Shard(0)]).to_local().tolist()]
    leaf = lib.ones(2, 3, requires_grad=True)
    whole = T.DTensor.from_local(leaf, m, [T.Shard(0)])
    (whole.redistribute(m, [T.Replicate()]).to_local() * (rank + 1)).sum().backward()
    found["grad"] = [list(whole.shape), leaf.grad.tolist()]
    found["made"] = [T.zeros(4, 3, device_mesh=m, placements=[T.Shard(0)]).to_local().tolist(),
                     T.full((3,), 2., device_mesh=m, placements=[T.Shard(0)]).to_local().tolist()]
    for name, f in {"mixed": lambda: T.distribute_tensor(x, m, [T.Replicate()]) + lib.ones(5, 3), "length": lambda: T.distribute_tensor(x, m, []),
                    "leaf": lambda: T.distribute_tensor(x.requires_grad_() * 2, m, [])}.items():
        with pytest.raises((RuntimeError, ValueError)) as info:
            f()
        found[name] = type(info.value).__name__
    return found


def test_ways_in_out_and_between(library):
    first, second = ranks.run(ways, 2, library)
    assert first["s0"] == [[3, 3], "(Shard(dim=0),)", [5, 3]] and second["s0"][0] == [2, 3] and second["s1"][:2] == [[5, 1], "(Shard(dim=1),)"]
    assert all(first[a + b][1] and second[a + b][1] and first[a + b][0] == first[b][0] for a in ("s0", "s1", "r") for b in ("s0", "s1", "r"))
    assert first["partial"] == [[[3., 3.]] * 2, [[3., 3.]]] and second["partial"] == first["partial"]
    assert first["grad"] == [[4, 3], [[1.] * 3] * 2] and second["grad"] == [[4, 3], [[2.] * 3] * 2]
    assert first["made"] == [[[0.] * 3] * 2, [2., 2.]] and second["made"] == [[[0.] * 3] * 2, [2.]]
    assert [first[k] for k in ("mixed", "length", "leaf")] == ["RuntimeError", "ValueError", "RuntimeError"]


OPERATORS = {
    "sum": lambda L, F, x: x.sum(), "sum1": lambda L, F, x: x.sum(1), "mean": lambda L, F, x: x.mean(), "mean0": lambda L, F, x: x.mean(0, keepdim=True),
    "amax": lambda L, F, x: x.amax(-1), "softmax": lambda L, F, x: x.softmax(-1), "log_softmax": lambda L, F, x: F.log_softmax(x, 1),
    "flat": lambda L, F, x: x.view(24, 8), "joined": lambda L, F, x: x.reshape(4, 48), "apart": lambda L, F, x: x.view(4, 6, 2, 4),
    "transpose": lambda L, F, x: x.transpose(0, 2), "permute": lambda L, F, x: x.permute(2, 0, 1), "pointwise": lambda L, F, x: x.exp() * 3 + x - 1,
    "broadcast": lambda L, F, x: x + x.sum(0), "layer_norm": lambda L, F, x: F.layer_norm(x, (8,)), "rms_norm": lambda L, F, x: F.rms_norm(x, (8,)),
    "cat": lambda L, F, x: L.cat([x, x * 2], 1), "stack": lambda L, F, x: L.stack([x, x * 2]), "unbind": lambda L, F, x: x.unbind(0)[1],
    "split": lambda L, F, x: x.split(3, 1)[0], "select": lambda L, F, x: x[:, 2], "slice": lambda L, F, x: x[1:3],
    "unsqueeze": lambda L, F, x: x.unsqueeze(1).squeeze(1), "norm": lambda L, F, x: L.linalg.vector_norm(x, dim=1), "var": lambda L, F, x: x.var(-1),
    "expand": lambda L, F, x: x.unsqueeze(0).expand(3, 4, 6, 8), "where": lambda L, F, x: L.where(x > 0, x, x * 2), "clamp": lambda L, F, x: x.clamp(0, 1),
    "tril": lambda L, F, x: x.tril(), "matmul": lambda L, F, x: x @ x.transpose(1, 2), "linear": lambda L, F, x: F.linear(x, x[0, :3]),
    "attention": lambda L, F, x: F.scaled_dot_product_attention(*(x.reshape(4, 6, 2, 4).transpose(1, 2),) * 3, is_causal=True),
    "silu": lambda L, F, x: F.silu(x) * x, "cumsum": lambda L, F, x: x.cumsum(1), "topk": lambda L, F, x: x.topk(2, -1)[0], "max": lambda L, F, x: x.max(),
    "mse": lambda L, F, x: F.mse_loss(x, x * 2), "dropout": lambda L, F, x: F.dropout(x, 0.5), "repeat": lambda L, F, x: x.repeat(2, 1, 1),
    "flip": lambda L, F, x: x.flip(1), "roll": lambda L, F, x: x.roll(1, 1), "roll2": lambda L, F, x: x.roll((1, 3), (0, 2)), "roll3": lambda L, F, x: x.roll(5),
    "std": lambda L, F, x: x.std(), "prod": lambda L, F, x: x.prod(1), "nothing": lambda L, F, x: x * x.sum().item(),
}


def operators(lib, rank, size):
    T, F = _parts(lib)
    m = T.init_device_mesh("cpu", (size,))
    lib.manual_seed(0)
    whole, wrong = lib.randn(4, 6, 8), []
    for name, f in OPERATORS.items():
        for p in T.Shard(0), T.Shard(1), T.Shard(2), T.Replicate():
            d, x = T.distribute_tensor(whole, m, [p]).requires_grad_(), whole.clone().requires_grad_()
            lib.manual_seed(3)
            wanted = f(lib, F, x)
            lib.manual_seed(3)
            found = f(lib, F, d)
            g = lib.randn(tuple(wanted.shape))
            (wanted * g).sum().backward()
            (found * T.distribute_tensor(g, m, [T.Replicate()])).sum().backward()
            for what, a, b in ("result", wanted, found.full_tensor()), ("gradient", x.grad, d.grad.full_tensor()):
                if a.shape != b.shape or not lib.allclose(a, b, atol=1e-5):
                    wrong.append((name, str(p), what))
    return wrong


@pytest.mark.parametrize("size", [2, 3])
def test_operators_give_what_they_give_of_whole_tensors(size):
    """Three ranks have uneven shards. PyTorch refuses some of these, and draws other masks for dropout."""
    assert ranks.run(operators, size, "tede") == [[]] * size


def slices(lib, rank, size):
    """Of index_select, whose gradient is added at the positions, and of what writes slices at positions."""
    T, _ = _parts(lib)
    m, index = T.init_device_mesh("cpu", (size,)), lib.tensor([4, 0, 4])
    lib.manual_seed(0)
    whole, other, wrong = lib.randn(5, 4, 3), lib.randn(3, 4, 3), []
    calls = {"index_select": lambda x, y, i: x.index_select(0, i) * y, "index_add": lambda x, y, i: x.index_add(0, i, y, alpha=2),
             "index_copy": lambda x, y, i: x.index_copy(0, i[:2], y[:2]),
             "index_fill": lambda x, y, i: x.index_fill(0, i, 3) + y.sum(0), "index_reduce": lambda x, y, i: x.index_reduce(0, i, y, "amax")}
    for name, f in calls.items():
        for p in T.Shard(0), T.Shard(1), T.Shard(2), T.Replicate():
            for q in T.Shard(0), T.Shard(1), T.Replicate():
                a, b = (x.clone().requires_grad_() for x in (whole, other))
                c, d = (T.distribute_tensor(x, m, [place]).requires_grad_() for x, place in ((whole, p), (other, q)))
                wanted, found = f(a, b, index), f(c, d, T.distribute_tensor(index, m, [q if q == T.Shard(0) else T.Replicate()]))
                wanted.square().sum().backward()
                found.square().sum().backward()
                if not all(lib.allclose(x, y.full_tensor(), atol=1e-5) for x, y in ((wanted, found), (a.grad, c.grad), (b.grad, d.grad))):
                    wrong.append((name, str(p), str(q)))
    part = T.DTensor.from_local(whole, m, [T.Partial()])
    sums = part.index_add(0, T.distribute_tensor(index, m, [T.Replicate()]), T.distribute_tensor(other, m, [T.Replicate()]))
    if not lib.allclose(sums.full_tensor(), (size * whole).index_add(0, index, other), atol=1e-5):
        wrong.append("partial")
    return wrong


@pytest.mark.parametrize("size", [2, 3])
def test_slices_by_index(size):
    assert ranks.run(slices, size, "tede") == [[]] * size


def table(lib, rank, size):
    T, F = _parts(lib)
    m = T.init_device_mesh("cpu", (size,))
    lib.manual_seed(0)
    e, w, ids, wrong = lib.randn(10, 8), lib.randn(8, 10), lib.tensor([[1, 2, 9], [3, 4, 0]]), []
    for p in T.Shard(0), T.Shard(1), T.Replicate():
        for q in T.Shard(0), T.Replicate():
            for ignored in -100, 3:
                d, x = T.distribute_tensor(e, m, [p]).requires_grad_(), e.clone().requires_grad_()
                i = T.distribute_tensor(ids, m, [q])
                found = F.cross_entropy((F.embedding(i, d) @ T.distribute_tensor(w, m, [T.Replicate()])).view(-1, 10), i.view(-1), ignore_index=ignored)
                wanted = F.cross_entropy((F.embedding(ids, x) @ w).view(-1, 10), ids.view(-1), ignore_index=ignored)
                found.backward()
                wanted.backward()
                if not lib.allclose(wanted, found.full_tensor()) or not lib.allclose(x.grad, d.grad.full_tensor(), atol=1e-6):
                    wrong.append((str(p), str(q), ignored))
    return wrong


def test_tables_and_losses():
    assert ranks.run(table, 2, "tede") == [[], []]


def lookups(lib, rank, size):
    """What a table with sharded rows gives is in parts that go where sums go."""
    T, F = _parts(lib)
    m, ids = T.init_device_mesh("cpu", (size,)), lib.tensor([[1, 2, 9], [3, 4, 0]])
    lib.manual_seed(0)
    weight, other = lib.randn(10, 4), lib.randn(6, 4)
    x = F.embedding(T.distribute_tensor(ids, m, [T.Replicate()]), T.distribute_tensor(weight, m, [T.Shard(0)]))
    y = F.embedding(T.distribute_tensor(ids % 6, m, [T.Replicate()]), T.distribute_tensor(other, m, [T.Shard(0)]))
    wanted = weight[ids] + other[ids % 6]
    found = [type(x.placements[0]).__name__, x.placements[0].is_partial("sum"), x.placements == y.placements, str((x + y).placements)]
    close = [lib.allclose(z.full_tensor(), w) for z, w in ((x, weight[ids]), (x + y, wanted), (x.redistribute(placements=[T.Shard(0)]), weight[ids]))]
    x += y
    return *found, [*close, lib.allclose(x.full_tensor(), wanted)]


def test_lookups_in_sharded_rows_are_sums():
    for found in ranks.run(lookups, 2, "tede"):
        assert found == ("_MaskPartial", True, False, "(Partial(sum),)", [True] * 4)


def unknown(lib, rank, size):
    T, _ = _parts(lib)
    x = T.distribute_tensor(lib.eye(4), T.init_device_mesh("cpu", (size,)), [T.Shard(0)])
    with pytest.raises((NotImplementedError, RuntimeError), match="does not have a sharding strategy registered"):
        lib.linalg.lu_factor(x) if lib.__name__ == "torch" else lib.nn.functional.pdist(x)
    with pytest.raises(RuntimeError, match="in-place operations that require placement changes are not supported"):
        T.DTensor.from_local(lib.ones(4), x.device_mesh, [T.Partial()]).exp_()
    return "refused"


def test_what_cant_be_split_is_refused():
    assert ranks.run(unknown, 2, "tede") == ["refused"] * 2


def counted(lib, rank, size):
    """What CommDebugMode sees."""
    T, F = _parts(lib)
    debug = import_module(f"{lib.__name__}.distributed.tensor.debug")
    parallel = import_module(f"{lib.__name__}.distributed.tensor.parallel")
    m, mode, c = T.init_device_mesh("cpu", (size,)), debug.CommDebugMode(), lib.ops.c10d_functional
    x, found = T.distribute_tensor(lib.ones(4, 4, requires_grad=True), m, [T.Shard(0)]), {}
    with mode:
        whole = x.redistribute(placements=[T.Replicate()])
    found["gathered"] = [mode.get_comm_counts()[c.all_gather_into_tensor], mode.get_total_counts()]
    with mode:
        whole.to_local(grad_placements=[T.Partial()]).sum().backward()
    found["scattered"] = [mode.get_comm_counts()[c.reduce_scatter_tensor], mode.get_total_counts()]
    net = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.Linear(8, 4))
    net = parallel.parallelize_module(net, m, {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()})
    with mode:
        net(lib.ones(2, 4, requires_grad=True)).sum().backward()
    counts = mode.comm_module_counts
    found["modules"] = [counts[name]["forward"][c.all_reduce] for name in ("Global", "Sequential", "Sequential.2")]
    found["backward"] = [counts["Global"]["backward"][c.all_reduce], mode.get_total_counts()]
    found["sharding"] = {name: str(placed) for name, placed in mode.get_sharding_info().items()}
    table = mode.generate_comm_debug_tracing_table(0)
    found["table"] = [word in table for word in ("Sequential.2", "FORWARD PASS", "all_reduce")]
    return found


def test_collectives_are_counted(library):
    first, second = ranks.run(counted, 2, library)
    assert first == second and first["gathered"] == first["scattered"] == [1, 1] and first["modules"] == [1, 1, 1] and first["backward"] == [1, 2]
    assert first["sharding"] == {"Sequential.0.weight": "(Shard(dim=0),)", "Sequential.0.bias": "(Shard(dim=0),)", "Sequential.2.weight": "(Shard(dim=1),)",
                                 "Sequential.2.bias": "(Replicate(),)"}
    assert all(first["table"])


def further(lib, rank, size):
    """Plain operands, lists, tensors made of others, local functions, checks, checkpoints and meshes that a rank is outside of."""
    T, F = _parts(lib)
    experimental = import_module(f"{lib.__name__}.distributed.tensor.experimental")
    older = import_module(f"{lib.__name__}.distributed._tensor.placement_types")
    functional = import_module(f"{lib.__name__}.distributed._functional_collectives")
    m, found = T.init_device_mesh("cpu", (size,)), {}
    x = T.DTensor.from_local(lib.ones(2, 3) * (rank + 1), m, [older.Shard(-2)])
    found["older"] = [older.Shard is T.Shard, older.DTensorSpec is type(x._spec), x.placements[0].dim]
    with experimental.implicit_replication():
        found["implicit"] = (lib.ones(3) + x).to_local().tolist()
    found["one"] = (lib.tensor([2.]) * x).to_local().tolist()
    lib._foreach_mul_([x], 2.)
    found["lists"] = [[n.full_tensor().item() for n in lib._foreach_norm([x])], x.to_local().tolist()]
    found["transposed"] = str(T.DTensor.from_local(lib.ones(2, 3), m, [T.Partial()]).t().placements[0])
    like = x.new_empty_strided((2 * size, 3), (1, 2 * size))
    found["strided"] = list(like.shape), list(like.stride()), list(like.full_tensor().shape)
    doubled = experimental.local_map(lambda n, a: a * n, out_placements=[T.Shard(0)], in_placements=(None, [T.Shard(0)]))
    found["local_map"] = doubled(2, x).to_local().tolist()
    with pytest.raises(ValueError, match="redistribute_inputs=True"):
        doubled(2, x.redistribute(placements=[T.Replicate()]))
    with pytest.raises(ValueError, match="Inconsistent tensor metadata"):
        T.DTensor.from_local(lib.ones(2, 3, dtype=lib.float64 if rank else lib.float32), m, [T.Shard(0)], run_check=True)
    later = x.redistribute(placements=[T.Replicate()], async_op=True).to_local()
    found["later"] = [type(later) is functional.AsyncCollectiveTensor, later.sum().item()]
    leaf = lib.zeros(2, 3, requires_grad=True)
    written = T.DTensor.from_local(leaf, m, [T.Shard(0)])
    written.fill_(5.)
    found["written"] = written.to_local().tolist()
    p = lib.nn.Parameter(T.distribute_tensor(lib.ones(2, 3), m, [T.Shard(0)]))
    p.grad = T.distribute_tensor(lib.ones(2, 3) * 2, m, [T.Shard(0)])
    lib.optim.Adam([p], lr=0.5, fused=True).step()
    found["fused"] = p.detach().full_tensor().tolist()
    buffer = io.BytesIO()
    lib.save(x, buffer)
    buffer.seek(0)
    found["saved"] = lib.load(buffer, weights_only=True).to_local().tolist()
    part = T.DTensor.from_local(lib.ones(2, 2), T.DeviceMesh("cpu", [1]), [T.Shard(0)])
    found["outside"] = [list((part + 1).to_local().shape), part.sum().to_local().item(), part.equal(part)]
    return found


def test_plain_operands_lists_and_checks(library):
    first, second = ranks.run(further, 2, library)
    assert first["older"] == [True, True, 0] and first["implicit"] == [[2.] * 3] * 2 and second["implicit"] == [[3.] * 3] * 2
    assert first["one"] == [[2.] * 3] * 2 and first["lists"][1] == [[2.] * 3] * 2 and first["lists"][0] == [pytest.approx(120 ** 0.5)]
    assert first["strided"] == ([4, 3], [1, 4], [4, 3]) and first["local_map"] == [[4.] * 3] * 2
    assert first["later"] == [True, 36.] and first["written"] == [[5.] * 3] * 2 and second["saved"] == [[4.] * 3] * 2
    assert first["transposed"] == "P(sum)" and first["fused"] == second["fused"] == [[pytest.approx(0.5)] * 3] * 2
    assert first["outside"] == [[0], 0., True] and second["outside"] == [[2, 2], 4., True]


# Name: shape, view, dimensions whose parts are views of their own.
VIEWS = {
    "atleast_1d": ((24, 36), lambda L, x: L.atleast_1d(x), (0, 1)), "atleast_2d": ((24,), lambda L, x: L.atleast_2d(x), (0,)),
    "atleast_3d": ((24, 36), lambda L, x: L.atleast_3d(x), (0, 1)), "broadcast_to": ((24, 1, 36), lambda L, x: L.broadcast_to(x, (2, 24, 4, 36)), (0, 2)),
    "expand": ((24, 1, 6, 1), lambda L, x: x.expand(6, 24, 2, -1, 4), (0, 2)), "flatten": ((24, 36), lambda L, x: L.flatten(x), (0,)),
    "flatten of one": ((42, 6), lambda L, x: L.flatten(x, 1, 1), (0, 1)), "movedim": ((12, 24, 8, 6), lambda L, x: L.movedim(x, 1, 2), (0, 1, 2, 3)),
    "movedim of two": ((24, 6, 12), lambda L, x: L.movedim(x, (0, 2, 1), (2, 1, 0)), (0, 1, 2)),
    "permute": ((24, 6, 12), lambda L, x: L.permute(x, (-1, -3, -2)), (0, 1, 2)), "ravel": ((24, 36), lambda L, x: L.ravel(x), (0,)),
    "repeat": ((24, 36), lambda L, x: x.repeat(1, 2, 1, 1, 2), (0,)), "tile": ((42, 4, 6), lambda L, x: L.tile(x, (1, 3)), (0, 1)),
    "reshape": ((6, 12, 24), lambda L, x: L.reshape(x, (72, 24)), (2,)), "transpose": ((24, 6, 42, 4), lambda L, x: L.transpose(x, -1, 0), (0, 1, 2, 3)),
    "unsqueeze": ((42, 24), lambda L, x: L.unsqueeze(x, 1), (0, 1)), "view": ((12, 6, 24), lambda L, x: x.view(72, 24), (0, 2)),
    "view of ones": ((1, 1, 12), lambda L, x: x.view(-1), (2,)), "view of ones between": ((1, 1, 44, 1, 24, 1), lambda L, x: x.view(-1), (2,)),
    "view as real": ((24, 13, 2), lambda L, x: L.view_as_real(L.view_as_complex(x)), (0,)),
}


def views(lib, rank, size):
    T, _ = _parts(lib)
    debug = import_module(f"{lib.__name__}.distributed.tensor.debug")
    m, wrong = T.init_device_mesh("cpu", (2, size // 2)), []
    for name, (shape, view, dims) in VIEWS.items():
        x = lib.arange(float(lib.Size(shape).numel())).view(shape)
        wanted, places = view(lib, x), [T.Replicate(), *map(T.Shard, dims)]
        for placed in ([p, q] for p in places for q in places):
            with debug.CommDebugMode() as mode:
                found = view(lib, T.distribute_tensor(x, m, placed, src_data_rank=None))
            if mode.get_total_counts() or not lib.equal(found.full_tensor(), wanted):
                wrong.append((name, [str(p) for p in placed], mode.get_total_counts()))
    return wrong


def test_views_of_parts_are_views_of_the_whole_without_collectives(library):
    assert ranks.run(views, 4, library) == [[]] * 4


def sums(lib, rank, size):
    """What is linear in its operands keeps parts of sums."""
    T, _ = _parts(lib)
    m = T.init_device_mesh("cpu", (size,))
    part = T.DTensor.from_local(lib.ones(2, 2), m, [T.Partial()])
    made = {"add": part + part, "sub": part - part, "twice": lib.add(part, part, alpha=2), "scaled": part * 3}
    return {name: (str(x.placements), x.full_tensor().tolist()) for name, x in made.items()}


def test_sums_of_partial_sums_are_partial(library):
    first, second = ranks.run(sums, 2, library)
    assert first == second
    assert first == {name: ("(Partial(sum),)", [[value] * 2] * 2) for name, value in dict(add=4., sub=0., twice=6., scaled=6.).items()}


def orders(lib, rank, size):
    """Shards of shards, whichever dimension of the mesh has split first: from each to each, and operators on them."""
    T, _ = _parts(lib)
    S, X, R, wrong = T.Shard, T.placement_types._StridedShard, T.Replicate(), []
    m = T.init_device_mesh("cpu", (2, 2))
    places = [(R, R), (S(0), R), (R, S(0)), (S(0), S(0)), (X(0, split_factor=2), S(0)), (S(1), S(0)), (X(1, split_factor=2), S(1)), (X(0, split_factor=2), R)]
    for n in 8, 7:
        x = lib.arange(6. * n).view(n, 6)
        for a in places:
            d = T.distribute_tensor(x, m, a, src_data_rank=None)
            if rank == 1 and a[0] == X(0, split_factor=2) and a[1] == S(0):         # (0, 1) of the mesh: the first of the second half
                wrong += [] if lib.equal(d.to_local(), x[4:6]) else ["layout"]
            for b in places:
                e = d.redistribute(placements=b)
                if not lib.equal(e.full_tensor(), x) or not lib.equal(e.to_local(), T.distribute_tensor(x, m, b, src_data_rank=None).to_local()):
                    wrong.append((n, str(a), str(b)))
            found = [d.sin().sum(1), d.clone().mul_(3).add_(d), d @ T.distribute_tensor(x.t().contiguous(), m, [R, R]), d.sum(0)]
            if not all(lib.allclose(y.full_tensor(), z, atol=1e-4) for y, z in zip(found, [x.sin().sum(1), x * 4, x @ x.t(), x.sum(0)])):
                wrong.append((n, str(a), "operators"))
    return wrong


def test_dimensions_that_several_mesh_dimensions_split_in_any_order():
    assert ranks.run(orders, 4, "tede") == [[]] * 4
