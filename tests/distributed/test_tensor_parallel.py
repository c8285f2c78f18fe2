"""Plans of tensor parallelism: the losses of one process over 50 steps."""
from importlib import import_module

import ranks


def _model(lib):
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
            self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
            self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

        def forward(self, x):
            y = self.norm1(x)
            q, k, v = (f(y).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.blocks = nn.Embedding(64, 16), nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 64, bias=False)

        def forward(self, ids):
            return self.head(self.norm(self.blocks(self.token(ids))))
    return GPT()


def losses(lib, rank, size, sequence, steps=50):
    import copy
    P = import_module(f"{lib.__name__}.distributed.tensor.parallel")
    T = import_module(f"{lib.__name__}.distributed.tensor")
    m = T.init_device_mesh("cpu", (size,))
    lib.manual_seed(0)
    one = _model(lib)
    many = copy.deepcopy(one)
    shared = T.Shard(1) if sequence else T.Replicate()
    plan = {"token": P.RowwiseParallel(input_layouts=T.Replicate(), output_layouts=shared, use_local_output=not sequence)}
    for name in "q", "k", "v", "up":
        plan[f"blocks.*.{name}"] = P.ColwiseParallel()
    for name in "out", "down":
        plan[f"blocks.*.{name}"] = P.RowwiseParallel(output_layouts=shared, use_local_output=not sequence)
    if sequence:
        plan.update({"blocks.*.norm1": P.SequenceParallel(), "blocks.*.norm2": P.SequenceParallel(), "norm": P.SequenceParallel()})
        for name in "q", "k", "v", "up":
            plan[f"blocks.*.{name}"] = P.ColwiseParallel(input_layouts=T.Shard(1))
    plan["head"] = P.ColwiseParallel(input_layouts=shared, output_layouts=T.Shard(-1), use_local_output=False)
    P.parallelize_module(many, m, plan)
    first, second = lib.optim.AdamW(one.parameters(), 1e-2), lib.optim.AdamW(many.parameters(), 1e-2)
    F, worst = lib.nn.functional, 0.0
    for _ in range(steps):
        ids = lib.randint(0, 64, (2, 9))
        x, y = ids[:, :-1], ids[:, 1:].flatten()
        a = F.cross_entropy(one(x).flatten(0, 1), y)
        first.zero_grad()
        a.backward()
        first.step()
        with P.loss_parallel():
            b = F.cross_entropy(many(x).flatten(0, 1), T.distribute_tensor(y, m, [T.Replicate()]))
            second.zero_grad()
            b.backward()
        second.step()
        worst = max(worst, abs(a.item() - b.full_tensor().item()))
    return worst, list(many.blocks[0].q.weight.to_local().shape), list(many.blocks[0].out.weight.to_local().shape)


def test_losses_of_a_sharded_gpt(library):
    for worst, *shapes in ranks.run(losses, 2, library, False, 50 if library == "tede" else 5):
        assert worst < 1e-4 and shapes == [[8, 16], [16, 8]]


def test_losses_with_a_sharded_sequence():
    for worst, *shapes in ranks.run(losses, 2, "tede", True):
        assert worst < 1e-4 and shapes == [[8, 16], [16, 8]]


def parallel_losses(lib, rank, size):
    """Classes on one dimension of the mesh, rows whole or on others: losses and gradients of one process, and no collective but reductions."""
    P, T, debug = (import_module(f"{lib.__name__}.distributed.tensor{name}") for name in (".parallel", "", ".debug"))
    F, S, R, wrong = lib.nn.functional, T.Shard, T.Replicate(), []
    lib.manual_seed(0)
    weight = lib.rand(8)
    for mesh, shape, places, rows in [
            ((4,), (6, 8), [S(1)], [R]), ((4,), (4, 8, 3), [S(1)], [R]), ((4,), (2, 8, 3, 2), [S(1)], [R]), ((2, 2), (5, 8), [S(0), S(1)], [S(0), R]),
            ((2, 2), (6, 8), [S(1), R], [R, R]), ((2, 2), (4, 8, 3), [S(2), S(1)], [S(1), R]), ((2, 1, 2), (4, 8, 3), [S(0), S(2), S(1)], [S(0), S(1), R])]:
        mesh = T.init_device_mesh("cpu", mesh)
        for reduction in "mean", "sum", "none":
            x, y = lib.randn(*shape, requires_grad=True), lib.randint(0, 8, (shape[0], *shape[2:]))
            y.view(-1)[0] = -100
            wanted = F.cross_entropy(x, y, weight, reduction=reduction)
            wanted.sum().backward()
            d, target = T.distribute_tensor(x.detach(), mesh, places).requires_grad_(), T.distribute_tensor(y, mesh, rows)
            with P.loss_parallel(), debug.CommDebugMode() as mode:
                found = F.cross_entropy(d, target, weight, reduction=reduction)
                found.sum().backward()
            calls = {str(call).rpartition(".")[2] for call in mode.get_comm_counts()}
            apart = [(found.full_tensor() - wanted).abs().max().item(), (d.grad.full_tensor() - x.grad).abs().max().item()]
            if max(apart) > 1e-5 or d.grad.placements != tuple(places) or calls - {"all_reduce"}:
                wrong.append((shape, str(places), reduction, apart, str(d.grad.placements), calls))
    return wrong


def test_losses_of_sharded_classes_and_rows():
    assert ranks.run(parallel_losses, 4, "tede") == [[]] * 4
