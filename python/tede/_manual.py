"""What help() and inspect.signature() say of operators.

The core knows how an operator is called; what it computes is in operators.json, which codegen/manual.py makes of the entries and which
is read when somebody first asks. An operator that a program defines has its page from the function's docstring.
"""
import functools
import inspect
import json
import keyword
import re
import sys
from importlib.resources import files

from tede import _C

_PLACES = {"_C._linalg": ("linalg.", "linalg_"), "_C._fft": ("fft.", "fft_"), "_C._special": ("special.", "special_"), "_C._nn": ("nn.functional.", "")}
# Sections behind the text: their titles, and where they are in a page.
_SECTIONS = [("Returns", "returns"), ("Shape", "shape"), ("Dtypes", "dtypes"), ("Gradient", "gradient"), ("Raises", "raises"),
             ("Differences from PyTorch", "differences"), ("Example", "example")]
_RESULT = re.compile(r"\(\w!?(?: -> [\w*]*)?\)")


@functools.cache
def _pages():
    return json.loads(files("tede").joinpath("operators.json").read_text(encoding="utf-8"))


def _parameter(name, kind, default=inspect.Parameter.empty):
    return inspect.Parameter(name + "_" if keyword.iskeyword(name) else name, inspect.Parameter.POSITIONAL_ONLY if keyword.iskeyword(name) else kind,
                             default=default)


def _default(value):
    """One number for a list of equal ones, as it is written: stride=1."""
    if isinstance(value, (list, tuple)):
        return value[0] if len(set(value)) == 1 else tuple(value)
    return value


def _of_form(arguments, varargs, has_out, factory):
    """The parameters of one form of a call, by name: (how they are passed, default)."""
    P = inspect.Parameter
    found = {}
    for name, only, has_default, default in arguments:
        kind = P.VAR_POSITIONAL if name == varargs else P.KEYWORD_ONLY if only else P.POSITIONAL_OR_KEYWORD
        found[name] = kind, P.empty if kind is P.VAR_POSITIONAL or not has_default else _default(default)
    if has_out:
        found["out"] = P.KEYWORD_ONLY, None
    if factory:
        found["requires_grad"] = P.KEYWORD_ONLY, False
    return found


def _forms(op):
    """The forms in which an operator is called: [(its parameters, its schema)]; a form that writes to out= is one with that which doesn't."""
    forms = []
    for schema, varargs, n_out, factory, arguments in op._forms:
        form = _of_form(arguments, varargs, n_out, factory)
        plain = {name: given for name, given in form.items() if name not in ("out", "requires_grad")}
        for other, _ in forms:
            positional = [name for name, given in plain.items() if given[0] != inspect.Parameter.KEYWORD_ONLY]
            if n_out and plain.keys() <= other.keys() and positional == [n for n, given in other.items() if given[0] != inspect.Parameter.KEYWORD_ONLY]:
                other.setdefault("out", form["out"])
                break
            if plain == {name: given for name, given in other.items() if name not in ("out", "requires_grad")}:
                break
        else:
            forms.append((form, schema))
    return forms


def _signature_of(form):
    """A form as a signature: what follows a parameter with a default has one, too."""
    P = inspect.Parameter
    parameters = [_parameter(name, kind, default) for name, (kind, default) in form.items()]
    last = max((i for i, p in enumerate(parameters) if p.kind is P.POSITIONAL_ONLY), default=-1)
    parameters = [p.replace(kind=P.POSITIONAL_ONLY) if i < last else p for i, p in enumerate(parameters)]
    parameters.sort(key=lambda p: p.kind)
    given, out = False, []
    for p in parameters:
        optional = p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
        given = given or optional and p.default is not P.empty
        out.append(p.replace(default=None) if given and optional and p.default is P.empty else p)
    return inspect.Signature(out)


def signature(op):
    """One signature that binds the calls of all forms: the longest form's, with what others name besides by keyword. What isn't in every form
    has a default."""
    P = inspect.Parameter
    forms = [form for form, _ in _forms(op)]
    if not forms:
        return None
    if len(forms) == 1:
        return _signature_of(forms[0])
    positional = [[name for name, given in form.items() if given[0] != P.KEYWORD_ONLY] for form in forms]
    for form in forms:
        for name, (kind, default) in form.items():        # x.squeeze(1, 2), but also x.squeeze(dim=1)
            if kind is P.VAR_POSITIONAL and any(name in other and other[name][0] is not kind for other in forms):
                form[name] = P.POSITIONAL_OR_KEYWORD, default
    varies = [any(kind is P.VAR_POSITIONAL for kind, _ in form.values()) for form in forms]
    first = max(range(len(forms)), key=lambda i: (varies[i], len(positional[i]), -i))
    merged = dict(forms[first])
    for form in forms:
        for name, (_, default) in form.items():
            if name not in merged:
                merged[name] = P.KEYWORD_ONLY, None if default is P.empty else default
    for name, (kind, default) in merged.items():
        # A place that every form has needs no default, whatever it is called there; unless a keyword stands for it.
        at = positional[first].index(name) if name in positional[first] else None
        needed = kind is P.VAR_POSITIONAL or at is not None and all(len(p) > at and p[at] == name and form[name][1] is P.empty
                                                                   for p, form in zip(positional, forms))
        if not needed and default is P.empty:
            merged[name] = kind, None
    return _signature_of(merged)


def _result(schema):
    """What a schema says behind its arrow, as Python has it: "Tensor", "(values, indices)", "list of Tensors"."""
    text = _RESULT.sub("", schema[schema.rindex("->") + 2:] if not schema.endswith(")") else schema.rpartition("->")[2]).strip()
    if text == "()":
        return "None"
    if text.startswith("("):
        return "(" + ", ".join(part.split()[-1] for part in text[1:-1].split(",")) + ")"
    kind = text.split()[0].removesuffix("!")
    return {"Tensor[]": "tuple of Tensors", "Scalar": "number", "ScalarType": "dtype"}.get(kind, kind)


def _calls(op, prefix, method):
    """The lines with which a page begins, one for each form."""
    lines = []
    for form, schema in _forms(op):
        text = str(_signature_of({name: given for name, given in form.items() if not (method and name == "self")}))
        lines.append(f"{prefix}{text} -> {_result(schema)}")
    return list(dict.fromkeys(lines))


def _place(op):
    """The public name of a function."""
    for module, (place, prefix) in _PLACES.items():
        if op.__module__.endswith(module):
            return place + op.__name__.removeprefix(prefix)
    return op.__name__


def _public(name):
    """The public name of the operator `name`."""
    op = _C._operators.get(name)
    for place, prefix in _PLACES.values():
        if prefix and name.startswith(prefix):
            return "tede." + place + name[len(prefix):]
    return f"tede.{name}" if op is None or name in _C._functions else "tede.nn.functional." + name if hasattr(_C._nn, name) else f"Tensor.{name}"


def _sections(op, page):
    """Arguments and what follows: (title, text)."""
    taken = {name for form, _ in _forms(op) for name in form}
    taken = taken - {"self"} | ({"self"} if "input" in taken and "self" not in taken else set())
    spelled = {name: other for name, other in page.get("spelled", {}).items() if name not in taken}
    lines = [line.replace(name, spelled.get(name, name), 1) for name, line in page["arguments"] if spelled.get(name, name) in taken]
    return [("Arguments", "\n".join(lines))] * bool(lines) + [(title, page[field]) for title, field in _SECTIONS if field in page]


def _as_input(text):
    """The operand of functions is called input."""
    return re.sub(r"(?<![\w.])([Ss])elf\b", lambda word: "input" if word[1] == "s" else "Input", text)


def _defined(op):
    """The docstring of an operator that a program defined, else its line in the table."""
    library = sys.modules.get("tede.library")
    custom = library._custom.get(op._full_name) if library is not None else None
    return inspect.cleandoc(custom.__doc__ or "") if custom is not None else op._line


def sections(op):
    """The manual page of an operator's function or method as (title, text): how it is called, the text, both without titles, and the rest."""
    method, name = type(op) is type(_C.Tensor.add), op.__name__
    pages, notes = _pages(), []
    ours = op._full_name.startswith("aten::")
    own = found = pages.get(name, {"of": name[:-1], "in_place": True} if name.endswith("_") and name[:-1] in pages else None) if ours else None
    while found is not None and "of" in found:
        other = f"``{_public(found['of'])}``"
        notes.append(f"The in-place form of {other}: the result is written into ``self``, which is returned." if "in_place" in found else
                     f"{other}: {found['line']}" if "line" in found else f"Another name of {other}.")
        found = pages.get(found["of"])
    if method and own is found and found is not None and name in _C._functions:
        notes.append(f"The method of ``tede.{name}``: ``self`` is its ``input``.")
    parts = [("", "\n".join(_calls(op, f"Tensor.{name}" if method else _place(op), method)))]
    if found is not None:
        parts += [("", "\n\n".join([found["text"], *notes] if own is found else [*notes, found["text"]])), *_sections(op, found)]
        if not method:
            parts[1:] = [(title, text if title == "Example" else _as_input(text)) for title, text in parts[1:]]
    else:
        parts.append(("", _defined(op)))
    return [*parts, ("Overloads", "\n".join("    " + schema for schema in op.schemas if ".deprecated" not in schema.partition("(")[0]))]


def page(op):
    """The manual page of an operator's function or method as text."""
    return "\n\n".join((f"{title}:\n" if title else "") + text for title, text in sections(op) if text.strip())
