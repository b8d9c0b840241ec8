"""Clients that ask meanwhile, also while the server stops."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import random
import signal
import threading
import time
from collections.abc import Iterator

import load_requests
from faults import Scene
from figures import Figures
from load_requests import Stub

ASKERS = 6


@contextlib.contextmanager
def asking(scene: Scene, count: int = ASKERS) -> Iterator[None]:
    """Clients that ask one thing after another meanwhile, each over a connection of its own."""
    stop = threading.Event()

    def ask(seed: int) -> None:
        draw = random.Random(seed)
        with load_requests.connect(scene.server.address) as channel:
            while not stop.is_set():
                scene.ledger.ask(Stub(channel), draw.choice(scene.asked))

    threads = [threading.Thread(target=ask, args=[seed]) for seed in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def stop_under_load(figures: Figures, scene: Scene) -> None:
    """What was accepted is answered, the rest refused; the server ends well."""
    if not scene.server.alive:
        return
    with asking(scene):
        time.sleep(0.3)
        scene.server.signal(signal.SIGTERM)
        figures.faults["SIGTERM under load"] += 1
        status = scene.server.wait()
    figures.hold(status == 0, f"SIGTERM under load ended with {status}")


def ends_undisturbed(figures: Figures, scene: Scene) -> None:
    """Nobody has given up: what the server accepted it has answered. What comes while it stops, gRPC may refuse as CANCELLED."""
    stop_under_load(figures, scene)
    figures.take(scene.ledger)
    ended = scene.server.ended_traces()
    figures.hold(ended.keys() <= {"OK", "UNAVAILABLE"}, f"traces ended otherwise: {ended}")
    figures.hold(scene.ledger.reasons.keys() <= {"UNAVAILABLE", "CANCELLED"}, f"failed: {scene.ledger.reasons}")
