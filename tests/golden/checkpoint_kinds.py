"""Tiny seeded checkpoints, one of each kind in the family, written by transformers."""

import json
import pathlib
import shutil

import torch
from transformers import Phi3Config, Phi3ForCausalLM

WINDOW = 20
ORIGINAL_LENGTH = 64  # longrope: prompts up to it use the short factors
VOCABULARY = 97

_COMMON = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=4, max_position_embeddings=512, original_max_position_embeddings=512, sliding_window=None,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)


def _longrope(pairs: int) -> dict:
    return dict(rope_type="longrope", short_factor=[1.0 + 0.03 * i for i in range(pairs)],
                long_factor=[1.1 + 1.7 * i for i in range(pairs)])


#: Settings of each kind on top of the common ones.
KINDS: dict[str, dict] = {
    "window": dict(sliding_window=WINDOW),  # Phi-3-mini-4k
    "longrope": dict(original_max_position_embeddings=ORIGINAL_LENGTH, rope_scaling=_longrope(8), sliding_window=2048),
    "su": dict(original_max_position_embeddings=ORIGINAL_LENGTH, rope_scaling=_longrope(8), sliding_window=512),  # medium-128k
    "gqa": dict(num_attention_heads=8, num_key_value_heads=2),
    "partial_tied": dict(original_max_position_embeddings=ORIGINAL_LENGTH, hidden_size=96, num_attention_heads=6, num_key_value_heads=2,
                         partial_rotary_factor=0.75, rope_scaling=_longrope(6), tie_word_embeddings=True),  # Phi-4-mini
    "phi4": dict(num_attention_heads=4, num_key_value_heads=1, rope_theta=250000.0),
    "head_dim": dict(head_dim=24),
}


def make_checkpoint(folder: pathlib.Path, kind: str, dtype: torch.dtype = torch.float32, **more) -> pathlib.Path:
    """A checkpoint of the kind in `folder`, with more settings. Weights are large enough for attention to be far from uniform."""
    settings = {**_COMMON, **KINDS[kind], **more}
    head_dim = settings.pop("head_dim", None)
    config = Phi3Config(**settings, initializer_range=0.15)
    if head_dim is not None:
        config.head_dim = head_dim
    torch.manual_seed(sum(map(ord, kind)))
    model = Phi3ForCausalLM(config).eval().to(dtype)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    if kind == "su":
        rewrite_rope_type(folder, "su")
    return folder


def rewrite_rope_type(folder: pathlib.Path, rope_type: str) -> None:
    """Spells the config as releases of transformers 4 did: a rope_scaling with a type, everything else at the top level."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    parameters = config.pop("rope_parameters")
    config["rope_theta"] = parameters["rope_theta"]
    config["partial_rotary_factor"] = parameters.get("partial_rotary_factor", 1.0)
    config["original_max_position_embeddings"] = ORIGINAL_LENGTH
    config["rope_scaling"] = {"type": rope_type, "short_factor": parameters["short_factor"], "long_factor": parameters["long_factor"]}
    path.write_text(json.dumps(config, indent=1))


def for_transformers(folder: pathlib.Path) -> pathlib.Path:
    """The same folder, or for `su`, which transformers 5.24 cannot read, one beside it that says `longrope` over the same weights."""
    if json.loads((folder / "config.json").read_text()).get("rope_scaling", {}).get("type") != "su":
        return folder
    twin = folder.with_name(folder.name + "-as-longrope")
    if not twin.exists():
        twin.mkdir()
        for file in folder.iterdir():
            if file.suffix == ".safetensors":
                (twin / file.name).symlink_to(file)  # the same file: float32 bits depend on where the weights lie in it
            else:
                shutil.copy(file, twin)
        rewritten = json.loads((twin / "config.json").read_text())
        rewritten["rope_scaling"]["type"] = "longrope"
        (twin / "config.json").write_text(json.dumps(rewritten))
    return twin
