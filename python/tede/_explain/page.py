"""An explanation as HTML that needs nothing but a browser: a page, or a part of a notebook."""
import html
import itertools

from tede._explain.summary import Summary, outermost, where
from tede._explain.text import duration, notes, size, title

# All within .tede, so that a notebook's own page stays as it is.
STYLE = """
.tede { color-scheme: light dark; --dim: #666; --line: #8884; --warn: #a04e00; --bar: #4a90d9; font: 15px/1.45 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .tede { --warn: #ffb454; --dim: #aaa; } }
.tede h1 { font-size: 1.3rem; } .tede h2 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; } .tede p { margin: .2rem 0; }
.tede .warn { color: var(--warn); } .tede .dim { color: var(--dim); }
.tede details { border-left: 2px solid var(--line); margin: .25rem 0 .25rem .2rem; padding-left: .7rem; }
.tede summary { cursor: pointer; overflow-wrap: anywhere; }
.tede .bar { display: inline-block; height: .6em; background: var(--bar); border-radius: 2px; }
.tede .wide { overflow-x: auto; }
.tede table { border-collapse: collapse; margin: .2rem 0 .3rem; border: 0; }
.tede th { text-align: left; font-weight: normal; color: var(--dim); }
.tede th, .tede td { padding: .1rem .9rem .1rem 0; vertical-align: top; border: 0; background: none; }
.tede td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.tede td:last-child { min-width: 15rem; } .tede details td:last-child { min-width: 0; }
.tede details table { margin-left: 1rem; } .tede details td { text-align: left; }
.tede tr.copy td, .tede tr.fail td, .tede tr.fallback td { color: var(--warn); }
.tede code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; background: none; padding: 0; }
.tede input { font: inherit; width: 100%; box-sizing: border-box; padding: .4rem; margin: .5rem 0; }
"""
_SCRIPT = """
const box = document.querySelector('input');
box.addEventListener('input', () => {
  const wanted = box.value.toLowerCase();
  for (const step of document.querySelectorAll('main > details')) {
    step.hidden = !step.textContent.toLowerCase().includes(wanted);
    for (const inner of step.querySelectorAll(':scope > details'))
      inner.hidden = !step.hidden && wanted && !inner.textContent.toLowerCase().includes(wanted) &&
                     !step.firstElementChild.textContent.toLowerCase().includes(wanted);
  }
});
"""
_PART = 300              # so many calls a notebook's cell holds


def table(headings, rows):
    """Rows of text as a table; cells that begin with a digit stand to the right, the last one is code."""
    def cell(text, last):
        shown = html.escape(text)
        return f"<td><code>{shown}</code></td>" if last else f'<td class="number">{shown}</td>' if text[:1].isdigit() or text == "-" else f"<td>{shown}</td>"
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(cell(text, i == len(row) - 1) for i, text in enumerate(row))}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _summary(summary):
    warn = summary.copies or summary.fallbacks or summary.failed
    *first, found = summary.head()
    out = [f"<p>{html.escape(line)}</p>" for line in first]
    out.append(f'<p class="{"warn" if warn else "dim"}">{html.escape(found)}</p>')
    for heading, headings, rows, left in summary.tables():
        out += [f"<h2>{html.escape(heading)}</h2>", table(headings, rows), f'<p class="dim">and {left} more</p>' if left else ""]
    return out


def _bar(nanoseconds, longest):
    return f'<span class="bar" style="width:{max(1, round(100 * nanoseconds / longest)) if longest else 1}px"></span>'


def _step(step, longest, out):
    out.append(f'<details><summary><code>{html.escape(title(step))}</code> '
               f'<span class="dim">{duration(step.duration)}</span> {_bar(step.duration, longest)}</summary>')
    rows = "".join(f'<tr class="{kind}"><td class="dim">{kind}</td><td>{html.escape(text)}</td></tr>' for kind, text in notes(step))
    out.append(f"<table>{rows}</table>")
    for child in step.steps:
        _step(child, longest, out)
    out.append("</details>")


def _groups(steps):
    """Steps of one line that follow each other; backward nodes by the line that recorded them."""
    for (backward, site), group in itertools.groupby(steps, key=lambda step: (step.kind == "node", step.site)):
        yield backward, site, list(group)


def _calls(steps, out):
    groups = list(_groups(steps))
    longest = max((sum(step.duration for step in group) for *_, group in groups), default=0)
    for backward, site, group in groups:
        time, count = sum(step.duration for step in group), len(group)
        copies = sum(len(inner.copies) for step in group for inner in step.traverse()) + \
            sum(len(list(call.copying())) for call in outermost(group))
        what = f"{count} {'node' if backward else 'call'}{'s' * (count != 1)}, {duration(time)}, {size(sum(step.allocated for step in group))} allocated"
        mark = f' <span class="warn">{copies} hidden cop{"y" if copies == 1 else "ies"}</span>' if copies else ""
        line = f"{'backward of ' if backward and site else ''}{where(site)}"
        out.append(f'<details><summary>{html.escape(line)} <code>{html.escape(site[2] if site else "")}</code> '
                   f'<span class="dim">{what}</span>{mark} {_bar(time, longest)}</summary>')
        for step in group:
            _step(step, longest, out)
        out.append("</details>")


def page(steps, elapsed, name=""):
    """The page as a string."""
    out = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>",
           f"<title>tede: {html.escape(name or 'what ran')}</title><style>{STYLE}"
           ":root { color-scheme: light dark; } body { margin: 0 auto; max-width: 80rem; padding: 1rem; }</style>",
           f"<body class=tede><h1>What ran{': ' + html.escape(name) if name else ''}</h1>", *_summary(Summary(steps, elapsed)), "<h2>Calls</h2>",
           "<p class=dim>In their order, by line. Open a line to see its calls, a call to see which kernel it took, how its elements were "
           "traversed and what it called. Times are without what watching took.</p>"
           "<input placeholder='show only lines and calls that mention ...' aria-label='filter'><main>"]
    _calls(steps, out)
    out.append(f"</main><script>{_SCRIPT}</script></html>")
    return "\n".join(out)


def fragment(steps, elapsed):
    """Summary and the first calls, for a notebook."""
    out = [f'<div class="tede"><style>{STYLE}</style>', *_summary(Summary(steps, elapsed))]
    out.append(f"<details><summary>{len(steps)} calls and nodes</summary>")
    _calls(steps[:_PART], out)
    if len(steps) > _PART:
        out.append(f'<p class="dim">and {len(steps) - _PART} more, in html(path)</p>')
    return "\n".join([*out, "</details></div>"])
