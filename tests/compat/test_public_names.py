"""What ``from module import *`` takes: modules list the names that PyTorch's of the same name lists, as far as they have them."""
import importlib
import os
import pkgutil
import warnings

import pytest
import tede


def modules():
    """All public modules with a file of their own."""
    root = os.path.dirname(tede.__file__)
    for found in pkgutil.walk_packages([root], "tede.", onerror=lambda name: None):
        if not any(part.startswith("_") for part in found.name.split(".")[1:]):
            yield found.name


@pytest.mark.filterwarnings("ignore")
def test_modules_list_what_they_have_of_pytorchs_names():
    torch = pytest.importorskip("torch")
    assert torch.__name__ == "torch"
    compared, lacking = 0, {}
    for name in modules():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = importlib.import_module("torch" + name.removeprefix("tede"))
        except ImportError:
            continue                            # of tede alone
        wanted = getattr(other, "__all__", ())
        ours = importlib.import_module(name)
        if name == "tede.version":              # what the build writes
            continue
        listed = set(getattr(ours, "__all__", ()))
        there = {n for n in wanted if hasattr(ours, n)}
        compared += bool(there)
        lost = sorted(there - listed) + [f"{n}: it isn't there" for n in listed if not hasattr(ours, n)]
        if lost:
            lacking[name] = lost
    assert compared > 100 and not lacking


def test_a_star_takes_what_the_package_loads_when_it_is_named(lib):
    names = {}
    exec(f"from {lib.__name__} import *", names)
    assert {"add", "einsum", "load", "autocast", "FloatTensor", "float32", "Tensor", "compile", "vmap", "split"} <= set(names)
    assert not {"nn", "optim", "TYPE_CHECKING", lib.__name__} & set(names)


@pytest.mark.parametrize("name", ["special", "nn.init", "multiprocessing", "utils.data", "amp", "fft"])
def test_a_star_takes_what_is_public(lib, name):
    names = {}
    exec(f"from {lib.__name__}.{name} import *", names)
    assert {"special": "zeta", "nn.init": "xavier_uniform_", "multiprocessing": "get_sharing_strategy", "utils.data": "IterDataPipe",
            "amp": "autocast", "fft": "fftn"}[name] in names
    assert lib.__name__ not in names and "warnings" not in names and "gather" not in names
