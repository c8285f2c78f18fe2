"""Calls, or their sums, as a table of text."""
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(microseconds, unit=None):
    unit = unit or ("s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us")
    if unit not in _UNITS:
        raise ValueError(f"time_unit: '{unit}' is none of s, ms, us")
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def format_memory(nbytes):
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes} B"


def _share(part, whole):
    return f"{100 * part / whole:.2f}%"


def _clip(text, width):
    return text if width is None or len(text) <= width else text[:width - 3] + "..."


def _flops_unit(events):
    """The unit in which the largest count has up to three digits, and what one of it is."""
    most, scale, units = max((e.flops for e in events), default=0), 1, iter(("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"))
    unit = next(units)
    while most >= 1000 * scale and unit != "PFLOPs":
        unit, scale = next(units), 1000 * scale
    return unit, scale


def _sorted(events, by):
    """The largest first; sums of CUDA's time are sums of any device's."""
    by = by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    if events and not hasattr(events[0], by):
        raise AttributeError(f"sort_by: calls have no '{by}'")
    return sorted(events, key=lambda e: getattr(e, by), reverse=True)


def table(events, sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header, top_level_events_only,
          time_unit, **columns):
    """The events as text."""
    titles, rows, totals = cells(events, sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width,
                                 top_level_events_only, time_unit, **columns)
    widths = [max(len(row[i]) for row in [titles, *rows]) + 2 for i in range(len(titles))]
    rule = "  ".join("-" * width for width in widths)
    lines = [header] if header else []
    lines += [rule, "  ".join(t.rjust(w) for t, w in zip(titles, widths)), rule]
    lines += ["  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in rows]
    return "\n".join([*lines, rule, *totals, ""])


def cells(events, sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, top_level_events_only,
          time_unit, *, memory, flops, shapes, stack, overloads):
    """(titles, rows of text, totals) of a table."""
    chosen = [e for e in events if not top_level_events_only or e.cpu_parent is None]
    if sort_by is not None:
        chosen = _sorted(chosen, sort_by)
    whole = sum(e.self_cpu_time_total for e in chosen) or 1.0
    device_whole = sum(e.self_device_time_total for e in chosen) or 1.0
    kind = next((e.device.partition(":")[0].upper() for e in chosen if e.device != "cpu"), "")
    flops_unit, flops_scale = _flops_unit(chosen)

    def time(microseconds):
        return format_time(microseconds, time_unit)

    columns = [("Name", lambda e: _clip(e.key, max_name_column_width))]         # title, text of an event
    if overloads:
        columns.append(("Overload Name", lambda e: e.overload_name))
    columns += [("Self CPU %", lambda e: _share(e.self_cpu_time_total, whole)), ("Self CPU", lambda e: time(e.self_cpu_time_total)),
                ("CPU total %", lambda e: _share(e.cpu_time_total, whole)), ("CPU total", lambda e: time(e.cpu_time_total)),
                ("CPU time avg", lambda e: time(e.cpu_time))]
    if kind:
        columns += [(f"Self {kind}", lambda e: time(e.self_device_time_total)),
                    (f"Self {kind} %", lambda e: _share(e.self_device_time_total, device_whole)),
                    (f"{kind} total", lambda e: time(e.device_time_total)), (f"{kind} time avg", lambda e: time(e.device_time))]
    if memory:
        columns += [("CPU Mem", lambda e: format_memory(e.cpu_memory_usage)),
                    ("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage))]
    columns.append(("# of Calls", lambda e: str(e.count)))
    if shapes:
        columns.append(("Input Shapes", lambda e: _clip(str(e.input_shapes), max_shapes_column_width)))
    if stack:
        columns.append(("Source Location", lambda e: _clip(e.stack[0], max_src_column_width) if e.stack else ""))
    if flops:
        columns.append((f"Total {flops_unit}", lambda e: f"{e.flops / flops_scale:.3f}" if e.flops > 0 else "--"))

    rows = []
    for e in chosen if row_limit < 0 else chosen[:row_limit]:
        rows.append([text(e) for _, text in columns])
        if stack:                       # further frames below the nearest
            rows += [[_clip(frame, max_src_column_width) if title == "Source Location" else "" for title, _ in columns] for frame in e.stack[1:]]
    totals = [f"Self CPU time total: {time(whole if chosen else 0.0)}", *([f"Self {kind} time total: {time(device_whole)}"] if kind else [])]
    return [title for title, _ in columns], rows, totals
