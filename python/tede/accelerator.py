"""Whichever accelerator there is: none."""


def is_available():
    return False


def device_count():
    return 0


def current_accelerator(check_available=False):
    """None: there is no accelerator."""


def _refuse(*args, **kwargs):
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = current_device_idx = set_device_index = set_device_idx = current_stream = set_stream = _refuse
synchronize = get_device_capability = memory_stats = empty_cache = memory_allocated = device_index = _refuse
