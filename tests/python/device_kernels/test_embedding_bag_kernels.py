"""embedding.ck beside the CPU's kernels."""
import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def table(rows=7, width=5, dtype=tede.float32):
    return tede.randn(rows, width).to(dtype).requires_grad_()


@pytest.mark.parametrize("options", [{}, {"include_last_offset": True}, {"padding_idx": 2}, {"include_last_offset": True, "padding_idx": 2},
                                     {"scale_grad_by_freq": True}])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags(agrees, mode, options):
    indices, weight = tede.tensor([1, 2, 4, 5, 4, 2, 6, 2, 2, 0]), table()
    if mode == 2 and "scale_grad_by_freq" in options:
        options = {}
    for offsets in ([0, 3, 3, 7], [0], [0, 0, 10], [0, 9, 10]):
        agrees(lambda w, i, o: tede.ops.aten._embedding_bag(w, i, o, mode=mode, **options), weight, indices, tede.tensor(offsets), **CLOSE)
    agrees(lambda w, i, o: tede.ops.aten._embedding_bag(w, i, o, mode=mode), weight, indices.int()[::2], tede.tensor([0, 2]).int(), **CLOSE)


def test_weights_of_indices(agrees):
    scales = tede.randn(6).requires_grad_()
    for padding in (None, 2):
        agrees(lambda w, i, s: F.embedding_bag(i, w, per_sample_weights=s.view(2, 3), mode="sum", padding_idx=padding), table(),
               tede.tensor([[1, 2, 4], [2, 4, 0]]), scales, **CLOSE)


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16])
def test_dtypes_of_tables(agrees, dtype):
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype != tede.float64 else {}
    for mode in ("sum", "mean", "max"):
        agrees(lambda w, i: F.embedding_bag(i, w, mode=mode), table(dtype=dtype), tede.tensor([[1, 2, 4], [2, 4, 0]]), **close)


def test_tables_that_lie_otherwise_and_nothing(agrees):
    for weight in (table(5, 7).mT, table(14)[::2], table().flip(0), table(1).expand(7, 5), table(7, 0)):
        agrees(lambda w, i: F.embedding_bag(i, w), weight, tede.tensor([[1, 2, 4], [2, 4, 0]]))
    agrees(lambda w, i, o: F.embedding_bag(i, w, o), table(), tede.zeros(0, dtype=tede.int64), tede.tensor([0, 0]))
    agrees(lambda w, i, o: F.embedding_bag(i, w, o), table(), tede.zeros(0, dtype=tede.int64), tede.zeros(0, dtype=tede.int64))


def test_mistakes_of_bags(device):
    for on in ("cpu", device):
        weight, indices = tede.ones(3, 2, device=on), tede.tensor([0, 1, 3], device=on)
        with pytest.raises(RuntimeError, match="Index 2 of input takes value 3"):
            F.embedding_bag(indices, weight, tede.tensor([0], device=on))
        with pytest.raises(RuntimeError, match="found idx to be 3"):
            F.embedding_bag(indices, weight, tede.tensor([0], device=on), mode="max")
        with pytest.raises(RuntimeError, match="has to be 0"):
            F.embedding_bag(indices[:2], weight, tede.tensor([1], device=on))
        with pytest.raises(RuntimeError, match="can not be greater than input's length"):
            F.embedding_bag(indices[:2], weight, tede.tensor([0, 5], device=on))
