"""A pipe put at a position that it had: made from the start again, and iterated to there."""
from tede.utils.data.datapipes._iterating import _SnapshotState
from tede.utils.data.graph_settings import apply_random_seed


def _simple_graph_snapshot_restoration(datapipe, n_iterations, rng=None):
    """The next iterator of `datapipe` starts after `n_iterations` items."""
    if datapipe._snapshot_state == _SnapshotState.Restored:
        raise RuntimeError("Snapshot restoration cannot be applied. You can only restore simple snapshot to the graph if your "
                           "graph has not been restored.")
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    iterator = iter(datapipe)
    for _ in range(n_iterations):
        try:
            next(iterator)
        except StopIteration:
            raise RuntimeError(f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples "
                               "available.") from None
    datapipe._fast_forward_iterator, datapipe._snapshot_state = iterator, _SnapshotState.Restored
