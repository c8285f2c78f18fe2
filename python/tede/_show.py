"""x.show(): which cell of the storage each element of a tensor is.

The offset of element (i, j, ...) is offset + i * strides[0] + j * strides[1] + ...: this page draws that. In a terminal
it is text, in a notebook a drawing; `.html(path)` writes a page where sizes, strides and offset can be changed."""
import html
import json

_MOST = 512                   # cells and elements that are drawn,
_ROW, _ROWS = 8, 16           # as text in so many rows
_SHARED = 100                 # elements of one cell that are listed


def _names(tensor, address, frame):
    """The variables of a frame that look at the same storage, with their shapes."""
    import tede
    if frame is None:
        return []
    names = {**frame.f_globals, **frame.f_locals}
    return [f"{name} {list(other.shape)}" for name, other in names.items()
            if isinstance(other, tede.Tensor) and other is not tensor and other.layout is tede.strided and not other.is_meta and
            other.untyped_storage().data_ptr() == address]


def _elements(cell, shape, strides, offset):
    """The indices of the elements that lie in a cell, at most _SHARED of them, in order."""
    flipped = [n - 1 if s < 0 else 0 for n, s in zip(shape, strides)]
    dims = sorted(range(len(shape)), key=lambda d: -abs(strides[d]))
    steps = [abs(strides[d]) for d in dims]
    beyond = [sum((shape[d] - 1) * abs(strides[d]) for d in dims[k:]) for k in range(len(dims) + 1)]   # the farthest that dims[k:] reach
    found, index = [], [0] * len(shape)

    def search(k, rest):
        if len(found) == _SHARED or not 0 <= rest <= beyond[k]:
            return
        if k == len(dims):
            found.append(tuple(abs(f - i) for f, i in zip(flipped, index)))
            return
        d, step = dims[k], steps[k]
        low, high = (max(0, -((beyond[k + 1] - rest) // step)), min(shape[d] - 1, rest // step)) if step else (0, shape[d] - 1)
        for i in range(low, high + 1):
            index[d] = i
            search(k + 1, rest - i * step)

    if all(shape):
        search(0, cell - offset - sum(f * s for f, s in zip(flipped, strides)))
    return sorted(found)


class View:
    """How a tensor lies in its storage. `cells` maps a cell to the indices of the elements that lie there; of a large storage
    those are drawn that lie about the tensor's first one, from cell `first` on."""

    def __init__(self, tensor, frame=None, part=""):
        self.part = part
        self.dtype, self.device = str(tensor.dtype).rpartition(".")[2], str(tensor.device)
        self.shape, self.strides, self.offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
        self.itemsize = tensor.element_size()
        self.is_view = tensor._base is not None
        self.count = self.users = self.first = self.address = 0
        self.values, self.others = [], []
        if not tensor.is_meta:
            storage = tensor.untyped_storage()
            self.count = storage.nbytes() // self.itemsize
            self.users = storage._use_count() - 1          # without the storage object made here
            self.address = storage.data_ptr()
            if self.count > _MOST:
                lowest = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides) if s < 0 and n)
                self.first = max(0, min(lowest // _ROW * _ROW, self.count - _MOST))
            flat = tensor.detach().as_strided((min(self.count, _MOST),), (1,), self.first)
            self.values = flat.tolist()
            self.others = _names(tensor, self.address, frame) if self.users > 1 else []
        self.last = self.first + min(self.count, _MOST)
        found = ((cell, _elements(cell, self.shape, self.strides, self.offset)) for cell in range(self.first, self.last))
        self.cells = {cell: indices for cell, indices in found if indices}

    def title(self):
        if self.device == "meta":
            return f"{self.part}{self.dtype} on meta, shape {list(self.shape)}, strides {list(self.strides)}, offset {self.offset}; it has no memory"
        shared = f"; {self.users} tensors look at this storage" if self.users > 1 else ""
        if self.others:
            shared += f", {', '.join(self.others)} among them"
        place = f" at {self.address:#x}" if self.address else ""
        if place and self.offset:
            place += f", the first element at {self.address + self.offset * self.itemsize:#x}"
        return (f"{self.part}{self.dtype} on {self.device}, shape {list(self.shape)}, strides {list(self.strides)}, offset {self.offset}; "
                f"storage of {self.count} element{'s' * (self.count != 1)}, {self.count * self.itemsize} bytes{place}{', a view' * self.is_view}{shared}")

    def _value(self, cell):
        if not 0 <= cell - self.first < len(self.values):
            return ""
        v = self.values[cell - self.first]
        return f"{v:.3g}" if isinstance(v, complex) else f"{v:.4g}" if isinstance(v, float) else str(v)

    def _label(self, cell):
        found = self.cells.get(cell, [])
        text = ",".join(map(str, found[0])) if found else ""
        return text + (f" +{len(found) - 1}{'..' * (len(found) == _SHARED)}" if len(found) > 1 else "") if found and found[0] else ("()" if found else "")

    def __str__(self):
        last = min(self.last, self.first + _ROW * _ROWS)
        cells = range(self.first, last)
        width = max([8, *(len(text(c)) for c in cells for text in (self._label, self._value))])
        lines = [self.title()]
        if self.first:
            lines.append(f"  ... {self.first} cells before")
        for row in range(self.first, last, _ROW):
            cells = range(row, min(row + _ROW, last))
            lines.append("  cell  " + " ".join(f"{c:>{width}}" for c in cells))
            lines.append("  value " + " ".join(f"{self._value(c):>{width}}" for c in cells))
            lines.append("  index " + " ".join(f"{self._label(c) or '.':>{width}}" for c in cells))
        if self.count > last:
            lines.append(f"  ... {self.count - last} cells more")
        return "\n".join(lines)

    __repr__ = __str__

    def svg(self):
        """The storage as a drawing: a box per cell with its value and the index that lies there; grey where none does."""
        columns = 16 if not self.shape or self.shape[-1] > 16 else max(8, self.shape[-1])
        shown = self.last - self.first
        rows = -(-shown // columns) if shown else 0
        w, h = 58, 44
        wide = 7 * max([8, *(len(text(c)) for c in range(self.first, self.last) for text in (self._label, self._value))]) + 9
        w = max(w, wide)
        across = max(min(columns, shown) * w + 20, 420)
        head = _lines(self.title(), int((across - 20) / 7.3))
        if shown < self.count:
            head.append(f"cells {self.first} to {self.last - 1} of {self.count} are drawn")
        top = 12 + 16 * len(head)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{top + rows * h + 8}" '
               f'viewBox="0 0 {across} {top + rows * h + 8}" style="max-width:100%;height:auto" '
               f'font-family="ui-monospace, monospace" font-size="11">']
        out += [f'<text x="10" y="{18 + 16 * k}" font-size="12" fill="currentColor">{html.escape(line)}</text>' for k, line in enumerate(head)]
        for cell in range(self.first, self.last):
            x, y = 10 + (cell - self.first) % columns * w, top + (cell - self.first) // columns * h
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
        state = {"sizes": self.shape, "strides": self.strides, "offset": self.offset, "count": self.count, "first": self.first,
                 "most": _MOST, "values": [self._value(c) for c in range(self.first, self.last)]}
        page = _PAGE.replace("/*state*/", json.dumps(state)).replace("<!--title-->", html.escape(self.title()))
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page


def _lines(text, width):
    """Text in lines of at most so many characters."""
    import textwrap
    return textwrap.wrap(text, width, break_long_words=False)


_PAGE = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<title>Strides</title><style>
:root { color-scheme: light dark; --one: #4a90d966; --many: #e8a33d88; --out: #d9534f; --line: #8888; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 64rem; padding: 1rem; }
label { display: inline-block; margin: .2rem 1rem .2rem 0; } input { font: 14px ui-monospace, monospace; width: 11rem; padding: .3rem; }
#elements { overflow-x: auto; } p { overflow-wrap: anywhere; }
#cells, #elements { display: grid; gap: 3px; margin: .6rem 0 1.2rem; font: 12px ui-monospace, monospace; }
.cell, .element { border: 1px solid var(--line); border-radius: 3px; padding: .15rem .3rem; min-height: 2.6em; }
.cell small, .element small { color: #888; display: block; } .used { background: var(--one); } .shared { background: var(--many); }
.first { outline: 2px solid currentColor; } .lit { outline: 3px solid var(--out); } #error { color: var(--out); min-height: 1.5em; }
</style><h1>How a tensor lies in its storage</h1><p><!--title--></p>
<p>The element at index (i, j, ...) lies in cell <code>offset + i * strides[0] + j * strides[1] + ...</code>. Change the numbers; point
at an element or a cell to see its partner. Orange cells hold more than one element; steps may be zero or negative.</p>
<form><label>sizes <input id=sizes></label><label>strides <input id=strides></label><label>offset <input id=offset></label>
<button type=button id=flip>flip the first dimension</button> <button type=button id=swap>swap the last two</button></form>
<p id=error role=alert></p><p id=note></p><h2>Elements</h2><div id=elements></div><h2>Cells</h2><div id=cells></div>
<script>
const state = /*state*/;
const box = id => document.getElementById(id);
const numbers = text => text.split(/[\\s,]+/).filter(t => t !== '').map(Number);
function read() {
  const sizes = numbers(box('sizes').value), strides = numbers(box('strides').value), offset = Number(box('offset').value);
  if (sizes.length !== strides.length) throw Error(sizes.length + ' sizes but ' + strides.length + ' strides');
  if (![...sizes, ...strides, offset].every(Number.isInteger)) throw Error('whole numbers, with commas or spaces between');
  if (sizes.some(n => n < 0)) throw Error('a size is not negative');
  return {sizes, strides, offset};
}
function show() {
  let now;
  box('error').textContent = '';
  try { now = read(); } catch (e) { box('error').textContent = e.message; return; }
  const {sizes, strides, offset} = now, elements = [], cells = Array.from({length: state.values.length}, () => []);
  const total = sizes.reduce((a, b) => a * b, 1), drawn_elements = Math.min(total, state.most), notes = [];
  if (total > drawn_elements) notes.push('the first ' + drawn_elements + ' of ' + total + ' elements');
  if (state.count > cells.length) notes.push('cells ' + state.first + ' to ' + (state.first + cells.length - 1) + ' of ' + state.count);
  box('note').textContent = notes.length ? 'Drawn are ' + notes.join(', and ') + '.' : '';
  for (let flat = 0; flat < drawn_elements; flat++) {
    const index = []; let rest = flat, cell = offset;
    for (let d = sizes.length - 1; d >= 0; d--) { index.unshift(rest % sizes[d]); rest = Math.floor(rest / sizes[d]); }
    index.forEach((i, d) => cell += i * strides[d]);
    elements.push({index, cell});
    if (cell >= state.first && cell < state.first + cells.length) cells[cell - state.first].push(flat);
    else if (cell < 0 || cell >= state.count) box('error').textContent = 'element (' + index + ') would lie in cell ' + cell + ', outside of the storage';
  }
  const make = (cls, small, text) => { const e = document.createElement('div'); e.className = cls;
    const s = document.createElement('small'); s.textContent = small; e.append(s, text); return e; };
  const drawn = elements.map(({index, cell}) => make('element used', '(' + index + ')', state.values[cell - state.first] ?? '?'));
  const boxes = cells.map((users, c) => make('cell' + (users.length > 1 ? ' shared' : users.length ? ' used' : '') +
    (c + state.first === offset ? ' first' : ''), c + state.first, state.values[c] ?? ''));
  const light = (list, on) => list.forEach(e => e && e.classList.toggle('lit', on));
  drawn.forEach((e, i) => { e.dataset.cell = elements[i].cell; for (const [type, on] of [['mouseenter', true], ['mouseleave', false]])
    e.addEventListener(type, () => light([e, boxes[elements[i].cell - state.first]], on)); });
  boxes.forEach((e, c) => { for (const [type, on] of [['mouseenter', true], ['mouseleave', false]])
    e.addEventListener(type, () => light([e, ...cells[c].map(i => drawn[i])], on)); });
  const longest = Math.max(6, ...state.values.map(v => v.length), ...elements.map(e => String(e.index).length + 2));
  const column = 'minmax(calc(' + longest + 'ch + .8rem), 1fr))';
  box('elements').style.gridTemplateColumns = 'repeat(' + (sizes[sizes.length - 1] || 1) + ', ' + column;
  box('cells').style.gridTemplateColumns = 'repeat(auto-fill, ' + column;
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
