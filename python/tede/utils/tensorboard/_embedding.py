"""The files of TensorBoard's projector: points, their labels and pictures."""
import os

from tede.utils.tensorboard._convert_np import make_np
from tede.utils.tensorboard._events import png
from tede.utils.tensorboard._utils import make_grid


def _write(folder, name, lines):
    with open(os.path.join(folder, name), "w") as file:
        file.writelines(line + "\n" for line in lines)


def make_tsv(metadata, save_path, metadata_header=None):
    """Labels, a line each; with a header each of them has as many columns."""
    if not metadata_header:
        lines = map(str, metadata)
    elif len(metadata_header) != len(metadata[0]):
        raise AssertionError("len of header must be equal to the number of columns in metadata")
    else:
        lines = ("\t".join(map(str, row)) for row in [metadata_header, *metadata])
    _write(save_path, "metadata.tsv", lines)


def make_mat(matlist, save_path):
    """Points, a line each."""
    _write(save_path, "tensors.tsv", ("\t".join(str(x.item()) for x in row) for row in matlist))


def make_sprite(label_img, save_path):
    """The points' pictures (N x C x H x W) in a square of them."""
    import numpy as np
    columns = int(np.ceil(len(label_img) ** .5))
    grid = make_grid(make_np(label_img), columns).transpose(1, 2, 0)
    square = np.zeros((grid.shape[1], grid.shape[1], 3))
    square[:len(grid)] = grid
    pixels = np.uint8((square * 255).clip(0, 255))
    with open(os.path.join(save_path, "sprite.png"), "wb") as file:
        file.write(png(pixels.tobytes(), *pixels.shape))


def embedding_text(name, folder, metadata, label_img):
    """What projector_config.pbtxt says of an embedding whose files are in a folder beside it."""
    lines = ["embeddings {", f'tensor_name: "{name}"', f'tensor_path: "{folder}/tensors.tsv"']
    if metadata is not None:
        lines.append(f'metadata_path: "{folder}/metadata.tsv"')
    if label_img is not None:
        lines += ["sprite {", f'image_path: "{folder}/sprite.png"', f"single_image_dim: {label_img.size(3)}", f"single_image_dim: {label_img.size(2)}", "}"]
    return "\n".join([*lines, "}"]) + "\n"
