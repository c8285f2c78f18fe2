"""A logger for programs; nothing is written to it here."""
import logging

__all__ = []


def _get_or_create_logger():
    logger = logging.getLogger("tede.distributed._shard")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
