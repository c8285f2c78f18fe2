"""Products of sparse matrices whose indices were never checked."""
import pytest
import tede


@pytest.mark.parametrize("columns", [1, 40])
@pytest.mark.parametrize("column", [-1, 5, 2**62])
def test_a_column_outside_is_an_error_of_products(columns, column):
    a = tede.sparse_csr_tensor(tede.tensor([0, 1, 3]), tede.tensor([0, 1, column]), tede.ones(3), (2, 5), check_invariants=False)
    with pytest.raises(IndexError, match="out of column bound"):
        a @ tede.ones(5, columns)
