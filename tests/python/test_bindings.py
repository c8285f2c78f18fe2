"""The LuaJIT binding: operators from td_op_info, tensors, errors, and a network that learns."""
import os
import pathlib
import shutil
import subprocess

import pytest
import tede

FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'examples/bindings'
LUA = shutil.which('luajit')
pytestmark = pytest.mark.skipif(not LUA, reason='no luajit')


@pytest.fixture(scope='module')
def lua(tmp_path_factory):
    """run(program or file, arguments) -> what it printed."""
    out = tmp_path_factory.mktemp('lua')
    library = pathlib.Path(tede.__file__).parent / 'lib/libtede.so.0'
    environment = {**os.environ, 'LUA_PATH': f'{FOLDER}/?.lua;;', **({'TEDE_LIB': str(library)} if library.exists() else {})}

    def run(*arguments):
        done = subprocess.run([LUA, *map(str, arguments)], cwd=out, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout
    (out / 'operators.lua').write_text(run(FOLDER / 'generate.lua'))
    return run


def test_each_public_operator_has_a_function(lua):
    names = lua('-e', 'local t = require "tede".use "operators.lua"; for n in pairs(t) do print(n) end').split()
    assert {'add', 'matmul', 'softmax', 'cross_entropy_loss', 'linalg_svd', 'conv2d'} <= set(names) and len(names) > 1000


def test_tensors_compute_print_and_have_gradients(lua):
    program = '''local tede = require "tede".use "operators.lua"
local x = tede.tensor({2, 3}, {1, 2, 3, 4, 5, 6})
print(x + 1, 1 - x, -x, x:t():size()[1], tede.matmul(x, x:t()))
print(tede.sort(x, 1, true))
local w = tede.tensor({2}, {1, 2}):requires_grad()
local loss = (w * w):sum()
loss:backward()
print(w:grad(), loss:item())'''
    x = tede.arange(1., 7).reshape(2, 3)
    values, indices = x.sort(1, descending=True)
    expected = '\t'.join(map(str, (x + 1, 1 - x, -x, 3, x @ x.t()))) + f'\n{values}\t{indices}\n{tede.tensor([2., 4.])}\t5\n'
    assert lua('-e', program) == expected


def test_errors_are_luas(lua):
    program = '''local tede = require "tede".use "operators.lua"
local x = tede.tensor({2, 3}, {1, 2, 3, 4, 5, 6})
print(pcall(tede.matmul, x, x))
print(pcall(tede.add, x))'''
    printed = lua('-e', program)
    assert 'mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)' in printed and 'no overload takes these arguments' in printed


def test_a_network_learns(lua):
    last = lua(FOLDER / 'train_mlp.lua').splitlines()[-1]
    assert float(last.split()[-2]) > 90
