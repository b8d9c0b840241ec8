"""What can go wrong, one exception a cause. All derive from PhitapError."""

from __future__ import annotations

from typing import Optional

import grpc


class PhitapError(Exception):
    """Anything that phitap's client raises about a server or its answers."""


class ConnectionFailed(PhitapError):
    """No server answered at the address."""


class RequestError(PhitapError):
    """The server refused or could not finish a request.

    code: the gRPC status code, e.g. grpc.StatusCode.INVALID_ARGUMENT. line: `file:line` of the caller's program that made the offending
    part, or "". retry_after: seconds after which the server expects to have room for it, None where that will not help.
    """

    def __init__(self, code: grpc.StatusCode, message: str, line: str = "", retry_after: Optional[float] = None):
        super().__init__(f"{code.name}: {message}" + (f" (from {line})" if line else ""))
        self.code = code
        self.message = message
        self.line = line
        self.retry_after = retry_after


class RunError(PhitapError):
    """A run of a trace ended in an error; the other runs' values are still there.

    label: the run's. code: google.rpc.Code. field: path of the offending field, or "".
    """

    def __init__(self, label: str, code: int, message: str, field: str = ""):
        where = f" ({field})" if field else ""
        super().__init__(f"run {label!r} failed{where}: {message}")
        self.label = label
        self.code = code
        self.message = message
        self.field = field


class IncompleteTraceError(PhitapError):
    """The stream ended without its summary, or without all that it had announced: nothing of it can be trusted."""


class ChecksumError(PhitapError):
    """A tensor arrived with other bytes than the server sent."""


class RecordingError(PhitapError):
    """A recorded trace does something that cannot be recorded."""
