"""What the clients of the load test ask for."""

# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import random

import grpc
import xxhash
from google.protobuf import json_format
from phitap.stream import Arrived, Assembly, Token
from phitap.v1 import activation_service_pb2_grpc, trace_pb2

import trace_requests
from bench import Model, prompt

SMALL_TOKENS = (4, 24)
SWEEP_TOKENS = 32
GENERATED_TOKENS = 12
SMALL, SWEEP, GENERATION = "small", "sweep", "generation"
COUNTS = {SMALL: 48, SWEEP: 4, GENERATION: 8}
#: Of one connection; by default all of a process share one.
CHANNEL_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
]
Stub = activation_service_pb2_grpc.ActivationServiceStub


@dataclasses.dataclass
class Asked:
    """A request in a file, and the digest of its answer when it was alone."""

    kind: str
    path: str
    digest: str = ""

    def message(self) -> trace_pb2.TraceRequest:
        request = trace_pb2.TraceRequest()
        request.ParseFromString(pathlib.Path(self.path).read_bytes())
        return request


def write_requests(model: Model, folder: pathlib.Path) -> list[Asked]:
    asked = []
    for kind, count in COUNTS.items():
        for number in range(count):
            path = folder / f"{kind}-{number}.pb"
            request = request_of(kind, number, model)
            path.write_bytes(request.SerializeToString())
            asked.append(Asked(kind, str(path)))
    return asked


def request_of(kind: str, number: int, model: Model) -> trace_pb2.TraceRequest:
    if kind == SMALL:
        return small_request(number, model)
    if kind == SWEEP:
        clean = prompt(SWEEP_TOKENS, number, "clean")
        common = clean[: SWEEP_TOKENS // 2 * (number % 2)]
        corrupt = prompt(SWEEP_TOKENS, number, "corrupt")[len(common) :]
        return trace_requests.sweep(
            clean, common + corrupt, token=1234, positions=True
        )
    return trace_requests.generate(
        ids=prompt(16, number, "generation"),
        layer=number % model.layers,
        count=GENERATED_TOKENS,
        model=model,
    )


def small_request(number: int, model: Model) -> trace_pb2.TraceRequest:
    draw = random.Random(number)
    ids = prompt(draw.randint(*SMALL_TOKENS), number, "small")
    layer = draw.randrange(model.layers)
    if number % 3 == 0:
        return trace_requests.edited(ids, layer, number, model)
    if number % 3 == 1:
        return trace_requests.capture([ids], layer)
    return trace_requests.one_layer(ids, layer)


@dataclasses.dataclass(frozen=True)
class Answer:
    digest: str
    queue_seconds: float
    compute_seconds: float


def send(stub: Stub, request: trace_pb2.TraceRequest) -> Answer:
    """Raises grpc.RpcError, and what Assembly raises where the answer is not
    whole."""
    return read(stub.Trace(request))


def read(call) -> Answer:
    assembly = Assembly()
    parts = [digest_of(event) for event in assembly.events(call)]
    trace = assembly.trace()
    for error in [run.error for run in trace.runs] + list(
        trace.failed_cells.values()
    ):
        if error is not None:
            raise error
    return Answer(
        xxhash.xxh3_64("\n".join(sorted(parts)).encode()).hexdigest(),
        trace.summary.queue_time.total_seconds(),
        trace.summary.compute_time.total_seconds(),
    )


def digest_of(event: Arrived | Token) -> str:
    if isinstance(event, Token):
        return f"{event.run} {event.step} {event.id} {event.log_probability!r}"
    spec = event.spec
    value = xxhash.xxh3_64(event.value.tobytes()).hexdigest()
    return f"{spec.run} {spec.label} {spec.hook_point} {spec.step} {spec.part} {value}"


def connect(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
