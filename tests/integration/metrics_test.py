"""A server seen from outside: what it counts is what was asked of it, in words of its own; the dashboard and the alerts ask for what is there;
nothing that a caller has sent is in the metrics or in the log.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Optional

import grpc
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import phitap
from phitap.v1 import activation_service_pb2, activation_service_pb2_grpc, admin_service_pb2, admin_service_pb2_grpc
from served import ROOT, RunningServer, running_server

PROMTOOL = ROOT / "build" / "deps" / "prometheus" / "promtool"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboard.json"
#: Words that callers send; none may be seen anywhere.
SECRET = "sentinel"
PROMPT, OTHER_PROMPT = f"When {SECRET} Mary", f"John {SECRET}"
LABELS = {"model": "demo", "caller": "anonymous"}
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


class Scrape:
    """What GET /metrics answered."""

    def __init__(self, address: str):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
            self.text = answer.read().decode()
        self.samples = [sample for family in text_string_to_metric_families(self.text) for sample in family.samples]
        self.names = {sample.name for sample in self.samples}

    def value(self, name: str, **labels: str) -> Optional[float]:
        """Over all values of the other labels; None where there is no such sample."""
        found = [sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()]
        return sum(found) if found else None

    def label_values(self, label: str) -> set[str]:
        return {sample.labels[label] for sample in self.samples if label in sample.labels}


class Watched:
    """A server and where its metrics are."""

    def __init__(self, server: RunningServer):
        self.server = server
        self.metrics_address = next(line["metrics_address"] for line in self.log() if line["message"] == "ready")

    def log(self) -> list[dict]:
        return [json.loads(line) for line in self.server.log.read_text().splitlines()]

    def scrape(self) -> Scrape:
        return Scrape(self.metrics_address)

    def scrape_once(self, name: str, value: float, **labels: str) -> Scrape:
        """Counting comes a moment after the client has its answer."""
        deadline = time.monotonic() + 20
        while (scrape := self.scrape()).value(name, **labels) != value:
            assert time.monotonic() < deadline, f"{name}{labels} is {scrape.value(name, **labels)}, not {value}"
            time.sleep(0.05)
        return scrape


def refused(client: phitap.Client, code: grpc.StatusCode, *arguments, **options) -> None:
    with pytest.raises(phitap.RequestError) as error:
        client.trace(*arguments, **options)
    assert error.value.code == code, error.value


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[Watched]:
    flags = ("--metrics-listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug", "--max-response-bytes", "1MiB")
    with running_server({"demo": ROOT / "deploy" / "demo-model"}, tmp_path_factory.mktemp("server"), "float32", 2, *flags) as server:
        yield Watched(server)


@pytest.fixture(scope="module")
def traffic(watched) -> Watched:
    """One of everything; the numbers are what the tests below expect."""
    with phitap.Client(watched.server.address, timeout=60) as client:
        for first in range(3):  # 5 tokens each
            client.trace([first, 2, 3, 4, 5], ["layers.0.layer_output"])
        client.trace([phitap.Prompt(PROMPT, f"{SECRET}-label"), phitap.Prompt(OTHER_PROMPT, "other")],
                     [phitap.Capture("layers.1.layer_output", positions=-1)])
        assert len(list(client.generate([1, 2, 3, 4, 5, 6, 7], generation=phitap.Generation(4, ignore_stop_ids=True)))) == 4
        client.put_tensor(f"{SECRET}-tensor", np.ones(64, "float32"))
        client.list_tensors()
        client.delete_tensor(f"{SECRET}-tensor")

        refused(client, grpc.StatusCode.INVALID_ARGUMENT, PROMPT, [f"layers.0.{SECRET}"])
        refused(client, grpc.StatusCode.NOT_FOUND, PROMPT, ["logits"], model=f"{SECRET}-model")
        refused(client, grpc.StatusCode.RESOURCE_EXHAUSTED, list(range(1, 400)), ["layers.*.attention_scores"])
        with client.stream(phitap.request.trace_message(
                phitap.Prompt([1, 2, 3], generation=phitap.Generation(500, ignore_stop_ids=True)))) as stream:
            next(stream)  # Leaving it cancels the call.
    return watched


def test_counters_say_exactly_what_was_asked(traffic):
    scrape = traffic.scrape_once("phitap_traces_total", 1, **LABELS, outcome="cancelled")
    scrape = traffic.scrape_once("phitap_traces_total", 5, **LABELS, outcome="finished")
    assert scrape.value("phitap_traces_total", outcome="failed") == 0
    assert scrape.value("phitap_runs_total", **LABELS) == 6
    assert scrape.value("phitap_failed_runs_total", **LABELS) == 0
    assert scrape.value("phitap_tokens_total", **LABELS, kind="generated") == 4
    prompt = scrape.value("phitap_tokens_total", **LABELS, kind="prompt")
    assert prompt == 3 * 5 + 7 + tokens_of(traffic, PROMPT) + tokens_of(traffic, OTHER_PROMPT)
    assert scrape.value("phitap_token_layers_computed_total", **LABELS) > 0
    assert scrape.value("phitap_token_layers_saved_total", **LABELS) > 0
    assert scrape.value("phitap_sent_bytes_total", **LABELS) == (3 * 5 + 2) * 192 * 4


def tokens_of(watched: Watched, text: str) -> int:
    with grpc.insecure_channel(watched.server.address) as channel:
        stub = activation_service_pb2_grpc.ActivationServiceStub(channel)
        return len(stub.Tokenize(activation_service_pb2.TokenizeRequest(text=text)).ids)


def test_calls_are_counted_by_method_and_code(traffic):
    scrape = traffic.scrape_once("phitap_calls_total", 1, method="Trace", code="CANCELLED")
    assert scrape.value("phitap_calls_total", method="Trace", code="OK") == 5
    for code in ("INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"):
        assert scrape.value("phitap_calls_total", method="Trace", code=code) == 1
    for method in ("PutTensor", "ListTensors", "DeleteTensor"):
        assert scrape.value("phitap_calls_total", method=method, code="OK") == 1


def test_refusals_are_counted_by_reason(traffic):
    scrape = traffic.scrape()
    for reason in ("invalid", "unknown_name", "too_large"):
        assert scrape.value("phitap_refusals_total", reason=reason, caller="anonymous") == 1
    assert scrape.value("phitap_refusals_total") == 3
    assert scrape.value("phitap_refusals_total", reason="queue_full", caller="named") == 0  # there before it happens


def test_times_and_waves_are_counted(traffic):
    scrape = traffic.scrape_once("phitap_traces_total", 1, **LABELS, outcome="cancelled")
    for stage in ("plan", "queue", "compute", "delivery", "whole"):
        assert scrape.value("phitap_trace_stage_seconds_count", model="demo", stage=stage) == 5
    whole, parts = (scrape.value("phitap_trace_stage_seconds_sum", stage="whole"),
                    [scrape.value("phitap_trace_stage_seconds_sum", stage=stage) for stage in ("plan", "queue", "compute", "delivery")])
    assert all(part > 0 for part in parts) and 0.5 * whole < sum(parts) < 1.05 * whole, (whole, parts)
    assert scrape.value("phitap_queue_wait_seconds_count", model="demo") == 6  # the cancelled one, too
    assert scrape.value("phitap_wave_tokens_count", model="demo", phase="prompt") == 6
    assert scrape.value("phitap_wave_tokens_count", model="demo", phase="token") >= 3
    assert scrape.value("phitap_compute_seconds_total", model="demo") > 0


def test_what_is_read_now_is_there(traffic):
    scrape = traffic.scrape()
    assert scrape.value("phitap_ready") == 1
    assert scrape.value("phitap_model_state", model="demo", state="ready") == 1
    assert scrape.value("phitap_model_state", model="demo") == 1
    assert scrape.value("phitap_queued_requests") == 0
    for kind in ("undelivered", "workspace", "roots", "tensors"):
        assert 0 <= scrape.value("phitap_memory_bytes", kind=kind) <= scrape.value("phitap_memory_limit_bytes", kind=kind)
    assert scrape.value("phitap_memory_bytes", kind="weights") > 1 << 20
    resident = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{traffic.server.pid}/status").read_text())[1]) * 1024
    assert scrape.value("process_resident_memory_bytes") == pytest.approx(resident, rel=0.2)
    assert abs(time.time() - scrape.value("process_start_time_seconds")) < 300
    assert scrape.value("phitap_build_info") == 1
    assert "2.11" in next(sample.labels["libtorch"] for sample in scrape.samples if sample.name == "phitap_build_info")


def test_each_metric_is_explained_and_has_its_unit(traffic):
    text = traffic.scrape().text
    typed = [name for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE) if not name.startswith("exposer_")]  # the library's own
    explained = dict(re.findall(r"^# HELP (\w+) (.+) \[[\w-]+\]$", text, re.MULTILINE))
    assert len(typed) == len(set(typed)) >= 25
    assert {name for name in explained if not name.startswith("exposer_")} == set(typed)


def test_nothing_that_a_caller_sent_is_in_metrics_or_log(traffic):
    assert SECRET not in traffic.scrape().text
    assert SECRET not in traffic.server.log.read_text()


def test_a_trace_has_a_line_that_says_what_became_of_it(traffic):
    traffic.scrape_once("phitap_traces_total", 1, **LABELS, outcome="cancelled")
    lines = [line for line in traffic.log() if line["message"] == "trace ended"]
    assert [line["code"] for line in lines].count("OK") == 5
    first = lines[0]
    assert re.fullmatch("[0-9a-f]{16}", first["request"]) and first["model"] == "demo"
    assert (first["runs"], first["tokens"], first["tensors"], first["bytes"]) == (1, 5, 1, 5 * 192 * 4)
    stages = [first[f"{stage}_seconds"] for stage in ("plan", "queue", "compute", "delivery")]
    assert all(stage >= 0 for stage in stages) and 0 < sum(stages) <= first["seconds"] * 1.05
    assert {line["refusal"] for line in lines} == {"", "invalid", "unknown_name", "too_large"}


def test_a_call_stands_in_its_callers_trace(traffic):
    with grpc.insecure_channel(traffic.server.address) as channel:
        stub = activation_service_pb2_grpc.ActivationServiceStub(channel)
        sent = (("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01"),)
        _, call = stub.ListModels.with_call(activation_service_pb2.ListModelsRequest(), metadata=sent)
    answered = dict(call.initial_metadata())
    assert answered["traceresponse"] == f"00-{TRACE_ID}-{answered['phitap-request-id']}-01"
    line = next(line for line in reversed(traffic.log()) if line["message"] == "call ended" and line["method"] == "ListModels")
    assert (line["trace_id"], line["request"]) == (TRACE_ID, answered["phitap-request-id"])


def test_models_are_counted_from_when_they_come_until_they_go(tmp_path):
    flags = ("--metrics-listen", "127.0.0.1:0", "--log-format", "json", "--model-folder", str(ROOT / "deploy"),
             "--anonymous-roles", "trace,admin")
    with running_server({}, tmp_path, "float32", 2, *flags) as server, grpc.insecure_channel(server.address) as channel:
        watched, admin = Watched(server), admin_service_pb2_grpc.AdminServiceStub(channel)
        assert watched.scrape().value("phitap_model_state") is None
        list(admin.LoadModel(admin_service_pb2.LoadModelRequest(name="late", path="demo-model")))
        with phitap.Client(server.address, timeout=60) as client:
            client.trace([1, 2, 3], ["layers.0.layer_output"])
        scrape = watched.scrape_once("phitap_traces_total", 1, model="late", outcome="finished")
        assert scrape.value("phitap_model_state", model="late", state="ready") == 1
        assert scrape.value("phitap_wave_tokens_sum", model="late", phase="prompt") == 3

        activity = next(admin.WatchActivity(admin_service_pb2.WatchActivityRequest()))
        states = {model.name: model.status for model in activity.models}
        assert states["late"] == admin_service_pb2.MODEL_STATUS_READY
        assert (activity.finished_requests, activity.sent_bytes) == (1, 3 * 192 * 4)
        used = {use.kind: use.used_bytes for use in activity.memory}
        assert used["weights"] == scrape.value("phitap_memory_bytes", kind="weights") > 0

        admin.UnloadModel(admin_service_pb2.UnloadModelRequest(name="late"))
        scrape = watched.scrape()
        assert scrape.value("phitap_model_state") is None and scrape.value("phitap_memory_bytes", kind="weights") == 0
        assert scrape.value("phitap_traces_total", model="late", outcome="finished") == 1  # counters stay
        assert scrape.value("phitap_calls_total", method="LoadModel", code="OK") == 1
        assert scrape.value("phitap_ready") == 1


def dashboard_queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def alert_queries() -> list[str]:
    yaml = pytest.importorskip("yaml")
    return [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("queries", [dashboard_queries, alert_queries])
def test_what_is_asked_for_exists_on_a_live_server(traffic, queries):
    scrape = traffic.scrape_once("phitap_traces_total", 1, **LABELS, outcome="cancelled")
    asked = queries()
    assert len(asked) > 10
    for query in asked:
        names = set(re.findall(r"\b(?:phitap|process)_\w+", query)) | set(re.findall(r"\bup\b", query))
        assert names and names - {"up"} <= scrape.names, query
        for label, values in re.findall(r'(\w+)=~?"([^"$]*)"', query):
            if label not in ("job", "instance", "code"):  # codes come with their first call
                assert set(values.split("|")) <= scrape.label_values(label), query


def test_alerts_say_what_is_wrong_and_what_to_do():
    yaml = pytest.importorskip("yaml")
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for rule in rules:
        assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]
        assert all(len(rule["annotations"][part]) > 20 for part in ("summary", "description", "action")), rule["alert"]
    tested = (ROOT / "deploy" / "prometheus" / "alerts_test.yaml").read_text()
    assert [rule["alert"] for rule in rules if f'alertname="{rule["alert"]}"' not in tested] == []


def test_prometheus_takes_rules_configuration_and_queries(tmp_path):
    assert PROMTOOL.exists(), "run deploy/install-deps.sh --tests"
    queries = [re.sub(r"\$__rate_interval", "5m", query).replace("$job", "phitap").replace("$instance", ".*") for query in dashboard_queries()]
    (tmp_path / "queries.yaml").write_text(json.dumps(
        {"groups": [{"name": "dashboard", "rules": [{"record": f"query_{i}", "expr": query} for i, query in enumerate(queries)]}]}))
    for arguments in (["check", "rules", tmp_path / "queries.yaml"], ["check", "config", "deploy/prometheus/prometheus.yaml"],
                      ["check", "rules", "deploy/prometheus/alerts.yaml"], ["test", "rules", "deploy/prometheus/alerts_test.yaml"]):
        done = subprocess.run([PROMTOOL, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_metrics_themselves_please_promtool(traffic):
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=traffic.scrape().text, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr


def test_the_dashboard_is_what_its_script_writes():
    written = subprocess.run([sys.executable, ROOT / "deploy" / "grafana" / "make_dashboard.py"], capture_output=True, text=True, check=True)
    assert DASHBOARD.read_text() == written.stdout


def test_the_version_says_what_it_was_built_from():
    server = pathlib.Path(os.environ.get("PHITAPD", ROOT / "build" / "release" / "bin" / "phitapd"))
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"phitapd \d+\.\d+\.\d+ \(commit ([0-9a-f]{7,}|unknown)\)\nlibtorch 2\.\S+\ngRPC \d+\.\d+\.\d+\s*", said), said
