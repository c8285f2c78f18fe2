"""torch.distributed._functional_collectives: collectives that write nothing, as operators of the namespace _c10d_functional.

Each begins its work and returns at once; `wait_tensor` waits for it. Functions return an AsyncCollectiveTensor, which waits when it is first used, or,
while operators are noted for a graph, what wait_tensor gives. All have gradients."""
import contextlib

import tede
from tede import library
from tede._effects import has_side_effect
from tede.distributed import distributed_c10d as c10d
from tede.distributed._work import ReduceOp
from tede.utils._python_dispatch import _get_current_dispatch_mode

__all__ = []

REDUCE_OP_TO_STR = {ReduceOp.SUM: "sum", ReduceOp.AVG: "avg", ReduceOp.PRODUCT: "product", ReduceOp.MIN: "min", ReduceOp.MAX: "max",
                    ReduceOp.BAND: "band", ReduceOp.BOR: "bor", ReduceOp.BXOR: "bxor"}
_OPS = {name: op for op, name in REDUCE_OP_TO_STR.items()}
_works = {}                 # of results that nobody has waited for: the address of the storage -> work


def _op(name):
    op = _OPS.get(name.lower())
    if op is None:
        raise ValueError(f"Unsupported reduce operation {name}")
    return op


def _note(tensors, work):
    """The work of results."""
    if work is not None:
        for tensor in tensors:
            _works[tensor.untyped_storage()._cdata] = work
    return tensors


def _get_work_registry_size():
    return len(_works)


# ---- the operators ---------------------------------------------------------------------------------------------------

_library = library.Library("_c10d_functional", "DEF")
_kernels = {}


def _define(schema, meta):
    """A decorator that makes an operator of a function, and of one of its results' shapes."""
    _library.define(schema)
    name = schema.partition("(")[0]

    def register(function):
        _library.impl(name, function, "CompositeExplicitAutograd" if meta is None else "CPU")
        if meta is not None:
            _library.impl(name, function, "CUDA")
            _library.impl(name, meta, "Meta")
        _kernels[name] = function
        return function
    return register


def _like(input, *args):
    return tede.empty_like(input, memory_format=tede.contiguous_format)


def _all_likes(inputs, *args):
    return [_like(input) for input in inputs]


def _rows(input, n):
    return input.new_empty((input.shape[0] * n if input.dim() else n, *input.shape[1:]))


def _fewer_rows(input, n):
    return input.new_empty((input.shape[0] // n, *input.shape[1:]))


@_define("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", _like)
def _all_reduce(input, reduce_op, group_name):
    result = input.contiguous().clone()
    return _note([result], c10d.all_reduce(result, _op(reduce_op), c10d._resolve_process_group(group_name), async_op=True))[0]


@_define("all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)", lambda input, *args: input)
def _all_reduce_(input, reduce_op, group_name):
    return _note([input], c10d.all_reduce(input, _op(reduce_op), c10d._resolve_process_group(group_name), async_op=True))[0]


@_define("all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]", _all_likes)
def _all_reduce_coalesced(inputs, reduce_op, group_name):
    return [_all_reduce(input, reduce_op, group_name) for input in inputs]


@_define("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", lambda input, size, name: _rows(input, size))
def _all_gather_into_tensor(input, group_size, group_name):
    result = _rows(input, group_size)
    return _note([result], c10d.all_gather_into_tensor(result, input.contiguous(), c10d._resolve_process_group(group_name), async_op=True))[0]


@_define("all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)", lambda input, size, name, *, out: out)
def _all_gather_into_tensor_out(input, group_size, group_name, *, out):
    return _note([out], c10d.all_gather_into_tensor(out, input.contiguous(), c10d._resolve_process_group(group_name), async_op=True))[0]


@_define("all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
         lambda inputs, size, name: [_rows(input, size) for input in inputs])
def _all_gather_into_tensor_coalesced(inputs, group_size, group_name):
    return [_all_gather_into_tensor(input, group_size, group_name) for input in inputs]


@_define("reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor", lambda input, op, size, name: _fewer_rows(input, size))
def _reduce_scatter_tensor(input, reduce_op, group_size, group_name):
    if input.shape[0] % group_size:
        raise RuntimeError(f"reduce_scatter_tensor: {input.shape[0]} rows can't be divided by {group_size} ranks")
    result = _fewer_rows(input, group_size)
    return _note([result], c10d.reduce_scatter_tensor(result, input.contiguous(), _op(reduce_op), c10d._resolve_process_group(group_name), async_op=True))[0]


@_define("reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
         lambda inputs, op, size, name: [_fewer_rows(input, size) for input in inputs])
def _reduce_scatter_tensor_coalesced(inputs, reduce_op, group_size, group_name):
    return [_reduce_scatter_tensor(input, reduce_op, group_size, group_name) for input in inputs]


@_define("all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor",
         lambda input, out, into, name: input.new_empty((sum(out), *input.shape[1:])))
def _all_to_all_single(input, output_split_sizes, input_split_sizes, group_name):
    result = input.new_empty((sum(output_split_sizes), *input.shape[1:]))
    work = c10d.all_to_all_single(result, input.contiguous(), list(output_split_sizes), list(input_split_sizes), c10d._resolve_process_group(group_name),
                                  async_op=True)
    return _note([result], work)[0]


@_define("broadcast(Tensor input, int src, str group_name) -> Tensor", _like)
def _broadcast(input, src, group_name):
    result = input.contiguous().clone()
    return _note([result], c10d.broadcast(result, group=c10d._resolve_process_group(group_name), async_op=True, group_src=src))[0]


@_define("broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)", lambda input, *args: input)
def _broadcast_(input, src, group_name):
    return _note([input], c10d.broadcast(input, group=c10d._resolve_process_group(group_name), async_op=True, group_src=src))[0]


@_define("wait_tensor(Tensor tensor) -> Tensor", lambda tensor: tensor)
def _wait_tensor(tensor):
    work = _works.pop(tensor.untyped_storage()._cdata, None)
    if work is not None:
        work.wait()
    return tensor


ops = tede.ops._c10d_functional
has_side_effect(ops.wait_tensor), has_side_effect(ops.wait_tensor.default)
_AUTOGRAD = "_c10d_functional::"


def _keep(*names):
    """What a gradient needs of a call's arguments, by position."""
    def setup(ctx, inputs, output):
        ctx.kept = inputs
    return setup


def _done(tensor):
    return ops.wait_tensor(tensor)


def _backward_all_reduce(ctx, grad):
    _, op, name = ctx.kept
    return _done(ops.all_reduce(grad.contiguous(), op, name)), None, None


def _backward_all_gather(ctx, grad):
    _, size, name = ctx.kept
    return _done(ops.reduce_scatter_tensor(grad.contiguous(), "sum", size, name)), None, None


def _backward_reduce_scatter(ctx, grad):
    _, op, size, name = ctx.kept
    gathered = _done(ops.all_gather_into_tensor(grad.contiguous(), size, name))
    return gathered / size if op == "avg" else gathered, None, None, None


def _backward_all_to_all(ctx, grad):
    _, outputs, inputs, name = ctx.kept
    return _done(ops.all_to_all_single(grad.contiguous(), inputs, outputs, name)), None, None, None


for _name, _backward in (("all_reduce", _backward_all_reduce), ("all_gather_into_tensor", _backward_all_gather),
                         ("reduce_scatter_tensor", _backward_reduce_scatter), ("all_to_all_single", _backward_all_to_all),
                         ("wait_tensor", lambda ctx, grad: grad)):
    library.register_autograd(_AUTOGRAD + _name, _backward, setup_context=_keep())


# ---- results that wait when they are used ----------------------------------------------------------------------------

class AsyncCollectiveTensor(tede.Tensor):
    """A result whose work goes on; any use of it waits."""
    elem: tede.Tensor
    completed: bool
    __slots__ = ["elem", "completed"]

    @staticmethod
    def __new__(cls, elem):
        made = tede.Tensor._make_wrapper_subclass(cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
                                                  layout=elem.layout, device=elem.device, requires_grad=elem.requires_grad)
        made.elem, made.completed = elem, False
        return made

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        return AsyncCollectiveTensor(inner_tensors["elem"])

    def __repr__(self):
        return f"AsyncCollectiveTensor({self.trigger_wait()})"

    def __coerce_same_metadata_as_tangent__(self, expected_metadata, expected_type=None):
        return self.trigger_wait()

    def tolist(self):
        return self.trigger_wait().tolist()

    def numpy(self, *args, **kwargs):
        return self.wait().numpy(*args, **kwargs)

    def trigger_wait(self):
        if not self.completed:
            self.completed = True
            return wait_tensor(self.elem)
        return self.elem

    def wait(self):
        return wait_tensor(self.elem)

    def _get_acs_underlying_tensor(self):
        return self.elem

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is tede.ops.aten.view.default and isinstance(args[0], AsyncCollectiveTensor) and not args[0].completed:
            return AsyncCollectiveTensor(func(args[0].elem, args[1]))
        waited = _mapped(args), _mapped(kwargs)
        return func(*waited[0], **waited[1])


def _mapped(value):
    if isinstance(value, AsyncCollectiveTensor):
        return value.trigger_wait()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_mapped, value)) if type(value) in (list, tuple) else value
    return {key: _mapped(one) for key, one in value.items()} if isinstance(value, dict) else value


def _are_we_tracing():
    """Whether calls are noted for a graph, or made without elements."""
    mode = _get_current_dispatch_mode()
    return mode is not None and (mode.is_infra_mode() or getattr(mode, "takes_control_flow", False))


def _maybe_wrap_tensor(tensor):
    if _are_we_tracing() or type(tensor) is not tede.Tensor or tensor.requires_grad or tensor.device.type == "meta":
        return wait_tensor(tensor)
    return AsyncCollectiveTensor(tensor)


# ---- groups ----------------------------------------------------------------------------------------------------------

def _resolve_group(group, tag=""):
    """The group that is meant: a group or its name, a mesh of one dimension, (mesh, dimension), ranks, or lists of them of which one has this rank."""
    if isinstance(group, c10d.ProcessGroup):
        return group
    if isinstance(group, str):
        return c10d._resolve_process_group(group)
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group") and isinstance(group[1], int):
        return group[0].get_group(group[1])
    if hasattr(group, "get_group"):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group(0)
    if isinstance(group, list):
        if group and isinstance(group[0], list):
            sizes = {len(ranks) for ranks in group}
            if len(sizes) != 1:
                raise ValueError("group sizes must be identical")
            return c10d._find_or_create_pg_by_ranks_and_tag(tag, [rank for ranks in group for rank in ranks], sizes.pop())
        found = c10d._find_pg_by_ranks_and_tag(tag, group)
        return found if found is not None else c10d._find_or_create_pg_by_ranks_and_tag(tag, group, len(group))
    raise ValueError("Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int).")


def _resolve_group_name(group, tag=""):
    return group if isinstance(group, str) else _resolve_group(group, tag).group_name


def _expand_group(group, tag=""):
    """(tag, ranks, size): of lists what they say, of a group its own tag unless another one is given."""
    if isinstance(group, list):
        if not group or not isinstance(group[0], list):
            return tag, group, len(group)
        if len({len(ranks) for ranks in group}) != 1:
            raise ValueError("group sizes must be identical")
        return tag, [rank for ranks in group for rank in ranks], len(group[0])
    pg = _resolve_group(group, tag)
    ranks = c10d.get_process_group_ranks(pg)
    return tag or c10d._get_group_tag(pg), ranks, len(ranks)


def _size_of(group, tag):
    pg = _resolve_group(group, tag)
    return pg.group_name, pg.size()


# ---- the functions ---------------------------------------------------------------------------------------------------

def wait_tensor(tensor):
    """The tensor, when its work is done."""
    return ops.wait_tensor(tensor)


def broadcast(self, src, group, tag=""):
    """The tensor of rank src of the group."""
    return _maybe_wrap_tensor(ops.broadcast(self, src, _resolve_group_name(group, tag)))


def all_reduce(self, reduceOp, group, tag=""):
    """The sum (or another reduction) of all ranks' tensors."""
    return _maybe_wrap_tensor(ops.all_reduce(self, reduceOp.lower(), _resolve_group_name(group, tag)))


def all_gather_tensor(self, gather_dim, group, tag=""):
    """The tensors of all ranks, joined in a dimension."""
    if not self.is_contiguous():
        self = self.contiguous()
    name, size = _size_of(group, tag)
    return _maybe_wrap_tensor(_gathered(self, gather_dim, size, name))


def _gathered(self, dim, size, name):
    result = ops.all_gather_into_tensor(self, size, name)
    if dim:
        result = tede.cat(tede.chunk(wait_tensor(result), size, dim=0), dim=dim)
    return result


def all_gather_tensor_autograd(self, gather_dim, group, tag=""):
    """all_gather_tensor, which has gradients by itself."""
    return all_gather_tensor(self, gather_dim, group, tag)


def _scattered(self, op, dim, size, name):
    if self.shape[dim] % size:
        raise AssertionError(f"input dimension {dim} ({self.shape[dim]} must be a multiple of group_size {size})")
    if dim:
        self = tede.cat(tede.chunk(self, size, dim=dim))
    return ops.reduce_scatter_tensor(self.contiguous(), op.lower(), size, name)


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """This rank's part, in a dimension, of the sum (or another reduction) of all ranks' tensors."""
    name, size = _size_of(group, tag)
    return _maybe_wrap_tensor(_scattered(self, reduceOp, scatter_dim, size, name))


def reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group, tag=""):
    """reduce_scatter_tensor, which has gradients by itself."""
    return reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag)


all_gather_single, all_gather_single_autograd = all_gather_tensor, all_gather_tensor_autograd
reduce_scatter_single, reduce_scatter_single_autograd = reduce_scatter_tensor, reduce_scatter_tensor_autograd


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    return [_maybe_wrap_tensor(tensor) for tensor in ops.all_reduce_coalesced(self, reduceOp.lower(), _resolve_group_name(group, tag))]


def all_gather_into_tensor_coalesced(self, group, tag=""):
    name, size = _size_of(group, tag)
    return [_maybe_wrap_tensor(tensor) for tensor in ops.all_gather_into_tensor_coalesced(self, size, name)]


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    name, size = _size_of(group, tag)
    if len(scatter_dim) != len(inputs):
        raise AssertionError(f"as many dimensions as tensors were expected, {len(inputs)}, not {len(scatter_dim)}")
    rows = [tede.cat(tede.chunk(tensor, size, dim=dim)) if dim else tensor for tensor, dim in zip(inputs, scatter_dim)]
    return [_maybe_wrap_tensor(tensor) for tensor in ops.reduce_scatter_tensor_coalesced(rows, reduceOp.lower(), size, name)]


all_gather_single_coalesced, reduce_scatter_single_coalesced = all_gather_into_tensor_coalesced, reduce_scatter_tensor_coalesced


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Part i of every rank's tensor, on rank i; parts are equal, or have so many rows each."""
    name, size = _size_of(group, tag)
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise AssertionError("output_split_sizes and input_split_sizes must either be specified together or both set to None")
    if output_split_sizes is None:
        output_split_sizes = input_split_sizes = [self.shape[0] // size] * size
    return _maybe_wrap_tensor(ops.all_to_all_single(self, output_split_sizes, input_split_sizes, name))


def all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group, tag=""):
    """all_to_all_single, which has gradients by itself."""
    return all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag)


def permute_tensor(self, src_dst, group, tag=""):
    """The tensor of the rank that src_dst maps to this one."""
    pg = _resolve_group(group, tag)
    outputs, inputs = [0] * pg.size(), [0] * pg.size()
    for source, target in enumerate(src_dst):
        if source == pg.rank():
            inputs[target] = self.numel()
        if target == pg.rank():
            outputs[source] = self.numel()
    return all_to_all_single(self.reshape(-1), outputs, inputs, group, tag).view(self.shape)


# ---- operators of the older namespace, which name a group by its ranks ------------------------------------------------

_older = library.Library("c10d_functional", "DEF")


def _define_older(schema, function, *kept):
    """An operator that calls `function`; its last arguments (tag, ranks, group_size) say which group."""
    def call(*args):
        *values, tag, ranks, size = args
        return function(*values, *kept, c10d._find_or_create_pg_by_ranks_and_tag(tag, ranks, size))
    _older.define(schema)
    _older.impl(schema.partition("(")[0], call, "CompositeImplicitAutograd")


_GROUP = "str tag, int[] ranks, int group_size"
_define_older(f"broadcast(Tensor self, int src, {_GROUP}) -> Tensor", broadcast)
_define_older(f"all_reduce(Tensor self, str reduceOp, {_GROUP}) -> Tensor", all_reduce)
_define_older(f"all_reduce_coalesced(Tensor[] self, str reduceOp, {_GROUP}) -> Tensor[]", all_reduce_coalesced)
_define_older(f"all_gather_into_tensor(Tensor shard, {_GROUP}) -> Tensor", all_gather_tensor, 0)
_define_older(f"all_gather_into_tensor_coalesced(Tensor[] input, {_GROUP}) -> Tensor[]", all_gather_into_tensor_coalesced)
_define_older(f"reduce_scatter_tensor(Tensor input, str reduceOp, {_GROUP}) -> Tensor", reduce_scatter_tensor, 0)
_define_older(f"reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduceOp, {_GROUP}) -> Tensor[]",
              lambda inputs, op, group: reduce_scatter_tensor_coalesced(inputs, op, [0] * len(inputs), group))
_define_older(f"all_to_all_single(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, {_GROUP}) -> Tensor", all_to_all_single)
_older.define("wait_tensor(Tensor self) -> Tensor")
_older.impl("wait_tensor", wait_tensor, "CompositeImplicitAutograd")


@contextlib.contextmanager
def allow_inflight_collective_as_graph_input_ctx(value=True):
    """Accepted for compatibility: graphs take what is passed."""
    yield


# ---- in place, for calls that a graph replaces -----------------------------------------------------------------------

def _no_async(async_op):
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")


def all_gather_tensor_inplace(output_tensor, input_tensor, group=None, async_op=False, tag="", gather_dim=0):
    _no_async(async_op)
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group or c10d.group.WORLD, tag))


def reduce_scatter_tensor_inplace(output, input, op="sum", group=None, async_op=False, scatter_dim=0, tag=""):
    _no_async(async_op)
    return output.copy_(reduce_scatter_tensor(input, op, scatter_dim, group or c10d.group.WORLD, tag))


def all_reduce_inplace(tensor, op="sum", group=None, async_op=False, tag=""):
    _no_async(async_op)
    return tensor.copy_(all_reduce(tensor, op, group or c10d.group.WORLD, tag))


def all_to_all_inplace(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False, tag=""):
    _no_async(async_op)
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, group or c10d.group.WORLD, tag))


def all_gather_inplace(tensor_list, tensor, group=None, async_op=False, tag=""):
    _no_async(async_op)
    gathered = all_gather_tensor(tensor, 0, group or c10d.group.WORLD, tag)
    at = 0
    for one in tensor_list:
        rows = one.shape[0] if one.dim() else 1
        one.copy_(gathered[at:at + rows].view(one.shape))
        at += rows
    return tensor_list
