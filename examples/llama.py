"""Llama-like language models (Llama, Mistral, Qwen 2 and 3, SmolLM), from GGUF files and from folders with safetensors.

Each block adds two things to its input: attention, in which heads share keys and values in groups and positions are rotations (RoPE),
and a gated network (SwiGLU); each is behind an RMSNorm. The names of tensors here are GGUF's.
"""
import dataclasses
import json
import math
import os

import tede
from tede import gguf
from tede.nn import functional as F
from tede.safetensors import load_file


@dataclasses.dataclass
class Config:
    width: int
    layers: int
    heads: int
    kv_heads: int               # heads that have keys and values of their own
    head: int                   # numbers of a head
    context: int
    epsilon: float = 1e-5
    base: float = 10000.0       # a position turns the k-th pair of a head by position * base ** (-2 k / head)
    pairs: bool = True          # pairs are neighbours, or else the halves of a head
    factors: "tede.Tensor | None" = None        # what angles are divided by, for contexts longer than the first training's


def rotate(x, cos, sin, pairs):
    """Turn the pairs of numbers in the last dimension by angles."""
    if pairs:
        a, b = x[..., 0::2], x[..., 1::2]
        return tede.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return tede.cat([a * cos - b * sin, a * sin + b * cos], -1)


def linear(x, weight, bias=None):
    """Weights are packed ones, which take float32, or of any floating dtype."""
    if weight.layout is tede.packed:
        return F.linear(x, weight, bias)
    return F.linear(x.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype)).float()


class Cache:
    """Keys and values of the positions so far."""

    def __init__(self, config, context):
        self.length = 0
        self.room = tede.zeros(config.layers, 2, 1, config.kv_heads, context, config.head)

    def add(self, layer, k, v):
        end = self.length + k.shape[2]
        for room, new in zip(self.room[layer], (k, v), strict=True):
            room[:, :, self.length:end] = new
        return self.room[layer, 0, :, :, :end], self.room[layer, 1, :, :, :end]


class Llama:
    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        turns = tede.arange(0, config.head, 2) / config.head
        speeds = config.base ** -turns / (1 if config.factors is None else config.factors)
        angles = tede.arange(config.context)[:, None] * speeds
        self.cos, self.sin = angles.cos(), angles.sin()             # (context, head / 2)

    def matrices(self):
        """The names of all that is multiplied by for each token; a table of embeddings is, if it is used for both ends."""
        ends = {"token_embd.weight"} if "output.weight" in self.tensors else set()
        return [name for name, x in self.tensors.items() if x.dim() == 2 and name not in ends]

    def bytes_per_token(self):
        return sum(self.tensors[name].nbytes for name in self.matrices())

    def packed(self, format):
        """The same model with matrices in few bits: "q8_0", "q4_k", "int8", ..."""
        kept = {name: x.float().to_packed(format) if x.dim() == 2 and x.layout is not tede.packed else x for name, x in self.tensors.items()}
        return Llama(self.config, kept)

    def __call__(self, ids, cache=None):
        """Logits behind each of `ids`, a (batch, length) tensor. Those before them are in `cache`."""
        w, config = self.tensors, self.config
        batch, length = ids.shape
        start = cache.length if cache else 0
        cos, sin = self.cos[start:start + length], self.sin[start:start + length]
        mask = tede.ones(length, start + length, dtype=tede.bool).tril(start) if start and length > 1 else None

        def heads(x, name, count):
            x = linear(x, w[name + ".weight"], w.get(name + ".bias")).view(batch, length, count, config.head)
            norm = w.get(name + "_norm.weight")                     # Qwen 3
            return (x if norm is None else F.rms_norm(x, norm.shape, norm.float(), config.epsilon)).transpose(1, 2)

        def norm(x, name):
            return F.rms_norm(x, (config.width,), w[name].float(), config.epsilon)

        x = F.embedding(ids, w["token_embd.weight"]).float()
        for layer in range(config.layers):
            at = f"blk.{layer}."
            h = norm(x, at + "attn_norm.weight")
            q = rotate(heads(h, at + "attn_q", config.heads), cos, sin, config.pairs)
            k = rotate(heads(h, at + "attn_k", config.kv_heads), cos, sin, config.pairs)
            v = heads(h, at + "attn_v", config.kv_heads)
            if cache:
                k, v = cache.add(layer, k, v)
            a = F.scaled_dot_product_attention(q, k, v, mask, is_causal=length > 1 and mask is None, enable_gqa=True)
            x = x + linear(a.transpose(1, 2).reshape(batch, length, -1), w[at + "attn_output.weight"])
            h = norm(x, at + "ffn_norm.weight")
            x = x + linear(F.silu(linear(h, w[at + "ffn_gate.weight"])) * linear(h, w[at + "ffn_up.weight"]), w[at + "ffn_down.weight"])
        if cache:
            cache.length += length
        return linear(norm(x, "output_norm.weight"), w.get("output.weight", w["token_embd.weight"]))


# Files ----------------------------------------------------------------------------------------------------------

# Whose rotation takes neighbours as pairs in GGUF files; in safetensors it is halves everywhere.
NEIGHBOURS = {"llama": True, "qwen2": False, "qwen3": False}


def from_gguf(path, context=None):
    """The model of a GGUF file, and the file's metadata."""
    tensors, metadata = gguf.load(path)
    kind = metadata.get("general.architecture")
    if kind not in NEIGHBOURS or metadata.get(f"{kind}.expert_count"):
        raise ValueError(f"{path}: a model of kind {kind!r}{' with experts' * (kind in NEIGHBOURS)}; here {', '.join(NEIGHBOURS)} are known, without experts")

    def said(name, *default):
        return metadata.get(f"{kind}.{name}", *default) if default else metadata[f"{kind}.{name}"]

    width, heads = said("embedding_length"), said("attention.head_count")
    factors = tensors.pop("rope_freqs.weight", None)
    scaling = said("rope.scaling.type", "none")
    if scaling == "linear":
        factors = tede.tensor(float(said("rope.scaling.factor")))
    elif scaling != "none":
        raise ValueError(f"{path}: positions scaled by {scaling!r}, which isn't known here")
    config = Config(width, said("block_count"), heads, said("attention.head_count_kv", heads), said("attention.key_length", width // heads),
                    min(context or 4096, said("context_length")), said("attention.layer_norm_rms_epsilon"), said("rope.freq_base", 10000.0),
                    NEIGHBOURS[kind], factors)
    return Llama(config, tensors), metadata


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    """model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    stem, _, ending = name.rpartition(".")
    if stem.startswith("model.layers."):
        layer, _, stem = stem[len("model.layers."):].partition(".")
        return f"blk.{layer}.{NAMES[stem]}.{ending}"
    return f"{NAMES[stem]}.{ending}"


def angle_factors(scaling, base, head):
    """What a config.json's rope_scaling divides angles by: slow turns by a factor, fast ones by nothing."""
    if not scaling:
        return None
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return tede.tensor(float(scaling["factor"]))
    if kind != "llama3":
        raise ValueError(f"positions scaled by {kind!r}, which isn't known here")
    lengths = 2 * math.pi * base ** (tede.arange(0, head, 2) / head)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    fast = ((scaling["original_max_position_embeddings"] / lengths - low) / (high - low)).clamp(0, 1)
    return 1 / (fast + (1 - fast) / scaling["factor"])


def from_safetensors(folder, context=None):
    """The model of a folder with config.json and *.safetensors, and its configuration."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        said = json.load(file)
    if said["model_type"] not in ("llama", "mistral", "qwen2", "qwen3"):
        raise ValueError(f"{folder}: a model of kind {said['model_type']!r}; here llama, mistral, qwen2 and qwen3 are known")
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors.update({gguf_name(key): x for key, x in load_file(os.path.join(folder, name)).items() if "rotary" not in key})
    if said.get("tie_word_embeddings"):
        tensors.pop("output.weight", None)
    width, heads, base = said["hidden_size"], said["num_attention_heads"], said.get("rope_theta", 10000.0)
    head = said.get("head_dim") or width // heads
    limit = min(context or 4096, said["max_position_embeddings"], said.get("sliding_window") or math.inf)
    config = Config(width, said["num_hidden_layers"], heads, said.get("num_key_value_heads", heads), head, limit, said["rms_norm_eps"], base, False,
                    angle_factors(said.get("rope_scaling"), base, head))
    return Llama(config, tensors), said
