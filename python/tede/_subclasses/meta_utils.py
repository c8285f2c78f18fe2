"""MetaConverter: tensors on "meta" that are to one another as real ones are: the same of the same tensor, in one storage, views of one base,
leaves or results, with gradients."""
import weakref

import tede
from tede.utils import weak
from tede.utils._python_dispatch import no_dispatch

_META = tede.device("meta")


def is_sparse_any(t):
    """Whether a tensor is of one of the sparse layouts."""
    return isinstance(t, tede.Tensor) and t.layout != tede.strided and str(t.layout).rpartition(".")[2].startswith("sparse")


def assert_metadata_eq(assert_eq, m1, m2, *, skip_symbolic=False, skip_leaf=False):
    """Call assert_eq(a, b) for all that two tensors say of themselves, of their gradients and of what they are views of."""
    queries = [lambda t: t.dtype, lambda t: t.shape, lambda t: t.requires_grad, lambda t: t.layout, lambda t: t.is_inference(), lambda t: t.is_conj(),
               lambda t: t.is_neg()]
    if not skip_leaf:
        queries.append(lambda t: t.is_leaf)
    if is_sparse_any(m2):
        queries += [lambda t: t.dense_dim(), lambda t: t.sparse_dim()]
    else:
        queries += [lambda t: t.stride(), lambda t: t.storage_offset(), lambda t: t._is_view()]
    if m2.layout == tede.sparse_coo:
        queries.append(lambda t: t.is_coalesced())
    for query in queries:
        assert_eq(query(m1), query(m2))
    for a, b in ((m1.grad if m1.is_leaf else None, m2.grad if m2.is_leaf else None), (m1._base, m2._base)):
        assert_eq(a is not None, b is not None)
        if a is not None:
            assert_metadata_eq(assert_eq, a, b, skip_symbolic=skip_symbolic, skip_leaf=skip_leaf)


class MetaConverter:
    """Called with a tensor it gives the one on meta; other objects come back as they are, tensors of foreign classes and
    layouts as NotImplemented.

    hit, miss: how many tensors could be converted, and how many not."""

    def __init__(self):
        self._metas = weak.WeakIdKeyDictionary()            # real tensor -> weak reference to its meta tensor
        self._storages = {}             # number of a real storage -> (weak reference to it, storage on meta)
        self.hit = self.miss = self.arg_cnt = 0

    def successful(self):
        """Whether all tensors were converted, and there were some."""
        return self.hit > 0 and self.miss == 0

    @property
    def tensor_memo(self):
        """Real tensor -> weak reference to its meta tensor, as far as both live."""
        for real in [real for real, ref in self._metas.items() if ref() is None]:
            del self._metas[real]
        return self._metas

    @property
    def storage_memo(self):
        """Number of a real storage -> (weak reference to it, storage on meta), as far as the real ones live."""
        for number in [number for number, (real, _) in self._storages.items() if real.expired()]:
            del self._storages[number]
        return self._storages

    def over(self, t):
        """A new tensor that lies as `t` does in the storage on meta that stands for the storage of `t`."""
        from tede.multiprocessing.reductions import StorageWeakRef
        storage = t.untyped_storage()
        known = self.storage_memo.get(storage._cdata)
        if known is None:
            made = tede.empty(storage.nbytes(), dtype=tede.uint8, device=_META).untyped_storage()
            known = self._storages[storage._cdata] = StorageWeakRef(storage), made
        return tede.empty((0,), dtype=t.dtype, device=_META).set_(known[1], t.storage_offset(), t.shape, t.stride())

    def _leaf_or_result(self, t):
        """What isn't a view."""
        with tede.no_grad():
            made = self.over(t)
            made = made.conj() if t.is_conj() else made
        if t.is_leaf:
            return made.requires_grad_(t.requires_grad)
        with tede.enable_grad():
            result = made.requires_grad_().clone()
        with tede.no_grad():
            result.set_(made.untyped_storage(), t.storage_offset(), t.shape, t.stride())
        return result

    @staticmethod
    def _reached(base, t):
        """`t` as a view of the tensor that stands for its base."""
        if t.dtype != base.dtype and base.is_complex() and not t.is_complex():
            base = tede.view_as_real(base.resolve_conj() if base.is_conj() else base)
        elif t.is_complex() and not base.is_complex():
            base = tede.view_as_complex(base)
        elif t.dtype != base.dtype:
            base = base.view(t.dtype)
        view = base.as_strided(t.shape, t.stride(), t.storage_offset())
        if view.is_conj() != t.is_conj():
            view = view.conj()
        return tede._neg_view(view) if view.is_neg() != t.is_neg() else view

    def _view(self, t):
        base = self.meta_tensor(t._base)
        if t.is_leaf:
            with tede.set_grad_enabled(not base.requires_grad):         # else it would be a result of the base
                return self._reached(base, t).requires_grad_(t.requires_grad)
        if t.requires_grad and not t._base.requires_grad:       # a view on the way became a leaf
            with tede.no_grad():
                base = base.view(base.shape)
            base.requires_grad_()
        with tede.enable_grad():
            return self._reached(base, t)

    def meta_tensor(self, t):
        """The tensor on meta that stands for `t`."""
        ref = self._metas.get(t)
        made = ref() if ref is not None else None
        if made is None:
            with no_dispatch():
                made = self._view(t) if t._is_view() else self._leaf_or_result(t)
            if isinstance(t, tede.nn.Parameter):
                made = tede.nn.Parameter(made.detach(), t.requires_grad)
            self._metas[t] = weakref.ref(made)
            if t.is_leaf and t.grad is not None:
                made.grad = self.meta_tensor(t.grad)
        return made

    def __call__(self, t, **options):
        if not isinstance(t, tede.Tensor):
            return t
        self.arg_cnt += 1
        if type(t) not in (tede.Tensor, tede.nn.Parameter) or t.layout != tede.strided:     # layouts have no tensors without elements
            self.miss += 1
            return NotImplemented
        self.hit += 1
        return self.meta_tensor(t)
