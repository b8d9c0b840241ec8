"""Puts a stream of chunks together again, and trusts nothing that is not complete."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Optional, Union

import numpy as np
import xxhash

from phitap.errors import ChecksumError, IncompleteTraceError, RunError
from phitap.trace import Header, Run, Summary, TensorSpec, Token, Trace, Values
from phitap.v1 import tensor_pb2, trace_pb2

#: Called with bytes received, bytes in all and bytes a second so far.
Progress = Callable[[int, int, float], None]

_LARGE_BYTES = 4 << 20


@functools.cache
def _keep_freed_memory() -> None:
    """Lets the allocator keep up to 64 MiB of freed memory, unless the program set its limits: glibc begins with 128 KiB, and gives the rest
    of what messages took back to the kernel, only to have it cleared and mapped again for the next ones. It learns from one large block
    that is freed; this one is never touched."""
    np.empty((32 << 20) - (64 << 10), np.uint8)


class _Arriving:
    """A tensor of which some bytes are here. Its checksum is taken as they come, while they are in the cache."""

    def __init__(self, spec: TensorSpec):
        self.spec = spec
        self.bytes = np.empty(spec.size_bytes, np.uint8)
        self.received = 0
        self.hash = xxhash.xxh3_64()
        self.verified = False

    def add(self, chunk: tensor_pb2.TensorChunk) -> None:
        data = chunk.data  # a copy each time it is asked for
        end = self.received + len(data)
        if chunk.offset_bytes != self.received or end > self.spec.size_bytes or self.verified:
            raise IncompleteTraceError(f"{self._name()}: {len(data)} bytes at {chunk.offset_bytes} do not follow the "
                                       f"{self.received} of {self.spec.size_bytes} that are here")
        self.bytes[self.received:end] = np.frombuffer(data, np.uint8)
        self.hash.update(data)
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


@dataclasses.dataclass(frozen=True)
class Arrived:
    """A tensor that is here, whole."""

    spec: TensorSpec
    value: np.ndarray


class Assembly:
    """A trace on its way in. Feed it every response, then ask for the trace.

    gradients, sweeps: labels of the request's, to tell their tensors from others.
    """

    def __init__(self, progress: Optional[Progress] = None, gradients: Collection[str] = (), sweeps: Collection[str] = ()):
        self._progress = progress
        self._gradients = gradients
        self._sweeps = sweeps
        self._started = time.monotonic()
        self._received = 0
        self._header: Optional[trace_pb2.TraceHeader] = None
        self._summary: Optional[trace_pb2.TraceSummary] = None
        self._runs: dict[str, Run] = {}
        self._tensors: dict[int, _Arriving] = {}

    def read(self, responses: Iterable[trace_pb2.TraceResponse]) -> Trace:
        """Reads the stream to its end. Raises IncompleteTraceError, ChecksumError or RunError."""
        for _ in self.events(responses):
            pass
        return self.trace()

    def events(self, responses: Iterable[trace_pb2.TraceResponse]) -> Iterator[Union[Token, Arrived]]:
        """Generated tokens and tensors as they come in. Raises IncompleteTraceError or ChecksumError."""
        for response in responses:
            event = self._take(response)
            if event is not None:
                yield event

    def _take(self, response: trace_pb2.TraceResponse) -> Optional[Union[Token, Arrived]]:
        kind = response.WhichOneof("message")
        if self._summary is not None:
            raise IncompleteTraceError(f"{kind} came after the summary")
        if (self._header is None) != (kind == "header"):
            raise IncompleteTraceError(f"{kind} came {'before' if self._header is None else 'after'} the header")
        if kind == "header":
            self._header = response.header
            if self._header.size_bytes >= _LARGE_BYTES:
                _keep_freed_memory()
        elif kind == "run_tokens":
            tokens = response.run_tokens
            self._runs[tokens.run] = Run(tokens.run, list(tokens.ids), list(tokens.texts))
        elif kind == "tensor":
            self._announce(response.tensor)
        elif kind == "chunk":
            return self._take_chunk(response.chunk)
        elif kind == "token":
            return self._take_token(response.token)
        elif kind == "summary":
            self._summary = response.summary
        return None

    def _announce(self, descriptor: tensor_pb2.TensorDescriptor) -> None:
        if descriptor.tensor in self._tensors or (descriptor.run and descriptor.run not in self._runs):
            raise IncompleteTraceError(f"tensor {descriptor.tensor} was announced twice, or for no run")
        self._tensors[descriptor.tensor] = _Arriving(TensorSpec.of(descriptor))

    def _take_chunk(self, chunk: tensor_pb2.TensorChunk) -> Optional[Arrived]:
        if chunk.tensor not in self._tensors:
            raise IncompleteTraceError(f"a chunk of tensor {chunk.tensor} came before its descriptor")
        arriving = self._tensors[chunk.tensor]
        before = arriving.received
        arriving.add(chunk)
        self._received += arriving.received - before
        if self._progress is not None and self._header is not None:
            rate = self._received / max(time.monotonic() - self._started, 1e-9)
            self._progress(self._received, self._header.size_bytes, rate)
        return Arrived(arriving.spec, arriving.array()) if arriving.verified else None

    def _take_token(self, message: trace_pb2.GeneratedToken) -> Token:
        run = self._runs.get(message.run)
        if run is None or message.step != len(run.generated) + 1:
            raise IncompleteTraceError(f"token {message.step} of run {message.run!r} is not the next one")
        run.generated.append(Token(message.run, message.step, message.id, message.text, message.log_probability))
        return run.generated[-1]

    def trace(self) -> Trace:
        """The whole trace, once the stream has ended. Raises IncompleteTraceError, or RunError where every run failed."""
        if self._header is None or self._summary is None:
            raise IncompleteTraceError("the stream ended without its summary: the request failed, nothing of it can be used")
        unverified = [tensor for tensor, arriving in self._tensors.items() if not arriving.verified]
        if unverified or len(self._tensors) != self._summary.tensor_count:
            raise IncompleteTraceError(f"{len(self._tensors) - len(unverified)} of {self._summary.tensor_count} tensors arrived whole")
        failed_cells = self._end_runs(self._summary.runs)
        if self._runs and all(run.error is not None for run in self._runs.values()):
            raise next(run.error for run in self._runs.values() if run.error is not None)
        error = next((run.error for run in self._runs.values() if run.error is not None), None)
        shared, gradients, sweeps = Values("the trace", error), Values("the trace's gradients", error), {}
        for _, arriving in sorted(self._tensors.items()):
            spec, value = arriving.spec, arriving.array()
            if spec.label in self._gradients:
                gradients.add(spec, value)
            elif spec.run:
                self._runs[spec.run].add(spec, value)
            elif spec.label in self._sweeps:
                sweeps[spec.label, spec.part] = value
            else:
                shared.add(spec, value)
        return Trace(header_of(self._header), list(self._runs.values()), summary_of(self._summary), shared, gradients, sweeps, failed_cells)

    def _end_runs(self, statuses: Iterable[trace_pb2.RunStatus]) -> dict[str, RunError]:
        """Tells each run how it ended; returns how sweeps' cells failed."""
        failed_cells = {}
        for status in statuses:
            error = RunError(status.run, status.code, status.message, status.field) if status.code != 0 else None
            if status.run in self._runs:
                self._runs[status.run].error = error
                self._runs[status.run].finish_reason = trace_pb2.FinishReason.Name(status.finish_reason).rpartition("_")[2].lower()
            elif error is not None:
                failed_cells[status.run] = error
        return failed_cells


class Stream(Iterator[Union[Token, Arrived]]):
    """Tokens and tensors of a trace as they come in. Close it, or leave a `with` block, to cancel the call.

    trace: the whole trace, once it has come to its end.
    """

    def __init__(self, assembly: Assembly, call: Any, errors: Callable[[], contextlib.AbstractContextManager]):
        self._assembly = assembly
        self._call = call
        self._errors = errors
        self._events = assembly.events(call)
        self._trace: Optional[Trace] = None

    def __next__(self) -> Union[Token, Arrived]:
        with self._errors():
            try:
                return next(self._events)
            except StopIteration:
                self._trace = self._trace or self._assembly.trace()
                raise

    @property
    def trace(self) -> Trace:
        """Reads what is left, and gives the whole trace."""
        for _ in self:
            pass
        return self._trace

    def close(self) -> None:
        """Cancels the call, if it has not ended."""
        self._call.cancel()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.close()


class TokenStream(Iterator[Token]):
    """Generated tokens of all runs as they come in; `trace` in the end. Close it, or leave a `with` block, to cancel the call."""

    def __init__(self, stream: Stream):
        self._stream = stream
        self.close = stream.close

    def __next__(self) -> Token:
        for event in self._stream:
            if isinstance(event, Token):
                return event
        raise StopIteration

    @property
    def trace(self) -> Trace:
        """Reads what is left, and gives the whole trace."""
        return self._stream.trace

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.close()


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
