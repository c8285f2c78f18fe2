"""Run a small job of each library that people use with PyTorch, unmodified, on PyTorch and on tede, and compare what it prints.

    python tools/try_libraries.py --environment DIR               # all of tools/libraries/, in a virtual environment of their own
    python tools/try_libraries.py --match 'timm|peft' --write     # some; and write docs/libraries.md anew, keeping the other rows

A job is a program tools/libraries/with_NAME.py that imports torch and its library and prints figures. The first line of its docstring says
what it does; a line `pip: NAMES` names what it needs from PyPI beside torch; `tolerance: X` is relative and 2e-4 unless said. No job
reads the network: models are small and random. A job is run by `python JOB` and by `python -m tede.as_torch JOB`, one thread each."""
import argparse
import ast
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = ROOT / 'tools' / 'libraries'
PAGE = ROOT / 'docs' / 'libraries.md'
TORCH = 'torch==2.13.0'
NUMBER = re.compile(r'[-+]?(?:nan|inf|\d+\.?\d*(?:e[-+]?\d+)?)\b', re.IGNORECASE)
HEAD = '''# Libraries

Written by `tools/try_libraries.py --write`: each row is a program of `tools/libraries/` that trains or runs a small random model by the
library, unmodified, once on PyTorch 2.13 and once on tede (`python -m tede.as_torch`), with one thread. *Same* means that all it printed
agrees, numbers to the tolerance that the program names (2e-4 unless said).

What doesn't run: torchao 0.18 imports PyTorch's compiler (`torch._inductor`). The compiled operators of torchvision (`nms`, `roi_align`,
...) and torchaudio (`rnnt_loss`, ...) are tede's own, and are compared with the originals; torchvision's readers of image files are missing.

| library | version | what ran | figures |
|---|---|---|---|
'''


class Job:
    def __init__(self, path):
        self.path, self.name = path, path.stem.removeprefix('with_').replace('_', '-')
        doc = ast.get_docstring(ast.parse(path.read_text())) or ''
        self.title = doc.partition('\n')[0].rstrip('.')
        self.packages = self.said(doc, 'pip', self.name).split()
        self.tolerance = float(self.said(doc, 'tolerance', '2e-4'))

    @staticmethod
    def said(doc, key, default):
        found = re.search(rf'^{key}: (.*)$', doc, re.MULTILINE)
        return found[1] if found else default


def environment(folder):
    """The interpreter of a virtual environment with tede, as this tree builds it, and PyTorch."""
    python = folder / 'bin' / 'python'
    if not python.exists():
        venv.create(folder, with_pip=True)
        pip(python, TORCH)
    if subprocess.run([python, '-c', 'import tede'], capture_output=True).returncode:
        pip(python, str(ROOT))
    return python


def pip(python, *packages):
    subprocess.run([python, '-m', 'pip', 'install', '-q', *packages], check=True)


def lacking(python, package):
    """Whether NAME or NAME==VERSION isn't installed."""
    name, _, wanted = package.partition('==')
    found = version(python, name)
    return found is None or (wanted and found != wanted)


def version(python, package):
    code = f'import importlib.metadata as m; print(m.version({package!r}))'
    done = subprocess.run([python, '-c', code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def without_cuda(python):
    """A folder with what the compiled parts of torchvision and torchaudio are linked with, since PyPI has them built for CUDA, and PyTorch for
    the CPU lacks: libraries whose functions return 0, and which nothing on the CPU calls. Empty where nothing is lacking."""
    site = next((python.parent.parent / 'lib').glob('python3*/site-packages'))
    folder, libraries = python.parent.parent / 'without-cuda', site / 'torch' / 'lib'
    folder.mkdir(exist_ok=True)
    parts = [*site.glob('torchvision/_C.so'), *site.glob('torchaudio/lib/*.so')]
    if (libraries / 'libtorch_cuda.so').exists() or not parts:
        return folder

    def symbols(kind, files):
        lines = subprocess.run(['nm', '-D', kind, *files], check=True, capture_output=True, text=True).stdout.splitlines()
        return {line.split()[-1] for line in lines if len(line.split()) > 1 and line.split()[-2] != 'w'}
    lacking = symbols('--undefined-only', parts) - symbols('--defined-only', libraries.glob('libtorch*.so')) - symbols('--defined-only', libraries.glob('libc10.so'))
    runtime = {name.partition('@')[0] for name in lacking if '@libcudart' in name}
    plain = {name for name in lacking if '@' not in name}
    for library, names in ('libcudart.so.13', runtime), ('libtorch_cuda.so', plain), ('libc10_cuda.so', ()):
        source, script = folder / 'source.c', folder / 'script'
        source.write_text('\n'.join(f'void *{name}(void) {{ return 0; }}' for name in sorted(names)))
        script.write_text(f'{library} {{ global: *; }};' if names is runtime else '{ global: *; };')
        subprocess.run(['cc', '-w', '-shared', '-fPIC', source, f'-Wl,-soname,{library}', f'-Wl,--version-script={script}', '-o', folder / library], check=True)
    return folder


def run(python, job, *before, seconds, **more):
    """(lines, last lines of the errors, seconds) of a job in a process of its own."""
    settings = dict(os.environ, OMP_NUM_THREADS='1', MKL_NUM_THREADS='1', CUDA_VISIBLE_DEVICES='', HF_HUB_OFFLINE='1', PYTHONWARNINGS='ignore',
                    TQDM_DISABLE='1', PYTHONHASHSEED='0', **more)
    began = time.monotonic()
    try:
        done = subprocess.run([python, *before, job.path], capture_output=True, text=True, env=settings, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f'took more than {seconds} s', seconds
    took = time.monotonic() - began
    errors = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return (None if done.returncode else done.stdout.splitlines()), ' '.join(errors) or f'exit status {done.returncode}', took


def difference(ours, theirs, tolerance):
    """How two outputs differ: None, or words. What stands between the numbers must be the same."""
    if len(ours) != len(theirs):
        return f'{len(ours)} lines, {len(theirs)} of PyTorch'
    worst = 0.
    for mine, other in zip(ours, theirs):
        if NUMBER.sub('#', mine) != NUMBER.sub('#', other):
            return f'{mine!r}, PyTorch: {other!r}'
        for a, b in zip(map(float, NUMBER.findall(mine)), map(float, NUMBER.findall(other))):
            if math.isnan(a) != math.isnan(b) or (not math.isnan(a) and abs(a - b) > tolerance * max(abs(a), abs(b), 1e-3)):
                return f'{mine!r}, PyTorch: {other!r}'
            worst = max(worst, 0. if math.isnan(a) else abs(a - b))
    return None


def tried(python, job, seconds, install):
    """A row of the table, whether all is well, and the seconds of both processes."""
    missing = [name for name in job.packages if lacking(python, name)]
    if missing and install:
        pip(python, TORCH, *missing)
    theirs, trouble, their_time = run(python, job, seconds=seconds, LD_LIBRARY_PATH=str(without_cuda(python)))
    if theirs is None:
        return row(python, job, f'PyTorch: {trouble}'), False, (their_time,)
    ours, trouble, our_time = run(python, job, '-m', 'tede.as_torch', seconds=seconds)
    words = trouble if ours is None else difference(ours, theirs, job.tolerance)
    if ours is not None and not ours:
        words = 'prints nothing'
    return row(python, job, words or f'same, {len(ours)} line{"s" * (len(ours) > 1)}'), words is None, (their_time, our_time)


def row(python, job, words):
    package = job.packages[0].partition('==')[0]
    return f'| {job.name} | {version(python, package)} | {job.title} | {words.replace("|", "/")[:200]} |'


def write(rows):
    """docs/libraries.md with these rows, {name: row}, and those that it had of other jobs that are still there."""
    if PAGE.exists():
        for line in PAGE.read_text().splitlines():
            name = line.split('|')[1].strip() if line.startswith('| ') else ''
            if (JOBS / f'with_{name.replace("-", "_")}.py').exists():
                rows.setdefault(name, line)
    PAGE.write_text(HEAD + '\n'.join(rows[name] for name in sorted(rows)) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--match', type=re.compile)
    parser.add_argument('--environment', type=pathlib.Path, default=ROOT / 'build-libraries')
    parser.add_argument('--seconds', type=float, default=300, help='of each run')
    parser.add_argument('--no-install', action='store_true', help='what a job lacks is an error of it')
    parser.add_argument('--write', action='store_true', help='docs/libraries.md')
    options = parser.parse_args()
    python = environment(options.environment.absolute())
    rows, wrong = {}, []
    for job in map(Job, sorted(JOBS.glob('with_*.py'))):
        if options.match and not options.match.search(job.name):
            continue
        rows[job.name], well, times = tried(python, job, options.seconds, not options.no_install)
        print(rows[job.name], ', '.join(f'{t:.1f} s' for t in times), flush=True)
        if not well:
            wrong.append(job.name)
    print(f'{len(rows)} libraries, {len(wrong)} with differences{": " if wrong else ""}{", ".join(wrong)}')
    if options.write:
        write(rows)
    return bool(wrong) or not rows


if __name__ == '__main__':
    sys.exit(main())
