"""The real server on checkpoints, and what its answers are compared by."""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("PHITAPD", ROOT / "build" / "release" / "bin" / "phitapd"))


@dataclasses.dataclass
class RunningServer:
    """A server that listens, and what it has written so far."""
    address: str
    pid: int
    log: pathlib.Path


@contextlib.contextmanager
def running_server(checkpoints: Mapping[str, pathlib.Path], folder: pathlib.Path, dtype: str, threads: int,
                   *flags: str, under: Sequence[str] = ()) -> Iterator[RunningServer]:
    """Holds the checkpoints by their names, and ends well afterwards. folder: for its files. under: a command that runs it."""
    port, log = folder / "port", folder / "log"
    with open(log, "w") as output:
        server = subprocess.Popen(
            [*under, SERVER, *(f"--model={name}={path}" for name, path in checkpoints.items()), "--listen", "127.0.0.1:0",
             "--address-file", port, "--dtype", dtype, "--threads", str(threads), *flags], stdout=output, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 120
    while not (port.exists() and port.read_text().strip()):
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    yield RunningServer(port.read_text().strip(), server.pid, log)
    server.terminate()
    assert server.wait(timeout=60) == 0, log.read_text()


def serve(checkpoints: Mapping[str, pathlib.Path], folder: pathlib.Path, dtype: str, threads: int, *flags: str) -> Iterator[str]:
    """Gives the address of such a server, for fixtures."""
    with running_server(checkpoints, folder, dtype, threads, *flags) as server:
        yield server.address


def bits(value: np.ndarray) -> bytes:
    """The bytes, every NaN the same."""
    if value.dtype.kind in "iu":
        return value.tobytes()
    return np.where(np.isnan(value.astype(np.float32)), value.dtype.type(np.nan), value).tobytes()


def same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal, any NaN to any NaN."""
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and bool(((ours == theirs) | (ours.isnan() & theirs.isnan())).all())
