"""x.show(): which cell of the storage each element of a tensor is.

The offset of element (i, j, ...) is offset + i * strides[0] + j * strides[1] + ...: this page draws that. In a terminal
it is text, in a notebook a picture; `.html(path)` writes a page where sizes, strides and offset can be changed."""
import html
import itertools
import json

_MOST = 512                   # cells and elements that are drawn


class View:
    """How a tensor lies in its storage. `cells` maps a cell to the indices of the elements that lie there."""

    def __init__(self, tensor):
        self.dtype, self.device = str(tensor.dtype).rpartition(".")[2], str(tensor.device)
        self.shape, self.strides, self.offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
        self.itemsize = tensor.element_size()
        self.is_view = tensor._base is not None
        self.count, self.users, self.values = 0, 0, []
        if not tensor.is_meta:
            storage = tensor.untyped_storage()
            self.count = storage.nbytes() // self.itemsize
            self.users = storage._use_count() - 1          # without the storage object made here
            flat = tensor.detach().as_strided((min(self.count, _MOST),), (1,), 0)
            self.values = flat.tolist()
        self.cells = {}
        shown = 0
        for index in itertools.product(*(range(n) for n in self.shape)):
            if shown == _MOST:
                break
            cell = self.offset + sum(i * s for i, s in zip(index, self.strides))
            self.cells.setdefault(cell, []).append(index)
            shown += 1

    def title(self):
        shared = f"; {self.users} tensors look at this storage" if self.users > 1 else ""
        return (f"{self.dtype} on {self.device}, shape {list(self.shape)}, strides {list(self.strides)}, offset {self.offset}; "
                f"storage of {self.count} elements, {self.count * self.itemsize} bytes{', a view' * self.is_view}{shared}")

    def _value(self, cell):
        if not 0 <= cell < len(self.values):
            return ""
        v = self.values[cell]
        return f"{v:.4g}" if isinstance(v, float) else str(v)

    def _label(self, cell):
        found = self.cells.get(cell, [])
        text = ",".join(map(str, found[0])) if found else ""
        return text + (f" +{len(found) - 1}" if len(found) > 1 else "") if found and found[0] else ("()" if found else "")

    def __str__(self):
        width = 8
        row = 8
        lines = [self.title()]
        for first in range(0, min(self.count, _MOST), row):
            cells = range(first, min(first + row, self.count, _MOST))
            lines.append("  cell  " + " ".join(f"{c:>{width}}" for c in cells))
            lines.append("  value " + " ".join(f"{self._value(c):>{width}.{width}}" for c in cells))
            lines.append("  index " + " ".join(f"{self._label(c) or '.':>{width}}" for c in cells))
        if self.count > _MOST:
            lines.append(f"  ... {self.count - _MOST} cells more")
        return "\n".join(lines)

    __repr__ = __str__

    def svg(self):
        """The storage as a picture: a box per cell with its value and the index that lies there; grey where none does."""
        columns = 16 if not self.shape or self.shape[-1] > 16 else max(8, self.shape[-1])
        shown = min(self.count, _MOST)
        rows = -(-shown // columns) if shown else 1
        w, h = 58, 44
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * w + 20}" height="{rows * h + 40}" '
               f'font-family="ui-monospace, monospace" font-size="11">',
               f'<text x="10" y="18" font-size="12" fill="currentColor">{html.escape(self.title())}</text>']
        for cell in range(shown):
            x, y = 10 + cell % columns * w, 28 + cell // columns * h
            used = self.cells.get(cell)
            fill = "#8883" if not used else "#e8a33d55" if len(used) > 1 else "#4a90d955"
            mark = ' stroke-width="2.5"' if cell == self.offset else ""
            out.append(f'<g><title>cell {cell}: {html.escape(", ".join(map(str, used or ["no element"])))}</title>'
                       f'<rect x="{x}" y="{y}" width="{w - 3}" height="{h - 4}" rx="3" fill="{fill}" stroke="#888"{mark}/>'
                       f'<text x="{x + 4}" y="{y + 12}" fill="#888">{cell}</text>'
                       f'<text x="{x + w - 7}" y="{y + 24}" text-anchor="end" fill="currentColor">{html.escape(self._value(cell))}</text>'
                       f'<text x="{x + w - 7}" y="{y + 36}" text-anchor="end" fill="#888">{html.escape(self._label(cell))}</text></g>')
        return "\n".join([*out, "</svg>"])

    _repr_svg_ = svg

    def html(self, path=None):
        """A page in which sizes, strides and offset can be changed, as a string; written to `path` if there is one."""
        state = {"sizes": self.shape or (), "strides": self.strides, "offset": self.offset, "count": min(self.count, _MOST),
                 "values": [self._value(c) for c in range(min(self.count, _MOST))]}
        page = _PAGE.replace("/*state*/", json.dumps(state)).replace("<!--title-->", html.escape(self.title()))
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page


_PAGE = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<title>Strides</title><style>
:root { color-scheme: light dark; --one: #4a90d966; --many: #e8a33d88; --out: #d9534f; --line: #8888; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 64rem; padding: 1rem; }
label { display: inline-block; margin: .2rem 1rem .2rem 0; } input { font: 14px ui-monospace, monospace; width: 11rem; padding: .3rem; }
#cells, #elements { display: grid; gap: 3px; margin: .6rem 0 1.2rem; font: 12px ui-monospace, monospace; }
#cells { grid-template-columns: repeat(auto-fill, minmax(3.6rem, 1fr)); }
.cell, .element { border: 1px solid var(--line); border-radius: 3px; padding: .15rem .3rem; min-height: 2.6em; }
.cell small, .element small { color: #888; display: block; } .used { background: var(--one); } .shared { background: var(--many); }
.first { outline: 2px solid currentColor; } .lit { outline: 3px solid var(--out); } #error { color: var(--out); min-height: 1.5em; }
</style><h1>How a tensor lies in its storage</h1><p><!--title--></p>
<p>The element at index (i, j, ...) lies in cell <code>offset + i * strides[0] + j * strides[1] + ...</code>. Change the numbers; point
at an element or a cell to see its partner. Orange cells hold more than one element; steps may be zero or negative.</p>
<form><label>sizes <input id=sizes></label><label>strides <input id=strides></label><label>offset <input id=offset></label>
<button type=button id=flip>flip the first dimension</button> <button type=button id=swap>swap the last two</button></form>
<p id=error role=alert></p><h2>Elements</h2><div id=elements></div><h2>Cells</h2><div id=cells></div>
<script>
const state = /*state*/;
const box = id => document.getElementById(id);
const numbers = text => text.split(/[\\s,]+/).filter(t => t !== '').map(Number);
function read() {
  const sizes = numbers(box('sizes').value), strides = numbers(box('strides').value), offset = Number(box('offset').value);
  if (sizes.length !== strides.length) throw Error(sizes.length + ' sizes but ' + strides.length + ' strides');
  if (![...sizes, ...strides, offset].every(Number.isInteger)) throw Error('whole numbers, with commas or spaces between');
  if (sizes.some(n => n < 0)) throw Error('a size is not negative');
  if (sizes.reduce((a, b) => a * b, 1) > 512) throw Error('at most 512 elements are drawn');
  return {sizes, strides, offset};
}
function show() {
  let now;
  box('error').textContent = '';
  try { now = read(); } catch (e) { box('error').textContent = e.message; return; }
  const {sizes, strides, offset} = now, elements = [], cells = Array.from({length: state.count}, () => []);
  const total = sizes.reduce((a, b) => a * b, 1);
  for (let flat = 0; flat < total; flat++) {
    const index = []; let rest = flat, cell = offset;
    for (let d = sizes.length - 1; d >= 0; d--) { index.unshift(rest % sizes[d]); rest = Math.floor(rest / sizes[d]); }
    index.forEach((i, d) => cell += i * strides[d]);
    elements.push({index, cell});
    if (cell >= 0 && cell < state.count) cells[cell].push(flat);
    else box('error').textContent = 'element (' + index + ') would lie in cell ' + cell + ', outside of the storage';
  }
  const make = (cls, small, text) => { const e = document.createElement('div'); e.className = cls;
    const s = document.createElement('small'); s.textContent = small; e.append(s, text); return e; };
  const drawn = elements.map(({index, cell}) => make('element used', '(' + index + ')', state.values[cell] ?? '?'));
  const boxes = cells.map((users, c) => make('cell' + (users.length > 1 ? ' shared' : users.length ? ' used' : '') +
    (c === offset ? ' first' : ''), c, state.values[c] ?? ''));
  const light = (list, on) => list.forEach(e => e && e.classList.toggle('lit', on));
  drawn.forEach((e, i) => { e.dataset.cell = elements[i].cell; for (const [type, on] of [['mouseenter', true], ['mouseleave', false]])
    e.addEventListener(type, () => light([e, boxes[elements[i].cell]], on)); });
  boxes.forEach((e, c) => { for (const [type, on] of [['mouseenter', true], ['mouseleave', false]])
    e.addEventListener(type, () => light([e, ...cells[c].map(i => drawn[i])], on)); });
  box('elements').style.gridTemplateColumns = 'repeat(' + (sizes[sizes.length - 1] || 1) + ', minmax(3.2rem, 1fr))';
  box('elements').replaceChildren(...drawn); box('cells').replaceChildren(...boxes);
}
box('sizes').value = state.sizes.join(', '); box('strides').value = state.strides.join(', '); box('offset').value = state.offset;
for (const id of ['sizes', 'strides', 'offset']) box(id).addEventListener('input', show);
box('flip').addEventListener('click', () => { const {sizes, strides, offset} = read(); if (!sizes.length) return;
  box('offset').value = offset + (sizes[0] - 1) * strides[0]; strides[0] = -strides[0]; box('strides').value = strides.join(', '); show(); });
box('swap').addEventListener('click', () => { const {sizes, strides} = read(); const n = sizes.length; if (n < 2) return;
  for (const list of [sizes, strides]) [list[n - 2], list[n - 1]] = [list[n - 1], list[n - 2]];
  box('sizes').value = sizes.join(', '); box('strides').value = strides.join(', '); show(); });
show();
</script></html>
"""
