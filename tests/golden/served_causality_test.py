"""Promise: a value's bits depend only on the tokens that can reach it. Through the real server, with several clients at once.

Every hook point of every run of a crowded request is compared with the same run alone, and with the same prompt cut short: the same
bytes, any NaN equal to any NaN.
"""

import concurrent.futures
import pathlib
import random

import numpy as np
import pytest

import phitap
from checkpoint_kinds import KINDS, ORIGINAL_LENGTH, VOCABULARY, make_checkpoint
from served import bits, serve

LONGROPE = [kind for kind in KINDS if "rope_scaling" in KINDS[kind]]
CAPTURES = ["input_ids", "attention_mask", "input_size", "token_embeddings", "rotary_cos", "rotary_sin", "final_norm_output",
            "lm_head_output", "logits", "next_token_probs"] + [
    f"layers.*.{name}" for name in (
        "layer_input", "attention_norm_output", "attention_qkv", "attention_queries_pre_rotary", "attention_keys_pre_rotary",
        "attention_queries", "attention_keys", "attention_values", "attention_scores", "attention_probabilities",
        "attention_head_outputs", "attention_premix", "attention_output", "layer_mid", "mlp_norm_output", "mlp_input", "mlp_gate_up",
        "mlp_gate", "mlp_up", "mlp_activation", "mlp_neurons", "mlp_output", "layer_output")]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind) for kind in KINDS}


@pytest.fixture(scope="module", params=[(dtype, threads) for dtype in ("float32", "bfloat16", "float16") for threads in (1, 2, 12, 48)],
                ids=lambda p: f"{p[0]}-{p[1]}threads")
def address(request, checkpoints, tmp_path_factory):
    yield from serve(checkpoints, tmp_path_factory.mktemp("server"), *request.param)


def cut(spec: phitap.TensorSpec, value: np.ndarray, tokens: int) -> np.ndarray:
    """The part that the first `tokens` tokens have."""
    return value[tuple(slice(tokens) if name in ("seq", "query", "key") else slice(None) for name in spec.dimension_names)]


def differing(crowded: phitap.Run, alone: phitap.Run) -> list[str]:
    assert list(crowded.specs) == list(alone.specs)
    return [name for name in crowded if crowded[name].shape != alone[name].shape or bits(crowded[name]) != bits(alone[name])]


def differing_from_prefix(whole: phitap.Run, prefix: phitap.Run) -> list[str]:
    tokens = len(prefix.tokens)
    names = []
    for (label, hook_point, _, _), spec in whole.specs.items():
        if hook_point in ("input_size", "next_token_probs"):  # of the whole prompt, not of a position
            continue
        if bits(np.ascontiguousarray(cut(spec, whole[label], tokens))) != bits(prefix[label]):
            names.append(hook_point)
    return names


def random_prompts(rng: random.Random, count: int, longest: int) -> list[phitap.Prompt]:
    prompts = []
    for _ in range(count):
        length = rng.randint(1, longest)
        prompt = dict(input=[rng.randrange(VOCABULARY) for _ in range(length)])
        if rng.random() < 0.25:
            prompt["hidden_positions"] = sorted(rng.sample(range(length), rng.randint(1, max(1, length // 3))))
        if rng.random() < 0.25:
            start = rng.randint(0, 3)
            prompt["position_ids"] = [start + p + p // 7 for p in range(length)]
        prompts.append(phitap.Prompt(**prompt))
    return prompts


@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_changes_no_bit(address, kind):
    rng = random.Random(kind)
    requests = [random_prompts(rng, rng.randint(1, 5), rng.choice([20, 90, 300])) for _ in range(4)]
    attention = rng.choice(["sdpa", "eager"])

    def ask(prompts):
        with phitap.Client(address, timeout=300) as client:
            return client.trace(prompts, captures=CAPTURES, model=kind, attention=attention).runs

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        crowded = [run for runs in pool.map(ask, requests) for run in runs]
    prompts = [prompt for request in requests for prompt in request]
    for prompt, run in zip(prompts, crowded, strict=True):
        assert differing(run, ask([prompt])[0]) == [], (attention, prompt)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_after_changes_no_bit(address, kind, attention):
    rng = random.Random(f"{kind} {attention}")
    longest = ORIGINAL_LENGTH if kind in LONGROPE else 75
    ids = [rng.randrange(VOCABULARY) for _ in range(longest)]
    ends = sorted({1, 2, 31, 32, 33, longest - 1} | {rng.randint(1, longest) for _ in range(4)})
    with phitap.Client(address, timeout=300) as client:
        whole, *prefixes = client.trace([ids, *(ids[:end] for end in ends)], captures=CAPTURES, model=kind, attention=attention).runs
    for prefix in prefixes:
        assert differing_from_prefix(whole, prefix) == [], len(prefix.tokens)


@pytest.mark.parametrize("kind", LONGROPE)
def test_beyond_the_original_context_what_comes_after_changes_no_bit(address, kind):
    rng = random.Random(kind)
    ids = [rng.randrange(VOCABULARY) for _ in range(ORIGINAL_LENGTH + 40)]
    with phitap.Client(address, timeout=300) as client:
        inside, just_beyond, beyond = client.trace([ids[:ORIGINAL_LENGTH], ids[:ORIGINAL_LENGTH + 1], ids], captures=CAPTURES,
                                                   model=kind).runs
    assert differing_from_prefix(beyond, just_beyond) == []
    assert "layers.0.self_attn.attention_queries" in differing_from_prefix(just_beyond, inside)
