"""Rounds of one task, a turn for every side, and what came of them."""

# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import statistics
import time
from collections.abc import Callable

import judge
import sides
from bench import Bench, Model, progress
from task import Requests, Task

SETTLE_S = 0.05  # idle threads of the side that has just worked stop spinning
LONG_ROUNDS = 3  # tasks with so few take long: what is cold does not matter
REFERENCE = "transformers"
OWN_ROUND = 10_000  # whose prompts phitap's own comparisons take, on top


@dataclasses.dataclass
class Result:
    """What one side did. `trouble` (cannot, failed or wrong, and why) ends it."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    differences: list[float] = dataclasses.field(default_factory=list)
    batch: int | None = None
    trouble: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def line(self) -> dict:
        line = dict(self.trouble)
        if self.seconds:
            line["seconds"] = self.median
            line["range"] = [min(self.seconds), max(self.seconds)]
        if self.differences:
            line["difference"] = max(self.differences)
        if self.batch is not None:
            line["batch"] = self.batch
        return line


@dataclasses.dataclass(frozen=True)
class Turn:
    """One side's part in one round."""

    seconds: float
    values: dict | None = None
    tokens: list[int] | None = None
    answer: dict = dataclasses.field(default_factory=dict)


class Comparison:
    """A task on its way. clients: bench_clients, as many as it needs."""

    def __init__(
        self,
        bench: Bench,
        model: Model,
        task: Task,
        clients: list[sides.Side],
        peers: dict[str, sides.Side],
        folder: pathlib.Path,
    ) -> None:
        self._model, self._task = model, task
        self._clients, self._peers, self._folder = clients, peers, folder
        self._rounds = bench.rounds(task.rounds)
        self.results = {name: Result() for name in self._turns()}
        self.answers: list[dict] = []  # phitap's

    def run(self) -> None:
        """The sizes of batches are found first. Then comes a round that does not
        count, where rounds are short, and those that do, each beginning with
        another side."""
        self._choose_batches()
        first = 1 if self._task.rounds <= LONG_ROUNDS else 0
        for number in range(first, self._rounds + 1):
            progress(f"  {self._task.name}: round {number} of {self._rounds}")
            self._round(number)

    def _turns(self) -> dict[str, Callable[[int], Turn]]:
        turns: dict[str, Callable[[int], Turn]] = {"phitap": self._phitap}
        for name in self._task.own:
            turns[name] = lambda number, name=name: self._own(name, number)
        if self._task.linear:
            turns["linear_maps"] = self._linear_maps
        for name in self._peers:
            turns[name] = lambda number, name=name: self._peer(name, number)
        return turns

    def _round(self, number: int) -> None:
        turns = list(self._turns().items())
        first = number % len(turns)
        taken: dict[str, Turn] = {}
        for name, turn in turns[first:] + turns[:first]:
            if self.results[name].trouble:
                continue
            time.sleep(SETTLE_S)
            try:
                taken[name] = turn(number)
            except (sides.SideEnded, judge.Wrong, _Trouble) as error:
                self._note(name, error)
        self._judge(number, taken)
        if number > 0:
            self._count(taken)

    def _count(self, taken: dict[str, Turn]) -> None:
        for name, turn in taken.items():
            self.results[name].seconds.append(turn.seconds)
        if "phitap" in taken:
            self.answers.append(taken["phitap"].answer)

    def _note(self, name: str, error: Exception) -> None:
        kind = getattr(error, "kind", "failed")
        if isinstance(error, judge.Wrong):
            kind = "wrong"
        self.results[name].trouble[kind] = str(error)
        progress(f"  {self._task.name}: {name} {kind}: {error}")

    # What the sides are asked.

    def _phitap(self, number: int) -> Turn:
        arguments = self._task.draw(number)
        answer, seconds = self._send(self._task.requests(arguments))
        if self._task.generated:
            return Turn(seconds, tokens=answer["tokens"][0][0], answer=answer)
        values = self._task.values(judge.load_tensors(answer), arguments)
        return Turn(seconds, values, answer=answer)

    def _own(self, name: str, number: int) -> Turn:
        arguments = self._task.draw(number + OWN_ROUND)
        answer, seconds = self._send(self._task.own[name](arguments))
        return Turn(seconds, answer=answer)

    def _send(self, requests: Requests) -> tuple[dict, float]:
        """One after another from one client, or all at once, each from its own;
        then the time is that of the last one's answer."""
        shared = [requests]
        if self._task.at_once and len(requests) > 1:
            shared = [[each] for each in requests]
        asked = [self._files(part, at) for at, part in enumerate(shared)]
        start = time.perf_counter()
        for client, each in zip(self._clients, asked):
            client.send(**each)
        answers = [client.answer() for client, _ in zip(self._clients, asked)]
        waited = time.perf_counter() - start
        merged = {key: sum((a[key] for a in answers), []) for key in answers[0]}
        if len(shared) > 1:
            return merged, waited
        return merged, sum(merged["seconds"])

    def _files(self, requests: Requests, client: int) -> dict:
        folder = self._folder / f"client-{client}"
        folder.mkdir(exist_ok=True)
        paths = []
        for at, request in enumerate(requests):
            paths.append(str(folder / f"{at}.pb"))
            pathlib.Path(paths[-1]).write_bytes(request.SerializeToString())
        return {"do": "send", "requests": paths, "values": str(folder)}

    def _linear_maps(self, number: int) -> Turn:
        asked = {"do": "linear_maps", "with": dict(self._task.linear)}
        return Turn(_seconds(self._peers[REFERENCE].ask(**asked)))

    def _peer(self, name: str, number: int) -> Turn:
        arguments = self._task.draw(number)
        path = self._folder / f"{name}.safetensors"
        seconds = self._ask(name, arguments, path)
        if self._task.scale > 1:
            once = self._once(name, arguments["clean"])
            seconds = once + (seconds - once) * self._task.scale
        values = judge.load_values(path)
        if self._task.generated:
            return Turn(seconds, tokens=values["values"].tolist())
        return Turn(seconds, values)

    def _ask(
        self, name: str, arguments: dict, path: pathlib.Path | None = None
    ) -> float:
        batch = self.results[name].batch
        if batch is not None:
            arguments = arguments | {"batch": batch}
        asked = {"do": self._task.method, "with": arguments}
        if path is not None:
            asked["values"] = str(path)
        return _seconds(self._peers[name].ask(**asked))

    def _once(self, name: str, clean: list[int]) -> float:
        asked = {"do": "clean_outputs", "with": {"ids": clean}}
        return _seconds(self._peers[name].ask(**asked))

    def _choose_batches(self) -> None:
        for name in self._peers if self._task.batches else ():
            result, taken = self.results[name], {}
            for size in self._task.batches:
                result.batch = size
                progress(f"  {self._task.name}: {name} in batches of {size}")
                try:
                    taken[size] = self._ask(name, self._task.draw(0))
                except (sides.SideEnded, _Trouble) as error:
                    self._note(name, error)
                    break
            else:
                result.batch = min(taken, key=taken.get)

    # Whether they did it.

    def _judge(self, number: int, taken: dict[str, Turn]) -> None:
        if REFERENCE not in taken:
            return
        for name, turn in taken.items():
            try:
                if turn.tokens is not None:
                    self._judge_tokens(name, turn.tokens, number)
                elif turn.values is not None:
                    self._judge_values(name, turn.values, taken[REFERENCE])
            except judge.Wrong as error:
                self._note(name, error)

    def _judge_values(self, name: str, values: dict, reference: Turn) -> None:
        found = judge.difference(values, reference.values)
        self.results[name].differences.append(found)
        judge.check_difference(found, self._model.dtype)

    def _judge_tokens(self, name: str, tokens: list[int], number: int) -> None:
        arguments = self._task.draw(number)
        path = self._folder / "gaps.safetensors"
        self._peers[REFERENCE].ask(
            **{
                "do": "token_gaps",
                "with": {
                    "ids": arguments["ids"],
                    "layer": arguments["layer"],
                    "tokens": tokens,
                },
                "values": str(path),
            }
        )
        gap = judge.load_values(path)["values"].max().item()
        if len(tokens) != arguments["count"]:
            raise judge.Wrong(f"{len(tokens)} tokens")
        self.results[name].differences.append(gap)
        judge.check_gap(gap, self._model.dtype)


class _Trouble(Exception):
    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


def _seconds(answer: dict) -> float:
    for kind in ("cannot", "failed"):
        if kind in answer:
            raise _Trouble(kind, answer[kind])
    return answer["seconds"]
