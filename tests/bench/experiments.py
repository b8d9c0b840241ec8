"""Experiments through gRPC beside the same in transformers and nnterp."""

# SPDX-License-Identifier: Apache-2.0

import dataclasses
import statistics
import sys
import time

import grpc
from google.protobuf import json_format
from phitap.stream import Assembly
from phitap.v1 import activation_service_pb2_grpc, tensor_pb2, trace_pb2

import sides
from bench import EVERY_LAYER, Bench, Model, median_ratio, prompt, report
from experiment_sides import steering_vector

TOKENS = 64
GENERATED = 32
METRIC_TOKEN = 1234
LIBRARIES = ("transformers", "nnterp")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The same work asked of every side."""

    task: str
    phitap: trace_pb2.TraceRequest
    libraries: dict


def experiments(model: Model) -> list[Experiment]:
    clean, corrupt = prompt(TOKENS), prompt(TOKENS + 1)[:TOKENS]
    layer = model.layers // 2 - 1
    return [
        Experiment(
            "sweep_layers_last_64",
            sweep_request(clean, corrupt),
            {
                "do": "sweep",
                "clean": clean,
                "corrupt": corrupt,
                "token": METRIC_TOKEN,
            },
        ),
        Experiment(
            "attribution_64",
            attribution_request(corrupt),
            {"do": "attribution", "corrupt": corrupt, "token": METRIC_TOKEN},
        ),
        Experiment(
            "steer_generate_32",
            generate_request(clean, layer, model),
            {
                "do": "generate",
                "ids": clean,
                "layer": layer,
                "count": GENERATED,
            },
        ),
    ]


def run_of(label: str, ids: list[int], **more) -> dict:
    return {"label": label, "prompt": {"tokens": {"ids": ids}}, **more}


def sweep_request(clean: list, corrupt: list) -> trace_pb2.TraceRequest:
    patch = {
        "hookPoints": EVERY_LAYER,
        "selection": {"positions": {"indices": [-1]}},
        "set": {"value": {"run": {"run": "clean"}}},
    }
    metric = {"label": "logit", "logit": {"tokenId": METRIC_TOKEN}}
    return json_format.ParseDict(
        {
            "runs": [run_of("clean", clean), run_of("corrupt", corrupt)],
            "sweeps": [
                {
                    "run": "corrupt",
                    "interventions": [patch],
                    "axes": [{"layers": {}}],
                    "metrics": [metric],
                }
            ],
        },
        trace_pb2.TraceRequest(),
    )


def attribution_request(corrupt: list) -> trace_pb2.TraceRequest:
    metric = {"run": "corrupt", "logit": {"tokenId": METRIC_TOKEN}}
    return json_format.ParseDict(
        {
            "runs": [run_of("corrupt", corrupt)],
            "gradients": [{"of": metric, "hookPoints": EVERY_LAYER}],
        },
        trace_pb2.TraceRequest(),
    )


def generate_request(
    ids: list, layer: int, model: Model
) -> trace_pb2.TraceRequest:
    steer = {
        "hookPoints": f"layers.{layer}.layer_output",
        "add": {"value": {"constant": "vector"}},
    }
    generation = {"maxTokens": GENERATED}
    request = json_format.ParseDict(
        {"runs": [run_of("steered", ids, interventions=[steer], generation=generation)]},
        trace_pb2.TraceRequest(),
    )
    vector = steering_vector(model.config["hidden_size"]).numpy()
    request.constants["vector"].CopyFrom(
        tensor_pb2.Tensor(
            dtype=tensor_pb2.DATA_TYPE_F32,
            shape=vector.shape,
            data=vector.astype("<f4").tobytes(),
        )
    )
    return request


def measure_experiments(bench: Bench, model: Model) -> None:
    with (
        bench.server(model) as server,
        library(bench, model, "transformers") as transformers,
        library(bench, model, "nnterp") as nnterp,
        grpc.insecure_channel(server.address) as channel,
    ):
        stub = activation_service_pb2_grpc.ActivationServiceStub(channel)
        for experiment in experiments(model):
            neighbours = sides.Neighbours(
                [server.id, transformers.id, nnterp.id]
            )
            taken = bench.rounds(
                bench.extent.rounds,
                {
                    "phitap": lambda: traced(stub, experiment.phitap),
                    "transformers": lambda: transformers.ask(
                        **experiment.libraries
                    ),
                    "nnterp": lambda: nnterp.ask(**experiment.libraries),
                },
            )
            report_experiment(model, experiment, taken, neighbours.cores())


def library(bench: Bench, model: Model, name: str) -> sides.Side:
    script = str(sides.HERE / "experiment_sides.py")
    return sides.Side(
        [
            sys.executable,
            script,
            name,
            str(model.folder),
            f"--threads={bench.threads}",
        ]
    )


def traced(stub, request: trace_pb2.TraceRequest) -> dict:
    start = time.perf_counter()
    trace = Assembly(None).read(stub.Trace(request))
    return {"seconds": [time.perf_counter() - start], "trace": trace}


def report_experiment(
    model: Model, experiment: Experiment, taken: dict, neighbour_cores: float
) -> None:
    seconds = {
        name: [answer["seconds"][0] for answer in answers]
        for name, answers in taken.items()
    }
    report(
        experiment.task,
        model=str(model),
        **{
            f"{name}_seconds": statistics.median(each)
            for name, each in seconds.items()
        },
        **{
            f"{name}_range": [min(each), max(each)]
            for name, each in seconds.items()
        },
        **{
            f"times_as_fast_as_{name}": median_ratio(
                seconds[name], seconds["phitap"]
            )
            for name in LIBRARIES
        },
        rounds=len(seconds["phitap"]),
        neighbour_cores=neighbour_cores,
    )
