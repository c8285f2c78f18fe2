"""python bench/device.py [--device cuda] [--match REGEX] [--small] [--json FILE]

How fast a device is: calls, memory, products, attention and training steps, in tede and, where it is installed and has this device, in
PyTorch, in one process and by turns; the median of rounds. A copy of a large tensor says what the memory reaches. Before a case is timed its
results are compared: the same numbers go into both. `--small` is for trying the program where a device is slow."""
import argparse
import json
import math
import re
import statistics
import time

import numpy as np
import tede

try:
    import torch
except ImportError:
    torch = None


class Library:
    def __init__(self, T, device, small):
        self.T, self.F, self.device, self.small = T, T.nn.functional, device, small
        self.r = np.random.default_rng(3)

    def wait(self):
        name = self.device.split(":")[0]
        if name != "cpu":
            getattr(self.T, name).synchronize()

    def put(self, *shape, dtype="float32", grad=False):
        values = np.resize(self.r.standard_normal(min(math.prod(shape), 1 << 22), np.float32), shape)      # large ones repeat themselves
        x = self.T.from_numpy(values).to(self.device).to(getattr(self.T, dtype))
        return x.requires_grad_(grad)

    def integers(self, high, *shape):
        return self.T.from_numpy(self.r.integers(0, high, shape)).to(self.device)

    def place(self, module, dtype="float32"):
        """The same weights in both libraries."""
        with self.T.no_grad():
            for p in module.parameters():
                fan = math.prod(p.shape[1:]) if p.ndim > 1 else 100
                scale = 1 / math.sqrt(fan)
                p.copy_(self.T.from_numpy(self.r.standard_normal(tuple(p.shape), np.float32) * np.float32(scale)))
        return module.to(self.device).to(getattr(self.T, dtype))


# ---- a case is a function of a library; it returns what is called, the bytes or operations of a call, and their unit.  A call returns a
# tensor by which both libraries are compared.

CASES = {}


def case(name, *variants):
    def register(make):
        for variant in variants or [()]:
            CASES[" ".join([name, *map(str, variant)])] = lambda lib, v=variant: make(lib, *v)
        return make
    return register


@case("call: add of one")
def call_add(lib):
    x, y = lib.put(1), lib.put(1)
    return lambda: x + y, 0, "us"


@case("call: add_ of one")
def call_add_(lib):
    x, y = lib.put(1), lib.put(1)
    return lambda: x.add_(y, alpha=0), 0, "us"


@case("call: linear 4 x 4, forward and backward")
def call_linear(lib):
    x, w = lib.put(4, 4), lib.put(4, 4, grad=True)
    return lambda: lib.T.autograd.grad(lib.F.linear(x, w).sum(), w)[0], 0, "us"


def large(lib):
    return 1 << (12 if lib.small else 26)


@case("memory: copy", ("float32",), ("bfloat16",))
def copy(lib, dtype):
    x = lib.put(large(lib), dtype=dtype)
    y = lib.T.empty_like(x)
    return lambda: y.copy_(x), 2 * x.numel() * x.element_size(), "GB/s"


@case("memory: x + y", ("float32",), ("bfloat16",))
def add(lib, dtype):
    x, y = lib.put(large(lib), dtype=dtype), lib.put(large(lib), dtype=dtype)
    return lambda: x + y, 3 * x.numel() * x.element_size(), "GB/s"


@case("memory: gelu", ("float32",), ("bfloat16",))
def gelu(lib, dtype):
    x = lib.put(large(lib), dtype=dtype)
    return lambda: lib.F.gelu(x), 2 * x.numel() * x.element_size(), "GB/s"


@case("memory: x + row")
def add_row(lib):
    n = 1 << (6 if lib.small else 13)
    x, y = lib.put(n, n), lib.put(n)
    return lambda: x + y, 8 * n * n, "GB/s"


@case("memory: transposed copy")
def transposed(lib):
    n = 1 << (6 if lib.small else 13)
    x = lib.put(n, n)
    return lambda: x.t().contiguous(), 8 * n * n, "GB/s"


@case("memory: sum", ("float32",), ("bfloat16",))
def total(lib, dtype):
    x = lib.put(large(lib), dtype=dtype)
    return lambda: x.sum(), x.numel() * x.element_size(), "GB/s"


@case("memory: sum of rows", (0,), (1,))
def rows(lib, dim):
    n = 1 << (6 if lib.small else 13)
    x = lib.put(n, n)
    return lambda: x.sum(dim), 4 * n * n, "GB/s"


@case("memory: softmax", ("float32",), ("bfloat16",))
def softmax(lib, dtype):
    n = 1 << (6 if lib.small else 13)
    x = lib.put(n, n, dtype=dtype)
    return lambda: x.softmax(-1), 2 * x.numel() * x.element_size(), "GB/s"


@case("memory: layer_norm", ("float32",), ("bfloat16",))
def layer_norm(lib, dtype):
    n = 1 << (6 if lib.small else 14)
    x = lib.put(n, 1024, dtype=dtype)
    return lambda: lib.F.layer_norm(x, (1024,)), 2 * x.numel() * x.element_size(), "GB/s"


@case("memory: layer_norm backward")
def layer_norm_backward(lib):
    n = 1 << (6 if lib.small else 14)
    x, w, b, g = lib.put(n, 1024, grad=True), lib.put(1024, grad=True), lib.put(1024, grad=True), lib.put(n, 1024)
    y = lib.F.layer_norm(x, (1024,), w, b)
    return lambda: lib.T.autograd.grad(y, (x, w, b), g, retain_graph=True)[0], 12 * n * 1024, "GB/s"


@case("memory: cross entropy, forward and backward")
def cross_entropy(lib):
    n, c = (8, 100) if lib.small else (4096, 32000)
    x, t = lib.put(n, c, grad=True), lib.integers(c, n)
    return lambda: lib.T.autograd.grad(lib.F.cross_entropy(x, t), x)[0], 16 * n * c, "GB/s"


@case("memory: rows of a table")
def gather(lib):
    n, m = (64, 64) if lib.small else (50000, 1 << 18)
    x, i = lib.put(n, 256), lib.integers(n, m)
    return lambda: x[i], 2 * m * 256 * 4, "GB/s"


@case("memory: sort")
def sort(lib):
    x = lib.put(1 << (8 if lib.small else 22))
    return lambda: x.sort().values, x.numel() * 8, "GB/s"


@case("product", ("float32", 4096), ("bfloat16", 8192), ("float16", 4096), ("bfloat16", 1024))
def product(lib, dtype, n):
    n = 64 if lib.small else n
    a, b = lib.put(n, n, dtype=dtype), lib.put(n, n, dtype=dtype)
    return lambda: a @ b, 2 * n ** 3, "TFLOP/s"


def attention_inputs(lib, dtype, length, width):
    heads, batch = (2, 1) if lib.small else (16, 16384 // length)
    length = 100 if lib.small else length
    q, k, v = (lib.put(batch, heads, length, width, dtype=dtype, grad=True) for _ in range(3))
    return q, k, v, 4 * batch * heads * length * length * width // 2


@case("attention, causal", ("bfloat16", 2048, 64), ("bfloat16", 8192, 64), ("bfloat16", 2048, 128), ("float32", 2048, 64))
def attention(lib, dtype, length, width):
    q, k, v, operations = attention_inputs(lib, dtype, length, width)

    def call():
        with lib.T.no_grad():
            return lib.F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return call, operations, "TFLOP/s"


@case("attention, causal, forward and backward", ("bfloat16", 2048, 64), ("bfloat16", 8192, 64), ("float32", 2048, 64))
def attention_backward(lib, dtype, length, width):
    q, k, v, operations = attention_inputs(lib, dtype, length, width)
    g = lib.put(*q.shape, dtype=dtype)
    return (lambda: lib.T.autograd.grad(lib.F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), g)[0],
            operations * 7 // 2, "TFLOP/s")


@case("convolution 3 x 3, forward and backward", ("float32",), ("bfloat16",))
def convolution(lib, dtype):
    n, c, s = (1, 8, 8) if lib.small else (32, 128, 56)
    x, w = lib.put(n, c, s, s, dtype=dtype, grad=True), lib.place(lib.T.nn.Conv2d(c, c, 3, padding=1, bias=False), dtype)
    g = lib.put(n, c, s, s, dtype=dtype)
    return lambda: lib.T.autograd.grad(w(x), (x, w.weight), g)[0], 6 * n * s * s * c * c * 9, "TFLOP/s"


def gpt(lib, width, layers, heads, length, vocabulary):
    nn, F = lib.T.nn, lib.F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            B, L, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(B, L, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(B, L, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, x, i):
            return self.head(self.norm(self.blocks(self.token(x) + self.position(i))))
    return Model()


def resnet50(lib, classes=1000):
    nn = lib.T.nn

    def convolution(i, o, k, stride=1):
        return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o))

    class Bottleneck(nn.Module):
        def __init__(self, i, inner, stride):
            super().__init__()
            self.a, self.b, self.c = convolution(i, inner, 1), convolution(inner, inner, 3, stride), convolution(inner, 4 * inner, 1)
            self.side = convolution(i, 4 * inner, 1, stride) if stride != 1 or i != 4 * inner else nn.Identity()
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.relu(self.c(self.relu(self.b(self.relu(self.a(x))))) + self.side(x))

    parts, i = [convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for b in range(blocks):
            parts.append(Bottleneck(i, inner, stride if b == 0 else 1))
            i = 4 * inner
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, classes))


def step(model, optimizer, loss):
    def call():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()
    return call


@case("training: GPT 6 x 384", ("float32", 16, 256))
@case("training: GPT 12 x 768", ("bfloat16", 8, 1024))
def train_gpt(lib, dtype, batch, length):
    width, layers, heads, vocabulary = (384, 6, 6, 256) if dtype == "float32" else (768, 12, 12, 50304)
    if lib.small:
        layers, length, batch, vocabulary = 1, 32, 2, 100
    model = lib.place(gpt(lib, width, layers, heads, length, vocabulary), dtype)
    x, t, i = lib.integers(vocabulary, batch, length), lib.integers(vocabulary, batch * length), lib.T.arange(length, device=lib.device)
    optimizer = lib.T.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    weights = sum(p.numel() for p in model.parameters())
    operations = batch * length * (6 * weights + 6 * layers * length * width)
    return step(model, optimizer, lambda: lib.F.cross_entropy(model(x, i).view(-1, vocabulary), t)), operations, "TFLOP/s"


@case("training: ResNet-50", ("float32", 32), ("bfloat16", 32))
def train_resnet(lib, dtype, batch):
    side = 32 if lib.small else 224
    batch = 2 if lib.small else batch
    model = lib.place(resnet50(lib), dtype)
    x, t = lib.put(batch, 3, side, side, dtype=dtype), lib.integers(1000, batch)
    optimizer = lib.T.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return step(model, optimizer, lambda: lib.F.cross_entropy(model(x), t)), int(batch * 3 * 2 * 4.09e9 * (side / 224) ** 2), "TFLOP/s"


# ---- measuring

def seconds(lib, call, calls):
    lib.wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    lib.wait()
    return (time.perf_counter() - start) / calls


def measure(name, libs, budget):
    made, first, results = [], [], []
    for lib in libs:
        lib.r = np.random.default_rng(3)
        call, amount, unit = CASES[name](lib)
        lib.wait()
        start = time.perf_counter()
        result = call()
        results.append(np.array(result.detach().cpu().float().numpy()).ravel()[:1 << 20])
        first.append(time.perf_counter() - start)
        made.append(call)
    for call in made:
        for _ in range(3):
            call()
    counts = [max(1, min(2000, int(budget / 5 / max(seconds(lib, call, 2), 1e-6)))) for lib, call in zip(libs, made)]
    times = [[] for _ in libs]
    for _ in range(5):
        for k, (lib, call) in enumerate(zip(libs, made)):
            times[k].append(seconds(lib, call, counts[k]))
    took = [statistics.median(t) for t in times]
    shown = [t * 1e6 if unit == "us" else amount / t / (1e9 if unit == "GB/s" else 1e12) for t in took]
    error = float(np.linalg.norm(results[0] - results[1]) / max(np.linalg.norm(results[1]), 1e-30)) if len(results) > 1 else math.nan
    return dict(name=name, unit=unit, shown=shown, ms=[t * 1e3 for t in took], first_ms=[t * 1e3 for t in first], error=error)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda")
    p.add_argument("--match", default="")
    p.add_argument("--small", action="store_true")
    p.add_argument("--budget", type=float, default=0.5, help="seconds for each library in a case")
    p.add_argument("--json")
    o = p.parse_args()
    libs = [Library(tede, o.device, o.small)]
    if torch and (o.device == "cpu" or (o.device.startswith("cuda") and torch.cuda.is_available())):
        libs.append(Library(torch, o.device, o.small))
        print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name() if o.device != 'cpu' else 'CPU'}")
    print(f"{'':52}{'tede':>10}{'PyTorch':>10}{'ratio':>8}{'error':>9}{'first':>9}{'fallbacks':>10}", flush=True)
    rows = []
    for name in CASES:
        if not re.search(o.match, name):
            continue
        before = tede._C._cpu_fallback_count()
        try:
            row = measure(name, libs, o.budget)
        except Exception as error:
            print(f"{name:52}{type(error).__name__}: {str(error)[:200]}", flush=True)
            rows.append(dict(name=name, failed=str(error)))
            continue
        row["fallbacks"] = tede._C._cpu_fallback_count() - before
        rows.append(row)
        other = f"{row['shown'][1]:10.1f}{row['ms'][1] / row['ms'][0]:8.2f}{row['error']:9.1e}" if len(libs) > 1 else " " * 27
        print(f"{name:44}{row['unit']:>8}{row['shown'][0]:10.1f}{other}{row['first_ms'][0]:7.0f}ms{row['fallbacks']:10}", flush=True)
        for lib in libs:
            if not lib.device.startswith("cpu"):
                getattr(lib.T, lib.device.split(":")[0]).empty_cache()
    if o.json:
        with open(o.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
