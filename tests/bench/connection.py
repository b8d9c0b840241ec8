"""What the way through gRPC costs: each call, and each byte."""

# SPDX-License-Identifier: Apache-2.0

import pathlib
import statistics
import tempfile
import time

import phitap
import sides
import trace_requests
from bench import Bench, Model, prompt, report

SMALL_PROMPT = 8  # tokens
SMALL_TRACES = 300
STREAMS = 25
STREAMED_POSITIONS = 1000


def measure_overhead(bench: Bench, model: Model) -> None:
    """Each trace has a prompt of its own: none is known to the server."""
    prompts = [
        prompt(SMALL_PROMPT, number) for number in range(SMALL_TRACES * 11 // 10)
    ]
    first, rest = prompts[SMALL_TRACES:], prompts[:SMALL_TRACES]
    with (
        tempfile.TemporaryDirectory() as folder,
        bench.server(model) as server,
        bench.client(server) as client,
        bench.peer("transformers", model) as transformers,
    ):
        transformers.wait_until_ready()
        send(client, folder, first)
        neighbours = sides.Neighbours([server.id, client.id, transformers.id])
        empty = client.ask(do="list_models", repeats=SMALL_TRACES)["seconds"]
        traces = send(client, folder, rest)
        theirs = [
            transformers.ask(**{"do": "last_logits", "with": {"ids": ids}})
            for ids in rest
        ]
        report_overhead(model, traces, theirs, empty, neighbours.cores())


def send(client: sides.Side, folder: str, prompts: list[list[int]]) -> dict:
    paths = []
    for number, ids in enumerate(prompts):
        paths.append(f"{folder}/{number}.pb")
        request = trace_requests.last_logits(ids)
        pathlib.Path(paths[-1]).write_bytes(request.SerializeToString())
    return client.ask(do="send", requests=paths)


def report_overhead(
    model: Model,
    traces: dict,
    theirs: list[dict],
    empty: list[float],
    neighbour_cores: float,
) -> None:
    overheads = [
        whole - compute
        for whole, compute in zip(traces["seconds"], traces["compute_seconds"])
    ]
    report(
        "overhead",
        model=str(model),
        overhead_seconds=statistics.median(overheads),
        overhead_p90_seconds=statistics.quantiles(overheads, n=10)[-1],
        phitap_seconds=statistics.median(traces["seconds"]),
        compute_seconds=statistics.median(traces["compute_seconds"]),
        transformers_seconds=statistics.median(t["seconds"] for t in theirs),
        list_models_seconds=statistics.median(empty),
        traces=len(overheads),
        aim={"overhead_seconds": "below 0.0005"},
        neighbour_cores=neighbour_cores,
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
        "stream_bytes": [bytes_after - bytes_before],
    }


def rate(answer: dict) -> float:
    return answer["stream_bytes"][0] / answer["stream_seconds"][0]


def measure_stream(bench: Bench, model: Model) -> None:
    """The logits of a long prompt: one large tensor that has just been
    computed, with the forward over when its first bytes leave. `server`: into a
    client that drops what comes; `cpp`, `python`: into verified tensors."""
    value_bytes = {"float32": 4, "bfloat16": 2}[model.dtype]
    size = STREAMED_POSITIONS * model.config["vocab_size"] * value_bytes
    rates: dict[str, list[float]] = {
        name: [] for name in ("raw", "server", "cpp", "python")
    }
    with (
        tempfile.NamedTemporaryFile() as file,
        bench.server(model) as server,
        bench.client(server) as client,
        phitap.Client(server.address) as python_client,
    ):
        neighbours = sides.Neighbours([server.id, client.id])
        for number in range(bench.rounds(STREAMS) + 1):
            taken = stream_round(client, python_client, file.name, size, number)
            for name in rates if number > 0 else ():
                rates[name].append(taken[name])
        report_stream(size, rates, neighbours.cores())


def write_request(path: str, ids: list[int]) -> None:
    request = trace_requests.request(
        runs=[trace_requests.run(ids)], captures=[{"hookPoints": "logits"}]
    )
    pathlib.Path(path).write_bytes(request.SerializeToString())


def stream_round(
    client: sides.Side,
    python_client: phitap.Client,
    path: str,
    size: int,
    number: int,
) -> dict[str, float]:
    write_request(path, prompt(STREAMED_POSITIONS, number))
    raw = client.ask(do="raw_stream", size_bytes=size, repeats=1)
    cpp = client.ask(do="send", requests=[path])
    write_request(path, prompt(STREAMED_POSITIONS, number, "dropped"))
    dropped = client.ask(do="drop", requests=[path])
    ids = prompt(STREAMED_POSITIONS, number, "python")
    return {
        "raw": size / raw["seconds"][0],
        "server": rate(dropped),
        "cpp": rate(cpp),
        "python": rate(python_stream(python_client, ids)),
    }


def report_stream(
    size: int, rates: dict[str, list[float]], neighbour_cores: float
) -> None:
    raw = rates.pop("raw")
    report(
        "stream",
        size_bytes=size,
        raw_bytes_per_second=statistics.median(raw),
        **{
            f"{name}_bytes_per_second": statistics.median(taken)
            for name, taken in rates.items()
        },
        **{
            f"{name}_share_of_raw": median_ratio(taken, raw)
            for name, taken in rates.items()
        },
        aim={"cpp_share_of_raw": "at least 0.9"},
        rounds=len(raw),
        neighbour_cores=neighbour_cores,
    )


def median_ratio(over: list[float], under: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under))
