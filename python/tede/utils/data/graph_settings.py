"""Settings for all pipes of a graph: which share of the items, whether to shuffle, from which seed."""
import inspect
import warnings

import tede
from tede.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from tede.utils.data.graph import traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph):
    """The pipes of a graph, each once."""
    def visit(graph):
        for number, (pipe, below) in graph.items():
            if number not in seen:
                seen.add(number)
                yield pipe
                yield from visit(below)
    seen = set()
    return list(visit(graph))


def _has(pipe, *names):
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Give every sharding pipe its share; two of them one behind the other would lose items, and are refused."""
    def visit(graph, before):
        for pipe, below in graph.values():
            here = isinstance(pipe, _ShardingIterDataPipe) or _has(pipe, "apply_sharding")
            if here:
                if before is not None:
                    raise RuntimeError("Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                                       f"Sharding already applied to {before} while trying to apply to {pipe}")
                takes_group = len(inspect.signature(pipe.apply_sharding).parameters) >= 3
                pipe.apply_sharding(num_of_instances, instance_id, **({"sharding_group": sharding_group} if takes_group else {}))
            visit(below, pipe if here else before)
    visit(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe, shuffle=None):
    """Turn the graph's shufflers on or off; one is added at the end where there is none to turn on."""
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if _has(pipe, "set_shuffle", "set_seed")]
    if not shufflers and shuffle:
        warnings.warn("`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
                      "that the default buffer size might not be sufficient for your task.", stacklevel=2)
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe, rng):
    """A seed from `rng` for each pipe that takes one."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has(pipe, "set_seed"):
            pipe.set_seed(int(tede.empty((), dtype=tede.int64).random_(generator=rng).item()))
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    """The older name of apply_random_seed."""
    warnings.warn("`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. Please use "
                  "`apply_random_seed` instead.", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)
