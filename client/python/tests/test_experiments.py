"""Edits, programs, gradients, sweeps and generation through the real server, in plain messages and in the recording style."""

import numpy as np
import pytest
import torch

import phitap
from phitap import edits, metrics, values
from phitap.recording import TargetPrompt, repeat_prompt

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPT = "When Mary and John went to the store, Mary gave a drink to"
IDS, OTHER = [3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]


@pytest.fixture()
def model(client):
    return client.model("small")


def softmax(logits: np.ndarray) -> np.ndarray:
    return torch.softmax(torch.from_numpy(np.asarray(logits, np.float32)), -1).numpy()


def test_the_readmes_patch_gives_john_the_drink_back(client):
    demo = client.model("demo")
    mary = demo.token_id(" Mary")
    with demo.trace() as t:
        with t.run(CLEAN) as clean:
            resid = clean.layers[2].layer_output[9]
        with t.run(CORRUPT) as corrupt:
            before = corrupt.logits[-1].softmax()[mary]
            corrupt.layers[2].layer_output[-1] = clean.layers[2].layer_output[-1]
            corrupt.layers[2].layer_output[9] = resid
            lp = corrupt.logits[-1].save()
            probability = corrupt.logits[-1].softmax()[mary].save()
    plain = client.trace(CORRUPT, "next_token_probs", model="demo")["next_token_probs"]
    assert lp.value.shape == (demo.vocab_size,)
    assert plain[mary] < 0.1 < 0.5 < probability.value
    assert probability.value == pytest.approx(softmax(lp.value)[mary], rel=1e-5)
    assert before is not probability


def test_recording_sends_what_plain_messages_say(client, model):
    with model.trace() as t:
        clean = t.run(IDS, "clean")
        edited = t.run(OTHER, "edited")
        edited.layers[1].layer_output[[0, 2]] = clean.layers[0].layer_output[4]
        edited.layers[1].mlp_neurons[:, 3:9] *= 0.5
        logits = edited.logits.save()
    plain = client.trace([phitap.Prompt(IDS, "clean"), phitap.Prompt(OTHER, "edited", interventions=[
        edits.set_("layers.1.layer_output", phitap.RunValue("clean", "layers.0.layer_output", phitap.Selection(positions=4)),
                   positions=[0, 2]),
        edits.scale("layers.1.mlp_neurons", 0.5, features=slice(3, 9))])], phitap.Capture("logits", runs=["edited"]), model="small")
    assert np.array_equal(logits.value, plain.run("edited")["logits"])
    assert not np.array_equal(logits.value, client.trace([OTHER], "logits", model="small")["logits"])


def test_reads_see_the_edits_before_them_only(model):
    with model.trace(IDS) as run:
        stream = run.layers[1].layer_output
        before = stream[2].save()
        stream[2] = 2 * stream[2] + 1
        after = run.layers[1].layer_output[2].save()
        untouched = run.layers[1].layer_output[3].save()
    with model.trace(IDS) as run:
        plain = run.layers[1].layer_output.save()
    assert np.array_equal(before.value, plain.value[2])
    np.testing.assert_allclose(after.value, 2 * plain.value[2] + 1, rtol=1e-6)
    assert np.array_equal(untouched.value, plain.value[3])


def test_recorded_arithmetic_is_numpys(model):
    vector, matrix = np.linspace(-1, 1, 64, dtype=np.float32), np.random.default_rng(0).standard_normal((64, 5)).astype(np.float32)
    programs = {
        "elementwise": lambda x, q: (2 * x - x * x + vector / (abs(x) + 1)),
        "sum": lambda x, q: x.sum(0) if isinstance(x, np.ndarray) else x.sum(axis=0),
        "mean of all": lambda x, q: x.mean(),
        "one position": lambda x, q: x[-1] * x[0] + x,
        "heads": lambda x, q: q[1, :, 3] + q[:, 2, 3:4],
        "dropped in the middle": lambda x, q: q[:, 1] * np.arange(4, dtype=np.float32)[:, None],
        "matrix": lambda x, q: x[1:4] @ matrix,
        "vector": lambda x, q: x @ vector,
        "two vectors": lambda x, q: x[1] @ x[2],
        "two columns": lambda x, q: x[:, 3] @ x[:, 5],
        "kept dimensions": lambda x, q: x / x.max(axis=-1, keepdims=True),
        "comparison": lambda x, q: (x > 0) * x,
        "list": lambda x, q: x[[3, 1], 10:20],
        "shape": lambda x, q: x[:2].reshape(4, 32).T,
    }
    with model.trace(IDS) as run:
        x, q = run.layers[1].layer_output.save(), run.layers[1].attention_queries.save()
        recorded = {name: program(x, q).save() for name, program in programs.items()}
    for name, program in programs.items():
        expected = program(x.value, q.value)
        assert recorded[name].value.shape == np.shape(expected), name
        np.testing.assert_allclose(recorded[name].value, expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_values_written_are_laid_out_as_numpy_would(model):
    """A part without its dropped dimensions takes a value without them."""
    with model.trace() as t:
        source, run = t.run(OTHER), t.run(IDS)
        run.layers[1].attention_queries[:, -1] = source.layers[1].attention_queries[:, 2] * 3
        run.layers[0].attention_premix[1, 2] = np.arange(16, dtype=np.float32)
        run.layers[0].attention_keys[:, 4] = np.arange(32, dtype=np.float32).reshape(2, 16)
        keys = run.layers[0].attention_keys.save()
        queries, premix = run.layers[1].attention_queries.save(), run.layers[0].attention_premix.save()
        read = source.layers[1].attention_queries[:, 2].save()
    np.testing.assert_allclose(queries.value[:, -1], read.value * 3, rtol=1e-6)
    assert np.array_equal(premix.value[1, 2], np.arange(16, dtype=np.float32))
    assert np.array_equal(keys.value[:, 4], np.arange(32).reshape(2, 16))


def test_topk_where_and_concatenate(model):
    with model.trace() as t:
        run = t.run(IDS)
        logits = run.logits[-1].save()
        best, ids = run.logits[-1].topk(4)
        best, ids = best.save(), ids.save()
        positive = t.where(run.logits[-1] > 0, run.logits[-1], 0.0).save()
        both = t.concatenate([run.logits[-1], run.logits[0]]).save()
    order = np.argsort(-logits.value, kind="stable")[:4]
    assert np.array_equal(ids.value, order) and np.array_equal(best.value, logits.value[order])
    assert np.array_equal(positive.value, np.maximum(logits.value, 0))
    assert both.value.shape == (2 * model.vocab_size,)


def test_a_condition_decides_whether_an_edit_is_made(model):
    found = {}
    for threshold in (-1e9, 1e9):
        with model.trace(IDS) as run:
            with run.when(run.layers[0].layer_output.mean() > threshold):
                run.layers[1].layer_output += 1.0
            found[threshold] = run.logits.save()
    with model.trace(IDS) as run:
        plain = run.logits.save()
    assert np.array_equal(found[1e9].value, plain.value)
    assert not np.array_equal(found[-1e9].value, plain.value)


def test_gradients_in_both_styles_are_the_same(client, model):
    with model.trace() as t:
        run = t.run(IDS, "run")
        with (run.logits[-1, 3] - run.logits[-1, 4]).backward():
            recorded = run.layers[0].mlp_output[2:4].grad.save()
            attribution = (run.layers[0].mlp_output * run.layers[0].mlp_output.grad).sum(-1).save()
    trace = client.trace(phitap.Prompt(IDS, "run"), gradients=[phitap.Gradient(
        metrics.logit_difference(3, 4), "run", "layers.0.mlp_output", label="slope")], model="small")
    slope = trace.gradients["slope"]
    np.testing.assert_allclose(recorded.value, slope[2:4], rtol=1e-5, atol=1e-7 * np.abs(slope).max())
    assert attribution.value.shape == (6,)


def test_a_sweep_is_as_many_runs(client, model):
    with model.trace() as t:
        t.run(OTHER, "clean")
        corrupt = t.run(IDS, "corrupt")
        grid = t.sweep(corrupt, [edits.set_("layers.*.layer_output", phitap.RunValue("clean"))], [metrics.layers(), metrics.positions()],
                       [metrics.logit(5, label="logit"), metrics.kl("clean")])
    assert grid["logit"].shape == grid["kl"].shape == (3, 6)
    for layer, position in [(0, 0), (1, 4), (2, 5)]:
        with model.trace() as t:
            clean, run = t.run(OTHER), t.run(IDS)
            run.layers[layer].layer_output[position] = clean.layers[layer].layer_output[position]
            logits, clean_logits = run.logits[-1].save(), clean.logits[-1].save()
        assert grid["logit"][layer, position] == logits.value[5]
        p, q = softmax(clean_logits.value), softmax(logits.value)
        assert grid["kl"][layer, position] == pytest.approx((p * np.log(p / q)).sum(), abs=1e-5)


def test_steer_adds_the_vector(model):
    vector = np.linspace(-1, 1, 64, dtype=np.float32)
    with model.trace() as t:
        plain, steered = t.run(IDS), t.run(IDS)
        steered.steer([0], vector, factor=3, token_positions=[1, -1])
        without, added = plain.layers[0].layer_output.save(), steered.layers[0].layer_output.save()
    expected = without.value.copy()
    expected[[1, -1]] += 3 * vector
    np.testing.assert_allclose(added.value, expected, rtol=1e-6)


def test_skipped_layers_pass_their_input_on(model):
    with model.trace() as t:
        run, replaced = t.run(IDS), t.run(IDS)
        run.skip_layers(1, 2)
        stream, out = run.layers[0].layer_output.save(), run.layers[2].layer_output.save()
        replaced.skip_layer(1, skip_with=run.layers[0].layer_output * 2)
        doubled = replaced.layers[1].layer_output.save()
    assert np.array_equal(stream.value, out.value)
    np.testing.assert_allclose(doubled.value, stream.value * 2, rtol=1e-6)


def test_the_logit_lens_is_the_projection_of_each_layer(model):
    lens = model.logit_lens([IDS, OTHER])
    assert lens.shape == (2, 3, model.vocab_size)
    np.testing.assert_allclose(lens.sum(-1), 1, rtol=1e-4)
    np.testing.assert_allclose(lens[:, -1], model.next_token_probs([IDS, OTHER]), rtol=1e-4, atol=1e-7)
    hidden = model.get_token_activations([IDS])[1, 0]
    np.testing.assert_allclose(softmax(model.project_on_vocab(hidden)), lens[0, 1], rtol=1e-3, atol=1e-6)


def test_token_activations_are_by_layer_and_prompt(client, model):
    found = model.get_token_activations([IDS, OTHER[:4]], layers=[2, 0], idx=-2)
    whole = client.trace([IDS, OTHER[:4]], "layers.*.layer_output", model="small")
    assert found.shape == (2, 2, 64)
    assert np.array_equal(found[0, 1], whole.runs[1]["layers.2.layer_output"][-2])
    assert np.array_equal(found[1, 0], whole.runs[0]["layers.0.layer_output"][-2])


def test_a_patchscope_writes_the_source_into_its_target(model):
    target = TargetPrompt(OTHER, -1)
    lens = model.patchscope_lens([IDS, IDS[:3]], target)
    assert lens.shape == (2, 3, model.vocab_size)
    np.testing.assert_allclose(lens[:, -1], model.logit_lens([IDS, IDS[:3]])[:, -1], rtol=1e-4, atol=1e-7)
    with model.trace() as t:
        source, patched = t.run(IDS), t.run(OTHER)
        patched.layers[0].layer_output[-1] = source.layers[0].layer_output[-1]
        probabilities = patched.next_token_probs.save()
    assert np.array_equal(lens[0, 0], probabilities.value)
    latents = model.get_token_activations([IDS, IDS[:3]])
    assert np.array_equal(model.patchscope_lens(latents=latents, target_patch_prompts=target), lens)
    generated = model.patchscope_generate([IDS], target, max_length=3, layers=[1])
    assert list(generated) == [1] and generated[1][0][:6] == OTHER and len(generated[1][0]) == 9


def test_the_repeat_prompt_is_nnterps():
    assert repeat_prompt() == TargetPrompt("king king\n1135 1135\nhello hello\n?", -1)


def test_the_closest_tokens_have_their_probabilities(client):
    demo = client.model("demo")
    hidden = demo.get_token_activations([CLEAN])[-1, 0]
    closest = demo.get_topk_closest_tokens(hidden, k=3)
    assert next(iter(closest)) == " Mary" and len(closest) == 3
    assert list(closest.values()) == sorted(closest.values(), reverse=True)
    assert demo.get_topk_closest_tokens(np.stack([hidden, hidden]), k=3) == [closest, closest]


def test_a_refusal_names_the_line_that_recorded_the_edit(client, model):
    with pytest.raises(phitap.RequestError, match="interventions") as refused:
        with model.trace(IDS) as run:
            run.logits.save()
            run.layers[1].layer_output[17] = 0.0  # there is no position 17
    assert refused.value.line.startswith(__file__)
    line = int(refused.value.line.rpartition(":")[2])
    assert "no position 17" in open(__file__).read().splitlines()[line - 1]
    with pytest.raises(phitap.RequestError, match="nodes") as refused:
        client.trace([IDS], phitap.Capture(label="x", node=values.read("0", "logits") + np.zeros(3)), model="small")
    assert refused.value.line.startswith(__file__)


def test_a_dictionary_edits_features_and_keeps_the_rest(client, model):
    rng = np.random.default_rng(1)
    encoder = rng.standard_normal((8, 64)).astype(np.float32)
    client.put_tensor("sae.encoder_weight", encoder)
    client.put_tensor("sae.decoder_weight", encoder / 8)
    dictionary = edits.Dictionary("sae", "relu")
    with model.trace() as t:
        plain, edited = t.run(IDS), t.run(IDS)
        edited.layers[1].layer_output.dictionary_(dictionary, [edits.feature(3, set=5.0)])
        before, after = plain.layers[1].layer_output.save(), edited.layers[1].layer_output.save()
        features = plain.layers[1].layer_output.encode(dictionary).save()
    expected = np.maximum(before.value @ encoder.T, 0)
    np.testing.assert_allclose(features.value, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after.value, before.value + (5 - expected[:, 3:4]) * encoder[3] / 8, rtol=1e-4, atol=1e-4)
