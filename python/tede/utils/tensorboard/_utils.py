"""Pictures as arrays of NumPy: from figures, batches and videos, with the color last."""


def figure_to_image(figures, close=True):
    """A Matplotlib figure as bytes of 3 x height x width; a list of figures as a batch of them."""
    import numpy as np
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(figure):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        image = np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1).copy()
        if close:
            pyplot.close(figure)
        return image
    return np.stack([drawn(figure) for figure in figures]) if isinstance(figures, list) else drawn(figures)


def make_grid(I, ncols=8):
    """A batch of pictures (N x 1 or 3 x H x W) beside each other, `ncols` in a row, in black: 3 x height x width."""
    import numpy as np
    if not isinstance(I, np.ndarray):
        raise AssertionError("plugin error, should pass numpy array here")
    if I.ndim != 4 or I.shape[1] not in (1, 3):
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    n, _, h, w = I.shape
    ncols = min(n, ncols)
    nrows = -(-n // ncols)
    grid = np.zeros((3, nrows * h, ncols * w), dtype=I.dtype)
    for k, picture in enumerate(I):
        y, x = k // ncols * h, k % ncols * w
        grid[:, y:y + h, x:x + w] = picture
    return grid


def convert_to_HWC(tensor, input_format):
    """An array whose dimensions are named by letters (NCHW, CHW, HWC, HW, ...) as height x width x 3; a batch as a grid."""
    import numpy as np
    if len(set(input_format)) != len(input_format):
        raise AssertionError(f"You can not use the same dimension shorthand twice. input_format: {input_format}")
    if tensor.ndim != len(input_format):
        raise AssertionError(f"size of input tensor and input format are different. tensor shape: {tensor.shape}, input_format: {input_format}")
    letters = input_format.upper()
    if len(letters) == 4:
        return make_grid(tensor.transpose([letters.find(c) for c in "NCHW"])).transpose(1, 2, 0)
    image = tensor.transpose([letters.find(c) for c in "HWC"[:len(letters)]])
    if image.ndim == 2:
        image = image[..., None]
    return np.repeat(image, 3, 2) if image.shape[2] == 1 else image


def _prepare_video(V):
    """Videos (N x T x C x H x W) as frames of a grid: T x height x width x C. N is filled up to a power of two, bytes become floats below 1."""
    import numpy as np
    n, t, c, h, w = V.shape
    if V.dtype == np.uint8:
        V = np.float32(V) / 255
    rows = 2 ** ((n.bit_length() - 1) // 2)
    if n & (n - 1):
        V = np.concatenate((V, np.zeros(((1 << n.bit_length()) - n, t, c, h, w))))
    V = V.reshape(rows, -1, t, c, h, w).transpose(2, 0, 4, 1, 5, 3)
    return V.reshape(t, rows * h, -1, c)
