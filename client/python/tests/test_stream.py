"""Streams that no honest server sends: each must raise, whatever else arrived."""

import subprocess
import sys

import numpy as np
import pytest
import xxhash

import phitap
from phitap.stream import Assembly
from phitap.v1 import tensor_pb2, trace_pb2

BYTES = np.arange(6, dtype="<f4").tobytes()


def good_stream() -> list[trace_pb2.TraceResponse]:
    response = trace_pb2.TraceResponse
    return [
        response(header=trace_pb2.TraceHeader(model="m", numerics=trace_pb2.NUMERICS_CAUSAL, attention=trace_pb2.ATTENTION_SDPA,
                                              tensor_count=1, size_bytes=24)),
        response(run_tokens=trace_pb2.RunTokens(run="0", ids=[1, 2])),
        response(tensor=tensor_pb2.TensorDescriptor(tensor=0, label="logits", run="0", hook_point="logits",
                                                    dtype=tensor_pb2.DATA_TYPE_F32, shape=[2, 3], size_bytes=24)),
        response(chunk=tensor_pb2.TensorChunk(tensor=0, offset_bytes=0, data=BYTES[:10])),
        response(chunk=tensor_pb2.TensorChunk(tensor=0, offset_bytes=10, data=BYTES[10:], xxh3=xxhash.xxh3_64_intdigest(BYTES))),
        response(summary=trace_pb2.TraceSummary(runs=[trace_pb2.RunStatus(run="0")], tensor_count=1, size_bytes=24)),
    ]


def test_a_whole_stream_gives_its_values():
    trace = Assembly().read(good_stream())
    assert np.array_equal(trace["logits"], np.arange(6, dtype="<f4").reshape(2, 3))


@pytest.mark.parametrize("missing", range(6))
def test_raises_when_any_message_is_missing(missing):
    stream = good_stream()
    del stream[missing]
    with pytest.raises(phitap.IncompleteTraceError):
        Assembly().read(stream)


@pytest.mark.parametrize("repeated", [0, 2, 3, 4, 5])
def test_raises_when_a_message_comes_twice(repeated):
    stream = good_stream()
    stream.insert(repeated, stream[repeated])
    with pytest.raises(phitap.IncompleteTraceError):
        Assembly().read(stream)


def test_raises_on_other_bytes_than_were_sent():
    stream = good_stream()
    stream[3].chunk.data = b"\x01" + BYTES[1:10]
    with pytest.raises(phitap.ChecksumError, match="logits"):
        Assembly().read(stream)


def test_raises_when_chunks_come_out_of_order():
    stream = good_stream()
    stream[3], stream[4] = stream[4], stream[3]
    with pytest.raises(phitap.IncompleteTraceError):
        Assembly().read(stream)


def test_raises_the_reason_when_every_run_failed():
    stream = good_stream()
    stream[-1].summary.runs[0].code = 8
    stream[-1].summary.runs[0].message = "no memory left"
    with pytest.raises(phitap.RunError, match="no memory left"):
        Assembly().read(stream)


def test_a_failed_run_raises_and_leaves_the_others():
    stream = good_stream()
    stream.insert(2, trace_pb2.TraceResponse(run_tokens=trace_pb2.RunTokens(run="1", ids=[3])))
    stream[-1].summary.runs.add(run="1", code=13, message="broken")
    trace = Assembly().read(stream)
    assert trace.runs[0]["logits"].shape == (2, 3)
    with pytest.raises(phitap.RunError, match="broken"):
        trace.runs[1]["logits"]


def numbers_of(tensor: int, values: list[float], **descriptor) -> list[trace_pb2.TraceResponse]:
    """A descriptor and the only chunk of a float32 tensor."""
    stored = np.array(values, "<f4").tobytes()
    return [
        trace_pb2.TraceResponse(tensor=tensor_pb2.TensorDescriptor(tensor=tensor, dtype=tensor_pb2.DATA_TYPE_F32, shape=[len(values)],
                                                                   size_bytes=len(stored), **descriptor)),
        trace_pb2.TraceResponse(chunk=tensor_pb2.TensorChunk(tensor=tensor, data=stored, xxh3=xxhash.xxh3_64_intdigest(stored))),
    ]


def longer_stream() -> list[trace_pb2.TraceResponse]:
    """A run of two steps, a node, a gradient and a sweep."""
    *stream, summary = good_stream()
    for step, (token, text) in enumerate([(7, "ab"), (9, " c")], 1):
        stream.append(trace_pb2.TraceResponse(token=trace_pb2.GeneratedToken(run="0", step=step, id=token, text=text)))
    stream += numbers_of(1, [1, 2], label="out", run="0", hook_point="layers.0.layer_output", step=1)
    stream += numbers_of(2, [3, 4], label="out", run="0", hook_point="layers.0.layer_output", step=0)
    stream += numbers_of(3, [5], label="node")
    stream += numbers_of(4, [6, 7], label="slope", run="0", hook_point="layers.1.mlp_output")
    stream += numbers_of(5, [8, 9], label="grid", part="kl")
    summary.summary.tensor_count = 6
    summary.summary.runs[0].finish_reason = trace_pb2.FINISH_REASON_STOP
    return [*stream, summary]


def test_steps_nodes_gradients_and_sweeps_are_found_by_their_names():
    trace = Assembly(gradients={"slope"}, sweeps={"grid"}).read(longer_stream())
    assert {step: value.tolist() for step, value in trace["out"].items()} == {0: [3, 4], 1: [1, 2]}
    assert list(trace.runs[0].steps("out")) == [0, 1]
    assert list(trace.runs[0].steps("logits")) == [0]
    assert trace["node"].tolist() == [5]
    assert trace.gradients["slope"].tolist() == [6, 7]
    assert "slope" not in trace.runs[0]
    assert trace.sweep("grid", "kl").tolist() == [8, 9]
    assert (trace.tokens(), trace.text(), trace.runs[0].finish_reason) == ([7, 9], "ab c", "stop")
    with pytest.raises(KeyError, match="grid"):
        trace.sweep("grid", "logit")


def test_events_come_as_soon_as_they_are_whole():
    events = list(Assembly(gradients={"slope"}, sweeps={"grid"}).events(longer_stream()))
    assert [getattr(event, "step", None) or event.spec.label for event in events] == ["logits", 1, 2, "out", "out", "node", "slope", "grid"]


@pytest.mark.parametrize("wrong", [dict(step=2), dict(step=4), dict(run="nobody", step=1)])
def test_raises_on_a_token_that_is_not_the_next_one(wrong):
    stream = longer_stream()
    stream.insert(-1, trace_pb2.TraceResponse(token=trace_pb2.GeneratedToken(**{"run": "0", **wrong})))
    with pytest.raises(phitap.IncompleteTraceError, match="not the next"):
        Assembly().read(stream)


def test_a_failed_cell_fails_its_sweep_only():
    stream = longer_stream()
    stream[-1].summary.runs.add(run="grid[0, 1]", code=13, message="broken")
    trace = Assembly(sweeps={"grid"}).read(stream)
    with pytest.raises(phitap.RunError, match="broken"):
        trace.sweep("grid", "kl")
    assert trace["node"].tolist() == [5]


def test_a_value_that_a_failed_run_took_with_it_raises_the_reason():
    stream = [message for message in longer_stream() if message.tensor.tensor not in (3, 4) and message.chunk.tensor not in (3, 4)]
    stream.insert(2, trace_pb2.TraceResponse(run_tokens=trace_pb2.RunTokens(run="1", ids=[3])))
    stream[-1].summary.runs.add(run="1", code=13, message="broken")
    stream[-1].summary.tensor_count = 4
    trace = Assembly(gradients={"slope"}, sweeps={"grid"}).read(stream)
    for find in (lambda: trace["node"], lambda: trace.gradients["slope"]):
        with pytest.raises(phitap.RunError, match="broken"):
            find()
    assert trace.run("0")["logits"].shape == (2, 3)


def test_memory_of_a_large_answers_messages_is_there_for_the_next_ones():
    """In a process of its own, whose allocator has learnt nothing yet. 16 MiB in pieces are 4,096 pages."""
    code = """
import resource
from phitap.errors import IncompleteTraceError
from phitap.stream import Assembly
from phitap.v1 import trace_pb2

def fill_and_free():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [b"x" * (64 << 10) for _ in range(256)]
    del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

try:
    Assembly().read([trace_pb2.TraceResponse(header=trace_pb2.TraceHeader(size_bytes=1 << 30))])
except IncompleteTraceError:
    fill_and_free()
    print(fill_and_free())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 256
