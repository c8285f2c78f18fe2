"""What the families share: sizes given as one number or several, and reductions by name."""
import warnings

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def ntuple(value, n):
    """`value` repeated `n` times, or as a tuple if it is a sequence already (of whatever length)."""
    return (value,) * n if not hasattr(value, "__iter__") else tuple(value)


def reduction_number(reduction, size_average=None, reduce=None):
    """The native code of a reduction, with the two older flags translated."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    number = _REDUCTIONS.get(reduction)
    if number is None:
        if reduction == "elementwise_mean":
            warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
                          stacklevel=3)
            return 1
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return number


def legacy_reduction(size_average, reduce, warn=True):
    """The reduction that `size_average` and `reduce`, given or None, used to mean."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    reduction = "none" if not reduce else "mean" if size_average else "sum"
    if warn:
        warnings.warn("size_average and reduce args will be deprecated, please use "
                      f"reduction='{reduction}' instead.", stacklevel=4)
    return reduction


def reduce_loss(loss, reduction):
    """Reduce an elementwise loss computed in Python."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss
