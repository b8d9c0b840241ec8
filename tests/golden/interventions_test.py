"""Promise: an edited run has the bits of the same edit made with PyTorch hooks on transformers (numerics `transformers`), and in the
default numerics the bits of the same run alone, within rounding of transformers.

Every kind of edit, and patching and adding at every hook point, on checkpoints of several kinds, float32 and bfloat16; the reference
formulas are in edit_formulas.py. Every value of the edited forward is compared.
"""

import dataclasses
import pathlib
import random

import pytest
import torch

import edit_formulas as formulas
import phitap
from checkpoint_kinds import ORIGINAL_LENGTH, VOCABULARY, WINDOW, for_transformers, make_checkpoint
from hooked_transformers import Edits, HookedForward
from phitap import edits, values
from served import same_bits, serve
from transformers_values import load

KINDS = ["gqa", "window", "longrope", "partial_tied"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
THREADS = 2
LENGTH = WINDOW + 6
LAYER = 1
DIMENSIONS = {
    "token_embeddings": ("seq", "features"), "layer_input": ("seq", "features"), "attention_norm_output": ("seq", "features"),
    "attention_qkv": ("seq", "features"), "attention_queries_pre_rotary": ("heads", "seq", "features"),
    "attention_keys_pre_rotary": ("heads", "seq", "features"), "attention_queries": ("heads", "seq", "features"),
    "attention_keys": ("heads", "seq", "features"), "attention_values": ("heads", "seq", "features"),
    "attention_scores": ("heads", "query", "key"), "attention_probabilities": ("heads", "query", "key"),
    "attention_head_outputs": ("seq", "heads", "features"), "attention_premix": ("seq", "heads", "features"),
    "attention_output": ("seq", "features"), "layer_mid": ("seq", "features"), "mlp_norm_output": ("seq", "features"),
    "mlp_input": ("seq", "features"), "mlp_gate_up": ("seq", "features"), "mlp_gate": ("seq", "features"), "mlp_up": ("seq", "features"),
    "mlp_activation": ("seq", "features"), "mlp_neurons": ("seq", "features"), "mlp_output": ("seq", "features"),
    "layer_output": ("seq", "features"), "final_norm_output": ("seq", "features"), "lm_head_output": ("seq", "features"),
    "logits": ("seq", "features"),
}
PATTERNS = ("attention_scores", "attention_probabilities")
MODEL_LEVEL = ("token_embeddings", "final_norm_output", "lm_head_output", "logits")
CHOSEN = {"seq": [LENGTH - 1, 2, 7], "heads": [1, 0], "features": [3, 0, 5], "query": [LENGTH - 1, 9, 4], "key": [3, 0, 8]}
FIELDS = {"seq": "positions", "heads": "heads", "features": "features", "query": "queries", "key": "keys"}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind, num_hidden_layers=3) for kind in KINDS}


@pytest.fixture(scope="module", params=DTYPES)
def served(request, checkpoints, tmp_path_factory):
    """(client, element type)"""
    torch.set_num_threads(THREADS)
    for address in serve(checkpoints, tmp_path_factory.mktemp("server"), request.param, THREADS):
        with phitap.Client(address, timeout=300) as client:
            yield client, DTYPES[request.param]


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
    case = Case.of(hook, edits.set_(name(hook), phitap.MeanOfRuns(["clean", "plain"]), **where(hook)),
                   formulas.set_(mean[formulas.mesh(mean, part(hook))]))
    return case


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


@pytest.fixture(scope="module", params=KINDS)
def worlds(request, served, checkpoints):
    client, dtype = served
    made = {}

    def world(attention: str) -> World:
        if attention not in made:
            made[attention] = World(client, checkpoints[request.param], request.param, dtype, attention)
        return made[attention]

    return world


@pytest.mark.parametrize("case", ALL_CASES)
def test_equals_the_same_edit_made_with_hooks(worlds, case):
    make, hook, settings = ALL_CASES[case]
    for attention in ["eager"] if hook in PATTERNS else ["sdpa", "eager"]:
        world = worlds(attention)
        made = make(world, hook, **settings)
        others = (phitap.Prompt(world.ids, "plain"),)
        ours, theirs = world.ours(made.interventions, "transformers", others), world.expected(made.changes)
        differing = [key for key in ours if not same_bits(ours[key], theirs[key])]
        assert differing == [], attention
        plain = world.expected({})
        assert not same_bits(theirs["logits", -1], plain["logits", -1]), "the edit does nothing"


@pytest.mark.parametrize("case", ALL_CASES)
def test_by_default_has_the_bits_of_the_run_alone(worlds, case):
    make, hook, settings = ALL_CASES[case]
    world = worlds("eager" if hook in PATTERNS else "sdpa")
    made = make(world, hook, **settings)
    plain = phitap.Prompt(world.ids, "plain")
    alone = world.ours(made.interventions, "causal", (plain,))
    rng = random.Random(case)
    crowd = tuple(phitap.Prompt([rng.randrange(VOCABULARY) for _ in range(rng.randint(1, ORIGINAL_LENGTH))], f"other{i}",
                                interventions=[edits.noise("layers.0.layer_output", 1.0, seed=i)]) for i in range(5))
    among = world.ours(made.interventions, "causal", (*crowd[:3], plain, *crowd[3:]))
    assert [key for key in alone if not same_bits(alone[key], among[key])] == []
    theirs = world.expected(made.changes)["logits", -1].float()
    limit = 3e-5 if world.model.dtype == torch.float32 else 0.06
    assert (alone["logits", -1].float() - theirs).abs().max() <= limit * theirs.abs().max()


@pytest.mark.parametrize("numerics", ["causal", "transformers"])
def test_a_query_left_without_any_key_mixes_nothing(worlds, numerics):
    world = worlds("eager")
    queries, heads = [0, 6, LENGTH - 1], [1]
    ours = world.ours([edits.knockout("layers.1.attention_scores", queries=queries, heads=heads)], numerics)
    assert (ours["attention_probabilities", 1][heads][:, queries] == 0).all()
    assert (ours["attention_head_outputs", 1][queries][:, heads] == 0).all()
    assert all(value.isfinite().all() for (hook, _), value in ours.items() if hook != "attention_scores")
    others = [query for query in range(LENGTH) if query not in queries]
    plain = world.ours([], numerics)
    assert same_bits(ours["attention_probabilities", 1][:, others], plain["attention_probabilities", 1][:, others])


def test_noise_is_a_function_of_seed_hook_point_and_position(worlds):
    world = worlds("sdpa")

    def drawn(seed: int = 1, hook: str = "layers.1.layer_output", ids: list[int] = world.ids, label: str = "0", **where) -> torch.Tensor:
        node = values.noise(phitap.RunValue(label, hook, phitap.Selection(**where)), seed)
        crowd = [phitap.Prompt(world.clean_ids, "other")] if label != "0" else []
        return world.client.trace([*crowd, phitap.Prompt(ids, label)], phitap.Capture(label="n", node=node), model=world.kind).torch("n")

    whole = drawn()
    assert torch.equal(drawn(ids=world.clean_ids[:9], label="another"), whole[:9])
    assert torch.equal(drawn(positions=[7, 2], features=slice(3, 9)), whole[[7, 2]][:, 3:9])
    assert all((other != whole).any(-1).all() for other in (drawn(seed=2), drawn(hook="layers.2.layer_output"),
                                                            drawn(hook="layers.1.layer_mid")))
    assert abs(whole.mean()) < 0.1 and abs(whole.std() - 1) < 0.1
