"""Every kind of edit on both sides: as interventions, and as the formulas of edit_formulas.py for hooks on transformers."""

import dataclasses
import pathlib
import random

import torch

import edit_formulas as formulas
import phitap
from checkpoint_kinds import VOCABULARY, WINDOW, for_transformers
from hooked_transformers import Edits, HookedForward
from phitap import edits, values
from transformers_values import load

LENGTH = WINDOW + 6
LAYER = 1
_BY_HEAD = ["attention_queries_pre_rotary", "attention_keys_pre_rotary", "attention_queries", "attention_keys", "attention_values"]
_MIXED = ["attention_head_outputs", "attention_premix"]
_STREAMS = ["token_embeddings", "layer_input", "attention_norm_output", "attention_qkv", "attention_output", "layer_mid", "mlp_norm_output",
            "mlp_input", "mlp_gate_up", "mlp_gate", "mlp_up", "mlp_activation", "mlp_neurons", "mlp_output", "layer_output",
            "final_norm_output", "lm_head_output", "logits"]
PATTERNS = ("attention_scores", "attention_probabilities")
#: Of every hook point that can be written.
DIMENSIONS = (dict.fromkeys(_STREAMS, ("seq", "features")) | dict.fromkeys(_BY_HEAD, ("heads", "seq", "features")) |
              dict.fromkeys(PATTERNS, ("heads", "query", "key")) | dict.fromkeys(_MIXED, ("seq", "heads", "features")))
MODEL_LEVEL = ("token_embeddings", "final_norm_output", "lm_head_output", "logits")
CHOSEN = {"seq": [LENGTH - 1, 2, 7], "heads": [1, 0], "features": [3, 0, 5], "query": [LENGTH - 1, 9, 4], "key": [3, 0, 8]}
FIELDS = {"seq": "positions", "heads": "heads", "features": "features", "query": "queries", "key": "keys"}


class World:
    """Two prompts of one checkpoint, on both sides."""

    def __init__(self, client: phitap.Client, folder: pathlib.Path, kind: str, dtype: torch.dtype, attention: str):
        self.client, self.kind, self.attention = client, kind, attention
        self.model = load(for_transformers(folder), dtype, attention)
        rng = random.Random(kind)
        self.clean_ids, self.ids = ([rng.randrange(VOCABULARY) for _ in range(LENGTH)] for _ in range(2))
        clean = HookedForward(self.model)
        clean(self.clean_ids)
        self.clean = clean.seen
        self._random = torch.Generator().manual_seed(LENGTH)
        self._dictionaries: dict[str, dict[str, torch.Tensor]] = {}

    def vector(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._random)

    def size(self, hook: str) -> int:
        return self.clean[at(hook)].shape[-1]

    def visible(self) -> torch.Tensor:
        """[query, key]"""
        seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        return seen if self.model.config.sliding_window is None else seen.triu(1 - self.model.config.sliding_window)

    def expected(self, changes: Edits) -> dict[tuple[str, int], torch.Tensor]:
        forward = HookedForward(self.model, changes)
        forward(self.ids)
        return forward.seen

    def dictionary(self, activation: str) -> dict[str, torch.Tensor]:
        """A dictionary that the server keeps as KIND-ACTIVATION."""
        if activation not in self._dictionaries:
            width, features = self.model.config.hidden_size, 24
            generator = torch.Generator().manual_seed(width)  # the same in every world: the server keeps one

            def drawn(*shape: int) -> torch.Tensor:
                return torch.randn(*shape, generator=generator)

            weights = {"encoder_weight": drawn(features, width) / width**0.5, "encoder_bias": drawn(features) / 4,
                       "decoder_weight": drawn(features, width) / 4, "decoder_bias": drawn(width) / 4}
            if activation == "jump_relu":
                weights["threshold"] = drawn(features).abs()
            for part, tensor in weights.items():
                self.client.put_tensor(f"{self.kind}-{activation}.{part}", tensor)
            self._dictionaries[activation] = weights
        return self._dictionaries[activation]

    def captures(self) -> list[phitap.Capture]:
        hooks = [hook for hook in DIMENSIONS if self.attention == "eager" or hook not in PATTERNS]
        return [phitap.Capture(hook if hook in MODEL_LEVEL else f"layers.*.{hook}", hook, ["edited"]) for hook in hooks]

    def runs(self, changes: list[phitap.Intervention]) -> list[phitap.Prompt]:
        return [phitap.Prompt(self.clean_ids, "clean"), phitap.Prompt(self.ids, "edited", interventions=changes)]

    def ours(self, changes: list[phitap.Intervention], numerics: str, others: tuple[phitap.Prompt, ...] = ()) -> dict:
        trace = self.client.trace([*others, *self.runs(changes)], self.captures(), model=self.kind, numerics=numerics,
                                  attention=self.attention)
        found = {}
        for hook in trace.run("edited"):
            value = trace.run("edited").torch(hook)
            found.update({(hook, -1): value} if hook in MODEL_LEVEL else
                         {(hook, int(point.split(".")[1])): tensor for point, tensor in value.items()})
        return found


def at(hook: str) -> tuple[str, int]:
    return hook, -1 if hook in MODEL_LEVEL else LAYER


def name(hook: str) -> str:
    return hook if hook in MODEL_LEVEL else f"layers.{LAYER}.{hook}"


def part(hook: str, dimensions: tuple[str, ...] = ("seq", "heads", "query", "key")) -> dict[int, list[int]]:
    """Of a value, in the reference's terms."""
    return {i: CHOSEN[dimension] for i, dimension in enumerate(DIMENSIONS[hook]) if dimension in dimensions}


def where(hook: str, dimensions: tuple[str, ...] = ("seq", "heads", "query", "key")) -> dict[str, list[int]]:
    """The same in the client's."""
    return {FIELDS[dimension]: CHOSEN[dimension] for dimension in DIMENSIONS[hook] if dimension in dimensions}


@dataclasses.dataclass
class Case:
    """An edit on both sides."""
    interventions: list[phitap.Intervention]
    changes: Edits

    @classmethod
    def of(cls, hook: str, intervention: phitap.Intervention, formula: formulas.Formula,
           dimensions: tuple[str, ...] = ("seq", "heads", "query", "key")) -> "Case":
        return cls([intervention], {at(hook): [formulas.on(part(hook, dimensions), formula)]})


def only_visible(world: World, edit):
    """Entries that a query cannot see are never written."""
    def visible(value: torch.Tensor) -> None:
        before = value.clone()
        edit(value)
        value[:, ~world.visible()] = before[:, ~world.visible()]

    return visible


def patch_case(world: World, hook: str) -> Case:
    everything = tuple(FIELDS)
    clean = world.clean[at(hook)]
    case = Case.of(hook, edits.set_(name(hook), phitap.RunValue("clean"), **where(hook, everything)),
                   formulas.set_(clean[formulas.mesh(clean, part(hook, everything))]), everything)
    if hook in PATTERNS:
        case.changes[at(hook)] = [only_visible(world, edit) for edit in case.changes[at(hook)]]
    return case


def add_case(world: World, hook: str) -> Case:
    value = world.vector(world.size(hook) if hook not in PATTERNS else 1)
    case = Case.of(hook, edits.add(name(hook), value, scale=0.3), formulas.add(value, 0.3), ())
    if hook in PATTERNS:
        case.changes[at(hook)] = [only_visible(world, edit) for edit in case.changes[at(hook)]]
    return case


def scale_case(world: World, hook: str) -> Case:
    value = world.vector(world.size(hook))
    return Case.of(hook, edits.scale(name(hook), value, **where(hook)), formulas.scale(value))


def zero_case(world: World, hook: str) -> Case:
    return Case.of(hook, edits.zero(name(hook), **where(hook)), formulas.set_(torch.zeros(())))


def other_place_case(world: World, hook: str) -> Case:
    """A patchscope: another layer, position and hook point of another run."""
    value = world.clean["layer_output", 0][5]
    source = phitap.RunValue("clean", "layers.0.layer_output", phitap.Selection(positions=5))
    return Case.of(hook, edits.set_(name(hook), source, **where(hook)), formulas.set_(value))


def mean_case(world: World, hook: str) -> Case:
    clean = world.clean[at(hook)]
    plain = world.expected({})[at(hook)]
    mean = torch.stack([clean.float(), plain.float()]).mean(0)
    return Case.of(hook, edits.set_(name(hook), phitap.MeanOfRuns(["clean", "plain"]), **where(hook)),
                   formulas.set_(mean[formulas.mesh(mean, part(hook))]))


def mean_over_positions_case(world: World, hook: str) -> Case:
    """All positions of both runs count alike."""
    both = torch.cat([world.clean[at(hook)].float(), world.expected({})[at(hook)].float()])
    value = phitap.MeanOfRuns(["clean", "plain"], over_positions=True, selection=phitap.Selection(positions=slice(None)))
    return Case.of(hook, edits.set_(name(hook), value, **where(hook, ("seq",))), formulas.set_(both.mean(0)), ("seq",))


def project_out_case(world: World, hook: str, keep: float = 0.0) -> Case:
    direction = world.vector(world.size(hook))
    return Case.of(hook, edits.project_out(name(hook), direction, keep, **where(hook)), formulas.project_out(direction, keep))


def clamp_projection_case(world: World, hook: str, low: float | None = -0.1, high: float | None = 0.1) -> Case:
    direction = world.vector(world.size(hook))
    return Case.of(hook, edits.clamp_projection(name(hook), direction, low, high, **where(hook)),
                   formulas.clamp_projection(direction, low, high))


def swap_case(world: World, hook: str, both: bool = False) -> Case:
    source, target = world.vector(world.size(hook)), world.vector(world.size(hook))
    return Case.of(hook, edits.swap(name(hook), source, target, both, **where(hook)), formulas.swap(source, target, both))


def clamp_case(world: World, hook: str) -> Case:
    return Case.of(hook, edits.clamp(name(hook), -0.2, 0.1, **where(hook)), formulas.clamp(-0.2, 0.1))


def noise_case(world: World, hook: str) -> Case:
    like = phitap.RunValue("0", name(hook), phitap.Selection(**where(hook)))
    read_back = world.client.trace([world.ids], phitap.Capture(label="noise", node=values.noise(like, seed=11)), model=world.kind)
    drawn = read_back.torch("noise")
    assert abs(drawn.mean()) < 0.3 and 0.8 < drawn.std() < 1.2
    return Case.of(hook, edits.noise(name(hook), 0.7, seed=11, **where(hook)), formulas.noise(drawn, 0.7))


def subspace_case(world: World, hook: str, masked: bool = False) -> Case:
    basis = torch.linalg.qr(world.vector(world.size(hook), 3)).Q
    mask = torch.tensor([0.25, 1.0, 0.0]) if masked else None
    clean = world.clean[at(hook)]
    source = clean[formulas.mesh(clean, part(hook))]
    return Case.of(hook, edits.subspace(name(hook), basis, phitap.RunValue("clean"), mask, **where(hook)),
                   formulas.subspace(basis, source, mask))


def knockout_case(world: World, hook: str) -> Case:
    case = Case.of(hook, edits.knockout(name(hook), **where(hook)), formulas.set_(torch.tensor(-torch.inf)))
    case.changes[at(hook)] = [only_visible(world, edit) for edit in case.changes[at(hook)]]
    return case


def dictionary_case(world: World, hook: str, activation: str, drop_error: bool = False, transcoder: bool = False) -> Case:
    weights = world.dictionary(activation)
    encoded_hook = "mlp_input" if transcoder else hook
    clean = world.clean[at(encoded_hook)][CHOSEN["seq"]].float()
    from_clean = formulas.encode(clean, weights, activation)[..., 4]
    changes = {2: lambda f: torch.full_like(f, 3.0), 9: lambda f: f * 2.0, 1: lambda f: f + 0.5, 4: lambda f: from_clean}
    edited = [edits.feature(2, set=3.0), edits.feature(9, scale=2.0), edits.feature(1, add=0.5), edits.feature(4, from_run="clean")]
    encoded = world.expected({})["mlp_input", LAYER][CHOSEN["seq"]] if transcoder else None
    return Case.of(hook, edits.dictionary(name(hook), edits.Dictionary(f"{world.kind}-{activation}", activation, k=3 * (activation == "top_k")),
                                          edited, drop_error, "mlp_input" if transcoder else "", **where(hook)),
                   formulas.dictionary(weights, activation, changes, drop_error, encoded))


def skip_module_case(world: World, hook: str) -> Case:
    return Case.of(hook, edits.skip(name(hook)), formulas.set_(torch.zeros(())), ())


def skip_layer_case(world: World, hook: str) -> Case:
    remembered = {}
    return Case([edits.skip(name(hook))], {("layer_input", LAYER): [lambda value: remembered.update(x=value.clone())],
                                           (hook, LAYER): [lambda value: value.copy_(remembered["x"])]})


def order_case(world: World, hook: str) -> Case:
    """Several edits at one place apply in the order given."""
    value, other = world.vector(world.size(hook)), world.vector(world.size(hook))
    return Case([edits.add(name(hook), value), edits.scale(name(hook), 0.5, positions=CHOSEN["seq"]), edits.add(name(hook), other)],
                {at(hook): [formulas.on({}, formulas.add(value)), formulas.on({0: CHOSEN["seq"]}, formulas.scale(torch.tensor(0.5))),
                            formulas.on({}, formulas.add(other))]})


def when_case(world: World, hook: str) -> Case:
    """One truth a position: the edit is made where the norm is above its mean."""
    norm = values.read("edited", "layers.0.layer_output").norm([-1], keep=True)
    value = world.vector(world.size(hook))
    above = {}

    def decide(stream: torch.Tensor) -> None:
        norms = stream.float().norm(dim=-1, keepdim=True)
        above.update(condition=norms > norms.mean())

    def add(stream: torch.Tensor) -> None:
        stream.copy_(torch.where(above["condition"], (stream.float() + value).to(stream.dtype), stream))

    return Case([edits.add(name(hook), value, when=norm > norm.mean())], {("layer_output", 0): [decide], at(hook): [add]})


KIND_CASES = {
    "scale": [(scale_case, hook, {}) for hook in ("layer_output", "attention_premix", "attention_queries")],
    "zero": [(zero_case, hook, {}) for hook in ("mlp_neurons", "attention_keys", "attention_head_outputs")],
    "other_place": [(other_place_case, hook, {}) for hook in ("layer_output", "final_norm_output", "mlp_output")],
    "mean": [(mean_case, hook, {}) for hook in ("layer_output", "attention_premix", "mlp_neurons")],
    "mean_over_positions": [(mean_over_positions_case, hook, {}) for hook in ("layer_output", "attention_head_outputs")],
    "project_out": [(project_out_case, hook, dict(keep=keep)) for hook in ("layer_output", "attention_premix") for keep in (0.0, 0.4)],
    "clamp_projection": [(clamp_projection_case, "layer_output", bounds) for bounds in ({}, dict(low=None), dict(high=None),
                                                                                        dict(low=2.0, high=2.0))],
    "swap": [(swap_case, hook, dict(both=both)) for hook in ("layer_output", "layer_input") for both in (False, True)],
    "clamp": [(clamp_case, hook, {}) for hook in ("mlp_neurons", "layer_mid", "attention_values")],
    "noise": [(noise_case, hook, {}) for hook in ("token_embeddings", "layer_output", "attention_queries", "attention_premix")],
    "subspace": [(subspace_case, hook, dict(masked=masked)) for hook in ("layer_output", "attention_output") for masked in (False, True)],
    "dictionary": [(dictionary_case, "layer_output", dict(activation=activation, drop_error=drop_error))
                   for activation in ("relu", "jump_relu", "top_k") for drop_error in (False, True)] + [
        (dictionary_case, "mlp_output", dict(activation="relu", drop_error=drop_error, transcoder=True)) for drop_error in (False, True)],
    "knockout": [(knockout_case, "attention_scores", {})],
    "skip": [(skip_module_case, "attention_output", {}), (skip_module_case, "mlp_output", {}), (skip_layer_case, "layer_output", {})],
    "order": [(order_case, hook, {}) for hook in ("layer_output", "layer_mid", "mlp_gate_up")],
    "when": [(when_case, hook, {}) for hook in ("layer_output", "mlp_output")],
}
ALL_CASES = {f"patch-{hook}": (patch_case, hook, {}) for hook in DIMENSIONS} | {f"add-{hook}": (add_case, hook, {}) for hook in DIMENSIONS} | {
    f"{kind}-{hook}{number}": (make, hook, settings) for kind, cases in KIND_CASES.items()
    for number, (make, hook, settings) in enumerate(cases)}
