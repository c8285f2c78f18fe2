"""What stands for modules that were left out of a package. This file is written into packages, so it uses nothing of the library."""

# What Python calls for its syntax: what numbers, lists and generators have and any object hasn't, and the rest.
_REFUSING = {name for kind in (int, float, list, type(i for i in ())) for name in vars(kind) if name[:2] == "__" and callable(vars(kind)[name])}
_REFUSING |= {"__call__", "__enter__", "__exit__", "__matmul__", "__await__", "__aenter__", "__aexit__", "__aiter__", "__anext__"}
_REFUSING -= {*vars(object), "__del__", "__getnewargs__", "__name__", "__qualname__"}


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
    setattr(MockedObject, _name, _refusing(_name))
