"""Schemas of operators, read from their text: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"."""
import itertools
import re

import tede
from tede._schema_types import DictType, ListType, TupleType, WORDS, parse


class AliasInfo:
    def __init__(self, before, after, is_write):
        self.before_set, self.after_set, self.is_write = set(before), set(after), is_write

    def __eq__(self, other):
        return isinstance(other, AliasInfo) and vars(self) == vars(other)

    __hash__ = None


_MISSING = object()
# What a dtype is in a schema: its number in PyTorch's enumeration.
_SCALAR_TYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128", "bool",
                 "qint8", "quint8", "qint32", "bfloat16")


def _default(text, kind):
    text = text.strip()
    if text == "None":
        return None
    if text in ("True", "False"):
        return text == "True"
    if text[0] in "\"'":
        return tede.device(text[1:-1]) if kind == "Device" else text[1:-1]
    if kind == "ScalarType" and text in _SCALAR_TYPES:
        return _SCALAR_TYPES.index(text)
    if text[0] == "[":
        inner = text[1:-1].strip()
        return [_default(part, kind) for part in inner.split(",")] if inner else []
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _number_writes(text):
    """The schema with its bare marks, "Tensor!", as the fresh alias sets that they stand for: "Tensor($0! -> )"."""
    count = itertools.count()
    return re.sub(rf"\b({'|'.join(WORDS)})(\[\d*\])?\s*!\s*(?=\[)?", lambda match: f"{match[1]}{match[2] or ''}(${next(count)}! -> )"
                  + ("" if match.string[match.end():match.end() + 1] in ("?", "[", ",", ")", "") else " "), text)


class Argument:
    def __init__(self, text, kwarg_only):
        match = re.match(r"\s*([\w.]+)(\(([^)]*)\))?((?:\?|\[\d*\])*)(?:\(([^)]*)\))?\s*(\w+)?\s*(?:=\s*(.*))?$", text, re.S)
        if match is None:
            raise RuntimeError(f"not an argument of a schema: {text!r}")
        base, _, alias, suffix, of_list, name, default = match.groups()
        alias = alias if of_list is None else of_list
        self.name = name or ""
        self.type = self.real_type = parse(base + suffix)
        self._type_text = base + re.sub(r"\d", "", suffix)
        size = re.search(r"\[(\d+)\]", suffix)
        self.N = int(size.group(1)) if size else None
        self.kwarg_only = kwarg_only
        self.alias_info = None
        if alias is not None:
            before, _, after = alias.partition("->")
            sets = [s.strip(" !").split("|") for s in (before, after if "->" in alias else before)]
            self.alias_info = AliasInfo(*[[x.strip() for x in s if x.strip()] for s in sets], "!" in alias)
        self._default = _MISSING if default is None else _default(default, base)
        if self.N and isinstance(self._default, (int, float)) and default.strip() != "None":        # one number for all of int[2]
            self._default = [self._default] * self.N
        self.is_out = kwarg_only and self.alias_info is not None and self.alias_info.is_write

    @property
    def default_value(self):
        return None if self._default is _MISSING else self._default

    def has_default_value(self):
        return self._default is not _MISSING

    is_write = property(lambda self: self.alias_info is not None and self.alias_info.is_write)

    def _takes(self, old):
        """Whether all that may be passed for `old` may be for this one, and its results stand for those of `old`."""
        return (self.name == old.name and self.N == old.N and self.alias_info == old.alias_info
                and (old.kwarg_only or not self.kwarg_only) and (not old.has_default_value() or self._has_default_of(old)))

    def _has_default_of(self, other):
        return self.has_default_value() == other.has_default_value() and self.default_value == other.default_value

    def _is_like(self, old):
        return self._takes(old) and self.type == old.type and self._has_default_of(old)


def _split(text):
    """At commas that are in no brackets and no quotes."""
    parts, depth, start, quote = [], 0, 0, None
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _closing(text):
    """What stands before the bracket that closes the arguments, and what behind its arrow."""
    masked = re.sub(r"\([^()]*\)", lambda alias: "-" * len(alias[0]), text)        # alias sets have brackets and arrows, too
    end = masked.index(")")
    arrow = masked.find("->", end)
    return text[:end], text[arrow + 2:] if arrow >= 0 else None


class FunctionSchema:
    def __init__(self, namespace, text):
        if "!" in text:
            text = _number_writes(text)
        self._text = f"{namespace}::{text}" if namespace else text
        head, rest = text.split("(", 1)
        name, _, self.overload_name = head.partition(".")
        self.name = f"{namespace}::{name}" if namespace else name
        arguments, results = _closing(rest)
        self.arguments, only = [], False
        self.is_vararg = self.is_varret = False
        for part in _split(arguments):
            if part == "*":
                only = True
            elif part == "...":
                self.is_vararg = True
            else:
                self.arguments.append(Argument(part, only))
        if self.is_vararg and any(a.has_default_value() for a in self.arguments):
            raise RuntimeError(f"schemas with vararg (...) can't have default value args: {self._text}")
        if results is None:
            raise RuntimeError(f"expected arrow '->' and results behind the arguments of {self._text}")
        results = results.strip()
        if results.startswith("("):
            results = results[1:-1]
        self.returns = [Argument(part, False) for part in _split(results)]

    @property
    def is_mutable(self):
        return any(a.is_write for a in self.arguments)

    def _beside(self, old):
        """Pairs of arguments that aren't and that are out=, and those that came to both; None if these are other operators."""
        same = all(getattr(self, name) == getattr(old, name) for name in ("name", "overload_name", "is_vararg", "is_varret"))
        if not same or len(self.returns) != len(old.returns):
            return None
        ours, theirs = ([[a for a in schema.arguments if a.is_out == out] for out in (False, True)] for schema in (self, old))
        return [(list(zip(new, before)), len(new) - len(before), new[len(before):]) for new, before in zip(ours, theirs)]

    def is_backward_compatible_with(self, old_schema):
        """Whether calls that were written for `old_schema` run with this one."""
        beside = self._beside(old_schema)
        if beside is None or not all(new._takes(old) and new.type.isSubtypeOf(old.type) for new, old in zip(self.returns, old_schema.returns)):
            return False
        (pairs, more, added), (outs, more_outs, _) = beside
        return (more >= 0 and more_outs >= 0 and all(a.has_default_value() for a in added)
                and all(new._takes(old) and old.type.isSubtypeOf(new.type) for new, old in pairs + outs))

    def check_forward_compatible_with(self, old_schema):
        """Whether calls that are written for this one run with `old_schema`, as far as defaults are left out; and why not."""
        beside = self._beside(old_schema)
        if beside is None:
            return False, ""
        (pairs, _, added), (outs, more_outs, _) = beside
        for new, old in pairs:
            if not new._is_like(old):
                return False, f"'{new.name}' is not forward compatible with the older version of the schema"
        for new in added:
            about = f"Function schema is not forward compatible since the new argument '{new.name}' of type {new._type_text}"
            if not new.has_default_value():
                return False, f"{about} did not provide a default value."
            if isinstance(new.type, (ListType, DictType, TupleType)):
                return False, f"{about} has a container type as its default value."
        if more_outs:
            return False, "Function schema should have the same number of out arguments"
        for new, old in outs:
            if not new._is_like(old):
                return False, f"Out argument '{new.name}' is not FC with the older version of the schema"
        return True, ""

    def __str__(self):
        return self._text

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self):
        return hash(self._text)


def parse_schema(text):
    namespace, sep, rest = text.partition("::")
    if not sep or "(" in namespace:
        return FunctionSchema("", text)
    return FunctionSchema(namespace, rest)
