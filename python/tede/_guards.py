"""What programs ask of torch.compile's state: there is none."""


def active_fake_mode():
    """None: no tensors are faked."""
    return None


def detect_fake_mode(inputs=None):
    """None: no tensors are faked."""
    return None


class TracingContext:
    """What is traced; nothing."""

    @staticmethod
    def try_get():
        return None
