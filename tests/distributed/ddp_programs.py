"""What the ranks of test_ddp.py and its neighbours do: functions of the library, called in each process with its group made.

A function returns what the test looks at: numbers, lists, texts."""
import copy
import importlib
import io
import pathlib
import sys
import traceback
import warnings

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
EPSILON = 1e-6


def part(lib, name):
    return importlib.import_module(f"{lib.__name__}.{name}")


def wrapper(lib):
    return part(lib, "nn.parallel").DistributedDataParallel


def filled(lib, model):
    """The model with parameters that both libraries and all ranks can compute."""
    with lib.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((0.3 * lib.sin(lib.arange(p.numel(), dtype=lib.float64) * 0.37 + i)).reshape(p.shape))
    return model


def mlp(lib):
    nn = lib.nn
    return filled(lib, nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)))


def rows(lib, n, *shape):
    count = n
    for size in shape:
        count *= size
    return lib.cos(lib.arange(count, dtype=lib.float64) * 0.11).to(lib.float32).reshape(n, *shape)


def gpt(lib):
    sys.path.insert(0, str(EXAMPLES))
    model = importlib.import_module("gpt").make_model(lib, context=16, width=32, layers=2, heads=2)
    with lib.no_grad():
        for i, p in enumerate(model.parameters()):
            if p.dim() > 1:
                p.copy_((0.1 * lib.sin(lib.arange(p.numel(), dtype=lib.float64) * 0.37 + i)).reshape(p.shape))
    return model


def cnn(lib):
    nn = lib.nn
    return filled(lib, nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 9, 5)))


def model_and_loss(lib, kind, n):
    """A model, a batch of n and what is minimised, a mean over the batch."""
    if kind == "gpt":
        tokens = (lib.arange(n * 17) * 37 % 256).reshape(n, 17)
        return gpt(lib), tokens, lambda model, x: lib.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    if kind == "cnn":
        return cnn(lib), rows(lib, n, 1, 12, 12), lambda model, x: (model(x) ** 2).mean()
    return mlp(lib), rows(lib, n, 6), lambda model, x: (model(x) ** 2).mean()


def difference(ours, theirs):
    """Of gradients: the largest, where they are above 1 beside the parameter's largest."""
    return max(float((p.grad - q.grad).abs().max() / q.grad.abs().max().clamp(min=1)) for p, q in zip(ours.parameters(), theirs.parameters()))


def compare(lib, kind, steps=3, each=2, accumulate=False, set_to_none=True, **options):
    """The largest difference between gradients here and those of one process on the joined batch, over some steps."""
    dist = lib.distributed
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model, batch, loss = model_and_loss(lib, kind, each * ranks)
    alone = copy.deepcopy(model)
    if rank:
        with lib.no_grad():
            for p in model.parameters():
                p.add_(1)               # rank 0's are what counts
    wrapped, own, worst = wrapper(lib)(model, **options), batch[each * rank:each * (rank + 1)], 0.0
    optimizers = [lib.optim.SGD(m.parameters(), lr=0.05) for m in (model, alone)]
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)
        if accumulate:
            with wrapped.no_sync():
                loss(wrapped, own).backward()
            loss(alone, batch).backward()
        loss(wrapped, own).backward()
        loss(alone, batch).backward()
        worst = max(worst, difference(model, alone))
        for optimizer in optimizers:
            optimizer.step()
    return worst


def all_options(lib, kind="mlp"):
    tiny = 0.0005                       # MiB: several buckets
    return {str(options): compare(lib, kind, **options) for options in (
        {}, {"gradient_as_bucket_view": True}, {"gradient_as_bucket_view": True, "set_to_none": False}, {"set_to_none": False},
        {"bucket_cap_mb": tiny}, {"bucket_cap_mb": tiny, "gradient_as_bucket_view": True}, {"find_unused_parameters": True},
        {"find_unused_parameters": True, "bucket_cap_mb": tiny}, {"static_graph": True}, {"static_graph": True, "bucket_cap_mb": tiny},
        {"accumulate": True}, {"accumulate": True, "gradient_as_bucket_view": True}, {"bucket_cap_mb_list": [tiny, 25]})}


def models(lib):
    return {kind: compare(lib, kind) for kind in ("mlp", "cnn", "gpt")}


def to_the_last_bit(lib):
    """On two ranks a sum of two halves has one order: one process adds the two gradients in it, too."""
    dist = lib.distributed
    found = []
    for kind in ("mlp", "cnn", "gpt"):
        model, batch, loss = model_and_loss(lib, kind, 2)
        alone, wrapped = copy.deepcopy(model), wrapper(lib)(model, gradient_as_bucket_view=True)
        loss(wrapped, batch[dist.get_rank():][:1]).backward()
        for i in range(2):
            (loss(alone, batch[i:i + 1]) / 2).backward()
        found.append(difference(model, alone))
    return found


class Branches:
    """A model with layers a, b and c: what they are used for is said by the call."""

    def __new__(cls, lib):
        class Model(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = (lib.nn.Linear(6, 6, bias=False) for _ in range(3))

            def forward(self, x, names="abc"):
                outputs = [getattr(self, name)(x) for name in names]
                return {"first": outputs[0], "rest": outputs[1:]} if len(names) > 1 else outputs[0]
        return filled(lib, Model())


class Hidden:
    """A model whose output is in an object in which nobody looks for it."""

    def __new__(cls, lib):
        class Output:
            def __init__(self, output):
                self.output = output

        class Model(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = lib.nn.Linear(6, 6)

            def forward(self, x):
                return Output(self.a(x))
        return Model()


def sums(model):
    return [None if p.grad is None else round(float(p.grad.double().sum()), 4) for p in model.parameters()]


def unused_parameters(lib):
    """Of layers that no rank uses, that one rank uses, and whose output isn't part of the loss."""
    rank, x, found = lib.distributed.get_rank(), rows(lib, 2, 6), []
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = wrapper(lib)(Branches(lib), find_unused_parameters=True, **options)
        for names in ("a", "ab" if rank else "a", "abc", "a"):
            for p in model.parameters():
                p.grad = None
            output = model(x, names)
            first = output["first"] if isinstance(output, dict) else output
            rest = output["rest"][:1] if isinstance(output, dict) else []
            (first.sum() + sum(y.sum() for y in rest)).backward()
            found.append(sums(model))
    return found


def static_graph(lib):
    rank, x, found = lib.distributed.get_rank(), rows(lib, 2, 6), []
    model = wrapper(lib)(Branches(lib), static_graph=True)
    for _ in range(3):
        model.zero_grad()
        output = model(x, "ab" if rank else "a")
        (sum(y.sum() for y in [output["first"], *output["rest"]]) if rank else output.sum()).backward()
        found.append(sums(model))
    return found, model._get_ddp_logging_data()["static_graph"]


def message(call):
    try:
        call()
    except (RuntimeError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def refusals(lib):
    rank, x, DDP = lib.distributed.get_rank(), rows(lib, 2, 6), wrapper(lib)
    found = {}
    model = DDP(Branches(lib))
    model(x, "a").sum().backward()
    found["unfinished"] = message(lambda: model(x, "a"))
    found["said"] = model._get_ddp_logging_data()["error"]
    model = DDP(Hidden(lib), find_unused_parameters=True)
    found["hidden"] = message(lambda: model(x).output.sum().backward())
    model = DDP(Branches(lib))
    found["no backward pass"] = [message(lambda: model(x)) for _ in range(2)]
    frozen = Branches(lib)
    frozen.requires_grad_(False)
    found["frozen"] = message(lambda: DDP(frozen))
    found["lazy"] = message(lambda: DDP(lib.nn.LazyLinear(3)))
    found["device_ids"] = message(lambda: DDP(Branches(lib), device_ids=[0]))
    found["devices"] = message(lambda: DDP(Branches(lib), device_ids=[0, 1]))
    found["hook"] = message(lambda: DDP(Branches(lib)).register_comm_hook(None, 1))

    def annotated(state, bucket: int):
        return None

    def of_no_future(state, bucket):
        return 1
    found["annotation"] = message(lambda: DDP(Branches(lib)).register_comm_hook(None, annotated))
    model = DDP(Branches(lib))
    model.register_comm_hook(None, of_no_future)
    found["twice"] = message(lambda: model.register_comm_hook(None, of_no_future))
    output = model(x)
    found["no future"] = message((output["first"] + output["rest"][0] + output["rest"][1]).sum().backward)
    model = DDP(Branches(lib), static_graph=True)
    model(x, "a").sum().backward()
    output = model(x, "ab")
    found["changed"] = message((output["first"] + output["rest"][0]).sum().backward)
    return found


def other_shapes(lib):
    rank = lib.distributed.get_rank()
    return message(lambda: wrapper(lib)(lib.nn.Linear(3, 2 + rank)))


def used_twice(lib):
    """A parameter that is used at two places has one gradient, the sum; a module may be checkpointed."""
    checkpoint, found = part(lib, "utils.checkpoint").checkpoint, []

    class Model(lib.nn.Module):
        def __init__(self, how, times=1):
            super().__init__()
            self.a, self.how, self.times = lib.nn.Linear(6, 6), how, times
            self.b = lib.nn.Linear(6, 6)

        def forward(self, x):
            if self.how is None:
                return self.b(self.a(self.a(x)))
            for _ in range(self.times):
                x = checkpoint(self.a, x, use_reentrant=self.how)
            return checkpoint(self.b, x, use_reentrant=self.how)
    rank = lib.distributed.get_rank()
    for how, times, options in ((None, 1, {}), (False, 1, {}), (True, 1, {}), (False, 2, {}), (True, 2, {"static_graph": True})):
        model = wrapper(lib)(filled(lib, Model(how, times)), **options)
        for _ in range(2):
            model.zero_grad()
            model((rows(lib, 4, 6)[2 * rank:2 * rank + 2]).requires_grad_()).pow(2).sum().backward()
            found.append(sums(model))
    return found


def sparse_gradients(lib):
    rank = lib.distributed.get_rank()
    model = wrapper(lib)(filled(lib, lib.nn.Sequential(lib.nn.EmbeddingBag(10, 4, sparse=True), lib.nn.Linear(4, 2))))
    for _ in range(2):
        model.zero_grad()
        model(lib.tensor([[1, 2, 3 + rank]])).sum().backward()
    grad = model.module[0].weight.grad
    return grad.layout is lib.sparse_coo, grad.to_dense().tolist(), sums(model.module[1])


def buffers(lib):
    """Rank 0's buffers at the start of a forward pass, unless they are to be left alone."""
    rank, DDP, found = lib.distributed.get_rank(), wrapper(lib), []

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = lib.nn.Linear(2, 2)
            self.register_buffer("seen", lib.full((2,), float(rank)))

        def forward(self, x):
            return self.a(x) + self.seen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for options in ({}, {"broadcast_buffers": False}):
            model = DDP(Model(), **options)
            found.append(model.module.seen.tolist())
            with lib.no_grad():
                model.module.seen.fill_(10.0 + rank)
            model(lib.ones(1, 2)).sum().backward()
            found.append(model.module.seen.tolist())
    return found


def joined(lib):
    """Ranks with unequally many inputs; the effect of both divisors, and the error that ends all."""
    rank, found = lib.distributed.get_rank(), []
    for divide in (True, False):
        model = wrapper(lib)(mlp(lib))
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=divide):
            for _ in range(2 + 2 * rank):
                optimizer.zero_grad()
                model(rows(lib, 2, 6) + rank).pow(2).mean().backward()
                optimizer.step()
        found.append(round(sum(float(p.double().abs().sum()) for p in model.parameters()), 4))
    model = wrapper(lib)(mlp(lib))

    def loop():
        with model.join(throw_on_early_termination=True):
            for _ in range(2 + rank):
                model(rows(lib, 2, 6)).sum().backward()
    return found, message(loop)


def trained(lib, state, hook, steps=6, **options):
    rank, ranks = lib.distributed.get_rank(), lib.distributed.get_world_size()
    model = wrapper(lib)(filled(lib, lib.nn.Sequential(lib.nn.Linear(16, 32), lib.nn.Tanh(), lib.nn.Linear(32, 32), lib.nn.Tanh(), lib.nn.Linear(32, 4))),
                         **options)
    if hook is not None:
        model.register_comm_hook(state, hook)
    optimizer, x = lib.optim.SGD(model.parameters(), lr=0.1), rows(lib, 4 * ranks, 16)[4 * rank:4 * rank + 4]
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    return [round(float(p.double().abs().sum()), 3) for p in model.parameters()]


def hooks(lib):
    """Parameters after some steps with each hook that PyTorch can run on a CPU, too."""
    folder = "distributed.algorithms.ddp_comm_hooks"
    default, power, local, debugging = (part(lib, f"{folder}.{name}") for name in ("default_hooks", "powerSGD_hook", "post_localSGD_hook", "debugging_hooks"))
    dist, found = lib.distributed, {"none": trained(lib, None, None)}
    for hook in (default.allreduce_hook, default.fp16_compress_hook, debugging.noop_hook, default.fp16_compress_wrapper(default.allreduce_hook)):
        found[hook.__name__] = trained(lib, None, hook)
    found["local"] = trained(lib, local.PostLocalSGDState(None, dist.group.WORLD, 3), local.post_localSGD_hook)
    for batched in (False, True):
        state = power.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, batch_tensors_with_same_shape=batched)
        found[f"power {batched}"] = trained(lib, state, power.powerSGD_hook, 8)
    state = power.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2, orthogonalization_epsilon=1e-8)
    found["power of rank 4"] = trained(lib, state, power.powerSGD_hook, 8)
    return found


def more_hooks(lib):
    """Those that PyTorch can't."""
    folder = "distributed.algorithms.ddp_comm_hooks"
    default, power, quantized = (part(lib, f"{folder}.{name}") for name in ("default_hooks", "powerSGD_hook", "quantization_hooks"))
    found = {hook.__name__: trained(lib, None, hook) for hook in (default.bf16_compress_hook, quantized.quantization_pertensor_hook,
                                                                  quantized.quantization_perchannel_hook)}
    state = power.PowerSGDState(None, matrix_approximation_rank=42, start_powerSGD_iter=2, min_compression_rate=0.1)
    found["all of the matrix"] = trained(lib, state, power.batched_powerSGD_hook)
    MixedPrecision = part(lib, "nn.parallel.distributed")._MixedPrecision
    found["mixed"] = trained(lib, None, None, mixed_precision=MixedPrecision(param_dtype=lib.bfloat16, reduce_dtype=lib.float32))
    found["mixed views"] = trained(lib, None, None, mixed_precision=MixedPrecision(param_dtype=lib.bfloat16, reduce_dtype=lib.bfloat16),
                                   gradient_as_bucket_view=True)
    return found, trained(lib, None, None)


def what_hooks_see(lib):
    found = []

    def hook(state, bucket):
        found.append((bucket.index(), bucket.is_last(), list(bucket.buffer().shape), [list(grad.shape) for grad in bucket.gradients()],
                      len(bucket.parameters())))
        future = part(lib, "futures").Future()
        future.set_result(lib.full_like(bucket.buffer(), 2.0))
        return future
    model = wrapper(lib)(mlp(lib), bucket_cap_mb=0.0005)
    model.register_comm_hook(None, hook)
    for _ in range(2):
        model(rows(lib, 2, 6)).sum().backward()
    return found, [float(p.grad.mean()) for p in model.parameters()]


def fused_optimizers(lib):
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for optimizer in (lib.optim.SGD, lib.optim.Adam, lib.optim.AdamW):
            model = wrapper(lib)(mlp(lib))
            model._register_fused_optim(optimizer, 0.01)
            for _ in range(3):
                model.zero_grad()
                model(rows(lib, 2, 6)).pow(2).mean().backward()
            found[optimizer.__name__] = [round(float(p.double().abs().sum()), 4) for p in model.parameters()]
    return found


def zero(lib):
    """ZeroRedundancyOptimizer beside the optimizer that it divides, and its state."""
    Zero, dist, found = part(lib, "distributed.optim").ZeroRedundancyOptimizer, lib.distributed, {}
    rank, x = dist.get_rank(), rows(lib, 4, 6)
    for view in (False, True):
        models = [wrapper(lib)(mlp(lib)) for _ in range(2)]
        whole = lib.optim.Adam(models[0].parameters(), lr=0.01)
        divided = Zero(models[1].parameters(), lib.optim.Adam, parameters_as_bucket_view=view, lr=0.01)
        for _ in range(4):
            for model, optimizer in zip(models, (whole, divided)):
                optimizer.zero_grad()
                model(x + rank).pow(2).mean().backward()
                optimizer.step()
        found[f"difference {view}"] = max(float((p - q).abs().max()) for p, q in zip(*(model.parameters() for model in models)))
        divided.consolidate_state_dict(to=1)
        found[f"state {view}"] = sorted(divided.state_dict()["state"]) if rank == 1 else message(divided.state_dict)
        found[f"own {view}"] = sum(p.numel() for group in divided.optim.param_groups for p in group["params"])
        sent = [divided.state_dict() if rank == 1 else None]
        dist.broadcast_object_list(sent, src=1)
        again = Zero(models[1].parameters(), lib.optim.Adam, parameters_as_bucket_view=view, lr=0.5)
        again.load_state_dict(sent[0])
        found[f"rate {view}"] = again.param_groups[0]["lr"], again.optim.param_groups[0]["lr"]
    model = wrapper(lib)(mlp(lib))
    optimizer = Zero(model.parameters(), lib.optim.SGD, lr=0.1)
    with part(lib, "distributed.algorithms.join").Join([model, optimizer]):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
    found["joined"] = [round(float(p.double().abs().sum()), 4) for p in model.parameters()]
    return found


def zero_within_the_pass(lib):
    """Two passes go by before the first step."""
    folder = "distributed.algorithms.ddp_comm_hooks"
    default, overlap = part(lib, f"{folder}.default_hooks"), part(lib, f"{folder}.ddp_zero_hook")
    Zero, x, found = part(lib, "distributed.optim").ZeroRedundancyOptimizer, rows(lib, 4, 6) + lib.distributed.get_rank(), {}
    for hook in (None, overlap.hook_with_zero_step, overlap.hook_with_zero_step_interleaved):
        for shard in (False, True):
            model = wrapper(lib)(mlp(lib), bucket_cap_mb=0.0005)
            if hook is None:
                optimizer, steps = lib.optim.Adam(model.parameters(), lr=0.01), 3
            else:
                optimizer, steps = Zero(model.parameters(), lib.optim.Adam, overlap_with_ddp=True, lr=0.01), 5
                model.register_comm_hook(None, hook(default.allreduce_hook, model, optimizer, shard))
            for _ in range(steps):
                model.zero_grad()
                model(x).pow(2).mean().backward()
                if hook is None:
                    optimizer.step()
            found[hook and hook.__name__, shard] = [round(float(p.double().abs().sum()), 4) for p in model.parameters()]
    return list(found.values())


def averaged(lib):
    """Parameters that are averaged now and then, by an optimizer that knows when."""
    averagers = part(lib, "distributed.algorithms.model_averaging.averagers")
    hierarchical = part(lib, "distributed.algorithms.model_averaging.hierarchical_model_averager").HierarchicalModelAverager
    Local, rank, found = part(lib, "distributed.optim").PostLocalSGDOptimizer, lib.distributed.get_rank(), []
    ranks = lib.distributed.get_world_size()
    for averager in (averagers.PeriodicModelAverager(period=2, warmup_steps=1), hierarchical({2: ranks}, warmup_steps=1)):
        model = mlp(lib)
        optimizer = Local(lib.optim.SGD(model.parameters(), lr=0.1), averager)
        for _ in range(4):
            optimizer.zero_grad()
            model(rows(lib, 2, 6) + rank).pow(2).mean().backward()
            optimizer.step()
        found.append([round(float(p.double().abs().sum()), 4) for p in model.parameters()])
        state = optimizer.state_dict()
        found.append(state["step"])
        averager.step = 0
        optimizer.load_state_dict(state)
        found.append(averager.step)
    return found


def optimizers_in_the_pass(lib):
    apply = part(lib, "distributed.optim")._apply_optimizer_in_backward
    x, found = rows(lib, 2, 6) + lib.distributed.get_rank(), []
    for view in (False, True):
        models = [mlp(lib) for _ in range(2)]
        apply(lib.optim.SGD, models[1].parameters(), {"lr": 0.1})
        wrapped, optimizer = [wrapper(lib)(model, gradient_as_bucket_view=view) for model in models], lib.optim.SGD(models[0].parameters(), lr=0.1)
        for _ in range(3):
            for model in wrapped:
                model(x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append(max(float((p - q).abs().max()) for p, q in zip(*(model.parameters() for model in models))))
        found.append(all(p.grad is None for p in models[1].parameters()))
    return found


def synchronised_norm(lib):
    """Beside a batch norm in one process on the joined batch: output, gradients and statistics. Ranks have unequally many rows, one may have none."""
    rank, nn, found = lib.distributed.get_rank(), lib.nn, []
    for sizes, shape in (((3, 3), (5,)), ((1, 5), (5,)), ((2, 0), (5, 4, 4)), ((3, 2), (5, 4, 4))):
        plain = filled(lib, (nn.BatchNorm1d if len(shape) == 1 else nn.BatchNorm2d)(5))
        norm = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
        whole = (rows(lib, sum(sizes), *shape) * 3 + 2).requires_grad_()
        start, end = sum(sizes[:rank]), sum(sizes[:rank + 1])
        own = whole.detach()[start:end].clone().requires_grad_()
        expected, output = plain(whole), norm(own)
        weights = lib.sin(lib.arange(expected.numel(), dtype=lib.float32)).reshape(expected.shape)
        (expected * weights).sum().backward()
        (output * weights[start:end]).sum().backward()
        for p in norm.parameters():
            lib.distributed.all_reduce(p.grad)
        pairs = [(expected[start:end], output), (whole.grad[start:end], own.grad), (plain.running_mean, norm.running_mean),
                 (plain.running_var, norm.running_var), (plain.weight.grad, norm.weight.grad), (plain.bias.grad, norm.bias.grad)]
        found.append(max([float((a - b).abs().max()) for a, b in pairs if a.numel()]))
    norm.eval()
    return found, float((norm(own) - plain.eval()(own)).abs().max())


def kept_and_copied(lib):
    """State dicts with their prefix, pickles and copies, which reduce as the wrapper does."""
    model, buffer = wrapper(lib)(mlp(lib)), io.BytesIO()
    lib.save(model, buffer)
    buffer.seek(0)
    found = [sorted(model.state_dict())[0]]
    x = rows(lib, 2, 6) + lib.distributed.get_rank()
    for one in (model, lib.load(buffer, weights_only=False), copy.deepcopy(model)):
        one(x).pow(2).sum().backward()
        found.append(sums(one))
    group = lib.distributed.new_group()
    return found, message(lambda: copy.deepcopy(wrapper(lib)(mlp(lib), process_group=group)))


def known(lib):
    """What the wrapper says about itself."""
    model = wrapper(lib)(mlp(lib))
    model._set_ddp_runtime_logging_sample_rate(2)
    for _ in range(13):
        model(rows(lib, 2, 6)).sum().backward()
    data = model._get_ddp_logging_data()
    names = ("world_size", "rank", "module_name", "device_ids", "output_device", "broadcast_buffers", "bucket_cap_bytes", "find_unused_parameters", "dtypes",
             "total_parameter_size_bytes", "num_parameter_tensors", "bucket_sizes", "iteration", "has_rebuilt_buckets", "rebuilt_bucket_sizes",
             "backend_name")
    order = [sorted(data[name].replace(",", "").split()) for name in ("rebuilt_per_bucket_param_indices", "prev_iteration_grad_ready_order_indices")]
    return [data[name] for name in names], order, data["avg_backward_compute_time"] > 0


def only_some_parameters(lib):
    """Parameters and buffers that the wrapper is to leave alone, and ones that want no gradient."""
    DDP, rank = wrapper(lib), lib.distributed.get_rank()
    model = Branches(lib)
    model.b.weight.requires_grad_(False)
    with lib.no_grad():
        model.c.weight.fill_(float(rank))
    DDP._set_params_and_buffers_to_ignore_for_model(model, ["c.weight"])
    wrapped, x = DDP(model), rows(lib, 2, 6) + rank
    output = wrapped(x)
    (output["first"] + output["rest"][1]).sum().backward()
    return float(model.c.weight.mean()), sums(model)[:2], rank == 0 or sums(model)[2] != sums(model)[0]


def lone_wrapper_goes_away(lib):
    import gc
    import weakref
    model = mlp(lib)
    wrapped = wrapper(lib)(model)
    wrapped(rows(lib, 2, 6)).sum().backward()
    gone, reducer = weakref.ref(wrapped), weakref.ref(wrapped.reducer)
    del wrapped
    gc.collect()
    model(rows(lib, 2, 6)).sum().backward()         # not reduced any more
    return gone() is None and reducer() is None



# What each library can run; `everything` runs it all, for starting processes takes longer than most of them.
SHARED = (models, all_options, unused_parameters, static_graph, refusals, used_twice, sparse_gradients, buffers, joined, only_some_parameters, kept_and_copied,
          known, lone_wrapper_goes_away, hooks, what_hooks_see, fused_optimizers, averaged, zero)
OURS = (to_the_last_bit, other_shapes, more_hooks, optimizers_in_the_pass, zero_within_the_pass, synchronised_norm)


def everything(lib, rank, ranks, *names):
    """{program: (result, traceback)}, of those that are named or of all that the library can run."""
    warnings.simplefilter("ignore")
    found, programs = {}, SHARED if lib.__name__ == "torch" else SHARED + OURS
    for program in [program for program in programs if not names or program.__name__ in names]:
        try:
            found[program.__name__] = program(lib), None
        except Exception:
            found[program.__name__] = None, traceback.format_exc()
    return found
