"""Forwards through gRPC beside the same in transformers."""

# SPDX-License-Identifier: Apache-2.0

import dataclasses
import statistics

import sides
from bench import (
    EVERY_LAYER,
    Bench,
    Model,
    median_ratio,
    prompt,
    report,
    seconds,
)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The same work asked of both sides."""

    task: str
    phitap: dict
    transformers: dict
    depth: int  # layers that transformers goes through
    aim: dict


def comparisons(model: Model) -> list[Comparison]:
    def logits(tokens: int) -> Comparison:
        ids = prompt(tokens)
        return Comparison(
            f"forward_{tokens}",
            {"hook_points": "logits", "positions": [-1], "ids": ids},
            {"do": "logits", "ids": ids},
            model.layers,
            {"times_as_fast": "at least 1"},
        )

    ids, middle = prompt(512), model.layers // 2 - 1
    return [
        logits(128),
        logits(512),
        Comparison(
            "layer_outputs_512",
            {"hook_points": EVERY_LAYER, "ids": ids},
            {"do": "layer_outputs", "ids": ids},
            model.layers,
            {},
        ),
        Comparison(
            "one_layer_512",
            {
                "hook_points": f"layers.{middle}.layer_output",
                "positions": [-1],
                "ids": ids,
            },
            {"do": "one_layer", "ids": ids, "layer": middle},
            middle + 1,
            {"token_layers": f"at most {512 * (middle + 1)}"},
        ),
    ]


def measure_comparisons(bench: Bench, model: Model) -> None:
    with (
        bench.server(model) as server,
        bench.client(server) as client,
        bench.transformers(model) as transformers,
    ):
        for comparison in comparisons(model):
            neighbours = sides.Neighbours(
                [server.id, client.id, transformers.id]
            )
            tokens = len(comparison.phitap["ids"])
            taken = bench.rounds(
                bench.extent.rounds,
                {
                    "matmul": lambda: transformers.ask(
                        do="matmul", rows=tokens
                    ),
                    "phitap": lambda: client.ask(
                        do="trace", repeats=1, **comparison.phitap
                    ),
                    "transformers": lambda: transformers.ask(
                        **comparison.transformers
                    ),
                },
            )
            report_comparison(model, comparison, taken, neighbours.cores())
        measure_memory(model, server, client)


def report_comparison(
    model: Model, comparison: Comparison, taken: dict, neighbour_cores: float
) -> None:
    ours, theirs, matmul = (
        seconds(taken[name]) for name in ("phitap", "transformers", "matmul")
    )
    tokens = len(comparison.phitap["ids"])
    peak = model.matmul_operations(tokens) / statistics.median(matmul)
    token_layers = taken["phitap"][0]["token_layers"]
    our_rate = model.operations(token_layers) / statistics.median(ours)
    their_rate = model.operations(
        tokens * comparison.depth
    ) / statistics.median(theirs)
    report(
        comparison.task,
        model=str(model),
        phitap_seconds=statistics.median(ours),
        phitap_range=[min(ours), max(ours)],
        compute_seconds=statistics.median(
            answer["compute_seconds"][0] for answer in taken["phitap"]
        ),
        transformers_seconds=statistics.median(theirs),
        transformers_range=[min(theirs), max(theirs)],
        times_as_fast=median_ratio(theirs, ours),
        tokens_per_second=tokens / statistics.median(ours),
        token_layers=token_layers,
        token_layers_full_depth=tokens * model.layers,
        size_bytes=taken["phitap"][0]["size_bytes"],
        matmul_gflops=peak / 1e9,
        phitap_share_of_matmul=our_rate / peak,
        transformers_share_of_matmul=their_rate / peak,
        aim=comparison.aim,
        rounds=len(ours),
        neighbour_cores=neighbour_cores,
    )


def measure_memory(
    model: Model, server: sides.Server, client: sides.Side
) -> None:
    sides.forget_peak(server.id)
    answer = client.ask(
        do="trace", ids=prompt(512), hook_points=EVERY_LAYER, repeats=1
    )
    peak = sides.resident_bytes(server.id, "VmHWM")
    report(
        "memory_512",
        model=str(model),
        peak_bytes=peak,
        weight_bytes=model.weight_bytes(),
        beside_weights_bytes=peak - model.weight_bytes(),
        captured_bytes=answer["size_bytes"],
        aim={"beside_weights_bytes": f"at most {1_500_000_000}"},
    )
