"""Runs the C test programs in a folder, passing on further arguments, and sums up: `N passed, N failed`.  As many run at
once as there are cores.  `--under COMMAND` runs them by an emulator, which TEDE_EMULATED=1 announces to them."""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys


def main():
    folder, *more = sys.argv[1:]
    under = shlex.split(more[1]) if more[:1] == ['--under'] else []
    more = more[2:] if under else more
    environment = {**os.environ, 'TEDE_EMULATED': '1'} if under else None
    programs = sorted(p for p in pathlib.Path(folder).glob('test_*') if p.is_file() and os.access(p, os.X_OK))
    if not programs:
        sys.exit(f'no test programs in {folder}')
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda p: subprocess.run([*under, str(p.resolve()), *more], capture_output=True, text=True, env=environment), programs)
    for program, done in zip(programs, runs, strict=True):
        found = re.search(r'(\d+) passed, (\d+) failed', done.stdout)
        counts = tuple(map(int, found.groups())) if found else (0, 1)
        if done.returncode and not counts[1]:
            counts = counts[0], 1
        passed, failed = passed + counts[0], failed + counts[1]
        if counts[1]:
            print(f'---- {program.name} {" ".join(more)} (exit code {done.returncode})\n{done.stdout[-4000:]}{done.stderr[-6000:]}')
    print(f'C tests {" ".join(more)}: {len(programs)} programs'.replace('  ', ' '))
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0)


if __name__ == '__main__':
    main()
