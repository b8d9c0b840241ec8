"""A recorded trace: Python that runs once, here, and says what the server shall compute."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from phitap import values
from phitap.errors import RecordingError
from phitap.lines import calling_line
from phitap.metrics import Metric, Sweep
from phitap.recording.place import Place, Spot
from phitap.recording.recorded import Recorded, aligned, lift
from phitap.recording.run import RunRecorder
from phitap.request import Capture, Generation, Options, Prompt, PromptLike, build
from phitap.trace import Trace, Value
from phitap.values import RunValue

if TYPE_CHECKING:
    from phitap.edits import Intervention
    from phitap.recording.model import Model


@dataclasses.dataclass(frozen=True)
class _Unsettled:
    """A read whose time is known once all edits are."""

    read: RunValue
    spot: Spot
    writes_seen: int
    line: str
    only_after: bool


@dataclasses.dataclass(frozen=True)
class _Saved:
    capture: Capture
    read: Optional[RunValue]
    run: str
    line: str


class SweepResult:
    """The grids of a sweep, one for each metric, once the trace has been left."""

    def __init__(self, trace: "TraceRecorder", label: str):
        self._trace, self._label = trace, label

    def __getitem__(self, metric: str) -> np.ndarray:
        """One number for each cell; the dimensions are the sweep's axes."""
        return self._trace.result.sweep(self._label, metric)


class TraceRecorder:
    """Records runs, and sends them as one request when the `with` block is left; saved values are there afterwards.

    With a prompt, `with model.trace(prompt) as run:` gives its only run.
    """

    def __init__(self, model: "Model", prompt: Optional[PromptLike], options: Options, timeout: Optional[float]):
        self.model = model
        self._prompt = prompt
        self._options = options
        self._timeout = timeout
        self._runs: list[RunRecorder] = []
        self._saved: list[_Saved] = []
        self._sweeps: list[Sweep] = []
        self._unsettled: list[_Unsettled] = []
        self._metrics: list[Recorded] = []
        self._open = False
        self._result: Optional[Trace] = None

    def __enter__(self):
        self._open = True
        return self if self._prompt is None else self.run(self._prompt)

    def __exit__(self, kind: Optional[type], *exception) -> None:
        try:
            if kind is None:
                self._send()
        finally:
            self._open = False

    # What can be recorded.

    def run(self, prompt: PromptLike, label: str = "", *, generation: Optional[Generation] = None, **prompt_fields: Any) -> RunRecorder:
        """A run of the prompt. prompt_fields: hidden_positions=, position_ids=, add_generation_prompt=, same_as= (a run), as in Prompt."""
        self.check_open()
        label = label or str(len(self._runs))
        if any(run._label == label for run in self._runs):
            raise RecordingError(f"there is a run {label!r} already")
        if not isinstance(prompt, Prompt):
            prompt = Prompt(prompt, **prompt_fields)
        self._runs.append(RunRecorder(self, dataclasses.replace(prompt, label=label, generation=generation or prompt.generation)))
        return self._runs[-1]

    def generate(self, prompt: PromptLike, max_tokens: int, label: str = "", **generation: Any) -> RunRecorder:
        """A run that goes on after the prompt: see Generation for what else may be said. Its places are saved at every step."""
        return self.run(prompt, label, generation=Generation(max_tokens, **generation))

    def tensor(self, name: str) -> Recorded:
        """A tensor kept on the server."""
        kept = [tensor for tensor in self.model.client.list_tensors(name) if tensor.name == name]
        if not kept:
            raise RecordingError(f"the server keeps no tensor {name!r}: see Client.put_tensor")
        return Recorded(self, values.kept(name), [False] * len(kept[0].shape))

    def constant(self, value: Any) -> Recorded:
        """A number or an array."""
        return lift(self, value)

    def noise(self, like: Place, seed: int = 0) -> Recorded:
        """Standard normal noise in the place of a value: the same that noise_ adds there."""
        read = RunValue(like._spot.run._label, like._spot.hook_point, like._spot.selection())
        return Recorded(self, values.noise(read, seed), like._dropped)

    def where(self, condition: Any, then: Any, otherwise: Any) -> Recorded:
        """then where the condition is not 0, otherwise where it is."""
        nodes, dropped = aligned(self, (condition, then, otherwise))
        return Recorded(self, values.where(*nodes), dropped)

    def concatenate(self, parts: Sequence[Any], axis: int = 0) -> Recorded:
        """One after another along a dimension."""
        lifted = [lift(self, part) for part in parts]
        return Recorded(self, values.concatenate([part._plain() for part in lifted], axis), [False] * lifted[0].ndim)

    def metric(self, metric: Optional[Metric] = None) -> Any:
        """A metric (see phitap.metrics) of a run as a value; without an argument, what is being differentiated."""
        if metric is not None:
            return Recorded(self, metric.as_value(), ())
        if not self._metrics:
            raise RecordingError("a gradient of what? Read .grad within `with metric.backward():`")
        return self._metrics[-1]._plain()

    @contextlib.contextmanager
    def differentiating(self, metric: Recorded) -> Iterator[None]:
        """See Recorded.backward."""
        self._metrics.append(metric)
        try:
            yield
        finally:
            self._metrics.pop()

    def sweep(self, run: RunRecorder, interventions: Sequence["Intervention"], axes: Sequence[Any], metrics: Sequence[Metric],
              label: str = "") -> SweepResult:
        """A grid of runs that repeat `run`: see Sweep. Its arrays are found by the metrics' labels."""
        label = label or f"sweep{len(self._sweeps)}"
        self._sweeps.append(Sweep(run._label, interventions, axes, metrics, label))
        return SweepResult(self, label)

    @property
    def result(self) -> Trace:
        """The whole answer, once the trace has been left."""
        if self._result is None:
            raise RecordingError("values are there once the `with` block of the trace has been left")
        return self._result

    # For values and places.

    def check_open(self) -> None:
        if not self._open:
            raise RecordingError("this trace is not being recorded: use its values inside its `with` block, and their .value after it")

    def capture(self, value: Recorded, dtype: Optional[str] = None, tensor_name: str = "") -> str:
        """Has a value sent back or kept, and returns its label."""
        self.check_open()
        label = f"saved{len(self._saved)}"
        if isinstance(value, Place):
            spot, read = value._spot, RunValue()
            self.settle_later(read, spot, value._writes_seen, calling_line())
            selection = {field.name: getattr(spot.selection(), field.name) for field in dataclasses.fields(spot.selection())}
            capture = Capture(spot.hook_point, label, [spot.run._label], **selection, dtype=dtype, tensor_name=tensor_name)
            self._saved.append(_Saved(capture, read, spot.run._label, calling_line()))
        else:
            capture = Capture(label=label, node=value.node, dtype=dtype, tensor_name=tensor_name)
            self._saved.append(_Saved(capture, None, "", calling_line()))
        return label

    def answer(self, label: str, dropped: tuple[bool, ...]) -> Value:
        """A saved value, without its dropped dimensions."""
        saved = next(saved for saved in self._saved if saved.capture.label == label)
        found = self.result.run(saved.run)[label] if saved.run else self.result[label]
        axes = tuple(i for i, is_dropped in enumerate(dropped) if is_dropped)
        if isinstance(found, dict):
            return {step: array.squeeze(axes) for step, array in found.items()}
        return found.squeeze(axes)

    def settle_later(self, read: RunValue, spot: Spot, writes_seen: int, line: str, only_after: bool = False) -> None:
        """Has the read time of `read` filled in once all edits are known. only_after: gradients are with respect to edited values."""
        self._unsettled.append(_Unsettled(read, spot, writes_seen, line, only_after))

    def _settle(self, unsettled: _Unsettled) -> None:
        spots = unsettled.spot.run._spots.get(unsettled.spot.hook_point, [])
        before, after = (any(unsettled.spot.may_meet(spot) for spot in part)
                         for part in (spots[:unsettled.writes_seen], spots[unsettled.writes_seen:]))
        if not after:
            unsettled.read.read_time = "after" if spots else None
        elif not before and not unsettled.only_after:
            unsettled.read.read_time = "before"
        else:
            raise RecordingError(f"{unsettled.spot.hook_point} of run {unsettled.spot.run._label!r} is read between two edits of it (at "
                                 f"{unsettled.line}); the server reads before the first or after the last: move the read, or join the edits")

    def _send(self) -> None:
        if not self._saved and not self._sweeps and not any(run._prompt.generation for run in self._runs):
            raise RecordingError("nothing was saved, so there is nothing to compute: call .save() on a value")
        for unsettled in self._unsettled:
            self._settle(unsettled)
        captures = [dataclasses.replace(saved.capture, read_time=saved.read.read_time) if saved.read is not None else saved.capture
                    for saved in self._saved]
        builder = build([run._finished() for run in self._runs], captures, self._options, (), self._sweeps)
        builder.lines.update((f"captures[{number}]", saved.line) for number, saved in enumerate(self._saved))
        self._result = self.model.client.send(builder.request, timeout=self._timeout, lines=builder.lines)
