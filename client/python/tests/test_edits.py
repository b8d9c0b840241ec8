"""From edits, values and metrics to the messages, without a server."""

import ml_dtypes
import numpy as np
import pytest
import torch
from google.protobuf import text_format

import phitap
from phitap import edits, metrics, values
from phitap.tensors import array_of, to_array, upload
from phitap.v1 import intervention_pb2, trace_pb2


def lowered(edit) -> intervention_pb2.Intervention:
    return phitap.trace_message(phitap.Prompt("a", interventions=[edit]), "logits").runs[0].interventions[0]


def expected(text: str) -> intervention_pb2.Intervention:
    return text_format.Parse(text, intervention_pb2.Intervention())


EDITS = [
    (edits.set_("p", 1.5), 'hook_points: "p" set { value { number: 1.5 } }'),
    (edits.zero("p", positions=[1, -1]), 'hook_points: "p" selection { positions { indices: [1, -1] } } set { value { number: 0 } }'),
    (edits.add("p", "vector", scale=2, token_ids=[7]),
     'hook_points: "p" selection { token_ids: 7 } add { value { tensor_name: "vector" } scale: 2 }'),
    (edits.add("p", "vector"), 'hook_points: "p" add { value { tensor_name: "vector" } }'),
    (edits.scale("p", 0.5, heads=2), 'hook_points: "p" selection { heads { indices: 2 } } scale { value { number: 0.5 } }'),
    (edits.project_out("p", "d", keep=0.25), 'hook_points: "p" project_out { direction { tensor_name: "d" } keep: 0.25 }'),
    (edits.clamp_projection("p", "d", high=0.0), 'hook_points: "p" clamp_projection { direction { tensor_name: "d" } high: 0 }'),
    (edits.swap("p", "s", "t", both=True), 'hook_points: "p" swap { from { tensor_name: "s" } to { tensor_name: "t" } both: true }'),
    (edits.clamp("p", low=-1), 'hook_points: "p" clamp { low: -1 }'),
    (edits.noise("p", 0.0, seed=9), 'hook_points: "p" noise { scale: 0 seed: 9 }'),
    (edits.knockout("p", queries=3, keys=slice(0, 2)),
     'hook_points: "p" selection { queries { indices: 3 } keys { ranges { start: 0 stop: 2 } } } knockout {}'),
    (edits.skip("p", steps=slice(1, None)), 'hook_points: "p" selection { steps { ranges { start: 1 } } } skip {}'),
    (edits.subspace("p", "r", phitap.RunValue("clean"), mask="m"),
     'hook_points: "p" subspace { basis { tensor_name: "r" } source { run { run: "clean" } } mask { tensor_name: "m" } }'),
    (edits.set_("p", phitap.RunValue("clean", "q", phitap.Selection(positions=2), "before")),
     'hook_points: "p" set { value { run { run: "clean" hook_point: "q" selection { positions { indices: 2 } } '
     'read_time: READ_TIME_BEFORE } } }'),
    (edits.set_("p", phitap.MeanOfRuns(["a", "b"], over_positions=True)),
     'hook_points: "p" set { value { mean_of_runs { runs: ["a", "b"] over_positions: true } } }'),
    (edits.dictionary("p", edits.Dictionary("sae", "top_k", k=3), [edits.feature(5, set=2), edits.feature(6, from_run="a")]),
     'hook_points: "p" dictionary { dictionary { name: "sae" activation: DICTIONARY_ACTIVATION_TOP_K k: 3 } '
     'edits { feature: 5 set: 2 } edits { feature: 6 from_run: "a" } }'),
    (edits.dictionary("p", edits.Dictionary("t"), drop_error=True, encode_hook="mlp_input"),
     'hook_points: "p" dictionary { dictionary { name: "t" } drop_error: true encode_hook: "mlp_input" }'),
]


@pytest.mark.parametrize(("edit", "text"), EDITS, ids=[edit.change for edit, _ in EDITS])
def test_an_edit_says_what_it_means(edit, text):
    assert lowered(edit) == expected(text)


def test_every_change_can_be_said():
    changes = {field.name for field in intervention_pb2.Intervention.DESCRIPTOR.oneofs_by_name["change"].fields}
    assert {edit.change for edit, _ in EDITS} == changes


@pytest.mark.parametrize("given", [{}, dict(set=1.0, add=2.0)])
def test_a_feature_is_edited_in_exactly_one_way(given):
    with pytest.raises(ValueError, match="exactly one"):
        edits.feature(3, **given)


def test_an_array_used_once_is_inline_and_used_again_is_sent_once():
    vector = np.arange(4, dtype=np.float32)
    once = phitap.trace_message(phitap.Prompt("a", interventions=[edits.add("p", vector)]))
    assert array_of(once.runs[0].interventions[0].add.value.tensor).tolist() == [0, 1, 2, 3]
    assert not once.constants
    again = phitap.trace_message(phitap.Prompt("a", interventions=[
        edits.add("p", vector), edits.add("q", torch.arange(4.0)), edits.add("r", values.of(vector) * 2), edits.add("s", vector[:2])]))
    first, second, third, other = again.runs[0].interventions
    assert first.add.value.constant == second.add.value.constant != ""
    assert {node.constant for node in again.program.nodes if node.constant} == {first.add.value.constant}
    assert list(again.constants) == [first.add.value.constant]
    assert other.add.value.WhichOneof("source") == "tensor"


def test_arrays_past_the_inline_limit_are_to_be_uploaded():
    with pytest.raises(ValueError, match="put_tensor"):
        phitap.trace_message(phitap.Prompt("a", interventions=[edits.add("p", np.zeros((17, 1 << 20), np.float32))]))


@pytest.mark.parametrize(("array", "dtype"), [
    ([1.5, 2], "float32"), ([1, 2], "int64"), (np.float64(3), "float32"), (torch.zeros(2, dtype=torch.bfloat16), "bfloat16"),
    (np.zeros(2, ">f4"), "float32"), (torch.ones(3, 2).T, "float32"), (np.array(True), "bool"), (np.zeros(3, ml_dtypes.bfloat16), "bfloat16"),
])
def test_arrays_travel_in_a_type_that_holds_them(array, dtype):
    sent = to_array(array)
    assert sent.dtype == np.dtype(dtype) and sent.flags.c_contiguous and sent.dtype.byteorder in "<=|"
    reference = array.float() if isinstance(array, torch.Tensor) else np.asarray(array)
    assert sent.shape == tuple(reference.shape)
    assert np.array_equal(sent.astype(np.float32), np.asarray(reference, np.float32))


def test_a_type_that_does_not_travel_is_named():
    with pytest.raises(TypeError, match="complex"):
        to_array(np.zeros(2, complex))


def test_an_upload_is_a_header_and_pieces_with_a_checksum_on_the_last():
    import xxhash

    array = np.arange(700_000, dtype=np.float32)
    header, *chunks = [getattr(message, message.WhichOneof("message")) for message in upload("name", array)]
    assert (header.name, list(header.shape)) == ("name", [700_000])
    assert [chunk.HasField("xxh3") for chunk in chunks] == [False, False, True]
    assert b"".join(chunk.data for chunk in chunks) == array.tobytes()
    assert [chunk.offset_bytes for chunk in chunks] == [0, 1 << 20, 2 << 20]
    assert chunks[-1].xxh3 == xxhash.xxh3_64_intdigest(array.tobytes())
    assert len(list(upload("empty", np.zeros((0, 3), np.float32)))) == 2


def test_a_program_has_each_value_once_after_what_it_needs():
    x = values.read("0", "logits", positions=-1)
    y = (x * 2).softmax()
    message = phitap.trace_message("a", [phitap.Capture(node=y.sum([-1]), label="one"), phitap.Capture(node=y - x, label="two")])
    names = [node.name for node in message.program.nodes]
    assert len(names) == len(set(names)) == 6
    for i, node in enumerate(message.program.nodes):
        assert all(names.index(needed) < i for needed in node.inputs)
    assert [capture.node for capture in message.captures] == [names[-2], names[-1]]


def test_a_long_program_needs_no_deep_stack():
    x = values.read("0", "logits")
    for _ in range(3000):
        x = x + 1
    assert len(phitap.trace_message("a", phitap.Capture(node=x, label="x")).program.nodes) == 6001


def test_a_value_only_moved_is_a_run_value_and_a_computed_one_a_node():
    read = values.read("clean", "layers.0.layer_output", positions=-1)
    moved, computed = (lowered(edits.set_("p", value)).set.value for value in (read, read + 1))
    assert (moved.run.run, computed.WhichOneof("source")) == ("clean", "node")


def test_gradients_metrics_and_sweeps_say_what_they_mean():
    message = phitap.trace_message(
        [phitap.Prompt("a", label="clean"), phitap.Prompt("b", label="corrupt")],
        gradients=[phitap.Gradient(metrics.kl("clean", position=-2), "corrupt", "layers.*.mlp_output", phitap.Selection(positions=0))],
        sweeps=[phitap.Sweep("corrupt", [edits.set_("layers.*.layer_output", phitap.RunValue("clean"))],
                             [metrics.layers(), metrics.positions([1, 2]), metrics.heads(), metrics.scales([1, 2])],
                             [metrics.logit_difference(3, 4, label="d"), metrics.probability(5, log=True)])])
    assert message == text_format.Parse('''
        runs { label: "clean" prompt { text: "a" } } runs { label: "corrupt" prompt { text: "b" } } options {}
        gradients { of { label: "kl" position: -2 kl { from_run: "clean" } } run: "corrupt" hook_points: "layers.*.mlp_output"
                    selection { positions { indices: 0 } } }
        sweeps { run: "corrupt" interventions { hook_points: "layers.*.layer_output" set { value { run { run: "clean" } } } }
                 axes { layers {} } axes { positions { positions { indices: [1, 2] } } } axes { heads {} } axes { scales { scales: [1, 2] } }
                 metrics { label: "d" logit_difference { token_id: 3 baseline_token_id: 4 } }
                 metrics { label: "probability" probability { token_id: 5 log: true } } }''', trace_pb2.TraceRequest())


def test_a_generation_says_only_what_it_was_given():
    prompt = phitap.Prompt("a", generation=phitap.Generation(5, temperature=0.5, forced_ids=[3]))
    message = phitap.trace_message(prompt).runs[0].generation
    assert message == trace_pb2.Generation(max_tokens=5, temperature=0.5, forced_ids=[3])


def test_python_cannot_branch_on_a_value():
    with pytest.raises(TypeError, match="where"):
        bool(values.read("0", "logits") > 0)
