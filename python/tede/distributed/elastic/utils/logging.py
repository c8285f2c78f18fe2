"""Loggers of launchers: their level is LOGLEVEL's."""
import inspect
import logging
import os

__all__ = ["get_logger"]


def get_logger(name=None):
    logger = logging.getLogger(name or _derive_module_name(depth=2) or __name__)
    logger.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return logger


def _derive_module_name(depth=1):
    """The name of the module that calls."""
    frame = inspect.stack()[depth]
    module = inspect.getmodule(frame[0])
    return module.__name__ if module else os.path.splitext(os.path.basename(frame.filename))[0]
