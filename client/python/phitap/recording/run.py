"""One run of a recorded trace, and the names under which its places are found."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from phitap.edits import Intervention
from phitap.errors import RecordingError
from phitap.recording.place import Place, Spot
from phitap.recording.recorded import Recorded, lift
from phitap.request import Prompt
from phitap.selections import Indices
from phitap.values import Value

if TYPE_CHECKING:
    from phitap.recording.recorder import TraceRecorder

#: nnsight's and nnterp's names of modules' inputs and outputs.
_ALIASES = {
    "layers": {"input": "layer_input", "output": "layer_output"},
    "self_attn": {"input": "attention_norm_output", "output": "attention_output"},
    "mlp": {"input": "mlp_input", "output": "mlp_output"},
}
#: nnterp's accessors by layer.
_BY_LAYER = {
    "layers_input": "layer_input", "layers_output": "layer_output", "attentions_input": "attention_norm_output",
    "attentions_output": "attention_output", "mlps_input": "mlp_input", "mlps_output": "mlp_output",
    "attention_probabilities": "attention_probabilities",
}


class ModuleRecorder:
    """A layer, or its attention or MLP: its hook points are attributes that can be read and assigned."""

    def __init__(self, run: "RunRecorder", layer: int, module: str):
        self._run, self._layer, self._module = run, layer, module

    @property
    def self_attn(self) -> "ModuleRecorder":
        return ModuleRecorder(self._run, self._layer, "self_attn")

    @property
    def mlp(self) -> "ModuleRecorder":
        return ModuleRecorder(self._run, self._layer, "mlp")

    def skip(self, skip_with: Any = None) -> None:
        """A block passes its input on; attention or MLP adds nothing. skip_with: what comes out instead."""
        place = self.output
        if skip_with is None:
            place.skip_()
        else:
            place.set_(skip_with)

    def __getattr__(self, name: str) -> Place:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._run._place(_ALIASES[self._module].get(name, name), self._layer)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            return object.__setattr__(self, name, value)
        getattr(self, name).set_(value)

    def __repr__(self) -> str:
        return f"<phitap.recording layers.{self._layer}{'' if self._module == 'layers' else '.' + self._module}>"


class ByLayer(Sequence):
    """Modules or places, one for each layer; places can be assigned."""

    def __init__(self, run: "RunRecorder", name: str):
        self._run, self._name = run, name

    def __getitem__(self, layer: int) -> Union[ModuleRecorder, Place]:
        layer = self._run._layer_index(layer)
        return ModuleRecorder(self._run, layer, "layers") if self._name == "layers" else self._run._place(self._name, layer)

    def __setitem__(self, layer: int, value: Any) -> None:
        if self._name == "layers":
            raise RecordingError("a layer is no value: assign to one of its hook points, e.g. layers[2].layer_output")
        self[layer].set_(value)

    def __len__(self) -> int:
        return self._run._trace.model.num_layers


class RunRecorder:
    """A run: `run.layers[2].layer_output[-1]`, `run.logits`, and every other hook point of the model by its name; edits by assignment.

    Positions are the prompt's own, without a batch dimension. In a run that generates, an edit without positions applies at every step;
    at_steps(…) chooses steps.
    """

    def __init__(self, trace: "TraceRecorder", prompt: Prompt, steps: Optional[Indices] = None):
        self._trace = trace
        self._prompt = prompt
        self._label = prompt.label
        self._steps = steps
        self._interventions: list[Intervention] = []
        self._spots: dict[str, list[Spot]] = {}
        self._conditions: list[Value] = []

    def __enter__(self) -> "RunRecorder":
        return self

    def __exit__(self, *exception) -> None:
        pass

    @property
    def layers(self) -> ByLayer:
        """The blocks."""
        return ByLayer(self, "layers")

    def __getattr__(self, name: str) -> Union[Place, ByLayer]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _BY_LAYER:
            return ByLayer(self, _BY_LAYER[name])
        return self._place(name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            return object.__setattr__(self, name, value)
        getattr(self, name).set_(value)

    def at_steps(self, steps: Indices) -> "RunRecorder":
        """The same run, its places at these generation steps: 0 is the prompt, t the t-th generated token."""
        run = object.__new__(RunRecorder)
        run.__dict__.update(self.__dict__, _steps=steps)
        return run

    @contextlib.contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """Edits inside the `with` block are made only where the condition (one number, or one a position edited) is not 0."""
        self._conditions.append(lift(self._trace, condition)._plain())
        try:
            yield
        finally:
            self._conditions.pop()

    # By nnterp's names and meanings.

    def steer(self, layers: Union[int, Sequence[int]], steering_vector: Any, factor: float = 1.0,
              token_positions: Optional[Indices] = None) -> None:
        """layer_output += factor · steering_vector in these layers, at these positions (default all, and every generated token)."""
        for layer in sorted([layers] if isinstance(layers, int) else layers):
            place = self.layers[layer].layer_output
            (place if token_positions is None else place[token_positions]).add_(steering_vector, scale=factor)

    def skip_layer(self, layer: int, skip_with: Any = None) -> None:
        """The layer's output is its input, or skip_with."""
        self.skip_layers(layer, layer, skip_with)

    def skip_layers(self, start_layer: int, end_layer: int, skip_with: Any = None) -> None:
        """The output of the layers from start to end, inclusive, is the first one's input, or skip_with."""
        for layer in range(self._layer_index(start_layer), self._layer_index(end_layer) + 1):
            self.layers[layer].skip(skip_with)

    def project_on_vocab(self, hidden_state: Any) -> Recorded:
        """Final norm and head: the logits that a residual stream stands for."""
        return lift(self._trace, hidden_state).unembed()

    @property
    def generated(self) -> list:
        """The generated tokens, once the trace has been left."""
        return self._trace.result.run(self._label).generated

    @property
    def text(self) -> str:
        """What was generated, as text, once the trace has been left."""
        return self._trace.result.run(self._label).text

    # For places.

    def _layer_index(self, layer: int) -> int:
        count = self._trace.model.num_layers
        if not -count <= layer < count:
            raise IndexError(f"layer {layer} of a model of {count} layers")
        return layer % count

    def _place(self, name: str, layer: Optional[int]) -> Place:
        point = self._trace.model.hook_point(name, layer)
        spot = Spot(self, point.full_name.replace("{i}", str(layer)), tuple(point.dimension_names),
                    tuple(int(size) if size.isdigit() else None for size in point.dimension_sizes),
                    (None,) * len(point.dimension_names), self._steps)
        return Place(spot, (False,) * len(point.dimension_names), self._write_count(spot.hook_point))

    def _write_count(self, hook_point: str) -> int:
        return len(self._spots.get(hook_point, ()))

    def _record(self, spot: Spot, intervention: Intervention) -> None:
        self._interventions.append(intervention)
        self._spots.setdefault(spot.hook_point, []).append(spot)

    def _condition(self, when: Any) -> Optional[Value]:
        """What must hold for an edit made now."""
        conditions = self._conditions + ([] if when is None else [lift(self._trace, when)._plain()])
        joined = None
        for condition in conditions:
            joined = condition if joined is None else joined & condition
        return joined

    def _finished(self) -> Prompt:
        return dataclasses.replace(self._prompt, interventions=self._interventions)

    def __repr__(self) -> str:
        return f"<phitap.recording run {self._label!r}>"
