"""Memory of a device, as its module shows it: statistics by PyTorch's names, the limit, the cache."""
import collections

from tede import _C


def _shown(count):
    """A number of bytes, as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 10240 or unit == "GiB":
            return f"{count} {unit}"
        count //= 1024


class Memory:
    """The part of a device's module that is about memory."""

    def memory_stats(self, device=None):
        """The allocator's statistics, by PyTorch's names; of pools together, since the allocator doesn't count small and large ones apart."""
        where = self._of(device)
        now = _C._device_memory(where)
        before = self._counted.get(str(where), {})
        since = {name: now[name] - before.get(name, 0) for name in now}
        stats = collections.OrderedDict()
        for name, current, peak, allocated, freed in (
                ("active", "blocks", "peak_blocks", "allocations", "frees"),
                ("active_bytes", "allocated", "peak_allocated", "total_allocated", "total_freed"),
                ("allocated_bytes", "allocated", "peak_allocated", "total_allocated", "total_freed"),
                ("allocation", "blocks", "peak_blocks", "allocations", "frees"),
                ("reserved_bytes", "reserved", "peak_reserved", "total_reserved", "total_returned"),
                ("segment", "segments", "peak_segments", "device_allocations", "device_frees")):
            for kind, key, counts in (("current", current, now), ("peak", peak, now), ("allocated", allocated, since), ("freed", freed, since)):
                stats[f"{name}.all.{kind}"] = counts[key]
        stats.update(num_alloc_retries=since["retries"], num_ooms=since["failures"], num_device_alloc=since["device_allocations"],
                     num_device_free=since["device_frees"], max_split_size=-1)
        return stats

    def memory_allocated(self, device=None):
        """Bytes in tensors."""
        return _C._device_memory(self._of(device))["allocated"]

    def max_memory_allocated(self, device=None):
        return _C._device_memory(self._of(device))["peak_allocated"]

    def memory_reserved(self, device=None):
        """Bytes that were taken from the device: in tensors, and kept for the next ones."""
        return _C._device_memory(self._of(device))["reserved"]

    def max_memory_reserved(self, device=None):
        return _C._device_memory(self._of(device))["peak_reserved"]

    def reset_peak_memory_stats(self, device=None):
        _C._device_memory_reset_peak(self._of(device))

    reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

    def reset_accumulated_memory_stats(self, device=None):
        """Counts of allocations, retries and failures begin at 0."""
        where = self._of(device)
        self._counted[str(where)] = _C._device_memory(where)

    def empty_cache(self):
        """Return what is kept for reuse to the devices."""
        for index in range(self.device_count()):
            _C._device_empty_cache(f"{self._name}:{index}")

    def mem_get_info(self, device=None):
        """(free, total) bytes, as the device says."""
        return _C._device_memory_info(self._of(device))

    def set_per_process_memory_fraction(self, fraction, device=None):
        """At most so much of the device's memory is taken; more is out of memory. 1 allows all of it."""
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        where = self._of(device)
        _C._device_set_memory_limit(where, 0 if fraction == 1 else max(1, int(fraction * self.mem_get_info(device)[1])))

    def get_per_process_memory_fraction(self, device=None):
        limit = _C._device_memory(self._of(device))["limit"]
        return limit / self.mem_get_info(device)[1] if limit else 1.0

    def memory_summary(self, device=None, abbreviated=False):
        """The statistics as a table."""
        stats = self.memory_stats(device)
        rows = [("Allocated memory", "allocated_bytes", _shown), ("Reserved memory", "reserved_bytes", _shown), ("Allocations", "allocation", str),
                ("Segments", "segment", str)]
        line = "=" * 75
        text = [f"|{line}|", f"|{'tede memory of ' + str(self._of(device)):^75}|", f"|{line}|",
                f"|{'out of memory: ' + str(stats['num_ooms']):^37}|{'retries: ' + str(stats['num_alloc_retries']):^37}|", f"|{line}|",
                f"|{'Metric':^19}|{'Current':^13}|{'Peak':^13}|{'In all':^13}|{'Freed':^13}|", f"|{line}|"]
        for title, key, show in rows:
            cells = "|".join(f"{show(stats[f'{key}.all.{kind}']):>13}" for kind in ("current", "peak", "allocated", "freed"))
            text.append(f"|{title:<19}|{cells}|")
        return "\n".join([*text, f"|{line}|", ""])

    memory_cached, max_memory_cached = memory_reserved, max_memory_reserved

    def ipc_collect(self):
        """Nothing: memory isn't shared with other processes."""
