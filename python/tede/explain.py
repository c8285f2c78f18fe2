"""tede.explain(): traces operator calls: dispatch keys, kernels, copies, memory, times.

    with tede.explain():
        y = x.t() + 1

prints for each operator the line of Python, the overload and the dispatch keys, what autograd recorded, the kernel and the
loop with its instruction set, how the iterator ran, threads, memory, views, and hidden copies.
``with tede.explain(show=False) as e:`` keeps it: `e.steps` is the tree, `e.text()`, `e.html(path)` and
`e.chrome(path)` write it. As a decorator it explains each call of a function. From a shell:

    python -m tede.explain [--html FILE] [--chrome FILE] [--inner] script.py [arguments ...]
"""
import functools
import os
import sys
import types


class Explanation:
    """A context manager that watches this thread's calls, not those of others; see the module's docstring.

    show: print the tree at the end, to `file` (the standard error). inner: with the calls that operators make of others.
    alone: say so if there was nothing to report.
    """

    def __init__(self, show=True, inner=False, file=None, alone=True):
        self.show, self.inner, self.file, self._alone = show, inner, file, alone
        self._recorder = None

    def __enter__(self):
        from tede._explain.record import Recorder
        self._recorder = Recorder()
        self._recorder.start()
        return self

    def __exit__(self, *error):
        self._recorder.stop()
        if self.show:
            out = self.file or sys.stderr
            text = self.text(colours=out.isatty() and not os.environ.get("NO_COLOR"))
            if text or self._alone:
                print(text or "no operator was called on this thread", file=out)

    def __call__(self, function):
        return _within(function, lambda: Explanation(self.show, self.inner, self.file, alone=False))

    @property
    def steps(self):
        """The outermost calls, in order: `tede._explain.record.Step`s."""
        return self._recorder.steps if self._recorder else []

    def traverse(self):
        """All calls and backward nodes, from the outside in."""
        for step in self.steps:
            yield from step.traverse()

    def text(self, inner=None, colours=False):
        from tede._explain.text import tree
        return tree(self.steps, self.inner if inner is None else inner, colours)

    def html(self, path=None, name=""):
        """The tree as a page, a string; written to `path` if there is one."""
        from tede._explain.page import page
        return _written(page(self.steps, name), path)

    def chrome(self, path=None):
        """The tree as a Chrome trace, a string; written to `path` if there is one."""
        from tede._explain.chrome import trace
        return _written(trace(self.steps, self._recorder.began if self._recorder else 0), path)


class strict_views:
    """A context (and decorator) in which hidden copies are errors that say what doesn't fit: a reshape that can't be a view,
    an operand that a kernel would have to copy. Explicit copies, .contiguous(), .clone(), .to(), are as always."""

    def __enter__(self):
        from tede import _C
        self._before = _C._set_strict_views(True)

    def __exit__(self, *error):
        from tede import _C
        _C._set_strict_views(self._before)

    def __call__(self, function):
        return _within(function, strict_views)


def _within(function, context):
    """A function that runs in a separate context; a generator, each of its steps."""
    import inspect

    @functools.wraps(function)
    def called(*args, **kwargs):
        with context():
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def awaited(*args, **kwargs):
        with context():
            return await function(*args, **kwargs)

    @functools.wraps(function)
    def stepped(*args, **kwargs):
        generator = function(*args, **kwargs)
        go_on = functools.partial(next, generator)
        try:
            while True:
                with context():
                    value = go_on()
                try:
                    go_on = functools.partial(generator.send, (yield value))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    go_on = functools.partial(generator.throw, error)
        except StopIteration as end:
            return end.value
        finally:
            generator.close()
    return stepped if inspect.isgeneratorfunction(function) else awaited if inspect.iscoroutinefunction(function) else called


def _written(text, path):
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


class _Module(types.ModuleType):
    """The module is the function too: ``tede.explain`` is both what one calls and what ``python -m`` runs."""

    def __call__(self, function=None, *, show=True, inner=False, file=None):
        explanation = Explanation(show, inner, file)
        return explanation(function) if callable(function) else explanation


sys.modules[__name__].__class__ = _Module


def main(arguments=None):
    import argparse
    import runpy
    parser = argparse.ArgumentParser(prog="python -m tede.explain", description="Run a program and explain its calls.")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    parser.add_argument("--chrome", metavar="FILE", help="write a trace for Perfetto")
    parser.add_argument("--inner", action="store_true", help="with the calls that operators make of others")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    explanation = Explanation(show=not (options.html or options.chrome), inner=options.inner)
    try:
        with explanation:
            runpy.run_path(options.script, run_name="__main__")
    finally:
        if options.html:
            explanation.html(options.html, os.path.basename(options.script))
        if options.chrome:
            explanation.chrome(options.chrome)


if __name__ == "__main__":
    main()
