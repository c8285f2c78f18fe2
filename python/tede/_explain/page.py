"""A tree of calls as one HTML page that needs nothing but a browser."""
import html
import os

from tede._explain.text import duration, notes, size, title

_STYLE = """
:root { color-scheme: light dark; --dim: #777; --line: #8884; --warn: #b35900; --bar: #4a90d9; }
@media (prefers-color-scheme: dark) { :root { --warn: #ffb454; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; }
h1 { font-size: 1.3rem; } p { color: var(--dim); }
details { border-left: 2px solid var(--line); margin: .3rem 0 .3rem .2rem; padding-left: .7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; } summary code { font-weight: 600; }
.site, .time { color: var(--dim); } .bar { display: inline-block; height: .6em; background: var(--bar); border-radius: 2px; }
table { border-collapse: collapse; margin: .2rem 0 .3rem 1rem; } td { padding: 0 .6rem 0 0; vertical-align: top; }
td:first-child { color: var(--dim); } .copy td, .fail td { color: var(--warn); }
code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
input { font: inherit; width: 100%; box-sizing: border-box; padding: .4rem; margin: .5rem 0; }
"""
_SCRIPT = """
const box = document.querySelector('input');
box.addEventListener('input', () => {
  for (const step of document.querySelectorAll('main > details'))
    step.hidden = !step.textContent.toLowerCase().includes(box.value.toLowerCase());
});
"""


def _step(step, longest, out):
    site = ""
    if step.site:
        file, line, text = step.site
        site = f'<div class="site">{html.escape(os.path.basename(file))}:{line} <code>{html.escape(text)}</code></div>'
    width = max(1, round(100 * step.duration / longest)) if longest else 1
    out.append(f'<details{" open" if step.site else ""}><summary><code>{html.escape(title(step))}</code> '
               f'<span class="time">{duration(step.duration)}</span> <span class="bar" style="width:{width}px"></span>{site}</summary>')
    rows = "".join(f'<tr class="{kind}"><td>{kind}</td><td>{html.escape(text)}</td></tr>' for kind, text in notes(step))
    out.append(f"<table>{rows}</table>")
    for child in step.steps:
        _step(child, longest, out)
    out.append("</details>")


def _outermost(steps):
    """The calls that no call made: Python's, and those of a backward pass."""
    for step in steps:
        yield from _outermost(step.steps) if step.kind == "node" else [step]


def page(steps, name=""):
    """The page as a string."""
    every = [s for step in steps for s in step.traverse()]
    calls = sum(s.kind == "call" for s in every)
    copies = sum(len(s.copies) for s in every) + sum(len(list(s.copying())) for s in _outermost(steps))
    allocated = sum(s.allocated for s in steps)
    out = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>",
           f"<title>tede: {html.escape(name or 'what ran')}</title><style>{_STYLE}</style>",
           f"<h1>What ran{': ' + html.escape(name) if name else ''}</h1>",
           f"<p>{calls} calls of operators, {size(allocated)} allocated, {copies} hidden cop{'y' if copies == 1 else 'ies'}. "
           "Open a call to see which kernel it took, how its elements were traversed and what it called. Times are without "
           "what watching took.</p><input placeholder='show only calls that mention ...' aria-label='filter'><main>"]
    longest = max((s.duration for s in steps), default=0)
    for step in steps:
        _step(step, longest, out)
    out.append(f"</main><script>{_SCRIPT}</script></html>")
    return "\n".join(out)
