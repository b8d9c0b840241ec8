"""The C++ forward as the tests call it: one process a checkpoint, every value that the forward shows as a torch tensor."""

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("PHITAP_FORWARD_DUMP", ROOT / "build" / "release" / "bin" / "forward_dump"))
DTYPES = {"Float": torch.float32, "BFloat16": torch.bfloat16, "Half": torch.float16, "Long": torch.int64}


@dataclasses.dataclass(frozen=True)
class Value:
    positions: list[int]  # of the first dimension; of the queries for scores and probabilities
    tensor: torch.Tensor  # [positions, …]; [heads, positions, keys] for scores and probabilities


#: (row, hook, layer) → value; layer −1 for hooks of the whole model.
Values = dict[tuple[int, str, int], Value]


class ForwardEngine:
    """Not thread-safe."""

    def __init__(self, checkpoint: pathlib.Path, dtype: str):
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self._out = os.path.join(self._folder.name, "values")
        # Many threads on few cores: those that wait must sleep.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        self._process = subprocess.Popen([BINARY, checkpoint, dtype], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=environment)

    def close(self) -> None:
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0
        self._folder.cleanup()

    def forward(self, rows: list[dict], numerics: str = "causal", attention: str = "sdpa", threads: int = 2,
                hooks: list[str] | None = None) -> Values:
        """`rows` as forward_dump.cc reads them: ids, position_ids, hidden, layer_count, tail, norm, head."""
        (values,) = self._ask(rows, numerics, attention, threads, hooks=hooks or [])
        return values

    def steps(self, rows: list[dict], counts: list[int], numerics: str = "causal", attention: str = "sdpa", threads: int = 2,
              hooks: list[str] | None = None) -> list[Values]:
        """The same in steps of so many tokens of each row, going on from its keys and values."""
        return self._ask(rows, numerics, attention, threads, hooks=hooks or [], steps=counts)

    def _ask(self, rows: list[dict], numerics: str, attention: str, threads: int, **settings) -> list[Values]:
        request = {"rows": rows, "numerics": numerics, "attention": attention, "threads": threads, "out": self._out, **settings}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        stored = bytearray(pathlib.Path(self._out).read_bytes())
        values: list[Values] = [{} for _ in settings.get("steps", [0])]
        for t in answer["tensors"]:
            values[t["step"]][t["row"], t["hook"], t["layer"]] = Value(t["positions"], _tensor(stored, t))
        return values


def _tensor(stored: bytearray, description: dict) -> torch.Tensor:
    shape = description["shape"]
    count = 1
    for size in shape:
        count *= size
    return torch.frombuffer(stored, dtype=DTYPES[description["dtype"]], count=count, offset=description["offset"]).view(shape)
