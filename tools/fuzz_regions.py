"""Random programs (fuzz_programs.py), run as they are and within a region: every bit, error and version must be the same.

    python tools/fuzz_regions.py --seed 1 --programs 2000

Slabs are of 256 bytes and nothing is too small to be recorded, so that groups are made of small tensors, too.  PyTorch draws the programs and must be
installed beside tede.  A worker process runs them, so that a crash is a difference."""
import argparse
import math
import os
import re
import resource
import warnings

import fuzz_programs


def outcome(run):
    """None, or what was raised."""
    try:
        run()
    except MemoryError:
        return 'out of memory'
    except Exception as error:
        return 'out of memory' if "can't allocate" in str(error) else f'{type(error).__name__}: {str(error)[:200]}'
    return None


def tensors(space):
    """{name: tensor} of the program's variables, of their parts, and of gradients."""
    import tede
    found = {}
    for name, value in space.items():
        for k, x in enumerate(value if isinstance(value, tuple | list) else [value]):
            if isinstance(x, tede.Tensor):
                found[f'{name}[{k}]'] = x
                with warnings.catch_warnings():
                    warnings.simplefilter('ignore')
                    if x.grad is not None:
                        found[f'{name}[{k}].grad'] = x.grad
    return found


def facts(x):
    """What can be compared of a tensor: all but its address."""
    version = None if x.is_inference() else x._version
    needs, x = x.requires_grad, x.detach()
    shown = x.resolve_conj().resolve_neg().contiguous()
    bits = bytes(shown.untyped_storage())[:shown.numel() * shown.element_size()] if shown.numel() else b''
    return x.dtype, tuple(x.shape), x.stride(), x.storage_offset(), bits, needs, version


def run(lines, in_region):
    """(outcome of each line, {tensor: its facts})"""
    import tede
    space, outcomes = {'torch': tede, 'inf': math.inf, 'nan': math.nan}, []

    def program():
        for line in lines:
            code = compile(line, 'program', 'exec')
            outcomes.append(outcome(lambda code=code: exec(code, space)))
    tede.manual_seed(5)
    if in_region:
        program = tede.compile(program)
    program()
    return outcomes, {name: facts(x) for name, x in tensors(space).items()}


def difference(lines):
    """What differs, in words, or None."""
    (now, values), (late, late_values) = run(lines, False), run(lines, True)
    for line, a, b in zip(lines, now, late, strict=True):
        if a != b:
            return f'{line}\n    {a}\n    {b}'
    for name in values:
        if name not in late_values:
            return f'{name} is missing'
        if values[name] != late_values[name]:
            return f'{name}: {values[name]}\n    {late_values[name]}'
    return None


def shortened(lines):
    """Fewer lines that still make a difference."""
    k = len(lines) - 1
    while k >= 0:
        fewer = lines[:k] + lines[k + 1:]
        if difference(fewer):
            lines = fewer
        k -= 1
    return lines


def work(options, seeds, report):
    import tede
    import torch
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tede._C._region_set_slab(256, 0)
    surface = fuzz_programs.operators(torch, options.match)
    for seed in seeds:
        _, _, _, lines, *_ = fuzz_programs.program(seed, surface, (torch, torch), lambda text: None)
        # Memory that nobody has written has no bits to be compared.
        lines = [line for line in lines if not re.search(r'\bempty|\bnew_empty|out=torch\.tensor\(\[\]', line)]
        report(f'program {seed} {lines!r}')
        found = difference(lines)
        if found and not difference(lines[:0]):
            lines = shortened(lines)
        report(f'result {(found and difference(lines) or found, lines)!r}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--programs', type=int, default=1000)
    parser.add_argument('--match', type=re.compile, help='call operators of such names alone')
    options = parser.parse_args()
    seeds, failed = list(range(options.seed * 10**6, options.seed * 10**6 + options.programs)), 0
    while seeds:
        come, go = os.pipe()
        worker = os.fork()
        if not worker:
            os.close(come)
            work(options, seeds, lambda text: os.write(go, text.replace('\n', '\\n').encode() + b'\n'))
            os._exit(0)
        os.close(go)
        seed = lines = None
        with os.fdopen(come) as reports:
            for text in reports:
                word, _, rest = text.rstrip('\n').partition(' ')
                if word == 'program':
                    number, _, lines = rest.partition(' ')
                    seed, lines = int(number), eval(lines)
                else:
                    seeds.remove(seed)
                    seed = None
                    found, lines = eval(rest)
                    if found:
                        failed += 1
                        print('\n'.join(lines), '\n  ', found[:1500], '\n', flush=True)
        status = os.waitpid(worker, 0)[1]
        if seed is not None:
            seeds.remove(seed)
            failed += 1
            print('\n'.join(lines), f'\n   crash: status {status}\n', flush=True)
        elif status:
            raise SystemExit(f'the worker ended with {status}')
    print(f'{options.programs} programs, {failed} differ')
    return failed > 0


if __name__ == '__main__':
    raise SystemExit(main())
