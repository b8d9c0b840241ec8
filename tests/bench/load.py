#!/usr/bin/env python3
"""Puts a server under the load of 64 clients and watches it; load.sh calls it.

40 clients ask for small traces, 8 for sweeps and 8 for generated tokens, 4 give
up on any of these halfway, and 4 are processes that are killed. Each answer is
compared with what the same request gave alone. Rules (--rules), each of which
ends this with status 1 where it is broken:

  failures  nothing fails but by a client's own doing, no answer differs, and some
            of every kind come
  memory    the server's resident memory grows by less than --most-growth in the
            second half
  waits     99% of the small requests wait for their first layer no longer than
            about one layer of the largest wave and a small request of every
            other client
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import contextlib
import dataclasses
import json
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator

from phitap.v1 import trace_pb2

import load_report
import load_requests
import sides
from bench import Model, progress
from load_clients import CANCEL
from load_requests import GENERATION, SMALL, SWEEP, Asked, Stub

ROLES = {SMALL: 40, SWEEP: 8, GENERATION: 8, CANCEL: 4}
KILLED = 4  # clients of which one is always about to be killed
PROCESSES = 4
SAMPLE_S = 0.5
LIFE_S = 1.0  # at most, of a client that is killed
TOLD_S = 30


@dataclasses.dataclass
class Alone:
    """Seconds that things take while nobody else is there."""

    small: float  # one request of every client of small ones
    longest_layer: float  # of the largest wave: between reports of progress


def answer_alone(stub: Stub, asked: list[Asked]) -> Alone:
    """Keeps what each request gives."""
    small, gaps = [], [0.0]
    for each in asked:
        request, times = each.message(), []
        request.options.report_progress = each.kind == SWEEP
        answer = load_requests.read(noting(stub.Trace(request), times))
        each.digest = answer.digest
        gaps += [b - a for a, b in zip(times, times[1:])]
        if each.kind == SMALL:
            small.append(answer.compute_seconds)
    return Alone(statistics.mean(small) * ROLES[SMALL], max(gaps))


def noting(
    responses: Iterable[trace_pb2.TraceResponse], times: list[float]
) -> Iterator[trace_pb2.TraceResponse]:
    """The same, with the times at which progress was reported."""
    for response in responses:
        if response.WhichOneof("message") == "progress":
            times.append(time.perf_counter())
        yield response


def start_clients(
    stack: contextlib.ExitStack,
    address: str,
    asked: list[Asked],
    folder: pathlib.Path,
) -> list[sides.Side]:
    """Processes that are there and wait for a word."""
    requests = folder / "requests.json"
    requests.write_text(json.dumps([dataclasses.asdict(a) for a in asked]))
    roles = [role for role, count in ROLES.items() for _ in range(count)]
    started = []
    for number in range(PROCESSES):
        command = [
            sys.executable,
            str(sides.HERE / "load_clients.py"),
            address,
            str(requests),
            f"--seed={number}",
            *(f"--role={role}" for role in roles[number::PROCESSES]),
        ]
        side = sides.Side(command, announces=True)
        started.append(stack.enter_context(side))
    for side in started:
        side.wait_until_ready()
    return started


def kill_clients(
    binary: pathlib.Path, address: str, asked: list[Asked], until: float, seed: int
) -> int:
    """Starts clients with long requests and kills them; how many."""
    draw = random.Random(seed)
    long = [each.path for each in asked if each.kind != SMALL]
    killed = 0
    while time.time() < until:
        with sides.Side([str(binary), address]) as client:
            with contextlib.suppress(sides.SideEnded):
                client.send(do="send", requests=[draw.choice(long)] * 8)
            time.sleep(draw.uniform(0, LIFE_S))
            client.kill()
        killed += 1
    return killed


def watch(server: sides.Server, until: float) -> list[dict]:
    """Resident bytes of the server, over and over, for as long as it lives."""
    samples: list[dict] = []
    start = told = time.time()
    while time.time() < until and server.alive:
        try:
            sample = {
                "resident": sides.resident_bytes(server.id),
                "anonymous": sides.resident_bytes(server.id, "RssAnon"),
            }
        except KeyError:  # it has just ended
            break
        samples.append({"seconds": time.time() - start} | sample)
        if time.time() - told > TOLD_S:
            told = time.time()
            progress(
                f"  {until - told:.0f} s to go, {sample['resident'] / 1e6:.0f} MB"
            )
        time.sleep(SAMPLE_S)
    return samples


def run_load(
    arguments: argparse.Namespace,
    server: sides.Server,
    asked: list[Asked],
    folder: pathlib.Path,
) -> dict:
    killed: list[int] = []
    with contextlib.ExitStack() as stack:
        clients = start_clients(stack, server.address, asked, folder)
        until = time.time() + arguments.minutes * 60

        def kill(seed: int) -> None:
            binary = arguments.binaries / "bench_client"
            killed.append(
                kill_clients(binary, server.address, asked, until, seed)
            )

        for seed in range(KILLED):
            threading.Thread(target=kill, args=[seed], daemon=True).start()
        for number, client in enumerate(clients):
            client.send(until=until, events=str(folder / f"events-{number}"))
        samples = watch(server, until)
        if not server.alive:
            sys.exit(f"load.py: the server ended: {server.log.read_text()}")
        paths = [pathlib.Path(client.answer()["events"]) for client in clients]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return {
        "events": [json.loads(line) for line in lines],
        "samples": samples,
        "killed": sum(killed),
    }


def names_of_rules(text: str) -> list[str]:
    for name in text.split(","):
        if name not in load_report.RULES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is none of {', '.join(load_report.RULES)}"
            )
    return text.split(",")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--most-growth", type=float, default=0.02)
    parser.add_argument(
        "--rules",
        type=names_of_rules,
        default=list(load_report.RULES),
        help="which end this with status 1; all are shown",
    )
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--server-flag", action="append", default=[])
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    model = Model.open(arguments.model)
    with (
        tempfile.TemporaryDirectory() as name,
        sides.Server(
            arguments.binaries,
            model.folder,
            arguments.threads,
            arguments.server_flag,
        ) as server,
        load_requests.connect(server.address) as channel,
    ):
        folder, stub = pathlib.Path(name), Stub(channel)
        asked = load_requests.write_requests(model, folder)
        progress(f"{len(asked)} requests to {model}, alone")
        alone = answer_alone(stub, asked)
        progress(f"{sum(ROLES.values()) + KILLED} clients")
        seen = run_load(arguments, server, asked, folder)
        outcome = load_report.outcome(
            seen,
            alone.longest_layer,
            alone.small,
            arguments.most_growth,
        )
    outcome |= {"model": str(model), "minutes": arguments.minutes}
    arguments.json.write_text(json.dumps(outcome, indent=1) + "\n")
    print(load_report.text(outcome))
    broken = [r for r in arguments.rules if not outcome["rules"][r]]
    if broken:
        sys.exit(f"load.py: broken: {', '.join(broken)}")


if __name__ == "__main__":
    main()
