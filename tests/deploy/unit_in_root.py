#!/usr/bin/env python3
"""Boots systemd with the unit of deploy/systemd, without a machine of its own.

A bare Debian 12 root (debootstrap) gets systemd, what deploy/systemd/install.sh puts there, and the certificates of the operator's guide; systemd
runs in namespaces of its own. Then the unit is started, restarted under clients, stopped, broken and repaired as the guide says. As root, after a
build. Takes a minute or two; it is no part of tests/run.sh.
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from image_in_root import ROOT, bare_root, say

EXAMPLES = """examples:
  tests/deploy/unit_in_root.py
  tests/deploy/unit_in_root.py --build build/debug"""
BOOT_LIMIT_S = 120
#: Exit codes of `phitap health`.
SERVING, NOT_SERVING, NOBODY = 0, 1, 3
#: What a container engine does before it starts the first process; cgroups of the second version, whichever the machine has.
BOOT = r"""set -e
root=$1
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
  [ -e "$hierarchy/cgroup.procs" ] || continue
  mkdir -p "$hierarchy/phitap-boot"
  echo $$ >"$hierarchy/phitap-boot/cgroup.procs"
done
exec unshare --pid --mount --uts --ipc --net --cgroup --fork --kill-child --propagation private bash -ec '
  mount --bind "$1" "$1"
  cd "$1"
  mount -t proc proc proc; mount -t sysfs sysfs sys; mount -t tmpfs -o mode=755 run run; mount -t tmpfs tmp tmp; mount -t tmpfs -o mode=755 dev dev
  for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
  mkdir -p dev/pts dev/shm .old
  mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts; mount -t tmpfs shm dev/shm
  ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
  pivot_root . .old; umount -l /.old; mount --make-rshared /
  exec env -i container=phitap SYSTEMD_PROC_CMDLINE=systemd.unified_cgroup_hierarchy=1 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=console --show-status=no' boot "$root"
"""


class Machine:
    """systemd and what it starts, until it is closed."""

    def __init__(self, root: pathlib.Path, log: pathlib.Path):
        self.booting = subprocess.Popen(["bash", "-c", BOOT, "boot", root], stdout=open(log, "w"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + BOOT_LIMIT_S
        while self.run("systemctl", "is-system-running").stdout.strip() != "running":
            check(self.booting.poll() is None and time.monotonic() < deadline, f"systemd does not come up:\n{log.read_text()}")
            time.sleep(0.5)

    def command(self, *command: str) -> list[str]:
        children = pathlib.Path(f"/proc/{self.booting.pid}/task/{self.booting.pid}/children").read_text().split()
        first = children[0] if children else "0"
        return ["nsenter", f"--target={first}", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "env", "-i",
                "PATH=/opt/phitap/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PHITAP_SERVER=localhost:7777", "PHITAP_CA=/etc/phitap/ca.crt", *command]

    def run(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*command), capture_output=True, text=True)

    def output(self, *command: str) -> str:
        done = self.run(*command)
        check(done.returncode == 0, f"{' '.join(command)}: {done.returncode}: {done.stdout}{done.stderr}{self.log()}")
        return done.stdout.strip()

    def log(self) -> str:
        return self.run("journalctl", "--unit=phitapd", "--output=cat", "--lines=5", "--no-pager").stdout

    def close(self) -> None:
        self.run("systemctl", "poweroff", "--no-block")
        try:
            self.booting.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.booting.kill()
        self.booting.wait()
        subprocess.run(["find", *pathlib.Path("/sys/fs/cgroup").glob("**/phitap-boot"), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where phitapd is built; default: build/release")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "image", help="where roots are made; default: build/image")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("unit_in_root.py: run as root: it mounts and changes roots")
    options.work.mkdir(parents=True, exist_ok=True)
    root = root_with_systemd(options.work)
    install(root, options.build.resolve())
    say("boot")
    machine = Machine(root, options.work / "systemd.log")
    try:
        for scene in (is_up, is_confined, restarts_without_refusing, starts_with_a_connection, is_repaired_as_the_guide_says, stops):
            say(scene.__name__.replace("_", " "))
            scene(machine)
    finally:
        machine.close()
    print("unit_in_root.py: all of it held")


def check(held: bool, what: str) -> None:
    if not held:
        sys.exit(f"unit_in_root.py: {what}")


def root_with_systemd(work: pathlib.Path) -> pathlib.Path:
    """Anew, but for the packages."""
    packed, root = work / "base-systemd", work / "systemd"
    if not packed.exists():
        shutil.rmtree(f"{packed}.partial", ignore_errors=True)
        subprocess.run(["cp", "-a", bare_root(work / "base"), f"{packed}.partial"], check=True)
        say("Debian packages: systemd, and what phitapd loads")
        steps = (ROOT / "docker" / "build-steps.sh").read_text()
        packages = re.search(r"^RUNTIME_PACKAGES=\((.*?)^\)", steps, re.MULTILINE | re.DOTALL)[1].split()
        script = "apt-get update -q && apt-get install -y -q --no-install-recommends systemd dbus " + " ".join(packages)
        with open(work / "packages.log", "w") as log:
            done = subprocess.run(["chroot", f"{packed}.partial", "env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script], stdout=log, stderr=log)
        check(done.returncode == 0, f"packages do not install: {work / 'packages.log'}")
        os.rename(f"{packed}.partial", packed)
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", packed, root], check=True)
    return root


def install(root: pathlib.Path, build: pathlib.Path) -> None:
    """As the guide says for a shared machine, with a socket, certificates and the bundled model."""
    say("deploy/systemd/install.sh")
    subprocess.run([ROOT / "deploy/systemd/install.sh", "--root", root, "--build", build, "--socket", "--tls"], check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(ROOT / "deploy/demo-model", root / "srv/models/demo")
    place = root / "etc/phitap"
    certificates = re.search(r"^```sh\n(.*?)^```$", (ROOT / "deploy/README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    subprocess.run(["bash", "-euc", certificates], cwd=place, check=True, capture_output=True)
    (place / "tokens").write_text('{"identities": []}')
    for name, mode in (("tls.key", 0o600), ("tls.crt", 0o600), ("tokens", 0o640)):
        (place / name).chmod(mode)
    configuration = (place / "phitapd.toml").read_text()
    for pattern, text in ((r"^model = .*$", 'model = ["demo=/srv/models/demo"]'), (r"^listen = .*$", 'listen = "systemd"'),
                          (r"^# (tls-cert|tls-key|tokens) =", r"\1 =")):
        configuration = re.sub(pattern, text, configuration, flags=re.MULTILINE)
    (place / "phitapd.toml").write_text(configuration + 'anonymous-roles = "trace"\n')
    subprocess.run(["chroot", root, "sh", "-ec", "systemd-sysusers; chgrp phitap /etc/phitap /etc/phitap/phitapd.toml /etc/phitap/tokens; "
                    "systemctl enable phitapd"], check=True, capture_output=True)


def is_up(machine: Machine) -> None:
    check(machine.output("systemctl", "is-active", "phitapd", "phitapd.socket") == "active\nactive", machine.log())
    check("demo" in machine.output("phitap", "models"), "no model")
    check("logits" in machine.output("phitap", "trace", "--prompt=When Mary", "--capture=logits"), "no trace")


def is_confined(machine: Machine) -> None:
    process = machine.output("systemctl", "show", "--value", "--property=MainPID", "phitapd")
    status = dict(line.split(":\t") for line in machine.output("cat", f"/proc/{process}/status").splitlines() if ":\t" in line)
    check(status["Uid"].split() == machine.output("id", "-u", "phitap").split() * 4, f"the server is not the user phitap's: {status['Uid']}")
    for field, wanted in (("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapEff", "0" * 16), ("CapBnd", "0" * 16)):
        check(status[field] == wanted, f"{field} is {status[field]}")
    as_phitap = ("setpriv", "--reuid=phitap", "--regid=phitap", "--clear-groups")
    check(machine.run(*as_phitap, "cat", "/etc/phitap/tls.key").returncode != 0, "the server's user can read root's key")
    check("PRIVATE KEY" in machine.output(*as_phitap, "cat", "/run/credentials/phitapd.service/tls.key"), "the server's user has no key of its own")
    check(machine.output("ls", "-A", "/var/lib/phitap") != "", "nothing is kept in the state folder")


def restarts_without_refusing(machine: Machine) -> None:
    restart = subprocess.Popen(machine.command("systemctl", "restart", "phitapd"))
    seen = []
    while restart.poll() is None or not seen:
        seen.append(machine.run("phitap", "health", "--timeout=20").returncode)
    check(restart.returncode == 0, machine.log())
    check(NOBODY not in seen and set(seen) <= {SERVING, NOT_SERVING}, f"clients saw {seen}")
    check(machine.run("phitap", "health").returncode == SERVING, machine.log())


def starts_with_a_connection(machine: Machine) -> None:
    machine.output("systemctl", "stop", "phitapd")
    check(machine.run("systemctl", "is-active", "phitapd").stdout == "inactive\n", "it was not stopped")
    check(machine.output("phitap", "health", "--wait=60") == "SERVING", machine.log())


def is_repaired_as_the_guide_says(machine: Machine) -> None:
    edit = ("sed", "--in-place")
    machine.output(*edit, "s|/srv/models/demo|/srv/models/none|", "/etc/phitap/phitapd.toml")
    check(machine.run("systemctl", "restart", "phitapd").returncode != 0, "a server without its model has started")
    deadline = time.monotonic() + 60
    while machine.run("systemctl", "is-active", "phitapd.socket").stdout != "failed\n":
        check(time.monotonic() < deadline, "systemd goes on trying")
        machine.run("phitap", "health", "--timeout=1")
    check("/srv/models/none: does not exist" in machine.log(), machine.log())
    machine.output(*edit, "s|/srv/models/none|/srv/models/demo|", "/etc/phitap/phitapd.toml")
    machine.output("systemctl", "reset-failed", "phitapd", "phitapd.socket")
    machine.output("systemctl", "start", "phitapd")
    check(machine.output("phitap", "health") == "SERVING", machine.log())


def stops(machine: Machine) -> None:
    machine.output("systemctl", "stop", "phitapd.socket", "phitapd")
    check(machine.output("systemctl", "show", "--value", "--property=Result", "--property=ExecMainStatus", "phitapd").split() == ["success", "0"], machine.log())
    check(machine.run("phitap", "health", "--timeout=2").returncode == NOBODY, "somebody still answers")


if __name__ == "__main__":
    main()
