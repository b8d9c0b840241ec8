"""A wire to the server that can be cut, choked or garbled."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import enum
import random
import select
import socket
import struct
import threading

PIECE_BYTES = 1 << 14
LINGER_NOT = struct.pack("ii", 1, 0)


class Fault(enum.Enum):
    CUT = "connections reset mid-stream"
    HALF_CLOSED = "connections half closed"
    CHOKED = "readers that stop reading"
    DRIPPING = "readers that read slowly"
    GARBLED = "connections with bytes changed"


class Wire:
    """Forwards the connections made to `address`, each of them once, with a fault.

    after_bytes: of the answer, that pass before a connection is cut, closed or choked.
    """

    def __init__(self, server: str, fault: Fault, after_bytes: int, seed: int = 0):
        host, port = server.rsplit(":", 1)
        self._server, self._fault, self._after, self._random = (host, int(port)), fault, after_bytes, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]

    @property
    def alters(self) -> bool:
        """Whether what the server is asked may differ from what the client asks."""
        return self._fault is Fault.GARBLED

    def __enter__(self) -> "Wire":
        self._start(self._accept)
        return self

    def __exit__(self, *exception) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, work, *arguments) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                self._start(self._forward, self._listener.accept()[0])

    def _forward(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            self._exchange(client, server)

    def _exchange(self, client: socket.socket, server: socket.socket) -> None:
        """Until one side ends, or the fault ends both."""
        passed, readable = 0, [client, server]
        while not self._stop.is_set():
            for source in select.select(readable, [], [], 0.05)[0]:
                piece = source.recv(PIECE_BYTES)
                if not piece:
                    return
                if source is client:
                    server.sendall(self._garbled(piece))
                else:
                    passed += len(piece)
                    client.sendall(piece)
            if passed < self._after:
                continue
            if self._fault is Fault.CUT:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                return
            if self._fault is Fault.HALF_CLOSED and client in readable:
                server.shutdown(socket.SHUT_WR)
                readable = [server]
            elif self._fault is Fault.CHOKED:
                readable = [client]
            elif self._fault is Fault.DRIPPING:
                self._stop.wait(0.1)

    def _garbled(self, piece: bytes) -> bytes:
        """Not the first bytes, with which every connection begins."""
        if self._fault is not Fault.GARBLED or len(piece) < 100:
            return piece
        changed = bytearray(piece)
        for _ in range(3):
            changed[self._random.randrange(50, len(changed))] = self._random.randrange(256)
        return bytes(changed)
