"""Promise: greedy tokens equal those of transformers' `generate` (float32), over the window and over the longrope boundary, with KEEP
those of a manual cached loop; and a step's bits do not depend on who else generates.
"""

import pathlib
import random

import numpy as np
import pytest
import torch
from transformers import DynamicCache

import phitap
from checkpoint_kinds import KINDS, ORIGINAL_LENGTH, VOCABULARY, WINDOW, for_transformers, make_checkpoint
from hooked_transformers import HookedForward
from phitap import edits
from served import bits, serve
from transformers_values import load

LONGROPE = [kind for kind in KINDS if "rope_scaling" in KINDS[kind]]
NEW_TOKENS = 30


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind) for kind in KINDS}


@pytest.fixture(scope="module")
def models(checkpoints):
    torch.set_num_threads(2)
    return {kind: load(for_transformers(folder), torch.float32, "sdpa") for kind, folder in checkpoints.items()}


@pytest.fixture(scope="module")
def client(checkpoints, tmp_path_factory):
    for address in serve(checkpoints, tmp_path_factory.mktemp("server"), "float32", 2):
        with phitap.Client(address, timeout=300) as client:
            yield client


def prompt(kind: str, length: int) -> list[int]:
    rng = random.Random(f"{kind} {length}")
    return [rng.randrange(3, VOCABULARY) for _ in range(length)]


def greedy(model, ids: list[int], count: int, **settings) -> list[int]:
    """What transformers generates."""
    generated = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64), max_new_tokens=count,
                               do_sample=False, pad_token_id=0, **{"eos_token_id": None, **settings})
    return generated[0, len(ids):].tolist()


def cached_loop(model, ids: list[int], count: int) -> list[int]:
    """Greedy tokens of a loop that never drops its cache."""
    cache, given, tokens = DynamicCache(config=model.config), torch.tensor([ids]), []
    with torch.no_grad():
        for _ in range(count):
            position = cache.get_seq_length() + torch.arange(given.shape[1])
            logits = model(given, cache=cache, use_cache=True, position_ids=position[None]).logits
            tokens.append(int(logits[0, -1].argmax()))
            given = torch.tensor([tokens[-1:]])
    return tokens


def ours(client, ids: list[int], kind: str, count: int = NEW_TOKENS, **options) -> list[int]:
    run = phitap.Prompt(ids, generation=phitap.Generation(count, ignore_stop_ids=True))
    return client.trace(run, model=kind, **options).tokens()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numerics", ["causal", "transformers"])
def test_greedy_tokens_are_those_of_generate(client, models, kind, numerics):
    for length in (1, 5, WINDOW - 3, WINDOW + 2):
        ids = prompt(kind, length)
        assert ours(client, ids, kind, numerics=numerics) == greedy(models[kind], ids, NEW_TOKENS), length


@pytest.mark.parametrize("kind", LONGROPE)
@pytest.mark.parametrize("numerics", ["causal", "transformers"])
def test_the_boundary_is_crossed_as_generate_crosses_it(client, models, kind, numerics):
    for length in (ORIGINAL_LENGTH - 6, ORIGINAL_LENGTH - 1, ORIGINAL_LENGTH, ORIGINAL_LENGTH + 1):
        ids = prompt(kind, length)
        expected = greedy(models[kind], ids, 14)
        assert ours(client, ids, kind, 14, numerics=numerics, longrope_cache="recompute") == expected, length


@pytest.mark.parametrize("kind", LONGROPE)
def test_a_kept_cache_is_that_of_a_manual_loop(client, models, kind):
    differs = 0
    for length in (ORIGINAL_LENGTH - 20, ORIGINAL_LENGTH - 6, ORIGINAL_LENGTH - 1, ORIGINAL_LENGTH):
        ids = prompt(kind, length)
        expected = cached_loop(models[kind], ids, NEW_TOKENS)
        assert ours(client, ids, kind, longrope_cache="keep") == expected, length
        differs += expected != greedy(models[kind], ids, NEW_TOKENS)
    assert differs, "the two policies cannot be told apart here"


@pytest.mark.parametrize("kind", ["gqa", "window", "longrope"])
def test_a_steps_bits_do_not_depend_on_who_else_generates(client, kind):
    captures = ["layers.*.layer_output", "layers.1.attention_keys", "logits"]
    rng = random.Random(kind)
    prompts = [phitap.Prompt([rng.randrange(VOCABULARY) for _ in range(length)], generation=phitap.Generation(
        count, temperature=temperature, seed=i, ignore_stop_ids=True)) for i, (length, count, temperature) in enumerate(
            [(5, 9, 0.0), (WINDOW + 4, 4, 0.8), (1, 12, 1.3), (ORIGINAL_LENGTH - 3, 7, 0.0)])]
    among = client.trace([*prompts, prompt(kind, 33)], captures, model=kind)
    for i, one in enumerate(prompts):
        alone = client.trace(one, captures, model=kind)
        assert alone.tokens() == among.tokens(str(i))
        for name in alone:
            steps, crowded = alone.runs[0].steps(name), among.runs[i].steps(name)
            assert list(steps) == list(crowded) == list(range(one.generation.max_tokens))
            assert all(bits(steps[step]) == bits(crowded[step]) for step in steps), name


def test_what_was_generated_reads_as_a_prompt_of_its_own(client):
    """Step t's values are the last position's of the prompt and the tokens up to it: the same bits, by causality."""
    ids = prompt("gqa", 11)
    trace = client.trace(phitap.Prompt(ids, generation=phitap.Generation(6, ignore_stop_ids=True)), ["layers.1.layer_output", "logits"],
                         model="gqa")
    whole = client.trace([ids + trace.tokens()], ["layers.1.layer_output", "logits"], model="gqa")
    for name in ("layers.1.layer_output", "logits"):
        for step, value in trace.runs[0].steps(name).items():
            expected = whole[name][:11] if step == 0 else whole[name][10 + step:11 + step]
            assert bits(np.ascontiguousarray(expected)) == bits(value), (name, step)
    assert [token.log_probability for token in trace.runs[0].generated] == pytest.approx(
        [float(torch.log_softmax(torch.from_numpy(whole["logits"][10 + i]), -1)[token]) for i, token in enumerate(trace.tokens())], abs=1e-5)


@pytest.mark.parametrize("kind", ["gqa", "longrope"])
def test_an_edit_of_every_step_is_that_of_a_hook_in_generate(client, models, kind):
    """Over the boundary too, where the edits are applied again."""
    vector = torch.randn(models[kind].config.hidden_size, generator=torch.Generator().manual_seed(5)) * 2
    ids = prompt(kind, ORIGINAL_LENGTH - 6)
    with HookedForward(models[kind], {("layer_output", 0): [lambda value: value.add_(vector)]}).watching():
        expected = greedy(models[kind], ids, 14)
    assert expected != greedy(models[kind], ids, 14), "the edit does nothing"
    run = phitap.Prompt(ids, interventions=[edits.add("layers.0.layer_output", vector)],
                        generation=phitap.Generation(14, ignore_stop_ids=True))
    assert client.trace(run, model=kind).tokens() == expected


def test_an_edit_of_some_steps_changes_only_what_comes_after(client):
    ids = prompt("gqa", 9)
    how = phitap.Generation(8, ignore_stop_ids=True, forced_ids=prompt("gqa", 8))
    changed = edits.add("layers.0.layer_output", 3.0, steps=[3])
    plain, edited = client.trace([phitap.Prompt(ids, generation=how), phitap.Prompt(ids, generation=how, interventions=[changed])],
                                 ["logits"], model="gqa").runs
    differing = [step for step in range(8) if bits(plain.steps("logits")[step]) != bits(edited.steps("logits")[step])]
    assert differing == [3, 4, 5, 6, 7]


def test_stops_at_a_stop_id_which_is_the_last_token(client, models):
    ids = prompt("gqa", 7)
    tokens = greedy(models["gqa"], ids, NEW_TOKENS)
    stop = tokens[4]
    trace = client.trace(phitap.Prompt(ids, generation=phitap.Generation(NEW_TOKENS, stop_ids=[stop])), model="gqa")
    assert trace.tokens() == tokens[:tokens.index(stop) + 1]
    assert trace.runs[0].finish_reason == "stop"
    assert client.trace(phitap.Prompt(ids, generation=phitap.Generation(3, ignore_stop_ids=True)), model="gqa").runs[0].finish_reason == "length"


def test_forced_tokens_are_gone_on_with(client):
    ids, forced = prompt("gqa", 6), [9, 8, 7]
    trace = client.trace(phitap.Prompt(ids, generation=phitap.Generation(5, forced_ids=forced, ignore_stop_ids=True)), model="gqa")
    assert trace.tokens()[:3] == forced
    assert trace.tokens()[3:] == ours(client, ids + forced, "gqa", 2)


def test_samples_follow_their_seed_and_their_limits(client):
    ids = prompt("gqa", 6)

    def sampled(**settings) -> list[int]:
        how = phitap.Generation(12, ignore_stop_ids=True, **{"temperature": 1.5, "seed": 1, **settings})
        return client.trace(phitap.Prompt(ids, generation=how), model="gqa").tokens()

    assert sampled() == sampled()
    assert sampled() != sampled(seed=2)
    assert sampled(top_k=1) == sampled(top_p=1e-6) == ours(client, ids, "gqa", 12)


def test_sampled_frequencies_are_the_probabilities(client):
    ids = prompt("gqa", 6)
    count = 1500
    how = dict(temperature=2.0, top_k=5, ignore_stop_ids=True)
    runs = [phitap.Prompt(ids, generation=phitap.Generation(1, seed=i, **how)) for i in range(count)]
    drawn = []
    for first in range(0, count, 500):
        drawn += [run.generated[0].id for run in client.trace(runs[first:first + 500], model="gqa").runs]
    logits = torch.from_numpy(client.trace([ids], phitap.Capture("logits", positions=-1), model="gqa")["logits"][0]).double()
    best = logits.topk(5)
    probabilities = torch.softmax(best.values / 2.0, -1)
    assert set(drawn) <= set(best.indices.tolist())
    for token, p in zip(best.indices.tolist(), probabilities.tolist()):
        assert abs(drawn.count(token) / count - p) < 5 * (p * (1 - p) / count) ** 0.5, token
