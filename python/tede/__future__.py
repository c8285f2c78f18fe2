"""Choices about what `Module.to` and its kin do with parameters."""

_overwrite = False


def set_overwrite_module_params_on_conversion(value):
    """Whether converting a module replaces its parameters by new ones instead of changing them in place."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion():
    return _overwrite


def set_swap_module_params_on_conversion(value):
    if value:
        raise NotImplementedError("set_swap_module_params_on_conversion: parameters can't be swapped yet")


def get_swap_module_params_on_conversion():
    return False
