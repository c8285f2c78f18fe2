"""ops.<namespace>.<name>.<overload>: operators by their registered names, overloads one by one (see _overloads)."""
import sys
import types

from tede import _C
from tede._libraries import OFFERED, operator, stands_for
from tede._overloads import OpOverload, OpOverloadPacket, defined


class _OpNamespace(types.ModuleType):
    def __init__(self, name):
        super().__init__("torch.ops." + name)
        self.name = name
        self._dir = []

    def __iter__(self):
        return iter(self._dir)

    def __getattr__(self, name):
        if name == "__file__":
            return "torch.ops"
        value = None
        if not name.startswith("__"):
            value = OpOverloadPacket(self.name, name) if _C._overloads(self.name, name) else self._elsewhere(name)
        if value is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        self.__dict__[name] = value
        self._dir.append(name)
        return value

    def _elsewhere(self, name):
        if self.name == "higher_order":
            from tede import _higher_order_ops
            from tede._hop import named
            return named(name) or (getattr(_higher_order_ops, name, None) if not name.startswith("_") else None)
        if self.name == "quantized":
            from tede._quantized_ops import packet
            return packet(name)
        if self.name == "mkldnn" or "mkldnn" in name:
            from tede import _onednn
            return _onednn.operator(self.name, name)
        if self.name in OFFERED:
            return operator(self.name, name)
        if self.name not in ("aten", "prim"):
            return None
        from tede._metadata import packet
        return packet(self.name, name)


class _Ops(types.ModuleType):
    __file__ = "_ops.py"

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries = set()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.__dict__[name] = _OpNamespace(name)
        return value

    def load_library(self, path):
        """Open a shared library, whose constructors may define operators. One that is linked with PyTorch's library isn't opened: nothing
        needs to be done where tede has its operators (those of torchvision and torchaudio), and else it is an OSError."""
        import os
        path = os.path.realpath(path)
        if not stands_for(path):
            _C._library_load(path)
        self.loaded_libraries.add(path)
        defined[0] += 1

    def import_module(self, module):
        import importlib
        importlib.import_module(module)


def forget(full):
    """An operator was taken away: so is what stands for it."""
    defined[0] += 1
    space, _, rest = full.partition("::")
    name, _, overload = rest.partition(".")
    packet = vars(ops).get(space) and vars(vars(ops)[space]).get(name)
    if packet is not None:
        packet.__dict__.pop(overload or "default", None)
        packet._operator = None
        if not _C._overloads(space, name):
            vars(vars(ops)[space]).pop(name, None)


def _overload_of(space, name, overload):
    """For the core, which has no objects for them."""
    return getattr(getattr(getattr(ops, space), name), overload)


def _overload_named(full):
    space, _, rest = full.partition("::")
    name, _, overload = rest.partition(".")
    return _overload_of(space, name, overload or "default")


def all_schemas():
    """The schemas of all operators that there are now, in the order in which they were registered."""
    return [_overload_named(full)._schema for full in _C._overloads(None, None)]


def __getattr__(name):
    if name == "HigherOrderOperator":
        from tede._hop import HigherOrderOperator
        return HigherOrderOperator
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


ops = _Ops()
OpOverload.__reduce__ = lambda self: (_overload_named, (self._name,))
sys.modules.setdefault("tede.ops", ops)
