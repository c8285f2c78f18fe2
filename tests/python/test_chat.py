"""examples/chat.py and its parts: tokenizers beside their definitions, the model beside one written plainly in NumPy, both kinds of files, and
the programs as they are called."""
import json
import pathlib
import random
import subprocess
import sys

import numpy
import pytest
import tede
from tede import gguf
from tede.safetensors import save_file

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


# ---- tokenizers

def joined_naively(parts, rank):
    parts = list(parts)
    while ranks := [(r, i) for i, pair in enumerate(zip(parts, parts[1:])) if (r := rank(*pair)) is not None]:
        i = min(ranks)[1]
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def test_neighbours_are_joined_the_lowest_rank_first():
    import tokens
    rng = random.Random(0)
    for _ in range(300):
        words = ["".join(rng.choices("abc", k=rng.choice([2, 2, 3, 4]))) for _ in range(12)]
        by_whole = {word: rng.randrange(8) for word in words}               # as SentencePiece's scores, with ties
        by_pair = {(word[:k], word[k:]): i for i, word in enumerate(words) for k in [rng.randrange(1, len(word))]}
        text = "".join(rng.choices("abc", k=rng.randrange(30)))
        for rank in (lambda a, b: by_whole.get(a + b)), (lambda a, b: by_pair.get((a, b))):
            got = tokens.joined(text, rank)
            assert got == joined_naively(text, rank) and "".join(got) == text


def byte_tokenizer(**more):
    """All bytes, some merges, a special token."""
    import tokens
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "w"), ("Ġw", "o"), ("1", "2"), ("12", "3")]
    pieces = [*tokens.CHARACTER.values(), *(a + b for a, b in merges), "<|end|>", "<|end|>more"]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
            "tokenizer.ggml.token_type": [1] * (len(pieces) - 2) + [3, 4], "tokenizer.ggml.eos_token_id": len(pieces) - 2, **more}


def score_tokenizer():
    """SentencePiece's: bytes, characters and wholes with scores."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a", "b", "é", "ab", "▁a", "▁ab", "ba"]
    scores = [0.] * 259 + [-9., -9., -9., -9., -1., -3., -2., -.5]
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": scores, "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 8}


def test_bytes_are_joined_in_words():
    import tokens
    t = tokens.from_gguf(byte_tokenizer())
    seen = [t.pieces[i] for i in t.encode("hello world<|end|>more<|end|>é")]
    assert seen == ["hell", "o", "Ġwo", "r", "l", "d", "<|end|>more", "<|end|>", "Ã", "©"]
    assert t.decode(t.encode("hello world<|end|>é 123<|end|>more")) == "hello worldé 123<|end|>more"       # the second is no control token
    rng = random.Random(1)
    for _ in range(200):
        text = "".join(rng.choice(["h", "e", "l", " ", "\n", "é", "\U0001f525", "_", "'s", "12", "\t", "\0", "½"]) for _ in range(20))
        assert t.decode(t.encode(text)) == text


@pytest.mark.parametrize("pre, words", [
    ("gpt-2", ["I", "'m", " here", "  ", " 12345", "abc", "_", "x", "!", "\n\n "]),
    ("llama-bpe", ["I", "'m", " here", "  ", " ", "123", "45", "abc", "_x", "!\n\n", " "]),
    ("qwen2", ["I", "'m", " here", "  ", " ", *"12345", "abc", "_x", "!\n\n", " "]),
    ("smollm", ["I", "'m", " here", "  ", " ", *"12345", "abc", "_", "x", "!", "\n\n "])])
def test_words_are_cut_by_the_patterns(pre, words):
    import re

    import tokens
    text = "I'm here   12345abc_x!\n\n "
    assert re.findall(tokens.PATTERNS[pre], text) == words
    t = tokens.from_gguf(byte_tokenizer(**{"tokenizer.ggml.pre": pre}))
    assert t.decode(t.encode(text)) == text


def test_pieces_are_joined_by_score():
    import tokens
    t = tokens.from_gguf(score_tokenizer())
    assert [t.pieces[i] for i in t.encode("abba é€")] == ["<s>", "▁ab", "ba", "▁", "é", "<0xE2>", "<0x82>", "<0xAC>"]
    assert t.decode(t.encode("abba é€")) == " abba é€"
    assert [t.pieces[i] for i in t.encode("a</s>")] == ["<s>", "▁a", "</s>"]
    for metadata, words in ({**score_tokenizer(), "tokenizer.ggml.model": "t5"}, "'t5'"), (byte_tokenizer(**{"tokenizer.ggml.pre": "deepseek"}), "'deepseek'"):
        with pytest.raises(ValueError, match=words):
            tokens.from_gguf(metadata)


# ---- the model

SIZES = {"width": 32, "layers": 2, "heads": 4, "kv_heads": 2, "head": 8, "context": 64}


def new_tensors(vocabulary, tied=True, biases=False, norms=False, seed=0):
    tede.manual_seed(seed)
    width, inner, shared = SIZES["width"], SIZES["heads"] * SIZES["head"], SIZES["kv_heads"] * SIZES["head"]
    made = {"token_embd.weight": tede.randn(vocabulary, width)}
    for i in range(SIZES["layers"]):
        for name, rows, columns in [("attn_q", inner, width), ("attn_k", shared, width), ("attn_v", shared, width), ("attn_output", width, inner),
                                    ("ffn_gate", 64, width), ("ffn_up", 64, width), ("ffn_down", width, 64)]:
            made[f"blk.{i}.{name}.weight"] = tede.randn(rows, columns) * .2
            if biases and name[:6] in ("attn_q", "attn_k", "attn_v"):
                made[f"blk.{i}.{name}.bias"] = tede.randn(rows)
        made |= {f"blk.{i}.{name}_norm.weight": 1 + .1 * tede.randn(width) for name in ("attn", "ffn")}
        if norms:
            made |= {f"blk.{i}.{name}_norm.weight": 1 + .1 * tede.randn(8) for name in ("attn_q", "attn_k")}
    made["output_norm.weight"] = 1 + .1 * tede.randn(width)
    return made if tied else {**made, "output.weight": tede.randn(vocabulary, width)}


def plain_logits(tensors, ids, pairs, base=10000.0, epsilon=1e-5):
    """The same model in float64, a position and a head at a time."""
    w = {name: x.double().numpy() for name, x in tensors.items()}

    def norm(x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * w[name]

    def turned(x, position):
        out = x.copy()
        for k in range(4):
            a, b = (2 * k, 2 * k + 1) if pairs else (k, k + 4)
            angle = position * base ** (-2 * k / 8)
            out[a], out[b] = x[a] * numpy.cos(angle) - x[b] * numpy.sin(angle), x[a] * numpy.sin(angle) + x[b] * numpy.cos(angle)
        return out

    x = w["token_embd.weight"][ids]
    for i in range(SIZES["layers"]):
        at, h = f"blk.{i}.", norm(x, f"blk.{i}.attn_norm.weight")
        heads = {}
        for name in "qkv":
            y = h @ w[f"{at}attn_{name}.weight"].T + w.get(f"{at}attn_{name}.bias", 0)
            y = y.reshape(len(ids), -1, 8)
            if name != "v":
                y = norm(y, f"{at}attn_{name}_norm.weight") if f"{at}attn_{name}_norm.weight" in w else y
                y = numpy.array([[turned(head, p) for head in row] for p, row in enumerate(y)])
            heads[name] = y
        out = numpy.zeros((len(ids), 4, 8))
        for p in range(len(ids)):
            for head in range(4):
                scores = numpy.array([heads["q"][p, head] @ heads["k"][s, head // 2] / 8 ** .5 for s in range(p + 1)])
                weights = numpy.exp(scores - scores.max())
                out[p, head] = weights / weights.sum() @ heads["v"][:p + 1, head // 2]
        x = x + out.reshape(len(ids), -1) @ w[at + "attn_output.weight"].T
        h = norm(x, at + "ffn_norm.weight")
        gate = h @ w[at + "ffn_gate.weight"].T
        x = x + (gate / (1 + numpy.exp(-gate)) * (h @ w[at + "ffn_up.weight"].T)) @ w[at + "ffn_down.weight"].T
    return norm(x, "output_norm.weight") @ w.get("output.weight", w["token_embd.weight"]).T


@pytest.mark.parametrize("pairs, more", [(True, {}), (True, {"tied": False}), (False, {"biases": True}), (False, {"norms": True, "tied": False})])
def test_the_model_is_what_it_says(pairs, more):
    import llama
    tensors, ids = new_tensors(40, **more), [3, 1, 4, 1, 5, 9, 2, 6]
    model = llama.Llama(llama.Config(**SIZES, pairs=pairs), tensors)
    right = plain_logits(tensors, ids, pairs)
    whole = model(tede.tensor([ids]))[0]
    assert numpy.abs(whole.numpy() - right).max() < 1e-3 * numpy.abs(right).max()
    for parts in [8], [1] * 8, [3, 1, 4], [1, 7]:           # through the cache
        cache, got, at = llama.Cache(model.config, 16), [], 0
        for n in parts:
            got.append(model(tede.tensor([ids[at:at + n]]), cache)[0])
            at += n
        assert cache.length == 8 and tede.allclose(tede.cat(got), whole, atol=1e-4)


def describe():
    return {"general.architecture": "llama", "llama.context_length": 64, "llama.embedding_length": 32, "llama.block_count": 2,
            "llama.feed_forward_length": 64, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
            "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0, "llama.rope.dimension_count": 8}


THEIRS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
IN_LAYERS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def write_folder(folder, tensors, **more):
    """The same model as a folder of safetensors: heads' pairs of neighbours become halves."""
    folder.mkdir()
    renamed = {}
    for name, x in tensors.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            x = x.view(-1, 4, 2, x.shape[1]).transpose(1, 2).reshape(x.shape)
        parts = name.split(".")
        renamed[f"model.layers.{parts[1]}.{IN_LAYERS[parts[2]]}.{parts[3]}" if parts[0] == "blk" else f"{THEIRS[parts[0]]}.{parts[1]}"] = x
    names = sorted(renamed)
    save_file({name: renamed[name] for name in names[:9]}, folder / "model-00001-of-00002.safetensors")
    save_file({name: renamed[name] for name in names[9:]}, folder / "model-00002-of-00002.safetensors")
    said = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, **more}
    (folder / "config.json").write_text(json.dumps(said))
    return folder


def test_both_kinds_of_files_are_the_same_model(tmp_path):
    import llama
    tensors, ids = new_tensors(40, tied=False), tede.tensor([[3, 1, 4, 1, 5]])
    gguf.save(tmp_path / "x.gguf", tensors, describe())
    ours, _ = llama.from_gguf(tmp_path / "x.gguf")
    theirs, _ = llama.from_safetensors(write_folder(tmp_path / "x", tensors))
    right = plain_logits(tensors, ids[0].tolist(), True)
    for model in ours, theirs:
        assert numpy.abs(model(ids)[0].numpy() - right).max() < 1e-3 * numpy.abs(right).max()
    tied, _ = llama.from_safetensors(write_folder(tmp_path / "tied", tensors, tie_word_embeddings=True))
    elements = sum(tensors[name].numel() for name in theirs.matrices())
    assert "output.weight" not in tied.tensors and tied.bytes_per_token() == theirs.bytes_per_token() == 4 * elements
    packed = theirs.packed("q8_0")
    assert packed.bytes_per_token() * 32 == elements * 34 and tede.allclose(packed(ids), theirs(ids), atol=.05 * numpy.abs(right).max())


def test_models_that_are_not_known_say_so(tmp_path):
    import llama
    for change, words in ({"general.architecture": "gemma"}, "'gemma'"), \
            ({"llama.expert_count": 8}, "with experts"), ({"llama.rope.scaling.type": "yarn"}, "'yarn'"):
        gguf.save(tmp_path / "x.gguf", {}, describe() | change)
        with pytest.raises(ValueError, match=words):
            llama.from_gguf(tmp_path / "x.gguf")
    with pytest.raises(ValueError, match="'gpt_neox'"):
        llama.from_safetensors(write_folder(tmp_path / "x", new_tensors(40), model_type="gpt_neox"))
    with pytest.raises(ValueError, match="'dynamic'"):
        llama.angle_factors({"rope_type": "dynamic"}, 1e4, 8)


def test_slow_angles_are_divided_by_the_factor():
    import llama
    said = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    factors = llama.angle_factors(said, 500000.0, 128).tolist()
    for k, factor in enumerate(factors):
        length = 2 * numpy.pi * 500000.0 ** (2 * k / 128)
        right = 1 if length < 8192 / 4 else 8 if length > 8192 else 1 / ((1 - (t := (8192 / length - 1) / 3)) / 8 + t)
        assert factor == pytest.approx(right, rel=1e-4)
    assert llama.angle_factors(None, 1e4, 8) is None and float(llama.angle_factors({"type": "linear", "factor": 4}, 1e4, 8)) == 4


def test_choices_are_among_the_likeliest():
    import chat
    logits = tede.tensor([1., 5., 3., 4.9, -2.])
    assert chat.choose(logits, 0, 0, 1) == 1
    drawn = {(k, p): {chat.choose(logits, 1., k, p) for _ in range(300)} for k, p in [(1, 1.), (2, 1.), (0, .4), (0, .9), (0, 1.)]}
    assert drawn[1, 1.] == {1} and drawn[2, 1.] == {1, 3} and drawn[0, .4] == {1} and drawn[0, .9] == {1, 3} and drawn[0, 1.] >= {1, 2, 3}


# ---- the programs

def run(program, *arguments, said=None, folder=None):
    done = subprocess.run([sys.executable, str(EXAMPLES / program), *map(str, arguments)], input=said, capture_output=True, text=True, timeout=200, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_answers_from_both_kinds_of_files(tmp_path):
    import tokens
    about = byte_tokenizer()
    tensors = new_tensors(len(about["tokenizer.ggml.tokens"]))
    gguf.save(tmp_path / "x.gguf", tensors, describe() | about)
    folder = write_folder(tmp_path / "x", tensors)
    vocabulary = {piece: i for i, piece in enumerate(about["tokenizer.ggml.tokens"])}
    added = [{"content": piece, "id": vocabulary.pop(piece)} for piece in ("<|end|>", "<|end|>more")]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "pre_tokenizer": {"type": "ByteLevel"}, "model": {
        "type": "BPE", "vocab": vocabulary, "merges": about["tokenizer.ggml.merges"]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|end|>"}}))
    assert tokens.from_json(folder / "tokenizer.json", {}).encode("hello 123<|end|>") == tokens.from_gguf(about).encode("hello 123<|end|>")
    texts = []
    for path in tmp_path / "x.gguf", folder:
        text = run("chat.py", path, "--prompt", "hello", "--tokens", 20, "--temperature", 0)
        answer, speed = text.rstrip("\n").rsplit("\n", 1)
        assert answer.startswith("hello") and "2 tokens read at" in speed and "20 written at" in speed and "GB/s of weights]" in speed
        texts.append(answer)
    assert texts[0] == texts[1]
    assert run("chat.py", folder, "--prompt", "hello", "--tokens", 5, "--format", "q8_0").startswith("hello")


def test_a_conversation_has_the_form_of_its_template(tmp_path):
    about = byte_tokenizer(**{"tokenizer.chat_template": "{% for m in messages %}<|im_start|>..."})
    tensors = new_tensors(len(about["tokenizer.ggml.tokens"]))
    gguf.save(tmp_path / "x.gguf", tensors, describe() | about | {"llama.context_length": 200})
    text = run("chat.py", tmp_path / "x.gguf", "--tokens", 3, said="hello\n123\n\n")
    asked = len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n")           # these are no tokens of this one: a byte each, but for "he" and "ll" in none
    assert text.count("written at") == 2 and f"[{asked + 2} tokens read" in text and f"[{asked + 1} tokens read" in text
    text = run("chat.py", tmp_path / "x.gguf", "--tokens", 3, "--context", 60, said="hello\n123\n\n")
    assert "[the context is full]" in text
    done = subprocess.run([sys.executable, str(EXAMPLES / "chat.py"), str(tmp_path / "nothing.gguf")], capture_output=True, text=True)
    assert done.returncode == 1 and "No such file" in done.stderr and "Traceback" not in done.stderr


def test_the_demonstration_trains_writes_and_chats(tmp_path):
    text = run("chat_demo.py", "--steps", 40, "--text-limit", 60000, "--vocabulary", 300, "--layers", 1, "--window", 32, folder=tmp_path)
    rows = {row.split()[0]: row.split()[1:] for row in text.splitlines() if row.split()[:1] and row.split()[0] in
            ("float32", "bfloat16", "int8", "int4_g32", "q8_0", "q6_k", "q4_k", "q4_0", "mxfp4")}
    assert len(rows) == 9
    assert {name: float(row[0]) for name, row in rows.items() if name[0] in "qm"} == {"q8_0": 8.5, "q6_k": 6.56, "q4_k": 4.5, "q4_0": 4.5, "mxfp4": 4.25}
    losses = {name: float(row[1]) for name, row in rows.items()}
    assert all(abs(loss - losses["float32"]) < (.01 if name in ("bfloat16", "int8", "q8_0", "q6_k") else .1) for name, loss in losses.items())
    assert losses["float32"] < 5.7                          # ln 300: it has learned
    assert sorted(path.name for path in (tmp_path / "chat-demo").iterdir()) == sorted(f"{name}.gguf" for name in rows if not name.startswith("int"))
    assert "def read_csv(" in text and "GB/s of weights]" in text and "Go on: " in text
