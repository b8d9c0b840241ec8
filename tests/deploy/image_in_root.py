#!/usr/bin/env python3
"""Builds the image of docker/Dockerfile without a container engine, and runs it.

Every stage is a bare Debian 12 root (debootstrap) in which the Dockerfile's own instructions are carried out: COPY by .dockerignore, RUN in a
chroot with nothing but the stage's ENV. Then the entrypoint runs as the image's USER on a read-only root, the HEALTHCHECK's command asks
until it is healthy, and SIGTERM must end it with 0. As root. The whole takes minutes and gigabytes: it is no part of tests/run.sh.
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
EXAMPLES = """examples:
  tests/deploy/image_in_root.py                              # all of it
  tests/deploy/image_in_root.py --build-arg CMAKE_BUILD_PARALLEL_LEVEL=1
  tests/deploy/image_in_root.py --prebuilt build/prefix      # only the image's own stages, with programs from `cmake --install`"""
#: What says nothing about files or processes.
SILENT = {"LABEL", "EXPOSE", "VOLUME", "STOPSIGNAL", "CMD"}
START_LIMIT_S = 120
FLAGS = ["--model=demo=/models", "--listen=127.0.0.1:17777", "--state-dir=/var/lib/phitap", "--threads=2"]


@dataclasses.dataclass
class Stage:
    """A root that is being made, and what the instructions so far have set."""
    root: pathlib.Path
    env: dict[str, str] = dataclasses.field(default_factory=lambda: {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = dataclasses.field(default_factory=list)
    healthcheck: list[str] = dataclasses.field(default_factory=list)

    def command(self, command: list[str], mounts: str = "") -> list[str]:
        """That runs the command in the root, with mounts (a shell's line) that go away with it."""
        env = [f"{key}={value}" for key, value in (self.env | {"HOME": "/root", "LANG": "C.UTF-8"}).items()]
        inner = shlex.join(["exec", "chroot", f"--userspec={self.user}", str(self.root), "/usr/bin/env", "-i", "-C", self.workdir, *env, *command])
        script = f"set -e; cd /; mount -t proc proc {self.root}/proc; mount --rbind /dev {self.root}/dev; {mounts} {inner}"
        return ["unshare", "--mount", "--propagation=private", "bash", "-c", script]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", help="stage to run; default: cpu")
    parser.add_argument("--prebuilt", type=pathlib.Path, help="stands for /opt/phitap of the building stages, which are left out")
    parser.add_argument("--build-arg", metavar="NAME=VALUE", action="append", default=[], help="of an ARG of the Dockerfile; repeatable")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "image", help="where roots are made; default: build/image")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("image_in_root.py: run as root: it mounts and changes roots")
    options.work.mkdir(parents=True, exist_ok=True)
    base = bare_root(options.work / "base")
    stages: dict[str, Stage] = {}
    current = None
    for name, rest in instructions():
        if name == "FROM":
            source, alias = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            wanted = needed(options.target, options.prebuilt is None)
            current = begin(options.work / alias, stages.get(source), base) if alias in wanted else None
            if current:
                stages[alias] = current
        elif current:
            say(f"{name} {rest}")
            carry_out(current, name, rest, stages, options)
    run_image(stages[options.target], options.work)
    print("image_in_root.py: healthy, and ended with 0")


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def needed(target: str, with_build: bool) -> set[str]:
    """Stages that the target comes from, or copies from."""
    wanted, alias, parents = {target}, "", {}
    for name, rest in instructions():
        if name == "FROM":
            source, alias = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            parents[alias] = {source}
        elif name == "COPY" and with_build and (copied := re.match(r"--from=(\S+)", rest)):
            parents[alias].add(copied[1])
    while more := {parent for stage in wanted for parent in parents.get(stage, ())} - wanted:
        wanted |= more
    return wanted


def bare_root(root: pathlib.Path) -> pathlib.Path:
    """Debian 12 and nothing else, with this machine's way to its packages."""
    if (root / "etc" / "debian_version").exists():
        return root
    say("debootstrap: a bare Debian 12")
    if shutil.which("debootstrap") is None:
        sys.exit("image_in_root.py: install Debian's package debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root, mirror()], check=True, stdout=subprocess.DEVNULL)
    for path in ("/etc/apt/sources.list.d", "/etc/apt/apt.conf.d", "/usr/local/share/ca-certificates"):
        if os.path.isdir(path):
            shutil.copytree(path, f"{root}{path}", dirs_exist_ok=True)
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf"):
        if os.path.exists(path):
            shutil.copyfile(path, f"{root}{path}")
    if any((root / "etc/apt/sources.list.d").iterdir()):
        (root / "etc/apt/sources.list").write_text("")
    return root


def mirror() -> str:
    """Of this machine's own sources."""
    for file in [*pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"), pathlib.Path("/etc/apt/sources.list")]:
        if file.exists() and (found := re.search(r"^(?:URIs:\s*|deb (?:\[.*?\] )?)(\S+)", file.read_text(), re.MULTILINE)):
            return found[1]
    sys.exit("image_in_root.py: no source of Debian packages in /etc/apt")


def begin(root: pathlib.Path, parent: Stage | None, base: pathlib.Path) -> Stage:
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", parent.root if parent else base, root], check=True)
    return dataclasses.replace(parent, root=root, env=dict(parent.env)) if parent else Stage(root)


def carry_out(stage: Stage, name: str, rest: str, stages: dict[str, Stage], options: argparse.Namespace) -> None:
    if name == "RUN":
        run(stage, rest, options.work)
    elif name == "COPY":
        copy(stage, rest, stages, options.prebuilt)
    elif name == "ENV":
        for key, value in re.findall(r"(\w+)=(\S+)", rest):
            stage.env[key] = value
    elif name == "ARG":
        given = dict(argument.split("=", 1) for argument in options.build_arg)
        stage.env.update({key: value for key, value in given.items() if key == rest.split("=")[0]})
    elif name == "WORKDIR":
        stage.workdir = rest
        (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif name == "USER":
        stage.user = rest
    elif name == "ENTRYPOINT":
        stage.entrypoint = json.loads(rest)
    elif name == "HEALTHCHECK":
        stage.healthcheck = json.loads(rest[rest.index("CMD ") + 4:])
    elif name not in SILENT:
        sys.exit(f"image_in_root.py: cannot carry out {name}")


def run(stage: Stage, rest: str, work: pathlib.Path) -> None:
    mounts = ""
    for mount in re.findall(r"--mount=(\S+)", rest):
        fields = dict(field.split("=", 1) for field in mount.split(","))
        cache, target = work / "cache" / fields["id"], stage.root / fields["target"].lstrip("/")
        cache.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        mounts += f"mount --bind {cache} {target}; "
    command = re.sub(r"--mount=\S+\s+", "", rest)
    subprocess.run(stage.command(["/bin/sh", "-c", command], mounts), check=True)


def copy(stage: Stage, rest: str, stages: dict[str, Stage], prebuilt: pathlib.Path | None) -> None:
    *sources, target = rest.split()
    into = stage.root / (target if target.startswith("/") else f"{stage.workdir}/{target}").lstrip("/")
    if sources[0].startswith("--from="):
        origin = stages.get(sources[0].removeprefix("--from="))
        source = origin.root / sources[1].lstrip("/") if origin else prebuilt
        shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True)
        return
    for source in sources:
        for file in context(source):
            place = into / file if source == "." else (into / file.name if target.endswith("/") else into)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, place, follow_symlinks=False)


def context(source: str) -> list[pathlib.Path]:
    """Files below it that .dockerignore leaves, as git knows them."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", source], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout.splitlines()
    return [pathlib.Path(path) for path in listed
            if (ROOT / path).exists() and not any(path == name or path.startswith(f"{name}/") for name in ignored)]


def fetch_a_model(stage: Stage, mounts: str) -> None:
    """As the chart's init container does, with the image's own programs."""
    digest = hashlib.sha256((ROOT / "deploy" / "demo-model" / "config.json").read_bytes()).hexdigest()
    script = (f"cd /tmp && mkdir fetched && echo demo {digest} file:///models/config.json >list && "
              "fetch-model list fetched && cmp fetched/demo/config.json /models/config.json")
    done = subprocess.run(stage.command(["sh", "-c", script], mounts), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"image_in_root.py: fetch-model: {done.stdout}{done.stderr}")


def run_image(stage: Stage, work: pathlib.Path) -> None:
    root, log = stage.root, work / "phitapd.log"
    read_only = (f"mount --rbind {root} {root}; mount --bind {ROOT}/deploy/demo-model {root}/models; mount -t tmpfs -o mode=1777 tmp {root}/tmp; "
                 f"mount -t tmpfs -o mode=0700,uid=10001,gid=10001 state {root}/var/lib/phitap; mount -o remount,ro,bind {root}; ")
    fetch_a_model(stage, read_only)
    refused = subprocess.run(stage.command(["touch", "/opt/phitap/file"], read_only), capture_output=True, text=True)
    if "Read-only file system" not in refused.stderr and "Permission denied" not in refused.stderr:
        sys.exit(f"image_in_root.py: the image's user can write to its root: {refused.stderr}")
    with open(log, "w") as output:
        server = subprocess.Popen(stage.command([*stage.entrypoint, *FLAGS], read_only), stdout=output, stderr=output)
    stage.env["PHITAP_SERVER"] = "127.0.0.1:17777"
    deadline = time.monotonic() + START_LIMIT_S
    while subprocess.run(stage.command(stage.healthcheck), capture_output=True).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            sys.exit(f"image_in_root.py: not healthy:\n{log.read_text()}")
        time.sleep(0.2)
    owner = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    if not re.search(r"^Uid:\s+10001\s+10001", owner, re.MULTILINE):
        sys.exit(f"image_in_root.py: the server is not 10001's:\n{owner}")
    server.send_signal(signal.SIGTERM)
    if server.wait(timeout=60) != 0:
        sys.exit(f"image_in_root.py: ended with {server.returncode}:\n{log.read_text()}")


if __name__ == "__main__":
    main()
