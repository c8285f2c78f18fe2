"""Sizes, strides and counts whose products and sums don't fit in 64 bits: errors, of PyTorch's types."""
import pytest

HUGE = 2 ** 62


def refused(words, call, kind=RuntimeError):
    with pytest.raises(kind, match=words):
        call()


def test_a_number_of_elements_that_does_not_fit_is_an_error(lib):
    one = lib.ones(1)
    words = 'numel: integer multiplication overflow'
    refused(words, lambda: one.expand(HUGE, 4))
    refused(words, lambda: one.expand(2 ** 31, 2 ** 31, 4))
    refused(words, lambda: lib.ones(4).as_strided((HUGE, 4), (0, 0)))
    refused(words, lambda: lib.empty_strided((HUGE, 4), (0, 0)))
    refused(words, lambda: lib.empty(0).set_(lib.ones(3).untyped_storage(), 0, (HUGE, 4), (0, 0)))
    refused(words, lambda: lib.empty(3).resize_(HUGE, 4))
    refused(words, lambda: lib.sparse_coo_tensor(lib.zeros(2, 1, dtype=lib.int64), lib.ones(1), (HUGE, 4)))
    refused(words, lambda: lib.ones(1, 1, 0).expand(HUGE, HUGE, 0))
    refused('Storage size calculation overflowed', lambda: lib.empty(HUGE, 4))
    assert one.expand(HUGE).numel() == HUGE and one.expand(HUGE).view(2 ** 31, 2 ** 31).shape == (2 ** 31, 2 ** 31)
    assert lib.zeros(0, 1, 1).expand(0, HUGE, HUGE).numel() == 0


def test_an_empty_view_may_have_any_strides(lib):
    assert lib.ones(4).as_strided((0,), (2 ** 61,)).sum() == 0
    assert lib.ones(4).as_strided((1,), (2 ** 61,)).sum() == 1


def test_triangles_and_combinations_are_counted_by_formula(lib):
    for rows in range(5):
        for cols in range(5):
            for offset in range(-6, 7):
                ones = lib.ones(rows, cols, dtype=lib.int64)
                for name in 'tril', 'triu':
                    want = getattr(lib, name)(ones, offset).nonzero().T
                    assert getattr(lib, name + '_indices')(rows, cols, offset).tolist() == want.tolist(), (name, rows, cols, offset)
    assert lib.combinations(lib.arange(4), 2).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert lib.combinations(lib.arange(3), 2, with_replacement=True).tolist() == [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]
    for n in range(5):
        for r in range(1, 7):
            assert len(lib.combinations(lib.arange(n), r)) == len(list(__import__('itertools').combinations(range(n), r)))
            with_replacement = list(__import__('itertools').combinations_with_replacement(range(n), r))
            assert len(lib.combinations(lib.arange(n), r, with_replacement=True)) == len(with_replacement)


def test_strides_of_an_empty_result_do_not_wrap(lib):
    x = lib.empty(2 ** 20, 0, 2 ** 20, 1).expand(2 ** 20, 0, 2 ** 20, 2 ** 20)
    assert (x + 1).shape == x.shape and (x + 1).numel() == 0
    flat = lib.empty(0, 1, 1, 1).expand(0, 2 ** 31, 2 ** 31, 2 ** 31)
    for make in (lambda: flat + 1, lambda: flat.transpose(1, 3) * 2, lambda: lib.nn.functional.relu(flat.permute(0, 3, 1, 2))):
        try:
            result = make()
        except RuntimeError as error:
            assert "overflow" in str(error)
        else:
            assert result.numel() == 0 and all(stride >= 0 for stride in result.stride())
