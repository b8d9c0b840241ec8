"""Scenes: a server, what is done to it, and what must hold in the end."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import pathlib
import random
import shutil
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import load_requests
from disk_scenes import full_disk, limit_of_a_file
from faults import FAULTS, LARGE, Scene
from figures import Figures, settles
from ledger import ANSWERED, FAILED, Ledger, small_requests
from load_requests import Stub
from served_process import DEMO, ServedProcess
from under_load import asking, ends_undisturbed, stop_under_load

LARGE_READERS = 2
OPEN_FILES = 160
ADDRESS_SPACE = 4 << 30
STALL_S = 2
MIB = 1 << 20
UNDELIVERED = 256 * MIB
#: What the allocator may have kept of what passed through: no more than there may be at once.
MOST_GROWTH = UNDELIVERED
FLAGS = ("--stall-timeout", f"{STALL_S}s", "--max-undelivered-bytes", str(UNDELIVERED), "--max-root-bytes", "16MiB", "--threads", "2")
#: From the middle third of a long scene to its last, of what is usual there: what is most is what was under way just then.
MOST_LATE_GROWTH = 1.1
LONG_ROUNDS = 6


def troublesome_clients(seconds: float, seed: int) -> Figures:
    """Every fault of faults.py in turn, under load and with little of everything; then SIGTERM under load."""
    figures, draw = Figures("troublesome clients"), random.Random(seed)
    limits = ("prlimit", f"--nofile={OPEN_FILES}", f"--as={ADDRESS_SPACE}")
    with ServedProcess(flags=FLAGS, under=limits) as server:
        scene = Scene(server, small_requests(server.address), Ledger(), draw)
        warm_up(scene)
        files, threads, bytes_before = server.open_files(), server.threads(), server.anonymous_bytes()
        until = time.monotonic() + seconds
        with asking(scene):
            resident = []
            for name, disturb in rounds(until):
                figures.faults[name] += disturb(scene)
                figures.hold(server.alive, f"the server ended at: {name}")
                if not server.alive:
                    break
                resident.append(server.anonymous_bytes())
        if server.alive:
            settles(figures, "files", server.open_files, files + 2)
            settles(figures, "bytes", server.anonymous_bytes, bytes_before + MOST_GROWTH)
            settles(figures, "threads", server.threads, threads + 16)
            third = len(resident) // 3
            grown = statistics.median(resident[-third:]) / statistics.median(resident[third:-third]) if third > 0 else 0
            figures.hold(len(resident) < LONG_ROUNDS * len(FAULTS) or grown < MOST_LATE_GROWTH, f"memory grows: {resident}")
        stop_under_load(figures, scene)
        figures.take(scene.ledger)
        figures.hold(scene.ledger.counts[ANSWERED] > 20, "hardly a request was answered")
        unexpected = {code: count for code, count in scene.ledger.reasons.items() if code in ("INTERNAL", "UNKNOWN", "DATA_LOSS")}
        figures.hold(not unexpected, f"reasons that blame the server: {unexpected}")
        ended = server.ended_traces()
        figures.hold(ended.get("INTERNAL", 0) == 0, f"traces that ended INTERNAL: {ended}")
        figures.hold(ended.get("OK", 0) >= scene.ledger.counts[ANSWERED], f"the server says that it answered {ended}, clients {scene.ledger.counts}")
    return figures


def warm_up(scene: Scene) -> None:
    """What the allocator keeps of large answers, it keeps from here on."""
    def read_large() -> None:
        with load_requests.connect(scene.server.address) as channel:
            for _ in range(2):
                load_requests.read(Stub(channel).Trace(LARGE.message))

    threads = [threading.Thread(target=read_large) for _ in range(LARGE_READERS)]
    with asking(scene):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    time.sleep(0.5)


def rounds(until: float) -> Iterator[tuple[str, Callable[[Scene], int]]]:
    """All faults once, then again until the time is over."""
    while True:
        for name, disturb in FAULTS.items():
            yield name, disturb
        if time.monotonic() >= until:
            return


@contextlib.contextmanager
def copy_of_model() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(shutil.copytree(DEMO, pathlib.Path(folder) / "model"))


def model_files(seconds: float, seed: int) -> Figures:
    """What happens to the files of a model that is served. What is mapped survives all but a file that is cut short."""
    figures = Figures("model files")
    for weights in ("copy", "map"):
        with copy_of_model() as model, ServedProcess(model, ("--weights", weights, "--threads", "2")) as server:
            scene = Scene(server, small_requests(server.address), Ledger(), random.Random(seed))
            with asking(scene, 2):
                replace(model / "model.safetensors", b"not a model any more")
                figures.faults["model files replaced"] += 1
                time.sleep(0.5)
                shutil.rmtree(model)
                figures.faults["model folders removed"] += 1
                time.sleep(max(0.5, seconds / 4))
            ends_undisturbed(figures, scene)
        with copy_of_model() as model, ServedProcess(model, ("--weights", weights, "--threads", "2")) as server:
            scene = Scene(server, small_requests(server.address), Ledger(), random.Random(seed))
            (model / "model.safetensors").write_bytes(b"cut short")
            figures.faults["model files cut short"] += 1
            with load_requests.connect(server.address) as channel:
                outcome = scene.ledger.ask(Stub(channel), scene.asked[0])
            if weights == "copy":
                figures.hold(outcome == ANSWERED, f"copied weights, file cut short: {scene.ledger.counts}")
                ends_undisturbed(figures, scene)
            else:
                figures.hold(outcome == FAILED and server.wait(10) == -signal.SIGBUS, "mapped weights, file cut short: the process was to end")
                figures.take(scene.ledger)
    return figures


def replace(path: pathlib.Path, content: bytes) -> None:
    """As a download does: another file under the name."""
    other = path.with_name("other")
    other.write_bytes(content)
    other.rename(path)


FAKETIME = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def clock_jumps(seconds: float, seed: int) -> Figures:
    """The machine's clock is set, hours ahead and back: nobody's request is over because of it."""
    figures = Figures("clock jumps")
    if FAKETIME is None:
        figures.broken.append("libfaketime is not installed: deploy/install-deps.sh --tests")
        return figures
    with tempfile.NamedTemporaryFile("w") as file:
        def set_clock(offset: str) -> None:
            file.seek(0)
            file.truncate()
            file.write(offset + "\n")
            file.flush()

        set_clock("+0")
        environment = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": file.name, "FAKETIME_CACHE_DURATION": "1",
                       "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with ServedProcess(flags=("--threads", "2", "--default-deadline", "60s"), environment=environment) as server:
            scene = Scene(server, small_requests(server.address), Ledger(), random.Random(seed))
            with asking(scene, 4):
                for offset in ("+6h", "-6h", "+10d", "+0"):
                    time.sleep(max(1.5, seconds / 5))
                    set_clock(offset)
                    figures.faults["clock jumps"] += 1
                time.sleep(1.5)
            figures.hold(scene.ledger.counts[FAILED] == 0, f"failed when the clock was set: {scene.ledger.reasons}")
            ends_undisturbed(figures, scene)
    return figures


SCENES: dict[str, Callable[[float, int], Figures]] = {
    "clients": troublesome_clients,
    "files": model_files,
    "limit of a file": limit_of_a_file,
    "full disk": full_disk,
    "clock": clock_jumps,
}
