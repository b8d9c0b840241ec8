"""What comes back: a trace with its runs and values."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union

import ml_dtypes
import numpy as np

from phitap.errors import RunError
from phitap.tensors import DTYPES
from phitap.v1 import tensor_pb2

#: An array; or, for a reduction that makes several, its parts by name; or, where a run generates, any of these by step; or, for a label
#: on a set of hook points, any of these by hook point.
Value = Union[np.ndarray, dict[Any, "Value"]]


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
    step: int = 0

    @classmethod
    def of(cls, message: tensor_pb2.TensorDescriptor) -> "TensorSpec":
        return cls(message.label, message.run, message.hook_point, message.part, DTYPES[message.dtype], tuple(message.shape),
                   tuple(message.dimension_names), message.size_bytes, message.step)


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


@dataclasses.dataclass(frozen=True)
class Token:
    """A generated token. step: from 1. log_probability: before temperature, top_k and top_p. text: whole characters, possibly none."""

    run: str
    step: int
    id: int
    text: str
    log_probability: float


def short_name(hook_point: str) -> str:
    """`layers.5.attention_queries` for `layers.5.self_attn.attention_queries`."""
    parts = hook_point.split(".")
    return ".".join(parts[:2] + parts[-1:]) if len(parts) == 4 else hook_point


class Values(Mapping[str, Value]):
    """Arrays by the capture's label or the hook point's name (full or short). error: why some may be missing."""

    def __init__(self, owner: str, error: Optional[RunError] = None):
        self._owner = owner
        self._error = error
        #: By label, hook point, step and part.
        self.specs: dict[tuple[str, str, int, str], TensorSpec] = {}
        self._values: dict[str, dict[str, dict[int, dict[str, np.ndarray]]]] = {}

    def add(self, spec: TensorSpec, value: np.ndarray) -> None:
        self.specs[spec.label, spec.hook_point, spec.step, spec.part] = spec
        self._values.setdefault(spec.label, {}).setdefault(spec.hook_point, {}).setdefault(spec.step, {})[spec.part] = value

    def __getitem__(self, name: str) -> Value:
        found = {hook_point: _one(values, 0) for hook_point, values in self._steps(name).items()}
        return next(iter(found.values())) if len(found) == 1 else found

    def steps(self, name: str) -> dict[int, Value]:
        """The values of one hook point by generation step, also where there is only one."""
        found = self._steps(name)
        if len(found) != 1:
            raise KeyError(f"{name!r} is a set of hook points: {', '.join(found)}")
        return dict(sorted(next(iter(found.values())).items()))

    def _steps(self, name: str) -> dict[str, dict[int, Value]]:
        by_hook_point = self._values.get(name)
        if by_hook_point is None:
            wanted = short_name(name)
            found = [label for label in self._values if short_name(label) == wanted]
            if not found and self._error is not None:
                raise self._error
            if not found:
                raise KeyError(f"{self._owner} has no value {name!r}; it has: {', '.join(self._values) or 'none'}")
            by_hook_point = self._values[found[0]]
        return {hook_point: {step: _one(parts, "") for step, parts in sorted(by_step.items())}
                for hook_point, by_step in by_hook_point.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def torch(self, name: str):
        """The value as a torch tensor that shares its memory (parts, steps and sets as dicts). Needs torch."""
        return to_torch(self[name])

    def __repr__(self) -> str:
        return f"<phitap values of {self._owner}: {', '.join(self._values)}>"


class Run(Values):
    """One prompt's values, by the capture's label or the hook point's name, and what it generated."""

    def __init__(self, label: str, tokens: list[int], texts: list[str]):
        super().__init__(f"run {label!r}")
        self.label = label
        #: Token ids of the prompt.
        self.tokens = tokens
        #: Text of each token; empty where the checkpoint has no tokenizer.
        self.token_texts = texts
        #: Generated tokens.
        self.generated: list[Token] = []
        #: Why generation ended: "stop", "length", or "unspecified" where the run did not generate.
        self.finish_reason = "unspecified"
        #: Set where the run failed; its values then raise it.
        self.error: Optional[RunError] = None

    def __getitem__(self, name: str) -> Value:
        if self.error is not None:
            raise self.error
        return super().__getitem__(name)

    @property
    def text(self) -> str:
        """What was generated, as text."""
        return "".join(token.text for token in self.generated)

    def __repr__(self) -> str:
        return f"<phitap.Run {self.label!r}: {len(self.tokens)} tokens, {len(self)} values>"


class Trace(Mapping[str, Value]):
    """The answer to a trace: values of nodes by their label and, where there is one run, that run's; with several, take them from `runs`.

    gradients: values by the label of the Gradient.
    """

    def __init__(self, header: Header, runs: list[Run], summary: Summary, shared: Optional[Values] = None,
                 gradients: Optional[Values] = None, sweeps: Optional[dict[tuple[str, str], np.ndarray]] = None,
                 failed_cells: Optional[dict[str, RunError]] = None):
        self.header = header
        self.runs = runs
        self.summary = summary
        self.gradients = gradients if gradients is not None else Values("the trace")
        #: Cells of sweeps that failed, by `label[indices]`.
        self.failed_cells = failed_cells or {}
        self._shared = shared if shared is not None else Values("the trace")
        self._sweeps = sweeps or {}

    def run(self, label: str) -> Run:
        """The run of that label."""
        for run in self.runs:
            if run.label == label:
                return run
        raise KeyError(f"no run {label!r}; there are: {', '.join(run.label for run in self.runs)}")

    def sweep(self, label: str, metric: str) -> np.ndarray:
        """One number for each cell of a sweep: the dimensions are its axes. Raises the RunError of a cell that failed."""
        for cell, error in self.failed_cells.items():
            if cell.startswith(f"{label}["):
                raise error
        if (label, metric) not in self._sweeps and self._shared._error is not None:
            raise self._shared._error
        if (label, metric) not in self._sweeps:
            raise KeyError(f"no sweep {label!r} with a metric {metric!r}; there are: {', '.join(map(str, self._sweeps)) or 'none'}")
        return self._sweeps[label, metric]

    def tokens(self, run: Optional[str] = None) -> list[int]:
        """Ids that a run generated (the only run's, where there is one)."""
        return [token.id for token in self._run_or_only(run).generated]

    def text(self, run: Optional[str] = None) -> str:
        """What a run generated, as text (the only run's, where there is one)."""
        return self._run_or_only(run).text

    def _run_or_only(self, label: Optional[str]) -> Run:
        if label is not None:
            return self.run(label)
        if len(self.runs) != 1:
            raise KeyError(f"the trace has {len(self.runs)} runs: take the value from one of them, e.g. trace.runs[0][name]")
        return self.runs[0]

    def __getitem__(self, name: str) -> Value:
        if name in self._shared._values or len(self.runs) != 1 and self._shared._error is not None:
            return self._shared[name]
        return self._run_or_only(None)[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._shared
        if len(self.runs) == 1 or not len(self._shared):
            yield from self._run_or_only(None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def torch(self, name: str):
        """The value as a torch tensor: see Values.torch."""
        return to_torch(self[name])

    def __repr__(self) -> str:
        return f"<phitap.Trace {self.header.request_id} of {self.header.model}: {len(self.runs)} runs, {self.summary.size_bytes} bytes>"


def _one(values: dict[Any, Value], key: Any) -> Value:
    """The only value where its key is the usual one, else all of them."""
    return values[key] if list(values) == [key] else dict(values)


def to_torch(value: Value):
    """An array as a torch tensor that shares its memory; dicts as dicts of these."""
    import torch

    if isinstance(value, dict):
        return {name: to_torch(part) for name, part in value.items()}
    if value.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)
