"""FullyShardedDataParallel: a wrapper whose module's parameters are sharded, as fully_shard does it.

What fully_shard puts into a module's hooks stands here in those of the wrapper. Parameters are sharded one by one, and keep their names: the optimizer has
DTensors, with use_orig_params and without. Without sharding (NO_SHARD) the mesh has a second dimension, of one rank, along which parameters are "sharded", and the
first one replicates them."""
import contextlib
import dataclasses
import os
import warnings

import tede
import tede.distributed as dist
from tede import Tensor, nn
from tede.distributed.device_mesh import DeviceMesh, init_device_mesh
from tede.distributed.fsdp import _full_state as full_state
from tede.distributed.fsdp._fully_shard import State, _own_parameters, _state_of
from tede.distributed.fsdp._group import Group
from tede.distributed.fsdp._policies import MixedPrecisionPolicy
from tede.distributed.fsdp.api import (
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig, LocalStateDictConfig, MixedPrecision,
    OptimStateDictConfig, OptimStateKeyType, ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy, StateDictConfig, StateDictSettings,
    StateDictType)
from tede.distributed.fsdp.wrap import CustomPolicy, ModuleWrapPolicy, wrap_parts
from tede.distributed.tensor import DTensor, Replicate

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType", "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
           "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType", "CustomPolicy", "ModuleWrapPolicy"]

_WRAPPED = "_fsdp_wrapped_module"
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class _State(State):
    """fully_shard's, with what the root alone does and what is done to buffers."""

    def __init__(self, module, group, reshard_after_forward, policy, mixed):
        super().__init__(module, group, reshard_after_forward, policy)
        self.mixed, self.buffers = mixed, {}            # buffers: their own dtypes

    def lazy_init(self):
        if self.root is not None:
            return
        super().lazy_init()
        for state in self.root.states:
            if isinstance(state, _State):
                casts = state.mixed.cast_forward_inputs or (state.is_root and state.mixed.cast_root_forward_inputs)
                state.policy = dataclasses.replace(state.policy, cast_forward_inputs=casts)
                state.cast_buffers()

    def cast_buffers(self):
        if self.mixed.buffer_dtype is None:
            return
        for module, path in _own_modules(self.module):
            for name, x in module._buffers.items():
                if x is not None and x.is_floating_point():
                    self.buffers[f"{path}.{name}" if path else name] = x.dtype
                    module._buffers[name] = x.to(self.mixed.buffer_dtype)


def _own_modules(wrapper):
    """(module, path) of those below a wrapper that are below no other one."""
    def visit(module, path):
        yield module, path
        for name, child in module._modules.items():
            if child is not None and _state_of(child) is None and child not in wrapper._ignored_modules:
                yield from visit(child, f"{path}.{name}" if path else name)
    yield from visit(wrapper.module, "")


def _mesh(strategy, group, mesh, device):
    """The mesh whose last dimension shards, and whose first one, if there are two, replicates."""
    if mesh is not None and group is not None:
        raise ValueError("Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them.")
    if strategy in _HYBRID:
        if mesh is not None:
            if mesh.ndim != 2:
                raise ValueError(f"Expects a device_mesh with 2 dimensions for {strategy}, but got {mesh.ndim}")
            return mesh
        if group is None:
            size = dist.get_world_size()        # hosts replicate, the ranks of a host shard
            local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
            return init_device_mesh(device, (size // local, local))
        if not (isinstance(group, tuple) and len(group) == 2):
            raise ValueError(f"Expects a tuple of process groups for {strategy}: (sharding, replication), but got {type(group)}")
        shards, copies = group
        n, here = dist.get_world_size(shards), dist.get_process_group_ranks(shards)
        first = dist.get_process_group_ranks(copies)
        every = [None] * len(first)
        dist.all_gather_object(every, here, group=copies)
        if any(len(row) != n for row in every):
            raise ValueError("The sharding groups have different sizes")
        return DeviceMesh.from_group([copies, shards], device, every)
    if mesh is None:
        mesh = DeviceMesh.from_group(group if group is not None else dist.group.WORLD, device)
    if strategy is ShardingStrategy.NO_SHARD:
        if mesh.ndim != 1:
            raise ValueError(f"Expects a device_mesh with 1 dimension for {strategy}, but got {mesh.ndim}")
        ranks = mesh.mesh.tolist()
        mine = dist.new_group([dist.get_rank()], use_local_synchronization=True)
        return DeviceMesh.from_group([mesh.get_group(), mine], device, [[rank] for rank in ranks])
    return mesh


def _materialize(module, init, device, ignored):
    """Give parameters and buffers on the meta device memory and values."""
    found = [m for m in module.modules() if _state_of(m) is None and m not in ignored
             and any(x is not None and x.is_meta for x in (*m._parameters.values(), *m._buffers.values()))]
    if not found:
        return False
    if init is not None:
        for m in found:
            init(m)
        return True
    for m in found:
        m.to_empty(device=device, recurse=False)
        if not hasattr(m, "reset_parameters"):
            raise RuntimeError(f"Unable to call `reset_parameters()` for module on meta device: {type(m).__name__} has none; give a param_init_fn")
        with tede.no_grad():
            m.reset_parameters()
    return True


def _keep_precision(module, mixed):
    """Modules of the classes that mixed precision leaves out compute in their own dtype; what goes in and comes out is cast."""
    policy_cls = tuple(mixed._module_classes_to_ignore)
    found = [m for m in module.modules() if isinstance(m, policy_cls)]

    def before(m, args, kwargs):
        m.__dict__["_fsdp_came_in"] = next((x.dtype for x in args if isinstance(x, Tensor) and x.is_floating_point()), None)
        kept = next((p.dtype for p in m.parameters()), tede.float32)
        return tede.utils._pytree.tree_map_only(Tensor, lambda x: x.to(kept) if x.is_floating_point() else x, (args, kwargs))

    def after(m, args, output):
        dtype = m.__dict__.pop("_fsdp_came_in", None)
        return output if dtype is None else tede.utils._pytree.tree_map_only(Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, output)
    for m in found:
        m.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        m.register_forward_hook(after)
    return found


class FullyShardedDataParallel(nn.Module):
    """Shards `module`; submodules that `auto_wrap_policy` names become wrappers of their own, gathered and freed by themselves. Arguments are PyTorch's."""

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None,
                 backward_prefetch=BackwardPrefetch.BACKWARD_PRE, mixed_precision=None, ignored_modules=None, param_init_fn=None, device_id=None,
                 sync_module_states=False, forward_prefetch=False, limit_all_gathers=True, use_orig_params=False, ignored_states=None, device_mesh=None):
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if isinstance(cpu_offload, CPUOffload) and cpu_offload.offload_params and device_id is not None and tede.device(device_id).type != "cpu":
            raise NotImplementedError("FullyShardedDataParallel: CPUOffload is there for modules on the CPU alone")
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise NotImplementedError("FullyShardedDataParallel: keep_low_precision_grads isn't there; gradients have their parameters' dtype")
        if ignored_modules is not None and ignored_states is not None:
            raise ValueError("Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states.")
        states = list(ignored_states or ignored_modules or ())
        self._ignored_modules = {m for given in states if isinstance(given, nn.Module) for m in given.modules()}
        self._ignored_params = {p for p in states if not isinstance(p, nn.Module)} | {p for m in self._ignored_modules for p in m.parameters()}
        mixed = mixed_precision or MixedPrecision()
        if auto_wrap_policy is not None:
            self._wrap_parts(module, auto_wrap_policy, dict(
                process_group=process_group, sharding_strategy=strategy, cpu_offload=cpu_offload, backward_prefetch=backward_prefetch,
                mixed_precision=mixed_precision, param_init_fn=param_init_fn, device_id=device_id, sync_module_states=sync_module_states,
                forward_prefetch=forward_prefetch, limit_all_gathers=limit_all_gathers, use_orig_params=use_orig_params, ignored_states=states,
                device_mesh=device_mesh))
        self.sharding_strategy, self.mixed_precision, self.cpu_offload = strategy, mixed, cpu_offload or CPUOffload()
        self.backward_prefetch, self.forward_prefetch, self.limit_all_gathers = backward_prefetch, forward_prefetch, limit_all_gathers
        self._use_orig_params, self._is_summoned = use_orig_params, False
        self._state_dict_type, self._state_dict_config = StateDictType.FULL_STATE_DICT, FullStateDictConfig()
        self._optim_state_dict_config = FullOptimStateDictConfig(offload_to_cpu=False)
        device = tede.device(device_id if device_id is not None else next((p.device for p in module.parameters() if not p.is_meta), "cpu"))
        made = _materialize(module, param_init_fn, device, self._ignored_modules)
        if device_id is not None:
            module.to(device)
        self._modules[_WRAPPED] = module
        mesh = _mesh(strategy, process_group, device_mesh, device.type)
        self.process_group, self.world_size, self.rank = mesh.get_group(mesh.ndim - 1), mesh.size(), dist.get_rank()
        parameters = _own_parameters([self], self._ignored_params)
        for p, places in parameters:
            if p.ndim == 0:
                raise ValueError(f"FSDP doesn't support scalar parameters. Change {places[0][1]} to a 1D tensor with numel equal to 1.")
        if sync_module_states or (made and param_init_fn is None):
            own = [p.detach() for p, _ in parameters] + [x for m, _ in _own_modules(self) for x in m._buffers.values() if x is not None]
            for dim in range(mesh.ndim):
                group = mesh.get_group(dim)
                for x in own:
                    dist.broadcast(x, dist.get_process_group_ranks(group)[0], group=group)
        policy = MixedPrecisionPolicy(mixed.param_dtype, mixed.reduce_dtype, None, mixed.cast_forward_inputs)
        group = Group([self], parameters, mesh, policy)
        after = False if strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2) else None
        state = _State(self, group, after, policy, mixed)
        if backward_prefetch is None:
            state.backward_prefetch = []
        self.__dict__["_fsdp_state"] = state
        self.register_forward_pre_hook(state.pre_forward, prepend=True, with_kwargs=True)
        self.register_forward_hook(state.post_forward)
        self.register_state_dict_pre_hook(lambda module, prefix, keep_vars: group.reshard())
        self._register_state_dict_hook(full_state.saved)
        self._register_load_state_dict_pre_hook(full_state.to_load, with_module=True)

    @staticmethod
    def _wrap_parts(module, policy, options):
        for name, part in module.named_modules():
            if isinstance(part, FullyShardedDataParallel):
                raise ValueError(f"FSDP auto wrapping requires modules to not already have FSDP applied but found {name} in\n{module}")
        mixed, kept = options["mixed_precision"], []
        if mixed is not None and mixed.param_dtype is not None:
            kept = _keep_precision(module, mixed)
        states = options["ignored_states"]
        modules = {m for given in states if isinstance(given, nn.Module) for m in given.modules()}
        parameters = {p for p in states if not isinstance(p, nn.Module)} | {p for m in modules for p in m.parameters()}
        if kept:
            plain = dict(options, mixed_precision=None)
            wrap_parts(module, ModuleWrapPolicy({type(m) for m in kept}), FullyShardedDataParallel, modules, parameters, plain)
            modules = modules | {m for part in module.modules() if isinstance(part, FullyShardedDataParallel) for m in part.modules()}
            parameters = parameters | {p for m in modules for p in m.parameters()}
        wrap_parts(module, policy, FullyShardedDataParallel, modules, parameters, options)

    # ---- the module -------------------------------------------------------------------------------------------------------------

    @property
    def module(self):
        """What was wrapped."""
        return self._modules[_WRAPPED]

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _WRAPPED:
                raise
            return getattr(self.module, name)

    def __getitem__(self, key):
        return self.module[key]

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _states(self, recurse=True):
        return [m.__dict__["_fsdp_state"] for m in self.fsdp_modules(self)] if recurse else [self.__dict__["_fsdp_state"]]

    def _apply(self, *args, **kwargs):
        for state in self._states():
            state.group.reshard()               # what is applied to parameters is applied to shards
        return super()._apply(*args, **kwargs)

    def apply(self, fn):
        """fn(module) for all modules, with whole parameters."""
        if self._is_summoned:
            return super().apply(fn)
        with self.summon_full_params(self):
            return super().apply(fn)

    def _clean(self):
        return self._use_orig_params or self._is_summoned

    def named_parameters(self, *args, **kwargs):
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_WRAPPED + ".", "") if self._clean() else name, p

    def named_buffers(self, *args, **kwargs):
        for name, x in super().named_buffers(*args, **kwargs):
            yield name.replace(_WRAPPED + ".", "") if self._is_summoned else name, x

    def check_is_root(self):
        self._fsdp_state.lazy_init()
        return self._fsdp_state.is_root

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The wrappers in a module, itself among them; `root_only`: those that are in no other one."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return [m for m in found if not any(m is not other and m in set(other.modules()) for other in found)] if root_only else found

    @contextlib.contextmanager
    def no_sync(self):
        """Within it gradients of whole parameters add up, and none are reduced."""
        states = self._states()
        before = [(s.group.reduce_grads, s.group.all_reduce_grads) for s in states]
        for s in states:
            s.group.reduce_grads = s.group.all_reduce_grads = False
        try:
            yield
        finally:
            for s, (reduce, everywhere) in zip(states, before):
                s.group.reduce_grads, s.group.all_reduce_grads = reduce, everywhere

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scale the gradients so that the norm of all, of all ranks' shards, is at most `max_norm`; it returns what it was."""
        self._fsdp_state.lazy_init()
        if not self._fsdp_state.is_root:
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        norm_type = float(norm_type)
        norms, grads = {}, []
        for p in dict.fromkeys(self.parameters()):
            if p.grad is not None:
                local, groups = p.grad, ()
                if isinstance(local, DTensor):
                    spec = local._spec
                    groups = tuple(spec.mesh.get_group(i) for i, place in enumerate(spec.placements) if not isinstance(place, Replicate) and spec.mesh.size(i) > 1)
                    local = local._local_tensor
                grads.append(local)
                norms.setdefault(groups, []).append(tede.linalg.vector_norm(local, norm_type, dtype=tede.float32) if local.numel() else tede.zeros(()))
        if not grads:
            warnings.warn("called clip_grad_norm_() with no gradients -- returning the total norm as 0 in torch.float32")
            return tede.tensor(0.0)
        parts = []
        for groups, listed in norms.items():
            part = tede.linalg.vector_norm(tede.stack(listed), norm_type)
            if groups and norm_type != float("inf"):
                part = part ** norm_type
            for group in groups:
                dist.all_reduce(part, dist.ReduceOp.MAX if norm_type == float("inf") else dist.ReduceOp.SUM, group=group)
            parts.append(part ** (1 / norm_type) if groups and norm_type != float("inf") else part)
        total = tede.linalg.vector_norm(tede.stack(parts), norm_type)
        scale = tede.clamp(max_norm / (total + 1e-6), max=1.0)
        for grad in grads:
            grad.mul_(scale.to(grad.dtype))
        dtype = grads[0].dtype
        for grad in grads[1:]:
            dtype = tede.promote_types(dtype, grad.dtype)
        return total.to(dtype)

    # ---- whole parameters -------------------------------------------------------------------------------------------------------

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False):
        """Within it the parameters are whole, with their names. What is changed in them stays changed if `writeback`."""
        if writeback and rank0_only:
            raise NotImplementedError("summon_full_params: writeback=True and rank0_only=True isn't there: ranks would differ")
        wrappers = FullyShardedDataParallel.fsdp_modules(module) if recurse else [module]
        for w in wrappers:
            state = w.__dict__["_fsdp_state"]
            state.lazy_init() if w is module else None
            if state.in_backward or state.depth:
                raise AssertionError("Cannot manually unshard parameters during forward/backward")
            state.group.unshard()
            w._is_summoned = True
        for w in wrappers:
            for p in w._fsdp_state.group.parameters if with_grads else ():
                if p.sharded.grad is not None:
                    p.whole.grad = p.sharded.grad.full_tensor().to(p.whole.dtype)
        try:
            yield
        finally:
            for w in wrappers:
                group = w._fsdp_state.group
                for p in group.parameters:
                    full_state.write_back(p, writeback, with_grads)
                group.reshard()
                w._is_summoned = False

    # ---- state dicts ------------------------------------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """How state_dict() and load_state_dict() of the wrappers in a module have parameters. It returns the settings before."""
        configs = {StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
                   StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
                   StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig)}[state_dict_type]
        config, of_optimizer = state_dict_config or configs[0](), optim_state_dict_config or configs[1]()
        if type(config) is not configs[0]:
            raise RuntimeError(f"Expected state_dict_config of type {configs[0]} but got {type(config)}")
        if type(of_optimizer) is not configs[1]:
            raise RuntimeError(f"Expected optim_state_dict_config of type {configs[1]} but got {type(of_optimizer)}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for w in FullyShardedDataParallel.fsdp_modules(module):
            w._state_dict_type, w._state_dict_config, w._optim_state_dict_config = state_dict_type, config, of_optimizer
        return before

    @staticmethod
    def get_state_dict_type(module):
        found = [StateDictSettings(w._state_dict_type, w._state_dict_config, w._optim_state_dict_config) for w in FullyShardedDataParallel.fsdp_modules(module)]
        if any(one != found[0] for one in found):
            raise AssertionError("All FSDP modules must have the same state dict settings")
        return found[0] if found else StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The optimizer's state dict with names in the place of numbers, and tensors as the state dict type says."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        return full_state.optimizer_saved(model, optim, optim.state_dict() if optim_state_dict is None else optim_state_dict, settings)

    @staticmethod
    def optim_state_dict_to_load(model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None):
        """What optim_state_dict() gave, perhaps with another number of ranks, as this optimizer loads it."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        whole = full_state.optimizer_to_load(model, optim, optim_state_dict, settings, getattr(settings.optim_state_dict_config, "rank0_only", False))
        if load_directly:
            optim.load_state_dict(whole)
        return whole

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, None, FullOptimStateDictConfig(rank0_only=rank0_only)):
            return FullyShardedDataParallel.optim_state_dict(model, optim)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None):
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            return FullyShardedDataParallel.optim_state_dict(model, optim)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None):
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
            return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, full_optim_state_dict)

    flatten_sharded_optim_state_dict = staticmethod(
        lambda sharded_optim_state_dict, model, optim: FullyShardedDataParallel.optim_state_dict_to_load(model, optim, sharded_optim_state_dict))

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None):
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, None, FullOptimStateDictConfig(rank0_only=True)):
            return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """Names to numbers, in the order of the model's parameters, or back."""
        names = [name for _, name in full_state.names_of(model)]
        keys = dict(enumerate(names)) if optim_state_key_type is OptimStateKeyType.PARAM_NAME else {name: i for i, name in enumerate(names)}
        return {"state": {keys[key]: value for key, value in optim_state_dict["state"].items()},
                "param_groups": [{**group, "params": sorted(keys[key] for key in group["params"])} for group in optim_state_dict["param_groups"]]}

    def register_comm_hook(self, state, hook):
        raise NotImplementedError("FullyShardedDataParallel.register_comm_hook isn't there")
