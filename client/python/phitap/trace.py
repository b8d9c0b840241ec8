"""What comes back: a trace with its runs and values."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from typing import Union

import ml_dtypes
import numpy as np

from phitap.errors import RunError
from phitap.v1 import tensor_pb2

DTYPES: dict[int, np.dtype] = {
    tensor_pb2.DATA_TYPE_F32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_F16: np.dtype("<f2"),
    tensor_pb2.DATA_TYPE_BF16: np.dtype(ml_dtypes.bfloat16),
    tensor_pb2.DATA_TYPE_I64: np.dtype("<i8"),
    tensor_pb2.DATA_TYPE_I32: np.dtype("<i4"),
    tensor_pb2.DATA_TYPE_BOOL: np.dtype("?"),
}

#: An array; or, for a reduction that makes several, its parts by name; or, for a label on a set of hook points, any of these by hook
#: point.
Value = Union[np.ndarray, dict[str, "Value"]]


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One tensor of an answer: what it is, not what is in it."""

    label: str
    run: str
    hook_point: str
    part: str
    dtype: np.dtype
    shape: tuple[int, ...]
    dimension_names: tuple[str, ...]
    size_bytes: int

    @classmethod
    def of(cls, message: tensor_pb2.TensorDescriptor) -> "TensorSpec":
        return cls(message.label, message.run, message.hook_point, message.part, DTYPES[message.dtype], tuple(message.shape),
                   tuple(message.dimension_names), message.size_bytes)


@dataclasses.dataclass(frozen=True)
class Header:
    """How the request was answered, and by what."""

    request_id: str
    model: str
    numerics: str
    attention: str
    batch_invariant: bool
    weights_digest: str
    numerics_fingerprint: str


@dataclasses.dataclass(frozen=True)
class Summary:
    """What the request cost."""

    queue_time: datetime.timedelta
    compute_time: datetime.timedelta
    token_layers_computed: int
    token_layers_saved: int
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class TracePlan:
    """What a trace would return and cost."""

    tensors: list[TensorSpec]
    tokens: dict[str, list[int]]
    size_bytes: int
    token_layers: int
    token_layers_full_depth: int
    numerics: str
    attention: str


def short_name(hook_point: str) -> str:
    """`layers.5.attention_queries` for `layers.5.self_attn.attention_queries`."""
    parts = hook_point.split(".")
    return ".".join(parts[:2] + parts[-1:]) if len(parts) == 4 else hook_point


class Run(Mapping[str, Value]):
    """One prompt's values, by the capture's label or the hook point's name (full or short)."""

    def __init__(self, label: str, tokens: list[int], texts: list[str]):
        self.label = label
        #: Token ids of the prompt.
        self.tokens = tokens
        #: Text of each token; empty where the checkpoint has no tokenizer.
        self.token_texts = texts
        #: Set where the run failed; its values then raise it.
        self.error: RunError | None = None
        self.specs: dict[tuple[str, str, str], TensorSpec] = {}
        self._values: dict[str, dict[str, dict[str, np.ndarray]]] = {}

    def add(self, spec: TensorSpec, value: np.ndarray) -> None:
        self.specs[spec.label, spec.hook_point, spec.part] = spec
        self._values.setdefault(spec.label, {}).setdefault(spec.hook_point, {})[spec.part] = value

    def __getitem__(self, name: str) -> Value:
        if self.error is not None:
            raise self.error
        by_hook_point = self._values.get(name)
        if by_hook_point is None:
            wanted = short_name(name)
            found = [label for label in self._values if short_name(label) == wanted]
            if not found:
                raise KeyError(f"run {self.label!r} has no value {name!r}; it has: {', '.join(self._values)}")
            by_hook_point = self._values[found[0]]
        values = {hook_point: _unwrap(parts) for hook_point, parts in by_hook_point.items()}
        return next(iter(values.values())) if len(values) == 1 else values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def torch(self, name: str):
        """The value as a torch tensor that shares its memory (parts and sets as dicts). Needs torch."""
        return _to_torch(self[name])

    def __repr__(self) -> str:
        return f"<phitap.Run {self.label!r}: {len(self.tokens)} tokens, {len(self._values)} values>"


class Trace(Mapping[str, Value]):
    """The answer to a trace. With one run, its values are the trace's own; with several, take them from `runs`."""

    def __init__(self, header: Header, runs: list[Run], summary: Summary):
        self.header = header
        self.runs = runs
        self.summary = summary

    def run(self, label: str) -> Run:
        """The run of that label."""
        for run in self.runs:
            if run.label == label:
                return run
        raise KeyError(f"no run {label!r}; there are: {', '.join(run.label for run in self.runs)}")

    def _only_run(self) -> Run:
        if len(self.runs) != 1:
            raise KeyError(f"the trace has {len(self.runs)} runs: take the value from one of them, e.g. trace.runs[0][name]")
        return self.runs[0]

    def __getitem__(self, name: str) -> Value:
        return self._only_run()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._only_run())

    def __len__(self) -> int:
        return len(self._only_run())

    def torch(self, name: str):
        """The value as a torch tensor: see Run.torch."""
        return self._only_run().torch(name)

    def __repr__(self) -> str:
        return f"<phitap.Trace {self.header.request_id} of {self.header.model}: {len(self.runs)} runs, {self.summary.size_bytes} bytes>"


def _unwrap(parts: dict[str, np.ndarray]) -> Value:
    return parts[""] if list(parts) == [""] else dict(parts)


def _to_torch(value: Value):
    import torch

    if isinstance(value, dict):
        return {name: _to_torch(part) for name, part in value.items()}
    if value.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)
