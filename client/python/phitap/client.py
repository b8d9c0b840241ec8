"""The client: one method a call."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import grpc

from phitap import tensors
from phitap.connection import Tls, open_channel
from phitap.errors import ConnectionFailed, RequestError
from phitap.metrics import Gradient, Sweep
from phitap.request import Capture, Generation, Options, build, chat_message, run_prompts, trace_message
from phitap.stream import Assembly, Progress, Stream, TokenStream, enum_name
from phitap.trace import TensorSpec, Trace, TracePlan
from phitap.v1 import activation_service_pb2 as service_pb2
from phitap.v1 import activation_service_pb2_grpc, model_pb2, trace_pb2

if TYPE_CHECKING:
    from phitap.admin import Admin
    from phitap.recording.model import Model

Captures = Union[str, Capture, Iterable[Union[str, Capture]]]

#: Fields of a request that come from one line of the caller's program.
_FIELDS = re.compile(r"runs\[\d+\]\.interventions\[\d+\]|program\.nodes\[\d+\]|captures\[\d+\]")


class Client:
    """A connection to a phitap server. Thread-safe.

    address: HOST:PORT or unix:PATH. token: says who calls; default: the environment's PHITAP_TOKEN, "" for none. It is not sent to
    another machine without encryption. tls: see Tls; or credentials, as gRPC makes them. Default: not encrypted.
    timeout: seconds that a call may take, unless it says otherwise; default no limit of the client's own.
    """

    def __init__(self, address: str = "127.0.0.1:7777", *, token: Optional[str] = None, tls: Optional[Tls] = None,
                 credentials: Optional[grpc.ChannelCredentials] = None, timeout: Optional[float] = None):
        self.address = address
        self._timeout = timeout
        self._channel = open_channel(address, token, tls, credentials)
        self._stub = activation_service_pb2_grpc.ActivationServiceStub(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and the calls on it."""
        self._channel.close()

    def trace(self, prompts: Any, captures: Captures = (), *, gradients: Iterable[Gradient] = (), sweeps: Iterable[Sweep] = (),
              timeout: Optional[float] = None, progress: Optional[Progress] = None, **options: Any) -> Trace:
        """Runs the prompts and returns the captured values.

        prompts: text, a list of token ids, a chat (a list of dicts), a Prompt, or a list of these (as many runs).
        captures: hook points (or Captures). gradients, sweeps: see phitap.metrics. progress: called as bytes come in.
        options: model=, numerics=, attention=, longrope_cache=, isolate= and priority=, as in Options.

        Raises RequestError (the request was refused or failed), RunError (every run failed), IncompleteTraceError, ChecksumError,
        ConnectionFailed.
        """
        builder = build(prompts, captures, Options(**options), gradients, sweeps)
        return self.send(builder.request, timeout=timeout, progress=progress, lines=builder.lines)

    def send(self, request: trace_pb2.TraceRequest, *, timeout: Optional[float] = None, progress: Optional[Progress] = None,
             lines: Mapping[str, str] = {}) -> Trace:
        """Runs a request that is a message already; otherwise as trace. lines: where fields of it come from, to say so in errors."""
        with self._errors(lines):
            return _assembly(request, progress).read(self._stub.Trace(request, timeout=timeout or self._timeout))

    def stream(self, request: trace_pb2.TraceRequest, *, timeout: Optional[float] = None) -> "Stream":
        """Runs a request and gives its tokens and tensors as they come: see Stream."""
        return Stream(_assembly(request, None), self._stub.Trace(request, timeout=timeout or self._timeout), self._errors)

    def generate(self, prompts: Any, max_tokens: Optional[int] = None, captures: Captures = (), *, timeout: Optional[float] = None,
                 generation: Optional[Generation] = None, **options: Any) -> "TokenStream":
        """Goes on from the prompts, giving each token as it comes; the trace is there in the end.

            tokens = client.generate("When Mary and", 20, captures=["layers.3.layer_output"], model="demo")
            for token in tokens:
                print(token.text, end="")
            tokens.trace["layers.3.layer_output"]  # by step: 0 is the prompt

        prompts: as in trace; a Prompt's own generation wins. max_tokens: or a Generation with all it can say.
        """
        if (max_tokens is None) == (generation is None):
            raise ValueError("give max_tokens or a Generation, not both")
        how = generation or Generation(max_tokens)
        prompts = [dataclasses.replace(prompt, generation=prompt.generation or how) for prompt in run_prompts(prompts)]
        return TokenStream(self.stream(trace_message(prompts, captures, Options(**options)), timeout=timeout))

    def plan(self, prompts: Any, captures: Captures = (), *, gradients: Iterable[Gradient] = (), sweeps: Iterable[Sweep] = (),
             timeout: Optional[float] = None, **options: Any) -> TracePlan:
        """What trace would return and cost with the same arguments, without running it."""
        request = trace_message(prompts, captures, Options(**options), gradients, sweeps)
        with self._errors():
            plan = self._stub.PlanTrace(service_pb2.PlanTraceRequest(trace=request), timeout=timeout or self._timeout)
        return TracePlan([TensorSpec.of(tensor) for tensor in plan.tensors], {run.run: list(run.ids) for run in plan.runs},
                         plan.size_bytes, plan.token_layers, plan.token_layers_full_depth,
                         enum_name(trace_pb2.Numerics, plan.numerics), enum_name(trace_pb2.Attention, plan.attention))

    def model(self, name: str = "") -> "Model":
        """A model to trace in the recording style: see phitap.recording."""
        from phitap.recording.model import Model

        return Model(self, self.model_details(name))

    def put_tensor(self, name: str, array: Any) -> service_pb2.StoredTensor:
        """Keeps an array (numpy or torch; float32, float16 or bfloat16) on the server for edits and programs to name."""
        with self._errors():
            return self._stub.PutTensor(tensors.upload(name, tensors.to_array(array)), timeout=self._timeout).tensor

    def list_tensors(self, prefix: str = "") -> list[service_pb2.StoredTensor]:
        """The kept tensors whose name begins so: name, dtype, shape, size_bytes, …"""
        with self._errors():
            return list(self._stub.ListTensors(service_pb2.ListTensorsRequest(prefix=prefix), timeout=self._timeout).tensors)

    def delete_tensor(self, name: str) -> None:
        """Deletes a kept tensor; requests that use it already are not disturbed."""
        with self._errors():
            self._stub.DeleteTensor(service_pb2.DeleteTensorRequest(name=name), timeout=self._timeout)

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

    @property
    def admin(self) -> "Admin":
        """What administrators may do: load, unload and reload models, change the log, drain the server."""
        from phitap.admin import Admin

        return Admin(self._channel, self._errors, self._timeout)

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

    def detokenize_each(self, ids: Iterable[int], *, model: str = "") -> list[str]:
        """Text of each token id."""
        request = service_pb2.DetokenizeRequest(model=model, ids=[int(token) for token in ids])
        with self._errors():
            return list(self._stub.Detokenize(request, timeout=self._timeout).texts)

    @contextlib.contextmanager
    def _errors(self, lines: Mapping[str, str] = {}) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE and "connect" in (error.details() or "").lower():
                raise ConnectionFailed(f"no phitap server answers at {self.address} ({error.details()}); start one with "
                                       "phitapd --model NAME=PATH, or give its address") from error
            details = error.details() or "no reason given"
            line = next((lines[path] for path in _FIELDS.findall(details) if path in lines), "")
            raise RequestError(error.code(), details, line, _retry_after(error)) from error


def _retry_after(error: grpc.RpcError) -> Optional[float]:
    pushback = dict(error.trailing_metadata() or ()).get("grpc-retry-pushback-ms")
    return None if pushback is None else int(pushback) / 1000


def _assembly(request: trace_pb2.TraceRequest, progress: Optional[Progress]) -> Assembly:
    return Assembly(progress, {gradient.label or f"gradient{i}" for i, gradient in enumerate(request.gradients)},
                    {sweep.label or f"sweep{i}" for i, sweep in enumerate(request.sweeps)})
