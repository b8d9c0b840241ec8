"""A comparison as a line of the results."""

# SPDX-License-Identifier: Apache-2.0

import statistics

from bench import Model, report
from comparison import Comparison, Result
from task import Task


def report_comparison(
    model: Model, task: Task, comparison: Comparison, neighbour_cores: float
) -> None:
    results = comparison.results
    peers = [n for n in results if n not in (*task.own, "phitap", "linear_maps")]
    report(
        task.name,
        work=task.work,
        model=str(model),
        sides={name: results[name].line() for name in ("phitap", *peers)},
        **ratios(model, task, results, peers),
        **costs(comparison.answers),
        sampled=task.scale if task.scale > 1 else None,
        aim=dict(task.aim),
        rounds=len(results["phitap"].seconds),
        neighbour_cores=neighbour_cores,
    )


def ratios(
    model: Model, task: Task, results: dict[str, Result], peers: list[str]
) -> dict:
    """Fields that need a time of phitap's; none where it has none."""
    ours = results["phitap"]
    if ours.trouble or not ours.seconds:
        return {}
    fields: dict = {}
    able = [n for n in peers if not results[n].trouble and results[n].seconds]
    if able:
        best = min(able, key=lambda name: results[name].median)
        fields["best_peer"] = best
        fields["times_as_fast"] = median_ratio(results[best], ours)
        fields["times_as_fast_as"] = {
            name: median_ratio(results[name], ours) for name in able
        }
    for name in task.own:
        fields[f"{name}_seconds"] = results[name].median
        fields[f"times_own_{name}"] = median_ratio(ours, results[name])
    if task.linear and results["linear_maps"].seconds:
        seconds = results["linear_maps"].median
        operations = model.linear_operations(**task.linear)
        fields["linear_seconds"] = seconds
        fields["linear_gflops"] = operations / seconds / 1e9
        fields["linear_share"] = median_ratio(results["linear_maps"], ours)
    return fields


def median_ratio(over: Result, under: Result) -> float:
    return statistics.median(
        a / b for a, b in zip(over.seconds, under.seconds)
    )


def costs(answers: list[dict]) -> dict:
    """Of the last round of phitap's."""
    if not answers:
        return {}
    return {
        "compute_seconds": statistics.median(
            sum(answer["compute_seconds"]) for answer in answers
        ),
        "token_layers": sum(answers[-1]["token_layers"]),
        "size_bytes": sum(answers[-1]["size_bytes"]),
    }
