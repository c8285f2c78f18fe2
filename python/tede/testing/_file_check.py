"""FileCheck: whether a text holds what is expected, in order.  The checks and their names are those of LLVM's tool of that name
(https://llvm.org/docs/CommandGuide/FileCheck.html), which PyTorch has as a class."""
import re

_COMMENT = re.compile(r"#\s*CHECK(?:-(NEXT|SAME|NOT|DAG|REGEX|SOURCE-HIGHLIGHTED|COUNT(?:-EXACTLY)?-(\d+)))?:[ \t]*(.*)")


class _Check:
    def __init__(self, kind, text, count=1):
        self.kind, self.text, self.count = kind, text, count

    def __str__(self):
        name = "CHECK" + ("-" + self.kind if self.kind else "") + (f"-{self.count}" if self.kind.startswith("COUNT") else "")
        return f"{name}: {self.text}"

    def find(self, text, start, stop=None):
        """(first, last) of the next place at or behind `start`, or None."""
        stop = len(text) if stop is None else stop
        if self.kind == "REGEX":
            found = re.compile(self.text).search(text, start, stop)
            return found and found.span()
        at = text.find(self.text, start, stop)
        return None if at < 0 else (at, at + len(self.text))

    def need(self, text, start):
        place = self.find(text, start)
        if place is None:
            what = "regex " if self.kind == "REGEX" else ""
            self.fail(f'Expected to find {what}"{self.text}" but did not find it', f"Searched string:\n{text[start:]}")
        return place

    def refuse(self, text, start, stop):
        place = self.find(text, start, stop)
        if place is not None:
            self.fail(f'Expected to not find "{self.text}" but found it', _pointing_at(text, place))

    def fail(self, what, where):
        raise RuntimeError(f"{what}\n{where}\nFrom {self}\n")


def _pointing_at(text, place):
    """The text with a mark below the place."""
    begin = text.rfind("\n", 0, place[0]) + 1
    end = text.find("\n", place[0])
    end = len(text) if end < 0 else end
    mark = " " * (place[0] - begin) + "~" * max(min(place[1], end) - place[0], 1)
    return f"{text[:end]}\n{mark} <--- HERE{text[end:]}"


class FileCheck:
    """Checks of a text, made one by one and run together: ``FileCheck().check("mul").check_not("add").run(text)``.

    Each positive check begins where the one before ended; a negative one holds for what lies between its neighbours. A check
    that fails is a RuntimeError that shows the place."""

    def __init__(self):
        self._checks = []
        self._has_run = False

    def _add(self, kind, text, count=1):
        self._checks.append(_Check(kind, text, count))
        return self

    def check(self, test_string):
        """`test_string` comes next."""
        return self._add("", test_string)

    def check_not(self, test_string):
        """It doesn't come between the checks around this one."""
        return self._add("NOT", test_string)

    def check_same(self, test_string):
        """It comes next, on the line where the check before ended."""
        return self._add("SAME", test_string)

    def check_next(self, test_string):
        """It comes next, on the line behind that where the check before ended."""
        return self._add("NEXT", test_string)

    def check_count(self, test_string, count, exactly=False):
        """It comes `count` times; `exactly`: and not once more before what the next check finds."""
        self._add("COUNT", test_string, count)
        return self._add("NOT", test_string) if exactly else self

    def check_dag(self, test_string):
        """It comes, in any order with the other such checks beside this one."""
        return self._add("DAG", test_string)

    def check_regex(self, test_string):
        """What the regular expression matches comes next."""
        return self._add("REGEX", test_string)

    def check_source_highlighted(self, test_string):
        """It comes, with ``~~~`` of its length below it."""
        return self._add("SOURCE-HIGHLIGHTED", test_string)

    def run(self, test_string, test_file=None):
        """Run the checks on a text; with two texts, those that stand in comments of the first (``# CHECK: ...``) on the second."""
        text = test_string
        if test_file is not None:
            text = test_file
            for kind, count, what in _COMMENT.findall(test_string):
                name = re.sub(r"-\d+$", "", kind)
                self._add("COUNT" if name.startswith("COUNT") else name, what.rstrip(), int(count or 1))
                if name == "COUNT-EXACTLY":
                    self._add("NOT", what.rstrip())
        self._has_run = True
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance of FileCheck! Check for bad input.")
        start, refused, i = 0, [], 0
        while i < len(self._checks):
            check = self._checks[i]
            if check.kind == "NOT":
                refused.append(check)
                i += 1
                continue
            group = [check]
            while check.kind == "DAG" and i + len(group) < len(self._checks) and self._checks[i + len(group)].kind == "DAG":
                group.append(self._checks[i + len(group)])
            first, last = self._place(group, text, start)
            for other in refused:
                other.refuse(text, start, first)
            start, refused, i = last, [], i + len(group)
        for other in refused:
            other.refuse(text, start, len(text))

    def _place(self, group, text, start):
        """Where a group of checks is met, from the first character to the last."""
        check = group[0]
        if check.kind == "DAG":
            places = [member.need(text, start) for member in group]
            return min(first for first, _ in places), max(last for _, last in places)
        if check.kind == "COUNT":
            first = last = None
            for _ in range(check.count):
                place = check.need(text, start if last is None else last)
                first, last = place[0] if first is None else first, place[1]
            return (start, start) if first is None else (first, last)
        if check.kind == "SOURCE-HIGHLIGHTED":
            return self._highlighted(check, text, start)
        place = check.need(text, start)
        lines = text.count("\n", start, place[0])
        if (check.kind == "SAME" and lines) or (check.kind == "NEXT" and lines != 1):
            line = "the same" if check.kind == "SAME" else "the next"
            check.fail(f'Expected to find "{check.text}" on {line} line but it is {lines} lines further', _pointing_at(text, place))
        return place

    def _highlighted(self, check, text, start):
        place = first = check.need(text, start)
        while place is not None:
            begin = text.rfind("\n", 0, place[0]) + 1
            below = text[place[1]:].partition("\n")[2].partition("\n")[0]
            if below[place[0] - begin:place[1] - begin] == "~" * len(check.text):
                return place
            place = check.find(text, place[1])
        check.fail(f'Expected to find "{check.text}" highlighted but it is not.', _pointing_at(text, first))

    def __repr__(self):
        lines = [super().__repr__()] + ([] if self._has_run else ["You have not run this instance of FileCheck!"])
        return "\n".join([*lines, "FileCheck checks:", *(f"\t{check}" for check in self._checks)])
