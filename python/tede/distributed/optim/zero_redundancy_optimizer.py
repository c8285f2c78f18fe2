"""ZeroRedundancyOptimizer: each rank keeps the optimizer's state of some parameters, takes their step, and sends them to the others.

Parameters are dealt out group by group, the largest first, each to the rank that has least so far. `param_groups` are those of all
parameters, and `optim` is a local optimizer of this rank's; what a scheduler writes into one is copied to the other around each
step. With parameters_as_bucket_view a rank's parameters are views of one flat tensor, which is sent as it is.

With overlap_with_ddp there is no step(): a communication hook (ddp_zero_hook) takes the step of a bucket's parameters as soon as
the bucket's gradients are averaged. Which rank has which parameters is then decided by the buckets, after they are made anew."""
import collections
import copy
import enum
import io
import itertools
import logging

import tede
import tede.distributed as dist
from tede.distributed.algorithms.join import Join, Joinable, JoinHook
from tede.distributed.optim.utils import functional_optim_map
from tede.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]

logger = logging.getLogger("torch.distributed.optim.zero_redundancy_optimizer")


def _recursive_copy_to_device(value, non_blocking, device):
    if isinstance(value, tede.Tensor):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, (list, tuple)):
        return type(value)(_recursive_copy_to_device(item, non_blocking, device) for item in value)
    if isinstance(value, collections.abc.Mapping):
        return {key: _recursive_copy_to_device(item, non_blocking, device) for key, item in value.items()}
    return value


def _is_trainable(param):
    return param.requires_grad


def _broadcast_object(obj, src_rank, group=None, device=None):
    """The object that rank src_rank (of all processes) passes, on all ranks of the group."""
    device = tede.device("cpu") if device is None else device
    if dist.get_rank() == src_rank:
        buffer = io.BytesIO()
        tede.save(obj, buffer)
        data = tede.frombuffer(bytearray(buffer.getvalue()), dtype=tede.uint8).to(device)
        dist.broadcast(tede.tensor([data.numel()], device=device), src=src_rank, group=group)
        dist.broadcast(data, src=src_rank, group=group)
        return obj
    length = tede.zeros(1, dtype=tede.int64, device=device)
    dist.broadcast(length, src=src_rank, group=group)
    data = tede.empty(int(length), dtype=tede.uint8, device=device)
    dist.broadcast(data, src=src_rank, group=group)
    return tede.load(io.BytesIO(data.cpu().numpy().tobytes()), map_location=device, weights_only=False)


class _ZeROJoinHook(JoinHook):
    """A rank without input goes on taking its parameters' steps, which the others wait for."""

    def __init__(self, zero):
        if not isinstance(zero, ZeroRedundancyOptimizer):
            raise AssertionError("ZeRO join hook requires passing in a ZeroRedundancyOptimizer instance as the state")
        self.zero = zero
        super().__init__()

    def main_hook(self):
        self.zero.step()


class _DDPBucketAssignment:
    """The part of a bucket that one rank has: parameters from number `offset` on, which are views of `tensor`."""

    def __init__(self, bucket_index, parameters, offset):
        if not parameters:
            raise ValueError("Empty bucket assignment")
        self.bucket_index, self.parameters, self.offset = bucket_index, parameters, offset
        self.device, self.tensor = parameters[0].device, None


class _OverlapStatus(enum.IntEnum):
    UNINITIALIZED = 0
    DDP_HAS_REBUILT_BUCKETS = 1
    INITIALIZED = 2


class _OverlapInfo:
    """What is known of the buckets, and where this pass has got to."""

    def __init__(self):
        self.status, self.shard_buckets, self.total_size = _OverlapStatus.UNINITIALIZED, False, None
        self.params_per_bucket, self.params_per_rank = [], collections.defaultdict(list)
        self.offsets = {}                               # of this rank's buckets, where their parameters are among the local optimizer's
        self.assigned_ranks_per_bucket, self.num_bucket_assignments = [], 0
        self.broadcast_handles, self.bucket_indices_seen, self.bucket_index_to_future, self.bucket_index_to_bucket = [], [], {}, {}

    def wait_for_broadcasts(self):
        if len(self.broadcast_handles) != self.num_bucket_assignments:
            raise AssertionError(f"Missing at least one broadcast handle on rank {dist.get_rank()}")
        for handle in self.broadcast_handles:
            handle.wait()
        self.broadcast_handles.clear()

    def clear_per_iter_info(self):
        self.bucket_indices_seen.clear()
        self.bucket_index_to_future.clear()
        self.bucket_index_to_bucket.clear()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """optimizer_class(params, **defaults), whose state is divided among the ranks of a group. All ranks must call step() alike.

    state_dict() is of all parameters, on the rank that consolidate_state_dict() was called for."""

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False, overlap_with_ddp=False, **defaults):
        params = self._verify_and_init_params(params)
        self._verify_same_dense_param_type()
        self.initialized = False
        Optimizer.__init__(self, params, defaults)
        Joinable.__init__(self)
        self._partition_parameters_cache, self._bucket_assignments_per_rank_cache, self._all_state_dicts = [], [], []
        self._is_trainable_mask, self._default_device = self._get_is_trainable_mask(), self._all_params[0].device
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.world_size, self.rank = dist.get_world_size(self.process_group), dist.get_rank(self.process_group)
        self.global_rank = dist.get_global_rank(self.process_group, self.rank)
        self._overlap_with_ddp, self._optim_defaults = overlap_with_ddp, defaults
        self._optim_constructor = self._get_optimizer_constructor(optimizer_class)
        if overlap_with_ddp:
            self._overlap_info = _OverlapInfo()
            if parameters_as_bucket_view:
                logger.warning("`parameters_as_bucket_view=True` will be ignored since `overlap_with_ddp=True`; instead, a different bucketing strategy "
                               "will be used")
        else:
            self._init_local_optimizer()
        self.parameters_as_bucket_view, self._buckets = parameters_as_bucket_view, []
        self._build_param_buckets()
        self.initialized = True

    # ---- construction

    def _verify_and_init_params(self, params):
        if isinstance(params, tede.Tensor):
            raise TypeError(f"`params` argument should be an iterable of Tensors, but got {tede.typename(params)}")
        try:
            items = list(params)
        except TypeError as error:
            raise TypeError(f"`params` argument should be an iterable of Tensors or dicts, but got {tede.typename(params)}") from error
        if not items:
            raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
        if all(isinstance(item, tede.Tensor) for item in items):
            self._all_params = items
        elif all(isinstance(item, dict) for item in items):
            if not all("params" in group for group in items):
                raise ValueError("Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in the group")
            for group in items:
                group["params"] = [group["params"]] if isinstance(group["params"], tede.Tensor) else list(group["params"])
            self._all_params = [p for group in items for p in group["params"]]
        else:
            raise TypeError("`params` argument should be an iterable of Tensors or dicts")
        return items

    def _verify_same_dense_param_type(self):
        first = self._all_params[0]

        def kind(p):
            return p.type() if type(p) is tede.Tensor else tede.typename(p)
        if first.is_sparse:
            raise ValueError("ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got a sparse one")
        for p in self._all_params[1:]:
            if kind(p) != kind(first) or p.is_sparse:
                raise ValueError(f"ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got both {kind(first)} and {kind(p)}")

    def _get_is_trainable_mask(self):
        return list(map(_is_trainable, self._all_params))

    def _get_optimizer_constructor(self, optimizer_class):
        functional = functional_optim_map.values()
        if not self._overlap_with_ddp:
            if optimizer_class in functional:
                raise ValueError(f"Passing in a functional optimizer {optimizer_class} when `overlap_with_ddp=False`")
            return optimizer_class
        if optimizer_class in functional:
            return optimizer_class
        if optimizer_class not in functional_optim_map:
            raise ValueError("Using `ddp_with_overlap=True` requires using a functional optimizer, but there is no supported functional optimizer equivalent "
                             f"for {optimizer_class}")
        return functional_optim_map[optimizer_class]

    def _init_local_optimizer(self):
        groups = self._partition_parameters()[self.rank]
        if self._overlap_with_ddp:
            self.optim = self._optim_constructor(groups[0]["params"], **self._optim_defaults, _allow_empty_param_list=True)
        else:
            self.optim = self._optim_constructor(groups, **self._optim_defaults)
        self._sync_param_groups(self.optim.param_groups, self.param_groups)

    def add_param_group(self, param_group):
        if self.initialized and self._overlap_with_ddp:
            raise RuntimeError("ZeroRedundancyOptimizer with `overlap_with_ddp=True` only supports a single parameter group")
        super().add_param_group(param_group)
        if not self.initialized:
            return
        # The groups before it were dealt out in the same order, so this rank's share of them is what it was.
        self._clear_cache()
        groups = self._partition_parameters()[self.rank]
        if len(groups) == len(self.optim.param_groups) + 1:
            self.optim.add_param_group(groups[-1])
        if self.parameters_as_bucket_view:
            self._build_param_buckets()

    # ---- which rank has what

    def _clear_cache(self):
        self._partition_parameters_cache.clear()
        self._bucket_assignments_per_rank_cache.clear()

    def _partition_parameters(self, params_per_rank=None):
        """Each rank's parameter groups. params_per_rank decides it, where there is one group."""
        dealt = self._partition_parameters_cache
        if params_per_rank is not None:
            if dealt:
                raise AssertionError("Specifying `params_per_rank` should only be done when the parameters have not been partitioned yet")
            if len(self.param_groups) != 1:
                raise RuntimeError("Specifying `params_per_rank` only supports a single parameter group")
            self._verify_params_per_rank(params_per_rank)
            dealt.extend([{**self.param_groups[0], "params": params}] for params in params_per_rank)
        elif not dealt:
            dealt.extend([] for _ in range(self.world_size))
            sizes = [0] * self.world_size
            for group in self.param_groups:
                shares = [[] for _ in range(self.world_size)]
                for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                    rank = self._get_min_index(sizes)
                    shares[rank].append(p)
                    sizes[rank] += p.numel()
                for groups, share in zip(dealt, shares):
                    groups.append({**group, "params": share})
        return dealt

    def _verify_params_per_rank(self, params_per_rank):
        if len(params_per_rank) != self.world_size:
            raise ValueError("`params_per_rank` must have length equal to the world size")
        if not set(itertools.chain.from_iterable(params_per_rank)) <= set(self._all_params):
            raise ValueError("Passing a new parameter in `params_per_rank` that was not passed into the ZeroRedundancyOptimizer constructor")

    @staticmethod
    def _get_min_index(values, disallowed_indices=None):
        """Where the smallest value is."""
        allowed = [i for i in range(len(values)) if not disallowed_indices or i not in disallowed_indices]
        if not allowed:
            raise AssertionError("All indices are disallowed")
        return min(allowed, key=values.__getitem__)

    @property
    def _param_to_rank(self):
        return {p: rank for rank, groups in enumerate(self._partition_parameters()) for group in groups for p in group["params"]}

    @property
    def _index_to_param(self):
        return [p for group in self.param_groups for p in group["params"]]

    @property
    def _param_to_index(self):
        return {p: i for i, p in enumerate(self._index_to_param)}

    @property
    def _device_to_params_per_rank(self):
        found = {}
        for rank, groups in enumerate(self._partition_parameters()):
            for p in itertools.chain.from_iterable(group["params"] for group in groups):
                found.setdefault(p.device, [[] for _ in range(self.world_size)])[rank].append(p)
        return found

    @staticmethod
    def _flatten(params, device):
        """One tensor of all parameters, which become views of it."""
        if not params:
            return tede.zeros(1, device=device)
        flat = tede.cat([p.detach().reshape(-1) for p in params])
        for p, part in zip(params, flat.split([p.numel() for p in params])):
            p.data = part.view(p.shape)
        return flat

    def _build_param_buckets(self):
        if not self.parameters_as_bucket_view or self._overlap_with_ddp:
            return
        self._buckets = []
        for device, params_per_rank in self._device_to_params_per_rank.items():
            for p in itertools.chain.from_iterable(params_per_rank):
                if not _is_trainable(p):
                    p.data = p.detach().clone()         # it may have been part of a bucket
            self._buckets.append([self._flatten([p for p in params if _is_trainable(p)], device) for params in params_per_rank])

    # ---- steps

    def step(self, closure=None, **kwargs):
        """This rank's parameters' step, and those of the others from them."""
        if self._overlap_with_ddp:
            logger.warning("`step()` should not be included in the training loop when `overlap_with_ddp=True`")
            return None
        loss = self._local_step(closure=closure, **kwargs)
        self._sync_params()
        return loss

    def _local_step(self, gradients=None, closure=None, **kwargs):
        Join.notify_join_context(self)
        mask = self._get_is_trainable_mask()
        if mask != self._is_trainable_mask:
            if self._overlap_with_ddp:
                raise RuntimeError("ZeroRedundancyOptimizer with `overlap_with_ddp=True` does not support changing parameter trainability at run time")
            logger.warning("ZeroRedundancyOptimizer detected that the trainable parameters changed; rebuilding the parameter buckets if enabled")
            self._build_param_buckets()
            self._is_trainable_mask = mask
        self._sync_param_groups(self.param_groups, self.optim.param_groups)
        if gradients is not None:
            if not self._overlap_with_ddp or closure is not None:
                raise AssertionError("gradients are passed with `overlap_with_ddp=True` alone, and without a closure")
            loss = self.optim.step(gradients=gradients)
        else:
            loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._sync_param_groups(self.optim.param_groups, self.param_groups)
        return loss

    def _sync_params(self):
        handles = [handle for rank in range(self.world_size) for handle in self._broadcast_params_from_rank(rank)]
        for handle in handles:
            handle.wait()

    def _broadcast_params_from_rank(self, rank):
        if self._overlap_with_ddp:
            raise AssertionError("`_broadcast_params_from_rank()` should not be used if `overlap_with_ddp=True`; instead, the broadcasting should happen in "
                                 "the DDP communication hook")
        if self.parameters_as_bucket_view:
            sent = [buckets[rank] for buckets in self._buckets]
        else:
            sent = [p.detach() for group in self._partition_parameters()[rank] for p in group["params"]]
        source = dist.get_global_rank(self.process_group, rank)
        return [dist.broadcast(x, src=source, group=self.process_group, async_op=True) for x in sent]

    @staticmethod
    def _sync_param_groups(src_param_groups, dst_param_groups):
        """All but the parameters themselves."""
        if len(src_param_groups) != len(dst_param_groups):
            raise AssertionError("Mismatch between number of source and destination parameter groups")
        for source, to in zip(src_param_groups, dst_param_groups):
            to.update((name, value) for name, value in source.items() if name != "params")

    def join_hook(self, **kwargs):
        return _ZeROJoinHook(self)

    @property
    def join_device(self):
        return self._default_device

    @property
    def join_process_group(self):
        return self.process_group

    # ---- state

    def consolidate_state_dict(self, to=0):
        """All ranks call it: rank `to` gets the state that the others have."""
        self._check_overlap_initialized()
        self._sync_param_groups(self.param_groups, self.optim.param_groups)
        self._all_state_dicts, cpu = [], tede.device("cpu")
        for rank in range(self.world_size):
            state = self.optim.state_dict() if rank == self.rank else None
            if rank != to:
                state = _broadcast_object(state, dist.get_global_rank(self.process_group, rank), self.process_group, self._default_device)
            if self.rank == to:
                self._all_state_dicts.append(_recursive_copy_to_device(state, True, cpu))

    def state_dict(self):
        self._check_overlap_initialized()
        if not self._all_state_dicts:
            raise RuntimeError(f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to={self.rank})` on all ranks "
                               "beforehand if you meant to save the global state.")
        whole, index_of = super().state_dict(), self._param_to_index
        for local, groups in zip(self._all_state_dicts, self._partition_parameters()):
            if len(local["param_groups"]) != len(groups):
                raise AssertionError("Mismatch between number of local and global parameter groups")
            for local_group, group in zip(local["param_groups"], groups):
                if len(local_group["params"]) != len(group["params"]):
                    raise AssertionError("Mismatch between number of local and global parameters in parameter group")
                for i, p in zip(local_group["params"], group["params"]):
                    if i in local["state"]:
                        whole["state"][index_of[p]] = local["state"][i]
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict):
        self._check_overlap_initialized()
        ranks, params = self._param_to_rank, self._index_to_param
        for i, value in state_dict["state"].items():
            p = params[i]
            if ranks[p] != self.rank:
                state_dict["state"][i] = None
                continue
            self.optim.state[p] = _recursive_copy_to_device(value, True, p.device)
            for name, x in self.optim.state[p].items():
                if isinstance(x, tede.Tensor) and x.dim() == 0:
                    self.optim.state[p][name] = x.cpu()     # counts of steps, which optimizers read
        super().load_state_dict(state_dict)
        self._sync_param_groups(state_dict["param_groups"], self.param_groups)
        self._sync_param_groups(self.param_groups, self.optim.param_groups)

    # ---- steps within the backward pass

    def _check_overlap_initialized(self):
        if self._overlap_with_ddp and self._overlap_info.status != _OverlapStatus.INITIALIZED:
            raise RuntimeError("This method should not be called until this ZeroRedundancyOptimizer instance has been fully initialized")

    def _get_assigned_rank(self, bucket_index):
        if self._overlap_info.shard_buckets:
            raise AssertionError("The bucket assignment requires global bucket information and will be computed later; there should be no need to use this method")
        return bucket_index % self.world_size

    def _assign_bucket_subset_to_rank(self, bucket_index, bucket_params, bucket_offset, assigned_rank, assigned_ranks_per_bucket):
        info = self._overlap_info
        self._bucket_assignments_per_rank_cache[assigned_rank][bucket_index] = _DDPBucketAssignment(bucket_index, bucket_params, bucket_offset)
        if self.rank == assigned_rank:
            info.offsets[bucket_index] = len(info.params_per_rank[assigned_rank])
        info.params_per_rank[assigned_rank].extend(bucket_params)
        assigned_ranks_per_bucket[bucket_index].add(assigned_rank)
        info.num_bucket_assignments += 1

    @property
    def _bucket_assignments_per_rank(self):
        """Each rank's parts of buckets: whole buckets in turn, or with shard_buckets about equally many elements."""
        if not self._overlap_with_ddp:
            raise AssertionError("`_bucket_assignments_per_rank` only be used if `overlap_with_ddp=True`")
        if self._bucket_assignments_per_rank_cache:
            return self._bucket_assignments_per_rank_cache
        info = self._overlap_info
        if info.status != _OverlapStatus.INITIALIZED:
            raise AssertionError
        self._bucket_assignments_per_rank_cache = [{} for _ in range(self.world_size)]
        ranks_of = info.assigned_ranks_per_bucket = [set() for _ in info.params_per_bucket]
        if not info.shard_buckets:
            for index, params in enumerate(info.params_per_bucket):
                self._assign_bucket_subset_to_rank(index, params, 0, self._get_assigned_rank(index), ranks_of)
            return self._bucket_assignments_per_rank_cache
        fair, sizes = info.total_size / self.world_size, [0] * self.world_size
        for index, params in sorted(enumerate(info.params_per_bucket), key=lambda item: sum(p.numel() for p in item[1])):
            start, size = 0, 0
            for end in range(1, len(params) + 1):
                size += params[end - 1].numel()
                if end == len(params) or size + params[end].numel() >= fair:
                    rank = self._get_min_index(sizes, ranks_of[index])
                    self._assign_bucket_subset_to_rank(index, params[start:end], start, rank, ranks_of)
                    sizes[rank] += size
                    start, size = end, 0
        return self._bucket_assignments_per_rank_cache

    def _init_zero_for_overlap(self):
        """The buckets are known: whose parameters are whose, and the local optimizer."""
        if not self._overlap_with_ddp:
            raise AssertionError("`_init_zero_for_overlap()` should only be called when `overlap_with_ddp=True`")
        self._overlap_info.status = _OverlapStatus.INITIALIZED
        self._clear_cache()
        for assignments in self._bucket_assignments_per_rank:
            for assignment in assignments.values():
                assignment.tensor = self._flatten(assignment.parameters, assignment.device)
        self._partition_parameters([self._overlap_info.params_per_rank[rank] for rank in range(self.world_size)])
        self._init_local_optimizer()

    def __getstate__(self):
        raise RuntimeError("a ZeroRedundancyOptimizer isn't pickled: save its state_dict(), after consolidate_state_dict()")

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({name: value if name == "process_group" else copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return made
