"""Splitting a batch's arguments into microbatches, and putting outputs together again."""
import tede
from tede import Tensor
from tede.utils import _pytree as tree

__all__ = ["TensorChunkSpec", "split_args_kwargs_into_chunks", "merge_chunks"]


class _CustomReducer:
    """Outputs of microbatches are put together by a function: reduce_fn(reduce_fn(init_value, first), second)..."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    pass


sum_reducer = _LossReducer(tede.tensor(0.0), lambda a, b: a + b)


class TensorChunkSpec:
    """A tensor is split along this dimension."""

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"{self.__class__.__module__}.{self.__class__.__name__}({self.split_dim})"

    def __str__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        return tree.tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        return tree.tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """A value goes to all microbatches."""


def _is_spec(x):
    return isinstance(x, (TensorChunkSpec, _CustomReducer)) or x is _Replicate or isinstance(x, _Replicate)


def _default(value):
    return TensorChunkSpec(0) if isinstance(value, Tensor) else _Replicate()


def _matched(value, spec):
    """[(leaf, its spec)] and the structure; a spec may be of a whole part of a value."""
    leaves, structure = tree.tree_flatten(value)
    if spec is None:
        return list(zip(leaves, map(_default, leaves))), structure
    if _is_spec(spec):
        return [(leaf, spec if isinstance(leaf, Tensor) else _Replicate()) for leaf in leaves], structure
    if isinstance(value, dict):
        pairs = [pair for key, inner in value.items() for pair in _matched(inner, spec.get(key))[0]]
    elif isinstance(value, (list, tuple)):
        pairs = [pair for inner, s in zip(value, spec, strict=True) for pair in _matched(inner, s)[0]]
    else:
        raise ValueError(f"a {type(value).__name__} has no place for the chunk specification {spec}")
    return pairs, structure


def _split(value, spec, chunks):
    pairs, structure = _matched(value, spec)
    columns = []
    for leaf, how in pairs:
        if isinstance(leaf, Tensor) and isinstance(how, TensorChunkSpec):
            if leaf.shape[how.split_dim] < chunks:
                raise ValueError(f"a dimension of {leaf.shape[how.split_dim]} can't be split into {chunks} microbatches")
            columns.append(tede.tensor_split(leaf, chunks, how.split_dim))
        else:
            columns.append([leaf] * chunks)
    return [tree.tree_unflatten([column[i] for column in columns], structure) for i in range(chunks)]


def split_args_kwargs_into_chunks(args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None):
    """(a tuple of arguments, keywords) of each microbatch. By default tensors are split along their first dimension, and other values go to all."""
    return _split(tuple(args), args_chunk_spec, chunks), _split(kwargs or {}, kwargs_chunk_spec, chunks)


def merge_chunks(chunks, chunk_spec):
    """One value of those of all microbatches; the opposite of splitting."""
    pairs, structure = _matched(chunks[0], chunk_spec)
    columns = list(zip(*(tree.tree_leaves(chunk) for chunk in chunks)))
    merged = []
    for (_, how), column in zip(pairs, columns):
        if isinstance(how, TensorChunkSpec):
            merged.append(tede.cat(column, how.split_dim))
        elif isinstance(how, _CustomReducer):
            value = how.init_value
            for x in column:
                value = how.reduce_fn(value, x)
            merged.append(value)
        else:
            merged.append(column[0])
    return tree.tree_unflatten(merged, structure)
