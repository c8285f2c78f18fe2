"""How a tensor lies on one dimension of a mesh: in shards, whole on each rank, or as parts that are still to be put together.

A shard of dimension d is what chunk(n, d) gives: parts of equal size, rounded up, and fewer or no elements for the last ranks. A Partial's whole is
what its `reduce_op` makes of the ranks' tensors, all of the whole's shape."""
from tede._compat import fill as _fill
from tede.distributed.tensor import _collectives as comm

__all__ = ["Placement", "Shard", "Replicate", "Partial"]


class Placement:
    """The base of placements. They don't change, and compare by value."""

    _fields = ()

    def is_shard(self, dim=None):
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        return isinstance(self, Replicate)

    def is_alike(self, other):
        """Whether what is placed so is placed as the other says without a change."""
        return self == other or self.is_partial() and other.is_partial(self.reduce_op) and self.reduce_op != "norm"

    def is_partial(self, reduce_op=None):
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def __eq__(self, other):
        return type(self) is type(other) and all(getattr(self, f) == getattr(other, f) for f in self._fields)

    def __hash__(self):
        return hash((type(self), *(getattr(self, f) for f in self._fields)))


class Shard(Placement):
    """Parts along a dimension."""

    _fields = ("dim",)

    def __init__(self, dim):
        self.dim = dim

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"

    def at(self, dim):
        """The same of another dimension."""
        return Shard(dim)

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """(size, offset) of a rank's part of a dimension."""
        step = -(-curr_local_size // num_chunks)
        start = min(step * rank, curr_local_size)
        return min(step, curr_local_size - start), start

    _local_shard_size_and_offset = local_shard_size_and_offset

    def _part(self, x, n, rank):
        size, start = self.local_shard_size_and_offset(x.shape[self.dim], n, rank)
        return x.narrow(self.dim, start, size)

    def _split_tensor(self, tensor, num_chunks, *, with_padding=True, contiguous=True):
        """(the parts, by how much each was padded; nothing is said of a tensor without elements there)."""
        parts = [self._part(tensor, num_chunks, i) for i in range(num_chunks)]
        pads = [parts[0].shape[self.dim] - part.shape[self.dim] for part in parts]
        if with_padding:
            parts = [comm.padded(part, self.dim, parts[0].shape[self.dim]) for part in parts]
        return [part.contiguous() for part in parts] if contiguous else parts, pads if with_padding and tensor.shape[self.dim] else []


class _StridedShard(Shard):
    """Parts of what later dimensions of the mesh have split before: of as many parts as `split_factor` says. What fully_shard makes of parameters
    that tensor parallelism has sharded along the same dimension. See DTensorSpec.order."""

    _fields = ("dim", "split_factor")

    def __init__(self, dim, *, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"

    def at(self, dim):
        return _StridedShard(dim, split_factor=self.split_factor)


class Replicate(Placement):
    """The whole on each rank."""

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


class Partial(Placement):
    """Tensors of the whole's shape that `reduce_op` puts together."""

    _fields = ("reduce_op",)

    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"

    def _partition_value(self, x, mesh, mesh_dim):
        """What a rank contributes to a whole that all have."""
        if self.reduce_op == "sum":
            if x.dtype.is_floating_point or x.dtype.is_complex:
                return x / mesh.size(mesh_dim)
            return x if mesh.get_local_rank(mesh_dim) == 0 else x.new_zeros(x.shape)
        if self.reduce_op == "product":
            return x if mesh.get_local_rank(mesh_dim) == 0 else x.new_ones(x.shape)
        return x                            # avg, max, min of equal values


class _MaskPartial(Partial):
    """Of a lookup in a table whose rows are sharded: zeros where another rank has the row. It goes where a sum does; the table's shape and dimension say
    whose it is."""

    _fields = ("reduce_op", "offset_shape", "offset_dim")

    def __init__(self, reduce_op="sum", offset_shape=None, offset_dim=0):
        super().__init__(reduce_op)
        self.offset_shape, self.offset_dim = offset_shape, offset_dim

    def __repr__(self):
        return f"_MaskPartial(reduce_op={self.reduce_op}, offset_shape={self.offset_shape}, offset_dim={self.offset_dim})"

    def __str__(self):
        return f"MaskP({self.reduce_op}, {self.offset_shape}, {self.offset_dim})"


class _NormPartial(Partial):
    """Norms of parts, which make the norm of the whole."""

    _fields = ("norm_type",)

    def __init__(self, norm_type=2):
        super().__init__("norm")
        self.norm_type = float(norm_type)

    def __repr__(self):
        return f"_NormPartial(reduce_op={'max' if self.norm_type == float('inf') else 'sum'}, norm_type={self.norm_type})"

    def __str__(self):
        return f"P(norm{self.norm_type:g})"


_fill(globals())


_Partial = Partial          # an older name
