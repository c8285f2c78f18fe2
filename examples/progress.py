"""A progress bar in one line of the terminal; a line now and then where the output is no terminal."""
import shutil
import sys
import time


class Progress:
    """Shows how far a loop of `total` steps has come.

    `update(step, text)` may be called for every step: the terminal is written at most ten times a second, a file or a
    pipe once every `quiet_seconds`. `message(text)` prints a line that stays, above the bar.
    """

    def __init__(self, total, start=0, stream=None, quiet_seconds=10.0):
        self.total, self.first = total, start
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.interval = 0.1 if self.live else quiet_seconds
        self.began = self.shown = time.monotonic()
        self.paused = 0.0

    def update(self, step, text):
        now = time.monotonic()
        if now - self.shown < self.interval and step < self.total:
            return
        self.shown = now
        done = step - self.first
        left = (now - self.began - self.paused) * (self.total - step) / done if done else 0.0
        clock = f"{int(left) // 60}:{int(left) % 60:02d} left"
        if not self.live:
            print(f"step {step}/{self.total}  {text}  {clock}", file=self.stream, flush=True)
            return
        columns = shutil.get_terminal_size().columns
        tail = f" {step}/{self.total}  {text}  {clock}"
        room = max(0, min(30, columns - len(tail) - 3))
        filled = room * step // self.total if self.total else room
        bar = f"|{'█' * filled}{'░' * (room - filled)}|" if room >= 5 else ""
        self.stream.write(f"\r\x1b[2K{(bar + tail)[:columns - 1]}")
        self.stream.flush()

    def message(self, text):
        if self.live:
            self.stream.write("\r\x1b[2K")
        print(text, file=self.stream, flush=True)

    def pause(self, seconds):
        """Leave out `seconds` (an evaluation, say) from the estimate of the time left."""
        self.paused += seconds

    def close(self):
        if self.live:
            self.stream.write("\n")
            self.stream.flush()
