"""Read handwritten digits with a small convolutional network, and draw what it takes for what.

    python examples/digits.py                     five seeds: accuracies, their mean, a confusion matrix
    python examples/digits.py --seeds 0           one seed
    python examples/digits.py --lib torch         the same program on PyTorch
    python examples/digits.py --device opencl     on a device

The digits are scikit-learn's: 1,797 images of 8 by 8 pixels from UCI's optical recognition data. The last 20% are held
out, and written by other people than the first 80%. Training sees each image moved by up to a pixel, turned and sheared
by chance, which is worth about two per cent.
"""
import argparse
import importlib
import math
import sys
import time

from pictures import confusion_matrix
from progress import Progress


def load(lib, device):
    """(training images, their digits, held-out images, their digits); images are (count, 1, 8, 8) from 0 to 1."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("digits.py: the images come with scikit-learn, which is not installed: pip install scikit-learn")
    pixels, numbers = load_digits(return_X_y=True)
    images = lib.tensor(pixels.tolist(), device=device).view(-1, 1, 8, 8) / 16
    digits = lib.tensor(numbers.tolist(), device=device)
    cut = len(digits) * 4 // 5
    return images[:cut], digits[:cut], images[cut:], digits[cut:]


def make_model(lib):
    """Two pairs of convolutions, each pair behind batch normalisation and halved by pooling, then two linear layers."""
    nn = lib.nn

    def block(into, out):
        return [nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]

    return nn.Sequential(*block(1, 16), *block(16, 16), nn.MaxPool2d(2), *block(16, 32), *block(32, 32), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 2 * 2, 64), nn.ReLU(), nn.Linear(64, 10))


def jitter(lib, images, strength):
    """Each image turned, sheared, scaled and moved by chance: bilinear reading at displaced places.

    A point of the result at (y, x) is read at ``A (y, x) + b``. Reading between pixels weighs the pixels by their
    distance, the tent function max(0, 1 - |distance|), in each direction.
    """
    count, _, height, width = images.shape
    noise = lib.rand(count, 6, device=images.device) * 2 - 1
    ys = lib.arange(height, device=images.device) - (height - 1) / 2
    xs = lib.arange(width, device=images.device) - (width - 1) / 2
    y, x = ys.reshape(1, -1, 1), xs.reshape(1, 1, -1)
    turn = [(strength * noise[:, i]).reshape(-1, 1, 1) for i in range(6)]
    read_y = y + 0.2 * (turn[0] * y + turn[1] * x) + turn[4]
    read_x = x + 0.2 * (turn[2] * x + turn[3] * y) + turn[5]
    weight_y = (1 - (read_y.unsqueeze(-1) - ys).abs()).clamp(min=0)         # (count, height, width, height)
    weight_x = (1 - (read_x.unsqueeze(-1) - xs).abs()).clamp(min=0)         # (count, height, width, width)
    rows = weight_y.reshape(count, height * width, height) @ images[:, 0]   # each place's row, blended
    return (rows * weight_x.reshape(count, height * width, width)).sum(-1).reshape(count, 1, height, width)


def train(lib, seed, data, options, bar, done):
    """A trained model; `done` is how many updates the seeds before it took."""
    F = lib.nn.functional
    lib.manual_seed(seed)
    images, digits = data
    model = make_model(lib).to(images.device)
    steps = options.epochs * math.ceil(len(digits) / options.batch)
    optimizer = lib.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.02)
    schedule = lib.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=steps + 1)
    step = 0
    for epoch in range(options.epochs):
        for rows in lib.randperm(len(digits), device=images.device).split(options.batch):
            loss = F.cross_entropy(model(jitter(lib, images[rows], options.jitter)), digits[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            bar.update(done + step, f"seed {seed}  epoch {epoch + 1}/{options.epochs}  loss {loss.item():.3f}")
    return model, steps


def answers(lib, model, images):
    model.eval()
    with lib.no_grad():
        return model(images).argmax(1).tolist()


def parse():
    parser = argparse.ArgumentParser(description="Train a small convolutional network on scikit-learn's digits.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--lib", default="tede", choices=["tede", "torch"], help="the library to run on")
    add("--device", default="cpu", help="where it computes: cpu, opencl, cuda, cuda:1")
    add("--threads", type=int, default=0, help="CPU threads; 0 leaves the library's own choice")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="train once with each of these")
    add("--epochs", type=int, default=30, help="times that each image is seen")
    add("--batch", type=int, default=64, help="images per update")
    add("--lr", type=float, default=5e-3, help="AdamW's learning rate at its peak, a third of the way")
    add("--jitter", type=float, default=0.7, help="how far training images are moved, in pixels, and turned; 0: not")
    add("--picture", default="digits.svg", metavar="FILE", help="the confusion matrix, all seeds together")
    return parser.parse_args()


def main():
    options = parse()
    try:
        lib = importlib.import_module(options.lib)
    except ImportError as error:
        sys.exit(f"digits.py: {options.lib} is not installed here ({error})")
    if options.threads:
        lib.set_num_threads(options.threads)
    images, digits, held_images, held_digits = load(lib, options.device)
    truth = held_digits.tolist()
    counts, accuracies, done = [[0] * 10 for _ in range(10)], [], 0
    bar = Progress(len(options.seeds) * options.epochs * math.ceil(len(digits) / options.batch))
    for seed in options.seeds:
        began = time.monotonic()
        model, steps = train(lib, seed, (images, digits), options, bar, done)
        done += steps
        given = answers(lib, model, held_images)
        right = sum(a == b for a, b in zip(given, truth))
        for a, b in zip(given, truth):
            counts[b][a] += 1
        accuracies.append(right / len(truth))
        bar.message(f"seed {seed}: {right} of {len(truth)} right, {100 * accuracies[-1]:.2f}%, in "
                    f"{time.monotonic() - began:.1f} s")
    bar.close()
    mean = sum(accuracies) / len(accuracies)
    confusion_matrix(options.picture, f"{100 * mean:.2f}% of {len(truth)} held-out digits, {len(accuracies)} seeds", counts)
    print(f"mean accuracy {100 * mean:.2f}% over {len(accuracies)} seeds; saved {options.picture}")


if __name__ == "__main__":
    main()
