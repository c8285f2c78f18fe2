"""The queue of tasks of one DataLoader worker: a pipe, a thread that writes to it, and a list of what waits to be written."""
import queue
import threading
from multiprocessing.reduction import ForkingPickler


class TaskQueue:
    """Tasks on their way to one worker.

    put() doesn't block, whatever the worker does, and can be interrupted anywhere and called again: multiprocessing.Queue's holds a
    condition, which a KeyboardInterrupt at the end of its ``__enter__`` leaves locked for ever. The worker reads `receiver`, a Connection.
    """

    def __init__(self, context):
        self.receiver, self._sender = context.Pipe(duplex=False)
        self._waiting = queue.SimpleQueue()         # in C: an interrupt comes before or after its put
        self._thread = None

    def put(self, task):
        """Append a task; None is the last one."""
        self._waiting.put(None if task is None else ForkingPickler.dumps(task))
        if self._thread is None:
            self._thread = threading.Thread(target=_write, args=(self._waiting, self._sender), daemon=True)
            self._thread.start()


def _write(waiting, sender):
    """Write what is put, in order, and None as an object of its own; ends with it, or when the worker is gone."""
    with sender:
        while True:
            task = waiting.get()
            try:
                sender.send_bytes(ForkingPickler.dumps(None) if task is None else task)
            except OSError:
                return
            if task is None:
                return
