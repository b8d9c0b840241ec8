"""The chart: lint, schemas, what its values must not say, and whether the real server takes what its pods would be started with."""

import functools
import json
import pathlib
import re
import subprocess
import urllib.request

import pytest
import yaml

from conftest import ROOT, TOOLS, WHEELS, Tool, tool
from served import SERVER, running_server

CHART = ROOT / "deploy" / "helm" / "phitap"
VALUES = sorted((ROOT / "tests" / "deploy" / "values").glob("*.yaml"))
LAB, BARE = (ROOT / "tests" / "deploy" / "values" / f"{name}.yaml" for name in ("lab", "bare"))
DEFAULTS = CHART / "values.yaml"
KUBERNETES = "1.31.0"
DEMO = ROOT / "deploy" / "demo-model"

value_sets = pytest.mark.parametrize("values", [DEFAULTS, *VALUES], ids=lambda path: path.stem)


def helm(*arguments) -> subprocess.CompletedProcess:
    return tool("helm").run(*arguments)


@functools.cache
def template(values: pathlib.Path, *flags) -> str:
    done = helm("template", "phi", CHART, "--namespace=lab", f"--kube-version={KUBERNETES}", "--values", values, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(values: pathlib.Path, *flags) -> dict[str, dict]:
    """By kind; services by kind and name."""
    found = {}
    for item in yaml.safe_load_all(template(values, *flags)):
        if item is not None:
            name = f" {item['metadata']['name']}" if item["kind"] == "Service" else ""
            assert item["kind"] + name not in found
            found[item["kind"] + name] = item
    return found


def refusal(*flags) -> str:
    done = helm("template", "phi", CHART, f"--kube-version={KUBERNETES}", *flags)
    assert done.returncode != 0, done.stdout
    return done.stderr


def container(values: pathlib.Path) -> dict:
    return objects(values)["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]


@value_sets
def test_lint_finds_nothing(values):
    done = helm("lint", "--strict", CHART, f"--kube-version={KUBERNETES}", "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def schemas(tmp_path_factory) -> list[str]:
    """Flags of kubeconform: Kubernetes' own schemas, and the operator's declarations of its kinds. Fields that they lack are refused."""
    tool("kubeconform")  # its schemas are installed with it
    folder = tmp_path_factory.mktemp("schemas")
    [kubernetes] = WHEELS.glob(f"kubernetes-validate*/kubernetes_validate/kubernetes-json-schema/v{KUBERNETES}-local-strict")
    for file in kubernetes.glob("*.json"):
        # The package gives them addresses of their own, from which they find each other; here they do in their folder.
        text = re.sub(r',\s*"\$id": "[^"]*"', "", file.read_text())
        (folder / file.name).write_text(text.replace("/api/_definitions.json", "_definitions.json"))
    for file in (TOOLS / "operator-crds").glob("*.yaml"):
        declared = yaml.safe_load(file.read_text())["spec"]
        for version in declared["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            (folder / f"{declared['names']['kind'].lower()}-monitoring-{version['name']}.json").write_text(json.dumps(schema))
    return ["-schema-location", f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", f"-kubernetes-version={KUBERNETES}", "-strict"]


def closed(schema: dict) -> dict:
    """With every object's properties the only ones that it has."""
    inner = {key: closed(value) if isinstance(value, dict) else value for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and schema.get("type") == "object":
        inner["additionalProperties"] = False
    return inner


@value_sets
def test_kubernetes_knows_every_field(values, schemas):
    checked = tool("kubeconform").run(*schemas, "-summary", "-output=json", input=template(values))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    summary = json.loads(checked.stdout)["summary"]
    assert summary["valid"] >= 4 and summary["skipped"] == summary["invalid"] == summary["errors"] == 0


def test_a_field_that_nobody_knows_is_noticed(schemas):
    """So that the test above says something."""
    lab = template(LAB)
    for known, wrong in (("periodSeconds:", "periodSecond:"), ("path: /metrics", "paths: /metrics")):
        checked = tool("kubeconform").run(*schemas, input=lab.replace(known, wrong, 1))
        assert checked.returncode != 0 and wrong.split(":")[0] in checked.stdout, checked.stdout


@value_sets
def test_kubernetes_waits_longer_than_the_drain_takes(values):
    pod = objects(values)["StatefulSet"]["spec"]["template"]["spec"]
    flags = dict(argument.removeprefix("--").split("=", 1) for argument in pod["containers"][0]["args"])
    drain = sum(int(flags[name].removesuffix("s")) for name in ("drain-grace", "drain-timeout"))
    assert pod["terminationGracePeriodSeconds"] >= drain + 5


@value_sets
def test_nothing_runs_as_root_or_writes_to_its_root(values):
    pod = objects(values)["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert pod["automountServiceAccountToken"] is False
    for one in [*pod["containers"], *pod.get("initContainers", [])]:
        assert one["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        mounted = {mount["name"] for mount in one["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in pod["volumes"]} | {"state"}


@value_sets
def test_every_port_that_something_asks_is_one_of_the_servers(values):
    found = objects(values)
    ports = {port["name"]: port["containerPort"] for port in container(values)["ports"]}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container(values)[name]
        if "exec" in probe:
            assert f"--server=localhost:{ports['grpc']}" in probe["exec"]["command"]
        else:
            asked = probe.get("grpc", probe.get("tcpSocket"))["port"]
            assert asked == "grpc" or asked == ports["grpc"]
    for name, item in found.items():
        if name.startswith("Service "):
            assert {port["targetPort"] for port in item["spec"]["ports"]} <= set(ports)
            assert item["spec"]["selector"].items() <= found["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    assert found["StatefulSet"]["spec"]["serviceName"] == "phi-phitap-pods"
    assert found["Service phi-phitap-pods"]["spec"]["clusterIP"] == "None"


@value_sets
def test_a_pod_is_ready_once_its_models_are_and_is_not_killed_while_it_drains(values):
    """Health says NOT_SERVING before and after, while the port is open."""
    pod = container(values)
    encrypted = any(argument.startswith("--tls-cert=") for argument in pod["args"])
    for name in ("startupProbe", "readinessProbe"):
        assert ("exec" if encrypted else "grpc") in pod[name]
    assert "tcpSocket" in pod["livenessProbe"]
    assert pod["startupProbe"]["periodSeconds"] * pod["startupProbe"]["failureThreshold"] >= 1800


@value_sets
def test_services_name_the_protocol_that_the_port_speaks(values):
    protocol = "https" if any(argument.startswith("--tls-cert=") for argument in container(values)["args"]) else "kubernetes.io/h2c"
    services = [item for name, item in objects(values).items() if name.startswith("Service ")]
    assert [port["appProtocol"] for service in services for port in service["spec"]["ports"] if port["name"] == "grpc"] == [protocol] * 2


@pytest.mark.parametrize("url, ports", [("https://a/b", [443]), ("http://a/b", [443, 80]), ("https://a:8443/b", [443, 8443]), ("http://[::1]:81/b", [443, 81])])
def test_files_are_fetched_through_the_network_policy(url, ports):
    file = json.dumps([{"model": "phi", "url": url, "sha256": "0" * 64}])
    egress = objects(DEFAULTS, f"--set-json=fetch.files={file}")["NetworkPolicy"]["spec"]["egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in egress] == [[53, 53], ports]


@pytest.mark.parametrize("flags, said", [
    (["--set=drain.terminationGracePeriodSeconds=600"], "would cut off the drain of graceSeconds + timeoutSeconds = 615 s; at least 620"),
    (["--set=tls.enabled=true"], "tls.secretName: needed"),
    (["--set=tls.clientCertificates=require"], "set tls.enabled"),
    (["--set=modelVolume.type=hostPath"], "modelVolume.hostPath: needed"),
    (["--set=modelVolume.type=emptyDir"], "fetch.files: an emptyDir has no checkpoint"),
    (["--set-json=models=[]"], "models: name at least one"),
    (["--set=replicaCount=2"], "modelVolume.accessModes: several pods share the claim"),
    (["--set=autoscaling.enabled=true", "--set=autoscaling.maxReplicas=0"], "maxReplicas"),
    (["--set=autoscaling.enabled=true", "--set=metrics.enabled=false"], "its metric comes from metrics.enabled"),
    (["--set=modelVolume.type=nfs"], "modelVolume"),
    (["--set=drain.graceSecond=3"], "graceSecond"),
    (["--set-json=fetch.files=[{\"model\":\"phi\",\"url\":\"https://a/b\",\"sha256\":\"12\"}]"], "sha256"),
], ids=lambda item: "" if isinstance(item, str) else item[-1].removeprefix("--set"))
def test_values_that_cannot_work_are_refused_by_name(flags, said):
    assert said in refusal(*flags)


def test_what_the_values_ask_for_is_there():
    lab = objects(LAB)
    assert {"HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule", "ConfigMap", "PersistentVolumeClaim",
            "ServiceAccount", "StatefulSet"} <= set(lab)
    assert "replicas" not in lab["StatefulSet"]["spec"]  # the autoscaler's
    assert container(LAB)["resources"]["limits"]["nvidia.com/gpu"] == 1
    metric = lab["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]
    assert metric == {"metric": {"name": "phitap_queue_wait_seconds_p90"}, "target": {"type": "AverageValue", "averageValue": "500m"}}
    bare = objects(BARE)
    assert set(bare) == {"StatefulSet", "ConfigMap", "Service phi-phitap", "Service phi-phitap-pods"}


@value_sets
def test_the_server_takes_what_its_pod_would_be_started_with(values, tmp_path, certificates):
    """The very arguments, but for paths, ports and cores of this machine, and for the time to wait for balancers when it stops."""
    (tmp_path / "state").mkdir()
    arguments = []
    for argument in container(values)["args"]:
        argument = re.sub(r"^(--model=[^=]+)=/models/.*$", rf"\1={DEMO}", argument)
        argument = argument.replace("=/models", f"={ROOT / 'deploy'}").replace("=/var/lib/phitap", f"={tmp_path / 'state'}")
        argument = argument.replace("=/etc/phitap/tls/", f"={certificates}/").replace("=/etc/phitap/tokens/", f"={certificates}/")
        argument = re.sub("^--drain-grace=.*$", "--drain-grace=0s", argument)
        arguments.append(re.sub(r"^(--(metrics-)?listen)=0\.0\.0\.0:.*$", r"\1=127.0.0.1:0", argument))
    with running_server({}, tmp_path, "auto", 2, *arguments) as server:
        assert "ready" in server.log.read_text()
        asked = container(values)["readinessProbe"]
        if "exec" in asked:
            command = [flag.replace("/etc/phitap/tls", str(certificates)) for flag in asked["exec"]["command"]]
            command = [re.sub("^--server=.*$", f"--server={server.address}", flag) for flag in command]
            probe = Tool(SERVER.parent / command[0]).run(*command[1:])
            assert probe.returncode == 0 and probe.stdout == "SERVING\n", probe.stderr
        elif "grpc" in asked:
            assert tool("grpc-health-probe").run(f"-addr={server.address}").returncode == 0
        [ready] = [line for line in map(json.loads, server.log.read_text().splitlines()) if line["message"] == "ready"]
        if "HorizontalPodAutoscaler" in objects(values):
            Tool(SERVER.parent / "phitap").output("trace", *command[2:], "--model=phi", "--prompt=When Mary", "--capture=logits")
            asks_for_a_metric_of(ready["metrics_address"])


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> pathlib.Path:
    """tls.crt, tls.key, ca.crt and a file of tokens."""
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:phitap.lab.example,IP:127.0.0.1", "-keyout", folder / "tls.key", "-out",
                    folder / "tls.crt"], check=True, capture_output=True)
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())
    (folder / "tokens").write_text('{"identities": []}')
    (folder / "tokens").chmod(0o640)
    return folder


def asks_for_a_metric_of(address: str) -> None:
    """The autoscaler does, by the rule that the notes give an adapter."""
    [series] = re.findall(r"seriesQuery: '(\w+)\{", (CHART / "templates" / "NOTES.txt").read_text())
    [path] = [endpoint["path"] for endpoint in objects(LAB)["ServiceMonitor"]["spec"]["endpoints"]]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
        assert re.search(rf"^{series}\{{.*le=", answer.read().decode(), re.MULTILINE)
    assert yaml.safe_load(DEFAULTS.read_text())["autoscaling"]["metric"].startswith(series.removesuffix("_bucket"))
