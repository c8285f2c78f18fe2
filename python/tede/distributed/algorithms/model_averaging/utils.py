"""The mean of parameters over the ranks of a group."""
import tede
import tede.distributed as dist

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params, process_group):
    """Each parameter becomes its mean over the ranks; all of them travel in one message."""
    group = dist.group.WORLD if process_group is None else process_group
    params = list(params)
    if dist._rank_not_in_group(group) or not params:
        return
    flat = tede.cat([p.detach().reshape(-1) for p in params])
    flat /= dist.get_world_size(group)
    dist.all_reduce(flat, group=group)
    for p, part in zip(params, flat.split([p.numel() for p in params])):
        p.data = part.view_as(p).type_as(p)


def get_params_to_average(params):
    """The parameters that have a gradient, of a model's or of an optimizer's groups."""
    found = []
    for item in params:
        if isinstance(item, tede.nn.Parameter):
            found.append(item)
        elif isinstance(item, dict):
            found.extend(item["params"])
        else:
            raise NotImplementedError(f"Parameter input of type {type(item)} is not supported")
    return [p for p in found if p.grad is not None]


def average_parameters_or_parameter_groups(params, process_group):
    average_parameters(get_params_to_average(params), process_group)
