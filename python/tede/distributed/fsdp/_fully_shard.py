"""fully_shard: a module whose parameters are sharded over the ranks, gathered for its forward and backward, and reduced after it.

Applied to parts first and to the whole last; each call makes a group of the parameters that no part has taken (_group.py). Hooks around forward gather and free;
a hook on the gradients of its outputs gathers again for the backward pass; the last gradient of a group reduces it. The root, whose forward comes first, knows
the order in which groups computed, so each backward can start the gathering of the group before it, and what has got no gradients at the end of a backward pass is
finished by a callback of autograd's."""

import tede
from tede import Tensor, nn
from tede.distributed.device_mesh import DeviceMesh, init_device_mesh
from tede.distributed.fsdp._group import Group
from tede.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from tede.utils import _pytree as tree

__all__ = ["fully_shard", "FSDPModule", "UnshardHandle", "register_fsdp_forward_method", "share_comm_ctx"]


class _Root:
    """What all states below one root share."""

    def __init__(self):
        self.states, self.order = [], []        # all; those whose forward has run, in order
        self.queued = False
        self.is_last_backward = True

    def queue(self):
        if not self.queued:
            self.queued = True
            tede.autograd.Variable._execution_engine.queue_callback(self.finish)

    def finish(self):
        self.queued = False
        for state in self.states:
            if state.in_backward:
                state.in_backward = False
                if state.group.missing and any(p.whole is not None and p.whole.grad is not None for p in state.group.parameters):
                    state.group.finish_backward()
                elif state.group.reshard_after_backward:
                    state.group.reshard()
                state.group.missing = set()
        self.order.clear()


class State:
    """What fully_shard knows of a module."""

    def __init__(self, module, group, reshard_after_forward, policy):
        self.module, self.group, self.policy = module, group, policy
        self.reshard_after_forward, self.auto_reshard = reshard_after_forward, reshard_after_forward is None
        self.root, self.is_root, self.in_backward = None, False, False
        self.forward_prefetch, self.backward_prefetch = [], None
        self.depth = 0                          # of forwards that are running

    def lazy_init(self):
        if self.root is None:
            self.root, self.is_root = _Root(), True
            for m in self.module.modules():
                state = _state_of(m)
                if state is not None:
                    state.root = self.root
                    state.is_root = state is self
                    if state.auto_reshard:
                        state.reshard_after_forward = not state.is_root
                    self.root.states.append(state)

    def cast(self, value, dtype):
        return tree.tree_map_only(Tensor, lambda x: x.to(dtype) if x.dtype.is_floating_point and x.dtype != dtype else x, value)

    def pre_forward(self, module, args, kwargs):
        if self.depth or self.in_backward:          # a part of the module that has parameters of the group; recomputation in the backward pass
            self.group.unshard()
            self.depth += 1
            return args, kwargs
        self.depth += 1
        self.lazy_init()
        self.group.unshard()
        for state in self.forward_prefetch:
            state.group.begin_unshard()
        if self.policy.cast_forward_inputs and self.policy.param_dtype is not None:
            args, kwargs = self.cast((args, kwargs), self.policy.param_dtype)
        return args, kwargs

    def post_forward(self, module, args, output):
        self.depth -= 1
        if self.depth or self.in_backward:
            return output
        if self.policy.output_dtype is not None:
            output = self.cast(output, self.policy.output_dtype)
        if tede.is_grad_enabled():
            self.root.order.append(self)
            for x in tree.tree_leaves(output):
                if isinstance(x, Tensor) and x.requires_grad:
                    x.register_hook(self.pre_backward)
        if self.reshard_after_forward:
            self.group.reshard()
        return output

    def pre_backward(self, grad):
        if not self.in_backward:
            self.in_backward = True
            self.root.queue()
            self.group.expect_grads()
            self.group.unshard()
            if self.backward_prefetch is not None:
                following = self.backward_prefetch
            else:
                at = self.root.order.index(self) if self in self.root.order else 0
                following = self.root.order[max(at - 1, 0):at]
            for state in following:
                if not state.in_backward:
                    state.group.begin_unshard()
        return grad


def _state_of(module):
    return module.__dict__.get("_fsdp_state")


class UnshardHandle:
    """What `unshard(async_op=True)` gives."""

    def __init__(self, group):
        self._group = group

    def wait(self):
        if self._group is not None:
            self._group.unshard()
            self._group = None


class FSDPModule:
    """The class that a fully sharded module has besides its own."""

    def __new__(cls, *args, **kwargs):
        plain = cls.__mro__[2]                      # FSDPLinear(...) makes a Linear
        made = plain.__new__(plain)
        made.__init__(*args, **kwargs)
        return made

    def _get_fsdp_state(self):
        return _state_of(self)

    def _states(self, recurse=True):
        return [s for m in (self.modules() if recurse else [self]) if (s := _state_of(m)) is not None]

    def reshard(self):
        self._get_fsdp_state().group.reshard()

    def unshard(self, async_op=False):
        state = self._get_fsdp_state()
        state.lazy_init()
        state.group.begin_unshard()
        if async_op:
            return UnshardHandle(state.group)
        state.group.unshard()
        return None

    def set_is_last_backward(self, is_last_backward):
        """Whether gradients of this backward pass are the last before a step; what is gathered stays so before."""

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether backward reduces; without, gradients of whole parameters add up."""
        for s in self._states(recurse):
            s.group.reduce_grads = s.group.all_reduce_grads = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        for s in self._states(recurse):
            s.group.all_reduce_grads = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        for s in self._states(recurse):
            s.reshard_after_forward, s.auto_reshard = reshard_after_forward, False

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        for s in self._states(recurse):
            s.group.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules):
        _check_modules(modules)
        self._get_fsdp_state().forward_prefetch = [_state_of(m) for m in modules]

    def set_modules_to_backward_prefetch(self, modules):
        _check_modules(modules)
        self._get_fsdp_state().backward_prefetch = [_state_of(m) for m in modules]

    def set_all_reduce_hook(self, hook, *, stream=None):
        self._get_fsdp_state().group.all_reduce_hook = hook

    def set_gradient_divide_factor(self, factor):
        self._get_fsdp_state().group.divide_by = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward):
        if not unshard_in_backward:
            self._get_fsdp_state().backward_prefetch = []

    def _apply(self, *args, **kwargs):
        self.reshard()                              # what is applied to parameters is applied to shards
        return super()._apply(*args, **kwargs)


def _check_modules(modules):
    for m in modules:
        if _state_of(m) is None:
            raise ValueError(f"set_modules_to_forward/backward_prefetch takes FSDP modules, got {type(m)}")


def _own_parameters(roots, ignored):
    """[(parameter, places)] of those that no part has taken."""
    found = {}

    def visit(module, is_root):
        if not is_root and _state_of(module) is not None:
            return
        for name, p in module._parameters.items():
            if p is not None and p not in ignored:
                found.setdefault(p, []).append((module, name))
        for child in module.children():
            visit(child, False)
    for root in roots:
        visit(root, True)
    return list(found.items())


_classes = {}


def fully_shard(module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None, mp_policy=MixedPrecisionPolicy(),
                offload_policy=OffloadPolicy(), ignored_params=None, dp_mesh_dims=None):
    """Shard a module's parameters over a mesh (of one dimension, or of two: replicated and sharded); see the file's comment. It gets FSDPModule's
    functions. `reshard_after_forward`: whether whole parameters are freed between forward and backward; None: but for the root's."""
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    if dp_mesh_dims is not None:
        names = [n for part in (dp_mesh_dims.replicate, dp_mesh_dims.shard) if part for n in ([part] if isinstance(part, str) else part)]
        mesh = mesh[tuple(names)]
    if mesh is None:
        import tede.distributed as dist
        if not dist.is_initialized():
            dist.init_process_group()
        mesh = init_device_mesh(tede.accelerator.current_accelerator().type if tede.accelerator.is_available() else "cpu", (dist.get_world_size(),))
    if not isinstance(mesh, DeviceMesh) or mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    for m in modules:
        if isinstance(m, (nn.ModuleList, nn.ModuleDict)) and type(m).forward is nn.Module.forward:
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {m}")
        if _state_of(m) is not None:
            raise AssertionError(f"fully_shard has already been applied to {type(m).__name__}")
    if isinstance(offload_policy, CPUOffloadPolicy) and mesh.device_type != "cpu":
        raise NotImplementedError("fully_shard: CPUOffloadPolicy is there for meshes of the CPU alone")
    parameters = _own_parameters(modules, ignored_params or set())
    for p, _ in parameters:
        if p.ndim == 0:
            raise ValueError("fully_shard doesn't support scalar parameters. Change it to a 1D tensor with numel equal to 1.")
    group = Group(modules, parameters, mesh, mp_policy, shard_placement_fn)
    state = State(modules[0], group, reshard_after_forward if reshard_after_forward is None else bool(reshard_after_forward), mp_policy)
    for m in modules:
        m.__dict__["_fsdp_state"] = state
        m.register_forward_pre_hook(state.pre_forward, prepend=True, with_kwargs=True)
        m.register_forward_hook(state.post_forward)
        m.register_state_dict_pre_hook(lambda module, prefix, keep_vars: group.reshard())
        m._register_load_state_dict_pre_hook(lambda *args: group.reshard())
        cls = type(m)
        if cls not in _classes:
            _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__, "_orig_cls": cls})
        m.__class__ = _classes[cls]
    return module


def register_fsdp_forward_method(module, method_name):
    """Gather around another method than forward, too."""
    state = _state_of(module)
    if state is None:
        return
    method = getattr(module, method_name)

    def around(*args, **kwargs):
        args, kwargs = state.pre_forward(module, args, kwargs)
        return state.post_forward(module, args, method(*args, **kwargs))
    module.__dict__[method_name] = around


def share_comm_ctx(modules):
    """For modules of one model that has no root: they share streams where there are any, which needs nothing here."""
