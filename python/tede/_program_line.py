"""Where a program is: the function of tensors that it calls, and the line."""
import linecache
import os
import sys

from tede.overrides import resolve_name

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_line():
    """(file, line, its text) of the innermost frame that isn't of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    if frame is None:
        return "?", 0, ""
    file, line = frame.f_code.co_filename, frame.f_lineno
    return file, line, linecache.getline(file, line).strip()


def raised_in(error):
    """The same of where an exception came from."""
    found, at = ("?", 0, ""), error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_HERE):
            found = file, at.tb_lineno, linecache.getline(file, at.tb_lineno).strip()
        at = at.tb_next
    return found


def name_of(func):
    return resolve_name(func) or getattr(func, "__qualname__", str(func))


def ended_by(name, where):
    file, line, text = where
    return f"{name} needs values before the function returns, or can't be recorded: {file}:{line}: {text}"
