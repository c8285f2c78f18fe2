"""One pipe made several: fork gives each part every item, demux the items that a function assigns to it.

The parts share a container that iterates over the source once and keeps, per part, what others have read ahead.
"""
import copy as copying
import warnings
from collections import deque

from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes._iterating import _SnapshotState
from tede.utils.data.datapipes.datapipe import IterDataPipe
from tede.utils.data.datapipes.utils.common import StreamWrapper, _check_unpickable_fn

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


def _same(item):
    return item


class _Container(IterDataPipe):
    """The source's iterator and, per part, a queue of items that it hasn't had and whether it has stopped. Iterators of an earlier
    round may end in a later one, whose state isn't theirs."""

    _transient = ("_datapipe_iterator", "_queues", "_child_stop", "_exhausted", "_round")

    def __init__(self, datapipe, num_instances, buffer_size, name):
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        if buffer_size < 0:
            warnings.warn(f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places", UserWarning,
                          stacklevel=4)
        self._clear()

    def _clear(self):
        self._datapipe_iterator, self._exhausted, self._round = None, False, object()
        self._child_stop = [True] * self.num_instances      # first: a number beyond any memory is refused here
        self._queues = [deque() for _ in self._child_stop]

    def reset(self):
        self._clear()

    def is_every_instance_exhausted(self):
        return self._exhausted and all(self._child_stop)

    def get_next_element_by_instance(self, instance_id):
        queue, begun_in = self._queues[instance_id], self._round
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self._datapipe_iterator, self._exhausted = iter(self.main_datapipe), False
            self._snapshot_state = _SnapshotState.Iterating
            self._child_stop[:] = [False] * self.num_instances
        try:
            while begun_in is self._round and not self._child_stop[instance_id]:
                if not queue and (self._exhausted or not self._read(instance_id)):
                    break
                if queue:
                    yield self._given(queue.popleft())
        finally:
            if begun_in is self._round:
                self._child_stop[instance_id] = True
                if all(self._child_stop):
                    self._datapipe_iterator = None
                self._dropped(instance_id)

    def _read(self, instance_id):
        """The source's next item, put into queues; False at its end."""
        try:
            item = next(self._datapipe_iterator)
        except StopIteration:
            self._exhausted, self._datapipe_iterator = True, None
            return False
        self._put(item, instance_id)
        return True

    def _given(self, item):
        return item

    def _cleanup(self):
        for queue in self.__dict__.get("_queues", ()):
            while queue:
                StreamWrapper.close_streams(queue.popleft())

    def __del__(self):
        self._cleanup()


class _ForkerIterDataPipe(_Container):
    def __init__(self, datapipe, num_instances, buffer_size=1000, copy=None):
        super().__init__(datapipe, num_instances, buffer_size, "fork")
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        self.copy_fn = {None: _same, "shallow": copying.copy, "deep": copying.deepcopy}[copy]

    def __len__(self):
        return len(self.main_datapipe)

    def get_length_by_instance(self, instance_id):
        return len(self.main_datapipe)

    def _put(self, item, instance_id):
        for number, queue in enumerate(self._queues):
            queue.append(item)
            if self.buffer_size >= 0 and number != instance_id and len(queue) > self.buffer_size:
                raise BufferError(f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient.")

    def _given(self, item):
        return self.copy_fn(item)

    def _dropped(self, instance_id):
        if all(self._child_stop):
            self._cleanup()


class _DemultiplexerIterDataPipe(_Container):
    def __init__(self, datapipe, num_instances, classifier_fn, drop_none, buffer_size):
        super().__init__(datapipe, num_instances, buffer_size, "demux")
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def get_length_by_instance(self, instance_id):
        raise TypeError

    def _put(self, item, instance_id):
        kind = self.classifier_fn(item)
        if kind is None and self.drop_none:
            StreamWrapper.close_streams(item)
            return
        if kind is None or not 0 <= kind < self.num_instances:
            raise ValueError(f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {kind} is "
                             "returned.")
        self._queues[kind].append(item)
        if kind != instance_id and 0 <= self.buffer_size < sum(map(len, self._queues)):
            raise BufferError(f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient.")

    def _dropped(self, instance_id):
        queue = self._queues[instance_id]
        while queue:
            StreamWrapper.close_streams(queue.popleft())


class _ChildDataPipe(IterDataPipe):
    """A part. The first part that starts a second time begins a new round, which resets the container for all."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe, instance_id):
        if not isinstance(main_datapipe, _Container):
            raise AssertionError("main_datapipe must implement _ContainerTemplate")
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self):
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self):
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _set_main_datapipe_valid_iterator_id(self):
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn("Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                              "each child DataPipe will read from the start again.", UserWarning, stacklevel=2)
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id):
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


def _parts(container):
    return [_ChildDataPipe(container, number) for number in range(container.num_instances)]


def _check_count(num_instances):
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """A list of pipes that all give every item, the same object or copies of it; none may run more than `buffer_size` ahead.

    Args:
        datapipe: the source
        num_instances: how many pipes
        buffer_size: how far one may run ahead; -1: any distance
        copy: None for the same objects, "shallow" or "deep" for copies

    Example:
        >>> first, second = IterableWrapper(range(3)).fork(2)
        >>> list(first), list(second)
        ([0, 1, 2], [0, 1, 2])
    """

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        _check_count(num_instances)
        return datapipe if num_instances == 1 else _parts(_ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy))


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """A list of pipes among which `classifier_fn` deals out the items by number; None is dropped, or an error.

    Args:
        datapipe: the source
        num_instances: how many pipes
        classifier_fn: the number of an item's pipe
        drop_none: whether items of no pipe are left out
        buffer_size: how many items may wait; -1: any number

    Example:
        >>> even, odd = IterableWrapper(range(4)).demux(2, lambda x: x % 2)
        >>> list(even), list(odd)
        ([0, 2], [1, 3])
    """

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        _check_count(num_instances)
        _check_unpickable_fn(classifier_fn)
        return _parts(_DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size))
