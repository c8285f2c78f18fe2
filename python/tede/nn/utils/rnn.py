"""Sequences of different lengths, packed: only what exists, time by time.

A packed sequence holds, for each time step, the rows of those sequences that are still going on; `batch_sizes` says how
many. Longer sequences stand first, so that the ones going on are always the first rows; `sorted_indices` says how the
batch was reordered for that.
"""
from collections import namedtuple

from .._native import N, T

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
           "unpack_sequence", "unpad_sequence"]


class PackedSequence(namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Sequences of different lengths without padding, for recurrent layers: made by `pack_padded_sequence` and
    `pack_sequence`.

        data: the steps: the first of all sequences, then the second of those that have one, and so on.
        batch_sizes: how many sequences have a first step, a second, ...
        sorted_indices, unsorted_indices: the order of sequences by falling length, and back; None if they came so.

    >>> packed = nn.utils.rnn.pack_sequence([tede.tensor([1, 2, 3]), tede.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
                             "manually. They should be instantiated by functions like pack_sequence and "
                             "pack_padded_sequences in nn.utils.rnn.")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __getnewargs__(self):
        return tuple(self)

    def _map(self, function):
        indices = (None if t is None else function(t) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(function(self.data), self.batch_sizes, *indices)

    def to(self, *args, **kwargs):
        """The data moved or converted; self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = (None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self):
        """The data on the CPU."""
        return self.to("cpu")

    def cuda(self, device="cuda"):
        """The data on a CUDA device."""
        return self.to(device)

    def pin_memory(self):
        """The data in memory from which devices copy asynchronously."""
        return self._map(lambda t: t.pin_memory())

    def is_pinned(self):
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self):
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def double(self):
        """The data as float64."""
        return self.to(dtype=T.double)

    def float(self):
        """The data as float32."""
        return self.to(dtype=T.float)

    def half(self):
        """The data as float16."""
        return self.to(dtype=T.half)

    def long(self):
        """The data as int64."""
        return self.to(dtype=T.long)

    def int(self):
        """The data as int32."""
        return self.to(dtype=T.int)

    def short(self):
        """The data as int16."""
        return self.to(dtype=T.short)

    def char(self):
        """The data as int8."""
        return self.to(dtype=T.int8)

    def byte(self):
        """The data as uint8."""
        return self.to(dtype=T.uint8)


def invert_permutation(permutation):
    """The permutation that undoes `permutation`; None for None.

    >>> nn.utils.rnn.invert_permutation(tede.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    order = T.arange(0, permutation.numel(), device=permutation.device)
    return T.empty_like(permutation).scatter_(0, permutation, order)


def pack_padded_sequence(input, lengths, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Leave the padding out of a batch of sequences: a `PackedSequence`, which recurrent layers read up to each one's
    length.

        input: (T, N, ...), or (N, T, ...) if batch_first.
        lengths: (N), of int64 on the CPU, or a list; from 1 (RuntimeError).
        enforce_sorted: they fall already; False sorts, and remembers the order.

    >>> packed = nn.utils.rnn.pack_padded_sequence(tede.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    >>> packed.data
    tensor([1, 3, 2])
    """
    if not isinstance(lengths, T.Tensor):
        lengths = T.as_tensor(lengths, dtype=T.int64)
    else:
        lengths = lengths.to(dtype=T.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = T.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1 or lengths.device.type != "cpu":
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D "
                           f"{lengths.device} Long tensor")
    rows = input.transpose(0, 1) if batch_first else input
    sizes, batch = lengths.tolist(), rows.size(1)
    if len(sizes) != batch:
        raise RuntimeError("Expected `len(lengths)` to be equal to batch_size, but got "
                           f"{len(sizes)} (batch_size={batch})")
    if sizes[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if any(a < b for a, b in zip(sizes, sizes[1:])):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                           "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
                           "requirement if you do not need ONNX exportability.")
    if sizes[0] > rows.size(0):
        raise RuntimeError(f"Expected no length above the input's {rows.size(0)} time steps, but got {sizes[0]}")
    batch_sizes = [sum(size > t for size in sizes) for t in range(sizes[0])]
    places = [t * batch + i for t, size in enumerate(batch_sizes) for i in range(size)]
    flat = rows.reshape(-1, *rows.shape[2:])
    data = flat.index_select(0, T.tensor(places, device=input.device))
    return PackedSequence(data, T.tensor(batch_sizes, dtype=T.int64), sorted_indices, None)


def pad_packed_sequence(sequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length=None) -> tuple[T.Tensor, T.Tensor]:
    """The reverse of `pack_padded_sequence`: (padded sequences, lengths).

        batch_first: (N, T, ...) instead of (T, N, ...).
        padding_value: what is filled in.
        total_length: T, at least the longest (ValueError).

    >>> packed = nn.utils.rnn.pack_sequence([tede.tensor([1, 2]), tede.tensor([3])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    batch_sizes = sequence.batch_sizes.tolist()
    longest, batch = len(batch_sizes), batch_sizes[0]
    if total_length is not None:
        if total_length < longest:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                             f"total_length={total_length} and max sequence length being {longest}")
        longest = total_length
    data = sequence.data
    padding = data.new_full((1, *data.shape[1:]), padding_value)
    places, missing, start = [], data.size(0), 0
    for t in range(longest):
        size = batch_sizes[t] if t < len(batch_sizes) else 0
        places += [*range(start, start + size), *[missing] * (batch - size)]
        start += size
    padded = T.cat([data, padding]).index_select(0, T.tensor(places, device=data.device))
    padded = padded.view(longest, batch, *data.shape[1:])
    lengths = T.tensor([sum(size > i for size in batch_sizes) for i in range(batch)], dtype=T.int64)
    padded = padded.transpose(0, 1) if batch_first else padded
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> T.Tensor:
    """A batch of sequences of different lengths as one tensor: (T, N, ...), or (N, T, ...) if batch_first.

        sequences: a list of (length, ...), alike but in length.
        padding_value: what is filled in.
        padding_side: "right" or "left".

    >>> nn.utils.rnn.pad_sequence([tede.tensor([1, 2]), tede.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not hasattr(sequences, "__iter__"):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: "
                           f"{type(sequences)}")
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    for i, s in enumerate(sequences):
        if not isinstance(s, T.Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(s).__name__}")
        for dim, (a, b) in enumerate(zip(s.shape[1:], sequences[0].shape[1:]), 1):
            if a != b:
                raise RuntimeError(f"The size of tensor a ({b}) must match the size of tensor b ({a}) at non-singleton "
                                   f"dimension {dim}")
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        gap = longest - s.size(0)
        sides = (gap, 0) if padding_side == "left" else (0, gap)
        rows.append(s if gap == 0 else N.pad(s, (0, 0) * (s.dim() - 1) + sides, "constant", padding_value))
    return T.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first: bool = False) -> list[T.Tensor]:
    """The sequences of a padded batch, (T, N, ...) or (N, T, ...) if batch_first, as a list.

        lengths: (N).

    >>> nn.utils.rnn.unpad_sequence(tede.tensor([[1, 2], [3, 0]]), tede.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:int(length)] for row, length in zip(rows, lengths)]


def pack_sequence(sequences, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences, (length, ...) each, as a `PackedSequence`.

        enforce_sorted: their lengths fall already (RuntimeError if not); False sorts, and remembers the order.

    >>> nn.utils.rnn.pack_sequence([tede.tensor([1, 2]), tede.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = T.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences) -> list[T.Tensor]:
    """The sequences of a packed one, as a list.

    >>> nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([tede.tensor([1, 2]), tede.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
