"""``python -m tede.utils.bottleneck script.py [arguments ...]``: where a program's time goes, in Python and in operators.

The program runs twice, once under cProfile and once under `tede.explain`; both results are printed, the slowest first. As PyTorch's, but
for the second part, which PyTorch has of its profiler: here each line of the program has its forward and its backward time."""
import argparse
import cProfile
import io
import os
import pstats
import runpy
import sys

__all__ = ["run"]


def run(script, arguments=(), rows=15):
    """The report of a script's two runs, as text."""
    from tede.utils.collect_env import get_pretty_env_info
    from tede.explain import Explanation
    before, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        profile = cProfile.Profile()
        with profile:
            _run(script)
        with Explanation(show=False) as explanation:
            _run(script)
    finally:
        sys.argv, sys.path[:] = before, path
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(rows)
    return "\n".join([_title("environment"), get_pretty_env_info(), "", _title("Python, by cProfile"), text.getvalue().strip(), "",
                      _title("operators, by tede.explain"), explanation.summary(rows)])


def _run(script):
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def _title(text):
    return f"---- {text} {'-' * (100 - len(text))}"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tede.utils.bottleneck", description="Run a program twice and report where its time goes.")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    print(run(options.script, options.arguments))


if __name__ == "__main__":
    main()
