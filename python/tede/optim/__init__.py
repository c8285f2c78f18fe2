"""Optimizers and learning-rate schedules, each file loaded when one of its names is first used."""
import sys

_FILES = {
    "adam": "Adam AdamW",
    "adaptive": "ASGD Adadelta Adagrad Adamax NAdam RAdam RMSprop Rprop",
    "lbfgs": "LBFGS",
    "matrix": "Adafactor Muon",
    "optimizer": "Optimizer",
    "sgd": "SGD",
}
_HOME = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = sorted([*_HOME, "lr_scheduler"])


def _load(name):
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def __getattr__(name):
    if name in _HOME:
        value = globals()[name] = getattr(_load(_HOME[name]), name)
        return value
    if name in _FILES or name == "lr_scheduler":
        return _load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, *_FILES]
