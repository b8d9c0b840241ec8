"""Experiments under the stopwatch, in transformers or nnterp: does what each
line of standard input asks for and answers with a line; experiments.py drives
it.

  {"do": "sweep", "clean": [5, 9], "corrupt": [5, 8], "token": 7}
      each layer's output at the last position, from the clean run into the
      corrupt one, a row of one batch each: the token's logit
  {"do": "attribution", "corrupt": [...], "token": 7}
      gradient of the token's logit by every layer's output
  {"do": "generate", "ids": [...], "layer": 3, "count": 32}
      greedy tokens with a seeded vector added to the layer's output

Each in the way that is fastest for someone who knows the library. The answer:

  {"seconds": [0.1], "result": [...]}
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import os
import time
from collections.abc import Iterable

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

VECTOR_SEED = 11
VECTOR_NORM = 4.0


def steering_vector(size: int) -> torch.Tensor:
    """Also what experiments.py sends to the server."""
    vector = torch.randn(
        size, generator=torch.Generator().manual_seed(VECTOR_SEED)
    )
    return vector * (VECTOR_NORM / vector.norm())


class Transformers:
    """PyTorch hooks. The weights are frozen for gradients alone: see
    transformers_side.py."""

    def __init__(self, folder: str) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", attn_implementation="sdpa"
        ).eval()
        self._layers = self._model.model.layers
        self._vector = steering_vector(self._model.config.hidden_size).to(
            self._model.dtype
        )

    @torch.no_grad()
    def sweep(self, clean: list, corrupt: list, token: int) -> list[float]:
        outputs = self._outputs(clean)
        count = len(self._layers)

        def patch(layer: int):
            def hook(module, arguments, output):
                output[layer, -1] = outputs[layer][0, -1]

            return hook

        handles = [
            self._layers[layer].register_forward_hook(patch(layer))
            for layer in range(count)
        ]
        try:
            hidden = self._last_hidden([corrupt] * count)
        finally:
            _remove(handles)
        return self._model.lm_head(hidden[:, -1])[:, token].tolist()

    def attribution(self, corrupt: list, token: int) -> list[float]:
        outputs = {}

        def keep(layer: int):
            def hook(module, arguments, output):
                outputs[layer] = output

            return hook

        embeddings = self._model.model.embed_tokens
        handles = [
            embeddings.register_forward_hook(
                lambda module, arguments, output: output.requires_grad_()
            )
        ] + [
            layer.register_forward_hook(keep(number))
            for number, layer in enumerate(self._layers)
        ]
        self._model.requires_grad_(False)
        try:
            hidden = self._last_hidden([corrupt])[:, -1]
            logit = self._model.lm_head(hidden)[0, token]
            gradients = torch.autograd.grad(logit, list(outputs.values()))
        finally:
            _remove(handles)
            self._model.requires_grad_(True)
        return [gradient.float().norm().item() for gradient in gradients]

    @torch.no_grad()
    def generate(self, ids: list, layer: int, count: int) -> list[int]:
        def steer(module, arguments, output):
            return output + self._vector

        handle = self._layers[layer].register_forward_hook(steer)
        try:
            tokens = self._model.generate(
                torch.tensor([ids]), max_new_tokens=count, do_sample=False
            )
        finally:
            handle.remove()
        return tokens[0, len(ids) :].tolist()

    def _outputs(self, ids: list) -> list[torch.Tensor]:
        outputs = []
        handles = [
            layer.register_forward_hook(
                lambda module, arguments, output: outputs.append(output)
            )
            for layer in self._layers
        ]
        try:
            self._last_hidden([ids])
        finally:
            _remove(handles)
        return outputs

    def _last_hidden(self, rows: list[list]) -> torch.Tensor:
        return self._model.model(
            torch.tensor(rows), use_cache=False
        ).last_hidden_state


def _remove(handles: Iterable) -> None:
    for handle in handles:
        handle.remove()


class Nnterp:
    """nnterp's own idioms: an invoke for each cell of the sweep."""

    def __init__(self, folder: str) -> None:
        from nnterp import StandardizedTransformer

        config = AutoConfig.from_pretrained(folder)
        self._model = StandardizedTransformer(
            folder, dtype=config.dtype, check_renaming=False
        )
        # Before the first trace there are no weights to freeze.
        self._model.dispatch()
        self._count = self._model.num_layers
        self._vector = steering_vector(self._model.hidden_size).to(
            self._model.dtype
        )

    @torch.no_grad()
    def sweep(self, clean: list, corrupt: list, token: int) -> list[float]:
        model, count = self._model, self._count
        with model.trace(torch.tensor([clean]), use_cache=False) as tracer:
            outputs = [].save()
            for layer in range(count):
                outputs.append(model.layers_output[layer].clone())
            tracer.stop()
        with model.trace(logits_to_keep=1, use_cache=False) as tracer:
            logits = [].save()
            for layer in range(count):
                with tracer.invoke(corrupt):
                    model.layers_output[layer][:, -1] = outputs[layer][:, -1]
                    logits.append(model.lm_head.output[0, -1, token])
        return torch.stack(list(logits)).tolist()

    def attribution(self, corrupt: list, token: int) -> list[float]:
        model, count = self._model, self._count
        model._model.requires_grad_(False)  # nnsight traces what it does not know
        with model.trace(torch.tensor([corrupt]), use_cache=False):
            outputs = []
            for layer in range(count):
                output = model.layers_output[layer]
                if layer == 0:
                    output.requires_grad_(True)
                outputs.append(output)
            logit = model.logits[0, -1, token]
            gradients = [].save()
            with logit.backward():
                for layer in reversed(range(count)):
                    gradients.append(outputs[layer].grad)
        return [g.float().norm().item() for g in list(gradients)[::-1]]

    @torch.no_grad()
    def generate(self, ids: list, layer: int, count: int) -> list[int]:
        model, vector = self._model, self._vector
        with model.generate(max_new_tokens=count, do_sample=False) as tracer:
            with tracer.invoke(torch.tensor([ids])):
                for _ in tracer.iter[:]:
                    model.steer(layer, vector)
            with tracer.invoke():
                tokens = tracer.result.save()
        return tokens[0, len(ids) :].tolist()


def main() -> None:
    sides = {"transformers": Transformers, "nnterp": Nnterp}
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("library", choices=sides)
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    model = sides[arguments.library](arguments.folder)
    while True:
        try:
            asked = json.loads(input())
        except EOFError:
            return
        work = getattr(model, asked.pop("do"))
        start = time.perf_counter()
        result = work(**asked)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": [seconds], "result": result}), flush=True)


if __name__ == "__main__":
    main()
