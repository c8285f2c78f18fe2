"""What several pipes need: checks of the functions that they are given, files by pattern, and streams that close themselves."""
import fnmatch
import functools
import importlib.util
import inspect
import os
import warnings
from io import IOBase

__all__ = ["validate_input_col", "StreamWrapper", "get_file_binaries_from_pathnames", "get_file_pathnames_from_root",
           "match_masks", "validate_pathname_binary_tuple"]
DILL_AVAILABLE = importlib.util.find_spec("dill") is not None


def validate_input_col(fn, input_col):
    """A function that gets these columns must take as many arguments."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:
        return      # a builtin without a signature
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    inner = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(inner, "__name__", repr(inner))
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    demanded = sum(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if demanded:
        raise ValueError(f"The function {name} takes {demanded} non-default keyword-only parameters, which is not allowed.")
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(parameters) < given and not takes_more:
        raise ValueError(f"The function {name} takes {len(parameters)} parameters, but {given} are required.")
    if any(p.default is p.empty for p in positional[given:]) or (len(positional) < given and not takes_more):
        raise ValueError(f"The function {name} takes {len(positional)} positional parameters, but {given} are required.")


def _is_local_fn(fn):
    if hasattr(fn, "__code__"):
        return bool(fn.__code__.co_flags & inspect.CO_NESTED)
    return "<locals>" in getattr(fn, "__qualname__", type(fn).__qualname__)


def _check_unpickable_fn(fn):
    """A warning for what no other process could be sent."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    fn = fn.func if isinstance(fn, functools.partial) else fn
    kind = "Local" if _is_local_fn(fn) else "Lambda" if getattr(fn, "__name__", "") == "<lambda>" else None
    if kind and not DILL_AVAILABLE:
        warnings.warn(f"{kind} function is not supported by pickle, please use regular python function or functools.partial "
                      "instead.", stacklevel=3)


def match_masks(name, masks):
    """Whether a name fits the pattern, or one of them; no pattern fits all."""
    return not masks or any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def get_file_pathnames_from_root(root, masks, recursive=False, abspath=False, non_deterministic=False):
    """The paths of the files at or under `root` whose names fit, in the order of names by default."""
    def fail(error):
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield os.path.abspath(root) if abspath else root
        return
    for folder, folders, files in os.walk(root, onerror=fail):
        if not non_deterministic:
            folders.sort()      # in place: this is the order in which os.walk goes on
            files.sort()
        folder = os.path.abspath(folder) if abspath else folder
        yield from (os.path.join(folder, name) for name in files if match_masks(name, masks))
        if not recursive:
            return


def get_file_binaries_from_pathnames(pathnames, mode, encoding=None):
    """(path, open file) of each."""
    for path in pathnames if hasattr(type(pathnames), "__iter__") else [pathnames]:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, "r" + mode if mode in ("b", "t") else mode, encoding=encoding))


def validate_pathname_binary_tuple(data):
    """An item must be (path, stream)."""
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(f"pathname within the tuple should have string type pathname, but it is type {type(data[0])}")
    if not isinstance(data[1], (IOBase, StreamWrapper)):
        raise TypeError(f"binary stream within the tuple should have IOBase orits subclasses as type, but it is type "
                        f"{type(data[1])}")


class StreamWrapper:
    """A stream that is closed when nobody holds it; an archive's stream may wait for the streams opened from it."""

    session_streams: dict = {}
    debug_unclosed_streams = False

    def __init__(self, file_obj, parent_stream=None, name=None):
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
        self.file_obj, self.parent_stream, self.name = file_obj, parent_stream, name
        self.child_counter, self.close_on_last_child, self.closed = 0, False, False
        if parent_stream is not None:
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v, depth=0):
        """Close every wrapped stream in nested lists, tuples and dicts, ten levels deep."""
        if isinstance(v, StreamWrapper):
            v.close()
        elif depth <= 10 and isinstance(v, (dict, list, tuple)):
            for item in v.values() if isinstance(v, dict) else v:
                cls.close_streams(item, depth + 1)

    def __getattr__(self, name):
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args, **kwargs):
        if self.closed:
            return
        if StreamWrapper.debug_unclosed_streams:
            del StreamWrapper.session_streams[self]
        parent = self.__dict__.get("parent_stream")
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        if hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)
        self.closed = True

    def autoclose(self):
        """Close as soon as no stream opened from this one is open."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self):
        return list({*self.__dict__, *StreamWrapper.__dict__, *dir(self.file_obj)})

    def __del__(self):
        if not self.__dict__.get("closed", True):
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self):
        return f"StreamWrapper<{self.file_obj!r}>" if self.name is None else f"StreamWrapper<{self.name},{self.file_obj!r}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, file_obj):
        self.__init__(file_obj)
