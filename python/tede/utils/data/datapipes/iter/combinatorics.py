"""Sampler and Shuffler: items in another order."""
import random

import tede
from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import IterDataPipe
from tede.utils.data.sampler import SequentialSampler

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


def new_seed():
    """From the default generator, so that manual_seed determines the shuffling."""
    return int(tede.empty((), dtype=tede.int64).random_().item())


class Shuffling:
    """What pipes that shuffle have in common: whether they do, the next iteration's seed (None: a new one), a generator."""

    def __init__(self):
        super().__init__()
        self._enabled, self._seed, self._rng = True, None, random.Random()

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        self._seed = seed
        return self


class SamplerIterDataPipe(IterDataPipe):
    """What a sampler makes of a pipe with a length."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not hasattr(type(datapipe), "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        super().__init__()
        self.datapipe, self.sampler_args = datapipe, sampler_args or ()
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = datapipe
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return self._length_of(self.sampler)[0]


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling, IterDataPipe):
    """A buffer of items, of which a random one goes when the next comes.

    Args:
        datapipe: the source
        buffer_size: how many items the buffer holds
        unbatch_level: how many levels of lists are opened first

    Example:
        >>> sorted(IterableWrapper(range(3)).shuffle())
        [0, 1, 2]
    """

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        super().__init__()
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size, self._buffer = buffer_size, []

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        for item in self.datapipe:
            if len(self._buffer) < self.buffer_size:
                self._buffer.append(item)
                continue
            place = self._rng.randint(0, len(self._buffer) - 1)
            out, self._buffer[place] = self._buffer[place], item
            yield out
        while self._buffer:
            yield self._buffer.pop(self._rng.randint(0, len(self._buffer) - 1))

    def __len__(self):
        return self._length_of(self.datapipe)[0]

    def reset(self):
        self._buffer = []
        if self._enabled:
            self._rng.seed(new_seed() if self._seed is None else self._seed)
            self._seed = None

    def __del__(self):
        self.__dict__.get("_buffer", []).clear()
