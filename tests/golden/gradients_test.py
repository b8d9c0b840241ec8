"""Promise: gradients equal autograd on transformers, float32, within 1e-6 of the largest value.

Numerics `transformers`, so that the constants of a gradient, values of other runs, are those of the reference as well.
"""

import pathlib
import random

import numpy as np
import pytest
import torch

import edit_formulas as formulas
import phitap
from checkpoint_kinds import VOCABULARY, WINDOW, for_transformers, make_checkpoint
from hooked_transformers import HookedForward
from phitap import edits, metrics, values
from served import serve
from transformers_values import load

KINDS = ["gqa", "window", "longrope", "partial_tied"]
LENGTH = WINDOW + 4
TOKEN, BASELINE, POSITION = 7, 30, -2
HOOKS = ["token_embeddings", "layers.0.layer_input", "layers.0.attention_norm_output", "layers.0.attention_qkv",
         "layers.0.attention_queries_pre_rotary", "layers.0.attention_keys_pre_rotary", "layers.0.attention_queries",
         "layers.1.attention_keys", "layers.0.attention_values", "layers.1.attention_head_outputs", "layers.0.attention_premix",
         "layers.0.attention_output", "layers.1.layer_mid", "layers.0.mlp_norm_output", "layers.0.mlp_gate_up", "layers.1.mlp_gate",
         "layers.0.mlp_up", "layers.0.mlp_activation", "layers.1.mlp_neurons", "layers.0.mlp_output", "layers.0.layer_output",
         "layers.1.layer_output", "final_norm_output", "logits"]
PATTERN_HOOKS = ["layers.0.attention_scores", "layers.1.attention_probabilities"]
BY_HEAD = ("attention_queries_pre_rotary", "attention_keys_pre_rotary", "attention_queries", "attention_keys", "attention_values")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind) for kind in KINDS}


@pytest.fixture(scope="module")
def client(checkpoints, tmp_path_factory):
    torch.set_num_threads(2)
    for address in serve(checkpoints, tmp_path_factory.mktemp("server"), "float32", 2):
        with phitap.Client(address, timeout=300) as client:
            yield client


class World:
    """Two prompts of one checkpoint, and transformers' model of it."""

    def __init__(self, checkpoints, kind: str):
        self.kind = kind
        self.models = {attention: load(for_transformers(checkpoints[kind]), torch.float32, attention) for attention in ("sdpa", "eager")}
        rng = random.Random(kind)
        self.clean_ids, self.ids = ([rng.randrange(VOCABULARY) for _ in range(LENGTH)] for _ in range(2))

    def forward(self, changes=(), attention: str = "sdpa") -> tuple[HookedForward, torch.Tensor]:
        forward = HookedForward(self.models[attention], dict(changes), keep_graph=True)
        return forward, forward(self.ids)

    def clean_logits(self) -> torch.Tensor:
        return HookedForward(self.models["sdpa"])(self.clean_ids)

    def runs(self, *changes: phitap.Intervention) -> list[phitap.Prompt]:
        return [phitap.Prompt(self.clean_ids, "clean"), phitap.Prompt(self.ids, "run", interventions=changes)]


@pytest.fixture(scope="module", params=KINDS)
def world(request, checkpoints):
    return World(checkpoints, request.param)


def split(hook_point: str) -> tuple[str, int]:
    parts = hook_point.split(".")
    return parts[-1], int(parts[1]) if len(parts) > 1 else -1


def assert_close(ours: np.ndarray, theirs: torch.Tensor, name) -> None:
    theirs = theirs.numpy()
    assert ours.dtype == np.float32 and ours.shape == theirs.shape, name
    assert np.abs(ours - theirs).max() <= 1e-6 * np.abs(theirs).max(), name
    assert np.abs(theirs).max() > 0, name


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    p, q = torch.log_softmax(p.detach(), -1), torch.log_softmax(q, -1)
    return (p.exp() * (p - q)).sum()


def program_value() -> values.Value:
    stream = values.read("run", "layers.1.layer_output")
    return (stream * stream).mean() + values.read("run", "logits", positions=3, features=slice(0, 5)).softmax().max()


def program_formula(forward: HookedForward, logits: torch.Tensor) -> torch.Tensor:
    stream = forward.seen["layer_output", 1][0]
    return (stream * stream).mean() + torch.softmax(logits[3, :5], -1).max()


METRICS = {
    "logit": (lambda: metrics.logit(TOKEN), lambda world, forward, logits: logits[-1, TOKEN]),
    "logit at a position": (lambda: metrics.logit(TOKEN, position=POSITION), lambda world, forward, logits: logits[POSITION, TOKEN]),
    "logit difference": (lambda: metrics.logit_difference(TOKEN, BASELINE),
                         lambda world, forward, logits: logits[-1, TOKEN] - logits[-1, BASELINE]),
    "probability": (lambda: metrics.probability(TOKEN), lambda world, forward, logits: torch.softmax(logits[-1], -1)[TOKEN]),
    "log probability": (lambda: metrics.probability(TOKEN, log=True),
                        lambda world, forward, logits: torch.log_softmax(logits[-1], -1)[TOKEN]),
    "kl": (lambda: metrics.kl("clean"), lambda world, forward, logits: kl(world.clean_logits()[-1], logits[-1])),
    "program": (lambda: metrics.value(program_value()), lambda world, forward, logits: program_formula(forward, logits)),
}


@pytest.mark.parametrize("metric", METRICS)
def test_equals_autograd_at_every_hook_point(client, world, metric):
    ours, theirs = METRICS[metric]
    forward, logits = world.forward()
    theirs(world, forward, logits).backward()
    gradients = [phitap.Gradient(ours(), "run", hook, label=hook) for hook in HOOKS]
    trace = client.trace(world.runs(), gradients=gradients, model=world.kind, numerics="transformers")
    for hook in HOOKS:
        assert_close(trace.gradients[hook], forward.gradient(*split(hook)), hook)


def test_equals_autograd_at_scores_and_probabilities(client, world):
    forward, logits = world.forward(attention="eager")
    logits[-1, TOKEN].backward()
    gradients = [phitap.Gradient(metrics.logit(TOKEN), "run", hook, label=hook) for hook in PATTERN_HOOKS]
    trace = client.trace(world.runs(), gradients=gradients, model=world.kind, numerics="transformers")
    assert trace.header.attention == "eager"
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    window = world.models["eager"].config.sliding_window
    visible = visible if window is None else visible.triu(1 - window)
    for hook in PATTERN_HOOKS:
        expected = forward.gradient(*split(hook)) * visible
        assert_close(trace.gradients[hook] * visible.numpy(), expected, hook)


def test_a_selection_is_the_same_part_of_the_whole(client, world):
    hook = "layers.0.attention_queries"
    metric = metrics.logit(TOKEN)
    trace = client.trace(world.runs(), model=world.kind, gradients=[
        phitap.Gradient(metric, "run", hook, label="whole"),
        phitap.Gradient(metric, "run", hook, phitap.Selection(positions=[-1, 2], heads=1), label="part"),
        phitap.Gradient(metric, "run", "layers.*.layer_output", label="set", dtype="bfloat16")])
    assert np.array_equal(trace.gradients["part"], trace.gradients["whole"][[1]][:, [-1, 2]])
    assert list(trace.gradients["set"]) == ["layers.0.layer_output", "layers.1.layer_output"]
    assert trace.gradients["set"]["layers.0.layer_output"].dtype.name == "bfloat16"


def test_goes_through_the_edits_of_the_run(client, world):
    """Other runs' values are constant; what the run's own values made of themselves is not."""
    vector = torch.randn(world.models["sdpa"].config.hidden_size, generator=torch.Generator().manual_seed(1))
    u = formulas.unit(vector)

    def project(value: torch.Tensor) -> None:
        value.copy_(value - formulas.along(value, u) * u)

    forward, logits = world.forward({("layer_output", 0): [project], ("mlp_output", 1): [lambda value: value.mul_(0.5)]})
    logits[-1, TOKEN].backward()
    hooks = ["token_embeddings", "layers.0.mlp_output", "layers.0.layer_output", "layers.1.mlp_output"]
    trace = client.trace(world.runs(edits.project_out("layers.0.layer_output", vector), edits.scale("layers.1.mlp_output", 0.5)),
                         gradients=[phitap.Gradient(metrics.logit(TOKEN), "run", hook, label=hook) for hook in hooks], model=world.kind,
                         numerics="transformers")
    for hook in hooks:
        assert_close(trace.gradients[hook], forward.gradient(*split(hook)), hook)


def test_goes_through_edits_of_scattered_parts(client, world):
    vector = torch.randn(world.models["sdpa"].config.hidden_size, generator=torch.Generator().manual_seed(2))
    positions, queries = [9, 2, 5], [7, 3]

    def add(value: torch.Tensor) -> None:
        value[positions] += vector

    def damp(value: torch.Tensor) -> None:
        value[:, queries] *= 0.5

    forward, logits = world.forward({("layer_output", 0): [add], ("attention_probabilities", 1): [damp]}, "eager")
    logits[-1, TOKEN].backward()
    hooks = ["token_embeddings", "layers.0.layer_output", "layers.1.attention_queries", "layers.1.attention_values"]
    changes = [edits.add("layers.0.layer_output", vector, positions=positions),
               edits.scale("layers.1.attention_probabilities", 0.5, queries=queries)]
    trace = client.trace(world.runs(*changes), gradients=[phitap.Gradient(metrics.logit(TOKEN), "run", hook, label=hook) for hook in hooks],
                         model=world.kind, numerics="transformers")
    for hook in hooks:
        assert_close(trace.gradients[hook], forward.gradient(*split(hook)), hook)


def test_attribution_patching_is_one_request(client, world):
    """Σ (clean − run) · ∂ metric / ∂ run, for each layer and position."""
    metric = metrics.logit_difference(TOKEN, BASELINE, run="run").as_value()
    captures = []
    for layer in range(2):
        hook = f"layers.{layer}.layer_output"
        gradient = values.gradient(metric, phitap.RunValue("run", hook))
        difference = values.read("clean", hook) - values.read("run", hook)
        captures.append(phitap.Capture(label=str(layer), node=(difference * gradient).sum([-1])))
    trace = client.trace(world.runs(), captures, model=world.kind)
    forward, logits = world.forward()
    (logits[-1, TOKEN] - logits[-1, BASELINE]).backward()
    clean = HookedForward(world.models["sdpa"])
    clean(world.clean_ids)
    for layer in range(2):
        difference = clean.seen["layer_output", layer] - forward.seen["layer_output", layer].detach()[0]
        expected = (difference * forward.gradient("layer_output", layer)).sum(-1).numpy()
        assert np.abs(trace[str(layer)] - expected).max() <= 5e-5 * np.abs(expected).max()


def test_integrated_gradients_are_one_request(client, world):
    """The mean gradient over scaled embeddings, times the embeddings."""
    steps = 8
    alphas = [(i + 0.5) / steps for i in range(steps)]
    runs = [phitap.Prompt(world.ids, "run")] + [
        phitap.Prompt(world.ids, f"scaled {i}", interventions=[edits.scale("token_embeddings", alpha)]) for i, alpha in enumerate(alphas)]
    gradients = [values.gradient(metrics.logit(TOKEN, run=f"scaled {i}").as_value(), phitap.RunValue(f"scaled {i}", "token_embeddings"))
                 for i in range(steps)]
    total = gradients[0]
    for gradient in gradients[1:]:
        total = total + gradient
    attribution = (total / steps * values.read("run", "token_embeddings")).sum([-1])
    trace = client.trace(runs, phitap.Capture(label="attribution", node=attribution), model=world.kind)
    mean = 0
    for alpha in alphas:
        forward, logits = world.forward({("token_embeddings", -1): [lambda value: value.mul_(alpha)]})
        logits[-1, TOKEN].backward()
        mean = mean + forward.gradient("token_embeddings", -1) / steps
    plain = HookedForward(world.models["sdpa"])
    plain(world.ids)
    expected = (mean * plain.seen["token_embeddings", -1]).sum(-1).numpy()
    assert np.abs(trace["attribution"] - expected).max() <= 5e-5 * np.abs(expected).max()


def test_a_gradient_changes_no_value(client, world):
    plain = client.trace(world.runs(), ["logits"], model=world.kind)
    with_gradient = client.trace(world.runs(), ["logits"], gradients=[phitap.Gradient(metrics.logit(TOKEN), "run", "token_embeddings")],
                                 model=world.kind)
    assert np.array_equal(plain.run("run")["logits"], with_gradient.run("run")["logits"])


def test_a_query_left_without_any_key_has_no_slope(client, world):
    cut = edits.knockout("layers.0.attention_scores", queries=[0, 5])  # not side by side: their indices outlive the forward
    trace = client.trace(world.runs(cut), gradients=[phitap.Gradient(metrics.logit(TOKEN), "run", hook, label=hook) for hook in (
        "layers.0.attention_queries", "token_embeddings")], model=world.kind)
    assert np.isfinite(trace.gradients["token_embeddings"]).all() and np.abs(trace.gradients["token_embeddings"]).max() > 0
    assert (trace.gradients["layers.0.attention_queries"][:, [0, 5]] == 0).all()
