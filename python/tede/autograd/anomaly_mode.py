"""Anomaly mode: a node that fails in backward names the lines of Python that made it."""
from tede import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """``set_detect_anomaly(mode, check_nan=True)`` switches `detect_anomaly` at once; as a context manager it switches
    back at the end.

    >>> with tede.autograd.set_detect_anomaly(False):
    ...     pass
    """

    def __init__(self, mode, check_nan=True):
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        _C.set_anomaly_enabled(*self.before)


class detect_anomaly(set_detect_anomaly):
    """Within it, nodes remember where they were made, and a backward pass that gives NaN is a RuntimeError that names
    the operator and shows that place. Slow: for looking for mistakes.

        check_nan: False only remembers.

    >>> x = tede.tensor(0.0, requires_grad=True)
    >>> with tede.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).backward()
    ...     except RuntimeError as error:
    ...         print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan=True):
        import warnings
        self.check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
                      "debugging.", stacklevel=2)

    def __enter__(self):
        super().__init__(True, self.check_nan)
