# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders with the three kinds of tokenizer of the Phi-3 family, trained here on a few sentences.

They hold what the real ones hold (normalizer, split, decoder, flags of the added tokens) at a few hundred tokens.
"""

import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

CORPUS = [
    "When Mary and John went to the store, John gave a drink to Mary. It's 2024, and they've 1,234,567 friends.",
    "Größe, naïve café, façade, Ελληνικά, русский язык, العربية, עברית, हिन्दी, ไทย.",
    "今日は良い天気ですね。你好，世界！안녕하세요 세계. 😀 👩‍👩‍👧‍👦 🇩🇪 ❤️",
    "def f(x):\n    return x  # a comment\n\n\tif y:\r\n\t\tpass\n   \n",
    "camelCase HTTPServer iPhone McDonald's WE'LL we'll don't DON'T ʼn ǅ ª",
] * 4

TEXTS = [
    "", " ", "  ", "   leading", "trailing   ", "\n", "\n\n", "\t", "\r\n", " \n ",
    "Hello world", "When Mary and John went to the store, John gave a drink to",
    "naïve café Größe", "e\u0301 combining, \u212b angstrom, ﬁ ligature", "今日は良い天気ですね。你好，世界！", "안녕하세요 세계",
    "😀", "a😀b 👩‍👩‍👧‍👦 🇩🇪", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ✓ ∑", "العربية עברית हिन्दी ไทย", "no\u00a0break\u00a0space", "thin\u2009space\u3000wide",
    "a  b   c    d", "x\n\n\n\ny", "  indented\n    more\n\ttab", "1 12 123 1234 12345 ١٢٣", "it's IT'S we'll WE'LL don't",
    "camelCase HTTPServer iPhone", "a/b//c\r\nd/\n", "!!! ??? ... --- ___", "\u200b\ufeff\u200d", "\x00\x01\x7f", "�", "\U0010ffff",
    "<|user|>\nHello<|end|>\n<|assistant|>\n", "<|user|> Hello <|end|> <|assistant|> ", "<|user|>\u00a0\u3000\n\t Hello",
    "<|endoftext|>\nHello", "<|endoftext|> Hello", "<s>\nHello</s>\n\nBye", "<s> <s>", "<unk>Hello", "Hello<|end|>",
    "<|im_start|>user<|im_sep|>Hello<|im_end|>\n<|im_start|>", "a <|im_sep|> b\n<|dummy_0|>\nc", "<|en<|end|>d|>", "<|end|",
    "<|end|><|end|>\n\n<|user|>", "<|tool|>[{}]<|/tool|>\n", "▁already▁there", "Ġbyte Ċlevel", "<0x0A> <0xE4>",
]

# Pieces of the random texts.
PIECES = [" ", "  ", "\n", "\t", "\u00a0", "a", "the", "Mary", "é", "e\u0301", "今", "日本", "😀", "👩‍👧", "1", "123", "'s", "'LL", ",",
          "…", "/", "\r\n", "▁", "Ġ", "\u200d", "<|end|>", "<|user|>", "<|endoftext|>", "<s>", "</s>", "<|im_start|>", "<|im_sep|>",
          "<|tool|>", "<|", "|>"]

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION +
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

TURNS = ("{% for message in messages %}{{'<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n'}}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")


def added_token(token_id, content, *, special=True, lstrip=False, rstrip=False):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": lstrip, "rstrip": rstrip,
            "normalized": False, "special": special}


def write_folder(folder, tokenizer, config):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    # Without it transformers would rebuild the tokenizer as a Llama one.
    (folder / "config.json").write_text(json.dumps({"model_type": "phi3"}))
    return folder


def decoder_of(token):
    return {key: value for key, value in token.items() if key != "id"}


def sentencepiece_style(folder):
    """As Phi-3 and Phi-3.5: BPE with byte fallback, a prefix space a segment, added tokens that swallow what follows."""
    trained = Tokenizer(models.BPE())
    trained.train_from_iterator(
        ["▁" + line.replace(" ", "▁") for text in CORPUS for line in text.split()],
        trainers.BpeTrainer(vocab_size=500, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += list(model["vocab"])
    base = len(tokens)
    added = [added_token(0, "<unk>"), added_token(1, "<s>"), added_token(2, "</s>", special=False, rstrip=True),
             added_token(base, "<|endoftext|>")]
    added += [added_token(base + 1 + i, name, rstrip=True)
              for i, name in enumerate(["<|assistant|>", "<|system|>", "<|end|>", "<|user|>"])]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  # The older spelling, as in the real file.
                  "merges": [" ".join(merge) for merge in model["merges"]]},
    }
    config = {"add_bos_token": False, "add_eos_token": False, "bos_token": "<s>", "eos_token": "<|endoftext|>",
              "unk_token": "<unk>", "pad_token": "<|endoftext|>", "tokenizer_class": "LlamaTokenizer", "legacy": False,
              "clean_up_tokenization_spaces": False, "chat_template": TURNS,
              "added_tokens_decoder": {str(token["id"]): decoder_of(token) for token in added}}
    return write_folder(folder, tokenizer, config)


def _byte_level(folder, pattern, specials, config):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    document = json.loads(tokenizer.to_str())
    base = len(document["model"]["vocab"])
    document["added_tokens"] = [added_token(base + i, name, **flags) for i, (name, flags) in enumerate(specials)]
    return write_folder(folder, document, {
        "tokenizer_class": "GPT2Tokenizer", "clean_up_tokenization_spaces": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(token["id"]): decoder_of(token) for token in document["added_tokens"]}, **config})


def cl100k_style(folder):
    """As phi-4: added tokens swallow whitespace on both sides."""
    both = {"lstrip": True, "rstrip": True}
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|dummy_0|>"]
    return _byte_level(folder, CL100K, [(name, both) for name in names], {
        "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|dummy_0|>",
        "chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '<|im_sep|>' + "
                         "message['content'] + '<|im_end|>'}}{% endfor %}"
                         "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"})


def o200k_style(folder):
    """As Phi-4-mini: tool tokens that are not special, special ones that swallow what follows."""
    right = {"rstrip": True}
    specials = [("<|endoftext|>", {}), ("<|assistant|>", right), ("<|end|>", right), ("<|user|>", right), ("<|system|>", right),
                ("<|tool|>", {"rstrip": True, "special": False}), ("<|/tool|>", {"rstrip": True, "special": False})]
    return _byte_level(folder, O200K, specials, {
        "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "chat_template": TURNS})


KINDS = {"sentencepiece": sentencepiece_style, "cl100k": cl100k_style, "o200k": o200k_style}
