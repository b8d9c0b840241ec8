"""What came of a load test, and whether its rules were kept."""

# SPDX-License-Identifier: Apache-2.0

import collections
import statistics

RULES = ("failures", "memory", "waits")
KINDS = (
    ("small", "small"),
    ("sweep", "sweeps"),
    ("generation", "generations"),
)
LAYERS_OF_WAIT = 1.5  # about one layer of the largest wave
SHOWN = 5  # failures

Events = list[dict]


def outcome(
    seen: dict,
    layer_seconds: float,
    small_seconds: float,
    most_growth: float,
) -> dict:
    """seen: what load.py's run_load returns. small_seconds: see its
    answer_alone."""
    events: Events = seen["events"]
    counts = collections.Counter(
        f"{event['kind']} {event['outcome']}" for event in events
    )
    bad = [e for e in events if e["outcome"] in ("failed", "wrong")]
    small = waits_of(events)
    limit = LAYERS_OF_WAIT * layer_seconds + small_seconds
    memory = memory_of(seen["samples"])
    return {
        "task": "load_64",
        "counts": dict(sorted(counts.items())),
        "killed": seen["killed"],
        "bad": len(bad),
        "examples": [f"{e['kind']}: {e['why']}" for e in bad[:SHOWN]],
        "small": small,
        "longest_layer_seconds": layer_seconds,
        "small_before_seconds": small_seconds,
        "wait_limit_seconds": limit,
        "memory": memory,
        "most_growth": most_growth,
        "rules": {
            "failures": not bad
            and all(counts[f"{kind} done"] for kind, _ in KINDS),
            "memory": memory["growth"] < most_growth,
            "waits": small["wait_p99_seconds"] <= limit,
        },
    }


def waits_of(events: Events) -> dict:
    done = [
        e for e in events if e["kind"] == "small" and e["outcome"] == "done"
    ]
    if len(done) < 2:
        raise SystemExit("load.py: no small request came back")
    names = {
        "wait": [e["queue_seconds"] for e in done],
        "compute": [e["compute_seconds"] for e in done],
        "whole": [e["seconds"] for e in done],
    }
    return {
        f"{name}_p{percent}_seconds": statistics.quantiles(values, n=100)[
            percent - 1
        ]
        for name, values in names.items()
        for percent in (50, 99)
    }


def memory_of(samples: list[dict]) -> dict:
    """Growth along the line through all samples of the second half: waves come
    and go, and what they freed is given back only now and then, so that single
    times, or short ones, tell less of a trend than of where in that they are."""
    second = samples[len(samples) // 2 :]
    at_half, at_end = ends_of_line(second, "resident")
    anonymous_at_half, anonymous_at_end = ends_of_line(second, "anonymous")
    return {
        "first_bytes": samples[0]["resident"],
        "half_bytes": at_half,
        "end_bytes": at_end,
        "least_bytes": min(sample["resident"] for sample in second),
        "most_bytes": max(sample["resident"] for sample in second),
        "growth": at_end / at_half - 1,
        "anonymous_half_bytes": anonymous_at_half,
        "anonymous_end_bytes": anonymous_at_end,
        "samples_megabytes": [
            round(sample["resident"] / 1e6) for sample in samples
        ],
    }


def ends_of_line(samples: list[dict], what: str) -> tuple[float, float]:
    """Where the line of least squares through the samples begins and ends."""
    times = [sample["seconds"] for sample in samples]
    slope, base = statistics.linear_regression(
        times, [sample[what] for sample in samples]
    )
    return base + slope * times[0], base + slope * times[-1]


def text(outcome: dict) -> str:
    """As Markdown."""
    small, memory = outcome["small"], outcome["memory"]
    done = sum(
        count
        for what, count in outcome["counts"].items()
        if what.endswith(" done")
    )
    given_up = outcome["killed"] + sum(
        count
        for what, count in outcome["counts"].items()
        if what.endswith((" cancelled", " expired"))
    )
    rows = [
        (
            f"answers, each the bits of the same request alone ({counts_text(outcome)})",
            f"{done:,}; {outcome['bad']} failed or differed; {given_up:,} given up or killed by the client",
            "none fails, every kind gets through",
            "failures",
        ),
        (
            "a small request waits for its first layer",
            f"p50 {milliseconds(small['wait_p50_seconds'])}, p99 {milliseconds(small['wait_p99_seconds'])}; until it has its answer p50 "
            f"{milliseconds(small['whole_p50_seconds'])}, p99 {milliseconds(small['whole_p99_seconds'])}; longest layer of the largest "
            f"wave {milliseconds(outcome['longest_layer_seconds'])}",
            f"p99 at most {milliseconds(outcome['wait_limit_seconds'])}: {LAYERS_OF_WAIT} such layers, and a small request of each client",
            "waits",
        ),
        (
            "resident memory, the line through the second half: its beginning and end",
            f"{memory['half_bytes'] / 1e6:,.0f} MB, {memory['end_bytes'] / 1e6:,.0f} MB ({memory['growth']:+.1%}); without mapped files "
            f"{memory['anonymous_half_bytes'] / 1e6:,.0f} MB, {memory['anonymous_end_bytes'] / 1e6:,.0f} MB; waves come and go between "
            f"{memory['least_bytes'] / 1e6:,.0f} and {memory['most_bytes'] / 1e6:,.0f} MB",
            f"grows by less than {outcome['most_growth']:.0%}",
            "memory",
        ),
    ]
    lines = [
        f"Load: 64 clients on {outcome['model']} for {outcome['minutes']:g} minutes.",
        "",
        "| what | measured | aim | |",
        "|---|---|---|---|",
    ]
    for what, measured, aim, rule in rows:
        kept = "reached" if outcome["rules"][rule] else "**missed**"
        lines.append(f"| {what} | {measured} | {aim} | {kept} |")
    return "\n".join(
        lines + [f"- {example}" for example in outcome["examples"]]
    )


def counts_text(outcome: dict) -> str:
    counts = outcome["counts"]
    return ", ".join(
        f"{counts.get(f'{kind} done', 0):,} {words}"
        for kind, words in KINDS
    )


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"
