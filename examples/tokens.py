"""From text to the numbers of tokens and back: byte pair encoding, as SentencePiece (Llama 1 and 2, Mistral) and GPT-2 (Llama 3, Qwen) have
it, from what a GGUF file or a tokenizer.json says.

Both begin with single characters and join neighbours again and again, the best pair first. SentencePiece joins those whose whole has
the highest score, in a text whose spaces are "▁". GPT-2 first cuts the text into words by a pattern, writes each byte as a
printable character, and joins in the order of a list of pairs.
"""
import heapq
import json
import re

LETTERS, NUMBER, OTHERS = r"[^\W\d_]+", r"\d", r"(?:[^\s\w]|_)+"
GPT2 = rf"'(?:s|t|re|ve|m|ll|d)| ?{LETTERS}| ?{NUMBER}+| ?{OTHERS}|\s+(?!\S)|\s+"
LLAMA3 = rf"(?i:'(?:s|t|re|ve|m|ll|d))|(?:[^\r\n\w]|_)?{LETTERS}|{NUMBER}{{1,3}}| ?{OTHERS}[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"gpt-2": GPT2, "llama-bpe": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", ""), "smollm": NUMBER + "|" + GPT2.replace(rf"| ?{NUMBER}+", "")}

# Printable characters stand for themselves, the other bytes for characters from 256 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHARACTER = {byte: chr(byte) for byte in PRINTABLE}
CHARACTER |= {byte: chr(256 + i) for i, byte in enumerate(byte for byte in range(256) if byte not in CHARACTER)}
BYTE = {character: byte for byte, character in CHARACTER.items()}


def joined(parts, rank):
    """Parts of a text after joining neighbours, the pair of lowest rank first (of equal ones the first), until no pair has a rank."""
    parts, n = list(parts), len(parts)
    after, before, waiting = list(range(1, n + 1)), list(range(-1, n)), []

    def offer(i):
        if i >= 0 and after[i] < n and (r := rank(parts[i], parts[after[i]])) is not None:
            heapq.heappush(waiting, (r, i, parts[i], parts[after[i]]))

    for i in range(n):
        offer(i)
    while waiting:
        _, i, left, right = heapq.heappop(waiting)
        j = after[i]
        if parts[i] != left or j >= n or parts[j] != right:         # one of them is part of something else by now
            continue
        parts[i], parts[j] = left + right, None
        after[i] = after[j]
        before[after[j]] = i
        offer(before[i])
        offer(i)
    return [part for part in parts if part is not None]


class Tokenizer:
    """`pieces` are the tokens' texts by number. `special` ones are found in texts as they are, and show nothing if they are `hidden`."""

    def __init__(self, pieces, special, hidden, rank, pattern=None, bos=None, eos=None, add_bos=False, add_space=True, whole_words=False):
        self.pieces, self.ids = pieces, {piece: i for i, piece in enumerate(pieces)}
        self.special, self.hidden = {piece: self.ids[piece] for piece in special}, frozenset(hidden)
        self.rank, self.pattern, self.whole_words = rank, pattern and re.compile(pattern), whole_words
        self.bos, self.eos, self.add_bos, self.add_space = bos, eos, add_bos, add_space
        longest_first = sorted(map(re.escape, self.special), key=len, reverse=True)
        self.split = re.compile("(" + "|".join(longest_first) + ")") if self.special else None
        self.words = {}                                             # a word's tokens, once they are known

    def encode(self, text):
        ids = [self.bos] if self.add_bos and self.bos is not None else []
        for part in self.split.split(text) if self.split else [text]:
            if part in self.special:
                ids.append(self.special[part])
            elif part:
                ids += self._encode_words(part) if self.pattern else self._encode_pieces(part)
        return ids

    def _encode_words(self, text):
        for word in self.pattern.findall(text) if self.pattern else ():
            if word not in self.words:
                characters = "".join(CHARACTER[byte] for byte in word.encode())
                whole = self.whole_words and characters in self.ids
                self.words[word] = [self.ids[part] for part in ([characters] if whole else joined(characters, self.rank))]
            yield from self.words[word]

    def _encode_pieces(self, text):
        for part in joined((" " * self.add_space + text).replace(" ", "▁"), self.rank):
            if part in self.ids:
                yield self.ids[part]
            else:                                                   # a character that is no token: its bytes are
                yield from (self.ids[f"<0x{byte:02X}>"] for byte in part.encode())

    def bytes_of(self, i):
        """What a token adds to a text, which may be part of a character."""
        piece = self.pieces[i]
        if piece in self.special:
            return b"" if piece in self.hidden else piece.encode()
        if self.pattern:
            return bytes(BYTE[character] for character in piece)
        if re.fullmatch("<0x[0-9A-F]{2}>", piece):
            return bytes([int(piece[3:5], 16)])
        return piece.replace("▁", " ").encode()

    def decode(self, ids):
        return b"".join(map(self.bytes_of, ids)).decode(errors="replace")


def pattern_named(name):
    if name not in PATTERNS:
        raise ValueError(f"tokenizer: the pattern of words {name!r} isn't known here; there are {', '.join(PATTERNS)}")
    return PATTERNS[name]


def from_gguf(metadata):
    """The tokenizer that a GGUF file describes."""
    def said(name, default=None):
        return metadata.get("tokenizer.ggml." + name, default)

    pieces, model = said("tokens"), said("model")
    kinds = said("token_type", [1] * len(pieces))
    hidden = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == 3]              # control
    special = hidden + [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == 4]    # user-defined
    known = {"bos": said("bos_token_id"), "eos": said("eos_token_id")}
    if model == "llama":
        scores = dict(zip(pieces, said("scores"), strict=True))
        return Tokenizer(pieces, special, hidden, lambda a, b: -scores[a + b] if a + b in scores else None, **known,
                         add_bos=said("add_bos_token", True), add_space=said("add_space_prefix", True))
    if model == "gpt2":
        ranks = {tuple(pair.split(" ")): i for i, pair in enumerate(said("merges"))}
        pre = said("pre", "gpt-2")
        return Tokenizer(pieces, special, hidden, lambda a, b: ranks.get((a, b)), pattern_named(pre), **known,
                         add_bos=said("add_bos_token", pre == "llama-bpe"), whole_words=pre == "llama-bpe")
    raise ValueError(f"tokenizer: the kind {model!r} isn't known here; there are 'llama' (SentencePiece) and 'gpt2'")


def from_json(path, settings):
    """The tokenizer of a tokenizer.json; `settings` are those of tokenizer_config.json beside it."""
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    model, added = said["model"], said["added_tokens"]
    if model["type"] != "BPE":
        raise ValueError(f"tokenizer: the kind {model['type']!r} isn't known here; there is BPE")
    vocabulary = model["vocab"] | {token["content"]: token["id"] for token in added}
    pieces = [""] * (max(vocabulary.values()) + 1)
    for piece, i in vocabulary.items():
        pieces[i] = piece
    ranks = {tuple(pair.split(" ") if isinstance(pair, str) else pair): i for i, pair in enumerate(model["merges"])}
    known = {}
    for name in "bos", "eos":
        token = settings.get(name + "_token")                       # a text, or a dict that has it
        known[name] = vocabulary.get(token["content"] if isinstance(token, dict) else token)
    words = json.dumps(said["pre_tokenizer"])
    by_bytes = "ByteLevel" in words
    pre = "llama-bpe" if "{1,3}" in words else "qwen2" if r"|\\p{N}|" in words else "smollm" if '"Digits"' in words else "gpt-2"
    hidden = [token["content"] for token in added if token.get("special", True)]
    return Tokenizer(pieces, [token["content"] for token in added], hidden, lambda a, b: ranks.get((a, b)), PATTERNS[pre] if by_bytes else None, **known,
                     add_bos=settings.get("add_bos_token", pre == "llama-bpe" or not by_bytes), whole_words=model.get("ignore_merges", False))
