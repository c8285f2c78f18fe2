"""torch.distributed.logging_handlers: handlers by name for programs that add theirs."""
import logging

__all__ = []

_log_handlers = {"default": logging.NullHandler()}
