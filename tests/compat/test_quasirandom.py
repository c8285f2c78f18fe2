"""Sobol' sequences: the same points in both libraries, scrambled or not, drawn at once or in pieces."""
import importlib

import pytest


def engine(lib, *args, **kwargs):
    return importlib.import_module(lib.__name__ + ".quasirandom").SobolEngine(*args, **kwargs)


def test_the_first_points_are_the_textbook_ones(lib):
    points = engine(lib, 3).draw(5)
    assert points.tolist() == [[0, 0, 0], [.5, .5, .5], [.75, .25, .25], [.25, .75, .75], [.375, .375, .625]]


def test_scrambled_points_are_the_same_for_a_seed(lib):
    points = engine(lib, 4, scramble=True, seed=12).draw(3, dtype=lib.float64)
    assert [round(x, 6) for x in points.flatten().tolist()] == [
        0.205256, 0.358456, 0.630919, 0.54924, 0.61575, 0.931717, 0.373599, 0.412428, 0.804387, 0.105872, 0.816423, 0.999952]


def test_pieces_are_the_whole(lib):
    whole = engine(lib, 40, scramble=True, seed=1).draw(32)
    parts = engine(lib, 40, scramble=True, seed=1)
    assert lib.equal(lib.cat([parts.draw(1), parts.draw(6), parts.draw(25)]), whole)
    assert lib.equal(parts.reset().fast_forward(7).draw(3), whole[7:10]) and parts.num_generated == 10
    assert lib.equal(parts.fast_forward(5).draw(2), whole[15:17])
    assert abs(float(whole.mean()) - .5) < .02


def test_balance_and_range_are_checked(lib):
    sobol = engine(lib, 2)
    assert sobol.draw_base2(3).shape == (8, 2) and repr(sobol) == "SobolEngine(dimension=2)"
    with pytest.raises(ValueError, match="The balance properties of Sobol' points require n to be a power of 2"):
        sobol.draw_base2(2)
    with pytest.raises(ValueError, match="Supported range of dimensionality"):
        engine(lib, 30000)
