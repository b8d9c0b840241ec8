"""From Python's terms to the messages."""

import numpy as np
import pytest

import phitap
from phitap.request import Options, trace_message
from phitap.selections import index_set


@pytest.mark.parametrize(("indices", "expected"), [
    (3, ([3], [])),
    (-1, ([-1], [])),
    ([1, -2], ([1, -2], [])),
    (np.array([4, 2]), ([4, 2], [])),
    (slice(1, 9, 2), ([], [(1, 9, 2)])),
    (range(3), ([], [(0, 3, 1)])),
    (slice(None, -1), ([], [(None, -1, None)])),
    ([5, slice(0, 2), 7, -1], ([5], [(0, 2, None), (7, 8, None), (-1, None, None)])),
])
def test_indices_keep_their_order(indices, expected):
    message = index_set(indices)
    ranges = [tuple(getattr(r, f) if r.HasField(f) else None for f in ("start", "stop", "step")) for r in message.ranges]
    assert (list(message.indices), ranges) == expected


@pytest.mark.parametrize(("prompts", "count"), [
    ("text", 1),
    ([1, 2, 3], 1),
    (np.array([1, 2]), 1),
    ([[1, 2], [3]], 2),
    (["a", "b", "c"], 3),
    ([{"role": "user", "content": "hi"}], 1),
    (["a", [1], [{"role": "user", "content": "hi"}], phitap.Prompt("b")], 4),
    (phitap.Prompt("a"), 1),
    ([], 0),
])
def test_one_prompt_is_a_run_and_a_list_of_prompts_is_as_many(prompts, count):
    assert len(trace_message(prompts).runs) == count


def test_a_whole_value_has_no_selection():
    captures = ["logits", phitap.Capture("logits"), phitap.Capture("logits", positions=0)]
    assert [capture.HasField("selection") for capture in trace_message("a", captures).captures] == [False, False, True]


@pytest.mark.parametrize("wrong", [
    dict(numerics="exact"),
    dict(attention="flash"),
    dict(longrope_cache="drop"),
    dict(captures=[phitap.Capture("logits", dtype="int8")]),
    dict(captures=[phitap.Capture("logits", read_time="during")]),
])
def test_a_choice_that_does_not_exist_names_those_that_do(wrong):
    captures = wrong.pop("captures", "logits")
    with pytest.raises(ValueError, match="valid: "):
        trace_message("a", captures, Options(**wrong))


def test_options_are_those_of_the_request():
    options = trace_message("a", "logits", Options(numerics="transformers", isolate=True, priority=7)).options
    assert (options.isolate, options.priority) == (True, 7)
    assert trace_message("a", "logits").options.priority == 0


@pytest.mark.parametrize("wrong", [3.5, [1.5], [[{}, 1]], None])
def test_a_prompt_of_another_kind_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        trace_message(wrong if isinstance(wrong, list) else [wrong])
