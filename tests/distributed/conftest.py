"""`library` is the name of each library that is there: what holds for one must hold for the other."""
import importlib.util
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


@pytest.fixture(params=[name for name in ("tede", "torch") if importlib.util.find_spec(name)])
def library(request):
    return request.param
