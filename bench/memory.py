#!/usr/bin/env python3
"""What training needs at its peak, and whether a thousand shapes leave something behind: tede beside PyTorch.

    python bench/memory.py [tede] [torch]

Each case runs in a process of its own.  "peak" is the most resident memory during ten steps, above what importing the
library left; "grown" is how much more was resident after 1,000 random shapes than after the first 300 of them."""
import importlib
import random
import subprocess
import sys

BATCH = 16


def resident(field):
    text = open("/proc/self/status").read()
    return int(text.split(f"{field}:")[1].split()[0]) / 1024


def mlp(T):
    nn = T.nn
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)), (256, 784)


def cnn(T):
    nn = T.nn
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 16 * 16, 10)), (BATCH, 3, 64, 64)


def attention(T):
    nn = T.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(128, 10)), (BATCH, 128, 128)


def train(T, make):
    model, shape = make(T)
    optimizer = T.optim.Adam(model.parameters(), lr=1e-3)
    x = T.randn(*shape)
    for _ in range(10):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()


def shapes(T):
    """Convolution, product, softmax and their gradients, each time of another shape."""
    draw, start = random.Random(0), None
    for turn in range(1000):
        if turn == 300:
            start = resident("VmRSS")
        c, n, k = draw.randint(1, 24), draw.randint(8, 48), draw.randint(1, 5)
        x = T.randn(draw.randint(1, 4), c, n, n, requires_grad=True)
        y = T.nn.functional.conv2d(x, T.randn(draw.randint(1, 24), c, k, k), padding=k // 2)
        T.softmax(y.flatten(1) @ T.randn(y[0].numel(), draw.randint(1, 40)), 1).square().sum().backward()
    return resident("VmRSS") - start


def run(lib, case):
    T = importlib.import_module(lib)
    assert T.nn.functional and T.optim.Adam     # what is loaded on first use
    before = resident("VmHWM")
    if case == "shapes":
        return print(shapes(T))
    train(T, globals()[case])
    print(resident("VmHWM") - before)


def main():
    libs = sys.argv[1:] or ["tede", "torch"]
    print(f"{'MB':22}" + "".join(f"{lib:>9}" for lib in libs))
    for case in "mlp", "cnn", "attention", "shapes":
        row = [float(subprocess.run([sys.executable, __file__, "--", lib, case], capture_output=True, text=True,
                                    check=True).stdout) for lib in libs]
        print(f"{case + (', grown' if case == 'shapes' else ', peak'):22}" + "".join(f"{mb:9.1f}" for mb in row))


if __name__ == "__main__":
    run(*sys.argv[2:]) if sys.argv[1:2] == ["--"] else main()
