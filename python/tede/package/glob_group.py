"""Patterns of dotted names (or of paths)."""
import re

__all__ = ["GlobGroup"]


class GlobGroup:
    """What matches one of the patterns in `include` and none in `exclude`. In a pattern, ``*`` stands for any characters within a part of a name, and a part
    ``**`` for any number of parts, none among them: "torch.**" is torch and all below it."""

    def __init__(self, include, *, exclude=(), separator="."):
        self.separator = separator
        self.include, self.exclude = ([self._expression(pattern) for pattern in ((patterns,) if isinstance(patterns, str) else patterns)]
                                      for patterns in (include, exclude))
        self._shown = f"GlobGroup(include={include}, exclude={exclude})"

    def __repr__(self):
        return self._shown

    __str__ = __repr__

    def matches(self, candidate):
        candidate = self.separator + candidate
        return (any(pattern.fullmatch(candidate) for pattern in self.include)
                and not any(pattern.fullmatch(candidate) for pattern in self.exclude))

    def _expression(self, pattern):
        """A pattern as a regular expression, in which each part follows a separator."""
        sep = re.escape(self.separator)
        within = f"[^{sep}]"

        def part(text):
            if text == "**":
                return f"(?:{sep}{within}+)*"
            if "**" in text:
                raise ValueError(f"** can only appear as an entire path segment, which it isn't in '{pattern}'")
            return sep + f"{within}*".join(map(re.escape, text.split("*")))
        return re.compile("".join(map(part, pattern.split(self.separator))))
