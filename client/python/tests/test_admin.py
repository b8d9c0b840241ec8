"""Administration: models that come and go, and the server's end."""

import os
import subprocess
import time

import grpc
import pytest

import phitap
from conftest import DEMO, SERVER
from phitap.v1 import admin_service_pb2 as admin_pb2


@pytest.fixture()
def administered(tmp_path):
    """A server of its own, whose callers are administrators: its client, and its process."""
    folder = tmp_path / "models"
    folder.mkdir()
    os.symlink(DEMO, tmp_path / "models" / "outside")
    (folder / "demo").mkdir()
    for file in DEMO.iterdir():
        if file.is_file():
            os.link(file, folder / "demo" / file.name)
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen([SERVER, "--model-folder", folder, "--listen", "127.0.0.1:0", "--address-file", tmp_path / "address",
                                   "--anonymous-roles", "trace,tensors,admin"], stdout=log, stderr=subprocess.STDOUT)
    address = tmp_path / "address"
    deadline = time.monotonic() + 60
    while not (address.exists() and address.read_text().strip()):
        assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.05)
    with phitap.Client(address.read_text().strip(), timeout=60) as client:
        yield client, server
    server.kill()
    server.wait()


def test_models_come_and_go(administered):
    client, _ = administered
    states = {state.name: state for state in client.admin.model_states()}
    assert list(states) == ["demo"] and states["demo"].status == admin_pb2.MODEL_STATUS_AVAILABLE
    told = []
    client.admin.load_model("mine", "demo", on_state=told.append)
    assert told[-1].status == admin_pb2.MODEL_STATUS_READY and told[-1].progress == 1
    before = client.trace([[1, 2, 3]], "logits", model="mine")["logits"]
    client.admin.reload_model("mine")
    assert client.trace([[1, 2, 3]], "logits", model="mine")["logits"].tobytes() == before.tobytes()
    client.admin.unload_model("mine")
    with pytest.raises(phitap.RequestError, match="mine") as refused:
        client.trace([[1, 2, 3]], "logits", model="mine")
    assert refused.value.code == grpc.StatusCode.NOT_FOUND


def test_nothing_is_loaded_from_elsewhere(administered):
    client, _ = administered
    for path in ("outside", "../demo", "/etc"):
        with pytest.raises(phitap.RequestError, match="below the model folder|relative") as refused:
            client.admin.load_model("mine", path)
        assert refused.value.code == grpc.StatusCode.INVALID_ARGUMENT


def test_what_the_server_does_is_watched_until_the_loop_is_left(administered):
    client, _ = administered
    client.admin.load_model("mine", "demo")
    client.trace("When Mary", captures="logits", model="mine")
    for looks, activity in enumerate(client.admin.watch_activity(0.1), 1):
        if looks > 1 and activity.finished_requests:
            break
    assert [model.name for model in activity.models if model.status == admin_pb2.MODEL_STATUS_READY] == ["mine"]
    assert activity.token_layers > 0 and {use.kind for use in activity.memory} >= {"weights", "resident"}
    with pytest.raises(phitap.RequestError, match="interval"):
        next(client.admin.watch_activity(0.001))


def test_log_levels_and_the_end(administered):
    client, server = administered
    client.admin.set_log_level("debug")
    with pytest.raises(ValueError, match="debug, info"):
        client.admin.set_log_level("loud")
    client.admin.drain_server()
    assert server.wait(timeout=30) == 0


def test_callers_need_the_role(client):
    with pytest.raises(phitap.RequestError) as refused:
        client.admin.model_states()
    assert refused.value.code == grpc.StatusCode.PERMISSION_DENIED
