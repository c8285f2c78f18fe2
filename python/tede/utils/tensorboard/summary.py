"""Summaries: what an event says of one step.  They can be made apart from a writer, and given to `FileWriter.add_summary`.

Each is TensorBoard's message where that is installed, so that its fields can be read, else one that can only be written.
"""
import io
import json
import math
import struct
import wave

import tede
from tede.utils.tensorboard._convert_np import make_np
from tede.utils.tensorboard._events import Float, Floats, Ints, message, of_class, png
from tede.utils.tensorboard._utils import _prepare_video, convert_to_HWC

_HPARAMS, _SUCCESS = "hparams", 1
_STRING, _NUMBER = 1, 3                 # DataType of the plugin's api.proto
_FIELD = {_NUMBER: 2, _STRING: 3}       # which field of google.protobuf.Value holds it
_MOST_THRESHOLDS = 127                  # more take two bytes, which the plugin's reader doesn't


def _summary(*values):
    """The summary of some values, each a message."""
    return of_class("summary_pb2", "Summary", message(*((1, value) for value in values)))


def _value(tag, *fields, metadata=None):
    """One value of a summary, with its kind's field."""
    return message((1, tag), *fields, (9, metadata))


def _of_plugin(name, content=None, title=None, description=None):
    """A value's metadata: the plugin that shows it, and what that needs."""
    return message((1, message((1, name), (2, content))), (2, title), (3, description))


def _tensor(dtype, sizes, field):
    """A TensorProto. Sizes of 0 dimensions are written, too."""
    return (8, message((1, dtype), (2, message(*((2, message((1, n))) for n in sizes))), field))


# ---- numbers and tensors

def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """A number, or the one element of a tensor or array. new_style: as a tensor, of doubles if `double_precision`."""
    x = tensor
    if not isinstance(x, (int, float)):
        x = (x.detach() if isinstance(x, tede.Tensor) and not x.is_meta else make_np(x)).squeeze()
        if x.ndim:
            raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {math.prod(x.shape)} and {x.ndim} dimensions.")
    if not new_style:
        return _summary(_value(name, (2, Float(x))))
    kind, values = (2, (6, [float(x)])) if double_precision else (1, (5, Floats([float(x)])))
    return _summary(_value(name, (8, message((1, kind), values)), metadata=_of_plugin("scalars")))


def half_to_int(f):
    """The bits of a number of 16 bits as float32, which is how a tensor of them is stored."""
    return struct.unpack("i", struct.pack("f", f))[0]


def int_to_half(i):
    """What half_to_int was given."""
    return struct.unpack("f", struct.pack("i", i))[0]


def _halves(x):
    return Ints(map(half_to_int, x.flatten().tolist()))


def _parts(x):
    return tede.view_as_real(x).flatten().tolist()


# dtype: (its number in types.proto, the field of TensorProto, the numbers)
_TENSORS = {
    tede.float16: (19, 13, _halves), tede.bfloat16: (14, 13, _halves),
    tede.float32: (1, 5, lambda x: Floats(x.flatten().tolist())), tede.float64: (2, 6, lambda x: x.flatten().tolist()),
    tede.complex64: (8, 9, lambda x: Floats(_parts(x))), tede.complex128: (18, 12, _parts),
    **{dtype: (number, field, lambda x: Ints(x.flatten().tolist())) for dtype, number, field in (
        (tede.int8, 6, 7), (tede.int16, 5, 7), (tede.int32, 3, 7), (tede.int64, 9, 10), (tede.uint8, 4, 16), (tede.bool, 10, 11))},
}


def tensor_proto(tag, tensor):
    """A whole tensor. ValueError: of 2 GB or more, or of a dtype that the message has no field for."""
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in _TENSORS:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    number, field, numbers = _TENSORS[tensor.dtype]
    return _summary(_value(tag, _tensor(number, tensor.shape, (field, numbers(tensor))), metadata=_of_plugin("tensor")))


# ---- histograms and curves

def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A histogram that is given: bucket k holds what is at most its limit, and above that of the one before."""
    numbers = ((i, float(x)) for i, x in enumerate((min, max, num, sum, sum_squares), 1))
    buckets = ((i, [float(x) for x in of]) for i, of in ((6, bucket_limits), (7, bucket_counts)))
    return _summary(_value(name, (5, message(*numbers, *buckets))))


def histogram(name, values, bins, max_bins=None):
    """The histogram of an array's or tensor's elements; `bins` as numpy.histogram takes them."""
    return histogram_raw(name, *make_histogram(make_np(values).astype(float), bins, max_bins))


def make_histogram(values, bins, max_bins=None):
    """(min, max, num, sum, sum of squares, limits, counts) of an array.

    More than max_bins buckets are joined; empty ones at both ends are left out, but for one that says where the first begins."""
    import numpy as np
    values = values.reshape(-1)
    if not values.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        each = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % each)).reshape(-1, each).sum(-1)
        limits = np.append(limits[:-1:each], limits[-1])
    there = np.flatnonzero(counts)
    first, last = there[0], there[-1]
    counts, limits = np.concatenate(([0], counts[first:last + 1])), limits[first:last + 2]
    return values.min(), values.max(), len(values), values.sum(), values.dot(values), limits.tolist(), counts.tolist()


def _curve(tag, data, num_thresholds):
    numbers = Floats(float(x) for row in data for x in row)
    content = message((2, num_thresholds))
    return _summary(_value(tag, _tensor(1, (len(data), len(data[0])), (5, numbers)), metadata=_of_plugin("pr_curves", content)))


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=_MOST_THRESHOLDS, weights=None):
    """A curve of precision and recall that is given, by threshold: true and false positives, true and false negatives."""
    return _curve(tag, (tp, fp, tn, fn, precision, recall), min(num_thresholds, _MOST_THRESHOLDS))


def pr_curve(tag, labels, predictions, num_thresholds=_MOST_THRESHOLDS, weights=None):
    """The curve of predictions between 0 and 1 for labels that are 0 or 1 (arrays)."""
    num_thresholds = min(num_thresholds, _MOST_THRESHOLDS)
    return _curve(tag, compute_curve(labels, predictions, num_thresholds, weights), num_thresholds)


def compute_curve(labels, predictions, num_thresholds=None, weights=None):
    """An array of 6 x num_thresholds: true and false positives, true and false negatives, precision, recall."""
    import numpy as np
    which = np.floor(predictions * (num_thresholds - 1)).astype(np.int32)
    labels, weights = labels.astype(np.float64), 1. if weights is None else weights

    def above(of):                      # how many lie at a threshold or above it
        counts, _ = np.histogram(which, bins=num_thresholds, range=(0, num_thresholds - 1), weights=of * weights)
        return counts[::-1].cumsum()[::-1]
    tp, fp = above(labels), above(1 - labels)
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7
    return np.stack((tp, fp, tn, fn, tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)))


# ---- pictures and sound

def _calc_scale_factor(tensor):
    """What a picture's elements are multiplied with to be from 0 to 255: bytes are."""
    return 1 if str(tensor.dtype).endswith("uint8") else 255


def _pixels(image):
    """Bytes of an array."""
    import numpy as np
    return (image.astype(np.float32) * _calc_scale_factor(image)).clip(0, 255).astype(np.uint8)


def _picture(tag, height, width, channels, data):
    return _summary(_value(tag, (4, message((1, height), (2, width), (3, channels), (4, data)))))


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """A picture whose dimensions are named by letters, a batch as a grid; bytes, or floats from 0 to 1. rescale: Pillow enlarges it so."""
    return _picture(tag, *make_image(_pixels(convert_to_HWC(make_np(tensor), dataformats)), rescale))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with boxes drawn by Pillow: rows of left, top, right and bottom, with a label each if there are any."""
    pixels = _pixels(convert_to_HWC(make_np(tensor_image), dataformats))
    return _picture(tag, *make_image(pixels, rescale, make_np(tensor_boxes), labels))


def draw_boxes(disp_image, boxes, labels=None):
    """Boxes on a picture of Pillow's."""
    from PIL import ImageDraw, ImageFont
    draw, font = ImageDraw.Draw(disp_image), ImageFont.load_default()
    for k, (left, top, right, bottom) in enumerate(boxes[:, :4].tolist()):
        draw.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], fill="Red", width=2)
        if labels is not None and labels[k]:
            x0, y0, x1, y1 = font.getbbox(labels[k])
            margin = -(-(y1 - y0) // 20)
            draw.rectangle([(left, bottom - (y1 - y0) - 2 * margin), (left + x1 - x0, bottom)], fill="Red")
            draw.text((left + margin, bottom - (y1 - y0) - margin), labels[k], fill="black", font=font)
    return disp_image


def make_image(tensor, rescale=1, rois=None, labels=None):
    """(height, width, channels, PNG file) of bytes of height x width x channels."""
    height, width, channels = tensor.shape
    if rescale == 1 and rois is None:
        return height, width, channels, png(tensor.tobytes(), height, width, channels)
    from PIL import Image
    picture, file = Image.fromarray(tensor), io.BytesIO()
    if rois is not None:
        picture = draw_boxes(picture, rois, labels)
    picture.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS).save(file, "PNG")
    return height, width, channels, file.getvalue()


def video(tag, tensor, fps=4):
    """Videos (N x T x C x H x W) in a grid, as an animated picture that Pillow makes."""
    return _picture(tag, *make_video(_pixels(_prepare_video(make_np(tensor))), fps))


def make_video(tensor, fps):
    """(height, width, channels, GIF file) of bytes of frames x height x width x channels."""
    from PIL import Image
    frames, file = [Image.fromarray(frame.squeeze(-1) if frame.shape[-1] == 1 else frame) for frame in tensor], io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0)
    return *tensor.shape[1:], file.getvalue()


def audio(tag, tensor, sample_rate=44100):
    """Sound of one channel, from -1 to 1, as a WAV file of 16 bits."""
    samples = make_np(tensor).squeeze()
    if abs(samples).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        samples = samples.clip(-1, 1)
    if samples.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes((samples * 32767).astype("<i2").tobytes())
    fields = (1, Float(sample_rate)), (2, 1), (3, samples.shape[-1]), (4, file.getvalue()), (5, "audio/wav")
    return _summary(_value(tag, (6, message(*fields))))


# ---- texts, charts, meshes

def text(tag, text):
    """A text, which is shown as Markdown."""
    return _summary(_value(tag + "/text_summary", _tensor(7, (1,), (8, text)), metadata=_of_plugin("text")))


def custom_scalars(layout):
    """Which curves are drawn in one chart: {category: {title: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}."""
    def chart(title, kind, tags):
        if kind != "Margin":
            return message((1, title), (2, message(*((1, tag) for tag in tags))))
        if len(tags) != 3:
            raise AssertionError("len(tags) != 3")
        return message((1, title), (3, message((1, message(*enumerate(tags, 1))))))
    content = message(*((2, message((1, category), *((2, chart(title, *rest)) for title, rest in charts.items()))) for category, charts in layout.items()))
    return _summary(_value("custom_scalars__config__", _tensor(7, (), (8, content)), metadata=_of_plugin("custom_scalars")))


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    """A mesh or a cloud of points: vertices (N x points x 3), and where given their colors (0 to 255) and faces as indices of vertices.

    config_dict: for three.js."""
    parts = [(kind, name, tede.as_tensor(x)) for kind, name, x in ((1, "VERTEX", vertices), (2, "FACE", faces), (3, "COLOR", colors)) if x is not None]
    config, there = json.dumps({} if config_dict is None else config_dict, sort_keys=True), sum(1 << kind for kind, _, _ in parts)

    def part(kind, name, x):
        content = message((2, tag), (3, kind), (5, config), (6, Ints(x.shape)), (7, there))
        metadata = _of_plugin("mesh", content, display_name, description)
        return _value(f"{tag}_{name}", _tensor(1, x.shape, (5, Floats(x.flatten().tolist()))), metadata=metadata)
    return _summary(*(part(*each) for each in parts))


# ---- hyperparameters

def _kind(x):
    if isinstance(x, (int, float)):             # bools, too, as in PyTorch: they are written as numbers
        return _NUMBER, float(x)
    if isinstance(x, str):
        return _STRING, x
    if isinstance(x, tede.Tensor):
        return _NUMBER, float(x.detach().reshape(-1)[0])
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """Three summaries for the plugin that compares runs: the experiment, the start of a session and its end."""
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict), ("hparam_domain_discrete", hparam_domain_discrete or {})):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    for name, allowed in domains.items():
        if name not in hparam_dict or not isinstance(allowed, list) or \
                not all(isinstance(x, type(hparam_dict[name])) for x in allowed):
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}].")
    session, infos = [], []
    for name, x in hparam_dict.items():
        if x is None:
            continue
        kind, x = _kind(x)
        session.append((1, message((1, name), (2, message((_FIELD[kind], x))))))
        domain = None
        if name in domains:
            domain = message(*((1, message((_FIELD[kind], _kind(choice)[1]))) for choice in domains[name]))
        infos.append((4, message((1, name), (4, kind), (5, domain))))
    metrics = [(5, message((1, message((2, name))))) for name in metric_dict]
    contents = (("experiment", (2, message(*infos, *metrics))), ("session_start_info", (3, message(*session))), ("session_end_info", (4, message((1, _SUCCESS)))))
    return tuple(_summary(_value(f"_hparams_/{name}", metadata=_of_plugin(_HPARAMS, message(field)))) for name, field in contents)
