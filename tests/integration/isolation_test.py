"""What a client does badly is its own affair: runs that fail, give NaN, are cancelled, expire or lose their client change no bit of
anybody's and leave no bytes behind; a reader that takes nothing keeps nobody waiting.
"""

import concurrent.futures
import contextlib
import itertools
import pathlib
import random
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

import phitap
from checkpoint_kinds import VOCABULARY, make_checkpoint
from lone_runs import Lone, compare, put_dictionary, send
from phitap import edits, values
from phitap.v1 import trace_pb2
from random_edits import Shape
from random_runs import LAYERS, Stock
from served import running_server

KIND = "gqa"
MIB = 1 << 20
INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT.value[0]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> pathlib.Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / KIND, KIND, num_hidden_layers=LAYERS)


@contextlib.contextmanager
def server(checkpoint: pathlib.Path, folder: pathlib.Path, *flags: str) -> Iterator[str]:
    folder.mkdir(exist_ok=True)
    with running_server({KIND: checkpoint}, folder, "float32", 2, *flags) as running:
        yield running.address


def large(ids: list[int], runs: int = 30) -> trace_pb2.TraceRequest:
    """Long enough to be ended before it ends, and with more bytes than any buffer on the way takes."""
    prompts = [phitap.Prompt(ids, str(i), interventions=[edits.add("layers.0.layer_output", 1.0 + i)]) for i in range(runs)]
    return phitap.request.trace_message(prompts, ["layers.*.mlp_gate_up", "layers.*.attention_scores"])


class Trouble:
    """One client that does everything wrong, with the prompts of others, until it is told to stop."""

    def __init__(self, address: str, client: phitap.Client, prompts: list[list[int]]):
        self._address, self._shared, self._prompts = address, client, prompts
        self._random = random.Random(5)
        self._stop = threading.Event()
        self.done = dict.fromkeys(("fail", "give_nan", "cancel", "expire", "disconnect"), 0)

    def go_on_until(self, stopped: concurrent.futures.Future) -> None:
        for what in itertools.cycle(self.done):
            if stopped.done():
                return
            getattr(self, f"_{what}")(self._random.choice(self._prompts))
            self.done[what] += 1

    def _fail(self, ids: list[int]) -> None:
        """A computed index that is out of range, in the second layer, beside a run that has nothing wrong."""
        index = values.read("bad", "layers.1.layer_output", positions=0).norm() + 1000.0
        row = values.read("bad", "layers.1.layer_output").gather(index.reshape(1), 0)
        runs = [phitap.Prompt(ids, "good"), phitap.Prompt(ids, "bad", interventions=[edits.set_("layers.2.layer_output", row)])]
        trace = self._shared.trace(runs, ["layers.*.layer_output", "logits"])
        assert trace.run("bad").error.code == INVALID_ARGUMENT
        assert trace.run("good").error is None and len(trace.run("good").specs) == LAYERS + 1

    def _give_nan(self, ids: list[int]) -> None:
        nan = values.of(0.0) / values.of(0.0)
        run = phitap.Prompt(ids, interventions=[edits.set_("layers.1.layer_output", nan, positions=[0])])
        assert np.isnan(self._shared.trace(run, ["logits"])["logits"]).all()

    def _cancel(self, ids: list[int]) -> None:
        stream = self._shared.stream(large(ids))
        for _ in itertools.islice(stream, self._random.randrange(4)):
            pass
        stream.close()

    def _expire(self, ids: list[int]) -> None:
        with pytest.raises(phitap.RequestError) as ended:
            self._shared.send(large(ids, 300), timeout=0.002)
        assert ended.value.code == grpc.StatusCode.DEADLINE_EXCEEDED

    def _disconnect(self, ids: list[int]) -> None:
        with phitap.Client(self._address) as client:
            next(iter(client.stream(large(ids))))


def test_what_others_do_wrong_changes_no_bit(checkpoint, tmp_path):
    shape = Shape.of(KIND, checkpoint)
    with server(checkpoint, tmp_path / "crowd") as crowd, server(checkpoint, tmp_path / "lone") as lone:
        for address in (crowd, lone):
            put_dictionary(address, shape)
        stocks = [Stock(shape, KIND, f"trouble {i}") for i in range(2)]
        drafts = [(i % 2, stocks[i % 2].request()) for i in range(24)]
        prompts = [run.prompt["input"] for _, draft in drafts for run in draft.runs]
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(phitap.Client(crowd, timeout=120)) for _ in stocks]
            pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(8))
            everything = concurrent.futures.Future()
            troubles = [Trouble(crowd, client, prompts) for client in clients]
            making = [pool.submit(trouble.go_on_until, everything) for trouble in troubles]
            asked = [pool.submit(send, clients[i], draft.message()) for i, draft in drafts * 3]
            traces = [one.result() for one in asked]
            everything.set_result(None)
            for one in making:
                one.result()
        assert all(min(trouble.done.values()) > 0 for trouble in troubles), [trouble.done for trouble in troubles]
        for (_, draft), *same in zip(drafts, traces[:24], traces[24:48], traces[48:], strict=True):
            alone = Lone(lone, draft)
            for trace in same:
                assert compare(draft, trace, alone) > 0
            alone.forget()


def test_what_is_given_up_leaves_no_bytes_behind(checkpoint, tmp_path):
    """The server has room for two such requests: a byte kept of each would soon refuse them."""
    ids = [i % VOCABULARY for i in range(60)]
    with server(checkpoint, tmp_path, "--max-undelivered-bytes", "64MiB") as address, phitap.Client(address, timeout=60) as client:
        trouble = Trouble(address, client, [ids])
        for _ in range(25):
            for what in ("cancel", "disconnect"):
                with contextlib.suppress(phitap.RequestError):
                    getattr(trouble, f"_{what}")(ids)
        trace = eventually(lambda: client.send(large(ids)), grpc.StatusCode.UNAVAILABLE)
        assert trace.summary.size_bytes > 10 * MIB


def eventually(ask: Callable[[], phitap.Trace], code: grpc.StatusCode) -> phitap.Trace:
    """Asks again while it is refused with the code: what was given up goes back when its wave looks."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except phitap.RequestError as error:
            assert error.code == code and time.monotonic() < deadline, error


@contextlib.contextmanager
def reader_that_takes_nothing(client: phitap.Client, message: trace_pb2.TraceRequest) -> Iterator[phitap.stream.Stream]:
    """Reads the first tensor, so that the rest is on its way."""
    with client.stream(message) as stream:
        next(iter(stream))
        yield stream


def test_a_reader_that_takes_nothing_keeps_nobody_waiting_and_is_ended(checkpoint, tmp_path):
    ids = [i % VOCABULARY for i in range(60)]
    with server(checkpoint, tmp_path, "--stall-timeout", "6s") as address, phitap.Client(address, timeout=60) as slow, \
            phitap.Client(address, timeout=60) as other:
        usual = requests_in(1.0, other, ids)
        with reader_that_takes_nothing(slow, large(ids, 60)) as stream:
            assert max(requests_in(1.0, other, ids) for _ in range(3)) >= usual / 3  # the first while it is computed
            deadline = time.monotonic() + 60
            while "stream stalled" not in (tmp_path / "log").read_text():
                assert time.monotonic() < deadline
                other.trace(ids, ["logits"])
            with pytest.raises(phitap.PhitapError):
                for _ in stream:
                    pass


def requests_in(seconds: float, client: phitap.Client, ids: list[int]) -> int:
    started, count = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        client.trace([*ids, count % VOCABULARY], ["layers.*.layer_output", "logits"])
        count += 1
    return count


def test_a_caller_that_fills_its_share_is_refused_and_another_is_served(checkpoint, tmp_path):
    ids = [i % VOCABULARY for i in range(60)]
    with server(checkpoint, tmp_path, "--max-undelivered-bytes", "96MiB", "--stall-timeout", "60s") as address, \
            phitap.Client(address, timeout=60) as greedy, phitap.Client(address, timeout=60) as other:
        with reader_that_takes_nothing(greedy, large(ids, 60)):
            with pytest.raises(phitap.RequestError) as refused:
                greedy.send(large(ids, 60))
            assert refused.value.code == grpc.StatusCode.UNAVAILABLE
            assert all(text in refused.value.message for text in ("bytes", "one caller", "again")), refused.value.message
            trace = other.send(large(ids[::-1], 20))
            assert trace.summary.size_bytes > 10 * MIB
        with pytest.raises(phitap.RequestError) as refused:
            greedy.send(large(ids, 200))
        assert refused.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert eventually(lambda: greedy.send(large(ids, 20)), grpc.StatusCode.UNAVAILABLE).summary.size_bytes > 10 * MIB
