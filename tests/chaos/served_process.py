"""phitapd as an operator would find it: with limits, signals, and what the kernel says about it."""

# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("PHITAPD", ROOT / "build" / "release" / "bin" / "phitapd")).parent
DEMO = ROOT / "deploy" / "demo-model"
START_LIMIT_S = 60


class ServedProcess:
    """Killed at the end of the `with` block if it still runs.

    under: a command that runs it.
    """

    def __init__(self, model: pathlib.Path = DEMO, flags: Sequence[str] = (), under: Sequence[str] = (),
                 environment: Mapping[str, str] = {}):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        self._log, address = folder / "log", folder / "address"
        with self._log.open("w") as output:
            self._child = subprocess.Popen(
                [*under, BINARIES / "phitapd", f"--model=demo={model}", "--listen=127.0.0.1:0", f"--address-file={address}", *flags],
                stdout=output, stderr=subprocess.STDOUT, env=os.environ | dict(environment))
        deadline = time.monotonic() + START_LIMIT_S
        while not (address.exists() and address.read_text().strip()):
            if self._child.poll() is not None or time.monotonic() > deadline:
                self._child.kill()
                raise RuntimeError(f"phitapd did not start: {self.log()}")
            time.sleep(0.02)
        self.address = address.read_text().strip()

    def __enter__(self) -> "ServedProcess":
        return self

    def __exit__(self, *exception) -> None:
        if self.alive:
            self.signal(signal.SIGCONT)
            self._child.kill()
            self._child.wait()
        self._folder.cleanup()

    @property
    def id(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def wait(self, seconds: float = 60) -> int:
        """Its status; minus the signal that ended it."""
        return self._child.wait(seconds)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def ended_traces(self) -> dict[str, int]:
        """As the server counts them: by code."""
        codes = re.findall(r"trace ended .*?\bcode=(\w+)", self.log())
        return {code: codes.count(code) for code in set(codes)}

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.id}/fd"))

    def anonymous_bytes(self) -> int:
        text = pathlib.Path(f"/proc/{self.id}/status").read_text()
        return int(re.search(r"^RssAnon:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.id}/task"))
