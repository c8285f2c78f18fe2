"""WeakIdKeyDictionary and relatives: dictionaries by the identity of their keys, not by equality: tensors compare by element."""
import collections.abc
import copy
import weakref

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):
    """A weak reference that equals another if both mean one living object."""
    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self):
        """The object, None once it is gone."""
        return super().__call__()

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        a, b = self(), other()
        return a is b if a is not None and b is not None else self is other


class _WeakHashRef(weakref.ref):
    """A weak reference that equals another if the objects' hashes are equal: for wrappers of one thing."""
    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        self._id = hash(key)
        super().__init__(key, callback)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        a, b = self(), other()
        return hash(a) == hash(b) if a is not None and b is not None else self is other


class WeakTensorRefKey(WeakIdRef):
    __slots__ = ()


class WeakIdKeyDictionary(collections.abc.MutableMapping):
    """A mapping from objects by identity; an entry goes when its key does."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        if dict is not None:
            self.update(dict)

    def _drop(self, reference):
        self.data.pop(reference, None)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._drop)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self):
        return sum(1 for _ in self)

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self):
        """The weak references themselves."""
        return list(self.data)

    def update(self, other=(), /, **named):
        """As dict.update; what `other` holds is read before anything is written."""
        for key, value in (other if hasattr(other, "items") else dict(other)).items():
            self[key] = value
        for key, value in named.items():
            self[key] = value

    def copy(self):
        new = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            new[key] = value
        return new

    __copy__ = copy

    def __deepcopy__(self, memo):
        """The values are copied, the keys are the objects that they were."""
        new = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            new[key] = copy.deepcopy(value, memo)
        return new

    def __or__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ror__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        new = type(self)(ref_type=self.ref_type)
        new.update(other)
        new.update(self)
        return new

    def __ior__(self, other):
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""
    __slots__ = ("ref",)

    def __init__(self, tensor):
        from tede import Tensor
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
