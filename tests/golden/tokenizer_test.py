# SPDX-License-Identifier: Apache-2.0
"""Token ids and texts equal to those of transformers, on tokenizers of the family's three kinds and on the real ones."""

import json
import os
import pathlib
import random

import pytest
import transformers

from tokenizer_fixtures import KINDS, PIECES, TEXTS, write_folder
from tokenizer_probe import ROOT, Probe

REAL = pathlib.Path(os.environ.get("PHITAP_TEST_DATA", ROOT.parent / "shared/data")) / "real/tokenizers"
REAL_NAMES = sorted(path.name for path in REAL.iterdir()) if REAL.is_dir() else []


class Pair:
    """The same folder through transformers and through the server's tokenizer."""

    def __init__(self, folder):
        self.reference = transformers.AutoTokenizer.from_pretrained(folder)
        self.probe = Probe(folder)


def linked_copy(source, folder):
    """The real folder with the config.json that transformers wants beside it."""
    folder.mkdir()
    for path in source.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "config.json").write_text(json.dumps({"model_type": "phi3"}))
    return folder


@pytest.fixture(scope="module", params=[*KINDS, *(f"real/{name}" for name in REAL_NAMES)])
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer") / "checkpoint"
    if request.param in KINDS:
        KINDS[request.param](folder)
    else:
        linked_copy(REAL / request.param.removeprefix("real/"), folder)
    pair = Pair(folder)
    yield pair
    pair.probe.close()


def random_texts(count):
    choice = random.Random(7)
    return ["".join(choice.choices(PIECES, k=choice.randint(1, 24))) for _ in range(count)]


def test_the_real_tokenizers_are_there():
    if not REAL_NAMES:
        pytest.skip(f"the real tokenizers are not in {REAL}; set PHITAP_TEST_DATA to test them too")
    assert len(REAL_NAMES) >= 4


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_encodes_as_transformers(pair, text):
    assert pair.probe.encode(text) == pair.reference(text)["input_ids"]


def test_encodes_random_texts_as_transformers(pair):
    for text in random_texts(400):
        assert pair.probe.encode(text) == pair.reference(text)["input_ids"], text


@pytest.mark.parametrize("skip", [False, True])
def test_decodes_what_it_encoded_as_transformers(pair, skip):
    for text in [*TEXTS, *random_texts(100)]:
        ids = pair.reference(text)["input_ids"]
        assert pair.probe.decode(ids, skip) == pair.reference.decode(ids, skip_special_tokens=skip), text


@pytest.mark.parametrize("skip", [False, True])
def test_decodes_any_ids_as_transformers(pair, skip):
    choice = random.Random(11)
    for _ in range(300):
        ids = [choice.randrange(len(pair.reference) + 3) for _ in range(choice.randint(0, 12))]
        assert pair.probe.decode(ids, skip) == pair.reference.decode(ids, skip_special_tokens=skip), ids


def test_token_texts_add_up_to_the_text(pair):
    for text in ["When Mary and John went to the store", "a  b\nc", "x <|endoftext|> y", "1234 !?"]:
        ids = pair.probe.encode(text)
        joined = "".join(pair.probe.token_text(token_id) for token_id in ids)
        # A SentencePiece decoder drops the space that its normalizer put first.
        assert joined.removeprefix(" ") == pair.reference.decode(ids), text


def test_every_token_has_a_text(pair):
    last = len(pair.reference) - 1
    for token_id in [*range(0, last, max(1, last // 500)), last]:
        if pair.reference.convert_ids_to_tokens(token_id) is not None:
            assert pair.probe.token_text(token_id) != "", token_id


def rewritten(folder, edit):
    """The o200k-style folder with its two files edited."""
    KINDS["o200k"](folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    edit(tokenizer, config)
    return Pair(write_folder(folder, tokenizer, config))


def drop_added_tokens_of_the_file(tokenizer, config):
    tokenizer["added_tokens"] = tokenizer["added_tokens"][:1]


def change_flags_in_the_config(tokenizer, config):
    for token in config["added_tokens_decoder"].values():
        token["rstrip"] = not token["rstrip"]
        token["lstrip"] = True


def name_tokens_that_are_plain_words(tokenizer, config):
    del config["added_tokens_decoder"]
    config.update(bos_token="Mary", sep_token="never seen", extra_special_tokens=["John", "<|new|>"])


def turn_a_plain_added_token_special(tokenizer, config):
    tokenizer["added_tokens"] = tokenizer["added_tokens"][:1]
    config["mask_token"] = "<|tool|>"


def ask_to_add_bos(tokenizer, config):
    config["add_bos_token"] = True


def split_special_tokens(tokenizer, config):
    config["split_special_tokens"] = True


@pytest.mark.parametrize("edit", [
    drop_added_tokens_of_the_file, change_flags_in_the_config, name_tokens_that_are_plain_words,
    turn_a_plain_added_token_special, ask_to_add_bos, split_special_tokens], ids=lambda edit: edit.__name__)
def test_takes_tokens_from_the_config_as_transformers(tmp_path, edit):
    pair = rewritten(tmp_path / "checkpoint", edit)
    texts = [*TEXTS, *random_texts(50), "Mary gave John never seen <|new|> \n tokens <|tool|> \n x"]
    for text in texts:
        ids = pair.reference(text)["input_ids"]
        assert pair.probe.encode(text) == ids, text
        assert pair.probe.decode(ids, True) == pair.reference.decode(ids, skip_special_tokens=True), text
    pair.probe.close()


def test_takes_the_older_special_tokens_map_as_transformers(tmp_path):
    folder = KINDS["o200k"](tmp_path / "checkpoint")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    del config["added_tokens_decoder"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "special_tokens_map.json").write_text(json.dumps({
        "eos_token": {"content": "<|end|>", "lstrip": False, "rstrip": True, "normalized": False, "single_word": False},
        "cls_token": "Mary"}))
    pair = Pair(folder)
    chat = [{"role": "user", "content": "hi"}]
    assert pair.probe.render(chat, False) == pair.reference.apply_chat_template(chat, tokenize=False)
    assert pair.probe.encode("a Mary b") == pair.reference("a Mary b")["input_ids"]
    pair.probe.close()
