"""torch.distributed.elastic.timer: blocks of a program that may take so long, and a watchdog in another process that ends those who take longer.

    server = timer.LocalTimerServer(queue, max_interval=0.5)      # in the launcher
    server.start()
    timer.configure(timer.LocalTimerClient(queue))                # in a worker
    with timer.expires(after=60):
        step()"""
from tede.distributed.elastic.timer.api import TimerClient, TimerRequest, TimerServer, configure, expires  # noqa: F401
from tede.distributed.elastic.timer.file_based_local_timer import FileTimerClient, FileTimerRequest, FileTimerServer  # noqa: F401
from tede.distributed.elastic.timer.local_timer import LocalTimerClient, LocalTimerServer  # noqa: F401
