"""What every measurement shares: the models, the sides, rounds, a report."""

# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses
import json
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable

import sides

SETTLE_S = 0.05  # idle threads of the side that has just worked stop spinning
SEED = 20240501
FIRST_ID, LAST_ID = 3, 2000  # of random prompts; inside every vocabulary
EVERY_LAYER = "layers.*.layer_output"


@dataclasses.dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rounds: int
    small_traces: int
    streams: int
    streamed_positions: int


QUICK = Extent(rounds=1, small_traces=50, streams=2, streamed_positions=512)
WHOLE = Extent(rounds=7, small_traces=300, streams=25, streamed_positions=1000)


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

    def __str__(self) -> str:
        return f"{self.layers} x {self.config['hidden_size']} {self.config['dtype']}"

    def weight_bytes(self) -> int:
        return sum(
            path.stat().st_size for path in sides.weight_files(self.folder)
        )

    def operations(self, token_layers: int) -> int:
        """Of the linear maps: two for each weight of a layer and token."""
        c = self.config
        head = c["hidden_size"] // c["num_attention_heads"]
        queries = c["num_attention_heads"] * head
        keys_and_values = 2 * c["num_key_value_heads"] * head
        columns = 2 * queries + keys_and_values + 3 * c["intermediate_size"]
        return 2 * token_layers * c["hidden_size"] * columns

    def matmul_operations(self, rows: int) -> int:
        """Of the linear layer that transformers_side.py's `matmul` is."""
        c = self.config
        return 2 * rows * c["hidden_size"] * 2 * c["intermediate_size"]


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.binaries = arguments.binaries
        self.threads = arguments.threads
        self.extent = QUICK if arguments.quick else WHOLE

    def server(self, model: Model) -> sides.Server:
        return sides.Server(self.binaries, model.folder, self.threads)

    def client(self, server: sides.Server) -> sides.Side:
        return sides.Side([str(self.binaries / "bench_client"), server.address])

    def transformers(self, model: Model) -> sides.Side:
        script = str(sides.HERE / "transformers_side.py")
        return sides.Side(
            [
                sys.executable,
                script,
                str(model.folder),
                f"--threads={self.threads}",
            ]
        )

    def rounds(
        self, count: int, actions: dict[str, Callable[[], dict]]
    ) -> dict[str, list[dict]]:
        taken: dict[str, list[dict]] = {name: [] for name in actions}
        for number in range(count + 1):
            for name in sorted(actions, reverse=number % 2 == 1):
                time.sleep(SETTLE_S)
                answer = actions[name]()
                if number > 0:
                    taken[name].append(answer)
        return taken


def report(task: str, **values: object) -> None:
    rounded = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in values.items()
    }
    print(json.dumps({"task": task} | rounded), flush=True)


def prompt(tokens: int) -> list[int]:
    generator = random.Random(SEED + tokens)
    return [generator.randint(FIRST_ID, LAST_ID) for _ in range(tokens)]


def seconds(answers: list[dict]) -> list[float]:
    return [second for answer in answers for second in answer["seconds"]]


def median_ratio(over: list[float], under: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under))
