"""Random requests of runs that have much in common: prompts, beginnings of prompts, edits; and each of their runs as a request of its own.

What a run takes from others is kept on the server as named tensors when it is asked for alone.
"""

import dataclasses
import random
from collections.abc import Callable

import phitap
from checkpoint_kinds import KINDS, ORIGINAL_LENGTH, VOCABULARY
from phitap import metrics
from phitap.v1 import trace_pb2
from random_captures import random_capture
from random_edits import Edit, EditMaker, Keep, Shape

LAYERS = 4
LONGROPE = [kind for kind in KINDS if "rope_scaling" in KINDS[kind]]


@dataclasses.dataclass
class RunDraft:
    """A run before it is known whether it is asked for among others or alone."""
    label: str
    prompt: dict
    edits: list[Edit]
    generation: phitap.Generation | None = None

    @property
    def length(self) -> int:
        return len(self.prompt["input"])

    def programs_read_itself(self) -> bool:
        """In a cell that repeats it they would go on reading it, and not the cell."""
        request = phitap.request.trace_message([self.made()])
        return any(node.read.run == self.label for node in request.program.nodes)

    def made(self, keep: Keep | None = None, more: tuple[Edit, ...] = ()) -> phitap.Prompt:
        """keep: gives the name under which a value of another run is kept; None reads it from that run."""
        interventions = [edit(self.label, keep) for edit in (*self.edits, *more)]
        return phitap.Prompt(**self.prompt, label=self.label, interventions=interventions, generation=self.generation)


@dataclasses.dataclass
class CellDraft:
    """One cell of a sweep, as a run with one edit more, whose metric is the logit of `token_id`."""
    sweep: str
    index: tuple[int, ...]
    base: RunDraft
    edit: Edit
    token_id: int


@dataclasses.dataclass
class RequestDraft:
    model: str
    attention: str
    runs: list[RunDraft]
    captures: list[phitap.Capture]
    gradients: list[metrics.Gradient]
    sweeps: list[metrics.Sweep]
    cells: list[CellDraft]

    def message(self) -> trace_pb2.TraceRequest:
        return phitap.request.trace_message([run.made() for run in self.runs], self.captures, self._options(), self.gradients, self.sweeps)

    def alone(self, run: RunDraft, keep: Keep, kept: list[phitap.Capture], numerics: str = "causal") -> trace_pb2.TraceRequest:
        """kept: values of it that other runs take, to be kept."""
        captures = [dataclasses.replace(capture, runs=[]) for capture in self.captures if run.label in capture.runs]
        gradients = [gradient for gradient in self.gradients if gradient.run == run.label]
        return phitap.request.trace_message([run.made(keep)], captures + kept, self._options(numerics), gradients)

    def cell_alone(self, cell: CellDraft, keep: Keep) -> trace_pb2.TraceRequest:
        capture = phitap.Capture("logits", positions=-1, features=cell.token_id, dtype="float32")
        return phitap.request.trace_message([cell.base.made(keep, (cell.edit,))], [capture], self._options())

    def _options(self, numerics: str = "causal") -> phitap.Options:
        return phitap.Options(model=self.model, attention=self.attention, numerics=numerics)


class Stock:
    """What the requests of one caller have in common: prompts and edits."""

    def __init__(self, shape: Shape, model: str, seed: str):
        self._random = random.Random(seed)
        self._shape, self._model = shape, model
        lengths = [self._random.choice([7, 19, 33, 40, 62]) for _ in range(2)]
        if model in LONGROPE:
            lengths[0] = ORIGINAL_LENGTH + self._random.choice([0, 3])
        self._prompts = [self._drawn(length) for length in lengths]
        self._edits = [EditMaker(shape, self._random, []).static(self._random.randint(2, 6)) for _ in range(3)]

    def request(self, run_count: int | None = None) -> RequestDraft:
        attention = self._random.choice(["sdpa", "eager"])
        runs: list[RunDraft] = []
        for number in range(run_count or self._random.randint(1, 7)):
            runs.append(self._run(f"run{number:02}", attention == "eager", runs))
        captures = [self._capture(runs, f"capture{number}") for number in range(self._random.randint(3, 7))]
        captures.append(self._capture(runs, "of all", every=True))
        gradients = [self._gradient(run) for run in runs if run.generation is None and self._random.random() < 0.1]
        sweeps, cells = self._sweep(runs) if self._random.random() < 0.4 else ([], [])
        self._random.shuffle(runs)  # the server finds the order in which they need each other
        return RequestDraft(self._model, attention, runs, captures, gradients, sweeps, cells)

    def _drawn(self, length: int) -> list[int]:
        return [self._random.randrange(VOCABULARY) for _ in range(length)]

    def _prompt(self) -> dict:
        base = self._random.choice(self._prompts)
        common = self._random.choice([len(base), len(base), self._random.randint(1, len(base)), 0])
        ids = base[:common] + self._drawn(self._random.choice([0, 0, self._random.randint(1, 30)]))
        prompt = dict(input=ids or self._drawn(5))
        length = len(prompt["input"])
        if self._random.random() < 0.12:
            prompt["hidden_positions"] = sorted(self._random.sample(range(length), self._random.randint(1, max(1, length // 4))))
        if self._random.random() < 0.12:
            turn = self._random.randrange(length)
            prompt["position_ids"] = [position + (position >= turn) for position in range(length)]
        return prompt

    def _run(self, label: str, eager: bool, earlier: list[RunDraft]) -> RunDraft:
        prompt = self._prompt()
        if earlier and self._random.random() < 0.3:
            prompt = self._random.choice(earlier).prompt
        generation = None
        if self._random.random() < 0.15:
            generation = phitap.Generation(self._random.randint(1, 4), temperature=self._random.choice([0.0, 0.9]),
                                           seed=self._random.randrange(9), ignore_stop_ids=True)
        maker = EditMaker(self._shape, self._random, [(run.label, run.length) for run in earlier])
        edits = list(self._common_edits(len(prompt["input"])))
        for _ in range(self._random.choice([0, 1, 1, 2, 3])):
            plain = "hidden_positions" not in prompt
            edits.append(maker.any(len(prompt["input"]), patterns=eager and plain, generates=generation is not None))
        return RunDraft(label, prompt, edits, generation)

    def _common_edits(self, length: int) -> list[Edit]:
        """Some of the stock, in its order."""
        if length < 6 or self._random.random() < 0.4:
            return []
        return [edit for edit in self._random.choice(self._edits) if self._random.random() < 0.8]

    def _capture(self, runs: list[RunDraft], label: str, every: bool = False) -> phitap.Capture:
        chosen = runs if every else self._random.sample(runs, self._random.randint(1, len(runs)))
        return random_capture(self._shape, self._random, label, [run.label for run in chosen], min(run.length for run in chosen),
                              generates=any(run.generation is not None for run in chosen))

    def _gradient(self, run: RunDraft) -> metrics.Gradient:
        hook = self._random.choice(["layer_output", "mlp_neurons", "attention_values", "layer_input"])
        return metrics.Gradient(metrics.logit(self._random.randrange(VOCABULARY), run=run.label), run.label,
                                f"layers.{self._random.randrange(LAYERS)}.{hook}", label=f"gradient of {run.label}")

    def _sweep(self, runs: list[RunDraft]) -> tuple[list[metrics.Sweep], list[CellDraft]]:
        candidates = [run for run in runs if run.generation is None and run.length <= 40 and not run.programs_read_itself()]
        if not candidates:
            return [], []
        base = self._random.choice(candidates)
        hook = self._random.choice(["layer_output", "layer_input", "mlp_output", "attention_premix", "attention_output"])
        token = self._random.randrange(VOCABULARY)
        clean = next((run.label for run in runs if run is not base and run.length == base.length), None)
        made = EditMaker(self._shape, self._random, []).swept(hook, clean)
        positions = sorted(self._random.sample(range(base.length), self._random.choice([min(base.length, 5), base.length])))
        sweep = metrics.Sweep(base.label, [made("layers.*", base.label, None)], [metrics.layers(), metrics.positions(positions)],
                              [metrics.logit(token)], label="sweep")
        cells = [CellDraft("sweep", (layer, i), base, swept_cell(made, f"layers.{layer}", position), token)
                 for layer in range(LAYERS) for i, position in enumerate(positions)]
        return [sweep], self._random.sample(cells, 4)


def swept_cell(made: Callable, layer: str, position: int) -> Edit:
    return lambda label, keep: made(layer, label, keep, positions=[position])
