"""What a caller asks for, in Python's terms, and its way into protobuf."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from phitap import tensors
from phitap.building import RequestBuilder
from phitap.edits import Intervention
from phitap.metrics import Gradient, Sweep
from phitap.selections import Indices, Selection, index_set
from phitap.v1 import tensor_pb2, trace_pb2
from phitap.values import READ_TIMES, Value

#: Text, token ids, a conversation (dicts with "role" and "content"), or a Prompt.
PromptLike = Union[str, Sequence[int], np.ndarray, Sequence[Mapping[str, str]], "Prompt"]

_NUMERICS = {
    None: trace_pb2.NUMERICS_UNSPECIFIED,
    "causal": trace_pb2.NUMERICS_CAUSAL,
    "transformers": trace_pb2.NUMERICS_TRANSFORMERS,
}
_ATTENTION = {
    None: trace_pb2.ATTENTION_UNSPECIFIED,
    "sdpa": trace_pb2.ATTENTION_SDPA,
    "eager": trace_pb2.ATTENTION_EAGER,
}
_LONGROPE_CACHE = {
    None: trace_pb2.LONGROPE_CACHE_UNSPECIFIED,
    "recompute": trace_pb2.LONGROPE_CACHE_RECOMPUTE,
    "keep": trace_pb2.LONGROPE_CACHE_KEEP,
}


@dataclasses.dataclass(frozen=True)
class Reduction:
    """What to compute on the server from a captured value: made by mean_over_positions, norm, top_k and logit_lens."""

    message: trace_pb2.Reduction


def mean_over_positions() -> Reduction:
    """The mean over the selected positions."""
    return Reduction(trace_pb2.Reduction(mean_over_positions=trace_pb2.MeanOverPositions()))


def norm() -> Reduction:
    """The Euclidean norm over the last dimension, float32."""
    return Reduction(trace_pb2.Reduction(norm=trace_pb2.Norm()))


def top_k(k: int) -> Reduction:
    """The k largest entries of the last dimension, best first: parts `values` and `indices`."""
    return Reduction(trace_pb2.Reduction(top_k=trace_pb2.TopK(k=k)))


def logit_lens(k: int, token_ids: Sequence[int] = (), apply_final_norm: Optional[bool] = None) -> Reduction:
    """The k likeliest tokens if the head read the value now: parts `probabilities` and `indices` [tokens, k].

    With token_ids also `token_probabilities` and `token_ranks` [tokens, ids]. apply_final_norm: default true.
    """
    return Reduction(trace_pb2.Reduction(
        logit_lens=trace_pb2.LogitLens(k=k, token_ids=token_ids, apply_final_norm=apply_final_norm)))


@dataclasses.dataclass(frozen=True)
class Capture:
    """A value to send back.

    hook_points: one or a set, e.g. "layers.*.layer_output". label: its name in the answer (default: the hook point's).
    runs: labels of the runs to read (default: all). positions, heads, features, queries, keys: which part (default: all of it);
    token_ids: positions whose token is one of these, instead of positions; steps: of generation, 0 is the prompt.
    read_time: "after" (default) or "before" the interventions there. reduce: what to make of it. dtype: element type on the wire,
    "float32", "float16" or "bfloat16" (default: as computed). tensor_name: keep it on the server under this name instead of sending it.
    node: a Value (see phitap.values) instead of hook points; then only label, dtype and tensor_name apply.
    """

    hook_points: str = ""
    label: str = ""
    runs: Sequence[str] = ()
    positions: Optional[Indices] = None
    token_ids: Sequence[int] = ()
    heads: Optional[Indices] = None
    features: Optional[Indices] = None
    queries: Optional[Indices] = None
    keys: Optional[Indices] = None
    steps: Optional[Indices] = None
    read_time: Optional[str] = None
    reduce: Optional[Reduction] = None
    dtype: Optional[str] = None
    tensor_name: str = ""
    node: Optional[Value] = None

    def fill(self, message: trace_pb2.Capture, builder: RequestBuilder) -> None:
        message.label, message.hook_points, message.tensor_name = self.label, self.hook_points, self.tensor_name
        message.runs.extend(self.runs)
        message.dtype = _choice("dtype", self.dtype, {None: tensor_pb2.DATA_TYPE_UNSPECIFIED, **tensors.DTYPE_NAMES})
        message.read_time = _choice("read_time", self.read_time, READ_TIMES)
        selection = Selection(self.positions, self.token_ids, self.heads, self.features, self.queries, self.keys, self.steps).message()
        if selection is not None:
            message.selection.CopyFrom(selection)
        if self.reduce is not None:
            message.reduction.CopyFrom(self.reduce.message)
        if self.node is not None:
            message.node = builder.node(self.node)


@dataclasses.dataclass(frozen=True)
class Generation:
    """How a run goes on after its prompt.

    max_tokens: most tokens to generate. temperature: 0 (default) takes the likeliest token, above 0 samples, among the top_k likeliest
    (0: all) and those that together have the probability top_p. seed: of this run's samples. stop_ids: ids that end the run (default the
    checkpoint's); ignore_stop_ids: never stop before max_tokens. forced_ids: tokens to go on with instead of the generated ones.
    """

    max_tokens: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: Optional[float] = None
    seed: int = 0
    stop_ids: Sequence[int] = ()
    ignore_stop_ids: bool = False
    forced_ids: Sequence[int] = ()

    def message(self) -> trace_pb2.Generation:
        return trace_pb2.Generation(**{field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                                       if getattr(self, field.name) is not None})


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A prompt with more than its tokens: a run.

    input: text, token ids or a conversation. label: name of its run (default: its index). same_as: label of the run whose tokens it
    reads, instead of input. hidden_positions: positions whose keys no query sees. position_ids: one a token, for the rotary.
    add_generation_prompt: whether a conversation ends with the header of the assistant's turn (default true).
    interventions: edits (see phitap.edits), applied in this order where they meet. generation: how it goes on.
    """

    input: Optional[Union[str, Sequence[int], np.ndarray, Sequence[Mapping[str, str]]]] = None
    label: str = ""
    same_as: Optional[str] = None
    hidden_positions: Optional[Indices] = None
    position_ids: Sequence[int] = ()
    add_generation_prompt: Optional[bool] = None
    interventions: Sequence[Intervention] = ()
    generation: Optional[Generation] = None

    def fill(self, message: trace_pb2.Run, builder: RequestBuilder) -> None:
        message.label = self.label
        _fill_input(self, message.prompt)
        if self.hidden_positions is not None:
            message.prompt.hidden_positions.CopyFrom(index_set(self.hidden_positions))
        message.prompt.position_ids.extend(int(position) for position in self.position_ids)
        for number, intervention in enumerate(self.interventions):
            builder.lines[f"runs[{len(builder.request.runs) - 1}].interventions[{number}]"] = intervention.line
            intervention.fill(message.interventions.add(), builder)
        if self.generation is not None:
            message.generation.CopyFrom(self.generation.message())


@dataclasses.dataclass(frozen=True)
class Options:
    """Choices for the whole request.

    model: may be "" where the server holds one. numerics: "causal" (default) or "transformers". attention: "sdpa" or "eager" (default:
    sdpa, eager where a run edits scores or probabilities). longrope_cache: "recompute" (default) or "keep". isolate: share no batch.
    priority: 0 (default) to 10; higher goes first among the caller's own requests (a caller is a connection, hence a Client).
    """

    model: str = ""
    numerics: Optional[str] = None
    attention: Optional[str] = None
    longrope_cache: Optional[str] = None
    isolate: bool = False
    priority: int = 0

    def fill(self, request: trace_pb2.TraceRequest) -> None:
        request.model = self.model
        request.options.numerics = _choice("numerics", self.numerics, _NUMERICS)
        request.options.attention = _choice("attention", self.attention, _ATTENTION)
        request.options.longrope_cache = _choice("longrope_cache", self.longrope_cache, _LONGROPE_CACHE)
        request.options.isolate = self.isolate
        request.options.priority = self.priority


def trace_message(prompts: Any, captures: Union[str, Capture, Iterable[Union[str, Capture]]] = (), options: Options = Options(),
                  gradients: Iterable[Gradient] = (), sweeps: Iterable[Sweep] = ()) -> trace_pb2.TraceRequest:
    """The request for these prompts (one or a list), captures, gradients and sweeps."""
    return build(prompts, captures, options, gradients, sweeps).request


def build(prompts: Any, captures: Union[str, Capture, Iterable[Union[str, Capture]]] = (), options: Options = Options(),
          gradients: Iterable[Gradient] = (), sweeps: Iterable[Sweep] = ()) -> RequestBuilder:
    """The same, with the lines that its parts come from."""
    if isinstance(captures, (str, Capture)):
        captures = [captures]
    builder = RequestBuilder()
    request = builder.request
    options.fill(request)
    for prompt in run_prompts(prompts):
        prompt.fill(request.runs.add(), builder)
    for capture in captures:
        _as_capture(capture).fill(request.captures.add(), builder)
    for gradient in gradients:
        gradient.fill(request.gradients.add(), builder)
    for sweep in sweeps:
        sweep.fill(request.sweeps.add(), builder)
    return builder


def run_prompts(prompts: Any) -> list[Prompt]:
    """One for a single prompt, one for each of a list of prompts."""
    if isinstance(prompts, (str, Prompt)) or _is_ids(prompts) or _is_chat(prompts):
        prompts = [prompts]
    return [prompt if isinstance(prompt, Prompt) else Prompt(prompt) for prompt in prompts]


def chat_message(messages: Iterable[Mapping[str, str]], add_generation_prompt: Optional[bool]) -> trace_pb2.Chat:
    chat = trace_pb2.Chat(add_generation_prompt=add_generation_prompt)
    for number, message in enumerate(messages):
        unknown = set(message) - {"role", "content", "tools"}
        if unknown or "role" not in message:
            raise ValueError(f"message {number} of the chat must have role, content and perhaps tools, not {sorted(message)}")
        chat.messages.add(role=message["role"], content=message.get("content", ""), tools=message.get("tools", ""))
    return chat


def _as_capture(capture: Union[str, Capture]) -> Capture:
    if isinstance(capture, str):
        return Capture(capture)
    if not isinstance(capture, Capture):
        raise TypeError(f"a capture must be a hook point's name or a phitap.Capture, not {type(capture).__name__}: {capture!r}")
    return capture


def _choice(name: str, value: Optional[str], choices: Mapping[Optional[str], int]) -> int:
    if value not in choices:
        valid = ", ".join(repr(choice) for choice in choices if choice is not None)
        raise ValueError(f"{name} {value!r} is not known; valid: {valid}")
    return choices[value]


def _is_ids(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and np.issubdtype(value.dtype, np.integer)
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and all(
        isinstance(item, numbers.Integral) for item in value)


def _is_chat(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and all(
        isinstance(item, Mapping) for item in value)


def _fill_input(prompt: Prompt, message: trace_pb2.Prompt) -> None:
    message.SetInParent()
    if prompt.same_as is not None:
        if prompt.input is not None:
            raise ValueError("a prompt has either an input or same_as, not both")
        message.same_as = prompt.same_as
    elif isinstance(prompt.input, str):
        message.text = prompt.input
    elif _is_chat(prompt.input):
        message.chat.CopyFrom(chat_message(prompt.input, prompt.add_generation_prompt))
    elif _is_ids(prompt.input) or (isinstance(prompt.input, (Sequence, np.ndarray)) and len(prompt.input) == 0):
        message.tokens.SetInParent()
        message.tokens.ids.extend(int(token) for token in prompt.input)
    else:
        raise TypeError("a prompt must be text, a list of token ids, a list of chat messages or a phitap.Prompt, "
                        f"not {type(prompt.input).__name__}: {prompt.input!r}")
