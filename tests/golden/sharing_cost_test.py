"""What runs have in common is computed once, and only for one caller: the counts of layers times tokens in the summary."""

import pathlib
import random

import numpy as np
import pytest

import phitap
from checkpoint_kinds import VOCABULARY, make_checkpoint
from phitap import edits, metrics
from served import bits, serve

LAYERS = 6
LENGTH = 40
LAST_LOGITS = phitap.Capture("logits", positions=-1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> pathlib.Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "gqa", "gqa", num_hidden_layers=LAYERS)


@pytest.fixture(scope="module")
def address(checkpoint, tmp_path_factory):
    yield from serve({"gqa": checkpoint}, tmp_path_factory.mktemp("server"), "float32", 2)


@pytest.fixture
def client(address):
    """A caller of its own: nobody asked for anything before."""
    with phitap.Client(address, timeout=60) as client:
        yield client


@pytest.fixture
def ids(request) -> list[int]:
    """A prompt that no other test has."""
    rng = random.Random(request.node.name)
    return [rng.randrange(VOCABULARY) for _ in range(LENGTH)]


def cost(trace: phitap.Trace) -> int:
    return trace.summary.token_layers_computed


def test_a_sweep_over_layers_and_positions_costs_its_rectangles(client, ids):
    patch = edits.set_("layers.*.layer_input", phitap.RunValue("clean"))
    grid = metrics.Sweep("corrupt", [patch], [metrics.layers(), metrics.positions()], [metrics.logit(3)])
    trace = client.trace([phitap.Prompt(ids[::-1], "clean"), phitap.Prompt(ids, "corrupt")], sweeps=[grid])
    rectangles = sum((LAYERS - layer) * (LENGTH - position) for layer in range(LAYERS) for position in range(LENGTH))
    assert cost(trace) <= rectangles + 2 * LAYERS * LENGTH
    assert cost(trace) + trace.summary.token_layers_saved == (LAYERS * LENGTH + 2) * LAYERS * LENGTH


def test_a_sweep_of_prompts_that_begin_alike_costs_nothing_where_they_are_alike(client, ids):
    alike = LENGTH // 2
    patch = edits.set_("layers.*.layer_output", phitap.RunValue("clean"))
    grid = metrics.Sweep("corrupt", [patch], [metrics.layers(), metrics.positions()], [metrics.logit(3)])
    clean = ids[:alike] + ids[: alike - 1 : -1]
    trace = client.trace([phitap.Prompt(clean, "clean"), phitap.Prompt(ids, "corrupt")], sweeps=[grid])
    rectangles = sum((LAYERS - 1 - layer) * (LENGTH - position) for layer in range(LAYERS) for position in range(alike, LENGTH))
    assert cost(trace) <= rectangles + LAYERS * (2 * LENGTH - alike)


def test_a_sweep_at_the_last_position_costs_two_prompts_and_a_triangle(client, ids):
    vector = np.ones(64, np.float32)
    grid = metrics.Sweep("run", [edits.add("layers.*.layer_output", vector, positions=-1)], [metrics.layers()], [metrics.logit(3)])
    trace = client.trace(phitap.Prompt(ids, "run"), LAST_LOGITS, sweeps=[grid])
    assert LAYERS * LENGTH - LENGTH < cost(trace) <= LAYERS * LENGTH + sum(range(LAYERS))


def test_a_run_that_nobody_asks_for_is_computed_where_it_saves(client, ids):
    runs = [phitap.Prompt(ids, str(i), interventions=[edits.scale("layers.4.layer_output", 2.0 + i, positions=-1)]) for i in range(8)]
    trace = client.trace(runs, LAST_LOGITS)
    assert cost(trace) <= LAYERS * LENGTH + 8


def test_identical_runs_cost_one(client, ids):
    alone = client.trace(ids, ["layers.*.mlp_output"])
    with phitap.Client(client.address) as another:
        trace = another.trace([ids] * 5, ["layers.*.mlp_output"])
    assert cost(trace) == cost(alone) == LAYERS * LENGTH
    assert trace.summary.token_layers_saved == 4 * LAYERS * LENGTH
    assert len({bits(run["layers.3.mlp_output"]) for run in trace.runs}) == 1


def test_a_common_beginning_costs_once(client, ids):
    trace = client.trace([ids, ids[:32] + [5] * 8, ids[:20], ids + [7, 7]], ["layers.*.layer_output"])
    assert cost(trace) <= LAYERS * (LENGTH + 8 + 2)


def test_an_edit_that_changes_no_bit_costs_nothing(client, ids):
    same = edits.set_("layers.2.layer_output", phitap.RunValue("plain"), positions=[3, 20])
    trace = client.trace([phitap.Prompt(ids, "plain"), phitap.Prompt(ids, "patched", interventions=[same])], ["layers.*.layer_output"])
    assert cost(trace) == LAYERS * LENGTH
    assert trace.summary.token_layers_saved == LAYERS * LENGTH
    plain, patched = trace.runs
    assert all(bits(plain[name]) == bits(patched[name]) for name in plain)


def test_a_prompt_asked_for_again_costs_only_what_is_new(client, ids):
    first = client.trace(ids, ["layers.*.layer_output", "logits"])
    costs = []
    for scale in (2.0, 3.0, 4.0):
        run = phitap.Prompt(ids, interventions=[edits.scale("layers.5.layer_output", scale, positions=-1)])
        costs.append(cost(client.trace(run, LAST_LOGITS)))
    assert cost(first) == LAYERS * LENGTH
    assert costs[1:] == [0, 0] and costs[0] in (0, LAYERS * LENGTH)


def test_two_callers_share_nothing(address, ids):
    costs = []
    for _ in range(2):
        with phitap.Client(address, timeout=60) as client:
            costs.append(cost(client.trace(ids, ["layers.*.layer_output"])))
    assert costs == [LAYERS * LENGTH] * 2


def test_two_callers_share_where_the_server_is_told_to(checkpoint, ids, tmp_path):
    for address in serve({"gqa": checkpoint}, tmp_path, "float32", 2, "--share-across-callers", "on"):
        with phitap.Client(address, timeout=60) as one, phitap.Client(address, timeout=60) as other:
            run = phitap.Prompt(ids, interventions=[edits.scale("layers.5.layer_output", 2.0, positions=-1)])
            one.trace(run, LAST_LOGITS)
            one.trace(run, LAST_LOGITS)
            assert cost(other.trace(run, LAST_LOGITS)) < LAYERS


def test_what_shares_nothing_says_so(client, ids):
    """The bits of transformers, and requests that ask to be let alone."""
    for options in (dict(numerics="transformers"), dict(isolate=True)):
        costs = [cost(client.trace(ids, ["layers.*.layer_output"], **options)) for _ in range(2)]
        assert costs == [LAYERS * LENGTH] * 2, options
