"""The server on a socket that systemd holds: systemd's own tool starts it, and what connects while no server runs waits for the next."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import phitap
from conftest import ROOT, Tool
from served import SERVER
from systemd_test import confined

SYSTEMD = ROOT / "deploy" / "systemd"
DEMO = ROOT / "deploy" / "demo-model"
FLAGS = [f"--model=demo={DEMO}", "--listen=systemd", "--threads=2"]
#: What systemd does between fork and exec: the socket is file 3, and the variables name the process that it is for.
PASS = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); os.execv(sys.argv[2], sys.argv[2:])"
#: Of HTTP/2: what a client says first, an empty SETTINGS frame, and the type of the frame that a server answers with.
PREFACE, SETTINGS, SETTINGS_TYPE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), 4


@pytest.fixture
def held() -> Iterator[socket.socket]:
    """A listening socket that outlives the servers, as systemd's does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def address_of(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


def passing(listening: socket.socket, *command: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", PASS, str(listening.fileno()), *command], pass_fds=[listening.fileno()], **options)


@contextlib.contextmanager
def server_on(listening: socket.socket, folder: pathlib.Path) -> Iterator[None]:
    """A server that is ready, with what the unit leaves it, and ends well afterwards."""
    (folder / "address").unlink(missing_ok=True)
    with open(folder / "log", "w") as log:
        server = passing(listening, *confined(), SERVER, *FLAGS, f"--address-file={folder / 'address'}", stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while not (folder / "address").exists():
        assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    yield
    server.terminate()
    assert server.wait(timeout=60) == 0, (folder / "log").read_text()


def test_the_server_serves_on_the_socket_that_it_is_passed(held, tmp_path):
    with server_on(held, tmp_path), phitap.Client(address_of(held), timeout=60) as client:
        assert (tmp_path / "address").read_text().strip() == address_of(held)
        assert len(client.trace("When Mary", ["logits"]).runs[0].tokens) > 0


def test_what_connects_while_no_server_runs_waits_for_the_next_one(held, tmp_path):
    with server_on(held, tmp_path):
        pass
    # A server that had opened it itself would refuse this.
    with socket.create_connection(held.getsockname(), timeout=60) as waiting:
        waiting.sendall(PREFACE + SETTINGS)
        with server_on(held, tmp_path):
            assert waiting.recv(9)[3] == SETTINGS_TYPE
            assert Tool(SERVER.parent / "phitap").output("health", f"--server={address_of(held)}") == "SERVING\n"


def test_systemds_own_tool_starts_the_server_with_the_first_client(tmp_path):
    path = tmp_path / "phitapd.sock"
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(["systemd-socket-activate", f"--listen={path}", SERVER, *FLAGS], stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not path.exists():
        assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.05)
    # The connection starts it; until the model is loaded it says NOT_SERVING.
    health = Tool(SERVER.parent / "phitap").run("health", f"--server=unix:{path}", "--wait=120", timeout=180)
    assert health.returncode == 0 and health.stdout == "SERVING\n", health.stderr + (tmp_path / "log").read_text()
    assert f"unix:{path}" in (tmp_path / "log").read_text()
    server.terminate()
    assert server.wait(timeout=60) == 0


def test_a_socket_that_the_configuration_does_not_take_is_refused(held):
    server = passing(held, SERVER, f"--model=demo={DEMO}", "--listen=127.0.0.1:0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, _ = server.communicate(timeout=60)
    assert server.returncode == 2 and f"systemd has passed a socket, {address_of(held)}" in said


def test_a_configuration_that_waits_for_a_socket_in_vain_is_refused():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTEN_")}
    done = subprocess.run([SERVER, *FLAGS], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 2 and "--listen: systemd has passed no socket" in done.stderr


def test_the_socket_unit_and_the_configuration_name_the_same_place():
    [listens] = [line.split("=", 1)[1] for line in (SYSTEMD / "phitapd.socket").read_text().splitlines() if line.startswith("ListenStream=")]
    configured = (SYSTEMD / "phitapd.toml").read_text()
    assert f'listen = "{listens}"' in configured and 'listen = "systemd"' in configured
