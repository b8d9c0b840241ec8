#!/usr/bin/env python3
"""Turns the lines of run.sh and load.sh into Markdown.

  report.py build/bench/results.jsonl build/bench/load.json > results.md
  report.py --readme README.md tests/bench/results.md

The second form puts the text into README.md, between the lines that end in
`results begin -->` and `results end -->`.
"""

# SPDX-License-Identifier: Apache-2.0

import json
import operator
import pathlib
import sys

import load_report

NOISY_CORES = 0.2
NAMES = {
    "transformers": "transformers and hooks",
    "nnterp": "nnterp",
    "transformer_lens": "TransformerLens",
    "interp_engine": "interp-engine",
}
BOUNDS = {
    "at least": operator.ge,
    "at most": operator.le,
    "below": operator.lt,
}
NOTES = {
    "layers_last_512": "the libraries make nine forwards, of which two, of two prompts with nothing in common, have to be made",
    "layers_last_512_from_256": "of the libraries' nine forwards one and a half have to be made",
    "steer_generate_32": "TransformerLens generates without its cache, which stays empty on Phi-3",
}
AIMS = {
    "times_as_fast": "times",
    "linear_share": "of the linear maps' rate",
    "times_own_plain_forward": "times its own plain forward",
}


def time_text(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.2f} s"


def rate_text(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.2f} GB/s"


def size_text(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


def verdict(row: dict) -> str:
    """Every aim of a row, and whether it was reached."""
    texts = []
    for field, bound in row.get("aim", {}).items():
        words, limit = bound.rsplit(" ", 1)
        if field not in row:
            texts.append(f"{bound}: **not measured**")
            continue
        reached = BOUNDS[words](row[field], float(limit))
        what = AIMS.get(field)
        said = f"{words} {limit} {what}:" if what else ""
        texts.append(f"{said} {'reached' if reached else '**missed**'}".strip())
    return "; ".join(texts + noise(row)) or "-"


def noise(row: dict) -> list[str]:
    cores = row.get("neighbour_cores", 0)
    if cores <= NOISY_CORES:
        return []
    return [f"({cores:.1f} cores were busy otherwise)"]


def side_text(side: dict | None) -> str:
    if side is None:
        return "not asked"
    for kind in ("cannot", "failed", "wrong"):
        if kind in side:
            return f"{kind}: {side[kind]}".replace("|", "/").split("\n")[0]
    notes = [f"batches of {side['batch']}"] if "batch" in side else []
    if "difference" not in side:
        notes.append("unchecked")
    text = time_text(side["seconds"])
    return f"{text} ({', '.join(notes)})" if notes else text


def task_rows(rows: list[dict]) -> list[str]:
    peers = [name for name in NAMES if any(name in row["sides"] for row in rows)]
    titles = [
        "work",
        "phitapd, through gRPC",
        *(NAMES[name] for name in peers),
        "times as fast as the best of them",
        "aim",
    ]
    lines = [
        "| " + " | ".join(titles) + " |",
        "|" + "---|" * len(titles),
    ]
    for row in rows:
        times = row.get("times_as_fast")
        cells = [
            row["work"] + sample_text(row),
            *(side_text(row["sides"].get(name)) for name in ("phitap", *peers)),
            f"**{times:.2f}**" if times is not None else "-",
            verdict(row),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def sample_text(row: dict) -> str:
    if not row.get("sampled"):
        return ""
    return f" (libraries: one in {row['sampled']:.0f} cells, scaled)"


def beside_rows(rows: list[dict]) -> list[str]:
    """What else was seen of phitapd at these tasks."""
    lines = []
    for row in rows:
        texts = [NOTES[row["task"]]] if row["task"] in NOTES else []
        if "linear_share" in row:
            texts.append(
                f"the linear maps that it needs, alone in torch, take {time_text(row['linear_seconds'])} "
                f"({row['linear_gflops']:.0f} GFLOP/s), {row['linear_share']:.0%} of phitapd's time"
                + bound_text(row)
            )
        if "one_request_seconds" in row:
            texts.append(
                f"the same prompts in one request take {time_text(row['one_request_seconds'])}"
            )
        if "times_own_plain_forward" in row:
            texts.append(
                f"{row['times_own_plain_forward']:.2f} times phitapd's own plain forward"
            )
        if texts:
            lines.append(f"- {row['work']}: {'; '.join(texts)}.")
    return lines


def bound_text(row: dict) -> str:
    """What the linear maps' rate leaves of an aim that it does not allow."""
    bound = row.get("aim", {}).get("times_as_fast")
    best = row["sides"].get(row.get("best_peer"), {}).get("seconds")
    if not bound or not best:
        return ""
    most = best / row["linear_seconds"]
    if most >= float(bound.rsplit(" ", 1)[1]):
        return ""
    return f", so that at this rate {most:.2f} times is the most"


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
            "below 0.5 ms",
        ),
        "stream": lambda r: (
            f"stream of {size_text(r['size_bytes'])} with checksums at both ends",
            f"C++ client {rate_text(r['cpp_bytes_per_second'])}, {r['cpp_share_of_raw']:.0%} of bare TCP "
            f"({rate_text(r['raw_bytes_per_second'])}); Python client {rate_text(r['python_bytes_per_second'])}, "
            f"{r['python_share_of_raw']:.0%}; the server alone, its bytes dropped, {rate_text(r['server_bytes_per_second'])}, "
            f"{r['server_share_of_raw']:.0%}",
            "90% of bare TCP",
        ),
    }
    lines = ["| what | measured | aim | |", "|---|---|---|---|"]
    for task, text in texts.items():
        if task in rows:
            what, measured, aim = text(rows[task])
            lines.append(
                f"| {what} | {measured} | {aim} | {verdict(rows[task])} |"
            )
    return lines if len(lines) > 2 else []


def full_text(row: dict) -> str:
    return (
        f"The whole shape ({row['model']}, {size_text(row['weight_bytes'])}): ready in {time_text(row['cold_load_seconds'])} "
        f"with its files dropped from the cache and {time_text(row['warm_load_seconds'])} with them in it; 512 tokens with every "
        f"layer's output in {time_text(row['first_trace_seconds'])} at first and {time_text(row['second_trace_seconds'])} "
        f"thereafter ({row['tokens_per_second']:.0f} tokens a second); at most {size_text(row['peak_bytes'])} resident. "
        + " ".join(noise(row))
    ).strip()


def machine_text(machine: dict, tasks: list[dict]) -> str:
    versions = machine["libraries"]
    libraries = ", ".join(
        f"{NAMES[name].removesuffix(' and hooks')} {version}"
        for name, version in versions.items()
    )
    model = f" Model: {tasks[0]['model']} (layers × width), Phi-3-mini's shape, random weights." if tasks else ""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads on every side; libtorch {machine['libtorch']}, "
        f"{libraries} (nnsight {machine['nnsight']}).{model} Medians of interleaved rounds, new prompts in each; what a side found "
        "is compared with transformers', and a difference beyond rounding is shown as wrong. Libraries take the fastest of "
        "several batch sizes."
    )


def results(lines: list[str]) -> list[str]:
    rows = {row["task"]: row for row in map(json.loads, lines)}
    tasks = [row for row in rows.values() if "sides" in row]
    parts = [[machine_text(rows["machine"], tasks)]]
    if tasks:
        parts += [task_rows(tasks), beside_rows(tasks)]
    parts.append(single_rows(rows))
    if "full_model" in rows:
        parts.append([full_text(rows["full_model"])])
    return ["\n".join(part) for part in parts if part]


def put_into(readme: pathlib.Path, text: str) -> None:
    lines = readme.read_text().splitlines()
    begin, end = (
        next(at for at, line in enumerate(lines) if line.endswith(mark))
        for mark in ("results begin -->", "results end -->")
    )
    lines[begin + 1 : end] = ["", text.strip(), ""]
    readme.write_text("\n".join(lines) + "\n")


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--readme"] and len(arguments) == 3:
        readme, found = map(pathlib.Path, arguments[1:])
        put_into(readme, found.read_text())
        return
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    parts = results(pathlib.Path(arguments[0]).read_text().splitlines())
    if len(arguments) == 2:
        parts.append(
            load_report.text(
                json.loads(pathlib.Path(arguments[1]).read_text())
            )
        )
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
