"""Pipelines: orders that can be followed, and gradients and losses of one process."""
import copy
from importlib import import_module

import pytest
import ranks


def follow(orders, stages):
    """Go through the orders of all ranks, each step as soon as what it needs is there. It gives how many were kept for a backward pass, at most, by rank."""
    at, done, kept = [0] * len(orders), set(), [0] * len(orders)
    while any(i < len(order) for i, order in zip(at, orders)):
        moved = False
        for rank, order in enumerate(orders):
            if at[rank] == len(order):
                continue
            forward, stage, i = order[at[rank]]
            needs = [(True, stage - 1, i)] if forward and stage else [] if forward else [(True, stage, i)] + [(False, stage + 1, i)] * (stage < stages - 1)
            if all(step in done for step in needs):
                done.add((forward, stage, i))
                at[rank] += 1
                moved = True
                of_rank = [step for step in done if step[1] % len(orders) == rank]
                kept[rank] = max(kept[rank], sum(1 if step[0] else -1 for step in of_rank))
        assert moved, (at, orders)
    return kept, len(done)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [4, 5, 8])
def test_orders_can_be_followed(size, n):
    from tede.distributed.pipelining import schedules as s
    assert follow([s.gpipe(rank, size, n) for rank in range(size)], size) == ([n] * size, 2 * n * size)
    assert follow([s.one_forward_one_backward(rank, size, n) for rank in range(size)], size) == ([min(n, size - rank) for rank in range(size)], 2 * n * size)
    for local in (1, 2, 3):
        assert follow([s.breadth_first(rank, size, local, n) for rank in range(size)], size * local)[1] == 2 * n * size * local
        if n % max(1, n // size) == 0:
            assert follow([s.interleaved(rank, size, local, n) for rank in range(size)], size * local)[1] == 2 * n * size * local


def _net(lib, parts):
    nn = lib.nn
    lib.manual_seed(0)
    return nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6)) for _ in range(parts))


def steps(lib, rank, size, names):
    P = import_module(f"{lib.__name__}.distributed.pipelining")
    S = import_module(f"{lib.__name__}.distributed.pipelining.schedules")
    worst = 0.0
    said = []
    for name, local, n in names:
        cls = S.get_schedule_class(name)
        one = _net(lib, size * local)
        many = copy.deepcopy(one)
        mine = [many[i * size + rank] for i in range(local)]
        stages = [P.PipelineStage(part, i * size + rank, size * local, lib.device("cpu")) for i, part in enumerate(mine)]
        schedule = cls(stages[0] if local == 1 else stages, n, loss_fn=lib.nn.functional.mse_loss)
        first, second = lib.optim.SGD(one.parameters(), .5), lib.optim.SGD([p for part in mine for p in part.parameters()], .5)
        for _ in range(3):
            x, y, losses = lib.randn(24, 6), lib.randn(24, 6), []
            first.zero_grad()
            second.zero_grad()
            out = x
            for part in one:
                out = part(out)
            loss = lib.nn.functional.mse_loss(out, y)
            loss.backward()
            given = (x,) if rank == 0 else ()
            got = schedule.step(*given, target=y, losses=losses) if rank == size - 1 else schedule.step(*given)
            if rank == size - 1:
                worst = max(worst, (got - out).abs().max().item(), abs(sum(losses).item() / n - loss.item()))
                said.append(len(losses) == n)
            else:
                said.append(got is None)
            first.step()
            second.step()
        worst = max(worst, *[(p - q).abs().max().item() for i, part in enumerate(mine) for p, q in zip(part.parameters(), one[i * size + rank].parameters())])
    return worst, all(said)


def test_steps_are_those_of_one_process():
    for worst, said in ranks.run(steps, 2, "tede", [("GPipe", 1, 4), ("1F1B", 1, 4), ("1f1b", 1, 8), ("LoopedBFS", 2, 4), ("Interleaved1F1B", 2, 4)]):
        assert worst < 1e-5 and said
    for worst, said in ranks.run(steps, 3, "tede", [("1F1B", 1, 4), ("Interleaved1F1B", 2, 3)]):
        assert worst < 1e-5 and said


def test_steps_of_pytorch():
    pytest.importorskip("torch")
    for worst, said in ranks.run(steps, 2, "torch", [("1F1B", 1, 4)]):
        assert worst < 1e-5 and said


def details(lib, rank, size):
    P = import_module(f"{lib.__name__}.distributed.pipelining")
    dist, nn = lib.distributed, lib.nn

    class Two(nn.Module):
        """Two outputs, of which one has no gradient, and keywords."""
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, scale=None):
            return self.linear(x) * scale, lib.ones(x.shape[0], dtype=lib.int64)

    class Join(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x, count):
            return self.linear(x) * count.unsqueeze(1)
    lib.manual_seed(0)
    parts = [Two(), Join()]
    whole = copy.deepcopy(parts)
    groups = [dist.new_group([i]) for i in range(size)]
    wrapped = nn.parallel.DistributedDataParallel(parts[rank], process_group=groups[rank])
    stage = P.PipelineStage(wrapped, rank, size, "cpu")
    schedule = P.Schedule1F1B(stage, 2, loss_fn=lambda out, y: (out - y).abs().sum(), scale_grads=False)
    x, y, scale = lib.randn(6, 4), lib.randn(6, 1), lib.randn(6, 1)
    out = schedule.step(x, scale=scale) if rank == 0 else schedule.step(target=y)
    expected = whole[1](*whole[0](x, scale))
    (expected - y).abs().sum().backward()
    said = [max((p.grad - q.grad).abs().max().item() for p, q in zip(parts[rank].parameters(), whole[rank].parameters())) < 1e-5]
    quiet = schedule.eval(x, scale=scale) if rank == 0 else schedule.eval()
    if rank == 1:
        said += [lib.allclose(out, expected, atol=1e-6), lib.allclose(quiet, expected, atol=1e-6), quiet.requires_grad]
    for make in (lambda: P.PipelineStage(parts[0], 2, 2, "cpu"), lambda: P.ScheduleGPipe(stage, 1), lambda: P.schedules.get_schedule_class("other")):
        try:
            make()
        except ValueError as error:
            said.append(str(error)[:13])
    return said


def test_outputs_without_gradients_keywords_and_data_parallel_stages():
    errors = ["Stage index 2", "Number of mic", "Unknown sched"]
    assert ranks.run(details, 2) == [[True, *errors], [True, True, True, False, *errors]]


def test_splitting_and_merging(library):
    lib = import_module(library)
    M = import_module(f"{library}.distributed.pipelining.microbatch")
    x, y = lib.arange(12.).reshape(4, 3), lib.arange(8.).reshape(2, 4)
    args, kwargs = M.split_args_kwargs_into_chunks((x, 3), {"y": y}, 2, (M.TensorChunkSpec(0), M._Replicate()), {"y": M.TensorChunkSpec(1)})
    assert [list(a.shape) for a, _ in args] == [[2, 3]] * 2 and [n for _, n in args] == [3, 3] and [list(k["y"].shape) for k in kwargs] == [[2, 2]] * 2
    assert M.merge_chunks(args, (M.TensorChunkSpec(0), M._Replicate()))[0].equal(x)
    assert M.merge_chunks(kwargs, {"y": M.TensorChunkSpec(1)})["y"].equal(y)
    default, _ = M.split_args_kwargs_into_chunks((x,), None, 4)
    assert M.merge_chunks([a for a, in default], None).equal(x) and str(M.TensorChunkSpec.from_tuple((1,))[0]) == "TensorChunkSpec(1)"


def unequal(lib, rank, size):
    P = import_module(f"{lib.__name__}.distributed.pipelining")
    stage = P.PipelineStage(lib.nn.Linear(3, 3), rank, size, "cpu")
    schedule = P.ScheduleGPipe(stage, 2, loss_fn=lib.nn.functional.mse_loss)
    sizes = []
    for n in (4, 6):                            # another batch size is fine
        out = schedule.step(lib.ones(n, 3)) if rank == 0 else schedule.step(target=lib.ones(n, 3))
        sizes.append(None if out is None else out.shape[0])
    if rank == 0:
        try:
            schedule.step(lib.ones(5, 3))
        except RuntimeError as error:
            return sizes, str(error)[:31]
    return sizes, None


def test_microbatches_are_equal_within_a_step():
    first, second = ranks.run(unequal, 2)
    assert first == ([None, None], "outputs of microbatches differ:") and second == ([4, 6], None)
