"""Parts of a program that the library names itself, where a profile records them."""
from sys import modules


def recording():
    """Whether a profile records in this thread."""
    listening = modules.get("tede.profiler._listen")
    return listening is not None and getattr(listening.running, "listener", None) is not None


def part(name):
    """A context, for where recording() holds."""
    return modules["tede.profiler._listen"].record_function(name)
