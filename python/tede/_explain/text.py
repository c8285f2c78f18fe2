"""tede.explain's output as text: a recorded tree of calls, line by line."""
import os

from tede import _C
from tede._explain.record import TensorRecord, why_apart, why_copied, why_overload


def size(nbytes):
    """Bytes with a unit: 512 B, 1.5 KiB."""
    for unit in ("B", "KiB", "MiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes == int(nbytes) else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"


def duration(nanoseconds):
    for unit, scale in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
        if nanoseconds < 1000 * scale:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds / 1e9:.3g} s"


def value(v):
    """An argument or result: float32[2, 3], with its strides where they aren't the usual ones."""
    if isinstance(v, TensorRecord):
        text = f"{str(v.dtype).rpartition('.')[2]}{list(v.shape)}"
        if not v.storage and v.shape and not any(v.strides):
            return text + " sparse"
        usual, step = [], 1
        for n in reversed(v.shape):
            usual.insert(0, step)
            step *= max(n, 1)
        if any(s != u and n > 1 for s, u, n in zip(v.strides, usual, v.shape)):
            text += f" strides {list(v.strides)}"
        return text if str(v.device) == "cpu" else f"{text} {v.device}"
    if isinstance(v, list):
        return "[" + ", ".join(value(item) for item in v) + "]"
    return repr(v)


def notes(step):
    """What there is to say of a step, as (kind, text) pairs; the kinds "copy" and "fail" are worth marking."""
    if step.kind == "node":
        yield "node", f"on thread {step.thread[1]}" + \
            (f", released {step.released} saved tensor{'s' * (step.released != 1)}" if step.released else "")
        if step.allocated or step.freed:
            yield "memory", f"{size(step.allocated)} allocated" + (f", {size(step.freed)} freed" if step.freed else "")
        yield from _time(step)
        return
    chosen = why_overload(step)
    if chosen:
        yield "overload", chosen
    yield "keys", f"{' '.join(step.keys)}, taken: {step.keys[0]}" if step.keys else "none, as no argument is a tensor"
    node = next((v.node for v in step.results if isinstance(v, TensorRecord) and v.node), None)
    if node and "Autograd" in step.keys:
        yield "autograd", f"recorded as {node}"
    for where, x in step.saved:
        yield "saved", f"{where} keeps {value(x)}, {size(x.nbytes)}"
    if step.kernel:
        yield "kernel", step.kernel
    for why, nbytes in step.fallbacks:
        yield "fallback", f"fell back to the CPU: {why}; {size(nbytes)} copied there"
    formula = _formula(step)
    if formula:
        yield "formula", formula
    for name, isa in step.loops:
        yield "loop", f"{name or 'loop'} (x86-64-{isa})"
    for sizes, strides, operands, before in step.iterations:
        text = f"{operands} operands over {' x '.join(map(str, reversed(sizes)))}"
        if before != len(sizes):
            text += f", {before} dimension{'s' * (before != 1)} merged into {len(sizes)}"
        apart = why_apart(sizes, strides, _operands(step, operands))
        yield "iterates", text + (f"; {apart}" if apart else "")
    for length, grain, threads in step.parallel:
        yield "threads", f"{length} in pieces of {grain} on {threads} thread{'s' * (threads != 1)}"
    for name, sizes in step.libraries:
        yield "library", f"{name}{' ' + ' x '.join(map(str, sizes)) if sizes else ''}"
    for x, why, nbytes in step.copies:
        reason = {"contiguous": "a contiguous operand was needed", "device": "the CPU reads it"}.get(why, "another dtype was needed")
        yield "copy", f"hidden copy of {value(x)}, {size(nbytes)}: {reason}"
    for which, owner in enumerate(step.viewed()):
        what = "the result" if len(step.viewed()) == 1 else f"result {which}"
        if owner:
            yield "view", f"{what} is a view of {owner}" if not step.name.endswith("_") else f"{owner} was written in place"
    for asked, copy in step.copying():
        yield "copy", f"hidden copy, {size(copy.results[0].nbytes)}: {why_copied(asked, copy)}"
    if step.copies_as_asked():
        yield "copied", f"as asked, {size(step.results[0].nbytes)}: {why_copied(step, step)}"
    if step.allocated:
        lies = [f"{v.data:#x}" for v, owner in zip(_tensors(step.results), step.viewed()) if v.data and not owner]
        yield "memory", f"{size(step.allocated)} allocated in {step.allocations} block{'s' * (step.allocations != 1)}" + \
                        (f", {size(step.freed)} freed" if step.freed else "") + (f"; the result lies at {', '.join(lies)}" if lies else "")
    yield from _time(step)
    if step.failed:
        yield "fail", "ended with an error, or has no result"


def _formula(step):
    """What a pointwise operator computes, where that doesn't depend on the dtype."""
    try:
        formulas = _C._op_formulas(f"aten::{step.overload}") if step.loops else {}
    except ValueError:      # not one of aten's
        return None
    word = next((f"value {v}" for v in step.arguments if isinstance(v, str) and f"value {v}" in formulas), "value")
    return None if any(key.startswith("value_") for key in formulas) else formulas.get(word)


def _tensors(values):
    return [x for value in values for x in (value if isinstance(value, list) else [value]) if isinstance(x, TensorRecord)]


def _operands(step, count):
    """What to call the operands of the iterator: results come first, then the arguments that are tensors."""
    names = [name for name, _ in step.tensors()]
    return ["the result", *names] if count == len(names) + 1 else [f"operand {i}" for i in range(count)]


_STAGES = {"loop": "in loops", "copy": "from a copy on", "fallback": "on the CPU", "library": "in a library"}


def _time(step):
    """Where the time went; single calls inside report what they took themselves."""
    parts = [f"{_STAGES[name]} {duration(spent)}" for name, spent in step.stages.items() if spent and name != "own"]
    inside = sum(child.duration for child in step.steps)
    if inside:
        parts.append(f"calls inside {duration(inside)}")
    own = step.stages.get("own", 0)
    if parts and own:
        parts.insert(0, f"{'the node' if step.kind == 'node' else 'the call'} itself {duration(own)}")
    if len(parts) > 1:
        yield "time", ", ".join(parts)


def title(step):
    if step.kind == "node":
        return f"backward: {step.name}"
    arguments = ", ".join(value(v) for v in step.arguments if v is not None)
    results = ", ".join(value(v) for v in step.results)
    return f"{step.overload}({arguments})" + (f" -> {results}" if results else "")


def _lines(step, indent, inner, out, colours):
    bold, dim, mark, end = ("\033[1m", "\033[2m", "\033[33m", "\033[0m") if colours else ("",) * 4
    if step.site:
        file, line, text = step.site
        out.append(f"{indent}{dim}{os.path.basename(file)}:{line}{end}  {text}")
    out.append(f"{indent}{bold}{title(step)}{end}  {dim}{duration(step.duration)}{end}")
    for kind, text in notes(step):
        warn = kind in ("copy", "fail")
        out.append(f"{indent}  {mark if warn else dim}{kind:<9}{end}{mark if warn else ''}{'! ' * warn}{text}{end if warn else ''}")
    if inner:
        for child in step.steps:
            _lines(child, indent + "    ", inner, out, colours)
    elif step.steps:
        out.append(f"{indent}  {dim}inside   {end}{sum(1 for _ in step.traverse()) - 1} calls")


def tree(steps, inner=True, colours=False, only=""):
    """The steps as text; without `inner`, what they call is only counted. only: those whose line or description has this text."""
    out = []
    for step in steps:
        if not only or only in title(step) or (step.site and only in f"{step.site[0]}:{step.site[1]} {step.site[2]}"):
            _lines(step, "", inner, out, colours)
    return "\n".join(out)
