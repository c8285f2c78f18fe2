"""What the modules of devices that aren't there have in common: tede.mps, tede.mtia, tede.xpu."""


def refusal(name):
    """A function that raises what PyTorch raises where it isn't built for the device."""
    def refuse(*args, **kwargs):
        raise AssertionError(f"Torch not compiled with {name} enabled")
    return refuse


def _nothing(*args, **kwargs):
    """Nothing to do without a device."""


def _zero(*args, **kwargs):
    return 0


manual_seed = manual_seed_all = seed = seed_all = empty_cache = _nothing
device_count = memory_allocated = max_memory_allocated = memory_reserved = driver_allocated_memory = _zero
current_allocated_memory = recommended_max_memory = _zero


def is_available():
    """False: there is no such device."""
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def _is_in_bad_fork():
    return False
