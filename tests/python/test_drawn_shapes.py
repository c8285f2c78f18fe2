"""What an error says of shapes that don't fit ends with the shapes, one under the other, the dimension marked."""
import pytest

import tede


def _drawing(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value).split("\n")[1:]


def test_broadcasting_aligns_at_the_right():
    assert _drawing(lambda: tede.ones(10, 3, 4) + tede.ones(200, 4)) == [
        "    a  [10,   3, 4]",
        "    b  [    200, 4]",
        "              ^"]


@pytest.mark.parametrize("call", [lambda a, b: a @ b, lambda a, b: tede.matmul(a, b)])
def test_products_mark_what_would_be_summed_over(call):
    assert _drawing(lambda: call(tede.ones(2, 3, 40), tede.ones(5, 2))) == [
        "    input  [2, 3, 40]",
        "                   ^",
        "    other  [5, 2]",
        "            ^"]
    assert _drawing(lambda: tede.nn.Linear(3, 4)(tede.ones(7, 12))) == [
        "    input   [7, 12]",
        "                 ^",
        "    weight  [4, 3]",
        "                ^"]
    assert _drawing(lambda: tede.addmm(tede.ones(2), tede.ones(3, 4), tede.ones(5, 2)))[0] == "    mat1  [3, 4]"


def test_cat_names_the_tensor():
    assert _drawing(lambda: tede.cat([tede.ones(2, 3), tede.ones(2, 3), tede.ones(3, 4)])) == [
        "    before      [2, 3]",
        "    tensors[2]  [3, 4]",
        "                    ^"]


def test_nothing_is_drawn_of_shapes_that_a_line_does_not_hold():
    many = [1] * 13
    assert _drawing(lambda: tede.ones(*many, 3) + tede.ones(*many, 4)) == []
    huge = tede.ones(1).expand(2**62), tede.ones(1).expand(2**61)
    assert len(_drawing(lambda: huge[0] + huge[1])) == 3
