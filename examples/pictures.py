"""Two pictures written as SVG, by hand: curves over training steps, and a confusion matrix."""
from html import escape

BLUE, ORANGE, GREY = "#2f6db5", "#d9822b", "#8a8f98"


def loss_plot(path, title, train, validation, level=None):
    """Draw `train` and `validation`, lists of (step, loss), and a dashed line at `level`, a (name, loss) pair."""
    width, height, left, right, top, bottom = 760, 420, 60, 20, 44, 46
    losses = [loss for _, loss in train + validation] + ([level[1]] if level else [])
    losses = [loss for loss in losses if loss == loss and abs(loss) != float("inf")] or [0.0]
    steps = [step for step, _ in train + validation] or [0]
    last, low, high = max(1, max(steps)), min(losses), max(losses)
    low, high = low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1)

    def place(step, loss):
        x = left + (width - left - right) * step / last
        y = top + (height - top - bottom) * (high - loss) / (high - low)
        return f"{x:.1f},{y:.1f}"

    def curve(points, colour, stroke, opacity=1.0):
        points = " ".join(place(*point) for point in points if low <= point[1] <= high)
        return (f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{stroke}" '
                f'stroke-opacity="{opacity}" stroke-linejoin="round"/>')

    out = [_open(width, height), _text(left, 24, title, 15, weight="bold")]
    for tick in _ticks(low, high, 6):
        x, y = place(0, tick).split(",")
        out.append(f'<line x1="{x}" y1="{y}" x2="{width - right}" y2="{y}" stroke="#e4e6ea"/>')
        out.append(_text(left - 8, float(y) + 4, f"{tick:g}", 11, anchor="end"))
    for tick in _ticks(0, last, 6):
        x, y = place(tick, low).split(",")
        out.append(_text(x, float(y) + 18, f"{tick:g}", 11, anchor="middle"))
    out.append(_text((left + width - right) / 2, height - 8, "step", 12, anchor="middle"))
    if level:
        x, y = place(0, level[1]).split(",")
        out.append(f'<line x1="{x}" y1="{y}" x2="{width - right}" y2="{y}" stroke="{GREY}" stroke-dasharray="6 4"/>')
        out.append(_text(width - right, float(y) - 6, f"{level[0]} {level[1]:.3f}", 11, anchor="end", fill=GREY))
    smooth, mean = [], None
    for step, loss in train:
        mean = loss if mean is None else 0.9 * mean + 0.1 * loss
        smooth.append((step, mean))
    out += [curve(train, BLUE, 1, 0.25), curve(smooth, BLUE, 1.8), curve(validation, ORANGE, 1.8)]
    for point in validation:
        x, y = place(*point).split(",")
        out.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{ORANGE}"/>')
    for i, (name, colour) in enumerate((("training (pale: each step)", BLUE), ("validation", ORANGE))):
        x = width - right - 190
        y = top + 26 + 18 * i
        out.append(f'<line x1="{x}" y1="{y}" x2="{x + 22}" y2="{y}" stroke="{colour}" stroke-width="2"/>')
        out.append(_text(x + 28, y + 4, name, 12))
    _close(path, out)


def confusion_matrix(path, title, counts):
    """Draw `counts[truth][answer]`: the darker a square, the larger its share of the row; errors in orange."""
    size, cell, left, top = len(counts), 40, 70, 70
    side = left + size * cell + 20
    out = [_open(side, side + 10), _text(side / 2, 26, title, 15, anchor="middle", weight="bold"),
           _text(left + size * cell / 2, 48, "answer", 12, anchor="middle"),
           f'<g transform="rotate(-90 20 {top + size * cell / 2})">'
           + _text(20, top + size * cell / 2, "truth", 12, anchor="middle") + "</g>"]
    for i, row in enumerate(counts):
        y, total = top + i * cell, max(1, sum(row))
        out.append(_text(left - 12, y + 25, i, 12, anchor="end"))
        out.append(_text(left + i * cell + cell / 2, top - 6, i, 12, anchor="middle"))
        for j, count in enumerate(row):
            x, share = left + j * cell, count / total
            if i == j:
                strength = share
            else:
                strength = min(1.0, 0.2 + 4 * share) if count else 0.0
            fill, ink = (BLUE if i == j else ORANGE), ("#fff" if i == j and share > 0.5 else "#222")
            out.append(f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{fill}" '
                       f'fill-opacity="{strength:.3f}" stroke="#d5d8dd"/>')
            if count:
                out.append(_text(x + cell / 2, y + 25, count, 12, anchor="middle", fill=ink))
    _close(path, out)


def _ticks(low, high, wanted):
    """Round numbers between `low` and `high`, about `wanted` of them."""
    step = 10.0 ** len(str(int(high - low)))
    factors = (0.5, 0.4, 0.5)                    # 1 -> 0.5 -> 0.2 -> 0.1
    i = 0
    while (high - low) / step < wanted:
        step *= factors[i % 3]
        i += 1
    tick = -(-low // step) * step
    ticks = []
    while tick <= high + 1e-9 * step:
        ticks.append(round(tick, 10) + 0.0)       # no "-0"
        tick += step
    return ticks


def _open(width, height):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>')


def _text(x, y, text, size, anchor="start", weight="normal", fill="#222"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">'
            f'{escape(str(text))}</text>')


def _close(path, parts):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n</svg>\n")
