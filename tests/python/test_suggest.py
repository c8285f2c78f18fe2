"""Constructors written in Python name the nearest of their keywords."""
import abc

import pytest
import tede


@pytest.mark.parametrize("make, said", [
    (lambda: tede.nn.Linear(2, 3, baias=True), r"Linear.__init__\(\) got an unexpected keyword argument 'baias'. Did you mean 'bias'\?"),
    (lambda: tede.nn.Conv2d(2, 3, 1, strid=2), r"Conv2d.__init__\(\) got an unexpected keyword argument 'strid'. Did you mean 'stride'\?"),
    (lambda: tede.nn.Linear(2, 3, zzz=1), r"unexpected keyword argument 'zzz'$"),
    (lambda: tede.optim.SGD([tede.ones(2)], mometum=1), "Did you mean 'momentum'"),
    (lambda: tede.optim.lr_scheduler.StepLR(None, 2, gama=1), "Did you mean 'gamma'"),
])
def test_the_nearest_keyword_is_named(make, said):
    with pytest.raises(TypeError, match=said):
        make()


def test_classes_of_any_make_are_still_made():
    class Two(tede.nn.Linear, abc.ABC):
        def __new__(cls, *sizes, **options):
            return super().__new__(cls)

    class Any(tede.nn.Linear):
        def __init__(self, **options):
            super().__init__(1, options["out"])
    assert Two(2, 3, bias=False).bias is None and Any(out=4).out_features == 4
