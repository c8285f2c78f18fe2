"""Tests that press Ctrl-C need it to be heard: a shell starts what runs in its background deaf to it, children included."""
import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
