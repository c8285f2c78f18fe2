"""Questions about what could be compiled."""


def is_compile_supported(device_type):
    """False: torch.compile leaves everything as it is."""
    return False
