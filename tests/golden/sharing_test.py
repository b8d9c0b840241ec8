"""Promise: the bits of a run never depend on who shares with it. Crowds of random requests whose runs have prompts, beginnings of prompts
and edits in common, sent over several connections at once, several at a time and one after another; every tensor and token is compared
with that of the run alone, asked for over a connection of its own from a server that computes nothing else.

PHITAP_SHARING_SEED=N draws other crowds. What differs is shown with its request as JSON.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
from collections.abc import Iterator

import numpy as np
import pytest

import phitap
from checkpoint_kinds import ORIGINAL_LENGTH, VOCABULARY, make_checkpoint
from lone_runs import Lone, compare, put_dictionary, send
from phitap import edits
from random_edits import Shape
from random_runs import LAYERS, RequestDraft, Stock
from served import serve

SEED = os.environ.get("PHITAP_SHARING_SEED", "0")
KINDS = ["gqa", "window", "longrope", "partial_tied"]
CONFIGURATIONS = [(dtype, threads) for threads in (2, 12, 48) for dtype in ("float32", "bfloat16")]
SHORT_WAVES = {12: ("--max-wave-tokens", "128")}  # by threads: there a request needs several waves
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


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=lambda p: f"{p[0]}-{p[1]}threads")
def served(request, checkpoints, tmp_path_factory) -> Iterator[Served]:
    with contextlib.ExitStack() as servers:
        addresses = [servers.enter_context(contextlib.contextmanager(serve)(checkpoints, tmp_path_factory.mktemp("server"), *request.param,
                                                                            *flags))
                     for flags in (SHORT_WAVES.get(request.param[1], ()), ())]
        for address in addresses:
            for kind, folder in checkpoints.items():
                put_dictionary(address, Shape.of(kind, folder))
        yield Served("{}-{}threads".format(*request.param), *addresses)


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
        put_dictionary(address, shape)
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
