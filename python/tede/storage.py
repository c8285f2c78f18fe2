"""Storages as PyTorch's module has them: their classes (see _storage), and how they are pickled.

A pickle of a storage holds a checkpoint of it, so this stands above serialization, which needs the classes alone. The extension
loads it before it makes a storage."""
from tede import _storage
from tede._storage import TypedStorage, UntypedStorage  # noqa: F401

__all__ = ["TypedStorage", "UntypedStorage"]


def _to_bytes(storage):
    import io
    from tede import serialization
    buffer = io.BytesIO()
    serialization.save(storage, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def _load_from_bytes(data):
    import io
    from tede import serialization
    return serialization.load(io.BytesIO(data), weights_only=False)


def __reduce__(self):
    return _load_from_bytes, (_to_bytes(self),)


UntypedStorage.__reduce__ = TypedStorage.__reduce__ = __reduce__


def __getattr__(name):
    try:
        return getattr(_storage, name)
    except AttributeError:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None


def __dir__():
    return sorted({*globals(), *dir(_storage)})
