"""Streams and events of a device's module: tede.<name>.Stream, current_stream, stream."""
from tede import _C


class StreamContext:
    """Within it this thread's calls go to the stream, and its device is the current one; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()
        return self.stream

    def __exit__(self, *exception):
        if self.stream is not None:
            self.stream.__exit__(*exception)
        return False


class Streams:
    """The part of a device's module that is about order."""

    StreamContext = stream = StreamContext

    def _stream_class(self):
        module = self

        class Stream(_C.Stream):
            """Stream(device=None, priority=0): a queue of the device's work. Within `with stream:` calls go to it."""

            def __new__(cls, device=None, priority=0, **kwargs):
                return super().__new__(cls, module._of(device), priority=priority, **kwargs)

            def record_event(self, event=None):
                event = module.Event(device=self.device) if event is None else event
                event.record(self)
                return event

            @staticmethod
            def priority_range():
                """The least and the greatest priority, which is the lower number."""
                return 0, -1

        Stream.__module__ = self.__name__
        setattr(Stream, self.__name__.rpartition(".")[2] + "_stream", _C.Stream.native_handle)        # cuda_stream: libraries of a device are passed it
        return Stream

    def _event_class(self):
        module = self

        class Event(_C.Event):
            """Event(enable_timing=False): a position in a stream. It belongs to the index whose stream it is first recorded on."""

            def __new__(cls, enable_timing=False, blocking=False, interprocess=False, device=None):
                return super().__new__(cls, module._of(device), enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

        Event.__module__ = self.__name__
        return Event

    def current_stream(self, device=None):
        """Where this thread's calls go."""
        return _C._stream_current(self._of(device), self.Stream)

    def default_stream(self, device=None):
        """The stream that the device has from the start."""
        return _C._stream_first(self._of(device), self.Stream)

    def set_stream(self, stream):
        """This thread's calls go to the stream from now on; None changes nothing."""
        if stream is not None:
            _C._stream_set(stream)
