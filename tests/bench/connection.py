"""What the way through gRPC costs: each call, and each byte."""

# SPDX-License-Identifier: Apache-2.0

import statistics
import time

import phitap
import sides
from bench import Bench, Model, median_ratio, prompt, report, seconds

SMALL_PROMPT = 8  # tokens


def measure_overhead(bench: Bench, model: Model) -> None:
    ids = prompt(SMALL_PROMPT)
    asked = {"hook_points": "logits", "positions": [-1], "ids": ids}
    repeats = bench.extent.small_traces
    with (
        bench.server(model) as server,
        bench.client(server) as client,
        bench.transformers(model) as transformers,
    ):
        client.ask(do="trace", repeats=repeats // 10, **asked)
        neighbours = sides.Neighbours([server.id, client.id, transformers.id])
        empty = client.ask(do="list_models", repeats=repeats)["seconds"]
        traces = client.ask(do="trace", repeats=repeats, **asked)
        theirs = [
            transformers.ask(do="logits", ids=ids)["seconds"][0]
            for _ in range(repeats)
        ]
        overheads = [
            whole - compute
            for whole, compute in zip(
                traces["seconds"], traces["compute_seconds"]
            )
        ]
        percentiles = statistics.quantiles(overheads, n=100)
        report(
            "overhead",
            model=str(model),
            overhead_seconds=statistics.median(overheads),
            overhead_p90_seconds=percentiles[89],
            phitap_seconds=statistics.median(traces["seconds"]),
            compute_seconds=statistics.median(traces["compute_seconds"]),
            transformers_seconds=statistics.median(theirs),
            list_models_seconds=statistics.median(empty),
            traces=repeats,
            aim={"overhead_seconds": "below 0.001"},
            neighbour_cores=neighbours.cores(),
        )


def python_stream(client: phitap.Client, ids: list[int]) -> dict:
    """As bench_client times it: from the first tensor bytes to the last."""
    arrivals: list[tuple[float, int]] = []
    client.trace(
        [ids],
        "logits",
        progress=lambda received, total, rate: arrivals.append(
            (time.perf_counter(), received)
        ),
    )
    (first, bytes_before), (last, bytes_after) = arrivals[0], arrivals[-1]
    return {
        "stream_seconds": [last - first],
        "stream_bytes": bytes_after - bytes_before,
    }


def rates(answers: list[dict]) -> list[float]:
    return [
        answer["stream_bytes"] / answer["stream_seconds"][0]
        for answer in answers
    ]


def measure_stream(bench: Bench, model: Model) -> None:
    """The logits of a long prompt: one large tensor that has just been computed,
    with the forward over when its first bytes leave."""
    ids = prompt(bench.extent.streamed_positions)
    value_bytes = {"float32": 4, "bfloat16": 2}[model.config["dtype"]]
    size = len(ids) * model.config["vocab_size"] * value_bytes
    with (
        bench.server(model) as server,
        bench.client(server) as client,
        phitap.Client(server.address) as python_client,
    ):
        neighbours = sides.Neighbours([server.id, client.id])
        taken = bench.rounds(
            bench.extent.streams,
            {
                "raw": lambda: client.ask(
                    do="raw_stream", size_bytes=size, repeats=1
                ),
                "c++": lambda: client.ask(
                    do="trace", hook_points="logits", ids=ids, repeats=1
                ),
                "python": lambda: python_stream(python_client, ids),
            },
        )
        raw = [size / second for second in seconds(taken["raw"])]
        cpp, python = rates(taken["c++"]), rates(taken["python"])
        report(
            "stream",
            size_bytes=size,
            raw_bytes_per_second=statistics.median(raw),
            cpp_bytes_per_second=statistics.median(cpp),
            python_bytes_per_second=statistics.median(python),
            cpp_share_of_raw=median_ratio(cpp, raw),
            python_share_of_raw=median_ratio(python, raw),
            aim={"cpp_share_of_raw": "at least 0.85"},
            rounds=len(raw),
            neighbour_cores=neighbours.cores(),
        )
