"""Batcher, UnBatcher, Grouper: items into batches, batches into items, items grouped by key."""
from collections import defaultdict

from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import DataChunk, IterDataPipe
from tede.utils.data.datapipes.utils.common import _check_unpickable_fn

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


class Batching:
    """How many items make a list, and how many lists there are: for pipes of iterables and of maps."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __len__(self):
        return (self._length_of(self.datapipe)[0] + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size


@functional_datapipe("batch")
class BatcherIterDataPipe(Batching, IterDataPipe):
    """Lists of `batch_size` items; the last may be shorter unless `drop_last`.

    Args:
        datapipe: the source
        batch_size: how many items make a list
        drop_last: whether a shorter list at the end is left out
        wrapper_class: the class of the lists

    Example:
        >>> list(IterableWrapper(range(3)).batch(2))
        [[0, 1], [2]]
    """

    def __iter__(self):
        batch = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The items within lists, so many levels deep; -1: all the way.

    Args:
        datapipe: the source
        unbatch_level: how many levels of lists are opened

    Example:
        >>> list(IterableWrapper([[0, 1], [2]]).unbatch())
        [0, 1, 2]
    """

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        for item in self.datapipe:
            yield from self._dive(item, self.unbatch_level)

    def _dive(self, item, level):
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if level == 0 or (level == -1 and not isinstance(item, list)):
            yield item
        elif isinstance(item, list):
            for inner in item:
                yield from self._dive(inner, level if level == -1 else level - 1)
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Lists of items with the same key, given out as soon as they have `group_size` items.

    A full buffer gives out its largest group, if that has `guaranteed_group_size` items; else that group is dropped, or it is an
    error. What the end of the source leaves is given out whatever its size.
    """

    _transient = ("buffer_elements", "curr_buffer_size")

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None, guaranteed_group_size=None,
                 drop_remaining=False):
        _check_unpickable_fn(group_key_fn)
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
        self.datapipe, self.group_key_fn, self.keep_key, self.max_buffer_size = datapipe, group_key_fn, keep_key, buffer_size
        self.group_size, self.drop_remaining, self.wrapper_class = group_size, drop_remaining, DataChunk
        self.guaranteed_group_size = guaranteed_group_size
        if guaranteed_group_size is None and buffer_size is not None:
            self.guaranteed_group_size = group_size
        self._clear()

    def _clear(self):
        self.buffer_elements, self.curr_buffer_size = defaultdict(list), 0

    def _taken(self, key):
        items = self.buffer_elements.pop(key)
        self.curr_buffer_size -= len(items)
        return items

    def _remove_biggest_key(self):
        key = max(self.buffer_elements, key=lambda key: len(self.buffer_elements[key]))
        enough = self.guaranteed_group_size is None or len(self.buffer_elements[key]) >= self.guaranteed_group_size
        if not enough and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(self.buffer_elements[key]))
        items = self._taken(key)
        return items if enough else None

    def __iter__(self):
        def out(items):
            chunk = self.wrapper_class(items)
            return (key, chunk) if self.keep_key else chunk
        for item in self.datapipe:
            key = self.group_key_fn(item)
            self.buffer_elements[key].append(item)
            self.curr_buffer_size += 1
            if self.group_size is not None and len(self.buffer_elements[key]) == self.group_size:
                yield out(self._taken(key))
            if self.curr_buffer_size == self.max_buffer_size:
                items = self._remove_biggest_key()
                if items is not None:
                    yield out(items)
        for key in tuple(self.buffer_elements):
            yield out(self._taken(key))

    def reset(self):
        self._clear()
