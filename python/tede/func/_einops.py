"""rearrange: dimensions reordered, split, joined, added and removed, said by a pattern such as "b (h w) c -> b c h w"."""
import keyword
import math
import warnings

from tede import stack

_ellipsis = "\u2026"         # an axis like any other while a pattern is read


class AnonymousAxis:
    """An axis that has a length in place of a name. Two of them aren't the same, whatever their lengths."""

    def __init__(self, value):
        self.value = int(value)
        if self.value < 1:
            raise ValueError(f"Anonymous axis should have positive length, not {self.value}")

    def __repr__(self):
        return f"{self.value}-axis"


class ParsedExpression:
    """One side of a pattern: `composition` has a list of axes for each dimension ([] where its length is 1), or the ellipsis."""

    def __init__(self, expression, *, allow_underscore=False, allow_duplicates=False):
        self.has_ellipsis = self.has_ellipsis_parenthesized = self.has_non_unitary_anonymous_axes = False
        self.identifiers, self.composition = set(), []
        self._underscore, self._duplicates = allow_underscore, allow_duplicates
        if "." in expression:
            if expression.count("...") != 1 or expression.count(".") != 3:
                raise ValueError("Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor")
            expression = expression.replace("...", _ellipsis)
            self.has_ellipsis = True
        group = None
        for word in expression.replace("(", " ( ").replace(")", " ) ").split():
            if word == "(":
                if group is not None:
                    raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
                group = []
            elif word == ")":
                if group is None:
                    raise ValueError("Brackets are not balanced")
                self.composition.append(group)
                group = None
            else:
                self._add(word, group)
        if group is not None:
            raise ValueError(f"Imbalanced parentheses in expression: '{expression}'")

    def _add(self, word, group):
        if word == _ellipsis:
            self.has_ellipsis_parenthesized = group is not None
            axis = _ellipsis
        elif word.isdecimal() and word != "1":
            axis = AnonymousAxis(word)
            self.has_non_unitary_anonymous_axes = True
        elif word == "1":
            if group is None:
                self.composition.append([])
            return
        else:
            valid, reason = self.check_axis_name_return_reason(word, self._underscore)
            if not valid:
                raise ValueError(f"Invalid axis identifier: {word}\n{reason}")
            axis = word
        if axis in self.identifiers and not (axis == "_" and self._underscore) and not self._duplicates:
            raise ValueError(f"Indexing expression contains duplicate dimension '{axis}'")
        self.identifiers.add(axis)
        if group is not None:
            group.append(axis)
        else:
            self.composition.append(axis if axis == _ellipsis else [axis])

    @staticmethod
    def check_axis_name_return_reason(name, allow_underscore=False):
        """(whether an axis may have this name, why not)"""
        if not name.isidentifier():
            return False, "not a valid python identifier"
        if name[0] == "_" or name[-1] == "_":
            return (True, "") if name == "_" and allow_underscore else (False, "axis name should not start or end with underscore")
        if keyword.iskeyword(name):
            warnings.warn(f"It is discouraged to use axes names that are keywords: {name}", RuntimeWarning, stacklevel=2)
        if name == "axis":
            warnings.warn("It is discouraged to use 'axis' as an axis name and will raise an error in future", FutureWarning, stacklevel=2)
        return True, ""

    @staticmethod
    def check_axis_name(name):
        """Whether an axis may have this name."""
        return ParsedExpression.check_axis_name_return_reason(name)[0]


def parse_pattern(pattern, axes_lengths):
    """The two sides of a pattern."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain the '->' separator and exactly one left and right side" if len(sides) < 2 else
                         f"Pattern has {len(sides) - 1} arrows, and one is needed: '{pattern}'")
    if _ellipsis in axes_lengths:
        raise ValueError(f"'{_ellipsis}' is not an allowed axis identifier")
    left, right = map(ParsedExpression, sides)
    if not left.has_ellipsis and right.has_ellipsis:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if left.has_ellipsis_parenthesized:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    return left, right


def validate_rearrange_expressions(left, right, axes_lengths):
    """Raise where the sides don't have the same axes, or lengths are given of others."""
    for length in axes_lengths.values():
        if type(length) is not int:
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if left.has_non_unitary_anonymous_axes or right.has_non_unitary_anonymous_axes:
        raise ValueError("rearrange only supports unnamed axes of size 1")
    difference = left.identifiers ^ right.identifiers
    if difference:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {difference}")
    unknown = axes_lengths.keys() - left.identifiers
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def _lengths(group, size, known, pattern):
    """The lengths of the axes in one dimension; one of them may be left to be computed."""
    missing = [axis for axis in group if axis not in known]
    product = math.prod(known[axis] for axis in group if axis in known)
    if len(missing) > 1:
        raise ValueError(f"Could not infer the lengths of {missing} in '{pattern}': one of the axes in brackets may be left out")
    if missing:
        if product == 0 or size % product:
            raise ValueError(f"Shape mismatch in '{pattern}': {size} isn't divisible by {product}")
        known[missing[0]] = size // product
    elif product != size:
        raise ValueError(f"Shape mismatch in '{pattern}': {product} != {size}")


def rearrange(tensor, pattern, **axes_lengths):
    """A tensor with its dimensions as a pattern says.

    Each side of the pattern names dimensions, from the first to the last: `(a b)` is one that is made of two, `1` one of length 1, `...` all
    that aren't named. A length that doesn't follow from the tensor is given by name. The result is a view where it can be.

        rearrange(images, "b c h w -> b (c h w)")
        rearrange(x, "b (h w) c -> b c h w", h=4)

    tensor: a tensor, or a list of them, which are stacked first. Raises ValueError where pattern and shape don't go together."""
    if not hasattr(tensor, "dim"):
        tensor = stack(list(tensor))
    left, right = parse_pattern(pattern, axes_lengths)
    validate_rearrange_expressions(left, right, axes_lengths)
    others = tensor.dim() - len(left.composition) + left.has_ellipsis
    if others < 0 or others > 0 and not left.has_ellipsis:
        raise ValueError(f"Number of dimensions in pattern ({len(left.composition)}) and tensor ({tensor.dim()}) must be equal unless "
                         f"there is an ellipsis: '{pattern}'")
    unnamed, known = [(_ellipsis, i) for i in range(others)], dict(axes_lengths)
    groups = [group for one in left.composition for group in ([[axis] for axis in unnamed] if one == _ellipsis else [one])]
    for group, size in zip(groups, tensor.shape):
        _lengths(group, size, known, pattern)
    axes = [axis for group in groups for axis in group]
    made = []
    for one in right.composition:
        made += [[axis] for axis in unnamed] if one == _ellipsis else [[x for axis in one for x in (unnamed if axis == _ellipsis else [axis])]]
    parts = tensor.reshape([known[axis] for axis in axes])
    ordered = parts.permute([axes.index(axis) for group in made for axis in group])
    return ordered.reshape([math.prod(known[axis] for axis in group) for group in made])
