"""What the fuzzers share: calls in a separate process, with limits, and what is wrong with how they end."""
import io
import os
import resource
import signal
import sys


def limit_memory(gigabytes):
    if 'LD_PRELOAD' not in os.environ:      # AddressSanitizer reserves terabytes; it has a limit of its own
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, resource.RLIM_INFINITY))


def make(calls, out, right, seconds):
    """Make [(title, call, whether it must be refused)] and write their titles, and behind ! what is wrong: an exception that
    right(error) doesn't accept, no exception where there must be one, or a Complaint that the call returns."""
    for name, call, strict in calls:
        signal.setitimer(signal.ITIMER_PROF, seconds)           # a signal that nobody handles
        signal.setitimer(signal.ITIMER_REAL, 6 * seconds)
        print(name.replace('\n', ' '), file=out, flush=True)
        try:
            complaint = call()
        except BaseException as error:
            if not right(error):
                print(f'!{type(error).__name__}: {error}'.replace('\n', ' ').encode('ascii', 'replace').decode(), file=out)
        else:
            if strict:
                print('!it is not refused', file=out)
            elif isinstance(complaint, Complaint):
                print(f'!{complaint}'.replace('\n', ' '), file=out)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)


class Complaint(str):
    """What a call that was made returns to say that something is wrong."""


def watched(title, calls, right, seconds, here=False):
    """make(calls) in a separate process, where not `here`: a crash or a hang ends that one. (How many calls were made, what is
    wrong, the title of the call that ended the process or None.)"""
    if here:
        out = io.StringIO()
        make(calls, out, right, 0)
        lines, status = out.getvalue().splitlines(), 0
    else:
        come, go = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(come)
                with os.fdopen(go, 'w', errors='replace') as out:
                    make(calls, out, right, seconds)
                status = 0
            finally:
                os._exit(status)
        os.close(go)
        with os.fdopen(come, errors='replace') as report:
            lines = report.read().splitlines()
        status = os.waitpid(child, 0)[1]
    wrong = [f'{lines[k - 1]}: {line[1:]}' for k, line in enumerate(lines) if line.startswith('!')]
    made = [line for line in lines if not line.startswith('!')]
    last = (made[-1] if made else title) if status else None
    if status:
        number = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-number).name if number < 0 else f'status {number}'
        wrong.append(f'{last}: the process ended with {how}')
    return len(made), wrong, last
