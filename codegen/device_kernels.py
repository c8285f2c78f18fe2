"""Kernels for devices: src/kernels/device/*.ck as text in the library, and the table of the operators that have functions
td_on_device_... in the C files beside them (src/kernels/device/kernel.h)."""
import pathlib
import re

from .maths import without_comments

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / 'src/kernels/device'
DEFINED = re.compile(r'^(?:int |td_tensor \*)td_on_device_(\w+)\(', re.M)
INCLUDE = re.compile(r'^#include "(?:kernels/device/)?(\w+\.ck)"\n', re.M)
BLANK = re.compile(r'\n\s*\n+')


def text_of(path):
    """What a device's compiler gets: without what is for the host (#ifdef TD_HOST isn't defined there), comments and blank lines."""
    text = INCLUDE.sub(lambda m: text_of(FOLDER / m[1]), path.read_text())
    return BLANK.sub('\n', re.sub(r'[ \t]+$', '', without_comments(text), flags=re.M)).lstrip('\n')


def quoted(text):
    return '\n'.join('    "' + line.replace('\\', '\\\\').replace('"', '\\"') + '\\n"' for line in text.splitlines())


def sources():
    lines = ['/* Generated: kernels in the common dialect, from src/kernels/device. */']
    for path in sorted(FOLDER.glob('*.ck')):
        lines += [f'extern const char td_source_{path.stem}[];', f'const char td_source_{path.stem}[] =', quoted(text_of(path)) + ';']
    return '\n'.join(lines) + '\n'


def defined():
    return {name for path in sorted(FOLDER.glob('*.c')) for name in DEFINED.findall(path.read_text())}


def table(families):
    """Structured operators are registered as they are; what stands around the others' functions leaves to the CPU what they can't do."""
    have, used, code, rows = defined(), set(), [], []
    for groups in families.values():
        for group in groups:
            op = group[0]
            if op.target or op.kind not in ('kernel', 'native', 'composite') or 'each' in op.entry or 'copy_of' in op.entry:
                continue
            name = re.search(r'(td_\w+)\(', op.on_device)[1]
            if 'device' not in op.entry and name.removeprefix('td_on_device_') not in have:
                continue
            structured = op.kind == 'kernel'
            code += [] if name in used else [op.on_device + ';']
            used.add(name)
            code.append(f'static td_op *op_{op.c};')
            if not structured:
                fail, kind = ('!result', 'td_tensor *') if op.result == 'tensor' else ('result', 'int ')
                given = ', '.join(op.names())
                tensors = [a for a in op.schema.arguments if a.is_tensor and not (a.list and a.optional_items)]
                lists = ', '.join(f'{{n_{a.c}, {a.c}}}' if a.list else f'{{1, &{a.c}}}' for a in tensors)
                several = len(tensors) + sum(a.list for a in tensors) > 1
                check = f'''    if (TD_UNLIKELY(td_check_one_device(op_{op.c}, {len(tensors)}, (td_spec_inputs[]){{{lists}}})))
        return {'NULL' if op.result == 'tensor' else '-1'};
''' if several else ''
                code.append(f'''static {op.declaration("device_" + op.c, ["td_keyset keys"])}
{{
{check}    {kind}result = {name}({given});
    if (TD_UNLIKELY({fail}) && td_is_left_to_cpu(keys))
        return (({op.returns}(*)({", ".join(op.parameters(["td_keyset keys"]))}))op_{op.c}->from_boxed)(keys, {given});
    return result;
}}''')
            rows.append(f'    {{"{op.full_name}", (td_kernel){name if structured else "device_" + op.c}, {str(structured).lower()}, &op_{op.c}}},')
    lost = have - {name.removeprefix('td_on_device_') for name in used}
    if lost:
        raise SystemExit(f'src/kernels/device: no operator is named {", ".join(sorted(lost))}')
    return '\n'.join(['/* Generated: the operators that devices with programs have kernels for. */', '#include "dispatch/op.h"', '#include "dispatch/spec.h"',
                      '#include <tede/geometry.h>', '#include <tede/list.h>', '', *code, '', 'const td_accelerated td_accelerated_ops[] = {', *rows,
                      '    {0},', '};', ''])
