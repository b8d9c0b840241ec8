"""The operator's guide: its commands do what it says, and what it names is there."""

import functools
import json
import pathlib
import platform
import re
import subprocess

import pytest
import yaml

from chart_test import CHART, helm
from conftest import ROOT, Tool, known_flags, tool
from served import SERVER, running_server

GUIDE = ROOT / "deploy" / "README.md"
DEMO = ROOT / "deploy" / "demo-model"
PROMTOOL = ROOT / "build" / "deps" / "prometheus" / "promtool"
PHITAP = Tool(SERVER.parent / "phitap")
#: That the guide calls beside phitap's.
OTHERS = {"docker", "journalctl", "kubectl", "openssl", "sudo", "--stop-timeout"}


@functools.cache
def blocks(language: str) -> list[str]:
    """Code of the guide in a language, "" for commands that need a machine of their own."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, of, code in found if of == language]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> pathlib.Path:
    """What the guide's own commands make."""
    folder = tmp_path_factory.mktemp("certificates")
    [commands] = blocks("sh")
    done = subprocess.run(["bash", "-euc", commands], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "DNS:phi.lab.example" in done.stdout, done.stderr
    return folder


def test_the_certificates_of_the_guide_let_server_client_and_probe_talk(certificates, tmp_path):
    flags = [f"--tls-cert={certificates / 'tls.crt'}", f"--tls-key={certificates / 'tls.key'}", f"--tls-client-ca={certificates / 'ca.crt'}"]
    with running_server({"demo": DEMO}, tmp_path, "auto", 2, *flags) as server:
        asked = ["health", f"--server=localhost:{server.address.rsplit(':', 1)[1]}", f"--ca={certificates / 'ca.crt'}", "--timeout=10"]
        for name in ("ops", "tls"):
            shown = [f"--cert={certificates / name}.crt", f"--key={certificates / name}.key"]
            assert PHITAP.output(*asked, *shown) == "SERVING\n"
            assert PHITAP.output(*asked, *shown, "--server-name=phi.lab.example") == "SERVING\n"
        assert PHITAP.run(*asked).returncode != 0


def test_the_tokens_of_the_guide_are_known_with_their_roles_and_quotas(tmp_path):
    [example] = blocks("json")
    [asked] = re.findall(r"^phitap (token new.*?)\s+#", "".join(blocks("")), re.MULTILINE)
    made = [json.loads(PHITAP.output(*asked.split(), "--json")) for _ in range(2)]
    for one in made:
        example = example.replace("sha256:SALT:HASH", one["identity"]["tokens"][0], 1)
    tokens = tmp_path / "tokens"
    tokens.write_text(example)
    tokens.chmod(0o640)
    (tmp_path / "alice").write_text(made[0]["token"])
    (tmp_path / "alice").chmod(0o600)
    with running_server({"demo": DEMO}, tmp_path, "auto", 2, f"--tokens={tokens}") as server:
        asked = ["models", f"--server={server.address}"]
        assert "demo" in PHITAP.output(*asked, f"--token-file={tmp_path / 'alice'}")
        refused = PHITAP.run(*asked)
        assert refused.returncode != 0 and "token" in refused.stderr
        # alice has no part in running the server.
        assert "admin" in PHITAP.run("top", "--once", *asked[1:], f"--token-file={tmp_path / 'alice'}").stderr


def test_the_values_of_the_guide_are_some_that_the_chart_takes(tmp_path):
    [values] = blocks("yaml")
    (tmp_path / "values.yaml").write_text(values.replace('sha256: "…"', f'sha256: "{"0" * 64}"'))
    done = helm("template", "phi", CHART, "--namespace=lab", "--values", tmp_path / "values.yaml")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel that has kubectl is for x86-64")
def test_the_secrets_of_the_guide_have_the_keys_that_pods_look_for(certificates, tmp_path):
    for name in ("tokens.json", "model-store.token"):
        (certificates / name).write_text("{}")
    commands = re.findall(r"^kubectl (--namespace lab create secret .*)$", "".join(blocks("")), re.MULTILINE)
    made = [yaml.safe_load(tool("kubectl").output(*command.split(), "--dry-run=client", "--output=yaml", cwd=certificates)) for command in commands]
    keys = {secret["metadata"]["name"]: (secret.get("type", "Opaque"), set(secret["data"])) for secret in made}
    [values] = map(yaml.safe_load, blocks("yaml"))
    assert keys == {values["tls"]["secretName"]: ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
                    values["tokens"]["secretName"]: ("Opaque", {"tokens"}), values["fetch"]["tokenSecret"]: ("Opaque", {"token"})}


def test_prometheus_takes_the_files_that_the_guide_installs():
    checked = Tool(PROMTOOL).run("check", "config", "deploy/prometheus/prometheus.yaml", cwd=ROOT)
    assert checked.returncode == 0 and "alerts.yaml" in checked.stdout + checked.stderr


def test_flags_and_files_that_the_guide_names_are_there():
    text = GUIDE.read_text()
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    others = Tool(ROOT / "deploy/systemd/install.sh").output("--help") + PHITAP.output("--help") + PHITAP.output("health", "--help")
    for quoted in re.findall(r"`([^`\n]+)`", prose):
        if quoted.split()[0] not in OTHERS:
            for flag in re.findall(r"(?<![\w-])--([a-z][a-z-]+)", quoted):
                assert flag in known_flags() or f"--{flag}" in others, quoted
    for path in re.findall(r"\b(?:deploy|docker|tests)/[\w./-]+\w", text):
        assert (ROOT / path).exists(), path
