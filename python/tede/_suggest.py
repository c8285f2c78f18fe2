"""Spelling suggestions for keyword arguments that a constructor doesn't take, as Python 3.13 gives them."""

_TAKES_ANY = 0x08           # a code object's flag: it has **kwargs


def check_keywords(cls, kwargs):
    """TypeError if `cls.__init__`, written in Python, doesn't take one of the keywords."""
    code = getattr(cls.__init__, "__code__", None)
    if code is None or code.co_flags & _TAKES_ANY:
        return
    names = code.co_varnames[code.co_posonlyargcount or 1:code.co_argcount + code.co_kwonlyargcount]
    for name in kwargs:
        if name not in names:
            import difflib
            near = difflib.get_close_matches(name, names, 1, 0.5)
            said = [c.__name__ for c in cls.__mro__ if c.__init__ is cls.__init__ and c.__name__[0] != "_"] or [cls.__name__]
            raise TypeError(f"{said[-1]}.__init__() got an unexpected keyword argument '{name}'"
                            + (f". Did you mean '{near[0]}'?" if near else ""))


class Constructor:
    """A base of classes whose constructors are checked so."""

    def __new__(cls, *args, **kwargs):
        if kwargs:
            check_keywords(cls, kwargs)
        return super().__new__(cls)
