"""A file system that is soon full."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from figures import LeftOut

PAGE_BYTES = 4096
BALLAST = ".ballast"
MOUNT = 'mount -t tmpfs -o "size=$1,mode=700" tmpfs "$2" && echo mounted && exec cat'


class SmallDisk:
    """In memory, and mounted where none but those who run `under` it see it. Needs root or namespaces of users: LeftOut without.

    path: where they see it. seen: where everybody else does.
    """

    def __init__(self, size_bytes: int):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name)
        spaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--mount"]
        unshare = ["unshare", *spaces, *(["--map-root-user"] if "--user" in spaces else [])]
        # Keeps the file system while no server does.
        self._keeper = subprocess.Popen([*unshare, "sh", "-c", MOUNT, "sh", str(size_bytes), self.path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self._keeper.stdout.readline() != "mounted\n":
            why = self._keeper.communicate()[1].strip()
            self._folder.cleanup()
            raise LeftOut(f"no file system of its own can be mounted here ({why})")
        self.seen = pathlib.Path(f"/proc/{self._keeper.pid}/root{self.path}")
        credentials = ["--preserve-credentials"] if "--user" in spaces else []
        self.under = ("nsenter", "--target", str(self._keeper.pid), *spaces, *credentials, "--")

    def __enter__(self) -> "SmallDisk":
        return self

    def __exit__(self, *exception) -> None:
        self._keeper.communicate()
        self._folder.cleanup()

    def fill(self) -> None:
        """To the last page."""
        with (self.seen / BALLAST).open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(PAGE_BYTES))

    def free(self) -> None:
        (self.seen / BALLAST).unlink()

    def empty(self) -> None:
        """As it was at first."""
        for path in self.seen.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
