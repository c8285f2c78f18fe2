"""What holds for all tests: Ctrl-C, which some press, and --compared, which leaves out what has no need of PyTorch."""
import functools
import os
import re
import signal

# What comes again in one process isn't compiled: tests compare bits. test_compiled_loops.py takes it away.
os.environ.setdefault("TEDE_COMPILER", "")

# A shell starts what runs in its background deaf to Ctrl-C, children included.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    from xdist import workermanage
    # A worker that counts lines writes its counts when it ends; on a busy machine that takes longer than the ten seconds it is given.
    workermanage.NodeManager.EXIT_TIMEOUT = 300
except ImportError:
    pass


def pytest_addoption(parser):
    parser.addoption("--compared", action="store_true", help="only what compares with PyTorch: the rest has run without it, to the same result")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--compared"):
        compared = [item for item in items if _compares(item)]
        config.hook.pytest_deselected(items=[item for item in items if not _compares(item)])
        items[:] = compared


def _compares(item):
    """Whether a test has another result beside PyTorch: not the half that runs on tede alone, nor a file that never names torch."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    libraries = [getattr(params[name], "__name__", params[name]) for name in ("lib", "library") if name in params]
    return libraries != ["tede"] and (libraries == ["torch"] or _names_torch(item.path))


@functools.cache
def _names_torch(path):
    return path.parent.name == "sweep" or bool(re.search(r"\btorch\b|\bboth\b|\bLIBRARIES\b", path.read_text()))
