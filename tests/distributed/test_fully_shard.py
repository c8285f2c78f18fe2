"""fully_shard: losses, gradients and norms of one process on the joined batch."""
from importlib import import_module

import ranks
from test_tensor_parallel import _model


def losses(lib, rank, size, kind, reshard, accumulated=1, steps=50):
    import copy
    D = import_module(f"{lib.__name__}.distributed.fsdp")
    T = import_module(f"{lib.__name__}.distributed.tensor")
    nn, F = lib.nn, lib.nn.functional
    m = T.init_device_mesh("cpu", (size,))
    lib.manual_seed(0)
    one = _model(lib) if kind == "gpt" else nn.Sequential(nn.Linear(7, 33), nn.GELU(), nn.Linear(33, 5), nn.ReLU(), nn.Linear(5, 64))
    many = copy.deepcopy(one)
    for part in many.blocks if kind == "gpt" else [many[0], many[2]]:
        D.fully_shard(part, mesh=m, reshard_after_forward=reshard)
    D.fully_shard(many, mesh=m, reshard_after_forward=reshard)
    first, second = lib.optim.AdamW(one.parameters(), 1e-2), lib.optim.AdamW(many.parameters(), 1e-2)
    worst = norms = 0.0
    for _ in range(steps):
        first.zero_grad()
        second.zero_grad()
        for i in range(accumulated):
            x, y = (lib.randint(0, 64, (4, 8)),) * 2 if kind == "gpt" else (lib.randn(4, 7), lib.randint(0, 64, (4,)))
            a = F.cross_entropy(one(x).flatten(0, -2), y.flatten())
            a.backward()
            if accumulated > 1:
                many.set_requires_gradient_sync(i == accumulated - 1)
            n = 4 // size
            b = F.cross_entropy(many(x[rank * n:rank * n + n]).flatten(0, -2), y[rank * n:rank * n + n].flatten())
            b.backward()
            total = b.detach().clone()
            lib.distributed.all_reduce(total)
            worst = max(worst, abs(a.item() - total.item() / size))
        g, h = nn.utils.clip_grad_norm_(one.parameters(), 1.), nn.utils.clip_grad_norm_(many.parameters(), 1.)
        norms = max(norms, abs(g.item() - h.full_tensor().item()) / g.item())
        first.step()
        second.step()
    state = many.state_dict()
    apart = max((value.full_tensor() - one.state_dict()[name]).abs().max().item() for name, value in state.items())
    return worst, norms, apart, type(many).__name__, all(isinstance(p, T.DTensor) for p in many.parameters())


def _check(outcomes):
    for worst, norms, apart, name, sharded in outcomes:
        assert worst < 1e-4 and norms < 1e-4 and apart < 1e-2 and name in ("FSDPSequential", "FSDPGPT") and sharded


def test_losses_of_a_network(library):
    _check(ranks.run(losses, 2, library, "mlp", None, 1, 50 if library == "tede" else 5))


def test_losses_of_a_gpt():
    _check(ranks.run(losses, 2, "tede", "gpt", True))


def test_gradients_that_add_up_before_they_are_reduced():
    _check(ranks.run(losses, 2, "tede", "mlp", False, 2))


def precision(lib, rank, size):
    D = import_module(f"{lib.__name__}.distributed.fsdp")
    T = import_module(f"{lib.__name__}.distributed.tensor")
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.Linear(3, 3))
    policy = D.MixedPrecisionPolicy(param_dtype=lib.bfloat16, reduce_dtype=lib.float32, output_dtype=lib.float32)
    seen = []
    model[1].register_forward_pre_hook(lambda module, args: seen.append(str(args[0].dtype).rpartition(".")[2]))
    D.fully_shard(model, mesh=T.init_device_mesh("cpu", (size,)), mp_policy=policy)
    out = model(lib.ones(2, 4))
    out.sum().backward()
    handle = model.unshard(async_op=True)
    handle.wait()
    whole = [list(p.shape) for p in model.parameters()]
    model.reshard()
    return [seen, str(out.dtype).rpartition(".")[2], [str(p.grad.dtype).rpartition(".")[2] for p in model.parameters()], whole,
            [list(p.to_local().shape) for p in model.parameters()]]


def test_mixed_precision_and_unshard(library):
    first, second = ranks.run(precision, 2, library)
    assert first[:4] == [["bfloat16"], "float32", ["float32"] * 4, [[3, 4], [3], [3, 3], [3]]]
    assert first[4] == [[2, 4], [2], [2, 3], [2]] and second[4] == [[1, 4], [1], [1, 3], [1]]


def in_two_dimensions(lib, rank, size, folder, steps):
    """Sharded by tensor parallelism, and the shards by fully_shard: along the same dimension, too."""
    import copy
    T, P, F, dcp = (import_module(f"{lib.__name__}.distributed.{name}") for name in ("tensor", "tensor.parallel", "fsdp", "checkpoint"))
    mesh = import_module(f"{lib.__name__}.distributed.device_mesh").init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    lib.manual_seed(0)
    one = lib.nn.Sequential(lib.nn.Linear(8, 12), lib.nn.ReLU(), lib.nn.Linear(12, 8))
    many = copy.deepcopy(one)
    P.parallelize_module(many, mesh["tp"], {"0": P.ColwiseParallel(), "2": P.RowwiseParallel()})
    F.fully_shard(many, mesh=mesh["dp"])
    same = [lib.equal(x.full_tensor(), one.state_dict()[name]) for name, x in many.state_dict().items()]
    first, second, worst = lib.optim.AdamW(one.parameters(), 1e-2), lib.optim.AdamW(many.parameters(), 1e-2), 0.
    for _ in range(steps):
        x, y = lib.randn(4, 8), lib.randn(4, 8)
        mine = slice(2 * (rank // 2), 2 * (rank // 2) + 2)
        a = (one(x) - y).square().mean()
        b = (many(x[mine]) - y[mine]).square().mean()
        total = b.detach().clone()
        lib.distributed.all_reduce(total)
        worst = max(worst, abs(total.item() / size - a.item()))
        for loss, optimizer in (a, first), (b, second):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dcp.save(many.state_dict(), checkpoint_id=folder)
    found = {name: lib.zeros_like(x) for name, x in one.state_dict().items()}
    dcp.load(found, checkpoint_id=folder)
    apart = max((x - one.state_dict()[name]).abs().max().item() for name, x in found.items())
    return same, [str(p) for p in many[0].weight.placements], worst, apart


def test_shards_of_tensor_parallel_shards(library, tmp_path):
    for same, placements, worst, apart in ranks.run(in_two_dimensions, 4, library, str(tmp_path), 50 if library == "tede" else 3):
        assert all(same) and placements == ["_S(0, 2)", "S(0)"] and worst < 1e-5 and apart < 1e-4
