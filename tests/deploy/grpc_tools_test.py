"""Programs that know nothing of phitap talk to its server: by reflection, by the health protocol, under load."""

import json
import subprocess

import pytest

from conftest import ROOT, tool
from served import running_server

ACTIVATION = "phitap.v1.ActivationService"
HEALTH = "grpc.health.v1.Health"
#: Reflection names the health service but has no messages of it: gRPC's C++ server does without their descriptions.
HEALTH_PROTO = """syntax = "proto3"; package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; } ServingStatus status = 1; }
service Health { rpc Watch(HealthCheckRequest) returns (stream HealthCheckResponse); }
"""
TRACE = {"model": "demo", "runs": [{"prompt": {"tokens": {"ids": [1, 2, 3, 4]}}}],
         "captures": [{"hookPoints": "layers.*.layer_output"}, {"hookPoints": "logits"}]}


@pytest.fixture(scope="session")
def grpcurl(server):
    """Calls the server in plain text, as JSON."""
    program = tool("grpcurl")

    def call(*arguments, check=True):
        flags, method = arguments[:-1], arguments[-1]
        done = program.run("-plaintext", *flags, server.address, *method.split(" "))
        assert not check or done.returncode == 0, done.stderr
        return done.stdout if check else done

    return call


def test_grpcurl_lists_every_service_by_reflection(grpcurl):
    services = grpcurl("list").split()
    assert {ACTIVATION, HEALTH} <= set(services), services
    methods = grpcurl(f"list {ACTIVATION}").split()
    assert f"{ACTIVATION}.Trace" in methods and f"{ACTIVATION}.ListModels" in methods
    assert "repeated .phitap.v1.Run runs" in grpcurl("describe phitap.v1.TraceRequest")


def test_grpcurl_traces_a_prompt_with_what_reflection_tells(grpcurl):
    models = json.loads(grpcurl(f"{ACTIVATION}/ListModels"))
    assert [model["name"] for model in models["models"]] == ["demo"]
    answer = grpcurl("-d", json.dumps(TRACE), f"{ACTIVATION}/Trace")
    messages = [json.loads("{" + part) for part in ("\n" + answer).split("\n{")[1:]]
    assert "header" in messages[0] and "summary" in messages[-1]
    assert sum("tensor" in message for message in messages) == 7  # six layers and the logits


def test_grpcurl_shows_which_field_is_wrong(grpcurl):
    wrong = dict(TRACE, captures=[{"hookPoints": "layers.99.layer_output"}])
    done = grpcurl("-d", json.dumps(wrong), f"{ACTIVATION}/Trace", check=False)
    assert done.returncode != 0
    assert "InvalidArgument" in done.stderr and "captures[0].hook_points: layer 99 is past the last" in done.stderr


def test_grpcurl_watches_the_health_until_the_server_stops(tmp_path):
    (tmp_path / "health.proto").write_text(HEALTH_PROTO)
    with running_server({"demo": ROOT / "deploy" / "demo-model"}, tmp_path, "auto", 2) as server:
        watch = subprocess.Popen([tool("grpcurl").path, "-plaintext", "-max-time", "60", "-import-path", tmp_path, "-proto", "health.proto",
                                  server.address, f"{HEALTH}/Watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert read_message(watch) == {"status": "SERVING"}
    # It has ended, with status 0, and told its watchers before.
    rest, _ = watch.communicate(timeout=60)
    assert "NOT_SERVING" in rest


def read_message(process: subprocess.Popen) -> dict:
    text = ""
    for line in process.stdout:
        text += line
        if line.startswith("}"):
            return json.loads(text)
    raise AssertionError(process.stderr.read())


def test_the_health_probe_tells_a_serving_server_from_the_rest(server):
    probe = tool("grpc-health-probe")
    assert "status: SERVING" in probe.run(f"-addr={server.address}").stderr
    assert probe.run(f"-addr={server.address}", f"-service={ACTIVATION}").returncode == 0
    unknown = probe.run(f"-addr={server.address}", "-service=phitap.v9")
    assert unknown.returncode == 3, unknown.stderr  # a health service that does not know it
    nobody = probe.run("-addr=127.0.0.1:1", "-connect-timeout=2s")
    assert nobody.returncode == 2, nobody.stderr  # no connection


def test_ghz_loads_the_server_and_every_request_is_answered(server):
    report = json.loads(tool("ghz").output(
        "--insecure", "--call", f"{ACTIVATION}.Tokenize", "--total=400", "--concurrency=8", "--connections=4", "--format=json",
        "--data", json.dumps({"model": "demo", "text": "When Mary and John went to the store"}), server.address))
    assert report["count"] == 400
    assert report["statusCodeDistribution"] == {"OK": 400}


def test_ghz_loads_the_server_with_traces(server):
    report = json.loads(tool("ghz").output(
        "--insecure", "--call", f"{ACTIVATION}.Trace", "--total=80", "--concurrency=8", "--connections=4", "--format=json",
        "--data", json.dumps(TRACE), server.address))
    assert report["count"] == 80
    assert report["statusCodeDistribution"] == {"OK": 80}
