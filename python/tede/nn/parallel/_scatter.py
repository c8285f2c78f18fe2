"""Spreading arguments over devices and collecting results. The devices have to exist: `.to` says it if one doesn't."""


def scatter(inputs, target_gpus, dim=0):
    """One structure per device, whose tensors are the chunks along `dim` of those in `inputs`."""
    from tede import Tensor, device
    places = [d if isinstance(d, device) else device("cuda", d) for d in target_gpus]

    def spread(obj):
        if isinstance(obj, Tensor):
            return [part.to(place) for part, place in zip(obj.chunk(len(places), dim), places)]
        if isinstance(obj, tuple) and hasattr(obj, "_fields"):
            return [type(obj)(*values) for values in zip(*map(spread, obj))]
        if isinstance(obj, tuple) and obj:
            return list(zip(*map(spread, obj)))
        if isinstance(obj, list) and obj:
            return [list(values) for values in zip(*map(spread, obj))]
        if isinstance(obj, dict) and obj:
            return [type(obj)(pairs) for pairs in zip(*map(spread, obj.items()))]
        return [obj for _ in places]
    return spread(inputs)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """`scatter` for arguments by position and by name."""
    inputs = scatter(inputs, target_gpus, dim) if inputs else []
    kwargs = scatter(kwargs, target_gpus, dim) if kwargs else []
    inputs += [()] * (len(kwargs) - len(inputs))
    kwargs += [{}] * (len(inputs) - len(kwargs))
    return tuple(inputs), tuple(kwargs)


def gather(outputs, target_device, dim=0):
    """The tensors of several devices' results, concatenated along `dim` on one."""
    from tede import Tensor, cat, device
    place = target_device if isinstance(target_device, (str, device)) else device("cpu" if target_device == -1 else target_device)
    first = outputs[0]
    if isinstance(first, Tensor):
        return cat([(o.unsqueeze(0) if o.dim() == 0 else o).to(place) for o in outputs], 0 if first.dim() == 0 else dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([o[key] for o in outputs], target_device, dim)) for key in first)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)._make(gather(row, target_device, dim) for row in zip(*outputs))
    return type(first)(gather(row, target_device, dim) for row in zip(*outputs))
