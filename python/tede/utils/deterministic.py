"""fill_uninitialized_memory: whether memory that `empty`, its relatives and `resize_` leave as it is gets filled while deterministic algorithms are wanted.

``fill_uninitialized_memory`` is True at first: floats and complex numbers become NaN, integers their dtype's largest value.
"""
import sys
import types

from tede import _C


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        return _C._get_deterministic_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        _C._set_deterministic_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
