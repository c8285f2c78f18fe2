"""Talk to a language model on the CPU.

    python examples/chat.py model.gguf                             a conversation; an empty line ends it
    python examples/chat.py model.gguf --prompt "def main("        go on with a text
    python examples/chat.py folder/ --format q4_k                  from safetensors, weights packed to four bits when they are loaded

The tokenizer and the form of a conversation come with the model. Behind each answer stand the tokens per second, and the bytes of
weights that were read for them: a model answers as fast as its weights are read, which is why fewer bits are faster.
"""
import argparse
import codecs
import json
import os
import sys
import time

import llama
import tede
import tokens

# What a model's template of conversations has in it; a question in its form; what ends the answer.
FORMS = [
    ("<|im_start|>", "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"),
    ("<|start_header_id|>", "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    ("[INST]", "[INST] {} [/INST]", "</s>"),
    ("<|user|>", "<|user|>\n{}</s>\n<|assistant|>\n", "</s>"),
]


def load(path, context, format):
    """A model, its tokenizer and its template of conversations."""
    if os.path.isdir(path):
        model, _ = llama.from_safetensors(path, context)
        settings_path = os.path.join(path, "tokenizer_config.json")
        settings = {}
        if os.path.exists(settings_path):
            with open(settings_path, encoding="utf-8") as file:
                settings = json.load(file)
        tokenizer, template = tokens.from_json(os.path.join(path, "tokenizer.json"), settings), settings.get("chat_template")
    else:
        model, metadata = llama.from_gguf(path, context)
        tokenizer, template = tokens.from_gguf(metadata), metadata.get("tokenizer.chat_template")
    return model.packed(format) if format else model, tokenizer, str(template)


def choose(logits, temperature, top_k, top_p):
    """A token by its probability, among the `top_k` likeliest and those that together have `top_p`."""
    if temperature <= 0:
        return int(logits.argmax())
    logits, order = logits.sort(descending=True)
    p = (logits / temperature).softmax(0)
    if top_k:
        p[top_k:] = 0
    p[p.cumsum(0) - p >= top_p * p.sum()] = 0           # what lies behind the first ones that are enough
    return int(order[p.multinomial(1)])


class Chat:
    def __init__(self, model, tokenizer, options):
        self.model, self.tokenizer, self.options = model, tokenizer, options
        self.cache, self.pending = llama.Cache(model.config, model.config.context), []

    def answer(self, text, ends):
        """Go on behind `text`, a piece at a time, until one of the tokens `ends`."""
        options, decoder = self.options, codecs.getincrementaldecoder("utf-8")("replace")
        ids = self.tokenizer.encode(text)
        if self.cache.length:                           # only a conversation's first text begins with the token that begins one
            ids = self.pending + ids[self.tokenizer.add_bos:]
        began = time.perf_counter()
        self.prompt, self.count, self.seconds = len(ids), 0, 0.0
        if not ids or self.cache.length + len(ids) > self.model.config.context:
            return
        logits = self.model(tede.tensor([ids]), self.cache)[0, -1]
        self.prompt_seconds, self.pending = time.perf_counter() - began, []
        while self.count < options.tokens and self.cache.length < self.model.config.context:
            token = choose(logits, options.temperature, options.top_k, options.top_p)
            if token in ends:
                self.pending = [token]                  # read with the next question
                break
            yield decoder.decode(self.tokenizer.bytes_of(token))
            began = time.perf_counter()
            logits = self.model(tede.tensor([[token]]), self.cache)[0, -1]
            self.count, self.seconds = self.count + 1, self.seconds + time.perf_counter() - began
        yield decoder.decode(b"", True)

    def speed(self):
        if not self.count:
            return "[the context is full]" if self.cache.length + self.prompt > self.model.config.context else "[nothing to say]"
        each = self.seconds / self.count
        return (f"[{self.prompt} tokens read at {self.prompt / self.prompt_seconds:.0f}/s, {self.count} written at {1 / each:.1f}/s, "
                f"{self.model.bytes_per_token() / each / 1e9:.1f} GB/s of weights]")


def parse():
    parser = argparse.ArgumentParser(description="Talk to a language model on the CPU.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("model", help="a GGUF file, or a folder with config.json, tokenizer.json and *.safetensors")
    add("--prompt", help="go on with this text, and end")
    add("--tokens", type=int, default=400, help="of an answer, at most")
    add("--context", type=int, default=4096, help="tokens of a conversation, at most; fewer if the model was made for fewer")
    add("--temperature", type=float, default=0.7, help="0 takes the likeliest token")
    add("--top-k", type=int, default=40, help="choose among so many tokens; 0: all")
    add("--top-p", type=float, default=0.95, help="choose among the likeliest tokens that together have this probability")
    add("--format", help="pack the weights that aren't: int8, int4_g32, q8_0, q4_0, q4_k, q6_k, mxfp4")
    add("--seed", type=int, default=1)
    add("--threads", type=int, default=0, help="0 leaves the library's own choice")
    return parser.parse_args()


def main():
    options = parse()
    tede.manual_seed(options.seed)
    if options.threads:
        tede.set_num_threads(options.threads)
    try:
        model, tokenizer, template = load(options.model, options.context, options.format)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        sys.exit(f"chat.py: {type(error).__name__}: {error}")
    chat = Chat(model, tokenizer, options)
    form, end = next(((form, end) for mark, form, end in FORMS if mark in template), ("{}", None))
    ends = {tokenizer.eos, tokenizer.ids.get(end)}

    def say(text):
        for piece in chat.answer(text, ends):
            print(piece, end="", flush=True)
        print("\n" + chat.speed())

    with tede.inference_mode():
        if options.prompt is not None:
            print(options.prompt, end="", flush=True)
            return say(options.prompt)
        try:
            while text := input("> "):
                say(form.format(text))
        except (EOFError, KeyboardInterrupt):
            print()


if __name__ == "__main__":
    main()
