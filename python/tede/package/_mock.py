"""What stands for modules that were left out of a package. This file is written into packages, so it uses nothing of the library."""

_REFUSING = ("call enter exit iter next len getitem setitem delitem contains add radd iadd sub rsub isub mul rmul imul matmul rmatmul imatmul truediv rtruediv "
             "floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs invert lt le gt ge bool int float complex "
             "index await aenter aexit aiter anext").split()


class MockedObject:
    """A name in such a module. It can be imported; using it is an error."""

    def __new__(cls, *args, **kwargs):
        # A class derived from a mocked one, or one that is made again by a pickle, comes here.
        if not kwargs.get("_mocked"):
            raise NotImplementedError(f"Object '{cls._name if hasattr(cls, '_name') else cls.__name__}' was mocked out during packaging, "
                                      "but it is being used; intern or extern its module when the package is made")
        return super().__new__(cls)

    def __init__(self, name, _mocked):
        self.__dict__["_name"] = name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return MockedObject(f"{self._name}.{name}", _mocked=True)

    def __repr__(self):
        return f"MockedObject({self._name!r})"


def _refusing(name):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"Object '{self._name}' was mocked out during packaging, but it is being used in {name}; "
                                  "intern or extern its module when the package is made")
    return method


for _name in _REFUSING:
    setattr(MockedObject, f"__{_name}__", _refusing(f"__{_name}__"))
