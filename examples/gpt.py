"""Train a small GPT on the source text of Python's own standard library, and let it write.

    python examples/gpt.py                               train (two to four minutes), save, plot, complete a line
    python examples/gpt.py --resume                      go on after Ctrl-C, with the losses of an unbroken run
    python examples/gpt.py --sample --prompt "class "    write from the saved checkpoint
    python examples/gpt.py --lib torch                   the same program on PyTorch
    python examples/gpt.py --device opencl               the model on a device; batches are drawn on the CPU, so losses agree with its

The model reads bytes: no tokenizer, a vocabulary of 256. Files are split, not lines: what the validation loss is
measured on comes from modules that training never saw. Beside it stands what a bigram model reaches, the best guess
from the last byte alone; a model that doesn't beat that by far has learned nothing worth a network.
"""
import argparse
import importlib
import json
import math
import os
import signal
import sys
import sysconfig
import time
import zlib
from collections import Counter

import checkpoint
from pictures import loss_plot
from progress import Progress

VOCABULARY = 256
MASK = (1 << 64) - 1


# The model ------------------------------------------------------------------------------------------------------

def make_model(lib, context, width, layers, heads):
    """A GPT: blocks of causal attention and a two-layer network, each behind a LayerNorm and added to its input."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.norm2 = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x):
            B, L, _ = x.shape
            qkv = self.qkv(self.norm1(x)).view(B, L, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)                          # each (B, heads, L, width / heads)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(B, L, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(VOCABULARY, width)
            self.place = nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)
            # What flows along the residual path keeps its size however many blocks add to it.
            for name, parameter in self.named_parameters():
                if name.endswith(("out.weight", "down.weight")):
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))
                elif parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, ids):
            x = self.token(ids) + self.place.weight[:ids.shape[1]]
            return self.head(self.norm(self.blocks(x)))

    return GPT()


# The text -------------------------------------------------------------------------------------------------------

def read_library(limit=None):
    """The standard library's modules as (training bytes, validation bytes); about every 16th file validates."""
    root = sysconfig.get_paths()["stdlib"]
    skipped = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
    parts = [bytearray(), bytearray()]
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in skipped)
        for name in sorted(files):
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            key = os.path.relpath(path, root).replace(os.sep, "/").encode()
            part = parts[zlib.crc32(key) % 16 == 0]
            if limit is not None and len(part) >= limit:
                continue
            try:
                with open(path, "rb") as file:
                    part += file.read() + b"\n"
            except OSError:
                continue                        # an unreadable file is no reason to stop
    return parts


def bigram_loss(train, windows):
    """The mean loss, in nats per byte, of guessing each byte of `windows` from the one before it."""
    pairs = Counter(zip(train, memoryview(train)[1:]))
    firsts = Counter(train)
    total = count = 0
    for window in windows:
        for a, b in zip(window, window[1:]):
            total -= math.log((pairs[a, b] + 0.1) / (firsts[a] + 0.1 * VOCABULARY))
            count += 1
    return total / count


# Training -------------------------------------------------------------------------------------------------------

def learning_rate(step, steps, warmup, floor=0.05):
    """What the peak rate is multiplied by at `step`: a straight line up, then half a cosine down to `floor`."""
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


def evaluate(lib, model, windows, batch):
    """The mean loss over `windows`, a (count, context + 1) tensor of bytes."""
    F = lib.nn.functional
    total = 0.0
    model.eval()
    with lib.no_grad():
        for part in windows.split(batch):
            ids = part.to(next(model.parameters()).device).long()
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1), reduction="sum")
            total += loss.item()
    model.train()
    return total / (windows.shape[0] * (windows.shape[1] - 1))


class Run:
    """All that a checkpoint holds: model, optimizer, schedule, random state and the losses so far.

    The order of random draws is part of the state: the model's initial values, then one `randint` a step for the
    places where its windows start. That is why a resumed run repeats an unbroken one to the last bit.
    """

    def __init__(self, lib, config, device="cpu"):
        self.lib, self.config, self.device = lib, config, device
        lib.manual_seed(config["seed"])
        self.model = make_model(lib, config["context"], config["width"], config["layers"], config["heads"]).to(device)
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        others = [p for p in self.model.parameters() if p.dim() != 2]
        groups = [{"params": matrices, "weight_decay": config["weight_decay"]},
                  {"params": others, "weight_decay": 0.0}]
        self.optimizer = lib.optim.AdamW(groups, lr=config["lr"], betas=(0.9, 0.99))
        self.schedule = lib.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(step, config["steps"], config["warmup"]))
        self.step, self.losses, self.validation = 0, [], []

    def train_step(self, data):
        """One update on a random batch of windows of `data`; gives the batch's loss before it."""
        lib, F, config = self.lib, self.lib.nn.functional, self.config
        context = config["context"]
        starts = lib.randint(len(data) - context, (config["batch"], 1))
        ids = data[starts + lib.arange(context + 1)].to(self.device).long()
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(self.model.parameters(), config["clip"])
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        self.losses.append(loss.item())
        return self.losses[-1]

    def save(self, path):
        state = self.optimizer.state_dict()
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, row in state["state"].items():
            tensors.update({f"optimizer.{index}.{name}": value for name, value in row.items()})
        tensors = {name: tensor.cpu() for name, tensor in tensors.items()}
        tensors["random_state"] = self.lib.get_rng_state()
        tensors["losses"] = self.lib.tensor(self.losses, dtype=self.lib.float64)
        metadata = {name: str(value) for name, value in self.config.items()}     # plain strings: C reads them too
        metadata["step"] = str(self.step)
        metadata["validation"] = json.dumps(self.validation)
        metadata["groups"] = json.dumps(state["param_groups"])
        metadata["schedule"] = json.dumps(self.schedule.state_dict())
        checkpoint.save(self.lib, path, tensors, metadata)

    @classmethod
    def load(cls, lib, path, device="cpu"):
        tensors, metadata = checkpoint.load(lib, path)
        run = cls(lib, {name: kind(metadata[name]) for name, kind in CONFIG.items()}, device)
        run.model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        state = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, field = name.split(".")
                state.setdefault(int(index), {})[field] = tensor
        run.optimizer.load_state_dict({"state": state, "param_groups": json.loads(metadata["groups"])})
        run.schedule.load_state_dict(json.loads(metadata["schedule"]))
        run.step = int(metadata["step"])
        run.validation = [tuple(point) for point in json.loads(metadata["validation"])]
        run.losses = tensors["losses"].tolist()
        lib.set_rng_state(tensors["random_state"])
        return run


CONFIG = {"seed": int, "context": int, "width": int, "layers": int, "heads": int, "batch": int, "steps": int,
          "warmup": int, "lr": float, "weight_decay": float, "clip": float}


def beside(loss, baseline):
    """How far a loss is from another one, in words."""
    share = 100 * (1 - loss / baseline)
    return f"{abs(share):.1f}% {'below' if share >= 0 else 'above'} it"


def train(run, options):
    lib, config = run.lib, run.config
    text, held_out = read_library(options.text_limit)
    context, count = config["context"], options.eval_windows
    if len(text) <= context + 1 or len(held_out) <= context + 1:
        sys.exit(f"gpt.py: {sysconfig.get_paths()['stdlib']} holds too little Python source to train on")
    data = lib.frombuffer(text, dtype=lib.uint8)
    stride = (len(held_out) - context - 1) / max(1, count - 1)
    windows = [bytes(held_out[int(i * stride):int(i * stride) + context + 1]) for i in range(count)]
    validation = lib.frombuffer(bytearray(b"".join(windows)), dtype=lib.uint8).reshape(count, context + 1)
    baseline = bigram_loss(text, windows)
    parameters = sum(p.numel() for p in run.model.parameters())
    print(f"{len(text) / 1e6:.1f} MB of Python's standard library to train on, {len(held_out) / 1e6:.1f} MB held out; "
          f"{parameters / 1e6:.2f}M parameters; {options.lib}, {lib.get_num_threads()} threads")

    stop = []
    before = signal.signal(signal.SIGINT, lambda *_: (stop.append(True), signal.signal(signal.SIGINT, before)))
    last = min(config["steps"], options.stop_after or config["steps"])
    bar = Progress(config["steps"], start=run.step)
    log = open(options.log, "a" if options.resume else "w", encoding="utf-8") if options.log else None
    tokens, began, resting, first = config["batch"] * context, time.monotonic(), 0.0, run.step
    try:
        while run.step < last and not stop:
            loss = run.train_step(data)
            if log:
                print(run.step, repr(loss), file=log, flush=True)
            speed = (run.step - first) * tokens / (time.monotonic() - began - resting)
            bar.update(run.step, f"loss {loss:.3f}  {speed:,.0f} tokens/s")
            if run.step % options.eval_every == 0 or run.step == config["steps"]:
                pause = time.monotonic()
                run.validation.append((run.step, evaluate(lib, run.model, validation, config["batch"])))
                run.save(options.checkpoint)
                bar.message(f"step {run.step}: validation loss {run.validation[-1][1]:.4f} "
                            f"(bigram {baseline:.4f}), learning rate {run.schedule.get_last_lr()[0]:.2g}")
                bar.pause(time.monotonic() - pause)
                resting += time.monotonic() - pause
    finally:
        signal.signal(signal.SIGINT, before)
        bar.close()
        if log:
            log.close()
    run.save(options.checkpoint)
    loss_plot(options.plot, "GPT on Python's standard library: nats per byte",
              list(enumerate(run.losses, 1)), run.validation, ("bigram", baseline))
    if run.step < config["steps"]:
        print(f"stopped after step {run.step} of {config['steps']}; go on with --resume")
        return False
    final = run.validation[-1][1]
    print(f"validation loss {final:.4f} nats per byte, bigram {baseline:.4f}: {beside(final, baseline)}")
    print(f"saved {options.checkpoint} and {options.plot}; {run.step * tokens / 1e6:.1f}M tokens read")
    return True


# Sampling -------------------------------------------------------------------------------------------------------

class Draws:
    """Numbers from [0, 1): Vigna's xorshift64*, its state set from the seed by one round of splitmix64.

    Three shifts and a product, so that examples/c/generate.c has the very same numbers:
        x ^= x >> 12;  x ^= x << 25;  x ^= x >> 27;  r = x * 0x2545F4914F6CDD1D;  number = (r >> 11) * 2**-53
    """

    def __init__(self, seed):
        z = (seed + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        self.state = (z ^ (z >> 31)) or 1

    def next(self):
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) & MASK
        x ^= x >> 27
        self.state = x
        return (((x * 0x2545F4914F6CDD1D) & MASK) >> 11) * 2.0 ** -53


def choose(logits, number, temperature, top_k):
    """The byte that `number` from [0, 1) picks.

    Keep the `top_k` largest logits (of equal ones, the lower byte); give each the weight
    exp((logit - largest) / temperature); go through the kept bytes in ascending order until the sum of weights
    exceeds number * total. All in double precision, in this order, as in examples/c/generate.c.
    """
    ranked = sorted(range(len(logits)), key=lambda byte: (-logits[byte], byte))
    if temperature <= 0:
        return ranked[0]
    kept = sorted(ranked[:top_k] if top_k > 0 else ranked)
    largest = logits[ranked[0]]
    weights = [math.exp((logits[byte] - largest) / temperature) for byte in kept]
    target, reached = number * sum_in_order(weights), 0.0
    for byte, weight in zip(kept, weights):
        reached += weight
        if reached > target:
            return byte
    return kept[-1]


def sum_in_order(values):
    """A plain left-to-right sum: `sum` itself compensates for rounding since Python 3.12, and C would differ."""
    total = 0.0
    for value in values:
        total += value
    return total


def write(lib, model, context, prompt, options):
    """Print `prompt` and `options.bytes` more bytes to the standard output, each as it is chosen."""
    draws, ids, device = Draws(options.seed), list(prompt.encode()), next(model.parameters()).device
    out = sys.stdout.buffer
    sys.stdout.flush()
    out.write(bytes(ids))
    model.eval()
    if not ids:
        ids = [10]                              # an empty prompt begins behind a line's end
    with lib.no_grad():
        for _ in range(options.bytes):
            logits = model(lib.tensor([ids[-context:]], device=device))[0, -1].tolist()
            ids.append(choose(logits, draws.next(), options.temperature, options.top_k))
            out.write(bytes(ids[-1:]))
            out.flush()
    out.write(b"\n")
    out.flush()


# The command ----------------------------------------------------------------------------------------------------

def parse():
    parser = argparse.ArgumentParser(
        description="Train a small GPT on the source text of Python's standard library and let it complete a line.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--lib", default="tede", choices=["tede", "torch"], help="the library to run on")
    add("--threads", type=int, default=0, help="CPU threads; 0 leaves the library's own choice")
    add("--device", default="cpu", help="where the model is: cpu, opencl, cuda, cuda:1")
    add("--seed", type=int, default=1, help="seed of the initial values, of the batches and of sampling")

    group = parser.add_argument_group("what to do")
    add = group.add_argument
    add("--resume", action="store_true",
        help="go on from the checkpoint, to the end it was heading for; model and training options come from it")
    add("--sample", action="store_true", help="don't train: load the checkpoint and complete the prompt")
    add("--checkpoint", default="gpt.safetensors", metavar="FILE",
        help="where the model, the optimizer and the random state are kept")
    add("--plot", default="gpt.svg", metavar="FILE", help="the picture of the losses")
    add("--log", metavar="FILE", help="write each step and its loss there, in full precision")

    group = parser.add_argument_group("model")
    add = group.add_argument
    add("--context", type=int, default=128, help="bytes that the model sees at once")
    add("--width", type=int, default=128, help="numbers per position between the blocks")
    add("--layers", type=int, default=5, help="blocks")
    add("--heads", type=int, default=4, help="attention heads per block; must divide the width")

    group = parser.add_argument_group("training")
    add = group.add_argument
    add("--steps", type=int, default=750, help="updates in all; the schedule ends there")
    add("--batch", type=int, default=24, help="windows of the text per update")
    add("--lr", type=float, default=7e-3, help="AdamW's learning rate at its peak, behind the warm-up")
    add("--warmup", type=int, default=75, help="updates over which the learning rate rises from zero")
    add("--weight-decay", type=float, default=0.1, help="AdamW's decay of matrices; vectors have none")
    add("--clip", type=float, default=1.0, help="gradients longer than this, all taken together, are scaled down to it")
    add("--eval-every", type=int, default=250, help="updates between two validations; each saves a checkpoint too")
    add("--eval-windows", type=int, default=256, help="windows of the held-out files that validation reads")
    add("--stop-after", type=int, default=0, metavar="STEP", help="stop there as Ctrl-C would; 0: don't")
    add("--text-limit", type=int, default=None, metavar="BYTES", help="read no more of either part of the text")

    group = parser.add_argument_group("sampling")
    add = group.add_argument
    add("--prompt", default="def read_csv(", help="what to complete, after training and with --sample")
    add("--bytes", type=int, default=400, help="how much to write")
    add("--temperature", type=float, default=0.7, help="below 1 bolder guesses get rarer; 0 takes the likeliest byte")
    add("--top-k", type=int, default=40, help="choose among this many likeliest bytes only; 0: among all")
    options = parser.parse_args()
    if options.resume and options.sample:
        parser.error("--resume trains and --sample doesn't: give one of them")
    if options.width % options.heads:
        parser.error(f"--heads {options.heads} doesn't divide --width {options.width}")
    for name in ("context", "layers", "steps", "batch", "warmup", "eval_every", "eval_windows", "heads", "width"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return options


def main():
    options = parse()
    try:
        lib = importlib.import_module(options.lib)
    except ImportError as error:
        sys.exit(f"gpt.py: {options.lib} is not installed here ({error})")
    if options.threads:
        lib.set_num_threads(options.threads)
    if options.resume or options.sample:
        if not os.path.exists(options.checkpoint):
            sys.exit(f"gpt.py: there is no {options.checkpoint} yet; train first, or name another with --checkpoint")
        try:
            run = Run.load(lib, options.checkpoint, options.device)
        except Exception as error:              # whatever a damaged or foreign file makes the readers say
            sys.exit(f"gpt.py: {options.checkpoint} can't be used: {type(error).__name__}: {error}")
    else:
        run = Run(lib, {name: getattr(options, name) for name in CONFIG}, options.device)
    try:
        go_on = options.sample or train(run, options)
    except OSError as error:                    # a full disk, say: the last whole checkpoint is still there
        sys.exit(f"gpt.py: {error}")
    if go_on:
        write(lib, run.model, run.config["context"], options.prompt, options)


if __name__ == "__main__":
    main()
