"""What the recording style records, as messages: the model is the real server's, the request is caught before it is sent."""

import numpy as np
import pytest
from google.protobuf import text_format

import phitap
from phitap import edits, metrics
from phitap.v1 import intervention_pb2, program_pb2, trace_pb2


class Caught(Exception):
    """Raised instead of sending."""


@pytest.fixture()
def model(client, monkeypatch):
    model = client.model("demo")

    def send(request, **_):
        model.sent = request
        raise Caught

    monkeypatch.setattr(client, "send", send)
    return model


def recorded(model, program) -> trace_pb2.TraceRequest:
    """The request of a trace that `program` records."""
    with pytest.raises(Caught):
        with model.trace() as trace:
            program(trace)
    return model.sent


def interventions(model, program) -> list[intervention_pb2.Intervention]:
    """The interventions that `program` records in the second of two runs; it is given both."""
    def both(trace):
        clean, corrupt = trace.run([1, 2, 3, 4], "clean"), trace.run([1, 5, 3, 4], "corrupt")
        program(clean, corrupt)
        corrupt.logits.save()
    return list(recorded(model, both).runs[1].interventions)


def expected(text: str) -> intervention_pb2.Intervention:
    return text_format.Parse(text, intervention_pb2.Intervention())


def test_patching_is_one_set_of_another_runs_value(model):
    def program(clean, corrupt):
        corrupt.layers[2].layer_output[-1] = clean.layers[2].layer_output[-1]

    assert interventions(model, program) == [expected('''
        hook_points: "layers.2.layer_output" selection { positions { indices: -1 } }
        set { value { run { run: "clean" hook_point: "layers.2.layer_output" selection { positions { indices: -1 } } } } }''')]


@pytest.mark.parametrize(("edit", "text"), [
    (lambda r: r.layers[1].mlp.output.__iadd__(2.0), 'hook_points: "layers.1.mlp.mlp_output" add { value { number: 2 } }'),
    (lambda r: r.layers[1].self_attn.attention_queries[3, 0].zero_(),
     'hook_points: "layers.1.self_attn.attention_queries" selection { positions { indices: 0 } heads { indices: 3 } } '
     'set { value { number: 0 } }'),
    (lambda r: r.layers[-1].attention_premix[..., 1, :].scale_(0.5),
     'hook_points: "layers.5.self_attn.attention_premix" selection { heads { indices: 1 } } scale { value { number: 0.5 } }'),
    (lambda r: r.attention_probabilities[0][2, 3, :2].zero_(),
     'hook_points: "layers.0.self_attn.attention_probabilities" selection { heads { indices: 2 } queries { indices: 3 } '
     'keys { ranges { stop: 2 } } } set { value { number: 0 } }'),
    (lambda r: r.layers[0].mlp_neurons[:, [3, 5]].clamp_(high=1),
     'hook_points: "layers.0.mlp.mlp_neurons" selection { features { indices: [3, 5] } } clamp { high: 1 }'),
    (lambda r: r.token_embeddings[1:3].noise_(0.5, seed=4),
     'hook_points: "token_embeddings" selection { positions { ranges { start: 1 stop: 3 } } } noise { scale: 0.5 seed: 4 }'),
    (lambda r: r.layers[3].skip(), 'hook_points: "layers.3.layer_output" skip {}'),
    (lambda r: r.layers[3].mlp.skip(), 'hook_points: "layers.3.mlp.mlp_output" skip {}'),
    (lambda r: r.layers[3].self_attn.skip(0.0), 'hook_points: "layers.3.self_attn.attention_output" set { value { number: 0 } }'),
    (lambda r: r.layers[3].attention_scores[:, -1, 0].knockout_(),
     'hook_points: "layers.3.self_attn.attention_scores" selection { queries { indices: -1 } keys { indices: 0 } } knockout {}'),
    (lambda r: r.at_steps(slice(1, None)).layers[2].layer_output.add_(1.0),
     'hook_points: "layers.2.layer_output" selection { steps { ranges { start: 1 } } } add { value { number: 1 } }'),
])
def test_each_way_of_editing_is_recorded(model, edit, text):
    assert interventions(model, lambda _, corrupt: edit(corrupt)) == [expected(text)]


def test_an_assignment_in_place_is_recorded_once(model):
    def program(_, corrupt):
        corrupt.layers[2].layer_output[-1] += 1.0
        corrupt.layers[2].layer_output *= 2.0
        corrupt.layers_output[3] -= 3.0
        corrupt.layers[4].mlp.mlp_output[0] /= 4.0

    found = interventions(model, program)
    assert [edit.WhichOneof("change") for edit in found] == ["add", "scale", "add", "set"]
    assert [edit.add.scale for edit in found if edit.WhichOneof("change") == "add"] == [0, -1]


def read_times(request: trace_pb2.TraceRequest) -> list[int]:
    return [capture.read_time for capture in request.captures]


def test_reading_sees_the_edits_before_it_and_not_those_after(model):
    def program(trace):
        run = trace.run([1, 2, 3, 4])
        run.layers[1].layer_output.save()
        run.layers[2].layer_output[0].save()
        run.layers[2].layer_output[0] = 0.0
        run.layers[2].layer_output.save()
        run.layers[2].layer_output[1].save()
        run.layers[2].layer_output[2] = 1.0
        run.layers[2].layer_output[2].save()

    after, before, unset = intervention_pb2.READ_TIME_AFTER, intervention_pb2.READ_TIME_BEFORE, intervention_pb2.READ_TIME_UNSPECIFIED
    with pytest.raises(phitap.RecordingError, match="between two edits"):
        recorded(model, program)

    def without_the_whole(trace):
        run = trace.run([1, 2, 3, 4])
        run.layers[1].layer_output.save()
        run.layers[2].layer_output[0].save()
        run.layers[2].layer_output[0] = 0.0
        run.layers[2].layer_output[1].save()
        run.layers[2].layer_output[2] = 1.0
        run.layers[2].layer_output[2].save()

    assert read_times(recorded(model, without_the_whole)) == [unset, before, after, after]


def test_positions_from_the_start_and_from_the_end_may_be_the_same(model):
    def program(trace):
        run = trace.run([1, 2, 3, 4])
        run.layers[2].layer_output[3] = 0.0
        run.layers[2].layer_output[-1].save()
        run.layers[2].layer_output[-1] = 1.0

    with pytest.raises(phitap.RecordingError, match="between two edits"):
        recorded(model, program)


def test_a_place_that_was_written_through_shows_what_was_written(model):
    def program(trace):
        run = trace.run([1, 2])
        stream = run.layers[2].layer_output
        first = stream[0]
        stream[0] = 0.0
        first.save()
        stream[0].save()

    assert read_times(recorded(model, program)) == [intervention_pb2.READ_TIME_BEFORE, intervention_pb2.READ_TIME_AFTER]


def test_arithmetic_is_a_program(model):
    def program(trace):
        run = trace.run([1, 2, 3])
        difference = run.logits[-1, 3] - run.logits[-1, 4]
        (2 * difference.sigmoid()).save()

    message = recorded(model, program)
    assert [node.function for node in message.program.nodes if node.WhichOneof("operation") == "function"] == [
        program_pb2.FUNCTION_SUBTRACT, program_pb2.FUNCTION_SIGMOID, program_pb2.FUNCTION_MULTIPLY]
    assert message.captures[0].node == message.program.nodes[-1].name


def test_gradients_are_of_the_metric_around_them(model):
    def program(trace):
        run = trace.run([1, 2, 3])
        with run.logits[-1, 7].backward():
            run.layers[2].layer_output[0].grad.save()
        with pytest.raises(phitap.RecordingError, match="gradient of what"):
            run.layers[2].layer_output.grad

    gradient = recorded(model, program).program.nodes[-1].gradient
    assert (gradient.with_respect_to.hook_point, gradient.of) == ("layers.2.layer_output", gradient.of)


def test_edits_in_a_when_block_have_its_condition(model):
    def program(clean, corrupt):
        with corrupt.when(clean.logits[-1, 3] > 0):
            corrupt.layers[2].layer_output += 1.0
            with corrupt.when(clean.logits[-1, 4] > 0):
                corrupt.layers[3].layer_output += 1.0
        corrupt.layers[4].layer_output += 1.0

    first, second, third = interventions(model, program)
    assert first.when and second.when and not third.when
    assert first.when != second.when


def test_nnterps_names_mean_what_they_mean_there(model):
    def program(_, corrupt):
        corrupt.steer([3, 1], np.ones(192), factor=2.5, token_positions=-1)
        corrupt.skip_layers(1, 3)
        corrupt.skip_layer(-1, skip_with=0.0)

    found = interventions(model, program)
    assert [edit.hook_points for edit in found] == [f"layers.{i}.layer_output" for i in (1, 3, 1, 2, 3, 5)]
    assert [edit.WhichOneof("change") for edit in found] == ["add", "add", "skip", "skip", "skip", "set"]
    assert found[0].add.scale == 2.5 and list(found[0].selection.positions.indices) == [-1]


def test_a_sweep_repeats_a_recorded_run(model):
    def program(trace):
        corrupt = trace.run([1, 2, 3], "corrupt")
        trace.sweep(corrupt, [edits.zero("layers.*.mlp_output")], [metrics.layers()], [metrics.logit(3)])

    assert recorded(model, program).sweeps[0].run == "corrupt"


@pytest.mark.parametrize(("wrong", "hint"), [
    (lambda x: bool(x > 0), "when"), (float, "save"), (list, "index"), (len, "length"), (np.asarray, "array"), (lambda x: 1 in x, "=="),
    (lambda x: x[None], "reshape"), (lambda x: x[::-1], "forwards"), (lambda x: x[-1].softmax(0).softmax(1), "last dimension"),
    (lambda x: x + "a", "recorded, a number or an array"), (lambda x: x.value, "not saved"), (lambda x: (x + 1).grad, "gradient"),
    (lambda x: x.save().value, "has been left"),
])
def test_what_cannot_be_recorded_says_what_to_do(model, wrong, hint):
    with pytest.raises(phitap.RecordingError, match=hint):
        with model.trace() as trace:
            wrong(trace.run([1, 2, 3]).layers[2].layer_output)


def test_names_that_do_not_exist_are_refused_with_those_that_do(model):
    with pytest.raises(Caught), model.trace([1, 2]) as run:
        for wrong in (lambda: run.layers[0].layer_outptu, lambda: setattr(run.layers[0], "layer_outptu", 1), lambda: run.layer_output,
                      lambda: run.layers[0].logits):
            with pytest.raises(AttributeError, match="there are: "):
                wrong()
        with pytest.raises(IndexError, match="6 layers"):
            run.layers[6]
        run.logits.save()
        raise Caught


def test_values_of_another_trace_are_refused(model):
    with pytest.raises(phitap.RecordingError, match="another trace"):
        with model.trace([1, 2]) as first:
            with model.trace([1, 2]) as second:
                second.layers[0].layer_output += first.layers[0].layer_output


def test_a_trace_that_saves_nothing_is_refused(model):
    with pytest.raises(phitap.RecordingError, match="nothing was saved"):
        with model.trace([1, 2]) as run:
            run.layers[0].layer_output += 1.0


def test_nothing_is_sent_when_the_block_raises(model):
    with pytest.raises(ZeroDivisionError):
        with model.trace([1, 2]) as run:
            run.logits.save()
            1 / 0
    assert not hasattr(model, "sent")
