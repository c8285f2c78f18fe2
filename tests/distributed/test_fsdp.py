"""FullyShardedDataParallel: losses of one process on the joined batch, whole and sharded state dicts, optimizers, norms, precision."""
import contextlib
import copy
from importlib import import_module

import ranks


def _modules(lib):
    return import_module(f"{lib.__name__}.distributed.fsdp"), import_module(f"{lib.__name__}.distributed.fsdp.wrap")


def _net(lib):
    nn = lib.nn
    lib.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 33), nn.GELU(), nn.Sequential(nn.Linear(33, 5), nn.LayerNorm(5)), nn.Linear(5, 64))


def _wrapped(lib, net, strategy="FULL_SHARD", **options):
    D, W = _modules(lib)
    options.setdefault("auto_wrap_policy", W.ModuleWrapPolicy({lib.nn.Linear}))
    return D.FullyShardedDataParallel(net, sharding_strategy=getattr(D.ShardingStrategy, strategy), device_id=lib.device("cpu"), **options)


def losses(lib, rank, size, strategy, use_orig_params, accumulated, steps):
    F = lib.nn.functional
    one = _net(lib)
    many = _wrapped(lib, copy.deepcopy(one), strategy, use_orig_params=use_orig_params)
    first, second = lib.optim.AdamW(one.parameters(), 1e-2), lib.optim.AdamW(many.parameters(), 1e-2)
    lib.manual_seed(1)
    worst = norms = 0.0
    n = 4 // size
    for _ in range(steps):
        first.zero_grad()
        second.zero_grad()
        for i in range(accumulated):
            x, y = lib.randn(4, 7), lib.randint(0, 64, (4,))
            a = F.cross_entropy(one(x), y)
            a.backward()
            with many.no_sync() if i < accumulated - 1 else contextlib.nullcontext():
                b = F.cross_entropy(many(x[rank * n:rank * n + n]), y[rank * n:rank * n + n])
                b.backward()
            total = b.detach().clone()
            lib.distributed.all_reduce(total)
            worst = max(worst, abs(a.item() - total.item() / size))
        g, h = lib.nn.utils.clip_grad_norm_(one.parameters(), .5), many.clip_grad_norm_(.5)
        norms = max(norms, abs(g.item() - h.item()) / g.item())
        first.step()
        second.step()
    whole, own = many.state_dict(), one.state_dict()
    apart = max((value - own[name]).abs().max().item() for name, value in whole.items())
    return worst, norms, apart, list(whole) == list(own)


def of_strategies(lib, rank, size):
    return {(strategy, orig, n): losses(lib, rank, size, strategy, orig, n, steps) for strategy, orig, n, steps in [
        ("FULL_SHARD", True, 1, 50), ("FULL_SHARD", False, 2, 10), ("SHARD_GRAD_OP", True, 2, 10), ("NO_SHARD", True, 2, 10), ("HYBRID_SHARD", False, 1, 10)]}


def test_losses_are_those_of_one_process():
    for found in ranks.run(of_strategies, 2):
        for case, (worst, norms, apart, names) in found.items():
            assert worst < 1e-4 and norms < 1e-4 and apart < 1e-2 and names, case


def states(lib, rank, size):
    D, _ = _modules(lib)
    FSDP, kinds = D.FullyShardedDataParallel, D.StateDictType
    net = _wrapped(lib, _net(lib), use_orig_params=True)
    optimizer = lib.optim.Adam(net.parameters(), 1e-2)
    net(lib.ones(2, 7)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    with FSDP.state_dict_type(net, kinds.FULL_STATE_DICT, D.FullStateDictConfig(offload_to_cpu=True, rank0_only=True),
                              D.FullOptimStateDictConfig(rank0_only=True)):
        only, its = net.state_dict(), FSDP.optim_state_dict(net, optimizer)
    whole = {name: x.clone() for name, x in net.state_dict().items()}
    of_optimizer = FSDP.optim_state_dict(net, optimizer)
    said = [len(only), bool(its), list(whole)[0], list(whole["0.weight"].shape), sorted(of_optimizer["state"])[0],
            list(of_optimizer["state"]["0.weight"]["exp_avg"].shape), of_optimizer["param_groups"][0]["params"][:2]]
    other = _wrapped(lib, lib.nn.Sequential(*[lib.nn.Linear(7, 33), lib.nn.GELU(), lib.nn.Sequential(lib.nn.Linear(33, 5), lib.nn.LayerNorm(5)),
                                              lib.nn.Linear(5, 64)]), "SHARD_GRAD_OP", use_orig_params=True)
    other.load_state_dict(whole)
    second = lib.optim.Adam(other.parameters(), 1e-2)
    second.load_state_dict(FSDP.optim_state_dict_to_load(other, second, of_optimizer))
    x = lib.full((2, 7), float(rank))
    for model, o in ((net, optimizer), (other, second)):
        model(x).square().mean().backward()
        o.step()
    again = other.state_dict()
    said.append(max((a - again[name]).abs().max().item() for name, a in net.state_dict().items()) < 1e-6)
    with FSDP.state_dict_type(net, kinds.SHARDED_STATE_DICT):
        parts = net.state_dict()
    said.append(type(parts["0.weight"]).__name__)
    with FSDP.state_dict_type(other, kinds.SHARDED_STATE_DICT):
        other.load_state_dict(parts)
    with FSDP.summon_full_params(other):
        said.append(sorted(name for name, _ in other.named_parameters())[0])
        for p in other.parameters():
            p.data.fill_(float(rank) if list(p.shape) == [64] else 2.0)
    changed = other.state_dict()["0.weight"]
    said += [changed.unique().tolist(), list(changed.shape)]
    with FSDP.summon_full_params(other, writeback=False):
        for p in other.parameters():
            p.data.fill_(9.0)
    return said + [other.state_dict()["0.weight"].unique().tolist(), sum(isinstance(m, FSDP) for m in other.modules())]


def test_state_dicts():
    first, second = ranks.run(states, 2)
    rest = ["0.weight", [33, 7], "0.bias", [33, 7], ["0.weight", "0.bias"], True, "DTensor", "0.bias", [2.0], [33, 7], [2.0], 4]
    assert first == [8, True, *rest] and second == [0, False, *rest]


def precision(lib, rank, size):
    D, W = _modules(lib)
    nn, seen = lib.nn, {}
    lib.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    net.register_buffer("extra", lib.ones(2))
    for i, m in enumerate(net):
        m.register_forward_pre_hook(lambda module, args, i=i: seen.__setitem__(i, str(args[0].dtype).rpartition(".")[2]))
    mixed = D.MixedPrecision(param_dtype=lib.bfloat16, reduce_dtype=lib.float32, buffer_dtype=lib.bfloat16)
    net = D.FullyShardedDataParallel(net, auto_wrap_policy=W.ModuleWrapPolicy({nn.Linear}), mixed_precision=mixed, use_orig_params=True,
                                     device_id=lib.device("cpu"))
    out = net(lib.ones(4, 4))
    out.float().sum().backward()
    dtypes = {str(p.grad.dtype).rpartition(".")[2] for p in net.parameters() if p.grad is not None}
    return seen[0], seen[2], str(out.dtype).rpartition(".")[2], sorted(dtypes), str(net.extra.dtype).rpartition(".")[2], type(net.module[1]).__name__


def details(lib, rank, size):
    D, W = _modules(lib)
    FSDP, nn = D.FullyShardedDataParallel, lib.nn
    with lib.device("meta"):
        net = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2))
    kept = net[2].to_empty(device="cpu")
    with lib.no_grad():
        for p in kept.parameters():
            p.fill_(0.5)
    lib.manual_seed(rank)
    net = FSDP(net, auto_wrap_policy=lambda module, recurse, nonwrapped_numel: recurse or module is net[1], ignored_states=[kept], sync_module_states=True,
               device_id=lib.device("cpu"), use_orig_params=True, param_init_fn=lambda m: (m.to_empty(device="cpu", recurse=False), m.reset_parameters()))
    said = [len(FSDP.fsdp_modules(net)), len(FSDP.fsdp_modules(net, root_only=True)), net.check_is_root(), kept.weight is net.module[2].weight]
    same = lib.stack([x.detach().sum() for x in net.state_dict().values()])
    every = [lib.empty_like(same) for _ in range(size)]
    lib.distributed.all_gather(every, same)
    said.append(lib.equal(every[0], every[1]))
    for p in net.module[1].parameters():
        p.requires_grad_(False)
    net(lib.ones(3, 4)).sum().backward()
    grads = {name: p.grad is not None for name, p in net.named_parameters() if p.numel()}
    said += [grads["0.weight"], grads.get("1.weight"), grads["2.weight"]]
    with FSDP.summon_full_params(net, with_grads=True):
        said.append({name: list(p.grad.shape) for name, p in net.named_parameters() if p.grad is not None}["0.weight"])
    try:
        FSDP(nn.Sequential(net), auto_wrap_policy=W.always_wrap_policy, device_id=lib.device("cpu"))
    except ValueError as error:
        said.append("auto wrapping requires modules to not already have FSDP" in str(error))
    return said


def test_modules_on_meta_ignored_and_frozen():
    for said in ranks.run(details, 2):
        assert said == [2, 1, True, True, True, True, False, True, [6, 4], True]


def scaler(lib, rank, size):
    S = import_module(f"{lib.__name__}.distributed.fsdp.sharded_grad_scaler")
    net = _wrapped(lib, _net(lib), use_orig_params=True)
    optimizer, scale = lib.optim.SGD(net.parameters(), 1.0), S.ShardedGradScaler(device="cpu", init_scale=4.0)
    before = {name: x.clone() for name, x in net.state_dict().items()}
    changed = []
    for i in range(2):
        optimizer.zero_grad()
        scale.scale(net(lib.ones(2, 7)).sum()).backward()
        grads = [p.grad for p in net.parameters() if p.grad is not None and p.grad.numel()]
        if i == 0 and rank == 1:                # one rank alone
            (grads[0].to_local() if hasattr(grads[0], "to_local") else grads[0]).view(-1)[0] = float("inf")
        scale.step(optimizer)
        scale.update()
        changed += [any((x - before[name]).abs().max().item() > 0 for name, x in net.state_dict().items()), scale.get_scale()]
    return changed


def several(lib, rank, size):
    return losses(lib, rank, size, "FULL_SHARD", True, 1, 3), precision(lib, rank, size), scaler(lib, rank, size)


def test_a_few_steps_mixed_precision_and_scaled_losses(library):
    for (worst, norms, apart, names), dtypes, scaled in ranks.run(several, 2, library):
        assert worst < 1e-4 and norms < 1e-4 and apart < 1e-2 and names
        assert dtypes == ("bfloat16", "bfloat16", "bfloat16", ["float32"], "bfloat16", "FullyShardedDataParallel")
        assert scaled == [False, 2.0, True, 2.0]        # a gradient that overflows on one rank makes all skip the step


def test_wrappers_that_compute_again(library):
    lib = import_module(library)
    C = import_module(f"{library}.distributed.algorithms._checkpoint.checkpoint_wrapper")
    nn = lib.nn

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.calls = nn.Linear(3, 3), 0

        def forward(self, x, scale=None):
            self.calls += 1
            return self.linear(x) * scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Part(), Part()

        def forward(self, x):
            return self.second(self.first(x, scale=x), scale=x)
    lib.manual_seed(0)
    plain = Net()
    plain(lib.ones(2, 3)).sum().backward()
    for how in (C.CheckpointImpl.REENTRANT, C.CheckpointImpl.NO_REENTRANT, None):
        net = copy.deepcopy(plain)
        net.zero_grad()
        wrapper = C.offload_wrapper if how is None else lambda module, how=how: C.checkpoint_wrapper(module, checkpoint_impl=how)
        C.apply_activation_checkpointing(net, checkpoint_wrapper_fn=wrapper, check_fn=lambda m: isinstance(m, Part))
        assert isinstance(net.first, C.ActivationWrapper) and list(net.state_dict()) == list(plain.state_dict())
        net.load_state_dict(plain.state_dict())
        before = net.second._checkpoint_wrapped_module.calls
        net(lib.ones(2, 3, requires_grad=True)).sum().backward()
        assert net.second._checkpoint_wrapped_module.calls - before == (1 if how is None else 2)
        for p, q in zip(net.parameters(), plain.parameters()):
            assert lib.allclose(p.grad, q.grad)


def checkpoints(lib, rank, size, folder):
    D, _ = _modules(lib)
    C = import_module(f"{lib.__name__}.distributed.checkpoint")
    S = import_module(f"{lib.__name__}.distributed.checkpoint.state_dict")
    x = lib.full((2, 7), rank + 1.0)

    def trained(steps):
        net = _wrapped(lib, _net(lib), use_orig_params=True)
        optimizer = lib.optim.Adam(net.parameters(), 1e-2)
        for _ in range(steps):
            step(net, optimizer)
        return net, optimizer

    def step(net, optimizer):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    net, optimizer = trained(2)
    model, of_optimizer = S.get_state_dict(net, optimizer)
    C.save({"model": model, "optimizer": of_optimizer}, checkpoint_id=folder)
    other, second = trained(0)
    into = dict(zip(("model", "optimizer"), S.get_state_dict(other, second)))
    C.load(into, checkpoint_id=folder)
    S.set_state_dict(other, second, model_state_dict=into["model"], optim_state_dict=into["optimizer"])
    third, its = trained(0)
    whole = S.StateDictOptions(full_state_dict=True)
    model, of_optimizer = S.get_state_dict(net, optimizer, options=whole)
    shapes = [list(model["0.weight"].shape), list(of_optimizer["state"]["0.weight"]["exp_avg"].shape)]
    S.set_state_dict(third, its, model_state_dict=model, optim_state_dict=of_optimizer, options=whole)
    for pair in ((net, optimizer), (other, second), (third, its)):
        step(*pair)
    first = net.state_dict()
    return shapes, [max((x - first[name]).abs().max().item() for name, x in one.state_dict().items()) for one in (other, third)]


def test_checkpoints(tmp_path):
    for shapes, apart in ranks.run(checkpoints, 2, "tede", str(tmp_path)):
        assert shapes == [[33, 7]] * 2 and max(apart) < 1e-6
