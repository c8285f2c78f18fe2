"""MPS, truthfully: there is no device here."""


def _refuse(*args, **kwargs):
    raise AssertionError("Torch not compiled with MPS enabled")


def _nothing(*args, **kwargs):
    """Nothing to do without a device."""


def _zero(*args, **kwargs):
    return 0


manual_seed = manual_seed_all = seed = seed_all = empty_cache = _nothing
device_count = memory_allocated = max_memory_allocated = memory_reserved = driver_allocated_memory = _zero
current_allocated_memory = recommended_max_memory = _zero
synchronize = current_device = set_device = get_device_name = get_device_properties = get_rng_state = set_rng_state = _refuse
current_stream = mem_get_info = _refuse


def is_available():
    """False: there is no such device."""
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def _is_in_bad_fork():
    return False
