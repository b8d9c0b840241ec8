"""Streams that no honest server sends: each must raise, whatever else arrived."""

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
