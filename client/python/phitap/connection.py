"""The connection to a server: its encryption, and who calls."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from typing import Optional

import grpc

from phitap.errors import PhitapError

_LOCAL = re.compile(r"unix:|localhost:|127\.|\[::1\]:")
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.lookahead_bytes", 16 << 20),
    ("grpc.http2.max_frame_size", 4 << 20),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own: to the server it is who asks
]


class ConnectionRefused(PhitapError):
    """The connection would not be safe, or a file for it cannot be used."""


@dataclasses.dataclass(frozen=True)
class Tls:
    """An encrypted connection; files are PEM.

    ca: the authorities that may have signed the server's certificate; None for those that come with gRPC. cert, key: the client's own
    certificate, and its key. server_name: what the server's certificate names, where that is not the address.
    """

    ca: Optional[str] = None
    cert: Optional[str] = None
    key: Optional[str] = None
    server_name: Optional[str] = None

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.cert is None) != (self.key is None):
            raise ConnectionRefused("Tls: give cert and key, or neither")
        return grpc.ssl_channel_credentials(_pem("ca", self.ca), _pem("key", self.key), _pem("cert", self.cert))


def _pem(name: str, path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise ConnectionRefused(f"Tls.{name}: {path} cannot be read: {error.strerror}") from error
    if b"-----BEGIN " not in text:
        raise ConnectionRefused(f"Tls.{name}: {path} has nothing in PEM")
    return text


def open_channel(address: str, token: Optional[str], tls: Optional[Tls],
                 credentials: Optional[grpc.ChannelCredentials]) -> grpc.Channel:
    """A channel whose calls all carry the token: the given one, else PHITAP_TOKEN's."""
    if tls is not None and credentials is not None:
        raise ConnectionRefused("give tls or credentials, not both")
    options = list(_OPTIONS)
    if tls is not None:
        credentials = tls.credentials()
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
    token = os.environ.get("PHITAP_TOKEN", "") if token is None else token
    if token and not re.fullmatch(r"[!-~]+", token):
        raise ConnectionRefused("token: has letters that no token has; it is one line, as `phitap token new` prints it")
    if credentials is not None:
        channel = grpc.secure_channel(address, credentials, options=options)
    elif token and not _LOCAL.match(address):
        raise ConnectionRefused(f"token: would go to {address} for everybody on the way to read; give tls=phitap.Tls(...)")
    else:
        channel = grpc.insecure_channel(address, options=options)
    return grpc.intercept_channel(channel, _TokenSender(token)) if token else channel


class _Details(collections.namedtuple("_Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression")),
               grpc.ClientCallDetails):
    pass


class _TokenSender(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor):
    """Adds the token to the headers of a call. gRPC's own call credentials refuse connections that do not leave the machine, too."""

    def __init__(self, token: str):
        self._header = ("authorization", f"Bearer {token}")

    def _send(self, continuation, details, request):
        signed = _Details(details.method, details.timeout, [*(details.metadata or ()), self._header], details.credentials,
                          getattr(details, "wait_for_ready", None), getattr(details, "compression", None))
        return continuation(signed, request)

    def intercept_unary_unary(self, continuation, client_call_details, request):
        return self._send(continuation, client_call_details, request)

    def intercept_unary_stream(self, continuation, client_call_details, request):
        return self._send(continuation, client_call_details, request)

    def intercept_stream_unary(self, continuation, client_call_details, request_iterator):
        return self._send(continuation, client_call_details, request_iterator)
