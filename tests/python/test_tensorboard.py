"""Event files: what is written is read back by hand, field by field, as TensorBoard would."""
import glob
import struct

import pytest
import tede
from tede.utils.tensorboard import SummaryWriter
from tede.utils.tensorboard.summary import hparams


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """[(number, value)] of a message."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        else:
            value, at = (struct.unpack_from("<d", data, at)[0], at + 8) if key & 7 == 1 else \
                (struct.unpack_from("<f", data, at)[0], at + 4)
        found.append((key >> 3, value))
    return found


def events(folder):
    """The events of the only file of a folder, as dicts of fields."""
    (path,) = glob.glob(f"{folder}/events.out.tfevents.*")
    with open(path, "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        n = struct.unpack_from("<Q", data, at)[0]
        found.append(dict(fields(data[at + 12:at + 12 + n])))
        at += n + 16
    return found


def one(data, *path):
    """The value at a path of field numbers."""
    for number in path:
        data = dict(fields(data))[number]
    return data


def test_hyperparameters_are_summaries_of_the_plugin():
    experiment, start, end = (summary.SerializeToString() for summary in hparams(
        {"lr": 0.5, "name": "adam", "flag": True, "none": None, "x": tede.tensor(3)}, {"loss": 0}, {"name": ["adam", "sgd"]}))
    assert [one(s, 1, 1) for s in (experiment, start, end)] == [
        b"_hparams_/experiment", b"_hparams_/session_start_info", b"_hparams_/session_end_info"]
    assert all(one(s, 1, 9, 1, 1) == b"hparams" for s in (experiment, start, end))
    written = fields(one(experiment, 1, 9, 1, 2, 2))
    assert [(n, one(value, 1), one(value, 4)) for n, value in written[:4]] == [(4, b"lr", 3), (4, b"name", 1), (4, b"flag", 3), (4, b"x", 3)]
    assert [one(choice, 3) for n, choice in fields(one(written[1][1], 5))] == [b"adam", b"sgd"]
    assert written[4][0] == 5 and one(written[4][1], 1, 2) == b"loss"
    values = {one(entry, 1): fields(one(entry, 2))[0] for _, entry in fields(one(start, 1, 9, 1, 2, 3))}
    assert values == {b"lr": (2, 0.5), b"name": (3, b"adam"), b"flag": (2, 1.0), b"x": (2, 3.0)}
    assert one(end, 1, 9, 1, 2, 4, 1) == 1
    with pytest.raises(TypeError, match="hparam_dict should be a dictionary"):
        hparams(None, {})
    with pytest.raises(TypeError, match="should be a list of same type"):
        hparams({"lr": 0.5}, {}, {"lr": ["a"]})
    with pytest.raises(ValueError, match="value should be one of int, float, str, bool, or torch.Tensor"):
        hparams({"lr": [1]}, {})


def test_summaries_of_any_class_are_written(tmp_path):
    class Foreign:
        step = wall_time = 0

        def SerializeToString(self):
            return b"\x10" + bytes([self.step])             # field 2, the step

    with SummaryWriter(tmp_path) as writer:
        for summary in hparams({"a": 1}, {"b": 2}):
            writer.file_writer.add_summary(summary, 7)
        writer.file_writer.add_event(Foreign(), 9)
        writer.add_scalar("c", 0.5, 3)
    found = events(tmp_path)
    assert [event.get(2) for event in found[1:]] == [7, 7, 7, 9, 3]
    assert one(found[-1][5], 1, 1) == b"c" and one(found[-1][5], 1, 2) == 0.5


def test_hyperparameters_and_metrics_of_a_run(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"a": 1}, {"loss": 0.25}, run_name="run", global_step=2)
    tags = [one(event[5], 1, 1) for event in events(tmp_path / "run") if 5 in event]
    assert tags == [b"_hparams_/experiment", b"_hparams_/session_start_info", b"_hparams_/session_end_info", b"loss"]
