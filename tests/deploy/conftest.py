"""The programs that tests/deploy/install-tools.sh installs, and a real server for them to talk to."""

import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

# Where cores are shared, threads that wait for the others must let them run.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))

from served import SERVER, RunningServer, running_server  # noqa: E402

TOOLS = ROOT / "build" / "deps" / "tools"
WHEELS = TOOLS / "wheels"


@dataclasses.dataclass(frozen=True)
class Tool:
    """An installed program."""
    path: pathlib.Path

    def run(self, *arguments, timeout: float = 120, **options) -> subprocess.CompletedProcess:
        return subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options)

    def output(self, *arguments, **options) -> str:
        done = self.run(*arguments, **options)
        assert done.returncode == 0, f"{self.path.name} {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def tool(name: str) -> Tool:
    path = TOOLS / "bin" / name
    if not path.exists():
        pytest.fail(f"{name} is not installed: tests/deploy/install-tools.sh")
    return Tool(path)


@functools.cache
def known_flags() -> frozenset[str]:
    """The server's, without their dashes."""
    text = subprocess.run([SERVER, "--help"], capture_output=True, text=True).stdout
    return frozenset(re.findall(r"^\s+--([a-z-]+)", text, re.MULTILINE))


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[RunningServer]:
    with running_server({"demo": ROOT / "deploy" / "demo-model"}, tmp_path_factory.mktemp("server"), "auto", 2) as running:
        yield running
