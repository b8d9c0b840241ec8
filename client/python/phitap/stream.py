"""Puts a stream of chunks together again, and trusts nothing that is not complete."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Optional

import numpy as np
import xxhash

from phitap.errors import ChecksumError, IncompleteTraceError, RunError
from phitap.trace import Header, Run, Summary, TensorSpec, Trace
from phitap.v1 import tensor_pb2, trace_pb2

#: Called with bytes received, bytes in all and bytes a second so far.
Progress = Callable[[int, int, float], None]


class _Arriving:
    """A tensor of which some bytes are here. Its checksum is taken as they come, while they are in the cache."""

    def __init__(self, spec: TensorSpec):
        self.spec = spec
        self.bytes = np.empty(spec.size_bytes, np.uint8)
        self.received = 0
        self.hash = xxhash.xxh3_64()
        self.verified = False

    def add(self, chunk: tensor_pb2.TensorChunk) -> None:
        end = self.received + len(chunk.data)
        if chunk.offset_bytes != self.received or end > self.spec.size_bytes or self.verified:
            raise IncompleteTraceError(f"{self._name()}: {len(chunk.data)} bytes at {chunk.offset_bytes} do not follow the "
                                       f"{self.received} of {self.spec.size_bytes} that are here")
        self.bytes[self.received:end] = np.frombuffer(chunk.data, np.uint8)
        self.hash.update(chunk.data)
        self.received = end
        if not chunk.HasField("xxh3"):
            return
        if end != self.spec.size_bytes:
            raise IncompleteTraceError(f"{self._name()}: the last chunk came after {end} of {self.spec.size_bytes} bytes")
        if self.hash.intdigest() != chunk.xxh3:
            raise ChecksumError(f"{self._name()}: the checksum is {self.hash.intdigest():016x}, the server sent {chunk.xxh3:016x}")
        self.verified = True

    def array(self) -> np.ndarray:
        return self.bytes.view(self.spec.dtype).reshape(self.spec.shape)

    def _name(self) -> str:
        return f"tensor {self.spec.label!r} of run {self.spec.run!r}"


class Assembly:
    """A trace on its way in. Feed it every response, then ask for the trace."""

    def __init__(self, progress: Optional[Progress] = None):
        self._progress = progress
        self._started = time.monotonic()
        self._received = 0
        self._header: Optional[trace_pb2.TraceHeader] = None
        self._summary: Optional[trace_pb2.TraceSummary] = None
        self._runs: dict[str, Run] = {}
        self._tensors: dict[int, _Arriving] = {}

    def read(self, responses: Iterable[trace_pb2.TraceResponse]) -> Trace:
        """Reads the stream to its end. Raises IncompleteTraceError, ChecksumError or RunError."""
        for response in responses:
            self._take(response)
        return self._trace()

    def _take(self, response: trace_pb2.TraceResponse) -> None:
        kind = response.WhichOneof("message")
        if self._summary is not None:
            raise IncompleteTraceError(f"{kind} came after the summary")
        if (self._header is None) != (kind == "header"):
            raise IncompleteTraceError(f"{kind} came {'before' if self._header is None else 'after'} the header")
        if kind == "header":
            self._header = response.header
        elif kind == "run_tokens":
            tokens = response.run_tokens
            self._runs[tokens.run] = Run(tokens.run, list(tokens.ids), list(tokens.texts))
        elif kind == "tensor":
            if response.tensor.tensor in self._tensors or response.tensor.run not in self._runs:
                raise IncompleteTraceError(f"tensor {response.tensor.tensor} was announced twice, or for no run")
            self._tensors[response.tensor.tensor] = _Arriving(TensorSpec.of(response.tensor))
        elif kind == "chunk":
            self._take_chunk(response.chunk)
        elif kind == "summary":
            self._summary = response.summary

    def _take_chunk(self, chunk: tensor_pb2.TensorChunk) -> None:
        if chunk.tensor not in self._tensors:
            raise IncompleteTraceError(f"a chunk of tensor {chunk.tensor} came before its descriptor")
        self._tensors[chunk.tensor].add(chunk)
        self._received += len(chunk.data)
        if self._progress is not None and self._header is not None:
            rate = self._received / max(time.monotonic() - self._started, 1e-9)
            self._progress(self._received, self._header.size_bytes, rate)

    def _trace(self) -> Trace:
        if self._header is None or self._summary is None:
            raise IncompleteTraceError("the stream ended without its summary: the request failed, nothing of it can be used")
        unverified = [tensor for tensor, arriving in self._tensors.items() if not arriving.verified]
        if unverified or len(self._tensors) != self._summary.tensor_count:
            raise IncompleteTraceError(f"{len(self._tensors) - len(unverified)} of {self._summary.tensor_count} tensors arrived whole")
        for arriving in self._tensors.values():
            self._runs[arriving.spec.run].add(arriving.spec, arriving.array())
        for status in self._summary.runs:
            if status.code != 0:
                self._runs[status.run].error = RunError(status.run, status.code, status.message, status.field)
        if self._runs and all(run.error is not None for run in self._runs.values()):
            raise next(run.error for run in self._runs.values() if run.error is not None)
        return Trace(header_of(self._header), list(self._runs.values()), summary_of(self._summary))


def header_of(message: trace_pb2.TraceHeader) -> Header:
    return Header(message.request_id, message.model, enum_name(trace_pb2.Numerics, message.numerics),
                  enum_name(trace_pb2.Attention, message.attention), message.batch_invariant, message.weights_digest,
                  message.numerics_fingerprint)


def summary_of(message: trace_pb2.TraceSummary) -> Summary:
    return Summary(message.queue_time.ToTimedelta(), message.compute_time.ToTimedelta(), message.token_layers_computed,
                   message.token_layers_saved, message.size_bytes)


def enum_name(enum, value: int) -> str:
    """"transformers" for NUMERICS_TRANSFORMERS."""
    return enum.Name(value).split("_", 1)[1].lower()
