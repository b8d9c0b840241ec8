"""What administrators do with a server; every call needs the role `admin`."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Optional

import grpc

from phitap.v1 import admin_service_pb2 as admin_pb2
from phitap.v1 import admin_service_pb2_grpc

#: Is told how far a model is: name, status, stage, progress (0 to 1), …
OnState = Callable[[admin_pb2.ModelState], Any]

_LEVELS = ("debug", "info", "warning", "error")


class Admin:
    """Made by Client.admin, over the client's connection."""

    def __init__(self, channel: grpc.Channel, errors: Callable[[], AbstractContextManager[None]], timeout: Optional[float]):
        self._stub = admin_service_pb2_grpc.AdminServiceStub(channel)
        self._errors = errors
        self._timeout = timeout

    def model_states(self) -> list[admin_pb2.ModelState]:
        """Every model that the server knows of, loaded or not."""
        with self._errors():
            return list(self._stub.ListModelStates(admin_pb2.ListModelStatesRequest(), timeout=self._timeout).models)

    def load_model(self, name: str, path: str = "", *, on_state: Optional[OnState] = None) -> None:
        """Loads a checkpoint below the server's model folder (default: the folder of that name); returns once it is ready."""
        self._follow(self._stub.LoadModel, admin_pb2.LoadModelRequest(name=name, path=path), on_state)

    def reload_model(self, name: str, *, on_state: Optional[OnState] = None) -> None:
        """Loads a model anew; returns once the new one takes requests and those of the old one have ended."""
        self._follow(self._stub.ReloadModel, admin_pb2.ReloadModelRequest(name=name), on_state)

    def unload_model(self, name: str) -> None:
        """Takes a model away; returns once the traces that it had accepted have ended."""
        with self._errors():
            self._stub.UnloadModel(admin_pb2.UnloadModelRequest(name=name), timeout=self._timeout)

    def set_log_level(self, level: str) -> None:
        """level: debug, info, warning or error: the least that is logged."""
        if level not in _LEVELS:
            raise ValueError(f"level {level!r}; valid: {', '.join(_LEVELS)}")
        with self._errors():
            value = admin_pb2.LogVerbosity.Value(f"LOG_VERBOSITY_{level.upper()}")
            self._stub.SetLogLevel(admin_pb2.SetLogLevelRequest(level=value), timeout=self._timeout)

    def watch_activity(self, interval_s: float = 1.0) -> Iterator[admin_pb2.WatchActivityResponse]:
        """What the server is doing: now, and then once every `interval_s` seconds (0.1 to 3600) until the loop is left."""
        request = admin_pb2.WatchActivityRequest()
        request.interval.FromTimedelta(datetime.timedelta(seconds=interval_s))
        with self._errors():
            call = self._stub.WatchActivity(request)
            try:
                yield from call
            finally:
                call.cancel()

    def drain_server(self) -> None:
        """Has the server stop once what it accepted has ended; returns at once."""
        with self._errors():
            self._stub.DrainServer(admin_pb2.DrainServerRequest(), timeout=self._timeout)

    def _follow(self, method: Any, request: Any, on_state: Optional[OnState]) -> None:
        with self._errors():
            for response in method(request, timeout=self._timeout):
                if on_state is not None:
                    on_state(response.model)
