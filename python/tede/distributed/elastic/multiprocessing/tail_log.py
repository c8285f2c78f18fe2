"""Copying what is written to files of several processes to one stream, each line with its process's name."""
import os
import threading

__all__ = ["TailLog"]


class TailLog:
    """Follows `log_files` ({local rank: path}) from start() to stop(); a line gets `log_line_prefixes[rank]`, else [namerank]:."""

    def __init__(self, name, log_files, dst, log_line_prefixes=None, interval_sec=0.1, log_line_filter=None):
        self._name, self._files, self._dst = name, log_files, dst
        self._prefixes, self._interval = log_line_prefixes or {}, interval_sec
        self._wanted = log_line_filter or (lambda line: True)
        self._end, self._thread = threading.Event(), None
        self._error = None

    def start(self):
        if self._files and self._thread is None:
            self._thread = threading.Thread(target=self._follow, name=f"tail_{self._name}", daemon=True)
            self._thread.start()
        return self

    def _follow(self):
        opened, rests = {}, {}
        try:
            while True:
                last = self._end.is_set()       # before reading: what was written until then is read
                for rank, path in self._files.items():
                    if rank not in opened and os.path.exists(path):
                        opened[rank], rests[rank] = open(path, errors="replace"), ""
                    if rank in opened:
                        *lines, rests[rank] = (rests[rank] + opened[rank].read()).split("\n")
                        if last and rests[rank]:
                            lines.append(rests[rank])
                        self._write(rank, lines)
                self._dst.flush()
                if last:
                    return
                self._end.wait(self._interval)
        except Exception as error:
            self._error = error
        finally:
            for file in opened.values():
                file.close()

    def _write(self, rank, lines):
        for line in lines:
            if self._wanted(line):
                self._dst.write(f"{self._prefixes.get(rank, f'[{self._name}{rank}]:')}{line}\n")

    def stop(self):
        """Copy what is left, and end."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise RuntimeError(f"the {self._name} log couldn't be copied") from error

    def stopped(self):
        return self._end.is_set()
