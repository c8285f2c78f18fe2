from . import DataParallel, data_parallel  # noqa: F401
