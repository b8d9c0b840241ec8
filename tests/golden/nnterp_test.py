"""Promise: nnterp's own documented examples give the same numbers through phitap, in the recording style and under nnterp's names.

nnterp/values.npz holds what nnterp computed, float32, on the demo model: see nnterp/make_values.py.
"""

import pathlib
import sys

import numpy as np
import pytest

import phitap
from phitap.recording import TargetPrompt, repeat_prompt
from served import ROOT, serve

HERE = pathlib.Path(__file__).parent / "nnterp"
sys.path.insert(0, str(HERE))

from examples import (  # noqa: E402
    CLEAN,
    CORRUPT,
    EDITED_HEAD,
    EDITED_LAYER,
    FACTOR,
    SKIPPED,
    STEERED,
    STEERED_POSITIONS,
    TARGET,
    WORDS,
    steering_vector,
)


@pytest.fixture(scope="module")
def theirs() -> dict[str, np.ndarray]:
    return dict(np.load(HERE / "values.npz"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    for address in serve({"demo": ROOT / "deploy" / "demo-model"}, tmp_path_factory.mktemp("server"), "float32", 2):
        with phitap.Client(address, timeout=120) as client:
            yield client.model("demo")


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Within the rounding of float32 in another order."""
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 2e-5 * np.abs(theirs).max()


def test_logit_lens(model, theirs):
    assert_same(model.logit_lens([CLEAN, CORRUPT]), theirs["logit_lens"])


def test_token_activations(model, theirs):
    assert_same(model.get_token_activations([CLEAN, CORRUPT]), theirs["token_activations"])


def test_patchscope_lens(model, theirs):
    assert_same(model.patchscope_lens([CLEAN, CORRUPT], TargetPrompt(TARGET, -1)), theirs["patchscope_lens"])
    latents = model.get_token_activations([CLEAN, CORRUPT])
    assert_same(model.patchscope_lens(latents=latents, target_patch_prompts=TargetPrompt(TARGET, -1)), theirs["patchscope_lens"])


def test_repeat_prompt(model, theirs):
    assert_same(model.patchscope_lens([CLEAN], repeat_prompt(words=WORDS)), theirs["repeat_prompt"])


def steer(run):
    run.steer(layers=STEERED, steering_vector=steering_vector(), factor=FACTOR)


def steer_positions(run):
    run.steer(layers=STEERED, steering_vector=steering_vector(), factor=FACTOR, token_positions=STEERED_POSITIONS)


def skip_layer(run):
    run.skip_layer(SKIPPED[0])


def skip_layers(run):
    run.skip_layers(*SKIPPED)


def skip_with(run):
    run.skip_layers(SKIPPED[0], SKIPPED[1], skip_with=run.token_embeddings)


def attention_probabilities(run):
    """A pattern is there once its layer's attention is done: what is written comes from a run of the same prompt that is not edited."""
    kept = run._trace.run(CLEAN, "unedited").attention_probabilities[EDITED_LAYER] * (1 - first_key_of_the_head())
    run.attention_probabilities[EDITED_LAYER] = kept / (kept.sum(axis=-1, keepdims=True) + 1e-6)


def attention_scores(run):
    """The same, said as what it is."""
    run.layers[EDITED_LAYER].attention_scores[EDITED_HEAD, :, 0].knockout_()


def first_key_of_the_head() -> np.ndarray:
    """[heads, 1, keys]: 1 at the first key of the edited head."""
    mask = np.zeros((6, 1, 14), np.float32)
    mask[EDITED_HEAD, :, 0] = 1
    return mask


@pytest.mark.parametrize(("edit", "name"), [
    (steer, "steer"), (steer_positions, "steer_positions"), (skip_layer, "skip_layer"), (skip_layers, "skip_layers"),
    (skip_with, "skip_with"), (attention_probabilities, "attention_probabilities"), (attention_scores, "attention_probabilities"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_edits(model, theirs, edit, name):
    with model.trace(CLEAN, attention="eager") as run:
        edit(run)
        logits = run.logits[-1].save()
    with model.trace(CLEAN, attention="eager") as run:
        plain = run.logits[-1].save()
    assert_same(logits.value, theirs[name])
    assert np.abs(plain.value - theirs[name]).max() > 1e-3 * np.abs(plain.value).max(), "the example does nothing"


def test_project_on_vocab(model, theirs):
    with model.trace(CLEAN) as run:
        logits = run.project_on_vocab(run.layers_output[2])[-1].save()
        probabilities = run.next_token_probs.save()
    assert_same(logits.value, theirs["project_on_vocab"])
    assert_same(probabilities.value, theirs["next_token_probs"])


def test_closest_tokens(model, theirs):
    hidden = theirs["token_activations"][3, 0]
    closest = model.get_topk_closest_tokens(hidden, k=5)
    assert [model.token_id(text) for text in closest] == theirs["closest_ids"].tolist()
    assert_same(np.array(list(closest.values()), np.float32), theirs["closest_probabilities"])
