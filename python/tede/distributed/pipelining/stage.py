"""A stage: its part of the model, and what goes to and comes from its neighbours.

Stage s is on rank s mod the group's size. Outputs go to the next stage as messages with the tag 2s, gradients of inputs to the one before with 2s+1, so the order
in which a rank computes its stages is none of its neighbours' concern. Before the first outputs of a step goes what they are: shapes, dtypes, and whether gradients
come back."""
import contextlib
import pickle

import tede
import tede.distributed as dist
from tede import Tensor, nn
from tede.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

__all__ = ["PipelineStage"]


class _PipelineStageBase:
    """The base of stages, for programs that ask."""


class _Mailbox:
    """Messages between two stages in one direction. Both may be on this rank."""

    def __init__(self, group, here, there, tag):
        self.group, self.peer, self.tag = group, None if here == there else there, tag
        self.kinds, self.kept, self.coming = None, [], {}           # kinds: [(shape, dtype, requires gradients)]
        self.on_way = []                                            # sends, with what they send

    def send(self, tensors, kinds=None):
        tensors = [x.detach().contiguous() for x in tensors]
        if self.peer is None:
            self.kept.append((tensors, kinds))
            return
        if kinds is not None and self.kinds not in (None, kinds):
            raise RuntimeError(f"outputs of microbatches differ: {self.kinds} and {kinds}; split the batch into equal parts")
        if kinds is not None and self.kinds is None:
            self.kinds = kinds
            data = tede.frombuffer(bytearray(pickle.dumps(kinds)), dtype=tede.uint8)
            tensors = [tede.tensor([data.numel()]), data, *tensors]
        self.on_way += [(dist.isend(x, group=self.group, tag=self.tag, group_dst=self.peer), x) for x in tensors]

    def expect(self, number, device):
        """Begin to receive, once it is known what comes."""
        if self.peer is None or self.kinds is None or number in self.coming:
            return
        into = [tede.empty(shape, dtype=dtype, device=device) for shape, dtype, _ in self.kinds]
        self.coming[number] = [(dist.irecv(x, group=self.group, tag=self.tag, group_src=self.peer), x) for x in into]

    def receive(self, number, device):
        if self.peer is None:
            tensors, self.kinds = self.kept.pop(0) if self.kinds is None else (self.kept.pop(0)[0], self.kinds)
            return tensors
        if self.kinds is None:
            size = tede.zeros(1, dtype=tede.int64)
            dist.irecv(size, group=self.group, tag=self.tag, group_src=self.peer).wait()
            data = tede.empty(int(size), dtype=tede.uint8)
            dist.irecv(data, group=self.group, tag=self.tag, group_src=self.peer).wait()
            self.kinds = pickle.loads(bytes(data.tolist()))
        self.expect(number, device)
        for work, _ in (coming := self.coming.pop(number)):
            work.wait()
        return [x for _, x in coming]

    def finish(self):
        for work, _ in self.on_way:
            work.wait()
        self.on_way, self.coming, self.kinds = [], {}, None         # the next step may have other shapes


def _as_tuple(output):
    """A module's output as a tuple of tensors."""
    outputs = tuple(output) if isinstance(output, (list, tuple)) else (output,)
    for x in outputs:
        if not isinstance(x, Tensor):
            raise TypeError(f"a stage's outputs are tensors or tuples of them, not {type(x).__name__}")
    return outputs


class PipelineStage(_PipelineStageBase):
    """Stage `stage_index` of `num_stages`. `input_args` and `output_args`, tensors of a microbatch, say what shapes are expected; without them anything goes."""

    def __init__(self, submodule, stage_index, num_stages, device, input_args=None, output_args=None, group=None, dw_builder=None):
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if dw_builder is not None:
            raise NotImplementedError("PipelineStage: gradients of weights are found in the graph, so there is no use for dw_builder")
        self.submod, self.stage_index, self.num_stages, self.device, self.group = submodule, stage_index, num_stages, tede.device(device), group
        self.group_rank, self.group_size = dist.get_rank(group), dist.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        self.inputs_meta = None if input_args is None else _as_tuple(input_args)
        self._outputs_meta = None if output_args is None else _as_tuple(output_args)
        self.has_backward, self.boxes = False, None
        self.clear_runtime_states()

    @property
    def is_first(self):
        return self.stage_index == 0

    @property
    def is_last(self):
        return self.stage_index == self.num_stages - 1

    def connect(self, local):
        """Mailboxes to the neighbours; `local`: the stages of this rank, by number."""
        if self.boxes is not None:
            return
        here, self.boxes = self.group_rank, {}
        i = self.stage_index
        for name, other, shared, tag in (("inputs", i - 1, "outputs", 2 * i - 2), ("grads", i + 1, "back", 2 * i + 3), ("outputs", i + 1, "inputs", 2 * i),
                                         ("back", i - 1, "grads", 2 * i + 1)):
            if 0 <= other < self.num_stages:
                there = self.stage_index_to_group_rank[other]
                neighbour = local.get(other)
                known = neighbour is not None and neighbour.boxes is not None and neighbour.boxes.get(shared)
                self.boxes[name] = known or _Mailbox(self.group, here, there, tag)

    def clear_runtime_states(self):
        self.fwd_cache, self.output_chunks, self._second = {}, [], {}

    def finish(self):
        """Wait until what was sent has gone."""
        for box in self.boxes.values():
            box.finish()

    # ---- computing --------------------------------------------------------------------------------------------------------------

    def expect(self, forward, number):
        """Begin to receive what this stage needs for a microbatch."""
        box = self.boxes.get("inputs" if forward else "grads")
        if box is not None:
            box.expect(number, self.device)

    def forward_one_chunk(self, number, args, kwargs=None):
        """The outputs of a microbatch: of `args` on the first stage, else of what comes from the one before."""
        if self.is_first:
            inputs = args
        else:
            box = self.boxes["inputs"]
            inputs = tuple(x.requires_grad_(needs and self.has_backward) for x, (_, _, needs) in zip(box.receive(number, self.device), box.kinds))
        self._check("input", inputs, self.inputs_meta)
        with self.submod.no_sync() if isinstance(self.submod, nn.parallel.DistributedDataParallel) else contextlib.nullcontext():
            output = self.submod(*inputs, **(kwargs or {}))
        outputs = _as_tuple(output)
        self._check("output", outputs, self._outputs_meta)
        if self.has_backward:
            self.fwd_cache[number] = outputs, [x for x in inputs if isinstance(x, Tensor)]
        if self.is_last:
            self.output_chunks.append(output)
        else:
            self.boxes["outputs"].send(outputs, [(tuple(x.shape), x.dtype, x.requires_grad) for x in outputs])
        return output

    def _check(self, what, given, expected):
        for x, y in zip(given, expected or ()):
            if x.shape != y.shape or x.dtype != y.dtype:
                raise ValueError(f"Stage {self.stage_index} forward {what}s: expected {tuple(y.shape)} of {y.dtype}, got {tuple(x.shape)} of {x.dtype}")

    def backward_one_chunk(self, number, loss=None, full_backward=True, last_backward=False):
        """Gradients of a microbatch: of its loss on the last stage, else by those that come from the next one. Of its inputs alone without
        `full_backward`; backward_weight_one_chunk does the rest."""
        outputs, inputs = self.fwd_cache.pop(number)
        needed, grads = [x for x in outputs if x.requires_grad], None
        with self._sync_of(last_backward, outputs):
            if self.is_last:
                needed = [loss]
            else:
                box = self.boxes["grads"]
                box.kinds = [(tuple(x.shape), x.dtype, False) for x in needed]
                grads = box.receive(number, self.device)
            if full_backward:
                tede.autograd.backward(needed, grads)
            else:
                self._begin_backward(number, needed, grads, inputs)
        if not self.is_first:
            self.boxes["back"].send([tede.zeros_like(x) if x.grad is None else x.grad for x in inputs if x.requires_grad])

    def _begin_backward(self, number, outputs, grads, inputs):
        from tede.distributed.fsdp import FSDPModule, FullyShardedDataParallel
        if isinstance(self.submod, (nn.parallel.DistributedDataParallel, FSDPModule, FullyShardedDataParallel)):
            raise NotImplementedError("a backward pass in two parts of a stage whose gradients are reduced over data-parallel ranks")
        self._second[number] = stage_backward_input(outputs, grads, inputs, self.submod.parameters())[1]

    def backward_weight_one_chunk(self, number):
        """Gradients of the weights, after those of the inputs."""
        stage_backward_weight(self.submod.parameters(), self._second.pop(number))

    @contextlib.contextmanager
    def _sync_of(self, last, outputs):
        """Gradients of the last microbatch alone are reduced over data-parallel ranks."""
        from tede.distributed.fsdp import FSDPModule, FullyShardedDataParallel
        if isinstance(self.submod, nn.parallel.DistributedDataParallel):
            if not last:
                with self.submod.no_sync():
                    yield
                return
            self.submod.reducer.prepare_for_backward([x for x in outputs if x.requires_grad])
        elif isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last)
        elif isinstance(self.submod, FullyShardedDataParallel) and not last:
            with self.submod.no_sync():
                yield
            return
        yield

    def scale_grads(self, grad_scale_factor):
        """Divide gradients by a number: that of microbatches, whose losses are means."""
        if grad_scale_factor != 1:
            for p in self.submod.parameters():
                if p.grad is not None:
                    p.grad.div_(grad_scale_factor)
