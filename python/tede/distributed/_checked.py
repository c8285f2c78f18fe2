"""TORCH_DISTRIBUTED_DEBUG=DETAIL: before each call of a group its ranks compare what they are about to do.

Ranks that make different calls, or the same one with tensors of other shapes, would wait for ever or get nonsense. Here all of them get an error that says
what each does; a rank that doesn't come is named by rank 0. That takes a barrier and two small gathers by a group of its own for each call."""
import tede
from tede.distributed._group import Backend, EngineBackend


def _described(sequence, name, tensors):
    shapes = "".join(str(list(x.shape)) for x in tensors)
    types = "".join(str(x.type()).rpartition(".")[2].removesuffix("Tensor") for x in tensors)
    devices = "".join(str(x.device) for x in tensors)
    return {"SequenceNumber": str(sequence), "OpType": name, "TensorShape": shapes, "TensorDtypes": types, "TensorDeviceTypes": devices}


def _said(about):
    return f"CollectiveFingerPrint({', '.join(f'{name}={value}' for name, value in about.items() if value)})"


class CheckedBackend(Backend):
    """A backend's calls, after a check. `group` is an engine's group of the same ranks."""

    def __init__(self, backend, group):
        super().__init__(backend.rank(), backend.size())
        self.wrapped_pg, self._helper = backend, EngineBackend(group, "gloo")

    def name(self):
        return self.wrapped_pg.name()

    getBackendName = _get_backend_name = name

    @property
    def options(self):
        return self.wrapped_pg.options

    def _check(self, name, tensors):
        self._helper.monitored_barrier(wait_all_ranks=True)
        self._sequence += 1
        own = _described(self._sequence, name, tensors)
        others = [dict(zip(own, text.split("\n"))) for text in self._texts("\n".join(own.values()))]
        for rank, other in enumerate(others):
            differing = [f"\t {key}: {own[key]} vs {other[key]}" for key in own if own[key] != other[key]]
            if differing:
                raise RuntimeError(f"Detected mismatch between collectives on ranks. Rank {self._rank} is running collective: {_said(own)}, but Rank {rank} is "
                                   f"running collective: {_said(other)}.Collectives differ in the following aspects: {''.join(differing)}")

    def _texts(self, text):
        """The texts of all ranks."""
        own = tede.tensor(list(text.encode()), dtype=tede.uint8)
        sizes = [tede.zeros(1, dtype=tede.int64) for _ in range(self._size)]
        self._helper.allgather([sizes], [tede.tensor([own.numel()])]).wait()
        most = int(max(sizes))
        parts = [tede.empty(most, dtype=tede.uint8) for _ in sizes]
        self._helper.allgather([parts], [tede.cat([own, tede.zeros(most - own.numel(), dtype=tede.uint8)])]).wait()
        return [bytes(part[:int(size)].tolist()).decode() for part, size in zip(parts, sizes)]

    def set_timeout(self, timeout):
        self._helper.set_timeout(timeout)
        self.wrapped_pg.set_timeout(timeout)

    _set_default_timeout = set_timeout

    def abort(self):
        self._helper.abort()
        self.wrapped_pg.abort()


# By call: its name in messages, and which of its arguments are compared.
_CHECKED = {"allreduce": ("ALLREDUCE", 0), "allreduce_coalesced": ("ALLREDUCE_COALESCED", 0), "broadcast": ("BROADCAST", 0), "reduce": ("REDUCE", 0),
            "allgather": ("ALLGATHER", 1), "_allgather_base": ("_ALLGATHER_BASE", 1), "allgather_coalesced": ("ALLGATHER_COALESCED", 1),
            "allgather_into_tensor_coalesced": ("ALLGATHER_COALESCED", 1), "gather": ("GATHER", 1), "scatter": ("SCATTER", 0),
            "reduce_scatter": ("REDUCE_SCATTER", 0), "_reduce_scatter_base": ("_REDUCE_SCATTER_BASE", 1),
            "reduce_scatter_tensor_coalesced": ("REDUCE_SCATTER", 1), "alltoall": ("ALLTOALL", None), "alltoall_base": ("ALLTOALL_BASE", None),
            "barrier": ("BARRIER", None)}


def _checked(name, title, which):
    def call(self, *args, **kwargs):
        tensors = () if which is None else args[which]
        self._check(title, [tensors] if isinstance(tensors, tede.Tensor) else list(tensors))
        return getattr(self.wrapped_pg, name)(*args, **kwargs)
    call.__name__ = name
    return call


def _passed_on(name):
    def call(self, *args, **kwargs):
        return getattr(self.wrapped_pg, name)(*args, **kwargs)
    call.__name__ = name
    return call


for _name, (_title, _which) in _CHECKED.items():
    setattr(CheckedBackend, _name, _checked(_name, _title, _which))
for _name in ("send", "recv", "recv_anysource", "monitored_barrier", "shutdown", "_get_sequence_number_for_group",
              "_start_coalescing", "_end_coalescing"):
    setattr(CheckedBackend, _name, _passed_on(_name))
