"""What outlasts one forward: generation step by step, and tensors that the server keeps."""

import numpy as np
import pytest
import torch

import phitap
from phitap import values

CORRUPT = "When Mary and John went to the store, Mary gave a drink to"
IDS = [3, 1, 4, 1, 5, 9]


@pytest.fixture()
def model(client):
    return client.model("small")


def test_tokens_come_as_they_are_generated(client):
    with client.generate(CORRUPT, 5, ["layers.3.layer_output"], model="demo") as tokens:
        seen = list(tokens)
        trace = tokens.trace
    assert [token.step for token in seen] == list(range(1, len(seen) + 1))
    assert seen == trace.runs[0].generated and trace.tokens() == [token.id for token in seen]
    assert trace.text() == client.detokenize(trace.tokens(), model="demo")
    steps = trace.runs[0].steps("layers.3.layer_output")
    assert steps[0].shape[0] == 14 and all(value.shape[0] == 1 for step, value in steps.items() if step)


def test_a_stream_that_is_left_is_cancelled_and_the_server_goes_on(client):
    with client.generate([[1, 2, 3]], generation=phitap.Generation(200, ignore_stop_ids=True), model="small") as tokens:
        assert next(tokens).step == 1
    with pytest.raises(phitap.RequestError, match="CANCELLED"):
        list(tokens)
    assert client.trace([IDS], "logits", model="small")["logits"].shape == (6, 97)


def test_a_recorded_generation_is_steered_at_its_steps(model):
    with model.trace() as t:
        plain = t.generate(IDS, 4, ignore_stop_ids=True, forced_ids=[5, 6, 7, 8])
        steered = t.generate(IDS, 4, ignore_stop_ids=True, forced_ids=[5, 6, 7, 8])
        steered.at_steps([2, 3]).layers[0].layer_output += 2.0
        without, added = plain.layers[0].layer_output.save(), steered.layers[0].layer_output.save()
        third = steered.at_steps(3).logits.save()
    assert [token.id for token in steered.generated] == [5, 6, 7, 8]
    assert list(added.value) == [0, 1, 2, 3] and list(third.value) == [3]
    assert [np.array_equal(added.value[step], without.value[step]) for step in range(4)] == [True, True, False, False]
    np.testing.assert_allclose(added.value[2], without.value[2] + 2, rtol=1e-5)


def test_tensors_are_kept_listed_used_and_deleted(client, model):
    vector = np.linspace(-1, 1, 64, dtype=np.float32)
    stored = client.put_tensor("steering/v", torch.from_numpy(vector))
    assert (stored.name, list(stored.shape)) == ("steering/v", [64])
    with model.trace() as t:
        named, inline = t.run(IDS), t.run(IDS)
        named.layers[1].layer_output += t.tensor("steering/v")
        inline.layers[1].layer_output += vector
        logits = [run.logits.save() for run in (named, inline)]
        named.layers[0].layer_output[-1].keep("steering/kept")
    assert np.array_equal(logits[0].value, logits[1].value)
    assert {tensor.name for tensor in client.list_tensors("steering/")} == {"steering/v", "steering/kept"}
    kept = client.trace([IDS], [phitap.Capture(label="kept", node=values.kept("steering/kept")),
                                phitap.Capture("layers.0.layer_output", "read", positions=-1)], model="small")
    assert np.array_equal(np.ravel(kept["kept"]), kept["read"][0])
    for name in ("steering/v", "steering/kept"):
        client.delete_tensor(name)
    assert client.list_tensors("steering/") == []
    with pytest.raises(phitap.RequestError, match="NOT_FOUND"):
        client.delete_tensor("steering/v")


def test_a_large_tensor_is_uploaded_in_pieces_and_comes_back_whole(client):
    large = np.random.default_rng(0).standard_normal((1000, 700)).astype(np.float32)
    client.put_tensor("large", large)
    trace = client.trace([IDS], phitap.Capture(label="large", node=values.kept("large")), model="small")
    assert np.array_equal(trace["large"], large)
    client.delete_tensor("large")
