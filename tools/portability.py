"""Builds the C core for other compilers, C libraries and processors, and runs its C tests there: Clang, musl (without futexes,
whose header it lacks), and aarch64 under qemu-user, with and without SVE and in two widths of its registers.

Each has a separate build folder, optimised little: it is about what compiles and gives right results.  What is missing is
installed with apt-get by root, where APT=1 says so; otherwise it is named and not run."""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMULATOR = 'qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu '
# name, what it needs: program and Debian package, compiler, whether it makes code for aarch64, how its tests are run
BUILDS = [
    ('clang', {'clang-14': 'clang-14'}, 'clang-14', False, ['']),
    ('musl', {'musl-gcc': 'musl-tools'}, 'musl-gcc', False, ['']),
    ('aarch64', {'aarch64-linux-gnu-gcc': 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross', 'qemu-aarch64': 'qemu-user'}, 'aarch64-linux-gnu-gcc', True,
     [EMULATOR + 'cortex-a72', EMULATOR + 'max,sve-max-vq=1', EMULATOR + 'max,sve-max-vq=4']),
]


def run(*command):
    print('+', *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def install(programs):
    """Whether the programs are there, after an attempt to install them."""
    missing = ' '.join(package for program, package in programs.items() if not shutil.which(program)).split()
    if missing and os.environ.get('APT') == '1' and os.geteuid() == 0 and shutil.which('apt-get'):
        run('apt-get', 'update', '-qq')
        run('apt-get', 'install', '-y', '-qq', '--no-install-recommends', *missing)
        missing = []
    if missing:
        print(f'needs {" ".join(missing)} from Debian, which apt-get installs')
    return not missing


def machine_file(folder, compiler, other):
    """The arguments that set meson's compiler."""
    command = ['ccache', compiler] if shutil.which('ccache') else [compiler]
    lines = ['[binaries]', f'c = {command}']
    if other:
        lines += ["ar = 'aarch64-linux-gnu-ar'", "strip = 'aarch64-linux-gnu-strip'", '[properties]', 'needs_exe_wrapper = true', '[host_machine]',
                  "system = 'linux'", "cpu_family = 'aarch64'", "cpu = 'aarch64'", "endian = 'little'"]
    path = folder.with_suffix('.ini')
    path.write_text('\n'.join(lines) + '\n')
    return path


def main():
    wanted = sys.argv[2:] or [name for name, *_ in BUILDS]
    left_out = []
    for name, programs, compiler, other, runs in BUILDS:
        if name not in wanted:
            continue
        print(f'---- {name}', flush=True)
        if not install(programs):
            left_out.append(name)
            continue
        folder = ROOT / f'{sys.argv[1]}-{name}'
        meson, ninja = (str(pathlib.Path(sys.executable).parent / tool) for tool in ('meson', 'ninja'))
        kind = '--cross-file' if other else '--native-file'
        if not (folder / 'build.ninja').exists():
            run(meson, 'setup', folder, kind, machine_file(folder, compiler, other), '--buildtype=release', '-Doptimization=1', '-Dpython=false',
                '-Dtests=true')
        run(ninja, '-C', folder, '--quiet', '-j2', 'c-tests')
        for emulator in runs:
            run(sys.executable, 'tools/run_c_tests.py', folder / 'tests/c', *(['--under', emulator] if emulator else []))
    if left_out:
        print(f'not run: {", ".join(left_out)}')


if __name__ == '__main__':
    main()
