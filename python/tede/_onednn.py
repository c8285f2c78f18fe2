"""The mkldnn layout, by oneDNN, in a library of its own (layouts/onednn/): what is loaded when somebody first names it.

oneDNN itself is opened when the first tensor of the layout is made; its wheel installs it below the environment's prefix."""
import os
import site
import sys

from tede import _C, _overloads


def _load():
    """Register the layout and its operators, once."""
    from tede.config import folder
    if _C._registered("_mkldnn") is None:
        _C._library_load(os.path.join(folder("lib/tede"), "onednn.so"))
        _overloads.defined[0] += 1
        for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, site.getuserbase())):
            operator("mkldnn", "_look_in")(os.path.join(prefix, "lib"))


def operator(space, name):
    """An operator that the library defines; None where there is none."""
    _load()
    return _overloads.OpOverloadPacket(space, name) if _C._overloads(space, name) else None


def is_available():
    """Whether oneDNN is installed."""
    try:
        return operator("mkldnn", "_version")() > 0
    except (RuntimeError, FileNotFoundError):
        return False


def use(on):
    """Whether strided tensors of bfloat16 are multiplied and convolved by oneDNN; without it nothing changes."""
    if is_available() if on else _C._registered("_mkldnn") is not None:
        operator("mkldnn", "_use")(on)


def to_mkldnn(x, dtype=None):
    """The same elements in the mkldnn layout, in memory of their own."""
    return operator("aten", "to_mkldnn")(x, dtype)


NAMES = frozenset((
    "mkldnn_convolution", "mkldnn_linear", "mkldnn_max_pool2d", "mkldnn_max_pool3d", "mkldnn_adaptive_avg_pool2d", "mkldnn_reorder_conv2d_weight",
    "mkldnn_reorder_conv3d_weight", "_mkldnn_reshape", "_mkldnn_transpose", "_mkldnn_transpose_"))


def __getattr__(name):
    if name == "_mkldnn":
        _load()
        return _C._registered("_mkldnn")
    if name in NAMES:
        return operator("aten", name)
    raise AttributeError(f"module 'tede._onednn' has no attribute {name!r}")
