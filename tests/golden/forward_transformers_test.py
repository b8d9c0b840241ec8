"""Promise: in numerics `transformers` every value has the bits of transformers' own, hook point by hook point.

Live against the installed transformers, in every element type, sdpa and eager, on a checkpoint of each kind and at the prompt lengths
where something changes: few rows, windows, the longrope boundary. Both sides map the same file.
"""

import pathlib
import random

import pytest
import torch

from checkpoint_kinds import KINDS, ORIGINAL_LENGTH, VOCABULARY, WINDOW, for_transformers, make_checkpoint
from forward_engine import ForwardEngine
from transformers_values import load, transformers_values

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LENGTHS = [1, 2, 7, 8, 9, 11, 12, 40, WINDOW - 1, WINDOW, WINDOW + 1, ORIGINAL_LENGTH - 1, ORIGINAL_LENGTH, ORIGINAL_LENGTH + 1, 200]
THREADS = 2


@pytest.fixture(scope="module", params=[(kind, dtype) for kind in KINDS for dtype in DTYPES], ids="-".join)
def checkpoint(request, tmp_path_factory):
    kind, dtype = request.param
    torch.set_num_threads(THREADS)
    folder = make_checkpoint(tmp_path_factory.mktemp("checkpoint") / kind, kind, DTYPES[dtype])
    engine = ForwardEngine(folder, dtype)
    yield folder, DTYPES[dtype], engine
    engine.close()


@pytest.fixture(params=["sdpa", "eager"])
def sides(request, checkpoint):
    """(theirs, ours): each runs one prompt and gives (hook, layer) → tensor."""
    folder, dtype, engine = checkpoint
    model = load(for_transformers(folder), dtype, request.param)

    def ours(row: dict) -> dict:
        values = engine.forward([row], "transformers", request.param, THREADS)
        return {(hook, layer): value.tensor for (_, hook, layer), value in values.items()}

    def theirs(row: dict) -> dict:
        return transformers_values(model, row["ids"], row.get("hidden", ()), row.get("position_ids"))

    return theirs, ours


def prompt(length: int) -> list[int]:
    return [random.Random(length).randrange(VOCABULARY) for _ in range(length)]


def assert_equal(theirs: dict, ours: dict) -> None:
    assert theirs.keys() == ours.keys()
    for key, expected in theirs.items():
        assert expected.dtype == ours[key].dtype, key
        assert torch.equal(expected, ours[key]), key


def test_every_value_at_every_length(sides):
    theirs, ours = sides
    for length in LENGTHS:
        row = {"ids": prompt(length)}
        assert_equal(theirs(row), ours(row))


def test_hidden_positions(sides):
    theirs, ours = sides
    for length, hidden in [(1, [0]), (9, [0, 1]), (WINDOW + 5, [3, 4, 5]), (ORIGINAL_LENGTH + 1, [0, 7, 40])]:
        row = {"ids": prompt(length), "hidden": hidden}
        assert_equal(theirs(row), ours(row))


def test_position_ids(sides):
    theirs, ours = sides
    for length in (1, 12, WINDOW, 40):
        positions = list(range(3, 3 + length))
        jumping = [2 * i + 1 for i in range(length)]
        crossing = [ORIGINAL_LENGTH - 2 + i for i in range(length)]
        for position_ids in (positions, jumping, crossing):
            row = {"ids": prompt(length), "position_ids": position_ids}
            assert_equal(theirs(row), ours(row))


def test_a_shorter_reach_changes_no_bit(sides):
    theirs, ours = sides
    expected = theirs({"ids": prompt(12)})
    found = ours({"ids": prompt(12), "layer_count": 1, "tail": [3], "norm": [], "head": []})
    assert {hook for hook, _ in found} == {hook for hook, _ in expected} - {
        "final_norm_output", "lm_head_output", "logits", "next_token_probs"}
    for key, value in found.items():
        assert torch.equal(expected[key], value), key
