"""Promise: the bits of a run never depend on who shares with it. Crowds of random requests whose runs have prompts, beginnings of prompts
and edits in common, sent over several connections at once, several at a time and one after another; every tensor and token is compared
with that of the run alone, asked for over a connection of its own from a server that computes nothing else.

PHITAP_SHARING_SEED=N draws other crowds. What differs is shown with its request as JSON.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
from collections.abc import Iterator

import numpy as np
import pytest
from google.protobuf import json_format

import phitap
from checkpoint_kinds import ORIGINAL_LENGTH, VOCABULARY, make_checkpoint
from phitap import edits
from phitap.v1 import trace_pb2
from random_edits import Shape
from random_runs import LAYERS, CellDraft, RequestDraft, RunDraft, Stock, dictionary_tensors
from served import bits, serve

SEED = os.environ.get("PHITAP_SHARING_SEED", "0")
KINDS = ["gqa", "window", "longrope", "partial_tied"]
CONFIGURATIONS = [(dtype, threads) for threads in (2, 12, 48) for dtype in ("float32", "bfloat16")]
CONNECTIONS = 3
REQUESTS = 5  # of each connection
AT_ONCE = 3  # of each connection
LEAST_TENSORS = 10_000
compared: dict[str, int] = {}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(base / kind, kind, num_hidden_layers=LAYERS) for kind in KINDS}


@dataclasses.dataclass
class Served:
    """Addresses of the server that crowds go to, and of the one that computes one run at a time."""
    name: str
    crowd: str
    lone: str


def put_dictionaries(address: str, checkpoints: dict[str, pathlib.Path]) -> None:
    with phitap.Client(address, timeout=60) as client:
        for kind, folder in checkpoints.items():
            for part, tensor in dictionary_tensors(Shape.of(kind, folder).hidden).items():
                client.put_tensor(f"{kind}-sae.{part}", tensor)


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=lambda p: f"{p[0]}-{p[1]}threads")
def served(request, checkpoints, tmp_path_factory) -> Iterator[Served]:
    with contextlib.ExitStack() as servers:
        addresses = [servers.enter_context(contextlib.contextmanager(serve)(checkpoints, tmp_path_factory.mktemp(name), *request.param))
                     for name in ("crowd", "lone")]
        for address in addresses:
            put_dictionaries(address, checkpoints)
        yield Served("{}-{}threads".format(*request.param), *addresses)


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


def ask_crowd(address: str, crowd: list[list[RequestDraft]], rng: random.Random) -> list[list[phitap.Trace]]:
    """Each list of requests over a connection of its own, several at once, in random order."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(phitap.Client(address, timeout=300)) for _ in crowd]
        pools = [stack.enter_context(concurrent.futures.ThreadPoolExecutor(AT_ONCE)) for _ in crowd]
        order = [(connection, number) for connection, drafts in enumerate(crowd) for number in range(len(drafts))]
        rng.shuffle(order)
        coming = {(connection, number): pools[connection].submit(send, clients[connection], crowd[connection][number].message())
                  for connection, number in order}
        return [[coming[connection, number].result() for number in range(len(drafts))] for connection, drafts in enumerate(crowd)]


def compare(draft: RequestDraft, trace: phitap.Trace, lone: Lone) -> int:
    """The number of tensors compared."""
    answers = lone.answers()
    count = 0
    for run in draft.runs:
        ours, alone = Answer.of(trace, run.label), answers[run.label]
        differing = ours.differing(alone)
        assert differing == [], (f"seed {SEED}: {run.label}: {differing}\n{json_format.MessageToJson(draft.message())}\nalone:\n"
                                 f"{json_format.MessageToJson(lone.message(run))}")
        count += len(ours.tensors)
    for cell in draft.cells:
        ours = trace.sweep(cell.sweep, "logit")[cell.index]
        assert bits(ours) == bits(lone.cell(cell)), (f"seed {SEED}: cell {cell.index}\n{json_format.MessageToJson(draft.message())}")
        count += 1
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_has_its_bits_whoever_shares_with_it(served, checkpoints, kind):
    shape = Shape.of(kind, checkpoints[kind])
    name = f"{SEED} {kind} {served.name}"
    stocks = [Stock(shape, kind, f"{name} {connection // 2}") for connection in range(CONNECTIONS)]  # two callers with the same prompts
    crowd = [[stock.request() for _ in range(REQUESTS)] for stock in stocks]
    traces = ask_crowd(served.crowd, crowd, random.Random(name))
    count = 0
    for draft, trace in zip((draft for drafts in crowd for draft in drafts), (trace for some in traces for trace in some), strict=True):
        lone = Lone(served.lone, draft)
        count += compare(draft, trace, lone)
        lone.forget()
    compared[name] = count


def test_a_fresh_process_gives_the_same_bits(served, checkpoints, tmp_path):
    """Where nobody has ever asked for anything else."""
    dtype, threads = served.name.split("-")
    shape = Shape.of("gqa", checkpoints["gqa"])
    draft = Stock(shape, "gqa", f"{SEED} fresh {served.name}").request(run_count=4)
    with phitap.Client(served.crowd, timeout=300) as client:
        trace = send(client, draft.message())
    count = 0
    for address in serve({"gqa": checkpoints["gqa"]}, tmp_path, dtype, int(threads.removesuffix("threads"))):
        put_dictionaries(address, {"gqa": checkpoints["gqa"]})
        count = compare(draft, trace, Lone(address, draft))
    assert count > 0


@pytest.mark.parametrize("kind", KINDS)
def test_runs_that_share_are_within_rounding_of_transformers(served, checkpoints, kind):
    rng = random.Random(f"{SEED} {kind}")
    ids = [rng.randrange(VOCABULARY) for _ in range(ORIGINAL_LENGTH - 6)]
    vector = np.random.default_rng(5).standard_normal(Shape.of(kind, checkpoints[kind]).hidden).astype(np.float32)
    patch = edits.set_("layers.2.layer_output", phitap.RunValue("other"), positions=[50, 31])
    runs = [phitap.Prompt(ids, "plain"), phitap.Prompt(ids[:40] + ids[:12], "beginning"), phitap.Prompt(ids[::-1], "other"),
            phitap.Prompt(ids, "patched", interventions=[patch]),
            phitap.Prompt(ids, "steered", interventions=[edits.add("layers.1.layer_output", vector, 0.5, positions=slice(40, None))]),
            phitap.Prompt(ids, "ablated", interventions=[edits.zero("layers.3.attention_premix", heads=[1], positions=-1)])]
    with phitap.Client(served.crowd, timeout=300) as client:
        ours = client.trace(runs, ["logits"], model=kind)
        theirs = client.trace(runs, ["logits"], model=kind, numerics="transformers")
    limit = 3e-5 if served.name.startswith("float32") else 0.06
    for run in ours.runs:
        expected = theirs.run(run.label)["logits"].astype(np.float32)
        assert abs(run["logits"].astype(np.float32) - expected).max() <= limit * abs(expected).max(), run.label


def test_enough_was_compared(capsys):
    if len(compared) < len(CONFIGURATIONS) * len(KINDS):
        pytest.skip("not all crowds were asked")
    with capsys.disabled():
        print(f"\nsharing: {sum(compared.values())} tensors compared, seed {SEED}")
    assert sum(compared.values()) >= LEAST_TENSORS
