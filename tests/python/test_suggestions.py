"""Errors about names that don't exist name the nearest that does."""
import pytest

import tede


@pytest.mark.parametrize("call, near", [
    (lambda x: tede.add(x, x, alpah=2), "alpha"), (lambda x: tede.cumsum(x, dmi=0), "dim"), (lambda x: x.sum(0, keepdims_=True), "keepdim"),
    (lambda x: tede.zeros(2, dytpe=tede.float32), "dtype"), (lambda x: tede.tensor([1], dtyp=tede.int8), "dtype"),
    (lambda x: x.sum(dm=0), "dim"), (lambda x: tede.add(x, x, nothing_like_it=2), None), (lambda x: tede.exp(x, ouut=x), "out"),
], ids=range(8))
def test_keywords(call, near):
    with pytest.raises(TypeError) as caught:
        call(tede.ones(2))
    assert ("Did you mean" in str(caught.value)) == bool(near)
    assert not near or f"Did you mean '{near}'?" in str(caught.value)


def test_attributes():
    with pytest.raises(AttributeError, match="Did you mean: 'softmax'"):
        tede.sofmax
    with pytest.raises(AttributeError) as caught:
        tede.ones(2).sofmax()
    assert caught.value.name == "sofmax" and caught.value.obj is not None      # what Python's traceback makes a suggestion of
