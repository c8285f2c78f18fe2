"""SummaryWriter, with PyTorch's interface."""
import functools
import itertools
import os
import socket
import time

from tede.utils.tensorboard import summary
from tede.utils.tensorboard._convert_np import make_np
from tede.utils.tensorboard._embedding import embedding_text, make_mat, make_sprite, make_tsv
from tede.utils.tensorboard._events import message, record
from tede.utils.tensorboard._pytorch_graph import graph
from tede.utils.tensorboard._utils import figure_to_image

_count = itertools.count()


@functools.cache
def _widening():
    """Limits of buckets, each 1.1 times as far from zero as the one before, from 1e-12 to 1e20, as TensorFlow has them."""
    limits, x = [], 1e-12
    while x < 1e20:
        limits.append(x)
        x *= 1.1
    return [-x for x in reversed(limits)] + [0.] + limits


def _encoded(tag):
    """A tag as a folder's name."""
    return tag.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")


class FileWriter:
    """Events, appended to one file of a folder."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self._dir = os.fspath(log_dir)
        os.makedirs(self._dir, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_count)}{filename_suffix}"
        self._file, self._every, self._flushed = open(os.path.join(self._dir, name), "ab"), flush_secs, now
        self._write(message((1, now), (3, "brain.Event:2")))
        self.flush()

    def _write(self, event):
        self._file.write(record(event))
        if time.time() - self._flushed > self._every:
            self.flush()

    def get_logdir(self):
        return self._dir

    def add_event(self, event, step=None, walltime=None):
        """An event of TensorBoard's class, with this time and step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._write(event.SerializeToString())

    def add_summary(self, summary, global_step=None, walltime=None):
        """A summary of any class that can be serialized; step 0 isn't stored, as nothing is that equals its default."""
        self._write(message((1, float(time.time() if walltime is None else walltime)), (2, int(global_step or 0)),
                            (5, summary.SerializeToString())))

    def add_graph(self, graph_profile, walltime=None):
        """A graph, and what is known of a run of it."""
        graph, run = (x.SerializeToString() for x in graph_profile)
        now = float(time.time() if walltime is None else walltime)
        self._write(message((1, now), (4, graph)))
        self._write(message((1, now), (8, message((1, "step1"), (2, run)))))

    def flush(self):
        self._flushed = time.time()
        self._file.flush()

    def close(self):
        self._file.close()


class SummaryWriter:
    """Writes scalars, histograms, images, texts, ... for TensorBoard into a folder: runs/<time>_<host> if none is named."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            stamp = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{stamp}_{socket.gethostname()}{comment}")
        self.log_dir, self._options = os.fspath(log_dir), (max_queue, flush_secs, filename_suffix)
        self.file_writer = FileWriter(self.log_dir, *self._options)
        self.all_writers, self._projector = {self.log_dir: self.file_writer}, ""

    def _get_file_writer(self):
        if self.file_writer is None:
            self.file_writer = self.all_writers[self.log_dir] = FileWriter(self.log_dir, *self._options)
        return self.file_writer

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def _add(self, summary, step, walltime):
        self._get_file_writer().add_summary(summary, step, walltime)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number: a point of a curve."""
        self._add(summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several curves in one chart: a folder for each."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """A whole tensor."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """The distribution of a tensor's or array's elements.

        bins: "tensorflow" (each 1.1 times as far from zero as the one before), or as numpy.histogram's."""
        bins = _widening() if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None, walltime=None):
        """A histogram that is given: how many elements are at most each limit, and above the one before. ValueError: limits and counts differ in number."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._add(summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: bytes, or floats from 0 to 1."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Pictures, eight in a row."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1, dataformats="CHW", labels=None):
        """A picture with boxes (rows of left, top, right, bottom), and a label for each; a string is the label of one box."""
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else labels
            if len(labels) != box_tensor.shape[0]:
                labels = None
        self._add(summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A Matplotlib figure, as a picture; a list of them as pictures."""
        self._add(summary.image(tag, figure_to_image(figure, close), dataformats="NCHW" if isinstance(figure, list) else "CHW"), global_step, walltime)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Videos (N x T x C x H x W: bytes, or floats from 0 to 1) in a grid."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound of one channel (1 x L, from -1 to 1)."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text, shown as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Points (N x D) for the projector, with labels and pictures (N x C x H x W), if there are any. AssertionError: their number isn't N."""
        mat = make_np(mat)
        if mat.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        step = str(global_step or 0).zfill(5)
        subdir = f"{step}/{_encoded(tag)}"
        folder = os.path.join(self.log_dir, subdir)
        os.makedirs(folder, exist_ok=True)
        if metadata is not None:
            if len(metadata) != mat.shape[0]:
                raise AssertionError("#labels should equal with #data points")
            make_tsv(metadata, folder, metadata_header)
        if label_img is not None:
            if label_img.shape[0] != mat.shape[0]:
                raise AssertionError("#images should equal with #data points")
            make_sprite(label_img, folder)
        make_mat(mat, folder)
        self._projector += embedding_text(f"{tag}:{step}", subdir, metadata, label_img)
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "w") as file:
            file.write(self._projector)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Precision and recall by threshold, of predictions from 0 to 1 for labels that are 0 or 1."""
        self._add(summary.pr_curve(tag, make_np(labels), make_np(predictions), num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall,
                         global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Such a curve that is given."""
        given = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall
        self._add(summary.pr_curve_raw(tag, *given, num_thresholds, weights), global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """Several curves in a chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """A curve between two others: tags of the value, the lower and the upper one."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout):
        """Which curves are drawn in one chart, see summary.custom_scalars; once for a run."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """A mesh or a cloud of points, see summary.mesh."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Hyperparameters and metrics, in a folder beside the run's own values, for the plugin that compares runs."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as writer:
            for each in made:
                writer.file_writer.add_summary(each, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """A module's call on example inputs: its operators in boxes of modules, see jit.trace. use_strict_trace: lists and dicts among the results are an
        error (RuntimeError)."""
        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt):
        raise NotImplementedError("SummaryWriter.add_onnx_graph isn't there")

    def flush(self):
        for writer in self.all_writers.values():
            writer.flush()

    def close(self):
        for writer in self.all_writers.values():
            writer.close()
        self.file_writer, self.all_writers = None, {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
