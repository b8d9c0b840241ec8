"""What to change in a run: one function for each kind of edit. Edits compute in float32 and round once; x is the part that is edited.

    from phitap import Prompt, edits

    Prompt(text, interventions=[edits.add("layers.3.layer_output", vector, scale=4, positions=-1),
                                edits.zero("layers.*.attention_premix", heads=[2, 5])])

hook_points is one or a set of them. Every function takes what is to be edited as positions=, token_ids=, heads=, features=, queries=,
keys= and steps= (see Selection; all of it by default), and when=, a Value (see phitap.values): one number or one a selected position, the
edit is made where it is not 0. The value of an edit is a number, an array (numpy or torch), the name of a kept tensor, a RunValue or
MeanOfRuns of this request, or a Value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from phitap.building import RequestBuilder
from phitap.lines import calling_line
from phitap.selections import Selection
from phitap.v1 import intervention_pb2
from phitap.values import Value

_ACTIVATIONS = {
    None: intervention_pb2.DICTIONARY_ACTIVATION_UNSPECIFIED,
    "relu": intervention_pb2.DICTIONARY_ACTIVATION_RELU,
    "jump_relu": intervention_pb2.DICTIONARY_ACTIVATION_JUMP_RELU,
    "top_k": intervention_pb2.DICTIONARY_ACTIVATION_TOP_K,
}


@dataclasses.dataclass(frozen=True)
class Intervention:
    """One edit; made by the functions of this module.

    change: the kind, a field of intervention.proto. settings, sources: that message's plain fields and its EditSources. line: where in
    the caller's program it was made.
    """

    hook_points: str
    change: str
    selection: Selection
    when: Optional[Value] = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    line: str = dataclasses.field(default="", compare=False)

    def fill(self, message: intervention_pb2.Intervention, builder: RequestBuilder) -> None:
        message.hook_points = self.hook_points
        selection = self.selection.message()
        if selection is not None:
            message.selection.CopyFrom(selection)
        if self.when is not None:
            message.when = builder.node(self.when)
        change = getattr(message, self.change)
        change.SetInParent()
        for name, setting in self.settings.items():
            if isinstance(setting, list):
                getattr(change, name).extend(setting)
            elif hasattr(setting, "DESCRIPTOR"):
                getattr(change, name).CopyFrom(setting)
            elif setting is not None:
                setattr(change, name, setting)
        for name, source in self.sources.items():
            if source is not None:
                builder.source(getattr(change, name), source)


@dataclasses.dataclass(frozen=True)
class Dictionary:
    """A sparse autoencoder or transcoder, kept on the server: see Dictionary in intervention.proto for its tensors.

    activation: "relu", "jump_relu" or "top_k" (with k); None is by the tensors that exist.
    """

    name: str
    activation: Optional[str] = None
    k: int = 0
    subtract_decoder_bias: bool = False

    def message(self) -> intervention_pb2.Dictionary:
        if self.activation not in _ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r} is not known; valid: 'relu', 'jump_relu', 'top_k'")
        return intervention_pb2.Dictionary(name=self.name, activation=_ACTIVATIONS[self.activation], k=self.k,
                                           subtract_decoder_bias=self.subtract_decoder_bias)


def set_(hook_points: str, value: Any, **where: Any) -> Intervention:
    """x ← value: set, patch, freeze, mean-ablate, by where the value comes from."""
    return _edit("set", hook_points, where, sources={"value": value})


def zero(hook_points: str, **where: Any) -> Intervention:
    """x ← 0"""
    return _edit("set", hook_points, where, sources={"value": 0.0})


def add(hook_points: str, value: Any, scale: Optional[float] = None, **where: Any) -> Intervention:
    """x ← x + scale · value; scale is 1 by default."""
    return _edit("add", hook_points, where, {"scale": scale}, {"value": value})


def scale(hook_points: str, factor: Any, **where: Any) -> Intervention:
    """x ← x · factor"""
    return _edit("scale", hook_points, where, sources={"value": factor})


def project_out(hook_points: str, direction: Any, keep: float = 0.0, **where: Any) -> Intervention:
    """x ← x − (1 − keep) · (x · u) u, u the unit vector along the direction."""
    return _edit("project_out", hook_points, where, {"keep": keep}, {"direction": direction})


def clamp_projection(hook_points: str, direction: Any, low: Optional[float] = None, high: Optional[float] = None,
                     **where: Any) -> Intervention:
    """x · u bounded, u the unit vector along the direction; both bounds the same set it."""
    return _edit("clamp_projection", hook_points, where, {"low": low, "high": high}, {"direction": direction})


def swap(hook_points: str, from_: Any, to: Any, both: bool = False, **where: Any) -> Intervention:
    """The part along one direction turned into the other; with both=True the two exchanged."""
    return _edit("swap", hook_points, where, {"both": both}, {"from": from_, "to": to})


def clamp(hook_points: str, low: Optional[float] = None, high: Optional[float] = None, **where: Any) -> Intervention:
    """x ← min(max(x, low), high)"""
    return _edit("clamp", hook_points, where, {"low": low, "high": high})


def noise(hook_points: str, scale: float, seed: int = 0, **where: Any) -> Intervention:
    """x ← x + scale · n, n standard normal; the same for the same seed and place."""
    return _edit("noise", hook_points, where, {"scale": scale, "seed": seed})


def knockout(hook_points: str, **where: Any) -> Intervention:
    """Selected queries do not see the selected keys; only at attention_scores."""
    return _edit("knockout", hook_points, where)


def skip(hook_points: str, **where: Any) -> Intervention:
    """A block passes its input on (at layer_output); attention or MLP adds nothing (at attention_output, mlp_output)."""
    return _edit("skip", hook_points, where)


def subspace(hook_points: str, basis: Any, source: Any, mask: Any = None, **where: Any) -> Intervention:
    """x ← x + ((s R − x R) ⊙ mask) Rᵀ, R the basis' orthonormal columns [n, k] and s the source (DAS)."""
    return _edit("subspace", hook_points, where, sources={"basis": basis, "source": source, "mask": mask})


def dictionary(hook_points: str, of: Dictionary, features: Sequence[intervention_pb2.FeatureEdit] = (), drop_error: bool = False,
               encode_hook: str = "", **where: Any) -> Intervention:
    """x ← x + decode(f′) − decode(f), f the dictionary's features and f′ their edited copy (see feature).

    drop_error: x ← decode(f′). encode_hook: hook point of the same layer that is encoded instead of x (a transcoder's).
    """
    settings = {"dictionary": of.message(), "edits": list(features), "drop_error": drop_error, "encode_hook": encode_hook}
    return _edit("dictionary", hook_points, where, settings)


def feature(index: int, *, set: Optional[float] = None, scale: Optional[float] = None, add: Optional[float] = None,
            from_run: Optional[str] = None) -> intervention_pb2.FeatureEdit:
    """An edit of one feature: exactly one of set, scale, add and from_run (the label of a run)."""
    given = {name: value for name, value in dict(set=set, scale=scale, add=add, from_run=from_run).items() if value is not None}
    if len(given) != 1:
        raise ValueError(f"feature {index} needs exactly one of set, scale, add and from_run, not {sorted(given) or 'none'}")
    return intervention_pb2.FeatureEdit(feature=index, **given)


def _edit(change: str, hook_points: str, where: Mapping[str, Any], settings: Mapping[str, Any] = {},
          sources: Mapping[str, Any] = {}) -> Intervention:
    selected = {name: value for name, value in where.items() if name != "when"}
    return Intervention(hook_points, change, Selection(**selected), where.get("when"), settings, sources, calling_line())

