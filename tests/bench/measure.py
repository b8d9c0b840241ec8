#!/usr/bin/env python3
"""Measures phitapd through gRPC beside other libraries on the same weights.

One JSON object a line on standard output, progress on standard error. Every
comparison is interleaved, a turn for every side in each round and each round
beginning with another side, after one that is thrown away where rounds are
short; times are medians, ratios are medians of the rounds' own ratios, so that
a machine that drifts shifts neither. Prompts are new in every round. What a
side found is compared with transformers'. `neighbour_cores` says how many cores
other processes used meanwhile: numbers are worth reading where it is near 0.
run.sh makes the models and calls this.
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import contextlib
import pathlib
import sys
import tempfile

import sides
from bench import Bench, Model, progress
from comparison import REFERENCE, Comparison
from connection import measure_overhead, measure_stream
from machine import measure_full, measure_load, measure_machine, measure_memory
from outcome import report_comparison
from task import Task
from tasks import CLIENTS, tasks

PEERS = ("transformers", "nnterp", "transformer_lens", "interp_engine")
SINGLE = ("load", "memory_512", "overhead", "stream")


def measure_tasks(
    bench: Bench, model: Model, chosen: list[Task], eager: bool
) -> bool:
    """Whether phitapd did all of it."""
    if not chosen:
        return True
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory())
        )
        server = stack.enter_context(bench.server(model))
        peers: dict[str, sides.Side] = {}
        done = True
        for task in chosen:
            load_peers(stack, bench, model, eager, peers)
            done &= measure_task(bench, model, task, server, peers, folder)
        return done


def load_peers(
    stack: contextlib.ExitStack,
    bench: Bench,
    model: Model,
    eager: bool,
    peers: dict[str, sides.Side],
) -> None:
    """Those that are not there, or have ended; one after another, for a load
    takes twice the memory for a moment."""
    for name in bench.peers:
        if name in peers and peers[name].alive:
            continue
        progress(f"load {model} into {name}{', eager' if eager else ''}")
        peers[name] = stack.enter_context(bench.peer(name, model, eager))
        try:
            peers[name].wait_until_ready()
        except sides.SideEnded as error:
            progress(f"  {name}: {error}")


def measure_task(
    bench: Bench,
    model: Model,
    task: Task,
    server: sides.Server,
    peers: dict[str, sides.Side],
    folder: pathlib.Path,
) -> bool:
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(bench.client(server))
            for _ in range(CLIENTS if task.at_once else 1)
        ]
        processes = [server, *clients, *peers.values()]
        neighbours = sides.Neighbours([p.id for p in processes if p.alive])
        comparison = Comparison(bench, model, task, clients, peers, folder)
        comparison.run()
        report_comparison(model, task, comparison, neighbours.cores())
        return not comparison.results["phitap"].trouble


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--tiny", type=pathlib.Path, required=True)
    parser.add_argument("--full", type=pathlib.Path)
    parser.add_argument(
        "--environments",
        type=pathlib.Path,
        default=sides.HERE.parents[1] / "build" / "bench" / "peers",
        help="of the libraries; one that is not there is looked for in this one",
    )
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append", metavar="TASK")
    parser.add_argument("--peers", type=names_of_peers, default=list(PEERS))
    parser.add_argument("--server-flag", action="append", default=[])
    return parser.parse_args()


def names_of_peers(text: str) -> list[str]:
    names = [REFERENCE, *(n for n in text.split(",") if n != REFERENCE)]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(
                f"{name!r} is none of {', '.join(PEERS)}"
            )
    return names


def choose(arguments: argparse.Namespace, known: list[str]) -> list[str]:
    for name in arguments.only or ():
        if name not in known:
            sys.exit(f"measure.py: --only {name}: none of {', '.join(known)}")
    return [n for n in known if not arguments.only or n in arguments.only]


def main() -> None:
    arguments = parse_arguments()
    bench = Bench(arguments)
    model, tiny = Model.open(arguments.model), Model.open(arguments.tiny)
    every = {task.name: task for task in tasks(model)}
    names = choose(arguments, [*SINGLE, *every])
    measure_machine(bench)
    if "load" in names:
        measure_load(bench, model)
    if "memory_512" in names:
        measure_memory(bench, model)
    if "overhead" in names:
        measure_overhead(bench, tiny)
    if "stream" in names:
        measure_stream(bench, tiny)
    done = True
    for eager in (False, True):
        chosen = [every[name] for name in names if name in every]
        chosen = [task for task in chosen if task.eager == eager]
        done = measure_tasks(bench, model, chosen, eager) and done
    if arguments.full:
        measure_full(bench, Model.open(arguments.full))
    if not done:
        sys.exit("measure.py: phitapd did not do all of it; see above")


if __name__ == "__main__":
    main()
