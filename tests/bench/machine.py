"""The machine, and what phitapd takes of it before and while it works."""

# SPDX-License-Identifier: Apache-2.0

import importlib.metadata
import os
import pathlib
import statistics
import tempfile

import sides
import trace_requests
from bench import Bench, Model, prompt, report

LOADS = 3
BESIDE_WEIGHTS_BYTES = 1_500_000_000


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
        libraries={name: version(bench, name) for name in bench.peers},
        nnsight=importlib.metadata.version("nnsight"),
        grpc=importlib.metadata.version("grpcio"),
    )


def version(bench: Bench, name: str) -> str:
    distribution = name.replace("_", "-")
    environment = bench.environments / distribution
    folders = [str(path) for path in environment.glob("lib/*/site-packages")]
    found = importlib.metadata.distributions(
        name=distribution, **({"path": folders} if folders else {})
    )
    return next((each.version for each in found), "?")


def measure_load(bench: Bench, model: Model) -> None:
    sides.warm_cache(model.folder)
    neighbours = sides.Neighbours([])
    loads = []
    for _ in range(min(LOADS, bench.rounds(LOADS))):
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


def measure_memory(bench: Bench, model: Model) -> None:
    with bench.server(model) as server, bench.client(server) as client:
        sides.forget_peak(server.id)
        answer = trace_all_layers(client, 0)
        peak = sides.resident_bytes(server.id, "VmHWM")
    report(
        "memory_512",
        model=str(model),
        peak_bytes=peak,
        weight_bytes=model.weight_bytes(),
        beside_weights_bytes=peak - model.weight_bytes(),
        captured_bytes=answer["size_bytes"][0],
        aim={"beside_weights_bytes": f"at most {BESIDE_WEIGHTS_BYTES}"},
    )


def trace_all_layers(client: sides.Side, number: int) -> dict:
    with tempfile.NamedTemporaryFile() as file:
        request = trace_requests.layer_outputs(prompt(512, number))
        pathlib.Path(file.name).write_bytes(request.SerializeToString())
        return client.ask(do="send", requests=[file.name])


def measure_full(bench: Bench, model: Model) -> None:
    """The whole shape, served once: the first trace reads what the load did not."""
    sides.cool_cache(model.folder)
    with bench.server(model) as server, bench.client(server) as client:
        cold_load = server.load_seconds
        neighbours = sides.Neighbours([server.id, client.id])
        first, second = (
            trace_all_layers(client, number)["seconds"][0] for number in (0, 1)
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
