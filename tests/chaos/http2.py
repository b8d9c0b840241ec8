"""HTTP/2 by hand, for what no client library does."""

# SPDX-License-Identifier: Apache-2.0

import enum
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
HEADER_BYTES = 9
WAIT_S = 20


class Kind(enum.IntEnum):
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8


class Ended(Exception):
    """The server has ended the connection. error, why: of its GOAWAY; None and "" where there was none."""

    def __init__(self, error: int | None, why: str):
        super().__init__(f"error {error}: {why}")
        self.error, self.why = error, why


class Connection:
    """Reads what the server sends only while it waits for something; a few kilobytes may pass."""

    def __init__(self, address: str):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received, self._streams = b"", 0
        self._goaway: tuple[int | None, str] = (None, "")
        self._send(PREFACE + _frame(Kind.SETTINGS))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *exception) -> None:
        self._socket.close()

    def ping(self) -> None:
        """Returns once the server has answered. Raises Ended."""
        self._send(_frame(Kind.PING, payload=bytes(8)))
        self._await(lambda kind, flags, stream: kind is Kind.PING and flags & ACK)

    def call(self, path: str) -> None:
        """A gRPC call with an empty message, to its end, whatever that is. Raises Ended."""
        self._streams += 1
        stream = 2 * self._streams - 1
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "phitap", "content-type": "application/grpc", "te": "trailers"}
        # Each a literal that is not indexed, without Huffman codes.
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
        self._send(_frame(Kind.HEADERS, END_HEADERS, stream, block) + _frame(Kind.DATA, END_STREAM, stream, bytes(5)))
        self._await(lambda kind, flags, on: on == stream and (kind is Kind.RST_STREAM or flags & END_STREAM))

    def _send(self, frames: bytes) -> None:
        try:
            self._socket.sendall(frames)
        except OSError:
            self._await(lambda *frame: False)  # ends with the reason, if the server has given one

    def _await(self, wanted) -> None:
        while True:
            length, kind, flags, stream = self._header()
            payload = self._take(length)
            if kind == Kind.GOAWAY:
                self._goaway = struct.unpack(">I", payload[4:8])[0], payload[8:].decode(errors="replace")
            if kind == Kind.SETTINGS and not flags & ACK:
                self._socket.sendall(_frame(Kind.SETTINGS, ACK))
            if kind in list(Kind) and wanted(Kind(kind), flags, stream):
                return

    def _header(self) -> tuple[int, int, int, int]:
        header = self._take(HEADER_BYTES)
        return int.from_bytes(header[:3], "big"), header[3], header[4], int.from_bytes(header[5:], "big") & 0x7FFFFFFF

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                piece = self._socket.recv(1 << 16)
            except ConnectionError:
                piece = b""
            if not piece:
                raise Ended(*self._goaway)
            self._received += piece
        taken, self._received = self._received[:count], self._received[count:]
        return taken


def _frame(kind: Kind, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _text(text: str) -> bytes:
    assert len(text) < 127
    return bytes([len(text)]) + text.encode()
