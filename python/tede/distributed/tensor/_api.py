"""DTensor: one tensor whose elements lie on the ranks of a mesh, and the functions that make it.

A DTensor has the whole's shape and a local tensor. Autograd records calls on whole tensors; below it each becomes a call on local ones (_dispatch.py). What
goes in (`from_local`), comes out (`to_local`) and changes its placements (`redistribute`) are nodes of their own, so gradients go the same ways back."""
import copy
import warnings

import tede
import tede.distributed as dist
from tede import Tensor
from tede.distributed.device_mesh import _mesh_resources
from tede.distributed.tensor import _collectives as comm
from tede.distributed.tensor import _dispatch
from tede.distributed.tensor._dispatch import dispatch
from tede.distributed.tensor._made import classes, made
from tede.distributed.tensor._redistribute import Redistribute, redistribute_local
from tede.distributed.tensor._utils import compute_global_tensor_info
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride, normalized
from tede.distributed.tensor.placement_types import Replicate, Shard

__all__ = ["DTensor", "distribute_tensor", "distribute_module", "ones", "empty", "full", "rand", "randn", "zeros"]

_disabled = tede._C.DisableTorchFunctionSubclass


def _mixed(func, args):
    """The plain tensor that a function gets together with DTensors; those of one element may be plain."""
    for x in args:
        if isinstance(x, (list, tuple)):
            found = _mixed(func, x)
            if found is not None:
                return found
        elif isinstance(x, Tensor) and not isinstance(x, DTensor) and x.numel() != 1 and type(x) in (Tensor, tede.nn.Parameter):
            return x
    return None


class DTensor(Tensor):
    """See PyTorch's."""

    @staticmethod
    def __new__(cls, local_tensor, spec, *, requires_grad):
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn("To construct DTensor from torch.Tensor, it's recommended to use local_tensor.detach() and make requires_grad consistent.",
                          stacklevel=2)
        return made(local_tensor, spec, requires_grad)

    def __init__(self, *args, **kwargs):
        super().__init__()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not _dispatch.implicit and getattr(func, "__name__", "") != "__set__":
            plain = _mixed(func, (*args, *kwargs.values()))
            if plain is not None:
                raise RuntimeError(f"{getattr(func, '__name__', func)}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                                   "DTensor before calling distributed operators!")
        with _disabled():
            return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents=None):
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    def __tensor_flatten__(self):
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return made(inner["_local_tensor"], context[0], context[1])

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            found = made(copy.deepcopy(self._local_tensor.detach(), memo), self._spec, self.requires_grad)
            if isinstance(self, tede.nn.Parameter):
                found = tede.nn.Parameter(found, self.requires_grad)
            if self.grad is not None:
                found.grad = copy.deepcopy(self.grad, memo)
            memo[id(self)] = found
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _rebuilt, (self._local_tensor.detach(), self._spec.mesh, self._spec.placements, *self._spec.tensor_meta[:2], self.requires_grad,
                          isinstance(self, tede.nn.Parameter))

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None):
        """A DTensor of each rank's local tensor. The whole's shape follows from even shards, or is given."""
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        if placements is not None and any(isinstance(p, Shard) and p.dim < -local_tensor.ndim for p in placements):
            raise ValueError(f"placements {placements} don't fit a tensor of {local_tensor.ndim} dimensions")
        placements = normalized(placements, mesh, local_tensor.ndim)
        if (shape is None) != (stride is None):
            raise RuntimeError("Please pass both shape and stride at the same time!")
        return _FromLocal.apply(local_tensor, mesh, placements, run_check, shape, stride)

    def to_local(self, *, grad_placements=None):
        """The rank's own tensor. `grad_placements`: how its gradient lies, if not as the tensor does."""
        if not tede.is_grad_enabled() or not self.requires_grad:
            return self._local_tensor
        return _ToLocal.apply(self, None if grad_placements is None else tuple(grad_placements))

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None):
        """The same tensor under other placements."""
        mesh = device_mesh or self._spec.mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placements = normalized(placements, mesh, self.ndim)
        for now, to in zip(self._spec.placements, placements):
            if to.is_partial() and now != to:
                raise RuntimeError("Can not redistribute to Partial, redistributing to Partial is for internal use only!")
        return Redistribute.apply(self, mesh, placements, async_op, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements=None):
        """The whole, as a tensor of its own on each rank."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self):
        return self._spec.mesh

    @property
    def placements(self):
        return self._spec.placements

    # ---- distributed.checkpoint -----------------------------------------------------------------------------------------------

    def __create_chunk_list__(self):
        from tede.distributed.checkpoint.metadata import ChunkStorageMetadata
        shape, offset = self._spec.local()
        return [ChunkStorageMetadata(tede.Size(offset), tede.Size(shape))]


classes.append(DTensor)


def _rebuilt(local, mesh, placements, shape, stride, requires_grad, parameter):
    x = made(local, DTensorSpec(mesh, placements, TensorMeta(shape, stride, local.dtype)), requires_grad)
    return tede.nn.Parameter(x, requires_grad) if parameter else x


def _same_everywhere(local, mesh, given):
    """Raise where ranks have tensors of another kind, or of other sizes if the whole's follows from them."""
    mine = (local.dtype, local.requires_grad) + (() if given else (tuple(local.shape), tuple(local.stride())))
    for i in range(mesh.ndim):
        found = [None] * mesh.size(i)
        dist.all_gather_object(found, mine, group=mesh.get_group(i))
        if any(other != mine for other in found):
            what = "" if given else "(including shape and stride) "
            raise ValueError(f"Inconsistent tensor metadata {what}across ranks: {dict(zip(dist.get_process_group_ranks(mesh.get_group(i)), found))}")


class _FromLocal(tede.autograd.Function):
    @staticmethod
    def forward(ctx, local, mesh, placements, run_check, shape, stride):
        ctx.place, given = (mesh, placements), shape is not None
        if not given:
            shape, stride = compute_global_tensor_info(local, mesh, placements)
        if mesh.get_coordinate() is None:
            local = local.new_empty((0,), requires_grad=local.requires_grad)
        elif run_check:
            _same_everywhere(local, mesh, given)
            for i, p in enumerate(placements):
                if p.is_replicate():
                    local = comm.broadcast(local, mesh, i)
        spec = DTensorSpec(mesh, placements, TensorMeta(tuple(shape), tuple(stride), local.dtype))
        return made(local.detach(), spec, local.requires_grad)

    @staticmethod
    def backward(ctx, grad):
        mesh, placements = ctx.place
        goal = tuple(Replicate() if p.is_partial() else p for p in placements)
        return redistribute_local(grad._local_tensor, grad._spec, goal), None, None, None, None, None


class _ToLocal(tede.autograd.Function):
    @staticmethod
    def forward(ctx, x, grad_placements):
        ctx.spec, ctx.grad_placements = x._spec, grad_placements
        return x._local_tensor.view_as(x._local_tensor)

    @staticmethod
    def backward(ctx, grad):
        spec = ctx.spec
        placements = ctx.grad_placements or tuple(Replicate() if p.is_partial() else p for p in spec.placements)
        meta = TensorMeta(spec.shape, contiguous_stride(spec.shape), grad.dtype)
        return made(grad.contiguous(), DTensorSpec(spec.mesh, placements, meta), False), None


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """A tensor that rank `src_data_rank` of each mesh dimension has (None: each rank its own copy), as a DTensor."""
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if isinstance(tensor, DTensor) and tensor.device_mesh != mesh:
        raise ValueError(f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}.")
    if not isinstance(tensor, DTensor) and not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = normalized(placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor.placements != placements:
            raise ValueError(f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {placements}. do you want to "
                             "call `redistribute` instead?")
        return tensor
    if any(p.is_partial() for p in placements):
        raise RuntimeError(f"Trying to distribute tensor with unsupported placements on device mesh {mesh}! placements {placements}")
    local = tensor.detach()
    if local.device.type != mesh.device_type and not local.is_meta:
        local = local.to(mesh.device_type)
    spec = DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype))
    if mesh.get_coordinate() is None:
        local = local.new_empty((0,))
    else:
        if src_data_rank is not None and not local.is_meta:
            for i in range(mesh.ndim):
                local = comm.broadcast(local, mesh, i, src_data_rank)
        local = redistribute_local(local, spec, placements)
        local = local if local.is_meta or any(p.is_shard() and mesh.size(i) > 1 for i, p in enumerate(placements)) else local.contiguous()
    return made(local.detach(), DTensorSpec(mesh, placements, spec.tensor_meta), False).requires_grad_(tensor.requires_grad)


def _shard_tensor(full_tensor, placements, device_mesh=None):
    """A tensor that all ranks have as a DTensor; nothing is sent."""
    return distribute_tensor(full_tensor, device_mesh, placements, src_data_rank=None)


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Replace a module's parameters and buffers by DTensors: as `partition_fn(name, module, mesh)` does for each submodule, and whole on each rank where it
    leaves plain ones. `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` run around its forward."""
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module should only be called once on a module, but it has already been called on this module!")
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        for key, p in list(submodule._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                submodule.register_parameter(key, tede.nn.Parameter(distribute_tensor(p.detach(), mesh), p.requires_grad))
        for key, b in list(submodule._buffers.items()):
            if b is not None and not isinstance(b, DTensor):
                submodule._buffers[key] = distribute_tensor(b, mesh)
    if input_fn is not None:
        n = _checked_arguments(input_fn, "input")
        module.register_forward_pre_hook(lambda m, inputs: input_fn(inputs, mesh) if n == 2 else input_fn(m, inputs, mesh))
    if output_fn is not None:
        n = _checked_arguments(output_fn, "output")
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(outputs, mesh) if n == 2 else output_fn(m, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _checked_arguments(f, what):
    """How many arguments distribute_module's input_fn or output_fn takes: three, or two in the older form."""
    import inspect
    n = len(inspect.signature(f).parameters)
    if n == 2:
        warnings.warn(f"Deprecating {what}_fn that takes two arguments (inputs, device_mesh), please use {what}_fn that takes in "
                      "(module, inputs, device_mesh) instead!", FutureWarning, stacklevel=3)
    elif n != 3:
        raise ValueError(f"{what}_fn should take in 3 arguments, but got {n} arguments!")
    return n


# ---- factories -------------------------------------------------------------------------------------------------------------

def _factory(make, size, dtype, layout, requires_grad, device_mesh, placements, random=False):
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (list, tuple)) else tuple(size)
    placements = normalized(placements, mesh, len(shape))
    if layout is not tede.strided:
        raise AssertionError("layout value not supported!")
    meta = TensorMeta(shape, contiguous_stride(shape), dtype or tede.get_default_dtype())
    spec = DTensorSpec(mesh, placements, meta)
    options = {"dtype": dtype, "device": mesh.device_type}
    if random and mesh.get_coordinate() is not None:
        whole = DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)
        local = redistribute_local(make(shape, **options), whole, placements)
    else:
        local = make(spec.local()[0], **options)
    spec = DTensorSpec(mesh, placements, meta._replace(dtype=local.dtype))
    return made(local, spec, requires_grad)


def _named(name, random=False):
    def factory(*size, requires_grad=False, dtype=None, layout=tede.strided, device_mesh=None, placements=None):
        return _factory(getattr(tede, name), size, dtype, layout, requires_grad, device_mesh, placements, random)
    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"{name} as a DTensor; each rank makes its part" + (" of the same random numbers, which ranks of the same seed have." if random
                                                                            else " alone.")
    return factory


zeros, ones, empty = _named("zeros"), _named("ones"), _named("empty")
rand, randn = _named("rand", True), _named("randn", True)


def full(size, fill_value, *, dtype=None, layout=tede.strided, requires_grad=False, device_mesh=None, placements=None):
    """full as a DTensor; each rank makes its part alone."""
    return _factory(lambda shape, **options: tede.full(shape, fill_value, **options), (size,), dtype, layout, requires_grad, device_mesh, placements)


