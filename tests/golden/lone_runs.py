"""The runs of a request, each asked for alone, and whether they are the same."""

import collections
import dataclasses

import numpy as np
from google.protobuf import json_format

import phitap
from phitap.v1 import trace_pb2
from random_edits import Shape
from random_runs import CellDraft, RequestDraft, RunDraft
from served import bits


def put_dictionary(address: str, shape: Shape) -> None:
    """Puts the dictionary on the server that random edits name."""
    rng = np.random.default_rng(shape.hidden)
    weight = (24, shape.hidden)
    sizes = {"encoder_weight": weight, "encoder_bias": weight[:1], "decoder_weight": weight, "decoder_bias": weight[1:]}
    with phitap.Client(address, timeout=60) as client:
        for part, size in sizes.items():
            client.put_tensor(f"{shape.kind}-sae.{part}", rng.standard_normal(size).astype(np.float32) / 4)


@dataclasses.dataclass
class Answer:
    """What is compared of a run: its tensors, its tokens and how it ended."""
    tensors: dict[tuple, np.ndarray]
    tokens: list[tuple[int, float]]
    error: str

    @classmethod
    def of(cls, trace: phitap.Trace, label: str) -> "Answer":
        run = trace.run(label)
        found = {key: run._values[key[0]][key[1]][key[2]][key[3]] for key in run.specs}
        gradients = trace.gradients
        found |= {("gradient", *key): gradients._values[key[0]][key[1]][key[2]][key[3]] for key in gradients.specs
                  if key[0] == f"gradient of {label}"}
        return cls(found, [(token.id, token.log_probability) for token in run.generated], str(run.error or ""))

    def differing(self, other: "Answer") -> list:
        names = [key for key in self.tensors.keys() | other.tensors.keys() if key not in self.tensors or key not in other.tensors or
                 self.tensors[key].shape != other.tensors[key].shape or bits(self.tensors[key]) != bits(other.tensors[key])]
        return sorted(names, key=str) + (["tokens"] if self.tokens != other.tokens else []) + (
            [f"{self.error!r} is not {other.error!r}"] if self.error != other.error else [])


class Lone:
    """Asks for each run of a request alone. What it takes of others is kept when they are asked for, so they come first."""

    def __init__(self, address: str, draft: RequestDraft):
        self._address, self._draft = address, draft
        self._kept: dict[str, dict[str, phitap.RunValue]] = collections.defaultdict(dict)
        for run in draft.runs:
            run.made(self._keep)
        for cell in draft.cells:
            cell.base.made(self._keep, (cell.edit,))

    def _keep(self, value: phitap.RunValue) -> str:
        name = f"of {value.run}: {value.hook_point} {value.selection}"[:200]
        name = "".join(letter if letter.isalnum() else "-" for letter in name)
        self._kept[value.run][name] = value
        return name

    def answers(self) -> dict[str, Answer]:
        in_order = sorted(self._draft.runs, key=lambda run: run.label)
        return {run.label: Answer.of(self.send(self.message(run)), run.label) for run in in_order}

    def message(self, run: RunDraft, numerics: str = "causal") -> trace_pb2.TraceRequest:
        kept = [phitap.Capture(value.hook_point, f"kept {name}", tensor_name=name, **vars(value.selection))
                for name, value in self._kept[run.label].items()]
        return self._draft.alone(run, self._keep, kept, numerics)

    def cell(self, cell: CellDraft) -> np.ndarray:
        return self.send(self._draft.cell_alone(cell, self._keep))["logits"]

    def send(self, message: trace_pb2.TraceRequest) -> phitap.Trace:
        with phitap.Client(self._address, timeout=300) as client:
            return send(client, message)

    def forget(self) -> None:
        with phitap.Client(self._address, timeout=300) as client:
            for tensor in client.list_tensors("of-"):
                client.delete_tensor(tensor.name)


def send(client: phitap.Client, message: trace_pb2.TraceRequest) -> phitap.Trace:
    try:
        return client.send(message)
    except phitap.RequestError as error:
        raise AssertionError(f"{error}\n{json_format.MessageToJson(message)}") from error


def compare(draft: RequestDraft, trace: phitap.Trace, lone: Lone) -> int:
    """The number of tensors compared."""
    answers = lone.answers()
    count = 0
    for run in draft.runs:
        ours, alone = Answer.of(trace, run.label), answers[run.label]
        differing = ours.differing(alone)
        assert differing == [], (f"{run.label}: {differing}\n{json_format.MessageToJson(draft.message())}\nalone:\n"
                                 f"{json_format.MessageToJson(lone.message(run))}")
        count += len(ours.tensors)
    for cell in draft.cells:
        ours = trace.sweep(cell.sweep, "logit")[cell.index]
        assert bits(ours) == bits(lone.cell(cell)), (f"cell {cell.index}\n{json_format.MessageToJson(draft.message())}")
        count += 1
    return count
