"""Tracebacks: stacks that are kept as they are and formatted when somebody looks; lines of code compiled from strings."""
import contextlib
import os
import tempfile
import traceback
from types import CodeType, TracebackType


def gather_traceback(python=True, script=True, cpp=True):
    """The stack of the caller, as (code, line) pairs, innermost first; there are only Python's frames."""
    import sys
    stack, frame = [], sys._getframe(1)
    while python and frame is not None:
        stack.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return stack


def symbolize_tracebacks(tracebacks):
    """Stacks as lists of {"filename", "line", "name"}."""
    return [[{"filename": code.co_filename, "line": line, "name": code.co_name} for code, line in stack] for stack in tracebacks]


class CapturedTraceback:
    """A stack that costs little to take: it is formatted when it is looked at."""
    __slots__ = ["tb", "skip"]

    def __init__(self, tb, skip=0):
        self.tb, self.skip = tb, skip

    @staticmethod
    def extract(*, script=False, cpp=False, skip=0):
        """The caller's stack, without its innermost `skip` frames."""
        return CapturedTraceback(gather_traceback(script=script, cpp=cpp), skip + 1)

    def cleanup(self):
        """Forget the stack."""
        self.tb = None

    def summary(self):
        """As a traceback.StackSummary, outermost frame first."""
        if self.tb is None:
            return traceback.StackSummary()
        return _extract_symbolized_tb(symbolize_tracebacks([self.tb])[0], self.skip)

    def format(self):
        return traceback.format_list(self.summary())

    @staticmethod
    def format_all(tbs):
        return [tb.format() for tb in tbs]

    def __getstate__(self):
        return None, {"tb": None, "skip": self.skip}


def _extract_symbolized_tb(tb, skip):
    summary = traceback.StackSummary()
    summary.extend(traceback.FrameSummary(frame["filename"], frame["line"], frame["name"]) for frame in reversed(tb[skip:]))
    return summary


def shorten_filename(fn, *, base=None):
    """The path below the package's folder."""
    base = base or os.path.dirname(os.path.dirname(__file__))
    try:
        prefix = os.path.commonpath([fn, base])
    except ValueError:
        return fn
    return fn[len(prefix) + 1:]


def format_frame(frame, *, base=None, line=False):
    """"folder/file.py:3 in name" for a traceback.FrameSummary."""
    return f"{frame.line + '  # ' if line else ''}{shorten_filename(frame.filename, base=base)}:{frame.lineno} in {frame.name}"


def format_traceback_short(tb):
    """The innermost frame of a traceback in one line."""
    return format_frame(traceback.extract_tb(tb)[-1])


def _standing_in(tb, path):
    """A traceback entry like `tb`, whose code says that it comes from a file.

    Frames can't be made from Python, so this one is that of an expression, renamed to what stood there. It keeps its own table of lines: the
    interpreter takes for granted that one fits its code. The line is the entry's; the place within it isn't known."""
    old = tb.tb_frame.f_code
    code: CodeType = compile("_here()", path, "eval")
    code = code.replace(co_name=old.co_name, co_firstlineno=old.co_firstlineno)
    import inspect
    frame = eval(code, tb.tb_frame.f_globals, {**tb.tb_frame.f_locals, "_here": inspect.currentframe})
    return TracebackType(None, frame, -1, tb.tb_lineno)


@contextlib.contextmanager
def report_compile_source_on_error():
    """Within, an error in code compiled from a string shows the string's lines: `__compile_source__` in the code's globals."""
    try:
        yield
    except Exception as error:
        entries, tb = [], error.__traceback__
        while tb is not None:
            source = tb.tb_frame.f_globals.get("__compile_source__")
            if tb.tb_frame.f_code.co_filename == "<string>" and source is not None:
                with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:     # read when the error is shown
                    f.write(source)
                entries.append(_standing_in(tb, f.name))
            else:
                entries.append(tb)
            tb = tb.tb_next
        following = None
        for entry in reversed(entries):
            entry.tb_next = following
            following = entry
        raise error.with_traceback(following)       # noqa: B904  it is the same error
