"""@compatibility: the mark by which torch.fx says which of its names stay as they are: programs put it on functions of their own, too."""
import textwrap

_BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY = {}, {}
_NOTES = {True: ".. note::\n    Backwards-compatibility for this API is guaranteed.",
          False: ".. warning::\n    This API is experimental and is *NOT* backward-compatible."}


def compatibility(is_backward_compatible):
    """A decorator that says so in the docstring."""
    def mark(fn):
        fn.__doc__ = textwrap.dedent(getattr(fn, "__doc__", None) or "") + f"\n\n{_NOTES[bool(is_backward_compatible)]}\n"
        _MARKED_WITH_COMPATIBILITY.setdefault(fn)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(fn)
        return fn
    return mark
