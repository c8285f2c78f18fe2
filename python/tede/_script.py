"""TorchScript's classes, as far as there are objects of them: what torch.jit.trace makes."""
from tede.nn.modules.module import Module

__all__ = ["ScriptFunction", "ScriptModule", "ScriptObject", "TracerWarning", "TracingCheckError"]


class TracerWarning(Warning):
    """What torch.jit.trace says of a recording that doesn't give what the program does."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore: the library itself gives none."""


class TracingCheckError(Exception):
    """A recording that can't be checked, since it fails."""


class ScriptModule(Module):
    """A traced module. Others can't be made."""
    __module__ = "tede.jit"

    _is_recorded = False

    def __init__(self, *args, **kwargs):
        if self._is_recorded:
            super().__init__()
            return
        raise NotImplementedError("torch.jit.ScriptModule: there is no TorchScript here; derive from torch.nn.Module")


class ScriptFunction:
    """A traced function. Others can't be made."""
    __module__ = "tede.jit"

    def __init__(self, program, recorded, name):
        self._program, self._recording, self.name, self.__name__ = program, recorded, name, name

    def __call__(self, *args, **kwargs):
        return self._program(*args, **kwargs)

    @property
    def graph(self):
        return self._program.graph

    inlined_graph = graph

    @property
    def code(self):
        return self._program.code


class ScriptObject:
    """Packed weights of quantized layers (torch.ops.quantized) are its only instances."""
    __module__ = "tede"
