"""What clients, networks and machines do to a server. Each fault is done once or some times; it returns how often."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable

from google.protobuf import json_format

import load_requests
from ledger import Asked, Ledger, large_request
from http2 import Connection, Ended
from load_requests import Stub
from served_process import BINARIES, ServedProcess
from wire import Fault, Wire

PAUSE_S = 0.5
LARGE = Asked("large", large_request(), "")
#: What may come to a port that is open: of other protocols, of HTTP/2 and of none.
GARBAGE = (
    b"",
    b"GET / HTTP/1.1\r\nHost: phitap\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(4096),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x04\x01\x04\x00\x00\x00\x01\x3f\xff\xff\xff" * 50,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678" * 300,
)


@dataclasses.dataclass
class Scene:
    """A server under load, and who disturbs it."""
    server: ServedProcess
    asked: list[Asked]
    ledger: Ledger
    draw: random.Random

    def ask_through(self, wire: Wire, asked: Asked) -> None:
        with load_requests.connect(wire.address) as channel:
            self.ledger.ask(Stub(channel), asked, disturbed=True, altered=wire.alters, patience=5)


def kill_clients(scene: Scene) -> int:
    """Processes that have asked for much, without a chance to say goodbye."""
    with tempfile.TemporaryDirectory() as folder:
        request = pathlib.Path(folder) / "large.json"
        request.write_text(json_format.MessageToJson(LARGE.message))
        clients = [subprocess.Popen([BINARIES / "phitap", "--server", scene.server.address, "trace", "--request", request],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]
        for client in clients:
            time.sleep(scene.draw.uniform(0, 0.2))
            client.kill()
        for client in clients:
            client.wait()
            scene.ledger.note("given up by the client", "KILLED")
    return len(clients)


def through_wire(fault: Fault, count: int, most_bytes: int) -> Callable[[Scene], int]:
    """Small and large requests, some at a time, over connections that fail."""
    def disturb(scene: Scene) -> int:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(scene.server.address, fault, scene.draw.randrange(most_bytes), seed)) for seed in range(count)]
            threads = [threading.Thread(target=scene.ask_through, args=[wire, scene.draw.choice([LARGE, *scene.asked])]) for wire in wires]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return count
    return disturb


def send_garbage(scene: Scene) -> int:
    """Half of them are left open for a while."""
    host, port = scene.server.address.rsplit(":", 1)
    payloads = [*GARBAGE, *(scene.draw.randbytes(scene.draw.randrange(2000)) for _ in range(13))]
    with contextlib.ExitStack() as stack:
        for payload in payloads:
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            with contextlib.suppress(OSError):
                connection.sendall(payload)
            if scene.draw.random() < 0.5:
                connection.close()
        time.sleep(PAUSE_S)
    return len(payloads)


def ping_without_end(scene: Scene) -> int:
    """Until the server has had enough."""
    for _ in range(4):
        with contextlib.suppress(Ended, OSError), Connection(scene.server.address) as client:
            for _ in range(100):
                client.ping()
            scene.ledger.trouble("a client pinged a hundred times")
    return 4


def stop_and_go_on(scene: Scene) -> int:
    """As a debugger or a freezer would."""
    for _ in range(2):
        scene.server.signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        scene.server.signal(signal.SIGCONT)
        time.sleep(PAUSE_S)
    return 2


def take_every_file(scene: Scene) -> int:
    """More connections than the server may have files. Who is there goes on; once they are gone, others come in again."""
    host, port = scene.server.address.rsplit(":", 1)
    connections = []
    for _ in range(400):
        connection = socket.socket()
        connection.settimeout(1)
        with contextlib.suppress(OSError):
            connection.connect((host, int(port)))
        connections.append(connection)
    time.sleep(PAUSE_S)
    for connection in connections:
        connection.close()
    with load_requests.connect(scene.server.address) as channel:
        scene.ledger.ask(Stub(channel), scene.draw.choice(scene.asked))
    return len(connections)


#: What each is called in the figures.
FAULTS: dict[str, Callable[[Scene], int]] = {
    "clients killed mid-stream": kill_clients,
    Fault.CUT.value: through_wire(Fault.CUT, 8, 1 << 20),
    Fault.HALF_CLOSED.value: through_wire(Fault.HALF_CLOSED, 6, 1 << 18),
    Fault.CHOKED.value: through_wire(Fault.CHOKED, 3, 1 << 18),
    Fault.DRIPPING.value: through_wire(Fault.DRIPPING, 3, 1 << 12),
    Fault.GARBLED.value: through_wire(Fault.GARBLED, 6, 1),
    "garbage sent to the port": send_garbage,
    "clients that ping without end": ping_without_end,
    "SIGSTOP and SIGCONT": stop_and_go_on,
    "connections past the limit of files": take_every_file,
}
