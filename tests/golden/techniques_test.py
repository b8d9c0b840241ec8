"""Every technique of interpretability that the README names, as one request to the demo model: techniques/NAME.json.

Each runs through the real server and must do something: what comes back differs, by far more than rounding, from the same request without
its interventions, or where it has none from the same request about another prompt. What a technique is for is checked where that is a
number. Tensors that the requests name (a dictionary, a probe, …) are put first: see kept_tensors.
"""

import json
import pathlib

import numpy as np
import pytest
from google.protobuf import json_format
from safetensors import safe_open

import phitap
from phitap.v1 import trace_pb2
from served import ROOT, serve

FOLDER = pathlib.Path(__file__).parent / "techniques"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
CLEAN = "When Mary and John went to the store, John gave a drink to"
ANOTHER = "When Paul and Anna went to the park, Anna gave a ball to"
MARY, JOHN = 578, 584
#: Least relative change that is an effect and no rounding: bfloat16 keeps 8 bits.
EFFECT = 0.02


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    for address in serve({"demo": ROOT / "deploy" / "demo-model"}, tmp_path_factory.mktemp("server"), "bfloat16", 2):
        with phitap.Client(address, timeout=120) as client:
            for name, tensor in kept_tensors().items():
                client.put_tensor(name, tensor)
            yield client


def kept_tensors() -> dict[str, np.ndarray]:
    """What a user would have trained, drawn at random; and weights of the model."""
    rng = np.random.default_rng(0)
    hidden, features = 192, 96

    def drawn(*shape: int, size: float = 1.0) -> np.ndarray:
        return (size * rng.standard_normal(shape)).astype(np.float32)

    rotation = np.linalg.qr(rng.standard_normal((hidden, 24)))[0].astype(np.float32)
    directions = drawn(features, hidden)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    tensors = {
        "sae.encoder_weight": directions, "sae.encoder_bias": np.full(features, -0.05, np.float32), "sae.decoder_weight": directions,
        "sae.decoder_bias": np.zeros(hidden, np.float32), "sae.threshold": np.full(features, 0.1, np.float32),
        "transcoder.encoder_weight": drawn(features, hidden, size=hidden**-0.5), "transcoder.decoder_weight": drawn(features, hidden, size=0.2),
        "das/basis": rotation, "das/mask": (1 / (1 + np.exp(-np.linspace(3, -3, 24)))).astype(np.float32),
        "pca/components": rotation.T[:8].copy(), "pca/scales": np.linspace(2, 0.5, 8, dtype=np.float32),
        "reft/rotation": rotation.T[:4].copy(), "reft/weight": drawn(4, hidden, size=0.3), "reft/bias": drawn(4, size=2.0),
        "lens/translator": drawn(hidden, hidden, size=0.02), "lens/bias": drawn(hidden, size=0.02), "probe/weight": drawn(1, hidden, size=0.1),
        "condition/projection": drawn(hidden, hidden, size=0.1) + np.eye(hidden, dtype=np.float32),
    }
    with safe_open(ROOT / "deploy" / "demo-model" / "model.safetensors", "pt") as weights:
        def weight(name: str) -> np.ndarray:
            return weights.get_tensor(name).float().numpy()

        output, qkv = weight("model.layers.0.self_attn.o_proj.weight"), weight("model.layers.1.self_attn.qkv_proj.weight")
        tensors["path/output_head"] = output[:, 3 * 32:4 * 32].copy()  # head 3 of layer 0 writes
        tensors["path/query_head"] = qkv[4 * 32:5 * 32] * weight("model.layers.1.input_layernorm.weight")  # what head 4 of layer 1 asks for
        tensors["unembed/mary_minus_john"] = weight("model.norm.weight") * (weight("lm_head.weight")[MARY] - weight("lm_head.weight")[JOHN])
    return tensors


def request_of(name: str) -> trace_pb2.TraceRequest:
    return json_format.Parse((FOLDER / f"{name}.json").read_text(), trace_pb2.TraceRequest())


def without_the_technique(request: trace_pb2.TraceRequest) -> trace_pb2.TraceRequest:
    """The same without its interventions; where it has none, about another prompt."""
    plain = trace_pb2.TraceRequest()
    plain.CopyFrom(request)
    if not any(run.interventions for run in request.runs):
        for run in plain.runs:
            if run.prompt.text == CLEAN:
                run.prompt.text = ANOTHER
        return plain
    for run in plain.runs:
        del run.interventions[:]
    if not any(capture.node for capture in plain.captures):
        plain.ClearField("program")
    return plain


def values_of(trace: phitap.Trace, request: trace_pb2.TraceRequest) -> dict[tuple, np.ndarray]:
    """Everything that came back."""
    found = {(sweep.label, metric.label): trace.sweep(sweep.label, metric.label) for sweep in request.sweeps for metric in sweep.metrics}
    for values in [*trace.runs, trace.gradients, trace._shared]:
        for (label, hook_point, step, part), spec in values.specs.items():
            found[spec.run, label, hook_point, step, part] = np.asarray(_leaf(values, label, hook_point, step, part), np.float64)
    return found


def _leaf(values, label, hook_point, step, part):
    return values._values[label][hook_point][step][part]


@pytest.mark.parametrize("name", NAMES)
def test_the_technique_does_something(client, name):
    request = request_of(name)
    plain_request = without_the_technique(request)
    edited, plain = (values_of(client.send(sent), sent) for sent in (request, plain_request))
    assert all(np.isfinite(value[value != -np.inf]).all() for value in edited.values())
    changes = {key: np.linalg.norm(value - plain[key]) / max(np.linalg.norm(plain[key]), 1e-9) for key, value in edited.items()
               if key in plain and value.shape == plain[key].shape}
    assert max(changes.values()) > EFFECT, changes


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_what_a_client_would_write(name):
    """No unknown field, in canonical JSON."""
    text = (FOLDER / f"{name}.json").read_text()
    assert json.loads(json_format.MessageToJson(request_of(name), preserving_proto_field_name=True)) == json.loads(text)


def difference(logits: np.ndarray) -> float:
    """How much likelier Mary is than John."""
    last = np.asarray(logits, np.float64).reshape(-1, logits.shape[-1])[-1]
    return float(last[MARY] - last[JOHN])


def both_ends(client) -> tuple[float, float]:
    """The difference in the clean and in the corrupt prompt."""
    logits = [run["logits"] for run in client.trace([CLEAN, CLEAN.replace("John gave", "Mary gave")],
                                                    phitap.Capture("logits", positions=-1), model="demo").runs]
    return difference(logits[0]), difference(logits[1])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("interchange")])
def test_interchange_moves_the_answer_towards_the_clean_one(client, name):
    clean, corrupt = both_ends(client)
    assert clean > 3 and corrupt < -3
    assert difference(client.send(request_of(name)).run("edited")["logits"]) > corrupt + 0.05 * (clean - corrupt)


def test_the_patching_grid_shows_the_circuit(client):
    clean, corrupt = both_ends(client)
    grid = client.send(request_of("activation_patching_grid")).sweep("grid", "mary_minus_john")
    assert grid.shape == (6, 14)
    restored = (grid - corrupt) / (clean - corrupt)
    assert abs(restored[5, 13] - 1) < 0.05, "the last layer's last position is the answer itself"
    assert abs(restored[0, 0]) < 0.05, "before the prompts part there is nothing to patch"
    assert restored[:, 9].max() > 0.5, "the giver's position"


def test_causal_tracing_restores_the_answer(client):
    trace = client.send(request_of("causal_tracing"))
    probability = np.exp(np.float64(trace.run("edited")["logits"][0]))
    corrupted = probability[MARY] / probability.sum()
    grid = trace.sweep("restored", "mary")
    assert grid[5, 13] > 0.9 and corrupted < 0.9 and grid.max() > corrupted + 0.1


def test_collecting_before_and_after_tells_the_edit(client):
    trace = client.send(request_of("collect"))
    assert np.array_equal(np.float32(trace["after"]), 2 * np.float32(trace["before"]))


def test_the_rescaled_stream_keeps_its_norm(client):
    run = client.send(request_of("steering_norm_rescale")).run("edited")
    np.testing.assert_allclose(run["norm after"], run["norm before"], rtol=5e-3)


def test_contributions_sum_to_the_logit_difference(client):
    trace = client.send(request_of("direct_logit_attribution"))
    assert trace["contributions"].sum() == pytest.approx(difference(trace.runs[0]["logits"]), rel=0.02)


def test_integrated_gradients_sum_to_the_difference_of_the_ends(client):
    trace = client.send(request_of("integrated_gradients"))
    expected = difference(trace.run("clean")["logits"]) - difference(trace.run("corrupt")["logits"])
    assert trace["attribution"].sum() == pytest.approx(expected, rel=0.2)
    assert np.argmax(np.abs(trace["attribution"])) == 9


def test_attention_knockout_hides_the_names(client):
    probabilities = {}
    for name, request in {"edited": request_of("attention_knockout"), "plain": without_the_technique(request_of("attention_knockout"))}.items():
        logits = np.float64(client.send(request).runs[0]["logits"][0])
        probabilities[name] = np.exp(logits[MARY]) / np.exp(logits).sum()
    assert probabilities["plain"] > 0.9 and probabilities["edited"] < 0.5
