"""An out= that is also an input, where PyTorch's result is anybody's guess: here it is that of a separate out."""
import warnings

import pytest
import tede


@pytest.mark.parametrize('call', [
    lambda x, out: tede.sum(x, 0, out=out), lambda x, out: tede.cumsum(x, 1, out=out),
    lambda x, out: tede.mm(x, x.T, out=out), lambda x, out: tede.softmax(x, 0, out=out),
    lambda x, out: tede.sort(x, 0, out=(out, tede.empty(0, dtype=tede.int64)))[0],
])
def test_an_input_as_out_gives_the_same_values(call):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        x = (tede.arange(12.) * 7 % 5).reshape(3, 4)
        want = call(x, tede.empty(0))
        y = x.clone()
        got = call(y, y)
        assert got.tolist() == want.tolist()
        rows = x.clone()
        part = call(rows, rows[0])
        assert part.tolist() == want.tolist()


def test_two_outs_may_be_one():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        out = tede.empty(0)
        tede.linalg.qr(tede.rand(40, 3), out=(out, out))
        assert out.shape == (3, 3)
