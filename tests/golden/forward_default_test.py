"""Promise: the default numerics differ from transformers by rounding only.

float32: every visible entry within 5e-6 of the tensor's largest finite value. bfloat16 and float16: no further from a float32 run than
1.2 times the larger of transformers' own sdpa and eager distances from it, over prompts of many lengths.
"""

import random

import pytest
import torch

from checkpoint_kinds import KINDS, ORIGINAL_LENGTH, VOCABULARY, WINDOW, for_transformers, make_checkpoint
from forward_engine import ForwardEngine
from transformers_values import load, transformers_values

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LENGTHS = [1, 2, 9, WINDOW, WINDOW + 1, 33, 40, ORIGINAL_LENGTH, ORIGINAL_LENGTH + 1, 200]
PATTERNS = ("attention_scores", "attention_probabilities")
ATTENTIONS = ("sdpa", "eager")


def prompt(length: int) -> list[int]:
    return [random.Random(1000 + length).randrange(VOCABULARY) for _ in range(length)]


def visible(hook: str, value: torch.Tensor, window: int | None) -> torch.Tensor:
    """The entries that their query sees, as float64."""
    if hook not in PATTERNS:
        return value.double().flatten()
    seen = torch.ones(value.shape[1:], dtype=torch.bool).tril()
    if window is not None:
        seen = seen.triu(1 - window)
    return value.double()[:, seen].flatten()


class Side:
    """Forwards of one kind of checkpoint in one element type, ours and transformers'."""

    def __init__(self, folder, dtype: str):
        self.engine = ForwardEngine(folder, dtype)
        self.models = {attention: load(for_transformers(folder), DTYPES[dtype], attention) for attention in ATTENTIONS}
        self.window = self.models["sdpa"].config.sliding_window

    def theirs(self, ids: list[int], attention: str) -> dict[tuple[str, int], torch.Tensor]:
        values = transformers_values(self.models[attention], ids)
        return {key: visible(key[0], value, self.window) for key, value in values.items()}

    def ours(self, ids: list[int], attention: str) -> dict[tuple[str, int], torch.Tensor]:
        values = self.engine.forward([{"ids": ids}], "causal", attention)
        return {key[1:]: visible(key[1], value.tensor, self.window) for key, value in values.items()}


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    torch.set_num_threads(2)
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / request.param, request.param, torch.bfloat16)


@pytest.fixture(scope="module")
def float32(folder):
    side = Side(folder, "float32")
    yield side
    side.engine.close()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_float32_is_within_rounding(float32, attention):
    for length in LENGTHS:
        theirs = float32.theirs(prompt(length), attention)
        ours = float32.ours(prompt(length), attention)
        assert theirs.keys() == ours.keys()
        for key, expected in theirs.items():
            assert (ours[key] - expected).abs().max() <= 5e-6 * expected.abs().max(), (key, length)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_reduced_precision_is_as_near_to_float32_as_transformers(folder, float32, dtype):
    side = Side(folder, dtype)
    squares: dict[tuple[str, int], dict[str, float]] = {}
    for length in LENGTHS:
        exact = float32.theirs(prompt(length), "sdpa")
        for attention in ATTENTIONS:
            for whose, values in (("theirs", side.theirs(prompt(length), attention)), ("ours", side.ours(prompt(length), attention))):
                for key, value in values.items():
                    sums = squares.setdefault(key, {})
                    name = f"{whose} {attention}"
                    sums[name] = sums.get(name, 0.0) + (value - exact[key]).square().sum().item()
    side.engine.close()
    for key, sums in squares.items():
        limit = 1.2 * max(sums["theirs sdpa"], sums["theirs eager"]) ** 0.5
        assert max(sums["ours sdpa"], sums["ours eager"]) ** 0.5 <= limit, (key, sums)
