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
            stage, kind, i = order[at[rank]]
            forward = kind == "F"
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


def test_actions_are_read_merged_and_followed(library):
    s = import_module(f"{library}.distributed.pipelining.schedules")
    read = s._Action.from_str
    assert [str(read(text)) for text in ("1F0", "2SEND_B2", "1UNSHARD", " 0W3")] == ["1F0", "2SEND_B2", "1UNSHARD", "0W3"] and read("   ") is None
    with pytest.raises(RuntimeError, match="Invalid action string: F0"):
        read("F0")
    assert list(map(str, s._merge_bw(list(map(read, ["0F0", "0I0", "0I1", "0W0", "", "0I2", "0W2", "0W1"]))))) == ["0F0", "0I0", "0I1", "0W0", "0B2", "0W1"]
    with_parameters = s._add_unshard_reshard(list(map(read, ["0F0", "1F0", "2F0", "0B0"])), max_active_stages=2)
    assert " ".join(map(str, with_parameters)) == "0UNSHARD 1UNSHARD 0F0 0RESHARD 2UNSHARD 1F0 1RESHARD 0UNSHARD 2F0 2RESHARD 0B0 0RESHARD"

    def lists():
        return {0: list(map(read, ["0F0", "0F1", "", "0B0", "", "0B1"])), 1: list(map(read, ["", "1F0", "1B0", "1F1", "1B1", ""]))}
    messages = s._add_send_recv(lists(), lambda stage: stage, 2)
    assert " ".join(map(str, messages[0])) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"
    assert " ".join(map(str, messages[1])) == "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1"
    assert max(map(len, s._simulate_comms_compute(messages, lambda stage: stage, 2).values())) == 11
    if library == "tede":                   # PyTorch can't show a list in which nothing has begun
        with pytest.raises(ValueError, match="Schedule is not progressing"):
            s._simulate_comms_compute({0: [read("0B0")], 1: [read("1F0")]}, lambda stage: stage, 2)
    s._validate_schedule(lists(), 2, 2, 2)
    for wrong in ({0: lists()[0]}, {0: [read("0F0")], 1: [read("1F0")]}, {0: [read("0B0")], 1: []}):
        with pytest.raises(AssertionError if library == "tede" else (AssertionError, IndexError)):     # PyTorch can't show an empty list
            s._validate_schedule(wrong, 2, 2, 1)


def in_two_parts(lib, rank, size):
    """Stages whose weights get their gradients later, by a list of actions, where a rank has neighbouring stages, too."""
    P = import_module(f"{lib.__name__}.distributed.pipelining")
    S = import_module(f"{lib.__name__}.distributed.pipelining.schedules")
    one = _net(lib, 4)
    many, places = copy.deepcopy(one), [0, 1, 1, 0]
    mine = [i for i, where in enumerate(places) if where == rank]
    stages = [P.PipelineStage(many[i], i, 4, lib.device("cpu")) for i in mine]
    schedule = S._PipelineScheduleRuntime(stages, 2, loss_fn=lib.nn.functional.mse_loss, stage_index_to_group_rank=places)
    lists = {0: "0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1", 1: "1F0 2F0 1F1 2F1 2I0 1I0 2B1 1B1 2W0 1W0"}
    schedule._load_actions({where: [S._Action.from_str(word) for word in words.split()] for where, words in lists.items()})
    x, y = lib.randn(4, 6), lib.randn(4, 6)
    for _ in range(2):
        many.zero_grad()
        out = schedule.step(*[x] * (rank == 0), **{"target": y} if rank == 0 else {})
    wanted = x
    for part in one:
        wanted = part(wanted)
    sum(lib.nn.functional.mse_loss(a, b) for a, b in zip(wanted.chunk(2), y.chunk(2))).div(2).backward()
    same = [bool(lib.allclose(p.grad, q.grad, atol=1e-6)) for i in mine for p, q in zip(many[i].parameters(), one[i].parameters())]
    return same, out is None or bool(lib.allclose(out, wanted))


def test_backward_passes_in_two_parts():
    assert ranks.run(in_two_parts, 2, "tede") == [([True] * 8, True)] * 2


def test_gradients_of_weights_come_second(library):
    lib = import_module(library)
    backward = import_module(f"{library}.distributed.pipelining._backward")
    net = lib.nn.Sequential(lib.nn.Linear(4, 4), lib.nn.Tanh(), lib.nn.Linear(4, 4))
    x = lib.randn(3, 4, requires_grad=True)
    grads, later = backward.stage_backward_input((net(x).square().sum(),), None, [x], iter(net.parameters()))
    assert all(p.grad is None for p in net.parameters())
    backward.stage_backward_weight(net.parameters(), later)
    found = [x.grad, grads[0], *(p.grad for p in net.parameters())]
    wanted = lib.autograd.grad(net(x).square().sum(), [x, x, *net.parameters()])
    assert all(lib.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted))


def test_a_weight_at_two_places():
    import tede
    from tede.distributed.pipelining._backward import stage_backward_input, stage_backward_weight
    w, x = tede.randn(3, 3, requires_grad=True), tede.randn(2, 3, requires_grad=True)

    def loss():
        return ((x @ w).tanh() @ w).sum()
    _, later = stage_backward_input((loss(),), None, [x], [w])
    stage_backward_weight([w], later)
    assert tede.allclose(w.grad, tede.autograd.grad(loss(), w)[0], atol=1e-6)
