"""tede.explain(): traces operator calls: dispatch keys, kernels, copies, memory, times.

    with tede.explain():
        train_step()

prints a summary: time and memory by operator and by line of Python, hidden copies and fallbacks, the ten largest of each. Of a dozen
calls at most, and with `details=True` of all, it prints the calls, too: for each operator the line of Python, the overload and the
dispatch keys, what autograd recorded, the kernel and the loop with its instruction set, how the iterator ran, threads, memory, views.
``with tede.explain(show=False) as e:`` keeps it: `e.steps` is the tree, `e.summary()`, `e.text()`, `e.html(path)` and
`e.chrome(path)` write it; in a notebook `e` shows itself. As a decorator it explains each call of a function. From a shell:

    python -m tede.explain [--html FILE] [--chrome FILE] [--details] [--inner] [--only TEXT] script.py [arguments ...]
"""
import functools
import os
import sys
import types


_FEW = 12                # so many calls are printed one by one


class Explanation:
    """A context manager that watches this thread's calls, not those of others; see the module's docstring.

    show: print the summary at the end, to `file` (the standard error). details: and the calls; None: where there are a dozen at most.
    inner: with the calls that operators make of others. only: of the calls those whose line or description has this text.
    alone: say so if there was nothing to report.
    """

    def __init__(self, show=True, inner=False, file=None, details=None, only="", alone=True):
        self.show, self.inner, self.file, self.details, self.only, self._alone = show, inner, file, details, only, alone
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
            text = self._printed(out.isatty() and not os.environ.get("NO_COLOR"))
            if text or self._alone:
                print(text or "no operator was called on this thread", file=out)

    def _printed(self, colours):
        if not self.steps:
            return ""
        few = len(self.steps) <= _FEW
        details = self.text(colours=colours) if self.only or self.details or (few and self.details is None) else ""
        if few and details:
            from tede._explain.summary import Summary
            return "\n".join([details, "", *Summary(self.steps, self._recorder.duration).head()])
        hint = "" if details or self.details is False else \
            "\n\nEach call: explain(details=True), explain(only='softmax'), .text(), .html(path); python -m tede.explain --html page.html"
        return self.summary(colours=colours) + (f"\n\n{details}" if details else hint)

    def __call__(self, function):
        return _within(function, lambda: Explanation(self.show, self.inner, self.file, self.details, self.only, alone=False))

    @property
    def steps(self):
        """The outermost calls, in order: `tede._explain.record.Step`s."""
        return self._recorder.steps if self._recorder else []

    def traverse(self):
        """All calls and backward nodes, from the outside in."""
        for step in self.steps:
            yield from step.traverse()

    def summary(self, rows=10, colours=False):
        """Time, memory, hidden copies and fallbacks, by operator and by line, as text; at most `rows` of each."""
        from tede._explain import summary
        elapsed = self._recorder.duration if self._recorder else 0
        return summary.text(summary.Summary(self.steps, elapsed), rows, colours)

    def text(self, inner=None, colours=False, only=None):
        """The calls, one by one. inner: with those inside of others; only: those whose line or description has this text."""
        from tede._explain.text import tree
        return tree(self.steps, self.inner if inner is None else inner, colours, self.only if only is None else only)

    def __str__(self):
        return self.summary()

    __repr__ = __str__

    def html(self, path=None, name=""):
        """Summary and calls as a page, a string; written to `path` if there is one."""
        from tede._explain.page import page
        return _written(page(self.steps, self._recorder.duration if self._recorder else 0, name), path)

    def _repr_html_(self):
        from tede._explain.page import fragment
        return fragment(self.steps, self._recorder.duration if self._recorder else 0)

    def chrome(self, path=None):
        """The calls as a Chrome trace, a string; written to `path` if there is one."""
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

    def __call__(self, function=None, *, show=True, inner=False, file=None, details=None, only=""):
        explanation = Explanation(show, inner, file, details, only)
        return explanation(function) if callable(function) else explanation


sys.modules[__name__].__class__ = _Module


def main(arguments=None):
    import argparse
    import runpy
    parser = argparse.ArgumentParser(prog="python -m tede.explain", description="Run a program and explain its calls.")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    parser.add_argument("--chrome", metavar="FILE", help="write a trace for Perfetto")
    parser.add_argument("--details", action="store_true", help="print each call, not the summary alone")
    parser.add_argument("--inner", action="store_true", help="of each call, with the calls that it made of others")
    parser.add_argument("--only", metavar="TEXT", default="", help="print the calls whose line or description has this text")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    explanation = Explanation(inner=options.inner, details=(options.details or options.inner) or None, only=options.only)
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
