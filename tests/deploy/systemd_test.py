"""The unit: systemd's own reading of it, what it leaves exposed, and whether the server runs with what it is left."""

import contextlib
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

import phitap
from conftest import ROOT, Tool, known_flags
from served import SERVER, running_server

SYSTEMD = ROOT / "deploy" / "systemd"
DEMO = ROOT / "deploy" / "demo-model"
#: Of systemd-analyze security, from 0 to 10.
MOST_EXPOSURE = 2.0


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> pathlib.Path:
    """A root with everything that install.sh puts there."""
    root = tmp_path_factory.mktemp("root")
    build = SERVER.parents[1]
    done = subprocess.run([SYSTEMD / "install.sh", "--root", root, "--build", build, "--tls", "--gpu", "--socket"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def analyze(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)


def unit_values(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", (SYSTEMD / "phitapd.service").read_text(), re.MULTILINE)


def seconds(text: str) -> float:
    units = {"h": 3600, "min": 60, "m": 60, "s": 1}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9.]+)\s*(h|min|m|s)\b", text))


def test_systemd_finds_nothing_wrong_with_the_installed_unit(installed):
    for target in ("network-online.target", "multi-user.target", "sysinit.target", "basic.target", "shutdown.target", "sockets.target"):
        source = pathlib.Path("/usr/lib/systemd/system") / target
        copy = installed / "usr/lib/systemd/system" / target
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(re.sub(r"^(Wants|Requires|Documentation|After|Before)=.*\n", "", source.read_text(), flags=re.MULTILINE))
    for unit in ("phitapd.service", "phitapd.socket"):
        done = analyze("verify", "--recursive-errors=no", "--man=no", f"--root={installed}", unit)
        assert done.returncode == 0 and done.stderr.strip() == "", done.stderr


def test_the_socket_is_enabled_with_the_service(installed):
    done = subprocess.run(["systemctl", f"--root={installed}", "enable", "phitapd.service"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    units = installed / "etc/systemd/system"
    assert (units / "multi-user.target.wants/phitapd.service").is_symlink() and (units / "sockets.target.wants/phitapd.socket").is_symlink()


def test_systemd_refuses_a_unit_whose_program_is_missing(installed, tmp_path):
    unit = tmp_path / "phitapd.service"
    unit.write_text((SYSTEMD / "phitapd.service").read_text().replace("/bin/phitapd", "/bin/no-such"))
    done = analyze("verify", "--man=no", unit)
    assert done.returncode != 0 and "no-such is not executable" in done.stderr, done.stderr


def test_the_unit_leaves_little_exposed():
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={int(MOST_EXPOSURE * 10)}", SYSTEMD / "phitapd.service")
    assert done.returncode == 0, done.stdout
    exposure = float(re.search(r"Overall exposure level for phitapd.service: ([0-9.]+)", done.stdout)[1])
    assert exposure <= MOST_EXPOSURE


def test_the_installed_program_finds_its_libraries_where_it_was_put(installed):
    program = installed / "opt/phitap/bin/phitapd"
    assert subprocess.run([program, "--version"], capture_output=True, text=True).stdout.startswith("phitapd ")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    found = re.search(r"libtorch_cpu\.so => (\S+)", libraries)[1]
    assert pathlib.Path(found).resolve().is_relative_to(installed.resolve()), libraries
    assert "not found" not in libraries


def test_a_second_install_keeps_the_configuration(installed):
    file = installed / "etc/phitap/phitapd.toml"
    file.write_text(file.read_text() + "# ours\n")
    done = subprocess.run([SYSTEMD / "install.sh", "--root", installed, "--build", SERVER.parents[1]], capture_output=True, text=True)
    assert done.returncode == 0 and "is kept" in done.stdout, done.stdout + done.stderr
    assert file.read_text().endswith("# ours\n")
    assert file.stat().st_mode & 0o777 == 0o640


def test_the_install_script_says_what_is_missing(tmp_path):
    done = subprocess.run([SYSTEMD / "install.sh", "--root", tmp_path, "--build", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "build first" in done.stderr
    assert not list(tmp_path.iterdir())


def flags_of(text: str) -> dict[str, str]:
    """Flags of a configuration file with its commented examples turned on."""
    return tomllib.loads(re.sub(r"^# (?=[a-z-]+ = )", "", text, flags=re.MULTILINE))


def test_every_flag_of_the_configuration_is_one_of_the_servers():
    assert set(flags_of((SYSTEMD / "phitapd.toml").read_text())) <= known_flags()


def test_systemd_waits_longer_than_the_drain_takes():
    flags = tomllib.loads((SYSTEMD / "phitapd.toml").read_text())
    [stop] = unit_values("TimeoutStopSec")
    assert seconds(stop) >= seconds(flags["drain-grace"]) + seconds(flags["drain-timeout"]) + 15


# What the unit takes from the server is taken from it here by the same means of the kernel, since systemd itself does not run everywhere.

def allowed_calls() -> set[str]:
    """Names of the system calls that SystemCallFilter= leaves."""
    allowed, denied = set(), set()
    for value in unit_values("SystemCallFilter"):
        names = calls_of(value.removeprefix("~").split())
        (denied if value.startswith("~") else allowed).update(names)
    return (allowed - denied) | calls_of(["@default"])


def calls_of(groups: list[str]) -> set[str]:
    names = set()
    for group in groups:
        if not group.startswith("@"):
            names.add(group)
            continue
        for line in analyze("syscall-filter", "--no-pager", group).stdout.splitlines()[1:]:
            name = line.strip()
            if name.startswith("@"):
                names |= calls_of([name])
            elif name and not name.startswith("#"):
                names.add(name)
    return names


def confined(**changes) -> list[str]:
    """The command that runs a program with what the unit leaves it."""
    unit = {"calls": ",".join(sorted(allowed_calls())), "families": ",".join(unit_values("RestrictAddressFamilies")[0].split()),
            "write_or_execute": "".join(unit_values("MemoryDenyWriteExecute")) or "no"} | changes
    return [sys.executable, str(ROOT / "tests" / "deploy" / "confined.py"), unit["calls"], unit["families"], unit["write_or_execute"]]


def test_the_server_computes_with_what_the_unit_leaves_it(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    for dtype in ("float32", "bfloat16"):
        folder = tmp_path / dtype
        folder.mkdir()
        with running_server({"demo": DEMO}, folder, dtype, 2, f"--state-dir={state}", under=confined()) as server:
            with phitap.Client(server.address, timeout=60) as client:
                trace = client.trace("When Mary and John went to the store", ["layers.*.layer_output", "logits"])
                assert trace["logits"].shape[0] == len(trace.runs[0].tokens)
                client.put_tensor("joy", trace["logits"][0])
                assert len(list(client.generate("When Mary", 3))) > 0


@pytest.fixture
def systemd(tmp_path, monkeypatch) -> Iterator[socket.socket]:
    """The socket where the service's process says how far it is."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def test_systemd_is_told_when_requests_are_taken_and_when_no_longer(systemd, tmp_path):
    assert unit_values("Type") == ["notify"]
    with running_server({"demo": DEMO}, tmp_path, "auto", 2, under=confined()) as server:
        assert systemd.recv(100) == b"READY=1"
        health = Tool(SERVER.parent / "phitap")
        assert health.output("health", f"--server={server.address}") == "SERVING\n"
    # It was told to stop, and has ended with status 0.
    assert systemd.recv(100) == b"STOPPING=1"


def test_systemd_is_not_told_of_a_server_whose_model_cannot_be_loaded(systemd, tmp_path):
    shutil.copytree(DEMO, tmp_path / "model")
    (tmp_path / "model/tokenizer.json").write_text("{")
    done = subprocess.run([SERVER, f"--model=demo={tmp_path / 'model'}", "--listen=127.0.0.1:0"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "tokenizer.json" in done.stdout + done.stderr
    systemd.setblocking(False)
    told = []
    with contextlib.suppress(BlockingIOError):
        while True:
            told.append(systemd.recv(100))
    assert b"READY=1" not in told


def test_a_call_that_the_filter_lacks_is_noticed(tmp_path):
    """So that the test above says something."""
    calls = ",".join(allowed_calls() - {"bind"})
    done = subprocess.run([*confined(calls=calls), SERVER, f"--model=demo={DEMO}", "--listen=127.0.0.1:0"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 1 and "--listen" in done.stdout + done.stderr


def test_bfloat16_needs_memory_that_is_written_and_then_executed():
    """oneDNN compiles its kernels when they are needed: why the unit cannot have MemoryDenyWriteExecute=yes."""
    assert unit_values("MemoryDenyWriteExecute") == []
    done = subprocess.run([*confined(write_or_execute="yes"), SERVER, f"--model=demo={DEMO}", "--listen=127.0.0.1:0", "--dtype=bfloat16"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "could not create a primitive" in done.stdout + done.stderr
