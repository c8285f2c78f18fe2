"""What an operator does on DTensors: a plan, made once for each kind of call, then the operator on local tensors.

A plan says for each operand which placements it must have, and for each result which it gets. It is made mesh dimension by mesh dimension: of the splits
that the operator has (see Note [Splits]) the one whose operands are got with the fewest bytes. The next mesh dimension splits what this one left."""
from collections import ChainMap

import tede
import tede.distributed as dist
from tede import Tensor
from tede.distributed.tensor import _rules
from tede.distributed.tensor._made import is_dtensor, made
from tede.distributed.tensor._redistribute import redistribute_local
from tede.distributed.tensor._rules import Call, Meta
from tede.distributed.tensor._splits import EACH, SPLITS
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from tede.distributed.tensor.placement_types import Replicate, Shard, _StridedShard
from tede.utils._python_dispatch import no_dispatch

WHOLE = Replicate()
_plans = {}
implicit = False                # plain tensors are whole on each rank: within experimental.implicit_replication
_handlers = {}                  # overload -> function(func, args, kwargs) in the dispatcher's place, within loss_parallel


class Plan:
    """`needs`: placements of each operand; `specs`: of each result, None where there is no tensor; `local`: what is called; `shape`: of the results
    locally, where an argument says it; `written`: which operand each result is, if it is one."""

    __slots__ = ("needs", "specs", "local", "sized", "written", "mesh")


def _bound(func, args, kwargs):
    """The arguments by name."""
    arguments = func._schema.arguments
    values = {a.name: v for a, v in zip(arguments, args)}
    for a in arguments[len(args):]:
        if a.name in kwargs:
            values[a.name] = kwargs[a.name]
        elif a.has_default_value() if hasattr(a, "has_default_value") else a.default_value is not None:
            values[a.name] = a.default_value
    return values


def _mapped(value, f):
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [f(v) if isinstance(v, Tensor) else v for v in value]
    return value


def _hashable(value):
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _on_meta(func, values, wholes):
    """What the call gives for whole operands, without their elements."""
    count = iter(wholes)

    def meta(x):
        spec = next(count)
        return tede.empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device="meta")
    args, kwargs = [], {}
    for a in func._schema.arguments:
        if a.name in values:
            value = tede.device("meta") if a.name == "device" and values[a.name] is not None else _mapped(values[a.name], meta)
            if a.kwarg_only:
                kwargs[a.name] = value
            else:
                args.append(value)
    return func(*args, **kwargs)


def _cost(now, need, numel, n):
    """Elements that a change of placement moves; None where there is none."""
    if now.is_alike(need):
        return 0
    if need.is_replicate():
        return numel * (2 if now.is_partial() else 1)
    if need.is_shard():
        return 0 if now.is_replicate() else numel if now.is_partial() else numel / n + 1
    return 0.5 if now.is_replicate() and getattr(need, "reduce_op", None) != "norm" else None


def _split_meta(meta, placement, n):
    if meta is None or not placement.is_shard():
        return meta
    shape = list(meta.shape)
    shape[placement.dim] = -(-shape[placement.dim] // n)
    return meta._replace(shape=tuple(shape))


def _followed(split, placements):
    """A split as the operands lie: where a strided shard is the shard that it needs, all of its shards are strided."""
    factor = next((p.split_factor for p, need in zip(placements, split.ins) if isinstance(p, _StridedShard) and need == Shard(p.dim)), None)
    if factor is None:
        return split

    def strided(p):
        return _StridedShard(p.dim, split_factor=factor) if p.is_shard() else p
    return split._replace(ins=tuple(map(strided, split.ins)), outs=tuple(map(strided, split.outs)))


def _plan(func, values, names, specs, mesh):
    wholes = [s.tensor_meta for s in specs]
    schema = func._schema
    if any("Tensor" in str(r.type) for r in schema.returns):
        given = _on_meta(func, values, wholes)
        results = list(given) if isinstance(given, (list, tuple)) else [given]
        results = [_rules.meta_of(r) if isinstance(r, Tensor) else None for r in results]
    elif schema.is_mutable and not schema.returns:
        raise NotImplementedError(f"Operator {func} does not have a sharding strategy registered.")
    else:
        results = []
    metas, outs = [Meta(*m) for m in wholes], list(results)
    count = iter(range(len(metas)))
    values = {name: _mapped(value, lambda x: metas[next(count)]) for name, value in values.items()}
    written = [i for i, name in enumerate(names) if any(a.name == name and a.is_write for a in schema.arguments)]
    needs, gives, local = [[] for _ in specs], [[] for _ in results], None
    for i in range(mesh.ndim):
        n = mesh.size(i)
        count = iter(range(len(metas)))
        values = {name: _mapped_metas(value, metas, count) for name, value in values.items()}
        call = Call(func, values, tuple(names), tuple(metas), tuple(outs))
        best = None
        strided = any(isinstance(s.placements[i], _StridedShard) for s in specs)
        for split in _rules.splits(call, n):
            split = _followed(split, [s.placements[i] for s in specs]) if strided else split
            if any(not specs[j].placements[i].is_alike(split.ins[j]) for j in written):
                continue
            costs = [_cost(s.placements[i], need, _rules.numel(m), n) for s, need, m in zip(specs, split.ins, metas)]
            if None not in costs and (best is None or sum(costs) < best[0]):
                best = sum(costs), split
        if best is None:
            where = ", ".join(str(s) for s in specs)
            raise RuntimeError(f"{func}: in-place operations that require placement changes are not supported: operands {where}")
        split = best[1]
        local = split.local or local
        for j, p in enumerate(split.ins):
            needs[j].append(p)
            metas[j] = _split_meta(metas[j], p, n)
        for j, p in enumerate(split.outs if results else ()):
            gives[j].append(p)
            outs[j] = _split_meta(outs[j], p, n)
    plan = Plan()
    plan.mesh, plan.needs, plan.local = mesh, [tuple(p) for p in needs], local
    plan.specs = [None if r is None else DTensorSpec(mesh, g, TensorMeta(*r)) for r, g in zip(results, gives)]
    sized = next((k for k in ("size", "input_sizes") if k in values), None)
    plan.sized = (sized, next(k for k, a in enumerate(schema.arguments) if a.name == sized)) if sized and plan.specs else None
    by_set = {tuple(sorted(a.alias_info.before_set)): a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    plan.written = [by_set.get(tuple(sorted(r.alias_info.before_set))) if r.alias_info is not None and r.alias_info.is_write else None
                    for r in schema.returns]
    return plan


def _mapped_metas(value, metas, count):
    if isinstance(value, Meta):
        return metas[next(count)]
    if isinstance(value, list) and any(isinstance(v, Meta) for v in value):
        return [metas[next(count)] if isinstance(v, Meta) else v for v in value]
    return value


def _for_all(value):
    """A truth that the ranks of a part of the world know, for all."""
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return all(one for one in found if one is not None)


def _spec_of(x, mesh):
    """A tensor's spec; one that is no DTensor is whole on each rank."""
    if is_dtensor(x):
        if x._spec.mesh != mesh:
            raise RuntimeError(f"DTensor does not support cross-mesh operation yet! Got meshes: {x._spec.mesh} {mesh}")
        return x._spec
    return DTensorSpec(mesh, (WHOLE,) * mesh.ndim, TensorMeta(tuple(x.shape), tuple(x.stride()), x.dtype))


class _Operators(dict):
    """The names in an entry's `each`."""

    def __missing__(self, name):
        return getattr(tede.ops.aten, name)


def _functional(func):
    """The name of the operator that an in-place one is the variant of."""
    return func._name.replace("_.", ".").removesuffix("_") if func._schema.is_mutable else func._name


def _each(func, text, args, kwargs):
    """An operator on lists: what its entry says of the tensors at one index, for each. The meshes of all are one, or with implicit_replication parts
    of one."""
    values = _bound(func, args, kwargs)
    meshes = {x._spec.mesh for value in values.values() if isinstance(value, (list, tuple)) for x in value if is_dtensor(x)}
    if len(meshes if not implicit else {mesh._get_root_mesh() for mesh in meshes}) > 1:
        raise RuntimeError(f"DTensor does not support cross-mesh operation yet! Got meshes: {' '.join(map(str, meshes))}")
    if func._schema.is_mutable:
        text = text.replace("(", "_(", 1)
    found = []
    for i in range(len(args[0])):
        here = {k: v[i] if isinstance(v, (list, tuple)) else v for k, v in values.items()}
        found.append(eval(text, {"__builtins__": {}}, ChainMap(here, _Operators())))
    return found if func._schema.returns else None


def _on_lists(func, args, kwargs):
    """An operator that changes the elements of its lists' tensors one by one, on the local ones: at each index all are placed as the first list's is."""
    specs = [x._spec for x in args[0]]

    def local(x, spec):
        if not is_dtensor(x):
            return x
        return x._local_tensor if x._spec.placements == spec.placements else redistribute_local(x._local_tensor, x._spec, spec.placements)

    for a, value in zip(func._schema.arguments, args):
        if a.is_write and any(is_dtensor(x) and x._spec.placements != spec.placements for x, spec in zip(value, specs)):
            raise RuntimeError(f"{func}: tensors that are written have other placements than the first list's: {a.name}")
    if any(p.is_partial() for spec in specs for p in spec.placements):
        raise RuntimeError(f"{func}: in-place operations on parts of sums are not supported")
    return func(*[[local(x, spec) for x, spec in zip(value, specs)] if isinstance(value, (list, tuple)) else value for value in args], **kwargs)


def _local_stride(stride, shape):
    """Strides of a dense tensor of this shape whose dimensions lie in the order of those of the whole."""
    found, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: (stride[d], -d)):
        found[d], step = step, step * max(shape[d], 1)
    return found


def dispatch(func, args, kwargs):
    """DTensor.__torch_dispatch__."""
    handler = _handlers.get(func)
    return plain(func, args, kwargs) if handler is None else handler(func, args, kwargs)


def plain(func, args, kwargs):
    """What the entries say, whatever handlers there are."""
    name = _functional(func)
    if name in EACH:
        return _each(func, EACH[name], args, kwargs)
    if SPLITS.get(func._name) == "lists":
        return _on_lists(func, args, kwargs)
    values, names, tensors = _bound(func, args, kwargs), [], []
    for name, value in values.items():
        for v in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(v, Tensor):
                names.append(name)
                tensors.append(v)
    mesh = next(x for x in tensors if is_dtensor(x))._spec.mesh
    specs = [_spec_of(x, mesh) for x in tensors]
    plain = tuple((k, _hashable(_mapped(v, lambda x: None))) for k, v in values.items())
    key = (func, tuple(specs), plain, tuple(names))
    try:
        plan = _plans.get(key)
    except TypeError:                               # an argument that has no hash
        key, plan = None, None
    if plan is None:
        with no_dispatch(), tede.no_grad():         # modes see what is computed
            plan = _plan(func, values, names, specs, mesh)
        if key is not None:
            _plans[key] = plan
    locals_ = iter([x if need == s.placements and not is_dtensor(x) else
                    (x._local_tensor if need == s.placements else redistribute_local(x._local_tensor if is_dtensor(x) else x, s, need))
                    for x, s, need in zip(tensors, specs, plan.needs)])
    args = [_mapped(v, lambda x: next(locals_)) for v in args]
    kwargs = {k: _mapped(v, lambda x: next(locals_)) for k, v in kwargs.items() if k in values}
    if plan.sized:
        name, at = plan.sized
        size = list(plan.specs[0].local()[0])
        if name in kwargs:
            kwargs[name] = size
        else:
            args[at] = size
        if "stride" in values:
            args[at + 1] = _local_stride(values["stride"], size)
    if mesh.get_coordinate() is None:
        found = tuple(None if s is None else tede.zeros((0,) if s.ndim else (), dtype=s.tensor_meta.dtype) for s in plan.specs)
        found = found if len(plan.specs) > 1 else found[0] if found else None
    elif plan.local is not None:
        found = plan.local(func, args, kwargs, specs, plan)
    else:
        found = func(*args, **kwargs)
    if not plan.specs:
        partly = mesh.size() < dist.get_world_size() and [str(r.type) for r in func._schema.returns] == ["bool"]
        return _for_all(found) if partly else found
    several = isinstance(found, (list, tuple))
    results = []
    for i, (x, spec) in enumerate(zip(found if several else [found], plan.specs)):
        if i < len(plan.written) and plan.written[i] is not None:
            target = values[plan.written[i]]
            if is_dtensor(target) and func._opname.endswith("_") and spec.tensor_meta != target._spec.tensor_meta:
                target._spec, target._local_tensor = spec, x            # a view in place
            results.append(target)
        else:
            results.append(made(x, spec, False) if x is not None and spec is not None else x)
    return type(found)(results) if several and isinstance(found, (list,)) else tuple(results) if several else results[0]


__all__ = ["dispatch", "contiguous_stride"]
