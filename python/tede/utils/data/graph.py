"""The graph of pipes behind a pipe, found by pickling it: what its state holds, in lists and dicts too, it depends on."""
import io
import pickle
import warnings
from collections.abc import Collection
from typing import Dict, Tuple, Union

from tede.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]
_KINDS = (IterDataPipe, MapDataPipe)
DataPipe = Union[IterDataPipe, MapDataPipe]
DataPipeGraph = Dict[int, Tuple[DataPipe, "DataPipeGraph"]]


def _nothing():
    """What a pipe within a pipe is pickled as."""


def _only_holders(state):
    """Of a state, what is a pipe or could hold one."""
    wanted = (*_KINDS, Collection)
    if isinstance(state, dict):
        return {name: value for name, value in state.items() if isinstance(value, wanted)}
    if isinstance(state, (tuple, list)):
        return [value for value in state if isinstance(value, wanted)]
    return state if isinstance(state, wanted) else None


def _behind(pipe, only_datapipe, seen):
    """The pipes that this one holds, each once; those of `seen` are looked through."""
    found = []

    def note(other):
        if other is pipe or id(other) in seen:
            raise NotImplementedError
        found.append(other)
        seen.add(id(other))
        return _nothing, ()
    try:
        for kind in _KINDS:
            kind.set_reduce_ex_hook(note)
            if only_datapipe:
                kind.set_getstate_hook(_only_holders)
        pickle.Pickler(io.BytesIO()).dump(pipe)
    finally:
        for kind in _KINDS:
            kind.set_reduce_ex_hook(None)
            if only_datapipe:
                kind.set_getstate_hook(None)
    return found


def _graph(pipe, only_datapipe, seen):
    if not isinstance(pipe, _KINDS):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found")
    if id(pipe) in seen:
        return {}
    seen = seen | {id(pipe)}        # of this path only: a pipe may be on several
    below = {}
    for other in _behind(pipe, only_datapipe, set(seen)):
        below.update(_graph(other, only_datapipe, seen))
    return {id(pipe): (pipe, below)}


def traverse_dps(datapipe):
    """{id: (pipe, the same of the pipes that it holds)}."""
    return _graph(datapipe, True, set())


def traverse(datapipe, only_datapipe=None):
    """The older form of traverse_dps; unless `only_datapipe`, all attributes must be picklable."""
    said = "`traverse` function is deprecated and will be removed after 1.13. Please use `traverse_dps` instead."
    if not only_datapipe:
        said += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warnings.warn(said, FutureWarning, stacklevel=2)
    return _graph(datapipe, bool(only_datapipe), set())
