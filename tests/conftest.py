"""Tests that press Ctrl-C need it to be heard: a shell starts what runs in its background deaf to it, children included."""
import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    from xdist import workermanage
    # A worker that counts lines writes its counts when it ends; on a busy machine that takes longer than the ten seconds it is given.
    workermanage.NodeManager.EXIT_TIMEOUT = 300
except ImportError:
    pass
