"""A group of parameters that are gathered and reduced together.

Each rank keeps a shard of every parameter, a DTensor, which is what the module, the optimizer and checkpoints see. Before the module computes, one all-gather
makes the whole parameters, which stand in the module until they are resharded; after their gradients are complete, one reduce-scatter makes the gradients of
the shards. The whole parameters are the same tensors each time: freeing them takes the memory of their storage away, and gathering gives it back, so what
autograd has saved of them is there again when its backward needs it."""
import math

import tede
import tede.distributed as dist
from tede import nn
from tede.distributed.tensor import DTensor, Replicate, Shard
from tede.distributed.tensor import _collectives as comm
from tede.distributed.tensor._made import made
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from tede.distributed.tensor.placement_types import _StridedShard


class Parameter:
    """One parameter: its shard, the whole tensor, and the places in modules where it is."""

    def __init__(self, parameter, places, mesh, shard_dim, on_grad):
        self.places, self.mesh = places, mesh
        self.dim, self.n, self.rank = shard_dim, mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
        data = parameter.detach()
        self.outer = None               # of a tensor that is a DTensor on another mesh already: its spec
        if isinstance(data, DTensor):
            self.outer = data._spec
            data = data._local_tensor
        self.shape, self.dtype, self.requires_grad = tuple(data.shape), data.dtype, parameter.requires_grad
        self.chunk = -(-self.shape[shard_dim] // self.n)
        self.sharded = nn.Parameter(self.as_dtensor(Shard(shard_dim)._part(data, self.n, self.rank).clone()), parameter.requires_grad)
        for name, value in parameter.__dict__.items():
            if not name.startswith("_"):
                setattr(self.sharded, name, value)
        self.whole, self.grad, self.on_grad, self.awaited = None, None, on_grad, False      # awaited: on_grad is called with its gradients
        self.stand(self.sharded)

    def as_dtensor(self, local):
        """A shard, of this group's mesh and, outside of it, of the mesh that the parameter lay on."""
        placements = (*(Replicate(),) * (self.mesh.ndim - 1), Shard(self.dim))
        mesh, shape = self.mesh, self.shape
        if self.outer is not None:
            root = self.mesh._get_root_mesh()
            mesh = root[(*self.mesh.mesh_dim_names, *self.outer.mesh.mesh_dim_names)]
            factor = math.prod(self.outer.mesh.size(i) for i, p in enumerate(self.outer.placements) if p.is_shard(self.dim))
            own = _StridedShard(self.dim, split_factor=factor) if factor > 1 else Shard(self.dim)
            placements, shape = (*placements[:-1], own, *self.outer.placements), tuple(self.outer.shape)
        return made(local, DTensorSpec(mesh, placements, TensorMeta(shape, contiguous_stride(shape), local.dtype)))

    def stand(self, tensor):
        for module, name in self.places:
            module._parameters[name] = tensor

    def adopt(self):
        """Take over what the program has put in the module in the shard's place (to(), to_empty(), load_state_dict(assign=True))."""
        now = self.places[0][0]._parameters[self.places[0][1]]
        if now is not self.sharded and now is not self.whole:
            if not isinstance(now, DTensor):
                raise RuntimeError(f"the sharded parameter {self.places[0][1]} was replaced by a plain tensor")
            self.sharded = now
            self.dtype = now.dtype
            self.stand(now)
        if self.requires_grad != self.sharded.requires_grad:        # frozen, or no longer
            self.requires_grad = self.sharded.requires_grad
            if self.whole is not None:
                self.whole.requires_grad_(self.requires_grad)
                self._await_grad()

    def local(self, dtype):
        """The rank's shard for the way, padded to what all have, as one row."""
        x = self.sharded._local_tensor.detach().to(dtype or self.dtype)
        return comm.padded(x, self.dim, self.chunk).contiguous().view(-1)

    def numel(self):
        n = self.chunk
        for d, size in enumerate(self.shape):
            n *= size if d != self.dim else 1
        return n

    def _rows(self):
        return (*self.shape[:self.dim], self.chunk, *self.shape[self.dim + 1:])

    def fill(self, gathered, dtype):
        """The whole of what all ranks have sent, a row each."""
        data = tede.cat([row.view(self._rows()) for row in gathered], self.dim).narrow(self.dim, 0, self.shape[self.dim])
        if self.whole is None or self.whole.dtype != data.dtype:
            data = data.contiguous().clone()
            if self.outer is not None:
                spec = self.outer
                data = made(data, DTensorSpec(spec.mesh, spec.placements, spec.tensor_meta._replace(dtype=data.dtype)))
            self.whole, self.awaited = nn.Parameter(data, self.requires_grad), False
            self._await_grad()
            return
        local = self._whole_local()
        local.untyped_storage().resize_(local.numel() * local.element_size())
        with tede.no_grad(), tede.autograd._unsafe_preserve_version_counter(local):
            local.copy_(data)

    def _await_grad(self):
        if self.requires_grad and not self.awaited:
            self.awaited = True
            self.whole.register_post_accumulate_grad_hook(lambda whole: self.on_grad(self))

    def _whole_local(self):
        return self.whole._local_tensor if self.outer is not None else self.whole.detach()

    def free(self):
        if self.whole is not None:
            self._whole_local().untyped_storage().resize_(0)

    def chunks(self, grad, dtype):
        """A gradient as the rows that go to each rank."""
        grad = grad._local_tensor if isinstance(grad, DTensor) else grad
        grad = comm.padded(grad.to(dtype), self.dim, self.chunk * self.n)
        return [part.contiguous().view(-1) for part in grad.split(self.chunk, self.dim)]

    def accumulate(self, row):
        local = self.sharded._local_tensor
        grad = row.view(self._rows()).narrow(self.dim, 0, local.shape[self.dim]).to(self.dtype)
        if self.sharded.grad is None:
            self.sharded.grad = self.as_dtensor(grad.contiguous().clone())
        else:
            self.sharded.grad._local_tensor.add_(grad)


class Group:
    """The parameters of one module. `state`: sharded or not, and what is on its way."""

    def __init__(self, modules, parameters, mesh, policy, shard_placement=None):
        self.mesh, self.policy, self.modules = mesh, policy, modules
        self.n = mesh.size(mesh.ndim - 1)
        self.parameters = []
        for p, places in parameters:
            place = shard_placement(p) if shard_placement is not None else None
            self.parameters.append(Parameter(p, places, mesh, place.dim % p.ndim if place is not None else 0, self.has_grad))
        self.sharded, self.work = True, None
        self.reduce_grads = self.all_reduce_grads = True
        self.divide_by = None
        self.reshard_after_backward = True
        self.missing = set()            # parameters whose gradients this backward pass still has to make
        self.all_reduce_hook = None

    # ---- gathering ----------------------------------------------------------------------------------------------------------

    def begin_unshard(self):
        """Start the all-gather."""
        if not self.sharded or self.work is not None or not self.parameters:
            return
        for p in self.parameters:
            p.adopt()
        parts = {}
        for p in self.parameters:
            dtype = (self.policy.param_dtype if p.dtype.is_floating_point else None) or p.dtype
            parts.setdefault(dtype, []).append(p)
        self.work = []
        for dtype, listed in parts.items():
            sent = tede.cat([p.local(dtype) for p in listed])
            out = sent.new_empty(self.n * sent.numel())
            work = dist.all_gather_into_tensor(out, sent, group=self.mesh.get_group(self.mesh.ndim - 1), async_op=True) if self.n > 1 else None
            self.work.append((dtype, listed, sent, out, work))

    def unshard(self):
        """The whole parameters stand in the modules."""
        if not self.sharded:
            return
        self.begin_unshard()
        for dtype, listed, sent, out, work in self.work or ():
            if work is not None:
                work.wait()
            rows, at = (out if work is not None else sent).view(self.n, -1), 0
            for p in listed:
                p.fill(rows[:, at:at + p.numel()], dtype)
                at += p.numel()
        self.work, self.sharded = None, False
        for p in self.parameters:
            p.stand(p.whole)

    def reshard(self):
        """The shards stand in the modules, and the whole parameters have no memory."""
        if self.sharded:
            return
        self.sharded = True
        for p in self.parameters:
            p.adopt()
            p.stand(p.sharded)
            p.free()

    # ---- gradients ----------------------------------------------------------------------------------------------------------------

    def expect_grads(self):
        self.missing = {p for p in self.parameters if p.requires_grad}

    def has_grad(self, p):
        self.missing.discard(p)
        if not self.missing:
            self.finish_backward()

    def finish_backward(self):
        """Reduce what gradients there are, and free the whole parameters."""
        for p in self.parameters:
            if p.whole is not None and p.whole.grad is not None:
                grad, p.whole.grad = p.whole.grad, None
                p.grad = grad if p.grad is None else p.grad + grad
        if self.reduce_grads:
            self._reduce()
        if self.reshard_after_backward:
            self.reshard()

    def _reduce(self):
        found = [p for p in self.parameters if p.grad is not None]
        for dtype in dict.fromkeys(self.policy.reduce_dtype or p.grad.dtype for p in found):
            listed = [p for p in found if (self.policy.reduce_dtype or p.grad.dtype) == dtype]
            pieces = [p.chunks(p.grad, dtype) for p in listed]
            sent = tede.cat([pieces[j][i] for i in range(self.n) for j in range(len(listed))])
            out = sent
            if self.n > 1:
                out = sent.new_empty(sent.numel() // self.n)
                dist.reduce_scatter_tensor(out, sent, group=self.mesh.get_group(self.mesh.ndim - 1))
            if self.mesh.ndim == 2 and self.all_reduce_grads and self.mesh.size(0) > 1:
                dist.all_reduce(out, group=self.mesh.get_group(0))
            if self.all_reduce_hook is not None:
                self.all_reduce_hook(out)
            divide = self.divide_by or self.mesh.size()
            out = out / divide if divide != 1 else out
            at = 0
            for p in listed:
                p.accumulate(out[at:at + p.numel()])
                at += p.numel()
        for p in found:
            p.grad = None
