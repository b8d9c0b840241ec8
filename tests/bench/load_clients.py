#!/usr/bin/env python3
"""Clients of the load test, each with a connection and a thread of its own;
load.py starts some of these processes.

Says {"ready": true} on standard output, waits for a line like

  {"until": 1764500000.0, "events": "/tmp/events"}

on standard input, and answers with it once the time is over. Until then each
client asks for one thing after another and notes how that went, in the end one
JSON object a line in that file:

  {"kind": "small", "outcome": "done", "seconds": 0.02, "queue_seconds": 0.01,
   "compute_seconds": 0.01}

outcome: done; cancelled, expired (by the client's own doing); failed or wrong
(with `why`).
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import pathlib
import random
import threading
import time
from collections.abc import Callable

import grpc
from phitap.errors import ChecksumError, IncompleteTraceError, RunError

import load_requests
from load_requests import Asked, Stub

THINK_S = 0.05  # at most, between two requests
PATIENCE_S = 0.3  # at most, of a client that cancels
DEADLINE_SLACK_S = 0.1  # the server's clock may be ahead
CANCEL = "cancel"
OWN_DOING = {
    grpc.StatusCode.CANCELLED: "cancelled",
    grpc.StatusCode.DEADLINE_EXCEEDED: "expired",
}
Event = dict[str, object]


class Client:
    """One user. role: a kind of request, or `cancel` for any of them, given up
    halfway."""

    def __init__(
        self, role: str, address: str, asked: list[Asked], seed: int
    ) -> None:
        self._role = role
        self._draw = random.Random(seed)
        self._stub = Stub(load_requests.connect(address))
        mine = [a for a in asked if role in (a.kind, CANCEL)]
        self._asked = [(each, each.message()) for each in mine]
        self._until = 0.0
        self.events: list[Event] = []

    def work(self, until: float) -> None:
        """What is not there in the end is given up, and not noted."""
        self._until = until
        while time.time() < until:
            asked, request = self._draw.choice(self._asked)
            start = time.perf_counter()
            event = self._outcome(asked, request)
            event["kind"] = self._role
            event["seconds"] = time.perf_counter() - start
            if event["outcome"] != "over":
                self.events.append(event)
            time.sleep(self._draw.uniform(0, THINK_S))

    def _outcome(self, asked: Asked, request) -> Event:
        send = self._give_up if self._role == CANCEL else self._wait
        try:
            answer = send(request)
        except grpc.RpcError as error:
            code = error.code()
            expired = code == grpc.StatusCode.DEADLINE_EXCEEDED
            if expired and time.time() >= self._until - DEADLINE_SLACK_S:
                return {"outcome": "over"}
            if self._role == CANCEL and code in OWN_DOING:
                return {"outcome": OWN_DOING[code]}
            return failed(f"{code.name}: {error.details()}")
        except (ChecksumError, IncompleteTraceError, RunError) as error:
            return failed(repr(error))
        if answer.digest != asked.digest:
            return {"outcome": "wrong", "why": asked.path}
        return {
            "outcome": "done",
            "queue_seconds": answer.queue_seconds,
            "compute_seconds": answer.compute_seconds,
        }

    def _wait(self, request) -> load_requests.Answer:
        left = max(self._until - time.time(), DEADLINE_SLACK_S)
        return load_requests.read(self._stub.Trace(request, timeout=left))

    def _give_up(self, request) -> load_requests.Answer:
        patience = self._draw.uniform(0, PATIENCE_S)
        if self._draw.random() < 0.5:
            call = self._stub.Trace(request, timeout=max(patience, 1e-3))
            return load_requests.read(call)
        call = self._stub.Trace(request)
        timer = threading.Timer(patience, call.cancel)
        timer.start()
        try:
            return load_requests.read(call)
        finally:
            timer.cancel()


def failed(why: str) -> Event:
    return {"outcome": "failed", "why": why}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("address")
    parser.add_argument("requests", type=pathlib.Path, help="JSON of Asked")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--role", action="append", required=True)
    return parser.parse_args()


def run_all(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    arguments = parse_arguments()
    asked = [Asked(**a) for a in json.loads(arguments.requests.read_text())]
    clients = [
        Client(role, arguments.address, asked, arguments.seed * 1000 + number)
        for number, role in enumerate(arguments.role)
    ]
    print(json.dumps({"ready": True}), flush=True)
    told = json.loads(input())
    run_all([lambda c=client: c.work(told["until"]) for client in clients])
    lines = [json.dumps(e) for client in clients for e in client.events]
    pathlib.Path(told["events"]).write_text("\n".join(lines))
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
