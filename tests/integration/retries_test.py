"""What README.md has clients configure, with gRPC's own Python client and two servers: what one of them refuses, the other one answers."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import json
import os
import pathlib
import re
import signal
import threading
import time
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import phitap
from phitap.stream import Assembly
from phitap.v1 import activation_service_pb2_grpc, trace_pb2
from served import ROOT, RunningServer, running_server

DEMO = ROOT / "deploy" / "demo-model"
#: Until the server knows better; see RetryPace.
PUSHBACK_S = 1.0
CALLERS = 8
MORE_ANSWERS = 30


def readme_config() -> dict:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(json.loads(block) for block in blocks if "retryPolicy" in block)


def without_health_checks() -> dict:
    """So that clients learn from refusals alone that a server stops."""
    config = readme_config()
    del config["healthCheckConfig"]
    return config


@contextlib.contextmanager
def server(folder: pathlib.Path, *flags: str) -> Iterator[RunningServer]:
    folder.mkdir()
    with running_server({"demo": DEMO}, folder, "float32", 1, *flags) as running:
        yield running


def connect(config: dict, *servers: RunningServer, options=()) -> grpc.Channel:
    return grpc.insecure_channel("ipv4:" + ",".join(each.address for each in servers),
                                 options=[("grpc.service_config", json.dumps(config)), ("grpc.use_local_subchannel_pool", 1), *options])


def large(runs: int) -> trace_pb2.TraceRequest:
    """6 MB of answer a run."""
    prompts = [phitap.Prompt([(run + 7 * i) % 1232 for i in range(512)], str(run)) for run in range(runs)]
    return phitap.request.trace_message(prompts, ["layers.*.mlp_neurons"])


def small(number: int) -> trace_pb2.TraceRequest:
    return phitap.request.trace_message([phitap.Prompt([(number + 7 * i) % 1232 for i in range(8)])], ["layers.*.layer_output"])


def ask(channel: grpc.Channel, request: trace_pb2.TraceRequest) -> dict[str, bytes]:
    """Every value of the answer, which must be whole. Raises grpc.RpcError."""
    assembly = Assembly()
    events = assembly.events(activation_service_pb2_grpc.ActivationServiceStub(channel).Trace(request, timeout=60))
    values = {f"{arrived.spec.run} {arrived.spec.hook_point}": arrived.value.tobytes() for arrived in events}
    assert values and all(run.error is None for run in assembly.trace().runs)
    return values


@contextlib.contextmanager
def accepted(address: str) -> Iterator[None]:
    """A trace that the server cannot end, since nobody reads it."""
    with phitap.Client(address) as client, client.stream(large(6)) as stream:
        next(iter(stream))
        yield


def refusals(server: RunningServer) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if "trace ended" in line and "code=UNAVAILABLE" in line]


def stop(server: RunningServer) -> None:
    os.kill(server.pid, signal.SIGTERM)


def await_log(server: RunningServer, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in server.log.read_text():
        assert time.monotonic() < deadline, server.log.read_text()
        time.sleep(0.01)


def await_end(server: RunningServer) -> None:
    """Its exit status is left for whoever started it."""
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)


def test_what_one_server_has_no_room_for_another_answers_when_the_first_has_said(tmp_path):
    with server(tmp_path / "full", "--max-undelivered-bytes", "96MiB", "--max-caller-bytes", "96MiB") as full, \
            server(tmp_path / "free") as free:
        with accepted(full.address), connect(readme_config(), full, free) as channel:
            taken_s = []
            while len(refusals(full)) < 2:
                started = time.monotonic()
                ask(channel, large(5))
                taken_s.append(time.monotonic() - started)
        waited = [seconds for seconds in taken_s if seconds >= PUSHBACK_S]
        assert 0 < len(waited) <= len(refusals(full)), taken_s
        assert all("refusal=memory" in line for line in refusals(full))


def test_what_a_server_refuses_as_it_stops_another_one_answers(tmp_path):
    steered = phitap.Prompt(list(range(512)), interventions=[phitap.edits.add("layers.0.layer_output", np.zeros((512, 192), np.float32))])
    beyond = phitap.request.trace_message([steered], [phitap.Capture("layers.*.layer_output", positions=[-1])])
    assert beyond.ByteSize() > 256 << 10
    with server(tmp_path / "stopping") as stopping, server(tmp_path / "other") as other:
        with accepted(stopping.address):
            stop(stopping)
            await_log(stopping, "finishing what was accepted")
            with connect(without_health_checks(), stopping, other) as channel:
                expected = ask(channel, small(0))
                while len(refusals(stopping)) < 3:
                    assert ask(channel, small(0)) == expected
                with pytest.raises(grpc.RpcError) as not_kept:
                    while True:
                        ask(channel, beyond)
                assert not_kept.value.code() == grpc.StatusCode.UNAVAILABLE
            seen = len(refusals(stopping))
            with connect(without_health_checks(), stopping, other, options=[("grpc.per_rpc_retry_buffer_size", 16 << 20)]) as channel:
                while len(refusals(stopping)) < seen + 2:
                    ask(channel, beyond)
            seen = len(refusals(stopping))
            with connect(readme_config(), stopping, other) as channel:
                for _ in range(10):
                    assert ask(channel, small(0)) == expected
            assert len(refusals(stopping)) == seen, "a client that asks for health called a server that is not serving"
        await_end(stopping)


class Callers:
    """Threads that go on asking over one channel."""

    def __init__(self, channel: grpc.Channel):
        self._channel, self._stop = channel, threading.Event()
        self.answered, self.failed = [0] * CALLERS, []
        self._threads = [threading.Thread(target=self._go_on, args=[number]) for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _go_on(self, number: int) -> None:
        expected = None
        while not self._stop.is_set():
            try:
                values = ask(self._channel, small(number))
            except Exception as error:  # whatever it is, it is the test's failure
                self.failed.append(error)
                continue
            expected = expected or values
            if values != expected:
                self.failed.append(AssertionError("other bytes"))
            self.answered[number] += 1

    def await_more(self) -> None:
        before = list(self.answered)
        deadline = time.monotonic() + 60
        while any(now < then + MORE_ANSWERS for now, then in zip(self.answered, before, strict=True)):
            assert time.monotonic() < deadline and not self.failed, self.failed[:3]
            time.sleep(0.01)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("config", [readme_config, without_health_checks])
def test_servers_that_stop_under_many_calls_fail_none_of_a_client_that_has_another(tmp_path, config):
    with server(tmp_path / "a") as first, server(tmp_path / "b") as second, connect(config(), first, second) as channel:
        callers = Callers(channel)
        try:
            callers.await_more()
            stop(first)
            await_end(first)
            callers.await_more()
        finally:
            callers.end()
        assert callers.failed == []
        assert "trace ended" in first.log.read_text() and "trace ended" in second.log.read_text()


def test_a_server_that_stops_says_so_to_every_call_or_gRPC_does(tmp_path):
    """Without a word to the client on what to do: CANCELLED is gRPC's own word for calls that came as the connection closed."""
    codes = []
    with server(tmp_path / "s") as only:
        def go_on(number: int) -> None:
            with grpc.insecure_channel(only.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
                while not codes_after_end.is_set():
                    try:
                        ask(channel, small(number))
                    except grpc.RpcError as error:
                        codes.append(error.code())

        codes_after_end = threading.Event()
        threads = [threading.Thread(target=go_on, args=[number]) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        stop(only)
        await_end(only)
        codes_after_end.set()
        for thread in threads:
            thread.join()
    assert codes and set(codes) <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
