"""Numbers that say how a run came out, their gradients, and grids of runs that are judged by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

from phitap import tensors
from phitap.building import RequestBuilder
from phitap.edits import Intervention
from phitap.selections import Indices, Selection, index_set
from phitap.v1 import program_pb2
from phitap.values import Value


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number; made by logit, logit_difference, probability, kl and value. `of` is set only where it is a Value."""

    kind: str
    message: Any = None
    of: Optional[Value] = None
    label: str = ""
    run: str = ""
    position: Optional[int] = None

    def fill(self, message: program_pb2.Metric, builder: RequestBuilder) -> None:
        message.label, message.run = self.label, self.run
        if self.position is not None:
            message.position = self.position
        if self.of is not None:
            message.node = builder.node(self.of)
        else:
            getattr(message, self.kind).CopyFrom(self.message)

    def as_value(self) -> Value:
        """The metric as a value of a program; its run must be named."""
        return Value("metric", self)


def logit(token_id: int, **where: Any) -> Metric:
    """The logit of a token. where: label=, run= (label of the run; in a sweep left out), position= (default −1)."""
    return Metric("logit", program_pb2.LogitMetric(token_id=token_id), **_labelled("logit", where))


def logit_difference(token_id: int, baseline_token_id: int, **where: Any) -> Metric:
    """The logit of one token minus that of another. where: as for logit."""
    message = program_pb2.LogitDifferenceMetric(token_id=token_id, baseline_token_id=baseline_token_id)
    return Metric("logit_difference", message, **_labelled("logit_difference", where))


def probability(token_id: int, log: bool = False, **where: Any) -> Metric:
    """The probability of a token, or its natural logarithm. where: as for logit."""
    return Metric("probability", program_pb2.ProbabilityMetric(token_id=token_id, log=log), **_labelled("probability", where))


def kl(from_run: str, **where: Any) -> Metric:
    """KL(p ‖ q), p the next token's distribution in from_run and q in the run itself. where: as for logit."""
    return Metric("kl", program_pb2.KlMetric(from_run=from_run), **_labelled("kl", where))


def value(of: Value, label: str = "value") -> Metric:
    """A Value of one element; not in a sweep."""
    return Metric("node", of=of, label=label)


@dataclasses.dataclass(frozen=True)
class Gradient:
    """∂ metric / ∂ the run's values at the hook points, after the interventions there: tensors of the answer.

    run: label of the run that is differentiated. dtype: element type on the wire, float32 by default.
    """

    of: Metric
    run: str
    hook_points: str
    selection: Optional[Selection] = None
    label: str = ""
    dtype: Optional[str] = None

    def fill(self, message: program_pb2.Gradient, builder: RequestBuilder) -> None:
        message.label, message.run, message.hook_points = self.label, self.run, self.hook_points
        self.of.fill(message.of, builder)
        selection = self.selection.message() if self.selection is not None else None
        if selection is not None:
            message.selection.CopyFrom(selection)
        if self.dtype is not None:
            message.dtype = tensors.DTYPE_NAMES[self.dtype]


def layers(window: Optional[int] = None) -> program_pb2.SweepAxis:
    """A cell for each layer that the interventions name; window: how many consecutive ones a cell edits, from its own on."""
    return program_pb2.SweepAxis(layers=program_pb2.LayersAxis(window=window or 0))


def positions(indices: Optional[Indices] = None) -> program_pb2.SweepAxis:
    """A cell for each position; all of the prompt by default."""
    return program_pb2.SweepAxis(positions=program_pb2.PositionsAxis(positions=None if indices is None else index_set(indices)))


def heads(indices: Optional[Indices] = None) -> program_pb2.SweepAxis:
    """A cell for each head; all by default."""
    return program_pb2.SweepAxis(heads=program_pb2.HeadsAxis(heads=None if indices is None else index_set(indices)))


def scales(numbers: Sequence[float]) -> program_pb2.SweepAxis:
    """A cell for each number, which multiplies the scale of add and noise edits and replaces the number of a scale edit."""
    return program_pb2.SweepAxis(scales=program_pb2.ScalesAxis(scales=numbers))


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A grid of runs that repeat `run` (a label) and make the interventions besides, one way for each cell of the axes.

    metrics: one array each, whose dimensions are the axes: see Trace.sweep.
    """

    run: str
    interventions: Sequence[Intervention]
    axes: Sequence[program_pb2.SweepAxis]
    metrics: Sequence[Metric]
    label: str = ""

    def fill(self, message: program_pb2.Sweep, builder: RequestBuilder) -> None:
        message.label, message.run = self.label, self.run
        for intervention in self.interventions:
            intervention.fill(message.interventions.add(), builder)
        message.axes.extend(self.axes)
        for metric in self.metrics:
            metric.fill(message.metrics.add(), builder)


def _labelled(kind: str, where: dict[str, Any]) -> dict[str, Any]:
    return {"label": kind, **where}
