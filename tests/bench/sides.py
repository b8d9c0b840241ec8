"""The processes that are measured, and what the machine says about them."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
START_LIMIT_S = 300
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)  # of the cpu line of /proc/stat: idle, iowait


class SideEnded(Exception):
    """A process that was to answer is no more."""


class Process:
    """A child that ends with the `with` block."""

    def __init__(self, command: list[str], **streams) -> None:
        self._child = subprocess.Popen(command, **streams)
        self.id = self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def wait(self) -> int:
        """Its status, once it has ended."""
        return self._child.wait()

    def kill(self) -> None:
        """At once, without a chance to say goodbye."""
        self._child.kill()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self._child.terminate()
        self._child.wait()


class Side(Process):
    """A program that answers lines of JSON with lines of JSON. Its standard
    error goes to a file, whose end SideEnded tells.

    announces: whether it says a line of its own once it is ready.
    """

    def __init__(self, command: list[str], announces: bool = False) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        super().__init__(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._announces = announces

    def ask(self, **asked) -> dict:
        self.send(**asked)
        return self.answer()

    def send(self, **asked) -> None:
        """Several sides can be sent to before the first is asked to answer."""
        self.wait_until_ready()
        try:
            self._child.stdin.write(json.dumps(asked) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise SideEnded(self._last_words()) from None

    def answer(self) -> dict:
        line = self._child.stdout.readline()
        if not line:
            raise SideEnded(self._last_words())
        return json.loads(line)

    def wait_until_ready(self) -> None:
        if self._announces:
            self._announces = False
            self.answer()

    def _last_words(self) -> str:
        status = self._child.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines() or ["no reason given"]
        return f"{self._child.args[0]} ended with {status}: {lines[-1][:300]}"


class Server(Process):
    """phitapd with one model. `load_seconds`: until it answered."""

    def __init__(
        self,
        binaries: pathlib.Path,
        folder: pathlib.Path,
        threads: int,
        flags: list[str],
    ):
        self._state = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self._state.name) / "log"
        address = pathlib.Path(self._state.name) / "address"
        start = time.perf_counter()
        with self.log.open("w") as log:
            super().__init__(
                [
                    str(binaries / "phitapd"),
                    f"--model=model={folder}",
                    f"--threads={threads}",
                    f"--address-file={address}",
                    "--listen=127.0.0.1:0",
                    "--log-level=warning",
                    *flags,
                ],
                stdout=log,
                stderr=log,
            )
        while not (address.exists() and address.stat().st_size):
            if not self.alive or time.perf_counter() - start > START_LIMIT_S:
                raise SideEnded(f"phitapd: {self.log.read_text()}")
            time.sleep(0.002)
        self.load_seconds = time.perf_counter() - start
        self.address = address.read_text().strip()


def resident_bytes(process: int, field: str = "VmRSS") -> int:
    """VmRSS now, or VmHWM: the most since forget_peak."""
    for line in (
        pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    ):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def forget_peak(process: int) -> None:
    pathlib.Path(f"/proc/{process}/clear_refs").write_text("5")


def weight_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*.safetensors"))


def warm_cache(folder: pathlib.Path) -> None:
    """Reads the weights, so that the next load finds them in memory."""
    for path in weight_files(folder):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def cool_cache(folder: pathlib.Path) -> None:
    """Asks the kernel to drop the weights, so that the next load reads them."""
    for path in weight_files(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Neighbours:
    """How many cores processes other than ours were using; near 0 on a machine
    that is fit for measuring."""

    def __init__(self, ours: list[int]) -> None:
        self._ours = [os.getpid(), *ours]
        self._start = time.perf_counter(), self._busy(), self._used()

    def cores(self) -> float:
        wall, busy, used = self._start
        wall = time.perf_counter() - wall
        others = (self._busy() - busy) - (self._used() - used)
        return max(0.0, others / wall)

    @staticmethod
    def _busy() -> float:
        fields = (
            pathlib.Path("/proc/stat")
            .read_text()
            .split("\n", 1)[0]
            .split()[1:9]
        )
        ticks = [
            int(field)
            for at, field in enumerate(fields)
            if at not in IDLE_FIELDS
        ]
        return sum(ticks) / CLOCK_TICKS

    def _used(self) -> float:
        ticks = 0
        for process in self._ours:
            with contextlib.suppress(FileNotFoundError):  # it has ended
                text = pathlib.Path(f"/proc/{process}/stat").read_text()
                fields = text.rsplit(")", 1)[1].split()
                # With children that have ended.
                ticks += sum(map(int, fields[11:15]))
        return ticks / CLOCK_TICKS
