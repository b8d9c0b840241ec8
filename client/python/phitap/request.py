"""What a caller asks for, in Python's terms, and its way into protobuf."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from phitap.v1 import selection_pb2, tensor_pb2, trace_pb2

#: One index, a slice, a range, or several of these. Negative numbers count from the end.
Indices = Union[int, slice, range, Sequence[Union[int, slice, range]], np.ndarray]
#: Text, token ids, a conversation (dicts with "role" and "content"), or a Prompt.
PromptLike = Union[str, Sequence[int], np.ndarray, Sequence[Mapping[str, str]], "Prompt"]

_DTYPES = {
    "float32": tensor_pb2.DATA_TYPE_F32,
    "float16": tensor_pb2.DATA_TYPE_F16,
    "bfloat16": tensor_pb2.DATA_TYPE_BF16,
}
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
    token_ids: positions whose token is one of these, instead of positions. reduce: what to make of it. dtype: element type on the wire,
    "float32", "float16" or "bfloat16" (default: as computed).
    """

    hook_points: str
    label: str = ""
    runs: Sequence[str] = ()
    positions: Optional[Indices] = None
    token_ids: Sequence[int] = ()
    heads: Optional[Indices] = None
    features: Optional[Indices] = None
    queries: Optional[Indices] = None
    keys: Optional[Indices] = None
    reduce: Optional[Reduction] = None
    dtype: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A prompt with more than its tokens.

    input: text, token ids or a conversation. label: name of its run (default: its index). same_as: label of the run whose tokens it
    reads, instead of input. hidden_positions: positions whose keys no query sees. position_ids: one a token, for the rotary.
    add_generation_prompt: whether a conversation ends with the header of the assistant's turn (default true).
    """

    input: Optional[Union[str, Sequence[int], np.ndarray, Sequence[Mapping[str, str]]]] = None
    label: str = ""
    same_as: Optional[str] = None
    hidden_positions: Optional[Indices] = None
    position_ids: Sequence[int] = ()
    add_generation_prompt: Optional[bool] = None


def index_set(indices: Indices) -> selection_pb2.IndexSet:
    """IndexSet of an index, a slice, a range, or several of these. The order is kept; single indices come before ranges."""
    items = [indices] if isinstance(indices, (numbers.Integral, slice, range)) else list(indices)
    message = selection_pb2.IndexSet()
    for item in items:
        if isinstance(item, numbers.Integral):
            if message.ranges:  # the wire has single indices first: a range of one keeps the order
                start = int(item)
                stop = None if start == -1 else start + 1
                message.ranges.append(selection_pb2.IndexRange(start=start, stop=stop))
            else:
                message.indices.append(int(item))
        elif isinstance(item, (slice, range)):
            message.ranges.append(selection_pb2.IndexRange(start=item.start, stop=item.stop, step=item.step))
        else:
            raise TypeError(f"an index must be an int, a slice or a range, not {type(item).__name__}: {item!r}")
    return message


def capture_message(capture: Union[str, Capture]) -> trace_pb2.Capture:
    if isinstance(capture, str):
        return trace_pb2.Capture(hook_points=capture)
    if not isinstance(capture, Capture):
        raise TypeError(f"a capture must be a hook point's name or a phitap.Capture, not {type(capture).__name__}: {capture!r}")
    message = trace_pb2.Capture(label=capture.label, hook_points=capture.hook_points, runs=list(capture.runs),
                                dtype=_choice("dtype", capture.dtype, {None: tensor_pb2.DATA_TYPE_UNSPECIFIED, **_DTYPES}))
    chosen = {name: index_set(getattr(capture, name)) for name in ("positions", "heads", "features", "queries", "keys")
              if getattr(capture, name) is not None}
    if chosen or capture.token_ids:
        message.selection.CopyFrom(selection_pb2.Selection(token_ids=capture.token_ids, **chosen))
    if capture.reduce is not None:
        message.reduction.CopyFrom(capture.reduce.message)
    return message


def run_messages(prompts: Any) -> list[trace_pb2.Run]:
    """One run for a single prompt, one for each of a list of prompts."""
    if _is_single(prompts):
        prompts = [prompts]
    return [_run_message(prompt) for prompt in prompts]


def chat_message(messages: Iterable[Mapping[str, str]], add_generation_prompt: Optional[bool]) -> trace_pb2.Chat:
    chat = trace_pb2.Chat(add_generation_prompt=add_generation_prompt)
    for number, message in enumerate(messages):
        unknown = set(message) - {"role", "content", "tools"}
        if unknown or "role" not in message:
            raise ValueError(f"message {number} of the chat must have role, content and perhaps tools, not {sorted(message)}")
        chat.messages.add(role=message["role"], content=message.get("content", ""), tools=message.get("tools", ""))
    return chat


def trace_message(prompts: Any, captures: Union[str, Capture, Iterable[Union[str, Capture]]], *, model: str, numerics: Optional[str],
                  attention: Optional[str], isolate: bool, report_progress: bool) -> trace_pb2.TraceRequest:
    if isinstance(captures, (str, Capture)):
        captures = [captures]
    request = trace_pb2.TraceRequest(model=model, runs=run_messages(prompts), captures=[capture_message(c) for c in captures])
    request.options.numerics = _choice("numerics", numerics, _NUMERICS)
    request.options.attention = _choice("attention", attention, _ATTENTION)
    request.options.isolate = isolate
    request.options.report_progress = report_progress
    return request


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


def _is_single(prompts: Any) -> bool:
    return isinstance(prompts, (str, Prompt)) or _is_ids(prompts) or _is_chat(prompts)


def _run_message(prompt: Any) -> trace_pb2.Run:
    if not isinstance(prompt, Prompt):
        prompt = Prompt(prompt)
    run = trace_pb2.Run(label=prompt.label)
    run.prompt.SetInParent()
    if prompt.same_as is not None:
        if prompt.input is not None:
            raise ValueError("a prompt has either an input or same_as, not both")
        run.prompt.same_as = prompt.same_as
    elif isinstance(prompt.input, str):
        run.prompt.text = prompt.input
    elif _is_chat(prompt.input):
        run.prompt.chat.CopyFrom(chat_message(prompt.input, prompt.add_generation_prompt))
    elif _is_ids(prompt.input) or (isinstance(prompt.input, (Sequence, np.ndarray)) and len(prompt.input) == 0):
        run.prompt.tokens.SetInParent()
        run.prompt.tokens.ids.extend(int(token) for token in prompt.input)
    else:
        raise TypeError("a prompt must be text, a list of token ids, a list of chat messages or a phitap.Prompt, "
                        f"not {type(prompt.input).__name__}: {prompt.input!r}")
    if prompt.hidden_positions is not None:
        run.prompt.hidden_positions.CopyFrom(index_set(prompt.hidden_positions))
    run.prompt.position_ids.extend(int(position) for position in prompt.position_ids)
    return run
