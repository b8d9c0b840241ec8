"""Promise: an edited run has the bits of the same edit made with PyTorch hooks on transformers (numerics `transformers`), and in the
default numerics the bits of the same run alone, within rounding of transformers.

Every kind of edit, and patching and adding at every hook point, on checkpoints of several kinds, float32 and bfloat16: see edit_cases.py.
Every value of the edited forward is compared.
"""

import pathlib
import random

import pytest
import torch

import phitap
from checkpoint_kinds import ORIGINAL_LENGTH, VOCABULARY, make_checkpoint
from edit_cases import ALL_CASES, LENGTH, PATTERNS, World
from phitap import edits, values
from served import same_bits, serve

KINDS = ["gqa", "window", "longrope", "partial_tied"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
THREADS = 2


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind, num_hidden_layers=3) for kind in KINDS}


@pytest.fixture(scope="module", params=DTYPES)
def served(request, checkpoints, tmp_path_factory):
    """(client, element type)"""
    torch.set_num_threads(THREADS)
    for address in serve(checkpoints, tmp_path_factory.mktemp("server"), request.param, THREADS):
        with phitap.Client(address, timeout=300) as client:
            yield client, DTYPES[request.param]


@pytest.fixture(scope="module", params=KINDS)
def worlds(request, served, checkpoints):
    client, dtype = served
    made = {}

    def world(attention: str) -> World:
        if attention not in made:
            made[attention] = World(client, checkpoints[request.param], request.param, dtype, attention)
        return made[attention]

    return world


@pytest.mark.parametrize("case", ALL_CASES)
def test_equals_the_same_edit_made_with_hooks(worlds, case):
    make, hook, settings = ALL_CASES[case]
    for attention in ["eager"] if hook in PATTERNS else ["sdpa", "eager"]:
        world = worlds(attention)
        made = make(world, hook, **settings)
        others = (phitap.Prompt(world.ids, "plain"),)
        ours, theirs = world.ours(made.interventions, "transformers", others), world.expected(made.changes)
        differing = [key for key in ours if not same_bits(ours[key], theirs[key])]
        assert differing == [], attention
        plain = world.expected({})
        assert not same_bits(theirs["logits", -1], plain["logits", -1]), "the edit does nothing"


@pytest.mark.parametrize("case", ALL_CASES)
def test_by_default_has_the_bits_of_the_run_alone(worlds, case):
    make, hook, settings = ALL_CASES[case]
    world = worlds("eager" if hook in PATTERNS else "sdpa")
    made = make(world, hook, **settings)
    plain = phitap.Prompt(world.ids, "plain")
    alone = world.ours(made.interventions, "causal", (plain,))
    rng = random.Random(case)
    crowd = tuple(phitap.Prompt([rng.randrange(VOCABULARY) for _ in range(rng.randint(1, ORIGINAL_LENGTH))], f"other{i}",
                                interventions=[edits.noise("layers.0.layer_output", 1.0, seed=i)]) for i in range(5))
    among = world.ours(made.interventions, "causal", (*crowd[:3], plain, *crowd[3:]))
    assert [key for key in alone if not same_bits(alone[key], among[key])] == []
    theirs = world.expected(made.changes)["logits", -1].float()
    limit = 3e-5 if world.model.dtype == torch.float32 else 0.06
    assert (alone["logits", -1].float() - theirs).abs().max() <= limit * theirs.abs().max()


@pytest.mark.parametrize("numerics", ["causal", "transformers"])
def test_a_query_left_without_any_key_mixes_nothing(worlds, numerics):
    world = worlds("eager")
    queries, heads = [0, 6, LENGTH - 1], [1]
    ours = world.ours([edits.knockout("layers.1.attention_scores", queries=queries, heads=heads)], numerics)
    assert (ours["attention_probabilities", 1][heads][:, queries] == 0).all()
    assert (ours["attention_head_outputs", 1][queries][:, heads] == 0).all()
    assert all(value.isfinite().all() for (hook, _), value in ours.items() if hook != "attention_scores")
    others = [query for query in range(LENGTH) if query not in queries]
    plain = world.ours([], numerics)
    assert same_bits(ours["attention_probabilities", 1][:, others], plain["attention_probabilities", 1][:, others])


def test_noise_is_a_function_of_seed_hook_point_and_position(worlds):
    world = worlds("sdpa")

    def drawn(seed: int = 1, hook: str = "layers.1.layer_output", ids: list[int] = world.ids, label: str = "0", **where) -> torch.Tensor:
        node = values.noise(phitap.RunValue(label, hook, phitap.Selection(**where)), seed)
        crowd = [phitap.Prompt(world.clean_ids, "other")] if label != "0" else []
        return world.client.trace([*crowd, phitap.Prompt(ids, label)], phitap.Capture(label="n", node=node), model=world.kind).torch("n")

    whole = drawn()
    assert torch.equal(drawn(ids=world.clean_ids[:9], label="another"), whole[:9])
    assert torch.equal(drawn(positions=[7, 2], features=slice(3, 9)), whole[[7, 2]][:, 3:9])
    assert all((other != whole).any(-1).all() for other in (drawn(seed=2), drawn(hook="layers.2.layer_output"),
                                                            drawn(hook="layers.1.layer_mid")))
    assert abs(whole.mean()) < 0.1 and abs(whole.std() - 1) < 0.1
