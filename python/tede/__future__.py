"""Choices about what `Module.to` and its kin do with parameters."""

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value):
    """Whether converting a module replaces its parameters by new ones instead of changing them in place."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion():
    return _overwrite


def set_swap_module_params_on_conversion(value):
    """Whether converting a module swaps its parameters with new ones (`utils.swap_tensors`), which keep their identity."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion():
    return _swap
