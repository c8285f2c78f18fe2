"""Nothing stays behind: tensors, nodes and bytes are where they were after each test of autograd.

The tests of tests/compat are run again, several times each: what grows from the third time to the fourth is a leak (the first ones may
load modules and fill caches)."""
import gc
import importlib.util
import inspect
import pathlib
import warnings

import pytest
import tede

FOLDER = pathlib.Path(__file__).parents[1] / "compat"
SLOW = {"test_a_long_chain", "test_a_million_nodes", "test_control_c_ends_a_pass"}


def programs():
    for path in sorted(FOLDER.glob("test_autograd*.py")):
        spec = importlib.util.spec_from_file_location("leaks_" + path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, test in vars(module).items():
            if name.startswith("test_") and list(inspect.signature(test).parameters) == ["lib"] and name not in SLOW:
                yield pytest.param(test, id=f"{path.stem}-{name}")


@pytest.fixture
def lives():
    """What lives: blocks (heads of tensors, storages, nodes, contexts) and their bytes."""
    def count():
        gc.collect()
        stats = tede.memory.stats() if hasattr(tede.memory, "stats") else tede._C.memory_stats()
        return stats["live_blocks"], stats["allocated"]
    return count


@pytest.mark.parametrize("program", programs())
def test_nothing_is_left(program, lives):
    tede.manual_seed(0)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for _ in range(4):
            try:
                program(tede)
            except (pytest.skip.Exception, NotImplementedError) as reason:
                pytest.skip(str(reason))
            seen.append(lives())
    assert seen[3] <= seen[2] or seen[3][0] <= seen[1][0], seen


def test_a_leak_is_found(lives):
    kept = []

    def program():
        x = tede.ones(3, requires_grad=True)
        kept.append((x * 2).exp())
    counts = []
    for _ in range(4):
        program()
        counts.append(lives())
    assert counts[3][0] > counts[2][0] > counts[1][0] and counts[3][1] > counts[2][1]
