"""Event files: what is written is read back by hand, field by field, as TensorBoard would."""
import glob
import io
import struct
import wave
import zlib

import numpy as np
import pytest
import tede
from tede.utils.tensorboard import SummaryWriter, summary as summaries
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


def value(summary):
    """The only value of a summary, as a dict of fields."""
    return dict(fields(one(summary.SerializeToString(), 1)))


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def floats(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def pixels(picture):
    """The bytes of a PNG file of three channels, as this package writes it."""
    data = picture[picture.index(b"IDAT") + 4:picture.index(b"IEND") - 8]
    width, height = struct.unpack(">2I", picture[16:24])
    return np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_a_number_may_be_a_tensor_an_array_or_stored_as_a_tensor():
    for x in 2.5, tede.tensor([2.5], requires_grad=True), np.float64(2.5), np.array([[2.5]]):
        assert value(summaries.scalar("s", x)) == {1: b"s", 2: 2.5}
    new = value(summaries.scalar("s", .1, new_style=True, double_precision=True))
    assert (one(new[9], 1, 1), doubles(one(new[8], 6))) == (b"scalars", [.1])
    with pytest.raises(AssertionError, match="one element"):
        summaries.scalar("s", tede.ones(2))
    with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
        summaries.histogram("h", [1, 2], 3)


@pytest.mark.parametrize(("dtype", "number", "field", "read"), [
    ("float32", 1, 5, floats), ("float64", 2, 6, doubles), ("int64", 9, 10, list), ("uint8", 4, 16, list), ("bool", 10, 11, list), ("complex64", 8, 9, floats)])
def test_tensors_of_every_dtype(dtype, number, field, read):
    written = value(summaries.tensor_proto("t", tede.tensor([[1, 0], [1, 1]], dtype=getattr(tede, dtype))))[8]
    assert one(written, 1) == number and [one(dim, 1) for _, dim in fields(one(written, 2))] == [2, 2]
    assert read(one(written, field)) == ([1, 0, 0, 0, 1, 0, 1, 0] if dtype == "complex64" else [1, 0, 1, 1])
    with pytest.raises(ValueError, match="unsupported tensor dtype"):
        summaries.tensor_proto("t", tede.ones(2).to(tede.float8_e5m2))
    half = summaries.half_to_int(1.5)
    assert summaries.int_to_half(half) == 1.5


def test_histograms_begin_with_the_first_element_and_end_with_the_last():
    written = value(summaries.histogram("h", np.array([1., 1., 2., 9.]), 10))[5]
    assert [one(written, i) for i in range(1, 6)] == [1, 9, 4, 13, 87]
    limits, counts = doubles(one(written, 6)), doubles(one(written, 7))
    assert counts[0] == 0 and limits[0] == 1 and limits[-1] == 9 and sum(counts) == 4 and len(limits) == len(counts)
    joined = value(summaries.histogram("h", np.arange(100.), 100, max_bins=30))[5]
    assert sum(doubles(one(joined, 7))) == 100 and len(doubles(one(joined, 7))) < 40
    for empty in np.zeros(0), tede.zeros(0):
        with pytest.raises(ValueError, match="no element"):
            summaries.histogram("h", empty, 3)


def test_curves_of_precision_and_recall():
    labels, predictions = np.array([1, 1, 0, 0]), np.array([.9, .4, .6, .1])
    tp, fp, tn, fn, precision, recall = summaries.compute_curve(labels, predictions, 3)
    assert tp.tolist() == [2, 1, 0] and fp.tolist() == [2, 1, 0] and tn.tolist() == [0, 1, 2] and fn.tolist() == [0, 1, 2]
    assert precision.tolist() == [.5, .5, 0] and recall.tolist() == [1, .5, 0]
    written = value(summaries.pr_curve("p", labels, predictions, 1000))
    assert one(written[9], 1, 2, 2) == 127 and len(floats(one(written[8], 5))) == 6 * 127


def test_pictures_and_grids_of_them():
    picture = tede.arange(24, dtype=tede.uint8).reshape(3, 2, 4)
    written = value(summaries.image("i", picture, dataformats="CHW"))[4]
    assert [one(written, i) for i in (1, 2, 3)] == [2, 4, 3] and np.array_equal(pixels(one(written, 4)), picture.permute(1, 2, 0).numpy())
    gray = pixels(one(value(summaries.image("i", tede.tensor([[0., .5], [1., 2.]]), dataformats="HW"))[4], 4))
    assert gray[..., 0].tolist() == [[0, 127], [255, 255]] and (gray[..., :1] == gray).all()
    grid = pixels(one(value(summaries.image("i", tede.ones(9, 1, 2, 3)))[4], 4))
    assert grid.shape == (4, 24, 3) and grid[:2].all() and not grid[2:, 3:].any()
    with pytest.raises(AssertionError, match="input format are different"):
        summaries.image("i", picture)


def test_boxes_and_videos_by_pillow():
    image = pytest.importorskip("PIL.Image")
    written = value(summaries.image_boxes("i", np.zeros((3, 20, 20)), np.array([[2, 3, 10, 12]]), rescale=2))[4]
    drawn = np.asarray(image.open(io.BytesIO(one(written, 4))))
    assert drawn.shape == (40, 40, 3) and drawn[14, 4, 0] > 200 and not drawn[36:, 36:].any()
    film = value(summaries.video("v", np.random.default_rng(0).random((3, 5, 3, 4, 6))))[4]
    frames = image.open(io.BytesIO(one(film, 4)))
    assert frames.n_frames == 5 and frames.size == (12, 8)


def test_sound_is_a_file_of_16_bits(capsys):
    written = value(summaries.audio("a", tede.tensor([[0., .5, -1., 3.]]), 8000))[6]
    with wave.open(io.BytesIO(one(written, 4))) as sound:
        assert (sound.getnchannels(), sound.getframerate(), sound.getnframes()) == (1, 8000, 4)
        assert struct.unpack("<4h", sound.readframes(4)) == (0, 16383, -32767, 32767)
    assert one(written, 1) == 8000 and "clipped" in capsys.readouterr().out


def test_charts_texts_and_meshes():
    written = value(summaries.custom_scalars({"a": {"x": ["Multiline", ["p", "q"]], "y": ["Margin", ["v", "l", "u"]]}}))
    category = one(written[8], 8, 2)
    charts = [chart for n, chart in fields(category) if n == 2]
    assert one(category, 1) == b"a"
    assert [v for _, v in fields(one(charts[0], 2))] == [b"p", b"q"] and [v for _, v in fields(one(charts[1], 3, 1))] == [b"v", b"l", b"u"]
    with pytest.raises(AssertionError, match="3"):
        summaries.custom_scalars({"a": {"y": ["Margin", ["v"]]}})
    assert one(value(summaries.text("t", "words"))[8], 8) == b"words"
    parts = fields(summaries.mesh("m", tede.zeros(1, 4, 3), None, tede.ones(1, 2, 3, dtype=tede.int64), {"b": 1}).SerializeToString())
    assert [one(part, 1) for _, part in parts] == [b"m_VERTEX", b"m_FACE"] and all(one(part, 9, 1, 2, 7) == 0b110 for _, part in parts)
    assert one(parts[0][1], 9, 1, 2, 5) == b'{"b": 1}' and floats(one(parts[1][1], 8, 5)) == [1] * 6


def test_points_for_the_projector_lie_in_files(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(tede.tensor([[1, 2], [3, 4]]), metadata=["a", "b"], label_img=tede.rand(2, 3, 4, 5), global_step=7, tag="x/y")
        writer.add_embedding(np.eye(2), metadata=[["a", 1], ["b", 2]], metadata_header=["name", "n"])
        for metadata, pictures in ((["a"], None), (None, tede.rand(3, 3, 2, 2))):
            with pytest.raises(AssertionError, match="should equal with #data points"):
                writer.add_embedding(np.eye(2), metadata, pictures)
    folder = tmp_path / "00007" / "x%2fy"
    assert (folder / "tensors.tsv").read_text() == "1\t2\n3\t4\n" and (folder / "metadata.tsv").read_text() == "a\nb\n"
    assert pixels((folder / "sprite.png").read_bytes()).shape == (10, 10, 3)
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "name\tn\na\t1\nb\t2\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "x/y:00007"' in config and 'tensor_path: "00000/default/tensors.tsv"' in config and config.count("embeddings {") == 2


def test_a_writer_writes_each_kind(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("scalar", tede.tensor(1.), 1)
        writer.add_tensor("tensor", tede.ones(2), 1)
        writer.add_histogram("histogram", tede.randn(100), 1)
        writer.add_histogram("bins", tede.randn(100), 1, bins=5)
        writer.add_images("images", tede.rand(2, 3, 4, 4), 1)
        writer.add_audio("audio", tede.zeros(1, 10), 1)
        writer.add_pr_curve("curve", tede.tensor([0, 1]), tede.tensor([.2, .7]), 1)
        writer.add_pr_curve_raw("raw", [1], [1], [1], [1], [.5], [.5], 1, num_thresholds=1)
        writer.add_mesh("mesh", tede.rand(1, 3, 3), global_step=1)
        writer.add_custom_scalars_multilinechart(["a", "b"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"])
        with pytest.raises(ValueError, match="bucket_limits"):
            writer.add_histogram_raw("given", 0, 1, 2, 3, 4, [1], [])
        with pytest.raises(AssertionError, match="Expected 3 tags, got 1."):
            writer.add_custom_scalars_marginchart(["a"])
    tags = [one(event[5], 1, 1).decode() for event in events(tmp_path)[1:]]
    assert tags == "scalar tensor histogram bins images audio curve raw mesh_VERTEX custom_scalars__config__ custom_scalars__config__".split()


def test_a_graph_has_operators_in_boxes_of_modules(tmp_path, capsys):
    class Net(tede.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = tede.nn.Sequential(tede.nn.Linear(3, 5), tede.nn.Dropout())

        def forward(self, x):
            return {"y": self.body(x).sum(-1)}
    model = Net()
    model.body[1].eval()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, tede.ones(2, 3), use_strict_trace=False)
        with pytest.raises(RuntimeError, match="Encountering a dict"):
            writer.add_graph(model, tede.ones(2, 3))
        with pytest.raises(RuntimeError):
            writer.add_graph(model, tede.ones(2, 4), use_strict_trace=False)
    assert "No graph saved" in capsys.readouterr().out and model.training and not model.body[1].training
    _, graph, run = events(tmp_path)
    nodes = {one(node, 1).decode(): (one(node, 2).decode(), [x.decode() for n, x in fields(node) if n == 3]) for n, node in fields(graph[4]) if n == 1}
    assert nodes["Net/Sequential[body]/Linear[0]/addmm"] == (
        "aten::addmm", ["Net/Sequential[body]/Linear[0]/bias/body_0_bias", "input/x", "Net/Sequential[body]/Linear[0]/t"])
    assert nodes["output/output.1"] == ("IO Node", ["Net/sum_1"]) and nodes["Net/Sequential[body]/Linear[0]/bias/body_0_bias"][0] == "prim::GetAttr"
    shapes = [one(entry, 2, 1, 7) for n, node in fields(graph[4]) if n == 1 and one(node, 1).endswith(b"/addmm")
              for m, entry in fields(node) if m == 5 and one(entry, 1) == b"_output_shapes"]
    assert [one(dim, 1) for _, dim in fields(shapes[0])] == [2, 5] and one(run[8], 1) == b"step1"
