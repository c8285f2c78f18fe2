"""Train a tiny Llama on the source text of Python's standard library for two minutes, put it into GGUF files in every format, and let it write.

    python examples/chat_demo.py                        or: make chat-demo
    python examples/chat.py chat-demo/q4_k.gguf         go on talking to it; it knows Python's library, and little else

The files hold all that a program needs to run the model, the tokenizer included, and other programs that read GGUF run them too. The
table shows what few bits cost: the loss on modules that training never saw, of the file as it was written and read again.
"""
import argparse
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict

import gpt
import llama
import tede
import tokens
from progress import Progress
from tede import gguf
from tede.nn import functional as F

END = "<|endoftext|>"
# Those with a name of GGUF's are written to files, int8 and int4 are the library's own.
FORMATS = ["float32", "bfloat16", "int8", "int4_g32", "q8_0", "q6_k", "q4_k", "q4_0", "mxfp4"]


# The tokenizer --------------------------------------------------------------------------------------------------

def learn_merges(text, count):
    """Byte pair encoding: the pair of neighbours that comes most often becomes a token, `count` times."""
    words = Counter(re.findall(tokens.GPT2, text))
    split = [["".join(tokens.CHARACTER[byte] for byte in character.encode()) for character in word] for word in words]
    split = [[character for part in parts for character in part] for parts in split]
    times = list(words.values())
    pairs, places = Counter(), defaultdict(set)                     # how often a pair comes, and in which words
    for i, parts in enumerate(split):
        for pair in zip(parts, parts[1:]):
            pairs[pair] += times[i]
            places[pair].add(i)
    merges = []
    while len(merges) < count:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for i in places.pop(best):
            for pair in zip(split[i], split[i][1:]):
                pairs[pair] -= times[i]
            parts, new = split[i], []
            while parts:
                size = 2 if tuple(parts[:2]) == best else 1
                new.append("".join(parts[:size]))
                parts = parts[size:]
            split[i] = new
            for pair in zip(new, new[1:]):
                pairs[pair] += times[i]
                places[pair].add(i)
        del pairs[best]
    return merges


def describe_tokenizer(merges):
    """What a GGUF file says of it."""
    pieces = [*tokens.CHARACTER.values(), *(a + b for a, b in merges), END]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.token_type": [1] * (len(pieces) - 1) + [3], "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges],
            "tokenizer.ggml.eos_token_id": len(pieces) - 1, "tokenizer.ggml.bos_token_id": len(pieces) - 1, "tokenizer.ggml.add_bos_token": False}


# The model ------------------------------------------------------------------------------------------------------

def new_model(config, hidden, vocabulary):
    """A model of random weights; its table of embeddings is its last matrix, too."""
    def matrix(rows, columns, scale=1.0):
        return (tede.randn(rows, columns) * scale / math.sqrt(columns)).requires_grad_()

    kept, width = {"token_embd.weight": matrix(vocabulary, config.width, 0.3)}, config.width
    into = 1 / math.sqrt(2 * config.layers)             # what flows along the residual path keeps its size however many blocks add to it
    for layer in range(config.layers):
        at = f"blk.{layer}."
        kept |= {at + "attn_norm.weight": tede.ones(width, requires_grad=True), at + "ffn_norm.weight": tede.ones(width, requires_grad=True),
                 at + "attn_q.weight": matrix(config.heads * config.head, width), at + "attn_k.weight": matrix(config.kv_heads * config.head, width),
                 at + "attn_v.weight": matrix(config.kv_heads * config.head, width),
                 at + "attn_output.weight": matrix(width, config.heads * config.head, into), at + "ffn_gate.weight": matrix(hidden, width),
                 at + "ffn_up.weight": matrix(hidden, width), at + "ffn_down.weight": matrix(width, hidden, into)}
    kept["output_norm.weight"] = tede.ones(width, requires_grad=True)
    return llama.Llama(config, kept)


def describe_model(config, hidden):
    return {"general.architecture": "llama", "general.name": "a tiny Llama that read Python's standard library",
            "llama.context_length": config.context, "llama.embedding_length": config.width, "llama.block_count": config.layers,
            "llama.feed_forward_length": hidden, "llama.attention.head_count": config.heads, "llama.attention.head_count_kv": config.kv_heads,
            "llama.attention.layer_norm_rms_epsilon": config.epsilon, "llama.rope.freq_base": config.base, "llama.rope.dimension_count": config.head}


def loss_of(model, windows):
    """The mean loss in nats per token of windows, a (count, length + 1) tensor."""
    logits = model(windows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].reshape(-1))


def evaluate(model, windows):
    with tede.no_grad():
        return sum(loss_of(model, part).item() * len(part) for part in windows.split(16)) / len(windows)


def train(model, data, options):
    """AdamW for `options.seconds`, or `options.steps`; the rate rises, and falls with what is left of them."""
    parameters = list(model.tensors.values())
    groups = [{"params": [p for p in parameters if p.dim() == 2], "weight_decay": 0.1}, {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = tede.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.98))
    length, step, began, smooth = options.window, 0, time.monotonic(), 0.0
    bar = Progress(100)
    while (done := step / options.steps if options.steps else (time.monotonic() - began) / options.seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.lr * min(1.0, (step + 1) / 30) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))
        starts = tede.randint(len(data) - length, (options.batch, 1))
        loss = loss_of(model, data[starts + tede.arange(length + 1)])
        optimizer.zero_grad()
        loss.backward()
        tede.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        smooth = loss.item() if step == 1 else 0.95 * smooth + 0.05 * loss.item()
        bar.update(int(100 * done), f"%  step {step}  loss {smooth:.3f}")
    bar.close()
    print(f"{step} steps, {step * options.batch * length / 1e6:.2f}M tokens read in {time.monotonic() - began:.0f} s; loss of the last batches {smooth:.3f}")


# The command ----------------------------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seconds", type=int, default=120, help="of training")
    add("--steps", type=int, default=0, help="train for so many steps instead")
    add("--folder", default="chat-demo", help="where the files go")
    add("--text-limit", type=int, default=6_000_000, help="bytes of the library's text that are read")
    add("--vocabulary", type=int, default=1024, help="tokens")
    add("--width", type=int, default=256, help="a multiple of 256, which blocks of q4_k and q6_k are long")
    add("--layers", type=int, default=3)
    add("--batch", type=int, default=4, help="windows of a step")
    add("--window", type=int, default=128, help="tokens of a window")
    add("--lr", type=float, default=3e-3)
    add("--seed", type=int, default=1)
    add("--prompt", default="def read_csv(", help="what the model goes on with")
    add("--chat-format", default="q4_k", choices=[name for name in FORMATS if not name.startswith("int")], help="the file that writes")
    options = parser.parse_args()
    tede.manual_seed(options.seed)
    os.makedirs(options.folder, exist_ok=True)

    text, held_out = (bytes(part).decode(errors="replace") for part in gpt.read_library(options.text_limit))
    about_tokens = describe_tokenizer(learn_merges(text[:2_000_000], options.vocabulary - 257))
    tokenizer = tokens.from_gguf(about_tokens)
    data = tede.tensor(tokenizer.encode(text))
    length = options.window + 1
    validation = tede.tensor(tokenizer.encode(held_out[:64 * 4 * length]))
    validation = validation[:len(validation) // length * length].view(-1, length)[:64]
    hidden = 2 * options.width
    config = llama.Config(options.width, options.layers, heads=options.width // 64, kv_heads=options.width // 128, head=64, context=1024)
    model = new_model(config, hidden, options.vocabulary)
    print(f"{len(text) / 1e6:.1f}M characters are {len(data) / 1e6:.2f}M tokens of {options.vocabulary}; "
          f"{sum(x.numel() for x in model.tensors.values()) / 1e6:.2f}M parameters")
    train(model, data, options)

    metadata = describe_model(config, hidden) | about_tokens
    weights = {name: x.detach() for name, x in model.tensors.items()}
    model = llama.Llama(config, weights)
    losses, number = [], sum(weights[name].numel() for name in model.matrices())
    print(f"\n{'format':<10} {'bits':>5} {'loss':>8} {'':>8}  nats per token on {validation.numel():,} tokens of modules that training never saw")
    for name in FORMATS:
        path = os.path.join(options.folder, name + ".gguf")
        if name.startswith("int"):                      # no types of GGUF's
            path, made = "", model.packed(name)
        else:
            kept = model.packed(name).tensors if name not in ("float32", "bfloat16") else {
                key: x.to(getattr(tede, name)) if x.dim() == 2 else x for key, x in weights.items()}
            gguf.save(path, kept, metadata)
            made, _ = llama.from_gguf(path)
        loss = evaluate(made, validation)
        losses.append(loss)
        print(f"{name:<10} {8 * made.bytes_per_token() / number:5.2f} {loss:8.4f} {loss - losses[0]:+8.4f}  {path}", flush=True)

    seen = [tokenizer.decode(window.tolist()).encode() for window in validation]
    per_byte = losses[0] * validation.numel() / sum(map(len, seen))
    print(f"that is {per_byte:.3f} nats per byte; guessing each byte from the one before it has {gpt.bigram_loss(text.encode(), seen):.3f}")

    path = os.path.join(options.folder, options.chat_format + ".gguf")
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat.py"), path]
    print(f"\n{path} writes:\n", flush=True)
    subprocess.run([*command, "--prompt", options.prompt, "--tokens", "200"], check=True)
    print(f"\nGo on: {' '.join(command)}")


if __name__ == "__main__":
    main()
