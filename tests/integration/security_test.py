"""Who may do what, at the real server with real certificates: tokens, TLS, what logs say, what is refused at the start."""

import contextlib
import hashlib
import json
import os
import pathlib
import secrets
import stat
import subprocess
import time
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import phitap
from served import ROOT, SERVER, running_server

CLI = pathlib.Path(os.environ.get("PHITAP", SERVER.parent / "phitap"))
DEMO = ROOT / "deploy" / "demo-model"


def new_token() -> str:
    return f"phitap_{secrets.token_hex(16)}_{secrets.token_hex(32)}"


def entry(name: str, token: str, roles=("trace", "tensors"), **more) -> dict:
    """An identity as the file of tokens has it, by its documented form alone."""
    digest = f"sha256:{token.split('_')[1]}:{hashlib.sha256(token.encode()).hexdigest()}"
    return {"name": name, "roles": list(roles), "tokens": [digest], **more}


def write_private(path: pathlib.Path, text: str) -> pathlib.Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def write_tokens(path: pathlib.Path, *entries: dict) -> pathlib.Path:
    return write_private(path, json.dumps({"identities": entries}))


@contextlib.contextmanager
def server(folder: pathlib.Path, *flags) -> Iterator:
    folder.mkdir(exist_ok=True)
    with running_server({"demo": DEMO}, folder, "float32", 2, *map(str, flags)) as running:
        yield running


def start_fails(*flags) -> str:
    """What a server says that does not start."""
    ended = subprocess.run([SERVER, f"--model=demo={DEMO}", "--listen", "127.0.0.1:0", *map(str, flags)], capture_output=True, text=True,
                           timeout=60)
    assert ended.returncode in (1, 2), ended
    return ended.stderr


def run_cli(*arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={"PATH": os.environ["PATH"], **{name: str(value) for name, value in environment.items()}})


class Authority:
    """Signs certificates, as OpenSSL's command line does."""

    def __init__(self, folder: pathlib.Path, name: str):
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self.certificate, self._key = self._make("ca", name, "-x509")

    def issue(self, name: str, names: str) -> tuple[pathlib.Path, pathlib.Path]:
        """A certificate for these alternative names, and its key."""
        return self._make(name, name, "-x509", "-CA", self.certificate, "-CAkey", self._key, "-addext", f"subjectAltName={names}",
                          "-addext", "basicConstraints=critical,CA:FALSE")

    def _make(self, file: str, name: str, *arguments) -> tuple[pathlib.Path, pathlib.Path]:
        certificate, key = self._folder / f"{file}.pem", self._folder / f"{file}.key"
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                        f"/CN={name}", "-keyout", key, "-out", certificate, *arguments], check=True, capture_output=True)
        key.chmod(0o600)
        return certificate, key


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("lab"), "lab")


@pytest.fixture(scope="module")
def server_pair(lab) -> tuple[pathlib.Path, pathlib.Path]:
    return lab.issue("server", "DNS:localhost,IP:127.0.0.1")


def refusal(call) -> phitap.RequestError:
    with pytest.raises(phitap.RequestError) as refused:
        call()
    return refused.value


def test_a_token_says_who_calls_and_the_file_is_followed(tmp_path):
    alice, bob = new_token(), new_token()
    tokens = write_tokens(tmp_path / "tokens.json", entry("alice", alice), entry("bob", bob, roles=["trace"]))
    with server(tmp_path / "s", "--tokens", tokens) as running:
        with phitap.Client(running.address, token=alice) as client:
            client.put_tensor("v", np.ones(4, np.float32))
            assert [kept.name for kept in client.list_tensors()] == ["v"]
        with phitap.Client(running.address, token=bob) as client:
            assert client.models()
            assert refusal(client.list_tensors).code == grpc.StatusCode.PERMISSION_DENIED
        for other in ("", new_token()):
            with phitap.Client(running.address, token=other) as client:
                assert refusal(client.models).code == grpc.StatusCode.UNAUTHENTICATED
        carol = new_token()
        write_tokens(tokens, entry("carol", carol))
        deadline = time.monotonic() + 30
        with phitap.Client(running.address, token=carol) as client:
            while True:
                try:
                    assert client.models()
                    break
                except phitap.RequestError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
        with phitap.Client(running.address, token=alice) as client:
            assert refusal(client.models).code == grpc.StatusCode.UNAUTHENTICATED


def test_named_tensors_stay_their_owners_over_a_restart(tmp_path):
    alice, bob = new_token(), new_token()
    tokens = write_tokens(tmp_path / "tokens.json", entry("alice", alice), entry("bob", bob))
    flags = ("--tokens", tokens, "--state-dir", tmp_path / "state")
    with server(tmp_path / "first", *flags) as running, phitap.Client(running.address, token=alice) as client:
        client.put_tensor("steer/joy", np.ones(64, np.float32))
    with server(tmp_path / "second", *flags) as running:
        with phitap.Client(running.address, token=bob) as client:
            assert client.list_tensors() == []
            steered = phitap.Prompt("When", interventions=[phitap.edits.add("layers.0.layer_output", "steer/joy")])
            missing = phitap.Prompt("When", interventions=[phitap.edits.add("layers.0.layer_output", "steer/joz")])
            seen = refusal(lambda: client.trace(steered, "logits"))
            assert seen.code == grpc.StatusCode.NOT_FOUND
            assert seen.message == refusal(lambda: client.trace(missing, "logits")).message.replace("joz", "joy")
            assert refusal(lambda: client.delete_tensor("steer/joy")).code == grpc.StatusCode.NOT_FOUND
        with phitap.Client(running.address, token=alice) as client:
            assert [kept.name for kept in client.list_tensors()] == ["steer/joy"]


def test_the_log_has_names_but_no_secrets_at_any_level(tmp_path):
    token, stranger = new_token(), new_token()
    secret = "sesame-" + secrets.token_hex(8)
    tokens = write_tokens(tmp_path / "tokens.json", entry("alice", token))
    with server(tmp_path / "s", "--tokens", tokens, "--log-level", "debug", "--state-dir", tmp_path / "state") as running:
        with phitap.Client(running.address, token=token) as client:
            client.trace(phitap.Prompt(secret, secret), phitap.Capture("logits", label=secret))
            client.plan(phitap.Prompt(secret, secret), "logits")
            list(client.generate(phitap.Prompt(secret, secret), 2))
            client.tokenize(secret)
            client.detokenize(client.tokenize(secret))
            for wrong in (phitap.Prompt(secret, secret, interventions=[phitap.edits.add(secret, 1.0)]),
                          phitap.Prompt(secret, secret, interventions=[phitap.edits.add("layers.0.layer_output", secret)]),
                          [{"role": secret, "content": secret}]):
                refusal(lambda wrong=wrong: client.trace(wrong, "logits"))
            refusal(lambda: client.trace(secret, phitap.Capture(secret, label=secret)))
            refusal(lambda: client.trace(secret, "logits", model=secret))
            refusal(lambda: client.model_details(secret))
        for sent in (stranger, f"{token}x"):
            with phitap.Client(running.address, token=sent) as client:
                refusal(client.models)
        write_private(tokens, json.dumps({"identities": [{"name": "alice", "roles": ["trace"], "tokens": [token]}]}))
        deadline = time.monotonic() + 30
        while "tokens from before" not in running.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    log = running.log.read_text()
    assert "identity=alice" in log and "UNAUTHENTICATED" in log and "tokens[0]" in log
    for hidden in (secret, token.split("_")[2], stranger.split("_")[2], "Bearer", "bearer"):
        assert hidden not in log, hidden


def test_prompts_are_logged_where_that_is_asked_for(tmp_path):
    prompt = "sesame-" + secrets.token_hex(8)
    with server(tmp_path / "s", "--log-prompts", "on") as running:
        with phitap.Client(running.address) as client:
            client.trace(phitap.Prompt(prompt, "mine"), "logits")
            refusal(lambda: client.trace(f"refused {prompt}", "nowhere"))
    log = running.log.read_text()
    assert f"run=mine prompt={prompt}" in log
    assert f'prompt="refused {prompt}"' in log


def test_an_encrypted_server_is_reached_with_its_authority_alone(tmp_path, lab, server_pair):
    certificate, key = server_pair
    token = new_token()
    tokens = write_tokens(tmp_path / "tokens.json", entry("alice", token))
    mine = write_private(tmp_path / "mine", token + "\n")
    with server(tmp_path / "s", "--tls-cert", certificate, "--tls-key", key, "--tokens", tokens) as running:
        with phitap.Client(running.address, token=token, tls=phitap.Tls(ca=str(lab.certificate))) as client:
            assert client.trace("When Mary", "logits").runs
        listed = run_cli("models", "--server", running.address, "--ca", lab.certificate, "--token-file", mine)
        assert listed.returncode == 0 and "demo" in listed.stdout, listed
        by_name = run_cli("models", "--ca", lab.certificate, "--server-name", "localhost", PHITAP_SERVER=running.address, PHITAP_TOKEN=token)
        assert by_name.returncode == 0, by_name
        anonymous = run_cli("models", "--server", running.address, "--ca", lab.certificate)
        assert anonymous.returncode == 1 and "UNAUTHENTICATED" in anonymous.stderr
        for arguments in (["--token-file", mine], ["--tls", "--token-file", mine],
                          ["--ca", lab.certificate, "--server-name", "elsewhere", "--token-file", mine]):
            ended = run_cli("models", "--server", running.address, *arguments)
            assert ended.returncode == 3, (arguments, ended)


def test_a_certificate_says_who_calls_where_the_authority_signed_it(tmp_path, lab, server_pair):
    certificate, key = server_pair
    tokens = write_tokens(tmp_path / "tokens.json", {"name": "alice", "roles": ["trace"], "certificates": ["alice.lab.example"]})
    own, own_key = lab.issue("alice", "DNS:alice.lab.example")
    forged, forged_key = Authority(tmp_path / "stranger", "lab").issue("alice", "DNS:alice.lab.example")
    with server(tmp_path / "s", "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", lab.certificate, "--tokens",
                tokens) as running:
        with phitap.Client(running.address, tls=phitap.Tls(str(lab.certificate), str(own), str(own_key))) as client:
            assert client.models()
            assert refusal(client.list_tensors).code == grpc.StatusCode.PERMISSION_DENIED
        listed = run_cli("models", "--server", running.address, "--ca", lab.certificate, "--cert", own, "--key", own_key)
        assert listed.returncode == 0, listed
        for arguments in ([], ["--cert", forged, "--key", forged_key]):
            assert run_cli("models", "--server", running.address, "--ca", lab.certificate, *arguments).returncode != 0


def test_nobody_listens_to_other_machines_by_accident(tmp_path, server_pair):
    refused = start_fails("--listen", "0.0.0.0:0")
    assert "--listen" in refused and "--insecure-listen" in refused
    with server(tmp_path / "s", "--insecure-listen", "on", "--listen", "0.0.0.0:0") as running:
        assert "other machines can connect, without encryption" in running.log.read_text()
    with server(tmp_path / "t", "--tls-cert", server_pair[0], "--tls-key", server_pair[1], "--listen", "0.0.0.0:0") as running:
        assert "without encryption" not in running.log.read_text()


def test_files_that_do_not_fit_end_the_start_with_one_error(tmp_path, lab, server_pair):
    certificate, key = server_pair
    other = lab.issue("other", "DNS:other")
    text = write_private(tmp_path / "text", "no PEM")
    open_key = write_private(tmp_path / "open.key", key.read_text())
    open_key.chmod(0o644)
    tls = ("--tls-cert", certificate, "--tls-key")
    for flags, expected in [(("--tls-cert", certificate), "--tls-key: none given"),
                            ((*tls, other[1]), "is not the key of the first certificate"),
                            ((*tls, text), "has no key in PEM"),
                            ((*tls, open_key), "lets others read"),
                            ((*tls, tmp_path / "none"), "No such file"),
                            (("--tls-cert", text, "--tls-key", key), "has no certificate in PEM"),
                            ((*tls, key, "--tls-client-ca", text), "--tls-client-ca"),
                            (("--tls-client-ca", certificate), "--tls-client-ca"),
                            (("--tokens", tmp_path / "none"), "--tokens"),
                            (("--tokens", text), "is not JSON"),
                            (("--anonymous-roles", "root"), "--anonymous-roles: \"root\"")]:
        said = start_fails(*flags)
        assert expected in said, (flags, said)


def test_the_command_line_makes_tokens_that_the_server_takes(tmp_path):
    made = run_cli("token", "new", "--name", "alice", "--roles", "trace", "--json")
    assert made.returncode == 0, made
    document = json.loads(made.stdout)
    tokens = write_tokens(tmp_path / "tokens.json", document["identity"])
    with server(tmp_path / "s", "--tokens", tokens) as running:
        assert run_cli("models", "--server", running.address, PHITAP_TOKEN=document["token"]).returncode == 0
    plain = run_cli("token", "new", "--name", "bob")
    assert plain.stdout.startswith("token: phitap_") and '"roles":["trace","tensors"]' in plain.stdout
    assert run_cli("token", "new", "--name", "a/b").returncode == 2
    assert run_cli("token", "new", "--name", "a", "--roles", "root").returncode == 2


def test_clients_keep_tokens_to_themselves(tmp_path):
    token = new_token()
    for ended in (run_cli("models", "--server", "192.0.2.1:7777", PHITAP_TOKEN=token),
                  run_cli("models", "--token-file", write_private(tmp_path / "empty", "\n")),
                  run_cli("models", "--token-file", tmp_path / "none"), run_cli("models", PHITAP_TOKEN="two words")):
        assert ended.returncode == 2 and "token" in ended.stderr and token not in ended.stderr + ended.stdout, ended
    shared = write_private(tmp_path / "shared", token)
    shared.chmod(0o644)
    ended = run_cli("models", "--token-file", shared)
    assert ended.returncode == 2 and stat.S_IMODE(shared.stat().st_mode) == 0o644 and "0600" in ended.stderr
    with pytest.raises(phitap.ConnectionRefused, match="192.0.2.1"):
        phitap.Client("192.0.2.1:7777", token=token)
    with pytest.raises(phitap.ConnectionRefused, match="cannot be read"):
        phitap.Client("192.0.2.1:7777", tls=phitap.Tls(ca=str(tmp_path / "none")))


def test_headers_that_are_too_long_are_refused(tmp_path):
    with server(tmp_path / "s", "--max-metadata-bytes", "4KiB") as running:
        channel = grpc.insecure_channel(running.address)
        ask = channel.unary_unary("/phitap.v1.ActivationService/ListModels")
        assert ask(b"", metadata=[("x-long", "a" * 1000)])
        with pytest.raises(grpc.RpcError) as refused:
            ask(b"", metadata=[("x-long", "a" * 8000)])
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        channel.close()
