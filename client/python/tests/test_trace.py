"""Traces through the real server."""

import grpc
import ml_dtypes
import numpy as np
import pytest
import torch

import phitap

PROMPT = "When Mary and John went to the store, John gave a drink to"


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_returns_every_layer_and_the_logits_in_bfloat16(client):
    trace = client.trace(PROMPT, captures=["layers.*.layer_output", "logits"], model="demo")
    config = {model.name: model for model in client.models()}["demo"].config
    tokens = len(trace.runs[0].tokens)
    assert trace["layers.3.layer_output"].shape == (tokens, config.hidden_size)
    assert trace["layers.3.layer_output"].dtype == ml_dtypes.bfloat16
    assert trace["logits"].shape == (tokens, config.vocab_size)
    assert len(trace) == config.num_layers + 1
    assert trace.header.model == "demo"
    assert trace.header.numerics == "causal"


def test_the_demo_model_knows_who_gets_the_drink(client):
    trace = client.trace(PROMPT, captures=["next_token_probs"], model="demo")
    assert client.detokenize([int(trace["next_token_probs"].argmax())], model="demo") == " Mary"


def test_equals_transformers_bit_for_bit_when_asked_to(client, checkpoints):
    from transformers import AutoModelForCausalLM

    ids = [1, 5, 9, 33, 2, 60, 7, 7, 12]
    model = AutoModelForCausalLM.from_pretrained(checkpoints["small"], attn_implementation="eager")
    with torch.no_grad():
        torch.set_num_threads(2)
        expected = model(torch.tensor([ids]), output_attentions=True)
    trace = client.trace([ids], captures=["logits", "layers.1.attention_probabilities"], model="small", numerics="transformers",
                         attention="eager")
    assert trace.header.numerics == "transformers"
    assert trace.header.attention == "eager"
    assert torch.equal(trace.torch("logits"), expected.logits[0])
    assert torch.equal(trace.torch("layers.1.attention_probabilities"), expected.attentions[1][0])


def test_a_run_has_the_same_bytes_alone_and_among_others(client):
    prompts = [[3, 1, 4, 1, 5], [9, 2, 6], list(range(1, 60)), [5]]
    captures = ["layers.*.layer_output", "layers.*.attention_probabilities", "logits"]
    for model in ("small", "half", "windowed"):
        together = client.trace(prompts, captures=captures, model=model)
        for prompt, run in zip(prompts, together.runs, strict=True):
            alone = client.trace(prompt, captures=captures, model=model)
            assert list(alone) == list(run)
            for name in run:
                assert same_bytes(np.asarray(alone[name]), np.asarray(run[name])), (model, name)


def test_a_label_finds_one_value_or_a_set_by_hook_point(client):
    trace = client.trace([[1, 2, 3]], model="small", captures=[
        phitap.Capture("layers.1.mlp_neurons", label="neurons"),
        phitap.Capture("layers.0-1.layer_output", label="stream"),
    ])
    assert trace["neurons"].shape == (3, 96)
    assert list(trace["stream"]) == ["layers.0.layer_output", "layers.1.layer_output"]


def test_names_are_found_in_full_and_in_short(client):
    trace = client.trace([[1, 2, 3]], captures="layers.1.attention_queries", model="small")
    assert trace["layers.1.attention_queries"] is trace["layers.1.self_attn.attention_queries"]
    with pytest.raises(KeyError, match="it has: layers.1.self_attn.attention_queries"):
        trace["layers.2.attention_queries"]


def test_selections_are_the_same_part_of_the_whole(client):
    ids = list(range(1, 20))
    whole = client.trace([ids], captures=["layers.1.attention_queries", "layers.1.layer_output", "layers.1.attention_probabilities"],
                         model="small")
    part = client.trace([ids], model="small", captures=[
        phitap.Capture("layers.1.attention_queries", positions=[-1, slice(2, 8, 3)], heads=[3, 0], features=slice(4, 8)),
        phitap.Capture("layers.1.layer_output", token_ids=[5, 7]),
        phitap.Capture("layers.1.attention_probabilities", queries=[18, 2], keys=range(3, 6), heads=-1),
    ])
    q = "layers.1.attention_queries"
    assert same_bytes(part[q], whole[q][[3, 0]][:, [-1, 2, 5]][:, :, 4:8])
    assert same_bytes(part["layers.1.layer_output"], whole["layers.1.layer_output"][[4, 6]])
    p = "layers.1.attention_probabilities"
    assert same_bytes(part[p], whole[p][[3]][:, [18, 2]][:, :, 3:6])


def test_reductions_are_what_numpy_makes_of_the_whole(client):
    ids = list(range(1, 20))
    whole = client.trace([ids], captures=["layers.1.layer_output", "logits"], model="small")
    stream, logits = whole["layers.1.layer_output"], whole["logits"]
    trace = client.trace([ids], model="small", captures=[
        phitap.Capture("layers.1.layer_output", label="mean", reduce=phitap.mean_over_positions()),
        phitap.Capture("layers.1.layer_output", label="norm", reduce=phitap.norm()),
        phitap.Capture("logits", label="top", reduce=phitap.top_k(4)),
        phitap.Capture("final_norm_output", label="lens", reduce=phitap.logit_lens(3, token_ids=[7], apply_final_norm=False)),
    ])
    np.testing.assert_allclose(trace["mean"], stream.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trace["norm"], np.linalg.norm(stream, axis=-1), rtol=1e-5)
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :4]
    assert np.array_equal(trace["top"]["indices"], order)
    assert same_bytes(trace["top"]["values"], np.take_along_axis(logits, order, -1))
    probabilities = torch.softmax(torch.from_numpy(logits), -1).numpy()
    lens = trace["lens"]
    assert np.array_equal(lens["indices"], order[:, :3])
    np.testing.assert_allclose(lens["probabilities"], np.take_along_axis(probabilities, order[:, :3], -1), rtol=1e-5)
    np.testing.assert_allclose(lens["token_probabilities"][:, 0], probabilities[:, 7], rtol=1e-5)
    assert np.array_equal(lens["token_ranks"][:, 0], (logits > logits[:, 7:8]).sum(-1))


def test_prompts_may_be_text_ids_and_chats_in_one_request(client):
    chat = [{"role": "user", "content": "hello"}]
    trace = client.trace(["Mary and", [1, 5, 9], chat, phitap.Prompt(same_as="0", label="again")], captures=["logits"], model="demo")
    assert [run.label for run in trace.runs] == ["0", "1", "2", "again"]
    assert trace.runs[0].tokens == client.tokenize("Mary and", model="demo")
    assert trace.runs[1].tokens == [1, 5, 9]
    assert trace.runs[2].tokens == client.tokenize(chat, model="demo")
    assert same_bytes(trace.runs[3]["logits"], trace.runs[0]["logits"])
    assert "".join(trace.runs[0].token_texts) == "Mary and"
    with pytest.raises(KeyError, match="trace.runs"):
        trace["logits"]


def test_hidden_positions_and_position_ids_change_what_they_reach(client):
    ids = [3, 1, 4, 1, 5, 9]
    trace = client.trace([ids, phitap.Prompt(ids, hidden_positions=[2]), phitap.Prompt(ids, position_ids=[0, 1, 2, 7, 8, 9])],
                         captures=["layers.0.layer_output"], model="small")
    plain, hidden, moved = (run["layers.0.layer_output"] for run in trace.runs)
    assert same_bytes(plain[:2], hidden[:2])
    assert not same_bytes(plain[3:], hidden[3:])
    assert same_bytes(plain[:3], moved[:3])
    assert not same_bytes(plain[3:], moved[3:])


def test_the_wire_type_is_the_callers_choice(client):
    capture = [phitap.Capture("logits", dtype="float32", label="wide"), "logits"]
    trace = client.trace([[1, 2, 3]], captures=capture, model="windowed")
    assert trace["wide"].dtype == np.float32
    assert np.array_equal(trace["wide"], trace["logits"].astype(np.float32))


def test_torch_shares_the_bytes(client):
    trace = client.trace([[1, 2, 3]], captures=["logits"], model="windowed")
    tensor = trace.torch("logits")
    assert tensor.dtype == torch.bfloat16
    assert np.array_equal(tensor.float().numpy(), trace["logits"].astype(np.float32))


def test_the_plan_says_what_the_trace_then_does(client):
    arguments = dict(prompts=[[1, 2, 3], [4, 5]], captures=["layers.1.layer_output", "logits"], model="small")
    plan = client.plan(**arguments)
    trace = client.trace(**arguments)
    assert plan.tokens == {run.label: run.tokens for run in trace.runs}
    assert plan.size_bytes == trace.summary.size_bytes
    assert [(spec.run, spec.hook_point, spec.shape) for spec in plan.tensors] == [
        (run.label, spec.hook_point, spec.shape) for run in trace.runs for spec in run.specs.values()] or sorted(
            (spec.run, spec.hook_point, spec.shape) for spec in plan.tensors) == sorted(
                (run.label, spec.hook_point, spec.shape) for run in trace.runs for spec in run.specs.values())
    assert plan.token_layers == trace.summary.token_layers_computed


def test_computes_no_deeper_than_asked(client):
    trace = client.trace([[1, 2, 3]], captures=[phitap.Capture("layers.0.layer_output", positions=-1)], model="small")
    assert trace.summary.token_layers_computed == 1
    assert trace.summary.token_layers_computed + trace.summary.token_layers_saved == 9


def test_progress_ends_at_the_announced_bytes(client):
    calls = []
    trace = client.trace([[1, 2, 3]], captures=["layers.*.layer_output"], model="small",
                         progress=lambda received, total, rate: calls.append((received, total, rate)))
    assert calls[-1][:2] == (trace.summary.size_bytes, trace.summary.size_bytes)
    assert all(rate > 0 for _, _, rate in calls)


def test_lists_models_and_hook_points(client):
    assert [model.name for model in client.models()] == ["demo", "small", "half", "windowed"]
    hook_points = {point.name: point for point in client.hook_points("small")}
    assert len(hook_points) == 33
    assert list(hook_points["attention_keys"].dimension_sizes) == ["2", "seq", "16"]
    assert "Phi3DecoderLayer" in client.model_details("small").printout


@pytest.mark.parametrize(("arguments", "code", "fragment"), [
    (dict(model="nobody"), "NOT_FOUND", "nobody"),
    (dict(captures=["layers.3.layer_output"]), "INVALID_ARGUMENT", "captures[0].hook_points"),
    (dict(captures=["layers.0.layer_outptu"]), "INVALID_ARGUMENT", "layer_output"),
    (dict(prompts=[[1, 97]]), "INVALID_ARGUMENT", "runs[0].prompt.tokens.ids[1]"),
    (dict(prompts=[phitap.Prompt([])]), "INVALID_ARGUMENT", "runs[0].prompt"),
    (dict(prompts="text"), "FAILED_PRECONDITION", "tokenizer"),
    (dict(captures=[phitap.Capture("logits", positions=3)]), "INVALID_ARGUMENT", "captures[0].selection.positions"),
    (dict(captures=[phitap.Capture("logits", heads=0)]), "INVALID_ARGUMENT", "captures[0].selection.heads"),
    (dict(captures=[]), "INVALID_ARGUMENT", "captures"),
    (dict(prompts=[]), "INVALID_ARGUMENT", "runs"),
])
def test_a_refusal_names_the_field_and_the_server_goes_on(client, arguments, code, fragment):
    with pytest.raises(phitap.RequestError) as refused:
        client.trace(**{**dict(prompts=[[1, 2, 3]], captures=["logits"], model="small"), **arguments})
    assert refused.value.code is grpc.StatusCode[code]
    assert fragment in refused.value.message
    assert client.trace([[1, 2, 3]], captures=["logits"], model="small")["logits"].shape == (3, 97)


def test_no_server_is_said_plainly():
    with phitap.Client("127.0.0.1:1") as client, pytest.raises(phitap.ConnectionFailed, match="phitapd --model"):
        client.models()
