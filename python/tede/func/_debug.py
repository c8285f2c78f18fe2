"""debug_unwrap: the tensors inside the wrappers of func's transforms."""
from tede import _C


def debug_unwrap(tensor, *, recurse=True):
    """What a tensor inside a transformed function wraps; for debugging only.

        recurse: down to the tensor without a transform.

    >>> tede.func.debug_unwrap(tede.ones(1))
    tensor([1.])
    """
    while _C._wrapper_level(tensor):
        tensor = _C._transform_unwrap(tensor, -1)[0]
        if not recurse:
            break
    return tensor
