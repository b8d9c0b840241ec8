"""Random experiments: several runs that take values from each other, several edits each, anywhere. In numerics `transformers` every value
has the bits of the same made with hooks, run by run; by default a run's bits are the same in a crowd of clients as alone.
"""

import concurrent.futures
import pathlib
import random

import pytest
import torch

import edit_formulas as formulas
import phitap
from checkpoint_kinds import VOCABULARY, WINDOW, for_transformers, make_checkpoint
from edit_cases import DIMENSIONS, FIELDS, MODEL_LEVEL, PATTERNS
from hooked_transformers import HookedForward
from phitap import edits
from served import same_bits, serve
from transformers_values import load

KINDS = ["gqa", "window", "partial_tied"]
LAYERS = 3
HOOKS = [hook for hook in DIMENSIONS if hook not in PATTERNS]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind, num_hidden_layers=LAYERS) for kind in KINDS}


@pytest.fixture(scope="module")
def address(checkpoints, tmp_path_factory):
    torch.set_num_threads(2)
    yield from serve(checkpoints, tmp_path_factory.mktemp("server"), "float32", 2)


class Experiment:
    """Runs for the server, and what hooks on transformers make of them."""

    def __init__(self, model, seed: str):
        self._model = model
        self._random = random.Random(seed)
        self._vectors = torch.Generator().manual_seed(self._random.randrange(1 << 30))
        self.length = self._random.randint(3, WINDOW + 9)
        plain = HookedForward(model)
        plain([1] * self.length)
        self._shapes = {place: tuple(value.shape) for place, value in plain.seen.items()}
        self.prompts: list[phitap.Prompt] = []
        self.seen: dict[str, dict[tuple[str, int], torch.Tensor]] = {}
        for number in range(self._random.randint(2, 4)):
            self._add_run(f"run {number}")
        self._random.shuffle(self.prompts)  # the server finds the order in which they need each other

    def _add_run(self, label: str) -> None:
        ids = [self._random.randrange(VOCABULARY) for _ in range(self.length)]
        interventions, changes = [], {}
        for _ in range(self._random.randint(0, 4)):
            hook = self._random.choice(HOOKS)
            layer = -1 if hook in MODEL_LEVEL else self._random.randrange(LAYERS)
            part, where = self._part(hook, layer)
            intervention, formula = self._edit(hook, layer, part, where)
            interventions.append(intervention)
            changes.setdefault((hook, layer), []).append(formulas.on(part, formula))
        forward = HookedForward(self._model, changes)
        forward(ids)
        self.seen[label] = forward.seen
        self.prompts.append(phitap.Prompt(ids, label, interventions=interventions))

    def _shape(self, hook: str, layer: int) -> tuple[int, ...]:
        return self._shapes[hook, layer]

    def _part(self, hook: str, layer: int) -> tuple[dict[int, list[int]], dict[str, list[int]]]:
        part = {}
        for i, size in enumerate(self._shape(hook, layer)):
            if self._random.random() < 0.5:
                part[i] = self._random.sample(range(size), self._random.randint(1, size))
        return part, {FIELDS[DIMENSIONS[hook][i]]: indices for i, indices in part.items()}

    def _edit(self, hook: str, layer: int, part: dict, where: dict) -> tuple[phitap.Intervention, formulas.Formula]:
        name = hook if hook in MODEL_LEVEL else f"layers.{layer}.{hook}"
        width = len(part.get(len(self._shape(hook, layer)) - 1, range(self._shape(hook, layer)[-1])))
        vector = torch.randn(width, generator=self._vectors)
        kind = self._random.choice(["patch", "patch", "add", "scale", "zero", "clamp", "project_out"])
        if kind == "patch" and self.seen:
            source = self._random.choice(list(self.seen))
            value = self.seen[source][hook, layer]
            return edits.set_(name, phitap.RunValue(source), **where), formulas.set_(value[formulas.mesh(value, part)])
        if kind == "scale":
            return edits.scale(name, 0.75, **where), formulas.scale(torch.tensor(0.75))
        if kind == "zero":
            return edits.zero(name, **where), formulas.set_(torch.zeros(()))
        if kind == "clamp":
            return edits.clamp(name, -0.5, 0.7, **where), formulas.clamp(-0.5, 0.7)
        if kind == "project_out":
            return edits.project_out(name, vector, **where), formulas.project_out(vector)
        return edits.add(name, vector, scale=0.5, **where), formulas.add(vector, 0.5)


CAPTURES = [phitap.Capture(hook if hook in MODEL_LEVEL else f"layers.*.{hook}", hook) for hook in HOOKS]


def values_of(run: phitap.Run) -> dict[tuple[str, int], torch.Tensor]:
    found = {}
    for hook in HOOKS:
        value = run.torch(hook)
        found.update({(hook, -1): value} if hook in MODEL_LEVEL else
                     {(hook, int(point.split(".")[1])): tensor for point, tensor in value.items()})
    return found


@pytest.fixture(scope="module", params=KINDS)
def experiments(request, checkpoints):
    model = load(for_transformers(checkpoints[request.param]), torch.float32, "sdpa")
    return request.param, [Experiment(model, f"{request.param} {number}") for number in range(12)]


def test_equals_hooks_run_by_run(address, experiments):
    kind, made = experiments
    with phitap.Client(address, timeout=300) as client:
        for number, experiment in enumerate(made):
            trace = client.trace(experiment.prompts, CAPTURES, model=kind, numerics="transformers")
            for run in trace.runs:
                ours = values_of(run)
                differing = [place for place in ours if not same_bits(ours[place], experiment.seen[run.label][place])]
                assert differing == [], (number, run.label)


def test_a_crowd_of_experiments_changes_no_bit(address, experiments):
    kind, made = experiments

    def ask(experiment: Experiment) -> list[dict]:
        with phitap.Client(address, timeout=300) as client:
            return [values_of(run) for run in client.trace(experiment.prompts, CAPTURES, model=kind).runs]

    alone = [ask(experiment) for experiment in made]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        crowded = list(pool.map(ask, made))
    for number, (one, other) in enumerate(zip(alone, crowded, strict=True)):
        for ours, theirs in zip(one, other, strict=True):
            assert [place for place in ours if not same_bits(ours[place], theirs[place])] == [], number


def test_a_run_has_its_bits_whatever_else_is_asked(address, experiments):
    """Only what it takes values from is needed."""
    kind, made = experiments
    with phitap.Client(address, timeout=300) as client:
        for experiment in made:
            independent = [prompt for prompt in experiment.prompts
                           if not any(edit.change == "set" and isinstance(edit.sources["value"], phitap.RunValue)
                                      for edit in prompt.interventions)]
            whole = client.trace(experiment.prompts, CAPTURES, model=kind)
            for prompt in independent:
                ours, alone = values_of(whole.run(prompt.label)), values_of(client.trace(prompt, CAPTURES, model=kind).runs[0])
                assert [place for place in ours if not same_bits(ours[place], alone[place])] == [], prompt.label
