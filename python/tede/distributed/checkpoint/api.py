"""The error of checkpoints: what failed on which ranks."""
__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """`failures`: rank -> (error, its traceback as text)."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        return self._failures

    def __str__(self):
        text = f"CheckpointException ranks:{list(self._failures)}\n"
        for rank, (error, trace) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n{trace}" if trace else f"(RANK {rank}) "
            text += f"{type(error).__name__}: {error}\n"
        return text
