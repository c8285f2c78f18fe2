"""Modules that tede doesn't have, whose names programs import nevertheless: whatever is used of them says so."""


def module(name, says, classes=()):
    """The __getattr__ of a module all of whose names raise NotImplementedError when they are called."""
    def absent(attribute):
        def refuse(*args, **kwargs):
            raise NotImplementedError(f"torch.{name}.{attribute}: {says}")
        if attribute in classes:
            return type(attribute, (), {"__new__": refuse, "__module__": f"tede.{name}"})
        refuse.__name__ = refuse.__qualname__ = attribute
        return refuse

    def getattr_(attribute):
        if attribute.startswith("__"):
            raise AttributeError(f"module 'tede.{name}' has no attribute '{attribute}'")
        return absent(attribute)
    return getattr_
