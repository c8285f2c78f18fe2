"""torch.distributed's questions, answered: there is no process group here, and none can be made."""


def is_available():
    """False: programs that ask first run on their own."""
    return False


def is_initialized():
    return False


def is_nccl_available():
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_torchelastic_launched = is_nccl_available


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'tede.distributed' has no attribute '{name}'")
    if name in ("ProcessGroup", "ReduceOp", "Backend", "Work"):
        return type(name, (), {"__module__": "tede.distributed"})

    def refuse(*args, **kwargs):
        raise NotImplementedError(f"torch.distributed.{name}: there are no process groups here (torch.distributed.is_available() "
                                  "is False)")
    refuse.__name__ = refuse.__qualname__ = name
    return refuse
