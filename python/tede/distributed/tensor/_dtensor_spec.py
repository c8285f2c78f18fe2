"""DTensorSpec: a mesh, a placement for each of its dimensions, and the whole tensor's shape, strides and dtype."""
import math
from typing import NamedTuple

from tede.distributed.tensor.placement_types import Partial, Replicate, Shard, _StridedShard

_DTYPES = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bool": "b"}


class TensorMeta(NamedTuple):
    shape: tuple
    stride: tuple
    dtype: object


class DTensorSpec:
    """See the file's comment. Specs don't change."""

    __slots__ = ("mesh", "placements", "tensor_meta", "_hash")

    def __init__(self, mesh, placements, tensor_meta=None):
        self.mesh, self.placements, self.tensor_meta = mesh, tuple(placements), tensor_meta
        self._hash = hash((mesh, self.placements, tensor_meta))

    device_mesh = property(lambda self: self.mesh)
    shape = property(lambda self: self.tensor_meta.shape)
    stride = property(lambda self: self.tensor_meta.stride)
    ndim = property(lambda self: len(self.tensor_meta.shape))
    num_shards = property(lambda self: math.prod(self.mesh.size(i) for i, p in enumerate(self.placements) if p.is_shard()))

    @property
    def dim_map(self):
        """Which mesh dimension each dimension is sharded on, the last one of several; -1 for none."""
        found = [-1] * self.ndim
        for i, p in enumerate(self.placements):
            if p.is_shard():
                found[p.dim] = i
        return found

    @property
    def sums(self):
        """The mesh dimensions on which the tensor is in parts that are to be put together."""
        return [i for i, p in enumerate(self.placements) if p.is_partial()]

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, DTensorSpec) and self._hash == other._hash and self.placements == other.placements
                                 and self.tensor_meta == other.tensor_meta and self.mesh == other.mesh)

    def __repr__(self):
        return f"DTensorSpec(mesh={self.mesh}, placements={self.placements}, tensor_meta={self.tensor_meta})"

    def __str__(self):
        placed = "".join(map(str, self.placements))
        if self.tensor_meta is None:
            return f"Spec({placed})"
        name = str(self.tensor_meta.dtype).rpartition(".")[2]
        kind = name.rstrip("0123456789")
        return f"Spec({_DTYPES.get(kind, kind)}{name[len(kind):]}{list(self.shape)}({placed}))"

    def is_replicated(self):
        return all(p.is_replicate() for p in self.placements)

    def is_sharded(self):
        return any(p.is_shard() for p in self.placements)

    @property
    def order(self):
        """The mesh dimensions in the order in which they split: one after the other, but a strided shard's after those later ones that have split the
        dimension into as many parts as it says."""
        if not any(isinstance(p, _StridedShard) for p in self.placements):
            return range(len(self.placements))
        found = []
        for i in reversed(range(len(self.placements))):
            p, at = self.placements[i], 0
            if isinstance(p, _StridedShard):
                left = p.split_factor
                for j in range(i + 1, len(self.placements)):
                    if left > 1 and self.placements[j].is_shard(p.dim):
                        left //= self.mesh.size(j)
                        at = max(at, found.index(j) + 1)
            found.insert(at, i)
        return found

    def replaced(self, mesh_dim, placement):
        """The spec with another placement on one mesh dimension."""
        return DTensorSpec(self.mesh, (*self.placements[:mesh_dim], placement, *self.placements[mesh_dim + 1:]), self.tensor_meta)

    def sizes(self, mesh_dim, placement):
        """The sizes of the ranks' parts along a mesh dimension if the tensor were placed there so, of the rank's part by the dimensions that split before."""
        size, rank, order = self.shape[placement.dim], self.mesh.get_coordinate(), self.replaced(mesh_dim, placement).order
        for i in order[:order.index(mesh_dim)]:
            if self.placements[i].is_shard(placement.dim):
                size = Shard.local_shard_size_and_offset(size, self.mesh.size(i), rank[i])[0]
        n = self.mesh.size(mesh_dim)
        return [Shard.local_shard_size_and_offset(size, n, i)[0] for i in range(n)]

    def local(self):
        """(shape, offset) of the rank's part in the whole; ((0,), ()) of a rank outside the mesh."""
        coordinate = self.mesh.get_coordinate()
        if coordinate is None:
            return (0,), ()
        shape, offset = list(self.shape), [0] * self.ndim
        for i in self.order:
            p = self.placements[i]
            if p.is_shard():
                shape[p.dim], start = Shard.local_shard_size_and_offset(shape[p.dim], self.mesh.size(i), coordinate[i])
                offset[p.dim] += start
        return tuple(shape), tuple(offset)


def normalized(placements, mesh, ndim):
    """Placements for a tensor of `ndim` dimensions on a mesh: none means whole, and dimensions count from the front."""
    placements = tuple(placements) if placements is not None else (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(placements)}, "
                         f"and device_mesh.ndim: {mesh.ndim}.")
    found = []
    for p in placements:
        if isinstance(p, Shard):
            if not -ndim <= p.dim < ndim:
                raise ValueError(f"Sharding dim {p.dim} is out of range for a tensor of {ndim} dimensions")
            p = p.at(p.dim % ndim)
        found.append(p)
    return tuple(found)


def contiguous_stride(shape):
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


def partial(p):
    return isinstance(p, Partial)
