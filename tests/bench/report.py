#!/usr/bin/env python3
"""Turns the lines of run.sh into Markdown.

report.py build/bench/results.jsonl > tests/bench/results.md
"""

# SPDX-License-Identifier: Apache-2.0

import json
import operator
import pathlib
import sys

NOISY_CORES = 0.2
COMPARED = {
    "forward_128": "forward of 128 tokens, logits of the last",
    "forward_512": "forward of 512 tokens, logits of the last",
    "layer_outputs_512": "every layer's output of 512 tokens",
    "one_layer_512": "the middle layer's output at the last of 512 tokens",
}
EXPERIMENTS = {
    "sweep_layers_last_64": "patching sweep of 64 tokens, every layer at the last position",
    "attribution_64": "gradients of a logit by every layer's output, 64 tokens",
    "steer_generate_32": "32 greedy tokens after 64, steered at the middle layer",
}
BOUNDS = {
    "at least": operator.ge,
    "at most": operator.le,
    "below": operator.lt,
}


def time_text(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.2f} s"


def rate_text(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.2f} GB/s"


def size_text(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


def number_text(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def verdict(row: dict) -> str:
    """Every aim of a row, and whether it was reached."""
    texts = []
    for field, bound in row.get("aim", {}).items():
        words, limit = bound.rsplit(" ", 1)
        reached = BOUNDS[words](row[field], float(limit))
        texts.append("reached" if reached else "**missed**")
    return " ".join(texts + noise(row)) or "-"


def noise(row: dict) -> list[str]:
    cores = row.get("neighbour_cores", 0)
    if cores <= NOISY_CORES:
        return []
    return [f"({cores:.1f} cores were busy otherwise)"]


def compared_rows(rows: dict[str, dict]) -> list[str]:
    lines = [
        "| work | phitapd, through gRPC | transformers | times as fast | aim | tokens a second | layers × tokens computed "
        "| share of matmul: phitapd, transformers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, name in COMPARED.items():
        if task not in rows:
            continue
        row = rows[task]
        lines.append(
            f"| {name} | {side_text(row, 'phitap')} | {side_text(row, 'transformers')} "
            f"| {row['times_as_fast']:.2f} | {verdict(row)} | {row['tokens_per_second']:.0f} "
            f"| {row['token_layers']} of {row['token_layers_full_depth']} "
            f"| {row['phitap_share_of_matmul']:.0%}, {row['transformers_share_of_matmul']:.0%} |"
        )
    return lines


def experiment_rows(rows: dict[str, dict]) -> list[str]:
    lines = [
        "| experiment | phitapd, through gRPC | transformers and hooks | nnterp | times as fast as these two | |",
        "|---|---|---|---|---|---|",
    ]
    for task, name in EXPERIMENTS.items():
        if task not in rows:
            continue
        row = rows[task]
        lines.append(
            f"| {name} | {side_text(row, 'phitap')} | {side_text(row, 'transformers')} | {side_text(row, 'nnterp')} "
            f"| {row['times_as_fast_as_transformers']:.2f}, {row['times_as_fast_as_nnterp']:.2f} | {verdict(row)} |"
        )
    return lines


def side_text(row: dict, side: str) -> str:
    median, best = row[f"{side}_seconds"], row[f"{side}_range"][0]
    return f"{time_text(median)}, at best {time_text(best)}"


def single_rows(rows: dict[str, dict]) -> list[str]:
    texts = {
        "load": lambda r: (
            "from start to the first answer, files in the cache",
            time_text(r["phitap_seconds"]),
            "below 3 s",
        ),
        "memory_512": lambda r: (
            "most resident memory, tracing every layer's output of 512 tokens",
            f"{size_text(r['peak_bytes'])}, of which weights (mapped) {size_text(r['weight_bytes'])}",
            "weights + 1.5 GB",
        ),
        "overhead": lambda r: (
            f"what gRPC and all but the forward add to a trace of the tiny model (median of {r['traces']})",
            f"{time_text(r['overhead_seconds'])}; the whole trace {time_text(r['phitap_seconds'])}, "
            f"transformers' forward alone {time_text(r['transformers_seconds'])}",
            "below 1 ms",
        ),
        "stream": lambda r: (
            f"stream of {size_text(r['size_bytes'])} with checksums at both ends",
            f"C++ client {rate_text(r['cpp_bytes_per_second'])}, {r['cpp_share_of_raw']:.0%} of bare TCP "
            f"({rate_text(r['raw_bytes_per_second'])}); Python client {rate_text(r['python_bytes_per_second'])}",
            "85% of bare TCP",
        ),
    }
    lines = ["| what | measured | aim | |", "|---|---|---|---|"]
    for task, text in texts.items():
        if task in rows:
            what, measured, aim = text(rows[task])
            lines.append(
                f"| {what} | {measured} | {aim} | {verdict(rows[task])} |"
            )
    return lines


def full_text(row: dict) -> str:
    return (
        f"The whole shape ({row['model']}, {size_text(row['weight_bytes'])}): ready in {time_text(row['cold_load_seconds'])} "
        f"with its files dropped from the cache and {time_text(row['warm_load_seconds'])} with them in it; 512 tokens with every "
        f"layer's output in {time_text(row['first_trace_seconds'])} at first and {time_text(row['second_trace_seconds'])} "
        f"thereafter ({row['tokens_per_second']:.0f} tokens a second); at most {size_text(row['peak_bytes'])} resident. "
        + " ".join(noise(row))
    ).strip()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    rows = {row["task"]: row for row in map(json.loads, lines)}
    machine, matmul = rows["machine"], rows["forward_512"]["matmul_gflops"]
    print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads on both sides; libtorch {machine['libtorch']}, "
        f"transformers {machine['transformers']} (sdpa), nnterp {machine['nnterp']} with nnsight {machine['nnsight']}. Model: {rows['forward_512']['model']} (layers × width), Phi-3-mini's shape, "
        f"random weights. A linear layer alone reaches {matmul:.0f} GFLOP/s here. Medians, interleaved. "
        "Where only the last position is asked for, phitap takes only that one through the last layer; transformers takes all."
    )
    print("", *compared_rows(rows), "", *experiment_rows(rows), "", *single_rows(rows), sep="\n")
    if "full_model" in rows:
        print("", full_text(rows["full_model"]), sep="\n")


if __name__ == "__main__":
    main()
