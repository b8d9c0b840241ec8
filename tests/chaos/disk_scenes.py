"""Scenes in which the server cannot write what it is to keep."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import itertools
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator

import numpy as np
import phitap
from safetensors.numpy import load_file

from faults import Scene
from figures import Figures, awaits
from ledger import Ledger, small_requests
from served_process import ServedProcess
from small_disk import SmallDisk
from under_load import asking, ends_undisturbed

MIB = 1 << 20
DISK_BYTES = 8 * MIB
#: Of a tensor of 256 KiB.
PIECE = 64 << 10
LAST_LOGITS = phitap.Capture("logits", positions=[-1])


def limit_of_a_file(seconds: float, seed: int) -> Figures:
    """A named tensor larger than a file may be: kept in memory, said so, and others are kept on disk."""
    figures = Figures("limit of a file's size")
    with tempfile.TemporaryDirectory() as folder:
        # The server must survive the signal that comes with it.
        with ServedProcess(flags=("--state-dir", folder, "--threads", "2"), under=("prlimit", f"--fsize={MIB}")) as server:
            scene = Scene(server, small_requests(server.address), Ledger(), random.Random(seed))
            with asking(scene, 2), phitap.Client(server.address, timeout=60) as client:
                client.put_tensor("large", np.zeros(MIB, np.float32))
                figures.faults["tensors past the limit of a file's size"] += 1
                client.put_tensor("small", np.arange(8, dtype=np.float32))
                awaits(figures, "the small tensor is on disk", lambda: persistent(client) == {"large": False, "small": True})
            figures.hold("large" in server.log(), "no word about the file that could not be written")
            ends_undisturbed(figures, scene)
        with ServedProcess(flags=("--state-dir", folder, "--threads", "2")) as server, phitap.Client(server.address, timeout=60) as client:
            figures.hold(persistent(client) == {"small": True}, f"after a restart: {persistent(client)}")
    return figures


def full_disk(seconds: float, seed: int) -> Figures:
    """The state directory's file system is full, from the start, while tensors are kept, and as the server is killed."""
    figures = Figures("full disk")
    with SmallDisk(DISK_BYTES) as disk:
        starts_on_a_full_disk(figures, disk)
        fills_up_and_has_room_again(figures, disk, seed)
        is_killed_as_it_fills_up(figures, disk, max(1, seconds / 4))
    return figures


def on(disk: SmallDisk) -> ServedProcess:
    return ServedProcess(flags=("--state-dir", str(disk.path), "--threads", "2"), under=disk.under)


def persistent(client: phitap.Client) -> dict[str, bool]:
    return {tensor.name: tensor.persistent for tensor in client.list_tensors()}


def starts_on_a_full_disk(figures: Figures, disk: SmallDisk) -> None:
    """What it has measured it cannot keep, and measures again."""
    disk.fill()
    figures.faults["full disks"] += 1
    with on(disk) as server:
        figures.hold("the next start measures row rules again" in server.log(), "no word about the row rules that were not kept")
        figures.hold(len(small_requests(server.address)) > 0, "nothing is answered")
        server.signal(signal.SIGTERM)
        figures.hold(server.wait() == 0, "on a full disk the server did not end well")
    disk.free()


def fills_up_and_has_room_again(figures: Figures, disk: SmallDisk, seed: int) -> None:
    values = {name: np.full(PIECE, number, np.float32) for number, name in enumerate(("before", "uploaded", "after"), 1)}
    with on(disk) as server:
        scene = Scene(server, small_requests(server.address), Ledger(), random.Random(seed))
        with asking(scene, 2), phitap.Client(server.address, timeout=60) as client:
            client.put_tensor("before", values["before"])
            client.put_tensor("replaced", values["before"])
            awaits(figures, "tensors are on disk", lambda: len(on_disk(disk)) == 2 and all(persistent(client).values()))
            disk.fill()
            figures.faults["full disks"] += 1
            client.put_tensor("uploaded", values["uploaded"])
            plain = client.trace(list(range(64)), [phitap.Capture("layers.0.mlp_neurons", dtype="float32", tensor_name="kept"), LAST_LOGITS])
            # The last one: its file from before is removed, which makes room.
            client.put_tensor("replaced", values["uploaded"])
            awaits(figures, "what had no room is in memory alone", lambda: persistent(client) == {
                "before": True, "uploaded": False, "replaced": False, "kept": False})
            figures.hold(not np.array_equal(plain["logits"], steered(client)), "a tensor that is in memory alone steers nothing")
            figures.hold("No space left on device" in server.log(), "no word about the disk that is full")
            figures.hold(set(on_disk(disk)) == {"before"}, f"on the full disk: {set(on_disk(disk))}")
            disk.free()
            client.put_tensor("after", values["after"])
            awaits(figures, "there is room again", lambda: "after" in on_disk(disk))
        ends_undisturbed(figures, scene)
    # What had no room was written as it stopped.
    figures.hold(set(on_disk(disk)) == {"before", "uploaded", "replaced", "kept", "after"}, f"after the stop: {set(on_disk(disk))}")
    figures.hold(np.array_equal(on_disk(disk).get("replaced"), values["uploaded"]), "a value from before came back")
    disk.empty()


def steered(client: phitap.Client) -> np.ndarray:
    prompt = phitap.Prompt(list(range(64)), interventions=[phitap.edits.add("layers.0.mlp_neurons", "kept")])
    return client.trace(prompt, LAST_LOGITS)["logits"]


def is_killed_as_it_fills_up(figures: Figures, disk: SmallDisk, seconds: float) -> None:
    """Whatever is on disk then is whole, and the next server starts with it."""
    with on(disk) as server:
        with uploading(server.address):
            time.sleep(seconds)
            disk.fill()
            figures.faults["full disks"] += 1
            time.sleep(0.2)
            server.signal(signal.SIGKILL)
            figures.faults["servers killed on a full disk"] += 1
            server.wait()
    whole = on_disk(disk)
    figures.hold(all(len(value) == PIECE and (value == value[0]).all() for value in whole.values()), "half a tensor was on disk")
    with on(disk) as server, phitap.Client(server.address, timeout=60) as client:
        figures.hold(persistent(client) == dict.fromkeys(whole, True), f"on disk {set(whole)}, kept {persistent(client)}")
        figures.hold(len(small_requests(server.address)) > 0, "nothing is answered")


@contextlib.contextmanager
def uploading(address: str) -> Iterator[None]:
    """Tensors of 256 KiB, of one number each, again and again under a few names, until the server is gone."""
    def put() -> None:
        with phitap.Client(address, timeout=60) as client, contextlib.suppress(phitap.PhitapError):
            for number in itertools.count():
                client.put_tensor(f"t{number % 20}", np.full(PIECE, number, np.float32))

    thread = threading.Thread(target=put)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def on_disk(disk: SmallDisk) -> dict[str, np.ndarray]:
    """Every file that is one of a tensor; any that is not whole cannot be read."""
    found = {}
    for path in disk.seen.glob("*.safetensors"):
        with contextlib.suppress(FileNotFoundError):
            found.update(load_file(path))
    return found
