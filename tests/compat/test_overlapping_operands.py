"""Operators whose operands share memory with what they write, and expanded tensors that are written."""
import pytest

SHARED = "refer to a single memory location"
WRITERS = {
    "index_add_": lambda x, at, source: x.index_add_(0, at, source),
    "index_copy_": lambda x, at, source: x.index_copy_(0, at, source),
    "index_put_": lambda x, at, source: x.index_put_((at,), source),
    "put_": lambda x, at, source: x.put_(at, source),
    "scatter_": lambda x, at, source: x.scatter_(0, at, source),
    "scatter_add_": lambda x, at, source: x.scatter_add_(0, at, source),
    "scatter_reduce_": lambda x, at, source: x.scatter_reduce_(0, at, source, "sum"),
    "index_reduce_": lambda x, at, source: x.index_reduce_(0, at, source, "amax"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_neither_indices_nor_elements_may_overlap_what_is_written(lib, name):
    write, at = WRITERS[name], lib.tensor([2, 1, 0])
    x = lib.arange(6.)
    with pytest.raises(RuntimeError, match=SHARED):
        write(x, at, x[:3])
    with pytest.raises(RuntimeError, match=SHARED):
        write(x[:3], at, x[:3])
    with pytest.raises(RuntimeError, match=SHARED):
        write(at, at, at.clone())
    write(at.clone(), at, at)           # indices that are the elements are fine


def test_elements_between_those_that_are_written_are_fine(lib):
    x = lib.arange(6.)
    x[::2].index_copy_(0, lib.tensor([2, 1, 0]), x[1::2])
    assert x.tolist() == [5, 1, 3, 3, 1, 5]


def test_fills_by_index_dont_overwrite_their_indices(lib):
    at = lib.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match=SHARED):
        at.index_fill_(0, at, 0)
    with pytest.raises(RuntimeError, match=SHARED):
        at.scatter_(0, at, 0)


def test_copies_that_overlap_are_refused(lib):
    x = lib.arange(10.)
    with pytest.raises(RuntimeError, match=SHARED):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match=SHARED):
        x[1:] = x[:-1]
    x[:5].copy_(x[5:])
    x.copy_(x)
    assert x.tolist() == [5, 6, 7, 8, 9] * 2


def test_masked_fill_writes_expanded_tensors_with_a_warning(lib):
    with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors is deprecated"):
        x = lib.zeros(1).expand(3).masked_fill_(lib.tensor([False, True, False]), 1.)
    assert x.tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="masked_fill_ on expanded"):
        y = lib.zeros(3, 1).expand(3, 4).masked_fill_(lib.tensor([[False], [True], [False]]), lib.tensor(2.))
    assert y[:, 0].tolist() == [0, 2, 0]


def test_threshold_writes_expanded_tensors(lib):
    x = lib.tensor([[.1, .9]]).expand(3, 2)
    assert lib.nn.functional.threshold_(x, .5, .25).tolist() == [[.25, lib.tensor(.9).item()]] * 3


def test_empty_outputs_get_the_order_of_the_operands(lib):
    x = lib.randn(4, 3, 2).permute(2, 0, 1)
    for out in (lib.empty(0), lib.empty(0, 1, 2).permute(2, 0, 1)):
        lib.add(x, x, out=out)
        assert out.stride() == (1, 6, 2) and lib.equal(out, x + x)


def test_overlap_is_refused_before_the_dtype(lib):
    x = lib.ones(3)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        x[:-1] <<= x[1:]
    with pytest.raises(RuntimeError, match='"rshift_cpu" not implemented for \'Float\''):
        x >>= x
