"""IterDataPipe and MapDataPipe: datasets whose steps are methods, registered under a name by functional_datapipe."""
import functools
import pickle

from tede.utils.data.dataset import Dataset, IterableDataset, _T_co
from tede.utils.data.datapipes._iterating import _SnapshotState, wrapped

__all__ = ["DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe"]


class DataChunk(list):
    """A batch as the pipes make it: a list.

    >>> tede.utils.data.DataChunk([1, 2])
    [1, 2]
    """

    def __init__(self, items):
        super().__init__(items)
        self.items = list(self)

    def as_str(self, indent=""):
        """The items with `indent` in front."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def __iter__(self):
        yield from super().__iter__()

    def raw_iterator(self):
        """An iterator over the items."""
        yield from self.items


class _Pipe:
    """What both kinds share: steps as methods, hooks that the graph's traversal sets, and a short repr."""

    reduce_ex_hook = getstate_hook = str_hook = repr_hook = None
    _transient = ()      # attributes that neither a copy nor another process gets

    def __getattr__(self, name):
        if name in self.functions:
            made = self.functions[name]
            return functools.update_wrapper(functools.partial(made, self), made, assigned=("__doc__",))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    @classmethod
    def register_function(cls, function_name, function):
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe(enable_df_api_tracing=True): there are no pipes of data frames")

        def make(source, *args, **kwargs):
            return cls_to_register(source, *args, **kwargs)
        cls.functions[function_name] = functools.update_wrapper(make, cls_to_register, assigned=("__doc__",), updated=())

    @classmethod
    def _set_hook(cls, name, hook):
        kind = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        if getattr(kind, name) is not None and hook is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(kind, name, hook)

    @classmethod
    def set_getstate_hook(cls, hook_fn):
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn):
        cls._set_hook("reduce_ex_hook", hook_fn)

    def __getstate__(self):
        state = self.__dict__
        if self._transient:
            state = {name: value for name, value in state.items() if name not in self._transient}
        hook = type(self).getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._clear()

    def _clear(self):
        """Give the transient attributes their first values."""

    def __reduce_ex__(self, protocol):
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __repr__(self):
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook(self)

    def __str__(self):
        return type(self).__qualname__ if self.str_hook is None else self.str_hook(self)

    def __dir__(self):
        return [*super().__dir__(), *self.functions]

    def _length_of(self, *sources):
        """The sources' lengths; a pipe over something without a length has none."""
        if not all(hasattr(type(source), "__len__") for source in sources):
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return [len(source) for source in sources]


class _IterMeta(type(IterableDataset)):
    def __new__(cls, name, bases, namespace, **kwargs):
        return super().__new__(cls, name, bases, wrapped(namespace), **kwargs)


class IterDataPipe(_Pipe, IterableDataset[_T_co], metaclass=_IterMeta):
    """A dataset that is iterated over, by one iterator at a time: a new one makes the older ones fail. Methods such as
    `map`, `filter`, `batch` and `shuffle` make pipes of it.

    >>> from tede.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(4)).map(lambda x: x * x).batch(2))
    [[0, 1], [4, 9]]
    """

    functions: dict = {}
    _valid_iterator_id = _fast_forward_iterator = None
    _number_of_samples_yielded, _snapshot_state = 0, _SnapshotState.NotStarted

    def __iter__(self):
        return self

    def reset(self):
        """Start again: called whenever an iterator is made."""


class DFIterDataPipe(IterDataPipe):
    """The base of pipes of data frames, of which there are none here.

    >>> issubclass(tede.utils.data.DFIterDataPipe, tede.utils.data.IterDataPipe)
    True
    """

    def _is_dfpipe(self):
        return True


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """A dataset with items by key, with methods such as `map` and `batch`.

    >>> from tede.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper([1, 2, 3]).map(lambda x: x + 1))
    [2, 3, 4]
    """

    functions: dict = {}


class _Serialized:
    """A pipe in a loader: pickled on its own, so that what can't be is said early."""

    def __init__(self, datapipe):
        self._datapipe = datapipe

    def __getstate__(self):
        return pickle.dumps(self._datapipe)

    def __setstate__(self, state):
        self._datapipe = pickle.loads(state)

    def __len__(self):
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from error


class _IterDataPipeSerializationWrapper(_Serialized, IterDataPipe):
    def __iter__(self):
        yield from self._datapipe


class _MapDataPipeSerializationWrapper(_Serialized, MapDataPipe):
    def __getitem__(self, index):
        return self._datapipe[index]
