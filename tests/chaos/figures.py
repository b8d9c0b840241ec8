"""What a scene was and what did not hold in it."""

# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import time
from collections.abc import Callable

from ledger import Ledger

SETTLE_S = 20


class LeftOut(Exception):
    """The scene cannot be played here, and why."""


@dataclasses.dataclass
class Figures:
    scene: str
    requests: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    faults: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    #: What did not hold; empty where all did.
    broken: list[str] = dataclasses.field(default_factory=list)

    def hold(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)

    def take(self, ledger: Ledger) -> None:
        self.requests.update(ledger.counts)
        self.reasons.update(ledger.reasons)
        self.broken += ledger.troubles[:10]


def settles(figures: Figures, what: str, measure: Callable[[], int], most: int) -> None:
    """Whether it comes down to so much within some seconds."""
    deadline = time.monotonic() + SETTLE_S
    while (value := measure()) > most and time.monotonic() < deadline:
        time.sleep(0.1)
    figures.hold(value <= most, f"{what}: {value:,} are left where there were to be {most:,} at most")


def awaits(figures: Figures, what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.1)
    figures.hold(held, f"not so: {what}")
