"""A server with little memory: what does not fit is refused, with numbers, before anything is computed; what it takes on stays within what
it says; and the process lives. The kernel refuses it memory past that, by limits that need no rights.
"""

import concurrent.futures
import dataclasses
import pathlib
import re
import resource
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

import phitap
from checkpoint_kinds import VOCABULARY, make_checkpoint
from phitap import edits, metrics
from phitap.v1 import trace_pb2
from served import RunningServer, running_server

MIB = 1 << 20
LAYERS = 4
#: What the server may hold, as it says itself when it starts.
BOUNDS = ("undelivered_bytes", "workspace_bytes", "root_bytes", "tensor_bytes")
FLAGS = ("--max-undelivered-bytes", "128MiB", "--max-workspace-bytes", "128MiB", "--max-wave-bytes", "96MiB", "--max-root-bytes", "16MiB",
         "--max-tensor-bytes", "8MiB")
ULIMIT = ("prlimit", f"--as={3 << 30}")
#: Of the allocator, of gRPC and of messages on their way, which the bounds do not count.
SLACK = 96 * MIB


@dataclasses.dataclass
class Bounded:
    """A server that has answered once, and what it said that it may hold."""
    server: RunningServer
    bounds: dict[str, int]

    def status(self, field: str) -> int:
        """In bytes."""
        text = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


@pytest.fixture(scope="module", params=["flags", "ulimit -v"])
def bounded(request, tmp_path_factory) -> Iterator[Bounded]:
    folder = make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "gqa", "gqa", num_hidden_layers=LAYERS)
    flags, under = (FLAGS, ()) if request.param == "flags" else ((), ULIMIT)
    with running_server({"gqa": folder}, tmp_path_factory.mktemp("server"), "float32", 2, *flags, under=under) as server:
        with phitap.Client(server.address, timeout=120) as client:
            client.trace([1, 2, 3], ["logits"])
        said = next(line for line in server.log.read_text().splitlines() if "undelivered_bytes=" in line)
        bounded = Bounded(server, {name: int(size) for name, size in re.findall(r"(\w+_bytes)=(\d+)", said)})
        if request.param == "flags":
            limit = bounded.status("VmData") + sum(bounded.bounds[name] for name in BOUNDS) + SLACK
            resource.prlimit(server.pid, resource.RLIMIT_DATA, (limit, limit))
        yield bounded


@pytest.fixture
def client(bounded) -> Iterator[phitap.Client]:
    with phitap.Client(bounded.server.address, timeout=120) as client:
        yield client


def ids(first: int, length: int) -> list[int]:
    return [(first + 7 * i) % VOCABULARY for i in range(length)]


def captures_too_much(bounds: dict[str, int]) -> trace_pb2.TraceRequest:
    runs = bounds["caller_bytes"] // score_bytes(500) + 1
    return phitap.request.trace_message([ids(i, 500) for i in range(runs)], ["layers.*.attention_scores"])


def reads_too_much(bounds: dict[str, int]) -> trace_pb2.TraceRequest:
    """Scores of runs that others take, in groups after them."""
    runs = []
    for i in range(bounds["caller_bytes"] // (score_bytes(500) // LAYERS) + 1):
        patch = edits.set_("layers.0.attention_scores", phitap.RunValue(f"a{i}", "layers.3.attention_scores"))
        runs += [phitap.Prompt(ids(i, 500), f"a{i}"), phitap.Prompt(ids(i + 1, 500), f"b{i}", interventions=[patch])]
    return phitap.request.trace_message(runs, [phitap.Capture("logits", positions=-1)])


def generates_too_much(bounds: dict[str, int]) -> trace_pb2.TraceRequest:
    """Keys and values of 500 tokens each: 2 heads of 8, in every layer."""
    runs = min(bounds["caller_bytes"] // (500 * 2 * 2 * 8 * 4 * LAYERS) + 1, 1000)
    if runs == 1000:
        pytest.skip("so many runs are not in one request")
    return phitap.request.trace_message([phitap.Prompt(ids(i, 400), generation=phitap.Generation(100, ignore_stop_ids=True))
                                         for i in range(runs)])


def score_bytes(length: int) -> int:
    """Of the attention scores of a run: 8 heads of float32."""
    return LAYERS * 8 * length * length * 4


def large(first: int, bounds: dict[str, int]) -> trace_pb2.TraceRequest:
    """About a third of what one caller gets, of which much is not seen in the answer."""
    grid = metrics.Sweep("b", [edits.set_("layers.*.layer_input", phitap.RunValue("a"))], [metrics.layers(), metrics.positions(range(12))],
                         [metrics.logit(3)])
    count = max(2, bounds["caller_bytes"] // 3 // score_bytes(300))
    runs = [phitap.Prompt(ids(first + i, 300), label) for i, label in enumerate(["a", "b", *map(str, range(2, count))])]
    return phitap.request.trace_message(runs, ["layers.*.attention_scores"], sweeps=[grid])


@pytest.mark.parametrize("ask", [captures_too_much, reads_too_much, generates_too_much])
def test_what_can_never_fit_is_refused_before_anything_is_computed(bounded, client, ask):
    before = bounded.status("RssAnon")
    with pytest.raises(phitap.RequestError) as refused:
        for event in client.stream(ask(bounded.bounds)):
            raise AssertionError(event)
    assert refused.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(re.findall(r"\d{5,}", refused.value.message)) >= 2, refused.value.message  # what it needs and what there is
    assert bounded.status("RssAnon") - before < 8 * MIB
    client.trace([1, 2, 3], ["logits"])


def ask_slowly(bounded: Bounded, first: int, everybody: threading.Barrier) -> str:
    """Takes nothing but the beginning until everybody's answers are in the server's memory."""
    with phitap.Client(bounded.server.address, timeout=300) as client, client.stream(large(first, bounded.bounds)) as stream:
        try:
            next(stream)
        except phitap.RequestError as error:
            everybody.wait()
            return f"{error.code.name} {error.message}"
        everybody.wait()
        wait_until_settled(bounded)
        for _ in stream:
            pass
        client.trace(ids(first, 9), ["logits"])
        return "done"


def wait_until_settled(bounded: Bounded) -> None:
    last = 0
    while (now := bounded.status("RssAnon")) > last:
        last = now
        time.sleep(0.3)


def test_many_at_once_stay_within_what_the_server_says(bounded):
    before = bounded.status("RssAnon")
    pathlib.Path(f"/proc/{bounded.server.pid}/clear_refs").write_text("5")  # forgets the peak
    everybody = threading.Barrier(12)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        ends = list(pool.map(lambda number: ask_slowly(bounded, number, everybody), range(24)))
    assert ends.count("done") >= 4, ends
    assert all(end == "done" or end.startswith("UNAVAILABLE") and "bytes" in end for end in ends), set(ends)
    grown = bounded.status("VmHWM") - bounded.status("RssFile") - before
    assert bounded.bounds["undelivered_bytes"] / 3 < grown < sum(bounded.bounds[name] for name in BOUNDS) + SLACK
