"""What phitap is asked for each task."""

# SPDX-License-Identifier: Apache-2.0

from google.protobuf import json_format
from phitap.v1 import tensor_pb2, trace_pb2

from bench import Model
from peers.peer import vector

EVERY_LAYER = "layers.*.layer_output"
LAST = {"positions": {"indices": [-1]}}
LAST_LOGITS = {"hookPoints": "logits", "selection": LAST}


def request(**fields) -> trace_pb2.TraceRequest:
    return json_format.ParseDict(fields, trace_pb2.TraceRequest())


def run(ids: list[int], label: str = "", **more) -> dict:
    return {"label": label, "prompt": {"tokens": {"ids": ids}}, **more}


def last_logits(ids: list[int]) -> trace_pb2.TraceRequest:
    return request(runs=[run(ids)], captures=[LAST_LOGITS])


def layer_outputs(ids: list[int]) -> trace_pb2.TraceRequest:
    return request(runs=[run(ids)], captures=[{"hookPoints": EVERY_LAYER}])


def one_layer(ids: list[int], layer: int) -> trace_pb2.TraceRequest:
    capture = {"hookPoints": output_of(layer), "selection": LAST}
    return request(runs=[run(ids)], captures=[capture])


def capture(rows: list[list[int]], layer: int) -> trace_pb2.TraceRequest:
    return request(
        runs=[run(row) for row in rows],
        captures=[{"hookPoints": output_of(layer)}],
    )


def sweep(
    clean: list[int], corrupt: list[int], token: int, positions: bool
) -> trace_pb2.TraceRequest:
    """Over layers at the last position, or over layers and positions."""
    patch = {
        "hookPoints": EVERY_LAYER,
        "set": {"value": {"run": {"run": "clean"}}},
    }
    if not positions:
        patch["selection"] = LAST
    grid = {
        "run": "corrupt",
        "interventions": [patch],
        "axes": [{"layers": {}}] + [{"positions": {}}] * positions,
        "metrics": [{"label": "logit", "logit": {"tokenId": token}}],
    }
    runs = [run(clean, "clean"), run(corrupt, "corrupt")]
    return request(runs=runs, sweeps=[grid])


def edited(
    ids: list[int], layer: int, number: int, model: Model
) -> trace_pb2.TraceRequest:
    edit = {"selection": LAST} | addition(layer)
    return with_vector(
        request(
            runs=[run(ids, interventions=[edit])], captures=[LAST_LOGITS]
        ),
        model,
        number,
    )


def attention(ids: list[int], layer: int) -> trace_pb2.TraceRequest:
    probabilities = {"hookPoints": f"layers.{layer}.attention_probabilities"}
    return request(runs=[run(ids)], captures=[LAST_LOGITS, probabilities])


def attribution(ids: list[int], token: int) -> trace_pb2.TraceRequest:
    metric = {"run": "corrupt", "logit": {"tokenId": token}}
    return request(
        runs=[run(ids, "corrupt")],
        gradients=[{"of": metric, "hookPoints": EVERY_LAYER}],
    )


def generate(
    ids: list[int], layer: int, count: int, model: Model
) -> trace_pb2.TraceRequest:
    steered = run(
        ids,
        interventions=[addition(layer)],
        generation={"maxTokens": count},
    )
    return with_vector(request(runs=[steered]), model)


def output_of(layer: int) -> str:
    return f"layers.{layer}.layer_output"


def addition(layer: int) -> dict:
    return {
        "hookPoints": output_of(layer),
        "add": {"value": {"constant": "vector"}},
    }


def with_vector(
    message: trace_pb2.TraceRequest, model: Model, number: int = 0
) -> trace_pb2.TraceRequest:
    values = vector(model.width, number).numpy()
    message.constants["vector"].CopyFrom(
        tensor_pb2.Tensor(
            dtype=tensor_pb2.DATA_TYPE_F32,
            shape=values.shape,
            data=values.astype("<f4").tobytes(),
        )
    )
    return message
