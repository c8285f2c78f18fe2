"""The example programs: the same losses on both libraries, and unbroken by an interruption."""
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SMALL = ["--text-limit", "60000", "--eval-windows", "4", "--eval-every", "10", "--context", "32", "--width", "16",
         "--layers", "1", "--heads", "2", "--batch", "4", "--bytes", "20", "--threads", "1"]


@pytest.fixture
def main(default_library):
    """The library that the program runs on. Each run is a process."""
    return default_library


def load(name):
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(EXAMPLES))


def command(folder, lib, *arguments):
    return [sys.executable, str(EXAMPLES / "gpt.py"), "--lib", lib, "--checkpoint", str(folder / "gpt.safetensors"),
            "--plot", str(folder / "gpt.svg"), *SMALL, *arguments]


def gpt(folder, lib, *arguments):
    done = subprocess.run(command(folder, lib, *arguments), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def losses(path):
    return [line.split() for line in path.read_text().splitlines()]


def test_a_resumed_run_repeats_an_unbroken_one(main, tmp_path):
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    text = gpt(whole, main.__name__, "--steps", "25", "--log", str(whole / "log"))
    gpt(broken, main.__name__, "--steps", "25", "--log", str(broken / "log"), "--stop-after", "13")
    again = gpt(broken, main.__name__, "--resume", "--log", str(broken / "log"))
    assert losses(whole / "log") == losses(broken / "log") and len(losses(whole / "log")) == 25
    assert text.splitlines()[-1:] == again.splitlines()[-1:]                # the completion, byte for byte
    assert (whole / "gpt.svg").read_text().count("<polyline") == 3
    sample = [gpt(whole, main.__name__, "--sample", "--seed", seed, "--prompt", "import ") for seed in ("1", "2")]
    assert sample[0] != sample[1] and sample[0].startswith(b"import ")


def test_an_interrupt_leaves_a_checkpoint(main, tmp_path):
    process = subprocess.Popen(command(tmp_path, main.__name__, "--steps", "1000000", "--log", str(tmp_path / "log")),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            time.sleep(0.1)
            if (tmp_path / "log").exists() and len((tmp_path / "log").read_text().splitlines()) > 2:
                break
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and b"go on with --resume" in output
    steps = len(losses(tmp_path / "log"))
    assert f"stopped after step {steps} of".encode() in output and (tmp_path / "gpt.safetensors").exists()


def test_both_libraries_learn_the_same(both, tmp_path):
    rows = []
    for lib in both:
        folder = tmp_path / lib.__name__
        folder.mkdir()
        gpt(folder, lib.__name__, "--steps", "30", "--log", str(folder / "log"))
        rows.append([float(loss) for _, loss in losses(folder / "log")])
    assert rows[0] == pytest.approx(rows[1], rel=1e-4)


def test_each_library_reads_the_others_checkpoint(both, tmp_path):
    for writer, reader in (both, both[::-1]):
        gpt(tmp_path, writer.__name__, "--steps", "20", "--stop-after", "10")
        gpt(tmp_path, reader.__name__, "--resume")


def test_a_damaged_checkpoint_is_refused(main, tmp_path):
    gpt(tmp_path, main.__name__, "--steps", "3")
    path = tmp_path / "gpt.safetensors"
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:100], b"\xff" * 16 + whole[16:], whole[:-50]):
        path.write_bytes(damaged)
        done = subprocess.run(command(tmp_path, main.__name__, "--sample"), capture_output=True, timeout=300)
        assert done.returncode == 1 and b"gpt.safetensors" in done.stderr


def test_draws_are_xorshift64_star():
    draws = load("gpt").Draws(1)
    assert draws.state == 0x910A2DEC89025CC1                    # splitmix64's first value after 1
    assert all(0 <= draws.next() < 1 for _ in range(1000))


def test_choosing_a_byte():
    choose = load("gpt").choose
    logits = [0.0, 2.0, 2.0, -1.0]
    assert choose(logits, 0.99, 0, 0) == 1                      # temperature 0: the largest, of equals the lower byte
    assert [choose(logits, number, 1.0, 2) for number in (0.0, 0.49, 0.51, 0.999)] == [1, 1, 2, 2]
    assert choose(logits, 0.0, 1.0, 0) == 0 and choose(logits, 0.9999, 1.0, 0) == 3
    assert choose([0.0] * 256, 0.5, 1.0, 0) == 128


def test_bigram_loss_of_text_without_surprises():
    gpt_module = load("gpt")
    text = b"ab" * 100000
    assert gpt_module.bigram_loss(text, [b"abab"]) < 0.001
    assert gpt_module.bigram_loss(text, [b"ba" * 10]) < 0.001


def test_checkpoints_hold_every_dtype(lib, tmp_path):
    checkpoint = load("checkpoint")
    tensors = {"a": lib.arange(6.0).reshape(2, 3), "b": lib.tensor([True, False]), "c": lib.tensor(3, dtype=lib.int64),
               "d": lib.zeros(0, 2), "e": lib.arange(6.0).reshape(2, 3).t(), "f": lib.ones(3, dtype=lib.bfloat16)}
    checkpoint.save(lib, str(tmp_path / "x"), tensors, {"key": "value"})
    loaded, metadata = checkpoint.load(lib, str(tmp_path / "x"))
    assert metadata == {"key": "value"} and set(loaded) == set(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
        assert loaded[name].tolist() == tensor.tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_pictures_are_well_formed(tmp_path):
    import xml.etree.ElementTree as ElementTree
    pictures = load("pictures")
    pictures.loss_plot(tmp_path / "a.svg", "<losses>", [(1, 5.0), (2, float("nan")), (3, 2.5)],
                       [(3, 3.0)], ("level", 4.0))
    pictures.loss_plot(tmp_path / "b.svg", "nothing", [], [])
    pictures.confusion_matrix(tmp_path / "c.svg", "digits", [[3, 1], [0, 0]])
    for name in "abc":
        ElementTree.parse(tmp_path / f"{name}.svg")


def test_a_loss_that_is_larger_is_above():
    gpt = load("gpt")
    assert gpt.beside(1.5, 2.0) == "25.0% below it" and gpt.beside(2.106, 2.0) == "5.3% above it"
