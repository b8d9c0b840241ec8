"""What every measurement shares: the models, prompts, lines of the report."""

# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses
import json
import pathlib
import random
import sys

import sides

SEED = 20240501
FIRST_ID, LAST_ID = 3, 2000  # of random prompts; inside every vocabulary


@dataclasses.dataclass(frozen=True)
class Model:
    folder: pathlib.Path
    config: dict

    @staticmethod
    def open(folder: pathlib.Path) -> "Model":
        return Model(folder, json.loads((folder / "config.json").read_text()))

    @property
    def layers(self) -> int:
        return self.config["num_hidden_layers"]

    @property
    def middle(self) -> int:
        return self.layers // 2 - 1

    @property
    def width(self) -> int:
        return self.config["hidden_size"]

    @property
    def dtype(self) -> str:
        return self.config["dtype"]

    def __str__(self) -> str:
        return f"{self.layers} x {self.width} {self.dtype}"

    def linear_operations(
        self, rows: int, layers: int, rest_of_last: int
    ) -> int:
        """Of what Transformers.linear_maps computes: two for each weight that a
        row meets."""
        c = self.config
        head = self.width // c["num_attention_heads"]
        keys_and_values = 2 * c["num_key_value_heads"] * head
        # Queries and output, keys and values, gate, up and down.
        columns = 2 * self.width + keys_and_values + 3 * c["intermediate_size"]
        last = keys_and_values * rows
        last += (columns - keys_and_values) * rest_of_last
        return 2 * self.width * (rows * (layers - 1) * columns + last)

    def weight_bytes(self) -> int:
        return sum(
            path.stat().st_size for path in sides.weight_files(self.folder)
        )


class Bench:
    """What is measured with, and how often."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.binaries: pathlib.Path = arguments.binaries
        self.environments: pathlib.Path = arguments.environments
        self.threads: int = arguments.threads
        self.peers: list[str] = arguments.peers
        self._rounds: int | None = arguments.rounds
        self._server_flags: list[str] = arguments.server_flag

    def server(self, model: Model) -> sides.Server:
        return sides.Server(
            self.binaries, model.folder, self.threads, self._server_flags
        )

    def client(self, server: sides.Server) -> sides.Side:
        return sides.Side([str(self.binaries / "bench_client"), server.address])

    def peer(self, name: str, model: Model, eager: bool = False) -> sides.Side:
        python = self.environments / name.replace("_", "-") / "bin" / "python"
        command = [
            str(python if python.exists() else sys.executable),
            str(sides.HERE / "peers" / "process.py"),
            name,
            str(model.folder),
            f"--threads={self.threads}",
        ]
        return sides.Side(command + ["--eager"] * eager, announces=True)

    def rounds(self, usual: int) -> int:
        return self._rounds or usual


def report(task: str, **values: object) -> None:
    """A line of the results; a task that is reported again replaces itself."""
    print(json.dumps({"task": task} | _rounded(values)), flush=True)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def prompt(tokens: int, number: int = 0, what: str = "") -> list[int]:
    """Random ids, other ones for each number: a server that has seen a prompt
    need not compute it again."""
    generator = random.Random(f"{SEED} {tokens} {number} {what}")
    return [generator.randint(FIRST_ID, LAST_ID) for _ in range(tokens)]
