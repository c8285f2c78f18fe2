"""SummaryWriter, with PyTorch's interface."""
import itertools
import os
import socket
import time

import tede
from tede.utils.tensorboard._events import Float, message, png, record
from tede.utils.tensorboard.summary import Summary, hparams, value as value_of

_count = itertools.count()


def _tensor(x):
    return x.detach().cpu() if isinstance(x, tede.Tensor) else tede.as_tensor(x)


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

    def add_value(self, tag, step, walltime, *value, metadata=None):
        """A summary of one value."""
        self.add_summary(Summary(value_of(tag, *value, metadata=metadata)), step, walltime)

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
        self.all_writers = {self.log_dir: self.file_writer}

    def _get_file_writer(self):
        if self.file_writer is None:
            self.file_writer = self.all_writers[self.log_dir] = FileWriter(self.log_dir, *self._options)
        return self.file_writer

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        value = float(_tensor(scalar_value).reshape(()))
        self._get_file_writer().add_value(tag, global_step, walltime, (2, Float(value)))

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several curves in one chart: a folder for each."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            self.all_writers[folder].add_value(main_tag, global_step, walltime, (2, Float(_tensor(value))))

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        x = _tensor(tensor).to(tede.float64).reshape(-1)
        proto = message((1, 2), (2, message(*[(2, message((1, n))) for n in tensor.shape])), (6, x.tolist()))
        self._get_file_writer().add_value(tag, global_step, walltime, (8, proto))

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        x = _tensor(values).to(tede.float64).reshape(-1)
        if not x.numel():
            raise ValueError("The input has no element.")
        low, high = float(x.min()), float(x.max())
        n = bins if isinstance(bins, int) else 30
        width = (high - low) / n or 1.0
        which = ((x - low) / width).floor().clamp(0, n - 1).to(tede.int64)
        counts = tede.bincount(which, minlength=n).tolist()
        limits = [low + width * (k + 1) for k in range(n)]
        self._histogram(tag, low, high, x.numel(), float(x.sum()), float(x.dot(x)), limits, counts, global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None,
                          walltime=None):
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._histogram(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step, walltime)

    def _histogram(self, tag, low, high, n, total, squares, limits, counts, step, walltime):
        proto = message((1, float(low)), (2, float(high)), (3, float(n)), (4, float(total)), (5, float(squares)),
                        (6, [float(x) for x in limits]), (7, [float(x) for x in counts]))
        self._get_file_writer().add_value(tag, step, walltime, (5, proto))

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        x = _tensor(img_tensor)
        if len(dataformats) != x.dim():
            raise AssertionError(f"size of input tensor and input format are different. tensor shape: {tuple(x.shape)}, "
                                 f"input_format: {dataformats}")
        names = dataformats.upper()
        if "C" not in names:
            x, names = x.unsqueeze(-1), names + "C"
        if "N" in names:                                    # a grid of the pictures, eight in a row
            x = x.permute(*(names.index(c) for c in "NHWC"))
            n, h, w, c = x.shape
            columns = min(8, n)
            rows = -(-n // columns)
            grid = tede.zeros(rows * h, columns * w, c, dtype=x.dtype)
            for k in range(n):
                grid[k // columns * h:(k // columns + 1) * h, k % columns * w:(k % columns + 1) * w] = x[k]
            x = grid
        else:
            x = x.permute(*(names.index(c) for c in "HWC"))
        if x.dtype != tede.uint8:
            x = (x.to(tede.float64) * 255).clamp(0, 255).to(tede.uint8)
        height, width, channels = x.shape
        data = png(bytes(memoryview(x.contiguous()).cast("B")), height, width, channels)
        proto = message((1, height), (2, width), (3, channels), (4, data))
        self._get_file_writer().add_value(tag, global_step, walltime, (4, proto))

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A Matplotlib figure, as an image."""
        import numpy
        pictures = []
        for one in figure if isinstance(figure, list) else [figure]:
            one.canvas.draw()
            pictures.append(numpy.asarray(one.canvas.buffer_rgba())[..., :3].copy())
            if close:
                import matplotlib.pyplot as plt
                plt.close(one)
        if isinstance(figure, list):
            self.add_image(tag, numpy.stack(pictures), global_step, walltime, "NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, "HWC")

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        metadata = message((1, message((1, "text"), (2, message((1, 0))))))
        proto = message((1, 7), (2, message((2, message((1, 1))))), (8, text_string))
        self._get_file_writer().add_value(tag + "/text_summary", global_step, walltime, (8, proto), metadata=metadata)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Hyperparameters and metrics, in a folder beside the run's own values, for the plugin that compares runs."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        summaries = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as writer:
            for summary in summaries:
                writer.file_writer.add_summary(summary, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def _refuse(name):
        def refuse(self, *args, **kwargs):
            raise NotImplementedError(f"SummaryWriter.{name} isn't there")
        refuse.__name__ = name
        return refuse

    add_graph, add_embedding, add_video = _refuse("add_graph"), _refuse("add_embedding"), _refuse("add_video")
    add_audio, add_mesh, add_pr_curve = _refuse("add_audio"), _refuse("add_mesh"), _refuse("add_pr_curve")
    add_custom_scalars, add_onnx_graph = _refuse("add_custom_scalars"), _refuse("add_onnx_graph")
    del _refuse

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
