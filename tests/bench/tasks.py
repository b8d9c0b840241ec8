"""The work that every side is asked for."""

# SPDX-License-Identifier: Apache-2.0

import torch

import trace_requests
from bench import Model, prompt
from task import Requests, Task, Tensors

TOKEN = 1234  # whose logit sweeps and gradients are about
CLIENTS, CLIENT_TOKENS = 16, 16
EDITS, EDITED_TOKENS = 10, 400
SAMPLED_POSITIONS = 4  # of a grid, in the libraries
GENERATED = 32


def tasks(model: Model) -> list[Task]:
    return [
        forward(model, 128, 7, "at least 1.1", "at least 0.92"),
        forward(model, 512, 7, "at least 1.1", "at least 0.92"),
        forward(model, 2048, 3, "at least 1.2", None),
        layer_outputs(model),
        one_layer(model),
        layers_sweep(model, 64, 0, 7, "at least 4.5", (1, 4, 8)),
        layers_sweep(model, 512, 0, 3, None, (1, 8)),
        layers_sweep(model, 512, 256, 3, "at least 7", (1, 8)),
        grid(model, "layers_positions_64", 0, "at least 4.3"),
        grid(model, "layers_positions_64_from_32", 32, "at least 8"),
        clients(model, "capture_each", "at least 3"),
        clients(model, "capture", "at least 0.87"),
        edits(model),
        attribution(model),
        generate(model),
        attention(model),
    ]


def forward(
    model: Model, tokens: int, rounds: int, times: str, share: str | None
) -> Task:
    aim = {"times_as_fast": times}
    if share:
        aim["linear_share"] = share
    return Task(
        name=f"forward_{tokens}",
        work=f"forward of {tokens:,} tokens, logits of the last",
        method="last_logits",
        draw=lambda number: {"ids": prompt(tokens, number)},
        requests=lambda a: [trace_requests.last_logits(a["ids"])],
        values=lambda tensors, a: {"values": tensors[0][0][0]},
        rounds=rounds,
        aim=aim,
        linear=linear_maps(tokens, model.layers, 1),
    )


def linear_maps(rows: int, layers: int, rest_of_last: int) -> dict:
    return {"rows": rows, "layers": layers, "rest_of_last": rest_of_last}


def layer_outputs(model: Model) -> Task:
    return Task(
        name="layer_outputs_512",
        work="every layer's output of 512 tokens",
        method="layer_outputs",
        draw=lambda number: {"ids": prompt(512, number, "outputs")},
        requests=lambda a: [trace_requests.layer_outputs(a["ids"])],
        values=lambda tensors, a: {"values": torch.stack(tensors[0])},
        rounds=5,
        linear=linear_maps(512, model.layers, 512),
    )


def one_layer(model: Model) -> Task:
    layer = model.middle
    return Task(
        name="one_layer_512",
        work="the middle layer's output at the last of 512 tokens",
        method="one_layer",
        draw=lambda number: {
            "ids": prompt(512, number, "one"),
            "layer": layer,
        },
        requests=lambda a: [trace_requests.one_layer(a["ids"], layer)],
        values=lambda tensors, a: {"values": tensors[0][0][0]},
        rounds=5,
        linear=linear_maps(512, layer + 1, 1),
    )


def layers_sweep(
    model: Model,
    tokens: int,
    common: int,
    rounds: int,
    times: str | None,
    batches: tuple,
) -> Task:
    cells = [(layer, tokens - 1) for layer in range(model.layers)]

    def draw(number: int) -> dict:
        return pair(tokens, number, common) | {"cells": cells, "token": TOKEN}

    return Task(
        name=f"layers_last_{tokens}" + f"_from_{common}" * bool(common),
        work=f"patching sweep of {tokens} tokens, every layer at the last position, {prompts_text(common)}",
        method="sweep",
        draw=draw,
        requests=lambda a: sweep_requests(a, positions=False),
        values=lambda tensors, a: {"values": tensors[0][0]},
        rounds=rounds,
        aim={"times_as_fast": times} if times else {},
        batches=batches,
    )


def grid(model: Model, name: str, common: int, times: str) -> Task:
    tokens = 64
    last = tokens - 1
    sampled = [
        round(at * last / (SAMPLED_POSITIONS - 1))
        for at in range(SAMPLED_POSITIONS)
    ]
    cells = [
        (layer, position)
        for position in sampled
        for layer in range(model.layers)
    ]

    def draw(number: int) -> dict:
        return pair(tokens, number, common) | {"cells": cells, "token": TOKEN}

    def values(tensors: Tensors, arguments: dict) -> dict[str, torch.Tensor]:
        whole = tensors[0][0]
        return {"values": torch.stack([whole[cell] for cell in cells])}

    return Task(
        name=name,
        work=f"patching sweep of {tokens} tokens, every layer and position, {prompts_text(common)}",
        method="sweep",
        draw=draw,
        requests=lambda a: sweep_requests(a, positions=True),
        values=values,
        rounds=3,
        aim={"times_as_fast": times},
        batches=(8, 16, 32),
        scale=tokens / SAMPLED_POSITIONS,
    )


def prompts_text(common: int) -> str:
    alike = f"the same to token {common}" if common else "all different"
    return f"prompts {alike}"


def pair(tokens: int, number: int, common: int) -> dict:
    clean = prompt(tokens, number, f"clean {common}")
    corrupt = clean[:common] + prompt(tokens, number, "corrupt")[common:]
    return {"clean": clean, "corrupt": corrupt}


def sweep_requests(arguments: dict, positions: bool) -> Requests:
    a = arguments
    return [
        trace_requests.sweep(a["clean"], a["corrupt"], a["token"], positions)
    ]


def clients(model: Model, method: str, times: str) -> Task:
    layer = model.middle
    beside = {
        "capture_each": "one after another",
        "capture": "as one ideal batch",
    }

    every_token = CLIENTS * CLIENT_TOKENS

    def draw(number: int) -> dict:
        rows = [
            prompt(CLIENT_TOKENS, number, f"{method} {client}")
            for client in range(CLIENTS)
        ]
        return {"rows": rows, "layer": layer}

    return Task(
        name=f"clients_{CLIENTS}_{method}",
        work=f"{CLIENTS} clients at once, {CLIENT_TOKENS} tokens each, one layer; the libraries {beside[method]}",
        method=method,
        draw=draw,
        requests=lambda a: [
            trace_requests.capture([row], layer) for row in a["rows"]
        ],
        values=lambda tensors, a: {
            "values": torch.stack([each[0] for each in tensors])
        },
        aim={"times_as_fast": times},
        at_once=True,
        own={
            "one_request": lambda a: [trace_requests.capture(a["rows"], layer)]
        },
        linear=linear_maps(every_token, layer + 1, every_token),
    )


def edits(model: Model) -> Task:
    layers = [edit % model.layers for edit in range(EDITS)]
    return Task(
        name=f"edits_{EDITED_TOKENS}",
        work=f"the same {EDITED_TOKENS} tokens with {EDITS} edits at the last, in as many requests, one after another",
        method="edit_each",
        draw=lambda number: {
            "ids": prompt(EDITED_TOKENS, number, "edits"),
            "layers": layers,
        },
        requests=lambda a: [
            trace_requests.edited(a["ids"], layer, number, model)
            for number, layer in enumerate(layers)
        ],
        values=lambda tensors, a: {
            "values": torch.stack([each[0][0] for each in tensors])
        },
        rounds=3,
        aim={"times_as_fast": "at least 6"},
    )


def attribution(model: Model) -> Task:
    return Task(
        name="attribution_64",
        work="gradients of a logit by every layer's output, 64 tokens",
        method="attribution",
        draw=lambda number: {
            "ids": prompt(64, number, "attribution"),
            "token": TOKEN,
        },
        requests=lambda a: [trace_requests.attribution(a["ids"], TOKEN)],
        values=lambda tensors, a: {"values": torch.stack(tensors[0])},
    )


def generate(model: Model) -> Task:
    arguments = {"layer": model.middle, "count": GENERATED}
    return Task(
        name=f"steer_generate_{GENERATED}",
        work=f"{GENERATED} greedy tokens after 64, steered at the middle layer",
        method="generate",
        draw=lambda number: {"ids": prompt(64, number, "steer")} | arguments,
        requests=lambda a: [trace_requests.generate(model=model, **a)],
        values=lambda tensors, a: {},
        rounds=5,
        generated=True,
    )


def attention(model: Model) -> Task:
    layer = model.middle
    return Task(
        name="attention_256",
        work="forward of 256 tokens and one layer's attention probabilities",
        method="attention",
        draw=lambda number: {
            "ids": prompt(256, number, "attention"),
            "layer": layer,
        },
        requests=lambda a: [trace_requests.attention(a["ids"], layer)],
        values=lambda tensors, a: {
            "logits": tensors[0][0][0],
            "probabilities": tensors[0][1],
        },
        aim={"times_own_plain_forward": "at most 1.15"},
        eager=True,
        own={
            "plain_forward": lambda a: [trace_requests.last_logits(a["ids"])]
        },
    )
