"""Random edits of every kind at every hook point that can be written."""

import dataclasses
import json
import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import phitap
from edit_cases import DIMENSIONS, FIELDS, MODEL_LEVEL, PATTERNS
from phitap import edits, values

#: Gives the name under which a value of another run is kept.
Keep = Callable[[phitap.RunValue], str]
#: Makes an intervention for the run of a label, which reads other runs, or with a Keep what is kept of them.
Edit = Callable[[str, Keep | None], phitap.Intervention]

_KEYS = ("attention_keys_pre_rotary", "attention_keys", "attention_values")
_SKIPPED = ("layer_output", "attention_output", "mlp_output")


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a checkpoint's values."""
    kind: str
    layers: int
    heads: int
    key_heads: int
    widths: dict[str, int]

    @classmethod
    def of(cls, kind: str, folder: pathlib.Path) -> "Shape":
        config = json.loads((folder / "config.json").read_text())
        heads, key_heads, hidden, neurons = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "hidden_size",
                                                                      "intermediate_size"))
        head = config.get("head_dim") or hidden // heads
        by_head = dict.fromkeys(("attention_queries_pre_rotary", "attention_queries", "attention_head_outputs", "attention_premix", *_KEYS),
                                head)
        by_neuron = dict.fromkeys(("mlp_gate", "mlp_up", "mlp_activation", "mlp_neurons"), neurons)
        own = {"attention_qkv": (heads + 2 * key_heads) * head, "mlp_gate_up": 2 * neurons, "lm_head_output": config["vocab_size"],
               "logits": config["vocab_size"], "next_token_probs": config["vocab_size"]}
        return cls(kind, config["num_hidden_layers"], heads, key_heads, by_head | by_neuron | own | {"": hidden})

    @property
    def hidden(self) -> int:
        return self.widths[""]

    def width(self, hook: str) -> int:
        return self.widths.get(hook, self.hidden)

    def head_count(self, hook: str) -> int:
        return self.key_heads if hook in _KEYS else self.heads


@dataclasses.dataclass
class Place:
    """A hook point of one layer and the part of it that is edited."""
    hook: str
    name: str
    layer: int
    where: dict[str, list[int]]
    width: int  # of the part, along the last dimension


class EditMaker:
    """Draws edits for runs of a checkpoint. earlier: label and prompt length of the runs whose values they may take."""

    def __init__(self, shape: Shape, rng: random.Random, earlier: list[tuple[str, int]]):
        self._shape, self._random, self._earlier = shape, rng, earlier

    def static(self, count: int) -> list[Edit]:
        """Edits at positions 0 to 5 that need no other values: any run with that many tokens can have them."""
        return [self._simple(self._place(self._hook(False), 6, self._random.randrange(self._shape.layers))) for _ in range(count)]

    def any(self, length: int, patterns: bool, generates: bool) -> Edit:
        place = self._place(self._hook(patterns), length, self._random.randrange(self._shape.layers))
        if generates and self._random.random() < 0.7:  # then it goes on at every step
            place.where = {field: chosen for field, chosen in place.where.items() if field not in ("positions", "queries", "keys")}
        if place.hook in PATTERNS:
            kind = self._simple if generates else self._random.choice([self._simple, self._simple, self._patch])
            return self._guarded(kind(place), place, generates)
        kinds = [self._simple] * 4 + [self._named]
        if not generates:
            kinds += [self._patch] * 2 + [self._unchanged, self._nonfinite, self._elsewhere, self._mean, self._own, self._mixed,
                                          self._subspace]
        return self._guarded(self._random.choice(kinds)(place), place, generates)

    def swept(self, hook: str, clean: str | None) -> Callable[..., phitap.Intervention]:
        """made(layer, label, keep, **where) for the cells of a sweep."""
        vector = self._vector(self._shape.width(hook))
        if clean is None or self._random.random() < 0.4:
            make = self._random.choice([edits.add, edits.set_, edits.scale])
            return lambda layer, label, keep, **where: make(f"{layer}.{hook}", vector, **where)

        def made(layer: str, label: str, keep: Keep | None, **where) -> phitap.Intervention:
            return edits.set_(f"{layer}.{hook}", source(phitap.RunValue(clean, f"{layer}.{hook}", phitap.Selection(**where)), keep)
                              if keep else phitap.RunValue(clean), **where)

        return made

    def _hook(self, patterns: bool) -> str:
        if patterns and self._random.random() < 0.3:
            return self._random.choice(PATTERNS)
        return self._random.choice([hook for hook in DIMENSIONS if hook not in PATTERNS])

    def _place(self, hook: str, length: int, layer: int) -> Place:
        where = self._visible(length) if hook in PATTERNS else {}
        sizes = {"seq": length, "heads": self._shape.head_count(hook), "features": self._shape.width(hook)}
        for dimension in DIMENSIONS[hook]:
            if dimension in sizes and self._random.random() < (0.75 if dimension == "seq" else 0.35):
                where[FIELDS[dimension]] = self._some(sizes[dimension], late=dimension == "seq")
        width = len(where.get("features", range(self._shape.width(hook))))
        if hook in MODEL_LEVEL:
            return Place(hook, hook, -1 if hook == "token_embeddings" else self._shape.layers, where, width)
        return Place(hook, f"layers.{layer}.{hook}", layer, where, width)

    def _some(self, size: int, late: bool) -> list[int]:
        first = self._random.randrange(size) if late else 0
        return self._random.sample(range(first, size), self._random.randint(1, min(size - first, 6)))

    def _visible(self, length: int) -> dict[str, list[int]]:
        """Queries and keys, of which the first query sees the first key, inside every window."""
        query = self._random.randrange(length)
        key = self._random.randint(max(0, query - 5), query)
        others = self._random.sample(range(length), min(length, 3))
        return {"queries": [query, *(i for i in others if i != query)], "keys": [key, *(i for i in others if i != key)]}

    def _vector(self, width: int) -> np.ndarray:
        return np.array([self._random.gauss(0, 1) for _ in range(width)], np.float32)

    def _guarded(self, edit: Edit, place: Place, generates: bool) -> Edit:
        """Sometimes only where a computed condition holds."""
        reads = self._reads(place)
        if generates or not reads or self._random.random() < 0.75:
            return edit
        hook, bound = self._random.choice(reads), self._random.uniform(0.5, 4)
        if self._earlier and self._random.random() < 0.3:
            other = phitap.RunValue(self._random.choice(self._earlier)[0], hook, phitap.Selection(positions=slice(None)))
            return lambda label, keep: dataclasses.replace(edit(label, keep), when=node(other, keep).max() > bound)
        if "positions" in place.where and self._random.random() < 0.6:
            bound *= self._shape.hidden**0.5 / 2
            return lambda label, keep: dataclasses.replace(edit(label, keep), when=values.read(
                label, hook, positions=place.where["positions"]).norm([-1], keep=True) > bound)
        return lambda label, keep: dataclasses.replace(edit(label, keep), when=values.read(label, hook).max() > bound)

    def _reads(self, place: Place) -> list[str]:
        """[seq, hidden_size] values that come before the place."""
        return (["token_embeddings"] if place.layer >= 0 else []) + [f"layers.{layer}.{hook}" for layer in range(max(place.layer, 0))
                                                                     for hook in ("layer_output", "mlp_output", "attention_output")]

    def _simple(self, place: Place) -> Edit:
        """Needs nothing but what it says."""
        name, where = place.name, place.where
        makes = [lambda: edits.zero(name, **where), lambda: edits.set_(name, self._random.gauss(0, 1), **where),
                 lambda: edits.add(name, self._random.gauss(0, 1), self._random.uniform(-2, 2), **where),
                 lambda: edits.scale(name, self._random.choice([0.5, -1.0, 3.0]), **where),
                 lambda: edits.clamp(name, -0.3, self._random.choice([None, 0.4]), **where),
                 lambda: edits.noise(name, self._random.uniform(0.1, 1), self._random.randrange(4), **where)]
        if place.hook == "attention_scores":
            makes += [lambda: edits.knockout(name, **where)] * 3
        if place.hook not in PATTERNS:
            vector, other = self._vector(place.width), self._vector(place.width)
            makes += [lambda: edits.set_(name, vector, **where), lambda: edits.add(name, vector, 0.5, **where),
                      lambda: edits.scale(name, vector, **where), lambda: edits.project_out(name, vector, 0.3, **where),
                      lambda: edits.clamp_projection(name, vector, -0.2, 0.1, **where),
                      lambda: edits.swap(name, vector, other, self._random.random() < 0.5, **where)]
        if place.hook in _SKIPPED:
            only = {"positions": where["positions"]} if "positions" in where else {}
            makes += [lambda: edits.skip(name, **only)] * 6
        made = self._random.choice(makes)()
        return lambda label, keep: made

    def _unchanged(self, place: Place) -> Edit:
        """Writes the bits that are there."""
        name, where = place.name, place.where
        made = self._random.choice([edits.scale(name, 1.0, **where), edits.clamp(name, -3e38, None, **where),
                                    edits.set_(name, phitap.RunValue(read_time="before"), **where)])
        return lambda label, keep: made

    def _nonfinite(self, place: Place) -> Edit:
        number = self._random.choice([1.0, -1.0, 0.0])
        change = self._random.choice([edits.set_, edits.add])
        place.where |= {"positions": place.where["positions"][:1]} if "positions" in place.where else {}
        return lambda label, keep: change(place.name, values.of(number) / values.of(0.0), **place.where)

    def _named(self, place: Place) -> Edit:
        """Features of the dictionary that is kept as KIND-sae, where the value has the right width."""
        if place.width != self._shape.hidden or DIMENSIONS[place.hook] != ("seq", "features") or "features" in place.where:
            return self._simple(place)
        changed = [edits.feature(self._random.randrange(24), set=2.0), edits.feature(self._random.randrange(24), scale=-1.0)]
        made = edits.dictionary(place.name, edits.Dictionary(f"{self._shape.kind}-sae", "relu"), changed, self._random.random() < 0.3,
                                **place.where)
        return lambda label, keep: made

    def _patch(self, place: Place) -> Edit:
        """The same part of another run."""
        positions = [i for field in ("positions", "queries", "keys") for i in place.where.get(field, [])]
        needed = max(positions, default=-1) + 1
        fitting = [label for label, length in self._earlier if length >= needed]
        if not fitting or not positions:
            return self._simple(place)
        value = phitap.RunValue(self._random.choice(fitting), place.name, phitap.Selection(**place.where))
        return lambda label, keep: edits.set_(place.name, source(value, keep), **place.where)

    def _elsewhere(self, place: Place) -> Edit:
        """One position of another layer of another run, at all that are edited."""
        if not self._earlier or place.width != self._shape.hidden or "features" in place.where:
            return self._simple(place)
        run, length = self._random.choice(self._earlier)
        hook = f"layers.{self._random.randrange(self._shape.layers)}.layer_output"
        value = phitap.RunValue(run, hook, phitap.Selection(positions=self._random.randrange(length)))
        return lambda label, keep: edits.set_(place.name, source(value, keep), **place.where)

    def _mean(self, place: Place) -> Edit:
        """Of an earlier run's positions: made from the kept value, the same mean."""
        if not self._earlier or DIMENSIONS[place.hook][0] != "seq" or "heads" in place.where or "features" in place.where:
            return self._simple(place)
        run, _ = self._random.choice(self._earlier)
        read = phitap.RunValue(run, place.name, phitap.Selection(positions=slice(None)))
        return lambda label, keep: edits.add(place.name, node(read, keep).mean([0], keep=True), 0.5, **place.where)

    def _own(self, place: Place) -> Edit:
        """Another value of the run itself, from before."""
        reads = self._reads(place)
        if not reads or place.width != self._shape.hidden or "features" in place.where or "positions" not in place.where:
            return self._simple(place)
        value = phitap.RunValue("", self._random.choice(reads), phitap.Selection(positions=place.where["positions"]))
        change = self._random.choice([edits.set_, edits.add])
        return lambda label, keep: change(place.name, value, **place.where)

    def _mixed(self, place: Place) -> Edit:
        """A program over all positions of the run itself: what comes later reaches what comes earlier."""
        reads = self._reads(place)
        if not reads or place.width != self._shape.hidden or DIMENSIONS[place.hook] != ("seq", "features"):
            return self._simple(place)
        hook, scale = self._random.choice(reads), self._random.uniform(-1, 1)
        weight = self._vector(self._shape.hidden**2).reshape(self._shape.hidden, -1) / self._shape.hidden
        form = self._random.choice([lambda x: x.mean([0], keep=True), lambda x: x.max([0], keep=True) * scale,
                                    lambda x: x.linear(weight).softmax().sum([0], keep=True),
                                    lambda x: x.permute(1, 0).softmax().permute(1, 0).norm([0], keep=True)])
        where = {field: chosen for field, chosen in place.where.items() if field != "features"}
        return lambda label, keep: edits.add(place.name, form(values.read(label, hook)), scale, **where)

    def _subspace(self, place: Place) -> Edit:
        patch = self._patch_value(place)
        if patch is None or place.width < 3 or place.hook in PATTERNS:
            return self._simple(place)
        basis = np.linalg.qr(np.stack([self._vector(place.width) for _ in range(2)], axis=1))[0].astype(np.float32)
        return lambda label, keep: edits.subspace(place.name, basis, source(patch, keep), **place.where)

    def _patch_value(self, place: Place) -> phitap.RunValue | None:
        fitting = [label for label, length in self._earlier if length > max(place.where.get("positions", [10**6]))]
        return phitap.RunValue(self._random.choice(fitting), place.name, phitap.Selection(**place.where)) if fitting else None


def source(value: phitap.RunValue, keep: Keep | None) -> Any:
    return keep(value) if keep else value


def node(value: phitap.RunValue, keep: Keep | None) -> values.Value:
    return values.kept(keep(value)) if keep else values.Value("read", value)
