"""python -m tede and python -m tede.utils.bottleneck; profiles in notebooks, with their column of products."""
import json
import subprocess
import sys

import tede


def run(*arguments):
    return subprocess.run([sys.executable, '-m', *map(str, arguments)], capture_output=True, text=True)


def test_what_is_installed_and_fast_is_printed():
    done = run('tede')
    assert done.returncode == 0, done.stderr
    for word in tede.__version__, tede._C._cpu_capability(), 'GFLOP/s', 'GB/s', 'cuda', 'opencl', 'scipy-openblas32', 'product, float32':
        assert word in done.stdout
    found = json.loads(run('tede', '--json', '--quick').stdout)
    assert found['version'] == tede.__version__ and found['speeds'] == [] and set(found['devices']) == {'cuda', 'opencl'}


def test_the_bottleneck_is_found_in_python_and_in_operators(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('import sys, time\nimport tede\n\ndef waits():\n    time.sleep(0.2)\n\nx = tede.randn(100, 100)\nwaits()\n'
                      'y = x @ x\nx.t().reshape(-1)\nassert sys.argv[1:] == ["3"]\n')
    done = run('tede.utils.bottleneck', script, '3')
    assert done.returncode == 0, done.stderr
    assert 'time.sleep' in done.stdout and 'y = x @ x' in done.stdout and '1 hidden copy' in done.stdout


def test_products_are_counted_in_their_own_column():
    x, image = tede.randn(64, 64), tede.randn(1, 3, 8, 8)
    with tede.profiler.profile(with_flops=True) as profile:
        x @ x
        tede.nn.functional.linear(x[:8], x, x[0])
        tede.nn.functional.conv2d(image, tede.randn(4, 3, 3, 3))
        tede.randn(2, 3, 4, 5) @ tede.randn(5, 7)
    counts = [(e.name, e.flops) for e in profile.events() if e.flops]
    assert counts == [('aten::matmul', 2 * 64 ** 3), ('aten::linear', 2 * 8 * 64 * 64), ('aten::convolution', 7776),
                      ('aten::matmul', 2 * 2 * 3 * 4 * 5 * 7)]
    table = profile.key_averages().table()
    assert 'Total KFLOPs' in table and '525.968' in table
    shown = profile._repr_html_()
    assert '525.968' in shown and '<table>' in shown and '<code>aten::matmul</code>' in shown
