"""functional_datapipe and the decorators that say of a pipe's class whether its order is determined and what it yields."""
import functools

from tede.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

_determinism = False
_runtime_validation_enabled = True


class functional_datapipe:
    """Makes a class of pipes a method, under this name, of all pipes of its kind.

    >>> @tede.utils.data.functional_datapipe("doubled")
    ... class Doubler(tede.utils.data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         for x in self.source:
    ...             yield 2 * x
    >>> from tede.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).doubled())
    [2, 4]
    """

    def __init__(self, name, enable_df_api_tracing=False):
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls):
        made = getattr(cls, "__self__", cls)
        made = made.cls if isinstance(made, non_deterministic) else made
        if not isinstance(made, type) or not issubclass(made, (IterDataPipe, MapDataPipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
        if "(functional name:" not in (made.__doc__ or ""):
            made.__doc__ = f"{(made.__doc__ or '').rstrip()}\n\n    (functional name: ``{self.name}``)"
        if issubclass(made, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls, enable_df_api_tracing=self.enable_df_api_tracing)
        else:
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


class _Switch:
    """Sets a flag of this module when made, and puts it back when left."""
    _flag, _value = "", False

    def __init__(self):
        self.prev, globals()[self._flag] = globals()[self._flag], self._value

    def __enter__(self):
        pass

    def __exit__(self, *error):
        globals()[self._flag] = self.prev


class guaranteed_datapipes_determinism(_Switch):
    """Within it, pipes whose order isn't determined can't be made (TypeError).

    >>> with tede.utils.data.guaranteed_datapipes_determinism():
    ...     pass
    """
    _flag, _value = "_determinism", True


class runtime_validation_disabled(_Switch):
    """Within it, `runtime_validation` looks at nothing.

    >>> with tede.utils.data.runtime_validation_disabled():
    ...     pass
    """
    _flag, _value = "_runtime_validation_enabled", False


class non_deterministic:
    """Marks a class of pipes whose order isn't determined, or, given a function of the constructor's arguments, may not
    be.

    >>> @tede.utils.data.non_deterministic
    ... class Racing(tede.utils.data.IterDataPipe):
    ...     pass
    """
    cls = deterministic_fn = None

    def __init__(self, arg):
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(f"Only `IterDataPipe` can be decorated with `non_deterministic`, but {arg.__name__} is found")
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args, **kwargs):
        if self.cls is None:
            if not (isinstance(args[0], type) and issubclass(args[0], IterDataPipe)):
                raise TypeError(f"Only `IterDataPipe` can be decorated, but {args[0].__name__} is found")
            self.cls = args[0]
            return self.deterministic_wrapper_fn
        if _determinism:
            raise TypeError(f"{self.cls.__name__} is non-deterministic, but you set 'guaranteed_datapipes_determinism'. You can "
                            "turn off determinism for this DataPipe if that is acceptable for your application")
        return self.cls(*args, **kwargs)

    def deterministic_wrapper_fn(self, *args, **kwargs):
        """The class, refused where determined order was asked for."""
        undetermined = self.deterministic_fn(*args, **kwargs)
        if not isinstance(undetermined, bool):
            raise TypeError("deterministic_fn of `non_deterministic` decorator is required to return a boolean value, but "
                            f"{type(undetermined)} is found")
        if _determinism and undetermined:
            raise TypeError(f"{self.cls.__name__} is non-deterministic with the inputs, but you set "
                            "'guaranteed_datapipes_determinism'. You can turn off determinism for this DataPipe if that is "
                            "acceptable for your application")
        return self.cls(*args, **kwargs)


def argument_validation(f):
    """A decorator of `__init__`: arguments annotated as pipes of some type must be such (TypeError).

    >>> class Pipe(tede.utils.data.IterDataPipe):
    ...     @tede.utils.data.argument_validation
    ...     def __init__(self, source: tede.utils.data.IterDataPipe):
    ...         self.source = source
    """
    import inspect
    import typing
    signature, hints = inspect.signature(f), typing.get_type_hints(f)

    def is_pipe(hint):
        made = typing.get_origin(hint) or hint
        return isinstance(made, type) and issubclass(made, IterDataPipe)

    @functools.wraps(f)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if is_pipe(hints.get(name)) and not isinstance(value, IterDataPipe):
                raise TypeError(f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}")
        return f(*args, **kwargs)
    return checked


def runtime_validation(f):
    """A decorator of an `__iter__` whose class has a `type` with `issubtype_of_instance`: each item must be an instance
    of it (RuntimeError).

    >>> class Integers:
    ...     def issubtype_of_instance(self, item):
    ...         return isinstance(item, int)
    >>> class Pipe(tede.utils.data.IterDataPipe):
    ...     type = Integers()
    ...     @tede.utils.data.runtime_validation
    ...     def __iter__(self):
    ...         yield 1
    >>> list(Pipe())
    [1]
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def __iter__(self):
        if not _runtime_validation_enabled:
            yield from f(self)
            return
        for item in f(self):
            if not self.type.issubtype_of_instance(item):
                raise RuntimeError(f"Expected an instance as subtype of {self.type}, but found {item}({type(item)})")
            yield item
    return __iter__
