"""torch.distributed.remote_device: a device of another process, "worker/cuda:0" or "rank:1/cpu"."""
import tede

__all__ = []


_WRONG = "Could not parse remote_device: {}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'"


class _remote_device:
    """A worker's name or a rank, and a device there."""

    def __init__(self, remote_device):
        if isinstance(remote_device, tede.device):
            remote_device = str(remote_device)
        if not isinstance(remote_device, str):
            raise ValueError(f"remote_device: a string was expected, not {type(remote_device).__name__}")
        front, slash, back = remote_device.partition("/")
        self._worker_name, device = (front, back) if slash else (None, front)
        if slash and (not front or not back or "/" in back):
            raise ValueError(_WRONG.format(remote_device))
        if not slash and not self._is_device(front):
            self._worker_name, device = front, "cpu"
        self._rank, self._device = None, tede.device(device)
        if self._worker_name is not None and self._worker_name.startswith("rank:"):
            number = self._worker_name[5:]
            if not number.isdigit():
                raise ValueError(_WRONG.format(remote_device))
            self._rank, self._worker_name = int(number), None

    @staticmethod
    def _is_device(text):
        try:
            tede.device(text)
            return True
        except RuntimeError:
            return False

    def worker_name(self):
        return self._worker_name

    def rank(self):
        return self._rank

    def device(self):
        return self._device

    def __repr__(self):
        if self._worker_name is not None:
            return f"{self._worker_name}/{self._device}"
        return str(self._device) if self._rank is None else f"rank:{self._rank}/{self._device}"

    def __eq__(self, other):
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))
