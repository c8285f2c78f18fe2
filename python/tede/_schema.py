"""Schemas of operators, read from their text: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"."""
import itertools
import re

import tede
from tede._schema_types import WORDS, parse


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
    return text[:end], text[masked.index("->", end) + 2:]


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
        for part in _split(arguments):
            if part == "*":
                only = True
            else:
                self.arguments.append(Argument(part, only))
        results = results.strip()
        if results.startswith("("):
            results = results[1:-1]
        self.returns = [Argument(part, False) for part in _split(results)]
        self.is_vararg = self.is_varret = False

    @property
    def is_mutable(self):
        return any(a.is_write for a in self.arguments)

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
