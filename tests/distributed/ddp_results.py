"""What the programs of ddp_programs.py find on some ranks, all of them run by the same processes."""
import functools
from importlib.util import find_spec

import ddp_programs
import pytest
from ranks import run


@functools.cache
def _all(library, ranks, *names):
    return run(ddp_programs.everything, ranks, library, *names, timeout=120)


def results(program, library, ranks=2):
    """What each rank has found. On other than two ranks the program runs by itself."""
    if not find_spec(library):
        pytest.skip(f"no {library}")
    found = [rank[program.__name__] for rank in (_all(library, 2) if ranks == 2 else _all(library, ranks, program.__name__))]
    assert not [trace for _, trace in found if trace is not None]
    return [result for result, _ in found]
