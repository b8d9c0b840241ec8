"""nnterp's documented examples give the same numbers through phitap, on the bundled demo model in float32."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import phitap
import pytest
import served
import torch
from phitap.recording.lenses import TargetPrompt, repeat_prompt
from safetensors.torch import load_file

DEMO = served.ROOT / "deploy" / "demo-model"
REFERENCE = pathlib.Path(__file__).with_name("nnterp_reference.py")

# nnterp_reference.py's; it cannot be imported here, since nnsight changes torch.
CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPT = "When Mary and John went to the store, Mary gave a drink to"
# Probabilities near 0 and 1 and hidden states of some hundreds: both sides round in float32.
TOLERANCE = dict(rtol=2e-4, atol=2e-6)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> dict[str, np.ndarray]:
    out = tmp_path_factory.mktemp("nnterp") / "results.safetensors"
    subprocess.run([sys.executable, REFERENCE, DEMO, out], check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True)
    return {name: value.numpy() for name, value in load_file(out).items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    for address in served.serve({"demo": DEMO}, tmp_path_factory.mktemp("server"), "float32", 2):
        with phitap.Client(address) as client:
            yield client.model("demo")


def vector(model) -> np.ndarray:
    return torch.randn(model.hidden_size, generator=torch.Generator().manual_seed(11)).numpy()


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, **TOLERANCE)


def test_logit_lens(model, theirs):
    assert_same(model.logit_lens(CLEAN)[0], theirs["logit_lens"])


def test_get_token_activations(model, theirs):
    assert_same(model.get_token_activations(CLEAN)[:, 0], theirs["token_activations"])


def test_patchscope_lens(model, theirs):
    assert_same(model.patchscope_lens(CLEAN, TargetPrompt(CORRUPT, 1), layers=[1, 2])[0], theirs["patchscope"])


def test_patchscope_lens_with_the_repeat_prompt(model, theirs):
    target = repeat_prompt(words=["Mary", "John"], rel=" and", sep=", ")
    assert_same(model.patchscope_lens(CLEAN, target)[0], theirs["repeat_prompt"])


def test_steer(model, theirs):
    with model.trace() as t:
        with t.run(CLEAN) as run:
            run.steer([1, 3], vector(model), factor=2.0, token_positions=[2, -1])
            probabilities = run.next_token_probs.save()
    assert_same(probabilities.value, theirs["steer"])


def test_skip_layers(model, theirs):
    with model.trace() as t:
        with t.run(CLEAN) as run:
            run.skip_layers(1, 2)
            probabilities = run.next_token_probs.save()
    assert_same(probabilities.value, theirs["skip_layers"])


def test_skip_layers_with_another_value(model, theirs):
    with model.trace(CLEAN) as run:
        run.skip_layers(1, 2, skip_with=run.token_embeddings)
        probabilities = run.next_token_probs.save()
    assert_same(probabilities.value, theirs["skip_with"])


def test_a_renormalised_pattern(model, theirs):
    """A pattern is there once its layer's attention is done, so what is written comes from a run of the same prompt."""
    cut = np.zeros((model.num_heads, 1, len(model.client.tokenize(CLEAN, model="demo"))), np.float32)
    cut[2, :, 1] = 1
    with model.trace() as t:
        unedited, run = t.run(CLEAN), t.run(CLEAN)
        kept = unedited.attention_probabilities[0] * (1 - cut)
        run.attention_probabilities[0] = kept / (kept.sum(axis=-1, keepdims=True) + 1e-6)
        probabilities = run.next_token_probs.save()
    assert_same(probabilities.value, theirs["renormalised_pattern"])


def test_the_closest_tokens(model, theirs):
    closest = model.get_topk_closest_tokens(theirs["token_activations"][3], k=5)
    assert [model.token_id(text) for text in closest] == theirs["closest_ids"].tolist()
    assert_same(np.array(list(closest.values()), np.float32), theirs["closest_probabilities"])


def test_an_edit_of_attention_probabilities(model, theirs):
    with model.trace() as t:
        with t.run(CLEAN) as run:
            run.attention_probabilities[0][2, :, 1] = 0
            probabilities = run.next_token_probs.save()
    assert_same(probabilities.value, theirs["attention_probabilities"])


def test_project_on_vocab(model, theirs):
    with model.trace() as t:
        with t.run(CLEAN) as run:
            probabilities = run.project_on_vocab(run.layers_output[3][-1]).softmax().save()
    assert_same(probabilities.value, theirs["project_on_vocab"])


def test_steered_generation(model, theirs):
    prompt_length = len(model.client.tokenize(CLEAN, model="demo"))
    expected = theirs["steered_generation"].tolist()
    with model.trace() as t:
        with t.generate(CLEAN, max_tokens=len(expected) - prompt_length, ignore_stop_ids=True) as run:
            run.steer(2, vector(model), factor=2.0)
    assert [token.id for token in run.generated] == expected[prompt_length:]


def test_the_examples_differ_from_the_unedited_run(model, theirs):
    plain = model.next_token_probs(CLEAN)[0]
    for name in ("steer", "skip_layers", "skip_with", "attention_probabilities", "renormalised_pattern"):
        assert np.abs(plain - theirs[name]).max() > 1e-3, name
