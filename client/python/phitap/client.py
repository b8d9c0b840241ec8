"""The client: one method a call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import grpc

from phitap.errors import ConnectionFailed, RequestError
from phitap.request import Capture, chat_message, trace_message
from phitap.stream import Assembly, Progress, enum_name
from phitap.trace import TensorSpec, Trace, TracePlan
from phitap.v1 import activation_service_pb2 as service_pb2
from phitap.v1 import activation_service_pb2_grpc, model_pb2, trace_pb2

_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.lookahead_bytes", 16 << 20),
    ("grpc.http2.max_frame_size", 4 << 20),
]


class Client:
    """A connection to a phitap server. Thread-safe.

    address: HOST:PORT or unix:PATH. credentials: for TLS, e.g. grpc.ssl_channel_credentials(...); default none.
    timeout: seconds that a call may take, unless it says otherwise; default no limit of the client's own.
    """

    def __init__(self, address: str = "127.0.0.1:7777", *, credentials: Optional[grpc.ChannelCredentials] = None,
                 timeout: Optional[float] = None):
        self.address = address
        self._timeout = timeout
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=_CHANNEL_OPTIONS)
        self._stub = activation_service_pb2_grpc.ActivationServiceStub(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and the calls on it."""
        self._channel.close()

    def trace(self, prompts: Any, captures: Union[str, Capture, Iterable[Union[str, Capture]]], *, model: str = "",
              numerics: Optional[str] = None, attention: Optional[str] = None, isolate: bool = False,
              timeout: Optional[float] = None, progress: Optional[Progress] = None) -> Trace:
        """Runs the prompts and returns the captured values.

        prompts: text, a list of token ids, a chat (a list of dicts), a Prompt, or a list of these (as many runs).
        captures: hook points (or Captures). model: may be left out where the server holds one. numerics: "causal" (default) or
        "transformers". attention: "sdpa" (default) or "eager". isolate: share no batch with anyone. progress: called as bytes come in.

        Raises RequestError (the request was refused or failed), RunError (every run failed), IncompleteTraceError, ChecksumError,
        ConnectionFailed.
        """
        request = trace_message(prompts, captures, model=model, numerics=numerics, attention=attention, isolate=isolate,
                                report_progress=False)
        with self._errors():
            return Assembly(progress).read(self._stub.Trace(request, timeout=timeout or self._timeout))

    def plan(self, prompts: Any, captures: Union[str, Capture, Iterable[Union[str, Capture]]], *, model: str = "",
             numerics: Optional[str] = None, attention: Optional[str] = None, isolate: bool = False,
             timeout: Optional[float] = None) -> TracePlan:
        """What trace would return and cost with the same arguments, without running it."""
        request = trace_message(prompts, captures, model=model, numerics=numerics, attention=attention, isolate=isolate,
                                report_progress=False)
        with self._errors():
            plan = self._stub.PlanTrace(service_pb2.PlanTraceRequest(trace=request), timeout=timeout or self._timeout)
        return TracePlan([TensorSpec.of(tensor) for tensor in plan.tensors], {run.run: list(run.ids) for run in plan.runs},
                         plan.size_bytes, plan.token_layers, plan.token_layers_full_depth,
                         enum_name(trace_pb2.Numerics, plan.numerics), enum_name(trace_pb2.Attention, plan.attention))

    def models(self) -> list[model_pb2.ModelSummary]:
        """The loaded models, in brief: name, config, weights_digest, …"""
        with self._errors():
            return list(self._stub.ListModels(service_pb2.ListModelsRequest(), timeout=self._timeout).models)

    def model_details(self, model: str = "") -> model_pb2.Model:
        """One model in full: config, hook points, printout, numerics."""
        with self._errors():
            return self._stub.GetModel(service_pb2.GetModelRequest(model=model), timeout=self._timeout).model

    def hook_points(self, model: str = "") -> list[model_pb2.HookPoint]:
        """Every hook point of the model, in forward order."""
        return list(self.model_details(model).hook_points)

    def tokenize(self, prompt: Union[str, Sequence[Mapping[str, str]]], *, model: str = "",
                 add_generation_prompt: Optional[bool] = None) -> list[int]:
        """Token ids of a text or a conversation."""
        request = service_pb2.TokenizeRequest(model=model)
        if isinstance(prompt, str):
            request.text = prompt
        else:
            request.chat.CopyFrom(chat_message(prompt, add_generation_prompt))
        with self._errors():
            return list(self._stub.Tokenize(request, timeout=self._timeout).ids)

    def detokenize(self, ids: Iterable[int], *, model: str = "", skip_special_tokens: bool = False) -> str:
        """Text of token ids."""
        request = service_pb2.DetokenizeRequest(model=model, ids=[int(token) for token in ids], skip_special_tokens=skip_special_tokens)
        with self._errors():
            return self._stub.Detokenize(request, timeout=self._timeout).text

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE and "connect" in (error.details() or "").lower():
                raise ConnectionFailed(f"no phitap server answers at {self.address} ({error.details()}); start one with "
                                       "phitapd --model NAME=PATH, or give its address") from error
            raise RequestError(error.code(), error.details() or "no reason given") from error
