"""Optimizers and learning-rate schedules, each file loaded when one of its names is first used."""
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILES = {
    "_adafactor": "Adafactor",
    "_muon": "Muon",
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamax": "Adamax",
    "adamw": "AdamW",
    "asgd": "ASGD",
    "lbfgs": "LBFGS",
    "nadam": "NAdam",
    "optimizer": "Optimizer",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "rprop": "Rprop",
    "sgd": "SGD",
    "sparse_adam": "SparseAdam",
}
_HOME = {name: file for file, names in _FILES.items() for name in names.split()}
_MODULES = (*_FILES, "_functional", "lr_scheduler", "swa_utils")
__all__ = sorted([*_HOME, "lr_scheduler", "swa_utils"])


def _load(name):
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def __getattr__(name: str) -> "Any":
    if name in _HOME:
        value = globals()[name] = getattr(_load(_HOME[name]), name)
        return value
    if name in _MODULES:
        return _load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*__all__, *_MODULES})


class _Module(type(sys)):
    """Programs pick an optimizer by `vars(optim)[name]` or go through all of them: that loads every file."""

    @property
    def __dict__(self):
        for name in _HOME:
            getattr(self, name)
        return super().__dict__


sys.modules[__name__].__class__ = _Module
