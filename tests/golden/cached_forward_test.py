"""Promise: in numerics `transformers` a run that goes on from its keys and values has the bits of transformers' own cached loop.

`model(input_ids=next, cache=cache, use_cache=True)`, step by step, hook point by hook point: token by token and several at a
time, past the window and over the longrope boundary, where the loop keeps the cached keys as they were turned.
"""

import random

import pytest
import torch
from transformers import DynamicCache

from checkpoint_kinds import KINDS, ORIGINAL_LENGTH, VOCABULARY, WINDOW, for_transformers, make_checkpoint
from forward_engine import ForwardEngine
from transformers_values import load, values_of_call

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
THREADS = 2
#: Tokens of each forward.
COURSES = {
    "one_by_one": [1] * 30,
    "prompt_then_one_by_one": [12, *[1] * 14],
    "below_the_window": [WINDOW - 3, 1, 1, 1, 1, 1],
    "past_the_window": [2 * WINDOW + 1, 1, 1, 1],
    "several_at_a_time": [5, 3, 1, 9, 2, 30, 1, 4],
    "over_the_boundary": [ORIGINAL_LENGTH - 2, 1, 1, 1, 1, 3, 1],
    "beyond_the_boundary": [ORIGINAL_LENGTH + 5, 1, 1, 2],
}


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
    """(model, steps): transformers' model, and ours, which runs a row in steps and gives (hook, layer) → tensor of each."""
    folder, dtype, engine = checkpoint

    def steps(row: dict, counts: list[int]) -> list[dict]:
        values = engine.steps([row], counts, "transformers", request.param, THREADS)
        return [{(hook, layer): value.tensor for (_, hook, layer), value in step.items()} for step in values]

    return load(for_transformers(folder), dtype, request.param), steps


def prompt(length: int) -> list[int]:
    return [random.Random(length).randrange(VOCABULARY) for _ in range(length)]


def own(hook: str, value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Of what attention is given with a cache, the part that our forward shows: the step's own keys and values."""
    return value[-like.shape[0]:] if hook in ("attention_keys", "attention_values") else value


def assert_same_loop(model, steps, row: dict, counts: list[int]) -> None:
    cache = DynamicCache(config=model.config)
    begin = 0
    for count, ours in zip(counts, steps(row, counts), strict=True):
        end = begin + count
        arguments = {}
        if "hidden" in row:
            mask = torch.ones(1, end, dtype=torch.int64)
            mask[0, [position for position in row["hidden"] if position < end]] = 0
            arguments["attention_mask"] = mask
        if "position_ids" in row:
            arguments["position_ids"] = torch.tensor([row["position_ids"][begin:end]])
        theirs = values_of_call(model, torch.tensor([row["ids"][begin:end]]), cache=cache, use_cache=True, **arguments)
        assert theirs.keys() == ours.keys()
        for (hook, layer), expected in theirs.items():
            found = ours[hook, layer]
            if hook in ("attention_scores", "attention_probabilities"):
                found = found[:, :, -expected.shape[-1]:]  # a window's cache has but the last keys
            assert torch.equal(own(hook, expected, found), found), (hook, layer, begin, end)
        begin = end


@pytest.mark.parametrize("course", COURSES)
def test_every_value_of_every_step(sides, course):
    counts = COURSES[course]
    assert_same_loop(*sides, {"ids": prompt(sum(counts))}, counts)


def test_hidden_positions(sides):
    for counts, hidden in (([9, 1, 1, 3, 1], [0, 1, 10]), ([WINDOW, 1, 1, 9, 1], [2, 5, WINDOW + 3]), ([4, 1, 1, 1], [5])):
        assert_same_loop(*sides, {"ids": prompt(sum(counts)), "hidden": hidden}, counts)


def test_position_ids(sides):
    counts = [7, 1, 1, 5, 1, 12, 1]
    total = sum(counts)
    for position_ids in ([3 + i for i in range(total)], [2 * i + 1 for i in range(total)]):
        assert_same_loop(*sides, {"ids": prompt(total), "position_ids": position_ids}, counts)
