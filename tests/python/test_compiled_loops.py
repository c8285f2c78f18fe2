"""tede.compile, tier 2: groups of calls as loops that a C compiler makes, beside tier 1 and beside calls one by one."""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import time

import pytest
import tede
from tede import _C
import tede.nn.functional as F

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "loops"
    monkeypatch.setenv("TEDE_KERNEL_CACHE", str(folder))
    monkeypatch.delenv("TEDE_COMPILER", raising=False)
    return folder


def rand(*sizes, **options):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes)), **options) * 2 - 1


def wait():
    end = time.monotonic() + 300
    while any(state == "building" for state, *_ in _C._region_plans()):
        assert time.monotonic() < end, "a loop isn't built"
        time.sleep(0.02)


def compiled(f, *args, **options):
    """f in tier 2: what its third run gives, how many of its groups loops have done there, and the plans that it has made."""
    before = len(_C._region_plans())
    g = tede.compile(f, options={"tier": 2, **options})
    g(*args)
    wait()
    g(*args)
    groups = tede.compiler.stats()["compiled_groups"]
    result = g(*args)
    return result, tede.compiler.stats()["compiled_groups"] - groups, _C._region_plans()[before:]


def close(a, b):
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            close(x, y)
    else:
        tede.testing.assert_close(a, b)


def gelu(x):
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())


def several(x):
    y = x.sin() * 2
    return y, y.exp() + x, (y * y + 1).log().sqrt().sigmoid()


def broadcast(x):
    return (x + x[0]) * x[:, :1] - x[:, 1:2].expand_as(x).abs()


def strided(x):
    return x.t() * 2 + x.t().exp(), x[:, ::2] * x[:, 1::2] - 1


def conversions(x):
    h, i = x.half() * 2 + 1, (x * 100).int()
    b = (i + 3).bfloat16() * 0.5
    return h.float() * x, (i * 3 + 1).to(tede.uint8), b + 1, (x > 0) & (i < 5), tede.where(x > 0, x, -1.) * 2, (x.double() * x).exp()


def in_place(x):
    y = x * 2
    y.add_(1).mul_(x)
    z = y.exp()
    y.clamp_(min=0)
    return y, z


def layer_norm(x):
    d = x - x.mean(-1, keepdim=True)
    return d / ((d * d).mean(-1, keepdim=True) + 1e-5).sqrt() * x[0] + x[1]


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def rows(x):
    s = (x * x).sum(-1)
    return x / s[:, None], s.sqrt(), x.exp().amin(-1) + 1, (x * 3).amax(1, keepdim=True) - x


def doubles(x):
    x = x.double()
    return (x - x.mean(-1, keepdim=True)).exp() * 2, x.tanh().sum(-1) + 1


def halves(x):
    x = x.bfloat16()
    return (x - x.mean(-1, keepdim=True)) * x.float().sum(-1, keepdim=True).sigmoid()


def integers(x):
    i = (x * 100).int()
    return (i + 1).sum(-1), (i * 2).amax(-1) - 1, (i & 7) + i.amin(-1, keepdim=True)


def cube(x):
    x = x.view(5, -1, x.shape[-1])
    return (x - x.mean(-1, keepdim=True)) * 2


def several_dims(x):
    return (x.view(x.shape[0], 3, -1).exp() * 2).sum((1, 2)) + 1


def rotary(x):
    a, b = x[:, :150], x[:, 150:]
    return tede.cat((a * x[0, :150] - b * 2, b * x[1, :150] + a * 3), -1)


def joined(x):
    i = (x * 100).int()
    return tede.cat([x * 2, i + 1, tede.empty(0), x.abs()], 1), (x - 1).exp()


def parts(x):
    y = tede.empty_like(x)
    y[:, :100] = x[:, 100:200] * 2
    y[:, 200:] = (x[:, :100] * 3).exp()
    y[:, 100:200] = y[:, 200:].sin() + 1
    return y


def overlapping_parts(x):
    y = tede.zeros_like(x)
    y[:, :100] += x[:, :100] + 1
    y[:, 50:150] += x[:, :100] - 1
    y[:, 1:101] += y[:, :100].clone() * 2
    return y


def channels_last(x):
    y = x.view(5, 8, 30, 50).to(memory_format=tede.channels_last)
    return (y * 2 + 1).relu() * y, (y.sigmoid() - y.mean((0, 2, 3), keepdim=True)) * 3


PROGRAMS = [rotary, joined, parts, channels_last, several_dims, gelu, several, broadcast, strided, conversions, in_place, layer_norm, softmax, rows,
            doubles, halves, integers, cube]


@needs_compiler
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_results(program):
    x = rand(200, 300)
    result, groups, plans = compiled(program, x)
    close(result, program(x))
    assert groups > 0, plans
    assert not [why for state, _, why, *_ in plans if state == "discarded"], plans


@needs_compiler
def test_parts_that_overlap_are_written_one_after_another():
    x = rand(200, 300)
    result, groups, _ = compiled(overlapping_parts, x)
    assert result.equal(overlapping_parts(x)) and not groups


@needs_compiler
def test_what_is_not_a_number():
    x = rand(200, 300)
    x[3, 5], x[4], x[5, 1] = float("nan"), float("-inf"), float("inf")
    result, groups, _ = compiled(lambda x: (softmax(x), (x * 2).amax(-1) + 1, (x * 2).amin(-1) + 1, x.exp() - x), x)
    assert groups
    close(tuple(y.nan_to_num() for y in result), tuple(y.nan_to_num() for y in (softmax(x), (x * 2).amax(-1) + 1, (x * 2).amin(-1) + 1, x.exp() - x)))
    assert result[1][3].isnan() and result[2][3].isnan() and not result[1][4].isnan()


@needs_compiler
def test_sizes_are_no_part_of_a_plan():
    def norm(x, w):
        return (x - x.mean(-1, keepdim=True)) * w * 3
    f = tede.compile(norm, options={"tier": 2})
    w = rand(777)
    before = len(_C._region_plans())
    for n in range(90, 110):
        x = rand(n, 777)
        f(x, w)
        wait()
        close(f(x, w), norm(x, w))
    assert len(_C._region_plans()) == before + 1
    assert _C._region_plans()[before][4] > 20
    close(f(rand(300, 555), w[:555]), norm(rand(300, 555), w[:555]))
    assert len(_C._region_plans()) == before + 1


@needs_compiler
def test_numbers_are_no_part_of_a_plan():
    def step(x, by):
        return x * by + (x - by).sinh()
    f = tede.compile(step, options={"tier": 2})
    x = rand(200, 300)
    before = len(_C._region_plans())
    f(x, 0.5)
    wait()
    for by in (0.25, 3.5, -1., 2):
        close(f(x, by), step(x, by))
    assert len(_C._region_plans()) <= before + 2      # of floats, and of the whole number


@needs_compiler
def test_threads_share_the_rows():
    x = rand(3000, 300)
    threads = tede.get_num_threads()
    tede.set_num_threads(4)
    try:
        result, groups, _ = compiled(lambda x: (layer_norm(x), gelu(x)), x)
    finally:
        tede.set_num_threads(threads)
    close(result, (layer_norm(x), gelu(x)))
    assert groups


@needs_compiler
def test_training():
    def step(x, w):
        y = (x * w).tanh() * 2
        loss = ((y - 1) ** 2).sum()
        loss.backward()
        g, w.grad = w.grad, None
        return loss.detach(), g
    x, w = rand(200, 300), rand(300).requires_grad_()
    result, groups, plans = compiled(step, x, w)
    close(result, step(x, w))
    assert groups, plans


@needs_compiler
def test_default_compiles_what_comes_again():
    def f(x):
        return (x * 3).cosh() - x.erf() * 2
    g, x = tede.compile(f), rand(200, 300)
    before = len(_C._region_plans())
    g(x)
    assert _C._region_plans()[before][0] == "cold"
    for _ in range(3):
        g(x)
    wait()
    for _ in range(10):
        close(g(x), f(x))
    state, source, why, runs, native = _C._region_plans()[before]
    assert state == "compiled" and runs == 14 and native >= 3


def test_tier_1_makes_no_plans():
    x = rand(200, 300)
    before = len(_C._region_plans())
    f = tede.compile(lambda x: x.atan() * 7 + x, options={"tier": 1})
    for _ in range(6):
        assert tede.equal(f(x), x.atan() * 7 + x)
    assert len(_C._region_plans()) == before


def test_options():
    with pytest.raises(RuntimeError, match="tier is 1 or 2"):
        tede.compile(gelu, options={"tier": 3})
    with pytest.raises(RuntimeError, match="Unrecognized mode=quick"):
        tede.compile(gelu, mode="quick")
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        assert tede.compile(gelu, mode=mode)(rand(3)).shape == (3,)


# ---- compilers that aren't as they should be

def script(tmp_path, text):
    path = tmp_path / "compiler"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def discarded(tmp_path, text, words):
    x = rand(200, 300)
    result, groups, plans = compiled(gelu, x, compiler=script(tmp_path, text) if text else str(tmp_path / "nothing"))
    assert tede.equal(result, tede.compile(gelu, options={"tier": 1})(x))
    assert groups == 0
    (state, source, why, *_), = plans
    assert state == "discarded" and words in why
    return why


def test_no_compiler(tmp_path):
    before = tede.compiler.stats()["discarded_plans"]
    discarded(tmp_path, "", "can't be started: No such file")
    assert tede.compiler.stats()["discarded_plans"] == before + 1


def test_a_compiler_that_fails(tmp_path):
    discarded(tmp_path, 'case "$1" in --version) echo 1;; *) echo "no room" >&2; exit 3;; esac\n', "ended with 3: no room")


def test_a_compiler_that_has_no_version(tmp_path):
    discarded(tmp_path, "exit 4\n", "ended with 4")


def test_a_compiler_that_is_killed(tmp_path):
    discarded(tmp_path, 'case "$1" in --version) echo 2;; *) kill -9 $$;; esac\n', "ended by signal 9")


def test_a_compiler_that_writes_nothing(tmp_path):
    discarded(tmp_path, "exit 0\n", "has written no object")


def test_a_compiler_that_writes_what_is_no_object(tmp_path):
    discarded(tmp_path, 'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then yes words | head -c 4000 > "$2"; fi; shift; done\n', "can't be loaded")


def test_a_compiler_that_prints_without_end(tmp_path):
    discarded(tmp_path, 'case "$1" in --version) echo 3;; *) yes words;; esac\n', "prints without end")


def test_a_compiler_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("TEDE_COMPILER_SECONDS", "1")
    discarded(tmp_path, 'case "$1" in --version) echo 4;; *) sleep 1000;; esac\n', "doesn't end")


@needs_compiler
def test_a_compiler_that_computes_something_else(tmp_path):
    discarded(tmp_path, f'case "$1" in --version) echo 5;; *) exec {COMPILER} -Dtd_tanh_f32=td_wrong "$@";; esac\n'
              .replace("-Dtd_tanh_f32=td_wrong", "-Dtanh_is_wrong '-Dtd_joined_loop(a,b,c,d,e,f)=td_joined_loop(a, b, c, d, e, f) { } "
                       "void td_other_loop(a, b, c, d, e, f)'"), "differ from those of tier 1")


def test_the_environment_names_the_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("TEDE_COMPILER", "")
    x = rand(200, 300)
    _, groups, plans = compiled(lambda x: gelu(x).cos(), x)
    assert groups == 0 and "names no compiler" in plans[0][2]
    f, before = tede.compile(lambda x: gelu(x).sin()), len(_C._region_plans())
    for _ in range(6):
        assert tede.equal(f(x), gelu(x).sin())
    assert len(_C._region_plans()) == before


# ---- the folder

def in_process(code, **environment):
    text = f"import sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\nfrom test_compiled_loops import *\n" + code
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


ONE = "r, groups, plans = compiled(gelu, rand(200, 300))\nassert groups\nprint(tede.compiler.stats()['cache_hits'], plans[0][1] or '-')\n"


@needs_compiler
def test_the_next_process_finds_it(cache):
    hits, source = in_process(ONE)
    assert hits == "0" and pathlib.Path(source).parent == cache and "td_joined_loop" in pathlib.Path(source).read_text()
    assert in_process(ONE) == ["1", source]
    names = sorted(path.suffix for path in cache.iterdir())
    assert names == [".c", ".so"]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    pathlib.Path(source).write_text("other")
    assert in_process(ONE) == ["0", source]


@needs_compiler
def test_a_folder_that_others_write_is_not_used(cache):
    cache.mkdir()
    cache.chmod(0o777)
    assert in_process(ONE) == ["0", "-"]
    assert not list(cache.iterdir())


@needs_compiler
def test_an_empty_folder_keeps_nothing(cache):
    assert in_process(ONE, TEDE_KERNEL_CACHE="") == ["0", "-"]


@needs_compiler
def test_the_folder_is_bounded(cache):
    assert in_process(ONE + "r, groups, plans = compiled(several, rand(200, 300))\nassert groups\n", TEDE_KERNEL_CACHE_BYTES="40000")[0] == "0"
    assert sum(path.stat().st_size for path in cache.iterdir()) <= 40000


@needs_compiler
def test_many_processes_at_once(cache):
    text = f"import sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\nfrom test_compiled_loops import *\n" + ONE
    running = [subprocess.Popen([sys.executable, "-c", text], env=dict(os.environ)) for _ in range(3)]
    assert [process.wait(600) for process in running] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 2


@needs_compiler
def test_after_a_fork(cache, tmp_path):
    slow = script(tmp_path, f'case "$1" in --version) echo 6;; *) sleep 2; exec {COMPILER} "$@";; esac\n')
    in_process(f"""
import os
from tede import _C
f, x = tede.compile(gelu, options={{"tier": 2, "compiler": {slow!r}}}), rand(200, 300)
f(x)
child = os.fork()
f(x)
wait()
f(x)
f(x)
assert _C._region_plans()[0][0] == "compiled", _C._region_plans()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


def test_the_program_ends_while_a_compiler_runs(tmp_path):
    slow = script(tmp_path, f'case "$1" in --version) echo 7;; *) echo $$ > {tmp_path}/pid; sleep 1000;; esac\n')
    in_process(f"""
f = tede.compile(gelu, options={{"tier": 2, "compiler": {slow!r}}})
f(rand(200, 300))
end = time.monotonic() + 300
while not os.path.exists({str(tmp_path / "pid")!r}):
    assert time.monotonic() < end
    time.sleep(0.02)
""")
    pid, end = int((tmp_path / "pid").read_text() or 0), time.monotonic() + 60
    while pid and pathlib.Path(f"/proc/{pid}").exists() and "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < end, "the compiler still runs"
        time.sleep(0.02)


@needs_compiler
def test_explain():
    def f(x):
        return (x * 5).log1p() + x.abs()
    g, x = tede.compile(f, options={"tier": 2}), rand(200, 300).abs()
    explain = tede.compiler.explain(g)
    assert "tier 1, building" in str(explain(x)) or "tier 1" in str(explain(x))
    wait()
    explain(x)
    part, = explain(x).parts
    assert [plan.tier for plan in part.plans] == [2] and part.plans[0].state == "compiled"
    assert pathlib.Path(part.plans[0].source).exists() and "tier 2, compiled: " in str(part)


@needs_compiler
def test_layers_in_the_default_mode():
    def block(x, w):
        return F.gelu(x * w) * F.silu(x) + F.softplus(x)
    f, x, w = tede.compile(block), rand(300, 200), rand(200)
    for _ in range(12):
        close(f(x, w), block(x, w))
        wait()
