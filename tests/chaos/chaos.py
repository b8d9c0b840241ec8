#!/usr/bin/env python3
"""Does to servers what clients, networks, disks and clocks do, and counts what became of every request.

Prints a table, leaves it as JSON where asked, and ends with status 1 where a request was lost or answered wrong, a server ended that was
not to, or files, threads or memory did not come back. Needs build/release (or PHITAPD, the path of another phitapd).
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import pathlib
import sys
import time

import conftest  # noqa: F401  the paths to what the load test and the golden tests share
from ledger import ANSWERED, FAILED, GIVEN_UP, LOST, WRONG
from figures import Figures, LeftOut
from scenes import SCENES


def play(minutes: float, seed: int) -> list[Figures]:
    """All scenes once, then the clients' again and again until the time is over."""
    until = time.monotonic() + minutes * 60
    played = []
    for name in [name for name in SCENES if name != "clients"]:
        played.append(play_one(name, min(20, minutes * 6), seed))
    while time.monotonic() < until or len(played) < len(SCENES):
        left = until - time.monotonic()
        seed += 1
        played.append(play_one("clients", max(10, min(300, left - 30)), seed))
    return played


def play_one(name: str, seconds: float, seed: int) -> Figures:
    try:
        figures = SCENES[name](seconds, seed)
    except LeftOut as why:
        figures = Figures(f"{name}, left out: {why}")
    tell(figures)
    return figures


def tell(figures: Figures) -> None:
    print(f"{figures.scene}: {sum(figures.requests.values()):,} requests, {sum(figures.faults.values()):,} faults"
          + "".join(f"\n  broken: {what}" for what in figures.broken), file=sys.stderr, flush=True)


def summed(played: list[Figures]) -> Figures:
    total = Figures("all")
    for figures in played:
        total.requests.update(figures.requests)
        total.faults.update(figures.faults)
        total.reasons.update(figures.reasons)
        total.broken += [f"{figures.scene}: {what}" for what in figures.broken]
    return total


def table(total: Figures) -> str:
    asked = sum(total.requests.values())
    rows = [(name, total.requests[name]) for name in (ANSWERED, FAILED, GIVEN_UP, LOST, WRONG)]
    lines = [f"{asked:,} requests:"] + [f"{count:>12,}  {name}" for name, count in rows]
    lines += [f"{sum(total.faults.values()):,} faults:"] + [f"{count:>12,}  {name}" for name, count in sorted(total.faults.items())]
    return "\n".join(lines + [f"broken: {what}" for what in total.broken or ["nothing"]])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    total = summed(play(arguments.minutes, arguments.seed))
    print(table(total))
    if arguments.json:
        arguments.json.write_text(json.dumps(vars(total), indent=1) + "\n")
    sys.exit(bool(total.broken))


if __name__ == "__main__":
    main()
