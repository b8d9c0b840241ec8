#!/usr/bin/env python3
"""Tries inputs on the fuzz targets, beginning with their seeds and with what earlier tries have found interesting.

Prints a line for each target, leaves a summary as JSON where asked, and ends with status 1 where a target broke: the input that did it
is kept in build/fuzz/found, and the target takes it as its only argument. Build first:

  cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_targets
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
INPUT_SECONDS = 10  # longer is a fault: no caller may keep the server busy so
MEMORY_MIB = 2048
SANITIZERS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


@dataclasses.dataclass(frozen=True)
class Target:
    name: str
    most_bytes: int
    #: Beside tests/fuzz/seeds/NAME.
    seeds: tuple[pathlib.Path, ...] = ()
    dictionary: bool = False

    @property
    def program(self) -> pathlib.Path:
        return BUILD / "bin" / f"{self.name}_fuzz"

    def command(self, seconds: float) -> list[str | pathlib.Path]:
        corpus, found = BUILD / "corpus" / self.name, BUILD / "found"
        for folder in (corpus, found):
            folder.mkdir(parents=True, exist_ok=True)
        seeds = [folder for folder in (HERE / "seeds" / self.name, *self.seeds) if folder.is_dir()]
        words = [f"-dict={HERE / 'seeds' / self.name}.dict"] if self.dictionary else []
        return [self.program, f"-max_total_time={seconds:.0f}", f"-max_len={self.most_bytes}", f"-timeout={INPUT_SECONDS}",
                f"-rss_limit_mb={MEMORY_MIB}", "-print_final_stats=1", f"-artifact_prefix={found}/{self.name}-", *words, corpus, *seeds]


TARGETS = (
    Target("checkpoint", 8192, dictionary=True),
    # JSON is much longer than the message that becomes of it.
    Target("request", 16384, seeds=(ROOT / "tests" / "golden" / "techniques",)),
    Target("safetensors", 4096, dictionary=True),
    Target("tensor_file", 4096, dictionary=True),
    Target("tokenizer", 8192, dictionary=True),
    Target("tokens", 4096, dictionary=True),
    Target("upload", 4096),
    Target("wire", 2048),
)


@dataclasses.dataclass
class Outcome:
    target: str
    inputs: int
    #: Branches of the target and the libraries compiled with it that some input has taken.
    edges: int
    kept_inputs: int
    #: The end of what the target said, where it broke.
    broke: str = ""


def number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(target: Target, seconds: float) -> Outcome:
    ended = subprocess.run(target.command(seconds), capture_output=True, text=True, errors="replace", check=False,
                           env=os.environ | SANITIZERS)
    said = ended.stderr
    return Outcome(target.name, number(r"number_of_executed_units: (\d+)", said), number(r"cov: (\d+)", said),
                   number(r"corp: (\d+)/", said), "" if ended.returncode == 0 else broken(said))


def broken(said: str) -> str:
    """From where the fault is first told of."""
    lines = said.splitlines()
    first = next((i for i, line in enumerate(lines) if re.search(r"ERROR: |runtime error:|not so:|Sanitizer", line)), max(0, len(lines) - 40))
    return "\n".join(lines[first:first + 60])


def fuzz_all(targets: tuple[Target, ...], seconds: float, jobs: int) -> list[Outcome]:
    """So many seconds each, some at a time."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda target: fuzz(target, seconds), targets))


def table(outcomes: list[Outcome]) -> str:
    lines = [f"{'target':<16}{'inputs':>12}{'edges':>8}{'kept':>7}  broke"]
    lines += [f"{o.target:<16}{o.inputs:>12,}{o.edges:>8,}{o.kept_inputs:>7,}  {'yes' if o.broke else 'no'}" for o in outcomes]
    return "\n".join(lines)


def targets_named(names: str) -> tuple[Target, ...]:
    known = {target.name: target for target in TARGETS}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return tuple(known[name] for name in names.split(","))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of each target; default 60")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time; default the machine's cores")
    parser.add_argument("--targets", type=targets_named, default=TARGETS, metavar="A,B", help="default all")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--count", action="store_true", help="say how many targets there are, and do nothing")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    if arguments.count:
        print(len(arguments.targets))
        return
    outcomes = fuzz_all(arguments.targets, arguments.seconds, arguments.jobs)
    print(table(outcomes))
    if arguments.json:
        arguments.json.write_text(json.dumps([dataclasses.asdict(o) for o in outcomes], indent=1) + "\n")
    for outcome in outcomes:
        if outcome.broke:
            print(f"\n{outcome.target} broke:\n{outcome.broke}", file=sys.stderr)
    sys.exit(any(outcome.broke for outcome in outcomes))


if __name__ == "__main__":
    main()
