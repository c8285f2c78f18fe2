"""What the programs of ddp_programs.py find on some ranks, all of them run by the same processes."""
import functools

import ddp_programs
from ranks import run


@functools.cache
def _all(library, ranks, *names):
    return run(ddp_programs.everything, ranks, library, *names, timeout=120)


def results(program, library, ranks=2):
    """What each rank has found. On other than two ranks the program runs by itself."""
    found = [rank[program.__name__] for rank in (_all(library, 2) if ranks == 2 else _all(library, ranks, program.__name__))]
    assert not [trace for _, trace in found if trace is not None]
    return [result for result, _ in found]
