"""ops.aten.add.Tensor(x, y): operators by their registered names, overloads one by one."""
from tede import _C


class OpOverload:
    """One overload. Calls take the overload's arguments only."""

    def __init__(self, packet, name):
        self._packet, self._overloadname = packet, name
        self.__name__ = f"{packet.__name__}.{name}"

    def __call__(self, *args, **kwargs):
        return self._packet(*args, **kwargs)

    def __str__(self):
        return f"aten.{self.__name__}"

    __repr__ = __str__


class OpOverloadPacket:
    """All overloads of a name."""

    def __init__(self, name):
        self.__name__ = name
        self._operator = _C._operators[name]

    def __call__(self, *args, **kwargs):
        return self._operator(*args, **kwargs)

    def overloads(self):
        return [schema.partition("(")[0].partition(".")[2] or "default" for schema in self._operator.schemas]

    def __getattr__(self, name):
        if name.startswith("__") or name not in self.overloads():
            raise AttributeError(f"aten.{self.__name__} has no overload '{name}'")
        value = self.__dict__[name] = OpOverload(self, name)
        return value


class _Namespace:
    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if name not in _C._operators:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        value = self.__dict__[name] = OpOverloadPacket(name)
        return value


class _Ops:
    aten = _Namespace("aten")


ops = _Ops()
