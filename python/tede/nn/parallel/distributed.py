"""DistributedDataParallel: a module in several processes, whose gradients are averaged during the backward pass.

The averaging is the reducer's (tede.distributed._reducer). Here is what lies around it: all processes begin with rank 0's
parameters and buffers, forward passes begin with rank 0's buffers, and each forward pass tells the reducer what to expect."""
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import logging
import os
import sys
import typing
import warnings
import weakref

import tede
import tede.distributed as dist
from tede.autograd.function import Function
from tede.distributed.algorithms.join import Join, Joinable, JoinHook
from tede.distributed.distributed_c10d import _get_default_group, _rank_not_in_group
from tede.distributed.utils import _cast_forward_inputs, _sync_module_states, _to_kwargs, _verify_param_shape_across_processes
from tede.futures import Future
from tede.utils._pytree import tree_flatten, tree_unflatten

from ..modules.batchnorm import SyncBatchNorm
from ..modules.module import Module
from ..parameter import UninitializedParameter
from ._scatter import gather, scatter_kwargs

__all__ = ["DistributedDataParallel"]

logger = logging.getLogger("torch.nn.parallel.distributed")

_MIB = 1024 * 1024
_DEFAULT_BUCKET_CAP_MB = 25


@dataclasses.dataclass
class _MixedPrecision:
    """The dtypes of parameters (and inputs), of what is reduced, and of buffers, during forward and backward passes."""

    param_dtype: tede.dtype | None = None
    reduce_dtype: tede.dtype | None = None
    buffer_dtype: tede.dtype | None = None


class _BufferCommHookLocation(enum.Enum):
    PRE_FORWARD = enum.auto()
    POST_FORWARD = enum.auto()


@dataclasses.dataclass
class _BufferCommHook:
    buffer_comm_hook: typing.Callable
    buffer_comm_hook_state: typing.Any
    buffer_comm_hook_location: _BufferCommHookLocation


@dataclasses.dataclass(frozen=True)
class _BucketCapacityConfig:
    """How many bytes of gradients make a bucket."""

    bucket_bytes_cap: int
    per_bucket_bytes_caps: tuple
    first_bucket_bytes_cap: int

    @classmethod
    def create(cls, bucket_cap_mb, bucket_cap_mb_list, use_python_reducer=False):
        caps = ()
        if bucket_cap_mb_list:
            if use_python_reducer:
                raise AssertionError("when using bucket_cap_mb_list, python reducer is not supported")
            caps, cap = tuple(int(cap * _MIB) for cap in bucket_cap_mb_list), max(bucket_cap_mb_list)
        else:
            cap = _DEFAULT_BUCKET_CAP_MB if bucket_cap_mb is None else bucket_cap_mb
        given = bucket_cap_mb is not None or bool(caps)
        cap = int(cap * _MIB)
        return cls(cap, caps, cap if given else dist._DEFAULT_FIRST_BUCKET_BYTES)

    @property
    def bucket_cap_mb(self):
        return self.bucket_bytes_cap // _MIB

    @property
    def has_custom_per_bucket_caps(self):
        return len(self.per_bucket_bytes_caps) > 0

    def compute_bucket_size_limits(self, static_graph, find_unused_parameters):
        """The limits before the first pass, and those of the buckets that are made after it (empty: the reducer's own).

        Before it the order of the gradients isn't known. One bucket is then safe whatever it is; where buckets are not
        made anew they are divided from the start."""
        if self.has_custom_per_bucket_caps:
            return list(self.per_bucket_bytes_caps), list(self.per_bucket_bytes_caps)
        if static_graph or not find_unused_parameters:
            return [sys.maxsize], []
        if self.first_bucket_bytes_cap < self.bucket_bytes_cap:
            return [self.first_bucket_bytes_cap, self.bucket_bytes_cap], []
        return [self.bucket_bytes_cap], []


def _find_tensors(obj):
    """All tensors in an output, whatever it is made of."""
    if isinstance(obj, tede.Tensor):
        return [obj]
    if isinstance(obj, (list, tuple)):
        return itertools.chain.from_iterable(map(_find_tensors, obj))
    if isinstance(obj, dict):
        return itertools.chain.from_iterable(map(_find_tensors, obj.values()))
    if dataclasses.is_dataclass(obj):
        return itertools.chain.from_iterable(_find_tensors(getattr(obj, field.name)) for field in dataclasses.fields(obj))
    return []


def _dump_DDP_relevant_env_vars():
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
                 "GLOO_DEVICE_TRANSPORT", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_DUMP_FILE", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                 "NCCL_DEBUG", "OMP_NUM_THREADS", "TEDE_MPI"):
        print(f"env:{name}={os.environ.get(name, 'N/A')}")


class _DDPSink(Function):
    """Between the outputs and the loss: it lets missing gradients of outputs be missing, and is the first to know of the pass."""

    @staticmethod
    def forward(ctx, ddp, *inputs):
        ctx.set_materialize_grads(False)
        ctx.ddp = ddp
        if not ddp()._ddp_sink_clone:
            return inputs
        return tuple(x.clone() if isinstance(x, tede.Tensor) else x for x in inputs)

    @staticmethod
    def backward(ctx, *grads):
        ddp = ctx.ddp()
        if ddp.static_graph and not ddp._static_graph_delay_allreduce_enqueued:
            tede._C._queue_callback(ddp.reducer._delay_all_reduce)
            ddp._static_graph_delay_allreduce_enqueued = True
        return None, *grads


class _DDPJoinHook(JoinHook):
    """The communication of an iteration of others, from a process that has no more input: zeros, in the same order."""

    def __init__(self, ddp, divide_by_initial_world_size):
        if not isinstance(ddp, DistributedDataParallel):
            raise AssertionError(f"DDP join hook requires passing in a DistributedDataParallel instance as the state, got {type(ddp).__name__}")
        ddp.logger._set_uneven_input_join()
        ddp._divide_by_initial_world_size = divide_by_initial_world_size
        self.ddp = ddp
        super().__init__()

    def main_hook(self):
        ddp = self.ddp
        ddp.reducer._rebuild_buckets()
        ddp._check_and_sync_module_buffers()
        sync = ddp._check_global_requires_backward_grad_sync(is_joined_rank=True)
        ddp.require_forward_param_sync = sync
        if not sync:
            return
        ddp._match_all_reduce_for_bwd_pass()
        if ddp.find_unused_parameters:
            ddp._match_unused_params_allreduce()
        ddp.reducer._push_all_rebuilt_params()

    def post_hook(self, is_last_joiner):
        self.ddp._sync_final_model(is_last_joiner)


class DistributedDataParallel(Module, Joinable):
    """`module` in each process of a group, every process with inputs of its own; gradients are averaged over the processes.

    Gradients travel in buckets of bucket_cap_mb MiB, each as soon as its last gradient is there, while the backward pass goes on.
    With gradient_as_bucket_view they stay where they travelled: gradients are views of buckets, and nothing is copied.

    A parameter that a process doesn't use in an iteration must be looked for (find_unused_parameters), or be unused in all
    iterations (static_graph). Buffers are rank 0's at the start of each forward pass, unless forward_sync_buffers is False.
    The state dict has the prefix "module."."""

    _active_ddp_module = None

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True, process_group=None,
                 bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False, gradient_as_bucket_view=False, static_graph=False,
                 delay_all_reduce_named_params=None, param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None,
                 skip_all_reduce_unused_params=False, bucket_cap_mb_list=None, batched_grad_copy=False, forward_sync_buffers=None):
        super().__init__()
        Joinable.__init__(self)
        self.logger = None
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError("delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time.")
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            self.device_mesh = device_mesh
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = _get_default_group() if process_group is None else process_group

        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._delay_all_reduce_params = [p for _, p in delay_all_reduce_named_params or ()]
        self.parameters_to_ignore.update(name for name, _ in delay_all_reduce_named_params or ())
        self._module_parameters = [p for name, p in module.named_parameters() if name not in self.parameters_to_ignore]
        if not any(p.requires_grad for p in self._module_parameters) and not self._delay_all_reduce_params:
            self._log_and_throw(RuntimeError, "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.")
        if device_ids is not None and len(device_ids) > 1:
            self._log_and_throw(ValueError, "device_ids can only be None or contain a single element.")
        managed = self._module_parameters or self._delay_all_reduce_params
        self._set_devices(managed, device_ids, output_device)
        self.static_graph, self.dim, self.module, self.device = False, dim, module, managed[0].device
        if broadcast_buffers is not None and forward_sync_buffers is not None:
            warnings.warn("Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its value is ignored "
                          "when `forward_sync_buffers` is provided.", FutureWarning, stacklevel=2)
        elif broadcast_buffers is not None:
            warnings.warn("`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead, which unlike it leaves the sync of buffers at the start "
                          "as it is.", FutureWarning, stacklevel=2)
        if forward_sync_buffers is not None:
            self.forward_sync_buffers, sync_first = forward_sync_buffers, True
        else:
            self.forward_sync_buffers = sync_first = broadcast_buffers is None or broadcast_buffers
        self.find_unused_parameters, self.gradient_as_bucket_view, self.batched_grad_copy = find_unused_parameters, gradient_as_bucket_view, batched_grad_copy
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.skip_all_reduce_unused_params = skip_all_reduce_unused_params
        self.mixed_precision = mixed_precision
        if mixed_precision is not None:
            logger.warning("Received mixed precision config %s", mixed_precision)
        if check_reduction:
            warnings.warn("The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.", FutureWarning, stacklevel=2)
        if any(isinstance(p, UninitializedParameter) for p in self._module_parameters):
            self._log_and_throw(RuntimeError, "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward pass to "
                                              "correctly initialize the modules")

        self.broadcast_bucket_size = 250 * _MIB
        self._bucket_config = _BucketCapacityConfig.create(bucket_cap_mb, bucket_cap_mb_list)
        self.bucket_bytes_cap = self._bucket_config.bucket_bytes_cap
        self.bucket_bytes_cap_list = list(self._bucket_config.per_bucket_bytes_caps)
        self.bucket_bytes_cap_default = self._bucket_config.first_bucket_bytes_cap < self.bucket_bytes_cap
        self._ddp_sink_clone, self._static_graph_delay_allreduce_enqueued = True, False
        self._has_rebuilt_buckets, self._lazy_init_ran, self._comm_hooks = False, False, []
        self._divide_by_initial_world_size = True
        self._delay_grad_buffer, self._delay_grad_views, self._delay_all_reduce_all_params = None, [], False
        if self._delay_all_reduce_params:
            self._register_delay_all_reduce_hook(param_to_hook_all_reduce)
            if self._delay_all_reduce_all_params:
                return

        parameters, sparse = self._build_params_for_reducer()
        if init_sync:
            _verify_param_shape_across_processes(self.process_group, parameters)
            _sync_module_states(module, self.process_group, self.broadcast_bucket_size, 0, self.parameters_to_ignore, sync_first)
        self._ddp_init_helper(parameters, sparse, self._build_debug_param_to_name_mapping(parameters), static_graph)
        if mixed_precision is not None:
            self._set_up_mixed_precision(parameters)
        if static_graph:
            self._set_static_graph()

    def _set_devices(self, managed, device_ids, output_device):
        """The devices of the parameters, with which the arguments must agree."""
        kinds = {p.device.type for p in managed}
        if len(kinds) != 1:
            self._log_and_throw(ValueError, "DistributedDataParallel's input module must be on the same type of devices, but input module parameters "
                                            f"locate in {kinds}.")
        self.device_type = next(iter(kinds))
        self.is_multi_device_module = len({p.device for p in managed}) > 1
        if not device_ids or self.device_type == "cpu" or self.is_multi_device_module:
            if device_ids or output_device:
                self._log_and_throw(ValueError, "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
                                                f"GPU modules or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module "
                                                f"parameters {({p.device for p in managed})}.")
            self.device_ids = self.output_device = None
        else:
            self.device_ids = [tede.device(self.device_type, d).index if isinstance(d, int) else tede.device(d).index for d in device_ids]
            self.output_device = self.device_ids[0] if output_device is None else tede.device(output_device).index

    @property
    def broadcast_buffers(self):
        return self.forward_sync_buffers

    def _log_and_throw(self, kind, message):
        if self.logger is not None:
            self.logger.set_error_and_log(f"{kind}: {message}")
        raise kind(message)

    # ---- construction

    def _build_params_for_reducer(self):
        """The parameters that want a gradient, each once, and which of them get sparse ones."""
        owners = {}
        for path, module in self.module.named_modules():
            for name, p in module.named_parameters(recurse=False):
                full = f"{path}.{name}" if path else name
                if p.requires_grad and not {full, f"{path}.{name}"} & self.parameters_to_ignore:
                    owners.setdefault(p, module)
        self._assign_modules_buffers()
        return list(owners), [bool(getattr(module, "sparse", False)) and isinstance(module, (tede.nn.Embedding, tede.nn.EmbeddingBag))
                              for module in owners.values()]

    def _assign_modules_buffers(self):
        """The buffers as they are now: a module may have put another one in a buffer's place."""
        self.named_module_buffers = {name: buffer for name, buffer in self.module.named_buffers() if name not in self.parameters_to_ignore}
        self.modules_buffers = list(self.named_module_buffers.values())

    def _build_debug_param_to_name_mapping(self, parameters):
        index_of, names = {p: i for i, p in enumerate(parameters)}, {}
        for path, module in self.module.named_modules():
            for name, p in module.named_parameters(recurse=False):
                full = f"{path}.{name}"
                if p.requires_grad and full.lstrip(".") not in self.parameters_to_ignore and full not in self.parameters_to_ignore:
                    if p not in index_of:
                        self._log_and_throw(ValueError, f"Param with name {full} found in module parameters, but not DDP parameters.")
                    names[index_of[p]] = full
        if len(index_of) != len(names):
            self._log_and_throw(ValueError, "Expected param to name mapping to cover all parameters, but got conflicting lengths: "
                                            f"{len(index_of)} vs {len(names)}.")
        return names

    def _ddp_init_helper(self, parameters, sparse, names, static_graph):
        limits, rebuilt_limits = self._bucket_config.compute_bucket_size_limits(static_graph, self.find_unused_parameters)
        indices, of_bucket = dist._compute_bucket_assignment_by_size(parameters, limits, sparse)
        # Gradients come in the reverse of the order in which parameters are used, which is taken to be that of their definition.
        self.reducer = dist.Reducer(parameters, list(reversed(indices)), list(reversed(of_bucket)), self.process_group, sparse, self.bucket_bytes_cap,
                                    self.find_unused_parameters, self.gradient_as_bucket_view, names, self._bucket_config.first_bucket_bytes_cap,
                                    self.skip_all_reduce_unused_params, False, rebuilt_limits, self.batched_grad_copy)
        self.logger = dist.Logger(self.reducer)
        self.reducer.set_logger(self.logger)
        self.logger.set_construction_data_and_log(type(self.module).__name__, self.device_ids or [], -1 if self.output_device is None else self.output_device,
                                                  self.forward_sync_buffers, any(isinstance(m, SyncBatchNorm) for m in self.module.modules()), static_graph)

    def _set_static_graph(self):
        """Parameters are used alike in all iterations: what the first pass shows holds for the rest."""
        if self.static_graph:
            warnings.warn("You've set static_graph to be True, no need to set it again.", stacklevel=2)
            return
        self.static_graph, self._static_graph_delay_allreduce_enqueued = True, False
        self.reducer._set_static_graph()
        self.logger._set_static_graph()
        if self.find_unused_parameters:
            warnings.warn("You passed find_unused_parameters=true to DistributedDataParallel, `_set_static_graph` will detect unused parameters "
                          "automatically, so you do not need to set find_unused_parameters=true, just be sure these unused parameters will not change "
                          "during training loop while calling `_set_static_graph`.", stacklevel=2)

    def __getstate__(self):
        self._check_default_group()
        state = copy.copy(self.__dict__)
        for name in ("process_group", "reducer", "logger"):
            del state[name]
        state["broadcast_buffers"] = self.forward_sync_buffers
        return state

    def __setstate__(self, state):
        self.process_group = _get_default_group()
        super().__setstate__(state)
        self.__dict__.setdefault("require_forward_param_sync", True)
        self.__dict__.setdefault("require_backward_grad_sync", True)
        self.__dict__.setdefault("forward_sync_buffers", self.__dict__.pop("broadcast_buffers", True))
        parameters, sparse = self._build_params_for_reducer()
        self._ddp_init_helper(parameters, sparse, self._build_debug_param_to_name_mapping(parameters), self.static_graph)
        if self.static_graph:
            self.reducer._set_static_graph()
            self.logger._set_static_graph()

    def _check_default_group(self):
        try:
            default = self.process_group == _get_default_group()
        except (RuntimeError, ValueError):
            default = False
        if not default:
            self._log_and_throw(RuntimeError, "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, when you have "
                                              "called init_process_group and have not passed process_group argument to DDP constructor")

    # ---- parameters whose gradients are reduced all at once, when that of another parameter comes

    def _register_delay_all_reduce_hook(self, last):
        params = self._delay_all_reduce_params
        self._delay_grad_buffer = tede.zeros(sum(p.numel() for p in params), device=self.device)
        dist._broadcast_coalesced(self.process_group, [p.detach() for p in params], self.broadcast_bucket_size, 0)
        last.register_hook(self._delayed_all_reduce_hook)
        self._delay_grad_views = [part.view(p.shape) for p, part in zip(params, self._delay_grad_buffer.split([p.numel() for p in params]))]
        self._delay_all_reduce_all_params = not any(p.requires_grad and name not in self.parameters_to_ignore for name, p in self.module.named_parameters())

    def _delayed_all_reduce_hook(self, grad):
        self._delay_grad_buffer.div_(dist.get_world_size(self.process_group))
        dist.all_reduce(self._delay_grad_buffer, group=self.process_group, async_op=True)
        return grad

    def _clear_grad_buffer(self):
        if self._delay_grad_buffer is None:
            return
        missing = [(p, view) for p, view in zip(self._delay_all_reduce_params, self._delay_grad_views) if p.grad is None]
        for p, view in missing:
            p.grad = view.zero_()

    # ---- the passes

    def forward(self, *inputs, **kwargs):
        if self._delay_all_reduce_all_params:
            output = self.module.forward(*inputs, **kwargs)
            self._clear_grad_buffer()
            return output
        with tede.autograd.profiler.record_function("DistributedDataParallel.forward"):
            inputs, kwargs = self._pre_forward(*inputs, **kwargs)
            return self._post_forward(self._run_ddp_forward(*inputs, **kwargs))

    def _run_ddp_forward(self, *inputs, **kwargs):
        outer = DistributedDataParallel._active_ddp_module
        DistributedDataParallel._active_ddp_module = self
        try:
            return self.module(*inputs, **kwargs)
        finally:
            DistributedDataParallel._active_ddp_module = outer

    def _pre_forward(self, *inputs, **kwargs):
        if not self._lazy_init_ran:
            self._setup_in_backward_optimizers()
            self._lazy_init_ran = True
        with_grad = tede.is_grad_enabled()
        if with_grad and self.require_backward_grad_sync:
            self.logger.set_runtime_stats_and_log()
            self.reducer.prepare_for_forward()
        work = Join.notify_join_context(self)
        if work:
            self.reducer._set_forward_pass_work_handle((work, work.here), self._divide_by_initial_world_size)
        if with_grad and not self._has_rebuilt_buckets and self.reducer._rebuild_buckets():
            logger.info("Reducer buckets have been rebuilt in this iteration.")
            self._has_rebuilt_buckets = True
        if self._check_sync_bufs_pre_fwd():
            self._sync_buffers()
        if self._join_config.enable:
            self._check_global_requires_backward_grad_sync(is_joined_rank=False)
        if self.device_ids:
            moved, moved_kwargs = _to_kwargs(inputs, kwargs, tede.device(self.device_type, self.device_ids[0]), False)
            inputs, kwargs = moved[0], moved_kwargs[0]
        if self.mixed_precision is not None and self.mixed_precision.param_dtype is not None:
            self._to_low_precision()
            inputs, kwargs = _cast_forward_inputs(self.mixed_precision.param_dtype, *inputs, **kwargs)
        return inputs, kwargs

    def _post_forward(self, output):
        if self.mixed_precision is not None and self.mixed_precision.param_dtype is not None and not tede.is_grad_enabled():
            self._to_full_precision()
        if self._check_sync_bufs_post_fwd():
            self._sync_buffers()
        look = self.find_unused_parameters and not self.static_graph
        self.require_forward_param_sync = tede.is_grad_enabled() and self.require_backward_grad_sync
        if self.require_forward_param_sync:
            self.reducer.prepare_for_backward(list(_find_tensors(output)) if look else [])
        if look or (self.static_graph and not self._static_graph_delay_allreduce_enqueued):
            leaves, spec = tree_flatten(output)
            through = _DDPSink.apply(weakref.ref(self), *leaves)
            # Tensors without history stay as they are: the sink would give them one.
            output = tree_unflatten([leaf if isinstance(leaf, tede.Tensor) and leaf.grad_fn is None else passed
                                     for leaf, passed in zip(leaves, through)], spec)
        self._clear_grad_buffer()
        return output

    @contextlib.contextmanager
    def no_sync(self):
        """Forward passes inside it leave the gradients of their backward passes to this process; the next one outside averages the sum."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @classmethod
    def _get_active_ddp_module(cls):
        return cls._active_ddp_module

    def scatter(self, inputs, kwargs, device_ids):
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def to_kwargs(self, inputs, kwargs, device_id):
        return _to_kwargs(inputs, kwargs, tede.device(self.device_type, device_id), False)

    def gather(self, outputs, output_device):
        return gather(outputs, output_device, dim=self.dim)

    # ---- buffers

    def will_sync_module_buffers(self):
        return self.require_forward_param_sync and self.forward_sync_buffers and len(self.modules_buffers) > 0

    def _check_sync_bufs_pre_fwd(self):
        return self.will_sync_module_buffers() and self._buffer_hook_location() is _BufferCommHookLocation.PRE_FORWARD

    def _check_sync_bufs_post_fwd(self):
        return self.will_sync_module_buffers() and self._buffer_hook_location() is _BufferCommHookLocation.POST_FORWARD

    def _buffer_hook_location(self):
        hook = self.__dict__.get("buffer_hook")
        return hook.buffer_comm_hook_location if hook else _BufferCommHookLocation.PRE_FORWARD

    def _register_buffer_comm_hook(self, state, hook, comm_hook_location=_BufferCommHookLocation.POST_FORWARD):
        """hook(state, buffers by name) does what the broadcast of buffers would; futures that it returns are waited for at the end of the pass."""
        if not callable(hook):
            raise AssertionError(f"hook must be callable, got {type(hook).__name__}")
        self.buffer_hook = _BufferCommHook(hook, state, comm_hook_location)

    def _sync_buffers(self):
        with tede.no_grad():
            source = self._find_common_rank(self._distributed_rank, True) if self._join_config.enable else 0
            self._assign_modules_buffers()
            # Graphs of earlier forward passes may have saved them, and are as right with rank 0's.
            with tede.autograd._unsafe_preserve_version_counter(tuple(self.modules_buffers)):
                self._sync_module_buffers(source)

    def _sync_module_buffers(self, authoritative_rank):
        hook = self.__dict__.get("buffer_hook")
        if hook is None:
            self._default_broadcast_coalesced(authoritative_rank=authoritative_rank)
            return
        futures = hook.buffer_comm_hook(hook.buffer_comm_hook_state, self.named_module_buffers)
        if futures is not None:
            self.reducer._install_post_backward_futures(futures)

    def _default_broadcast_coalesced(self, bufs=None, bucket_size=None, authoritative_rank=0):
        self._distributed_broadcast_coalesced(self.modules_buffers if bufs is None else bufs, bucket_size or self.broadcast_bucket_size, authoritative_rank)

    def _distributed_broadcast_coalesced(self, tensors, buffer_size, authoritative_rank=0):
        dist._broadcast_coalesced(self.process_group, tensors, buffer_size, authoritative_rank)

    # ---- unequally many inputs

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """A context in which processes may do unequally many iterations: those that are through go on answering.

        Gradients are divided by the number of processes at the start, or of those that still have input."""
        return Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs):
        return _DDPJoinHook(self, divide_by_initial_world_size=kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self):
        return self.device

    @property
    def join_process_group(self):
        return self.process_group

    @property
    def _distributed_rank(self):
        return dist.get_rank(self.process_group)

    def _check_global_requires_backward_grad_sync(self, is_joined_rank):
        wanted = tede.full((1,), float(not is_joined_rank and self.require_backward_grad_sync), device=self.device)
        work = dist.all_reduce(wanted, group=self.process_group, async_op=True)
        work.wait()
        return wanted.item() != 0 if is_joined_rank else None

    def _check_and_sync_module_buffers(self):
        if self._check_sync_bufs_pre_fwd():
            self._sync_module_buffers(self._find_common_rank(self._distributed_rank, False))

    def _sync_final_model(self, is_last_joiner):
        self._authoritative_rank = self._find_common_rank(self._distributed_rank, is_last_joiner)
        _sync_module_states(self.module, self.process_group, self.broadcast_bucket_size, self._authoritative_rank, self.parameters_to_ignore,
                            self.forward_sync_buffers)

    def _find_common_rank(self, input_rank, rank_cond):
        """The largest of the ranks for which the condition holds."""
        rank = tede.tensor([input_rank if rank_cond else -1], device=self.device)
        dist.all_reduce(rank, op=dist.ReduceOp.MAX, group=self.process_group)
        if rank.item() == -1:
            self._log_and_throw(ValueError, "Expected rank_cond to be true for at least one process.")
        return rank.item()

    def _match_all_reduce_for_bwd_pass(self):
        for future in [self.reducer._run_comm_hook(bucket) for bucket in self.reducer._get_zeros_like_grad_buckets()]:
            future.wait()

    def _match_unused_params_allreduce(self):
        self.process_group.allreduce([tede.zeros_like(self.reducer._get_local_used_map())]).wait()

    # ---- hooks

    def register_comm_hook(self, state, hook):
        """hook(state, bucket) in place of the all_reduce of a bucket: a future of what the bucket's gradients are to be, not divided by the number of ranks."""
        self._check_comm_hook(hook)
        self.logger._set_comm_hook_name(hook.__qualname__)
        self._comm_hooks.append((hook, state))
        dist._register_comm_hook(self.reducer, state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type):
        self.logger._set_comm_hook_name(str(comm_hook_type))
        dist._register_builtin_comm_hook(self.reducer, comm_hook_type)

    def _check_comm_hook(self, hook):
        if not callable(hook):
            self._log_and_throw(TypeError, "Communication hook must be callable.")
        signature = inspect.signature(hook)
        if signature.parameters["bucket"].annotation not in (inspect.Parameter.empty, dist.GradBucket, "dist.GradBucket"):
            self._log_and_throw(ValueError, "Communication hook: bucket annotation should be dist.GradBucket.")
        if signature.return_annotation not in (inspect.Signature.empty, Future[tede.Tensor], "torch.futures.Future[torch.Tensor]"):
            self._log_and_throw(ValueError, "Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")

    def _register_fused_optim(self, optim, *args, optim_params=None, **kwargs):
        """An optimizer whose step for a parameter is taken as soon as its gradient has been reduced."""
        from tede.distributed.algorithms._optimizer_overlap import _as_overlapped_optim
        overlapped = _as_overlapped_optim(optim, optim_params, *args, **kwargs)
        try:
            overlapped.register_ddp(self)
        except NotImplementedError as error:
            raise RuntimeError(f"{optim} does not support overlapped DDP.") from error

    def _setup_in_backward_optimizers(self):
        """Optimizers that parameters carry for their own (_apply_optimizer_in_backward) wait for the reduced gradient."""
        if not any(hasattr(p, "_in_backward_optimizers") for p in self._module_parameters):
            return
        from tede.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import _apply_optim_in_backward_hook
        from tede.distributed.optim.apply_optimizer_in_backward import param_to_optim_hook_handle_map
        for p in self._module_parameters:
            for handle in param_to_optim_hook_handle_map.get(p, []):
                handle.remove()
        self.register_comm_hook(weakref.ref(self), _apply_optim_in_backward_hook(gradient_is_bucket_view=self.gradient_as_bucket_view))
        self.reducer._set_optimizer_in_backward()

    def _remove_autograd_hooks(self):
        self.reducer._remove_autograd_hooks()

    def _check_reducer_finalized(self):
        """An error unless all gradients of the last pass have been reduced."""
        self.reducer._check_reducer_finalized()

    def _update_process_group(self, new_process_group):
        """Another group from now on, with other processes; buckets are made anew after the next pass."""
        self._has_rebuilt_buckets = False
        self.reducer._reset_state()
        if not _rank_not_in_group(new_process_group):
            self.process_group = new_process_group
            self.reducer._update_process_group(new_process_group)

    def _set_ddp_sink_clone(self, val):
        """Whether outputs are copied on the way to the loss; views of the module's own may then not be written in place."""
        self._ddp_sink_clone = val

    # ---- parameters and buffers that are left alone

    @staticmethod
    def _get_data_parallel_params(module, named_params=False):
        for item in module.named_parameters() if named_params else module.parameters():
            if not hasattr(item, "_ddp_ignored"):
                yield item

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore
        for name, value in itertools.chain(module.named_parameters(), module.named_buffers()):
            if name in params_and_buffers_to_ignore:
                value._ddp_ignored = True

    # ---- what is known about the wrapper

    def _get_ddp_logging_data(self):
        return self.logger._get_ddp_logging_data()

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate):
        if sample_rate < 1:
            self._log_and_throw(ValueError, "DDP runtime logging sample rate should be equal or greater than 1")
        self.reducer._set_ddp_runtime_logging_sample_rate(sample_rate)

    # ---- mixed precision
    #
    # Between the start of a forward pass and the end of its backward pass the parameters are copies in param_dtype. Each gradient
    # is reduced in low precision as it comes; at the end parameters and gradients are in full precision again.

    def _set_up_mixed_precision(self, parameters):
        config = self.mixed_precision
        if config.buffer_dtype is not None:
            for buffer in self.module.buffers():
                if not hasattr(buffer, "_ddp_ignored") and buffer.is_floating_point():
                    buffer.data = buffer.to(config.buffer_dtype)
        if config.param_dtype is None:
            return
        self._low, self._low_hooks, self._full_enqueued = {}, [], False
        self._low_index = {p: i for i, p in enumerate(parameters)}
        self.reducer._remove_autograd_hooks()
        self.reducer._set_mixed_precision_param_dtype(config.param_dtype)
        from tede.distributed.algorithms.ddp_comm_hooks.mixed_precision_hooks import _AllreduceUpcastHookState, _reducer_allreduce_and_upcast_hook
        self.register_comm_hook(_AllreduceUpcastHookState(weakref.ref(self), None), _reducer_allreduce_and_upcast_hook)

    def _to_low_precision(self):
        dtype = self.mixed_precision.param_dtype
        for p in self.module.parameters():
            if hasattr(p, "_ddp_ignored") or p in self._low or not p.is_floating_point():
                continue
            grad, p.grad, self._low[p] = p.grad, None, p.data
            p._fp_param, p.data = p.data, p.data.to(dtype)
            p.grad = None if grad is None else grad.to(dtype)
            if p.requires_grad and tede.is_grad_enabled():
                accumulator = p.expand_as(p).grad_fn.next_functions[0][0]       # another one than that of full precision
                self._low_hooks.append((accumulator, accumulator.register_hook(functools.partial(self._fire_reducer_autograd_hook, self._low_index[p]))))

    def _fire_reducer_autograd_hook(self, index, *_):
        if not self._full_enqueued:
            self._full_enqueued = True
            tede._C._queue_callback(self._to_full_precision)
        self.reducer._autograd_hook(index)

    def _to_full_precision(self):
        self._full_enqueued = False
        for _, handle in self._low_hooks:
            handle.remove()
        self._low_hooks.clear()
        for p, full in self._low.items():
            grad, p.grad = p.grad, None
            p.data = full
            p.grad = None if grad is None else grad.to(full.dtype)
        self._low.clear()
