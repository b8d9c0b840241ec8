#!/usr/bin/env python3
"""Measures phitapd through gRPC beside transformers and nnterp on the same
weights.

One JSON object a line on standard output. Every comparison is interleaved, A B
then B A, after a round that is thrown away; times are medians, ratios are
medians of the rounds' own ratios, so that a machine that drifts shifts neither.
`neighbour_cores` says how many cores other processes used meanwhile: numbers
are worth reading where it is near 0. run.sh makes the models and calls this.
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import importlib.metadata
import os
import pathlib
import statistics

import sides
from bench import EVERY_LAYER, Bench, Model, prompt, report
from connection import measure_overhead, measure_stream
from experiments import measure_experiments
from forwards import measure_comparisons


def measure_machine(bench: Bench) -> None:
    names = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next(
        (n.split(":")[1].strip() for n in names if "model name" in n), "?"
    )
    report(
        "machine",
        cpu=cpu,
        cores=os.cpu_count(),
        threads=bench.threads,
        libtorch=importlib.metadata.version("torch"),
        transformers=importlib.metadata.version("transformers"),
        nnterp=importlib.metadata.version("nnterp"),
        nnsight=importlib.metadata.version("nnsight"),
        grpc=importlib.metadata.version("grpcio"),
    )


def measure_load(bench: Bench, model: Model) -> None:
    sides.warm_cache(model.folder)
    neighbours = sides.Neighbours([])
    loads = []
    for _ in range(min(3, bench.extent.rounds)):
        with bench.server(model) as server:
            loads.append(server.load_seconds)
    report(
        "load",
        model=str(model),
        phitap_seconds=statistics.median(loads),
        phitap_range=[min(loads), max(loads)],
        aim={"phitap_seconds": "below 3"},
        neighbour_cores=neighbours.cores(),
    )


def measure_full(bench: Bench, model: Model) -> None:
    """The whole shape, served once: the first trace reads what the load did not."""
    asked = {"hook_points": EVERY_LAYER, "ids": prompt(512)}
    sides.cool_cache(model.folder)
    with bench.server(model) as server, bench.client(server) as client:
        cold_load = server.load_seconds
        neighbours = sides.Neighbours([server.id, client.id])
        first, second = (
            client.ask(do="trace", repeats=1, **asked)["seconds"][0]
            for _ in range(2)
        )
        neighbour_cores = neighbours.cores()
        peak = sides.resident_bytes(server.id, "VmHWM")
    with bench.server(model) as server:
        warm_load = server.load_seconds
    report(
        "full_model",
        model=str(model),
        cold_load_seconds=cold_load,
        warm_load_seconds=warm_load,
        first_trace_seconds=first,
        second_trace_seconds=second,
        tokens_per_second=512 / second,
        peak_bytes=peak,
        weight_bytes=model.weight_bytes(),
        neighbour_cores=neighbour_cores,
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--tiny", type=pathlib.Path, required=True)
    parser.add_argument("--full", type=pathlib.Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    bench = Bench(arguments)
    model, tiny = Model.open(arguments.model), Model.open(arguments.tiny)
    measure_machine(bench)
    measure_load(bench, model)
    measure_comparisons(bench, model)
    measure_experiments(bench, model)
    measure_overhead(bench, tiny)
    measure_stream(bench, tiny)
    if arguments.full:
        measure_full(bench, Model.open(arguments.full))


if __name__ == "__main__":
    main()
