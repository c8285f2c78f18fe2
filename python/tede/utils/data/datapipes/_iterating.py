"""One valid iterator per IterDataPipe: what every class's __iter__ is wrapped in.

Pipes hold buffers and positions, so two iterators over one pipe would take items from each other. Each new iterator gives the
pipe a new number and calls its reset(); an older iterator then fails at its next item. The parts of a fork or demux share one
number: a part that starts again resets all of them.
"""
import functools
import inspect
from enum import Enum

from tede import autograd

_WHERE = "thrown by __iter__ of"
_FEEDBACK = ("\nFor feedback regarding this single iterator per IterDataPipe constraint, feel free to comment on this issue: "
             "https://github.com/pytorch/data/issues/45.")


class _SnapshotState(Enum):
    NotStarted = 0
    Restored = 1
    Iterating = 2


def described(pipe):
    """The pipe's class and those of its attributes that are parameters of its constructor."""
    parameters = inspect.signature(type(pipe)).parameters
    given = ((name, value) for name, value in inspect.getmembers(pipe) if name in parameters)
    shown = ", ".join(f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}" for name, value in given)
    return f"{type(pipe).__name__}({shown})"


def _check(pipe, number):
    if getattr(pipe, "_is_child_datapipe", False):
        if not hasattr(pipe, "_check_valid_iterator_id"):
            raise RuntimeError("ChildDataPipe must have method `_check_valid_iterator_id`.")
        if not pipe._check_valid_iterator_id(number):
            raise RuntimeError("This iterator has been invalidated, because a new iterator has been created from one of the "
                               f"ChildDataPipes of {described(pipe.main_datapipe)}." + _FEEDBACK)
    elif pipe._valid_iterator_id != number:
        raise RuntimeError("This iterator has been invalidated because another iterator has been created from the same "
                           f"IterDataPipe: {described(pipe)}\nThis may be caused by multiple references to the same "
                           "IterDataPipe. We recommend using `.fork()` if that is necessary." + _FEEDBACK)


def _renew(pipe):
    """A new number for a new iterator; the pipe starts again."""
    if getattr(pipe, "_is_child_datapipe", False):
        if not hasattr(pipe, "_set_main_datapipe_valid_iterator_id"):
            raise RuntimeError("ChildDataPipe must have method `_set_main_datapipe_valid_iterator_id`.")
        pipe._set_main_datapipe_valid_iterator_id()
    else:
        pipe._valid_iterator_id = 0 if pipe._valid_iterator_id is None else pipe._valid_iterator_id + 1
        pipe.reset()
    return pipe._valid_iterator_id


def _profiled(pipe, step, *args):
    """step(*args), recorded under the pipe's name where a profiler runs."""
    if not autograd._profiler_enabled():
        return step(*args)
    if not hasattr(pipe, "_profile_name"):
        pipe._profile_name = described(pipe).replace("IterDataPipe", "").replace("MapDataPipe", "")
    with autograd.profiler.record_function(pipe._profile_name):
        return step(*args)


def _taken_over(pipe):
    """The iterator that a restored snapshot left, once."""
    left, pipe._fast_forward_iterator = pipe._fast_forward_iterator, None
    return left


class _Checked:
    """An iterator that isn't a generator: checked before each item, counted, and otherwise the iterator itself."""

    def __init__(self, iterator, pipe, number, counts_itself):
        self.iterator, self.datapipe, self.iterator_id, self._counts_itself = iterator, pipe, number, counts_itself

    def __iter__(self):
        return self

    def __next__(self):
        _check(self.datapipe, self.iterator_id)
        item = _profiled(self.datapipe, next, self.iterator)
        if not self._counts_itself:
            self.datapipe._number_of_samples_yielded += 1
        return item

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def _generating(function):
    @functools.wraps(function)
    def __iter__(self, *args, **kwargs):
        made = function(self, *args, **kwargs)
        if self._fast_forward_iterator:
            self._snapshot_state = _SnapshotState.Iterating
            yield from _taken_over(self)
            return
        number = _renew(self)
        try:
            item = _profiled(self, made.send, None)
            while True:
                self._number_of_samples_yielded += 1
                asked = yield item
                _check(self, number)
                item = _profiled(self, made.send, asked)
        except StopIteration:
            return
        except Exception as error:
            said = f"\nThis exception is {_WHERE} {described(self)}"
            if not error.args or not isinstance(error.args[0], str):
                error.args = (said,)
            elif _WHERE not in error.args[0] and "single iterator per IterDataPipe constraint" not in error.args[0]:
                error.args = (error.args[0] + said, *error.args[1:])
            raise
    return __iter__


def _returning(function, has_next):
    @functools.wraps(function)
    def __iter__(self, *args, **kwargs):
        iterator = function(self, *args, **kwargs)
        self._snapshot_state = _SnapshotState.Iterating
        if self._fast_forward_iterator:
            return _taken_over(self)
        return _Checked(iterator, self, _renew(self), has_next and iterator is self)
    return __iter__


def _counting(function):
    @functools.wraps(function)
    def __next__(self, *args, **kwargs):
        item = _profiled(self, functools.partial(function, self, **kwargs), *args)
        self._number_of_samples_yielded += 1
        return item
    return __next__


def _resetting(function):
    """reset() of a pipe that was restored from a snapshot only marks it as running: the position is to stay."""
    @functools.wraps(function)
    def reset(self, *args, **kwargs):
        restored = self._snapshot_state == _SnapshotState.Restored
        self._snapshot_state = _SnapshotState.Iterating
        if not restored:
            self._number_of_samples_yielded, self._fast_forward_iterator = 0, None
            function(self, *args, **kwargs)
    return reset


def wrapped(namespace):
    """A class's namespace with its iteration methods wrapped."""
    if "__iter__" in namespace:
        function = namespace["__iter__"]
        if inspect.isgeneratorfunction(function):
            namespace["__iter__"] = _generating(function)
        else:
            if "__next__" in namespace:
                namespace["__next__"] = _counting(namespace["__next__"])
            namespace["__iter__"] = _returning(function, "__next__" in namespace)
    if "reset" in namespace:
        namespace["reset"] = _resetting(namespace["reset"])
    return namespace
